"""What gc removes of a workspace, and what it keeps; what says that something was removed."""

import os
import shutil
import threading
import time

import pytest

from dssl.base.errors import DataError, IntegrityError, LockedError
from dssl.data.ingest import open_dataset
from dssl.execution.in_process import InProcess
from dssl.pipeline.contents import collect_garbage, find_garbage, inspect, note_made, require_artifacts, runs_of
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.records import STAGES
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run
from dssl.pipeline.submission import state_of
from dssl.pipeline.suggestion import suggest_rows
from dssl.storage.artifacts import Workspace
from dssl.storage.files import read_json, write_json
from dssl.storage.lock import WaitsForLock


@pytest.fixture(scope="module")
def _twice(finished, small_spec, tmp_path_factory):
    folder = shutil.copytree(finished[0], tmp_path_factory.mktemp("twice") / "work")
    return folder, run(small_spec, set=["model.eta=3"], workspace=folder, execution=InProcess(2))


@pytest.fixture
def twice(_twice, tmp_path):
    """A copy of a workspace with two runs that differ in the models, and the result of the second."""
    return Workspace.at(shutil.copytree(_twice[0], tmp_path / "work")), _twice[1]


def found_names(found):
    return sorted(f"{item.what} {item.stage}".strip() for item in found.items)


def test_what_runs_need_is_kept(twice):
    workspace, _ = twice
    found = find_garbage(workspace)
    assert (found.items, found.size, len(found.kept)) == ([], 0, 2)
    assert found.kept_bytes > 0
    before = sorted(workspace.root.rglob("*"))
    assert collect_garbage(workspace).items == []
    assert sorted(workspace.root.rglob("*")) == before


@pytest.mark.extended
def test_of_a_dropped_run_goes_what_no_other_needs_and_it_is_told(twice, finished, spec):
    workspace, result = twice
    listed = find_garbage(workspace, drop=[result.run])
    assert found_names(listed) == [
        "artifact models", "artifact predictions", "artifact sample", "artifact scores", "artifact selection", "run"]
    assert listed.size > 0
    model = workspace.root / result.model_path.relative_to(result.workspace)
    before = open_model(model).model.attributes
    removed = collect_garbage(workspace, drop=[result.run])
    assert removed.to_dict() == listed.to_dict()
    assert not any(item.path.exists() for item in removed.items)
    assert workspace.verify() > 0
    open_model(workspace.root / "runs" / finished[1].run)
    with pytest.raises(DataError, match=r"was removed by dssl gc on 20\d\d-"):
        open_model(model)
    planned = {item.stage.name: item for item in plan(spec, set=["model.eta=3"], workspace=workspace.root).stages}
    assert planned["models"].why.startswith("removed by dssl gc on 20")
    assert planned["columns"].status == "cached"
    again = run(spec, set=["model.eta=3"], workspace=workspace.root, execution=InProcess(2))
    assert again.metrics == result.metrics
    assert workspace.removed() == {}, "all is there again"
    assert open_model(model).model.attributes == before


@pytest.mark.parametrize(("content", "message"), [
    (None, "has no stages.json"), ("", "stages.json is cut short or damaged"), ('["dataset/12', "cut short or damaged"),
    ("{}", "holds no list of artifacts"), ("[1]", "holds no list of artifacts")])
def test_a_run_that_does_not_say_what_it_needs_is_told_of_and_nothing_is_removed(twice, content, message):
    workspace, second = twice
    file = workspace.root / "runs" / second.run / STAGES
    file.write_text(content) if content is not None else file.unlink()
    before = sorted(workspace.root.glob("artifacts/*/*/manifest.json"))
    for act in (find_garbage, collect_garbage):
        with pytest.raises(IntegrityError, match=rf"(?s){message}.*--drop {second.run}"):
            act(workspace)
    assert sorted(workspace.root.glob("artifacts/*/*/manifest.json")) == before
    assert {item.what for item in find_garbage(workspace, drop=[second.run]).items} == {"run", "artifact"}


def test_a_run_without_its_model_or_with_a_damaged_result_says_what_to_do(twice):
    workspace, result = twice
    folder = workspace.root / "runs" / result.run
    shutil.rmtree(workspace.root / result.model_path.relative_to(result.workspace))
    with pytest.raises(DataError, match=r"(?s)the model of the run is gone.*run the pipeline again"):
        open_model(folder)
    (folder / "result.json").write_text('{"run')
    with pytest.raises(IntegrityError, match=r"(?s)is not a JSON file.*delete the folder of this run"):
        open_model(folder)


@pytest.mark.parametrize("stage", ["dataset", "labels", "graph"])
def test_an_artifact_that_somebody_deleted_is_missed_wherever_it_is_needed(workspace, finished, stage):
    folder, place = workspace / "runs" / finished[1].run, Workspace.at(workspace)
    require_artifacts(place)
    shutil.rmtree(workspace / "artifacts" / stage)
    for ask in (lambda: require_artifacts(place), lambda: suggest_rows(folder, InProcess(1))):
        with pytest.raises(IntegrityError, match=rf"(?s)artifacts/{stage}/\w+ is missing.*pipeline again"):
            ask()


def test_what_gc_removed_is_not_missed_until_it_is_made_again(trimmed):
    workspace = trimmed[0]
    require_artifacts(workspace)
    (name, _), *others = sorted(workspace.removed().items())
    note_made(workspace, [workspace.root / "artifacts" / name])
    assert workspace.removed() == dict(others)
    with pytest.raises(IntegrityError, match=rf"(?s){name} is missing.*needs it.*--yes --workspace .*{workspace.root}"):
        require_artifacts(workspace)


def test_a_run_that_has_not_ended_says_so_where_its_model_is_asked_for(workspace, finished):
    folder = workspace / "runs" / finished[1].run
    (folder / "result.json").unlink()
    with pytest.raises(DataError, match=r"(?s)has no model.*its result\.json is missing.*run the pipeline again: fin"):
        open_model(folder)
    write_json(folder / "kept.json", status := read_json(folder / "status.json"))
    for state, fix in (("running", "wait for its end$"), ("failed", "run the pipeline again: finished")):
        write_json(folder / "status.json", {**status, "state": state, "pid": os.getpid()})
        with Workspace.at(workspace).lock(), pytest.raises(DataError, match=rf"(?s)its state is {state}.*fix: {fix}"):
            open_model(folder)
    (folder / "kept.json").rename(folder / "status.json")
    (folder / "spec.json").rename(folder / "kept")
    (folder / "spec.json").write_text("{")
    assert state_of(folder, lambda engine: False)["name"] == finished[1].name, "status.json has the name"
    (folder / "kept").rename(folder / "spec.json")
    (folder / "status.json").unlink()
    assert [known["name"] for known in runs_of(Workspace.at(workspace))] == [finished[1].name]
    assert state_of(folder, lambda engine: False)["name"] == finished[1].name


def test_so_many_of_the_newest_runs_are_kept(twice, finished):
    workspace, result = twice
    assert find_garbage(workspace, keep_runs=1).kept == [max(result.run, finished[1].run)]
    assert find_garbage(workspace, keep_runs=7).items == []
    assert find_garbage(workspace, keep_runs=1, drop=[result.run, finished[1].run]).kept == []
    everything = collect_garbage(workspace, keep_runs=0)
    assert everything.kept_bytes == 0
    assert list((workspace.root / "artifacts").glob("*/*")) == list((workspace.root / "runs").iterdir()) == []
    with pytest.raises(DataError, match="has no run 2020"):
        find_garbage(workspace, drop=["2020"])


def test_gc_that_is_ended_leaves_no_half_of_an_artifact(twice, spec, monkeypatch):
    workspace, result = twice
    remove, removed = shutil.rmtree, []

    def ended(path, **options):
        removed.append(path)
        if len(removed) > 1:  # after the run, in the middle of its first artifact
            raise KeyboardInterrupt
        remove(path, **options)

    monkeypatch.setattr(shutil, "rmtree", ended)
    with pytest.raises(KeyboardInterrupt):
        collect_garbage(workspace, drop=[result.run])
    monkeypatch.undo()
    planned = plan(spec, set=["model.eta=3"], workspace=workspace.root).stages
    statuses = [item.status for item in planned]
    assert "partial" not in statuses
    assert statuses.count("to run") == 1
    again = run(spec, set=["model.eta=3"], workspace=workspace.root, execution=InProcess(1))
    assert again.metrics == result.metrics
    assert workspace.verify() > 0
    assert not list((workspace.root / "scratch").iterdir()), "what was left is swept away"


def test_a_stopped_run_keeps_what_it_finished_and_not_what_it_began(workspace, spec, finished):
    place = Workspace.at(workspace)
    stopped = workspace / "runs" / "20990101T000000-killed"
    needs = read_json(workspace / "runs" / finished[1].run / STAGES)
    write_json(stopped / STAGES, needs)
    models, = (workspace / "artifacts" / "models").iterdir()
    (models / "manifest.json").unlink()
    (workspace / "scratch" / "dssl-left").mkdir(parents=True)
    (workspace / "scratch" / "dssl-left" / "part").write_bytes(bytes(1000))
    found = collect_garbage(place, drop=[finished[1].run])
    assert found_names(found) == ["run", "scratch", "unfinished models"]
    assert {item.what: item.size for item in found.items}["scratch"] == 1000
    assert not models.exists()
    assert len(list((workspace / "artifacts").glob("*/*"))) == len(needs) - 1
    assert plan(spec, workspace=workspace).artifact("columns").exists


def test_a_run_under_way_is_not_cleaned_away_and_another_may_wait_for_it(workspace, spec):
    place = Workspace.at(workspace)
    held = place.lock()
    with held, pytest.raises(LockedError, match="is using"):
        collect_garbage(place, keep_runs=0)
    with held, pytest.raises(LockedError, match="is using"):
        run(spec, workspace=workspace, execution=InProcess(1))
    assert list((workspace / "artifacts").glob("*/*"))

    taken, begun = threading.Event(), time.monotonic()

    def hold():
        with place.lock():
            taken.set()
            time.sleep(0.4)

    other = threading.Thread(target=hold)
    other.start()
    taken.wait()
    with pytest.warns(WaitsForLock, match=r"process \d+ on .* is using .*: waiting for it"):
        result = run(spec, workspace=workspace, execution=InProcess(1), wait=float("inf"))
    other.join()
    assert result.status == "done"
    assert time.monotonic() - begun > 0.4


# Intermediate artifacts


@pytest.fixture(scope="module")
def _trimmed(finished, tmp_path_factory):
    place = Workspace.at(shutil.copytree(finished[0], tmp_path_factory.mktemp("trimmed") / "work"))
    return place, collect_garbage(place, intermediate=True)


@pytest.fixture
def trimmed(_trimmed, tmp_path):
    """A copy of a workspace without its intermediate artifacts, and what was removed."""
    return Workspace.at(shutil.copytree(_trimmed[0].root, tmp_path / "trimmed")), _trimmed[1]


def test_intermediate_artifacts_are_named_before_and_go_when_asked(workspace, trimmed):
    found = find_garbage(Workspace.at(workspace))
    assert found.items == []
    assert found.kept_bytes > found.intermediate_bytes > 0
    place, removed = trimmed
    assert found_names(removed) == ["intermediate columns", "intermediate dataset", "intermediate system"]
    assert (removed.size, removed.intermediate_bytes) == (found.intermediate_bytes, 0)
    assert removed.kept_bytes == found.kept_bytes - found.intermediate_bytes
    assert find_garbage(place, intermediate=True).items == []
    assert place.verify() == len(list((place.root / "artifacts").glob("*/*")))


def test_without_them_a_run_predicts_suggests_and_is_shown(trimmed, finished, points_file):
    place, _ = trimmed
    result = RunResult.open(place.root / "runs" / finished[1].run)
    X = open_dataset(points_file).X.read_all()
    assert (result.predict(X) == finished[1].predict(X)).all()
    assert result.report.is_file()
    assert len(result.suggest(3, execution=InProcess(1)).rows) == 3
    shown = inspect(result.run, place)
    assert (shown["intermediate_bytes"], shown["metrics"]) == (0, result.metrics)
    with pytest.raises(DataError, match="was removed"):
        result.dataset  # noqa: B018


@pytest.mark.slow
def test_a_plan_says_what_would_be_made_again_and_a_run_makes_only_that(trimmed, finished, spec):
    place, _ = trimmed
    same = {row["name"]: row for row in plan(spec, workspace=place.root).records()}
    assert {row["status"] for row in same.values()} == {"cached"}
    assert same["columns"]["why"].endswith("no stage to run reads it")
    again = run(spec, workspace=place.root, execution=InProcess(1))
    assert (again.metrics, {stage.status for stage in again.stages}) == (finished[1].metrics, {"cached"})
    changed = plan(spec, set=["model.eta=3"], workspace=place.root).records()
    assert [row["name"] for row in changed if row["status"] != "cached"] == [
        "dataset", "selection", "models", "sample", "scores", "predictions"]
    solved = plan(spec, workspace=place.root, from_stage="covariance").records()
    made_again = [row["name"] for row in solved if row["status"] != "cached"]
    assert made_again == ["dataset", "system", "columns", "covariance", "selection", "models", "sample", "scores",
                          "predictions"]
    assert next(row for row in solved if row["name"] == "system")["why"].startswith("removed by dssl gc on 20")
    result = run(spec, workspace=place.root, execution=InProcess(1), from_stage="covariance")
    assert [stage.name for stage in result.stages if stage.status == "done"] == made_again
    assert result.metrics == finished[1].metrics
    anew = run(spec, workspace=place.root, execution=InProcess(1), from_stage="dataset")
    assert (anew.metrics, {stage.status for stage in anew.stages}) == (finished[1].metrics, {"done"})
    assert find_garbage(place, keep_runs=0).kept_bytes == 0
    collect_garbage(place, keep_runs=0)
    assert not list((place.root / "manifests").glob("*/*"))


def test_what_a_run_that_is_not_done_needs_is_kept(workspace, finished):
    stopped = workspace / "runs" / "20990101T000000-killed"
    write_json(stopped / STAGES, read_json(workspace / "runs" / finished[1].run / STAGES))
    assert find_garbage(Workspace.at(workspace), intermediate=True).items == []


@pytest.mark.extended
def test_a_run_may_keep_results_alone(spec, tmp_path):
    result = run(spec, workspace=tmp_path, execution=InProcess(1), keep="results")
    assert result.intermediate_bytes == 0
    assert result.disk_bytes == find_garbage(Workspace.at(tmp_path)).kept_bytes
    assert RunResult.open(result.folder).to_dict() == result.to_dict()
    assert not list((tmp_path / "artifacts" / "columns").glob("*"))
    assert {row["status"] for row in plan(spec, workspace=tmp_path).records()} == {"cached"}

"""What gc removes of a workspace, and what it keeps; what says that something was removed."""

import shutil
import threading
import time

import pytest

from dssl.errors import DataError, LockedError
from dssl.execution.in_process import InProcess
from dssl.pipeline.gc import STAGES, collect_garbage, find_garbage
from dssl.pipeline.plan import plan
from dssl.pipeline.prediction import open_model
from dssl.pipeline.run import run
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


def test_of_a_dropped_run_goes_what_no_other_needs_and_it_is_told(twice, finished, spec):
    workspace, result = twice
    listed = find_garbage(workspace, drop=[result.run])
    assert found_names(listed) == ["artifact models", "artifact scores", "artifact selection", "run"]
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
    assert open_model(model).model.attributes == before


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
    with held, pytest.raises(LockedError, match="is running in"):
        collect_garbage(place, keep_runs=0)
    with held, pytest.raises(LockedError, match="is running in"):
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
    with pytest.warns(WaitsForLock, match=r"process \d+ on .* is running in .*: waiting for it"):
        result = run(spec, workspace=workspace, execution=InProcess(1), wait=float("inf"))
    other.join()
    assert result.status == "done"
    assert time.monotonic() - begun > 0.4

"""A run: what is planned, cached, resumed and made anew, and that it says the same wherever it ran."""

import json
import math
import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs

from dssl.base.errors import DataError, IntegrityError, NotConverged, ParameterError, SpecError
from dssl.data.ingest import open_dataset
from dssl.execution.in_process import InProcess
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.storage.artifacts import Workspace, parts_in
from dssl.storage.csr import as_rows
from dssl.storage.files import read_json

from ..rounding import to_rounding
from ..stored import contents, flip, stored
from .split_arrays import split_arrays

NAMES = KINDS["svm"].names
BEFORE_COLUMNS = NAMES[:NAMES.index("system")]


def statuses(spec, workspace, *overrides):
    return {stage["name"]: stage["status"] for stage in plan(spec, set=overrides, workspace=workspace).records()}


def ran(result):
    return [stage.name for stage in result.stages if stage.status == "done"]


def folder_of(workspace, spec, stage, *overrides):
    planned = {item["name"]: item["address"] for item in plan(spec, set=overrides, workspace=workspace).records()}
    return Path(workspace) / "artifacts" / stage / planned[stage][:24]


def outcome(result):
    return result.metrics, result.baselines, result.gain, result.unreachable


# Result


def test_the_result_says_what_was_found(finished):
    workspace, result = finished
    assert result.status == "done"
    assert ran(result) == NAMES
    assert all(stage.seconds >= 0 and len(stage.address) == 64 for stage in result.stages)
    assert set(result.baselines) == {"base", "shuffled", "landmark_graph", "majority"}
    for scores in (result.metrics, *result.baselines.values()):
        assert scores["n_test"] == 60
        assert np.sum(scores["confusion"]) == 60
        assert scores["error"] == pytest.approx(1 - np.trace(scores["confusion"]) / 60)
        assert scores["accuracy"] == pytest.approx(1 - scores["error"])
    assert result.peak_rss_bytes > 50 << 20
    folder = workspace / "runs" / result.run
    stored = json.loads((folder / "result.json").read_text())
    assert not any(Path(stored[name]).is_absolute() for name in ("model", "report"))  # the workspace may be moved
    assert result.report == folder / "report.html"
    assert "<html" in Path(result.report).read_text() or "<!doctype" in Path(result.report).read_text().lower()
    assert not (workspace / "lock.json").exists()


@pytest.mark.slow
def test_events_tell_every_stage_and_its_progress(spec, tmp_path):
    events = []
    run(spec, workspace=tmp_path, execution=InProcess(2), events=events.append)
    assert [event["stage"] for event in events if event["event"] == "stage" and "seconds" in event] == NAMES
    progress = [(event["done"], event["of"]) for event in events
                if event["event"] == "progress" and event["stage"] == "columns"]
    assert progress == [(done, 5) for done in range(6)]


# Plan


def test_plan_tells_what_is_there(spec, workspace, tmp_path):
    assert set(statuses(spec, tmp_path / "new").values()) == {"to run"}
    assert not (tmp_path / "new").exists()  # a plan writes nothing
    first, *_, last = plan(spec, workspace=tmp_path / "new").records()
    assert first["why"] == "not made yet"
    assert last["why"] == "after dataset, split, labels, points, models, scores"
    assert set(statuses(spec, workspace).values()) == {"cached"}
    planned = {stage["name"]: stage["why"] for stage in plan(spec, workspace=workspace, set=["model.eta=3"]).records()}
    assert planned["selection"] == "given.eta: auto -> 3.0"
    assert planned["points"] == "same inputs and parameters"
    folder_of(workspace, spec, "selection").joinpath("manifest.json").write_text("{")  # no run reads it
    damaged = plan(spec, workspace=workspace, set=["model.eta=3"], until="selection").records()[-1]
    assert damaged["why"] == "not made yet"


def test_plan_tells_that_the_contents_of_a_file_are_new(spec, workspace, tmp_path):
    with np.load(spec["data"]["source"]) as points:
        np.savez(tmp_path / "points.npz", X=points["X"] + 1, y=points["y"])
    spec["data"]["source"] = str(tmp_path / "points.npz")
    first = plan(spec, workspace=workspace).records()[0]
    assert first["why"] == f"the contents of {tmp_path / 'points.npz'} are new"


def test_plan_tells_a_stage_that_was_interrupted(spec, workspace):
    columns = folder_of(workspace, spec, "columns")
    (columns / "manifest.json").unlink()
    for index in (1, 3, 4):
        stored(columns, f"receipts/{index:06d}.json").unlink()
    planned = {stage["name"]: stage for stage in plan(spec, workspace=workspace).records()}
    assert planned["columns"]["status"] == "partial"
    assert planned["columns"]["why"] == "2 parts are finished"
    assert planned["scores"]["status"] == "cached"


# Cache and resume


def test_a_second_run_computes_nothing(spec, finished, workspace):
    before = contents(workspace)
    result = run(spec, workspace=workspace, execution=InProcess(2))
    assert ran(result) == []
    assert {stage.status for stage in result.stages} == {"cached"}
    assert outcome(result) == outcome(finished[1])
    assert contents(workspace) == before


def test_another_eta_fits_and_scores_only(spec, finished, workspace):
    result = run(spec, set=["model.eta=0"], workspace=workspace, execution=InProcess(2))
    assert ran(result) == ["selection", "models", "sample", "scores", "predictions"]
    of_probabilities = dict.fromkeys(("log_loss", "log_loss_interval", "reliability"))  # which the baseline has none of
    model, base = ({**scores, **of_probabilities} for scores in (result.metrics, result.baselines["base"]))
    assert model == base  # eta 0 is the base kernel
    assert outcome(run(spec, workspace=workspace, execution=InProcess(2))) == outcome(finished[1])  # still there


@pytest.mark.slow
def test_a_stage_that_failed_leaves_the_stages_before_it(spec, tmp_path, finished):
    with pytest.raises(NotConverged, match="did not converge") as error:
        run(spec, set=["solver.max_iter=1"], workspace=tmp_path, execution=InProcess(2))
    assert "fix:" in str(error.value)
    assert not (tmp_path / "lock.json").exists()
    failed = statuses(spec, tmp_path, "solver.max_iter=1")
    assert [name for name in NAMES if failed[name] == "cached"] == [*BEFORE_COLUMNS, "system"]
    assert failed["columns"] == "to run"
    result = run(spec, workspace=tmp_path, execution=InProcess(2))
    assert ran(result) == NAMES[NAMES.index("system"):]
    assert outcome(result) == outcome(finished[1])


@pytest.mark.parametrize("left", [(), (1, 3), (0, 1, 2, 3, 4)])
@pytest.mark.extended_cases("left0", "left2")
def test_an_interrupted_stage_repeats_the_missing_parts_only(spec, finished, workspace, left):
    """The state that a kill leaves: no manifest, receipts of the finished parts, and a part that is half written."""
    columns = folder_of(workspace, spec, "columns")
    (columns / "manifest.json").unlink()
    receipts = {int(path.stem): path for path in stored(columns, "receipts").iterdir()}
    for index, path in receipts.items():
        if index not in left:
            path.unlink()
    if 4 not in left:
        next(iter(stored(columns, "shared/Z1/c").rglob("4"))).write_bytes(b"half of a chunk")
    for stage in ("covariance", "selection", "models", "sample", "scores", "predictions"):
        shutil.rmtree(folder_of(workspace, spec, stage))
    before = {index: (receipts[index].stat().st_mtime_ns, receipts[index].read_bytes()) for index in left}
    result = run(spec, workspace=workspace, execution=InProcess(2))
    assert ran(result) == ["columns", "covariance", "selection", "models", "sample", "scores", "predictions"]
    assert before == {index: (receipts[index].stat().st_mtime_ns, receipts[index].read_bytes()) for index in left}
    assert outcome(result) == outcome(finished[1])
    assert contents(workspace) == contents(finished[0])


def test_parts_of_another_budget_are_not_mixed(spec, finished, workspace):
    """The budget decides the blocks; finished parts of other blocks would be of other columns."""
    columns = folder_of(workspace, spec, "columns")
    (columns / "manifest.json").unlink()
    stored(columns, "receipts/000004.json").unlink()
    old = stored(columns, "receipts/000000.json")
    result = run(spec, workspace=workspace, execution=InProcess(2, memory_budget=1 << 29))
    assert not old.exists()
    assert stored(columns, "receipts/000000.json").exists()
    assert outcome(result) == to_rounding(outcome(finished[1]))


@pytest.mark.slow
def test_fresh_makes_every_artifact_anew(spec, finished, workspace):
    run(spec, set=["model.eta=3"], workspace=workspace, execution=InProcess(2))
    other = folder_of(workspace, spec, "models", "model.eta=3") / "manifest.json"
    manifests = {stage: folder_of(workspace, spec, stage) / "manifest.json" for stage in NAMES}
    before = {stage: path.stat().st_mtime_ns for stage, path in manifests.items()}
    kept = other.stat().st_mtime_ns
    result = run(spec, workspace=workspace, execution=InProcess(2), fresh=True)
    assert ran(result) == NAMES
    assert all(path.stat().st_mtime_ns > before[stage] for stage, path in manifests.items())
    assert other.stat().st_mtime_ns == kept  # of another spec
    assert outcome(result) == outcome(finished[1])


def test_the_first_manifest_stays(spec, workspace):
    place = Workspace.at(workspace)
    made = place.artifact("columns", 1, {"power": 2}, {"system": "a"})
    made.begin({})
    made.publish({"by": "first"})
    made.publish({"by": "second"})
    assert made.attributes == {"by": "first"}


# The same everywhere


def test_the_same_spec_gives_the_same_bytes(spec, finished, tmp_path):
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert outcome(result) == outcome(finished[1])
    assert [stage.address for stage in result.stages] == [stage.address for stage in finished[1].stages]
    assert contents(tmp_path) == contents(finished[0])


@pytest.mark.slow
def test_the_memory_budget_changes_blocks_and_not_metrics(spec, tmp_path):
    X, y = make_blobs(3000, n_features=4, centers=3, cluster_std=3.0, random_state=0)
    np.savez(tmp_path / "points.npz", X=X.astype(np.float32), y=y)
    spec |= {"data": {"source": str(tmp_path / "points.npz"), "test": {"count": 500}, "read": {"block_rows": 700}},
             "model": {"kind": "svm", "n_landmarks": 100}, "solver": {"method": "gauss_seidel", "block_columns": 100}}
    blocks, found = {}, {}
    for budget in (11 << 20, 1 << 30):
        place = tmp_path / str(budget)
        found[budget] = run(spec, workspace=place, execution=InProcess(2, memory_budget=budget))
        blocks[budget] = len(list(stored(folder_of(place, spec, "columns"), "receipts").iterdir()))
    assert blocks[11 << 20] > blocks[1 << 30] == 1
    assert outcome(found[11 << 20]) == to_rounding(outcome(found[1 << 30]))


# Prediction


@pytest.mark.parametrize("name", ["model", "base", "shuffled", "landmark_graph"])
def test_an_opened_model_predicts_what_the_run_scored(spec, finished, points_file, name):
    workspace, result = finished
    split = split_arrays(folder_of(workspace, spec, "split"))
    codes = parts_in(folder_of(workspace, spec, "scores")).rows("codes").read_all()
    column = ["base", "landmark_graph", "model", "shuffled"].index(name)
    X = open_dataset(points_file).X
    for path in (result.model_path, workspace / "runs" / result.run / "result.json"):
        found = open_model(path, name).predict(X)
        assert found.shape == (260,)
        assert_array_equal(found[split["test"]], codes[:, column])  # classes 0, 1, 2 are their own codes
    scores = result.metrics if name == "model" else result.baselines[name]
    assert np.mean(found[split["test"]] != split["test_codes"]) == scores["error"]


def test_a_prediction_does_not_depend_on_blocks(finished, points_file):
    X = open_dataset(points_file).X
    fitted = open_model(finished[1].model_path)
    assert_array_equal(fitted.predict(X, InProcess(2, memory_budget=40_000)), fitted.predict(X))
    assert fitted.predict(as_rows(np.empty((0, 4), np.float32))).shape == (0,)


@pytest.mark.parametrize(("place", "name", "message"), [
    ("model", "bass", "has no model named 'bass'"), ("nowhere", "model", "does not exist"),
    ("covariance", "model", "has no model named 'model'"),
])
def test_what_is_not_a_model(spec, finished, place, name, message):
    workspace, result = finished
    path = {"model": result.model_path, "nowhere": workspace / "none",
            "covariance": folder_of(workspace, spec, "covariance")}[place]
    with pytest.raises(DataError, match=message):
        open_model(path, name)


def test_a_damaged_model_is_not_opened(spec, workspace):
    models = folder_of(workspace, spec, "models")
    chunk = next(path for path in stored(models, "parts/000000/model.coef/c").rglob("*") if path.is_file())
    flip(chunk)
    with pytest.raises(IntegrityError, match=str(chunk)):
        open_model(models)


# Data that a run refuses


@pytest.mark.parametrize(("overrides", "error", "message"), [
    (["data.keep=[0]"], DataError, "has one class, 0"), (["data.keep=[7]"], DataError, "no class is 7"),
    (["labels.per_class=90"], DataError, "90 labeled points a class asked for"),
    (["data.test={official: true}"], DataError, "no official split"),
    (["data.keep=[0, 1]", "data.test.count=199"], ValueError, "199 test points asked for"),
    (["data.keep=[0, 1]", "data.points=200"], ValueError, "200 points asked for"),
    (["data.read.target=nothing"], DataError, "nothing"), (["data.read.targt=y"], SpecError, "targt"),
])
def test_data_that_cannot_be_used_are_refused_with_a_reason(spec, tmp_path, overrides, error, message):
    with pytest.raises(error, match=message) as raised:
        run(spec, set=overrides, workspace=tmp_path, execution=InProcess(1))
    assert "fix:" in str(raised.value)


@pytest.mark.slow
def test_unlabeled_rows_of_the_file_are_trained_on_and_never_tested(spec, points_file, tmp_path):
    with np.load(points_file) as arrays:
        X, y = arrays["X"], arrays["y"].copy()
    y[::4] = -1
    np.savez(tmp_path / "half.npz", X=X, y=y)
    spec["data"]["source"] = str(tmp_path / "half.npz")
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    split = split_arrays(folder_of(tmp_path / "work", spec, "split"))
    assert len(split["train"]) == 200
    assert (split["train_codes"] == -1).sum() == 65
    assert (y[split["test"]] >= 0).all()
    assert np.sum(result.metrics["confusion"]) == 60


def test_named_and_joined_classes(spec, points_file, tmp_path):
    spec["data"]["classes"] = {"first": [0], "others": [1, 2]}
    result = run(spec, workspace=tmp_path, execution=InProcess(2))
    assert np.shape(result.metrics["confusion"]) == (2, 2)
    found = open_model(result.model_path).predict(open_dataset(points_file).X)
    assert set(found.tolist()) == {"first", "others"}


@pytest.mark.parametrize(("given", "error", "message"), [
    ({"wait": -1}, ParameterError, "wait=-1"), ({"wait": math.nan}, ParameterError, "wait=nan"),
    ({"wait": "1"}, ParameterError, "wait='1'"), ({"events": 5}, ParameterError, "events=5"),
    ({"execution": 5}, ParameterError, "execution=5"), ({"set": "model.eta=3"}, ParameterError, "set='model.eta=3'"),
    ({"set": 5}, ParameterError, "set=5"), ({"set": [5]}, SpecError, "an override 5"),
    ({"workspace": 5}, ParameterError, "workspace=5"), ({"workspace": __file__}, ParameterError, "is a file"),
    ({"spec": 5}, SpecError, "spec=5"), ({"until": 5}, SpecError, "--until 5 is not a stage")])
def test_arguments_that_are_none_are_told_of_before_anything_is_made(spec, tmp_path, given, error, message):
    with pytest.raises(error, match=message):
        run(**{"spec": spec, "workspace": tmp_path / "work", **given})
    assert not (tmp_path / "work").exists()


def test_a_budget_that_is_passed_is_that_of_the_execution(spec, tmp_path):
    execution = InProcess(1, memory_budget=1 << 30)
    run(spec, workspace=tmp_path, execution=execution, memory_budget=20_000_000, until="dataset")
    begun, = tmp_path.glob("artifacts/dataset/*/begun.json")
    assert read_json(begun)["conditions"] == {"memory_budget": 20_000_000}


def test_runs_are_numbered_in_time(spec, workspace):
    begin = time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    first = run(spec, workspace=workspace, execution=InProcess(1)).run
    assert begin <= first.split("-")[0] <= time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    assert len(list((workspace / "runs").iterdir())) == 2

"""The result of a run, what it predicts, how a notebook shows it, and what inspect says by all its names."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import dssl
from dssl.base.errors import DataError, IntegrityError
from dssl.data.dataset import Dataset
from dssl.data.scaling.out_of_range import OutOfRange
from dssl.execution.in_process import InProcess
from dssl.pipeline.contents import inspect
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run
from dssl.storage.artifacts import Workspace

from ..stored import stored


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """The table that a run of a category, a number and missing cells read, and its result."""
    folder = tmp_path_factory.mktemp("result")
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 240)
    table = pd.DataFrame({"size": (rng.normal(size=240) + 3 * y).round(3),
                          "color": np.where(y == 1, "red", rng.choice(["blue", "green"], 240)),
                          "kind": np.array(["no", "yes"])[y]})
    table.loc[::7, "size"] = None
    table.to_csv(folder / "table.csv", index=False)
    spec = {"name": "mixed", "labels": {"per_class": 8}, "model": {"kind": "laprls"},
            "data": {"source": str(folder / "table.csv"), "test": {"count": 60},
                     "read": {"target": "kind", "when_missing": "impute", "when_text": "one_hot"}}}
    return table, run(spec, workspace=folder / "work", execution=InProcess(1))


def test_a_result_is_what_was_stored_and_what_json_prints(finished):
    workspace, result = finished
    again = RunResult.open(workspace / "runs" / result.run)
    assert again.to_dict() == RunResult.open(workspace / "runs" / result.run / "result.json").to_dict()
    assert json.loads(json.dumps(again.to_dict())) == json.loads(json.dumps(result.to_dict()))
    assert {"run", "status", "metrics", "baselines", "stages", "peak_rss_bytes", "report", "model"} <= set(
        again.to_dict())
    assert result.workspace == workspace
    assert result.spec["model"]["n_landmarks"] == 40
    assert len(result.dataset) == 260
    assert result.seconds == sum(stage.seconds for stage in result.stages)
    assert result.disk_bytes == sum(stage.disk_bytes for stage in result.stages) > 10_000
    assert dssl.RunResult is RunResult
    with pytest.raises(DataError, match="holds no result"):
        RunResult.open(workspace)


@pytest.mark.parametrize("as_file", [False, True])
def test_a_prediction_warns_of_new_categories_and_of_values_out_of_range(mixed, tmp_path, as_file):
    table, result = mixed
    usual, new = table.drop(columns="kind"), table.drop(columns="kind").assign(size=1e7)
    new.loc[[3, 5], "color"] = "violet"
    for points, path in ((usual, tmp_path / "usual.csv"), (new, tmp_path / "new.csv")):
        points.to_csv(path, index=False)
    result.predict(tmp_path / "usual.csv" if as_file else usual)  # warnings are errors here
    for predict in (result.predict, result.predict_proba):
        with (pytest.warns(UserWarning, match="^2 rows have a text in column 'color' that did not occur") as categories,
              pytest.warns(OutOfRange, match="^240 of 240 values of column 'size' are out of the range") as ranges):
            predict(tmp_path / "new.csv" if as_file else new)
        assert {warning.filename for warning in (*categories, *ranges)} == {__file__}


def test_a_result_opens_where_its_workspace_was_moved_to(finished, tmp_path):
    moved = shutil.copytree(finished[0], tmp_path / "moved")
    result = RunResult.open(moved / "runs" / finished[1].run)
    assert result.report == moved / "runs" / result.run / "report.html"
    assert result.model_path.is_relative_to(moved)


@pytest.mark.slow
def test_predictions_of_a_file_a_table_and_an_array_are_equal(mixed, tmp_path):
    table, result = mixed
    new = table.drop(columns="kind")
    new.to_csv(tmp_path / "new.csv", index=False)
    from_file = result.predict(str(tmp_path / "new.csv"), execution=InProcess(1))
    assert set(from_file) == set(result.classes) == {"no", "yes"}
    assert (from_file == table["kind"]).mean() > 0.8
    wider = new[["color", "size"]].assign(other=1)  # found by name, as in any frame that holds them
    np.testing.assert_array_equal(result.predict(wider), from_file)
    X = result.dataset.X.read_all()
    np.testing.assert_array_equal(result.predict(X), from_file)
    probabilities = result.predict_proba(new)
    np.testing.assert_array_equal(result.classes[probabilities.argmax(axis=1)], from_file)
    assert set(result.predict(new, model="base")) <= {"no", "yes"}
    with pytest.raises(DataError, match="lacks the column color"):
        result.predict(new[["size"]])
    with pytest.raises(DataError, match="X has 2 features, the model was fitted on"):
        result.predict(X[:, :2])


def test_a_notebook_shows_the_verdict_the_figures_and_a_link(finished, monkeypatch):
    _, result = finished
    text, page = repr(result), result._repr_html_()
    assert result.verdict[0] in text
    assert f"report: {result.report}" in text
    assert "test error" in text
    assert "<h4>small</h4>" in page
    assert f'href="{result.report}"' in page
    monkeypatch.chdir(result.workspace)  # where notebooks serve files from
    assert f'href="runs/{result.run}/report.html"' in result._repr_html_()
    for stage in result.stages:
        assert f"<td>{stage.name}</td>" in page


def test_a_stopped_run_has_neither_model_nor_report(spec, tmp_path):
    stopped = run(spec, workspace=tmp_path, execution=InProcess(1), until="labels")
    assert (stopped.status, stopped.until, stopped.report, dict(stopped.metrics)) == ("stopped", "labels", None, {})
    assert "stopped after labels" in repr(stopped)
    assert "stopped after labels" in stopped._repr_html_()
    assert RunResult.open(stopped.folder).to_dict() == stopped.to_dict()
    with pytest.raises(DataError, match="it was stopped after labels"):
        stopped.model()


def test_a_plan_shows_itself(spec, tmp_path):
    made = plan(spec, workspace=tmp_path, workers=2)
    for shown in (repr(made), made._repr_html_()):
        for word in ("columns", "to run", "2 workers", "in all", "an upper bound"):
            assert word in shown
    assert [row["name"] for row in made.records()] == [item.stage.name for item in made.stages]
    assert (tmp_path / "runs").exists() is False


# What inspect says of artifacts, runs and data sets, by all their names


def test_an_artifact_by_all_its_names(spec, finished):
    workspace, _ = finished
    place = Workspace.at(workspace)
    address = {row["name"]: row["address"] for row in plan(spec, workspace=workspace).records()}["columns"]
    by_stage = inspect("columns", place)
    for name in (address, address[:10], str(workspace / "artifacts" / "columns" / address[:24])):
        assert inspect(name, place) == by_stage
    assert (by_stage["kind"], by_stage["status"], by_stage["stage"]) == ("artifact", "complete", "columns")
    assert by_stage["address"] == address
    assert by_stage["params"]["powers"] == [2]
    assert set(by_stage["inputs"]) == {"system", "landmarks"}
    assert by_stage["attributes"]["columns"] == 40
    array, = by_stage["arrays"]
    assert (array["name"], array["shape"], array["dtype"]) == ("shared/Z1", [200, 40], "float64")
    assert array["chunks"] == [200, 8]
    assert array["bytes"] == 8 * 200 * 40
    assert 0 < array["bytes_on_disk"] < by_stage["bytes_on_disk"]


def test_a_run_by_all_its_names(finished):
    workspace, result = finished
    folder = workspace / "runs" / result.run
    found = inspect(result.run, Workspace.at(workspace))
    for name in (folder, folder / "result.json"):
        assert inspect(str(name), Workspace.at(workspace)) == found
    assert (found["kind"], found["status"], found["name"]) == ("run", "done", "small")
    assert found["metrics"] == result.metrics
    assert found["spec"]["model"]["n_landmarks"] == 40


def test_what_was_interrupted(workspace):
    folder = next((workspace / "artifacts" / "columns").iterdir())
    (folder / "manifest.json").unlink()
    stored(folder, "receipts/000004.json").unlink()
    found = inspect(str(folder), Workspace.at(workspace))
    assert found["status"] == "unfinished, 4 parts are finished"
    assert found["stage"] == "columns"
    run = next((workspace / "runs").iterdir())
    (run / "result.json").unlink()
    assert inspect(run.name, Workspace.at(workspace))["status"] == "unfinished"


def test_a_data_set(tmp_path):
    Dataset.from_arrays([[1.0, 2.0], [3.0, 4.0]], [0, 1]).save(tmp_path / "points")
    found = inspect(str(tmp_path / "points"), Workspace.at(tmp_path))
    assert found["kind"] == "data set"
    assert [array["name"] for array in found["arrays"]] == ["shared/X", "shared/y"]


@pytest.mark.parametrize(("name", "message"), [
    ("colums", "nothing called 'colums'"), ("abc", "nothing called"), ("", "nothing called"),
])
def test_what_names_nothing(finished, name, message):
    with pytest.raises(DataError, match=message) as error:
        inspect(name, Workspace.at(finished[0]))
    assert "columns, covariance" in str(error.value)


def test_an_empty_workspace_and_another_folder(tmp_path):
    with pytest.raises(DataError, match="holds no artifact of stage columns"):
        inspect("columns", Workspace.at(tmp_path))
    with pytest.raises(DataError, match="is no artifact, run or data set"):
        inspect(str(tmp_path), Workspace.at(tmp_path))


def test_a_damaged_manifest(workspace):
    folder = next((workspace / "artifacts" / "graph").iterdir())
    text = (folder / "manifest.json").read_text()
    (folder / "manifest.json").write_text(text.replace('"nnz"', '"nmz"'))
    with pytest.raises(IntegrityError, match="is damaged"):
        inspect("graph", Workspace.at(workspace))


# Unfinished parts


def unfinish(workspace, stage, drop):
    folder = next((workspace / "artifacts" / stage).iterdir())
    (folder / "manifest.json").unlink()
    stored(folder, f"receipts/{drop:06d}.json").unlink()
    return folder


def test_finished_parts_of_an_unfinished_stage_are_verified(workspace):
    folder = unfinish(workspace, "columns", 4)
    place = Workspace.at(workspace)
    assert (place.verify(), place.verify_unfinished()) == (len(KINDS["svm"].stages) - 1, 4)
    chunks = sorted(path for path in stored(folder, "shared/Z1/c").rglob("*") if path.is_file())
    chunks[4].write_bytes(b"half of a chunk")  # of the part that is under way
    assert place.verify_unfinished() == 4
    sound = chunks[2].read_bytes()
    chunks[2].write_bytes(sound[:-5] + b"x" + sound[-4:])
    with pytest.raises(IntegrityError, match=f"{chunks[2]} is damaged") as error:
        place.verify_unfinished()
    assert str(folder) in str(error.value)
    chunks[2].unlink()
    with pytest.raises(IntegrityError, match=f"{chunks[2]} is missing"):
        place.verify_unfinished()


def test_a_part_or_a_receipt_that_is_damaged(workspace):
    folder = next((workspace / "artifacts" / "graph").iterdir())
    (folder / "manifest.json").unlink()
    place = Workspace.at(workspace)
    assert place.verify_unfinished() == 1
    stored(folder, "receipts/000000.json").write_text('{"rows": [0')
    with pytest.raises(IntegrityError, match="is not a JSON file"):
        place.verify_unfinished()

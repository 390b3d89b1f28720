"""The result of a run: its attributes, what it predicts, and how a notebook shows it."""

import json
import shutil

import numpy as np
import pandas as pd
import pytest

import dssl
from dssl.base.errors import DataError
from dssl.execution.in_process import InProcess
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run


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


def test_a_notebook_shows_the_verdict_the_figures_and_a_link(mixed, monkeypatch):
    _, result = mixed
    text, page = repr(result), result._repr_html_()
    assert result.verdict[0] in text
    assert f"report: {result.report}" in text
    assert "test error" in text
    assert "<h4>mixed</h4>" in page
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

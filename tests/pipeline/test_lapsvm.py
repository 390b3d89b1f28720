"""The pipelines of `model.kind: lapsvm`: what they find, what names their stages, and what they refuse."""

import json

import numpy as np
import pytest

from dssl.base.errors import SpecError
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run


@pytest.fixture(scope="module")
def fields(points_file):
    return {"name": "small", "data": {"source": str(points_file), "test": {"count": 60}}, "labels": {"per_class": 8},
            "graph": {"n_neighbors": 6, "weights": "heat"},
            "model": {"kind": "lapsvm", "landmarks": {"n_landmarks": 40}}}


@pytest.mark.slow
def test_a_run_has_a_choice_of_penalties_a_model_and_a_report(fields, points_file, tmp_path):
    grid = {"cv": 3, "grid": {
        "gamma_A": ["auto", "100*auto"], "gamma_I": [0, "0.1*auto"], "bandwidth": ["median", 2.0]}}
    result = run({**fields, "selection": grid}, workspace=tmp_path, execution=InProcess(2))
    assert result.metrics["error"] < 0.4
    assert set(result.baselines) == {"base", "shuffled", "majority"}
    assert set(result.selection["model"]) >= {"gamma_A", "gamma_I", "bandwidth", "error", "loss"}
    page = (tmp_path / "runs" / result.run / "report.html").read_text()
    assert "squared_hinge, by Newton steps" in page
    assert not list((tmp_path / "artifacts" / "models").glob("*/within/*"))  # fitted from what the selection kept
    manifest = next((tmp_path / "artifacts" / "selection").glob("*/manifest.json"))
    assert any(json.loads(manifest.read_text())["attributes"]["kept"])
    model = open_model(result.model_path)
    labels = model.predict(model.dataset_of(str(points_file), InProcess(1)).X, InProcess(1))
    with np.load(points_file) as arrays:
        assert (labels == arrays["y"]).mean() > 0.6
    again = run({**fields, "selection": grid}, workspace=tmp_path, execution=InProcess(1))
    assert {stage.status for stage in again.stages} == {"cached"}


def test_the_loss_is_part_of_the_address(fields):
    def addresses(*overrides):
        return {stage["name"]: stage["address"] for stage in plan(fields, set=overrides, workspace="nowhere").records()}

    before = addresses()
    for override in ("model.loss=logistic", "model.kind=laprls", "selection={grid: {loss: [logistic]}}"):
        after = addresses(override)
        moved = {name for name in before if before[name] != after[name]}
        assert moved == {"selection", "models", "sample", "scores", "predictions"}, override
    huber, wide = addresses("model.loss=huber_hinge"), addresses("model.loss=huber_hinge", "model.h=0.5")
    assert huber["models"] != wide["models"]


@pytest.mark.parametrize(("override", "says"), [
    ("model.loss=hinge", "huber_hinge"), ("model.h=0", "model.h"),
    ("model.h=0.5", "model.h is of huber_hinge, and the loss is squared_hinge"),
    ("selection={grid: {loss: [logistic, logistic]}}", "names a loss twice"),
    ("model.fit_intercept=false", "fit_intercept"),
    ("data.task=regression", "regression"), ("model.C=3", "multiscale and transductive have it")])
def test_what_makes_no_sense_is_refused(fields, override, says):
    with pytest.raises(SpecError, match=says):
        load_spec(fields, [override])


@pytest.mark.slow
def test_influence_is_a_method_of_the_selection(fields, tmp_path):
    grid = {"cv": 3, "grid": {"gamma_A": ["auto", "100*auto"]}, "held_out": "refined_influence"}
    result = run({**fields, "selection": grid, "model": {**fields["model"], "loss": "logistic"}}, workspace=tmp_path,
                 execution=InProcess(1))
    page = (tmp_path / "runs" / result.run / "report.html").read_text()
    assert "refined_influence" in page
    assert result.metrics["error"] < 0.4
    with pytest.raises(SpecError, match="with the squared loss"):
        load_spec({**fields, "selection": grid, "model": {"kind": "laprls"}})

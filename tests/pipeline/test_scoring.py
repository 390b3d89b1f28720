"""`model.scoring` of the automatic kind: decisions, baselines, verdict and report are in the metric it names."""

import json
import re

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import balanced_accuracy_score, f1_score, log_loss, roc_auc_score

from dssl import SemiSupervisedClassifier
from dssl.base.errors import DsslError, SpecError
from dssl.execution.in_process import InProcess
from dssl.learners.metrics import LOSSES
from dssl.learners.on_graph import automatic
from dssl.pipeline.load import load_spec, schema
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.selection.scoring import KEYS
from dssl.storage.manifests import read_manifest

from .split_arrays import split_arrays


def write_points(folder, n_classes=2):
    """Write an npz file of Gaussians, half of the points of the first class; return its path, the points and classes.
    """
    rng = np.random.default_rng(0)
    true = np.maximum(rng.integers(-n_classes + 2, n_classes, 240), 0)
    X = rng.normal(size=(240, 3)).astype(np.float32)
    X[np.arange(240), true] += 2
    path = folder / f"points{n_classes}.npz"
    np.savez(path, X=X, y=true)
    return path, X, true


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    return write_points(tmp_path_factory.mktemp("points"))


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    """A workspace in which one graph serves every scoring."""
    return tmp_path_factory.mktemp("work")


def spec_of(path, test=None, **model):
    return {"name": "scored", "data": {"source": str(path), "test": test or {"count": 120}}, "labels": {"count": 40},
            "model": {"kind": "automatic", **model}}


def run_of(path, workspace, **model):
    return run(spec_of(path, **model), workspace=workspace, execution=InProcess(1))


@pytest.mark.slow
def test_pipeline_and_estimator_decide_and_compare_alike(points, workspace):
    scoring = "balanced_accuracy"
    path, X, true = points
    y = np.where(np.arange(240) < 60, true, -1)
    labeled = path.with_name("labeled.npz")
    np.savez(labeled, X=X, y=y)
    spec = {**spec_of(labeled, test={"none": True}, scoring=scoring), "labels": {"given": True}}
    result = run(spec, workspace=workspace, execution=InProcess(1))
    own = SemiSupervisedClassifier(scoring=scoring).fit(X, y)
    assert_array_equal(result.predict(X), own.predict(X))
    held_out = result.gain["by_labels"]
    assert_allclose(1 - held_out["scores"]["model"][KEYS[scoring]], own.gain_.with_graph, atol=1e-6)
    assert_allclose(held_out["over_base"]["gain"], -own.gain_.difference, atol=1e-6)
    assert_allclose(held_out["over_base"]["p_value"], own.gain_.p_value, atol=1e-5)
    assert_allclose(held_out["over_base"]["interval"], np.negative(own.gain_.difference_interval)[::-1], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("scoring", list(KEYS))
@pytest.mark.extended_cases("f1", "f1_macro", "neg_log_loss", "roc_auc")
def test_test_points_are_scored_and_compared_in_the_metric(points, workspace, scoring):
    path, X, true = points
    result = run_of(path, workspace, scoring=scoring)
    splits = [split_arrays(own) for own in (workspace / "artifacts" / "split").iterdir()]
    test = next(own["test"] for own in splits if len(own["test"]))

    def expected(model):
        codes, P = result.predict(X[test], model=model), result.predict_proba(X[test], model=model)
        return {"balanced_accuracy": balanced_accuracy_score(true[test], codes), "f1": f1_score(true[test], codes),
                "f1_macro": f1_score(true[test], codes, average="macro"),
                "roc_auc": roc_auc_score(true[test], P[:, 1]), "neg_log_loss": log_loss(true[test], P)}[scoring]

    key, ours, base = KEYS[scoring], expected("model"), expected("base")
    assert result.metrics["scoring"] == scoring
    assert_allclose((result.metrics[key], result.baselines["base"][key]), (ours, base), atol=1e-5)
    assert_allclose(result.gain["over_base"]["gain"], base - ours if scoring == "neg_log_loss" else ours - base,
                    atol=2e-5)
    low, high = result.metrics[f"{key}_interval"]
    assert low < result.metrics[key] < high
    low, high = result.to_dict()["gain"]["over_base"]["interval"]
    assert low <= result.gain["over_base"]["gain"] <= high
    assert "95 % interval" in result.verdict[0]
    for name in ("balanced_accuracy", "f1_macro", "roc_auc", "log_loss"):
        low, high = result.metrics[f"{name}_interval"]
        assert low <= result.metrics[name] <= high
    reliability = result.metrics["reliability"]
    P = result.predict_proba(X[test])[np.arange(len(test)), result.predict(X[test])]
    assert_allclose(reliability["probability"], P.mean(), rtol=1e-5)
    assert_allclose(reliability["correct"], 1 - result.metrics["error"], rtol=1e-12)
    assert reliability["n"] == len(test)
    assert "Can the probabilities be trusted?" in result.report.read_text(encoding="utf-8")
    undefined = ["nearest"] if scoring == "neg_log_loss" else None  # it has no probabilities
    assert result.gain.get("undefined_over") == undefined
    guess = {"balanced_accuracy": 0.5, "roc_auc": 0.5}.get(scoring)
    assert guess is None or abs(result.baselines["majority"][key] - guess) < 1e-12
    assert f"test {key.replace('_', ' ').replace('roc auc', 'AUC').replace('f1', 'F1')}".replace(
        "F1 macro", "macro F1") in result.verdict[0]
    assert "McNemar" not in " ".join(result.verdict)
    page = result.report.read_text(encoding="utf-8")
    assert ("not defined" in page) == (undefined is not None)
    assert "The curve shows the error, although the metric of this run is" in re.sub(r"\s+", " ", page)


@pytest.mark.extended
@pytest.mark.slow
def test_the_graph_serves_every_metric_and_the_guess_of_f1_is_the_second_class(points, workspace):
    path, *_ = points
    result = run_of(path, workspace, scoring="f1")
    again = run_of(path, workspace)
    assert {"points", "neighbors", "graph"} <= {stage.name for stage in again.stages if stage.status == "cached"}
    assert result.baselines["majority"]["predicts"] == 1
    share = result.baselines["majority"]["accuracy"]
    assert_allclose(result.baselines["majority"]["f1"], 2 * share / (1 + share))
    assert "scoring" not in again.metrics


def test_probabilities_of_one_label_a_class_are_scored(points, workspace):
    """No label can be held out, so that nothing is compared on labels; the test points are scored."""
    path, *_ = points
    spec = {**spec_of(path, scoring="neg_log_loss"), "labels": {"per_class": 1}}
    result = run(spec, workspace=workspace, execution=InProcess(1))
    assert result.metrics["scoring"] == "neg_log_loss"
    assert result.metrics["log_loss"] < 0.5  # of equal probabilities 0.69
    assert result.gain["by_labels"]["n"] == 0


def test_a_model_of_known_class_sizes_has_probabilities(points, workspace):
    path, *_ = points
    result = run_of(path, workspace, scoring="neg_log_loss", class_sizes=[0.5, 0.5])
    assert result.metrics["scoring"] == "neg_log_loss"
    assert result.metrics["log_loss"] < result.baselines["majority"]["log_loss"]
    assert result.gain["over_majority"]["gain"] > 0


@pytest.mark.parametrize(("task", "model", "why"), [
    ("regression", {"scoring": "f1_macro"}, "it is a metric of classes"),
    ("classification", {"scoring": "f1", "class_sizes": [1, 2]}, "already decide"),
    ("classification", {"scoring": "precision"}, "Input should be 'accuracy', 'balanced_accuracy'")])
def test_what_cannot_be_decided_is_refused_by_the_spec(task, model, why):
    with pytest.raises(SpecError, match=why):
        load_spec({"name": "a", "data": {"source": "a.csv", "task": task}, "labels": {"count": 9}, "model": model})


@pytest.mark.extended
def test_of_many_labels_model_and_base_have_probabilities_to_compare(points, tmp_path, monkeypatch):
    path, *_ = points
    monkeypatch.setattr(automatic, "MAX_LABELS", 20)
    result = run_of(path, tmp_path, scoring="neg_log_loss")
    models = read_manifest(next((tmp_path / "artifacts" / "models").iterdir()) / "manifest.json")
    assert models["attributes"]["choice"]["chosen"] == "nearest_labels"  # by which rows are suggested as by any model
    assert len(result.suggest(3).rows) == 3
    assert result.gain["unlabeled_data"]
    assert result.gain["undefined_over"] == ["nearest"]
    assert result.gain["by_labels"]["scores"]["base"]["log_loss"] > 0


def test_the_schema_lists_the_metrics():
    text = json.dumps(schema()["$defs"]["AutomaticModel"]["properties"]["scoring"])
    assert all(f'"{name}"' in text for name in LOSSES)


def test_f1_of_three_classes_is_refused_before_the_graph_is_made(tmp_path):
    path, *_ = write_points(tmp_path, 3)
    with pytest.raises(DsslError, match="f1_macro"):
        run_of(path, tmp_path / "work", scoring="f1")
    assert {own.name for own in (tmp_path / "work" / "artifacts").iterdir()} <= {"dataset", "split"}
    made = plan(spec_of(path, scoring="f1"), workspace=tmp_path / "work")
    assert [item.stage.name for item in made.refused] == ["models"]

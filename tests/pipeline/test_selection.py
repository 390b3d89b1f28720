"""A pipeline that chooses its parameters by cross-validation."""

import numpy as np
import pytest

from dssl.base.errors import DataError, SpecError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import BaseKernels
from dssl.learners.class_prior import LABELS, ClassWeight
from dssl.learners.deformed import ETAS
from dssl.methods.deformed.models import DeformedProblem, LearningParams
from dssl.pipeline.load import load_spec
from dssl.pipeline.run import run
from dssl.selection.candidates import LOWEST_ERROR, CandidateScores
from dssl.selection.held_out_scores import SCORED
from dssl.storage.blocks import ArrayRows, HeldArrays
from dssl.storage.manifests import read_manifest

GRID = {"cv": 3, "grid": {
    "power": [1, 2], "eta": [1, 30], "bandwidth": ["0.5*median", "median", 4.0], "C": [1, 10]}}


@pytest.fixture(scope="module")
def searched(small_spec, tmp_path_factory):
    workspace = tmp_path_factory.mktemp("searched")
    spec = {**small_spec, "selection": GRID, "labels": {"per_class": 6}}
    return spec, workspace, run(spec, workspace=workspace, execution=InProcess(2))


def facts(workspace, stage):
    path, = (workspace / "artifacts" / stage).glob("*/manifest.json")
    return read_manifest(path)["attributes"]


@pytest.mark.slow
def test_each_model_chooses_its_best_grid_point(searched):
    _, workspace, result = searched
    found = facts(workspace, "selection")
    assert found["folds"] == 3
    assert {name: len(rows) for name, rows in found["grid"].items()} == {"model": 24, "base": 6, "landmark_graph": 24}
    for name, rows in found["grid"].items():
        lowest = min((row["error"], row["loss"]) for row in rows)
        assert (found["choices"][name]["error"], found["choices"][name]["loss"]) == lowest
    assert found["choices"]["shuffled"] == found["choices"]["model"]
    models = facts(workspace, "models")["models"]
    for name, model in models.items():
        assert model["parameters"] == {key: found["choices"][name][key] for key in ("power", "eta", "C", "bandwidth")}
    assert result.selection["model"]["error"] == found["choices"]["model"]["error"]


@pytest.mark.slow
def test_the_choice_gives_the_model_that_those_parameters_give(searched, tmp_path):
    spec, workspace, result = searched
    chosen = facts(workspace, "selection")["choices"]["model"]
    fixed = {**spec, "selection": None, "model": {**spec["model"], "eta": chosen["eta"], "C": chosen["C"]},
             "kernel": {"bandwidth": chosen["bandwidth"]}, "graph": {**spec["graph"], "power": chosen["power"]}}
    again = run(fixed, workspace=tmp_path / "fixed", execution=InProcess(2))
    assert again.metrics["error"] == result.metrics["error"]
    assert again.baselines["shuffled"]["error"] == result.baselines["shuffled"]["error"]


@pytest.mark.slow
def test_a_longer_grid_uses_the_graph_again(searched):
    spec, workspace, _ = searched
    wider = {**spec, "selection": {**GRID, "grid": {**GRID["grid"], "eta": [1, 30, 100]}}}
    result = run(wider, workspace=workspace, execution=InProcess(2))
    ran = [stage.name for stage in result.stages if stage.status == "done"]
    assert ran == ["selection", "models", "sample", "scores", "predictions"]


@pytest.mark.parametrize(("changes", "message"), [
    ({"model": {"kind": "svm", "eta": 1e20}}, "expected 0 to 1e"),
    ({"baselines": ["base", "shuffled", "base"]}, "one is named twice"),
    ({"model": {"kind": "svm", "n_landmarks": 1}}, "a graph takes two points"),
    ({"kernel": {"name": "linear"}, "selection": {"grid": {"bandwidth": ["median"]}}}, "has no bandwidth"),
    *(({"selection": section}, message) for section, message in [
        ({"grid": {"eta": [10, 1e9]}}, "eta=1000000000"), ({"grid": {"power": []}}, "selection.grid.power"),
        ({"grid": {"eta": [0]}}, "0 is the base kernel"), ({"grid": {"eta": [1, 1]}}, "twice"),
        ({"grid": {"bandwidth": ["half"]}}, "selection.grid.bandwidth='half'"), ({"grid": {"power": [99]}}, "power"),
        ({"sigma": [1]}, "selection.sigma"), ({"cv": 1}, "1 folds"), ({"cv": "half"}, "selection"),
        ({"repetitions": 0}, "selection.repetitions"), ({"scoring": "auc"}, "scoring"),
        ({"scoring": "neg_mean_absolute_error"}, "scoring='neg_mean_absolute_error' of classes"),
        ({"cv": "leave_one_out", "repetitions": 2}, "each would hold out the same points")])])
def test_what_says_nothing_is_refused_before_any_work(small_spec, changes, message):
    with pytest.raises(SpecError, match=message):
        load_spec({**small_spec, **changes})


def test_one_label_a_class_cannot_be_cross_validated(small_spec, tmp_path):
    with pytest.raises(DataError, match="no class has two"):
        run({**small_spec, "selection": {"cv": 3, "grid": {"C": [1, 10]}}, "labels": {"per_class": 1}},
            workspace=tmp_path, execution=InProcess(1))


def test_the_first_of_equals_is_chosen():
    candidates = [CandidateScores({}, {"error": error, "loss": loss})
                  for error, loss in [(0.2, 0.1), (0.1, 0.3), (0.1, 0.2), (0.1, 0.2)]]
    assert (LOWEST_ERROR.index(candidates), LOWEST_ERROR.index(candidates[:1])) == (2, 0)
    candidates = [CandidateScores({}, {"rmse": rmse, "mae": mae}) for rmse, mae in [(2.0, 1.0), (1.0, 3.0)]]
    assert LOWEST_ERROR.index(candidates) == 1


def test_the_shuffled_covariance_is_the_same_matrix_in_another_order():
    X = np.random.default_rng(0).normal(size=(12, 2))
    A = np.cov(np.random.default_rng(1).normal(size=(12, 40)))
    problem = DeformedProblem(ArrayRows(X), HeldArrays(power1=A), HeldArrays(landmarks=np.arange(12)),
                              HeldArrays(labeled=np.arange(4), codes=np.array([0, 1, 0, 1])), {"classes": ["a", "b"]},
                              LearningParams("svm", BaseKernels("rbf", {}, (None,), 0), ("base", "shuffled"), 0, None,
                                             LABELS, ClassWeight()), {})
    found = problem.covariances("shuffled", (1,), X)[1]
    assert np.allclose(np.linalg.eigvalsh(found), np.linalg.eigvalsh(A))
    assert not np.array_equal(found, A)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
@pytest.mark.extended_cases("hinge")
def test_the_weight_of_the_graph_is_by_its_structure_and_the_labels(small_spec, tmp_path, loss):
    run({**small_spec, "model": {**small_spec["model"], "loss": loss}}, workspace=tmp_path, execution=InProcess(2))
    models = facts(tmp_path, "models")["models"]
    assert [row["eta"] for row in models["model"]["eta"]] == list(ETAS)
    assert sum(row["share"] for row in models["model"]["eta"]) == pytest.approx(1)
    assert models["shuffled"]["eta"] == models["model"]["eta"], "the control is the model, but for its graph"
    assert "eta" not in models["base"]
    assert list(facts(tmp_path, "covariance")["spectral_concentration"]) == ["2"]
    assert models["model"]["coding"] == ("one_vs_rest" if loss == "squared" else "one_vs_one")


REPEATED = {"cv": 3, "repetitions": 2, "scoring": "neg_log_loss", "grid": {"eta": [1, 30], "C": [1, 10]}}


@pytest.mark.slow
def test_folds_repetitions_measure_and_rule_of_a_choice(small_spec, tmp_path):
    spec = {**small_spec, "labels": {"per_class": 6}, "model": {"kind": "svm", "loss": "hinge"}, "selection": REPEATED,
            "baselines": ["base", "shuffled"]}
    result = run(spec, workspace=tmp_path, execution=InProcess(2))
    found, name = facts(tmp_path, "selection"), SCORED["neg_log_loss"][0]
    assert (found["folds"], found["repetitions"]) == (3, 2)
    assert set(found["scores"]) == {"model", "base"} == set(found["grid"])
    for model_name, rows in found["grid"].items():
        choice, scores = found["choices"][model_name], found["scores"][model_name]
        assert choice[name] == min(row[name] for row in rows)
        for key in choice.keys() & scores.keys():
            assert scores[key] == pytest.approx(choice[key], rel=1e-9, abs=1e-12)
        assert {"error", "balanced_error", "log_loss", "brier", "auc"} <= scores.keys()
        for row in rows:
            assert len(row["fold_errors"]) == 6
            assert {f"{name}_se_repetitions", f"{name}_se", "error", "error_se"} <= row.keys()
    page = (tmp_path / "runs" / result.run / "report.html").read_text()
    for words in ("Brier score", "area under the ROC curve", "in cross-validation (95 % interval)",
                  "repeated 2 times with the scores averaged"):
        assert words in page, words


@pytest.mark.extended
def test_repetitions_and_measures_of_quantities(small_spec, points_file, tmp_path):
    spec = {**small_spec, "data": {**small_spec["data"], "task": "regression"}, "labels": {"count": 30},
            "model": {"kind": "ridge"}, "baselines": ["base", "shuffled"],
            "selection": {"cv": 3, "repetitions": 3, "scoring": "neg_mean_absolute_error", "grid": {"C": [1, 10]}}}
    run(spec, workspace=tmp_path, execution=InProcess(2))
    found = facts(tmp_path, "selection")
    for name, rows in found["grid"].items():
        assert found["choices"][name]["mae"] == min(row["mae"] for row in rows)
        assert found["scores"][name].keys() == {
            f"{measure}{suffix}" for measure in ("rmse", "mae") for suffix in ("", "_se", "_se_repetitions")}

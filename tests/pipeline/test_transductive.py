"""The pipelines of `model.kind: transductive`."""

import json

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_moons

from dssl import GridSearch, LandmarkParams, TransductiveSVC
from dssl.base.errors import DataError, ParameterError, SpecError
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.pipeline.run import run
from dssl.storage.manifests import read_manifest

from .test_counts import counted_and_run

GRID = {"bandwidth": ["0.5*median", "2*median"], "C": [0.1, 1.0], "unlabeled_weight": [0.0, 1.0]}


@pytest.fixture(scope="module")
def moons(tmp_path_factory):
    """A spec of two moons, and their file."""
    X, y = make_moons(400, noise=0.1, random_state=0)
    path = tmp_path_factory.mktemp("points") / "moons.npz"
    np.savez(path, X=X, y=y)
    return {"name": "moons", "data": {"source": str(path), "test": {"count": 100}, "scale": "none"},
            "labels": {"per_class": 4, "random_state": 3},
            "model": {"kind": "transductive", "landmarks": {"n_landmarks": 60}}}, X, y


@pytest.mark.slow
def test_a_run_gains_over_the_machine_of_the_labels_and_predicts_probabilities(moons, tmp_path):
    spec, X, y = moons
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert result.metrics["error"] < result.baselines["base"]["error"] - 0.1
    assert "Transductive SVM" in (result.folder / "report.html").read_text(encoding="utf-8")
    P = result.predict_proba(X)
    assert -np.log(P[np.arange(len(y)), y]).mean() < 0.4
    assert (P.argmax(axis=1) == result.predict(X).astype(int)).all()
    again = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert {stage.status for stage in again.stages} == {"cached"}


def test_class_sizes_are_those_of_the_unlabeled_points(moons, tmp_path):
    spec = {**moons[0], "model": {**moons[0]["model"], "class_sizes": [240, 60]}}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    models = read_manifest(result.model_path / "manifest.json")["attributes"]
    assert models["evidence"]["share"] == pytest.approx([(60 - 4) / 292])
    few = {**spec, "model": {**spec["model"], "class_sizes": [299, 1]}}
    with pytest.raises(ParameterError, match="class_sizes leaves"):
        run(few, workspace=tmp_path, execution=InProcess(1))


# Selection


def selected(workspace):
    """Return what the one stage `selection` of a workspace tells."""
    path, = (workspace / "artifacts" / "selection").glob("*/manifest.json")
    return read_manifest(path)["attributes"]


@pytest.fixture
def known(tmp_path):
    """A spec whose training points are all rows of its file in their order, and these with their labels, else -1."""
    X, y = make_moons(150, noise=0.15, random_state=1)
    known = np.where(np.arange(150) < 24, y, -1)
    np.savez(tmp_path / "known.npz", X=X.astype(np.float32), y=known)
    return {"name": "known", "data": {"source": str(tmp_path / "known.npz"), "test": {"none": True}, "scale": "none"},
            "labels": {"given": True}, "model": {"kind": "transductive", "landmarks": {"n_landmarks": 40}},
            "selection": {"cv": 4, "grid": GRID}}, X.astype(np.float32), known


@pytest.mark.slow
@pytest.mark.parametrize("method", ["uniform", "leverage"])
@pytest.mark.extended_cases("leverage")
def test_a_selection_is_the_search_of_the_estimator_on_the_same_folds(known, tmp_path, method):
    spec, X, y = known
    landmarks = {"n_landmarks": 40, "method": method}
    result = run({**spec, "model": {"kind": "transductive", "landmarks": landmarks}}, workspace=tmp_path,
                 execution=InProcess(1))
    estimator = TransductiveSVC(landmarks=LandmarkParams(**landmarks), scale="none")
    search = GridSearch(estimator, GRID, cv=4).fit(X, y)
    own, best = selected(tmp_path), search.best_params_
    rows = own["grid"]["model"]
    assert [{name: row[name] for name in GRID} for row in rows] == search.cv_results_["params"]
    for name in ("error", "error_se", "loss"):
        assert_allclose([row[name] for row in rows], search.cv_results_[name], rtol=1e-9)
    splits = [search.cv_results_[f"split{fold}_test_score"] for fold in range(4)]
    assert_allclose([row["fold_errors"] for row in rows], 1 - np.transpose(splits))
    assert {name: own["choices"]["model"][name] for name in GRID} == best
    assert {name: result.selection["model"][name] for name in GRID} == best
    assert_array_equal(result.predict(X).astype(int), search.predict(X))
    # The baseline chooses its own, of the same bandwidths and C.
    base = GridSearch(estimator.set_params(unlabeled_weight=0.0), {name: GRID[name] for name in ("bandwidth", "C")},
                      cv=4, refit=False).fit(X, y)
    assert_allclose([row["loss"] for row in own["grid"]["base"]], base.cv_results_["loss"], rtol=1e-9)
    assert {row["unlabeled_weight"] for row in own["grid"]["base"]} == {0.0}
    assert own["choices"]["base"]["error"] == min(row["error"] for row in own["grid"]["base"])
    assert own["scores"]["model"]["error"] == own["choices"]["model"]["error"]


@pytest.mark.extended
def test_without_a_selection_the_parameters_are_those_given(known, tmp_path):
    spec, X, y = known
    given = {key: value for key, value in spec.items() if key != "selection"}
    result = run({**given, "model": {**given["model"], "C": 3.0}}, workspace=tmp_path, execution=InProcess(1))
    assert selected(tmp_path) == {"folds": 0, "rule": {"scoring": None, "one_standard_error": False}, "choices": {
        "model": {"C": 3.0, "unlabeled_weight": 1.0, "bandwidth": None},
        "base": {"C": 3.0, "unlabeled_weight": 0.0, "bandwidth": None}}}
    expected = TransductiveSVC(landmarks=40, scale="none", C=3.0).fit(X, y)
    assert_array_equal(result.predict(X).astype(int), expected.predict(X))
    alone = run({**given, "model": {**given["model"], "unlabeled_weight": 0.0}}, workspace=tmp_path / "alone",
                execution=InProcess(1))
    page = (alone.folder / "report.html").read_text(encoding="utf-8")
    assert "The model equals the supervised baseline, because the unlabeled data was " in page


@pytest.mark.slow
def test_the_report_shows_what_was_chosen_and_tried(known, tmp_path):
    spec, _, _ = known
    grid = {"C": [0.01, 1.0, 100.0], "unlabeled_weight": [0.1, 1.0]}
    result = run({**spec, "selection": {"cv": 3, "repetitions": 2, "scoring": "neg_log_loss", "grid": grid}},
                 workspace=tmp_path, execution=InProcess(1))
    page = (result.folder / "report.html").read_text(encoding="utf-8")
    for text in ("Selected parameters", "3-fold cross-validation on the labels, repeated 2 times",
                 "Held-out points stay among the unlabeled points.", "Errors of 6 pairs of C and unlabeled_weight",
                 "the weight of the unlabeled points against the labels"):
        assert text in page, text
    assert result.gain["by_labels"]["tried"] == {"model": 6, "base": 3}


@pytest.mark.slow
def test_some_candidates_are_drawn_and_the_better_half_goes_on_to_more_folds(known, tmp_path):
    spec, _, _ = known
    grid = {"C": [0.1, 0.3, 1.0, 3.0], "unlabeled_weight": [0.5, 1.0]}
    run({**spec, "selection": {"cv": 4, "grid": grid, "search": "random", "n_candidates": 3}},
        workspace=tmp_path / "random", execution=InProcess(1))
    drawn = selected(tmp_path / "random")
    assert len(drawn["grid"]["model"]) == 3
    assert {row["C"] for row in drawn["grid"]["base"]} == {row["C"] for row in drawn["grid"]["model"]}
    run({**spec, "selection": {"cv": 8, "grid": grid, "search": "halving", "factor": 2, "one_standard_error": True}},
        workspace=tmp_path / "halving", execution=InProcess(1))
    halved = selected(tmp_path / "halving")
    folds = [row["n_folds"] for row in halved["grid"]["model"]]
    assert sorted(folds) == [2] * 4 + [4] * 2 + [8] * 2
    last = [row for row in halved["grid"]["model"] if row["n_folds"] == 8]
    lowest = min(last, key=lambda row: row["error"])
    assert halved["choices"]["model"]["C"] == min(
        row["C"] for row in last if row["error"] <= lowest["error"] + lowest["error_se"])


@pytest.mark.parametrize("selection", [None, {"cv": 3, "repetitions": 2, "grid": {
    "bandwidth": ["0.5*median", "median"], "unlabeled_weight": [0.0, 1.0]}}])
@pytest.mark.extended_cases("selection1")
def test_a_run_has_the_tasks_that_the_plan_counts(known, tmp_path, selection, monkeypatch):
    """Features are made in several blocks, once for each bandwidth."""
    for module in ("kernels.gram", "learners.model"):
        monkeypatch.setattr(f"dssl.{module}.BLOCK_BYTES", 40_000)
    stages = counted_and_run({**known[0], "selection": selection}, tmp_path / "work", InProcess(1))
    counted = {name: stages[name][0].tasks for name in ("landmarks", "selection", "models")}
    assert counted == {name: stages[name][1] for name in counted}
    assert counted["models"] >= 2
    assert (counted["selection"] == 0) == (selection is None)


# What is refused


@pytest.mark.parametrize(("changes", "message"), [
    ({"model": {"kind": "transductive", "C": 0.0}}, "C=0"), ({"graph": {"n_neighbors": 5}}, "graph"),
    ({"kernel": {"name": "linear"}, "selection": {"grid": {"bandwidth": [1.0]}}},
     r"selection.grid.bandwidth(.|\n)*that kernel has no bandwidth")])
def test_a_spec_that_makes_no_sense_is_refused(moons, changes, message):
    with pytest.raises(SpecError, match=message):
        load_spec({**moons[0], **changes})


@pytest.mark.parametrize(("selection", "message"), [
    ("{grid: {C: [1, 0]}}", "selection.grid.C=0.0, expected a finite number > 0"),
    ("{grid: {unlabeled_weight: [-1]}}", "selection.grid.unlabeled_weight=-1.0"),
    ("{grid: {C: [1, 1.0]}}", "selection.grid.C=[1.0, 1.0] names a value twice"),
    ("{grid: {C: []}}", "selection.grid.C=[] (nothing would be tried"),
    ("{grid: {bandwidth: [medan]}}", "selection.grid.bandwidth='medan'"),
    ("{grid: {graph: {n_neighbors: [5]}}}", "transductive has here bandwidth, C, unlabeled_weight"),
    ("{C: [1, 10]}", "selection.C: it is a key of selection.grid"),
    ("{cv: 1}", "selection: 1 folds"), ("{held_out: closed_form}", "this kind of model has auto, refit"),
    ("{held_out_points: inductive}", "Input should be 'transductive'"),
    ("{scoring: neg_mean_absolute_error}", "selection.scoring='neg_mean_absolute_error' of classes"),
])
def test_a_selection_that_makes_no_sense_is_refused_with_its_line(moons, tmp_path, selection, message):
    path = tmp_path / "spec.yaml"
    path.write_text(f"{json.dumps(moons[0])[:-1]},\n'selection':\n  {selection}\n}}")
    with pytest.raises(SpecError) as refused:
        load_spec(path)
    assert message in str(refused.value)
    assert "line 2" in str(refused.value) or "line 3" in str(refused.value)


def test_a_selection_of_labels_that_are_one_a_class_is_refused(moons, tmp_path):
    spec = {**moons[0], "labels": {"per_class": 1}, "selection": {"grid": {"C": [1.0, 10.0]}}}
    with pytest.raises(DataError, match="no class has two"):
        run(spec, workspace=tmp_path, execution=InProcess(1))

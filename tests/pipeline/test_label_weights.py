"""`labels.weight`: labels weigh in a pipeline what `sample_weight` makes them weigh in the fit of an estimator."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dssl import (
    ClusterKernelSVC,
    GraphKernelRidge,
    LaplaceLearning,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    LapSVM,
    MultiscaleKernelClassifier,
    PoissonLearning,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    TransductiveSVC,
)
from dssl.base.errors import DataError, SpecError
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.pipeline.suggestion import suggest_rows

FEATURES = ["a", "b", "c"]
N, LABELED = 150, 50


@pytest.fixture(scope="module")
def table():
    """Two overlapping Gaussians, a third of them with a label; wrong ones weigh little, one weighs nothing."""
    rng = np.random.default_rng(0)
    kind = (rng.random(N) < 0.4).astype(int)
    points = pd.DataFrame(rng.normal(size=(N, 3)).astype(np.float32).astype(float), columns=FEATURES)
    points["a"] += 1.5 * kind
    given = np.where(rng.random(N) < 0.2, 1 - kind, kind)
    weight = np.where(given == kind, 1.0 + rng.random(N), 0.125)
    weight[[3, 11]] = 0.0
    points["w"] = weight
    points.loc[LABELED:, "w"] = np.nan  # of points without a label nothing is read
    points["kind"] = np.where(np.arange(N) < LABELED, given, np.nan)
    return points


def spec_of(path, labels=None, data=None, **model):
    return {"name": "weighed", "data": {"source": str(path), "test": {"none": True}, **(data or {})},
            "labels": {"given": True, "weight": "w", **(labels or {})}, "model": model}


def fitted(estimator, table, **params):
    y = table["kind"].fillna(-1).astype(int)
    return estimator(**params).fit(table[FEATURES], y, sample_weight=table["w"].fillna(1))


@pytest.mark.slow
@pytest.mark.parametrize(("model", "estimator"), [
    ({"kind": "automatic"}, SemiSupervisedClassifier), ({"kind": "graph", "learner": "laplace"}, LaplaceLearning),
    ({"kind": "graph", "learner": "poisson"}, PoissonLearning),
    ({"kind": "graph", "learner": "ridge"}, GraphKernelRidge), ({"kind": "ridge"}, LapSVC),
    ({"kind": "laprls"}, LapRLSClassifier), ({"kind": "lapsvm"}, LapSVM), ({"kind": "cluster"}, ClusterKernelSVC),
    ({"kind": "multiscale"}, MultiscaleKernelClassifier)])
@pytest.mark.extended_cases("model0-SemiSupervisedClassifier", "model2-PoissonLearning", "model3-GraphKernelRidge",
    "model5-LapRLSClassifier", "model6-LapSVM", "model7-ClusterKernelSVC", "model8-MultiscaleKernelClassifier",
    "model4-LapSVC")
def test_labels_weigh_what_they_weigh_in_the_estimator(table, tmp_path, model, estimator):
    table.to_csv(tmp_path / "t.csv", index=False)
    weighed = run(spec_of(tmp_path / "t.csv", **model), workspace=tmp_path, execution=InProcess(1))
    plain = run(spec_of(tmp_path / "t.csv", {"weight": None}, {"read": {"drop": ["w"]}}, **model), workspace=tmp_path,
                execution=InProcess(1))
    X, expected = table[FEATURES], fitted(estimator, table)
    P = weighed.predict_proba(X)
    assert_allclose(P, expected.predict_proba(X), atol=1e-6)
    assert np.abs(P - plain.predict_proba(X)).max() > 0.02
    errors, expected_errors = ({name: scores["error"] for name, scores in evidence["scores"].items()}
                               for evidence in (weighed.gain["by_labels"], expected.by_labels_))
    assert errors == pytest.approx(expected_errors, abs=1e-12)


@pytest.mark.slow
def test_a_transductive_machine_weighs_labels_as_its_estimator_does(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    result = run(spec_of(tmp_path / "t.csv", kind="transductive"), workspace=tmp_path, execution=InProcess(1))
    expected = fitted(TransductiveSVC, table, probability=True)
    assert_allclose(result.predict_proba(table[FEATURES]), expected.predict_proba(table[FEATURES]), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(("model", "estimator"), [({"kind": "automatic"}, SemiSupervisedRegressor),
                                                  ({"kind": "laprls"}, LapRLSRegressor)])
@pytest.mark.extended_cases("model1-LapRLSRegressor")
def test_quantities_weigh_what_they_weigh_in_the_estimator(table, tmp_path, model, estimator):
    amounts = table.assign(kind=table["kind"] + table["b"].abs())
    amounts.to_parquet(tmp_path / "t.parquet")
    result = run(spec_of(tmp_path / "t.parquet", None, {"task": "regression"}, **model), workspace=tmp_path,
                 execution=InProcess(1))
    expected = estimator().fit(amounts[FEATURES], amounts["kind"], sample_weight=amounts["w"].fillna(1))
    assert_allclose(result.predict(amounts[FEATURES]), expected.predict(amounts[FEATURES]), atol=1e-6)


@pytest.mark.parametrize(("estimator", "params"), [
    (LapSVC, {}), (LapSVC, {"loss": "hinge"}), (LapSVM, {"landmarks": 50}),
    (LapRLSClassifier, {"landmarks": 50, "gamma_A": "auto", "gamma_I": "auto", "bandwidth": "median"}),
    (TransductiveSVC, {}), (GraphKernelRidge, {}), (MultiscaleKernelClassifier, {"n_landmarks": 60}),
    (SemiSupervisedClassifier, {}), (SemiSupervisedClassifier, {"base_estimator": "logistic"}), (LaplaceLearning, {}),
    (ClusterKernelSVC, {"landmarks": 60})])
@pytest.mark.slow_cases("SemiSupervisedClassifier-params7", "SemiSupervisedClassifier-params8")
def test_only_ratios_of_weights_count(table, estimator, params):
    """Weights that sum to 1, as those of surveys do, are those of mean 1."""
    even, tiny = (fitted(estimator, table.assign(w=weight), **params).decision_function(table[FEATURES])
                  for weight in (1.0, 1 / LABELED))
    assert_array_equal(tiny, even)
    usual, large = (fitted(estimator, table.assign(w=factor * table["w"]), **params).decision_function(table[FEATURES])
                    for factor in (1, 1e6))
    assert_allclose(large, usual, atol=1e-6)


def test_only_ratios_of_weights_of_classes_and_quantities_count(table):
    X, y, weight = table[FEATURES], table["kind"].fillna(-1).astype(int), table["w"].fillna(1)
    usual, tiny = (LapSVC(class_weight={0: unit, 1: 4 * unit}).fit(X, y, sample_weight=other * weight)
                   for unit, other in ((1, 1), (1e-4, 1e200)))
    assert_allclose(tiny.decision_function(X), usual.decision_function(X), rtol=1e-9, atol=1e-12)
    amounts = np.where(y < 0, np.nan, y + X["b"])
    usual, tiny = (LapRLSRegressor(landmarks=50).fit(X, amounts, sample_weight=unit * weight) for unit in (1, 1e-4))
    assert_allclose(tiny.predict(X), usual.predict(X), atol=1e-6)


@pytest.mark.parametrize("kind", ["laprls", "ridge"])
@pytest.mark.slow_cases("laprls")
def test_only_ratios_of_weights_count_in_a_run(table, tmp_path, kind):
    table.assign(w=1.0).to_csv(tmp_path / "even.csv", index=False)
    table.assign(w=1e-4).to_csv(tmp_path / "tiny.csv", index=False)
    even, tiny = (run(spec_of(tmp_path / name, kind=kind), workspace=tmp_path, execution=InProcess(1)).gain["by_labels"]
                  for name in ("even.csv", "tiny.csv"))
    assert tiny["scores"] == even["scores"]


def labels_made(path, tmp_path, data=None, **labels):
    """Return the labeled rows, their weights and what is told of them."""
    made = plan(spec_of(path, labels, data, kind="graph"), workspace=tmp_path / "work", until="labels")
    run(made, execution=InProcess(1))
    artifact = made.artifact("labels")
    arrays = artifact.parts.read(0)
    rows = made.artifact("split").parts.rows("train").take(arrays["labeled"])
    assert "w" not in made.artifact("dataset").attributes["dataset"]["feature_names"]
    return rows, arrays["weight"], artifact.attributes


def test_weights_are_stored_with_the_labels_and_move_their_address(table, tmp_path):
    path = tmp_path / "t.csv"
    table.to_csv(path, index=False, sep=";", decimal=",")
    rows, weight, evidence = labels_made(path, tmp_path)
    expected = np.setdiff1d(np.arange(LABELED), [3, 11])
    assert_array_equal(rows, expected)
    assert_allclose(weight, table["w"].to_numpy()[expected])
    assert evidence["n_labeled"] == LABELED - 2
    assert evidence["weights"] == {"column": "w", "min": 0.125, "max": pytest.approx(weight.max()), "zero": 2}
    two = [plan(spec_of(path, more, {"read": {"drop": ["w"]}}, kind="graph"), workspace=tmp_path / "work")
           for more in ({}, {"weight": None})]
    assert two[0].artifact("dataset").address == two[1].artifact("dataset").address
    assert two[0].artifact("labels").address != two[1].artifact("labels").address


def test_files_of_labels_may_have_the_weights(table, tmp_path):
    path, beside = tmp_path / "t.csv", tmp_path / "told.csv"
    unlabeled = table.drop(columns="w").assign(kind=np.where(np.arange(N) < 2, table["kind"], np.nan))
    unlabeled.to_csv(path, index=False)
    labels = pd.DataFrame({"row": np.arange(LABELED), "label": table["kind"][:LABELED].astype(int),
                         "w": table["w"][:LABELED]})
    labels.to_csv(beside, index=False)
    rows, weight, _ = labels_made(path, tmp_path, file=str(beside))
    assert_array_equal(rows, np.setdiff1d(np.arange(LABELED), [3, 11]))
    assert_allclose(weight, table["w"].to_numpy()[rows])
    labels[1:].to_csv(beside, index=False)
    with pytest.raises(DataError, match=r"(?s)t\.csv, which has no column 'w': 1 of 50 .*row 0 has ''.*a line in "):
        labels_made(path, tmp_path, file=str(beside))
    table.fillna({"w": 1.0}).to_csv(path, index=False)
    labels.to_csv(beside, index=False)
    with pytest.raises(DataError, match=r"is a column of .*told.csv and a feature of the source"):
        labels_made(path, tmp_path, file=str(beside))
    dropped = {"read": {"drop": ["w"]}}
    labels[10:].assign(w=2.0).to_csv(beside, index=False)  # labels without a line weigh what the source says
    rows, mixed, _ = labels_made(path, tmp_path, dropped, file=str(beside))
    assert_allclose(mixed, np.where(rows < 10, table["w"].to_numpy()[rows], 2.0))
    table.assign(w=table["w"].mask(np.arange(N) == 4, -1.0)).to_csv(path, index=False)
    with pytest.raises(DataError, match=r"(?s)t\.csv, column 'w': 1 of 50 .*row 4 has '-1.0'"):
        labels_made(path, tmp_path, dropped, file=str(beside))
    table.fillna({"w": 1.0}).to_csv(path, index=False)
    labels.drop(columns="w").to_csv(beside, index=False)  # the source has them then
    assert_allclose(labels_made(path, tmp_path, file=str(beside))[1], weight)


@pytest.mark.parametrize("in_source", [True, False])
def test_a_second_round_of_rows_to_label_learns_from_files_with_and_without_weights(table, tmp_path, in_source):
    path, told, beside = (tmp_path / name for name in ("t.csv", "told.csv", "next.csv"))
    (table.fillna({"w": 3.0}) if in_source else table.drop(columns="w")).to_csv(path, index=False)
    labels = pd.DataFrame({"row": np.arange(LABELED), "label": table["kind"][:LABELED].astype(int), "w": 2.0})
    labels.to_csv(told, index=False)
    data = {"read": {"drop": ["w"]}} if in_source else {}
    first = run(spec_of(path, {"file": str(told)}, data, kind="graph", learner="laplace"), workspace=tmp_path / "work",
                execution=InProcess(1))
    suggest_rows(first.folder, InProcess(1), count=2).write(beside)
    asked = pd.read_csv(beside).assign(label=1)
    assert ("w" in asked) is not in_source
    asked = asked if in_source else asked.assign(w=0.5)
    asked.to_csv(beside, index=False)
    rows, weight, _ = labels_made(path, tmp_path, data, file=[str(told), str(beside)])
    assert len(rows) == LABELED + 2
    assert_array_equal(weight, np.where(np.isin(rows, asked["row"]), 3.0 if in_source else 0.5, 2.0))
    asked.drop(columns="w", errors="ignore").to_csv(beside, index=False)
    if not in_source:
        with pytest.raises(DataError, match=r"t\.csv has no such column, and not all files of labels.file have it"):
            plan(spec_of(path, {"file": [str(told), str(beside)]}, data, kind="graph"), workspace=tmp_path / "work")


@pytest.mark.parametrize(("cells", "message"), [
    ({5: -1.0}, r"t.csv, column 'w': 1 of 50 labels have no weight .*row 5 has '-1.0'.*correct these cells"),
    ({5: np.inf, 7: np.nan}, r"2 of 50 labels .*row 5 has 'inf', row 7 has ''"),
    (dict.fromkeys(range(LABELED), 0.0), "the weight of every label is zero"),
    ("class", "every label of the class 1 has weight zero")])
def test_weights_that_labels_cannot_have_are_refused(table, tmp_path, cells, message):
    wrong = table.copy()
    rows = np.flatnonzero(table["kind"] == 1) if cells == "class" else [*cells]
    wrong.loc[rows, "w"] = 0.0 if cells == "class" else [*cells.values()]
    wrong.to_csv(tmp_path / "t.csv", index=False)
    with pytest.raises(DataError, match=f"(?s){message}"):
        labels_made(tmp_path / "t.csv", tmp_path)


def test_a_column_of_weights_that_there_is_not_is_refused_before_the_run(table, tmp_path):
    table.rename(columns={"w": "weights"}).to_csv(tmp_path / "t.csv", index=False)
    np.savez(tmp_path / "t.npz", X=np.eye(4), y=np.arange(4) % 2)
    for name, message in (("t.csv", "labels.weight='w': .*t.csv has no such column"),
                          ("t.npz", "labels.weight='w', and .*t.npz is npz")):
        with pytest.raises(DataError, match=message):
            plan(spec_of(tmp_path / name), workspace=tmp_path / "work")
    with pytest.raises(SpecError, match=r"labels\.weight='w', and data.read.target is that column"):
        load_spec(spec_of(tmp_path / "t.csv", None, {"read": {"target": "w"}}))
    with pytest.raises(SpecError, match=r"labels\.weight='w', and data.tags has that column"):
        load_spec(spec_of(tmp_path / "t.csv", None, {"tags": {"columns": ["w", "kind"]}}))


@pytest.mark.slow
def test_new_rows_are_predicted_with_and_without_weights(table, tmp_path):
    table.to_csv(tmp_path / "t.csv", index=False)
    result = run(spec_of(tmp_path / "t.csv", kind="graph"), workspace=tmp_path, execution=InProcess(1))
    table.to_csv(tmp_path / "with.csv", index=False)
    table[FEATURES].to_csv(tmp_path / "without.csv", index=False)
    assert_array_equal(result.predict(tmp_path / "with.csv"), result.predict(tmp_path / "without.csv"))
    assert "labels weigh from 0.125 to" in " ".join(result.notes)

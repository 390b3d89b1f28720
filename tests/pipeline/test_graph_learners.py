"""The pipelines of `model.kind: graph`: what they find, and what they refuse."""

import json

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.datasets import make_blobs

from dssl import (
    GraphKernelRidge,
    KNNGraph,
)
from dssl.base.errors import DataError, ParameterError, SpecError
from dssl.execution.in_process import InProcess
from dssl.graph.weights.build import weights
from dssl.knn.search import neighbors
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.storage.artifacts import parts_in
from dssl.storage.blocks import ArrayRows


@pytest.fixture(scope="module")
def fields(points_file):
    return {"name": "small", "data": {"source": str(points_file), "test": {"count": 60}, "scale": "none"},
            "labels": {"per_class": 4}, "graph": {"n_neighbors": 6}, "model": {"kind": "graph"}}


@pytest.fixture
def islands(tmp_path):
    """Two classes far apart, of which a third, of no class, is farther still; and copies of a few points."""
    X, y = make_blobs([60, 60, 20], centers=[[0, 0], [9, 0], [90, 90]], shuffle=False, random_state=0)
    X[50:55], y = X[:5], np.where(y == 2, -1, y)
    np.savez(tmp_path / "islands.npz", X=X, y=y)
    return {"name": "islands", "data": {"source": str(tmp_path / "islands.npz"), "unlabeled": -1, "test": {"count": 20},
                                        "scale": "none"}, "labels": {"per_class": 3}, "graph": {"n_neighbors": 5},
            "model": {"kind": "graph"}}


@pytest.mark.parametrize("learner", ["laplace", "ridge"])
def test_a_source_without_labels_is_refused_with_where_they_may_stand(tmp_path, learner):
    np.savez(tmp_path / "bare.npz", X=np.random.default_rng(0).normal(size=(60, 3)))
    spec = {"name": "bare", "data": {"source": str(tmp_path / "bare.npz"), "test": {"none": True}},
            "labels": {"given": True}, "model": {"kind": "graph", "learner": learner}}
    with pytest.raises(DataError, match=r"(?s)no training point has a target.*add an array y to an .npz file"):
        run(spec, workspace=tmp_path / "work", execution=InProcess(1))


def trained_on(tmp_path):
    """Return the training points, and the labels that were shown, as an estimator takes them."""
    artifacts = tmp_path / "artifacts"
    rows = parts_in(next((artifacts / "points").iterdir())).rows("train").read_all()
    labels = parts_in(next((artifacts / "labels").iterdir())).read(0)
    known = labels.get("codes", labels.get("values"))
    y = np.full(len(rows), -1 if "codes" in labels else np.nan)
    y[labels["labeled"]] = known
    return rows, y.astype(known.dtype)


@pytest.mark.slow
def test_class_sizes_by_name_are_those_of_the_estimator_in_the_order_of_its_classes(fields, points_file, tmp_path):
    result = run({**fields, "model": {"kind": "graph", "class_sizes": {0: 2, 2: 1, 1: 1}}}, workspace=tmp_path,
                 execution=InProcess(2))
    rows, y = trained_on(tmp_path)
    own = GraphKernelRidge(class_sizes=[2, 1, 1], graph=KNNGraph(n_neighbors=6)).fit(rows, y)
    fitted = open_model(result.model_path)
    with np.load(points_file) as arrays:
        found = fitted.model.values(ArrayRows(arrays["X"]), InProcess(1))
        np.testing.assert_allclose(found, own.model_.values(arrays["X"]), atol=1e-10)
    unseen = y < 0
    np.testing.assert_allclose(fitted.predict_proba(ArrayRows(rows)), own.predict_proba(rows), atol=1e-6)
    assert result.transductive["n_test"] == unseen.sum()
    assert set(result.baselines) == {"nearest", "base", "majority"}
    assert set(result.gain) == {"over_nearest", "over_base", "over_majority", "unlabeled_data", "by_labels"}
    assert result.unreachable["handled"] == "no prediction"


@pytest.mark.extended
def test_the_report_tells_shares_class_sizes_and_both_accuracies(fields, tmp_path):
    result = run({**fields, "model": {"kind": "graph", "class_sizes": [1, 1, 1]}}, workspace=tmp_path,
                 execution=InProcess(1))
    page = (tmp_path / "runs" / result.run / "report.html").read_text()
    for text in ("Weights of the graph kernels", "class sizes given in the spec", "cut into classes of these sizes",
                 "Graph health", "unlabeled training points whose labels are known",
                 "leave-one-out error on the labels",
                 "training points unreachable from any label", "Predicts the label of the nearest labeled point"):
        assert text in page, text
    assert "shuffled" not in page
    manifest = json.loads(next((tmp_path / "artifacts" / "vertex_values").glob("*/manifest.json")).read_text())
    assert sum(kernel["share"] for kernel in manifest["attributes"]["kernels"]) == pytest.approx(1)
    again = run({**fields, "model": {"kind": "graph", "class_sizes": [1, 1, 1]}}, workspace=tmp_path,
                execution=InProcess(1))
    assert {stage.status for stage in again.stages} == {"cached"}


@pytest.mark.parametrize("learner", ["ridge", "laplace"])
@pytest.mark.extended_cases("ridge")
def test_quantities(points_file, tmp_path, learner):
    with np.load(points_file) as arrays:
        X = arrays["X"]
    np.savez(tmp_path / "values.npz", X=X, y=X[:, 0] + 0.1 * X[:, 1]**2)
    spec = {"name": "values", "labels": {"count": 60}, "graph": {"n_neighbors": 6},
            "data": {"source": str(tmp_path / "values.npz"), "task": "regression", "test": {"count": 60},
                     "scale": "none"}, "model": {"kind": "graph", "learner": learner}}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    metrics = result.metrics
    assert metrics["rmse"] < 0.6 * metrics["deviation"]
    assert result.transductive["rmse"] < 0.6 * metrics["deviation"]
    assert result.baselines["nearest"]["rmse"] < metrics["deviation"]


@pytest.mark.slow
def test_points_that_no_label_reaches_are_never_given_a_class(islands, tmp_path):
    result = run(islands, workspace=tmp_path / "work", execution=InProcess(1))
    unreachable = result.unreachable["count"]
    assert 15 <= unreachable <= 20  # some are drawn for the test, and left out since they have no label
    assert result.metrics["unsupported"] == 0
    fitted, source = open_model(result.model_path), islands["data"]["source"]
    X = fitted.dataset_of(source, InProcess(1)).X
    facts = fitted.write(X, tmp_path / "labels.npy", InProcess(1))
    assert facts["unsupported"] == 20
    assert sum(facts["counts"].values()) == 120
    with np.load(source) as arrays:
        assert ((np.load(tmp_path / "labels.npy") == -1) == (arrays["y"] == -1)).all()
    fitted.write(X, tmp_path / "labels.csv", InProcess(1))
    table = pd.read_csv(tmp_path / "labels.csv")
    assert table["rejected"].sum() == table["label"].isna().sum() == 20
    assert table.columns.tolist()[:2] == ["row", "label"]
    page = (tmp_path / "work" / "runs" / result.run / "report.html").read_text()
    assert f"{unreachable}; they have no prediction" in page


@pytest.mark.slow
def test_test_points_that_no_label_reaches_count_as_wrong(islands, tmp_path):
    with np.load(islands["data"]["source"]) as arrays:
        X, y = arrays["X"], arrays["y"]
    np.savez(tmp_path / "unreachable.npz", X=X, y=np.maximum(y, 0))
    del islands["data"]["unlabeled"]
    islands["data"] |= {"source": str(tmp_path / "unreachable.npz"), "test": {"count": 70}}
    islands["labels"] = {"count": 4}
    result = run(islands, workspace=tmp_path / "work", execution=InProcess(1))
    assert result.unreachable["count"] > 0
    unreachable = result.metrics["unsupported"]
    assert unreachable > 0
    assert result.metrics["error"] == pytest.approx(unreachable / 70)  # the others are right
    assert result.transductive["unsupported"] == result.unreachable["count"]
    page = (tmp_path / "work" / "runs" / result.run / "report.html").read_text()
    assert "test points unreachable from any label" in page


@pytest.mark.slow
def test_an_array_without_room_for_no_label_is_refused_where_one_is_needed(islands, tmp_path):
    with np.load(islands["data"]["source"]) as arrays:
        X, y = arrays["X"], arrays["y"]
    np.savez(tmp_path / "signs.npz", X=X, y=np.where(y == -1, 5, np.where(y == 0, -1, 1)))
    islands["data"] |= {"source": str(tmp_path / "signs.npz"), "unlabeled": 5}
    fitted = open_model(run(islands, workspace=tmp_path / "work", execution=InProcess(1)).model_path)
    X = fitted.dataset_of(islands["data"]["source"], InProcess(1)).X
    with pytest.raises(DataError, match="20 points get no label"):
        fitted.write(X, tmp_path / "labels.npy", InProcess(1))
    assert fitted.write(ArrayRows(X.read(0, 100)), tmp_path / "labels.npy", InProcess(1))["unsupported"] == 0


@pytest.mark.extended
def test_a_given_graph_and_no_baselines(fields, tmp_path, points_file):
    with np.load(points_file) as arrays:
        sparse.save_npz(tmp_path / "W.npz", weights(neighbors(arrays["X"], 6), "self_tuned"))
    result = run({**fields, "graph": {"given": {"weights": str(tmp_path / "W.npz")}}, "baselines": []},
                 workspace=tmp_path, execution=InProcess(1))
    assert result.metrics["error"] < 0.5
    assert set(result.baselines) == {"majority"}


@pytest.mark.parametrize(("overrides", "says"), [
    (["model.learner=poisson", "data.task=regression", "labels={count: 20}"], "it tells classes apart"),
    (["model.class_sizes=[1, 1]", "data.task=regression", "labels={count: 20}"], "quantities have no classes"),
    (["model.learner=laplace", "model.ridge=[0.1]"], "model: ridge, and learner is laplace"),
    (["model.power=[0]"], "whole numbers from 1 to 8"), (["model.ridge=[]"], "model.ridge"),
    (["model.penalty=-1"], "model.penalty"), (["model.learner=harmonic"], "ridge.*laplace"),
    (["model.tol=2"], "tol"), (["model.eta=1"], "svm and ridge and clustering have it"),
    (["baselines=[shuffled]"], "nearest"),
    (["graph.power=1"], "graph.power")])
def test_what_makes_no_sense_is_refused(fields, overrides, says):
    with pytest.raises(SpecError, match=says):
        load_spec(fields, overrides)


def test_class_sizes_are_of_the_classes(fields, tmp_path):
    for sizes, says in (([1, 2], "for 3 classes"), ({0: 1, 1: 1, 7: 1}, r"names \[7\]")):
        with pytest.raises(ParameterError, match=says):
            run({**fields, "model": {"kind": "graph", "class_sizes": sizes}}, workspace=tmp_path,
                execution=InProcess(1))


@pytest.mark.parametrize("kind", ["graph", "automatic"])
def test_class_sizes_below_the_number_of_labels_are_refused(kind, fields, tmp_path):
    spec = {name: value for name, value in fields.items() if kind == "graph" or name not in ("kernel", "baselines")}
    with pytest.raises(ParameterError, match="class_sizes leaves"):
        run({**spec, "model": {"kind": kind, "class_sizes": [1e9, 1, 1]}}, workspace=tmp_path, execution=InProcess(1))


def test_what_names_the_stages(fields):
    def addresses(*overrides):
        return {stage["name"]: stage["address"] for stage in plan(fields, set=overrides, workspace="nowhere").records()}

    before, last = addresses(), {"models", "sample", "scores", "predictions"}
    for override, expected in (("model.learner=laplace", {"selection", "vertex_values", *last}),
                               ("kernel.bandwidth=3", last), ("baselines=[nearest]", last),
                               ("graph.width=1", {"graph", "health", "selection", "vertex_values", *last}),
                               ("model.class_sizes=[1, 1, 1]", {"selection", "vertex_values", *last})):
        after = addresses(override)
        assert {name for name in before if before[name] != after[name]} == expected, override

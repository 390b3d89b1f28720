"""`scale=`: one rule for all estimators and for pipelines, kept for new points, graphs and searches."""

import pickle
import warnings

import dask.array as da
import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_wine, make_blobs, make_moons

import dssl
from dssl import (
    ClusterKernelFeatures,
    Dataset,
    Graph,
    GraphKernelRidge,
    GridSearch,
    KernelKMeans,
    KNNGraph,
    LapKernelRidge,
    LapSVC,
    suggest_labels,
)
from dssl.base.errors import ParameterError
from dssl.data.findings import IdentifierColumns
from dssl.data.scaling.out_of_range import OutOfRange
from dssl.data.scaling.outliers import UnlikeColumns
from dssl.methods.data_sections import DataSection


@pytest.fixture(scope="module")
def wine():
    """Return wine, whose columns range from 0.5 to 1,400, its classes, and y with three labels of each."""
    X, true = load_wine(return_X_y=True)
    rng, y = np.random.default_rng(0), np.full(len(true), -1)
    for code in range(3):
        y[rng.choice(np.flatnonzero(true == code), 3, replace=False)] = code
    return X, true, y


@pytest.fixture(scope="module")
def unlike():
    """Return points of two clouds in columns of unlike spreads, y with some labels, and new points."""
    X, codes = make_blobs(100, 3, centers=2, cluster_std=2.0, random_state=0)
    X = X * [1e-2, 1.0, 1e3] + [5.0, 0.0, -1e4]
    return X[:80], np.where(np.arange(80) < 12, codes[:80], -1), X[80:]


def standardized(X, *others):
    return [(own - X.mean(axis=0)) / X.std(axis=0) for own in (X, *others)]


def test_three_labels_a_class_of_wine(wine):
    X, true, y = wine
    free = y < 0
    for kind in (GraphKernelRidge, LapSVC):
        found = kind().fit(X, y)
        assert (found.transduction_ != true)[free].mean() < 0.1
        assert found.evidence_["scale"]["kind"] == "standardize"
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnlikeColumns)
            raw = kind(scale="none").fit(X, y)
        assert (raw.transduction_ != true)[free].mean() > 0.25


def test_the_default_is_that_of_pipelines():
    kinds = [getattr(dssl, name) for name in dssl.__all__ if "scale" in getattr(
        getattr(dssl, name), "_get_param_names", list)()]
    assert len(kinds) > 10
    assert {kind().scale for kind in kinds} == {DataSection(source="x").scale} == {"auto"}


@pytest.mark.parametrize("given", ["array", "dask", "data set", "frame"])
def test_a_model_scales_new_points_as_those_of_its_fit(unlike, given):
    X, y, new = unlike
    Z, other = standardized(X, new)
    expected = LapSVC(scale="none").fit(Z, y)
    as_given = {"array": np.asarray, "dask": lambda X: da.from_array(X, chunks=(17, 2)),
                "data set": Dataset.from_arrays, "frame": lambda X: pd.DataFrame(X, columns=list("abc"))}[given]
    found = LapSVC().fit(as_given(X), y)
    assert_allclose(found.decision_function(as_given(new)), expected.decision_function(other), atol=1e-6)
    assert_array_equal(found.transduction_, expected.transduction_)
    again = pickle.loads(pickle.dumps(found))
    assert_array_equal(again.decision_function(as_given(new)), found.decision_function(as_given(new)))
    assert again.scaling_.kind == "standardize"
    assert_allclose(again.scaling_.shift, X.mean(axis=0))


def test_features_of_one_unit_are_left_as_they_are(unlike):
    X = standardized(unlike[0])[0].astype(np.float32) + np.float32(3)
    found, raw = (LapSVC(scale=scale).fit(X, unlike[1]) for scale in ("auto", "none"))
    assert found.scaling_.kind == "none"
    assert_array_equal(found.decision_function(X), raw.decision_function(X))


def test_sparse_points_stay_sparse(unlike):
    X = sparse.csr_array(np.where(np.random.default_rng(0).random(unlike[0].shape) < 0.5, np.abs(unlike[0]), 0.0))
    found = ClusterKernelFeatures().fit(X)
    assert found.scaling_.kind == "max_abs"
    scaled = sparse.csr_array(X.multiply(1 / np.abs(X).max(axis=0).toarray()))
    assert_allclose(found.transform(X), ClusterKernelFeatures(scale="none").fit(scaled).transform(scaled), atol=1e-8)
    assert found._new_rows(X, found._execution()).is_sparse


def test_a_graph_brings_the_scaling_of_its_features(unlike):
    X, y, new = unlike
    graph = KNNGraph(n_neighbors=5).build(X)
    assert graph.scaling.kind == "standardize"
    for own in (graph, pickle.loads(pickle.dumps(graph)), Graph.from_arrays(graph.to_arrays(), graph.attributes)):
        found = GraphKernelRidge(KNNGraph(n_neighbors=5)).fit(X, y, graph=own)
        assert_array_equal(found.decision_function(new), GraphKernelRidge(KNNGraph(n_neighbors=5)).fit(
            X, y).decision_function(new))
    with pytest.raises(ParameterError, match=r"scale='none', and a graph of features scaled by 'standardize'"):
        LapSVC(scale="none").fit(X, y, graph=graph)
    lists = KNNGraph(n_neighbors=5).build(X, scale="none").neighbors
    assert GraphKernelRidge().fit(X, y, graph=lists).scaling_.kind == "none"
    assert LapSVC().fit(X, y, graph=lists).scaling_.kind == "standardize"


@pytest.mark.slow
def test_a_search_scales_as_each_candidate_asks(wine, tmp_path):
    X, true, y = wine
    grid = {"scale": ["none", "auto", "standardize"], "graph__n_neighbors": [5, 8]}
    with pytest.warns(UnlikeColumns):
        search = GridSearch(GraphKernelRidge(), grid, cv=3, workspace=tmp_path).fit(X, y)
    assert search.best_params_["scale"] != "none"
    errors = dict(zip(search.cv_results_["param_scale"], search.cv_results_["mean_test_score"], strict=True))
    assert errors["auto"] == errors["standardize"] > errors["none"]
    assert (search.n_graphs_, search.n_neighbor_searches_) == (4, 2), "what auto came to was standardized before"
    assert (search.predict(X) == true).mean() > 0.9
    assert search.best_estimator_.scaling_.kind == "standardize"
    with pytest.warns(UnlikeColumns):
        assert GridSearch(GraphKernelRidge(), grid, cv=3, workspace=tmp_path).fit(X, y).n_fits_ == 0


def test_columns_that_vanish_are_told(wine, unlike):
    X, _, y = wine
    names = load_wine().feature_names
    with pytest.warns(UnlikeColumns, match=r"'proline' spreads [\d,]+ times as far as column 'nonflavanoid_phenols'"
                                           r"[\s\S]*10 of 13 columns have"):
        LapSVC(scale="none").fit(pd.DataFrame(X, columns=names), y)
    pixels = np.random.default_rng(0).random((80, 40)) * 255
    pixels[:, :4] /= 1000  # the border
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LapSVC(scale="none").fit(pixels, unlike[1])
        LapSVC().fit(X, y)


def test_what_is_no_classifier_is_scaled_too(unlike, wine):
    X, y, new = unlike
    Z, other = standardized(X, new)
    assert_allclose(ClusterKernelFeatures().fit(X).transform(new), ClusterKernelFeatures(scale="none").fit(Z).transform(
        other), atol=1e-8)
    targets = np.where(y < 0, np.nan, X[:, 0])
    assert_allclose(LapKernelRidge().fit(X, targets).predict(new), LapKernelRidge(scale="none").fit(
        Z, targets).predict(other), atol=1e-6)
    found = KernelKMeans(3).fit(wine[0])
    assert_array_equal(found.predict(wine[0]), found.labels_)
    assert dssl.clustering_scores(found.labels_, wine[1])["accuracy"] > 0.85
    assert_array_equal(suggest_labels(X, y, count=5).ids, suggest_labels(Z, y, count=5).ids)


def mixed(n=400, levels=4, random_state=0):
    """Return a table of two numbers of unlike ranges and a category, and what of it the first number says."""
    rng = np.random.default_rng(random_state)
    codes = rng.integers(0, 2, n)
    return pd.DataFrame({"size": 2.5 * codes + rng.normal(size=n), "price": 1000 * rng.normal(size=n),
                         "color": rng.choice([f"color {j}" for j in range(levels)], n)}), codes


@pytest.mark.parametrize("coded", ["by dssl", "by pandas"])
def test_a_category_does_not_cut_the_graph_into_pieces(coded):
    table, true = mixed()
    X = Dataset.from_arrays(table, when_text="one_hot") if coded == "by dssl" else pd.get_dummies(table)
    y = np.where(np.arange(len(true)) < 12, true, -1)
    pieces, errors = {}, {}
    for scale in ("standardize", "auto"):
        model = LapSVC(scale=scale).fit(X, y)
        scaled = model.scaling_.transform(X.X.read_all() if coded == "by dssl" else X.to_numpy(np.float64))
        pieces[scale] = int(KNNGraph().build(scaled, scale="none").components().max()) + 1
        errors[scale] = (model.transduction_ != true)[y < 0].mean()
    assert pieces == {"standardize": 4, "auto": 1}
    assert errors["auto"] < errors["standardize"]
    evidence = model.evidence_["scale"]
    assert (evidence["numbers"], evidence["categories"]) == ("standardize", 4)
    points = model.scaling_.transform(np.eye(6))
    assert np.linalg.norm(points[2] - points[3]) == pytest.approx(evidence["level_distance"])


def test_categories_beside_numbers_of_one_unit():
    """These are told by the data set; columns of 0 and 1 among pixels are pixels."""
    table, _ = mixed()
    numbers = pd.DataFrame({"a": table["size"] * 1000, "b": table["price"], "color": table["color"]})
    y = np.where(np.arange(len(table)) < 12, np.arange(len(table)) % 2, -1)
    found = GraphKernelRidge().fit(Dataset.from_arrays(numbers, when_text="one_hot"), y)
    assert (found.scaling_.kind, found.evidence_["scale"]["numbers"]) == ("auto", "none")
    assert_array_equal(found.scaling_.factor[:2], 1)
    assert 10 < found.evidence_["scale"]["level_distance"] < 1000
    assert found.evidence_["weights"]["nnz"] > 0
    pixels = np.random.default_rng(0).integers(0, 8, (80, 20)).astype(np.float32)
    pixels[:, 0] = pixels[:, 0] > 6
    assert LapSVC().fit(pixels, y[:80]).scaling_.kind == "none"


def test_a_fit_warns_of_columns_that_look_like_identifiers():
    X, y = make_moons(60, noise=0.1, random_state=0)
    table = pd.DataFrame(X, columns=["a", "b"])
    y[6:] = -1
    with warnings.catch_warnings():
        warnings.simplefilter("error", IdentifierColumns)
        GraphKernelRidge().fit(table, y)
        GraphKernelRidge().fit(table.assign(id=np.arange(60)).to_numpy(), y)  # without names nobody meant a key
    with pytest.warns(IdentifierColumns, match=r"(?s)column 'id' looks like an identifier.*drop\(columns=\['id'\]\)"):
        GraphKernelRidge().fit(table.assign(id=np.arange(60)), y)


@pytest.mark.parametrize("kind", [LapSVC, GraphKernelRidge])
def test_a_prediction_warns_of_values_beyond_the_range_of_the_fit(kind):
    X, y = make_moons(200, noise=0.1, random_state=0)
    table = pd.DataFrame(X, columns=["width", "height"])
    model = kind().fit(table, np.where(np.arange(200) < 20, y, -1))
    model.predict(table[::-1])
    with pytest.warns(OutOfRange, match=r"200 of 200 values of column 'height' are out of .* from 99\.\d+ to 101"):
        model.predict(table.assign(height=table["height"] + 100))
    unnamed = kind().fit(X, np.where(np.arange(200) < 20, y, -1))
    with pytest.warns(OutOfRange, match=r"200 of 200 values of column 1 \(counted from 0\)"):
        unnamed.decision_function(X + np.array([0, 100]))

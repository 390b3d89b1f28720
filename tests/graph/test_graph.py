"""`KNNGraph` and `Graph`: made of points or brought, stored and opened, set by scikit-learn, used by fits."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_array_equal
from sklearn.base import clone

from dssl import Graph, KNNGraph, LapKernelRidge, LapRLSClassifier, LapSVC
from dssl.base.errors import DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.graph.knn_graph import graph_of
from dssl.graph.weights.build import weights
from dssl.knn.search import neighbors
from dssl.storage.blocks import ArrayRows
from dssl.storage.store import StoredParts


def points(n=60, random_state=0):
    return np.random.default_rng(random_state).normal(size=(n, 3))


def same(one, other):
    assert_array_equal(one.weights().toarray(), other.weights().toarray())
    assert one.attributes == other.attributes
    assert_array_equal(one.vertices.vertex, other.vertices.vertex)


def test_a_graph_is_vertices_lists_and_weights():
    X = points(40)
    graph = KNNGraph(n_neighbors=4, weights="binary").build(np.vstack([X, X[:7]]), InProcess(2))
    lists = neighbors(X, 4)
    assert (graph.n, len(graph.vertices)) == (47, 40)
    assert_array_equal(graph.vertices.vertex[40:], np.arange(7))
    assert_array_equal(graph.neighbors.indices, lists.indices)
    assert_array_equal(graph.weights().toarray(), weights(lists, "binary").toarray())
    assert graph.attributes["neighbors"]["n_neighbors"] == 4
    assert graph.attributes["weights"]["weights"] == "binary"
    kept = KNNGraph(n_neighbors=4, duplicates="keep").build(np.vstack([X, X[:7]]), InProcess(2))
    assert len(kept.vertices) == 47


def test_parameters_reach_the_search_and_the_weights():
    heat = KNNGraph(n_neighbors=3, metric="cosine", weights="heat", bandwidth=0.5, symmetrize="mean", method="exact")
    expected = weights(neighbors(points(), 3, metric="cosine"), "heat", bandwidth=0.5, symmetrize="mean")
    assert_array_equal(heat.build(points()).weights().toarray(), expected.toarray())


@pytest.mark.parametrize("given", ["weights", "lists", "points"])
def test_a_graph_is_stored_and_opened(given):
    lists = neighbors(points(), 4)
    graph = {"weights": lambda: Graph.of(weights(lists)), "lists": lambda: Graph.of(lists),
             "points": lambda: KNNGraph(n_neighbors=4).build(points())}[given]()
    opened = Graph.from_arrays(graph.to_arrays(), graph.attributes)
    same(opened, graph)
    same(pickle.loads(pickle.dumps(graph)), graph)
    assert repr(graph) == f"Graph({graph.n} points, {len(graph.vertices)} vertices, {graph.weights().nnz // 2} edges)"
    assert (opened.neighbors is None) == (given == "weights")
    if opened.neighbors is not None:
        assert_array_equal(opened.neighbors.distances, lists.distances)


def test_weights_and_lists_that_one_has_are_a_graph():
    lists = neighbors(points(), 5)
    arrays = lists.to_arrays()
    expected = weights(lists, "heat", bandwidth=0.7, symmetrize="minimum")
    for given in (lists, (arrays["ids"], arrays["distances"])):
        found = Graph.of(given, weights="heat", bandwidth=0.7, symmetrize="minimum")
        assert_array_equal(found.weights().toarray(), expected.toarray())
    assert_array_equal(Graph.of(sp.coo_array(expected)).weights().toarray(), expected.toarray())
    with pytest.raises(DataError, match="differ from their transpose"):
        Graph.of(sp.triu(expected, format="csr"))
    with pytest.raises(ParameterError, match="the graph is str"):
        Graph.of("graph.npz")


def test_a_graph_of_other_points_is_refused():
    rows = ArrayRows(np.eye(4))
    for given in (sp.csr_array(np.ones((5, 5))), (np.array([[1], [0], [0], [0], [0]]), np.ones((5, 1)))):
        with pytest.raises(DataError, match="the graph has 5 points, X has 4"):
            graph_of(rows, KNNGraph(), InProcess(1), given)


def test_neighbors_beyond_the_distinct_points_are_lowered_with_a_warning():
    X = np.repeat(points(5), 3, axis=0)
    with pytest.warns(UserWarning, match="n_neighbors=10 is lowered to 4, with 5 distinct points"):
        found = KNNGraph().build(X)
    expected = KNNGraph(n_neighbors=4).build(X)
    same(found, expected)
    with pytest.warns(UserWarning, match="n_neighbors=20 is lowered to 14"):
        assert KNNGraph(n_neighbors=20, duplicates="keep").build(X).neighbors.k == 14
    with pytest.raises(DataError, match="all 6 points are equal"):
        KNNGraph().build(np.ones((6, 2)))


@pytest.mark.parametrize(("params", "message"), [
    ({"n_neighbors": 0}, "n_neighbors=0"), ({"weights": "sharp"}, "weights='sharp'"), ({"metric": "l1"}, "metric='l1'"),
    ({"duplicates": "drop"}, "duplicates='drop'"), ({"bandwidth": 1.0}, "bandwidth=1.0"),
    ({"random_state": -1}, "random_state=-1"),
])
def test_parameters_out_of_range(params, message):
    with pytest.raises(ParameterError, match=message):
        KNNGraph(**params)


FOUR = KNNGraph(n_neighbors=4)


@pytest.mark.parametrize("estimator", [LapSVC(graph=FOUR), LapKernelRidge(graph=FOUR),
                                       LapRLSClassifier(graph=FOUR, landmarks=20)],
                         ids=lambda estimator: type(estimator).__name__)
@pytest.mark.slow_cases("LapRLSClassifier")
def test_one_graph_serves_many_fits(estimator):
    X, y = points(), np.full(60, -1)
    y[:20] = np.arange(20) % 2
    if isinstance(estimator, LapKernelRidge):
        y = np.where(y >= 0, y, np.nan)
    expected = clone(estimator).fit(X, y).predict(X)
    graph = KNNGraph(n_neighbors=4).build(X)
    for _ in range(2):
        fitted = clone(estimator).set_params(graph__n_neighbors=9).fit(X, y, graph=graph)
        assert_array_equal(fitted.predict(X), expected)


@pytest.mark.slow
def test_a_graph_goes_to_a_cluster_and_back(cluster_client, tmp_path):
    """Made in this process and used by workers, and the other way round; made in a folder it is there afterwards."""
    X, y = points(), np.full(60, -1)
    y[:20] = np.arange(20) % 2
    here = KNNGraph(n_neighbors=4).build(X, InProcess(2))
    expected = LapSVC().fit(X, y, graph=here).decision_function(X)
    with cluster_client.as_current():
        assert_array_equal(LapSVC().fit(X, y, graph=here).decision_function(X), expected)
        there = KNNGraph(n_neighbors=4).build(X, OnDask(cluster_client))
        stored = KNNGraph(n_neighbors=4).build(X, OnDask(cluster_client), StoredParts(str(tmp_path / "graph")))
    for graph in (there, stored):
        same(graph, here)
        assert_array_equal(LapSVC().fit(X, y, graph=graph).decision_function(X), expected)

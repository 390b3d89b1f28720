"""The model of a function on a graph: exact at the points of the fit, a weighted mean of neighbors at new ones."""

import json
from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl import KNNGraph
from dssl.base.errors import IntegrityError
from dssl.execution.in_process import InProcess
from dssl.graph.graph import Graph
from dssl.knn.search import neighbors
from dssl.learners.model import model_type
from dssl.learners.on_graph.laplace_poisson import fit_harmonic
from dssl.learners.on_graph.model import GraphModel, VertexValues, graph_model, index_of_vertices, signed
from dssl.learners.target.target import Classes, Quantities
from dssl.solvers.solver_params import SolverParams
from dssl.storage.csr import as_rows

from ... import reference

TARGET = Classes(np.array([0, 30, 60]), np.array([0, 1, 2]), np.arange(3))


def clouds(d=3, far=20):
    """Return points of three clouds, some copies, and some far off."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, d)) + 3 * c for c in range(3)] + [500 + rng.normal(size=(far, d))])
    return np.concatenate([X, X[:7]])


def model_of(X, params, given=None, target=TARGET):
    execution = InProcess(1)
    graph = params.build(X) if given is None else given
    found = fit_harmonic(graph, target, None, SolverParams(), execution)
    index = index_of_vertices(graph, as_rows(X), params, execution)
    return graph_model(graph, found, target, params, index, {"note": 1}), graph, found


def graphs():
    """Yield (points, parameters, graph or None) of every form."""
    X = clouds()
    for weights in ("self_tuned", "binary", "heat"):
        yield X, KNNGraph(n_neighbors=5, weights=weights), None
    yield X, KNNGraph(n_neighbors=5, duplicates="keep"), None
    yield sparse.csr_array(np.abs(X)), KNNGraph(n_neighbors=5), None
    yield X, KNNGraph(n_neighbors=5, metric="cosine", weights="binary"), None
    distinct = X[:-7]
    yield distinct, KNNGraph(n_neighbors=5), Graph.of(KNNGraph(n_neighbors=5).build(distinct).weights())
    yield distinct, KNNGraph(n_neighbors=5, weights="heat"), Graph.of(neighbors(distinct, 5))


@pytest.mark.parametrize(("X", "params", "given"), list(graphs()))
def test_a_point_of_the_fit_has_the_value_of_its_vertex(X, params, given):
    model, graph, found = model_of(X, params, given)
    values, unsupported = model.block_values(X)
    vertex = graph.vertices.vertex
    assert_array_equal(unsupported, ~found.reachable[vertex])
    if params.duplicates == "keep":  # copies are answered as their mean
        pairs = np.concatenate([np.arange(7), np.arange(7) + len(X) - 7]).reshape(2, 7)
        for copies in pairs:
            assert_allclose(values[copies], found.values[pairs].mean(axis=0), rtol=1e-12)
        values[pairs], vertex = found.values[pairs], np.arange(len(X))
    assert_array_equal(values, found.values[vertex])


@pytest.mark.parametrize("weights", ["self_tuned", "binary", "heat"])
def test_new_points_have_the_weighted_mean_of_their_neighbors(weights):
    X = clouds()
    params = KNNGraph(n_neighbors=5, weights=weights)
    model, graph, found = model_of(X, params)
    V, queries = X[np.unique(graph.vertices.vertex, return_index=True)[1]], np.random.default_rng(1).normal(size=(9, 3))
    distances = np.sqrt(reference.squared_distances(queries, V))
    ids = np.argsort(distances, axis=1, kind="stable")[:, :5]
    near = np.take_along_axis(distances, ids, axis=1)
    scales = reference.knn(V, 6)[1][:, -1]
    w = {"binary": np.ones_like(near), "heat": np.exp(-near**2 / (2 * model.rule.scale**2)),
         "self_tuned": np.exp(-near**2 / (params.width**2 * near[:, -1:] * scales[ids]))}[weights]
    expected = np.einsum("qk,qkc->qc", w, found.values[ids]) / w.sum(1)[:, None]
    values, unsupported = model.block_values(queries)
    assert_allclose(values, expected, atol=1e-5)  # distances of lists are float32
    assert not unsupported.any()


def test_copies_that_were_kept_apart_answer_as_their_mean_over_those_that_a_label_reaches():
    X = np.concatenate([np.arange(12.0)[:, None], np.full((2, 1), 5.0)])
    target = Classes(np.array([0, 11]), np.array([0, 1]), np.arange(2))
    params, execution = KNNGraph(n_neighbors=4, duplicates="keep"), InProcess(1)
    graph = params.build(X)
    found = VertexValues(np.arange(14.0)[:, None] * np.array([[1.0, 0.0]]), np.arange(14) != 13)
    model = graph_model(graph, found, target, params, index_of_vertices(graph, as_rows(X), params, execution))
    values, unsupported = model.values_and_unsupported(X)
    assert_allclose(values[[5, 12, 13], 0], -(5 + 12) / 2)  # 13 says nothing
    assert not unsupported.any()
    assert_allclose(values[6, 0], -6)


def test_points_near_what_no_label_reaches_are_beyond():
    X = clouds()
    model, _, found = model_of(X, KNNGraph(n_neighbors=5))
    values, unsupported = model.block_values(np.array([[500.0, 500, 500], [0, 0, 0], [250, 250, 250]]))
    assert unsupported.tolist()[:2] == [True, False]
    assert not values[0].any()
    assert (~found.reachable).sum() == 20


def test_far_points_have_values_where_weights_would_be_zero():
    """1e8 scales away all weights underflow; their ratios do not."""
    model, *_ = model_of(clouds(far=0), KNNGraph(n_neighbors=5))
    values, unsupported = model.block_values(np.array([[1e8, 1e8, 1e8]]))
    assert not unsupported.any()
    assert values.sum() == pytest.approx(1)


@pytest.mark.parametrize(("X", "params", "given"), list(graphs()))
def test_arrays_and_attributes_make_the_same_model(X, params, given):
    model, *_ = model_of(X, params, given)
    arrays, attributes = model.to_arrays()
    again = model_type(attributes).from_arrays({name: array.copy() for name, array in arrays.items()},
                                               json.loads(json.dumps(attributes)))
    assert isinstance(again, GraphModel)
    assert again.attributes == {"note": 1}
    queries = X[:30] * 1.01
    for mine, own in zip(again.block_values(queries), model.block_values(queries), strict=True):
        assert_array_equal(mine, own)
    with pytest.raises(IntegrityError, match="version 99"):
        GraphModel.from_arrays(arrays, attributes | {"version": 99})


def test_fewer_vertices_than_neighbors():
    X = np.array([[0.0], [1], [2]])
    target = Classes(np.array([0, 2]), np.array([0, 1]), np.arange(2))
    model, *_ = model_of(X, KNNGraph(n_neighbors=10), Graph.of(sparse.csr_array(np.ones((3, 3)) - np.eye(3))), target)
    values, _ = model.block_values(np.array([[0.5], [1.0]]))
    assert values[1, 0] == pytest.approx(0)
    assert values[0, 0] < 0


def test_two_classes_have_one_column_and_quantities_their_own():
    values = np.array([[0.2, 0.8], [1.0, 0.0]])
    assert_allclose(signed(values, Classes(np.arange(2), np.arange(2), np.arange(2))), [[0.6], [-1]])
    assert_array_equal(signed(values, Quantities(np.arange(2), values)), values)
    three = np.eye(3)
    assert_array_equal(signed(three, TARGET), three)


def test_described_counts_the_points_that_no_label_reaches():
    X = np.concatenate([clouds(), 500 + np.zeros((4, 3))])
    graph = KNNGraph(n_neighbors=5).build(X)
    found = fit_harmonic(graph, TARGET, None, SolverParams(), InProcess(1))
    assert found.described(graph.vertices)["unreachable"] == 24
    assert replace(found, reachable=np.ones_like(found.reachable)).described(graph.vertices)["unreachable"] == 0
    assert VertexValues(found.values, found.reachable).held_out is None

"""Effective and amplified resistances, against the pseudo-inverse of the Laplacian of all points."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.csgraph import connected_components

from dssl import Graph, KNNGraph, amplified_resistance_kernel, effective_resistances
from dssl.base.errors import DataError, NotConverged, ParameterError
from dssl.kernels.resistance import projections_for
from dssl.solvers.solver_params import SolverParams

from ..solvers.graphs import components, random_graph


def dense(W):
    """Return resistances and amplified resistances (n, n) of dense weights, as the papers print them."""
    degrees = W.sum(axis=1)
    inverse = np.linalg.pinv(np.diag(degrees) - W, hermitian=True)
    R = inverse.diagonal()[:, None] + inverse.diagonal() - 2 * inverse
    component = connected_components(sp.csr_array(W), directed=False)[1]
    R[component[:, None] != component] = np.inf
    with np.errstate(divide="ignore", invalid="ignore"):
        C = R - 1 / degrees[:, None] - 1 / degrees + 2 * W / (degrees[:, None] * degrees)
    np.fill_diagonal(C, 0)
    return R, C


@pytest.fixture(scope="module")
def cloud():
    """A graph of 3-D points, a tenth of them twice or three times, and the dense weights of all points."""
    X = np.random.default_rng(0).normal(size=(150, 3))
    graph = KNNGraph(n_neighbors=6).build(np.concatenate([X, X[:15], X[:5]]))
    vertex = graph.vertices.vertex
    return graph, graph.weights()[vertex][:, vertex].toarray()


def test_resistances_are_those_of_the_graph_of_all_points(cloud):
    graph, W = cloud
    points = np.r_[0:30, 150:170]
    R = effective_resistances(graph, points)
    assert_allclose(R, dense(W)[0][np.ix_(points, points)], rtol=1e-6, atol=1e-9)
    assert_array_equal(R, R.T)


def test_a_point_that_is_named_twice_is_no_copy_of_itself(cloud):
    graph, W = cloud
    points = np.array([3, 3, 150, 0, 40])  # 150 is a copy of 0
    assert_allclose(effective_resistances(graph, points), dense(W)[0][np.ix_(points, points)], rtol=1e-6, atol=1e-9)


def test_components_are_infinitely_far():
    W = components([30, 20, 1, 2, 1], weighted=True)
    R = effective_resistances(Graph.of(W), np.arange(54))
    expected = dense(W.toarray())[0]
    assert_array_equal(np.isinf(R), np.isinf(expected))
    finite = np.isfinite(R)
    assert_allclose(R[finite], expected[finite], rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("shape", ["path", "complete"])
def test_resistances_of_known_networks(shape):
    """In a row they add up; between any two of n vertices that are all joined it is 2 / n."""
    n = 12
    path = sp.diags_array([np.full(n - 1, 4.0)] * 2, offsets=[-1, 1])
    R = effective_resistances(Graph.of(path if shape == "path" else sp.csr_array(1 - np.eye(n))), np.arange(n))
    apart = np.abs(np.subtract.outer(np.arange(n), np.arange(n)))
    assert_allclose(R, apart / 4 if shape == "path" else 2 / n * (apart > 0), rtol=1e-7)


def test_foster_and_the_triangle_inequality():
    """The resistances of all edges times their weights sum to n - 1 (Foster 1949), and resistances are a metric."""
    W = random_graph(80, 6, weighted=True)
    R = effective_resistances(Graph.of(W), np.arange(80))
    assert (W.toarray() * R).sum() / 2 == pytest.approx(79, rel=1e-7)
    assert (R[:, None, :] <= R[:, :, None] + R[None] + 1e-9).all()


def test_amplified_kernel_is_centered_and_positive(cloud):
    graph, W = cloud
    points = np.r_[3:60, 150:160]
    K, C = amplified_resistance_kernel(graph, points), dense(W)[1][np.ix_(points, points)]
    # Two copies of a point differ by nothing but rounding: C is 2/d - 1/d - 1/d there.
    H = np.eye(len(points)) - 1 / len(points)
    assert_allclose(K, -0.5 * H @ C @ H, atol=1e-6 * np.abs(K).max())
    assert_array_equal(K, K.T)
    assert_allclose(K.sum(axis=0), 0, atol=1e-10)
    values = np.linalg.eigvalsh(K)
    assert values[0] >= -1e-9 * values[-1]


def test_amplified_kernel_is_that_of_two_steps_and_the_inverse():
    """C_uv is the squared distance in D^-1/2 P^2 (I - P)^+ D^-1/2, which is why it is positive."""
    W = random_graph(60, 6, weighted=True).toarray()
    root = np.sqrt(W.sum(axis=1))
    P = W / root[:, None] / root
    G = P @ P @ np.linalg.pinv(np.eye(60) - P, hermitian=True) / root[:, None] / root
    H = np.eye(60) - 1 / 60
    K = amplified_resistance_kernel(Graph.of(sp.csr_array(W)), np.arange(60))
    assert_allclose(K, H @ G @ H, atol=1e-7 * np.abs(K).max())


@pytest.mark.parametrize("random_state", [0, 1])
def test_projections_keep_their_bound(cloud, random_state):
    """All within epsilon, and of a known share of it: the standard error is `(2 / q)^1/2` at most."""
    graph, W = cloud
    found = effective_resistances(graph, epsilon=0.5, random_state=random_state)
    edge, v = graph.weights().tocoo(), graph.vertices
    exact = dense(W)[0][v.first[edge.row], v.first[edge.col]]
    error = np.abs(found.tocsr()[edge.row, edge.col] / exact - 1)
    assert error.max() < 0.5
    assert np.sqrt((error**2).mean()) < 1.1 * np.sqrt(2 / projections_for(len(v), 0.5))
    assert (abs(found - found.T)).max() == 0
    rough = effective_resistances(graph, n_projections=50, random_state=random_state)
    assert np.sqrt(((rough.tocsr()[edge.row, edge.col] / exact - 1) ** 2).mean()) < 1.3 * np.sqrt(2 / 50)


def test_projections_do_not_depend_on_blocks():
    graph = Graph.of(components([40, 30, 1], weighted=True))
    narrow, wide = (effective_resistances(graph, n_projections=30, solver=SolverParams(block_columns=b))
                    for b in (7, 64))
    assert_allclose(narrow.toarray(), wide.toarray(), rtol=1e-10)
    assert narrow.nnz == graph.weights().nnz


@pytest.mark.parametrize(("options", "message"), [
    ({"points": [0, 99]}, "points span 0 to 99"), ({"points": [[0]]}, r"shape \(1, 1\)"),
    ({"points": [0.5]}, "float64"), ({"points": [0], "epsilon": 0.1}, "points with n_projections or epsilon"),
    ({"epsilon": 2}, "epsilon=2"), ({"n_projections": 0}, "n_projections=0"),
    ({"n_projections": 5, "epsilon": 0.5}, "n_projections=5 with epsilon=0.5")])
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ParameterError, match=message):
        effective_resistances(Graph.of(random_graph(20)), **options)


def test_what_is_no_graph_is_refused():
    for made in (effective_resistances, amplified_resistance_kernel):
        with pytest.raises(ParameterError, match="graph is a ndarray"):
            made(np.ones((4, 2)), [0, 1])


def test_a_kernel_of_two_components_is_refused():
    with pytest.raises(DataError, match="points are of 2 components"):
        amplified_resistance_kernel(Graph.of(sp.block_diag([random_graph(9), random_graph(7)])), np.arange(12))


def test_a_solve_that_does_not_converge_says_so():
    path = Graph.of(sp.diags_array([np.ones(399)] * 2, offsets=[-1, 1]))
    for points in (np.array([0, 399]), None):
        with pytest.raises(NotConverged):
            effective_resistances(path, points, solver=SolverParams(method="gauss_seidel", max_iter=3))

"""The spectral concentration of a stored graph from some of its vertices, against that from the covariance of all."""

import numpy as np
import pytest
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from dssl.execution.in_process import InProcess
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.laplacian import Laplacian
from dssl.graph.spectral_concentration import SAMPLE, matrix_concentration, sampled_concentration
from dssl.methods.deformed.covariance import CovarianceParams
from dssl.solvers.lanczos import SingularMatrix
from dssl.storage.blocks import ArrayRows
from tests.covariance import graph_covariance

from ..solvers.graphs import random_graph


def structures(X, random_state=0):
    """Return the spectral concentration by a sample, and by all vertices."""
    execution = InProcess(1)
    graph = KNNGraph().build(X, execution)
    whole = graph_covariance(graph, np.array([0]), CovarianceParams(n_landmarks=len(X)), execution).concentration[2]
    copies = ArrayRows(graph.vertices.multiplicity)
    return sampled_concentration(graph.stored, copies, len(graph.vertices), random_state, execution), whole


def test_of_few_vertices_it_is_that_of_the_covariance():
    X = np.random.default_rng(0).normal(size=(SAMPLE, 3))
    found, whole = structures(X)
    assert found == pytest.approx(whole, rel=1e-2)


def test_copies_of_points_count():
    X = np.random.default_rng(0).normal(size=(100, 3))
    found, whole = structures(np.concatenate([X, X[:20], X[:20]]))
    assert found == pytest.approx(whole, rel=1e-2)


@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("normalized", [True, False])
def test_from_the_matrix_of_the_lanczos_process_it_is_that_of_the_formula(normalized, copies):
    """In three pieces, of other sizes; the constant function is one of all pieces."""
    rng = np.random.default_rng(0)
    W = sp.block_diag([random_graph(size, 14, size) for size in (90, 40, 25)]).tocsr()
    n, ridge, power = W.shape[0], 0.01, 2
    L = Laplacian(W, normalized, rng.integers(1, 4, n).astype(float) if copies else None)
    R = L.matrix(ridge).toarray()
    vertices = rng.permutation(n)[:60]
    diagonal = np.diagonal(np.linalg.matrix_power(np.linalg.inv(R), power))
    pieces = connected_components(W, directed=False)[1]
    squares, null = L.vector**2, np.empty(n)
    for piece in range(3):
        inside = pieces == piece
        null[inside] = squares[inside] / squares[inside].sum() * inside.sum() / n
    rho = ((diagonal - null / ridge**power) * np.diagonal(R)**power)[vertices]
    scaled = R / np.sqrt(np.outer(np.diagonal(R), np.diagonal(R)))
    variance = (scaled**2).sum() / n - 1
    of_noise, A = (1 / np.sqrt(1 - 4 * variance) - 1) / (2 * variance), SingularMatrix.of(L.matrix(), L.vector)
    for times in (np.ones(60, int), rng.integers(1, 5, 60)):
        q = np.median(np.repeat(rho, times)) ** (2 / power)
        found = matrix_concentration(diagonal[vertices], vertices, A, ridge, power, times / 8)
        assert found == pytest.approx(max(q - 1, 0) / (of_noise - 1), rel=1e-4)


@pytest.mark.slow
def test_a_sample_tells_noise_from_clusters():
    rng = np.random.default_rng(1)
    noise, line = rng.normal(size=(800, 20)), np.stack([np.linspace(0, 50, 800), rng.normal(size=800)], axis=1)
    assert structures(noise)[0] == pytest.approx(structures(noise)[1], rel=0.2)
    assert structures(line)[0] == pytest.approx(structures(line)[1], rel=0.3)
    assert structures(noise)[0] < 2 < 10 < structures(line)[0]


def test_of_a_graph_that_no_task_can_hold_it_is_not_known():
    graph = KNNGraph().build(np.random.default_rng(0).normal(size=(2000, 3)), InProcess(1))
    found = [sampled_concentration(graph.stored, None, 2000, 0, InProcess(1, memory_budget=budget))
             for budget in (1 << 20, 16 << 20)]
    assert found[0] is None
    assert found[1] > 0

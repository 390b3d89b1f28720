"""The spectrum of a graph, in vertices and in points."""

from unittest.mock import patch

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal

from dssl import Graph, KNNGraph, graph_spectrum
from dssl.base.errors import NotConverged, ParameterError
from dssl.execution.in_process import InProcess
from dssl.graph.laplacian import Laplacian
from dssl.graph.spectrum import SpectrumParams
from dssl.solvers import eigen


@pytest.fixture(scope="module")
def graph():
    """Two clouds apart, a tenth of their points twice or three times."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(150, 3)), rng.normal(size=(90, 3)) + 50])
    return KNNGraph(n_neighbors=6).build(np.concatenate([X, X[:20], X[:5]]))


@pytest.mark.parametrize("laplacian", ["normalized", "unnormalized"])
def test_copies_have_the_eigenvectors_of_the_graph_of_all_points(graph, laplacian):
    """L of all points, of which copies have all edges of their vertex, has these pairs on what copies share."""
    found = graph_spectrum(graph, 8, SpectrumParams(laplacian=laplacian, tol=1e-10))
    U, vertex = found.at_points(graph), graph.vertices.vertex
    L = Laplacian(graph.weights()[vertex][:, vertex], laplacian == "normalized").matrix()
    assert_allclose(L @ U, U * found.values, atol=1e-9)
    assert_allclose(U.T @ U, np.eye(8), atol=1e-10)
    assert_array_equal(found.values[:2], 0)
    assert found.values[2] > 1e-4
    assert_array_equal(U[:5], U[240:245])
    assert set(found.attributes) == {"method", "iterations", "residual"}


def test_a_graph_that_was_brought_and_another_execution(graph):
    brought = Graph.of(graph.weights())
    first = graph_spectrum(brought, 5)
    again = graph_spectrum(brought, 5, execution=InProcess(2))
    for name in ("values", "vectors", "residuals"):
        assert_array_equal(getattr(first, name), getattr(again, name))


def test_a_graph_that_grew_begins_at_its_vectors_before():
    X = np.random.default_rng(3).normal(size=(2020, 4))
    before, after = (KNNGraph(n_neighbors=8).build(X[:n], scale="none") for n in (2000, 2020))
    old = graph_spectrum(before, 12)
    cold, warm = (graph_spectrum(after, 12, start=start) for start in (None, old.vectors))
    assert_allclose(warm.values, cold.values, atol=1e-9)
    assert warm.residuals.max() <= 1e-6
    assert warm.attributes["iterations"] < cold.attributes["iterations"]


def test_what_cannot_be_is_refused(graph):
    with pytest.raises(ParameterError, match="laplacian='random_walk'"):
        SpectrumParams(laplacian="random_walk")
    with pytest.raises(ParameterError, match=r"graph is a csr_array[\s\S]*Graph\.of"):
        graph_spectrum(graph.weights(), 3)
    with pytest.raises(ParameterError, match="m=999, expected 1 to 240"):
        graph_spectrum(graph, 999)
    with patch.object(eigen, "ROUNDS", 1), patch.object(eigen, "GAIN", 1.1):
        path = Graph.of(sp.diags_array([np.ones(1999), np.ones(1999)], offsets=[-1, 1]))
        with pytest.raises(NotConverged, match="eigenpairs did not converge"):
            graph_spectrum(path, 20, SpectrumParams(tol=1e-13, method="filtered"))

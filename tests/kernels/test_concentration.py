"""How much a graph has to tell of: against eigenvalues, and where there are clusters and where there are none."""

import numpy as np
import pytest

from dssl.execution.in_process import InProcess
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.laplacian import Laplacian
from dssl.graph.regularizer import RegularizerParams
from dssl.graph.spectral_concentration import matrix_concentration
from dssl.methods.deformed.covariance import CovarianceParams
from dssl.solvers.lanczos import SingularMatrix
from tests import reference
from tests.covariance import graph_covariance


def concentration(X, n_landmarks=1000, n_neighbors=6, **regularizer):
    params = CovarianceParams(regularizer=RegularizerParams(**regularizer), n_landmarks=n_landmarks)
    graph = KNNGraph(n_neighbors=n_neighbors, weights="binary").build(X, InProcess(1), scale="none")
    actual = graph_covariance(graph, np.array([0]), params, InProcess(1))
    return actual.concentration[params.regularizer.power]


@pytest.mark.parametrize(("laplacian", "power"), [("normalized", 1), ("normalized", 2), ("normalized", 3),
                                                  ("unnormalized", 2)])
def test_it_is_what_eigenvectors_but_the_constant_one_have_in_the_covariance(laplacian, power):
    X = np.random.default_rng(0).normal(size=(120, 4))
    W = reference.knn_weights(X, 7)
    L = reference.normalized_laplacian(W) if laplacian == "normalized" else reference.laplacian(W)
    values, vectors = np.linalg.eigh(L)
    assert values[1] > 1e-6, "the graph is in one piece"
    left = (vectors[:, 1:]**2 / (values[1:] + 0.02)**power).sum(axis=1)
    q = np.median(left * (np.diagonal(L) + 0.02)**power)**(2 / power)
    scale = 1 / np.sqrt(np.diagonal(L) + 0.02)
    variance = ((L - np.diag(np.diagonal(L))) ** 2 * np.outer(scale, scale) ** 2).sum() / 120
    expected = (q - 1) / ((1 / np.sqrt(1 - 4 * variance) - 1) / (2 * variance) - 1)
    assert concentration(X, laplacian=laplacian, ridge=0.02, power=power) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("laplacian", ["normalized", "unnormalized"])
def test_without_a_solvers_form_it_is_the_same_in_pieces_too(laplacian):
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(90, 3)), rng.normal(size=(60, 3)) + 100])
    graph, ridge = KNNGraph(n_neighbors=6, weights="binary").build(X, InProcess(1), scale="none"), 0.02
    params = CovarianceParams(regularizer=RegularizerParams(laplacian=laplacian, ridge=ridge, power=2), n_landmarks=40)
    actual = graph_covariance(graph, np.array([0]), params, InProcess(1))
    made = Laplacian(graph.weights(), laplacian == "normalized")
    inverse = np.linalg.inv(made.matrix(ridge).toarray())
    diagonal = np.diagonal(inverse @ inverse)[actual.landmarks]
    A = SingularMatrix.of(made.matrix(), made.vector)
    found_again = matrix_concentration(diagonal, actual.landmarks, A, ridge, 2,
                                       np.ones(len(actual.landmarks)))
    assert found_again == pytest.approx(actual.concentration[2], rel=1e-4)


@pytest.mark.slow
def test_noise_has_none_and_clusters_have_much():
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(600, 20))
    apart = np.concatenate([rng.normal(size=(200, 20)) + 30 * center for center in np.eye(3, 20)])  # three components
    line = np.stack([np.linspace(0, 50, 600), rng.normal(size=600)], axis=1)
    assert concentration(noise) == pytest.approx(1, abs=0.4)
    assert concentration(noise, n_neighbors=12) == pytest.approx(1, abs=0.4)
    assert concentration(apart) > 10
    assert concentration(line) > 10
    assert concentration(line, n_landmarks=100) == pytest.approx(concentration(line), rel=0.3)

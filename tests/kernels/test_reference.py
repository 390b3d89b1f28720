"""The reference against scikit-learn and against its own definitions: the other tests rest on it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC

from .. import reference


def points(n=30, d=3, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def test_nearest_neighbors_are_those_of_scikit_learn():
    X = points()
    distances, ids = NearestNeighbors(n_neighbors=6, algorithm="brute").fit(X).kneighbors(X)
    assert_allclose(reference.knn(X, 6)[0], ids)
    assert_allclose(reference.knn(X, 6)[1], distances, atol=1e-6)


def test_laplacian_measures_differences_over_edges():
    W = reference.knn_weights(points(), 5, bandwidth=1.0)
    f = points(30, 1, 1)[:, 0]
    assert_allclose(W, W.T)
    assert (W > 0).sum(1).min() >= 4
    energy = 0.5 * (W * (f[:, None] - f[None, :]) ** 2).sum()
    assert_allclose(f @ reference.laplacian(W) @ f, energy, rtol=1e-12)
    scaled = f / np.sqrt(W.sum(1))
    assert_allclose(f @ reference.normalized_laplacian(W) @ f,
                    0.5 * (W * (scaled[:, None] - scaled[None, :]) ** 2).sum(), rtol=1e-12)


def test_minimum_norm_interpolants_interpolate_and_no_other_has_less_energy():
    Q = reference.regularizer(reference.laplacian(reference.knn_weights(points(), 5)), 2, 0.1)
    S, values = np.arange(0, 30, 4), points(8, 1, 2)[:, 0]
    f = reference.minimum_norm_interpolant(Q, S, values)
    assert_allclose(f[S], values)
    assert_allclose(f, reference.minimum_norm_interpolant_in_image(Q, S, values), atol=1e-9)
    for seed in range(20):
        step = 1e-2 * points(30, 1, seed)[:, 0]
        step[S] = 0
        assert (f + step) @ Q @ (f + step) > f @ Q @ f


def test_ridge_is_that_of_scikit_learn():
    X = points()
    y, labeled = np.sin(X[:, 0]), np.arange(30) % 3 == 0
    theirs = KernelRidge(alpha=0.1 * labeled.sum(), kernel="rbf", gamma=0.5).fit(X[labeled], y[labeled])
    assert_allclose(reference.ridge(reference.rbf(X, X, 1.0), y, labeled, 0.1), theirs.predict(X), rtol=1e-10)


@pytest.mark.parametrize("C", [0.5, 10.0])
def test_svm_is_that_of_scikit_learn(C):
    X = points(25)
    y = np.where(X[:, 0] + 0.5 * points(25, 1, 5)[:, 0] > 0, 1.0, -1.0)
    K = reference.rbf(X, X, 1.0)
    coef, bias = reference.svm(K, y, C)
    theirs = SVC(C=C, kernel="precomputed", tol=1e-8).fit(K, y)
    assert_allclose(K @ coef + bias, theirs.decision_function(K), atol=1e-4)

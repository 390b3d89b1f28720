"""The reference against scikit-learn and against its own definitions: the other tests rest on it."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.kernel_ridge import KernelRidge
from sklearn.neighbors import NearestNeighbors
from sklearn.svm import SVC

from .. import reference


def points(n=30, d=3, random_state=0):
    return np.random.default_rng(random_state).normal(size=(n, d))


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
    for random_state in range(20):
        step = 1e-2 * points(30, 1, random_state)[:, 0]
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


LAMBDA_A, LAMBDA_I = 0.3, 0.05


class TestLapRLS:
    """Eqs. (3) and (4) of Li et al. 2019: the forms agree with each other and with the theorems about them."""

    def problem(self, n=25, n_labeled=7, t=2, bandwidth=0.6):
        X = points(n)
        labeled = np.zeros(n, bool)
        labeled[np.random.default_rng(1).permutation(n)[:n_labeled]] = True
        K, L = reference.rbf(X, X, bandwidth), reference.laplacian(reference.knn_weights(X, 5))
        return K, L, np.where(labeled[:, None], points(n, t, 2), 0.0), labeled

    def test_it_is_ridge_regression_in_the_deformed_kernel(self):
        """Sindhwani, Niyogi, Belkin 2005: with M = (lambda_I / lambda_A) L, on the labeled points alone."""
        K, L, y, labeled = self.problem()
        deformed = reference.deformed_gram(K, LAMBDA_I / LAMBDA_A * L)
        expected = K @ reference.laprls_coef(K, L, y, labeled, LAMBDA_A, LAMBDA_I)
        alpha = reference.rls(deformed[np.ix_(labeled, labeled)], y[labeled], LAMBDA_A)
        assert_allclose(deformed[:, labeled] @ alpha, expected, rtol=1e-9, atol=1e-12)
        assert_allclose(reference.ridge(deformed, y, labeled, LAMBDA_A / labeled.sum()), expected, rtol=1e-9,
                        atol=1e-12)

    def test_it_is_that_of_belkin_in_other_units(self):
        K, L, y, labeled = self.problem()
        ambient, manifold = LAMBDA_A / labeled.sum(), LAMBDA_I * len(K) ** 2 / labeled.sum()
        assert_allclose(K @ reference.laprls_coef(K, L, y[:, 0], labeled, LAMBDA_A, LAMBDA_I),
                        reference.laprls(K, L, y[:, 0], labeled, ambient, manifold), rtol=1e-9, atol=1e-12)

    def test_no_other_function_costs_less(self):
        K, L, y, labeled = self.problem(t=1)
        alpha = reference.laprls_coef(K, L, y, labeled, LAMBDA_A, LAMBDA_I)

        def cost(alpha):
            f = K @ alpha
            loss = ((y - f)[labeled] ** 2).sum()
            return loss + LAMBDA_A * (alpha * f).sum() + LAMBDA_I * (f * (L @ f)).sum()

        for random_state in range(20):
            assert cost(alpha + 1e-3 * points(len(K), 1, random_state)) > cost(alpha)

    def test_with_all_points_as_landmarks_nystrom_is_exact(self):
        K, L, y, labeled = self.problem()
        exact = K @ reference.laprls_coef(K, L, y, labeled, LAMBDA_A, LAMBDA_I)
        actual = K @ reference.nystrom_laprls(K, K, L, y, labeled, LAMBDA_A, LAMBDA_I)
        assert_allclose(actual, exact, rtol=1e-6, atol=1e-8)

    def test_without_a_graph_it_is_plain_least_squares(self):
        K, L, y, labeled = self.problem()
        alpha = reference.laprls_coef(K, L, y, labeled, LAMBDA_A, 0.0)
        assert_allclose(alpha[~labeled], 0, atol=1e-14)
        assert_allclose(alpha[labeled], reference.rls(K[np.ix_(labeled, labeled)], y[labeled], LAMBDA_A))

    def test_preconditioners_are_the_matrix_where_all_rows_are_landmarks(self):
        """(5) always, (6) where all rows are labeled as well: then nothing is sampled."""
        K, L, _, labeled = self.problem()
        everything = np.ones(len(K), bool)
        H = reference.nystrom_matrix(K, K, L, labeled, LAMBDA_A, LAMBDA_I)
        assert_allclose(reference.preconditioner_5(K[labeled], K, L, len(K), LAMBDA_A, LAMBDA_I), H)
        H = reference.nystrom_matrix(K, K, L, everything, LAMBDA_A, LAMBDA_I)
        assert_allclose(reference.preconditioner_6(len(K), K, L, len(K), LAMBDA_A, LAMBDA_I), H)


def test_leverage_scores_are_influences_of_a_row_on_its_own_fit():
    K, y, mu = reference.rbf(points(), points(), 1.0), points(30, 1, 3)[:, 0], 0.2
    scores = reference.leverage_scores(K, mu)
    for i in range(0, 30, 7):
        moved = y + 1e-3 * (np.arange(30) == i)
        influence = (K @ (reference.rls(K, moved, mu) - reference.rls(K, y, mu)))[i] / 1e-3
        assert_allclose(scores[i], influence, rtol=1e-7)
    values = np.linalg.eigvalsh(K)
    assert_allclose(scores.sum(), (values / (values + mu)).sum())

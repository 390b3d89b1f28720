"""Deformed kernels against eqs. 4 and 6 as printed, their limits in eta, and the theorems behind them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import DataError, ParameterError
from dssl.kernels.base import RBF, LaplacianKernel, Linear, Polynomial
from dssl.kernels.deformed import landmark_deformation
from dssl.storage.blocks import ArrayRows
from tests.in_pairs import in_pairs

from .. import reference

KERNEL = RBF(0.8)


def problem(n=30, d=2, random_state=0, power=1, ridge=0.01, normalized=True):
    """Return points, and Q = (Laplacian of their 4-nearest-neighbor graph + ridge)^power."""
    X = np.random.default_rng(random_state).normal(size=(n, d))
    W = reference.knn_weights(X, 5, bandwidth=1.0)
    L = reference.normalized_laplacian(W) if normalized else reference.laplacian(W)
    return X, reference.regularizer(L, power, ridge)


def others(n=11, d=2, random_state=77):
    return np.random.default_rng(random_state).normal(size=(n, d))


def inverse_on(Q, S):
    return np.linalg.inv(Q)[np.ix_(S, S)]


def printed(kernel, X_S, Q, eta, X, Z):
    return reference.deformed(kernel(X_S, X_S), eta, Q, kernel(X_S, X), kernel(X_S, Z), kernel(X, Z))


@in_pairs({
    "kernel": [RBF(0.8), LaplacianKernel(1.5), Linear(), Polynomial(2, 0.5, 1.0)],
    "eta": [1e-6, 0.1, 1.0, 1e3],
    "power": [1, 2]})
def test_kernel_at_landmarks_is_equation_6(kernel, eta, power):
    X, Q = problem(power=power)
    S = np.arange(0, 30, 3)
    ours = landmark_deformation(kernel, X[S], inverse_on(Q, S), eta)
    expected = printed(kernel, X[S], reference.landmark_regularizer(Q, S), eta, X, others())
    assert_allclose(ours(X, others()), expected, rtol=1e-8, atol=1e-9 * np.abs(kernel(X, X)).max())
    assert ours.jitter == 0


@pytest.mark.parametrize("eta", [0.1, 100.0])
def test_an_ill_conditioned_regularizer_costs_few_digits(eta):
    """Condition of A above 1e7: against eq. 4 with Q_hat as a Schur complement of Q, which needs no inverse of A."""
    X, Q = problem(n=60, power=3, ridge=1e-3)
    S, T = np.arange(0, 60, 4), np.setdiff1d(np.arange(60), np.arange(0, 60, 4))
    Q_hat = Q[np.ix_(S, S)] - Q[np.ix_(S, T)] @ np.linalg.solve(Q[np.ix_(T, T)], Q[np.ix_(T, S)])
    A, Z = inverse_on(Q, S), others()
    assert np.linalg.cond(A) > 1e7
    ours = landmark_deformation(KERNEL, X[S], 0.5 * (A + A.T), eta)
    assert_allclose(ours(Z, Z), printed(KERNEL, X[S], 0.5 * (Q_hat + Q_hat.T), eta, Z, Z), atol=1e-8)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_with_all_points_as_landmarks_it_is_the_full_kernel(power):
    """Eq. 6 with S = all points is eq. 4."""
    X, Q = problem(power=power, ridge=0.05)
    everything, Z = landmark_deformation(KERNEL, X, np.linalg.inv(Q), 2.0), others()
    full = printed(KERNEL, X, Q, 2.0, Z, Z)
    assert_allclose(everything(Z, Z), full, atol=1e-10)
    assert_allclose(everything.diagonal(Z), np.diagonal(full), atol=1e-10)


def test_eta_zero_returns_the_base_kernel_bit_for_bit():
    X, Q = problem()
    Z, ours = others(), landmark_deformation(KERNEL, X, np.linalg.inv(Q), 0)
    assert_array_equal(ours(Z, X), KERNEL(Z, X))
    assert_array_equal(ours.diagonal(Z), KERNEL.diagonal(Z))
    assert ours.expansion(X, np.ones(30))[0] is KERNEL


def test_limit_of_large_eta():
    """On S, eta K~ tends to A = Q^+_SS; elsewhere K~ tends to what K leaves unexplained by its values on S.

    On S, K~ = A/eta (A/eta + K)^-1 K, and (A + eta K)^-1 eta K tends to I where K_SS is nonsingular.
    """
    X, Q = problem()
    S = np.arange(0, 30, 5)
    A, Z = inverse_on(Q, S), others()
    K_SS, K_SZ = KERNEL(X[S], X[S]), KERNEL(X[S], Z)
    unexplained = KERNEL(Z, Z) - K_SZ.T @ np.linalg.solve(K_SS, K_SZ)
    errors_on, errors_off = [], []
    for eta in (1e4, 1e5, 1e6):
        ours = landmark_deformation(KERNEL, X[S], A, eta)
        errors_on.append(np.abs(eta * ours(X[S], X[S]) - A).max() / np.abs(A).max())
        errors_off.append(np.abs(ours(Z, Z) - unexplained).max())
    for errors in (errors_on, errors_off):
        assert errors[2] < 1e-3
        assert_allclose(np.divide(errors[:2], errors[1:]), 10.0, rtol=0.05)  # both vanish as 1/eta


def test_limit_of_small_eta_is_linear():
    """K~ = K - eta k' Q_hat k + O(eta^2)."""
    X, Q = problem()
    S, Z, eta = np.arange(0, 30, 3), others(), 1e-6
    ours = landmark_deformation(KERNEL, X[S], inverse_on(Q, S), eta)
    slope = KERNEL(X[S], Z).T @ reference.landmark_regularizer(Q, S) @ KERNEL(X[S], Z)
    assert_allclose((KERNEL(Z, Z) - ours(Z, Z)) / eta, slope, rtol=1e-3, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(random_state=st.integers(0, 10**6), n=st.integers(7, 30), share=st.integers(1, 4), power=st.integers(1, 3),
       log_eta=st.floats(-8, 8), ridge=st.sampled_from([1e-3, 0.1]))
def test_deformed_kernels_are_symmetric_and_positive_and_smaller_than_the_base(random_state, n, share, power, log_eta,
                                                                               ridge):
    X, Q = problem(n, random_state=random_state, power=power, ridge=ridge)
    S, eta = np.arange(0, n, share), 10.0**log_eta
    ours = landmark_deformation(KERNEL, X[S], inverse_on(Q, S), eta)
    Z = np.concatenate([X, others(6, random_state=random_state), X[:3]])
    K = ours(Z, Z)
    assert_array_equal(K, K.T)
    assert np.linalg.eigvalsh(K).min() >= -1e-9
    assert np.linalg.eigvalsh(KERNEL(Z, Z) - K).min() >= -1e-9, "a penalty can only shrink the unit ball"
    assert_allclose(ours.diagonal(Z), np.diagonal(K), atol=1e-12)
    assert K.diagonal().min() >= 0
    assert_allclose(ours(Z[:5], Z[5:]), K[:5, 5:], atol=1e-10)


@pytest.mark.parametrize("step", [1, 4])
def test_theorem_2_1_the_norm_of_the_deformed_space(step):
    """For f = sum a_i K~(x_i, .), |f|^2_K + eta f'Qf = a' K~ a, and <f, K~(z, .)> = f(z) (eqs. 3 and 5)."""
    X, Q = problem()
    eta, Z, S = 0.6, others(), np.arange(0, 30, step)
    X_S, Q_S = X[S], reference.landmark_regularizer(Q, S)
    ours = landmark_deformation(KERNEL, X_S, inverse_on(Q, S), eta)
    a = np.random.default_rng(1).normal(size=(len(Z), 3))
    base, centers, c = ours.expansion(Z, a)
    f_S = base(X_S, centers) @ c
    norm = c.T @ base(centers, centers) @ c + eta * f_S.T @ Q_S @ f_S
    assert_allclose(norm, a.T @ ours(Z, Z) @ a, rtol=1e-8, atol=1e-8)

    _, centers_z, c_z = ours.expansion(Z, np.eye(len(Z)))
    z_S = base(X_S, centers_z) @ c_z
    reproduced = c_z.T @ base(centers_z, centers) @ c + eta * z_S.T @ Q_S @ f_S
    assert_allclose(reproduced, ours(Z, Z) @ a, rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("ridge", [0.0, 0.1])
def test_theorem_3_1_the_pseudo_inverse_reproduces_on_the_image(ridge):
    """<h, R^+ e_i>_R = h_i for h in im(R)."""
    _, R = problem(ridge=ridge, normalized=False)
    h = R @ np.random.default_rng(0).normal(size=30)
    assert_allclose(h @ R @ reference.pseudo_inverse(R), h, atol=1e-10)


@pytest.mark.parametrize("power", [1, 2])
def test_theorem_3_2_energy_of_minimum_norm_interpolants(power):
    """h_S' Q_hat g_S = h*' Q g* for the interpolants of eq. 9, where Q is positive definite."""
    _, Q = problem(power=power)
    S = np.arange(0, 30, 3)
    h, g = np.random.default_rng(2).normal(size=(2, len(S)))
    h_star, g_star = (reference.minimum_norm_interpolant(Q, S, values) for values in (h, g))
    assert_allclose(h @ reference.landmark_regularizer(Q, S) @ g, h_star @ Q @ g_star, rtol=1e-8)
    assert_allclose(h @ np.linalg.solve(inverse_on(Q, S), g), h_star @ Q @ g_star, rtol=1e-8)


def test_theorem_3_2_with_a_singular_laplacian_holds_in_the_image():
    """A Laplacian without a ridge breaks the theorem's condition: its Schur complement annihilates constants.

    What holds is the same statement with interpolants in im(L), the space of Theorem 3.1; the least energy over all
    interpolants is that of h - c 1 for the best constant c.
    """
    _, L = problem(ridge=0.0, normalized=False)
    assert np.linalg.matrix_rank(L) == 29, "the graph must be connected"
    S, ones = np.arange(0, 30, 3), np.ones(10)
    h, g = np.random.default_rng(2).normal(size=(2, 10))
    Q_hat = reference.landmark_regularizer(L, S)
    h_star, g_star = (reference.minimum_norm_interpolant_in_image(L, S, values) for values in (h, g))
    assert_allclose(h_star[S], h, atol=1e-10)
    assert_allclose(h_star.sum(), 0, atol=1e-9)
    assert_allclose(h @ Q_hat @ g, h_star @ L @ g_star, rtol=1e-8)

    free = reference.minimum_norm_interpolant(L, S, h)
    c = (ones @ Q_hat @ h) / (ones @ Q_hat @ ones)
    assert_allclose(free @ L @ free, (h - c) @ Q_hat @ (h - c), rtol=1e-8)
    constant = reference.minimum_norm_interpolant(L, S, ones)
    assert_allclose(constant, 1.0, rtol=1e-10)
    assert ones @ Q_hat @ ones > 0.1, "as printed, the energy of the constant interpolant would be this, and it is 0"


def test_a_null_direction_of_the_inverse_is_held_at_zero_where_equation_4_leaves_it_free():
    """With S = all points of a Laplacian without a ridge, A 1 = 0; the two readings of eq. 7 part there."""
    X, L = problem(n=12, ridge=0.0, normalized=False)
    A, eta = reference.pseudo_inverse(L), 1e4
    held = landmark_deformation(KERNEL, X, A, eta)
    limit = landmark_deformation(KERNEL, X, A + 1e-9 * np.eye(12), eta)
    assert_allclose(held(X, X), limit(X, X), atol=1e-8)
    free = printed(KERNEL, X, L, eta, X, X)
    ones = np.ones(12)
    assert abs(ones @ held(X, X) @ ones) < 1e-8
    assert ones @ free @ ones > 1.0


def test_a_small_ridge_leaves_constants_free():
    X, Q = problem(n=12, ridge=1e-7, normalized=False)
    _, L = problem(n=12, ridge=0.0, normalized=False)
    ridged = landmark_deformation(KERNEL, X, np.linalg.inv(Q), 1.0)
    assert_allclose(ridged(X, X), printed(KERNEL, X, L, 1.0, X, X), atol=1e-6)


def test_equal_points_need_jitter_and_change_nothing():
    X, Q = problem()
    S = np.arange(0, 30, 3)
    twice = np.concatenate([S, S[:4]])
    once = landmark_deformation(KERNEL, X[S], inverse_on(Q, S), 1.0)
    ours = landmark_deformation(KERNEL, X[twice], inverse_on(Q, twice), 1.0)
    assert 0 < ours.jitter <= 1e-8
    assert_allclose(ours(X, others()), once(X, others()), atol=1e-9)


def test_copies_of_a_point_on_different_vertices():
    """Equal points, each its own vertex: K_SS is singular, A is not."""
    X, _ = problem(n=20)
    X = np.concatenate([X, X[:10]])
    Q = reference.regularizer(reference.laplacian(reference.knn_weights(X, 5)), 1, 0.01)
    S = np.concatenate([np.arange(8), np.arange(20, 28)])
    ours = landmark_deformation(KERNEL, X[S], inverse_on(Q, S), 1.0)
    assert ours.jitter == 0
    expected = printed(KERNEL, X[S], reference.landmark_regularizer(Q, S), 1.0, X, others())
    assert_allclose(ours(X, others()), expected, atol=1e-9)


def test_an_expansion_in_the_base_kernel_is_the_same_function():
    X, Q = problem()
    S = np.arange(0, 30, 3)
    ours = landmark_deformation(KERNEL, X[S], inverse_on(Q, S), 2.0)
    Z, coef = others(), np.random.default_rng(0).normal(size=(11, 2))
    base, centers, c = ours.expansion(Z, coef)
    assert base is KERNEL
    assert_allclose(base(X, centers) @ c, ours(X, Z) @ coef, atol=1e-12)
    assert_allclose(ours.expansion(Z, coef[:, 0])[2], c[:, 0], rtol=1e-12, atol=1e-13)


def test_float32_points_rows_and_plain_functions():
    X, Q = problem()
    A, Z = np.linalg.inv(Q), others()
    ours = landmark_deformation(KERNEL, X, A, 1.0)
    assert_allclose(landmark_deformation(KERNEL, X.astype(np.float32), A, 1.0)(Z, X), ours(Z, X), atol=1e-5)
    assert_allclose(landmark_deformation(KERNEL, ArrayRows(X), A, 1.0)(Z, X), ours(Z, X), atol=1e-12)
    function = landmark_deformation(lambda A, B: reference.rbf(A, B, 0.8), X, A, 1.0)
    assert_allclose(function(Z, X), ours(Z, X), atol=1e-10)
    assert_allclose(function.diagonal(Z), ours.diagonal(Z), atol=1e-10)


def with_nan(M):
    M = M.copy()
    M[0, 0] = np.nan
    return M


@pytest.mark.parametrize(("error", "says", "build"), [
    (ParameterError, "eta=-1", lambda X, A: landmark_deformation(KERNEL, X, A, -1)),
    (ParameterError, "eta=nan", lambda X, A: landmark_deformation(KERNEL, X, A, float("nan"))),
    (DataError, r"shape \(5, 5\), expected \(6, 6\)", lambda X, A: landmark_deformation(KERNEL, X, A[:5, :5], 1.0)),
    (DataError, "inverse_at_landmarks holds NaN", lambda X, A: landmark_deformation(KERNEL, X, with_nan(A), 1.0)),
    (DataError, "landmarks hold NaN", lambda X, A: landmark_deformation(KERNEL, with_nan(X), A, 1.0)),
    (DataError, "landmarks have shape", lambda X, A: landmark_deformation(KERNEL, X[:0], A[:0, :0], 1.0)),
    (DataError, "Gram matrix of .* holds NaN",
     lambda X, A: landmark_deformation(lambda X, Z: np.full((len(X), len(Z)), np.nan), X, A, 1.0)),
    (DataError, "is not symmetric", lambda X, A: landmark_deformation(KERNEL, X, A + np.triu(A, 1), 1.0)),
    (DataError, "Gram matrix of .* is not symmetric",
     lambda X, A: landmark_deformation(lambda X, Z: X[:, :1] - Z[:, 0], X, A, 1.0)),
    (DataError, "not positive definite", lambda X, A: landmark_deformation(KERNEL, X, A - 2 * np.eye(6), 0.1)),
])
def test_errors_say_what_is_wrong(error, says, build):
    X = others(6)
    A = reference.rbf(X, X, 1.0)
    with pytest.raises(error, match=says):
        build(X, A)

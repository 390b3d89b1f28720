"""The whitened basis against its definition: T' K T = I, nothing lost, ranks, and what is refused."""


import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import eigh

from dssl.base.errors import DataError, ParameterError
from dssl.kernels.base import RBF, Cosine, Linear, Polynomial
from dssl.kernels.nystrom import MIN_FACTORED, lower_trapezoidal, whiten, whiten_lower
from tests.memory import traced_peak

from .. import reference


def points(n, d=3, random_state=0):
    return np.random.default_rng(random_state).normal(size=(n, d))


@settings(max_examples=25)
@given(s=st.integers(1, 30), bandwidth=st.floats(0.05, 20.0), copies=st.integers(0, 5), scale=st.floats(1e-150, 1e150))
def test_the_basis_is_orthonormal_and_spans_the_landmarks(s, bandwidth, copies, scale):
    """T'KT = I; and K T T' K = K, since T T' is the pseudo-inverse. Copies of landmarks add nothing to the rank."""
    Z = points(s)
    Z = np.concatenate([Z, Z[:copies]])
    K = scale * RBF(bandwidth)(Z, Z)
    before = K.copy()
    actual = whiten(K, 1e-9)
    assert_array_equal(K, before)
    assert 1 <= actual.rank <= s
    assert_allclose(actual.T.T @ K @ actual.T, np.eye(actual.rank), atol=1e-5)
    assert_allclose(K @ actual.T @ (actual.T.T @ K), K, atol=3e-9 * actual.largest)
    assert_allclose(actual.largest, np.linalg.eigvalsh(K / scale)[-1] * scale, rtol=1e-10)
    assert 1 <= actual.condition <= 1e9


def test_a_well_posed_matrix_keeps_everything():
    K = RBF(0.5)(points(20), points(20))
    actual, values = whiten(K), np.linalg.eigvalsh(K)
    assert actual.rank == 20
    assert_allclose(actual.T @ actual.T.T, np.linalg.inv(K), rtol=1e-8, atol=1e-10)
    assert_allclose(actual.condition, values[-1] / values[0])


@pytest.mark.parametrize(("kernel", "rank"), [(Linear(), 3), (Cosine(), 3), (Polynomial(2), 10)])
def test_kernels_of_finite_rank(kernel, rank):
    Z = points(40)
    K = kernel(Z, Z)
    actual = whiten(K)
    assert actual.rank == rank
    assert_allclose(actual.T @ actual.T.T, reference.pseudo_inverse(K), atol=1e-9)


def test_equal_landmarks_have_rank_one():
    Z = np.ones((7, 3))
    actual = whiten(RBF(1.0)(Z, Z))
    assert actual.rank == 1
    assert_allclose((actual.largest, actual.condition), (7, 1))
    assert_allclose(np.abs(actual.T), 1 / 7)


def test_the_cutoff_drops_eigenvalues_relative_to_the_largest():
    U = np.linalg.qr(points(4, 4))[0]
    K = U @ np.diag([1e3, 1.0, 1e-3, 1e-6]) @ U.T
    K = (K + K.T) / 2
    assert [whiten(K, cutoff).rank for cutoff in (0.5, 1e-4, 1e-7, 1e-10)] == [1, 2, 3, 4]
    assert_allclose(whiten(K, 1e-4).condition, 1e3, rtol=1e-9)


@pytest.mark.parametrize("cutoff", [0, 1, -1e-3, 2.0, np.nan, "1e-10", True, None])
def test_cutoffs_that_are_none(cutoff):
    with pytest.raises(ParameterError, match="cutoff="):
        whiten(np.eye(3), cutoff)


@pytest.mark.parametrize(("K", "says"), [
    (np.zeros((3, 3)), "zero for all 3 landmarks"),
    (np.full((3, 3), np.nan), "NaN or infinite"),
    (np.diag([1.0, np.inf]), "NaN or infinite"),
    (np.diag([1.0, -1e-6]), "the eigenvalue -1e-06 below zero"),
    (-np.eye(2), "below zero"),
    (np.array([[1.0, 0.5], [0.4, 1.0]]), "differs from its transpose by 0.1"),
    (np.ones((2, 3)), r"shape \(2, 3\)"),
    (np.ones(3), r"shape \(3,\)"),
    (np.ones((0, 0)), r"shape \(0, 0\)"),
    (np.array([["a"]]), "dtype <U1"),
], ids=["zero", "nan", "inf", "negative", "all negative", "asymmetric", "wide", "flat", "empty", "text"])
def test_matrices_that_no_kernel_makes(K, says):
    with pytest.raises(DataError, match=says):
        whiten(K)


@settings(max_examples=25)
@given(s=st.integers(1, 40), bandwidth=st.floats(0.1, 20.0))
def test_the_lower_trapezoidal_basis_is_another_one_of_the_same_functions(s, bandwidth):
    K = RBF(bandwidth)(points(s), points(s))
    T = whiten(K, 1e-8).T
    lower = lower_trapezoidal(T)
    assert lower.shape == T.shape
    assert_array_equal(lower, np.tril(lower))
    assert_allclose(lower @ lower.T, T @ T.T, rtol=1e-9, atol=1e-12 * np.abs(T @ T.T).max())
    assert_allclose(lower.T @ K @ lower, np.eye(T.shape[1]), atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 1e-150, 1e150])
@pytest.mark.parametrize(("s", "bandwidth", "by_factor"), [(300, 0.5, True), (300, 20.0, False), (20, 0.5, False)])
def test_a_factor_or_eigenvectors_give_the_same_lower_trapezoidal_basis(s, bandwidth, by_factor, scale, monkeypatch):
    """Where nothing is dropped it is that of the Cholesky factor of the inverse, which is unique up to signs."""
    calls = []
    monkeypatch.setattr("dssl.kernels.nystrom.eigh", lambda *args, **more: calls.append(1) or eigh(*args, **more))
    K = RBF(bandwidth)(points(s), points(s)) * scale
    actual, expected = whiten_lower(K.copy(), 1e-8), whiten(K, 1e-8)
    assert len(calls) == 1 + (not by_factor)
    assert by_factor == (actual.rank == s >= MIN_FACTORED)
    assert actual.rank == expected.rank
    assert_array_equal(actual.T, np.tril(actual.T))
    assert_allclose([actual.largest, actual.condition], [expected.largest, expected.condition], rtol=2e-3)
    assert_allclose(actual.T.T @ K @ actual.T, np.eye(actual.rank), atol=1e-5)
    assert_allclose(np.abs(actual.T), np.abs(lower_trapezoidal(expected.T)), rtol=1e-4,
                    atol=1e-6 * np.abs(actual.T).max())


def test_an_eigenvalue_just_below_the_cutoff_is_dropped_and_one_just_above_it_kept():
    U = np.linalg.qr(points(400, 400))[0]
    values = np.r_[np.linspace(1.0, 2.0, 399), 1e-6]
    K = U * values @ U.T
    K = (K + K.T) / 2
    assert [whiten_lower(K.copy(), share * 0.5e-6).rank for share in (0.98, 1.02)] == [400, 399]


@pytest.mark.parametrize(("repeated", "left_out"), [(1, True), (14, True), (40, False)])
def test_the_few_landmarks_that_nearly_repeat_others_are_left_out(repeated, left_out):
    """What is lost is below the cutoff: T T' is the pseudo-inverse of K up to such directions."""
    Z = points(300)
    Z[-repeated:] = Z[:repeated] + 1e-7
    K = RBF(0.5)(Z, Z)
    actual = whiten_lower(K.copy(), 1e-9)
    assert actual.rank == 300 - repeated
    assert (~actual.T.any(axis=1)).sum() == (repeated if left_out else 0)
    assert_array_equal(actual.T, np.tril(actual.T))
    assert_allclose(actual.T.T @ K @ actual.T, np.eye(actual.rank), atol=1e-6)
    assert_allclose(K @ actual.T @ (actual.T.T @ K), K, atol=1e-8 * actual.largest)
    assert actual.condition < 1e9


def test_two_landmarks_may_lack_six_cutoffs_outside_the_span_of_others():
    """Each lacks 3.3 times the cutoff, and both together 6 times, in one direction."""
    rng, n, cutoff = np.random.default_rng(0), 300, 1e-9
    Q = np.linalg.qr(rng.normal(size=(n, n)))[0]
    A, C = Q * np.linspace(0.5, 1, n) @ Q.T, 0.02 * rng.normal(size=(n, 2))
    lacked = cutoff * np.linalg.eigvalsh(A)[-1] * np.array([[3.3, 2.7], [2.7, 3.3]])
    K = np.block([[A, A @ C], [C.T @ A, C.T @ A @ C + lacked]])
    K = (K + K.T) / 2
    actual = whiten_lower(K.copy(), cutoff)
    assert (~actual.T.any(axis=1)).sum() == 2
    lost = np.linalg.eigvalsh(K - K @ actual.T @ actual.T.T @ K)[-1]
    assert 4 * cutoff * actual.largest < lost < 8 * cutoff * actual.largest


def test_landmarks_that_share_what_they_lack_are_not_left_out():
    """Each is within the cutoff of the span of the others, all of them together are not: eigenvectors decide."""
    pairs, rest, cutoff = 28, 544, 1e-6
    K = np.eye(pairs + rest)
    K[pairs:, pairs:] = RBF(0.3)(points(rest), points(rest))
    of = np.r_[np.arange(pairs + rest), np.arange(pairs)]
    largest = np.linalg.eigvalsh(K)[-1]
    hidden = (np.arange(len(of)) >= len(K)).astype(float)
    K = K[np.ix_(of, of)] + 3.9 * cutoff * largest * np.outer(hidden, hidden)
    actual, expected = whiten_lower(K.copy(), cutoff), whiten(K, cutoff)
    assert actual.rank == expected.rank == pairs + rest + 1
    lost = np.linalg.norm(K - K @ actual.T @ (actual.T.T @ K), 2)
    assert lost <= 1.01 * cutoff * actual.largest


def boxcar(n):
    """Return the indefinite kernel of points on a line that lie within 1 of one another, in threes far apart."""
    x = (np.arange(n) // 3) * 10.0 + (np.arange(n) % 3) * (np.arange(n) < 12) * 0.6 + (np.arange(n) % 3) * (
        np.arange(n) >= 12) * 3
    return (np.abs(x[:, None] - x) < 1).astype(float)


@pytest.mark.parametrize("K", [np.diag(np.r_[-5.0, np.ones(299)]), boxcar(300)], ids=["diagonal", "boxcar"])
def test_a_negative_eigenvalue_is_refused_however_few_landmarks_have_it(K):
    for of in (whiten, whiten_lower):
        with pytest.raises(DataError, match="below zero"):
            of(K.copy())


def test_the_basis_is_the_same_each_time():
    K = 3 * np.eye(300)
    first = whiten_lower(K.copy())
    for _ in range(5):
        again = whiten_lower(K.copy())
        assert (again.condition, again.largest) == (first.condition, first.largest)
        assert_array_equal(again.T, first.T)


@pytest.mark.parametrize(("change", "says"), [
    (lambda K: K - 2 * np.eye(len(K)), "below zero"), (lambda K: K * np.nan, "NaN or infinite"),
    (lambda K: K + np.eye(len(K), k=3), "differs from its transpose")])
def test_large_matrices_that_no_kernel_makes(change, says):
    with pytest.raises(DataError, match=says):
        whiten_lower(change(RBF(0.3)(points(300), points(300))))


@pytest.mark.parametrize(("bandwidth", "matrices"), [(0.2, 3), (5.0, 3)])
def test_peak_memory_of_a_lower_basis_stays_within_the_formula(bandwidth, matrices):
    K = RBF(bandwidth)(points(600), points(600))
    whiten_lower(K[:300, :300].copy())
    upper_bound = 1.02 * 8 * matrices * 600**2 + 200_000
    assert 0.5 * 8 * matrices * 600**2 < traced_peak(lambda: whiten_lower(K), upper_bound) < upper_bound


def test_rounding_below_zero_is_no_negative_eigenvalue():
    K = np.diag([1.0, 1e-3, -1e-9])
    assert whiten(K).rank == 2


def test_peak_memory_stays_within_the_formula():
    K = RBF(1.0)(points(600), points(600))
    whiten(K[:10, :10])
    upper_bound = 1.02 * 24 * 600**2 + 100_000
    assert 0.5 * 24 * 600**2 < traced_peak(lambda: whiten(K), upper_bound) < upper_bound

"""Cluster kernels in row blocks against the dense eigenproblem, and what their landmarks, degrees and bytes come to."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_blobs

from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.execution.threads import one_thread
from dssl.kernels.base import RBF, Linear
from dssl.kernels.cluster import (
    ClusterBasis,
    basis_bytes,
    budget_for,
    cluster_basis,
    exact_degrees,
    landmarks_that_fit,
)
from dssl.kernels.cluster_params import ClusterParams, basis_cost, basis_of, rank_of_landmarks
from dssl.kernels.landmarks import LandmarkParams
from dssl.kernels.transfer import TransferParams
from dssl.storage.csr import as_rows
from tests import reference
from tests.memory import traced_peak

KERNEL = RBF(1.5)
FUNCTIONS = [TransferParams(transfer=name) for name in ("linear", "step", "poly_step", "polynomial", "exponential")]


@pytest.fixture(scope="module")
def X():
    return make_blobs(240, 4, centers=4, random_state=0, cluster_std=2.0)[0]


def basis(X, points, rank=None, degrees="exact", execution=None, kernel=KERNEL):
    return cluster_basis(as_rows(X), kernel, points, rank, degrees, execution or InProcess(2))


@pytest.mark.parametrize("transfer", FUNCTIONS, ids=lambda item: item.transfer)
@pytest.mark.parametrize(("degrees", "atol"), [("landmarks", 1e-6), ("exact", 1e-4)])
def test_with_all_points_as_landmarks_it_is_the_cluster_kernel(X, transfer, degrees, atol):
    """Exact degrees are sums of float32 kernels; the exponential never vanishes, and the cut-off drops its tail."""
    F = basis(X, X, degrees=degrees).samples(transfer, 11)(X)
    expected = reference.cluster_kernel(KERNEL(X, X), lambda values: transfer.of(values, 11))
    assert_allclose(F @ F.T, expected, atol=atol)
    assert_allclose((F**2).sum(axis=1), 1, rtol=1e-12)


def test_eigenpairs_of_landmarks_are_orthonormal_and_those_of_the_nystrom_approximation(X):
    Z = X[::4]
    actual = basis(X, Z)
    C, W = KERNEL(X, Z), KERNEL(Z, Z)
    d, d_s = KERNEL(X, X).sum(axis=1), C.sum(axis=0)
    U = C @ actual.P / np.sqrt(d)[:, None]
    assert_allclose(U.T @ U, np.eye(len(actual.values)), atol=1e-4)  # degrees in float32
    C_L, W_L = C / np.sqrt(np.outer(d, d_s)), W / np.sqrt(np.outer(d_s, d_s))
    L = C_L @ np.linalg.pinv(W_L, rcond=1e-10) @ C_L.T
    assert_allclose((U * actual.values) @ U.T, L, atol=1e-5)
    assert (np.diff(actual.values) <= 0).all()
    assert 0 < actual.values[-1] <= actual.values[0] <= 1


def test_degrees_are_row_sums_whatever_the_tiles(X):
    whole = exact_degrees(as_rows(X), KERNEL, InProcess(2))
    assert_allclose(whole, KERNEL(X, X).sum(axis=1), rtol=1e-4)  # sums of float32
    for tile in (240, 100, 17):
        for points in (X, sparse.csr_array(X)):
            assert_allclose(exact_degrees(as_rows(points), KERNEL, InProcess(2), max_rows=tile), whole, rtol=1e-4)


def test_no_degree_of_landmarks_is_less_than_the_similarity_to_itself():
    X = np.concatenate([np.random.default_rng(0).normal(size=(60, 2)), np.full((1, 2), 50.0)])
    actual = basis(X, X[:20], degrees="landmarks")
    assert actual.attributes["raised_degrees"] >= 1
    samples = actual.samples(TransferParams(), 4)(X)
    assert np.isfinite(samples).all()
    assert not samples[-1].any()  # far from all landmarks


def test_the_printed_algorithm_falls_short_where_the_corrected_one_does_not():
    """Of eigenvalues of K, which are of size n, poly_step squares the wrong ones, and `D^-1/2 U` is not orthonormal."""
    X, _ = make_blobs(400, 6, centers=[[0.0] * 6, [3.0] + [0.0] * 5], cluster_std=1.5, random_state=3)
    transfer, labeled = TransferParams(transfer="poly_step"), np.arange(20)
    K, Z = KERNEL(X, X), X[::5]
    exact = reference.cluster_kernel(K, lambda values: transfer.of(values, 20))
    corrected = basis(X, Z).samples(transfer, 20)(X)
    printed = reference.printed_nystrom_samples(K[:, ::5], K[::5, ::5], K.sum(axis=1), 40,
                                                lambda values: transfer.of(values, 20))

    def off(F):
        return np.abs(F @ F.T - exact)[labeled].mean()

    assert off(corrected) < 0.75 * off(printed)


def test_new_points_are_as_those_of_the_fit(X):
    """The degree of a point scales its row alone, and a virtual sample has unit length."""
    samples = basis(X[:200], X[:200:2]).samples(TransferParams(), 9)
    both = samples(X)
    assert_allclose(both[:200], samples(X[:200]), atol=1e-12)
    assert_allclose(samples.of_rows(as_rows(X), np.array([3, 210, 7]), 1 << 30), samples(X[[3, 210, 7]]), atol=1e-12)
    far = samples(np.full((1, 4), 15.0))
    assert_allclose(np.linalg.norm(far), 1)  # by its nearest landmarks, however little it is like them
    assert not samples(np.full((1, 4), 1e6)).any()


@pytest.mark.slow
def test_rank_takes_the_leading_pairs_and_blocks_do_not_change_them(X):
    whole, few = basis(X, X[::3]), basis(X, X[::3], rank=7)
    k = int((whole.values >= 0.99 * whole.values[6]).sum())
    assert 7 <= k < 20
    assert_allclose(few.values, whole.values[:k])
    assert_allclose(few.P, whole.P[:, :k])
    pairs = np.repeat(np.arange(40.0)[:, None] * 100, 2, axis=0) + np.array([[0.0], [1.0]] * 40)  # of equal eigenvalues
    assert len(basis(pairs, pairs[:60], rank=5).values) == 30
    budget = budget_for(80, 4)
    small = basis(X, X[::3], execution=InProcess(1, budget))
    assert_allclose(small.values, whole.values, rtol=1e-5)  # degrees in float32
    again = basis(X, X[::3], execution=InProcess(1))
    assert_array_equal(again.P, whole.P)


def test_it_is_stored(X):
    actual = basis(X, X[::3])
    again = ClusterBasis.from_arrays(KERNEL, actual.to_arrays(), actual.attributes)
    assert_array_equal(again.samples(TransferParams(), 9)(X), actual.samples(TransferParams(), 9)(X))


@pytest.mark.parametrize(("given", "message"), [
    ({"transfer": "sqrt"}, "no transfer function"), ({"leading": 0}, "leading=0"), ({"leading": True}, "leading=True"),
    ({"exponent": 0}, "exponent=0"), ({"exponent": np.nan}, "exponent=nan")])
def test_wrong_transfer_functions(given, message):
    with pytest.raises(ParameterError, match=message):
        TransferParams(**given)


def test_transfer_functions():
    values = np.array([1.0, 0.81, 0.25])
    assert_allclose(TransferParams(transfer="poly_step", leading=2).of(values, 50), [1, 0.9, 0.0625])
    assert_allclose(TransferParams(transfer="step", leading=1).of(values, 50), [1, 0, 0])
    assert_allclose(TransferParams(transfer="poly_step").of(np.full(30, 0.25), 3)[[11, 12]], [0.5, 0.0625])
    assert_allclose(TransferParams(transfer="polynomial", exponent=2).of(values, 50), values**2)
    assert_allclose(TransferParams(transfer="exponential", exponent=2).of(values, 50), np.exp(2 * values - 2))
    assert_array_equal(TransferParams(transfer="linear").of(values, 50), values)


# What cannot be


def test_a_kernel_that_underflows_to_the_identity_is_refused(X):
    for degrees in ("exact", "landmarks"):
        with pytest.raises(DataError, match=r"no point is similar.*\n.*the identity"):
            basis(X, X[::3], degrees=degrees, kernel=RBF(1e-6))


def test_a_kernel_with_negative_row_sums_is_refused(X):
    with pytest.raises(DataError, match="a point has the degree"):
        basis(X - X.mean(axis=0), X[::3], kernel=Linear())


def test_too_small_a_budget_says_what_would_do(X):
    with pytest.raises(BudgetError, match=rf"80 landmarks.*\n.*budget is 100,000\n.*at most \d+ landmarks, or a "
                                          rf"budget of {budget_for(80, 4):,} bytes"):
        basis(X, X[::3], execution=InProcess(1, 100_000))
    min_budget = budget_for(240, 4)
    with pytest.raises(BudgetError, match=f"budget of {min_budget:,} bytes"):
        basis_of(as_rows(X), KERNEL, ClusterParams(approximation="exact", budget=min_budget - 1), np.arange(9),
                 InProcess(1))
    exact = basis_of(as_rows(X), KERNEL, ClusterParams(approximation="exact", budget=2 * min_budget), np.arange(9),
                     InProcess(1))
    assert exact.attributes["landmarks"] == 240
    with pytest.raises(BudgetError, match="two landmarks"):
        ClusterParams(budget=10_000).count(3, 100, 1000)


@pytest.mark.parametrize("budget", [10**5, 10**6, 10**7])
def test_landmarks_that_fit_are_as_many_as_fit(budget):
    s = landmarks_that_fit(budget, 10**9, 30)
    assert basis_bytes(s, 30) <= 0.75 * budget < basis_bytes(s + 1, 30)
    assert budget_for(s, 30) <= budget < budget_for(s + 1, 30)
    assert landmarks_that_fit(budget, 5, 30) == 5


def test_a_growing_budget_has_as_many_landmarks_or_more(X):
    counts = [basis_of(as_rows(X), KERNEL, ClusterParams(budget=budget), np.arange(9),
                       InProcess(1)).attributes["landmarks"] for budget in (200_000, 500_000, 10**6, 10**8)]
    assert counts == sorted(counts)
    assert counts[0] < 100
    assert counts[-1] == 240


def test_the_memory_of_the_driver_is_that_of_the_formula():
    X = np.random.default_rng(0).normal(size=(3000, 3))
    budget = budget_for(700, 3)
    upper_bound = basis_cost(3000, 3, 24, 700, "landmarks", 1, budget).peak
    with one_thread():
        peak = traced_peak(lambda: basis(X, X[:700], degrees="landmarks", execution=InProcess(1, budget),
                                         kernel=RBF(1.0)), upper_bound)
    assert 0.5 * upper_bound < peak < upper_bound < 1.2 * budget


def test_params_say_what_auto_means():
    params = ClusterParams()
    assert params.rank_of(100, 100) is None
    k = params.rank_of(1000, 5000)
    assert k == rank_of_landmarks(1000)
    assert k * np.log(k) <= 1000 < (k + 1) * np.log(k + 1)
    assert params.degrees_of(1000, 5000) == "exact"
    assert params.degrees_of(1000, 5 * 10**6) == params.degrees_of(100, 100) == "landmarks"
    assert ClusterParams(landmarks=LandmarkParams(n_landmarks=0.1)).count(5, 1000, 3) == 100
    for wrong in ({"approximation": "best"}, {"rank": 0}, {"degrees": "none"}):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            ClusterParams(**wrong)

"""Leverage scores against the exact ones, the ridge behind them, and the draw in proportion to them."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import cholesky

from dssl.base.errors import BudgetError, DataError
from dssl.execution.in_process import InProcess
from dssl.kernels import leverage as leverage_module
from dssl.kernels.base import RBF, Linear
from dssl.kernels.leverage import (
    DrawTask,
    PilotTask,
    leverage_of_block,
    leverage_rows,
    pilot_ridge,
    smallest_times,
    unseen_scores,
    waiting_times,
)
from dssl.storage.blocks import ArrayRows, PartWriter
from dssl.storage.csr import CsrRows
from tests.memory import traced_peak

from .. import reference
from .test_landmarks import KERNEL, choose, points, sparse_points


def scores(X, J, nu, kernel=KERNEL):
    q = len(J)
    factor = np.ascontiguousarray(cholesky(kernel(X[J], X[J]) + nu * np.eye(q), lower=True))
    return leverage_of_block(kernel, X, X[J], factor, nu, q / len(X), np.isin(np.arange(len(X)), J))


@settings(max_examples=20)
@given(n=st.integers(1, 40), nu=st.floats(1e-6, 1e3))
def test_with_all_rows_in_the_pilot_they_are_exact(n, nu):
    X = points(n)
    assert_allclose(scores(X, np.arange(n), nu), reference.leverage_scores(KERNEL(X, X), nu), rtol=1e-6,
                    atol=1e-9)


def test_any_function_is_a_kernel_and_keeps_what_it_returned():
    X = points()
    K = KERNEL(X, X)
    before = K.copy()

    def kernel(A, B):
        return K if len(A) == 60 else KERNEL(A, B)

    factor = np.ascontiguousarray(cholesky(K + np.eye(60), lower=True))
    actual = leverage_of_block(kernel, X, X, factor, 1.0, 1.0, np.ones(60, bool))
    assert_array_equal(K, before)
    assert_allclose(actual, reference.leverage_scores(K, 1.0), rtol=1e-9)


def test_with_half_the_rows_they_are_near():
    """The pilot weighs n/q: mu = nu n/q. Rows inside and outside of it are scored alike."""
    X = points(400)
    J = np.sort(np.random.default_rng(1).permutation(400)[:200])
    nu = 0.5
    actual, exact = scores(X, J, nu), reference.leverage_scores(KERNEL(X, X), 2 * nu)
    assert np.corrcoef(actual, exact)[0, 1] > 0.9
    assert_allclose(actual.sum(), exact.sum(), rtol=0.1)
    inside = np.isin(np.arange(400), J)
    assert_allclose(actual[inside].mean() / actual[~inside].mean(), exact[inside].mean() / exact[~inside].mean(),
                    rtol=0.15)


@settings(max_examples=20)
@given(q=st.integers(1, 30), bandwidth=st.floats(0.1, 5.0), share=st.floats(0.01, 0.9), times=st.integers(1, 50))
def test_the_ridge_gives_the_sum_asked_for(q, bandwidth, share, times):
    J, n = points(q), q * times
    K = RBF(bandwidth)(J, J)
    values, vectors = np.linalg.eigh(K)
    nu = pilot_ridge(values, vectors**2, n, share * n)
    actual = unseen_scores(np.maximum(values, 0), vectors**2, nu, 1 / times)
    assert actual.sum() * times <= share * n * 1.0001
    if nu > 1.01 * leverage_module.FLOOR * values.max():
        assert_allclose(actual.sum() * times, share * n, rtol=2e-3)
    if nu > 1e-6:
        assert_allclose(actual, leverage_of_block(
            RBF(bandwidth), J, J, np.ascontiguousarray(cholesky(K + nu * np.eye(q), lower=True)), nu, 1 / times,
            np.ones(q, bool)), rtol=1e-5)


def test_a_row_of_the_pilot_is_scored_as_if_it_were_not_in_it():
    X, nu = points(200), 0.5
    J = np.arange(100)
    rest = np.arange(1, 100)
    with_it = scores(X, J, nu)[0]
    factor = np.ascontiguousarray(cholesky(KERNEL(X[rest], X[rest]) + nu * np.eye(99), lower=True))
    without = leverage_of_block(KERNEL, X[:1], X[rest], factor, nu, 100 / 200, np.zeros(1, bool))
    assert_allclose(with_it, without[0], rtol=1e-10)


def test_the_ridge_of_a_kernel_of_low_rank():
    assert_allclose(pilot_ridge(np.array([0.0, -1e-17, 5.0]), np.eye(3), 30, 15.0), 5e-9, rtol=1e-2)
    assert pilot_ridge(np.zeros(3), np.eye(3), 30, 1.5) == 1.0


@pytest.mark.slow
@pytest.mark.parametrize("bandwidth", [0.1, 0.3, 1.0])
@pytest.mark.extended_cases("0.3", "1.0")
def test_scores_sum_to_about_the_number_of_landmarks(bandwidth):
    X, kernel = points(2000), RBF(bandwidth)
    _, evidence = leverage_rows(ArrayRows(X), kernel, 100, 0, InProcess(2))
    assert evidence["pilot"] == 200
    assert_allclose(evidence["score_sum"], 100, rtol=0.15)
    exact = reference.leverage_scores(kernel(X, X), evidence["ridge"]).sum()
    assert_allclose(exact, 100, rtol=0.3)  # a pilot explains less than all rows do, so its scores are larger


@given(a=st.integers(0, 200_000), b=st.integers(1, 1000), cut=st.integers(0, 1000))
@settings(max_examples=20)
def test_times_belong_to_rows_and_not_to_blocks(a, b, cut):
    whole, cut = waiting_times(5, a, a + b), min(cut, b - 1)
    parts = [waiting_times(5, a, a + cut)] if cut else []
    assert_array_equal(np.concatenate([*parts, waiting_times(5, a + cut, a + b)]), whole)
    assert not np.array_equal(waiting_times(6, a, a + b), whole)


def test_ties_go_to_the_smaller_row():
    assert_array_equal(smallest_times(np.array([2.0, 1, 1, 3]), np.array([9, 8, 7, 6]), 3), [2, 1, 0])


def test_rows_are_drawn_in_proportion_to_their_scores():
    """A few lonely points beside a crowd: uniform landmarks miss them. A score of one among scores that
    sum to s is drawn with probability about 1 - 1/e."""
    X = np.vstack([0.05 * points(990), 20 + 10 * np.arange(10)[:, None] * np.ones(3)])
    hits = [[(choose(X, 30, method, random_state).rows >= 990).sum() for random_state in range(10)]
            for method in ("leverage", "uniform")]
    assert np.mean(hits[0]) > 4
    assert np.mean(hits[1]) < 1


def test_a_kernel_that_is_zero_draws_uniformly():
    rows, evidence = leverage_rows(ArrayRows(np.zeros((40, 2))), Linear(), 10, 0, InProcess(1))
    assert len(np.unique(rows)) == 10
    assert evidence["score_sum"] < 1e-9


def test_what_is_no_kernel():
    with pytest.raises(DataError, match="not positive semi-definite"):
        leverage_rows(ArrayRows(points()), lambda A, B: -(A @ B.T), 10, 0, InProcess(1))
    with pytest.raises(DataError, match="NaN or infinite"):
        leverage_rows(ArrayRows(points()), lambda A, B: np.full((len(A), len(B)), np.nan), 10, 0, InProcess(1))


def test_a_budget_too_small_for_the_pilot():
    with pytest.raises(BudgetError):
        leverage_rows(ArrayRows(points()), KERNEL, 20, 0, InProcess(1, 40 * 40 * 40 - 1))


def test_peak_memory_of_the_pilot_stays_within_the_formula():
    q, execution = 500, InProcess(1)
    task = PilotTask(KERNEL, execution.share(J=points(q), ids=np.arange(q)), 1000, 100)
    writer = PartWriter(execution.scratch(), 0)
    task(writer)
    upper_bound = 1.02 * 40 * q * q + 50_000
    assert 0.5 * 40 * q * q < traced_peak(lambda: task(writer), upper_bound) < upper_bound


def test_tasks_are_small():
    execution = InProcess(1)
    held = execution.share(J=points(3))
    task = DrawTask(KERNEL, CsrRows(sparse_points(2)), held, 1.0, 5, 0, 0, 2)
    assert len(pickle.dumps(task)) < 5000

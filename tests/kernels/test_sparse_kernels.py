"""Kernels on sparse points against the same kernels on dense ones."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.base.errors import BudgetError, DataError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import (
    RBF,
    Cosine,
    LaplacianKernel,
    Linear,
    Polynomial,
    diagonal_of,
    kernel_from,
    median_bandwidth,
)
from dssl.kernels.deformed import landmark_deformation
from dssl.kernels.gram import block_rows, entries_of, kernel_block
from dssl.kernels.points import as_points, squared_distances
from dssl.learners.linear.kernel_model import KernelModel
from dssl.learners.target.coding import Values
from dssl.storage.csr import CsrRows, as_csr, as_rows
from tests.storage.test_csr import sparse_rows

KERNELS = [RBF(1.3), LaplacianKernel(2.0), Linear(), Polynomial(3, 0.5, 1.0), Cosine()]
NAMED = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


@NAMED
@settings(max_examples=12, deadline=None)
@given(n=st.integers(1, 8), m=st.integers(1, 8), d=st.integers(1, 9), share=st.sampled_from([0.0, 0.3, 1.0]),
       random_state=st.integers(0, 10**6))
def test_blocks_are_the_dense_ones_whichever_is_sparse(kernel, n, m, d, share, random_state):
    X, Z = sparse_rows(n, d, share, random_state, np.float32), sparse_rows(m, d, share, random_state + 1)
    dense = kernel(X.toarray(), Z.toarray())
    both = kernel(X, Z)
    assert isinstance(both, np.ndarray)
    assert_allclose(both, dense, rtol=1e-12, atol=1e-12)
    assert_array_equal(kernel(X.toarray(), Z), both)
    assert_array_equal(kernel(X, Z.toarray()), both)
    assert_allclose(diagonal_of(kernel, X), diagonal_of(kernel, X.toarray()), rtol=1e-13)


@NAMED
def test_a_gram_matrix_is_symmetric_with_an_exact_diagonal(kernel):
    X = sparse_rows(40, 200, 0.05, 3)
    K = kernel(X, X)
    assert_array_equal(K, K.T)
    assert_array_equal(np.diagonal(K), kernel.diagonal(X))
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()


def test_equal_rows_have_distance_zero_and_cancellation_is_as_stated():
    rng = np.random.default_rng(0)
    far = as_csr(1e6 + rng.random((20, 50)))
    near = as_csr(far.toarray() + 1e-3 * rng.normal(size=(20, 50)))
    exact = ((far.toarray()[:, None] - near.toarray()) ** 2).sum(-1)
    lengths = (far.toarray() ** 2).sum(1)[:, None] + (near.toarray() ** 2).sum(1)
    assert (np.abs(squared_distances(far, near) - exact) <= 53 * 2.0**-52 * lengths).all()
    assert_array_equal(np.diagonal(squared_distances(far, far.copy())), 0)
    assert_array_equal(np.diagonal(LaplacianKernel(1.0)(far, far.copy())), 1)


def test_points_stay_sparse_and_are_checked():
    X = sparse_rows(4, 6, 0.5, 1, np.float32)
    assert as_points(X).dtype == np.float64
    assert X.dtype == np.float32
    twice = sparse.csr_array((np.array([1.0, 2.0]), np.array([3, 3]), np.array([0, 2])), shape=(1, 6))
    assert_array_equal(Linear()(twice, X), 3 * X.toarray()[:, 3].astype(np.float64)[None])
    with pytest.raises(DataError, match="6 features and Z has 5"):
        Linear()(X, X[:, :5])
    with pytest.raises(DataError, match="dtype complex"):
        as_points(X.astype(complex))


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_the_median_distance_leaves_copies_out(metric):
    X = sparse_rows(60, 90, 0.1, 5)
    assert median_bandwidth(CsrRows(X), 0, metric=metric) == pytest.approx(
        median_bandwidth(X.toarray(), 0, metric=metric), rel=1e-12)
    copies = as_csr(np.tile(X.toarray()[:1], (5, 1)))
    with pytest.raises(DataError, match="all sampled points are equal"):
        median_bandwidth(CsrRows(copies), 0, metric=metric)
    X.data[3] = np.nan
    with pytest.raises(DataError, match="NaN or infinite"):
        median_bandwidth(CsrRows(X), 0, metric=metric)
    assert kernel_from("laplacian", "0.5*median", rows=CsrRows(sparse_rows(60, 90, 0.1, 5))).bandwidth > 0


@pytest.mark.parametrize("form", ["both", "X", "Z"])
def test_blocks_as_tasks(form):
    X, Z = sparse_rows(300, 40, 0.2, 6), sparse_rows(9, 40, 0.2, 7)
    coef = np.random.default_rng(0).normal(size=(9, 2))
    x, z = (X if form != "Z" else X.toarray()), (Z if form != "X" else Z.toarray())
    K = RBF(2.0)(X, Z)
    execution = InProcess(2, memory_budget=50_000 + 24 * 9 * 40 * 2)
    model = KernelModel(RBF(2.0), z, coef, np.zeros(2), Values())
    assert_allclose(model.values(x, execution), K @ coef, rtol=1e-13, atol=1e-14)
    assert_allclose(model.support(x, execution), K.max(axis=1), rtol=1e-13)


def test_memory_follows_the_entries_and_not_the_columns():
    X = CsrRows(sparse.random_array((1000, 20_000), density=0.001, format="csr", rng=8))
    Z = as_csr(sparse.random_array((50, 20_000), density=0.001, format="csr", rng=9))
    budget = 2_000_000
    assert block_rows(RBF(1.0), X, 50, budget, sparse_entries=entries_of(Z)) > 500
    with pytest.raises(BudgetError):
        block_rows(RBF(1.0), as_rows(np.zeros((10, 20_000))), 50, budget)
    with pytest.raises(BudgetError):
        block_rows(RBF(1.0), X, 50, 100_000, sparse_entries=entries_of(Z))


def test_a_function_is_handed_sparse_rows_and_returns_an_array():
    X, Z = sparse_rows(70, 12, 0.3, 10), sparse_rows(5, 12, 0.3, 11)
    seen = []

    def overlap(A, B):
        seen.append((type(A), type(B)))
        return np.asarray((A @ B.T).toarray()) ** 2

    K = kernel_block(overlap, X, Z)
    assert_allclose(K, (X.toarray() @ Z.toarray().T) ** 2, atol=1e-13)
    assert set(seen) == {(sparse.csr_array, sparse.csr_array)}
    assert_allclose(diagonal_of(overlap, X), (X.toarray() ** 2).sum(1) ** 2)
    with pytest.raises(DataError, match="returned a csr_array"):
        kernel_block(lambda A, B: A @ B.T, X, Z)


@pytest.mark.parametrize("kernel", [RBF(1.5), Linear()], ids=lambda kernel: kernel.name)
def test_deformed_kernels_are_the_dense_ones(kernel):
    X_S, X = sparse_rows(12, 30, 0.2, 12), sparse_rows(7, 30, 0.2, 13)
    B = np.random.default_rng(1).normal(size=(12, 12))
    A = B @ B.T + np.eye(12)
    on_sparse = landmark_deformation(kernel, CsrRows(X_S), A, 2.0)
    wanted = landmark_deformation(kernel, X_S.toarray(), A, 2.0)(X.toarray(), X.toarray())
    assert_allclose(on_sparse(X, X), wanted, atol=1e-10)
    assert_allclose(on_sparse(X.toarray(), X), wanted, atol=1e-10)
    assert_allclose(on_sparse.diagonal(X), np.diagonal(wanted), atol=1e-10)
    coef = np.arange(14.0).reshape(7, 2)
    base, points, b = on_sparse.expansion(X, coef)
    assert sparse.issparse(points)
    assert_allclose(base(X, points) @ b, wanted @ coef, atol=1e-9)
    X_S.data[0] = np.inf
    with pytest.raises(DataError, match="landmarks hold NaN or infinite"):
        landmark_deformation(kernel, X_S, A, 1.0)

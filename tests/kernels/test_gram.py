"""Kernel blocks as tasks: any block height, memory and stored rows give the same; the memory formula holds."""

import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.metrics.pairwise import rbf_kernel

from dssl.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF, Cosine, LaplacianKernel, Linear, Polynomial
from dssl.kernels.deformed import StoredDeformedKernel, full_deformation, subsample_deformation
from dssl.kernels.gram import GramTask, apply_blocks, apply_kernel, block_rows, gram_blocks, kernel_block
from dssl.storage.blocks import ArrayRows, HeldArrays
from dssl.storage.store import StoredArrays, StoredParts
from tests.memory import traced_peak


def points(n, d=4, seed=0):
    return np.random.default_rng(seed).normal(size=(n, d))


def deformed(s=6, d=4, eta=3.0):
    return subsample_deformation(RBF(1.5), points(s, d, 9), np.diag(np.arange(1.0, s + 1)), eta)


def budget_for(kernel, rows, m, d=4):
    """Return a budget in bytes that blocks of exactly `rows` rows just fit, with no arrays of the kernel's own."""
    return 24 * m * d + rows * (kernel.row_bytes(d, m) + 8 * d)


@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 40), rows=st.integers(1, 45), threads=st.integers(1, 3))
def test_gram_and_products_do_not_depend_on_blocks(n, rows, threads):
    X, Z, coef = points(n), points(7, seed=1), points(7, 2, 2)
    kernel = RBF(1.2)
    execution = InProcess(threads, budget_for(kernel, rows, 7) + coef.nbytes)
    assert_allclose(gram_blocks(kernel, X, Z, execution).read_all(), kernel(X, Z), rtol=1e-13)
    assert_allclose(apply_blocks(kernel, X, Z, coef, execution).read_all(), kernel(X, Z) @ coef, rtol=1e-11, atol=1e-13)


def test_block_rows_solve_the_formula():
    X, kernel = ArrayRows(points(100)), RBF(1.0)
    for rows in (1, 13, 100):
        assert block_rows(kernel, X, 7, budget_for(kernel, rows, 7)) == rows
    with pytest.raises(BudgetError, match="memory_budget"):
        block_rows(kernel, X, 7, budget_for(kernel, 1, 7) - 1)


@pytest.mark.parametrize("make", [deformed, lambda: full_deformation(RBF(1.5), points(6, 4, 9), np.eye(6), 2.0)])
def test_deformed_kernels_in_blocks(make):
    kernel = make()
    X, Z, coef = points(23), points(5, seed=1), points(5, 1, 2)[:, 0]
    execution = InProcess(2, 6000)
    assert_allclose(gram_blocks(kernel, X, Z, execution).read_all(), kernel(X, Z), rtol=1e-12, atol=1e-14)
    assert_allclose(apply_blocks(kernel, X, Z, coef, execution).read_all(), kernel(X, Z) @ coef, rtol=1e-10, atol=1e-13)


def test_any_function_is_a_kernel():
    X, Z, coef = points(30), points(5, seed=1), points(5, 2, 2)
    execution = InProcess(1, 4000)
    assert_allclose(gram_blocks(rbf_kernel, X, Z, execution).read_all(), rbf_kernel(X, Z), rtol=1e-12)
    assert_allclose(apply_blocks(rbf_kernel, X, Z, coef, execution).read_all(), rbf_kernel(X, Z) @ coef, atol=1e-12)


def test_stored_rows_stored_support_and_a_stored_kernel_through_pickle(tmp_path):
    kernel, X, Z, coef = deformed(), points(20), points(5, seed=1), points(5, 2, 2)
    parts = StoredParts(tmp_path)
    parts.allocate("X", X.shape, X.dtype, 8)
    for start in range(0, 20, 8):
        parts.write_rows(start, {"X": X[start:start + 8]})
    arrays, attributes = kernel.to_arrays()
    parts.write(0, arrays)
    parts.write(1, {"Z": Z, "features": kernel.features(Z)})
    stored = StoredDeformedKernel(StoredArrays(parts, 0), attributes)
    result = gram_blocks(stored, parts.rows("X"), StoredArrays(parts, 1), InProcess(2), StoredParts(tmp_path / "K"))
    assert_allclose(result.read_all(), kernel(X, Z), rtol=1e-13)
    base, centers, c = kernel.expansion(Z, coef)
    parts.write(2, {"Z": centers, "coef": c})
    values = apply_blocks(base, parts.rows("X"), StoredArrays(parts, 2), None, InProcess(2))
    assert_allclose(values.read_all(), kernel(X, Z) @ coef, rtol=1e-10, atol=1e-13)
    task = GramTask(stored, parts.rows("X"), StoredArrays(parts, 1), 0, 8)
    assert len(pickle.dumps(task)) < 2000
    again = pickle.loads(pickle.dumps(stored))
    assert_allclose(again(X, Z), kernel(X, Z), rtol=1e-13)
    assert_allclose(again.diagonal(X), kernel.diagonal(X), rtol=1e-13)
    assert again.row_bytes(4, 5) == kernel.row_bytes(4, 5)
    assert again.nbytes == kernel.nbytes


def test_an_interrupted_gram_resumes_with_what_is_missing(tmp_path):
    X, Z, parts, calls = points(20), points(5, seed=1), StoredParts(tmp_path), []

    def kernel(A, B):
        calls.append(len(A))
        if len(calls) == 2:
            raise OSError("the disk is gone")
        return A @ B.T

    execution = InProcess(1, 24 * 5 * 4 + 5 * (24 * 5 + 16 * 4 + 8 * 4))
    with pytest.raises(OSError, match="disk"):
        gram_blocks(kernel, X, Z, execution, parts)
    assert_allclose(gram_blocks(kernel, X, Z, execution, parts).read_all(), X @ Z.T, rtol=1e-14)
    assert calls == [5, 5, 5, 5, 5], "four blocks, one of them twice"


@pytest.mark.parametrize("kernel", [
    RBF(1.0), LaplacianKernel(1.0), Linear(), Polynomial(), Cosine(), deformed(300, 30),
    full_deformation(RBF(1.0), points(300, 30, 9), np.eye(300), 1.0),
], ids=["rbf", "laplacian", "linear", "polynomial", "cosine", "subsample", "full"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_peak_memory_stays_within_the_formula(kernel, dtype):
    d, b = 30, 1000
    for m in (50, 800):
        X, Z = points(b, d).astype(dtype), points(m, d, 1).astype(dtype)
        features = kernel.features(Z) if hasattr(kernel, "features") else None
        kernel_block(kernel, X[:2], Z, features)  # compiles
        formula = b * kernel.row_bytes(d, m) + 24 * m * d + getattr(kernel, "nbytes", 0)
        most = 1.02 * formula + 10_000
        assert 0.4 * formula < traced_peak(partial(kernel_block, kernel, X, Z, features), most) < most


def test_errors_name_what_does_not_fit():
    X, Z = points(4), points(5, seed=1)
    with pytest.raises(DataError, match=r"returned shape \(5, 4\) for 4 x 5 points"):
        apply_kernel(lambda A, B: B @ A.T, X, Z, np.ones(5))
    with pytest.raises(ParameterError, match=r"coef has shape \(4,\) for 5 points"):
        apply_blocks(Linear(), X, Z, np.ones(4), InProcess(1))
    with pytest.raises(DataError, match="features have shape"):
        kernel_block(deformed(), X, Z, np.zeros((6, 4)))
    with pytest.raises(DataError, match="X has 3 features and Z has 4"):
        gram_blocks(Linear(), X[:, :3], HeldArrays(Z=Z), InProcess(1))

"""Kernel blocks: how tall they may be, the memory that they take, and what a kernel may return."""

from functools import partial

import numpy as np
import pytest

from dssl.base.errors import BudgetError, DataError
from dssl.kernels.base import RBF, Cosine, LaplacianKernel, Linear, Polynomial
from dssl.kernels.gram import block_rows, kernel_block
from dssl.storage.blocks import ArrayRows, budget_beside
from tests.memory import traced_peak


def points(n, d=4, random_state=0):
    return np.random.default_rng(random_state).normal(size=(n, d))


def budget_for(kernel, rows, m, d=4):
    """Return a budget in bytes that blocks of exactly `rows` rows just fit, with no arrays of the kernel's own."""
    return budget_beside(24 * m * d + rows * (kernel.row_bytes(d, m) + 8 * d))


def test_block_rows_solve_the_formula():
    X, kernel = ArrayRows(points(100)), RBF(1.0)
    for rows in (1, 13, 100):
        assert block_rows(kernel, X, 7, budget_for(kernel, rows, 7)) == rows
    with pytest.raises(BudgetError, match="memory_budget"):
        block_rows(kernel, X, 7, budget_for(kernel, 1, 7) - 1)


@pytest.mark.parametrize("kernel", [RBF(1.0), LaplacianKernel(1.0), Linear(), Polynomial(), Cosine()],
                         ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_peak_memory_stays_within_the_formula(kernel, dtype):
    d, b = 30, 1000
    for m in (50, 800):
        X, Z = points(b, d).astype(dtype), points(m, d, 1).astype(dtype)
        kernel_block(kernel, X[:2], Z)  # compiles
        formula = b * kernel.row_bytes(d, m) + 24 * m * d
        upper_bound = 1.02 * formula + 10_000
        assert 0.4 * formula < traced_peak(partial(kernel_block, kernel, X, Z), upper_bound) < upper_bound


def test_errors_name_what_does_not_fit():
    X, Z = points(4), points(5, random_state=1)
    with pytest.raises(DataError, match=r"returned shape \(5, 4\) for 4 x 5 points"):
        kernel_block(lambda A, B: B @ A.T, X, Z)
    with pytest.raises(DataError, match="X has 3 features and Z has 4"):
        kernel_block(Linear(), X[:, :3], Z)

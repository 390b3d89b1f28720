"""What products take in memory against the formula, and that they outlive a worker."""

import os
import signal

import numpy as np
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_array_equal

from dssl.execution import InProcess, OnDask
from dssl.kernels.base import RBF, LaplacianKernel
from dssl.kernels.products import _KEPT, ColumnsTask, GramTask, let_go
from dssl.models.laprls_system import block_bytes, gram_bytes

from .landmarked import problem
from .test_products import MUCH, columns_of, product

N, S = 9000, 600


@pytest.fixture(autouse=True)
def _forget():
    let_go()
    yield
    let_go()


def peak_of(task):
    """Return how far the process grew during one task, bytes; the first task compiles."""
    for _ in range(2):
        execution = InProcess(1)
        let_go()
        receipt, = execution.map([task], execution.scratch())
    if receipt["task_peak_bytes"] is None:
        pytest.skip("this system does not tell")
    return receipt["task_peak_bytes"]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("kernel", [RBF(1.3), LaplacianKernel(1.3)], ids=["rbf", "laplacian"])
@pytest.mark.parametrize("whitened", [False, True])
def test_gram_matrices_take_the_memory_of_the_formula(dtype, kernel, whitened):
    T = np.random.default_rng(0).normal(size=(S, S)) / 30 if whitened else None
    made, _ = problem(N, S, 4000, 4500, dtype=dtype, kernel=kernel, T=T)
    peak = peak_of(GramTask(made, 0, 2, True, True, True, True))
    formula = 4500 * block_bytes(S, 24, np.dtype(dtype).itemsize) + gram_bytes(S, 3, True)
    print(f"\n{dtype} {kernel} {whitened}: {peak / 1e6:.0f} MB of {formula / 1e6:.0f}")
    assert 0.5 * formula < peak < 1.05 * formula


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("keep", [0, MUCH])
def test_columns_take_the_memory_of_the_formula(dtype, keep):
    made, _ = problem(N, S, 4000, 4500, dtype=dtype)
    execution, itemsize, t = InProcess(1), np.dtype(dtype).itemsize, 40
    columns = {"P": np.ones((S, t)), "energy": np.ones(t), "points": np.zeros(t), "held": np.full(t, -1)}
    peak = peak_of(ColumnsTask(made, execution.share(**columns), 0, 2, keep, 0))
    kernels = 2 * itemsize * S * (4500 + made.energy.largest_halo) if keep else 2 * itemsize * S * 4500
    formula = kernels + 8 * t * (4 * 4500 + 3 * S) + 8 * S * 2048 * (itemsize == 4)
    print(f"\n{dtype} {keep}: {peak / 1e6:.0f} MB of {formula / 1e6:.0f}; kept {_KEPT._bytes / 1e6:.0f}")
    assert 0.5 * formula < peak < 1.05 * formula + (4 << 20)

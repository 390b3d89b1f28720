"""Rows in another order: a permutation of them, whatever the blocks, read and held a block at a time."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.execution.exchange.ordered import ordered
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import ArrayRows, write_dense
from dssl.storage.csr import as_csr, as_rows
from dssl.storage.store import StoredParts
from dssl.storage.views import write_sparse
from tests.memory import run_traced


def matrix(n=700, d=30, dense=True, random_state=0):
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n, d)).astype(np.float32)
    return X if dense else as_csr(sparse.csr_array(X * (rng.random((n, d)) < 0.2)))


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.parametrize("stored", [True, False])
@pytest.mark.parametrize("budget", [1 << 30, 16_000])
def test_row_place_i_is_row_i(tmp_path, dense, stored, budget):
    X, place = matrix(dense=dense), np.random.default_rng(1).permutation(700)
    rows = as_rows(X)
    if stored:
        parts = StoredParts(tmp_path)
        rows = write_dense(rows, parts, "X", 90) if dense else write_sparse(rows, parts, 90)
    moved = ordered(rows, ArrayRows(place), InProcess(1, budget))
    order = np.argsort(place)
    actual, expected = moved.read_all(), X[order]
    assert actual.dtype == expected.dtype
    assert_array_equal(*((actual, expected) if dense else (actual.toarray(), expected.toarray())))
    if not dense:
        assert actual.has_sorted_indices


@pytest.mark.parametrize("dense", [True, False])
@pytest.mark.extended_cases("False")
def test_no_task_holds_more_than_the_budget(tmp_path, dense):
    X, place = matrix(10_000, 40, dense), np.random.default_rng(2).permutation(10_000)
    parts = StoredParts(tmp_path / "X")
    rows = write_dense(as_rows(X), parts, "X", 500) if dense else write_sparse(as_rows(X), parts, 500)
    place = write_dense(ArrayRows(place), StoredParts(tmp_path / "place"), "rows", 16_384)
    execution, _ = run_traced(tmp_path, 1 << 20, lambda execution: ordered(rows, place, execution))
    assert max(*execution.tasks.values(), execution.driver) <= execution.memory_budget

"""Rows beside blocks: each block gets what it asked for, in order, and no task holds more than its budget."""

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dssl.execution.exchange.halo_rows import bring_halos, halo_shuffles, halo_tasks
from dssl.execution.in_process import InProcess
from dssl.execution.tasks import TaskCount
from dssl.storage.blocks import ArrayRows, write_dense
from dssl.storage.store import StoredParts
from tests.memory import run_traced


def wanted_lists(n, n_blocks, max_rows, random_state=0):
    """Return ascending numbers of rows for each block, none for the second."""
    rng = np.random.default_rng([4, random_state])
    lists = [np.sort(rng.choice(n, rng.integers(0, max_rows), replace=False)) for _ in range(n_blocks)]
    lists[1] = lists[1][:0]
    return lists


def written(folder, lists):
    parts = StoredParts(folder)
    for index, item in enumerate(lists):
        parts.write(index, {"halo": item})
        parts.finish(index, {})
    return parts


@pytest.mark.parametrize("budget", [1 << 30, 20_000])
def test_each_block_has_the_rows_it_asked_for(tmp_path, budget):
    X, lists = np.random.default_rng(1).normal(size=(900, 7)).astype(np.float32), wanted_lists(900, 40, 300)
    rows, total = write_dense(ArrayRows(X), StoredParts(tmp_path / "X"), "X", 64), sum(map(len, lists))
    done = []
    execution = InProcess(2, budget)
    execution.counter = TaskCount(lambda *counts: done.append(counts), 0)
    actual = bring_halos(rows, written(tmp_path / "wanted", lists), 40, "halo", total, execution, few_bytes=0)
    for index, item in enumerate(lists):
        for first in {0, len(item) // 3, len(item)}:
            pieces = list(actual.pieces(index, first, 50))
            assert all(len(piece) == 50 for piece in pieces[:-1])
            assert_array_equal(np.concatenate([X[:0], *pieces]), X[item[first:]])
    assert done[-1][1] == halo_tasks(halo_shuffles(900, 40, rows.row_bytes, total / 900, budget, few_bytes=0))


def test_rows_in_memory_and_few_rows_stay_where_they_lie(tmp_path):
    X, lists = np.ones((90, 7)), wanted_lists(90, 4, 30)
    wanted, total = written(tmp_path / "wanted", lists), sum(map(len, lists))
    stored = write_dense(ArrayRows(X), StoredParts(tmp_path / "X"), "X", 64)
    for rows in (ArrayRows(X), stored):
        assert bring_halos(rows, wanted, 4, "halo", total, InProcess(1)) is None


@pytest.mark.slow
def test_no_task_holds_more_than_the_budget(tmp_path):
    X, lists = np.ones((20_000, 32), np.float32), wanted_lists(20_000, 30, 2_000)
    rows = write_dense(ArrayRows(X), StoredParts(tmp_path / "X"), "X", 500)
    wanted = written(tmp_path / "wanted", lists)
    execution, actual = run_traced(tmp_path, 1 << 20, lambda execution: bring_halos(
        rows, wanted, 30, "halo", sum(map(len, lists)), execution, few_bytes=0))
    assert actual is not None
    assert max(*execution.tasks.values(), execution.driver) <= execution.memory_budget

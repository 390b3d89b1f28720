"""Rows, arrays and parts: in memory and stored, they behave alike."""

import json
import pickle
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl.base.errors import BudgetError, IntegrityError, ParameterError
from dssl.storage.blocks import (
    STEP_BYTES,
    ArrayRows,
    HeldArrays,
    MemoryParts,
    PartWriter,
    arrays_within,
    block_rng,
    budget_beside,
    row_ranges,
    rows_that_fit,
)
from dssl.storage.csr import CsrRows, as_csr, as_rows, csr_arrays
from dssl.storage.store import StoredParts, StoredRows
from dssl.storage.views import BlockedCsrRows, CachedRows, SelectedRows, cached_rows

TABLE = np.arange(30.0).reshape(10, 3)


@pytest.fixture(params=["memory", "stored"])
def parts(request, tmp_path):
    return MemoryParts() if request.param == "memory" else StoredParts(tmp_path / "stage")


# Ranges and budgets


@given(st.integers(0, 200), st.integers(1, 50))
def test_ranges_cover_all_rows_once(n_rows, block_rows):
    ranges = row_ranges(n_rows, block_rows)
    assert [row for start, stop in ranges for row in range(start, stop)] == list(range(n_rows))
    assert all(stop - start == block_rows for start, stop in ranges[:-1])
    assert all(0 < stop - start <= block_rows for start, stop in ranges)


@pytest.mark.parametrize("block_rows", [0, -3])
def test_a_block_has_a_row(block_rows):
    with pytest.raises(ParameterError, match=f"block_rows={block_rows}"):
        row_ranges(5, block_rows)


@given(st.integers(1, 10**9), st.integers(1, 10**6), st.integers(1, 10**6), st.integers(0, 10**6))
def test_the_block_fits_and_no_higher_one_does(budget, per_row, n_rows, fixed):
    within = arrays_within(budget)
    if fixed + per_row > within:
        with pytest.raises(BudgetError, match=f"raise memory_budget to {budget_beside(fixed + per_row):,} bytes"):
            rows_that_fit(budget, per_row, n_rows, fixed_bytes=fixed)
        return
    rows = rows_that_fit(budget, per_row, n_rows, fixed_bytes=fixed)
    assert 1 <= rows <= n_rows
    assert fixed + rows * per_row <= within
    assert rows == n_rows or fixed + (rows + 1) * per_row > within


@given(st.integers(1, 10**10))
def test_a_budget_has_room_for_arrays_beside_what_any_step_takes(nbytes):
    assert nbytes <= arrays_within(budget_beside(nbytes)) <= nbytes + 1 + nbytes // 1000
    assert arrays_within(budget_beside(nbytes) - 1) < nbytes
    assert budget_beside(nbytes) - nbytes <= STEP_BYTES


def test_rows_that_take_nothing_and_no_rows():
    assert rows_that_fit(100, 0, 7) == 7
    assert rows_that_fit(100, 10, 0) == 1  # a block height, though there is no row


def test_a_block_has_its_own_stream():
    assert_array_equal(block_rng(3, 5).normal(size=4), block_rng(3, 5).normal(size=4))
    streams = [block_rng(*key).normal() for key in [(3,), (3, 5), (3, 6), (4, 5), (3, 5, 1)]]
    assert len(set(streams)) == len(streams)


# Rows and arrays


def stored_rows(tmp_path, array, height):
    parts = StoredParts(tmp_path)
    parts.allocate("X", array.shape, array.dtype, height)
    for start, stop in row_ranges(len(array), height):
        parts.write_range(start, {"X": array[start:stop]})
    return parts.rows("X")


@pytest.mark.parametrize("height", [1, 4, 10, 16])
@pytest.mark.parametrize("array", [TABLE, np.arange(10, dtype=np.int16), TABLE.astype(np.float32) > 12])
def test_stored_rows_read_as_rows_in_memory(tmp_path, array, height):
    held, stored = ArrayRows(array), stored_rows(tmp_path, array, height)
    assert (len(stored), stored.shape, stored.dtype) == (len(held), held.shape, held.dtype)
    for start, stop in [(0, 10), (3, 7), (4, 4), (9, 10), (8, 99), (7, 3)]:
        assert_array_equal(stored.read(start, stop), held.read(start, stop), strict=True)
    for ids in ([9, 0, 9, 4], [], np.array([5], np.int32)):
        ids = np.asarray(ids, np.int64) if len(ids) == 0 else np.asarray(ids)
        assert_array_equal(stored.take(ids), held.take(ids), strict=True)
    assert [(start, block.tolist()) for start, block in stored.blocks(4)] == [
        (start, array[start:start + 4].tolist()) for start in (0, 4, 8)]
    assert_array_equal(stored.read_all(), array, strict=True)
    assert_array_equal(pickle.loads(pickle.dumps(stored)).read_all(), array, strict=True)
    assert len(pickle.dumps(stored)) < 1000 + len(str(stored.path))  # a task carries the path, not the rows


def test_as_rows():
    held, rows = ArrayRows(TABLE), as_rows(TABLE.tolist())
    assert as_rows(held) is held
    assert isinstance(rows, ArrayRows)
    assert_array_equal(rows.read_all(), TABLE)
    assert as_rows(np.arange(3)).shape == (3,)
    with pytest.raises(ParameterError, match="float has no rows"):
        as_rows(1.0)


def test_held_arrays():
    arrays = HeldArrays(a=TABLE, b=np.arange(3))
    assert set(arrays.load()) == {"a", "b"}
    assert_array_equal(arrays.load()["a"], TABLE)


# Parts


def test_a_part_reads_back_as_it_was_written(parts):
    written = {"X": TABLE, "empty": np.empty((0, 3)), "scalar": np.array(2.5), "flags": np.array([True, False]),
               "ids": np.arange(4, dtype=np.int32), "floats": TABLE.astype(np.float32)[:, ::2],
               "cube": np.arange(24.0).reshape(2, 3, 4)}
    parts.write(3, written)
    for actual in (parts.read(3), parts.arrays(3).load()):
        assert set(actual) == set(written)
        for name, value in written.items():
            assert_array_equal(actual[name], value, strict=True)


def test_a_part_written_again_holds_the_new_values(parts):
    parts.write(0, {"X": TABLE})
    parts.write(0, {"X": -TABLE[:4]})
    assert_array_equal(parts.read(0)["X"], -TABLE[:4], strict=True)
    assert_array_equal(parts.arrays(0).load()["X"], -TABLE[:4], strict=True)


def test_shared_arrays_are_filled_by_rows(parts):
    parts.allocate("X", (10, 3), np.float64, 4)
    for start in (8, 0, 4):
        parts.write_range(start, {"X": TABLE[start:start + 4]})
    assert_array_equal(parts.rows("X").read_all(), TABLE, strict=True)
    assert_array_equal(parts.rows("X").read(3, 9), TABLE[3:9])
    assert_array_equal(parts.rows("X").take(np.array([9, 2])), TABLE[[9, 2]])


@pytest.mark.parametrize("width", [1, 2, 3, 5])
def test_shared_arrays_are_filled_by_columns(parts, width):
    parts.allocate("Z", (10, 3), np.float64, 4, width)
    for start in reversed(range(0, 3, width)):
        parts.write_range(start, {"Z": TABLE[:, start:start + width]}, axis=1)
    assert_array_equal(parts.rows("Z").read_all(), TABLE, strict=True)
    assert_array_equal(parts.rows("Z").read(3, 9), TABLE[3:9])


def test_columns_are_read_whatever_chunks_they_lie_in(parts):
    A = np.arange(70.0).reshape(10, 7)
    parts.allocate("A", (10, 7), np.float64, 4, 3)
    for start in (0, 3, 6):
        parts.write_range(start, {"A": A[:, start:start + 3]}, axis=1)
    for first, last in ((0, 7), (2, 4), (6, 7), (3, 6), (5, 5)):
        assert_array_equal(parts.rows("A").read_columns(first, last), A[:, first:last])


def test_several_shared_arrays_at_once(parts):
    parts.allocate("X", (10, 3), np.float64, 5)
    parts.allocate("y", (10,), np.int64, 5)
    for start in (0, 5):
        parts.write_range(start, {"X": TABLE[start:start + 5], "y": np.arange(start, start + 5)})
    assert_array_equal(parts.rows("y").read_all(), np.arange(10), strict=True)
    assert_array_equal(parts.rows("X").read_all(), TABLE)


def test_an_array_allocated_again_keeps_what_is_in_it(parts):
    """A resumed stage allocates first, then skips the parts that are done."""
    parts.allocate("X", (10, 3), np.float64, 5)
    parts.write_range(0, {"X": TABLE[:5]})
    parts.allocate("X", (10, 3), np.float64, 5)
    parts.write_range(5, {"X": TABLE[5:]})
    assert_array_equal(parts.rows("X").read_all(), TABLE)


def test_an_array_allocated_otherwise_is_made_anew(parts):
    parts.allocate("X", (10, 3), np.float64, 5)
    parts.write_range(0, {"X": TABLE[:5]})
    parts.allocate("X", (4, 2), np.float32, 4)
    parts.write_range(0, {"X": np.ones((4, 2), np.float32)})
    assert_array_equal(parts.rows("X").read_all(), np.ones((4, 2), np.float32), strict=True)


def test_a_part_is_done_when_its_receipt_is_there(parts):
    assert parts.receipts(200) == {}
    parts.write(2, {"X": TABLE})
    assert parts.receipts(200) == {}
    parts.finish(2, {"rows": [0, 10], "seconds": 0.5})
    parts.finish(0, {})
    assert parts.receipts(200) == {0: {}, 2: {"rows": [0, 10], "seconds": 0.5}}


def test_a_place_within_is_apart_from_the_place_around_it(parts):
    within = parts.within("scaling")
    within.write(0, {"mean": np.zeros(3)})
    within.finish(0, {"inner": True})
    parts.write(0, {"X": TABLE})
    assert parts.receipts(200) == {}
    assert set(parts.read(0)) == {"X"}
    assert set(parts.within("scaling").read(0)) == {"mean"}  # the same place whenever it is asked for
    assert parts.within("scaling").receipts(200) == {0: {"inner": True}}
    assert parts.within("other").receipts(200) == {}


def test_a_writer_writes_one_part_and_says_what(parts):
    parts.allocate("X", (10, 3), np.float64, 5)
    parts.allocate("Z", (10, 3), np.float64, 10, 2)
    writer = PartWriter(parts, 7)
    assert writer.write(a=np.ones(2)) == {}
    assert writer.write_rows(5, X=TABLE[5:]) == {"rows": [5, 10], "arrays": ["X"]}
    assert writer.write_columns(2, Z=TABLE[:, 2:]) == {"columns": [2, 3], "arrays": ["Z"]}
    assert_array_equal(parts.read(7)["a"], np.ones(2))
    assert_array_equal(parts.rows("X").read(5, 10), TABLE[5:])
    assert parts.receipts(200) == {}  # the execution records it, when the task has returned


def test_an_array_may_have_any_name_that_the_writer_itself_uses(parts):
    PartWriter(parts, 0).write(start=np.ones(1), index=np.zeros(1))
    assert set(parts.read(0)) == {"start", "index"}


def test_what_was_never_written_is_an_error(parts):
    expected = KeyError if isinstance(parts, MemoryParts) else IntegrityError
    for ask in (lambda: parts.read(5), lambda: parts.arrays(5).load(), lambda: parts.rows("X")):
        with pytest.raises(expected):
            ask()


def test_stored_parts_travel_and_memory_parts_need_not(tmp_path):
    parts = StoredParts(tmp_path)
    parts.write(0, {"X": TABLE})
    there = pickle.loads(pickle.dumps(parts))
    assert_array_equal(there.read(0)["X"], TABLE)
    assert isinstance(there.folder, Path)
    parts.allocate("X", (10, 3), np.float64, 5)
    assert isinstance(parts.rows("X"), StoredRows)


@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 2**16))
def test_sparse_rows_in_parts_are_the_matrix_whatever_the_blocks(n_rows, block_rows, random_state):
    rng = np.random.default_rng(random_state)
    matrix = sparse.random_array((n_rows, 7), density=0.3, rng=rng, format="csr", dtype=np.float32)
    parts = MemoryParts()
    for number, (start, stop) in enumerate(row_ranges(n_rows, block_rows)):
        PartWriter(parts, 2 + number).write(**csr_arrays(matrix[start:stop]))
    rows = BlockedCsrRows(parts, matrix.shape, matrix.dtype, block_rows, matrix.nnz, first=2)
    again = BlockedCsrRows.of(parts, json.loads(json.dumps(rows.describe())))
    ids = rng.integers(0, n_rows, size=int(rng.integers(0, 12)))
    start, stop = sorted(rng.integers(0, n_rows + 1, size=2))

    for actual in (rows, again, CsrRows(matrix)):
        assert np.array_equal(actual.read_all().toarray(), matrix.toarray())
        assert np.array_equal(actual.take(ids).toarray(), matrix.toarray()[ids])
        assert np.array_equal(actual.read(start, stop).toarray(), matrix.toarray()[start:stop])
        assert actual.take(ids).indices.dtype == np.int32


def test_entries_given_twice_are_added_and_the_given_matrix_stays():
    given_twice = sparse.csr_array((np.ones(3), np.array([1, 1, 0]), np.array([0, 3])), shape=(1, 2))
    assert as_csr(given_twice).toarray().tolist() == [[1.0, 2.0]]
    assert given_twice.nnz == 3


@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 2**16))
def test_selected_rows_are_those_rows_in_that_order(n_rows, block_rows, random_state):
    rng = np.random.default_rng(random_state)
    X, ids = rng.normal(size=(n_rows, 2)), rng.integers(0, n_rows, size=12)
    for base in (ArrayRows(X), CsrRows(X)):
        chosen = SelectedRows(base, ids)
        assert (chosen.shape, chosen.dtype, chosen.is_sparse) == ((12, 2), X.dtype, base.is_sparse)
        assert chosen.row_bytes == base.row_bytes

        def dense(block):
            return block if isinstance(block, np.ndarray) else block.toarray()

        assert_array_equal(np.concatenate([dense(block) for _, block in chosen.blocks(block_rows)]), X[ids])
        assert_array_equal(dense(chosen.take(np.array([3, 0, 3]))), X[ids[[3, 0, 3]]])


@given(st.integers(1, 30), st.integers(0, 2**16), st.booleans())
def test_cached_rows_are_those_rows_and_plain_rows_in_another_process(n_rows, random_state, is_sparse):
    rng = np.random.default_rng(random_state)
    X = rng.normal(size=(n_rows, 2))
    base = CsrRows(X) if is_sparse else ArrayRows(X)
    known, wanted = rng.integers(0, n_rows, size=(2, 5))
    rows = CachedRows(base, known, cache)

    def dense(block):
        return block.toarray() if is_sparse else block

    assert (rows.shape, rows.dtype, rows.is_sparse, rows.row_bytes) == (X.shape, X.dtype, is_sparse, base.row_bytes)
    for ids in (known, known[:0], wanted):
        assert_array_equal(dense(rows.take(ids)), X[ids])
    assert_array_equal(dense(rows.read_all()), X)
    assert type(pickle.loads(pickle.dumps(rows))) is type(base)


def test_rows_that_are_cached_are_read_once(tmp_path):
    parts = StoredParts(tmp_path / "stage")
    parts.allocate("table", TABLE.shape, TABLE.dtype, 5)
    parts.write_range(0, {"table": TABLE})
    rows = cached_rows(parts.rows("table"), [np.array([7, 1]), np.array([2, 7])], cache)
    rows.take(np.array([7]))
    parts.remove()
    assert_array_equal(rows.take(np.array([2, 7, 2, 1])), TABLE[[2, 7, 2, 1]])
    with pytest.raises(IntegrityError):
        rows.take(np.array([3]))
    in_memory = ArrayRows(TABLE)
    assert cached_rows(in_memory, [np.array([1])], cache) is in_memory

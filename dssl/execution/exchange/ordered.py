"""Rows copied into another order by a shuffle: each is read once and written twice, and a task holds one block."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...storage.blocks import ArrayRows, Parts, PartWriter, Receipt, Rows, row_ranges
from ...storage.csr import csr_arrays, narrow_csr
from ...storage.views import BlockedCsrRows
from ..cost import block_count, bucket_requests
from ..tasks import SHARED_CHUNK, Execution
from .shuffle import gather, scatter


@dataclass(frozen=True)
class SendTask:
    """Send rows [start, stop) to the blocks, of `height` rows, that contain their new positions."""

    rows: Rows
    position: Rows
    height: int
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        block: Any = self.rows.read(self.start, self.stop)
        position = self.position.read(self.start, self.stop)
        n_blocks = len(row_ranges(len(self.rows), self.height))
        row = (position % self.height).astype(np.int32)
        if not self.rows.is_sparse:
            return scatter(out, position // self.height, n_blocks, row=row, X=block)
        entries = np.diff(block.indptr)
        position = np.repeat(position, entries)
        return scatter(out, position // self.height, n_blocks, row=np.repeat(row, entries),
                       column=block.indices, value=block.data)


@dataclass(frozen=True)
class ArriveTask:
    """Write the rows of a block in the order of their new positions."""

    rows: Rows
    sent: Parts
    n_writers: int
    height: int
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        start, stop = row_ranges(len(self.rows), self.height)[self.index]
        columns = gather(self.sent, self.n_writers, self.index)
        if not self.rows.is_sparse:
            block = np.empty_like(columns["X"])
            block[columns["row"]] = columns["X"]
            return out.write_rows(start, rows=block)
        order = np.lexsort((columns["column"], columns["row"]))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(columns["row"], minlength=stop - start))])
        shape = (stop - start, self.rows.shape[1])
        block = narrow_csr(columns["value"][order], columns["column"][order], indptr, shape)
        return {**out.write(**csr_arrays(block)), "nnz": len(order)}


# Bytes of a chunk of reordered rows. A reader of a block also reads nearby rows, which are scattered over many chunks:
# with chunks of 16 MiB, reading took two fifths of the time of Gram products of 1,000,000 points with 64 columns and
# 1,000 landmarks.
NEAR_CHUNK = 1 << 19
SENDERS = 8  # tasks that read the rows, at least, where each of them has as much as a chunk


def heights(n: int, row_bytes: int, budget: int) -> tuple[int, int, int]:
    """Return the number of rows that a task reads, of a block that it writes, and of a chunk of the block."""
    read = max(1, min(budget // 8, max(SHARED_CHUNK, n * row_bytes // SENDERS)) // row_bytes)
    chunk = min(read, max(1, NEAR_CHUNK // row_bytes))
    return min(n, read), min(n, max(1, min(SHARED_CHUNK // row_bytes, read) // chunk) * chunk), min(n, chunk)


def ordered_tasks(n: int, row_bytes: int, budget: int) -> int:
    """Return the number of tasks of `ordered` for stored rows."""
    return sum(block_count(n, height) for height in heights(n, row_bytes, budget)[:2])


def ordered_requests(n: int, row_bytes: int, budget: int) -> int:
    """Return the extra requests of `ordered` for stored rows: for its buckets, and for writing and reading chunks."""
    read, height, chunk = heights(n, row_bytes, budget)
    return bucket_requests((block_count(n, read), block_count(n, height))) + 2 * block_count(n, chunk)


def ordered(rows: Rows, position: Rows, execution: Execution, parts: Parts | None = None) -> Any:
    """Return Rows whose row position[i] is row i of `rows` (n, ...), readable by every task.

    position : (n,), a permutation. parts : stores the result unless the rows are in memory; temporary by default.

    A task holds two copies of its rows, which are at most an eighth of the budget.
    """
    if isinstance(rows, ArrayRows):
        reordered = np.empty_like(rows.array)
        reordered[position.read_all()] = rows.array
        return execution.share_rows(ArrayRows(reordered))
    n = len(rows)
    parts = parts or execution.scratch()
    sent = parts.within("sent")
    read, height, chunk = heights(n, rows.row_bytes, execution.memory_budget)
    sources = row_ranges(n, read)
    arrive = block_count(n, height)
    if len(parts.receipts(arrive)) < arrive:  # otherwise the sent rows may have been removed already
        execution.map([SendTask(rows, position, height, start, stop) for start, stop in sources], sent)
    if not rows.is_sparse:
        parts.allocate("rows", rows.shape, rows.dtype, chunk)
    receipts = execution.map([ArriveTask(rows, sent, len(sources), height, index)
                              for index in range(arrive)], parts)
    sent.remove()
    if not rows.is_sparse:
        return parts.rows("rows")
    return BlockedCsrRows(parts, (n, rows.shape[1]), rows.dtype, height, sum(receipt["nnz"] for receipt in receipts))

"""Rows copied into another order, by a shuffle: each is read once and written twice, and a task holds a block."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...storage.blocks import ArrayRows, Parts, PartWriter, Receipt, Rows, row_ranges
from ...storage.csr import csr_arrays, narrow_csr
from ...storage.pieces import BlockedCsrRows
from ..cost import block_count, bucket_requests
from ..tasks import SHARED_CHUNK, Execution
from .shuffle import gather, scatter


@dataclass(frozen=True)
class SendTask:
    """Send rows [start, stop) to the blocks of `height` rows of their places."""

    rows: Rows
    place: Rows
    height: int
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        block: Any = self.rows.read(self.start, self.stop)
        place = self.place.read(self.start, self.stop)
        n_blocks = len(row_ranges(len(self.rows), self.height))
        row = (place % self.height).astype(np.int32)
        if not self.rows.is_sparse:
            return scatter(out, place // self.height, n_blocks, row=row, X=block)
        entries = np.diff(block.indptr)
        place = np.repeat(place, entries)
        return scatter(out, place // self.height, n_blocks, row=np.repeat(row, entries),
                       column=block.indices, value=block.data)


@dataclass(frozen=True)
class ArriveTask:
    """Write the rows of a block, in the order of their places."""

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
        at = np.lexsort((columns["column"], columns["row"]))
        indptr = np.concatenate([[0], np.cumsum(np.bincount(columns["row"], minlength=stop - start))])
        block = narrow_csr(columns["value"][at], columns["column"][at], indptr, (stop - start, self.rows.shape[1]))
        return {**out.write(**csr_arrays(block)), "nnz": len(at)}


# Of a chunk of rows in order: who reads a block reads the rows near it too, which lie in many places. Chunks of 16 MiB
# took two fifths of the time of Gram products of 1,000,000 points of 64 columns with 1,000 landmarks.
NEAR_CHUNK = 1 << 19


def heights(n: int, row_bytes: int, budget: int) -> tuple[int, int, int]:
    """Return the rows that a task reads, those of a block that it writes, and those of a chunk of it."""
    read = max(1, budget // 8 // row_bytes)
    chunk = min(read, max(1, NEAR_CHUNK // row_bytes))
    return min(n, read), min(n, max(1, min(SHARED_CHUNK // row_bytes, read) // chunk) * chunk), min(n, chunk)


def ordered_tasks(n: int, row_bytes: int, budget: int) -> int:
    """Return the number of tasks of `ordered` for stored rows."""
    return sum(block_count(n, height) for height in heights(n, row_bytes, budget)[:2])


def ordered_requests(n: int, row_bytes: int, budget: int) -> int:
    """Return the requests of `ordered` for stored rows beside those of its tasks: of its buckets, and of small chunks,
    which are written and read."""
    read, height, chunk = heights(n, row_bytes, budget)
    return bucket_requests((block_count(n, read), block_count(n, height))) + 2 * block_count(n, chunk)


def ordered(rows: Rows, place: Rows, execution: Execution, parts: Parts | None = None) -> Any:
    """Return Rows whose row place[i] is row i of `rows` (n, ...), readable by every task; place (n,) is a permutation.

    parts : where they go, and finished blocks are kept, unless the rows are in this process; scratch by default.

    A task holds an eighth of the budget of rows, twice, or a chunk of `SHARED_CHUNK` bytes if that is less.
    """
    if isinstance(rows, ArrayRows):
        moved = np.empty_like(rows.array)
        moved[place.read_all()] = rows.array
        return execution.share_rows(ArrayRows(moved))
    n = len(rows)
    parts = parts or execution.scratch()
    sent = parts.within("sent")
    read, height, chunk = heights(n, rows.row_bytes, execution.memory_budget)
    sources = row_ranges(n, read)
    arrive = block_count(n, height)
    if len(parts.receipts(arrive)) < arrive:  # or else what was sent may be gone
        execution.map([SendTask(rows, place, height, start, stop) for start, stop in sources], sent)
    if not rows.is_sparse:
        parts.allocate("rows", rows.shape, rows.dtype, chunk)
    receipts = execution.map([ArriveTask(rows, sent, len(sources), height, index)
                              for index in range(arrive)], parts)
    sent.remove()
    if not rows.is_sparse:
        return parts.rows("rows")
    return BlockedCsrRows(parts, (n, rows.shape[1]), rows.dtype, height, sum(receipt["nnz"] for receipt in receipts))

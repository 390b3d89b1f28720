"""Halo rows: the rows of other blocks that a block needs, delivered by two shuffles.

Block i of a graph needs the rows of its points' neighbors, which may lie in any chunk. If it read them directly, it
would decode nearly all chunks for a few rows of each, and the time would grow with the square of the number of rows.
Instead, blocks send requests to the owners of row ranges, and the owners send the rows back. Rows are read once, and
written once for each block that requests them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...storage.blocks import Parts, PartWriter, Receipt, Rows, row_ranges
from ..tasks import Execution
from .shuffle import gather, rows_of_writers, scatter

MAX_REQUEST_TASKS = 32  # unless their lists exceed the budget
REQUEST_BYTES = 60  # per requested row, in a `RequestTask`
FEW_BYTES = 64 << 20  # rows that take less in total are read directly, which is faster


@dataclass(frozen=True)
class RequestTask:
    """Send the ascending row numbers that blocks [first, last) request, array `name` of their parts, to the owners."""

    requested: Parts
    name: str
    first: int
    last: int
    height: int
    n_owners: int

    def __call__(self, out: PartWriter) -> Receipt:
        lists = [self.requested.read(index, [self.name])[self.name] for index in range(self.first, self.last)]
        block = np.repeat(np.arange(self.first, self.last, dtype=np.int32), [len(rows) for rows in lists])
        ids = np.concatenate(lists)
        return scatter(out, ids // self.height, self.n_owners, block=block, row=(ids % self.height).astype(np.int32))


@dataclass(frozen=True)
class AnswerTask:
    """Send rows of one range, of `height` rows, to the blocks that requested them."""

    rows: Rows
    requests: Parts
    n_request_tasks: int
    height: int
    n_blocks: int
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        start, stop = row_ranges(len(self.rows), self.height)[self.index]
        requests = gather(self.requests, self.n_request_tasks, self.index)
        return scatter(out, requests["block"], self.n_blocks, X=self.rows.read(start, stop)[requests["row"]])


@dataclass(frozen=True)
class HaloRows:
    """The rows that each block requested, in the order of their numbers."""

    answers: Parts
    n_owners: int

    def pieces(self, index: int, first: int, max_rows: int) -> Iterator[np.ndarray]:
        """Yield the rows that a block requested, from number `first` on, in pieces of at most `max_rows`.

        Holds `max_rows` rows and those of one owner.
        """
        rows: np.ndarray | None = None
        for owner, count in enumerate(rows_of_writers(self.answers, self.n_owners, index)):
            if first >= count:
                first -= count
                continue
            piece = self.answers.read_bucket(owner, index)["X"][first:]
            first = 0
            rows = piece if rows is None else np.concatenate([rows, piece])
            while len(rows) >= max_rows:
                yield rows[:max_rows]
                rows = rows[max_rows:]
        if rows is not None and len(rows):
            yield rows


def owner_rows(n: int, row_bytes: int, share: float, budget: int) -> int:
    """Return the rows per owner such that they and `share` times as many answers take a quarter of the budget."""
    return min(n, max(1, int(budget // 4 / (row_bytes * (1 + 2 * share) + 16 * share))))


def halo_shuffles(n: int, n_blocks: int, row_bytes: int, share: float, budget: int,
                  few_bytes: int = FEW_BYTES) -> list[tuple[int, int]]:
    """Return (writing tasks, reading tasks) of each shuffle that delivers halos of `share` n rows in total."""
    if n * row_bytes <= few_bytes:
        return []
    owners = -(-n // owner_rows(n, row_bytes, share, budget))
    return [(_request_tasks(n_blocks, int(share * n), budget), owners), (owners, n_blocks)]


def halo_tasks(shuffles: Sequence[tuple[int, int]]) -> int:
    """Return an upper bound of the tasks of these shuffles; blocks read their rows in tasks that exist anyway."""
    return sum(writers for writers, _ in shuffles)


def bring_halos(rows: Rows, requested: Parts, n_blocks: int, name: str, total: int,
                execution: Execution, parts: Parts | None = None, few_bytes: int = FEW_BYTES) -> HaloRows | None:
    """Deliver the rows that blocks request; return None if reading them directly is faster: in memory, sparse, or few.

    rows : (n, d). requested : part i holds the ascending row numbers that block i requests as the integer array `name`.
    total : the number of requests of all blocks. parts : stores the answers, which are kept; temporary by default.
    few_bytes : rows that take less in total are read directly.
    """
    n = len(rows)
    if rows.held or rows.is_sparse or not total or n * rows.row_bytes <= few_bytes:
        return None
    height = owner_rows(n, rows.row_bytes, total / n, execution.memory_budget)
    owners = row_ranges(n, height)
    n_request_tasks = _request_tasks(n_blocks, total, execution.memory_budget)
    edges = np.linspace(0, n_blocks, n_request_tasks + 1).astype(int).tolist()
    answers = parts or execution.scratch()
    requests = answers.within("asked")
    if len(answers.receipts(len(owners))) < len(owners):  # otherwise the requests may have been removed already
        execution.map([RequestTask(requested, name, first, last, height, len(owners))
                       for first, last in pairwise(edges)], requests)
    execution.map([AnswerTask(rows, requests, n_request_tasks, height, n_blocks, index)
                   for index in range(len(owners))], answers)
    requests.remove()
    return HaloRows(answers, len(owners))


def _request_tasks(n_blocks: int, total: int, budget: int) -> int:
    return min(n_blocks, max(MAX_REQUEST_TASKS, -(-REQUEST_BYTES * total // (budget // 4))))

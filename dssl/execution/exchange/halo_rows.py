"""Rows that blocks read beside their own, brought to each block by two shuffles.

Block i of a graph needs the rows of the neighbors of its points, which lie in any chunk: read where they lie, each
block decodes nearly all chunks for a few rows of each, and the time grows with the square of the number of rows. Here
blocks ask the owners of ranges for their rows, and owners answer; each block then reads its own answers. Rows are read
once, and written once for each block that asked.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from ...storage.blocks import Parts, PartWriter, Receipt, Rows, row_ranges
from ..tasks import Execution
from .shuffle import gather, rows_of_writers, scatter

MAX_ASKING = 32  # tasks, where their lists fit
ASKED_BYTES = 60  # of a number that is asked for, in an `AskTask`
FEW_BYTES = 64 << 20  # of all rows, which are sooner read where they lie


@dataclass(frozen=True)
class AskTask:
    """Send the ascending numbers of rows that blocks [first, last) want, `name` of their parts, to the rows' owners."""

    wanted: Parts
    name: str
    first: int
    last: int
    height: int
    n_owners: int

    def __call__(self, out: PartWriter) -> Receipt:
        lists = [self.wanted.read(index, [self.name])[self.name] for index in range(self.first, self.last)]
        block = np.repeat(np.arange(self.first, self.last, dtype=np.int32), [len(rows) for rows in lists])
        ids = np.concatenate(lists)
        return scatter(out, ids // self.height, self.n_owners, block=block, row=(ids % self.height).astype(np.int32))


@dataclass(frozen=True)
class AnswerTask:
    """Send rows of one range, of `height` rows, to the blocks that asked for them."""

    rows: Rows
    asked: Parts
    n_asking: int
    height: int
    n_blocks: int
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        start, stop = row_ranges(len(self.rows), self.height)[self.index]
        asked = gather(self.asked, self.n_asking, self.index)
        return scatter(out, asked["block"], self.n_blocks, X=self.rows.read(start, stop)[asked["row"]])


@dataclass(frozen=True)
class HaloRows:
    """The rows that each block asked for, in the order of their numbers."""

    answers: Parts
    n_owners: int

    def pieces(self, index: int, first: int, most: int) -> Iterator[np.ndarray]:
        """Yield the rows that a block asked for from the `first` on, `most` at a time, of the last as many as are left.

        Holds `most` rows and those of one owner.
        """
        rows: np.ndarray | None = None
        for owner, count in enumerate(rows_of_writers(self.answers, self.n_owners, index)):
            if first >= count:
                first -= count
                continue
            piece = self.answers.read_bucket(owner, index)["X"][first:]
            first = 0
            rows = piece if rows is None else np.concatenate([rows, piece])
            while len(rows) >= most:
                yield rows[:most]
                rows = rows[most:]
        if rows is not None and len(rows):
            yield rows


def owner_rows(n: int, row_bytes: int, share: float, budget: int) -> int:
    """Return the rows of an owner: with `share` times as many answers, and their buckets, a quarter of the budget."""
    return min(n, max(1, int(budget // 4 / (row_bytes * (1 + 2 * share) + 16 * share))))


def halo_shuffles(n: int, n_blocks: int, row_bytes: int, share: float, budget: int,
                  few_bytes: int = FEW_BYTES) -> list[tuple[int, int]]:
    """Return the tasks that write and that read, of each shuffle that brings halos of `share` n rows in all."""
    if n * row_bytes <= few_bytes:
        return []
    owners = -(-n // owner_rows(n, row_bytes, share, budget))
    return [(_asking(n_blocks, int(share * n), budget), owners), (owners, n_blocks)]


def halo_tasks(shuffles: Sequence[tuple[int, int]]) -> int:
    """Return the most tasks of these shuffles; blocks read their rows in tasks that there are anyway."""
    return sum(writers for writers, _ in shuffles)


def bring_halos(rows: Rows, wanted: Parts, n_blocks: int, name: str, total: int,
                execution: Execution, parts: Parts | None = None, few_bytes: int = FEW_BYTES) -> HaloRows | None:
    """Return the rows that blocks want; None where they are sooner read as they lie: in memory, sparse, or few.

    rows : (n, d). wanted : part i holds the ascending numbers of the rows that block i wants, the array `name` of
    integers. total : how many all blocks want. parts : where answers go, and finished ones stay; scratch by default.
    few_bytes : of all rows, which stay where they are.
    """
    n = len(rows)
    if rows.held or rows.is_sparse or not total or n * rows.row_bytes <= few_bytes:
        return None
    height = owner_rows(n, rows.row_bytes, total / n, execution.memory_budget)
    owners = row_ranges(n, height)
    n_asking = _asking(n_blocks, total, execution.memory_budget)
    edges = np.linspace(0, n_blocks, n_asking + 1).astype(int).tolist()
    answers = parts or execution.scratch()
    asked = answers.within("asked")
    if len(answers.receipts(len(owners))) < len(owners):  # or else what was asked may be gone
        execution.map([AskTask(wanted, name, first, last, height, len(owners))
                       for first, last in pairwise(edges)], asked)
    execution.map([AnswerTask(rows, asked, n_asking, height, n_blocks, index) for index in range(len(owners))], answers)
    asked.remove()
    return HaloRows(answers, len(owners))


def _asking(n_blocks: int, total: int, budget: int) -> int:
    return min(n_blocks, max(MAX_ASKING, -(-ASKED_BYTES * total // (budget // 4))))

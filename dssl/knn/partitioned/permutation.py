"""Rows in leaf order: blocks of near rows, one after the other, and the number of each row in that order, its place."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...storage.blocks import Arrays, Parts

CELLS, LEAVES, JOINS = 1, 2, 3  # random streams of a search's seed: of cells, of leaves, and of joins across them


@dataclass(frozen=True)
class Places:
    """Places of blocks: those of block b are `starts[b]` to `starts[b] + counts[b]`.

    Blocks begin at multiples of the chunk that arrays by place are stored in, so that each is written by one task;
    what is left free between them holds nothing. starts : (b + 1,), counts : (b,).
    """

    starts: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray, chunk: int) -> "Places":
        """Return the places of blocks of so many rows."""
        return cls(np.concatenate([[0], np.cumsum(-(-counts // chunk) * chunk)]), np.asarray(counts))

    def block(self, places: np.ndarray) -> np.ndarray:
        """Return the block that each place lies in."""
        return np.searchsorted(self.starts, places, side="right") - 1

    def at(self, first: int, last: int) -> np.ndarray:
        """Return the places of rows [first, last) of all, counted without what is free."""
        numbers, ends = np.arange(first, last), np.cumsum(self.counts)
        block = np.searchsorted(ends, numbers, side="right")
        return self.starts[block] + numbers - (ends - self.counts)[block]

    def span(self, block: int) -> tuple[int, int]:
        """Return where the rows of a block begin and end."""
        start = int(self.starts[block])
        return start, start + int(self.counts[block])

    def filled(self, block: int, array: np.ndarray, value: Any, order: np.ndarray | None = None) -> np.ndarray:
        """Return the rows of a block, in this order of them, and `value` in what is free behind them."""
        height = int(self.starts[block + 1] - self.starts[block])
        out = np.full((height, *array.shape[1:]), value, array.dtype)
        if order is None:
            out[:len(array)] = array
        else:
            np.take(array, order, axis=0, out=out[:len(array)], mode="clip")  # which needs no copy, unlike "raise"
        return out


@dataclass(frozen=True)
class Ordered:
    """Rows by place, as tasks read them.

    parts : shared arrays `rows` (measurable), `seen` (their coordinates) and `row` (their numbers, -1 where none is).
    held : starts and counts of the places. chunk : rows of a chunk of arrays by place.
    """

    parts: Parts
    held: Arrays
    chunk: int

    @property
    def places(self) -> Places:
        """Return where blocks lie."""
        return Places(**self.held.load())

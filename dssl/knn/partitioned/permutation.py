"""The permutation of a partitioned search: rows in blocks of near rows, one block after the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ...storage.blocks import Arrays, Parts

# Random streams of a search's seed: for cells, for leaves, for joins across them, and for the sketch.
CELLS, LEAVES, JOINS, SKETCH = 1, 2, 3, 4


@dataclass(frozen=True)
class BlockPositions:
    """Positions of blocks in the permuted rows: block b has positions starts[b] to starts[b] + counts[b].

    Blocks begin at multiples of the chunk rows of permuted arrays, so that one task writes each chunk; the positions
    between blocks stay empty. starts : (b + 1,), counts : (b,).
    """

    starts: np.ndarray
    counts: np.ndarray

    @classmethod
    def of(cls, counts: np.ndarray, chunk_rows: int) -> "BlockPositions":
        """Return the positions of blocks with these numbers of rows."""
        return cls(np.concatenate([[0], np.cumsum(-(-counts // chunk_rows) * chunk_rows)]), np.asarray(counts))

    def block(self, positions: np.ndarray) -> np.ndarray:
        """Return the block that each position lies in."""
        return np.searchsorted(self.starts, positions, side="right") - 1

    def at(self, first: int, last: int) -> np.ndarray:
        """Return the positions of permuted rows [first, last), counted without empty positions."""
        numbers, ends = np.arange(first, last), np.cumsum(self.counts)
        block = np.searchsorted(ends, numbers, side="right")
        return self.starts[block] + numbers - (ends - self.counts)[block]

    def span(self, block: int) -> tuple[int, int]:
        """Return the positions [start, stop) of the rows of a block."""
        start = int(self.starts[block])
        return start, start + int(self.counts[block])

    def filled(self, block: int, array: np.ndarray, value: Any, order: np.ndarray | None = None) -> np.ndarray:
        """Return the rows of a block, in the given order, padded with `value` to the start of the next block."""
        height = int(self.starts[block + 1] - self.starts[block])
        out = np.full((height, *array.shape[1:]), value, array.dtype)
        if order is None:
            out[:len(array)] = array
        else:
            np.take(array, order, axis=0, out=out[:len(array)], mode="clip")  # which needs no copy, unlike "raise"
        return out


@dataclass(frozen=True)
class PermutedRows:
    """Permuted rows, as tasks read them.

    parts : shared arrays `rows` (transformed by the metric), `seen` (their coordinates) and `row` (their numbers; -1
        at empty positions).
    bounds : starts and counts of the blocks.
    chunk : rows of a chunk of permuted arrays.
    """

    parts: Parts
    bounds: Arrays
    chunk: int

    @property
    def positions(self) -> BlockPositions:
        """Return the positions of the blocks."""
        return BlockPositions(**self.bounds.load())

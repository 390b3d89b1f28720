"""A partition of points into overlapping leaves: k-means cells, grouped into leaves of neighboring cells.

A row belongs to the leaf of its nearest cell, its home, and to other leaves that have a cell hardly farther away. So a
row near the border of its leaf is searched on both sides, and a row in the middle of a leaf only once. The partition is
fitted to a sample.

A search permutes its rows: they lie in blocks of near rows, one block after the other.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from ...storage.blocks import Arrays, Parts
from ..metric import sample_ids

CELLS_PER_LEAF, MAX_CELLS, SAMPLE_PER_CELL = 64, 2048, 32
LLOYD_STEPS = 5
PRODUCT_BYTES = 1 << 20
# Random streams of a search's seed: for cells, for leaves, for joins across them, and for the sketch.
CELLS, LEAVES, JOINS, SKETCH = 1, 2, 3, 4


@dataclass(frozen=True)
class Partition:
    """Centers (m, a) of k-means cells (IVF cells), and the leaf (m,) of each cell."""

    centers: np.ndarray
    leaf: np.ndarray

    @property
    def leaves(self) -> int:
        """Return the number of leaves."""
        return int(self.leaf.max()) + 1

    def homes(self, coordinates: np.ndarray) -> np.ndarray:
        """Return the home leaf (n,) of rows of coordinates."""
        return np.concatenate([self.leaf[squared.argmin(axis=1)] for _, squared in self._distances(coordinates)]
                              or [np.zeros(0, np.int64)])

    def members(self, coordinates: np.ndarray, max_leaves: int,
                distance_ratio: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the pairs (row, leaf) of memberships, as two arrays (p,), and which of them are homes.

        A row belongs to its home, and to at most max_leaves - 1 other leaves that have a cell within `distance_ratio`
        times the distance of the nearest cell.
        """
        pairs = []
        for first, squared in self._distances(coordinates):
            rows, leaves, home = _members(squared, self.leaf, self.leaves, max_leaves,
                                          np.float32(distance_ratio * distance_ratio))
            pairs.append((rows + np.int32(first), leaves, home))
        rows, leaves, home = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
        return rows, leaves, home

    def _distances(self, coordinates: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the squared distances of blocks of rows to all centers, with the number of the first row."""
        height, norms = max(64, PRODUCT_BYTES // (4 * len(self.centers))), (self.centers**2).sum(axis=1)
        for first in range(0, max(len(coordinates), 1), height):
            block = coordinates[first:first + height]
            squared = block @ (-2 * self.centers.T)
            squared += norms
            squared += (block**2).sum(axis=1)[:, None]
            yield first, np.maximum(squared, 0, out=squared)


@njit(nogil=True, cache=True)
def _members(squared, leaf, n_leaves, max_leaves, distance_ratio):
    rows = np.empty(squared.shape[0] * max_leaves, np.int32)
    leaves, home = np.empty(len(rows), np.int32), np.empty(len(rows), np.uint8)
    nearest = np.empty(n_leaves, np.float32)
    count = 0
    for row in range(squared.shape[0]):
        nearest[:] = np.inf
        for cell in range(leaf.shape[0]):
            nearest[leaf[cell]] = min(nearest[leaf[cell]], squared[row, cell])
        limit = np.float32(np.inf)
        for rank in range(min(max_leaves, n_leaves)):
            best = np.argmin(nearest)
            if not nearest[best] <= limit:
                break
            if rank == 0:
                limit = nearest[best] * distance_ratio
            rows[count], leaves[count], home[count] = row, best, rank == 0
            nearest[best] = np.inf
            count += 1
    return rows[:count], leaves[:count].copy(), home[:count].copy()


def fit_centers(coordinates: np.ndarray, n_cells: int, rng: np.random.Generator) -> np.ndarray:
    """Return the centers (m, a) of at most `n_cells` cells: a few Lloyd steps from random rows of a sample."""
    centers = coordinates[np.sort(rng.choice(len(coordinates), min(n_cells, len(coordinates)), replace=False))]
    for _ in range(LLOYD_STEPS):
        cells = Partition(centers, np.arange(len(centers)))
        homes = cells.homes(coordinates)
        order, counts = np.argsort(homes, kind="stable"), np.bincount(homes, minlength=len(centers))
        full = np.flatnonzero(counts)
        sums = np.add.reduceat(coordinates[order].astype(np.float64), (np.cumsum(counts) - counts)[full], axis=0)
        centers = (sums / counts[full, None]).astype(np.float32)  # a cell without rows is dropped
    return centers


def pack(centers: np.ndarray, weights: np.ndarray, n_leaves: int, rng: np.random.Generator | None) -> np.ndarray:
    """Return the leaf (m,) of each cell: recursive bisection into halves of nearly equal weight along the widest axis.

    The axes are those of the coordinates, or a random rotation of them by `rng`. Centers longer than 1 (of outliers)
    are scaled to length 1.
    """
    centers = centers / np.maximum(1, np.sqrt(np.einsum("ij,ij->i", centers, centers, dtype=np.float64)))[:, None]
    if rng is not None:
        axes = centers.shape[1]
        centers = centers @ np.linalg.qr(rng.normal(size=(axes, axes)))[0]
    leaf = np.empty(len(centers), np.int64)
    pending = [(np.arange(len(centers)), 0, n_leaves)]
    while pending:
        cells, first, count = pending.pop()
        if count == 1:
            leaf[cells] = first
            continue
        mean = np.average(centers[cells], axis=0, weights=weights[cells])
        axis = np.average((centers[cells] - mean) ** 2, axis=0, weights=weights[cells]).argmax()
        cells = cells[np.argsort(centers[cells, axis], kind="stable")]
        left_leaves = count // 2
        share = np.cumsum(weights[cells]) / weights[cells].sum()
        split = int(np.abs(share - left_leaves / count).argmin()) + 1
        split = min(max(split, left_leaves), len(cells) - (count - left_leaves))  # each leaf has a cell
        pending += [(cells[:split], first, left_leaves), (cells[split:], first + left_leaves, count - left_leaves)]
    return leaf


def fit_partition(coordinates: np.ndarray, n_leaves: int, rng: np.random.Generator, rotated: bool = False) -> Partition:
    """Return a partition into `n_leaves` leaves with nearly equal numbers of rows of a sample (m, a) of coordinates.

    rotated : bisect along random axes, which gives other leaves than the coordinate axes.
    """
    n_cells = min(MAX_CELLS, CELLS_PER_LEAF * n_leaves, max(n_leaves, len(coordinates) // 8))
    coordinates = coordinates[sample_ids(len(coordinates), max(SAMPLE_PER_CELL * n_cells, SAMPLE_PER_CELL))]
    centers = fit_centers(coordinates, max(n_cells, n_leaves), rng) if n_leaves > 1 else coordinates[:1]
    cells = Partition(centers, np.arange(len(centers)))
    weights = np.bincount(cells.homes(coordinates), minlength=len(centers)) + 1e-3
    return Partition(centers, pack(centers, weights, min(n_leaves, len(centers)), rng if rotated else None))


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

    def filled(self, block: int, array: np.ndarray, value: float, order: np.ndarray | None = None) -> np.ndarray:
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

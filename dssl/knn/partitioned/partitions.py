"""A partition of points into overlapping leaves: k-means cells, grouped into leaves of neighboring cells.

A row belongs to the leaf of its nearest cell, its home, and to other leaves that have a cell hardly farther away. So a
row near the border of its leaf is searched on both sides, and a row in the middle of a leaf only once. The partition is
fitted to a sample.

A search permutes its rows: they lie in blocks of near rows, one block after the other.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from typing import TypeVar

import numpy as np
from numba import njit

from ...storage.blocks import Arrays, Parts, row_ranges
from ..metric import sample_ids

Result = TypeVar("Result")

CELLS_PER_LEAF, MAX_CELLS, SAMPLE_PER_CELL = 64, 2048, 32
LLOYD_STEPS = 5
PRODUCT_BYTES = 1 << 20
# Random streams of a search's seed: for cells, leaves, joins across them, the sketch, and the axes that divide cells.
CELLS, LEAVES, JOINS, SKETCH, AXES = 1, 2, 3, 4, 5


@dataclass(frozen=True)
class Partition:
    """Centers (m, a) of k-means cells (IVF cells), and the leaf (m,) of each cell."""

    centers: np.ndarray
    leaf: np.ndarray

    @property
    def leaves(self) -> int:
        """Return the number of leaves."""
        return int(self.leaf.max()) + 1

    def homes(self, coordinates: np.ndarray, threads: int = 1) -> np.ndarray:
        """Return the home leaf (n,) of rows of coordinates."""
        return np.concatenate(self._of_blocks(lambda first, block, excess: self.leaf[excess.argmin(axis=1)],
                                              coordinates, threads))

    def members(self, coordinates: np.ndarray, max_leaves: int, distance_ratio: float,
                threads: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the pairs (row, leaf) of memberships, as two arrays (p,), and which of them are homes.

        A row belongs to its home, and to at most max_leaves - 1 other leaves that have a cell within `distance_ratio`
        times the distance of the nearest cell.
        """
        ratio = np.float32(distance_ratio * distance_ratio)

        def of_block(first: int, block: np.ndarray, excess: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            rows, leaves, home = _members(excess, (block**2).sum(axis=1), self.leaf, self.leaves, max_leaves, ratio)
            return rows + np.int32(first), leaves, home

        pairs = self._of_blocks(of_block, coordinates, threads)
        rows, leaves, home = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
        return rows, leaves, home

    def _of_blocks(self, of_block: Callable[[int, np.ndarray, np.ndarray], Result], coordinates: np.ndarray,
                   threads: int) -> list[Result]:
        """Return what a function says of each block of rows, whatever the number of threads.

        of_block : takes the number of the first row, the rows, and their squared distances to all centers without the
        squared lengths of the rows themselves, which change no order.
        """
        height, norms = max(64, PRODUCT_BYTES // (4 * len(self.centers))), (self.centers**2).sum(axis=1)
        towards = -2 * self.centers.T
        firsts = range(0, max(len(coordinates), 1), height)

        def of_run(start: int, stop: int) -> list[Result]:
            results = []
            for first in firsts[start:stop]:
                block = coordinates[first:first + height]
                excess = block @ towards
                excess += norms
                results.append(of_block(first, block, excess))
            return results

        runs = row_ranges(len(firsts), -(-len(firsts) // threads))
        if len(runs) == 1:
            return of_run(0, len(firsts))
        with ThreadPoolExecutor(threads) as pool:
            return list(chain.from_iterable(pool.map(of_run, *zip(*runs, strict=True))))


@njit(nogil=True, cache=True)
def _members(excess, norms, leaf, n_leaves, max_leaves, distance_ratio):
    rows = np.empty(excess.shape[0] * max_leaves, np.int32)
    leaves, home = np.empty(len(rows), np.int32), np.empty(len(rows), np.uint8)
    nearest = np.empty(n_leaves, np.float32)
    count = 0
    for row in range(excess.shape[0]):
        nearest[:] = np.inf
        for cell in range(leaf.shape[0]):
            nearest[leaf[cell]] = min(nearest[leaf[cell]], excess[row, cell])
        limit = np.float32(np.inf)
        for rank in range(min(max_leaves, n_leaves)):
            best = np.argmin(nearest)
            squared = max(nearest[best] + norms[row], np.float32(0))
            if not squared <= limit:
                break
            if rank == 0:
                limit = squared * distance_ratio
            rows[count], leaves[count], home[count] = row, best, rank == 0
            nearest[best] = np.inf
            count += 1
    return rows[:count], leaves[:count].copy(), home[:count].copy()


def fit_centers(coordinates: np.ndarray, n_cells: int, rng: np.random.Generator, threads: int = 1) -> np.ndarray:
    """Return the centers (m, a) of at most `n_cells` cells: a few Lloyd steps from random rows of a sample."""
    centers = coordinates[np.sort(rng.choice(len(coordinates), min(n_cells, len(coordinates)), replace=False))]
    for _ in range(LLOYD_STEPS):
        cells = Partition(centers, np.arange(len(centers)))
        homes = cells.homes(coordinates, threads)
        order, counts = np.argsort(homes, kind="stable"), np.bincount(homes, minlength=len(centers))
        full = np.flatnonzero(counts)
        sums = np.add.reduceat(coordinates[order].astype(np.float64), (np.cumsum(counts) - counts)[full], axis=0)
        centers = (sums / counts[full, None]).astype(np.float32)  # a cell without rows is dropped
    return centers


def cells_of(n_leaves: int, n_rows: int) -> int:
    """Return the number of cells for so many leaves, fitted to a sample of n_rows."""
    return max(n_leaves, min(MAX_CELLS, CELLS_PER_LEAF * n_leaves, n_rows // 8)) if n_leaves > 1 else 1


def fit_cells(coordinates: np.ndarray, n_cells: int, rng: np.random.Generator,
              threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the centers of cells, and their numbers of rows (m,), of a sample (n, a) of coordinates."""
    if n_cells == 1:
        return coordinates[:1], np.ones(1)
    coordinates = coordinates[sample_ids(len(coordinates), SAMPLE_PER_CELL * n_cells)]
    centers = fit_centers(coordinates, n_cells, rng, threads)
    homes = Partition(centers, np.arange(len(centers))).homes(coordinates, threads)
    return centers, np.bincount(homes, minlength=len(centers)) + 1e-3  # of which no group weighs nothing


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

"""A partition of points into leaves that overlap: cells of k-means, of which some that lie together make a leaf.

A row belongs to the leaf of its nearest cell, its home, and to others that have a cell hardly farther: so a row whose
neighbors may lie beyond the border of its leaf is searched on both sides, and one in the middle of a leaf only once.
All of it is fitted to a sample.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from ...storage.blocks import row_ranges
from ..exact.layout import SAMPLE_ROWS, Frame, principal_frame, project
from ..metric import sample_ids

CELLS_OF_A_LEAF, MOST_CELLS, SAMPLE_OF_A_CELL = 64, 2048, 32
LLOYD_STEPS = 5
NEAR_SAMPLE, NEAR_ROWS = 256, 32  # rows of a sample whose nearest other is sought, and of a product
FAR = 16.0  # times as far from the median as nine in ten rows are: such rows say nothing about axes
FAR_LENGTH = 1024.0  # where the length of the farthest usual row is 1/2 to 1: (1024 + x)^2 is known to x = 6e-5
MOST_LENGTH = 1e15  # of a coordinate, where that of the farthest usual row is 1: the squares fit float32
PRODUCT_BYTES, BLOCK_ROWS = 1 << 20, 1024


@dataclass(frozen=True)
class View:
    """How rows are seen: their coordinates (n, a) float32 along principal axes, and what these miss as a length.

    Distances of coordinates are at most those of the rows times `scale`, and nearly equal.
    """

    frame: Frame
    scale: float

    @classmethod
    def of(cls, sample: np.ndarray) -> "View":
        """Return the view whose axes are those of a sample (m, d) of rows.

        They hold nearly all of what near rows differ in too: by them a search decides who is near. Of clouds whose
        centers hold most of the variance, axes that hold most of it may miss a tenth of the distances within a cloud.
        Rows far beyond the others are left out: they would be the center, the axes and the scale.
        """
        chosen = sample[sample_ids(len(sample), SAMPLE_ROWS)]
        chosen = chosen[_usual(chosen)]
        frame = principal_frame(chosen, _near_directions(chosen))
        return cls(frame, project(chosen, frame).scale)

    @property
    def axes(self) -> int:
        """Return the number of coordinates."""
        return self.frame.basis.shape[1] + 1

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates (n, a) of rows (n, d): products in float32, since they only say what is measured.

        Rows so far away that their squares overflow are brought nearer.
        """
        center, m = self.frame.center, self.frame.basis.shape[1]
        basis, seen = self.frame.basis.astype(np.float32), np.empty((len(rows), m + 1), np.float32)
        for start, stop in row_ranges(len(rows), BLOCK_ROWS):
            centered = (rows[start:stop] - center) * self.scale
            np.clip(centered, -MOST_LENGTH, MOST_LENGTH, out=centered)
            seen[start:stop, :m] = centered.astype(np.float32) @ basis
            shown = seen[start:stop, :m].astype(np.float64)
            missed = np.einsum("ij,ij->i", centered, centered) - np.einsum("ij,ij->i", shown, shown)
            seen[start:stop, m] = np.sqrt(np.maximum(missed, 0)) if m < len(center) else 0
        return seen


def view_bytes(m: int, d: int) -> int:
    """Return the bytes of finding the view of a sample (m, d), which is not counted: copies of it, and its axes.

    Those are eigenvectors, what LAPACK works in, and factors of QR: 52 is measured, at d from 1500 to 8000.
    """
    return 24 * m * d + 52 * min(m, d) * d


def _usual(sample: np.ndarray) -> np.ndarray:
    """Return which rows (m, d) of a sample are no farther from its median than `FAR` times nine in ten of them."""
    middle, squared = np.median(sample, axis=0).astype(np.float64), np.empty(len(sample))
    for start, stop in row_ranges(len(sample), BLOCK_ROWS):
        centered = sample[start:stop] - middle
        squared[start:stop] = np.einsum("ij,ij->i", centered, centered)
    limit = FAR**2 * np.quantile(squared, 0.9)
    return squared <= (limit if limit > 0 else np.inf)


def _near_directions(sample: np.ndarray) -> np.ndarray:
    """Return the directions (q, d), of length 1 or of copies 0, from some rows of a sample to the nearest other."""
    queries, directions = sample_ids(len(sample), NEAR_SAMPLE), []
    centered = sample - sample.mean(axis=0, dtype=np.float64)
    norms = np.einsum("ij,ij->i", centered, centered)
    for start, stop in row_ranges(len(queries), NEAR_ROWS):
        some = queries[start:stop]
        squared = norms - 2 * (centered[some] @ centered.T)
        squared[np.arange(len(some)), some] = np.inf
        difference = centered[squared.argmin(axis=1)] - centered[some]
        length = np.sqrt(np.einsum("ij,ij->i", difference, difference))[:, None]
        directions.append(difference / np.where(length > 0, length, 1))
    return np.concatenate(directions)


def far_rows(seen: np.ndarray) -> np.ndarray:
    """Return which rows of coordinates (n, a) are so far away that float32 does not tell their neighbors apart."""
    return np.einsum("ij,ij->i", seen, seen, dtype=np.float64) > FAR_LENGTH**2


@dataclass(frozen=True)
class Cells:
    """Centers (m, a) of cells, and the leaf (m,) of each."""

    centers: np.ndarray
    leaf: np.ndarray

    @property
    def leaves(self) -> int:
        """Return the number of leaves."""
        return int(self.leaf.max()) + 1

    def homes(self, seen: np.ndarray) -> np.ndarray:
        """Return the home (n,) of rows of coordinates."""
        return np.concatenate([self.leaf[squared.argmin(axis=1)] for _, squared in self._distances(seen)]
                              or [np.zeros(0, np.int64)])

    def members(self, seen: np.ndarray, most: int, reach: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the pairs of a row and a leaf that it belongs to, as two arrays (p,), and which of them are homes.

        That is its home, and up to most - 1 leaves that have a cell within `reach` times the distance of the nearest.
        """
        pairs = []
        for first, squared in self._distances(seen):
            rows, leaves, home = _members(squared, self.leaf, self.leaves, most, np.float32(reach * reach))
            pairs.append((rows + np.int32(first), leaves, home))
        rows, leaves, home = (np.concatenate(arrays) for arrays in zip(*pairs, strict=True))
        return rows, leaves, home

    def _distances(self, seen: np.ndarray) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the squared distances of blocks of rows to all centers, with the number of the first row."""
        height, norms = max(64, PRODUCT_BYTES // (4 * len(self.centers))), (self.centers**2).sum(axis=1)
        for first in range(0, max(len(seen), 1), height):
            block = seen[first:first + height]
            squared = block @ (-2 * self.centers.T)
            squared += norms
            squared += (block**2).sum(axis=1)[:, None]
            yield first, np.maximum(squared, 0, out=squared)


@njit(nogil=True, cache=True)
def _members(squared, leaf, n_leaves, most, reach):
    rows = np.empty(squared.shape[0] * most, np.int32)
    leaves, home = np.empty(len(rows), np.int32), np.empty(len(rows), np.uint8)
    nearest = np.empty(n_leaves, np.float32)
    count = 0
    for row in range(squared.shape[0]):
        nearest[:] = np.inf
        for cell in range(leaf.shape[0]):
            nearest[leaf[cell]] = min(nearest[leaf[cell]], squared[row, cell])
        limit = np.float32(np.inf)
        for turn in range(min(most, n_leaves)):
            best = np.argmin(nearest)
            if not nearest[best] <= limit:
                break
            if turn == 0:
                limit = nearest[best] * reach
            rows[count], leaves[count], home[count] = row, best, turn == 0
            nearest[best] = np.inf
            count += 1
    return rows[:count], leaves[:count].copy(), home[:count].copy()


def fit_centers(seen: np.ndarray, n_cells: int, rng: np.random.Generator) -> np.ndarray:
    """Return the centers (m, a) of at most `n_cells` cells: a few steps of Lloyd from random rows of a sample."""
    centers = seen[np.sort(rng.choice(len(seen), min(n_cells, len(seen)), replace=False))]
    for _ in range(LLOYD_STEPS):
        cells = Cells(centers, np.arange(len(centers)))
        homes = cells.homes(seen)
        order, counts = np.argsort(homes, kind="stable"), np.bincount(homes, minlength=len(centers))
        full = np.flatnonzero(counts)
        sums = np.add.reduceat(seen[order].astype(np.float64), (np.cumsum(counts) - counts)[full], axis=0)
        centers = (sums / counts[full, None]).astype(np.float32)  # a cell that nobody is nearest to is left out
    return centers


def pack(centers: np.ndarray, weights: np.ndarray, n_leaves: int, rng: np.random.Generator | None) -> np.ndarray:
    """Return the leaf (m,) of each cell: halves of nearly equal weight along the widest axis, halved again.

    Axes are those of the coordinates, or of a random rotation of them by `rng`. Centers beyond length 1, of rows far
    beyond the others, count as if they were 1 long.
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
        left = count // 2
        share = np.cumsum(weights[cells]) / weights[cells].sum()
        at = int(np.abs(share - left / count).argmin()) + 1
        at = min(max(at, left), len(cells) - (count - left))  # each leaf has a cell
        pending += [(cells[:at], first, left), (cells[at:], first + left, count - left)]
    return leaf


def fit_cells(seen: np.ndarray, n_leaves: int, rng: np.random.Generator, rotated: bool = False) -> Cells:
    """Return cells in `n_leaves` leaves of nearly equally many rows of a sample (m, a) of coordinates.

    rotated : leaves divide along random axes, and so otherwise than leaves that are not.
    """
    n_cells = min(MOST_CELLS, CELLS_OF_A_LEAF * n_leaves, max(n_leaves, len(seen) // 8))
    seen = seen[sample_ids(len(seen), max(SAMPLE_OF_A_CELL * n_cells, SAMPLE_OF_A_CELL))]
    centers = fit_centers(seen, max(n_cells, n_leaves), rng) if n_leaves > 1 else seen[:1]
    cells = Cells(centers, np.arange(len(centers)))
    weights = np.bincount(cells.homes(seen), minlength=len(centers)) + 1e-3
    return Cells(centers, pack(centers, weights, min(n_leaves, len(centers)), rng if rotated else None))

"""A partition of points into overlapping leaves: k-means cells, grouped into leaves of neighboring cells.

A row belongs to the leaf of its nearest cell, its home, and to other leaves that have a cell hardly farther away. So a
row near the border of its leaf is searched on both sides, and a row in the middle of a leaf only once. The partition is
fitted to a sample.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from ...storage.blocks import row_ranges
from ..exact.layout import SAMPLE_ROWS, Frame, principal_frame, project
from ..metric import sample_ids

CELLS_PER_LEAF, MAX_CELLS, SAMPLE_PER_CELL = 64, 2048, 32
LLOYD_STEPS = 5
NEAR_SAMPLE, NEAR_ROWS = 256, 32  # rows of a sample whose nearest neighbor is searched, and rows of one product
OUTLIER_RATIO = 16.0  # times the distance from the median that nine in ten rows keep; rows beyond do not enter the axes
OUTLIER_LENGTH = 1024.0  # where the length of the farthest usual row is 1/2 to 1: (1024 + x)^2 is known to x = 6e-5
MAX_LENGTH = 1e15  # upper bound of a coordinate, where the farthest usual row has 1: squares fit float32
PRODUCT_BYTES, BLOCK_ROWS = 1 << 20, 1024


@dataclass(frozen=True)
class Projection:
    """A projection of rows to coordinates (n, a) float32: principal axes, and the length of the residual.

    Distances between coordinates are at most `scale` times those between rows, and nearly equal to them.
    """

    frame: Frame
    scale: float

    @classmethod
    def of(cls, sample: np.ndarray) -> "Projection":
        """Return the projection to the principal axes of a sample (m, d) of rows.

        The axes also explain the differences between near rows, since the search compares near rows by them. (In
        clusters whose centers hold most of the variance, the leading axes alone may miss a tenth of the distances
        within a cluster.) Outliers are dropped first: they would dominate the center, the axes and the scale.
        """
        usual = sample[sample_ids(len(sample), SAMPLE_ROWS)]
        usual = usual[_usual(usual)]
        frame = principal_frame(usual, _near_directions(usual))
        return cls(frame, project(usual, frame).scale)

    @property
    def axes(self) -> int:
        """Return the number of coordinates."""
        return self.frame.basis.shape[1] + 1

    def coordinates(self, rows: np.ndarray) -> np.ndarray:
        """Return the coordinates (n, a) of rows (n, d); float32 products suffice, since candidates are measured later.

        Rows so far away that their squares would overflow are clipped.
        """
        center, m = self.frame.center, self.frame.basis.shape[1]
        basis, coordinates = self.frame.basis.astype(np.float32), np.empty((len(rows), m + 1), np.float32)
        for start, stop in row_ranges(len(rows), BLOCK_ROWS):
            centered = (rows[start:stop] - center) * self.scale
            np.clip(centered, -MAX_LENGTH, MAX_LENGTH, out=centered)
            coordinates[start:stop, :m] = centered.astype(np.float32) @ basis
            projected = coordinates[start:stop, :m].astype(np.float64)
            residual = np.einsum("ij,ij->i", centered, centered) - np.einsum("ij,ij->i", projected, projected)
            coordinates[start:stop, m] = np.sqrt(np.maximum(residual, 0)) if m < len(center) else 0
        return coordinates


def projection_bytes(m: int, d: int) -> int:
    """Return the bytes of fitting the projection of a sample (m, d), beside the sample: copies of it, and its axes.

    The axes take eigenvectors, LAPACK work space and QR factors; the factor 52 was measured at d from 1500 to 8000.
    """
    return 24 * m * d + 52 * min(m, d) * d


def _usual(sample: np.ndarray) -> np.ndarray:
    """Return which rows (m, d) of a sample are no outliers: see `OUTLIER_RATIO`."""
    middle, squared = np.median(sample, axis=0).astype(np.float64), np.empty(len(sample))
    for start, stop in row_ranges(len(sample), BLOCK_ROWS):
        centered = sample[start:stop] - middle
        squared[start:stop] = np.einsum("ij,ij->i", centered, centered)
    limit = OUTLIER_RATIO**2 * np.quantile(squared, 0.9)
    return squared <= (limit if limit > 0 else np.inf)


def _near_directions(sample: np.ndarray) -> np.ndarray:
    """Return the unit directions (q, d) from some rows of a sample to their nearest neighbor; 0 for duplicates."""
    queries, directions = sample_ids(len(sample), NEAR_SAMPLE), []
    centered = sample - sample.mean(axis=0, dtype=np.float64)
    norms = np.einsum("ij,ij->i", centered, centered)
    for start, stop in row_ranges(len(queries), NEAR_ROWS):
        block_ids = queries[start:stop]
        squared = norms - 2 * (centered[block_ids] @ centered.T)
        squared[np.arange(len(block_ids)), block_ids] = np.inf
        difference = centered[squared.argmin(axis=1)] - centered[block_ids]
        length = np.sqrt(np.einsum("ij,ij->i", difference, difference))[:, None]
        directions.append(difference / np.where(length > 0, length, 1))
    return np.concatenate(directions)


def outlier_rows(coordinates: np.ndarray) -> np.ndarray:
    """Return which rows of coordinates (n, a) are outliers, whose neighbors float32 cannot tell apart."""
    return np.einsum("ij,ij->i", coordinates, coordinates, dtype=np.float64) > OUTLIER_LENGTH**2


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

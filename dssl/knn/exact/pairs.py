"""Exact search by the formula of a `PairMetric`: all pairs of a tile of queries and a block of points."""

from dataclasses import dataclass

import numpy as np
from numba import njit

from ...base.types import Matrix
from ...storage.blocks import Rows, row_ranges, rows_that_fit
from ..metric import AnyMetric, measurable, measured_itemsize, pair_metric_of
from ..squared_distances import empty_heaps, put, sort_heaps

QUERY_TILE, POINT_TILE = 128, 1024  # rows of a matrix of distances
# Measured on one core, in nanoseconds: a pair of dense rows beside its columns, a pair of sparse rows, and each of its
# entries.
PAIR_NS, SPARSE_PAIR_NS, SPARSE_ENTRY_NS = 10.0, 50.0, 9.0


@dataclass(frozen=True)
class PairPoints:
    """Dense or sparse points to search, read in blocks."""

    rows: Rows
    metric: AnyMetric
    block_rows: int
    search = "pairs"
    shared_bytes = 0  # of a layout of all points that is made once

    @property
    def pair_ns(self) -> float:
        """Return the nanoseconds of a pair on one core."""
        return pair_ns(self.rows, self.metric)

    def peak_bytes(self, height: int, k: int) -> int:
        """Return the bytes of `height` queries with their heaps, a block of points, and a tile."""
        row_bytes = pair_row_bytes(self.rows, self.metric)
        block = min(self.block_rows, len(self.rows))
        return height * (row_bytes + 16 * k) + block * row_bytes + pair_tile_bytes(self.rows)

    def lowest_peak_bytes(self, k: int) -> int:
        """Return what a task takes, however small the blocks."""
        return pair_row_bytes(self.rows, self.metric) + 16 * k

    def sampling_bytes(self) -> int:
        """Return 0: seconds follow from the shape."""
        return 0

    def nearest(self, queries: Matrix, query_ids: np.ndarray, k: int,
                within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances and ids (q, k) of the points nearest to rows, ascending by (distance, id).

        within : as in `DensePoints.nearest`.
        """
        rule = pair_metric_of(self.metric)
        assert rule is not None
        queries = measurable(queries, self.metric)
        distances, ids = empty_heaps(queries.shape[0], k, within)
        for first, block in self.rows.blocks(self.block_rows):
            points = measurable(block, self.metric)
            for low, high in row_ranges(points.shape[0], POINT_TILE):
                tile = points[low:high]
                for start, stop in row_ranges(queries.shape[0], QUERY_TILE):
                    squared = rule.between(queries[start:stop], tile)
                    np.square(squared, out=squared)
                    _offer_all(squared, first + low, query_ids[start:stop], distances[start:stop], ids[start:stop])
        sort_heaps(distances, ids)
        return distances, ids


@njit(nogil=True, cache=True)
def _offer_all(squared, first, query_ids, distances, ids):
    """Put points from number `first` on at squared distances (q, m) on the heaps of queries that are other rows."""
    for row in range(squared.shape[0]):
        for other in range(squared.shape[1]):
            if squared[row, other] <= distances[row, 0] and first + other != query_ids[row]:
                put(squared[row, other], first + other, distances[row], ids[row])


def pair_points(rows: Rows, metric: AnyMetric, budget: int) -> PairPoints:
    """Return points in blocks that fill at most a quarter of the budget."""
    return PairPoints(rows, metric, rows_that_fit(budget, pair_row_bytes(rows, metric), len(rows), share=4))


def pair_row_bytes(X: Rows, metric: AnyMetric) -> int:
    """Return the bytes of a row: as read, and in the type in which it is measured."""
    if X.is_sparse:
        return 2 * X.row_bytes + 8 * (X.row_bytes // (X.dtype.itemsize + 4) + 1)
    return X.shape[1] * (X.dtype.itemsize + measured_itemsize(X.dtype, metric))


def pair_tile_bytes(X: Rows) -> int:
    """Return the bytes of a tile: two matrices of distances, and both sides in float64."""
    row_bytes = 2 * X.row_bytes if X.is_sparse else 8 * X.shape[1]
    return 16 * QUERY_TILE * POINT_TILE + (QUERY_TILE + POINT_TILE) * row_bytes


def pair_ns(X: Rows, metric: AnyMetric) -> float:
    """Return the nanoseconds of a pair of rows of the shape and dtype of X on one core."""
    if X.is_sparse:
        return SPARSE_PAIR_NS + SPARSE_ENTRY_NS * 2 * X.row_bytes / (X.dtype.itemsize + 4)
    rule = pair_metric_of(metric)
    assert rule is not None
    return PAIR_NS + rule.column_ns * X.shape[1]

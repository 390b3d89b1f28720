"""Exact neighbors of sparse rows, by an inverted index.

Points are searched in tiles, whose rows are listed by column. A query adds its products with the rows of its columns
into one array of float64, so only shared columns cost time. Columns of more than a fifth of a tile's rows are
multiplied as dense matrices instead. With e entries in the longest row, the resulting squared distance is off by less
than

    (3 e + 34) 2^-52 (|x|^2 + |z|^2):

e for lengths and product, and 2 e + 2 for the measured distance, whose 2 e terms are at most twice these lengths. Pairs
that are farther than the k-th neighbor by more than this are ruled out; the others are measured
(`squared_distances.py`). If all values are integers whose sums stay below 2^53, nothing is rounded, and the first
distance is final.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from ...base.types import Matrix
from ...storage.blocks import Rows, row_ranges, rows_that_fit
from ...storage.csr import add_products, squared_lengths
from ..metric import AnyMetric, measurable, metric_of, sample_ids
from ..squared_distances import empty_heaps, put, sift_down, sort_heaps, sparse_squared_distance

QUERY_TILE, POINT_TILE = 64, 2048
HEAD_SHARE, MAX_HEADS = 0.2, 256  # of a tile's rows, above which a column is multiplied densely; most such columns
SAMPLE_ROWS = 8192
MAX_BLOCK_BYTES = 64 << 20
# Measured on one core, in nanoseconds: a pair of rows, a product of entries, a dense product of one column, and an
# entry of a measured pair, of which there are about 3 k a query.
PAIR_NS, ENTRY_NS, HEAD_NS, MEASURED_NS = 1.2, 1.2, 0.06, 20.0


@njit(nogil=True, cache=True)
def measure_near(products, first_query, query_ids, query_indptr, query_columns, query_values, query_lengths,
                 first_point, points_indptr, points_columns, points_values, point_lengths, slack, bounds, distances,
                 ids):
    """Update the heaps of a tile of queries with a tile of points, given their rounded products (q, p).

    bounds : (queries, k), heaps of upper bounds of the k smallest squared distances.
    slack : relative rounding error of the products; 0 if they are exact.
    """
    n_points, k = products.shape[1], bounds.shape[1]
    flags = np.zeros(-(-n_points // 8) * 8, np.uint8)
    words = flags.view(np.uint64)
    candidates = np.empty(n_points, np.int64)
    lowest = np.empty(n_points)
    unused = np.zeros(k, np.int64)
    for offset in range(products.shape[0]):
        query = first_query + offset
        line, bound, query_id = products[offset], bounds[query], query_ids[query]
        length, count = query_lengths[query], 0
        for point in range(n_points):
            lowest[point] = (length + point_lengths[point]) * (1 - slack) - 2 * line[point]
        limit = bound[0]
        for point in range(n_points):
            flags[point] = lowest[point] <= limit
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for point in range(8 * word, 8 * word + 8):
                if flags[point] == 0 or lowest[point] > bound[0] or first_point + point == query_id:
                    continue
                if slack == 0:
                    if put(lowest[point], np.int64(first_point + point), distances[query], ids[query]):
                        bound[0] = distances[query, 0]
                    continue
                candidates[count] = point
                count += 1
                highest = lowest[point] + 2 * slack * (length + point_lengths[point])
                if highest < bound[0]:
                    bound[0] = highest
                    sift_down(bound, unused, 0, k)
        x = slice(query_indptr[query], query_indptr[query + 1])
        for point in candidates[:count]:
            if lowest[point] > bound[0]:
                continue
            z = slice(points_indptr[point], points_indptr[point + 1])
            distance = sparse_squared_distance(query_columns[x], query_values[x], points_columns[z], points_values[z])
            put(distance, np.int64(first_point + point), distances[query], ids[query])


def head_columns(rows: sparse.csr_array) -> np.ndarray:
    """Return the columns of a tile that are multiplied densely; see `HEAD_SHARE`."""
    counts = np.bincount(rows.indices, minlength=rows.shape[1])
    heads = np.flatnonzero(counts > HEAD_SHARE * rows.shape[0])
    return heads if len(heads) <= MAX_HEADS else np.sort(heads[np.argsort(-counts[heads], kind="stable")[:MAX_HEADS]])


def drop_columns(rows: sparse.csr_array, columns: np.ndarray) -> sparse.csc_array:
    """Return sparse rows by column (CSC), without some columns."""
    tail = rows.copy()
    if len(columns):
        tail.data[np.isin(rows.indices, columns)] = 0
        tail.eliminate_zeros()
    return tail.tocsc()


def nothing_is_rounded(rows: sparse.csr_array) -> bool:
    """Return whether all values (float64) are integers so small that no sum over two rows is rounded."""
    largest = float(np.abs(rows.data).max(initial=0))
    return 4 * largest**2 * rows.shape[1] < 2.0**53 and bool((rows.data == np.rint(rows.data)).all())


class Queries:
    """Queries with their heaps; `offer` takes the points in the order of their ids.

    Peak memory in bytes: the rows, 24 k a row, and a tile of 8 QUERY_TILE POINT_TILE with its rows three times.
    """

    def __init__(self, rows: sparse.csr_array, ids: np.ndarray, k: int, within: np.ndarray | None = None):
        rows = rows.astype(np.float64, copy=False)
        self.rows, self.ids, self.k = rows, np.asarray(ids, np.int64), k
        self.lengths = squared_lengths(rows)
        self.distances, self.neighbor_ids = empty_heaps(rows.shape[0], k, within)
        self.bounds = self.distances.copy()
        self.whole = nothing_is_rounded(rows)
        self.longest = int(np.diff(rows.indptr).max(initial=0))

    def offer(self, first: int, points: sparse.csr_array) -> None:
        """Offer sparse points with numbers first, first + 1, ..."""
        points = points.astype(np.float64, copy=False)
        for start, stop in row_ranges(points.shape[0], POINT_TILE):
            self._offer_tile(first + start, points[start:stop])

    def _offer_tile(self, first: int, points: sparse.csr_array) -> None:
        exact = self.whole and nothing_is_rounded(points)
        longest = max(self.longest, int(np.diff(points.indptr).max(initial=0)))
        slack = 0.0 if exact else (3 * longest + 34) * 2.0**-52
        heads, lengths = head_columns(points), squared_lengths(points)
        tail, query_heads, point_heads = (drop_columns(points, heads), self.rows[:, heads].toarray(),
                                          points[:, heads].toarray())
        work = np.empty((min(QUERY_TILE, self.rows.shape[0]), points.shape[0]))
        for start in range(0, self.rows.shape[0], QUERY_TILE):
            tile_heads = query_heads[start:start + QUERY_TILE]
            products = np.dot(tile_heads, point_heads.T, out=work[:len(tile_heads)])
            add_products(self.rows.indptr[start:start + len(tile_heads) + 1], self.rows.indices, self.rows.data,
                         tail.indptr, tail.indices, tail.data, products)
            measure_near(
                products, start, self.ids, self.rows.indptr, self.rows.indices, self.rows.data, self.lengths, first,
                points.indptr, points.indices, points.data, lengths, slack, self.bounds, self.distances,
                self.neighbor_ids)

    def nearest(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances and ids (q, k) of the nearest points so far, ascending by (distance, id)."""
        sort_heaps(self.distances, self.neighbor_ids)
        return self.distances, self.neighbor_ids


@dataclass(frozen=True)
class SparsePoints:
    """Sparse points to search, read in blocks."""

    rows: Rows
    metric: AnyMetric
    block_rows: int
    search = "inverted index"
    shared_bytes = 0  # of a layout of all points that is made once
    pair_ns = 0.0  # seconds follow from the values, see `inverted_seconds`

    def peak_bytes(self, height: int, k: int) -> int:
        """Return the bytes of `height` queries with their heaps, a block of points, and a tile."""
        row_bytes = measured_row_bytes(self.rows, self.metric)
        return (height * (row_bytes + 40 * k) + min(self.block_rows, len(self.rows)) * row_bytes
                + tile_bytes(self.rows))

    def lowest_peak_bytes(self, k: int) -> int:
        """Return what a task takes, however small the blocks."""
        return measured_row_bytes(self.rows, self.metric) + 40 * k + tile_bytes(self.rows)

    def sampling_bytes(self) -> int:
        """Return the bytes of a sample of rows, by which seconds are predicted."""
        n, d = self.rows.shape
        return min(n, SAMPLE_ROWS) * self.rows.row_bytes * 3 + 24 * d

    def nearest(self, queries: Matrix, query_ids: np.ndarray, k: int,
                within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances and ids (q, k) of the points nearest to rows, ascending by (distance, id).

        within : as in `DensePoints.nearest`.
        """
        nearest = Queries(measurable(queries, self.metric), query_ids, k, within)
        for first, block in self.rows.blocks(self.block_rows):
            nearest.offer(first, measurable(block, self.metric))
        return nearest.nearest()


def measured_row_bytes(X: Rows, metric: AnyMetric) -> int:
    """Return the bytes of a sparse row during a search: as read, transformed by the metric, and in float64."""
    entries = X.row_bytes // (X.dtype.itemsize + 4) + 1
    return 2 * X.row_bytes + 12 * entries * (1 + metric_of(metric).transforms) + 8


def point_rows(X: Rows, metric: AnyMetric, budget: int) -> int:
    """Return the rows of points that a task reads at a time, whole parts where X is stored in parts."""
    per_row = measured_row_bytes(X, metric)
    fit = rows_that_fit(budget, per_row, len(X), share=4)
    fit = min(fit, max(POINT_TILE, MAX_BLOCK_BYTES // per_row))
    part = getattr(X, "block_rows", 1)
    return max(1, fit // part) * part if part <= fit else fit


def tile_bytes(X: Rows) -> int:
    """Return the bytes of a tile: the products, its rows by row and by column, its heads, and those of the queries."""
    points = min(POINT_TILE, len(X))
    return 8 * QUERY_TILE * points + 3 * points * (X.row_bytes + 8 * 32) + 16 * X.shape[1]


def inverted_seconds(X: Rows, k: int) -> float:
    """Return the predicted seconds of the search on one core, from the counts of each column in a sample of rows."""
    n = len(X)
    sample: Any = X.take(sample_ids(n, SAMPLE_ROWS))
    share = np.bincount(sample.indices, minlength=X.shape[1]) / sample.shape[0]
    entry = np.minimum(ENTRY_NS * share**2, np.where(share > HEAD_SHARE, HEAD_NS, np.inf))
    entries = sample.nnz / sample.shape[0]
    return (float(n) * n * (PAIR_NS + float(entry.sum())) + 3.0 * n * k * 2 * entries * MEASURED_NS) * 1e-9

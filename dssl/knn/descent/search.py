"""Approximate neighbors by NN-descent of rows that fit one task: local joins, then exact distances of the candidates.

A search is one task that uses all threads of its process; the result does not depend on their number. Joins measure
pairs by float32 coordinates, by the entries of sparse rows, or by the compiled function of a metric that is a formula
of two rows; candidates are then measured again as the exact search measures them.

Reference: Dong, Moses, Li, "Efficient k-nearest neighbor graph construction for generic similarity measures", WWW 2011.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ...execution.cost import Cost, cost_of
from ...storage.blocks import Arrays, PartWriter, Receipt, Rows, block_rng, row_ranges
from ...storage.csr import as_rows
from ..exact.blocks import points_in_blocks
from ..exact.inverted_index import measured_row_bytes
from ..exact.pairs import pair_ns
from ..metric import (
    Euclidean,
    candidate_squares,
    measurable,
    measured_by,
    measured_itemsize,
    metric_of,
    pair_metric_of,
    sample_ids,
    stored_distances,
)
from ..pair_distances import AXES, Coordinates, MetricPoints, Points, SparsePoints, axes_bytes
from ..projection import Projection, max_coordinates, outlier_rows, projection_bytes
from ..recall import is_true, recall_of, truth_cost
from .local_joins import CANDIDATES, MAX_CANDIDATES, all_of, cuts, in_memory_bytes, nearest_in_memory

MIN_EXTRA, EXTRA_SHARE = 5, 4  # additional candidates a row, at least 5 or k / 4, since float32 coordinates are rounded
# Factor of the additional candidates, and candidates of a join; tried in turn.
WIDTHS = ((1, CANDIDATES), (4, MAX_CANDIDATES))
FRAME_ROWS = 2048  # rows of the sample whose principal axes are used
COORDINATE_ROWS = 1 << 12  # rows that a thread projects at a time
# Points at a time, and sample of the axes, where missing neighbors are searched exactly.
FILL_ROWS, FILL_SAMPLE = 1 << 14, 512
# Measured on one core, in nanoseconds: of a row and candidate, and of each coordinate, or each entry of a sparse row.
ROW_NS, AXIS_NS, ENTRY_NS = 1500.0, 10.0, 140.0
ENTRY_PAIRS = 60  # pairs that are measured for a row and candidate, of a metric that is a formula of two rows


def descend(rows: np.ndarray | sparse.csr_array, k: int, *, random_state: int, threads: int = 1,
            wider: int = 0, metric: str = Euclidean.name) -> tuple[np.ndarray, np.ndarray, int]:
    """Return squared distances (n, k) float64 and ids (n, k), ascending by (distance, id), and the rows filled exactly.

    Parameters
    ----------
    rows : ndarray (n, d), or sparse; `descent_cost` states the memory beside them.
    k : number of neighbors of a row, itself not counted.
    threads : number of threads; the neighbor lists do not depend on it.
    wider : index of `WIDTHS`.
    metric : of the rows as they are, see `measured_by`.
    """
    n, rng, (extra_factor, max_candidates) = rows.shape[0], block_rng(random_state, wider), WIDTHS[wider]
    with ThreadPoolExecutor(threads) as pool:
        points, is_outlier = _search_points(rows, rng, pool, metric)
        n_entries = min(n - 1, k + extra_factor * extra_of(k))
        _, candidates = nearest_in_memory(points, n_entries, rng, max_candidates, threads)
        del points
        candidates.sort(axis=1)  # shorter lists begin with -1
        nearest = pool.map(lambda span: _measured(rows, candidates, k, metric, *span), cuts(n, threads))
        distances, ids = (np.concatenate(arrays) for arrays in zip(*nearest, strict=True))
    short = np.flatnonzero(np.isinf(distances[:, -1]) | is_outlier)
    if len(short):
        searched = points_in_blocks(as_rows(rows), metric, FILL_ROWS, rows[sample_ids(n, FILL_SAMPLE)])
        distances[short], ids[short] = searched.nearest(rows[short], short, k)
    return distances, ids, len(short)


def _search_points(rows: np.ndarray | sparse.csr_array, rng: np.random.Generator, pool: ThreadPoolExecutor,
                   metric: str) -> tuple[Points, np.ndarray]:
    """Return the points of the joins, and which rows are outliers, whose neighbors float32 cannot tell apart."""
    rule, is_outlier = pair_metric_of(metric), np.zeros(rows.shape[0], bool)
    if sparse.issparse(rows):
        points = SparsePoints.of(rows, rng)
        if rule is None:
            return points, is_outlier
        return MetricPoints(rows, rule.compiled_sparse(rows.shape[1]), points.axes), is_outlier
    projection = Projection.of(rows[sample_ids(len(rows), FRAME_ROWS)], rng)
    width = projection.axes if rule is None else min(AXES, projection.axes)  # trees alone use those of a formula
    coordinates = np.empty((len(rows), width), np.float32)

    def write_block(block: tuple[int, int]) -> None:
        coordinates[slice(*block)] = projection.coordinates(rows[slice(*block)])[:, :width]

    all_of(pool.map(write_block, row_ranges(len(rows), COORDINATE_ROWS)))
    if rule is not None:
        return MetricPoints(rows, rule.compiled(), coordinates), is_outlier
    return Coordinates(coordinates), outlier_rows(coordinates)


def _measured(rows: np.ndarray | sparse.csr_array, candidates: np.ndarray, k: int, metric: str, start: int,
              stop: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the k nearest of the candidates (n, c) of rows [start, stop), sorted, by (distance, id)."""
    row_candidates = candidates[start:stop].astype(np.int64)
    distances = candidate_squares(rows[start:stop], rows, row_candidates, metric)
    order = np.argsort(distances, axis=1, kind="stable")[:, :k]  # ids ascend, and break ties
    return np.take_along_axis(distances, order, axis=1), np.take_along_axis(row_candidates, order, axis=1)


@dataclass(frozen=True)
class DescentTask:
    """Search all rows at once, and write the neighbor lists in blocks of `block_rows`.

    truth : numbers `ids` (q,) of sampled rows, and the squared distances `kth` (q, 1) of their true k-th neighbors.
    recall : the recall to certify on the sample; if it is not reached, the search is repeated once with longer lists.
    """

    rows: Rows
    k: int
    metric: str
    random_state: int
    threads: int
    block_rows: int
    truth: Arrays
    recall: float

    def __call__(self, out: PartWriter) -> Receipt:
        rows, truth = measurable(self.rows.read_all(), self.metric), self.truth.load()
        for wider in range(len(WIDTHS)):
            distances, ids, filled = descend(rows, self.k, random_state=self.random_state, threads=self.threads,
                                             wider=wider, metric=measured_by(self.metric))
            recall = recall_of(is_true(distances[truth["ids"]], truth["kth"]), self.random_state)
            if recall["lower"] >= self.recall:
                break
        for start, stop in row_ranges(len(distances), self.block_rows):
            out.write_rows(start, ids=ids[start:stop], distances=stored_distances(distances[start:stop]))
        return {"filled_exactly": filled, "recall": recall, "searches": wider + 1}


def descent_seconds(X: Rows, k: int, metric: str = Euclidean.name) -> float:
    """Return the predicted seconds of NN-descent on one core, for k neighbors and `extra_of(k)` more candidates."""
    if metric_of(metric).by_pairs:
        pair = ENTRY_PAIRS * pair_ns(X, metric)
    else:
        pair = ENTRY_NS * X.row_bytes / (X.dtype.itemsize + 4) if X.is_sparse else AXIS_NS * max_coordinates(X.shape[1])
    return len(X) * (k + extra_of(k)) * (ROW_NS + pair) * 1e-9


def descent_cost(X: Rows, k: int, metric: str, budget: int) -> Cost:
    """Return what NN-descent takes for rows of the shape and dtype of X, which are not read.

    Peak memory: all rows, transformed by the metric; their coordinates in two orders and the joins, or the lists while
    they are measured. Before that a sample in float64, or the transformation of sparse rows, and the axes. A task of
    the certificate takes up to half of the budget. The lower bound is the first search; if it misses too many
    neighbors, the wider search runs beside its lists.
    """
    (n, d), first, last = X.shape, k + extra_of(k), k + WIDTHS[-1][0] * extra_of(k)
    itemsize, by_pairs = measured_itemsize(X.dtype, metric), metric_of(metric).by_pairs
    if X.is_sparse:
        entries = X.row_bytes // (X.dtype.itemsize + 4) + 1
        rows, coordinates = n * (entries * (itemsize + 4) + 8) + axes_bytes(d), 12 * entries + 8 * AXES + 24
        preparing = n * measured_row_bytes(X, metric)
        if by_pairs:
            coordinates += entries * (itemsize + 4) + 8  # the rows in the order of the leaves
    elif by_pairs:
        rows, preparing = n * d * itemsize, projection_bytes(min(n, FRAME_ROWS), d)
        coordinates = d * itemsize + 8 * min(AXES, max_coordinates(d))
    else:
        rows, coordinates, preparing = n * d * itemsize, 8 * max_coordinates(d), projection_bytes(min(n, FRAME_ROWS), d)
    peak, lower = (rows + max(n * max(coordinates + in_memory_bytes(width), 48 * width) + lists_bytes, preparing)
                   for width, lists_bytes in ((last, 16 * n * k), (first, 0)))
    return truth_cost(X, metric, k, budget) + cost_of(1, 2 * n * X.row_bytes, 12 * n * k, peak, lower,
                                                      descent_seconds(X, k, metric))


def extra_of(k: int) -> int:
    """Return the number of additional candidates that a row keeps in the first search."""
    return max(MIN_EXTRA, k // EXTRA_SHARE)

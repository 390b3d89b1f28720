"""Approximate neighbors by NN-descent of rows that fit one task: local joins, then exact distances of the candidates.

A search is one task that uses all threads of its process; the result does not depend on their number. Joins measure
pairs by float32 coordinates, by the entries of sparse rows, or by the compiled function of a metric that is a formula
of two rows; candidates are then measured again as the exact search measures them.

Reference: Dong, Moses, Li, "Efficient k-nearest neighbor graph construction for generic similarity measures", WWW 2011.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from ...base.digest import JsonObject
from ...base.types import Matrix
from ...execution.cost import Cost, cost_of
from ...storage.blocks import Arrays, PartWriter, Receipt, Rows, block_rng, row_ranges
from ...storage.csr import as_rows
from ..exact.blocks import points_in_blocks
from ..exact.inverted_index import measured_row_bytes
from ..exact.pairs import pair_ns
from ..metric import (
    AnyMetric,
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
from ..recall import Recall, is_true, recall_of, truth_cost
from .local_joins import CANDIDATES, MAX_CANDIDATES, all_of, cuts, in_memory_bytes, nearest_in_memory

MIN_EXTRA, EXTRA_SHARE = 5, 4  # additional candidates a row, at least 5 or k / 4, since float32 coordinates are rounded
MAX_FACTOR = 6  # of the additional candidates in the longest lists
# Neighbors are missed about as often as 1 / entries; of embeddings with 150 effective dimensions 23 % with 15 entries,
# 13 % with 25 and 7 % with 40. So lists grow by the ratio of the missed neighbors to the allowed ones, and by MARGIN.
MARGIN = 1.5
EASY = 0.97  # where coordinates list less than this share of the near rows first, the longest lists are tried at once
SEARCH_POINTS = 3  # random stream, beside those of the searches
FRAME_ROWS = 2048  # rows of the sample whose principal axes are used
COORDINATE_ROWS = 1 << 12  # rows that a thread projects at a time
# Points at a time, and sample of the axes, where missing neighbors are searched exactly.
FILL_ROWS, FILL_SAMPLE = 1 << 14, 512
# Measured on one core, in nanoseconds: of a row and candidate, and of each coordinate, or each entry of a sparse row.
ROW_NS, AXIS_NS, ENTRY_NS = 1500.0, 10.0, 140.0
ENTRY_PAIRS = 60  # pairs that are measured for a row and candidate, of a metric that is a formula of two rows


def descend(rows: Matrix, k: int, *, random_state: int, threads: int = 1,
            missed: Callable[[np.ndarray], float] = lambda distances: 0.0,
            metric: AnyMetric = Euclidean.name, repeats: bool = True) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Return squared distances (n, k) float64 and ids (n, k), ascending by (distance, id), of each row.

    With them, the number of rows that were searched exactly, and that of the searches.

    rows : ndarray (n, d), or sparse; `descent_cost` states the memory beside them.
    k : number of neighbors of a row, itself not counted.
    threads : number of threads; the neighbor lists do not depend on it.
    missed : how many neighbors lists with these distances miss, relative to those that they may miss; above 1 the
        search is repeated with longer lists, at last with the longest.
    metric : of the rows as they are, see `measured_by`.
    repeats : False for one search with the shortest lists, whatever it misses.
    """
    with ThreadPoolExecutor(threads) as pool:
        points, is_outlier, is_easy = _search_points(rows, block_rng(random_state, SEARCH_POINTS), pool, metric)
    longest, searches = k + MAX_FACTOR * extra_of(k), 1
    entries = k + extra_of(k) if is_easy or not repeats else longest
    distances, ids, filled = _searched(rows, points, is_outlier, k, entries, block_rng(random_state, 0), threads,
                                       metric)
    while repeats and (ratio := missed(distances)) > 1 and entries < longest:
        entries = min(longest, int(MARGIN * ratio * entries)) if searches == 1 else longest
        distances, ids, filled = _searched(rows, points, is_outlier, k, entries, block_rng(random_state, searches),
                                           threads, metric)
        searches += 1
    return distances, ids, filled, searches


def _searched(rows: Matrix, points: Points, is_outlier: np.ndarray, k: int, entries: int,
              rng: np.random.Generator, threads: int, metric: AnyMetric) -> tuple[np.ndarray, np.ndarray, int]:
    """Return the lists of a search with lists of so many entries, and the number of rows that were searched exactly."""
    n, max_candidates = rows.shape[0], CANDIDATES if entries == k + extra_of(k) else MAX_CANDIDATES
    _, candidates = nearest_in_memory(points, min(n - 1, entries), rng, max_candidates, threads)
    candidates.sort(axis=1)  # shorter lists begin with -1
    with ThreadPoolExecutor(threads) as pool:
        nearest = pool.map(lambda span: _measured(rows, candidates, k, metric, *span), cuts(n, threads))
        distances, ids = (np.concatenate(arrays) for arrays in zip(*nearest, strict=True))
    short = np.flatnonzero(np.isinf(distances[:, -1]) | is_outlier)
    if len(short):
        exact = points_in_blocks(as_rows(rows), metric, FILL_ROWS, rows[sample_ids(n, FILL_SAMPLE)])
        distances[short], ids[short] = exact.nearest(rows[short], short, k)
    return distances, ids, len(short)


def _search_points(rows: Matrix, rng: np.random.Generator, pool: ThreadPoolExecutor,
                   metric: AnyMetric) -> tuple[Points, np.ndarray, bool]:
    """Return the points of the joins, which rows are outliers, whose neighbors float32 cannot tell apart, and `EASY`.
    """
    rule, is_outlier = pair_metric_of(metric), np.zeros(rows.shape[0], bool)
    if sparse.issparse(rows):
        points = SparsePoints.of(rows, rng)
        if rule is None:
            return points, is_outlier, True
        return MetricPoints(rows, rule.compiled_sparse(rows.shape[1]), points.axes), is_outlier, True
    projection = Projection.of(rows[sample_ids(len(rows), FRAME_ROWS)], rng)
    width = projection.axes if rule is None else min(AXES, projection.axes)  # trees alone use those of a formula
    coordinates = np.empty((len(rows), width), np.float32)

    def write_block(block: tuple[int, int]) -> None:
        coordinates[slice(*block)] = projection.coordinates(rows[slice(*block)])[:, :width]

    all_of(pool.map(write_block, row_ranges(len(rows), COORDINATE_ROWS)))
    if rule is not None:
        return MetricPoints(rows, rule.compiled(), coordinates), is_outlier, True
    return Coordinates(coordinates), outlier_rows(coordinates), projection.listed >= EASY


def _measured(rows: Matrix, candidates: np.ndarray, k: int, metric: AnyMetric, start: int,
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
    recall : the recall to certify on the sample; if it is not reached, the search is repeated with longer lists, unless
        `repeats` is False.
    """

    rows: Rows
    k: int
    metric: AnyMetric
    random_state: int
    threads: int
    block_rows: int
    truth: Arrays
    recall: float
    repeats: bool = True

    def __call__(self, out: PartWriter) -> Receipt:
        rows, truth = measurable(self.rows.read_all(), self.metric), self.truth.load()

        def recall_at(distances: np.ndarray) -> Recall:
            return recall_of(is_true(distances[truth["ids"]], truth["kth"]), self.random_state)

        distances, ids, filled, searches = descend(
            rows, self.k, random_state=self.random_state, threads=self.threads, metric=measured_by(self.metric),
            repeats=self.repeats, missed=lambda distances: (1 - recall_at(distances)["lower"]) / (1 - self.recall))
        for start, stop in row_ranges(len(distances), self.block_rows):
            out.write_rows(start, ids=ids[start:stop], distances=stored_distances(distances[start:stop]))
        return {"filled_exactly": filled, "recall": recall_at(distances), "searches": searches}

    @staticmethod
    def described(receipt: Receipt) -> JsonObject:
        """Return what the receipt says of the lists; JSON."""
        return {name: receipt[name] for name in ("filled_exactly", "searches", "recall")}


def descent_seconds(X: Rows, k: int, metric: AnyMetric = Euclidean.name) -> float:
    """Return the predicted seconds of NN-descent on one core, for k neighbors and `extra_of(k)` more candidates."""
    if metric_of(metric).by_pairs:
        pair = ENTRY_PAIRS * pair_ns(X, metric)
    else:
        pair = ENTRY_NS * X.row_bytes / (X.dtype.itemsize + 4) if X.is_sparse else AXIS_NS * max_coordinates(X.shape[1])
    return len(X) * (k + extra_of(k)) * (ROW_NS + pair) * 1e-9


def descent_cost(X: Rows, k: int, metric: AnyMetric, budget: int) -> Cost:
    """Return what NN-descent takes for rows of the shape and dtype of X, which are not read.

    Peak memory: all rows, transformed by the metric; their coordinates in two orders and the joins, or once and the
    lists while they are measured. Before that a sample in float64, or the transformation of sparse rows, and the axes.
    A task of the certificate takes up to half of the budget. The lower bound is the first search; if it misses too many
    neighbors, the wider search runs beside its lists.
    """
    (n, d), first, last = X.shape, k + extra_of(k), k + MAX_FACTOR * extra_of(k)
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

    def peak_of(width: int, lists_bytes: int) -> int:
        searching, measuring = coordinates + in_memory_bytes(width), coordinates // 2 + 48 * width
        return rows + max(n * max(searching, measuring) + lists_bytes, preparing)

    peak, lower = peak_of(last, 16 * n * k), peak_of(first, 0)
    return truth_cost(X, metric, k, budget) + cost_of(1, 2 * n * X.row_bytes, 12 * n * k, peak, lower,
                                                      descent_seconds(X, k, metric))


def extra_of(k: int) -> int:
    """Return the number of additional candidates that a row keeps in the first search."""
    return max(MIN_EXTRA, k // EXTRA_SHARE)

"""Sizes of the tasks of a partitioned search that fit the budget, and formulas of its memory and seconds."""

from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from ...base.errors import BudgetError, require
from ...execution.cost import FLOP_RATE, Cost, block_count, bucket_requests, cost_of
from ...storage.blocks import Rows, rows_that_fit
from ..descent.local_joins import CANDIDATES, MAX_CANDIDATES, in_memory_bytes
from ..exact.blocks import TILE_PAIR_NS
from ..exact.layout import MAX_AXES
from ..exact.layout import SAMPLE_ROWS as FRAME_ROWS
from ..metric import AnyMetric, measured_itemsize
from ..projection import max_coordinates, projection_bytes
from ..recall import truth_cost, truth_row_bytes, truth_rows
from .partitions import PRODUCT_BYTES
from .tasks import DRAWN, SENT


@dataclass(frozen=True)
class Round:
    """How widely a round of the search looks.

    max_leaves, distance_ratio : as of `Partition.members`.
    candidates : of a row in a join within a leaf.
    extra : additional entries of a list, until distances are measured.
    """

    max_leaves: int
    distance_ratio: float
    candidates: int
    extra: int


EXTRA, MAX_EXTRA = 6, 24
LEAF_ROWS, MAX_TASKS = 1 << 14, 16  # up to MAX_TASKS leaves of at least LEAF_ROWS rows, even if fewer would fit
# One after the other, until the recall is certified.
ROUNDS = Round(4, 1.15, CANDIDATES, EXTRA), Round(12, 1.6, MAX_CANDIDATES, MAX_EXTRA)
MAX_LEAVES, USUAL_LEAVES = max(one.max_leaves for one in ROUNDS), 1.5  # of a row; usual in the first round
JOINS = 4  # upper bound of the joins of a round
LONGEST = 8  # times the seconds of the first round that a search takes at most
MAX_RANGE, MIN_RANGE = 1 << 16, 1024
MIN_CHUNK, MAX_CHUNK = 64, 4096  # rows of a chunk of permuted arrays
FILL_ROWS = 1 << 14  # upper bound of the rows that a few outliers are compared with at a time
SAMPLE_ROWS = 1 << 16
FILL_RATIO = 0.9  # of the rows that fit, since a sample estimates the rows of a leaf
IMBALANCE = 1.25  # rows of the largest leaf, relative to the mean
MIN_ROWS = 256  # of a range, a block or a leaf
MIN_BUDGET = 1 << 20
# Measured on one core: nanoseconds of a row and entry in the first round, and of each axis of it; of a row and of each
# axis of it in a join; of a pair in a scan, beside its product; of each column of a pair in an exact search; and of a
# row that is laid out, beside its projection.
ROW_NS, AXIS_NS, JOIN_NS, JOIN_AXIS_NS = 1900.0, 44.0, 3000.0, 25.0
SCAN_NS, COLUMN_NS, LAYOUT_NS = 1.0, 0.08, 1000.0


@dataclass(frozen=True)
class Sizes:
    """Rows of a range, of a block and of a leaf that fit a task.

    near_rows : rows in memory beside a block.
    fill_rows : rows that outliers are compared with at a time.
    """

    range_rows: int
    block_rows: int
    leaf_rows: int
    near_rows: int
    fill_rows: int


def range_row_bytes(row_bytes: int, axes: int, k: int) -> int:
    """Return the bytes of a row of a range: the row as read, transformed, projected and sorted; or its list.

    The row itself has `row_bytes` bytes. Its list is received, sorted and written.
    """
    return max(3 * row_bytes + 8 * axes + 24, 44 * k + 40)


def block_row_bytes(row_bytes: int, axes: int, entries: int) -> int:
    """Return the bytes of a row of a block, in the largest of its tasks.

    The tasks are: ordering; spreading to `MAX_LEAVES` leaves; merging its list with those of one leaf after the other;
    joining (candidates with their keys, and the sorted numbers of all of them, or the improvements); and measuring, or
    an exact search.
    Rows in a bucket count three times, since all rows of a block may be in the same bucket.
    """
    ordering, spreading = max(3 * row_bytes, 2 * row_bytes + 8 * axes), 16 * axes + 24 * MAX_LEAVES
    merging, joining = 72 * entries, 10 * entries + max(84 * DRAWN, 70 * SENT)
    searching = 2 * row_bytes + 12 * axes + 40 * entries
    return max(ordering, spreading, merging, joining, row_bytes + 48 * entries, searching) + 40


def leaf_row_bytes(axes: int, entries: int) -> int:
    """Return the bytes of a row of a leaf: its gathered coordinates and the search, or its list in a bucket."""
    return max(12 * axes + 24, 8 * axes + in_memory_bytes(entries), 32 * entries + 40)


def task_sizes(X: Rows, k: int, metric: AnyMetric, budget: int) -> Sizes:
    """Return the sizes of tasks for rows of the shape and dtype of X, which are not read.

    A range, a block or a leaf fits half of the budget, beside 1 MB of products (or an eighth of the budget). The rows
    near a block, with their coordinates and lists, or transformed by the metric, fit a quarter.
    """
    (n, d), itemsize = X.shape, measured_itemsize(X.dtype, metric)
    wide, entries, axes = d * itemsize, k + MAX_EXTRA, max_coordinates(d)
    fixed = min(PRODUCT_BYTES, budget // 8)

    def fit(row_bytes: int) -> int:
        rows = rows_that_fit(budget, row_bytes, n, fixed_bytes=fixed, share=2)
        require(rows >= min(n, MIN_ROWS), f"{rows} rows of {row_bytes:,} bytes fit a task", error=BudgetError,
                why=f"a task searches at least {MIN_ROWS} near rows together", fix="raise memory_budget to "
                f"{4 * MIN_ROWS * row_bytes:,} bytes, or lower the columns or the neighbors")
        return rows

    return Sizes(min(fit(range_row_bytes(wide, axes, k)), max(MIN_RANGE, min(MAX_RANGE, -(-n // MAX_TASKS)))),
                 fit(block_row_bytes(wide, axes, entries)), fit(leaf_row_bytes(axes, entries)),
                 rows_that_fit(budget, max(4 * axes + 9 * entries + 8, wide), n, share=4),
                 min(FILL_ROWS, rows_that_fit(budget, truth_row_bytes(d, itemsize), n, share=4)))


def fits_tasks(X: Rows, k: int, metric: AnyMetric, budget: int) -> bool:
    """Return whether tasks of a partitioned search fit the budget."""
    with suppress(BudgetError):
        return bool(task_sizes(X, k, metric, budget))
    return False


def min_leaves(n: int) -> int:
    """Return the lower bound of the number of leaves, so that several workers have some."""
    return max(1, min(MAX_TASKS, n // LEAF_ROWS))


def sample_rows(n: int, row_bytes: int, budget: int) -> int:
    """Return the rows of the sample, which takes a sixteenth of the budget."""
    return max(64, min(n, SAMPLE_ROWS, budget // (16 * row_bytes)))


def list_rows(X: Rows, k: int, metric: AnyMetric, budget: int) -> int:
    """Return the rows of a chunk of the lists."""
    return task_sizes(X, k, metric, budget).range_rows


def round_seconds(X: Rows, k: int, width: Round, leaves: float) -> float:
    """Return the predicted seconds on one core of a round that searches each row in so many leaves."""
    row = ROW_NS + AXIS_NS * max_coordinates(X.shape[1])
    return len(X) * (k + width.extra) * row * 1e-9 * leaves / USUAL_LEAVES


def partitioned_seconds(X: Rows, k: int) -> float:
    """Return the predicted seconds of a partitioned search of dense rows on one core that ends after its first round.
    """
    return round_seconds(X, k, ROUNDS[0], USUAL_LEAVES)


def join_seconds(X: Rows) -> float:
    """Return the predicted seconds of a join of all rows on one core."""
    return len(X) * (JOIN_NS + JOIN_AXIS_NS * max_coordinates(X.shape[1])) * 1e-9


def scan_seconds(X: Rows) -> float:
    """Return the predicted seconds of a scan of all pairs of rows by their coordinates on one core."""
    return float(len(X)) ** 2 * (SCAN_NS * 1e-9 + 2 * max_coordinates(X.shape[1]) / FLOP_RATE)


def exact_seconds(X: Rows, fill_rows: int) -> float:
    """Return the predicted seconds of an exact search of all rows, `fill_rows` at a time, on one core.

    Bounds rule out few pairs of rows that the rounds before could not search, so that all columns of many pairs are
    read. Each run of queries lays out the points again, which takes the projection to the axes.
    """
    n, d = X.shape
    laying_out = 4.0 * d * min(d, MAX_AXES) / FLOP_RATE + LAYOUT_NS * 1e-9
    return _pairs_seconds(X) + block_count(n, fill_rows) * n * laying_out


def exact_hours(X: Rows) -> float:
    """Return an upper bound of the hours of an exact search of all rows, laid out once, on one core."""
    return _pairs_seconds(X) / 3600


def _pairs_seconds(X: Rows) -> float:
    """Return the seconds of an exact search of rows of which bounds rule out few pairs."""
    n, d = X.shape
    return (TILE_PAIR_NS + COLUMN_NS * d) * 1e-9 * float(n) * n


def partitioned_cost(X: Rows, k: int, metric: AnyMetric, budget: int, rounds: int = len(ROUNDS)) -> Cost:
    """Return what a partitioned search takes for rows of the shape and dtype of X, which are not read.

    That is an upper bound, of `rounds` rounds with all of their joins and a scan, if the sizes of leaves are as a
    sample estimates them; with 1 it is the lower bound, of a round without a join, in the usual number of leaves. The
    seconds of the upper bound are what the search keeps to. The largest tasks are those of `task_sizes`, which hold a
    block, a leaf or a range, and those of the certificate. The driver holds the sample twice.
    """
    (n, d), itemsize, entries = X.shape, measured_itemsize(X.dtype, metric), k + MAX_EXTRA
    sizes, row_bytes, axes = task_sizes(X, k, metric, budget), d * itemsize, max_coordinates(d)
    height = truth_rows(X, metric, budget)
    blocks = max(min_leaves(n), block_count(n, max(1, int(FILL_RATIO * sizes.block_rows))))
    block = min(sizes.block_rows, IMBALANCE * n / blocks)
    ranges, nearby_rows = block_count(n, sizes.range_rows), min(sizes.near_rows, n)
    peak = max(sizes.range_rows * range_row_bytes(row_bytes, axes, k), block * block_row_bytes(row_bytes, axes, entries)
               + nearby_rows * max(4 * axes + 9 * entries + 8, row_bytes),
               height * truth_row_bytes(d, itemsize)) + PRODUCT_BYTES
    sample = projection_bytes(min(n, FRAME_ROWS), d) + 2 * sample_rows(n, row_bytes, budget) * (row_bytes + 4 * axes)
    cost = truth_cost(X, metric, k, budget) + cost_of(
        3 * ranges + 2 * blocks, n * (3 * X.row_bytes + 3 * row_bytes + 4 * axes + 24 * k),
        n * (2 * row_bytes + 4 * axes + 32 * k), max(peak, sample), sample_rows(n, row_bytes, MIN_BUDGET) * row_bytes,
        (1 if rounds == 1 else LONGEST) * partitioned_seconds(X, k), _requests(n, ranges, blocks))
    for width in ROUNDS[:rounds]:
        joins, max_leaves = (0, USUAL_LEAVES) if rounds == 1 else (JOINS, width.max_leaves)
        cost += _round_cost(n, sizes, blocks, axes, k + width.extra, joins, max_leaves)
    if rounds > 1 and scan_seconds(X) <= LONGEST * partitioned_seconds(X, k):
        cost += cost_of(2 * blocks, n * (4 * axes * (blocks + 2) + 17 * entries), n * 17 * entries, 0)
    return cost


def weighing_cost(X: Rows, k: int, metric: AnyMetric, budget: int) -> Cost:
    """Return what is done of a partitioned search until an exact one is taken: its sample and its certificate."""
    n, row_bytes = len(X), X.shape[1] * measured_itemsize(X.dtype, metric)
    rows = task_sizes(X, k, metric, budget).range_rows
    sample = sample_rows(n, row_bytes, budget) * row_bytes
    return truth_cost(X, metric, k, budget) + cost_of(
        block_count(n, rows), n * X.row_bytes, sample, max(rows * (X.row_bytes + row_bytes), 2 * sample), 2 * sample)


def _round_cost(n: int, sizes: Sizes, blocks: int, axes: int, entries: int, joins: int, max_leaves: float) -> Cost:
    """Return what a round takes that searches each row in at most so many leaves."""
    leaves = max(min_leaves(n), block_count(int(max_leaves * n), max(1, int(FILL_RATIO * sizes.leaf_rows))))
    members = min(max_leaves, leaves) * n
    leaf = min(sizes.leaf_rows, IMBALANCE * members / leaves)
    chunks = block_count(n, ordered_chunk_rows(n, blocks))
    spread, lists = members * (4 * axes + 8), members * (8 * entries + 5)
    join = n * (9 * entries + 5 * entries + 13 * SENT)  # lists, reverse neighbors, improvements
    return cost_of(2 * blocks + leaves + 2 * blocks * joins,
                   n * 4 * axes + spread + lists + n * 9 * entries + joins * (2 * join + n * 4 * axes),
                   spread + lists + n * 14 * entries + joins * (join + n * 10 * entries),
                   leaf * leaf_row_bytes(axes, entries) + PRODUCT_BYTES,
                   extra_requests=12 * chunks + joins * chunks * (14 + 6 * blocks) + bucket_requests(
                       (blocks, leaves), (leaves, blocks), *[(blocks, blocks)] * (2 * joins)))


def ordered_chunk_rows(n: int, blocks: int) -> int:
    """Return the rows of a chunk of permuted arrays with this number of blocks."""
    return min(MAX_CHUNK, max(MIN_CHUNK, 2 ** int(np.log2(max(1, n // blocks // 8)))))


def _requests(n: int, ranges: int, blocks: int) -> int:
    """Return an upper bound of the requests of a search beside those of its tasks and rounds.

    They read and write buckets, and chunks of permuted arrays: rows, coordinates and numbers are written and read by
    block, and the rows near a block may lie in any chunk of the two arrays that are measured. (With 250,000 points of
    ten 10-dimensional manifolds a block read 84 % of the chunks.)
    """
    chunks = block_count(n, ordered_chunk_rows(n, blocks))
    return chunks * (6 + 2 * blocks) + bucket_requests((ranges, blocks), (blocks, ranges))

"""Sizes of the tasks of a partitioned search that fit the budget, and formulas of its memory and seconds."""

from dataclasses import dataclass

import numpy as np

from ...base.errors import BudgetError, require
from ...execution.cost import Cost, block_count, bucket_requests, cost_of
from ...storage.blocks import Rows, rows_that_fit
from ..descent.local_joins import CANDIDATES, MAX_CANDIDATES, in_memory_bytes
from ..exact.layout import MAX_AXES
from ..exact.layout import SAMPLE_ROWS as FRAME_ROWS
from ..metric import measured_itemsize
from ..recall import truth_row_bytes, truth_rows
from .join_tasks import DRAWN, SENT
from .partitions import PRODUCT_BYTES, projection_bytes

# Upper bound of the leaves of a row, ratio of their distance to that of its home, and candidates of a join in a leaf;
# tried one after the other.
OVERLAPS = ((4, 1.15, CANDIDATES), (12, 1.6, MAX_CANDIDATES))
MAX_LEAVES = max(most for most, _, _ in OVERLAPS)
EXTRA = 6  # additional entries of a list, until distances are measured
LEAF_ROWS, MAX_TASKS = 1 << 14, 16  # up to MAX_TASKS leaves of at least LEAF_ROWS rows, even if fewer would fit
MAX_RANGE, MIN_RANGE = 1 << 16, 1024
MIN_CHUNK, MAX_CHUNK = 64, 4096  # rows of a chunk of permuted arrays
# Permuted arrays: rows, coordinates, numbers; three of each of three merges, one of each of two joins.
PERMUTED_ARRAYS = 14
FILL_ROWS = 1 << 14  # upper bound of the rows that a few outliers are compared with at a time
SAMPLE_ROWS = 1 << 16
FILL_RATIO = 0.9  # of the rows that fit, since a sample estimates the rows of a leaf
IMBALANCE = 1.25  # rows of the largest leaf, relative to the mean
MIN_ROWS = 256  # of a range, a block or a leaf
MIN_BUDGET = 1 << 20
ROW_NS, AXIS_NS = 1900.0, 44.0  # measured on one core: nanoseconds of a row and entry, and of each axis of it


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
    joining (candidates with their keys, and the sorted numbers of all of them, or the improvements); and measuring.
    Rows in a bucket count three times, since all rows of a block may be in the same bucket.
    """
    ordering, spreading = max(3 * row_bytes, 2 * row_bytes + 8 * axes), 16 * axes + 24 * MAX_LEAVES
    merging, joining = 72 * entries, 10 * entries + max(84 * DRAWN, 70 * SENT)
    return max(ordering, spreading, merging, joining, row_bytes + 48 * entries) + 40


def leaf_row_bytes(axes: int, entries: int) -> int:
    """Return the bytes of a row of a leaf: its gathered coordinates and the search, or its list in a bucket."""
    return max(12 * axes + 24, 8 * axes + in_memory_bytes(entries), 32 * entries + 40)


def task_sizes(n: int, d: int, itemsize: int, k: int, budget: int) -> Sizes:
    """Return the sizes of tasks whose rows have d columns of `itemsize` bytes.

    A range, a block or a leaf fits half of the budget, beside 1 MB of products (or an eighth of the budget). The rows
    near a block, with their coordinates and lists, or transformed by the metric, fit a quarter.
    """
    wide, entries, axes = d * itemsize, k + EXTRA, min(d, MAX_AXES) + 1
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


def min_leaves(n: int) -> int:
    """Return the lower bound of the number of leaves, so that several workers have some."""
    return max(1, min(MAX_TASKS, n // LEAF_ROWS))


def sample_rows(n: int, row_bytes: int, budget: int) -> int:
    """Return the rows of the sample, which takes a sixteenth of the budget."""
    return max(64, min(n, SAMPLE_ROWS, budget // (16 * row_bytes)))


def list_rows(X: Rows, k: int, metric: str, budget: int) -> int:
    """Return the rows of a chunk of the lists."""
    return task_sizes(len(X), X.shape[1], measured_itemsize(X.dtype, metric), k, budget).range_rows


def partitioned_seconds(X: Rows, k: int) -> float:
    """Return the predicted seconds of a partitioned search of dense rows on one core."""
    return len(X) * (k + EXTRA) * (ROW_NS + AXIS_NS * (min(X.shape[1], MAX_AXES) + 1)) * 1e-9


def partitioned_cost(X: Rows, k: int, metric: str, budget: int) -> Cost:
    """Return what a partitioned search takes for rows of the shape and dtype of X, which are not read.

    Two joins, and two leaves a row, are assumed. The largest tasks are those of `task_sizes`, which hold a block, a
    leaf or a range, and those of the certificate (`truth_rows`). The driver holds the sample twice.
    """
    (n, d), itemsize, entries = X.shape, measured_itemsize(X.dtype, metric), k + EXTRA
    sizes, row_bytes, axes = task_sizes(n, d, itemsize, k, budget), d * itemsize, min(d, MAX_AXES) + 1
    leaf_floor, height = min_leaves(n), truth_rows(X, metric, budget)
    blocks = max(leaf_floor, block_count(n, max(1, int(FILL_RATIO * sizes.block_rows))))
    block = min(sizes.block_rows, IMBALANCE * n / blocks)
    leaves = max(leaf_floor, block_count(2 * n, max(1, int(FILL_RATIO * sizes.leaf_rows))))
    leaf = min(sizes.leaf_rows, IMBALANCE * 2 * n / leaves)
    ranges = block_count(n, sizes.range_rows)
    nearby_rows = min(sizes.near_rows, n)
    peak = max(sizes.range_rows * range_row_bytes(row_bytes, axes, k), block * block_row_bytes(row_bytes, axes, entries)
               + nearby_rows * max(4 * axes + 9 * entries + 8, row_bytes), leaf * leaf_row_bytes(axes, entries),
               height * truth_row_bytes(d, itemsize)) + PRODUCT_BYTES
    sample = projection_bytes(min(n, FRAME_ROWS), d) + 2 * sample_rows(n, row_bytes, budget) * (row_bytes + 4 * axes)
    read = n * (3 * X.row_bytes + 4 * row_bytes + 30 * axes + 60 * entries)
    written = n * (2 * row_bytes + 12 * axes + 60 * entries + 40 * k)
    return cost_of(3 * ranges + 8 * blocks + leaves + block_count(n, height), read, written,
                    max(peak, sample), sample_rows(n, row_bytes, MIN_BUDGET) * row_bytes, partitioned_seconds(X, k),
                    extra_requests=_requests(n, ranges, blocks, leaves))


def ordered_chunk_rows(n: int, blocks: int) -> int:
    """Return the rows of a chunk of permuted arrays with this number of blocks."""
    return min(MAX_CHUNK, max(MIN_CHUNK, 2 ** int(np.log2(max(1, n // blocks // 8)))))


def _requests(n: int, ranges: int, blocks: int, leaves: int) -> int:
    """Return an upper bound of the requests of a search with two joins, beside those of its tasks.

    They read and write buckets, and chunks of permuted arrays. Each of `PERMUTED_ARRAYS` arrays is written and read by
    block, and the rows near a block may lie in any chunk: of two arrays when they are measured, of three in each join.
    (With 250,000 points of ten 10-dimensional manifolds a block read 84 % of the chunks.)
    """
    chunks = block_count(n, ordered_chunk_rows(n, blocks))
    nearby_rows = blocks * chunks * (2 + 2 * 3)
    return nearby_rows + 2 * PERMUTED_ARRAYS * chunks + bucket_requests(
        (ranges, blocks), (blocks, ranges), (blocks, leaves), (leaves, blocks), *[(blocks, blocks)] * 4)

"""What fits the tasks of a partitioned search, and what it costs: memory and seconds as formulas of its parameters."""

from dataclasses import dataclass

import numpy as np

from ...base.errors import BudgetError, require
from ...execution.cost import Cost, block_count, bucket_requests, cost_of
from ...storage.blocks import Rows, rows_that_fit
from ..descent.local_joins import CANDIDATES, MOST_CANDIDATES, in_memory_bytes
from ..exact.layout import MAX_AXES
from ..exact.layout import SAMPLE_ROWS as FRAME_ROWS
from ..metric import measured_itemsize
from ..recall import truth_row_bytes, truth_rows
from .join_tasks import DRAWN, SENT
from .partitions import PRODUCT_BYTES, view_bytes

# (leaves a row may belong to, how much farther than its home they may be, candidates of a join in a leaf), tried one
# after the other
OVERLAPS = ((4, 1.15, CANDIDATES), (12, 1.6, MOST_CANDIDATES))
MOST_LEAVES = max(most for most, _, _ in OVERLAPS)
EXTRA = 6  # entries of lists beyond k, until they are measured
LEAF_ROWS, MOST_TASKS = 1 << 14, 16  # more leaves than the budget asks for, up to so many, if they keep so many rows
MOST_RANGE, LEAST_RANGE = 1 << 16, 1024
LEAST_CHUNK, MOST_CHUNK = 64, 4096  # rows of a chunk of what is stored by place
BY_PLACE = 14  # arrays by place: rows, coordinates, numbers; of three merges three arrays, of two joins one
FILL_ROWS = 1 << 14  # most rows of all that a few are sought among at a time
SAMPLE_ROWS = 1 << 16
FULL = 0.9  # of the rows that fit, where a leaf's rows are known by a sample
UNEVEN = 1.25  # times the mean, of the rows of the largest leaf
LEAST_ROWS = 256  # of a range, a block or a leaf
LEAST_BUDGET = 1 << 20
ROW_NS, AXIS_NS = 1900.0, 44.0  # measured on one core: nanoseconds of a row and entry, and of each axis of it


@dataclass(frozen=True)
class Sizes:
    """What fits a task: rows of a range, of a block, of a leaf, and of what is held beside a block.

    near_rows : rows near a block. fill_rows : rows of all that a few are sought among.
    """

    range_rows: int
    block_rows: int
    leaf_rows: int
    near_rows: int
    fill_rows: int


def range_row_bytes(wide: int, axes: int, k: int) -> int:
    """Return the bytes of a row of a range, itself of `wide` bytes: read, measured, seen, and sorted by block; or its
    list as it comes, in order, and as it is written."""
    return max(3 * wide + 8 * axes + 24, 44 * k + 40)


def block_row_bytes(wide: int, axes: int, entries: int) -> int:
    """Return the bytes of a row of a block, in the largest of its tasks.

    It is put into order; spread to as many leaves as it may belong to; its list merged with those of one leaf after the
    other; joined: its candidates with their keys, and the sorted numbers of all of them, or what is found; or measured.
    What goes to a bucket, or comes from one, is there three times, since all of a block may be in the same.
    """
    ordered, spread = max(3 * wide, 2 * wide + 8 * axes), 16 * axes + 24 * MOST_LEAVES
    merged, joined = 72 * entries, 10 * entries + max(84 * DRAWN, 70 * SENT)
    return max(ordered, spread, merged, joined, wide + 48 * entries) + 40


def leaf_row_bytes(axes: int, entries: int) -> int:
    """Return the bytes of a row of a leaf: its coordinates, gathered, and what the search takes beside them; or its
    list, which goes to a bucket."""
    return max(12 * axes + 24, 8 * axes + in_memory_bytes(entries), 32 * entries + 40)


def task_sizes(n: int, d: int, itemsize: int, k: int, budget: int) -> Sizes:
    """Return the sizes of tasks whose rows have d columns of `itemsize` bytes.

    Beside 1 MB of products, or an eighth of the budget, a range, a block or a leaf fits half of the budget, and rows
    near a block, with their coordinates and lists or as they are measured, a quarter.
    """
    wide, entries, axes = d * itemsize, k + EXTRA, min(d, MAX_AXES) + 1
    fixed = min(PRODUCT_BYTES, budget // 8)

    def fit(row_bytes: int) -> int:
        rows = rows_that_fit(budget, row_bytes, n, fixed_bytes=fixed, share=2)
        require(rows >= min(n, LEAST_ROWS), f"{rows} rows of {row_bytes:,} bytes fit a task", error=BudgetError,
                why=f"near rows are searched together, {LEAST_ROWS} or more", fix="raise memory_budget to "
                f"{4 * LEAST_ROWS * row_bytes:,} bytes, or lower the columns or the neighbors")
        return rows

    return Sizes(min(fit(range_row_bytes(wide, axes, k)), max(LEAST_RANGE, min(MOST_RANGE, -(-n // MOST_TASKS)))),
                 fit(block_row_bytes(wide, axes, entries)), fit(leaf_row_bytes(axes, entries)),
                 rows_that_fit(budget, max(4 * axes + 9 * entries + 8, wide), n, share=4),
                 min(FILL_ROWS, rows_that_fit(budget, truth_row_bytes(d, itemsize), n, share=4)))


def least_leaves(n: int) -> int:
    """Return the leaves that are made even where fewer would fit, so that workers share them."""
    return max(1, min(MOST_TASKS, n // LEAF_ROWS))


def sample_rows(n: int, wide: int, budget: int) -> int:
    """Return the rows of the sample: they take a sixteenth of the budget."""
    return max(64, min(n, SAMPLE_ROWS, budget // (16 * wide)))


def list_rows(X: Rows, k: int, metric: str, budget: int) -> int:
    """Return the rows of a chunk of the lists."""
    return task_sizes(len(X), X.shape[1], measured_itemsize(X.dtype, metric), k, budget).range_rows


def partitioned_seconds(X: Rows, k: int) -> float:
    """Return the predicted seconds of a partitioned search of dense rows on one core."""
    return len(X) * (k + EXTRA) * (ROW_NS + AXIS_NS * (min(X.shape[1], MAX_AXES) + 1)) * 1e-9


def partitioned_cost(X: Rows, k: int, metric: str, budget: int) -> Cost:
    """Return what a partitioned search takes for rows of the shape and dtype of X, which are not read.

    Two rounds of joins, and rows that are in two leaves each. The largest tasks are those of `task_sizes` that hold a
    block, a leaf or a range, and those of the certificate (`truth_rows`); in the driver, a sample twice.
    """
    (n, d), itemsize, entries = X.shape, measured_itemsize(X.dtype, metric), k + EXTRA
    sizes, wide, axes = task_sizes(n, d, itemsize, k, budget), d * itemsize, min(d, MAX_AXES) + 1
    least, height = least_leaves(n), truth_rows(X, metric, budget)
    blocks = max(least, block_count(n, max(1, int(FULL * sizes.block_rows))))
    block = min(sizes.block_rows, UNEVEN * n / blocks)
    leaves = max(least, block_count(2 * n, max(1, int(FULL * sizes.leaf_rows))))
    leaf = min(sizes.leaf_rows, UNEVEN * 2 * n / leaves)
    ranges = block_count(n, sizes.range_rows)
    near = min(sizes.near_rows, n)
    peak = max(sizes.range_rows * range_row_bytes(wide, axes, k), block * block_row_bytes(wide, axes, entries)
               + near * max(4 * axes + 9 * entries + 8, wide), leaf * leaf_row_bytes(axes, entries),
               height * truth_row_bytes(d, itemsize)) + PRODUCT_BYTES
    sample = view_bytes(min(n, FRAME_ROWS), d) + 2 * sample_rows(n, wide, budget) * (wide + 4 * axes)
    read = n * (3 * X.row_bytes + 4 * wide + 30 * axes + 60 * entries)
    written = n * (2 * wide + 12 * axes + 60 * entries + 40 * k)
    return cost_of(3 * ranges + 8 * blocks + leaves + block_count(n, height), read, written,
                   max(peak, sample), sample_rows(n, wide, LEAST_BUDGET) * wide, partitioned_seconds(X, k),
                   asked=_requests(n, ranges, blocks, leaves))


def chunk_rows_by_place(n: int, blocks: int) -> int:
    """Return the rows of a chunk of what is stored by place, of rows in so many blocks."""
    return min(MOST_CHUNK, max(LEAST_CHUNK, 2 ** int(np.log2(max(1, n // blocks // 8)))))


def _requests(n: int, ranges: int, blocks: int, leaves: int) -> int:
    """Return the most requests of a search with two joins beside those of its tasks.

    Buckets; and chunks by place. Each is written and read in its block, `BY_PLACE` arrays of them, and near rows of a
    block may lie in any chunk: of two arrays as they are measured, of three in each join. Of 250,000 points of ten
    manifolds of ten dimensions a block asked for 84 % of them.
    """
    chunks = block_count(n, chunk_rows_by_place(n, blocks))
    near = blocks * chunks * (2 + 2 * 3)
    return near + 2 * BY_PLACE * chunks + bucket_requests(
        (ranges, blocks), (blocks, ranges), (blocks, leaves), (leaves, blocks), *[(blocks, blocks)] * 4)

"""Exact neighbors of all rows: one task a block of rows, each searching all points.

Two searches give the same lists: a tree (`tree.py`), which looks at few points where the data have few effective
dimensions, and tiles (`tiles.py`), which look at all of them by matrix products. A count on sampled queries decides.

Points that fit half of the memory budget are laid out once and shared by the tasks. Larger ones are read in blocks
by every task, each block laid out on its own; the heaps carry over from block to block.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ..execution.cost import COMPILED, Cost, cost_of, count
from ..execution.tasks import Execution
from ..storage.blocks import Arrays, PartWriter, Receipt, Rows, rows_that_fit
from ..storage.store import whole_bytes
from .heap import empty_heaps, sort_heaps
from .inverted import InvertedPoints, InvertedTask, inverted_cost, inverted_seconds, point_rows, sparse_query_rows
from .layout import (
    MAX_AXES,
    SAMPLE_ROWS,
    Frame,
    Layout,
    bisect,
    lay_out,
    layout_bytes,
    principal_frame,
    project,
    tree_depth,
)
from .metric import measurable, measured_itemsize, stored_distances
from .tiles import POINT_TILE, QUERY_TILE, nearest_by_tiles
from .tree import nearest_by_tree

PILOT_QUERIES = 64
MOST_TASKS = 16
LEAST_BLOCK, MOST_BLOCK = 1024, 65536
# Measured on one core, nanoseconds: a query of the tree, a row or box that it looks at, and each axis of it; a pair of
# rows in tiles. A look costs twice as much where the coordinates of all points fill `FAR_BYTES`: caches hold no more.
TREE_QUERY_NS, TREE_VISIT_NS, TREE_AXIS_NS, TILE_PAIR_NS = 5000.0, 11.0, 0.6, 3.0
FAR_BYTES = 64 << 20


@dataclass(frozen=True)
class HeldPoints:
    """All points, laid out once."""

    arrays: Arrays

    def layouts(self) -> Iterator[Layout]:
        """Yield the one layout."""
        yield Layout(**self.arrays.load())


@dataclass(frozen=True)
class StreamedPoints:
    """All points, read and laid out block by block."""

    rows: Rows
    block_rows: int
    metric: str
    frame: Frame

    def layouts(self) -> Iterator[Layout]:
        """Yield the layout of each block."""
        for first, block in self.rows.blocks(self.block_rows):
            yield lay_out(measurable(block, self.metric), np.arange(first, first + len(block)), self.frame)


def nearest_in_layout(layout: Layout, queries: np.ndarray, query_ids: np.ndarray, distances: np.ndarray,
                      ids: np.ndarray, search: str) -> None:
    """Improve the heaps (q, k) of the queries (q, d) by the points of one layout; `search` is "tree" or "tiles"."""
    seen = project(queries, layout.frame, float(layout.scale))
    order = bisect(seen.lead[:, :-1], tree_depth(len(queries)))
    nearest = nearest_by_tree if search == "tree" else nearest_by_tiles
    nearest(layout, queries, query_ids, seen, order, distances, ids)


@dataclass(frozen=True)
class NearestTask:
    """Find the k nearest points of rows [start, stop) and write them to those rows of `ids` and `distances`."""

    rows: Rows
    points: HeldPoints | StreamedPoints
    start: int
    stop: int
    k: int
    metric: str
    search: str

    def __call__(self, out: PartWriter) -> Receipt:
        queries = measurable(self.rows.read(self.start, self.stop), self.metric)
        query_ids = np.arange(self.start, self.stop)
        distances, ids = empty_heaps(len(queries), self.k)
        for layout in self.points.layouts():
            nearest_in_layout(layout, queries, query_ids, distances, ids, self.search)
        sort_heaps(distances, ids)
        return out.write_rows(self.start, ids=ids, distances=stored_distances(distances))


@dataclass(frozen=True)
class ExactPlan:
    """What the tasks of an exact search share."""

    points: HeldPoints | StreamedPoints | InvertedPoints
    search: str
    seconds: float  # predicted, of one core


def sample_ids(n_rows: int, most: int) -> np.ndarray:
    """Return up to `most` row numbers, evenly spread."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, most)).astype(np.int64))


def exact_block_rows(X: Rows, k: int, metric: str, budget: int) -> int:
    """Return the rows of one task's block: `query_rows`, or for sparse rows what `sparse_query_rows` allows of it."""
    if not X.is_sparse:
        return query_rows(X.shape[0], X.shape[1], k, budget)
    n = len(X)
    return min(sparse_query_rows(X, k, metric, budget), max(LEAST_BLOCK, min(MOST_BLOCK, -(-n // MOST_TASKS))), n)


def query_rows(n_rows: int, n_columns: int, k: int, budget: int) -> int:
    """Return the rows of one task's block.

    A row takes 40 d bytes (itself and its coordinates, each twice) and 16 k for its heap, within a quarter of the
    budget, beside one tile of products. No more than `MOST_TASKS` tasks, unless their blocks grew too large.
    """
    fit = rows_that_fit(budget // 4, 40 * n_columns + 16 * k, n_rows, fixed_bytes=4 * QUERY_TILE * POINT_TILE)
    return min(fit, max(LEAST_BLOCK, min(MOST_BLOCK, -(-n_rows // MOST_TASKS))), n_rows)


def points_are_held(n_rows: int, n_columns: int, itemsize: int, budget: int) -> bool:
    """Return whether all points are laid out once: twice their layout fits half of the budget."""
    return 2 * layout_bytes(n_rows, n_columns, itemsize) <= budget // 2


def streamed_rows(n_rows: int, n_columns: int, itemsize: int, budget: int) -> int:
    """Return the rows of a block of points that a task reads and lays out: twice its layout fits a quarter."""
    return rows_that_fit(budget // 4, 2 * layout_bytes(1, n_columns, itemsize), n_rows)


def plan_exact(X: Rows, k: int, metric: str, execution: Execution) -> ExactPlan:
    """Lay the points out, if they fit, and choose the search that costs less.

    Peak memory: the layout, at most n (d itemsize + 4 (m + e + 3) + 24) bytes with m + e <= min(d, 192) axes, and
    once more while it is made; beyond half of the budget, blocks of points that fill a quarter of it. Sparse rows are
    not laid out: their tasks read blocks of them and search an inverted index (`inverted.py`).
    """
    if X.is_sparse:
        blocks = InvertedPoints(point_rows(X, metric, execution.memory_budget))
        return ExactPlan(blocks, "inverted index", inverted_seconds(X, k))
    n, d = X.shape
    frame = principal_frame(measurable(X.take(sample_ids(n, SAMPLE_ROWS)), metric))
    itemsize = measured_itemsize(X.dtype, metric)
    points: HeldPoints | StreamedPoints
    if points_are_held(n, d, itemsize, execution.memory_budget):
        layout = lay_out(measurable(X.read_all(), metric), np.arange(n), frame)
        scratch = execution.scratch()
        scratch.write(0, layout.arrays())
        points, copies = HeldPoints(scratch.arrays(0)), 1
    else:
        block_rows = streamed_rows(n, d, itemsize, execution.memory_budget)
        points, copies = StreamedPoints(X, block_rows, metric, frame), -(-n // block_rows)
        layout = next(points.layouts())
    pilot = sample_ids(n, PILOT_QUERIES)
    queries = measurable(X.take(pilot), metric)
    seen = project(queries, layout.frame, float(layout.scale))
    held = len(layout.ids)
    # A query stops at half of the points and counts as that: a few do, far from all others, among many that do not.
    visits = nearest_by_tree(layout, queries, pilot, seen, np.arange(len(pilot)), *empty_heaps(len(pilot), k),
                             most=held // 2 + 100)
    look = (TREE_VISIT_NS + TREE_AXIS_NS * layout.lead.shape[1]) * (1 + min(1.0, layout.lead.nbytes / FAR_BYTES))
    tree = (TREE_QUERY_NS + visits / len(pilot) * look) * 1e-9 * n * copies
    tiles = TILE_PAIR_NS * 1e-9 * float(n) * n
    return ExactPlan(points, "tree" if tree <= tiles else "tiles", min(tree, tiles))


def exact_tasks(X: Rows, plan: ExactPlan, k: int, metric: str, block_rows: int) -> list[NearestTask | InvertedTask]:
    """Return the tasks, one a block of rows."""
    n = len(X)
    if isinstance(plan.points, InvertedPoints):
        return [InvertedTask(X, start, min(start + block_rows, n), k, metric, plan.points.block_rows)
                for start in range(0, n, block_rows)]
    return [NearestTask(X, plan.points, start, min(start + block_rows, n), k, metric, plan.search)
            for start in range(0, n, block_rows)]


def exact_cost(X: Rows, k: int, metric: str, budget: int) -> Cost:
    """Return what an exact search takes for rows of the shape and dtype of X, which are not read.

    In the driver a sample in float64, then points beside their layout; in a task the layout and its queries.
    """
    (n, d), height = X.shape, exact_block_rows(X, k, metric, budget)
    if X.is_sparse:
        return inverted_cost(X, k, metric, height, budget)
    itemsize, axes = measured_itemsize(X.dtype, metric), min(d, MAX_AXES)
    sample = min(n, SAMPLE_ROWS) * d * (X.dtype.itemsize + 16 + 8 * (metric == "cosine")) + 24 * d * d
    held = points_are_held(n, d, itemsize, budget)
    block = n if held else streamed_rows(n, d, itemsize, budget)
    layout = layout_bytes(block, d, itemsize)
    laying_out = block * d * itemsize + max(layout + 4 * (axes + 3) * block, (8 + 4) * axes * block)
    queries = height * (d * itemsize + 12 * axes + 16 * k) + (4 << 20)
    search = layout + max(whole_bytes(layout), queries) if held else laying_out + queries
    tasks = count(n, height)
    return cost_of(tasks, n * X.row_bytes * (4 if held else 4 + tasks) + layout * held, 12 * n * k + layout * held,
                   max(sample, laying_out, search) + COMPILED, sample)

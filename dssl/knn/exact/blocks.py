"""Exact neighbors of all rows: one task a block of queries, each of which searches all points.

Two searches give the same neighbor lists (`tree.py`, `tiles.py`): a tree, which visits few points of data with few
effective dimensions, and tiles, which compare all pairs by matrix products. Visits counted on sampled queries decide,
and a trial of the tiles whether these are multiplied in all columns from the start.

If the layout of all points fits half of the memory budget, it is made once and shared by the tasks. Otherwise every
task reads the points in blocks, lays out each block, and carries the heaps over from block to block. Sparse rows have
no layout: tasks read blocks of them and search an inverted index (`inverted_index.py`). Nor have the rows of a metric
that is a formula of two rows: tasks read blocks of them and measure all pairs (`pairs.py`).

Among few points NumPy searches, since to compile the searches of many points, or to load them, takes longer. One matrix
product gives the squared distances of all pairs but for rounding. The pairs that may be among the k nearest are then
measured as in every other search, so that the lists are the same to the last bit. Work space: 8 bytes a value of the
points, and 40 a pair of `PAIRS_AT_ONCE`.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace

import numpy as np

from ...execution.cost import Cost, block_count, cost_of
from ...execution.tasks import BlockTasks, Execution
from ...storage.blocks import Arrays, HeldArrays, PartWriter, Receipt, Rows, rows_that_fit
from ...storage.store import whole_bytes
from ..metric import (
    AnyMetric,
    check_block,
    measurable,
    measured_itemsize,
    metric_of,
    sample_ids,
    stored_distances,
)
from ..squared_distances import EMPTY, empty_heaps, sort_heaps, squared_distances_of
from .inverted_index import (
    SparsePoints,
    inverted_seconds,
    measured_row_bytes,
    point_rows,
    tile_bytes,
)
from .layout import (
    MAX_AXES,
    SAMPLE_ROWS,
    Frame,
    Layout,
    bisect,
    lay_out,
    layout_bytes,
    median_row,
    principal_frame,
    project,
    tree_depth,
)
from .pairs import PairPoints, pair_ns, pair_points
from .tiles import POINT_TILE, QUERY_TILE, leading_suffice, nearest_by_tiles, products_bytes
from .tree import nearest_by_tree

PILOT_QUERIES = 64
MAX_TASKS = 16
MIN_BLOCK_ROWS, MAX_BLOCK_ROWS = 1024, 65536
# Measured on one core, in nanoseconds: a query of the tree, a visit of a row or box, and each axis of it; a pair of
# rows in tiles. A visit costs twice as much once the coordinates of all points exceed the caches (`CACHE_BYTES`).
TREE_QUERY_NS, TREE_VISIT_NS, TREE_AXIS_NS, TILE_PAIR_NS = 5000.0, 11.0, 0.6, 3.0
CACHE_BYTES = 64 << 20
FEW_SECONDS = 0.05  # of tiles, up to which no tree is tried: one saves less than its compilation takes
FEW_PAIRS, FEW_VALUES = 1 << 23, 1 << 18  # of queries with points, and of numbers in the points
PAIRS_AT_ONCE = 1 << 16


@dataclass(frozen=True)
class DensePoints:
    """Dense points to search, laid out once, or block by block during a search.

    held : the layout of all points, or the frame that blocks of `block_rows` are projected to.
    search : "tree", "tiles", or "products": tiles that are multiplied in all columns.
    """

    rows: Rows
    metric: AnyMetric
    block_rows: int
    held: Arrays | Frame
    search: str = "tiles"
    pair_ns = TILE_PAIR_NS

    @property
    def shared_bytes(self) -> int:
        """Return the bytes of a layout of all points that is made once; 0 where every task lays out their blocks."""
        n, d = self.rows.shape
        return 0 if self.block_rows < n else layout_bytes(n, d, measured_itemsize(self.rows.dtype, self.metric))

    def peak_bytes(self, height: int, k: int) -> int:
        """Return the peak of `height` queries and of laying out the points.

        That is the points beside their layout, or the layout beside its queries.
        """
        d = self.rows.shape[1]
        itemsize, axes, block = measured_itemsize(self.rows.dtype, self.metric), min(d, MAX_AXES), self.block_rows
        layout = layout_bytes(block, d, itemsize)
        laying_out = block * d * itemsize + max(layout + 4 * (axes + 3) * block, (8 + 4) * axes * block)
        queries = height * (d * itemsize + 12 * axes + 16 * k) + (2 << 20) + products_bytes(d) + 12 * block
        if block < len(self.rows):
            return laying_out + queries
        return max(laying_out, layout + max(int(whole_bytes(layout)), queries))

    def lowest_peak_bytes(self, k: int) -> int:
        """Return what a task takes, however small the blocks: next to nothing."""
        return 0

    def sampling_bytes(self) -> int:
        """Return the bytes of a sample of rows in float64 and of the frame fitted to it."""
        return sampling_bytes(self.rows, self.metric)

    def layouts(self) -> Iterator[Layout]:
        """Yield the layout of each block."""
        if isinstance(self.held, Arrays):
            yield Layout(**self.held.load())  # type: ignore[arg-type]
            return
        for first, block in self.rows.blocks(self.block_rows):
            yield lay_out(measurable(block, self.metric), np.arange(first, first + len(block)), self.held)

    def nearest(self, queries: np.ndarray, query_ids: np.ndarray, k: int,
                within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
        """Return the squared distances and ids (q, k) of the points nearest to rows, ascending by (distance, id).

        within : squared distances (q,) beyond which points are ignored. Entries without a neighbor have id `EMPTY` and
            infinite distance.
        """
        queries = measurable(queries, self.metric)
        if are_few(len(queries), *self.rows.shape):
            layouts = list(self.layouts())
            points, ids = (np.concatenate([getattr(one, name) for one in layouts]) for name in ("rows", "ids"))
            return nearest_of_few(queries, query_ids, points, ids, k, within)
        distances, ids = empty_heaps(len(queries), k, within)
        in_all = self.search == "products"
        for layout in self.layouts():
            frame = layout.frame.without_further() if in_all else layout.frame
            seen = project(queries, frame, float(layout.scale))
            order = bisect(seen.lead[:, :-1], tree_depth(len(queries)))
            if self.search == "tree":
                nearest_by_tree(layout, queries, query_ids, seen, order, distances, ids)
            else:
                nearest_by_tiles(layout, queries, query_ids, seen, order, distances, ids, in_all=in_all)
        sort_heaps(distances, ids)
        return distances, ids


SearchedPoints = DensePoints | SparsePoints | PairPoints


def points_in_blocks(rows: Rows, metric: AnyMetric, block_rows: int, sample: np.ndarray) -> SearchedPoints:
    """Return points that a search reads in blocks, projected to the axes of a transformed `sample` (m, d)."""
    if metric_of(metric).by_pairs:
        return PairPoints(rows, metric, block_rows)
    if rows.is_sparse:
        return SparsePoints(rows, metric, block_rows)
    return DensePoints(rows, metric, block_rows, principal_frame(sample, exact=True))


@dataclass(frozen=True)
class NearestTask:
    """Find the k nearest points of rows [start, stop), and write them to `ids` and `distances` of rows from `first` on.
    """

    points: SearchedPoints
    start: int
    stop: int
    k: int
    first: int = 0

    def __call__(self, out: PartWriter) -> Receipt:
        queries = self.points.rows.read(self.start, self.stop)
        squared, ids = self.points.nearest(queries, np.arange(self.start, self.stop), self.k)
        return out.write_rows(self.start - self.first, ids=ids, distances=stored_distances(squared))

    def cost(self) -> Cost:
        """Return it without the layout that all tasks of a process share, by the seconds of tiles."""
        points, height, n = self.points, self.stop - self.start, len(self.points.rows)
        blocks = 0 if points.shared_bytes else n
        seconds = points.pair_ns * 1e-9 * float(height) * n
        return cost_of(1, (height + blocks) * points.rows.row_bytes, 12 * height * self.k,
                       points.peak_bytes(height, self.k), points.lowest_peak_bytes(self.k), seconds)


def nearest_tasks(points: SearchedPoints, n: int, k: int, height: int,
                  first: int = 0) -> BlockTasks[NearestTask]:
    """Return the tasks that find the neighbors of n points, from number `first` on."""
    return BlockTasks(lambda start, stop: NearestTask(points, first + start, first + stop, k, first), n, height)


def exact_block_rows(X: Rows, k: int, metric: AnyMetric, budget: int, entry_bytes: int = 0) -> int:
    """Return the rows of one task's block: at most `MAX_TASKS` tasks, unless blocks would grow too large.

    A dense row takes 40 d bytes (itself and its coordinates, each twice) and 16 k for its heap, in a quarter of the
    budget beside one tile of products. A sparse row takes `measured_row_bytes` and 40 k, in half of the budget.

    entry_bytes : additional bytes of an entry of a list.
    """
    n = len(X)
    if X.is_sparse:
        fit = rows_that_fit(budget, measured_row_bytes(X, metric) + (40 + entry_bytes) * k, n,
                            fixed_bytes=tile_bytes(X), share=2)
    else:
        fit = rows_that_fit(budget, 40 * X.shape[1] + (16 + entry_bytes) * k, n,
                            fixed_bytes=4 * QUERY_TILE * POINT_TILE, share=4)
    return min(fit, max(MIN_BLOCK_ROWS, min(MAX_BLOCK_ROWS, -(-n // MAX_TASKS))), n)


def laid_out_rows(X: Rows, metric: AnyMetric, budget: int) -> int:
    """Return the rows of a layout: all rows if twice their layout fits the budget, or what fits a quarter of it."""
    n, row_bytes = len(X), 2 * layout_bytes(1, X.shape[1], measured_itemsize(X.dtype, metric))
    return n if n * row_bytes <= budget else rows_that_fit(budget, row_bytes, n, share=4)


def plan_exact(X: Rows, k: int, metric: AnyMetric, execution: Execution,
               frame: Frame | None = None) -> tuple[SearchedPoints, float]:
    """Return the points, laid out if they fit, with the faster search, and its predicted seconds on one core.

    frame : of a sample of dense rows, or None to compute it.
    Peak memory: twice `layout_bytes`; or, if that exceeds the budget, blocks of points that fill a quarter of it.
    """
    n = len(X)
    if metric_of(metric).by_pairs:
        return pair_points(X, metric, execution.memory_budget), exact_seconds_lower_bound(
            X, metric, execution.memory_budget)
    if X.is_sparse:
        return SparsePoints(X, metric, point_rows(X, metric, execution.memory_budget)), inverted_seconds(X, k)
    points, layout = dense_points(X, metric, frame or sampled_frame(X, metric), execution)
    pilot = sample_ids(n, PILOT_QUERIES)
    return with_search(points, layout, measurable(X.take(pilot), metric), pilot, k, n)


def sampled_frame(X: Rows, metric: AnyMetric) -> Frame:
    """Return the frame of a sample of dense rows."""
    return principal_frame(frame_sample(X, metric), exact=True)


def sampled_plan(sample: np.ndarray, k: int, n: int) -> tuple[Frame, float]:
    """Return the frame of a sample of n dense rows, and about the least seconds that `plan_exact` predicts.

    sample : (s, d), transformed by the metric, of which `SAMPLE_ROWS` are used at most. A query of the tree visits
    about as many of all rows and their boxes as of those of the sample, or more.
    """
    sample = sample[sample_ids(len(sample), SAMPLE_ROWS)]
    frame, pilot = principal_frame(sample, exact=True), sample_ids(len(sample), PILOT_QUERIES)
    layout = lay_out(sample, np.arange(len(sample)), frame)
    tiles = TILE_PAIR_NS * 1e-9 * float(n) * n
    return frame, min(tree_seconds(layout, sample[pilot], pilot, k, n, tiles), tiles)


def frame_sample(X: Rows, metric: AnyMetric) -> np.ndarray:
    """Return a sample of dense rows, transformed by the metric; raise DataError where one has no distances."""
    sampled = X.take(sample_ids(len(X), SAMPLE_ROWS))
    check_block(sampled, 0, metric)
    return measurable(sampled, metric)


def dense_points(X: Rows, metric: AnyMetric, frame: Frame, execution: Execution) -> tuple[DensePoints, Layout]:
    """Return dense points, laid out if all of them fit, and the layout of the first block."""
    points = DensePoints(X, metric, laid_out_rows(X, metric, execution.memory_budget), frame)
    layout = next(points.layouts())
    if len(layout.ids) < len(X):
        return points, layout
    scratch = execution.scratch()
    scratch.write(0, {field.name: np.asarray(getattr(layout, field.name)) for field in fields(layout)})
    return replace(points, held=scratch.arrays(0)), layout


def with_search(points: DensePoints, layout: Layout, queries: np.ndarray, query_ids: np.ndarray, k: int, n_queries: int,
                within: np.ndarray | None = None) -> tuple[DensePoints, float]:
    """Return the points with the faster search, and its predicted seconds on one core for `n_queries` queries.

    layout : of the first block.
    queries : sampled queries (q, d), transformed by the metric, with `query_ids` and `within` as in
        `DensePoints.nearest`.
    """
    n = len(points.rows)
    tiles = TILE_PAIR_NS * 1e-9 * float(n_queries) * n
    if tiles <= FEW_SECONDS:
        return points, tiles
    blocks = block_count(n, points.block_rows)
    tree = tree_seconds(layout, queries, query_ids, k, n_queries, tiles / blocks, within) * blocks
    if tree <= tiles:
        return replace(points, search="tree"), tree
    return replace(points, search="tiles" if leading_suffice(layout, k) else "products"), tiles


def tree_seconds(layout: Layout, queries: np.ndarray, query_ids: np.ndarray, k: int, n_queries: int, tiles: float,
                 within: np.ndarray | None = None) -> float:
    """Return the predicted seconds of a tree of one layout for `n_queries` queries, by visits of sampled ones (q, d).

    tiles : the seconds of tiles; if a tree takes more, those are returned after which that was certain.
    """
    seen = project(queries, layout.frame, layout.scale)
    visit_ns = (TREE_VISIT_NS + TREE_AXIS_NS * layout.lead.shape[1]) * (1 + min(1.0, layout.lead.nbytes / CACHE_BYTES))
    allowed = (tiles / n_queries * 1e9 - TREE_QUERY_NS) / max(visit_ns, 1e-9) * len(queries)
    # A query stops after half of the points; a few outliers do so among many ordinary queries.
    visits = nearest_by_tree(layout, queries, query_ids, seen, np.arange(len(queries)),
                             *empty_heaps(len(queries), k, within), max_visits=len(layout.ids) // 2 + 100,
                             max_total=int(np.clip(allowed, 0, 2**62)))
    return (TREE_QUERY_NS + visits / len(queries) * visit_ns) * 1e-9 * n_queries


def exact_seconds_lower_bound(X: Rows, metric: AnyMetric, budget: int) -> float:
    """Return a lower bound of the seconds that `plan_exact` predicts for rows of the shape of X, which are not read.

    It is that of tiles, or of trees without visits; 0 for sparse rows; the prediction itself for a formula of two rows.
    """
    n = len(X)
    if metric_of(metric).by_pairs:
        return float(n) * n * pair_ns(X, metric) * 1e-9
    if X.is_sparse:
        return 0.0
    return n * min(TREE_QUERY_NS * block_count(n, laid_out_rows(X, metric, budget)), TILE_PAIR_NS * n) * 1e-9


def sampling_bytes(X: Rows, metric: AnyMetric) -> int:
    """Return the bytes of a sample of dense rows in float64 and of the frame fitted to it."""
    n, d = X.shape
    return min(n, SAMPLE_ROWS) * d * (X.dtype.itemsize + 16 + 8 * metric_of(metric).transforms) + 24 * d * d


def points_of_shape(X: Rows, metric: AnyMetric, budget: int) -> SearchedPoints:
    """Return points of the shape and dtype of X, which are not read, in the blocks of a search."""
    if metric_of(metric).by_pairs:
        return pair_points(X, metric, budget)
    if X.is_sparse:
        return SparsePoints(X, metric, point_rows(X, metric, budget))
    return DensePoints(X, metric, laid_out_rows(X, metric, budget), HeldArrays())


def exact_cost(X: Rows, k: int, metric: AnyMetric, budget: int) -> Cost:
    """Return what an exact search takes for rows of the shape and dtype of X, which are not read.

    The driver checks the rows, samples them, and lays them out where all fit; a task holds the layout and its queries.
    """
    points = points_of_shape(X, metric, budget)
    sample, layout = points.sampling_bytes(), points.shared_bytes
    passes = 3 if isinstance(points, DensePoints) else 2
    driver = cost_of(0, passes * len(X) * X.row_bytes + layout, layout, sample,
                     sample if isinstance(points, DensePoints) else 0)
    return driver + nearest_tasks(points, len(X), k, exact_block_rows(X, k, metric, budget)).cost()


def are_few(n_queries: int, n_points: int, n_columns: int) -> bool:
    """Return whether NumPy searches so many points as fast as compiled code is loaded."""
    return n_queries * n_points <= FEW_PAIRS and n_points * n_columns <= FEW_VALUES


def nearest_of_few(queries: np.ndarray, query_ids: np.ndarray, points: np.ndarray, ids: np.ndarray, k: int,
                   within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances and ids (q, k) of the points nearest to rows, ascending by (distance, id).

    ids : of the points (m,). within : as in `DensePoints.nearest`.
    """
    distances, nearest = np.full((len(queries), k), np.inf), np.full((len(queries), k), EMPTY)
    center = median_row(points) if len(points) else 0.0
    Z = points - center
    largest = float(np.abs(Z).max(initial=0.0))
    scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0  # a power of two, against overflow
    Z *= scale
    lengths = np.einsum("ij,ij->i", Z, Z)
    # The product, and each length, is off by at most (d + 3) 2^-53 (|q|^2 + |z|^2) (Higham, section 3.1).
    share = 8 * (points.shape[1] + 8) * 2.0**-53
    height = max(1, PAIRS_AT_ONCE // max(1, len(points)))
    for start in range(0, len(queries), height):
        block = slice(start, start + height)
        Q = (queries[block] - center) * scale
        norms = np.einsum("ij,ij->i", Q, Q)[:, None]
        about = norms + lengths - 2 * (Q @ Z.T)
        others = query_ids[block][:, None] != ids
        about[~others] = np.inf
        room = share * (norms + lengths)
        limit = np.full_like(norms, np.inf) if within is None else within[block][:, None] * scale**2
        if k < len(points):
            limit = np.minimum(limit, np.partition(about + room, k - 1, axis=1)[:, k - 1:k])
        row, column = np.nonzero((about <= limit + room) & others)
        squared = squared_distances_of(queries[block], points, row, column)
        if within is not None:
            near = squared <= within[block][row]
            row, column, squared = row[near], column[near], squared[near]
        order = np.lexsort((ids[column], squared, row))
        row, column, squared = row[order], column[order], squared[order]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        first = place < k
        distances[start + row[first], place[first]] = squared[first]
        nearest[start + row[first], place[first]] = ids[column[first]]
    return distances, nearest

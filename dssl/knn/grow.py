"""Update neighbor lists after rows were appended.

An old list changes only if a new row is as near as its last entry. So old rows are searched among the new rows alone,
up to that distance, and new rows among all rows. The lists of an exact search become those of an exact search of all
rows, to the bit. Stored distances are float32; if an old and a new entry have equal ones, the old entries of the list
are measured again.

Weights are recomputed from the updated lists (`graph/weights/build.py`). (With 1 % new rows of MNIST half of the rows
of W change, since the scale of a point enters all its weights; 202,000 rows of 10 neighbors take 0.4 s.)

    search   a task a block of new rows: their lists
    merge    a task a block of all rows: old lists merged with new neighbors, and the lists of new rows
"""

import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import DataError, explain, require
from ..base.types import Matrix
from ..execution.cost import Cost, block_count, cost_of
from ..execution.tasks import Execution
from ..storage.blocks import Parts, PartWriter, Receipt, Rows, RowStream, row_ranges, rows_that_fit
from ..storage.views import RowRange
from .descent.search import descent_seconds
from .exact.blocks import (
    PILOT_QUERIES,
    TILE_PAIR_NS,
    SearchedPoints,
    dense_points,
    exact_block_rows,
    nearest_tasks,
    points_of_shape,
    sampled_frame,
    sampling_bytes,
    with_search,
)
from .exact.inverted_index import SparsePoints, inverted_seconds, measured_row_bytes, point_rows
from .exact.pairs import pair_ns, pair_points
from .lists import Neighbors
from .metric import (
    CHECK_BYTES,
    AnyMetric,
    candidate_squares,
    check_block,
    check_kind,
    check_shape,
    measurable,
    measured_by,
    measured_itemsize,
    metric_of,
    sample_ids,
    stored_distances,
    stored_metric,
)
from .partitioned.sizes import partitioned_seconds
from .partitioned.tasks import within
from .recall import certify_recall, truth_cost
from .search import NeighborParams, find_neighbors
from .squared_distances import EMPTY

ENTRY_BYTES = 120  # of an entry while two lists are merged: ids, distances and order
ANCHOR_ROWS = 1 << 16  # lists of new rows that are read at a time to extend the permutation


def merged(ids: np.ndarray, distances: np.ndarray, new_ids: np.ndarray, squared: np.ndarray, k: int,
           measure: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Merge lists with new neighbors; return ids (q, k), distances (q, k) float32, and which lists changed (q,) bool.

    ids, distances : (q, k_old), ascending by (distance, id); the distance in float64, before it is rounded to float32.
    new_ids, squared : (q, m), likewise, with squared distances in float64; `EMPTY` and infinite without a neighbor.
    measure : returns the squared distances (r, k_old) in float64 of the old entries of some rows (r,). It is called for
        rows where an old and a new entry have the same float32 distance.
    """
    k_old, absent = ids.shape[1], new_ids == EMPTY
    rounded_new = np.where(absent, np.float32(np.inf), stored_distances(np.where(absent, 0, squared)))
    all_ids, rounded = np.concatenate([ids, new_ids], axis=1), np.concatenate([distances, rounded_new], axis=1)
    # Both halves are sorted, and a stable sort keeps ties: only an old and a new entry may be in the wrong order.
    order = np.argsort(rounded, axis=1, kind="stable")
    ranked = np.take_along_axis(rounded, order, axis=1)
    tied = (ranked[:, 1:] == ranked[:, :-1]) & (order[:, :-1] < k_old) & (order[:, 1:] >= k_old)
    rows = np.flatnonzero(tied.any(axis=1))
    if len(rows):
        order[rows] = np.lexsort((all_ids[rows], np.concatenate([measure(rows), squared[rows]], axis=1)))
    order = order[:, :k]
    changed = (order >= k_old).any(axis=1)
    return np.take_along_axis(all_ids, order, axis=1), np.take_along_axis(rounded, order, axis=1), changed


def squared_reach(distances: np.ndarray) -> np.ndarray:
    """Return upper bounds (q,) float64 of the squares of all distances that round to these float32 distances."""
    return np.nextafter(distances, np.float32(np.inf)).astype(np.float64) ** 2


@dataclass(frozen=True)
class GrowTask:
    """Write the lists of rows [start, stop): old lists merged with new neighbors, and the lists of new rows.

    new : the new rows, or None.
    base_ids, base_distances : the lists of the old rows.
    new_lists : shared arrays `ids` and `distances` of the new rows.
    max_measured_rows : rows in memory at a time to measure old entries again.
    """

    rows: Rows
    new: SearchedPoints | None
    base_ids: Rows
    base_distances: Rows
    new_lists: Parts
    metric: AnyMetric
    start: int
    stop: int
    k: int
    max_measured_rows: int

    def __call__(self, out: PartWriter) -> Receipt:
        n_old, written, changed = len(self.base_ids), list[list[np.ndarray]](), 0
        middle = min(max(self.start, n_old), self.stop)
        if self.start < middle:
            ids, distances, changes = self._grown(self.start, middle)
            written.append([ids, distances])
            changed = int(changes.sum())
        if middle < self.stop:
            written.append([self.new_lists.rows(name).read(middle - n_old, self.stop - n_old)
                            for name in ("ids", "distances")])
        ids, distances = (np.concatenate(arrays) for arrays in zip(*written, strict=True))
        return out.write_rows(self.start, ids=ids, distances=distances) | {"changed": changed}

    def _grown(self, start: int, stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the updated ids and distances (q, k) of old rows, and which lists changed (q,)."""
        ids, distances = (rows.read(start, stop) for rows in (self.base_ids, self.base_distances))
        if self.new is None:
            return ids, distances, np.zeros(len(ids), bool)
        queries, n_old, full = self.rows.read(start, stop), len(self.base_ids), ids.shape[1] == self.k
        squared, new_ids = self.new.nearest(queries, np.full(len(ids), -1), min(self.k, len(self.new.rows)),
                                            squared_reach(distances[:, -1]) if full else None)
        new_ids[new_ids != EMPTY] += n_old
        near = np.flatnonzero(new_ids[:, 0] != EMPTY)  # all rows if lists get longer
        lists = (np.empty((len(ids), self.k), np.int64), np.empty((len(ids), self.k), np.float32),
                 np.zeros(len(ids), bool))
        if full:
            lists[0][:], lists[1][:] = ids, distances
        lists[0][near], lists[1][near], lists[2][near] = merged(
            ids[near], distances[near], new_ids[near], squared[near], self.k,
            lambda tied: self._measured(queries[near[tied]], ids[near[tied]]))
        return lists

    def _measured(self, queries: Matrix, ids: np.ndarray) -> np.ndarray:
        """Return the squared distances (r, k_old) from rows to their listed neighbors."""
        squared = np.empty(ids.shape)
        for run, used in within(np.arange(len(ids)), [ids], self.max_measured_rows):
            squared[run] = candidate_squares(measurable(queries[run], self.metric),
                                             measurable(self.rows.take(used), self.metric),
                                             np.searchsorted(used, ids[run]), measured_by(self.metric))
        return squared


def grow_neighbors(X: Rows, base: Neighbors, params: NeighborParams, execution: Execution,
                   parts: Parts | None = None) -> Neighbors:
    """Return the neighbors of rows (n, d); the first rows are those of `base`, the others were appended.

    X : finite numbers; the first `len(base)` rows have the values that they had when `base` was made.
    base : their neighbor lists, of any search. The lists of an exact search become those of an exact search of all
        rows, to the bit. Lists of an approximate search are updated exactly, and their recall is certified again; if
        searching all rows is predicted to be faster, all rows are searched again.
    params : with the metric of `base`, and at most as many neighbors, unless `base` lists all other rows. The method is
        that of `base`, whatever `params` says.
    execution, parts : as in `find_neighbors`.

    Returns
    -------
    Neighbors : with the attributes of `base`, and `grown`: the number of new `rows`, and of old `lists_changed`;
        without `grown` if all rows were searched again. A permutation `order` is extended: each new row follows its
        nearest old row.

    Raises ParameterError, DataError: X has fewer rows than `base`, another metric or too few
    neighbors; see also `neighbors`.
    """
    k, metric, n, n_old = params.n_neighbors, params.distance, len(X), len(base)
    check_shape(X, k)
    check_kind(X, metric)
    method = base.attributes.get("method", "given")
    require(method in ("exact", "descent", "partitioned"),
            f"neighbor lists of the method {method!r} cannot be updated", error=DataError,
            why="they did not come from a search", fix="search the neighbors of all rows")
    of_base = stored_metric(base.attributes)
    require(of_base == metric, f"metric={metric!r}, but the metric of the neighbor lists is {of_base}",
            why="their distances are of that metric", fix="search all rows again")
    require(n >= n_old, f"{n} rows, but neighbor lists of {n_old}", error=DataError,
            why="new rows are appended to those of the lists", fix="search all rows again after rows were removed")
    require(k <= base.k or base.k == n_old - 1, f"n_neighbors={k}, but the neighbor lists have {base.k}",
            why="the next nearest neighbors of the old rows are unknown",
            fix=f"search all rows again, or ask for at most {base.k}")
    lists = (base.first(k) if k < base.k else base).shared(execution)
    new, parts = RowRange(X, n_old, n), parts or execution.scratch()
    points, searched = None, None
    if n > n_old:
        check_new_rows(X, n_old, metric)
        points, searched, seconds = _searches(X, new, lists, k, metric, execution)
        if seconds > fresh_seconds(X, k, metric, method):
            return find_neighbors(X, replace(params, method=method), execution, parts)
    attributes = {**base.attributes, **asdict(params), "method": method, "recall": base.attributes["recall"], "n": n,
             **_grow(X, new, lists, points, searched, params, execution, parts)}
    if lists.order is not None:
        write_order(lists.order, parts.rows("ids"), parts)
    grown = Neighbors.stored(parts, attributes)
    if method != "exact" and n > n_old:
        attributes["recall"] = certify_recall(X, grown, random_state=params.random_state, execution=execution)
        if attributes["recall"]["recall"] < params.recall:
            warnings.warn(explain(
                f"the updated lists hold {attributes['recall']['recall']:.1%} of the neighbors of sampled rows, and "
                f"recall={params.recall} is required", why=f"the old lists, of the method {method}, missed some",
                fix="search all rows again, set method to exact, or ask for a lower recall"), UserWarning, stacklevel=3)
    parts.within("new").remove()
    return grown


def _grow(X: Rows, new: Rows, base: Neighbors, points: SearchedPoints | None,
          searched: SearchedPoints | None, params: NeighborParams, execution: Execution,
          parts: Parts) -> JsonObject:
    """Write the lists; return their attributes. The lists of new rows are written to `new` within the parts first."""
    (n, m), k, metric, budget = (len(X), len(new)), params.n_neighbors, params.distance, execution.memory_budget
    new_parts = parts.within("new")
    if searched is not None:
        height = exact_block_rows(new, k, metric, budget)
        new_parts.allocate("ids", (m, k), np.int64, height)
        new_parts.allocate("distances", (m, k), np.float32, height)
        execution.map(nearest_tasks(searched, m, k, height, n - m), new_parts)
    height, measured = exact_block_rows(X, k, metric, budget, ENTRY_BYTES), measured_rows(X, metric, budget)
    parts.allocate("ids", (n, k), np.int64, height)
    parts.allocate("distances", (n, k), np.float32, height)
    tasks = [GrowTask(X, points, base.id_rows, base.distance_rows, new_parts, metric, start, stop, k, measured)
             for start, stop in row_ranges(n, height)]
    receipts = execution.map(tasks, parts)
    return {"block_rows": height,
            "grown": {"rows": m, "lists_changed": sum(receipt["changed"] for receipt in receipts)}}


def fresh_seconds(X: Rows, k: int, metric: AnyMetric, method: str) -> float:
    """Return the predicted seconds on one core of searching all rows again; infinite for exact lists."""
    return {"exact": np.inf, "descent": descent_seconds(X, k, metric), "partitioned": partitioned_seconds(X, k)}[method]


def check_new_rows(X: Rows, n_old: int, metric: AnyMetric) -> None:
    """Raise DataError unless rows [n_old, n) have distances; the old rows were checked when their lists were made."""
    if X.dtype.kind != "f" and not metric_of(metric).has_domain:
        return
    new, height = RowRange(X, n_old, len(X)), max(1, CHECK_BYTES // (X.row_bytes if X.is_sparse else X.shape[1] * 8))
    for first, block in new.blocks(height):
        check_block(block, n_old + first, metric)


def measured_rows(X: Rows, metric: AnyMetric, budget: int) -> int:
    """Return the rows in memory at a time to measure entries again: they fit a quarter of the budget."""
    return rows_that_fit(budget, measuring_bytes(X, metric), len(X), share=4)


def measuring_bytes(X: Rows, metric: AnyMetric) -> int:
    """Return the bytes of a row that is measured again: as read, and transformed by the metric."""
    if X.is_sparse:
        return 2 * measured_row_bytes(X, metric)
    return X.shape[1] * (X.dtype.itemsize + measured_itemsize(X.dtype, metric))


def _searches(X: Rows, new: Rows, base: Neighbors, k: int, metric: AnyMetric, execution: Execution
              ) -> tuple[SearchedPoints, SearchedPoints, float]:
    """Return the new rows, which old rows search, all rows, which new rows search, and the seconds on one core."""
    budget, n, n_old = execution.memory_budget, len(X), len(base)
    if metric_of(metric).by_pairs:
        seconds = pair_ns(X, metric) * 1e-9 * len(new) * (n_old + n)
        return pair_points(new, metric, budget), pair_points(X, metric, budget), seconds
    if X.is_sparse:
        return (SparsePoints(new, metric, point_rows(new, metric, budget)),
                SparsePoints(X, metric, point_rows(X, metric, budget)),
                inverted_seconds(X, k) * len(new) * (n_old + n) / n**2)
    frame = sampled_frame(X, metric)
    pilot = sample_ids(n_old, PILOT_QUERIES)
    reach = squared_reach(base.distance_rows.take(pilot)[:, -1]) if base.k == k else None
    points, seconds = with_search(*dense_points(new, metric, frame, execution), measurable(X.take(pilot), metric),
                                  np.full(len(pilot), -1), min(k, len(new)), n_old, reach)
    asking = n_old + sample_ids(len(new), PILOT_QUERIES)
    searched, more = with_search(*dense_points(X, metric, frame, execution), measurable(X.take(asking), metric),
                                 asking, k, len(new))
    return points, searched, seconds + more


def write_order(order: Rows, ids: Rows, parts: Parts) -> None:
    """Write the permutation `order` (n,): the old one (n_old,), with each new row behind its nearest old row.

    ids : (n, k), the lists of all rows. A new row with new neighbors alone joins the first of these that has an old
    row; new rows without a path to an old row come last. Memory: 24 bytes a new row.
    """
    n, n_old = len(ids), len(order)
    nearest = _nearest_old(ids, n_old)
    order_of_new = np.argsort(nearest, kind="stable")
    anchors, starts, counts = np.unique(nearest[order_of_new], return_index=True, return_counts=True)
    stream = RowStream(parts, "order", n, np.int64)
    for _, block in order.blocks(ANCHOR_ROWS):
        group = np.searchsorted(anchors, block)
        places = np.flatnonzero(np.append(anchors, -1)[group] == block)
        behind, n_behind = starts[group[places]], counts[group[places]]
        which = np.repeat(behind - np.cumsum(n_behind) + n_behind, n_behind) + np.arange(n_behind.sum())
        stream.add(np.insert(block, np.repeat(places + 1, n_behind), n_old + order_of_new[which]))
    stream.add(n_old + order_of_new[nearest[order_of_new] == n_old])
    stream.close()


def _nearest_old(ids: Rows, n_old: int) -> np.ndarray:
    """Return the old row that each new row (m,) follows; n_old if there is none."""
    m = len(ids) - n_old
    anchor = np.full(m, n_old)
    for start, stop in row_ranges(m, ANCHOR_ROWS):
        listed = ids.read(n_old + start, n_old + stop)
        first = np.argmax(listed < n_old, axis=1)
        nearest = np.take_along_axis(listed, first[:, None], axis=1)[:, 0]
        anchor[start:stop] = np.minimum(nearest, n_old)
    open_rows = np.flatnonzero(anchor == n_old)
    while len(open_rows):
        before = len(open_rows)
        for start, stop in row_ranges(before, ANCHOR_ROWS):
            some = open_rows[start:stop]
            anchors = anchor[ids.take(n_old + some) - n_old]
            first = np.argmax(anchors < n_old, axis=1)
            anchor[some] = np.take_along_axis(anchors, first[:, None], axis=1)[:, 0]
        open_rows = open_rows[anchor[open_rows] == n_old]
        if len(open_rows) == before:
            break
    return anchor


def grow_cost(X: Rows, n_old: int, k: int, metric: AnyMetric, method: str, budget: int) -> Cost:
    """Return the cost of updating the lists of `n_old` rows of X, whose shape and dtype are method but not its values.

    method : of the lists; the recall of approximate ones is certified. The driver holds a sample, and points beside
    their layout; a task holds the layout of all rows and new queries, or that of the new rows and lists.
    """
    n, m, by_blocks = len(X), len(X) - n_old, X.is_sparse or metric_of(metric).by_pairs
    height, measured = exact_block_rows(X, k, metric, budget, ENTRY_BYTES), min(n, measured_rows(X, metric, budget))
    merging = block_count(n, height)
    tasks, merged_bytes, pair = merging, height * ENTRY_BYTES * k, 0.0
    read, written, peak, sampling = 24 * n_old * k, 12 * n * k, merged_bytes + 12 * height * k, 0
    if m > 0:
        new, merging_rows = RowRange(X, n_old, n), merged_bytes + measured * measuring_bytes(X, metric)
        rows = exact_block_rows(new, k, metric, budget)
        searching = block_count(m, rows)
        tasks, sampling = tasks + searching, 0 if by_blocks else sampling_bytes(X, metric)
        searched, added = points_of_shape(X, metric, budget), points_of_shape(new, metric, budget)
        pair = searched.pair_ns if metric_of(metric).by_pairs else TILE_PAIR_NS
        all_layout, new_layout = searched.shared_bytes, added.shared_bytes
        peak = max(sampling, searched.peak_bytes(rows, k), added.peak_bytes(height, k) + merging_rows)
        read += (n * X.row_bytes * (3 + searching * (not all_layout)) + all_layout
                 + m * X.row_bytes * (2 + merging * (not new_layout)) + new_layout)
        written += 12 * m * k + all_layout + new_layout
    cost = cost_of(tasks, read, written, peak, sampling, pair * 1e-9 * m * (n_old + n))
    return cost if method == "exact" else cost + truth_cost(X, metric, k, budget)

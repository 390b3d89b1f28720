"""Approximate neighbors of more rows than fit one task: overlapping leaves, and joins across their borders.

    route    a task a range of rows: sends each row to its block, the home leaf of its nearest cell (`partitions.py`)
    order    a task a block: permutes its rows and their coordinates so that near rows lie together. From here on
             neighbor lists hold positions in this permutation
    spread   a task a block: sends the coordinates of each row to every leaf that it belongs to
    search   a task a leaf: finds neighbors by local joins (`local_joins.py`), and sends them to the rows' blocks
    merge    a task a block: keeps the nearest of what leaves or joins found
    join     a task a block: compares the neighbors of each row with each other, and sends improvements to their blocks
    measure  a task a block: measures the lists in float64, and sends them to the ranges that own the rows
    write    a task a range: writes the lists in the order of the rows

Merge and join are repeated until sampled rows reach the requested recall; if they do not, everything from `spread` on
is repeated with leaves that overlap more. Leaves and borders follow from the sample, the seed and the memory budget. No
task holds more than its block and the rows near it.

Chen, Fang, Saad, "Fast approximate kNN graph construction for high dimensional data via recursive Lanczos bisection",
JMLR 10, 2009, section 3: overlap and refinement. Dong, Moses, Li, WWW 2011: local joins.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...base.digest import plain
from ...base.errors import BudgetError, DataError, explain, require
from ...execution.tasks import Execution, Steps, one_thread
from ...storage.blocks import Arrays, Parts, Receipt, Rows, block_rng, row_ranges
from ..exact.blocks import TILE_PAIR_NS
from ..metric import measured_itemsize, require_squares, stored_distances
from ..recall import SAMPLE, recall_of, sampled_ids, true_neighbors, wilson_lower
from .join_tasks import JoinTask, MeasureTask, MergeTask, WriteTask
from .partitions import Partition, Projection, fit_partition
from .permutation import CELLS, BlockPositions, PermutedRows
from .sizes import EXTRA, FILL_RATIO, OVERLAPS, Sizes, min_leaves, ordered_chunk_rows, sample_rows, task_sizes
from .tasks import OrderTask, RouteTask, SampleTask, SearchTask, SpreadTask, projection_arrays, projection_of

JOINS, MIN_GAIN = 4, 0.002  # upper bound of the joins, and the gain of recall below which they end
GROWTH, ATTEMPTS = 1.3, 6  # factor of the number of leaves if a leaf got too many rows, and the attempts
MAX_OUTLIERS = 500  # outliers are searched exactly if there are no more than these


@dataclass(frozen=True)
class Search:
    """A running search: its rows and parameters, the sizes of its tasks, and its steps."""

    X: Rows
    k: int
    metric: str
    random_state: int
    execution: Execution
    steps: Steps
    sizes: Sizes

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of rows that tasks read."""
        return row_ranges(len(self.X), self.sizes.range_rows)

    def fit_projection(self) -> Parts:
        """Check all rows; return the projection as part 0, and the coordinates `seen` of a sample as part 1."""
        n = len(self.X)
        row_bytes = self.X.shape[1] * measured_itemsize(self.X.dtype, self.metric)
        max_leaves = sample_rows(n, row_bytes, self.execution.memory_budget)
        sampled, largest = self.steps.map("sample", lambda step_parts: [
            SampleTask(self.X, self.metric, start, stop, -(-max_leaves * (stop - start) // n))
            for start, stop in self.ranges()], lambda receipts: {
                "largest": max(receipt["largest"] for receipt in receipts)})
        require_squares(largest["largest"], self.X.dtype)

        def fit(step_parts: Parts) -> Receipt:
            sample = np.concatenate([sampled.read(index)["rows"] for index in range(len(self.ranges()))])
            with one_thread():
                projection = Projection.of(sample)
                step_parts.write(0, projection_arrays(projection))
                step_parts.write(1, {"seen": projection.coordinates(sample)})
            return {}

        return self.steps.run("view", fit, [sampled])[0]

    def find_truth(self, sampled_rows: np.ndarray) -> Parts:
        """Return `distances` (q, k) and `ids` of the true neighbors of the sampled rows, as part 0."""
        def find(step_parts: Parts) -> Receipt:
            truth = true_neighbors(self.X, sampled_rows, np.full((len(sampled_rows), self.k), -1), self.metric,
                                   self.execution, step_parts.within("shares"))
            step_parts.write(0, {name: truth[name] for name in ("distances", "ids")})
            return {}

        step_parts, _ = self.steps.run("true", find)
        step_parts.within("shares").remove()
        return step_parts

    def fit_partition(self, projection: Parts, leaves: int, rows: int, max_leaves: int, ratio: float, attempt: int
                      ) -> tuple[Arrays, int] | None:
        """Return a partition, as tasks load it, and its number of leaves; None if no partition fits.

        There are `leaves` leaves or more, each of at most `rows` rows, as estimated by the sample.

        max_leaves, ratio : `max_leaves` and `distance_ratio` of `Partition.members`.
        attempt : 0 or more; each attempt divides the rows differently.
        """
        def fit(step_parts: Parts) -> Receipt:
            coordinates = projection.read(1)["seen"]
            with one_thread():
                cells = self._fitting(coordinates, leaves, rows, max_leaves, ratio, attempt)
            if cells is None:
                return {"leaves": 0}
            step_parts.write(0, {**projection.read(0), "centers": cells.centers, "leaf": cells.leaf})
            return {"leaves": cells.leaves}

        step_parts, fitted = self.steps.run("cells", fit)
        return (step_parts.arrays(0), fitted["leaves"]) if fitted["leaves"] else None

    def _fitting(self, coordinates: np.ndarray, leaves: int, rows: int, max_leaves: int, ratio: float, attempt: int
                 ) -> Partition | None:
        for _ in range(ATTEMPTS):
            cells = fit_partition(coordinates, leaves, block_rng(self.random_state, CELLS, attempt),
                                  rotated=attempt > 0)
            members = np.bincount(cells.members(coordinates, max_leaves, ratio)[1])
            largest_leaf = members.max() / len(coordinates) * len(self.X)
            if largest_leaf <= FILL_RATIO * rows or cells.leaves == 1 == leaves:
                return cells
            leaves = int(np.ceil(leaves * max(GROWTH, largest_leaf / rows)))
            if leaves > len(coordinates) // 8:
                break
        return None

    def order(self, projection: Parts, wanted: np.ndarray) -> tuple[PermutedRows, np.ndarray, int]:
        """Return the permuted rows, the positions of the ascending `wanted` rows, and the number of outliers."""
        leaves = max(min_leaves(len(self.X)), -(-len(self.X) // int(FILL_RATIO * self.sizes.block_rows)))
        for _ in range(ATTEMPTS):
            to_order = self.fit_partition(projection, leaves, self.sizes.block_rows, 1, 1.0, 0)
            if to_order is None:
                break
            fitted, leaves = to_order
            routed, sent = self.steps.map("routed", self._routes(fitted), lambda receipts: {
                "counts": np.sum([receipt["counts"] for receipt in receipts], axis=0).tolist()})
            if max(sent["counts"]) <= self.sizes.block_rows:
                return self._ordered(projection, fitted, routed, np.array(sent["counts"]), wanted)
            routed.remove()
            leaves = int(np.ceil(leaves * GROWTH))
        raise _undivided(self.sizes.block_rows, self.execution.memory_budget, len(self.X))

    def _routes(self, fitted: Arrays) -> Callable[[Parts], list[RouteTask]]:
        return lambda step_parts: [RouteTask(self.X, self.metric, fitted, start, stop) for start, stop in self.ranges()]

    def _ordered(self, projection: Parts, fitted: Arrays, routed: Parts, counts: np.ndarray,
                 wanted: np.ndarray) -> tuple[PermutedRows, np.ndarray, int]:
        n, d = self.X.shape
        chunk = ordered_chunk_rows(n, len(counts))
        positions = BlockPositions.of(counts, chunk)
        require(int(positions.starts[-1]) < 2**31, f"{n:,} rows", error=DataError,
                why="positions are stored in 32 bits", fix="search a sample of them")
        bounds = self.execution.share(starts=positions.starts, counts=positions.counts)
        dtype = np.dtype(np.float32 if measured_itemsize(self.X.dtype, self.metric) == 4 else np.float64)
        axes = projection_of(projection.read(0)).axes

        def tasks(place: Parts) -> list[OrderTask]:
            for name, width, array_dtype in (("rows", (d,), dtype), ("seen", (axes,), np.float32),
                                             ("row", (), np.int64)):
                place.allocate(name, (int(positions.starts[-1]), *width), array_dtype, chunk)
            shared = self.execution.share(rows=wanted)
            return [OrderTask(routed, len(self.ranges()), fitted, bounds, shared, block)
                    for block in range(len(counts))]

        parts, ordered = self.steps.map("ordered", tasks, lambda receipts: {
            "far": sum(receipt["far"] for receipt in receipts)}, [routed])
        parts_of_order = [parts.read(block) for block in range(len(counts))]
        rows, place = (np.concatenate([part[name] for part in parts_of_order]) for name in ("wanted", "place"))
        return PermutedRows(parts, bounds, chunk), place[np.argsort(rows)], ordered["far"]


def _undivided(rows: int, budget: int, n: int) -> BudgetError:
    return BudgetError(explain(
        f"more than {rows:,} rows lie too near each other, or too evenly, to be partitioned",
        why=f"a task of {budget:,} bytes has to search near rows together; many duplicates, or noise in many columns, "
            "leave too many of them",
        fix=f"use the method exact, {exact_hours(n):.2g} hours of one core or less; or raise memory_budget, or let "
            "duplicates collapse"))


def exact_hours(n: int) -> float:
    """Return an upper bound of the hours of an exact search of n rows on one core."""
    return TILE_PAIR_NS * 1e-9 * n * n / 3600


@dataclass
class PermutedLists:
    """The neighbor lists of permuted rows, improved step by step; `share` is their recall on the sampled rows."""

    search: Search
    ordered: PermutedRows
    truth: Arrays
    trials: int
    stored: Parts | None = None
    share: float = 0.0

    @property
    def blocks(self) -> range:
        """Return the numbers of the blocks."""
        return range(len(self.ordered.positions.counts))

    def _allocate(self, step_parts: Parts, **arrays: tuple[int, type]) -> None:
        """Allocate shared permuted arrays of these widths and types."""
        for name, (width, dtype) in arrays.items():
            step_parts.allocate(name, (int(self.ordered.positions.starts[-1]), width), dtype, self.ordered.chunk)

    def search_leaves(self, projection: Parts, max_leaves: int, ratio: float, candidates: int,
                      attempt: int) -> float | None:
        """Search the leaves of a partition and merge the results; return the mean leaves a row, None if none fits."""
        search, steps = self.search, self.search.steps
        n_leaves = max(min_leaves(len(search.X)), -(-len(search.X) // search.sizes.leaf_rows))
        for _ in range(ATTEMPTS):
            cells = search.fit_partition(projection, n_leaves, search.sizes.leaf_rows, max_leaves, ratio, attempt)
            if cells is None:
                return None
            fitted, leaves = cells
            spread, sent = steps.map("spread", self._spreads(fitted, max_leaves, ratio), _largest_and_all)
            if sent["largest"] <= search.sizes.leaf_rows:
                self._search(spread, leaves, candidates, attempt)
                return float(sent["all"] / len(search.X))
            spread.remove()
            n_leaves = int(np.ceil(leaves * GROWTH))
        return None

    def _spreads(self, fitted: Arrays, max_leaves: int, ratio: float) -> Callable[[Parts], list[SpreadTask]]:
        return lambda step_parts: [SpreadTask(self.ordered, fitted, max_leaves, ratio, block) for block in self.blocks]

    def _search(self, spread: Parts, leaves: int, candidates: int, attempt: int) -> None:
        width, random_state = self.search.k + EXTRA, self.search.random_state
        searched, _ = self.search.steps.map("found", lambda step_parts: [
            SearchTask(self.ordered, spread, width, candidates, random_state, attempt, leaf) for leaf in range(leaves)],
            used=[spread])
        self._merge(searched, leaves, self.stored)

    def improve(self, projection: Parts, target: float) -> tuple[list[float], int]:
        """Search and join until sampled rows reach the recall; return the leaves a row of each search, and the joins.

        Raises BudgetError if no leaves fit the memory budget.
        """
        overlaps, joins = [], 0
        for attempt, (max_leaves, ratio, candidates) in enumerate(OVERLAPS):
            overlap = self.search_leaves(projection, max_leaves, ratio, candidates, attempt)
            if overlap is None:
                break
            overlaps.append(round(overlap, 3))
            gain = 1.0
            for _ in range(JOINS):
                if self._reaches(target) or gain < MIN_GAIN:
                    break
                gain = -self.share
                self.join(joins)
                gain, joins = gain + self.share, joins + 1
            if self._reaches(target):
                break
        if not overlaps:
            raise _undivided(self.search.sizes.leaf_rows, self.search.execution.memory_budget, len(self.search.X))
        return overlaps, joins

    def _reaches(self, target: float) -> bool:
        return wilson_lower(round(self.share * self.trials), self.trials) >= target

    def join(self, number: int) -> None:
        """Join the lists and merge the results; `number` differs for each join."""
        search, stored = self.search, self.stored
        assert stored is not None

        def tasks(step_parts: Parts) -> list[JoinTask]:
            self._allocate(step_parts, flags=(search.k + EXTRA, np.uint8))
            return [JoinTask(self.ordered, stored, search.sizes.near_rows, search.random_state, number, block)
                    for block in self.blocks]

        joined, _ = search.steps.map("joined", tasks)
        self._merge(joined, len(self.blocks), joined)

    def _merge(self, candidates: Parts, writers: int, flags: Parts | None) -> None:
        width, before = self.search.k + EXTRA, self.stored

        def tasks(step_parts: Parts) -> list[MergeTask]:
            self._allocate(step_parts, distances=(width, np.float32), ids=(width, np.int32), flags=(width, np.uint8))
            return [MergeTask(self.ordered, candidates, writers, before, flags, self.truth, width, block)
                    for block in self.blocks]

        inputs = [candidates] if before is None else [candidates, before]
        self.stored, merged = self.search.steps.map("lists", tasks, lambda receipts: {
            "hits": sum(receipt["hits"] for receipt in receipts)}, inputs)
        self.share = merged["hits"] / self.trials

    def measure(self, search_outliers: bool) -> tuple[Parts, int]:
        """Return the measured lists, for the ranges of rows, and the number of rows that were searched exactly.

        search_outliers : whether outliers are among the latter, since they are few.
        """
        search, stored, sizes = self.search, self.stored, self.search.sizes
        assert stored is not None
        measured, filled = search.steps.map("measured", lambda step_parts: [
            MeasureTask(self.ordered, stored, search.X, search.metric, search.k, sizes.near_rows, sizes.fill_rows,
                        sizes.range_rows, search_outliers, block) for block in self.blocks], lambda receipts: {
                            "exactly": sum(receipt["filled_exactly"] for receipt in receipts)}, [stored])
        return measured, filled["exactly"]


def _largest_and_all(receipts: list[Receipt]) -> Receipt:
    """Return the rows of the largest leaf, and those of all leaves."""
    counts = np.sum([receipt["counts"] for receipt in receipts], axis=0)
    return {"largest": int(counts.max()), "all": int(counts.sum())}


def find_partitioned(X: Rows, k: int, metric: str, random_state: int, target: float, execution: Execution,
                     parts: Parts) -> dict[str, Any]:
    """Write the neighbor lists of dense rows (n, d), and the permutation of the rows; return their attributes.

    target : the recall to certify.
    parts : `ids` and `distances` are allocated already, in chunks of `list_rows`; `order` (n,), the permutation, is
        allocated here.

    Raises
    ------
    DataError : the rows are sparse or have no distances (`check_rows`), or no partition reaches the recall.
    BudgetError : rows that have to be searched together do not fit the memory budget.
    """
    require(not X.is_sparse, "sparse rows cannot be partitioned", error=DataError,
            why="the cells' means would be dense", fix="use the method exact, or auto")
    n, d = X.shape
    trials = min(n, SAMPLE) * k
    bound = wilson_lower(trials, trials)
    require(target <= bound, f"recall={target}, and {trials:,} neighbors of sampled rows certify at most {bound:.5f}",
            why="that is the confidence bound if all of them are found", error=DataError,
            fix="use the method exact, or ask for a lower recall")
    sizes = task_sizes(n, d, measured_itemsize(X.dtype, metric), k, execution.memory_budget)
    # The result is recorded before the parts of its steps are removed, which takes a while.
    steps, result = Steps(parts.within("search"), execution), parts.within("result")
    attributes = result.receipt_of(0) or result.finish(0, plain(
        _searched(Search(X, k, metric, random_state, execution, steps, sizes), target, parts)))
    steps.parts.remove()
    result.remove()
    recall, overlaps = attributes["recall"], " and ".join(f"{overlap:.1f}" for overlap in attributes["overlaps"])
    require(recall["lower"] >= target, f"the neighbor lists have a recall of {recall['recall']:.3f}, certified "
            f"{recall['lower']:.3f}, and recall={target} is required", error=DataError,
            why=f"each row was searched in {overlaps} leaves, and joined {attributes['joins']} times; noise in many "
                f"columns, many dense groups, or more than {MAX_OUTLIERS} outliers make partitions miss neighbors",
            fix=f"use the method exact, {exact_hours(n):.2g} hours of one core or less; or scale the columns, ask for "
                "a lower recall, or raise memory_budget")
    return attributes


def _searched(search: Search, target: float, parts: Parts) -> dict[str, Any]:
    """Write the neighbor lists; return their attributes."""
    n = len(search.X)
    projection = search.fit_projection()
    sampled_rows = sampled_ids(n, SAMPLE, search.random_state)
    true = search.find_truth(sampled_rows).read(0)
    wanted = np.union1d(sampled_rows, true["ids"])
    ordered, positions, n_outliers = search.order(projection, wanted)
    truth = search.execution.share(place=positions[np.searchsorted(wanted, sampled_rows)],
                                   near=positions[np.searchsorted(wanted, true["ids"])])
    lists = PermutedLists(search, ordered, truth, true["ids"].size)
    overlaps, joins = lists.improve(projection, target)
    measured, filled = lists.measure(search_outliers=n_outliers <= MAX_OUTLIERS)
    parts.allocate("order", (n,), np.int64, search.sizes.range_rows)
    search.execution.map([WriteTask(ordered, measured, start, stop, number)
                          for number, (start, stop) in enumerate(search.ranges())], parts)
    is_true_neighbor = parts.rows("distances").take(sampled_rows) <= stored_distances(true["distances"])[:, -1:]
    return {"ordered": True, "blocks": len(lists.blocks), "overlaps": overlaps, "joins": joins,
            "filled_exactly": filled, "recall": recall_of(is_true_neighbor, search.random_state)}

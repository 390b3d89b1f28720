"""Approximate neighbors beyond one task: leaves that overlap, searched one a task, and joins across their borders.

    route    a task a range of rows: each row to its block, the home leaf of its nearest cell (`partitions.py`)
    order    a task a block: its rows and their coordinates, ordered so that near ones lie together. Their numbers in
             that order, block after block, are their places; from here on lists hold places
    spread   a task a block: the coordinates of each row to every leaf that it belongs to
    search   a task a leaf: near rows by local joins in memory (`local_joins.py`), to the blocks that own the rows
    merge    a task a block: the nearest of what leaves or joins found, each once
    join     a task a block: who has two rows for neighbors offers them to each other, to the blocks that own them
    measure  a task a block: the lists measured in float64 from the rows, to the ranges of rows they belong to
    write    a task a range: lists in the order of the rows

Merge and join are repeated until sampled rows have the recall that is asked for, then all from `spread` on with leaves
that overlap more. Where leaves and borders lie follows from the sample, the seed and the memory budget; no task carries
or holds more than its block and the rows near it.

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
from .partitions import Cells, View, fit_cells
from .permutation import CELLS, Ordered, Places
from .sizes import EXTRA, FULL, OVERLAPS, Sizes, chunk_rows_by_place, least_leaves, sample_rows, task_sizes
from .tasks import OrderTask, RouteTask, SampleTask, SearchTask, SpreadTask, view_arrays, view_of

JOINS, LEAST_GAIN = 4, 0.002  # rounds of joins at most; and the gain of recall below which one more is not worth it
CROWDED, ATTEMPTS = 1.3, 6  # times as many leaves, where one got more rows than fit; and how often
FEW_FAR = 500  # rows far beyond all others, of which so many are searched exactly


@dataclass(frozen=True)
class Search:
    """A search under way: its rows and parameters, what fits its tasks, and the steps that it takes."""

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

    def view(self) -> Parts:
        """Return how rows are seen, as part 0, and the coordinates `seen` of a sample of them, as part 1; check all.
        """
        n = len(self.X)
        wide = self.X.shape[1] * measured_itemsize(self.X.dtype, self.metric)
        most = sample_rows(n, wide, self.execution.memory_budget)
        sampled, largest = self.steps.map("sample", lambda place: [
            SampleTask(self.X, self.metric, start, stop, -(-most * (stop - start) // n))
            for start, stop in self.ranges()], lambda receipts: {
                "largest": max(receipt["largest"] for receipt in receipts)})
        require_squares(largest["largest"], self.X.dtype)

        def fit(place: Parts) -> Receipt:
            sample = np.concatenate([sampled.read(index)["rows"] for index in range(len(self.ranges()))])
            with one_thread():
                view = View.of(sample)
                place.write(0, view_arrays(view))
                place.write(1, {"seen": view.coordinates(sample)})
            return {}

        return self.steps.run("view", fit, [sampled])[0]

    def true(self, chosen: np.ndarray) -> Parts:
        """Return `distances` (q, k) and `ids` of the true neighbors of rows `chosen`, as part 0."""
        def find(place: Parts) -> Receipt:
            truth = true_neighbors(self.X, chosen, np.full((len(chosen), self.k), -1), self.metric, self.execution,
                                   place.within("shares"))
            place.write(0, {name: truth[name] for name in ("distances", "ids")})
            return {}

        place, _ = self.steps.run("true", find)
        place.within("shares").remove()
        return place

    def cells(self, view: Parts, leaves: int, rows: int, most: int, reach: float, attempt: int
              ) -> tuple[Arrays, int] | None:
        """Return cells as tasks load them, and their leaves: `leaves` or more, and each of at most `rows` rows, as a
        sample has it; None if there are none.

        most, reach : of `Cells.members`. attempt : 0 or more, each divides the rows otherwise.
        """
        def fit(place: Parts) -> Receipt:
            seen = view.read(1)["seen"]
            with one_thread():
                cells = self._fitting(seen, leaves, rows, most, reach, attempt)
            if cells is None:
                return {"leaves": 0}
            place.write(0, {**view.read(0), "centers": cells.centers, "leaf": cells.leaf})
            return {"leaves": cells.leaves}

        place, fitted = self.steps.run("cells", fit)
        return (place.arrays(0), fitted["leaves"]) if fitted["leaves"] else None

    def _fitting(self, seen: np.ndarray, leaves: int, rows: int, most: int, reach: float, attempt: int
                 ) -> Cells | None:
        for _ in range(ATTEMPTS):
            cells = fit_cells(seen, leaves, block_rng(self.random_state, CELLS, attempt), rotated=attempt > 0)
            held = np.bincount(cells.members(seen, most, reach)[1]).max() / len(seen) * len(self.X)
            if held <= FULL * rows or cells.leaves == 1 == leaves:
                return cells
            leaves = int(np.ceil(leaves * max(CROWDED, held / rows)))
            if leaves > len(seen) // 8:
                break
        return None

    def order(self, view: Parts, wanted: np.ndarray) -> tuple[Ordered, np.ndarray, int]:
        """Return the rows by place, the places of the `wanted` rows, which ascend, and the number of far rows."""
        leaves = max(least_leaves(len(self.X)), -(-len(self.X) // int(FULL * self.sizes.block_rows)))
        for _ in range(ATTEMPTS):
            to_order = self.cells(view, leaves, self.sizes.block_rows, 1, 1.0, 0)
            if to_order is None:
                break
            fitted, leaves = to_order
            routed, sent = self.steps.map("routed", self._routes(fitted), lambda receipts: {
                "counts": np.sum([receipt["counts"] for receipt in receipts], axis=0).tolist()})
            if max(sent["counts"]) <= self.sizes.block_rows:
                return self._ordered(view, fitted, routed, np.array(sent["counts"]), wanted)
            routed.remove()
            leaves = int(np.ceil(leaves * CROWDED))
        raise _undivided(self.sizes.block_rows, self.execution.memory_budget, len(self.X))

    def _routes(self, fitted: Arrays) -> Callable[[Parts], list[RouteTask]]:
        return lambda place: [RouteTask(self.X, self.metric, fitted, start, stop) for start, stop in self.ranges()]

    def _ordered(self, view: Parts, fitted: Arrays, routed: Parts, counts: np.ndarray,
                 wanted: np.ndarray) -> tuple[Ordered, np.ndarray, int]:
        n, d = self.X.shape
        chunk = chunk_rows_by_place(n, len(counts))
        places = Places.of(counts, chunk)
        require(int(places.starts[-1]) < 2**31, f"{n:,} rows", why="places are kept in 32 bits", error=DataError,
                fix="search a sample of them")
        held = self.execution.share(starts=places.starts, counts=places.counts)
        dtype = np.dtype(np.float32 if measured_itemsize(self.X.dtype, self.metric) == 4 else np.float64)
        axes = view_of(view.read(0)).axes

        def tasks(place: Parts) -> list[OrderTask]:
            for name, width, kind in (("rows", (d,), dtype), ("seen", (axes,), np.float32), ("row", (), np.int64)):
                place.allocate(name, (int(places.starts[-1]), *width), kind, chunk)
            shared = self.execution.share(rows=wanted)
            return [OrderTask(routed, len(self.ranges()), fitted, held, shared, block) for block in range(len(counts))]

        parts, ordered = self.steps.map("ordered", tasks, lambda receipts: {
            "far": sum(receipt["far"] for receipt in receipts)}, [routed])
        parts_of_order = [parts.read(block) for block in range(len(counts))]
        rows, place = (np.concatenate([part[name] for part in parts_of_order]) for name in ("wanted", "place"))
        return Ordered(parts, held, chunk), place[np.argsort(rows)], ordered["far"]


def _undivided(rows: int, budget: int, n: int) -> BudgetError:
    return BudgetError(explain(
        f"more than {rows:,} rows lie too near each other, or too evenly, to be divided",
        why=f"rows that may be near are searched together, by a task of {budget:,} bytes: so it is with many copies, "
            "and with noise in many columns",
        fix=f"use the method exact, {exact_hours(n):.2g} hours of one core or less; or raise memory_budget, or let "
            "duplicates collapse"))


def exact_hours(n: int) -> float:
    """Return the hours that an exact search of n rows takes on one core, or more."""
    return TILE_PAIR_NS * 1e-9 * n * n / 3600


@dataclass
class Lists:
    """The lists by place of a search, made better step by step; `share` of the sampled neighbors are in them."""

    search: Search
    ordered: Ordered
    truth: Arrays
    trials: int
    stored: Parts | None = None
    share: float = 0.0

    @property
    def blocks(self) -> range:
        """Return the numbers of the blocks."""
        return range(len(self.ordered.places.counts))

    def _allocate(self, place: Parts, **arrays: tuple[int, type]) -> None:
        """Make shared arrays by place of these widths and types."""
        for name, (width, dtype) in arrays.items():
            place.allocate(name, (int(self.ordered.places.starts[-1]), width), dtype, self.ordered.chunk)

    def search_leaves(self, view: Parts, most: int, reach: float, candidates: int, attempt: int) -> float | None:
        """Search leaves that fit, and merge what they find; return the leaves a row is in, None if there are none."""
        search, steps = self.search, self.search.steps
        least = max(least_leaves(len(search.X)), -(-len(search.X) // search.sizes.leaf_rows))
        for _ in range(ATTEMPTS):
            cells = search.cells(view, least, search.sizes.leaf_rows, most, reach, attempt)
            if cells is None:
                return None
            fitted, leaves = cells
            spread, sent = steps.map("spread", self._spreads(fitted, most, reach), _largest_and_all)
            if sent["largest"] <= search.sizes.leaf_rows:
                self._search(spread, leaves, candidates, attempt)
                return float(sent["all"] / len(search.X))
            spread.remove()
            least = int(np.ceil(leaves * CROWDED))
        return None

    def _spreads(self, fitted: Arrays, most: int, reach: float) -> Callable[[Parts], list[SpreadTask]]:
        return lambda place: [SpreadTask(self.ordered, fitted, most, reach, block) for block in self.blocks]

    def _search(self, spread: Parts, leaves: int, candidates: int, attempt: int) -> None:
        width, random_state = self.search.k + EXTRA, self.search.random_state
        searched, _ = self.search.steps.map("found", lambda place: [
            SearchTask(self.ordered, spread, width, candidates, random_state, attempt, leaf) for leaf in range(leaves)],
            used=[spread])
        self._merge(searched, leaves, self.stored)

    def improve(self, view: Parts, target: float) -> tuple[list[float], int]:
        """Search and join until sampled rows have the recall; return the leaves a row was in each time, and the joins.

        Raise BudgetError where no leaves fit the memory budget.
        """
        overlaps, joins = [], 0
        for attempt, (most, reach, candidates) in enumerate(OVERLAPS):
            overlap = self.search_leaves(view, most, reach, candidates, attempt)
            if overlap is None:
                break
            overlaps.append(round(overlap, 3))
            gain = 1.0
            for _ in range(JOINS):
                if self._reaches(target) or gain < LEAST_GAIN:
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

    def join(self, turn: int) -> None:
        """Join the lists, and merge what that finds; turn : a number that no other join has."""
        search, stored = self.search, self.stored
        assert stored is not None

        def tasks(place: Parts) -> list[JoinTask]:
            self._allocate(place, flags=(search.k + EXTRA, np.uint8))
            return [JoinTask(self.ordered, stored, search.sizes.near_rows, search.random_state, turn, block)
                    for block in self.blocks]

        joined, _ = search.steps.map("joined", tasks)
        self._merge(joined, len(self.blocks), joined)

    def _merge(self, candidates: Parts, writers: int, flags: Parts | None) -> None:
        width, before = self.search.k + EXTRA, self.stored

        def tasks(place: Parts) -> list[MergeTask]:
            self._allocate(place, distances=(width, np.float32), ids=(width, np.int32), flags=(width, np.uint8))
            return [MergeTask(self.ordered, candidates, writers, before, flags, self.truth, width, block)
                    for block in self.blocks]

        inputs = [candidates] if before is None else [candidates, before]
        self.stored, merged = self.search.steps.map("lists", tasks, lambda receipts: {
            "hits": sum(receipt["hits"] for receipt in receipts)}, inputs)
        self.share = merged["hits"] / self.trials

    def measure(self, few_far: bool) -> tuple[Parts, int]:
        """Return the lists as they are measured, for the ranges of rows; and how many rows were searched exactly.

        few_far : rows far beyond all others are among them, for they are few.
        """
        search, stored, sizes = self.search, self.stored, self.search.sizes
        assert stored is not None
        measured, filled = search.steps.map("measured", lambda place: [
            MeasureTask(self.ordered, stored, search.X, search.metric, search.k, sizes.near_rows, sizes.fill_rows,
                        sizes.range_rows, few_far, block) for block in self.blocks], lambda receipts: {
                            "exactly": sum(receipt["filled_exactly"] for receipt in receipts)}, [stored])
        return measured, filled["exactly"]


def _largest_and_all(receipts: list[Receipt]) -> Receipt:
    """Return the rows of the largest leaf, and those of all leaves."""
    counts = np.sum([receipt["counts"] for receipt in receipts], axis=0)
    return {"largest": int(counts.max()), "all": int(counts.sum())}


def find_partitioned(X: Rows, k: int, metric: str, random_state: int, target: float, execution: Execution,
                     parts: Parts) -> dict[str, Any]:
    """Write the lists of dense rows (n, d), and the row at each place; return what is known of them.

    target : certified recall to reach. parts : of which `ids` and `distances` are allocated, in chunks of `list_rows`;
    `order` (n,), the row at each place, is allocated here.

    Raises
    ------
    DataError : sparse rows, or such as have no distances, see `check_rows`; or no partition reaches the recall.
    BudgetError : rows that belong together do not fit the memory budget.
    """
    require(not X.is_sparse, "sparse rows cannot be partitioned", error=DataError,
            why="cells have means, which would fill every column", fix="use the method exact, or auto")
    n, d = X.shape
    trials = min(n, SAMPLE) * k
    most = wilson_lower(trials, trials)
    require(target <= most, f"recall={target}, and {trials:,} neighbors of sampled rows certify {most:.5f} at most",
            why="that is their bound where all of them are found", error=DataError,
            fix="use the method exact, or ask for a lower recall")
    sizes = task_sizes(n, d, measured_itemsize(X.dtype, metric), k, execution.memory_budget)
    # The result is recorded before what it follows from is removed, which takes a while.
    steps, result = Steps(parts.within("search"), execution), parts.within("result")
    attributes = result.receipt_of(0) or result.finish(0, plain(
        _found(Search(X, k, metric, random_state, execution, steps, sizes), target, parts)))
    steps.parts.remove()
    result.remove()
    recall, overlaps = attributes["recall"], " and ".join(f"{overlap:.1f}" for overlap in attributes["overlaps"])
    require(recall["lower"] >= target, f"the lists found have a recall of {recall['recall']:.3f}, certified "
            f"{recall['lower']:.3f}, and {target} is asked for", error=DataError,
            why=f"rows were searched in {overlaps} leaves each, and joined {attributes['joins']} times: so it is with "
                "noise in many columns, many dense groups, and where "
                f"more than {FEW_FAR} rows lie far beyond all others",
            fix=f"use the method exact, {exact_hours(n):.2g} hours of one core or less; or scale the columns, ask for "
                "a lower recall, or raise memory_budget")
    return attributes


def _found(search: Search, target: float, parts: Parts) -> dict[str, Any]:
    """Write the lists; return what is known of them."""
    n, view, chosen = len(search.X), search.view(), sampled_ids(len(search.X), SAMPLE, search.random_state)
    true = search.true(chosen).read(0)
    wanted = np.union1d(chosen, true["ids"])
    ordered, place, far = search.order(view, wanted)
    truth = search.execution.share(place=place[np.searchsorted(wanted, chosen)],
                                   near=place[np.searchsorted(wanted, true["ids"])])
    lists = Lists(search, ordered, truth, true["ids"].size)
    overlaps, joins = lists.improve(view, target)
    measured, filled = lists.measure(few_far=far <= FEW_FAR)
    parts.allocate("order", (n,), np.int64, search.sizes.range_rows)
    search.execution.map([WriteTask(ordered, measured, start, stop, number)
                          for number, (start, stop) in enumerate(search.ranges())], parts)
    reached = parts.rows("distances").take(chosen) <= stored_distances(true["distances"])[:, -1:]
    return {"ordered": True, "blocks": len(lists.blocks), "overlaps": overlaps, "joins": joins,
            "filled_exactly": filled, "recall": recall_of(reached, search.random_state)}

"""Approximate neighbors beyond one task: leaves that overlap, searched one a task, and joins across their borders.

    route    a task a range of rows: each row to its block, the home leaf of its nearest cell (`cells.py`)
    order    a task a block: its rows and their coordinates, ordered so that near ones lie together. Their numbers in
             that order, block after block, are their places; from here on lists hold places
    spread   a task a block: the coordinates of each row to every leaf that it belongs to
    search   a task a leaf: near rows by local joins in memory (`join.py`), to the blocks that own the rows
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

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import BudgetError, DataError, explain, require
from ..execution.tasks import Execution, one_thread
from ..storage.blocks import Arrays, Parts, Rows, row_ranges
from .cells import Cells, View, fit_cells
from .exact import TILE_PAIR_NS
from .join import CANDIDATES, MOST_CANDIDATES
from .join_tasks import JoinTask, MeasureTask, MergeTask, WriteTask
from .metric import measured_itemsize, require_squares, stored_distances
from .partition_sizes import EXTRA, FULL, Sizes, least_leaves, sample_rows, task_sizes
from .partition_tasks import OrderTask, RouteTask, SampleTask, SearchTask, SpreadTask, fitted_arrays
from .places import Ordered, Places
from .recall import SAMPLE, recall_of, sampled_ids, true_neighbors, wilson_lower

# (leaves a row may belong to, how much farther than its home they may be, candidates of a join in a leaf), tried one
# after the other
OVERLAPS = ((4, 1.15, CANDIDATES), (12, 1.6, MOST_CANDIDATES))
JOINS, LEAST_GAIN = 4, 0.002  # rounds of joins at most; and the gain of recall below which one more is not worth it
CROWDED, ATTEMPTS = 1.3, 6  # times as many leaves, where one got more rows than fit; and how often
LEAST_CHUNK, MOST_CHUNK = 64, 4096  # rows of a chunk of what is stored by place


@dataclass(frozen=True)
class Search:
    """A search under way: its rows and parameters, what fits its tasks, and where its steps write."""

    X: Rows
    k: int
    metric: str
    seed: int
    execution: Execution
    parts: Parts
    sizes: Sizes

    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges of rows that tasks read."""
        return row_ranges(len(self.X), self.sizes.range_rows)

    def fit(self) -> tuple[View, np.ndarray]:
        """Return how rows are seen, and the coordinates of a sample of them; check all rows."""
        n, parts = len(self.X), self.parts.within("sample")
        wide = self.X.shape[1] * measured_itemsize(self.X.dtype, self.metric)
        most = sample_rows(n, wide, self.execution.memory_budget)
        receipts = self.execution.map([SampleTask(self.X, self.metric, start, stop, -(-most * (stop - start) // n))
                                       for start, stop in self.ranges()], parts)
        require_squares(max(receipt["largest"] for receipt in receipts), self.X.dtype)
        sample = np.concatenate([parts.read(index)["rows"] for index in range(len(receipts))])
        with one_thread():
            view = View.of(sample)
            return view, view.coordinates(sample)

    def cells(self, seen: np.ndarray, leaves: int, rows: int, most: int, reach: float, seed: int) -> Cells | None:
        """Return cells of `leaves` leaves or more that have at most `rows` rows, as a sample has it; None if none do.

        most, reach : of `Cells.members`.
        """
        for _ in range(ATTEMPTS):
            with one_thread():
                cells = fit_cells(seen, leaves, seed)
                held = np.bincount(cells.members(seen, most, reach)[1]).max() / len(seen) * len(self.X)
            if held <= FULL * rows or cells.leaves == 1 == leaves:
                return cells
            leaves = int(np.ceil(leaves * max(CROWDED, held / rows)))
            if leaves > len(seen) // 8:
                break
        return None

    def order(self, view: View, seen: np.ndarray, wanted: np.ndarray) -> tuple[Ordered, np.ndarray]:
        """Return the rows by place, and the places of the `wanted` rows, which ascend."""
        leaves = max(least_leaves(len(self.X)), -(-len(self.X) // int(FULL * self.sizes.block_rows)))
        for attempt in range(ATTEMPTS):
            cells = self.cells(seen, leaves, self.sizes.block_rows, 1, 1.0, self.seed)
            if cells is None:
                break
            fitted = self.execution.share(**fitted_arrays(view, cells.centers, leaf=cells.leaf))
            routed = self.parts.within(f"routed{attempt}")
            receipts = self.execution.map([RouteTask(self.X, self.metric, fitted, start, stop)
                                           for start, stop in self.ranges()], routed)
            counts = np.sum([receipt["counts"] for receipt in receipts], axis=0)
            if counts.max() <= self.sizes.block_rows:
                return self._ordered(view, fitted, routed, counts, wanted)
            routed.remove()
            leaves = int(np.ceil(leaves * CROWDED))
        raise _undivided(self.sizes.block_rows, self.execution.memory_budget, len(self.X))

    def _ordered(self, view: View, fitted: Arrays, routed: Parts, counts: np.ndarray,
                 wanted: np.ndarray) -> tuple[Ordered, np.ndarray]:
        n, d = self.X.shape
        chunk = min(MOST_CHUNK, max(LEAST_CHUNK, 2 ** int(np.log2(max(1, n // len(counts) // 8)))))
        places, parts = Places.of(counts, chunk), self.parts.within("ordered")
        require(int(places.starts[-1]) < 2**31, f"{n:,} rows", why="places are kept in 32 bits", error=DataError,
                fix="search a sample of them")
        dtype = np.dtype(np.float32 if measured_itemsize(self.X.dtype, self.metric) == 4 else np.float64)
        for name, width, kind in (("rows", (d,), dtype), ("seen", (view.axes,), np.float32), ("row", (), np.int64)):
            parts.allocate(name, (int(places.starts[-1]), *width), kind, chunk)
        held = self.execution.share(starts=places.starts, counts=places.counts)
        shared = self.execution.share(rows=wanted)
        self.execution.map([OrderTask(routed, len(self.ranges()), fitted, held, shared, block)
                            for block in range(len(counts))], parts)
        routed.remove()
        found = [parts.read(block) for block in range(len(counts))]
        rows, place = (np.concatenate([own[name] for own in found]) for name in ("wanted", "place"))
        return Ordered(parts, held, chunk), place[np.argsort(rows)]


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
    steps: int = 0

    def _parts(self, name: str, **arrays: tuple[int, type]) -> Parts:
        """Return a place of its own for a step, with shared arrays by place of these widths."""
        parts = self.search.parts.within(f"{name}{self.steps}")
        size, chunk = int(self.ordered.places.starts[-1]), self.ordered.chunk
        for array, (width, dtype) in arrays.items():
            parts.allocate(array, (size, width), dtype, chunk)
        return parts

    def search_leaves(self, view: View, cells: Cells, most: int, reach: float, candidates: int) -> float | None:
        """Search the leaves and merge what they find; return the leaves a row is in, None where they got too many."""
        search, run = self.search, self.search.execution
        blocks = range(len(self.ordered.places.counts))
        fitted = run.share(**fitted_arrays(view, cells.centers, leaf=cells.leaf))
        spread = self._parts("spread")
        receipts = run.map([SpreadTask(self.ordered, fitted, most, reach, block) for block in blocks], spread)
        counts = np.sum([receipt["counts"] for receipt in receipts], axis=0)
        if counts.max() > search.sizes.leaf_rows:
            spread.remove()
            return None
        found = self._parts("found")
        run.map([SearchTask(self.ordered, spread, search.k + EXTRA, candidates, search.seed + leaf, leaf)
                 for leaf in range(cells.leaves)], found)
        spread.remove()
        self._merge(found, cells.leaves, self.stored)
        return float(counts.sum() / len(search.X))

    def improve(self, view: View, seen: np.ndarray, target: float) -> tuple[list[float], int]:
        """Search and join until sampled rows have the recall; return the leaves a row was in each time, and the joins.

        Raise BudgetError where no leaves fit the memory budget.
        """
        overlaps, joins = [], 0
        for attempt, (most, reach, candidates) in enumerate(OVERLAPS):
            overlap = self._searched(view, seen, most, reach, candidates, attempt)
            if overlap is None:
                break
            overlaps.append(round(overlap, 3))
            gain = 1.0
            for _ in range(JOINS):
                if self._reaches(target) or gain < LEAST_GAIN:
                    break
                gain = -self.share
                self.join()
                gain, joins = gain + self.share, joins + 1
            if self._reaches(target):
                break
        if not overlaps:
            raise _undivided(self.search.sizes.leaf_rows, self.search.execution.memory_budget, len(self.search.X))
        return overlaps, joins

    def _reaches(self, target: float) -> bool:
        return wilson_lower(round(self.share * self.trials), self.trials) >= target

    def _searched(self, view: View, seen: np.ndarray, most: int, reach: float, candidates: int,
                  attempt: int) -> float | None:
        """Search leaves that fit; return the leaves a row is in, None where there are no such leaves."""
        search = self.search
        leaves = max(least_leaves(len(search.X)), -(-len(search.X) // search.sizes.leaf_rows))
        for _ in range(ATTEMPTS):
            cells = search.cells(seen, leaves, search.sizes.leaf_rows, most, reach, search.seed + attempt)
            if cells is None:
                return None
            overlap = self.search_leaves(view, cells, most, reach, candidates)
            if overlap is not None:
                return overlap
            leaves = int(np.ceil(cells.leaves * CROWDED))
        return None

    def write(self, parts: Parts) -> int:
        """Measure the lists, and write them in the order of the rows; return how many rows were searched exactly."""
        search, run, ordered = self.search, self.search.execution, self.ordered
        assert self.stored is not None
        height, measured = search.sizes.range_rows, search.parts.within("measured")
        receipts = run.map([MeasureTask(ordered, self.stored, search.X, search.metric, search.k, search.sizes.near_rows,
                                        height, block) for block in range(len(ordered.places.counts))], measured)
        parts.allocate("order", (len(search.X),), np.int64, height)
        run.map([WriteTask(ordered, measured, start, stop, number)
                 for number, (start, stop) in enumerate(search.ranges())], parts)
        return sum(receipt["filled_exactly"] for receipt in receipts)

    def join(self) -> None:
        """Join the lists, and merge what that finds."""
        assert self.stored is not None
        joined = self._parts("joined", flags=(self.search.k + EXTRA, np.uint8))
        blocks = range(len(self.ordered.places.counts))
        self.search.execution.map([
            JoinTask(self.ordered, self.stored, self.search.sizes.near_rows, self.search.seed + self.steps, block)
            for block in blocks], joined)
        self._merge(joined, len(blocks), joined)

    def _merge(self, found: Parts, writers: int, flags: Parts | None) -> None:
        width, before = self.search.k + EXTRA, self.stored
        stored = self._parts("lists", distances=(width, np.float32), ids=(width, np.int32), flags=(width, np.uint8))
        receipts = self.search.execution.map([
            MergeTask(self.ordered, found, writers, before, flags, self.truth, width, block)
            for block in range(len(self.ordered.places.counts))], stored)
        self.share = sum(receipt["hits"] for receipt in receipts) / self.trials
        self.stored, self.steps = stored, self.steps + 1
        found.remove()
        if before is not None:
            before.remove()


def find_partitioned(X: Rows, k: int, metric: str, seed: int, target: float, execution: Execution,
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
    search = Search(X, k, metric, seed, execution, parts.within("search"), sizes)
    view, seen = search.fit()
    chosen = sampled_ids(n, SAMPLE, seed)
    true = true_neighbors(X, chosen, np.full((len(chosen), k), -1), metric, execution)
    wanted = np.union1d(chosen, true["ids"])
    ordered, place = search.order(view, seen, wanted)
    truth = execution.share(place=place[np.searchsorted(wanted, chosen)],
                            near=place[np.searchsorted(wanted, true["ids"])])
    lists = Lists(search, ordered, truth, true["ids"].size)
    overlaps, joins = lists.improve(view, seen, target)
    filled = lists.write(parts)
    recall = recall_of(parts.rows("distances").take(chosen) <= stored_distances(true["distances"])[:, -1:], seed)
    search.parts.remove()
    require(recall["lower"] >= target, f"the lists found have a recall of {recall['recall']:.3f}, certified "
            f"{recall['lower']:.3f}, and {target} is asked for", error=DataError,
            why=f"rows were searched in {' and '.join(f'{overlap:.1f}' for overlap in overlaps)} leaves each, and "
                f"joined {joins} times: so it is with noise in many columns, many dense groups, and where a few rows "
                "lie far beyond all others",
            fix=f"use the method exact, {exact_hours(n):.2g} hours of one core or less; or scale the columns, drop "
                "rows far beyond the others, ask for a lower recall, or raise memory_budget")
    return {"ordered": True, "blocks": len(ordered.places.counts), "overlaps": overlaps, "joins": joins,
            "filled_exactly": filled, "recall": recall}

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
is repeated with leaves that overlap more and longer lists. Then all pairs of rows are compared by their
coordinates, and at last exactly, if that takes no longer than the plan states. Leaves and borders follow
from the sample, the seed and the memory budget. No task holds more than its block and the rows near it.

The scan of all pairs is by matrix products, in the same time whatever the rows are.
With both rows relative to the mean of a tile of near queries, |q - z|^2 = |q|^2 - 2 (q z - |z|^2 / 2): the largest
products belong to the nearest rows, and near rows lose few digits in the difference.

Chen, Fang, Saad, "Fast approximate kNN graph construction for high dimensional data via recursive Lanczos bisection",
JMLR 10, 2009, section 3: overlap and refinement. Dong, Moses, Li, WWW 2011: local joins.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from ...base.digest import JsonObject, plain
from ...base.errors import DataError, require
from ...execution.cost import block_count
from ...execution.exchange.shuffle import scatter
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from ..metric import stored_distances
from ..recall import recall_of, wilson_lower
from ..squared_distances import EMPTY, candidate_distances, empty_heaps, sift_down
from .partitions import PermutedRows
from .running import ATTEMPTS, GROWTH, Search, undivided
from .sizes import (
    JOINS,
    LONGEST,
    MAX_EXTRA,
    ROUNDS,
    Round,
    exact_hours,
    exact_seconds,
    join_seconds,
    min_leaves,
    partitioned_seconds,
    round_seconds,
    scan_seconds,
)
from .tasks import JoinTask, MeasureTask, MergeTask, SearchTask, SpreadTask, WriteTask, numbers_of, within

QUERY_ROWS, POINT_ROWS = 256, 512  # rows of a product
MIN_GAIN = 0.002  # gain of recall below which a round joins no more


@njit(nogil=True, cache=True)
def _keep_largest(products, first_query, first_point, values, ids):
    """Update the largest products of each query, as heaps (q, k) of negative products, with ids of their points."""
    for row in range(products.shape[0]):
        line, heap, heap_ids = products[row], values[row], ids[row]
        smallest = np.float32(-heap[0])
        for column in range(products.shape[1]):
            if line[column] > smallest and first_point + column != first_query + row:
                heap[0], heap_ids[0] = -np.float64(line[column]), first_point + column
                sift_down(heap, heap_ids, 0, heap.shape[0])
                smallest = np.float32(-heap[0])


def scan(queries: np.ndarray, first_query: int, points: np.ndarray, first_point: int, values: np.ndarray,
         ids: np.ndarray) -> None:
    """Update the heaps (q, k) of the queries (q, a) with points (p, a); both have consecutive numbers.

    values, ids : as of `_keep_largest`; all points must be scanned with the same queries, whose medians are subtracted.
    """
    for start, stop in row_ranges(len(queries), QUERY_ROWS):
        center = np.median(queries[start:stop], axis=0)  # which no outlier moves
        tile = np.append(queries[start:stop] - center, np.ones((stop - start, 1), np.float32), axis=1)
        for low, high in row_ranges(len(points), POINT_ROWS):
            near = np.empty((high - low, tile.shape[1]), np.float32)
            np.subtract(points[low:high], center, out=near[:, :-1])
            near[:, -1] = np.einsum("ij,ij->i", near[:, :-1], near[:, :-1]) / -2
            _keep_largest(tile @ near.T, first_query + start, first_point + low, values[start:stop], ids[start:stop])


@dataclass(frozen=True)
class ScanTask:
    """Find the nearest of all rows to each row of a block, by coordinates, and send them to the block itself.

    entries : candidates of each row. max_nearby_rows : rows in memory at a time beside those of the block.
    """

    ordered: PermutedRows
    entries: int
    max_nearby_rows: int
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        positions, seen = self.ordered.positions, self.ordered.parts.rows("seen")
        start, stop = positions.span(self.block)
        queries = seen.read(start, stop)
        values, ids = empty_heaps(len(queries), self.entries)
        for block in range(len(positions.counts)):
            first, last = positions.span(block)
            for low, high in row_ranges(last - first, self.max_nearby_rows):
                scan(queries, start, seen.read(first + low, first + high), first + low, values, ids)
        del values
        ids = np.where(ids == EMPTY, -1, ids).astype(np.int32)
        distances = np.empty(ids.shape, np.float32)
        for run, used in within(np.arange(len(ids)), [ids], self.max_nearby_rows):
            distances[run] = candidate_distances(queries[run], seen.take(used), numbers_of(ids[run], used))
        place = np.arange(start, stop, dtype=np.int32)
        return scatter(out, positions.block(place), len(positions.counts), place=place, ids=ids, distances=distances,
                       flag=np.zeros(len(place), np.uint8))


@dataclass
class PermutedLists:
    """The neighbor lists of permuted rows, improved round by round.

    share : the recall on the sampled rows.
    overlaps : the leaves a row of each round. joins : their number in all rounds.
    seconds : the predicted seconds of all that was done.
    is_scanned : whether all pairs of rows were compared by their coordinates.
    is_exact : whether all rows are searched exactly when they are measured.
    """

    search: Search
    ordered: PermutedRows
    truth: Arrays
    trials: int
    stored: Parts | None = None
    share: float = 0.0
    overlaps: list[float] = field(default_factory=list)
    joins: int = 0
    seconds: float = 0.0
    is_scanned: bool = False
    is_exact: bool = False

    @property
    def blocks(self) -> range:
        """Return the numbers of the blocks."""
        return range(len(self.ordered.positions.counts))

    def _allocate(self, step_parts: Parts, **arrays: tuple[int, type]) -> None:
        """Allocate shared permuted arrays of these widths and types."""
        for name, (width, dtype) in arrays.items():
            step_parts.allocate(name, (int(self.ordered.positions.starts[-1]), width), dtype, self.ordered.chunk)

    def improve(self, projection: Parts, target: float) -> None:
        """Search in rounds until sampled rows reach the recall.

        Rounds in leaves are followed by a scan of all pairs of rows by their coordinates, and by an exact search. What
        takes longer than the scan, or would take the search beyond `LONGEST`, is left out. These are predicted seconds,
        so the rounds are the same on every machine.

        Raises BudgetError if neither leaves fit the memory budget nor a scan or an exact search that time.
        """
        search = self.search
        X, k = search.X, search.k
        longest, scanned = LONGEST * partitioned_seconds(X, k), scan_seconds(X)
        exact = exact_seconds(X, search.sizes.fill_rows)
        for number, width in enumerate(ROUNDS):
            max_seconds = min(scanned, longest - self.seconds) if number else np.inf
            if self._reaches(target) or not self._search_leaves(projection, width, number, max_seconds):
                break
            gain = 1.0
            for _ in range(JOINS):
                if self._reaches(target) or gain < MIN_GAIN:
                    break
                before = self.share
                self._join(width)
                gain = self.share - before
        if not self._reaches(target) and self.seconds + scanned <= longest:
            self._scan()
            self.seconds += scanned
        if not self._reaches(target) and self.seconds + exact <= longest:
            self.is_exact = True
            self.seconds += exact
        if self.stored is None and not self.is_exact:
            raise undivided(search.sizes.leaf_rows, search.execution.memory_budget, X)

    def _reaches(self, target: float) -> bool:
        return wilson_lower(round(self.share * self.trials), self.trials) >= target

    def _search_leaves(self, projection: Parts, width: Round, number: int, max_seconds: float) -> bool:
        """Search the leaves of a partition and merge the results; return whether one fits memory and the seconds."""
        search, steps = self.search, self.search.steps
        n, leaf_rows = len(search.X), search.sizes.leaf_rows
        n_leaves = max(min_leaves(n), block_count(n, leaf_rows))
        for _ in range(ATTEMPTS):
            partition = search.fit_partition(projection, n_leaves, leaf_rows, width.max_leaves, width.distance_ratio,
                                         number)
            if partition is None:
                return False
            fitted, leaves, overlap = partition
            seconds = round_seconds(search.X, search.k, width, overlap)
            if seconds > max_seconds:
                return False
            spread, sent = steps.map("spread", self._spreads(fitted, width), _largest_and_all)
            if sent["largest"] <= leaf_rows:
                self._search(spread, leaves, width, number)
                self.overlaps.append(round(sent["all"] / n, 3))
                self.seconds += seconds
                return True
            spread.remove()
            n_leaves = int(np.ceil(leaves * GROWTH))
        return False

    def _spreads(self, fitted: Arrays, width: Round) -> Callable[[Parts], list[SpreadTask]]:
        return lambda step_parts: [SpreadTask(self.ordered, fitted, width.max_leaves, width.distance_ratio, block)
                                   for block in self.blocks]

    def _search(self, spread: Parts, leaves: int, width: Round, number: int) -> None:
        entries, random_state = self.search.k + width.extra, self.search.random_state
        searched, _ = self.search.steps.map("searched", lambda step_parts: [
            SearchTask(self.ordered, spread, entries, width.candidates, random_state, number, leaf)
            for leaf in range(leaves)], used=[spread])
        self._merge(searched, leaves, self.stored, entries)

    def _join(self, width: Round) -> None:
        """Join the lists and merge the results."""
        search, stored, number, entries = self.search, self.stored, self.joins, self.search.k + width.extra
        assert stored is not None

        def tasks(step_parts: Parts) -> list[JoinTask]:
            self._allocate(step_parts, flags=(entries, np.uint8))
            return [JoinTask(self.ordered, stored, search.sizes.near_rows, search.random_state, number, block)
                    for block in self.blocks]

        joined, _ = search.steps.map("joined", tasks)
        self._merge(joined, len(self.blocks), joined, entries)
        self.joins += 1
        self.seconds += join_seconds(search.X)

    def _scan(self) -> None:
        """Scan all pairs of rows, and merge the results."""
        search, entries = self.search, self.search.k + MAX_EXTRA
        scanned, _ = search.steps.map("scanned", lambda step_parts: [
            ScanTask(self.ordered, entries, search.sizes.near_rows, block) for block in self.blocks])
        self._merge(scanned, len(self.blocks), self.stored, entries)
        self.is_scanned = True

    def _merge(self, candidates: Parts, writers: int, flags: Parts | None, entries: int) -> None:
        before = self.stored

        def tasks(step_parts: Parts) -> list[MergeTask]:
            self._allocate(step_parts, distances=(entries, np.float32), ids=(entries, np.int32),
                           flags=(entries, np.uint8))
            return [MergeTask(self.ordered, candidates, writers, before, flags, self.truth, entries, block)
                    for block in self.blocks]

        inputs = [candidates] if before is None else [candidates, before]
        self.stored, merged = self.search.steps.map("lists", tasks, lambda receipts: {
            "hits": sum(receipt["hits"] for receipt in receipts)}, inputs)
        self.share = merged["hits"] / self.trials

    def measure(self, search_outliers: bool) -> tuple[Parts, int]:
        """Return the measured lists, for the ranges of rows, and the number of rows that were searched exactly.

        search_outliers : whether outliers are among the latter, since they are few.
        """
        search, sizes, stored = self.search, self.search.sizes, self.stored
        measured, filled = search.steps.map("measured", lambda step_parts: [
            MeasureTask(self.ordered, None if self.is_exact else stored, search.X, search.metric, search.k,
                        sizes.near_rows, sizes.fill_rows, sizes.range_rows, search_outliers, block)
            for block in self.blocks], lambda receipts: {
                "exactly": sum(receipt["filled_exactly"] for receipt in receipts)}, [] if stored is None else [stored])
        return measured, filled["exactly"]


def _largest_and_all(receipts: list[Receipt]) -> Receipt:
    """Return the rows of the largest leaf, and those of all leaves."""
    counts = np.sum([receipt["counts"] for receipt in receipts], axis=0)
    return {"largest": int(counts.max()), "all": int(counts.sum())}


# ---- the search


RESULT = "result"  # the place of the attributes, until the parts of all steps are removed
MAX_OUTLIERS = 500  # outliers are searched exactly if there are no more than these


def is_partitioned(parts: Parts) -> bool:
    """Return whether a partitioned search into these parts has ended, of which only temporary parts may be left."""
    return parts.within(RESULT).receipt_of(0) is not None


def find_partitioned(search: Search, target: float, parts: Parts) -> JsonObject:
    """Write the neighbor lists of dense rows (n, d), and the permutation of the rows; return their attributes.

    target : the recall to certify.
    parts : those of the search; `ids` and `distances` are allocated already, in chunks of `list_rows`; `order` (n,),
        the permutation, is allocated here.

    Raises DataError: the rows are sparse or have no distances (`check_rows`), or the search does
    not reach the recall in `LONGEST` times the seconds of its first round, as its plan states.
    BudgetError: rows that have to be searched together do not fit the memory budget.
    """
    X, k = search.X, search.k
    require(not X.is_sparse, "sparse rows cannot be partitioned", error=DataError,
            why="the cells' means would be dense", fix="use the method exact, or auto")
    trials = len(search.certifying) * k
    bound = wilson_lower(trials, trials)
    require(target <= bound, f"recall={target}, and {trials:,} neighbors of sampled rows certify at most {bound:.5f}",
            why="that is the confidence bound if all of them are found", error=DataError,
            fix="use the method exact, or ask for a lower recall")
    # The result is recorded before the parts of its steps are removed, which takes a while.
    result = parts.within(RESULT)
    attributes = result.receipt_of(0) or result.finish(0, plain(_searched(search, target, parts)))
    search.steps.parts.remove()
    result.remove()
    recall, overlaps = attributes["recall"], " and ".join(f"{overlap:.1f}" for overlap in attributes["overlaps"])
    require(recall["lower"] >= target, f"the neighbor lists have a recall of {recall['recall']:.3f}, certified "
            f"{recall['lower']:.3f}, and recall={target} is required", error=DataError,
            why=f"each row was searched in {overlaps} leaves and joined {attributes['joins']} times, and more would "
                f"take longer than the planned {LONGEST * partitioned_seconds(X, k):.3g} seconds of one core; noise in "
                "many columns or many dense groups make partitions miss neighbors",
            fix=f"use the method exact, {exact_hours(X):.2g} hours of one core or less; or scale the columns, or ask "
                "for a lower recall")
    return attributes


def _searched(search: Search, target: float, parts: Parts) -> JsonObject:
    """Write the neighbor lists; return their attributes."""
    n = len(search.X)
    sampled_rows, true = search.certifying, search.find_truth().read(0)
    projection = search.fit_projection()
    wanted = np.union1d(sampled_rows, true["ids"])
    ordered, positions, n_outliers = search.order(projection, wanted)
    truth = search.execution.share(place=positions[np.searchsorted(wanted, sampled_rows)],
                                   near=positions[np.searchsorted(wanted, true["ids"])])
    lists = PermutedLists(search, ordered, truth, true["ids"].size)
    lists.improve(projection, target)
    measured, filled = lists.measure(search_outliers=n_outliers <= MAX_OUTLIERS)
    parts.allocate("order", (n,), np.int64, search.sizes.range_rows)
    search.execution.map([WriteTask(ordered, measured, start, stop, number)
                          for number, (start, stop) in enumerate(search.ranges())], parts)
    is_true_neighbor = parts.rows("distances").take(sampled_rows) <= stored_distances(true["distances"])[:, -1:]
    effort = lists.seconds / partitioned_seconds(search.X, search.k)
    return {"ordered": True, "blocks": len(lists.blocks), "overlaps": lists.overlaps, "joins": lists.joins,
            "scanned": lists.is_scanned, "filled_exactly": filled, "effort": round(effort, 2),
            "recall": recall_of(is_true_neighbor, search.random_state)}

"""Rounds of a partitioned search: leaves that overlap more and more, and joins across their borders."""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from ...execution.cost import block_count
from ...storage.blocks import Arrays, Parts, Receipt
from ..recall import wilson_lower
from .join_tasks import JoinTask, MeasureTask, MergeTask
from .permutation import PermutedRows
from .running import ATTEMPTS, GROWTH, Search, undivided
from .scan import ScanTask
from .sizes import (
    JOINS,
    LONGEST,
    MAX_EXTRA,
    ROUNDS,
    Round,
    exact_seconds,
    join_seconds,
    min_leaves,
    partitioned_seconds,
    round_seconds,
    scan_seconds,
)
from .tasks import SearchTask, SpreadTask

MIN_GAIN = 0.002  # gain of recall below which a round joins no more


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

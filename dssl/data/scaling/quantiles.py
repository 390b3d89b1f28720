"""The exact medians of numbers in parts; no process holds more than a bounded number of them.

The bits of floats, read as integers (inverted for negative numbers), ascend with the floats. A pass counts the values
in each of 2^16 equal ranges of these integers. The range that contains the median is divided again, until its values
can be collected. A pass serves all medians that are sought, and both middle values of an even number.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...execution.cost import Cost, cost_of
from ...execution.tasks import Execution, combining_tasks, sums
from ...storage.blocks import Parts, PartWriter, Receipt, row_ranges

DIGIT = 16  # bits of a pass
MAX_RUNS = 64  # of parts
MAX_COLLECTED = 1 << 22  # values, of which a median takes 24 bytes each


def runs_of(n_parts: int) -> list[tuple[int, int]]:
    """Return ranges [first, last) of parts, one for each task."""
    return row_ranges(n_parts, -(-n_parts // MAX_RUNS))


def max_collected(budget: int) -> int:
    """Return the maximum number of values that one process collects."""
    return int(np.clip(budget // 256, 1 << DIGIT, MAX_COLLECTED))


def keys_of(values: np.ndarray) -> np.ndarray:
    """Return integers that ascend with float64 values (m,), uint64."""
    bits = np.ascontiguousarray(values, np.float64).view(np.uint64)
    return bits ^ np.where(bits >> np.uint64(63), ~np.uint64(0), np.uint64(1) << np.uint64(63))


def values_of(keys: np.ndarray) -> np.ndarray:
    """Return the float64 values of keys; the inverse of `keys_of`."""
    return (keys ^ np.where(keys >> np.uint64(63), np.uint64(1) << np.uint64(63), ~np.uint64(0))).view(np.float64)


@dataclass(frozen=True)
class KeyRange:
    """The keys in [low, low + 2^bits) of an array of the parts."""

    name: str
    low: int = 0
    bits: int = 64

    def within(self, keys: np.ndarray) -> np.ndarray:
        """Return the keys of the range, less the lowest."""
        keys = keys[keys >= np.uint64(self.low)] - np.uint64(self.low)
        return keys if self.bits == 64 else keys[keys < np.uint64(1 << self.bits)]

    def digits(self, keys: np.ndarray) -> np.ndarray:
        """Return the leading digit of keys less the lowest."""
        return (keys >> np.uint64(self.bits - DIGIT)).astype(np.int64)

    def narrowed(self, digit: int) -> "KeyRange":
        """Return the range of the keys with a leading digit."""
        return KeyRange(self.name, self.low + (digit << self.bits - DIGIT), self.bits - DIGIT)


@dataclass(frozen=True)
class _Rank:
    """The number of a rank, from 0, among the `total` numbers in a range."""

    keys: KeyRange
    rank: int
    total: int

    def narrowed(self, counts: np.ndarray) -> "_Rank":
        """Return the same number in the range of its leading digit; counts (2^DIGIT,) : of the numbers by digit."""
        digit = int(np.searchsorted(np.cumsum(counts), self.rank, side="right"))
        return _Rank(self.keys.narrowed(digit), self.rank - int(counts[:digit].sum()), int(counts[digit]))


@dataclass(frozen=True)
class WithinTask:
    """Write `counts` (r, 2^DIGIT), how many of parts [first, last) are in each range by digit, or, to collect them,
    the keys of range i, as `keys{i}`.
    """

    parts: Parts
    ranges: tuple[KeyRange, ...]
    first: int
    last: int
    collect: bool

    def __call__(self, out: PartWriter) -> Receipt:
        counts = np.zeros((len(self.ranges), 1 << DIGIT), np.int64)
        collected = [[np.zeros(0, np.uint64)] for _ in self.ranges]
        for index in range(self.first, self.last):
            arrays = self.parts.read(index, sorted({key_range.name for key_range in self.ranges}))
            all_keys = {name: keys_of(values) for name, values in arrays.items()}
            for at, key_range in enumerate(self.ranges):
                keys = key_range.within(all_keys[key_range.name])
                if self.collect:
                    collected[at].append(keys + np.uint64(key_range.low))
                else:
                    counts[at] += np.bincount(key_range.digits(keys), minlength=1 << DIGIT)
        if self.collect:
            return out.write(**{f"keys{at}": np.concatenate(keys) for at, keys in enumerate(collected)})
        return out.write(counts=counts)


def medians_of_parts(parts: Parts, counts: Mapping[str, Sequence[int]], execution: Execution) -> dict[str, float]:
    """Return the median of each array over parts 0, 1, ..., which have `counts` values each, at least one in all."""
    limit, n_parts = max_collected(execution.memory_budget), max(map(len, counts.values()))
    totals = {name: sum(of_parts) for name, of_parts in counts.items()}
    ranks = [_Rank(KeyRange(name), rank, total) for name, total in totals.items() if total > limit
             for rank in ((total - 1) // 2, total // 2)]
    middle = _of_ranks(parts, n_parts, ranks, execution) if ranks else []

    def median(name: str) -> float:
        if totals[name] > limit:
            return float(np.mean([value for rank, value in zip(ranks, middle, strict=True) if rank.keys.name == name]))
        values = np.concatenate([parts.read(index, [name])[name] for index in range(n_parts)])
        return float(np.median(values.astype(np.float64)))

    return {name: median(name) for name in counts}


def median_cost(n_parts: int, total: int, budget: int, names: int = 1) -> Cost:
    """Return what `medians_of_parts` takes of so many values of each name, where one pass by digits leaves few enough.

    Of distances and weights it does; where many values share their leading digits, up to three passes more follow.
    """
    held = 24 * min(total, max_collected(budget))
    if total <= max_collected(budget):
        return cost_of(0, 8 * total * names, 0, held)
    runs = len(runs_of(n_parts))
    counting = runs + combining_tasks(runs, names * (8 << DIGIT), budget)
    return cost_of(counting + runs, 2 * 8 * total * names, counting * names * (8 << DIGIT), held)


def _of_ranks(parts: Parts, n_parts: int, ranks: list[_Rank], execution: Execution) -> list[float]:
    """Return the numbers of some ranks among those of parts."""
    limit, runs = max_collected(execution.memory_budget), runs_of(n_parts)
    while wide := tuple(dict.fromkeys(rank.keys for rank in ranks if rank.total > limit and rank.keys.bits)):
        counts = execution.reduce(sums([WithinTask(parts, wide, *run, False) for run in runs]))["counts"]
        ranks = [rank.narrowed(counts[wide.index(rank.keys)]) if rank.keys in wide else rank for rank in ranks]
    ranges = tuple(dict.fromkeys(rank.keys for rank in ranks if rank.keys.bits))
    scratch = execution.scratch()
    if ranges:
        execution.map([WithinTask(parts, ranges, *run, True) for run in runs], scratch)
    values = []
    for rank in ranks:
        if rank.keys.bits:
            name = f"keys{ranges.index(rank.keys)}"
            keys = np.concatenate([scratch.read(index, [name])[name] for index in range(len(runs))])
            keys = np.partition(keys, rank.rank)[rank.rank:rank.rank + 1]
        else:  # only one distinct number is left
            keys = np.array([rank.keys.low], np.uint64)
        values.append(float(values_of(keys)[0]))
    scratch.remove()
    return values

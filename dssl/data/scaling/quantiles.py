"""The exact median of numbers in parts; no process holds more than a bounded number of them.

The bits of floats, read as integers (inverted for negative numbers), ascend with the floats. A pass counts the values
in each of 2^16 equal ranges of these integers. The range that contains the median is divided again, until its values
can be collected.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...execution.cost import Cost, cost_of
from ...execution.tasks import Execution, combining_tasks, sums
from ...storage.blocks import Parts, PartWriter, Receipt, row_ranges

DIGIT = 16  # bits of a pass
MAX_RUNS = 64  # of parts
MAX_COLLECTED = 1 << 20


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
class WithinTask:
    """Write the `keys` in [low, low + 2^bits) of the arrays of parts [first, last), or their `counts` by digit."""

    parts: Parts
    name: str
    first: int
    last: int
    low: int
    bits: int
    collect: bool

    def __call__(self, out: PartWriter) -> Receipt:
        counts = np.zeros(1 << DIGIT, np.int64)
        collected = [np.zeros(0, np.uint64)]
        for index in range(self.first, self.last):
            keys = keys_of(self.parts.read(index, [self.name])[self.name])
            keys = keys[keys >= np.uint64(self.low)] - np.uint64(self.low)
            keys = keys if self.bits == 64 else keys[keys < np.uint64(1 << self.bits)]
            if self.collect:
                collected.append(keys + np.uint64(self.low))
            else:
                counts += np.bincount((keys >> np.uint64(self.bits - DIGIT)).astype(np.int64), minlength=1 << DIGIT)
        return out.write(keys=np.concatenate(collected)) if self.collect else out.write(counts=counts)


def median_of_parts(parts: Parts, name: str, counts: Sequence[int], execution: Execution) -> float:
    """Return the median of the array `name` over parts 0, 1, ..., which have `counts` values each, at least one in all.
    """
    total = sum(counts)
    if total <= max_collected(execution.memory_budget):
        return float(np.median(np.concatenate([parts.read(index, [name])[name] for index in range(len(counts))])
                               .astype(np.float64)))
    ranks = {(total - 1) // 2, total // 2}
    return float(np.mean([_of_rank(parts, name, len(counts), total, rank, execution) for rank in sorted(ranks)]))


def median_cost(n_parts: int, total: int, budget: int) -> Cost:
    """Return what `median_of_parts` takes of so many values, where one pass by digits leaves few enough to collect.

    Of distances and weights it does; where many values share their leading digits, up to three passes more follow.
    """
    held = 24 * min(total, max_collected(budget))
    if total <= max_collected(budget):
        return cost_of(0, 8 * total, 0, held)
    runs, ranks = len(runs_of(n_parts)), 2 - total % 2
    counting = runs + combining_tasks(runs, 8 << DIGIT, budget)
    return cost_of(ranks * (counting + runs), ranks * 2 * 8 * total, ranks * counting * (8 << DIGIT), held)


def _of_rank(parts: Parts, name: str, n_parts: int, total: int, rank: int, execution: Execution) -> float:
    """Return the value with a rank, from 0, among `total` values in parts."""
    low = 0
    bits = 64
    limit = max_collected(execution.memory_budget)
    runs = runs_of(n_parts)
    while total > limit and bits:
        counts = execution.reduce(sums([WithinTask(parts, name, *run, low, bits, False) for run in runs]))["counts"]
        digit = int(np.searchsorted(np.cumsum(counts), rank, side="right"))
        rank = rank - int(counts[:digit].sum())
        total = int(counts[digit])
        bits -= DIGIT
        low += digit << bits
    if not bits:  # only one distinct value is left
        return float(values_of(np.array([low], np.uint64))[0])
    scratch = execution.scratch()
    execution.map([WithinTask(parts, name, *run, low, bits, True) for run in runs], scratch)
    keys = np.concatenate([scratch.read(index)["keys"] for index in range(len(runs))])
    scratch.remove()
    return float(values_of(np.partition(keys, rank)[rank:rank + 1])[0])

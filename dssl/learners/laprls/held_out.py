"""Held-out predictions: each labeled point by functions that did not see its fold."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...execution.tasks import Execution
from ...storage.blocks import Arrays, PartWriter, Receipt
from .params import Functions
from .penalties import System
from .products import MOST_RUNS, Landmarked, labels_in, runs_of_blocks, times
from .system import NystromSystem


@dataclass(frozen=True)
class HeldOutTask:
    """Write `values` (m, p, c) at the labeled points of a run of blocks; NaN at those that are never held out.

    Coefficients `B` (F, s, p, c) and `intercept` (F, p, c), fold by fold, of p functions with c columns.
    """

    problem: Landmarked
    functions: Arrays
    first: int
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        problem, functions, landmarks = self.problem, self.functions.load(), self.problem.landmark_kernel()
        lines, B, intercept = problem.labels.load(), functions["B"], functions["intercept"]
        F, s, p, c = B.shape
        found = [np.empty((0, p, c))]
        for index in range(self.first, self.last):
            start, stop = problem.ranges[index]
            own = labels_in(lines, start, stop)
            if not len(own["position"]):
                continue
            K = landmarks.block(problem.rows.take(start + own["position"]))
            values = np.full((len(K), p, c), np.nan)
            for fold in range(F):
                mine = own["fold"] == fold
                values[mine] = times(K[mine], B[fold].reshape(s, p * c)).reshape(-1, p, c) + intercept[fold]
            found.append(values)
        return out.write(values=np.concatenate(found))


def held_out_values(system: NystromSystem, functions: Functions, systems: Sequence[System],
                    execution: Execution) -> Iterator[np.ndarray]:
    """Yield the values (m, g, c) of groups of penalties at the m labeled points, in the order of their lines.

    systems : F of each pair of penalties, held folds 0 to F - 1 in order. A group has as many pairs as have values that
    fit a quarter of the memory budget.
    """
    F, (p, s, c) = system.lines.n_held, functions.coef.shape
    assert [item.held for item in systems] == list(range(F)) * (p // F)
    B = functions.coef.reshape(p // F, F, s, c).transpose(1, 2, 0, 3)
    intercept = functions.intercept.reshape(p // F, F, c).transpose(1, 0, 2)
    runs = runs_of_blocks(len(system.problem.ranges), MOST_RUNS)
    width = max(1, execution.memory_budget // 4 // (8 * c * max(1, len(system.lines.row))))
    for first in range(0, p // F, width):
        shared = execution.share(B=np.ascontiguousarray(B[:, :, first:first + width]),
                                 intercept=np.ascontiguousarray(intercept[:, first:first + width]))
        parts = execution.scratch()
        execution.map([HeldOutTask(system.problem, shared, *run) for run in runs], parts)
        by_place = np.concatenate([parts.read(index)["values"] for index in range(len(runs))])
        parts.remove()
        values = np.empty_like(by_place)
        values[system.by_place] = by_place
        yield values

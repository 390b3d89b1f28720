"""The features of the labeled points, for what is done to labels again and again: other losses, folds, penalties."""

from dataclasses import dataclass

import numpy as np

from ...base.errors import BudgetError, require
from ...execution.tasks import Execution
from ...storage.blocks import PartWriter, Receipt
from .products import Landmarked
from .system import NystromSystem


def label_feature_bytes(m: int, s: int) -> int:
    """Return the bytes of the features of m labels, and of their kernels while these are made."""
    return 16 * m * s


@dataclass(frozen=True)
class LabelFeaturesTask:
    """Write `features` (m, r) float64 of the label lines of a run of blocks, in the order of their places."""

    problem: Landmarked
    first: int  # block
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        features = self.problem.features()
        found = [np.empty((0, features.width))]
        for _, start, _, own in self.problem.blocks(self.first, self.last):
            if len(own["position"]):
                positions, place = np.unique(own["position"], return_inverse=True)
                Phi = features.of_block(features.block(self.problem.rows.take(start + positions)))
                found.append(Phi[place].astype(np.float64, copy=False))
        return out.write(features=np.concatenate(found))


def label_features(system: NystromSystem, execution: Execution) -> np.ndarray:
    """Return Phi_m (m, r), a row a label line, in their order.

    Raises BudgetError: it does not fit in half the budget.
    """
    m, half = len(system.lines.row), execution.memory_budget // 2
    needed = label_feature_bytes(m, system.s)
    require(needed <= half, f"{m:,} labels and {system.s} landmarks", error=BudgetError,
            why=f"the features of the labels take {needed:,} bytes, half the budget is {half:,}",
            fix=f"raise memory_budget to {2 * needed:,} bytes, or use fewer landmarks")
    parts, runs = execution.scratch(), system.problem.runs()
    execution.map([LabelFeaturesTask(system.problem, *run) for run in runs], parts)
    by_place = np.concatenate([parts.read(index)["features"] for index in range(len(runs))])
    parts.remove()
    found = np.empty_like(by_place)
    found[system.by_place] = by_place
    return found

"""The features of the labeled points alone: what the loss sees of a function, (m, r) numbers whatever n is."""

from dataclasses import dataclass

import numpy as np

from ...execution.tasks import Execution
from ...storage.blocks import PartWriter, Receipt
from .products import Landmarked
from .system import NystromSystem


@dataclass(frozen=True)
class LabelFeaturesTask:
    """Write `Phi` (m, r) in float64 of the label lines of a run of blocks, in their order.

    Memory: `16 m r` bytes of the run, and the kernel (b, s) of the labeled points of a block.
    """

    problem: Landmarked
    first: int
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        features = self.problem.features()
        found = [np.empty((0, features.width))]
        for _, start, _, own in self.problem.blocks(self.first, self.last):
            if len(own["position"]):
                positions, place = np.unique(own["position"], return_inverse=True)
                found.append(features(self.problem.rows.take(start + positions))[place].astype(np.float64))
        return out.write(Phi=np.concatenate(found))


def label_features(system: NystromSystem, execution: Execution) -> np.ndarray:
    """Return Phi_m (m, r) of the labeled points, in the order of their lines; `16 m r` bytes."""
    parts, runs = execution.scratch(), system.problem.runs()
    execution.map([LabelFeaturesTask(system.problem, *run) for run in runs], parts)
    found = np.empty((len(system.by_place), system.r))
    found[system.by_place] = np.concatenate([parts.read(index)["Phi"] for index in range(len(runs))])
    parts.remove()
    return found

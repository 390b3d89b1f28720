"""A learner on the graph with what another model says of the points; see `learners/on_graph/pooled.py`."""

from dataclasses import dataclass, replace

import numpy as np

from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...learners.class_prior import EQUAL
from ...learners.on_graph.graph_ridge import KernelColumns
from ...learners.on_graph.held_out import HeldOutValues, calibration_solver
from ...learners.on_graph.model import scored, signed
from ...learners.on_graph.pooled import LearnerValues, Pooled, fit_pool
from ...learners.on_graph.vertex_labels import VertexValues
from ...learners.probabilities import Calibration
from ...learners.target.target import Classes, Target
from ...selection.calibration import calibration_folds, shift_of
from ..other_model import OtherModel, can_learn
from .learner import GraphLearner, has_sizes, held_out_on_graph


@dataclass(frozen=True, eq=False)
class PooledLearner:
    """A learner on a graph and another model, which are pooled."""

    learner: GraphLearner
    other: OtherModel
    graph: Graph
    random_state: int
    execution: Execution

    def learner_values(self, target: Target, weight: np.ndarray | None) -> LearnerValues | None:
        """Return what the learner says by itself and without class sizes; None where labels are too few for one."""
        if not can_learn(target):
            return None
        learner, graph = self.learner, self.graph
        plain = target.with_prior(EQUAL) if has_sizes(target) else target
        columns: KernelColumns = {}
        fitted = learner.fit(graph, plain, weight, self.execution, columns)
        held_out = fitted.held_out
        if held_out is None:
            held_out = np.full(plain.indicators().shape, np.nan)
            if np.bincount(plain.strata()).max() > 1:
                folds = calibration_folds(plain, self.random_state)
                calibrated = replace(learner, solver=calibration_solver(learner.solver))
                (held_out_values,), = held_out_on_graph([calibrated], graph, plain, weight, [folds], self.execution,
                                                        columns)
                # Where no label is reachable a class is not known; a quantity is the mean of the others.
                unknown = held_out_values.unreachable[:, None] & isinstance(plain, Classes)
                held_out = np.where(unknown, np.nan, held_out_values.values)
        values, at_labels = signed(fitted.values, plain), signed(held_out, plain)
        labels = np.arange(len(plain.labeled))
        if not isinstance(plain, Classes):
            # The mean of the labels, where none is reachable.
            values = np.where(fitted.reachable[:, None], values, np.average(plain.columns(), axis=0, weights=weight))
            return LearnerValues(values, np.ones(len(values), bool), labels, at_labels, None)
        shift = shift_of(plain, lambda: at_labels, scored(plain), values[fitted.reachable], weight, learner.assumed)
        values = np.where(fitted.reachable[:, None], values + shift.columns, 0.0)
        return LearnerValues(values, fitted.reachable, labels, at_labels + shift.columns, shift.calibration)

    def fit(self, target: Target, weight: np.ndarray | None) -> Pooled:
        """Return the pool; known class sizes do not count yet."""
        return fit_pool(self.graph, target, weight, self.other.soft_labels(target, weight),
                        self.learner_values(target, weight), self.random_state, self.execution)

    def values(self, pooled: Pooled, target: Target,
               weight: np.ndarray | None) -> tuple[VertexValues, Calibration | None]:
        """Return the values of a pool with their calibration, with known class sizes those of the cut."""
        sizes = target.prior.sizes if isinstance(target, Classes) else None
        return pooled.with_class_sizes(sizes, self.graph, target, weight, self.execution)


def held_out_of(pooled: Pooled, target: Target) -> HeldOutValues:
    """Return the held-out values of a pool at all labels (l, n_classes), NaN where none is held out."""
    values = pooled.held_out
    if isinstance(target, Classes) and len(target.names) == 2:
        values = np.hstack([-values, values]) / 2
    spread = np.full((len(target.labeled), values.shape[1]), np.nan)
    spread[pooled.positions] = values
    return HeldOutValues(spread, np.zeros(len(spread), bool))

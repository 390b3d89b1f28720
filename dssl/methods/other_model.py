"""Another model beside a learner on a graph: soft labels that are given, or an estimator fitted to the labels."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..graph.graph import Graph
from ..learners.metrics import SQUARED, WRONG_CLASS
from ..learners.on_graph.model import scored, signed
from ..learners.on_graph.pooled import Pooled
from ..learners.soft_labels import SoftLabels, require_soft_labels
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Classes, Target
from ..selection.base_estimator import cross_fitted
from ..selection.other_model import other_model_evidence, without_labels
from ..storage.blocks import Rows
from .step import Context


@dataclass(frozen=True, eq=False)
class OtherModel:
    """What says something of the points (n, d) beside the labels: `given` soft labels (n, c), or an estimator."""

    points: Rows
    given: np.ndarray | None
    estimator: Any
    random_state: int

    @classmethod
    def of(cls, context: Context, target: Target, estimator: Any, random_state: int) -> "OtherModel | None":
        """Return the other model of a step, None where there is none; raise DataError for invalid soft labels."""
        given = context.soft_labels()
        if given is None and estimator is None:
            return None
        points = context.points("train")
        if given is not None:
            names = target.names if isinstance(target, Classes) else None
            given = require_soft_labels(given, len(points), names)
        return cls(points, given, estimator, random_state)

    def soft_labels(self, target: Target, weight: np.ndarray | None) -> SoftLabels:
        """Return the soft labels; those of an estimator are cross-fitted on the labels of a target."""
        if self.given is not None:
            return SoftLabels(self.given)
        return cross_fitted(self.estimator, self.points, target, weight, self.random_state)


def can_learn(target: Target) -> bool:
    """Return whether a learner can be fitted: there are labels of two classes, or two quantities."""
    if isinstance(target, Classes):
        return len(np.unique(target.coded)) > 1
    return len(target.labeled) > 1


def evidence_of(pooled: Pooled, graph: Graph, target: Target, weight: np.ndarray | None) -> dict[str, Any]:
    """Return what held-out labels say of the other model; JSON."""
    coding = scored(target)
    if len(pooled.held):
        return other_model_evidence(
            target.take(pooled.held), coding, pooled.held_out, pooled.own, pooled.alone,
            None if weight is None else weight[pooled.held], WRONG_CLASS if isinstance(target, Classes) else SQUARED,
            pooled.attributes)
    assert isinstance(coding, ClassCoding)
    codes = coding.codes(signed(pooled.on_vertices.values, target))
    moved = float(np.average(codes != coding.codes(pooled.other), weights=graph.vertices.multiplicity))
    return without_labels(pooled.attributes, moved)

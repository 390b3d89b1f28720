"""The automatic choice: a blend of graph and label kernels, or with many labels harmonic functions or nearest labels.

Kernels of the labeled points serve up to `MOST_LABELS`, and as many as fit half of the told budget; beyond, one
system of as many columns as classes does.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from ...base.errors import ParameterError, require
from ...execution.cost import largest_within
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.knn_graph import KNNGraph
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Rows
from ..class_prior import EQUAL
from ..kernel_family import KernelSum
from ..measures import SQUARED, WRONG_CLASS, PointMeasure
from ..model import Model
from ..prior_shift import moved_by_others, prior_shift
from ..probabilities import Calibration
from ..target.target import Classes, Target
from .blend import BlendedModel, fit_blend
from .class_sizes import with_class_sizes
from .graph_ridge import GraphRidgeParams, members_bytes
from .many_labels import HeldOutLoss, fit_from_many
from .model import GraphModel, signed
from .vertex_labels import VertexValues

MOST_LABELS = 2000  # of which kernels are made
TOLERANCE = 1e-4  # of the system with many labels
Loss = Literal["squared", "huber"]
HUBER, REWEIGHED = 1.345, 3  # standard deviations from which a residual counts less; fits after the first
LEAST_WEIGHT = 1e-6
GROUPS = 10  # of labels, each of which the others say how to move


@dataclass(frozen=True, eq=False)
class Automatic:
    """What was chosen: the model, and `alone`, that of the labels without the graph.

    values (n, c) : at the points of the fit. held (h,) : the labels, by their places, that were predicted without
    themselves; held_out, held_out_alone (h, c) : by the graph, and by the labels alone. left_out : folds -> the same
    two of all labels, by fits without their folds, NaN of others; None with many labels, and with class sizes told.
    calibration, calibration_alone : of the margins of `held_out` and `held_out_alone`; None of quantities, and with
    class sizes told.
    """

    model: Model
    alone: Model
    values: np.ndarray
    held: np.ndarray
    held_out: np.ndarray
    held_out_alone: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)
    left_out: Callable[[Sequence[np.ndarray]], tuple[np.ndarray, np.ndarray]] | None = None
    calibration: Calibration | None = None
    calibration_alone: Calibration | None = None

    def times(self, unit: float) -> "Automatic":
        """Return the same with all values multiplied by a unit."""
        def left_out(folds: Sequence[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
            assert self.left_out is not None
            values, alone = self.left_out(folds)
            return values * unit, alone * unit

        return replace(self, model=times(self.model, unit), alone=times(self.alone, unit), values=self.values * unit,
                       held_out=self.held_out * unit, held_out_alone=self.held_out_alone * unit,
                       left_out=None if self.left_out is None else left_out)


def times(model: Model, unit: float) -> Model:
    """Return an automatic choice's model, or that of its labels alone, with values multiplied by a unit."""
    if isinstance(model, BlendedModel):
        parts: dict[str, Any] = {name: times(getattr(model, name), unit) for name in ("graph", "kernels", "alone")}
        return replace(model, **parts)
    if isinstance(model, KernelSum):
        return replace(model, coef=model.coef * unit, offset=model.offset * unit)
    assert isinstance(model, GraphModel)
    return replace(model, values_at=model.values_at * unit)


def measure_of(target: Target) -> PointMeasure:
    """Return by how much a point of a target is missed."""
    return WRONG_CLASS if isinstance(target, Classes) else SQUARED


def most_labels(params: GraphRidgeParams, budget: int) -> int:
    """Return the labels up to which kernels of labeled points are made, within half a told budget (bytes)."""
    return largest_within(budget // 2, MOST_LABELS, lambda count: members_bytes(count, len(params.kernels)))


def memory_binds(n_labels: int, most: int) -> bool:
    """Return whether it is the told budget alone for which there are too many labels."""
    return most < n_labels <= MOST_LABELS


def fit_huber(fit: Callable[[np.ndarray], Automatic], target: Target, weight: np.ndarray | None) -> Automatic:
    """Return a fit in which labels far from what the others say count less: Huber's loss of leave-one-out residuals.

    A residual r of a label counts `min(1, 1.345 s / |r|)`, s being 1.4826 times the median |r|, and all is fitted anew
    `REWEIGHED` times. weight (l,) : of the labels, or None for 1.

    References
    ----------
    Holland, Welsch, "Robust regression using iteratively reweighted least-squares", 1977.
    """
    given = np.ones(len(target.labeled)) if weight is None else weight
    fitted, factor = fit(given), np.ones(len(given))
    for _ in range(REWEIGHED):
        residuals = np.abs(fitted.held_out - target.columns())
        spread = 1.4826 * np.median(residuals, axis=0)
        factor = np.minimum(1, HUBER * spread / np.maximum(residuals, np.finfo(float).tiny)).min(axis=1)
        fitted = fit(given * np.maximum(factor, LEAST_WEIGHT))
    attributes = {**fitted.attributes, "loss": "huber", "labels_that_count_less": int((factor < 0.5).sum())}
    return replace(fitted, attributes=attributes)


def fit_automatic(graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, class_sizes: Any,
                  params: GraphRidgeParams, most: int, knn: KNNGraph, judged_by: HeldOutLoss, execution: Execution,
                  loss: Loss = "squared") -> Automatic:
    """Return the automatic choice on a graph of rows (n, d), made as `knn` says.

    class_sizes : as `with_class_sizes` takes them, which are the prior of the target then; None of quantities, and
    where they are not known. most : as `most_labels`, which is told, so that the choice is the same wherever it is
    made. judged_by : of held-out values, what one of two models of many labels is chosen by. loss : of quantities, see
    `fit_huber`. Kernels of classes are weighed by the probabilities that they give to held-out labels, whatever metric
    the target asks for: where probabilities are right, the decisions of any metric are.

    Raises
    ------
    BudgetError : the index of the vertices does not fit. NotConverged. ParameterError : class sizes with so many labels
    that they are not needed, or "huber" with so many.
    """
    if loss == "huber":
        require(len(target.labeled) <= most, f"loss 'huber' with {len(target.labeled):,} labels", error=ParameterError,
                why=f"it weighs labels by leave-one-out residuals, which are known of up to {most:,}",
                fix="use the squared loss, or raise memory_budget")
        return fit_huber(lambda weights: fit_automatic(graph, rows, target, weights, class_sizes, params, most, knn,
                                                       judged_by, execution), target, weight)
    if target.unit != 1:
        return fit_automatic(graph, rows, target.in_units(), weight, class_sizes, params, most, knn, judged_by,
                             execution).times(target.unit)
    if len(target.labeled) > most:
        require(class_sizes is None, f"class_sizes with {len(target.labeled):,} labels", error=ParameterError,
                why=f"kernels of labeled points are made of up to {most:,}, as the memory budget lets be, and harmonic "
                    "functions of more are without class sizes",
                fix="leave class_sizes out, raise memory_budget, or use LaplaceLearning(class_sizes=...)")
        many = fit_from_many(graph, rows, target, weight, judged_by, knn,
                             SolverParams(tol=TOLERANCE, random_state=params.random_state), params.random_state,
                             execution)
        return Automatic(many.model, many.alone, many.values, many.held, many.held_out, many.held_out_alone,
                         many.attributes, calibration=many.calibration, calibration_alone=many.calibration_alone)
    blend = fit_blend(graph, rows, target, weight, params, knn, execution)
    alone = prior_shift(target, blend.held_out_alone, blend.model.coding, weight, EQUAL)
    whole = prior_shift(target, blend.held_out, blend.model.coding, weight, EQUAL)
    if class_sizes is None:
        model = blend.model.moved(whole.columns, alone.columns)
        values = replace(blend, model=model).values(graph, rows, execution)
        m = len(target.labeled)
        groups = [np.arange(first, m, GROUPS) for first in range(min(GROUPS, m))]
        held_out, held_out_alone = (moved_by_others(target, values, blend.model.coding, weight, EQUAL, groups)
                                    for values in (blend.held_out, blend.held_out_alone))
        return Automatic(model, model.alone, values, np.arange(m), held_out, held_out_alone, blend.attributes,
                         partial(blend.left_out, graph, rows, target, weight, params), whole.calibration,
                         alone.calibration)
    assert isinstance(target, Classes)
    model = blend.model.moved(np.zeros_like(alone.columns), alone.columns)
    at = blend.values(graph, rows, execution)[graph.vertices.first]
    scores = VertexValues(np.hstack([-at, at]) / 2 if at.shape[1] == 1 else at, blend.on_vertices.reached)
    moved = with_class_sizes(scores, class_sizes, graph, target, weight, SolverParams(random_state=params.random_state),
                             execution)
    model = model.on_graph_alone(signed(moved.values, target))
    # Held-out values keep the sizes out, of which labels held out know nothing.
    return Automatic(model, model.alone, model.values(rows, execution), np.arange(len(target.labeled)), blend.held_out,
                     blend.held_out_alone, {**blend.attributes, **moved.attributes})

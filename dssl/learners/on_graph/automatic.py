"""The automatic model: a blend of graph kernels and RBF kernels, or for many labels harmonic functions or k-NN.

The blend needs kernels of the labeled points, for up to `MAX_LABELS` labels that fit in half of the budget. For more,
one system with a column for each class is solved; harmonic functions or k-NN predict, whichever has the lower held-out
loss.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import NotConverged, ParameterError, require
from ...execution.cost import largest_within
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.knn_graph import KNNGraph
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Rows, block_rng
from ...storage.views import SelectedRows
from ..class_prior import EQUAL, LABELS, ClassSizes
from ..kernel_family import KernelSum
from ..metrics import SQUARED, WRONG_CLASS, PointMetric
from ..model import Model, spaced_values
from ..nearest import fit_nearest
from ..prior_shift import cross_fitted_values, prior_shift
from ..probabilities import Calibration, of_log_probabilities
from ..soft_labels import SoftLabels
from ..target.coding import Coding, margins_of
from ..target.target import Classes, Target
from .blend import BLENDED, BlendedModel, Refit, fit_blend
from .class_sizes import with_class_sizes
from .graph_ridge import GraphRidgeParams, LastKernelRows, members_bytes
from .laplace_poisson import fit_harmonic, fit_harmonics
from .model import GraphModel, VertexIndex, VertexValues, graph_model, signed
from .pooled import LearnerValues, Pooled, fit_pool

HELD_OUT_SHARE, MAX_HELD_OUT, N_NEAREST = 0.2, 5000, 3
HELD_OUT_STREAM = 13  # of the seed
ROUNDING = 1e-9  # losses that differ by a smaller share are a tie, which the graph wins on every processor
Labels = tuple[Target, np.ndarray | None]  # with their weights
# Maps target, coding, values (h, c) and weight (h,) or None of held-out labels to a loss.
HeldOutLoss = Callable[[Target, Coding, np.ndarray, np.ndarray | None], float]
MAX_LABELS = 2000  # of the blend
TOLERANCE = 1e-4  # of the system for more labels
Loss = Literal["squared", "huber"]
HUBER, REWEIGHTINGS = 1.345, 3  # standard deviations from which residuals lose weight; fits after the first
MIN_WEIGHT = 1e-6
GROUPS = 10  # of labels, for cross-fitted prior shifts


@dataclass(frozen=True, eq=False)
class AutomaticFit:
    """The selected model, and its supervised baseline, without the graph.

    at_points : returns the values (n, c) at the training points. positions (h,) : of the held-out labels; held_out,
    held_out_supervised (h, c) : their values. calibration, calibration_supervised : of the margins of both; None for
    quantities, and of the baseline with known class sizes. refit_held_out : see `Blend.refit_held_out`; None for many
    labels, known class sizes and a pool. pooled : with another model, see `pooled_automatic`. For many labels held_out
    is that of the graph, whichever is selected.
    """

    model: Model
    supervised: Model
    at_points: Callable[[], np.ndarray]
    positions: np.ndarray
    held_out: np.ndarray
    held_out_supervised: np.ndarray
    attributes: JsonObject = field(default_factory=dict)
    refit_held_out: Callable[[Sequence[Sequence[np.ndarray]]], list[Refit]] | None = None
    calibration: Calibration | None = None
    calibration_supervised: Calibration | None = None
    pooled: Pooled | None = None

    @cached_property
    def values(self) -> np.ndarray:
        """Return the values at the training points."""
        return self.at_points()

    def times(self, unit: float) -> "AutomaticFit":
        """Return the fit with all values multiplied by a unit."""
        def refit_held_out(draws: Sequence[Sequence[np.ndarray]]) -> list[Refit]:
            assert self.refit_held_out is not None
            return [(values * unit, supervised * unit) for values, supervised in self.refit_held_out(draws)]

        return replace(self, model=times(self.model, unit), supervised=times(self.supervised, unit),
                       at_points=lambda: self.values * unit, held_out=self.held_out * unit,
                       held_out_supervised=self.held_out_supervised * unit,
                       refit_held_out=None if self.refit_held_out is None else refit_held_out)


def times(model: Model, unit: float) -> Model:
    """Return a model of an `AutomaticFit` with values multiplied by a unit."""
    if isinstance(model, BlendedModel):
        parts: dict[str, Any] = {name: times(getattr(model, name), unit) for name in BLENDED}
        return replace(model, **parts)
    if isinstance(model, KernelSum):
        return replace(model, coef=model.coef * unit, offset=model.offset * unit)
    assert isinstance(model, GraphModel)
    return replace(model, values_at=model.values_at * unit)


def _side_by_side(graph: Graph, part: Labels, whole: Labels, solver: SolverParams,
                  execution: Execution) -> tuple[VertexValues, VertexValues | None]:
    """Return the harmonic function of a part of the labels, and that of all, if there was a free core to find it.

    The graph is usually chosen, for which the second is needed. Raises NotConverged for the part alone, so that it does
    not depend on the number of cores what fails.
    """
    if execution.tasks_at_once > 1:
        with suppress(NotConverged):
            on_part, on_whole = fit_harmonics(graph, [part, whole], solver, execution)
            return on_part, on_whole
    return fit_harmonic(graph, *part, solver, execution), None


def fit_many_labels(graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, held_out_loss: HeldOutLoss,
                  knn: KNNGraph, solver: SolverParams, random_state: int, index: VertexIndex,
                  execution: Execution) -> AutomaticFit:
    """Return the model with the lower held-out loss, fitted to all labels; k-NN predicts unreachable points.

    Raises NotConverged; BudgetError where an index does not fit.
    """
    n_labels = len(target.labeled)
    n_held_out = min(int(HELD_OUT_SHARE * n_labels), MAX_HELD_OUT)
    test = np.sort(block_rng(random_state, HELD_OUT_STREAM).permutation(n_labels)[:n_held_out])
    train = np.setdiff1d(np.arange(n_labels), test)
    part, train_weight = target.take(train), None if weight is None else weight[train]
    on_graph, harmonic = _side_by_side(graph, (part, train_weight), (target, weight), solver, execution)
    vertices = graph.vertices.vertex[target.labeled[test]]
    nearest = fit_nearest(rows, part, knn.distance, execution, k=N_NEAREST)
    by_nearest = nearest.values(SelectedRows(rows, target.labeled[test]), execution)
    by_graph = np.where(on_graph.reachable[vertices][:, None], signed(on_graph.values, target)[vertices], by_nearest)
    # Both are averages of labels, and so assume the frequencies of the labels.
    graph_shift, nearest_shift = (prior_shift(target, values, target.coding, weight, LABELS, test)
                                  for values in (by_graph, by_nearest))
    by_graph = by_graph + graph_shift.columns
    by_nearest = by_nearest + nearest_shift.columns
    test_weight = None if weight is None else weight[test]
    graph_loss, nearest_loss = (held_out_loss(target.take(test), target.coding, values, test_weight)
                                for values in (by_graph, by_nearest))
    attributes: JsonObject = {"chosen": "nearest_labels" if nearest_loss < graph_loss * (1 - ROUNDING) else "graph",
                              "held_out_labels": n_held_out}
    supervised = fit_nearest(rows, target, knn.distance, execution, k=N_NEAREST).shifted(nearest_shift.columns)
    if attributes["chosen"] == "nearest_labels":
        return AutomaticFit(supervised, supervised, partial(supervised.values, rows, execution), test, by_graph,
                            by_nearest, attributes, calibration=nearest_shift.calibration,
                            calibration_supervised=nearest_shift.calibration)
    harmonic = harmonic or fit_harmonic(graph, target, weight, solver, execution)
    model = graph_model(graph, harmonic, target, knn, index()).shifted(graph_shift.columns)
    unreachable = np.flatnonzero(~harmonic.reachable)
    if len(unreachable):
        model.values_at[unreachable] = supervised.values(SelectedRows(rows, graph.vertices.first[unreachable]),
                                                         execution)
        model.reachable[unreachable] = True
    attributes |= {**harmonic.attributes, "unreachable": int(graph.vertices.multiplicity[unreachable].sum())}
    return AutomaticFit(model, supervised, lambda: model.values_at[graph.vertices.vertex], test, by_graph, by_nearest,
                        attributes, calibration=graph_shift.calibration,
                        calibration_supervised=nearest_shift.calibration)


def metric_of(target: Target) -> PointMetric:
    """Return the metric of held-out values."""
    return WRONG_CLASS if isinstance(target, Classes) else SQUARED


def label_limit(params: GraphRidgeParams, budget: int) -> int:
    """Return the upper bound of labels of the blend, whose kernels fit in half a budget (bytes)."""
    return largest_within(budget // 2, MAX_LABELS, lambda count: members_bytes(count, len(params.kernels)))


def limited_by_memory(n_labels: int, max_labels: int) -> bool:
    """Return whether only the budget prevents the blend of so many labels."""
    return max_labels < n_labels <= MAX_LABELS


def fit_huber(fit: Callable[[np.ndarray], AutomaticFit], target: Target, weight: np.ndarray | None) -> AutomaticFit:
    """Return a fit with Huber's loss of leave-one-out residuals, by iteratively reweighted least squares.

    A label with residual r has the weight `min(1, 1.345 s / |r|)`, where s is 1.4826 times the median |r|.
    weight (l,) : of the labels, or None for 1.

    References
    ----------
    Holland, Welsch, "Robust regression using iteratively reweighted least-squares", 1977.
    """
    given = np.ones(len(target.labeled)) if weight is None else weight
    fitted, factor = fit(given), np.ones(len(given))
    for _ in range(REWEIGHTINGS):
        residuals = np.abs(fitted.held_out - target.columns())
        spread = 1.4826 * np.median(residuals, axis=0)
        factor = np.minimum(1, HUBER * spread / np.maximum(residuals, np.finfo(float).tiny)).min(axis=1)
        fitted = fit(given * np.maximum(factor, MIN_WEIGHT))
    attributes = {**fitted.attributes, "loss": "huber", "labels_that_count_less": int((factor < 0.5).sum())}
    return replace(fitted, attributes=attributes)


def fit_automatic(graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, class_sizes: ClassSizes | None,
                  params: GraphRidgeParams, max_labels: int, knn: KNNGraph, held_out_loss: HeldOutLoss,
                  index: VertexIndex, execution: Execution, loss: Loss = "squared",
                  last: LastKernelRows | None = None) -> AutomaticFit:
    """Return the automatic fit on a graph of rows (n, d) with the parameters `knn`, and an index of its vertices.

    class_sizes : known sizes, see `with_class_sizes`, or None. max_labels : see `label_limit`; a parameter of the
    result and not of the machine. held_out_loss : selects a model for many labels. loss : of quantities, see
    `fit_huber`. last : see `graph_members`. Kernels of classes are weighted by the probabilities of held-out labels,
    whatever the scoring.

    Raises
    ------
    BudgetError : the index of the vertices does not fit. NotConverged. ParameterError : class sizes or "huber" with
    more than `max_labels` labels.
    """
    if loss == "huber":
        require(len(target.labeled) <= max_labels, f"loss 'huber' with {len(target.labeled):,} labels",
                error=ParameterError, fix="use the squared loss, or raise memory_budget",
                why=f"it weighs labels by leave-one-out residuals, which are computed for up to {max_labels:,}")
        last = {} if last is None else last
        return fit_huber(lambda weights: fit_automatic(graph, rows, target, weights, class_sizes, params, max_labels,
                                                       knn, held_out_loss, index, execution, last=last),
                         target, weight)
    if target.unit != 1:
        return fit_automatic(graph, rows, target.in_units(), weight, class_sizes, params, max_labels, knn,
                             held_out_loss, index, execution, last=last).times(target.unit)
    if len(target.labeled) > max_labels:
        require(class_sizes is None, f"class_sizes with {len(target.labeled):,} labels", error=ParameterError,
                why=f"the memory budget allows kernels of up to {max_labels:,} labels, and the harmonic functions for "
                    "more ignore class sizes",
                fix="leave class_sizes out, raise memory_budget, or use LaplaceLearning(class_sizes=...)")
        solver = SolverParams(tol=TOLERANCE, random_state=params.random_state)
        return fit_many_labels(graph, rows, target, weight, held_out_loss, knn, solver, params.random_state, index,
                               execution)
    blend = fit_blend(graph, rows, target, weight, params, knn, index, execution, last)
    supervised = prior_shift(target, blend.held_out_supervised, blend.model.coding, weight, EQUAL,
                             at_points=partial(spaced_values, blend.model.supervised, rows))
    whole = prior_shift(target, blend.held_out, blend.model.coding, weight, EQUAL,
                        at_points=partial(spaced_values, blend.model, rows))
    if class_sizes is None:
        model = blend.model.shifted(whole.columns, supervised.columns)
        at_points = partial(replace(blend, model=model).values, graph, rows, execution)
        m = len(target.labeled)
        groups = [np.arange(first, m, GROUPS) for first in range(min(GROUPS, m))]
        held_out, held_out_supervised = (cross_fitted_values(target, values, blend.model.coding, weight, EQUAL, groups)
                                    for values in (blend.held_out, blend.held_out_supervised))
        return AutomaticFit(model, model.supervised, at_points, np.arange(m), held_out, held_out_supervised,
                            blend.attributes, partial(blend.refit_held_out, target, weight, params),
                            whole.calibration, supervised.calibration)
    assert isinstance(target, Classes)
    model = blend.model.shifted(np.zeros_like(supervised.columns), supervised.columns)
    assert whole.calibration is not None
    at = blend.values(graph, rows, execution)[graph.vertices.first]
    scores = VertexValues(np.hstack([-at, at]) / 2 if at.shape[1] == 1 else at, blend.on_vertices.reachable)
    log_odds = whole.calibration.slope * margins_of(at, blend.model.coding)
    sized = with_class_sizes(scores, log_odds, class_sizes, graph, target, weight, execution)
    model = model.only_on_graph(signed(sized.values, target))
    # Held-out values ignore the class sizes.
    return AutomaticFit(model, model.supervised, partial(model.values, rows, execution), np.arange(len(target.labeled)),
                        blend.held_out, blend.held_out_supervised, {**blend.attributes, **sized.attributes},
                        calibration=of_log_probabilities(len(target.names)))


def pooled_automatic(fit: AutomaticFit | None, soft: SoftLabels, graph: Graph, target: Target,
                     weight: np.ndarray | None, class_sizes: ClassSizes | None, knn: KNNGraph, random_state: int,
                     index: VertexIndex, execution: Execution) -> AutomaticFit:
    """Return the pool (`pooled.py`) of an automatic fit and another model; fit : None where labels are too few for one.

    New points have the weighted mean of their nearest vertices. With class sizes, of which `fit` knows nothing, the
    pool becomes the cut with these sizes. The supervised baseline of a pool without `fit` is the other model alone.

    Raises BudgetError : the index of the vertices does not fit. NotConverged.
    """
    pooled = fit_pool(graph, target, weight, soft, None if fit is None else LearnerValues(
        fit.values[graph.vertices.first], np.ones(len(graph.vertices), bool), fit.positions, fit.held_out,
        fit.calibration), random_state, execution)
    values, calibration = pooled.with_class_sizes(class_sizes, graph, target, weight, execution)
    model = graph_model(graph, values, target, knn, index())
    attributes = {**(fit.attributes if fit else {}), **values.attributes, "unreachable": 0}
    if fit is None:
        supervised: Model = replace(model, values_at=pooled.other)
        held_out_supervised, of_supervised = pooled.held_out_other, pooled.calibration
    else:
        supervised, of_supervised = fit.supervised, fit.calibration_supervised
        held_out_supervised = fit.held_out_supervised[np.isin(fit.positions, pooled.positions)]
    return AutomaticFit(model, supervised, lambda: model.values_at[graph.vertices.vertex], pooled.positions,
                        pooled.held_out, held_out_supervised, attributes, calibration=calibration,
                        calibration_supervised=of_supervised, pooled=pooled)

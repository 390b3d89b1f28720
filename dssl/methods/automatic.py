"""The automatic choice: the first to try, with nothing to tune.

    models    the model and its baselines

    model     graph kernels and kernels on the labels, each as much as leave-one-out says; with many labels
              harmonic functions on the graph or the nearest labels, as a held-out share says
    base      the supervised baseline, chosen alike
    nearest   the label of the nearest labeled point
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, ClassVar, Literal

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import DsslError, ParameterError, SpecError, explain
from ..execution.cost import Cost, cost_of
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.knn_graph import KNNGraph
from ..kernels.base import RBF
from ..learners.class_prior import EQUAL, LABELS, ClassPrior, ClassWeight
from ..learners.kernel_family import KernelSum
from ..learners.metrics import ClassScoring, require_decisions
from ..learners.model import Model, predict_cost
from ..learners.nearest import fit_nearest_baseline
from ..learners.on_graph.automatic import (
    AutomaticFit,
    Loss,
    fit_automatic,
    label_limit,
    limited_by_memory,
    metric_of,
    pooled_automatic,
)
from ..learners.on_graph.blend import Refit, rows_of_blend
from ..learners.on_graph.class_sizes import known_shares, offset_to
from ..learners.on_graph.cost import automatic_cost, predicted_cost
from ..learners.on_graph.graph_ridge import GraphRidgeParams, members_bytes
from ..learners.on_graph.model import GraphModel, VertexIndex, vertex_index
from ..learners.probabilities import calibration_attributes
from ..learners.target.target import Classes, Target
from ..report.record import Baseline, ReportText
from ..report.sections.solver import choice_section
from ..selection.by_labels import (
    NOT_WITHOUT_OTHER,
    LabelFolds,
    ModelsMade,
    OfModels,
    by_labels,
    has_another,
    with_other_model,
)
from ..selection.graph_gain import gain_of, held_out_loss
from ..selection.held_out_scores import HeldOut, require_scoring, spread_over_labels
from ..selection.scoring import with_scoring
from ..storage.blocks import PartWriter, Rows
from ..storage.views import SelectedRows
from .data_sections import ScaledByLabels
from .graph.method import FEWER
from .linear import NO_WEIGHTS
from .odd_labels import odd_labels, warn_odd_labels
from .other_model import OtherModel, PooledModel, can_learn, evidence_of, other_cost
from .plan_inputs import PlanInputs
from .sections import GraphSections
from .step import Context, HeldOutValues, Method, Step

VALUES = 1  # the part of what the model says at the training points
Fit = Callable[..., AutomaticFit]  # of a target and the weights of its labels


@dataclass(frozen=True, kw_only=True)
class AutomaticParams:
    """What the automatic choice follows from.

    graph : how new points reach it. family : of graph kernels. max_labels : up to which kernels are made. prior,
    weight : how frequent the classes are among the points that are predicted, by known sizes too, and what their labels
    weigh. scoring : what the predicted class is best for, None for accuracy. base_estimator : another model, see
    `selection/base_estimator.py`, or None. compares : whether there are baselines, and what held-out labels say of
    both.
    """

    baselines: ClassVar[tuple[str, ...]] = ("base", "nearest")
    graph: KNNGraph
    family: GraphRidgeParams
    max_labels: int
    loss: Loss = "squared"
    prior: ClassPrior = LABELS
    weight: ClassWeight = NO_WEIGHTS
    scoring: ClassScoring | None = None
    base_estimator: Any = None
    compares: bool = True


@dataclass(frozen=True, kw_only=True)
class AutomaticModel(PooledModel):
    """Graph kernels and kernels on the labels, averaged with nothing to tune.

    With more than 2,000 labels, or where kernels of them exceed half the memory budget (1,670
    labels at 1 GiB), harmonic functions on the graph or the nearest labeled neighbors
    are used; class_sizes are then refused.

    Parameters
    ----------
    loss : "squared" or "huber"
        The loss of the targets; with "huber" a target that is far from what the
        others say of it counts less.
    scoring : str or None
        The metric for which decisions on classes are best, and by which the model
        and the baselines are compared, by its name in scikit-learn; null is the
        accuracy.
    """

    kind: Literal["automatic"] = "automatic"
    loss: Literal["squared", "huber"] = "squared"
    scoring: ClassScoring | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_decisions(self.scoring, sized=self.class_sizes is not None)


@dataclass(frozen=True, kw_only=True)
class AutomaticSections(GraphSections):
    """The sections of the automatic choice: nothing is chosen but, by those who want to, the graph."""

    model: AutomaticModel = AutomaticModel()

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from self.model.task_mistakes(self.task)
        if self.model.loss != "squared" and self.task != "regression":
            yield "model.loss", SpecError(explain(f"loss {self.model.loss}, and data.task is {self.task}",
                                                  why="it is of residuals", fix="leave model.loss out"))
        if self.model.scoring is not None and self.task != "classification":
            yield "model.scoring", SpecError(explain("model.scoring, and data.task is regression",
                                                     why="it is a metric of classes", fix="leave it out"))

    @cached_property
    def params(self) -> AutomaticParams:
        family = GraphRidgeParams(random_state=self.model.random_state)
        return AutomaticParams(
            graph=self.graph.builder(), family=family, max_labels=label_limit(family, self.budget),
            loss=self.model.loss, prior=self.prior, weight=self.weight, scoring=self.model.scoring,
            base_estimator=self.model.base_estimator)


def make_models(context: Context, params: AutomaticParams) -> ModelsMade:
    """Fit the model, the supervised baseline and the nearest label; write the model's values at the points."""
    target, points, execution = context.target(params.prior), context.points("train"), context.execution
    if isinstance(target, Classes):
        target.require_room(len(points))
        target = with_scoring(target, params.scoring)
    weight, shares = context.label_weights(target, params.weight), known_shares(params.prior.sizes, target)
    other = OtherModel.of(context, target, params.base_estimator, params.family.random_state)
    if other is None:
        target.require_labels()
    _warn_if_memory_binds(len(target.labeled), params)
    graph = context.graph()
    if can_learn(target) and len(target.labeled) <= params.max_labels:
        points = rows_of_blend(points, target.labeled, params.family.random_state, execution)
    index = vertex_index(graph, points, params.graph, execution)
    fit: Fit = partial(fit_automatic, graph, points, class_sizes=params.prior.sizes, params=params.family,
                       max_labels=params.max_labels, knn=params.graph, held_out_loss=held_out_loss, index=index,
                       execution=execution, loss=params.loss, last=None if context.side is None else context.side.last)
    if other is not None:
        fit = partial(_pool, fit, other, graph, params, index, execution)
    fitted = fit(target, weight)
    coding = target.coding
    folds = _label_folds(target, fitted, params.family.random_state,
                         # The report of a run with several labels a point has no curve.
                         curve=params.compares and (context.fit is not None or context.side is None))
    draws = [of_draw for _, of_draw in folds.curve]
    curve = execution.concurrently(lambda: fitted.refit_held_out(draws) if draws and fitted.refit_held_out else [])
    models = {"model": fitted.model}
    if params.compares:
        models |= _baselines(fitted, params, points, target, weight, shares, execution)
    written = execution.concurrently(partial(context.write_models, models))
    baselines_at_labels = _baselines_at_labels(models, points, target, params.max_labels, execution)
    try:
        PartWriter(context.parts, VALUES).write(values=fitted.values)
        if context.side is not None:
            context.side.held_out = HeldOutValues(target.labeled[fitted.positions], coding, fitted.held_out,
                                                  fitted.held_out_supervised)
        at_labels = {"model": fitted.values[target.labeled], **baselines_at_labels()} if len(target.labeled) else {}
        compared, choice = _evidence(context, params, fitted, graph, target, weight, shares, folds, curve)
    finally:  # nothing is written any more once this has ended, however it ends
        written()
    described = {name: {**attributes, "name": name} for name, attributes in written().items()}
    for name, values in at_labels.items():
        described[name] |= {"n_labeled": len(target.labeled), **target.training_metrics(values, coding)}
    described["model"] |= calibration_attributes(fitted.calibration)
    if params.compares:
        described["base"] |= calibration_attributes(fitted.calibration_supervised)
    return {"models": described, **compared, "choice": choice}


def _evidence(context: Context, params: AutomaticParams, fitted: AutomaticFit, graph: Graph, target: Target,
              weight: np.ndarray | None, shares: np.ndarray | None, folds: LabelFolds,
              curve: Callable[[], list[Refit]]) -> tuple[OfModels, JsonObject]:
    """Return how the held-out labels compare the models, and what the report says of the choice.

    shares : of known class sizes, or None. curve : returns the held-out values of the draws of the curve in `folds`.
    """
    coding, held_out = target.coding, target.take(fitted.positions)
    compared: OfModels = {}
    if params.compares:
        of_labels = _by_labels(target, weight, fitted, folds, curve)
        if fitted.pooled is not None and can_learn(target) and "without_other" not in of_labels:
            of_labels = with_other_model(of_labels)
        compared["by_labels"] = {**of_labels, **({} if shares is None else {"without_class_sizes": True})}
    on_graph = fitted.held_out if fitted.pooled is None else fitted.pooled.held_out_learner
    known = np.flatnonzero(np.isfinite(on_graph).all(axis=1) & has_another(target)[fitted.positions])
    weights = None if weight is None else weight[fitted.positions[known]]
    gain = gain_of(held_out.take(known), coding, on_graph[known], fitted.held_out_supervised[known], weights,
                   metric_of(target), without_class_sizes=shares is not None)
    gain = replace(gain, all_labeled=len(target.labeled) == graph.n,
                   single_labels=int((~has_another(target)).sum()) if gain.n else 0)
    odd = odd_labels(held_out, fitted.held_out, context.numbers_of(held_out.labeled))
    warn_odd_labels(odd)
    choice = {**fitted.attributes, "gain": gain.described(), "in_words": gain.in_words(), "odd_labels": odd}
    if fitted.pooled is not None:
        gain = replace(gain, guess=None)  # the model knows what the other one says, too
        other_evidence = evidence_of(fitted.pooled, graph, target, weight)
        sentences = [*([gain.in_words()] if len(held_out.labeled) else []), other_evidence["in_words"]]
        choice |= {"other_model": other_evidence, "in_words": "; ".join(sentences)}
    return compared, choice


def _pool(fit: Fit, other: OtherModel, graph: Graph, params: AutomaticParams, index: VertexIndex, execution: Execution,
          target: Target, weight: np.ndarray | None) -> AutomaticFit:
    """Return the pool of a fit and of another model; known class sizes count after both are pooled."""
    sizes, fitted = params.prior.sizes, None
    if can_learn(target):
        fitted = fit(target, weight) if sizes is None else fit(target.with_prior(EQUAL), weight, class_sizes=None)
    return pooled_automatic(fitted, other.soft_labels(target, weight), graph, target, weight, sizes, params.graph,
                            params.family.random_state, index, execution)


def _warn_if_memory_binds(count: int, params: AutomaticParams) -> None:
    if limited_by_memory(count, params.max_labels):
        warnings.warn(explain(
            f"harmonic functions or nearest labels predict from {count:,} labels, in place of the average of kernels",
            why=f"half of the memory budget holds the kernels of at most {params.max_labels:,} labeled points",
            fix=f"set memory_budget to {2 * members_bytes(count, len(params.family.kernels)):,} or more"),
            UserWarning, stacklevel=3)


def _baselines(fitted: AutomaticFit, params: AutomaticParams, points: Rows, target: Target, weight: np.ndarray | None,
               shares: np.ndarray | None, execution: Execution) -> dict[str, Model]:
    """Return the baselines by name; shares : known class sizes, to which they are moved."""
    base = fitted.supervised
    if shares is not None:
        assert isinstance(base, (KernelSum, GraphModel))
        base = base.shifted(offset_to(base.values(points, execution), base.coding, shares))
    models: dict[str, Model] = {"base": base}
    if len(target.labeled):
        models["nearest"] = fit_nearest_baseline(points, target, params.graph.distance, weight, shares, execution)
    return models


def _baselines_at_labels(models: Mapping[str, Model], points: Rows, target: Target, max_labels: int,
                         execution: Execution) -> Callable[[], dict[str, np.ndarray]]:
    """Return a function that returns the values of each baseline at the labeled points (l, c).

    Few labeled points are predicted by this process, while tasks run.
    """
    labeled: Rows = SelectedRows(points, target.labeled)
    baselines = {name: model for name, model in models.items() if name != "model"}
    if not baselines or not len(target.labeled):
        return dict
    if len(target.labeled) > max_labels:  # as many as the kernels hold
        return lambda: {name: model.values(labeled, execution) for name, model in baselines.items()}

    def predicted() -> dict[str, np.ndarray]:
        rows = labeled.read_all()
        return {name: model.block_values(rows)[0] for name, model in baselines.items()}

    return execution.concurrently(predicted)


def _label_folds(target: Target, fitted: AutomaticFit, random_state: int, *, curve: bool) -> LabelFolds:
    """Return the folds of the labels, with a curve where there are few and the fit can be repeated without some."""
    folds = LabelFolds.of(target, random_state, curve=curve)
    if fitted.refit_held_out is not None or not folds.curve:
        return folds
    why = "Huber's loss weights each label by its residual"
    if fitted.pooled is not None:
        why = "the weight of the other model is selected on all labels"
    elif isinstance(target, Classes):
        why = "the class sizes are known for all points, but not for subsets of the labels"
    return replace(folds, curve=[], no_curve=why)


def _by_labels(target: Target, weight: np.ndarray | None, fitted: AutomaticFit, whole: LabelFolds,
               curve: Callable[[], list[Refit]]) -> dict[str, object]:
    """Return what the labels say, by the values that the model was chosen by; whole, curve : see `_evidence`."""
    if not len(fitted.positions):
        return {"n": 0, "why": "no label is held out"}
    coding = fitted.model.coding
    if not whole.compared:  # of one label a class, each is predicted wrong without itself, and says nothing
        return by_labels(target, whole, {})
    positions = fitted.positions
    if fitted.pooled is None:
        positions = positions[has_another(target)[positions]]
        if not len(positions):
            return {"n": 0, "why": "each label that is held out is the only one of its class"}
    else:  # which knows the classes that have no other label
        whole = replace(whole, single_labels=0)

    def spread(values: np.ndarray) -> np.ndarray:
        return spread_over_labels(values, fitted.positions, len(target.labeled))

    alone = list(positions[:, None])
    held_out_by_model = {name: [HeldOut(target, coding, spread(values), alone, weight)]
                for name, values in (("model", fitted.held_out), ("base", fitted.held_out_supervised),
                                     *([("other", fitted.pooled.held_out_other)] if fitted.pooled else []))}
    for (_, folds), refits in zip(whole.curve, curve(), strict=True):
        for name, values in zip(held_out_by_model, refits, strict=True):
            held_out_by_model[name].append(HeldOut(target, coding, values, folds))
    compared = by_labels(target, replace(whole, compared=alone), held_out_by_model)
    if fitted.pooled is None:
        return compared
    learner, single = spread(fitted.pooled.held_out_learner), ~has_another(target)
    known = list(np.flatnonzero(np.isfinite(learner).all(axis=1) & ~single)[:, None])
    without = replace(whole, compared=known, curve=[], single_labels=int(single.sum()), why=NOT_WITHOUT_OTHER)
    return with_other_model(compared, by_labels(target, without, {
        "model": [HeldOut(target, coding, learner, known, weight)],
        "base": [HeldOut(target, coding, spread(fitted.held_out_supervised), known, weight)]}))


def values_at_training(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Return what the model says at the training points, and at which of them it says nothing: at none."""
    values = context.inputs["models"].parts.read(VALUES)["values"]
    return values, np.zeros(len(values), bool)


def refused(f: PlanInputs, params: AutomaticParams) -> ParameterError | None:
    """Return why the metric is none of the classes of the points, as soon as a step has found these."""
    classes = next((known for step in ("labels", "split") if (known := f.attributes.get(step, {}).get("classes"))),
                   None)
    try:
        require_scoring(params.scoring, classes=not f.is_regression, n_classes=2 if classes is None else len(classes))
    except ParameterError as error:
        return error
    return None


# ---- what the steps take


def _models_cost(f: PlanInputs, params: AutomaticParams) -> Cost:
    """Return what the path takes that so many labels have; where their number is not known, that of both."""
    m, max_labels, sized = f.n_labeled, params.max_labels, params.prior.sizes is not None
    both = {f.labeled_points.lower > max_labels, f.labeled_points.upper > max_labels}
    cost = f.one_of([automatic_cost(
        f.distinct, f.row_bytes, f.nnz, m if many else min(m, max_labels), params.graph.distance, f.n_outputs,
        None if many else params.family, guess=f.bound == "upper", sized=sized, budget=f.budget,
        again=f.follows == "labels")
        for many in sorted(both)], "labeled points")
    values = predict_cost(RBF(1.0), f.dense(f.n, f.width), f.row_bytes, min(m, max_labels), 1, f.n_outputs, 8, f.budget)
    cost += other_cost(f, params.base_estimator)
    fits = cost + replace(values, written=0, peak=0, smallest_peak=0)
    at_labels = cost_of(len(params.baselines) * params.compares * (m > max_labels), 0, 0, 0)
    return replace(fits + at_labels, written=cost.written).guessing("solver")


def _scores_cost(f: PlanInputs, params: AutomaticParams) -> Cost:
    return predicted_cost(f.distinct, f.row_bytes, f.n, f.n_test, f.n_labeled, params.graph.n_neighbors,
                          params.graph.distance, f.n_outputs, f.n_labeled <= params.max_labels, f.budget,
                          searches=not f.follows)


REPORT_TEXT = ReportText(
    model="An average of graph kernels and kernels on the labels, weighted by leave-one-out errors. With many labels, "
          "either harmonic functions on the graph or the nearest labels, whichever predicts held-out labels better.",
    changed="function that merely changed", cause="changed function", graph="graph.width", norm="graph.width",
    unreachable="supervised baseline")
BASELINES = (
    Baseline("base", "The supervised baseline, selected in the same way: kernels on the labels, weighted by "
                     "leave-one-out errors, or with many labels the nearest three. Unlabeled points influence at most "
                     "the scaling and the bandwidths.",
             of_classes="With class sizes, they also shift the scores to these sizes."),
    Baseline("nearest", "Predicts the label of the nearest labeled point. If it is as good, the graph adds little.",
             of_classes="With class sizes, a prior, weights or a scoring, the distances to the nearest labeled points "
                        "of the classes are shifted accordingly."))
AUTOMATIC = Method(
    "automatic", ("classification", "regression"), (
        Step("models", 45, ("split", "points", "labels", "vertices", "neighbors", "graph"), lambda params: params,
             make_models, _models_cost, FEWER, section=choice_section, refuses=refused),),
    _scores_cost, REPORT_TEXT, BASELINES, AutomaticSections, data=ScaledByLabels, has_graph=True,
    at_training=values_at_training, training_needs=("models",))

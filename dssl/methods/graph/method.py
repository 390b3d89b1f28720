"""Learners whose function lives on the graph, with the neighbor extension for new points.

    selection       the learner, by cross-validation on the labels; points that are held out stay in the graph
    vertex_values   the function on the vertices, and its values at labeled points without their own labels
    models          the model: the index by which new points reach the graph; and its baselines

    model     ridge in a family of graph kernels, harmonic functions or Poisson learning
    nearest   the label of the nearest labeled point
    base      ridge regression of the labels in the plain kernel
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from ...execution.cost import Cost, cost_of
from ...execution.tasks import Execution
from ...learners.class_prior import ClassPrior
from ...learners.linear.gram import LearnerParams, ridge
from ...learners.linear.kernel_model import KernelModel, expand
from ...learners.model import Model
from ...learners.nearest import fit_nearest_baseline
from ...learners.on_graph.class_sizes import known_shares, offset_to
from ...learners.on_graph.cost import held_out_cost, learner_cost, model_cost, predicted_cost
from ...learners.on_graph.graph_ridge import KernelColumns
from ...learners.on_graph.held_out import HeldOutValues, Repetitions, calibration_solver
from ...learners.on_graph.model import VertexValues, graph_model, index_of_vertices, scored, signed
from ...learners.probabilities import CALIBRATION, FOLDS, Calibration, calibration_attributes, of_log_probabilities
from ...learners.target.coding import margins_of
from ...learners.target.target import Classes, Target
from ...report.record import Baseline, ReportText
from ...report.sections.selection import selection_section
from ...report.sections.solver import values_section
from ...selection.by_labels import (
    NOT_WITHOUT_OTHER,
    LabelFolds,
    ModelsMade,
    OfModels,
    by_labels,
    has_another,
    max_repetitions,
    with_other_model,
    with_prior,
)
from ...selection.calibration import ONE_BY_ONE, can_calibrate, shift_of
from ...selection.candidates import CandidateScores, Selected
from ...selection.halving import evaluated_by_rungs, json_tables, tables_of
from ...selection.held_out_scores import HeldOut, spread_over_labels
from ...storage.blocks import PartWriter, Rows
from ..other_model import OtherModel, can_learn, evidence_of, other_cost
from ..plan_inputs import PlanInputs
from ..step import Context, Method, Step
from .learner import (
    MAX_SOLVED,
    GraphLearner,
    GraphLearnerParams,
    GraphLearnerSections,
    LearnerEvaluator,
    LearnerSearch,
    PooledLearner,
    has_sizes,
    held_out_of,
    held_out_on_graph,
)

BASE_LEARNER = LearnerParams(kind="ridge")


def _search(params: GraphLearnerParams) -> LearnerSearch:
    return LearnerSearch(**{name: getattr(params, name) for name in LearnerSearch.__dataclass_fields__})


def make_selection(context: Context, params: LearnerSearch) -> Selected:
    """Select the learner by cross-validation on the labels; without a grid, use the one given."""
    named = [each.described() for each in params.learners]
    if params.cv is None:
        return {"choices": {"model": named[0]}, "folds": 0, "place": 0}
    evaluator = LearnerEvaluator.of(context, params)
    repetitions = params.cv.repeated(evaluator.target)

    def evaluate(rung: int, in_rung: Mapping[str, Sequence[Any]],
                 folds: Repetitions) -> dict[str, list[CandidateScores]]:
        scored = evaluator.scores_of([params.learners[number] for number in in_rung["model"]], folds)
        return {"model": [replace(each, parameters={**named[number], **each.parameters})
                          for number, each in zip(in_rung["model"], scored, strict=True)]}

    numbers = params.search.drawn(range(len(named)))
    rungs = evaluated_by_rungs({"model": numbers}, repetitions, params.search, lambda: params.rule, evaluate)
    tables, finalists = tables_of(rungs, params.search)
    best = params.rule.index(finalists["model"])
    return {"choices": {"model": finalists["model"][best].to_json()}, "grid": json_tables(tables),
            "place": numbers[rungs[-1].indices["model"][best]],
            "folds": len(repetitions[0]), "repetitions": params.cv.repetitions, "rule": asdict(params.rule),
            "search": asdict(params.search), "held_out_points": "transductive"}


def _learner(context: Context, params: LearnerSearch) -> GraphLearner:
    return params.learners[context.attributes("selection")["place"]]


def make_values(context: Context, params: LearnerSearch) -> dict[str, Any]:
    """Fit the function on the vertices, and predict labeled points without their own labels where that is known."""
    learner = _learner(context, params)
    columns: KernelColumns = {}
    target, graph, execution = context.target(params.prior), context.graph(), context.execution
    if isinstance(target, Classes):
        target.require_room(len(graph.vertices.vertex))
    weight = context.label_weights(target, params.weight)
    other = OtherModel.of(context, target, params.base_estimator, params.random_state)
    if other is not None:
        return _pooled_values(context, PooledLearner(learner, other, graph, params.random_state, execution), target,
                              weight)
    target.require_labels()
    fitted = learner.fit(graph, target, weight, execution, columns, _start(context, learner))
    folds = params.label_folds(target, learner, len(graph.vertices))
    repeated = list[HeldOutValues]()
    if folds.compared and (params.compares or (can_calibrate(target) and fitted.held_out is None)):
        calibrated = replace(learner, solver=calibration_solver(learner.solver))
        repeated = held_out_on_graph([calibrated], graph, target, weight, folds.repetitions, execution, columns)[0]

    def held_out() -> np.ndarray:
        return signed(repeated[0].values if fitted.held_out is None else fitted.held_out, target)

    calibration: Calibration | None = None
    if isinstance(target, Classes):
        shift = shift_of(target, held_out, scored(target), signed(fitted.values[fitted.reachable], target), weight,
                         learner.assumed)
        calibration = shift.calibration
        if has_sizes(target):
            assert calibration is not None
            log_odds = calibration.slope * margins_of(signed(fitted.values, target), scored(target))
            fitted = learner.with_sizes(fitted, log_odds, graph, target, weight, execution)
            calibration = of_log_probabilities(len(target.names))
        else:
            fitted = fitted.shifted(shift.columns)
    PartWriter(context.parts, 0).write(
        values=fitted.values, reachable=fitted.reachable,
        **{f"{name}{number}": array for number, of_repetition in enumerate(repeated)
                                                       for name, array in (("held_out", of_repetition.values),
                                                                           ("unreachable", of_repetition.unreachable))})
    errors = {} if fitted.held_out is None else {
        name.replace("training", "held_out"): value
        for name, value in target.training_metrics(signed(fitted.held_out, target), scored(target)).items()}
    return {"learner": learner.name, **fitted.described(graph.vertices), **errors,
            **calibration_attributes(calibration)}


def _pooled_values(context: Context, pooling: PooledLearner, target: Target,
                   weight: np.ndarray | None) -> dict[str, Any]:
    """Write the pool of a learner and another model, and its held-out values."""
    pooled = pooling.fit(target, weight)
    held_out = held_out_of(pooled, target)
    sizes = target.prior.sizes if isinstance(target, Classes) else None
    fitted, calibration = pooled.with_class_sizes(sizes, pooling.graph, target, weight, pooling.execution)
    PartWriter(context.parts, 0).write(
        values=fitted.values, reachable=fitted.reachable, held_out0=held_out.values, unreachable0=held_out.unreachable,
        **{f"held_out_{name}": spread_over_labels(values, pooled.positions, len(target.labeled))
           for name, values in (("other", pooled.held_out_other), ("learner", pooled.held_out_learner))})
    return {"learner": pooling.learner.name, **fitted.described(pooling.graph.vertices),
            "other_model": evidence_of(pooled, pooling.graph, target, weight),
            **calibration_attributes(calibration)}


def _start(context: Context, learner: GraphLearner) -> np.ndarray | None:
    """Return the values of the same learner, of the same classes, on the vertices that were there before."""
    if context.base is None or context.base.attributes["learner"] != learner.name or (
            context.of_base("labels").attributes.get("classes") != context.attributes("labels").get("classes")):
        return None
    return context.base.parts.read(0, ("values",))["values"]


def values_at_training(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Return what the function says at the training points, and which of them no label reaches."""
    arrays, vertex = context.arrays("vertex_values"), context.vertices().vertex
    return signed(arrays["values"][vertex], context.target()), ~arrays["reachable"][vertex]


def make_models(context: Context, params: GraphLearnerParams) -> ModelsMade:
    """Make the index by which new points reach the graph, and fit the baselines."""
    target, points, execution = context.target(params.prior), context.points("train"), context.execution
    graph, arrays, weight = context.graph(), context.arrays("vertex_values"), context.label_weights(
        target, params.weight)
    fitted, learner = VertexValues(arrays["values"], arrays["reachable"]), _learner(context, params)
    at_labels = signed(fitted.values[graph.vertices.vertex[target.labeled]], target)
    metrics = target.training_metrics(at_labels, scored(target)) if len(at_labels) else {}
    attributes = {"name": "model", "n_labeled": len(target.labeled), **metrics,
                  **{name: value for name, value in context.attributes("vertex_values").items() if name == CALIBRATION}}
    model = graph_model(graph, fitted, target, params.graph,
                        index_of_vertices(graph, points, params.graph, execution), attributes)
    models: dict[str, Model] = {"model": model}
    compared: OfModels = {}
    is_pooled = "other_model" in context.attributes("vertex_values")
    if params.compares and is_pooled and not can_learn(target):
        compared = {"by_labels": {"n": 0, "why": "no label is held out"}}
    elif params.compares:
        folds = params.label_folds(target, learner, len(graph.vertices))
        assumed = learner.assumed
        if is_pooled:
            folds = replace(folds, curve=[], no_curve="the weight of the other model is selected on all labels")
            assumed = ClassPrior("given")  # the pool is shifted already
        held_out = {"model": [HeldOut(target, scored(target), signed(arrays[f"held_out{number}"], target),
                                      of_repetition, weight,
                                      arrays[f"unreachable{number}"]).with_prior(assumed)
                              for number, of_repetition in enumerate(folds.repetitions)]}
        models |= _baselines(params, points, target, weight, folds, held_out, execution)
        if is_pooled and not folds.compared:
            of_labels = with_other_model(by_labels(target, folds, held_out))
        elif is_pooled:
            other = replace(held_out["model"][0], values=arrays["held_out_other"], unreachable=None)
            of_labels = with_other_model(by_labels(target, folds, {**held_out, "other": [other]}),
                                         _without_other(target, folds, held_out, arrays["held_out_learner"]))
        else:
            of_labels = by_labels(target, folds, held_out)
        compared = {"by_labels": {**of_labels, **({"without_class_sizes": True} if has_sizes(target) else {})}}
    described = context.write_models(models)
    return {"models": {name: {**described[name], **model.attributes} for name, model in models.items()}, **compared}


def _without_other(target: Target, folds: LabelFolds, held_out: dict[str, list[HeldOut]],
                   learner: np.ndarray) -> dict[str, object]:
    """Return what labels say of the learner alone and the baselines; its held-out values (l, c) are NaN if unknown."""
    known = np.isfinite(learner).all(axis=1)
    compared = [fold[known[fold]] for fold in folds.compared if known[fold].any()]
    alone = {name: [replace(fits[0], folds=compared)] for name, fits in held_out.items() if fits}
    alone["model"] = [replace(alone["model"][0], values=learner, unreachable=None)]
    single = int((~has_another(target)).sum())
    return by_labels(target, replace(folds, compared=compared, single_labels=single, why=NOT_WITHOUT_OTHER), alone)


def _baselines(params: GraphLearnerParams, points: Rows, target: Target, weight: np.ndarray | None, folds: LabelFolds,
               held_out: dict[str, list[HeldOut]], execution: Execution) -> dict[str, Model]:
    """Return the baselines by name; held_out : gets what held-out labels say of `base`."""
    models, shares = dict[str, Model](), known_shares(params.prior.sizes, target)
    for name in params.baselines:
        if name == "base":
            base, fits = _base(params, points, target, weight, folds)
            models[name], _, held_out[name] = with_prior(base, target, fits, points)
            if shares is not None:
                models[name] = base.shifted(offset_to(base.values(points, execution), base.coding, shares))
        else:
            models[name] = fit_nearest_baseline(points, target, params.graph.distance, weight, shares, execution,
                                               {"name": name, "n_labeled": len(target.labeled)})
    return models


def _base(params: GraphLearnerParams, points: Rows, target: Target, weight: np.ndarray | None,
          folds: LabelFolds) -> tuple[KernelModel, list[HeldOut]]:
    """Return ridge regression of the labels in the plain kernel, and its values at labels held out.

    A class of soft labels without a label has the value -1 everywhere, so that it is never predicted.
    """
    bandwidth, = params.kernels.bandwidths
    kernel, X = params.kernels.at(bandwidth, points), points.take(target.labeled)
    K = kernel(X, X)

    def fit(kept: np.ndarray) -> KernelModel:
        weighs = weight is not None and not bool((weight[kept] == 1).all())  # weights 1 and none give the same bits
        coef, intercept = ridge(K[np.ix_(kept, kept)], target.take(kept).each_column(), BASE_LEARNER.C,
                                weight[kept] if weight is not None and weighs else None)
        return expand(kernel, X[kept], coef, intercept, target.coding)

    whole = fit(np.arange(len(K)))
    values = K @ whole.coef + whole.intercept
    of_repetitions = list[HeldOut]()
    for repetition in folds.repetitions:
        held_out = np.full(values.shape, np.nan)
        for fold in repetition:
            kept = np.setdiff1d(np.arange(len(K)), fold)
            model = fit(kept)
            held_out[fold] = K[np.ix_(fold, kept)] @ model.coef + model.intercept
        of_repetitions.append(HeldOut(target, whole.coding, held_out, repetition, weight))
    return replace(whole, attributes={
        "name": "base", "n_labeled": len(target.labeled), **target.training_metrics(values, whole.coding),
        "parameters": {"bandwidth": bandwidth, "C": BASE_LEARNER.C}}), of_repetitions


# ---- what the steps take


def _learner_costs(f: PlanInputs, params: GraphLearnerParams) -> list[Cost]:
    """Return what fits of the learners take that may be chosen, and the labels held out of one system."""
    n, m, c = f.vertices, f.n_labeled, f.n_outputs
    if m == 0 or c == 0:  # the soft labels are all there is, or the run ends where labels are looked for
        return [cost_of(0, 0, 0, 0)] * len(params.learners)
    guess = f.bound == "upper"
    costs = list[Cost]()
    sized = params.prior.sizes is not None
    for each in params.learners:
        cost = learner_cost(n, f.nnz, m, c, each.family, guess=guess, sized=sized)
        if each.family is None:
            # One label of each class at a time, and what the learning curve does not see.
            folds = (FOLDS if m > ONE_BY_ONE else max(FOLDS, m // c)) + (max_repetitions(m) - 1) * (n <= MAX_SOLVED)
            of_held_out = held_out_cost(n, f.nnz, m, c, [], folds, systems=1, budget=f.budget, guess=guess)
            cost = replace(cost + of_held_out, written=cost.written)
        costs.append(cost.guessing("solver"))
    return costs


def _values_cost(f: PlanInputs, params: GraphLearnerParams) -> Cost:
    costs, place = _learner_costs(f, params), f.attributes.get("selection", {}).get("place")
    costs = [cost + other_cost(f, params.base_estimator) for cost in costs]
    return f.one_of(costs, "learner") if place is None else costs[place]


def _selection_cost(f: PlanInputs, params: GraphLearnerParams) -> Cost:
    """Return that of the columns of all kernels, and of the systems, which all folds share, of as many columns.

    Among the labels an eigendecomposition of each kernel is held beside its matrices.
    """
    if params.cv is None:
        return cost_of(0, 0, 0, 0)
    m, families = f.n_labeled, [each.family for each in params.learners if each.family is not None]
    return held_out_cost(f.vertices, f.nnz, m, f.n_outputs, families, params.cv.count(m) * params.cv.repetitions,
                         systems=len(params.learners) - len(families), budget=f.budget, guess=f.bound == "upper")


def _models_cost(f: PlanInputs, params: GraphLearnerParams) -> Cost:
    return model_cost(f.distinct, f.row_bytes, f.n_labeled, params.graph.distance, f.n_outputs,
                      "base" in params.baselines, f.budget, sized=params.prior.sizes is not None)


def _scores_cost(f: PlanInputs, params: GraphLearnerParams) -> Cost:
    return predicted_cost(f.distinct, f.row_bytes, f.n, f.n_test, f.n_labeled, params.graph.n_neighbors,
                          params.graph.distance, f.n_outputs, "base" in params.baselines, f.budget,
                          searches=not f.follows)


FEWER = ("lower data.points and predict the others with the model, label fewer points, or use model.kind laprls, "
         "which has no task with the whole graph")
REPORT_TEXT = ReportText(
    model="A function on the graph itself, fitted to the labels. A new point gets the mean of its neighbors.",
    changed="function that merely changed", cause="changed function", graph="graph.width", norm="model.penalty",
    unsupported=("test points unreachable from any label",
                 "The neighbors of these points are unreachable from any label. In classification they have no class "
                 "and count as errors; in regression they get the mean. dssl predict gives them no label. Raise "
                 "graph.n_neighbors, or label more points."),
    unreachable="no prediction")
BASELINES = (
    Baseline("nearest", "Predicts the label of the nearest labeled point. If it is as good, the graph adds little.",
             of_classes="With class sizes, a prior or weights, the distances to the nearest labeled points of the "
                        "classes are shifted accordingly."),
    Baseline("base", "The supervised baseline: kernel ridge regression on the same labels, without the graph. "
                     "Unlabeled points influence at most the scaling and the bandwidth.",
             of_classes="With class sizes, they also shift the scores to these sizes."))
NEEDS = "labels", "vertices", "neighbors", "graph"
GRAPH_LEARNER = Method(
    "graph", ("classification", "regression"), (
        Step("selection", 21, NEEDS, lambda params: replace(_search(params), base_estimator=None), make_selection,
             _selection_cost, f"{FEWER}, or use learner laplace",
             section=partial(selection_section, report_text=REPORT_TEXT), leads=True),
        Step("vertex_values", 32, ("points", *NEEDS, "selection"), _search, make_values, _values_cost,
             f"{FEWER}, or use model.learner laplace", section=values_section, grows=True),
        Step("models", 22, ("points", *NEEDS, "selection", "vertex_values"), lambda params: params, make_models,
             _models_cost, f"{FEWER}, or leave base out of baselines")),
    _scores_cost, REPORT_TEXT, BASELINES, GraphLearnerSections, has_graph=True, evaluator=LearnerEvaluator.of,
    at_training=values_at_training, training_needs=("vertices", "vertex_values"))

"""The kind `graph`: a learner whose function lives on the graph, with the neighbor extension for new points.

    model     ridge in a family of graph kernels, harmonic functions or Poisson learning
    nearest   the label of the nearest labeled point
    base      ridge regression of the labels in the plain kernel

The training points themselves are predicted too: `transductive` scores those whose labels are known and were not shown.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...execution.cost import Cost, cost_of
from ...execution.tasks import Execution
from ...graph.graph import Graph, KNNGraph
from ...kernels.base import kernel_from
from ...learners.class_prior import ClassPrior, ClassWeight
from ...learners.linear.gram import LearnerParams, fit_gram
from ...learners.linear.kernel_model import KernelModel, expand
from ...learners.nearest import fit_nearest_as_told
from ...learners.on_graph.class_sizes import known_shares, offset_to
from ...learners.on_graph.cost import held_out_cost, learner_cost, model_cost, predicted_cost
from ...learners.on_graph.held_out import (
    HeldOutValues,
    Repetitions,
    to_calibrate,
)
from ...learners.on_graph.model import graph_model, scored, signed
from ...learners.on_graph.vertex_labels import VertexValues
from ...learners.prior_shift import PriorShift
from ...learners.probabilities import CALIBRATION, calibration_attributes
from ...learners.target.target import Classes, Target
from ...methods.step import Context
from ...report.sections.selection import selection_section
from ...report.sections.vertex_values import values_section
from ...report.words import Baseline, Words
from ...selection.by_labels import LabelFolds, by_labels, most_repetitions, with_prior
from ...selection.calibration import FOLDS, ONE_BY_ONE, shift_of
from ...selection.halving import judged_by_rungs
from ...selection.held_out_scores import HeldOut
from ...selection.on_graph import row_on_graph
from ...solvers.direct import LARGEST
from ...storage.blocks import PartWriter, Rows
from ..dataset import DATASET
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from ..plan.facts import Facts
from ..points import LABELS, POINTS
from ..predict.stage import PREDICTIONS, predictions_with
from ..sample import SAMPLE_OF_GRAPH
from ..scoring import SCORES, ScoreParams, make_scores, with_scored
from ..split import SPLIT
from ..stage import Kind, Stage
from .graph_spec import GraphLearnerPipeline, SizeParams
from .graph_values import Learners, ValueParams, assumed_by, held_out_on_graph
from .specs import SPECS
from .transductive import transductive_scores

MOST_SOLVED = 100_000  # vertices of a system that is solved anew for each point of a learning curve


def make_selection(context: Context, params: Learners) -> dict[str, Any]:
    """Choose the learner by cross-validation on the labels; without a grid, take the one given."""
    if params.cv is None:
        return {"choices": {"model": params.names[0]}, "folds": 0, "place": 0}
    target, graph, kept = context.target(params.values[0].prior), context.graph(), dict[Any, Any]()
    repetitions, weight = params.cv.repeated(target), target.label_weights(params.values[0].weight)

    def judge(rung: int, standing: Mapping[str, Sequence[Any]], folds: Repetitions) -> dict[str, list[dict[str, Any]]]:
        own = [params.values[place] for place in standing["model"]]
        found = held_out_on_graph(own, graph, target, folds, context.execution, kept)
        return {"model": [{**params.names[place], **row_on_graph(target, folds, values, weight, params.rule.scoring,
                                                                 its.family, its.assumed), "place": place}
                          for place, its, values in zip(standing["model"], own, found, strict=True)]}

    tables, last = judged_by_rungs({"model": params.search.drawn(range(len(params.values)))}, repetitions,
                                   params.search, params.rule, judge)
    choice = params.rule.choose(last["model"])
    rows = [{name: value for name, value in row.items() if name != "place"} for row in (choice, *tables["model"])]
    return {"choices": {"model": rows[0]}, "grid": {"model": rows[1:]}, "place": choice["place"],
            "folds": len(repetitions[0]), "repetitions": params.cv.repetitions, "rule": asdict(params.rule),
            "search": asdict(params.search), "held_out_points": "transductive"}


def make_values(context: Context, learners: Learners) -> dict[str, Any]:
    """Fit the function on the vertices, and predict labeled points without their own labels where that is known."""
    params = learners.values[context.attributes("selection")["place"]]
    target, graph = context.target(params.prior), context.graph()
    target.require_labels()
    kept = dict[Any, Any]()
    found = params.fit(graph, target, target.label_weights(params.weight), context.execution, kept,
                       _start(context, params))
    folds = label_folds(target, sized=params.sized, solved=len(graph.vertices) if params.family is None else 0)
    left_out = _left_out(params, graph, target, folds, context.execution, kept)
    calibration = None
    if isinstance(target, Classes) and not params.sized:
        shift = _shift(found, left_out, target, target.label_weights(params.weight), params.assumed)
        found, calibration = found.moved(shift.columns), shift.calibration
    PartWriter(context.parts, 0).write(
        values=found.values, reached=found.reached, **{f"{name}{number}": array for number, own in enumerate(left_out)
                                                       for name, array in (("held_out", own.values),
                                                                           ("lost", own.lost))})
    held_out = {} if found.held_out is None else {
        name.replace("training", "held_out"): value
        for name, value in target.missed(signed(found.held_out, target), scored(target)).items()}
    return {"learner": params.learner, **found.described(graph.vertices), **held_out,
            **calibration_attributes(calibration)}


def _start(context: Context, params: ValueParams) -> np.ndarray | None:
    """Return the values of the same learner, of the same classes, on the vertices that were there before."""
    if context.base is None or context.base.attributes["learner"] != params.learner or (
            context.of_base("labels").attributes.get("classes") != context.attributes("labels").get("classes")):
        return None
    return context.base.parts.read(0, ("values",))["values"]


def _shift(found: VertexValues, left_out: Sequence[HeldOutValues], target: Classes, weight: np.ndarray | None,
           assumed: ClassPrior) -> PriorShift:
    """Return what moves the function to the wanted frequencies, by its exact leave-one-out values or those of folds.
    """
    n_columns = signed(found.values[:0], target).shape[1]
    return shift_of(target, lambda: signed(left_out[0].values if found.held_out is None else found.held_out, target),
                    scored(target), n_columns, weight, assumed)


def label_folds(target: Target, *, sized: bool, solved: int) -> LabelFolds:
    """Return what is held out of the labels; sized : by a fit each. solved : vertices of a system of each fit, or 0."""
    return LabelFolds.of(target, a_fit_each=sized, curve=not sized and solved <= MOST_SOLVED)


def _left_out(params: ValueParams, graph: Graph, target: Target, folds: LabelFolds, execution: Execution,
              kept: dict[Any, Any]) -> list[HeldOutValues]:
    """Return the values of labeled points in each repetition of what is held out."""
    own = replace(params, solver=to_calibrate(params.solver))
    return held_out_on_graph([own], graph, target, folds.repetitions, execution, kept)[0] if folds.compared else []


def _values(context: Context) -> VertexValues:
    """Return the function on the vertices."""
    arrays = context.arrays("vertex_values")
    return VertexValues(arrays["values"], arrays["reached"])


@dataclass(frozen=True)
class ModelParams:
    """How new points reach the graph; and the baselines, with the plain kernel and its learner."""

    graph: KNNGraph
    baselines: tuple[str, ...]
    kernel: str
    bandwidth: float | str | None
    parameters: dict[str, int | float]
    learner: LearnerParams
    random_state: int
    class_sizes: SizeParams
    prior: ClassPrior
    weight: ClassWeight

    @classmethod
    def of(cls, spec: GraphLearnerPipeline) -> "ModelParams":
        kernel = spec.kernel
        return cls(spec.graph.builder(), spec.baselines, kernel.name, kernel.bandwidth, kernel.parameters,
                   LearnerParams(kind="ridge"), spec.model.random_state, spec.model.sizes(), spec.prior,
                   spec.weight)

    def base(self, points: Rows, target: Target, folds: LabelFolds,
             execution: Execution) -> tuple[KernelModel, list[HeldOut]]:
        """Return ridge regression of the labels in the plain kernel, and its values at labels held out.

        Both are told the class sizes that the graph's function is told.
        """
        kernel = kernel_from(self.kernel, self.bandwidth, rows=points, random_state=self.random_state,
                             **self.parameters)
        X = points.take(target.labeled)
        K = kernel(X, X)
        shares, weight = known_shares(self.class_sizes.sizes, target), target.label_weights(self.weight)

        def fit(kept: np.ndarray) -> KernelModel:
            coef, intercept, coding = fit_gram(K[np.ix_(kept, kept)], target.take(kept), self.learner,
                                               None if weight is None else weight[kept])
            model = expand(kernel, X[kept], coef, intercept, coding)
            return model if shares is None else replace(
                model, intercept=intercept + offset_to(model.values(points, execution), coding, shares))

        whole = fit(np.arange(len(K)))
        values = K @ whole.coef + whole.intercept
        left_out = list[HeldOut]()
        for repetition in folds.repetitions:
            without = np.full(values.shape, np.nan)
            for fold in repetition:
                kept = np.setdiff1d(np.arange(len(K)), fold)
                model = fit(kept)
                without[fold] = K[np.ix_(fold, kept)] @ model.coef + model.intercept
            left_out.append(HeldOut(target, whole.coding, without, repetition, weight))
        return replace(whole, attributes={
            "name": "base", "n_labeled": len(target.labeled), **target.missed(values, whole.coding),
            "parameters": {"bandwidth": self.bandwidth, "C": self.learner.C}}), left_out


def make_models(context: Context, params: ModelParams) -> dict[str, Any]:
    """Make the index by which new points reach the graph, and fit the baselines."""
    target, points = context.target(params.prior), context.points("train")
    graph, found = context.graph(), _values(context)
    own = signed(found.values[graph.vertices.vertex[target.labeled]], target)
    model = graph_model(graph, points, found, target, params.graph, context.execution, {
        "name": "model", "n_labeled": len(target.labeled), **target.missed(own, scored(target)), **{
            name: value for name, value in context.attributes("vertex_values").items() if name == CALIBRATION}})
    models: dict[str, Any] = {"model": model}
    learner = context.attributes("vertex_values")["learner"]
    shares = known_shares(params.class_sizes.sizes, target)
    solved = 0 if learner == "ridge" else len(graph.vertices)
    folds = label_folds(target, sized=shares is not None, solved=solved)
    arrays = context.arrays("vertex_values")
    left_out = {"model": [HeldOut(target, scored(target), signed(arrays[f"held_out{number}"], target), own,
                                  target.label_weights(params.weight), arrays[f"lost{number}"]).with_prior(
                                      assumed_by(learner, None if shares is None else params.prior))
                          for number, own in enumerate(folds.repetitions)]}
    for name in params.baselines:
        if name == "base":
            base, held = params.base(points, target, folds, context.execution)
            # Known sizes have moved it already.
            models[name], _, left_out[name] = with_prior(base, target, held) if shares is None else (base, None, held)
        else:
            models[name] = fit_nearest_as_told(
                points, target, params.graph.metric, target.label_weights(params.weight), shares, context.execution,
                {"name": name, "n_labeled": len(target.labeled)})
    described = {name: item.to_arrays() for name, item in models.items()}
    PartWriter(context.parts, 0).write(**{f"{name}.{key}": array for name, (arrays, _) in described.items()
                                          for key, array in arrays.items()})
    return {"models": {name: attributes for name, (_, attributes) in described.items()},
            "by_labels": by_labels(target, folds, left_out)}


def _values_of_training(context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Return what the function says at the training points, and which of them no label reaches."""
    found, vertex = _values(context), context.vertices().vertex
    return signed(found.values[vertex], context.target()), ~found.reached[vertex]


def make_graph_scores(context: Context, params: ScoreParams) -> dict[str, Any]:
    """Predict the test points with every model and compare; score the training points whose labels were not shown."""
    found, vertex = _values(context), context.vertices().vertex
    return {**make_scores(context, params), **transductive_scores(
        context, lambda target, places: signed(found.values[vertex[places]], target), ~found.reached[vertex])}


def _learner_costs(f: Facts[GraphLearnerPipeline]) -> list[Cost]:
    """Return what fits of the learners take that may be chosen, and the labels left out of one system."""
    if f.vertices > LARGEST:
        f.estimated.add("solver")
    n, m, c, guess, found = f.vertices, f.n_labeled, f.n_outputs, f.bound == "most", list[Cost]()
    for own in Learners.of(f.spec).values:
        cost = learner_cost(n, f.nnz, m, c, own.family, guess=guess, sized=own.sized)
        if own.family is None and not own.sized:
            # One label of each class at a time, and what the learning curve does not see.
            folds = (FOLDS if m > ONE_BY_ONE else max(FOLDS, m // c)) + (most_repetitions(m) - 1) * (n <= MOST_SOLVED)
            left_out = held_out_cost(n, f.nnz, m, c, [], folds, systems=1, budget=f.budget, guess=guess)
            cost = cost_of(cost.tasks + left_out.tasks, cost.read + left_out.read, cost.written,
                           max(cost.peak, left_out.peak), max(cost.least, left_out.least))
        found.append(cost)
    return found


def _values_cost(f: Facts[GraphLearnerPipeline]) -> Cost:
    costs, place = _learner_costs(f), f.attributes.get("selection", {}).get("place")
    return f.one_of(costs) if place is None else costs[place]


def _selection_cost(f: Facts[GraphLearnerPipeline]) -> Cost:
    """Return that of the columns of all kernels, and of the systems, which all folds share, of as many columns.

    Among the labels an eigendecomposition of each kernel is held beside its matrices.
    """
    chosen = f.spec.selection
    if chosen is None:
        return cost_of(0, 0, 0, 0)
    learners, m = Learners.of(f.spec).values, f.n_labeled
    families = [own.family for own in learners if own.family is not None]
    return held_out_cost(f.vertices, f.nnz, m, f.n_outputs, families, chosen.cv().count(m) * chosen.repetitions,
                         systems=sum(own.family is None for own in learners), budget=f.budget,
                         guess=f.bound == "most")


def _models_cost(f: Facts[GraphLearnerPipeline]) -> Cost:
    return model_cost(f.distinct, f.row_bytes, f.n_labeled, f.graph.metric, f.n_outputs, "base" in f.spec.baselines,
                      f.budget, sized=any(own.sized for own in Learners.of(f.spec).values))


def _scores_cost(f: Facts[GraphLearnerPipeline]) -> Cost:
    cost = predicted_cost(f.distinct, f.row_bytes, f.n, f.n_test, f.n_labeled, f.graph.n_neighbors, f.graph.metric,
                          f.n_outputs, "base" in f.spec.baselines, f.budget)
    return with_scored(cost, f, len(f.spec.baselines) + 1)


_FEWER = ("lower data.points and predict the others with the model, label fewer points, or use model.kind laprls, "
          "which has no task with the whole graph")
WORDS = Words(
    model="A function on the graph itself, fitted to the labels; a new point takes the mean of its neighbors.",
    changed="function that merely changed", cause="changed function", graph="graph.width", norm="model.penalty",
    unsupported=("test points that no label reaches",
                 "No label reaches a neighbor of theirs: they have no class and count as wrong; in a regression they "
                 "have the mean. dssl predict gives them no label. Raise graph.n_neighbors, or label more points."),
    unreached="no prediction")
BASELINES = (
    Baseline("nearest", "The label of the nearest labeled point. If it is as good, the graph says little.",
             of_classes="With class sizes, a prior or weights, the distances to the nearest labeled points of the "
                        "classes are shifted to these."),
    Baseline("base", "Ridge regression of the same labels in the plain kernel, without the graph: unlabeled points "
                     "enter at most the scaling and the bandwidth.",
             of_classes="With class sizes they also shift the scores to these."))
GRAPH_LEARNER = Kind.of(SPECS["graph"], (
    DATASET, SPLIT, LABELS, POINTS, VERTICES, NEIGHBORS, GRAPH, HEALTH,
    Stage("selection", 7, ("labels", "vertices", "neighbors", "graph"), Learners.of, make_selection, _selection_cost,
          f"{_FEWER}, or use learner laplace", section=partial(selection_section, words=WORDS), leads=True),
    Stage("vertex_values", 10, ("labels", "vertices", "neighbors", "graph", "selection"), Learners.of, make_values,
          _values_cost, f"{_FEWER}, or use model.learner laplace", section=values_section, grows=True),
    Stage("models", 8, ("split", "points", "labels", "vertices", "neighbors", "graph", "vertex_values"), ModelParams.of,
          make_models, _models_cost, f"{_FEWER}, or leave base out of baselines"),
    SAMPLE_OF_GRAPH,
    predictions_with(_scores_cost, _values_of_training, (*PREDICTIONS.needs, "vertices", "vertex_values")),
    replace(SCORES, version=4, needs=("split", "points", "labels", "vertices", "vertex_values", "models"),
            make=make_graph_scores, cost=_scores_cost, remedy=_FEWER),
), words=WORDS, baselines=BASELINES)

"""The kind `graph`: a learner whose function lives on the graph, with the neighbor extension for new points.

    model     ridge in a family of graph kernels, harmonic functions or Poisson learning
    nearest   the label of the nearest labeled point
    base      ridge regression of the labels in the plain kernel

The training points themselves are predicted too: `transductive` scores those whose labels are known and were not shown.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...execution.cost import Cost
from ...execution.tasks import Execution
from ...graph.graph import Graph, KNNGraph
from ...kernels.base import kernel_from
from ...learners.kernel_model import KernelModel, expand
from ...learners.nearest import fit_nearest
from ...learners.on_graph.class_sizes import with_class_sizes
from ...learners.on_graph.cost import learner_cost, model_cost, predicted_cost
from ...learners.on_graph.graph_ridge import GraphRidgeParams, fit_graph_ridge
from ...learners.on_graph.harmonic import fit_harmonic
from ...learners.on_graph.model import graph_model, scored, signed
from ...learners.on_graph.poisson import fit_poisson
from ...learners.on_graph.vertex_labels import VertexValues
from ...learners.ridge_and_svm import LearnerParams, fit_gram
from ...learners.target import Classes, Target
from ...report.sections.vertex_values import values_section
from ...report.words import Baseline, Words
from ...selection.scores import scores_of, withheld
from ...solvers.direct import LARGEST
from ...solvers.solve import SolverParams
from ...storage.blocks import PartWriter, Rows
from ..facts import Facts
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES, graph_of, vertices_of
from ..points import DATASET, LABELS, POINTS, SPLIT, labeled_target, split_target
from ..scoring import SCORES, make_scores
from ..stage import Context, Kind, NoParams, Stage
from .graph_spec import GraphLearnerPipeline, SizeParams


@dataclass(frozen=True)
class ValueParams:
    """The learner with its parameters; family : of ridge."""

    learner: str
    family: GraphRidgeParams | None
    solver: SolverParams
    class_sizes: SizeParams

    @classmethod
    def of(cls, spec: GraphLearnerPipeline) -> "ValueParams":
        model = spec.model
        return cls(model.learner, model.family(spec.graph.laplacian), model.solver(), model.sizes())

    def fit(self, graph: Graph, target: Target, execution: Execution) -> VertexValues:
        """Return the learner's function on the vertices.

        Known class sizes scale harmonic functions (class mass normalization); others are moved to them, and diffuse.
        """
        if self.family is not None:
            found = fit_graph_ridge(graph, target, None, self.family, execution)
        elif self.learner == "laplace":
            found = fit_harmonic(graph, target, None, self.solver, execution)
        else:
            assert isinstance(target, Classes)  # the spec refuses quantities
            found = fit_poisson(graph, target, None, self.solver, execution)
        if not isinstance(target, Classes):
            return found
        return with_class_sizes(found, self.class_sizes.sizes, graph, target, None, self.solver, execution,
                                harmonic=self.learner == "laplace")


def make_values(context: Context, params: ValueParams) -> dict[str, Any]:
    """Fit the function on the vertices, and predict labeled points without their own labels where that is known."""
    target, graph = labeled_target(context), graph_of(context)
    target.require_labels()
    found = params.fit(graph, target, context.execution)
    PartWriter(context.parts, 0).write(values=found.values, reached=found.reached)
    held_out = {} if found.held_out is None else {
        name.replace("training", "held_out"): value
        for name, value in target.missed(signed(found.held_out, target), scored(target)).items()}
    return {"learner": params.learner, **found.described(graph.vertices), **held_out}


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
    seed: int

    @classmethod
    def of(cls, spec: GraphLearnerPipeline) -> "ModelParams":
        kernel = spec.kernel
        return cls(spec.graph.builder(), spec.baselines, kernel.name, kernel.bandwidth, kernel.parameters,
                   LearnerParams(kind="ridge"), spec.model.seed)

    def base(self, points: Rows, target: Target) -> KernelModel:
        """Return ridge regression of the labels in the plain kernel."""
        kernel = kernel_from(self.kernel, self.bandwidth, rows=points, seed=self.seed, **self.parameters)
        X = points.take(target.labeled)
        K = kernel(X, X)
        coef, intercept, coding = fit_gram(K, target, self.learner)
        return expand(kernel, X, coef, intercept, coding, {
            "name": "base", "n_labeled": len(target.labeled), **target.missed(K @ coef + intercept, coding),
            "parameters": {"bandwidth": self.bandwidth, "C": self.learner.C}})


def make_models(context: Context, params: ModelParams) -> dict[str, Any]:
    """Make the index by which new points reach the graph, and fit the baselines."""
    target, points, graph, found = labeled_target(context), context.points("train"), graph_of(context), _values(context)
    own = signed(found.values[graph.vertices.vertex[target.labeled]], target)
    model = graph_model(graph, points, found, target, params.graph, context.execution, {
        "name": "model", "n_labeled": len(target.labeled), **target.missed(own, scored(target))})
    models: dict[str, Any] = {"model": model}
    for name in params.baselines:
        models[name] = params.base(points, target) if name == "base" else fit_nearest(
            points, target, params.graph.metric, context.execution, {"name": name, "n_labeled": len(target.labeled)})
    described = {name: item.to_arrays() for name, item in models.items()}
    PartWriter(context.parts, 0).write(**{f"{name}.{key}": array for name, (arrays, _) in described.items()
                                          for key, array in arrays.items()})
    return {"models": {name: attributes for name, (_, attributes) in described.items()}}


def make_graph_scores(context: Context, params: NoParams) -> dict[str, Any]:
    """Predict the test points with every model and compare; score the training points whose labels were not shown."""
    found, vertex = _values(context), vertices_of(context).vertex
    return {**make_scores(context, params), **transductive_scores(
        context, lambda target, places: signed(found.values[vertex[places]], target), ~found.reached[vertex])}


def transductive_scores(context: Context, values_at: Callable[[Target, np.ndarray], np.ndarray],
                        beyond: np.ndarray) -> dict[str, Any]:
    """Return the scores of the training points whose labels are known and were not shown; nothing without any.

    values_at : the target and places of points -> what the model says there, (n, c). beyond (n_train,) bool : where it
    says nothing.
    """
    known, shown = split_target(context, "train"), context.arrays("labels")["labeled"]
    hidden = known.take(np.flatnonzero(~np.isin(known.labeled, shown)))
    if not len(hidden.labeled):
        return {}
    lost = beyond[hidden.labeled]
    predicted = withheld(scored(hidden).predictions(values_at(hidden, hidden.labeled), hidden.coded), lost)
    own = {name: value for name, value in scores_of(hidden, predicted).items() if name != "confusion"}
    return {"transductive": {**own, "unsupported": int(lost.sum())}}


def _values_cost(f: Facts[GraphLearnerPipeline]) -> Cost:
    params = ValueParams.of(f.spec)
    if f.vertices > LARGEST:
        f.estimated.add("solver")
    return learner_cost(f.vertices, f.nnz, f.n_labeled, f.n_outputs, params.family, guess=f.bound == "most",
                        sized=params.class_sizes.sizes is not None)


def _models_cost(f: Facts[GraphLearnerPipeline]) -> Cost:
    return model_cost(f.distinct, f.row_bytes, f.n_labeled, f.graph.metric, f.n_outputs, "base" in f.spec.baselines,
                      f.budget)


def _scores_cost(f: Facts[GraphLearnerPipeline]) -> Cost:
    return predicted_cost(f.distinct, f.row_bytes, f.n, f.n_test, f.n_labeled, f.graph.n_neighbors, f.graph.metric,
                          f.n_outputs, "base" in f.spec.baselines, f.budget)


_FEWER = "lower data.points, or label fewer points"
WORDS = Words(
    model="A function on the graph itself, fitted to the labels; a new point takes the mean of its neighbors.",
    changed="function that merely changed", cause="changed function", graph="graph.width", norm="model.penalty",
    unsupported=("test points that no label reaches",
                 "No label reaches a neighbor of theirs: they have no class and count as wrong; in a regression they "
                 "have the mean. dssl predict gives them no label. Raise graph.n_neighbors, or label more points."),
    unreached="no prediction")
BASELINES = (
    Baseline("nearest", "The label of the nearest labeled point. If it is as good, the graph says little."),
    Baseline("base", "Ridge regression of the same labels in the plain kernel, without the graph: unlabeled points "
                     "enter at most the scaling and the bandwidth."))
GRAPH_LEARNER = Kind("graph", GraphLearnerPipeline, ("classification", "regression"), (
    DATASET, SPLIT, LABELS, POINTS, VERTICES, NEIGHBORS, GRAPH, HEALTH,
    Stage("vertex_values", 1, ("labels", "vertices", "neighbors", "graph"), ValueParams.of, make_values, _values_cost,
          f"{_FEWER}, or use model.learner laplace", section=values_section),
    Stage("models", 1, ("split", "points", "labels", "vertices", "neighbors", "graph", "vertex_values"), ModelParams.of,
          make_models, _models_cost, f"{_FEWER}, or leave base out of baselines"),
    replace(SCORES, version=1, needs=("split", "points", "labels", "vertices", "vertex_values", "models"),
            make=make_graph_scores, cost=_scores_cost, remedy=_FEWER),
), words=WORDS, baselines=BASELINES)

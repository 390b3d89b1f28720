"""The model in a deformed kernel and its baselines, on the same labels: what they are fitted to, searches and fits.

    model           the learner in the kernel deformed by the graph
    base            the same learner in the base kernel: no unlabeled data
    shuffled        the same as the model, with the graph's vertices permuted: an equal graph that says nothing
    landmark_graph  the same as the model, with a graph of the landmarks alone
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from ...base.types import Matrix
from ...execution.in_process import InProcess
from ...graph.laplacian import Laplacian
from ...graph.regularizer import RegularizerParams
from ...graph.weights.build import weights
from ...graph.weights.rules import WeightParams
from ...kernels.base import BaseKernels, Kernel
from ...kernels.deformed import shuffled
from ...kernels.landmark_inverse import inverse_at_landmarks
from ...knn.search import NeighborParams, find_neighbors
from ...learners.class_prior import ClassPrior, ClassWeight
from ...learners.deformed import Deformation, deform_by
from ...learners.linear.gram import LearnerParams, fit_gram, ridge_with_held_out
from ...learners.linear.kernel_model import KernelModel, expand
from ...learners.model import Model
from ...learners.probabilities import calibration_attributes
from ...learners.target.coding import Coding
from ...learners.target.target import Target
from ...selection.by_labels import LabelFolds, ModelsMade, OfModels, by_labels, with_prior
from ...selection.candidates import LOWEST_ERROR, CandidateScores, Selected, SelectionRule
from ...selection.folds import FoldParams, held_out
from ...selection.halving import ALL, Repetitions, Search, evaluated_by_rungs, json_tables, some_folds, tables_of
from ...selection.held_out_scores import HeldOut
from ...selection.search import CrossValidation, GridParams, search_base, search_deformed
from ...solvers.method import Direct
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Arrays, PartWriter, Receipt, Rows
from ...storage.csr import as_rows
from ..step import WEIGHT, Context, FittedModels

MAX_FOLDED = 5000  # labels above which one fold alone is held out, since each fold is a fit


@dataclass(frozen=True)
class LandmarkGraph:
    """How the graph of the landmarks alone is made, for the baseline of that name."""

    neighbors: NeighborParams
    weights: WeightParams
    regularizer: RegularizerParams


@dataclass(frozen=True)
class LearningParams:
    """What the model and its baselines have in common; landmark_graph : of that baseline, where it is asked for."""

    kind: Literal["svm", "ridge"]
    kernels: BaseKernels
    baselines: tuple[str, ...]
    random_state: int
    landmark_graph: LandmarkGraph | None
    prior: ClassPrior
    weight: ClassWeight


@dataclass(frozen=True)
class DeformedProblem:
    """What the model and its baselines are trained on, as the tasks that search and fit need it."""

    points: Rows  # all training points, scaled
    covariance: Arrays  # `power{p}` (s, s) of each power
    chosen: Arrays  # landmarks (s,)
    labels: Arrays  # arrays of the `Target`, and the weights of its labels where there are any
    attributes: dict[str, Any]  # of the `Target`
    learning: LearningParams
    concentration: dict[int, float]  # spectral concentration of the graph, by power

    def base(self, bandwidth: float | str | None) -> Kernel:
        return self.learning.kernels.at(bandwidth, self.points)

    def landmarks(self) -> np.ndarray:
        return self.chosen.load()["landmarks"]

    def target(self) -> Target:
        return Target.from_arrays(self.labels.load(), self.attributes).with_prior(self.learning.prior)

    def weight(self, target: Target) -> np.ndarray | None:
        """Return what each label weighs (l,); None where all weigh 1."""
        return target.label_weights(self.learning.weight, self.labels.load().get(WEIGHT))

    def concentration_of(self, name: str) -> dict[int, float]:
        """Return the spectral concentration of the graph of a model by power, where it is known."""
        return {} if name == "landmark_graph" else self.concentration

    def covariances(self, name: str, powers: tuple[int, ...], X_S: Matrix) -> dict[int, np.ndarray]:
        """Return Q^+ (s, s) at the landmarks of each power, as the model of this name takes it."""
        if name == "landmark_graph":
            assert self.learning.landmark_graph is not None
            return landmark_graph_covariance(X_S, self.learning.landmark_graph, powers)
        arrays, random_state = self.covariance.load(), self.learning.random_state
        return {power: shuffled(arrays[f"power{power}"], random_state) if name == "shuffled"
                else arrays[f"power{power}"]
                for power in powers}


def problem_of(context: Context, learning: LearningParams) -> DeformedProblem:
    """Return what the tasks that search and fit need."""
    graph = learning.landmark_graph
    if graph is not None:
        k = max(1, min(graph.neighbors.n_neighbors, context.attributes("landmarks")["n_landmarks"] - 1))
        graph = replace(graph, neighbors=replace(graph.neighbors, n_neighbors=k))
    labels, attributes = context.shared_labels()
    concentration = context.attributes("covariance")["spectral_concentration"]
    return DeformedProblem(
        points=context.points("train"), covariance=context.inputs["covariance"].parts.arrays(0),
        chosen=context.inputs["landmarks"].parts.arrays(0), labels=labels, attributes=attributes,
        learning=replace(learning, landmark_graph=graph),
        concentration={int(power): value for power, value in concentration.items()})


@dataclass(frozen=True)
class SearchTask:
    """Cross-validate the grid of one model at one bandwidth."""

    problem: DeformedProblem
    name: str  # model, base or landmark_graph
    bandwidth: float | str | None
    grid: GridParams
    cv: FoldParams
    n_folds: int  # of all repetitions: those that are held out
    scoring: str | None = None
    complete: bool = False  # whether every score is computed

    def __call__(self, out: PartWriter) -> Receipt:
        problem, target = self.problem, self.problem.target()
        validation = CrossValidation(target, some_folds(self.cv.repeated(target), self.n_folds), problem.learning.kind,
                                     problem.weight(target), self.scoring, self.complete,
                                     problem.learning.random_state)
        candidates = search_grid(problem, self.name, self.bandwidth, self.grid, validation)
        return {"name": self.name, "grid": [candidate.to_json(complete=True) for candidate in candidates]}


def search_grid(problem: DeformedProblem, name: str, bandwidth: float | str | None, grid: GridParams,
                validation: CrossValidation) -> list[CandidateScores]:
    """Return the candidates of a grid for the model of a name at one bandwidth; see `search_deformed`."""
    X_l, base = problem.points.take(validation.target.labeled), problem.base(bandwidth)
    if name == "base":
        candidates = search_base(base, X_l, grid, validation)
    else:
        landmarks = problem.landmarks()
        X_S, index = problem.points.take(landmarks), {int(row): i for i, row in enumerate(landmarks)}
        position = np.array([index.get(int(row), -1) for row in validation.target.labeled])
        candidates = search_deformed(base, X_S, X_l, position, problem.covariances(name, grid.power, X_S),
                                     problem.concentration_of(name), grid, validation)
    return [candidate.with_parameters(bandwidth=bandwidth) for candidate in candidates]


@dataclass(frozen=True)
class SearchParams:
    """The grid and the bandwidths to choose from, the folds and the rule; without a grid, the parameters given."""

    baselines: tuple[str, ...]
    given: dict[str, Any] | None
    learning: LearningParams | None = None
    grid: GridParams | None = None
    bandwidths: tuple[float | str | None, ...] = ()
    cv: FoldParams | None = None
    rule: SelectionRule = LOWEST_ERROR
    search: Search = ALL


def make_selection(context: Context, params: SearchParams) -> Selected:
    """Select power, eta, bandwidth and C of each model by cross-validation; without a grid, use those given."""
    if params.grid is None or params.learning is None or params.cv is None:
        return {"choices": dict.fromkeys(("model", *params.baselines), params.given), "folds": 0}
    whole, cv = params.grid, params.cv
    problem, repetitions = problem_of(context, params.learning), cv.repeated(context.target())
    points = params.search.drawn([(bandwidth, *point) for bandwidth in params.bandwidths
                                  for point in whole.points])
    of_base = list(dict.fromkeys((bandwidth, None, None, C) for bandwidth, _, _, C in points))
    candidates = {name: of_base if name == "base" else points for name in ("model", *params.baselines)
                  if name != "shuffled"}

    def evaluate(rung: int, in_rung: Mapping[str, Sequence[Any]],
                 folds: Repetitions) -> dict[str, list[CandidateScores]]:
        tasks = [SearchTask(problem, name, bandwidth, grid, cv, sum(map(len, folds)), params.rule.scoring)
                 for name, points in in_rung.items() for bandwidth in params.bandwidths
                 for grid in whole.parts([point[1:] for point in points if point[0] == bandwidth])]
        receipts = context.execution.map(tasks, context.parts.within(f"rung{rung}"))
        scored = {(receipt["name"], row["bandwidth"], row["power"], row["eta"], row["C"]): row
                  for receipt in receipts for row in receipt["grid"]}
        return {name: [CandidateScores.from_json(scored[name, *point]) for point in points]
                for name, points in in_rung.items()}

    rungs = evaluated_by_rungs(candidates, repetitions, params.search, lambda: params.rule, evaluate)
    tables, finalists = tables_of(rungs, params.search)
    selected = {name: params.rule.select(of_model) for name, of_model in finalists.items()}
    # Scores that take long are computed for the selected candidates only.
    complete = context.execution.map([
        SearchTask(problem, name, candidate.parameters["bandwidth"], whole.at(candidate), cv,
                   sum(map(len, repetitions)), complete=True) for name, candidate in selected.items()],
        context.parts.within("scores"))
    scores = {receipt["name"]: receipt["grid"][0]["scores"] for receipt in complete}
    choices = {name: candidate.to_json() for name, candidate in selected.items()}
    return {"choices": {**choices, "shuffled": choices["model"]}, "folds": len(repetitions[0]),
            "held_out_points": whole.held_out_points, "search": asdict(params.search),
            "repetitions": cv.repetitions, "rule": asdict(params.rule), "grid": json_tables(tables), "scores": scores}


@dataclass(frozen=True, eq=False)
class Expansion:
    """The function `K(., points) coef` of the model, in the kernel K that the graph has deformed.

    points (l, d) : the labeled ones. coef : (l, c).
    """

    deformation: Deformation
    points: Matrix
    coef: np.ndarray


def make_models(context: Context, params: LearningParams) -> ModelsMade:
    """Fit the model and its baselines."""
    return context.fit_models(partial(
        fit_models, problem_of(context, params), context.attributes("selection")["choices"]))


@dataclass(frozen=True)
class DeformedModels(FittedModels):
    """The model and its baselines, and the function of the model."""

    function: Expansion


def fit_models(problem: DeformedProblem, choices: Mapping[str, Mapping[str, Any]]) -> DeformedModels:
    """Return the model and its baselines, and what labels held out say of them.

    choices : power, eta, C and bandwidth, by name.
    """
    target, compares = problem.target(), bool(problem.learning.baselines)
    models = dict[str, Model]()
    shares = None  # of the model's etas, which the control takes too
    folds = LabelFolds.of(target, problem.learning.random_state, a_fit_each=True, one_above=MAX_FOLDED, curve=compares)
    held_out_by_model = dict[str, list[HeldOut]]()
    of_model = list[HeldOut]()
    for name in ("model", *problem.learning.baselines):
        fit = fit_model(problem, target, name, choices[name], folds if name in ("model", "base") else None,
                        shares if name == "shuffled" else None)
        # A control is moved as the model is.
        model, calibration, moved = with_prior(fit.model, target, of_model if fit.held_out is None else fit.held_out,
                                               problem.points)
        if fit.held_out is not None:
            held_out_by_model[name] = moved
        if name == "model":
            assert fit.held_out is not None
            assert fit.function is not None
            of_model, function, shares = fit.held_out, fit.function, fit.function.deformation.shares
            model = replace(model, attributes={**model.attributes, **calibration_attributes(calibration)})
        models[name] = model
    compared: OfModels = {"by_labels": by_labels(target, folds, held_out_by_model)} if compares else {}
    return DeformedModels(models, compared, function)


@dataclass(frozen=True, eq=False)
class FittedModel:
    """A model; its function where its kernel is deformed; and its values at labels held out, where these are asked for.
    """

    model: KernelModel
    function: Expansion | None
    held_out: list[HeldOut] | None


def fit_model(problem: DeformedProblem, target: Target, name: str, chosen: Mapping[str, Any],
              folds: LabelFolds | None, shares: np.ndarray | None) -> FittedModel:
    """Return the model of a name. chosen : power, eta, C and bandwidth. folds : to be held out. shares : of eta "auto".

    Memory: the Gram matrix of the labels and its factor.
    """
    weight, base = problem.weight(target), problem.base(chosen["bandwidth"])
    X_l = problem.points.take(target.labeled)
    learner = LearnerParams(kind=problem.learning.kind, C=chosen["C"])
    kernel: Any = base
    deformation: Deformation | None = None
    attributes: dict[str, Any] = {"name": name, "n_labeled": len(target.labeled)}
    if name == "base":
        K = kernel(X_l, X_l)
    else:
        X_S = problem.points.take(problem.landmarks())
        deformation, K = deform_by(
            chosen["eta"], base, X_S, problem.covariances(name, (chosen["power"],), X_S)[chosen["power"]], X_l, target,
            weight, problem.concentration_of(name).get(chosen["power"]), shares, problem.learning.random_state)
        kernel, attributes["eta"] = deformation.kernel, deformation.described()
        learner = replace(learner, unpenalized_intercept=deformation.unpenalized_intercept)
    coef, intercept, coding, held_out = _fit_and_hold_out(K, target, learner, folds, weight)
    attributes |= {**target.training_metrics(K @ coef + intercept, coding),
                   "parameters": {key: chosen[key] for key in ("power", "eta", "C", "bandwidth")}}
    return FittedModel(expand(kernel, X_l, coef, intercept, coding, attributes),
                       None if deformation is None else Expansion(deformation, X_l, coef),
                       None if folds is None else held_out)


def _fit_and_hold_out(K: np.ndarray, target: Target, learner: LearnerParams, folds: LabelFolds | None,
                      weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, Coding, list[HeldOut]]:
    """Return coefficients (l, c), intercept (c,) and coding of the learner, and the values of each held-out repetition.

    For the squared loss a single fold, of many labels, is held out of the factor of the fit.
    """
    repetitions = [] if folds is None else folds.repetitions
    if learner.kind == "ridge" and [len(each) for each in repetitions] == [1]:
        fold, = repetitions[0]
        coef, intercept, at_fold = ridge_with_held_out(K, target.each_column(), fold, learner.C, weight,
                                                       learner.unpenalized_intercept)
        values = np.full((len(K), at_fold.shape[1]), np.nan)
        values[fold] = at_fold
        return coef, intercept, target.coding, [HeldOut(target, target.coding, values, [fold], weight)]
    coef, intercept, coding = fit_gram(K, target, learner, weight)
    fits = [(each, *held_out([K] * len(each), target, each, learner, weight)) for each in repetitions]
    return coef, intercept, coding, [HeldOut(target, its, values, each, weight) for each, values, its in fits]


def landmark_graph_covariance(X_S: Matrix, graph: LandmarkGraph, powers: tuple[int, ...]) -> dict[int, np.ndarray]:
    """Return Q^-1 (s, s) by power of the graph of the landmarks alone, a baseline of the paper (section 5.1)."""
    lists, weighting = find_neighbors(as_rows(X_S), graph.neighbors, InProcess(1)), graph.weights
    W = weights(lists, weighting.weights, bandwidth=weighting.bandwidth, width=weighting.width,
                symmetrize=weighting.symmetrize, execution=InProcess(1))
    laplacian = Laplacian(W, graph.regularizer.laplacian == "normalized")
    inverses = inverse_at_landmarks(laplacian.matrix(graph.regularizer.ridge), np.arange(len(lists)), powers,
                                 params=SolverParams(method=Direct.name), vector=laplacian.vector,
                                 execution=InProcess(1))
    return inverses.powers



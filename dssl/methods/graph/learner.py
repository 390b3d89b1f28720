"""The learners on the graph as values: their fits, their values of labels that are held out, and their sections.

A `PooledLearner` is one of them with what another model says of the points; see `learners/on_graph/pooled.py`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from ...base.errors import DsslError, SpecError, explain, require
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.knn_graph import KNNGraph
from ...graph.regularizer import LaplacianKind
from ...graph.solved_functions import FunctionParams
from ...kernels.base import BaseKernels
from ...learners.class_prior import EQUAL, LABELS, ClassPrior, ClassWeight
from ...learners.metrics import HINGE
from ...learners.on_graph.class_sizes import with_class_sizes
from ...learners.on_graph.graph_ridge import POWERS, GraphRidgeParams, KernelColumns, fit_graph_ridge
from ...learners.on_graph.held_out import (
    HeldOutValues,
    Repetitions,
    calibration_solver,
    held_out_graph_ridge,
    held_out_harmonic,
    held_out_poisson,
)
from ...learners.on_graph.laplace_poisson import fit_harmonic, fit_poisson
from ...learners.on_graph.model import VertexValues, scored, signed
from ...learners.on_graph.pooled import LearnerValues, Pooled, fit_pool
from ...learners.target.target import Classes, Target
from ...selection.by_labels import LabelFolds
from ...selection.calibration import calibration_folds, shift_of
from ...selection.candidates import LOWEST_ERROR, CandidateScores, SelectionRule
from ...selection.folds import FoldParams
from ...selection.halving import ALL, Search
from ...selection.held_out_scores import HeldOut, spread_over_labels
from ...solvers.solver_params import SolverParams
from ..linear import NO_WEIGHTS
from ..other_model import OtherModel, PooledModel, can_learn
from ..sections import KernelSections
from ..selection_sections import ModelGrid, Selection
from ..step import Context

LearnerName = Literal["ridge", "laplace", "poisson"]
TOLERANCE = 1e-5  # of the solves of laplace and poisson
OF_RIDGE = ("ridge", "power", "by_degree", "penalty", "weighting")
MAX_SOLVED = 100_000  # vertices of a system that is solved anew for each point of a learning curve


@dataclass(frozen=True)
class GraphLearner:
    """A learner on the graph. family : of ridge, else None. solver : of the others."""

    name: LearnerName
    family: GraphRidgeParams | None
    solver: SolverParams

    def described(self) -> dict[str, object]:
        """Return the parameters that a row of a search names."""
        family = {} if self.family is None else {name: getattr(self.family, name) for name in OF_RIDGE}
        return {"learner": self.name, **family}

    @property
    def assumed(self) -> ClassPrior:
        """Return how frequent the values say that classes are: as the labels, or equally.

        A random walk ends at a class the likelier, the more labels this has; other values are centered over all points.
        """
        return LABELS if self.name == "laplace" else EQUAL

    def fit(self, graph: Graph, target: Target, weight: np.ndarray | None, execution: Execution,
            columns: KernelColumns | None = None, start: np.ndarray | None = None) -> VertexValues:
        """Return the function on the vertices; columns : as `fit_graph_ridge`.

        start : its values on the first vertices of before the graph grew, from which a learner of one system begins.
        Ridge in graph kernels solves none. Known class sizes are met afterwards, by `with_sizes`.
        """
        if self.family is not None:
            return fit_graph_ridge(graph, target, weight, self.family, execution, columns)
        if self.name == "laplace":
            return fit_harmonic(graph, target, weight, self.solver, execution, start)
        assert isinstance(target, Classes)  # of quantities it is refused before
        return fit_poisson(graph, target, weight, self.solver, execution, start)

    def with_sizes(self, fitted: VertexValues, log_odds: np.ndarray, graph: Graph, target: Classes,
                   weight: np.ndarray | None, execution: Execution) -> VertexValues:
        """Return log probabilities whose predictions have the class sizes of the target; see `with_class_sizes`.

        Harmonic functions are scaled to them (class mass normalization); others become those of a cut.
        """
        assert target.prior.sizes is not None
        return with_class_sizes(fitted, log_odds, target.prior.sizes, graph, target, weight, execution,
                                harmonic=self.name == "laplace")


def held_out_on_graph(learners: Sequence[GraphLearner], graph: Graph, target: Target, weight: np.ndarray | None,
                      folds: Repetitions, execution: Execution, columns: KernelColumns) -> list[list[HeldOutValues]]:
    """Return the values of labeled points without their fold by each learner, without known class sizes.

    columns : of kernels, those that are there and for others.
    """
    families = [learner.family for learner in learners if learner.family is not None]
    of_ridge = iter(held_out_graph_ridge(graph, target, weight, folds, families, execution, columns)
                    if families else [])
    values = list[list[HeldOutValues]]()
    for learner in learners:
        if learner.family is not None:
            values.append(next(of_ridge))
        else:
            held_out = held_out_harmonic if learner.name == "laplace" else held_out_poisson
            values.append(held_out(graph, target, weight, folds, learner.solver, execution))
    return values


def has_sizes(target: Target) -> bool:
    return isinstance(target, Classes) and target.prior.sizes is not None


def scores_on_graph(learner: GraphLearner, target: Target, folds: Repetitions, values: Sequence[HeldOutValues],
                    weight: np.ndarray | None, scoring: str | None) -> CandidateScores:
    """Return the scores of held-out values in each repetition; for ridge the penalty is a parameter.

    Held-out points stay in the graph as unlabeled points; those that no label can reach count as wrong.
    """
    held_out = [HeldOut(target, scored(target), signed(value.values, target), some, weight,
                    value.unreachable).with_prior(learner.assumed)
            for value, some in zip(values, folds, strict=True)]
    penalty = {} if learner.family is None else {"penalty": float(learner.family.penalty)}
    return CandidateScores.of(held_out, HINGE, scoring).with_parameters(**penalty)


@dataclass(frozen=True, kw_only=True)
class LearnerSearch:
    """The learners that are tried, and how one is chosen; without folds, the one that is given.

    base_estimator : another model, see `selection/base_estimator.py`, with which the chosen one is pooled.
    """

    learners: tuple[GraphLearner, ...]
    prior: ClassPrior = LABELS
    weight: ClassWeight = NO_WEIGHTS
    random_state: int = 0
    cv: FoldParams | None = None
    rule: SelectionRule = LOWEST_ERROR
    search: Search = ALL
    base_estimator: Any = None
    compares: bool = True

    def label_folds(self, target: Target, learner: GraphLearner, n_vertices: int) -> LabelFolds:
        """Return what is held out of the labels.

        There is a curve where models are compared, class sizes are not known, which say nothing of subsets of the
        labels, and a point of it takes no fit to very many vertices.
        """
        solves = learner.family is None and n_vertices > MAX_SOLVED
        return LabelFolds.of(target, self.random_state, curve=self.compares and not has_sizes(target) and not solves)


@dataclass(frozen=True, eq=False)
class LearnerEvaluator:
    """What evaluates learners on a graph; the columns of kernels serve all of them, and all folds."""

    graph: Graph
    target: Target
    weight: np.ndarray | None
    scoring: str | None
    execution: Execution
    columns: KernelColumns

    @classmethod
    def of(cls, context: Context, params: LearnerSearch) -> "LearnerEvaluator":
        """Return that of a step; it goes on with the columns of one that had the same graph."""
        target, known = context.target(params.prior), context.fit.evaluator if context.fit else None
        made = cls(context.graph(), target, context.label_weights(target, params.weight), params.rule.scoring,
                   context.execution, known.columns if isinstance(known, LearnerEvaluator) else {})
        if context.fit is not None:
            context.fit.evaluator = made
        return made

    def scores_of(self, learners: Sequence[GraphLearner], folds: Repetitions) -> list[CandidateScores]:
        values = held_out_on_graph(learners, self.graph, self.target, self.weight, folds, self.execution, self.columns)
        return [scores_on_graph(learner, self.target, folds, held_out, self.weight, self.scoring)
                for learner, held_out in zip(learners, values, strict=True)]

    def evaluate(self, candidates: Sequence[LearnerSearch], folds: Repetitions) -> list[CandidateScores]:
        return self.scores_of([learner for params in candidates for learner in params.learners], folds)


@dataclass(frozen=True, kw_only=True)
class GraphLearnerParams(LearnerSearch):
    """What a model on the graph follows from.

    graph : how new points reach it. kernels : of the baseline `base`. random_state : of the folds that are held out.
    prior, weight : how frequent the classes are among the points that are predicted, by known sizes too, and what their
    labels weigh. compares : whether there are baselines, and labels are held out to compare with them.
    """

    graph: KNNGraph
    kernels: BaseKernels
    baselines: tuple[str, ...] = ("base",)


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


def held_out_of(pooled: Pooled, target: Target) -> HeldOutValues:
    """Return the held-out values of a pool at all labels (l, n_classes), NaN where none is held out."""
    values = pooled.held_out
    if isinstance(target, Classes) and len(target.names) == 2:
        values = np.hstack([-values, values]) / 2
    spread = spread_over_labels(values, pooled.positions, len(target.labeled))
    return HeldOutValues(spread, np.zeros(len(spread), bool))


@dataclass(frozen=True, kw_only=True)
class GraphModel(PooledModel):
    """A learner whose function lives on the vertices of the graph.

    New points have the weighted mean of their nearest points in the graph.

    Parameters
    ----------
    learner : "ridge", "laplace" or "poisson"
        The learner: "ridge", an average of ridge regressions in kernels of the
        graph, which alone reads the next five parameters; "laplace", the harmonic
        function of the labels; "poisson", Poisson learning, for classes.
    ridge : list of float or None
        What is added to the Laplacian, each with each power; null is that of a
        family that needs no tuning. The smaller the ridge, the farther a label
        reaches.
    power : list of int
        The powers of the regularizer. The larger, the smoother.
    by_degree : list of bool
        Whether kernels are scaled by D^-1/2 on both sides; [false, true] has both.
    penalty : float
        What is added to the diagonal of a kernel of unit mean diagonal. Toward 0
        the kernel interpolates; 1e6 is as good as the kernel mean.
    weighting : "loo" or "equal"
        How the kernels are averaged: by exact leave-one-out residuals, or equally.
    tol : float or None
        How exact the kernels of "ridge" are, 0.1 by default; of the other learners
        the relative residual at which the solve of a column ends, 1e-5 by default.
    """

    kind: Literal["graph"] = "graph"
    learner: LearnerName = "ridge"
    ridge: tuple[float, ...] | None = None
    power: tuple[int, ...] = POWERS
    by_degree: tuple[bool, ...] = GraphRidgeParams.by_degree
    penalty: float = GraphRidgeParams.penalty
    weighting: Literal["loo", "equal"] = "loo"
    tol: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        defaults = {item.name: item.default for item in fields(self)}
        others = [name for name in OF_RIDGE if self.learner != "ridge" and getattr(self, name) != defaults[name]]
        require(not others, f"{', '.join(others)}, and learner is {self.learner}", why="only learner ridge reads it",
                fix="leave it out")
        _ = self.on_graph("normalized")  # raises where a value is out of range

    def varied(self, values: dict[str, Any]) -> "GraphModel":
        """Return the learner with other values; a ridge, a power or a degree alone is a family of one."""
        several = ("ridge", "power", "by_degree")
        changed: dict[str, Any] = {name: (value,) if name in several and value is not None and not isinstance(
            value, tuple) else value for name, value in values.items()}
        return replace(self, **changed)

    def on_graph(self, laplacian: LaplacianKind) -> GraphLearner:
        """Return the learner on a graph whose Laplacian is of a kind."""
        if self.learner != "ridge":
            tol = TOLERANCE if self.tol is None else self.tol
            return GraphLearner(self.learner, None, SolverParams(tol=tol, random_state=self.random_state))
        functions = FunctionParams(laplacian=laplacian, tol=FunctionParams.tol if self.tol is None
                                   else self.tol, random_state=self.random_state)
        family = GraphRidgeParams(ridge=self.ridge, power=self.power, by_degree=self.by_degree, penalty=self.penalty,
                                  weighting=self.weighting, functions=functions, random_state=self.random_state)
        return GraphLearner("ridge", family, SolverParams(random_state=self.random_state))


@dataclass(frozen=True, kw_only=True)
class LearnerGrid(ModelGrid):
    """The learner, and of learner ridge its kernels; a list within a list is a family, whose average is one value."""

    learner: tuple[LearnerName, ...] | None = None
    ridge: tuple[float | tuple[float, ...] | None, ...] | None = None
    power: tuple[int | tuple[int, ...], ...] | None = None
    by_degree: tuple[bool | tuple[bool, ...], ...] | None = None
    penalty: tuple[float, ...] | None = None
    weighting: tuple[Literal["loo", "equal"], ...] | None = None

    def learners(self, learner: LearnerName) -> list[dict[str, Any]]:
        """Return all combinations; those of a learner that has no use for the others are one.

        learner : the one where none is named.
        """
        alike = [values_of if (name := values_of.get("learner", learner)) == "ridge" else {"learner": name}
                 for values_of in self.values()]
        return [each for place, each in enumerate(alike) if each not in alike[:place]]


@dataclass(frozen=True, kw_only=True)
class GraphSelection(Selection):
    """The learner and its parameters chosen by cross-validation; held-out points stay in the graph."""

    grid: LearnerGrid = LearnerGrid()
    held_out_points: Literal["transductive"] = "transductive"
    ways: ClassVar[tuple[str, ...]] = ("auto", "closed_form")


@dataclass(frozen=True, kw_only=True)
class GraphLearnerSections(KernelSections):
    """The sections of a learner on the graph; the kernel is that of the baseline base."""

    model: GraphModel
    selection: GraphSelection | None = None
    baselines: tuple[Literal["nearest", "base"], ...] = ("nearest", "base")

    def learners(self) -> list[GraphModel]:
        """Return the learners that are tried; the one that is given, where there is nothing to choose."""
        grid = self.selection.grid.learners(self.model.learner) if self.selection else [{}]
        return [self.model.varied(values) for values in grid]

    @cached_property
    def params(self) -> GraphLearnerParams:
        chosen, random_state = self.selection, self.model.random_state
        return GraphLearnerParams(
            learners=tuple(each.on_graph(self.graph.laplacian) for each in self.learners()), graph=self.graph.builder(),
            kernels=self.base_kernels(random_state),
            cv=chosen.folds() if chosen else None, rule=chosen.rule() if chosen else LOWEST_ERROR,
            search=chosen.searched() if chosen else ALL, baselines=self.baselines, prior=self.prior,
            weight=self.weight, random_state=random_state, base_estimator=self.model.base_estimator)

    def mistakes(self) -> Iterator[tuple[str, DsslError]]:
        yield from super().mistakes()
        yield from self.model.task_mistakes(self.task)
        try:
            learners = [each.learner for each in self.learners()]
        except DsslError as error:
            yield "selection.grid", error
            return
        if self.task == "regression" and "poisson" in learners:
            yield "model.learner", SpecError(explain("model.learner: poisson, and data.task is regression",
                                                     why="it tells classes apart", fix="use ridge or laplace"))

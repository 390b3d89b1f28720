"""The learners on the graph as values: their fits, and their values of labels that are held out.

A `PooledLearner` is one of them with what another model says of the points; see `learners/on_graph/pooled.py`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.knn_graph import KNNGraph
from ...kernels.base import BaseKernels
from ...learners.class_prior import EQUAL, LABELS, ClassPrior, ClassWeight
from ...learners.metrics import HINGE
from ...learners.on_graph.class_sizes import with_class_sizes
from ...learners.on_graph.graph_ridge import GraphRidgeParams, KernelColumns, fit_graph_ridge
from ...learners.on_graph.harmonic import fit_harmonic
from ...learners.on_graph.held_out import (
    HeldOutValues,
    Repetitions,
    calibration_solver,
    held_out_graph_ridge,
    held_out_harmonic,
    held_out_poisson,
)
from ...learners.on_graph.model import VertexValues, scored, signed
from ...learners.on_graph.poisson import fit_poisson
from ...learners.on_graph.pooled import LearnerValues, Pooled, fit_pool
from ...learners.probabilities import Calibration
from ...learners.target.target import Classes, Target
from ...selection.by_labels import LabelFolds
from ...selection.calibration import calibration_folds, shift_of
from ...selection.candidates import LOWEST_ERROR, CandidateScores, SelectionRule
from ...selection.folds import FoldParams
from ...selection.halving import ALL, Search
from ...selection.held_out_scores import HeldOut, spread_over_labels
from ...solvers.solver_params import SolverParams
from ..linear import NO_WEIGHTS
from ..other_model import OtherModel, can_learn
from ..step import Context

LearnerName = Literal["ridge", "laplace", "poisson"]
TOLERANCE = 1e-5  # of the solves of laplace and poisson
MAX_SOLVED = 100_000  # vertices of a system that is solved anew for each point of a learning curve


@dataclass(frozen=True)
class GraphLearner:
    """A learner on the graph. family : of ridge, else None. solver : of the others."""

    name: LearnerName
    family: GraphRidgeParams | None
    solver: SolverParams

    def described(self) -> dict[str, object]:
        """Return the parameters that a row of a search names."""
        family = self.family
        return {"learner": self.name, **({} if family is None else {
            "ridge": family.ridge, "power": family.power, "by_degree": family.by_degree, "penalty": family.penalty,
            "weighting": family.weighting})}

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
    """Return whether class sizes are known."""
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
        """Return the scores of each learner."""
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
    spread = spread_over_labels(values, pooled.positions, len(target.labeled))
    return HeldOutValues(spread, np.zeros(len(spread), bool))

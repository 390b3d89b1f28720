"""Kernels deformed by the graph of all points: a support vector machine or ridge regression on the labeled points.

    landmarks    the vertices at which functions are measured
    system       the solver of the graph's regularizer
    columns      its solutions, a column a landmark
    covariance   Q^+ at the landmarks, of each power of the regularizer
    selection    power, eta, bandwidth and C
    models       the model and its baselines

The columns are solved once for all labels, kernels and weights of the graph.

References
----------
Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...data.scaling.scaling import scaled_rows
from ...execution.cost import Cost, cost_of, gram_seconds
from ...graph.regularizer import system_cost
from ...kernels.deformed import Eta
from ...kernels.landmark_inverse import columns_cost, n_solves, product_cost
from ...learners.deformed import ETAS, MAX_EXACT
from ...learners.target.target import Target
from ...report.record import BASE, Baseline, ReportText
from ...report.sections.selection import selection_section
from ...report.sections.solver import solver_section
from ...selection.candidates import CandidateScores
from ...selection.halving import ALL, Repetitions
from ...selection.search import CrossValidation, GridParams
from ...solvers.method import SolverMethod
from ...solvers.solve import possible_solvers
from ...solvers.solver_params import AUTO, SOLVERS
from ..plan_inputs import PlanInputs
from ..step import Context, Method, Step, cost_of_test_points
from .covariance import (
    ColumnParams,
    CovarianceParams,
    LandmarkDraw,
    RegularizerSystem,
    begins,
    make_columns,
    make_covariance,
    make_landmarks,
    make_system,
)
from .models import DeformedProblem, LearningParams, SearchParams, make_models, make_selection, problem_of, search_grid
from .sections import DeformedKernelParams, RidgeSections, SvmSections

SAMPLED = 1000  # points of the median distance
FITTED = 8 << 20  # bytes that fits take beside their matrices, measured: folds, and the graph of the landmarks


def _system(p: CovarianceParams) -> RegularizerSystem:
    return RegularizerSystem(p.regularizer.laplacian, p.regularizer.ridge, p.n_columns, p.solver.method,
                             p.solver.tol, p.solver.max_iter, p.solver.random_state)


def _columns(p: CovarianceParams) -> ColumnParams:
    return ColumnParams(p.powers, p.solver.block_columns, p.form)


def learning_of(p: DeformedKernelParams) -> LearningParams:
    """Return what the model and its baselines have in common."""
    graph = p.landmark_graph if "landmark_graph" in p.baselines else None
    return LearningParams(p.learner, p.kernels, p.baselines, p.random_state, graph, p.prior, p.weight)


def _search(p: DeformedKernelParams) -> SearchParams:
    if p.grid is None:
        return SearchParams(p.baselines, {"power": p.regularizer.power, "eta": p.eta, "C": p.C,
                                          "bandwidth": p.kernels.bandwidths[0]})
    return SearchParams(p.baselines, None, learning_of(p), p.grid, p.kernels.bandwidths, p.cv, p.rule, p.search)


# ---- what the steps take


def _solvers(f: PlanInputs, p: DeformedKernelParams) -> list[type[SolverMethod]]:
    """Return the solver that is used, or those that may be."""
    method = f.attributes["system"]["params"]["method"] if "system" in f.attributes else p.solver.method
    if method != AUTO:
        return [SOLVERS.named(method)]
    return possible_solvers(f.vertices, guess=f.bound == "upper")


def _solver_guess(f: PlanInputs, p: DeformedKernelParams) -> tuple[str, ...]:
    chosen = p.solver.method == AUTO and "system" not in f.attributes
    return ("solver",) if chosen else ()


def _system_cost(f: PlanInputs, p: DeformedKernelParams) -> Cost:
    solvers, n_columns = _solvers(f, p), n_landmarks(f, p) * n_solves(p.powers)
    cost = system_cost(f.vertices, f.nnz, n_columns, solvers, guess=f.bound == "upper")
    return cost.guessing(*_solver_guess(f, p), *(name for solver in solvers for name in solver.stored_guess))


def _columns_cost(f: PlanInputs, p: DeformedKernelParams) -> Cost:
    n, nnz, s = f.vertices, f.nnz, n_landmarks(f, p)
    guess = f.bound == "upper"
    costs = []
    for solver in _solvers(f, p):
        stored = f.attribute("system", "stored_bytes",
                             solver.solver_bytes(n, nnz, s * n_solves(p.powers), guess=guess))
        cost = columns_cost(n, nnz, s, p.powers, p.solver.block_columns, p.form, solver, stored, f.budget,
                            guess=guess, started=f.growing is not None and begins(p.form, solver))
        guessed = () if "system" in f.attributes else solver.stored_guess
        costs.append(cost.guessing(*_solver_guess(f, p), *guessed, *solver.held_guess))
    return f.one_of(costs, "solver")


def n_landmarks(f: PlanInputs, p: DeformedKernelParams) -> int:
    """Return the number of points at which functions are measured."""
    size = min(p.n_landmarks, f.n)
    return f.attribute("landmarks", "n_landmarks", size)


def _training_bytes(f: PlanInputs, p: DeformedKernelParams, matrices: int) -> tuple[int, int, int]:
    """Return what a task of the training reads, and the upper and lower bound of what it holds.

    Held: all covariances; to deform a kernel with one of them, it permuted, a Gram matrix, a sum with it and its
    temporary, and a factor, of "auto" another; and so many matrices (l, l) of the labels. Before these, points are
    taken out of chunks: one as it is stored, decompressed, and copied.
    """
    s, m, d, powers = n_landmarks(f, p), f.n_labeled, f.width, len(p.powers)
    several = p.has_several_etas
    read = 8 * s * s * powers + min(f.n, 3 * max(s, m, SAMPLED)) * f.row_bytes
    chunk = min(f.n, scaled_rows(f.n, f.row_bytes, f.x_chunk, f.budget)) * f.row_bytes
    held = max(8 * s * s * (powers + 5 + several) + 24 * (s + m) * d
               + 8 * m * (matrices * m + 3 * s), 3 * chunk)
    return read, held, 8 * s * s * (powers + 3)


def _exact_matrices(p: DeformedKernelParams) -> int:
    """Return the matrices of the labels that are held where those of all etas are."""
    return 3 + 4 * p.has_several_etas


def search_cost(f: PlanInputs, p: DeformedKernelParams) -> Cost:
    """Return that of a task a model and bandwidth, and one a model for the scores of its choice; of no grid, nothing.

    A task holds the kernels of the labels one fold at a time, and the values without each of all C and repetitions.
    """
    m, s = f.n_labeled, n_landmarks(f, p)
    if p.grid is None or p.cv is None:
        return cost_of(0, 0, 0, 0)
    grid, names = p.grid, len({"model", *p.baselines} - {"shuffled"})
    pairs = 1 if p.search == ALL else len(grid.power) * len(grid.eta)  # of some combinations, a task each
    tasks = names * (min(len(p.kernels.bandwidths) * pairs, p.search.n_candidates or len(p.kernels.bandwidths) *
                         pairs) + 1)
    read, held, lower = _training_bytes(f, p, _exact_matrices(p))
    columns = max(1, f.n_classes * (f.n_classes - 1) // 2) if p.learner == "svm" else f.n_outputs
    values = 8 * m * columns * len(p.grid.C) * p.cv.repetitions
    kernels = len(ETAS) - 1 if p.has_several_etas else 1
    return cost_of(tasks, tasks * read, 0,
                   held + 8 * m * m * 5 * kernels + values + 24 * s * (m + min(s, m)) * kernels, lower,
                   tasks * p.cv.repetitions * len(grid.power) * len(grid.eta) * _deformed_seconds(m, s))


def fit_cost(f: PlanInputs, p: DeformedKernelParams) -> Cost:
    """Return that of one task, which makes one deformed kernel after the other.

    Of more than `MAX_EXACT` labels it holds a Gram matrix and its factor, or its part and a copy of a pair of classes.
    """
    read, held, lower = _training_bytes(f, p, _exact_matrices(p) if f.n_labeled <= MAX_EXACT else 3)
    points = n_landmarks(f, p) + f.n_labeled
    models = len(p.baselines) + 1
    return cost_of(1, read, models * points * (f.row_bytes + 8 * f.n_outputs), held + FITTED, lower,
                   models * _deformed_seconds(f.n_labeled, n_landmarks(f, p)))


def _deformed_seconds(m: float, s: float) -> float:
    """Return the estimated seconds of a deformed kernel on m labels and a learner in it: factor, solve and values."""
    learned = m if m <= MAX_EXACT else m / 2  # factors in place of inverses
    return gram_seconds(s / 6, s) + gram_seconds(m / 2, s) + gram_seconds(s, m) + gram_seconds(learned, m)


def _landmarks_cost(f: PlanInputs, p: DeformedKernelParams) -> Cost:
    return cost_of(0, 16 * f.n_labeled, 8 * n_landmarks(f, p), 24 * f.n + 16 * n_landmarks(f, p), 24 * f.n)


def _product_cost(f: PlanInputs, p: DeformedKernelParams) -> Cost:
    return product_cost(f.vertices, f.nnz, n_landmarks(f, p), p.powers, p.solver.block_columns, p.form, f.budget)


def _scores_cost(f: PlanInputs, p: DeformedKernelParams) -> Cost:
    """The points of a model are the landmarks and the labeled ones, with a column a pair of classes in an SVM."""
    is_svm = p.learner == "svm"
    columns = max(1, f.n_classes * (f.n_classes - 1) // 2) if is_svm else f.n_outputs
    return cost_of_test_points(f, p.kernels.for_costs(), n_landmarks(f, p) + f.n_labeled, len(p.baselines) + 1, columns,
                     8 if is_svm or f.is_regression else 16)


@dataclass(frozen=True)
class DeformedCandidate:
    """A candidate of a search: bandwidth, power and eta of the deformed kernel, and the penalty of the learner."""

    bandwidth: float | str | None
    power: int
    eta: Eta
    C: float


@dataclass(frozen=True, eq=False)
class DeformedEvaluator:
    """Evaluates candidates in kernels deformed by one graph, whose solves serve all of them.

    One Cholesky factor serves all folds and C.
    """

    problem: DeformedProblem
    target: Target
    weight: np.ndarray | None
    scoring: str | None

    @classmethod
    def of(cls, context: Context, params: DeformedKernelParams) -> "DeformedEvaluator":
        """Return the evaluator of a search, from the covariance of the graph."""
        target = context.target(params.prior)
        learning = LearningParams(params.learner, params.kernels, (), params.random_state, None, params.prior,
                                  params.weight)
        return cls(problem_of(context, learning), target, context.label_weights(target, params.weight),
                   params.rule.scoring)

    def scores_of(self, candidates: Sequence[DeformedCandidate], folds: Repetitions) -> list[CandidateScores]:
        """Return the scores of each candidate, with C as their parameter; eta 0 is the base kernel alone."""
        validation = CrossValidation(self.target, folds, self.problem.learning.kind, self.weight, self.scoring,
                                     random_state=self.problem.learning.random_state)
        scored = dict[DeformedCandidate, CandidateScores]()
        for bandwidth in dict.fromkeys(each.bandwidth for each in candidates):
            of_kernel = [each for each in candidates if each.bandwidth == bandwidth]
            power, eta, C = (tuple(dict.fromkeys(getattr(each, name) for each in of_kernel))
                             for name in ("power", "eta", "C"))
            if positive := tuple(value for value in eta if value != 0):
                grid = GridParams(power=power, eta=positive, C=C)
                scored |= {DeformedCandidate(**each.parameters): each
                           for each in search_grid(self.problem, "model", bandwidth, grid, validation)}
            if 0 in eta:
                plain = search_grid(self.problem, "base", bandwidth, GridParams(C=C), validation)
                scored |= {DeformedCandidate(bandwidth, each, 0.0, base.parameters["C"]): base
                           for each in power for base in plain}
        return [replace(scored[each], parameters={"C": each.C}) for each in candidates]

    def evaluate(self, candidates: Sequence[DeformedKernelParams], folds: Repetitions) -> list[CandidateScores]:
        return self.scores_of([DeformedCandidate(p.kernels.bandwidths[0], p.regularizer.power, p.eta, p.C)
                               for p in candidates], folds)


def with_powers(candidates: Sequence[DeformedKernelParams]) -> DeformedKernelParams:
    """Return parameters with the powers of all candidates, which share one chain of solves."""
    powers = {power for params in candidates for power in params.powers}
    return replace(candidates[0], grid=GridParams(power=tuple(sorted(powers))))


REPORT_TEXT = ReportText(
    model="The learner in the kernel that the graph of all points has reshaped.", changed="kernel that merely changed",
    cause="changed kernel", graph="model.eta", norm="model.C",
    folds="The held-out points of a fold are also removed from the landmarks.")
BASELINES = (BASE, Baseline(
    "shuffled", "The control: the model with the vertices of its graph permuted. The kernel changes as much, but the "
                "graph holds no information about the points. A real gain must also beat this control."), Baseline(
    "landmark_graph", "The model with a graph of the landmarks alone, which costs almost nothing. The gain of the "
                      "model over it is what the other unlabeled points contributed."))
WHOLE_GRAPH = ("use model.kind laprls, which has no task with the whole graph: a solver has; or lower data.points, and "
               "predict the others with the model, or graph.n_neighbors")
_FEWER = "lower model.n_landmarks"
COVARIANCE_STEPS = (
    Step("landmarks", 4, ("labels", "vertices"), lambda p: LandmarkDraw(p.n_landmarks, p.random_state),
         make_landmarks, _landmarks_cost, "lower data.points", grows=True),
    Step("system", 13, ("vertices", "graph"), _system, make_system, _system_cost, WHOLE_GRAPH,
         intermediate=True),
    Step("columns", 7, ("system", "landmarks"), _columns, make_columns, _columns_cost, WHOLE_GRAPH,
         intermediate=True, grows=True),
    Step("covariance", 8, ("vertices", "system", "landmarks", "columns"), _columns, make_covariance,
         _product_cost, _FEWER, section=solver_section))
STEPS = (
    *COVARIANCE_STEPS,
    Step("selection", 16, ("points", "labels", "landmarks", "covariance"), _search, make_selection, search_cost,
         _FEWER, section=partial(selection_section, report_text=REPORT_TEXT), leads=True),
    Step("models", 17, ("points", "labels", "landmarks", "covariance", "selection"), learning_of, make_models,
         fit_cost, "lower model.n_landmarks or labels"))
DEFORMED_SVM = Method("svm", ("classification",), STEPS, _scores_cost, REPORT_TEXT, BASELINES, SvmSections,
                      has_graph=True, evaluator=DeformedEvaluator.of, joined=with_powers)
DEFORMED_RIDGE = replace(DEFORMED_SVM, name="ridge", tasks=("classification", "regression"), sections=RidgeSections)

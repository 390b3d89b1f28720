"""Held-out values of learners on the graph; held-out points stay in the graph, unlabeled.

Ridge in graph kernels: the columns of the labeled points are solved once for all kernels, penalties and folds
(`learners/held_out/averages.py`).

Harmonic functions: with the Schur complement S of the Laplacian on the labeled vertices, `S_FF f_F = -S_FC y_C` for the
fold F and the other labels C. S takes a solve for each labeled vertex; with more of these than columns of all folds,
the functions are refitted.

Poisson learning: one system, with the sources of all folds or a unit source at each labeled vertex as right-hand sides,
whichever are fewer.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...solvers.solver_params import SolverParams
from ...storage.blocks import row_ranges
from ..held_out.averages import HeldOutKernel, HeldOutMember, TrainingLabels, averaged
from ..target.target import Target
from .graph_ridge import GraphRidgeParams, Kernel, KernelColumns, KernelRows, sampled
from .harmonic import FlowTask, fit_harmonic
from .model import VertexLabels, VertexValues, reachable_vertices
from .poisson import PoissonTask, Sources, Unlabeled

BLOCK_COLUMNS = 256  # of a task
COLUMN_BYTES = 128  # for each vertex of a column while it is solved


def columns_at_once(n: int, memory_budget: int) -> int:
    """Return how many columns of n vertices are solved together: as many as fit in half the budget, at most 256."""
    return max(1, min(BLOCK_COLUMNS, memory_budget // 2 // (COLUMN_BYTES * max(n, 1))))


Repetitions = Sequence[Sequence[np.ndarray]]
Fit = Callable[[Target, "np.ndarray | None"], VertexValues]


@dataclass(frozen=True, eq=False)
class HeldOutValues:
    """Held-out values (l, c) of the labeled points in one repetition, NaN outside the folds.

    unreachable (l,) bool : points in components without other labels, which have no class, or the mean quantity.
    """

    values: np.ndarray
    unreachable: np.ndarray

    @classmethod
    def of(cls, target: Target, weight: np.ndarray | None, folds: Sequence[np.ndarray],
           values_of_folds: Sequence[np.ndarray], reachable: Sequence[np.ndarray]) -> "HeldOutValues":
        """Return the values from those of the points of each fold, (q, c), of which some are `reachable` (q,) bool."""
        Y, w = target.indicators(), np.ones(len(target.labeled)) if weight is None else weight
        values, unreachable = np.full(Y.shape, np.nan), np.zeros(len(Y), bool)
        for fold, of_fold, known in zip(folds, values_of_folds, reachable, strict=True):
            others = np.delete(np.arange(len(Y)), fold)
            default = np.average(Y[others], axis=0, weights=w[others]) if target.n_strata == 1 else np.zeros(Y.shape[1])
            values[fold], unreachable[fold] = np.where(known[:, None], of_fold, default), ~known
        return cls(values, unreachable)

    def times(self, unit: float) -> "HeldOutValues":
        return replace(self, values=self.values * unit)


def held_out_refits(fit: Fit, graph: Graph, target: Target, weight: np.ndarray | None,
                    folds: Sequence[np.ndarray]) -> HeldOutValues:
    """Return the held-out values by refits."""
    values, reachable, vertex = list[np.ndarray](), list[np.ndarray](), graph.vertices.vertex[target.labeled]
    for fold in folds:
        train = np.setdiff1d(np.arange(len(vertex)), fold)
        fitted = fit(target.take(train), None if weight is None else weight[train])
        values.append(fitted.values[vertex[fold]])
        reachable.append(fitted.reachable[vertex[fold]])
    return HeldOutValues.of(target, weight, folds, values, reachable)


@dataclass(frozen=True, eq=False)
class LabeledVertices:
    """All labels by vertex, and the training labels of folds."""

    graph: Graph
    target: Target
    weight: np.ndarray | None
    labels: VertexLabels
    reachable: np.ndarray
    component: np.ndarray

    @classmethod
    def of(cls, graph: Graph, target: Target, weight: np.ndarray | None) -> "LabeledVertices":
        labels = VertexLabels.of(graph.vertices, target, target.indicators(), weight)
        return cls(graph, target, weight, labels, *reachable_vertices(graph, labels.vertex))

    def n_columns(self, repetitions: Repetitions) -> int:
        """Return the number of right-hand sides of refits."""
        return sum(map(len, repetitions)) * self.labels.mean.shape[1]

    def training_labels(self, fold: np.ndarray) -> VertexLabels:
        """Return the labels outside a fold."""
        train = np.setdiff1d(np.arange(len(self.target.labeled)), fold)
        return VertexLabels.of(self.graph.vertices, self.target.take(train), self.target.indicators()[train],
                               None if self.weight is None else self.weight[train])

    def reachable_from(self, train: VertexLabels, positions: np.ndarray) -> np.ndarray:
        """Return which labeled vertices, by their positions, share a component with training labels."""
        return np.isin(self.component[self.labels.vertex[positions]], self.component[train.vertex])

    def held_out(self, folds: Sequence[np.ndarray], predict: Callable[[VertexLabels, np.ndarray], np.ndarray]
                 ) -> HeldOutValues:
        """Return the values of `predict(training labels, positions of the fold's vertices)`."""
        values, reachable = list[np.ndarray](), list[np.ndarray]()
        for fold in folds:
            train, positions = self.training_labels(fold), self.labels.of_point[fold]
            values.append(predict(train, positions))
            reachable.append(self.reachable_from(train, positions))
        return HeldOutValues.of(self.target, self.weight, folds, values, reachable)


def calibration_solver(solver: SolverParams) -> SolverParams:
    """Return a solver with ten times the tolerance, for calibration, since one of many columns may stall above it."""
    return replace(solver, tol=10 * solver.tol)


def held_out_harmonic(graph: Graph, target: Target, weight: np.ndarray | None, repetitions: Repetitions,
                      solver: SolverParams, execution: Execution) -> list[HeldOutValues]:
    """Return the held-out values of harmonic functions in each repetition; raise NotConverged."""
    labeled = LabeledVertices.of(graph, target, weight)
    u = len(labeled.labels.vertex)
    if u > labeled.n_columns(repetitions):
        fit = partial(fit_harmonic, graph, solver=solver, execution=execution)
        return [held_out_refits(fit, graph, target, weight, folds) for folds in repetitions]
    shared, parts = execution.share(vertex=labeled.labels.vertex, reachable=labeled.reachable), execution.scratch()
    vertices, blocks = graph.shared_vertices(execution), row_ranges(u, BLOCK_COLUMNS)
    height = columns_at_once(len(labeled.component), execution.memory_budget)
    execution.map([FlowTask(graph.stored, vertices, shared, *block, height, solver) for block in blocks], parts)
    S = np.concatenate([parts.read(number)["flow"] for number in range(len(blocks))], axis=1)
    S = (S + S.T) / 2

    def predict(train: VertexLabels, positions: np.ndarray) -> np.ndarray:
        C = np.searchsorted(labeled.labels.vertex, train.vertex)
        values = np.zeros((u, train.mean.shape[1]))
        values[C] = train.mean
        F = np.setdiff1d(positions, C)
        F = F[labeled.reachable_from(train, F)]
        values[F] = np.linalg.solve(S[np.ix_(F, F)], -S[np.ix_(F, C)] @ train.mean)
        return values[positions]

    return [labeled.held_out(folds, predict) for folds in repetitions]


def held_out_poisson(graph: Graph, target: Target, weight: np.ndarray | None, repetitions: Repetitions,
                     solver: SolverParams, execution: Execution) -> list[HeldOutValues]:
    """Return the held-out scores of Poisson learning in each repetition; raise NotConverged.

    They are standardized by the same unlabeled vertices as the fit.
    """
    labeled = LabeledVertices.of(graph, target, weight)
    u, vertices, c = len(labeled.labels.vertex), graph.shared_vertices(execution), labeled.labels.mean.shape[1]
    unlabeled = Unlabeled.of(labeled.labels.vertex, labeled.component)
    rows = np.concatenate([labeled.labels.vertex, unlabeled.vertex])

    def at_labels(train: VertexLabels) -> np.ndarray:
        sources = np.zeros((u, c))
        sources[np.searchsorted(labeled.labels.vertex, train.vertex)] = Sources.of(train, labeled.component).source
        return sources

    def potentials(source: np.ndarray) -> np.ndarray:
        blocks = row_ranges(source.shape[1], columns_at_once(len(labeled.component), execution.memory_budget))
        parts = execution.scratch()
        execution.map([PoissonTask(graph.stored, vertices, execution.share(
            vertex=labeled.labels.vertex, source=source[:, first:last], component=labeled.component, rows=rows),
            solver) for first, last in blocks], parts)
        return np.concatenate([parts.read(number)["values"] for number in range(len(blocks))], axis=1)

    by_label = potentials(np.eye(u)) if u <= labeled.n_columns(repetitions) else None
    by_fold = iter(()) if by_label is not None else iter(np.split(potentials(np.hstack([
        at_labels(labeled.training_labels(fold)) for folds in repetitions for fold in folds])),
        sum(map(len, repetitions)), axis=1))

    def predict(train: VertexLabels, positions: np.ndarray) -> np.ndarray:
        values = next(by_fold) if by_label is None else by_label @ at_labels(train)
        component = labeled.component[labeled.labels.vertex[positions]]
        return Sources.of(train, labeled.component).scores(values[positions], component, values[u:],
                                                           unlabeled.component)

    return [labeled.held_out(folds, predict) for folds in repetitions]


def held_out_graph_ridge(graph: Graph, target: Target, weight: np.ndarray | None, repetitions: Repetitions,
                         families: Sequence[GraphRidgeParams], execution: Execution,
                         columns: KernelColumns) -> list[list[HeldOutValues]]:
    """Return the held-out values of families, which share `functions` and `random_state`, in each repetition.

    columns : a cache of kernel columns. Cost: the columns of all kernels once; 10 l^3 flops a kernel; and those of
    `HeldOutKernel` for each fold and penalty.

    Raises BudgetError, NotConverged: as `fit_graph_ridge`. DataError: a fold leaves fewer than two labeled points.
    """
    if target.unit != 1:
        values = held_out_graph_ridge(graph, target.in_units(), weight, repetitions, families, execution, columns)
        return [[repeated.times(target.unit) for repeated in of_family] for of_family in values]
    vertices, (_, component) = graph.vertices, reachable_vertices(graph, graph.vertices.vertex[target.labeled])
    labels, of_label = np.arange(len(target.labeled)), component[vertices.vertex[target.labeled]]
    samples: dict[tuple[int, ...], np.ndarray] = {}

    def sample_of(fold: np.ndarray) -> np.ndarray:
        components = np.unique(of_label[np.setdiff1d(labels, fold)])
        key = tuple(components.tolist())
        if key not in samples:
            samples[key] = sampled(np.isin(component[vertices.vertex], components), families[0].random_state)
        return samples[key]

    sample_of(labels[:0])  # most folds need it
    of_fold = [[sample_of(fold) for fold in folds] for folds in repetitions]
    kernels = list(dict.fromkeys(kernel for params in families for kernel in params.kernels))
    rows = _kernel_rows(graph, target, np.unique(np.concatenate(list(samples.values()))), kernels, families[0],
                        execution, columns)
    folds = [[TrainingLabels.of(target, weight, fold, np.searchsorted(rows.sample, sample))
              for fold, sample in zip(*both, strict=True)] for both in zip(repetitions, of_fold, strict=True)]
    penalties = {kernel: {params.penalty for params in families if kernel in params.kernels} for kernel in kernels}
    members: dict[tuple[Kernel, float], list[list[HeldOutMember]]] = {}
    for kernel in kernels:
        of_kernel = HeldOutKernel(*rows.blocks(kernel), weight)
        members |= {(kernel, penalty): [[of_kernel.member(fold, penalty) for fold in repeated] for repeated in folds]
                    for penalty in penalties[kernel]}
    reachable = [[np.isin(of_label[fold.test], of_label[fold.train]) for fold in repeated] for repeated in folds]

    def average(params: GraphRidgeParams, number: int, index: int) -> np.ndarray:
        fold_members = [members[kernel, params.penalty][number][index] for kernel in params.kernels]
        return averaged(fold_members, folds[number][index], equal_shares=params.equal_shares)

    return [[HeldOutValues.of(target, weight, repeated, [average(params, number, index)
                                                         for index in range(len(repeated))], reachable[number])
             for number, repeated in enumerate(repetitions)] for params in families]


def _kernel_rows(graph: Graph, target: Target, sample: np.ndarray, kernels: Sequence[Kernel], params: GraphRidgeParams,
                 execution: Execution, columns: KernelColumns) -> KernelRows:
    """Return the kernels of the labeled points and a sample, from the cache `columns` if it has them all."""
    cached = columns.get(params.functions)
    if cached is None or not (cached.has(kernels) and np.isin(sample, cached.sample).all()):
        cached = KernelRows.of(graph, target.labeled, sample, kernels, params.functions, execution)
        columns[params.functions] = cached
    return cached

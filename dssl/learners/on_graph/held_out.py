"""Values of labeled points by learners on the graph without each fold; points that are held out stay in the graph.

Ridge in graph kernels: the columns of the labeled points are solved once, for all kernels, penalties and folds, and all
else happens among the labels (`learners/held_out/averages.py`).

Harmonic functions: with all vertices eliminated but the labeled ones, the Laplacian is a matrix S of these, and where
the fold F is free and C is clamped `S_FF f_F = -S_FC y_C`. Its columns are solves of one system, one a labeled vertex.

Poisson learning: one system too, whose right-hand sides are the sources of all folds, or one a labeled vertex,
whichever are fewer.

Where labeled vertices are more than the columns of all folds, harmonic functions are fitted anew without each.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...solvers.solver_params import SolverParams
from ...storage.blocks import row_ranges
from ..held_out.averages import HeldOutKernel, HeldOutMember, KeptLabels, averaged
from ..target.target import Target
from .graph_ridge import GraphRidgeParams, Kernel, KernelColumns, KernelRows, sampled
from .harmonic import FlowTask, fit_harmonic
from .poisson import PoissonTask, Sources, Unlabeled
from .vertex_labels import VertexLabels, VertexValues, reached_vertices

BLOCK_COLUMNS = 256  # that a task solves
COLUMN_BYTES = 128  # that a column takes a vertex while it is solved, beside the system


def columns_at_once(n: int, memory_budget: int) -> int:
    """Return how many columns of n vertices are solved at a time: as many as fit half the budget, 256 at most."""
    return max(1, min(BLOCK_COLUMNS, memory_budget // 2 // (COLUMN_BYTES * max(n, 1))))


Repetitions = Sequence[Sequence[np.ndarray]]
Fit = Callable[[Target, "np.ndarray | None"], VertexValues]


@dataclass(frozen=True, eq=False)
class HeldOutValues:
    """values (l, c) : of each labeled point without its fold, in one repetition, as `VertexValues`; NaN of none.

    lost (l,) bool : points that no label reaches then, which have no class, and of quantities the mean of the labels.
    """

    values: np.ndarray
    lost: np.ndarray

    @classmethod
    def of(cls, target: Target, weight: np.ndarray | None, folds: Sequence[np.ndarray],
           values_of_folds: Sequence[np.ndarray], reached: Sequence[np.ndarray]) -> "HeldOutValues":
        """Return what was found of the points of each fold, (q, c), and whether a label reaches them, (q,) bool."""
        Y, w = target.indicators(), np.ones(len(target.labeled)) if weight is None else weight
        values, lost = np.full(Y.shape, np.nan), np.zeros(len(Y), bool)
        for fold, of_fold, known in zip(folds, values_of_folds, reached, strict=True):
            others = np.delete(np.arange(len(Y)), fold)
            without = np.average(Y[others], axis=0, weights=w[others]) if target.n_strata == 1 else np.zeros(Y.shape[1])
            values[fold], lost[fold] = np.where(known[:, None], of_fold, without), ~known
        return cls(values, lost)

    def times(self, unit: float) -> "HeldOutValues":
        """Return the values multiplied by a unit."""
        return replace(self, values=self.values * unit)


def held_out_refits(fit: Fit, graph: Graph, target: Target, weight: np.ndarray | None,
                    folds: Sequence[np.ndarray]) -> HeldOutValues:
    """Return the values by fits without each fold."""
    values, reached, vertex = list[np.ndarray](), list[np.ndarray](), graph.vertices.vertex[target.labeled]
    for fold in folds:
        kept = np.setdiff1d(np.arange(len(vertex)), fold)
        fitted = fit(target.take(kept), None if weight is None else weight[kept])
        values.append(fitted.values[vertex[fold]])
        reached.append(fitted.reached[vertex[fold]])
    return HeldOutValues.of(target, weight, folds, values, reached)


@dataclass(frozen=True, eq=False)
class LabeledVertices:
    """The labels of all points by vertex, and those without a fold in the same places."""

    graph: Graph
    target: Target
    weight: np.ndarray | None
    labels: VertexLabels
    reached: np.ndarray
    component: np.ndarray

    @classmethod
    def of(cls, graph: Graph, target: Target, weight: np.ndarray | None) -> "LabeledVertices":
        labels = VertexLabels.of(graph.vertices, target, target.indicators(), weight)
        return cls(graph, target, weight, labels, *reached_vertices(graph, labels.vertex))

    def n_columns(self, repetitions: Repetitions) -> int:
        """Return the right-hand sides of fits without each fold."""
        return sum(map(len, repetitions)) * self.labels.mean.shape[1]

    def without(self, fold: np.ndarray) -> VertexLabels:
        """Return the labels without a fold."""
        kept = np.setdiff1d(np.arange(len(self.target.labeled)), fold)
        return VertexLabels.of(self.graph.vertices, self.target.take(kept), self.target.indicators()[kept],
                               None if self.weight is None else self.weight[kept])

    def known(self, kept: VertexLabels, places: np.ndarray) -> np.ndarray:
        """Return which labeled vertices, by their places, share a component with labels that are kept."""
        return np.isin(self.component[self.labels.vertex[places]], self.component[kept.vertex])

    def held_out(self, folds: Sequence[np.ndarray], of: Callable[[VertexLabels, np.ndarray], np.ndarray]
                 ) -> HeldOutValues:
        """Return the values that `of` gives from the labels without a fold at places of labeled vertices."""
        values, reached = list[np.ndarray](), list[np.ndarray]()
        for fold in folds:
            kept, places = self.without(fold), self.labels.of_point[fold]
            values.append(of(kept, places))
            reached.append(self.known(kept, places))
        return HeldOutValues.of(self.target, self.weight, folds, values, reached)


def to_calibrate(solver: SolverParams) -> SolverParams:
    """Return the solver of values that only calibrate probabilities: to ten times the tolerance.

    These are many more columns than the fit's, of which one may stall at the tolerance itself.
    """
    return replace(solver, tol=10 * solver.tol)


def held_out_harmonic(graph: Graph, target: Target, weight: np.ndarray | None, repetitions: Repetitions,
                      solver: SolverParams, execution: Execution) -> list[HeldOutValues]:
    """Return the values of harmonic functions in each repetition; raise NotConverged."""
    labeled = LabeledVertices.of(graph, target, weight)
    u = len(labeled.labels.vertex)
    if u > labeled.n_columns(repetitions):
        fit = partial(fit_harmonic, graph, solver=solver, execution=execution)
        return [held_out_refits(fit, graph, target, weight, folds) for folds in repetitions]
    shared, parts = execution.share(vertex=labeled.labels.vertex, reached=labeled.reached), execution.scratch()
    copies, blocks = graph.shared_vertices(execution), row_ranges(u, BLOCK_COLUMNS)
    height = columns_at_once(len(labeled.component), execution.memory_budget)
    execution.map([FlowTask(graph.stored, copies, shared, *block, height, solver) for block in blocks], parts)
    S = np.concatenate([parts.read(number)["flow"] for number in range(len(blocks))], axis=1)
    S = (S + S.T) / 2

    def clamped(kept: VertexLabels, places: np.ndarray) -> np.ndarray:
        at = np.searchsorted(labeled.labels.vertex, kept.vertex)
        values = np.zeros((u, kept.mean.shape[1]))
        values[at] = kept.mean
        free = np.setdiff1d(places, at)
        free = free[labeled.known(kept, free)]
        values[free] = np.linalg.solve(S[np.ix_(free, free)], -S[np.ix_(free, at)] @ kept.mean)
        return values[places]

    return [labeled.held_out(folds, clamped) for folds in repetitions]


def held_out_poisson(graph: Graph, target: Target, weight: np.ndarray | None, repetitions: Repetitions,
                     solver: SolverParams, execution: Execution) -> list[HeldOutValues]:
    """Return the scores of Poisson learning in each repetition; raise NotConverged.

    In units of the same unlabeled vertices as in the fit: points that are held out are not among them.
    """
    labeled = LabeledVertices.of(graph, target, weight)
    u, copies, c = len(labeled.labels.vertex), graph.shared_vertices(execution), labeled.labels.mean.shape[1]
    unlabeled = Unlabeled.of(labeled.labels.vertex, labeled.component)
    rows = np.concatenate([labeled.labels.vertex, unlabeled.vertex])

    def at_labels(kept: VertexLabels) -> np.ndarray:
        scores = np.zeros((u, c))
        scores[np.searchsorted(labeled.labels.vertex, kept.vertex)] = Sources.of(kept, labeled.component).source
        return scores

    def potentials(source: np.ndarray) -> np.ndarray:
        blocks = row_ranges(source.shape[1], columns_at_once(len(labeled.component), execution.memory_budget))
        parts = execution.scratch()
        execution.map([PoissonTask(graph.stored, copies, execution.share(
            vertex=labeled.labels.vertex, source=source[:, first:last], component=labeled.component, rows=rows),
            solver) for first, last in blocks], parts)
        return np.concatenate([parts.read(number)["values"] for number in range(len(blocks))], axis=1)

    of_one = potentials(np.eye(u)) if u <= labeled.n_columns(repetitions) else None
    of_fold = iter(()) if of_one is not None else iter(np.split(potentials(np.hstack([
        at_labels(labeled.without(fold)) for folds in repetitions for fold in folds])), sum(map(len, repetitions)),
        axis=1))

    def scores(kept: VertexLabels, places: np.ndarray) -> np.ndarray:
        values = next(of_fold) if of_one is None else of_one @ at_labels(kept)
        return Sources.of(kept, labeled.component).scores(
            values[places], labeled.component[labeled.labels.vertex[places]], values[u:], unlabeled.component)

    return [labeled.held_out(folds, scores) for folds in repetitions]


def held_out_graph_ridge(graph: Graph, target: Target, weight: np.ndarray | None, repetitions: Repetitions,
                         tried: Sequence[GraphRidgeParams], execution: Execution,
                         columns: KernelColumns) -> list[list[HeldOutValues]]:
    """Return for each of some families, which share `functions` and `random_state`, the values in each repetition.

    columns : of the kernels, where they are kept for other folds and families.

    Cost: the columns of all kernels once; 10 l^3 flops a kernel; and see `HeldOutKernel` for each fold and penalty.

    Raises BudgetError, NotConverged: as `fit_graph_ridge`. DataError: a fold leaves fewer than two labeled points.
    """
    if target.unit != 1:
        families = held_out_graph_ridge(graph, target.in_units(), weight, repetitions, tried, execution, columns)
        return [[values.times(target.unit) for values in repeated] for repeated in families]
    vertices, (_, component) = graph.vertices, reached_vertices(graph, graph.vertices.vertex[target.labeled])
    vertex, labels = vertices.vertex[target.labeled], np.arange(len(target.labeled))
    home = component[vertex]
    samples: dict[tuple[int, ...], np.ndarray] = {}

    def sample_of(fold: np.ndarray) -> np.ndarray:
        places = np.unique(home[np.setdiff1d(labels, fold)])
        key = tuple(places.tolist())
        if key not in samples:
            samples[key] = sampled(np.isin(component[vertices.vertex], places), tried[0].random_state)
        return samples[key]

    sample_of(labels[:0])  # which other folds need too
    of_fold = [[sample_of(fold) for fold in folds] for folds in repetitions]
    kernels = list(dict.fromkeys(kernel for params in tried for kernel in params.kernels))
    rows = _kernel_rows(graph, target, np.unique(np.concatenate(list(samples.values()))), kernels, tried[0], execution,
                        columns)
    folds = [[KeptLabels.of(target, weight, fold, np.searchsorted(rows.sample, some))
              for fold, some in zip(*both, strict=True)] for both in zip(repetitions, of_fold, strict=True)]
    penalties = {kernel: {params.penalty for params in tried if kernel in params.kernels} for kernel in kernels}
    members: dict[tuple[Kernel, float], list[list[HeldOutMember]]] = {}
    for kernel in kernels:
        held_kernel = HeldOutKernel(*rows.blocks(kernel), weight)
        members |= {(kernel, penalty): [[held_kernel.member(fold, penalty) for fold in some] for some in folds]
                    for penalty in penalties[kernel]}
    reached = [[np.isin(home[fold.held], home[fold.kept]) for fold in some] for some in folds]

    def average(params: GraphRidgeParams, number: int, place: int) -> np.ndarray:
        of_fold_members = [members[kernel, params.penalty][number][place] for kernel in params.kernels]
        return averaged(of_fold_members, folds[number][place], alike=params.alike)

    return [[HeldOutValues.of(target, weight, some, [average(params, number, place) for place in range(len(some))],
                              reached[number]) for number, some in enumerate(repetitions)] for params in tried]


def _kernel_rows(graph: Graph, target: Target, sample: np.ndarray, kernels: Sequence[Kernel], params: GraphRidgeParams,
                 execution: Execution, columns: KernelColumns) -> KernelRows:
    """Return kernels at the labeled points and those of a sample, from what is kept where that has them all."""
    known = columns.get(params.functions)
    if known is None or not (known.has(kernels) and np.isin(sample, known.sample).all()):
        known = KernelRows.of(graph, target.labeled, sample, kernels, params.functions, execution)
        columns[params.functions] = known
    return known

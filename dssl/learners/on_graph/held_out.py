"""Held-out values of learners on the graph; held-out points stay in the graph, unlabeled.

Harmonic functions: with the Schur complement S of the Laplacian on the labeled vertices, `S_FF f_F = -S_FC y_C` for the
fold F and the other labels C. S takes a solve for each labeled vertex; with more of these than columns of all folds,
the functions are refitted.

Poisson learning: one system, with the sources of all folds or a unit source at each labeled vertex as right-hand sides,
whichever are fewer.

Ridge in graph kernels: the columns of the labeled points are solved once for all kernels, penalties and folds, and one
eigendecomposition of each kernel serves all folds. With weights w of the labeled points, A = w^1/2 K w^1/2, and the
training points S of a fold F, whose kernel has mean diagonal d, the function of `average.py` that is fitted to S has

    coef = w^1/2 B z,    B = (A_SS + penalty d I)^-1,    z = w^1/2 (Y - mean of S)

With M = (A + penalty d I)^-1, from the eigenvectors of A for any penalty and fold,

    B = M_SS - M_SF M_FF^-1 M_FS        residual at j of S without j as well:  (B z)_j / (B_jj w_j^1/2)

So neither a fold nor the leave-one-out residuals within it, which weigh the kernels, need a factorization of their own.
The mean of S without j changes z by a multiple of w^1/2, which adds a multiple of B w^1/2.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from ...base.errors import DataError, require
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...solvers.solver_params import SolverParams
from ...storage.blocks import row_ranges
from ..average import LabelColumns, fit_member, semidefinite, shares_of_losses, standard_deviation
from ..linear.gram import training_means
from ..target.target import Target
from .graph_ridge import GraphRidgeParams, Kernel, KernelColumns, KernelRows, sampled
from .laplace_poisson import FlowTask, PoissonTask, Sources, Unlabeled, fit_harmonic
from .model import VertexLabels, VertexValues, reachable_vertices

BLOCK_COLUMNS = 256  # of a task
COLUMN_BYTES = 128  # for each vertex of a column while it is solved
Repetitions = Sequence[Sequence[np.ndarray]]
Fit = Callable[[Target, "np.ndarray | None"], VertexValues]


def columns_at_once(n: int, memory_budget: int) -> int:
    """Return how many columns of n vertices are solved together: as many as fit in half the budget, at most 256."""
    return max(1, min(BLOCK_COLUMNS, memory_budget // 2 // (COLUMN_BYTES * max(n, 1))))


@dataclass(frozen=True, eq=False)
class TrainingLabels:
    """The training labels of a fold.

    test (q,), train (k,) : positions. target, weight : of all labeled points. sample (s,) : the rows of a kernel's
    sampled block at which functions are centered and scaled.
    """

    test: np.ndarray
    train: np.ndarray
    target: Target
    weight: np.ndarray
    sample: np.ndarray

    @classmethod
    def of(cls, target: Target, weight: np.ndarray | None, fold: np.ndarray, sample: np.ndarray) -> "TrainingLabels":
        """Return the training labels; raise DataError where fewer than two are left, or a class has none."""
        n_labels = len(target.labeled)
        train = np.setdiff1d(np.arange(n_labels), fold)
        require(len(train) > 1, f"a fold leaves {len(train)} of {n_labels} labeled points", error=DataError,
                why="kernels are weighted by leave-one-out residuals", fix="label more points, or use fewer folds")
        target.take(train).require_labels()
        return cls(fold, train, target, np.ones(n_labels) if weight is None else weight, sample)

    @cached_property
    def columns(self) -> np.ndarray:
        return self.target.indicators()

    @cached_property
    def mean(self) -> np.ndarray:
        return np.average(self.columns[self.train], axis=0, weights=self.weight[self.train])

    @cached_property
    def leave_one_out_means(self) -> np.ndarray:
        folds = list(np.arange(len(self.train))[:, None])
        return training_means(self.columns[self.train], folds, self.weight[self.train])

    def loss(self, residuals: np.ndarray) -> float:
        """Return the weighted sum of squared leave-one-out residuals (k, c)."""
        w = self.weight[self.train]
        return float((w / w.mean() * (residuals**2).sum(axis=1)).sum())


@dataclass(frozen=True, eq=False)
class HeldOutMember:
    """The held-out values (q, c) of a fold by one kernel's function, standardized, and the loss of that function."""

    values: np.ndarray
    loss: float


class HeldOutKernel:
    """The functions of one kernel for any folds and penalties.

    K : (l, l), at the labeled points. sampled : (s, l), at others. weight : (l,), or None for 1. Cost: 10 l^3 flops
    once; a fold of q points and a penalty take 2 l^2 (q + 2 c), and s l c.
    """

    def __init__(self, K: np.ndarray, sampled: np.ndarray, weight: np.ndarray | None):
        self.K, self.sampled, self.weight = (K + K.T) / 2, sampled, weight
        self.root = np.ones(len(K)) if weight is None else np.sqrt(weight)
        self._spectra: dict[bool, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._changed: dict[float, bool] = {}  # by penalty, whether negative eigenvalues of the kernel are set to 0

    def member(self, labels: TrainingLabels, penalty: float) -> HeldOutMember:
        """Return the function of the kernel that is fitted to the training labels."""
        if np.isinf(penalty):
            return self._kernel_mean(labels)
        K, values, vectors = self._spectrum(penalty)
        S, F, r, c = labels.train, labels.test, self.root, labels.columns.shape[1]
        d = float(np.average(np.diagonal(K)[S], weights=labels.weight[S]))
        scaled = 1 / (values + penalty * d)
        Z = np.zeros((len(r), c + 1))
        Z[S] = r[S, None] * np.column_stack([labels.columns[S] - labels.mean, np.ones(len(S))])
        P = (vectors * scaled) @ vectors[F].T
        gain = np.linalg.solve(P[F], P.T)
        solved = (vectors * scaled) @ (vectors.T @ Z) - gain.T @ (P.T @ Z)
        diagonal = (vectors**2) @ scaled - (P * gain.T).sum(axis=1)
        quotients = solved[S] / (diagonal[S] * r[S])[:, None]
        residuals = quotients[:, :c] - (labels.leave_one_out_means - labels.mean) * quotients[:, c:]
        solved[F] = 0
        return self._standardized(labels, K, r[:, None] * solved[:, :c], labels.loss(residuals))

    def _kernel_mean(self, labels: TrainingLabels) -> HeldOutMember:
        """Return the limit of an infinite penalty, which needs no factorization."""
        S = labels.train
        weight = None if self.weight is None else self.weight[S]
        K = semidefinite(self.K, np.inf)
        member = fit_member(K[np.ix_(S, S)], self.sampled[:, S], LabelColumns(labels.target.take(S), weight), np.inf)
        coef = np.zeros((len(K), member.coef.shape[1]))
        coef[S] = member.coef
        return self._standardized(labels, K, coef, labels.loss(member.held_out - labels.columns[S]))

    def _standardized(self, labels: TrainingLabels, K: np.ndarray, coef: np.ndarray, loss: float) -> HeldOutMember:
        """Return the member with coefficients (l, c), which are 0 at held-out points."""
        values = K[labels.test] @ coef
        if labels.target.n_strata == 1:
            return HeldOutMember(values + labels.mean, loss)
        whole = len(labels.sample) == len(self.sampled)
        sampled = self.sampled if whole else self.sampled[labels.sample]
        F = sampled @ coef
        center = F.mean(axis=0)
        return HeldOutMember((values - center) / standard_deviation(F - center, sampled, coef), loss)

    def _spectrum(self, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `semidefinite` K, and the eigenvalues and eigenvectors of `w^1/2 K w^1/2`."""
        if penalty not in self._changed:
            K = semidefinite(self.K, penalty)
            self._changed[penalty] = changed = K is not self.K
            if changed not in self._spectra:
                self._spectra[changed] = K, *np.linalg.eigh(self.root[:, None] * K * self.root)
        return self._spectra[self._changed[penalty]]


def averaged(members: Sequence[HeldOutMember], labels: TrainingLabels, *, equal_shares: bool) -> np.ndarray:
    """Return the held-out values (q, c) of the average of members, with equal shares or those of their losses."""
    shares = np.full(len(members), 1 / len(members)) if equal_shares else shares_of_losses(
        np.array([member.loss for member in members]), labels.target, len(labels.train))
    return np.sum([share * member.values for share, member in zip(shares, members, strict=True)], axis=0)


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

"""Laplace and Poisson learning: functions on the graph that solve one system with a column for each class.

Laplace learning is the harmonic function of the labels, with the value 0 in components without labels:

    f = Y on labeled vertices,    sum_j w_ij (f_i - f_j) = 0 elsewhere

In Poisson learning labels are sources and sinks of a flow on the graph, whose potentials are scores of classes:

    (L + r D) u = sum over labeled vertices i of (y_i - y_mean) e_i,    degrees' weighted mean of u = 0

Each component of the graph has its own mean label; where all its labels are of one class, the scores are that class.
The ridge r, `RIDGE`, is 0 in the paper. Where parts of the graph are joined only by edges 1e-11 as heavy as others,
potentials are then 1e11 times as large as the sources, and no solver finds them in double precision. A labeled vertex
has a high potential and shifts the mean of all others the other way. So the scores are potentials standardized by the
unlabeled vertices of the component, class by class, after clipping the tails of the values, which belong to neighbors
of labels.

References
----------
Zhu, Ghahramani, Lafferty, "Semi-supervised learning using Gaussian fields and harmonic functions", ICML 2003; Calder,
Cook, Thorpe, Slepcev, "Poisson learning: graph based semi-supervised learning at very low label rates", ICML 2020.
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...base.digest import JsonObject
from ...base.errors import explain
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.laplacian import Laplacian
from ...graph.regularizer import laplacian_of
from ...solvers.solve import prepare, solve_columns
from ...solvers.solver_params import SolverParams
from ...solvers.warm_start import extended, start_arrays
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from ..target.target import Classes, Target
from .model import VertexLabels, VertexValues, reachable_vertices

RIDGE = 1e-10  # of the degrees
MIN_UNLABELED = 20  # vertices of a component for a mean and a standard deviation
MAX_UNLABELED = 4000  # sampled in all components
# The shares of the unlabeled vertices, over the number of classes, that are clipped on either side; few for the mean,
# so that a class of a twentieth of the points is not clipped.
MEAN_TAILS, SPREAD_TAILS = 0.05, 0.2
NEARLY_ALL, MAX_OF_LABELS = 0.95, 0.8  # of the unlabeled points in one class, and of the labels


@dataclass(frozen=True)
class HarmonicTask:
    """Write the harmonic function `values` (v, c).

    shared : `vertex` (u,), `mean` (u, c), `reachable` (v,), and perhaps `start` (m, c). Memory: `solve_cost`.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        W = laplacian_of(self.graph, self.vertices, "unnormalized").point_weights
        values, attributes = harmonic(W, solver=self.solver, **self.shared.load())
        return {**out.write(values=values), "solver": attributes}


@dataclass(frozen=True)
class FlowTask:
    """Write columns `flow` (u, t) of the Schur complement `L_ll - L_lu L_uu^-1 L_ul` of the labeled vertices.

    shared : `vertex` (u,), `reachable` (v,). block : columns that are solved together. Memory: `solve_cost` of a block.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    first: int  # column
    last: int
    block: int
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        W, arrays = laplacian_of(self.graph, self.vertices, "unnormalized").point_weights, self.shared.load()
        vertex, rows = arrays["vertex"], _unlabeled(arrays["vertex"], arrays["reachable"])
        unit = np.eye(len(vertex))[:, self.first:self.last]
        W_l = W[vertex]
        flow = np.asarray(W_l.sum(axis=1)).reshape(-1, 1) * unit - W_l[:, vertex] @ unit
        if not len(rows):
            return {**out.write(flow=flow), "solver": {}}
        R, coupling = _eliminated(W, vertex, rows)
        solver = prepare(R, unit.shape[1], self.solver)
        for start, stop in row_ranges(unit.shape[1], self.block):
            solution = solver.solve(coupling @ unit[:, start:stop]).require_converged(self.solver)
            flow[:, start:stop] -= W_l[:, rows] @ solution.value
        return {**out.write(flow=flow), "solver": solution.described(solver.params.method)}


def _unlabeled(vertex: np.ndarray, reachable: np.ndarray) -> np.ndarray:
    """Return the reachable vertices without a label."""
    unlabeled = reachable.copy()
    unlabeled[vertex] = False
    return np.flatnonzero(unlabeled)


def _eliminated(W: sp.csr_array, vertex: np.ndarray, rows: np.ndarray) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the Laplacian of the unlabeled vertices `rows`, and their weights to the labeled vertices."""
    W_u = W[rows]
    return sp.csr_array(sp.diags_array(np.asarray(W_u.sum(axis=1)).ravel()) - W_u[:, rows]), W_u[:, vertex]


def harmonic(W: sp.csr_array, vertex: np.ndarray, mean: np.ndarray, reachable: np.ndarray, solver: SolverParams,
             start: np.ndarray | None = None) -> tuple[np.ndarray, JsonObject]:
    """Return the function (v, c) that is `mean` (u, c) at labeled vertices (u,), harmonic elsewhere; and evidence.

    W : weights (v, v). reachable (v,) bool : the reachable vertices. start (m, c) : the values of the first vertices
    before the graph grew, where the solver starts. Raises NotConverged.
    """
    rows = _unlabeled(vertex, reachable)
    values = np.zeros((W.shape[0], mean.shape[1]))
    values[vertex] = mean
    if not len(rows):
        return values, {}
    R, coupling = _eliminated(W, vertex, rows)
    begin = None if start is None else extended(start, W)[rows]
    solution, method = solve_columns(R, coupling @ mean, solver, start=begin)
    values[rows] = solution.require_converged(solver).value
    return values, solution.described(method)


def fit_harmonic(graph: Graph, target: Target, weight: np.ndarray | None, solver: SolverParams, execution: Execution,
                 start: np.ndarray | None = None) -> VertexValues:
    """Return the harmonic function of the labels: shares of classes between 0 and 1, or quantities.

    Duplicates with different labels have their weighted mean. start : see `harmonic`. Raises NotConverged.
    """
    fitted, = fit_harmonics(graph, [(target, weight)], solver, execution, start)
    return fitted


def fit_harmonics(graph: Graph, targets: Sequence[tuple[Target, np.ndarray | None]], solver: SolverParams,
                  execution: Execution, start: np.ndarray | None = None) -> list[VertexValues]:
    """Return the harmonic functions of several sets of labels with their weights, a task each; see `fit_harmonic`."""
    tasks, reachable = [], []
    for target, weight in targets:
        of_units = target if target.unit == 1 else target.in_units()
        labels = VertexLabels.of(graph.vertices, of_units, of_units.indicators(), weight)
        reachable.append(reachable_vertices(graph, labels.vertex)[0])
        begin = None if start is None else start / target.unit
        tasks.append(HarmonicTask(
            graph.stored, graph.shared_vertices(execution), execution.share(
                vertex=labels.vertex, mean=labels.mean, reachable=reachable[-1], **start_arrays(begin)), solver))
    parts = execution.scratch()
    receipts = execution.map(tasks, parts)
    fitted = [VertexValues(parts.read(number)["values"], reachable[number], attributes={"solver": receipt["solver"]})
              for number, receipt in enumerate(receipts)]
    return [function if target.unit == 1 else function.times(target.unit)
            for function, (target, _) in zip(fitted, targets, strict=True)]


class OneClass(UserWarning):
    """Nearly all unlabeled points are predicted to be of one class, though the labels are not."""


@dataclass(frozen=True)
class PoissonTask:
    """Write the potentials `values` (r, c) at `rows` (r,) of the sources `source` (u, c) at `vertex` (u,).

    A source that does not sum to 0 on a component is balanced by sinks in proportion to the degrees. shared : also
    `component` (v,), and perhaps `start` (m, c). Memory: `solve_cost`.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        W = laplacian_of(self.graph, self.vertices, "unnormalized").point_weights
        laplacian = Laplacian(W, normalized=False)
        arrays, degrees = self.shared.load(), laplacian.degrees
        component, linked = arrays["component"], np.flatnonzero(degrees > 0)
        position = np.full(len(degrees), -1)
        position[linked] = np.arange(len(linked))
        B = np.zeros((len(linked), arrays["source"].shape[1]))
        sources = degrees[arrays["vertex"]] > 0  # the source at an isolated vertex is 0
        B[position[arrays["vertex"][sources]]] = arrays["source"][sources]
        mass = np.maximum(np.bincount(component, degrees), np.finfo(float).tiny)
        B -= (degrees[:, None] * (_sums(component[linked], B, len(mass)) / mass[:, None])[component])[linked]
        begin = extended(arrays["start"], W)[linked] if "start" in arrays else None
        L = laplacian.matrix()[linked][:, linked]
        L.setdiag(L.diagonal() + RIDGE * degrees[linked])
        solution, method = solve_columns(L, B, self.solver, start=begin)
        solution.require_converged(self.solver)
        u = np.zeros((len(degrees), B.shape[1]))
        u[linked] = solution.value
        mean = _sums(component, degrees[:, None] * u, len(mass)) / mass[:, None]
        return {**out.write(values=(u - mean[component])[arrays["rows"]]), "solver": solution.described(method)}


def _sums(number: np.ndarray, columns: np.ndarray, count: int) -> np.ndarray:
    """Return the sums (count, c) of the rows of columns (n, c) by number (n,)."""
    return np.stack([np.bincount(number, column, minlength=count) for column in columns.T], axis=1)


def _members(component: np.ndarray, wanted: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the ascending positions at which component (n,) is each of the wanted numbers."""
    order = np.argsort(component, kind="stable")
    begins, ends = (np.searchsorted(component[order], wanted, side=side) for side in ("left", "right"))
    for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
        yield order[begin:end]


@dataclass(frozen=True, eq=False)
class Unlabeled:
    """Some unlabeled vertices (s,) of components with labels, and the component (s,) of each."""

    vertex: np.ndarray
    component: np.ndarray

    @classmethod
    def of(cls, labeled: np.ndarray, component: np.ndarray) -> "Unlabeled":
        """Return at most `MAX_UNLABELED` evenly spaced unlabeled vertices, given the labeled ones (u,).

        At least `MIN_UNLABELED` of each component (v,) with labels, none of a component with fewer.
        """
        usable = np.isin(component, component[labeled])
        usable[labeled] = False
        share, selected = min(1.0, MAX_UNLABELED / max(int(usable.sum()), 1)), [np.arange(0)]
        candidates = np.flatnonzero(usable)
        for positions in _members(component[candidates], np.unique(component[labeled])):
            vertex = candidates[positions]
            if len(vertex) >= MIN_UNLABELED:
                count = max(MIN_UNLABELED, int(len(vertex) * share))
                selected.append(vertex[np.linspace(0, len(vertex) - 1, count).astype(int)])
        vertex = np.concatenate(selected)
        return cls(vertex, component[vertex])


@dataclass(frozen=True, eq=False)
class Sources:
    """The labels as sources (u, c) at their vertices, and the mean label of each component (components, c)."""

    source: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, labels: VertexLabels, component: np.ndarray) -> "Sources":
        """Return the sources of labels, given the component of each vertex (v,)."""
        home, count = component[labels.vertex], component.max() + 1
        total = np.bincount(home, labels.weight, minlength=count)
        mean = _sums(home, labels.weight[:, None] * labels.mean, count) / np.maximum(
            total, np.finfo(float).tiny)[:, None]
        return cls(labels.weight[:, None] * (labels.mean - mean[home]), mean)

    def scores(self, values: np.ndarray, component: np.ndarray, sampled: np.ndarray,
               of_sample: np.ndarray) -> np.ndarray:
        """Return potentials (r, c) standardized by those (s, c) of unlabeled vertices of the same component.

        component (r,), of_sample (s,) : the components of both. A class without labels in a component gets the lowest
        score there less 1; where all labels are of one class, the scores are that class.
        """
        scores, n_classes = values.copy(), (self.mean > 0).sum(axis=1)
        numbers = np.unique(of_sample)
        numbers = numbers[n_classes[numbers] >= 2]
        for number, rows, positions in zip(numbers, _members(component, numbers), _members(of_sample, numbers),
                                           strict=True):
            present = self.mean[number] > 0
            U = sampled[positions][:, present]
            mean = _clipped(U, MEAN_TAILS / n_classes[number]).mean(axis=0)
            deviation = _clipped(U, SPREAD_TAILS / n_classes[number]).std(axis=0)
            standardized = (values[np.ix_(rows, present)] - mean) / np.where(deviation > 0, deviation, 1)
            scores[np.ix_(rows, present)] = standardized
            scores[np.ix_(rows, ~present)] = standardized.min(axis=1, initial=np.inf)[:, None] - 1
        return np.where((n_classes == 1)[component][:, None], self.mean[component], scores)


def _clipped(columns: np.ndarray, share: float) -> np.ndarray:
    """Return columns (s, c) clipped at their quantiles `share` and 1 - `share`."""
    return np.clip(columns, *np.quantile(columns, [share, 1 - share], axis=0))


def fit_poisson(graph: Graph, target: Classes, weight: np.ndarray | None, solver: SolverParams, execution: Execution,
                start: np.ndarray | None = None) -> VertexValues:
    """Return the scores of the classes, (v, n_classes); warn with `OneClass`.

    start (m, n_classes) : scores of the first vertices before the graph grew, where the solver starts. Raises
    NotConverged.
    """
    labels = VertexLabels.of(graph.vertices, target, target.indicators(), weight)
    reachable, component = reachable_vertices(graph, labels.vertex)
    sources, parts = Sources.of(labels, component), execution.scratch()
    receipt, = execution.map([PoissonTask(graph.stored, graph.shared_vertices(execution), execution.share(
        vertex=labels.vertex, source=sources.source, component=component, rows=np.arange(len(component)),
        **start_arrays(start)), solver)], parts)
    potentials, unlabeled = parts.read(0)["values"], Unlabeled.of(labels.vertex, component)
    scores = sources.scores(potentials, component, potentials[unlabeled.vertex], unlabeled.component)
    _warn_of_one_class(scores[unlabeled.vertex], target)
    return VertexValues(scores, reachable, attributes={"solver": receipt["solver"]})


def _warn_of_one_class(scores: np.ndarray, target: Classes) -> None:
    count = len(target.names)
    shares = np.bincount(scores.argmax(axis=1), minlength=count) / max(len(scores), 1)
    largest = int(shares.argmax())
    of_labels = float((target.coded == largest).mean())
    if shares[largest] >= NEARLY_ALL and of_labels < MAX_OF_LABELS:
        warnings.warn(explain(
            f"{shares[largest]:.1%} of the unlabeled points are predicted {target.names.tolist()[largest]!r}, which "
            f"{of_labels:.0%} of the labels are",
            why="the potentials do not separate the classes of this graph",
            fix="compare with SemiSupervisedClassifier or GraphKernelRidge, or pass class_sizes where they are known"),
            OneClass, stacklevel=5)

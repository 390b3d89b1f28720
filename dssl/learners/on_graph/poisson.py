"""Poisson learning: labels as sources and sinks of a flow on the graph, whose potential tells the classes apart.

    L u = sum over labeled vertices i of (y_i - y_mean) e_i,    degrees' weighted mean of u = 0

A component of the graph has its own mean of labels, since no flow leaves it; where all its labels are of one class, the
potential is that class.

The potential is high at a labeled vertex itself and moves the mean of all others the other way, the more the more
labels there are and the fewer edges they have. So scores are potentials in units of the unlabeled vertices of a
component: minus their mean and divided by their standard deviation, class by class, of values whose tails are cut.
Neighbors of labels that few edges connect with the others make these tails.

References
----------
Calder, Cook, Thorpe, Slepcev, "Poisson learning: graph based semi-supervised learning at very low label rates", ICML
2020.
"""

import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ...base.errors import explain
from ...execution.tasks import Execution
from ...graph.functions import laplacian_of
from ...graph.graph import Graph
from ...graph.laplacian import Laplacian
from ...solvers.solve import solve_columns
from ...solvers.solver_params import SolverParams
from ...solvers.warm_start import begins_at, extended
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..target.target import Classes
from .vertex_labels import VertexLabels, VertexValues, reached_vertices

FEWEST_UNLABELED = 20  # vertices of a component that tell a mean and a standard deviation
MOST_UNLABELED = 4000  # of all components that do
# The shares of the unlabeled vertices, over the number of classes, that count as a tail on either side: of the mean
# few, or a class of a twentieth of the points would be one.
MEAN_TAILS, SPREAD_TAILS = 0.05, 0.2
NEARLY_ALL, NOT_MOST = 0.95, 0.8  # of the unlabeled points in one class, and of the labels


class OneClass(UserWarning):
    """One class takes nearly all unlabeled points, though not nearly all labels."""


@dataclass(frozen=True)
class PoissonTask:
    """Write `values` (r, c) at `rows` (r,), the potentials of `source` (u, c) at `vertex` (u,).

    Of columns that do not sum to 0 on a component, what is too much leaves its vertices by their degrees. shared :
    these, `component` (v,), and perhaps `start` (m, c). Memory: `solve_cost`.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        joint = laplacian_of(self.graph, self.vertices, "unnormalized").point_weights
        laplacian = Laplacian(joint, normalized=False)
        arrays, degrees = self.shared.load(), laplacian.degrees
        component, linked = arrays["component"], np.flatnonzero(degrees > 0)
        place = np.full(len(degrees), -1)
        place[linked] = np.arange(len(linked))
        B = np.zeros((len(linked), arrays["source"].shape[1]))
        sources = degrees[arrays["vertex"]] > 0  # of an isolated vertex the source is 0
        B[place[arrays["vertex"][sources]]] = arrays["source"][sources]
        mass = np.maximum(np.bincount(component, degrees), np.finfo(float).tiny)
        B -= (degrees[:, None] * (_sums(component[linked], B, len(mass)) / mass[:, None])[component])[linked]
        begin = extended(arrays["start"], joint)[linked] if "start" in arrays else None
        solution, method = solve_columns(laplacian.matrix()[linked][:, linked], B, self.solver, start=begin)
        solution.require_converged(self.solver)
        u = np.zeros((len(degrees), B.shape[1]))
        u[linked] = solution.value
        mean = _sums(component, degrees[:, None] * u, len(mass)) / mass[:, None]
        return {**out.write(values=(u - mean[component])[arrays["rows"]]), "solver": solution.described(method)}


def _sums(number: np.ndarray, columns: np.ndarray, count: int) -> np.ndarray:
    """Return the sums (count, c) of the rows of columns (n, c) that have each number (n,)."""
    return np.stack([np.bincount(number, column, minlength=count) for column in columns.T], axis=1)


def _members(component: np.ndarray, wanted: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the places, ascending, at which component (n,) is each of the wanted numbers; one sort serves them all."""
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
        """Return those beside labeled vertices (u,), by the component of each vertex (v,).

        Evenly spaced, at most `MOST_UNLABELED` in all, but of each component `FEWEST_UNLABELED` at least; none of a
        component with fewer.
        """
        home = component[labeled]
        usable = np.isin(component, home)
        usable[labeled] = False
        share, chosen = min(1.0, MOST_UNLABELED / max(int(usable.sum()), 1)), [np.arange(0)]
        candidates = np.flatnonzero(usable)
        for places in _members(component[candidates], np.unique(home)):
            vertex = candidates[places]
            if len(vertex) >= FEWEST_UNLABELED:
                count = max(FEWEST_UNLABELED, int(len(vertex) * share))
                chosen.append(vertex[np.linspace(0, len(vertex) - 1, count).astype(int)])
        vertex = np.concatenate(chosen)
        return cls(vertex, component[vertex])


@dataclass(frozen=True, eq=False)
class Sources:
    """The labels as sources (u, c) at their vertices, and the mean of those of each component (components, c)."""

    source: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, labels: VertexLabels, component: np.ndarray) -> "Sources":
        """Return those of labels, by the component of each vertex (v,)."""
        home, count = component[labels.vertex], component.max() + 1
        total = np.bincount(home, labels.weight, minlength=count)
        mean = _sums(home, labels.weight[:, None] * labels.mean, count) / np.maximum(
            total, np.finfo(float).tiny)[:, None]
        return cls(labels.weight[:, None] * (labels.mean - mean[home]), mean)

    def scores(self, values: np.ndarray, component: np.ndarray, sampled: np.ndarray, home: np.ndarray) -> np.ndarray:
        """Return potentials (r, c) in units of those (s, c) of unlabeled vertices of the same component.

        component (r,), home (s,) : of both. A class without a label in a component has the least score there, less 1;
        where all its labels are of one class, the scores are that class.
        """
        scores, n_classes = values.copy(), (self.mean > 0).sum(axis=1)
        numbers = np.unique(home)
        numbers = numbers[n_classes[numbers] >= 2]
        for number, rows, places in zip(numbers, _members(component, numbers), _members(home, numbers), strict=True):
            there = self.mean[number] > 0
            U = sampled[places][:, there]
            mean = _without_tails(U, MEAN_TAILS / n_classes[number]).mean(axis=0)
            spread = _without_tails(U, SPREAD_TAILS / n_classes[number]).std(axis=0)
            standardized = (values[np.ix_(rows, there)] - mean) / np.where(spread > 0, spread, 1)
            scores[np.ix_(rows, there)] = standardized
            scores[np.ix_(rows, ~there)] = standardized.min(axis=1, initial=np.inf)[:, None] - 1
        return np.where((n_classes == 1)[component][:, None], self.mean[component], scores)


def _without_tails(columns: np.ndarray, share: float) -> np.ndarray:
    """Return columns (s, c) whose values beyond the quantiles `share` and 1 - `share` are these quantiles."""
    return np.clip(columns, *np.quantile(columns, [share, 1 - share], axis=0))


def fit_poisson(graph: Graph, target: Classes, weight: np.ndarray | None, solver: SolverParams, execution: Execution,
                start: np.ndarray | None = None) -> VertexValues:
    """Return the scores of the classes, (v, n_classes); warn where one class takes nearly everything.

    start (m, n_classes) : those of the first vertices of before the graph grew, near multiples of which the potentials
    are sought; the result is within the solver's tolerance as without.

    Raises NotConverged.
    """
    labels = VertexLabels.of(graph.vertices, target, target.indicators(), weight)
    reached, component = reached_vertices(graph, labels.vertex)
    sources, parts = Sources.of(labels, component), execution.scratch()
    receipt, = execution.map([PoissonTask(graph.stored, graph.shared_vertices(execution), execution.share(
        vertex=labels.vertex, source=sources.source, component=component, rows=np.arange(len(component)),
        **begins_at(start)), solver)], parts)
    potentials, unlabeled = parts.read(0)["values"], Unlabeled.of(labels.vertex, component)
    scores = sources.scores(potentials, component, potentials[unlabeled.vertex], unlabeled.component)
    _warn_of_one_class(scores[unlabeled.vertex], target)
    return VertexValues(scores, reached, attributes={"solver": receipt["solver"]})


def _warn_of_one_class(scores: np.ndarray, target: Classes) -> None:
    """Warn where scores (s, c) of unlabeled vertices are largest for one class nearly everywhere."""
    count = len(target.names)
    shares = np.bincount(scores.argmax(axis=1), minlength=count) / max(len(scores), 1)
    largest = int(shares.argmax())
    of_labels = float((target.coded == largest).mean())
    if shares[largest] >= NEARLY_ALL and of_labels < NOT_MOST:
        warnings.warn(explain(
            f"{shares[largest]:.1%} of the unlabeled points are predicted {target.names.tolist()[largest]!r}, which "
            f"{of_labels:.0%} of the labels are",
            why="the flow from the labels does not tell the classes of this graph apart",
            fix="compare with SemiSupervisedClassifier or GraphKernelRidge, or pass class_sizes where they are known"),
            OneClass, stacklevel=5)

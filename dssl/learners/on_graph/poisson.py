"""Poisson learning: labels as sources and sinks of a flow on the graph, whose potential tells the classes apart.

    L u = sum over labeled vertices i of (y_i - y_mean) e_i,    degrees' weighted mean of u = 0

A component of the graph has its own mean of labels, since no flow leaves it; where all its labels are of one class, the
potential is that class.

References
----------
Calder, Cook, Thorpe, Slepcev, "Poisson learning: graph based semi-supervised learning at very low label rates", ICML
2020.
"""

from dataclasses import dataclass

import numpy as np

from ...execution.tasks import Execution
from ...graph.functions import laplacian_of
from ...graph.graph import Graph
from ...graph.laplacian import Laplacian
from ...solvers.solve import solve_columns
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..target import Classes
from .vertex_labels import VertexLabels, VertexValues, reached_vertices


@dataclass(frozen=True)
class PoissonTask:
    """Write `values` (r, c) at `rows` (r,), the potentials of `source` (u, c) at `vertex` (u,).

    Of columns that do not sum to 0 on a component, what is too much leaves its vertices by their degrees. shared :
    these, and `component` (v,). Memory: `solve_cost`.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        laplacian = Laplacian(laplacian_of(self.graph, self.vertices, "unnormalized").joint, normalized=False)
        own, degrees = self.shared.load(), laplacian.degrees
        component, linked = own["component"], np.flatnonzero(degrees > 0)
        place = np.full(len(degrees), -1)
        place[linked] = np.arange(len(linked))
        B = np.zeros((len(linked), own["source"].shape[1]))
        sources = degrees[own["vertex"]] > 0  # of an isolated vertex the source is 0
        B[place[own["vertex"][sources]]] = own["source"][sources]
        mass = np.maximum(np.bincount(component, degrees), np.finfo(float).tiny)
        B -= (degrees[:, None] * (_sums(component[linked], B, len(mass)) / mass[:, None])[component])[linked]
        solution, method = solve_columns(laplacian.matrix()[linked][:, linked], B, self.solver)
        solution.require_converged(self.solver)
        u = np.zeros((len(degrees), B.shape[1]))
        u[linked] = solution.value
        mean = _sums(component, degrees[:, None] * u, len(mass)) / mass[:, None]
        return {**out.write(values=(u - mean[component])[own["rows"]]), "solver": solution.described(method)}


def _sums(number: np.ndarray, columns: np.ndarray, count: int) -> np.ndarray:
    """Return the sums (count, c) of the rows of columns (n, c) that have each number (n,)."""
    return np.stack([np.bincount(number, column, minlength=count) for column in columns.T], axis=1)


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

    def completed(self, values: np.ndarray, component: np.ndarray) -> np.ndarray:
        """Return potentials (r, c), or where all labels of a component (r,) are of one class, that class."""
        alone = ((self.mean > 0).sum(axis=1) == 1)[component]
        return np.where(alone[:, None], self.mean[component], values)


def fit_poisson(graph: Graph, target: Classes, weight: np.ndarray | None, solver: SolverParams,
                execution: Execution) -> VertexValues:
    """Return the potentials of the classes, (v, n_classes).

    Raises NotConverged.
    """
    labels = VertexLabels.of(graph.vertices, target, target.indicators(), weight)
    reached, component = reached_vertices(graph, labels.vertex)
    sources, parts = Sources.of(labels, component), execution.scratch()
    receipt, = execution.map([PoissonTask(graph.stored, graph.copies(execution), execution.share(
        vertex=labels.vertex, source=sources.source, component=component, rows=np.arange(len(component))),
        solver)], parts)
    return VertexValues(sources.completed(parts.read(0)["values"], component), reached,
                        attributes={"solver": receipt["solver"]})

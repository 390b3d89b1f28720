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
from ...solvers.solve import SolverParams, solve_columns
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..target import Classes
from .vertex_labels import VertexLabels, VertexValues, reached_vertices


@dataclass(frozen=True)
class PoissonTask:
    """Write `values` (v, c), the potentials of `source` (u, c) at `vertex` (u,), whose columns sum to 0 on components.

    shared : these, and `component` (v,). Memory: `solve_cost`.
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
        solution, method = solve_columns(laplacian.matrix()[linked][:, linked], B, self.solver)
        solution.require_converged(self.solver)
        u = np.zeros((len(degrees), B.shape[1]))
        u[linked] = solution.value
        mass = np.maximum(np.bincount(component, degrees), np.finfo(float).tiny)
        mean = np.stack([np.bincount(component, degrees * column) for column in u.T], axis=1) / mass[:, None]
        return {**out.write(values=u - mean[component]),
                "solver": {"method": method, "iterations": int(solution.iterations.max()),
                           "residual": float(solution.residuals.max())}}


def fit_poisson(graph: Graph, target: Classes, weight: np.ndarray | None, solver: SolverParams,
                execution: Execution) -> VertexValues:
    """Return the potentials of the classes, (v, n_classes).

    Raises NotConverged.
    """
    labels = VertexLabels.of(graph.vertices, target, target.indicators(), weight)
    reached, component = reached_vertices(graph, labels.vertex)
    home = component[labels.vertex]
    total = np.bincount(home, labels.weight, minlength=component.max() + 1)
    mean = np.stack([np.bincount(home, labels.weight * column, minlength=len(total)) for column in labels.mean.T],
                    axis=1) / np.maximum(total, np.finfo(float).tiny)[:, None]
    parts = execution.scratch()
    receipt, = execution.map([PoissonTask(graph.stored, graph.copies(execution), execution.share(
        vertex=labels.vertex, source=labels.weight[:, None] * (labels.mean - mean[home]), component=component),
        solver)], parts)
    values = parts.read(0)["values"]
    alone = ((mean > 0).sum(axis=1) == 1)[component]
    values[alone] = mean[component[alone]]
    return VertexValues(values, reached, attributes={"solver": receipt["solver"]})

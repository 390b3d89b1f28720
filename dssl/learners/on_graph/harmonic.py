"""Laplace learning: the function that takes the labels' values, and elsewhere its neighbors' weighted mean.

    f = Y on labeled vertices,    sum_j w_ij (f_i - f_j) = 0 elsewhere

The labeled vertices are eliminated, and what is left is a symmetric diagonally dominant system of as many columns as
classes. Vertices that no label reaches have no equation, and no value.

References
----------
Zhu, Ghahramani, Lafferty, "Semi-supervised learning using Gaussian fields and harmonic functions", ICML 2003.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...execution.tasks import Execution
from ...graph.functions import laplacian_of
from ...graph.graph import Graph
from ...solvers.solve import prepare, solve_columns
from ...solvers.solver_params import SolverParams
from ...solvers.warm_start import begins_at, extended
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from ..target.target import Target
from .vertex_labels import VertexLabels, VertexValues, reached_vertices


@dataclass(frozen=True)
class HarmonicTask:
    """Write `values` (v, c): harmonic off the labeled vertices.

    shared : `vertex` (u,), `mean` (u, c), `reached` (v,), and perhaps `start` (m, c). Memory: `solve_cost`.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        joint = laplacian_of(self.graph, self.vertices, "unnormalized").point_weights
        values, attributes = harmonic(joint, solver=self.solver, **self.shared.load())
        return {**out.write(values=values), "solver": attributes}


@dataclass(frozen=True)
class FlowTask:
    """Write `flow` (u, t), what flows out of the labeled vertices if some of them have the value 1 and others 0.

    These are columns of the Laplacian of which all other vertices are eliminated, `L_ll - L_lu L_uu^-1 L_ul`.

    shared : `vertex` (u,), `reached` (v,). first, last : of the columns. at_once : that are solved at a time, by a
    system that is prepared once. Memory: `solve_cost` of so many columns.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    first: int
    last: int
    at_once: int
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        joint, arrays = laplacian_of(self.graph, self.vertices, "unnormalized").point_weights, self.shared.load()
        vertex, rows = arrays["vertex"], _free(arrays["vertex"], arrays["reached"])
        unit = np.eye(len(vertex))[:, self.first:self.last]
        W = joint[vertex]
        flow = np.asarray(W.sum(axis=1)).reshape(-1, 1) * unit - W[:, vertex] @ unit
        if not len(rows):
            return {**out.write(flow=flow), "solver": {}}
        R, coupling = _eliminated(joint, vertex, rows)
        solver = prepare(R, unit.shape[1], self.solver)
        for start, stop in row_ranges(unit.shape[1], self.at_once):
            solution = solver.solve(coupling @ unit[:, start:stop]).require_converged(self.solver)
            flow[:, start:stop] -= W[:, rows] @ solution.value
        return {**out.write(flow=flow), "solver": solution.described(solver.params.method)}


def _free(vertex: np.ndarray, reached: np.ndarray) -> np.ndarray:
    """Return the vertices that a label reaches and that have none."""
    free = reached.copy()
    free[vertex] = False
    return np.flatnonzero(free)


def _eliminated(joint: sp.csr_array, vertex: np.ndarray, rows: np.ndarray) -> tuple[sp.csr_array, sp.csr_array]:
    """Return the system of some rows of the Laplacian, and their weights to the labeled vertices, its right-hand side.
    """
    W = joint[rows]
    return sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W[:, rows]), W[:, vertex]


def harmonic(joint: sp.csr_array, vertex: np.ndarray, mean: np.ndarray, reached: np.ndarray, solver: SolverParams,
             start: np.ndarray | None = None) -> tuple[np.ndarray, dict[str, Any]]:
    """Return the function (v, c) that is `mean` (u, c) at some vertices (u,), and harmonic where these are reached.

    joint : weights (v, v). reached (v,) bool. start (m, c) : values of the first vertices near which the solution is
    sought, of before the graph grew. With it what the solver says of itself; JSON. Raises NotConverged.
    """
    rows = _free(vertex, reached)
    values = np.zeros((joint.shape[0], mean.shape[1]))
    values[vertex] = mean
    if not len(rows):
        return values, {}
    R, coupling = _eliminated(joint, vertex, rows)
    begin = None if start is None else extended(start, joint)[rows]
    solution, method = solve_columns(R, coupling @ mean, solver, start=begin)
    values[rows] = solution.require_converged(solver).value
    return values, solution.described(method)


def fit_harmonic(graph: Graph, target: Target, weight: np.ndarray | None, solver: SolverParams, execution: Execution,
                 start: np.ndarray | None = None) -> VertexValues:
    """Return the harmonic function of the labels: shares of classes between 0 and 1, or quantities.

    Of copies of a point that are labeled differently, the weighted mean counts. start (m, c) : its values on the first
    vertices of before the graph grew; the solver begins there, and the result is within its tolerance as without.

    Raises NotConverged.
    """
    if target.unit != 1:
        begin = None if start is None else start / target.unit
        return fit_harmonic(graph, target.in_units(), weight, solver, execution, begin).times(target.unit)
    Y = target.indicators()
    labels = VertexLabels.of(graph.vertices, target, Y, weight)
    reached, _ = reached_vertices(graph, labels.vertex)
    parts = execution.scratch()
    receipt, = execution.map([HarmonicTask(
        graph.stored, graph.shared_vertices(execution),
        execution.share(vertex=labels.vertex, mean=labels.mean, reached=reached, **begins_at(start)), solver)], parts)
    return VertexValues(parts.read(0)["values"], reached, attributes={"solver": receipt["solver"]})

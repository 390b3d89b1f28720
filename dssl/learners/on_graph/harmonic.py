"""Laplace learning: the harmonic function of the labels.

    f = Y on labeled vertices,    sum_j w_ij (f_i - f_j) = 0 elsewhere

Without the labeled vertices it is a symmetric diagonally dominant system with a column for each class. Unreachable
vertices, in components without labels, have the value 0.

References
----------
Zhu, Ghahramani, Lafferty, "Semi-supervised learning using Gaussian fields and harmonic functions", ICML 2003.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...base.digest import JsonObject
from ...execution.tasks import Execution
from ...graph.functions import laplacian_of
from ...graph.graph import Graph
from ...solvers.solve import prepare, solve_columns
from ...solvers.solver_params import SolverParams
from ...solvers.warm_start import extended, start_arrays
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from ..target.target import Target
from .model import VertexLabels, VertexValues, reachable_vertices


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

"""Smooth columns on a graph: the mean over the end of a random walk that stops with a fixed probability a step.

    (D (1 + m) - W) S P = m D P

D are the degrees and m = `STOP`. The mean of a column, weighted by degrees, stays; what was between 0 and 1 and summed
to 1 still does. An isolated vertex keeps its row.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...execution.tasks import Execution
from ...graph.functions import laplacian_of
from ...graph.graph import Graph
from ...solvers.solve import solve_columns
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt

# A walk takes 1 / STOP steps: the best of 1 to 0.003 for the opinions of class vectors on twelve sets
# (`tests/benchmarks/soft_labels.py`).
STOP = 0.05
TOLERANCE = 1e-4


@dataclass(frozen=True)
class SmoothTask:
    """Write `values` (v, t), the smoothed `columns` (v, t). Memory: `solve_cost`."""

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        W, P = laplacian_of(self.graph, self.vertices, "unnormalized").point_weights, self.shared.load()["columns"]
        return out.write(values=smooth(W, P, self.solver))


def smooth(W: sp.csr_array, P: np.ndarray, solver: SolverParams) -> np.ndarray:
    """Return columns P (v, t) smoothed on a graph of weights (v, v); raise NotConverged."""
    degrees = np.asarray(W.sum(axis=1)).ravel()
    degrees = np.where(degrees > 0, degrees, 1.0)
    A = sp.csr_array(sp.diags_array((1 + STOP) * degrees) - W)
    isolated = np.asarray(W.sum(axis=1)).ravel() == 0
    solution, _ = solve_columns(A, STOP * degrees[:, None] * P, solver, start=P)
    values = solution.require_converged(solver).value
    values[isolated] = P[isolated]
    return values


def smoothed(graph: Graph, columns: Sequence[np.ndarray], random_state: int, execution: Execution) -> list[np.ndarray]:
    """Return each of some columns (v, t) smoothed on a graph of v vertices; raise NotConverged."""
    parts, vertices = execution.scratch(), graph.shared_vertices(execution)
    solver = SolverParams(tol=TOLERANCE, random_state=random_state)
    execution.map([SmoothTask(graph.stored, vertices, execution.share(columns=each), solver) for each in columns],
                  parts)
    return [parts.read(number)["values"] for number in range(len(columns))]

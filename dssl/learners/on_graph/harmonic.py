"""Laplace learning: the function that takes the labels' values, and elsewhere its neighbors' weighted mean.

    f = Y on labeled vertices,    sum_j w_ij (f_i - f_j) = 0 elsewhere

The labeled vertices are eliminated, and what is left is a symmetric diagonally dominant system of as many columns as
classes. Vertices that no label reaches have no equation, and no value.

References
----------
Zhu, Ghahramani, Lafferty, "Semi-supervised learning using Gaussian fields and harmonic functions", ICML 2003.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...execution.tasks import Execution
from ...graph.functions import laplacian_of
from ...graph.graph import Graph
from ...solvers.solve import SolverParams, solve_columns
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..target import Target
from .vertex_labels import VertexLabels, VertexValues, reached_vertices


@dataclass(frozen=True)
class HarmonicTask:
    """Write `values` (v, c): harmonic off the labeled vertices.

    shared : `vertex` (u,), `mean` (u, c), `reached` (v,). Memory: `solve_cost`.
    """

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        joint = laplacian_of(self.graph, self.vertices, "unnormalized").joint
        own = self.shared.load()
        free = own["reached"].copy()
        free[own["vertex"]] = False
        values = np.zeros((joint.shape[0], own["mean"].shape[1]))
        values[own["vertex"]] = own["mean"]
        rows, attributes = np.flatnonzero(free), {}
        if len(rows):
            W = joint[rows]
            R = sp.csr_array(sp.diags_array(np.asarray(W.sum(axis=1)).ravel()) - W[:, rows])
            solution, method = solve_columns(R, W[:, own["vertex"]] @ own["mean"], self.solver)
            values[rows] = solution.require_converged(self.solver).value
            attributes = {"method": method, "iterations": int(solution.iterations.max()),
                          "residual": float(solution.residuals.max())}
        return {**out.write(values=values), "solver": attributes}


def fit_harmonic(graph: Graph, target: Target, weight: np.ndarray | None, solver: SolverParams,
                 execution: Execution) -> VertexValues:
    """Return the harmonic function of the labels: shares of classes between 0 and 1, or quantities.

    Of copies of a point that are labeled differently, the weighted mean counts.

    Raises NotConverged.
    """
    Y = target.indicators()
    labels = VertexLabels.of(graph.vertices, target, Y, weight)
    reached, _ = reached_vertices(graph, labels.vertex)
    parts = execution.scratch()
    receipt, = execution.map([HarmonicTask(
        graph.stored, graph.copies(execution),
        execution.share(vertex=labels.vertex, mean=labels.mean, reached=reached), solver)], parts)
    return VertexValues(parts.read(0)["values"], reached, attributes={"solver": receipt["solver"]})

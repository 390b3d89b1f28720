"""From a graph and labels to a deformed kernel: regularizer, solves, deformation, in this order."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Integral

import numpy as np

from ..errors import require
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.health import graph_health
from ..graph.regularizer import RegularizerParams, prepare_regularizer
from ..graph.vertices import covariance_at_points
from ..kernels.subsample import SubsampleInverse, multiply_factors, n_solves, solve_columns, solve_evidence
from ..solvers.solve import SolverParams
from ..storage.blocks import block_rng


@dataclass(frozen=True, kw_only=True)
class GraphKernelParams:
    """Everything that a graph's covariance on the subsample depends on, beside the graph."""

    regularizer: RegularizerParams = field(default_factory=RegularizerParams)
    solver: SolverParams = field(default_factory=SolverParams)
    n_subsample: int = 1000
    seed: int = 0

    def __post_init__(self) -> None:
        require(isinstance(self.n_subsample, Integral) and self.n_subsample >= 1, why="functions are measured at "
                "these points", what=f"n_subsample={self.n_subsample!r}, expected a whole number >= 1",
                fix="use 500 to 4000")


def draw_subsample(labeled: np.ndarray, n: int, size: int, seed: int) -> np.ndarray:
    """Return `size` vertex numbers: the labeled points first, then a random draw of the others.

    With more labeled points than `size` it is a random draw of the labeled points alone. All n points where size >= n.
    """
    rng = block_rng(seed, n)
    labeled = np.asarray(labeled, np.int64)
    if len(labeled) >= size:
        return np.sort(rng.choice(labeled, size, replace=False))
    others = np.setdiff1d(np.arange(n), labeled, assume_unique=True)
    drawn = rng.choice(others, min(size, n) - len(labeled), replace=False)
    return np.concatenate([np.sort(labeled), np.sort(drawn)])


def graph_covariance(graph: Graph, labeled: np.ndarray, params: GraphKernelParams, execution: Execution,
                     powers: Sequence[int] = ()) -> SubsampleInverse:
    """Return `(R^-p)` on the subsample, from a graph of n points; keeps nothing of size n s.

    The subsample is numbers of distinct points: of copies a labeled one, or the first. labeled : numbers of points.
    powers : those in place of the regularizer's.

    Raises NotConverged where a solve ended above its tolerance.
    """
    labeled, points = np.asarray(labeled, np.int64), graph.vertices
    v, powers = len(points), tuple(powers) or (params.regularizer.power,)
    health = graph_health(graph.weights(), labeled, vertices=points)
    chosen_vertices = draw_subsample(points.of(labeled), v, params.n_subsample, params.seed)
    solver, chosen, regularizer = prepare_regularizer(
        graph.stored, params.regularizer, len(chosen_vertices) * n_solves(powers), params.solver, execution,
        execution.scratch(), graph.copies(execution))
    columns = execution.scratch()
    receipts = solve_columns(solver, chosen, v, chosen_vertices, powers, execution, columns)
    found = multiply_factors(columns, v, chosen_vertices, powers, execution, execution.scratch())
    columns.remove()
    m = points.multiplicity[chosen_vertices]
    rows_of = points.rows_of(chosen_vertices, labeled)
    return SubsampleInverse(rows_of, {p: covariance_at_points(A, m) for p, A in found.items()}, {
        **graph.attributes, "regularizer": regularizer, "vertices": health["vertices"],
        "components": health["components"], "unreached": health["unreached"],
        "solves": solve_evidence(receipts, regularizer["solver"])})

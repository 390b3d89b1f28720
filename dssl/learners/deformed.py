"""From a graph and labels to a deformed kernel: regularizer, solves, deformation, in this order."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..errors import require
from ..execution.tasks import Execution
from ..graph.graph import Graph
from ..graph.health import graph_health
from ..graph.regularizer import RegularizerParams, prepare_regularizer
from ..graph.vertices import covariance_at_points
from ..kernels.base import Kernel, diagonal_of
from ..kernels.deformed import DeformedKernel, subsample_deformation
from ..kernels.subsample import SubsampleInverse, multiply_factors, solve_columns, solve_evidence
from ..solvers.solve import SolverParams
from ..storage.blocks import block_rng


@dataclass(frozen=True, kw_only=True)
class GraphKernelParams:
    """Everything that a graph's covariance on the subsample depends on, beside the graph."""

    regularizer: RegularizerParams = field(default_factory=RegularizerParams)
    solver: SolverParams = field(default_factory=SolverParams)
    n_subsample: int = 1000
    seed: int = 0


def draw_subsample(labeled: np.ndarray, n: int, size: int, seed: int) -> np.ndarray:
    """Return `size` vertex numbers: the labeled points first, then a random draw of the others.

    With more labeled points than `size` it is a random draw of the labeled points alone. All n points where size >= n.
    """
    require(size >= 1, f"n_subsample={size}, expected >= 1", why="functions are measured at these points",
            fix="use 500 to 4000")
    rng = block_rng(seed, n)
    labeled = np.asarray(labeled, np.int64)
    if len(labeled) >= size:
        return np.sort(rng.choice(labeled, size, replace=False))
    others = np.setdiff1d(np.arange(n), labeled, assume_unique=True)
    drawn = rng.choice(others, min(size, n) - len(labeled), replace=False)
    return np.concatenate([np.sort(labeled), np.sort(drawn)])


def graph_covariance(graph: Graph, labeled: np.ndarray, params: GraphKernelParams,
                     execution: Execution) -> SubsampleInverse:
    """Return `(R^-p)` on the subsample, from a graph of n points; keeps nothing of size n s.

    Parameters
    ----------
    labeled : numbers of points.

    Returns
    -------
    SubsampleInverse, whose subsample is numbers of distinct points: of copies a labeled one, or the first.

    Raises
    ------
    NotConverged : a solve ended above its tolerance.
    """
    labeled, points = np.asarray(labeled, np.int64), graph.vertices
    v, power = len(points), params.regularizer.power
    health = graph_health(graph.weights(), labeled, vertices=points)
    chosen_vertices = draw_subsample(points.of(labeled), v, params.n_subsample, params.seed)
    solver, chosen, regularizer = prepare_regularizer(
        graph.stored, params.regularizer, len(chosen_vertices) * ((power + 1) // 2), params.solver, execution,
        execution.scratch(), graph.copies(execution))
    columns = execution.scratch()
    receipts = solve_columns(solver, chosen, v, chosen_vertices, (power,), execution, columns)
    found = multiply_factors(columns, v, chosen_vertices, (power,), execution, execution.scratch())
    m = points.multiplicity[chosen_vertices]
    rows_of = points.rows_of(chosen_vertices, labeled)
    return SubsampleInverse(rows_of, {p: covariance_at_points(A, m) for p, A in found.items()}, {
        **graph.attributes, "regularizer": regularizer, "vertices": health["vertices"],
        "components": health["components"], "unreached": health["unreached"],
        "solves": solve_evidence(receipts, regularizer["solver"])})


# The deformed kernel is a difference that shrinks as 1 / eta. Measured against 64-bit mantissas: its relative error is
# 1e-15 eta to 1e-14 eta while it is at least 1e-9 of the base kernel, and beyond that soon no digit is left.
MOST_ETA, LEAST_SHARE = 1e8, 1e-9


def check_eta(eta: Any) -> None:
    """Raise ParameterError unless eta is a number from 0 to `MOST_ETA`."""
    number = isinstance(eta, (int, float, np.number)) and not isinstance(eta, bool)
    require(number and 0 <= eta <= MOST_ETA, f"eta={eta!r}, expected 0 to {MOST_ETA:g}",
            why="it weighs the graph against the base kernel, of which about 1 / eta is left: beyond 1e8 that is "
                "rounding error", fix="use 0 for the base kernel, or 1 to 1000")


def check_share(K: np.ndarray, base: Kernel, points: Any, eta: float) -> None:
    """Raise ParameterError if less than `LEAST_SHARE` of the base kernel is left in K (l, l) on its points (l, d)."""
    left, whole = float(np.trace(K)), float(diagonal_of(base, points).sum())
    require(left >= LEAST_SHARE * whole, f"eta={eta:g} leaves {left / max(whole, 1e-300):.1g} of the base kernel at "
            "the labeled points", why="it is a difference of nearly equal numbers, so that few of its digits are right",
            fix="lower eta or the power, or raise the ridge")


def deform(kernel: Kernel, X_S: Any, A: np.ndarray, eta: float) -> DeformedKernel:
    """Return the kernel deformed by the graph's covariance A (s, s) on the points X_S (s, d), dense or sparse.

    eta is relative: A is first divided by its mean diagonal, so that eta = 1 weighs the graph's energy and the base
    kernel's norm alike whatever the ridge, the power and the size of the graph. The paper's eta is this one times
    the mean diagonal of A.
    """
    return subsample_deformation(kernel, X_S, A, absolute_eta(A, eta))


def absolute_eta(A: np.ndarray, eta: float) -> float:
    """Return the paper's eta: the relative one times the mean diagonal of A (s, s)."""
    return eta * float(np.trace(A)) / len(A)


def shuffled(A: np.ndarray, seed: int) -> np.ndarray:
    """Return A with the vertices of the subsample permuted: the same graph, joined to the wrong points.

    What a model gains on such a graph over the base kernel is not owed to the unlabeled data.
    """
    order = block_rng(seed, len(A)).permutation(len(A))
    return A[np.ix_(order, order)]


def evidence_of(covariance: SubsampleInverse) -> dict[str, Any]:
    """Return what the graph and the solves say of themselves; JSON."""
    return {**covariance.attributes, "n_subsample": len(covariance.subsample)}

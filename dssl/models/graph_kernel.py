"""From rows and labels to a deformed kernel: neighbors, weights, regularizer, solves, deformation, in this order."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..blocks import Rows, block_rng
from ..errors import DataError, require
from ..execution import Execution
from ..graph.health import graph_health
from ..graph.neighbors import NeighborParams, find_neighbors
from ..graph.regularizer import RegularizerParams, prepare_regularizer
from ..graph.weights import WeightParams, read_graph, weigh
from ..kernels.base import Kernel
from ..kernels.deformed import DeformedKernel, subsample_deformation
from ..kernels.subsample import SubsampleInverse, multiply_factors, solve_columns, solve_evidence
from ..solvers.solve import SolverParams


@dataclass(frozen=True, kw_only=True)
class GraphKernelParams:
    """Everything that the graph's covariance on the subsample depends on."""

    neighbors: NeighborParams = field(default_factory=NeighborParams)
    weights: WeightParams = field(default_factory=WeightParams)
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


def graph_covariance(rows: Rows, labeled: np.ndarray, params: GraphKernelParams,
                     execution: Execution) -> SubsampleInverse:
    """Return `(R^-p)` on the subsample, from the graph of all rows (n, d); keeps nothing of size n.

    Raises
    ------
    DataError : fewer points than neighbors. NotConverged : a solve ended above its tolerance.
    """
    n = len(rows)
    require(n > params.neighbors.n_neighbors, f"{n} points and n_neighbors={params.neighbors.n_neighbors}",
            why="a point has at most n - 1 neighbors", fix="lower n_neighbors, or pass more points", error=DataError)
    lists = find_neighbors(rows, params.neighbors, execution)
    graph = execution.scratch()
    described = weigh(lists, params.weights, execution, graph)
    health = graph_health(read_graph(graph), labeled)
    subsample = draw_subsample(labeled, n, params.n_subsample, params.seed)
    power = params.regularizer.power
    solver, chosen, evidence = prepare_regularizer(graph, params.regularizer, len(subsample) * ((power + 1) // 2),
                                                   params.solver, execution, execution.scratch())
    columns = execution.scratch()
    receipts = solve_columns(solver, chosen, n, subsample, (power,), execution, columns)
    found = multiply_factors(columns, n, subsample, (power,), execution, execution.scratch())
    return SubsampleInverse(subsample, found, {
        "neighbors": lists.attributes, "weights": described, "regularizer": evidence,
        "components": health["components"], "unreached": health["unreached"],
        "solves": solve_evidence(receipts, evidence["solver"])})


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

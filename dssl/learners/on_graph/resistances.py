"""Effective resistances between points of a graph, and the kernel of the amplified resistances.

Duplicates may share a vertex (`KNNGraph.duplicates`). In the graph of all points they have all edges of their vertex,
so vertices a of m_a points form a network of conductances `m_a W_ab m_b`. A point of degree d with m duplicates, itself
included, has `(1 - 1/m) / d` more resistance to others than its vertex, and 2 / d to its duplicates. The amplified
resistance is that of the vertices, 0 between duplicates.
"""

import numpy as np
import scipy.sparse as sp

from ...base.errors import require
from ...base.types import Matrix
from ...execution.current import current_execution
from ...execution.tasks import Execution
from ...graph.graph import Graph, require_graph
from ...graph.laplacian import Laplacian
from ...kernels.resistance import (
    FEW_PROJECTIONS,
    Network,
    amplified_resistances,
    centered,
    edge_resistances,
    projections_for,
    resistances_between,
)
from ...solvers.solver_params import SolverParams


def effective_resistances(graph: Graph, points: np.ndarray | None = None, *, n_projections: int | None = None,
                          epsilon: float | None = None, solver: SolverParams | None = None, random_state: int = 0,
                          execution: Execution | None = None) -> Matrix:
    """Return the effective resistances between points of a graph, or along its edges.

    Parameters
    ----------
    graph : Graph
        The graph; its weights are conductances.
    points : ndarray of int, shape (s,), or None
        The points between which resistances are computed, by a solve for each point.
        They are exact up to the solver's tolerance, and infinite between components.
        None estimates those of all edges, between vertices, by random projections.
    n_projections : int or None
        The number of projections of the estimate, a solve each; 200 by default. The
        standard error is ``(2 / n_projections)^1/2`` of a resistance.
    epsilon : float or None
        The relative error of the estimate, in place of `n_projections`: with
        ``24 log v / epsilon^2`` projections all resistances are within a factor of
        1 +- epsilon, except with probability 1 / v.
    solver : SolverParams or None
        How the systems are solved; None takes the defaults.
    random_state : int
        The seed of the projections.
    execution : Execution or None
        Where the tasks run; None is the active Dask client, or threads of this process.

    Returns
    -------
    ndarray, shape (s, s), or sparse array, shape (v, v)
        The resistances between the points; or those of the edges, in the places of the
        weights.

    Raises
    ------
    ParameterError
        `graph` is not a `Graph`, the points are not ids of it, or projections are asked
        for where points are given.
    NotConverged
        A solve ended above the tolerance.

    References
    ----------
    Spielman, Srivastava, "Graph sparsification by effective resistances", STOC 2008.

    Examples
    --------
    Two edges of resistance 1 in a row have the resistance 2:

    >>> import numpy as np
    >>> import scipy.sparse as sp
    >>> from dssl import Graph, effective_resistances
    >>> path = Graph.of(sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> effective_resistances(path, np.array([0, 1, 2])).round(6)
    array([[0., 1., 2.],
           [1., 0., 1.],
           [2., 1., 0.]])
    """
    require(points is None or (n_projections is None and epsilon is None), "points with n_projections or epsilon",
            why="between points resistances are exact", fix="leave out one or the other")
    require(n_projections is None or epsilon is None, f"n_projections={n_projections} with epsilon={epsilon}",
            why="either gives the number of projections", fix="leave out one of them")
    require(epsilon is None or 0 < epsilon < 1, f"epsilon={epsilon!r}, expected 0 < epsilon < 1",
            why="it is a relative error", fix="use 0.3, or give n_projections")
    execution, solver, network = execution or current_execution(), solver or SolverParams(), network_of(graph)
    m = graph.vertices.multiplicity
    # The resistance between a vertex and a point of it; the degree of a point is that of its vertex over m.
    linked, isolated = network.degrees > 0, np.where(m > 1, np.inf, 0.0)
    to_point = np.divide(m - 1, network.degrees, out=isolated, where=linked)
    if points is None:
        default = FEW_PROJECTIONS if epsilon is None else projections_for(len(m), epsilon)
        q = default if n_projections is None else n_projections
        R = edge_resistances(network, q, solver, random_state, execution).tocoo()
        return sp.csr_array((R.data + (to_point[R.row] + to_point[R.col]), (R.row, R.col)), shape=R.shape)
    checked = _checked(graph, points)
    vertex, position = np.unique(graph.vertices.vertex[checked], return_inverse=True)
    R = resistances_between(network, vertex, solver, execution)[np.ix_(position, position)]
    of_point = vertex[position]
    duplicates = np.divide(2 * m[of_point], network.degrees[of_point], out=np.full(len(of_point), np.inf),
                           where=linked[of_point])
    R = np.where(position[:, None] == position, duplicates, R + (to_point[of_point][:, None] + to_point[of_point]))
    R[checked[:, None] == checked] = 0.0
    return R


def amplified_resistance_kernel(graph: Graph, points: np.ndarray, *, solver: SolverParams | None = None,
                                execution: Execution | None = None) -> np.ndarray:
    """Return the Gram matrix of the centered amplified resistance kernel on points.

    Parameters
    ----------
    graph : Graph
        The graph; its weights are conductances.
    points : ndarray of int, shape (s,)
        The points, by their numbers. Each of their vertices takes a solve.
    solver : SolverParams or None
        How the systems are solved; None takes the defaults.
    execution : Execution or None
        Where the tasks run; None is the active Dask client, or threads of this process.

    Returns
    -------
    ndarray, shape (s, s)
        A symmetric matrix, positive semi-definite up to rounding, whose rows sum to
        zero.

    Raises
    ------
    DataError
        The points are in different components of the graph.
    ParameterError
        `graph` is not a `Graph`, or the points are not ids of it.
    NotConverged
        A solve ended above the tolerance.

    References
    ----------
    von Luxburg, Radl, Hein, "Getting lost in space: large sample analysis of the
    commute distance", NIPS 2010; Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in
    nearly-linear time", AISTATS 2012.

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import KNNGraph, amplified_resistance_kernel
    >>> X = np.random.default_rng(0).normal(size=(50, 2))
    >>> graph = KNNGraph(n_neighbors=5).build(X)
    >>> K = amplified_resistance_kernel(graph, np.arange(10))
    >>> K.shape, np.allclose(K.sum(axis=1), 0)
    ((10, 10), True)
    """
    execution, network, checked = execution or current_execution(), network_of(graph), _checked(graph, points)
    distinct, place = np.unique(graph.vertices.vertex[checked], return_inverse=True)
    R = resistances_between(network, distinct, solver or SolverParams(), execution)
    C = amplified_resistances(R, network.W[distinct][:, distinct].toarray(), network.degrees[distinct])
    return centered(C[np.ix_(place, place)])


def network_of(graph: Graph) -> Network:
    """Return the conductances between the vertices of a graph, those of all points together."""
    require_graph(graph)
    return Network.of(Laplacian(graph.weights(), False, graph.vertices.multiplicity).point_weights)


def _checked(graph: Graph, points: np.ndarray) -> np.ndarray:
    points = np.asarray(points)
    require(points.ndim == 1 and points.dtype.kind in "iu" and len(points) > 0,
            f"points has shape {points.shape} and dtype {points.dtype}, expected (s,) integers",
            why="it lists points by their numbers", fix="pass an array of ids")
    require(points.min() >= 0 and points.max() < graph.n, f"points span {points.min()} to {points.max()}",
            why=f"the graph has {graph.n} points", fix="number the points from 0 in the order of the rows")
    return points.astype(np.int64)

"""Effective resistances of a graph, exactly between some vertices and by random projections along all edges.

With the weights w as conductances, `R_uv = L^+_uu + L^+_vv - 2 L^+_uv` is the voltage between u and v when a unit of
current flows from one to the other (Klein, Randic 1993). In a large graph it approaches 1/d_u + 1/d_v, which depends on
the degrees alone; the remainder, the amplified resistance, depends on clusters (von Luxburg, Radl, Hein 2010):

    C_uv = R_uv - 1/d_u - 1/d_v + 2 w_uv / (d_u d_v),   0 for u = v

With P = D^-1/2 W D^-1/2 it is the squared distance of u and v in the kernel D^-1/2 P^2 (I - P)^+ D^-1/2, so
`K = -1/2 H C H` is a kernel on all vertices and on any of them.

Duplicates may share a vertex (`KNNGraph.duplicates`). In the graph of all points they have all edges of their vertex,
so vertices a of m_a points form a network of conductances `m_a W_ab m_b`. A point of degree d with m duplicates, itself
included, has `(1 - 1/m) / d` more resistance to others than its vertex, and 2 / d to its duplicates. The amplified
resistance is that of the vertices, 0 between duplicates.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..base.digest import require_random_state
from ..base.errors import DataError, require
from ..base.types import Matrix
from ..execution.current import current_execution
from ..execution.tasks import Execution, sums
from ..graph.graph import Graph, require_graph
from ..graph.laplacian import Laplacian
from ..solvers.solve import Solver, prepare
from ..solvers.solver_params import SolverParams
from ..storage.blocks import Arrays, PartWriter, Receipt, block_rng, row_ranges
from .landmark_inverse import inverse_at_landmarks

FEW_PROJECTIONS = 200  # with a relative standard error of a tenth


@dataclass(frozen=True)
class Network:
    """Conductances of the vertices of a graph.

    W : (v, v), symmetric, non-negative, zero diagonal. degrees (v,): its row sums. component (v,): that of each vertex.
    """

    W: sp.csr_array
    degrees: np.ndarray
    component: np.ndarray

    @classmethod
    def of(cls, W: sp.csr_array) -> "Network":
        return cls(W, np.asarray(W.sum(axis=1)).ravel(), connected_components(W, directed=False)[1])

    @property
    def linked(self) -> np.ndarray:
        """Return the vertices with an edge."""
        return np.flatnonzero(self.degrees > 0)

    def laplacian(self) -> sp.csr_array:
        """Return L of the vertices with an edge."""
        linked = self.linked
        return sp.csr_array(sp.diags_array(self.degrees[linked]) - self.W[linked][:, linked])

    def edges(self) -> sp.coo_array:
        """Return each edge once, between indices in `linked`."""
        linked = self.linked
        return sp.triu(self.W[linked][:, linked], 1, format="coo")


def resistances_between(network: Network, vertices: np.ndarray, params: SolverParams,
                        execution: Execution) -> np.ndarray:
    """Return the effective resistances (s, s) between distinct vertices (s,); infinite between components.

    One solve a vertex, in blocks of columns (`inverse_at_landmarks`); the error is the square of the solver's.

    Raises
    ------
    NotConverged : a solve ended above the tolerance.
    """
    index = np.full(len(network.degrees), -1)
    index[network.linked] = np.arange(len(network.linked))
    inside = np.flatnonzero(index[vertices] >= 0)
    R = np.full((len(vertices), len(vertices)), np.inf)
    if len(inside):
        A = inverse_at_landmarks(network.laplacian(), index[vertices[inside]], params=params,
                                 execution=execution).powers[1]
        between = np.maximum(A.diagonal()[:, None] + A.diagonal() - 2 * A, 0.0)
        component = network.component[vertices[inside]]
        R[np.ix_(inside, inside)] = np.where(component[:, None] == component, between, np.inf)
    np.fill_diagonal(R, 0.0)
    return R


def amplified_resistances(R: np.ndarray, W: np.ndarray, degrees: np.ndarray) -> np.ndarray:
    """Return C (s, s) of resistances R and weights W (s, s) between distinct vertices of degrees (s,).

    Raises
    ------
    DataError : two of the vertices are of different components.
    """
    require(bool(np.isfinite(R).all()), f"the points are of {len(np.unique(np.isinf(R), axis=0))} components",
            error=DataError, why="the resistance between components is infinite",
            fix="pass points of one component, or make the graph with more neighbors")
    C = R - 1 / degrees[:, None] - 1 / degrees + 2 * W / (degrees[:, None] * degrees)
    np.fill_diagonal(C, 0.0)
    return C


def centered(C: np.ndarray) -> np.ndarray:
    """Return `-1/2 H C H`, the Gram matrix (s, s) of points whose squared distances are C, around their center."""
    mean = C.mean(axis=0)
    K = -0.5 * (C - mean - mean[:, None] + mean.mean())
    return (K + K.T) / 2


def projections_for(n: int, epsilon: float) -> int:
    """Return the projections with every resistance of n vertices within 1 +- epsilon, with probability 1 - 1 / n.

    `24 log n / epsilon^2`: Spielman, Srivastava, "Graph sparsification by effective resistances", STOC 2008, Lemma 3.2.
    """
    return math.ceil(24 * math.log(max(n, 2)) / epsilon**2)


@dataclass(frozen=True)
class ProjectTask:
    """Write `squares` (e,): the share of some projections in the resistances of all edges.

    Memory: the solver's arrays, the edges, and of b columns the right-hand sides and `Solver.solve_bytes`.
    """

    solver: Arrays
    params: SolverParams
    edges: Arrays  # `i`, `j`, `w` (e,)
    first: int
    last: int
    random_state: int

    def __call__(self, out: PartWriter) -> Receipt:
        solver = Solver.from_arrays(self.solver.load(), self.params)
        edges = self.edges.load()
        i = edges["i"]
        j = edges["j"]
        root = np.sqrt(edges["w"])
        Y = np.empty((solver.A.n, self.last - self.first))
        for column in range(self.first, self.last):
            signed = root * (2.0 * block_rng(self.random_state, column).integers(0, 2, len(root)) - 1)
            Y[:, column - self.first] = np.bincount(i, signed, len(Y)) - np.bincount(j, signed, len(Y))
        solution = solver.solve(Y).require_converged(self.params)
        squares = np.zeros(len(root))
        for z in solution.value.T:
            squares += (z[i] - z[j]) ** 2
        return {**out.write(squares=squares), **solution.described(self.params.method)}


def edge_resistances(network: Network, n_projections: int, params: SolverParams, random_state: int,
                     execution: Execution) -> sp.csr_array:
    """Return the resistances of all edges, (v, v) symmetric, by random projections.

    The squared distances of the rows of `Z = L^+ B' W^1/2 Q'`, with B the signed incidence matrix and Q of random signs
    / q^1/2, are unbiased estimates with a relative standard error of at most `(2 / q)^1/2`; q solves.

    Raises
    ------
    NotConverged : a solve ended above the tolerance.
    """
    require(n_projections >= 1, f"n_projections={n_projections}, expected >= 1", why="each is one solve",
            fix=f"leave it at {FEW_PROJECTIONS}, or give epsilon")
    require_random_state(random_state)
    edges = network.edges()
    solver = prepare(network.laplacian(), n_projections, params)
    shared = execution.share(i=edges.row, j=edges.col, w=edges.data)
    stored = execution.share(**solver.to_arrays())
    tasks: Sequence[ProjectTask] = [ProjectTask(stored, solver.params, shared, first, last, random_state)
                                    for first, last in row_ranges(n_projections, params.block_columns)]
    values = execution.reduce(sums(tasks))["squares"] / n_projections
    i = network.linked[edges.row]
    j = network.linked[edges.col]
    return sp.csr_array((np.concatenate([values, values]), (np.concatenate([i, j]), np.concatenate([j, i]))),
                        shape=network.W.shape)


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
    require(solver is None or isinstance(solver, SolverParams), f"solver={solver!r}, expected SolverParams or None",
            why="it has the method and the tolerance", fix="use dssl.SolverParams(method='gauss_seidel')")
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

"""Effective resistances of a graph, exactly between some vertices and by random projections along all edges.

With the weights w as conductances, `R_uv = L^+_uu + L^+_vv - 2 L^+_uv` is the voltage between u and v when a unit of
current flows from one to the other (Klein, Randic 1993). In a large graph it approaches 1/d_u + 1/d_v, which depends on
the degrees alone; the remainder, the amplified resistance, depends on clusters (von Luxburg, Radl, Hein 2010):

    C_uv = R_uv - 1/d_u - 1/d_v + 2 w_uv / (d_u d_v),   0 for u = v

With P = D^-1/2 W D^-1/2 it is the squared distance of u and v in the kernel D^-1/2 P^2 (I - P)^+ D^-1/2, so
`K = -1/2 H C H` is a kernel on all vertices and on any of them.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..base.digest import require_random_state
from ..base.errors import DataError, require
from ..execution.tasks import Execution, sums
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

    Raises NotConverged: a solve ended above the tolerance.
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

    Raises NotConverged: a solve ended above the tolerance.
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

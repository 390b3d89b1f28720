"""The Bouligand influence function (BIF) of manifold regularization on all n points, as the paper has it, corrected.

A reference for `dssl.learners.laprls.influence`, which gives the same for points that stay in the graph from the Gram
matrix of the labels alone, and what the tables of the paper are measured with.

The minimizer f = g + b of

    sum of p_i loss(y_i, f(x_i)) + gamma_A |g|_K^2 + gamma_I g' E g / n^2

over the labels, p = w / (sum of w) their shares, satisfies at all points, l' the derivatives of the loss,

    2 gamma_A g + K_L (p l') + (2 gamma_I / n^2) K E g = 0,    and 1'(p l') = 0 with an intercept b

Where the shares of labels become p + dp, and E / n^2 becomes E / n^2 + dG, f moves to first order by s,

    H s = -K_L (dp l') - 2 gamma_I K dG g,    H = K_L D S' + 2 gamma_A I + (2 gamma_I / n^2) K E,    D = diag(p l'')

S the labeled rows; with an intercept, of step t, t (2 gamma_A 1 + (2 gamma_I / n^2) K E 1) more on the right, and
`1'(D s_L + dp l') = 0`. H is that of Theorem 1 with `K F` for its `J K F`, which zeroes the wrong rows.

What a fold takes away. Transductive: its labels, dp = eps (p_F - p) with eps = -w_F / (w - w_F), and dG = 0: a point
held out stays in the graph. Inductive: a part of the points besides, in the paper's linear mixture of Laplacians,
dG = eps (E_i / n_i^2 - E / n^2), now eps = -n_i / (n - n_i), E_i the energy of the graph among them. (Both are
-1 / (t - 1) for t equal parts.) This linear form is the paper's. The true distribution of pairs is quadratic in that of
points: E / n^2 has the weight (1 - eps)^2, and edges between the part and all points 2 eps (1 - eps); so it differs to
first order, and edges between the part and the rest stay in the linear form.

References
----------
Liu et al., "Efficient cross-validation for semi-supervised learning", Theorem 1, sections 3.2 and 4.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.linalg import lu_factor, lu_solve

from dssl.base.errors import require
from dssl.graph.energy.blocks import GraphEnergy
from dssl.kernels.base import Kernel
from dssl.kernels.landmarks import ceil_root, uniform_rows
from dssl.kernels.nystrom import whiten
from dssl.learners.laprls.influence import CurvedLabels, distinct_folds, mean_of_folds, removal_ratio
from dssl.learners.losses import SmoothLoss
from dssl.storage.blocks import block_rng, row_ranges

BLOCK_BYTES = 64 << 20  # of the kernel between points and labels
PART_STREAM = 5  # of the seed; folds have 4

Solver = Callable[[np.ndarray], np.ndarray]  # right-hand sides (., t) of a space -> solutions at the labels (l, t)


@dataclass(frozen=True, eq=False)
class GraphPart:
    """Some vertices of a graph: their rows (v,), the energy E (v, v) of the graph among them, and how many points."""

    rows: np.ndarray
    E: sp.csr_array
    n: float


@dataclass(frozen=True, eq=False)
class FittedOnGraph:
    """The minimizer of the objective above, `values` (v, c) at all vertices, `intercept` (c,) of each column or None.

    labeled : (l,), the row of each label; several may share one. y : (l, c). weight : (l,), >= 0.
    """

    labeled: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    loss: SmoothLoss
    gamma_A: float
    gamma_I: float
    values: np.ndarray
    intercept: np.ndarray | None = None


class GraphSpace(ABC):
    """The kernel on a graph's vertices, as far as the influence needs it: right-hand sides, and their solutions.

    A right-hand side is v at the labels and whatever else the space keeps of it; the first l rows, or the labeled ones.
    graph : E (v, v) of all points. labeled : (l,).
    """

    graph: GraphPart
    labeled: np.ndarray

    @abstractmethod
    def of_labels(self, Z: np.ndarray) -> np.ndarray:
        """Return K_L Z, Z (l, t)."""

    @abstractmethod
    def of_function(self, g: np.ndarray) -> np.ndarray:
        """Return a function that is given by its values (v, t)."""

    @abstractmethod
    def of_points(self, rows: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Return K Z, Z (r, t) at these rows and 0 elsewhere."""

    @cached_property
    def of_energy_of_one(self) -> np.ndarray:
        """Return K E 1, which is 0 of the unnormalized energy."""
        everywhere = np.arange(self.graph.E.shape[0])
        return self.of_points(everywhere, self.graph.E @ np.ones((len(everywhere), 1)))

    @abstractmethod
    def solver(self, D: np.ndarray, gamma_A: float, energy_weight: float) -> Solver:
        """Return what solves `K_L D S' + 2 gamma_A I + energy_weight K E`, D (l,) the curvature of labels."""


class FullSpace(GraphSpace):
    """K (v, v) of all vertices. A right-hand side is v at all; a solver takes 2/3 v^3 flops, and 2 v^2 floats."""

    def __init__(self, K: np.ndarray, graph: GraphPart, labeled: np.ndarray):
        self.K, self.graph, self.labeled = K, graph, labeled

    def of_labels(self, Z: np.ndarray) -> np.ndarray:
        return self.K[:, self.labeled] @ Z

    def of_function(self, g: np.ndarray) -> np.ndarray:
        return g

    def of_points(self, rows: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return self.K[:, rows] @ Z

    def solver(self, D: np.ndarray, gamma_A: float, energy_weight: float) -> Solver:
        H = energy_weight * (self.graph.E @ self.K).T  # both are symmetric
        H[np.diag_indices_from(H)] += 2 * gamma_A
        np.add.at(H.T, self.labeled, (self.K[:, self.labeled] * D).T)  # two labels may be of one point
        factor = lu_factor(H, overwrite_a=True, check_finite=False)
        return lambda V: lu_solve(factor, V, check_finite=False)[self.labeled]


class NystromSpace(GraphSpace):
    """`C P^+ C' = Phi Phi'`, Phi (v, r), for K in H's term of the graph; K of the labels is K.

    A right-hand side is v_L over `(E Phi)' v`, (l + r, t): all that T^-1 and Woodbury's identity ask of it, with

        T = K_L D S' + 2 gamma_A I    (block lower triangular: `CurvedLabels`)
        H^-1 = T^-1 - h T^-1 Phi (I + h Phi' E T^-1 Phi)^-1 Phi' E T^-1,    h = 2 gamma_I / n^2

    where the paper has T for the last T^-1. What leaves the graph is seen by the labels through K itself, and elsewhere
    through Phi Phi': with that for both, inductive values on digits were off 3 to 6 times more.

    Once: 2 v r (l + r) flops, and the kernel of all points with labels and landmarks; a solver then takes
    l^3 / 3 + 4 l r (l + r), and a fold 2 (l + r)^2; inductive, the kernel of all points with labels again. (The paper
    counts no v r l: its T is block diagonal.) 3 v r + 2 (l + r)^2 floats, and 64 MiB of the kernel at a time: never
    (v, v), nor (v, l).
    """

    def __init__(self, Phi: np.ndarray, graph: GraphPart, labeled: np.ndarray,
                 to_labels: Callable[[np.ndarray], np.ndarray]):
        """Phi : with `Phi Phi' = C P^+ C'`. to_labels : rows (b,) -> K of these and the labels, (b, l)."""
        self.Phi, self.graph, self.labeled, self.to_labels = Phi, graph, labeled, to_labels
        self.E_Phi = graph.E @ Phi
        self.of_graph = np.concatenate([Phi[labeled], Phi.T @ self.E_Phi])  # (l + r, r), Phi as a right-hand side
        K_ll = np.concatenate([block for _, block in self._blocks(labeled)])
        elsewhere = self._times_labels(np.arange(len(Phi)), self.E_Phi).T
        self.K = np.concatenate([K_ll, elsewhere])  # (l + r, l), K_L as right-hand sides

    @classmethod
    def of(cls, kernel: Kernel, X: Any, graph: GraphPart, labeled: np.ndarray, landmarks: np.ndarray | None = None,
           random_state: int = 0) -> "NystromSpace":
        """Return the space of some rows of X (v, d), by default ceil(sqrt(v)) of them, drawn uniformly by the seed."""
        if landmarks is None:
            landmarks = uniform_rows(X.shape[0], ceil_root(X.shape[0]), random_state)
        C, at_labels = np.asarray(kernel(X, X[landmarks]), np.float64), X[labeled]
        return cls(C @ whiten(C[landmarks]).T, graph, labeled, lambda rows: kernel(X[rows], at_labels))

    def _blocks(self, rows: np.ndarray) -> Iterator[tuple[slice, np.ndarray]]:
        """Yield K of these rows and the labels, a few rows (b, l) at a time."""
        for start, stop in row_ranges(len(rows), max(1, BLOCK_BYTES // (8 * len(self.labeled)))):
            yield slice(start, stop), np.asarray(self.to_labels(rows[start:stop]), np.float64)

    def _times_labels(self, rows: np.ndarray, Z: np.ndarray) -> np.ndarray:
        """Return K of the labels and these rows, times Z (r, t): (l, t)."""
        return sum((block.T @ Z[own] for own, block in self._blocks(rows)), np.zeros((len(self.labeled), Z.shape[1])))

    def of_labels(self, Z: np.ndarray) -> np.ndarray:
        return self.K @ Z

    def of_function(self, g: np.ndarray) -> np.ndarray:
        return np.concatenate([g[self.labeled], self.E_Phi.T @ g])

    def of_points(self, rows: np.ndarray, Z: np.ndarray) -> np.ndarray:
        elsewhere = self.of_graph[len(self.labeled):] @ (self.Phi[rows].T @ Z)
        return np.concatenate([self._times_labels(rows, Z), elsewhere])

    def solver(self, D: np.ndarray, gamma_A: float, energy_weight: float) -> Solver:
        n_labels = len(self.labeled)
        T = CurvedLabels(self.K[:n_labels], D, gamma_A)

        def inverse_T(V: np.ndarray) -> np.ndarray:
            return (V - self.K[:, T.active] @ T.solve(V[:n_labels])) / (2 * gamma_A)

        T_Phi = inverse_T(self.of_graph)
        inner = energy_weight * T_Phi[n_labels:]
        inner[np.diag_indices_from(inner)] += 1
        factor = lu_factor(inner, overwrite_a=True, check_finite=False)

        def solve(V: np.ndarray) -> np.ndarray:
            x = inverse_T(V)
            return x[:n_labels] - energy_weight * T_Phi[:n_labels] @ lu_solve(factor, x[n_labels:], check_finite=False)

        return solve


def influence_on_graph(space: GraphSpace, fit: FittedOnGraph, folds: Sequence[np.ndarray],
                       leaving: Sequence[GraphPart] | None = None) -> np.ndarray:
    """Return the value of each label's point without its fold, `f + eps BIF`, (l, c); NaN where it is never held out.

    folds : positions of labels; what several of them hold gets the mean of its values. leaving : the part of the graph
    that leaves it with each fold, inductive; None, transductive, where points that are held out stay as unlabeled.

    Raises ParameterError: a fold holds out all weight, or the whole graph; or there are not as many parts as folds.
    """
    held = distinct_folds(folds, fit.weight)
    p, whole = fit.weight / fit.weight.sum(), space.graph
    if leaving is not None:
        require(len(leaving) == len(held) and all(0 < part.n < whole.n for part in leaving),
                f"{len(held)} folds and parts of {[part.n for part in leaving]} points of {whole.n:g}",
                why="a part of the graph leaves with each fold, and another is left", fix="use graph_parts")
    energy_weight = 2 * fit.gamma_I / whole.n**2
    kappa = np.array([removal_ratio(p, fold) for fold in held])
    predicted = [np.empty((len(fold), fit.y.shape[1])) for fold in held]
    G = fit.values if fit.intercept is None else fit.values - fit.intercept
    gone = [space.of_points(part.rows, 2 * fit.gamma_I / part.n**2 * (part.E @ G[part.rows])) for part in leaving or ()]
    D = np.empty(0)
    for column in range(fit.y.shape[1]):
        f, y, g = fit.values[fit.labeled, column], fit.y[:, column], G[:, [column]]
        mu, curvature = p * fit.loss.gradient(f, y), p * fit.loss.curvature(f, y)
        if not np.array_equal(D, curvature):
            D = curvature
            solve = space.solver(D, fit.gamma_A, energy_weight)
        R = np.outer(mu, kappa)  # dp l'
        for j, fold in enumerate(held):
            R[fold, j] = -mu[fold]
        V = -space.of_labels(R)
        if leaving is not None:
            # By stationarity h K E g = -2 gamma_A g - K_L mu, which takes no product with all of K.
            stayed = (space.of_function(2 * fit.gamma_A * g) + space.of_labels(mu[:, None]))[:, 0]
            for j, part in enumerate(leaving):
                V[:, j] += part.n / (whole.n - part.n) * (stayed + gone[j][:, column])
        s = solve(V)
        if fit.intercept is not None and D.any():
            one = space.of_function(np.full_like(g, 2 * fit.gamma_A)) + energy_weight * space.of_energy_of_one
            of_one = solve(one)
            s = s - of_one * ((R.sum(axis=0) + D @ s) / (D @ of_one))
        for own, fold, step in zip(predicted, held, s.T, strict=True):
            own[:, column] = f[fold] + step[fold]
    return mean_of_folds(held, predicted, len(p))


def whole_graph(energy: GraphEnergy, multiplicity: np.ndarray | None = None) -> GraphPart:
    """Return all vertices of a graph, which stand for `multiplicity` points each."""
    v = energy.W.shape[0]
    return GraphPart(np.arange(v), energy.matrix(), float(v if multiplicity is None else multiplicity.sum()))


def graph_parts(W: sp.csr_array, kind: Literal["normalized", "unnormalized"], labeled: np.ndarray,
                folds: Sequence[np.ndarray], random_state: int = 0, multiplicity: np.ndarray |
                None = None) -> list[GraphPart]:
    """Return what leaves the graph of weights W (v, v) with each fold: its labeled rows and its share of the unlabeled.

    Rows without a label are dealt evenly, in a random order that the seed gives. Labels that are never held out stay; a
    row of which two folds hold a label leaves with both.
    """
    unlabeled = np.setdiff1d(np.arange(W.shape[0]), labeled)
    dealt = block_rng(random_state, PART_STREAM).permutation(unlabeled)
    parts = []
    for number, fold in enumerate(folds):
        rows = np.union1d(labeled[fold], dealt[number::len(folds)])
        m = None if multiplicity is None else multiplicity[rows]
        energy = GraphEnergy.of(sp.csr_array(W[rows][:, rows]), kind, m)
        parts.append(GraphPart(rows, energy.matrix(), float(len(rows) if m is None else m.sum())))
    return parts

"""The cut of a graph into classes of known sizes, by the alternating direction method of multipliers (ADMM).

    minimize    1/2 tr X' (L - s D) X - <X, M B>    over X >= 0 with X 1 = 1, the rows of labels fixed,
    such that   lower <= mass' X / sum(mass) <= upper

L = D - W. W holds the weights between points, divided by the square roots of the degrees of both and summed over the
points of each vertex, so that duplicates count as they do where each is a vertex. At s = 0 the problem is convex, and
its solution nearly constant; s > 0 drives the rows of X to corners, so that its cost is the weight of the edges between
classes. Each round solves (1 - s) D - W + rho M, one column a class, and projects on the sizes (`SizeProjection`).

References
----------
Holtz, Chen, Cloninger, Mishne, Saito, "CutSSL: continuous graph cuts for semi-supervised learning", NeurIPS 2024.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...base.profiler import library
from ...graph.laplacian import scaled_entries
from ..class_prior import ClassBounds

# s, what of the degrees is subtracted; rho, of the multipliers: it has to exceed 1.5 s times the largest degree, which
# is therefore counted up to MAX_DEGREE.
SUBTRACTED, RHO, MAX_DEGREE = 0.2, 0.5, 1.5
CONVEX_ROUNDS, MAX_ROUNDS = 10, 60  # rounds with s = 0, and in all
STEPS = 5  # of conjugate gradients in a round, from the solution of the last one
MOVED = 2e-4  # the share of the mass that changes its class in a round below which the rounds end
SIZES_TOL = 1e-4  # of the sizes that a projection has, as a share of the mass
MAX_NEWTON, MAX_HALVINGS = 100, 20  # steps of a projection, and how often each is halved


@dataclass(frozen=True, eq=False)
class Cut:
    """A cut: scores (v, c) whose largest entries are the classes, and how the rounds ended.

    moved : the share of the mass that changed its class in the last round. size_error : by how much the sizes of the
    relaxed cut miss their bounds, summed, as a share of the mass.
    """

    scores: np.ndarray
    rounds: int
    moved: float
    size_error: float


@dataclass(eq=False)
class SizeProjection:
    """The projection on rows >= 0 of sum 1 whose classes have sizes within bounds.

    The projection of Y (v, c) is that of the rows of Y + offset on the simplex. The offsets (c,) are the dual variables
    of the sizes, found from the last ones: of exact sizes by a damped Newton method, of intervals by L-BFGS-B, in
    O(v c log c) a step.

    mass (v,) : of the rows, in the distance and in the sizes. lower, upper (c,) : of the sizes, in units of mass.
    """

    mass: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    offset: np.ndarray

    def __call__(self, Y: np.ndarray) -> np.ndarray:
        """Return the projection (v, c); its sizes may miss the bounds by 1e-4 of the mass."""
        return self._exact(Y) if (self.lower == self.upper).all() else self._within(Y)

    def _dual(self, Y: np.ndarray, Z: np.ndarray, offset: np.ndarray) -> float:
        """Return the dual function without its bounds, half the squared distance less offset @ sizes."""
        difference = Z - Y
        return float(self.mass @ np.einsum("ij,ij->i", difference, difference) / 2 - offset @ (self.mass @ Z))

    def _exact(self, Y: np.ndarray) -> np.ndarray:
        """Return the projection on exact sizes.

        A step is at most as long as the largest |Y|, and halved until the dual function is larger. Where no row lies
        between two classes the Newton matrix is 0, and a multiple of the identity stands for it.
        """
        total, longest = self.mass.sum(), float(np.abs(Y).max()) or 1.0
        c = len(self.lower)
        Z = on_simplex(Y + self.offset)
        value = self._dual(Y, Z, self.offset) + self.offset @ self.lower
        for _ in range(MAX_NEWTON):
            missing = self.lower - self.mass @ Z
            if np.abs(missing).sum() < SIZES_TOL * total:
                break
            active = (Z > 0).astype(np.float64)
            shared = active * (self.mass / active.sum(axis=1))[:, None]
            jacobian = np.diag(self.mass @ active) - active.T @ shared + 1e-3 * total / c * np.eye(c)
            change = np.linalg.solve(jacobian, missing)
            change *= min(1.0, longest / np.abs(change).max())
            for _ in range(MAX_HALVINGS):
                offset = self.offset + change
                Z = on_simplex(Y + offset)
                climbed = self._dual(Y, Z, offset) + offset @ self.lower
                if climbed > value:
                    break
                change /= 2
            self.offset, value = offset, climbed
        return Z

    def _within(self, Y: np.ndarray) -> np.ndarray:
        """Return the projection on intervals, whose dual variables are one >= 0 for each bound."""
        total, c = self.mass.sum(), len(self.lower)

        def descent(bounds: np.ndarray) -> tuple[float, np.ndarray]:
            raised, lowered = bounds[:c], bounds[c:]
            offset = raised - lowered
            Z = on_simplex(Y + offset)
            sizes = self.mass @ Z
            value = self._dual(Y, Z, offset) + raised @ self.lower - lowered @ self.upper
            return -value / total, -np.concatenate([self.lower - sizes, sizes - self.upper]) / total

        start = np.concatenate([np.maximum(self.offset, 0), np.maximum(-self.offset, 0)])
        best = library("scipy.optimize").minimize(
            descent, start, jac=True, method="L-BFGS-B", bounds=[(0, None)] * (2 * c),
            options={"gtol": SIZES_TOL / c, "ftol": 0.0, "maxiter": MAX_NEWTON}).x
        self.offset = best[:c] - best[c:]
        return on_simplex(Y + self.offset)


def on_simplex(Y: np.ndarray) -> np.ndarray:
    """Return the projections (v, c) of rows on the simplex, by sorting."""
    ordered = -np.sort(-Y, axis=1)
    excess = np.cumsum(ordered, axis=1) - 1
    count = (ordered * np.arange(1, Y.shape[1] + 1) > excess).sum(axis=1)
    threshold = excess[np.arange(len(Y)), count - 1] / count
    return np.maximum(Y - threshold[:, None], 0)


def cut_of(W: sp.csr_array, multiplicity: np.ndarray, mass: np.ndarray, scores: np.ndarray, labeled: np.ndarray,
           codes: np.ndarray, bounds: ClassBounds, linear: np.ndarray) -> Cut:
    """Return the cut of a graph from scores (v, c), in which the labeled vertices (u,) have their classes (u, c).

    W (v, v) : the weights between vertices, summed over their points. multiplicity (v,) : the points of each vertex.
    mass (v,) : what of these counts in the sizes. codes : rows of sum 1. linear (v, c) : B, for each point of a vertex.
    """
    W = normalized(W, multiplicity)
    degrees = np.asarray(W.sum(axis=1)).ravel() / multiplicity
    total, weight = mass.sum(), RHO * multiplicity
    project = SizeProjection(mass, bounds.lower * total, bounds.upper * total, np.zeros(len(bounds.lower)))
    Z = project(scores)
    Z[labeled] = codes
    project.offset = np.zeros(len(bounds.lower))
    U, X, moved = np.zeros_like(Z), Z.astype(np.float32), 1.0
    for number in range(MAX_ROUNDS):
        if number in (0, CONVEX_ROUNDS):
            subtracted = SUBTRACTED * np.minimum(degrees, MAX_DEGREE) if number else 0.0
            diagonal = (multiplicity * (degrees - subtracted + RHO)).astype(np.float32)
            A = sp.csr_array(sp.diags_array(diagonal) - W.astype(np.float32))
        right = weight[:, None] * (Z - U) + multiplicity[:, None] * linear
        X = _solved(A, diagonal, right.astype(np.float32), X)
        last, Z = Z, project(X + U)
        Z[labeled] = codes
        U += X - Z
        moved = float(mass @ np.abs(Z - last).sum(axis=1) / 2 / total)
        if moved < MOVED and number > CONVEX_ROUNDS:
            break
    sizes = mass @ Z / total
    cut = X + U + project.offset
    cut[labeled] = codes
    return Cut(cut, number + 1, moved, float(np.abs(sizes - np.clip(sizes, bounds.lower, bounds.upper)).sum()))


def normalized(W: sp.csr_array, multiplicity: np.ndarray) -> sp.csr_array:
    """Return weights divided by the square roots of the degrees of a point of both vertices; 0 degrees stay."""
    degrees = np.asarray(W.sum(axis=1)).ravel() / multiplicity
    root = np.sqrt(np.where(degrees > 0, degrees, 1.0))
    return sp.csr_array((scaled_entries(W, 1 / root), W.indices, W.indptr), shape=W.shape)


def _solved(A: sp.csr_array, diagonal: np.ndarray, B: np.ndarray, X: np.ndarray) -> np.ndarray:
    """Return X (v, c) after `STEPS` of conjugate gradients on A X = B, preconditioned by the diagonal, in float32."""
    tiny = np.finfo(np.float32).tiny
    R = B - A @ X
    scaled = R / diagonal[:, None]
    P, energy = scaled, _dots(R, scaled)
    for _ in range(STEPS):
        AP = A @ P
        length = (energy / np.maximum(_dots(P, AP), tiny)).astype(np.float32)
        X = X + length * P
        R -= length * AP
        scaled = R / diagonal[:, None]
        last, energy = energy, _dots(R, scaled)
        P = scaled + (energy / np.maximum(last, tiny)).astype(np.float32) * P
    return X


def _dots(A: np.ndarray, B: np.ndarray) -> np.ndarray:
    """Return the inner products of the columns, summed in float64."""
    return np.einsum("ij,ij->j", A, B, dtype=np.float64)

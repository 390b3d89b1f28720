"""Algebraic multigrid as a preconditioner for a block of columns: the hierarchy is pyamg's, the V-cycle ours.

Low-dimensional graphs have thousands of small eigenvalues, too many to deflate; a coarse graph represents them all.
The cycle works in float32 on all columns of a block at once, inside conjugate gradients that are corrected in
float64 by the caller.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyamg
import scipy.sparse as sp
from numba import njit
from scipy.linalg import pinvh

from .operators import ScaledMatrix, multiply

COARSEST = 400  # unknowns that are solved by a dense inverse


@dataclass(frozen=True)
class Level:
    """One level: its matrix A, inverse diagonal times the damping, and the prolongation P to it from the next."""

    A: sp.csr_matrix
    damping: np.ndarray
    P: sp.csr_matrix

    @cached_property
    def restriction(self) -> sp.csr_matrix:
        return sp.csr_matrix(self.P.T.tocsr())


@dataclass(frozen=True)
class Hierarchy:
    """Levels from fine to coarse, and the dense pseudo-inverse of the coarsest matrix."""

    levels: list[Level]
    coarsest: np.ndarray

    @property
    def work(self) -> float:
        """Return the entries that one cycle touches, in units of the finest matrix's: the cost of a cycle."""
        entries = sum(3 * level.A.nnz + 2 * level.P.nnz for level in self.levels) + self.coarsest.size
        return entries / max(self.levels[0].A.nnz, 1) if self.levels else 1.0

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"coarsest": self.coarsest, "n_levels": np.array(len(self.levels))}
        for i, level in enumerate(self.levels):
            arrays[f"{i}.damping"] = level.damping
            for name, matrix in (("A", level.A), ("P", level.P)):
                for field in ("data", "indices", "indptr"):
                    arrays[f"{i}.{name}.{field}"] = getattr(matrix, field)
        return arrays

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Hierarchy":
        levels: list[Level] = []
        for i in range(int(arrays["n_levels"])):
            n = len(arrays[f"{i}.damping"])
            coarser = f"{i + 1}.damping"
            m = len(arrays[coarser]) if coarser in arrays else len(arrays["coarsest"])
            A, P = (sp.csr_matrix(tuple(arrays[f"{i}.{name}.{field}"] for field in ("data", "indices", "indptr")),
                                  shape=shape) for name, shape in (("A", (n, n)), ("P", (n, m))))
            levels.append(Level(A, arrays[f"{i}.damping"], P))
        return cls(levels, arrays["coarsest"])

    def cycle(self, B: np.ndarray) -> np.ndarray:
        """Return one V-cycle applied to B (n, t) float32: a symmetric positive definite approximation of A^-1 B."""
        return self._descend(0, B)

    def _descend(self, number: int, B: np.ndarray) -> np.ndarray:
        if number == len(self.levels):
            return self.coarsest @ B
        level = self.levels[number]
        A, P, Pt = level.A, level.P, level.restriction
        X = level.damping[:, None] * B
        R = np.empty_like(B)
        _residual(A.indptr, A.indices, A.data, X, B, R)
        coarse = np.empty((P.shape[1], B.shape[1]), np.float32)
        _product(Pt.indptr, Pt.indices, Pt.data, R, coarse)
        _add_product(P.indptr, P.indices, P.data, self._descend(number + 1, coarse), X)
        _residual(A.indptr, A.indices, A.data, X, B, R)
        _add_scaled(X, level.damping, R)
        return X


def hierarchy(A: ScaledMatrix) -> Hierarchy:
    """Return a smoothed aggregation hierarchy of A whose coarse levels represent the near-null vector exactly.

    References
    ----------
    Vanek, Mandel, Brezina, "Algebraic multigrid by smoothed aggregation", Computing 1996; built by pyamg.
    """
    built = pyamg.smoothed_aggregation_solver(
        A.to_scipy(), B=A.near_null[:, None], symmetry="symmetric", strength=("symmetric", {"theta": 0.0}),
        aggregate="standard", smooth=("jacobi", {"omega": 4 / 3}), improve_candidates=None,
        max_levels=15, max_coarse=COARSEST, keep=False)
    levels = []
    for fine in built.levels[:-1]:
        matrix = sp.csr_matrix(fine.A).astype(np.float32)
        levels.append(Level(matrix, _damping(sp.csr_matrix(fine.A)), sp.csr_matrix(fine.P).astype(np.float32)))
    coarsest = built.levels[-1].A.toarray()
    return Hierarchy(levels, pinvh((coarsest + coarsest.T) / 2).astype(np.float32))


def _damping(A: sp.csr_matrix) -> np.ndarray:
    """Return omega / diagonal, omega = 4/3 over the largest eigenvalue of D^-1 A, so that the smoother contracts."""
    diagonal = A.diagonal()
    # |D^-1 A|_inf bounds the largest eigenvalue; a few power steps give it within a few per cent, always from below.
    v = np.random.default_rng(A.shape[0]).standard_normal(A.shape[0])
    rho = 1.0
    for _ in range(15):
        v /= np.linalg.norm(v)
        after = (A @ v) / diagonal
        rho = float(v @ after)
        v = after
    return (4 / 3 / (1.05 * max(rho, 1.0)) / diagonal).astype(np.float32)


@njit(nogil=True, cache=True, fastmath=True)
def _product(indptr, indices, data, X, out):
    """Write `M X` to out."""
    t = X.shape[1]
    for i in range(out.shape[0]):
        for c in range(t):
            out[i, c] = 0
        for e in range(indptr[i], indptr[i + 1]):
            a, j = data[e], indices[e]
            for c in range(t):
                out[i, c] += a * X[j, c]


@njit(nogil=True, cache=True, fastmath=True)
def _add_product(indptr, indices, data, X, out):
    """Add `M X` to out."""
    t = X.shape[1]
    for i in range(out.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            a, j = data[e], indices[e]
            for c in range(t):
                out[i, c] += a * X[j, c]


@njit(nogil=True, cache=True, fastmath=True)
def _residual(indptr, indices, data, X, B, out):
    """Write `B - M X` to out."""
    t = X.shape[1]
    for i in range(out.shape[0]):
        for c in range(t):
            out[i, c] = B[i, c]
        e, end = indptr[i], indptr[i + 1]
        while e + 3 < end:
            a0, a1, a2, a3 = data[e], data[e + 1], data[e + 2], data[e + 3]
            j0, j1, j2, j3 = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
            for c in range(t):
                out[i, c] -= a0 * X[j0, c] + a1 * X[j1, c] + a2 * X[j2, c] + a3 * X[j3, c]
            e += 4
        while e < end:
            a0, j0 = data[e], indices[e]
            for c in range(t):
                out[i, c] -= a0 * X[j0, c]
            e += 1


@njit(nogil=True, cache=True, fastmath=True)
def _add_scaled(X, scale, R):
    """Add `scale R`, row by row, to X."""
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            X[i, c] += scale[i] * R[i, c]


def preconditioned_gradients(A: ScaledMatrix, levels: Hierarchy, R: np.ndarray, reduction: np.ndarray,
                             max_iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return E with `A E` near R (n, t) float32, and the iterations each column took; R is overwritten.

    Conjugate gradients with one V-cycle a step; a column stops when its residual norm has fallen by `reduction` (t,).
    """
    E, Q = np.zeros_like(R), np.empty_like(R)
    iterations = np.zeros(R.shape[1], np.int64)
    target = _dots(R, R) * reduction**2
    Y = levels.cycle(R)
    P = Y.copy()
    ry = _dots(R, Y)
    active = _dots(R, R) > target
    for _ in range(max_iterations):
        if not active.any():
            break
        multiply(A.indptr, A.indices, A.data32, P, Q)
        pq = _dots(P, Q)
        alpha = np.where(active & (pq > 0), ry / np.where(pq > 0, pq, 1), 0)
        iterations += alpha != 0
        _advance(E, R, P, Q, alpha.astype(np.float32))
        active &= _dots(R, R) > target
        Y = levels.cycle(R)
        ry_next = _dots(R, Y)
        beta = np.where(active & (ry > 0), ry_next / np.where(ry > 0, ry, 1), 0)
        _turn(P, Y, beta.astype(np.float32))
        ry = ry_next
    return E, iterations


@njit(nogil=True, cache=True, fastmath=True)
def _dots(X, Y):
    """Return the inner products of the columns, in float64."""
    t = X.shape[1]
    total, part = np.zeros(t), np.zeros(t, X.dtype)
    for i in range(X.shape[0]):
        for c in range(t):
            part[c] += X[i, c] * Y[i, c]
        if i & 255 == 255:
            for c in range(t):
                total[c] += part[c]
                part[c] = 0
    for c in range(t):
        total[c] += part[c]
    return total


@njit(nogil=True, cache=True, fastmath=True)
def _advance(E, R, P, Q, alpha):
    for i in range(E.shape[0]):
        for c in range(E.shape[1]):
            E[i, c] += alpha[c] * P[i, c]
            R[i, c] -= alpha[c] * Q[i, c]


@njit(nogil=True, cache=True, fastmath=True)
def _turn(P, Y, beta):
    for i in range(P.shape[0]):
        for c in range(P.shape[1]):
            P[i, c] = Y[i, c] + beta[c] * P[i, c]

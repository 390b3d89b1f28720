"""Algebraic multigrid as a preconditioner for a block of columns, with the aggregates of pyamg.

Low-dimensional graphs have thousands of small eigenvalues, too many for deflation; a coarse graph represents all of
them. The V-cycle works in float32 on all columns of a block, inside conjugate gradients that the caller corrects in
float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.linalg import eigh

from ..base.digest import JsonObject
from ..base.profiler import library
from .method import PREPARED_SECONDS, VECTOR_PASSES, Iterative
from .operators import ScaledMatrix

COARSEST = 400  # unknowns of the dense inverse
MAX_LEVELS = 20
WORK = 8.0  # entries that a cycle touches for each of the matrix, as an upper bound: 3 to 8 measured
CSR = ("data", "indices", "indptr")
ZERO = 1e-12  # eigenvalues and diagonals of a component that is reduced to its null vector


@dataclass(frozen=True)
class Level:
    """One level: its matrix A float32, sorted; its inverse diagonal; the prolongation P to it from the next."""

    A: sp.csr_matrix
    inverse: np.ndarray
    P: sp.csr_matrix

    @cached_property
    def restriction(self) -> sp.csr_matrix:
        return sp.csr_matrix(self.P.T.tocsr())


@dataclass(frozen=True)
class Multigrid(Iterative):
    """Levels from fine to coarse, and the dense pseudo-inverse of the coarsest matrix."""

    levels: list[Level]
    coarsest: np.ndarray

    name = "amg"
    description = "conjugate gradients preconditioned by algebraic multigrid"
    prepare_seconds = PREPARED_SECONDS
    stored_guess = ("levels",)
    blocks32 = 7  # with two of the cycle, and those of the coarse levels

    @classmethod
    def prepare(cls, A: ScaledMatrix, n_columns: int, *, n_vectors: int | None = None,
                random_state: int = 0) -> "Multigrid":
        """Return a smoothed aggregation hierarchy of A whose coarse levels represent the near-null vector exactly.

        References
        ----------
        Vanek, Mandel, Brezina, "Algebraic multigrid by smoothed aggregation", Computing 1996.
        """
        matrix, near_null = A.to_scipy(), A.near_null
        levels: list[Level] = []
        while matrix.shape[0] > COARSEST and len(levels) < MAX_LEVELS:
            P, near_null = _prolongation(matrix, near_null)
            matrix.sort_indices()
            levels.append(Level(matrix.astype(np.float32), _inverse(matrix.diagonal()).astype(np.float32),
                                P.astype(np.float32)))
            matrix = sp.csr_matrix(P.T @ matrix @ P)
        values, vectors = eigh(matrix.toarray()) if matrix.shape[0] else (np.empty(0), np.empty((0, 0)))
        return cls(A, levels, ((vectors * _inverse(values)) @ vectors.T).astype(np.float32))

    @property
    def work(self) -> float:
        """Return the cost of a cycle: the entries that it touches, relative to those of the finest matrix."""
        entries = sum(2 * level.A.nnz + 2 * level.P.nnz for level in self.levels) + self.coarsest.size
        return entries / max(self.levels[0].A.nnz, 1) if self.levels else 1.0

    def entries(self) -> tuple[float, float]:
        """Return the entries of 500 plain iterations, and of one with a cycle, whose entries cost 1.5 times as much."""
        plain = super().entries()[1]
        return 500 * plain, self.A.data.size * (1 + 1.5 * self.work) + 2 * VECTOR_PASSES * self.A.n

    @property
    def attributes(self) -> JsonObject:
        return {"level_sizes": [level.A.shape[0] for level in self.levels] + [len(self.coarsest)],
                "work_per_cycle": round(self.work, 3)}

    def to_arrays(self) -> dict[str, np.ndarray]:
        arrays = {"coarsest": self.coarsest, "n_levels": np.array(len(self.levels))}
        for i, level in enumerate(self.levels):
            arrays[f"{i}.inverse"] = level.inverse
            arrays |= {f"{i}.{name}.{field}": getattr(getattr(level, name), field) for name in "AP" for field in CSR}
        return arrays

    @classmethod
    def from_arrays(cls, A: ScaledMatrix, arrays: dict[str, np.ndarray]) -> "Multigrid":
        levels: list[Level] = []
        for i in range(int(arrays["n_levels"])):
            n = len(arrays[f"{i}.inverse"])
            coarser = f"{i + 1}.inverse"
            m = len(arrays[coarser]) if coarser in arrays else len(arrays["coarsest"])
            fine, P = (sp.csr_matrix(tuple(arrays[f"{i}.{name}.{field}"] for field in CSR), shape=(n, width))
                       for name, width in (("A", n), ("P", m)))
            levels.append(Level(fine, arrays[f"{i}.inverse"], P))
        return cls(A, levels, arrays["coarsest"])

    @classmethod
    def prepare_bytes(cls, n: int, nnz: int, n_columns: int) -> float:
        return 17 * WORK * nnz

    @classmethod
    def stored_bytes(cls, n: int, nnz: int, n_columns: int) -> int:
        return int(4.7 * WORK * nnz)

    def preconditioner(self, t: int, dtype: type = np.float32) -> Callable[[np.ndarray], np.ndarray] | None:
        """Return the V-cycle on blocks (n, t) float32: a symmetric positive definite approximation of `A^-1 B`.

        There is none in float64, since the levels are in float32.

        A forward Gauss-Seidel sweep on the way down, and its adjoint, a backward sweep, on the way up. The next call
        overwrites the result. Memory: two arrays (n, t) float32, and those of the coarse levels.
        """
        if dtype == np.float64:
            return None
        workspace = [np.empty((2, len(level.inverse), t), np.float32) for level in self.levels]
        return partial(self._descend, 0, workspace)

    def _descend(self, number: int, workspace: list[np.ndarray], B: np.ndarray) -> np.ndarray:
        if number == len(self.levels):
            return self.coarsest @ B
        level, (X, R) = self.levels[number], workspace[number]
        A, P, Pt = level.A, level.P, level.restriction
        _sweep_forward(A.indptr, A.indices, A.data, level.inverse, B, X, R)
        coarse = np.zeros((P.shape[1], B.shape[1]), np.float32)
        _add_product(Pt.indptr, Pt.indices, Pt.data, R, coarse)
        _add_product(P.indptr, P.indices, P.data, self._descend(number + 1, workspace, coarse), X)
        _sweep_backward(A.indptr, A.indices, A.data, level.inverse, B, X)
        return X


def _prolongation(A: sp.csr_matrix, near_null: np.ndarray) -> tuple[sp.csr_matrix, np.ndarray]:
    """Return P (n, m), one smoothed column an aggregate of neighbors, and y (m,) with `P y` near `near_null`.

    A vertex without neighbors is in no aggregate; the sweeps solve it. Without any edge, m is 0.
    """
    aggregate = library("pyamg.aggregation.aggregate")
    aggregates, _ = aggregate.standard_aggregation(sp.csr_matrix((np.ones(A.nnz), A.indices, A.indptr), A.shape))
    tentative = sp.csr_matrix(sp.diags_array(near_null) @ aggregates)
    lengths = np.sqrt(np.asarray(tentative.multiply(tentative).sum(axis=0)).ravel())
    used = lengths > 0  # pyamg gives one empty aggregate where there is none
    tentative, lengths = sp.csr_matrix(tentative[:, used] @ sp.diags_array(1 / lengths[used])), lengths[used]
    return sp.csr_matrix(tentative - sp.diags_array(_damping(A)) @ (A @ tentative)), lengths


def _inverse(values: np.ndarray) -> np.ndarray:
    """Return 1 / values, and 0 for zeros."""
    return np.where(values > ZERO, 1 / np.maximum(values, ZERO), 0)


def _damping(A: sp.csr_matrix) -> np.ndarray:
    """Return omega / diagonal, omega = 4/3 over the largest eigenvalue of D^-1 A; 0 where the diagonal is."""
    inverse = _inverse(A.diagonal())
    v = np.random.default_rng(A.shape[0]).standard_normal(A.shape[0])
    rho = float(np.linalg.norm(v))
    for _ in range(15):  # power iterations converge to a few per cent, from below
        v = inverse * (A @ (v / rho))
        rho = max(float(np.linalg.norm(v)), ZERO)
    return 4 / 3 / (1.05 * max(rho, 1.0)) * inverse


@njit(nogil=True, cache=True, fastmath=True)
def _sweep_forward(indptr, indices, data, inverse, B, X, R):
    """Write one forward Gauss-Seidel sweep from zero to X, and its residual `B - A X` to R."""
    t = X.shape[1]
    for i in range(X.shape[0]):
        for c in range(t):
            X[i, c] = B[i, c]
        e = indptr[i]
        while e < indptr[i + 1] and indices[e] < i:
            a, j = data[e], indices[e]
            for c in range(t):
                X[i, c] -= a * X[j, c]
            e += 1
        for c in range(t):
            X[i, c] *= inverse[i]
    for i in range(X.shape[0]):
        for c in range(t):
            R[i, c] = 0
        e = indptr[i + 1] - 1
        while e >= indptr[i] and indices[e] > i:
            a, j = data[e], indices[e]
            for c in range(t):
                R[i, c] -= a * X[j, c]
            e -= 1


@njit(nogil=True, cache=True, fastmath=True)
def _sweep_backward(indptr, indices, data, inverse, B, X):
    """Apply one backward Gauss-Seidel sweep for `A X = B` to X."""
    t = X.shape[1]
    new = np.empty(t, X.dtype)
    for i in range(X.shape[0] - 1, -1, -1):
        for c in range(t):
            new[c] = B[i, c]
        for e in range(indptr[i], indptr[i + 1]):
            a, j = data[e], indices[e]
            if j != i:
                for c in range(t):
                    new[c] -= a * X[j, c]
        for c in range(t):
            X[i, c] = inverse[i] * new[c]


@njit(nogil=True, cache=True, fastmath=True)
def _add_product(indptr, indices, data, X, out):
    """Add `M X` to out."""
    t = X.shape[1]
    for i in range(out.shape[0]):
        for e in range(indptr[i], indptr[i + 1]):
            a, j = data[e], indices[e]
            for c in range(t):
                out[i, c] += a * X[j, c]

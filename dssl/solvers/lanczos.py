"""A matrix with known null vectors, and the Lanczos process: on its columns, each by itself, or on blocks of columns.

The latter gives the largest eigenpairs of any symmetric operator that is applied to blocks.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.linalg import eigh, qr

from ..base.errors import DataError, require
from ..base.types import MatrixLike
from .columns import fold
from .operators import FieldArrays, add_entries, component_products, inverse_permutation
from .scaling import cuthill_mckee, reordered

CHECK_GROWTH = 1.06  # of the basis between two checks, each of which is an eigendecomposition
ROUNDING = 1e-10  # of the largest entry: a difference from the transpose that is no edge
MIN_LENGTH = 1e-12  # of a new column off the basis, relative to the norm of the operator; a shorter one is rounding


@dataclass(frozen=True)
class SingularMatrix(FieldArrays):
    """A symmetric positive semi-definite matrix with one known null vector a component, rows in Cuthill-McKee order.

    order (n,): row i here is row `order[i]` of the given matrix. diagonal (n,), indptr, indices, data, of one
    dtype: float32 for the Lanczos process, float64 for eigenpairs.
    component (n,): that of each row. null (n,) float64: of unit norm on each component. 28 bytes a row, 8 an entry.
    """

    order: np.ndarray
    diagonal: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    component: np.ndarray
    null: np.ndarray

    @classmethod
    def of(cls, L: MatrixLike, vector: np.ndarray, dtype: type[np.floating] = np.float32) -> "SingularMatrix":
        """Return the form of L (n, n), sparse, with `L vector = 0`; vector (n,) > 0."""
        L = sp.csr_matrix(L, dtype=np.float64)
        if not L.data.all():  # a zero is no edge
            L = L.copy()
            L.eliminate_zeros()
        indptr, indices = L.indptr.astype(np.int64), L.indices.astype(np.int32, copy=False)
        order, component = cuthill_mckee(indptr, indices)
        indptr, indices, data, whole = reordered(indptr, indices, L.data, order)
        if not whole:  # a row has other entries than its column, which may be rounding
            difference = abs(L - L.T)
            require(difference.max() <= ROUNDING * abs(L).max(), f"the matrix differs from its transpose by "
                    f"{difference.max():g}", error=DataError, why="the Lanczos process is for symmetric matrices",
                    fix="symmetrize the weights: W.maximum(W.T) or (W + W.T) / 2")
            return cls.of((L + L.T) / 2, vector, dtype)
        v = np.asarray(vector, np.float64)[order]
        return cls(order, L.diagonal()[order].astype(dtype), indptr, indices, data.astype(dtype, copy=False), component,
                   v / np.sqrt(np.bincount(component, v * v))[component])

    @property
    def n(self) -> int:
        return len(self.order)

    @property
    def n_components(self) -> int:
        return int(self.component.max()) + 1

    @property
    def place(self) -> np.ndarray:
        """Return the inverse of `order`, (n,)."""
        return inverse_permutation(self.order)

    def matrix(self) -> sp.csr_array:
        """Return the matrix in its order here, with its diagonal."""
        return sp.csr_array((self.data, self.indices, self.indptr), (self.n, self.n)) + sp.diags_array(self.diagonal)

    def multiply(self, X: np.ndarray) -> np.ndarray:
        """Return A X (n, c), for X of the dtype of A."""
        AX: np.ndarray = self.matrix() @ X
        return AX

    def leave(self, Y: np.ndarray) -> np.ndarray:
        """Return rows (n, c) in the order of the given matrix."""
        X = np.empty_like(Y)
        X[self.order] = Y
        return X

    def null_parts(self, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the entries (rows, t) of the projections of unit columns onto the null space."""
        same = self.component[rows][:, None] == self.component[columns]
        return same * (self.null[rows][:, None] * self.null[columns])

    def project(self, V: np.ndarray) -> None:
        """Remove the null space from each column of V (n, t), in place; one array of its size."""
        inner = component_products(self.null, self.component, self.n_components, V)
        V -= (self.null[:, None] * inner[self.component]).astype(V.dtype)

    def basis(self, V: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (V_k (n, t) float32, alpha_k (t,), beta_k (t,)) of the Lanczos process on V, step by step.

        V, which is overwritten, has columns off the null space of unit length, or zero. The yielded array is reused.
        beta_k couples step k to k + 1. Memory: two arrays of n x t float32 beside V.
        """
        t = V.shape[1]
        U, beta, alpha, norms = np.zeros((self.n, t), np.float32), np.zeros(t), np.empty(t), np.empty(t)
        inner = np.empty((self.n_components, t))
        for _ in range(self.n):
            multiply_step(self.indptr, self.indices, self.data, self.diagonal, V, U, beta.astype(np.float32), alpha)
            advance(self.null, self.component, V, U, alpha.astype(np.float32), norms, inner)
            beta = np.sqrt(norms)
            yield V, alpha, beta
            normalize(self.null, self.component, U, inner,
                       np.divide(1, beta, out=np.zeros(t), where=beta > 0).astype(np.float32))
            V, U = U, V


@njit(nogil=True, cache=True, fastmath=True)
def multiply_step(indptr, indices, data, diagonal, V, U, beta, alpha):
    """Replace U by `A V - U beta`, and write the column inner products of V with it to alpha (t,) float64."""
    t = V.shape[1]
    part = np.zeros(t, V.dtype)
    alpha[:] = 0
    for i in range(V.shape[0]):
        for c in range(t):
            U[i, c] = diagonal[i] * V[i, c] - beta[c] * U[i, c]
        add_entries(indices, data, indptr[i], indptr[i + 1], V, i, U, False)
        for c in range(t):
            part[c] += V[i, c] * U[i, c]
        fold(i, V.shape[0], part, alpha)


@njit(nogil=True, cache=True, fastmath=True)
def advance(null, component, V, U, alpha, norms, inner):
    """Subtract `V alpha` from U, and write its squared column norms and its products with each null vector, float64.

    norms (t,), inner (n_components, t).
    """
    t = V.shape[1]
    part = np.zeros(t, V.dtype)
    norms[:] = 0
    inner[:] = 0
    for i in range(V.shape[0]):
        g, y = component[i], null[i]
        for c in range(t):
            u = U[i, c] - alpha[c] * V[i, c]
            U[i, c] = u
            part[c] += u * u
            inner[g, c] += y * u
        fold(i, V.shape[0], part, norms)


@njit(nogil=True, cache=True, fastmath=True)
def normalize(null, component, U, inner, scale):
    """Subtract `null inner` from U, and scale its columns."""
    for i in range(U.shape[0]):
        g, y = component[i], null[i]
        for c in range(U.shape[1]):
            U[i, c] = (U[i, c] - np.float32(y * inner[g, c])) * scale[c]


@dataclass(frozen=True)
class RitzPairs:
    """Ritz pairs of an operator F on the span of a basis.

    values (k,) descending. coefficients (k, k): of the vectors, in the basis (n, k). residuals (k,): ||F x - theta x||.
    steps : applications of F to a block. finished : whether the criterion was met.
    """

    values: np.ndarray
    coefficients: np.ndarray
    residuals: np.ndarray
    basis: np.ndarray
    steps: int
    finished: bool

    def vectors(self, count: int) -> np.ndarray:
        """Return the vectors of the largest values, (n, count)."""
        return self.basis @ self.coefficients[:, :count]


def block_lanczos(F: Callable[[np.ndarray], np.ndarray], start: np.ndarray, project: Callable[[np.ndarray], None],
                  max_columns: int, finished: Callable[[np.ndarray, np.ndarray], bool], random_state: int) -> RitzPairs:
    """Return Ritz pairs of F on the complement of what `project` removes, as soon as they are `finished`.

    F : maps (n, b) to (n, b); symmetric.
    start : (n, b), the first block; overwritten.
    project : projects columns (n, t), in place, on the complement.
    max_columns : of the basis; with b more, at most the dimension of the complement.
    finished : the criterion, of values and residuals as in `RitzPairs`; checked when the basis has grown by 6 %.

    Every block is orthogonalized twice against all before it. Where the Krylov space ends, random columns continue the
    basis, so that eigenvalues of any multiplicity are found. Memory: `8 n (max_columns + b)` bytes, and four blocks.
    """
    n, b = start.shape
    rng = np.random.default_rng([random_state, n, b])
    V, T = np.empty((n, max_columns + b)), np.zeros((max_columns + b, max_columns + b))
    project(start)
    V[:, :b], _ = _next_block(start, V[:, :0], project, 0.0, rng)
    next_check, k = b, 0
    while True:
        k += b
        W = F(np.ascontiguousarray(V[:, k - b:k]))
        H = _orthogonalize(W, V[:, :k], project)
        T[:k, k - b:k], T[k - b:k, :k] = H, H.T
        last = k + b > max_columns
        V[:, k:k + b], C = _next_block(W, V[:, :k], project, float(np.abs(T[:k, :k]).max()), rng)
        if last or k >= next_check:
            values, Y = eigh(T[:k, :k])
            values, Y = values[::-1], Y[:, ::-1]
            residuals = np.linalg.norm(C @ Y[k - b:], axis=0)
            if (met := finished(values, residuals)) or last:
                return RitzPairs(values, Y, residuals, V[:, :k], k // b, met)
            next_check = max(k + b, int(CHECK_GROWTH * k))
        T[k:k + b, k - b:k], T[k - b:k, k:k + b] = C, C.T


def _orthogonalize(W: np.ndarray, V: np.ndarray, project: Callable[[np.ndarray], None]) -> np.ndarray:
    """Remove what `project` does and the span of V (n, k) from W (n, b), in place; return the coefficients (k, b).

    Both twice: F may amplify what is left of the one, and W may be short once the other is removed.
    """
    H = np.zeros((V.shape[1], W.shape[1]))
    for _ in range(2):
        project(W)
        part = V.T @ W
        W -= V @ part
        H += part
    return H


def _next_block(W: np.ndarray, V: np.ndarray, project: Callable[[np.ndarray], None], norm: float,
                rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return Q (n, b) orthonormal and orthogonal to V, and C (b, b), with `W = Q C` up to rounding of F's norm."""
    b = W.shape[1]
    Q, R, order = qr(W, mode="economic", pivoting=True, overwrite_a=True)
    lengths = np.abs(R.diagonal())
    rank = int((lengths > MIN_LENGTH * norm).sum())
    if lengths[-1] < 1e-6 * norm or rank < b:
        Q[:, rank:] = rng.standard_normal((len(Q), b - rank))
        R[rank:] = 0
        for _ in range(2):  # short columns have lost their orthogonality, and new ones never had it
            _orthogonalize(Q, V, project)
            for j in range(b):
                Q[:, j] -= Q[:, :j] @ (Q[:, :j].T @ Q[:, j])
                Q[:, j] /= np.linalg.norm(Q[:, j])
    C = np.empty_like(R)
    C[:, order] = R
    return Q, C

"""A matrix with known null vectors, and the Lanczos process on its columns, each by itself."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from .operators import add_row, component_products, inverse_permutation


@dataclass(frozen=True)
class SingularMatrix:
    """A symmetric positive semi-definite matrix with one known null vector a component, rows in Cuthill-McKee order.

    order (n,): row i here is row `order[i]` of the given matrix. diagonal (n,), indptr, indices, data, of one
    dtype: float32 for the Lanczos process, float64 for eigenpairs.
    component (n,): that of each row. null (n,) float64: of unit norm on each component.
    """

    order: np.ndarray
    diagonal: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    component: np.ndarray
    null: np.ndarray

    @classmethod
    def of(cls, L: Any, vector: np.ndarray, dtype: type[np.floating] = np.float32) -> "SingularMatrix":
        """Return the form of L (n, n), sparse, with `L vector = 0`; vector (n,) > 0."""
        L = sp.csr_matrix(L, dtype=np.float64)
        order = reverse_cuthill_mckee(L, symmetric_mode=True).astype(np.int64)
        L = sp.csr_matrix(L[order][:, order])
        diagonal = L.diagonal()
        L.setdiag(0)
        L.eliminate_zeros()
        L.sort_indices()
        count, component = connected_components(L, directed=False)
        v = np.asarray(vector, np.float64)[order]
        return cls(order, diagonal.astype(dtype), L.indptr.astype(np.int64), L.indices.astype(np.int32),
                   L.data.astype(dtype), component.astype(np.int32),
                   v / np.sqrt(np.bincount(component, v * v, count))[component])

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

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the named arrays for `from_arrays`: 28 bytes a row, 8 an entry."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "SingularMatrix":
        """Return the matrix that `to_arrays` described."""
        return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})

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
        add_row(indptr, indices, data, i, V, U, False)
        for c in range(t):
            part[c] += V[i, c] * U[i, c]
        if i & 255 == 255:
            for c in range(t):
                alpha[c] += part[c]
                part[c] = 0
    for c in range(t):
        alpha[c] += part[c]


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
        if i & 255 == 255:
            for c in range(t):
                norms[c] += part[c]
                part[c] = 0
    for c in range(t):
        norms[c] += part[c]


@njit(nogil=True, cache=True, fastmath=True)
def normalize(null, component, U, inner, scale):
    """Subtract `null inner` from U, and scale its columns."""
    for i in range(U.shape[0]):
        g, y = component[i], null[i]
        for c in range(U.shape[1]):
            U[i, c] = (U[i, c] - np.float32(y * inner[g, c])) * scale[c]

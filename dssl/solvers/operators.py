"""The scaled and reordered form of a symmetric diagonally dominant matrix.

The system `R x = b` is solved as `A y = D^-1/2 b`, `x = D^-1/2 y`, with `D` the diagonal of `R` and
`A = D^-1/2 R D^-1/2`, rows in reverse Cuthill-McKee order. `A` has a unit diagonal, so diagonal scaling
is built in, every eigenvalue lies in [0, 2], and neighbors in the graph are neighbors in memory.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numba import njit

from .columns import FEW_ROWS


def inverse_permutation(order: np.ndarray) -> np.ndarray:
    """Return the inverse of a permutation (n,)."""
    inverse = np.empty(len(order), np.int64)
    inverse[order] = np.arange(len(order))
    return inverse


class FieldArrays:
    """A dataclass of arrays, which is stored by the names of its fields."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the named arrays that `from_arrays` takes."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> Self:
        """Return what `to_arrays` described."""
        return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})


@dataclass(frozen=True)
class ScaledMatrix(FieldArrays):
    """`A = D^-1/2 R D^-1/2` without its unit diagonal, reordered.

    order (n,): row `i` here is row `order[i]` of `R`. scale (n,): `D^-1/2` in this order.
    indptr (n + 1,), indices (nnz,), data (nnz,) float64: the off-diagonal entries.
    component (n,): the connected component of each row. near_null (n,): the vector closest to a null vector, of unit
    norm on each component; image (n,): A times it; energy (n_components,): its Rayleigh quotients, 0 for a singular
    component.
    """

    order: np.ndarray
    scale: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    component: np.ndarray
    near_null: np.ndarray
    image: np.ndarray
    energy: np.ndarray

    @property
    def n(self) -> int:
        return len(self.order)

    @property
    def singular(self) -> np.ndarray:
        """Return which components have a null vector (n_components,)."""
        return self.energy == 0

    @cached_property
    def data32(self) -> np.ndarray:
        """Return the entries in float32."""
        return self.data.astype(np.float32)

    def data_like(self, X: np.ndarray) -> np.ndarray:
        """Return the entries in the precision of X, float32 or float64."""
        return self.data32 if X.dtype == np.float32 else self.data

    @cached_property
    def first_above(self) -> np.ndarray:
        """Return where the entries above the diagonal begin in each row, (n,)."""
        return _first_above(self.indptr, self.indices)

    @property
    def spread(self) -> float:
        """Return the mean distance of an entry from the diagonal, relative to n: 0.01 on a plane, 0.1 on a cloud."""
        below_less_above = 2 * self.first_above - self.indptr[:-1] - self.indptr[1:]
        return 2 * float(np.arange(self.n) @ below_less_above) / max(self.n * len(self.data), 1)

    @staticmethod
    def stored_bytes(n: int, nnz: int) -> int:
        """Return the bytes of what `to_arrays` gives: five arrays of 8 bytes a row, one of 4; 8 + 4 an entry."""
        return 44 * n + 12 * nnz

    def enter(self, B: np.ndarray) -> np.ndarray:
        """Return right-hand sides (n, t) of `R` as right-hand sides of `A`, off the null space of a singular R."""
        ordered = self.off_null(B)
        ordered *= self.scale[:, None]
        return ordered

    def leave(self, Y: np.ndarray, out: np.ndarray) -> None:
        """Write solutions Y (n, t) of `A`, which are overwritten, to `out` as solutions of `R`, of minimum norm if R is
        singular.
        """
        Y *= self.scale[:, None]
        self._project_null_of_R(Y)
        out[self.order] = Y

    def _project_null_of_R(self, B: np.ndarray) -> None:
        """Remove the null space of R, whose vectors are `D^-1/2` times those of A, from B (n, t), in place."""
        if self.singular.any():
            null = self.near_null * self.scale
            null /= np.sqrt(np.bincount(self.component, null**2, len(self.energy)))[self.component]
            _project(null, self.component, self.singular, B)

    def off_null(self, B: np.ndarray) -> np.ndarray:
        """Return vectors (n, t) without the null space of R, with their rows in the order of A."""
        ordered: np.ndarray = B[self.order]
        self._project_null_of_R(ordered)
        return ordered

    def apply(self, X: np.ndarray) -> np.ndarray:
        """Return `R X` (n, t) in the rows and scaling of R."""
        Y = X[self.order] / self.scale[:, None]
        AY = np.empty_like(Y)
        multiply(self.indptr, self.indices, self.data, Y, AY)
        out = np.empty_like(AY)
        out[self.order] = AY / self.scale[:, None]
        return out

    @property
    def vector(self) -> np.ndarray:
        """Return the vector that makes R dominant, (n,) in the rows of R, up to a factor a component."""
        return vector_of(self.order, self.near_null, self.scale)

    def weights_of(self, first: int) -> sp.csr_array:
        """Return `|R_ij| v_j` of rows [first, n) of R, without the diagonal, (n - first, n); v is `vector`.

        Where R x is zero and without a ridge, x / v is the mean of the neighbors by these weights.
        """
        places = inverse_permutation(self.order)[first:]
        rows = sp.csr_array(self.off_diagonal()[places])
        weights = np.abs(rows.data) / np.repeat(self.scale[places], np.diff(rows.indptr)) * self.near_null[rows.indices]
        return sp.csr_array((weights, self.order[rows.indices], rows.indptr), (len(places), self.n))

    def project(self, B: np.ndarray) -> None:
        """Remove the near-null vector of every component from each column of B (n, t), in place."""
        _project(self.near_null, self.component, np.ones(len(self.energy), np.bool_), B)

    def project_null(self, X: np.ndarray) -> None:
        """Remove the null space of A, the near-null vectors of its singular components, from X (n, t), in place."""
        _project(self.near_null, self.component, self.singular, X)

    def correct_components(self, X: np.ndarray, R: np.ndarray, active: np.ndarray) -> None:
        """Correct active columns of X and of the residual R (n, t) exactly in the near-null part of every component.

        A small ridge makes this part slow for conjugate gradients, and float32 cannot represent it.
        """
        inverse = np.where(self.singular, 0.0, 1 / np.where(self.singular, 1, self.energy))
        if self.n > FEW_ROWS:
            _correct_components(self.near_null, self.image, self.component, inverse, X, R, active)
            return
        members = sp.csr_array((self.near_null, self.component, np.arange(self.n + 1)), (self.n, len(inverse)))
        moves = (members.T @ R) * inverse[:, None] * active
        X += members @ moves
        R -= self.image[:, None] * moves[self.component]

    def residual(self, X: np.ndarray, B: np.ndarray, R: np.ndarray) -> None:
        """Write `B - A X` (n, t) to R, in float64."""
        if self.n > FEW_ROWS:
            _residual(self.indptr, self.indices, self.data, X, B, R)
        else:
            np.subtract(B, X, out=R)
            R -= self.off_diagonal() @ X

    def off_diagonal(self) -> sp.csr_matrix:
        """Return `A` without its diagonal."""
        return sp.csr_matrix((self.data, self.indices, self.indptr), shape=(self.n, self.n))

    def to_scipy(self) -> sp.csr_matrix:
        """Return `A` with its diagonal."""
        return (self.off_diagonal() + sp.identity(self.n, format="csr")).tocsr()


def vector_of(order: np.ndarray, near_null: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return `ScaledMatrix.vector` from its arrays."""
    vector = np.empty(len(order))
    vector[order] = near_null * scale
    return vector


@njit(nogil=True, cache=True)
def _first_above(indptr, indices):
    first = np.empty(len(indptr) - 1, np.int64)
    for i in range(len(first)):
        e = indptr[i]
        while e < indptr[i + 1] and indices[e] < i:
            e += 1
        first[i] = e
    return first


@njit(nogil=True, cache=True)
def component_products(vector, component, n_components, B):
    """Return the inner products (n_components, t) of a vector on each component with the columns of B (n, t)."""
    inner = np.zeros((n_components, B.shape[1]))
    for i in range(B.shape[0]):
        for c in range(B.shape[1]):
            inner[component[i], c] += vector[i] * B[i, c]
    return inner


@njit(nogil=True, cache=True)
def _project(vector, component, which, B):
    inner = component_products(vector, component, len(which), B)
    for i in range(B.shape[0]):
        if which[component[i]]:
            for c in range(B.shape[1]):
                B[i, c] -= vector[i] * inner[component[i], c]


@njit(nogil=True, cache=True)
def _correct_components(vector, image, component, inverse, X, R, active):
    moves = component_products(vector, component, len(inverse), R)
    for g in range(moves.shape[0]):
        for c in range(moves.shape[1]):
            moves[g, c] *= inverse[g] if active[c] else 0.0
    for i in range(X.shape[0]):
        g = component[i]
        for c in range(X.shape[1]):
            X[i, c] += vector[i] * moves[g, c]
            R[i, c] -= image[i] * moves[g, c]


@njit(nogil=True, cache=True, fastmath=True, inline="always")
def add_entries(indices, data, e, end, P, i, Q, minus):
    """Add entries [e, end) times the rows of P (n, t) that they name, or minus that, to row i of Q; four a pass."""
    while e + 3 < end:
        a0, a1, a2, a3 = data[e], data[e + 1], data[e + 2], data[e + 3]
        j0, j1, j2, j3 = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
        for c in range(P.shape[1]):
            s = a0 * P[j0, c] + a1 * P[j1, c] + a2 * P[j2, c] + a3 * P[j3, c]
            Q[i, c] += -s if minus else s
        e += 4
    while e < end:
        a0, j0 = data[e], indices[e]
        for c in range(P.shape[1]):
            s = a0 * P[j0, c]
            Q[i, c] += -s if minus else s
        e += 1


@njit(nogil=True, cache=True, fastmath=True, inline="always")
def add_to_value(indices, data, e, end, p, value, minus):
    """Return what `add_entries` of one column (n,) makes of a value, in less than half the time; with the same bits.

    That needs a caller without fast arithmetic that reorders sums.
    """
    while e + 3 < end:
        s = (data[e] * p[indices[e]] + data[e + 1] * p[indices[e + 1]] + data[e + 2] * p[indices[e + 2]]
             + data[e + 3] * p[indices[e + 3]])
        value += -s if minus else s
        e += 4
    while e < end:
        s = data[e] * p[indices[e]]
        value += -s if minus else s
        e += 1
    return value


@njit(nogil=True, cache=True, fastmath=True)
def multiply(indptr, indices, data, P, Q):
    """Write `A P` to Q for P (n, t), `A` with unit diagonal and these off-diagonal entries."""
    for i in range(P.shape[0]):
        for c in range(P.shape[1]):
            Q[i, c] = P[i, c]
        add_entries(indices, data, indptr[i], indptr[i + 1], P, i, Q, False)


@njit(nogil=True, cache=True, fastmath=True)
def _residual(indptr, indices, data, X, B, R):
    """Write `B - A X` to R, `A` as in `multiply`."""
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            R[i, c] = B[i, c] - X[i, c]
        add_entries(indices, data, indptr[i], indptr[i + 1], X, i, R, True)

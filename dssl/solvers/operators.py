"""The scaled and reordered form of a symmetric diagonally dominant matrix.

The system `R x = b` is solved as `A y = D^-1/2 b`, `x = D^-1/2 y`, with `D` the diagonal of `R` and
`A = D^-1/2 R D^-1/2`, rows in reverse Cuthill-McKee order. `A` has a unit diagonal, so Jacobi preconditioning
is built in, every eigenvalue lies in [0, 2], and neighbors in the graph are neighbors in memory.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from ..base.errors import DataError, require
from ..base.types import MatrixLike
from .columns import FEW_ROWS

SINGULAR = 1e-13  # Rayleigh quotient below which a component has a null vector


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
        return self.energy < SINGULAR

    @cached_property
    def data32(self) -> np.ndarray:
        """Return the entries in float32."""
        return self.data.astype(np.float32)

    @staticmethod
    def stored_bytes(n: int, nnz: int) -> int:
        """Return the bytes of what `to_arrays` gives: five arrays of 8 bytes a row, one of 4; 8 + 4 an entry."""
        return 44 * n + 12 * nnz

    def enter(self, B: np.ndarray) -> np.ndarray:
        """Return right-hand sides (n, t) of `R` as right-hand sides of `A`, off the null space of a singular R."""
        ordered = B[self.order]
        self._project_null_of_R(ordered)
        ordered *= self.scale[:, None]
        return ordered

    def leave(self, Y: np.ndarray) -> np.ndarray:
        """Return solutions (n, t) of `A` as solutions of `R`, of minimum norm if R is singular."""
        Y = Y * self.scale[:, None]
        self._project_null_of_R(Y)
        X = np.empty_like(Y)
        X[self.order] = Y
        return X

    def _project_null_of_R(self, B: np.ndarray) -> None:
        """Remove the null space of R, whose vectors are `D^-1/2` times those of A, from B (n, t), in place."""
        if self.singular.any():
            null = self.near_null * self.scale
            null /= np.sqrt(np.bincount(self.component, null**2, len(self.energy)))[self.component]
            _project(null, self.component, self.singular, B)

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


def scaled_matrix(R: MatrixLike, vector: np.ndarray | None = None) -> ScaledMatrix:
    """Return the scaled form of a symmetric matrix that is diagonally dominant after a scaling of its columns.

    R : sparse matrix, shape (n, n); `L + ridge I`, `L_norm + ridge I`, or any symmetric matrix with
        `R_ii v_i >= sum_j |R_ij| v_j`.
    vector : the v > 0 of that inequality, shape (n,): ones for L (the default), the square root of the degrees
        for L_norm. Where it holds with equality on a whole component, v spans the null space there.
    """
    R = sp.csr_matrix(R, dtype=np.float64, copy=True)
    require(R.shape[0] == R.shape[1], f"the matrix has shape {R.shape}, expected a square one", error=DataError,
            why="a linear system needs as many equations as unknowns", fix="pass the Laplacian of the whole graph")
    R.sum_duplicates()
    R.eliminate_zeros()
    v = np.ones(R.shape[0]) if vector is None else np.asarray(vector, np.float64)
    diagonal = R.diagonal()
    _check_symmetric(R, diagonal)
    require(v.shape == (R.shape[0],) and bool(np.isfinite(v).all()) and bool((v > 0).all()),
            f"vector has shape {v.shape} and values from {v.min():g} to {v.max():g}, expected ({R.shape[0]},) and > 0",
            error=DataError, why="it scales the columns of the matrix",
            fix="for L_norm pass the square root of the degrees, 1 for an isolated vertex; for L pass none")
    scale = 1 / np.sqrt(diagonal)
    A = _scaled_off_diagonal(R, scale)
    del R
    order = reverse_cuthill_mckee(A, symmetric_mode=True).astype(np.int64)
    A = A[order]
    A.indices = inverse_permutation(order).astype(A.indices.dtype)[A.indices]
    A.has_sorted_indices = False
    A.sort_indices()
    scale = scale[order]
    component, near_null, image, energy = _near_null(A, v[order] / scale)
    return ScaledMatrix(order=order, scale=scale, indptr=A.indptr.astype(np.int64), indices=A.indices.astype(np.int32),
                        data=A.data, component=component, near_null=near_null, image=image, energy=energy)


def _scaled_off_diagonal(R: sp.csr_matrix, scale: np.ndarray) -> sp.csr_matrix:
    """Return `scale_i R_ij scale_j` without the diagonal and without entries that are rounded to zero."""
    row = np.repeat(np.arange(len(scale), dtype=R.indices.dtype), np.diff(R.indptr))
    data = scale[row] * R.data
    data *= scale[R.indices]
    kept = (row != R.indices) & (data != 0)
    indptr = np.concatenate([[0], np.cumsum(np.bincount(row[kept], minlength=len(scale)))])
    return sp.csr_matrix((data[kept], R.indices[kept], indptr.astype(R.indptr.dtype)), R.shape)


def _check_symmetric(R: sp.csr_matrix, diagonal: np.ndarray) -> None:
    require(bool(np.isfinite(R.data).all()), "the matrix has entries that are not finite", error=DataError,
            why="one such weight makes every solution invalid", fix="check the graph's weights for NaN and infinity")
    bad = diagonal <= 0
    require(not bad.any(), f"row {bad.argmax()} has diagonal {diagonal[bad.argmax()]:g} ({bad.sum()} such rows), "
            "expected > 0", error=DataError, why="an isolated vertex without a ridge has no equation",
            fix="add a ridge (1e-3 is usual), or drop isolated points")
    T = R.T.tocsr()
    if np.array_equal(T.indptr, R.indptr) and np.array_equal(T.indices, R.indices):
        worst = float(np.abs(R.data - T.data).max(initial=0.0))
    else:
        difference = abs(R - T)
        worst = float(difference.max()) if difference.nnz else 0.0
    require(worst <= 1e-10 * float(diagonal.max()), f"the matrix differs from its transpose by {worst:g}",
            error=DataError, why="conjugate gradients and the kernels need a symmetric matrix",
            fix="symmetrize the weights: W.maximum(W.T) or (W + W.T) / 2")


def _near_null(off: sp.csr_matrix, y: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return (component, near_null, image, energy) of `A = I + off`, for a positive y with `y >= |off| y`."""
    excess = float(((y - abs(off) @ y) / y).min())
    require(excess >= -1e-8, "the matrix is not diagonally dominant: in one row the other entries exceed the diagonal "
            f"by {-excess:.3g} of it", error=DataError,
            why="the solvers are for Laplacians of graphs with non-negative weights, with a ridge >= 0",
            fix="pass dssl.Laplacian(W).matrix(ridge); for L_norm also vector=the square root of the degrees")
    n_components, component = connected_components(off, directed=False)
    near_null = y / np.sqrt(np.bincount(component, y * y, n_components))[component]
    image = near_null + off @ near_null
    energy = np.bincount(component, near_null * image, n_components)
    # The image of a singular component is rounding, not a tiny ridge.
    return component.astype(np.int32), near_null, np.where(energy[component] < SINGULAR, 0.0, image), energy


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
def add_row(indptr, indices, data, i, P, Q, minus):
    """Add row i of the off-diagonal entries times P (n, t), or minus that, to row i of Q; four neighbors a pass."""
    e, end = indptr[i], indptr[i + 1]
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


@njit(nogil=True, cache=True, fastmath=True)
def multiply(indptr, indices, data, P, Q):
    """Write `A P` to Q for P (n, t), `A` with unit diagonal and these off-diagonal entries."""
    for i in range(P.shape[0]):
        for c in range(P.shape[1]):
            Q[i, c] = P[i, c]
        add_row(indptr, indices, data, i, P, Q, False)


@njit(nogil=True, cache=True, fastmath=True)
def _residual(indptr, indices, data, X, B, R):
    """Write `B - A X` to R, `A` as in `multiply`."""
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            R[i, c] = B[i, c] - X[i, c]
        add_row(indptr, indices, data, i, X, R, True)

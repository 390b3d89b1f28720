"""Deflation: the lowest eigenvectors of a matrix, computed once for all columns.

The clusters of a neighbor graph are a few dozen small eigenvalues, which make conjugate gradients slow. Deflation
solves their span exactly.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh

from ..storage.blocks import row_ranges
from .chebyshev import ChebyshevFilter
from .columns import column_norms, to_float32
from .gauss_seidel import GaussSeidel
from .method import PREPARED_SECONDS, scaled_to_one
from .operators import ScaledMatrix, multiply

MIN_VECTORS, MAX_VECTORS = 16, 96
ROWS = 1024  # of a product that stays in the cache until it is added
DEFLATION_COST = 65 * MIN_VECTORS  # iterations of one column that take as long as MIN_VECTORS vectors


@dataclass(frozen=True)
class Deflated(GaussSeidel):
    """A basis U (n, m) near the lowest eigenvectors of A off its near-null vectors, A U, and U'AU's diagonal.

    U is orthonormal but for its rounding to float32, and A U that of the rounded U, in float32 too. So the residual of
    a correction along a small eigenvalue, which is large, is known to the rounding of what the correction removes.
    `values` (m,) ascend.
    """

    U: np.ndarray
    AU: np.ndarray
    values: np.ndarray

    name = "deflated"
    description = "conjugate gradients with symmetric Gauss-Seidel, the lowest eigenvectors solved exactly"
    prepare_seconds = PREPARED_SECONDS

    @classmethod
    def prepare(cls, A: ScaledMatrix, n_columns: int, *, n_vectors: int | None = None,
                random_state: int = 0) -> "Deflated":
        return deflation_basis(A, deflated_vectors(A.n, n_columns, n_vectors), random_state=random_state)

    def deflate(self, X: np.ndarray, R: np.ndarray, active: np.ndarray) -> None:
        """Correct active columns of X and of the residual R (n, t) so that R is orthogonal to U (Galerkin)."""
        norms = column_norms(R, np.ones(len(R)))
        along, scale, rows = np.zeros((len(self.values), R.shape[1])), scaled_to_one(norms), row_ranges(len(X), ROWS)
        for start, stop in rows:
            along += self.U[start:stop].T @ to_float32(R[start:stop], scale)
        along *= active / self.values[:, None]
        along32 = along.astype(np.float32)
        along *= norms
        for start, stop in rows:
            X[start:stop] += self.U[start:stop].astype(np.float64) @ along
            R[start:stop] -= (self.AU[start:stop] @ along32) * norms

    @classmethod
    def work(cls, A: ScaledMatrix) -> tuple[float, float]:
        """Return the entries of `MIN_VECTORS` vectors, and of an iteration."""
        iteration = GaussSeidel(A).entries()[1]
        return DEFLATION_COST * iteration, iteration

    def entries(self) -> tuple[float, float]:
        return self.work(self.A)

    @property
    def attributes(self) -> dict[str, int]:
        return {"n_vectors": self.U.shape[1]}

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {"U": self.U, "AU": self.AU, "values": self.values}

    @classmethod
    def from_arrays(cls, A: ScaledMatrix, arrays: dict[str, np.ndarray]) -> "Deflated":
        return cls(A, arrays["U"], arrays["AU"], arrays["values"])

    @classmethod
    def prepare_bytes(cls, n: int, nnz: int, n_columns: int) -> float:
        """Five blocks in float32 for the filter, or three in float64 at the end."""
        m = deflated_vectors(n, n_columns)
        return n * max(20 * basis_width(m), 24 * m)

    @classmethod
    def stored_bytes(cls, n: int, nnz: int, n_columns: int) -> int:
        return 8 * n * deflated_vectors(n, n_columns)


def _ritz(A: ScaledMatrix, V: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the Ritz vectors of A in the span of V (n, m), orthonormal to the precision of V, and their values."""
    AV = np.empty_like(V)
    multiply(A.indptr, A.indices, A.data_like(V), V, AV)
    overlap, energy = (V.T @ V).astype(np.float64), (V.T @ AV).astype(np.float64)
    scale = 1 / np.sqrt(np.maximum(overlap.diagonal(), 1e-300))
    values, vectors = eigh(scale[:, None] * overlap * scale)
    keep = values > 1e-6 * values[-1]
    T = scale[:, None] * vectors[:, keep] / np.sqrt(values[keep])
    values, vectors = eigh(T.T @ energy @ T)
    return V @ (T @ vectors).astype(V.dtype), values


def deflated_vectors(n: int, n_columns: int, n_vectors: int | None = None) -> int:
    """Return the number of deflated eigenvectors, which increases with the number of columns."""
    return min(n_vectors or int(np.clip(n_columns // 8, MIN_VECTORS, MAX_VECTORS)), max(1, n // 4))


def basis_width(m: int) -> int:
    """Return the width of the block for m eigenvectors."""
    return m + max(4, m // 8)


def deflation_basis(A: ScaledMatrix, m: int, *, random_state: int, degree: int = 14, rounds: int = 4) -> Deflated:
    """Return a basis of about the m lowest eigenvectors, by Chebyshev-filtered subspace iteration on a block.

    It costs about as much as `degree * rounds` iterations of conjugate gradients on m columns. The basis need not be
    exact. It excludes the near-null vector of each component (`ScaledMatrix.correct_components`). Memory: five blocks
    (n, m) float32, or three float64.

    References
    ----------
    Zhou, Saad, "A Chebyshev-Davidson algorithm for large symmetric eigenproblems", SIMAX 2007.
    """
    width = min(basis_width(m), A.n - len(A.energy))  # the near-null vectors take one dimension a component
    if width == 0:
        return Deflated(A, np.empty((A.n, 0), np.float32), np.empty((A.n, 0), np.float32), np.empty(0))
    V = np.random.default_rng([random_state, m]).standard_normal((A.n, width), dtype=np.float32)
    ones, low = np.ones(A.n, np.float32), 0.5
    for _ in range(rounds):
        V = ChebyshevFilter.of(ones, A.indptr, A.indices, A.data32, low, 2.0, degree)(V)
        A.project(V)
        V, values = _ritz(A, V)
        low = float(np.clip(values[-1], 1e-3, 1.0))
    U = V[:, :m].astype(np.float64)
    del V
    A.project(U)
    U, values = _ritz(A, U)
    rounded = U.astype(np.float32)
    U[:] = rounded
    AU = np.empty_like(U)
    multiply(A.indptr, A.indices, A.data, U, AU)
    return Deflated(A, rounded, AU.astype(np.float32), values)

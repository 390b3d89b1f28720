"""Chebyshev polynomials of a matrix: a filter that amplifies its lowest eigenvectors, and functions of a Laplacian.

    sum over functions f and columns j of f(L) e_j coef[f, j]  =  sum over k of Q_k G_k  =  sum over i of T_i(L) E D_i

The block Lanczos process gives the coefficients G_k (t, c) in its basis Q (`krylov.py`). As every Q_k is a polynomial
in L of degree k with matrices for coefficients, the sum is one of Chebyshev polynomials T_i of an interval of all
eigenvalues, with coefficients D_i (t, c) that follow from T alone. Clenshaw's recurrence takes one product with L a
degree and column of the result: for t labeled points of c classes c columns instead of t, in float64, since the
coefficients cancel.

References
----------
Clenshaw, "A note on the summation of Chebyshev series", Mathematics of Computation 1955.
"""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.linalg import eigh_tridiagonal

from .block_tridiagonal import BlockTridiagonal
from .lanczos import SingularMatrix
from .operators import add_entries

BOUND_COLUMNS, BOUND_STEPS = 2, 16  # of the Lanczos process that bounds the eigenvalues
BOUND_STREAM = 15  # of the seed


@dataclass(frozen=True)
class ChebyshevFilter:
    """`T_d((c - A) / h)` with c and h the center and half length of [low, high]: within [-1, 1] there, larger below.

    diagonal (n,), indptr (n + 1,), indices, data (nnz,): `2 (c - A) / h`, of the precision of the blocks.
    """

    diagonal: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    low: float
    high: float
    degree: int

    @classmethod
    def of(cls, diagonal: np.ndarray, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray, low: float,
           high: float, degree: int) -> "ChebyshevFilter":
        """Return the filter of a matrix with this diagonal and these off-diagonal entries."""
        scale, dtype = -4 / (high - low), data.dtype.type
        return cls((diagonal - dtype((high + low) / 2)) * dtype(scale), indptr, indices, data * dtype(scale), low,
                   high, degree)

    def __call__(self, V: np.ndarray) -> np.ndarray:
        """Return the polynomial applied to V (n, t); two arrays of its size and dtype."""
        before, now = V.copy(), np.zeros_like(V)
        step_of(self.indptr, self.indices, self.data, self.diagonal, before, now)
        now *= V.dtype.type(0.5)
        for _ in range(self.degree - 1):
            step_of(self.indptr, self.indices, self.data, self.diagonal, now, before)
            before, now = now, before
        return now

    def at(self, x: float) -> float:
        """Return the polynomial at x <= high."""
        y = ((self.high + self.low) / 2 - x) / ((self.high - self.low) / 2)
        return math.cosh(self.degree * math.acosh(y)) if y > 1 else math.cos(self.degree * math.acos(max(y, -1)))


def filter_degree(low: float, high: float, gain: float) -> int:
    """Return the degree at which the polynomial for [low, high] is at least `gain` at 0."""
    return math.ceil(math.acosh(gain) / math.acosh((high + low) / (high - low)))


@njit(nogil=True, cache=True, fastmath=True)
def step_of(indptr, indices, data, diagonal, V, U):
    """Replace U by `A V - U` in one pass: with `A = 2 (c - M) / h` the next polynomial after those in U and V."""
    for i in range(V.shape[0]):
        for c in range(V.shape[1]):
            U[i, c] = diagonal[i] * V[i, c] - U[i, c]
        add_entries(indices, data, indptr[i], indptr[i + 1], V, i, U, False)


def largest_eigenvalue_bound(A: SingularMatrix, random_state: int) -> float:
    """Return an upper bound of the eigenvalues of A, which holds but for columns that miss an eigenvector by chance.

    It is the largest of the Ritz values of random columns plus its residual, at most twice the largest diagonal entry.

    References
    ----------
    Zhou, Li, "Bounding the spectrum of large Hermitian matrices", Linear Algebra and its Applications 2011.
    """
    V = np.random.default_rng([random_state, BOUND_STREAM]).standard_normal((A.n, BOUND_COLUMNS), dtype=np.float32)
    A.project(V)
    V /= np.maximum(np.linalg.norm(V, axis=0), np.finfo(np.float32).tiny)
    steps = [(alpha.copy(), beta) for _, (_, alpha, beta) in zip(range(BOUND_STEPS), A.basis(V), strict=False)]
    bounds = []
    for alpha, beta in zip(np.array([a for a, _ in steps]).T, np.array([b for _, b in steps]).T, strict=True):
        values, vectors = eigh_tridiagonal(alpha, beta[:-1])
        bounds.append((values + beta[-1] * np.abs(vectors[-1])).max())
    return min(max(bounds), 2 * float(A.diagonal.max())) or 1.0


def chebyshev_coefficients(T: BlockTridiagonal, weights: np.ndarray, high: float) -> np.ndarray:
    """Return D (k, t, c) with `sum T_i(2 A / high - I) E D_i = sum Q_k weights[k]`, for weights (k, t, c).

    Off the null space. By Clenshaw's recurrence in the basis Q, with polynomials for values; 3 k^2 t^2 c flops.
    """
    k, c = len(weights), weights.shape[2]
    if not k:  # all columns lie in the null space
        return weights
    inverses = np.linalg.pinv(T.beta)
    now, after = np.zeros((2, k + 1, T.alpha.shape[1], c))
    for step in range(k - 1, -1, -1):
        value = np.zeros_like(now)
        value[0] = weights[step]
        degrees = slice(0, k - step + 1)
        if step < k - 1:
            part = inverses[step + 1] @ now[degrees]
            value[degrees] += _times_x(part, high) - T.alpha[step] @ part
        if step < k - 2:
            value[degrees] -= T.beta[step + 1].T @ (inverses[step + 2] @ after[degrees])
        now, after = value, now
    return inverses[0] @ now[:k]


def _times_x(D: np.ndarray, high: float) -> np.ndarray:
    """Return the Chebyshev coefficients of x p(x) on [0, high] from those of p, D (k, ...), of which the last are 0."""
    product = np.zeros_like(D)
    product[1:] += D[:-1] / 2
    product[:-1] += D[1:] / 2
    product[1] += D[0] / 2
    return high / 2 * (product + D)


def rounding(D: np.ndarray) -> np.ndarray:
    """Return the size (c,) of rounding errors of `chebyshev_sum` with coefficients D (k, t, c)."""
    return np.finfo(float).eps * np.abs(D).max(axis=1, initial=0.0).sum(axis=0)


def chebyshev_sum(A: SingularMatrix, columns: np.ndarray, D: np.ndarray, high: float) -> np.ndarray:
    """Return the sum of `T_i(2 A / high - I) E D_i` off the null space, (n, c), for unit columns (t,) and D (k, t, c).

    Memory: three arrays of n x c float64, and the matrix in float64.
    """
    if not len(D):
        return np.zeros((A.n, D.shape[2]))
    data, diagonal = A.data.astype(np.float64) * (4 / high), (A.diagonal.astype(np.float64) - high / 2) * (4 / high)
    V, U = np.zeros((A.n, D.shape[2])), np.zeros((A.n, D.shape[2]))
    for degree in range(len(D) - 1, -1, -1):
        last = U if degree else U.copy()
        step_of(A.indptr, A.indices, data, diagonal, V, U)
        U[columns] += D[degree] if degree else 2 * D[degree]
        V, U = U, V
    total: np.ndarray = (V - last) / 2
    A.project(total)
    return total

"""Linear combinations of functions of a Laplacian on a few columns, by one polynomial a column of the result.

    sum over functions f and columns j of f(L) e_j coef[f, j]  =  sum over k of T_k(L) E g_k

with T_k the Chebyshev polynomials of the interval of the nonzero eigenvalues, and g_k (t, c) the coefficients of all f
times `coef`. Clenshaw's recurrence takes one product with L a degree and column of the result: for t labeled points of
c classes c columns instead of t.
"""

from dataclasses import dataclass

import numpy as np
from scipy.fft import dct

from .lanczos import Functions, Krylov, SingularMatrix, add_null, advance, multiply_step, normalize

NODES = 4096  # of the interpolation; four times the largest degree


@dataclass(frozen=True)
class Interval:
    """An interval [low, high] of the nonzero eigenvalues in the first pass.

    scale (m,) : the minimum over columns of the largest entry of each function off the null space.
    """

    low: float
    high: float
    scale: np.ndarray

    @classmethod
    def of(cls, A: SingularMatrix, processes: list[Krylov]) -> "Interval":
        """Return the interval of blocks of columns; the largest eigenvalue is at most twice the largest diagonal."""
        high = 2 * float(A.diagonal.max()) or 1.0
        seen = np.concatenate([process.steps > 0 for process in processes])
        if not seen.any():
            return cls(high / 2, high, np.ones(len(processes[0].largest)))
        scale = np.concatenate([process.largest for process in processes], axis=1)[:, seen].min(axis=1)
        return cls(min(min(float(process.lowest.min()) for process in processes), high / 2), high, scale)

    @property
    def center(self) -> float:
        return (self.high + self.low) / 2

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2


def polynomials(functions: Functions, coef: np.ndarray, interval: Interval, tol: float) -> np.ndarray | None:
    """Return the Chebyshev coefficients (m, degree + 1), the first halved; None if the degree is too large.

    The truncated terms are at most `tol` in norm, relative to the largest entry as `coef` (m, t, c) weights functions.
    """
    x = interval.center + interval.half * np.cos(np.pi * (np.arange(NODES) + 0.5) / NODES)
    coefficients = dct(functions.of(x), type=2, axis=1) / NODES
    weight = np.abs(coef).max(axis=(1, 2), initial=0.0)
    tails = (weight[:, None] * np.abs(coefficients))[:, ::-1].cumsum(axis=1)[:, ::-1].max(axis=0)
    degrees = np.flatnonzero(tails <= tol * (weight * interval.scale).max(initial=0.0))
    if not len(degrees) or degrees[0] > NODES // 4:
        return None
    coefficients[:, 0] /= 2
    return coefficients[:, :max(int(degrees[0]), 2)]


def combined_by_polynomial(A: SingularMatrix, columns: np.ndarray, functions: Functions, interval: Interval,
                           polynomial: np.ndarray, coef: np.ndarray) -> np.ndarray:
    """Return the sum over functions and columns (t,) of `f(A) e_j coef[f, j]`, (n, c) float64, for coef (m, t, c).

    Memory: three arrays of n x c float32, and the result.
    """
    c = coef.shape[2]
    g = np.tensordot(polynomial, coef, (0, 0)).astype(np.float32)  # (degree + 1, t, c)
    data, diagonal = A.data * np.float32(2 / interval.half), A.diagonal - np.float32(interval.center)
    diagonal *= np.float32(2 / interval.half)
    V, U = np.zeros((A.n, c), np.float32), np.zeros((A.n, c), np.float32)
    ones, zeros, dots = np.ones(c, np.float32), np.zeros(c, np.float32), np.empty(c)
    inner = np.empty((A.n_components, c))
    for k in range(len(g) - 1, -1, -1):
        last = U if k else U.copy()
        multiply_step(A.indptr, A.indices, data, diagonal, V, U, ones, dots)
        np.add.at(U, columns, g[k] if k else 2 * g[k])
        # Polynomials grow outside of the interval, so each step removes the rounding errors in the null space.
        advance(A.null, A.component, V, U, zeros, dots, inner)
        normalize(A.null, A.component, U, inner, ones)
        V, U = U, V
    total = (V.astype(np.float64) - last) / 2
    add_null(A, columns, functions, coef, total)
    return total

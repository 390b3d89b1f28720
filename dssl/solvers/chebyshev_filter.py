"""The Chebyshev polynomial of a matrix that amplifies its lowest eigenvectors, applied to blocks of columns."""

import math
from dataclasses import dataclass

import numpy as np
from numba import njit

from .operators import add_row


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
        add_row(indptr, indices, data, i, V, U, False)

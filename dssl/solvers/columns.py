"""Operations on the columns of a block, one pass over memory each; a column's result does not depend on the others.

Sums run down the rows in one order, whatever the width of the block; those of float32 arrays are folded into
float64 every 256 rows.
"""

import numpy as np
from numba import njit


def to_float32(X: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the columns of X times `scale` (t,) in float32."""
    return np.multiply(X, scale, out=np.empty(X.shape, np.float32), casting="same_kind")


@njit(nogil=True, cache=True, fastmath=True)
def column_dots(X, Y):
    """Return the inner products (t,) float64 of the columns of X and Y (n, t)."""
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
def column_norms(X, weight):
    """Return the norms (t,) of the columns of `diag(weight) X`."""
    total = np.zeros(X.shape[1])
    for i in range(X.shape[0]):
        square = weight[i] * weight[i]
        for c in range(X.shape[1]):
            total[c] += square * X[i, c] * X[i, c]
    return np.sqrt(total)


@njit(nogil=True, cache=True, fastmath=True)
def add_columns(X, E, scale):
    """Add the columns of E times `scale` (t,) to those of X."""
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            X[i, c] += scale[c] * E[i, c]

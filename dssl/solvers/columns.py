"""Operations on the columns of a block, in one pass over memory each and independent of the other columns.

Sums run down the rows in one order, whatever the width of the block; those of float32 arrays are folded into
float64 every 256 rows.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import njit
from scipy.linalg import cho_factor

from ..base.errors import DataError, ParameterError, explain, require

CHUNK = 255  # rows between two foldings of float32 sums into float64, minus one
FEW_ROWS = 4096  # up to which NumPy works on columns as fast as compiled code is loaded


def to_float32(X: np.ndarray, scale: np.ndarray) -> np.ndarray:
    """Return the columns of X times `scale` (t,) in float32."""
    return np.multiply(X, scale, out=np.empty(X.shape, np.float32), casting="same_kind")


@njit(nogil=True, cache=True, inline="always")
def fold(i, n, part, total):
    """Move the sums `part` (t,) of rows up to i into the float64 `total`, every 256 rows and at the last of n."""
    if i & CHUNK == CHUNK or i == n - 1:
        for c in range(len(part)):
            total[c] += part[c]
            part[c] = 0


@njit(nogil=True, cache=True, fastmath=True)
def column_dots(X, Y):
    """Return the inner products (t,) float64 of the columns of X and Y (n, t)."""
    t = X.shape[1]
    total, part = np.zeros(t), np.zeros(t, X.dtype)
    for i in range(X.shape[0]):
        for c in range(t):
            part[c] += X[i, c] * Y[i, c]
        fold(i, X.shape[0], part, total)
    return total


def column_scale(B: np.ndarray) -> np.ndarray:
    """Return the largest absolute entries (t,) of columns (n, t), 1 for zeros, by which squares do not overflow."""
    largest = np.abs(B).max(axis=0, initial=0.0)
    return np.where((largest > 0) & np.isfinite(largest), largest, 1.0)


def column_norms(X: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return the norms (t,) of the columns of `diag(weight) X`."""
    if len(X) > FEW_ROWS:
        return _column_norms(X, weight)
    squares = (weight[:, None] * X).T.copy()  # each column is summed by itself
    squares *= squares
    return np.sqrt(squares.sum(axis=1))


@njit(nogil=True, cache=True, fastmath=True)
def _column_norms(X, weight):
    total = np.zeros(X.shape[1])
    for i in range(X.shape[0]):
        square = weight[i] * weight[i]
        for c in range(X.shape[1]):
            total[c] += square * X[i, c] * X[i, c]
    return np.sqrt(total)


def add_columns(X: np.ndarray, E: np.ndarray, scale: np.ndarray) -> None:
    """Add the columns of E times `scale` (t,) to those of X."""
    if len(X) > FEW_ROWS:
        _add_columns(X, E, scale)
    else:
        X += E * scale


@njit(nogil=True, cache=True, fastmath=True)
def _add_columns(X, E, scale):
    for i in range(X.shape[0]):
        for c in range(X.shape[1]):
            X[i, c] += scale[c] * E[i, c]


def put_columns(columns: np.ndarray, *pairs: tuple[np.ndarray, np.ndarray]) -> None:
    """Write some columns of the first of each pair of arrays, unless the second is the same array."""
    for whole, part in pairs:
        if part is whole:
            continue
        if len(whole) > FEW_ROWS:
            _put_columns(whole, columns, part)
        else:
            whole[:, columns] = part


@njit(nogil=True, cache=True)
def _put_columns(X, columns, part):
    for i in range(X.shape[0]):
        for c in range(len(columns)):
            X[i, columns[c]] = part[i, c]


def by_system(of: np.ndarray, like: np.ndarray, columns_of: Callable[[int, np.ndarray], np.ndarray]) -> np.ndarray:
    """Return columns (n, u) like `like`, of which column j belongs to system of[j].

    columns_of : (number of a system, its columns (u,) bool) -> these columns.
    """
    result = np.empty_like(like)
    for index in np.unique(of):
        members = of == index
        result[:, members] = columns_of(int(index), members)
    return result


def factor_raised(A: np.ndarray) -> Any:
    """Return the Cholesky factor of a positive semi-definite matrix, with the smallest sufficient jitter."""
    require(bool(np.isfinite(A).all()), f"a system of {len(A)} coefficients holds NaN or infinite values",
            error=DataError, why="the kernel is NaN or infinite at some points",
            fix="drop or impute points that are not finite; scale the features if the kernel overflows, in float32 "
                "from about 1e19 on")
    largest = float(np.abs(np.diagonal(A)).max(initial=0.0))
    for share in (0.0, 1e-15, 1e-13, 1e-11, 1e-9, 1e-7, 1e-6):
        try:
            return cho_factor(A + share * largest * np.eye(len(A)) if share else A, check_finite=False)
        except np.linalg.LinAlgError:
            continue
    raise ParameterError(explain(
        f"a system of {len(A)} coefficients is not positive definite",
        why="the penalties are too small for the precision of the kernel blocks",
        fix="raise gamma_A, use whitening, or precision float64"))

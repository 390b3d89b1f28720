"""Warm starts for a graph that grew: the previous solution, extended to the new vertices."""


import numpy as np
import scipy.sparse as sp

from ..base.errors import require
from .columns import column_dots
from .operators import ScaledMatrix, multiply


def extended(values: np.ndarray, W: sp.csr_array) -> np.ndarray:
    """Return columns (n, c) with `values` (m, c) on the first m vertices, extended by weighted means of neighbors.

    The other vertices follow in the order of their distance; unreachable vertices are 0.
    W : sparse weights (n, n), symmetric, >= 0.
    """
    m, n = len(values), W.shape[0]
    require(m <= n, f"values of {m} vertices, and a graph of {n}", why="new vertices come last",
            fix="start without the previous values if vertices were removed")
    return _extended(values, sp.csr_array(W)[m:])


def extended_solution(A: ScaledMatrix, solution: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return a start (n, t) for R from the previous solution (m, t), which is overwritten.

    vector (m,) : the previous `ScaledMatrix.vector`. Memory: one array (n, t) beside the solution.
    """
    solution /= vector[:, None]
    columns = _extended(solution, A.weights_of(len(solution)))
    columns *= A.vector[:, None]
    return columns


def _extended(values: np.ndarray, rows: sp.csr_array) -> np.ndarray:
    """Return `extended`, from the weights (n - m, n) of the other vertices."""
    m, n = len(values), rows.shape[1]
    columns = np.zeros((n, values.shape[1]))
    columns[:m] = values
    pending, known = np.arange(n - m), np.zeros(n)
    known[:m] = 1
    while len(pending):
        weight = rows[pending] @ known
        adjacent = pending[weight > 0]
        if not len(adjacent):
            break
        columns[m + adjacent] = rows[adjacent] @ columns / weight[weight > 0, None]
        known[m + adjacent] = 1
        pending = pending[weight == 0]
    return columns


def start_arrays(start: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the shared array `start` of a task that solves, if there is one."""
    return {} if start is None else {"start": start}


def scaled_start(A: ScaledMatrix, B: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the start X (n, t) for `A X = B`: `x'b / x'Ax` times x, the best multiple in the norm of A.

    x is first made orthogonal in that norm to the near-null vectors, along which a small error is a large residual.
    start : (n, t) in the rows and scaling of R.
    """
    X = start[A.order] / A.scale[:, None]
    A.project(X)
    R = np.empty_like(X)
    multiply(A.indptr, A.indices, A.data, X, R)
    R *= -1
    A.correct_components(X, R, np.ones(X.shape[1], bool))
    along, energy = column_dots(X, B), -column_dots(X, R)
    usable = np.isfinite(along) & np.isfinite(energy) & (energy > 0)
    X[:, ~usable] = 0  # or NaN would remain
    X *= np.divide(along, energy, out=np.zeros_like(along), where=usable)
    return X

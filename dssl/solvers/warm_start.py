"""Where a solve of a graph that grew begins: at the solution of the graph before, carried to the new vertices."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from ..base.errors import require
from .columns import column_dots
from .operators import ScaledMatrix, multiply


def extended(values: np.ndarray, W: Any) -> np.ndarray:
    """Return columns (n, c) that are `values` (m, c) on the first m vertices, and on others the mean of neighbors.

    The mean is weighted, of those neighbors that have a value; a vertex whose neighbors have none follows when one of
    them does. What no path joins to the first m vertices is 0.

    Parameters
    ----------
    values : (m, c), m <= n. Of a normalized Laplacian they are divided by the roots of the degrees beforehand, and what
        is returned is multiplied by those of the new graph (`carried`).
    W : sparse weights (n, n), symmetric, >= 0.
    """
    m, n = len(values), W.shape[0]
    require(m <= n, f"values of {m} vertices, and a graph of {n}", why="new vertices come after those before",
            fix="begin anew where vertices were removed")
    return _extended(values, sp.csr_array(W)[m:])


def carried(A: ScaledMatrix, solution: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """Return where solving for R begins, (n, t), from the solution (m, t) of before the graph grew, overwritten.

    vector (m,) : `ScaledMatrix.vector` of before. Memory: one array (n, t) beside the solution.
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
        met = pending[weight > 0]
        if not len(met):
            break
        columns[m + met] = rows[met] @ columns / weight[weight > 0, None]
        known[m + met] = 1
        pending = pending[weight == 0]
    return columns


def begins_at(start: np.ndarray | None) -> dict[str, np.ndarray]:
    """Return the named array that a task which solves is given beside others: `start`, where there is one."""
    return {} if start is None else {"start": start}


def begun(A: ScaledMatrix, B: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Return the columns X (n, t) at which solving `A X = B` begins: the best multiples of those of `start`.

    Of all `a x` that for a = x'b / x'Ax is nearest to the solution in the norm of A, so a start of the wrong size does
    no harm, and a wrong one hardly any. x is first made orthogonal in that norm to the near-null vectors, along which a
    small error is a large residual, and which solving begins with (`ScaledMatrix.correct_components`).

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
    X[:, ~usable] = 0  # or what is no number would stay
    X *= np.divide(along, energy, out=np.zeros_like(along), where=usable)
    return X

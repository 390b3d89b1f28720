"""Residuals of solutions so large that rounding counts.

A solver's residual is that of the scaled matrix, which is R but for the rounding of its entries. A solution x that is
large beside its right-hand side, as with a tiny ridge, may so leave a larger residual with R itself.
"""

import numpy as np
import scipy.sparse as sp

from ..base.types import MatrixLike
from .columns import column_norms, column_scale
from .scaling import scaled_matrix
from .solution import Solution

SHARE = 0.1  # of the goal, what rounding may add to a residual without being looked at


def look_at_rounding(R: MatrixLike, B: np.ndarray, vector: np.ndarray | None, solution: Solution, tol: float) -> None:
    """Compute the residuals of `R X = B` (n, t) again where they may be rounding, in place.

    vector : see `scaled_matrix`. The part in the null space of R is left out, as solvers do.
    """
    R = sp.csr_array(R, dtype=np.float64)
    unit, ones = column_scale(B), np.ones(len(B))
    given = column_norms(B / unit, ones)
    size = column_norms(solution.value / unit, R.diagonal())
    rounded = np.flatnonzero(2 * np.finfo(float).eps * size > SHARE * tol * given)
    if not len(rounded):
        return
    A = scaled_matrix(R, vector)
    X, B = solution.value[:, rounded] / unit[rounded], B[:, rounded] / unit[rounded]
    left, whole = (column_norms(A.off_null(columns), ones) for columns in (B - R @ X, B))
    residuals = np.divide(left, whole, out=np.zeros_like(left), where=whole > 0)
    solution.residuals[rounded] = np.maximum(solution.residuals[rounded], residuals)
    solution.converged[rounded] = solution.residuals[rounded] <= tol

"""The solution of a system of equations with its evidence, column by column."""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..base.digest import JsonObject
from ..base.errors import NotConverged, explain
from ..base.types import MatrixLike
from .cholesky import Cholesky
from .columns import column_norms, column_scale
from .scaling import scaled_matrix
from .solver_params import SolverParams

ROUNDING_SHARE = 0.1  # of the goal, what rounding may add to a residual without being looked at


@dataclass(frozen=True)
class Solution:
    """The solution of a system with its evidence, column by column.

    Parameters
    ----------
    value : ndarray, shape (n, t)
        The solution.
    residuals : ndarray, shape (t,)
        The relative residual of each column.
    converged : ndarray of bool, shape (t,)
        Whether each column meets the tolerance.
    iterations : ndarray of int, shape (t,)
        The iterations of each column.
    """

    value: np.ndarray
    residuals: np.ndarray
    converged: np.ndarray
    iterations: np.ndarray

    def require_converged(self, params: SolverParams) -> "Solution":
        """Return self, or raise NotConverged with the worst column and a hint."""
        if not self.converged.all():
            worst = int(np.argmax(self.residuals))
            other = "" if params.method == Cholesky.name else f"choose method='{Cholesky.name}', "
            more = f"raise max_iter, {other}" if self.iterations[worst] >= params.max_iter else other
            raise NotConverged(explain(
                f"{int((~self.converged).sum())} of {len(self.converged)} columns did not converge: column {worst} "
                f"ended at relative residual {self.residuals[worst]:.2e} after {self.iterations[worst]} iterations, "
                f"tolerance {params.tol:.0e}",
                why="wrong columns of a kernel cannot be recognized later",
                fix=f"raise the ridge, {more}or loosen the tolerance",
            ))
        return self

    def described(self, method: str) -> JsonObject:
        """Return the method with the most iterations of a column and the worst residual; JSON."""
        return {"method": method, "iterations": int(self.iterations.max()), "residual": float(self.residuals.max())}


def look_at_rounding(R: MatrixLike, B: np.ndarray, vector: np.ndarray | None, solution: Solution, tol: float) -> None:
    """Compute the residuals of `R X = B` (n, t) again where they may be rounding, in place.

    A solver's residual is that of the scaled matrix, which is R but for the rounding of its entries. A solution that is
    large beside its right-hand side, as with a tiny ridge, may so leave a larger residual with R itself.

    vector : see `scaled_matrix`. The part in the null space of R is left out, as solvers do.
    """
    R = sp.csr_array(R, dtype=np.float64)
    unit, ones = column_scale(B), np.ones(len(B))
    given = column_norms(B / unit, ones)
    size = column_norms(solution.value / unit, R.diagonal())
    rounded = np.flatnonzero(2 * np.finfo(float).eps * size > ROUNDING_SHARE * tol * given)
    if not len(rounded):
        return
    A = scaled_matrix(R, vector)
    X, B = solution.value[:, rounded] / unit[rounded], B[:, rounded] / unit[rounded]
    left, whole = (column_norms(A.off_null(columns), ones) for columns in (B - R @ X, B))
    residuals = np.divide(left, whole, out=np.zeros_like(left), where=whole > 0)
    solution.residuals[rounded] = np.maximum(solution.residuals[rounded], residuals)
    solution.converged[rounded] = solution.residuals[rounded] <= tol

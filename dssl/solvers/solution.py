"""The solution of a system of equations with its evidence, column by column."""

from dataclasses import dataclass

import numpy as np

from ..base.digest import JsonObject
from ..base.errors import NotConverged, explain
from .cholesky import Cholesky
from .solver_params import SolverParams


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

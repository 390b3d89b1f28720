"""How systems are solved: the parameters, without what solves."""

from dataclasses import dataclass
from numbers import Real
from typing import Literal

import numpy as np

from ..base.errors import require

METHODS = ("auto", "jacobi", "deflated", "amg", "direct")


@dataclass(frozen=True, kw_only=True)
class SolverParams:
    """How to solve.

    Parameters
    ----------
    method : "auto", "jacobi", "deflated", "amg" or "direct"
        Jacobi; Jacobi with the lowest eigenvectors solved exactly; multigrid; a factor; auto takes what costs least.
    tolerance : float
        Relative residual `||b - R x|| / ||b||` of every column.
    max_iterations : int
        Of conjugate gradients, per column, over all corrections.
    n_vectors : int or None
        Eigenvectors to deflate; None follows the number of columns to solve.
    block_columns : int
        Columns solved side by side.
    random_state : int
        Of the vectors that eigenvectors are sought from.
    """

    method: Literal["auto", "jacobi", "deflated", "amg", "direct"] = "auto"
    tolerance: float = 1e-6
    max_iterations: int = 3000
    n_vectors: int | None = None
    block_columns: int = 64
    random_state: int = 0

    def __post_init__(self) -> None:
        require(self.method in METHODS, f"method={self.method!r} is not a solver",
                why="the solver decides how long a column takes", fix=f"choose one of {', '.join(METHODS)}")
        require(isinstance(self.tolerance, Real) and 1e-14 <= self.tolerance < 1,
                f"tolerance={self.tolerance!r}, expected 1e-14 <= tolerance < 1",
                why="it is a relative residual in float64", fix="use 1e-6; kernels need no more")
        require(self.max_iterations >= 1, f"max_iterations={self.max_iterations}, expected >= 1",
                why="no iteration gives no answer", fix="leave it at 3000")
        require(self.block_columns >= 1, f"block_columns={self.block_columns}, expected >= 1",
                why="columns are solved in blocks", fix="leave it at 64")
        require(self.n_vectors is None or self.n_vectors >= 1, f"n_vectors={self.n_vectors}, expected >= 1 or None",
                why="it is the number of eigenvectors that are solved exactly", fix="leave it unset")


@dataclass(frozen=True)
class Stop:
    """When a column is done: residual norm at most `tolerance` times that of its right-hand side."""

    tolerance: float = 1e-6
    max_iterations: int = 500

    def __post_init__(self) -> None:
        require(0 < self.tolerance < 1, f"tolerance={self.tolerance}, expected between 0 and 1",
                why="it is the residual relative to the right-hand side", fix="use 1e-6")
        require(isinstance(self.max_iterations, (int, np.integer)) and self.max_iterations >= 1,
                f"max_iterations={self.max_iterations!r}, expected >= 1", why="a column takes at least one step",
                fix="use 500")

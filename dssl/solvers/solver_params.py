"""How systems are solved: the registry of solvers, and the parameters that name one of them."""

from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated

import numpy as np

from ..base.errors import require
from ..base.plugins import Registry
from .amg import Multigrid
from .cholesky import Cholesky
from .deflation import Deflated
from .gauss_seidel import GaussSeidel
from .method import Direct, SolverMethod

AUTO = "auto"  # in place of a solver's name: whichever takes the least work
SOLVERS = Registry[SolverMethod]("solver", GaussSeidel, Deflated, Multigrid, Cholesky, Direct, also=(AUTO,))


@dataclass(frozen=True, kw_only=True)
class SolverParams:
    """How to solve.

    Parameters
    ----------
    method : str
        gauss_seidel, a symmetric preconditioner; deflated, that with the lowest eigenvectors solved exactly; amg,
        multigrid;
        cholesky, an approximate factor as a preconditioner; direct, a factor; a solver that a plugin registers; or
        auto, which takes what costs least.
    tol : float
        Relative residual `||b - R x|| / ||b||` of every column.
    max_iter : int
        Of conjugate gradients, per column, over all corrections.
    n_vectors : int or None
        Eigenvectors to deflate; None follows the number of columns to solve.
    block_columns : int
        Columns solved side by side.
    random_state : int
        Of the vectors that eigenvectors are sought from.

    Raises
    ------
    ParameterError
        A value is out of range, or no solver has this name.

    Examples
    --------
    >>> from dssl import SolverParams
    >>> SolverParams(method="cholesky", tol=1e-8).max_iter
    3000
    """

    method: Annotated[str, SOLVERS] = AUTO
    tol: float = 1e-6
    max_iter: int = 3000
    n_vectors: int | None = None
    block_columns: int = 64
    random_state: int = 0

    def __post_init__(self) -> None:
        if self.method != AUTO:
            SOLVERS.named(self.method, "method", 'leave it at "auto"')
        require(isinstance(self.tol, Real) and 1e-14 <= self.tol < 1,
                f"tol={self.tol!r}, expected 1e-14 <= tolerance < 1",
                why="it is a relative residual in float64", fix="use 1e-6; kernels need no more")
        require(isinstance(self.max_iter, Integral) and self.max_iter is not True and self.max_iter >= 1,
                f"max_iter={self.max_iter!r}, expected a whole number >= 1",
                why="no iteration gives no answer", fix="leave it at 3000")
        require(self.block_columns >= 1, f"block_columns={self.block_columns}, expected >= 1",
                why="columns are solved in blocks", fix="leave it at 64")
        require(self.n_vectors is None or self.n_vectors >= 1, f"n_vectors={self.n_vectors}, expected >= 1 or None",
                why="it is the number of eigenvectors that are solved exactly", fix="leave it unset")


@dataclass(frozen=True)
class Stop:
    """When a column is done: residual norm at most `tol` times that of its right-hand side."""

    tol: float = 1e-6
    max_iter: int = 500

    def __post_init__(self) -> None:
        require(0 < self.tol < 1, f"tol={self.tol}, expected between 0 and 1",
                why="it is the residual relative to the right-hand side", fix="use 1e-6")
        require(isinstance(self.max_iter, (int, np.integer)) and self.max_iter >= 1,
                f"max_iter={self.max_iter!r}, expected >= 1", why="a column takes at least one step",
                fix="use 500")

"""How systems are solved: the registry of solvers, and the parameters that name one of them.

How many iterations Jacobi's method will take is known before it takes them, which decides for or against it.
"""

import math
from dataclasses import dataclass
from numbers import Real
from typing import Annotated

import numpy as np

from ..base.errors import require
from ..base.plugins import Registry
from .amg import Multigrid
from .cholesky import Cholesky
from .columns import to_float32
from .deflation import Deflated
from .method import DIGITS, Direct, Jacobi, SolverMethod
from .operators import ScaledMatrix
from .pcg import conjugate_gradients

AUTO = "auto"  # in place of a solver's name: whichever takes the least work
SOLVERS = Registry[SolverMethod]("solver", Jacobi, Deflated, Multigrid, Cholesky, Direct, also=(AUTO,))
FIRST_ITERATIONS = 3  # of Jacobi's method on one column, twice, from which the rest is extrapolated
# Of the extrapolated iterations, and of their upper bound: what loses little against the faster of Jacobi's method and
# a factor (`tests/benchmarks/solver_choice.py`).
OF_EXTRAPOLATED, OF_BOUND = 1.3, 0.92


@dataclass(frozen=True, kw_only=True)
class SolverParams:
    """How to solve.

    Parameters
    ----------
    method : str
        jacobi; deflated, that with the lowest eigenvectors solved exactly; amg, multigrid;
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
        require(self.max_iter >= 1, f"max_iter={self.max_iter}, expected >= 1",
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


def few_iterations(A: ScaledMatrix, n_columns: int) -> float:
    """Return the iterations of Jacobi's method that take as long as an approximate factor and its iterations.

    Measured: 71 to 176 for one column, 44 to 124 for ten and 43 to 86 for 64 on plane and curved graphs of 4 to 34
    neighbors, 110 to 408, 62 to 184 and 45 to 110 on those of clusters and clouds in many dimensions.
    """
    return 50 + min(5 * len(A.data) / A.n, 300) / min(max(n_columns, 1), 64) ** 0.25


def expected_iterations(A: ScaledMatrix, B: np.ndarray, params: SolverParams, few: float) -> float:
    """Return the iterations that Jacobi's method is expected to take for a column such as those of B (n, t).

    Nearly the upper bound, if that is at most `few`: where it is so low, a column needs about as many. If not, a few
    iterations for one column are extrapolated, the columns of B added with random signs. They follow a few others, in
    which any residual falls fast because it spreads to the neighbors.
    """
    bound = OF_BOUND * max_iterations(A, params.tol)
    if bound <= few:
        return bound
    signs = np.random.default_rng([params.random_state, 1]).choice([-1.0, 1.0], B.shape[1])
    R = A.enter((B @ signs)[:, None])
    A.correct_components(np.zeros_like(R), R, np.ones(1, bool))
    for goal in (0.0, params.tol):  # the first residual has the unit of B, the second is relative to it
        norm = float(np.linalg.norm(R))
        if norm <= goal:
            return 0.0
        R = to_float32(R, np.full(1, 1 / norm))
        conjugate_gradients(A, R, np.full(1, DIGITS), np.full(1, FIRST_ITERATIONS))
    reduction = min(max(float(np.linalg.norm(R)), params.tol), 0.999)
    return min(bound, OF_EXTRAPOLATED * FIRST_ITERATIONS * math.log(params.tol) / math.log(reduction))


def max_iterations(A: ScaledMatrix, tol: float) -> float:
    """Return an upper bound of the iterations of Jacobi's method from the excess of the diagonal; inf without one.

    With the scaling y that makes A dominant, every eigenvalue is at least the smallest (A y)_i / y_i.
    """
    y = A.near_null
    smallest = float(((y - abs(A.off_diagonal()) @ y) / y).min())
    return math.sqrt(2 / smallest) / 2 * math.log(2 / tol) if smallest > 0 else math.inf

"""How systems are solved: the registry of solvers, and the parameters that name one of them.

How many iterations Gauss-Seidel will take is known before it takes them, which decides for or against it.
"""

import math
from dataclasses import dataclass
from numbers import Integral, Real
from typing import Annotated

import numpy as np

from ..base.errors import require
from ..base.plugins import Registry
from .amg import Multigrid
from .cholesky import Cholesky
from .columns import column_scale, to_float32
from .deflation import Deflated
from .gauss_seidel import GaussSeidel, leave_split, split_gradients
from .method import DIGITS, Direct, SolverMethod
from .operators import ScaledMatrix

AUTO = "auto"  # in place of a solver's name: whichever takes the least work
SOLVERS = Registry[SolverMethod]("solver", GaussSeidel, Deflated, Multigrid, Cholesky, Direct, also=(AUTO,))
# What loses little against the faster of Gauss-Seidel and a factor (`tests/benchmarks/solver_choice.py`).
FIRST_ITERATIONS = 2  # of Gauss-Seidel on one column, from which the rest is extrapolated
STAGES = 4  # in which they are taken at most, each from the residual of the one before
CLOUD = 0.07  # spread of the entries from which on two stages are enough: a residual is everywhere then
FAST = 0.05  # the reduction by the first stage that may tell enough
TYPICAL_FACTOR, LARGEST_FACTOR = 2.5, 7  # how many times too few that stage promises
CLEARLY_FEWER, CLEARLY_MORE = 2.0, 1.2  # times few iterations, with which a later stage is the last
UNEVEN = 0.35  # mean over the rows of the sum of their squared entries, above which few edges have most of the weight
UNEVEN_FACTOR = 3  # how many times too few the stages promise there, since a residual falls fast along such edges
OF_BOUND = 0.55  # of the upper bound, what is needed where that is low
FACTOR_ITERATIONS = 36  # that take as long as all with a factor
SIDE_BY_SIDE = 8  # columns whose iterations take twice as long as those of one


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


def few_iterations(A: ScaledMatrix, n_columns: int) -> float:
    """Return the iterations of Gauss-Seidel that take as long as an approximate factor and its iterations.

    Those with a factor take as long as `FACTOR_ITERATIONS`, and its preparation as long as others, which `SIDE_BY_SIDE`
    columns share. It fills, and takes longer, where neighbors are far apart in the order of the rows.
    """
    preparation = min(len(A.data) / A.n * (2 + 60 * A.spread), 400)
    return FACTOR_ITERATIONS + preparation / (1 + (n_columns - 1) / SIDE_BY_SIDE)


def expected_iterations(A: ScaledMatrix, B: np.ndarray, params: SolverParams, few: float) -> float:
    """Return the iterations that Gauss-Seidel is expected to take for a column such as those of B (n, t).

    About half of the upper bound, if that is at most `few`: where it is so low, a column needs about as many. If not,
    two iterations for one column are extrapolated, the columns of B added with random signs. They follow two others,
    in which any residual falls fast because it spreads to the neighbors, unless these already tell enough; on
    surfaces, and where the weights are uneven, two more are taken as long as they promise about `few`. Uneven weights
    make each promise `UNEVEN_FACTOR` times as large.
    """
    bound = OF_BOUND * max_iterations(A, params.tol)
    if bound <= few:
        return bound
    signs = np.random.default_rng([params.random_state, 1]).choice([-1.0, 1.0], B.shape[1])
    column = (B @ signs)[:, None]
    R = A.enter(column / column_scale(column))
    A.correct_components(np.zeros_like(R), R, np.ones(1, bool))
    norm = float(np.linalg.norm(R))
    if norm == 0:
        return 0.0
    uneven = float(A.data @ A.data) > UNEVEN * A.n
    for stage in range(STAGES if uneven or A.spread < CLOUD else 2):
        R, promised = _begun(A, R, norm, params.tol)
        promised *= UNEVEN_FACTOR if uneven else 1
        norm = float(np.linalg.norm(R))
        if norm <= params.tol:
            break
        if stage == 0:
            if norm <= FAST and LARGEST_FACTOR * promised <= few:
                return min(bound, TYPICAL_FACTOR * promised)
        elif CLEARLY_FEWER * promised <= few or min(promised, bound) >= CLEARLY_MORE * few:
            break
    return min(bound, promised)


def _begun(A: ScaledMatrix, R: np.ndarray, norm: float, tol: float) -> tuple[np.ndarray, float]:
    """Return the residual after the first iterations on R (n, 1) of this norm, relative to it, and a promise.

    That is the number of iterations that reach `tol` at the same rate.
    """
    R = to_float32(R, np.full(1, 1 / norm))
    split_gradients(A, R, np.full(1, DIGITS), np.full(1, FIRST_ITERATIONS))
    leave_split(A, R)
    return R, FIRST_ITERATIONS * math.log(tol) / math.log(min(max(float(np.linalg.norm(R)), tol), 0.999))


def max_iterations(A: ScaledMatrix, tol: float) -> float:
    """Return an upper bound of the iterations of Gauss-Seidel from the excess of the diagonal; inf without one.

    With the scaling y that makes A dominant, every eigenvalue is at least a, the smallest (A y)_i / y_i. No row sum of
    U or L is above 1 - a then, so `M = A + L U` is at most `A + (1 - a)^2`, and M^-1 A has eigenvalues in
    [a / (a + (1 - a)^2), 1].
    """
    y = A.near_null
    left = y - abs(A.off_diagonal()) @ y if (A.data > 0).any() else A.image
    smallest = float((left / y).min())
    return math.sqrt(1 + max(1 - smallest, 0) ** 2 / smallest) / 2 * math.log(2 / tol) if smallest > 0 else math.inf

"""How many iterations Jacobi's method will take, before it takes them, and how many are few."""

import math

import numpy as np

from .columns import to_float32
from .method import DIGITS
from .operators import ScaledMatrix
from .pcg import conjugate_gradients
from .solver_params import SolverParams

FIRST_ITERATIONS = 6  # of Jacobi's method on one column, twice, from which the rest is extrapolated
HOPE = 4  # times the few iterations up to which Jacobi's method is tried where it can be given up
CAUTION = 1.5  # factor of these expected iterations, which are more often too few than too many


def few_iterations(A: ScaledMatrix, n_columns: int) -> float:
    """Return the iterations of Jacobi's method that take as long as an approximate factor and its iterations.

    Measured: 46 to 156 for one column and 37 to 124 for ten on plane and curved graphs of 4 to 12 neighbors, 134 to 278
    and 66 to 160 on those of clusters in many dimensions, 330 to 450 and 146 to 251 on those of 30 and 50 neighbors.
    """
    return 50 + min(5 * len(A.data) / A.n, 300) / min(max(n_columns, 1), 64) ** 0.25


def expected_iterations(A: ScaledMatrix, B: np.ndarray, params: SolverParams) -> float:
    """Return the iterations that Jacobi's method is expected to take for a column such as those of B (n, t).

    Extrapolated from a few iterations for one column, the columns of B added with random signs. They follow a few
    others, in which any residual falls fast because it spreads to the neighbors. At most `max_iterations`.
    """
    bound = max_iterations(A, params.tol)
    signs = np.random.default_rng([params.random_state, 1]).choice([-1.0, 1.0], B.shape[1])
    R = A.enter((B @ signs)[:, None])
    A.correct_components(np.zeros_like(R), R, np.ones(1, bool))
    for goal in (0.0, params.tol):  # the first residual has the unit of B, the second is relative to it
        norm = float(np.linalg.norm(R))
        if norm <= goal:
            return 0.0
        R = to_float32(R, np.full(1, 1 / norm))
        conjugate_gradients(A, R, np.full(1, DIGITS), np.full(1, FIRST_ITERATIONS))
    reduction = min(max(float(np.linalg.norm(R)), params.tol), 0.99)
    return min(bound, CAUTION * FIRST_ITERATIONS * math.log(params.tol) / math.log(reduction))


def max_iterations(A: ScaledMatrix, tol: float) -> float:
    """Return an upper bound of the iterations of Jacobi's method from the excess of the diagonal; inf without one.

    With the scaling y that makes A dominant, every eigenvalue is at least the smallest (A y)_i / y_i.
    """
    y = A.near_null
    smallest = float(((y - abs(A.off_diagonal()) @ y) / y).min())
    return math.sqrt(2 / smallest) / 2 * math.log(2 / tol) if smallest > 0 else math.inf

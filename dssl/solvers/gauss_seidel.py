"""Conjugate gradients with the symmetric Gauss-Seidel preconditioner, at the price of conjugate gradients without one.

`A = L + I + U` with a unit diagonal has the preconditioner `M = (I + L) (I + U)`. The iterations are those of
`(I + L)^-1 A (I + U)^-1`, and with `t = (I + U)^-1 p` its product is `t + (I + L)^-1 (p - t)`: two triangular solves,
which together touch each entry of A once.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numba import njit

from .columns import column_dots, fold, put_columns
from .method import Iterative, plain_entries
from .operators import ScaledMatrix, add_entries, add_to_value
from .pcg import ORDERED

LATENCY = 1.25  # of a product without a preconditioner: each row waits for others
NEARLY = 4.0  # times the squared goal: once the preconditioned residual is below, the true one is estimated, once
SAFETY = 0.8  # of the preconditioned residual that their ratio then asks for, since it changes
RUN, MIN_SAMPLED = 256, 4096  # of each run of so many rows a sixteenth is sampled, or what makes so many in all


Watch = Callable[[np.ndarray, np.ndarray], bool]


@dataclass(frozen=True)
class GaussSeidel(Iterative):
    """Conjugate gradients with the symmetric Gauss-Seidel preconditioner, which needs no preparation.

    watch : as in `split_gradients`.
    """

    watch: Watch | None = field(default=None, kw_only=True)

    name = "gauss_seidel"
    description = "conjugate gradients with symmetric Gauss-Seidel preconditioning"
    blocks32 = 5

    def gradients(self, R: np.ndarray, reduction: np.ndarray, budget: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        E, iterations = split_gradients(self.A, R, reduction, budget, self.watch)
        if self.A.singular.any():  # where rounding errors would grow
            self.A.project_null(E)
        return E, iterations

    def entries(self) -> tuple[float, float]:
        return 0.0, LATENCY * plain_entries(self.A)

    @classmethod
    def held_bytes(cls, n: int, nnz: int) -> int:
        """Return those of `ScaledMatrix.first_above`."""
        return 8 * n


def split_gradients(A: ScaledMatrix, R: np.ndarray, reduction: np.ndarray, budget: np.ndarray,
                    watch: Watch | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return E with `A E` near R, column by column, and the iterations each column took.

    R : ndarray, shape (n, t), float32 or float64; right-hand sides. Overwritten.
    reduction, budget : shape (t,), as in `conjugate_gradients`. A column stops near the goal: its true residual is
        estimated only once, from sampled rows: it ends below the goal or a few percent above, at most about twice.
    watch : is called after each iteration, with the squared norms (w,) of the preconditioned residuals of the columns
        that are still solved, relative to those of R, and with their numbers (w,). True ends the iterations.

    Columns that have stopped leave the block as soon as they are half of it; those left have the same bits.

    Returns
    -------
    (E, iterations) : shapes (n, t) and (t,). Works in the precision of R; five arrays of its size.

    References
    ----------
    Eisenstat, "Efficient implementation of a class of preconditioned conjugate gradient methods", SISC 1981.
    """
    triangles = A.indptr, A.first_above, A.indices, A.data_like(R)
    norms = column_dots(R, R)
    goal = norms * reduction**2
    active = (norms > goal) & (budget > 0)
    begin = np.where(norms > 0, norms, 1)
    _solve_lower(*triangles, R)  # R is the residual of the preconditioned system from here on
    solution, columns = np.zeros_like(R), np.arange(R.shape[1])
    E, P, T, Z = solution, np.zeros_like(R), np.empty_like(R), np.empty_like(R)
    rr, pq, beta = column_dots(R, R), np.empty(R.shape[1]), np.zeros(R.shape[1], R.dtype)
    near, compared = NEARLY * goal, np.zeros(R.shape[1], bool)
    iterations = np.zeros(R.shape[1], np.int64)
    while active.any():
        if 2 * np.count_nonzero(active) <= len(active):
            del T, Z  # before the narrower arrays are made
            put_columns(columns, (solution, E))
            P, E, R = (array.compress(active, axis=1) for array in (P, E, R))
            T, Z, columns = np.empty_like(R), np.empty_like(R), columns[active]
            rr, pq, beta, goal, near, compared, active = (of[active] for of in (rr, pq, beta, goal, near, compared,
                                                                                 active))
        _turn(P, R, beta, T)
        _solve_upper(*triangles, T)
        _solve_lower_dot(*triangles, P, T, Z, pq)
        # A column that is zero or already solved would divide 0 by 0: its step stays 0.
        active &= (pq > 0) & (rr > 0)
        alpha = np.divide(rr, pq, out=np.zeros_like(pq), where=active)
        iterations[columns] += active
        before = rr.copy()
        _step(E, R, T, Z, alpha.astype(R.dtype), rr)
        close = active & (rr <= near)
        active &= ~(close & compared)
        close &= ~compared
        if close.any():  # for the first time: then the two residuals are compared
            norms = rr[close] * _lower_ratios(*triangles, R, np.flatnonzero(close))
            near[close] = SAFETY * rr[close] * goal[close] / np.maximum(norms, np.finfo(float).tiny)
            active[close] = norms > goal[close]
            compared |= close
        if watch and active.any() and watch(rr[active] / begin[columns[active]], columns[active]):
            break
        active &= iterations[columns] < budget[columns]
        beta = np.divide(rr, before, out=np.zeros_like(rr), where=active).astype(R.dtype)
    put_columns(columns, (solution, E))
    return solution, iterations


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _solve_lower(indptr, above, indices, data, X):
    """Replace X (n, t) by `(I + L)^-1 X`."""
    for i in range(X.shape[0]):
        add_entries(indices, data, indptr[i], above[i], X, i, X, True)


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _turn(P, R, beta, T):
    """Replace P by `R + P beta`, and write it to T too."""
    for i in range(P.shape[0]):
        for c in range(P.shape[1]):
            p = R[i, c] + beta[c] * P[i, c]
            P[i, c] = p
            T[i, c] = p


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _solve_upper(indptr, above, indices, data, T):
    """Replace T (n, t) by `(I + U)^-1 T`."""
    n, t = T.shape
    if t == 1:
        x = T.reshape(-1)
        for i in range(n - 1, -1, -1):
            x[i] = add_to_value(indices, data, above[i], indptr[i + 1], x, x[i], True)
        return
    for i in range(n - 1, -1, -1):
        add_entries(indices, data, above[i], indptr[i + 1], T, i, T, True)


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _solve_lower_dot(indptr, above, indices, data, P, T, Z, pq):
    """Write `(I + L)^-1 (P - T)` to Z, and the inner products of P with T + Z to pq (t,) float64."""
    n, t = P.shape
    part = np.zeros(t, P.dtype)
    pq[:] = 0
    if t == 1:
        p, x, z = P.reshape(-1), T.reshape(-1), Z.reshape(-1)
        for i in range(n):
            z[i] = add_to_value(indices, data, indptr[i], above[i], z, p[i] - x[i], True)
            part[0] += p[i] * (x[i] + z[i])
            fold(i, n, part, pq)
        return
    for i in range(n):
        for c in range(t):
            Z[i, c] = P[i, c] - T[i, c]
        add_entries(indices, data, indptr[i], above[i], Z, i, Z, True)
        for c in range(t):
            part[c] += P[i, c] * (T[i, c] + Z[i, c])
        fold(i, n, part, pq)


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _step(X, R, T, Z, alpha, rr):
    """Move `X += T alpha`, `R -= (T + Z) alpha`, and write the squared column norms of R to rr (t,) float64."""
    t = X.shape[1]
    part = np.zeros(t, X.dtype)
    rr[:] = 0
    for i in range(X.shape[0]):
        for c in range(t):
            X[i, c] += alpha[c] * T[i, c]
            r = R[i, c] - alpha[c] * (T[i, c] + Z[i, c])
            R[i, c] = r
            part[c] += r * r
        fold(i, X.shape[0], part, rr)


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _lower_ratios(indptr, above, indices, data, R, columns):
    """Return the squared norms of some columns of `(I + L) R` over those of R, in sampled rows; 1 for 0 / 0."""
    t = len(columns)
    row, squares, norms, ratios = np.empty(t, R.dtype), np.zeros(t), np.zeros(t), np.ones(t)
    n_sampled = min(RUN, max(RUN // 16, -(-RUN * MIN_SAMPLED // R.shape[0])))  # of a run
    for first in range(0, R.shape[0], RUN):
        for i in range(first, min(first + n_sampled, R.shape[0])):
            for c in range(t):
                row[c] = R[i, columns[c]]
                norms[c] += np.float64(row[c]) * np.float64(row[c])
            for entry in range(indptr[i], above[i]):
                value, j = data[entry], indices[entry]
                for c in range(t):
                    row[c] += value * R[j, columns[c]]
            for c in range(t):
                squares[c] += np.float64(row[c]) * np.float64(row[c])
    for c in range(t):
        if norms[c] > 0:
            ratios[c] = squares[c] / norms[c]
    return ratios

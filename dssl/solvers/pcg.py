"""Conjugate gradients on a block of columns, fused into three passes over memory.

The columns of a block lie side by side, so one entry of the matrix serves them all. Each column has its own step
and its own stop: the arithmetic of a column does not depend on the columns beside it, and so the answer does not
depend on how columns are blocked.
"""

from collections.abc import Callable

import numpy as np
from numba import njit

from .columns import column_dots, fold, put_columns
from .operators import ScaledMatrix, add_entries, add_to_value

ORDERED = {"contract"}  # of fast arithmetic what leaves sums in their order, so that a column alone has its bits


@njit(nogil=True, cache=True, fastmath=ORDERED)
def multiply_dot(indptr, indices, data, P, Q, pq):
    """Write `A P` to Q and the column inner products P'AP to pq (t,) float64."""
    t = P.shape[1]
    if t == 1:
        _multiply_dot_column(indptr, indices, data, P.reshape(-1), Q.reshape(-1), pq)
        return
    part = np.zeros(t, P.dtype)
    pq[:] = 0
    for i in range(P.shape[0]):
        for c in range(t):
            Q[i, c] = P[i, c]
        add_entries(indices, data, indptr[i], indptr[i + 1], P, i, Q, False)
        for c in range(t):
            part[c] += P[i, c] * Q[i, c]
        fold(i, P.shape[0], part, pq)


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _multiply_dot_column(indptr, indices, data, p, q, pq):
    """Do `multiply_dot` for one column (n,), in less than half the time and with the same bits."""
    part = np.zeros(1, p.dtype)
    pq[0] = 0
    for i in range(len(p)):
        total = add_to_value(indices, data, indptr[i], indptr[i + 1], p, p[i], False)
        q[i] = total
        part[0] += p[i] * total
        fold(i, len(p), part, pq)


@njit(nogil=True, cache=True, fastmath=True)
def step(X, R, P, Q, alpha, rr):
    """Move `X += P alpha`, `R -= Q alpha`, and write the squared column norms of R to rr (t,) float64."""
    t = X.shape[1]
    part = np.zeros(t, X.dtype)
    rr[:] = 0
    for i in range(X.shape[0]):
        for c in range(t):
            X[i, c] += alpha[c] * P[i, c]
            r = R[i, c] - alpha[c] * Q[i, c]
            R[i, c] = r
            part[c] += r * r
        fold(i, X.shape[0], part, rr)


@njit(nogil=True, cache=True, fastmath=True)
def direction(P, R, beta):
    """Replace P by `R + P beta`."""
    for i in range(P.shape[0]):
        for c in range(P.shape[1]):
            P[i, c] = R[i, c] + beta[c] * P[i, c]


def conjugate_gradients(A: ScaledMatrix, R: np.ndarray, reduction: np.ndarray, budget: np.ndarray,
                        preconditioner: Callable[[int], Callable[[np.ndarray], np.ndarray] | None] | None = None,
                        ) -> tuple[np.ndarray, np.ndarray]:
    """Return E with `A E` near R, column by column, and the iterations each column took.

    R : ndarray, shape (n, t), float32 or float64; right-hand sides. Overwritten with the residual.
    reduction : ndarray, shape (t,); a column stops when its residual norm has fallen by this factor.
    budget : ndarray, shape (t,); a column that needs more iterations is returned as it is, and the caller checks the
        true residual.
    preconditioner : maps a width t to what maps (n, t) to (n, t) by a symmetric positive definite matrix near A^-1, the
        same at every call, and may return the same array each time; None for the identity.

    Columns that have stopped leave the block as soon as they are half of it; those left have the same bits, unless the
    preconditioner's depend on the width.

    Returns
    -------
    (E, iterations) : shapes (n, t) and (t,). Works in the precision of R; four arrays of its size.
    """
    data = A.data_like(R)
    solution, residual, columns = np.zeros_like(R), R, np.arange(R.shape[1])
    E, Q = solution, np.empty_like(R)
    pq, rr = np.empty(R.shape[1]), column_dots(R, R)
    target = rr * reduction**2
    iterations = np.zeros(R.shape[1], np.int64)
    active = (rr > target) & (budget > 0)
    precondition = preconditioner(len(columns)) if preconditioner else None
    Y = precondition(R) if precondition else R
    P, ry = Y.copy(), column_dots(R, Y)
    while active.any():
        if 2 * np.count_nonzero(active) <= len(active):
            del Q, Y, precondition  # before the narrower arrays are made
            P = P.compress(active, axis=1)  # in the order of rows
            put_columns(columns, (solution, E), (residual, R))
            E, R = E.compress(active, axis=1), R.compress(active, axis=1)
            Q, columns = np.empty_like(R), columns[active]
            precondition = preconditioner(len(columns)) if preconditioner else None
            pq, rr, target, ry, active = pq[active], rr[active], target[active], ry[active], active[active]
        multiply_dot(A.indptr, A.indices, data, P, Q, pq)
        # A column that is zero or already solved would divide 0 by 0: its step stays 0.
        active &= (pq > 0) & (ry > 0)
        alpha = np.divide(ry, pq, out=np.zeros_like(pq), where=active)
        iterations[columns] += active
        step(E, R, P, Q, alpha.astype(R.dtype), rr)
        active &= (rr > target) & (iterations[columns] < budget[columns])
        if active.any():
            Y = precondition(R) if precondition else R
            ry_next = column_dots(R, Y) if precondition else rr.copy()
            beta = np.divide(ry_next, ry, out=np.zeros_like(ry), where=active)
            direction(P, Y, beta.astype(R.dtype))
            ry = ry_next
    put_columns(columns, (solution, E), (residual, R))
    return solution, iterations

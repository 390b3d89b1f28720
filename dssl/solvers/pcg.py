"""Conjugate gradients on a block of columns, fused into three passes over memory.

The columns of a block lie side by side, so one entry of the matrix serves them all. Each column has its own step
and its own stop: the arithmetic of a column does not depend on the columns beside it, and so the answer does not
depend on how columns are blocked.
"""

import numpy as np
from numba import njit

from .operators import ScaledMatrix

CHUNK = 255  # rows between two foldings of the float32 partial sums into float64, minus one


@njit(nogil=True, cache=True, fastmath=True)
def _multiply_dot(indptr, indices, data, P, Q, pq):
    """Write `A P` to Q and the column inner products P'AP to pq (t,) float64."""
    t = P.shape[1]
    part = np.zeros(t, P.dtype)
    pq[:] = 0
    for i in range(P.shape[0]):
        for c in range(t):
            Q[i, c] = P[i, c]
        e, end = indptr[i], indptr[i + 1]
        while e + 3 < end:
            a0, a1, a2, a3 = data[e], data[e + 1], data[e + 2], data[e + 3]
            j0, j1, j2, j3 = indices[e], indices[e + 1], indices[e + 2], indices[e + 3]
            for c in range(t):
                Q[i, c] += a0 * P[j0, c] + a1 * P[j1, c] + a2 * P[j2, c] + a3 * P[j3, c]
            e += 4
        while e < end:
            a0, j0 = data[e], indices[e]
            for c in range(t):
                Q[i, c] += a0 * P[j0, c]
            e += 1
        for c in range(t):
            part[c] += P[i, c] * Q[i, c]
        if i & CHUNK == CHUNK:
            for c in range(t):
                pq[c] += part[c]
                part[c] = 0
    for c in range(t):
        pq[c] += part[c]


@njit(nogil=True, cache=True, fastmath=True)
def _step(X, R, P, Q, alpha, rr):
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
        if i & CHUNK == CHUNK:
            for c in range(t):
                rr[c] += part[c]
                part[c] = 0
    for c in range(t):
        rr[c] += part[c]


@njit(nogil=True, cache=True, fastmath=True)
def _direction(P, R, beta):
    """Replace P by `R + P beta`."""
    for i in range(P.shape[0]):
        for c in range(P.shape[1]):
            P[i, c] = R[i, c] + beta[c] * P[i, c]


@njit(nogil=True, cache=True)
def _conjugate_gradients(indptr, indices, data, X, R, P, Q, target, max_iterations, iterations):
    t = X.shape[1]
    alpha, beta = np.zeros(t, X.dtype), np.zeros(t, X.dtype)
    pq, rr, rr_next = np.zeros(t), np.zeros(t), np.zeros(t)
    for i in range(R.shape[0]):
        for c in range(t):
            rr[c] += np.float64(R[i, c]) * R[i, c]
            P[i, c] = R[i, c]
    for _ in range(max_iterations):
        active = 0
        for c in range(t):
            active += rr[c] > target[c]
        if active == 0:
            break
        _multiply_dot(indptr, indices, data, P, Q, pq)
        for c in range(t):
            # A column that is zero or already solved would divide 0 by 0: its step stays 0.
            go = rr[c] > target[c] and pq[c] > 0
            alpha[c] = rr[c] / pq[c] if go else 0
            iterations[c] += go
        _step(X, R, P, Q, alpha, rr_next)
        for c in range(t):
            beta[c] = rr_next[c] / rr[c] if rr[c] > target[c] else 0
            rr[c] = rr_next[c]
        _direction(P, R, beta)


def conjugate_gradients(A: ScaledMatrix, R: np.ndarray, reduction: np.ndarray,
                        max_iterations: int) -> tuple[np.ndarray, np.ndarray]:
    """Return E with `A E` near R, column by column, and the iterations each column took.

    Parameters
    ----------
    R : ndarray, shape (n, t), float32 or float64; right-hand sides. Overwritten with the residual.
    reduction : ndarray, shape (t,); a column stops when its residual norm has fallen by this factor.
    max_iterations : a column that needs more is returned as it is; the caller checks the true residual.

    Returns
    -------
    (E, iterations) : shapes (n, t) and (t,). Works in the precision of R; four arrays of its size.
    """
    E, P, Q = np.zeros_like(R), np.empty_like(R), np.empty_like(R)
    iterations = np.zeros(R.shape[1], np.int64)
    norms = np.einsum("ij,ij->j", R, R, dtype=np.float64)
    data = A.data32 if R.dtype == np.float32 else A.data
    _conjugate_gradients(A.indptr, A.indices, data, E, R, P, Q, norms * reduction**2, max_iterations, iterations)
    return E, iterations

"""Preconditioned conjugate gradients for many systems at once: every column its own matrix, step and stop.

The matrices are given by their products with a block of columns, in one pass for all columns that have not converged.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from .columns import column_scale
from .solution import Solution
from .solver_params import Stop


def dots(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return x_j'y_j of each column, (t,)."""
    return np.einsum("ij,ij->j", X, Y)


def blocked_cg(apply: Callable[..., np.ndarray], B: np.ndarray, precondition: Callable[..., Any] | None, stop: Stop, *,
               metric: Callable[[np.ndarray], np.ndarray] | None = None) -> Solution:
    """Return the solutions X (n, t) of `A_j x_j = b_j`, each A_j symmetric and positive (semi-)definite.

    apply : (P, columns) -> the products of columns with their own matrices. B : (n, t).
    precondition : (R, columns) -> products with an approximation of their inverses; None for none.
    metric : product with a symmetric positive semi-definite M, the same for all columns. A and the preconditioner are
        then self-adjoint in `<x, y> = x' M y`, the inner product of residuals; they get M P and M R as third argument,
        and `precondition` returns (Z, M Z).

    A column stops at its own tolerance, at the first direction without curvature, and if its residual is not finite.
    The returned residual is that of the solution; if it is above the tolerance while that of the recursion is not, the
    column restarts from its solution, as long as that halves the residual. An iteration costs one product with A and
    one with M for the active columns.

    References
    ----------
    Saad, "Iterative methods for sparse linear systems", 2003, Algorithm 9.1.
    """
    apply_metric = metric or (lambda X: X)

    def product(P: np.ndarray, columns: np.ndarray, MP: np.ndarray) -> np.ndarray:
        return apply(P, columns) if metric is None else apply(P, columns, MP)

    t = B.shape[1]
    scale = column_scale(B)
    B = B / scale
    X, iterations = np.zeros(B.shape), np.zeros(t, np.int64)
    norms = _norms(B, apply_metric(B)) if t else np.zeros(0)
    residuals = np.where(norms == 0, 0.0, np.inf)
    columns, R = np.arange(t), B
    while len(columns):
        met = _descend(product, apply_metric, precondition, metric is not None, X, R, columns, iterations,
                           stop.tol * norms, stop.max_iter)
        residual = B[:, columns] - product(X[:, columns], columns, apply_metric(X[:, columns]))
        before = residuals[columns]
        with np.errstate(invalid="ignore"):  # a right-hand side that is not finite has no residual
            residuals[columns] = np.divide(_norms(residual, apply_metric(residual)), norms[columns],
                                           out=np.zeros(len(columns)), where=norms[columns] != 0)
        # Rounding keeps the residual of the product slightly above that of the recursion.
        again = (met & (residuals[columns] > 2 * stop.tol) & (residuals[columns] < before / 2)
                 & (iterations[columns] < stop.max_iter))
        columns, R = columns[again], residual[:, again]
    return Solution(X * scale, residuals, residuals <= 2 * stop.tol, iterations)


def _descend(product: Callable[..., np.ndarray], apply_metric: Callable[[np.ndarray], np.ndarray],
             precondition: Callable[..., Any] | None, in_metric: bool, X: np.ndarray, R: np.ndarray,
             columns: np.ndarray, iterations: np.ndarray, goals: np.ndarray, max_iter: int) -> np.ndarray:
    """Improve columns of X with residuals R in place; return which of them met their goal by the recursion."""
    met = np.zeros(len(goals), bool)
    started = goals[columns] > 0
    active, R = columns[started], R[:, started]
    P, MP, rho = np.zeros(R.shape), None, np.zeros(len(active))
    while len(active):
        MR = apply_metric(R)
        above = _norms(R, MR) > goals[active]
        met[active[~above]] = True
        going = above & (iterations[active] < max_iter)
        if not going.all():
            active, R, P, rho = active[going], R[:, going], P[:, going], rho[going]
            MR, MP = (MR[:, going] if in_metric else R), None if MP is None else MP[:, going]
            if not len(active):
                break
        if precondition is None:
            Z, MZ = R, MR
        elif in_metric:
            Z, MZ = precondition(R, active, MR)
        else:
            Z = MZ = precondition(R, active)
        new = dots(R, MZ)
        beta = np.divide(new, rho, out=np.zeros_like(new), where=rho > 0)
        P = Z + beta * P
        MP = P if not in_metric else (MZ if MP is None else MZ + beta * MP)
        Q = product(P, active, MP)
        curvature = dots(MP, Q)
        ok = (curvature > 0) & (new > 0) & np.isfinite(curvature) & np.isfinite(new)
        step = np.divide(new, curvature, out=np.zeros_like(new), where=ok)
        X[:, active] += step * P
        R, rho = R - step * Q, new
        iterations[active] += 1
        if not ok.all():  # no further step can be taken in these columns
            active, R, P, MP, rho = active[ok], R[:, ok], P[:, ok], MP[:, ok], rho[ok]
    return met[columns]


def _norms(X: np.ndarray, MX: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(dots(X, MX), 0))

"""Preconditioned conjugate gradients for many systems at once: every column its own matrix, step and stop.

The matrix is known by its product with a block of columns, made in one pass for all columns that are still under way:
columns that have converged are not carried along.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import require
from .solve import Solution

REPLACED = 50  # iterations after which the residual is computed anew


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


def dots(X: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Return x_j'y_j of each column, (t,)."""
    return np.einsum("ij,ij->j", X, Y)


def blocked_cg(apply: Callable[..., np.ndarray], B: np.ndarray, precondition: Callable[..., Any] | None, stop: Stop, *,
               metric: Callable[[np.ndarray], np.ndarray] | None = None) -> Solution:
    """Return the solutions X (n, t) of `A_j x_j = b_j`, each A_j symmetric and positive (semi-)definite.

    Parameters
    ----------
    apply : (P, columns) -> the products of columns with their own matrices. B : (n, t).
    precondition : (R, columns) -> products with an approximation of their inverses; None for none.
    metric : product with a symmetric positive semi-definite M, the same for all columns. A and the preconditioner are
        then self-adjoint in `<x, y> = x' M y`, in which residuals are measured too; they get M P and M R as third
        argument, and `precondition` returns (Z, M Z).

    A column stops at its own tolerance, at the first direction without curvature, and when a residual is no number;
    the residual that is returned is that of the product with the solution, not of the recursion. An iteration costs
    one product with A and one with M, for the columns that are still under way.

    References
    ----------
    Saad, "Iterative methods for sparse linear systems", 2003, Algorithm 9.1.
    """
    measured = metric or (lambda X: X)

    def product(P: np.ndarray, columns: np.ndarray, MP: np.ndarray) -> np.ndarray:
        return apply(P, columns) if metric is None else apply(P, columns, MP)

    t = B.shape[1]
    X, iterations = np.zeros(B.shape), np.zeros(t, np.int64)
    norms = _norms(B, measured(B))
    active = np.flatnonzero(norms > 0)
    R, P, MP, rho = B[:, active].copy(), np.zeros((len(B), len(active))), None, np.zeros(len(active))
    while len(active):
        MR = measured(R)
        going = (_norms(R, MR) > stop.tolerance * norms[active]) & (iterations[active] < stop.max_iterations)
        if not going.all():
            active, R, P, rho = active[going], R[:, going], P[:, going], rho[going]
            MR, MP = (R if metric is None else MR[:, going]), None if MP is None else MP[:, going]
            if not len(active):
                break
        if precondition is None:
            Z, MZ = R, MR
        elif metric is None:
            Z = MZ = precondition(R, active)
        else:
            Z, MZ = precondition(R, active, MR)
        new = dots(R, MZ)
        beta = np.divide(new, rho, out=np.zeros_like(new), where=rho > 0)
        P = Z + beta * P
        MP = P if metric is None else (MZ if MP is None else MZ + beta * MP)
        Q = product(P, active, MP)
        curvature = dots(MP, Q)
        ok = (curvature > 0) & (new > 0) & np.isfinite(curvature) & np.isfinite(new)
        step = np.divide(new, curvature, out=np.zeros_like(new), where=ok)
        X[:, active] += step * P
        R, rho = R - step * Q, new
        iterations[active] += 1
        if not ok.all():  # no further step can be taken in these columns
            active, R, P, MP, rho = active[ok], R[:, ok], P[:, ok], None if metric is None else MP[:, ok], rho[ok]
        if len(active) and iterations[active[0]] % REPLACED == 0:
            R = B[:, active] - product(X[:, active], active, measured(X[:, active]))
    left = B - product(X, np.arange(t), measured(X)) if t else B
    residuals = np.divide(_norms(left, measured(left)), norms, out=np.zeros(t), where=norms > 0)
    # Rounding keeps the residual of the product slightly above that of the recursion.
    return Solution(X, residuals, residuals <= 2 * stop.tolerance, iterations)


def _norms(X: np.ndarray, MX: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(dots(X, MX), 0))

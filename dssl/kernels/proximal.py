"""Proximal gradient steps on `1/2 |Z - L|_F^2 + threshold |Z|_*` from draws of L, by Gram matrices of factors alone.

A step lowers all eigenvalues of a mean of Z and a draw by `eta threshold` and drops what is not positive: singular
value thresholding of a positive semi-definite matrix (Cai, Candes, Shen, "A singular value thresholding algorithm for
matrix completion", SIAM J. Optim. 2010).
"""

import numpy as np
from scipy.linalg import eigh

from .nystrom import CUTOFF

WINDOW = 8  # steps over which the error is estimated


def step_size(step: int) -> float:
    """Return eta_t of step t >= 1."""
    return min(1.0, 2.0 / step)


def proximal_step(G: np.ndarray, lowered: np.ndarray, eta: float, threshold: float,
                  rank: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return T (r + a, k) with U_new = [U, zeta] T, the eigenvalues (k,) of Z_new, descending, and the relative change.

    Parameters
    ----------
    G : (r + a, r + a), the Gram matrix of [U, zeta]. U need not be orthonormal; U_new is.
    lowered : (r,), Z = U diag(lowered) U'.

    With c the square roots of the weights of the columns in `(1 - eta) Z + eta zeta zeta'`, and the eigensystem
    `c G c = V Gamma V'`, that matrix is `U_new Gamma U_new'` with `T = c V Gamma^-1/2`. O((r + a)^3) time.
    """
    r = len(lowered)
    c = np.sqrt(np.concatenate([(1 - eta) * lowered, np.full(len(G) - r, eta)]))
    gamma, V = eigh(c[:, None] * G * c, driver="evd", overwrite_a=True, check_finite=False)
    gamma, V = gamma[::-1], V[:, ::-1]
    k = min(rank, int(np.count_nonzero(gamma > max(eta * threshold, CUTOFF * gamma[0]))))
    T, shrunk = c[:, None] * (V[:, :k] / np.sqrt(gamma[:k])), gamma[:k] - eta * threshold
    moved = (T * shrunk) @ T.T  # of Z_new - Z in terms of [U, zeta]
    moved[np.arange(r), np.arange(r)] -= lowered
    moved = moved @ G
    size = max(float(np.linalg.norm(shrunk)), float(np.linalg.norm(lowered)))
    change = np.sqrt(max(0.0, float(np.einsum("ij,ji->", moved, moved)))) / size if size else 0.0
    return T, shrunk, float(change)


def estimated_error(changes: list[float]) -> float | None:
    """Return `|Z_t - L_hat|_F / |Z_t|_F` as the changes of steps 1 to t tell it; None before step `WINDOW`.

    A step moves Z by eta_t = 2 / t times a deviation of L_t, of size s. Z_t is a mean of t such draws with weights in
    proportion to their numbers, off by 4 s^2 / (3 t) in square: t / 3 times the square of the last change.
    """
    t = len(changes)
    if t < WINDOW:
        return None
    last = np.array(changes[-WINDOW:])
    return float(np.sqrt((last**2 * np.arange(t - WINDOW + 1, t + 1)).mean() / 3))

"""The largest eigenpairs of a symmetric operator that is applied to blocks of columns, by the Lanczos process."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, qr

CHECK_GROWTH = 1.06  # of the basis between two checks, each of which is an eigendecomposition
MIN_LENGTH = 1e-12  # of a new column off the basis, relative to the norm of the operator; a shorter one is rounding


@dataclass(frozen=True)
class RitzPairs:
    """Ritz pairs of an operator F on the span of a basis.

    values (k,) descending. coefficients (k, k): of the vectors, in the basis (n, k). residuals (k,): ||F x - theta x||.
    steps : applications of F to a block. finished : whether the criterion was met.
    """

    values: np.ndarray
    coefficients: np.ndarray
    residuals: np.ndarray
    basis: np.ndarray
    steps: int
    finished: bool

    def vectors(self, count: int) -> np.ndarray:
        """Return the vectors of the largest values, (n, count)."""
        return self.basis @ self.coefficients[:, :count]


def block_lanczos(F: Callable[[np.ndarray], np.ndarray], start: np.ndarray, project: Callable[[np.ndarray], None],
                  max_columns: int, finished: Callable[[np.ndarray, np.ndarray], bool], random_state: int) -> RitzPairs:
    """Return Ritz pairs of F on the complement of what `project` removes, as soon as they are `finished`.

    Parameters
    ----------
    F : maps (n, b) to (n, b); symmetric.
    start : (n, b), the first block; overwritten.
    project : projects columns (n, t), in place, on the complement.
    max_columns : of the basis; with b more, at most the dimension of the complement.
    finished : the criterion, of values and residuals as in `RitzPairs`; checked when the basis has grown by 6 %.

    Notes
    -----
    Every block is orthogonalized twice against all before it. Where the Krylov space ends, random columns continue the
    basis, so that eigenvalues of any multiplicity are found. Memory: `8 n (max_columns + b)` bytes, and four blocks.
    """
    n, b = start.shape
    rng = np.random.default_rng([random_state, n, b])
    V, T = np.empty((n, max_columns + b)), np.zeros((max_columns + b, max_columns + b))
    project(start)
    V[:, :b], _ = _next_block(start, V[:, :0], project, 0.0, rng)
    next_check, k = b, 0
    while True:
        k += b
        W = F(np.ascontiguousarray(V[:, k - b:k]))
        H = _orthogonalize(W, V[:, :k], project)
        T[:k, k - b:k], T[k - b:k, :k] = H, H.T
        last = k + b > max_columns
        V[:, k:k + b], C = _next_block(W, V[:, :k], project, float(np.abs(T[:k, :k]).max()), rng)
        if last or k >= next_check:
            values, Y = eigh(T[:k, :k])
            values, Y = values[::-1], Y[:, ::-1]
            residuals = np.linalg.norm(C @ Y[k - b:], axis=0)
            if (met := finished(values, residuals)) or last:
                return RitzPairs(values, Y, residuals, V[:, :k], k // b, met)
            next_check = max(k + b, int(CHECK_GROWTH * k))
        T[k:k + b, k - b:k], T[k - b:k, k:k + b] = C, C.T


def _orthogonalize(W: np.ndarray, V: np.ndarray, project: Callable[[np.ndarray], None]) -> np.ndarray:
    """Remove what `project` does and the span of V (n, k) from W (n, b), in place; return the coefficients (k, b).

    Both twice: F may amplify what is left of the one, and W may be short once the other is removed.
    """
    H = np.zeros((V.shape[1], W.shape[1]))
    for _ in range(2):
        project(W)
        part = V.T @ W
        W -= V @ part
        H += part
    return H


def _next_block(W: np.ndarray, V: np.ndarray, project: Callable[[np.ndarray], None], norm: float,
                rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Return Q (n, b) orthonormal and orthogonal to V, and C (b, b), with `W = Q C` up to rounding of F's norm."""
    b = W.shape[1]
    Q, R, order = qr(W, mode="economic", pivoting=True, overwrite_a=True)
    lengths = np.abs(R.diagonal())
    rank = int((lengths > MIN_LENGTH * norm).sum())
    if lengths[-1] < 1e-6 * norm or rank < b:
        Q[:, rank:] = rng.standard_normal((len(Q), b - rank))
        R[rank:] = 0
        for _ in range(2):  # short columns have lost their orthogonality, and new ones never had it
            _orthogonalize(Q, V, project)
            for j in range(b):
                Q[:, j] -= Q[:, :j] @ (Q[:, :j].T @ Q[:, j])
                Q[:, j] /= np.linalg.norm(Q[:, j])
    C = np.empty_like(R)
    C[:, order] = R
    return Q, C

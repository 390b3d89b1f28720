"""Kernels deformed by a graph, through the regularizer at landmarks.

    K~(x, z) = K(x, z) - V(x)' V(z),    V(x) = sqrt(eta) C^-1 k(x),    k(x) = (K(s_1, x), ..., K(s_m, x))

with the landmarks s_i and one Cholesky factor C.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from scipy.linalg.blas import dsyrk
from scipy.linalg.lapack import dpocon, dpotrf

from ..base.errors import DataError, explain, require
from ..base.types import Matrix, MatrixLike
from ..storage.blocks import Rows, block_rng, row_ranges
from ..storage.csr import as_rows, stack_points
from .base import Kernel, diagonal_of
from .gram import BLOCK_BYTES
from .points import require_finite

AUTO = "auto"
MAX_ETA = 1e8
Eta = float | str  # a number, or AUTO: the mean of the kernels of several etas


def require_eta(eta: object) -> None:
    """Raise ParameterError unless eta is "auto" or valid."""
    if isinstance(eta, str):
        require(eta == AUTO, f"eta={eta!r}, expected a number or {AUTO!r}", why="it weighs the graph",
                fix='use "auto", 0 for the base kernel, or 1 to 1000')
    else:
        check_eta(eta)


def check_eta(eta: object) -> None:
    """Raise ParameterError unless eta is a number from 0 to `MAX_ETA`."""
    number = isinstance(eta, (int, float, np.number)) and not isinstance(eta, bool) and bool(0 <= eta <= MAX_ETA)
    require(number, f"eta={eta!r}, expected 0 to {MAX_ETA:g}",
            why="about 1 / eta of the base kernel remains, which above 1e8 is rounding error",
            fix="use 0 for the base kernel, or 1 to 1000")


ASYMMETRY = 1e-8  # relative to the largest entry: above rounding, and below the error of a solver
LARGEST_JITTER = 1e-8  # relative to the diagonal
# The deformed kernel is a difference that decreases as 1 / eta. Compared with extended precision its relative error is
# 1e-15 eta to 1e-14 eta as long as it is at least 1e-9 of the base kernel.
MIN_SHARE = 1e-9


@dataclass(frozen=True, eq=False)
class DeformedKernel:
    """The kernel of the space with inner product <h, g>_K + eta h' Q g at the landmarks (eq. 3)."""

    kernel: Kernel
    landmarks: Matrix  # (m, d), an array or sparse rows
    eta: float
    factor: np.ndarray | None  # (m, m), lower; None for eta 0, the base kernel
    jitter: float = 0.0  # that was added to the factored matrix, relative to its diagonal

    def __call__(self, X: Matrix, Z: Matrix, /) -> np.ndarray:
        """Return K~(X, Z), shape (n, m), of arrays or sparse rows; if X is Z it is symmetric."""
        block = self.kernel(X, Z)
        if self.factor is None:
            return block
        V_Z = self.features(Z)
        V_X = V_Z if X is Z else self.features(X)
        deformed = V_X.T @ V_Z
        np.subtract(block, deformed, out=deformed)
        if X is Z:
            np.fill_diagonal(deformed, np.maximum(np.diagonal(deformed), 0.0))
        return deformed

    def features(self, Z: Matrix) -> np.ndarray:
        """Return V(Z) = sqrt(eta) C^-1 K(landmarks, Z), shape (m, n)."""
        if self.factor is None:
            return np.zeros((0, Z.shape[0]))
        k = np.asarray(self.kernel(Z, self.landmarks), np.float64).T
        return np.sqrt(self.eta) * solve_triangular(self.factor, k, lower=True, check_finite=False)

    def diagonal(self, X: Matrix) -> np.ndarray:
        """Return K~(x_i, x_i), shape (n,), clipped at 0."""
        V = self.features(X)
        return np.maximum(diagonal_of(self.kernel, X) - np.einsum("ij,ij->j", V, V), 0.0)

    def expansion(self, Z: Matrix, coef: np.ndarray) -> tuple[Kernel, Matrix, np.ndarray]:
        """Return the base kernel, points and coefficients of the function sum_i coef_i K~(z_i, .).

        It is sum_i coef_i K(z_i, .) - sum_j b_j K(s_j, .) with b = sqrt(eta) C^-T V(Z) coef, which needs no solves.
        """
        if self.factor is None:
            return self.kernel, Z, coef
        b = np.sqrt(self.eta) * solve_triangular(self.factor, self.features(Z) @ coef, lower=True, trans="T",
                                                 check_finite=False)
        return self.kernel, stack_points(Z, self.landmarks), np.concatenate([coef, -b])


def deform(kernel: Kernel, X_S: Matrix, A: np.ndarray, eta: float) -> DeformedKernel:
    """Return the kernel deformed by the graph's covariance A (s, s) on the points X_S (s, d), dense or sparse.

    eta is relative to the inverse mean diagonal of A, so that eta = 1 weights the energy of the graph and the norm of
    the base kernel equally for any ridge, power and size of the graph.
    """
    return landmark_deformation(kernel, X_S, A, absolute_eta(A, eta))


def absolute_eta(A: np.ndarray, eta: float) -> float:
    """Return the paper's eta: the relative one times the mean diagonal of A (s, s)."""
    return eta * float(np.trace(A)) / len(A)


def check_share(diagonal: np.ndarray, base: Kernel, points: Matrix, eta: float) -> None:
    """Raise ParameterError if less than `MIN_SHARE` of the base kernel is left in a diagonal (l,) at points (l, d)."""
    left = float(diagonal.sum())
    whole = float(diagonal_of(base, points).sum())
    require(left >= MIN_SHARE * whole, f"eta={eta:g} leaves {left / max(whole, 1e-300):.1g} of the base kernel at "
            "the labeled points", why="it is a difference of nearly equal numbers, of which few digits are correct",
            fix="lower eta or the power, or raise the ridge")


def shuffled(A: np.ndarray, random_state: int) -> np.ndarray:
    """Return A with the landmarks permuted: the control, the same graph on the wrong points."""
    order = block_rng(random_state, len(A)).permutation(len(A))
    return A[np.ix_(order, order)]


def landmark_deformation(kernel: Kernel, X_S: Rows | MatrixLike, inverse_at_landmarks: np.ndarray,
                         eta: float) -> DeformedKernel:
    """Return the kernel of eq. 6, K(x, z) - eta k_S(x)' (A + eta K_SS)^-1 k_S(z), with A = Q^+ at the landmarks.

    X_S : the landmarks, shape (s, d): Rows, an array or a sparse matrix.
    inverse_at_landmarks : A = Q^+_SS, shape (s, s), symmetric positive semi-definite.
    eta : weight of the regularizer; 0 returns K itself.

    s^3/3 flops and 3 s^2 floats. For a positive definite A this is the printed form with
    Q_hat = A^+. If A has a null direction v, as without a ridge for a component inside S, it is
    the limit for A + e I: v'h = 0, which the printed form does not penalize.

    References
    ----------
    Lever, Diethe, Shawe-Taylor, "Data-dependent kernels in nearly-linear time", AISTATS 2012, eqs. 6 and 7.
    """
    points: Matrix = as_rows(X_S).read_all()
    require(points.ndim == 2 and points.shape[0] > 0, f"the landmarks have shape {points.shape}", error=DataError,
            why="they are one point a row", fix="pass an array of shape (s, n_features)")
    require_finite(points, "the landmarks hold")
    A = _symmetric("inverse_at_landmarks", inverse_at_landmarks, points.shape[0])
    require(0 <= eta < np.inf, f"eta={eta!r}, expected a finite number >= 0",
            why="a negative weight rewards functions that are rough on the graph",
            fix="use eta=0 for the base kernel, and values such as 0.01 to 100 for more and more of the graph")
    if eta == 0:
        return DeformedKernel(kernel, points, 0.0, None)
    K = _symmetric(f"the Gram matrix of {kernel!r}", kernel(points, points), points.shape[0])
    factor, jitter = factor_positive(A + eta * K)
    return DeformedKernel(kernel, points, float(eta), factor, jitter=jitter)


def factor_positive(B: np.ndarray) -> tuple[np.ndarray, float]:
    """Return the lower Cholesky factor of B = A + eta K_SS, which is overwritten, and its jitter.

    Jitter, relative to the diagonal of B and mostly 0, is added if the factorization fails or the reciprocal condition
    is at rounding level, for example for equal points.
    """
    rounding = len(B) * np.finfo(float).eps
    diagonal = np.diagonal(B).copy()
    norm = np.abs(B).sum(0).max()
    jitter = 0.0
    while jitter <= LARGEST_JITTER:
        np.fill_diagonal(B, diagonal * (1.0 + jitter))
        factor, failed = dpotrf(B, lower=1, clean=1)
        if not failed and (jitter or dpocon(factor, norm, uplo="L")[0] > rounding):
            return factor, jitter
        jitter = max(rounding, 10 * jitter)
    raise DataError(explain(
        f"the matrix to factor ({len(B)} x {len(B)}) is not positive definite, even with {LARGEST_JITTER:g} "
        "of its diagonal added",
        why="the kernel or the inverse at the landmarks has negative eigenvalues above rounding",
        fix="solve for the inverse with a smaller tolerance, and check that the kernel is positive semi-definite",
    ))


def _symmetric(what: str, M: ArrayLike, n: int) -> np.ndarray:
    """Return M as a float64 array that is exactly symmetric."""
    M = np.asarray(M, np.float64)
    require(M.shape == (n, n), f"{what} has shape {M.shape}, expected ({n}, {n})", error=DataError,
            why="it has one row and one column for each point",
            fix="pass the rows and columns of the landmarks, in their order")
    require(bool(np.isfinite(M).all()), f"{what} holds NaN or infinite values", error=DataError,
            why="the deformed kernel would be NaN everywhere",
            fix="look for solves that did not converge, weights that overflow, and features that are not finite")
    largest = np.abs(M).max()
    asymmetry = np.abs(M - M.T).max()
    require(asymmetry <= ASYMMETRY * largest,
            f"{what} is not symmetric: entries differ by {asymmetry:.3g}, the largest is {largest:.3g}",
            error=DataError, why="an inner product is symmetric",
            fix="symmetrize it first if the difference is a solver's tolerance")
    return 0.5 * (M + M.T)


@dataclass(frozen=True, eq=False)
class KernelMean:
    """`sum_i weights_i K_i` of kernels with the same base kernel and the same landmarks."""

    parts: Sequence[DeformedKernel]
    weights: Sequence[float]

    def __call__(self, X: Matrix, Z: Matrix, /) -> np.ndarray:
        """Return the kernel of X (n, d) and Z (m, d), arrays or sparse rows, shape (n, m); if X is Z it is symmetric.

        It is the only array of this size: the base kernel is evaluated once, a few rows at a time.
        """
        base, total = self.parts[0].kernel, float(sum(self.weights))
        K = np.empty((X.shape[0], Z.shape[0]))
        tiles = list(row_ranges(X.shape[0], max(1, BLOCK_BYTES // (8 * max(1, Z.shape[0])))))
        for start, stop in tiles:
            np.multiply(base(X[start:stop], Z), total, out=K[start:stop])
        deformed = [(part, weight) for part, weight in zip(self.parts, self.weights, strict=True)
                    if part.factor is not None and weight]
        if X is not Z:
            for part, weight in deformed:
                V_X, V_Z = part.features(X), part.features(Z)
                for start, stop in tiles:
                    K[start:stop] -= weight * (V_X[:, start:stop].T @ V_Z)
            return K
        np.fill_diagonal(K, total * diagonal_of(base, X))
        for part, weight in deformed:  # K.T is in the order of BLAS: its lower triangle is the upper one of K
            dsyrk(-weight, part.features(X), beta=1.0, c=K.T, trans=1, lower=1, overwrite_c=1)
        for start, stop in tiles:
            K[start:stop, :start] = K[:start, start:stop].T
            square = K[start:stop, start:stop]
            square[:] = np.triu(square) + np.triu(square, 1).T
        np.fill_diagonal(K, np.maximum(np.diagonal(K), 0.0))
        return K

    def diagonal(self, X: Matrix) -> np.ndarray:
        """Return K(x_i, x_i), shape (n,)."""
        return np.asarray(sum(weight * part.diagonal(X) for part, weight in zip(self.parts, self.weights, strict=True)))

    def expansion(self, Z: Matrix, coef: np.ndarray) -> tuple[Kernel, Matrix, np.ndarray]:
        """Return the base kernel, points and coefficients of the function sum_i coef_i K(z_i, .)."""
        of_points = np.zeros_like(coef)
        of_landmarks = None
        for part, weight in zip(self.parts, self.weights, strict=True):
            expanded = weight * part.expansion(Z, coef)[2]
            of_points += expanded[:len(coef)]
            if part.factor is not None:
                of_landmarks = expanded[len(coef):] + (0 if of_landmarks is None else of_landmarks)
        first = self.parts[0]
        if of_landmarks is None:
            return first.kernel, Z, of_points
        return first.kernel, stack_points(Z, first.landmarks), np.concatenate([of_points, of_landmarks])

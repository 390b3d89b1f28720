"""Block functions of `stochastic`: proximal gradient steps by Gram matrices, and random Fourier features.

A proximal gradient step on `1/2 |Z - L|_F^2 + threshold |Z|_*` lowers all eigenvalues of a mean of Z and of a draw of L
by `eta threshold` and drops those that are not positive: singular value thresholding (Cai, Candes, Shen, "A singular
value thresholding algorithm for matrix completion", SIAM J. Optim. 2010).

Random Fourier features `Phi` (n, a) have `E Phi Phi' = K` for a kernel of x - z: by Bochner's theorem it is
`E cos(w'(x - z))`, w drawn from its Fourier transform; the cosine and sine of each frequency make the diagonal exact
(Rahimi, Recht, "Random features for large-scale kernel machines", NIPS 2007).
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import eigh, qr

from ..base.errors import require
from ..base.types import Matrix
from ..storage.blocks import Parts, PartWriter, Receipt, Rows, block_rng, row_ranges
from .base import RBF, DistanceKernel, Kernel, LaplacianKernel
from .nystrom import CUTOFF
from .points import as_points, require_finite

FACTOR = np.dtype(np.float32)  # of U: its rounding, 6e-8, is far below the change by a step
DRAW, TRANSFORM = 0, 1  # numbers of the parts of the state of a step: frequencies; T and lowered
WINDOW = 8  # steps over which the error is estimated


def step_size(step: int) -> float:
    """Return eta_t = min(1, 2 / t), t >= 1."""
    return min(1.0, 2.0 / step)


def proximal_step(G: np.ndarray, lowered: np.ndarray, eta: float, threshold: float,
                  rank: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return T (r + a, k) with U_new = [U, zeta] T, the eigenvalues (k,) of Z_new, descending, and the relative change.

    G : (r + a, r + a), the Gram matrix of [U, zeta]. U need not be orthonormal; U_new is.
    lowered : (r,), Z = U diag(lowered) U'.

    With c the square roots of the weights of the columns in `(1 - eta) Z + eta zeta zeta'`, and the eigensystem
    `c G c = V Gamma V'`, that matrix is `U_new Gamma U_new'` with `T = c V Gamma^-1/2`. O((r + a)^3) time.
    """
    r = len(lowered)
    c = np.sqrt(np.concatenate([(1 - eta) * lowered, np.full(len(G) - r, eta)]))
    gamma, V = eigh(c[:, None] * G * c, driver="evd", overwrite_a=True, check_finite=False)
    gamma = gamma[::-1]
    V = V[:, ::-1]
    k = min(rank, int(np.count_nonzero(gamma > max(eta * threshold, CUTOFF * gamma[0]))))
    T = c[:, None] * (V[:, :k] / np.sqrt(gamma[:k]))
    shrunk = gamma[:k] - eta * threshold
    moved = (T * shrunk) @ T.T  # of Z_new - Z in terms of [U, zeta]
    moved[np.arange(r), np.arange(r)] -= lowered
    moved = moved @ G
    size = max(float(np.linalg.norm(shrunk)), float(np.linalg.norm(lowered)))
    change = np.sqrt(max(0.0, float(np.einsum("ij,ji->", moved, moved)))) / size if size else 0.0
    return T, shrunk, float(change)


def estimated_error(changes: list[float]) -> float | None:
    """Return the estimate of `|Z_t - L_hat|_F / |Z_t|_F` from the changes of steps 1 to t; None before step `WINDOW`.

    A step changes Z by eta_t = 2 / t times a deviation of norm s. Z_t is a mean of t draws with weights proportional to
    their numbers, with a squared error of 4 s^2 / (3 t): t / 3 times the square of the last change.
    """
    t = len(changes)
    if t < WINDOW:
        return None
    last = np.array(changes[-WINDOW:])
    return float(np.sqrt((last**2 * np.arange(t - WINDOW + 1, t + 1)).mean() / 3))


FREQUENCY_STREAM = 5  # of the seed; `landmarks`, `leverage` and `centers` draw from streams 0 to 4


def require_fourier(kernel: Kernel) -> None:
    """Raise ParameterError unless the kernel has random Fourier features."""
    require(isinstance(kernel, RBF | LaplacianKernel), f"kernel {kernel!r} has no random Fourier features here",
            why="frequencies are drawn from the Fourier transform of a kernel, which is known for rbf and laplacian",
            fix='use approximation="nystrom", or kernel "rbf" or "laplacian"')


def fourier_frequencies(kernel: DistanceKernel, d: int, n_features: int, random_state: int, draw: int) -> np.ndarray:
    """Return the frequencies of one draw, (d, a / 2), from the Fourier transform of the kernel.

    For `rbf` they are normal, and orthogonal in groups of d, which lowers the variance (Yu, Suresh, Choromanski,
    Holtmann-Rice, Kumar, "Orthogonal random features", NIPS 2016); for `laplacian` Cauchy in each coordinate.
    O(d min(d, a) a) time.
    """
    rng = block_rng(random_state, FREQUENCY_STREAM, draw)
    shape = (d, n_features // 2)
    if isinstance(kernel, LaplacianKernel):
        return rng.standard_cauchy(shape) / kernel.bandwidth
    frequencies = np.empty(shape)
    for start, stop in row_ranges(shape[1], d):
        Q, R = qr(rng.standard_normal((d, stop - start)), mode="economic", overwrite_a=True, check_finite=False)
        lengths = np.sqrt(rng.chisquare(d, stop - start)) / kernel.bandwidth
        frequencies[:, start:stop] = Q * np.copysign(lengths, np.diag(R))  # uniform, which Q alone is not
    return frequencies


def write_features(X: Matrix, frequencies: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    """Write `scale Phi(X)` to out (b, a): cosines, then sines; features whose phase overflows are NaN.

    X : (b, d), float64, dense or sparse. scale : (b,), the norm of each row.
    """
    half = frequencies.shape[1]
    with np.errstate(invalid="ignore", over="ignore"):
        phases = X @ frequencies
        np.cos(phases, out=out[:, :half])
        np.sin(phases, out=out[:, half:])
    out *= (scale / np.sqrt(half))[:, None]


def factor_and_features(U: np.ndarray, X: Matrix, scale: np.ndarray, frequencies: np.ndarray) -> np.ndarray:
    """Return [U, zeta] (b, r + a), float64, of a factor U (b, r), points X (b, d) and D^-1/2 (b,)."""
    r = U.shape[1]
    features = np.empty((len(U), r + 2 * frequencies.shape[1]))
    features[:, :r] = U
    write_features(X, frequencies, scale, features[:, r:])
    return features


@dataclass(frozen=True)
class FactorTask:
    """Write the factor `U` of step t - 1 for a run of blocks, and their share `gram` of the Gram matrix of step t.

    rows : X. scale : D^-1/2 (n,). before : U of step t - 2, or of t - 1 without `last`; None if it has no columns.
    last : the state of step t - 1. new : the state of step t; None for the Gram matrix of U alone.
    """

    rows: Rows
    scale: Rows
    before: Rows | None
    last: Parts | None
    new: Parts | None
    start: int
    stop: int
    height: int

    def __call__(self, out: PartWriter) -> Receipt:
        T = None if self.last is None else self.last.read(TRANSFORM)["T"]
        drawn, new = (None if step is None else step.read(DRAW)["frequencies"] for step in (self.last, self.new))
        r = 0 if self.before is None else self.before.shape[1]
        if T is not None:
            r = T.shape[1]
        width = r + (0 if new is None else 2 * new.shape[1])
        gram = np.zeros((width, width))
        receipt = Receipt()
        for low, high in row_ranges(self.stop - self.start, self.height):
            start = self.start + low
            stop = self.start + high
            X = as_points(self.rows.read(start, stop))
            scale = self.scale.read(start, stop)
            require_finite(X, "the points hold")
            U = np.empty((stop - start, 0), FACTOR) if self.before is None else self.before.read(start, stop)
            if T is not None and drawn is not None:
                U = (factor_and_features(U, X, scale, drawn) @ T).astype(FACTOR)
                receipt = out.write_rows(start, U=U)
            S = U.astype(np.float64) if new is None else factor_and_features(U, X, scale, new)
            gram += S.T @ S
            del S  # before that of the next block is made
        return {**receipt, **out.write(gram=gram), "rows": [self.start, self.stop]}

"""The whitened basis of a Nystrom approximation, in which the norm of a function is Euclidean.

With `K_ss = U E U'` and `T = U E^-1/2`, over the eigenvalues above rounding, `T' K_ss T = I`. A function
`f = sum_j a_j K(z_j, .)` with `a = T b` has the norm `|f|_K = |b|` and the values `Phi b`, `Phi = K_ns T`. A system in
b is well posed where one in a is singular: for equal landmarks, wide kernels, kernels of finite rank. Where no
eigenvalue is dropped, a Cholesky factor gives such a T in a fifth of the time of the eigenvectors, as in Rudi,
Carratino, Rosasco, "FALKON", NeurIPS 2017, section 3.

Feature maps `X -> Phi (b, r)` have the kernel `Phi(X) Phi(Z)'`, and a function of it is `Phi b`.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy.linalg import cholesky, eigh, qr
from scipy.linalg.blas import dsymv
from scipy.linalg.lapack import dpotrs, dpstrf, dtrtri

from ..base.digest import is_real
from ..base.errors import DataError, require
from ..base.types import Matrix
from ..solvers.lanczos import block_lanczos
from ..storage.blocks import row_ranges
from ..storage.csr import point_arrays, points_of
from .base import Kernel, MercerKernel
from .gram import kernel_block

CUTOFF = 1e-10  # relative to the largest eigenvalue: well above rounding, about s times 1e-16
NEGATIVE = 1e-8  # relative to the largest eigenvalue: negative eigenvalues by rounding
ASYMMETRY = 1e-8  # relative to the largest entry
PANEL, PANELS = 128, 32  # columns of T multiplied at a time, at least, and at most so many products
MIN_FACTORED = 256  # landmarks, below which eigenvectors take milliseconds
RITZ_TOL, RITZ_STEPS = 1e-3, 200  # of the extreme eigenvalues that tell whether a Cholesky factor keeps all
MAX_LEFT_OUT, PIVOT = 0.05, 4  # share of landmarks that a factor may leave out, and the lowest pivot over the cutoff
MAX_LOST = 8  # times the cutoff: eigenvalues of what the landmarks left out have outside the span of the others


@dataclass(frozen=True)
class Whitening:
    """T (s, r) with `T' K_ss T = I`, and the spectrum of K_ss.

    Columns of `whiten` ascend with the eigenvalues. Signs of columns, and rotations among equal eigenvalues, are
    arbitrary; no function of the kernel depends on them.
    """

    T: np.ndarray
    largest: float  # eigenvalue of K_ss
    condition: float  # the largest eigenvalue over the smallest one kept, at most 1 / cutoff

    @property
    def rank(self) -> int:
        """Return r, the number of eigenvalues kept."""
        return self.T.shape[1]


def whiten(K_ss: np.ndarray, cutoff: float = CUTOFF) -> Whitening:
    """Return T = U E^-1/2 of K_ss = U E U' without the eigenvalues below `cutoff` times the largest.

    K_ss : (s, s), the Gram matrix of the landmarks, in float64: the rounding of float32 is a thousand times the cutoff.
    cutoff : relative eigenvalue, between 0 and 1; smaller eigenvalues are dropped.

    O(s^3) time, 24 s^2 bytes beside K_ss.
    """
    K, size = _checked(K_ss, cutoff)
    return _whitened(np.divide(K, size, dtype=np.float64), size, cutoff)


def whiten_lower(K_ss: np.ndarray, cutoff: float = CUTOFF) -> Whitening:
    """Return a whitening by a lower trapezoidal T, with which products take down to half the flops.

    K_ss : float64, is overwritten. Where no eigenvalue is below the cutoff, T is the inverse of a Cholesky factor of
    K_ss, `2 s^3 / 3` flops: that of `whiten` times an orthogonal matrix. Where few are, it is the same of the landmarks
    without some that nearly lie in the span of the others, about twice the flops: so `K - K T T' K` is at most
    `MAX_LOST` times the cutoff. Else it is that of `whiten` times an orthogonal matrix. 24 s^2 bytes beside K_ss.
    """
    assert K_ss.dtype == np.float64
    K, size = _checked(K_ss, cutoff)
    K /= size
    factored = _inverse_factor(K, size, cutoff) if len(K) >= MIN_FACTORED else None
    if factored is not None:
        return factored
    whitened = _whitened(K, size, cutoff)
    return replace(whitened, T=lower_trapezoidal(whitened.T))


def _checked(K_ss: np.ndarray, cutoff: float) -> tuple[np.ndarray, float]:
    """Return K_ss as an array, and its largest entry; raise unless it can be whitened."""
    require(is_real(cutoff) and 0 < cutoff < 1,
            f"cutoff={cutoff!r}, expected a number above 0 and below 1",
            why="it is the smallest relative eigenvalue that is kept; at 0, rounding errors would be kept",
            fix=f"leave it at {CUTOFF:g}; a larger cutoff drops more functions")
    K = np.asarray(K_ss)
    require(K.ndim == 2 and K.shape[0] == K.shape[1] > 0 and K.dtype.kind in "biuf",
            f"K_ss has shape {K.shape} and dtype {K.dtype}, expected (s, s) numbers", error=DataError,
            why="it compares every landmark with every landmark", fix="pass kernel(Z, Z) of the landmarks Z")
    size = float(np.abs(K).max())
    require(math.isfinite(size), "K_ss holds NaN or infinite values", error=DataError,
            why="a kernel value that is not a number has no eigenvalues",
            fix="drop or impute points that are not finite; scale the features if the kernel overflows")
    require(size > 0, f"K_ss is zero for all {len(K)} landmarks", error=DataError,
            why="the landmarks then span no function but zero",
            fix="check that the features were read correctly, or use a kernel that is not zero at these points")
    apart = max(float(np.abs(K[start:stop] - K[:, start:stop].T).max()) for start, stop in row_ranges(len(K), 256))
    require(apart <= ASYMMETRY * size, f"K_ss differs from its transpose by {apart:.3g}, with entries up to {size:.3g}",
            error=DataError, why="a kernel is symmetric", fix="return K(x, z) = K(z, x)")
    return K, size


def _inverse_factor(K: np.ndarray, size: float, cutoff: float) -> Whitening | None:
    """Return the whitening of `size` K by a Cholesky factor, or None where the cutoff drops more than a few landmarks.

    Where an eigenvalue is below it, a factor with pivots leaves out the landmarks that nearly lie in the span of
    others, at most `MAX_LEFT_OUT` of all.
    """
    largest = _largest_eigenvalue(partial(dsymv, 1.0, K.T), len(K))
    if largest is None or largest <= 0:
        return None
    chosen = np.arange(len(K))
    factored = _reversed_factor(K, chosen, cutoff * largest)
    if factored is None:
        pivots, rank = dpstrf(K.T.copy(order="F"), tol=PIVOT * cutoff * largest, lower=1, overwrite_a=1)[1:3]
        chosen = np.sort(pivots[:rank] - 1)
        if rank >= (1 - MAX_LEFT_OUT) * len(K):
            factored = _reversed_factor(K, chosen, cutoff * largest)
        if factored is None or not _in_span(K, chosen, factored[0], largest, cutoff):
            return None
    T = np.zeros((len(K), len(chosen)))
    T[chosen] = factored[0]
    T /= math.sqrt(size)
    return Whitening(T, largest * size, largest / factored[1])


def _reversed_factor(K: np.ndarray, chosen: np.ndarray, smallest: float) -> tuple[np.ndarray, float] | None:
    """Return the lower triangular T with `T' K T = I` of the chosen rows and columns of K, and its lowest eigenvalue.

    None where that is below `smallest`. With rows and columns in reverse, `K = J C C' J` with C lower triangular has
    `T = J C^-T J`.
    """
    order = chosen[::-1]
    try:
        C = cholesky(K[np.ix_(order, order)].T, lower=True, overwrite_a=True, check_finite=False)
    except np.linalg.LinAlgError:
        return None
    inverse = _largest_eigenvalue(lambda x: dpotrs(C, x, lower=1)[0], len(C))
    if inverse is None or 1 / inverse < smallest:
        return None
    return dtrtri(C, lower=1, overwrite_c=1)[0].T[::-1, ::-1], 1 / inverse


def _in_span(K: np.ndarray, chosen: np.ndarray, T: np.ndarray, largest: float, cutoff: float) -> bool:
    """Return whether what the landmarks that are left out have outside the span of the chosen ones is negligible.

    That is the Schur complement of K, whose eigenvalues are none that the cutoff would keep, but for a factor of
    `MAX_LOST`, and none below zero but for rounding.
    """
    without = np.setdiff1d(np.arange(len(K)), chosen)
    across = T.T @ K[np.ix_(chosen, without)]
    values = eigh(K[np.ix_(without, without)] - across.T @ across, eigvals_only=True, check_finite=False)
    return bool(values[0] >= -NEGATIVE * largest and values[-1] <= MAX_LOST * cutoff * largest)


def _largest_eigenvalue(times: Callable[[np.ndarray], np.ndarray], n: int) -> float | None:
    """Return the largest eigenvalue of a symmetric matrix (n, n) to `RITZ_TOL`; None where Lanczos' method ends before.

    times : multiplies a vector (n,).
    """
    def finished(values: np.ndarray, residuals: np.ndarray) -> bool:
        return bool(residuals[0] <= RITZ_TOL * abs(values[0]))

    start = np.random.default_rng(0).standard_normal((n, 1))
    pairs = block_lanczos(lambda X: times(X[:, 0])[:, None], start, lambda X: None, RITZ_STEPS, finished, 0)
    return float(pairs.values[0]) if pairs.finished else None


def _whitened(K: np.ndarray, size: float, cutoff: float) -> Whitening:
    """Return the whitening of `size` K by the eigenvectors of K, which is overwritten and whose largest entry is 1."""
    # Divided by its largest entry, a Gram matrix of 1e-200 does not underflow. "evd" takes as long as "evr", and its
    # vectors are orthogonal to rounding.
    values, vectors = eigh(K.T, driver="evd", overwrite_a=True, check_finite=False)
    largest = float(values[-1])
    require(values[0] >= -NEGATIVE * largest, f"K_ss has the eigenvalue {values[0] * size:.3g} below zero, the largest "
            f"is {largest * size:.3g}", error=DataError,
            why="a kernel has no negative eigenvalue, and the norm of a function would be imaginary",
            fix="use a positive semi-definite kernel")
    first = int(np.searchsorted(values, cutoff * largest))  # eigenvalues ascend
    T = vectors[:, first:]
    T /= np.sqrt(values[first:]) * math.sqrt(size)
    return Whitening(T, largest * size, largest / float(values[first]))


def lower_trapezoidal(T: np.ndarray) -> np.ndarray:
    """Return T Q (s, r), zero above its diagonal, with Q orthogonal; O(s r^2) time.

    It is a basis of the same functions, and products with it take up to half the flops.
    """
    return np.tril(qr(T.T, mode="r", check_finite=False)[0][:T.shape[1]].T)


class FeatureMap(ABC):
    """A map of points to r features."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Return r."""

    @abstractmethod
    def __call__(self, X: Matrix) -> np.ndarray:
        """Return Phi(X), shape (b, r), of dense or sparse points (b, d)."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that with the kernel define the map."""


@dataclass(frozen=True, eq=False)
class LandmarkMap(FeatureMap):
    """`Phi = K(X, Z) T` of landmarks Z (s, d); whitened, T' K(Z, Z) T = I, it is that of the Nystrom approximation.

    T : (s, r), lower trapezoidal, see `whiten_lower`; None for the kernel of the landmarks itself.
    dtype : of kernels and features, "float64" or "float32".
    """

    kernel: Kernel
    points: Matrix  # Z
    T: np.ndarray | None = None
    dtype: str = "float64"

    def __post_init__(self) -> None:
        assert self.T is None or not self.T[0, 1:].any()  # a T with entries above its diagonal has some there

    @property
    def width(self) -> int:
        return self.points.shape[0] if self.T is None else self.T.shape[1]

    def __call__(self, X: Matrix) -> np.ndarray:
        return self.of_block(self.block(X))

    def block(self, X: Matrix) -> np.ndarray:
        """Return K(X, Z), shape (b, s)."""
        if isinstance(self.kernel, MercerKernel):
            return self.kernel(X, self.points, dtype=np.dtype(self.dtype))
        return kernel_block(self.kernel, X, self.points).astype(self.dtype, copy=False)

    def of_block(self, K: np.ndarray) -> np.ndarray:
        """Return the features (b, r) of points whose kernel with the landmarks is K (b, s)."""
        return K if self.T is None else times_lower(K, self.T)

    def arrays(self) -> dict[str, np.ndarray]:
        return {**point_arrays("Z", self.points), **({} if self.T is None else {"T": self.T})}

    @classmethod
    def of(cls, kernel: Kernel, arrays: dict[str, np.ndarray], dtype: str = "float64") -> "LandmarkMap":
        """Return the map of a kernel and `arrays`, T rounded to `dtype`."""
        T = arrays.get("T")
        return cls(kernel, points_of(arrays, "Z"), None if T is None else T.astype(dtype, copy=False), dtype)


def times_lower(K: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Return K T for a lower trapezoidal T (s, r), with down to half the flops of the full product.

    SciPy calls trmm of BLAS without releasing the GIL, so it multiplies some columns at a time without their zeros.
    """
    product = np.empty((len(K), T.shape[1]), K.dtype)
    for start, stop in row_ranges(T.shape[1], max(PANEL, T.shape[1] // PANELS)):
        np.matmul(K[:, start:], T[start:, start:stop], out=product[:, start:stop])
    return product

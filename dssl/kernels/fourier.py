"""Random Fourier features: maps `Phi` (n, a) of which `Phi Phi'` is a kernel of x - z, on the mean of many draws.

By Bochner's theorem such a kernel is `E cos(w'(x - z))`, w drawn from its Fourier transform; a cosine and a sine of
each frequency make features whose diagonal is exact in every draw (Rahimi, Recht, "Random features for large-scale
kernel machines", NIPS 2007).
"""

from typing import Any

import numpy as np
from scipy.linalg import qr

from ..base.errors import require
from ..storage.blocks import block_rng, row_ranges
from .base import RBF, DistanceKernel, Kernel, LaplacianKernel

FREQUENCY_STREAM = 5  # of the seed; `landmarks`, `leverage` and `centers` draw from streams 0 to 4


def require_fourier(kernel: Kernel) -> None:
    """Raise ParameterError unless the Fourier transform of the kernel is known."""
    require(isinstance(kernel, RBF | LaplacianKernel), f"kernel {kernel!r} has no random Fourier features here",
            why="frequencies are drawn from the Fourier transform of a kernel, which is known for rbf and laplacian",
            fix='use approximation="nystrom", or kernel "rbf" or "laplacian"')


def fourier_frequencies(kernel: DistanceKernel, d: int, n_features: int, random_state: int, draw: int) -> np.ndarray:
    """Return the frequencies of one draw, (d, a / 2), from the Fourier transform of the kernel.

    Of `rbf` each is normal, and d at a time are orthogonal: features vary less about the kernel than with independent
    ones (Yu, Suresh, Choromanski, Holtmann-Rice, Kumar, "Orthogonal random features", NIPS 2016). Of `laplacian` they
    are Cauchy in each coordinate. O(d min(d, a) a) time.
    """
    rng, shape = block_rng(random_state, FREQUENCY_STREAM, draw), (d, n_features // 2)
    if isinstance(kernel, LaplacianKernel):
        return rng.standard_cauchy(shape) / kernel.bandwidth
    frequencies = np.empty(shape)
    for start, stop in row_ranges(shape[1], d):
        Q, R = qr(rng.standard_normal((d, stop - start)), mode="economic", overwrite_a=True, check_finite=False)
        lengths = np.sqrt(rng.chisquare(d, stop - start)) / kernel.bandwidth
        frequencies[:, start:stop] = Q * np.copysign(lengths, np.diag(R))  # uniform, which Q alone is not
    return frequencies


def write_features(X: Any, frequencies: np.ndarray, scale: np.ndarray, out: np.ndarray) -> None:
    """Write `scale Phi(X)` to out (b, a): cosines, then sines, each row of the length of its scale.

    X : (b, d), float64, dense or sparse. scale : (b,). Where a phase is beyond floats its features are NaN.
    """
    half = frequencies.shape[1]
    with np.errstate(invalid="ignore", over="ignore"):
        phases = X @ frequencies
        np.cos(phases, out=out[:, :half])
        np.sin(phases, out=out[:, half:])
    out *= (scale / np.sqrt(half))[:, None]

"""Random Fourier features: maps `Phi` (n, a) of which `Phi Phi'` is a kernel of x - z, on the mean of many draws.

By Bochner's theorem such a kernel is `E cos(w'(x - z))`, w drawn from its Fourier transform; a cosine and a sine of
each frequency make features whose diagonal is exact in every draw (Rahimi, Recht, "Random features for large-scale
kernel machines", NIPS 2007).
"""

from typing import Any

import numpy as np

from ..errors import ParameterError, explain
from ..storage.blocks import block_rng
from .base import RBF, Kernel, LaplacianKernel

FREQUENCY_STREAM = 5  # of the seed; `landmarks`, `leverage` and `centers` draw from streams 0 to 4


def fourier_frequencies(kernel: Kernel, d: int, n_features: int, seed: int, draw: int) -> np.ndarray:
    """Return the frequencies of one draw, (d, a / 2), from the Fourier transform of the kernel.

    Of `rbf` they are normal, of `laplacian` Cauchy in each coordinate.

    Raises
    ------
    ParameterError : of another kernel.
    """
    if not isinstance(kernel, RBF | LaplacianKernel):
        raise ParameterError(explain(
            f"kernel {kernel!r} has no random Fourier features here",
            why="frequencies are drawn from the Fourier transform of a kernel, which is known for rbf and laplacian",
            fix='use approximation="nystrom", or kernel "rbf" or "laplacian"'))
    rng, shape = block_rng(seed, FREQUENCY_STREAM, draw), (d, n_features // 2)
    drawn = rng.standard_normal(shape) if isinstance(kernel, RBF) else rng.standard_cauchy(shape)
    drawn /= kernel.bandwidth
    return drawn


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

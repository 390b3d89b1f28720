"""Feature maps `X -> Phi (b, r)`: the kernel of a map is `Phi(X) Phi(Z)'`, and a function of it is `Phi b`."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..storage.blocks import row_ranges
from ..storage.csr import point_arrays, points_of
from .base import Kernel, MercerKernel
from .gram import kernel_block

PANEL = 128  # columns of T multiplied at a time


class FeatureMap(ABC):
    """A map of points to r features."""

    @property
    @abstractmethod
    def width(self) -> int:
        """Return r."""

    @abstractmethod
    def __call__(self, X: Any) -> np.ndarray:
        """Return Phi(X), shape (b, r), of dense or sparse points (b, d)."""

    @abstractmethod
    def arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that with the kernel define the map."""


@dataclass(frozen=True, eq=False)
class LandmarkMap(FeatureMap):
    """`Phi = K(X, Z) T` of landmarks Z (s, d); whitened, T' K(Z, Z) T = I, it is that of the Nystrom approximation.

    T : (s, r), lower trapezoidal; None for the kernel of the landmarks itself.
    dtype : of kernels and features, "float64" or "float32".
    """

    kernel: Kernel
    points: Any  # Z
    T: np.ndarray | None = None
    dtype: str = "float64"

    @property
    def width(self) -> int:
        return self.points.shape[0] if self.T is None else self.T.shape[1]

    def __call__(self, X: Any) -> np.ndarray:
        return self.of_block(self.block(X))

    def block(self, X: Any) -> np.ndarray:
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

    SciPy calls trmm of BLAS without releasing the GIL, so it multiplies `PANEL` columns at a time without their zeros.
    """
    product = np.empty((len(K), T.shape[1]), K.dtype)
    for start, stop in row_ranges(T.shape[1], PANEL):
        np.matmul(K[:, start:], T[start:, start:stop], out=product[:, start:stop])
    return product

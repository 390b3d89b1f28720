"""The weighted sum of kernels that one graph deforms, by another eta each: more of the graph and less of it at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..storage.csr import stack_points
from .base import Kernel
from .deformed import DeformedKernel


@dataclass(frozen=True, eq=False)
class KernelMean:
    """`sum_i weights_i K_i`, of kernels of one base kernel and one subsample."""

    parts: Sequence[DeformedKernel]
    weights: Sequence[float]

    def __call__(self, X: Any, Z: Any, /) -> np.ndarray:
        """Return the kernel of X (n, d) and Z (m, d), arrays or sparse rows, shape (n, m)."""
        return np.asarray(sum(weight * part(X, Z) for part, weight in zip(self.parts, self.weights, strict=True)))

    def diagonal(self, X: Any) -> np.ndarray:
        """Return K(x_i, x_i), shape (n,)."""
        return np.asarray(sum(weight * part.diagonal(X) for part, weight in zip(self.parts, self.weights, strict=True)))

    def expansion(self, Z: Any, coef: np.ndarray) -> tuple[Kernel, Any, np.ndarray]:
        """Return the base kernel, points and coefficients of the function sum_i coef_i K(z_i, .)."""
        of_points, of_subsample = np.zeros_like(coef), None
        for part, weight in zip(self.parts, self.weights, strict=True):
            expanded = weight * part.expansion(Z, coef)[2]
            of_points += expanded[:len(coef)]
            if part.factor is not None:
                of_subsample = expanded[len(coef):] + (0 if of_subsample is None else of_subsample)
        first = self.parts[0]
        if of_subsample is None:
            return first.kernel, Z, of_points
        return first.kernel, stack_points(Z, first.subsample), np.concatenate([of_points, of_subsample])

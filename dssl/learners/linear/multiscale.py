"""Models in the multi-scale eigen kernel, linear in its features.

Algorithm 1 of the paper takes, of a grid alpha = p, p^2, ..., p^N with p < 1, the one with the smallest residual
`|K (K + alpha I)^-1 y - y|` at the labels. The residual falls with alpha, so that is always p^N, interpolation up to
rounding. Here alpha is 1 / C, a parameter, for the kernel of unit diagonal, or of eq. 7 over its median diagonal at the
landmarks.
"""

from dataclasses import dataclass, field
from typing import Self

import numpy as np

from ...base.digest import JsonObject
from ...kernels.base import Kernel
from ...kernels.multiscale import MultiscaleMap
from ...storage.blocks import Rows
from ...storage.csr import Points
from ..model import register_model
from ..target.coding import Coding
from .kernel_model import MIN_SUPPORT, ModelInKernel


@dataclass(frozen=True, eq=False)
class MultiscaleModel(ModelInKernel):
    """`f(x) = Phi(x) coef + intercept` of the features of a `MultiscaleMap`; coef (r + 1, c), intercept (c,).

    Support is that of W of the largest scale in use; far from all landmarks the features are those of the nearest.
    """

    features: MultiscaleMap
    coef: np.ndarray
    intercept: np.ndarray
    coding: Coding
    attributes: JsonObject = field(default_factory=dict)

    @property
    def kernel(self) -> Kernel:  # type: ignore[override]
        return self.features.widest

    @property
    def points(self) -> Points:
        return self.features.points

    def block_values(self, X: Points) -> tuple[np.ndarray, np.ndarray]:
        return self.features(X) @ self.coef + self.intercept, self.block_support(X) < MIN_SUPPORT

    def row_bytes(self, rows: Rows) -> int:
        return super().row_bytes(rows) + self.features.row_bytes

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**self.features.arrays(), "coef": self.coef, "intercept": self.intercept}

    @classmethod
    def _of(cls, kernel: Kernel, coding: Coding, arrays: dict[str, np.ndarray],
            attributes: JsonObject | None = None) -> Self:
        return cls(MultiscaleMap.of(arrays), arrays["coef"], arrays["intercept"], coding, attributes or {})


def scaled_features(features: MultiscaleMap, rows: Rows, numbers: np.ndarray, budget: int) -> np.ndarray:
    """Return the features (m, r + 1) of some rows, of unit length, or with a median length of 1 at the landmarks."""
    return features.of_rows(rows, numbers, budget) / np.sqrt(features.typical)


def multiscale_model(features: MultiscaleMap, coef: np.ndarray, intercept: np.ndarray, coding: Coding,
                     attributes: JsonObject | None = None) -> MultiscaleModel:
    """Return the model that is linear in `scaled_features`."""
    return MultiscaleModel(features, coef / np.sqrt(features.typical), intercept, coding, attributes or {})


register_model("MultiscaleModel", MultiscaleModel)

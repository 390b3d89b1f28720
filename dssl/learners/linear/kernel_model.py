"""Fitted models in a kernel: points, coefficients and intercepts, or the features of the multi-scale eigen kernel.

For the multi-scale eigen kernel K (`kernels/multiscale.py`), Algorithm 1 of Mhaskar et al. selects the penalty alpha
from a grid p, p^2, ..., p^N with p < 1, by the smallest residual `|K (K + alpha I)^-1 y - y|` at the labels. The
residual falls with alpha, so the selected penalty is always p^N, which interpolates up to rounding. Here alpha is
1 / C, a parameter. It applies to the kernel of unit diagonal, or to that of eq. 7 over its median diagonal at the
landmarks.

References
----------
Mhaskar, Pereverzyev, Semenov, Semenova, "Data based construction of kernels for classification", 2018.
"""

from abc import abstractmethod
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Self

import numpy as np
from scipy import sparse

from ...base.digest import JsonObject
from ...base.errors import require
from ...base.types import Matrix
from ...execution.tasks import Execution
from ...kernels.base import Kernel, MercerKernel, diagonal_of, kernel_from_dict
from ...kernels.cluster import VirtualSamples
from ...kernels.gram import block_row_bytes, entries_of, held_points_bytes, kernel_block
from ...kernels.multiscale import MultiscaleMap
from ...storage.blocks import Rows
from ...storage.csr import point_arrays, points_of
from ..model import Model, SharedModels, coding_of, fit_attributes, register_model
from ..target.coding import Coding

VERSION = 1
MIN_SUPPORT = 1e-10  # below it a value equals the intercept to ten digits


class ModelInKernel(Model):
    """A model of stored points (m, d) in a kernel, with coef (k, c) and intercept (c,).

    Subclasses are dataclasses that are registered under their names.
    """

    kernel: Kernel
    points: Matrix
    coef: np.ndarray
    intercept: np.ndarray

    @property
    def n_features(self) -> int:
        return self.points.shape[1]

    @property
    def n_columns(self) -> int:
        return len(self.intercept)

    def linear(self, coef: np.ndarray, intercept: np.ndarray, coding: Coding, attributes: JsonObject) -> Self:
        """Return the model whose values are those of this one times coef (c, k), plus intercept (k,)."""
        changed = {"coef": self.coef @ coef, "intercept": self.intercept @ coef + intercept}
        return replace(self, **changed, coding=coding, attributes=attributes)  # type: ignore[type-var]

    def shifted(self, offset: np.ndarray) -> Self:
        """Return the model plus an offset (c,)."""
        return replace(self, intercept=self.intercept + offset)  # type: ignore[type-var]

    def block_support(self, X: Matrix) -> np.ndarray:
        """Return the largest |K(x, z_j)| over the model's points, relative to the largest K(z_j, z_j), (b,).

        Below `MIN_SUPPORT` f(x) is the intercept: the model has no information about x.
        """
        return self._support(kernel_block(self.kernel, X, self.points))

    def _support(self, block: np.ndarray) -> np.ndarray:
        largest: np.ndarray = np.maximum(block.max(axis=1), -block.min(axis=1))
        return largest / (float(diagonal_of(self.kernel, self.points).max()) or 1.0)

    def row_bytes(self, rows: Rows) -> int:
        return block_row_bytes(self.kernel, rows, self.points.shape[0], entries_of(self.points))

    def fixed_bytes(self, rows: Rows) -> int:
        return held_points_bytes(rows, self.points.shape[0], entries_of(self.points))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**point_arrays("points", self.points), "coef": self.coef, "intercept": self.intercept}

    @classmethod
    @abstractmethod
    def _of(cls, kernel: Kernel, coding: Coding, arrays: dict[str, np.ndarray],
            attributes: JsonObject | None = None) -> Self:
        """Return the model of the arrays of `_arrays`."""

    def shared(self, execution: Execution) -> SharedModels:
        """Return the model for tasks; unlike in `to_arrays`, the kernel may be a function."""
        return SharedModels(execution.share(**{f"model.{key}": array for key, array in self._arrays().items()}),
                            {"model": partial(type(self)._of, self.kernel, self.coding)})

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        require(isinstance(self.kernel, MercerKernel), f"the kernel {self.kernel!r} cannot be stored",
                why="a function is code, and models hold numbers only", fix="use a kernel that has a name")
        kernel: MercerKernel = self.kernel  # type: ignore[assignment]
        return self._arrays(), {
            "type": type(self).__name__, "version": VERSION, "kernel": kernel.to_dict(), "coding": self.coding.name,
            "classes": self.coding.classes.tolist(), **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> Self:
        rest = fit_attributes(attributes, cls.__name__, VERSION, ("kernel",))
        return cls._of(kernel_from_dict(attributes["kernel"]), coding_of(attributes), arrays, rest)


@dataclass(frozen=True, eq=False)
class KernelModel(ModelInKernel):
    """`f(x) = K(x, points) coef + intercept` in a base kernel; prediction needs neither graph nor solve."""

    kernel: Kernel
    points: Matrix
    coef: np.ndarray
    intercept: np.ndarray
    coding: Coding
    attributes: JsonObject = field(default_factory=dict)

    def block_values(self, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
        block = kernel_block(self.kernel, X, self.points)
        return block @ self.coef + self.intercept, self._support(block) < MIN_SUPPORT

    @classmethod
    def _of(cls, kernel: Kernel, coding: Coding, arrays: dict[str, np.ndarray],
            attributes: JsonObject | None = None) -> Self:
        return cls(kernel, points_of(arrays, "points"), arrays["coef"], arrays["intercept"], coding, attributes or {})


def expand(kernel: Kernel, points: Matrix, coef: np.ndarray, intercept: np.ndarray, coding: Coding,
           attributes: JsonObject | None = None) -> KernelModel:
    """Return the model `kernel(x, points) coef + intercept`; a deformed kernel is expanded in its base kernel."""
    if hasattr(kernel, "expansion"):
        kernel, points, coef = kernel.expansion(points, coef)
    points = points if sparse.issparse(points) else np.asarray(points)
    return KernelModel(kernel, points, coef, intercept, coding, attributes or {})


register_model("KernelModel", KernelModel)


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
    def points(self) -> Matrix:  # type: ignore[override]
        return self.features.points

    def block_values(self, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
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


def multiscale_model(features: MultiscaleMap, coef: np.ndarray, intercept: np.ndarray,
                     coding: Coding) -> MultiscaleModel:
    """Return the model that is linear in `scaled_features`."""
    return MultiscaleModel(features, coef / np.sqrt(features.typical), intercept, coding)


register_model("MultiscaleModel", MultiscaleModel)


@dataclass(frozen=True, eq=False)
class SampleModel(ModelInKernel):
    """`f(x) = F(x) coef + intercept` of the virtual samples F (`VirtualSamples`); coef (k, c), intercept (c,)."""

    kernel: Kernel
    points: Matrix
    M: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    coding: Coding
    attributes: JsonObject = field(default_factory=dict)

    @property
    def samples(self) -> VirtualSamples:
        return VirtualSamples(self.kernel, self.points, self.M)

    def block_values(self, X: Matrix) -> tuple[np.ndarray, np.ndarray]:
        samples = self.samples
        K = samples.block(X)
        return samples.of_block(K) @ self.coef + self.intercept, (K == 0).all(axis=1)

    def row_bytes(self, rows: Rows) -> int:
        return super().row_bytes(rows) + 8 * (self.points.shape[0] + 2 * self.M.shape[1])

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**super()._arrays(), "M": self.M}

    @classmethod
    def _of(cls, kernel: Kernel, coding: Coding, arrays: dict[str, np.ndarray],
            attributes: JsonObject | None = None) -> Self:
        return cls(kernel, points_of(arrays, "points"), arrays["M"], arrays["coef"], arrays["intercept"], coding,
                   attributes or {})


def sample_model(samples: VirtualSamples, coef: np.ndarray, intercept: np.ndarray, coding: Coding) -> SampleModel:
    """Return the model that is linear in these virtual samples."""
    return SampleModel(samples.kernel, samples.points, samples.M, coef, intercept, coding)


register_model("SampleModel", SampleModel)

"""Mercer kernels `K(X, Z) -> block` by name, and the median heuristic for their bandwidth.

A kernel is a frozen dataclass, stored as its JSON form. Any function of two sets of points that returns their block is
a kernel too, but cannot be stored. Points are arrays, or sparse rows (`scipy.sparse.csr_array`); a block is an array.
"""

import dataclasses
import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from numbers import Real
from typing import ClassVar, Literal, Protocol

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse
from scipy.spatial.distance import pdist

from ..base.digest import BANDWIDTH, JsonObject, multiple_of, plain, require_random_state
from ..base.errors import DataError, require
from ..base.plugins import Registry
from ..base.types import Matrix, MatrixLike
from ..graph.equal_rows import rows_differ
from ..storage.blocks import Rows, row_ranges
from ..storage.csr import as_rows, largest_of_rows, unit_rows
from .points import (
    as_points,
    city_block_distances,
    dot_products,
    matching_points,
    require_finite,
    squared_distances,
    squared_norms,
)

Metric = Literal["euclidean", "cityblock"]
MEDIANS = (1e-95, 1e95)  # of distances, of which multiples are bandwidths
FLOAT32_ROWS = 1024  # of a float32 block, evaluated at a time


class Kernel(Protocol):
    """A function of points X (b, d) and Z (m, d) that returns the block K(x_i, z_j), shape (b, m), float64."""

    def __call__(self, X: Matrix, Z: Matrix, /) -> np.ndarray: ...


class MercerKernel(ABC):
    """A kernel with parameters: it checks the shapes, converts to float64, and keeps the diagonal exact."""

    name: ClassVar[str]

    def __call__(self, X: MatrixLike, Z: MatrixLike, /, dtype: DTypeLike = np.float64) -> np.ndarray:
        """Return K(X, Z), shape (n, m), of type `dtype`; if X is Z it is symmetric and its diagonal exact.

        In float32 the error of a kernel of distances is about 1e-7 times the squared distance of the points from the
        mean of Z, over the squared bandwidth. If one of X and Z is sparse, the other is converted. Peak memory in
        bytes: `row_bytes(d, m)` per row of X, and 16 d per row of Z; for sparse rows d is 1.5 times their entries.
        """
        points, others = matching_points(X, Z, dtype)
        if np.dtype(dtype) != np.float64 and points is not others:
            # Some kernels are computed in float64 for any points, so a few rows at a time.
            block = np.empty((points.shape[0], others.shape[0]), dtype)
            for start, stop in row_ranges(points.shape[0], FLOAT32_ROWS):
                block[start:stop] = self._block(points[start:stop], others)
            return block
        block = self._block(points, others)
        if points is others:
            np.fill_diagonal(block, self.diagonal(points))
        return block.astype(dtype, copy=False)

    @abstractmethod
    def _block(self, X: Matrix, Z: Matrix) -> np.ndarray:
        """Return the block of two sets of float64 points, both arrays or both sparse."""

    @abstractmethod
    def diagonal(self, X: Matrix) -> np.ndarray:
        """Return K(x_i, x_i), shape (n,)."""

    def row_bytes(self, n_features: int, n_points: int) -> int:
        """Return the bytes of one row of X in a call: its block, a float64 copy and a centered copy."""
        return 8 * n_points + 16 * n_features + 16

    def to_dict(self) -> JsonObject:
        """Return the JSON form, read by `kernel_from_dict`."""
        return {**plain(self), "type": self.name}


@dataclass(frozen=True)
class DistanceKernel(MercerKernel):
    """A kernel of the distance over `bandwidth`, 1 between equal points."""

    bandwidth: float

    def __post_init__(self) -> None:
        require(isinstance(self.bandwidth, Real) and 1e-100 <= float(self.bandwidth) <= 1e100,
                f"bandwidth={self.bandwidth!r}, expected a positive number",
                why="it is the distance at which two points stop being similar, in the units of the features",
                fix='use "median" where a kernel is named, or a typical distance between neighbors')

    def diagonal(self, X: Matrix) -> np.ndarray:
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class RBF(DistanceKernel):
    """exp(-|x - z|^2 / (2 bandwidth^2)), with the Euclidean norm."""

    name: ClassVar[str] = "rbf"

    def _block(self, X: Matrix, Z: Matrix) -> np.ndarray:
        squared = squared_distances(X, Z)
        return self.of_squared_distances(squared, out=squared)

    def of_squared_distances(self, squared: np.ndarray, out: np.ndarray | None = None) -> np.ndarray:
        """Return the kernel of squared distances (n, m), in the array `out` if there is one."""
        block = np.multiply(squared, -0.5 / self.bandwidth**2, out=out)
        return np.exp(block, out=block)


@dataclass(frozen=True)
class LaplacianKernel(DistanceKernel):
    """exp(-|x - z|_1 / bandwidth), with the sum of absolute differences."""

    name: ClassVar[str] = "laplacian"

    def _block(self, X: Matrix, Z: Matrix) -> np.ndarray:
        block = city_block_distances(X, Z)
        block *= -1.0 / self.bandwidth
        return np.exp(block, out=block)


@dataclass(frozen=True)
class Linear(MercerKernel):
    """The inner product x'z."""

    name: ClassVar[str] = "linear"

    def _block(self, X: Matrix, Z: Matrix) -> np.ndarray:
        return dot_products(X, Z)

    def diagonal(self, X: Matrix) -> np.ndarray:
        return squared_norms(X)


@dataclass(frozen=True)
class Polynomial(MercerKernel):
    """(scale x'z + offset)^degree; a kernel for scale > 0, offset >= 0 and a whole degree >= 1."""

    degree: int = 3
    scale: float = 1.0
    offset: float = 1.0
    name: ClassVar[str] = "polynomial"

    def __post_init__(self) -> None:
        require(isinstance(self.degree, int) and self.degree >= 1 and 0 < self.scale < math.inf
                and 0 <= self.offset < math.inf,
                f"degree={self.degree!r}, scale={self.scale!r}, offset={self.offset!r}",
                why="with other values the Gram matrix can have negative eigenvalues",
                fix="use a whole degree >= 1, scale > 0 and offset >= 0; scale = 1 / n_features is a common start")

    def _block(self, X: Matrix, Z: Matrix) -> np.ndarray:
        return self._of_products(dot_products(X, Z))

    def diagonal(self, X: Matrix) -> np.ndarray:
        return self._of_products(squared_norms(X))

    def _of_products(self, products: np.ndarray) -> np.ndarray:
        products *= self.scale
        products += self.offset
        np.power(products, self.degree, out=products)
        return products


@dataclass(frozen=True)
class Cosine(MercerKernel):
    """x'z / (|x| |z|), and 0 if x or z is the zero vector."""

    name: ClassVar[str] = "cosine"

    def _block(self, X: Matrix, Z: Matrix) -> np.ndarray:
        unit = unit_rows(Z)
        return dot_products(unit if X is Z else unit_rows(X), unit)

    def diagonal(self, X: Matrix) -> np.ndarray:
        points = as_points(X)
        return np.where(largest_of_rows(points) > 0 if sparse.issparse(points) else points.any(axis=1), 1.0, 0.0)


KERNELS = Registry[MercerKernel]("kernel", RBF, LaplacianKernel, Linear, Polynomial, Cosine)


def kernel_type(name: object) -> type[MercerKernel]:
    """Return the kernel of a name, also from plugins; raise ParameterError if there is none."""
    return KERNELS.named(name, hint="use one of these names, or pass a function (X, Z) -> block of shape "
                                    "(len(X), len(Z))")


def has_bandwidth(name: str) -> bool:
    """Return whether the kernel of this name has a bandwidth."""
    return "bandwidth" in (field.name for field in dataclasses.fields(kernel_type(name)))  # type: ignore[arg-type]


def kernel_from(name: str | Kernel, bandwidth: float | str | None = None, *,
                rows: Rows | np.ndarray | None = None, random_state: int = 0, **parameters: object) -> Kernel:
    """Return the kernel with this name and these parameters; a kernel or function is returned as it is.

    name : one of `KERNELS`, or any function (X, Z) -> block.
    bandwidth : in units of the features; "median" is the `median_bandwidth` of `rows`, "0.5*median" or None half of it.
    rows : points for the median.
    parameters : the other fields of the kernel, such as degree, scale, offset.
    """
    if not isinstance(name, str):
        require(callable(name), f"kernel={name!r} is neither a name nor a function",
                why="a kernel is called with two arrays of points", fix=f"use one of {', '.join(KERNELS)}")
        require(not parameters and bandwidth is None,
                f"kernel={name!r} with bandwidth={bandwidth!r} and {parameters}",
                why="a function has its own parameters", fix="leave them out, or name a kernel")
        return name
    kernel = kernel_type(name)
    known = [field.name for field in dataclasses.fields(kernel)]  # type: ignore[arg-type]
    if "bandwidth" in known:
        if bandwidth is None or isinstance(bandwidth, str):
            factor = multiple_of("median", bandwidth or BANDWIDTH)
            require(factor > 0, f"bandwidth={bandwidth!r}, expected a number or a multiple of the median",
                    why="a bandwidth is a distance between points", fix='use "median", "0.5*median", or a number')
            require(rows is not None, f"kernel {name!r} has no bandwidth and no rows to take the median distance of",
                    why="the bandwidth follows from the data or from you", fix="pass bandwidth=a number, or rows=X")
            metric: Metric = "cityblock" if kernel is LaplacianKernel else "euclidean"
            bandwidth = factor * median_bandwidth(rows, random_state, metric=metric)
        parameters["bandwidth"] = bandwidth
    elif isinstance(bandwidth, Real):
        parameters["bandwidth"] = bandwidth  # refused below
    unknown = sorted(set(parameters) - set(known))
    require(not unknown, f"kernel {name!r} has no parameter {', '.join(unknown)}",
            why=f"its parameters are: {', '.join(known) or 'none'}", fix="remove it, or choose a kernel that has it")
    return kernel(**parameters)


@dataclass(frozen=True)
class BaseKernels:
    """A base kernel with each of some bandwidths; random_state : of the sample of points for a median."""

    name: str | Kernel
    parameters: dict[str, int | float]
    bandwidths: tuple[float | str | None, ...]
    random_state: int

    def on(self, rows: Rows) -> list[Kernel]:
        """Return the kernels; a median distance is computed from the rows."""
        return [self.at(bandwidth, rows) for bandwidth in self.bandwidths]

    def at(self, bandwidth: float | str | None, rows: Rows | None) -> Kernel:
        """Return the kernel with one bandwidth, which needs rows unless it is a number."""
        return kernel_from(self.name, bandwidth, rows=rows, random_state=self.random_state, **self.parameters)

    def for_costs(self) -> Kernel:
        """Return the first kernel for a cost, with 1 in place of the median distance."""
        bandwidth = self.bandwidths[0]
        if isinstance(self.name, str) and has_bandwidth(self.name) and not isinstance(bandwidth, int | float):
            bandwidth = multiple_of("median", bandwidth or BANDWIDTH)
        return self.at(bandwidth, None)


def kernel_from_dict(fields: JsonObject) -> MercerKernel:
    """Return the kernel of a JSON form by `to_dict`."""
    parameters = {key: value for key, value in fields.items() if key != "type"}
    return kernel_type(fields.get("type"))(**parameters)


def median_sample(n: int, random_state: int, sample: int = 1000) -> np.ndarray:
    """Return the numbers of the rows, of n, that `median_bandwidth` takes, ascending."""
    require_random_state(random_state)
    return np.sort(np.random.default_rng(random_state).permutation(n)[:sample])


def median_bandwidth(rows: Rows | np.ndarray | None, random_state: int, sample: int = 1000, *,
                     metric: Metric = "euclidean") -> float:
    """Return the median distance of two different points, over a random sample of rows.

    Duplicates do not count. O(sample^2 d) time, 8 sample^2 / 2 bytes, or 40 sample^2 / 2 for sparse points.
    """
    points = as_rows(rows)
    ids = median_sample(len(points), random_state, sample)
    sampled = as_points(points.take(ids))
    require_finite(sampled, "the points hold")
    if sparse.issparse(sampled):
        between = squared_distances if metric == "euclidean" else city_block_distances
        with np.errstate(over="ignore", invalid="ignore"):  # no such median is a bandwidth, see below
            distances = between(sampled, sampled)[np.triu_indices(len(ids), 1)]
        distances = np.sqrt(distances) if metric == "euclidean" else distances
    else:
        distances = pdist(sampled, metric)
    positive = distances[distances > 0]
    differ = positive.size > 0 or bool(rows_differ(sampled, sampled[np.zeros(len(ids), int)]).any())
    require(differ, "all sampled points are equal, or there is only 1 sample", error=DataError,
            why="the median distance is then zero, and no bandwidth follows from it",
            fix="give the bandwidth as a number, or check the values of the features")
    median = float(np.median(positive)) if positive.size else 0.0
    values = sampled.data if sparse.issparse(sampled) else sampled
    require(MEDIANS[0] <= median <= MEDIANS[1], f"values of the features are up to {np.abs(values).max():.3g} in "
            "absolute value" + (f", and two points typically {median:.3g} apart" if 0 < median < np.inf else ""),
            why=f"bandwidths follow from the median distance, from {MEDIANS[0]:g} to {MEDIANS[1]:g}, so that their "
                "powers are neither zero nor infinite", fix="scale the features", error=DataError)
    return median


def diagonal_of(kernel: Kernel, X: Matrix) -> np.ndarray:
    """Return K(x_i, x_i), shape (n,); a function without `diagonal` is called on small square blocks."""
    if hasattr(kernel, "diagonal"):
        return kernel.diagonal(X)
    return np.concatenate([np.zeros(0)] + [
        np.diagonal(kernel(X[start:stop], X[start:stop])) for start, stop in row_ranges(X.shape[0], 64)])

"""Metrics that are a formula of two rows: those of pynndescent, and a user's own Numba function.

Blocks of distances are SciPy's where it has the metric. Sparse rows, the other metrics, and the
local joins of NN-descent use pynndescent's compiled functions; importing these takes seconds, and is left until then.
Distances are never negative.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from numba import njit
from numba.extending import is_jitted
from scipy import sparse

from ..base.digest import is_real
from ..base.errors import DataError, ParameterError, require
from ..base.types import Matrix
from ..storage.blocks import row_ranges
from .embedded_metrics import Untransformed, Values, no_distribution, require_vector
from .squared_distances import csr_parts

ANGLE_ROWS = 1 << 12  # rows whose candidates are measured at a time
ROUNDING = 1e-5  # a distance this far below 0 is rounding; of float32 sums that ought to be 0


class PairMetric(Untransformed):
    """A distance by a formula of two rows.

    Attributes
    ----------
    scipy_name : str
        The name in `scipy.spatial.distance.cdist`; empty for a metric that pynndescent alone has.
    column_ns : float
        The nanoseconds that a column of a pair of dense rows takes on one core.
    """

    by_pairs = True
    scipy_name: ClassVar[str] = ""
    column_ns: ClassVar[float] = 0.6

    def compiled(self) -> Callable[..., float]:
        """Return the compiled distance of two dense rows."""
        from pynndescent.distances import named_distances

        distance: Callable[..., float] = named_distances[self.name]
        return distance

    def compiled_sparse(self, n_features: int) -> Callable[..., float]:
        """Return the compiled distance of two sparse rows, each given by its columns and their values."""
        return _sparse_distance(self.name, n_features)

    def between(self, X: Matrix, Z: Matrix) -> np.ndarray:
        """Return the distances (q, m) float64 of measurable rows X (q, d) and Z (m, d)."""
        if sparse.issparse(X):
            distances = np.empty((X.shape[0], Z.shape[0]))
            _sparse_between(*csr_parts(X), *csr_parts(Z), self.compiled_sparse(X.shape[1]), distances)
        elif self.scipy_name:
            distances = self._by_scipy(X, Z)
        else:
            distances = np.empty((len(X), len(Z)))
            _dense_between(X, Z, self.compiled(), distances)
        return self._checked(distances)

    def of_candidates(self, X: Matrix, Z: Matrix, candidates: np.ndarray) -> np.ndarray:
        """Return the distances of the candidates j (n, c) of each row i; infinite where j is -1."""
        distances, rows = np.empty(candidates.shape), np.maximum(candidates, 0)
        if sparse.issparse(X):
            _sparse_candidates(*csr_parts(X), *csr_parts(Z), self.compiled_sparse(X.shape[1]), rows, distances)
        elif self.scipy_name:
            for row in range(len(X)):
                distances[row] = self._by_scipy(X[row:row + 1], Z[rows[row]])[0]
        else:
            _dense_candidates(X, Z, self.compiled(), rows, distances)
        distances = self._checked(distances)
        distances[candidates < 0] = np.inf
        return distances

    def _by_scipy(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        from scipy.spatial.distance import cdist

        distances: np.ndarray = cdist(X, Z, self.scipy_name)
        return distances

    def _checked(self, distances: np.ndarray) -> np.ndarray:
        """Return distances with rounding below zero raised to zero; raise DataError for what is no distance."""
        smallest = float(distances.min(initial=0))  # NaN if any is
        require(smallest >= -ROUNDING, f"the metric {self.name} gave {smallest:.3g} for two rows", error=DataError,
                why="a distance is a number of at least 0", fix="drop rows that the metric is not defined for, or use "
                'metric="euclidean"')
        return np.maximum(distances, 0, out=distances)


class Manhattan(PairMetric):
    """sum |x - z|."""

    name = "manhattan"
    scipy_name = "cityblock"
    takes_sparse = True


class Chebyshev(PairMetric):
    """max |x - z|."""

    name = "chebyshev"
    scipy_name = "chebyshev"
    takes_sparse = True


def require_order(p: object) -> None:
    """Raise ParameterError unless the order of a norm is one that all pairs of rows have a distance by."""
    require(is_real(p) and 1 <= p < np.inf, f"metric_params.p={p!r}, expected a number of at least 1",
            why="below 1 a detour may be shorter than the straight way", fix='use 1.5 or 3; the limit of large p is '
            'metric="chebyshev"')


@dataclass(frozen=True)
class Minkowski(PairMetric):
    """(sum w |x - z|^p)^(1 / p), with a weight w >= 0 of each column where these are given."""

    p: float = 2
    w: Values | None = None
    name = "minkowski"
    column_ns = 4.0
    takes_sparse = True

    def __post_init__(self) -> None:
        require_order(self.p)
        if self.w is not None:
            require_vector(self.w, "w", "a weight")
            require(min(self.w) >= 0 < max(self.w), "metric_params.w with a negative weight, or no positive one",
                    why="a distance would be negative, or zero everywhere", fix="pass weights of at least 0")

    @property
    def n_columns(self) -> int:
        return 0 if self.w is None else len(self.w)

    def compiled(self) -> Callable[..., float]:
        return _minkowski(float(self.p), self.w)

    def compiled_sparse(self, n_features: int) -> Callable[..., float]:
        return _sparse_minkowski(float(self.p), self.w)


@cache
def _minkowski(p: float, w: Values | None) -> Callable[..., float]:
    scales = np.ones(0) if w is None else np.array(w) ** (1 / p)
    weighted = w is not None

    @njit(nogil=True)
    def scaled_difference(x, z, column):
        difference = abs(np.float64(x[column]) - z[column])
        return scales[column] * difference if weighted else difference

    @njit(nogil=True, fastmath={"reassoc", "contract", "afn", "nsz"})
    def minkowski(x, z):
        largest = 0.0
        for column in range(x.shape[0]):
            largest = max(largest, scaled_difference(x, z, column))
        if largest == 0:
            return 0.0
        total = 0.0
        for column in range(x.shape[0]):
            total += (scaled_difference(x, z, column) / largest) ** p  # a power of the difference might be zero
        return largest * total ** (1 / p)

    distance: Callable[..., float] = minkowski
    return distance


@cache
def _sparse_minkowski(p: float, w: Values | None) -> Callable[..., float]:
    scales = np.ones(0) if w is None else np.array(w) ** (1 / p)
    weighted = w is not None

    @njit(nogil=True)
    def minkowski(columns_x, values_x, columns_z, values_z):
        columns, differences = _sparse_differences(columns_x, values_x, columns_z, values_z)
        if weighted:
            differences *= scales[columns]
        largest = differences.max() if len(differences) else 0.0
        return largest * ((differences / largest) ** p).sum() ** (1 / p) if largest > 0 else 0.0

    distance: Callable[..., float] = minkowski
    return distance


@njit(nogil=True)
def _sparse_differences(columns_x, values_x, columns_z, values_z):
    """Return the columns of two sparse rows and |x - z| in them, in float64, where pynndescent's are float32."""
    columns = np.empty(len(columns_x) + len(columns_z), np.int64)
    differences = np.zeros(len(columns))
    x = z = size = 0
    while x < len(columns_x) or z < len(columns_z):
        of_x = z == len(columns_z) or (x < len(columns_x) and columns_x[x] <= columns_z[z])
        of_z = x == len(columns_x) or (z < len(columns_z) and columns_z[z] <= columns_x[x])
        if of_x:
            columns[size] = columns_x[x]
            differences[size] += values_x[x]
            x += 1
        if of_z:
            columns[size] = columns_z[z]
            differences[size] -= values_z[z]
            z += 1
        size += 1
    return columns[:size], np.abs(differences[:size])


class SquaredEuclidean(PairMetric):
    """sum (x - z)^2."""

    name = "sqeuclidean"
    scipy_name = "sqeuclidean"
    takes_sparse = True


class Canberra(PairMetric):
    """sum |x - z| / (|x| + |z|), in which 0 / 0 is 0."""

    name = "canberra"
    scaled_by_default = False
    scipy_name = "canberra"
    column_ns = 1.3
    takes_sparse = True


class BrayCurtis(PairMetric):
    """sum |x - z| / sum |x + z|."""

    name = "braycurtis"
    scaled_by_default = False
    scipy_name = "braycurtis"
    takes_sparse = True
    undefined_are = "negative somewhere, or zero"
    undefined_why = "the metric compares counts, and a zero row has none"
    undefined_fix = 'drop these rows, use scale="none" where scaling made values negative, or metric="manhattan"'
    has_domain = True

    def undefined(self, rows: Matrix) -> np.ndarray:
        return no_distribution(rows)


class Hamming(PairMetric):
    """The share of columns in which two rows differ."""

    name = "hamming"
    scaled_by_default = False
    scipy_name = "hamming"
    takes_sparse = True


class Haversine(PairMetric):
    """The angle between two points on a sphere, (latitude, longitude) in radians; times 6371 it is kilometers."""

    name = "haversine"
    column_ns = 25.0
    n_columns = 2
    takes_scaled = False
    scaled_by_default = False
    has_domain = True
    undefined_are = "no latitude and longitude in radians"
    undefined_why = "a latitude is from -pi / 2 to pi / 2, a longitude from -2 pi to 2 pi"
    undefined_fix = "pass np.radians(degrees), the latitude first"

    def undefined(self, rows: np.ndarray) -> np.ndarray:
        limits = np.array([np.pi / 2, 2 * np.pi]) * (1 + 1e-6)  # float32 rounds pi up
        outside: np.ndarray = (np.abs(rows) > limits).any(axis=1)
        return outside

    def between(self, X: np.ndarray, Z: np.ndarray) -> np.ndarray:
        return _angles(X[:, None], Z[None])

    def of_candidates(self, X: np.ndarray, Z: np.ndarray, candidates: np.ndarray) -> np.ndarray:
        angles = np.full(candidates.shape, np.inf)
        for start, stop in row_ranges(len(X), ANGLE_ROWS):
            known = candidates[start:stop] >= 0
            points = Z[np.maximum(candidates[start:stop], 0)]
            angles[start:stop] = np.where(known, _angles(X[start:stop, None], points), np.inf)
        return angles


def _angles(X: np.ndarray, Z: np.ndarray) -> np.ndarray:
    """Return the angles (...) between points (..., 2) on a sphere."""
    X, Z = X.astype(np.float64), Z.astype(np.float64)
    half = (X - Z) / 2
    squares = np.sin(half[..., 0]) ** 2 + np.cos(X[..., 0]) * np.cos(Z[..., 0]) * np.sin(half[..., 1]) ** 2
    angles: np.ndarray = 2 * np.arcsin(np.minimum(np.sqrt(squares), 1))
    return angles


PAIR_METRICS: tuple[type[PairMetric], ...] = (Manhattan, Chebyshev, Minkowski, SquaredEuclidean, Canberra, BrayCurtis,
                                              Hamming, Haversine)


@cache
def of_function(function: Callable[..., float]) -> PairMetric:
    """Return the metric of a Numba function of two dense rows."""
    require(is_jitted(function), f"metric={function!r}, expected a name or a function compiled by Numba",
            why="it is called for millions of pairs of rows", fix="decorate it with @numba.njit", error=ParameterError)
    made: PairMetric = type("FunctionMetric", (PairMetric,), {
        "name": getattr(function, "__name__", "function"), "compiled": lambda self: function})()
    return made


@cache
def _sparse_distance(name: str, n_features: int) -> Callable[..., float]:
    from pynndescent.sparse import sparse_named_distances, sparse_need_n_features

    distance = sparse_named_distances[name]
    if name not in sparse_need_n_features:
        return distance

    @njit(nogil=True)
    def of_all_columns(columns_x, values_x, columns_z, values_z):
        return distance(columns_x, values_x, columns_z, values_z, n_features)

    return of_all_columns


# Without a cache on disk, which would keep a version for each compiled distance of each process.
@njit(nogil=True)
def _dense_between(X, Z, distance, distances):
    for row in range(X.shape[0]):
        for other in range(Z.shape[0]):
            distances[row, other] = distance(X[row], Z[other])


@njit(nogil=True)
def _dense_candidates(X, Z, distance, candidates, distances):
    for row in range(candidates.shape[0]):
        for entry in range(candidates.shape[1]):
            distances[row, entry] = distance(X[row], Z[candidates[row, entry]])


@njit(nogil=True)
def _sparse_between(indptr_x, columns_x, values_x, indptr_z, columns_z, values_z, distance, distances):
    for row in range(distances.shape[0]):
        x = slice(indptr_x[row], indptr_x[row + 1])
        for other in range(distances.shape[1]):
            z = slice(indptr_z[other], indptr_z[other + 1])
            distances[row, other] = distance(columns_x[x], values_x[x], columns_z[z], values_z[z])


@njit(nogil=True)
def _sparse_candidates(indptr_x, columns_x, values_x, indptr_z, columns_z, values_z, distance, candidates, distances):
    for row in range(candidates.shape[0]):
        x = slice(indptr_x[row], indptr_x[row + 1])
        for entry in range(candidates.shape[1]):
            other = candidates[row, entry]
            z = slice(indptr_z[other], indptr_z[other + 1])
            distances[row, entry] = distance(columns_x[x], values_x[x], columns_z[z], values_z[z])

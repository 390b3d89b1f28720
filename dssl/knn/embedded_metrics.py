"""Metrics that are the Euclidean distance between transformed rows, which every search serves."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

import numpy as np
from numba import njit
from numpy.typing import ArrayLike
from scipy import sparse

from ..base.errors import require
from ..base.types import Matrix
from ..storage.blocks import row_ranges
from ..storage.csr import absolute_sums, largest_of_rows, unit_rows, with_values

BLOCK = 1024  # rows that are transformed at a time
MATRIX_COLUMNS = 256  # of a matrix that each task carries
ROUNDING = 1e-8  # of the eigenvalues of a matrix, relative to the largest

Values = tuple[float, ...]
SquareValues = tuple[tuple[float, ...], ...]


@dataclass(frozen=True)
class Metric(ABC):
    """A distance that equals the Euclidean distance between transformed rows of the same width.

    Each row is transformed on its own, so every search serves every metric. A `PairMetric` has a formula of two rows
    instead. The fields of the dataclass, if any, are the parameters of the metric: numbers, and arrays as tuples.

    Attributes
    ----------
    name : str
        The name of the metric in specs and in stored neighbor lists.
    transforms : bool
        Whether `embedded` changes the rows (and returns float64), rather than only their type.
    by_pairs : bool
        Whether the distance is a formula of two rows, see `PairMetric`.
    takes_sparse : bool
        Whether the metric has `embedded_sparse`.
    takes_scaled : bool
        Whether the features may be scaled; not where a value has a meaning, as an angle has.
    scaled_by_default : bool
        Whether the automatic scaling may change the features; not of codes, sets, shares and counts.
    has_domain : bool
        Whether there are finite rows for which `undefined` holds.
    undefined_are : str
        What rows without distances are, such as "zero"; for error messages.
    undefined_why : str
        Why such rows have no distance.
    undefined_fix : str
        What the user can do.
    """

    name: ClassVar[str]
    transforms: ClassVar[bool] = True
    by_pairs: ClassVar[bool] = False
    takes_sparse: ClassVar[bool] = False
    takes_scaled: ClassVar[bool] = True
    scaled_by_default: ClassVar[bool] = True
    has_domain: ClassVar[bool] = True
    undefined_are: ClassVar[str] = "undefined"
    undefined_why: ClassVar[str] = "their distances do not exist"
    undefined_fix: ClassVar[str] = 'drop these rows, or use metric="euclidean"'

    @property
    def n_columns(self) -> int:
        """Return the number of columns that the rows must have; 0 for any."""
        return 0

    @abstractmethod
    def embedded(self, rows: np.ndarray) -> np.ndarray:
        """Return rows (n, d) whose Euclidean distances are the metric's; each row depends on itself alone."""

    def embedded_sparse(self, rows: sparse.csr_array) -> sparse.csr_array:
        """Return the sparse rows with the values that `embedded` gives the dense ones."""
        raise NotImplementedError

    def undefined(self, rows: Matrix) -> np.ndarray:
        """Return which of some rows (n, d), dense or sparse, have no distance to others, (n,) bool."""
        return np.zeros(rows.shape[0], bool)


def measured_dtype(dtype: np.dtype) -> type[np.float32] | type[np.float64]:
    """Return the type of measured rows: float32 if it represents every value, as of 16-bit integers, or float64.

    Numba functions are compiled for these two types alone.
    """
    return np.float32 if np.can_cast(dtype, np.float32) else np.float64


class Untransformed(Metric):
    """A metric of the rows as they are, in the type in which they are measured."""

    transforms = False
    has_domain = False

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, measured_dtype(rows.dtype))

    def embedded_sparse(self, rows: sparse.csr_array) -> sparse.csr_array:
        return with_values(rows, self.embedded(rows.data))


class Euclidean(Untransformed):
    """|x - z|."""

    name = "euclidean"
    takes_sparse = True


class CosineDistance(Metric):
    """|x / |x| - z / |z||, the root of 2 (1 - cos(x, z))."""

    name = "cosine"
    takes_sparse = True
    undefined_are = "zero"
    undefined_why = "a zero row has no direction, so no cosine"

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        unit = np.array(rows, np.float64, order="C")
        for start, stop in row_ranges(len(unit), BLOCK):
            part = unit[start:stop]
            part /= np.abs(part).max(axis=1, keepdims=True)
            part /= np.sqrt(np.cumsum(part**2, axis=1)[:, -1:])  # added in the order of the columns, as sparse rows are
        return unit

    def embedded_sparse(self, rows: sparse.csr_array) -> sparse.csr_array:
        return unit_rows(rows)

    def undefined(self, rows: Matrix) -> np.ndarray:
        return np.asarray(largest_of_rows(rows) == 0 if sparse.issparse(rows) else ~rows.any(axis=1))


class Correlation(Metric):
    """The cosine distance between rows minus their means, the root of 2 (1 - r) with Pearson's r."""

    name = "correlation"
    undefined_are = "constant"
    undefined_why = "a row of equal values varies with no other, so it has no correlation"

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        centered = np.array(rows, np.float64, order="C")
        for start, stop in row_ranges(len(centered), BLOCK):
            centered[start:stop] -= centered[start:stop].mean(axis=1, keepdims=True)
        return CosineDistance().embedded(centered)

    def undefined(self, rows: np.ndarray) -> np.ndarray:
        constant: np.ndarray = rows.max(axis=1) == rows.min(axis=1)
        return constant


class Spearman(Correlation):
    """The correlation distance between the ranks of the values in each row; equal values have their mean rank."""

    name = "spearmanr"

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        from scipy.stats import rankdata  # takes half a second

        ranks = np.empty(rows.shape)
        for start, stop in row_ranges(len(rows), BLOCK):
            ranks[start:stop] = rankdata(rows[start:stop], axis=1)
        return super().embedded(ranks)


def no_distribution(rows: Matrix) -> np.ndarray:
    """Return which rows (n, d), dense or sparse, are negative somewhere or zero, (n,) bool."""
    if isinstance(rows, np.ndarray):
        return np.asarray((rows.min(axis=1) < 0) | ~rows.any(axis=1))
    signed = with_values(rows, (rows.data < 0).astype(np.float32))
    return np.asarray((largest_of_rows(signed) > 0) | (largest_of_rows(rows) == 0))


class Hellinger(Metric):
    """|sqrt(p) - sqrt(q)| / sqrt(2) of rows scaled to a sum of 1; a number from 0 to 1."""

    name = "hellinger"
    takes_sparse = True
    scaled_by_default = False
    undefined_are = "negative somewhere, or zero"
    undefined_why = "a distribution has shares of at least 0 whose sum is positive"
    undefined_fix = 'drop these rows, use scale="none" where scaling made values negative, or metric="euclidean"'

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        roots = np.array(rows, np.float64, order="C")
        for start, stop in row_ranges(len(roots), BLOCK):
            part = roots[start:stop]
            part /= 2 * np.cumsum(part, axis=1)[:, -1:]  # added in the order of the columns, as sparse rows are
            np.sqrt(part, out=part)
        return roots

    def embedded_sparse(self, rows: sparse.csr_array) -> sparse.csr_array:
        sums = np.repeat(absolute_sums(rows), np.diff(rows.indptr))
        return with_values(rows, np.sqrt(rows.data / (2 * sums)))

    def undefined(self, rows: Matrix) -> np.ndarray:
        return no_distribution(rows)


@dataclass(frozen=True)
class StandardizedEuclidean(Metric):
    """The root of sum (x - z)^2 / V, with a variance V of each column."""

    V: Values
    name = "seuclidean"
    takes_sparse = True
    takes_scaled = False
    scaled_by_default = False
    has_domain = False

    def __post_init__(self) -> None:
        require_vector(self.V, "V", "a variance")
        require(min(self.V) > 0, f"metric_params.V with {min(self.V)!r}", why="differences are divided by the root of "
                "a variance", fix="leave out columns that do not vary, or give them the variance 1")

    @property
    def n_columns(self) -> int:
        return len(self.V)

    @cached_property
    def _deviations(self) -> np.ndarray:
        return np.sqrt(self.V)

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows / self._deviations)

    def embedded_sparse(self, rows: sparse.csr_array) -> sparse.csr_array:
        return with_values(rows, rows.data / self._deviations[rows.indices])


@dataclass(frozen=True)
class Mahalanobis(Metric):
    """The root of (x - z)' VI (x - z), with the inverse VI of a matrix of covariances, symmetric and not negative."""

    VI: SquareValues
    name = "mahalanobis"
    takes_scaled = False
    scaled_by_default = False
    has_domain = False

    def __post_init__(self) -> None:
        require_square(self.VI, "VI")
        lengths = np.linalg.eigvalsh(np.array(self.VI))
        lowest, highest = float(lengths[0]), float(lengths[-1])
        require(highest > 0 and lowest >= -ROUNDING * highest, f"metric_params.VI has the eigenvalue {lowest:.3g}",
                why="a squared distance would be negative", fix="pass np.linalg.inv of a matrix of covariances")
        require(len(self.VI) <= MATRIX_COLUMNS, f"metric_params.VI of {len(self.VI)} columns, at most {MATRIX_COLUMNS}",
                why="each task carries the matrix", fix="multiply the rows by a root of it, np.linalg.cholesky(VI), "
                'and use metric="euclidean"')

    @property
    def n_columns(self) -> int:
        return len(self.VI)

    @property
    def _root(self) -> np.ndarray:
        """Return the symmetric S with VI = S S, which is unique; of a singular matrix too."""
        lengths, axes = np.linalg.eigh(np.array(self.VI))
        root: np.ndarray = (axes * np.sqrt(np.maximum(lengths, 0))) @ axes.T
        return root

    def embedded(self, rows: np.ndarray) -> np.ndarray:
        whitened, root = np.zeros(rows.shape), np.ascontiguousarray(self._root)
        for start, stop in row_ranges(len(rows), BLOCK):
            _add_products(np.ascontiguousarray(rows[start:stop], np.float64), root, whitened[start:stop])
        return whitened


@njit(nogil=True, cache=True)
def _add_products(rows, matrix, products):
    """Add rows @ matrix in the order of the columns, whatever the number of rows, which BLAS does not promise."""
    for row in range(rows.shape[0]):
        for column in range(rows.shape[1]):
            for entry in range(matrix.shape[1]):
                products[row, entry] += rows[row, column] * matrix[column, entry]


def require_vector(values: object, key: str, what: str) -> None:
    """Raise ParameterError unless the value of a metric's parameter is a list of numbers, one a column."""
    require(isinstance(values, tuple) and len(values) > 0 and np.ndim(values) == 1, f"metric_params.{key}={values!r}",
            why=f"it is {what} of each column", fix="pass a list of numbers, as long as a row")


def require_square(values: ArrayLike, key: str) -> None:
    """Raise ParameterError unless the value of a metric's parameter is a symmetric matrix."""
    shape = tuple[int, ...](np.shape(values))
    require(len(shape) == 2 and shape[0] == shape[-1], f"metric_params.{key} of shape {shape}", why="it is a matrix of "
            "a row and a column for each column of the points", fix="pass a list of rows, each a list of numbers")
    matrix = np.array(values)
    require(np.allclose(matrix, matrix.T, rtol=1e-6, atol=ROUNDING * np.abs(matrix).max()),
            f"metric_params.{key} is not symmetric", why="a distance is the same in both directions",
            fix="pass (M + M.T) / 2")

"""Metrics that are the Euclidean distance between transformed rows, which every search serves."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ..storage.blocks import row_ranges
from ..storage.csr import absolute_sums, largest_of_rows, unit_rows, with_values

BLOCK = 1024  # rows that are transformed at a time


class Metric(ABC):
    """A distance that equals the Euclidean distance between transformed rows of the same width.

    Each row is transformed on its own, so every search serves every metric. A `PairMetric` has a formula of two rows
    instead.

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
    has_domain : bool
        Whether there are finite rows for which `undefined` holds.
    n_columns : int
        The number of columns that the rows must have; 0 for any.
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
    has_domain: ClassVar[bool] = True
    n_columns: ClassVar[int] = 0
    undefined_are: ClassVar[str] = "undefined"
    undefined_why: ClassVar[str] = "their distances do not exist"
    undefined_fix: ClassVar[str] = 'drop these rows, or use metric="euclidean"'

    @classmethod
    @abstractmethod
    def embedded(cls, rows: np.ndarray) -> np.ndarray:
        """Return rows (n, d) whose Euclidean distances are the metric's; each row depends on itself alone."""

    @classmethod
    def embedded_sparse(cls, rows: sparse.csr_array) -> sparse.csr_array:
        """Return the sparse rows with the values that `embedded` gives the dense ones."""
        raise NotImplementedError

    @classmethod
    def undefined(cls, rows: Any) -> np.ndarray:
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

    @classmethod
    def embedded(cls, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, measured_dtype(rows.dtype))

    @classmethod
    def embedded_sparse(cls, rows: sparse.csr_array) -> sparse.csr_array:
        return with_values(rows, cls.embedded(rows.data))


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

    @classmethod
    def embedded(cls, rows: np.ndarray) -> np.ndarray:
        unit = np.array(rows, np.float64, order="C")
        for start, stop in row_ranges(len(unit), BLOCK):
            part = unit[start:stop]
            part /= np.abs(part).max(axis=1, keepdims=True)
            part /= np.sqrt(np.cumsum(part**2, axis=1)[:, -1:])  # added in the order of the columns, as sparse rows are
        return unit

    @classmethod
    def embedded_sparse(cls, rows: sparse.csr_array) -> sparse.csr_array:
        return unit_rows(rows)

    @classmethod
    def undefined(cls, rows: Any) -> np.ndarray:
        zero: np.ndarray = largest_of_rows(rows) == 0 if sparse.issparse(rows) else ~rows.any(axis=1)
        return zero


class Correlation(Metric):
    """The cosine distance between rows minus their means, the root of 2 (1 - r) with Pearson's r."""

    name = "correlation"
    undefined_are = "constant"
    undefined_why = "a row of equal values varies with no other, so it has no correlation"

    @classmethod
    def embedded(cls, rows: np.ndarray) -> np.ndarray:
        centered = np.array(rows, np.float64, order="C")
        for start, stop in row_ranges(len(centered), BLOCK):
            centered[start:stop] -= centered[start:stop].mean(axis=1, keepdims=True)
        return CosineDistance.embedded(centered)

    @classmethod
    def undefined(cls, rows: Any) -> np.ndarray:
        constant: np.ndarray = rows.max(axis=1) == rows.min(axis=1)
        return constant


class Spearman(Correlation):
    """The correlation distance between the ranks of the values in each row; equal values have their mean rank."""

    name = "spearmanr"

    @classmethod
    def embedded(cls, rows: np.ndarray) -> np.ndarray:
        from scipy.stats import rankdata  # takes half a second

        ranks = np.empty(rows.shape)
        for start, stop in row_ranges(len(rows), BLOCK):
            ranks[start:stop] = rankdata(rows[start:stop], axis=1)
        return super().embedded(ranks)


def no_distribution(rows: Any) -> np.ndarray:
    """Return which rows (n, d), dense or sparse, are negative somewhere or zero, (n,) bool."""
    if not sparse.issparse(rows):
        return np.asarray((rows.min(axis=1) < 0) | ~rows.any(axis=1))
    signed = with_values(rows, (rows.data < 0).astype(np.float32))
    return np.asarray((largest_of_rows(signed) > 0) | (largest_of_rows(rows) == 0))


class Hellinger(Metric):
    """|sqrt(p) - sqrt(q)| / sqrt(2) of rows scaled to a sum of 1; a number from 0 to 1."""

    name = "hellinger"
    takes_sparse = True
    undefined_are = "negative somewhere, or zero"
    undefined_why = "a distribution has shares of at least 0 whose sum is positive"
    undefined_fix = 'drop these rows, use scale="none" where scaling made values negative, or metric="euclidean"'

    @classmethod
    def embedded(cls, rows: np.ndarray) -> np.ndarray:
        roots = np.array(rows, np.float64, order="C")
        for start, stop in row_ranges(len(roots), BLOCK):
            part = roots[start:stop]
            part /= 2 * np.cumsum(part, axis=1)[:, -1:]  # added in the order of the columns, as sparse rows are
            np.sqrt(part, out=part)
        return roots

    @classmethod
    def embedded_sparse(cls, rows: sparse.csr_array) -> sparse.csr_array:
        sums = np.repeat(absolute_sums(rows), np.diff(rows.indptr))
        return with_values(rows, np.sqrt(rows.data / (2 * sums)))

    @classmethod
    def undefined(cls, rows: Any) -> np.ndarray:
        return no_distribution(rows)

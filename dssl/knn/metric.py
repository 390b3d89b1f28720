"""Metrics of the neighbor search, one class each in `METRICS`, and the checks of rows."""

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from scipy import sparse

from ..base.errors import DataError, ParameterError, require
from ..base.plugins import Registry
from ..storage.blocks import Rows, row_ranges
from ..storage.csr import largest_of_rows, unit_rows, with_values

CHECK_BYTES = 64 << 20


class Metric(ABC):
    """A distance that equals the Euclidean distance between transformed rows of the same width.

    Each row is transformed on its own, so every search serves every metric.

    Attributes
    ----------
    name : str
        The name of the metric in specs and in stored neighbor lists.
    transforms : bool
        Whether `embedded` changes the rows (and returns float64), rather than only their type.
    takes_sparse : bool
        Whether the metric has `embedded_sparse`.
    undefined_are : str
        What rows without distances are, such as "zero"; for error messages.
    undefined_why : str
        Why such rows have no distance.
    """

    name: ClassVar[str]
    transforms: ClassVar[bool] = True
    takes_sparse: ClassVar[bool] = False
    undefined_are: ClassVar[str] = "undefined"
    undefined_why: ClassVar[str] = "their distances do not exist"

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


class Euclidean(Metric):
    """|x - z|."""

    name = "euclidean"
    transforms = False
    takes_sparse = True

    @classmethod
    def embedded(cls, rows: np.ndarray) -> np.ndarray:
        return np.ascontiguousarray(rows, _measured_dtype(rows.dtype))

    @classmethod
    def embedded_sparse(cls, rows: sparse.csr_array) -> sparse.csr_array:
        return with_values(rows, cls.embedded(rows.data))


class CosineDistance(Metric):
    """|x / |x| - z / |z||, the root of 2 (1 - cos(x, z))."""

    name = "cosine"
    takes_sparse = True
    undefined_are = "zero"
    undefined_why = "a zero row has no direction, so no cosine"

    @classmethod
    def embedded(cls, rows: np.ndarray) -> np.ndarray:
        unit = np.array(rows, np.float64, order="C")
        for start, stop in row_ranges(len(unit), 1024):
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


METRICS = Registry[Metric]("metric", Euclidean, CosineDistance)


def measurable(rows: Any, metric: str) -> Any:
    """Return rows (n, d), dense or sparse, whose Euclidean distances are those of a metric."""
    rule = METRICS.named(metric)
    return rule.embedded_sparse(rows) if sparse.issparse(rows) else rule.embedded(rows)


def _measured_dtype(dtype: np.dtype) -> type[np.float32] | type[np.float64]:
    """Return the type of measured rows: float32 if it represents every value, as of 16-bit integers, or float64.

    Numba functions are compiled for these two types alone.
    """
    return np.float32 if np.can_cast(dtype, np.float32) else np.float64


def sample_ids(n_rows: int, max_rows: int) -> np.ndarray:
    """Return up to `max_rows` row numbers, evenly spread."""
    return np.unique(np.linspace(0, n_rows - 1, min(n_rows, max_rows)).astype(np.int64))


def measured_itemsize(dtype: np.dtype, metric: str) -> int:
    """Return the bytes of one value of `measurable` rows."""
    return 8 if METRICS.named(metric).transforms else np.dtype(_measured_dtype(dtype)).itemsize


def stored_distances(squared: np.ndarray) -> np.ndarray:
    """Return the roots of squared distances (q, k) float64 as float32, the form of the lists.

    Raises
    ------
    DataError : a distance overflows float32, or most of them would round to zero, as between duplicates.
    """
    distances = np.sqrt(squared)
    with np.errstate(over="ignore", under="ignore"):
        stored = distances.astype(np.float32)
    largest = float(distances.max(initial=0))
    require(bool(np.isfinite(stored).all()), f"neighbors are {largest:.3g} apart", error=DataError,
            why="distances are stored in float32, whose largest number is 3.4e38", fix="scale the features")
    vanished = int(((stored == 0) & (distances > 0)).sum())
    require(2 * vanished <= stored.size, f"{vanished} of {stored.size} distances are below 1e-45, the largest "
            f"{largest:.3g}", error=DataError, why="they are zero in float32, as if these points were duplicates",
            fix="scale the features")
    return stored


def check_shape(X: Rows, n_neighbors: int) -> None:
    """Raise unless X is an array of points, of which each has `n_neighbors` others; see `check_rows`."""
    require(len(X.shape) == 2, f"X has shape {X.shape}, expected (n_points, n_features)", error=DataError,
            why="points are rows of a two-dimensional array",
            fix="use X.reshape(-1, 1) for one feature, or X.reshape(len(X), -1) to flatten images")
    n, d = X.shape
    require(d >= 1, f"X has shape {X.shape}, expected at least one column", error=DataError,
            why="points without features are all equal", fix="pass the features")
    require(X.dtype.kind in "biuf", f"X has dtype {X.dtype}, expected real numbers", error=DataError,
            why="a distance is a number", fix="code categories as numbers, or pass X.astype(float)")
    require(n_neighbors < n, f"n_neighbors={n_neighbors} with {n} points",
            why=f"a point is not its own neighbor, so each has {n - 1} others to choose from",
            fix=f"choose n_neighbors <= {n - 1}", error=ParameterError)


def check_block(block: Any, first: int, metric: str) -> float:
    """Return the largest of the absolute values of a block of rows from number `first` on, 0 where they are integers.

    Raises
    ------
    DataError : NaN or infinite, too large to square, or zero under the cosine metric.
    """
    largest_of_all = 0.0
    if block.dtype.kind == "f":
        # A maximum is NaN or infinite if any value is, and takes no copy of the block.
        largest = (largest_of_rows(block) if sparse.issparse(block) else
                   np.maximum(block.max(axis=1), -block.min(axis=1)))
        bad = first + np.flatnonzero(~np.isfinite(largest))
        require(len(bad) == 0, f"{len(bad)} rows from row {first} on hold NaN or infinite values, first {bad[:5]}",
                why="they have no distances, and one such row would spoil all neighbor lists", error=DataError,
                fix="drop these rows, or fill the values before searching")
        require(float(largest.max()) < 1e150, f"row {first + int(largest.argmax())} holds values of 1e150 or more",
                why="their squares overflow float64", fix="scale the features", error=DataError)
        largest_of_all = float(largest.max())
    rule = METRICS.named(metric)
    undefined_rows = first + np.flatnonzero(rule.undefined(block))
    require(len(undefined_rows) == 0,
            f"{len(undefined_rows)} rows from row {first} on are {rule.undefined_are}, first {undefined_rows[:5]}",
            why=rule.undefined_why, error=DataError, fix='drop these rows, or use metric="euclidean"')
    return largest_of_all


def require_squares(largest: float, dtype: np.dtype) -> None:
    """Raise DataError where the largest of all values is so small that its square is zero, but not zero."""
    require(largest == 0 or largest > 1e-150 or dtype.kind != "f", error=DataError,
            what=f"no value is larger than {largest:.3g}", why="their squares are zero in float64",
            fix="scale the features")


def check_rows(X: Rows, n_neighbors: int, metric: str) -> None:
    """Raise unless each row (n, d) has `n_neighbors` others and finite distances; reads X once.

    Raises
    ------
    ParameterError : n_neighbors >= n.
    DataError : not two-dimensional, not numbers, NaN or infinite, too large to square, or zero under the cosine metric.
    """
    check_shape(X, n_neighbors)
    if X.dtype.kind != "f" and not METRICS.named(metric).transforms:
        return
    height = max(1, CHECK_BYTES // (X.row_bytes if X.is_sparse else X.shape[1] * 8))
    require_squares(max((check_block(block, first, metric) for first, block in X.blocks(height)), default=0.0), X.dtype)

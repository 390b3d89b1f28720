"""Points of a local join, whose distances are measured pair by pair to float32.

They are dense coordinates, sparse rows, or rows of either kind with the compiled function of a `PairMetric`. Compiled
code takes the points as a tuple; its length tells which. The first point of sparse pairs is densified into a row of d
values, and the products with the entries of the others are added in float64.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numba.extending import overload
from scipy import sparse

from ..base.types import Matrix
from ..storage.blocks import row_ranges
from ..storage.csr import squared_lengths, with_values
from .metric import sample_ids
from .squared_distances import float32_squared_distance

AXES, POWER_STEPS, SAMPLE_ROWS = 24, 2, 8192  # axes of sparse rows that trees split along, and how they are computed
SQUARED_ROWS = 1 << 12  # rows whose lengths are computed at a time
SMALLEST_SHARE = 1e-6  # squared length of an axis, relative to the longest, below which float32 products are rounding


class Points(Protocol):
    """Points of a local join; trees split along `axes` (n, a) float32.

    by_function : whether a pair is measured by a function of its own, for which code is compiled in each process.
    """

    @property
    def axes(self) -> np.ndarray: ...

    @property
    def by_function(self) -> bool: ...

    def __len__(self) -> int: ...

    def take(self, order: np.ndarray) -> Self:
        """Return the points in another order."""
        ...

    def of_a_thread(self) -> tuple[Any, ...]:
        """Return the arrays for compiled code, with work space of one thread."""
        ...


@dataclass(frozen=True)
class Coordinates:
    """Rows (n, a) float32 of coordinates."""

    axes: np.ndarray
    by_function = False

    def __len__(self) -> int:
        return len(self.axes)

    def take(self, order: np.ndarray) -> "Coordinates":
        return Coordinates(self.axes[order])

    def of_a_thread(self) -> tuple[np.ndarray, ...]:
        return (self.axes,)


@dataclass(frozen=True)
class SparsePoints:
    """Sparse rows (n, d) float32 of values up to 1, and the squares (n,) float64 of their lengths.

    Sparse rows are not centered, so they may be near each other and far from 0; float32 products could not tell such
    rows apart.
    """

    rows: sparse.csr_array
    squares: np.ndarray
    axes: np.ndarray
    by_function = False

    @classmethod
    def of(cls, rows: sparse.csr_array, rng: np.random.Generator) -> "SparsePoints":
        """Return sparse rows of any floating type with their coordinates along a few leading axes.

        The axes come from a sample, by subspace iteration in the space of its rows (Halko, Martinsson, Tropp, SIAM
        Review 2011, algorithm 4.4), which takes `axes_bytes`. There are fewer axes if there are fewer rows or columns.
        """
        largest = float(np.abs(rows.data).max(initial=0)) or 1.0
        scaled = with_values(rows, (rows.data / largest).astype(np.float32))
        squares = np.concatenate([squared_lengths(scaled[start:stop])
                                  for start, stop in row_ranges(scaled.shape[0], SQUARED_ROWS)])
        sample = scaled[sample_ids(len(squares), SAMPLE_ROWS)]
        within = rng.normal(size=(sample.shape[0], min(AXES, *sample.shape)))
        for _ in range(POWER_STEPS):
            within, _ = np.linalg.qr(sample @ (sample.T @ within.astype(np.float32)))
        basis = sample.T @ within.astype(np.float32)
        lengths, rotation = np.linalg.eigh(basis.T @ basis)  # squared; basis @ rotation is orthogonal
        smallest = SMALLEST_SHARE * lengths[-1] if lengths[-1] > 0 else 1
        rotation = (rotation / np.sqrt(np.maximum(lengths, smallest))).astype(np.float32)
        return cls(scaled, squares, (scaled @ basis) @ rotation)

    def __len__(self) -> int:
        return len(self.squares)

    def take(self, order: np.ndarray) -> "SparsePoints":
        return SparsePoints(self.rows[order], self.squares[order], self.axes[order])

    def of_a_thread(self) -> tuple[np.ndarray, ...]:
        dense_row = np.zeros(self.rows.shape[1], np.float32)
        return self.rows.indptr, self.rows.indices, self.rows.data, self.squares, dense_row


@dataclass(frozen=True)
class MetricPoints:
    """Measurable rows (n, d), dense or sparse, with the compiled distance of two of them."""

    rows: Matrix
    distance: Callable[..., float]
    axes: np.ndarray
    by_function = True

    def __len__(self) -> int:
        return len(self.axes)

    def take(self, order: np.ndarray) -> "MetricPoints":
        return MetricPoints(self.rows[order], self.distance, self.axes[order])

    def of_a_thread(self) -> tuple[Any, ...]:
        if isinstance(self.rows, np.ndarray):
            return self.rows, self.distance
        return self.rows.indptr, self.rows.indices, self.rows.data, self.distance


def axes_bytes(d: int) -> int:
    """Return the bytes of computing the axes of sparse rows; `AXES` threads densify rows in as much."""
    return 4 * AXES * d


def densify(points: tuple[Any, ...], a: int, factor: float) -> None:
    """Write the values of a point, times `factor`, to the dense row: 1 to begin pairs with it, 0 to end."""


def pair_squared_distance(points: tuple[Any, ...], a: int, b: int) -> Any:
    """Return the squared distance of two points; the first has been densified."""


@overload(densify)
def _densify(points, a, factor):
    def nothing(points, a, factor):
        pass

    def sparse_row(points, a, factor):
        indptr, indices, data, _, dense_row = points
        for entry in range(indptr[a], indptr[a + 1]):
            dense_row[indices[entry]] = factor * data[entry]

    return sparse_row if len(points) == 5 else nothing


@overload(pair_squared_distance)
def _pair_squared_distance(points, a, b):
    def of_coordinates(points, a, b):
        return float32_squared_distance(points[0][a], points[0][b])

    def of_sparse_rows(points, a, b):
        indptr, indices, data, squares, dense_row = points
        product = 0.0
        for entry in range(indptr[b], indptr[b + 1]):
            product += np.float64(data[entry]) * np.float64(dense_row[indices[entry]])
        return np.float32(max(0.0, squares[a] + squares[b] - 2 * product))

    def of_dense_rows(points, a, b):
        return np.float32(points[1](points[0][a], points[0][b]))

    def of_rows(points, a, b):
        indptr, columns, values, distance = points
        x, z = slice(indptr[a], indptr[a + 1]), slice(indptr[b], indptr[b + 1])
        return np.float32(distance(columns[x], values[x], columns[z], values[z]))

    return {1: of_coordinates, 2: of_dense_rows, 4: of_rows, 5: of_sparse_rows}[len(points)]

"""Points as local joins measure them, pair by pair, to float32: rows of coordinates, or sparse rows.

Compiled code takes them as a tuple of arrays, of which the length says which of the two they are. Of sparse rows one is
unfolded into a row of d zeros, and others are measured to it by the entries that they have, in float64.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numba.extending import overload
from scipy import sparse

from ..storage.blocks import row_ranges
from ..storage.csr import squared_lengths, with_values
from .metric import sample_ids
from .squared_distances import float32_gap

AXES, POWER_STEPS, SAMPLE_ROWS = 24, 2, 8192  # of sparse rows: axes that trees split along, and how they are found
SQUARED_ROWS = 1 << 12  # whose lengths are found at a time
FLAT = 1e-6  # the least square of an axis's length that float32 products know, where that of the longest is 1


class Points(Protocol):
    """Points that pairs are measured of: `axes` (n, a) float32, that trees split along."""

    @property
    def axes(self) -> np.ndarray: ...

    def __len__(self) -> int: ...

    def take(self, order: np.ndarray) -> Self:
        """Return them in another order."""
        ...

    def of_a_thread(self) -> tuple[np.ndarray, ...]:
        """Return what compiled code takes; no two threads share what it writes to."""
        ...


@dataclass(frozen=True)
class Coordinates:
    """Rows (n, a) float32 of coordinates."""

    axes: np.ndarray

    def __len__(self) -> int:
        return len(self.axes)

    def take(self, order: np.ndarray) -> "Coordinates":
        return Coordinates(self.axes[order])

    def of_a_thread(self) -> tuple[np.ndarray, ...]:
        return (self.axes,)


@dataclass(frozen=True)
class SparsePoints:
    """Sparse rows (n, d) float32 of values up to 1, and the squares (n,) float64 of their lengths.

    Rows that nobody centers may be near each other and far from 0: their float32 products would tell none apart.
    """

    rows: sparse.csr_array
    squares: np.ndarray
    axes: np.ndarray

    @classmethod
    def of(cls, rows: sparse.csr_array, rng: np.random.Generator) -> "SparsePoints":
        """Return sparse rows of any floating type, and their coordinates along a few axes of most of their length.

        The axes are those of a sample, by subspace iteration (Halko, Martinsson, Tropp, SIAM Review 2011, algorithm
        4.4) in the space of its rows, so that of d columns only `axes_bytes` are held: less are found where the rows
        are fewer, or have fewer columns.
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
        lengths, turn = np.linalg.eigh(basis.T @ basis)  # squared; basis @ turn is orthogonal
        least = FLAT * lengths[-1] if lengths[-1] > 0 else 1
        turn = (turn / np.sqrt(np.maximum(lengths, least))).astype(np.float32)
        return cls(scaled, squares, (scaled @ basis) @ turn)

    def __len__(self) -> int:
        return len(self.squares)

    def take(self, order: np.ndarray) -> "SparsePoints":
        return SparsePoints(self.rows[order], self.squares[order], self.axes[order])

    def of_a_thread(self) -> tuple[np.ndarray, ...]:
        unfolded = np.zeros(self.rows.shape[1], np.float32)
        return self.rows.indptr, self.rows.indices, self.rows.data, self.squares, unfolded


def axes_bytes(d: int) -> int:
    """Return the bytes of the axes of sparse rows while they are found, as many as `AXES` threads unfold rows in."""
    return 4 * AXES * d


def unfold(points: Any, a: Any, times: Any) -> None:
    """Make a point ready to be the first of pairs, with `times` 1; undo that with 0."""


def gap(points: Any, a: Any, b: Any) -> Any:
    """Return the squared distance of two points, of which the first is unfolded."""


@overload(unfold)
def _unfold(points, a, times):
    def nothing(points, a, times):
        pass

    def sparse_row(points, a, times):
        indptr, indices, data, _, unfolded = points
        for entry in range(indptr[a], indptr[a + 1]):
            unfolded[indices[entry]] = times * data[entry]

    return nothing if len(points) == 1 else sparse_row


@overload(gap)
def _gap(points, a, b):
    def of_rows(points, a, b):
        return float32_gap(points[0][a], points[0][b])

    def of_sparse_rows(points, a, b):
        indptr, indices, data, squares, unfolded = points
        product = 0.0
        for entry in range(indptr[b], indptr[b + 1]):
            product += np.float64(data[entry]) * np.float64(unfolded[indices[entry]])
        return np.float32(max(0.0, squares[a] + squares[b] - 2 * product))

    return of_rows if len(points) == 1 else of_sparse_rows

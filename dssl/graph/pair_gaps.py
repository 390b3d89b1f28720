"""Points as local joins measure them, pair by pair in float32: rows of coordinates, or sparse rows.

Compiled code takes them as a tuple of arrays, of which the length says which of the two they are. Of sparse rows one is
unfolded into a row of d zeros, and others are measured to it by the entries that they have.
"""

from dataclasses import dataclass
from typing import Any, Protocol, Self

import numpy as np
from numba.extending import overload
from scipy import sparse

from .distances import float32_gap
from .metric import sample_ids

AXES, POWER_STEPS, SAMPLE_ROWS = 24, 2, 8192  # of sparse rows: axes that trees split along, and how they are found


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
    """Sparse rows (n, d) float32, of which the longest has length 1 or less, and the squares (n,) of their lengths."""

    rows: sparse.csr_array
    squares: np.ndarray
    axes: np.ndarray

    @classmethod
    def of(cls, rows: sparse.csr_array, rng: np.random.Generator) -> "SparsePoints":
        """Return sparse rows of any floating type, and their coordinates along a few axes of most of their length.

        The axes are those of a sample, by subspace iteration (Halko, Martinsson, Tropp, SIAM Review 2011, algorithm
        4.4): less are found where the rows are fewer, or have fewer columns.
        """
        largest = float(np.abs(rows.data).max(initial=0)) or 1.0
        values = rows.data / largest
        squares = np.add.reduceat(np.append(values**2, 0), rows.indptr[:-1])
        squares[np.diff(rows.indptr) == 0] = 0  # reduceat takes the next entry for a row that has none
        longest = np.sqrt(squares.max(initial=0)) or 1.0
        scaled = sparse.csr_array(((values / longest).astype(np.float32), rows.indices, rows.indptr), shape=rows.shape)
        sample = scaled[sample_ids(len(squares), SAMPLE_ROWS)]
        basis = rng.normal(size=(rows.shape[1], min(AXES, *sample.shape)))
        for _ in range(POWER_STEPS):
            basis, _ = np.linalg.qr(sample.T @ (sample @ basis))
        return cls(scaled, (squares / longest**2).astype(np.float32), scaled @ basis.astype(np.float32))

    def __len__(self) -> int:
        return len(self.squares)

    def take(self, order: np.ndarray) -> "SparsePoints":
        return SparsePoints(self.rows[order], self.squares[order], self.axes[order])

    def of_a_thread(self) -> tuple[np.ndarray, ...]:
        unfolded = np.zeros(self.rows.shape[1], np.float32)
        return self.rows.indptr, self.rows.indices, self.rows.data, self.squares, unfolded


def unfold(points: Any, a: Any) -> None:
    """Make a point ready to be the first of pairs."""


def fold(points: Any, a: Any) -> None:
    """Undo `unfold`."""


def gap(points: Any, a: Any, b: Any) -> Any:
    """Return the squared distance of two points, of which the first is unfolded."""


@overload(unfold)
def _unfold(points, a):
    def nothing(points, a):
        pass

    def sparse_row(points, a):
        indptr, indices, data, _, unfolded = points
        for entry in range(indptr[a], indptr[a + 1]):
            unfolded[indices[entry]] = data[entry]

    return nothing if len(points) == 1 else sparse_row


@overload(fold)
def _fold(points, a):
    def nothing(points, a):
        pass

    def sparse_row(points, a):
        indptr, indices, _, _, unfolded = points
        for entry in range(indptr[a], indptr[a + 1]):
            unfolded[indices[entry]] = 0

    return nothing if len(points) == 1 else sparse_row


@overload(gap)
def _gap(points, a, b):
    def of_rows(points, a, b):
        return float32_gap(points[0][a], points[0][b])

    def of_sparse_rows(points, a, b):
        indptr, indices, data, squares, unfolded = points
        product = np.float32(0)
        for entry in range(indptr[b], indptr[b + 1]):
            product += data[entry] * unfolded[indices[entry]]
        return max(np.float32(0), squares[a] + squares[b] - np.float32(2) * product)

    return of_rows if len(points) == 1 else of_sparse_rows

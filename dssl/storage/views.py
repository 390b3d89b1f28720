"""Views of rows: selected rows, ranges and columns; and reads of scattered rows chunk by chunk."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from .blocks import STREAM_ROWS, ArrayRows, Rows
from .csr import as_csr

if TYPE_CHECKING:  # scipy, which a scheduler does without
    from ..base.types import Matrix


class SelectedRows(Rows):
    """Selected rows in the order of `ids`; reads no chunk without one of them."""

    def __init__(self, rows: Rows, ids: Rows | ArrayLike):
        self.rows = rows
        self.ids = ids if isinstance(ids, Rows) else ArrayRows(np.asarray(ids))
        self.shape = (len(self.ids), *rows.shape[1:])
        self.dtype = rows.dtype
        self.is_sparse = rows.is_sparse

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def read(self, start: int, stop: int) -> "Matrix":
        return self.rows.take(self.ids.read(start, stop))

    def take(self, ids: np.ndarray) -> "Matrix":
        return self.rows.take(self.ids.take(ids))


class CachedRows(Rows):
    """Stored rows of which those with some numbers are in memory, where `take` finds them.

    Pickled, as for a task, they become the stored rows alone.
    """

    def __init__(self, rows: Rows, ids: np.ndarray):
        self.rows = rows
        self.shape = rows.shape
        self.dtype = rows.dtype
        self.is_sparse = rows.is_sparse
        self.chunk_rows = rows.chunk_rows
        self._ids = np.unique(ids)
        self._cached = rows.take(self._ids)

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def read(self, start: int, stop: int) -> "Matrix":
        return self.rows.read(start, stop)

    def read_columns(self, first: int, last: int) -> np.ndarray:
        return self.rows.read_columns(first, last)

    def take(self, ids: np.ndarray) -> "Matrix":
        ids = np.asarray(ids, np.int64)
        positions = np.minimum(np.searchsorted(self._ids, ids), len(self._ids) - 1)
        if len(self._ids) and np.array_equal(self._ids[positions], ids):
            return self._cached[positions]
        return self.rows.take(ids)

    def __reduce__(self) -> tuple[Callable[[Rows], Rows], tuple[Rows]]:
        return stored_rows, (self.rows,)


def stored_rows(rows: Rows) -> Rows:
    """Return the rows unchanged; unpickles `CachedRows`."""
    return rows


def cached_rows(rows: Rows, *ids: np.ndarray) -> Rows:
    """Return rows of which those with these numbers are in memory."""
    return rows if rows.held else CachedRows(rows, np.concatenate(ids))


class RowRange(Rows):
    """The range [first, last) of other rows."""

    def __init__(self, rows: Rows, first: int, last: int):
        self.rows = rows
        self.first = first
        self.held = rows.held
        self.shape = (last - first, *rows.shape[1:])
        self.dtype = rows.dtype
        self.is_sparse = rows.is_sparse

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def read(self, start: int, stop: int) -> "Matrix":
        return self.rows.read(self.first + start, self.first + min(stop, len(self)))

    def take(self, ids: np.ndarray) -> "Matrix":
        return self.rows.take(np.asarray(ids) + self.first)


class FirstColumns(Rows):
    """The first columns of other rows, which must be dense."""

    def __init__(self, rows: Rows, columns: int):
        self.rows = rows
        self.columns = columns
        self.held = rows.held
        self.shape = (len(rows), columns)
        self.dtype = rows.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.rows.read(start, stop)[:, :self.columns]

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self.rows.take(ids)[:, :self.columns]


class ChosenColumns(Rows):
    """Some columns of other rows, in any order."""

    def __init__(self, rows: Rows, columns: list[int]):
        self.rows = rows
        self.columns = np.asarray(columns)
        self.held = rows.held
        self.shape = (len(rows), len(columns))
        self.dtype = rows.dtype
        self.is_sparse = rows.is_sparse

    def read(self, start: int, stop: int) -> np.ndarray:
        return self._chosen(self.rows.read(start, stop))

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self._chosen(self.rows.take(ids))

    def _chosen(self, block: "Matrix") -> "Matrix":
        return as_csr(block[:, self.columns]) if self.is_sparse else block[:, self.columns]


def counts_below(ids: Rows, edges: np.ndarray) -> np.ndarray:
    """Return how many of the ascending numbers (n,) lie below each of the edges (e,); reads them block by block."""
    counts = np.zeros(len(edges), np.int64)
    for _, block in ids.blocks(STREAM_ROWS):
        counts += np.searchsorted(block, edges)
    return counts


def take_by_group(rows: Rows, ids: np.ndarray, group: np.ndarray, read: Callable[[int, np.ndarray], Any]) -> Any:
    """Return the rows `ids` (m,), in this order, by one read per group; `group` (m,) says where each row lies.

    read : called once with each group and its ids; returns these rows. Beside the result, it holds the rows of one
    group, or all groups if the rows are sparse.
    """
    ids = np.asarray(ids, np.int64)
    order = np.argsort(group, kind="stable")
    groups, starts = np.unique(group[order], return_index=True)
    positions = np.split(order, starts[1:])
    blocks = ((position, read(int(g), ids[position])) for g, position in zip(groups, positions, strict=False))
    if rows.is_sparse:
        return sparse.vstack([block for _, block in blocks] or [rows.read(0, 0)], format="csr")[np.argsort(order)]
    out = np.empty((len(ids), *rows.shape[1:]), rows.dtype)
    for position, block in blocks:
        out[position] = block
    return out


def take_by_chunk(rows: Rows, ids: np.ndarray, height: int) -> Any:
    """Return the rows `ids` (m,), in this order; each chunk of `height` rows is read at most once."""
    def read(chunk: int, ids_of_chunk: np.ndarray) -> Any:
        return rows.read(chunk * height, (chunk + 1) * height)[ids_of_chunk - chunk * height]

    return take_by_group(rows, ids, np.asarray(ids, np.int64) // height, read)

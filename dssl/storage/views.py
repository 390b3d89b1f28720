"""Rows that are some of others: chosen ones, or chosen columns of theirs; and how many lie below a number."""

from typing import Any

import numpy as np

from .blocks import STREAM_ROWS, ArrayRows, Rows
from .csr import as_csr


class SelectedRows(Rows):
    """The chosen rows of others, in the order of their numbers; reads no chunk without one of them."""

    def __init__(self, rows: Rows, ids: Any):
        self.rows, self.ids = rows, ids if isinstance(ids, Rows) else ArrayRows(np.asarray(ids))
        self.shape, self.dtype, self.is_sparse = (len(self.ids), *rows.shape[1:]), rows.dtype, rows.is_sparse

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def read(self, start: int, stop: int) -> Any:
        return self.rows.take(self.ids.read(start, stop))

    def take(self, ids: np.ndarray) -> Any:
        return self.rows.take(self.ids.take(ids))


class RowRange(Rows):
    """Rows [first, last) of others."""

    def __init__(self, rows: Rows, first: int, last: int):
        self.rows, self.first, self.held = rows, first, rows.held
        self.shape, self.dtype, self.is_sparse = (last - first, *rows.shape[1:]), rows.dtype, rows.is_sparse

    @property
    def row_bytes(self) -> int:
        return self.rows.row_bytes

    def read(self, start: int, stop: int) -> Any:
        return self.rows.read(self.first + start, self.first + min(stop, len(self)))

    def take(self, ids: np.ndarray) -> Any:
        return self.rows.take(np.asarray(ids) + self.first)


class FirstColumns(Rows):
    """The first columns of other rows, which are dense."""

    def __init__(self, rows: Rows, columns: int):
        self.rows, self.columns, self.held = rows, columns, rows.held
        self.shape, self.dtype = (len(rows), columns), rows.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.rows.read(start, stop)[:, :self.columns]

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self.rows.take(ids)[:, :self.columns]


class ChosenColumns(Rows):
    """Some columns of rows, in an order of their own."""

    def __init__(self, rows: Rows, columns: list[int]):
        self.rows, self.columns, self.held = rows, np.asarray(columns), rows.held
        self.shape, self.dtype = (len(rows), len(columns)), rows.dtype
        self.is_sparse = rows.is_sparse

    def read(self, start: int, stop: int) -> np.ndarray:
        return self._chosen(self.rows.read(start, stop))

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self._chosen(self.rows.take(ids))

    def _chosen(self, block: Any) -> Any:
        return as_csr(block[:, self.columns]) if self.is_sparse else block[:, self.columns]


def counts_below(ids: Rows, edges: np.ndarray) -> np.ndarray:
    """Return how many of ascending numbers (n,) are below each of the edges (e,); a block of them is held at a time."""
    counts = np.zeros(len(edges), np.int64)
    for _, block in ids.blocks(STREAM_ROWS):
        counts += np.searchsorted(block, edges)
    return counts

"""Rows that are some of others: chosen ones, or their first columns."""

from typing import Any

import numpy as np

from .blocks import ArrayRows, Rows


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


class FirstColumns(Rows):
    """The first columns of other rows, which are dense."""

    def __init__(self, rows: Rows, columns: int):
        self.rows, self.columns, self.held = rows, columns, rows.held
        self.shape, self.dtype = (len(rows), columns), rows.dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.rows.read(start, stop)[:, :self.columns]

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self.rows.take(ids)[:, :self.columns]

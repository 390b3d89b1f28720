"""Scaled rows, which are scaled block by block wherever they are read, and never held whole."""

import numpy as np

from ...execution.tasks import Execution
from ...storage.blocks import Arrays, HeldArrays, Rows, rows_that_fit
from .scaling import Scaling, require_columns

SCALED_CHUNK = 16 << 20  # bytes of scaled rows in one chunk


class ScaledRows(Rows):
    """Rows that are scaled each time they are read.

    execution : tasks of this execution load the arrays of the scaling instead of carrying them.
    """

    def __init__(self, rows: Rows, scaling: Scaling, execution: Execution | None = None):
        arrays, _ = scaling.to_arrays()
        self._arrays: Arrays = execution.share(**arrays) if execution else HeldArrays(**arrays)
        self.rows = rows
        self.kind = scaling.kind
        self.shape = rows.shape
        self.dtype = np.result_type(rows.dtype, np.float32)
        self.is_sparse = rows.is_sparse and scaling.keeps_zeros

    @property
    def scaling(self) -> Scaling:
        return Scaling.from_arrays(self._arrays.load(), {"kind": self.kind, "n_columns": self.shape[1]})

    @property
    def row_bytes(self) -> int:
        if not self.is_sparse:
            return super().row_bytes
        entry = self.rows.dtype.itemsize + 4
        scaled_entry = self.dtype.itemsize + 4
        return -(-(self.rows.row_bytes - 8) * scaled_entry // entry) + 8

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.scaling.transform(self.rows.read(start, stop))

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self.scaling.transform(self.rows.take(ids))


def scaled(rows: Rows, scaling: Scaling, execution: Execution) -> Rows:
    """Return scaled rows, readable by every task; the rows themselves if the scaling changes nothing.

    Raises
    ------
    DataError : the scaling was fitted on another number of columns.
    """
    require_columns(rows.shape, scaling.attributes["n_columns"])
    rows = execution.share_rows(rows)
    unchanged = scaling.kind == "none" and not scaling.cuts and rows.dtype.kind == "f"
    return rows if unchanged else ScaledRows(rows, scaling, execution)


def scaled_rows(n: int, row_bytes: int, chunk: int, budget: int) -> int:
    """Return the number of rows that one task scales; it reads chunks of `chunk` rows one at a time, and writes one."""
    beside_chunks = rows_that_fit(budget, row_bytes, n, fixed_bytes=2 * chunk * row_bytes)
    return min(beside_chunks, rows_that_fit(budget, 6 * row_bytes, n), max(1, SCALED_CHUNK // row_bytes))

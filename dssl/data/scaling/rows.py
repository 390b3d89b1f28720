"""Rows as a scaling makes them: scaled block by block wherever they are read, and never held whole."""

import numpy as np

from ...execution.tasks import Execution
from ...storage.blocks import Arrays, HeldArrays, Rows
from .scaling import Scaling, require_columns


class ScaledRows(Rows):
    """Rows as a scaling makes them, scaled each time they are read.

    execution : whose tasks read them; they load the arrays of the scaling then, and do not carry them.
    """

    def __init__(self, rows: Rows, scaling: Scaling, execution: Execution | None = None):
        arrays, _ = scaling.to_arrays()
        self._arrays: Arrays = execution.share(**arrays) if execution else HeldArrays(**arrays)
        self.rows, self.kind, self.shape = rows, scaling.kind, rows.shape
        self.dtype = np.result_type(rows.dtype, np.float32)
        self.is_sparse = rows.is_sparse and scaling.keeps_zeros

    @property
    def scaling(self) -> Scaling:
        return Scaling.from_arrays(self._arrays.load(), {"kind": self.kind, "n_columns": self.shape[1]})

    @property
    def row_bytes(self) -> int:
        if not self.is_sparse:
            return super().row_bytes
        entry, scaled_entry = self.rows.dtype.itemsize + 4, self.dtype.itemsize + 4
        return -(-(self.rows.row_bytes - 8) * scaled_entry // entry) + 8

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.scaling.transform(self.rows.read(start, stop))

    def take(self, ids: np.ndarray) -> np.ndarray:
        return self.scaling.transform(self.rows.take(ids))


def scaled(rows: Rows, scaling: Scaling, execution: Execution) -> Rows:
    """Return rows as a scaling makes them, readable by every task; the rows themselves where nothing is scaled.

    Raises DataError: they have other columns than the scaling was fitted on.
    """
    require_columns(rows.shape, scaling.attributes["n_columns"])
    rows = execution.share_rows(rows)
    unchanged = scaling.kind == "none" and not scaling.cuts and rows.dtype.kind == "f"
    return rows if unchanged else ScaledRows(rows, scaling, execution)

"""Zarr of version 2 or 3 in a local folder: an array X, or a group that holds X and optionally y and split."""

from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ...errors import DataError, require
from ...storage.foreign_zarr import ForeignArray, list_arrays, read_foreign
from .base import NO_TARGET, Block, Reader, Scan, dense, target_values
from .npy import require_length, table_shape


class ZarrReader(Reader):
    """X from a Zarr array, or from the array X of a group; axes after the first become columns.

    `target` names the array of a group that holds the labels, `split` the one that is 0 for training and 1 for test
    rows. A chunk that is missing is read as its fill value, as Zarr does.
    """

    format: ClassVar[str] = "zarr"
    options: ClassVar[tuple[str, ...]] = ("target", "split")
    is_folder: ClassVar[bool] = True

    def __init__(self, path: Path, name: str, scratch: Path, *, target: str | int | None = None,
                 split: str | None = None):
        self.path, self.name, self.target, self.split = path, name, target, split
        self._scan: Scan | None = None
        self._y: str | None = None  # the arrays in use
        self._split: str | None = None

    def scan(self) -> Scan:
        if self._scan is None:
            self._scan = self._look()
        return self._scan

    def _look(self) -> Scan:
        arrays = list_arrays(self.path, self.name)
        require("X" in arrays, f"{self.name} holds {', '.join(sorted(arrays)) or 'no arrays'}, expected X",
                why="the points are read from the array named X", error=DataError,
                fix="name the folder of the array itself, or give it the name X")
        X = arrays["X"]
        n_rows, n_columns = table_shape(X, X.name)
        self._y, self._split = self._member(arrays, self.target, "y"), self._member(arrays, self.split, "split")
        for member in (self._y, self._split):
            if member is not None:
                require_length(arrays[member], n_rows, arrays[member].name)
        if self._y is not None:
            self._labels(0, 1)
        if self._split is not None:
            for start in range(0, n_rows, 1 << 20):
                found = np.unique(self._read(self._split, start, min(start + (1 << 20), n_rows)))
                require(bool(np.isin(found, (0, 1)).all()), error=DataError,
                        what=f"{arrays[self._split].name} holds {found[:6].tolist()}, expected 0 and 1",
                        why="0 marks training rows and 1 test rows", fix="save it as 0 and 1")
        return Scan(n_rows=n_rows, n_columns=n_columns, dtype=str(X.dtype.newbyteorder("=")), target=self._y,
                    row_bytes=n_columns * X.dtype.itemsize, has_split=self._split is not None,
                    unit_bytes=max(arrays[member].unit_bytes for member in ("X", self._y, self._split) if member))

    def _member(self, arrays: dict[str, ForeignArray], wanted: str | int | None, default: str) -> str | None:
        """Return the array that was asked for, or the default one if the group has it."""
        if wanted is None:
            return default if default in arrays else None
        if wanted == NO_TARGET:
            return None
        require(wanted in arrays, f"{self.name} has no array {wanted!r}, it holds {', '.join(sorted(arrays))}",
                why="the option names an array of the group", fix="name one of them", error=DataError)
        return str(wanted)

    def _read(self, member: str, start: int, stop: int) -> np.ndarray:
        return read_foreign(self.path, self.name, member, start, stop)

    def _labels(self, start: int, stop: int) -> np.ndarray:
        """Return labels as `target_values` does; text of any length is text as well."""
        assert self._y is not None
        y = self._read(self._y, start, stop)
        if y.dtype.kind in "OT" and all(isinstance(label, str) for label in y):
            return np.array(y.tolist(), object)
        return target_values(y, f"{self.name}[{self._y!r}]")

    def read(self, start: int, stop: int, dtype: Any = np.float32, *, text_target: bool = False) -> Block:
        self.scan()
        X = self._read("X", start, stop)
        split = np.asarray(self._read(self._split, start, stop), np.uint8) if self._split else None
        return Block(dense(X.reshape(len(X), -1), dtype), self._labels(start, stop) if self._y else None, split)

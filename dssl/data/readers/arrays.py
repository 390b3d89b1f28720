"""Base class of readers of named arrays: X, whose rows are points, and optionally y and an official split."""

import math
from abc import abstractmethod
from collections.abc import Collection
from typing import Any

import numpy as np

from ...base.errors import DataError, require
from ...storage.foreign_zarr import ForeignArray
from ..targets import target_values
from .base import NO_TARGET, Block, Reader, Scan, no_rows

SPLIT_ROWS = 1 << 20  # of a split that are looked at together

OnDisk = np.ndarray | ForeignArray  # an array whose rows are read on demand


class ArrayReader(Reader):
    """X from one array, y and split from others; axes of X after the first become columns."""

    _y: str | None = None  # the arrays in use
    _split: str | None = None

    @abstractmethod
    def _array(self, member: str) -> OnDisk:
        """Return an array by its name."""

    def _label(self, member: str) -> str:
        """Return the name of an array in messages."""
        return f"{self.name}[{member!r}]"

    def _choose(self, members: Collection[str], target: str | int | None = None, split: str | None = None) -> None:
        """Choose the arrays y and split, by the options or by these names; raise DataError if an option names none."""
        named = []
        for member, default in ((target, "y"), (split, "split")):
            member = (default if default in members else NO_TARGET) if member is None else str(member)
            require(member in members or member == NO_TARGET, error=DataError, why="the option names one of them",
                    what=f"{self.name} has no member {member!r}, it holds {', '.join(sorted(members))}",
                    fix="name one that is there")
            named.append(None if member == NO_TARGET else member)
        self._y, self._split = named

    def _scan_of(self, n_rows: int, n_columns: int, row_bytes: int, **more: Any) -> Scan:
        """Return the scan of a file whose X has this shape, after checking what the values of y and split are."""
        for member in (self._y, self._split):
            if member is not None:
                values = self._array(member)
                require(values.shape == (n_rows,), f"{self._label(member)} has shape {values.shape}, expected "
                        f"({n_rows},)", why="every row has one value of it, or the two do not belong together",
                        fix="name the right array, or save as many values as X has rows, in one dimension",
                        error=DataError)
        self._labels(0, 1)
        if self._split is not None:
            split = self._array(self._split)
            for start in range(0, n_rows, SPLIT_ROWS):
                values_seen = np.unique(split[start:start + SPLIT_ROWS])
                require(bool(np.isin(values_seen, (0, 1)).all()), error=DataError,
                        what=f"{self._label(self._split)} holds {values_seen[:6].tolist()}, expected 0 and 1",
                        why="0 marks training rows and 1 test rows", fix="save it as 0 and 1")
        return Scan(**{"n_rows": n_rows, "n_columns": n_columns, "row_bytes": row_bytes, "target": self._y,
                       "has_split": self._split is not None, **more})

    def _scan_of_dense(self, **more: Any) -> Scan:
        """Return the scan of a file that has X as one array."""
        X = self._array("X")
        n_rows, n_columns = table_shape(X, self._label("X"))
        return self._scan_of(n_rows, n_columns, n_columns * X.dtype.itemsize, dtype=str(X.dtype.newbyteorder("=")),
                             **more)

    def _labels(self, start: int, stop: int) -> np.ndarray | None:
        return None if self._y is None else target_values(self._array(self._y)[start:stop], self._label(self._y))

    def _points(self, start: int, stop: int) -> Any:
        """Return rows [start, stop) of X."""
        X = self._array("X")[start:stop]
        return X.reshape(len(X), -1)

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        self.scan()
        return Block(self._points(start, stop), self._labels(start, stop),
                     None if self._split is None else np.asarray(self._array(self._split)[start:stop], np.uint8))


def table_shape(array: OnDisk, name: str) -> tuple[int, int]:
    """Return the shape (n, d) of an array of numbers as a table: one axis is one column, further axes are flattened.

    Raise DataError if the array is a scalar, holds no numbers, or has no rows or no columns.
    """
    require(len(array.shape) >= 1, f"{name} holds one number, expected an array of shape (rows, columns)",
            why="points are rows", fix="save an array of two dimensions", error=DataError)
    require_numbers(array, name)
    if array.shape[0] == 0:
        raise no_rows(name)
    require(math.prod(array.shape) > 0, f"{name} has shape {array.shape}: no columns", error=DataError,
            why="points without features cannot be told apart", fix="check what was saved into the file")
    return array.shape[0], math.prod(array.shape[1:])


def require_numbers(array: OnDisk, name: str) -> None:
    """Raise DataError unless an array holds real numbers or booleans."""
    require(array.dtype.kind in "biuf", f"{name} holds values of type {array.dtype}, expected numbers", error=DataError,
            why="distances and kernels are computed from real numbers",
            fix="store numbers: code categories as integers or one column each, dates as days, and save again; "
                "from CSV, `when_text: one_hot` makes the columns of categories")

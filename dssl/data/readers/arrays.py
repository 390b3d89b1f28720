"""Base class of readers of named arrays: X, whose rows are points, and optionally y and an official split."""

import math
from abc import abstractmethod
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ...base.errors import DataError, explain, require
from ...base.types import Matrix
from ...storage.foreign_zarr import ForeignArray
from ...storage.hdf5 import Hdf5Array
from ..targets import target_values
from .base import NO_TARGET, Block, Reader, Scan, cut_short, no_rows

SPLIT_ROWS = 1 << 20  # of a split that are looked at together

OnDisk = np.ndarray | ForeignArray | Hdf5Array  # an array whose rows are read on demand


@dataclass(frozen=True)
class CsrParts:
    """The parts of a CSR matrix of this shape, each read by ranges.

    name : of the file in messages. label : returns the name of a part in messages.
    """

    name: str
    shape: tuple[int, int]
    data: OnDisk
    indices: OnDisk
    indptr: OnDisk
    label: Callable[[str], str]

    @property
    def nbytes(self) -> int:
        """The bytes of all parts."""
        return sum(math.prod(part.shape) * part.dtype.itemsize for part in (self.data, self.indices, self.indptr))

    def check(self) -> None:
        """Raise DataError unless the sizes of the parts fit; blocks of rows check their pointers and column numbers."""
        n_rows, n_columns = self.shape
        require_numbers(self.data, self.label("data"))
        if n_rows == 0:
            raise no_rows(self.name)
        require(n_columns > 0, f"{self.name} has shape ({n_rows}, 0): no columns", error=DataError,
                why="points without features cannot be told apart", fix="check what was saved into the file")
        entries = math.prod(self.indptr.shape)
        require(self.indptr.shape == (n_rows + 1,) and self.indptr.dtype.kind in "iu"
                and int(self.indptr[0:1][0]) == 0, error=DataError,
                what=f"{self.label('indptr')} has {entries} entries for {n_rows} rows, expected "
                     f"{n_rows + 1} integers from 0 on",
                why="row i lies between entries i and i + 1; a CSC matrix has one entry a column instead",
                fix="save the parts of X.tocsr()")
        stored = int(self.indptr[n_rows:n_rows + 1][0])
        if not self.data.shape == self.indices.shape == (stored,):
            raise cut_short(f"{self.name}: data and indices", stored * self.data.dtype.itemsize,
                            math.prod(self.data.shape) * self.data.dtype.itemsize)

    def block(self, start: int, stop: int) -> sparse.csr_array:
        """Return rows [start, stop)."""
        n_columns = self.shape[1]
        indptr = np.asarray(self.indptr[start:stop + 1], np.int64)
        bad = np.flatnonzero(np.diff(indptr) < 0)
        require(not len(bad), f"{self.label('indptr')} falls at row {start + int(bad[0]) if len(bad) else start}",
                why="the entries of a row would overlap those of the row before", fix="save the parts of X.tocsr()",
                error=DataError)
        indices = np.asarray(self.indices[indptr[0]:indptr[-1]], np.int64)
        wrong = np.flatnonzero((indices < 0) | (indices >= n_columns))
        if len(wrong):
            row = start + int(np.searchsorted(indptr - indptr[0], wrong[0], side="right")) - 1
            raise DataError(explain(
                f"{self.label('indices')} holds column {indices[wrong[0]]} in row {row}, the last is {n_columns - 1}",
                why="the matrix has no such column", fix="save shape=X.shape together with the other parts"))
        data = np.asarray(self.data[indptr[0]:indptr[-1]], np.float64)
        shape = (len(indptr) - 1, n_columns)
        return sparse.csr_array((data, indices.astype(np.int32), indptr - indptr[0]), shape)


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

    def _scan_of_csr(self, parts: CsrParts, **more: Any) -> Scan:
        """Return the scan of a file that has X as the parts of a CSR matrix."""
        parts.check()
        n_rows, n_columns = parts.shape
        return self._scan_of(n_rows, n_columns, max(1, parts.nbytes // n_rows), dtype=str(parts.data.dtype),
                             nnz=parts.data.shape[0], **more)

    def _labels(self, start: int, stop: int) -> np.ndarray | None:
        return None if self._y is None else target_values(self._array(self._y)[start:stop], self._label(self._y))

    def _points(self, start: int, stop: int) -> Matrix:
        """Return rows [start, stop) of X."""
        X = self._array("X")[start:stop]
        return X.reshape(len(X), -1)

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        self.scan()
        return Block(self._points(start, stop), self._labels(start, stop),
                     None if self._split is None else np.asarray(self._array(self._split)[start:stop], np.uint8))


def table_shape(array: OnDisk, name: str) -> tuple[int, int]:
    """Return the shape (n, d) of an array of numbers as a table: one axis is one column, further axes are flattened."""
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

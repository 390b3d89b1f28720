"""Reads several files of one format as one: their rows are concatenated, their columns matched by name."""

from collections.abc import Collection, Sequence
from copy import copy
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd

from ...base.digest import JsonObject
from ...base.errors import DataError, explain, require
from ...storage.csr import stack_points
from ...storage.views import pieces_of
from ..targets import named_labels, text_of
from .base import Block, Reader, Scan
from .cell_text import NumberFormat
from .cells import Cells

MARKS = {",": "comma", ".": "point"}
MISREAD = "10,395 is ten and a fraction under one mark, and thousands under the other"


class JoinedReader(Reader):
    """The concatenated rows of several readers.

    Columns are matched by name in the order of the first file, or by number if files have no names. A target that is
    text in one file is text in all.

    readers : of one format, at least one. feature_names : replace those of the first file; `origin` names their source.
    """

    format: ClassVar[str] = "joined"

    def __init__(self, readers: Sequence[Reader], feature_names: Sequence[str] | None = None, origin: str = ""):
        self.readers, self.expected, self.origin = list(readers), feature_names, origin
        first = self.readers[0]
        self.path, self.name = first.path, first.name
        self.format, self.options = first.format, first.options  # type: ignore[misc]
        self._starts = np.zeros(1, np.int64)  # first row of each file, and the number of rows
        self._orders: list[list[int] | None] = []  # the order of the columns of each file; None: unchanged
        self._names: list[tuple[str, ...] | None] = []  # the texts of the integer labels of each file

    def column_names(self) -> list[str]:
        return self.readers[0].column_names()

    def list_elements(self) -> Collection[str]:
        return self.readers[0].list_elements()

    @property
    def number_format(self) -> NumberFormat | None:
        self.scan()
        return self.readers[0].number_format

    def source_column(self, j: int) -> str | int:
        self.scan()
        return self.readers[0].source_column(j)

    def unusable(self) -> dict[str | int, str]:
        return self.readers[0].unusable()

    def _look(self) -> Scan:
        for reader in self.readers:
            reader.scan()
        require_same_decimal(self.readers)
        self.readers = [reader.settle(self.readers) for reader in self.readers]
        scans = [reader.scan() for reader in self.readers]
        first, first_name, has_target = scans[0], self.readers[0].name, scans[0].target is not None
        self._orders = []
        for reader, scan in zip(self.readers, scans, strict=True):
            self._orders.append(self._order(reader.name, scan, first))
            require_same_arrays(reader.name, scan, first_name, has_target=has_target, has_split=first.has_split)
            named = scan.feature_names is not None and first.feature_names is not None
            require(not named or scan.target == first.target, error=DataError,
                    what=f"the target of {reader.name} is {scan.target!r}, that of {first_name} {first.target!r}",
                    why="they may be different things", fix="name it with `target:`")
        self._starts = np.cumsum([0, *(scan.n_rows for scan in scans)])
        labels = {scan.label_names for scan in scans}
        self._names = [None if len(labels) == 1 else scan.label_names for scan in scans]
        keys, text, measures = (tuple(sorted({
            j if order is None else order.index(j) for scan, order in zip(scans, self._orders, strict=True)
            for j in getattr(scan, known)})) for known in ("keys", "text", "measures"))
        cells_by: dict[str, dict[int, Cells]] = {"odd": {}, "bounds": {}}
        first_values: JsonObject = {"readings": {}, "several_units": {}, "written": {}}
        odd_labels = Cells()
        for scan, order, start in zip(scans, self._orders, self._starts.tolist(), strict=False):
            odd_labels = odd_labels.merge(scan.odd_labels.after(start))
            for field, cells_of in cells_by.items():
                for k, cells in getattr(scan, field).items():
                    j = k if order is None else order.index(k)
                    cells_of[j] = cells_of.get(j, Cells()).merge(cells.after(start))
            for field, values in first_values.items():
                for k, value in getattr(scan, field).items():
                    values.setdefault(k if order is None else order.index(k), value)
        entries = [scan.nnz for scan in scans if scan.nnz is not None]
        return replace(
            first, n_rows=int(self._starts[-1]), dtype=str(np.result_type(*(scan.dtype for scan in scans))),
            row_bytes=max(scan.row_bytes for scan in scans), unit_bytes=max(scan.unit_bytes for scan in scans),
            feature_names=tuple(self.expected) if self.expected and first.feature_names else first.feature_names,
            label_names=first.label_names if len(labels) == 1 else None, keys=keys, text=text,
            measures=measures, odd_labels=odd_labels, **(first_values | cells_by),
            nnz=sum(entries) if len(entries) == len(scans) else None)

    def rows_by_file(self) -> list[int]:
        return [reader.scan().n_rows for reader in self.readers]

    def _order(self, name: str, scan: Scan, first: Scan) -> list[int] | None:
        """Return the order of a file's columns in the result; None if it is unchanged."""
        expected, origin = self.expected, self.origin
        if not expected:
            expected, origin = first.feature_names, self.readers[0].name
        if expected is None or scan.feature_names is None:
            n_columns = len(expected) if expected is not None and self.expected else first.n_columns
            require(scan.n_columns == n_columns, f"{name} has {scan.n_columns} features, {origin} has {n_columns}",
                    why="rows of one data set have the same columns", error=DataError,
                    fix="leave the file out, or write it with the columns of the other")
            return None
        lacking = [column for column in expected if column not in scan.feature_names]
        more = [column for column in scan.feature_names if column not in expected]
        if lacking or more or len(expected) != len(scan.feature_names):
            differences = "; ".join(f"only {file} has {', '.join(map(repr, columns[:8]))}"
                              for file, columns in ((origin, lacking), (name, more)) if columns)
            taken = scan.target in lacking
            raise DataError(explain(
                f"{name} and {origin} have different columns: {differences}",
                why=f"the target of {name} was assumed to be {scan.target!r}" if taken else
                "rows of one data set have the same columns, in any order",
                fix="add the target column to the file, with empty cells for points without a label" if taken
                else "leave the file out, or name columns to leave out with `drop:`"))
        order = [scan.feature_names.index(column) for column in expected]
        return None if order == sorted(order) else order

    # ---- rows

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        self.scan()
        pieces = list(pieces_of(self._starts, start, stop))
        blocks = [self._read_one(*piece, text_target) for piece in pieces]
        y = [block.y for block in blocks if block.y is not None]
        if len({labels.dtype == object for labels in y}) == 2:
            blocks = [self._read_one(*piece, True) for piece in pieces]
            y = [text_of(block.y) for block in blocks if block.y is not None]
        elif text_target and any(labels.dtype == object for labels in y):
            y = [text_of(labels) for labels in y]
        split = [block.split for block in blocks if block.split is not None]
        X, first = [block.X for block in blocks], 0
        odd: dict[int, list[tuple[int, str]]] = {}
        for block in blocks:
            for j, cells in block.odd.items():
                odd[j] = [*odd.get(j, []), *((first + row, text) for row, text in cells)]
            first += len(block.X) if isinstance(block.X, pd.DataFrame) else block.X.shape[0]
        if len(blocks) > 1:
            X = [pd.concat(X, ignore_index=True) if isinstance(X[0], pd.DataFrame) else stack_points(*X)]
        return Block(X[0], np.concatenate(y) if y else None, np.concatenate(split) if split else None, odd)

    def _read_one(self, i: int, start: int, stop: int, text_target: bool) -> Block:
        """Return rows [start, stop) of one file, with its columns in the common order."""
        order, names = self._orders[i], self._names[i]
        block = self.readers[i].read(start, stop, text_target=text_target)
        if order is not None:
            X = block.X[order] if isinstance(block.X, pd.DataFrame) else block.X[:, order]
            block = replace(block, X=X.set_axis(range(len(order)), axis=1) if isinstance(X, pd.DataFrame) else X,
                            odd={order.index(k): cells for k, cells in block.odd.items()})
        if names is not None and block.y is not None and block.y.dtype == np.int64:
            block = replace(block, y=_texts_of_codes(block.y, names))
        return block

    def places(self, rows: Sequence[int]) -> list[str]:
        self.scan()
        texts = []
        for row in rows:
            i, within, _ = next(iter(pieces_of(self._starts, row, row + 1)))
            row_name = self.readers[i].places([within])[0]
            texts.append(row_name if len(self.readers) == 1 else
                         f"row {row} (counted from 0) of all: {row_name} of {self.readers[i].name}")
        return texts

    def without(self, names: Collection[str]) -> "JoinedReader":
        expected = self.expected and [name for name in self.expected if name not in names]
        return JoinedReader([reader.without(names) for reader in self.readers], expected, self.origin)

    def narrow(self, start: int, stop: int) -> "JoinedReader":
        self.scan()
        pieces = list(pieces_of(self._starts, start, stop))
        first, last = pieces[0][0], pieces[-1][0] + 1
        small = copy(self)
        small.readers = [self.readers[i].narrow(begin, end) for i, begin, end in pieces]
        small._starts = self._starts[first:last + 1]
        small._orders, small._names = self._orders[first:last], self._names[first:last]
        return small


def require_same_decimal(readers: Sequence[Reader]) -> None:
    """Raise DataError if some files have decimal commas, and others decimal points."""
    first: tuple[str, Reader] | None = None
    for reader in readers:
        if not (mark := reader.decimal_mark()):
            continue
        first = first or (mark, reader)
        require(mark == first[0], error=DataError, why=MISREAD,
                what=f"numbers of {reader.name} have a decimal {MARKS[mark]}, those of {first[1].name} a decimal "
                     f"{MARKS[first[0]]}",
                fix="write all files with one decimal mark; or, if they have one and the other separates thousands, "
                    "name it: data.read.decimal, --read decimal=")


def require_decimal(readers: Sequence[Reader], mark: str) -> None:
    """Raise DataError if new rows of a data set with a decimal mark have the other one.

    readers : of the files of these rows, without a mark.
    """
    for reader in readers:
        other = reader.decimal_mark(against=mark)
        require(other in ("", mark), error=DataError, why=MISREAD,
                what=f"numbers of {reader.name} have a decimal {MARKS.get(other)}, those of the data set a decimal "
                     f"{MARKS[mark]}",
                fix="write the file with the mark of the others, or name its own: "
                    f"--read 'decimal=\"{other}\"', in Python decimal=\"{other}\"")


def require_same_arrays(name: str, scan: Scan, other: str, *, has_target: bool, has_split: bool) -> None:
    """Raise DataError unless a file has a target and a split exactly if the other source has them."""
    targets = ("name it with `target:`; or, if its points have no labels, add such a column with empty cells, or y of "
               "NaN to an npz file") if has_target else "leave it out with `target: none`, and its column with `drop:`"
    for what, has, other_has, fix in (
            ("target", scan.target is not None, has_target, targets),
            ("split", scan.has_split, has_split, "give both an official split, or neither")):
        require(has == other_has, error=DataError,
                what=f"{name} has {'a' if has else 'no'} {what}, {other} has {'one' if other_has else 'none'}",
                why="rows of one data set have the same arrays", fix=fix)


def _texts_of_codes(y: np.ndarray, names: tuple[str, ...]) -> np.ndarray:
    """Return the texts of codes, None for -1; if a code has no text, the codes themselves as text."""
    if len(y) and (y.min() < -1 or y.max() >= len(names)):
        return text_of(y)
    return named_labels(y, names)

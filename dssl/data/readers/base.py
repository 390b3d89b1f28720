"""The interface of readers: a scan of the whole file, and random access to its rows."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import ClassVar, Self, TypeAlias

import numpy as np
import pandas as pd

from ...base.digest import JsonObject
from ...base.errors import DataError, explain, require
from ...base.types import Matrix
from .cells import Cells, NumberFormat, Reading

TARGET_NAMES = ("y", "label", "target", "class")
PROBE_ROWS = 1000  # rows that are inspected before all rows are read
FEWEST_ROWS = 20  # with fewer rows nothing is concluded; 20 numbers increase by chance once in 20! = 2e18 files
NO_TARGET = "none"  # `target: none` makes every column a feature


@dataclass(frozen=True, kw_only=True)
class Scan:
    """The content of a file, found without keeping its rows. Dicts and tuples of numbers refer to features."""

    n_rows: int
    n_columns: int  # features, without the target
    dtype: str  # of the values in the file; text is parsed as float64
    target: str | None  # the source of y: a member, a column, or a file
    row_bytes: int  # the average bytes of a row in the file
    unit_bytes: int = 0  # of the largest piece of the file that is read whole for one row, such as a row group
    has_split: bool = False
    is_made: bool = False  # whether rows are computed each time that they are read
    feature_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None  # names of the integer labels 0, 1, ...
    nnz: int | None = None  # stored entries of a sparse file; None if the file is dense
    # Named features that may be identifiers: in the first rows, whole numbers without duplicates, or text that is not a
    # category
    keys: tuple[int, ...] = ()
    text: tuple[int, ...] = ()  # features of a table that are text
    measures: tuple[int, ...] = ()  # features written with fractions, a currency, a % or groups of digits
    # Cells with text in numeric features, and in text features in which most cells are numbers
    odd: dict[int, Cells] = field(default_factory=dict)
    odd_labels: Cells = field(default_factory=Cells)  # cells with text in a numeric target
    target_unit: str = ""  # of a numeric target
    readings: dict[int, Reading] = field(default_factory=dict)  # of features with yes and no, or numbers with a unit
    bounds: dict[int, Cells] = field(default_factory=dict)  # cells such as <5 among numbers
    several_units: dict[int, str] = field(default_factory=dict)  # for numbers in several units: the cells of each
    written: dict[int, str] = field(default_factory=dict)  # an example of numbers that Python writes differently

    def of_columns(self, columns: Sequence[int]) -> "Scan":
        """Return the scan restricted to some of its features."""
        new_number, names = {j: k for k, j in enumerate(columns)}, self.feature_names
        keys, text, measures = (tuple(new_number[j] for j in known if j in new_number)
                                for known in (self.keys, self.text, self.measures))
        by_column: JsonObject = {
            known: {new_number[j]: value for j, value in getattr(self, known).items() if j in new_number}
            for known in ("odd", "readings", "bounds", "several_units", "written")}
        return replace(self, n_columns=len(columns), keys=keys, text=text, measures=measures, **by_column,
                       feature_names=None if names is None else tuple(names[j] for j in columns))


RowBlock: TypeAlias = Matrix | pd.DataFrame
"""Rows of X as `Block` has them."""


@dataclass(frozen=True)
class Block:
    """Rows [start, stop) of a file.

    X : shape (rows, n_columns): an array in the type of the file, possibly memory-mapped; a csr_array of floats if the
        file is sparse; or a DataFrame with columns numbered from 0, which are numbers (missing: NaN) or text as objects
        (missing: None).
    """

    X: RowBlock
    y: np.ndarray | None = None  # (rows,), int64, float64, or text as objects with None for a missing label
    split: np.ndarray | None = None  # (rows,), uint8: 0 train, 1 test
    # By numeric column of a table, cells with text as (row in the block, text); they are NaN in X
    odd: dict[int, list[tuple[int, str]]] = field(default_factory=dict)


class Reader(ABC):
    """Reads one file of one format. It pickles as its path and its scan, and opens the file where it reads.

    It is created as `(path, name, scratch, **options)`, where scratch is a folder for unpacked files. `options` lists
    the options that a user may set; features may be text if `when_text` is one of them.
    """

    format: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()  # file name endings of the format, such as .csv
    options: ClassVar[tuple[str, ...]] = ()
    is_folder: ClassVar[bool] = False  # whether a data set of the format is a folder
    is_typed: ClassVar[bool] = False  # whether the format declares text columns, and has nulls
    is_table: ClassVar[bool] = False  # whether columns can be left out, and may be text
    has_lines: ClassVar[bool] = False  # whether a row of a table is a line of a file
    path: Path  # the file that is read
    name: str  # the file name in messages: the compressed file if `path` was unpacked from it
    _scan: Scan | None = None

    def scan(self) -> Scan:
        """Return the scan of the file; only the first call reads it.

        Raises DataError: the file is empty, truncated, or not of this format; the message names the
        position.
        """
        if self._scan is None:
            self._scan = self._look()
        return self._scan

    @classmethod
    def is_named(cls, name: str) -> bool:
        """Return whether a file name, in lower case and without the ending of a compression, belongs to the format."""
        return Path(name).suffix in cls.endings

    @classmethod
    def is_at(cls, folder: Path) -> bool:
        """Return whether a folder is a data set of the format."""
        return False

    @property
    def number_format(self) -> NumberFormat | None:
        """How numbers are written in a table; None for other formats."""
        return None

    def attributes(self) -> JsonObject:
        """Return what the data set records about the reader, so that added files are read in the same way."""
        return {}

    def fixed(self, readings: Mapping[str | int, Reading]) -> Self:
        """Return a reader that reads text cells as another file decided.

        readings : by feature name, or by feature number if there are no names; the target has the key `TARGET`.
        """
        return self

    @abstractmethod
    def _look(self) -> Scan:
        """Scan the file."""

    def advice(self) -> str:
        """Return what a user should know who has not named the options yet, such as a better choice; "" for nothing."""
        return ""

    def rows_by_file(self) -> list[int]:
        """Return the number of rows of each of its files."""
        return [self.scan().n_rows]

    @abstractmethod
    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        """Return rows [start, stop).

        With `text_target`, y is text even if every label could be read as a number.
        """

    def places(self, rows: Sequence[int]) -> list[str]:
        """Return names of rows for messages: their numbers, and their lines if the file has lines."""
        return [f"row {row} (counted from 0)" for row in rows]

    def column_names(self) -> list[str]:
        """Return the names of all columns, including the target, or [] if the file has no names; reads no rows.

        A single column without a name is "".
        """
        return []

    def list_elements(self) -> Collection[str]:
        """Return the names of the columns that are elements of lists, in the order of the file."""
        return ()

    def source_column(self, j: int) -> str | int:
        """Return the name of feature j for the option `drop`, or its column number if there are no names."""
        names = self.scan().feature_names
        return names[j] if names else j

    def unusable(self) -> "dict[str | int, str]":
        """Return the columns that cannot be features and belong into `drop`, with the reason; reads no rows."""
        return {}

    def decimal_mark(self, against: str = "") -> str:
        """Return the decimal mark with which the numbers of this file were written; "" where that is not certain.

        "" also where the reader has a mark, and where the layout speaks for the mark `against`, and no row is read.
        """
        return ""

    def settle(self, readers: Sequence["Reader"]) -> "Reader":
        """Return this reader, adapted to all files of a data set; `readers` are their scanned readers and this one."""
        return self

    def without(self, names: Collection[str]) -> "Reader":
        """Return a reader of the same table without the features with these names."""
        require(not names, f"{self.name} is {self.format}", why="its columns cannot be left out", error=DataError,
                fix="leave them out where the file is made")
        return self

    def narrow(self, start: int, stop: int) -> "Reader":
        """Return a small reader for rows [start, stop) only, which is pickled with a task."""
        return self


def possible_keys(columns: Mapping[int, np.ndarray]) -> tuple[int, ...]:
    """Return the columns of the first rows that may be keys: whole numbers or text without duplicates."""
    keys = []
    for j, cells in columns.items():
        present = cells[~np.asarray(pd.isna(cells), bool)]
        whole = present.dtype.kind in "iuO" or (present.dtype.kind == "f" and bool((np.rint(present) == present).all()))
        if len(cells) >= FEWEST_ROWS and len(present) and whole and len(pd.unique(present)) == len(present):
            keys.append(j)
    return tuple(keys)


class CellError(DataError):
    """A cell of a table is text or missing instead of a number; `refused_cells` then reports all such cells."""


def text_is_no_label(reader: Reader, cells: Cells) -> DataError:
    """Return the error for cells with text in a numeric target, with their rows and the option to set."""
    scan = reader.scan()
    row_names = reader.places([row for row, _ in cells.shown])
    shown = ", ".join(f"{text[:40]!r} in {row}" for (_, text), row in zip(cells.shown, row_names, strict=True))
    texts = ", ".join(dict.fromkeys(text for _, text in cells.shown))
    return DataError(explain(
        f"{reader.name}: the target {scan.target!r} holds text: {shown} ({cells.texts:,} of {scan.n_rows:,} cells)",
        why="its other cells are numbers",
        fix=f"correct these cells; if they mark missing labels, `missing: [{texts}]`, a key of data.read"))


def no_rows(name: str) -> DataError:
    """Return the error for a file without rows."""
    return DataError(explain(
        f"{name} has no rows", why="there is nothing to read",
        fix="check that the file is complete, and that its format is named correctly"))


def cut_short(name: str, expected: int, present: int) -> DataError:
    """Return the error for a file that ends early (bytes)."""
    return DataError(explain(
        f"{name} is cut short: {expected:,} bytes expected, {present:,} found",
        why="the rows that are missing cannot be guessed", fix="copy or download the file again"))

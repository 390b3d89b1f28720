"""What every reader of a file format gives: a scan of the whole file, and any rows of it read on their own."""

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import pandas as pd

from ...base.errors import DataError, explain, require
from .cells import Cells, NumberFormat, Reading

TARGET_NAMES = ("y", "label", "target", "class")
PROBE_ROWS = 1000  # that are looked at before all rows are read
FEWEST_ROWS = 20  # fewer tell nothing of a column: 20 numbers rise by chance once in 20! = 2e18 files
NO_TARGET = "none"  # `target: none` says that every column is a feature


@dataclass(frozen=True, kw_only=True)
class Scan:
    """What a file holds, found without keeping its rows."""

    n_rows: int
    n_columns: int  # features, without the target
    dtype: str  # of the values in the file; text is parsed as float64
    target: str | None  # where y comes from: a member, a column, a file
    row_bytes: int  # of one row in the file, on average
    unit_bytes: int = 0  # of the largest piece of the file that is read whole for one of its rows: a row group, a chunk
    has_split: bool = False
    is_made: bool = False  # whether rows are computed each time that they are read
    feature_names: tuple[str, ...] | None = None
    label_names: tuple[str, ...] | None = None  # names of the integer labels 0, 1, ...
    nnz: int | None = None  # entries that a sparse file stores; None where the file is dense
    # Features with names that may be left out: of whole numbers none of which comes twice in the first rows, or of text
    # that is no category there
    keys: tuple[int, ...] = ()
    text: tuple[int, ...] = ()  # features of a table that are text
    measures: tuple[int, ...] = ()  # features written with fractions, a currency, a % or groups of digits
    # Cells of text in features that are numbers, and in those that are text where most cells are numbers
    odd: dict[int, Cells] = field(default_factory=dict)
    odd_labels: Cells = field(default_factory=Cells)  # cells of text in a target that is numbers
    target_unit: str = ""  # of its numbers
    readings: dict[int, Reading] = field(default_factory=dict)  # of features of yes and no, and of numbers with a unit
    bounds: dict[int, Cells] = field(default_factory=dict)  # cells such as <5 among numbers
    several_units: dict[int, str] = field(default_factory=dict)  # of text that is numbers: how many cells have which
    written: dict[int, str] = field(default_factory=dict)  # an example of numbers as Python does not write them

    def of_columns(self, columns: Sequence[int]) -> "Scan":
        """Return the scan with some of its features only."""
        place, names = {j: k for k, j in enumerate(columns)}, self.feature_names
        keys, text, measures = (tuple(place[j] for j in known if j in place)
                                for known in (self.keys, self.text, self.measures))
        by_column: dict[str, Any] = {
            known: {place[j]: value for j, value in getattr(self, known).items() if j in place}
            for known in ("odd", "readings", "bounds", "several_units", "written")}
        return replace(self, n_columns=len(columns), keys=keys, text=text, measures=measures, **by_column,
                       feature_names=None if names is None else tuple(names[j] for j in columns))


@dataclass(frozen=True)
class Block:
    """Rows [start, stop) of a file, as its format has them.

    X : shape (rows, n_columns): an array in the type of the file, which may still lie on disk; a csr_array of floats
        where the file is sparse; or a DataFrame of typed columns, numbered from 0: numbers, NaN where a cell is
        missing, or objects that are text, None where it is.
    """

    X: Any
    y: np.ndarray | None = None  # (rows,), int64, float64, or object: text, None where it is missing
    split: np.ndarray | None = None  # (rows,), uint8: 0 train, 1 test
    # By column of numbers, cells of a table that are none (row in the block, text): NaN in X
    odd: dict[int, list[tuple[int, str]]] = field(default_factory=dict)


class Reader(ABC):
    """One file of one format. Pickles as its path and what its scan found, and opens the file where it reads.

    It is made as `(path, name, scratch, **options)`, with a folder for what it unpacks. `options` names what a user may
    set; features may be text where `when_text` is one.
    """

    format: ClassVar[str]
    endings: ClassVar[tuple[str, ...]] = ()  # of names of files, such as .csv, that stand for the format
    options: ClassVar[tuple[str, ...]] = ()
    is_folder: ClassVar[bool] = False  # whether the format is a folder of files
    is_typed: ClassVar[bool] = False  # whether the format says of columns that they are text, and has nulls
    is_table: ClassVar[bool] = False  # whether columns can be left out, and may be text
    has_lines: ClassVar[bool] = False  # whether a row of a table is a line of a file
    path: Path  # the file that is read
    name: str  # the file that messages name: the compressed one, where `path` is unpacked from it
    _scan: Scan | None = None

    def scan(self) -> Scan:
        """Return what the file holds; the first call reads as much as it needs, later ones nothing.

        Raise DataError naming the file and the place if it is empty, cut short, or not of this format.
        """
        if self._scan is None:
            self._scan = self._look()
        return self._scan

    @classmethod
    def is_named(cls, name: str) -> bool:
        """Return whether the name of a file, in lower case and not of a compressed one, stands for the format."""
        return Path(name).suffix in cls.endings

    @classmethod
    def is_at(cls, folder: Path) -> bool:
        """Return whether a folder is a data set of the format."""
        return False

    @property
    def number_format(self) -> NumberFormat | None:
        """How numbers are written in tables; None of other formats."""
        return None

    def attributes(self) -> dict[str, Any]:
        """Return what the data set keeps of the reader, so that more files are read alike; JSON."""
        return {}

    def fixed(self, readings: Mapping[str | int, Reading]) -> Self:
        """Return a reader whose columns are read as another file decided, where it reads cells of text.

        readings : by name, or by number among the features where these have no names; of the target by `TARGET`.
        """
        return self

    @abstractmethod
    def _look(self) -> Scan:
        """Return what the file holds."""

    def rows_by_file(self) -> list[int]:
        """Return how many rows each of its files holds."""
        return [self.scan().n_rows]

    @abstractmethod
    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        """Return rows [start, stop), whatever was read before.

        With `text_target`, y is text even where every label could be read as a number.
        """

    def places(self, rows: Sequence[int]) -> list[str]:
        """Return how messages name rows: by number, and by line where the file has lines."""
        return [f"row {row} (counted from 0)" for row in rows]

    def column_names(self) -> list[str]:
        """Return the names of all columns, features and target alike, or [] where they have none; reads no rows.

        A column without a name among others is "".
        """
        return []

    def source_column(self, j: int) -> str | int:
        """Return how `drop` names feature j of the scan: by its name, or by its number in the source."""
        names = self.scan().feature_names
        return names[j] if names else j

    def unusable(self) -> "dict[str | int, str]":
        """Return the columns that can be no features, to be named in `drop`, and why; reads no rows."""
        return {}

    def settle(self, readers: Sequence["Reader"]) -> "Reader":
        """Return this reader, told what only all files of a data set show; `readers` are these, scanned, itself too."""
        return self

    def without(self, names: Collection[str]) -> "Reader":
        """Return a reader of the same file that leaves out features of these names, where it has any; of a table."""
        require(not names, f"{self.name} is {self.format}", why="its columns cannot be left out", error=DataError,
                fix="leave them out where the file is made")
        return self

    def narrow(self, start: int, stop: int) -> "Reader":
        """Return a reader that is as small as rows [start, stop) need, to travel with a task."""
        return self


def possible_keys(columns: Mapping[int, np.ndarray]) -> tuple[int, ...]:
    """Return the columns of the first rows that may be keys: whole numbers or text, none of which comes twice."""
    keys = []
    for j, cells in columns.items():
        there = cells[~np.asarray(pd.isna(cells), bool)]
        whole = there.dtype.kind in "iuO" or (there.dtype.kind == "f" and bool((np.rint(there) == there).all()))
        if len(cells) >= FEWEST_ROWS and len(there) and whole and len(pd.unique(there)) == len(there):
            keys.append(j)
    return tuple(keys)


class CellError(DataError):
    """A cell of a table is text, or missing, where a number is meant; `refused_cells` tells of all of them."""


def text_is_no_label(reader: Reader, cells: Cells) -> DataError:
    """Return the error for cells of text in a target that is numbers, with their places and what to set."""
    scan = reader.scan()
    places = reader.places([row for row, _ in cells.shown])
    shown = ", ".join(f"{text[:40]!r} in {place}" for (_, text), place in zip(cells.shown, places, strict=True))
    texts = ", ".join(dict.fromkeys(text for _, text in cells.shown))
    return DataError(explain(
        f"{reader.name}: the target {scan.target!r} holds text: {shown} ({cells.texts:,} of {scan.n_rows:,} cells)",
        why="its other cells are numbers",
        fix=f"correct these cells; if they mark missing labels, `missing: [{texts}]`, a key of data.read"))


def no_rows(name: str) -> DataError:
    """Return the error for a file without rows."""
    return DataError(explain(
        f"{name} has no rows", why="there is nothing to learn from",
        fix="check that the file was written to its end, and that its format is the one given"))


def cut_short(name: str, expected: int, present: int) -> DataError:
    """Return the error for a file that ends early (bytes)."""
    return DataError(explain(
        f"{name} is cut short: {expected:,} bytes expected, {present:,} found",
        why="the rows that are missing cannot be guessed", fix="copy or download the file again"))

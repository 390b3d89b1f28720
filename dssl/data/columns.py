"""How the columns of a table become columns of X: missing cells take a mean, and text one 0/1 column per level.

The encoding is chosen once, from the training file (`survey`), recorded in the attributes of the data set, and then
applied unchanged to every block of every file.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypedDict

import numpy as np
import pandas as pd
from numpy.typing import DTypeLike

from ..base.errors import DataError, column_label, explain, require
from ..base.types import is_sparse
from .readers.base import CellError, RowBlock
from .readers.cells import Reading

EXAMPLES = 5  # texts shown in a message


@dataclass(frozen=True)
class Encoded:
    """A block of X, and a record of its encoding.

    X : ndarray or csr_array, shape (rows, width), float64; or a block as it was read, which may be a DataFrame of
    numbers, where nothing is encoded. imputed : the number of cells that were filled.
    unseen : by input column, the number of rows with a text that training did not have, and `some_texts` of these.
    """

    X: RowBlock
    imputed: int = 0
    unseen: dict[int, tuple[int, list[str | None]]] = field(default_factory=dict)


class ColumnDescription(TypedDict, total=False):
    """The JSON form of the encoding of one input column; levels of text only, fill and unit of numbers only."""

    name: str | None
    kind: str
    levels: list[str | None]
    fill: float | None
    unit: str
    imputed: int


class ColumnsDescription(TypedDict):
    """The JSON form of `Columns`, which is part of the attributes of a data set."""

    when_missing: str
    columns: list[ColumnDescription]


@dataclass(frozen=True, eq=False)
class Columns:
    """The encoding of each input column.

    names : of the input columns, or None. n_columns : their number.
    fill : ndarray, shape (n_columns,), float64, replaces missing numbers; None if these are an error.
    levels : by column number, the texts that get a column of X, ascending; None, the last one, stands for missing
        cells. All other columns are numbers.
    imputed : ndarray, shape (n_columns,), int64, the missing cells in the training file.
    readings : by column number, how cells with yes and no, or numbers with a unit, are read.
    """

    names: tuple[str, ...] | None
    n_columns: int
    fill: np.ndarray | None
    levels: dict[int, tuple[str | None, ...]]
    imputed: np.ndarray
    readings: dict[int, Reading] = field(default_factory=dict)

    @classmethod
    def of_numbers(cls, names: Sequence[str] | None, n_columns: int, readings: dict[int, Reading]) -> "Columns":
        """Return the encoding of columns that are all numbers and are used as they are."""
        return cls(tuple(names) if names else None, n_columns, None, {}, np.zeros(n_columns, np.int64), readings)

    @property
    def width(self) -> int:
        """The number of columns of X."""
        return self.n_columns + sum(len(levels) - 1 for levels in self.levels.values())

    def feature_names(self) -> list[str] | None:
        """Return the names of the columns of X: `column` or `column=level`; None if there are no names."""
        if self.names is None and not self.levels:
            return None
        names = self.names or tuple(map(str, range(self.n_columns)))
        return [feature for j, name in enumerate(names) for feature in (
            [f"{name}={'(missing)' if level is None else level}" for level in self.levels[j]]
            if j in self.levels else [name])]

    def read_as(self) -> dict[str | int, Reading]:
        """Return how each input column is read, by its name, or by its number if it has none."""
        names: Sequence[str | int] = self.names or range(self.n_columns)
        return {name: Reading("text") if j in self.levels else self.readings.get(j, Reading())
                for j, name in enumerate(names)}

    def of_text(self) -> np.ndarray:
        """Return which columns of X encode text, (width,) bool."""
        return np.concatenate([np.full(len(self.levels[j]) if j in self.levels else 1, j in self.levels)
                               for j in range(self.n_columns)])

    def describe(self) -> ColumnsDescription:
        """Return JSON attributes, which `of` reads."""
        columns: list[ColumnDescription] = []
        for j in range(self.n_columns):
            column: ColumnDescription = {"name": self.names[j] if self.names else None, "imputed": int(self.imputed[j])}
            if j in self.levels:
                column["kind"] = "category"
                column["levels"] = list(self.levels[j])
            else:
                reading = self.readings.get(j, Reading())
                column["kind"] = reading.kind
                column["fill"] = None if self.fill is None else float(self.fill[j])
                if reading.unit:
                    column["unit"] = reading.unit
            columns.append(column)
        return {"when_missing": "error" if self.fill is None else "impute", "columns": columns}

    @classmethod
    def of(cls, attributes: Mapping[str, Any]) -> "Columns | None":
        """Return the encoding from the attributes of a data set, or None if every column was used as it is."""
        columns = attributes.get("columns")
        if columns is None:
            return None
        names = tuple(column["name"] for column in columns)
        fill = None
        if attributes["when_missing"] == "impute":
            fill = np.array([column.get("fill", np.nan) for column in columns], np.float64)
        levels = {j: tuple(column["levels"]) for j, column in enumerate(columns) if column["kind"] == "category"}
        readings = {j: Reading(column["kind"], column.get("unit", "")) for j, column in enumerate(columns)
                    if column["kind"] == "truth" or column.get("unit")}
        return cls(None if None in names else names, len(columns), fill, levels,
                   np.array([column["imputed"] for column in columns], np.int64), readings)

    def equals(self, other: "Columns") -> bool:
        """Return whether both encode every file in the same way."""
        left, right = (replace(columns, imputed=np.zeros_like(columns.imputed)).describe() for columns in (self, other))
        return left == right

    def rounded(self, dtype: DTypeLike) -> "Columns":
        """Return the same encoding with fills that `dtype` can represent, so that equal numbers stay equal.

        A mean out of its range comes from a cell out of its range, which is refused when it is read.
        """
        if self.fill is None:
            return self
        limit = float(np.finfo(dtype).max)
        return replace(self, fill=np.clip(self.fill, -limit, limit).astype(dtype).astype(np.float64))

    def order(self, names: Sequence[str] | None, n_columns: int, source: str) -> np.ndarray:
        """Return the file's column number of each input column: by name if both have the same names, else in order."""
        require(n_columns == self.n_columns, f"{source} has {n_columns} columns of features, expected "
                f"{self.n_columns}", why="fills and levels belong to the columns of the training data",
                fix="pass the same columns", error=DataError)
        if names and self.names and len(set(names)) == len(names) and set(names) == set(self.names):
            number_of = {name: j for j, name in enumerate(names)}
            return np.array([number_of[name] for name in self.names])
        return np.arange(n_columns)

    def apply(self, block: RowBlock, order: np.ndarray, first_row: int = 0) -> Encoded:
        """Return the columns of X for a block of rows.

        block : ndarray or csr_array of numbers, or DataFrame of numbers and text, shape (rows, n_columns).
        order : see `order`. first_row : number of the block's first row, for messages.

        If missing cells are an error, missing numbers stay NaN.
        """
        if isinstance(block, pd.DataFrame):
            return self._apply_table(block, order, first_row)
        require(not self.levels, f"the levels of {self.label(min(self.levels, default=0))} are text, the block holds "
                "numbers only", why="numbers cannot be matched to text", fix="pass a table of text and numbers",
                error=DataError)
        if (order != np.arange(self.n_columns)).any():
            block = block[:, order]
        missing = np.isnan(block.data if is_sparse(block) else block)
        if self.fill is None or not missing.any():
            return Encoded(block)
        if not is_sparse(block):
            return Encoded(np.where(missing, self.fill, block), int(missing.sum()))
        filled = block.copy()
        filled.data[missing] = self.fill[block.indices[missing]]
        return Encoded(filled, int(missing.sum()))

    def _apply_table(self, table: pd.DataFrame, order: np.ndarray, first_row: int) -> Encoded:
        X = np.zeros((len(table), self.width))
        at = 0
        imputed = 0
        unseen = {}
        for j in range(self.n_columns):
            cells = cells_of(table.iloc[:, order[j]], self.label(j))
            missing = pd.isna(cells)
            if self.fill is not None:
                imputed += int(missing.sum())
            if j in self.levels:
                if missing.all():
                    cells = np.full(len(cells), None, object)  # an empty column may have been read as numbers
                codes = self._level_codes(j, cells, missing, first_row)
                rows = np.flatnonzero(codes >= 0)
                X[rows, at + codes[rows]] = 1
                if len(rows) < len(codes):
                    new = cells[codes < 0]
                    unseen[j] = len(new), some_texts(new)
                at += len(self.levels[j])
                continue
            if cells.dtype == object and not missing.all():
                wrong = int(np.argmax(~missing & pd.isna(pd.to_numeric(cells, errors="coerce"))))
                raise CellError(explain(f"{self.label(j)} holds text: {cells[wrong]!r} in row {first_row + wrong}",
                                        why="it contained numbers when the levels of text were recorded",
                                        fix="correct the cell, or empty it"))
            numbers = cells.astype(np.float64)
            X[:, at] = numbers if self.fill is None else np.where(missing, self.fill[j], numbers)
            at += 1
        return Encoded(X, imputed, unseen)

    def _level_codes(self, j: int, cells: np.ndarray, missing: np.ndarray, first_row: int) -> np.ndarray:
        """Return the number of each cell's level, -1 if it has none."""
        levels = self.levels[j]
        require(cells.dtype == object or bool(missing.all()), f"{self.label(j)} holds numbers", error=DataError,
                why="it contained text when its levels were recorded", fix="store it as text, as in the training data")
        if missing.any() and self.fill is None:
            raise missing_text(self.label(j), int(missing.sum()), first_row + int(np.argmax(missing)))
        known = [level for level in levels if level is not None]
        code_of = {folded(level): number for number, level in enumerate(known)}
        codes = np.array([-1 if cell is None else code_of.get(folded(cell), -1) for cell in cells], np.int64)
        codes[missing] = len(known) if None in levels else -1
        return codes

    def label(self, j: int) -> str:
        """Return the name of an input column in messages."""
        return column_label(self.names, j)


def folded(text: str) -> str:
    """Return a key that is equal for texts that differ only in blanks and case."""
    return " ".join(text.split()).casefold()


def spellings(counts: Mapping[str, int]) -> list[str]:
    """Return the distinct texts, ascending; of those that differ only in blanks and case, the most frequent one."""
    best: dict[str, str] = {}
    for text in sorted(counts, key=lambda text: (-counts[text], text)):
        best.setdefault(folded(text), text.strip())
    return sorted(best.values())


def some_texts(texts: Iterable[str | None]) -> list[str | None]:
    """Return the first `EXAMPLES` distinct texts in ascending order; None, a missing cell, comes last."""
    return sorted(set(texts), key=lambda text: (text is None, text))[:EXAMPLES]


def missing_text(label: str, count: int, row: int) -> CellError:
    """Return the error for missing cells in a column of text."""
    return CellError(explain(
        f"{label} has missing cells of text ({count:,} of those read); the first is in row {row}, counted from 0",
        why="they belong to no level", fix="set `when_missing: impute` for the training data, which makes missing "
        "cells a level of their own, or leave these rows out"))


def cells_of(column: pd.Series, label: str) -> np.ndarray:
    """Return the cells of a column as float64 (missing: NaN), or as objects with text (missing: None).

    Numbers and booleans, even as objects, become float64. Text, mixtures of text and numbers, and pandas categories
    become text.
    """
    dtype = column.dtype
    is_category = isinstance(dtype, pd.CategoricalDtype)
    if not is_category and pd.api.types.is_numeric_dtype(dtype) and not pd.api.types.is_complex_dtype(dtype):
        return column.to_numpy(np.float64, na_value=np.nan)
    is_text = is_category or isinstance(dtype, pd.StringDtype)
    values = column.astype(object).to_numpy() if is_text or dtype.kind == "O" else np.empty(0, object)
    missing = np.asarray(pd.isna(values), bool)
    strange = [value for value in values[~missing] if not isinstance(value, (str, int, float, np.number, np.bool_))]
    require(len(values) == len(column) and not strange, error=DataError,
            what=f"{label} holds {type(strange[0]).__name__ if strange else dtype} values",
            why="features are numbers, or text that names a category",
            fix="store dates and durations as numbers, such as days, and anything else as numbers or text")
    if not is_text and not any(isinstance(value, str) for value in values[~missing]):
        return np.array([np.nan if is_missing else float(value)
                         for value, is_missing in zip(values, missing, strict=True)])
    cells = np.empty(len(values), object)
    cells[~missing] = [str(value) for value in values[~missing]]
    return cells


def unseen_note(column: str | int, n_rows: int, texts: Sequence[str | None]) -> str:
    """Return a sentence about rows with a text in a column that training did not have; texts : some of these."""
    shown = ", ".join("(missing)" if text is None else repr(text) for text in texts)
    return (f"{n_rows} rows have a text in column {column!r} that did not occur in the training data, such as {shown}; "
            "it counts as none of the known categories")

"""Delimited text (CSV, TSV, UCI .data): one row a record, one column of it the target.

What a cell means depends on the cell alone, never on the block it is read with: features are numbers, true and
false, or missing (NaN); the target is read as numbers, or as text where it is not one.
"""

import csv
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from ...errors import DataError, ParameterError, explain, require
from .base import Block, Reader, Scan, dense, no_rows, whole_numbers
from .column_choice import find_column, find_target
from .csv_head import WHITESPACE, find_delimiter, first_records, looks_like_header
from .lines import (
    BAD_FIELDS,
    BAD_START,
    LONE_RETURN,
    MODE,
    QUOTED,
    ROWS,
    START,
    WANTED,
    LineIndex,
    index_delimited,
    index_lines,
    line_number,
    new_state,
    read_bytes,
    require_plain_text,
)

MISSING = ("", "NA", "N/A", "n/a", "NaN", "nan", "NULL", "null", "<NA>", "?")
TRUTH = {"true": 1.0, "false": 0.0}
HEAD_BYTES = 1 << 20  # the first records are looked at within these bytes and the rest of their last line
PROBE_ROWS = 1000  # a target that is text within so many rows is read as text everywhere


@dataclass(frozen=True)
class Layout:
    """How the records of one file are read: what the options and the first records say."""

    delimiter: str
    header: bool
    first_byte: int  # after a byte order mark
    names: tuple[str, ...]  # of all fields
    target: int | None  # number of the field
    features: tuple[int, ...]

    @property
    def used(self) -> list[int]:
        """The fields that are read."""
        return sorted([*self.features, *([] if self.target is None else [self.target])])

    def describe(self, field: int) -> str:
        return f"column {self.names[field]!r}" if self.header else f"column {field} (counted from 0)"


class CsvReader(Reader):
    """Rows of delimited text.

    Parameters
    ----------
    target : name or number of the target column (from 0; negative from the end), or "none". Unset: a column
        named y, label, target or class, else the last one.
    header : whether the first record names the columns; unset: found out from the first two records.
    delimiter : one character, or "whitespace"; unset: found out from the first record.
    decimal : the decimal mark. encoding : of the text.
    missing : one more text that marks a missing cell, or several. drop : columns to leave out, names or numbers.
    when_text : "error" refuses features that are text; otherwise `columns` gives them.
    """

    format: ClassVar[str] = "csv"
    options: ClassVar[tuple[str, ...]] = ("target", "header", "delimiter", "decimal", "encoding", "missing", "drop",
                                           "when_text")

    def __init__(self, path: Path, name: str, scratch: Path, *, target: str | int | None = None,
                 header: bool | None = None, delimiter: str | None = None, decimal: str = ".",
                 encoding: str = "utf-8", missing: str | tuple[str, ...] = (), drop: tuple[str | int, ...] = (),
                 when_text: str = "error"):
        self.path, self.name, self.target, self.header, self.delimiter = path, name, target, header, delimiter
        self.decimal, self.encoding, self.when_text = decimal, encoding, when_text
        self.missing = [*MISSING, *([missing] if isinstance(missing, str) else missing)]
        self.drop = (drop,) if isinstance(drop, (str, int)) else tuple(drop)
        self._scan: Scan | None = None
        self._layout: Layout | None = None
        self._index = LineIndex(np.empty(0, np.int64), np.empty(0, np.int64))
        self._text: frozenset[int] = frozenset()  # columns that the first rows show not to be numbers

    def scan(self) -> Scan:
        if self._scan is None:
            self._layout = layout = self._look_at_head()
            n_rows = self._follow_records(layout)
            self._scan = Scan(
                n_rows=n_rows, n_columns=len(layout.features), dtype="float64",
                target=None if layout.target is None else layout.names[layout.target],
                row_bytes=int(self._index.offsets[-1]) // n_rows + 1,
                feature_names=tuple(layout.names[field] for field in layout.features) if layout.header else None,
            )
            self._text = frozenset(self._cells(0, min(n_rows, PROBE_ROWS), layout, set())[1])
        return self._scan

    def column_names(self) -> list[str]:
        """Return the names in the header, features and target alike, or [] if there is none; reads no more than it."""
        layout = self._look_at_head()
        return list(layout.names) if layout.header else []

    # ---- the first records

    def _look_at_head(self) -> Layout:
        with open(self.path, "rb") as file:
            head = file.read(HEAD_BYTES) + file.readline()
        require_plain_text(self.path, self.name, head)
        bom = 3 if head.startswith(b"\xef\xbb\xbf") else 0
        try:
            text = head[bom:].decode(self.encoding)
        except UnicodeDecodeError as error:
            raise self._not_encoded(head[bom:], bom) from error
        except LookupError as error:
            raise ParameterError(explain(f"encoding={self.encoding!r}", why="Python knows no encoding of that name",
                                         fix="use utf-8, latin-1 or cp1252")) from error
        require("\r" not in text or "\n" in text, f"{self.name} ends its lines with carriage returns only",
                why="rows are found by their newlines", fix="convert the file: tr '\\r' '\\n'", error=DataError)
        lines = [line for line in text.splitlines() if line.strip()]
        if not lines:
            raise no_rows(self.name)
        try:
            delimiter = self.delimiter or find_delimiter(lines[0], self.decimal)
            records = first_records(text, delimiter) if len(delimiter) == 1 or delimiter == WHITESPACE else []
        except csv.Error as error:
            raise self._at(bom, f"cannot be split into fields: {error}", "it is not delimited text",
                           "name its true format with `format:`") from error
        require(len(delimiter) == 1 or delimiter == WHITESPACE, f"delimiter={delimiter!r}",
                why="fields are separated by one character", fix=f'name one character, or "{WHITESPACE}"')
        if not records:  # lines of empty quotes
            raise no_rows(self.name)
        header = looks_like_header(records, self.missing) if self.header is None else self.header
        fields = len(records[0])
        names = tuple(name.strip() for name in records[0]) if header else tuple(str(i) for i in range(fields))
        dropped = {find_column(column, names, self.name, "drop", header=header) for column in self.drop}
        target = find_target(self.target, names, dropped, self.name, header=header)
        features = tuple(i for i in range(fields) if i != target and i not in dropped)
        unnamed = [i for i in features if header and names[i] == ""]
        require(not unnamed, f"{self.name}: column {unnamed} (counted from 0) has no name in the header",
                why="a column without a name most often numbers the rows, and would be learned from as a feature",
                fix=f"leave it out with drop: {unnamed}, or give it a name", error=DataError)
        require(len(features) > 0, f"{self.name} has no feature columns: {fields} in all, delimiter {delimiter!r}",
                why="points without features cannot be told apart", error=DataError,
                fix="set `delimiter:` if the fields are not separated by it, or `target: none`")
        return Layout(delimiter, header, bom, names, target, features)

    # ---- all records, by their newlines

    def _follow_records(self, layout: Layout) -> int:
        state = new_state(layout.first_byte)
        state[BAD_START], state[LONE_RETURN], state[WANTED] = -1, -1, len(layout.names)
        blank = layout.delimiter == WHITESPACE
        delimiter = np.uint8(0 if blank else ord(layout.delimiter))
        index = index_lines(self.path, layout.first_byte, state,
                            lambda buffer, at, state, rows, offsets: index_delimited(
                                buffer, at, state, delimiter, blank, rows, offsets))
        bad, alone = int(state[BAD_START]), int(state[LONE_RETURN])
        if state[MODE] == QUOTED:
            raise self._at(int(state[START]), "opens a quote that never closes", "every row after it would be one cell",
                           "close or remove the quote")
        if alone >= 0:
            raise self._at(alone, "holds a carriage return within a row", "it could end the row or belong to a cell",
                           "convert the line ends: tr '\\r' '\\n'")
        if bad >= 0:
            raise self._at(bad, f"has {state[BAD_FIELDS]} fields, the first row has {len(layout.names)}",
                           "cells would move into other columns", "correct the line, or set `delimiter:`")
        rows = np.maximum(index.rows - layout.header, 0)  # record 1 is noted, so that a header is never parsed
        keep = slice(1 if layout.header else 0, None)
        self._index = LineIndex(rows[keep], index.offsets[keep])
        if state[ROWS] - layout.header <= 0:
            raise no_rows(self.name)
        return int(state[ROWS]) - layout.header

    def _at(self, offset: int, what: str, why: str, fix: str) -> DataError:
        line = line_number(self.path, offset)
        return DataError(explain(f"{self.name} line {line} (byte {offset:,}) {what}", why=why, fix=fix))

    def _not_encoded(self, raw: bytes, begin: int) -> DataError:
        """Return the error for bytes that are not text of the encoding, at the first that is not."""
        offset, found = begin, b""
        try:
            raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            offset, found = begin + error.start, raw[error.start:error.end]
        return self._at(offset, f"is not {self.encoding} text: bytes {found.hex(' ')}",
                        "names and labels would be read wrongly", "set `encoding:`, for example latin-1")

    def narrow(self, start: int, stop: int) -> "CsvReader":
        self.scan()
        small = object.__new__(CsvReader)
        small.__dict__.update(self.__dict__, _index=self._index.narrow(start, stop))
        return small

    # ---- cells

    def read(self, start: int, stop: int, dtype: Any = np.float32, *, text_target: bool = False) -> Block:
        self.scan()
        layout = self._layout
        assert layout is not None
        text = set(self._text)
        if text_target and layout.target is not None:
            text.add(layout.target)
        frame, text = self._cells(start, stop, layout, text)
        X = np.empty((len(frame), len(layout.features)), dtype)
        for j, field in enumerate(layout.features):
            column = frame[field]
            X[:, j] = dense(truth(column, self.decimal) if field in text else column.to_numpy(), dtype)
        return Block(X, None if layout.target is None else labels(frame[layout.target]))

    def columns(self, start: int, stop: int, as_text: frozenset[int] = frozenset(), *,
                text_target: bool = False) -> Block:
        self.scan()
        layout = self._layout
        assert layout is not None
        text = {*self._text, *(layout.features[j] for j in as_text)}
        if text_target and layout.target is not None:
            text.add(layout.target)
        frame, text = self._cells(start, stop, layout, text)
        features = {}
        for j, field in enumerate(layout.features):
            column = frame[field]
            if field in text:
                column = column.where(column.str.strip() != "")
                is_text = j in as_text or bool(self._wrong(column).any())
                cells = texts(column) if is_text else truth(column, self.decimal)
                column = pd.Series(cells, frame.index, dtype=cells.dtype)
            features[j] = column
        return Block(pd.DataFrame(features), None if layout.target is None else labels(frame[layout.target]))

    def _cells(self, start: int, stop: int, layout: Layout, text: set[int]) -> tuple[pd.DataFrame, set[int]]:
        """Return rows [start, stop) of the columns in use, and which of them are text."""
        first, begin, end = self._index.span(start, stop)
        raw = read_bytes(self.path, self.name, begin, end)
        try:
            try:
                frame = self._parse(raw, layout, text)
            except ValueError as error:
                if isinstance(error, UnicodeError):
                    raise
                text = self._columns_of_text(self._parse(raw, layout, set(layout.used)), layout, first) | text
                frame = self._parse(raw, layout, text)
        except UnicodeError as error:
            raise self._not_encoded(raw, begin) from error
        require(len(frame) >= stop - first, f"{self.name}: {len(frame)} rows in bytes {begin:,} to {end:,}, expected "
                f"at least {stop - first}", why="its rows do not end where its newlines are", error=DataError,
                fix="check the quotes and line ends of these rows")
        return frame.iloc[start - first:stop - first], text

    def _parse(self, raw: bytes, layout: Layout, text: set[int]) -> pd.DataFrame:
        """Return the fields in use as float64 columns, those of `text` as text."""
        return pd.read_csv(
            io.BytesIO(raw), header=None, names=list(range(len(layout.names))), index_col=False, usecols=layout.used,
            sep=r"\s+" if layout.delimiter == WHITESPACE else layout.delimiter, skipinitialspace=True,
            dtype={field: object if field in text else np.float64 for field in layout.used}, na_values=self.missing,
            keep_default_na=False, decimal=self.decimal, encoding=self.encoding, engine="c", low_memory=False,
        )

    def _columns_of_text(self, frame: pd.DataFrame, layout: Layout, first: int) -> set[int]:
        """Return the columns that are not all numbers: the target, or features that hold true and false."""
        columns = set()
        for field in frame.columns:
            cells = frame[field].astype(object)
            strange = self._strange(cells)
            if not strange.any():
                continue
            columns.add(field)
            if field == layout.target or self.when_text != "error":
                continue
            wrong = np.flatnonzero(self._wrong(cells, strange))
            if not len(wrong):
                continue
            row = first + int(wrong[0])
            raise DataError(explain(
                f"{self.name}: {layout.describe(field)} holds text: {cells.iloc[wrong[0]]!r} in row {row} "
                "(rows of data, counted from 0)",
                why="features are numbers; text has no distance",
                fix=f"if it is the target, set `target: {self._reference(layout, field)}`; to leave it out, "
                    f"`drop: [{self._reference(layout, field)}]`; if it marks a missing cell, `missing:`; "
                    "if it is a category, `when_text: one_hot` makes one column of 0 and 1 a category",
            ))
        return columns

    def _strange(self, cells: pd.Series) -> pd.Series:
        """Return which cells are there and are no numbers."""
        plain = cells.str.replace(self.decimal, ".", regex=False) if self.decimal != "." else cells
        return cells.notna() & pd.to_numeric(plain, errors="coerce").isna()

    def _wrong(self, cells: pd.Series, strange: pd.Series | None = None) -> pd.Series:
        """Return which cells are neither numbers, nor true and false, nor missing."""
        strange = self._strange(cells) if strange is None else strange
        return strange & ~cells.astype(str).str.strip().str.lower().isin(list(TRUTH))

    def _reference(self, layout: Layout, field: int) -> str:
        return layout.names[field] if layout.header else str(field)


def labels(column: pd.Series) -> np.ndarray:
    """Return a target as int64, float64 (NaN where missing), or objects: text, None where missing."""
    if column.dtype == np.float64:
        return whole_numbers(column.to_numpy())
    return np.array([cell.strip() if isinstance(cell, str) else None for cell in column], object)


def texts(column: pd.Series) -> np.ndarray:
    """Return a column of text as objects, None where a cell is missing or blank."""
    return np.array([cell.strip() or None if isinstance(cell, str) else None for cell in column], object)


def truth(column: pd.Series, decimal: str) -> np.ndarray:
    """Return a column of numbers, true and false as float64."""
    texts = (cell.strip().lower().replace(decimal, ".") if isinstance(cell, str) else "nan" for cell in column)
    return np.array([TRUTH.get(text, text) for text in texts], np.float64)

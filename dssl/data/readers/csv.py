"""Delimited text (CSV, TSV, UCI .data): one row a record, one column of it the target.

What a cell means depends on the cell alone, never on the block it is read with: features are numbers, true and
false, or missing (NaN); the target is read as numbers, or as text where it is not one.
"""

import csv
import io
from collections.abc import Collection
from copy import copy
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pandas as pd

from ...errors import DataError, ParameterError, explain, require
from ...missing import MISSING
from ..targets import whole_numbers
from . import lines
from .base import FEWEST_ROWS, PROBE_ROWS, Block, CommaError, Scan, no_rows, possible_keys
from .column_choice import Column, features_and_target, text_is_no_feature
from .csv_head import WHITESPACE, find_delimiter, first_records, has_decimal_comma, looks_like_header

TRUTH = {"true": 1.0, "false": 0.0}
HEAD_BYTES = 1 << 20  # the first records are looked at within these bytes and the rest of their last line


@dataclass(frozen=True)
class RecordFormat:
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


class CsvReader(lines.LineReader):
    """Rows of delimited text.

    Parameters
    ----------
    target : name or number of the target column (from 0; negative from the end), or "none". Unset: a column
        named y, label, target or class, else the last one.
    header : whether the first record names the columns; unset: found out from the first two records.
    delimiter : one character, or "whitespace"; unset: found out from the first record.
    decimal : the decimal mark. encoding : of the text.
    missing : one more text that marks a missing cell, or several. drop : columns to leave out, names or numbers.
    when_text : "error" refuses features that are text.
    """

    format: ClassVar[str] = "csv"
    options: ClassVar[tuple[str, ...]] = ("target", "header", "delimiter", "decimal", "encoding", "missing", "drop",
                                           "when_text")

    def __init__(self, path: Path, name: str, scratch: Path, *, target: Column | None = None,
                 header: bool | None = None, delimiter: str | None = None, decimal: str = ".",
                 encoding: str = "utf-8", missing: str | tuple[str, ...] = (), drop: Column | tuple[Column, ...] = (),
                 when_text: str = "error"):
        self.path, self.name, self.target, self.header, self.delimiter = path, name, target, header, delimiter
        self.decimal, self.encoding, self.drop, self.when_text = decimal, encoding, drop, when_text
        self.missing = [*MISSING, *([missing] if isinstance(missing, str) else missing)]
        self._text: frozenset[int] = frozenset()  # fields that the first rows show not to be numbers
        self._left_out: frozenset[str] = frozenset()  # names of features that are not read

    def _look(self) -> Scan:
        self._records = records = self._look_at_head()
        n_rows = self._follow_records()
        frame = self._fields(0, min(n_rows, PROBE_ROWS), frozenset())
        self._text = frozenset(field for field in frame.columns if frame[field].dtype == object)
        found = {j: texts(frame[field]) if field in self._text else frame[field].to_numpy()
                 for j, field in enumerate(records.features)} if records.header else {}
        self._refuse_commas(frame, n_rows)
        keys = possible_keys(found)
        text_keys = tuple(j for j in keys if self.when_text == "error" and found[j].dtype == object)
        self._features(frame, 0, frozenset(text_keys))  # text that is refused is so before all rows are read
        return Scan(
            keys=keys, text_keys=text_keys,
            n_rows=n_rows, n_columns=len(records.features), dtype="float64",
            target=None if records.target is None else records.names[records.target],
            row_bytes=int(self._index.offsets[-1]) // n_rows + 1,
            feature_names=tuple(records.names[field] for field in records.features) if records.header else None)

    def without(self, names: Collection[str]) -> "CsvReader":
        found = copy(self)
        found._left_out = self._left_out | frozenset(names)
        if self._scan is not None:
            found._records = records = found._look_at_head()
            kept = [self._records.features.index(field) for field in records.features]
            found._scan = self._scan.of_columns(kept)
        return found

    def column_names(self) -> list[str]:
        records = self._look_at_head()
        return list(records.names) if records.header else []

    # ---- the first records

    def unusable(self) -> dict[str | int, str]:
        return dict.fromkeys(self._unnamed(self._first_records()), "it has no name, as row numbers have")

    def _unnamed(self, records: RecordFormat) -> list[int]:
        return [field for field in records.features if records.header and records.names[field] == ""]

    def _look_at_head(self) -> RecordFormat:
        """Return what the first records say; raise DataError if a feature has no name in the header."""
        records = self._first_records()
        unnamed = self._unnamed(records)
        require(not unnamed, f"{self.name}: column {unnamed} (counted from 0) has no name in the header",
                why="a column without a name most often numbers the rows, and would be learned from as a feature",
                fix=f"leave it out with drop: {unnamed}, or give it a name", error=DataError)
        return records

    def _first_records(self) -> RecordFormat:
        with open(self.path, "rb") as file:
            head = file.read(HEAD_BYTES) + file.readline()
        self._require_plain_text(head)
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
        require(self.delimiter is None or len(self.delimiter) == 1 or self.delimiter == WHITESPACE,
                f"delimiter={self.delimiter!r}", why="fields are separated by one character",
                fix=f'name one character, or "{WHITESPACE}"')
        first = next((line for line in text.splitlines() if line.strip()), None)
        try:
            delimiter = self.delimiter or find_delimiter(first or "", self.decimal)
            records = first_records(text, delimiter)
        except csv.Error as error:
            raise self._at(bom, f"cannot be split into fields: {error}", "it is not delimited text",
                           "name its true format with `format:`") from error
        if first is None or not records:  # blank lines, or lines of empty quotes
            raise no_rows(self.name)
        header = looks_like_header(records, self.missing) if self.header is None else self.header
        names = tuple(name.strip() for name in records[0]) if header else tuple(map(str, range(len(records[0]))))
        features, target = features_and_target(names, self.name, target=self.target, drop=self.drop, header=header)
        features = tuple(i for i in features if not (header and names[i] in self._left_out))
        return RecordFormat(delimiter, header, bom, names, target, features)

    # ---- all records, by their newlines

    def _follow_records(self) -> int:
        """Make the index, and return the number of rows."""
        records = self._records
        blank = records.delimiter == WHITESPACE
        index, state = lines.index_lines(
            self.path, records.first_byte,
            {lines.BAD_START: -1, lines.LONE_RETURN: -1, lines.WANTED: len(records.names)},
            lines.index_delimited, np.uint8(0 if blank else ord(records.delimiter)), blank)
        bad, alone = int(state[lines.BAD_START]), int(state[lines.LONE_RETURN])
        if state[lines.MODE] == lines.QUOTED:
            raise self._at(int(state[lines.START]), "opens a quote that never closes",
                           "every row after it would be one cell", "close or remove the quote")
        if alone >= 0:
            raise self._at(alone, "holds a carriage return within a row", "it could end the row or belong to a cell",
                           "convert the line ends: tr '\\r' '\\n'")
        if bad >= 0:
            raise self._at(bad, f"has {state[lines.BAD_FIELDS]} fields, the first row has {len(records.names)}",
                           "cells would move into other columns", "correct the line, or set `delimiter:`")
        # Record 1 is noted, so that a header is never parsed.
        self._index = lines.LineIndex(index.rows[records.header:] - records.header, index.offsets[records.header:])
        if state[lines.ROWS] <= records.header:
            raise no_rows(self.name)
        return int(state[lines.ROWS]) - records.header

    def _at(self, offset: int, what: str, why: str, fix: str) -> DataError:
        return DataError(explain(f"{self._line_at(offset)} {what}", why=why, fix=fix))

    def _not_encoded(self, raw: bytes, begin: int) -> DataError:
        """Return the error for bytes that are not text of the encoding, at the first that is not."""
        offset, found = begin, b""
        try:
            raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            offset, found = begin + error.start, raw[error.start:error.end]
        return self._at(offset, f"is not {self.encoding} text: bytes {found.hex(' ')}",
                        "names and labels would be read wrongly", "set `encoding:`, for example latin-1")

    # ---- cells

    def read(self, start: int, stop: int, as_text: frozenset[int] = frozenset(), *, text_target: bool = False) -> Block:
        self.scan()
        target = self._records.target
        frame = self._fields(start, stop, self._text | {self._records.features[j] for j in as_text}
                             | ({target} if text_target and target is not None else set()))
        y = None if target is None else frame[target]
        if y is not None:
            y = whole_numbers(y.to_numpy()) if y.dtype == np.float64 else texts(y)
        return Block(self._features(frame, start, as_text), y)

    def _fields(self, start: int, stop: int, text: frozenset[int]) -> pd.DataFrame:
        """Return rows [start, stop) of the fields in use: as text those of `text`, and others that are not numbers."""
        first, begin, raw = self._stretch(start, stop)
        try:
            try:
                frame = self._parse(raw, text)
            except UnicodeError:
                raise
            except ValueError:
                cells = self._parse(raw, frozenset(self._records.used))
                frame = self._parse(raw, text | {field for field in cells if self._no_number(cells[field]).any()})
        except UnicodeError as error:
            raise self._not_encoded(raw, begin) from error
        require(len(frame) >= stop - first, f"{self.name}: {len(frame)} rows in {len(raw):,} bytes from {begin:,} on, "
                f"expected at least {stop - first}", why="its rows do not end where its newlines are", error=DataError,
                fix="check the quotes and line ends of these rows")
        return frame.iloc[start - first:stop - first]

    def _parse(self, raw: bytes, text: frozenset[int]) -> pd.DataFrame:
        """Return the fields in use as float64 columns, those of `text` as text."""
        records = self._records
        return pd.read_csv(
            io.BytesIO(raw), header=None, names=list(range(len(records.names))), index_col=False, usecols=records.used,
            sep=r"\s+" if records.delimiter == WHITESPACE else records.delimiter, skipinitialspace=True,
            dtype={field: object if field in text else np.float64 for field in records.used}, na_values=self.missing,
            keep_default_na=False, decimal=self.decimal, encoding=self.encoding, engine="c", low_memory=False)

    def _no_number(self, cells: pd.Series) -> pd.Series:
        """Return which cells are there and are no numbers."""
        plain = cells.str.replace(self.decimal, ".", regex=False) if self.decimal != "." else cells
        return cells.notna() & pd.to_numeric(plain, errors="coerce").isna()

    def _refuse_commas(self, frame: pd.DataFrame, n_rows: int) -> None:
        """Raise CommaError where columns of the first rows are text for their decimal comma alone."""
        if self.decimal != "." or n_rows < FEWEST_ROWS:
            return
        cells = {field: [cell for cell in texts(frame[field]).tolist() if cell] for field in self._text}
        found = [field for field in sorted(cells) if has_decimal_comma(cells[field])]
        if found:
            names = [repr(self._records.names[field]) if self._records.header else str(field) for field in found]
            shown, own = ", ".join(names[:8]) + (", ..." if names[8:] else ""), len(names) == 1
            raise CommaError(explain(
                f"{self.name}: column{'' if own else 's'} {shown} hold{'s' if own else ''} numbers with a comma, such "
                f"as {cells[found[0]][0]!r}", why="a point is read as the decimal mark, so they would be text",
                fix='set `decimal: ","`, in a spec a key of data.read; where commas stand between thousands, write '
                    "numbers without them"))

    def _features(self, frame: pd.DataFrame, start: int, as_text: frozenset[int]) -> pd.DataFrame:
        """Return the features of rows from `start` on: numbers, or text where it is asked for or a cell is text.

        Raise DataError if text is an error, and there is some.
        """
        features, records = {}, self._records
        for j, field in enumerate(records.features):
            cells = frame[field]
            if cells.dtype == object:
                strange = self._no_number(cells) & ~cells.astype(str).str.strip().str.lower().isin(["", *TRUTH])
                if self.when_text == "error" and strange.any() and j not in as_text:
                    row = int(np.argmax(strange))
                    named = repr(records.names[field]) if records.header else f"{field} (counted from 0)"
                    raise text_is_no_feature(
                        f"{self.name}: column {named} holds text: {cells.iloc[row]!r} in row {start + row} (rows of "
                        "data, counted from 0)", records.names[field] if records.header else field)
                found = texts(cells)
                cells = found if j in as_text or strange.any() else truth(found, self.decimal)
            features[j] = pd.Series(cells, frame.index, dtype=cells.dtype)
        return pd.DataFrame(features, copy=False)


def texts(column: pd.Series) -> np.ndarray:
    """Return a column of text as objects, None where a cell is missing or blank."""
    return np.array([cell.strip() or None if isinstance(cell, str) else None for cell in column], object)


def truth(cells: np.ndarray, decimal: str) -> np.ndarray:
    """Return cells that are numbers, true and false, or None as float64."""
    numbers = ("nan" if cell is None else cell.lower().replace(decimal, ".") for cell in cells)
    return np.array([TRUTH.get(number, number) for number in numbers], np.float64)

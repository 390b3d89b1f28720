"""Reader of delimited text (CSV, TSV, UCI .data): a record is a row, and one of its fields is the target.

An index says at which byte rows begin (`lines`); stretches of the file between two of these are parsed by pyarrow. What
a cell means depends on the whole column (`table`), never on the block that it is read with.
"""

import codecs
import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.csv as arrow_csv

from ...base.errors import DataError, ParameterError, explain, require
from ...base.missing import MISSING
from . import lines
from .base import TARGET_NAMES, Scan, no_rows
from .cell_text import NUMBER_GAPS, is_number, possible_formats, trimmed
from .cells import CellCounts, decimal_of
from .column_choice import Column, features_and_target
from .compressed import scratch_file, write_stream
from .table import RowTexts, TableReader

HEAD_BYTES = 1 << 20  # the first records are looked at within these bytes and the rest of their last line
PIECE_BYTES = 1 << 22  # of text that is counted at once; counting holds up to 17 times as much, whatever the budget
GAPS = [*MISSING, *sorted({form for gap in NUMBER_GAPS for form in (gap, gap.upper(), gap.capitalize())})]
UTF_16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
DELIMITERS = "\t;|,"  # of two that occur equally often, the earlier
WHITESPACE = "whitespace"
FEWEST_COUNTED = 3  # numbers 0, 1, 2 or 1, 2, 3 that name columns; fewer may well be values


@dataclass(frozen=True)
class RecordFormat:
    """How to read the records of one file, by the options and the first records."""

    delimiter: str
    header: bool
    first_byte: int  # after a byte order mark
    names: tuple[str, ...]  # of all fields
    target: int | None  # number of the field
    features: tuple[int, ...]


class EncodingError(DataError):
    """The bytes of a file are not text of the encoding with which it is read."""


class CsvReader(TableReader, lines.LineReader):
    """Rows of delimited text.

    Parameters
    ----------
    header : whether the first record names the columns; unset: found out from the first two records.
    delimiter : one character, or "whitespace"; unset: found out from the first record.
    encoding : of the text; UTF-16 is recognized by its byte order mark.
    target, drop, missing, decimal, thousands, percent, when_text, categories : see `TableReader`.
    """

    format: ClassVar[str] = "csv"
    endings: ClassVar[tuple[str, ...]] = (".csv", ".tsv", ".data")
    has_lines: ClassVar[bool] = True
    options: ClassVar[tuple[str, ...]] = ("header", "delimiter", "encoding", *TableReader.options)

    def __init__(self, path: Path, name: str, scratch: Path, *, target: Column | None = None,
                 header: bool | None = None, delimiter: str | None = None, encoding: str = "utf-8",
                 drop: Column | tuple[Column, ...] = (), missing: str | tuple[str, ...] = (),
                 decimal: str | None = None, thousands: str | None = None, percent: bool | None = None,
                 when_text: str = "error", categories: Column | tuple[Column, ...] = ()):
        super().__init__(target=target, drop=drop, missing=missing, decimal=decimal, thousands=thousands,
                         percent=percent, when_text=when_text, categories=categories)
        self.name, self.header, self.delimiter = name, header, delimiter
        self.path, self.encoding = _as_utf_8(path, name, scratch, encoding)

    def column_names(self) -> list[str]:
        records = self._first_records()
        return list(records.names) if records.header else []

    # ---- the first records

    def unusable(self) -> dict[str | int, str]:
        return dict.fromkeys(self._unnamed(self._first_records()), "it has no name, as row numbers have")

    def _unnamed(self, records: RecordFormat) -> list[int]:
        return [field for field in records.features if records.header and records.names[field] == ""]

    def _look_at_head(self) -> RecordFormat:
        """Return the layout by the first records; raise DataError if a feature has no name in the header."""
        records = self._first_records()
        unnamed = self._unnamed(records)
        require(not unnamed, f"{self.name}: column {unnamed} (counted from 0) has no name in the header",
                why="a column without a name usually numbers the rows, which is not a feature",
                fix=f"leave it out with drop: {unnamed}, or give it a name", error=DataError)
        return records

    def _first_records(self) -> RecordFormat:
        with open(self.path, "rb") as file:
            head = file.read(HEAD_BYTES) + (last_line := file.readline(lines.LONGEST))
        self._require_plain_text(head)
        if len(last_line) == lines.LONGEST:
            raise self._too_long(head.rfind(b"\n", 0, HEAD_BYTES) + 1, f"more than {lines.LONGEST:,}")
        bom = 3 if head.startswith(b"\xef\xbb\xbf") else 0
        try:
            wrong = self._not_encoded(head[bom:], bom)
        except LookupError as error:
            raise ParameterError(explain(f"encoding={self.encoding!r}", why="Python knows no encoding of that name",
                                         fix="use utf-8, latin-1 or cp1252")) from error
        if wrong is not None:
            raise wrong
        text = head[bom:].decode(self.encoding)
        require("\r" not in text or "\n" in text, f"{self.name} ends its lines with carriage returns only",
                why="rows are found by their newlines", fix="convert the file: tr '\\r' '\\n'", error=DataError)
        require(self.delimiter is None or len(self.delimiter) == 1 or self.delimiter == WHITESPACE,
                f"delimiter={self.delimiter!r}", why="fields are separated by one character",
                fix=f'name one character, or "{WHITESPACE}"')
        first = next((line for line in text.splitlines() if line.strip()), None)
        try:
            delimiter = self.delimiter or find_delimiter(first or "", self.decimal or ".")
            records = first_records(text, delimiter)
        except csv.Error as error:
            raise self._at(bom, f"cannot be split into fields: {error}", "it is not delimited text",
                           "name its true format with `format:`") from error
        if first is None or not records:  # blank lines, or lines of empty quotes
            raise no_rows(self.name)
        header = looks_like_header(records, [*MISSING, *self.missing]) if self.header is None else self.header
        names = tuple(name.strip() for name in records[0]) if header else tuple(map(str, range(len(records[0]))))
        features, target = features_and_target(names, self.name, target=self.target, drop=self.drop, header=header)
        features = tuple(i for i in features if not (header and names[i] in self._excluded))
        return RecordFormat(delimiter, header, bom, names, target, features)

    # ---- all records, by their newlines

    def _sizes(self) -> Scan:
        self._records = records = self._look_at_head()
        self._names, self._has_names = records.names, records.header
        self._features, self._target = records.features, records.target
        n_rows = self._follow_records()
        return Scan(n_rows=n_rows, n_columns=len(records.features), dtype="float64",
                    target=None if records.target is None else records.names[records.target],
                    row_bytes=int(self._index.offsets[-1]) // n_rows + 1)

    def _follow_records(self) -> int:
        """Create the index, and return the number of rows."""
        records = self._records
        index, state = lines.index_lines(self.path, records.first_byte, {lines.EXPECTED_FIELDS: len(records.names)},
                                         lines.index_delimited, *self._follows)
        bad, alone = int(state[lines.BAD_START]), int(state[lines.LONE_RETURN])
        if state[lines.MODE] == lines.QUOTED:
            raise self._at(int(state[lines.START]), "opens a quote that never closes",
                           "every row after it would be one cell", "close or remove the quote")
        self._require_rows(index)
        if alone >= 0:
            raise self._at(alone, "holds a carriage return within a row", "it could end the row or belong to a cell",
                           "convert the line ends: tr '\\r' '\\n'")
        if bad >= 0:
            mark, count = records.delimiter, int(state[lines.BAD_FIELDS])
            raise self._at(bad, f"has {count} field{'s' * (count != 1)} between "
                           f"{'blanks' if mark == WHITESPACE else repr(mark)}, the first row has {len(records.names)}",
                           "cells would move into other columns", "correct the line, delete lines above the names of "
                           "the columns (titles, dates), or set `delimiter:`")
        # Record 1 is noted, so that a header is never parsed.
        after = slice(int(records.header), None)
        self._index = lines.LineIndex(index.rows[after] - records.header, index.offsets[after], index.lines[after])
        if state[lines.ROWS] <= records.header:
            raise no_rows(self.name)
        return int(state[lines.ROWS]) - records.header

    def _at(self, offset: int, what: str, why: str, fix: str) -> DataError:
        return DataError(explain(f"{self._line_at(offset)} {what}", why=why, fix=fix))

    def _not_encoded(self, raw: bytes, begin: int) -> DataError | None:
        """Return the error for the first bytes that are not text of the encoding; None if there are none."""
        try:
            raw.decode(self.encoding)
        except UnicodeDecodeError as error:
            return EncodingError(explain(
                f"{self._line_at(begin + error.start)} is not {self.encoding} text: bytes "
                f"{raw[error.start:error.end].hex(' ')}", why="names and labels would be read wrongly",
                fix="set `encoding:`, for example latin-1, or cp1252 as Windows writes it"))
        return None

    def places(self, rows: Sequence[int]) -> list[str]:
        """Return the lines of rows, in words; lines count from 1, with the header and lines within quotes."""
        return [f"row {row} (counted from 0), line {self.texts((), row, row + 1).lines[0]}" for row in rows]

    @property
    def _follows(self) -> tuple[np.uint8, bool]:
        """How `index_delimited` follows the records."""
        blank = self._records.delimiter == WHITESPACE
        return np.uint8(0 if blank else ord(self._records.delimiter)), blank

    # ---- cells

    def _count_cells(self) -> dict[int, CellCounts]:
        """Return the counts of each column in use; what is numbers in the first piece is parsed as such in others.

        Memory: a piece at a time, its text, Arrow's columns and the different texts of these: 9 to 17 `PIECE_BYTES`.
        """
        formats = possible_formats(self.decimal, self.thousands, self.percent)
        counts = {field: CellCounts() for field in self._used}
        plain: frozenset[int] = frozenset()
        for start, stop in self._pieces():
            _, begin, raw = self._stretch(start, stop)
            as_numbers = frozenset() if self._has_codes(raw) else plain
            arrays = self._parsed(raw, begin, as_numbers)
            for field, array in arrays.items():
                counts_of_column = CellCounts.of_numbers(array.to_numpy(zero_copy_only=False), start) \
                    if pa.types.is_floating(array.type) else \
                    CellCounts.of_text(trimmed(array), self.missing, formats, start)
                counts[field] = counts[field].merge(counts_of_column)
            if start == 0:
                plain = self._plain_fields(counts)
        self._plain = self._plain_fields(counts)
        return counts

    def _plain_fields(self, counts: Mapping[int, CellCounts]) -> frozenset[int]:
        """Return the fields that are parsed as numbers; not those with fractions if a point may separate thousands."""
        european = any(count.commas for count in counts.values())
        return frozenset(field for field, count in counts.items() if count.is_plain
                         and not (european and count.measured))

    def _pieces(self) -> list[tuple[int, int]]:
        """Return ranges of rows that are about `PIECE_BYTES` of text each."""
        rows, offsets = self._index.rows, self._index.offsets
        piece = (offsets - offsets[0]) // PIECE_BYTES
        edges = [0, *(np.flatnonzero(np.diff(piece[:-1])) + 1).tolist(), len(rows) - 1]
        return [(int(rows[first]), int(rows[last])) for first, last in pairwise(edges)
                if rows[first] < rows[last]]

    def _has_codes(self, raw: bytes) -> bool:
        """Return whether a whole number, or a text that looks like one, begins with a zero."""
        text = np.frombuffer(b"\n" + raw + b"\n", np.uint8)
        zero = np.flatnonzero(text[1:-1] == ord("0")) + 1
        before, after = text[zero - 1], text[zero + 1]
        delimiter = ord(self._records.delimiter) if self._records.delimiter != WHITESPACE else ord(" ")
        begins = np.isin(before, [delimiter, ord('"'), ord("\n"), ord(" ")])
        return bool((begins & (after >= ord("0")) & (after <= ord("9"))).any())

    def _arrays(self, start: int, stop: int, as_text: frozenset[int] = frozenset()) -> dict[int, pa.Array]:
        first, begin, raw = self._stretch(start, stop)
        plain = self._plain.difference(field for field, reading in self._readings.items() if reading.kind != "number")
        arrays = self._parsed(raw, begin, plain - as_text if self._readings else frozenset())
        self._require_rows_until(stop - first, len(next(iter(arrays.values()))), begin, raw)
        return {field: array.slice(start - first, stop - start) for field, array in arrays.items()}

    def texts(self, columns: Sequence[str], start: int, stop: int) -> RowTexts:
        first, begin, raw = self._stretch(start, stop)
        before = int(self._index.narrow(start, stop).lines[0])
        line = lines.lines_of(raw, before, lines.index_delimited, *self._follows) + 1
        self._require_rows_until(stop - first, len(line), begin, raw)
        fields = [self._names.index(name) for name in columns]
        arrays = self._parsed(raw, begin, frozenset(), fields) if fields else {}
        for array in arrays.values():
            self._require_rows_until(stop - first, len(array), begin, raw)
        cells = [trimmed(arrays[field].slice(start - first, stop - start)).to_pylist() for field in fields]
        return RowTexts(stop - start, line[start - first:stop - first].tolist(), cells)

    def stream(self, columns: Sequence[str]) -> Iterator[RowTexts]:
        self.n_rows()
        return (self.texts(columns, start, stop) for start, stop in self._pieces())

    def _require_rows_until(self, expected: int, present: int, begin: int, raw: bytes) -> None:
        """Raise DataError if a range of text has fewer rows than the index says."""
        require(present >= expected, f"{self.name}: {present} rows in {len(raw):,} bytes from {begin:,} on, "
                f"expected at least {expected}", why="its rows do not end at its newlines", error=DataError,
                fix="check the quotes and line ends of these rows")

    def _parsed(self, raw: bytes, begin: int, plain: frozenset[int],
                fields: Sequence[int] | None = None) -> Mapping[int, pa.Array]:
        """Return some fields of some records, those in use if None: numbers those of `plain` if they are, else text."""
        fields = self._used if fields is None else fields
        try:
            try:
                return self._parse(raw, plain, fields)
            except pa.ArrowInvalid:
                return self._parse(raw, frozenset(), fields)
        except (pa.ArrowInvalid, UnicodeError) as error:
            bad = self._not_encoded(raw, begin)
            raise bad or self._at(begin, f"and the next ones cannot be parsed: {error}",
                                  "their fields are not told apart", "check their quotes and line ends") from error

    def _parse(self, raw: bytes, plain: frozenset[int], fields: Sequence[int]) -> Mapping[int, pa.Array]:
        records = self._records
        delimiter = records.delimiter
        if delimiter == WHITESPACE:
            raw, delimiter = re.sub(rb"[ \t]+", b" ", re.sub(rb"(?m)^[ \t]+|[ \t]+(?=\r?$)", b"", raw)), " "
        elif b'"' in raw and f'{delimiter} '.encode() in raw:
            # A quote opens a cell after blanks too; what is quoted stays as it is.
            blanks = rb'"[^"]*"|(?<=[\n' + re.escape(delimiter.encode()) + rb']) +(?=")'
            raw = re.sub(blanks, lambda match: match[0] if match[0].startswith(b'"') else b"", raw)
        names = [str(field) for field in range(len(records.names))]
        table = arrow_csv.read_csv(
            pa.py_buffer(raw),
            read_options=arrow_csv.ReadOptions(column_names=names, use_threads=False, encoding=self.encoding,
                                               block_size=min(len(raw) + 1, (1 << 31) - 1)),
            parse_options=arrow_csv.ParseOptions(
                delimiter=delimiter, newlines_in_values=b'"' in raw,
                invalid_row_handler=lambda row: "error" if row.text.strip() else "skip"),
            convert_options=arrow_csv.ConvertOptions(
                include_columns=[str(field) for field in fields], strings_can_be_null=False,
                column_types={str(field): pa.float64() if field in plain else pa.string() for field in fields},
                null_values=[*GAPS, *self.missing]))
        return {field: table.column(str(field)).combine_chunks() for field in fields}

    def _prefers(self) -> str:
        return _MARKS.get(self._records.delimiter, ".")

    def decimal_mark(self, against: str = "") -> str:
        if self.decimal is not None or _MARKS.get(self._first_records().delimiter, against) == against != "":
            return ""
        if self._scan is None:
            self._sizes()
            self._columns_in_use = self._features
        counts = [*(self._counts if self._scan else self._count_cells()).values()]
        formats = possible_formats(None, self.thousands, self.percent)
        marks = {decimal_of(counts, formats, prefer=each) for each in formats}
        if len(marks) == 2:  # as of 1,200 alone
            return _MARKS.get(self._records.delimiter, "")
        return marks.pop() if any(count.commas or (count.plain and count.measured) for count in counts) else ""


_MARKS = {";": ",", ",": "."}  # decimal marks by delimiter


def _as_utf_8(path: Path, name: str, scratch: Path, encoding: str) -> tuple[Path, str]:
    """Return a file of UTF-16 text as a copy in UTF-8, any other as it is, and the encoding."""
    with open(path, "rb") as file:
        if file.read(2) not in UTF_16:
            return path, encoding
        file.seek(0)
        copy = scratch_file(path, scratch, f"utf-8-{path.name}")
        try:
            write_stream(codecs.EncodedFile(file, "utf-8", "utf-16"), copy, Path(name))
        except UnicodeError as error:
            raise DataError(explain(f"{name} is not UTF-16 text, as its first bytes say: {error}",
                                    why="names and labels would be read wrongly",
                                    fix="copy the file again, or write it as UTF-8")) from error
    return copy, "utf-8"


def find_delimiter(line: str, decimal: str = ".") -> str:
    """Return the delimiter that splits a line into most fields; whitespace if no other occurs."""
    counts = {mark: len(next(csv.reader([line], delimiter=mark))) - 1 for mark in DELIMITERS if mark != decimal}
    best = max(counts, key=lambda mark: counts[mark])
    if counts[best]:
        return best
    return WHITESPACE if len(line.split()) > 1 else ","


def first_records(text: str, delimiter: str) -> list[list[str]]:
    """Return the first two records that are not blank."""
    if delimiter == WHITESPACE:
        records = csv.reader((" ".join(line.split()) for line in text.splitlines()), delimiter=" ")
    else:
        records = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, skipinitialspace=True)
    first_two: list[list[str]] = []
    for record in records:
        if len(record) > 1 or "".join(record).strip():
            first_two.append(record)
            if len(first_two) == 2:
                break
    return first_two


def looks_like_header(records: list[list[str]], missing: list[str]) -> bool:
    """Return whether the first record names columns.

    It does if no cell of it is a number, or if a cell is text where the next record has a number. pandas writes
    numbers that count the columns where they have no names: these are names if the record also names a target, or if
    there are several and the next record has a fraction.
    """
    first = [cell.strip() for cell in records[0]]
    numbers = [cell for cell in first if is_number(cell)]
    is_text = [cell not in missing and not is_number(cell) for cell in first]
    if any(is_text) and not numbers:
        return True
    second = records[1] if len(records) > 1 else []
    if any(text and is_number(cell) for text, cell in zip(is_text, second, strict=False)):
        return True
    if not any(numbers == [str(i + begin) for i in range(len(numbers))] for begin in (0, 1)):
        return False
    has_fraction = any(is_number(cell) and not cell.strip().lstrip("+-").isdigit() for cell in second)
    return any(cell.lower() in TARGET_NAMES for cell in first) or (len(numbers) >= FEWEST_COUNTED and has_fraction)

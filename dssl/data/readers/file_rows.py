"""Rows of tables (delimited text, Parquet, Arrow) with the file and line of each, and cells as text."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ...storage.views import pieces_of
from .base import Reader
from .cell_text import NumberFormat, are_gaps, are_missing, numbers, possible_formats, trimmed
from .table import RowTexts, TableReader

HEIGHT = 1 << 14  # rows at a time


@dataclass(frozen=True)
class FileRow:
    """One row of a table: the name of its file, its line there, from 1, None of a binary file, and its cells as text.
    """

    file: str
    line: int | None
    cells: tuple[str, ...]


@dataclass(frozen=True)
class FileRowBlock:
    """Some rows of tables: lists `files` and `lines` of these rows, and `cells`, a list for each column."""

    files: list[str]
    lines: list[int | None]
    cells: list[list[str]]

    def rows(self) -> Iterator[FileRow]:
        """Yield single rows."""
        cells = zip(*self.cells, strict=True) if self.cells else iter([()] * len(self.files))
        return map(FileRow, self.files, self.lines, cells)


@dataclass(frozen=True)
class FileRows:
    """The rows of one or several files of one format, in their order.

    names : of the columns, those of the first file; numbers, from 0, where the files have no header. starts : the first
    row of each file, and the number of rows.
    """

    readers: tuple[TableReader, ...]
    names: tuple[str, ...]
    starts: np.ndarray

    @classmethod
    def of(cls, reader: Reader, n_rows: int) -> "FileRows | None":
        """Return the rows of a reader's files.

        None where their format is no table, or where the files hold another number of rows than `n_rows`, as they do
        once they have changed.
        """
        readers = tuple(part for part in getattr(reader, "readers", (reader,)) if isinstance(part, TableReader))
        if not readers:
            return None
        starts = np.cumsum([0, *(part.n_rows() for part in readers)])
        return cls(readers, readers[0].all_names(), starts) if starts[-1] == n_rows else None

    @property
    def has_lines(self) -> bool:
        return self.readers[0].has_lines

    def blocks(self, columns: Sequence[str], height: int = HEIGHT) -> Iterator[FileRowBlock]:
        """Yield all rows with the cells of some columns, a block at a time."""
        files, lines, cells = list[str](), list[int | None](), [list[str]() for _ in columns]
        for reader in self.readers:
            for texts in reader.stream(columns):
                files += [reader.name] * texts.n
                lines += texts.lines
                for column, more in zip(cells, texts.cells, strict=True):
                    column += more
                at = 0
                while len(files) - at >= height:
                    yield FileRowBlock(files[at:at + height], lines[at:at + height],
                                       [column[at:at + height] for column in cells])
                    at += height
                files, lines, cells = files[at:], lines[at:], [column[at:] for column in cells]
        if files:
            yield FileRowBlock(files, lines, cells)

    def __iter__(self) -> Iterator[FileRow]:
        """Yield all rows with all cells, in the order of `names`."""
        for block in self.blocks(self.names):
            yield from block.rows()

    def has(self, column: str) -> bool:
        """Return whether all files have a column."""
        return all(column in reader.all_names() for reader in self.readers)

    def cells(self, column: str, rows: np.ndarray) -> list[str]:
        """Return the cells of a column in some rows (m,), ascending; the files are read once."""
        return next(self.cells_of(column, [rows]))

    def cells_of(self, column: str, groups: Iterable[np.ndarray]) -> Iterator[list[str]]:
        """Yield the cells of a column in groups of rows (m,), all ascending; the files are read once."""
        blocks, begin, held = self.blocks([column]), 0, list[str]()
        for rows in groups:
            cells = []
            for row in rows.tolist():
                while row >= begin + len(held):
                    begin += len(held)
                    held = next(blocks).cells[0]
                cells.append(held[row - begin])
            yield cells

    def numbers(self, cells: Sequence[str], decimal: str | None) -> np.ndarray:
        """Return cells of text as numbers (m,), NaN where one is missing or no number; decimal : the mark, if known."""
        texts = trimmed(pa.array(cells, pa.string()))
        values = numbers(texts, self._number_format(decimal))
        return np.where(are_missing(texts, self.readers[0].missing), np.nan, values)

    def _number_format(self, decimal: str | None) -> NumberFormat:
        reader = self.readers[0]
        formats = possible_formats(reader.decimal, reader.thousands, reader.percent)
        return formats[decimal if decimal in formats else next(iter(formats))]

    def missing(self, cells: Sequence[str]) -> np.ndarray:
        """Return which cells (m,) are missing, bool."""
        texts = trimmed(pa.array(cells, pa.string()))
        return are_missing(texts, self.readers[0].missing) | are_gaps(texts)

    def names_of_groups(self, cells: Sequence[str], decimal: str | None) -> tuple[list[str], np.ndarray]:
        """Return cells (m,) as names of groups, without zero fractions; and which are missing, bool.

        Unlike gaps of numbers, such as ND and unknown, they may be names; and where a format has nulls, so may NA.
        decimal : the mark, if known.
        """
        reader = self.readers[0]
        names = self._number_format(decimal).without_zero_fraction(trimmed(pa.array(cells, pa.string())))
        listed = names.to_pylist()
        is_missing = np.array([name in ("", *reader.missing) for name in listed], bool) if reader.is_typed else \
            are_missing(names, reader.missing)
        return listed, is_missing

    def take(self, rows: Sequence[int]) -> list[FileRow]:
        """Return some rows by their numbers, which count from 0, in the order of these numbers."""
        by_number = {row: self._row(row) for row in sorted(set(rows))}
        return [by_number[row] for row in rows]

    def called(self, rows: Sequence[int], identifier: str | None) -> list[str]:
        """Return what some rows are called beside their numbers: by line, file and identifier, "" of none of these.

        identifier : the column that names them.
        """
        names_of_rows = []
        for row in self.take(rows):
            line = [] if row.line is None else [f"line {row.line}"]
            file = [row.file] if len(self.readers) > 1 else []
            named_by = f"{identifier} {row.cells[self.names.index(identifier)]}" if identifier in self.names else ""
            names_of_rows.append(", ".join(filter(None, [" of ".join(line + file), named_by])))
        return names_of_rows

    def _row(self, row: int) -> FileRow:
        number, within, _ = next(iter(pieces_of(self.starts, row, row + 1)))
        reader = self.readers[number]
        texts: RowTexts = reader.texts(self.names, within, within + 1)
        return FileRow(reader.name, texts.lines[0], tuple(column[0] for column in texts.cells))

"""The rows of tables (delimited text, Parquet, Arrow) as they stand in their files: file, line, and cells of text."""

import csv
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .base import Reader
from .csv_head import WHITESPACE, find_delimiter
from .grouped import GroupedReader
from .table import TableReader

OPTIONS = ("delimiter", "decimal")


@dataclass(frozen=True)
class FileRow:
    """One row of a table: the name of its file, its line there, from 1, None of a binary file, and its cells as text.
    """

    file: str
    line: int | None
    cells: tuple[str, ...]


@dataclass(frozen=True)
class FileRows:
    """The rows of one or several files of one format, in their order.

    names : of the columns, those of the first file; numbers, from 0, where the files have no header. options : of the
    reader that say how text is cut into cells.
    """

    readers: tuple[Reader, ...]
    names: tuple[str, ...]
    options: Mapping[str, Any]

    @classmethod
    def of(cls, reader: Reader, options: Mapping[str, Any], n_rows: int) -> "FileRows | None":
        """Return the rows of a reader's files.

        None where their format is no table, or where the files hold another number of rows than the reader found,
        which says that it cuts them otherwise.
        """
        readers = tuple(getattr(reader, "readers", (reader,)))
        if not isinstance(readers[0], TableReader):
            return None
        known = {name: options[name] for name in OPTIONS if options.get(name) is not None}
        found = cls(readers, tuple(readers[0].column_names()), known)
        if not found.names:
            found = cls(readers, tuple(str(j) for j in range(len(next(iter(found)).cells))), known)
        return found if sum(1 for _ in found.of_columns(found.names[:1])) == n_rows else None

    @property
    def has_lines(self) -> bool:
        return self.readers[0].format == "csv"

    def __iter__(self) -> Iterator[FileRow]:
        """Yield all rows with all cells, in the order of `names`."""
        return self.of_columns(self.names)

    def of_columns(self, columns: Sequence[str]) -> Iterator[FileRow]:
        """Yield all rows with the cells of some columns."""
        for reader in self.readers:
            if isinstance(reader, GroupedReader):
                for texts in reader.cells(columns):
                    yield FileRow(reader.name, None, texts)
                continue
            here = reader.column_names()
            places = [(here or list(self.names)).index(name) for name in columns] if self.names else None
            # A file of UTF-16 is read as a copy in UTF-8.
            records = _records(reader.path, {**self.options, "encoding": getattr(reader, "encoding", "utf-8")})
            if here:
                next(records)
            for line, cells in records:
                yield FileRow(reader.name, line, tuple(cells if places is None else (
                    cells[place] if place < len(cells) else "" for place in places)))

    def take(self, rows: Sequence[int]) -> list[FileRow]:
        """Return some rows, by their numbers among all, from 0, in the order in which they are asked for."""
        wanted = dict.fromkeys(rows)
        found = {number: row for number, row in enumerate(self) if number in wanted}
        return [found[number] for number in rows]


def _records(path: Path, options: Mapping[str, Any]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line at which each record begins, from 1, and its cells; lines of blanks are no records."""
    csv.field_size_limit(sys.maxsize)
    encoding = options.get("encoding", "utf-8")
    with open(path, encoding="utf-8-sig" if encoding == "utf-8" else encoding, newline="") as file:
        delimiter = options.get("delimiter") or find_delimiter(
            next((line for line in file if line.strip()), ""), options.get("decimal", "."))
        file.seek(0)
        if delimiter == WHITESPACE:
            yield from ((line, text.split()) for line, text in enumerate(file, start=1) if text.strip())
            return
        records, line = csv.reader(file, delimiter=delimiter, skipinitialspace=True), 1
        for cells in records:
            if len(cells) > 1 or "".join(cells).strip():
                yield line, [cell.strip() for cell in cells]
            line = records.line_num + 1

"""Parquet files, read by row groups, and written.

With `ParquetFile` and not `pyarrow.dataset`, whose scanner selects rows by their values, so that the batches of a row
group would still be counted and cut here. It decodes a row group before it gives out the first batch, and so takes
about twice the memory ("Reading a large file", tests/benchmarks/RESULTS.md).
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ...base.errors import DataError, require
from .grouped import GroupedReader, Groups


class RowGroups(Groups):
    """The row groups of an open Parquet file."""

    def __init__(self, path: Path):
        self._file = pq.ParquetFile(path, page_checksum_verification=True)
        self.schema = self._file.schema_arrow

    def sizes(self, columns: Collection[str], file: str) -> list[tuple[int, int]]:
        metadata = self._file.metadata
        groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
        counts = [group.num_rows for group in groups]
        require(sum(counts) == metadata.num_rows and min(counts, default=0) >= 0, error=DataError,
                what=f"{file} says it has {metadata.num_rows:,} rows, and {sum(counts):,} in its row groups",
                why="its footer is damaged", fix="copy or download the file again")
        return [(count, _stored_bytes(group, columns)) for count, group in zip(counts, groups, strict=True)]

    def refuse_changed(self, starts: np.ndarray, file: str) -> None:
        n_rows = self._file.metadata.num_rows
        require(n_rows == starts[-1], f"{file} has {n_rows:,} rows, and had {starts[-1]:,} when it was scanned",
                why="row numbers would mean other rows", error=DataError,
                fix="let nothing write to the file while it is read, and run again")

    def batches(self, rows: int, columns: Sequence[str], groups: range | None = None) -> Iterator[pa.RecordBatch]:
        yield from self._file.iter_batches(rows, columns=list(columns), use_threads=False,
                                           row_groups=None if groups is None else list(groups))

    def close(self) -> None:
        self._file.close()


class ParquetReader(GroupedReader):
    """Rows of one Parquet file, see `GroupedReader`."""

    format: ClassVar[str] = "parquet"
    endings: ClassVar[tuple[str, ...]] = (".parquet", ".pq")
    title: ClassVar[str] = "Parquet"

    def _opened(self) -> RowGroups:
        return RowGroups(self.path)


def _stored_bytes(group: Any, used: Collection[str]) -> int:
    """Return the bytes of the used columns of one row group in memory while their pages are decoded."""
    if len(used) == group.num_columns:  # of a damaged footer, `column` ends the process (seen with pyarrow 26)
        return group.total_byte_size
    columns = (group.column(i) for i in range(group.num_columns))
    return sum(max(column.total_uncompressed_size, column.total_compressed_size) for column in columns
               if any(f"{column.path_in_schema}.".startswith(f"{name}.") for name in used))


@contextmanager
def parquet_writer(path: Path, like: Mapping[str, np.ndarray],
                   begin: Path | None = None) -> Iterator[Callable[[Mapping[str, np.ndarray]], None]]:
    """Yield what writes columns by name, a row group each time it is called; null where one is masked.

    like : no rows of them, of the types that all have. begin : a file with the same columns, whose rows come first.
    """
    with pq.ParquetWriter(path, _arrow_table(like).schema) as writer:
        if begin is not None:
            with pq.ParquetFile(begin) as file:
                for number in range(file.num_row_groups):
                    writer.write_table(file.read_row_group(number))
        yield lambda columns: writer.write_table(_arrow_table(columns))


def parquet_columns(table: Path | Mapping[str, np.ndarray]) -> list[str]:
    """Return names and types of the columns of a file, or as `parquet_writer` would write them."""
    schema = pq.read_schema(table) if isinstance(table, Path) else _arrow_table(table).schema
    return [f"{field.name} ({field.type})" for field in schema]


def _arrow_table(columns: Mapping[str, np.ndarray]) -> Any:
    arrays = [pa.array(np.asarray(column), mask=np.ma.getmaskarray(column)) for column in columns.values()]
    return pa.table(arrays, names=list(columns))

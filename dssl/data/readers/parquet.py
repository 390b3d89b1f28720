"""Parquet files and files of Arrow (Feather, IPC), read by row groups and record batches; Parquet is written too.

Parquet is read with `ParquetFile` and not `pyarrow.dataset`, whose scanner selects rows by their values, so that the
batches of a row group would still be counted and cut here. It decodes a row group before it gives out the first batch,
and so takes about twice the memory ("Reading a large file", tests/benchmarks/RESULTS.md). A file of Arrow is mapped
into memory, so that batches which are not compressed are read by the pages in use.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import ClassVar

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


def _stored_bytes(group: pq.RowGroupMetaData, used: Collection[str]) -> int:
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


def _arrow_table(columns: Mapping[str, np.ndarray]) -> pa.Table:
    arrays = [pa.array(np.asarray(column), mask=np.ma.getmaskarray(column)) for column in columns.values()]
    return pa.table(arrays, names=list(columns))


class RecordBatches(Groups):
    """The record batches of an open file of Arrow."""

    def __init__(self, path: Path):
        self._map = pa.memory_map(str(path))
        self.schema = pa.ipc.open_file(self._map).schema

    def _reader(self, columns: Collection[str]) -> pa.ipc.RecordBatchFileReader:
        """Return the reader of some columns, or of all if none are given."""
        fields = sorted(self.schema.get_field_index(name) for name in columns)
        return pa.ipc.open_file(self._map, options=pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields))

    def sizes(self, columns: Collection[str], file: str) -> list[tuple[int, int]]:
        reader = self._reader(columns)
        batches = (reader.get_batch(i) for i in range(reader.num_record_batches))
        return [(batch.num_rows, batch.nbytes) for batch in batches]

    def refuse_changed(self, starts: np.ndarray, file: str) -> None:
        count = self._reader(()).num_record_batches
        require(count == len(starts) - 1, f"{file} has {count:,} record batches, and had {len(starts) - 1:,} when it "
                "was scanned", why="row numbers would mean other rows", error=DataError,
                fix="let nothing write to the file while it is read, and run again")

    def batches(self, rows: int, columns: Sequence[str], groups: range | None = None) -> Iterator[pa.RecordBatch]:
        reader = self._reader(columns)
        for i in range(reader.num_record_batches) if groups is None else groups:
            batch = reader.get_batch(i).select(list(columns))
            batch.validate(full=True)  # a damaged file has offsets that lead out of its text
            for start in range(0, batch.num_rows, rows):
                yield batch.slice(start, rows)

    def close(self) -> None:
        self._map.close()


class ArrowReader(GroupedReader):
    """Rows of one file of Arrow, see `GroupedReader`."""

    format: ClassVar[str] = "arrow"
    endings: ClassVar[tuple[str, ...]] = (".feather", ".arrow", ".ipc")
    title: ClassVar[str] = "a file of Arrow (Feather)"

    def _opened(self) -> RecordBatches:
        return RecordBatches(self.path)

"""Files of Arrow (IPC): Feather, and what polars and pandas write as such; read by record batches.

The file is mapped into memory, so that batches which are not compressed are read by the pages in use.
"""

from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa

from ...base.errors import DataError, require
from .grouped import GroupedReader, Groups


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

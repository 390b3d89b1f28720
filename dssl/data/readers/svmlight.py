"""svmlight / LIBSVM text: `label column:value column:value ...`, one row per line."""

import io
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
from scipy import sparse

from ...base.digest import JsonObject
from ...base.errors import DataError, explain, require
from ...base.profiler import library
from ..targets import whole_numbers
from .base import Block, Reader, Scan, no_rows
from .lines import ENTRIES, LARGEST, ROWS, SMALLEST, LineReader, index_lines, index_svmlight

MAX_COLUMNS = (1 << 31) - 1


class SvmlightReader(LineReader):
    """Rows of svmlight text. Columns count from 1, or from 0 if the file has a column 0 or `zero_based` says so."""

    format: ClassVar[str] = "svmlight"
    endings: ClassVar[tuple[str, ...]] = (".svm", ".svmlight", ".libsvm")
    options: ClassVar[tuple[str, ...]] = ("n_columns", "zero_based")

    def __init__(self, path: Path, name: str, scratch: Path, *, n_columns: int | None = None,
                 zero_based: bool | None = None):
        self.path, self.name, self.n_columns, self.zero_based = path, name, n_columns, zero_based

    def attributes(self) -> JsonObject:
        return {"zero_based": self.zero_based}

    def _look(self) -> Scan:
        with open(self.path, "rb") as file:
            self._require_plain_text(file.read(1 << 12))
        index, state = index_lines(self.path, 0, {SMALLEST: MAX_COLUMNS, LARGEST: -1}, index_svmlight)
        self._index = self._require_rows(index)
        n_rows, smallest, largest = int(state[ROWS]), int(state[SMALLEST]), int(state[LARGEST])
        if n_rows == 0:
            raise no_rows(self.name)
        self.zero_based = smallest == 0 if self.zero_based is None else self.zero_based
        require(self.zero_based or smallest > 0, f"{self.name} has a column 0, though zero_based is false",
                why="columns counted from 1 have no column 0", fix="leave zero_based unset", error=DataError)
        n_columns = largest + self.zero_based
        require(largest >= 0 or bool(self.n_columns), f"{self.name} has no column:value pairs", error=DataError,
                why="points without features cannot be told apart", fix="check the format: `label 1:0.5 7:1.25`")
        require(n_columns <= MAX_COLUMNS, f"{self.name} has column {largest}, the largest possible is {MAX_COLUMNS}",
                why="column numbers are stored in 32 bits", fix="number the columns from 1", error=DataError)
        require(self.n_columns is None or self.n_columns >= n_columns, f"{self.name} has column {largest}, though "
                f"n_columns is {self.n_columns}", why="its values would be lost", error=DataError,
                fix=f"set n_columns to {n_columns} or more")
        return Scan(n_rows=n_rows, n_columns=self.n_columns or n_columns, dtype="float64", target="the first field",
                    row_bytes=int(self._index.offsets[-1]) // n_rows + 1, nnz=int(state[ENTRIES]))

    def settle(self, readers: Sequence[Reader]) -> "SvmlightReader":
        """Return a reader that counts columns from 0 if any file does, with as many columns as the widest file."""
        peers = [reader for reader in readers if isinstance(reader, SvmlightReader)]
        zero_based = any(peer.zero_based for peer in peers)
        # A file that counts from 1 has one column more when it is counted from 0.
        widest = max(peer.scan().n_columns + (zero_based and not peer.zero_based) for peer in peers)
        settled = copy(self)
        settled._scan, settled.zero_based = replace(self.scan(), n_columns=self.n_columns or widest), zero_based
        return settled

    def read(self, start: int, stop: int, *, text_target: bool = False) -> Block:
        self.scan()
        first, begin, raw = self._stretch(start, stop)
        try:
            values, labels = self._parse(raw)
        except (ValueError, OverflowError):
            for line in io.BytesIO(raw):
                try:
                    self._parse(line)
                except (ValueError, OverflowError) as error:
                    shown = line.strip()[:60].decode("utf-8", "replace")
                    raise DataError(explain(
                        f"{self._line_at(begin)} is not svmlight text: {shown!r}: {error}",
                        why="a line is one number, then column:value pairs with ascending columns",
                        fix="correct the line; several labels a row are not supported")) from error
                begin += len(line)
            raise
        rows = slice(start - first, stop - first)
        return Block(sparse.csr_array(values[rows]), whole_numbers(np.asarray(labels[rows], np.float64)))

    def _parse(self, raw: bytes) -> tuple[sparse.csr_array, np.ndarray]:
        n_features = self.scan().n_columns
        return library("sklearn.datasets").load_svmlight_file(
            io.BytesIO(raw), n_features=n_features, zero_based=bool(self.zero_based))

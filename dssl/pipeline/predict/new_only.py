"""`dssl predict --new-only`: a table of predictions that grows, and the record of what is in it.

`OUT.files.json` beside a table OUT has for the SHA-256 of OUT the model that predicted it, and of each file the name,
the SHA-256, the number of rows, and the SHA-256 of their values. It is written before OUT is replaced, and then tells
of the table before and the table after, so that it knows what is in OUT whenever a prediction is killed.
"""

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Self

import numpy as np

from ...base.errors import DataError, require
from ...data.dataset import Dataset
from ...data.readers.parquet import parquet_columns
from ...data.source_files import FileChanges, FileRecord, Source, digested, fingerprint, in_words, joined
from ...data.sources import find_source
from ...storage.blocks import Rows
from ...storage.csr import csr_arrays
from ...storage.files import names_in_zip, read_record, write_json
from ...storage.objects import ObjectPath
from ...storage.views import SelectedRows
from .to_file import Continued

CONTINUED = (".csv", ".parquet")  # tables to which rows are added
COLUMNS = {"label", "value", "tags", "probability", "score", "rejected", "probabilities", "classes"}  # or begin so
DIGEST_ROWS = 1 << 12  # of a block whose values are digested
FIX = "predict without --new-only, which makes all of it anew"


@dataclass(frozen=True)
class PredictedFile(FileRecord):
    """A file whose rows were predicted; values : SHA-256 of these rows as they were read."""

    values: str = ""


@dataclass(frozen=True)
class PredictedBefore:
    """The table that is at `out`, and the files whose rows are in it, in their order, as far as it is gone on from.

    made_by : the model and the options that rows are predicted with now (JSON). there : what the record says of the
    table that is there, by its digest; empty where there is none.
    """

    out: Path
    made_by: Mapping[str, Any]
    there: Mapping[str, Any] = field(default_factory=dict)
    files: tuple[PredictedFile, ...] = ()

    @classmethod
    def of(cls, out: Path, made_by: Mapping[str, Any]) -> Self:
        """Return what the record says; no files where another model predicted them, or with other options.

        Raises DataError: there is a table without a record, or another one than was written.
        """
        record = _record_of(out)
        if not out.is_file():
            return cls(out, made_by)
        require(record.is_file(), f"{out} is there, and no {record.name} beside it", error=DataError,
                why="which files are in it is not known", fix=f"{FIX}, or name another file")
        tables = read_record(record, {}, fix=f"delete {record}, and {FIX}")
        with _local(out) as table:
            digest = fingerprint(table)
        require(digest in tables, f"{out} is not the table that was written", error=DataError,
                why=f"its bytes are not those that {record.name} tells of", fix=f"put it back; or {FIX}")
        there, same = tables[digest], tables[digest]["made_by"] == made_by
        files = tuple(PredictedFile(**file) for file in there["files"]) if same else ()
        return cls(out, made_by, {digest: there}, files)

    @property
    def n_rows(self) -> int:
        return sum(file.rows for file in self.files)


@dataclass
class Pending:
    """What of a source was not predicted yet: files, and of files that are longer than they were the last rows.

    grown : by the place of such a file, what it was. vanished : files that were predicted and are gone. records : what
    is to be recorded of the files, once they are read.
    """

    before: PredictedBefore
    files: list[Source]
    name: str
    grown: dict[int, PredictedFile]
    vanished: list[FileRecord]
    records: list[PredictedFile] = field(default_factory=list)

    @classmethod
    def of(cls, out: Path, made_by: Mapping[str, Any], source: Sequence[str], format: str | None) -> Self:
        """Return what a table does not have of a source; see `PredictedBefore.of` for the errors."""
        before = PredictedBefore.of(out, made_by)
        current = digested(find_source(source, format=format, known=before.files))
        changes = FileChanges.of(before.files, current.files)
        grown = {changes.new.index(place): record for record, place in changes.changed
                 if isinstance(record, PredictedFile)}
        return cls(before, [current.files[place] for place in changes.new], current.name, grown, changes.vanished)

    def notes(self) -> list[str]:
        """Return what there is to say of it before it is read, a line each."""
        notes, out = [], self.before.out
        if self.before.there and not self.before.files:
            notes.append(f"{out} was predicted by another model or with other options: all rows are predicted anew")
        if self.vanished:
            notes.append(f"not in the source any more: {in_words(self.vanished)}; the predictions stay in {out}")
        return notes

    @property
    def source(self) -> Source:
        """Return the files as one source."""
        return joined(self.files, self.name)

    def unpredicted(self, dataset: Dataset) -> Dataset:
        """Return the rows that are new, of all that were read of the files.

        Raises DataError: rows of a file that were predicted are not what they were.
        """
        read = [len(dataset)] if len(self.files) == 1 else [file["rows"] for file in dataset.attributes["files"]]
        ranges, start = [], 0
        for place, (file, n) in enumerate(zip(self.files, read, strict=True)):
            was, first = self.grown.get(place), 0
            if was is not None:
                same = was.rows <= n and values_digest(dataset.X, start, start + was.rows) == was.values
                require(same, f"{in_words([was])} has changed", error=DataError, fix=FIX,
                        why=f"the {was.rows:,} rows of it that were predicted are not its first rows any more")
                first = was.rows
            ranges.append(np.arange(start + first, start + n))
            self.records.append(PredictedFile(file.full_name, str(file.digest), n, file.version,
                                              values_digest(dataset.X, start, start + n)))
            start += n
        if not self.grown:
            return dataset
        rows = np.concatenate(ranges)
        if not len(rows):
            self._note(*self.before.there)
        y = None if dataset.y is None else SelectedRows(dataset.y, rows)
        return replace(dataset, X=SelectedRows(dataset.X, rows), y=y, split=None)

    @contextmanager
    def continued(self) -> Iterator[Continued]:
        """Give what a table of the new rows goes on from, and what writes down what is in it before it is published."""
        if not self.before.files:
            yield Continued(None, 0, lambda draft: self._note(fingerprint(draft)))
            return
        with _local(self.before.out) as table:
            yield Continued(table, self.before.n_rows, lambda draft: self._note(fingerprint(draft)))

    def _note(self, digest: str) -> None:
        """Write the record of the table that is there, and of the one with this digest, which has all rows."""
        before, again = self.before, {was.name for was in self.grown.values()}
        files = [*(file for file in before.files if file.name not in again), *self.records]
        now = {"made_by": before.made_by, "files": [file.to_dict() for file in files]}
        write_json(_record_of(before.out), {**before.there, digest: now})


def holds_predictions(out: Path) -> bool:
    """Return whether a table or npz file has the columns of predictions: a first one that names rows, and no others."""
    if out.suffix not in (*CONTINUED, ".npz"):
        return False
    with _local(out) as table:
        try:
            if out.suffix == ".csv":
                with open(table, encoding="utf-8", newline="") as file:
                    head, *columns = next(csv.reader(file), [""])
            elif out.suffix == ".npz":
                head, *columns = [name.removesuffix(".npy") for name in names_in_zip(table)] or [""]
            else:
                head, *columns = [column.rpartition(" (")[0] for column in parquet_columns(table)]
        except (ValueError, csv.Error):
            return False
    kinds = {column.partition(" ")[0] for column in columns}
    is_certain = head == "row" or bool(kinds & {"probability", "score"})  # "id,value" may be anyone's
    return is_certain and bool(kinds & {"label", "value", "tags"}) and kinds <= COLUMNS


def values_digest(X: Rows, start: int, stop: int) -> str:
    """Return the SHA-256 of the values of rows [start, stop), however they are stored."""
    whole = hashlib.sha256()
    for first in range(start, stop, DIGEST_ROWS):
        block = X.read(first, min(first + DIGEST_ROWS, stop))
        if X.is_sparse:
            arrays = csr_arrays(block)
            pieces = [np.diff(arrays["indptr"]).astype(np.int64), arrays["indices"].astype(np.int64), arrays["data"]]
        else:
            pieces = [block]
        for piece in pieces:
            whole.update(np.ascontiguousarray(piece).tobytes())
    return whole.hexdigest()


def _record_of(out: Path) -> Path:
    return out.with_name(f"{out.name}.files.json")


@contextmanager
def _local(out: Path) -> Iterator[Path]:
    """Give a file of this machine with the bytes of one that may be an object."""
    if not isinstance(out, ObjectPath):
        yield out
        return
    with TemporaryDirectory(prefix="dssl-") as folder:
        copy = Path(folder, out.name)
        out.download(copy)
        yield copy

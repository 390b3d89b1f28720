"""Adds rows to a stored data set, which stays unchanged until all new rows are written.

    FOLDER/shared/                    X, y, split, as the first ingest wrote them
    FOLDER/segments/0001/shared/      the rows of the first append, and so on
    FOLDER/dataset.json               the pieces of X, y and split; replaced atomically at the end

An append writes a segment and then `dataset.json`. If it is killed, it leaves a segment that `dataset.json` does not
list, and the next append removes it. If the new rows change the type of y or the names of its codes, y is written again
for all rows, into the new segment.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

import numpy as np

from ..base.errors import DataError, explain, require
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.array_files import remove_array
from ..storage.blocks import ArrayRows, Rows, write_dense
from ..storage.files import path_at, read_json, write_json
from ..storage.store import MANIFEST, StoredParts, StoredRows
from ..storage.views import JoinedRows
from .dataset import SEGMENTED, Dataset, DatasetManifest, DenseDescription, chunk_rows, describe_dense, open_stored
from .findings import SurveyRecord
from .ingest import ingest
from .ingest_leftovers import one_writer
from .ingest_params import IngestParams
from .readers.formats import folder_format, format_of_ending
from .readers.stored import segments_of
from .source_files import FileChanges, FileRecord, Source, digested, in_words, joined
from .sources import find_source
from .targets import recoded


def append(source: str | Path | Sequence[str | Path], folder: str | Path, execution: Execution | None = None, *,
           again: bool = False, **options: Any) -> Dataset:
    """Add the rows of a source to the data set in a folder, and return the whole data set.

    Only files whose bytes were not read before are read. Columns are matched by name if both sides have names, else by
    number. A source of the same format is read with the options of the first one, except for those in `options`.

    again : whether files that were read before are added again, so that their rows occur twice.

    Raises DataError: a file that was read before has changed or disappeared; the folder contains no
    data set; the columns differ; only one side has labels or a split; or the labels of one side are
    text and of the other numbers. LockedError: another process adds rows to the folder.
    """
    folder = path_at(folder)
    require((folder / MANIFEST).is_file(), f"{folder} has no {MANIFEST}", error=DataError,
            why="rows are added to an existing data set",
            fix="ingest the first source without --append, or check the folder")
    with one_writer(folder) as lock:
        current = open_stored(folder)
        manifest = read_json(folder / MANIFEST)
        require(not current.X.is_sparse, f"{folder} is sparse", why="rows are appended to dense data sets only",
                fix="ingest all files together, as a list or a pattern", error=DataError)
        records = [FileRecord(**record) for record in current.attributes.get("files", [])]
        files = digested(find_source(source, labels=options.get("labels"), format=options.get("format"),
                                     known=() if again else records))
        params = _params(current, files, options)
        if not again:
            named = [str(source)] if isinstance(source, (str, Path)) else [str(record) for record in source]
            changes = FileChanges.of(records, files.files)
            _refuse_changed(changes, files.files, named)
            if not changes.new:
                return current
            files = joined([files.files[index] for index in changes.new], files.name)
        done = segments_of(folder)
        for folder_left in (folder / "segments").glob("*"):
            if folder_left.name not in done:  # left by an append that was killed
                StoredParts(folder_left).remove()
        name = f"{len(done) + 1:04d}"
        segment = StoredParts(folder / "segments" / name)
        try:
            added = ingest(files, segment, execution or InProcess(), params,
                           like=replace(current, attributes={**current.attributes, "source": str(folder)}))
            arrays, label_names = _joined(folder, manifest, current, added, segment)
        except BaseException:
            segment.remove()
            raise
        both = f"{current.attributes.get('fingerprint')} {added.attributes['fingerprint']}"
        lock.check()
        write_json(folder / MANIFEST, {
            "dssl_dataset": SEGMENTED, "arrays": arrays, "segments": [*done, name],
            "attributes": {**current.attributes, "label_names": label_names,
                           "files": [*(record.to_dict() for record in records), *added.attributes["files"]],
                           "survey": widened(current.attributes.get("survey", []), added.attributes.get("survey", [])),
                           "fingerprint": hashlib.sha256(both.encode()).hexdigest()}})
        return open_stored(folder)


def _refuse_changed(changes: FileChanges, files: Sequence[Source], named: Sequence[str]) -> None:
    """Raise DataError if files that were read before have changed, or no longer match the patterns in `named`."""
    changed = [record for record, _ in changes.changed]
    vanished = changes.vanished_from(named)
    changed_indices = {index for _, index in changes.changed}
    new = [files[index] for index in changes.new if index not in changed_indices]
    alone = f"name only the new files ({in_words(new)})" if new else "name only new files"
    require(not changed, f"{in_words(changed)} has changed" if len(changed) == 1 else
            f"{len(changed)} files have changed: {in_words(changed)}", error=DataError,
            why=f"the data set has the {sum(record.rows for record in changed):,} rows of their earlier content",
            fix=f"ingest all files into another folder; or {alone}; or add their current content as further rows, with "
                "--again")
    require(not vanished, f"{in_words(vanished)} no longer exists" if len(vanished) == 1 else
            f"{len(vanished)} files no longer exist: {in_words(vanished)}", error=DataError,
            why=f"the data set has {sum(record.rows for record in vanished):,} rows of such files",
            fix=f"restore the missing files; or {alone}; or ingest the remaining files into another folder")


def _params(current: Dataset, source: Source, options: Mapping[str, Any]) -> IngestParams:
    """Return how to read the source: like the first one if it has the same format, changed by `options`."""
    dtype = str(current.X.dtype)
    requested = options.get("dtype")
    require(requested in (None, dtype), f"dtype={requested}, but the data set is {dtype}", error=DataError,
            why="all rows of X have one type", fix=f"leave dtype unset, or ingest all rows again as {requested}")
    before = {name: tuple(value) if isinstance(value, list) else value
              for name, value in (current.attributes.get("params") or {}).items()
              if name in IngestParams.__dataclass_fields__ and name not in ("dtype", "block_rows", "labels")}
    known = options.get("format") or folder_format(source.path) or format_of_ending(source.path)
    # If the ending does not determine a format, the first source may have had the same ending.
    same = known == current.attributes.get("format") if known else before.get("format") is not None
    return IngestParams(**{**(before if same else {}), **options, "dtype": dtype})


class PieceDescription(DenseDescription):
    """A piece of an array in `dataset.json`; its path is relative to the folder of the data set."""

    path: str


class JoinedDescription(TypedDict):
    """The entry of an array in `dataset.json`; one that was never appended to has no pieces."""

    shape: list[int]
    dtype: str
    pieces: NotRequired[list[PieceDescription]]


def _joined(folder: Path, manifest: DatasetManifest, current: Dataset, added: Dataset,
            segment: StoredParts) -> tuple[dict[str, JoinedDescription], list[str] | None]:
    """Return the entries of all arrays with the new rows in `dataset.json`, and the names of the codes of y."""
    arrays = {name: _with_piece(folder, name, manifest["arrays"][name], new)
              for name, new in (("X", added.X), ("split", added.split)) if new is not None}
    if current.y is None or added.y is None:
        return arrays, current.attributes.get("label_names")
    y, is_whole, label_names = _joined_labels(current, added, current.y, added.y)
    if y is not None:
        remove_array(segment.folder / "shared" / "y")
        write_dense(ArrayRows(y), segment, "y", chunk_rows(len(y), y.itemsize))
    before: JoinedDescription = {"pieces": [], "shape": [0], "dtype": ""} if is_whole else manifest["arrays"]["y"]
    return {**arrays, "y": _with_piece(folder, "y", before, segment.rows("y"))}, label_names


def _with_piece(folder: Path, name: str, described: JoinedDescription, new: Rows) -> JoinedDescription:
    """Return the entry of an array with one more piece."""
    assert isinstance(new, StoredRows)
    only: PieceDescription = {"shape": described["shape"], "dtype": described["dtype"], "path": f"shared/{name}"}
    added: PieceDescription = {**describe_dense(new), "path": new.path.relative_to(folder).as_posix()}
    return {"shape": [described["shape"][0] + len(new), *new.shape[1:]], "dtype": new.dtype.str,
            "pieces": [*described.get("pieces", [only]), added]}


def joined_labels(current: Dataset, added: Dataset) -> tuple[Rows | None, list[str] | None]:
    """Return y of a data set and its added rows, and the names of its codes; None if there is no y.

    Raises DataError: one y is text and the other numbers.
    """
    if current.y is None or added.y is None:
        return None, current.attributes.get("label_names")
    y, is_whole, names = _joined_labels(current, added, current.y, added.y)
    if is_whole and y is not None:
        return ArrayRows(y), names
    return JoinedRows([current.y, added.y if y is None else ArrayRows(y)]), names


def _joined_labels(current: Dataset, added: Dataset, before: Rows,
                   after: Rows) -> tuple[np.ndarray | None, bool, list[str] | None]:
    """Return (y to write, or None if the new rows' y needs no change; whether it covers all rows; names of codes)."""
    old = current.attributes.get("label_names")
    new = added.attributes.get("label_names")
    y = after.read_all()
    if old is None and new is None:
        is_whole = before.dtype != y.dtype and before.dtype != np.float64
        y = np.concatenate([before.read_all(), y]) if is_whole else y.astype(np.float64)
        return None if before.dtype == after.dtype else y, is_whole, None
    is_mixed = (y != -1).any() if new is None else old is None and not np.isnan(before.read_all()).all()
    if is_mixed:
        kinds = ("text", "numbers") if old is None else ("numbers", "text")
        raise DataError(explain(
            f"the labels of {added.attributes['source']} are {kinds[0]}, but those of the data set are {kinds[1]}",
            why="the original text of the numbers is no longer known",
            fix="ingest all files together, as a list or a pattern; or name another column with `target:`"))
    names = list(old) if old is not None and set(new or ()) <= set(old) else sorted({*(old or ()), *(new or ())})
    if names == old == new:
        return None, False, names
    y = recoded(y.astype(np.int64), new or [], names)
    if names == old:
        return y, False, names
    known = np.full(len(before), -1) if old is None else recoded(before.read_all(), old, names)
    return np.concatenate([known, y]), True, names


def widened(survey: Sequence[SurveyRecord], more: Sequence[SurveyRecord]) -> list[SurveyRecord]:
    """Return survey records that also cover the ranges and missing cells of more rows, matched by column name."""
    added = {record["name"]: record for record in more}
    return [_widened(record, added[record["name"]]) if record["name"] in added else record for record in survey]


def _widened(record: SurveyRecord, more: SurveyRecord) -> SurveyRecord:
    record = record.copy()
    if record["min"] is not None and more["min"] is not None:
        record["min"] = min(record["min"], more["min"])
    if record["max"] is not None and more["max"] is not None:
        record["max"] = max(record["max"], more["max"])
    if record["missing"] is not None and more["missing"] is not None:
        record["missing"] += more["missing"]
    return record

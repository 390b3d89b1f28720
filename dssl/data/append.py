"""Add rows to a stored data set; what was there stays as it is until all of them are.

    FOLDER/shared/                    X, y, split, as the first ingest wrote them
    FOLDER/segments/0001/shared/      the rows of the first append, and so on
    FOLDER/dataset.json               which pieces X, y and split are joined of; replaced last, at once

An append writes a segment and then `dataset.json`; one that is killed leaves a segment that no `dataset.json` lists,
which the next one removes. y goes into its segment too; if its type or the names of its codes change with the new
rows, it is written whole, all rows of it, into the new segment.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..base.errors import DataError, explain, require
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.array_files import remove_array
from ..storage.blocks import ArrayRows, Rows, write_dense
from ..storage.files import path_at, read_json, write_json
from ..storage.pieces import JoinedRows
from ..storage.store import MANIFEST, StoredParts, StoredRows
from .dataset import SEGMENTED, Dataset, chunk_rows, describe, open_stored
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
    """Add the rows of a source to the data set in a folder, and return it with them.

    Only files whose bytes were not read before are read; where there are none, the data set stays as it is. Columns are
    matched by name where both have names, else by number. A source of the same format is read with the options of the
    first one; `options` change them.

    again : whether files that were read before are added too: their rows are then there twice.

    Raises DataError: a file that was read before has changed, or a pattern does not find it any more; the folder holds
    no data set; or the source has other columns, labels or a split where the folder has none, or the other way round;
    or its labels are text where those of the folder are numbers. LockedError: another process adds rows to the folder.
    """
    folder = path_at(folder)
    require((folder / MANIFEST).is_file(), f"{folder} has no {MANIFEST}", error=DataError,
            why="rows are added to a data set that is there",
            fix="ingest the first source without --append, or check the folder")
    with one_writer(folder) as lock:
        current = open_stored(folder)
        manifest = read_json(folder / MANIFEST)
        require(not current.X.is_sparse, f"{folder} is sparse", why="rows are appended to dense data sets only",
                fix="ingest all files at once: name them as a list or a pattern", error=DataError)
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
            files = joined([files.files[place] for place in changes.new], files.name)
        done = segments_of(folder)
        for left in (folder / "segments").glob("*"):
            if left.name not in done:  # by an append that was killed
                StoredParts(left).remove()
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
    """Raise DataError if files that were read before have changed, or a pattern does not find them any more.

    named : what the source was named by.
    """
    changed = [record for record, _ in changes.changed]
    vanished = changes.vanished_from(named)
    places = {place for _, place in changes.changed}
    new = [files[place] for place in changes.new if place not in places]
    alone = f"name the new files alone ({in_words(new)})" if new else "name new files alone"
    require(not changed, f"{in_words(changed)} has changed" if len(changed) == 1 else
            f"{len(changed)} files have changed: {in_words(changed)}", error=DataError,
            why=f"the data set has {sum(record.rows for record in changed):,} rows as they were there before",
            fix=f"ingest all files into another folder; or {alone}; or add what the files hold now as further rows, "
                "with --again")
    require(not vanished, f"{in_words(vanished)} is not there any more" if len(vanished) == 1 else
            f"{len(vanished)} files are not there any more: {in_words(vanished)}", error=DataError,
            why=f"the data set has {sum(record.rows for record in vanished):,} rows that stood there",
            fix=f"put back what is missing; or {alone}; or ingest the files that are left into another folder")


def _params(current: Dataset, source: Source, options: dict[str, Any]) -> IngestParams:
    """Return how the source is read: as the first one was, if it has the same format, with `options` on top."""
    dtype = str(current.X.dtype)
    asked = options.get("dtype")
    require(asked in (None, dtype), f"dtype={asked} and the data set is {dtype}", error=DataError,
            why="all rows of X have one type", fix=f"leave dtype unset, or ingest all rows again as {asked}")
    before = {name: tuple(value) if isinstance(value, list) else value
              for name, value in (current.attributes.get("params") or {}).items()
              if name in IngestParams.__dataclass_fields__ and name not in ("dtype", "block_rows", "labels")}
    known = options.get("format") or folder_format(source.path) or format_of_ending(source.path)
    # An ending that stands for no format: the first source may have had it too.
    same = known == current.attributes.get("format") if known else before.get("format") is not None
    return IngestParams(**{**(before if same else {}), **options, "dtype": dtype})


def _joined(folder: Path, manifest: dict[str, Any], current: Dataset, added: Dataset,
            segment: StoredParts) -> tuple[dict[str, Any], list[str] | None]:
    """Return what `dataset.json` says of all arrays with the new rows, and the names of the codes of y."""
    arrays = {name: _with_piece(folder, name, manifest["arrays"][name], new)
              for name, new in (("X", added.X), ("split", added.split)) if new is not None}
    if current.y is None or added.y is None:
        return arrays, current.attributes.get("label_names")
    y, is_whole, label_names = _joined_labels(current, added, current.y, added.y)
    if y is not None:
        remove_array(segment.folder / "shared" / "y")
        write_dense(ArrayRows(y), segment, "y", chunk_rows(len(y), y.itemsize))
    before = {"pieces": [], "shape": [0]} if is_whole else manifest["arrays"]["y"]
    return {**arrays, "y": _with_piece(folder, "y", before, segment.rows("y"))}, label_names


def _with_piece(folder: Path, name: str, described: dict[str, Any], new: Rows) -> dict[str, Any]:
    """Return the description of an array with one piece more."""
    assert isinstance(new, StoredRows)
    pieces = described.get("pieces", [{**described, "path": f"shared/{name}"}])
    path = new.path.relative_to(folder).as_posix()
    whole = {"shape": [described["shape"][0] + len(new), *new.shape[1:]], "dtype": new.dtype.str}
    return {**whole, "pieces": [*pieces, {**describe(new), "path": path}]}


def joined_labels(current: Dataset, added: Dataset) -> tuple[Rows | None, list[str] | None]:
    """Return y of a data set and of rows that are added to it, and the names of its codes; None where there is no y.

    Raises DataError: one is text and the other numbers.
    """
    if current.y is None or added.y is None:
        return None, current.attributes.get("label_names")
    y, is_whole, names = _joined_labels(current, added, current.y, added.y)
    if is_whole and y is not None:
        return ArrayRows(y), names
    return JoinedRows([current.y, added.y if y is None else ArrayRows(y)]), names


def _joined_labels(current: Dataset, added: Dataset, before: Rows,
                   after: Rows) -> tuple[np.ndarray | None, bool, list[str] | None]:
    """Return (y to write, None if that of the new rows stays as it is; whether it is of all rows; names of its codes).

    Raise DataError if one is text and the other numbers.
    """
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
            f"the labels of {added.attributes['source']} are {kinds[0]}, those of the data set {kinds[1]}",
            why="how the numbers were written is not known any more",
            fix="ingest all files at once, as a list or a pattern; or name another column with `target:`"))
    names = list(old) if old is not None and set(new or ()) <= set(old) else sorted({*(old or ()), *(new or ())})
    if names == old == new:
        return None, False, names
    y = recoded(y.astype(np.int64), new or [], names)
    if names == old:
        return y, False, names
    known = np.full(len(before), -1) if old is None else recoded(before.read_all(), old, names)
    return np.concatenate([known, y]), True, names


def widened(survey: list[dict[str, Any]], more: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return records (JSON) with the ranges and missing cells of more rows, where these are known by name."""
    added = {record["name"]: record for record in more}
    return [record | {name: join(record[name], added[record["name"]][name])
                      for name, join in (("min", min), ("max", max), ("missing", int.__add__))
                      if record[name] is not None and added[record["name"]][name] is not None}
            if record["name"] in added else record for record in survey]

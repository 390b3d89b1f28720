"""The stage of the data set: the source, read into parts."""

import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ..base.errors import DataError, sentences
from ..data.append import joined_labels, widened
from ..data.dataset import Dataset, chunk_rows
from ..data.findings import dataset_notes
from ..data.ingest import ingest
from ..data.ingest_params import IngestParams
from ..data.readers.file_rows import FileRows
from ..data.source_files import Source, fingerprint
from ..data.source_reader import CHECKED_SECONDS, ingest_cost, open_source, scan_source
from ..execution.cost import Cost, block_count, cost_of
from ..graph.equal_rows import hash_rows
from ..methods.plan_inputs import Growing, PlanInputs
from ..methods.step import Context, Made
from ..report.sections.data import columns_section
from ..storage.artifacts import Artifact, Workspace
from ..storage.blocks import PartWriter, Receipt, Rows, row_ranges, rows_that_fit, write_dense
from ..storage.manifests import PUBLISHED
from ..storage.views import BlockedCsrRows, JoinedRows
from .growth import CannotGrow, Growth
from .spec import Spec
from .stage import Stage
from .validation import ingest_params

ROWS_HELD = 3  # of a row, that are held while it is copied: as it is read and written, and compressed
BEFORE = "the rows of the last run"  # what messages call them, beside a new file
HASHED_ROWS = 1 << 16  # of a block


def make_dataset(context: Context, params: IngestParams) -> dict[str, Any]:
    """Read the source into parts; where it grows, only the new files, beside a copy of the rows that were read."""
    source = context.files["source"].source
    dataset = ingest(source, context.parts, context.execution, params) if context.base is None else \
        _grown(context, params, context.base, source)
    names = [name for name in ("X", "y", "split") if getattr(dataset, name) is not None]
    attributes = {name: value for name, value in dataset.attributes.items() if name != "source"}
    # Where the files lie is not what the address follows from.
    attributes["files"] = [{name: file[name] for name in ("digest", "rows")} for file in attributes["files"]]
    described = dataset.X.describe() if isinstance(dataset.X, BlockedCsrRows) else None
    return {"arrays": names, "n": len(dataset), "d": dataset.X.shape[1], "X": described, "dataset": attributes,
            **({} if context.base is None else {"n_base": context.base.attributes["n"]})}


def _grown(context: Context, params: IngestParams, base: Artifact, source: Source) -> Dataset:
    """Return the rows of the base with those of the new files, written to the parts of the context."""
    assert context.new is not None
    before, parts = _before(base), context.parts
    segment = parts.within("new")
    added = ingest(context.new, segment, context.execution, params, like=before)
    if added.attributes.get("unseen"):
        columns = ", ".join(map(repr, added.attributes["unseen"]))
        raise CannotGrow(f"{context.new.name} has texts in the column {columns} that the old files do not have")
    try:
        y, label_names = joined_labels(before, added)
    except DataError as error:
        raise CannotGrow(sentences(str(error))[0]) from error
    X = JoinedRows([before.X, added.X])
    height = grown_height(len(X), X.row_bytes, context.execution.memory_budget)
    arrays: dict[str, Rows] = {"X": X}
    if before.split is not None and added.split is not None:
        arrays["split"] = JoinedRows([before.split, added.split])
    for name, rows in arrays.items():
        parts.allocate(name, rows.shape, rows.dtype, height)
    context.execution.map([CopyTask(arrays, start, stop) for start, stop in row_ranges(len(X), height)], parts)
    if y is not None:
        write_dense(y, parts, "y", height)
    segment.remove()
    known = before.attributes
    attributes = {**known, "label_names": label_names, "fingerprint": fingerprint(source), "source": source.name,
                  "files": [*known["files"], *added.attributes["files"]]}
    if "survey" in known:
        attributes["survey"] = widened(known["survey"], added.attributes.get("survey", []))
    if "imputed" in known:
        attributes["imputed"] = known["imputed"] + added.attributes["imputed"]
    return Dataset(parts.rows("X"), None if y is None else parts.rows("y"),
                   parts.rows("split") if "split" in arrays else None, attributes)


@dataclass(frozen=True)
class CopyTask:
    """Write rows [start, stop) of arrays to the shared arrays of their names."""

    arrays: Mapping[str, Rows]
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        return out.write_rows(self.start, **{name: rows.read(self.start, self.stop)
                                             for name, rows in self.arrays.items()})


def grown_height(n: int, row_bytes: int, budget: int) -> int:
    """Return the rows of a chunk of a data set that has grown; a task holds them twice, and as they are stored."""
    return min(chunk_rows(n, row_bytes), rows_that_fit(budget, ROWS_HELD * row_bytes, n))


def stored_dataset(artifact: Made) -> Dataset:
    """Return the data set that an artifact of the stage holds."""
    attributes, parts = artifact.attributes, artifact.parts
    described = attributes["X"]  # of sparse rows, which are no shared array
    arrays: dict[str, Rows] = {name: parts.rows(name) for name in attributes["arrays"]
                               if name != "X" or described is None}
    if described is not None:
        arrays["X"] = BlockedCsrRows.of(parts, described)
    return Dataset(arrays["X"], arrays.get("y"), arrays.get("split"), attributes["dataset"])


def _before(base: Artifact) -> Dataset:
    """Return the rows of the last run, to which others are added."""
    dataset = stored_dataset(base)
    return replace(dataset, attributes={**dataset.attributes, "source": BEFORE})


def dataset_of(context: Context) -> Dataset:
    """Return the data set as it was read."""
    return stored_dataset(context.inputs["dataset"])


def growing_of(bases: Mapping[str, Artifact], new: Source, spec: Spec, budget: int, *, scans: bool) -> Growing:
    """Return what is known of what grows.

    bases : the artifacts that stages grow from. new : the files that are added. scans : whether they are read.

    Raises DataError: the new files have other columns, or cells that are none. CannotGrow: the rows are sparse.
    """
    known = {name: artifact.attributes for name, artifact in bases.items()}
    if known["dataset"]["X"] is not None:
        raise CannotGrow("rows that are mostly zeros are stored by their entries, to which none are added")
    if not scans:
        return Growing(known)
    before = _before(bases["dataset"])
    with tempfile.TemporaryDirectory(prefix="dssl-") as folder:
        added = scan_source(new, spec.read, Path(folder), budget, before)
    return Growing(known, added, replace(added, n_rows=len(before) + added.n_rows, n_columns=before.X.shape[1], keys=(),
                                         text=()))


def identifier_of(attributes: Mapping[str, Any]) -> str | None:
    """Return the column that names the rows of a table and is no feature, None where there is none.

    attributes : of the stage `dataset`.
    """
    return next((record["name"] for record in attributes["dataset"].get("survey", ())
                 if record["finding"] == "identifier" and not record["used"]), None)


def rows_called(context: Context, rows: Sequence[int]) -> list[str]:
    """Return what rows are called beside their numbers, by line, file and identifier; nothing where it is no table.

    context : of a stage that reads the source too.
    """
    attributes = context.attributes("dataset")
    read = ingest_params({name: value for name, value in attributes["dataset"]["params"].items() if name != "type"},
                         "the options of the source")
    with table_of(context, read) as opened:
        return [] if opened is None else opened.called(rows, identifier_of(attributes))


@contextmanager
def rows_in_files(source: Source, read: IngestParams, attributes: Mapping[str, Any]) -> Iterator[FileRows | None]:
    """Give the rows of a source as they stand in its files; None where it is no table.

    read : how the source was read. attributes : of the stage `dataset`.
    """
    with tempfile.TemporaryDirectory(prefix="dssl-") as scratch:
        yield FileRows.of(open_source(source, read, scratch=Path(scratch)), attributes["n"])


def table_of(context: Context, read: IngestParams) -> AbstractContextManager[FileRows | None]:
    """Give the rows of the source of a stage as they stand in its files; None where it is no table."""
    return rows_in_files(context.files["source"].source, read, context.attributes("dataset"))


def cells_of(context: Context, read: IngestParams,
             columns: Sequence[str]) -> Iterator[tuple[int, list[list[str]], FileRows]]:
    """Yield the first row, the cells of each of some columns, and the table, rows after rows of a source.

    The source is a table: others are refused where columns are named.
    """
    begin = 0
    with table_of(context, read) as table:
        assert table is not None
        for block in table.blocks(columns):
            yield begin, block.cells, table
            begin += len(block.files)


def _dataset_cost(f: PlanInputs, spec: Spec) -> Cost:
    assert f.scan is not None
    if f.growing and f.growing.added:
        new = ingest_cost(f.growing.added, f.read, f.row_bytes, f.budget)
        height, whole = grown_height(f.n_rows, f.row_bytes, f.budget), f.n_rows * f.row_bytes
        return new + cost_of(block_count(f.n_rows, height), whole, whole, ROWS_HELD * height * f.row_bytes,
                             ROWS_HELD * f.row_bytes, whole * CHECKED_SECONDS)
    return ingest_cost(f.scan, f.read, f.row_bytes, f.budget)


DATASET = Stage("dataset", 13, (), lambda spec: spec.read, make_dataset, _dataset_cost,
                "read fewer columns (data.read.drop)", files=("source",), intermediate=True, section=columns_section,
                notes=lambda attributes: dataset_notes(attributes["dataset"]), grows=True)


def changed_rows(growth: Growth, workspace: Workspace, artifact: Artifact) -> str:
    """Return what became of the rows of files that changed or vanished, in words; nothing where that is not known.

    artifact : with all rows, in the order of the files that were found.
    """
    last, changes = growth.last, growth.changes
    if last is None or changes is None:
        return ""
    old = {*(record for record, _ in changes.changed), *changes.vanished}
    address = last.graphs[0][1]["dataset"]
    if not old or not artifact.exists or not (workspace.folder_of("dataset", address) / PUBLISHED).is_file():
        return ""
    before, now = stored_dataset(workspace.artifact_in("dataset", address)), stored_dataset(artifact)
    if before.X.shape[1:] != now.X.shape[1:] or before.feature_names != now.feature_names:
        return "their columns are not those that they had"
    hashes_before = _hashes(before, [number for number, record in enumerate(last.files) if record in old])
    hashes_now = _hashes(now, changes.new)
    same = _common(hashes_before, hashes_now)
    n_before = len(hashes_before)
    return (f"rows of these files: {n_before:,} before, of which {same:,} are unchanged; new or changed in changed and "
            f"new files: {len(hashes_now) - same:,}")


def repeated_names(growth: Growth, source: Source, read: IngestParams, attributes: Mapping[str, Any]) -> str:
    """Return in words how many added rows have the identifier of another row; nothing where none has.

    source, read : with all rows, the added ones last, and how it was read. attributes : of the stage `dataset`.
    """
    identifier = identifier_of(attributes)
    if not growth.grows or growth.last is None or identifier is None:
        return ""
    numbers, hashes, begin = [np.empty(0, np.int64)], [np.empty(0, np.int64)], 0
    with rows_in_files(source, read, attributes) as rows:
        if rows is None or not rows.has(identifier):
            return ""
        for (cells,) in (block.cells for block in rows.blocks([identifier])):
            known = np.flatnonzero(~rows.missing(cells))
            numbers.append(begin + known)
            hashes.append(np.fromiter((hash(cells[row]) for row in known.tolist()), np.int64))
            begin += len(cells)
    is_new = np.concatenate(numbers) >= growth.last.n_rows
    first = np.unique(np.concatenate(hashes), return_index=True)[1]
    count = int(is_new.sum() - is_new[first].sum())
    return "" if not count else (
        f"new rows with the {identifier} of another row: {count:,}; points that are the same count twice, and labels "
        f"that name rows by {identifier} are refused for these")


def _common(one: np.ndarray, other: np.ndarray) -> int:
    """Return how many hashes two arrays have in common, each as often as in the one that has it less often."""
    (values, counts), (others, theirs) = (np.unique(each, return_counts=True) for each in (one, other))
    _, i, j = np.intersect1d(values, others, assume_unique=True, return_indices=True)
    return int(np.minimum(counts[i], theirs[j]).sum())


def _hashes(dataset: Dataset, files: Iterable[int]) -> np.ndarray:
    """Return a hash of each row of some files, by their numbers."""
    starts = np.cumsum([0, *(file["rows"] for file in dataset.attributes["files"])])
    names, label_hashes = dataset.attributes.get("label_names"), [np.empty(0, np.uint64)]
    of_names = None if names is None else pd.util.hash_array(np.array([*names, ""], object))
    for file in files:
        for start in range(starts[file], starts[file + 1], HASHED_ROWS):
            stop = min(start + HASHED_ROWS, starts[file + 1])
            hashes = hash_rows(dataset.X.read(start, stop))
            if dataset.y is not None:
                y = dataset.y.read(start, stop)
                hashes = hashes ^ (pd.util.hash_array(y.astype(np.float64)) if of_names is None else of_names[y])
            label_hashes.append(hashes)
    return np.concatenate(label_hashes)

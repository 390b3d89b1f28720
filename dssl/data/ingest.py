"""From a file to a data set: rows in parallel blocks, checked, into shared arrays.

Block step: read rows, check them, write X and split, keep the target of the block. Combine step: one type for the
target, and the names of its classes over all blocks. Finish step: write the target in that type.
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..blocks import Parts, PartWriter, Receipt, row_ranges, rows_that_fit
from ..errors import BudgetError, DataError, IntegrityError, ParameterError, explain, require
from ..execution import Execution, Progress
from ..params import digest, plain
from .dataset import MANIFEST, Dataset, chunk_rows, not_finite, refuse_not_finite
from .readers import Reader, Scan, format_of, open_reader
from .readers.base import text_of
from .readers.joined import JoinedReader
from .sources import Source, find_source, fingerprint
from .store import StoredParts

OWN_FOLDERS = ("receipts", "parts", "shared")  # of StoredParts, in the order of their removal
MOST_NAMES = 1 << 16  # classes of a text target; a column with more is an identifier
READER_OPTIONS = ("target", "split", "header", "delimiter", "decimal", "encoding", "missing", "drop", "n_columns",
                  "zero_based")


@dataclass(frozen=True, kw_only=True)
class IngestParams:
    """How a file is read. An option left at None takes the format's default; one it does not have is refused.

    format : npz, npy, svmlight, csv, parquet, idx, zarr or dssl; unset: told by the ending.
    target : column (csv, parquet: name or number) or member (npz, zarr) of the labels; "none" for no target.
    dtype : of X. block_rows : rows of one block; unset: about 32 MB of X, less if the memory budget asks for it.
    labels : second file with the labels (npy, idx). split : member (npz) that is 0 for training and 1 for test.
    header, delimiter, decimal, encoding, missing : of delimited text, see `CsvReader`. drop : of it and of parquet.
    n_columns, zero_based : of svmlight text, see `SvmlightReader`.
    """

    format: str | None = None
    target: str | int | None = None
    dtype: Literal["float32", "float64"] = "float32"
    block_rows: int | None = None
    labels: str | None = None
    split: str | None = None
    header: bool | None = None
    delimiter: str | None = None
    decimal: str | None = None
    encoding: str | None = None
    missing: str | tuple[str, ...] | None = None
    drop: tuple[str | int, ...] | None = None
    n_columns: int | None = None
    zero_based: bool | None = None

    def __post_init__(self) -> None:
        require(self.dtype in ("float32", "float64"), f"dtype={self.dtype!r}", why="X is stored as floats",
                fix="use float32, or float64 where 7 digits are too few")
        for name in ("block_rows", "n_columns"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name}={value}", why="there is at least one", fix="leave it unset")


@dataclass(frozen=True)
class IngestTask:
    """Read one block of rows; write X and split to the shared arrays, and the target to the block's own part."""

    reader: Reader
    start: int
    stop: int
    dtype: str
    key: str  # of the whole ingest, so that parts of another are not taken for its own

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.reader.read(self.start, self.stop, np.dtype(self.dtype))
        count, first = not_finite(block.X)
        receipt: Receipt = {"ingest": self.key, "not_finite": count}
        if first is not None:
            row, column, value = first
            return receipt | {"first": [self.start + row, column, value]}
        shared = {"X": block.X} if block.split is None else {"X": block.X, "split": block.split}
        receipt |= out.write_rows(self.start, **shared)
        if block.y is not None:
            y, names = code_text(block.y)
            out.write(y=y)
            receipt |= {"target": "text" if names is not None else str(y.dtype), "names": names or []}
            receipt["infinite"] = [self.start + int(row) for row in np.flatnonzero(np.isinf(y))[:1]]
        return receipt


def code_text(y: np.ndarray) -> tuple[np.ndarray, list[str] | None]:
    """Return text labels as codes of their names in ascending order, -1 where missing; numbers as they are."""
    if y.dtype != object:
        return y, None
    known = np.array([label is not None for label in y], bool)
    names, inverse = np.unique(y[known].astype(str), return_inverse=True)
    codes = np.full(len(y), -1, np.int64)
    codes[known] = inverse
    return codes, names.tolist()


def ingest(source: str | Path | Sequence[str | Path] | Source, parts: Parts, execution: Execution,
           params: IngestParams | None = None, *, scratch: str | Path | None = None, progress: Progress | None = None,
           like: Dataset | None = None, **options: Any) -> Dataset:
    """Read a file, URL or named data set, or several files of one format, into `parts`; return it as a Dataset.

    Parameters
    ----------
    params : how to read; or give its fields as `options`.
    scratch : folder for what compressed files hold, seen by every worker; unset: in the folder of the parts, or
        where temporary files go if the parts are in memory. It is emptied again.
    like : a data set that the rows will be added to: columns are taken in its order, labels as text if its are, and
        a target and a split must be in both or in neither.

    A task needs `task_bytes` a row. The counting pass over text runs once, here.

    Raises
    ------
    DataError : the file cannot be used; the message names it, the place and the remedy, and no data set exists.
    BudgetError : one row does not fit the memory budget.
    """
    params = replace(params, **options) if params else IngestParams(**options)
    if not isinstance(source, Source):
        source = find_source(source, labels=params.labels, format=params.format)
    key = digest({"params": params, "bytes": (bytes_digest := fingerprint(source))})
    given = {name: value for name in READER_OPTIONS if (value := getattr(params, name)) is not None}
    with _scratch(scratch, parts) as folder:
        reader = open_source(source, params.format, scratch=folder, like=like, **given)
        scan = reader.scan()
        if like is not None:
            _require_alike(like, scan, source.name)
        height = block_height(scan, params, execution.memory_budget)
        _clear_other_parts(parts, key)
        parts.allocate("X", (scan.n_rows, scan.n_columns), params.dtype, height)
        if scan.has_split:
            parts.allocate("split", (scan.n_rows,), np.uint8, height)
        ranges = row_ranges(scan.n_rows, height)
        tasks = [IngestTask(reader.narrow(start, stop), start, stop, params.dtype, key) for start, stop in ranges]
        receipts = execution.map(tasks, parts, progress)
        _refuse_bad_values(source.name, receipts, scan)
        names = None
        if scan.target is not None:
            names = write_target(parts, reader, ranges, receipts, scan, height,
                                 as_text=like is not None and like.attributes.get("label_names") is not None)
    attributes = {
        "source": source.name, "fingerprint": bytes_digest, "format": format_of(source.path, params.format),
        "params": plain(params), "target": scan.target, "label_names": names,
        "feature_names": list(scan.feature_names) if scan.feature_names else None,
    }
    return Dataset(parts.rows("X"), parts.rows("y") if scan.target is not None else None,
                   parts.rows("split") if scan.has_split else None, attributes)


def open_source(source: Source, format: str | None = None, *, scratch: Path, like: Dataset | None = None,
                **options: Any) -> Reader:
    """Return the reader of a source: of one file, or of several as one; see `open_reader`.

    Raises
    ------
    DataError : as `open_reader`; or two of the files have different formats.
    """
    formats = [format_of(file.path, format) for file in source.files]
    for file, found in zip(source.files, formats, strict=True):
        require(found == formats[0], f"{file.name} is {found}, {source.files[0].path} is {formats[0]}",
                why="several files are read as one where they have one format", error=DataError,
                fix="name files of one format; add the others with `dssl ingest --append`")
    readers = [open_reader(file.path, format, scratch=scratch, labels=file.labels, **options) for file in source.files]
    if like is not None:
        return JoinedReader(readers, like.feature_names, str(like.attributes.get("source") or "the data set"))
    return readers[0] if len(readers) == 1 else JoinedReader(readers)


def _require_alike(like: Dataset, scan: Scan, name: str) -> None:
    """Raise DataError unless the source of more rows has labels, a split and as many columns as the data set."""
    for what, there, here, fix in (
            ("target", like.y is not None, scan.target is not None, "name it, or none, with `target:`"),
            ("split", like.split is not None, scan.has_split, "give both a split, or neither")):
        require(there == here, f"{name} has {'a' if here else 'no'} {what}, {like.attributes['source']} has "
                f"{'one' if there else 'none'}", why="rows of one data set have the same arrays", fix=fix,
                error=DataError)
    width = like.X.shape[1]
    require(scan.n_columns == width, f"{name} has {scan.n_columns} features, {like.attributes['source']} has {width}",
            why="rows of one data set have the same columns", fix="write the file with the same columns",
            error=DataError)


def task_bytes(scan: Scan, itemsize: int) -> int:
    """Return the bytes that a task needs for each of its rows: the file's own, float64 twice, X, and X compressed."""
    return scan.row_bytes + 2 * 8 * scan.n_columns + 2 * itemsize * scan.n_columns + 64


def block_height(scan: Scan, params: IngestParams, memory_budget: int) -> int:
    """Return the rows of a block, which is a chunk of the stored arrays.

    Raises
    ------
    BudgetError : the blocks asked for, or a single row, do not fit the memory budget.
    """
    itemsize = np.dtype(params.dtype).itemsize
    require(scan.unit_bytes < memory_budget, f"the largest row group or chunk of the file needs {scan.unit_bytes:,} "
            f"bytes, the memory budget is {memory_budget:,} bytes", why="it is read whole for any row in it",
            fix="raise memory_budget, or write the file in smaller row groups or chunks", error=BudgetError)
    fit = rows_that_fit(memory_budget, task_bytes(scan, itemsize), scan.n_rows, fixed_bytes=scan.unit_bytes)
    if params.block_rows is None:
        return min(fit, chunk_rows(scan.n_rows, itemsize * scan.n_columns))
    height = min(params.block_rows, scan.n_rows)
    if height > fit:
        raise BudgetError(explain(
            f"blocks of {height:,} rows need {scan.unit_bytes + height * task_bytes(scan, itemsize):,} bytes each, the "
            f"memory budget is {memory_budget:,} bytes", why="a task holds its whole block in memory",
            fix=f"set block_rows to {fit:,} or fewer, leave it unset, or raise memory_budget",
        ))
    return height


def write_target(parts: Parts, reader: Reader, ranges: list[tuple[int, int]], receipts: list[Receipt], scan: Scan,
                 height: int, *, as_text: bool = False) -> list[str] | None:
    """Write y in the one type that fits all blocks; return the names of its codes, or None if they are numbers.

    Text in one block makes it text in all, as `as_text` does: a block that could be read as numbers is read again as
    text. Integers that have names already stay as they are.
    """
    kinds = {receipt["target"] for receipt in receipts} | ({"text"} if as_text and not scan.label_names else set())
    dtype: np.dtype = np.dtype(np.float64 if "float64" in kinds and "text" not in kinds else np.int64)
    names: list[str] | None = None
    coded = [receipt["names"] for receipt in receipts]
    again: dict[int, np.ndarray] = {}
    if "text" in kinds:
        for index, (start, stop) in enumerate(ranges):
            if receipts[index]["target"] != "text":
                text = reader.read(start, stop, text_target=True).y
                assert text is not None
                again[index], coded[index] = code_text(text_of(text))
        names = sorted({name for block in coded for name in block or []})
        require(len(names) <= MOST_NAMES, f"the target {scan.target!r} has {len(names):,} different texts, for example "
                f"{', '.join(map(repr, names[:3]))}", why="it names rows, not classes", error=DataError,
                fix="name another column with `target:`")
    code_of = {name: code for code, name in enumerate(names or [])}
    parts.allocate("y", (scan.n_rows,), dtype, height)
    named = scan.label_names is not None and dtype == np.int64
    for index, (start, _) in enumerate(ranges):
        y = again[index] if index in again else parts.read(index)["y"]
        if names is not None:
            y = np.array([*(code_of[name] for name in coded[index] or []), -1], np.int64)[y]
        parts.write_rows(start, {"y": y.astype(dtype, copy=False)})
        named = named and int(y.min()) >= -1 and int(y.max()) < len(scan.label_names or ())
    return list(scan.label_names) if named and scan.label_names else names


def _refuse_bad_values(name: str, receipts: list[Receipt], scan: Scan) -> None:
    count = sum(receipt["not_finite"] for receipt in receipts)
    if count:
        row, column, value = next(receipt["first"] for receipt in receipts if receipt["not_finite"])
        raise refuse_not_finite(name, count, (row, column, value), scan.feature_names)
    infinite = [row for receipt in receipts for row in receipt.get("infinite", [])]
    require(not infinite, f"the target of {name} is infinite in row {infinite[:1]}, counted from 0", error=DataError,
            why="no model can fit it", fix="drop these rows, or leave the target empty to mark them unlabeled")


def _clear_other_parts(parts: Parts, key: str) -> None:
    """Remove what an ingest of other bytes or parameters left unfinished; refuse to touch a finished data set."""
    others = [index for index, receipt in parts.receipts().items() if receipt.get("ingest") != key]
    if not others:
        return
    require(_unfinished(parts), f"{parts!r} holds parts of something else", error=IntegrityError,
            why="its rows would be mixed with those of this file", fix="delete the folder, or name another one")
    assert isinstance(parts, StoredParts)
    _remove(parts)


def _unfinished(parts: Parts) -> bool:
    """Return whether the parts are those of an ingest that did not end."""
    receipts = parts.receipts().values()
    return (isinstance(parts, StoredParts) and not (parts.folder / MANIFEST).exists() and bool(receipts)
            and all("ingest" in receipt for receipt in receipts))


def _remove(parts: StoredParts) -> None:
    """Delete what an ingest wrote, and the folder if nothing else is in it."""
    for name in OWN_FOLDERS:
        shutil.rmtree(parts.folder / name, ignore_errors=True)
    if parts.folder.is_dir() and not any(parts.folder.iterdir()):
        parts.folder.rmdir()


@contextmanager
def _scratch(folder: str | Path | None, parts: Parts) -> Iterator[Path]:
    """Yield a new folder for unpacked files that is gone afterwards, and with it a folder of parts left empty.

    Data that are refused leave no parts either: the same bytes would be refused again, so none is worth going on with.
    """
    empty = isinstance(parts, StoredParts) and not any((parts.folder / name).exists() for name in OWN_FOLDERS)
    own = parts.folder / "unpacked" if folder is None and isinstance(parts, StoredParts) else None
    if own:
        shutil.rmtree(own, ignore_errors=True)  # a killed ingest leaves it
        folder = own
    if folder is not None:
        Path(folder).mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(prefix="dssl-", dir=folder) as made:
            yield Path(made)
    except (DataError, ParameterError):
        if isinstance(parts, StoredParts) and (empty or _unfinished(parts)):
            _remove(parts)
        raise
    finally:
        if own:
            shutil.rmtree(own, ignore_errors=True)
            if not any(own.parent.iterdir()):
                own.parent.rmdir()

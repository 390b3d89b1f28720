"""From a file to a data set: rows in parallel blocks, checked, into shared arrays.

Block step: read rows, check them, write X and split, keep the target of the block. Combine step: one type for the
target, and the names of its classes over all blocks. Finish step: write the target in that type. Where missing cells
or text are to become numbers, a pass before it finds out how (`survey`).
"""

import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import numpy as np

from ..errors import BudgetError, DataError, IntegrityError, ParameterError, explain, require
from ..execution.in_process import InProcess
from ..execution.tasks import Execution, Progress
from ..params import digest, plain
from ..storage.blocks import MemoryParts, Parts, Receipt, Rows, row_ranges, rows_that_fit
from ..storage.csr import BlockedCsrRows, csr_row_bytes
from ..storage.foreign_zarr import is_zarr
from ..storage.store import StoredParts
from .columns import Columns, WhenMissing, WhenText, some_texts
from .dataset import MANIFEST, Dataset, chunk_rows, keeps_sparse, open_stored, refuse_not_finite
from .narrowing import refuse_lost_columns
from .readers import Reader, Scan, format_of, open_reader
from .readers.base import text_of
from .readers.joined import JoinedReader
from .readers.stored import StoredReader
from .readers.svmlight import SvmlightReader
from .reading import IngestTask, Reading, code_text, survey_file
from .sources import Source, find_source, fingerprint

OWN_FOLDERS = ("receipts", "parts", "shared", "within")  # of StoredParts, in the order of their removal
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
    when_missing : "error", or "impute": a missing number becomes the mean of its column over the rows that have it,
        a missing text a category of its own. when_text : "error", or "one_hot": a column of text becomes one 0/1
        column a text (csv). Either takes a second pass over the file; the choice is recorded in the attributes.
    sparse : whether X is stored as CSR; unset: where the file stores it so (svmlight, CSR in npz), has 1,000 columns
        or more, and stores at most a tenth of the entries.
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
    when_missing: WhenMissing = "error"
    when_text: WhenText = "error"
    sparse: bool | None = None

    def __post_init__(self) -> None:
        require(self.dtype in ("float32", "float64"), f"dtype={self.dtype!r}", why="X is stored as floats",
                fix="use float32, or float64 where 7 digits are too few")
        for name, known in (("when_missing", ("error", "impute")), ("when_text", ("error", "one_hot"))):
            require(getattr(self, name) in known, f"{name}={getattr(self, name)!r}", why="dssl knows no such choice",
                    fix=f"use {' or '.join(known)}")
        for name in ("block_rows", "n_columns"):
            value = getattr(self, name)
            require(value is None or value >= 1, f"{name}={value}", why="there is at least one", fix="leave it unset")

    def reader_options(self) -> dict[str, Any]:
        """Return the options of the reader that are set."""
        return {name: value for name in READER_OPTIONS if (value := getattr(self, name)) is not None}


def ingest(source: str | Path | Sequence[str | Path] | Source, parts: Parts, execution: Execution,
           params: IngestParams | None = None, *, scratch: str | Path | None = None, progress: Progress | None = None,
           like: Dataset | None = None, columns: Columns | None = None, **options: Any) -> Dataset:
    """Read a file, URL or named data set, or several files of one format, into `parts`; return it as a Dataset.

    Parameters
    ----------
    params : how to read; or give its fields as `options`.
    scratch : folder for what compressed files hold, seen by every worker; unset: in the folder of the parts, or
        where temporary files go if the parts are in memory. It is emptied again.
    like : a data set that the rows will be added to: columns are taken in its order, labels as text if its are, and
        a target and a split must be in both or in neither.
    columns : what becomes of the columns, as another file decided it; unset: as `params` says.

    A task needs `task_bytes` a row. The counting pass over text runs once, here.

    Raises
    ------
    DataError : the file cannot be used; the message names it, the place and the remedy, and no data set exists.
    BudgetError : one row does not fit the memory budget.
    """
    params = replace(params, **options) if params else IngestParams(**options)
    if not isinstance(source, Source):
        source = find_source(source, labels=params.labels, format=params.format)
    if like is not None:
        columns = columns or Columns.of(like.attributes)
        params = replace(params, sparse=False)
    described = columns.describe() if columns else None
    key = digest({"params": params, "bytes": (bytes_digest := fingerprint(source)),
                  **({"columns": described} if described else {})})
    given = params.reader_options()
    text = params.when_text != "error"
    if text:
        given["when_text"] = params.when_text
    with _scratch(scratch, parts) as folder:
        reader = open_source(source, params.format, scratch=folder, like=like, columns=columns, **given)
        scan = reader.scan()
        if like is not None:
            _require_alike(like, columns, params, scan, source.name)
        _clear_other_parts(parts, key)
        if columns is None and (text or params.when_missing != "error"):
            height = block_height(scan, params, execution.memory_budget, text=text, is_sparse=scan.nnz is not None)
            columns = survey_file(reader, scan, row_ranges(scan.n_rows, height), source.name, execution,
                                  parts.within("surveys").within(key[:16]), progress, text=text,
                                  impute=params.when_missing == "impute")
        is_sparse = keeps_sparse(params.sparse, scan.nnz, (scan.n_rows, scan.n_columns))
        reading = Reading(params.dtype, text, is_sparse)
        names = list(scan.feature_names) if scan.feature_names else None
        if columns is not None:
            order = columns.order(names, scan.n_columns, source.name)
            reading = replace(reading, columns=columns.rounded(params.dtype), order=order)
            names = columns.feature_names()
        width = columns.width if columns else scan.n_columns
        height = block_height(scan, params, execution.memory_budget, width, text=text, is_sparse=is_sparse)
        if not is_sparse:
            parts.allocate("X", (scan.n_rows, width), params.dtype, height)
        if scan.has_split:
            parts.allocate("split", (scan.n_rows,), np.uint8, height)
        ranges = row_ranges(scan.n_rows, height)
        tasks = [IngestTask(reader.narrow(start, stop), start, stop, reading, key) for start, stop in ranges]
        receipts = execution.map(tasks, parts, progress)
        _refuse_bad_values(source.name, receipts, names)
        _refuse_lost_columns(source.name, receipts, parts, names)
        label_names = None
        if scan.target is not None:
            label_names = write_target(parts, reader, reading, ranges, receipts, scan, height,
                                       as_text=like is not None and like.attributes.get("label_names") is not None)
    attributes = {
        "source": source.name, "fingerprint": bytes_digest, "format": format_of(source.path, params.format),
        "params": plain(params), "target": scan.target, "label_names": label_names, "feature_names": names,
    }
    if isinstance(reader, StoredReader):
        kept = reader.dataset.attributes
        attributes |= {name: kept[name] for name in ("when_missing", "columns") if name in kept}
    if isinstance(reader, SvmlightReader):
        attributes["zero_based"] = reader.zero_based
    if columns is not None:
        attributes |= columns.describe() | {"imputed": sum(receipt["imputed"] for receipt in receipts),
                                            "unseen": _unseen(receipts, columns)}
        _remove_surveys(parts)
    X: Rows
    if is_sparse:
        X = BlockedCsrRows(parts, (scan.n_rows, width), np.dtype(params.dtype), height,
                           sum(receipt["nnz"] for receipt in receipts))
        attributes["sparse"] = True
    else:
        X = parts.rows("X")
    return Dataset(X, parts.rows("y") if scan.target is not None else None,
                   parts.rows("split") if scan.has_split else None, attributes)


def open_dataset(source: str | Path | Sequence[str | Path], **options: Any) -> Dataset:
    """Return a data set: a folder that dssl wrote as it is stored, anything else read into memory.

    Parameters
    ----------
    source : a folder, a file, a pattern of files, a URL, or a name, or a list of them; see `find_source`.
    options : see `IngestParams`.

    Raises
    ------
    DataError : the source is nowhere, or cannot be read.
    """
    folder = Path(source) if isinstance(source, (str, Path)) else None
    if folder is not None and ((folder / MANIFEST).is_file() or (folder.is_dir() and len(folder.parts) > 1
                                                                  and not is_zarr(folder))):
        return open_stored(folder)
    return ingest(source, MemoryParts(), InProcess(), **options)


def open_source(source: Source, format: str | None = None, *, scratch: Path, like: Dataset | None = None,
                columns: Columns | None = None, **options: Any) -> Reader:
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
        names = columns.names if columns else like.feature_names
        return JoinedReader(readers, names, str(like.attributes.get("source") or "the data set"))
    return readers[0] if len(readers) == 1 else JoinedReader(readers)


def _require_alike(like: Dataset, columns: Columns | None, params: IngestParams, scan: Scan, name: str) -> None:
    """Raise DataError unless the source of more rows has labels, a split and as many columns as the data set."""
    for what, there, here, fix in (
            ("target", like.y is not None, scan.target is not None, "name it, or none, with `target:`"),
            ("split", like.split is not None, scan.has_split, "give both a split, or neither")):
        require(there == here, f"{name} has {'a' if here else 'no'} {what}, {like.attributes['source']} has "
                f"{'one' if there else 'none'}", why="rows of one data set have the same arrays", fix=fix,
                error=DataError)
    width = columns.n_columns if columns else like.X.shape[1]
    require(columns is not None or params.when_text == params.when_missing == "error", f"{name} has choices of "
            f"its own, when_missing={params.when_missing!r} and when_text={params.when_text!r}", error=DataError,
            why="fills and levels are made of all rows, and those of the data set were not read so",
            fix="leave them out, or ingest all files at once")
    require(scan.n_columns == width, f"{name} has {scan.n_columns} features, {like.attributes['source']} has {width}",
            why="rows of one data set have the same columns", fix="write the file with the same columns",
            error=DataError)


def task_bytes(scan: Scan, itemsize: int, width: int | None = None, *, text: bool = False,
               is_sparse: bool = False) -> int:
    """Return the bytes that a task needs for each of its rows: the file's own, float64 twice, X, and X compressed.

    X has `width` columns, as many as the file unless text became columns. A sparse X of a sparse file takes what the
    stored entries of a row take on average, each with its column number. A cell that may be `text` takes 64 bytes more.
    """
    width = scan.n_columns if width is None else width
    if is_sparse and scan.nnz is not None:
        entries = -(-scan.nnz // scan.n_rows)
        return scan.row_bytes + entries * (2 * (8 + 4) + 2 * (itemsize + 4)) + 64
    column_numbers = 2 * 4 * width if is_sparse else 0
    cells = 64 * scan.n_columns if text else 0
    return scan.row_bytes + 2 * 8 * width + 2 * itemsize * width + column_numbers + cells + 64


def block_height(scan: Scan, params: IngestParams, memory_budget: int, width: int | None = None, *,
                 text: bool = False, is_sparse: bool = False) -> int:
    """Return the rows of a block, which is a chunk of the stored arrays; see `task_bytes` for what a row takes.

    Raises
    ------
    BudgetError : the blocks asked for, or a single row, do not fit the memory budget.
    """
    itemsize = np.dtype(params.dtype).itemsize
    require(scan.unit_bytes < memory_budget, f"the largest row group or chunk of the file needs {scan.unit_bytes:,} "
            f"bytes, the memory budget is {memory_budget:,} bytes", why="it is read whole for any row in it",
            fix="raise memory_budget, or write the file in smaller row groups or chunks", error=BudgetError)
    row_bytes = task_bytes(scan, itemsize, width, text=text, is_sparse=is_sparse)
    fit = rows_that_fit(memory_budget, row_bytes, scan.n_rows, fixed_bytes=scan.unit_bytes)
    if params.block_rows is None:
        stored = itemsize * (width or scan.n_columns)
        if is_sparse and scan.nnz is not None:
            stored = csr_row_bytes(scan.nnz, scan.n_rows, np.dtype(params.dtype))
        return min(fit, chunk_rows(scan.n_rows, stored))
    height = min(params.block_rows, scan.n_rows)
    if height > fit:
        raise BudgetError(explain(
            f"blocks of {height:,} rows need {scan.unit_bytes + height * row_bytes:,} bytes each, the memory budget is "
            f"{memory_budget:,} bytes", why="a task holds its whole block in memory",
            fix=f"set block_rows to {fit:,} or fewer, leave it unset, or raise memory_budget",
        ))
    return height


def write_target(parts: Parts, reader: Reader, reading: Reading, ranges: list[tuple[int, int]],
                 receipts: list[Receipt], scan: Scan, height: int, *, as_text: bool = False) -> list[str] | None:
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
                text = reading.read(reader, start, stop, text_target=True).y
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
        y = again[index] if index in again else parts.read(index, ("y",))["y"]
        if names is not None:
            y = np.array([*(code_of[name] for name in coded[index] or []), -1], np.int64)[y]
        parts.write_rows(start, {"y": y.astype(dtype, copy=False)})
        named = named and int(y.min()) >= -1 and int(y.max()) < len(scan.label_names or ())
    return list(scan.label_names) if named and scan.label_names else names


def _refuse_bad_values(name: str, receipts: list[Receipt], names: list[str] | None) -> None:
    count = sum(receipt["not_finite"] for receipt in receipts)
    if count:
        row, column, value = next(receipt["first"] for receipt in receipts if receipt["not_finite"])
        raise refuse_not_finite(name, count, (row, column, value), names)
    infinite = [row for receipt in receipts for row in receipt.get("infinite", [])]
    require(not infinite, f"the target of {name} is infinite in row {infinite[:1]}, counted from 0", error=DataError,
            why="no model can fit it", fix="drop these rows, or leave the target empty to mark them unlabeled")


def _refuse_lost_columns(name: str, receipts: list[Receipt], parts: Parts, names: list[str] | None) -> None:
    if all(receipt.get("narrow") for receipt in receipts):  # a column that one block clears is not lost
        refuse_lost_columns([parts.read(index, ("narrow",))["narrow"] for index in range(len(receipts))], names, name,
                            "read it in more digits, `read: {dtype: float64}`, or subtract the offset")


def _unseen(receipts: list[Receipt], columns: Columns) -> dict[str, dict[str, Any]]:
    """Return, by column, how many rows have a text that its levels do not have, and some of these texts."""
    found: dict[str, dict[str, Any]] = {}
    for receipt in receipts:
        for j, (count, texts) in receipt["unseen"].items():
            entry = found.setdefault(columns.names[int(j)] if columns.names else j, {"rows": 0, "texts": []})
            entry["rows"] += count
            entry["texts"] = some_texts([*entry["texts"], *texts])
    return found


def _remove_surveys(parts: Parts) -> None:
    """Delete what surveys wrote, this one's and those that were cut off; the attributes say what came of it."""
    if isinstance(parts, StoredParts):
        within = parts.within("surveys").folder
        shutil.rmtree(within, ignore_errors=True)
        if within.parent.is_dir() and not any(within.parent.iterdir()):
            within.parent.rmdir()


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

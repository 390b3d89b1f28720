"""Open and scan the reader of a source, report all of its wrong cells in one error, and state what reading it takes.

The cost of reading is that of its blocks: their rows, and the memory of a task.
"""

from collections.abc import Collection, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ..base.digest import digest
from ..base.errors import BudgetError, DataError, require
from ..execution.cost import Cost, block_count, cost_of
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..storage.blocks import MemoryParts, Parts, row_ranges, rows_that_fit
from ..storage.csr import csr_row_bytes
from .columns import Columns
from .dataset import Dataset, chunk_rows, keeps_sparse
from .frames import element_name
from .ingest_params import IngestParams
from .readers.base import CellError, Reader, Scan, text_is_no_label
from .readers.cells import Reading
from .readers.column_choice import find_columns
from .readers.formats import FORMATS, format_of, is_table, open_reader
from .readers.joined import JoinedReader, require_decimal
from .readers.table import TARGET
from .refused_cells import refused_cells
from .source_files import Source, fingerprint
from .sources import fetch

# Seconds measured on one core.
CHECKED_SECONDS = 1e-9  # per byte of numbers: check and convert
DECODED_SECONDS = 1e-8  # per byte of a file that is stored by columns, such as Parquet: decode
MADE_SECONDS = 5.4e-9  # per byte of synthetic numbers: generate
PARSED_SECONDS = 4e-8  # per byte of text: count and parse
EXAMINED_SECONDS = 2e-8  # per number: find the traits of its column


def open_source(source: Source, params: IngestParams | None = None, *, scratch: Path, like: Dataset | None = None,
                columns: Columns | None = None, leave_out: Collection[str] = ()) -> Reader:
    """Return the reader of a source; several files must have one format, and are read as one. See `open_reader`."""
    params = params or IngestParams()
    formats = [format_of(file.path, params.format) for file in source.files]
    for file, name in zip(source.files, formats, strict=True):
        require(name == formats[0], f"{file.name} is {name}, {source.files[0].path} is {formats[0]}",
                why="files are read as one only if they have the same format", error=DataError,
                fix="name files of one format; add the others with `dssl ingest --append`")
        fetch(file)
    takes_decimal = "decimal" in FORMATS.named(formats[0]).options
    if like is not None and like.attributes.get("decimal") and params.decimal is None and takes_decimal:
        params = with_decimal(source, params, like.attributes["decimal"], scratch)
    readers = [open_reader(file.path, params.format, scratch=scratch, labels=file.labels, **params.reader_options())
               for file in source.files]
    readers = [reader.without(leave_out) if "drop" in reader.options else reader for reader in readers]
    if columns is not None or like is not None:
        readings: dict[str | int, Reading] = columns.read_as() if columns is not None else {}
        if columns is None and like is not None:
            readings = dict.fromkeys(like.feature_names or [*range(like.X.shape[1])], Reading())
        if like is not None and like.attributes.get("target_unit"):
            readings[TARGET] = Reading("number", like.attributes["target_unit"])
        readers = [reader.fixed(readings) for reader in readers]
    if like is not None:
        names = columns.names if columns else like.feature_names
        return JoinedReader(readers, names, str(like.attributes.get("source") or "the data set"))
    return readers[0] if len(readers) == 1 else JoinedReader(readers)


def with_decimal(source: Source, params: IngestParams, mark: str, scratch: Path) -> IngestParams:
    """Return the parameters of new rows of a data set with a decimal mark; raise DataError if a file has the other."""
    options = params.reader_options()
    require_decimal([open_reader(file.path, params.format, scratch=scratch, labels=file.labels, **options)
                     for file in source.files], mark)
    return replace(params, decimal=mark)


def scan_source(source: Source, params: IngestParams, scratch: Path, budget: int, like: Dataset | None = None) -> Scan:
    """Return the scan of a source, or of the rows that it adds to the data set `like`.

    scratch : a folder for decompressed files. Raises DataError: the source cannot be used.
    """
    columns, leave_out = (None, list[str]()) if like is None else (Columns.of(like.attributes), excluded_from(like))
    try:
        return open_source(source, params, scratch=scratch, like=like, columns=columns, leave_out=leave_out).scan()
    except CellError as error:
        raise of_all_cells(error, source, params, InProcess(1, budget), MemoryParts(), scratch, like, columns,
                           leave_out) from error


def excluded_from(dataset: Dataset) -> list[str]:
    """Return the names of the columns of a table that its data set does not have."""
    return [record["name"] for record in dataset.attributes.get("survey", ()) if not record["used"]]


def of_all_cells(error: CellError, source: Source, params: IngestParams, execution: Execution, parts: Parts,
                 scratch: Path, like: Dataset | None = None, columns: Columns | None = None,
                 leave_out: Collection[str] = ()) -> DataError:
    """Return the error for all cells of a source that are not numbers; `error` reports only the first.

    The other parameters are those of `ingest`.
    """
    tables = is_table(format_of(source.path, params.format))
    lenient = replace(params, when_text="one_hot") if tables else params
    reader = open_source(source, lenient, scratch=scratch, like=like, columns=columns, leave_out=leave_out)
    refuse_odd_labels(reader)
    scan = reader.scan()
    height = block_height(scan, lenient, execution.memory_budget, is_sparse=scan.nnz is not None)
    key = digest({"cells": params, "bytes": fingerprint(source)})
    refused = refused_cells(reader, row_ranges(scan.n_rows, height), source.name, execution,
                          parts.within("surveys").within(key[:16]),
                          takes_text=params.has_text or (columns is not None and bool(columns.levels)),
                          fills=params.when_missing == "impute" if columns is None else columns.fill is not None,
                          is_new=like is not None or columns is not None, has_keys=params.keep_ids is not True)
    return refused or error


def refuse_odd_labels(reader: Reader) -> None:
    """Raise DataError if a target of numbers has cells of text."""
    if (cells := reader.scan().odd_labels).texts:
        raise text_is_no_label(reader, cells)


def require_identifiers(params: IngestParams, scan: Scan, name: str) -> None:
    """Raise DataError if `keep_ids` names a column that is no feature of the source."""
    if not isinstance(params.keep_ids, bool):
        find_columns([(column, "keep_ids") for column in params.keep_ids], scan.feature_names or (), name,
                     header=scan.feature_names is not None)


def column_names_of(source: Source, params: IngestParams, beside: Sequence[str | int], scratch: Path) -> list[str]:
    """Return the names of all columns of a source; none where its format has no names.

    beside : columns that are no features; a list of integers among them is one column.
    """
    names = open_source(source, params, scratch=scratch).column_names()
    lists = [name for name in beside if isinstance(name, str) and name not in names and element_name(name, 0) in names]
    if lists:
        params = replace(params, drop=(*(params.drop or ()), *lists))
        names = open_source(source, params, scratch=scratch).column_names()
    return list(names)


def makes_sparse(params: IngestParams, scan: Scan) -> bool:
    """Return whether X of a file with this scan is stored as CSR."""
    return keeps_sparse(params.sparse, scan.nnz, (scan.n_rows, scan.n_columns))


def task_bytes(scan: Scan, params: IngestParams, width: int | None = None, *, is_sparse: bool | None = None) -> int:
    """Return the bytes that a task needs per row: the row of the file, two copies in float64, X, and X compressed.

    X has `width` columns, by default as many as the file. A sparse X of a sparse file takes the average number of
    stored entries per row, each with its column number. A cell that may be text takes 64 bytes more.
    is_sparse : whether the rows are CSR; by default as X is stored.
    """
    width = width or scan.n_columns
    itemsize = np.dtype(params.dtype).itemsize
    is_sparse = makes_sparse(params, scan) if is_sparse is None else is_sparse
    if is_sparse and scan.nnz is not None:
        entries = -(-scan.nnz // scan.n_rows)
        return scan.row_bytes + entries * (2 * (8 + 4) + 2 * (itemsize + 4)) + 64
    column_numbers = 2 * 4 * width if is_sparse else 0
    cells = 64 * scan.n_columns if params.has_text or scan.measures or scan.odd else 0
    return scan.row_bytes + 2 * 8 * width + 2 * itemsize * width + column_numbers + cells + 64


def block_height(scan: Scan, params: IngestParams, memory_budget: int, width: int | None = None, *,
                 is_sparse: bool | None = None) -> int:
    """Return the number of rows in a block, which is a chunk of the stored arrays; see `task_bytes`."""
    require(scan.unit_bytes < memory_budget, f"the largest row group or chunk of the file needs {scan.unit_bytes:,} "
            f"bytes, the memory budget is {memory_budget:,} bytes", why="it is read whole for any of its rows",
            fix="raise memory_budget, or write the file in smaller row groups or chunks", error=BudgetError)
    is_sparse = makes_sparse(params, scan) if is_sparse is None else is_sparse
    row_bytes = task_bytes(scan, params, width, is_sparse=is_sparse)
    fit = rows_that_fit(memory_budget, row_bytes, scan.n_rows, fixed_bytes=scan.unit_bytes)
    if params.block_rows is None:
        dtype = np.dtype(params.dtype)
        stored = dtype.itemsize * (width or scan.n_columns)
        if is_sparse and scan.nnz is not None:
            stored = csr_row_bytes(scan.nnz, scan.n_rows, dtype)
        return min(fit, chunk_rows(scan.n_rows, stored))
    height = min(params.block_rows, scan.n_rows)
    require(height <= fit, f"blocks of {height:,} rows need {scan.unit_bytes + height * row_bytes:,} bytes each, the "
            f"memory budget is {memory_budget:,} bytes", why="a task holds its whole block in memory",
            fix=f"set block_rows to {fit:,} or fewer, leave it unset, or raise memory_budget", error=BudgetError)
    return height


def ingest_cost(scan: Scan, params: IngestParams, row_bytes: int, budget: int) -> Cost:
    """Return the cost of reading a source, where a row of X has `row_bytes`.

    A task holds a block of the file, X, and X compressed; text is also parsed as float64. If a survey comes first, the
    source is read twice.
    """
    passes = 1 + bool(params.encodes or scan.keys)
    height = block_height(scan, params, budget)
    max_row_bytes = task_bytes(scan, params)
    dense = scan.nnz is None and scan.unit_bytes == 0 and not params.has_text
    holds_numbers = dense and scan.row_bytes == scan.n_columns * np.dtype(scan.dtype).itemsize
    usual_row_bytes = scan.row_bytes + 1.75 * row_bytes if holds_numbers else max_row_bytes
    is_binary = scan.nnz is None and scan.unit_bytes > 0 and not (params.has_text or scan.text)
    byte_seconds = DECODED_SECONDS if is_binary else PARSED_SECONDS
    seconds = passes * scan.n_rows * (row_bytes * CHECKED_SECONDS if holds_numbers else scan.row_bytes * byte_seconds)
    seconds += passes * scan.n_rows * row_bytes * MADE_SECONDS * scan.is_made
    seconds += scan.n_rows * scan.n_columns * EXAMINED_SECONDS if scan.nnz is None else 0.0
    return cost_of(passes * block_count(scan.n_rows, height), passes * scan.row_bytes * scan.n_rows,
                   scan.n_rows * (row_bytes + 16 + scan.has_split), scan.unit_bytes + height * usual_row_bytes,
                   scan.unit_bytes + max_row_bytes, seconds)

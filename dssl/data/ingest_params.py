"""How a source is read: the parameters, and what follows from them: the rows of a block, and the memory of its task."""

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..errors import BudgetError, require
from ..execution.cost import Cost, block_count, cost_of
from ..storage.blocks import rows_that_fit
from ..storage.csr import csr_row_bytes
from .columns import WhenMissing, WhenText
from .dataset import chunk_rows, keeps_sparse
from .readers.base import Scan

READER_OPTIONS = ("target", "split", "header", "delimiter", "decimal", "encoding", "missing", "drop", "n_columns",
                  "zero_based")


# Measured on one core: of a byte of numbers, to check and convert it; of a byte of text, to count and parse it; of a
# number, to find what its column is like.
CHECKED_SECONDS, PARSED_SECONDS, EXAMINED_SECONDS = 1e-9, 2.5e-8, 1.5e-8


@dataclass(frozen=True, kw_only=True)
class IngestParams:
    """How a file is read. An option left at None takes the format's default; one it does not have is refused.

    format : npz, npy, svmlight, csv, parquet, idx, zarr or dssl; unset: told by the ending.
    target : column (csv, parquet: name or number) or member (npz, zarr) of the labels; "none" for no target.
    dtype : of X. block_rows : rows of one block; unset: about 32 MB of X, less if the memory budget asks for it.
    labels : second file with the labels (npy, idx). split : member (npz, zarr) that is 0 for training and 1 for test.
    header, delimiter, decimal, encoding, missing : of delimited text, see `CsvReader`. drop : of it and of parquet.
    keep_ids : columns with names that look like identifiers (`findings`) are left out of tables, unless they are named
        here, or this is true.
    n_columns, zero_based : of svmlight text, see `SvmlightReader`.
    when_missing : "error", or "impute": a missing number becomes the mean of its column over the rows that have it,
        a missing text a category of its own. when_text : "error", or "one_hot": a column of text becomes one 0/1
        column a text (csv, parquet). Either takes a second pass; the choice is recorded in the attributes.
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
    keep_ids: bool | tuple[str, ...] = False
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

    @property
    def has_text(self) -> bool:
        """Whether features may be text."""
        return self.when_text != "error"

    @property
    def encodes(self) -> bool:
        """Whether columns become others, as a pass over the whole file decides."""
        return self.has_text or self.when_missing != "error"

    def reader_options(self) -> dict[str, Any]:
        """Return the options of the reader that are set."""
        given = {name: value for name in READER_OPTIONS if (value := getattr(self, name)) is not None}
        return given | ({"when_text": self.when_text} if self.has_text else {})

    def makes_sparse(self, scan: Scan) -> bool:
        """Return whether X of such a file is stored as CSR."""
        return keeps_sparse(self.sparse, scan.nnz, (scan.n_rows, scan.n_columns))


def task_bytes(scan: Scan, params: IngestParams, width: int | None = None, *, is_sparse: bool | None = None) -> int:
    """Return the bytes that a task needs for each of its rows: the file's own, float64 twice, X, and X compressed.

    X has `width` columns, as many as the file unless text became columns. A sparse X of a sparse file takes what the
    stored entries of a row take on average, each with its column number. A cell that may be text takes 64 bytes more.
    is_sparse : whether the rows are CSR; unset: as X is stored.
    """
    width, itemsize = width or scan.n_columns, np.dtype(params.dtype).itemsize
    is_sparse = params.makes_sparse(scan) if is_sparse is None else is_sparse
    if is_sparse and scan.nnz is not None:
        entries = -(-scan.nnz // scan.n_rows)
        return scan.row_bytes + entries * (2 * (8 + 4) + 2 * (itemsize + 4)) + 64
    column_numbers = 2 * 4 * width if is_sparse else 0
    cells = 64 * scan.n_columns if params.has_text else 0
    return scan.row_bytes + 2 * 8 * width + 2 * itemsize * width + column_numbers + cells + 64


def block_height(scan: Scan, params: IngestParams, memory_budget: int, width: int | None = None, *,
                 is_sparse: bool | None = None) -> int:
    """Return the rows of a block, which is a chunk of the stored arrays; see `task_bytes` for what a row takes.

    Raise BudgetError if the blocks asked for, or a single row, do not fit the memory budget.
    """
    require(scan.unit_bytes < memory_budget, f"the largest row group or chunk of the file needs {scan.unit_bytes:,} "
            f"bytes, the memory budget is {memory_budget:,} bytes", why="it is read whole for any row in it",
            fix="raise memory_budget, or write the file in smaller row groups or chunks", error=BudgetError)
    is_sparse = params.makes_sparse(scan) if is_sparse is None else is_sparse
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
    """Return what reading a source takes, of which a row of X has `row_bytes`.

    Blocks of the file: as they lie in it, X, and X compressed; text is also parsed as float64. Where a pass before
    decides what becomes of the columns, it is read twice.
    """
    passes = 1 + bool(params.encodes or scan.keys)
    height, most = block_height(scan, params, budget), task_bytes(scan, params)
    dense = scan.nnz is None and scan.unit_bytes == 0 and not params.has_text
    holds_numbers = dense and scan.row_bytes == scan.n_columns * np.dtype(scan.dtype).itemsize
    each = scan.row_bytes + 1.75 * row_bytes if holds_numbers else most
    seconds = passes * scan.n_rows * (row_bytes * CHECKED_SECONDS if holds_numbers else scan.row_bytes * PARSED_SECONDS)
    seconds += scan.n_rows * scan.n_columns * EXAMINED_SECONDS if scan.nnz is None else 0.0
    return cost_of(passes * block_count(scan.n_rows, height), passes * scan.row_bytes * scan.n_rows,
                   scan.n_rows * (row_bytes + 16 + scan.has_split), scan.unit_bytes + height * each,
                   scan.unit_bytes + most, seconds)

"""The cost of reading a source: the rows of a block, and the memory of its task."""

import numpy as np

from ..base.errors import BudgetError, require
from ..execution.cost import Cost, block_count, cost_of
from ..storage.blocks import rows_that_fit
from ..storage.csr import csr_row_bytes
from .dataset import chunk_rows, keeps_sparse
from .ingest_params import IngestParams
from .readers.base import Scan

# Seconds measured on one core.
CHECKED_SECONDS = 1e-9  # per byte of numbers: check and convert
DECODED_SECONDS = 1e-8  # per byte of a file that is stored by columns, such as Parquet: decode
MADE_SECONDS = 5.4e-9  # per byte of synthetic numbers: generate
PARSED_SECONDS = 4e-8  # per byte of text: count and parse
EXAMINED_SECONDS = 2e-8  # per number: find the traits of its column


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
    """Return the number of rows in a block, which is a chunk of the stored arrays; see `task_bytes`.

    Raises
    ------
    BudgetError : the requested blocks, or a single row, do not fit the memory budget.
    """
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

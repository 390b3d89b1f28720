"""Kernel blocks as tasks: `K(X, Z)` for tall X into a shared array, and `K(X, Z) @ coef` without ever holding it.

Memory of one task in bytes, for a block of b rows of X with d features against m points Z:

    b (row_bytes(d, m) + d itemsize(X))  +  24 m d  +  the kernel's own arrays

where `row_bytes` is the kernel's (8 m for the block, and float64 copies of the row), and 24 m d is Z as it came,
as float64 and centered. For sparse rows with e entries on average, d is 1.5 e in `row_bytes` (16 d then holds them as
float64 with int32 columns, twice) and the bytes of the row take the place of d itemsize; a sparse Z takes 3 times 12
bytes an entry and 8 d for its index by column. Dense points that meet sparse ones are made sparse: 24 bytes a value
more. `block_rows` solves it for b.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import DataError, require
from ..execution.tasks import Execution
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit
from ..storage.csr import as_rows, point_arrays, points_of
from .base import Kernel

BLOCK_BYTES = 64 << 20  # larger blocks make no matrix product faster, and leave other cores without work


def block_rows(kernel: Kernel, X: Rows, n_points: int, budget_bytes: int, *, kernel_bytes: int = 0,
               sparse_entries: int | None = None) -> int:
    """Return how many rows of X fit in one block against `n_points` points; the formula is at the head of this file.

    `sparse_entries` is the number of entries of the points Z if these are sparse.

    Raises
    ------
    BudgetError : the points Z and one row do not fit.
    """
    d = X.shape[1]
    mixed = X.is_sparse != (sparse_entries is not None)
    width = -(-3 * X.row_bytes // (2 * (X.dtype.itemsize + 4))) if X.is_sparse else d
    per_row = _row_bytes(kernel, width, n_points) + X.row_bytes + (24 * d if mixed and not X.is_sparse else 0)
    held = 24 * n_points * d * (2 if mixed else 1) if sparse_entries is None else 36 * sparse_entries + 8 * d
    fit = rows_that_fit(budget_bytes, per_row, len(X), fixed_bytes=held + kernel_bytes)
    return min(fit, max(1, BLOCK_BYTES // per_row))


def entries_of(points: Any) -> int | None:
    """Return the number of entries of sparse points, None of dense ones."""
    return int(points.nnz) if sparse.issparse(points) else None


def _row_bytes(kernel: Kernel, n_features: int, n_points: int) -> int:
    """Return the bytes per row of X in a call; a plain function is taken to hold three blocks."""
    if hasattr(kernel, "row_bytes"):
        return kernel.row_bytes(n_features, n_points)
    return 24 * n_points + 16 * n_features


def kernel_block(kernel: Kernel, X: Any, Z: Any, features: np.ndarray | None = None) -> np.ndarray:
    """Return K(X, Z), shape (n, m), of dense or sparse points.

    `features` of Z as a deformed kernel made them spare their solve.

    Raises
    ------
    DataError : the kernel returned another shape.
    """
    block = kernel(X, Z) if features is None else kernel(X, Z, features=features)  # type: ignore[call-arg]
    pairs = (X.shape[0], Z.shape[0])
    require(not sparse.issparse(block), f"kernel {kernel!r} returned a {type(block).__name__}", error=DataError,
            why="a block of a kernel is an array; points may be sparse", fix="return block.toarray() from the function")
    require(np.shape(block) == pairs,
            f"kernel {kernel!r} returned shape {np.shape(block)} for {pairs[0]} x {pairs[1]} points", error=DataError,
            why="a kernel returns one value per pair of points",
            fix="return an array of shape (X.shape[0], Z.shape[0]) from the function")
    return np.asarray(block)


def apply_kernel(kernel: Kernel, X: Any, Z: Any, coef: np.ndarray) -> np.ndarray:
    """Return K(X, Z) @ coef, shape (n, ...), for one block of rows; holds one block of the kernel."""
    return kernel_block(kernel, X, Z) @ coef


@dataclass(frozen=True)
class GramTask:
    """Write K(X, Z) for one range of rows of X."""

    kernel: Kernel
    rows: Rows
    support: Arrays  # Z (m, d), dense or sparse (`point_arrays`), and `features` of Z for a deformed kernel
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.support.load()
        X, Z = self.rows.read(self.start, self.stop), points_of(arrays, "Z")
        return out.write_rows(self.start, K=kernel_block(self.kernel, X, Z, arrays.get("features")))


@dataclass(frozen=True)
class ApplyTask:
    """Write K(X, Z) @ coef for one range of rows of X."""

    kernel: Kernel
    rows: Rows
    support: Arrays  # Z (m, d), dense or sparse, and coef (m, ...)
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.support.load()
        X = self.rows.read(self.start, self.stop)
        return out.write_rows(self.start, values=apply_kernel(self.kernel, X, points_of(arrays, "Z"), arrays["coef"]))


def gram_blocks(kernel: Kernel, X: Any, Z: Any, execution: Execution,
                parts: Parts | None = None) -> Rows:
    """Return K(X, Z), shape (n, m), float64, as a shared array named `K` that tasks fill by blocks of rows.

    Parameters
    ----------
    X : Rows, ndarray or sparse matrix, shape (n, d).
    Z : ndarray or sparse rows, shape (m, d), or Arrays that hold them as `Z` (see `point_arrays`), which a Dask
        task then reads from storage.
    parts : where the array goes; scratch of the execution by default.

    Raises
    ------
    BudgetError : Z and one row do not fit the execution's memory budget.
    """
    rows, support = as_rows(X), Z if isinstance(Z, Arrays) else execution.share(**point_arrays("Z", Z))
    points = points_of(support.load(), "Z")
    if hasattr(kernel, "features") and not isinstance(Z, Arrays):
        support = execution.share(**point_arrays("Z", points), features=kernel.features(points))
    return _fill("K", GramTask, kernel, rows, support, (points.shape[0],), execution, parts)


def apply_blocks(kernel: Kernel, X: Any, Z: Any, coef: np.ndarray | None,
                 execution: Execution, parts: Parts | None = None) -> Rows:
    """Return K(X, Z) @ coef, shape (n, ...), as a shared array named `values`; no more than a block of K exists.

    A deformed kernel is first rewritten in its base kernel (`expansion`), so that no block needs a solve. Arrays that
    hold `Z` and `coef`, with coef=None, are used as they are: store the expansion in them to keep Dask tasks small.
    """
    if isinstance(Z, Arrays):
        trailing = Z.load()["coef"].shape[1:]
        return _fill("values", ApplyTask, kernel, as_rows(X), Z, trailing, execution, parts)
    coef = np.asarray(coef, np.float64)
    require(coef.ndim >= 1 and len(coef) == Z.shape[0], f"coef has shape {coef.shape} for {Z.shape[0]} points Z",
            why="a function of the kernel has one coefficient per point", fix="pass coef of shape (Z.shape[0], ...)")
    if hasattr(kernel, "expansion"):
        kernel, Z, coef = kernel.expansion(Z, coef)
    support = execution.share(**point_arrays("Z", Z), coef=coef)
    return _fill("values", ApplyTask, kernel, as_rows(X), support, coef.shape[1:], execution, parts)


def _fill(name: str, task: Any, kernel: Kernel, rows: Rows, support: Arrays, trailing: tuple[int, ...],
          execution: Execution, parts: Parts | None) -> Rows:
    """Run one task per block of rows into the shared array `name`, shape (len(rows), *trailing)."""
    parts = execution.scratch() if parts is None else parts
    arrays = support.load()
    points = points_of(arrays, "Z")
    own = sum(array.nbytes for key, array in arrays.items() if key.split(".")[0] != "Z") + getattr(kernel, "nbytes", 0)
    height = block_rows(kernel, rows, points.shape[0], execution.memory_budget, kernel_bytes=own,
                        sparse_entries=entries_of(points))
    parts.allocate(name, (len(rows), *trailing), np.float64, height)
    tasks = [task(kernel, rows, support, start, stop) for start, stop in row_ranges(len(rows), height)]
    execution.map(tasks, parts)
    return parts.rows(name)

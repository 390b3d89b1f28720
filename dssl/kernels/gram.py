"""Kernel blocks `K(X, Z)`, and their height.

The memory of b rows of X with d features against m points Z in bytes is

    b (row_bytes(d, m) + d itemsize(X))  +  24 m d  +  the arrays of the kernel

with `row_bytes` of the kernel (8 m for the block, and float64 copies of the row), and 24 m d for Z as read, in float64,
and centered. For sparse rows with e entries on average, d is 1.5 e in `row_bytes`, and the bytes of the row replace
d itemsize; a sparse Z takes 36 bytes an entry and 8 d for its index by column. Dense points that meet sparse points are
converted: 24 bytes a value more. `block_rows` solves this for b.
"""

import numpy as np
from scipy import sparse

from ..base.errors import DataError, require
from ..base.types import Matrix, is_sparse
from ..storage.blocks import Rows, rows_that_fit
from .base import Kernel

BLOCK_BYTES = 64 << 20  # larger blocks do not make matrix products faster, and leave other cores idle


def block_rows(kernel: Kernel, X: Rows, n_points: int, budget_bytes: int, *, kernel_bytes: int = 0,
               sparse_entries: int | None = None) -> int:
    """Return how many rows of X fit in one block against `n_points` points; the formula is at the head of this file.

    sparse_entries : number of entries of the points Z if these are sparse.
    """
    per_row = block_row_bytes(kernel, X, n_points, sparse_entries)
    held = held_points_bytes(X, n_points, sparse_entries)
    fit = rows_that_fit(budget_bytes, per_row, len(X), fixed_bytes=held + kernel_bytes)
    return min(fit, max(1, BLOCK_BYTES // per_row))


def block_row_bytes(kernel: Kernel, X: Rows, n_points: int, sparse_entries: int | None = None) -> int:
    """Return the bytes of a row of X against `n_points` points Z, also as read; a plain function holds three blocks."""
    mixed = X.is_sparse != (sparse_entries is not None)
    width = -(-3 * X.row_bytes // (2 * (X.dtype.itemsize + 4))) if X.is_sparse else X.shape[1]
    block = kernel.row_bytes(width, n_points) if hasattr(kernel, "row_bytes") else 24 * n_points + 16 * width
    return block + X.row_bytes + (24 * X.shape[1] if mixed and not X.is_sparse else 0)


def held_points_bytes(X: Rows, n_points: int, sparse_entries: int | None = None) -> int:
    """Return the bytes of the points Z in a kernel evaluation: as read, in float64, and centered."""
    if sparse_entries is not None:
        return 36 * sparse_entries + 8 * X.shape[1]
    return 24 * n_points * X.shape[1] * (2 if X.is_sparse else 1)


def entries_of(points: Matrix) -> int | None:
    """Return the number of entries of sparse points, None of dense ones."""
    return int(points.nnz) if is_sparse(points) else None


def kernel_block(kernel: Kernel, X: Matrix, Z: Matrix) -> np.ndarray:
    """Return K(X, Z), shape (n, m), of dense or sparse points, in float32 or float64."""
    block = kernel(X, Z)
    pairs = (X.shape[0], Z.shape[0])
    require(not sparse.issparse(block), f"kernel {kernel!r} returned a {type(block).__name__}", error=DataError,
            why="a block of a kernel is an array, also for sparse points",
            fix="return block.toarray() from the function")
    require(np.shape(block) == pairs,
            f"kernel {kernel!r} returned shape {np.shape(block)} for {pairs[0]} x {pairs[1]} points", error=DataError,
            why="a kernel returns one value per pair of points",
            fix="return an array of shape (X.shape[0], Z.shape[0]) from the function")
    values = np.asarray(block)
    require(values.dtype.kind in "biufO" and values.dtype != np.float16, error=DataError,
            what=f"kernel {kernel!r} returned {values.dtype}, expected real numbers in float32 or float64",
            why="a kernel has real values, and those of float16 round so much that it has negative eigenvalues",
            fix="return block.astype(float) from the function; of complex numbers, their real part")
    return values if values.dtype in (np.float32, np.float64) else values.astype(np.float64)

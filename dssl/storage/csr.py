"""Sparse rows in this process, and their form as named arrays.

Sparse rows are `scipy.sparse.csr_array` as `as_csr` makes them: columns ascend within a row, and none is there twice.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy import sparse

from ..base.errors import require
from .blocks import ArrayRows, Rows


def as_csr(matrix: Any) -> sparse.csr_array:
    """Return a sparse matrix as CSR with sorted int32 columns and no entry twice; the given one is not changed."""
    csr = sparse.csr_array(matrix)
    if not csr.has_canonical_format:
        csr = csr.copy()
        csr.sum_duplicates()
    if csr.indices.dtype != np.int32:
        csr = narrow_csr(csr.data, csr.indices, csr.indptr, csr.shape)
    return csr


def narrow_csr(data: np.ndarray, indices: np.ndarray, indptr: np.ndarray, shape: tuple[int, int]) -> sparse.csr_array:
    """Return a canonical CSR matrix with int32 columns; SciPy widens them unless the pointers are int32 too."""
    require(int(indptr[-1]) < 2**31, f"a block of {shape[0]:,} rows has {int(indptr[-1]):,} entries, at most 2^31 - 1",
            why="entries are counted in 32 bits within a block", fix="use smaller blocks of rows")
    narrow = (data, indices.astype(np.int32, copy=False), indptr.astype(np.int32, copy=False))
    csr = sparse.csr_array(narrow, shape=shape)
    csr.has_canonical_format = True
    return csr


def csr_row_bytes(nnz: int, n_rows: int, dtype: np.dtype) -> int:
    """Return the bytes of one row of a CSR matrix, on average: values, int32 columns, and its pointer."""
    return -(-nnz * (dtype.itemsize + 4) // max(n_rows, 1)) + 8


class CsrRows(Rows):
    """Rows of a sparse matrix in this process."""

    is_sparse = held = True

    def __init__(self, matrix: Any):
        self.matrix = as_csr(matrix)
        self.shape, self.dtype, self.nnz = self.matrix.shape, self.matrix.dtype, self.matrix.nnz

    @property
    def row_bytes(self) -> int:
        return csr_row_bytes(self.nnz, len(self), self.dtype)

    def read(self, start: int, stop: int) -> Any:
        return self.matrix if start == 0 and stop >= len(self) else self.matrix[start:stop]

    def take(self, ids: np.ndarray) -> Any:
        return self.matrix[ids]


def as_rows(X: Any) -> Rows:
    """Return `X` as Rows: Rows as they are, a sparse matrix as CSR, anything array-like as an array.

    Raise ParameterError if `X` cannot be indexed by rows.
    """
    if isinstance(X, Rows):
        return X
    if sparse.issparse(X):
        return CsrRows(X)
    array = np.asarray(X)
    require(array.ndim > 0, f"{type(X).__name__} has no rows", why="points are rows of a two-dimensional array",
            fix="pass an array of shape (n_points, n_features), or a Dataset")
    return ArrayRows(array)


def csr_arrays(block: Any) -> dict[str, np.ndarray]:
    """Return the named arrays of a block of sparse rows, as `BlockedCsrRows` (in `pieces`) reads them."""
    csr = as_csr(block)
    return {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr.astype(np.int64)}


def csr_of(arrays: Mapping[str, np.ndarray], shape: tuple[int, int]) -> sparse.csr_array:
    """Return the sparse rows that `csr_arrays` gave the arrays of."""
    return narrow_csr(arrays["data"], arrays["indices"], arrays["indptr"], shape)


def stack_points(*blocks: Any) -> Any:
    """Return blocks of points (n_i, d) one under the other; sparse if any of them is."""
    if any(sparse.issparse(block) for block in blocks):
        return as_csr(sparse.vstack([as_csr(block) for block in blocks], format="csr"))
    return np.concatenate(blocks)


def point_arrays(name: str, points: Any) -> dict[str, np.ndarray]:
    """Return points as named arrays: `NAME`, or for sparse points `NAME.data`, `.indices`, `.indptr` and `.shape`."""
    if not sparse.issparse(points):
        return {name: np.asarray(points)}
    arrays = {f"{name}.{key}": array for key, array in csr_arrays(points).items()}
    return arrays | {f"{name}.shape": np.array(points.shape, np.int64)}


def points_of(arrays: Mapping[str, np.ndarray], name: str) -> Any:
    """Return the points that `point_arrays` gave the arrays of; raise KeyError if there are none."""
    if name in arrays or f"{name}.shape" not in arrays:
        return arrays[name]
    n, d = (int(size) for size in arrays[f"{name}.shape"])
    return csr_of({key: arrays[f"{name}.{key}"] for key in ("data", "indices", "indptr")}, (n, d))


def points_nbytes(points: Any) -> int:
    """Return the bytes of an array of points, dense or sparse."""
    if sparse.issparse(points):
        return int(points.data.nbytes + points.indices.nbytes + points.indptr.nbytes)
    return int(points.nbytes)

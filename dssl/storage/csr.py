"""Sparse rows in memory: their form as named arrays, their digest, and their arithmetic.

Sparse rows are `scipy.sparse.csr_array` in the form that `as_csr` returns: columns ascend within a row, without
duplicates. Every sum over a row runs in the order of its columns, so equal rows give identical results, and products
are exactly symmetric.
"""

import hashlib
from collections.abc import Callable, Mapping

import numpy as np
from numba import njit
from scipy import sparse

from ..base.digest import digest
from ..base.errors import require
from ..base.types import Matrix, MatrixLike, is_sparse
from .array_files import checksum
from .blocks import ArrayRows, Rows


def as_csr(matrix: MatrixLike) -> sparse.csr_array:
    """Return a sparse matrix as CSR with sorted int32 columns and no duplicates; the argument is not modified."""
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
    """Return the average bytes of one row of a CSR matrix: values, int32 columns, and its pointer."""
    return -(-nnz * (dtype.itemsize + 4) // max(n_rows, 1)) + 8


class CsrRows(Rows):
    """Rows of a sparse matrix in memory."""

    is_sparse = held = True

    def __init__(self, matrix: MatrixLike):
        self.matrix = as_csr(matrix)
        self.shape, self.dtype, self.nnz = self.matrix.shape, self.matrix.dtype, self.matrix.nnz

    @property
    def row_bytes(self) -> int:
        return csr_row_bytes(self.nnz, len(self), self.dtype)

    def read(self, start: int, stop: int) -> sparse.csr_array:
        return self.matrix if start == 0 and stop >= len(self) else self.matrix[start:stop]

    def take(self, ids: np.ndarray) -> sparse.csr_array:
        return self.matrix[ids]


def as_rows(X: Rows | MatrixLike) -> Rows:
    """Return `X` as Rows: Rows unchanged, a sparse matrix as CSR, anything array-like as an array."""
    if isinstance(X, Rows):
        return X
    if sparse.issparse(X):
        return CsrRows(X)
    array = np.asarray(X)
    require(array.ndim > 0, f"{type(X).__name__} has no rows", why="points are rows of a two-dimensional array",
            fix="pass an array of shape (n_points, n_features), or a Dataset")
    return ArrayRows(array)


def csr_arrays(block: sparse.csr_array) -> dict[str, np.ndarray]:
    """Return the named arrays of a block of sparse rows, as `BlockedCsrRows` (in `pieces`) reads them."""
    csr = as_csr(block)
    return {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr.astype(np.int64)}


def csr_of(arrays: Mapping[str, np.ndarray], shape: tuple[int, int]) -> sparse.csr_array:
    """Return the sparse rows from the arrays of `csr_arrays`."""
    return narrow_csr(arrays["data"], arrays["indices"], arrays["indptr"], shape)


def stack_points(*blocks: Matrix) -> Matrix:
    """Return blocks of points (n_i, d) stacked vertically; sparse if any of them is."""
    if any(sparse.issparse(block) for block in blocks):
        return as_csr(sparse.vstack([as_csr(block) for block in blocks], format="csr"))
    return np.concatenate(blocks)


def point_arrays(name: str, points: Matrix) -> dict[str, np.ndarray]:
    """Return points as named arrays: `NAME`, or for sparse points `NAME.data`, `.indices`, `.indptr` and `.shape`."""
    if not sparse.issparse(points):
        return {name: np.asarray(points)}
    arrays = {f"{name}.{key}": array for key, array in csr_arrays(points).items()}
    return arrays | {f"{name}.shape": np.array(points.shape, np.int64)}


def points_of(arrays: Mapping[str, np.ndarray], name: str) -> Matrix:
    """Return the points from the arrays of `point_arrays`; raise KeyError if there are none."""
    if name in arrays or f"{name}.shape" not in arrays:
        return arrays[name]
    n, d = (int(size) for size in arrays[f"{name}.shape"])
    return csr_of({key: arrays[f"{name}.{key}"] for key in ("data", "indices", "indptr")}, (n, d))


def points_nbytes(points: Matrix) -> int:
    """Return the bytes of an array of points, dense or sparse."""
    if is_sparse(points):
        return int(points.data.nbytes + points.indices.nbytes + points.indptr.nbytes)
    return points.nbytes


DIGEST_ROWS = 1 << 12  # rows read at a time; the digest depends on it


def digest_of_arrays(arrays: Mapping[str, np.ndarray]) -> str:
    """Return the hex SHA-256 of the names, shapes, types and values of numeric arrays."""
    return digest({name: [list(array.shape), array.dtype.name, checksum(array)] for name, array in arrays.items()})


def digest_of_rows(rows: Rows) -> str:
    """Return the hex SHA-256 of the shape, type and values of dense or sparse rows; reads them once."""
    state = hashlib.sha256(digest({"shape": list(rows.shape), "sparse": rows.is_sparse}).encode())
    for _, block in rows.blocks(DIGEST_ROWS):
        state.update(digest_of_arrays(csr_arrays(block) if rows.is_sparse else {"rows": block}).encode())
    return state.hexdigest()


def with_values(rows: sparse.csr_array, values: np.ndarray) -> sparse.csr_array:
    """Return sparse rows with the same columns and new values, one per entry."""
    same = sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    same.has_canonical_format = True
    return same


def _row_of_entries(rows: sparse.csr_array) -> np.ndarray:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def _row_sums(rows: sparse.csr_array, values: np.ndarray) -> np.ndarray:
    """Return the row sums of values, one per entry; the cast matters if there are no entries."""
    return np.bincount(_row_of_entries(rows), values, rows.shape[0]).astype(np.float64, copy=False)


def squared_lengths(rows: sparse.csr_array) -> np.ndarray:
    """Return |x_i|^2 of sparse rows, shape (n,), float64."""
    return _row_sums(rows, np.square(rows.data, dtype=np.float64))


def absolute_sums(rows: sparse.csr_array) -> np.ndarray:
    """Return the sum of |x_ij| over each sparse row, shape (n,), float64."""
    return _row_sums(rows, np.abs(rows.data, dtype=np.float64))


def largest_of_rows(rows: sparse.csr_array) -> np.ndarray:
    """Return the largest |x_ij| of each sparse row, shape (n,), float64; NaN propagates, an empty row gives 0."""
    largest = np.zeros(rows.shape[0])
    with np.errstate(invalid="ignore"):  # NumPy warns about NaN
        np.maximum.at(largest, _row_of_entries(rows), np.abs(rows.data, dtype=np.float64))
    return largest


def unit_rows(rows: Matrix) -> Matrix:
    """Scale rows to Euclidean length 1; sparse rows become float64, dense rows keep their type, zero rows stay zero."""
    # Divide by the largest entry first: the square of 1e-200 is 0, and of 1e200 infinite.
    if not sparse.issparse(rows):
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
        scaled = rows / np.where(largest > 0, largest, 1)
        length = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
        return scaled / np.where(length > 0, length, 1)
    row = _row_of_entries(rows)
    largest = largest_of_rows(rows)
    scaled = rows.data / np.where(largest > 0, largest, 1)[row]
    length = np.sqrt(_row_sums(rows, scaled**2))
    return with_values(rows, scaled / np.where(length > 0, length, 1)[row])


def products(X: sparse.csr_array, Z: sparse.csr_array) -> np.ndarray:
    """Return x_i . z_j of sparse rows as a dense float64 array (n, m); exactly symmetric if X equals Z.

    Each row of X walks the inverted index of Z, with one multiplication for every column that both rows have.
    """
    return _added(add_products, X, Z)


def overlaps(X: sparse.csr_array, Z: sparse.csr_array) -> np.ndarray:
    """Return sum_c |x_c| + |z_c| - |x_c - z_c| of sparse rows, shape (n, m).

    A column contributes twice the smaller magnitude if the signs agree, and nothing otherwise.
    """
    return _added(_add_overlaps, X, Z)


def _added(add: Callable[..., None], X: sparse.csr_array, Z: sparse.csr_array) -> np.ndarray:
    """Return the block (n, m) that `add` fills from the rows of X and the inverted index of Z."""
    columns = Z.astype(np.float64, copy=False).tocsc()
    block = np.zeros((X.shape[0], Z.shape[0]))
    add(X.indptr, X.indices, X.data, columns.indptr, columns.indices, columns.data, block)
    return block


@njit(nogil=True, cache=True)
def add_products(indptr, indices, data, starts, rows, values, block):
    """Add x_i . z_j to block (n, m): X by rows (`indptr`, `indices`, `data`), Z by columns (`starts`, `rows`, ...)."""
    for i in range(block.shape[0]):
        line = block[i]
        for entry in range(indptr[i], indptr[i + 1]):
            column = indices[entry]
            value = np.float64(data[entry])
            for match in range(starts[column], starts[column + 1]):
                line[rows[match]] += value * values[match]


@njit(nogil=True, cache=True)
def _add_overlaps(indptr, indices, data, starts, rows, values, block):
    for i in range(block.shape[0]):
        line = block[i]
        for entry in range(indptr[i], indptr[i + 1]):
            column = indices[entry]
            value = np.float64(data[entry])
            for match in range(starts[column], starts[column + 1]):
                if (value > 0) == (values[match] > 0):
                    line[rows[match]] += 2 * min(abs(value), abs(values[match]))

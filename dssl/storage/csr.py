"""Arithmetic on sparse rows: lengths, products of pairs, stacking, and their form as named arrays.

Sparse rows are `scipy.sparse.csr_array` as `as_csr` makes them: columns ascend within a row. Every sum over a row
runs in the order of its columns, so equal rows give equal bits and a product does not depend on which row comes first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from .blocks import Parts, Rows, as_csr, csr_row_bytes, narrow_csr, row_ranges


@dataclass(frozen=True)
class BlockedCsrRows(Rows):
    """Rows of a sparse matrix in parts: rows [i b, (i + 1) b) are `data`, `indices`, `indptr` of part first + i.

    `describe` gives the JSON that `of` reads; a task writes a block with `csr_arrays`.
    """

    parts: Parts
    shape: tuple[int, int]
    dtype: np.dtype
    block_rows: int
    nnz: int
    first: int = 0
    is_sparse = True

    @classmethod
    def of(cls, parts: Parts, described: Mapping[str, Any]) -> "BlockedCsrRows":
        """Return the rows that `describe` described."""
        return cls(parts, (int(described["shape"][0]), int(described["shape"][1])), np.dtype(described["dtype"]),
                   int(described["block_rows"]), int(described["nnz"]), int(described["first"]))

    def describe(self) -> dict[str, Any]:
        """Return JSON from which, with the parts, `of` makes these rows again."""
        return {"shape": list(self.shape), "dtype": self.dtype.str, "block_rows": self.block_rows, "nnz": self.nnz,
                "first": self.first}

    @property
    def row_bytes(self) -> int:
        return csr_row_bytes(self.nnz, len(self), self.dtype)

    def _block(self, number: int) -> sparse.csr_array:
        arrays = self.parts.read(self.first + number, ("data", "indices", "indptr"))
        height = min(self.block_rows, len(self) - number * self.block_rows)
        return csr_of(arrays, (height, self.shape[1]))

    def read(self, start: int, stop: int) -> Any:
        stop, pieces = min(stop, len(self)), []
        if stop <= start:
            return sparse.csr_array((0, self.shape[1]), dtype=self.dtype)
        for number in range(start // self.block_rows, (stop - 1) // self.block_rows + 1):
            begin = number * self.block_rows
            pieces.append(self._block(number)[max(start - begin, 0):stop - begin])
        return pieces[0] if len(pieces) == 1 else as_csr(sparse.vstack(pieces, format="csr"))

    def take(self, ids: np.ndarray) -> Any:
        """Return the rows with these numbers; reads each block that holds one of them once."""
        ids = np.asarray(ids, np.int64)
        if not len(ids):
            return self.read(0, 0)
        order = np.argsort(ids // self.block_rows, kind="stable")
        pieces = []
        for number in np.unique(ids // self.block_rows):
            mine = ids[order[(ids[order] // self.block_rows) == number]]
            pieces.append(self._block(int(number))[mine - int(number) * self.block_rows])
        place = np.empty(len(ids), np.int64)
        place[order] = np.arange(len(ids))
        return as_csr(sparse.vstack(pieces, format="csr")[place])


def csr_arrays(block: Any) -> dict[str, np.ndarray]:
    """Return the named arrays of a block of sparse rows, as `BlockedCsrRows` reads them."""
    csr = as_csr(block)
    return {"data": csr.data, "indices": csr.indices, "indptr": csr.indptr.astype(np.int64)}


def write_sparse(rows: Rows, parts: Parts, block_rows: int) -> BlockedCsrRows:
    """Write sparse rows to `parts`, a part for every `block_rows` of them, and return them as they lie there."""
    entries = 0
    for number, (start, stop) in enumerate(row_ranges(len(rows), block_rows)):
        arrays = csr_arrays(rows.read(start, stop))
        parts.write(number, arrays)
        entries += len(arrays["data"])
    return BlockedCsrRows(parts, (rows.shape[0], rows.shape[1]), rows.dtype, block_rows, entries)


def csr_of(arrays: Mapping[str, np.ndarray], shape: tuple[int, int]) -> sparse.csr_array:
    """Return the sparse rows that `csr_arrays` gave the arrays of."""
    return narrow_csr(arrays["data"], arrays["indices"], arrays["indptr"], shape)


def with_values(rows: Any, values: np.ndarray) -> sparse.csr_array:
    """Return sparse rows with the same columns and other values, one an entry."""
    same = sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    same.has_canonical_format = True
    return same


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


def squared_lengths(rows: Any) -> np.ndarray:
    """Return |x_i|^2 of sparse rows, shape (n,), float64."""
    return _sums(rows.indptr, rows.data, True)


def absolute_sums(rows: Any) -> np.ndarray:
    """Return the sum of |x_ij| over each sparse row, shape (n,), float64."""
    return _sums(rows.indptr, rows.data, False)


@njit(nogil=True, cache=True)
def _sums(indptr, data, squared):
    sums = np.zeros(indptr.shape[0] - 1)
    for row in range(sums.shape[0]):
        total = 0.0
        for place in range(indptr[row], indptr[row + 1]):
            value = np.float64(data[place])
            total += value * value if squared else abs(value)
        sums[row] = total
    return sums


def largest_of_rows(rows: Any) -> np.ndarray:
    """Return the largest |x_ij| of each sparse row, shape (n,), float64; NaN where a value is, 0 without entries."""
    return _largest(rows.indptr, rows.data)


@njit(nogil=True, cache=True)
def _largest(indptr, data):
    found = np.zeros(indptr.shape[0] - 1)
    for row in range(found.shape[0]):
        for place in range(indptr[row], indptr[row + 1]):
            value = abs(np.float64(data[place]))
            if not value <= found[row]:  # a NaN is taken too, and stays
                found[row] = value
                if np.isnan(value):
                    break
    return found


def unit_rows(rows: Any) -> sparse.csr_array:
    """Return sparse rows of Euclidean length 1, float64; zero rows stay zero."""
    values = np.array(rows.data, np.float64)
    _scale_to_unit(rows.indptr, values)
    return with_values(rows, values)


@njit(nogil=True, cache=True)
def _scale_to_unit(indptr, data):
    """Scale rows in place, by the largest entry first: the square of 1e-200 is 0, of 1e200 infinite."""
    for row in range(indptr.shape[0] - 1):
        largest = 0.0
        for place in range(indptr[row], indptr[row + 1]):
            largest = max(largest, abs(data[place]))
        if largest == 0.0:
            continue
        total = 0.0
        for place in range(indptr[row], indptr[row + 1]):
            total += (data[place] / largest) ** 2
        length = np.sqrt(total)
        for place in range(indptr[row], indptr[row + 1]):
            data[place] = data[place] / largest / length


def products(X: Any, Z: Any) -> np.ndarray:
    """Return x_i . z_j of sparse rows, shape (n, m), float64, dense; exactly symmetric if X equals Z.

    One pass over the inverted index of Z for each row of X: one multiplication for every column that both hold.
    """
    columns = _by_column(Z)
    block = np.zeros((X.shape[0], Z.shape[0]))
    add_products(X.indptr, X.indices, X.data, columns.indptr, columns.indices, columns.data, block)
    return block


def overlaps(X: Any, Z: Any) -> np.ndarray:
    """Return sum_c |x_c| + |z_c| - |x_c - z_c| of sparse rows, shape (n, m): twice the smaller where signs agree."""
    columns = _by_column(Z)
    block = np.zeros((X.shape[0], Z.shape[0]))
    _add_overlaps(X.indptr, X.indices, X.data, columns.indptr, columns.indices, columns.data, block)
    return block


def _by_column(Z: Any) -> sparse.csc_array:
    """Return the inverted index of sparse rows: for each column the rows that hold it, ascending, in float64."""
    return Z.astype(np.float64, copy=False).tocsc()


@njit(nogil=True, cache=True)
def add_products(indptr, indices, data, starts, rows, values, block):
    """Add x_i . z_j to block (n, m): X by rows (`indptr`, `indices`, `data`), Z by columns (`starts`, `rows`, ...)."""
    for i in range(block.shape[0]):
        line = block[i]
        for place in range(indptr[i], indptr[i + 1]):
            column, value = indices[place], np.float64(data[place])
            for other in range(starts[column], starts[column + 1]):
                line[rows[other]] += value * values[other]


@njit(nogil=True, cache=True)
def _add_overlaps(indptr, indices, data, starts, rows, values, block):
    for i in range(block.shape[0]):
        line = block[i]
        for place in range(indptr[i], indptr[i + 1]):
            column, value = indices[place], np.float64(data[place])
            for other in range(starts[column], starts[column + 1]):
                if (value > 0) == (values[other] > 0):
                    line[rows[other]] += 2 * min(abs(value), abs(values[other]))

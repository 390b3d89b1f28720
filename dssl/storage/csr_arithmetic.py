"""Arithmetic on sparse rows: lengths, sums, products of pairs.

Every sum over a row runs in the order of its columns, so equal rows give equal bits and a product does not depend on
which row comes first.
"""

from typing import Any

import numpy as np
from numba import njit
from scipy import sparse


def with_values(rows: Any, values: np.ndarray) -> sparse.csr_array:
    """Return sparse rows with the same columns and other values, one an entry."""
    same = sparse.csr_array((values, rows.indices, rows.indptr), shape=rows.shape)
    same.has_canonical_format = True
    return same


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

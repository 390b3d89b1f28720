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


def _row_of_entries(rows: Any) -> np.ndarray:
    return np.repeat(np.arange(rows.shape[0]), np.diff(rows.indptr))


def _row_sums(rows: Any, values: np.ndarray) -> np.ndarray:
    """Return the sums of values, one an entry, over rows; of no entries at all bincount gives integers."""
    return np.bincount(_row_of_entries(rows), values, rows.shape[0]).astype(np.float64, copy=False)


def squared_lengths(rows: Any) -> np.ndarray:
    """Return |x_i|^2 of sparse rows, shape (n,), float64."""
    return _row_sums(rows, np.square(rows.data, dtype=np.float64))


def absolute_sums(rows: Any) -> np.ndarray:
    """Return the sum of |x_ij| over each sparse row, shape (n,), float64."""
    return _row_sums(rows, np.abs(rows.data, dtype=np.float64))


def largest_of_rows(rows: Any) -> np.ndarray:
    """Return the largest |x_ij| of each sparse row, shape (n,), float64; NaN where a value is, 0 without entries."""
    largest = np.zeros(rows.shape[0])
    with np.errstate(invalid="ignore"):  # NumPy warns of some NaN
        np.maximum.at(largest, _row_of_entries(rows), np.abs(rows.data, dtype=np.float64))
    return largest


def unit_rows(rows: Any) -> Any:
    """Return rows of Euclidean length 1, sparse ones in float64, dense ones in their type; zero rows stay zero."""
    # First by the largest entry: the square of 1e-200 is 0, of 1e200 infinite.
    if not sparse.issparse(rows):
        largest = np.abs(rows).max(axis=1, keepdims=True, initial=0)
        scaled = rows / np.where(largest > 0, largest, 1)
        length = np.sqrt((scaled**2).sum(axis=1, keepdims=True))
        return scaled / np.where(length > 0, length, 1)
    row, largest = _row_of_entries(rows), largest_of_rows(rows)
    scaled = rows.data / np.where(largest > 0, largest, 1)[row]
    length = np.sqrt(_row_sums(rows, scaled**2))
    return with_values(rows, scaled / np.where(length > 0, length, 1)[row])


def products(X: Any, Z: Any) -> np.ndarray:
    """Return x_i . z_j of sparse rows, shape (n, m), float64, dense; exactly symmetric if X equals Z.

    One pass over the inverted index of Z for each row of X: one multiplication for every column that both hold.
    """
    return _added(add_products, X, Z)


def overlaps(X: Any, Z: Any) -> np.ndarray:
    """Return sum_c |x_c| + |z_c| - |x_c - z_c| of sparse rows, shape (n, m): twice the smaller where signs agree."""
    return _added(_add_overlaps, X, Z)


def _added(add: Any, X: Any, Z: Any) -> np.ndarray:
    """Return what `add` makes of the rows of X and the inverted index of Z: by column its rows, ascending, float64."""
    columns, block = Z.astype(np.float64, copy=False).tocsc(), np.zeros((X.shape[0], Z.shape[0]))
    add(X.indptr, X.indices, X.data, columns.indptr, columns.indices, columns.data, block)
    return block


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

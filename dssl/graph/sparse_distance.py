"""Squared distances of sparse rows that equal those of the dense rows, bit for bit.

`heap.squared_distance` adds the halves of a row of terms until one is left. A term that is zero changes no sum, so a
sum over the other terms in the same tree of additions has the same bits. `in_tree_order` renumbers the columns so that
they stand in a row as the leaves of that tree do, from left to right; then one pass with a stack adds them up.
"""

from functools import lru_cache
from typing import Any

import numpy as np
from numba import njit
from scipy import sparse

from .heap import precedes, sift_down


@lru_cache(maxsize=8)
def _tree(n_columns: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the place of each column among the leaves, and each leaf's path, both (d,).

    Bit t of a path says whether halving t moved the column down; two leaves meet at the highest bit that differs.
    """
    columns, paths, bit, size = np.arange(n_columns), np.zeros(n_columns, np.int64), 0, n_columns
    while size > 1:
        half = (size + 1) // 2
        moved = columns >= half
        paths |= moved.astype(np.int64) << bit
        columns = columns - half * moved
        size, bit = half, bit + 1
    order = np.argsort(paths)
    place = np.empty(n_columns, np.int32)
    place[order] = np.arange(n_columns, dtype=np.int32)
    return place, paths[order]


def tree_paths(n_columns: int) -> np.ndarray:
    """Return the path (d,) of each column of rows in tree order."""
    return _tree(n_columns)[1]


def in_tree_order(rows: Any) -> sparse.csr_array:
    """Return sparse rows in float64 whose columns are renumbered as leaves of the tree, and ascend."""
    place, _ = _tree(rows.shape[1])
    renumbered = sparse.csr_array((np.array(rows.data, np.float64), place[rows.indices], np.array(rows.indptr)),
                                  shape=rows.shape)
    renumbered.sort_indices()
    return renumbered


@njit(nogil=True, cache=True)
def sparse_squared_distance(columns_x, values_x, columns_z, values_z, paths, sums, meets):
    """Return the sum of (x - z)^2 of two rows in tree order; `sums` and `meets` (64,) are work space."""
    n_x, n_z, n_columns = columns_x.shape[0], columns_z.shape[0], paths.shape[0]
    i, j, top = 0, 0, -1
    before = np.int64(0)
    while i < n_x or j < n_z:
        column_x = columns_x[i] if i < n_x else n_columns
        column_z = columns_z[j] if j < n_z else n_columns
        column = min(column_x, column_z)
        difference = 0.0
        if column_x == column:
            difference = values_x[i]
            i += 1
        if column_z == column:
            difference -= values_z[j]
            j += 1
        path = paths[column]
        meet = path ^ before
        # a has a lower highest bit than b where a < b and a < a ^ b: those sums are complete before this term.
        while top > 0 and meets[top] < meet and meets[top] < meets[top] ^ meet:
            sums[top - 1] += sums[top]
            top -= 1
        top += 1
        sums[top], meets[top], before = difference * difference, meet, path
    while top > 0:
        sums[top - 1] += sums[top]
        top -= 1
    return sums[0] if top == 0 else 0.0


@njit(nogil=True, cache=True)
def offer_sparse(columns_x, values_x, columns_z, values_z, paths, identity, distances, ids, sums, meets):
    """Measure one candidate and put it on the heap if it belongs there."""
    distance = sparse_squared_distance(columns_x, values_x, columns_z, values_z, paths, sums, meets)
    if precedes(distance, identity, distances[0], ids[0]):
        distances[0], ids[0] = distance, identity
        sift_down(distances, ids, 0, distances.shape[0])


@njit(nogil=True, cache=True)
def _row_distances(indptr_x, columns_x, values_x, indptr_z, columns_z, values_z, paths):
    distances = np.empty(indptr_x.shape[0] - 1)
    sums, meets = np.empty(64), np.empty(64, np.int64)
    for row in range(distances.shape[0]):
        x, z = slice(indptr_x[row], indptr_x[row + 1]), slice(indptr_z[row], indptr_z[row + 1])
        distances[row] = sparse_squared_distance(columns_x[x], values_x[x], columns_z[z], values_z[z], paths, sums,
                                                 meets)
    return distances


def row_distances(X: Any, Z: Any) -> np.ndarray:
    """Return |x_i - z_i|^2, shape (n,), of two sets of rows in tree order."""
    return _row_distances(X.indptr, X.indices, X.data, Z.indptr, Z.indices, Z.data, tree_paths(X.shape[1]))


@njit(nogil=True, cache=True)
def _measure_candidates(indptr, columns, values, paths, candidates, distances, ids):
    sums, meets = np.empty(64), np.empty(64, np.int64)
    for row in range(candidates.shape[0]):
        mine = np.sort(candidates[row])
        before = np.int64(-1)
        x = slice(indptr[row], indptr[row + 1])
        for candidate in mine:
            if candidate > before and candidate != row:
                z = slice(indptr[candidate], indptr[candidate + 1])
                offer_sparse(columns[x], values[x], columns[z], values[z], paths, candidate, distances[row], ids[row],
                             sums, meets)
            before = max(before, candidate)


def measure_candidates(rows: Any, candidates: np.ndarray, distances: np.ndarray, ids: np.ndarray) -> None:
    """Offer each row in tree order its candidates (n, c), without itself, without -1, each once."""
    _measure_candidates(rows.indptr, rows.indices, rows.data, tree_paths(rows.shape[1]), candidates, distances, ids)

"""Squared distances of sparse rows, measured entry by entry in float64.

The terms are added in the order of the columns, so a distance is equal on every machine and whichever of the two rows
is the query. Dense rows add theirs in another order (`heap.squared_distance`): of the same rows the two differ by
rounding, and their lists where candidates are as far apart as that.
"""

import numpy as np
from numba import njit
from scipy import sparse

from .heap import precedes, sift_down


@njit(nogil=True, cache=True)
def sparse_squared_distance(columns_x, values_x, columns_z, values_z):
    """Return the sum of (x - z)^2 of two rows whose columns ascend."""
    n_x, n_z = columns_x.shape[0], columns_z.shape[0]
    i, j, total = 0, 0, 0.0
    while i < n_x or j < n_z:
        of_x = j == n_z or (i < n_x and columns_x[i] <= columns_z[j])
        of_z = i == n_x or (j < n_z and columns_z[j] <= columns_x[i])
        difference = 0.0
        if of_x:
            difference = np.float64(values_x[i])
            i += 1
        if of_z:
            difference -= np.float64(values_z[j])
            j += 1
        total += difference * difference
    return total


@njit(nogil=True, cache=True)
def offer_sparse(columns_x, values_x, columns_z, values_z, identity, distances, ids):
    """Measure one candidate and put it on the heap if it belongs there."""
    distance = sparse_squared_distance(columns_x, values_x, columns_z, values_z)
    if precedes(distance, identity, distances[0], ids[0]):
        distances[0], ids[0] = distance, identity
        sift_down(distances, ids, 0, distances.shape[0])


@njit(nogil=True, cache=True)
def _row_distances(indptr_x, columns_x, values_x, indptr_z, columns_z, values_z):
    distances = np.empty(indptr_x.shape[0] - 1)
    for row in range(distances.shape[0]):
        x, z = slice(indptr_x[row], indptr_x[row + 1]), slice(indptr_z[row], indptr_z[row + 1])
        distances[row] = sparse_squared_distance(columns_x[x], values_x[x], columns_z[z], values_z[z])
    return distances


def row_distances(X: sparse.csr_array, Z: sparse.csr_array) -> np.ndarray:
    """Return |x_i - z_i|^2, shape (n,), of two sets of sparse rows."""
    return _row_distances(X.indptr, X.indices, X.data, Z.indptr, Z.indices, Z.data)


@njit(nogil=True, cache=True)
def _measure_candidates(indptr, columns, values, candidates, distances, ids):
    for row in range(candidates.shape[0]):
        mine = np.sort(candidates[row])
        before = np.int64(-1)
        x = slice(indptr[row], indptr[row + 1])
        for candidate in mine:
            if candidate > before and candidate != row:
                z = slice(indptr[candidate], indptr[candidate + 1])
                offer_sparse(columns[x], values[x], columns[z], values[z], candidate, distances[row], ids[row])
            before = max(before, candidate)


def measure_candidates(rows: sparse.csr_array, candidates: np.ndarray, distances: np.ndarray,
                       ids: np.ndarray) -> None:
    """Offer each sparse row its candidates (n, c), without itself, without -1, each once."""
    _measure_candidates(rows.indptr, rows.indices, rows.data, candidates, distances, ids)

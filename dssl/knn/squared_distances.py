"""Squared distances |x - z|^2 summed in float64 in one fixed order, and the k nearest candidates so far.

A distance is equal on every machine, and symmetric in x and z. Sparse rows add their terms in the order of the columns,
dense rows by halves. The two sums differ by rounding, so neighbor lists of dense and sparse rows may differ where two
candidates are equally near up to rounding.

Candidates are in one max-heap a row, ordered by (squared distance, id). So the k nearest do not depend on the order in
which candidates arrive.
"""

import numpy as np
from numba import njit
from scipy import sparse

from ..base.types import Matrix

PAIR_VALUES = 1 << 16  # numbers of pairs that NumPy measures at a time
COMPILED_VALUES = 1 << 25  # and from which on compiled code is ahead, even where it is made first


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def quick_squared_distance(x, z):
    """Return the sum of (x - z)^2 in float64, the additions in an order that suits the processor."""
    total = 0.0
    for column in range(x.shape[0]):
        difference = np.float64(x[column]) - np.float64(z[column])
        total += difference * difference
    return total


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def float32_squared_distance(x, z):
    """Return the sum of (x - z)^2 of float32 rows in float32, the additions in an order that suits the processor."""
    total = np.float32(0.0)
    for column in range(x.shape[0]):
        difference = x[column] - z[column]
        total += difference * difference
    return total


@njit(nogil=True, cache=True)
def squared_distance(x, z, terms):
    """Return the sum of (x - z)^2 in float64 by pairwise halving; `terms` (d,) is work space.

    Each step is a loop without dependence, so it still runs in vectors.
    """
    size = x.shape[0]
    for column in range(size):
        difference = np.float64(x[column]) - np.float64(z[column])
        terms[column] = difference * difference
    while size > 1:
        half = (size + 1) // 2
        for column in range(size - half):
            terms[column] += terms[column + half]
        size = half
    return terms[0]


@njit(nogil=True, cache=True)
def _pair_distances(X, Z, of, to, squared):
    terms = np.empty(X.shape[1])
    for pair in range(of.shape[0]):
        squared[pair] = squared_distance(X[of[pair]], Z[to[pair]], terms)


def squared_distances_of(X: np.ndarray, Z: np.ndarray, of: np.ndarray, to: np.ndarray) -> np.ndarray:
    """Return |x_of - z_to|^2 (m,) of pairs of rows of X and Z, with the bits of `squared_distance`.

    NumPy measures few of them, for which nothing is compiled.
    """
    squared, step = np.empty(len(of)), max(1, PAIR_VALUES // max(1, X.shape[1]))
    if len(of) * X.shape[1] >= COMPILED_VALUES:
        _pair_distances(X, Z, of, to, squared)
        return squared
    for start in range(0, len(of), step):
        pairs = slice(start, start + step)
        terms = np.subtract(X[of[pairs]], Z[to[pairs]], dtype=np.float64)
        terms *= terms
        size = terms.shape[1]
        while size > 1:
            half = (size + 1) // 2
            terms[:, :size - half] += terms[:, half:size]
            size = half
        squared[pairs] = terms[:, 0] if size else 0.0
    return squared


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
def _dense_distances(X, Z, candidates, squared):
    terms = np.empty(X.shape[1])
    for row in range(candidates.shape[0]):
        for entry in range(candidates.shape[1]):
            squared[row, entry] = squared_distance(X[row], Z[candidates[row, entry]], terms)


@njit(nogil=True, cache=True)
def _sparse_distances(indptr_x, columns_x, values_x, indptr_z, columns_z, values_z, candidates, squared):
    for row in range(candidates.shape[0]):
        x = slice(indptr_x[row], indptr_x[row + 1])
        for entry in range(candidates.shape[1]):
            other = candidates[row, entry]
            z = slice(indptr_z[other], indptr_z[other + 1])
            squared[row, entry] = sparse_squared_distance(columns_x[x], values_x[x], columns_z[z], values_z[z])


def csr_parts(rows: sparse.csr_array) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where each of some sparse rows begins, and the columns and values of all, as compiled code takes them."""
    return rows.indptr, rows.indices, rows.data


def candidate_distances(X: Matrix, Z: Matrix, candidates: np.ndarray) -> np.ndarray:
    """Return |x_i - z_j|^2 of the candidates j (n, c) of each row i, dense or sparse; infinite where j is -1."""
    squared, rows = np.empty(candidates.shape), np.maximum(candidates, 0)
    if sparse.issparse(X):
        _sparse_distances(*csr_parts(X), *csr_parts(Z), rows, squared)
    else:
        _dense_distances(X, Z, rows, squared)
    squared[candidates < 0] = np.inf
    return squared


# ---- heaps of the nearest rows


EMPTY = np.int64(2**63 - 1)  # id of an entry that holds no neighbor yet: it gives way to any other


def empty_heaps(n_rows: int, k: int, within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return heaps without neighbors: squared distances (n_rows, k) float64 and ids (n_rows, k) int64.

    within : (n_rows,) squared distances; a heap rejects candidates farther away. None: no limit.
    """
    farthest = np.inf if within is None else within[:, None]
    return np.full((n_rows, k), farthest), np.full((n_rows, k), EMPTY)


@njit(nogil=True, cache=True)
def offer(query, point, identity, distances, ids, terms):
    """Measure one candidate and put it on the heap if it belongs there; return whether the heap changed."""
    # The two orders of additions differ by less than d 2^-52, relative: far below 1e-9.
    if quick_squared_distance(query, point) > distances[0] * (1 + 1e-9):
        return False
    return put(squared_distance(query, point, terms), identity, distances, ids)


@njit(nogil=True, cache=True)
def put(distance, identity, distances, ids):
    """Put a candidate on the heap if it belongs there; return whether it does."""
    nearer = precedes(distance, identity, distances[0], ids[0])
    if nearer:
        distances[0], ids[0] = distance, identity
        sift_down(distances, ids, 0, distances.shape[0])
    return nearer


@njit(nogil=True, cache=True)
def precedes(distance_a, id_a, distance_b, id_b):
    """Return whether entry a is nearer than entry b; the lower id is nearer among equal distances."""
    return distance_a < distance_b or (distance_a == distance_b and id_a < id_b)


@njit(nogil=True, cache=True)
def sift_down(distances, ids, root, size):
    """Move the entry at `root` down until no child is farther than its parent."""
    distance, identity = distances[root], ids[root]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        if child + 1 < size and precedes(distances[child], ids[child], distances[child + 1], ids[child + 1]):
            child += 1
        if not precedes(distance, identity, distances[child], ids[child]):
            break
        distances[root], ids[root] = distances[child], ids[child]
        root = child
    distances[root], ids[root] = distance, identity


@njit(nogil=True, cache=True)
def sort_heaps(distances, ids):
    """Sort each heap in place by (distance, id), ascending; entries without a neighbor come last, infinitely far."""
    for row in range(distances.shape[0]):
        for size in range(distances.shape[1] - 1, 0, -1):
            distances[row, 0], distances[row, size] = distances[row, size], distances[row, 0]
            ids[row, 0], ids[row, size] = ids[row, size], ids[row, 0]
            sift_down(distances[row], ids[row], 0, size)
        for entry in range(distances.shape[1]):
            if ids[row, entry] == EMPTY:
                distances[row, entry] = np.inf


@njit(nogil=True, cache=True)
def limit_heaps(queries, rows, candidates, distances, heap_ids):
    """Limit empty heaps to the distance of the farthest of k candidates, an upper bound of the k-th distance."""
    terms = np.empty(queries.shape[1])
    for which in range(queries.shape[0]):
        farthest = 0.0
        for row in candidates[which]:
            if row == EMPTY:
                farthest = np.inf
                break
            farthest = max(farthest, squared_distance(queries[which], rows[row], terms))
        # A little more than the bound, so that rounding rejects none of the k nearest.
        farthest *= 1 + 1e-8
        if precedes(farthest, EMPTY, distances[which, 0], heap_ids[which, 0]):
            distances[which, :] = farthest

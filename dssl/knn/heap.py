"""The k nearest candidates so far: one max-heap a row, ordered by (squared distance, id).

A distance is the same on every machine and for both directions of a pair (`squared_distances.py`), and ids break ties.
So the k nearest do not depend on the order in which candidates arrive.
"""

import numpy as np
from numba import njit

from .squared_distances import quick_squared_distance, squared_distance

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

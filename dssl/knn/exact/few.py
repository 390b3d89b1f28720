"""Exact neighbors among few points, by NumPy: to compile the searches of many points, or to load them, takes longer.

One matrix product gives the squared distances of all pairs but for rounding. The pairs that may be among the k nearest
are then measured as in every other search, so that the lists are the same to the last bit.

Work space: 8 bytes a value of the points, and 24 a pair of `PAIRS_AT_ONCE`.
"""

import numpy as np

from ..heap import EMPTY
from ..squared_distances import squared_distances_of

FEW_PAIRS, FEW_VALUES = 1 << 23, 1 << 18  # of queries with points, and of numbers in the points
PAIRS_AT_ONCE = 1 << 17


def are_few(n_queries: int, n_points: int, n_columns: int) -> bool:
    """Return whether NumPy searches so many points as fast as compiled code is loaded."""
    return n_queries * n_points <= FEW_PAIRS and n_points * n_columns <= FEW_VALUES


def nearest_of_few(queries: np.ndarray, query_ids: np.ndarray, points: np.ndarray, ids: np.ndarray, k: int,
                   within: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the squared distances and ids (q, k) of the points nearest to rows, ascending by (distance, id).

    ids : of the points (m,). within : as in `DensePoints.nearest`.
    """
    distances, nearest = np.full((len(queries), k), np.inf), np.full((len(queries), k), EMPTY)
    center = points.mean(axis=0, dtype=np.float64)
    Z = points - center
    largest = float(np.abs(Z).max(initial=0.0))
    scale = 2.0 ** -np.ceil(np.log2(largest)) if largest > 0 else 1.0  # a power of two, against overflow
    Z *= scale
    lengths = np.einsum("ij,ij->i", Z, Z)
    # The product, and each length, is off by at most (d + 3) 2^-53 (|q|^2 + |z|^2) (Higham, section 3.1).
    share = 8 * (points.shape[1] + 8) * 2.0**-53
    height = max(1, PAIRS_AT_ONCE // max(1, len(points)))
    for start in range(0, len(queries), height):
        block = slice(start, start + height)
        Q = (queries[block] - center) * scale
        norms = np.einsum("ij,ij->i", Q, Q)[:, None]
        about = norms + lengths - 2 * (Q @ Z.T)
        others = query_ids[block][:, None] != ids
        about[~others] = np.inf
        room = share * (norms + lengths.max(initial=0.0))
        limit = np.full_like(norms, np.inf) if within is None else within[block][:, None] * scale**2
        if k < len(points):
            limit = np.minimum(limit, np.partition(about, k - 1, axis=1)[:, k - 1:k] + room)
        row, column = np.nonzero((about <= limit + room) & others)
        squared = squared_distances_of(queries[block], points, row, column)
        if within is not None:
            near = squared <= within[block][row]
            row, column, squared = row[near], column[near], squared[near]
        order = np.lexsort((ids[column], squared, row))
        row, column, squared = row[order], column[order], squared[order]
        place = np.arange(len(row)) - np.searchsorted(row, row)
        first = place < k
        distances[start + row[first], place[first]] = squared[first]
        nearest[start + row[first], place[first]] = ids[column[first]]
    return distances, nearest

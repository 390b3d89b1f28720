"""Two coordinates of a few points, in which those that few and short steps join are near: pieces of a picture.

The distance of two points is the length of the shortest path along the edges, and the coordinates are the principal
ones of these distances (Isomap), from a few points that serve as landmarks; without edges, of the distances themselves.

References
----------
Tenenbaum, de Silva, Langford, "A global geometric framework for nonlinear dimensionality reduction", Science 2000; de
Silva, Tenenbaum, "Sparse multidimensional scaling using landmark points", 2004.
"""

from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components, dijkstra

from ..storage.blocks import row_ranges

LANDMARKS = 100
BLOCK = 256  # rows of distances at a time


def nearest_edges(distances: np.ndarray, k: int) -> np.ndarray:
    """Return the edges (e, 2), i < j, between points and the k nearest of each, from all distances (s, s)."""
    s = len(distances)
    k, near = max(0, min(k, s - 1)), list[np.ndarray]()
    for start, stop in row_ranges(s, BLOCK):
        apart = distances[start:stop].copy()
        apart[np.arange(stop - start), np.arange(start, stop)] = np.inf
        near.append(np.argsort(apart, axis=1, kind="stable")[:, :k])
    return _pairs(np.repeat(np.arange(s), k), np.concatenate(near).ravel())


def edges_of(W: sp.csr_array) -> np.ndarray:
    """Return the edges (e, 2), i < j, of symmetric weights."""
    entries = W.tocoo()
    return _pairs(*entries.coords)


def _pairs(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    pairs = np.sort(np.stack([first, second], axis=1), axis=1)
    return np.unique(pairs[pairs[:, 0] < pairs[:, 1]].reshape(-1, 2), axis=0)


def plane_coordinates(distances: np.ndarray, edges: np.ndarray) -> np.ndarray:
    """Return the coordinates (s, 2) of points of which all distances (s, s) are known; without edges, of these alone.

    Pieces that no edge joins are set side by side, the largest first. Cost: shortest paths from `LANDMARKS` points of
    each piece, and s^2. Equal on every machine up to rounding.
    """
    s = len(distances)
    if not len(edges):
        chosen = _landmarks(s)
        return _principal(distances[chosen], chosen)
    lengths = distances[edges[:, 0], edges[:, 1]].astype(float)
    floor = 1e-6 * float(lengths.mean()) or 1.0  # a length of 0 is no edge of a sparse matrix
    path = sp.csr_array((np.maximum(lengths, floor), edges.T), shape=(s, s))
    count, component = connected_components(path, directed=False)
    pieces = sorted((np.flatnonzero(component == number) for number in range(count)),
                    key=lambda piece: (-len(piece), piece[0]))
    places = np.zeros((s, 2))
    for piece in pieces:
        chosen = _landmarks(len(piece))
        places[piece] = _principal(dijkstra(path[piece][:, piece], directed=False, indices=chosen), chosen)
    return places if count == 1 else _side_by_side(places, pieces)


def _landmarks(s: int) -> np.ndarray:
    return np.unique(np.linspace(0, s - 1, min(s, LANDMARKS)).astype(int))


def _side_by_side(places: np.ndarray, pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Return places (s, 2) with pieces moved into rows, from left to right and from above, each within its own box."""
    boxes = np.array([np.ptp(places[piece], axis=0) for piece in pieces])
    gap = 0.08 * float(boxes.max()) or 1.0
    across = max(1.2 * np.sqrt(((boxes[:, 0] + gap) * (boxes[:, 1] + gap)).sum()), boxes[0, 0] + gap)
    moved, x, y, height = np.zeros_like(places), 0.0, 0.0, 0.0
    for piece, (width, tall) in zip(pieces, boxes, strict=True):
        if x > 0 and x + width > across:
            x, y, height = 0.0, y - height - gap, 0.0
        low = places[piece].min(axis=0)
        moved[piece] = places[piece] - low + [x, y - tall]
        x, height = x + width + gap, max(height, tall)
    return moved


def _principal(distances: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """Return principal coordinates (s, 2) from distances (l, s) to landmarks, whose numbers are `chosen`."""
    squared = np.minimum(distances.astype(float), np.finfo(np.float32).max) ** 2
    among = squared[:, chosen]
    among = (among + among.T) / 2
    means = among.mean(axis=1)
    B = -0.5 * (among - means[:, None] - means + means.mean())
    values, vectors = np.linalg.eigh(B)
    values, vectors = values[::-1][:2], vectors[:, ::-1][:, :2]
    coordinates = np.zeros((squared.shape[1], 2))
    for column in range(len(values)):
        if values[column] > 1e-12 * max(float(values[0]), 1e-300):
            own_column = -0.5 * vectors[:, column] / np.sqrt(values[column]) @ (squared - means[:, None])
            coordinates[:, column] = own_column * (np.sign(own_column[np.abs(own_column).argmax()]) or 1.0)
    return coordinates

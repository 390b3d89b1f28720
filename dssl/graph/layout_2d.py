"""A layout of a few points in the plane by landmark Isomap.

The distance of two points is the length of the shortest path along the edges, and the layout has the two principal
coordinates of these distances, from a few landmarks. Without edges the distances themselves are taken.

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
    """Return the layout (s, 2) of points with distances (s, s) and edges (e, 2).

    Connected components are set side by side, the largest first. Cost: shortest paths from `LANDMARKS` points of each
    component, and s^2. Equal on every machine up to rounding.
    """
    s = len(distances)
    if not len(edges):
        landmarks = _landmarks(s)
        return _principal(distances[landmarks], landmarks)
    lengths = distances[edges[:, 0], edges[:, 1]].astype(float)
    floor = 1e-6 * float(lengths.mean()) or 1.0  # a length of 0 is no edge of a sparse matrix
    path = sp.csr_array((np.maximum(lengths, floor), edges.T), shape=(s, s))
    count, component = connected_components(path, directed=False)
    pieces = sorted((np.flatnonzero(component == number) for number in range(count)),
                    key=lambda piece: (-len(piece), piece[0]))
    positions = np.zeros((s, 2))
    for piece in pieces:
        landmarks = _landmarks(len(piece))
        positions[piece] = _principal(dijkstra(path[piece][:, piece], directed=False, indices=landmarks), landmarks)
    return positions if count == 1 else _side_by_side(positions, pieces)


def _landmarks(s: int) -> np.ndarray:
    return np.unique(np.linspace(0, s - 1, min(s, LANDMARKS)).astype(int))


def _side_by_side(positions: np.ndarray, pieces: Sequence[np.ndarray]) -> np.ndarray:
    """Return positions (s, 2) with the components arranged in rows of boxes, from left to right and top to bottom."""
    boxes = np.array([np.ptp(positions[piece], axis=0) for piece in pieces])
    margin = 0.08 * float(boxes.max()) or 1.0
    across = max(1.2 * np.sqrt(((boxes[:, 0] + margin) * (boxes[:, 1] + margin)).sum()), boxes[0, 0] + margin)
    moved, x, y, height = np.zeros_like(positions), 0.0, 0.0, 0.0
    for piece, (width, tall) in zip(pieces, boxes, strict=True):
        if x > 0 and x + width > across:
            x, y, height = 0.0, y - height - margin, 0.0
        low = positions[piece].min(axis=0)
        moved[piece] = positions[piece] - low + [x, y - tall]
        x, height = x + width + margin, max(height, tall)
    return moved


def _principal(distances: np.ndarray, landmarks: np.ndarray) -> np.ndarray:
    """Return principal coordinates (s, 2) from distances (l, s) to landmarks, whose numbers are `landmarks`."""
    squared = np.minimum(distances.astype(float), np.finfo(np.float32).max) ** 2
    between = squared[:, landmarks]
    between = (between + between.T) / 2
    means = between.mean(axis=1)
    B = -0.5 * (between - means[:, None] - means + means.mean())
    values, vectors = np.linalg.eigh(B)
    values, vectors = values[::-1][:2], vectors[:, ::-1][:, :2]
    coordinates = np.zeros((squared.shape[1], 2))
    for column in range(len(values)):
        if values[column] > 1e-12 * max(float(values[0]), 1e-300):
            coordinate = -0.5 * vectors[:, column] / np.sqrt(values[column]) @ (squared - means[:, None])
            coordinates[:, column] = coordinate * (np.sign(coordinate[np.abs(coordinate).argmax()]) or 1.0)
    return coordinates

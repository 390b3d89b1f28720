"""Union-find over rows of stored weights; each root is the first vertex of its component, whose counts are stored."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numba import njit

from ..storage.blocks import Parts, Rows, row_ranges
from .weights.build import id_type


@njit(nogil=True, cache=True)
def root_of(parent, i):
    """Return the root of i, halving the path to it."""
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(nogil=True, cache=True)
def join_rows(parent, first, start, indices, indptr):
    """Join each row of a block with the vertices before it that it has an edge to; parent[0] is of vertex `first`.

    start : the vertex of the block's first row. Edges to vertices before `first` are left out.
    """
    for row in range(len(indptr) - 1):
        root = root_of(parent, start - first + row)
        for entry in range(indptr[row], indptr[row + 1]):
            if first <= indices[entry] < start + row:
                other = root_of(parent, indices[entry] - first)
                if other < root:
                    parent[root] = other
                    root = other
                else:
                    parent[other] = root


@njit(nogil=True, cache=True)
def flatten(parent):
    """Replace the parent of each vertex by its root; no vertex comes before its parent."""
    for i in range(len(parent)):
        parent[i] = parent[parent[i]]


@njit(nogil=True, cache=True)
def number_components(parent):
    """Replace the parent of each vertex by the number of its component; return the number of components."""
    count = 0
    for i in range(len(parent)):
        if parent[i] == i:
            parent[i] = -1 - count
            count += 1
        else:
            parent[i] = parent[parent[i]]  # an earlier one, which has its number
    for i in range(len(parent)):
        parent[i] = -1 - parent[i]
    return count


# ---- what is known of components


MAX_LISTED = 10  # of the largest components


@dataclass(frozen=True)
class ComponentArrays:
    """Where what is known of each vertex goes, and how many points each stands for.

    The shared arrays `component` (v,), its number; `points` (v,), those of the component; `isolated` (v,), whether the
    component is this vertex.

    multiplicity : (v,), the points of each vertex; None for one each.
    """

    parts: Parts
    v: int
    height: int
    multiplicity: Rows | None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return the blocks of vertices."""
        return row_ranges(self.v, self.height)

    def allocate(self) -> None:
        """Create the arrays."""
        for name, dtype in (("component", id_type(self.v)), ("points", np.int64), ("isolated", np.bool_)):
            self.parts.allocate(name, (self.v,), dtype, self.height)

    def count(self, labels: np.ndarray, count: int, blocks: Sequence[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
        """Return the points and the vertices (c,) of components, which are `own` of the vertices of some blocks."""
        points, vertices = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for part, start, stop in _within(labels, blocks):
            np.add.at(vertices, part, 1)
            np.add.at(points, part, 1 if self.multiplicity is None else self.multiplicity.read(start, stop))
        return points, vertices

    def write(self, labels: np.ndarray, blocks: Sequence[tuple[int, int]], points: np.ndarray, vertices: np.ndarray,
              number: np.ndarray | None = None) -> None:
        """Write what is known of the vertices of some blocks; number (c,) : of each component, its place by default."""
        for part, start, _ in _within(labels, blocks):
            self.parts.write_range(start, {"component": part if number is None else number[part],
                                           "points": points[part], "isolated": vertices[part] == 1})


def _within(array: np.ndarray, blocks: Sequence[tuple[int, int]]) -> Iterator[tuple[np.ndarray, int, int]]:
    """Yield what of an array lies in each of some blocks that follow each other, and these."""
    begin = blocks[0][0]
    for start, stop in blocks:
        yield array[start - begin:stop - begin], start, stop


def described(points: np.ndarray, vertices: np.ndarray) -> dict[str, int | list[int]]:
    """Return how many components there are, of one vertex too, and the `points` of the largest; JSON."""
    return {"components": len(points), "isolated": int((vertices == 1).sum()),
            "largest": np.sort(points)[::-1][:MAX_LISTED].tolist()}

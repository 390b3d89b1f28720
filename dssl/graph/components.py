"""Connected components of stored weights, by union-find over their rows, a block at a time.

One task holds 4 bytes a vertex (8 from 2^31 on) and a block of columns: 400 MB for 100 million vertices. Each root is
the first vertex of its component, so that components are numbered in the order of these.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from ..storage.blocks import Parts, PartWriter, Receipt, Rows, row_ranges
from .weights import id_type


@njit(nogil=True, cache=True)
def _root(parent, i):
    while parent[i] != i:
        parent[i] = parent[parent[i]]
        i = parent[i]
    return i


@njit(nogil=True, cache=True)
def _join(parent, start, indices, indptr):
    """Join each row of a block with the vertices before it that it has an edge to."""
    for row in range(len(indptr) - 1):
        mine = _root(parent, start + row)
        for entry in range(indptr[row], indptr[row + 1]):
            if indices[entry] < start + row:
                other = _root(parent, indices[entry])
                if other < mine:
                    parent[mine] = other
                    mine = other
                else:
                    parent[other] = mine


@njit(nogil=True, cache=True)
def _number(parent):
    """Write the number of each vertex's component in its place, and return how many there are."""
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


@dataclass(frozen=True)
class ComponentsTask:
    """Write the shared array `component` (v,), and the `points` and `vertices` of each component, (c,).

    multiplicity : (v,), the points of each vertex; None for one each.
    """

    weights: Parts
    v: int
    height: int
    multiplicity: Rows | None

    def __call__(self, out: PartWriter) -> Receipt:
        ranges = row_ranges(self.v, self.height)
        parent = np.arange(self.v, dtype=id_type(self.v))
        for index, (start, _) in enumerate(ranges):
            block = self.weights.read(index, ["indices", "indptr"])
            _join(parent, start, block["indices"], block["indptr"])
        count = _number(parent)
        points, vertices = np.zeros(count, np.int64), np.zeros(count, np.int64)
        for start, stop in ranges:
            own = parent[start:stop]
            np.add.at(vertices, own, 1)
            np.add.at(points, own, 1 if self.multiplicity is None else self.multiplicity.read(start, stop))
            out.parts.write_range(start, {"component": own})
        return {**out.write(points=points, vertices=vertices), "components": count}

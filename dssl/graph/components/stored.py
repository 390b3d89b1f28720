"""Connected components of stored weights, by union-find over their rows, a block at a time.

Each root is the first vertex of its component, so that components are numbered in the order of these. One task finds
them where `WHOLE_BYTES` a vertex fit it; of larger graphs they are found by ranges of vertices
(`ranges.py`), with the same result.
"""

from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ...execution.cost import Cost, block_count, bucket_requests, cost_of
from ...execution.tasks import Execution
from ...storage.blocks import Parts, PartWriter, Receipt, Rows, arrays_within
from ..weights.build import id_type
from .arrays import MAX_LISTED, ComponentArrays, described
from .ranges import LINK_BYTES, RANGE_BYTES, join_ranges, range_blocks
from .union_find import join_rows, number_components

FEW_VERTICES = 4096  # which SciPy joins as fast as compiled code is loaded
WHOLE_BYTES = 40  # of one task, a vertex, where each is a component: its number, two counts, one of these sorted


@dataclass(frozen=True)
class ComponentsTask:
    """Find the components of all vertices, and write what `ComponentArrays` says."""

    weights: Parts
    arrays: ComponentArrays

    def __call__(self, out: PartWriter) -> Receipt:
        blocks = self.arrays.ranges
        count, component = self._few() if self.arrays.v <= FEW_VERTICES else self._joined()
        points, vertices = self.arrays.count(component, count, blocks)
        self.arrays.write(component, blocks, points, vertices)
        return described(points, vertices)

    def _few(self) -> tuple[int, np.ndarray]:
        """Return the number of components and that of each vertex, by SciPy, which holds the whole graph."""
        v, blocks = self.arrays.v, [self.weights.read(index, ["indices", "indptr"])
                                    for index in range(len(self.arrays.ranges))]
        indices = np.concatenate([block["indices"] for block in blocks])
        starts = np.cumsum([0, *np.concatenate([np.diff(block["indptr"]) for block in blocks])])
        count, component = connected_components(sp.csr_array((np.ones(len(indices)), indices, starts), (v, v)),
                                                directed=False)
        return count, component.astype(id_type(v))

    def _joined(self) -> tuple[int, np.ndarray]:
        """Return the same, a block at a time."""
        parent = np.arange(self.arrays.v, dtype=id_type(self.arrays.v))
        for index, (start, _) in enumerate(self.arrays.ranges):
            block = self.weights.read(index, ["indices", "indptr"])
            join_rows(parent, 0, start, block["indices"], block["indptr"])
        return number_components(parent), parent


@dataclass(frozen=True)
class Components:
    """The components of a graph: their number, those of one vertex, the points of the largest; and their vertices'."""

    count: int
    isolated: int
    largest: list[int]
    arrays: ComponentArrays


def in_one_task(v: int, height: int, budget: int) -> bool:
    """Return whether one task finds the components of v vertices, stored in blocks of `height`."""
    return WHOLE_BYTES * v <= arrays_within(budget) or v <= height


def find_components(weights: Parts, v: int, height: int, multiplicity: Rows | None, execution: Execution,
                    parts: Parts) -> Components:
    """Return the components of a graph of v vertices, whose rows `weigh` stored in blocks of `height`.

    multiplicity : (v,), the points that each vertex stands for; None for one each. What is known of each vertex is
    written to `parts` (see `ComponentArrays`).
    """
    arrays = ComponentArrays(parts, v, height, multiplicity)
    arrays.allocate()
    if in_one_task(v, height, execution.memory_budget):
        receipts = execution.map([ComponentsTask(weights, arrays)], parts)
    else:
        receipts = join_ranges(weights, arrays, execution, parts)
    largest = sorted((points for receipt in receipts for points in receipt["largest"]), reverse=True)[:MAX_LISTED]
    count = sum(receipt["components"] for receipt in receipts)
    return Components(count, sum(receipt["isolated"] for receipt in receipts), largest, arrays)


def components_cost(v: int, height: int, nnz: int, budget: int) -> Cost:
    """Return what finding the components takes; links are counted as if all edges left their blocks, once each."""
    if in_one_task(v, height, budget):
        return cost_of(1, 4 * nnz, 13 * v, WHOLE_BYTES * v)
    blocks = range_blocks(v, height, budget)
    ranges = block_count(v, blocks * height)
    peak = max(RANGE_BYTES * min(v, blocks * height), budget // 4 + LINK_BYTES * (nnz // v) * height)
    return cost_of(block_count(v, height) + 2 * ranges, 12 * nnz + 60 * v, 8 * nnz + 73 * v, peak,
                   extra_requests=bucket_requests((ranges, ranges)))

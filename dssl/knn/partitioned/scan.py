"""A scan of all pairs of rows by their coordinates, by matrix products: in the same time whatever the rows are.

With both rows relative to the mean of a tile of near queries, |q - z|^2 = |q|^2 - 2 (q z - |z|^2 / 2): the largest
products belong to the nearest rows, and near rows lose few digits in the difference.
"""

from dataclasses import dataclass

import numpy as np
from numba import njit

from ...execution.exchange.shuffle import scatter
from ...storage.blocks import PartWriter, Receipt, row_ranges
from ..heap import EMPTY, empty_heaps, sift_down
from ..squared_distances import candidate_distances
from .join_tasks import numbers_of, within
from .permutation import PermutedRows

QUERY_ROWS, POINT_ROWS = 256, 512  # rows of a product


@njit(nogil=True, cache=True)
def _keep_largest(products, first_query, first_point, values, ids):
    """Update the largest products of each query, as heaps (q, k) of negative products, with ids of their points."""
    for row in range(products.shape[0]):
        line, heap, heap_ids = products[row], values[row], ids[row]
        smallest = np.float32(-heap[0])
        for column in range(products.shape[1]):
            if line[column] > smallest and first_point + column != first_query + row:
                heap[0], heap_ids[0] = -np.float64(line[column]), first_point + column
                sift_down(heap, heap_ids, 0, heap.shape[0])
                smallest = np.float32(-heap[0])


def scan(queries: np.ndarray, first_query: int, points: np.ndarray, first_point: int, values: np.ndarray,
         ids: np.ndarray) -> None:
    """Update the heaps (q, k) of the queries (q, a) with points (p, a); both have consecutive numbers.

    values, ids : as of `_keep_largest`; all points must be scanned with the same queries, whose medians are subtracted.
    """
    for start, stop in row_ranges(len(queries), QUERY_ROWS):
        center = np.median(queries[start:stop], axis=0)  # which no outlier moves
        tile = np.append(queries[start:stop] - center, np.ones((stop - start, 1), np.float32), axis=1)
        for low, high in row_ranges(len(points), POINT_ROWS):
            near = np.empty((high - low, tile.shape[1]), np.float32)
            np.subtract(points[low:high], center, out=near[:, :-1])
            near[:, -1] = np.einsum("ij,ij->i", near[:, :-1], near[:, :-1]) / -2
            _keep_largest(tile @ near.T, first_query + start, first_point + low, values[start:stop], ids[start:stop])


@dataclass(frozen=True)
class ScanTask:
    """Find the nearest of all rows to each row of a block, by coordinates, and send them to the block itself.

    entries : candidates of each row. max_nearby_rows : rows in memory at a time beside those of the block.
    """

    ordered: PermutedRows
    entries: int
    max_nearby_rows: int
    block: int

    def __call__(self, out: PartWriter) -> Receipt:
        positions, seen = self.ordered.positions, self.ordered.parts.rows("seen")
        start, stop = positions.span(self.block)
        queries = seen.read(start, stop)
        values, ids = empty_heaps(len(queries), self.entries)
        for block in range(len(positions.counts)):
            first, last = positions.span(block)
            for low, high in row_ranges(last - first, self.max_nearby_rows):
                scan(queries, start, seen.read(first + low, first + high), first + low, values, ids)
        del values
        ids = np.where(ids == EMPTY, -1, ids).astype(np.int32)
        distances = np.empty(ids.shape, np.float32)
        for run, used in within(np.arange(len(ids)), [ids], self.max_nearby_rows):
            distances[run] = candidate_distances(queries[run], seen.take(used), numbers_of(ids[run], used))
        place = np.arange(start, stop, dtype=np.int32)
        return scatter(out, positions.block(place), len(positions.counts), place=place, ids=ids, distances=distances,
                       flag=np.zeros(len(place), np.uint8))

"""Exact neighbors by a tree over the layout of points (`layout.py`), for rows of few effective dimensions.

There the bounding boxes rule out most points. A query walks the tree, nearer child first. It skips every node whose
box, and every row whose leading coordinates, are farther than its k-th neighbor so far. The remaining rows are measured
in float64.
"""

import numpy as np
from numba import njit

from ..squared_distances import offer
from .layout import Coordinates, Layout, level_bounds, tree_depth

STEP = 16  # columns of `lead` between two comparisons with the limit


def float32_slack(lead_columns: int, data_columns: int) -> tuple[float, float]:
    """Return (a, b): a distance computed from float32 coordinates is below D (1 + b) + a (|q| + |t|), D the true one.

    a : rounding of the coordinates, and of the residual length, which is the root of a difference.
    b : rounding of the sum of squares.
    """
    return 2.0**-23 + float(np.sqrt(data_columns * 2.0**-52)), (lead_columns + 8) * 2.0**-23


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _box_distance(query, low, high):
    """Return the squared distance from a query to a box along the box's axes."""
    total = np.float32(0.0)
    for axis in range(low.shape[0]):
        outside = max(max(low[axis] - query[axis], query[axis] - high[axis]), np.float32(0.0))
        total += outside * outside
    return total


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def _lead_distance(query, point, axes, limit):
    """Return a partial sum of the squared differences of leading coordinates; above `limit` it may stop early."""
    total = np.float32(0.0)
    begin = 0
    while begin < axes and total <= limit:
        end = min(begin + STEP, axes)
        part = np.float32(0.0)
        for axis in range(begin, end):
            difference = query[axis] - point[axis]
            part += difference * difference
        total += part
        begin = end
    return total


@njit(nogil=True, cache=True)
def _limit(kth, scale, length, slack, relative):
    """Return the float32 bound above which a computed squared distance proves the row farther than the k-th."""
    if kth == np.inf:
        return np.float32(np.inf)
    distance = np.sqrt(kth) * scale
    # A row within the k-th distance is at most `length + distance` from the center.
    return np.float32((distance + slack * (2 * length + distance)) ** 2 * (1 + relative))


@njit(nogil=True, cache=True)
def search_tree(queries, query_ids, query_lead, query_length, rows, ids, lead, leaves, low, high, scale, slack,
                relative, distances, heap_ids, order, max_visits, max_total):
    """Update the heaps of all queries, in this order; return the number of visited rows and boxes.

    Leaf i holds the rows from leaves[i] to leaves[i + 1]. A query that stops after `max_visits` visits has near rows on
    its heap, but perhaps not the nearest. After more than `max_total` visits no further query is searched.
    """
    axes, boxed = lead.shape[1] - 1, low.shape[1]
    first_leaf = low.shape[0] // 2
    stack = np.empty(256, np.int64)
    bounds = np.empty(256, np.float32)
    terms = np.empty(queries.shape[1])
    total = 0
    for which in order:
        if total > max_total:
            break
        query, query_id = query_lead[which], query_ids[which]
        heap, heap_id = distances[which], heap_ids[which]
        limit = _limit(heap[0], scale, query_length[which], slack, relative)
        stack[0], bounds[0], top, visits = 0, np.float32(0.0), 1, 0
        while top > 0 and visits < max_visits:
            top -= 1
            if bounds[top] > limit:
                continue
            node = stack[top]
            if node < first_leaf:
                left, right = 2 * node + 1, 2 * node + 2
                left_distance = _box_distance(query[:boxed], low[left], high[left])
                right_distance = _box_distance(query[:boxed], low[right], high[right])
                visits += 2
                if left_distance <= right_distance:
                    left, right = right, left
                    left_distance, right_distance = right_distance, left_distance
                if left_distance <= limit:
                    stack[top], bounds[top] = left, left_distance
                    top += 1
                if right_distance <= limit:
                    stack[top], bounds[top] = right, right_distance
                    top += 1
                continue
            start, stop = leaves[node - first_leaf], leaves[node - first_leaf + 1]
            visits += stop - start
            for row in range(start, stop):
                if (_lead_distance(query, lead[row], axes, limit) <= limit and ids[row] != query_id
                        and offer(queries[which], rows[row], ids[row], heap, heap_id, terms)):
                    limit = _limit(heap[0], scale, query_length[which], slack, relative)
        total += visits
    return total


def nearest_by_tree(layout: Layout, queries: np.ndarray, query_ids: np.ndarray, seen: Coordinates, order: np.ndarray,
                    distances: np.ndarray, ids: np.ndarray, max_visits: int = 2**62, max_total: int = 2**62) -> int:
    """Update the heaps (q, k) of the queries with the rows of a layout; return the number of visits."""
    slack, relative = float32_slack(layout.lead.shape[1], layout.rows.shape[1])
    leaves = level_bounds(len(layout.ids), tree_depth(len(layout.ids)))
    return search_tree(queries, query_ids, seen.lead, np.sqrt(seen.norm), layout.rows, layout.ids, layout.lead, leaves,
                       layout.low, layout.high, seen.scale, slack, relative, distances, ids, order, max_visits,
                       max_total)

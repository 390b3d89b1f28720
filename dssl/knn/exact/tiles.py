"""Exact neighbors by tiles: for rows of many effective dimensions.

One matrix product of a tile of queries and a tile of points gives a lower bound of all their distances from a few
leading coordinates (`layout.py`). One pass over the product picks the pairs whose bound is below the query's k-th
distance so far; further coordinates rule out most of those; the others are measured in float64. Tiles whose box is
farther than the k-th distance of every query are left out.

The first k-th distances come from the nearest tiles: the k rows of largest product are measured, and the farthest of
them is a bound, so that few pairs of the other tiles need to be measured at all.

Work space of one search: 4 bytes x QUERY_TILE x POINT_TILE, and the heaps, 16 k bytes a query.
"""

import numpy as np
from numba import njit

from ..heap import EMPTY, empty_heaps, offer, precedes, sift_down
from ..squared_distances import float32_gap, squared_distance
from .layout import Coordinates, Layout, level_bounds, tree_depth

QUERY_TILE = 512
POINT_TILE = 1024
FIRST_TILES = 8


@njit(nogil=True, cache=True)
def _cut(kth, norm, scale, reach, gamma):
    """Return the least product that leaves a pair possible: |q|^2 - 2 product <= kth, less the rounding of float32."""
    if kth == np.inf:
        return np.float32(-np.inf)
    half = (norm - kth * scale * scale) / 2
    error = gamma * (np.sqrt(norm) * reach + reach * reach / 2) + 2.0**-21 * (norm + abs(half))
    return np.float32(half - error)


@njit(nogil=True, cache=True)
def scan_products(products, start, queries, query_ids, query_norm, query_rest, query_further, rows, ids, rest, further,
                  scale, reach, gamma, distances, heap_ids):
    """Measure every pair that its bound does not rule out; `products` (q, t) belongs to rows start, start + 1, ...

    `reach` is the largest distance of these rows from the center.
    """
    terms = np.empty(queries.shape[1])
    width = products.shape[1]
    # One comparison a byte runs in vectors; eight bytes are then skipped at a time.
    flags = np.zeros(-(-width // 8) * 8, np.uint8)
    words = flags.view(np.uint64)
    for which in range(products.shape[0]):
        heap, heap_id, line = distances[which], heap_ids[which], products[which]
        cut = _cut(heap[0], query_norm[which], scale, reach, gamma)
        for column in range(width):
            flags[column] = line[column] >= cut
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for column in range(8 * word, 8 * word + 8):
                place = start + column
                if flags[column] == 0 or line[column] < cut or ids[place] == query_ids[which]:
                    continue
                # The product held (difference of the rests)^2 in place of the further coordinates.
                room = 2 * (line[column] - cut) + (query_rest[which] - rest[place]) ** 2
                if float32_gap(query_further[which], further[place]) * np.float32(0.9999) > room:
                    continue
                if offer(queries[which], rows[place], ids[place], heap, heap_id, terms):
                    cut = _cut(heap[0], query_norm[which], scale, reach, gamma)


@njit(nogil=True, cache=True)
def largest_products(products, start, query_ids, ids, values, places):
    """Keep the places of the k largest products of each query, as heaps of their negatives (q, k)."""
    for which in range(products.shape[0]):
        line, value, place = products[which], values[which], places[which]
        least = np.float32(-value[0])
        for column in range(products.shape[1]):
            if line[column] > least and ids[start + column] != query_ids[which]:
                value[0], place[0] = -np.float64(line[column]), start + column
                sift_down(value, place, 0, value.shape[0])
                least = np.float32(-value[0])


@njit(nogil=True, cache=True)
def limit_heaps(queries, rows, places, distances, heap_ids):
    """Have each heap refuse what is farther than the farthest of k rows that exist; it holds no neighbor yet."""
    terms = np.empty(queries.shape[1])
    for which in range(queries.shape[0]):
        farthest = 0.0
        for place in places[which]:
            if place == EMPTY:
                farthest = np.inf
                break
            farthest = max(farthest, squared_distance(queries[which], rows[place], terms))
        # A little more than the bound, so that rounding refuses none of the k nearest.
        farthest *= 1 + 1e-8
        if precedes(farthest, EMPTY, distances[which, 0], heap_ids[which, 0]):
            distances[which, :] = farthest


def product_slack(lead_columns: int, data_columns: int) -> float:
    """Return gamma: a float32 product of lengths |q|, |t| is off by at most gamma (|q| |t| + |t|^2 / 2).

    Rounding of the factors and of a sum of `lead_columns` terms, and of the length of the rest, which is the
    square root of a difference (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
    """
    return (lead_columns + 24) * 2.0**-24 + 4 * float(np.sqrt(data_columns * 2.0**-52))


def nearest_by_tiles(layout: Layout, queries: np.ndarray, query_ids: np.ndarray, seen: Coordinates, order: np.ndarray,
                     distances: np.ndarray, ids: np.ndarray) -> None:
    """Improve the heaps (q, k) of the queries by the rows of a layout."""
    gamma = product_slack(layout.lead.shape[1], layout.rows.shape[1])
    n, boxed, level = len(layout.ids), layout.low.shape[1], 0
    while level < tree_depth(n) and -(-n // 2**level) > POINT_TILE:
        level += 1
    bounds, nodes = level_bounds(n, level), slice(2**level - 1, 2 ** (level + 1) - 1)
    low, high, starts, sizes = layout.low[nodes], layout.high[nodes], bounds[:-1], np.diff(bounds)
    middle = np.add.reduceat(layout.lead, starts, axis=0)[:, :boxed] / sizes[:, None]
    reach = np.sqrt(np.maximum.reduceat(layout.norm, starts))
    work = np.empty(QUERY_TILE * int(sizes.max()), np.float32)
    rest = np.ascontiguousarray(layout.lead[:, -2])
    for first in range(0, len(order), QUERY_TILE):
        mine = order[first:first + QUERY_TILE]
        lead, further, norm = seen.lead[mine], seen.further[mine], seen.norm[mine]
        tile_queries, tile_ids, tile_rest = queries[mine], query_ids[mine], lead[:, -2].copy()
        heap, heap_id = distances[mine], ids[mine]
        corner_low, corner_high = lead[:, :boxed].min(axis=0), lead[:, :boxed].max(axis=0)
        gap = np.maximum(np.maximum(low - corner_high, corner_low - high), 0).astype(np.float64)
        # Boxes are made of float32 coordinates, each off by 2^-24 of its size.
        gap = np.sqrt((gap**2).sum(axis=1)) * (1 - 2.0**-20) - gamma * (np.sqrt(norm.max()) + reach)
        nearness = ((middle - lead[:, :boxed].mean(axis=0)) ** 2).sum(axis=1)
        turn = np.lexsort((nearness, np.maximum(gap, 0)))

        def multiply(tile: int, lead: np.ndarray = lead) -> np.ndarray:
            start, stop = bounds[tile:tile + 2]
            products = work[:len(lead) * (stop - start)].reshape(len(lead), stop - start)
            return np.dot(lead, layout.lead[start:stop].T, out=products)

        if np.isinf(heap).all():  # no neighbor yet, and no bound
            values, places = empty_heaps(len(mine), heap.shape[1])
            for tile in turn[:FIRST_TILES]:
                largest_products(multiply(tile), bounds[tile], tile_ids, layout.ids, values, places)
            limit_heaps(tile_queries, layout.rows, places, heap, heap_id)
        for tile in turn:
            if gap[tile] > np.sqrt(heap[:, 0].max()) * seen.scale:
                break
            scan_products(multiply(tile), bounds[tile], tile_queries, tile_ids, norm, tile_rest, further, layout.rows,
                          layout.ids, rest, layout.further, seen.scale, reach[tile], gamma, heap, heap_id)
        distances[mine], ids[mine] = heap, heap_id

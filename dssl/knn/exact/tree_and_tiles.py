"""Exact neighbors of rows that are laid out (`layout.py`): by a tree, or by tiles of queries and points.

The tree is for rows of few effective dimensions, where bounding boxes rule out most points. A query walks it, nearer
child first. It skips every node whose box, and every row whose leading coordinates, are farther than its k-th neighbor
so far. The remaining rows are measured in float64.

Tiles are for rows of many effective dimensions. The matrix product of a tile of queries and a tile of points, in a few
leading coordinates, gives lower bounds of all distances. Pairs whose bound is below the query's k-th distance so far
are compared by further coordinates, and those that remain are measured in float64. Tiles whose box is farther than the
k-th distance of every query are skipped. Where the leading coordinates rule out too few pairs, as of noise or of rows
of many effective dimensions, the product is taken in all coordinates: its bounds are off by nothing but rounding.

The initial k-th distances come from the nearest tiles: the k rows of largest product are measured, and the farthest of
them is an upper bound. So few pairs of the other tiles are measured. Work space of a search by tiles:
`products_bytes`, and 16 k bytes a query for the heaps.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit

from ...storage.blocks import row_ranges
from ..squared_distances import (
    EMPTY,
    empty_heaps,
    float32_squared_distance,
    offer,
    precedes,
    sift_down,
    squared_distance,
)
from .layout import FAR, MAX_LEADING, Coordinates, Layout, level_bounds, tree_depth

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
                relative, distances, heap_ids, order, max_visits):
    """Update the heaps of all queries, in this order; return the number of visited rows and boxes.

    Leaf i holds the rows from leaves[i] to leaves[i + 1]. A query that stops after `max_visits` visits has near rows on
    its heap, but perhaps not the nearest.
    """
    axes, boxed = lead.shape[1] - 1, low.shape[1]
    first_leaf = low.shape[0] // 2
    stack = np.empty(256, np.int64)
    bounds = np.empty(256, np.float32)
    terms = np.empty(queries.shape[1])
    total = 0
    for which in order:
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
                    distances: np.ndarray, ids: np.ndarray, max_visits: int = 2**62) -> int:
    """Update the heaps (q, k) of the queries with the rows of a layout; return the number of visits."""
    slack, relative = float32_slack(layout.lead.shape[1], layout.rows.shape[1])
    leaves = level_bounds(len(layout.ids), tree_depth(len(layout.ids)))
    return search_tree(queries, query_ids, seen.lead, np.sqrt(seen.norm), layout.rows, layout.ids, layout.lead, leaves,
                       layout.low, layout.high, seen.scale, slack, relative, distances, ids, order, max_visits)


# ---- by tiles


QUERY_TILE = 512
POINT_TILE = 1024
FIRST_TILES, FIRST_SHARE = 8, 8  # tiles that are multiplied twice, at most and one in so many: they give first bounds
PIECE = 1 << 17  # values of rows that are centered at a time
READ_SHARE = 0.04  # of all columns of a pair: reading more takes longer than a product in all coordinates


def products_bytes(d: int) -> int:
    """Return the bytes of the products of a tile of queries of d columns with one of points, and of their rows."""
    piece = max(1, PIECE // max(d, 1))
    in_all = 4 * QUERY_TILE * (min(piece, POINT_TILE) + d) + 12 * piece * d
    return 4 * QUERY_TILE * POINT_TILE + in_all * (d > MAX_LEADING)


@njit(nogil=True, cache=True)
def _cut(kth, norm, shift, scale, reach, gamma):
    """Return the smallest product of a possible neighbor: |q|^2 - 2 product <= kth, minus float32 rounding."""
    if kth == np.inf:
        return np.float32(-np.inf)
    half = (norm - kth * scale * scale) / 2
    error = gamma * (np.sqrt(norm) * reach + reach * reach / 2) + 2.0**-21 * (norm + abs(half) + abs(shift))
    return np.float32(half + shift - error)


@njit(nogil=True, cache=True)
def scan_products(products, start, queries, query_ids, query_norm, query_rest, query_shift, query_further, rows, ids,
                  rest, further, scale, reach, gamma, distances, heap_ids):
    """Measure each pair that its bound does not rule out; `products` (q, t) are those of rows start, start + 1, ...

    `reach` is the largest length of these rows in the products, and `query_shift` (q,) the products with the center
    there. Returns how many columns were read for that.
    """
    columns_read = 0
    terms = np.empty(queries.shape[1])
    width = products.shape[1]
    # One comparison a byte runs in vectors; eight bytes are then skipped at a time.
    flags = np.zeros(-(-width // 8) * 8, np.uint8)
    words = flags.view(np.uint64)
    for which in range(products.shape[0]):
        heap, heap_id, line = distances[which], heap_ids[which], products[which]
        cut = _cut(heap[0], query_norm[which], query_shift[which], scale, reach, gamma)
        for column in range(width):
            flags[column] = not line[column] < cut
        for word in range(words.shape[0]):
            if words[word] == 0:
                continue
            for column in range(8 * word, 8 * word + 8):
                row = start + column
                if flags[column] == 0 or line[column] < cut or ids[row] == query_ids[which]:
                    continue
                columns_read += further.shape[1]
                # The product has (difference of the residual lengths)^2 in place of the further coordinates.
                room = 2 * (line[column] - cut) + (query_rest[which] - rest[row]) ** 2
                if float32_squared_distance(query_further[which], further[row]) * np.float32(0.9999) > room:
                    continue
                columns_read += queries.shape[1]
                if offer(queries[which], rows[row], ids[row], heap, heap_id, terms):
                    cut = _cut(heap[0], query_norm[which], query_shift[which], scale, reach, gamma)
    return columns_read


@njit(nogil=True, cache=True)
def largest_products(products, start, query_ids, ids, values, rows):
    """Update the k largest products of each query and their rows (q, k), as heaps of negative products."""
    for which in range(products.shape[0]):
        line, heap_values, heap_rows = products[which], values[which], rows[which]
        smallest = np.float32(-heap_values[0])
        for column in range(products.shape[1]):
            if line[column] > smallest and ids[start + column] != query_ids[which]:
                heap_values[0], heap_rows[0] = -np.float64(line[column]), start + column
                sift_down(heap_values, heap_rows, 0, heap_values.shape[0])
                smallest = np.float32(-heap_values[0])


@njit(nogil=True, cache=True)
def limit_heaps(queries, rows, candidates, distances, heap_ids):
    """Limit empty heaps to the distance of the farthest of k candidates, an upper bound of the k-th distance."""
    terms = np.empty(queries.shape[1])
    for which in range(queries.shape[0]):
        farthest = 0.0
        for row in candidates[which]:
            if row == EMPTY:
                farthest = np.inf
                break
            farthest = max(farthest, squared_distance(queries[which], rows[row], terms))
        # A little more than the bound, so that rounding rejects none of the k nearest.
        farthest *= 1 + 1e-8
        if precedes(farthest, EMPTY, distances[which, 0], heap_ids[which, 0]):
            distances[which, :] = farthest


def product_slack(lead_columns: int, data_columns: int) -> float:
    """Return gamma: a float32 product of lengths |q|, |t| is off by at most gamma (|q| |t| + |t|^2 / 2).

    It covers the rounding of the factors, of a sum of `lead_columns` terms, and of the residual length, which is the
    square root of a difference (Higham, Accuracy and Stability of Numerical Algorithms, section 3.1).
    """
    return (lead_columns + 24) * 2.0**-24 + 4 * float(np.sqrt(data_columns * 2.0**-52))


def centered_pieces(rows: np.ndarray, layout: Layout) -> Iterator[tuple[int, np.ndarray]]:
    """Yield the number of the first of some rows (r, d), and these less the center, in float32, times the scale."""
    for start, stop in row_ranges(len(rows), max(1, PIECE // rows.shape[1])):
        piece = rows[start:stop].astype(np.float64)
        piece -= layout.center
        piece *= layout.scale
        # Cut as by `project`: such queries are nearer to all points by that, and their true norm counts.
        yield start, np.clip(piece, -FAR, FAR, out=piece).astype(np.float32)


def centered(rows: np.ndarray, layout: Layout) -> np.ndarray:
    """Return all rows (r, d) as `centered_pieces` does."""
    made = np.empty(rows.shape, np.float32)
    for start, piece in centered_pieces(rows, layout):
        made[start:start + len(piece)] = piece
    return made


def _takes_rows(layout: Layout) -> bool:
    """Return whether products in all coordinates are of the rows themselves, which need not be centered then.

    They are in float32, of a size that does not overflow, and the center is no farther from the origin than rows may be
    from the center, since what products round grows with the lengths of rows.
    """
    return (layout.rows.dtype == np.float32 and 2.0**-60 < layout.scale < 2.0**60
            and float(np.linalg.norm(layout.center)) * layout.scale <= 1)


@dataclass(frozen=True, eq=False)
class _Queries:
    """A tile of queries for `scan_products`: coordinates (q, a) float32, rest and shift (q,), and further (q, b)."""

    coordinates: np.ndarray
    rest: np.ndarray
    shift: np.ndarray
    further: np.ndarray

    @classmethod
    def in_all(cls, queries: np.ndarray, layout: Layout, takes_rows: bool) -> "_Queries":
        """Return queries (q, d) where no coordinate is left out; takes_rows : see `_takes_rows`."""
        coordinates, n = centered(queries, layout), len(queries)
        shift = np.zeros(n)
        if takes_rows:
            coordinates *= np.float32(layout.scale)  # the rows are not scaled
            shift = np.einsum("ij,j->i", coordinates, layout.center)
        return cls(coordinates, np.zeros(n, np.float32), shift, np.zeros((n, 0), np.float32))


def nearest_by_tiles(layout: Layout, queries: np.ndarray, query_ids: np.ndarray, seen: Coordinates, order: np.ndarray,
                     distances: np.ndarray, ids: np.ndarray) -> None:
    """Update the heaps (q, k) of the queries with the rows of a layout."""
    d = layout.rows.shape[1]
    gamma, gamma_all = product_slack(layout.lead.shape[1], d), product_slack(d, d)
    in_all, columns_read, pairs = False, 0, 0
    n, boxed, level = len(layout.ids), layout.low.shape[1], 0
    while level < tree_depth(n) and -(-n // 2**level) > POINT_TILE:
        level += 1
    bounds, nodes = level_bounds(n, level), slice(2**level - 1, 2 ** (level + 1) - 1)
    low, high, starts, sizes = layout.low[nodes], layout.high[nodes], bounds[:-1], np.diff(bounds)
    middle = np.add.reduceat(layout.lead, starts, axis=0)[:, :boxed] / sizes[:, None]
    reach = np.sqrt(np.maximum.reduceat(layout.norm, starts))
    work = np.empty(QUERY_TILE * int(sizes.max()), np.float32)
    takes_rows = _takes_rows(layout)
    of_points = np.ascontiguousarray(layout.lead[:, -2]), layout.further, gamma, reach
    for first in range(0, len(order), QUERY_TILE):
        queried_rows = order[first:first + QUERY_TILE]
        lead, further, norm = seen.lead[queried_rows], seen.further[queried_rows], seen.norm[queried_rows]
        tile_queries, tile_ids, tile_rest = queries[queried_rows], query_ids[queried_rows], lead[:, -2].copy()
        heap, heap_id = distances[queried_rows], ids[queried_rows]
        corner_low, corner_high = lead[:, :boxed].min(axis=0), lead[:, :boxed].max(axis=0)
        box_distance = np.maximum(np.maximum(low - corner_high, corner_low - high), 0).astype(np.float64)
        # Boxes are made of float32 coordinates, each off by 2^-24 of its size.
        box_distance = np.sqrt((box_distance**2).sum(axis=1)) * (1 - 2.0**-20) - gamma * (np.sqrt(norm.max()) + reach)
        nearness = ((middle - lead[:, :boxed].mean(axis=0)) ** 2).sum(axis=1)
        tile_order = np.lexsort((nearness, np.maximum(box_distance, 0)))

        def multiply(tile: int, coordinates: np.ndarray, in_all: bool) -> np.ndarray:
            start, stop = bounds[tile:tile + 2]
            products = work[:len(coordinates) * (stop - start)].reshape(len(coordinates), stop - start)
            with np.errstate(invalid="ignore"):  # narrow kernels of BLAS compute on lanes that nobody has filled
                if not in_all:
                    return np.dot(coordinates, layout.lead[start:stop].T, out=products)
                if takes_rows:
                    np.matmul(coordinates, layout.rows[start:stop].T, out=products)
                else:
                    for at, points in centered_pieces(layout.rows[start:stop], layout):
                        np.matmul(coordinates, points.T, out=products[:, at:at + len(points)])
            products -= (layout.norm[start:stop] / 2).astype(np.float32)
            return products

        of_queries = _Queries.in_all(tile_queries, layout, takes_rows) if in_all else _Queries(
            lead, tile_rest, np.zeros(len(lead)), further)
        if np.isinf(heap).all():  # no neighbor yet, and no bound
            values, candidates = empty_heaps(len(queried_rows), heap.shape[1])
            enough = int(np.searchsorted(np.cumsum(sizes[tile_order]), heap.shape[1])) + 1  # that hold k others
            for tile in tile_order[:min(FIRST_TILES, max(enough, len(sizes) // FIRST_SHARE))]:
                largest_products(multiply(tile, of_queries.coordinates, in_all), bounds[tile], tile_ids, layout.ids,
                                 values, candidates)
            limit_heaps(tile_queries, layout.rows, candidates, heap, heap_id)
        for tile in tile_order:
            if box_distance[tile] > np.sqrt(heap[:, 0].max()) * seen.scale:
                break
            rest, further_of_points, slack, lengths = of_points
            products = multiply(tile, of_queries.coordinates, in_all)
            columns_read += scan_products(
                products, bounds[tile], tile_queries, tile_ids, norm, of_queries.rest, of_queries.shift,
                of_queries.further, layout.rows, layout.ids, rest, further_of_points, seen.scale, lengths[tile], slack,
                heap, heap_id)
            pairs += products.size
            allowed = READ_SHARE * d * max(pairs, FIRST_TILES * products.size)
            if not in_all and d > MAX_LEADING and columns_read > allowed:
                in_all, of_queries = True, _Queries.in_all(tile_queries, layout, takes_rows)
                no_columns = np.zeros((n, 0), np.float32)
                no_columns.flags.writeable = False  # as those of the layout, for which Numba has compiled the scan
                of_center = float(np.linalg.norm(layout.center)) * layout.scale if takes_rows else 0.0
                of_points = np.zeros(n, np.float32), no_columns, gamma_all, reach + of_center
        distances[queried_rows], ids[queried_rows] = heap, heap_id

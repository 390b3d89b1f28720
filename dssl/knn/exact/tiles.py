"""Exact neighbors by tiles of queries and points of a layout (`layout.py`), for rows of many effective dimensions.

The matrix product of a tile of queries and a tile of points, in a few leading coordinates, gives lower bounds of all
distances. Pairs whose bound is below the query's k-th distance so far are compared by further coordinates, and those
that remain are measured in float64. Tiles whose box is farther than the k-th distance of every query are skipped. The
initial k-th distances come from the nearest tiles: the k rows of largest product are measured, and the farthest of them
is an upper bound. So few pairs of the other tiles are measured.

Where the leading coordinates are all, or rule out too few pairs, as of noise or of rows of many effective dimensions,
the product is taken in all coordinates, and gives the distance but for rounding. (`leading_suffice` tells so before a
search that is not short; a search that began with the leading coordinates may still change.) So each tile is multiplied
once. The rows of the `SPARE` + k largest products are kept, and those are measured that may be among the nearest. A
query for which more rows may be than are kept, as among duplicates, is searched by bounds again.

Work space: `products_bytes`, and 16 k bytes a query for the heaps.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields

import numpy as np
from numba import njit
from numba.extending import register_jitable

from ...storage.blocks import row_ranges
from ..squared_distances import EMPTY, empty_heaps, float32_squared_distance, limit_heaps, offer, sift_down, sort_heaps
from .layout import FAR, MAX_LEADING, Coordinates, Layout, level_bounds, project, tree_depth

QUERY_TILE = 512
POINT_TILE = 1024
FIRST_TILES, FIRST_SHARE = 8, 8  # tiles that are multiplied twice, at most and one in so many: they give first bounds
GROUP = 32  # products that are compared at once
PILOT_ROWS = 64  # of the points, side by side, that tell whether leading coordinates rule out enough
PIECE = 1 << 17  # values of rows that are centered at a time
SPARE = 6  # rows of large products that are kept beside k, among which rounding may have put the k nearest
READ_SHARE = 0.05  # of the columns that products leave out: to read more of a pair takes longer than to multiply all
Near = list[tuple[int, float]]  # tiles from near to far, and a lower bound of their distances from queries


def products_bytes(d: int) -> int:
    """Return the bytes of the products of a tile of queries of d columns with one of points, and of their rows."""
    piece = max(1, PIECE // max(d, 1))
    in_all = 4 * QUERY_TILE * (min(piece, POINT_TILE) + d) + 12 * piece * d
    return 4 * QUERY_TILE * POINT_TILE + in_all * (d > MAX_LEADING)


@register_jitable
def _rounding(half, norm, shift, reach, gamma):
    """Return what float32 rounds at most of a product less its half, for points up to `reach` from the center."""
    return gamma * (np.sqrt(norm) * reach + reach * reach / 2) + 2.0**-21 * (norm + np.abs(half) + np.abs(shift))


@njit(nogil=True, cache=True)
def _cut(kth, norm, shift, scale, reach, gamma):
    """Return the smallest product of a possible neighbor: |q|^2 - 2 product <= kth, minus float32 rounding."""
    if kth == np.inf:
        return np.float32(-np.inf)
    half = (norm - kth * scale * scale) / 2
    cut = half + shift - _rounding(half, norm, shift, reach, gamma)
    return np.float32(cut) if cut > -np.inf else np.float32(-np.inf)  # NaN, where lengths overflow, rules out nothing


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
def _count(line, halves, smallest):
    """Return how many of some numbers less halves are at least the smallest; unlike their maximum it is in vectors."""
    count = np.int32(0)
    for column in range(line.shape[0]):
        count += np.int32(line[column] - halves[column] >= smallest)
    return count


@njit(nogil=True, cache=True)
def keep_products(products, start, halves, query_ids, query_norm, query_shift, ids, scale, reach, gamma, distances,
                  values, candidates):
    """Keep the rows of the largest `products` (q, t) less `halves`, of rows start, start + 1, ..., that may be nearest.

    values, candidates (q, m) : the largest so far and their rows, as heaps of negative values.
    """
    for which in range(products.shape[0]):
        line, heap_values, heap_rows = products[which], values[which], candidates[which]
        cut = _cut(distances[which, 0], query_norm[which], query_shift[which], scale, reach, gamma)
        smallest = max(cut, np.float32(-heap_values[0]))
        for first in range(0, line.shape[0], GROUP):
            group = slice(first, min(first + GROUP, line.shape[0]))
            if not _count(line[group], halves[start + group.start:start + group.stop], smallest):
                continue
            for column in range(group.start, group.stop):
                row, value = start + column, line[column] - halves[start + column]
                if value >= cut and value > -heap_values[0] and ids[row] != query_ids[which]:
                    heap_values[0], heap_rows[0] = -np.float64(value), row
                    sift_down(heap_values, heap_rows, 0, heap_values.shape[0])
            smallest = max(cut, np.float32(-heap_values[0]))


@njit(nogil=True, cache=True)
def measure_candidates(queries, query_norm, query_shift, rows, ids, scale, reach, gamma, values, candidates, distances,
                       heap_ids):
    """Measure the candidates, largest product first, that may be nearest; return which queries have no others (q,)."""
    terms = np.empty(queries.shape[1])
    complete = np.zeros(queries.shape[0], np.bool_)
    for which in range(queries.shape[0]):
        heap, heap_id = distances[which], heap_ids[which]
        for entry in range(candidates.shape[1]):
            row, value = candidates[which, entry], np.float32(-values[which, entry])
            if row == EMPTY or value < _cut(heap[0], query_norm[which], query_shift[which], scale, reach, gamma):
                complete[which] = True
                break
            offer(queries[which], rows[row], ids[row], heap, heap_id, terms)
    return complete


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
    """A tile of queries: rows (q, d), ids (q,), norm (q,), and what products take of them.

    lead : (q, b) float32, coordinates along the axes of the tree's boxes.
    coordinates : (q, a) float32; rest and shift (q,), and further (q, e), see `scan_products`.
    """

    rows: np.ndarray
    ids: np.ndarray
    norm: np.ndarray
    lead: np.ndarray
    coordinates: np.ndarray
    rest: np.ndarray
    shift: np.ndarray
    further: np.ndarray

    def of(self, which: np.ndarray) -> "_Queries":
        """Return some of the queries."""
        return _Queries(*(getattr(self, field.name)[which] for field in fields(self)))


class _Tiles:
    """The points of a layout in tiles, which are nodes of one level of its tree, to multiply with tiles of queries.

    in_all : whether products are of the rows themselves, in all columns, and not of the leading coordinates.
    two_sided : whether products give the distances but for rounding, and so which rows to measure.
    """

    def __init__(self, layout: Layout, in_all: bool):
        n, boxed, level, d = len(layout.ids), layout.low.shape[1], 0, layout.rows.shape[1]
        while level < tree_depth(n) and -(-n // 2**level) > POINT_TILE:
            level += 1
        nodes = slice(2**level - 1, 2 ** (level + 1) - 1)
        self.layout, self.bounds = layout, level_bounds(n, level)
        self.low, self.high, self.sizes = layout.low[nodes], layout.high[nodes], np.diff(self.bounds)
        self.middle = np.add.reduceat(layout.lead, self.bounds[:-1], axis=0)[:, :boxed] / self.sizes[:, None]
        self.reach = self.lengths = np.sqrt(np.maximum.reduceat(layout.norm, self.bounds[:-1]))
        self.rest, self.further = np.ascontiguousarray(layout.lead[:, -2]), layout.further
        self.gamma = self.box_gamma = product_slack(layout.lead.shape[1], d)
        self.in_all, self.two_sided, self.takes_rows = False, layout.frame.leading == d, _takes_rows(layout)
        self.work = np.empty(QUERY_TILE * int(self.sizes.max()), np.float32)
        self.halves, self.columns_read, self.pairs = np.zeros(n, np.float32), 0, 0
        self.searched, self.again = 0, 0
        if in_all or (self.two_sided and self.takes_rows):
            self._take_all_columns()

    @property
    def by_products(self) -> bool:
        """Return whether products tell which rows to measure, for most of the queries so far."""
        return self.two_sided and 2 * self.again <= self.searched

    def queries(self, rows: np.ndarray, ids: np.ndarray, seen: Coordinates, which: np.ndarray) -> _Queries:
        """Return the queries `which` of rows (q, d) with the coordinates `seen`."""
        lead, norm, shift = seen.lead[which], seen.norm[which], np.zeros(len(which))
        boxed = lead[:, :self.low.shape[1]]
        if not self.in_all:
            return _Queries(rows[which], ids[which], norm, boxed, lead, lead[:, -2].copy(), shift, seen.further[which])
        coordinates = centered(rows[which], self.layout)
        if self.takes_rows:
            coordinates *= np.float32(self.layout.scale)  # the rows are not scaled
            shift = np.einsum("ij,j->i", coordinates, self.layout.center)
        return _Queries(rows[which], ids[which], norm, boxed, coordinates, np.zeros(len(which), np.float32), shift,
                        np.zeros((len(which), 0), np.float32))

    def by_nearness(self, queries: _Queries) -> Near:
        """Return the tiles from near to far, and a lower bound of their distances from the queries."""
        lead = queries.lead
        outside = np.maximum(np.maximum(self.low - lead.max(axis=0), lead.min(axis=0) - self.high), 0)
        # Boxes are made of float32 coordinates, each off by 2^-24 of its size.
        distance = np.sqrt((outside.astype(np.float64)**2).sum(axis=1)) * (1 - 2.0**-20) - self.box_gamma * (
            np.sqrt(queries.norm.max()) + self.reach)
        nearness = ((self.middle - lead.mean(axis=0)) ** 2).sum(axis=1)
        order = np.lexsort((nearness, np.maximum(distance, 0)))
        return list(zip(order.tolist(), distance[order].tolist(), strict=True))

    def search_by_bounds(self, queries: _Queries, tiles: Near, heap: np.ndarray, heap_id: np.ndarray) -> Near:
        """Update the heaps (q, k) with tiles from near to far; return those left once all columns are to be taken."""
        layout, (_, d) = self.layout, self.layout.rows.shape
        if np.isinf(heap).all():  # no neighbor yet, and no bound
            self._limit(queries, [tile for tile, _ in tiles], heap, heap_id)
        for place, (tile, distance) in enumerate(tiles):
            if distance > np.sqrt(heap[:, 0].max()) * layout.scale:
                break
            products = self._products(tile, queries.coordinates)
            if self.in_all:
                products -= self.halves[self.bounds[tile]:self.bounds[tile + 1]]
            self.columns_read += scan_products(
                products, self.bounds[tile], queries.rows, queries.ids, queries.norm, queries.rest, queries.shift,
                queries.further, layout.rows, layout.ids, self.rest, self.further, layout.scale, self.lengths[tile],
                self.gamma, heap, heap_id)
            self.pairs += products.size
            allowed = READ_SHARE * (d - layout.frame.leading) * max(self.pairs, FIRST_TILES * products.size)
            if not self.in_all and d > MAX_LEADING and self.columns_read > allowed:
                self._take_all_columns()
                return tiles[place + 1:]
        return []

    def search_by_products(self, queries: _Queries, tiles: Near, heap: np.ndarray, heap_id: np.ndarray) -> None:
        """Update the heaps (q, k) with tiles from near to far, from products in all coordinates."""
        layout, k, longest = self.layout, heap.shape[1], float(self.lengths.max())
        values, candidates = empty_heaps(len(heap), k + SPARE)
        for tile, distance in tiles:
            if distance > 0 and distance > _farthest(heap, values, queries, layout.scale, longest, self.gamma):
                break
            self._keep(tile, queries, heap, values, candidates)
        sort_heaps(values, candidates)
        before, before_id = heap.copy(), heap_id.copy()
        complete = measure_candidates(queries.rows, queries.norm, queries.shift, layout.rows, layout.ids, layout.scale,
                                longest, self.gamma, values, candidates, heap, heap_id)
        if not complete.all():
            again = np.flatnonzero(~complete)
            some, heaps, ids = queries.of(again), before[again], before_id[again]
            if np.isinf(heaps).all():
                limit_heaps(some.rows, layout.rows, np.ascontiguousarray(candidates[again, :k]), heaps, ids)
            self.search_by_bounds(some, tiles, heaps, ids)
            heap[again], heap_id[again] = heaps, ids
            self.again += len(again)

    def _take_all_columns(self) -> None:
        layout, (n, d) = self.layout, self.layout.rows.shape
        self.in_all = self.two_sided = True
        self.rest, self.further = np.zeros(n, np.float32), np.zeros((n, 0), np.float32)
        self.further.flags.writeable = False  # as those of the layout, for which Numba has compiled the scan
        self.gamma, self.halves = product_slack(d, d), (layout.norm / 2).astype(np.float32)
        self.lengths = self.reach + (float(np.linalg.norm(layout.center)) * layout.scale if self.takes_rows else 0.0)

    def _products(self, tile: int, coordinates: np.ndarray) -> np.ndarray:
        """Return the products (q, t) of queries with a tile; those in all coordinates are not yet less the halves."""
        layout, (start, stop) = self.layout, self.bounds[tile:tile + 2]
        products = self.work[:len(coordinates) * (stop - start)].reshape(len(coordinates), stop - start)
        with np.errstate(invalid="ignore"):  # narrow kernels of BLAS compute on lanes that nobody has filled
            if not self.in_all:
                return np.dot(coordinates, layout.lead[start:stop].T, out=products)
            if self.takes_rows:
                return np.matmul(coordinates, layout.rows[start:stop].T, out=products)
            for at, points in centered_pieces(layout.rows[start:stop], layout):
                np.matmul(coordinates, points.T, out=products[:, at:at + len(points)])
        return products

    def _keep(self, tile: int, queries: _Queries, heap: np.ndarray, values: np.ndarray, candidates: np.ndarray) -> None:
        """Update the largest products `values` and their rows (q, m) with those of a tile; see `keep_products`."""
        keep_products(self._products(tile, queries.coordinates), self.bounds[tile], self.halves, queries.ids,
                      queries.norm, queries.shift, self.layout.ids, self.layout.scale, self.lengths[tile], self.gamma,
                      heap, values, candidates)

    def _limit(self, queries: _Queries, tiles: list[int], heap: np.ndarray, heap_id: np.ndarray) -> None:
        """Limit empty heaps (q, k) by the rows of largest product in the first of some tiles."""
        values, candidates = empty_heaps(*heap.shape)
        enough = int(np.searchsorted(np.cumsum(self.sizes[tiles]), heap.shape[1])) + 1  # that hold k others
        for tile in tiles[:min(FIRST_TILES, max(enough, len(tiles) // FIRST_SHARE))]:
            self._keep(tile, queries, heap, values, candidates)
        limit_heaps(queries.rows, self.layout.rows, candidates, heap, heap_id)


def _farthest(heap: np.ndarray, values: np.ndarray, of: _Queries, scale: float, reach: float, gamma: float) -> float:
    """Return an upper bound, in units of the scale, of the k-th distances of queries, from the products candidates."""
    half = -values[:, 0] - of.shift  # at least the product with the row of the k-th distance
    squared = np.minimum(heap[:, 0] * scale**2, of.norm - 2 * (half - _rounding(half, of.norm, of.shift, reach, gamma)))
    return float(np.sqrt(np.maximum(squared, 0).max()))


def leading_suffice(layout: Layout, k: int) -> bool:
    """Return whether the leading coordinates rule out enough, as they do for some of the points themselves.

    Where they are all, each tile of points knows how it is multiplied best.
    """
    if layout.frame.leading == layout.rows.shape[1]:
        return True
    points, start = _Tiles(layout, in_all=False), len(layout.ids) // 2
    rows, ids = layout.rows[start:start + PILOT_ROWS], layout.ids[start:start + PILOT_ROWS]
    seen = project(rows, layout.frame, float(layout.scale))
    tile = points.queries(rows, ids, seen, np.arange(len(rows)))
    points.search_by_bounds(tile, points.by_nearness(tile), *empty_heaps(len(rows), k))
    return not points.in_all


def nearest_by_tiles(layout: Layout, queries: np.ndarray, query_ids: np.ndarray, seen: Coordinates, order: np.ndarray,
                     distances: np.ndarray, ids: np.ndarray, *, in_all: bool) -> None:
    """Update the heaps (q, k) of the queries with the rows of a layout.

    in_all : whether products are of all columns from the first tile; `seen` needs no further coordinates then.
    """
    points = _Tiles(layout, in_all)
    for start, stop in row_ranges(len(order), QUERY_TILE):
        which = order[start:stop]
        heap, heap_id = distances[which], ids[which]
        tile = points.queries(queries, query_ids, seen, which)
        left = points.by_nearness(tile)
        if not points.by_products:
            left = points.search_by_bounds(tile, left, heap, heap_id)
            if left:
                tile = points.queries(queries, query_ids, seen, which)
        if left:
            points.search_by_products(tile, left, heap, heap_id)
        distances[which], ids[which] = heap, heap_id
        points.searched += len(which)

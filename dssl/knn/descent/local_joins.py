"""Local joins, the step of NN-descent: whoever has two rows for neighbors makes them candidates of each other.

Dong, Moses, Li, "Efficient k-nearest neighbor graph construction for generic similarity measures", WWW 2011. Lists
begin with what small leaves of a few trees hold, and pairs are joined until hardly any list changes; a pair is measured
again only where one of the two is new to the list that brings them together.

Lists are max-heaps of squared float32 distances, (n, k), beside ids (n, k) int32, -1 where there is none yet, and a
flag (n, k) uint8 of the entries that no join has seen. Threads measure pairs while no list changes, and then each
changes lists of its own, in one order: the same lists whatever their number and that of the workers, as long as their
processors add float32 in vectors of one width.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

from ..exact.layout import bisect, level_bounds
from ..pair_distances import Points, gap, unfold

TREES, LEAF_ROWS = 4, 120
TREE_AXES = 8  # of a random rotation, that a tree but the first splits along
CANDIDATES, MOST_CANDIDATES = 24, 32  # new ones, and as many others, that a row joins at a time; where it takes more
ROUNDS, SETTLED = 12, 0.002  # most joins, and the share of entries that changes in the last
FIRST_AXES = 16  # principal axes that the first tree splits along
JOINED_SHARE, LEAST_JOINED, MOST_JOINED = 32, 64, 4096  # of the rows, that are joined before lists change; fewest, most
LEAF_SHARES = 8  # of the leaves of a thread, that it takes at a time

Each = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
Others = Callable[[], Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]]


@njit(nogil=True, cache=True)
def _replace_root(key, identity, flag, keys, ids, flags):
    """Put an entry in the place of the farthest of a heap."""
    root, size = 0, keys.shape[0]
    while True:
        child = 2 * root + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] > keys[child]:
            child += 1
        if not key < keys[child]:
            break
        keys[root], ids[root], flags[root] = keys[child], ids[child], flags[child]
        root = child
    keys[root], ids[root], flags[root] = key, identity, flag


@njit(nogil=True, cache=True)
def _push(distance, identity, flag, distances, ids, flags):
    """Put a candidate nearer than the farthest on a heap that does not hold it; return whether it did."""
    same, held = np.int32(identity), False
    for place in range(ids.shape[0]):  # to the end: without a way out of it the loop runs in vectors
        held |= ids[place] == same
    if held:
        return 0
    _replace_root(distance, identity, flag, distances, ids, flags)
    return 1


@njit(nogil=True, cache=True)
def push_all(rows, candidates, measured, flags_of, distances, ids, flags):
    """Offer candidates (m, w) at squared distances `measured` to the lists `rows` (m,), in this order."""
    for entry in range(rows.shape[0]):
        row = rows[entry]
        for place in range(candidates.shape[1]):
            if measured[entry, place] < distances[row, 0]:
                _push(measured[entry, place], candidates[entry, place], flags_of[entry], distances[row], ids[row],
                      flags[row])


@njit(nogil=True, cache=True)
def _join_leaves(points, order, bounds, distances, ids, flags):
    """Measure all pairs of points of a leaf; leaf i is order[bounds[i]:bounds[i + 1]]."""
    for leaf in range(bounds.shape[0] - 1):
        for x in range(bounds[leaf], bounds[leaf + 1]):
            a = order[x]
            unfold(points, a, 1)
            for y in range(x + 1, bounds[leaf + 1]):
                b = order[y]
                distance = gap(points, a, b)
                if distance < distances[a, 0]:
                    _push(distance, b, 1, distances[a], ids[a], flags[a])
                if distance < distances[b, 0]:
                    _push(distance, a, 1, distances[b], ids[b], flags[b])
            unfold(points, a, 0)


@njit(nogil=True, cache=True)
def _priority(a, b, salt):
    """Return a number in [0, 1) that depends on the pair and the salt alone (splitmix64)."""
    z = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b) * np.uint64(0xD1B54A32D192ED03) + np.uint64(salt)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float32((z >> np.uint64(40)) * np.float64(2.0**-24))


@njit(nogil=True, cache=True, inline="always")
def _draw(other, key, drawn, keys, size):
    """Draw a candidate unless as many others have smaller keys, of which the last is the largest; return how many."""
    most = drawn.shape[0]
    if size == most and not key < keys[most - 1]:
        return size
    held = False
    for place in range(most):  # to the end: without a way out of it the loop runs in vectors
        held |= drawn[place] == other
    if held:
        return size
    place = min(size, most - 1)
    while place > 0 and keys[place - 1] > key:
        drawn[place], keys[place] = drawn[place - 1], keys[place - 1]
        place -= 1
    drawn[place], keys[place] = other, key
    return min(size + 1, most)


def choose_candidates(ids: np.ndarray, flags: np.ndarray, first: int, others: Others, most: int, salt: int,
                      each: Each = map, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the new and the other candidates (n, most) that each row joins, -1 beyond their number.

    They are drawn from the row's list and from the rows that have it in theirs. What is drawn of a list is new no
    longer, and loses its flag.

    first : number of the first row in `ids`. others : called twice; yields, piece by piece, rows (counted from 0) in
    lists of others, those others (numbered as in `ids`), and whether that is new; entries among these rows are found
    without. each : calls a function in `threads` threads.
    """
    n, spans = len(ids), cuts(len(ids), threads)
    ends = np.zeros(n + 1, np.int64)
    _count(ids, first, ends[1:])
    for to, _, _ in others():
        ends[1:] += np.bincount(to, minlength=n)
    np.cumsum(ends, out=ends)
    listing, news, filled = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.uint8), ends[:-1].copy()
    all_of(each(lambda span: _turn(ids, flags, first, span[0], span[1], listing, news, filled), spans))
    for to, of, flags_of in others():
        _add(to, of, flags_of, listing, news, filled)
    new, old = np.full((n, most), -1, np.int32), np.full((n, most), -1, np.int32)
    all_of(each(lambda span: _choose(ids, flags, first, span[0], span[1], listing, news, ends, salt, new, old), spans))
    return new, old


@njit(nogil=True, cache=True)
def _count(ids, first, counts):
    """Add up in how many lists each row is."""
    for row in range(ids.shape[0]):
        for other in ids[row]:
            if first <= other < first + ids.shape[0]:
                counts[other - first] += 1


@njit(nogil=True, cache=True)
def _turn(ids, flags, first, start, stop, listing, news, filled):
    """Write for each of the rows [start, stop) which rows have it in their lists, and whether that is new."""
    for row in range(ids.shape[0]):
        for place in range(ids.shape[1]):
            other = ids[row, place] - first
            if start <= other < stop:
                listing[filled[other]], news[filled[other]] = row + first, flags[row, place]
                filled[other] += 1


@njit(nogil=True, cache=True)
def _add(to, of, flags_of, listing, news, filled):
    """Write which rows of others have rows `to` in their lists."""
    for entry in range(to.shape[0]):
        listing[filled[to[entry]]], news[filled[to[entry]]] = of[entry], flags_of[entry]
        filled[to[entry]] += 1


@njit(nogil=True, cache=True)
def _choose(ids, flags, first, start, stop, listing, news, ends, salt, new, old):
    """Choose candidates of rows [start, stop), and take the flags from those that are drawn from their lists."""
    new_keys, old_keys = np.empty(new.shape[1], np.float32), np.empty(old.shape[1], np.float32)
    for row in range(start, stop):
        if not (flags[row].any() or news[ends[row]:ends[row + 1]].any()):
            continue  # a row that nothing is new to joins nothing
        n_new, n_old = 0, 0
        for place in range(ids.shape[1] + ends[row + 1] - ends[row]):
            is_own = place < ids.shape[1]
            entry = ends[row] + place - ids.shape[1]
            other = ids[row, place] if is_own else listing[entry]
            if other < 0:
                continue
            key = _priority(row + first, other, salt)
            if (flags[row, place] if is_own else news[entry]) != 0:
                n_new = _draw(other, key, new[row], new_keys, n_new)
            else:
                n_old = _draw(other, key, old[row], old_keys, n_old)
        for place in range(ids.shape[1]):
            if flags[row, place]:
                for drawn in new[row, :n_new]:
                    if drawn == ids[row, place]:
                        flags[row, place] = 0
                        break


@njit(nogil=True, cache=True)
def _near_pairs(points, new, old, distances, one, other, measured):
    """Write the pairs of candidates of each row that improve a list, with their distances; return how many there are.

    The lists stay as they are, so that any number of threads finds the same pairs.
    """
    count = 0
    for row in range(new.shape[0]):
        for x in range(new.shape[1]):
            a = new[row, x]
            if a < 0:
                continue
            unfold(points, a, 1)
            for y in range(x + 1, new.shape[1] + old.shape[1]):
                b = new[row, y] if y < new.shape[1] else old[row, y - new.shape[1]]
                if b < 0 or b == a:
                    continue
                distance = gap(points, a, b)
                if distance < distances[a, 0] or distance < distances[b, 0]:
                    one[count], other[count], measured[count] = a, b, distance
                    count += 1
            unfold(points, a, 0)
    return count


@njit(nogil=True, cache=True)
def _push_pairs(one, other, measured, start, stop, names, distances, ids, flags):
    """Offer the ends of pairs to each other's lists, where these are in rows [start, stop); return the changes."""
    changes = 0
    for pair in range(one.shape[0]):
        a, b, distance = one[pair], other[pair], measured[pair]
        if start <= a < stop and distance < distances[a, 0]:
            changes += _push(distance, names[b], 1, distances[a], ids[a], flags[a])
        if start <= b < stop and distance < distances[b, 0]:
            changes += _push(distance, names[a], 1, distances[b], ids[b], flags[b])
    return changes


def local_join(points: Points, names: np.ndarray, new: np.ndarray, old: np.ndarray, distances: np.ndarray,
               ids: np.ndarray, flags: np.ndarray, each: Each = map, threads: int = 1) -> int:
    """Measure the pairs of candidates of each row of `new` and `old`, and improve their lists; return the changes.

    A run of rows at a time, whose pairs are all measured before the lists change.

    new, old : numbers of points, and of lists, -1 where there is none. names : what lists call these points. each :
    calls a function in `threads` threads.
    """
    changes, height, width = 0, joined_rows(len(new)), new.shape[1]
    size = -(-height // threads) * (width * (width - 1) // 2 + width * old.shape[1])
    room = [(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.float32)) for _ in range(threads)]
    spans = cuts(len(distances), threads)

    def measure(job: tuple[tuple[int, int], tuple[np.ndarray, ...]]) -> list[np.ndarray]:
        (start, stop), (one, other, measured) = job
        pairs = _near_pairs(points.of_a_thread(), new[start:stop], old[start:stop], distances, one, other, measured)
        return [one[:pairs], other[:pairs], measured[:pairs]]

    for first in range(0, len(new), height):
        rows = [(first + start, first + stop) for start, stop in cuts(min(height, len(new) - first), threads)]
        improving = list(each(measure, zip(rows, room, strict=True)))

        def push(span: tuple[int, int], pairs: list[list[np.ndarray]] = improving) -> int:
            return sum(_push_pairs(one, other, measured, span[0], span[1], names, distances, ids, flags)
                       for one, other, measured in pairs)

        changes += sum(each(push, spans))
    return changes


def joined_rows(n: int) -> int:
    """Return how many of n rows are joined at a time."""
    return min(MOST_JOINED, max(LEAST_JOINED, n // JOINED_SHARE))


def empty_lists(n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lists without entries: squared distances, ids and flags."""
    return np.full((n, k), np.inf, np.float32), np.full((n, k), -1, np.int32), np.zeros((n, k), np.uint8)


def salt_of(rng: np.random.Generator) -> int:
    """Return what the choice of candidates depends on, but for the pairs."""
    return int(rng.integers(2**63))


def nearest_in_memory(points: Points, k: int, rng: np.random.Generator, most: int = CANDIDATES,
                      threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances (n, k) float32 and ids (n, k) int32 of near ones of n points, in no order.

    Exact, but for float32, where n <= LEAF_ROWS or 4 k; a list is shorter than k, and ends in -1, where n <= k.
    Beside the points, twice, `in_memory_bytes` a row. most : candidates that a row joins at a time, `MOST_CANDIDATES`
    or fewer. threads : the lists do not depend on them.
    """
    n = len(points)
    depth = max(0, int(np.ceil(np.log2(max(n, 1) / max(LEAF_ROWS, 4 * k)))))
    order = bisect(np.ascontiguousarray(points.axes[:, :FIRST_AXES]), depth).astype(np.int32)
    with ThreadPoolExecutor(threads) as pool:
        near, ids = _joined(points.take(order), k, depth, rng, most, pool.map if threads > 1 else map, threads)
    merged, distances = np.empty_like(ids), np.empty_like(near)
    merged[order], distances[order] = np.where(ids < 0, np.int32(-1), order[ids]), near
    return distances, merged


def _joined(points: Points, k: int, depth: int, rng: np.random.Generator, most: int, each: Each,
            threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the lists of points of which near ones lie together, in 2^depth leaves."""
    n, bounds, names = len(points), level_bounds(len(points), depth), np.arange(len(points), dtype=np.int32)
    distances, ids, flags = empty_lists(n, k)

    def join_leaves(order: np.ndarray) -> None:
        def join(span: tuple[int, int]) -> None:
            _join_leaves(points.of_a_thread(), order, bounds[span[0]:span[1] + 1], distances, ids, flags)

        all_of(each(join, cuts(2**depth, LEAF_SHARES * threads)))

    join_leaves(names)
    for _ in range(TREES - 1 if depth else 0):
        width = points.axes.shape[1]
        rotation, _ = np.linalg.qr(rng.normal(size=(width, min(width, TREE_AXES))))
        join_leaves(bisect(points.axes @ rotation.astype(np.float32), depth).astype(np.int32))
    for _ in range(ROUNDS if depth else 0):
        new, old = choose_candidates(ids, flags, 0, lambda: iter(()), most, salt_of(rng), each, threads)
        if local_join(points, names, new, old, distances, ids, flags, each, threads) < SETTLED * n * k:
            break
    return distances, ids


def in_memory_bytes(k: int) -> int:
    """Return the bytes that `nearest_in_memory` takes for a row beside its coordinates."""
    pairs = MOST_CANDIDATES * (MOST_CANDIDATES - 1) // 2 + MOST_CANDIDATES**2
    return 14 * k + 8 * MOST_CANDIDATES + 12 * pairs // JOINED_SHARE + 4 * (FIRST_AXES + TREE_AXES) + 44


def cuts(n: int, pieces: int) -> list[tuple[int, int]]:
    """Return [start, stop) of so many pieces of n, as equal as can be."""
    return [(n * piece // pieces, n * (piece + 1) // pieces) for piece in range(pieces)]


def all_of(calls: Iterable[Any]) -> None:
    """Wait for calls that return nothing."""
    for _ in calls:
        pass

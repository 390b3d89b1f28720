"""Local joins, the step of NN-descent: two neighbors of the same row become candidates of each other.

The lists start from the neighbors within small leaves of a few random trees. Joins are then repeated until hardly any
list changes. A pair is measured again only if at least one of the two is new in the list that brings them together.

Neighbor lists are max-heaps: squared distances (n, k) float32, ids (n, k) int32 (-1 where there is none yet), and
flags (n, k) uint8 that mark the entries which no join has seen. Threads first measure pairs while no list changes, and
then each thread updates its own lists in a fixed order. So the lists do not depend on the number of threads or workers,
as long as all processors add float32 numbers in vectors of the same width.

Reference: Dong, Moses, Li, "Efficient k-nearest neighbor graph construction for generic similarity measures", WWW 2011.
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit

from ..exact.layout import bisect, level_bounds
from ..pair_distances import Points, densify, pair_squared_distance

TREES, LEAF_ROWS = 4, 120
TREE_AXES = 8  # axes of a random rotation that each tree after the first splits along
CANDIDATES, MAX_CANDIDATES = 24, 32  # new, and as many old, candidates of a row in one join: by default, and at most
ROUNDS, CONVERGED = 12, 0.002  # upper bound of the joins, and the share of changed entries that ends them
FIRST_AXES = 16  # principal axes that the first tree splits along
JOINED_SHARE, MIN_JOINED, MAX_JOINED = 32, 64, 4096  # share of the rows joined before lists change, and bounds
LEAF_SHARES = 8  # a thread takes one eighth of its leaves at a time

ThreadMap = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
Others = Callable[[], Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]]


@njit(nogil=True, cache=True)
def _replace_root(key, identity, flag, keys, ids, flags):
    """Replace the farthest entry of a heap."""
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
def _heap_push(distance, identity, flag, distances, ids, flags):
    """Add a candidate nearer than the farthest entry to a heap that lacks it; return whether it was added."""
    same, is_present = np.int32(identity), False
    for slot in range(ids.shape[0]):  # to the end: without a way out of it the loop runs in vectors
        is_present |= ids[slot] == same
    if is_present:
        return 0
    _replace_root(distance, identity, flag, distances, ids, flags)
    return 1


@njit(nogil=True, cache=True)
def push_candidates(rows, candidates, measured, flags_of, distances, ids, flags):
    """Offer candidates (m, w) at squared distances `measured` to the lists `rows` (m,), in this order."""
    for entry in range(rows.shape[0]):
        row = rows[entry]
        for column in range(candidates.shape[1]):
            if measured[entry, column] < distances[row, 0]:
                _heap_push(measured[entry, column], candidates[entry, column], flags_of[entry], distances[row],
                           ids[row], flags[row])


@njit(nogil=True, cache=True)
def _join_leaves(points, order, bounds, distances, ids, flags):
    """Measure all pairs of points of a leaf; leaf i is order[bounds[i]:bounds[i + 1]]."""
    for leaf in range(bounds.shape[0] - 1):
        for x in range(bounds[leaf], bounds[leaf + 1]):
            a = order[x]
            densify(points, a, 1)
            for y in range(x + 1, bounds[leaf + 1]):
                b = order[y]
                distance = pair_squared_distance(points, a, b)
                if distance < distances[a, 0]:
                    _heap_push(distance, b, 1, distances[a], ids[a], flags[a])
                if distance < distances[b, 0]:
                    _heap_push(distance, a, 1, distances[b], ids[b], flags[b])
            densify(points, a, 0)


# Compiled in each process for a distance of its own; a cache on disk would keep all of them.
_join_leaves_by_function = njit(nogil=True)(_join_leaves.py_func)


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
    """Keep a candidate if its key is among the smallest so far; return the number of kept ones, sorted by key."""
    capacity = drawn.shape[0]
    if size == capacity and not key < keys[capacity - 1]:
        return size
    is_present = False
    for slot in range(capacity):  # to the end: without a way out of it the loop runs in vectors
        is_present |= drawn[slot] == other
    if is_present:
        return size
    slot = min(size, capacity - 1)
    while slot > 0 and keys[slot - 1] > key:
        drawn[slot], keys[slot] = drawn[slot - 1], keys[slot - 1]
        slot -= 1
    drawn[slot], keys[slot] = other, key
    return min(size + 1, capacity)


def choose_candidates(ids: np.ndarray, flags: np.ndarray, first: int, others: Others, max_candidates: int, salt: int,
                      thread_map: ThreadMap = map, threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return the new and the old candidates (n, max_candidates) that each row joins, padded with -1.

    They are drawn from the neighbors of the row and from its reverse neighbors (the rows whose lists hold it). A drawn
    entry of a list loses its flag, since it is no longer new.

    first : number of the first row in `ids`.
    others : called twice; yields blocks of reverse neighbors outside these rows: the row (counted from 0), the reverse
        neighbor (numbered as in `ids`) and its flag. Reverse neighbors among these rows are found here.
    thread_map : calls a function in `threads` threads.
    """
    n, spans = len(ids), cuts(len(ids), threads)
    ends = np.zeros(n + 1, np.int64)
    _count(ids, first, ends[1:])
    for targets, _, _ in others():
        ends[1:] += np.bincount(targets, minlength=n)
    np.cumsum(ends, out=ends)
    reverse_ids, reverse_flags, filled = np.empty(ends[-1], np.int32), np.empty(ends[-1], np.uint8), ends[:-1].copy()
    all_of(thread_map(lambda span: _reverse_neighbors(ids, flags, first, span[0], span[1], reverse_ids, reverse_flags,
                                                      filled), spans))
    for targets, sources, flags_of in others():
        _add(targets, sources, flags_of, reverse_ids, reverse_flags, filled)
    new, old = np.full((n, max_candidates), -1, np.int32), np.full((n, max_candidates), -1, np.int32)
    all_of(thread_map(lambda span: _choose(ids, flags, first, span[0], span[1], reverse_ids, reverse_flags, ends, salt,
                                           new, old), spans))
    return new, old


@njit(nogil=True, cache=True)
def _count(ids, first, counts):
    """Count the reverse neighbors of each row."""
    for row in range(ids.shape[0]):
        for other in ids[row]:
            if first <= other < first + ids.shape[0]:
                counts[other - first] += 1


@njit(nogil=True, cache=True)
def _reverse_neighbors(ids, flags, first, start, stop, reverse_ids, reverse_flags, filled):
    """Write the reverse neighbors of rows [start, stop), and whether each of them is new."""
    for row in range(ids.shape[0]):
        for column in range(ids.shape[1]):
            other = ids[row, column] - first
            if start <= other < stop:
                reverse_ids[filled[other]], reverse_flags[filled[other]] = row + first, flags[row, column]
                filled[other] += 1


@njit(nogil=True, cache=True)
def _add(targets, sources, flags_of, reverse_ids, reverse_flags, filled):
    """Write the reverse neighbors of rows `targets` from outside."""
    for entry in range(targets.shape[0]):
        reverse_ids[filled[targets[entry]]], reverse_flags[filled[targets[entry]]] = sources[entry], flags_of[entry]
        filled[targets[entry]] += 1


@njit(nogil=True, cache=True)
def _choose(ids, flags, first, start, stop, reverse_ids, reverse_flags, ends, salt, new, old):
    """Draw candidates of rows [start, stop), and clear the flags of entries that were drawn from their lists."""
    new_keys, old_keys = np.empty(new.shape[1], np.float32), np.empty(old.shape[1], np.float32)
    for row in range(start, stop):
        if not (flags[row].any() or reverse_flags[ends[row]:ends[row + 1]].any()):
            continue  # a row without new entries joins nothing
        n_new, n_old = 0, 0
        for position in range(ids.shape[1] + ends[row + 1] - ends[row]):
            is_listed = position < ids.shape[1]
            entry = ends[row] + position - ids.shape[1]
            other = ids[row, position] if is_listed else reverse_ids[entry]
            if other < 0:
                continue
            key = _priority(row + first, other, salt)
            if (flags[row, position] if is_listed else reverse_flags[entry]) != 0:
                n_new = _draw(other, key, new[row], new_keys, n_new)
            else:
                n_old = _draw(other, key, old[row], old_keys, n_old)
        for position in range(ids.shape[1]):
            if flags[row, position]:
                for drawn in new[row, :n_new]:
                    if drawn == ids[row, position]:
                        flags[row, position] = 0
                        break


@njit(nogil=True, cache=True)
def _near_pairs(points, new, old, distances, one, other, measured):
    """Write the pairs of candidates of each row that improve a list, with their distances; return their number.

    The lists do not change meanwhile, so any number of threads finds the same pairs.
    """
    count = 0
    for row in range(new.shape[0]):
        for x in range(new.shape[1]):
            a = new[row, x]
            if a < 0:
                continue
            densify(points, a, 1)
            for y in range(x + 1, new.shape[1] + old.shape[1]):
                b = new[row, y] if y < new.shape[1] else old[row, y - new.shape[1]]
                if b < 0 or b == a:
                    continue
                distance = pair_squared_distance(points, a, b)
                if distance < distances[a, 0] or distance < distances[b, 0]:
                    one[count], other[count], measured[count] = a, b, distance
                    count += 1
            densify(points, a, 0)
    return count


_near_pairs_by_function = njit(nogil=True)(_near_pairs.py_func)


@njit(nogil=True, cache=True)
def _heap_push_pairs(one, other, measured, start, stop, names, distances, ids, flags):
    """Offer the ends of pairs to each other's lists, where these are in rows [start, stop); return the changes."""
    changes = 0
    for pair in range(one.shape[0]):
        a, b, distance = one[pair], other[pair], measured[pair]
        if start <= a < stop and distance < distances[a, 0]:
            changes += _heap_push(distance, names[b], 1, distances[a], ids[a], flags[a])
        if start <= b < stop and distance < distances[b, 0]:
            changes += _heap_push(distance, names[a], 1, distances[b], ids[b], flags[b])
    return changes


def local_join(points: Points, names: np.ndarray, new: np.ndarray, old: np.ndarray, distances: np.ndarray,
               ids: np.ndarray, flags: np.ndarray, thread_map: ThreadMap = map, threads: int = 1) -> int:
    """Measure the pairs of candidates of each row of `new` and `old`, and improve their lists; return the changes.

    Rows are joined in runs; all pairs of a run are measured before the lists change.

    new, old : candidates, as numbers of points, padded with -1.
    names : ids of these points in the lists.
    thread_map : calls a function in `threads` threads.
    """
    changes, height, width = 0, joined_rows(len(new)), new.shape[1]
    size = -(-height // threads) * (width * (width - 1) // 2 + width * old.shape[1])
    buffers = [(np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.float32)) for _ in range(threads)]
    spans, near_pairs = cuts(len(distances), threads), _near_pairs_by_function if points.by_function else _near_pairs

    def measure(job: tuple[tuple[int, int], tuple[np.ndarray, ...]]) -> list[np.ndarray]:
        (start, stop), (one, other, measured) = job
        pairs = near_pairs(points.of_a_thread(), new[start:stop], old[start:stop], distances, one, other, measured)
        return [one[:pairs], other[:pairs], measured[:pairs]]

    for first in range(0, len(new), height):
        rows = [(first + start, first + stop) for start, stop in cuts(min(height, len(new) - first), threads)]
        improving = list(thread_map(measure, zip(rows, buffers, strict=True)))

        def update_lists(span: tuple[int, int], pairs: list[list[np.ndarray]] = improving) -> int:
            return sum(_heap_push_pairs(one, other, measured, span[0], span[1], names, distances, ids, flags)
                       for one, other, measured in pairs)

        changes += sum(thread_map(update_lists, spans))
    return changes


def joined_rows(n: int) -> int:
    """Return how many of n rows are joined at a time."""
    return min(MAX_JOINED, max(MIN_JOINED, n // JOINED_SHARE))


def empty_neighbor_lists(n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return empty neighbor lists: squared distances, ids and flags."""
    return np.full((n, k), np.inf, np.float32), np.full((n, k), -1, np.int32), np.zeros((n, k), np.uint8)


def salt_of(rng: np.random.Generator) -> int:
    """Return a random number for `_priority`."""
    return int(rng.integers(2**63))


def nearest_in_memory(points: Points, k: int, rng: np.random.Generator, max_candidates: int = CANDIDATES,
                      threads: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances (n, k) float32 and ids (n, k) int32 of approximate neighbors of n points, unsorted.

    The search is exact, but for float32, where n <= LEAF_ROWS or n <= 4 k. A list is shorter than k, and ends in -1,
    where n <= k. Memory: the points twice, and `in_memory_bytes` a row.

    max_candidates : candidates that a row joins at a time, at most `MAX_CANDIDATES`.
    threads : the lists do not depend on their number.
    """
    n = len(points)
    depth = max(0, int(np.ceil(np.log2(max(n, 1) / max(LEAF_ROWS, 4 * k)))))
    order = bisect(np.ascontiguousarray(points.axes[:, :FIRST_AXES]), depth).astype(np.int32)
    with ThreadPoolExecutor(threads) as pool:
        near, ids = _joined(points.take(order), k, depth, rng, max_candidates,
                            pool.map if threads > 1 else map, threads)
    merged, distances = np.empty_like(ids), np.empty_like(near)
    merged[order], distances[order] = np.where(ids < 0, np.int32(-1), order[ids]), near
    return distances, merged


def _joined(points: Points, k: int, depth: int, rng: np.random.Generator, max_candidates: int, thread_map: ThreadMap,
            threads: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the neighbor lists of points that are sorted into 2^depth leaves of near points."""
    n, bounds, names = len(points), level_bounds(len(points), depth), np.arange(len(points), dtype=np.int32)
    distances, ids, flags = empty_neighbor_lists(n, k)
    join_rows = _join_leaves_by_function if points.by_function else _join_leaves

    def join_leaves(order: np.ndarray) -> None:
        def join(span: tuple[int, int]) -> None:
            join_rows(points.of_a_thread(), order, bounds[span[0]:span[1] + 1], distances, ids, flags)

        all_of(thread_map(join, cuts(2**depth, LEAF_SHARES * threads)))

    join_leaves(names)
    for _ in range(TREES - 1 if depth else 0):
        width = points.axes.shape[1]
        rotation, _ = np.linalg.qr(rng.normal(size=(width, min(width, TREE_AXES))))
        join_leaves(bisect(points.axes @ rotation.astype(np.float32), depth).astype(np.int32))
    for _ in range(ROUNDS if depth else 0):
        new, old = choose_candidates(ids, flags, 0, lambda: iter(()), max_candidates, salt_of(rng), thread_map, threads)
        if local_join(points, names, new, old, distances, ids, flags, thread_map, threads) < CONVERGED * n * k:
            break
    return distances, ids


def in_memory_bytes(k: int) -> int:
    """Return the bytes that `nearest_in_memory` takes for a row beside its coordinates."""
    pairs = MAX_CANDIDATES * (MAX_CANDIDATES - 1) // 2 + MAX_CANDIDATES**2
    return 14 * k + 8 * MAX_CANDIDATES + 12 * pairs // JOINED_SHARE + 4 * (FIRST_AXES + TREE_AXES) + 44


def cuts(n: int, pieces: int) -> list[tuple[int, int]]:
    """Return the [start, stop) ranges that divide n items into pieces of nearly equal size."""
    return [(n * piece // pieces, n * (piece + 1) // pieces) for piece in range(pieces)]


def all_of(calls: Iterable[Any]) -> None:
    """Wait for calls that return nothing."""
    for _ in calls:
        pass

"""Local joins, the step of NN-descent: whoever has two rows for neighbors makes them candidates of each other.

Dong, Moses, Li, "Efficient k-nearest neighbor graph construction for generic similarity measures", WWW 2011. Lists
begin with what small leaves of a few trees hold, and pairs are joined until hardly any list changes; a pair is measured
again only where one of the two is new to the list that brings them together.

Lists are max-heaps of squared float32 distances, (n, k), beside ids (n, k) int32, -1 where there is none yet, and a
flag (n, k) uint8 of the entries that no join has seen. One thread, in one order: the same lists whatever the workers,
as long as their processors add float32 in vectors of one width.
"""

from collections.abc import Callable, Iterator

import numpy as np
from numba import njit

from .distances import float32_gap
from .layout import bisect, level_bounds

TREES, LEAF_ROWS = 3, 120
TREE_AXES = 8  # of a random rotation, that a tree but the first splits along
CANDIDATES, MOST_CANDIDATES = 16, 32  # new ones, and as many others, that a row joins at a time; where it takes more
ROUNDS, SETTLED = 12, 0.002  # most joins, and the share of entries that changes in the last
FIRST_AXES = 16  # principal axes that the first tree splits along

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
def _join_leaves(seen, order, bounds, distances, ids, flags):
    """Measure all pairs of rows of a leaf; leaf i is order[bounds[i]:bounds[i + 1]]."""
    for leaf in range(bounds.shape[0] - 1):
        for x in range(bounds[leaf], bounds[leaf + 1]):
            a = order[x]
            for y in range(x + 1, bounds[leaf + 1]):
                b = order[y]
                distance = float32_gap(seen[a], seen[b])
                if distance < distances[a, 0]:
                    _push(distance, b, 1, distances[a], ids[a], flags[a])
                if distance < distances[b, 0]:
                    _push(distance, a, 1, distances[b], ids[b], flags[b])


@njit(nogil=True, cache=True)
def _priority(a, b, salt):
    """Return a number in [0, 1) that depends on the pair and the salt alone (splitmix64)."""
    z = np.uint64(a) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(b) * np.uint64(0xD1B54A32D192ED03) + np.uint64(salt)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float32((z >> np.uint64(40)) * np.float64(2.0**-24))


@njit(nogil=True, cache=True, inline="always")
def _choose(row, other, flag, salt, new, old, new_keys, old_keys, unused):
    key = _priority(row, other, salt)
    if flag:
        if key < new_keys[row, 0]:
            _push(key, other, 0, new_keys[row], new[row], unused)
    elif key < old_keys[row, 0]:
        _push(key, other, 0, old_keys[row], old[row], unused)


def choose_candidates(ids: np.ndarray, flags: np.ndarray, first: int, others: Others, most: int,
                      salt: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the new and the other candidates (n, most) that each row joins, -1 beyond their number; no order.

    They are drawn from the row's list and from the rows that have it in theirs. What is drawn of a list is new no
    longer, and loses its flag.

    first : number of the first row in `ids`. others : called twice; yields, piece by piece, rows (counted from 0) in
    lists of others, those others (numbered as in `ids`), and whether that is new; entries among these rows are found
    without.
    """
    n = len(ids)
    new, old = np.full((n, most), -1, np.int32), np.full((n, most), -1, np.int32)
    new_keys, old_keys = np.full((n, most), np.inf, np.float32), np.full((n, most), np.inf, np.float32)
    joins = np.zeros(n, np.bool_)  # a row that nothing is new to joins nothing
    _mark(ids, flags, first, joins)
    for to, _, flags_of in others():
        joins[to[flags_of > 0]] = True
    _choose_own(ids, flags, first, joins, salt, new, old, new_keys, old_keys)
    for to, of, flags_of in others():
        _choose_others(to, of, flags_of, joins, salt, new, old, new_keys, old_keys)
    _settle(ids, flags, new)
    return new, old


@njit(nogil=True, cache=True)
def _mark(ids, flags, first, joins):
    """Mark the rows that have a new neighbor, and those that are one."""
    n, k = ids.shape
    for row in range(n):
        for place in range(k):
            if flags[row, place] and ids[row, place] >= 0:
                joins[row] = True
                if first <= ids[row, place] < first + n:
                    joins[ids[row, place] - first] = True


@njit(nogil=True, cache=True)
def _choose_own(ids, flags, first, joins, salt, new, old, new_keys, old_keys):
    n, k = ids.shape
    unused = np.zeros(new.shape[1], np.uint8)
    for row in range(n):
        for place in range(k):
            other, flag = ids[row, place], flags[row, place]
            if other < 0:
                continue
            if joins[row]:
                _choose(row, other, flag, salt, new, old, new_keys, old_keys, unused)
            if first <= other < first + n and joins[other - first]:
                _choose(other - first, row + first, flag, salt, new, old, new_keys, old_keys, unused)


@njit(nogil=True, cache=True)
def _choose_others(to, of, flags_of, joins, salt, new, old, new_keys, old_keys):
    unused = np.zeros(new.shape[1], np.uint8)
    for entry in range(to.shape[0]):
        if joins[to[entry]]:
            _choose(to[entry], of[entry], flags_of[entry], salt, new, old, new_keys, old_keys, unused)


@njit(nogil=True, cache=True)
def _settle(ids, flags, new):
    """Take the flags from entries that were chosen."""
    for row in range(ids.shape[0]):
        for place in range(ids.shape[1]):
            if flags[row, place]:
                for chosen in new[row]:
                    if chosen == ids[row, place]:
                        flags[row, place] = 0
                        break


@njit(nogil=True, cache=True)
def local_join(seen, names, new, old, distances, ids, flags):
    """Measure the pairs of candidates of each row of `new` and `old`, and improve their lists; return the changes.

    new, old : numbers of rows of `seen` and of the lists, -1 where there is none. names : what lists call these rows.
    """
    changes = 0
    for row in range(new.shape[0]):
        for x in range(new.shape[1]):
            a = new[row, x]
            if a < 0:
                continue
            for y in range(x + 1, new.shape[1] + old.shape[1]):
                b = new[row, y] if y < new.shape[1] else old[row, y - new.shape[1]]
                if b < 0 or b == a:
                    continue
                distance = float32_gap(seen[a], seen[b])
                if distance < distances[a, 0]:
                    changes += _push(distance, names[b], 1, distances[a], ids[a], flags[a])
                if distance < distances[b, 0]:
                    changes += _push(distance, names[a], 1, distances[b], ids[b], flags[b])
    return changes


def empty_lists(n: int, k: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return lists without entries: squared distances, ids and flags."""
    return np.full((n, k), np.inf, np.float32), np.full((n, k), -1, np.int32), np.zeros((n, k), np.uint8)


def salt_of(rng: np.random.Generator) -> int:
    """Return what the choice of candidates depends on, but for the pairs."""
    return int(rng.integers(2**63))


def nearest_in_memory(seen: np.ndarray, k: int, rng: np.random.Generator, most: int = CANDIDATES
                      ) -> tuple[np.ndarray, np.ndarray]:
    """Return squared distances (n, k) float32 and ids (n, k) int32 of near rows of `seen` (n, a) float32, in no order.

    Exact, but for float32, where n <= LEAF_ROWS or 4 k; a list is shorter than k, and ends in -1, where n <= k.
    Beside `seen` `in_memory_bytes` a row. most : candidates that a row joins at a time, `MOST_CANDIDATES` or fewer.
    """
    n, axes = seen.shape
    distances, ids, flags = empty_lists(n, k)
    depth = max(0, int(np.ceil(np.log2(max(n, 1) / max(LEAF_ROWS, 4 * k)))))
    bounds = level_bounds(n, depth)
    for tree in range(TREES if depth else 1):
        split = seen[:, :FIRST_AXES]
        if tree:
            rotation, _ = np.linalg.qr(rng.normal(size=(axes, min(axes, TREE_AXES))))
            split = seen @ rotation.astype(np.float32)
        _join_leaves(seen, bisect(np.ascontiguousarray(split), depth), bounds, distances, ids, flags)
    names = np.arange(n, dtype=np.int32)
    for _ in range(ROUNDS if depth else 0):
        new, old = choose_candidates(ids, flags, 0, lambda: iter(()), most, salt_of(rng))
        if local_join(seen, names, new, old, distances, ids, flags) < SETTLED * n * k:
            break
    return distances, ids


def in_memory_bytes(k: int) -> int:
    """Return the bytes that `nearest_in_memory` takes for a row beside its coordinates."""
    return 9 * k + 16 * MOST_CANDIDATES + 4 * (FIRST_AXES + TREE_AXES) + 24

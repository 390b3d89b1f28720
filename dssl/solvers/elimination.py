"""Randomized elimination of the vertices of a graph: the compiled part of an approximate Cholesky factor."""

import numpy as np
from numba import njit

SHORT = 24  # neighbors that are searched one by one


@njit(nogil=True, cache=True)
def edges_of(indptr, indices, data, y, singular, to, after, weight, head, degree, excess):
    """Write the edges of `Y A Y`, and the excess of its diagonal over their weights.

    Slots 2c and 2c + 1 are the ends of edge c, of weight[c]: slot s is in the list of one vertex, which begins at
    head[vertex] and goes on at after[s], and leads to the vertex to[s]; -1 ends a list, and marks a removed slot.
    """
    slot = 0
    for i in range(len(y)):
        rest = y[i]
        for e in range(indptr[i], indptr[i + 1]):
            j = indices[e]
            if data[e] < 0:
                rest += data[e] * y[j]
                if j > i:
                    weight[slot >> 1] = -data[e] * y[i] * y[j]
                    _link(to, after, head, degree, slot, i, j)
                    _link(to, after, head, degree, slot + 1, j, i)
                    slot += 2
        excess[i] = 0.0 if singular[i] else y[i] * max(rest, 0.0)


@njit(nogil=True, cache=True)
def _link(to, after, head, degree, slot, u, z):
    """Put a slot that leads to z into the list of u."""
    to[slot] = z
    after[slot] = head[u]
    head[u] = slot
    degree[u] += 1


@njit(nogil=True, cache=True)
def _uniform(state):
    """Return the next number in [0, 1) of the generator splitmix64, whose state (1,) advances."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return np.float64(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@njit(nogil=True, cache=True)
def _enqueue(first, last, following, before, queue, v, bucket):
    """Put v at the end of a bucket."""
    queue[v] = bucket
    following[v] = -1
    before[v] = last[bucket]
    if first[bucket] < 0:
        first[bucket] = v
    else:
        following[last[bucket]] = v
    last[bucket] = v


@njit(nogil=True, cache=True)
def _dequeue(first, last, following, before, queue, v):
    """Take v out of its bucket."""
    if before[v] < 0:
        first[queue[v]] = following[v]
    else:
        following[before[v]] = following[v]
    if following[v] < 0:
        last[queue[v]] = before[v]
    else:
        before[following[v]] = before[v]


@njit(nogil=True, cache=True)
def _scratch(width):
    """Return the arrays of one elimination: of neighbors, and of edges to them."""
    ints = np.empty((6, width), np.int32)
    return (ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], np.empty(width), np.empty(width, np.int64),
            np.empty(width, np.int64), np.empty(width + 1))


@njit(nogil=True, cache=True)
def ascending(values, k, sequence):
    """Write the numbers of values[:k] in ascending order of the values to `sequence`, by Shell's sort."""
    gap = 1
    while 9 * gap < k:
        gap = 3 * gap + 1
    for q in range(k):
        sequence[q] = q
    while gap > 0:
        for q in range(gap, k):
            r, moved = q, sequence[q]
            while r >= gap and values[sequence[r - gap]] > values[moved]:
                sequence[r] = sequence[r - gap]
                r -= gap
            sequence[r] = moved
        gap //= 3


@njit(nogil=True, cache=True)
def _drawn(tail, i, c, r):
    """Return the last j in (i, c) with `tail[j] > r`, at least i + 1; `tail` descends."""
    low, high = i + 1, c - 1
    if high - low > SHORT:
        while low < high:
            middle = (low + high + 1) // 2
            if tail[middle] > r:
                low = middle
            else:
                high = middle - 1
    else:
        while high > low and tail[high] <= r:
            high -= 1
    return high


@njit(nogil=True, cache=True)
def eliminate(to, after, weight, head, degree, y, excess, parallel, state, first, last, following, before, queue,
              local, order, starts, inverse, capacity):
    """Write (order, starts, inverse) of `Cholesky`, and return (rows, values) with room to spare.

    What `edges_of` wrote is overwritten. first, last : of the buckets of vertices by degree, -1. following, before,
    queue : of a vertex in its bucket, and its bucket. local : -1.
    A vertex whose degree falls moves to the bucket of its degree, and one whose degree has grown when its turn comes.
    """
    n, n_buckets = len(y), len(first)
    for v in range(n):
        _enqueue(first, last, following, before, queue, v, degree[v])
    width = 64
    rows, values = np.empty(capacity, np.int32), np.empty(capacity, np.float32)
    neighbor, count, newest, older, sequence, owner, mean, slots, slot_of, tail = _scratch(width)
    bucket = 0
    size = 0
    for step in range(n):
        while True:
            while first[bucket] < 0:
                bucket += 1
            v = first[bucket]
            _dequeue(first, last, following, before, queue, v)
            now = min(degree[v], n_buckets - 1)
            if now <= bucket:
                break
            _enqueue(first, last, following, before, queue, v, now)
        order[step] = v
        if degree[v] > width:
            width = 2 * int(degree[v])
            neighbor, count, newest, older, sequence, owner, mean, slots, slot_of, tail = _scratch(width)

        # The neighbors, and the weights and slots of each.
        k, n_slots, total = 0, 0, 0.0
        slot = head[v]
        while slot >= 0:
            u = to[slot]
            if u >= 0:
                q = local[u]
                if q < 0:
                    q = k
                    k += 1
                    local[u], neighbor[q] = q, u
                    mean[q], count[q], newest[q] = 0.0, 0, -1
                mean[q] += weight[slot >> 1]
                total += weight[slot >> 1]
                count[q] += 1
                slots[n_slots] = slot
                older[n_slots] = newest[q]
                newest[q] = n_slots
                n_slots += 1
            slot = after[slot]

        # The column of the factor.
        pivot = total + excess[v]
        reciprocal = 1 / pivot if pivot > 0 else 0.0
        inverse[step] = y[v] * y[v] * reciprocal
        if size + k > len(rows):
            rows, values = _grown(rows, values, size, max(3 * len(rows) // 2, size + k))
        for q in range(k):
            u = neighbor[q]
            local[u] = -1
            share = mean[q] * reciprocal
            rows[size + q] = u
            values[size + q] = share * y[v] / y[u]
            excess[u] += share * excess[v]
            mean[q] /= min(count[q], parallel)
        size += k
        starts[step + 1] = size

        # The edges in ascending order of weight, at most `parallel` to a neighbor.
        ascending(mean, k, sequence)
        c = 0
        for r in range(k):
            q = sequence[r]
            n_slots = newest[q]
            taken = 0
            while n_slots >= 0:
                if taken < parallel:
                    owner[c], slot_of[c] = q, slots[n_slots]
                    c += 1
                    taken += 1
                else:
                    to[slots[n_slots] ^ 1] = -1
                    degree[neighbor[q]] -= 1
                n_slots = older[n_slots]
        tail[c] = 0.0
        for i in range(c - 1, -1, -1):
            tail[i] = tail[i + 1] + mean[owner[i]]

        # Each neighbor is joined to one of a heavier edge, drawn by weight: the expectation is that of the clique.
        for i in range(c):
            slot, q = slot_of[i], owner[i]
            u = neighbor[q]
            partner = owner[_drawn(tail, i, c, _uniform(state) * tail[i + 1])] if i < c - 1 else q
            if partner == q:
                to[slot ^ 1] = -1
                degree[u] -= 1
            else:
                weight[slot >> 1] = mean[q] * tail[i + 1] * reciprocal
                to[slot ^ 1] = neighbor[partner]
                _link(to, after, head, degree, slot, neighbor[partner], u)
        for q in range(k):
            u = neighbor[q]
            if degree[u] < queue[u]:
                _dequeue(first, last, following, before, queue, u)
                _enqueue(first, last, following, before, queue, u, degree[u])
                bucket = min(bucket, degree[u])
    return rows, values


@njit(nogil=True, cache=True)
def _grown(rows, values, size, capacity):
    """Return arrays of this capacity with the first `size` entries."""
    more_rows, more_values = np.empty(capacity, np.int32), np.empty(capacity, np.float32)
    for e in range(size):
        more_rows[e], more_values[e] = rows[e], values[e]
    return more_rows, more_values

"""An approximate Cholesky factor as a preconditioner for a block of columns, by randomized elimination.

The elimination of a vertex joins its neighbors pairwise. Instead of all these edges a random tree among the neighbors
takes their place, whose expectation is the same, so the factor stays about as sparse as the matrix. Vertices are
eliminated by degree. A few of the edges between two vertices stay apart and are sampled singly, which lowers variance.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numba import njit

from .method import VECTOR_PASSES, Iterative
from .operators import ScaledMatrix

PARALLEL = 3  # edges between two vertices that are not merged
ELIMINATION_COST = 250  # iterations of one column that take as long as a factor with the entries of the triangle
FACTOR_COST = 1.6  # entries of the matrix that take as long as one of the factor: 1.3 to 2 measured
SHORT = 24  # neighbors that are searched one by one


@dataclass(frozen=True)
class Cholesky(Iterative):
    """A factor `A ~ L D L'`, L triangular in the order of the elimination.

    order (n,) : the rows of A in this order. starts (n + 1,), rows (m,), values (m,) float32 : of column k of -L below
    its diagonal, in rows of A. inverse (n,) float32 : that of D, 0 for the last vertex of a singular component.
    """

    order: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    inverse: np.ndarray

    name = "cholesky"
    description = "conjugate gradients preconditioned by an approximate Cholesky factor"
    prepare_seconds = 1e-5
    stored_guess = ("fill of the factor",)
    correction_iterations = 60  # at most 40 measured
    blocks32 = 5  # with that of the triangular solves

    @classmethod
    def prepare(cls, A: ScaledMatrix, n_columns: int, *, n_vectors: int | None = None,
                random_state: int = 0) -> "Cholesky":
        """Return the factor, the same for a seed whatever the number of threads.

        The weights are those of `Y A Y`, whose rows have no negative sum, with Y the diagonal matrix of
        `A.near_null`; the rest of a row's diagonal, such as a ridge, is eliminated exactly. A positive entry of A adds
        to the diagonal instead.

        References
        ----------
        Kyng, Sachdeva, "Approximate Gaussian elimination for Laplacians", FOCS 2016.
        Gao, Kyng, Spielman, "Robust and practical solution of Laplacian equations by approximate elimination", 2023.
        """
        n = A.n
        above = A.indices > np.repeat(np.arange(n, dtype=np.int32), np.diff(A.indptr))
        slots = 2 * int(np.count_nonzero(above & (A.data < 0)))  # one an end of an edge
        number = np.int32 if slots < 2**31 else np.int64
        edges = (np.empty(slots, np.int32), np.empty(slots, number), np.empty(slots // 2),
                 np.full(n, -1, number), np.zeros(n, np.int32))
        excess = np.empty(n)
        _edges(A.indptr, A.indices, A.data, A.near_null, A.singular[A.component], *edges, excess)
        buckets = np.full((2, 2 * int(edges[-1].max(initial=0)) + 64), -1, np.int32)
        following, before, queue, order = np.empty((4, n), np.int32)
        starts, inverse = np.zeros(n + 1, np.int64), np.empty(n, np.float32)
        seed = np.random.default_rng([random_state, n]).integers(2**63, size=1).astype(np.uint64)
        rows, values = _eliminate(*edges, A.near_null, excess, PARALLEL, seed, buckets[0], buckets[1], following,
                                  before, queue, np.full(n, -1, np.int32), order, starts, inverse,
                                  len(A.data) // 2 + n)
        size = int(starts[-1])
        return cls(A, order.copy(), starts, rows[:size].copy(), values[:size].copy(), inverse)

    @property
    def fill(self) -> float:
        """Return the entries of the factor, relative to those of the lower triangle of A."""
        return 2 * len(self.rows) / max(len(self.A.data), 1)

    def entries(self) -> tuple[float, float]:
        """Return the entries of the elimination, and of one iteration, where an entry of the factor costs more."""
        plain = super().entries()[1]
        return ELIMINATION_COST * self.fill * plain, plain + 2 * FACTOR_COST * len(self.rows) + VECTOR_PASSES * self.A.n

    @property
    def attributes(self) -> dict[str, float]:
        return {"factor_entries": len(self.rows), "fill": round(self.fill, 3)}

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in ARRAYS}

    @classmethod
    def from_arrays(cls, A: ScaledMatrix, arrays: dict[str, np.ndarray]) -> "Cholesky":
        return cls(A, *(arrays[name] for name in ARRAYS))

    @classmethod
    def prepare_bytes(cls, n: int, nnz: int, n_columns: int) -> float:
        """Of an entry a slot of 12 bytes, 16 of 2^31 slots and more, and the factor while it grows."""
        return (12 if nnz < 2**31 else 16) * nnz + 64 * n + 2.5 * cls.stored_bytes(n, nnz, n_columns)

    @classmethod
    def stored_bytes(cls, n: int, nnz: int, n_columns: int) -> int:
        return int(16 * n + 4 * max_fill(n) * nnz)

    def preconditioner(self, t: int, dtype: type = np.float32) -> Callable[[np.ndarray], np.ndarray]:
        """Return the two triangular solves on blocks (n, t), in one array that the next call overwrites."""
        X: np.ndarray = np.empty((self.A.n, t), dtype)

        def solve(B: np.ndarray) -> np.ndarray:
            X[:] = B
            _solve(self.order, self.starts, self.rows, self.values, self.inverse, X)
            return X

        return solve


def max_fill(n: int) -> float:
    """Return the entries of the factor for each of the triangle of a matrix (n, n), at most, with a margin.

    Measured: 1.5 to 4 on neighbor graphs, 0.42 to 0.64 ln n on random graphs of 4 to 20 neighbors and 1,000 to 300,000
    vertices. Never more than 2 (1 + ln n), since the edges do not increase, and a vertex has no more than average when
    it is eliminated.
    """
    return 1 + math.log(max(n, 1))


ARRAYS = ("order", "starts", "rows", "values", "inverse")


@njit(nogil=True, cache=True)
def _edges(indptr, indices, data, y, singular, to, after, weight, head, degree, excess):
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
def _ascending(values, k, sequence):
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
def _eliminate(to, after, weight, head, degree, y, excess, parallel, state, first, last, following, before, queue,
               local, order, starts, inverse, capacity):
    """Write (order, starts, inverse) of `Cholesky`, and return (rows, values) with room to spare.

    What `_edges` wrote is overwritten. first, last : of the buckets of vertices by degree, -1. following, before,
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
        _ascending(mean, k, sequence)
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


@njit(nogil=True, cache=True, fastmath=True)
def _solve(order, starts, rows, values, inverse, X):
    """Replace X (n, t) by `(L D L')^-1 X`; L holds -1 times the values, and a unit diagonal; four entries a pass."""
    n, t = X.shape
    for k in range(n):
        i, e, end = order[k], starts[k], starts[k + 1]
        while e + 3 < end:
            a0, a1, a2, a3 = values[e], values[e + 1], values[e + 2], values[e + 3]
            j0, j1, j2, j3 = rows[e], rows[e + 1], rows[e + 2], rows[e + 3]
            for c in range(t):
                x = X[i, c]
                X[j0, c] += a0 * x
                X[j1, c] += a1 * x
                X[j2, c] += a2 * x
                X[j3, c] += a3 * x
            e += 4
        while e < end:
            a0, j0 = values[e], rows[e]
            for c in range(t):
                X[j0, c] += a0 * X[i, c]
            e += 1
    for k in range(n - 1, -1, -1):
        i, e, end = order[k], starts[k], starts[k + 1]
        for c in range(t):
            X[i, c] *= inverse[k]
        while e + 3 < end:
            a0, a1, a2, a3 = values[e], values[e + 1], values[e + 2], values[e + 3]
            j0, j1, j2, j3 = rows[e], rows[e + 1], rows[e + 2], rows[e + 3]
            for c in range(t):
                X[i, c] += a0 * X[j0, c] + a1 * X[j1, c] + a2 * X[j2, c] + a3 * X[j3, c]
            e += 4
        while e < end:
            a0, j0 = values[e], rows[e]
            for c in range(t):
                X[i, c] += a0 * X[j0, c]
            e += 1

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

from .elimination import edges_of, eliminate
from .method import VECTOR_PASSES, Iterative
from .operators import ScaledMatrix, add_entries, add_to_value
from .pcg import ORDERED

PARALLEL = (1, 2, 3)  # edges between two vertices that are not merged, for one, few and many columns
FEW = 16  # columns, which float64 solves in one correction: their iterations take little longer than in float32
ELIMINATION_COST = 250  # iterations of one column that take as long as a factor with the entries of the triangle
FACTOR_COST = 1.6  # entries of the matrix that take as long as one of the factor: 1.3 to 2 measured


@dataclass(frozen=True)
class Cholesky(Iterative):
    """A factor `A ~ L D L'`, L triangular in the order of the elimination.

    order (n,) : the rows of A in this order. starts (n + 1,), rows (m,), values (m,) float32 : of column k of -L below
    its diagonal, in rows of A. inverse (n,) float32 : that of D, 0 for the last vertex of a singular component.
    in_float64 (1,) bool : whether it was prepared for at most `FEW` columns.
    """

    order: np.ndarray
    starts: np.ndarray
    rows: np.ndarray
    values: np.ndarray
    inverse: np.ndarray
    in_float64: np.ndarray

    name = "cholesky"
    description = "conjugate gradients preconditioned by an approximate Cholesky factor"
    prepare_seconds = 1e-5
    stored_guess = ("fill of the factor",)
    correction_iterations = 60  # at most 40 measured
    blocks32 = 5  # with that of the triangular solves

    @classmethod
    def prepare(cls, A: ScaledMatrix, n_columns: int, *, n_vectors: int | None = None,
                random_state: int = 0) -> "Cholesky":
        """Return the factor, the same for a seed and one, few or many columns, whatever the number of threads.

        The weights are those of `Y A Y`, whose rows have no negative sum, with Y the diagonal matrix of
        `A.near_null`; the rest of a row's diagonal, such as a ridge, is eliminated exactly. A positive entry of A adds
        to the diagonal instead.

        References
        ----------
        Kyng, Sachdeva, "Approximate Gaussian elimination for Laplacians", FOCS 2016.
        Gao, Kyng, Spielman, "Robust and practical solution of Laplacian equations by approximate elimination", 2023.
        """
        n, parallel = A.n, PARALLEL[(n_columns > 1) + (n_columns > FEW)]
        above = A.indices > np.repeat(np.arange(n, dtype=np.int32), np.diff(A.indptr))
        slots = 2 * int(np.count_nonzero(above & (A.data < 0)))  # one an end of an edge
        number = np.int32 if slots < 2**31 else np.int64
        edges = (np.empty(slots, np.int32), np.empty(slots, number), np.empty(slots // 2),
                 np.full(n, -1, number), np.zeros(n, np.int32))
        excess = np.empty(n)
        edges_of(A.indptr, A.indices, A.data, A.near_null, A.singular[A.component], *edges, excess)
        buckets = np.full((2, 2 * int(edges[-1].max(initial=0)) + 64), -1, np.int32)
        following, before, queue, order = np.empty((4, n), np.int32)
        starts, inverse = np.zeros(n + 1, np.int64), np.empty(n, np.float32)
        seed = np.random.default_rng([random_state, n]).integers(2**63, size=1).astype(np.uint64)
        rows, values = eliminate(*edges, A.near_null, excess, parallel, seed, buckets[0], buckets[1], following,
                                 before, queue, np.full(n, -1, np.int32), order, starts, inverse, len(A.data) // 2 + n)
        size = int(starts[-1])
        return cls(A, order.copy(), starts, rows[:size].copy(), values[:size].copy(), inverse,
                   np.full(1, n_columns <= FEW))

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

    @classmethod
    def solve_bytes(cls, n: int, t: int, block_columns: int) -> int:
        in_float64 = n * (16 + 8 * t + 9 * 8 * min(t, block_columns, FEW))
        return max(super().solve_bytes(n, t, block_columns), in_float64)

    def width(self, block_columns: int) -> int:
        return min(block_columns, FEW) if self.in_float64[0] else block_columns

    def correct(self, R: np.ndarray, norms: np.ndarray, needed: np.ndarray, budget: np.ndarray, *,
                precise: bool = False) -> tuple[np.ndarray, np.ndarray]:
        return super().correct(R, norms, needed, budget, precise=precise or bool(self.in_float64[0]))

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


ARRAYS = ("order", "starts", "rows", "values", "inverse", "in_float64")


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _solve(order, starts, rows, values, inverse, X):
    """Replace X (n, t) by `(L D L')^-1 X`; L holds -1 times the values, and a unit diagonal."""
    n, t = X.shape
    if t == 1:
        _solve_column(order, starts, rows, values, inverse, X.reshape(-1))
        return
    for k in range(n):
        i, e, end = order[k], starts[k], starts[k + 1]
        while e + 3 < end:  # four entries a pass
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
        i = order[k]
        for c in range(t):
            X[i, c] *= inverse[k]
        add_entries(rows, values, starts[k], starts[k + 1], X, i, X, False)


@njit(nogil=True, cache=True, fastmath=ORDERED)
def _solve_column(order, starts, rows, values, inverse, x):
    """Do `_solve` for one column (n,), in less time and with the same bits."""
    for k in range(len(x)):
        value = x[order[k]]
        for e in range(starts[k], starts[k + 1]):
            x[rows[e]] += values[e] * value
    for k in range(len(x) - 1, -1, -1):
        i = order[k]
        x[i] = add_to_value(rows, values, starts[k], starts[k + 1], x, x[i] * inverse[k], False)

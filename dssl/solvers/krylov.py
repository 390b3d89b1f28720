"""Functions `(L + r I)^-p e_j` of a graph Laplacian on a few columns, many functions at the cost of one.

The block Lanczos process builds an orthonormal basis Q of the Krylov space of L and a block of columns E, in which L is
a block tridiagonal matrix T:

    L Q_k = Q_(k - 1) beta_k' + Q_k alpha_k + Q_(k + 1) beta_(k + 1),    E = Q_0 beta_0

All functions of L follow from it, `f(L) E = Q f(T) e_1 beta_0` (matrix Gauss quadrature: Golub and Meurant, "Matrices,
moments and quadrature with applications", 2010), so all ridges r and powers p share the products with L, and each
column profits from the directions of the others: 50 columns take some 30 steps, one alone more than 100. The entries
`E'f(L)E` lie between this and the same with T changed so that it has an eigenvalue below those of L (Gauss-Radau),
which tells when to stop: an eigenvalue that was not found yet, as of a cluster behind a weak edge, keeps them apart.

Q is not stored. A first pass stores T and the rows of Q at a few vertices, for the matrix of the labeled points;
`chebyshev.py` adds up a combination of all functions of all columns at every vertex.

The null space of L, one vector a component, is projected out in every step and added exactly, since a small ridge makes
it larger than the precision of the basis.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from scipy.linalg import eigh
from scipy.linalg.lapack import dpotrf, dpotri

from ..base.errors import require
from ..storage.blocks import row_ranges
from .lanczos import SingularMatrix
from .operators import add_row

FIRST_CHECK = 10  # steps before the first check of convergence
GROWTH = 1.1  # of the steps between checks
ROWS = 2048  # of a block, which stay in the cache of a processor from one operation to the next
SHORT = 1e-5  # of a new direction, relative to the diagonal of L times that which it came from: rounding
TINY = float(np.finfo(np.float32).tiny)
CORRELATED = 1e-2  # eigenvalue of correlations below which columns are orthogonalized again
RESOLVED = 1e-6  # the smallest that a Gram matrix in float32 resolves


@dataclass(frozen=True)
class Functions:
    """Functions `(x + ridge)^-power` of eigenvalues x >= 0, one an entry of two lists (m,)."""

    ridge: tuple[float, ...]
    power: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.ridge)

    def take(self, places: np.ndarray) -> "Functions":
        """Return some of the functions."""
        return Functions(tuple(self.ridge[place] for place in places), tuple(self.power[place] for place in places))

    def of(self, x: np.ndarray) -> np.ndarray:
        """Return the values (m, k) at x (k,)."""
        return (np.maximum(x, 0.0) + np.array(self.ridge)[:, None]) ** -np.array(self.power, np.float64)[:, None]

    def hardest(self) -> np.ndarray:
        """Return the places of the smallest ridge of each power, the last to converge."""
        return np.array([min((place for place, each in enumerate(self.power) if each == power),
                             key=self.ridge.__getitem__) for power in sorted(set(self.power))], np.int64)


@dataclass(frozen=True)
class BlockTridiagonal:
    """The matrix T, with blocks alpha (k, t, t) on the diagonal and beta[1:] below it; beta (k, t, t).

    Where a Krylov space has fewer directions than columns, rows and columns of alpha and rows of beta are zero.
    """

    alpha: np.ndarray
    beta: np.ndarray

    def first(self, steps: int) -> "BlockTridiagonal":
        """Return T after fewer steps."""
        return BlockTridiagonal(self.alpha[:steps], self.beta[:steps])

    def functions(self, functions: Functions) -> Iterator[tuple[int, np.ndarray]]:
        """Yield the place of each function and `f(T) e_1 beta_0` (k, t, t), as long as T plus the ridge is positive."""
        for ridge in set(functions.ridge):
            places = [place for place, each in enumerate(functions.ridge) if each == ridge]
            powers = self.inverse_powers(ridge, max(functions.power[place] for place in places))
            for place in places if powers else ():
                yield place, powers[functions.power[place] - 1]
            powers.clear()  # before the next are made

    def combined(self, functions: Functions, coef: np.ndarray) -> np.ndarray:
        """Return the sum over functions of `f(T) e_1 beta_0 coef[f]` (k, t, c), for coef (m, t, c)."""
        total = np.zeros((*self.alpha.shape[:2], coef.shape[2]))
        for place, weights in self.functions(functions):
            total += weights @ coef[place]
        return total

    def errors(self, functions: Functions) -> np.ndarray:
        """Return bounds (m, t) of the errors of `beta_0' f(T) e_1 beta_0` on the diagonal, relative to its entries.

        They are differences from Gauss-Radau quadrature with a node at -ridge / 2, below all eigenvalues: the last
        block of T becomes `beta (T_(k - 1) + ridge / 2)^-1 beta' - ridge / 2`. Infinite where T is not positive.
        """
        errors, steps = np.full((len(functions), self.alpha.shape[1]), np.inf), len(self.alpha)
        for ridge in set(functions.ridge) if steps > 1 else ():
            places = [place for place, each in enumerate(functions.ridge) if each == ridge]
            inverses = self.first(steps - 1).block_inverses(ridge / 2)
            if not inverses:
                continue
            alpha = self.alpha.copy()
            alpha[-1] = self.beta[-1] @ inverses.pop() @ self.beta[-1].T - ridge / 2 * np.eye(alpha.shape[1])
            inverses.clear()
            some = functions.take(np.array(places))
            below, above = self._diagonals(some), replace(self, alpha=alpha)._diagonals(some)
            known = np.isfinite(above) & np.isfinite(below) & (below > 0)
            errors[places] = np.divide(above - below, below, where=known, out=np.where(below > 0, np.inf, 0.0))
        return np.abs(errors)

    def resolved(self, functions: Functions, tol: float, dropped: float = 0.0) -> np.ndarray:
        """Return which functions (m,) what T leaves out changes by less than `tol`.

        The basis is in float32, which moves eigenvalues x by d = 2^-24 times the largest. Directions of the length
        `dropped` that the basis leaves out move them by up to `d = dropped^2 / r`. Both change `(x + r)^-p` by the
        share `p d / (x + r)`, so it is enough that T plus r is above `p d / tol`.
        """
        diagonals = np.einsum("kii->ki", self.alpha)
        largest = 2 * float(diagonals.max(initial=0.0))
        no_direction = np.where(diagonals == 0, largest, 0.0)
        alpha = self.alpha + no_direction[:, :, None] * np.eye(self.alpha.shape[1])
        T, moved = replace(self, alpha=alpha), np.maximum(2.0**-24 * largest, dropped**2 / np.array(functions.ridge))
        bounds = np.array(functions.ridge) - np.array(functions.power) * moved / tol
        order, first = np.argsort(bounds), 0  # T plus a bound is positive for all bounds from one on
        while len(alpha) and first < len(bounds) and not T.block_inverses(bounds[order[first]]):
            first += 1
        is_resolved = np.zeros(len(bounds), bool)
        is_resolved[order[first:]] = True
        return is_resolved

    def _diagonals(self, functions: Functions) -> np.ndarray:
        """Return the diagonals (m, t) of `beta_0' f(T) e_1 beta_0`, infinite where T plus the ridge is not positive."""
        diagonals = np.full((len(functions), self.alpha.shape[1]), np.inf)
        for place, values in self.functions(functions):
            diagonals[place] = np.einsum("ij,ij->j", self.beta[0], values[0])
        return diagonals

    def block_inverses(self, ridge: float) -> list[np.ndarray]:
        """Return for each step the last block (t, t) of the inverse of `T + ridge I` up to it, in k t^3 flops.

        The list is empty if the matrix is not positive definite.
        """
        inverses, added = list[np.ndarray](), ridge * np.eye(self.alpha.shape[1])
        for alpha, beta in zip(self.alpha, self.beta, strict=True):
            S = alpha + added
            if inverses:
                S -= beta @ inverses[-1] @ beta.T
            factor, failed = dpotrf(S, lower=True)
            if failed:
                return []
            lower = dpotri(factor, lower=True)[0]  # zero above the diagonal
            inverses.append(lower + lower.T - np.diag(lower.diagonal()))
        return inverses

    def inverse_powers(self, ridge: float, power: int) -> list[np.ndarray]:
        """Return `(T + ridge I)^-p e_1 beta_0` (k, t, t) for p from 1 to `power`; none if T is not positive definite.

        By block elimination, in k t^3 flops a power.
        """
        k, t = self.alpha.shape[:2]
        if not k:  # all columns lie in the null space
            return [np.zeros((0, t, t))] * power
        inverses = self.block_inverses(ridge)
        if not inverses:
            return []
        X, powers = np.zeros((k, t, t)), list[np.ndarray]()
        X[0] = self.beta[0]
        for _ in range(power):
            X = X.copy()
            for step in range(1, k):
                X[step] -= self.beta[step] @ (inverses[step - 1] @ X[step - 1])
            X[-1] = inverses[-1] @ X[-1]
            for step in range(k - 2, -1, -1):
                X[step] = inverses[step] @ (X[step] - self.beta[step + 1].T @ X[step + 1])
            powers.append(X)
        return powers


@dataclass(frozen=True)
class Krylov:
    """The result of the first pass for t columns.

    columns (t,): rows of the matrix. alpha, beta (k, t, t) : see `BlockTridiagonal`. values (m, rows, t): of m
    functions at some rows. converged (m, t).
    """

    columns: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    values: np.ndarray
    converged: np.ndarray

    @property
    def T(self) -> BlockTridiagonal:
        return BlockTridiagonal(self.alpha, self.beta)

    @property
    def steps(self) -> int:
        return len(self.alpha)

    def take(self, functions: np.ndarray) -> "Krylov":
        """Return the same of some of the functions."""
        return replace(self, values=self.values[functions], converged=self.converged[functions])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the named arrays for `from_arrays`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Krylov":
        """Return what `to_arrays` described."""
        return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})


def krylov(A: SingularMatrix, columns: np.ndarray, rows: np.ndarray, functions: Functions, tol: float,
           max_steps: int) -> Krylov:
    """Return the entries of functions of A in some rows and columns, and the matrix T for a second pass.

    A function of a column has converged when its entry at the column's own row, off the null space, is known to `tol`
    squared (`BlockTridiagonal.errors`), and when rounding and dropped directions change it by less than `tol`
    (`BlockTridiagonal.resolved`). For inverses, entries (i, j) are then known to `tol` times the root of the entries
    (i, i) and (j, j). Products with the basis are in float32, as it is. The process stops when the functions of the
    smallest ridges have converged, or at `max_steps`.
    Memory: `krylov_bytes`.
    """
    require(max_steps >= FIRST_CHECK, f"max_steps={max_steps}, expected {FIRST_CHECK} or more",
            why="convergence is first checked there", fix="leave it at its default")
    t, check, last = len(columns), float(FIRST_CHECK), list(functions.hardest())
    seen, alphas, betas, dropped = list[np.ndarray](), list[np.ndarray](), list[np.ndarray](), [0.0]
    for Q, alpha, beta in basis(A, columns, dropped):
        seen.append(Q[rows])
        alphas.append(alpha)
        betas.append(beta)
        if len(seen) < max_steps:
            if len(seen) < int(check):
                continue
            check *= GROWTH
            T, known = BlockTridiagonal(np.array(alphas), np.array(betas)), 0
            while known < len(last) and (T.errors(functions.take(np.array(last[known:known + 1]))) <= tol**2).all():
                known += 1
            if known < len(last):
                last.insert(0, last.pop(known))  # checked first the next time, since it is the last to converge
                continue
        ended = False
        break
    else:
        ended = True  # the space has no further directions, so that T leaves out nothing but `dropped`
    T = BlockTridiagonal(np.array(alphas).reshape(-1, t, t), np.array(betas).reshape(-1, t, t))
    converged = np.ones((len(functions), t), bool) if ended else T.errors(functions) <= tol**2
    converged &= T.resolved(functions, tol, max(dropped))[:, None]
    values = np.full((len(functions), len(rows), t), np.inf)
    for place, weights in T.functions(functions):
        values[place] = 0
        unit = 2.0 ** np.frexp(np.abs(weights).max(initial=0.0))[1]  # which float32 may not hold
        for part, weight in zip(seen, (weights / unit).astype(np.float32), strict=True):
            values[place] += part @ weight
        values[place] *= unit
    exact = functions.of(np.zeros(1))[:, :, None] * A.null_parts(columns, rows)
    return Krylov(np.asarray(columns), T.alpha, T.beta, values + exact, converged & np.isfinite(values).all(axis=1))


def combined(A: SingularMatrix, process: Krylov, weights: np.ndarray) -> np.ndarray:
    """Return the sum over the steps of `Q_k weights[k]`, (n, c) float64, for weights (k, t, c), by a second pass.

    Memory: the basis, and two arrays of n x c.
    """
    total = np.zeros((A.n, weights.shape[2]))
    for weight, (Q, _, _) in zip(weights.astype(np.float32), basis(A, process.columns), strict=False):
        total += Q @ weight
    return total


def null_part(A: SingularMatrix, columns: np.ndarray, functions: Functions, coef: np.ndarray) -> np.ndarray:
    """Return the sum over functions and columns of `f(A) e_j coef[f, j]` in the null space, exactly; (n, c)."""
    at_null = np.tensordot(functions.of(np.zeros(1))[:, 0], coef, 1) * A.null[columns][:, None]
    total = np.zeros((A.n_components, coef.shape[2]))
    np.add.at(total, A.component[columns], at_null)
    return A.null[:, None] * total[A.component]


def krylov_bytes(n: int, n_rows: int, t: int, n_functions: int, max_steps: int, max_power: int) -> int:
    """Return the bytes of `krylov`: the basis, its rows, the functions at these, and of T with all powers."""
    of_T = 8 * max_steps * t * t  # alpha and beta twice, another alpha, inverses, and powers with one in the making
    return 12 * n * t + (4 * max_steps + 28 * n_functions) * n_rows * t + (7 + max_power) * of_T


def basis(A: SingularMatrix, columns: np.ndarray,
          dropped: list[float] | None = None) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Yield (Q_k (n, t) float32, alpha_k (t, t), beta_k (t, t)) of the block Lanczos process on unit columns (t,).

    Columns of Q_k are orthonormal, or zero where the space has no further directions; it ends where it has none. The
    yielded array is reused. Memory: three arrays of n x t float32.

    dropped : a list to which the lengths of the directions that are left out are added.
    """
    n, t = A.n, len(columns)
    ranges, squared = row_ranges(n, ROWS), A.diagonal**2
    U, before, spare = (np.zeros((n, t), np.float32) for _ in range(3))
    U[columns, np.arange(t)] = 1
    A.project(U)
    dropped = [] if dropped is None else dropped
    Q, U, beta = _orthonormal(U, spare, _gram(U, ranges), np.full(t, SHORT), ranges, dropped)
    while beta.any():
        alpha, of_before, magnitude = np.zeros((t, t)), beta.T.astype(np.float32), np.zeros(t)
        for start, stop in ranges:
            part = U[start:stop]
            multiply_rows(A.indptr, A.indices, A.data, A.diagonal, Q, U, start, stop)
            part -= before[start:stop] @ of_before
            alpha += Q[start:stop].T @ part
            magnitude += squared[start:stop] @ Q[start:stop] ** 2
        yield Q, (alpha + alpha.T) / 2, beta
        of_Q = alpha.astype(np.float32)  # not symmetrized, so that the next block is orthogonal to this one
        gram, inner = np.zeros((t, t)), np.zeros((A.n_components, t))
        for start, stop in ranges:
            part = U[start:stop]
            part -= Q[start:stop] @ of_Q
            gram += part.T @ part
            add_null_products(A.null[start:stop], A.component[start:stop], part, inner)
        subtract_null(A.null, A.component, U, inner)
        spare, before = before, Q
        Q, U, beta = _orthonormal(U, spare, gram, np.maximum(SHORT * np.sqrt(magnitude), TINY), ranges,
                                  dropped)


def _gram(U: np.ndarray, ranges: list[tuple[int, int]]) -> np.ndarray:
    """Return U'U (t, t) in float64, of products of some rows in float32."""
    gram = np.zeros((U.shape[1], U.shape[1]))
    for start, stop in ranges:
        gram += U[start:stop].T @ U[start:stop]
    return gram


def _orthonormal(U: np.ndarray, spare: np.ndarray, gram: np.ndarray, floor: np.ndarray,
                 ranges: list[tuple[int, int]], dropped: list[float]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return Q (n, t), the other of the arrays U and `spare`, which are overwritten, and B (t, t) with `U = Q B`.

    gram : U'U. Directions along which no column of U is longer than its `floor` (t,) become zero columns of Q and
    rows of B; their lengths are added to `dropped`.

    References
    ----------
    Stathopoulos, Wu, "A block orthogonalization procedure with constant synchronization requirements", SISC 2002.
    """
    B, t = np.eye(len(gram)), len(gram)
    while True:
        lengths = np.sqrt(np.maximum(gram.diagonal(), 0.0))
        kept = lengths * np.linalg.norm(B / floor, axis=1) > 1
        dropped.extend(lengths[~kept] * np.linalg.norm(B[~kept], axis=1))
        inverse = np.divide(1.0, lengths, out=np.zeros(t), where=kept)
        # Columns that are dropped have an eigenvalue above those of all correlations, and so an eigenvector alone.
        values, vectors = eigh(inverse[:, None] * gram * inverse + np.diag(np.where(kept, 0.0, t + 1.0)))
        exact, n_kept = values[0] >= CORRELATED, int(kept.sum())
        roots = np.where(np.arange(t) < n_kept, np.sqrt(np.maximum(values, RESOLVED)), 0.0)
        B = (roots[:, None] * vectors.T * lengths) @ B
        factor = np.divide(inverse[:, None] * vectors, roots, out=np.zeros((t, t)), where=roots > 0).astype(np.float32)
        for start, stop in ranges:
            np.matmul(U[start:stop], factor, out=spare[start:stop])
        U, spare = spare, U
        if exact:
            return U, spare, B
        gram = _gram(U, ranges)


@njit(nogil=True, cache=True, fastmath=True)
def multiply_rows(indptr, indices, data, diagonal, V, U, start, stop):
    """Write rows [start, stop) of A V to U."""
    for i in range(start, stop):
        for c in range(V.shape[1]):
            U[i, c] = diagonal[i] * V[i, c]
        add_row(indptr, indices, data, i, V, U, False)


@njit(nogil=True, cache=True, fastmath=True)
def add_null_products(null, component, U, inner):
    """Add the products of each null vector with the columns of U to inner (n_components, t) float64."""
    for i in range(U.shape[0]):
        g, y = component[i], null[i]
        for c in range(U.shape[1]):
            inner[g, c] += y * U[i, c]


@njit(nogil=True, cache=True, fastmath=True)
def subtract_null(null, component, U, inner):
    """Subtract `null inner` from U."""
    for i in range(U.shape[0]):
        g, y = component[i], null[i]
        for c in range(U.shape[1]):
            U[i, c] -= np.float32(y * inner[g, c])

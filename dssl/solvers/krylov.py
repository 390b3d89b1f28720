"""Functions `(L + r I)^-p e_j` of a graph Laplacian on a few columns, many functions at the cost of one.

The block Lanczos process builds an orthonormal basis Q of the Krylov space of L and a block of columns E, in which L is
a block tridiagonal matrix T:

    L Q_k = Q_(k - 1) beta_k' + Q_k alpha_k + Q_(k + 1) beta_(k + 1),    E = Q_0 beta_0

All functions of L follow from it, `f(L) E = Q f(T) e_1 beta_0` (matrix Gauss quadrature: Golub and Meurant, "Matrices,
moments and quadrature with applications", 2010), so all ridges r and powers p share the products with L, and each
column profits from the directions of the others: 50 columns take some 30 steps, one alone more than 100. The entries
`E'f(L)E` lie between this and the same with T changed so that it has an eigenvalue below those of L (Gauss-Radau),
which tells when to stop: an eigenvalue that was not found yet, as of a cluster behind a weak edge, keeps them apart.

T is stored, and of Q the rows at a few vertices, for the matrix of the labeled points; `chebyshev.py` adds up a
combination of all functions of all columns at every vertex.

The null space of L, one vector a component, is projected out in every step and added exactly, since a small ridge makes
it larger than the precision of the basis.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numba import njit
from scipy.linalg import eigh

from ..base.errors import require
from ..storage.blocks import row_ranges
from .block_tridiagonal import BlockTridiagonal, Functions, Inverses
from .lanczos import SingularMatrix
from .operators import FieldArrays, add_entries

FIRST_CHECK = 10  # steps before the first check of convergence
GROWTH = 1.1  # of the steps between checks
ROWS = 2048  # of a block, which stay in the cache of a processor from one operation to the next
SHORT = 1e-5  # of a new direction, relative to the diagonal of L times that which it came from: rounding
TINY = float(np.finfo(np.float32).tiny)
CORRELATED = 1e-2  # eigenvalue of correlations below which columns are orthogonalized again
PRODUCT_COLUMNS = 256  # rows of some steps are multiplied at once, up to so many columns: sums in a product are float32
RESOLVED = 1e-6  # the smallest that a Gram matrix in float32 resolves


@dataclass(frozen=True)
class Krylov(FieldArrays):
    """The result of the process for t columns.

    columns (t,): rows of the matrix. alpha, beta (k, t, t) : see `BlockTridiagonal`. values (m, rows, t): of m
    functions at some rows. converged (m, t).
    """

    columns: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    values: np.ndarray
    converged: np.ndarray

    @property
    def steps(self) -> int:
        return len(self.alpha)


def krylov(A: SingularMatrix, columns: np.ndarray, rows: np.ndarray, functions: Functions, tol: float,
           max_steps: int) -> Krylov:
    """Return the entries of functions of A in some rows and columns, and the matrix T.

    A function of a column has converged when its entry at the column's own row, off the null space, is known to `tol`
    squared (`BlockTridiagonal.errors`), and when rounding and dropped directions change it by less than `tol`
    (`BlockTridiagonal.resolved`). For inverses, entries (i, j) are then known to `tol` times the root of the entries
    (i, i) and (j, j). Products with the basis are in float32, as it is. The process stops when the functions of the
    smallest ridges have converged, or at `max_steps`.
    Memory: `krylov_bytes`.
    """
    require(max_steps >= FIRST_CHECK, f"max_steps={max_steps}, expected {FIRST_CHECK} or more",
            why="convergence is first checked there", fix="leave it at its default")
    t, check, ended = len(columns), float(FIRST_CHECK), False
    hardest = list(functions.hardest())
    seen, alphas, betas, dropped = list[np.ndarray](), list[np.ndarray](), list[np.ndarray](), [0.0]
    inverses: Inverses = {}
    side_by_side = max(PRODUCT_COLUMNS // t, 1)
    for Q, alpha, beta in basis(A, columns, dropped):
        slot = len(alphas) % side_by_side
        if not slot:
            width = min(side_by_side, max_steps - len(alphas))
            seen.append(np.empty((len(rows), width * t), np.float32))
        seen[-1][:, slot * t:(slot + 1) * t] = Q[rows]
        alphas.append(alpha)
        betas.append(beta)
        if len(alphas) == max_steps:
            break
        if len(alphas) < int(check):
            continue
        check *= GROWTH
        T = BlockTridiagonal(np.array(alphas), np.array(betas))
        for function in hardest:
            ridge, power = functions.ridge[function], functions.power[function]
            if not (T.errors(ridge, [power], inverses) <= tol**2).all():
                hardest.remove(function)  # to be checked first the next time
                hardest.insert(0, function)
                inverses = {each: inverses[each] for each in (ridge, ridge / 2) if each in inverses}
                break
        else:
            break
    else:
        ended = True  # the space has no further directions, so that T leaves out nothing but `dropped`
    T = BlockTridiagonal(np.array(alphas).reshape(-1, t, t), np.array(betas).reshape(-1, t, t))
    converged = np.ones((len(functions), t), bool)
    values, null = np.zeros((len(functions), len(rows), t)), A.null_parts(columns, rows)
    for ridge, places in functions.by_ridge().items():
        inverses = {}
        powers = [functions.power[place] for place in places]
        solved = T.inverse_powers(ridge, max(powers), inverses)
        if not ended:
            converged[places] = T.errors(ridge, powers, inverses, solved) <= tol**2
        if solved:
            _add_at_rows(seen, [solved[power - 1] for power in powers], [values[place] for place in places])
        else:
            converged[places] = False
        solved.clear()  # before the next are made
    converged &= T.resolved(functions, tol, max(dropped))[:, None]
    for of_function, at_null in zip(values, functions.of(np.zeros(1))[:, 0], strict=True):
        of_function += at_null * null
    return Krylov(np.asarray(columns), T.alpha, T.beta, values, converged & np.isfinite(values).all(axis=1))


def _add_at_rows(seen: list[np.ndarray], weights: list[np.ndarray], values: list[np.ndarray]) -> None:
    """Add the products of the basis with each of p weights (k, t, t) to p `values` (n_rows, t), which are zero.

    seen : rows of the basis (n_rows, some steps times t) float32. Products are in float32, and sums of them in float64.
    """
    k, t = weights[0].shape[:2]
    units = [2.0 ** np.frexp(np.abs(each).max(initial=0.0))[1] for each in weights]  # which float32 may not hold
    first = 0
    for part in seen:
        last = min(first + part.shape[1] // t, k)
        side_by_side = np.concatenate([each[first:last].reshape(-1, t) / unit
                                       for each, unit in zip(weights, units, strict=True)], axis=1)
        product = part[:, :len(side_by_side)] @ side_by_side.astype(np.float32)
        for index, of_weights in enumerate(values):
            of_weights += product[:, index * t:(index + 1) * t]
        first = last
    for of_weights, unit in zip(values, units, strict=True):
        of_weights *= unit


def null_part(A: SingularMatrix, columns: np.ndarray, functions: Functions, coef: np.ndarray) -> np.ndarray:
    """Return the sum over functions and columns of `f(A) e_j coef[f, j]` in the null space, exactly; (n, c)."""
    at_null = np.tensordot(functions.of(np.zeros(1))[:, 0], coef, 1) * A.null[columns][:, None]
    total = np.zeros((A.n_components, coef.shape[2]))
    np.add.at(total, A.component[columns], at_null)
    return A.null[:, None] * total[A.component]


def krylov_bytes(n: int, n_rows: int, t: int, n_functions: int, max_steps: int, max_power: int) -> int:
    """Return the bytes of `krylov`: the basis, its rows, the functions at these, and of T with all powers."""
    # Alpha and beta twice, inverses of two functions, powers with one in the making, and half of the powers again.
    of_T = 8 * max_steps * t * t * (9 + max_power + (max_power + 1) // 2)
    filled = max_steps + max(PRODUCT_COLUMNS // t, 1)  # steps whose rows are held, with those that have no step yet
    return 12 * n * t + (4 * filled + 28 * n_functions) * n_rows * t + of_T


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
        add_entries(indices, data, indptr[i], indptr[i + 1], V, i, U, False)


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

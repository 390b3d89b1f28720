"""Functions `(L + r I)^-p e_j` of a graph Laplacian on a few columns, many functions at the cost of one.

The Lanczos process builds, column by column, an orthonormal basis V of the Krylov space of L and e_j, in which L is a
tridiagonal T. All functions of L follow from the same basis, `f(L) e_j = V f(T) e_1` (Gauss quadrature: Golub and
Meurant, "Matrices, moments and quadrature with applications", 2010), so all ridges r and powers p share the products
with L. V is not stored. A first pass stores T and the rows of V at a few vertices, for the matrix of the labeled
points; a second pass repeats the steps and adds up a combination of all functions of all columns at every vertex.

The null space of L, one vector a component, is projected out in every step and added exactly, since a small ridge makes
it larger than the precision of the basis.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.linalg import eigh_tridiagonal
from scipy.sparse.csgraph import connected_components, reverse_cuthill_mckee

from ..base.errors import require
from .operators import add_row, component_products, inverse_permutation

FIRST_CHECK = 32  # steps before the first check of convergence
GROWTH = 1.5**0.5  # of the steps between checks; values are compared with those two checks before


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


@dataclass(frozen=True)
class SingularMatrix:
    """A symmetric positive semi-definite matrix with one known null vector a component, rows in Cuthill-McKee order.

    order (n,): row i here is row `order[i]` of the given matrix. diagonal (n,), indptr, indices, data, of one
    dtype: float32 for the Lanczos process, float64 for eigenpairs.
    component (n,): that of each row. null (n,) float64: of unit norm on each component.
    """

    order: np.ndarray
    diagonal: np.ndarray
    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    component: np.ndarray
    null: np.ndarray

    @classmethod
    def of(cls, L: Any, vector: np.ndarray, dtype: type[np.floating] = np.float32) -> "SingularMatrix":
        """Return the form of L (n, n), sparse, with `L vector = 0`; vector (n,) > 0."""
        L = sp.csr_matrix(L, dtype=np.float64)
        order = reverse_cuthill_mckee(L, symmetric_mode=True).astype(np.int64)
        L = sp.csr_matrix(L[order][:, order])
        diagonal = L.diagonal()
        L.setdiag(0)
        L.eliminate_zeros()
        L.sort_indices()
        count, component = connected_components(L, directed=False)
        v = np.asarray(vector, np.float64)[order]
        return cls(order, diagonal.astype(dtype), L.indptr.astype(np.int64), L.indices.astype(np.int32),
                   L.data.astype(dtype), component.astype(np.int32),
                   v / np.sqrt(np.bincount(component, v * v, count))[component])

    @property
    def n(self) -> int:
        return len(self.order)

    @property
    def n_components(self) -> int:
        return int(self.component.max()) + 1

    @property
    def place(self) -> np.ndarray:
        """Return the inverse of `order`, (n,)."""
        return inverse_permutation(self.order)

    def matrix(self) -> sp.csr_array:
        """Return the matrix in its order here, with its diagonal."""
        return sp.csr_array((self.data, self.indices, self.indptr), (self.n, self.n)) + sp.diags_array(self.diagonal)

    def multiply(self, X: np.ndarray) -> np.ndarray:
        """Return A X (n, c), for X of the dtype of A."""
        AX: np.ndarray = self.matrix() @ X
        return AX

    def leave(self, Y: np.ndarray) -> np.ndarray:
        """Return rows (n, c) in the order of the given matrix."""
        X = np.empty_like(Y)
        X[self.order] = Y
        return X

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the named arrays for `from_arrays`: 28 bytes a row, 8 an entry."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "SingularMatrix":
        """Return the matrix that `to_arrays` described."""
        return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})

    def null_parts(self, columns: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Return the entries (rows, t) of the projections of unit columns onto the null space."""
        same = self.component[rows][:, None] == self.component[columns]
        return same * (self.null[rows][:, None] * self.null[columns])

    def unit_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return unit columns (n, t) float32 projected off the null space and normalized; zero if they lie in it."""
        V, size = np.zeros((self.n, len(columns)), np.float32), self.lengths(columns)
        V[columns, np.arange(len(columns))] = 1
        self.project(V)
        V *= np.divide(1, size, out=np.zeros(len(columns)), where=size > 0).astype(np.float32)
        return V

    def project(self, V: np.ndarray) -> None:
        """Remove the null space from each column of V (n, t), in place; one array of its size."""
        inner = component_products(self.null, self.component, self.n_components, V)
        V -= (self.null[:, None] * inner[self.component]).astype(V.dtype)

    def basis(self, V: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
        """Yield (V_k (n, t) float32, alpha_k (t,), beta_k (t,)) of the Lanczos process on V, step by step.

        V, which is overwritten, has columns off the null space of unit length, or zero. The yielded array is reused.
        beta_k couples step k to k + 1. Memory: two arrays of n x t float32 beside V.
        """
        t = V.shape[1]
        U, beta, alpha, norms = np.zeros((self.n, t), np.float32), np.zeros(t), np.empty(t), np.empty(t)
        inner = np.empty((self.n_components, t))
        for _ in range(self.n):
            multiply_step(self.indptr, self.indices, self.data, self.diagonal, V, U, beta.astype(np.float32), alpha)
            advance(self.null, self.component, V, U, alpha.astype(np.float32), norms, inner)
            beta = np.sqrt(norms)
            yield V, alpha, beta
            normalize(self.null, self.component, U, inner,
                       np.divide(1, beta, out=np.zeros(t), where=beta > 0).astype(np.float32))
            V, U = U, V

    def lengths(self, columns: np.ndarray) -> np.ndarray:
        """Return the lengths (t,) of unit columns projected off the null space; 0 at rounding level."""
        square = 1 - self.null[columns] ** 2
        return np.sqrt(np.where(square > 1e-12, square, 0.0))


@dataclass(frozen=True)
class Krylov:
    """The result of the first pass for t columns.

    columns (t,): rows of the matrix. alpha, beta (k, t): the tridiagonal matrices, of which column j has `steps[j]`
    rows. values (m, rows, t): of m functions at some rows. largest (m, t): their largest entries there off the null
    space. lowest (t,): the smallest eigenvalues of the tridiagonal matrices; inf of none. converged (m, t).
    """

    columns: np.ndarray
    alpha: np.ndarray
    beta: np.ndarray
    steps: np.ndarray
    values: np.ndarray
    largest: np.ndarray
    lowest: np.ndarray
    converged: np.ndarray

    def take(self, functions: np.ndarray) -> "Krylov":
        """Return the same of some of the functions."""
        return replace(self, values=self.values[functions], largest=self.largest[functions],
                       converged=self.converged[functions])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the named arrays for `from_arrays`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "Krylov":
        """Return what `to_arrays` described."""
        return cls(**{name: arrays[name] for name in cls.__dataclass_fields__})


def krylov(A: SingularMatrix, columns: np.ndarray, rows: np.ndarray, functions: Functions, tol: float,
           max_steps: int) -> Krylov:
    """Return the entries of functions of A in some rows and columns, and the matrices T for a second pass.

    A function of a column has converged when, off the null space, it changed by at most `tol` of its largest entry
    since the steps were two thirds as many. A column stops when all its functions have, or at `max_steps`. Memory:
    `krylov_bytes`.
    """
    require(max_steps >= FIRST_CHECK, f"max_steps={max_steps}, expected {FIRST_CHECK} or more",
            why="convergence is first checked there", fix="leave it at its default")
    t, sizes, exact = len(columns), A.lengths(columns), A.null_parts(columns, rows)
    values = functions.of(np.zeros(1))[:, :, None] * exact  # the null space, exactly
    seen, alphas, betas = list[np.ndarray](), list[np.ndarray](), list[np.ndarray]()
    start = np.full((len(functions), len(rows)), np.inf)
    checks = [[start, start] for _ in range(t)]  # of each column: the values at the last two checks
    steps, check = np.zeros(t, np.int64), float(FIRST_CHECK)
    largest, lowest = np.zeros((len(functions), t)), np.full(t, np.inf)
    converged = np.repeat((sizes == 0)[None], len(functions), axis=0)
    for V, alpha, beta in A.basis(A.unit_columns(columns)):
        seen.append(V[rows])
        alphas.append(alpha.copy())
        betas.append(beta.copy())
        ended = len(seen) == min(max_steps, A.n)
        if len(seen) < int(check) and not ended:
            continue
        for j in np.flatnonzero(~converged.all(axis=0)):
            T = np.array([a[j] for a in alphas]), np.array([b[j] for b in betas])
            weights, x = _functions_of_basis(*T, functions)
            entries = sizes[j] * weights @ np.stack([rows_of[:, j] for rows_of in seen[:weights.shape[1]]])
            largest[:, j], lowest[j], steps[j] = np.abs(entries).max(axis=1), x[0], weights.shape[1]
            moved = np.abs(entries - checks[j][1]).max(axis=1)
            converged[:, j] = (weights.shape[1] < len(seen)) | (moved <= tol * largest[:, j])
            checks[j] = [entries, checks[j][0]]
        if converged.all() or ended:
            break
        check *= GROWTH
    for column in np.flatnonzero(steps):
        values[:, :, column] += checks[column][0]
    return Krylov(np.asarray(columns), np.array(alphas), np.array(betas), steps, values, largest, lowest, converged)


def combined(A: SingularMatrix, process: Krylov, functions: Functions, coef: np.ndarray) -> np.ndarray:
    """Return the sum over functions and columns of `f(A) e_j coef[f, j]`, (n, c) float64, for coef (m, t, c).

    Memory: the basis, and two arrays of n x c.
    """
    t, c = coef.shape[1:]
    sizes, longest = A.lengths(process.columns), int(process.steps.max(initial=0))
    of_step = np.zeros((longest, t, c))
    for j in range(t):
        k = process.steps[j]
        if k:
            weights, _ = _functions_of_basis(process.alpha[:k, j], process.beta[:k, j], functions)
            of_step[:weights.shape[1], j] = sizes[j] * weights.T @ coef[:, j]
    total = np.zeros((A.n, c))
    for step, (V, _, _) in zip(range(longest), A.basis(A.unit_columns(process.columns)), strict=False):
        total += V @ of_step[step].astype(np.float32)
    add_null(A, process.columns, functions, coef, total)
    return total


def add_null(A: SingularMatrix, columns: np.ndarray, functions: Functions, coef: np.ndarray, out: np.ndarray) -> None:
    """Add the part of `combined` in the null space to out (n, c), exactly."""
    at_null = np.tensordot(functions.of(np.zeros(1))[:, 0], coef, 1) * A.null[columns][:, None]
    total = np.zeros((A.n_components, coef.shape[2]))
    np.add.at(total, A.component[columns], at_null)
    out += A.null[:, None] * total[A.component]


def krylov_bytes(n: int, n_rows: int, t: int, n_functions: int, max_steps: int) -> int:
    """Return the bytes of `krylov`: the basis, its rows, and the functions at these."""
    return 12 * n * t + 4 * max_steps * n_rows * t + 16 * n_functions * n_rows * t


def _functions_of_basis(alpha: np.ndarray, beta: np.ndarray, functions: Functions) -> tuple[np.ndarray, np.ndarray]:
    """Return `f(T) e_1` (m, k) and the eigenvalues (k,) of T, ascending.

    T is of alpha and beta up to where the basis ends, a beta of rounding.
    """
    scale = float(np.abs(alpha).max()) + float(beta.max())
    ends = np.flatnonzero(beta <= 1e-5 * scale)
    k = int(ends[0]) + 1 if len(ends) else len(alpha)
    x, Q = eigh_tridiagonal(alpha[:k], beta[:k - 1]) if k > 1 else (alpha[:1], np.ones((1, 1)))
    return (functions.of(x) * Q[0]) @ Q.T, x


@njit(nogil=True, cache=True, fastmath=True)
def multiply_step(indptr, indices, data, diagonal, V, U, beta, alpha):
    """Replace U by `A V - U beta`, and write the column inner products of V with it to alpha (t,) float64."""
    t = V.shape[1]
    part = np.zeros(t, V.dtype)
    alpha[:] = 0
    for i in range(V.shape[0]):
        for c in range(t):
            U[i, c] = diagonal[i] * V[i, c] - beta[c] * U[i, c]
        add_row(indptr, indices, data, i, V, U, False)
        for c in range(t):
            part[c] += V[i, c] * U[i, c]
        if i & 255 == 255:
            for c in range(t):
                alpha[c] += part[c]
                part[c] = 0
    for c in range(t):
        alpha[c] += part[c]


@njit(nogil=True, cache=True, fastmath=True)
def advance(null, component, V, U, alpha, norms, inner):
    """Subtract `V alpha` from U, and write its squared column norms and its products with each null vector, float64.

    norms (t,), inner (n_components, t).
    """
    t = V.shape[1]
    part = np.zeros(t, V.dtype)
    norms[:] = 0
    inner[:] = 0
    for i in range(V.shape[0]):
        g, y = component[i], null[i]
        for c in range(t):
            u = U[i, c] - alpha[c] * V[i, c]
            U[i, c] = u
            part[c] += u * u
            inner[g, c] += y * u
        if i & 255 == 255:
            for c in range(t):
                norms[c] += part[c]
                part[c] = 0
    for c in range(t):
        norms[c] += part[c]


@njit(nogil=True, cache=True, fastmath=True)
def normalize(null, component, U, inner, scale):
    """Subtract `null inner` from U, and scale its columns."""
    for i in range(U.shape[0]):
        g, y = component[i], null[i]
        for c in range(U.shape[1]):
            U[i, c] = (U[i, c] - np.float32(y * inner[g, c])) * scale[c]

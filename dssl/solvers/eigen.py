"""The lowest eigenpairs of a graph Laplacian, to a tolerance, with a residual for each.

The null space is known: one vector a component, which all steps project out. Small matrices are decomposed as a whole.
For larger ones a block Lanczos process computes the largest eigenvalues of a function of L that maps the lowest
eigenvalues of L to large values and the others to small ones:

    filtered   a Chebyshev polynomial: products with L alone (`chebyshev.py`)
    inverse    L^+, by a factor of L or by multigrid (`solve.py`)

A polynomial of degree d resolves eigenvalues of about 8 / d^2 of the largest, which suffices for neighbor graphs of
high dimension. Graphs of points along a curve or on a surface have many smaller eigenvalues, and need the inverse. A
block of b columns finds at most b vectors of an eigenvalue, so after convergence another process searches the
complement for missed pairs.

References
----------
Zhou, Saad, "A Chebyshev-Davidson algorithm for large symmetric eigenproblems", SIMAX 2007; Fang, Saad, "A filtered
Lanczos procedure for extreme and interior eigenvalue problems", SISC 2012.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy.linalg import eigh, eigh_tridiagonal

from ..base.digest import JsonObject, is_whole, require_random_state
from ..base.errors import NotConverged, explain, require
from ..base.types import MatrixLike
from .chebyshev import filter_degree
from .lanczos import RitzPairs, SingularMatrix, block_lanczos
from .spectral_transform import GAIN, Filtered, Inverse, Transform, largest_eigenvalue

MAX_DENSE = 1500  # vertices, up to which `auto` decomposes the whole matrix: 0.3 s, a tenth of compiling the process
BLOCK = 8  # columns of the Lanczos process
FLOAT32_TOL = 1e-6  # smallest tolerance for which the filter begins in float32
CHECK_BLOCK = 4  # columns of the process that searches for missed pairs
MAX_DEGREE = 120  # of the filter, above which `auto` takes the inverse
COUNTING_COLUMNS, COUNTING_STEPS = 8, 60  # of the Lanczos process that counts eigenvalues
MIN_CUT = 1.2  # of a filter, relative to the largest eigenvalue that is computed
ROUNDS = 8  # of filters, each of a higher degree
RANDOM_SHARE = 1e-3  # of random columns in the start, relative to the given columns

EigenMethod = Literal["auto", "dense", "filtered", "inverse"]


@dataclass(frozen=True)
class Eigenpairs:
    """The m lowest eigenpairs of L (n, n), ascending, those of the null space first.

    values (m,), 0 exactly on the null space. vectors (n, m): orthonormal, the first largest entry of each (to 1e-6)
    positive. residuals (m,): `||L v - value v||` relative to `2 max_i L_ii`, an upper bound of the largest eigenvalue
    by a factor of at most 2. converged (m,). iterations : blocks to which the filter or the inverse was applied.
    method : "dense", "filtered", "inverse", or "null" if all pairs are in the null space.
    """

    values: np.ndarray
    vectors: np.ndarray
    residuals: np.ndarray
    converged: np.ndarray
    iterations: int
    method: str

    def require_converged(self) -> "Eigenpairs":
        """Return self, or raise NotConverged with the worst pair and a hint."""
        if not self.converged.all():
            worst = int(np.argmax(self.residuals))
            raise NotConverged(explain(
                f"{int((~self.converged).sum())} of {len(self.converged)} eigenpairs did not converge: number {worst} "
                f"ended at relative residual {self.residuals[worst]:.2e} ({self.method}, {self.iterations} blocks)",
                why="a wrong eigenpair cannot be recognized later",
                fix="ask for fewer pairs, or choose method='inverse' (low-dimensional data) or 'dense' (small graphs)"))
        return self

    @property
    def attributes(self) -> JsonObject:
        """Return the evidence; JSON."""
        return {"method": self.method, "iterations": self.iterations, "residual": float(self.residuals.max())}


def lowest_eigenpairs(L: MatrixLike, vector: np.ndarray, m: int, *, tol: float = 1e-6, method: EigenMethod = "auto",
                      random_state: int = 0, start: np.ndarray | None = None) -> Eigenpairs:
    """Return the m lowest eigenpairs of a Laplacian L (n, n), sparse; equal for equal seeds.

    L : symmetric with off-diagonal entries <= 0 and `L vector = 0`, such as `Laplacian.matrix()`.
    vector : (n,) > 0, such as `Laplacian.vector`; on each component it spans the null space.
    m : 1 to n.
    tol : largest relative residual (`Eigenpairs`).
    method : "dense", O(n^3); "filtered"; "inverse"; "auto" is "dense" for small matrices and if m is a large part of
        n, the inverse if the filter would need a large degree, and the filter otherwise.
    start : (n, r) approximate eigenvectors, such as those of a similar matrix; mixed with random columns.

    Memory: `eigenpairs_bytes`.
    """
    A = SingularMatrix.of(L, vector, np.float64)
    require(is_whole(m) and 1 <= m <= A.n, f"m={m!r}, expected 1 to {A.n}", why="a matrix has as many eigenpairs as "
            "rows", fix="ask for some tens; the null space counts, a vector a component")
    require(1e-14 <= tol < 1, f"tol={tol!r}, expected 1e-14 <= tolerance < 1",
            why="it is a relative residual in float64", fix="use 1e-6")
    require(method in ("auto", "dense", "filtered", "inverse"), f"method={method!r}",
            why="there is no such method", fix='choose "auto", "dense", "filtered" or "inverse"')
    if start is not None:
        require(start.ndim == 2 and len(start) == A.n and bool(np.isfinite(start).all()),
                f"a start of shape {start.shape}, expected ({A.n}, r) finite numbers",
                why="the process begins with it", fix="pass eigenvectors as columns, or none")
    require_random_state(random_state)
    zeros = min(m, A.n_components)
    rest = m - zeros
    fits = _fits(A.n, A.n_components, rest)
    require(fits or not rest or method in ("auto", "dense"), f"m={m} with method={method!r} and {A.n} vertices",
            why="the basis of the method has more columns than the matrix", fix='choose method="dense"')
    null, pairs = _null_vectors(A, zeros), _Eigenspace(np.empty((A.n, 0)), 0, "null")
    if rest and (method == "dense" or (method == "auto" and (A.n <= MAX_DENSE or not fits))):
        pairs = _Eigenspace(_dense(A, rest), 1, "dense")
    elif rest:
        pairs = _iterative(A, rest, tol, method, random_state, start)
    values, X, residuals = _rayleigh_ritz(A, pairs.vectors)
    vectors = A.leave(np.concatenate([null, X], axis=1))
    _sign(vectors)
    of_null = np.linalg.norm(A.multiply(null), axis=0) / largest_eigenvalue(A)
    values, residuals = np.concatenate([np.zeros(zeros), values]), np.concatenate([of_null, residuals])
    return Eigenpairs(values, vectors, residuals, residuals <= tol, pairs.iterations, pairs.method)


@dataclass(frozen=True)
class _Eigenspace:
    """Vectors (n, rest) that span the eigenspaces, the number of blocks, and the method."""

    vectors: np.ndarray
    iterations: int
    method: str


def max_columns(rest: int) -> int:
    """Return the maximal number of columns of the Lanczos basis for `rest` eigenpairs off the null space."""
    return 3 * rest + 20 * BLOCK


def eigenpairs_bytes(n: int, nnz: int, m: int) -> int:
    """Return an upper bound of the bytes of `lowest_eigenpairs` beside L, n rows and nnz entries, without an inverse.

    The reordered matrix, twice, and scaled for the filter; the dense matrix and its eigenvectors, or the basis.
    """
    whole = n <= MAX_DENSE or not _fits(n, 1, m - 1)
    return 60 * nnz + 80 * n + 8 * n * (n + 3 * m if whole else max_columns(m) + 5 * BLOCK + 4 * m)


def _fits(n: int, n_components: int, rest: int) -> bool:
    """Return whether the Lanczos basis has fewer columns than the complement of the null space and the pairs."""
    return max_columns(rest) + BLOCK <= n - n_components - rest


def _null_vectors(A: SingularMatrix, count: int) -> np.ndarray:
    """Return the null vectors of the first components (n, count), in the order of their first vertices."""
    _, first = np.unique(A.component[A.place], return_index=True)
    chosen = np.full(len(first), -1)
    chosen[np.argsort(first)[:count]] = np.arange(count)
    vertices = np.flatnonzero(chosen[A.component] >= 0)
    null = np.zeros((A.n, count))
    null[vertices, chosen[A.component[vertices]]] = A.null[vertices]
    return null


def _rayleigh_ritz(A: SingularMatrix, X: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return values ascending, vectors and residuals of A on the span of orthonormal X (n, r)."""
    AX = A.multiply(X)
    values, Y = eigh(X.T @ AX) if X.shape[1] else (np.empty(0), np.empty((0, 0)))
    X, AX = X @ Y, AX @ Y
    AX -= X * values
    return values, X, np.linalg.norm(AX, axis=0) / largest_eigenvalue(A)


def _sign(X: np.ndarray) -> None:
    """Turn the columns of X (n, m), in place, so that their first largest entry is positive."""
    size = np.abs(X)
    first = (size >= (1 - 1e-6) * size.max(axis=0)).argmax(axis=0)
    X *= np.where(X[first, np.arange(X.shape[1])] < 0, -1.0, 1.0)


def _dense(A: SingularMatrix, rest: int) -> np.ndarray:
    """Return the eigenvectors (n, rest) of the lowest eigenvalues off the null space, which is shifted to the top."""
    whole, top = A.matrix().toarray(), 2 * largest_eigenvalue(A)
    for i in range(A.n):
        whole[i] += top * A.null[i] * np.where(A.component == A.component[i], A.null, 0)
    return eigh(whole.T, subset_by_index=[0, rest - 1], overwrite_a=True)[1]


def eigenvalue_counts(A: SingularMatrix, random_state: int) -> tuple[np.ndarray, np.ndarray]:
    """Return x ascending and estimates of how many eigenvalues, off the null space, are at most each.

    By Gauss quadrature of the density that random columns see: Lin, Saad, Yang, "Approximating spectral densities of
    large matrices", SIAM Review 2016.
    """
    A32 = replace(A, data=A.data.astype(np.float32), diagonal=A.diagonal.astype(np.float32))
    V = np.random.default_rng([random_state, A.n]).standard_normal((A.n, COUNTING_COLUMNS), dtype=np.float32)
    A.project(V)
    V /= np.linalg.norm(V, axis=0)
    steps = [(alpha.copy(), beta) for _, (_, alpha, beta) in zip(range(COUNTING_STEPS), A32.basis(V), strict=False)]
    alpha, beta = np.array([a for a, _ in steps]), np.array([b for _, b in steps])
    x, weight = [], []
    for j in range(COUNTING_COLUMNS):
        values, Q = eigh_tridiagonal(alpha[:, j], beta[:-1, j])
        x.append(values)
        weight.append(Q[0] ** 2)
    order = np.argsort(np.concatenate(x))
    count = np.cumsum(np.concatenate(weight)[order]) * (A.n - A.n_components) / COUNTING_COLUMNS
    return np.concatenate(x)[order], count


def _iterative(A: SingularMatrix, rest: int, tol: float, method: str, random_state: int,
               given: np.ndarray | None) -> _Eigenspace:
    """Return the lowest pairs by a method, or the one that `auto` selects."""
    high, asked = largest_eigenvalue(A), int(1.5 * rest) + BLOCK
    x, count = eigenvalue_counts(A, random_state)
    low = _cut(x[np.minimum(np.searchsorted(count, [rest, asked]), len(x) - 1)], high)
    degree = filter_degree(low, high, GAIN)
    transform: Transform
    if method == "inverse" or (method == "auto" and degree > MAX_DEGREE):
        method, transform = "inverse", Inverse.of(A, tol)
    else:
        method = "filtered"
        transform = Filtered.of(A, low, degree, np.float32 if tol >= FLOAT32_TOL else np.float64)
    start, steps = np.random.default_rng([random_state, A.n]).standard_normal((A.n, BLOCK)), 0
    if given is not None:
        start = _mixed(A, given, start, random_state)
    for _ in range(ROUNDS):
        pairs = _run(A, transform, rest, tol, random_state, start)
        steps += pairs.steps
        met = pairs.finished
        values, X, residuals = _rayleigh_ritz(A, pairs.vectors(rest if met else min(asked, len(pairs.values))))
        del pairs
        if met and residuals.max() <= tol:
            X, more = _completed(A, transform, X, float(values[-1]), tol, random_state)
            return _Eigenspace(X, steps + more, method)
        # Ritz values are above the eigenvalues, so the next filter has a lower cut.
        transform = transform.sharper(min(low, _cut(values[[rest - 1, -1]], high)))
        start = X @ np.random.default_rng([random_state, rest]).standard_normal((X.shape[1], BLOCK))
    return _Eigenspace(X[:, :rest], steps, method)


def _mixed(A: SingularMatrix, given: np.ndarray, random: np.ndarray, random_state: int) -> np.ndarray:
    """Return mixtures (n, b) of the given columns (n, r), off the null space, and of a few random columns (n, b)."""
    X = given[A.order]
    X = X / np.maximum(np.linalg.norm(X, axis=0), np.finfo(float).tiny)
    A.project(X)
    mixed = X @ np.random.default_rng([random_state, *X.shape]).standard_normal((X.shape[1], random.shape[1]))
    return mixed + RANDOM_SHARE * max(1.0, float(np.linalg.norm(mixed))) / np.sqrt(random.size) * random


def _cut(values: np.ndarray, high: float) -> float:
    """Return the cut of a filter: the second of two eigenvalues, but above the first, which it amplifies."""
    return float(np.clip(max(values[1], MIN_CUT * values[0]), 1e-8 * high, 0.9 * high))


def _run(A: SingularMatrix, transform: Transform, rest: int, tol: float, random_state: int,
         start: np.ndarray) -> RitzPairs:
    """Return the Ritz pairs of a process that ends when the first `rest` meet the tolerance."""
    def finished(values: np.ndarray, residuals: np.ndarray) -> bool:
        if len(values) < rest:
            return False
        return bool((residuals[:rest] * transform.per_residual(values[:rest]) <= tol / 2).all())

    return block_lanczos(transform, start, A.project, max_columns(rest), finished, random_state)


def _completed(A: SingularMatrix, transform: Transform, X: np.ndarray, last: float, tol: float,
               random_state: int) -> tuple[np.ndarray, int]:
    """Return X (n, rest) with missed vectors in place, and the number of blocks; last : the largest eigenvalue of X."""
    rest, steps, unfinished = X.shape[1], 0, 0
    hidden = math.log(10 * math.sqrt(A.n))  # of a vector in random columns, as a logarithm
    while unfinished < ROUNDS:
        bar, min_steps = transform.at(last) * (1 + 1e-6), hidden / math.log(max(transform.contrast(last), 1.5))

        def project(V: np.ndarray, X: np.ndarray = X) -> None:
            A.project(V)
            V -= X @ (X.T @ V)

        def finished(values: np.ndarray, residuals: np.ndarray, transform: Transform = transform, bar: float = bar,
                     min_steps: float = min_steps) -> bool:
            if len(values) < CHECK_BLOCK * min_steps:
                return False
            above = max(int((values > bar).sum()), 1)
            met = residuals[:above] * transform.per_residual(values[:above]) <= tol / 2
            return bool(met.all() or values[0] + residuals[0] <= bar)

        start = np.random.default_rng([random_state, A.n, steps]).standard_normal((A.n, CHECK_BLOCK))
        process = block_lanczos(transform, start, project, max_columns(0), finished, random_state)
        steps += process.steps
        above = int((process.values > bar).sum())
        if not process.finished:
            unfinished += 1
            transform = transform.sharper(MIN_CUT * last)
        elif not above:
            break
        else:
            values, X, _ = _rayleigh_ritz(A, np.concatenate([X, process.vectors(above)], axis=1))
            X, last = X[:, :rest], float(values[rest - 1])
    return X, steps

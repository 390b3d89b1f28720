"""The inner loops beside what the machine does: bytes a second of a stream and of gathered rows, flops of a product.

    python -m tests.benchmarks.roofline --cache FOLDER --runs 7

Prints one JSON document a line. First the ceilings: `stream` reads two arrays and writes a third, far larger than the
caches; `gather` reads the rows of a block (n, t) of float32, t = 1, 10 or 64, in the order in which the graph names
them, and adds them up; `sgemm` and `dgemm` multiply square matrices. Then each loop with its flops and its bytes, every
array counted once however often a row of it is read, and beside them the bytes of the rows that the entries of the
matrix name. The shares are of the ceilings in the same run. With `--threads 2` each ceiling and loop runs twice side by
side on columns of its own, as the tasks of two workers do. The graph is that of 70,000 images (`mnist`, k = 10); the
data come from $DSSL_DATA, and its neighbor lists are kept in the cache folder.
"""

import argparse
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numba import njit
from threadpoolctl import threadpool_limits

from dssl.execution.in_process import InProcess
from dssl.graph.laplacian import Laplacian
from dssl.graph.weights.build import weights
from dssl.kernels.base import RBF
from dssl.knn.search import neighbors
from dssl.learners.laprls.products import add_gram
from dssl.solvers.chebyshev import step_of
from dssl.solvers.cholesky import _solve
from dssl.solvers.gauss_seidel import _solve_lower_dot, _solve_upper, _step, _turn
from dssl.solvers.krylov import multiply_rows
from dssl.solvers.operators import ScaledMatrix
from dssl.solvers.pcg import direction, multiply_dot, step
from dssl.solvers.solve import prepare
from dssl.solvers.solver_params import SolverParams
from tests.benchmarks.solve import cached_lists, data, mnist_points

STREAMED = 2**26  # values of each of three arrays
SQUARE = 3000  # rows of the matrices that are multiplied
COLUMNS = (1, 10, 64)


@dataclass(frozen=True)
class Loop:
    """What is measured: `run` once does so many flops, and moves so many bytes; `gathered` are those of named rows."""

    name: str
    run: Callable[[], object]
    flops: float
    bytes: float
    gathered: float = 0
    columns: int = 0  # of gathered rows
    product: str = "sgemm"  # whose rate its flops are compared with


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cache", type=Path, required=True, help="folder for neighbor lists")
    parser.add_argument("--runs", type=int, default=7, help="times that each loop is measured")
    parser.add_argument("--threads", type=int, default=1, choices=(1, 2), help="how many of each run side by side")
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    with threadpool_limits(1):
        measure(args.cache, args.runs, args.threads)


def measure(cache: Path, runs: int, threads: int) -> None:
    """Report the ceilings, and each loop beside them."""
    L = Laplacian(weights(cached_lists(cache, "mnist", 10, lambda: mnist_points(70_000)), "self_tuned"))
    R, vector = L.matrix(1e-3), np.sqrt(L.degrees)
    A = prepare(R, COLUMNS[-1], SolverParams(method="gauss_seidel"), vector).method.A
    factor = prepare(R, COLUMNS[-1], SolverParams(method="cholesky"), vector).method
    rates = {}
    for ceiling in ceilings(A, threads):
        best, _ = seconds(ceiling.copies, runs)
        rates[ceiling.name] = threads * ceiling.amount / best
        report(ceiling=ceiling.name, threads=threads, **{ceiling.unit: round(rates[ceiling.name] / 1e9, 2)})
    for copies in loops(A, factor, threads):
        best, middle = seconds([loop.run for loop in copies], runs)
        loop = copies[0]
        rate = {name: threads * amount / best for name, amount in (
            ("flops", loop.flops), ("bytes", loop.bytes), ("gathered", loop.gathered))}
        report(loop=loop.name, threads=threads, best=round(best, 4), median=round(middle, 4),
               gflops=round(rate["flops"] / 1e9, 2), share_of_product=round(rate["flops"] / rates[loop.product], 3),
               gb_per_second=round(rate["bytes"] / 1e9, 2), share_of_stream=round(rate["bytes"] / rates["stream"], 3),
               **({"share_of_gather": round(
                   rate["gathered"] / rates[f"gather, {loop.columns} columns"], 3)} if loop.gathered else {}))


def report(**record: object) -> None:
    print(json.dumps(record), flush=True)


def seconds(copies: list[Callable[[], object]], runs: int) -> tuple[float, float]:
    """Return the best and the median seconds in which all copies, side by side, are through."""
    taken = []
    with ThreadPoolExecutor(len(copies)) as pool:
        for run in range(runs + 1):
            begin = time.perf_counter()
            for future in [pool.submit(copy) for copy in copies]:
                future.result()
            if run:  # the first one compiles
                taken.append(time.perf_counter() - begin)
    return min(taken), median(taken)


# Ceilings


@dataclass(frozen=True)
class Ceiling:
    """A loop that does nothing but move or multiply: `copies` of it, the amount of each and its unit."""

    name: str
    unit: str
    amount: float
    copies: list[Callable[[], object]]


@njit(nogil=True, fastmath=True)
def triad(a, b, c):
    """Write `b + 2 c` to a."""
    for i in range(len(a)):
        a[i] = b[i] + 2 * c[i]


@njit(nogil=True, fastmath=True)
def gather(indptr, indices, P, total):
    """Add the rows of P (n, t) that the rows of a matrix name to total (t,)."""
    for i in range(len(indptr) - 1):
        for e in range(indptr[i], indptr[i + 1]):
            row = P[indices[e]]
            for c in range(len(total)):
                total[c] += row[c]


def ceilings(A: ScaledMatrix, threads: int) -> list[Ceiling]:
    """Return what the machine does at most, in one thread or two side by side."""
    rng = np.random.default_rng(0)
    arrays = [np.ones((3, STREAMED // threads), np.float32) for _ in range(threads)]
    made = [Ceiling("stream", "gb_per_second", 12 * STREAMED // threads, [lambda a=a: triad(*a) for a in arrays])]
    for t in COLUMNS:
        blocks = [(rng.normal(size=(A.n, t)).astype(np.float32), np.zeros(t, np.float32)) for _ in range(threads)]
        made.append(Ceiling(f"gather, {t} columns", "gb_per_second", 4 * t * len(A.indices), [
            lambda P=P, total=total: gather(A.indptr, A.indices, P, total) for P, total in blocks]))
    for name, dtype in (("sgemm", np.float32), ("dgemm", np.float64)):
        squares = [rng.normal(size=(2, SQUARE, SQUARE)).astype(dtype) for _ in range(threads)]
        made.append(Ceiling(name, "gflops", 2 * SQUARE**3, [lambda s=s: s[0] @ s[1] for s in squares]))
    return made


# Loops


def loops(A: ScaledMatrix, factor: Any, threads: int) -> list[list[Loop]]:
    """Return the copies of each loop."""
    return [list(copies) for copies in zip(*(
        [*solver_loops(A, factor, seed), *dense_loops(seed)] for seed in range(threads)), strict=True)]


def solver_loops(A: ScaledMatrix, factor: Any, seed: int) -> list[Loop]:
    """Return the loops of the solvers: passes over a matrix, a triangular factor, and blocks of columns."""
    n, m = A.n, len(A.indices)
    rng = np.random.default_rng(seed)
    made = []
    for t in COLUMNS:
        P, Q, X, R = (rng.normal(size=(n, t)).astype(np.float32) for _ in range(4))
        inner, small, diagonal = np.zeros(t), np.full(t, 1e-3, np.float32), np.ones(n, np.float32)
        matrix, block = 8 * m + 8 * n, 4 * n * t
        T, Z, triangles = X.copy(), X.copy(), (A.indptr, A.first_above, A.indices, A.data32)

        def gauss_seidel(P: np.ndarray = P, R: np.ndarray = R, T: np.ndarray = T, Z: np.ndarray = Z,
                         small: np.ndarray = small, inner: np.ndarray = inner,
                         triangles: tuple[np.ndarray, ...] = triangles) -> None:
            _turn(P, R, small, T)
            _solve_upper(*triangles, T)
            _solve_lower_dot(*triangles, P, T, Z, inner)

        made += [
            Loop(f"direction and two solves of Gauss-Seidel, {t} columns", gauss_seidel, 2 * t * (m + 3 * n),
                 matrix + 8 * n + 9 * block, 4 * t * m, t),
            Loop(f"step of Gauss-Seidel, {t} columns",
                 lambda X=X, R=R, T=T, Z=Z, small=small, inner=inner: _step(X, R, T, Z, small, inner),
                 7 * n * t, 6 * block),
            Loop(f"product of conjugate gradients, {t} columns",
                 lambda P=P, Q=Q, inner=inner: multiply_dot(A.indptr, A.indices, A.data32, P, Q, inner),
                 2 * t * (m + 2 * n), matrix + 2 * block, 4 * t * m, t),
            Loop(f"step of conjugate gradients, {t} columns",
                 lambda X=X, R=R, P=P, Q=Q, small=small, inner=inner: step(X, R, P, Q, small, inner),
                 6 * n * t, 6 * block),
            Loop(f"direction of conjugate gradients, {t} columns",
                 lambda P=P, R=R, small=small: direction(P, R, small), 2 * n * t, 3 * block),
            Loop(f"product of block Lanczos, {t} columns",
                 lambda P=P, Q=Q, diagonal=diagonal: multiply_rows(A.indptr, A.indices, A.data32, diagonal, P, Q, 0, n),
                 2 * t * (m + n), matrix + 4 * n + 2 * block, 4 * t * m, t),
            Loop(f"step of the Chebyshev recurrence, {t} columns",
                 lambda P=P, Q=Q, diagonal=diagonal: step_of(A.indptr, A.indices, A.data32, diagonal, P, Q),
                 2 * t * (m + n), matrix + 4 * n + 3 * block, 4 * t * m, t),
            Loop(f"two triangular solves of a factor, {t} columns",
                 lambda X=X: _solve(factor.order, factor.starts, factor.rows, factor.values, factor.inverse, X.copy()),
                 4 * t * len(factor.rows) + t * n, 2 * (8 * len(factor.rows) + 16 * n) + 4 * block,
                 3 * 4 * t * len(factor.rows), t)]
    return made


def dense_loops(seed: int) -> list[Loop]:
    """Return the loops over points: neighbors, kernels with landmarks, and Gram matrices."""
    rng = np.random.default_rng(seed)
    n, d, s = 20_000, 256, 1000
    X = rng.normal(size=(n, d))
    twice = np.concatenate([X, rng.normal(size=(n, d))]).astype(np.float32)
    Z = X[:s].copy()
    X32, Z32 = X.astype(np.float32), Z.astype(np.float32)
    K = RBF(16.0)(X, Z)
    K32, total = K.astype(np.float32), np.zeros((s, s))
    images = data("mnist")[:n].astype(np.float32)
    return [
        Loop(f"exact neighbors, {n} normal points of {d} columns",
             lambda: neighbors(X32, 10, method="exact", execution=InProcess(1)),
             2.0 * n * n * d, 4 * n * d),
        Loop(f"exact neighbors, {2 * n} normal points of {d} columns",
             lambda: neighbors(twice, 10, method="exact", execution=InProcess(1)),
             8.0 * n * n * d, 8 * n * d),
        Loop(f"exact neighbors, {n} images of {images.shape[1]} columns",
             lambda: neighbors(images, 10, method="exact", execution=InProcess(1)),
             2.0 * n * n * images.shape[1], 4 * images.size),
        Loop("kernel with landmarks, float64", lambda: RBF(16.0)(X, Z), 2.0 * n * s * d, 8 * (X.size + n * s),
             product="dgemm"),
        Loop("kernel with landmarks, float32", lambda: RBF(16.0)(X32, Z32, np.float32), 2.0 * n * s * d,
             4 * (X.size + n * s)),
        Loop("Gram matrix of landmarks, float64", lambda: add_gram(total, K), 2.0 * n * s * s, 8 * n * s,
             product="dgemm"),
        Loop("Gram matrix of landmarks, float32", lambda: add_gram(total, K32), 2.0 * n * s * s, 4 * n * s)]


if __name__ == "__main__":
    main()

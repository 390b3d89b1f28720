"""Seconds per column of our solvers, pyamg's and SciPy's on the same matrix, and how Q^+ grows with n.

    python -m tests.benchmarks.solve mnist skin growth --cache FOLDER
    python -m tests.benchmarks.solve moons vae --few --cache FOLDER
    python -m tests.benchmarks.solve table --cache FOLDER

With `--few`, one and ten columns are solved in all, set-up included, in seconds of processor time, by "auto" and by
apxchol (`pip install apxchol`), which is given the same system as a Laplacian with an added diagonal. With
`--prepared`, a column of a prepared solver, 64 side by side, and what could be solved at once within one column: the
levels of a factor, whose vertices wait for no other of the same level. `table` does so
for 1, 10 and 100 columns of twelve graphs at four ridges, also by our other methods, and for few columns by pyamg and
SciPy. With `--threads 2`, "auto" and apxchol prepare once, and two threads solve half of the columns each, in seconds
by the clock.

Prints one JSON document a line. Everything runs in one process with one thread, except `growth`, which uses two.
apxchol keeps to a thread where OMP_NUM_THREADS is 1.
Solvers take turns within a run, so that other load on the machine meets all of them. Every residual is recomputed
as `||b - R x|| / ||b||` in float64. Data come from $DSSL_DATA; neighbor lists are kept in the cache folder.
"""

import argparse
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import pyamg
import scipy.sparse as sp
from scipy.sparse.linalg import cg
from sklearn.datasets import make_circles, make_moons
from threadpoolctl import threadpool_limits

from dssl.execution.in_process import InProcess
from dssl.graph.laplacian import Laplacian
from dssl.graph.weights.build import weights
from dssl.kernels.landmark_inverse import inverse_at_landmarks
from dssl.knn.lists import Neighbors
from dssl.knn.search import neighbors
from dssl.solvers.cholesky import Cholesky
from dssl.solvers.scaling import scaled_matrix
from dssl.solvers.solve import Solver, prepare, solve_columns
from dssl.solvers.solver_params import SolverParams
from tests.solvers.graphs import with_uneven_weights

TOLERANCE = 1e-6
OURS = ("auto", "gauss_seidel", "deflated", "amg", "cholesky")
N_COLUMNS = 500  # of the total, and what `prepare` is told
TABLE_COLUMNS = (1, 10, 100)
TABLE_RIDGES = (1e-2, 1e-3, 1e-6, 1e-9)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="+", choices=("mnist", "skin", "vae", "covtype", "moons", "growth",
                                                                             "table"))
    parser.add_argument("--cache", type=Path, required=True, help="folder for neighbor lists")
    parser.add_argument("--runs", type=int, default=3, help="times that each solver is measured")
    parser.add_argument("--columns", type=int, default=128, help="columns of our solvers in one run")
    parser.add_argument("--peer-columns", type=int, default=3, help="columns of the peers in one run, one at a time")
    parser.add_argument("--methods", nargs="*", default=OURS, choices=OURS)
    parser.add_argument("--few", action="store_true", help="one and ten columns in all")
    parser.add_argument("--prepared", action="store_true", help="a column of a prepared solver, and levels of a factor")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--no-total", action="store_true", help="do not solve all 500 columns with auto")
    parser.add_argument("--table-columns", type=int, nargs="*", default=TABLE_COLUMNS,
                        help="numbers of columns of the table")
    parser.add_argument("--threads", type=int, default=1, help="threads that solve shares of the columns of the table")
    parser.add_argument("--graphs", nargs="*", default=(), help="names of graphs of the table to measure, default all")
    parser.add_argument("--sizes", type=int, nargs="*", default=[4000, 8000, 16000, 32000, 64000])
    args = parser.parse_args()
    args.cache.mkdir(parents=True, exist_ok=True)
    if "growth" in args.parts:
        growth(args.cache, args.sizes, args.runs)
    with threadpool_limits(1):
        for part in args.parts:
            if part == "table":
                measure = partial(threaded_cell, threads=args.threads) if args.threads > 1 else table_cell
                for system in table_systems(args.cache, args.graphs):
                    for t in args.table_columns:
                        measure(system, t, args.runs)
            elif part != "growth":
                for system in SYSTEMS[part](args.cache):
                    (few_columns if args.few else prepared_columns if args.prepared else compare)(system, args)


def report(**record: object) -> None:
    print(json.dumps(record), flush=True)


# Graphs


@dataclass(frozen=True)
class System:
    """A matrix R to solve, the scaling vector of its null space, and what it is called."""

    name: str
    ridge: float
    R: sp.csr_matrix
    vector: np.ndarray


def data(name: str) -> Any:
    return np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz")["X"]


def cached_lists(cache: Path, name: str, k: int, points: Callable[[], np.ndarray]) -> Neighbors:
    """Return the k-NN lists of `points()`, from the cache if they are there."""
    path = cache / f"{name}-{k}.npz"
    if not path.exists():
        begin = time.perf_counter()
        found = neighbors(points(), k)
        np.savez(path, **found.to_arrays())
        report(part="neighbors", graph=name, n=len(found), k=k, seconds=round(time.perf_counter() - begin, 2),
               method=found.attributes["method"])
    return Neighbors.from_arrays(dict(np.load(path)))


def normalized_systems(name: str, lists: Neighbors, kind: str, ridges: tuple[float, ...]) -> Iterator[System]:
    L = Laplacian(weights(lists, kind))
    for ridge in ridges:
        yield System(name, ridge, sp.csr_matrix(L.matrix(ridge)), np.sqrt(L.degrees))


def mnist_points(n: int) -> np.ndarray:
    rows = np.sort(np.random.default_rng(0).permutation(70_000)[:n])
    return data("mnist")[rows].astype(np.float32) / 255


def skin_points() -> np.ndarray:
    """The colors are integers; without jitter most points have copies, and the graph falls into islands of copies."""
    X = data("skin_nonskin").astype(np.float64)
    return X + np.random.default_rng(0).uniform(-0.5, 0.5, X.shape)


def moon_points() -> np.ndarray:
    return make_moons(100_000, noise=0.1, random_state=0)[0].astype(np.float32)


def covtype_points() -> np.ndarray:
    X = data("covtype")[np.sort(np.random.default_rng(0).permutation(581_012)[:100_000])].astype(np.float64)
    return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)


SYSTEMS: dict[str, Callable[[Path], Iterator[System]]] = {
    "mnist": lambda cache: normalized_systems(
        "mnist", cached_lists(cache, "mnist64000", 5, lambda: mnist_points(64_000)), "binary", (1e-3, 1e-6)),
    "skin": lambda cache: normalized_systems("skin", cached_lists(cache, "skin", 8, skin_points), "binary", (1e-6,)),
    "vae": lambda cache: normalized_systems(
        "vae", cached_lists(cache, "vae", 10, lambda: data("mnist_vae")), "self_tuned", (1e-3, 1e-6)),
    "moons": lambda cache: normalized_systems(
        "moons", cached_lists(cache, "moons", 10, moon_points), "self_tuned", (1e-3, 1e-6)),
    "covtype": lambda cache: normalized_systems(
        "covtype", cached_lists(cache, "covtype", 10, covtype_points), "self_tuned", (1e-3,)),
}


# Solvers: each is prepared, and then solves the columns S of the identity


@dataclass
class Contender:
    """A solver under measurement: `solve(S)` returns (n, len(S))."""

    name: str
    n_columns: int
    setup: float
    solve: Callable[[np.ndarray], np.ndarray]
    attributes: dict
    seconds: list[float]
    worst: float = 0.0


def identity_columns(n: int, S: np.ndarray) -> np.ndarray:
    B = np.zeros((n, len(S)))
    B[S, np.arange(len(S))] = 1
    return B


def ours(system: System, method: str, n_columns: int) -> Contender:
    def prepared() -> Solver:
        return prepare(system.R, N_COLUMNS, SolverParams(method=method, tol=TOLERANCE), system.vector)

    n = system.R.shape[0]
    if method != "auto":
        prepared().solve(identity_columns(n, np.arange(2)))  # compiles
    begin = time.perf_counter()
    solver = prepared()
    setup = time.perf_counter() - begin
    return Contender(f"dssl {method}", n_columns, setup, lambda S: solver.solve(identity_columns(n, S)).value,
                     solver.attributes, [])


def one_by_one(name: str, n: int, n_columns: int, prepare_solver: Callable[[], Callable[[np.ndarray], np.ndarray]],
               ) -> Contender:
    begin = time.perf_counter()
    solve = prepare_solver()
    setup = time.perf_counter() - begin
    return Contender(name, n_columns, setup,
                     lambda S: np.column_stack([solve(identity_columns(n, S[i:i + 1])[:, 0]) for i in range(len(S))]),
                     {}, [])


def peers(system: System, n_columns: int) -> Iterator[Contender]:
    R, n = system.R, system.R.shape[0]

    def multigrid(build: Callable) -> Callable[[np.ndarray], np.ndarray]:
        levels = build()
        return lambda b: levels.solve(b, tol=TOLERANCE, accel="cg", maxiter=1000)

    yield one_by_one("pyamg smoothed aggregation + CG", n, n_columns, lambda: multigrid(
        lambda: pyamg.smoothed_aggregation_solver(R, B=system.vector[:, None])))
    yield one_by_one("pyamg Ruge-Stuben + CG", n, n_columns, lambda: multigrid(lambda: pyamg.ruge_stuben_solver(R)))
    jacobi = sp.diags_array(1 / R.diagonal())
    yield one_by_one("scipy CG, Jacobi", n, n_columns, lambda: lambda b: cg(R, b, rtol=TOLERANCE, M=jacobi)[0])
    yield one_by_one("scipy CG", n, n_columns, lambda: lambda b: cg(R, b, rtol=TOLERANCE)[0])


# Measurements


def compare(system: System, args: argparse.Namespace) -> None:
    """Report every contender's seconds per column, best and median, and ours against the best peer."""
    R, n = system.R, system.R.shape[0]
    contenders = [ours(system, method, args.columns) for method in (*OURS[1:], "auto") if method in args.methods]
    contenders += [] if args.no_peers else list(peers(system, args.peer_columns))
    S = np.random.default_rng(1).choice(n, N_COLUMNS, replace=False)
    for run in range(args.runs):
        for contender in contenders:
            mine = np.roll(S, -run * contender.n_columns)[:contender.n_columns]
            begin = time.perf_counter()
            X = contender.solve(mine)
            contender.seconds.append((time.perf_counter() - begin) / contender.n_columns)
            residuals = np.linalg.norm(identity_columns(n, mine) - R @ X, axis=0)
            contender.worst = max(contender.worst, float(residuals.max()))
    common = {"part": "solve", "graph": system.name, "n": n, "nonzeros": int(R.nnz), "ridge": system.ridge}
    for contender in contenders:
        best = min(contender.seconds)
        report(**common, solver=contender.name, columns=contender.n_columns, runs=args.runs,
               setup=round(contender.setup, 3), best=round(best, 5), median=round(median(contender.seconds), 5),
               total_500=round(contender.setup + N_COLUMNS * best, 2), residual=float(f"{contender.worst:.2e}"),
               **({"chosen": contender.attributes} if contender.attributes else {}))
    multigrids = [contender for contender in contenders if contender.name.startswith("pyamg")]
    auto = [contender for contender in contenders if contender.name == "dssl auto"]
    if auto and multigrids:
        fastest = min(multigrids, key=lambda contender: min(contender.seconds))
        report(**{**common, "part": "ratio"}, against=fastest.name,
               per_column=round(min(fastest.seconds) / min(auto[0].seconds), 1),
               total_500=round((fastest.setup + N_COLUMNS * min(fastest.seconds))
                               / (auto[0].setup + N_COLUMNS * min(auto[0].seconds)), 1))
    if auto and not args.no_total:
        begin = time.perf_counter()
        for first in range(0, N_COLUMNS, 64):
            auto[0].solve(S[first:first + 64])
        report(**{**common, "part": "total"}, solver="dssl auto", columns=N_COLUMNS,
               seconds=round(auto[0].setup + time.perf_counter() - begin, 2))


def apxchol_preparation(system: System) -> Callable[[], Callable[[np.ndarray], tuple[np.ndarray, int]]]:
    """Return a function that prepares apxchol on `V R V`, with the null vector V, and returns the one that solves."""
    import apxchol

    v, V = system.vector, sp.diags_array(system.vector)
    laplacian = sp.csc_matrix(V @ system.R @ V)

    def prepared() -> Callable[[np.ndarray], tuple[np.ndarray, int]]:
        solver = apxchol.factorize(laplacian)

        def solve(B: np.ndarray) -> tuple[np.ndarray, int]:
            solutions = [solver.solve(v * b, rtol=TOLERANCE) for b in B.T]
            return v[:, None] * np.column_stack([one.x for one in solutions]), max(one.iters for one in solutions)

        return solve

    return prepared


def apxchol_solver(system: System) -> Callable[[np.ndarray], tuple[np.ndarray, object]]:
    """Return apxchol: a function of B (n, t) that prepares and solves."""
    prepared = apxchol_preparation(system)
    return lambda B: prepared()(B)


def dssl_solver(system: System, method: str) -> Callable[[np.ndarray], tuple[np.ndarray, object]]:
    """Return a method of ours: a function of B (n, t) that prepares and solves."""
    def solve(B: np.ndarray) -> tuple[np.ndarray, object]:
        solution, chosen = solve_columns(system.R, B, SolverParams(method=method, tol=TOLERANCE), system.vector)
        return solution.value, solution.described(chosen)

    return solve


def few_columns(system: System, args: argparse.Namespace) -> None:
    """Report the processor seconds of one and ten columns in all: "auto", and apxchol on `V R V` with V the vector."""
    R, n, ours = system.R, system.R.shape[0], dssl_solver(system, "auto")
    contenders = {"dssl auto": ours, "apxchol": apxchol_solver(system)}
    for t in (1, 10):
        B = identity_columns(n, np.random.default_rng(1).choice(n, t, replace=False))
        seconds: dict[str, list[float]] = {name: [] for name in contenders}
        ours(B)  # compiles
        for _ in range(args.runs):
            for name, solve in contenders.items():
                begin = time.process_time()
                X, evidence = solve(B)
                seconds[name].append(time.process_time() - begin)
                worst = float(np.linalg.norm(B - R @ X, axis=0).max())
                if len(seconds[name]) == args.runs:
                    report(part="few", graph=system.name, n=n, nonzeros=int(R.nnz), ridge=system.ridge, columns=t,
                           solver=name, best=round(min(seconds[name]), 3), median=round(median(seconds[name]), 3),
                           residual=float(f"{worst:.2e}"), evidence=evidence)


def prepared_columns(system: System, args: argparse.Namespace) -> None:
    """Report the processor seconds of a column of a prepared solver, 64 side by side, and the levels of a factor."""
    n = system.R.shape[0]
    solver = prepare(system.R, N_COLUMNS, SolverParams(tol=TOLERANCE), system.vector)
    B = identity_columns(n, np.random.default_rng(1).choice(n, 64, replace=False))
    seconds = []
    for _ in range(args.runs + 1):  # the first compiles
        begin = time.process_time()
        solution = solver.solve(B)
        seconds.append((time.process_time() - begin) / 64)
    report(part="prepared", graph=system.name, n=n, ridge=system.ridge, columns=64, method=solver.params.method,
           iterations=round(float(solution.iterations.mean()), 1), best=round(min(seconds[1:]), 5),
           median=round(median(seconds[1:]), 5), residual=float(f"{solution.residuals.max():.2e}"))
    factor = Cholesky.prepare(scaled_matrix(system.R, system.vector), 1)
    level = np.zeros(n, np.int64)
    for vertex, start, stop in zip(factor.order.tolist(), factor.starts[:-1].tolist(), factor.starts[1:].tolist(),
                                   strict=True):
        later = factor.rows[start:stop]
        level[later] = np.maximum(level[later], level[vertex] + 1)
    widths, apply, x = np.bincount(level), factor.preconditioner(1), np.ones((n, 1), np.float32)
    applied = []
    for _ in range(20):
        begin = time.process_time()
        apply(x)
        applied.append(time.process_time() - begin)
    report(part="levels", graph=system.name, n=n, ridge=system.ridge, levels=len(widths),
           median_width=float(np.median(widths)), share_in_levels_above_1000=round(
               float(widths[widths > 1000].sum()) / n, 3),
           microseconds_a_level=round(1e6 * min(applied) / 2 / len(widths), 2))


def table_systems(cache: Path, names: Sequence[str] = ()) -> Iterator[System]:
    """Yield twelve graphs at four ridges: images, embeddings, curves, tables, pieces, and weights of all sizes.

    names : those to yield, all where it is empty.
    """

    def first(name: str, n: int) -> np.ndarray:
        X = data(name)
        X = X[np.sort(np.random.default_rng(0).permutation(len(X))[:n])]
        return np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)

    def standardized(name: str, n: int) -> np.ndarray:
        X = first(name, n)
        return (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)

    def pieces() -> np.ndarray:
        rng = np.random.default_rng(0)
        return np.concatenate([rng.normal(50 * piece, 1, (size, 3)) for piece, size in enumerate(
            np.linspace(20, 1500, 40).astype(int))])

    def curve() -> np.ndarray:
        rng = np.random.default_rng(0)
        t = np.sort(rng.uniform(0, 200, 30_000))
        return np.column_stack([np.cos(t), np.sin(t), t / 5]) + rng.normal(0, 1e-3, (30_000, 3))

    graphs: dict[str, tuple[int, str, Callable[[], np.ndarray]]] = {
        "images, k = 5": (5, "binary", lambda: mnist_points(20_000)),
        "images, k = 10": (10, "self_tuned", lambda: mnist_points(20_000)),
        "images, k = 50": (50, "self_tuned", lambda: mnist_points(20_000)),
        "embeddings, k = 10": (10, "self_tuned", lambda: first("mnist_vae", 30_000)),
        "embeddings, k = 30": (30, "self_tuned", lambda: first("mnist_vae", 30_000)),
        "two moons": (10, "self_tuned", lambda: make_moons(30_000, noise=0.1, random_state=0)[0]),
        "circles": (10, "self_tuned", lambda: make_circles(30_000, noise=0.05, factor=0.5, random_state=0)[0]),
        "a curve, k = 5": (5, "binary", curve),
        "table: covtype": (10, "self_tuned", lambda: standardized("covtype", 30_000)),
        "table of duplicates: skin": (10, "self_tuned", lambda: first("skin_nonskin", 30_000)),
        "forty pieces": (10, "self_tuned", pieces),
        "embeddings, weights of ten orders": (10, "self_tuned", lambda: first("mnist_vae", 30_000)),
    }
    unknown = set(names) - graphs.keys()
    if unknown:
        raise SystemExit(f"no graph of the table is called {', '.join(sorted(unknown))}: {', '.join(graphs)}")
    for name in names or graphs:
        k, kind, points = graphs[name]
        W = weights(cached_lists(cache, f"table-{name}", k, lambda points=points: points().astype(np.float32)), kind)
        if name.endswith("ten orders"):
            W = with_uneven_weights(W, 10, np.random.default_rng(1))
        L = Laplacian(W)
        for ridge in TABLE_RIDGES:
            yield System(name, ridge, sp.csr_matrix(L.matrix(ridge)), np.sqrt(np.where(L.degrees > 0, L.degrees, 1.0)))


def table_cell(system: System, t: int, runs: int) -> None:
    """Report the best processor seconds of `runs` of each solver for t columns in all, set-up included.

    Peers other than apxchol solve one column, which stands for one.
    """
    R, n = system.R, system.R.shape[0]
    B = identity_columns(n, np.random.default_rng(1).choice(n, t, replace=False))
    contenders = {f"dssl {method}": dssl_solver(system, method) for method in (
        "auto", *(("gauss_seidel", "deflated", "cholesky") if t <= 10 else ()))}
    contenders["apxchol"] = apxchol_solver(system)
    best, worst, evidence = dict[str, float](), dict[str, float](), dict[str, object]()
    contenders["dssl auto"](B[:, :1])  # compiles
    for _ in range(runs if t <= 10 else 1):
        for name, solve in contenders.items():
            begin = time.process_time()
            X, evidence[name] = solve(B)
            best[name] = min(time.process_time() - begin, best.get(name, np.inf))
            worst[name] = float((np.linalg.norm(B - R @ X, axis=0) / np.linalg.norm(B, axis=0)).max())
    for contender in peers(system, 1) if t == 1 else ():
        begin = time.process_time()
        X = contender.solve(np.array([int(np.flatnonzero(B[:, 0])[0])]))
        best[contender.name] = contender.setup + time.process_time() - begin
        worst[contender.name] = float(np.linalg.norm(B[:, 0] - R @ X[:, 0]))
    report(part="table", graph=system.name, n=n, nonzeros=int(R.nnz), ridge=system.ridge, columns=t,
           seconds={name: round(value, 3) for name, value in best.items()},
           residuals={name: float(f"{value:.1e}") for name, value in worst.items()},
           chosen=evidence["dssl auto"])


def threaded_cell(system: System, t: int, runs: int, threads: int) -> None:
    """Report the best seconds by the clock of `runs` of "auto" and of apxchol; threads solve shares of t columns."""
    R = system.R
    B = identity_columns(R.shape[0], np.random.default_rng(1).choice(R.shape[0], t, replace=False))

    def ours() -> Callable[[np.ndarray], tuple[np.ndarray, int]]:
        solver = prepare(R, t, SolverParams(tol=TOLERANCE), system.vector)

        def solve(share: np.ndarray) -> tuple[np.ndarray, int]:
            solution = solver.solve(share)
            return solution.value, int(solution.iterations.max())

        return solve

    contenders = {"dssl auto": ours, "apxchol": apxchol_preparation(system)}
    best, worst = dict[str, float](), dict[str, float]()
    ours()(B[:, :1])  # compiles
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(runs):
            for name, prepared in contenders.items():
                begin = time.perf_counter()
                X = np.hstack([part for part, _ in pool.map(prepared(), np.array_split(B, threads, axis=1))])
                best[name] = min(time.perf_counter() - begin, best.get(name, np.inf))
                worst[name] = float((np.linalg.norm(B - R @ X, axis=0) / np.linalg.norm(B, axis=0)).max())
    report(part="threads", graph=system.name, n=R.shape[0], nonzeros=int(R.nnz), ridge=system.ridge, columns=t,
           threads=threads, seconds={name: round(value, 3) for name, value in best.items()},
           residuals={name: float(f"{value:.1e}") for name, value in worst.items()})


def growth(cache: Path, sizes: list[int], runs: int) -> None:
    """Report the seconds of (L + 1e-3 I)^-1 on 500 points for growing n, and the exponent fitted to them."""
    best = []
    for n in sizes:
        W = weights(cached_lists(cache, f"mnist{n}", 5, lambda n=n: mnist_points(n)), "binary")
        R = sp.csr_matrix(Laplacian(W, normalized=False).matrix(1e-3))
        S = np.random.default_rng(1).choice(n, N_COLUMNS, replace=False)
        params = SolverParams(tol=TOLERANCE)
        if n == sizes[0]:
            inverse_at_landmarks(R, S[:2], params=replace(params, method="deflated"))  # compiles
        seconds = []
        for _ in range(runs):
            begin = time.perf_counter()
            found = inverse_at_landmarks(R, S, (1,), params=params, execution=InProcess(2))
            seconds.append(time.perf_counter() - begin)
        best.append(min(seconds))
        report(part="growth", n=n, nonzeros=int(R.nnz), columns=N_COLUMNS, runs=runs, best=round(min(seconds), 3),
               median=round(median(seconds), 3), residual=float(f"{found.attributes['max_residual']:.2e}"),
               method=found.attributes["solver"]["method"], max_iter=found.attributes["max_iterations"])
    if len(sizes) > 1:
        exponent = np.polyfit(np.log(sizes), np.log(best), 1)[0]
        report(part="growth", sizes=sizes, exponent=round(float(exponent), 3))


if __name__ == "__main__":
    main()

"""Whether "auto" takes the faster of Gauss-Seidel and an approximate Cholesky factor for one and ten columns.

    python -m tests.benchmarks.solver_choice --cache FOLDER
    python -m tests.benchmarks.solver_choice --small

Graphs of generated points that no other benchmark has: clouds, clusters, surfaces and curves, at five ridges; some also
with weights over many orders of magnitude. One JSON line a system: the best seconds of processor time of three runs of
each, set-up included, in one thread; the last has a summary.

small : graphs of 200 to 3,000 points instead, at two ridges, for 1 to 500 columns, and an exact factor is compared too.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from sklearn.datasets import make_blobs, make_circles, make_classification, make_moons, make_s_curve, make_swiss_roll
from threadpoolctl import threadpool_limits

from dssl.graph.laplacian import Laplacian
from dssl.graph.weights.build import weights
from dssl.knn.search import neighbors
from dssl.storage.cache import FACTORS
from tests.solvers.graphs import with_uneven_weights

from .solve import System, cached_lists, dssl_solver, identity_columns

RIDGES = (1e-1, 1e-2, 1e-3, 1e-5, 1e-8)
METHODS = ("auto", "gauss_seidel", "cholesky")
SMALL_ROWS, SMALL_RIDGES = (200, 500, 1000, 2000, 3000), (1e-2, 1e-4)
LARGER = 1.2  # of the seconds of the faster method
N = 20_000
ORDERS = {"normal, 5 columns": 6, "normal, 30 columns": 10, "clusters, 10 columns": 10, "heavy tails": 6, "curved": 10,
          "moons, k = 30": 10}  # of magnitude, over which the weights of these graphs are also spread


def graphs() -> dict[str, tuple[int, Callable[[], np.ndarray]]]:
    """Return by name the number of neighbors, and what makes the points."""
    rng = np.random.default_rng(0)

    def helix() -> np.ndarray:
        t = np.sort(rng.uniform(0, 100, N))
        return np.column_stack([np.cos(t), np.sin(t), t / 8]) + rng.normal(0, 0.01, (N, 3))

    def grid() -> np.ndarray:
        side = np.arange(141)
        return np.stack(np.meshgrid(side, side), -1).reshape(-1, 2) + rng.normal(0, 0.05, (len(side) ** 2, 2))

    clouds = {f"normal, {d} columns": (10, lambda d=d: rng.normal(size=(N, d))) for d in (2, 3, 5, 10, 30)}
    return clouds | {
        "Swiss roll": (10, lambda: make_swiss_roll(N, noise=0.1, random_state=0)[0]),
        "S curve": (8, lambda: make_s_curve(N, noise=0.05, random_state=0)[0]),
        "grid": (6, grid),
        "helix": (6, helix),
        "ring": (10, lambda: make_circles(N, noise=0.01, factor=0.8, random_state=0)[0]),
        "moons, k = 5": (5, lambda: make_moons(N, noise=0.08, random_state=1)[0]),
        "moons, k = 30": (30, lambda: make_moons(N, noise=0.08, random_state=1)[0]),
        "clusters, 10 columns": (10, lambda: make_blobs(N, 10, centers=20, random_state=0)[0]),
        "clusters, 50 columns": (15, lambda: make_blobs(N, 50, centers=10, random_state=0)[0]),
        "classes, 12 columns": (10, lambda: make_classification(N, 12, n_informative=6, random_state=0)[0]),
        "classes, 40 columns": (30, lambda: make_classification(N, 40, n_informative=20, random_state=0)[0]),
        "heavy tails": (10, lambda: rng.standard_t(2, size=(N, 4))),
        "curved": (10, lambda: np.tanh(rng.normal(size=(N, 4)) @ rng.normal(size=(4, 40)))),
        "square, 60,000": (10, lambda: rng.uniform(size=(3 * N, 2))),
        "square, 6,000": (10, lambda: rng.uniform(size=(N // 3, 2))),
        "normal, 8 columns, 80,000": (10, lambda: rng.normal(size=(4 * N, 8))),
        "classes, 12 columns, 80,000": (10, lambda: make_classification(4 * N, 12, n_informative=6, random_state=1)[0]),
    }


def small_systems() -> Iterator[System]:
    """Yield systems of few points, each cloud with 10 and 30 neighbors."""
    rng = np.random.default_rng(0)
    for n in SMALL_ROWS:
        cloud = rng.normal(size=(n, 20))
        ends = np.ones(n - 1)
        graphs_of = {
            **{f"normal, 20 columns, k = {k}": weights(neighbors(cloud, k), "binary") for k in (10, 30)},
            "moons": weights(neighbors(make_moons(n, noise=0.05, random_state=0)[0], 10), "binary"),
            "clusters, 3 columns": weights(neighbors(make_blobs(n, 3, random_state=0)[0], 10), "binary"),
            "path": sp.csr_array(sp.diags_array([ends, ends], offsets=[1, -1]))}
        for name, W in graphs_of.items():
            L = Laplacian(W, normalized=False)
            for ridge in SMALL_RIDGES:
                yield System(f"{name}, {n}", ridge, sp.csr_matrix(L.matrix(ridge)), np.ones(n))


def systems(cache: Path) -> Iterator[System]:
    for name, (k, points) in graphs().items():
        made = cached_lists(cache, f"choice-{name}", k, lambda points=points: points().astype(np.float32))
        W = weights(made, "self_tuned")
        graphs_of = {name: W}
        if name in ORDERS:
            graphs_of[f"{name}, {ORDERS[name]} orders"] = with_uneven_weights(W, ORDERS[name], np.random.default_rng(1))
        for called, of in graphs_of.items():
            L = Laplacian(of)
            vector = np.sqrt(np.where(L.degrees > 0, L.degrees, 1.0))
            for ridge in RIDGES:
                yield System(called, ridge, sp.csr_matrix(L.matrix(ridge)), vector)


def best_seconds(solve: Callable[[np.ndarray], tuple[np.ndarray, object]], B: np.ndarray) -> tuple[float, object]:
    """Return the best seconds of three runs, and what the last says of itself."""
    best, said = np.inf, None
    for _ in range(3):
        FACTORS.clear()  # an exact factor is made by each run
        begin = time.process_time()
        _, said = solve(B)
        best = min(best, time.process_time() - begin)
    return best, said


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--cache", type=Path, help="folder for neighbor lists")
    which.add_argument("--small", action="store_true")
    args = parser.parse_args()
    if args.small:
        ratios: dict[int, list[float]] = {t: [] for t in (1, 10, 100, 500)}
    else:
        args.cache.mkdir(parents=True, exist_ok=True)
        ratios = {1: [], 10: []}
    methods = (*METHODS, "direct") if args.small else METHODS
    with threadpool_limits(1):
        for system in small_systems() if args.small else systems(args.cache):
            for t, of_columns in ratios.items():
                B = identity_columns(system.R.shape[0], np.random.default_rng(1).choice(
                    system.R.shape[0], t, t > system.R.shape[0]))
                dssl_solver(system, "auto")(B[:, :1])  # compiles
                measured = {method: best_seconds(dssl_solver(system, method), B) for method in methods}
                seconds = {method: best for method, (best, _) in measured.items()}
                of_columns.append(seconds["auto"] / min(seconds.values()))
                print(json.dumps({
                    "graph": system.name, "n": system.R.shape[0], "ridge": system.ridge, "columns": t,
                    "seconds": {method: round(value, 4) for method, value in seconds.items()},
                    "said": {method: said for method, (_, said) in measured.items()},
                    "ratio": round(of_columns[-1], 3)}), flush=True)
    print(json.dumps({"summary": {str(t): {
        "systems": len(values), "median": round(float(np.median(values)), 3), "largest": round(max(values), 2),
        f"above {LARGER}": sum(value > LARGER for value in values)} for t, values in ratios.items()}}))


if __name__ == "__main__":
    main()

"""Time and recall of neighbor searches on real data, one JSON line each.

    DSSL_DATA=/data python -m tests.benchmarks.neighbors --data mnist covtype --runs 3 --threads 2

It takes `pip install ".[peers]"`.
Every method is compiled on 3,000 rows before it is timed, and the methods take turns, so that a busy machine hurts
all of them alike; `cpu_seconds` counts the time of all threads of the process.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", str(len(os.sched_getaffinity(0))))

import numba
import numpy as np
from pynndescent import NNDescent
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from dssl.data.synthetic import ManifoldParams, ManifoldRows
from dssl.execution.in_process import InProcess
from dssl.knn.lists import Neighbors
from dssl.knn.params import NeighborParams
from dssl.knn.recall import certify_recall
from dssl.knn.search import find_neighbors
from dssl.storage.blocks import ArrayRows

WARM_UP_ROWS = 3000
METHODS = ("exact", "descent", "pynndescent", "sklearn_brute", "sklearn_kd_tree")


MADE_ROWS = 50_000
MADE: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal8": lambda rng, n: rng.normal(size=(n, 8)),
    "normal20": lambda rng, n: rng.normal(size=(n, 20)),
    "normal64": lambda rng, n: rng.normal(size=(n, 64)),
    "uniform12": lambda rng, n: rng.random(size=(n, 12)),
    "manifold64": lambda rng, n: ManifoldRows(ManifoldParams(points=n)).read(0, n),
    "clouds64": lambda rng, n: 2 * rng.normal(size=(200, 64))[rng.integers(200, size=n)] + rng.normal(size=(n, 64)),
    "bent200": lambda rng, n: np.tanh(rng.normal(size=(n, 10)) @ rng.normal(size=(10, 200)))
        + 0.1 * rng.normal(size=(n, 200)),
    "skewed40": lambda rng, n: rng.gamma(0.3, size=(n, 40)) * rng.gamma(1, size=40),
    "levels15": lambda rng, n: rng.integers(5, size=(n, 15)) + 0.01 * rng.normal(size=(n, 15)),
}


def load(name: str, n: int | None) -> np.ndarray:
    """Return rows that are made, or the first n of a data set as it is stored."""
    if name in MADE:
        return np.asarray(MADE[name](np.random.default_rng(7), n or MADE_ROWS), np.float32)
    X = np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz")["X"]
    return np.ascontiguousarray(X[:n])


def ours(method: str, X: np.ndarray, k: int, threads: int) -> Neighbors:
    params = NeighborParams(n_neighbors=k, method=method)
    return find_neighbors(ArrayRows(X), params, InProcess(threads, memory_budget=8 << 30))


def pynndescent(X: np.ndarray, k: int, threads: int) -> Neighbors:
    """Return pynndescent's own lists; its first entry of a row is the row itself, except where it was lost."""
    ids, distances = NNDescent(X.astype(np.float32), n_neighbors=k + 1, random_state=0, n_jobs=threads).neighbor_graph
    own = ids == np.arange(len(X))[:, None]
    own[~own.any(axis=1), -1] = True
    return Neighbors.from_arrays({"ids": ids[~own].reshape(len(X), k).astype(np.int64),
                                  "distances": distances[~own].reshape(len(X), k)})


def scikit_learn(algorithm: str, X: np.ndarray, queries: int, k: int, threads: int) -> float:
    """Search the neighbors of evenly spread rows among all rows; return the seconds of building the index."""
    X = X.astype(np.float32)
    with threadpool_limits(threads):
        begin = time.perf_counter()
        search = NearestNeighbors(n_neighbors=k + 1, algorithm=algorithm, n_jobs=threads).fit(X)
        built = time.perf_counter() - begin
        search.kneighbors(X[np.linspace(0, len(X) - 1, queries).astype(int)])
    return built


def run(method: str, X: np.ndarray, args: argparse.Namespace) -> tuple[Neighbors | None, int, float]:
    """Run one method; return its lists, the number of queries it answered, and the seconds that do not grow with them.

    scikit-learn makes no lists: it answers some queries, to predict its time for all.
    """
    if method in ("exact", "descent"):
        return ours(method, X, args.k, args.threads), len(X), 0.0
    if method == "pynndescent":
        return pynndescent(X, args.k, args.threads), len(X), 0.0
    queries = min(args.reference_queries, len(X))
    return None, queries, scikit_learn(method.removeprefix("sklearn_"), X, queries, args.k, args.threads)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", default=["mnist", "covtype"],
                        help=f"names of .npz files in $DSSL_DATA, or of {', '.join(MADE)}")
    parser.add_argument("--n", type=int, help="use the first n rows")
    parser.add_argument("--k", type=int, default=10)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--sample", type=int, default=500, help="rows that certify the recall")
    parser.add_argument("--reference-queries", type=int, default=2000, help="rows that scikit-learn searches for")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS[:-1]),
                        help="sklearn_kd_tree is for few columns")
    args = parser.parse_args()
    numba.set_num_threads(args.threads)
    for name in args.data:
        X = load(name, args.n)
        for method in args.methods:
            run(method, X[:WARM_UP_ROWS], args)
        seconds: dict[str, list[float]] = {method: [] for method in args.methods}
        cpu: dict[str, list[float]] = {method: [] for method in args.methods}
        found = {}
        for _ in range(args.runs):
            for method in args.methods:
                wall, process = time.perf_counter(), time.process_time()
                found[method] = run(method, X, args)
                seconds[method].append(time.perf_counter() - wall)
                cpu[method].append(time.process_time() - process)
                print(f"{name} {method}: {seconds[method][-1]:.2f} s", file=sys.stderr, flush=True)
        for method, (lists, queries, built) in found.items():
            recall = certify_recall(X, lists, sample=args.sample) if lists else {}
            attributes = lists.attributes if lists else {}
            print(json.dumps({
                "data": name, "rows": len(X), "columns": X.shape[1], "dtype": str(X.dtype), "k": args.k,
                "threads": args.threads, "method": method, "search": attributes.get("search"), "queries": queries,
                "runs": args.runs, "best_seconds": round(min(seconds[method]), 3),
                "median_seconds": round(float(np.median(seconds[method])), 3),
                "cpu_seconds": round(float(np.median(cpu[method])), 3),
                "seconds_for_all_rows": round(built + (min(seconds[method]) - built) * len(X) / queries, 3),
                "recall": recall.get("recall"), "recall_lower": recall.get("lower"),
            }), flush=True)


if __name__ == "__main__":
    main()

"""Time and recall of neighbor searches on real data, one JSON line each.

    DSSL_DATA=/data python -m tests.benchmarks.neighbors --data mnist covtype --runs 3 --threads 2
    python -m tests.benchmarks.neighbors --data shares40 sets60 --metrics manhattan jaccard --methods exact descent

A metric is skipped on rows that it is not defined for. `pynndescent_wide` asks pynndescent for half as many neighbors
again, and keeps the nearest k.
Every method is compiled on 3,000 rows before it is timed, and the methods take turns, so that a busy machine hurts
all of them alike; `cpu_seconds` counts the time of all threads of the process.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from itertools import product
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
from dssl.knn.metric import metric_of
from dssl.knn.params import NeighborParams
from dssl.knn.recall import certify_recall
from dssl.knn.search import find_neighbors
from dssl.storage.blocks import ArrayRows

WARM_UP_ROWS = 3000
METHODS = ("exact", "descent", "pynndescent", "pynndescent_wide", "sklearn_brute", "sklearn_kd_tree")


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
    "shares40": lambda rng, n: rng.dirichlet(np.full(40, 0.5), size=50)[rng.integers(50, size=n)]
        * rng.gamma(2, size=(n, 40)) + 1e-4,
    "sets60": lambda rng, n: rng.random((n, 60)) < rng.beta(0.4, 0.8, size=(200, 60))[rng.integers(200, size=n)],
    "codes20": lambda rng, n: np.where(rng.random((n, 20)) < 0.4, rng.integers(6, size=(n, 20)),
                                       rng.integers(6, size=(300, 20))[rng.integers(300, size=n)]),
    "globe": lambda rng, n: np.radians(rng.uniform([-60, -180], [70, 180], size=(400, 2))[rng.integers(400, size=n)]
                                       + rng.normal(size=(n, 2))),
    "levels15": lambda rng, n: rng.integers(5, size=(n, 15)) + 0.01 * rng.normal(size=(n, 15)),
}


def load(name: str, n: int | None) -> np.ndarray:
    """Return rows that are made, or the first n of a data set as it is stored."""
    if name in MADE:
        return np.asarray(MADE[name](np.random.default_rng(7), n or MADE_ROWS), np.float32)
    X = np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz")["X"]
    return np.ascontiguousarray(X[:n])


def ours(method: str, X: np.ndarray, k: int, threads: int, metric: str) -> Neighbors:
    params = NeighborParams(n_neighbors=k, method=method, metric=metric)
    return find_neighbors(ArrayRows(X), params, InProcess(threads, memory_budget=8 << 30))


def pynndescent(X: np.ndarray, k: int, threads: int, metric: str, wider: int = 0) -> Neighbors:
    """Return pynndescent's own lists; its first entry of a row is the row itself, except where it was lost."""
    ids, distances = NNDescent(X.astype(np.float32), metric=metric, n_neighbors=k + 1 + wider, random_state=0,
                               n_jobs=threads).neighbor_graph
    own = ids == np.arange(len(X))[:, None]
    own[~own.any(axis=1), -1] = True
    width = k + wider
    return Neighbors.from_arrays({"ids": ids[~own].reshape(len(X), width)[:, :k].astype(np.int64),
                                  "distances": distances[~own].reshape(len(X), width)[:, :k]}, {"metric": metric})


def scikit_learn(algorithm: str, X: np.ndarray, queries: int, k: int, threads: int) -> float:
    """Search the neighbors of evenly spread rows among all rows; return the seconds of building the index."""
    X = X.astype(np.float32)
    with threadpool_limits(threads):
        begin = time.perf_counter()
        search = NearestNeighbors(n_neighbors=k + 1, algorithm=algorithm, n_jobs=threads).fit(X)
        built = time.perf_counter() - begin
        search.kneighbors(X[np.linspace(0, len(X) - 1, queries).astype(int)])
    return built


def run(method: str, X: np.ndarray, metric: str, args: argparse.Namespace) -> tuple[Neighbors | None, int, float]:
    """Run one method; return its lists, the number of queries it answered, and the seconds that do not grow with them.

    scikit-learn makes no lists: it answers some queries, to predict its time for all.
    """
    if method in ("exact", "descent"):
        return ours(method, X, args.k, args.threads, metric), len(X), 0.0
    if method.startswith("pynndescent"):
        wider = args.k // 2 if method.endswith("wide") else 0
        return pynndescent(X, args.k, args.threads, metric, wider), len(X), 0.0
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
    parser.add_argument("--metrics", nargs="+", default=["euclidean"])
    args = parser.parse_args()
    numba.set_num_threads(args.threads)
    for name, metric in product(args.data, args.metrics):
        X = load(name, args.n)
        rule = metric_of(metric)
        if rule.n_columns not in (0, X.shape[1]) or rule.undefined(X).any():
            continue
        warm_up = {}
        for method in args.methods:
            begin = time.perf_counter()
            run(method, X[:WARM_UP_ROWS], metric, args)
            warm_up[method] = time.perf_counter() - begin
        seconds: dict[str, list[float]] = {method: [] for method in args.methods}
        cpu: dict[str, list[float]] = {method: [] for method in args.methods}
        found = {}
        for _ in range(args.runs):
            for method in args.methods:
                wall, process = time.perf_counter(), time.process_time()
                found[method] = run(method, X, metric, args)
                seconds[method].append(time.perf_counter() - wall)
                cpu[method].append(time.process_time() - process)
                print(f"{name} {metric} {method}: {seconds[method][-1]:.2f} s", file=sys.stderr, flush=True)
        for method, (lists, queries, built) in found.items():
            recall = certify_recall(X, lists, sample=args.sample) if lists else {}
            attributes = lists.attributes if lists else {}
            print(json.dumps({
                "data": name, "metric": metric, "rows": len(X), "columns": X.shape[1], "dtype": str(X.dtype),
                "k": args.k, "warm_up_seconds": round(warm_up[method], 2),
                "threads": args.threads, "method": method, "search": attributes.get("search"), "queries": queries,
                "runs": args.runs, "best_seconds": round(min(seconds[method]), 3),
                "median_seconds": round(float(np.median(seconds[method])), 3),
                "cpu_seconds": round(float(np.median(cpu[method])), 3),
                "seconds_for_all_rows": round(built + (min(seconds[method]) - built) * len(X) / queries, 3),
                "recall": recall.get("recall"), "recall_lower": recall.get("lower"),
            }), flush=True)


if __name__ == "__main__":
    main()

"""Time and recall of neighbor searches on real data, one JSON line each.

    DSSL_DATA=/data python -m tests.benchmarks.neighbors --data mnist covtype --runs 3 --threads 2
    python -m tests.benchmarks.neighbors --data shares40 sets60 --metrics manhattan jaccard --methods exact descent
    python -m tests.benchmarks.neighbors --every-metric --n 10000

`--every-metric` writes a line for each metric that there is, on made-up rows that suit it: CPU seconds of the exact
search, of ours and of pynndescent's, with their recall. Of a metric that is measured pair by pair, the exact search is
timed on 1,000 rows and predicted for all.
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
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", str(len(os.sched_getaffinity(0))))

import numba
import numpy as np
from pynndescent import NNDescent
from sklearn.neighbors import NearestNeighbors
from threadpoolctl import threadpool_limits

from dssl.data.readers.manifolds import CurvedManifolds, ManifoldParams
from dssl.execution.in_process import InProcess
from dssl.knn.exact.pairs import pair_points
from dssl.knn.lists import Neighbors
from dssl.knn.metric import METRICS, metric_of, pair_metric_of, sample_ids
from dssl.knn.recall import certify_recall
from dssl.knn.search import NeighborParams, find_neighbors
from dssl.storage.blocks import ArrayRows

WARM_UP_ROWS, QUERIES = 3000, 1000
METHODS = ("auto", "exact", "descent", "pynndescent", "pynndescent_wide", "sklearn_brute", "sklearn_kd_tree")


MADE_ROWS = 50_000
MADE: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal8": lambda rng, n: rng.normal(size=(n, 8)),
    "normal20": lambda rng, n: rng.normal(size=(n, 20)),
    "normal64": lambda rng, n: rng.normal(size=(n, 64)),
    "normal256": lambda rng, n: rng.normal(size=(n, 256)),
    "normal784": lambda rng, n: rng.normal(size=(n, 784)),
    "uniform12": lambda rng, n: rng.random(size=(n, 12)),
    "manifold64": lambda rng, n: CurvedManifolds(ManifoldParams(points=n)).read(0, n)[0],
    "clouds64": lambda rng, n: 2 * rng.normal(size=(200, 64))[rng.integers(200, size=n)] + rng.normal(size=(n, 64)),
    "bent200": lambda rng, n: np.tanh(rng.normal(size=(n, 10)) @ rng.normal(size=(10, 200)))
        + 0.1 * rng.normal(size=(n, 200)),
    "skewed40": lambda rng, n: rng.gamma(0.3, size=(n, 40)) * rng.gamma(1, size=40),
    "shares40": lambda rng, n: rng.dirichlet(np.full(40, 0.5), size=50)[rng.integers(50, size=n)]
        * rng.gamma(2, size=(n, 40)) + 1e-4,
    "shares12": lambda rng, n: rng.dirichlet(np.full(12, 0.5), size=50)[rng.integers(50, size=n)]
        * rng.gamma(2, size=(n, 12)) + 1e-4,
    "sets60": lambda rng, n: rng.random((n, 60)) < rng.beta(0.4, 0.8, size=(200, 60))[rng.integers(200, size=n)],
    "codes20": lambda rng, n: np.where(rng.random((n, 20)) < 0.4, rng.integers(6, size=(n, 20)),
                                       rng.integers(6, size=(300, 20))[rng.integers(300, size=n)]),
    "globe": lambda rng, n: np.radians(rng.uniform([-60, -180], [70, 180], size=(400, 2))[rng.integers(400, size=n)]
                                       + rng.normal(size=(n, 2))),
    "levels15": lambda rng, n: rng.integers(5, size=(n, 15)) + 0.01 * rng.normal(size=(n, 15)),
}


SUITED: dict[str, tuple[str, dict[str, Any] | None]] = {  # rows of each metric; those of zeros and ones have sets60
    "euclidean": ("normal20", None), "cosine": ("normal20", None), "sqeuclidean": ("normal20", None),
    "correlation": ("bent200", None), "spearmanr": ("normal20", None), "manhattan": ("shares40", None),
    "chebyshev": ("normal8", None), "canberra": ("skewed40", None), "braycurtis": ("shares40", None),
    "hellinger": ("shares40", None), "jensen_shannon": ("shares12", None), "symmetric_kl": ("shares12", None),
    "wasserstein_1d": ("shares40", None), "circular_kantorovich": ("shares12", None), "hamming": ("codes20", None),
    "haversine": ("globe", None), "minkowski": ("normal20", {"p": 3}),
    "seuclidean": ("normal20", {"V": tuple(np.linspace(0.5, 2, 20).tolist())}),
    "mahalanobis": ("normal20", {"VI": tuple(map(tuple, (np.eye(20) + 0.5).tolist()))}),
    "kantorovich": ("shares12", {"cost": tuple(map(tuple, np.sqrt(np.abs(np.subtract.outer(
        np.arange(12.0), np.arange(12)))).tolist()))}),
}
THEIRS = {"V": "sigma", "VI": "vinv"}  # parameters that pynndescent names otherwise
SLOW = {"kantorovich": 20}  # how many times fewer rows


def load(name: str, n: int | None) -> np.ndarray:
    """Return rows that are made, or the first n of a data set as it is stored."""
    if name in MADE:
        return np.asarray(MADE[name](np.random.default_rng(7), n or MADE_ROWS), np.float32)
    X = np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz")["X"]
    return np.ascontiguousarray(X[:n])


def ours(method: str, X: np.ndarray, k: int, threads: int, metric: str, values: Any = None) -> Neighbors:
    params = NeighborParams(n_neighbors=k, method=method, metric=metric, metric_params=values)
    return find_neighbors(ArrayRows(X), params, InProcess(threads, memory_budget=8 << 30))


def pynndescent(X: np.ndarray, k: int, threads: int, metric: str, wider: int = 0, values: Any = None) -> Neighbors:
    """Return pynndescent's own lists; its first entry of a row is the row itself, except where it was lost."""
    keywords = {THEIRS.get(name, name): np.array(value) if isinstance(value, tuple) else value
                for name, value in (values or {}).items()}
    ids, distances = NNDescent(X.astype(np.float32), metric=metric, n_neighbors=k + 1 + wider, random_state=0,
                               n_jobs=threads, metric_kwds=keywords).neighbor_graph
    own = ids == np.arange(len(X))[:, None]
    own[~own.any(axis=1), -1] = True
    width = k + wider
    return Neighbors.from_arrays({"ids": ids[~own].reshape(len(X), width)[:, :k].astype(np.int64),
                                  "distances": distances[~own].reshape(len(X), width)[:, :k]},
                                 {"metric": metric, "metric_params": values})


def exact_seconds(X: np.ndarray, k: int, threads: int, metric: str, values: Any) -> float:
    """Return the CPU seconds of the exact search of all rows."""
    distance = NeighborParams(metric=metric, metric_params=values).distance
    begin, queries = time.process_time(), sample_ids(len(X), QUERIES)
    if pair_metric_of(distance) is None:
        ours("exact", X, k, threads, metric, values)
        return time.process_time() - begin
    pair_points(ArrayRows(X), distance, 1 << 30).nearest(X[queries], queries, k)
    return (time.process_time() - begin) * len(X) / len(queries)


def every_metric(args: argparse.Namespace) -> None:
    """Write a line for each metric on rows that suit it."""
    for metric in args.metrics or list(METRICS):
        name, values = SUITED.get(metric, ("sets60", None))
        X = load(name, (args.n or 10_000) // SLOW.get(metric, 1))
        row: dict[str, Any] = {"metric": metric, "rows": f"{name}, {len(X):,}"}
        searches: dict[str, Callable[[np.ndarray], Neighbors]] = {
            "descent": lambda X, metric=metric, values=values: ours("descent", X, args.k, args.threads, metric, values),
            "pynndescent": lambda X, metric=metric, values=values: pynndescent(X, args.k, args.threads, metric, 0,
                                                                               values)}
        exact_seconds(X[:200], args.k, args.threads, metric, values)
        row["exact: CPU s"] = f"{exact_seconds(X, args.k, args.threads, metric, values):.2f}"
        for method in args.methods:
            if method not in searches:
                continue
            took = []
            for _ in range(2):  # the first call compiles
                begin = time.process_time()
                lists = searches[method](X)
                took.append(time.process_time() - begin)
            recall = certify_recall(X, lists, sample=args.sample)
            row |= {f"{method}: CPU s": f"{took[1]:.2f}", f"{method}: recall": f"{recall['recall']:.3f}",
                    f"{method}: first call, CPU s": f"{took[0]:.0f}"}
        print(json.dumps(row), flush=True)


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
    if method in ("auto", "exact", "descent"):
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
    parser.add_argument("--metrics", nargs="+")
    parser.add_argument("--every-metric", action="store_true", help="on rows that suit each; of --metrics, if given")
    args = parser.parse_args()
    numba.set_num_threads(args.threads)
    if args.every_metric:
        every_metric(args)
        return
    for name, metric in product(args.data, args.metrics or ["euclidean"]):
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

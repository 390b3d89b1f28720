"""How seconds and memory of Nystrom LapRLS grow with the number of points: covtype from 20,000 to 581,012.

    DSSL_DATA=... python -m tests.benchmarks.laprls_growth

10 % of the points labeled, 7 classes, 10-NN, lambda_A = lambda_I = 0.01. Landmarks by the rule sqrt(m) + sqrt(n - m),
and 500 at every size; by each solver. Each size has a process of its own. `graph_seconds` is the search and the
weights, `seconds` what follows, from landmarks to coefficients, best of `--runs`; `peak_bytes` is how far the process
grows over what it holds before that, data and graph. The last line of a kind gives the exponents of a fit of
log seconds and log bytes over log n; the paper's are 1.5 in time and 1 in memory.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (20_000, 40_000, 80_000, 160_000, 320_000, 581_012)
KINDS = {"sqrt": "sqrt", "fixed": 500}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--solvers", nargs="*", default=["nystrom-direct", "nystrom-pcg"])
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)  # the process of one size
    args = parser.parse_args()
    if args.one:
        one_size(args.one, args.solvers, args.runs)
        return
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for size in args.sizes:
        done = subprocess.run([sys.executable, "-m", "tests.benchmarks.laprls_growth", "--one", str(size), "--runs",
                               str(args.runs), "--solvers", *args.solvers], stdout=subprocess.PIPE, text=True,
                              check=True, cwd=Path(__file__).parents[2])
        for line in done.stdout.splitlines():
            print(line, flush=True)
            record = json.loads(line)
            found.setdefault((record["solver"], record["rule"]), []).append(record)
    for (solver, rule), records in found.items():
        n, seconds, peak = (np.log([record[key] for record in records]) for key in ("n", "seconds", "peak_bytes"))
        print(json.dumps({"part": "laprls_growth", "solver": solver, "rule": rule,
                          "time_exponent": round(float(np.polyfit(n, seconds, 1)[0]), 2),
                          "memory_exponent": round(float(np.polyfit(n, peak, 1)[0]), 2)}), flush=True)


def one_size(size: int, solvers: list[str], runs: int) -> None:
    """Print one JSON line a solver and rule."""
    from dssl.base.profiler import PeakMemory
    from dssl.execution.in_process import InProcess
    from dssl.graph.weights.build import weigh
    from dssl.graph.weights.rules import WeightParams
    from dssl.kernels.base import RBF, median_bandwidth
    from dssl.kernels.landmarks import LandmarkParams, choose_landmarks, landmark_count
    from dssl.knn.search import NeighborParams, find_neighbors
    from dssl.learners.laprls.params import LabelLines, SystemParams
    from dssl.learners.laprls.penalties import Penalties
    from dssl.learners.laprls.solve import least_squares_solver
    from dssl.learners.laprls.system import assemble
    from dssl.storage.blocks import ArrayRows, MemoryParts

    with np.load(Path(os.environ["DSSL_DATA"]) / "covtype.npz") as held:
        X, y = held["X"].astype(np.float32), np.unique(held["y"], return_inverse=True)[1]
    rows = np.sort(np.random.default_rng(0).permutation(len(X))[:size])
    X, y = X[rows], y[rows]
    X = (X - X.mean(axis=0)) / np.maximum(X.std(axis=0), 1e-12)
    labeled = np.sort(np.random.default_rng(1).choice(size, size // 10, replace=False))
    targets = np.where(y[labeled, None] == np.arange(7), 1.0, -1.0)
    execution, graph = InProcess(), MemoryParts()
    begin = time.perf_counter()
    weigh(find_neighbors(ArrayRows(X), NeighborParams(n_neighbors=10), execution), WeightParams(), execution, graph)
    graph_seconds = time.perf_counter() - begin
    kernel = RBF(0.5 * median_bandwidth(ArrayRows(X), 0))
    for solver in solvers:
        for rule, count in KINDS.items():
            seconds, peaks, s = [], [], 0
            for _ in range(runs):
                begin = time.perf_counter()
                with PeakMemory() as peak:
                    params = LandmarkParams(n_landmarks=count)  # type: ignore[arg-type]
                    s = landmark_count(params, len(labeled), size, size)
                    landmarks = choose_landmarks(ArrayRows(X), kernel, s, params, execution, labeled)
                    lines = LabelLines.of(labeled, np.ones(len(labeled)), targets)
                    system = assemble(ArrayRows(X), lines, kernel, landmarks, graph, "normalized", SystemParams(
                        solver=solver), execution)  # type: ignore[arg-type]
                    pairs = [Penalties(0.01, 0.01)]
                    found = least_squares_solver(system, pairs, execution).solve(pairs)
                seconds.append(time.perf_counter() - begin)
                peaks.append(peak.bytes or 0)
            print(json.dumps({
                "part": "size", "n": size, "landmarks": s, "solver": solver, "rule": rule,
                "graph_seconds": round(graph_seconds, 1), "seconds": round(min(seconds), 2), "peak_bytes": max(peaks),
                "iterations": (found.evidence.get("iterations") or [None])[0]}), flush=True)


if __name__ == "__main__":
    main()

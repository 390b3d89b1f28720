"""Forty pairs of penalties x 5 folds as one problem against one after the other, each a problem of its own.

    DSSL_DATA=... python -m tests.benchmarks.laprls_batch --set a9a --points 20000

Seconds from the landmarks to the coefficients of all 200 systems, by Gram matrices and by preconditioned conjugate
gradients; one by one, `--alone` systems spread over the grid are solved and their mean is taken times 200 (`estimated`
says so), since the others differ in nothing but numbers. One JSON line a method, best and median of `--runs`.
"""

import argparse
import json
import time
from dataclasses import replace
from statistics import mean, median

import numpy as np

from dssl.execution.in_process import InProcess
from dssl.learners.laprls.params import SystemParams
from dssl.learners.laprls.penalties import Penalties, with_folds
from dssl.learners.laprls.solve import least_squares_solver
from dssl.selection.folds import labeled_folds

from .laprls_problems import Problem, problem

FOLDS = 5
PAIRS = [Penalties(a, i) for a in 10.0 ** np.arange(-3, 2) for i in 10.0 ** np.arange(-5.0, 3.0)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--set", default="a9a")
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--landmarks", type=int, default=500)
    parser.add_argument("--alone", type=int, default=20, help="systems solved one by one")
    parser.add_argument("--runs", type=int, default=3)
    args = parser.parse_args()
    data = problem(args.set, random_state=0, points=args.points)
    codes = (data.split.Y[data.split.labeled, 0] > 0).astype(np.int64)
    held = labeled_folds(codes, FOLDS, 0)
    systems = with_folds(PAIRS, FOLDS)
    some = [systems[index] for index in np.linspace(0, len(systems) - 1, args.alone).round().astype(int)]
    for method in ("nystrom-direct", "nystrom-pcg"):
        together, apart = [], []
        for _ in range(args.runs):
            together.append(seconds(data, systems, held, method, args.landmarks))
            apart.append(mean(seconds(data, [one], held, method, args.landmarks) for one in some) * len(systems))
        print(json.dumps({
            "part": "laprls_batch", "data": args.set, "n": data.n, "landmarks": args.landmarks, "method": method,
            "systems": len(systems), "together_best": round(min(together), 2),
            "together_median": round(median(together), 2), "one_by_one_best": round(min(apart), 1),
            "one_by_one_median": round(median(apart), 1), "estimated": f"from {len(some)} of {len(systems)}",
            "ratio": round(min(apart) / min(together), 1)}), flush=True)


def seconds(data: Problem, systems: list[Penalties], held: list[np.ndarray], method: str, landmarks: int) -> float:
    """Return the seconds from the landmarks to the coefficients."""
    execution = InProcess(memory_budget=4 << 30)
    begin = time.perf_counter()
    system = data.system(landmarks, SystemParams(), execution, held=held)
    params = SystemParams(solver=method)  # type: ignore[arg-type]
    least_squares_solver(replace(system, params=params), systems, execution).solve(systems)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()

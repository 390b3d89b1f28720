"""Iterations of preconditioned conjugate gradients over a grid of penalties: sampled edges, the paper's, and none.

    DSSL_DATA=... python -m tests.benchmarks.laprls_iterations a9a phishing ijcnn1 covtype

6 x 6 pairs (lambda_A, lambda_I), each from 1e-4 to 1e1; 70 % of the points, 10 % of them labeled, uniform landmarks,
8-NN with weights exp(-d^2/4) and the unnormalized Laplacian, as in the paper; bandwidth half the median distance,
features standardized (a9a and phishing: raw). All 36 pairs are columns of one problem, to a relative residual of 1e-6.
"printed" is the paper's preconditioner in its own basis, without whitening; it stops at 500 iterations, as all do.
One JSON line a preconditioner, with the median, the maximum and the number of pairs that did not converge.
"""

import argparse
import json
import time
from dataclasses import replace

import numpy as np

from dssl.execution.in_process import InProcess
from dssl.learners.laprls.iterations import solve_by_products
from dssl.learners.laprls.params import SystemParams
from dssl.learners.laprls.penalties import Penalties

from .laprls_problems import problem

VALUES = [10.0**exponent for exponent in range(-4, 2)]
PRECONDITIONERS = {
    "edges": SystemParams(preconditioner="edges"), "edges, 4 a landmark": SystemParams(edges=4),
    "paper (5) or (6)": SystemParams(preconditioner="paper"), "paper (6)": SystemParams(preconditioner="paper-6"),
    "none": SystemParams(preconditioner="none"),
    "printed": SystemParams(preconditioner="paper", whitening=None), "printed, none": SystemParams(
        preconditioner="none", whitening=None)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", default=["a9a", "phishing", "ijcnn1"])
    parser.add_argument("--points", type=int, default=20_000, help="at most; a random sample of larger sets")
    parser.add_argument("--landmarks", type=int, default=1000)
    parser.add_argument("--preconditioners", nargs="*", default=list(PRECONDITIONERS), choices=list(PRECONDITIONERS))
    args = parser.parse_args()
    systems = [Penalties(a, i) for a in VALUES for i in VALUES]
    for name in args.sets:
        execution = InProcess(memory_budget=4 << 30)
        data = problem(name, random_state=0, points=args.points)
        edges: np.ndarray | None = None
        for which in args.preconditioners:
            params = replace(PRECONDITIONERS[which], max_iter=500)
            system = data.system(args.landmarks, params, execution)
            begin = time.perf_counter()
            found = solve_by_products(system, systems, execution, preconditioned=True, required=False)
            counts = np.array(found.evidence["iterations"])
            edges = counts if which == "edges" else edges
            # Pairs in which this preconditioner needs fewer iterations than sampled edges.
            fewer = None if edges is None else int((counts < edges).sum())
            print(json.dumps({
                "part": "laprls_iterations", "data": name, "n": data.n, "labels": data.m, "landmarks": system.s,
                "rank": system.r, "preconditioner": which, "median": float(np.median(counts)),
                "max": int(counts.max()), "not_converged": found.evidence["not_converged"], "fewer_than_edges": fewer,
                "seconds": round(time.perf_counter() - begin, 1), "grid": counts.reshape(6, 6).tolist()}), flush=True)


if __name__ == "__main__":
    main()

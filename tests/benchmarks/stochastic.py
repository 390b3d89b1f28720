"""The stochastic eigensystem of an affinity: its error against the number of steps, and its memory against the budget.

    python -m tests.benchmarks.stochastic                # error: digits of scikit-learn, 1,797 points, L_hat is known
    DSSL_DATA=... python -m tests.benchmarks.stochastic --memory w8a

One JSON line each. `squared_error` is |Z_T - L_hat|_F^2; `relative` is |Z_T - L_hat|_F / |Z_T|_F, and `estimated` what
the steps say of it; `captured` is the trace of U' L U of the ten leading eigenvectors found, over that of L's own. The
last line of a setting gives the slope of log squared error, averaged over seeds, against log T from 16 steps on.

Memory: the largest rank within each budget, with so many features a step. `measured` is how far the process grows,
`predicted` the formula; degrees are 1, since neither memory nor seconds depend on them.
"""

import argparse
import json
from dataclasses import replace

import numpy as np
from sklearn.datasets import load_digits

from dssl.base.profiler import PeakMemory
from dssl.data.ingest import open_dataset
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF, DistanceKernel, LaplacianKernel, median_bandwidth
from dssl.kernels.stochastic import (
    StochasticParams,
    rank_that_fits,
    stochastic_bytes,
    stochastic_eigensystem,
)
from dssl.storage.blocks import ArrayRows
from tests import reference

STEPS = (4, 8, 16, 32, 64, 128, 256)
LEADING = 10
THRESHOLD = 0.01  # at which L_hat has some 80 directions
SETTINGS = (("rbf", 50, 200), ("rbf", 200, 200), ("rbf", 200, 40), ("laplacian", 200, 200))  # features, rank


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--memory", help="the data set on which memory is measured")
    parser.add_argument("--budgets", type=int, nargs="*", default=[200, 400, 600], help="in MB")
    parser.add_argument("--features", type=int, default=200)
    args = parser.parse_args()
    if args.memory:
        for budget in args.budgets:
            memory(args.memory, budget * 1_000_000, args.features, args.threads)
        return
    X = load_digits().data / 16
    for name, n_features, rank in SETTINGS:
        convergence(X, name, n_features, rank, args.seeds, InProcess(args.threads))


def kernel_of(name: str, X: np.ndarray) -> DistanceKernel:
    """Return a kernel of half the median distance."""
    if name == "rbf":
        return RBF(median_bandwidth(X, 0) / 2)
    return LaplacianKernel(median_bandwidth(X, 0, metric="cityblock") / 2)


def convergence(X: np.ndarray, name: str, n_features: int, rank: int, seeds: int, execution: InProcess) -> None:
    """Print one line a seed and number of steps, and the slope."""
    kernel = kernel_of(name, X)
    params = StochasticParams(n_features=n_features, rank=rank, threshold=THRESHOLD, tol=0)
    K = kernel(X, X)
    L = reference.affinity(K)
    L_hat = reference.thresholded(L, params.threshold)
    largest = np.linalg.eigvalsh(L)[-LEADING:].sum()
    setting = {"part": "convergence", "kernel": name, "n": len(X), "features": n_features, "rank": rank,
               "threshold": params.threshold, "norm": round(float(np.linalg.norm(L_hat)), 4)}
    errors = np.zeros((seeds, len(STEPS)))
    for random_state in range(seeds):
        for i, steps in enumerate(STEPS):
            own = replace(params, steps=steps, random_state=random_state)
            found = stochastic_eigensystem(ArrayRows(X), kernel, K.sum(1), own, execution)
            U = found.vectors.read_all().astype(float)
            Z, first = (U * found.lowered) @ U.T, U[:, :LEADING]
            errors[random_state, i] = np.sum((Z - L_hat) ** 2)
            estimate = found.evidence["error"]
            print(json.dumps({
                **setting, "random_state": random_state, "steps": steps,
                "squared_error": float(f"{errors[random_state, i]:.4g}"),
                "relative": round(float(np.sqrt(errors[random_state, i]) / np.linalg.norm(Z)), 4), "estimated": estimate
                and round(estimate, 4), "rank_found": len(found.values),
                "captured": round(float(np.einsum("ij,ij->", first, L @ first) / largest), 4),
                "orthogonality": float(f"{found.evidence['orthogonality']:.1g}"),
                "seconds": round(found.evidence["seconds"], 2)}), flush=True)
    late = [i for i, steps in enumerate(STEPS) if steps >= 16]
    slope = np.polyfit(np.log(np.array(STEPS)[late]), np.log(errors.mean(0)[late]), 1)[0]
    print(json.dumps({**setting, "slope": round(float(slope), 3)}), flush=True)


def memory(source: str, budget: int, n_features: int, threads: int) -> None:
    """Print predicted and measured memory of the largest rank within the budget, and the mean seconds of a step."""
    X = open_dataset(source).X
    rows, kernel = X if X.is_sparse else ArrayRows(X.read_all()), RBF(0.55)
    rank = rank_that_fits(rows, n_features, budget, tasks=threads)
    params = StochasticParams(n_features=n_features, rank=rank, threshold=0, tol=0, steps=4 + rank // n_features)
    degrees, execution = np.ones(len(rows)), InProcess(threads, budget)
    small = ArrayRows(np.random.default_rng(0).normal(size=(500, 3)))  # compiles, and fills the buffers of BLAS
    stochastic_eigensystem(small, kernel, np.ones(500), StochasticParams(steps=3), execution)
    with PeakMemory() as peak:
        made = stochastic_eigensystem(rows, kernel, degrees, params, execution)
    predicted = stochastic_bytes(rows, n_features, rank, budget, tasks=threads)
    print(json.dumps({
        "part": "memory", "source": source, "n": len(rows), "d": rows.shape[1], "features": n_features,
        "budget": budget, "rank": rank, "predicted": predicted, "measured": peak.bytes,
        "measured_over_predicted": peak.bytes and round(peak.bytes / predicted, 3),
        "seconds_a_step": round(made.evidence["seconds"] / made.evidence["steps"], 2)}), flush=True)


if __name__ == "__main__":
    main()

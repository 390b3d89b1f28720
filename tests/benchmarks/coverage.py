"""How often 95 % intervals of an error hold the error of new points.

    python -m tests.benchmarks.coverage

A JSON line a number of test points. Of classes exact, the mean and the least over errors from 1 to 50 %, for Wilson's
interval, Clopper and Pearson's, and one standard error times 1.96. Of quantities by simulation, for the studentized
bootstrap, and the standard error times 1.96, with residuals of three distributions.
"""

import argparse
import json
from collections.abc import Callable

import numpy as np
from scipy.stats import beta, binom

from dssl.base.wilson import interval_of_share
from dssl.selection.interval import interval_of_rmse

Z = 1.96
ERRORS = np.arange(1, 51) / 100
RESIDUALS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(size=n), "laplace": lambda rng, n: rng.laplace(size=n) / np.sqrt(2),
    "t5": lambda rng, n: rng.standard_t(5, size=n) / np.sqrt(5 / 3)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, nargs="+", default=[10, 20, 30, 50, 100, 500])
    parser.add_argument("--repetitions", type=int, default=1000)
    given = parser.parse_args()
    for n in given.points:
        counts = np.arange(n + 1)
        ends = {
            "wilson": np.array([interval_of_share(k / n, n) for k in counts]),
            "clopper_pearson": np.stack([np.where(counts > 0, beta.ppf(0.025, counts, n - counts + 1), 0),
                                         np.where(counts < n, beta.ppf(0.975, counts + 1, n - counts), 1)], axis=1),
            "standard_error": (counts / n)[:, None] + Z * np.sqrt(counts / n * (1 - counts / n) / n)[:, None] * [-1, 1]}
        for name, (low, high) in ((name, own.T) for name, own in ends.items()):
            covered = np.array([binom.pmf(counts, n, p)[(low <= p) & (p <= high)].sum() for p in ERRORS])
            print(json.dumps({"of": "classes", "points": n, "interval": name, "mean": round(float(covered.mean()), 3),
                              "least": round(float(covered.min()), 3), "most": round(float(covered.max()), 3)}),
                  flush=True)
    for n in given.points:
        for name, draw in RESIDUALS.items():
            covered = np.array([_covers(draw(np.random.default_rng([repetition, n]), n))
                                for repetition in range(given.repetitions)]).mean(axis=0)
            print(json.dumps({"of": "quantities", "points": n, "residuals": name,
                              "bootstrap": round(float(covered[0]), 3), "standard_error": round(float(covered[1]), 3)}),
                  flush=True)


def _covers(residuals: np.ndarray) -> tuple[bool, bool]:
    """Return whether each interval of the rmse holds 1, the true one."""
    squared = residuals**2
    interval = interval_of_rmse(squared)
    assert interval is not None
    rmse = np.sqrt(squared.mean())
    return interval[0] <= 1 <= interval[1], abs(rmse - 1) <= Z * squared.std() / (2 * rmse * np.sqrt(len(squared)))


if __name__ == "__main__":
    main()

"""What a memory budget does: the error, the rank that it chooses, seconds, and the memory that is taken against it.

    DSSL_DATA=... python -m tests.benchmarks.budgets --sets usps a9a --draws 5

One JSON line a learner and budget, in a process of its own: the mean error in percent on the unlabeled points, with its
standard error, of fits with the defaults; the landmarks; the seconds of the first fit with predictions;
and the peak of the process during it, beyond what the interpreter and the data take.
"""

import argparse
import json
import subprocess
import sys
import time
import warnings
from statistics import fmean, pstdev

import numpy as np

from dssl import ClusterKernelSVC, LapRLSClassifier, LapSVC
from dssl.base.profiler import process_peak

from .draws import add_draw_option, draw_labels
from .low_labels import read

LEARNERS = {"LapSVC": (LapSVC, lambda found: found["n_landmarks"]),
            "LapRLS": (LapRLSClassifier, lambda found: found["landmarks"]["count"]),
            "ClusterKernelSVC": (ClusterKernelSVC, lambda found: found["landmarks"])}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["usps"])
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS))
    parser.add_argument("--budgets", nargs="+", type=int, default=[20, 40, 80, 160, 320, 1000], help="MB")
    parser.add_argument("--labels", type=int, default=10, help="a class")
    parser.add_argument("--points", type=int, default=10_000)
    parser.add_argument("--draws", type=int, default=5)
    add_draw_option(parser)
    parser.add_argument("--one", action="store_true", help="the first learner, set and budget, in this process")
    given = parser.parse_args()
    if given.one:
        one(given)
        return
    for name in given.sets:
        for learner in given.learners:
            for budget in given.budgets:
                subprocess.run([sys.executable, "-m", "tests.benchmarks.budgets", "--one", "--sets", name,
                                "--learners", learner, "--budgets", str(budget), "--labels", str(given.labels),
                                "--points", str(given.points), "--draws", str(given.draws), "--draw", given.draw],
                               check=True)


def one(given: argparse.Namespace) -> None:
    warnings.simplefilter("ignore")
    name, learner, budget = given.sets[0], given.learners[0], given.budgets[0]
    kind, rank_of = LEARNERS[learner]
    X, y = read(name, given.points)
    X = X.astype(np.float32)
    kind().fit(X[:300], np.where(np.arange(300) < 200, np.unique(y[:300], return_inverse=True)[1], -1))  # compiles
    before, errors, seconds, peak, ranks = process_peak(), list[float](), 0.0, 0, list[int]()
    for number in range(given.draws):
        labels, begin = draw_labels(y, given.labels, [given.labels, number], given.draw), time.perf_counter()
        fitted = kind(memory_budget=budget * 10**6, random_state=number).fit(X, labels)
        wrong = fitted.transduction_ != y
        if number == 0:
            seconds, peak = time.perf_counter() - begin, process_peak() - before
        ranks.append(rank_of(fitted.evidence_))
        errors.append(100 * float(wrong[labels < 0].mean()))
    print(json.dumps({"set": name, "points": X.shape, "learner": learner, "budget_mb": budget,
                      "draw": given.draw, "rank": max(ranks),
                      "error": round(fmean(errors), 2), "standard_error": round(pstdev(errors) / len(errors)**0.5, 2),
                      "seconds": round(seconds, 1), "peak_mb": round(peak / 1e6, 1)}), flush=True)


if __name__ == "__main__":
    main()

"""LapRLS and LapSVM with kernel blocks in float64 and in float32: errors and core seconds of the same fits.

    DSSL_DATA=... python -m tests.benchmarks.laprls_precision --sets keel:magic keel:penbased covtype --points 12000

Of each set (`low_labels.py`) 10 and 50 labels a class, drawn evenly and at random, `--draws` of each. One JSON line a
fit with the error on the unlabeled points in percent, and one a set with the means and the largest difference.
"""

import argparse
import json
import time
import warnings
from statistics import fmean
from typing import Any

import numpy as np

import dssl

from .draws import draw_labels
from .low_labels import read

PRECISIONS = "float64", "float32"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=["covtype"])
    parser.add_argument("--points", type=int, default=12_000)
    parser.add_argument("--draws", type=int, default=2)
    parser.add_argument("--estimator", default="LapRLSClassifier", choices=["LapRLSClassifier", "LapSVM"])
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    for name in given.sets:
        X, y = read(name, given.points)
        fits = [compared(given.estimator, X, y, draw_labels(y, rate, [rate, number], draw))
                for rate in (10, 50) for number in range(given.draws) for draw in ("even", "random")]
        for fit in fits:
            print(json.dumps({"set": name, "points": len(y), **fit}), flush=True)
        means = {key: round(fmean(fit[key] for fit in fits), 2) for key in fits[0]}
        largest = max(abs(fit["error_float32"] - fit["error_float64"]) for fit in fits)
        print(json.dumps({"part": "mean", "set": name, "points": len(y), "fits": len(fits), **means,
                          "largest_difference": round(largest, 3)}), flush=True)


def compared(estimator: str, X: np.ndarray, y: np.ndarray, labels: np.ndarray) -> dict[str, Any]:
    """Return the error and the core seconds of a fit in each precision."""
    figures = {}
    for precision in PRECISIONS:
        model = getattr(dssl, estimator)(solver=dssl.SystemParams(precision=precision))
        begin = time.process_time()
        model.fit(X, labels)
        figures[f"seconds_{precision}"] = round(time.process_time() - begin, 2)
        figures[f"error_{precision}"] = round(100 * float((model.transduction_ != y)[labels < 0].mean()), 3)
    return figures


if __name__ == "__main__":
    main()

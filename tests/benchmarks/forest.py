"""covtype, all 581,012 points: the automatic default beside what one would try on the same labels.

    DSSL_DATA=... python -m tests.benchmarks.forest --labels 0.01 0.1

A JSON line a share of labels and learner: accuracy on the unlabeled points, seconds of fit, graph and prediction, the
chosen scale. Nearest neighbors and gradient boosting see the raw features and the labels alone. They take turns, in
threads of this process.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.neighbors import KNeighborsClassifier

from dssl import LapRLSClassifier, SemiSupervisedClassifier

from .draws import add_draw_option, draw_labels


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--labels", type=float, nargs="+", default=[0.01, 0.1])
    parser.add_argument("--learners", nargs="+", default=list(LEARNERS), choices=list(LEARNERS))
    parser.add_argument("--points", type=int, help="at most; all by default")
    add_draw_option(parser, "random")
    given = parser.parse_args()
    with np.load(Path(os.environ["DSSL_DATA"]) / "covtype.npz") as held:
        X, y = held["X"].astype(np.float32), held["y"].astype(np.int64) - 1
    if given.points is not None:
        chosen = np.random.default_rng(0).choice(len(y), given.points, replace=False)
        X, y = X[chosen], y[chosen]
    for share in given.labels:
        labels = draw_labels(y, share * len(y) / (y.max() + 1), [1], given.draw)
        known = labels >= 0
        for learner in given.learners:
            begin = time.perf_counter()
            predicted, evidence = LEARNERS[learner](X, labels)
            print(json.dumps({"points": len(y), "labels": int(known.sum()), "draw": given.draw, "learner": learner,
                              "accuracy": round(float((predicted == y)[~known].mean()), 4),
                              "seconds": round(time.perf_counter() - begin, 1), **evidence}), flush=True)


def automatic(X: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    fitted = SemiSupervisedClassifier().fit(X, labels)
    return fitted.transduction_, {"scale": fitted.evidence_["scale"]["kind"], "gain": fitted.evidence_["in_words"]}


def laprls(X: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
    """LapRLS with bandwidth and penalties by cross-validation, on 2,000 landmarks, raw and standardized features."""
    tried = []
    for scale in ("none", "standardize"):
        for bandwidth in ("0.0625*median", "0.125*median", "0.25*median"):
            fitted = LapRLSClassifier(bandwidth=bandwidth, landmarks=2000, cv=3, gamma_A=["0.1*auto", "auto"],
                                      gamma_I=[0, "0.01*auto"], scale=scale).fit(X, labels)
            error = 1 - float(np.max(fitted.cv_results_["mean_test_score"]))
            tried.append((error, scale, bandwidth, fitted))
    error, scale, bandwidth, fitted = min(tried, key=lambda own: own[0])
    return fitted.predict(X), {"scale": scale, "bandwidth": bandwidth, "held_out_error": round(error, 4)}


def alone(make: Callable[[], Any]) -> Callable[..., tuple[np.ndarray, dict[str, Any]]]:
    def predicted(X: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, dict[str, Any]]:
        known = labels >= 0
        return make().fit(X[known], labels[known]).predict(X), {}

    return predicted


LEARNERS: dict[str, Callable[..., tuple[np.ndarray, dict[str, Any]]]] = {
    "automatic": automatic, "nearest_3": alone(lambda: KNeighborsClassifier(3, n_jobs=2)),
    "boosting": alone(lambda: HistGradientBoostingClassifier(max_iter=300, random_state=0)), "laprls": laprls}


if __name__ == "__main__":
    main()

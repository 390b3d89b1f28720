"""Regression with 40 and 200 labels: the automatic default against what one would try on the labels alone.

    DSSL_DATA=... python -m tests.benchmarks.few_quantities --draws 20

R^2 at the unlabeled points, mean and standard error over draws, a JSON line a set, number of labels and learner, with
the mean seconds of a fit. RidgeCV and SVR, tuned by cross-validation, see standardized features and the labels alone.
"""

import argparse
import json
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVR

from dssl import SemiSupervisedRegressor

STORED = ("abalone", "cpusmall", "housing", "mpg")
SETS: dict[str, Callable[[], Any]] = {
    "diabetes": lambda: datasets.load_diabetes(return_X_y=True),
    "friedman1": lambda: datasets.make_friedman1(1000, noise=1.0, random_state=0),
    "swiss_roll": lambda: datasets.make_swiss_roll(1500, noise=0.2, random_state=0),
    **{name: lambda name=name: stored(name) for name in STORED}}  # type: ignore[misc]


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--labels", type=int, nargs="+", default=[40, 200])
    parser.add_argument("--draws", type=int, default=20)
    given = parser.parse_args()
    for name in given.sets:
        X, y = SETS[name]()
        for n_labels in given.labels:
            found: dict[str, list[tuple[float, float]]] = {learner: [] for learner in LEARNERS}
            for draw in range(given.draws):
                chosen = np.random.default_rng([draw, n_labels]).choice(len(y), n_labels, replace=False)
                free = np.setdiff1d(np.arange(len(y)), chosen)
                for learner, predicted in LEARNERS.items():
                    begin = time.perf_counter()
                    residual = predicted(X, y, chosen)[free] - y[free]
                    seconds = time.perf_counter() - begin
                    found[learner].append((1 - float((residual**2).mean() / y[free].var()), seconds))
            for learner, own in found.items():
                r2 = np.array([value for value, _ in own])
                print(json.dumps({"set": name, "points": len(y), "labels": n_labels, "draws": given.draws,
                                  "learner": learner, "r2": round(float(r2.mean()), 3),
                                  "standard_error": round(float(r2.std()) / len(r2)**0.5, 3),
                                  "seconds": round(float(np.mean([seconds for _, seconds in own])), 2)}), flush=True)


def stored(name: str) -> tuple[np.ndarray, np.ndarray]:
    with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}_scale.npz") as held:
        return held["X"].astype(np.float64), held["y"].astype(np.float64)


def automatic(X: np.ndarray, y: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    known = np.full(len(y), np.nan)
    known[chosen] = y[chosen]
    return SemiSupervisedRegressor().fit(X, known).transduction_


def alone(make: Callable[[np.ndarray, int], Any]) -> Callable[..., np.ndarray]:
    def predicted(X: np.ndarray, y: np.ndarray, chosen: np.ndarray) -> np.ndarray:
        Z = StandardScaler().fit_transform(X)
        return make(y[chosen], X.shape[1]).fit(Z[chosen], y[chosen]).predict(Z)

    return predicted


LEARNERS: dict[str, Callable[..., np.ndarray]] = {
    "automatic": automatic,
    "ridge_cv": alone(lambda y, d: RidgeCV(np.logspace(-3, 3, 13))),
    "svr": alone(lambda y, d: GridSearchCV(SVR(), {
        "C": np.array([0.1, 1, 10, 100]) * y.std(), "gamma": [0.01 / d, 0.1 / d, 1 / d], "epsilon": [0.1 * y.std()]}))}


if __name__ == "__main__":
    main()

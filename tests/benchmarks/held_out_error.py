"""Whether the error that an estimator states of labels held out is that of the points without one.

    DSSL_DATA=... python -m tests.benchmarks.held_out_error --draws 10

A JSON line a set and number of labels, drawn at random: the error that `gain_` states with and without the graph, and
the true one at the unlabeled points, of quantities roots of mean squares over draws; the mean of ratios of stated to
true; and the mean seconds of a fit.
"""

import argparse
import json
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets

from dssl import SemiSupervisedClassifier, SemiSupervisedRegressor

from .few_quantities import stored

MOST = 1500  # points of a set
SETS: dict[str, tuple[Any, Callable[[], Any]]] = {
    **{name: (SemiSupervisedRegressor, make) for name, make in {
        "diabetes": lambda: datasets.load_diabetes(return_X_y=True), "housing": lambda: stored("housing"),
        "mpg": lambda: stored("mpg"), "abalone": lambda: stored("abalone"),
        "friedman1": lambda: datasets.make_friedman1(1000, noise=1.0, random_state=0)}.items()},
    **{name: (SemiSupervisedClassifier, make) for name, make in {
        "wine": lambda: datasets.load_wine(return_X_y=True),
        "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
        "digits": lambda: datasets.load_digits(return_X_y=True),
        "gaussians": lambda: datasets.make_classification(1000, 8, n_informative=3, flip_y=0.3, random_state=0),
    }.items()}}


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--labels", type=int, nargs="+", default=[20, 40, 100])
    parser.add_argument("--draws", type=int, default=10)
    given = parser.parse_args()
    for name in given.sets:
        estimator, load = SETS[name]
        X, y = load()
        some = np.random.default_rng(0).permutation(len(y))[:MOST]
        X, y = X[some], y[some]
        for n_labels in given.labels:
            rows = np.array([of_draw(estimator, X, y, np.random.default_rng([draw, n_labels]).choice(
                len(y), n_labels, replace=False)) for draw in range(given.draws)])
            power = 2 if estimator is SemiSupervisedRegressor else 1
            stated, alone, true = (float((rows[:, column]**power).mean() ** (1 / power)) for column in range(3))
            print(json.dumps({
                "set": name, "points": len(y), "labels": n_labels, "draws": given.draws, "stated": round(stated, 4),
                "stated_alone": round(alone, 4), "true": round(true, 4), "stated_to_true": round(stated / true, 3),
                "seconds": round(float(np.median(rows[:, 3])), 2)}), flush=True)


def of_draw(estimator: Any, X: np.ndarray, y: np.ndarray, chosen: np.ndarray) -> tuple[float, float, float, float]:
    """Return the error stated with and without the graph, the true one, and the seconds of the fit."""
    classes = estimator is SemiSupervisedClassifier
    known = np.full(len(y), -1) if classes else np.full(len(y), np.nan)
    known[chosen] = y[chosen]
    free = np.setdiff1d(np.arange(len(y)), chosen)
    begin = time.perf_counter()
    model = estimator().fit(X, known)
    seconds = time.perf_counter() - begin
    predicted = model.transduction_[free]
    true = float((predicted != y[free]).mean()) if classes else float(np.sqrt(((predicted - y[free]) ** 2).mean()))
    return model.gain_.with_graph, model.gain_.baseline, true, seconds


if __name__ == "__main__":
    main()

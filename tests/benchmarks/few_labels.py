"""The defaults on small public sets with very few labels, beside what scikit-learn offers: the table of the README.

    python -m tests.benchmarks.few_labels [--sets moons wine ...] [--draws 20]

One JSON line a set, number of labels and learner: mean error on the unlabeled points and its standard error; at the end
the table in Markdown. Sets as they come, in the units they come in: dssl is called with nothing set, and what is
scikit-learn's stands behind a `StandardScaler`. Support vectors and (logistic) ridge regression are tuned on the labels
by cross-validation where each class has three, in all 6 for a regression; `SelfTrainingClassifier` takes the tuned
logistic regression, `LabelSpreading` its own defaults with `kernel="knn"`. Labels are counted a class, of the
regression (`friedman1`, error: 1 - R^2, what a constant leaves is 100) in all, ten times as many.
"""

import argparse
import json
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import LogisticRegression, RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.semi_supervised import LabelSpreading, SelfTrainingClassifier
from sklearn.svm import SVC, SVR

from dssl import SemiSupervisedClassifier, SemiSupervisedRegressor

from .draws import add_draw_option, draw_labels

RATES = (1, 2, 5, 10, 20)
FOLDS = 3
SETS: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "two moons": lambda: datasets.make_moons(1000, noise=0.1, random_state=0),
    "circles": lambda: datasets.make_circles(1000, noise=0.05, factor=0.5, random_state=0),
    "wine": lambda: datasets.load_wine(return_X_y=True),
    "breast_cancer": lambda: datasets.load_breast_cancer(return_X_y=True),
    "digits": lambda: datasets.load_digits(return_X_y=True),
    "friedman1": lambda: datasets.make_friedman1(1000, noise=1.0, random_state=0)}
REGRESSION = ("friedman1",)
Learner = Callable[[np.ndarray, np.ndarray, np.ndarray], np.ndarray]  # X (n, d), y (n,), known (n,) bool -> (n,)


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", nargs="+", default=list(SETS), choices=list(SETS))
    parser.add_argument("--rates", type=int, nargs="+", default=list(RATES))
    parser.add_argument("--draws", type=int, default=20)
    add_draw_option(parser)
    given = parser.parse_args()
    cells = {}
    for name in given.sets:
        X, y = SETS[name]()
        for rate in given.rates:
            found = errors(X, y, name in REGRESSION, rate, given)
            for learner, own in found.items():
                cells[name, rate, learner] = (float(np.mean(own)), float(np.std(own, ddof=1)) / len(own)**0.5)
                mean, deviation = cells[name, rate, learner]
                print(json.dumps({"set": name, "labels": rate, "learner": learner, "draw": given.draw,
                                  "draws": len(own), "error": round(mean, 2),
                                  "standard_error": round(deviation, 2)}), flush=True)
    print(table(cells, given.sets, given.rates))


def errors(X: np.ndarray, y: np.ndarray, regression: bool, rate: int,
           given: argparse.Namespace) -> dict[str, list[float]]:
    """Return the errors on the unlabeled points in percent, of each learner in each draw of labels."""
    found: dict[str, list[float]] = {}
    for number in range(given.draws):
        if regression:
            known = np.zeros(len(y), bool)
            known[np.random.default_rng([rate, number]).choice(len(y), 10 * rate, replace=False)] = True
        else:
            known = draw_labels(y, rate, [rate, number], given.draw) >= 0
        for name, learner in (REGRESSORS if regression else CLASSIFIERS).items():
            predicted, true = learner(X, y, known)[~known], y[~known]
            wrong = (((predicted - true)**2).mean() / true.var() if regression else (predicted != true).mean())
            found.setdefault(name, []).append(100 * float(wrong))
    return found


def semi_supervised(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    return SemiSupervisedClassifier().fit(X, np.where(known, y, -1)).transduction_


def semi_supervised_regressor(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    return SemiSupervisedRegressor().fit(X, np.where(known, y, np.nan)).transduction_


def supervised(make: Callable[[np.ndarray], Any]) -> Learner:
    """Return what an estimator predicts that is made for the labels, and fitted to them alone."""
    def learner(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
        return make_pipeline(StandardScaler(), make(y[known])).fit(X[known], y[known]).predict(X)

    return learner


def unlabeled_too(make: Callable[[np.ndarray], Any]) -> Learner:
    """Return what a semi-supervised estimator of scikit-learn predicts."""
    def learner(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
        scaled = StandardScaler().fit_transform(X)
        return make(y[known]).fit(scaled, np.where(known, y, -1)).predict(scaled)

    return learner


def tuned(estimator: Any, grid: dict[str, list[Any]], min_labels: int, scoring: str | None = None) -> Any:
    """Return the estimator, tuned on the labels where `least`, labels of the rarest class, allows it."""
    return estimator if min_labels < FOLDS else GridSearchCV(estimator, grid, cv=FOLDS, scoring=scoring)


def logistic(labels: np.ndarray, class_weight: str | None = None, scoring: str | None = None) -> Any:
    return tuned(LogisticRegression(max_iter=1000, class_weight=class_weight), {"C": [0.01, 0.1, 1, 10, 100]},
                 np.unique(labels, return_counts=True)[1].min(), scoring)


def support_vectors(labels: np.ndarray) -> Any:
    return tuned(SVC(C=10), {"C": [0.1, 1, 10, 100], "gamma": ["scale", 0.01, 0.1, 1.0]}, np.unique(
        labels, return_counts=True)[1].min())


def support_vector_regression(labels: np.ndarray) -> Any:
    return tuned(SVR(C=10), {"C": [1, 10, 100], "gamma": ["scale", 0.01, 0.1], "epsilon": [0.1, 0.5]},
                 len(labels) // 2)


CLASSIFIERS: dict[str, Learner] = {
    "dssl": semi_supervised, "LabelSpreading": unlabeled_too(lambda labels: LabelSpreading(kernel="knn")),
    "SelfTraining": unlabeled_too(lambda labels: SelfTrainingClassifier(logistic(labels))),
    "SVC": supervised(support_vectors), "logistic or ridge": supervised(logistic),
    "nearest": supervised(lambda labels: KNeighborsClassifier(1))}
REGRESSORS: dict[str, Learner] = {
    "dssl": semi_supervised_regressor, "SVC": supervised(support_vector_regression),
    "logistic or ridge": supervised(lambda labels: RidgeCV(np.logspace(-3, 3, 13))),
    "nearest": supervised(lambda labels: KNeighborsRegressor(1))}


def table(cells: dict[tuple[str, int, str], tuple[float, float]], sets: list[str], rates: list[int]) -> str:
    """Return the errors in Markdown, a row a set and rate; bold: the least, and all within its standard error."""
    lines = ["| set | labels | " + " | ".join(CLASSIFIERS) + " |", "|---|---|" + "---|" * len(CLASSIFIERS)]
    for name in sets:
        for rate in rates:
            own = {learner: cells[name, rate, learner] for learner in CLASSIFIERS if (name, rate, learner) in cells}
            lowest, deviation = min(own.values())
            lines.append(f"| {name} | {10 * rate if name in REGRESSION else rate} | " + " | ".join(
                "" if learner not in own else f"**{own[learner][0]:.1f}**" if own[learner][0] <= lowest + deviation
                else f"{own[learner][0]:.1f}" for learner in CLASSIFIERS) + " |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()

"""What a statistician would try: sentinels, scales, thresholds of scores, stated errors, outliers among targets.

    DSSL_DATA=... python -m tests.benchmarks.statistician --out statistician.jsonl --draws 20

Parts, each of which can be measured alone:

`sentinels` : the error on the unlabeled points, 10 labels a class, of wine, australian and
diabetes_pima as they are, and with one unlabeled row more that has -999 or 99999 in every cell.

`scales` : the error, 10 labels a class, of credit_a (categories as columns of 0 and 1),
australian, and wine beside 100 columns of noise of one wide scale, by the scaling of the features
that the automatic model chooses and by standardization.

`poisson` : Poisson learning on 268 points of each class of diabetes_pima: its error, and the error
of its scores cut at their median.

`stated` : the held-out error that a regression states of 40 labels, and its error on the unlabeled
points, both in standard deviations of the targets.

`targets` : the error in standard deviations of a regression of 100 labels, one of which is
multiplied by 100, and that with all targets multiplied by 1e-200.

One JSON line a draw, case and learner goes to `--out`. What is in the file is not measured again,
so that a run goes on where another ended. `--table` prints the means in Markdown and measures
nothing.
"""

import argparse
import os
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn import datasets
from sklearn.linear_model import RidgeCV
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.svm import SVR

from dssl import PoissonLearning, SemiSupervisedClassifier, SemiSupervisedRegressor

from .draws import draw_labels
from .few_labels import logistic
from .line_file import LineFile
from .low_labels import stored
from .metrics import metrics_of
from .unequal import mean_and_error

KEYS = ("part", "case", "learner", "labels", "number")
SENTINELS = (-999.0, 99999.0)
RATE = 10  # labels a class
QUANTITIES = ("housing_scale", "mpg_scale", "bodyfat_scale", "abalone_scale", "diabetes", "friedman1")
STATED_LABELS = 40
OUTLIER_LABELS = 100
MAX_POINTS = 1500
Points = tuple[np.ndarray, np.ndarray]
Measures = Iterator[tuple[dict[str, Any], Callable[[], dict[str, float]]]]  # what it is called, and what measures it


def main() -> None:
    warnings.simplefilter("ignore")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the file of JSON lines")
    parser.add_argument("--parts", nargs="+", default=list(PARTS), choices=list(PARTS))
    parser.add_argument("--draws", type=int, default=10)
    parser.add_argument("--table", action="store_true", help="print the means")
    options = parser.parse_args()
    results = LineFile(options.out, KEYS)
    if options.table:
        print(table(results.lines))
        return
    for number in range(options.draws):
        for part in options.parts:
            for case, measure in PARTS[part](number):
                key = {"part": part, **case, "number": number}
                if key in results:
                    continue
                try:
                    results.add({**key, **measure()})
                except ValueError as error:
                    results.add({**key, "failure": str(error)})


def classification(name: str) -> Points:
    """Return X (n, d) in the units of the set, categories as columns of 0 and 1, and codes (n,)."""
    if name == "wine":
        return datasets.load_wine(return_X_y=True)
    if name == "wine and noise":
        X, y = datasets.load_wine(return_X_y=True)
        noise = np.random.default_rng(0).uniform(0, 1000, (len(y), 100))
        return np.hstack([X, noise]), y
    X, y = stored(name)
    complete = np.isfinite(X).all(axis=1)
    X, y = X[complete], np.unique(y[complete], return_inverse=True)[1]
    categorical = categories_of(name, X.shape[1])
    if categorical.any():
        levels = OneHotEncoder(sparse_output=False, drop="if_binary").fit_transform(X[:, categorical])
        X = np.hstack([X[:, ~categorical], levels])
    return X, y


def categories_of(name: str, d: int) -> np.ndarray:
    """Return which of the d columns are categories."""
    with np.load(Path(os.environ["DSSL_DATA"]) / f"{name}.npz") as arrays:
        return arrays["is_categorical"].astype(bool) if "is_categorical" in arrays else np.zeros(d, bool)


def quantities(name: str) -> Points:
    """Return X (n, d) and y (n,) of a regression."""
    if name == "diabetes":
        return datasets.load_diabetes(return_X_y=True)
    if name == "friedman1":
        return datasets.make_friedman1(1000, noise=1.0, random_state=0)
    X, y = stored(name)
    chosen = np.random.default_rng(0).permutation(len(y))[:MAX_POINTS]
    return X[chosen], y[chosen].astype(float)


def sentinels(number: int) -> Measures:
    for name in ("wine", "australian", "diabetes_pima"):
        X, y = classification(name)
        labels = draw_labels(y, RATE, [RATE, number])
        for sentinel in (None, *SENTINELS):
            rows = np.zeros((0, X.shape[1])) if sentinel is None else np.full((1, X.shape[1]), sentinel)
            more = np.vstack([X, rows])
            with_more = np.append(labels, np.full(len(rows), -1))
            for scale in ("auto", "standardize"):
                case = f"{name}, a row of {sentinel:g}" if sentinel else name
                yield {"case": case, "learner": f"automatic, {scale}", "labels": RATE}, partial(
                    error_of, SemiSupervisedClassifier(scale=scale), more, with_more, y)
            if sentinel is None:
                yield {"case": name, "learner": "logistic", "labels": RATE}, partial(error_of_logistic, X, labels, y)


def scales(number: int) -> Measures:
    for name in ("credit_a", "australian", "wine and noise"):
        X, y = classification(name)
        labels = draw_labels(y, RATE, [RATE, number])
        for scale in ("auto", "standardize"):
            key = {"case": name, "learner": f"automatic, {scale}", "labels": RATE}
            yield key, partial(error_of, SemiSupervisedClassifier(scale=scale), X, labels, y)
        yield {"case": name, "learner": "logistic", "labels": RATE}, partial(error_of_logistic, X, labels, y)


def error_of(model: Any, X: np.ndarray, labels: np.ndarray, y: np.ndarray) -> dict[str, float]:
    """Return the error of an estimator of dssl at the unlabeled points whose class is known, the first n."""
    free = np.flatnonzero(labels[:len(y)] < 0)
    predicted = model.fit(X, labels).transduction_
    return {"error": metrics_of(y[free], predicted[free], np.unique(y))["error"]}


def error_of_logistic(X: np.ndarray, labels: np.ndarray, y: np.ndarray) -> dict[str, float]:
    known = labels >= 0
    model = make_pipeline(StandardScaler(), logistic(labels[known])).fit(X[known], labels[known])
    return {"error": metrics_of(y[~known], model.predict(X[~known]), model.classes_)["error"]}


def poisson(number: int) -> Measures:
    X, y = classification("diabetes_pima")
    fewest = int(np.bincount(y).min())
    rng = np.random.default_rng(0)
    chosen = np.concatenate([rng.choice(np.flatnonzero(y == code), fewest, replace=False) for code in (0, 1)])
    X, y = X[chosen], y[chosen]
    for rate in (20, 50, 100):
        labels = draw_labels(y, rate, [rate, number])
        yield {"case": "diabetes_pima, 268 + 268", "learner": "poisson", "labels": rate}, partial(
            poisson_errors, X, labels, y)


def poisson_errors(X: np.ndarray, labels: np.ndarray, y: np.ndarray) -> dict[str, float]:
    free = labels < 0
    model = PoissonLearning().fit(X, labels)
    scores = model.decision_function(X[free])
    predicted = (scores > np.median(scores)).astype(int)
    return {**error_of(model, X, labels, y),
            "error_cut_at_the_median": metrics_of(y[free], predicted, np.unique(y))["error"]}


def stated(number: int) -> Measures:
    for name in QUANTITIES:
        X, y = quantities(name)
        known = draw_quantities(len(y), STATED_LABELS, number)
        yield {"case": name, "learner": "automatic", "labels": STATED_LABELS}, partial(stated_error, X, y, known)


def draw_quantities(n: int, count: int, number: int) -> np.ndarray:
    """Return which of n points have a label, drawn at random."""
    known = np.zeros(n, bool)
    known[np.random.default_rng([count, number]).choice(n, count, replace=False)] = True
    return known


def stated_error(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> dict[str, float]:
    model = SemiSupervisedRegressor().fit(X, np.where(known, y, np.nan))
    return {"rmse": deviation(model.transduction_[~known], y[~known], y),
            "stated_rmse": round(model.gain_.with_graph / float(y.std()), 4)}


def deviation(predicted: np.ndarray, true: np.ndarray, y: np.ndarray) -> float:
    """Return the root mean squared error in standard deviations of y."""
    return round(float(np.sqrt(((predicted - true) ** 2).mean()) / y.std()), 4)


def targets(number: int) -> Measures:
    for name in ("housing_scale", "diabetes", "friedman1"):
        X, y = quantities(name)
        known = draw_quantities(len(y), OUTLIER_LABELS, number)
        outlier = y.copy()
        outlier[np.flatnonzero(known)[0]] *= 100
        cases = (("as it is", y, 1.0), ("a label times 100", outlier, 1.0), ("times 1e-200", y, 1e-200))
        for case, given, unit in cases:
            for learner in REGRESSORS:
                yield {"case": f"{name}, {case}", "learner": learner, "labels": OUTLIER_LABELS}, partial(
                    regression_error, learner, X, unit * given, y, known, unit)


def regression_error(learner: str, X: np.ndarray, given: np.ndarray, y: np.ndarray, known: np.ndarray,
                     unit: float) -> dict[str, float]:
    predicted = REGRESSORS[learner](X, given, known)[~known]
    return {"rmse": deviation(predicted / unit, y[~known], y)}


def automatic(X: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    return SemiSupervisedRegressor().fit(X, np.where(known, y, np.nan)).transduction_


def supervised(model: Any, X: np.ndarray, y: np.ndarray, known: np.ndarray) -> np.ndarray:
    return make_pipeline(StandardScaler(), model).fit(X[known], y[known]).predict(X)


REGRESSORS: dict[str, Callable[..., np.ndarray]] = {
    "automatic": automatic, "ridge": partial(supervised, RidgeCV(np.logspace(-3, 3, 13))),
    "svr": partial(supervised, GridSearchCV(SVR(C=10), {"C": [1, 10, 100], "gamma": ["scale", 0.01, 0.1]}))}
PARTS: dict[str, Callable[[int], Measures]] = {
    "sentinels": sentinels, "scales": scales, "poisson": poisson, "stated": stated, "targets": targets}


def table(lines: list[dict[str, Any]]) -> str:
    """Return the means over the draws with their standard errors, in Markdown."""
    cells: dict[tuple[str, str, int], dict[str, list[float]]] = {}
    columns: dict[str, None] = {}
    for line in lines:
        row = cells.setdefault((line["part"], line["case"], line["labels"]), {})
        for metric in set(line) - {*KEYS, "failure"}:
            column = f"{line['learner']}: {metric}"
            columns[column] = None
            row.setdefault(column, []).append(line[metric])
    blocks = []
    for part in dict.fromkeys(part for part, _, _ in cells):
        rows = {key: row for key, row in cells.items() if key[0] == part}
        shown = [column for column in columns if any(column in row for row in rows.values())]
        blocks.append(f"| {part} | labels | {' | '.join(shown)} |\n|---|---|{'---|' * len(shown)}")
        for (_, case, labels), row in rows.items():
            texts = [cell(row[column]) if column in row else "" for column in shown]
            blocks.append(f"| {case} | {labels} | {' | '.join(texts)} |")
        blocks.append("")
    return "\n".join(blocks)


def cell(values: list[float]) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:.3g} ± {error:.2g}"


if __name__ == "__main__":
    main()

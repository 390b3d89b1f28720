"""What any other estimator, fitted to the labels, says of all points: cross-fitted soft labels."""

from collections.abc import Iterator
from typing import Any, Literal

import numpy as np

from ..base.errors import ParameterError, explain, require
from ..base.profiler import library
from ..base.types import Matrix
from ..learners.soft_labels import SoftLabels
from ..learners.target.target import Classes, Target
from ..storage.blocks import Rows
from .folds import labeled_folds

FOLDS = 5
BaseEstimatorName = Literal["boosting", "logistic", "ridge"]
CLASSIFIERS, REGRESSORS = ("boosting", "logistic"), ("boosting", "ridge")
BLOCK_NUMBERS = 1 << 24  # of a dense block of rows


def base_estimator_of(given: object, *, classes: bool, random_state: int) -> Any:
    """Return the estimator of a name, or the one that is given; raise ParameterError where it cannot be used."""
    if isinstance(given, str):
        names = CLASSIFIERS if classes else REGRESSORS
        require(given in names, f"base_estimator={given!r}", why="it names an estimator of scikit-learn",
                fix=f"use one of {names}, or pass an estimator")
        if given == "boosting":
            ensemble = library("sklearn.ensemble")
            made = ensemble.HistGradientBoostingClassifier if classes else ensemble.HistGradientBoostingRegressor
            return made(random_state=random_state)
        linear = library("sklearn.linear_model")
        return linear.LogisticRegression(max_iter=1000) if classes else linear.Ridge()
    base = library("sklearn.base")
    if isinstance(given, type):
        raise ParameterError(explain(f"base_estimator={given.__name__} is a class", why="copies of an estimator are "
                                     "fitted", fix=f"pass {given.__name__}()"))
    fits = hasattr(given, "fit") and (base.is_classifier(given) and hasattr(given, "predict_proba") if classes
                                      else base.is_regressor(given))
    require(fits, f"base_estimator={given!r}", error=ParameterError,
            why="it says how probable the classes are" if classes else "it predicts quantities",
            fix="pass a classifier with predict_proba" if classes else "pass a regressor")
    return given


def cross_fitted(given: object, rows: Rows, target: Target, weight: np.ndarray | None, random_state: int) -> SoftLabels:
    """Return what an estimator says of rows (n, d) when it is fitted to all labels, and to those outside each fold.

    There are `FOLDS` folds; the only label of a class is not held out, and where no class has two the soft labels of
    the folds are empty. Cost: a fit and a prediction of all points for each fold, and once more.

    Raises ParameterError: it takes no weights and labels have some.
    """
    classes = isinstance(target, Classes)
    estimator = base_estimator_of(given, classes=classes, random_state=random_state)
    has_fit_parameter = library("sklearn.utils.validation").has_fit_parameter
    require(weight is None or has_fit_parameter(estimator, "sample_weight"), f"base_estimator={estimator!r}",
            why="labels have weights, and its fit takes none", fix="leave the weights out, or pass another estimator")
    X, labels = _dense(rows.take(target.labeled), estimator), np.arange(len(target.labeled))
    several = np.bincount(target.strata()).max(initial=0) > 1
    folds = labeled_folds(target.strata(), FOLDS, random_state) if several else [labels[:0]]

    def fitted(kept: np.ndarray) -> np.ndarray:
        part = target.take(kept)
        of_labels = None if weight is None else weight[kept]
        return _predicted(estimator, X[kept], part, of_labels, rows)

    return SoftLabels(fitted(labels), [(fold, fitted(np.setdiff1d(labels, fold)) if len(fold) else
                                        np.zeros((len(rows), target.indicators().shape[1]))) for fold in folds])


def _predicted(estimator: object, X: Matrix, part: Target, weight: np.ndarray | None, rows: Rows) -> np.ndarray:
    """Return what a fit to some labels says of all rows, (n, c)."""
    of_labels = {} if weight is None else {"sample_weight": weight}
    clone = library("sklearn.base").clone
    if isinstance(part, Classes):
        values = np.zeros((len(rows), len(part.names)))
        present = np.unique(part.coded)
        if len(present) == 1:
            values[:, present] = 1
            return values
        model = clone(estimator).fit(X, part.coded, **of_labels)
        for first, block in _blocks(rows):
            values[first:first + block.shape[0], model.classes_] = model.predict_proba(_dense(block, estimator))
        return values
    Y = part.columns()
    values = np.empty((len(rows), Y.shape[1]))
    models = [clone(estimator).fit(X, y, **of_labels) for y in Y.T]
    for first, block in _blocks(rows):
        points = _dense(block, estimator)
        values[first:first + block.shape[0]] = np.stack([model.predict(points) for model in models], axis=1)
    return values


def _blocks(rows: Rows) -> Iterator[tuple[int, Matrix]]:
    return rows.blocks(max(1, BLOCK_NUMBERS // rows.shape[1]))


def _dense(X: Matrix, estimator: object) -> Matrix:
    """Return points as an estimator takes them: sparse ones become dense for boosted trees."""
    if not hasattr(X, "toarray"):
        return X
    ensemble = library("sklearn.ensemble")
    boosted = isinstance(estimator, (ensemble.HistGradientBoostingClassifier, ensemble.HistGradientBoostingRegressor))
    return X.toarray() if boosted else X

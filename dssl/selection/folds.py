"""Folds of the labeled points; the unlabeled ones are in every training set."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from ..data.labels import encode_labels
from ..models.folds import labeled_folds


class LabeledKFold:
    """Splits the labeled points into folds for scikit-learn's searches; all unlabeled points are in every training set.

    A test point is in neither the graph nor the labels of its fold's fit, so the score is that of new points:

        GridSearchCV(LapSVC(), {"eta": [1, 10]}, cv=LabeledKFold(5))

    Parameters
    ----------
    n_splits : at least 2. unlabeled : the marker of unlabeled points, as in the estimators. seed : of the folds.
    """

    def __init__(self, n_splits: int = 5, *, unlabeled: Any = None, seed: int = 0):
        self.n_splits, self.unlabeled, self.seed = n_splits, unlabeled, seed

    def split(self, X: Any, y: Any, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Yield (training rows, test rows), the test rows all labeled."""
        codes, _ = encode_labels(y, self.unlabeled)
        labeled = np.flatnonzero(codes >= 0)
        for fold in labeled_folds(codes[labeled], self.n_splits, self.seed):
            test = labeled[fold]
            yield np.setdiff1d(np.arange(len(codes)), test, assume_unique=True), test

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Return the number of folds: fewer than `n_splits` where there are fewer labeled points."""
        return self.n_splits if y is None else sum(1 for _ in self.split(X, y))

"""Held-out predictions by fitting again without each fold, from Gram matrices of the labeled points."""

from collections.abc import Sequence

import numpy as np

from ..learners.coding import Coding
from ..learners.ridge_and_svm import LearnerParams, fit_gram
from ..learners.target import Target


def held_out(grams: Sequence[np.ndarray], target: Target, folds: Sequence[np.ndarray], learner: LearnerParams,
             sample_weight: np.ndarray | None = None) -> tuple[np.ndarray, Coding]:
    """Return the values (l, c) of each labeled point by a learner that was fitted without its fold, and their coding.

    Parameters
    ----------
    grams : a Gram matrix (l, l) of the labeled points for each fold. folds : positions; of points in none of them the
        values are NaN.
    """
    values: np.ndarray | None = None
    for K, fold in zip(grams, folds, strict=True):
        kept = np.setdiff1d(np.arange(len(K)), fold)
        weight = None if sample_weight is None else sample_weight[kept]
        coef, intercept, coding = fit_gram(K[np.ix_(kept, kept)], target.take(kept), learner, weight)
        if values is None:
            values = np.full((len(K), len(intercept)), np.nan)
        values[fold] = K[np.ix_(fold, kept)] @ coef + intercept
    assert values is not None
    return values, coding

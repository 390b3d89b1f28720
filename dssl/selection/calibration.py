"""Probabilities from scores: Platt's calibration on scores of points that the learner was not fitted to.

The folds share one Gram matrix, so a fold costs a fit on l points and no graph. The kernel of a held-out point
comes from the graph of all points, as it does in the model itself.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from ..learners.coding import ClassCoding
from ..learners.ridge_and_svm import LearnerParams
from ..learners.target import Classes, Target
from .folds import LEAVE_ONE_OUT, held_out, labeled_folds

FOLDS = 5
ONE_BY_ONE = 200  # labels at most that are left out one by one
CALIBRATIONS = 10  # at most, of the scores of one repetition
# Of the logistic regression. On digits and mnist_vae with 2 to 10 labels a class, 1 has a larger log loss than 10; with
# 100 the most probable class is less often right.
C = 10.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """`P(class | scores) = softmax(scores coef + intercept)`; coef (n_classes, n_classes), intercept (n_classes,)."""

    coef: np.ndarray
    intercept: np.ndarray

    def of_scores_times(self, scale: float) -> "Calibration":
        """Return the calibration of scores that are so many times as large."""
        return replace(self, coef=self.coef / scale)

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, n_classes) from its scores (n, n_classes); rows sum to 1."""
        return softmax(scores @ self.coef + self.intercept, axis=1)


def calibration_folds(target: Target, seed: int, *, a_fit_each: bool = False) -> list[np.ndarray]:
    """Return what is left out at a time, two or more labels of each class: one up to `ONE_BY_ONE`, then `FOLDS` folds.

    a_fit_each : whether what is left out takes a fit, so that there are folds however few labels there are.
    """
    few = len(target.coded) <= ONE_BY_ONE and not a_fit_each
    return labeled_folds(target.strata(), LEAVE_ONE_OUT if few else FOLDS, seed)


def out_of_fold_margins(K: np.ndarray, target: Classes, params: LearnerParams,
                        sample_weight: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Return what is calibrated: the mean margins (l, n_classes) of each labeled point, fitted without its fold.

    Of margins, not of pairs won: on mnist_vae, 10 labels a class, the log loss is 0.51, of votes 0.72.
    K : (l, l), the Gram matrix of the labeled points, two or more of each class. seed : of the `FOLDS` folds.
    """
    folds = labeled_folds(target.strata(), FOLDS, seed)
    values, coding = held_out([K] * len(folds), target, folds, params, sample_weight)
    assert isinstance(coding, ClassCoding)
    return coding.margins(values)


def fit_calibration(scores: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None = None) -> Calibration:
    """Return the multinomial logistic regression of the classes on out-of-fold scores (l, n_classes).

    Its squared penalty keeps the probabilities away from 0 and 1 where few labels all lie on the right side. A class
    that no code names has probability 0.

    References
    ----------
    Platt, "Probabilistic outputs for support vector machines", 1999; there the targets are smoothed instead.
    """
    from sklearn.linear_model import LogisticRegression  # two seconds, only for probabilities

    n_classes, present = scores.shape[1], np.unique(codes)
    coef, intercept = np.zeros((n_classes, n_classes)), np.full(n_classes, -np.inf)
    intercept[present] = 0.0
    if len(present) > 1:
        regression = LogisticRegression(C=C, solver="newton-cg", max_iter=1000, tol=1e-6)
        regression.fit(scores, codes, sample_weight=sample_weight)
        own = present if len(present) > 2 else present[1:]  # of two classes: the log odds of the second
        coef[own], intercept[own] = regression.coef_, regression.intercept_
    return Calibration(coef.T, intercept)


def held_out_probabilities(scores: np.ndarray, codes: np.ndarray, folds: Sequence[np.ndarray],
                           sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return the probability of each class (l, n_classes) at points held out, NaN at others.

    scores (l, n_classes), each without its point's fold. A fold's calibration is fitted to the other folds, so that it
    saw none of its points; of more than `CALIBRATIONS` folds several share one.
    """
    held, found = np.concatenate(folds), np.full(scores.shape, np.nan)
    for first in range(min(len(folds), CALIBRATIONS)):
        own = np.concatenate(folds[first::CALIBRATIONS])
        seen = np.setdiff1d(held, own)
        weight = None if sample_weight is None else sample_weight[seen]
        found[own] = fit_calibration(scores[seen], codes[seen], weight).probabilities(scores[own])
    return found

"""Probabilities from scores: Platt's calibration on scores of points that the machine was not trained on.

The folds share one Gram matrix, so a fold costs a machine on l points and no graph. The kernel of a held-out point
comes from the graph of all points, as it does in the model itself.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold

from ..errors import DataError, require
from ..learners.kernel_model import Coding, summed_margins
from ..learners.ridge_and_svm import LearnerParams, fit_labels

FOLDS = 5
# Of the logistic regression. On digits and mnist_vae with 2 to 10 labels a class, 1 has a larger log loss than 10; with
# 100 the most probable class is less often right.
C = 10.0


@dataclass(frozen=True, eq=False)
class Calibration:
    """`P(class | scores) = softmax(scores coef + intercept)`; coef (n_classes, n_classes), intercept (n_classes,)."""

    coef: np.ndarray
    intercept: np.ndarray

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, n_classes) from its scores (n, n_classes); rows sum to 1."""
        return softmax(scores @ self.coef + self.intercept, axis=1)


def mean_margins(values: np.ndarray, coding: Coding, n_classes: int) -> np.ndarray:
    """Return what is calibrated: for each class its margins over the other classes, their sum by n_classes.

    Shape (n, n_classes), from `values` (n, c) of a `KernelModel`. They say how far a point lies from the boundaries,
    which the number of pairs won does not: on mnist_vae, 10 labels a class, the log loss is 0.51, of votes 0.72.
    """
    if coding == "one_vs_rest":
        return values
    return summed_margins(values, n_classes) / n_classes


def out_of_fold_scores(K: np.ndarray, codes: np.ndarray, n_classes: int, params: LearnerParams,
                       sample_weight: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Return the `mean_margins` (l, n_classes) of each labeled point from a machine trained without its fold.

    Parameters
    ----------
    K : ndarray, shape (l, l), the Gram matrix of the labeled points. codes : ndarray, shape (l,).
    seed : of the stratified folds: `FOLDS`, or as many as the least class has points.

    Raises
    ------
    DataError : a class has one point, so that without it no machine knows the class.
    """
    sizes = np.bincount(codes, minlength=n_classes)
    lonely = np.flatnonzero(sizes < 2)
    require(len(lonely) == 0, f"class {lonely.tolist()} (code) has one labeled point", error=DataError,
            why="probabilities are calibrated on points held out, and without this one no machine knows the class",
            fix="label a second point of it, or set probability=False")
    scores = np.empty((len(K), n_classes))
    folds = StratifiedKFold(min(FOLDS, int(sizes.min())), shuffle=True, random_state=seed)
    for kept, held in folds.split(codes, codes):
        weight = None if sample_weight is None else sample_weight[kept]
        coef, intercept, coding = fit_labels(K[np.ix_(kept, kept)], codes[kept], n_classes, params, weight)
        scores[held] = mean_margins(K[np.ix_(held, kept)] @ coef + intercept, coding, n_classes)
    return scores


def fit_calibration(scores: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None = None) -> Calibration:
    """Return the multinomial logistic regression of the classes on out-of-fold scores (l, n_classes).

    Its squared penalty keeps the probabilities away from 0 and 1 where few labels all lie on the right side.

    References
    ----------
    Platt, "Probabilistic outputs for support vector machines", 1999; there the targets are smoothed instead.
    """
    machine = LogisticRegression(C=C, solver="newton-cg", max_iter=1000, tol=1e-6)
    machine.fit(scores, codes, sample_weight=sample_weight)
    coef, intercept = machine.coef_, machine.intercept_
    if len(coef) == 1:  # of two classes: the log odds of the second
        coef, intercept = np.vstack([0 * coef, coef]), np.array([0.0, intercept[0]])
    return Calibration(coef.T, intercept)

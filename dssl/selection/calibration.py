"""Probabilities from scores: Platt's calibration on scores of points that the learner was not fitted to.

The folds share one Gram matrix, so a fold costs a fit on l points and no graph. The kernel of a held-out point
comes from the graph of all points, as it does in the model itself.
"""

from dataclasses import dataclass

import numpy as np
from scipy.special import softmax
from sklearn.linear_model import LogisticRegression

from ..learners.coding import ClassCoding
from ..learners.ridge_and_svm import LearnerParams
from ..learners.target import Classes
from .folds import held_out, held_out_folds

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


def out_of_fold_margins(K: np.ndarray, target: Classes, params: LearnerParams,
                        sample_weight: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Return what is calibrated: the mean margins (l, n_classes) of each labeled point, fitted without its fold.

    Of margins, not of pairs won: on mnist_vae, 10 labels a class, the log loss is 0.51, of votes 0.72.
    K : (l, l), the Gram matrix of the labeled points, two or more of each class. seed : of the `FOLDS` folds.
    """
    folds = held_out_folds(FOLDS, target, seed)
    values, coding = held_out([K] * len(folds), target, folds, params, sample_weight)
    assert isinstance(coding, ClassCoding)
    return coding.margins(values)


def fit_calibration(scores: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None = None) -> Calibration:
    """Return the multinomial logistic regression of the classes on out-of-fold scores (l, n_classes).

    Its squared penalty keeps the probabilities away from 0 and 1 where few labels all lie on the right side.

    References
    ----------
    Platt, "Probabilistic outputs for support vector machines", 1999; there the targets are smoothed instead.
    """
    regression = LogisticRegression(C=C, solver="newton-cg", max_iter=1000, tol=1e-6)
    regression.fit(scores, codes, sample_weight=sample_weight)
    coef, intercept = regression.coef_, regression.intercept_
    if len(coef) == 1:  # of two classes: the log odds of the second
        coef, intercept = np.vstack([0 * coef, coef]), np.array([0.0, intercept[0]])
    return Calibration(coef.T, intercept)

"""Support vector machine and kernel ridge regression on the Gram matrix of the labeled points.

Both divide the matrix by its mean diagonal, so that C does not depend on the scale of the kernel: a deformed kernel
shrinks as the weight of the graph grows.
"""

from dataclasses import dataclass
from numbers import Real
from typing import get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...base.errors import DataError, explain, require
from ...base.profiler import library
from ..losses import GramLearner
from ..target.coding import Coding, OneVsOne
from ..target.target import Classes, Target


@dataclass(frozen=True, kw_only=True)
class LearnerParams:
    """kind : "svm" (hinge loss, one-vs-one) or "ridge" (squared loss, one-vs-rest).

    C : weight of the loss against the norm, for a kernel of unit mean diagonal; "ridge" adds the diagonal 1 / C.
    unpenalized_intercept : of "ridge", 0 for the mean of the targets, 1 for the unpenalized intercept, or a mean of
        both with this weight.
    """

    kind: GramLearner = "svm"
    C: float = 10.0
    unpenalized_intercept: float = 0.0

    def __post_init__(self) -> None:
        require(self.kind in get_args(GramLearner), f"kind={self.kind!r} is not a learner",
                why="it decides the loss", fix="choose svm or ridge")
        require(isinstance(self.C, Real) and 0 < self.C < np.inf, f"C={self.C!r}, expected a finite number > 0",
                why="it weighs the labels against smoothness", fix="use 1 to 100")


def fit_gram(K: np.ndarray, target: Target, params: LearnerParams,
             sample_weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, Coding]:
    """Return (coef (l, c), intercept (c,), coding) of the learner on the Gram matrix K (l, l) of the labeled points.

    sample_weight : (l,), > 0, or None for 1; it multiplies C, so a point of weight 2 counts as two equal points.

    Raises DataError: fewer than two classes, a class without a point, or a Gram matrix that is zero or not finite.
    """
    target.require_labels()
    if sample_weight is not None and bool((sample_weight == 1).all()):
        sample_weight = None  # so that both give the same bits
    if params.kind == "ridge":
        return *ridge(K, target.each_column(), params.C, sample_weight, params.unpenalized_intercept), target.coding
    assert isinstance(target, Classes)  # pipelines and estimators offer an SVM for classes only
    return *svm(K, target, params.C, sample_weight), OneVsOne(target.names)


def svm(K: np.ndarray, target: Classes, C: float,
        sample_weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return (coef (l, c), intercept (c,)) of a support vector machine for each pair of classes."""
    SVC = library("sklearn.svm").SVC
    scale = mean_diagonal(K, sample_weight)
    coefs, intercepts = [], []
    for rows, is_first in target.pairs():
        model = SVC(kernel="precomputed", C=C, cache_size=500, tol=1e-5)
        model.fit(K[np.ix_(rows, rows)] / scale, is_first,
                  sample_weight=None if sample_weight is None else sample_weight[rows])
        coef = np.zeros(len(K))
        coef[rows[model.support_]] = model.dual_coef_[0] / scale
        coefs.append(coef)
        intercepts.append(model.intercept_[0])
    return np.stack(coefs, axis=1), np.array(intercepts)


def ridge(K: np.ndarray, Y: np.ndarray, C: float, sample_weight: np.ndarray | None = None,
          unpenalized_intercept: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    """Return (coef (l, c), intercept (c,)) of kernel ridge regression to Y (l, c).

    `A coef scale = Y - intercept` with `A = K / scale + diag(1 / (C w))` and weights w, 1 by default. The intercept is
    the weighted mean of Y, averaged with the unpenalized `1' A^-1 Y / 1' A^-1 1` of a least-squares support vector
    machine. The latter suits a kernel of constant diagonal; where the diagonal varies by orders of magnitude it is
    biased against the class with the smaller self-similarities.
    """
    scale = mean_diagonal(K, sample_weight)
    if sample_weight is None:
        intercept, penalty = Y.mean(axis=0), np.eye(len(K)) / C
    else:
        intercept = np.average(Y, axis=0, weights=sample_weight)
        penalty = np.diag(1 / (C * sample_weight))
    try:
        factor = cho_factor(K / scale + penalty)
    except np.linalg.LinAlgError as error:
        raise DataError(explain(
            f"the Gram matrix of {len(K)} points plus 1 / C = {1 / C:g} is not positive definite",
            why="the kernel has a negative eigenvalue below -1 / C", fix="lower C, or check the kernel",
        )) from error
    if unpenalized_intercept:
        ones = cho_solve(factor, np.ones(len(K)))
        intercept = (1 - unpenalized_intercept) * intercept + unpenalized_intercept * (ones @ Y) / ones.sum()
    return cho_solve(factor, Y - intercept) / scale, intercept


def mean_diagonal(K: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Return the weighted mean of the diagonal of a Gram matrix; raise unless it is > 0 and the matrix finite."""
    require(bool(np.isfinite(K).all()), "the Gram matrix of the labeled points is not finite", error=DataError,
            why="no model can be fitted to it", fix="check features and bandwidth")
    scale = float(np.trace(K)) / len(K) if sample_weight is None else float(
        np.average(np.diagonal(K), weights=sample_weight))
    require_scale(scale)
    return scale


def require_scale(scale: float) -> None:
    """Raise ParameterError unless the mean diagonal of a Gram matrix is > 0."""
    require(scale > 0, f"the Gram matrix of the labeled points has mean diagonal {scale:g}",
            why="the kernel is 0 at all labeled points and cannot tell them apart",
            fix="lower eta, or use a kernel such as rbf that is positive at every point")

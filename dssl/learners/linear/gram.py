"""Support vector machine and kernel ridge regression on the Gram matrix of the labeled points.

Both divide the matrix by its mean diagonal, so that C does not depend on the scale of the kernel: a deformed kernel
shrinks as the weight of the graph grows.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from numbers import Real
from typing import get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular

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
    factor = _factored(K / scale, C, sample_weight)
    coef, intercept = _solved(partial(cho_solve, (factor, False)), Y, sample_weight, unpenalized_intercept)
    return coef / scale, intercept


def ridge_with_held_out(K: np.ndarray, Y: np.ndarray, fold: np.ndarray, C: float,
                        sample_weight: np.ndarray | None = None,
                        unpenalized_intercept: float = 0.0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return `ridge`, and the values (h, c) at the points `fold` (h,) of a fit without them, from one factor.

    With the fold last, `A = U'U` begins with the factor of the other points: a solve without the fold sets its entries
    to 0 between the two triangles. The penalty stays that of all points. Cost: `l^3 / 3` flops and two matrices (l, l).
    """
    scale = mean_diagonal(K, sample_weight)
    train = np.setdiff1d(np.arange(len(K)), fold)
    order, n_train = np.concatenate([train, fold]), len(train)
    weight = None if sample_weight is None else sample_weight[order]
    A = K[np.ix_(order, order)]
    A /= scale
    across = A[n_train:, :n_train].copy()
    factor = _factored(A, C, weight)

    def without_fold(right: np.ndarray) -> np.ndarray:
        half = solve_triangular(factor, np.concatenate([right, np.zeros((len(fold), *right.shape[1:]))]), trans="T",
                                check_finite=False)
        half[n_train:] = 0
        return solve_triangular(factor, half, check_finite=False)[:n_train]

    ordered, intercept = _solved(partial(cho_solve, (factor, False)), Y[order], weight, unpenalized_intercept)
    coef = np.empty_like(ordered)
    coef[order] = ordered / scale
    of_train, intercept_of_train = _solved(without_fold, Y[train], None if weight is None else weight[:n_train],
                                           unpenalized_intercept)
    return coef, intercept, across @ of_train + intercept_of_train


def _factored(A: np.ndarray, C: float, sample_weight: np.ndarray | None) -> np.ndarray:
    """Return the upper Cholesky factor of a symmetric A (l, l), which is overwritten, plus `diag(1 / (C w))`."""
    A[np.diag_indices_from(A)] += 1 / C if sample_weight is None else 1 / (C * sample_weight)
    try:
        factor: np.ndarray = cho_factor(A.T, overwrite_a=True)[0]  # A' = A is in the order of LAPACK
    except np.linalg.LinAlgError as error:
        raise DataError(explain(
            f"the Gram matrix of {len(A)} points plus 1 / C = {1 / C:g} is not positive definite",
            why="the kernel has a negative eigenvalue below -1 / C", fix="lower C, or check the kernel",
        )) from error
    return factor


def _solved(solve: Callable[[np.ndarray], np.ndarray], Y: np.ndarray, sample_weight: np.ndarray | None,
            unpenalized_intercept: float) -> tuple[np.ndarray, np.ndarray]:
    """Return (A^-1 (Y - intercept), intercept) for a solver with A."""
    intercept = Y.mean(axis=0) if sample_weight is None else np.average(Y, axis=0, weights=sample_weight)
    if unpenalized_intercept:
        ones = solve(np.ones(len(Y)))
        intercept = (1 - unpenalized_intercept) * intercept + unpenalized_intercept * (ones @ Y) / ones.sum()
    return solve(Y - intercept), intercept


def mean_diagonal(K: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Return the weighted mean of the diagonal of a Gram matrix; raise unless it is > 0 and the matrix finite."""
    require(bool(np.isfinite(K).all()), "the Gram matrix of the labeled points is not finite", error=DataError,
            why="no model can be fitted to it", fix="check features and bandwidth")
    return scale_of_diagonal(np.diagonal(K), sample_weight)


def scale_of_diagonal(diagonal: np.ndarray, sample_weight: np.ndarray | None = None) -> float:
    """Return the weighted mean of the diagonal (l,) of a Gram matrix; raise unless it is > 0."""
    scale = float(diagonal.sum()) / len(diagonal) if sample_weight is None else float(
        np.average(diagonal, weights=sample_weight))
    require_scale(scale)
    return scale


def require_scale(scale: float) -> None:
    """Raise ParameterError unless the mean diagonal of a Gram matrix is > 0."""
    require(scale > 0, f"the Gram matrix of the labeled points has mean diagonal {scale:g}",
            why="the kernel is 0 at all labeled points and cannot tell them apart",
            fix="lower eta, or use a kernel such as rbf that is positive at every point")

"""Learners on the Gram matrix of the labeled points, and exact cross-validation of ridge regression without refits.

A support vector machine and kernel ridge regression divide the matrix by its mean diagonal, so that C does not depend
on the scale of the kernel: a deformed kernel shrinks as the weight of the graph grows.

With weights W of m labeled points, in coordinates z = W^1/2 (y - mean), kernels S = W^1/2 N W^1/2 and features
X = W^1/2 Phi, the held-out residual of a fold F is

    [((S + lambda I)^-1)_FF]^-1 ((S + lambda I)^-1 z)_F                          "dual", from N (m, m)
    (I - H_FF)^-1 (z - H z)_F,    H = X (X'X + lambda I)^-1 X'                   "primal", from Phi (m, r)

Both need the blocks Q_F Q_F' of one root, Q Q' = (S + lambda I)^-1 or H. Each fold has its own mean of the training
labels; residuals are linear in the columns, so those of a column of ones give the effect of any mean. Folds of equal
lambda share a Cholesky factor; for many lambdas one eigendecomposition serves all.

References
----------
Allen, "The relationship between variable selection and data augmentation and a method for prediction", Technometrics
1974, for one point; Pahikkala, Boberg, Salakoski, "Fast n-fold cross-validation for regularized least-squares", SCAI
2006.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from numbers import Real
from typing import get_args

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular
from scipy.linalg.lapack import dpotri, dtrtri

from ...base.errors import DataError, explain, require
from ...base.profiler import library
from ..losses import GramLearner
from ..target.coding import Coding, OneVsOne
from ..target.target import Classes, Target

EIGEN_FLOPS, INVERSE_FLOPS = 6.5, 2 / 3  # times k^3: an eigendecomposition, a Cholesky factor with its inverse
MIN_PIVOT = 1e-6  # of I - H_FF: below, cancellation has lost so many digits that the fold is refitted


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


def ridge_inverse(N: np.ndarray, C: float, sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return the inverse (l, l) of a symmetric N (l, l), which is overwritten, plus `diag(1 / (C w))`; `l^3` flops.

    Of a ridge regression it gives the coefficients, and the values of labels that are held out.
    """
    upper = np.triu(dpotri(_factored(N, C, sample_weight))[0])
    return upper + np.triu(upper, 1).T


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


def training_means(values: np.ndarray, folds: Sequence[np.ndarray], weight: np.ndarray | None = None) -> np.ndarray:
    """Return the weighted means (F, c) of values (m, c) outside each fold, by sums without cancellation."""
    weight = np.ones(len(values)) if weight is None else weight
    number = np.full(len(values), len(folds))
    number[np.concatenate(folds)] = np.repeat(np.arange(len(folds)), [len(fold) for fold in folds])
    sums = np.zeros((len(folds) + 1, values.shape[1] + 1))
    np.add.at(sums, number, weight[:, None] * np.column_stack([values, np.ones(len(values))]))
    before, after = np.cumsum(sums, axis=0), np.cumsum(sums[::-1], axis=0)[::-1]
    training = after[1:]
    training[1:] += before[:-2]
    return training[:, :-1] / training[:, -1:]


def held_out_ridge(N: np.ndarray, Y: np.ndarray, folds: Sequence[np.ndarray], penalty: np.ndarray,
                   weight: np.ndarray | None = None, centered: bool = True) -> np.ndarray:
    """Return the held-out values (..., m, c) of labeled points by ridge regression, NaN outside the folds.

    `f = sum over training points of N_ij beta_j + mean` solves (N + lambda W^-1) beta = y - mean on these points.

    N : (m, m), symmetric, positive semi-definite. Y : (m, c). folds : F disjoint lists of positions.
    penalty : (..., F), lambda > 0 of each fold, for a grid of any shape. weight : (m,) > 0, or 1. centered : False for
    mean 0.

    Cost: `2 m^3 / 3` flops a distinct lambda, or `6.5 m^3` for all; and `2 m^2` times the mean size of a fold each.
    Raises DataError: N + lambda W^-1 is not positive definite, or values are not finite.
    """
    root = np.ones(len(Y)) if weight is None else np.sqrt(weight)
    return _held_out(root[:, None] * N * root, None, root, Y, folds, penalty, centered)


def held_out_ridge_of_features(Phi: np.ndarray, Y: np.ndarray, folds: Sequence[np.ndarray], penalty: np.ndarray,
                               weight: np.ndarray | None = None, centered: bool = True) -> np.ndarray:
    """Return `held_out_ridge` for N = Phi Phi' of features (m, r), without an m x m matrix where m > r.

    A fold of more than r points, or one that alone determines a direction (`MIN_PIVOT`), is refitted. Cost for m > r:
    `m r^2` flops; `r^3 / 3 + m r^2` a distinct lambda, or `6.5 r^3 + 2 m r^2` for all; `2 m r` times the mean size of
    a fold each; and `r^3 / 3` a refit.
    """
    if len(Phi) <= Phi.shape[1]:
        return held_out_ridge(Phi @ Phi.T, Y, folds, penalty, weight, centered)
    root = np.ones(len(Y)) if weight is None else np.sqrt(weight)
    X = root[:, None] * Phi
    return _held_out(X.T @ X, X, root, Y, folds, penalty, centered)


def held_out_of_gram(K: np.ndarray, target: Target, folds: Sequence[np.ndarray], Cs: Sequence[float],
                     weight: np.ndarray | None = None) -> np.ndarray:
    """Return the held-out values (p, m, c) of `fit_gram`, kind "ridge", for each C.

    K : (m, m), the Gram matrix of the labeled points; it is scaled by the mean diagonal of the training points. Raises
    DataError: as `fit_gram` on training points.
    """
    scale = mean_diagonal(K, weight)
    for fold in folds:
        target.take(np.setdiff1d(np.arange(len(K)), fold)).require_labels()
    scales = training_means(np.diagonal(K)[:, None], folds, weight)[:, 0]
    for gram_scale in scales:
        require_scale(gram_scale)
    return held_out_ridge(K / scale, target.each_column(), folds, scales / scale / np.asarray(Cs)[:, None], weight)


def ridge_flops(k: int, m: int, n_folds: int, n_lambdas: int) -> float:
    """Return the flops of `held_out_ridge_of_features` with k = min(m, r) and distinct lambdas, without X'X."""
    rows = 0.0 if k == m else m * k * k
    factors = min(n_lambdas * (INVERSE_FLOPS * k**3 + rows), EIGEN_FLOPS * k**3 + 2 * rows)
    size = m / n_folds
    of_folds = m * k * k + n_folds * k**3 / 3 if size > k else 2.0 * m * k * size + m * size**2
    return factors + of_folds


@dataclass(frozen=True, eq=False)
class _Roots:
    """Roots Q (m, k) of `(A + lambda I)^-1`, or of `X (A + lambda I)^-1 X'`, for one A (k, k) and any lambda.

    X : (m, k) of the primal form, or None. Z : (m, t), the columns. n_lambdas : the number of distinct lambdas.
    """

    A: np.ndarray
    X: np.ndarray | None
    Z: np.ndarray
    n_lambdas: int

    @cached_property
    def moments(self) -> np.ndarray:
        return self.Z if self.X is None else self.X.T @ self.Z

    @cached_property
    def eigen(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the eigenvalues (k,) of A, X times its eigenvectors (m, k), and the columns in these (k, t)."""
        values, vectors = np.linalg.eigh(self.A)
        return values, vectors if self.X is None else self.X @ vectors, vectors.T @ self.moments

    @property
    def by_eigen(self) -> bool:
        rows, size = 0.0 if self.X is None else self.X.size * len(self.A), float(len(self.A)) ** 3
        return self.n_lambdas * (INVERSE_FLOPS * size + rows) > EIGEN_FLOPS * size + 2 * rows

    def of(self, penalty: float, positions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the rows `positions` of Q, (h, k), and Q'Z (k, t)."""
        if not self.by_eigen:
            try:
                L = cholesky(self.A + penalty * np.eye(len(self.A)), lower=True, check_finite=False)
            except np.linalg.LinAlgError:
                pass  # the penalty is below the rounding errors of A, or the kernel is negative: see the eigenvalues
            else:
                if self.X is None:
                    inverse = dtrtri(L, lower=1)[0]
                    return inverse.T[positions], inverse @ self.Z
                return (solve_triangular(L, self.X[positions].T, lower=True, check_finite=False).T,
                        solve_triangular(L, self.moments, lower=True, check_finite=False))
        values, rows, columns = self.eigen
        rounding = len(values) * np.finfo(float).eps * float(np.abs(values).max(initial=0.0))
        raised = np.where(values < -rounding, values, np.maximum(values, 0.0)) + penalty
        if not (raised > 0).all():
            raise DataError(explain(
                f"the Gram matrix of {len(self.Z)} points plus a penalty of {penalty:g} is not positive definite",
                why="the kernel has negative eigenvalues",
                fix="raise the penalty, by a larger gamma_A or a smaller C, or check the kernel"))
        scale = 1 / np.sqrt(raised)
        return rows[positions] * scale, scale[:, None] * columns

    def refitted(self, penalty: float, members: np.ndarray) -> np.ndarray:
        """Return the held-out residuals (k, t) at the points `members` by a refit of the primal problem."""
        assert self.X is not None
        X, columns = self.X[members], self.Z[members]
        A = self.A - X.T @ X + penalty * np.eye(len(self.A))
        return columns - X @ np.linalg.solve(A, self.moments - X.T @ columns)


def _held_out(A: np.ndarray, X: np.ndarray | None, root: np.ndarray, Y: np.ndarray, folds: Sequence[np.ndarray],
              penalty: np.ndarray, centered: bool) -> np.ndarray:
    """Return the held-out values (..., m, c) of the dual form, or of the primal form with X; root : W^1/2 (m,)."""
    penalty = np.asarray(penalty, np.float64)
    points, (m, c) = penalty.reshape(-1, len(folds)), Y.shape
    # Centered first, so that the means of folds are small beside the variation of the targets.
    middle = np.average(Y, axis=0, weights=root**2) if centered else np.zeros(c)
    means = training_means(Y - middle, folds, root**2) if centered else np.zeros((len(folds), c))
    roots = _Roots(A, X, root[:, None] * np.column_stack([Y - middle, np.ones(m)]), len(np.unique(points)))
    lengths = np.array([len(fold) for fold in folds])
    held_out = np.full((len(points), m, c), np.nan)
    for value in np.unique(points):
        point, number = np.nonzero(points == value)
        some = np.unique(number)
        by_size = some[np.argsort(lengths[some], kind="stable")]
        sizes = lengths[by_size]
        positions = np.concatenate([folds[index] for index in by_size])
        batches = _residuals(roots, value, sizes, positions)
        residuals = np.concatenate([batch.reshape(-1, c + 1) for batch in batches]) / root[positions, None]
        fold_of = np.repeat(by_size, sizes)
        values = Y[positions] - (residuals[:, :-1] - means[fold_of] * residuals[:, -1:])
        require(bool(np.isfinite(values).all()), f"held-out values with a penalty of {value:g} are not finite",
                error=DataError, why="kernel, targets or penalties are too large or too small for floats",
                fix="scale targets, weights and penalties to about 1")
        for index in np.unique(point):
            of_point = np.zeros(len(folds), bool)
            of_point[number[point == index]] = True
            mask = of_point[fold_of]
            held_out[index, positions[mask]] = values[mask]
    return held_out.reshape(*penalty.shape[:-1], m, c)


def _residuals(roots: _Roots, penalty: float, sizes: np.ndarray, positions: np.ndarray) -> Iterator[np.ndarray]:
    """Yield the residuals (n, k, t), in scaled coordinates, of n folds of equal size k at a time.

    sizes : of the folds, ascending. positions : their points, concatenated.
    """
    Q, QZ = roots.of(penalty, positions)
    start = 0
    for size, n in zip(*np.unique(sizes, return_counts=True), strict=True):
        members = positions[start:start + n * size].reshape(n, size)
        q = Q[start:start + n * size].reshape(n, size, Q.shape[1])
        start += n * size
        if roots.X is None:
            yield np.linalg.solve(q @ q.transpose(0, 2, 1), q @ QZ)
            continue
        residuals, refit = roots.Z[members] - q @ QZ, np.ones(n, bool)
        if size <= Q.shape[1]:
            blocks = np.eye(size) - q @ q.transpose(0, 2, 1)
            refit = _smallest_pivots(blocks) < MIN_PIVOT
            residuals[~refit] = np.linalg.solve(blocks[~refit], residuals[~refit])
        for index in np.flatnonzero(refit):
            residuals[index] = roots.refitted(penalty, members[index])
        yield residuals


def _smallest_pivots(blocks: np.ndarray) -> np.ndarray:
    """Return the smallest Cholesky pivot (n,) of each block (n, k, k); 0 for all where one has no factor."""
    try:
        factors = np.linalg.cholesky(blocks)
    except np.linalg.LinAlgError:
        return np.zeros(len(blocks))
    return np.diagonal(factors, axis1=1, axis2=2).min(axis=1, initial=1.0) ** 2

"""Approximate held-out values from one fit, by the Bouligand influence function (BIF).

For fixed graph, kernel and penalties, manifold regularization depends on the points only through the Gram matrix N
(m, m) of the labeled ones in the data-dependent kernel, `N = S' (gamma_A K^-1 + gamma_I E / n^2)^-1 S`, S the labeled
rows. With weights p = w / (sum of w) of the labels it minimizes

    sum of p_i loss(y_i, f_i) + beta' N beta,    f = N beta + b,    so that    2 (f - b) + N (p l') = 0,   1'(p l') = 0

with the derivatives l' of the loss; the last equation is that of the intercept b, if any. Without the fold F of weight
w_F, the weights are those of the mixture `(1 - eps) P + eps P_F`, eps = -w_F / (w - w_F), and f becomes `f + eps
BIF(P_F)` to first order. With `r = eps (p_F - p) l'`, which is -p l' in the fold and proportional to p l' outside, and
`D = diag(p l'')`, that step s solves

    H s = 2 t 1 - N r,    H = N D + 2 I,    1'(D s + r) = 0                                   t the step of b

Held-out points stay in the graph, unlabeled. The error of the BIF is quadratic in the change. One Newton step on the
fold's problem from there is exact for the squared loss and much more accurate for others. The BIF alone is too
optimistic about small penalties, most of all for losses with a narrow corner (`tests/benchmarks/influence.py`).

References
----------
Liu et al., "Efficient cross-validation for semi-supervised learning", equation (4) and Theorem 1, with `K F` for its
`J K F`, which loses the rows of unlabeled points.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...base.errors import DataError, explain, require
from ...storage.blocks import row_ranges
from ..linear.newton import LabelGram, Minimum, minimize
from ..losses import SmoothLoss

COLUMN_BYTES = 16 << 20  # of the values of folds that are refined together


def influence_of_labels(N: np.ndarray, y: np.ndarray, weight: np.ndarray, loss: SmoothLoss, values: np.ndarray,
                        folds: Sequence[np.ndarray], *, intercept: bool, refine: int = 0) -> np.ndarray:
    """Return the approximate held-out values (m, c) of the labels, NaN where a label is never held out.

    N (m, m) : Gram matrix of the labeled points in the data-dependent kernel, penalties included. y (m, c) : targets,
    a problem for each column. weight (m,) : >= 0, up to a factor. values (m, c) : the minimizer f of each problem with
    all labels. folds : positions to hold out; values of points in several folds are averaged. intercept : whether
    there is an unpenalized b; where no label has curvature, f + eps BIF keeps it. refine : Newton steps (`newton.py`)
    on the problem of each fold, from the better of f and f + eps BIF.

    Cost: m^3 / 3 flops for all folds and columns of equal curvature, 4 m^2 a fold, and m^3 / 3 a fold and step of
    `refine`; only labels with curvature count in a cube. 2 m (m + t) floats. Raises ParameterError: a fold holds out
    all weight. DataError: N has a negative eigenvalue beyond rounding.
    """
    held_out = distinct_folds(folds, weight)
    p = weight / weight.sum()
    predicted = [np.empty((len(fold), y.shape[1])) for fold in held_out]
    system = None
    for column in range(y.shape[1]):
        problem = LabelProblem(N, y[:, column], loss, intercept)
        f = values[:, column]
        D = p * loss.curvature(f, problem.y)
        if system is None or not np.array_equal(system.D, D):
            system = CurvedLabels(N, D, 1.0)
        for array, of_fold in zip(predicted, _fold_values(problem, system, p, f, held_out, refine), strict=True):
            array[:, column] = of_fold
    return mean_of_folds(held_out, predicted, len(y))


def distinct_folds(folds: Sequence[np.ndarray], weight: np.ndarray) -> list[np.ndarray]:
    """Return the ascending positions of each fold; raise ParameterError where one leaves no weight."""
    held_out = [np.unique(np.asarray(fold, np.int64)) for fold in folds]
    for number, fold in enumerate(held_out):
        require(float(np.delete(weight, fold).sum()) > 0, f"fold {number} holds out all labels that have a weight",
                why="no label is left to train on", fix="use two folds or more, with labels outside each")
    return held_out


def mean_of_folds(folds: Sequence[np.ndarray], predicted: Sequence[np.ndarray], m: int) -> np.ndarray:
    """Return the mean (m, c) of the predictions (|fold|, c) for each point, NaN where there are none."""
    total, count = np.zeros((m, predicted[0].shape[1])), np.zeros((m, 1))
    for fold, values in zip(folds, predicted, strict=True):
        total[fold] += values
        count[fold] += 1
    return np.divide(total, count, out=np.full_like(total, np.nan), where=count > 0)


def removal_ratio(p: np.ndarray, fold: np.ndarray) -> float:
    """Return -eps = p_F / (1 - p_F), the relative increase of the other weights when the fold is held out."""
    return float(p[fold].sum() / np.delete(p, fold).sum())


class CurvedLabels:
    """The factored `T = K_L D + 2 gamma I`, with columns K_L of a kernel at labels, of curvature D, and any rows.

    With A the labels where D > 0, x solves T x = v where

        (D_A^1/2 K_AA D_A^1/2 + 2 gamma I) D_A^-1/2 a = D_A^1/2 v_A,    x = (v - K_A a) / (2 gamma),    a = D_A x_A

    since T is block lower triangular: columns without curvature are those of 2 gamma I.
    """

    def __init__(self, K_ll: np.ndarray, D: np.ndarray, gamma: float):
        self.D, self.gamma = D, gamma
        self.active = np.flatnonzero(D > 0)
        self.root = np.sqrt(D[self.active])
        M = self.root[:, None] * K_ll[np.ix_(self.active, self.active)] * self.root
        M[np.diag_indices_from(M)] += 2 * gamma
        try:
            self.factor: Any = cho_factor(M, overwrite_a=True)
        except np.linalg.LinAlgError as error:
            raise DataError(explain(
                f"the kernel of {len(K_ll)} labeled points has a negative eigenvalue",
                why="its penalty would be negative", fix="use a positive semi-definite kernel, or raise gamma_A")
            ) from error

    def solve(self, V: np.ndarray) -> np.ndarray:
        """Return a = D x at the labels with curvature, (a, t), where T x = v and v is V (l, t) at the labels."""
        return self.root[:, None] * cho_solve(self.factor, self.root[:, None] * V[self.active])


@dataclass(frozen=True, eq=False)
class LabelProblem:
    """The problem `sum of q_i loss(y_i, g_i + b) + beta' N beta`, g = N beta, of one column y (m,), for any q (m,)."""

    N: np.ndarray
    y: np.ndarray
    loss: SmoothLoss
    intercept: bool

    def bordered(self, system: CurvedLabels, V: np.ndarray, total: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return a = D s at the labels with curvature (a, t) and t (t,), of `H s = 2 t 1 + V` and `1'D s = -total`."""
        a, shift = system.solve(V), np.zeros(V.shape[1])
        if self.intercept and len(system.active):
            of_one = system.solve(np.full((len(V), 1), 2.0))
            shift = -(total + a.sum(axis=0)) / of_one.sum()
            a = a + of_one * shift
        return a, shift


def _fold_values(problem: LabelProblem, system: CurvedLabels, p: np.ndarray, f: np.ndarray,
                 folds: Sequence[np.ndarray], refine: int) -> list[np.ndarray]:
    """Return the held-out values of each fold."""
    N, active = problem.N, system.active
    mu = p * problem.loss.gradient(f, problem.y)
    N_mu, kappa = N @ mu, np.array([removal_ratio(p, fold) for fold in folds])
    # r = kappa mu - (1 + kappa) mu_F, so that N r needs no product with all of N for each fold.
    V = np.stack([(1 + k) * (N[:, fold] @ mu[fold]) - k * N_mu for k, fold in zip(kappa, folds, strict=True)], axis=1)
    totals = np.array([k * mu.sum() - (1 + k) * mu[fold].sum() for k, fold in zip(kappa, folds, strict=True)])
    a, shift = problem.bordered(system, V, totals)
    if not refine:
        return [f[fold] + shift[j] + (V[fold, j] - N[np.ix_(fold, active)] @ a[:, j]) / 2
                for j, fold in enumerate(folds)]
    b = float((f + N_mu / 2).mean()) if problem.intercept else 0.0
    whole = Minimum(-mu / 2, np.array(b), b - N_mu / 2, np.array(0))  # exact, whatever the accuracy of f
    steps, held_out = (V - N[:, active] @ a) / 2, list[np.ndarray]()
    for start, stop in row_ranges(len(folds), max(1, COLUMN_BYTES // (8 * len(p)))):
        block, some = slice(start, stop), folds[start:stop]
        change, weights = kappa[block] * mu[:, None], (1 + kappa[block]) * p[:, None]
        for j, fold in enumerate(some):
            change[fold, j], weights[fold, j] = -mu[fold], 0
        change[active] += a[:, block]
        influenced = Minimum(whole.coef[:, None] - change / 2, b + shift[block],
                             whole.values[:, None] + steps[:, block] + shift[block], np.zeros(len(some), np.int64))
        begin = _better(problem, weights, influenced, whole)
        minimum = minimize(LabelGram(N), problem.loss, np.broadcast_to(problem.y[:, None], weights.shape), weights,
                           fit_intercept=problem.intercept, start=begin, max_steps=refine, required=False)
        held_out += [minimum.values[fold, j] for j, fold in enumerate(some)]
    return held_out


def _better(problem: LabelProblem, q: np.ndarray, these: Minimum, other: Minimum) -> Minimum:
    """Return for each column with weights q (m, t) the function of lower objective, of `these` and one `other`."""
    def objective(at: Minimum) -> np.ndarray:
        f, c, y = (array.reshape(len(q), -1) for array in (at.values, at.coef, problem.y))
        return (q * problem.loss.value(f, y)).sum(axis=0) + (c * (f - at.intercept)).sum(axis=0)

    lower = objective(these) < objective(other)
    return Minimum(np.where(lower, these.coef, other.coef[:, None]), np.where(lower, these.intercept, other.intercept),
                   np.where(lower, these.values, other.values[:, None]), these.steps)

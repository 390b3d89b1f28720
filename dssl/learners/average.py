"""Ridge regression in many kernels, and what each counts for in their average, by exact leave-one-out residuals.

A kernel K, divided by its mean diagonal on the labeled points, has the function `F = K (K_LL + penalty I)^-1 (Y -
mean Y)`. Classes: each F is centered, divided by its standard deviation over a sample of all points, and the weighted
sum of all is what predicts. Quantities: the weighted mean of `F + mean Y`.

Shares are in proportion to `exp(-sum |e|^2 / (2 s^2))`, of the leave-one-out residuals e, with s = 1 for classes coded
0 and 1, and of quantities the root mean squared residual of the best. So with one label a class all kernels count
alike, and with many the best few decide: on 16 unlike sets as good as the plain average at few labels, and as the best
single kernel at many, where choosing one kernel was 20 points worse at one label a class. The automatic choice of
classes takes other shares, by probabilities (`mixture.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .held_out.closed_form import held_out_ridge, kept_means
from .linear.gram import mean_diagonal, ridge
from .target.target import Target

MOST_NESTED = 500  # quantities up to which each is left out of the residuals of all others; more are not changed by one
GROUPS = 5  # of labels of classes, each of which has no part in what its kernels count for


@dataclass(frozen=True, eq=False)
class Member:
    """The function of a kernel: coefficients (l, c), what its values are centered at (c,) and divided by.

    held_out (l, c) : the values of labeled points without their own labels, with the mean of the others, in units of Y.
    standardized (l, c) : the same without that mean, centered and divided, as the values of other points are.
    losses (l,) : of quantities, for each label the sum of the squared leave-one-out residuals of the others, by
    functions that know neither; see `losses_without_each`.
    without_groups (g, l, c) : of classes where they are asked for, the standardized values of labels by functions that
    know neither them nor any label of a group (`label_groups`), NaN of the group's own.
    """

    coef: np.ndarray
    center: np.ndarray
    scale: float
    held_out: np.ndarray
    standardized: np.ndarray
    losses: np.ndarray | None = None
    without_groups: np.ndarray | None = None


def member_of(K: np.ndarray, sampled: np.ndarray, target: Target, weight: np.ndarray | None, penalty: float, *,
              grouped: bool = False, most_nested: int = MOST_NESTED) -> Member:
    """Return the function of one kernel from its rows at the labeled points (l, l), and at sampled ones (s, l).

    penalty : of a kernel of unit mean diagonal; inf is the kernel mean. grouped : whether of classes the values without
    each group of labels are found, for which a penalty is finite.
    """
    K, Y = semidefinite((K + K.T) / 2, penalty), target.indicators()
    folds, scale = list(np.arange(len(K))[:, None]), mean_diagonal(K, weight)
    w, kept = np.ones(len(K)) if weight is None else weight, kept_means(Y, folds, weight)
    if np.isinf(penalty):
        mean = np.average(Y, axis=0, weights=w)
        coef = w[:, None] * (Y - mean) / scale
        # The sum over the other points of K_ij w_j (Y_j - their mean).
        diagonal = np.diagonal(K) * w
        held_out = kept + (K @ (w[:, None] * Y) - diagonal[:, None] * Y - (K @ w - diagonal)[:, None] * kept) / scale
    else:
        coef, mean = ridge(K, Y, 1 / penalty, weight)
        held_out = held_out_ridge(K / scale, Y, folds, np.full(len(K), penalty), weight)
    if target.n_strata == 1:
        nested = np.isfinite(penalty) and 2 < len(K) <= most_nested
        losses = losses_without_each(K / scale, Y, penalty, w) if nested else losses_of_others(held_out - Y, w)
        return Member(coef, -mean, 1.0, held_out, held_out, losses)
    F = sampled @ coef
    center = F.mean(axis=0)
    spread = spread_of(F - center, sampled, coef)
    without_groups = (deviations_without_groups(K / scale, Y, penalty, w) - center) / spread if grouped else None
    return Member(coef, center, spread, held_out, (held_out - kept - center) / spread, without_groups=without_groups)


def spread_of(centered: np.ndarray, sampled: np.ndarray, coef: np.ndarray) -> float:
    """Return the standard deviation of the values of a function at sampled points, less their mean (s, c).

    1 where it is what rounding leaves of a constant: `eps |sampled| |coef|`, from rows (s, l) and coefficients (l, c).
    """
    spread = float(centered.std())
    rounding = np.finfo(float).eps * float(np.abs(sampled).max(initial=0.0) * np.abs(coef).sum(axis=0).max())
    return spread if spread > rounding else 1.0


def losses_of_others(residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return for each label (l,) the weighted sum of the squared residuals (l, c) of all others."""
    losses = weight / weight.mean() * (residuals**2).sum(axis=1)
    return losses.sum() - losses


def losses_without_each(K: np.ndarray, Y: np.ndarray, penalty: float, weight: np.ndarray) -> np.ndarray:
    """Return for each label i (l,) the sum over others j of |e_ji|^2, the residual at j of a fit without i and j.

    By these a kernel is weighed that predicts label i, which so has no part in it. With r = weight^1/2, `M = (r K r +
    penalty I)^-1` and the mean m_i of all labels but i, a fit without i has

        B = M - M_:i M_i: / M_ii,    z = r (Y - m_i),    e_ji = ((B z)_j - d_j (B r)_j) / (B_jj r_j)

    d_j : by how much the mean changes without j as well. Cost: 2 l^3 flops, and 10 l^2 c.
    """
    root, itself = np.sqrt(weight), np.eye(len(K), dtype=bool)
    M = np.linalg.inv(root[:, None] * K * root + penalty * np.eye(len(K)))
    means, M_root = kept_means(Y, list(np.arange(len(K))[:, None]), weight), M @ root
    ratio = M / np.diagonal(M)
    B = np.where(itself, 1.0, np.diagonal(M)[:, None] - M * ratio) * root[:, None]
    of_root = (M_root[:, None] - ratio * M_root) / B
    rest = weight.sum() - weight[:, None] - weight
    change = np.where(rest > 0, weight[:, None] / np.where(rest > 0, rest, 1.0), 0.0) * of_root
    losses = np.zeros(len(K))
    for y, mean in zip(Y.T, means.T, strict=True):
        A = (M @ (root * y))[:, None] - mean * M_root[:, None] - M * (root * (y - mean))
        residuals = (A - ratio * np.diagonal(A)) / B - change * (mean - y[:, None])
        losses += weight / weight.mean() @ np.where(itself, 0.0, residuals) ** 2
    return losses


def label_groups(n_labels: int) -> list[np.ndarray]:
    """Return at most `GROUPS` groups of labels, by their places, each predicted by shares that the others give."""
    return [np.arange(first, n_labels, GROUPS) for first in range(min(GROUPS, n_labels))]


def deviations_without_groups(K: np.ndarray, Y: np.ndarray, penalty: float, weight: np.ndarray) -> np.ndarray:
    """Return for each group of labels (g, l, c) the values of the others by fits without both, less the mean label.

    NaN of the group's own. With r = weight^1/2, `M = (r K r + penalty I)^-1`, and the mean m of the labels that are not
    in the group G, a fit without G has

        B = M - M_:G M_GG^-1 M_G:,    z = r (Y - m),    residual at j without j as well: (B z)_j / (B_jj r_j)

    and the mean without j as well adds a multiple of the same of `r` in place of z. Cost: 2 l^3 flops, and 2 l^2 c a
    group.
    """
    root, groups = np.sqrt(weight), label_groups(len(K))
    M = np.linalg.inv(root[:, None] * K * root + penalty * np.eye(len(K)))
    values = np.full((len(groups), *Y.shape), np.nan)
    for group, values_of_group in zip(groups, values, strict=True):
        kept = np.setdiff1d(np.arange(len(K)), group)
        if len(kept) < 2:
            continue
        mean = np.average(Y[kept], axis=0, weights=weight[kept])
        means = kept_means(Y[kept], list(np.arange(len(kept))[:, None]), weight[kept])
        Z = np.zeros((len(K), Y.shape[1] + 1))
        Z[kept] = root[kept, None] * np.column_stack([Y[kept] - mean, np.ones(len(kept))])
        MZ, across = M @ Z, M[np.ix_(kept, group)]
        gain = np.linalg.solve(M[np.ix_(group, group)], across.T)
        solved = MZ[kept] - gain.T @ MZ[group]
        diagonal = np.diagonal(M)[kept] - (across * gain.T).sum(axis=1)
        residuals = solved / (diagonal * root[kept])[:, None]
        values_of_group[kept] = Y[kept] - means - residuals[:, :-1] + (means - mean) * residuals[:, -1:]
    return values


def without(K: np.ndarray, sampled: np.ndarray, penalty: float, target: Target, weight: np.ndarray | None,
            kept: np.ndarray, held: np.ndarray) -> tuple[np.ndarray, Member]:
    """Return the standardized values (q, c) of held labels by the function of one kernel of the kept ones; and it."""
    own_weight = None if weight is None else weight[kept]
    member = member_of(K[np.ix_(kept, kept)], sampled[:, kept], target.take(kept), own_weight, penalty, grouped=True)
    return (K[np.ix_(held, kept)] @ member.coef - member.center) / member.scale, member


def semidefinite(K: np.ndarray, penalty: float) -> np.ndarray:
    """Return K, whose columns were computed to a tolerance, without eigenvalues below 0 if the penalty is no larger."""
    added = min(penalty, 1.0) * float(np.trace(K)) / len(K)
    try:
        np.linalg.cholesky(K + 0.5 * added * np.eye(len(K)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(K)
        return (vectors * np.maximum(values, 0)) @ vectors.T
    return K


def shares_of(held_out: Sequence[np.ndarray], target: Target, weight: np.ndarray | None,
              prior: np.ndarray | None = None) -> np.ndarray:
    """Return the shares (m,) in an average of functions from their held-out values (l, c); they sum to 1.

    prior (m,) : what each counts for without any residual; 1 by default.
    """
    Y = target.indicators()
    w = np.ones(len(Y)) if weight is None else weight / weight.mean()
    losses = np.array([float((w * ((values - Y) ** 2).sum(axis=1)).sum()) for values in held_out])
    return shares_of_losses(losses, target,
                            len(Y), prior)


def shares_without_each(members: Sequence[Member], target: Target, prior: np.ndarray | None = None) -> np.ndarray:
    """Return the shares (m, l) of functions by which each quantity is predicted: those that the other labels give."""
    return shares_of_losses(np.array([member.losses for member in members]), target, len(target.labeled) - 1, prior)


def held_out_average(members: Sequence[Member], shares: np.ndarray) -> np.ndarray:
    """Return the values (l, c) of labeled points by the average of functions with shares (m, l) of their own."""
    return np.einsum("ml,mlc->lc", shares, np.array([member.standardized for member in members]))


def shares_of_losses(losses: np.ndarray, target: Target, n_labels: int,
                     prior: np.ndarray | None = None) -> np.ndarray:
    """Return the same from the sums of squared residuals (m,) of so many labels, or of each column of sums (m, l)."""
    least = losses.min(axis=0)
    unit = 1.0 if target.n_strata > 1 else np.maximum(least / n_labels, np.finfo(float).tiny)
    shares = np.exp(-(losses - least) / (2 * unit))
    if prior is not None:
        shares *= prior.reshape(-1, *[1] * (losses.ndim - 1))
    return shares / shares.sum(axis=0)

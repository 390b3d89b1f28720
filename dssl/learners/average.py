"""Ridge regression in several kernels, averaged with weights ("shares") from exact leave-one-out residuals.

The function of a kernel K of unit mean diagonal on the labeled points is `F = K (K_LL + penalty I)^-1 (Y - mean Y)`.
Of classes, each F is centered and divided by its standard deviation over a sample of all points, and the weighted sum
predicts. Of quantities, the weighted mean of `F + mean Y` predicts.

The shares are proportional to `exp(-sum |e|^2 / (2 s^2))` with the leave-one-out residuals e; s = 1 for classes coded
0 and 1, and the root mean squared residual of the best kernel for quantities. With one label a class all kernels get
nearly equal shares; with many labels the best few get nearly all. The automatic choice of classes takes its shares from
probabilities instead (`on_graph/blend.py`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .linear.gram import mean_diagonal, ridge_inverse, training_means
from .target.target import Target

MAX_LEAVE_TWO_OUT = 500  # quantities up to which shares are nested; of more, one label hardly changes them
GROUPS = 5  # of labels of classes, for nested shares


@dataclass(frozen=True, eq=False)
class LabelColumns:
    """The labels (l,) that functions of several kernels are fitted to, and what does not depend on the kernel.

    weight (l,) : of the labels; None for equal ones.
    """

    target: Target
    weight: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.target.labeled)

    @cached_property
    def Y(self) -> np.ndarray:
        """The columns of the labels (l, c)."""
        return self.target.indicators()

    @cached_property
    def weights(self) -> np.ndarray:
        """The weights of the labels (l,)."""
        return np.ones(len(self)) if self.weight is None else self.weight

    @cached_property
    def means(self) -> np.ndarray:
        """The mean of the other labels, for each label (l, c)."""
        return training_means(self.Y, list(np.arange(len(self))[:, None]), self.weight)

    @cached_property
    def groups(self) -> list["LabelGroup"]:
        """The groups of `label_groups` outside which there are at least two labels."""
        return [LabelGroup.of(number, group, self.Y, self.weights)
                for number, group in enumerate(label_groups(len(self))) if len(self) - len(group) > 1]


@dataclass(frozen=True, eq=False)
class LabelGroup:
    """A group of labels that is held out, by the number and positions (h,) of its labels.

    train (l - h,) : the positions of all other labels. mean (c,), means (l - h, c) : their mean, and for each of them
    that of the others. Z (l, c + 1) : their columns less the mean and a column of ones; 0 at the group.
    """

    number: int
    positions: np.ndarray
    train: np.ndarray
    mean: np.ndarray
    means: np.ndarray
    Z: np.ndarray

    @classmethod
    def of(cls, number: int, positions: np.ndarray, Y: np.ndarray, weight: np.ndarray) -> "LabelGroup":
        train = np.setdiff1d(np.arange(len(Y)), positions)
        mean = np.average(Y[train], axis=0, weights=weight[train])
        Z = np.zeros((len(Y), Y.shape[1] + 1))
        Z[train] = np.column_stack([Y[train] - mean, np.ones(len(train))])
        means = training_means(Y[train], list(np.arange(len(train))[:, None]), weight[train])
        return cls(number, positions, train, mean, means, Z)


@dataclass(frozen=True, eq=False)
class Member:
    """The function of a kernel: coefficients (l, c), the center (c,) and the scale of its values.

    held_out (l, c) : leave-one-out values of the labeled points, plus the mean of the other labels, in units of Y.
    standardized (l, c) : the same without that mean, centered and scaled.
    losses (l,) : of quantities, the nested loss that leaves each label out, see `leave_two_out_losses`.
    group_held_out (g, l, c) : of classes, see `group_held_out_values`, standardized; None unless requested.
    """

    coef: np.ndarray
    center: np.ndarray
    scale: float
    held_out: np.ndarray
    standardized: np.ndarray
    losses: np.ndarray | None = None
    group_held_out: np.ndarray | None = None


def fit_member(K: np.ndarray, sampled: np.ndarray, labels: LabelColumns, penalty: float, *, grouped: bool = False,
               max_leave_two_out: int = MAX_LEAVE_TWO_OUT) -> Member:
    """Return the function of one kernel, given at the labeled points (l, l) and at sampled ones (s, l).

    penalty : for a kernel of unit mean diagonal; inf is the kernel mean. grouped : whether to compute
    `Member.group_held_out` of classes, which needs a finite penalty.
    """
    K, Y, w, means = semidefinite((K + K.T) / 2, penalty), labels.Y, labels.weights, labels.means
    scale = mean_diagonal(K, labels.weight)
    if np.isinf(penalty):
        mean = np.average(Y, axis=0, weights=w)
        coef = w[:, None] * (Y - mean) / scale
        # The sum over the other points of K_ij w_j (Y_j - their mean).
        diagonal = np.diagonal(K) * w
        held_out = means + (K @ (w[:, None] * Y) - diagonal[:, None] * Y - (K @ w - diagonal)[:, None] * means) / scale
    else:
        S = ridge_inverse(K / scale, 1 / penalty, labels.weight)
        mean = np.average(Y, axis=0, weights=w)
        of_labels, of_ones = S @ (Y - mean), S.sum(axis=1, keepdims=True)
        coef = of_labels / scale
        held_out = Y - (of_labels - (means - mean) * of_ones) / np.diagonal(S)[:, None]
    if labels.target.n_strata == 1:
        nested = np.isfinite(penalty) and 2 < len(K) <= max_leave_two_out
        losses = leave_two_out_losses(S, labels) if nested else other_losses(held_out - Y, w)
        return Member(coef, -mean, 1.0, held_out, held_out, losses)
    F = sampled @ coef
    center = F.mean(axis=0)
    deviation = standard_deviation(F - center, sampled, coef)
    by_group = (group_held_out_values(S, labels) - center) / deviation if grouped else None
    return Member(coef, center, deviation, held_out, (held_out - means - center) / deviation, group_held_out=by_group)


def standard_deviation(centered: np.ndarray, sampled: np.ndarray, coef: np.ndarray) -> float:
    """Return the standard deviation of centered values (s, c); 1 where it is below `eps |sampled| |coef|`.

    That is the rounding error of a constant function with kernel rows (s, l) and coefficients (l, c).
    """
    deviation = float(centered.std())
    rounding = np.finfo(float).eps * float(np.abs(sampled).max(initial=0.0) * np.abs(coef).sum(axis=0).max())
    return deviation if deviation > rounding else 1.0


def other_losses(residuals: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return for each label (l,) the weighted sum of the squared residuals (l, c) of all other labels."""
    losses = weight / weight.mean() * (residuals**2).sum(axis=1)
    return losses.sum() - losses


def leave_two_out_losses(S: np.ndarray, labels: LabelColumns) -> np.ndarray:
    """Return for each label i (l,) the sum over j != i of |e_ji|^2, the residual at j of a fit without i and j.

    S : of `ridge_inverse`. With the mean m_i of all labels but i, a fit without i has

        B = S - S_:i S_i: / S_ii,    z = Y - m_i,    e_ji = ((B z)_j - d_j (B 1)_j) / B_jj

    where d_j is the change of the mean when j is held out too. Cost: 10 l^2 c flops.
    """
    diagonal, weight, S_ones = np.eye(len(S), dtype=bool), labels.weights, S.sum(axis=1)
    ratio = S / np.diagonal(S)
    B = np.where(diagonal, 1.0, np.diagonal(S)[:, None] - S * ratio)
    of_ones = (S_ones[:, None] - ratio * S_ones) / B
    rest = weight.sum() - weight[:, None] - weight
    change = np.where(rest > 0, weight[:, None] / np.where(rest > 0, rest, 1.0), 0.0) * of_ones
    losses = np.zeros(len(S))
    for y, mean in zip(labels.Y.T, labels.means.T, strict=True):
        A = (S @ y)[:, None] - mean * S_ones[:, None] - S * (y - mean)
        residuals = (A - ratio * np.diagonal(A)) / B - change * (mean - y[:, None])
        losses += weight / weight.mean() @ np.where(diagonal, 0.0, residuals) ** 2
    return losses


def label_groups(n_labels: int) -> list[np.ndarray]:
    """Return at most `GROUPS` groups of positions of labels; each is predicted with the shares of the others."""
    return [np.arange(first, n_labels, GROUPS) for first in range(min(GROUPS, n_labels))]


def group_held_out_values(S: np.ndarray, labels: LabelColumns) -> np.ndarray:
    """Return for each group of labels (g, l, c) the values, less the mean, at each label outside it, held out as well.

    S : of `ridge_inverse`. Values at the group itself are NaN. With the mean m of the labels outside the group G, a fit
    without G has

        B = S - S_:G S_GG^-1 S_G:,    z = Y - m,    residual at j without j as well: (B z)_j / B_jj

    and the change of the mean without j adds a multiple of the same with ones for z. Cost: 2 l^2 (c + 1) flops a group,
    and 2 h^2 (l - h) for the h labels of it.
    """
    Y = labels.Y
    values = np.full((len(label_groups(len(S))), *Y.shape), np.nan)
    for group in labels.groups:
        train, SZ = group.train, S @ group.Z
        of_group = S[:, group.positions]
        across = of_group[train]
        gain = np.linalg.solve(of_group[group.positions], across.T)
        solved = SZ[train] - gain.T @ SZ[group.positions]
        residuals = solved / (np.diagonal(S)[train] - (across * gain.T).sum(axis=1))[:, None]
        values[group.number, train] = (Y[train] - group.means - residuals[:, :-1]
                                       + (group.means - group.mean) * residuals[:, -1:])
    return values


def held_out_member(K: np.ndarray, sampled: np.ndarray, penalty: float, labels: LabelColumns, train: np.ndarray,
                    test: np.ndarray) -> tuple[np.ndarray, Member]:
    """Return the standardized values (q, c) of the test labels by a fit to the training labels, and that fit.

    labels : the training labels.
    """
    member = fit_member(K[np.ix_(train, train)], sampled[:, train], labels, penalty, grouped=True)
    return (K[np.ix_(test, train)] @ member.coef - member.center) / member.scale, member


def semidefinite(K: np.ndarray, penalty: float) -> np.ndarray:
    """Return K with negative eigenvalues, which are errors of solves, set to 0 unless the penalty covers them."""
    added = min(penalty, 1.0) * float(np.trace(K)) / len(K)
    try:
        np.linalg.cholesky(K + 0.5 * added * np.eye(len(K)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(K)
        return (vectors * np.maximum(values, 0)) @ vectors.T
    return K


def shares_of(held_out: Sequence[np.ndarray], target: Target, weight: np.ndarray | None,
              prior: np.ndarray | None = None) -> np.ndarray:
    """Return the shares (m,), of sum 1, of functions in an average from their held-out values (l, c).

    prior (m,) : proportional to the shares where residuals say nothing; 1 by default.
    """
    Y = target.indicators()
    w = np.ones(len(Y)) if weight is None else weight / weight.mean()
    losses = np.array([float((w * ((values - Y) ** 2).sum(axis=1)).sum()) for values in held_out])
    return shares_of_losses(losses, target, len(Y), prior)


def leave_one_out_shares(members: Sequence[Member], target: Target, prior: np.ndarray | None = None) -> np.ndarray:
    """Return the shares (m, l) by which each quantity is predicted, from the other labels only."""
    return shares_of_losses(np.array([member.losses for member in members]), target, len(target.labeled) - 1, prior)


def held_out_average(members: Sequence[Member], shares: np.ndarray) -> np.ndarray:
    """Return the held-out values (l, c) of an average whose shares (m, l) differ from label to label."""
    return np.einsum("ml,mlc->lc", shares, np.array([member.standardized for member in members]))


def shares_of_losses(losses: np.ndarray, target: Target, n_labels: int,
                     prior: np.ndarray | None = None) -> np.ndarray:
    """Return the shares from sums of squared residuals (m,) of `n_labels` labels, or of each column of sums (m, l)."""
    lowest = losses.min(axis=0)
    unit = 1.0 if target.n_strata > 1 else np.maximum(lowest / n_labels, np.finfo(float).tiny)
    shares = np.exp(-(losses - lowest) / (2 * unit))
    if prior is not None:
        shares *= prior.reshape(-1, *[1] * (losses.ndim - 1))
    return shares / shares.sum(axis=0)

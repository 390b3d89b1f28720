"""Held-out values of averages of kernels, exactly, from one eigendecomposition of each kernel.

With weights w of the labeled points, A = w^1/2 K w^1/2, and the training points S of a fold F, whose kernel has mean
diagonal d, the function of `average.py` that is fitted to S has

    coef = w^1/2 B z,    B = (A_SS + penalty d I)^-1,    z = w^1/2 (Y - mean of S)

With M = (A + penalty d I)^-1, from the eigenvectors of A for any penalty and fold,

    B = M_SS - M_SF M_FF^-1 M_FS        residual at j of S without j as well:  (B z)_j / (B_jj w_j^1/2)

So neither a fold nor the leave-one-out residuals within it, which weigh the kernels, need a factorization of their own.
The mean of S without j changes z by a multiple of w^1/2, which adds a multiple of B w^1/2.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...base.errors import DataError, require
from ..average import LabelColumns, fit_member, semidefinite, shares_of_losses, standard_deviation
from ..target.target import Target
from .closed_form import training_means


@dataclass(frozen=True, eq=False)
class TrainingLabels:
    """The training labels of a fold.

    test (q,), train (k,) : positions. target, weight : of all labeled points. sample (s,) : the rows of a kernel's
    sampled block at which functions are centered and scaled.
    """

    test: np.ndarray
    train: np.ndarray
    target: Target
    weight: np.ndarray
    sample: np.ndarray

    @classmethod
    def of(cls, target: Target, weight: np.ndarray | None, fold: np.ndarray, sample: np.ndarray) -> "TrainingLabels":
        """Return the training labels; raise DataError where fewer than two are left, or a class has none."""
        n_labels = len(target.labeled)
        train = np.setdiff1d(np.arange(n_labels), fold)
        require(len(train) > 1, f"a fold leaves {len(train)} of {n_labels} labeled points", error=DataError,
                why="kernels are weighted by leave-one-out residuals", fix="label more points, or use fewer folds")
        target.take(train).require_labels()
        return cls(fold, train, target, np.ones(n_labels) if weight is None else weight, sample)

    @cached_property
    def columns(self) -> np.ndarray:
        return self.target.indicators()

    @cached_property
    def mean(self) -> np.ndarray:
        return np.average(self.columns[self.train], axis=0, weights=self.weight[self.train])

    @cached_property
    def leave_one_out_means(self) -> np.ndarray:
        folds = list(np.arange(len(self.train))[:, None])
        return training_means(self.columns[self.train], folds, self.weight[self.train])

    def loss(self, residuals: np.ndarray) -> float:
        """Return the weighted sum of squared leave-one-out residuals (k, c)."""
        w = self.weight[self.train]
        return float((w / w.mean() * (residuals**2).sum(axis=1)).sum())


@dataclass(frozen=True, eq=False)
class HeldOutMember:
    """The held-out values (q, c) of a fold by one kernel's function, standardized, and the loss of that function."""

    values: np.ndarray
    loss: float


class HeldOutKernel:
    """The functions of one kernel for any folds and penalties.

    K : (l, l), at the labeled points. sampled : (s, l), at others. weight : (l,), or None for 1. Cost: 10 l^3 flops
    once; a fold of q points and a penalty take 2 l^2 (q + 2 c), and s l c.
    """

    def __init__(self, K: np.ndarray, sampled: np.ndarray, weight: np.ndarray | None):
        self.K, self.sampled, self.weight = (K + K.T) / 2, sampled, weight
        self.root = np.ones(len(K)) if weight is None else np.sqrt(weight)
        self._spectra: dict[bool, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._changed: dict[float, bool] = {}  # by penalty, whether negative eigenvalues of the kernel are set to 0

    def member(self, labels: TrainingLabels, penalty: float) -> HeldOutMember:
        """Return the function of the kernel that is fitted to the training labels."""
        if np.isinf(penalty):
            return self._kernel_mean(labels)
        K, values, vectors = self._spectrum(penalty)
        S, F, r, c = labels.train, labels.test, self.root, labels.columns.shape[1]
        d = float(np.average(np.diagonal(K)[S], weights=labels.weight[S]))
        scaled = 1 / (values + penalty * d)
        Z = np.zeros((len(r), c + 1))
        Z[S] = r[S, None] * np.column_stack([labels.columns[S] - labels.mean, np.ones(len(S))])
        P = (vectors * scaled) @ vectors[F].T
        gain = np.linalg.solve(P[F], P.T)
        solved = (vectors * scaled) @ (vectors.T @ Z) - gain.T @ (P.T @ Z)
        diagonal = (vectors**2) @ scaled - (P * gain.T).sum(axis=1)
        quotients = solved[S] / (diagonal[S] * r[S])[:, None]
        residuals = quotients[:, :c] - (labels.leave_one_out_means - labels.mean) * quotients[:, c:]
        solved[F] = 0
        return self._standardized(labels, K, r[:, None] * solved[:, :c], labels.loss(residuals))

    def _kernel_mean(self, labels: TrainingLabels) -> HeldOutMember:
        """Return the limit of an infinite penalty, which needs no factorization."""
        S = labels.train
        weight = None if self.weight is None else self.weight[S]
        K = semidefinite(self.K, np.inf)
        member = fit_member(K[np.ix_(S, S)], self.sampled[:, S], LabelColumns(labels.target.take(S), weight), np.inf)
        coef = np.zeros((len(K), member.coef.shape[1]))
        coef[S] = member.coef
        return self._standardized(labels, K, coef, labels.loss(member.held_out - labels.columns[S]))

    def _standardized(self, labels: TrainingLabels, K: np.ndarray, coef: np.ndarray, loss: float) -> HeldOutMember:
        """Return the member with coefficients (l, c), which are 0 at held-out points."""
        values = K[labels.test] @ coef
        if labels.target.n_strata == 1:
            return HeldOutMember(values + labels.mean, loss)
        whole = len(labels.sample) == len(self.sampled)
        sampled = self.sampled if whole else self.sampled[labels.sample]
        F = sampled @ coef
        center = F.mean(axis=0)
        return HeldOutMember((values - center) / standard_deviation(F - center, sampled, coef), loss)

    def _spectrum(self, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return `semidefinite` K, and the eigenvalues and eigenvectors of `w^1/2 K w^1/2`."""
        if penalty not in self._changed:
            K = semidefinite(self.K, penalty)
            self._changed[penalty] = changed = K is not self.K
            if changed not in self._spectra:
                self._spectra[changed] = K, *np.linalg.eigh(self.root[:, None] * K * self.root)
        return self._spectra[self._changed[penalty]]


def averaged(members: Sequence[HeldOutMember], labels: TrainingLabels, *, equal_shares: bool) -> np.ndarray:
    """Return the held-out values (q, c) of the average of members, with equal shares or those of their losses."""
    shares = np.full(len(members), 1 / len(members)) if equal_shares else shares_of_losses(
        np.array([member.loss for member in members]), labels.target, len(labels.train))
    return np.sum([share * member.values for share, member in zip(shares, members, strict=True)], axis=0)

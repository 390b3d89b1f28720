"""What averages of kernels predict without each fold, exactly, from one eigendecomposition a kernel.

With weights w of the labeled points, A = w^1/2 K w^1/2, and the kept points S of a fold F, whose kernel has the mean
diagonal d, the function of `average.py` that is fitted to S has

    coef = w^1/2 B z,    B = (A_SS + penalty d I)^-1,    z = w^1/2 (Y - mean of S)

With M = (A + penalty d I)^-1, from the eigenvectors of A for any penalty and fold,

    B = M_SS - M_SF M_FF^-1 M_FS        residual at j of S without j as well:  (B z)_j / (B_jj w_j^1/2)

so that neither a fold nor the leave-one-out residuals within it, by which the kernels of an average count, take a
factorization of their own. The mean of S without j is a change of z by a multiple of w^1/2, so B w^1/2 tells what it
adds.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...base.errors import DataError, require
from ..average import member_of, semidefinite, shares_of_losses, spread_of
from ..target.target import Target
from .closed_form import kept_means


@dataclass(frozen=True, eq=False)
class KeptLabels:
    """The labeled points without a fold, and what a fit to them sees.

    held (q,), kept (k,) : positions. target, weight : of all labeled points. sample : of the points at which functions
    are centered and scaled, those that are used (s,), places among the rows of a kernel's sampled block.
    """

    held: np.ndarray
    kept: np.ndarray
    target: Target
    weight: np.ndarray
    sample: np.ndarray

    @classmethod
    def of(cls, target: Target, weight: np.ndarray | None, fold: np.ndarray, sample: np.ndarray) -> "KeptLabels":
        """Return them; raise DataError where fewer than two labeled points are kept, or a class has none."""
        n_labels = len(target.labeled)
        kept = np.setdiff1d(np.arange(n_labels), fold)
        require(len(kept) > 1, f"a fold leaves {len(kept)} of {n_labels} labeled points", error=DataError,
                why="kernels count by what each label says of the others", fix="label more points, or use fewer folds")
        target.take(kept).require_labels()
        return cls(fold, kept, target, np.ones(n_labels) if weight is None else weight, sample)

    @cached_property
    def columns(self) -> np.ndarray:
        """Return the columns (l, c) of all labeled points."""
        return self.target.indicators()

    @cached_property
    def mean(self) -> np.ndarray:
        """Return the mean (c,) of the kept labels."""
        return np.average(self.columns[self.kept], axis=0, weights=self.weight[self.kept])

    @cached_property
    def means_without_each(self) -> np.ndarray:
        """Return the mean of the kept labels without each of them, (k, c)."""
        return kept_means(self.columns[self.kept], list(np.arange(len(self.kept))[:, None]), self.weight[self.kept])

    def loss(self, residuals: np.ndarray) -> float:
        """Return the weighted sum of squared leave-one-out residuals (k, c), by which kernels count."""
        w = self.weight[self.kept]
        return float((w / w.mean() * (residuals**2).sum(axis=1)).sum())


@dataclass(frozen=True, eq=False)
class HeldOutMember:
    """Values (q, c) of a fold's points by one kernel's function without them, as `Member.standardized`; its loss."""

    values: np.ndarray
    loss: float


class HeldOutKernel:
    """The functions of one kernel without each of any folds, for any penalties.

    K : (l, l), at the labeled points. sampled : (s, l), at others. weight : (l,), or None for 1.

    Cost: 10 l^3 flops once; a fold of q points and a penalty take 2 l^2 (q + 2 c), and s l c.
    """

    def __init__(self, K: np.ndarray, sampled: np.ndarray, weight: np.ndarray | None):
        self.K, self.sampled, self.weight = (K + K.T) / 2, sampled, weight
        self.root = np.ones(len(K)) if weight is None else np.sqrt(weight)
        self._spectra: dict[bool, tuple[np.ndarray, np.ndarray, np.ndarray]] = {}
        self._changed: dict[float, bool] = {}  # by penalty, whether the kernel is made semidefinite for it

    def member(self, kept: KeptLabels, penalty: float) -> HeldOutMember:
        """Return the function of the kernel that is fitted to the kept labels."""
        if np.isinf(penalty):
            return self._kernel_mean(kept)
        K, values, vectors = self._spectrum(penalty)
        S, F, r, c = kept.kept, kept.held, self.root, kept.columns.shape[1]
        d = float(np.average(np.diagonal(K)[S], weights=kept.weight[S]))
        scaled = 1 / (values + penalty * d)
        Z = np.zeros((len(r), c + 1))
        Z[S] = r[S, None] * np.column_stack([kept.columns[S] - kept.mean, np.ones(len(S))])
        P = (vectors * scaled) @ vectors[F].T
        gain = np.linalg.solve(P[F], P.T)
        solved = (vectors * scaled) @ (vectors.T @ Z) - gain.T @ (P.T @ Z)
        diagonal = (vectors**2) @ scaled - (P * gain.T).sum(axis=1)
        alone = solved[S] / (diagonal[S] * r[S])[:, None]
        residuals = alone[:, :c] - (kept.means_without_each - kept.mean) * alone[:, c:]
        solved[F] = 0
        return self._standardized(kept, K, r[:, None] * solved[:, :c], kept.loss(residuals))

    def _kernel_mean(self, kept: KeptLabels) -> HeldOutMember:
        """Return the limit of an infinite penalty, which takes no factorization."""
        S = kept.kept
        weight = None if self.weight is None else self.weight[S]
        K = semidefinite(self.K, np.inf)
        member = member_of(K[np.ix_(S, S)], self.sampled[:, S], kept.target.take(S), weight, np.inf)
        coef = np.zeros((len(K), member.coef.shape[1]))
        coef[S] = member.coef
        return self._standardized(kept, K, coef, kept.loss(member.held_out - kept.columns[S]))

    def _standardized(self, kept: KeptLabels, K: np.ndarray, coef: np.ndarray, loss: float) -> HeldOutMember:
        """Return the values of coefficients (l, c), 0 at points that are held out."""
        values = K[kept.held] @ coef
        if kept.target.n_strata == 1:
            return HeldOutMember(values + kept.mean, loss)
        whole = len(kept.sample) == len(self.sampled)
        sampled = self.sampled if whole else self.sampled[kept.sample]
        F = sampled @ coef
        center = F.mean(axis=0)
        return HeldOutMember((values - center) / spread_of(F - center, sampled, coef), loss)

    def _spectrum(self, penalty: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the kernel as the penalty has it, and eigenvalues and eigenvectors of `w^1/2 K w^1/2`."""
        if penalty not in self._changed:
            K = semidefinite(self.K, penalty)
            self._changed[penalty] = changed = K is not self.K
            if changed not in self._spectra:
                self._spectra[changed] = K, *np.linalg.eigh(self.root[:, None] * K * self.root)
        return self._spectra[self._changed[penalty]]


def averaged(members: Sequence[HeldOutMember], kept: KeptLabels, *, alike: bool) -> np.ndarray:
    """Return the values (q, c) of the average of some kernels' functions; alike : whether all count alike."""
    shares = np.full(len(members), 1 / len(members)) if alike else shares_of_losses(
        np.array([member.loss for member in members]), kept.target, len(kept.kept))
    return np.sum([share * member.values for share, member in zip(shares, members, strict=True)], axis=0)

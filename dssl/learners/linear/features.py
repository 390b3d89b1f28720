"""Machines that are linear in the virtual samples of a cluster kernel, and the model that they are.

With F (l, k) of the labeled points, `f = F b + intercept` is the machine in the kernel `F F'` (Proposition 1 of
"Storage fit learning with unlabeled data"), whichever of both is solved: the Gram matrix (l, l), or the primal (k, k).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Self

import numpy as np

from ...base.errors import BudgetError, require
from ...kernels.base import Kernel
from ...kernels.cluster import VirtualSamples
from ...storage.blocks import Rows
from ...storage.csr import points_of
from ..held_out.closed_form import held_out_ridge_of_features
from ..losses import LOSSES, Loss, LossName, SmoothLoss, Squared, gram_learner, smooth_loss
from ..model import register_model
from ..target.coding import Coding
from ..target.target import Target
from .gram import LearnerParams, fit_gram, mean_diagonal
from .kernel_model import ModelInKernel
from .newton import FeaturesOfLabels, GramOfLabels, LabelSpace, minimize


@dataclass(frozen=True, kw_only=True)
class SampleLearner:
    """A linear model on features, by its loss and its penalty.

    loss : a name of `LOSSES`. Smooth losses fit each class against the rest, "hinge" each pair of classes.
    C : weight of the loss of a point against half the squared norm.
    """

    loss: LossName = Squared.name
    C: float = 10.0

    def __post_init__(self) -> None:
        _ = self.loss_class  # raises if there is none
        require(isinstance(self.C, Real) and 0 < self.C < np.inf, f"C={self.C!r}, expected a finite number > 0",
                why="it weighs the labels against smoothness", fix="use 0.1 to 100")

    @property
    def loss_class(self) -> type[Loss]:
        """Return the class of the loss."""
        return LOSSES.named(self.loss, "loss", "hinge is a support vector machine, squared is ridge regression")

    @property
    def has_closed_form(self) -> bool:
        """Return whether the loss is the squared one."""
        return self.loss_class is Squared

    @property
    def is_smooth(self) -> bool:
        """Return whether Newton's method minimizes the loss."""
        return issubclass(self.loss_class, SmoothLoss)

    def bytes(self, m: int, k: int) -> int:
        """Return the bytes of a fit to m labels of k features."""
        return 8 * (2 * m * k + 4 * min(m, k if self.is_smooth else m) ** 2)

    def require_fits(self, m: int, k: int, budget: int) -> None:
        """Raise BudgetError where it does not."""
        needed = self.bytes(m, k)
        require(needed <= budget, f"{m:,} labels, {k:,} features and the {self.loss} loss", error=BudgetError,
                why=f"their matrices take {needed:,} bytes, the budget is {budget:,}",
                fix=f'use a budget of {needed:,} bytes, or with the hinge loss "squared_hinge", whose matrices are of '
                    "features")

    def fit(self, F: np.ndarray, target: Target,
            weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, Coding]:
        """Return (b (k, c), intercept (c,), coding) from the samples F (l, k) of the labeled points; weight : (l,)."""
        if not self.is_smooth or (self.has_closed_form and len(F) <= F.shape[1]):
            K = F @ F.T
            C = self.C * mean_diagonal(K, weight)  # of the kernel as it is, as in the primal
            learner = LearnerParams(kind=gram_learner(self.loss), C=C)
            coef, intercept, coding = fit_gram(K, target, learner, weight)
            return F.T @ coef, intercept, coding
        target.require_labels()
        if self.has_closed_form:
            return *self._ridge(F, target.each_column(), weight), target.coding
        weights = np.ones(len(F)) if weight is None else weight
        space, lift = self._space(F, float(weights.sum()))
        y = target.columns()
        shares = np.repeat((weights / weights.sum())[:, None], y.shape[1], axis=1)
        minimum = minimize(space, smooth_loss(self.loss), y, shares, fit_intercept=True)
        return *target.coding.completed(lift(minimum.coef), minimum.intercept), target.coding

    def held_out(self, F: np.ndarray, target: Target, folds: Sequence[np.ndarray],
                 weight: np.ndarray | None = None) -> tuple[np.ndarray, Coding]:
        """Return the values (l, c) of each labeled point without its fold, NaN of none, and their coding.

        The squared loss in closed form, others by a fit a fold.
        """
        if self.has_closed_form:
            penalty = np.full(len(folds), 1 / self.C)
            return held_out_ridge_of_features(F, target.each_column(), folds, penalty, weight), target.coding
        held_out: list[np.ndarray] = []
        for fold in folds:
            kept = np.setdiff1d(np.arange(len(F)), fold)
            b, intercept, coding = self.fit(F[kept], target.take(kept), None if weight is None else weight[kept])
            held_out.append(F[fold] @ b + intercept)
        values = np.full((len(F), held_out[0].shape[1]), np.nan)
        values[np.concatenate(folds)] = np.concatenate(held_out)
        return values, coding

    def _ridge(self, F: np.ndarray, Y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        weights = np.ones(len(F)) if weight is None else weight
        mean = np.average(Y, axis=0, weights=weights)
        A = F.T @ (weights[:, None] * F)
        A[np.diag_indices_from(A)] += 1 / self.C
        return np.linalg.solve(A, F.T @ (weights[:, None] * (Y - mean))), mean

    def _space(self, F: np.ndarray, total: float) -> tuple[LabelSpace, Any]:
        """Return where the norm counts 1 / (2 C) against the mean loss, and what makes b of its coefficients."""
        scale = 2 * self.C * total
        if len(F) <= F.shape[1]:
            return GramOfLabels(scale * (F @ F.T)), lambda coef: scale * (F.T @ coef)
        return FeaturesOfLabels(F, np.eye(F.shape[1]) / scale), lambda coef: coef


@dataclass(frozen=True, eq=False)
class SampleModel(ModelInKernel):
    """`f(x) = F(x) coef + intercept` of the virtual samples F; prediction needs the landmarks alone.

    kernel, points, M : of `VirtualSamples`. coef : (k, c). intercept : (c,). coding : what the c columns mean.
    """

    kernel: Kernel
    points: Any
    M: np.ndarray
    coef: np.ndarray
    intercept: np.ndarray
    coding: Coding
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def samples(self) -> VirtualSamples:
        return VirtualSamples(self.kernel, self.points, self.M)

    def block_values(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        samples = self.samples
        K = samples.block(X)
        return samples.of_block(K) @ self.coef + self.intercept, (K == 0).all(axis=1)

    def row_bytes(self, rows: Rows) -> int:
        return super().row_bytes(rows) + 8 * (self.points.shape[0] + 2 * self.M.shape[1])

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**super()._arrays(), "M": self.M}

    @classmethod
    def _of(cls, kernel: Kernel, coding: Coding, arrays: dict[str, np.ndarray],
            attributes: dict[str, Any] | None = None) -> Self:
        return cls(kernel, points_of(arrays, "points"), arrays["M"], arrays["coef"], arrays["intercept"], coding,
                   attributes or {})


def sample_model(samples: VirtualSamples, coef: np.ndarray, intercept: np.ndarray, coding: Coding,
                 attributes: dict[str, Any] | None = None) -> SampleModel:
    """Return the model that is linear in these virtual samples."""
    return SampleModel(samples.kernel, samples.points, samples.M, coef, intercept, coding, attributes or {})


register_model("SampleModel", SampleModel)

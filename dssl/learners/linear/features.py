"""Linear models on features, such as the virtual samples of a cluster kernel.

With features F (l, k) of the labeled points, `f = F b + intercept` is the model in the kernel `F F'` (Proposition 1 of
"Storage fit learning with unlabeled data"). The smaller of the Gram matrix (l, l) and the primal (k, k) is solved.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from numbers import Real

import numpy as np

from ...base.errors import BudgetError, require
from ..losses import LOSSES, Loss, LossName, SmoothLoss, Squared, gram_learner, smooth_loss
from ..target.coding import Coding
from ..target.target import Target
from .gram import LearnerParams, fit_gram, held_out_ridge_of_features, mean_diagonal
from .newton import FunctionSpace, LabelFeatures, LabelGram, minimize


@dataclass(frozen=True, kw_only=True)
class FeatureLearner:
    """A linear model on features, by its loss and its penalty.

    loss : a name in `LOSSES`. Smooth losses fit each class against the rest, "hinge" each pair of classes.
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
        return LOSSES.named(self.loss, "loss", "hinge is a support vector machine, squared is ridge regression")

    @property
    def has_closed_form(self) -> bool:
        return self.loss_class is Squared

    @property
    def is_smooth(self) -> bool:
        return issubclass(self.loss_class, SmoothLoss)

    def bytes(self, m: int, k: int) -> int:
        """Return the bytes of a fit to m labels with k features."""
        return 8 * (2 * m * k + 4 * min(m, k if self.is_smooth else m) ** 2)

    def require_fits(self, m: int, k: int, budget: int) -> None:
        """Raise BudgetError unless a fit to m labels with k features fits."""
        needed = self.bytes(m, k)
        require(needed <= budget, f"{m:,} labels, {k:,} features and the {self.loss} loss", error=BudgetError,
                why=f"their matrices take {needed:,} bytes, the budget is {budget:,}",
                fix=f'use a budget of {needed:,} bytes, or "squared_hinge" instead of "hinge", whose matrices have a '
                    "row for each feature")

    def fit(self, F: np.ndarray, target: Target,
            weight: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray, Coding]:
        """Return (b (k, c), intercept (c,), coding) of the features F (l, k) and weights (l,) of the labeled points."""
        if not self.is_smooth or (self.has_closed_form and len(F) <= F.shape[1]):
            K = F @ F.T
            C = self.C * mean_diagonal(K, weight)  # which fit_gram divides by, and the primal does not
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
        return *target.coding.all_columns(lift(minimum.coef), minimum.intercept), target.coding

    def held_out(self, F: np.ndarray, target: Target, folds: Sequence[np.ndarray],
                 weight: np.ndarray | None = None) -> tuple[np.ndarray, Coding]:
        """Return the held-out values (l, c) of labeled points, NaN outside the folds, and their coding.

        The squared loss has a closed form; other losses are refitted for each fold.
        """
        if self.has_closed_form:
            penalty = np.full(len(folds), 1 / self.C)
            return held_out_ridge_of_features(F, target.each_column(), folds, penalty, weight), target.coding
        held_out: list[np.ndarray] = []
        for fold in folds:
            train = np.setdiff1d(np.arange(len(F)), fold)
            b, intercept, coding = self.fit(F[train], target.take(train), None if weight is None else weight[train])
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

    def _space(self, F: np.ndarray, total: float) -> tuple[FunctionSpace, Callable[[np.ndarray], np.ndarray]]:
        """Return the functions with penalty 1 / (2 C) against the mean loss, and the map of their coefficients to b."""
        scale = 2 * self.C * total
        if len(F) <= F.shape[1]:
            return LabelGram(scale * (F @ F.T)), lambda coef: scale * (F.T @ coef)
        return LabelFeatures(F, np.eye(F.shape[1]) / scale), lambda coef: coef

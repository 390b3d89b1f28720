"""Machines that are linear in the virtual samples of a cluster kernel, and the model that they are.

With F (l, k) of the labeled points, `f = F b + intercept` is the machine in the kernel `F F'` (Proposition 1 of
"Storage fit learning with unlabeled data"), whichever of both is solved: the Gram matrix (l, l), or the primal (k, k).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from numbers import Real
from typing import Any

import numpy as np

from ..errors import BudgetError, require
from ..execution.tasks import Execution
from ..kernels.base import MercerKernel, diagonal_of, kernel_from_dict
from ..kernels.cluster import VirtualSamples
from ..kernels.gram import block_row_bytes, entries_of, held_points_bytes
from ..storage.blocks import Rows
from ..storage.csr import points_of
from .closed_form import held_out_ridge_of_features
from .coding import Coding
from .model import Model, SharedModels, coding_of, described_model, register_model
from .newton import FeaturesOfLabels, GramOfLabels, LabelSpace, minimize
from .ridge_and_svm import LearnerParams, fit_gram
from .smooth_losses import loss_of
from .target import Target

VERSION = 1
LOSSES = ("squared", "hinge", "squared_hinge", "logistic")


@dataclass(frozen=True, kw_only=True)
class SampleLearner:
    """loss : "hinge" is a machine for each pair of classes; of the others each class is told from the rest.

    C : what the loss of a point counts for against half the squared norm.
    """

    loss: str = "squared"
    C: float = 10.0

    def __post_init__(self) -> None:
        require(self.loss in LOSSES, f"loss={self.loss!r}, expected one of {', '.join(LOSSES)}",
                why="it decides the learner", fix='use "hinge" for a support vector machine, "squared" for ridge')
        require(isinstance(self.C, Real) and 0 < self.C < np.inf, f"C={self.C!r}, expected a finite number > 0",
                why="it weighs the labels against smoothness", fix="use 0.1 to 100")

    def bytes(self, m: int, k: int) -> int:
        """Return the bytes of a fit to m labels of k features."""
        return 8 * (2 * m * k + 4 * min(m, m if self.loss == "hinge" else k) ** 2)

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
        if self.loss == "hinge" or (self.loss == "squared" and len(F) <= F.shape[1]):
            kind = LearnerParams(kind="svm" if self.loss == "hinge" else "ridge", C=self.C)
            coef, intercept, coding = fit_gram(F @ F.T, target, kind, weight)
            return F.T @ coef, intercept, coding
        target.require_labels()
        if self.loss == "squared":
            return *self._ridge(F, target.each_column(), weight), target.coding
        space, lift = self._space(F, len(F))
        own = np.ones(len(F)) if weight is None else weight
        y = target.columns()
        found = minimize(space, loss_of(self.loss), y, np.repeat((own / own.sum())[:, None], y.shape[1], axis=1),
                         fit_intercept=True)
        return *target.coding.completed(lift(found.coef), found.intercept), target.coding

    def held_out(self, F: np.ndarray, target: Target, folds: Sequence[np.ndarray],
                 weight: np.ndarray | None = None) -> tuple[np.ndarray, Coding]:
        """Return the values (l, c) of each labeled point without its fold, NaN of none, and their coding.

        The squared loss in closed form, others by a fit a fold.
        """
        if self.loss == "squared":
            penalty = np.full(len(folds), 1 / self.C)
            return held_out_ridge_of_features(F, target.each_column(), folds, penalty, weight), target.coding
        found: list[np.ndarray] = []
        for fold in folds:
            kept = np.setdiff1d(np.arange(len(F)), fold)
            b, intercept, coding = self.fit(F[kept], target.take(kept), None if weight is None else weight[kept])
            found.append(F[fold] @ b + intercept)
        values = np.full((len(F), found[0].shape[1]), np.nan)
        values[np.concatenate(folds)] = np.concatenate(found)
        return values, coding

    def _ridge(self, F: np.ndarray, Y: np.ndarray, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
        own = np.ones(len(F)) if weight is None else weight
        mean = np.average(Y, axis=0, weights=own)
        A = F.T @ (own[:, None] * F)
        A[np.diag_indices_from(A)] += 1 / self.C
        return np.linalg.solve(A, F.T @ (own[:, None] * (Y - mean))), mean

    def _space(self, F: np.ndarray, total: float) -> tuple[LabelSpace, Any]:
        """Return where the norm counts 1 / (2 C) against the mean loss, and what makes b of its coefficients."""
        scale = 2 * self.C * total
        if len(F) <= F.shape[1]:
            return GramOfLabels(scale * (F @ F.T)), lambda coef: scale * (F.T @ coef)
        return FeaturesOfLabels(F, np.eye(F.shape[1]) / scale), lambda coef: coef


@dataclass(frozen=True, eq=False)
class SampleModel(Model):
    """`f(x) = F(x) coef + intercept` of the virtual samples F; prediction needs the landmarks alone.

    coef : (k, c). intercept : (c,). coding : what the c columns mean.
    """

    samples: VirtualSamples
    coef: np.ndarray
    intercept: np.ndarray
    coding: Coding
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        return self.samples.points.shape[1]

    @property
    def n_columns(self) -> int:
        return len(self.intercept)

    def block_values(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        K = self.samples.block(X)
        return self.samples.of_block(K) @ self.coef + self.intercept, (K == 0).all(axis=1)

    def block_support(self, X: Any) -> np.ndarray:
        """Return the largest |K(x, z_j)| over the landmarks, relative to its largest K(z_j, z_j), (b,).

        Where it is 0 the model says nothing of x: the value is the intercept.
        """
        largest: np.ndarray = np.abs(self.samples.block(X)).max(axis=1)
        return largest / (float(diagonal_of(self.samples.kernel, self.samples.points).max()) or 1.0)

    def row_bytes(self, rows: Rows) -> int:
        points = self.samples.points
        own = 8 * (points.shape[0] + 2 * self.samples.width)
        return block_row_bytes(self.samples.kernel, rows, points.shape[0], entries_of(points)) + own

    def fixed_bytes(self, rows: Rows) -> int:
        return held_points_bytes(rows, self.samples.points.shape[0], entries_of(self.samples.points))

    def _arrays(self) -> dict[str, np.ndarray]:
        return {**self.samples.arrays(), "coef": self.coef, "intercept": self.intercept}

    @classmethod
    def _of(cls, kernel: Any, coding: Coding, arrays: dict[str, np.ndarray],
            attributes: dict[str, Any] | None = None) -> "SampleModel":
        samples = VirtualSamples(kernel, points_of(arrays, "points"), arrays["M"])
        return cls(samples, arrays["coef"], arrays["intercept"], coding, attributes or {})

    def shared(self, execution: Execution) -> SharedModels:
        """Return the model as tasks find it; its kernel may be a function, which has no stored form."""
        return SharedModels(execution.share(**{f"model.{key}": array for key, array in self._arrays().items()}),
                            {"model": partial(SampleModel._of, self.samples.kernel, self.coding)})

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return named arrays and JSON attributes, read by `from_arrays`; raise where the kernel is a function."""
        kernel = self.samples.kernel
        require(isinstance(kernel, MercerKernel), f"the kernel {kernel!r} cannot be stored",
                why="a function is code, and models hold numbers only", fix="use a kernel that has a name")
        assert isinstance(kernel, MercerKernel)
        return self._arrays(), {
            "type": "SampleModel", "version": VERSION, "kernel": kernel.to_dict(), "coding": self.coding.name,
            "classes": self.coding.classes.tolist(), **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "SampleModel":
        rest = described_model(attributes, "SampleModel", VERSION, ("kernel",))
        return cls._of(kernel_from_dict(attributes["kernel"]), coding_of(attributes), arrays, rest)


register_model("SampleModel", SampleModel)

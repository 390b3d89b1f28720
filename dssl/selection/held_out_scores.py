"""Cross-validated scores of labeled points, with their standard errors.

A score is a function of the weights p of the points, which sum to 1. Its influence value at point i is p_i times its
derivative as p_i grows and the others shrink in proportion; to first order the sum of the squared influence values is
the squared standard error over points (the infinitesimal jackknife). Fits and calibrations count as fixed.

    error, balanced_error   share of wrong classes; mean over classes of it
    log_loss, brier         of probabilities that are calibrated on the other folds (`calibration.py`)
    auc                     area under the ROC curve of the margins; of several classes the mean, each against the rest
    f1, f1_macro            harmonic mean of precision and recall: of the second of two classes; the mean over classes
    rmse, mae               root mean squared, and mean absolute error of quantities

References
----------
DeLong, DeLong, Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating characteristic
curves", Biometrics 1988; Brier, "Verification of forecasts expressed in terms of probability", 1950.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

import numpy as np

from ..base.errors import require
from ..learners.class_prior import ClassPrior
from ..learners.metrics import ABSOLUTE, SQUARED, WRONG_CLASS, PointMetric
from ..learners.prior_shift import cross_fitted_values
from ..learners.target.coding import ClassCoding, Coding
from ..learners.target.target import Classes, Target
from .calibration import held_out_probabilities, shared_calibrations

MIN_PROBABILITY = np.finfo(float).eps  # of a logarithm, as in scikit-learn

ScoringName = Literal["accuracy", "balanced_accuracy", "neg_log_loss", "neg_brier_score", "f1", "f1_macro", "roc_auc",
                      "neg_root_mean_squared_error", "neg_mean_absolute_error"]


@dataclass(frozen=True, eq=False)
class Score:
    """A score, and its influence value at each labeled point (m,), 0 where it is not held out."""

    value: float
    influence: np.ndarray

    @property
    def standard_error(self) -> float:
        return float(np.sqrt((self.influence**2).sum()))

    @staticmethod
    def mean(scores: Sequence["Score"]) -> "Score":
        return Score(float(np.mean([score.value for score in scores])),
                     np.mean([score.influence for score in scores], axis=0))


def spread_over_labels(values: np.ndarray, positions: np.ndarray, n_labels: int) -> np.ndarray:
    """Return values (h, c) of the held-out labels at these positions (h,) of all labels (l, c), NaN at the others."""
    everywhere = np.full((n_labels, values.shape[1]), np.nan)
    everywhere[positions] = values
    return everywhere


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Values (m, c) of labeled points, each predicted without its fold, in one repetition.

    folds : disjoint lists of positions; points in no fold are not scored. weight : (m,) > 0, 1 by default.
    unreachable : (m,) bool, points without a prediction, which counts as wrong; None if there are none.
    """

    target: Target
    coding: Coding
    values: np.ndarray
    folds: Sequence[np.ndarray]
    weight: np.ndarray | None = None
    unreachable: np.ndarray | None = None

    def with_prior(self, assumed: ClassPrior) -> "HeldOut":
        """Return values shifted from the class frequencies `assumed` to those of the target.

        The other folds determine the shift of a fold (`learners/prior_shift.py`); of more than `CALIBRATIONS` folds
        several share one. Values that were fitted with given frequencies are not shifted.
        """
        if not isinstance(self.target, Classes) or assumed.source in ("given", "sizes"):
            return self
        values = cross_fitted_values(self.target, self.values, self.coding, self.weight, assumed,
                                 shared_calibrations(self.folds))
        return replace(self, values=values)

    @cached_property
    def points(self) -> np.ndarray:
        return np.concatenate(self.folds)

    @cached_property
    def true(self) -> np.ndarray:
        return self.target.coded[self.points]

    @cached_property
    def shares(self) -> np.ndarray:
        weight = np.ones(len(self.points)) if self.weight is None else self.weight[self.points]
        return weight / weight.sum()

    @cached_property
    def margins(self) -> np.ndarray:
        assert isinstance(self.coding, ClassCoding)
        return self.coding.margins(self.values)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Return the probability of each class at the held-out points, (n, n_classes)."""
        return held_out_probabilities(self.margins, self.target.coded, self.folds, self.weight)[self.points]

    def score(self, value: float, influence: np.ndarray) -> Score:
        """Return a score from its influence values at the held-out points."""
        whole = np.zeros(len(self.values))
        whole[self.points] = influence
        return Score(value, whole)

    def mean(self, measured: np.ndarray, metric: PointMetric | None = None) -> Score:
        """Return the mean of a metric of the held-out points."""
        # NumPy's plain mean without weights, so that equal numbers of errors are equal.
        mean = float(np.average(measured, weights=None if self.weight is None else self.weight[self.points]))
        influence = self.shares * (measured - mean)
        if metric is None:
            return self.score(mean, influence)
        return self.score(float(metric.shown(mean)), influence * metric.slope(mean))

    def measured(self, metric: PointMetric) -> np.ndarray:
        losses = metric.of(self.coding, self.values[self.points], self.true)
        if self.unreachable is None or metric != WRONG_CLASS:
            return losses
        return np.where(self.unreachable[self.points], 1.0, losses)

    def of(self, metric: PointMetric) -> Score:
        return self.mean(self.measured(metric), metric)

    def of_folds(self, metric: PointMetric) -> list[float]:
        measured = self.measured(metric)
        edges = np.cumsum([len(fold) for fold in self.folds])
        weights = [None] * len(self.folds) if self.weight is None else [self.weight[fold] for fold in self.folds]
        return [float(metric.shown(np.average(fold, weights=weight)))
                for fold, weight in zip(np.split(measured, edges[:-1]), weights, strict=True)]


def balanced_error(held_out: HeldOut) -> Score:
    """Return the mean error of the classes among the held-out points."""
    wrong = held_out.measured(WRONG_CLASS)
    present = np.unique(held_out.true)
    influence = np.zeros(len(wrong))
    errors = []
    for code in present:
        members = held_out.true == code
        p = held_out.shares[members] / held_out.shares[members].sum()
        errors.append(float(p @ wrong[members]))
        influence[members] = p * (wrong[members] - errors[-1]) / len(present)
    return held_out.score(float(np.mean(errors)), influence)


def log_loss(held_out: HeldOut) -> Score:
    """Return minus the mean logarithm of the probability of the true class."""
    P = held_out.probabilities[np.arange(len(held_out.true)), held_out.true]
    return held_out.mean(-np.log(np.maximum(P, MIN_PROBABILITY)))


def brier(held_out: HeldOut) -> Score:
    """Return the mean squared difference of probabilities from 0 and 1, summed over classes, or of one of two."""
    P = held_out.probabilities
    squares = ((P - (held_out.true[:, None] == np.arange(P.shape[1])))**2).sum(axis=1)
    return held_out.mean(squares / 2 if P.shape[1] == 2 else squares)


def auc(held_out: HeldOut) -> Score | None:
    """Return the area under the ROC curve of the margins, pooled over folds; None for one class."""
    pooled = mean_area(held_out.margins[held_out.points], held_out.true, held_out.shares)
    return None if pooled is None else held_out.score(*pooled)


def mean_area(margins: np.ndarray, codes: np.ndarray, shares: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Return the area under the ROC curve of margins (n, n_classes) of points with weights `shares`, and its influence.

    For several classes it is the mean over those among the points, each against the rest; None for one class.
    """
    classes = classes_with_area(margins, codes)
    value, influence = 0.0, np.zeros(len(codes))
    for code in classes:
        of_class, its_influence = area(margins[:, code], codes == code, shares)
        value += of_class / len(classes)
        influence += its_influence / len(classes)
    return (value, influence) if len(classes) else None


def classes_with_area(margins: np.ndarray, codes: np.ndarray) -> np.ndarray:
    """Return the classes that `mean_area` is the mean of; of two, whose curves are mirror images, the second."""
    present = np.unique(codes)
    if len(present) < 2:
        return present[:0]
    return present[-1:] if margins.shape[1] == 2 else present


def f1_macro(held_out: HeldOut) -> Score:
    """Return the mean F1 score of the classes among the held-out points."""
    return Score.mean([f1_of_class(held_out, code) for code in np.unique(held_out.true)])


def f1_of_class(held_out: HeldOut, code: int) -> Score:
    """Return 2 tp / (2 tp + fp + fn) of a class; 0 where no point has or is predicted this class."""
    codes = held_out.coding.predictions(held_out.values[held_out.points], held_out.true)["codes"]
    called = codes == code
    if held_out.unreachable is not None:
        called &= ~held_out.unreachable[held_out.points]
    true = held_out.true == code
    hits = 2.0 * (called & true)
    either = 1.0 * called + true
    whole = float(held_out.shares @ either)
    value = float(held_out.shares @ hits) / whole if whole else 0.0
    return held_out.score(value, held_out.shares * (hits - value * either) / (whole or 1.0))


def area(scores: np.ndarray, positive: np.ndarray, shares: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the share of pairs in which the positive has the larger score (n,), ties half, and its influence (n,).

    The influence is `p_i (V_i - area)`, p_i the point's weight in its class, V_i the share of pairs that it wins.
    """
    p = np.empty(len(scores))
    won = np.empty(len(scores))
    for side_points, sign in ((positive, 1), (~positive, -1)):
        p[side_points] = shares[side_points] / shares[side_points].sum()
        others = np.argsort(sign * scores[~side_points], kind="stable")
        ascending = sign * scores[~side_points][others]
        total = np.append(0.0, np.cumsum(shares[~side_points][others]))
        below, upto = (np.searchsorted(ascending, sign * scores[side_points], side=side) for side in ("left", "right"))
        won[side_points] = (total[below] + total[upto]) / (2 * total[-1])
    value = float(p[positive] @ won[positive])
    return value, p * (won - value)


CLASS_SCORES: dict[str, Callable[[HeldOut], Score | None]] = {
    "error": lambda values: values.of(WRONG_CLASS), "balanced_error": balanced_error, "log_loss": log_loss,
    "brier": brier, "auc": auc, "f1": lambda values: f1_of_class(values, 1) if values.target.n_strata == 2 else None,
    "f1_macro": f1_macro}
VALUE_SCORES: dict[str, Callable[[HeldOut], Score | None]] = {
    "rmse": lambda values: values.of(SQUARED), "mae": lambda values: values.of(ABSOLUTE)}
# By its name in scikit-learn, the score by which a search selects, and whether the highest is the best.
SCORED: dict[str, tuple[str, bool]] = {
    "accuracy": ("error", False), "balanced_accuracy": ("balanced_error", False), "neg_log_loss": ("log_loss", False),
    "neg_brier_score": ("brier", False), "f1": ("f1", True), "f1_macro": ("f1_macro", True), "roc_auc": ("auc", True),
    "neg_root_mean_squared_error": ("rmse", False), "neg_mean_absolute_error": ("mae", False)}
SHARES = ("error", "balanced_error", "auc", "f1", "f1_macro")  # the scores between 0 and 1


def require_scoring(scoring: str | None, *, classes: bool, n_classes: int = 2) -> None:
    """Raise ParameterError unless a scoring is None or applies to the target."""
    scores = CLASS_SCORES if classes else VALUE_SCORES
    names = [name for name, (score, _) in SCORED.items() if score in scores]
    require(scoring is None or scoring in names, f"scoring={scoring!r} of {'classes' if classes else 'quantities'}",
            why="this score does not apply to them", fix=f"use one of {', '.join(names)}")
    require(scoring != "f1" or n_classes == 2, f"scoring='f1' of {n_classes} classes",
            why="f1 is the score of the second of two classes", fix="use f1_macro, the mean over classes")


def scores_by_name(target: Target) -> dict[str, Callable[[HeldOut], Score | None]]:
    return CLASS_SCORES if isinstance(target, Classes) else VALUE_SCORES


def mean_over_repetitions(name: str, scores: Sequence[Score | None]) -> dict[str, float | None]:
    """Return the mean of a score over repetitions by its name, with its standard errors."""
    defined = [score for score in scores if score is not None]
    names = [name, f"{name}_se", *([f"{name}_se_repetitions"] if len(scores) > 1 else [])]
    if len(defined) < len(scores):
        return dict.fromkeys(names)
    mean = Score.mean(defined)
    spread = float(np.std([score.value for score in defined], ddof=1)) if len(defined) > 1 else 0.0
    return dict(zip(names, (mean.value, mean.standard_error, spread), strict=False))

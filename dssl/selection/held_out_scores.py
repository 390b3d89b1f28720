"""Scores of labeled points, each predicted without its fold, with their standard errors.

A score is a function of the shares p of the points in it. Its influence value at point i is how fast it changes as p_i
grows and the others shrink in proportion, times p_i; their sum of squares is the square of the standard error over
points, to first order (the infinitesimal jackknife; of a mean of n equal shares, the variance over n). What is fitted
to predict them, and to calibrate, is taken as given.

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

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np

from ..base.errors import require
from ..learners.class_prior import ClassPrior
from ..learners.measures import ABSOLUTE, SQUARED, WRONG_CLASS, PointMeasure
from ..learners.prior_shift import moved_by_others
from ..learners.target.coding import ClassCoding, Coding
from ..learners.target.target import Classes, Target
from .calibration import held_out_probabilities, shared_calibrations
from .interval import interval_of_score, interval_of_share

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
        """Return the standard error over points."""
        return float(np.sqrt((self.influence**2).sum()))

    @staticmethod
    def mean(scores: Sequence["Score"]) -> "Score":
        """Return the mean of scores of the same points."""
        return Score(float(np.mean([score.value for score in scores])),
                     np.mean([score.influence for score in scores], axis=0))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Values (m, c) of labeled points, each predicted without its fold, in one repetition.

    folds : disjoint lists of positions; points of none are not scored. weight : (m,) > 0, 1 by default. lost : (m,)
    bool, points for which there is no prediction, which is no class; None where there is one for all.
    """

    target: Target
    coding: Coding
    values: np.ndarray
    folds: Sequence[np.ndarray]
    weight: np.ndarray | None = None
    lost: np.ndarray | None = None

    def with_prior(self, assumed: ClassPrior) -> "HeldOut":
        """Return values that know how frequent classes are, where they assume that these are as `assumed`.

        Given shares, of known class sizes, are those that the values have, and nothing moves them. The values of a fold
        are moved as the other folds say (`learners/prior_shift.py`), where there are others; of more than
        `CALIBRATIONS` folds several share one shift.
        """
        if not isinstance(self.target, Classes) or assumed.source == "given":
            return self
        values = moved_by_others(self.target, self.values, self.coding, self.weight, assumed,
                                 shared_calibrations(self.folds))
        return replace(self, values=values)

    @cached_property
    def points(self) -> np.ndarray:
        """Return the positions of the points that are held out."""
        return np.concatenate(self.folds)

    @cached_property
    def true(self) -> np.ndarray:
        """Return their codes or quantities."""
        return self.target.coded[self.points]

    @cached_property
    def shares(self) -> np.ndarray:
        """Return their weights, which sum to 1."""
        weight = np.ones(len(self.points)) if self.weight is None else self.weight[self.points]
        return weight / weight.sum()

    @cached_property
    def margins(self) -> np.ndarray:
        """Return the mean margin of each class, (m, n_classes)."""
        assert isinstance(self.coding, ClassCoding)
        return self.coding.margins(self.values)

    @cached_property
    def probabilities(self) -> np.ndarray:
        """Return the probability of each class, (n, n_classes), of the points that are held out."""
        return held_out_probabilities(self.margins, self.target.coded, self.folds, self.weight)[self.points]

    def score(self, value: float, influence: np.ndarray) -> Score:
        """Return a score from its influence values at the points that are held out."""
        whole = np.zeros(len(self.values))
        whole[self.points] = influence
        return Score(value, whole)

    def mean(self, measured: np.ndarray, measure: PointMeasure | None = None) -> Score:
        """Return the mean of what was measured at each point that is held out, as the measure shows it."""
        # Without weights as NumPy takes a mean, so that equal numbers of errors are equal.
        mean = float(np.average(measured, weights=None if self.weight is None else self.weight[self.points]))
        influence = self.shares * (measured - mean)
        if measure is None:
            return self.score(mean, influence)
        return self.score(float(measure.shown(mean)), influence * measure.slope(mean))

    def measured(self, measure: PointMeasure) -> np.ndarray:
        """Return the measure at the points that are held out."""
        losses = measure.of(self.coding, self.values[self.points], self.true)
        return losses if self.lost is None or measure != WRONG_CLASS else np.where(self.lost[self.points], 1.0, losses)

    def of(self, measure: PointMeasure) -> Score:
        return self.mean(self.measured(measure), measure)

    def of_folds(self, measure: PointMeasure) -> list[float]:
        """Return the measure of each fold."""
        measured = self.measured(measure)
        edges = np.cumsum([len(fold) for fold in self.folds])
        weights = [None] * len(self.folds) if self.weight is None else [self.weight[fold] for fold in self.folds]
        return [float(measure.shown(np.average(fold, weights=weight)))
                for fold, weight in zip(np.split(measured, edges[:-1]), weights, strict=True)]


def balanced_error(held: HeldOut) -> Score:
    """Return the mean of the errors of the classes that are among the points held out."""
    wrong = held.measured(WRONG_CLASS)
    present = np.unique(held.true)
    influence = np.zeros(len(wrong))
    errors = []
    for code in present:
        members = held.true == code
        p = held.shares[members] / held.shares[members].sum()
        errors.append(float(p @ wrong[members]))
        influence[members] = p * (wrong[members] - errors[-1]) / len(present)
    return held.score(float(np.mean(errors)), influence)


def log_loss(held: HeldOut) -> Score:
    """Return minus the mean logarithm of the probability of the true class."""
    P = held.probabilities[np.arange(len(held.true)), held.true]
    return held.mean(-np.log(np.maximum(P, MIN_PROBABILITY)))


def brier(held: HeldOut) -> Score:
    """Return the mean squared difference of probabilities from 0 and 1, summed over classes; of two classes, of one."""
    P = held.probabilities
    squares = ((P - (held.true[:, None] == np.arange(P.shape[1])))**2).sum(axis=1)
    return held.mean(squares / 2 if P.shape[1] == 2 else squares)


def auc(held: HeldOut) -> Score | None:
    """Return the area under the ROC curve of the margins, pooled over folds; None where there is but one class."""
    pooled = mean_area(held.margins[held.points], held.true, held.shares)
    return None if pooled is None else held.score(*pooled)


def mean_area(margins: np.ndarray, codes: np.ndarray, shares: np.ndarray) -> tuple[float, np.ndarray] | None:
    """Return the area under the ROC curve of margins (n, n_classes) of points of these shares (n,), and its influence.

    Of several classes, the mean over those among the points, each against the rest; None where there is but one.
    """
    present = np.unique(codes)
    if len(present) < 2:
        return None
    # Of two classes, one curve is the other's mirror image.
    classes = present[-1:] if margins.shape[1] == 2 else present
    areas = [area(margins[:, code], codes == code, shares) for code in classes]
    return float(np.mean([value for value, _ in areas])), np.mean([influence for _, influence in areas], axis=0)


def f1_macro(held: HeldOut) -> Score:
    """Return the mean of the F1 scores of the classes that are among the points held out."""
    return Score.mean([f1_of_class(held, code) for code in np.unique(held.true)])


def f1_of_class(held: HeldOut, code: int) -> Score:
    """Return 2 tp / (2 tp + fp + fn) of a class, of shares of points; 0 where no point is of it, nor is called so."""
    codes = held.coding.predictions(held.values[held.points], held.true)["codes"]
    called = codes == code if held.lost is None else (codes == code) & ~held.lost[held.points]
    true = held.true == code
    hits = 2.0 * (called & true)
    either = 1.0 * called + true
    whole = float(held.shares @ either)
    value = float(held.shares @ hits) / whole if whole else 0.0
    return held.score(value, held.shares * (hits - value * either) / (whole or 1.0))


def area(scores: np.ndarray, positive: np.ndarray, shares: np.ndarray) -> tuple[float, np.ndarray]:
    """Return the share of pairs in which the positive has the larger score (n,), ties half; its influence values (n,).

    Those are `p_i (V_i - area)`, p_i the point's share of its class, and V_i its share of the other class won.
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
    "error": lambda held: held.of(WRONG_CLASS), "balanced_error": balanced_error, "log_loss": log_loss, "brier": brier,
    "auc": auc, "f1": lambda held: f1_of_class(held, 1) if held.target.n_strata == 2 else None, "f1_macro": f1_macro}
VALUE_SCORES: dict[str, Callable[[HeldOut], Score | None]] = {
    "rmse": lambda held: held.of(SQUARED), "mae": lambda held: held.of(ABSOLUTE)}
# By its name in scikit-learn, the score of rows that a search chooses by, and whether it is best where it is highest.
SCORED: dict[str, tuple[str, bool]] = {
    "accuracy": ("error", False), "balanced_accuracy": ("balanced_error", False), "neg_log_loss": ("log_loss", False),
    "neg_brier_score": ("brier", False), "f1": ("f1", True), "f1_macro": ("f1_macro", True), "roc_auc": ("auc", True),
    "neg_root_mean_squared_error": ("rmse", False), "neg_mean_absolute_error": ("mae", False)}


SHARES = ("error", "balanced_error", "auc", "f1", "f1_macro")  # the scores between 0 and 1


def with_intervals(row: Mapping[str, Any], n: int) -> dict[str, Any]:
    """Return a row of scores over n labels with the 95 % interval of each, `<name>_interval`, where it is known."""
    names = [name for name in row if f"{name}_se" in row and row[name] is not None]
    ends = {name: interval_of_share(row[name], n) if name == "error" else interval_of_score(
        row[name], row[f"{name}_se"], n, share=name in SHARES) for name in names}
    return {**row, **{f"{name}_interval": interval for name, interval in ends.items() if interval is not None}}


def require_scoring(scoring: str | None, *, classes: bool, n_classes: int = 2) -> None:
    """Raise ParameterError unless a scoring is None, or one of so many classes, or of quantities."""
    scores = CLASS_SCORES if classes else VALUE_SCORES
    names = [name for name, (score, _) in SCORED.items() if score in scores]
    require(scoring is None or scoring in names, f"scoring={scoring!r} of {'classes' if classes else 'quantities'}",
            why="it says nothing of them", fix=f"use one of {', '.join(names)}")
    require(scoring != "f1" or n_classes == 2, f"scoring='f1' of {n_classes} classes",
            why="it is the score of the second of two", fix="use f1_macro, the mean over classes")


def scores_by_name(target: Target) -> dict[str, Callable[[HeldOut], Score | None]]:
    """Return what scores the values of a target, by name."""
    return CLASS_SCORES if isinstance(target, Classes) else VALUE_SCORES


def held_out_scores(repetitions: Sequence[HeldOut], tie: PointMeasure, scoring: str | None = None,
                    fitted: Sequence[HeldOut] | None = None) -> dict[str, Any]:
    """Return what a search knows of a row: how its values do, in each repetition of the folds.

    Of classes these are `error`, the share of wrong ones, and the measure `tie`; of quantities `rmse` and `mae`; and
    the score of `SCORED` that is asked for. `<name>_se` is the standard error over points; with several repetitions a
    score is their mean,
    and `<name>_se_repetitions` its standard deviation over them. None is a score that is not defined.
    `fold_errors` are the first measure's in each fold; where each point is a fold, `fold_deviation` stands for them,
    their standard deviation.

    fitted : the values before class frequencies moved them, of which `tie` is the loss; by default the same.
    """
    target = repetitions[0].target
    measures = target.measures(tie)
    scored = {measure.name: [held.of(measure) for held in (fitted or repetitions if measure == tie else repetitions)]
             for measure in measures}
    row = {key: value for name, scores in scored.items() for key, value in joined(name, scores).items()}
    if scoring is not None:
        require_scoring(scoring, classes=isinstance(target, Classes), n_classes=target.n_strata)
        name = SCORED[scoring][0]
        if name not in scored:
            row |= joined(name, [scores_by_name(target)[name](held) for held in repetitions])
    errors = [error for held in repetitions for error in held.of_folds(measures[0])]
    alone = all(len(fold) == 1 for held in repetitions for fold in held.folds)
    return {**row, **({"fold_deviation": float(np.std(errors))} if alone else {"fold_errors": errors})}


def all_scores(repetitions: Sequence[HeldOut]) -> dict[str, Any]:
    """Return every score of some values in each repetition, as `held_out_scores` names them."""
    return {key: value for name, of in scores_by_name(repetitions[0].target).items()
            for key, value in joined(name, [of(held) for held in repetitions]).items()}


def joined(name: str, scores: Sequence[Score | None]) -> dict[str, float | None]:
    """Return the mean of a score of repetitions, with its standard errors."""
    defined = [score for score in scores if score is not None]
    names = [name, f"{name}_se", *([f"{name}_se_repetitions"] if len(scores) > 1 else [])]
    if len(defined) < len(scores):
        return dict.fromkeys(names)
    mean = Score.mean(defined)
    spread = float(np.std([score.value for score in defined], ddof=1)) if len(defined) > 1 else 0.0
    return dict(zip(names, (mean.value, mean.standard_error, spread), strict=False))

"""Paired tests of two models on the same points, and whether the unlabeled data helped."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..base.wilson import MIN_PAIRS
from ..learners.target.target import Classes, Target
from .interval import (
    LEVEL,
    POWER,
    detectable_error_difference,
    detectable_mean_difference,
    mcnemar_power,
    sign_test,
    significant_t,
    t_power,
    t_test,
)
from .paired_interval import interval_of_paired_rmse, interval_of_paired_shares
from .scoring import Predicted, terms_of

MIN_DIFFERENCE = 0.01  # of two errors: smaller differences matter little
NEGLIGIBLE = 1e-3  # relative gain that counts as none
SAME = 1e-9  # difference of two predictions that counts as none, relative to the largest quantity
ROUNDING = 1e-12  # error that counts as none, relative to the largest quantity
Verdict = Literal["helped", "hurt", "no clear difference", "too few points to tell"]
HELPED: Verdict = "helped"
HURT: Verdict = "hurt"
UNCLEAR: Verdict = "no clear difference"
TOO_FEW: Verdict = "too few points to tell"


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same n points, by a paired test.

    gain : decrease of the error, or of the rmse, from `baseline`, that of the other model. smallest : the smallest
    difference that can be significant on these points; detectable : the smallest that is significant in four of five
    such test sets; None if there is none. power : the probability of detecting half the error of the other model (for
    quantities half its mean square), but at least 1 %. interval : the 95 % interval of the gain, which contains 0
    exactly where the test is not significant (`paired_interval.py`); None where it is unknown. standard_error : of the
    gain, only by `compare_in_scoring`.
    """

    n: int
    gain: float
    baseline: float
    p_value: float
    smallest: float | None
    detectable: float | None
    power: float
    interval: list[float] | None = None
    standard_error: float = 0.0

    @property
    def has_power(self) -> bool:
        """Return whether half the error of the other model would have been detected."""
        return self.power >= POWER

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the first model.

        "helped" and "hurt" need p < 0.05 and a gain of more than a thousandth of the other model's error.
        """
        if self.p_value < LEVEL:
            if abs(self.gain) <= NEGLIGIBLE * self.baseline:
                return UNCLEAR
            return HELPED if self.gain > 0 else HURT
        return UNCLEAR if self.has_power else TOO_FEW

    def interval_of_increase(self, unit: float = 1.0) -> list[float] | None:
        """Return the interval of the increase of the error, minus the gain, times `unit`."""
        return None if self.interval is None else [-unit * self.interval[1], -unit * self.interval[0]]

    def described(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__
                if name not in ("baseline", "standard_error")}


def compare(true: Target, predictions: Mapping[str, np.ndarray],
            other: Mapping[str, np.ndarray]) -> PairedComparison | None:
    """Return the comparison of two predictions of the same points; None where it is undefined.

    Classes are compared by McNemar's exact test, or in another scoring of the target by `compare_in_scoring`;
    quantities by the paired t-test of squared errors.
    """
    if isinstance(true, Classes):
        if true.scoring != "accuracy":
            return compare_in_scoring(true.scoring, Predicted.of_predictions(true, predictions),
                                      Predicted.of_predictions(true, other))
        return compare_classes(predictions["codes"] == true.coded, other["codes"] == true.coded)
    quantities = true.columns()[:, 0]  # of an estimator they are (n, 1)
    squared, other_squared = ((predicted["values"] - quantities) ** 2 for predicted in (predictions, other))
    return compare_squared_errors(squared, other_squared, float(np.abs(quantities).max(initial=0.0)))


def compare_classes(right: np.ndarray, other_right: np.ndarray) -> PairedComparison:
    """Return the comparison of the points (n,) that each of two models classifies correctly, by McNemar's test."""
    n = len(right)
    other_error = float((~other_right).mean())
    wins = int((right & ~other_right).sum())
    losses = int((~right & other_right).sum())
    p_value = sign_test(wins, losses)
    opposite = min(wins, losses) / n
    target = max(other_error / 2, MIN_DIFFERENCE)
    return PairedComparison(n, (wins - losses) / n, other_error, p_value, MIN_PAIRS / n if n >= MIN_PAIRS else None,
                            detectable_error_difference(n, opposite), mcnemar_power(n, opposite + target, opposite),
                            interval_of_paired_shares(wins, losses, n, significant=p_value < LEVEL))


def compare_in_scoring(scoring: str, ours: Predicted, other: Predicted) -> PairedComparison | None:
    """Return the comparison by the loss of a metric; None where it is undefined for one of them.

    The statistic is the difference over the root of the sum of the squared terms c (`scoring.py`). If both models are
    equally good, each term has a random sign; the statistic is compared with Student's t of
    `(sum c^2)^2 / sum c^4` degrees of freedom, so that `MIN_PAIRS` equal terms of one sign are significant, as in
    McNemar's test. The interval reaches as far as a significant gain on either side; it is somewhat too wide where the
    gain is large, since the terms are not centered. The power is that for a difference of terms of the size of one
    point of the rarest class.
    """
    n = len(ours.true)
    losses = (ours.loss(scoring), other.loss(scoring))
    if losses[0] is None or losses[1] is None:
        return None
    terms, unit = terms_of(ours, other, scoring)
    gain = losses[1] - losses[0]
    target = max(losses[1] / 2, MIN_DIFFERENCE)
    squares = float((terms**2).sum())
    fourths = float((terms**4).sum())
    with_target = squares + target * unit
    freedom = max(with_target**2 / (fourths + target * unit**3), 1.0)
    power = t_power(int(freedom) + 1, target, float(np.sqrt(with_target)))
    if squares == 0:  # equal everywhere
        return PairedComparison(n, gain, losses[1], 1.0, None, None, power)
    error = float(np.sqrt(squares))
    terms_freedom = squares**2 / fourths
    p_value = t_test(gain / error, terms_freedom)
    smallest = significant_t(terms_freedom) * error
    bound = np.inf if scoring == "neg_log_loss" else 1.0
    return PairedComparison(n, gain, losses[1], p_value, smallest,
                            detectable_mean_difference(int(terms_freedom) + 1, error, losses[1]), power,
                            [max(gain - smallest, -bound), min(gain + smallest, bound)], error)


def compare_squared_errors(squared: np.ndarray, other_squared: np.ndarray, size: float) -> PairedComparison:
    """Return the comparison of squared errors (n,) with another model's; size : of the true quantities."""
    n = len(squared)
    rounding = (ROUNDING * size) ** 2
    ours, theirs = (np.where(squares > rounding, squares, 0.0) for squares in (squared, other_squared))
    # Equal models differ by rounding: such points count as equal.
    ours = np.where(np.abs(np.sqrt(ours) - np.sqrt(theirs)) <= SAME * size, theirs, ours)
    square = float(theirs.mean())
    gain = float(np.sqrt(square) - np.sqrt(ours.mean()))
    if n < 2 or not (ours != theirs).any():  # no difference can be seen
        return PairedComparison(n, gain, float(np.sqrt(square)), 1.0, None, None, float(n > 1))
    error = float((theirs - ours).std(ddof=1)) / np.sqrt(n)

    def in_rmse(difference: float | None) -> float | None:
        return None if difference is None or difference > square else float(
            np.sqrt(square) - np.sqrt(square - difference))

    p_value = paired_t(ours - theirs)
    return PairedComparison(n, gain, float(np.sqrt(square)), p_value, in_rmse(significant_t(n - 1) * error),
                            in_rmse(detectable_mean_difference(n, error, square)), t_power(n, square / 2, error),
                            interval_of_paired_rmse(ours, theirs, significant=p_value < LEVEL))


def paired_t(differences: np.ndarray) -> float:
    """Return the p-value of the paired t-test of differences (n,), n > 1, that are not all 0; 1 if they overflow.

    `scipy.stats.ttest_rel` would warn of nearly equal ones, and a thread cannot suppress warnings for itself alone.
    """
    n = len(differences)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = differences.mean()
        variance = ((differences - mean) ** 2).mean() * (n / (n - 1))
        p_value = t_test(mean / np.sqrt(variance / n), n - 1)
    return p_value if np.isfinite(p_value) else 1.0


def unlabeled_verdict(true: Target, predictions: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """Return the gains of `model` over each baseline on the same points, and whether the unlabeled data helped; JSON.

    That is the verdict over the base kernel; "helped" also needs a lower error than with a shuffled graph, if there is
    one. undefined_over : the baselines for which the scoring of the target is undefined.
    """
    comparisons = {name: compare(true, predictions["model"], other)
                   for name, other in predictions.items() if name != "model"}
    pairs = {name: pair for name, pair in comparisons.items() if pair is not None}
    undefined = [name for name in comparisons if name not in pairs]
    return {**verdict_of(pairs), **({"undefined_over": undefined} if undefined else {})}


def verdict_of(pairs: Mapping[str, PairedComparison]) -> dict[str, Any]:
    """Return the comparisons of a model with others by name, and whether the unlabeled data helped; JSON."""
    verdict: dict[str, Any] = {f"over_{name}": pair.described() for name, pair in pairs.items()}
    if "base" not in pairs:
        return verdict
    answer = pairs["base"].verdict
    control = pairs.get("shuffled")
    by_chance = answer == HELPED and control is not None and control.gain <= 0
    return {**verdict, "unlabeled_data": UNCLEAR if by_chance else answer}

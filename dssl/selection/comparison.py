"""Paired tests of two models on the same n points, intervals of the difference, and whether the unlabeled data helped.

An interval inverts the test: it holds the differences D for which the test statistic of the hypothesis "the difference
is D" is below its quantile:

    shares      Tango's score statistic `(g - l - n D) / sqrt(n (2 q + D (1 - D)))` of g points that only the first
                model classifies correctly and l points that only the second does, q the most likely share of the
                latter if the difference is D. For D = 0 it is McNemar's without the correction of continuity
    rmse        `(mean a - (B - D)^2) / s` of the squared errors a of the first model and b of the second, B the root of
                the mean of b, s the standard error of the mean of `a - (1 - D / B) b`, by Student's t. For D = 0 it is
                the paired t-test, and near the observed difference the delta method. Of several ranges of such D,
                the interval is the one with the observed difference

Each contains 0 exactly where the test of the comparison is not significant. The exact test of McNemar is stricter than
the score statistic: where it alone is not significant, the interval is extended to 0. Other metrics have the statistic
of `compare_in_scoring`, whose standard error does not depend on D.

References
----------
Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample design",
Statistics in Medicine 1998; Newcombe, "Improved confidence intervals for the difference between binomial proportions
based on paired data", Statistics in Medicine 1998 (a comparison of such intervals).
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import numpy as np

from ..base.wilson import MIN_PAIRS, Z
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
STEPS = 60  # of a bisection, and of the search for a value beyond an end


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same n points, by a paired test.

    gain : decrease of the error, or of the rmse, from `baseline`, that of the other model. smallest : the smallest
    difference that can be significant on these points; detectable : the smallest that is significant in four of five
    such test sets; None if there is none. power : the probability of detecting half the error of the other model (for
    quantities half its mean square), but at least 1 %. interval : the 95 % interval of the gain, which contains 0
    exactly where the test is not significant; None where it is unknown. standard_error : of the
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

    def described(self) -> dict[str, object]:
        """Return all but the error of the other model and the standard error; JSON."""
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


def unlabeled_verdict(true: Target, predictions: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, object]:
    """Return the gains of `model` over each baseline on the same points, and whether the unlabeled data helped; JSON.

    That is the verdict over the base kernel; "helped" also needs a lower error than with a shuffled graph, if there is
    one. undefined_over : the baselines for which the scoring of the target is undefined.
    """
    comparisons = {name: compare(true, predictions["model"], other)
                   for name, other in predictions.items() if name != "model"}
    pairs = {name: pair for name, pair in comparisons.items() if pair is not None}
    undefined = [name for name in comparisons if name not in pairs]
    return {**verdict_of(pairs), **({"undefined_over": undefined} if undefined else {})}


def verdict_of(pairs: Mapping[str, PairedComparison]) -> dict[str, object]:
    """Return the comparisons of a model with others by name, and whether the unlabeled data helped; JSON."""
    verdict: dict[str, object] = {f"over_{name}": pair.described() for name, pair in pairs.items()}
    if "base" not in pairs:
        return verdict
    answer = pairs["base"].verdict
    control = pairs.get("shuffled")
    by_chance = answer == HELPED and control is not None and control.gain <= 0
    return {**verdict, "unlabeled_data": UNCLEAR if by_chance else answer}


def interval_of_paired_shares(wins: int, losses: int, n: int, *, significant: bool) -> list[float]:
    """Return the interval of `(wins - losses) / n`; significant : whether McNemar's test is."""

    def inside(difference: float) -> bool:
        slack = difference * (1 - difference)
        linear = (2 * n - wins + losses) * difference - wins - losses
        only_second = (np.sqrt(max(linear**2 + 8 * n * losses * slack, 0.0)) - linear) / (4 * n)
        return bool((wins - losses - n * difference) ** 2 <= Z**2 * n * (2 * only_second + slack))

    return _ends(inside, (wins - losses) / n, (-1.0, 1.0), significant=significant)


def interval_of_paired_rmse(squared: np.ndarray, other_squared: np.ndarray, *, significant: bool) -> list[float] | None:
    """Return the interval of the decrease of the rmse from that of another model, from squared errors (n,), n > 1.

    None where the squares overflow.
    """
    mean, other = float(squared.mean()), float(np.sqrt(other_squared.mean()))
    scaled = other_squared / other if other > 0 else np.zeros(len(squared))
    with np.errstate(over="ignore", invalid="ignore"):
        covariance = np.cov(squared - other_squared, scaled) / len(squared)
    if not np.isfinite([mean, other, *covariance.ravel()]).all():
        return None
    limit = significant_t(len(squared) - 1)

    def inside(difference: float) -> bool:
        variance = covariance[0, 0] + 2 * difference * covariance[0, 1] + difference**2 * covariance[1, 1]
        return bool(abs(mean - (other - difference) ** 2) <= limit * np.sqrt(max(variance, 0.0)))

    gain = other - float(np.sqrt(mean))
    lowest = _outside(inside, gain, other + float(np.sqrt(mean)))
    # Where a few errors are much larger than the others, differences near B are inside again, beyond a gap.
    statistic = np.polynomial.Polynomial([mean - other**2, 2 * other, -1.0]) ** 2 - limit**2 * np.polynomial.Polynomial(
        [covariance[0, 0], 2 * covariance[0, 1], covariance[1, 1]])
    crossings = np.sort(statistic.roots().real)
    bounds = (-_before_gap(lambda difference: inside(-difference), -gain, -lowest, -crossings[::-1]),
              _before_gap(inside, gain, other, crossings))
    return _ends(inside, gain, bounds, significant=significant)


def _outside(inside: Callable[[float], bool], estimate: float, step: float) -> float:
    """Return a value below an estimate that is not inside, or that is farther away than any end could be."""
    for _ in range(STEPS):
        if not inside(estimate - step):
            break
        step *= 2
    return estimate - step


def _before_gap(inside: Callable[[float], bool], estimate: float, bound: float, crossings: np.ndarray) -> float:
    """Return the first value from an estimate up to a bound that is not inside, or the bound; crossings ascend."""
    places = [*crossings[(crossings > estimate) & (crossings < bound)], bound]
    middles = ((low + high) / 2 for low, high in pairwise(places))
    return float(next((middle for middle in middles if not inside(middle)), bound))


def _ends(inside: Callable[[float], bool], estimate: float, bounds: tuple[float, float], *,
          significant: bool) -> list[float]:
    """Return where the values around an estimate that are `inside` end; with 0 unless the test is significant."""
    low, high = bounds
    if significant:
        low, high = max(low, 0.0) if estimate > 0 else low, min(high, 0.0) if estimate < 0 else high
    ends = [_end(inside, estimate, bound) for bound in (low, high)]
    return ends if significant else [min(ends[0], 0.0), max(ends[1], 0.0)]


def _end(inside: Callable[[float], bool], within: float, outside: float) -> float:
    """Return the last value that is inside on the way from one that is to a bound."""
    if outside != 0 and inside(outside):
        return outside
    for _ in range(STEPS):
        middle = (within + outside) / 2
        within, outside = (middle, outside) if inside(middle) else (within, middle)
    return within

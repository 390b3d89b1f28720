"""95 % intervals of the difference of two models on the same n points, by inversion of their paired test.

An interval holds the differences D for which the test statistic of the hypothesis "the difference is D" is below its
quantile:

    shares      Tango's score statistic `(g - l - n D) / sqrt(n (2 q + D (1 - D)))` of g points that only the first
                model classifies correctly and l points that only the second does, q the most likely share of the
                latter if the difference is D. For D = 0 it is McNemar's without the correction of continuity
    rmse        `(mean a - (B - D)^2) / s` of the squared errors a of the first model and b of the second, B the root of
                the mean of b, s the standard error of the mean of `a - (1 - D / B) b`, by Student's t. For D = 0 it is
                the paired t-test, and near the observed difference the delta method. Of several ranges of such D,
                the interval is the one with the observed difference

Each contains 0 exactly where the test of the comparison is not significant. The exact test of McNemar is stricter than
the score statistic: where it alone is not significant, the interval is extended to 0. Other metrics have the statistic
of `comparison.compare_in_scoring`, whose standard error does not depend on D.

References
----------
Tango, "Equivalence test and confidence interval for the difference in proportions for the paired-sample design",
Statistics in Medicine 1998; Newcombe, "Improved confidence intervals for the difference between binomial proportions
based on paired data", Statistics in Medicine 1998 (a comparison of such intervals).
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from ..base.wilson import Z
from .interval import significant_t

STEPS = 60  # of a bisection, and of the search for a value beyond an end


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

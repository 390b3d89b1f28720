"""What a paired test on so many points can see: the exact power of McNemar's test, and that of the paired t-test.

A point counts for McNemar's test where one of two models alone is right. Of `d` such points, `g` for the first model,
the test asks `2 P(B >= g) < LEVEL` with B binomial of d and 1/2, so that 5 points say nothing and 6 that all go one way
do. d is binomial too: of m points, and the shares of those that one model alone gets right.

References
----------
McNemar, "Note on the sampling error of the difference between correlated proportions", Psychometrika 1947; Duffy,
"Asymptotic and exact power for the McNemar test and its analogue with R controls per case", Biometrics 1984.
"""

from collections.abc import Callable

import numpy as np

from ..base.profiler import library

LEVEL = 0.05  # of the tests
SURE = 0.8  # of test sets, in which a difference that a test is said to find is found
FEWEST = 6  # points that all go one way: 2 / 2^6 < LEVEL
MANY = 1000  # points that count, from which their number and their sign are as good as normal
SPREAD = 6.0  # standard deviations of the number of points that count
CERTAIN = 40.0  # standard errors
ROUNDING = 1e-12  # of the largest difference, where a bisection ends
STEPS = 12  # of a bisection between a number and its double


def mcnemar_power(m: int, gained: float, lost: float) -> float:
    """Return the share of test sets of m points in which the test calls the first model better.

    gained, lost : shares of points that the first model alone gets right, and that the second alone does.
    """
    stats = library("scipy.stats")
    binom, norm = stats.binom, stats.norm
    differ = min(gained + lost, 1.0)
    if differ <= 0:
        return 0.0
    if m * differ > MANY:
        gain, deviation = gained - lost, np.sqrt(max(differ - (gained - lost) ** 2, 1e-12))
        return float(norm.sf((norm.isf(LEVEL / 2) * np.sqrt(differ) - gain * np.sqrt(m)) / deviation))
    around = SPREAD * np.sqrt(m * differ * (1 - differ)) + SPREAD
    d = np.arange(max(FEWEST, int(m * differ - around)), min(m, int(m * differ + around)) + 1)
    if not len(d):
        return 0.0
    needed = binom.isf(LEVEL / 2, d, 0.5) + 1
    return float(binom.pmf(d, m, differ) @ binom.sf(needed - 1, d, gained / differ))


def least_error_difference(m: int, lost: float = 0.0) -> float | None:
    """Return the smallest difference of two errors that the test finds in `SURE` of test sets; None where none is.

    lost : the share of points that the better model gets wrong and the other right.
    """
    return _least(lambda gain: mcnemar_power(m, lost + gain, lost), 1 - 2 * lost)


def t_power(m: int, gain: float, standard_error: float) -> float:
    """Return the share of test sets of m points in which the paired t-test calls a mean difference of `gain` real."""
    stats = library("scipy.stats")
    if m < 2 or gain <= 0:
        return 0.0
    if gain > CERTAIN * standard_error:  # the noncentral distribution is lost to rounding out there
        return 1.0
    return float(stats.nct.sf(stats.t.isf(LEVEL / 2, m - 1), m - 1, gain / standard_error))


def least_mean_difference(m: int, standard_error: float, most: float) -> float | None:
    """Return the smallest mean difference, of `most` at most, that the t-test finds in `SURE` of test sets."""
    return _least(lambda gain: t_power(m, gain, standard_error), most)


def _least(power: Callable[[float], float], most: float) -> float | None:
    """Return where a growing power reaches `SURE`, by bisection; None beyond the most."""
    if most <= 0 or power(most) < SURE:
        return None
    low, high = most / 2, most
    while low > ROUNDING * most and power(low) >= SURE:
        low, high = low / 2, low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= SURE else (middle, high)
    return high

"""95 % intervals of an error on new points from some that were drawn like them, and the power of paired tests.

    classes     Wilson's: the shares p for which the observed share lies within z standard errors sqrt(p (1 - p) / n)
    mean recall Wilson's of each class, whose distances from the recalls add in squares
    quantities  of the logarithm of the mean squared error m, whose standard error is s / (m sqrt(n)): quantiles of its
                studentized bootstrap, and beyond `MAX_RESAMPLED` points those of t

Wilson's covers 95 % on the mean over errors from 1 to 50 %, where the exact interval of Clopper and Pearson covers 97
to 98 % of 20 to 50 points (`tests/benchmarks/coverage.py`).

A point counts for McNemar's test where one of two models alone is right. Of d such points, g for the first model, the
test asks `2 P(B >= g) < LEVEL` with B binomial of d and 1/2, so that 5 points say nothing and 6 that all go one way do.
d is binomial too: of m points, and the shares of those that one model alone gets right.

References
----------
McNemar, "Note on the sampling error of the difference between correlated proportions", Psychometrika 1947; Duffy,
"Asymptotic and exact power for the McNemar test and its analogue with R controls per case", Biometrics 1984; Wilson,
"Probable inference, the law of succession, and statistical inference", JASA 1927; Brown, Cai, DasGupta,
"Interval estimation for a binomial proportion", Statistical Science 2001; Zou, Donner, "Construction of confidence
limits about effect measures: a general approach", Statistics in Medicine 2008; Efron, Tibshirani, "An introduction to
the bootstrap", 1993, section 12.5.
"""

from collections.abc import Callable, Sequence

import numpy as np

from ..base.profiler import library

CONFIDENCE = 0.95
MAX_RESAMPLED, RESAMPLES = 2000, 1000  # points, and draws of as many of them
ROUNDING = 1e-12  # a standard error of a share that is 0
FEWEST_RESAMPLED = 10  # points below which draws too often have no spread


def interval_of_share(share: float, n: float) -> list[float]:
    """Return Wilson's interval of a share that was observed at n points."""
    z = float(library("scipy.stats").norm.isf((1 - CONFIDENCE) / 2))
    center = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2)) / (1 + z**2 / n)
    low = 0.0 if share <= 0 else max(0.0, float(center - half))  # without the rounding at the ends
    return [low, 1.0 if share >= 1 else min(1.0, float(center + half))]


def interval_of_mean_share(shares: Sequence[float], counts: Sequence[float]) -> list[float]:
    """Return the interval of the mean of shares (k,), each observed at points of its own, (k,) of them.

    Each end is as far from the mean as the root of the sum of the squared distances of the ends of Wilson's intervals
    from their shares, over k. A share of 1 at three points leaves room for mistakes, where its standard error is 0.
    """
    ends = np.array([interval_of_share(*pair) for pair in zip(shares, counts, strict=True)])
    p = np.asarray(shares)
    low, high = np.sqrt(((ends - p[:, None]) ** 2).sum(axis=0)) / len(p)
    return [max(0.0, float(p.mean() - low)), min(1.0, float(p.mean() + high))]


def interval_of_score(value: float, standard_error: float | None, n: float | None, *,
                      share: bool) -> list[float] | None:
    """Return the interval of a score of which the standard error over points is known; None where it does not follow.

    share : of a score between 0 and 1 Wilson's interval, of as many points as its standard error is of, and of n where
    that is 0. Of others, which are positive, that of the logarithm, by the quantiles of t of n points.
    """
    if not n or n < 2 or standard_error is None or not np.isfinite([value, standard_error]).all():
        return None
    if share:
        bounded = min(max(value, 0.0), 1.0)
        is_spread = standard_error > ROUNDING and 0 < bounded < 1
        return interval_of_share(bounded, bounded * (1 - bounded) / standard_error**2 if is_spread else n)
    if value <= 0:
        return [0.0, 0.0] if value == standard_error == 0 else None
    reach = float(np.exp(library("scipy.stats").t.ppf((1 + CONFIDENCE) / 2, n - 1) * standard_error / value))
    return [value / reach, value * reach]


def interval_of_rmse(squared: np.ndarray, random_state: int = 0) -> list[float] | None:
    """Return the interval of a root mean squared error from squared errors (n,); None of fewer than two."""
    n = len(squared)
    mean = float(squared.mean()) if len(squared) else 0.0
    if n < 2:
        return None
    if mean == 0:
        return [0.0, 0.0]
    relative = squared / mean
    error = float(relative.std(ddof=1)) / np.sqrt(n)
    t = library("scipy.stats").t
    low, high = (float(t.ppf(side, n - 1)) for side in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    if FEWEST_RESAMPLED <= n <= MAX_RESAMPLED and error > 0:
        rng = np.random.default_rng(random_state)
        studentized = np.empty(RESAMPLES)
        for draw in range(RESAMPLES):
            drawn = relative[rng.integers(0, n, n)]
            center = max(float(drawn.mean()), np.finfo(float).tiny)
            spread = float(drawn.std(ddof=1)) / (center * np.sqrt(n))
            studentized[draw] = np.log(center) / max(spread, np.finfo(float).eps)
        low, high = np.quantile(studentized, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return [float(np.sqrt(mean * np.exp(-end * error))) for end in (high, low)]


LEVEL = 0.05  # of the tests
SURE = 0.8  # of test sets, in which a difference that a test is said to find is found
FEWEST = 6  # points that all go one way: 2 / 2^6 < LEVEL
MANY = 1000  # points that count, from which their number and their sign are as good as normal
SPREAD = 6.0  # standard deviations of the number of points that count
CERTAIN = 40.0  # standard errors
BISECTED = 1e-12  # of the largest difference, where a bisection ends
STEPS = 12  # of a bisection between a number and its double


def mcnemar_power(m: int, gained: float, lost: float) -> float:
    """Return the share of test sets of m points in which the test calls the first model better.

    gained, lost : shares of points that the first model alone gets right, and that the second alone does.
    """
    stats = library("scipy.stats")
    binom = stats.binom
    norm = stats.norm
    differ = min(gained + lost, 1.0)
    if differ <= 0:
        return 0.0
    if m * differ > MANY:
        gain = gained - lost
        deviation = np.sqrt(max(differ - (gained - lost) ** 2, 1e-12))
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
    low = most / 2
    high = most
    while low > BISECTED * most and power(low) >= SURE:
        low, high = low / 2, low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= SURE else (middle, high)
    return high

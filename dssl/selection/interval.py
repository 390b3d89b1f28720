"""95 % intervals of an error on new points from some that were drawn like them, and the power of paired tests.

    classes     Wilson's (`dssl.base.wilson`)
    mean recall Wilson's of each class, combined by the squares of their half widths
    quantities  of the logarithm of the mean squared error m, whose standard error is s / (m sqrt(n)): quantiles of its
                studentized bootstrap, and above `MAX_RESAMPLED` points those of t

Wilson's interval covers 95 % on average over errors from 1 to 50 %; the exact interval of Clopper and Pearson covers 97
to 98 % with 20 to 50 points (`tests/benchmarks/coverage.py`).

McNemar's test counts the d points that only one of two models classifies correctly. With g of them for the first model
the difference is significant if `2 P(B >= g) < LEVEL`, B binomial with d and 1/2: 6 points of 6 are, 5 of 5 are not.
In the power, d is binomial too, with the number of points m and the share of such points.

References
----------
McNemar, "Note on the sampling error of the difference between correlated proportions", Psychometrika 1947; Duffy,
"Asymptotic and exact power for the McNemar test and its analogue with R controls per case", Biometrics 1984; Zou,
Donner, "Construction of confidence limits about effect measures: a general approach", Statistics in Medicine 2008;
Efron, Tibshirani, "An introduction to the bootstrap", 1993, section 12.5.
"""

from collections.abc import Callable, Sequence

import numpy as np
from scipy.special import betainc, gammaln, nctdtr, ndtr, ndtri, stdtr, stdtrit, xlog1py, xlogy

from ..base.wilson import CONFIDENCE, MIN_PAIRS, interval_of_share

MAX_RESAMPLED, RESAMPLES = 2000, 1000  # points, and draws of as many of them
UNBOUNDED = 10.0  # errors, beyond which an upper end of their mean says nothing
ROUNDING = 1e-12  # standard error of a share that counts as 0
MIN_RESAMPLED = 10  # points, below which too many resamples have no spread


def interval_of_mean_share(shares: Sequence[float], counts: Sequence[float]) -> list[float]:
    """Return the interval of the mean of k shares, each observed at its own count of points.

    The distance of each end from the mean is the root of the summed squared distances of Wilson's ends, over k.
    """
    ends = np.array([interval_of_share(*pair) for pair in zip(shares, counts, strict=True)])
    p = np.asarray(shares)
    low, high = np.sqrt(((ends - p[:, None]) ** 2).sum(axis=0)) / len(p)
    return [max(0.0, float(p.mean() - low)), min(1.0, float(p.mean() + high))]


def interval_of_score(value: float, standard_error: float | None, n: float | None, *,
                      share: bool) -> list[float] | None:
    """Return the interval of a score from its standard error over n points; None where it is undefined.

    share : whether the score lies between 0 and 1. Then it is Wilson's interval for the number of points that has this
    standard error, or n if that is 0; otherwise the interval of the logarithm by the quantiles of t.
    """
    if not n or n < 2 or standard_error is None or not np.isfinite([value, standard_error]).all():
        return None
    if share:
        bounded = min(max(value, 0.0), 1.0)
        is_spread = standard_error > ROUNDING and 0 < bounded < 1
        return interval_of_share(bounded, bounded * (1 - bounded) / standard_error**2 if is_spread else n)
    if value <= 0:
        return [0.0, 0.0] if value == standard_error == 0 else None
    factor = float(np.exp(stdtrit(n - 1, (1 + CONFIDENCE) / 2) * standard_error / value))
    return [value / factor, value * factor]


def interval_of_rmse(squared: np.ndarray, random_state: int = 0) -> list[float] | None:
    """Return the interval of a root mean squared error from squared errors (n,).

    None of fewer than two, and where one is so much larger than the others that the upper end bounds nothing: it is
    more than `UNBOUNDED` times the error.
    """
    n = len(squared)
    mean = float(squared.mean()) if len(squared) else 0.0
    if n < 2:
        return None
    if mean == 0:
        return [0.0, 0.0]
    relative = squared / mean
    error = float(relative.std(ddof=1)) / np.sqrt(n)
    low, high = (float(stdtrit(n - 1, side)) for side in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    if MIN_RESAMPLED <= n <= MAX_RESAMPLED and error > 0:
        rng = np.random.default_rng(random_state)
        studentized = np.empty(RESAMPLES)
        for draw in range(RESAMPLES):
            drawn = relative[rng.integers(0, n, n)]
            center = max(float(drawn.mean()), np.finfo(float).tiny)
            spread = float(drawn.std(ddof=1)) / (center * np.sqrt(n))
            studentized[draw] = np.log(center) / max(spread, np.finfo(float).eps)
        low, high = np.quantile(studentized, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    with np.errstate(over="ignore"):  # of resamples without the one large error
        ends = [float(np.sqrt(mean) * np.exp(-end * error / 2)) for end in (high, low)]
    return ends if ends[1] <= UNBOUNDED * np.sqrt(mean) else None


LEVEL = 0.05  # of the tests
POWER = 0.8  # probability with which a detectable difference is significant
MAX_EXACT = 1000  # discordant points, above which the normal approximation is used
SPREAD = 6.0  # standard deviations of the number of discordant points in the sum
CERTAIN = 35.0  # standard errors, above which the power is 1
MIN_RELATIVE = 1e-12  # where the search for a difference ends, relative to the largest
STEPS = 12  # of a bisection between a number and its double


def mcnemar_power(m: int, wins: float, losses: float) -> float:
    """Return the probability that McNemar's test on m points finds the first model better.

    wins, losses : the shares of points that only the first, or only the second model classifies correctly.
    """
    differ = min(wins + losses, 1.0)
    if differ <= 0:
        return 0.0
    if m * differ > MAX_EXACT:
        gain = wins - losses
        deviation = np.sqrt(max(differ - (wins - losses) ** 2, 1e-12))
        return float(ndtr((gain * np.sqrt(m) + ndtri(LEVEL / 2) * np.sqrt(differ)) / deviation))
    around = SPREAD * np.sqrt(m * differ * (1 - differ)) + SPREAD
    d = np.arange(max(MIN_PAIRS, int(m * differ - around)), min(m, int(m * differ + around)) + 1)
    if not len(d):
        return 0.0
    probability = np.exp(gammaln(m + 1) - gammaln(d + 1) - gammaln(m - d + 1)
                         + xlogy(d, differ) + xlog1py(m - d, -differ))
    allowed = np.floor((d + np.sqrt(d)) / 2)  # a standard deviation above the mean, which is not significant
    while (large := more_than(allowed, d, 0.5) > LEVEL / 2).any():
        allowed[large] += 1
    return float(probability @ more_than(allowed, d, wins / differ))


def more_than(count: float | np.ndarray, n: int | np.ndarray, p: float) -> np.ndarray:
    """Return the probability that a binomial of n and p is more than a count."""
    return np.where(count < n, betainc(count + 1, np.maximum(n - count, 1), p), 0.0)


def sign_test(wins: int, losses: int) -> float:
    """Return the two-sided p-value of the exact sign test; 1 of no signs."""
    n, rarer = wins + losses, min(wins, losses)
    return min(1.0, float(2 * more_than(n - rarer - 1, n, 0.5))) if n else 1.0


def t_test(t: float, freedom: float) -> float:
    """Return the two-sided p-value of Student's t."""
    return float(2 * stdtr(freedom, -abs(t)))


def significant_t(freedom: float) -> float:
    """Return the smallest value of Student's t that is significant."""
    return -float(stdtrit(freedom, LEVEL / 2))


def detectable_error_difference(m: int, losses: float = 0.0) -> float | None:
    """Return the smallest difference of two errors that McNemar's test detects with the power `POWER`; None for none.

    losses : the share of points that only the worse model classifies correctly.
    """
    return _smallest_detectable(lambda gain: mcnemar_power(m, losses + gain, losses), 1 - 2 * losses)


def t_power(m: int, gain: float, standard_error: float) -> float:
    """Return the probability that the paired t-test on m points finds a mean difference of `gain` significant."""
    if m < 2 or gain <= 0:
        return 0.0
    if gain > CERTAIN * standard_error:  # nctdtr can be NaN above 37
        return 1.0
    return float(1 - nctdtr(m - 1, gain / standard_error, significant_t(m - 1)))


def detectable_mean_difference(m: int, standard_error: float, largest: float) -> float | None:
    """Return the smallest mean difference up to `largest` that the t-test detects with `POWER`; None for none."""
    return _smallest_detectable(lambda gain: t_power(m, gain, standard_error), largest)


def _smallest_detectable(power: Callable[[float], float], largest: float) -> float | None:
    """Return the difference, at most `largest`, at which an increasing power is `POWER`, by bisection; None for none.
    """
    if largest <= 0 or power(largest) < POWER:
        return None
    low = largest / 2
    high = largest
    while low > MIN_RELATIVE * largest and power(low) >= POWER:
        low, high = low / 2, low
    for _ in range(STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if power(middle) >= POWER else (middle, high)
    return high

"""95 % intervals of an error on new points from some that were drawn like them.

    classes     Wilson's: the shares p for which the observed share lies within z standard errors sqrt(p (1 - p) / n)
    mean recall Wilson's of each class, whose distances from the recalls add in squares
    quantities  of the logarithm of the mean squared error m, whose standard error is s / (m sqrt(n)): quantiles of its
                studentized bootstrap, and beyond `MOST_RESAMPLED` points those of t

Wilson's covers 95 % on the mean over errors from 1 to 50 %, where the exact interval of Clopper and Pearson covers 97
to 98 % of 20 to 50 points (`tests/benchmarks/coverage.py`).

References
----------
Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927; Brown, Cai, DasGupta,
"Interval estimation for a binomial proportion", Statistical Science 2001; Zou, Donner, "Construction of confidence
limits about effect measures: a general approach", Statistics in Medicine 2008; Efron, Tibshirani, "An introduction to
the bootstrap", 1993, section 12.5.
"""

from collections.abc import Sequence

import numpy as np

from ..base.profiler import library

CONFIDENCE = 0.95
MOST_RESAMPLED, RESAMPLES = 2000, 1000  # points, and draws of as many of them
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
    ends, p = np.array([interval_of_share(*pair) for pair in zip(shares, counts, strict=True)]), np.asarray(shares)
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
    n, mean = len(squared), float(squared.mean()) if len(squared) else 0.0
    if n < 2:
        return None
    if mean == 0:
        return [0.0, 0.0]
    relative = squared / mean
    error = float(relative.std(ddof=1)) / np.sqrt(n)
    t = library("scipy.stats").t
    low, high = (float(t.ppf(side, n - 1)) for side in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2))
    if FEWEST_RESAMPLED <= n <= MOST_RESAMPLED and error > 0:
        rng = np.random.default_rng(random_state)
        studentized = np.empty(RESAMPLES)
        for draw in range(RESAMPLES):
            drawn = relative[rng.integers(0, n, n)]
            center = max(float(drawn.mean()), np.finfo(float).tiny)
            spread = float(drawn.std(ddof=1)) / (center * np.sqrt(n))
            studentized[draw] = np.log(center) / max(spread, np.finfo(float).eps)
        low, high = np.quantile(studentized, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return [float(np.sqrt(mean * np.exp(-end * error))) for end in (high, low)]

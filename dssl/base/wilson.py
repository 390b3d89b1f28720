"""Wilson's interval of a share: those p for which the share is within z standard errors sqrt(p (1 - p) / n) of p.

References
----------
Wilson, "Probable inference, the law of succession, and statistical inference", JASA 1927; Brown, Cai, DasGupta,
"Interval estimation for a binomial proportion", Statistical Science 2001.
"""

from math import sqrt

MIN_PAIRS = 6  # discordant points of one sign that are significant: 2 / 2^6 < 1 - CONFIDENCE
CONFIDENCE = 0.95
SOLVER_ROUNDING = 1e-6  # of an error, below which a difference is that of the solver
Z = 1.959963984540054  # of a normal variable that much is within as many standard deviations


def interval_of_share(share: float, n: float) -> list[float]:
    """Return Wilson's 95 % interval of a share that was observed at n points."""
    center = (share + Z**2 / (2 * n)) / (1 + Z**2 / n)
    half = Z * sqrt(share * (1 - share) / n + Z**2 / (4 * n**2)) / (1 + Z**2 / n)
    low = 0.0 if share <= 0 else max(0.0, center - half)  # without the rounding at the ends
    return [low, 1.0 if share >= 1 else min(1.0, center + half)]

"""How well the probabilities of predictions agree with how often these are correct.

The points are sorted by the probability c of their predicted class and cut into bins of equal counts; equal
probabilities share a bin. With the share r_b of correct predictions and the mean probability c_b in bin b of n_b
points, the expected calibration error is

    sum_b n_b / n |c_b - r_b|

Few points in a bin make it positive also where the probabilities are exact: then it is about
`sum_b min(sqrt(2 / pi) s_b, 2 s_b^2) / n`, s_b^2 the sum of `c (1 - c)` over the bin, of a normal variable or of rare
events.

References
----------
Naeini, Cooper, Hauskrecht, "Obtaining well calibrated probabilities using Bayesian binning", AAAI 2015; Guo, Pleiss,
Sun, Weinberger, "On calibration of modern neural networks", ICML 2017; Nguyen, O'Connor, "Posterior calibration and
exploratory analysis for natural language processing models", EMNLP 2015 (bins of equal counts).
"""

import numpy as np

from ..base.digest import JsonObject
from ..base.wilson import interval_of_share

MIN_POINTS = 50  # with a probability, for bins
MAX_BINS, POINTS_PER_BIN = 10, 10


def expected_calibration_error(probabilities: np.ndarray, outcomes: np.ndarray, bins: np.ndarray) -> float:
    """Return the expected calibration error of probabilities (n,) of outcomes (n,) 0 or 1, in bins (n,)."""
    return float(np.abs(np.bincount(bins, probabilities - outcomes)).sum() / len(bins))


def reliability_of(probabilities: np.ndarray, correct: np.ndarray) -> JsonObject | None:
    """Return the mean probability and the share of correct predictions, over all points and in bins; JSON.

    probabilities (n,) : of the predicted classes, NaN where there is none. correct (n,) : bool. None of fewer than
    `MIN_POINTS` points with a probability. O(n log n) time.
    """
    some = np.isfinite(probabilities)
    c = probabilities[some].astype(np.float64)
    r = correct[some].astype(np.float64)
    n = len(c)
    if n < MIN_POINTS:
        return None
    n_bins = min(MAX_BINS, n // POINTS_PER_BIN)
    starts = np.unique(np.sort(c)[np.arange(1, n_bins) * n // n_bins])
    bins = np.searchsorted(starts, c, side="right")
    counts = np.bincount(bins)
    filled = counts > 0
    variances = np.bincount(bins, c * (1 - c))
    by_chance = np.minimum(np.sqrt(2 / np.pi * variances), 2 * variances).sum() / n
    rows = [{"n": int(size), "probability": float(total / size), "correct": float(right / size),
             "interval": interval_of_share(float(right / size), int(size))}
            for size, total, right in zip(counts[filled], np.bincount(bins, c)[filled], np.bincount(bins, r)[filled],
                                        strict=True)]
    return {"n": n, "calibration_error": expected_calibration_error(c, r, bins), "by_chance": float(by_chance),
            "probability": float(c.mean()), "correct": float(r.mean()),
            "interval": interval_of_share(float(r.mean()), n), "bins": rows}

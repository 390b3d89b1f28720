"""Probabilities from scores: one slope, calibrated on held-out scores; and how well they agree with what is correct.

The folds share one Gram matrix, so a fold costs a fit on l points and no graph: held-out points stay in the graph.

For the reliability of probabilities the points are sorted by the probability c of their predicted class and cut into
bins of equal counts; equal probabilities share a bin. With the share r_b of correct predictions and the mean
probability c_b in bin b of n_b points, the expected calibration error is

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

from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np

from ..base.digest import JsonObject
from ..base.wilson import interval_of_share
from ..learners.class_prior import LABELS, ClassPrior
from ..learners.prior_shift import PriorShift, calibration_labels, prior_shift
from ..learners.probabilities import FOLDS, Calibration, fit_calibration
from ..learners.target.coding import ClassCoding, Coding, margins_of
from ..learners.target.target import Classes, Target
from .folds import labeled_folds

ONE_BY_ONE = 200  # labels, up to which a fold has one label of each class
DIVIDED = 500  # points, above which a single fold is divided to calibrate each part on the others
CALIBRATIONS = 10  # upper bound, for the scores of one repetition
MIN_POINTS = 50  # with a probability, for bins
MAX_BINS, POINTS_PER_BIN = 10, 10


def calibration_folds(target: Target, random_state: int, *, a_fit_each: bool = False) -> list[np.ndarray]:
    """Return folds of about one label of each class; the only label of a class is not held out.

    So the class frequencies among the training labels are those of all labels; leave-one-out would bias them against
    the class of the held-out point. Above `ONE_BY_ONE` labels, or if each fold needs a fit, there are at most `FOLDS`.
    """
    sizes = np.bincount(target.strata())
    smallest = int(sizes[sizes > 1].min())
    n_folds = min(smallest, FOLDS) if a_fit_each or len(target.coded) > ONE_BY_ONE else smallest
    return labeled_folds(target.strata(), n_folds, random_state)


def can_calibrate(target: Target) -> TypeGuard[Classes]:
    """Return whether a class has two labels, so that one can be held out."""
    return isinstance(target, Classes) and bool(np.bincount(target.coded, minlength=1).max() >= 2)


def shift_of(target: Target, values: Callable[[], np.ndarray], coding: Coding, at_points: np.ndarray,
             weight: np.ndarray | None = None, assumed: ClassPrior = LABELS) -> PriorShift:
    """Return the shift of the values of a model and the calibration of the sum, from held-out values.

    values : makes the held-out values (l, c) of the labeled points, NaN where a point is not held out; it is called if
    `can_calibrate`. at_points (n, c) : the values at points to be predicted, which give the slope otherwise.
    """
    n_columns = at_points.shape[1]
    if can_calibrate(target):
        return prior_shift(target, values(), coding, weight, assumed, n_columns=n_columns)
    return prior_shift(target, np.empty((0, n_columns)), coding, weight, assumed, np.arange(0),
                       at_points=lambda: at_points)


def calibration_of(target: Target, values: Callable[[], np.ndarray], coding: Coding,
                   weight: np.ndarray | None = None) -> Calibration | None:
    """Return the calibration of a model that was fitted with known class sizes; values : as in `shift_of`.

    The labels are weighted to the frequencies of the classes.
    """
    if not can_calibrate(target):
        return None
    assert isinstance(coding, ClassCoding)
    held_out = values()
    wanted, labels = (prior.shares(target.coded, target.names, weight) for prior in (target.prior, LABELS))
    counts = (wanted / labels)[target.coded] * (1.0 if weight is None else weight)
    used = calibration_labels(target, held_out)
    return fit_calibration(margins_of(held_out[used], coding), target.coded[used], counts[used])


def shared_calibrations(folds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the points that share a calibration, which is fitted to the other folds, or parts of a single large one.
    """
    if len(folds) == 1 and len(folds[0]) > DIVIDED:
        return [folds[0][first::FOLDS] for first in range(FOLDS)]
    return [np.concatenate(folds[first::CALIBRATIONS]) for first in range(min(len(folds), CALIBRATIONS))]


def held_out_probabilities(scores: np.ndarray, codes: np.ndarray, folds: Sequence[np.ndarray],
                           sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return the probability of each class (l, n_classes) at the held-out points, NaN at others.

    scores (l, n_classes) : held-out. The calibration of a fold is fitted to the other folds; of more than
    `CALIBRATIONS` folds several share one.
    """
    held_out = np.concatenate(folds)
    P = np.full(scores.shape, np.nan)
    for points in shared_calibrations(folds):
        seen = np.setdiff1d(held_out, points)
        weight = None if sample_weight is None else sample_weight[seen]
        P[points] = fit_calibration(scores[seen], codes[seen], weight).probabilities(scores[points])
    return P


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

"""Probabilities from scores: one slope, calibrated on scores of points that the learner was not fitted to.

The folds share one Gram matrix, so a fold costs a fit on l points and no graph. The kernel of a held-out point
comes from the graph of all points, as it does in the model itself.
"""

from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np

from ..learners.class_prior import LABELS, ClassPrior
from ..learners.prior_shift import PriorShift, judged_labels, prior_shift
from ..learners.probabilities import Calibration, fit_calibration
from ..learners.target.coding import ClassCoding, Coding, margins_of
from ..learners.target.target import Classes, Target
from .folds import labeled_folds

FOLDS = 5
ONE_BY_ONE = 200  # labels at most that are left out one of each class at a time
CALIBRATIONS = 10  # at most, of the scores of one repetition


def calibration_folds(target: Target, random_state: int, *, a_fit_each: bool = False) -> list[np.ndarray]:
    """Return what is left out at a time, of labels of which some class has two or more: about one label of each class.

    The only label of a class stays.

    So the shares of the classes among the labels that are left are those of all; without one label of its class alone,
    a point sees the others in excess, and with two labels a class its scores say the opposite. Of more than
    `ONE_BY_ONE` labels, and where a fold takes a fit (a_fit_each), there are `FOLDS` folds at most.
    """
    sizes = np.bincount(target.strata())
    least = int(sizes[sizes > 1].min())
    most = FOLDS if a_fit_each or len(target.coded) > ONE_BY_ONE else least
    return labeled_folds(target.strata(), min(least, most), random_state)


def can_calibrate(target: Target) -> TypeGuard[Classes]:
    """Return whether labels are classes of which one has two or more, so that one can be left out."""
    return isinstance(target, Classes) and bool(np.bincount(target.coded, minlength=1).max() >= 2)


def shift_of(target: Target, values: Callable[[], np.ndarray], coding: Coding, n_columns: int,
             weight: np.ndarray | None = None, assumed: ClassPrior = LABELS) -> PriorShift:
    """Return what is added to the values of a model, and the calibration of the sum, by those of labels held out.

    values : of labeled points without their own labels, (l, c), NaN of those that are not left out. Where
    `can_calibrate` says no they are not asked for, and nothing is calibrated.
    """
    if can_calibrate(target):
        return prior_shift(target, values(), coding, weight, assumed, n_columns=n_columns)
    return prior_shift(target, np.empty((0, n_columns)), coding, weight, assumed, np.arange(0))


def calibration_of(target: Target, values: Callable[[], np.ndarray], coding: Coding,
                   weight: np.ndarray | None = None) -> Calibration | None:
    """Return the calibration of a model whose values have the wanted frequencies already, as of known class sizes.

    values : as `shift_of` takes them. Labels count such that their classes have the wanted frequencies.
    """
    if not can_calibrate(target):
        return None
    assert isinstance(coding, ClassCoding)
    held_out = values()
    wanted, labels = (prior.shares(target.coded, target.names, weight) for prior in (target.prior, LABELS))
    counts = (wanted / labels)[target.coded] * (1.0 if weight is None else weight)
    judged = judged_labels(target, held_out)
    return fit_calibration(margins_of(held_out[judged], coding), target.coded[judged], counts[judged])


def shared_calibrations(folds: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Return the points of folds that share a calibration, which is fitted to the others."""
    return [np.concatenate(folds[first::CALIBRATIONS]) for first in range(min(len(folds), CALIBRATIONS))]


def held_out_probabilities(scores: np.ndarray, codes: np.ndarray, folds: Sequence[np.ndarray],
                           sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return the probability of each class (l, n_classes) at points held out, NaN at others.

    scores (l, n_classes), each without its point's fold. A fold's calibration is fitted to the other folds, so that it
    saw none of its points; of more than `CALIBRATIONS` folds several share one.
    """
    held = np.concatenate(folds)
    P = np.full(scores.shape, np.nan)
    for points in shared_calibrations(folds):
        seen = np.setdiff1d(held, points)
        weight = None if sample_weight is None else sample_weight[seen]
        P[points] = fit_calibration(scores[seen], codes[seen], weight).probabilities(scores[points])
    return P

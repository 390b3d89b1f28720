"""Probabilities from scores: one slope, calibrated on scores of points that the learner was not fitted to.

The folds share one Gram matrix, so a fold costs a fit on l points and no graph. The kernel of a held-out point
comes from the graph of all points, as it does in the model itself.
"""

from collections.abc import Callable, Sequence
from typing import TypeGuard

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import log_softmax

from ..learners.coding import margins_of
from ..learners.probabilities import Calibration
from ..learners.ridge_and_svm import LearnerParams
from ..learners.target import Classes, Target
from .folds import held_out, labeled_folds

FOLDS = 5
ONE_BY_ONE = 200  # labels at most that are left out one of each class at a time
CALIBRATIONS = 10  # at most, of the scores of one repetition
FARTHEST = 15.0  # of the logarithm of a slope from that of scores of unit size


def calibration_folds(target: Target, seed: int, *, a_fit_each: bool = False) -> list[np.ndarray]:
    """Return what is left out at a time, of two or more labels of each class: about one label of each class.

    So the shares of the classes among the labels that are left are those of all; without one label of its class alone,
    a point sees the others in excess, and with two labels a class its scores say the opposite. Of more than
    `ONE_BY_ONE` labels, and where a fold takes a fit (a_fit_each), there are `FOLDS` folds at most.
    """
    least = int(np.bincount(target.strata()).min())
    most = FOLDS if a_fit_each or len(target.coded) > ONE_BY_ONE else least
    return labeled_folds(target.strata(), min(least, most), seed)


def out_of_fold_margins(K: np.ndarray, target: Target, params: LearnerParams,
                        sample_weight: np.ndarray | None = None, seed: int = 0) -> np.ndarray:
    """Return what is calibrated: the mean margins (l, n_classes) of each labeled point, fitted without its fold.

    Of margins, not of pairs won: on mnist_vae, 10 labels a class, the log loss is 0.51, of votes 0.72.
    K : (l, l), the Gram matrix of the labeled points, two or more of each class. seed : of the folds.
    """
    folds = calibration_folds(target, seed, a_fit_each=True)
    return margins_of(*held_out([K] * len(folds), target, folds, params, sample_weight))


def can_calibrate(target: Target) -> TypeGuard[Classes]:
    """Return whether labels are classes with two or more each, so that one of each can be left out."""
    return isinstance(target, Classes) and bool(np.bincount(target.coded, minlength=len(target.names)).min() >= 2)


def calibrated(target: Target, margins: Callable[[], np.ndarray],
               weight: np.ndarray | None = None) -> Calibration | None:
    """Return the calibration of the margins (l, n_classes) of labeled points without their own labels.

    None of what `can_calibrate` says no of; then no margins are asked for.
    """
    return fit_calibration(margins(), target.coded, weight) if can_calibrate(target) else None


def fit_calibration(scores: np.ndarray, codes: np.ndarray, sample_weight: np.ndarray | None = None) -> Calibration:
    """Return the slope of highest probability given the classes of out-of-fold scores (l, n_classes).

    Its logarithm is normally distributed around that of scores of unit mean square, with deviation 1. One number, since
    few labels tell no more: coefficients of all classes follow what is peculiar to them, and where a point that is left
    out takes its share of the mean along, they turn scores around. On digits, wine, breast cancer and moons, 2 / 5 / 20
    / 50 labels a class, five learners, the mean log loss is 0.55 / 0.30 / 0.19 / 0.17; of a logistic regression with
    coefficients of all classes it was 1.6 / 0.39 / 0.20 / 0.17. A class that no code names has probability 0.

    sample_weight : (l,), relative to their mean.

    References
    ----------
    Guo, Pleiss, Sun, Weinberger, "On calibration of modern neural networks", ICML 2017 (temperature scaling), of scores
    held out as in Platt, "Probabilistic outputs for support vector machines", 1999.
    """
    weight = np.ones(len(codes)) if sample_weight is None else sample_weight / sample_weight.mean()
    size = float(np.sqrt((scores**2).mean())) or 1.0
    present = np.isin(np.arange(scores.shape[1]), codes)
    own = np.where(present, scores / size, -np.inf)

    def missed(log_slope: float) -> float:
        logs = log_softmax(np.exp(log_slope) * own, axis=1)
        return float(log_slope**2 / 2 - weight @ logs[np.arange(len(codes)), codes])

    found = minimize_scalar(missed, bounds=(-FARTHEST, FARTHEST), method="bounded", options={"xatol": 1e-8})
    return Calibration(float(np.exp(found.x)) / size, present)


def held_out_probabilities(scores: np.ndarray, codes: np.ndarray, folds: Sequence[np.ndarray],
                           sample_weight: np.ndarray | None = None) -> np.ndarray:
    """Return the probability of each class (l, n_classes) at points held out, NaN at others.

    scores (l, n_classes), each without its point's fold. A fold's calibration is fitted to the other folds, so that it
    saw none of its points; of more than `CALIBRATIONS` folds several share one.
    """
    held, found = np.concatenate(folds), np.full(scores.shape, np.nan)
    for first in range(min(len(folds), CALIBRATIONS)):
        own = np.concatenate(folds[first::CALIBRATIONS])
        seen = np.setdiff1d(held, own)
        weight = None if sample_weight is None else sample_weight[seen]
        found[own] = fit_calibration(scores[seen], codes[seen], weight).probabilities(scores[own])
    return found

"""Stacking: the shares of classifiers whose mixture gives the held-out labels the highest probability.

P_mi is the calibrated probability (`probabilities.py`) that classifier m gives to the class of the held-out label i.
From a prior, steps of the EM algorithm raise the likelihood of the mixture `sum_m share_m P_mi`:

    share_m  <-  share_m  mean_i (P_mi / sum_k share_k P_ki)

There are as many steps as labels beyond the first of each class, so few labels leave the prior nearly as it is.

References
----------
Yao, Vehtari, Simpson, Gelman, "Using stacking to average Bayesian predictive distributions", Bayesian Analysis 2018.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from .average import Member, label_groups, leave_one_out_shares, shares_of
from .class_prior import EQUAL, LABELS
from .prior_shift import calibration_labels
from .probabilities import fit_each_log_odds
from .target.target import Classes, Target

MIN_PROBABILITY = 1e-12  # of a label


def member_shares(members: Sequence[Member], target: Target, weight: np.ndarray | None,
                  prior: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares (m,) of functions, and nested shares (m, l) that do not depend on the label they predict.

    Those of quantities are as in `average.py`. Of classes, nested shares hold out the label's group. prior (m,) : 1 by
    default.
    """
    if target.n_strata == 1:
        return (shares_of([member.held_out for member in members], target, weight, prior),
                leave_one_out_shares(members, target, prior))
    assert isinstance(target, Classes)
    start = np.ones(len(members)) if prior is None else prior
    shares = mixture_shares(np.array([member.standardized for member in members]), target, weight, start)
    of_label = np.empty((len(members), len(target.labeled)))
    for number, group in enumerate(label_groups(len(target.labeled))):
        train = np.setdiff1d(np.arange(len(target.labeled)), group)
        values = np.array([member.group_held_out[number][train] for member in members
                           if member.group_held_out is not None])
        of_label[:, group] = mixture_shares(values, target.take(train), None if weight is None else weight[train],
                                            start)[:, None]
    return shares, of_label


def mixture_shares(scores: np.ndarray, target: Classes, weight: np.ndarray | None, prior: np.ndarray) -> np.ndarray:
    """Return the shares (m,) of classifiers from their held-out scores (m, l, n_classes), which assume equal classes.

    The only label of a class is ignored.
    """
    shares = prior / prior.sum()
    usable = calibration_labels(target, scores[0])
    if not len(usable):
        return shares
    P = label_probabilities(scores, target, weight, usable)
    w = np.ones(len(usable)) if weight is None else weight[usable]
    for _ in range(len(usable) - len(np.unique(target.coded[usable]))):
        shares = shares * (P @ (w / (shares @ P))) / w.sum()
    return shares / shares.sum()


def label_probabilities(scores: np.ndarray, target: Classes, weight: np.ndarray | None,
                        usable: np.ndarray) -> np.ndarray:
    """Return the probabilities (m, j) of the classes of the `usable` labels from held-out scores (m, l, n_classes).

    They are calibrated to the frequencies of the labels, whatever prior the target has.
    """
    codes = target.coded[usable]
    labels, even = (np.log(prior.shares(target.coded, target.names, weight)) for prior in (LABELS, EQUAL))
    present = np.isin(np.arange(len(target.names)), codes)
    slopes, intercepts = fit_each_log_odds(scores[:, usable], codes, None if weight is None else weight[usable], labels,
                                           even, present)
    logs = np.where(present, slopes[:, None, None] * scores[:, usable] + intercepts[:, None], -np.inf)
    return np.maximum(softmax(logs, axis=2)[:, np.arange(len(usable)), codes], MIN_PROBABILITY)

"""What classifiers count for in an average: the shares of the mixture that gives held-out labels most probability.

With P_mi the probability that classifier m gives to the class of label i, calibrated on labels without themselves
(`probabilities.py`), the mixture `sum_m share_m P_mi` is raised by steps of the EM algorithm, from a prior:

    share_m  <-  share_m  mean_i (P_mi / sum_k share_k P_ki)

There are as many steps as labels beyond the first of each class. So few labels leave the
prior nearly as it is, and many find the best mixture, which unlike the best classifier
alone may need several that err on different points.

References
----------
Yao, Vehtari, Simpson, Gelman, "Using stacking to average Bayesian predictive distributions", Bayesian Analysis 2018.
"""

from collections.abc import Sequence

import numpy as np
from scipy.special import softmax

from .average import Member, label_groups, shares_of, shares_without_each
from .class_prior import EQUAL, LABELS
from .prior_shift import judged_labels
from .probabilities import fit_each_log_odds
from .target.target import Classes, Target

MIN_PROBABILITY = 1e-12  # of a label, so that none of them is impossible


def member_shares(members: Sequence[Member], target: Target, weight: np.ndarray | None,
                  prior: np.ndarray | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Return the shares (m,) of functions, and those by which each label is predicted, (m, l): of the other labels.

    Of quantities those of `average.py`; of classes the other labels are those of the other groups. prior (m,) : what
    each counts for without any label; 1 by default.
    """
    if target.n_strata == 1:
        return (shares_of([member.held_out for member in members], target, weight, prior),
                shares_without_each(members, target, prior))
    assert isinstance(target, Classes)
    start = np.ones(len(members)) if prior is None else prior
    shares = mixture_shares(np.array([member.standardized for member in members]), target, weight, start)
    of_label = np.empty((len(members), len(target.labeled)))
    for number, group in enumerate(label_groups(len(target.labeled))):
        kept = np.setdiff1d(np.arange(len(target.labeled)), group)
        values = np.array([member.without_groups[number][kept] for member in members
                           if member.without_groups is not None])
        of_label[:, group] = mixture_shares(values, target.take(kept), None if weight is None else weight[kept],
                                            start)[:, None]
    return shares, of_label


def mixture_shares(scores: np.ndarray, target: Classes, weight: np.ndarray | None, prior: np.ndarray) -> np.ndarray:
    """Return the shares (m,) of classifiers from their scores (m, l, n_classes) of labels without themselves.

    The scores assume that classes are equally frequent. Labels that are the only one of their class say nothing.
    """
    shares = prior / prior.sum()
    judged = judged_labels(target, scores[0])
    if not len(judged):
        return shares
    P = label_probabilities(scores, target, weight, judged)
    w = np.ones(len(judged)) if weight is None else weight[judged]
    for _ in range(len(judged) - len(np.unique(target.coded[judged]))):
        shares = shares * (P @ (w / (shares @ P))) / w.sum()
    return shares / shares.sum()


def label_probabilities(scores: np.ndarray, target: Classes, weight: np.ndarray | None,
                        judged: np.ndarray) -> np.ndarray:
    """Return the probabilities (m, j) of the classes of some labels from scores (m, l, n_classes) without themselves.

    They are calibrated to the frequencies of the labels, whatever is wanted of the average.
    """
    codes = target.coded[judged]
    labels, even = (np.log(prior.shares(target.coded, target.names, weight)) for prior in (LABELS, EQUAL))
    present = np.isin(np.arange(len(target.names)), codes)
    slopes, intercepts = fit_each_log_odds(scores[:, judged], codes, None if weight is None else weight[judged], labels,
                                           even, present)
    logs = np.where(present, slopes[:, None, None] * scores[:, judged] + intercepts[:, None], -np.inf)
    return np.maximum(softmax(logs, axis=2)[:, np.arange(len(judged)), codes], MIN_PROBABILITY)

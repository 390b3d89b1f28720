"""Which class is predicted for a metric: what is added to the logarithm of each probability before the largest wins.

    accuracy             nothing: the most probable class has the lowest expected error
    balanced_accuracy    -log(frequency of the class): P(class | x) / P(class) has the highest expected mean recall
    f1, f1_macro         what gives the highest expected F1 of held-out labels, found class by class (`f1_offset`)

Metrics of probabilities and of rankings (neg_log_loss, roc_auc) do not look at the predicted class.
They leave it the most probable one.

References
----------
Menon, Narasimhan, Agarwal, Chawla, "On the statistical consistency of algorithms for binary classification under class
imbalance", ICML 2013; Koyejo, Natarajan, Ravikumar, Dhillon, "Consistent binary classification with generalized
performance metrics", NeurIPS 2014 (F1 is maximized by a threshold on the probability).
"""

import numpy as np
from scipy.special import softmax

MOST_PASSES = 20  # over the classes, of which each raises F1 or is the last


def f1_offset(log_odds: np.ndarray, weight: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """Return what is added to log probabilities, (n_classes,), for the largest expected F1 of points held out.

    The offset of one class after the other is set to the best of all values between which a point changes its class,
    until none raises the score; of equally good values the one nearest to 0, and the first class keeps 0. F1 is
    `2 tp / (2 tp + fp + fn)` of shares of points, each of which is of a class by its probability. These are calibrated
    on all labels; the labels themselves would leave the choice to the few of a rare class.

    Parameters
    ----------
    log_odds : ndarray, shape (h, n_classes)
        Logarithms of probabilities, up to a constant a point, of points predicted without their labels; -inf of
        classes that no label has, whose offset stays 0.
    weight : ndarray, shape (h,)
        What each point counts.
    scored : ndarray of int, shape (s,)
        The classes whose mean F1 counts: the second of two for `f1`, and all that have labels for `f1_macro`.

    Returns
    -------
    ndarray, shape (n_classes,); O(h n_classes^2) time a pass over the classes.
    """
    h, n_classes = log_odds.shape
    _, *others = np.flatnonzero(np.isfinite(log_odds).all(axis=0))
    of_class = weight[:, None] * softmax(log_odds, axis=1)
    total, offset, best = of_class.sum(axis=0), np.zeros(n_classes), -1.0
    for _ in range(MOST_PASSES):
        before = best
        for code in others:
            moved = log_odds + offset
            moved[:, code] = -np.inf
            rival = moved.argmax(axis=1)
            flips = moved[np.arange(h), rival] - log_odds[:, code]  # the offset beyond which a point is of this class
            order = np.argsort(flips, kind="stable")
            # Row i: the first i points in this order are of this class, the others of their rival.
            gained = np.zeros((h + 1, n_classes, 2))
            gained[1:, code] = np.column_stack([of_class[:, code], weight])[order].cumsum(axis=0)
            of_rival = np.zeros((h, n_classes, 2))
            of_rival[np.arange(h), rival] = np.column_stack([of_class[np.arange(h), rival], weight])
            gained += of_rival.sum(axis=0)
            gained[1:] -= of_rival[order].cumsum(axis=0)
            hits, called = np.moveaxis(gained, 2, 0)
            scores = (2 * hits / np.maximum(called + total, np.finfo(float).tiny))[:, scored].mean(axis=1)
            sorted_flips = flips[order]
            values = np.concatenate([sorted_flips[:1] - 1, (sorted_flips[1:] + sorted_flips[:-1]) / 2,
                                     sorted_flips[-1:] + 1])
            apart = np.concatenate([[True], sorted_flips[1:] > sorted_flips[:-1], [True]])
            places = np.flatnonzero(apart & (scores >= scores[apart].max() - 1e-12))
            place = places[np.argmin(np.abs(values[places]))]
            if scores[place] > best + 1e-12:
                offset[code], best = values[place], float(scores[place])
        if best <= before + 1e-12:
            break
    return offset

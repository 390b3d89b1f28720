"""The predicted class that is best for a metric: the offset of each log probability before the argmax.

    accuracy             0: the most probable class has the lowest expected error
    balanced_accuracy    -log(frequency of the class): P(class | x) / P(class) has the highest expected mean recall
    f1, f1_macro         the offsets of highest expected F1 on held-out labels (`f1_offset`)

Metrics of probabilities and rankings (neg_log_loss, roc_auc) do not depend on the predicted class; it is the most
probable one.

References
----------
Menon, Narasimhan, Agarwal, Chawla, "On the statistical consistency of algorithms for binary classification under class
imbalance", ICML 2013; Koyejo, Natarajan, Ravikumar, Dhillon, "Consistent binary classification with generalized
performance metrics", NeurIPS 2014 (F1 is maximized by a threshold on the probability).
"""

import numpy as np
from scipy.special import softmax

MAX_PASSES = 20  # over the classes


def f1_offset(log_odds: np.ndarray, weight: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """Return the offsets of log probabilities, (n_classes,), of the largest expected F1 on held-out points.

    Coordinate ascent: the offset of each class in turn is set to the best value, of equally good ones the nearest to 0,
    until none raises the score; the first class keeps 0. The counts of `2 tp / (2 tp + fp + fn)` are expectations by
    calibrated probabilities, since a rare class has too few labels to count.

    Parameters
    ----------
    log_odds : ndarray, shape (h, n_classes)
        Log probabilities of held-out points, up to a constant a point; -inf for classes without labels, whose offset
        stays 0.
    weight : ndarray, shape (h,)
        The weight of each point.
    scored : ndarray of int, shape (s,)
        The classes whose F1 is averaged: the second of two for `f1`, all with labels for `f1_macro`.

    Returns
    -------
    ndarray, shape (n_classes,); O(h n_classes^2) time a pass over the classes.
    """
    h, n_classes = log_odds.shape
    _, *others = np.flatnonzero(np.isfinite(log_odds).all(axis=0))
    of_class = weight[:, None] * softmax(log_odds, axis=1)
    total, offset, best = of_class.sum(axis=0), np.zeros(n_classes), -1.0
    for _ in range(MAX_PASSES):
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
            distinct = np.concatenate([[True], sorted_flips[1:] > sorted_flips[:-1], [True]])
            best_rows = np.flatnonzero(distinct & (scores >= scores[distinct].max() - 1e-12))
            row = best_rows[np.argmin(np.abs(values[best_rows]))]
            if scores[row] > best + 1e-12:
                offset[code], best = values[row], float(scores[row])
        if best <= before + 1e-12:
            break
    return offset

"""Correct scores for the frequencies of the classes among the points to be predicted.

    P(class | scores) = softmax(slope scores + intercept + log(wanted / labels))

Slope and intercept are fitted to held-out labels (`fit_log_odds`); then the wanted frequencies replace those of the
labels. Functions that are centered over all points assume equal frequencies, fits with an intercept those of the
labels. The terms beside the slope, divided by it, are added to the scores, so that the predicted class is the most
probable one. For other metrics than accuracy an offset for the metric, divided by the slope, is added too, and
subtracted again for probabilities. With many labels the most probable class by one slope for all classes may be
wrong more often than the highest score; where held-out labels say so clearly, and the wanted frequencies are those of
the labels, the highest score is predicted, by such an offset.

Where each class has a single label none can be held out. The slope is then that at the center of its prior
(`fit_log_odds`), for scores of unit mean square over the points to be predicted.

The offset of each log probability, before the argmax, makes the predicted class the best one for a metric:

    accuracy             0: the most probable class has the lowest expected error
    balanced_accuracy    -log(frequency of the class): P(class | x) / P(class) has the highest expected mean recall
    f1, f1_macro         the offsets of highest expected F1 on held-out labels (`f1_offset`)

Metrics of probabilities and rankings (neg_log_loss, roc_auc) do not depend on the predicted class; it is the most
probable one.

References
----------
Saerens, Latinne, Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", Neural
Computation 2002; Prentice, Pyke, "Logistic disease incidence models and case-control studies", Biometrika 1979;
Menon, Narasimhan, Agarwal, Chawla, "On the statistical consistency of algorithms for binary classification under class
imbalance", ICML 2013; Koyejo, Natarajan, Ravikumar, Dhillon, "Consistent binary classification with generalized
performance metrics", NeurIPS 2014 (F1 is maximized by a threshold on the probability).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import softmax

from .class_prior import LABELS, ClassPrior
from .metrics import SEARCHED
from .probabilities import Calibration, fit_log_odds
from .target.coding import ClassCoding, Coding, margins_of
from .target.target import Classes, Target

CLEAR = 3.0  # standard errors of a difference between numbers of wrong held-out labels
MAX_PASSES = 20  # over the classes


@dataclass(frozen=True, eq=False)
class PriorShift:
    """The offset of values, `columns` (c,), and the calibration of the margins of the sum; None for quantities."""

    columns: np.ndarray
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Frequencies of the classes (n_classes,): among the labels, wanted, and assumed by the scores.

    present (n_classes,) bool : which classes have labels.
    """

    present: np.ndarray
    labels: np.ndarray
    wanted: np.ndarray
    assumed: np.ndarray
    scoring: str

    @classmethod
    def of(cls, target: Classes, weight: np.ndarray | None, assumed: ClassPrior) -> "Frequencies":
        present = np.isin(np.arange(len(target.names)), target.coded)
        labels, wanted, among_labels = (prior.shares(target.coded, target.names, weight)
                                        for prior in (LABELS, target.prior, assumed))
        return cls(present, labels, wanted, among_labels, target.scoring)

    def fit(self, margins: np.ndarray, codes: np.ndarray, weight: np.ndarray | None,
            size: float) -> tuple[Calibration, np.ndarray]:
        """Return the calibration of held-out margins (h, n_classes) plus an offset, and the offset (n_classes,).

        size : the root mean square of the margins at points to be predicted, for the slope where none is held out.
        """
        if len(margins):
            log_odds = np.log(self.labels)
            calibration, intercept = fit_log_odds(margins, codes, weight, log_odds, np.log(self.assumed), self.present)
            # A class without labels keeps its smoothed frequency.
            intercept = np.where(self.present, intercept + log_odds[self.present].mean(), log_odds)
            offset = np.log(self.wanted) - log_odds + intercept
        else:
            calibration = Calibration(1 / size if size > 0 else 1.0, self.present)
            offset = np.log(self.wanted) - np.log(self.assumed)
        logs = calibration.slope * margins + offset
        decision = -offset if self._is_overruled(logs, margins, codes, weight) else self.decision(logs, codes, weight)
        if np.ptp(decision) > 0:
            calibration = replace(calibration, decision=decision - decision.mean())
        offset += decision
        return calibration, (offset - offset.mean()) / calibration.slope

    def decision(self, logs: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return the offsets of log probabilities, (n_classes,), for the scoring; classes without labels gain nothing.

        logs (h, n_classes) : log probabilities of held-out points.
        """
        if self.scoring == "balanced_accuracy":
            return np.where(self.present, -np.log(self.wanted), np.log(1 / self.wanted[self.present]).min())
        if self.scoring not in SEARCHED or not len(logs):
            return np.zeros(len(self.present))
        # Weights that give the classes of the labels the wanted frequencies.
        of_label = (self.wanted / self.labels)[codes] * (1.0 if weight is None else weight)
        scored = np.array([1]) if self.scoring == "f1" else np.unique(codes)
        return f1_offset(np.where(self.present, logs, -np.inf), of_label / of_label.mean(), scored)

    def _is_overruled(self, logs: np.ndarray, margins: np.ndarray, codes: np.ndarray,
                      weight: np.ndarray | None) -> bool:
        """Return whether the most probable class is clearly wrong more often than the highest margin (h, n_classes).

        Only for the accuracy, among points with the class frequencies of the labels.
        """
        if self.scoring != "accuracy" or not len(logs) or not np.array_equal(self.wanted, self.labels):
            return False
        wrong = [np.where(self.present, values, -np.inf).argmax(axis=1) != codes for values in (logs, margins)]
        difference = (wrong[0].astype(float) - wrong[1]) * (1.0 if weight is None else weight)
        return bool(difference.sum() > CLEAR * np.sqrt((difference**2).sum()))


def prior_shift(target: Target, held_out: np.ndarray, coding: Coding, weight: np.ndarray | None,
                assumed: ClassPrior, positions: np.ndarray | None = None, n_columns: int | None = None, *,
                at_points: Callable[[], np.ndarray] | None = None) -> PriorShift:
    """Return the shift of values whose held-out values are (h, c), from the labels of `calibration_labels`.

    assumed : the frequencies that the values assume, `LABELS` or `EQUAL`. positions (h,) : of the held-out labels, all
    by default. n_columns : of the values, where a model of two classes has two columns and its held-out
    values have one. at_points : makes the values (s, c) at points to be predicted; it is called where no label is held
    out, and without it there is then no calibration, and the slope is 1.
    """
    n_columns = held_out.shape[1] if n_columns is None else n_columns
    if not isinstance(target, Classes):
        return PriorShift(np.zeros(n_columns))
    assert isinstance(coding, ClassCoding)
    rows = calibration_labels(target, held_out, positions)
    used = rows if positions is None else positions[rows]
    size = 1.0
    if not len(rows) and at_points is not None:
        size = float(np.sqrt((margins_of(at_points(), coding) ** 2).mean()))
    calibration, offset = Frequencies.of(target, weight, assumed).fit(
        margins_of(held_out[rows], coding), target.coded[used], None if weight is None else weight[used],
        size)
    calibrated = len(rows) > 0 or at_points is not None
    return PriorShift(coding.column_shift(offset, n_columns), calibration if calibrated else None)


def calibration_labels(target: Classes, held_out: np.ndarray, positions: np.ndarray | None = None) -> np.ndarray:
    """Return the rows of held-out values (h, c) that are finite and whose class has another label.

    positions (h,) : of the labels, all by default.
    """
    codes = target.coded if positions is None else target.coded[positions]
    several = np.bincount(target.coded, minlength=len(target.names))[codes] > 1
    return np.flatnonzero(several & np.isfinite(held_out).all(axis=1))


def cross_fitted_values(target: Target, held_out: np.ndarray, coding: Coding, weight: np.ndarray | None,
                    assumed: ClassPrior, groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return the held-out values (l, c) plus, for each group of positions, the prior shift fitted to the other groups.

    With one group only, its shift is fitted to the group itself.
    """
    values, positions = held_out.copy(), np.concatenate(groups)
    for group in groups:
        others = np.setdiff1d(positions, group)
        others = others if len(others) else group
        values[group] += prior_shift(target, held_out[others], coding, weight, assumed, others).columns
    return values


def f1_offset(log_odds: np.ndarray, weight: np.ndarray, scored: np.ndarray) -> np.ndarray:
    """Return the offsets of log probabilities, (n_classes,), of the largest expected F1 on held-out points.

    Coordinate ascent: the offset of each class in turn is set to the best value, of equally good ones the nearest to 0,
    until none raises the score; the first class keeps 0. The counts of `2 tp / (2 tp + fp + fn)` are expectations by
    calibrated probabilities, since a rare class has too few labels to count. O(h n_classes^2) time a pass.

    log_odds (h, n_classes) : log probabilities of held-out points, up to a constant a point; -inf for classes
    without labels, whose offset stays 0. weight (h,) : of the points. scored (s,) : the classes whose F1 is averaged,
    the second of two for `f1`, all with labels for `f1_macro`.
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

"""Scores that know how frequent the classes are.

    P(class | scores) = softmax(slope scores + intercept + log(wanted / labels))

Functions that are centered over all points treat classes alike: they assume equal frequencies. Losses over labels,
with an intercept or the mean label, assume those of the labels, but follow what is noise in these. Slope and intercept
are those of highest probability of labels held out (`fit_log_odds`), whose frequencies then make way for the wanted
ones. The terms beside the slope, divided by it, are added to the scores of the model itself, so that the predicted
class is the most probable one, whoever predicts.

Where no class is more frequent than another, nothing is added. Frequencies of labels are those of their counts plus
1/2, or with weights of their sums, in units of the mean weight.

Where another metric than accuracy is asked for, what its decisions add to the logarithms of probabilities
(`decisions.py`), divided by the slope, is added to the scores too, and probabilities take it off again.

References
----------
Saerens, Latinne, Decaestecker, "Adjusting the outputs of a classifier to new a priori probabilities", Neural
Computation 2002; Prentice, Pyke, "Logistic disease incidence models and case-control studies", Biometrika 1979.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .class_prior import LABELS, ClassPrior
from .class_scoring import SEARCHED
from .decisions import f1_offset
from .probabilities import Calibration, fit_log_odds
from .target.coding import ClassCoding, Coding, margins_of
from .target.target import Classes, Target


@dataclass(frozen=True, eq=False)
class PriorShift:
    """What is added to values, `columns` (c,), and the calibration of the margins of the sum; None of quantities."""

    columns: np.ndarray
    calibration: Calibration | None = None


@dataclass(frozen=True, eq=False)
class Frequencies:
    """Frequencies of the classes (n_classes,): `labels`, those among the labels; `wanted`; `assumed`, by the scores.

    present (n_classes,) bool : which have a label.
    """

    present: np.ndarray
    labels: np.ndarray
    wanted: np.ndarray
    assumed: np.ndarray
    scoring: str

    @classmethod
    def of(cls, target: Classes, weight: np.ndarray | None, assumed: ClassPrior) -> "Frequencies":
        """Return those of labels of some weights (l,), by default 1."""
        present = np.isin(np.arange(len(target.names)), target.coded)
        labels, wanted, among_labels = (prior.shares(target.coded, target.names, weight)
                                        for prior in (LABELS, target.prior, assumed))
        return cls(present, labels, wanted, among_labels, target.scoring)

    def fit(self, margins: np.ndarray, codes: np.ndarray,
            weight: np.ndarray | None) -> tuple[Calibration | None, np.ndarray]:
        """Return what is added to margins (h, n_classes) of points held out, (n_classes,), and the sum's calibration.

        Without any of them nothing is calibrated, and the slope is 1.
        """
        if not len(margins):
            moved = np.log(self.wanted) - np.log(self.assumed)
            moved += self.decision(np.zeros((0, len(moved))), codes, weight)
            return None, moved - moved.mean()
        log_odds = np.log(self.labels)
        calibration, intercept = fit_log_odds(margins, codes, weight, log_odds, np.log(self.assumed), self.present)
        # Nothing is known of a class without labels but its smoothed frequency.
        intercept = np.where(self.present, intercept + log_odds[self.present].mean(), log_odds)
        moved = np.log(self.wanted) - log_odds + intercept
        decision = self.decision(calibration.slope * margins + moved, codes, weight)
        if np.ptp(decision) > 0:
            calibration = replace(calibration, decision=decision - decision.mean())
        moved += decision
        return calibration, (moved - moved.mean()) / calibration.slope

    def decision(self, logs: np.ndarray, codes: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
        """Return what is added to log probabilities for the class that is best by the scoring, (n_classes,).

        logs (h, n_classes) : those of points held out. A class without a label is never favored.
        """
        if self.scoring == "balanced_accuracy":
            return np.where(self.present, -np.log(self.wanted), np.log(1 / self.wanted[self.present]).min())
        if self.scoring not in SEARCHED or not len(logs):
            return np.zeros(len(self.present))
        # Labels count such that their classes have the wanted frequencies.
        of_label = (self.wanted / self.labels)[codes] * (1.0 if weight is None else weight)
        scored = np.array([1]) if self.scoring == "f1" else np.unique(codes)
        return f1_offset(np.where(self.present, logs, -np.inf), of_label / of_label.mean(), scored)


def prior_shift(target: Target, held_out: np.ndarray, coding: Coding, weight: np.ndarray | None,
                assumed: ClassPrior, held: np.ndarray | None = None, n_columns: int | None = None) -> PriorShift:
    """Return the shift of the values of a fit to a target, by values (h, c) of labels without themselves.

    assumed : what the values assume, `LABELS` or `EQUAL`. held (h,) : the labels that these are, by their places; all
    by default.
    n_columns : of the values that are moved, where a model of two classes has both columns and its held-out values have
    one. Slope and intercepts follow from labels whose classes have two or more: left out, the only label of its class
    says nothing of the others.
    """
    n_columns = held_out.shape[1] if n_columns is None else n_columns
    if not isinstance(target, Classes):
        return PriorShift(np.zeros(n_columns))
    assert isinstance(coding, ClassCoding)
    judged = judged_labels(target, held_out, held)
    places = judged if held is None else held[judged]
    calibration, offset = Frequencies.of(target, weight, assumed).fit(
        margins_of(held_out[judged], coding), target.coded[places], None if weight is None else weight[places])
    return PriorShift(coding.moved_by(offset, n_columns), calibration)


def judged_labels(target: Classes, held_out: np.ndarray, held: np.ndarray | None = None) -> np.ndarray:
    """Return the places among values (h, c) of labels that are held out and whose class has another label.

    held (h,) : the labels that these are, by their places; all by default.
    """
    codes = target.coded if held is None else target.coded[held]
    several = np.bincount(target.coded, minlength=len(target.names))[codes] > 1
    return np.flatnonzero(several & np.isfinite(held_out).all(axis=1))


def moved_by_others(target: Target, held_out: np.ndarray, coding: Coding, weight: np.ndarray | None,
                    assumed: ClassPrior, groups: Sequence[np.ndarray]) -> np.ndarray:
    """Return the values (l, c) of labels without themselves, those of each group moved as the others say.

    groups : disjoint places of labels; those of a lone group are moved as they themselves say.
    """
    values, places = held_out.copy(), np.concatenate(groups)
    for group in groups:
        seen = np.setdiff1d(places, group)
        seen = seen if len(seen) else group
        values[group] += prior_shift(target, held_out[seen], coding, weight, assumed, seen).columns
    return values

"""The loss of predicted classes in the scoring of a target, and the terms of the difference of two losses.

The loss of a metric that is best at its highest value is 1 less the value. The difference of the losses of two models
is a sum of terms `c_i` of the points, 0 where both predict the same:

    balanced error   q_i (wrong of the other - wrong of ours), q_i the weight of the point in its class over the classes
    1 - F1           p_i (hits - F either of ours - that of the other) / W, F and W the means of both F1 scores and of
                     their denominators, hits 2 for a true positive, either the number of true and of called positives
    1 - AUC          q_i (V_i of ours - V_i of the other), V_i the share of the other class that is ranked right, q_i
                     the weight of the point in its class
    log loss         p_i (loss of the other - loss of ours)

The terms are not centered: if one of two models predicts both labels of a class, centered terms would vanish, and the
difference would look certain.

References
----------
DeLong, DeLong, Clarke-Pearson, "Comparing the areas under two or more correlated receiver operating characteristic
curves", Biometrics 1988.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..learners.target.coding import Coding, margins_of
from ..learners.target.target import Classes
from .calibration import held_out_probabilities, shared_calibrations
from .held_out_scores import MIN_PROBABILITY, area, mean_area, require_scoring
from .interval import interval_of_mean_share, interval_of_score

# By its name in scikit-learn, the key of a metric among the scores of a run.
KEYS = {"balanced_accuracy": "balanced_accuracy", "f1": "f1", "f1_macro": "f1_macro", "roc_auc": "roc_auc",
        "neg_log_loss": "log_loss"}


def with_scoring(target: Classes, scoring: Any) -> Classes:
    """Return a target whose decisions optimize a scoring (None is accuracy), or raise ParameterError."""
    require_scoring(scoring, classes=True, n_classes=target.n_strata)
    return replace(target, scoring=scoring or "accuracy")


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of n points of known classes.

    true, codes (n,) : true and predicted classes. shares (n,) : weights of sum 1. margins (n, n_classes) : None of a
    model without scores. log_losses (n,) : None without probabilities.
    """

    true: np.ndarray
    codes: np.ndarray
    shares: np.ndarray
    margins: np.ndarray | None = None
    log_losses: np.ndarray | None = None

    @classmethod
    def of_values(cls, target: Classes, coding: Coding, values: np.ndarray, weight: np.ndarray | None) -> "Predicted":
        """Return the predictions of held-out values (l, c), with log losses if the scoring needs them."""
        w = np.ones(len(values)) if weight is None else weight
        losses = None
        margins = margins_of(values, coding)
        if target.scoring == "neg_log_loss" and len(values) > 1:
            folds = shared_calibrations(list(np.arange(len(values))[:, None]))
            P = held_out_probabilities(margins, target.coded, folds, weight)[np.arange(len(values)), target.coded]
            losses = -np.log(np.maximum(P, MIN_PROBABILITY))
        return cls(target.coded, coding.predictions(values, target.coded)["codes"], w / w.sum(), margins, losses)

    @classmethod
    def of_predictions(cls, true: Classes, predictions: Mapping[str, np.ndarray]) -> "Predicted":
        """Return the arrays of `scores.Predictions`, which for two classes have the margins of the second."""
        margins = predictions.get("margins")
        losses = predictions.get("log_losses")
        n = len(true.coded)
        if margins is not None and margins.shape[1] == 1:
            margins = np.hstack([-margins, margins])
        return cls(true.coded, predictions["codes"], np.full(n, 1 / n), margins,
                   None if losses is None or np.isnan(losses).any() else losses.astype(np.float64))

    @property
    def of_class(self) -> np.ndarray:
        """Return the weight of each point in its class, (n,)."""
        return self.shares / np.bincount(self.true, self.shares)[self.true]

    def loss(self, scoring: str) -> float | None:
        """Return the loss; None where the metric is undefined.

        It is without scores or probabilities, for points of one class, and F1 without points of the second class.
        """
        if scoring == "accuracy":
            return float(self.shares @ (self.codes != self.true))
        if scoring == "balanced_accuracy":
            return float(self.of_class @ (self.codes != self.true)) / len(np.unique(self.true))
        if scoring == "roc_auc":
            areas = None if self.margins is None else [parts[0] for parts in self.areas()]
            return 1 - float(np.mean(areas)) if areas else None
        if scoring == "neg_log_loss":
            return None if self.log_losses is None else float(self.shares @ self.log_losses)
        if scoring == "f1" and not (self.true == 1).any():
            return None
        return 1 - float(np.mean([hits / max(whole, np.finfo(float).tiny) for hits, whole in (
            (self.shares @ parts[0], self.shares @ parts[1]) for parts in self.positives(scoring))]))

    def score(self, scoring: str) -> dict[str, Any]:
        """Return a metric but the accuracy by its key, with its 95 % interval; JSON, empty where it is undefined."""
        loss = self.loss(scoring)
        key = KEYS[scoring]
        if loss is None:
            return {}
        return {"scoring": scoring, key: loss if scoring == "neg_log_loss" else 1 - loss,
                f"{key}_interval": self._interval(scoring)}

    def loss_interval(self, scoring: str) -> list[float] | None:
        """Return the 95 % interval of the loss of a metric that is defined; None where it is unknown."""
        ends = self._interval(scoring)
        return ends if ends is None or scoring == "neg_log_loss" else [1 - ends[1], 1 - ends[0]]

    def _interval(self, scoring: str) -> list[float] | None:
        """Return the 95 % interval of a metric that is defined, not of its loss; None where it is unknown."""
        if scoring == "balanced_accuracy":
            classes = [self.true == code for code in np.unique(self.true)]
            return interval_of_mean_share(
                [float(self.of_class[members] @ (self.codes == self.true)[members]) for members in classes],
                [1 / float((self.of_class[members] ** 2).sum()) for members in classes])
        if scoring == "neg_log_loss":
            assert self.log_losses is not None
            value = float(self.shares @ self.log_losses)
            error = float(np.linalg.norm(self.shares * (self.log_losses - value)))
            return interval_of_score(value, error, len(self.true), share=False)
        if scoring == "roc_auc":
            assert self.margins is not None
            pooled = mean_area(self.margins, self.true, self.shares)
            assert pooled is not None
            value, influence = pooled
            counts = self.of_class / len(np.unique(self.true))
        else:
            parts = [(self.shares * hits, self.shares * either, max(float(self.shares @ either), np.finfo(float).tiny))
                     for hits, either in self.positives(scoring)]
            value = float(np.mean([hits.sum() / whole for hits, _, whole in parts]))
            influence = np.mean([(hits - hits.sum() / whole * either) / whole for hits, either, whole in parts], axis=0)
            counts = np.mean([either / whole for _, either, whole in parts], axis=0)
        # Without a mistake the standard error is 0: then it is a share of the effective number of points.
        return interval_of_score(value, float(np.linalg.norm(influence)), 1 / float(counts @ counts), share=True)

    def positives(self, scoring: str) -> list[tuple[np.ndarray, np.ndarray]]:
        """Return (hits, either), (n,) each, of every class in the F1: 2 for a true positive; true plus predicted."""
        return [(2.0 * ((self.codes == code) & (self.true == code)), 1.0 * (self.codes == code) + (self.true == code))
                for code in ([1] if scoring == "f1" else np.unique(self.true))]

    def areas(self) -> list[tuple[float, np.ndarray]]:
        """Return the area of each class against the rest (of two, the second), and the terms of the points (n,)."""
        assert self.margins is not None
        present = np.unique(self.true)
        areas = []
        for code in present[-1:] if self.margins.shape[1] == 2 else present:
            positive = self.true == code
            if positive.all():
                return []
            value, influence = area(self.margins[:, code], positive, self.shares)
            of_side = np.where(positive, self.shares[positive].sum(), self.shares[~positive].sum())
            areas.append((value, influence + self.shares / of_side * value))
        return areas


def terms_of(ours: Predicted, other: Predicted, scoring: str) -> tuple[np.ndarray, float]:
    """Return the terms (n,) of the difference of two defined losses, and the size of the term of a rare point."""
    if scoring == "balanced_accuracy":
        shares = ours.of_class / len(np.unique(ours.true))
        return shares * (1.0 * (other.codes != other.true) - (ours.codes != ours.true)), float(shares.max())
    if scoring == "roc_auc":
        pairs = [a[1] - b[1] for a, b in zip(ours.areas(), other.areas(), strict=True)]
        return np.asarray(np.mean(pairs, axis=0)), float(ours.of_class.max()) / len(pairs)
    if scoring == "neg_log_loss":
        assert ours.log_losses is not None
        assert other.log_losses is not None
        return ours.shares * (other.log_losses - ours.log_losses), float(ours.shares.max())
    terms = []
    units = []
    for mine, its in zip(ours.positives(scoring), other.positives(scoring), strict=True):
        wholes = [max(float(ours.shares @ either), np.finfo(float).tiny) for _, either in (mine, its)]
        score = np.mean([float(ours.shares @ hits) / whole for (hits, _), whole in zip((mine, its), wholes,
                                                                                     strict=True)])
        parts = [hits - score * either for hits, either in (mine, its)]
        terms.append(ours.shares * (parts[0] - parts[1]) / np.mean(wholes))
        units.append(float(ours.shares.max()) / np.mean(wholes))
    return np.asarray(np.mean(terms, axis=0)), float(max(units)) / len(units)

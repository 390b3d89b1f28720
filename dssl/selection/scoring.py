"""The loss of predicted classes in the scoring of a target, and the terms of the difference of two losses.

The loss of a metric that is best at its highest value is 1 less the value. The difference of the losses of two models
is a sum of terms `c_i` of the points (of AUC, half the sum), 0 where both predict the same:

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

import numpy as np

from ..base.wilson import interval_of_share
from ..learners.metrics import ClassScoring
from ..learners.target.coding import Coding, margins_of
from ..learners.target.target import Classes
from .calibration import held_out_probabilities, shared_calibrations
from .held_out_scores import MIN_PROBABILITY, area, classes_with_area, mean_area, require_scoring
from .interval import interval_of_mean_share, interval_of_score

# By its name in scikit-learn, the key of a metric among the scores of a run.
KEYS = {"balanced_accuracy": "balanced_accuracy", "f1": "f1", "f1_macro": "f1_macro", "roc_auc": "roc_auc",
        "neg_log_loss": "log_loss"}


def with_scoring(target: Classes, scoring: ClassScoring | None) -> Classes:
    """Return a target whose decisions optimize a scoring (None is accuracy), or raise ParameterError."""
    require_scoring(scoring, classes=True, n_classes=target.n_strata)
    return replace(target, scoring=scoring or "accuracy")


@dataclass(frozen=True, eq=False)
class Predicted:
    """Predictions of n points of known classes.

    true, codes (n,) : true and predicted classes, -1 of none, among n_classes. shares (n,) : weights of sum 1. margins
    (n, n_classes) : None of a model without scores. log_losses (n,) : None without probabilities.
    """

    true: np.ndarray
    codes: np.ndarray
    n_classes: int
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
        return cls(target.coded, coding.predictions(values, target.coded)["codes"], len(target.names), w / w.sum(),
                   margins, losses)

    @classmethod
    def of_predictions(cls, true: Classes, predictions: Mapping[str, np.ndarray]) -> "Predicted":
        """Return the arrays of `scores.Predictions`, which for two classes have the margins of the second."""
        margins = predictions.get("margins")
        losses = predictions.get("log_losses")
        n = len(true.coded)
        if margins is not None and margins.shape[1] == 1:
            margins = np.hstack([-margins, margins])
        return cls(true.coded, predictions["codes"], len(true.names), np.full(n, 1 / n), margins,
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
            area = self.area()
            return None if area is None else 1 - area[0]
        if scoring == "neg_log_loss":
            return None if self.log_losses is None else float(self.shares @ self.log_losses)
        scored = self.classes_of_f1(scoring)
        return 1 - float(self.f1_and_either()[0][scored].mean()) if scored.any() else None

    def score(self, scoring: str) -> dict[str, float | list[float] | None]:
        """Return a metric but the accuracy by its key, with its 95 % interval; JSON, empty where it is undefined."""
        defined = self._value_and_interval(scoring)
        key = KEYS[scoring]
        return {} if defined is None else {key: defined[0], f"{key}_interval": defined[1]}

    def loss_interval(self, scoring: str) -> list[float] | None:
        """Return the 95 % interval of the loss of a metric that is defined; None where it is unknown."""
        defined = self._value_and_interval(scoring)
        ends = None if defined is None else defined[1]
        return ends if ends is None or scoring == "neg_log_loss" else [1 - ends[1], 1 - ends[0]]

    def _value_and_interval(self, scoring: str) -> tuple[float, list[float] | None] | None:
        """Return a metric, not its loss, and its 95 % interval, None where that is unknown; None of no such metric.

        Balanced accuracy: that of the mean of recalls. Log loss: by its standard error. AUC: that of a share with the
        standard error of DeLong. F1: `interval_of_f1`. Cost: a sort of the points a class.
        """
        if scoring == "balanced_accuracy":
            present = np.unique(self.true)
            recalls = np.bincount(self.true, self.of_class * (self.codes == self.true))[present]
            counts = 1 / np.bincount(self.true, self.of_class**2)[present]
            return float(recalls.mean()), interval_of_mean_share(np.minimum(recalls, 1.0).tolist(), counts.tolist())
        if scoring == "neg_log_loss":
            if self.log_losses is None:
                return None
            value = float(self.shares @ self.log_losses)
            error = float(np.linalg.norm(self.shares * (self.log_losses - value)))
            return value, interval_of_score(value, error, len(self.true), share=False)
        if scoring == "roc_auc":
            pooled = self.area()
            if pooled is None:
                return None
            value, influence = pooled
            counts = self.of_class / len(np.unique(self.true))
            # Without a mistake the standard error is 0: then it is a share of the effective number of points.
            return value, interval_of_score(value, float(np.linalg.norm(influence)), 1 / float(counts @ counts),
                                            share=True)
        scored = self.classes_of_f1(scoring)
        return (float(self.f1_and_either()[0][scored].mean()), self.interval_of_f1(scored)) if scored.any() else None

    def classes_of_f1(self, scoring: str) -> np.ndarray:
        """Return which classes the F1 is the mean of, (n_classes,) bool; none for F1 without points of its class."""
        present = np.bincount(self.true, minlength=self.n_classes) > 0
        return present & (np.arange(len(present)) == 1) if scoring == "f1" else present

    def f1_and_either(self) -> tuple[np.ndarray, np.ndarray]:
        """Return the F1 of each class (n_classes,), and the weight of its true plus its called points, 1 for none."""
        called, right, n = self.codes >= 0, self.codes == self.true, self.n_classes
        hits = 2 * np.bincount(self.true[right], self.shares[right], n)
        either = (np.bincount(self.true, self.shares, n)
                  + np.bincount(self.codes[called], self.shares[called], n))
        either = np.where(either > 0, either, 1.0)
        return hits / either, either

    def f1_terms(self, f1: np.ndarray, per_either: np.ndarray) -> np.ndarray:
        """Return the sum over classes of `p (hits - f1 either) per_either` at the points (n,).

        p are the shares; hits is 2 at a true positive of the class, either the number of true and of called ones at the
        point. f1, per_either : (n_classes,).
        """
        times = np.append(f1 * per_either, 0.0)  # the last of no class, -1
        hits = 2 * (self.codes == self.true) * per_either[self.true]
        return self.shares * (hits - times[self.true] - times[self.codes])

    def interval_of_f1(self, scored: np.ndarray) -> list[float]:
        """Return the interval of the mean F1 of the classes that are `scored`, (n_classes,) bool.

        F1 is `2 J / (1 + J)` of the share J of true positives among the points that are of the class or called it,
        whose interval is Wilson's. The distances d of the ends from the F1 of the classes are combined as
        `sqrt(d' R d)`, R the correlations by the delta method: a mistake lowers the F1 of two classes.
        """
        n, squares = self.n_classes, self.shares**2
        right, called = self.codes == self.true, self.codes >= 0
        confused = called & ~right
        cells = np.bincount(self.true[confused] * n + self.codes[confused], squares[confused], n * n).reshape(n, n)
        cells += cells.T
        hits, rejected = (np.bincount(self.true[some], squares[some], n) for some in (right, ~called))
        wrong = cells.sum(axis=1) + rejected
        f1, either = self.f1_and_either()
        J = f1 / (2 - f1)
        # The weight of the points of or called a class is its true plus its called ones without the hits once.
        counts = (either * (1 - f1 / 2)) ** 2 / np.where(hits + wrong > 0, hits + wrong, 1.0)
        ends = np.array([interval_of_share(*pair) for pair in zip(J[scored], counts[scored], strict=True)])
        distances = 2 * ends / (1 + ends) - f1[scored, None]
        variances = wrong + hits * (2 * (1 - f1) / np.where(f1 > 0, f1, 1.0)) ** 2
        spread = np.sqrt(np.where(variances > 0, variances, 1.0))
        R = (cells / np.outer(spread, spread))[np.ix_(scored, scored)]
        np.fill_diagonal(R, 1.0)
        low, high = (float(np.sqrt(each @ R @ each)) / len(R) for each in distances.T)
        value = float(f1[scored].mean())
        return [max(0.0, value - low), min(1.0, value + high)]

    def area(self) -> tuple[float, np.ndarray] | None:
        """Return the area under the ROC curve and its influence, see `mean_area`; None without margins."""
        return None if self.margins is None else mean_area(self.margins, self.true, self.shares)

    def area_terms(self) -> tuple[np.ndarray, int]:
        """Return the means over classes of `q V` (n,), and how many classes have an area."""
        assert self.margins is not None
        classes = classes_with_area(self.margins, self.true)
        terms = np.zeros(len(self.true))
        for code in classes:
            positive = self.true == code
            value, influence = area(self.margins[:, code], positive, self.shares)
            of_side = np.where(positive, self.shares[positive].sum(), self.shares[~positive].sum())
            terms += (influence + self.shares / of_side * value) / len(classes)
        return terms, len(classes)


def terms_of(ours: Predicted, other: Predicted, scoring: str) -> tuple[np.ndarray, float]:
    """Return the terms (n,) of the difference of two defined losses, and the size of the term of a rare point."""
    if scoring == "balanced_accuracy":
        shares = ours.of_class / len(np.unique(ours.true))
        return shares * (1.0 * (other.codes != other.true) - (ours.codes != ours.true)), float(shares.max())
    if scoring == "roc_auc":
        terms, n_areas = ours.area_terms()
        return terms - other.area_terms()[0], float(ours.of_class.max()) / n_areas
    if scoring == "neg_log_loss":
        assert ours.log_losses is not None
        assert other.log_losses is not None
        return ours.shares * (other.log_losses - ours.log_losses), float(ours.shares.max())
    scored = ours.classes_of_f1(scoring)
    (f1, either), (other_f1, other_either) = ours.f1_and_either(), other.f1_and_either()
    per_either = scored / ((either + other_either) / 2 * scored.sum())
    terms, other_terms = (model.f1_terms((f1 + other_f1) / 2, per_either) for model in (ours, other))
    return terms - other_terms, float(ours.shares.max() * per_either.max())

"""Held-out error with and without the graph, and a paired test of their difference."""

from dataclasses import asdict, dataclass
from typing import TypedDict

import numpy as np

from ..base.wilson import SOLVER_ROUNDING, interval_of_share
from ..learners.metrics import LOSSES, SQUARED, PointMetric
from ..learners.target.coding import Coding
from ..learners.target.target import Classes, Target
from .comparison import (
    HELPED,
    HURT,
    SAME,
    TOO_FEW,
    UNCLEAR,
    Verdict,
    compare_classes,
    compare_in_scoring,
    compare_squared_errors,
)
from .interval import interval_of_rmse, interval_of_score
from .scoring import Predicted

MEANINGS: dict[Verdict, str] = {
    HELPED: "the unlabeled points help", HURT: "the unlabeled points do not help", UNCLEAR: "no clear difference",
    TOO_FEW: "there are too few labels to tell whether the unlabeled points help"}
ALL_LABELED = "all training points are labeled: there are no unlabeled points that could help"
UNCHANGED = "the unlabeled points change none of these"
NO_SIZES = "both without the class sizes, which the model itself uses"


@dataclass(frozen=True)
class Gain:
    """Held-out error with the graph and without it; difference : the first less the second, negative where it helps.

    metric : for classes the error, or the loss of the scoring (`metrics.LOSSES`); for quantities the rmse.
    standard_error : of the difference, over the n held-out labels. with_graph_interval, baseline_interval,
    difference_interval : 95 % intervals on new points; None where unknown, as that of a difference of weighted errors,
    whose test counts points. The last contains 0 exactly where the test is not significant. p_value, verdict : of the
    paired test (`comparison.compare`). without_class_sizes : whether the model has class sizes, which the held-out
    predictions do not use. all_labeled : whether there are no unlabeled points. single_labels : those that are the only
    one of their class, which are not among the n. guess : the error of what needs no model, which predicts `guessed` of
    each: the most frequent of these labels, or the mean of the others; None in another scoring, and of labels that are
    all equal.
    """

    metric: str
    with_graph: float
    baseline: float
    difference: float
    standard_error: float
    n: int
    p_value: float
    verdict: Verdict
    with_graph_interval: list[float] | None = None
    baseline_interval: list[float] | None = None
    difference_interval: list[float] | None = None
    without_class_sizes: bool = False
    all_labeled: bool = False
    single_labels: int = 0
    guess: float | None = None
    guessed: str = ""

    @property
    def helps(self) -> bool:
        return self.verdict == HELPED

    @property
    def hurts(self) -> bool:
        return self.verdict == HURT

    def in_words(self) -> str:
        """Return the figures and the verdict as a sentence."""
        if not self.n:
            return "no label can be held out of its class, so nothing tells whether the unlabeled points help"
        is_share = self.metric in ("error", "balanced error")
        unit = " %" if is_share else ""

        def number(value: float) -> str:
            return f"{100 * value:.1f}" if is_share else f"{value:.4g}"

        def shown(value: float, ends: list[float] | None = None, name: str = "") -> str:
            return f"{number(value)}{unit}" + (
                "" if ends is None else f" ({name}{number(ends[0])} to {number(ends[1])}{unit})")

        between = "" if self.difference_interval is None else (
            f", 95 % interval {number(self.difference_interval[0])} to {number(self.difference_interval[1])}{unit}")
        sizes = f"; {NO_SIZES}" if self.without_class_sizes else ""
        graph, pronoun = ("the graph", "it") if self.all_labeled else ("the unlabeled points", "them")
        is_same = abs(self.difference) <= SOLVER_ROUNDING * self.baseline
        difference = "no difference" if is_same else (
            f"difference {shown(self.difference)}{between}, p = {self.p_value:.2g}")
        verdict = UNCLEAR if is_same and self.verdict in (HELPED, HURT) else self.verdict
        meaning = ALL_LABELED if self.all_labeled else (
            UNCHANGED if is_same and self.standard_error == 0 and self.verdict != TOO_FEW else MEANINGS[verdict])
        then = "; " if self.all_labeled else ": "
        more = "1 more is the only one of its class" if self.single_labels == 1 else (
            f"{self.single_labels} more are the only ones of their classes")
        single = f" ({more})" if self.single_labels else ""
        useless = "" if self.guess is None or self.with_graph < (1 - SOLVER_ROUNDING) * self.guess else (
            f"; always predicting {self.guessed} has {self.metric} {shown(self.guess)}, which is no worse")
        return (f"the {self.n} held-out labels{single} are predicted with {self.metric} "
                f"{shown(self.with_graph, self.with_graph_interval, '95 % interval ')} with {graph} and "
                f"{shown(self.baseline, self.baseline_interval)} without {pronoun} ({difference}"
                f"{sizes}){then}{meaning}{useless}")

    def described(self) -> dict[str, object]:
        """Return all of it; JSON."""
        return asdict(self)


def held_out_loss(target: Target, coding: Coding, values: np.ndarray, weight: np.ndarray | None) -> float:
    """Return the loss of held-out values (h, c) in the scoring of a target, or the error where that is undefined.

    For quantities it is the mean squared residual.
    """
    if isinstance(target, Classes):
        predicted = Predicted.of_values(target, coding, values, weight)
        loss = predicted.loss(target.scoring)
        return predicted.loss("accuracy") if loss is None else loss  # type: ignore[return-value]
    return float(np.average(SQUARED.of(coding, values, target.coded), weights=weight))


def gain_of(target: Target, coding: Coding, with_graph: np.ndarray, baseline: np.ndarray, weight: np.ndarray | None,
            metric: PointMetric, *, without_class_sizes: bool = False) -> Gain:
    """Return the gain of held-out values (l, c) with the graph over those without it.

    Without a label there are too few to tell. metric : used if the scoring of the target is accuracy, or undefined.
    weight (l,) : weighs the errors; the test counts points, and is inconclusive if the weighted difference has the
    other sign. The standard error of a root of means is of first order. Squares are computed in the unit of the target,
    so that they do not overflow.
    """
    name = "error" if target.n_strata > 1 else "rmse"
    if not len(with_graph):
        return Gain(name, 0.0, 0.0, 0.0, 0.0, 0, 1.0, TOO_FEW, without_class_sizes=without_class_sizes)
    if isinstance(target, Classes) and target.scoring != "accuracy":
        graph, reference = (Predicted.of_values(target, coding, values, weight) for values in (with_graph, baseline))
        pair = compare_in_scoring(target.scoring, graph, reference)
        if pair is not None:
            return Gain(LOSSES[target.scoring], pair.baseline - pair.gain, pair.baseline, -pair.gain,
                        pair.standard_error, pair.n, pair.p_value, pair.verdict, graph.loss_interval(target.scoring),
                        reference.loss_interval(target.scoring), pair.interval_of_increase(), without_class_sizes)
    unit = target.unit
    target = target.in_units()
    ours, other = (metric.of(coding, values / unit, target.coded) for values in (with_graph, baseline))
    w = np.full(len(ours), 1 / len(ours)) if weight is None else weight / weight.sum()
    means = [float(w @ ours), float(w @ other)]
    influence = metric.slope(means[0]) * (ours - means[0]) - metric.slope(means[1]) * (other - means[1])
    shown = [float(metric.shown(mean)) for mean in means]
    size = float(np.abs(target.coded).max(initial=0.0))
    difference = shown[0] - shown[1]
    if abs(difference) <= SAME * size:  # equal models differ by rounding
        difference = 0.0
    pair = compare_classes(ours == 0, other == 0) if isinstance(target, Classes) else compare_squared_errors(
        ours, other, size)
    clear = pair.verdict in (HELPED, HURT)
    verdict = UNCLEAR if clear and pair.gain * difference >= 0 else pair.verdict
    standard_error = float(np.sqrt(((w * influence) ** 2).sum()))
    ends, other_ends = (_interval(metric, predicted, w, isinstance(target, Classes), unit)
                        for predicted in (ours, other))
    return Gain(name, shown[0] * unit, shown[1] * unit, difference * unit, standard_error * unit, len(ours),
                pair.p_value, verdict, ends, other_ends,
                pair.interval_of_increase(unit) if weight is None else None, without_class_sizes,
                **_guess(target, w, unit))


class Guess(TypedDict):
    """The error of what needs no model, and what that predicts of each label; see `Gain`."""

    guess: float | None
    guessed: str


def _guess(target: Target, shares: np.ndarray, unit: float) -> Guess:
    """Return the error of the most frequent class, or of the mean of the others, of labels in units.

    shares (l,) : the weights of the labels, of sum 1.
    """
    if isinstance(target, Classes):
        frequencies = np.bincount(target.coded, shares, len(target.names))
        guessed, guess = f"“{target.names[frequencies.argmax()]}”", float(frequencies.sum() - frequencies.max())
    elif len(shares) > 1:
        # From the mean of the others.
        residuals = (target.columns() - shares @ target.columns()) / (1 - shares)[:, None]
        guessed, guess = "the mean of the others", float(np.sqrt(shares @ (residuals**2).mean(axis=1))) * unit
    else:
        guessed, guess = "", 0.0
    return {"guess": guess if guess > 0 else None, "guessed": guessed}


def _interval(metric: PointMetric, losses: np.ndarray, shares: np.ndarray, is_classes: bool,
              unit: float) -> list[float] | None:
    """Return the 95 % interval of the error of points with losses (l,) and weights `shares` (l,), times `unit`.

    Weighted errors are those of the effective number of points; for weighted squares it is that of the delta method.
    """
    mean = float(shares @ losses)
    if is_classes:
        return interval_of_share(min(mean, 1.0), 1 / float(shares @ shares))
    if np.ptp(shares) > SAME * shares.max():
        error = abs(metric.slope(mean)) * float(np.linalg.norm(shares * (losses - mean)))
        ends = interval_of_score(float(metric.shown(mean)), error, len(losses), share=False)
    else:
        ends = interval_of_rmse(losses)
    return None if ends is None else [unit * end for end in ends]

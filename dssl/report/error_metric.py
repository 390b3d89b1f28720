"""How the errors of a run are shown: shares of wrong classes, root mean squared errors, or the metric of `scoring`.

A `Comparison` is of a model with another one on the same points: the difference, its test, and what such a test sees.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ..base.wilson import MIN_PAIRS, SOLVER_ROUNDING
from .record import Attributes, PairedTest, Scores, interval_at
from .text import at, counted, finite, number, p_value, percent, points, with_interval

MAX_SIZES = 8  # of clusters that a table shows
SIGNIFICANT, NEGLIGIBLE = 0.05, 1e-3  # p-value; share of the error of the base model, or of what else is to lose


@dataclass(frozen=True)
class ErrorMetric:
    """The words for an error, or for a metric that is best where it is highest, on test points or held-out labels.

    key, interval_key : in the scores. noun : with its article. name : of the metric on test points. shown, difference :
    text of an error, and of the size of a difference of two. factor, axis, held_out_axis : what an error is drawn
    times, and the words of that axis, on test points and on labels held out. test : the paired test. guess : the name
    of the baseline that needs no model, and what it does, {} being what it says; guess_meaning : the same at length,
    where it is of this metric alone. unlike : what points that should not be neighbors differ in. net : text of a gain
    (a difference) as a number of test points (n_test), or nothing. ties : by key of a second score, which parts equal
    errors. loss_name : what is lower where a model is better. higher : whether the metric is 1 less that.
    """

    key: str
    noun: str
    name: str
    shown: Callable[[object], str]
    difference: Callable[[object], str]
    factor: int
    axis: str
    held_out_axis: str
    test: str
    guess: tuple[str, str]
    unlike: str
    net: Callable[[float, object], str]
    ties: dict[str, str]
    loss_name: str = "error"
    interval_key: str = "interval"
    higher: bool = False
    guess_meaning: str = ""

    @property
    def title(self) -> str:
        """Return the name as a heading begins."""
        return f"{self.name[:1].upper()}{self.name[1:]}"

    @property
    def bare_noun(self) -> str:
        """Return the noun without its article."""
        return self.noun.partition(" ")[2]

    def loss(self, value: float) -> float:
        """Return what is lower where a model is better."""
        return 1 - value if self.higher else value

    def difference_in_words(self, gain: float) -> str:
        """Return the size of a difference as a sentence says it: 14.0 percentage points."""
        return self.difference(gain).replace(" point", " percentage point")

    def change(self, gain: float) -> str:
        """Return a gain in words: 14.0 percentage points lower, or higher of a metric that is best at its highest."""
        return f"{self.difference_in_words(gain)} {self._direction(gain)}"

    def change_interval(self, ends: tuple[float, float]) -> str:
        """Return the interval of a gain in words: 9.1 to 18.6, or where it holds 0, from 1.0 higher to 4.2 lower."""
        inner, outer = sorted(ends, key=abs)
        if inner * outer >= 0:
            return f"{self._size(inner)} to {self._size(outer)}"
        first, last = (f"{self._size(end)} {self._direction(end)}" for end in ends)
        return f"from {first} to {last}"

    def signed(self, gain: float) -> str:
        """Return a difference with its sign and without its unit."""
        return f"{_sign(gain)}{self._size(gain)}"

    def _direction(self, gain: float) -> str:
        return "higher" if (gain > 0) == self.higher else "lower"

    def _size(self, gain: float) -> str:
        """Return the size of a difference without its unit."""
        return self.difference(gain).partition(" ")[0]

    def interval_among(self, scores: Scores) -> tuple[float, float] | None:
        """Return the 95 % interval among some scores; None where it is not known."""
        return interval_at(scores, self.interval_key)

    def with_interval(self, scores: Scores) -> str:
        """Return the error among some scores with its 95 % interval, such as 8.0 % (4.6 to 13.5 %)."""
        return with_interval(self.shown, scores.get(self.key), self.interval_among(scores))


def _sign(gain: object) -> str:
    change = finite(gain)
    return "" if not change else "+" if change > 0 else "−"


def _more_right(gain: float, n_test: object) -> str:
    n = finite(n_test)
    more = None if n is None else round(gain * n)
    return "" if not more else counted(more, "more test point")


def _size(gain: object) -> str:
    size = finite(gain)
    return number(None if size is None else abs(size))


SHARE = ErrorMetric("error", "an error", "test error", percent, points, 100, "test error, %",
                    "error on held-out labels, %", "McNemar's test",
                    ("majority", "predicting class {}"), "different classes", _more_right,
                    {"rmse": "rmse from the codes ±1", "loss": "hinge loss"})
ROOT = ErrorMetric("rmse", "an rmse", "test rmse", number, _size, 1, "test rmse", "rmse on held-out labels",
                   "paired t-test", ("mean", "predicting the mean of the labels, {}"), "different targets",
                   lambda gain, n_test: "", {"mae": "mean absolute error"})


def _metric(key: str, noun: str, loss_name: str, guess: str = "predicting class {}", *, share: bool = True,
            guess_meaning: str = "") -> ErrorMetric:
    """Return how a metric of classes is shown that is not the error."""
    bare = noun.partition(" ")[2]
    unit = ", %" if share else ""
    return replace(SHARE, key=key, noun=noun, name=f"test {bare}", shown=percent if share else number,
                   difference=points if share else _size, factor=100 if share else 1, axis=f"test {bare}{unit}",
                   held_out_axis=f"{bare} on held-out labels{unit}", test="paired test", guess=("majority", guess),
                   net=lambda gain, n_test: "", loss_name=loss_name, interval_key=f"{key}_interval",
                   higher=loss_name != "log loss",
                   guess_meaning=guess_meaning)


# By its name in scikit-learn, how the metric is shown that the spec asks for.
BY_SCORING = {
    "balanced_accuracy": _metric("balanced_accuracy", "a balanced accuracy", "balanced error",
                                 guess_meaning="Predicts one class everywhere. Its balanced accuracy is 1 divided by "
                                               "the number of classes, whichever class it is. A model with a lower "
                                               "one is useless."),
    "f1": _metric("f1", "an F1", "1 - F1", guess_meaning="Predicts the second class, whose F1 is scored, "
                                                         "everywhere. A model with a lower F1 is useless."),
    "f1_macro": _metric("f1_macro", "a macro F1", "1 - macro F1"),
    "roc_auc": _metric("roc_auc", "an AUC", "1 - AUC", "giving all points the same score", share=False,
                       guess_meaning="Gives all points the same score, which has an AUC of 0.5. A model with a lower "
                                     "one is useless."),
    "hamming_loss": replace(
        _metric("hamming_loss", "a Hamming loss", "Hamming loss", "predicting of each tag what most of its labels say",
                guess_meaning="Predicts each tag everywhere or nowhere, as most of its labels say."),
        higher=False, test="paired test over the points"),
    "neg_log_loss": _metric("log_loss", "a log loss", "log loss", "predicting the frequencies of the classes",
                            share=False, guess_meaning="Predicts the frequencies of the classes as probabilities "
                                                       "everywhere. A model with a higher log loss is useless.")}


def metric_of(scores: Scores) -> ErrorMetric:
    """Return how the model is judged by some scores: in the metric of `model.scoring`, or in its errors."""
    return BY_SCORING.get(scores.get("scoring", ""), errors_among(scores))


def errors_among(scores: Scores) -> ErrorMetric:
    """Return how the errors among some scores are shown: as shares, or of a regression as root mean squared errors."""
    return ROOT if "error" not in scores and "rmse" in scores else SHARE


GAIN_HEAD = "gain over it (95 % interval)"


def label_score_rows(by_labels: Attributes) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the cross-validated scores of the models on the labels: the head of a table, and its rows.

    It takes the place of the scores where there are no test points. No rows where no label can be held out.
    """
    if not by_labels.get("n"):
        return (), []
    scores, n = by_labels["scores"], by_labels["n"]
    by = metric_of(scores["model"])
    how = {n: "leave-one-out", 1: "one fold"}.get(by_labels["folds"], f"{by_labels['folds']} folds")
    head = ("", f"{by.bare_noun} on {counted(n, 'held-out label')}, {how} (95 % interval)", GAIN_HEAD, by.test)
    names = ["model", *(name for name in scores if name not in ("model", by.guess[0])), by.guess[0]]
    return head, [(name, by.with_interval(scores[name]), *gain_over(name, scores["model"], by_labels))
                  for name in names if name in scores]


def score_rows(metrics: Scores, baselines: Mapping[str, Scores],
               gain: Attributes) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return the scores of a model and its baselines: the head of a table, and its rows.

    Without test points they are those of held-out labels.
    """
    if not metrics:
        return label_score_rows(gain.get("by_labels", {}))
    scores: dict[str, Scores] = {"model": metrics, **baselines}
    if "n_clusters" in metrics:
        keys = [key for key in ("accuracy", "nmi", "ari") if key in metrics]  # none without classes
        return ("", "clusters", "points in each", "ari with the model", *keys), [
            (name, str(scored["n_clusters"]), _sizes(scored.get("sizes", [])),
             f"{scored['agreement']:.3f}" if "agreement" in scored else "", *(f"{at(scored, key):.3f}" for key in keys))
            for name, scored in scores.items()]
    by = metric_of(metrics)
    return ("", f"{by.name} (95 % interval)", GAIN_HEAD, by.test), [
        (name, by.with_interval(scored), *gain_over(name, metrics, gain)) for name, scored in scores.items()]


def _sizes(sizes: Sequence[int]) -> str:
    """Return how many points the largest clusters have."""
    shown = [f"{size:,}" for size in sorted(sizes, reverse=True)]
    more = [f"and {len(shown) - MAX_SIZES} smaller"] if len(shown) > MAX_SIZES else []
    return " ".join([*shown[:MAX_SIZES], *more])


def gain_over(name: str, metrics: Scores, gains: Attributes) -> tuple[str, str]:
    """Return the model's gain over a baseline with its interval, and the p-value; nothing over a model without one.

    Such as +14.0 points (+9.3 to +20.5). "not defined" is the gain over a model that does not have the metric, such as
    probabilities for a log loss.
    """
    if name in (gains.get("undefined_over") or ()):
        return "not defined", ""
    gain: PairedTest = gains.get(f"over_{name}") or {}
    if not gain:
        return "", ""
    by, ends = metric_of(metrics), interval_at(gain)
    interval = "" if ends is None else f" ({by.signed(ends[0])} to {by.signed(ends[1])})"
    return f"{_sign(gain.get('gain'))}{by.difference(gain.get('gain'))}{interval}", p_value(gain.get("p_value"))


@dataclass(frozen=True)
class Comparison:
    """The error of another model on the same points, or its metric, the model's gain over it, and the p-value.

    interval : the 95 % interval of the gain; None where it is unknown.
    """

    error: float
    gain: float
    p: float
    interval: tuple[float, float] | None
    pair: PairedTest
    scores: Scores

    @classmethod
    def of(cls, baselines: Mapping[str, Scores], gain: Attributes, name: str, by: ErrorMetric) -> "Comparison | None":
        """Return the comparison with a baseline; None where there is none."""
        scores: Scores = baselines.get(name) or {}
        pair: PairedTest = gain.get(f"over_{name}") or {}
        error, change, p = finite(at(scores, by.key)), finite(pair.get("gain")), finite(pair.get("p_value"))
        return None if error is None or change is None or p is None else cls(
            error, change, p, interval_at(pair), pair, scores)

    @property
    def clear(self) -> bool:
        """Return whether the test calls the difference real."""
        return self.p < SIGNIFICANT

    def is_within(self, share: float, by: ErrorMetric) -> bool:
        """Return whether the gain is at most a share of what there is to lose."""
        return abs(self.gain) <= share * by.loss(self.error)

    def is_negligible(self, by: ErrorMetric) -> bool:
        """Return whether the difference is real, but too small to matter."""
        return self.clear and self.is_within(NEGLIGIBLE, by) and not self.is_within(SOLVER_ROUNDING, by)

    def figures(self, by: ErrorMetric) -> str:
        """Return the difference, its interval and its test.

        Such as: 14.0 percentage points lower (95 % interval 9.1 to 18.6; McNemar's test, p = 0.0032).
        """
        change = by.change(self.gain)
        if self.is_within(SOLVER_ROUNDING, by):
            change = "practically no difference" if self.gain else "no difference"
        interval = "" if self.interval is None else f"95 % interval {by.change_interval(self.interval)}; "
        return f"{change} ({interval}{by.test}, {p_value(self.p)})"


def negligible(by: ErrorMetric) -> str:
    """Return that a difference is too small to matter."""
    return ("The difference is not due to chance, but it is too small to matter: less than a thousandth of the "
            f"{by.loss_name}.")


def seen_by_test(by: ErrorMetric, pair: PairedTest) -> str:
    """Return which differences a paired test on these points could have seen."""
    n, smallest, power_limit = (finite(at(pair, key)) for key in ("n", "smallest", "detectable"))
    few = "With so few predictions" if n is None else f"With {counted(int(n), 'prediction')}"
    if smallest is None and n is not None and n >= MIN_PAIRS and not finite(at(pair, "gain")):
        return "Both models do equally well on each point, so nothing tells them apart."
    if smallest is None or (by.factor == 100 and smallest > 1):
        return f"{few}, no difference between two such models can be distinguished from chance, however large it is."
    seen = f"{few}, a difference below {by.difference_in_words(smallest)} cannot be distinguished from chance"
    if power_limit is None:
        return f"{seen}; even the largest possible one would be missed in more than one of five such sets."
    if power_limit < smallest:
        return f"{seen}."
    return (f"{seen}; a difference of {by.difference_in_words(power_limit)} would be detected in four of five such "
            "sets.")

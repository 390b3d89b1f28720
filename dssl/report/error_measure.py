"""How the errors of a run are told: shares of wrong classes, or root mean squared errors; asked here alone."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from .markup import at, counted, finite, number, p_value, percent, points


@dataclass(frozen=True)
class Measure:
    """The words for an error, of a model on test points or of cross-validation.

    key : in the scores. shown, difference : text of an error, and of the size of a difference of two. factor, axis,
    held_out_axis : what an error is drawn times, and the words of that axis, on test points and on labels held out.
    test : the paired test. guess : the name of the baseline that needs no model, and what it does. unlike : what points
    that should not be neighbors differ in. net : text of a gain (a difference) as a number of test points (n_test), or
    nothing. ties : by key of a second score, which parts equal errors.
    """

    key: str
    name: str
    shown: Callable[[Any], str]
    difference: Callable[[Any], str]
    factor: int
    axis: str
    held_out_axis: str
    test: str
    guess: tuple[str, str]
    unlike: str
    net: Callable[[float, Any], str]
    ties: dict[str, str]

    def with_interval(self, scores: dict[str, Any]) -> str:
        """Return the error among some scores with its 95 % interval, such as 8.0 % (4.6 to 13.5 %)."""
        error, ends = self.shown(scores.get(self.key)), interval_among(scores)
        return error if ends is None else f"{error} ({self.shown(ends[0]).removesuffix(' %')} to {self.shown(ends[1])})"


def _more_right(gain: float, n_test: Any) -> str:
    more = None if finite(n_test) is None else round(gain * n_test)
    return "" if not more else counted(more, "more test point is", "more test points are")


def _size(gain: Any) -> str:
    found = finite(gain)
    return number(None if found is None else abs(found))


SHARE = Measure("error", "test error", percent, points, 100, "test error, %", "error on labels held out, %",
                "McNemar's test",
                ("majority", "naming class"), "different classes", _more_right,
                {"rmse": "rmse from the codes ±1", "loss": "hinge loss"})
ROOT = Measure("rmse", "test rmse", number, _size, 1, "test rmse", "rmse on labels held out", "paired t-test",
               ("mean", "predicting the mean of the labels,"), "unlike targets", lambda gain, n_test: "",
               {"mae": "mean absolute error"})


def interval_among(scores: dict[str, Any]) -> tuple[float, float] | None:
    """Return the 95 % interval of the error among some scores; None where it is not known."""
    ends = [finite(end) for end in scores.get("interval") or ()]
    low, high = ends if len(ends) == 2 else (None, None)
    return None if low is None or high is None else (low, high)


def measure_of(scores: dict[str, Any]) -> Measure:
    """Return how the errors among some scores are told: as shares, or of a regression as root mean squared errors."""
    return ROOT if "error" not in scores and "rmse" in scores else SHARE


def label_score_rows(by_labels: dict[str, Any]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return what the labels say of the models, each label predicted without itself: a table's head, and its rows.

    It takes the place of the scores where there are no test points. No rows where no label can be held out.
    """
    if not by_labels.get("n"):
        return (), []
    scores, n = by_labels["scores"], by_labels["n"]
    by = measure_of(scores["model"])
    how = "leave-one-out" if by_labels["folds"] == n else f"{by_labels['folds']} parts"
    head = ("", f"{by.key} held out on {counted(n, 'label')}, {how} (95 % interval)", "gain over it", by.test)
    compared = {"metrics": scores["model"], "gain": by_labels}
    names = ["model", *(name for name in scores if name not in ("model", by.guess[0])), by.guess[0]]
    return head, [(name, by.with_interval(scores[name]), *gain_over(name, compared))
                  for name in names if name in scores]


def gain_over(name: str, result: dict[str, Any]) -> tuple[str, str]:
    """Return the model's gain over a baseline with its sign, and the p-value; nothing over a model without one."""
    gain = at(result, "gain", f"over_{name}")
    if not gain:
        return "", ""
    change = finite(gain.get("gain"))
    sign = "" if not change else "+" if change > 0 else "−"
    return f"{sign}{measure_of(result['metrics']).difference(change)}", p_value(gain.get("p_value"))

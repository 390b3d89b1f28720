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
    test : the paired test. guess : the prediction that needs no model. unlike : what points that should not be
    neighbors differ in. net : text of a gain (a difference) as a number of test points (n_test), or nothing. ties : by
    key of a second score, which parts equal errors.
    """

    key: str
    name: str
    shown: Callable[[Any], str]
    difference: Callable[[Any], str]
    factor: int
    axis: str
    held_out_axis: str
    test: str
    guess: str
    unlike: str
    net: Callable[[float, Any], str]
    ties: dict[str, str]

    def with_deviation(self, scores: dict[str, Any]) -> str:
        """Return the error among some scores, and its standard error."""
        return f"{self.shown(scores.get(self.key))} ± {self.shown(scores.get('standard_error'))}"


def _more_right(gain: float, n_test: Any) -> str:
    more = None if finite(n_test) is None else round(gain * n_test)
    return "" if not more else counted(more, "more test point is", "more test points are")


def _size(gain: Any) -> str:
    found = finite(gain)
    return number(None if found is None else abs(found))


SHARE = Measure("error", "test error", percent, points, 100, "test error, %", "error on labels held out, %",
                "McNemar's test",
                "naming the most frequent class", "different classes", _more_right,
                {"rmse": "rmse from the codes ±1", "loss": "hinge loss"})
ROOT = Measure("rmse", "test rmse", number, _size, 1, "test rmse", "rmse on labels held out", "paired t-test",
               "predicting the mean of the test points", "unlike targets", lambda gain, n_test: "",
               {"mae": "mean absolute error"})


def measure_of(scores: dict[str, Any]) -> Measure:
    """Return how the errors among some scores are told: as shares, or of a regression as root mean squared errors."""
    return ROOT if "error" not in scores and "rmse" in scores else SHARE


def gain_over(name: str, result: dict[str, Any]) -> tuple[str, str]:
    """Return the model's gain over a baseline with its sign, and the p-value; nothing over a model without one."""
    gain = at(result, "gain", f"over_{name}")
    if not gain:
        return "", ""
    change = finite(gain.get("gain"))
    sign = "" if not change else "+" if change > 0 else "−"
    return f"{sign}{measure_of(result['metrics']).difference(change)}", p_value(gain.get("p_value"))


def guess_error(scores: dict[str, Any]) -> float | None:
    """Return the test error of always naming the most frequent class of the test points, or predicting their mean."""
    if "confusion" not in scores:
        return finite(scores.get("deviation"))
    sizes = [sum(row) for row in scores.get("confusion") or []]
    return 1 - max(sizes) / sum(sizes) if sum(sizes) else None

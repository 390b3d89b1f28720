"""A model compared with another one on the same points: the difference, its test, and what such a test can see."""

from collections.abc import Mapping
from dataclasses import dataclass

from ..base.wilson import MIN_PAIRS, SOLVER_ROUNDING
from .error_metric import ErrorMetric
from .record import Attributes, PairedTest, Scores, interval_at
from .text import at, counted, finite, p_value

SIGNIFICANT, NEGLIGIBLE = 0.05, 1e-3  # p-value; share of the error of the base model, or of what else is to lose


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

"""Whether the unlabeled points helped: held-out error with and without the graph, their difference, in words."""

from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..learners.coding import Coding
from ..learners.measures import PointMeasure
from ..learners.target import Classes, Target
from .scores import HELPED, HURT, TOO_FEW, UNCLEAR, Verdict, compared_classes, compared_squares

MEANINGS: dict[Verdict, str] = {
    HELPED: "the unlabeled points help", HURT: "the unlabeled points do not help", UNCLEAR: "no clear difference",
    TOO_FEW: "so few labels cannot tell whether the unlabeled points help"}


@dataclass(frozen=True)
class Gain:
    """Held-out error with the graph and without it; difference : the first less the second, negative where it helps.

    Of classes the share of wrong ones, of quantities the root mean squared error; standard_error : of the difference,
    over the n labeled points, which were each predicted without their own label. p_value, verdict : of the paired test
    that pipelines have too, McNemar's exact test or of quantities the paired t-test of squared errors (`Paired`).
    """

    measure: str
    with_graph: float
    without: float
    difference: float
    standard_error: float
    n: int
    p_value: float
    verdict: Verdict

    @property
    def helps(self) -> bool:
        """Return whether the test says that the error is lower with the graph."""
        return self.verdict == HELPED

    @property
    def hurts(self) -> bool:
        """Return whether it says that the error is higher."""
        return self.verdict == HURT

    def in_words(self) -> str:
        """Return what the figures mean."""
        def shown(value: float) -> str:
            return f"{100 * value:.1f} %" if self.measure == "error" else f"{value:.4g}"

        return (f"held out, the {self.n} labels are predicted with {self.measure} {shown(self.with_graph)} with the "
                f"unlabeled points and {shown(self.without)} without them (difference {shown(self.difference)}, "
                f"standard error {shown(self.standard_error)}, p = {self.p_value:.2g}): {MEANINGS[self.verdict]}")

    def described(self) -> dict[str, Any]:
        """Return the figures; JSON."""
        return asdict(self)


def gain_of(target: Target, coding: Coding, with_graph: np.ndarray, without: np.ndarray, weight: np.ndarray | None,
            measure: PointMeasure) -> Gain:
    """Return the gain of held-out values (l, c) with the graph over those without it.

    measure : of points. The standard error is that of the mean difference over points; of a root of means, to first
    order. weight (l,) : weighs the figures. The test counts points, and says nothing where the weighted difference has
    the other sign. Squares are taken in the unit of the target, in which they neither vanish nor overflow.
    """
    unit, target = target.unit, target.in_units()
    ours, other = (measure.of(coding, values / unit, target.coded) for values in (with_graph, without))
    w = np.full(len(ours), 1 / len(ours)) if weight is None else weight / weight.sum()
    means = [float(w @ ours), float(w @ other)]
    influence = measure.slope(means[0]) * (ours - means[0]) - measure.slope(means[1]) * (other - means[1])
    shown = [float(measure.shown(mean)) for mean in means]
    difference = shown[0] - shown[1]
    pair = compared_classes(ours == 0, other == 0) if isinstance(target, Classes) else compared_squares(
        ours, other, float(np.abs(target.coded).max(initial=0.0)))
    clear = pair.verdict in (HELPED, HURT)
    verdict = UNCLEAR if clear and pair.gain * difference >= 0 else pair.verdict
    standard_error = float(np.sqrt(((w * influence) ** 2).sum()))
    return Gain("error" if target.n_strata > 1 else "rmse", shown[0] * unit, shown[1] * unit, difference * unit,
                standard_error * unit, len(ours), pair.p_value, verdict)

"""Whether the unlabeled points helped: held-out error with and without the graph, their difference, in words."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..learners.coding import Coding
from ..learners.measures import PointMeasure
from ..learners.target import Target

FEW = 20  # labels below which leave-one-out says little
ROUNDING = 1e-9  # of an error, the difference that is none


@dataclass(frozen=True)
class Gain:
    """Held-out error with the graph and without it; difference : the first less the second, negative where it helps.

    Of classes the share of wrong ones, of quantities the root mean squared error; standard_error : of the difference,
    over the n labeled points, which were each predicted without their own label.
    """

    measure: str
    with_graph: float
    without: float
    difference: float
    standard_error: float
    n: int

    @property
    def helps(self) -> bool:
        """Return whether the error is lower with the graph by more than two standard errors."""
        return self._clear and self.difference < 0

    @property
    def hurts(self) -> bool:
        """Return whether it is higher by more than two standard errors, of labels enough to say so."""
        return self.n >= FEW and self._clear and self.difference > 0

    @property
    def _clear(self) -> bool:
        """Return whether the difference is more than two standard errors, and more than rounding."""
        return abs(self.difference) > max(2 * self.standard_error, ROUNDING * self.without)

    def in_words(self) -> str:
        """Return what the figures mean."""
        def shown(value: float) -> str:
            return f"{100 * value:.1f} %" if self.measure == "error" else f"{value:.4g}"

        figures = (f"held out, the {self.n} labels are predicted with {self.measure} {shown(self.with_graph)} with the "
                   f"unlabeled points and {shown(self.without)} without them (difference {shown(self.difference)}, "
                   f"standard error {shown(self.standard_error)})")
        if self.n < FEW:
            return f"{figures}: so few labels cannot tell whether the unlabeled points help"
        verdict = "the unlabeled points help" if self.helps else (
            "the unlabeled points do not help" if self.hurts else "no clear difference")
        return f"{figures}: {verdict}"

    def described(self) -> dict[str, Any]:
        """Return the figures; JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def gain_of(target: Target, coding: Coding, with_graph: np.ndarray, without: np.ndarray, weight: np.ndarray | None,
            measure: PointMeasure) -> Gain:
    """Return the gain of held-out values (l, c) with the graph over those without it.

    measure : of points. The standard error is that of the mean difference over points; of a root of means, to first
    order.
    """
    own, other = (measure.of(coding, values, target.coded) for values in (with_graph, without))
    w = np.full(len(own), 1 / len(own)) if weight is None else weight / weight.sum()
    means = [float(w @ own), float(w @ other)]
    influence = measure.slope(means[0]) * (own - means[0]) - measure.slope(means[1]) * (other - means[1])
    shown = [float(measure.shown(mean)) for mean in means]
    return Gain("error" if target.n_strata > 1 else "rmse", shown[0], shown[1], shown[0] - shown[1],
                float(np.sqrt(((w * influence) ** 2).sum())), len(own))

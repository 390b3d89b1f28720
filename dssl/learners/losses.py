"""Losses that Newton's method lowers: of values f and targets y, with their first and second derivatives in f.

    squared         (y - f)^2
    squared_hinge   max(0, 1 - y f)^2                                                          y in {-1, +1}
    huber_hinge     0,  (1 + h - y f)^2 / (4 h),  1 - y f   for y f above, within and below 1 -+ h; the hinge as h -> 0
    logistic        log(1 + exp(-y f))
    expected_squared_hinge   (1 + y)/2 max(0, 1 - f)^2 + (1 - y)/2 max(0, 1 + f)^2             y in [-1, +1]

The last is the mean of the squared hinge over a sign whose expectation is y. The hinges have no second derivative where
their pieces meet; there it is that of the piece with curvature.

References
----------
Chapelle, "Training a support vector machine in the primal", Neural Computation 2007; Liu et al., "Efficient
cross-validation for semi-supervised learning", section 3.2.2 (huber_hinge).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import expit

from ..base.errors import require

HALF_WIDTHS = (1e-12, 1e6)  # of huber_hinge; below, it bends within the rounding of a value, above it is a line


@dataclass(frozen=True)
class SmoothLoss(ABC):
    """A convex loss with a continuous derivative; values and targets of one shape, and results of it."""

    name: ClassVar[str]
    of_signs: ClassVar[bool] = True  # whether targets are -1 and +1

    @abstractmethod
    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the loss of each value."""

    @abstractmethod
    def gradient(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return its derivative in f."""

    @abstractmethod
    def curvature(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return its second derivative in f, >= 0."""

    @property
    def steps(self) -> "tuple[SmoothLoss, ...]":
        """Return losses that lead to this one, the last: each is minimized from the minimum of the one before."""
        return (self,)


@dataclass(frozen=True)
class Squared(SmoothLoss):
    """`(y - f)^2`."""

    name = "squared"
    of_signs = False

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (y - f) ** 2

    def gradient(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return 2 * (f - y)

    def curvature(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.full(np.shape(f), 2.0)


@dataclass(frozen=True)
class SquaredHinge(SmoothLoss):
    """`max(0, 1 - y f)^2`."""

    name = "squared_hinge"

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1 - y * f) ** 2

    def gradient(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -2 * y * np.maximum(0.0, 1 - y * f)

    def curvature(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(y * f < 1, 2.0, 0.0)


@dataclass(frozen=True)
class ExpectedSquaredHinge(SmoothLoss):
    """`(1 + y)/2 max(0, 1 - f)^2 + (1 - y)/2 max(0, 1 + f)^2` of the expectation y of a sign; of a sign `SquaredHinge`.

    It is not offered by name: targets of labels are signs.
    """

    name = "expected_squared_hinge"
    of_signs = False

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return ((1 + y) * np.maximum(0.0, 1 - f) ** 2 + (1 - y) * np.maximum(0.0, 1 + f) ** 2) / 2

    def gradient(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (1 - y) * np.maximum(0.0, 1 + f) - (1 + y) * np.maximum(0.0, 1 - f)

    def curvature(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return (1 + y) * (f < 1) + (1 - y) * (f > -1)


@dataclass(frozen=True)
class HuberHinge(SmoothLoss):
    """The hinge with its corner rounded over `1 - h <= y f <= 1 + h`; h in `HALF_WIDTHS`, of the paper 0.01."""

    name = "huber_hinge"
    h: float = 0.01

    def __post_init__(self) -> None:
        least, most = HALF_WIDTHS
        number = isinstance(self.h, (int, float)) and not isinstance(self.h, bool)
        require(number and least <= self.h <= most, f"h={self.h!r}, expected a number of {least:g} to {most:g}",
                why="it is the half-width of the part of the hinge that is rounded, against margins of about 1",
                fix="use 0.01, or squared_hinge")

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        short = 1 - y * f
        return np.where(short > self.h, short, np.maximum(0.0, short + self.h) ** 2 / (4 * self.h))

    def gradient(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -y * np.clip((1 + self.h - y * f) / (2 * self.h), 0.0, 1.0)

    def curvature(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.where(np.abs(1 - y * f) <= self.h, 1 / (2 * self.h), 0.0)

    @property
    def steps(self) -> tuple[SmoothLoss, ...]:
        """Return wider corners first, each four times as wide as the next: a narrow one is seen by few points."""
        widths = [self.h]
        while widths[-1] < 0.25:
            widths.append(4 * widths[-1])
        return tuple(HuberHinge(width) for width in reversed(widths))


@dataclass(frozen=True)
class Logistic(SmoothLoss):
    """`log(1 + exp(-y f))`."""

    name = "logistic"

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.logaddexp(0.0, -y * f)

    def gradient(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return -y * expit(-y * f)

    def curvature(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        probability = expit(f)
        return probability * (1 - probability)


SQUARES = Squared()
SMOOTH_LOSSES: dict[str, type[SmoothLoss]] = {loss.name: loss for loss in (Squared, SquaredHinge, HuberHinge, Logistic)}


def loss_of(name: str, h: float = HuberHinge.h) -> SmoothLoss:
    """Return the loss of this name; h : the half-width of "huber_hinge".

    Raises ParameterError: there is none of this name, or h is not in `HALF_WIDTHS`.
    """
    require(name in SMOOTH_LOSSES, f"loss={name!r}", why=f"it is one of {', '.join(SMOOTH_LOSSES)}",
            fix="use squared_hinge for classes, or squared")
    return HuberHinge(h) if name == HuberHinge.name else SMOOTH_LOSSES[name]()

"""Losses of a value f and a target y: one class a loss, registered by its name in `LOSSES`.

    squared         (y - f)^2
    hinge           max(0, 1 - y f)                                                            y in {-1, +1}
    squared_hinge   max(0, 1 - y f)^2
    huber_hinge     0,  (1 + h - y f)^2 / (4 h),  1 - y f   for y f above, within and below 1 -+ h; the hinge as h -> 0
    logistic        log(1 + exp(-y f))
    expected_squared_hinge   (1 + y)/2 max(0, 1 - f)^2 + (1 - y)/2 max(0, 1 + f)^2             y in [-1, +1]

The last is the mean of the squared hinge over a random sign of mean y. All losses but the hinge are smooth; Newton's
method minimizes them (`linear/newton.py`). To add a loss to LapSVM and the linear models on features, write a
`SmoothLoss` and register it with `LOSSES.register`. Learners on a Gram matrix support only the squared loss and the
hinge (`Loss.gram_learner`).

References
----------
Chapelle, "Training a support vector machine in the primal", Neural Computation 2007; Liu et al., "Efficient
cross-validation for semi-supervised learning", section 3.2.2 (huber_hinge).
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

import numpy as np
from scipy.special import expit

from ..base.errors import require
from ..base.plugins import Registry

GramLearner = Literal["svm", "ridge"]

HALF_WIDTHS = (1e-12, 1e6)  # bounds of h of huber_hinge: narrower is rounding of a value, wider is a line


@dataclass(frozen=True)
class Loss(ABC):
    """A convex loss.

    Attributes
    ----------
    name : str
        The name of the loss in specs and estimators.
    of_signs : bool
        Whether targets are -1 and +1, rather than any numbers.
    gram_learner : "svm", "ridge" or None
        The learner on a Gram matrix that minimizes the loss; None if there is none.
    """

    name: ClassVar[str]
    of_signs: ClassVar[bool] = True
    gram_learner: ClassVar[GramLearner | None] = None

    @abstractmethod
    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the loss of each value."""


@dataclass(frozen=True)
class Hinge(Loss):
    """`max(0, 1 - y f)`, which support vector machines minimize."""

    name = "hinge"
    gram_learner = "svm"

    def value(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1 - y * f)


@dataclass(frozen=True)
class SmoothLoss(Loss):
    """A convex loss with a continuous derivative, which Newton's method minimizes."""

    @abstractmethod
    def gradient(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the derivative in f."""

    @abstractmethod
    def curvature(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Return the second derivative in f, >= 0; at a kink that of the curved piece."""

    @property
    def steps(self) -> "tuple[SmoothLoss, ...]":
        """Return the losses to minimize in turn, each from the minimum of the previous one; the last is self."""
        return (self,)


@dataclass(frozen=True)
class Squared(SmoothLoss):
    """`(y - f)^2`."""

    name = "squared"
    of_signs = False
    gram_learner = "ridge"

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
    """`(1 + y)/2 max(0, 1 - f)^2 + (1 - y)/2 max(0, 1 + f)^2`, the expected `SquaredHinge` of a random sign of mean y.

    Not registered, since labels are signs.
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
    """The hinge with its corner rounded over `1 - h <= y f <= 1 + h`; the paper has h = 0.01."""

    name = "huber_hinge"
    h: float = 0.01

    def __post_init__(self) -> None:
        lower, upper = HALF_WIDTHS
        number = isinstance(self.h, (int, float)) and not isinstance(self.h, bool)
        require(number and lower <= self.h <= upper, f"h={self.h!r}, expected a number from {lower:g} to {upper:g}",
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
        """Return losses of decreasing width h, since few points lie in a narrow corner."""
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
LOSSES = Registry[Loss]("loss", Squared, SquaredHinge, HuberHinge, Logistic, Hinge)
LossName = Annotated[str, LOSSES]


def smooth_loss(name: object, h: float = HuberHinge.h) -> SmoothLoss:
    """Return the smooth loss of this name, "huber_hinge" with half-width h; raise ParameterError if there is none."""
    loss = LOSSES.named(name, "loss")
    smooth = [known.name for known in LOSSES.classes() if issubclass(known, SmoothLoss)]
    require(issubclass(loss, SmoothLoss), f"loss={name!r}: Newton's method does not minimize it",
            why="it has no continuous derivative", fix=f"use one of {', '.join(smooth)}")
    assert issubclass(loss, SmoothLoss)
    return HuberHinge(h) if loss is HuberHinge else loss()


def gram_learner(name: object) -> GramLearner:
    """Return the learner on a Gram matrix for the loss of this name; raise ParameterError if there is none."""
    learner = LOSSES.named(name, "loss").gram_learner
    names = [known.name for known in LOSSES.classes() if known.gram_learner]
    require(learner is not None, f"loss={name!r}: no learner on the Gram matrix minimizes it",
            why="it has neither a closed form nor a support vector machine", fix=f"use one of {', '.join(names)}")
    assert learner is not None
    return learner

"""Losses: what it costs that a function's values miss their target, a point."""

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from .coding import Coding


class Loss(ABC):
    """A loss as a value; `measure` names its mean in tables of results."""

    measure: ClassVar[str]

    @abstractmethod
    def of(self, coding: Coding, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        """Return the loss (n,) of values (n, c) whose codes or quantities should be `true`."""

    def measured(self, mean: float) -> float:
        """Return the number that tables show for a mean loss."""
        return mean


class WrongClass(Loss):
    """1 where another class is predicted than the true one, or else 0."""

    measure = "error"

    def of(self, coding: Coding, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return (coding.predictions(values, true)["codes"] != true).astype(np.float64)


class HingeLoss(Loss):
    """max(0, 1 - margin), of the smallest margin of the true class: none for points beyond the margin of 1."""

    measure = "loss"

    def of(self, coding: Coding, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return np.maximum(0.0, 1.0 - coding.least_margins(values, true))


class SquaredLoss(Loss):
    """The mean over columns of squared residuals; its root is shown."""

    measure = "rmse"

    def of(self, coding: Coding, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return (coding.residuals(values, true)**2).mean(axis=1)

    def measured(self, mean: float) -> float:
        return float(np.sqrt(mean))


class AbsoluteLoss(Loss):
    """The mean over columns of absolute residuals."""

    measure = "mae"

    def of(self, coding: Coding, values: np.ndarray, true: np.ndarray) -> np.ndarray:
        return np.abs(coding.residuals(values, true)).mean(axis=1)

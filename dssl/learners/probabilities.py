"""Probabilities of classes from scores, kept beside a model."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

CALIBRATION = "calibration"  # the attribute of a model


@dataclass(frozen=True, eq=False)
class Calibration:
    """`P(class | scores) = softmax(slope scores)` over the classes that are `present`, (n_classes,) bool.

    With a slope > 0 the most probable class is the one of the largest score.
    """

    slope: float
    present: np.ndarray

    def probabilities(self, scores: np.ndarray) -> np.ndarray:
        """Return the probability of each class (n, n_classes) from its scores (n, n_classes); rows sum to 1."""
        return softmax(np.where(self.present, self.slope * scores, -np.inf), axis=1)

    def described(self) -> dict[str, Any]:
        """Return what `from_described` takes; JSON."""
        return {"slope": self.slope, "present": self.present.tolist()}

    @classmethod
    def from_described(cls, described: dict[str, Any]) -> "Calibration":
        """Return the calibration that `described` told."""
        return cls(described["slope"], np.array(described["present"], bool))


def calibration_attributes(calibration: Calibration | None) -> dict[str, Any]:
    """Return the attributes that a model has by its calibration, if there is one; JSON."""
    return {} if calibration is None else {CALIBRATION: calibration.described()}

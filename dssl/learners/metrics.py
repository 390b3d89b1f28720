"""Metrics of predictions: the losses of single points that models are selected by, and the metrics of decisions."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..base.errors import require
from .target.coding import ClassCoding, Coding


@dataclass(frozen=True)
class PointMetric:
    """A loss of each point, whose mean is a metric.

    name : of the metric in tables, which show `shown` of the mean. slope : the derivative of `shown`. of : maps a
    coding, values (n, c) and the true codes or quantities to the losses (n,).
    """

    name: str
    of: Callable[[Coding, np.ndarray, np.ndarray], np.ndarray]
    shown: Callable[[float], float] = float
    slope: Callable[[float], float] = lambda mean: 1.0


def _hinge(coding: Coding, values: np.ndarray, true: np.ndarray) -> np.ndarray:
    assert isinstance(coding, ClassCoding)
    return np.maximum(0.0, 1.0 - coding.min_margins(values, true))


# 1 where another class is predicted than the true one.
WRONG_CLASS = PointMetric("error", lambda coding, values, true: (
    coding.predictions(values, true)["codes"] != true).astype(np.float64))
# max(0, 1 - margin), of the smallest margin of the true class.
HINGE = PointMetric("loss", _hinge)
# Means over columns.
SQUARED = PointMetric("rmse", lambda coding, values, true: (coding.residuals(values, true)**2).mean(axis=1), np.sqrt,
                      lambda mean: 0.5 / mean**0.5 if mean > 0 else 0.0)
ABSOLUTE = PointMetric("mae", lambda coding, values, true: np.abs(coding.residuals(values, true)).mean(axis=1))

ClassScoring = Literal["accuracy", "balanced_accuracy", "f1", "f1_macro", "roc_auc", "neg_log_loss"]
# What reports call the loss of each scoring.
LOSSES: dict[str, str] = {
    "accuracy": "error", "balanced_accuracy": "balanced error", "f1": "1 - F1", "f1_macro": "1 - macro F1",
    "roc_auc": "1 - AUC", "neg_log_loss": "log loss"}
SEARCHED = ("f1", "f1_macro")  # whose decisions follow from held-out labels
DECIDED = ("balanced_accuracy", *SEARCHED)  # where another class than the most probable one may be predicted


def require_decisions(scoring: str | None, *, sized: bool) -> None:
    """Raise ParameterError for an unknown scoring, or one whose decisions contradict known class sizes (`sized`)."""
    require(scoring is None or scoring in LOSSES, f"scoring={scoring!r}",
            why="it says for which metric the predicted class is best", fix=f"use one of {', '.join(LOSSES)}")
    require(not sized or scoring not in DECIDED, f"scoring={scoring!r} and class_sizes",
            why="the class sizes already decide how many points get each class",
            fix="leave class_sizes out and say by class_prior how frequent the classes are, or leave scoring out")

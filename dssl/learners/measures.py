"""Measures of predictions: by how much a function's values miss their target, a point; what models are chosen by."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class PointMeasure:
    """A measure as a value.

    name : of its mean in tables of results, which show `shown` of it. slope : the derivative of `shown`. of : the
    coding of values, values (n, c) and the codes or quantities that they should be -> (n,).
    """

    name: str
    of: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    shown: Callable[[float], float] = float
    slope: Callable[[float], float] = lambda mean: 1.0


# 1 where another class is predicted than the true one.
WRONG_CLASS = PointMeasure("error", lambda coding, values, true: (
    coding.predictions(values, true)["codes"] != true).astype(np.float64))
# max(0, 1 - margin), of the smallest margin of the true class.
HINGE = PointMeasure("loss", lambda coding, values, true: np.maximum(0.0, 1.0 - coding.least_margins(values, true)))
# Means over columns.
SQUARED = PointMeasure("rmse", lambda coding, values, true: (coding.residuals(values, true)**2).mean(axis=1), np.sqrt,
                       lambda mean: 0.5 / mean**0.5 if mean > 0 else 0.0)
ABSOLUTE = PointMeasure("mae", lambda coding, values, true: np.abs(coding.residuals(values, true)).mean(axis=1))

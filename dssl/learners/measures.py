"""Losses: what it costs that a function's values miss their target, a point."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Loss:
    """A loss as a value.

    measure : names its mean in tables of results, which show `shown` of it. of : the coding of values, values (n, c)
    and the codes or quantities that they should be -> (n,).
    """

    measure: str
    of: Callable[[Any, np.ndarray, np.ndarray], np.ndarray]
    shown: Callable[[float], float] = float


# 1 where another class is predicted than the true one.
WRONG_CLASS = Loss("error", lambda coding, values, true: (
    coding.predictions(values, true)["codes"] != true).astype(np.float64))
# max(0, 1 - margin), of the smallest margin of the true class.
HINGE = Loss("loss", lambda coding, values, true: np.maximum(0.0, 1.0 - coding.least_margins(values, true)))
# Means over columns.
SQUARED = Loss("rmse", lambda coding, values, true: (coding.residuals(values, true)**2).mean(axis=1), np.sqrt)
ABSOLUTE = Loss("mae", lambda coding, values, true: np.abs(coding.residuals(values, true)).mean(axis=1))

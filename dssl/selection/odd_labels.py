"""Quantities that the other labels contradict, as a slip of the decimal point: far from what is predicted without them.

A label is odd where its leave-one-out residual is more than `ODD` times the median one of its column, and more than
`FAR` times the median distance of targets from their median. One among a hundred, a hundred times too large, draws
least squares far from all others.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import explain
from ..learners.target.target import Quantities, Target

ODD = 12.0  # of normal residuals, 8 standard deviations
FAR = 6.0  # of normal targets, 4 standard deviations
FEWEST = 8  # labels, whose median residual says what is usual
MAX_LISTED = 20


class OddLabels(UserWarning):
    """Some labels are far from what the others say of them."""


def odd_labels(target: Target, held_out: np.ndarray, rows: np.ndarray) -> list[dict[str, Any]]:
    """Return the odd labels of a target as JSON, the oddest first; of classes none.

    Each has its `row`, `column`, `value`, and `prediction`. held_out (l, c) : what is predicted without each. rows
    (l,) : numbers of the labeled points.
    """
    if not isinstance(target, Quantities) or len(target.labeled) < FEWEST:
        return []
    Y = target.columns()
    residuals = np.abs(held_out - Y)
    usual = np.maximum(np.nanmedian(residuals, axis=0), np.finfo(float).tiny)
    times = residuals / usual
    spread = np.median(np.abs(Y - np.median(Y, axis=0)), axis=0)
    places = np.argwhere((times > ODD) & (residuals > FAR * spread))
    order = np.argsort(-times[tuple(places.T)], kind="stable")[:MAX_LISTED]
    return [{"row": int(rows[i]), "column": int(j), "value": float(Y[i, j]),
             "prediction": float(held_out[i, j])} for i, j in places[order]]


def odd_labels_in_words(odd: Sequence[dict[str, Any]]) -> str:
    """Return which labels are odd, in a sentence."""
    shown = "; ".join(f"row {label['row']} has {label['value']:.6g}, and the others predict {label['prediction']:.6g}"
                      for label in odd[:5])
    return shown + (f"; and {len(odd) - 5} more" if len(odd) > 5 else "")


def warn_odd_labels(odd: Sequence[dict[str, Any]]) -> None:
    """Warn of odd labels, if there are any."""
    if odd:
        warnings.warn(explain(
            "some targets are far from what the other labels predict (rows count from 0): "
            f"{odd_labels_in_words(odd)}",
            why="squared errors follow them, and the predictions of all points with them",
            fix="check these values; correct them, or mark them as unknown"), OddLabels, stacklevel=4)

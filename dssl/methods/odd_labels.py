"""Targets of a regression that the other labels contradict, as one with a misplaced decimal point.

A target is odd if its leave-one-out residual is more than `ODD` times the median residual of its column, and more than
`MIN_DISTANCE` times the median distance of the targets from their median.
"""

import warnings
from collections.abc import Sequence
from typing import TypedDict

import numpy as np

from ..base.errors import explain
from ..learners.target.target import Quantities, Target

ODD = 12.0  # of normal residuals, 8 standard deviations
MIN_DISTANCE = 6.0  # of normal targets, 4 standard deviations
MIN_LABELS = 8  # for a median residual
MAX_LISTED = 20


class OddLabels(UserWarning):
    """Some labels are far from their leave-one-out predictions."""


class OddLabel(TypedDict):
    """A target far from its leave-one-out prediction, by its row and its column."""

    row: int
    column: int
    value: float
    prediction: float


def odd_labels(target: Target, held_out: np.ndarray, rows: np.ndarray) -> list[OddLabel]:
    """Return the odd labels as JSON, the worst first.

    held_out (l, c) : leave-one-out predictions. rows (l,) : numbers of the labeled points.
    """
    if not isinstance(target, Quantities) or len(target.labeled) < MIN_LABELS:
        return []
    Y = target.columns()
    residuals = np.abs(held_out - Y)
    usual = np.maximum(np.nanmedian(residuals, axis=0), np.finfo(float).tiny)
    times = residuals / usual
    spread = np.median(np.abs(Y - np.median(Y, axis=0)), axis=0)
    suspicious = np.argwhere((times > ODD) & (residuals > MIN_DISTANCE * spread))
    order = np.argsort(-times[tuple(suspicious.T)], kind="stable")[:MAX_LISTED]
    return [{"row": int(rows[i]), "column": int(j), "value": float(Y[i, j]),
             "prediction": float(held_out[i, j])} for i, j in suspicious[order]]


def odd_labels_in_words(odd: Sequence[OddLabel]) -> str:
    shown = "; ".join(f"row {label['row']} has {label['value']:.6g}, and the others predict {label['prediction']:.6g}"
                      for label in odd[:5])
    return shown + (f"; and {len(odd) - 5} more" if len(odd) > 5 else "")


def warn_odd_labels(odd: Sequence[OddLabel]) -> None:
    if odd:
        warnings.warn(explain(
            "some targets are far from what the other labels predict (rows count from 0): "
            f"{odd_labels_in_words(odd)}",
            why="they distort a fit by squared errors, and so the predictions of all points",
            fix="check these values: correct those that are wrong, or mark them as unknown; of a skewed quantity, such "
                "as a price, fit the logarithm"), OddLabels, stacklevel=5)

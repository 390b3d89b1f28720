"""Suspicious labels of a regression, such as those with a misplaced decimal point.

A label is suspicious if its leave-one-out residual is more than `ODD` times the median residual of its column, and more
than `MIN_DISTANCE` times the median distance of the targets from their median.
"""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..base.errors import explain
from ..learners.target.target import Quantities, Target

ODD = 12.0  # of normal residuals, 8 standard deviations
MIN_DISTANCE = 6.0  # of normal targets, 4 standard deviations
MIN_LABELS = 8  # for a median residual
MAX_LISTED = 20


class OddLabels(UserWarning):
    """Some labels are far from their leave-one-out predictions."""


def odd_labels(target: Target, held_out: np.ndarray, rows: np.ndarray) -> list[dict[str, Any]]:
    """Return the `row`, `column`, `value` and `prediction` of each suspicious quantity as JSON, the worst first.

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


def odd_labels_in_words(odd: Sequence[dict[str, Any]]) -> str:
    shown = "; ".join(f"row {label['row']} has {label['value']:.6g}, and the others predict {label['prediction']:.6g}"
                      for label in odd[:5])
    return shown + (f"; and {len(odd) - 5} more" if len(odd) > 5 else "")


def warn_odd_labels(odd: Sequence[dict[str, Any]]) -> None:
    if odd:
        warnings.warn(explain(
            "some targets are far from what the other labels predict (rows count from 0): "
            f"{odd_labels_in_words(odd)}",
            why="they distort a fit by squared errors, and so the predictions of all points",
            fix="check these values; correct them, or mark them as unknown"), OddLabels, stacklevel=4)

"""Metrics of a classifier's predictions, the same in all benchmarks."""

from typing import Any

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.metrics import f1_score, roc_auc_score

MIN_PROBABILITY = 1e-12  # of which a logarithm is taken
BINS = 15  # of the largest probability


def metrics_of(y: np.ndarray, predicted: np.ndarray, classes: np.ndarray, *,
               probabilities: np.ndarray | None = None,
               scores: np.ndarray | None = None) -> dict[str, Any]:
    """Return the metrics of predictions at n points.

    Parameters
    ----------
    y, predicted : ndarray, shape (n,)
        True and predicted codes; a code that no class has is an error.
    classes : ndarray, shape (k,)
        The codes that had a label, ascending: those of the columns.
    probabilities : ndarray, shape (n, k), optional
        Of the classes; a row of NaN stands for equal ones.
    scores : ndarray, shape (n,) or (n, k), optional
        What ranks the points where there are no probabilities; one column is of the second
        class of two.

    Returns
    -------
    dict
        `error`, `balanced_error` (the mean over classes) and `f1` (of the second of two
        classes, or the mean over classes) in percent. `auc`, one class
        against all others, the mean over the classes. With probabilities also `log_loss`
        and `calibration_error`, of the points of classes that had a label, the
        `mean_probability` of each class and its `share` of the points.
    """
    wrong = predicted != y
    balanced = np.mean([wrong[y == code].mean() for code in np.unique(y)])
    metrics: dict[str, Any] = {"error": round(100 * float(wrong.mean()), 3),
                               "balanced_error": round(100 * float(balanced), 3),
                               "f1": round(100 * f1_of(y, predicted), 3)}
    if probabilities is not None:
        unknown = np.isnan(probabilities).any(axis=1)
        probabilities = np.where(unknown[:, None], 1 / len(classes), probabilities)
        scores = probabilities
    if scores is not None:
        metrics["auc"] = area(y, scores, classes)
    if probabilities is not None:
        metrics |= calibration(y, probabilities, classes)
        metrics["mean_probability"] = probabilities.mean(axis=0).round(4).tolist()
        metrics["share"] = [round(float((y == code).mean()), 4) for code in classes]
    return metrics


def f1_of(y: np.ndarray, predicted: np.ndarray) -> float:
    """Return the F1 score of the second of two classes, or the mean over the classes of the points."""
    codes = np.unique(y)
    kind = {"pos_label": codes[-1]} if len(codes) == 2 else {"average": "macro", "labels": codes}
    return float(f1_score(y, predicted, zero_division=0, **kind))


def metrics_at(chosen: np.ndarray, y: np.ndarray, prediction: dict[str, np.ndarray]) -> dict[str, Any]:
    """Return the metrics of a prediction, the arguments of `metrics_of`, at the points where `chosen` (n,) is true."""
    rows = {name: array if name == "classes" else array[chosen] for name, array in prediction.items()}
    return metrics_of(y[chosen], **rows)


def scores_of(model: Any, X: np.ndarray) -> dict[str, np.ndarray]:
    """Return the probabilities of a model, or its scores where it has none, as arguments of `metrics_of`."""
    try:
        return {"probabilities": model.predict_proba(X)}
    except (AttributeError, NotFittedError):
        return {"scores": model.decision_function(X)}


def area(y: np.ndarray, scores: np.ndarray, classes: np.ndarray) -> float | None:
    """Return the area under the curve of one class against all others, the mean over classes."""
    columns = np.column_stack([-scores, scores]) if scores.ndim == 1 else scores
    medians = np.nanmedian(columns, axis=0)
    columns = np.where(np.isnan(columns), medians, columns)
    areas = [roc_auc_score(y == code, column) for code, column in zip(classes, columns.T, strict=True)
             if 0 < np.count_nonzero(y == code) < len(y)]
    return round(float(np.mean(areas)), 4) if areas else None


def calibration(y: np.ndarray, probabilities: np.ndarray, classes: np.ndarray) -> dict[str, float]:
    """Return the log loss and the expected calibration error."""
    known = np.isin(y, classes)
    columns = np.searchsorted(classes, y[known])
    P = probabilities[known]
    true = P[np.arange(len(P)), columns]
    right = P.argmax(axis=1) == columns
    largest = P.max(axis=1)
    bins = np.minimum((BINS * largest).astype(int), BINS - 1)
    errors = [abs(float(right[bins == b].mean() - largest[bins == b].mean())) * float((bins == b).mean())
              for b in np.unique(bins)]
    log_loss = -float(np.log(np.maximum(true, MIN_PROBABILITY)).mean())
    return {"log_loss": round(log_loss, 4), "calibration_error": round(sum(errors), 4)}

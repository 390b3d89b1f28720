"""Predict the test points with a model and its baselines, and compare."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.stats import binomtest
from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score

from ..blocks import Arrays, PartWriter, Receipt, Rows, row_ranges
from ..execution import Execution, Progress
from ..kernels.gram import block_rows, entries_of
from ..kernels.support import largest_diagonal, supported_values
from ..models.base import LEAST_SUPPORT
from .context import Context
from .training import load_model


@dataclass(frozen=True)
class PredictTask:
    """Write the codes that each model predicts for one range of rows, and which rows are beyond its support."""

    rows: Rows
    fitted: Arrays
    models: dict[str, Any]
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.fitted.load()
        X = self.rows.read(self.start, self.stop)
        codes, beyond = [], []
        for name in self.models:
            model = load_model(arrays, self.models, name)
            values, largest = supported_values(model.kernel, X, model.points, model.coef)
            codes.append(model.codes(values + model.intercept))
            beyond.append(largest < LEAST_SUPPORT * largest_diagonal(model.kernel, model.points))
        return out.write_rows(self.start, codes=np.stack(codes, axis=1), unsupported=np.stack(beyond, axis=1))


def predict_codes(rows: Rows, fitted: Arrays, models: dict[str, Any], execution: Execution, parts: Any,
                  progress: Progress | None = None) -> np.ndarray:
    """Return the predicted codes (n, n_models) of every model for every row, in blocks.

    `parts` then holds, beside them, `unsupported` (n, n_models) bool: the rows beyond each model's support.
    """
    arrays = fitted.load()
    largest = max((load_model(arrays, models, name) for name in models), key=lambda model: model.points.shape[0])
    own = sum(array.nbytes for array in arrays.values())
    height = block_rows(largest.kernel, rows, largest.points.shape[0], execution.memory_budget, kernel_bytes=own,
                        sparse_entries=entries_of(largest.points))
    parts.allocate("codes", (len(rows), len(models)), np.int64, height)
    parts.allocate("unsupported", (len(rows), len(models)), bool, height)
    tasks = [PredictTask(rows, fitted, models, start, stop) for start, stop in row_ranges(len(rows), height)]
    execution.map(tasks, parts, progress)
    return parts.rows("codes").read_all()


def classification_scores(predicted: np.ndarray, true: np.ndarray, classes: list[Any]) -> dict[str, Any]:
    """Return the scores of predicted codes (n,) against the true ones."""
    wrong = predicted != true
    error = float(wrong.mean())
    present = np.unique(true)
    return {"error": error, "accuracy": 1 - error, "standard_error": float(np.sqrt(error * (1 - error) / len(true))),
            "balanced_accuracy": float(balanced_accuracy_score(true, predicted)) if len(present) > 1 else 1 - error,
            "macro_f1": float(f1_score(true, predicted, average="macro", labels=present, zero_division=0)),
            "n_test": len(true),
            "confusion": confusion_matrix(true, predicted, labels=np.arange(len(classes))).tolist()}


def unlabeled_verdict(codes: dict[str, np.ndarray], true: np.ndarray) -> dict[str, Any]:
    """Return whether the unlabeled data helped, on the same test points: gains in error and a paired test.

    The p-value is McNemar's exact test on the points that one of the two gets right. "helped" asks for a lower error
    than both the base kernel and the shuffled graph, and p < 0.05 against the base kernel.
    """
    verdict: dict[str, Any] = {}
    right = {name: found == true for name, found in codes.items()}
    for name in codes:
        if name == "model":
            continue
        gained, lost = int((right["model"] & ~right[name]).sum()), int((~right["model"] & right[name]).sum())
        p_value = float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
        verdict[f"over_{name}"] = {"gain": (gained - lost) / len(true), "p_value": p_value}
    base, control = verdict["over_base"], verdict["over_shuffled"]
    if base["gain"] > 0 and base["p_value"] < 0.05 and control["gain"] > 0:
        verdict["unlabeled_data"] = "helped"
    elif base["gain"] < 0 and base["p_value"] < 0.05:
        verdict["unlabeled_data"] = "hurt"
    else:
        verdict["unlabeled_data"] = "no clear difference"
    return verdict


def make_scores(context: Context) -> dict[str, Any]:
    """Predict the test points with every model, and compare."""
    models, classes = context.attributes("models")["models"], context.attributes("split")["classes"]
    true = context.arrays("split")["test_codes"]
    predicted = predict_codes(context.points("test"), context.inputs["models"].parts.arrays(0), models,
                              context.execution, context.parts, context.progress)
    codes = {name: predicted[:, column] for column, name in enumerate(models)}
    beyond = context.parts.rows("unsupported").read_all().sum(axis=0).tolist()
    scores = {name: {**classification_scores(found, true, classes), "unsupported": beyond[column]}
              for column, (name, found) in enumerate(codes.items())}
    return {"metrics": scores.pop("model"), "baselines": scores, "gain": unlabeled_verdict(codes, true)}

"""Predict the test points with a model and its baselines, and compare."""

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..execution.tasks import Execution, Progress
from ..kernels.gram import block_rows, entries_of
from ..learners.kernel_model import KernelModel
from ..report.sections.scores import scores_section
from ..report.words import Baseline
from ..storage.blocks import Arrays, PartWriter, Receipt, Rows, row_ranges
from .stage import Context, NoParams, Stage

MOST_SHOWN = 500  # test points of a regression that the report draws


def load_model(arrays: dict[str, np.ndarray], models: dict[str, Any], name: str) -> KernelModel:
    """Return one of the models of an artifact: the arrays `NAME.ARRAY`."""
    own = {key.removeprefix(f"{name}."): array for key, array in arrays.items() if key.startswith(f"{name}.")}
    return KernelModel.from_arrays(own, models[name])


def code_errors(values: np.ndarray, codes: np.ndarray, n_classes: int) -> np.ndarray:
    """Return the mean squared difference (n,) of one-vs-rest values (n, c) from the codes +1 and -1 of the classes.

    Of two classes the columns are each other's negative, so the last one is taken.
    """
    signs = np.where(codes[:, None] == np.arange(n_classes), 1.0, -1.0)
    if n_classes == 2:
        values, signs = values[:, -1:], signs[:, -1:]
    return ((values - signs) ** 2).mean(axis=1)


@dataclass(frozen=True)
class PredictTask:
    """Write what each model predicts for one range of test points, and which points are beyond its support.

    Shared arrays, each (n, n_models): `codes`, or `values` of a regression; `code_errors` where the models are
    one-vs-rest; `unsupported`.
    """

    rows: Rows
    fitted: Arrays
    models: dict[str, Any]
    split: Arrays  # test_codes (n,), of a classification
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.fitted.load()
        X = self.rows.read(self.start, self.stop)
        found: dict[str, list[np.ndarray]] = {name: [] for name in predicted_arrays(self.models)}
        for name in self.models:
            model = load_model(arrays, self.models, name)
            values, beyond = model.block_values(X)
            if "values" in found:
                found["values"].append(values[:, 0])
            else:
                found["codes"].append(model.codes(values))
            if "code_errors" in found:
                true = self.split.load()["test_codes"][self.start:self.stop]
                found["code_errors"].append(code_errors(values, true, len(model.classes)))
            found["unsupported"].append(beyond)
        return out.write_rows(self.start, **{name: np.stack(columns, axis=1) for name, columns in found.items()})


def predicted_arrays(models: dict[str, Any]) -> dict[str, type]:
    """Return the names and types of the arrays that are predicted, by the coding that the models have in common."""
    coding = models["model"]["coding"]
    if coding == "values":
        return {"values": np.float64, "unsupported": bool}
    errors = {"code_errors": np.float64} if coding == "one_vs_rest" else {}
    return {"codes": np.int64, **errors, "unsupported": bool}


def predict_points(rows: Rows, fitted: Arrays, models: dict[str, Any], split: Arrays, execution: Execution, parts: Any,
                   progress: Progress | None = None) -> dict[str, np.ndarray]:
    """Return what every model predicts for every row, in blocks: the arrays of `PredictTask`, by name."""
    arrays = fitted.load()
    largest = max((load_model(arrays, models, name) for name in models), key=lambda model: model.points.shape[0])
    own = sum(array.nbytes for array in arrays.values())
    height = block_rows(largest.kernel, rows, largest.points.shape[0], execution.memory_budget, kernel_bytes=own,
                        sparse_entries=entries_of(largest.points))
    kinds = predicted_arrays(models)
    for name, dtype in kinds.items():
        parts.allocate(name, (len(rows), len(models)), dtype, height)
    tasks = [PredictTask(rows, fitted, models, split, start, stop) for start, stop in row_ranges(len(rows), height)]
    execution.map(tasks, parts, progress)
    return {name: parts.rows(name).read_all() for name in kinds}


def classification_scores(predicted: np.ndarray, true: np.ndarray, classes: list[Any],
                          errors: np.ndarray | None) -> dict[str, Any]:
    """Return the scores of predicted codes (n,) against the true ones.

    errors : (n,), see `code_errors`, of which rmse is the root of the mean; None where the model has no such values.
    """
    from sklearn.metrics import balanced_accuracy_score, confusion_matrix, f1_score  # two seconds, only for scores

    wrong = predicted != true
    error = float(wrong.mean())
    present = np.unique(true)
    return {"error": error, "accuracy": 1 - error, "standard_error": float(np.sqrt(error * (1 - error) / len(true))),
            "balanced_accuracy": float(balanced_accuracy_score(true, predicted)) if len(present) > 1 else 1 - error,
            "macro_f1": float(f1_score(true, predicted, average="macro", labels=present, zero_division=0)),
            "rmse": None if errors is None else float(np.sqrt(errors.mean())),
            "n_test": len(true),
            "confusion": confusion_matrix(true, predicted, labels=np.arange(len(classes))).tolist()}


def regression_scores(predicted: np.ndarray, true: np.ndarray) -> dict[str, Any]:
    """Return the scores of predicted quantities (n,) against the true ones, in the target's unit but for r2.

    standard_error is that of rmse, by the delta method. r2 is None where all true ones are equal. deviation is that of
    the true ones, the rmse of always predicting their mean.
    """
    squared = (predicted - true) ** 2
    rmse, deviation = float(np.sqrt(squared.mean())), float(true.std())
    return {"rmse": rmse, "mae": float(np.abs(predicted - true).mean()),
            "r2": 1 - (rmse / deviation) ** 2 if deviation > 0 else None,
            "standard_error": float(squared.std() / (2 * rmse * np.sqrt(len(true)))) if rmse > 0 else 0.0,
            "deviation": deviation, "n_test": len(true)}


def _codes_compared(found: np.ndarray, other: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Return the gain in error of codes over others, and the p-value of McNemar's exact test."""
    from scipy.stats import binomtest

    gained, lost = int(((found == true) & (other != true)).sum()), int(((found != true) & (other == true)).sum())
    return (gained - lost) / len(true), float(binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0


def _values_compared(found: np.ndarray, other: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Return the gain in rmse of quantities over others, and the p-value of the paired t-test of squared errors."""
    from scipy.stats import ttest_rel

    own, theirs = (found - true) ** 2, (other - true) ** 2
    gain = float(np.sqrt(theirs.mean()) - np.sqrt(own.mean()))
    if len(true) < 2 or not (own != theirs).any():
        return gain, 1.0
    with warnings.catch_warnings(), np.errstate(divide="ignore", invalid="ignore"):
        warnings.simplefilter("ignore", RuntimeWarning)  # of differences that are as good as equal
        p_value = float(ttest_rel(own, theirs).pvalue)
    return gain, p_value if np.isfinite(p_value) else 1.0


def unlabeled_verdict(predicted: dict[str, np.ndarray], true: np.ndarray) -> dict[str, Any]:
    """Return whether the unlabeled data helped, on the same test points: gains in error and a paired test.

    The p-value is McNemar's exact test on the points that one of the two gets right; of quantities, which are floats,
    it is the paired t-test of squared errors, and the gain is one in rmse. "helped" asks for a lower error than both
    the base kernel and the shuffled graph, and p < 0.05 against the base kernel.
    """
    verdict: dict[str, Any] = {}
    compare: Callable[..., tuple[float, float]] = _values_compared if true.dtype.kind == "f" else _codes_compared
    for name, found in predicted.items():
        if name != "model":
            gain, p_value = compare(predicted["model"], found, true)
            verdict[f"over_{name}"] = {"gain": gain, "p_value": p_value}
    base, control = verdict["over_base"], verdict["over_shuffled"]
    if base["gain"] > 0 and base["p_value"] < 0.05 and control["gain"] > 0:
        verdict["unlabeled_data"] = "helped"
    elif base["gain"] < 0 and base["p_value"] < 0.05:
        verdict["unlabeled_data"] = "hurt"
    else:
        verdict["unlabeled_data"] = "no clear difference"
    return verdict


def make_scores(context: Context, params: NoParams) -> dict[str, Any]:
    """Predict the test points with every model, and compare."""
    models, classes = context.attributes("models")["models"], context.attributes("split").get("classes")
    split = context.arrays("split")
    found = predict_points(context.points("test"), context.inputs["models"].parts.arrays(0), models,
                           context.inputs["split"].parts.arrays(0), context.execution, context.parts, context.progress)
    true = split["test_values" if classes is None else "test_codes"]
    predicted = {name: found["values" if classes is None else "codes"][:, column]
                 for column, name in enumerate(models)}
    errors, scores = found.get("code_errors"), {}
    for column, name in enumerate(models):
        own = regression_scores(predicted[name], true) if classes is None else classification_scores(
            predicted[name], true, classes, None if errors is None else errors[:, column])
        scores[name] = {**own, "unsupported": int(found["unsupported"][:, column].sum())}
    compared = {"metrics": scores.pop("model"), "baselines": scores, "gain": unlabeled_verdict(predicted, true)}
    if classes is not None:
        return compared
    some = np.unique(np.linspace(0, len(true) - 1, MOST_SHOWN).astype(int))
    return {**compared, "shown": {"true": true[some].tolist(), "predicted": predicted["model"][some].tolist()}}


BASE = Baseline(
    "base", "The same learner and labels in the plain kernel, without the graph: unlabeled points enter at most the "
            "scaling, the bandwidth and the landmarks. What the model gains over it is what the graph may have "
            "brought.")
SCORES = Stage("scores", 3, ("split", "points", "models"), lambda spec: NoParams(), make_scores, section=scores_section,
               leads=True)

"""Scores of predicted classes and quantities, and the baseline that needs no model."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..base.types import Matrix
from ..base.wilson import interval_of_share
from ..execution.tasks import Execution
from ..learners.model import Model, Output, SharedModels, predict_blocks
from ..learners.probabilities import CALIBRATION, Calibration
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Classes, Target
from ..storage.blocks import Arrays, Parts, Receipt, Rows
from .calibration import reliability_of
from .held_out_scores import MIN_PROBABILITY
from .interval import interval_of_rmse, interval_of_score
from .scoring import KEYS, Predicted

BESIDE = ("balanced_accuracy", "f1_macro", "roc_auc", "neg_log_loss")  # metrics of classes beside the error
MAX_PLOTTED = 500  # test points of a regression in the plot of the report
OF_MODEL = "of_model"  # the array of the values of "model"


@dataclass(frozen=True)
class Predictions(Output):
    """Predictions of test points, (n, n_models) each: the `Coding.predictions` that all models have, and `unsupported`.

    For classes also `log_losses` and the `probabilities` of the predicted classes, NaN for models without any, and
    `margins` (n, n_models, n_classes), for two classes only those of the second; float32. Memory: `scored_bytes`.
    `of_model` (n, c) are the values of the model itself.

    true : the codes or quantities of all points, as `true` (n,).
    """

    true: Arrays

    def arrays(self, models: Mapping[str, Model]) -> dict[str, tuple[tuple[int, ...], Any]]:
        first, *others = [model.coding.predictions(np.zeros((0, model.n_columns)), np.zeros(0, np.int64))
                          for model in models.values()]
        coding = next(iter(models.values())).coding
        of_classes = {**dict.fromkeys(("log_losses", "probabilities"), ((len(models),), np.dtype(np.float32))),
                      "margins": ((len(models), margin_columns(len(coding.classes))), np.dtype(np.float32))}
        return {OF_MODEL: ((models["model"].n_columns,), np.float64), "unsupported": ((len(models),), bool),
                **(of_classes if isinstance(coding, ClassCoding) else {}),
                **{name: ((len(models),), array.dtype) for name, array in first.items()
                   if all(name in other for other in others)}}

    def __call__(self, models: Mapping[str, Model], X: Matrix, start: int) -> tuple[dict[str, np.ndarray], Receipt]:
        true = self.true.load()["true"][start:start + X.shape[0]]
        outputs, values_of = [], dict[str, np.ndarray]()
        for name, model in models.items():
            values, unsupported = model.block_values(X)
            values_of[name] = values
            predicted = model.coding.predictions(values, true)
            predicted |= margins_and_probabilities(model, values, predicted, true)
            outputs.append({**(with_rejections(predicted, unsupported) if model.rejects else predicted),
                            "unsupported": unsupported})
        return {OF_MODEL: values_of["model"], **{name: np.stack([output[name] for output in outputs], axis=1)
                                                 for name in self.arrays(models) if name != OF_MODEL}}, {}


def margin_columns(n_classes: int) -> int:
    """Return the number of margins that are kept of a point: of two classes only that of the second."""
    return 1 if n_classes == 2 else n_classes


def scored_bytes(n_classes: int, n_models: int, *, has_scoring: bool = False) -> int:
    """Return the bytes of a point, beside its codes, for margins, log losses, probabilities and the ranks of an AUC.

    has_scoring : whether models are compared by another scoring than accuracy, such as macro F1.
    """
    return 4 * n_models * (2 + margin_columns(n_classes)) + 96 + (44 + 40 * n_classes if has_scoring else 0)


def margins_and_probabilities(model: Model, values: np.ndarray, predicted: Mapping[str, np.ndarray],
                              true: np.ndarray) -> dict[str, np.ndarray]:
    """Return the margins of classes, the log losses, and the probabilities of the predicted codes, see `Predictions`.

    Nothing for quantities.
    """
    if not isinstance(model.coding, ClassCoding):
        return {}
    margins = model.coding.margins(values)
    described = model.attributes.get(CALIBRATION)
    losses, probabilities = np.full((2, len(values)), np.nan)
    if described is not None:
        P = Calibration.from_dict(described).probabilities(margins)
        losses = -np.log(np.maximum(P[np.arange(len(true)), true], MIN_PROBABILITY))
        probabilities = P[np.arange(len(true)), predicted["codes"]]
    return {"log_losses": losses.astype(np.float32), "probabilities": probabilities.astype(np.float32),
            "margins": margins[:, -margin_columns(len(model.coding.classes)):].astype(np.float32)}


def with_rejections(predicted: Mapping[str, np.ndarray], rejected: np.ndarray) -> dict[str, np.ndarray]:
    """Return predictions, (n,) by name, with the code -1, which counts as wrong, at the `rejected` points (n,)."""
    return {name: np.where(rejected, -1, array) if name == "codes" else array for name, array in predicted.items()}


def predict_test(rows: Rows, models: SharedModels, true: np.ndarray, execution: Execution,
                 parts: Parts) -> dict[str, dict[str, np.ndarray]]:
    """Return the predictions of each model for its scores, (n,) by name."""
    output = Predictions(execution.share(true=true))
    predict_blocks(rows, models, output, execution, parts)
    opened = models.open()
    columns = {name: parts.rows(name).read_all() for name in output.arrays(opened) if name != OF_MODEL}
    return {name: {key: array[:, column] for key, array in columns.items()} for column, name in enumerate(opened)}


def scores_of(true: Target, predictions: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Return the scores of predictions, (n,) by name, against the true target of the same points."""
    if isinstance(true, Classes):
        return _class_scores(true, predictions)
    return _value_scores(true.columns()[:, 0], predictions["values"])


def _class_scores(true: Classes, predictions: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Return the scores of predicted codes; rmse is of the columns from the codes +1 and -1, where there are such.

    interval : of the error on new points, see `interval.py`. roc_auc : of several classes the mean of each against the
    rest; None without margins, or for points of one class. log_loss : None without probabilities. Each of these metrics
    has its 95 % interval beside it, and "scoring" is that of the target where it is another than accuracy and defined.
    reliability : of the points that are not rejected, see `reliability_of`; None without probabilities.
    """
    predicted = predictions["codes"]
    errors, probabilities = (predictions.get(name) for name in ("code_errors", "probabilities"))
    error = float((predicted != true.coded).mean())
    confusion = np.zeros((len(true.names), len(true.names)), np.int64)
    is_class = predicted >= 0
    np.add.at(confusion, (true.coded[is_class], predicted[is_class]), 1)
    points = Predicted.of_predictions(true, predictions)
    beside: dict[str, object] = {"scoring": true.scoring}
    for scoring in BESIDE if true.scoring in (*BESIDE, "accuracy") else (*BESIDE, true.scoring):
        beside |= points.score(scoring) or {KEYS[scoring]: None}
    if beside.get(KEYS.get(true.scoring, "")) is None:
        del beside["scoring"]
    return {"error": error, "accuracy": 1 - error,
            "standard_error": float(np.sqrt(error * (1 - error) / len(true.coded))),
            "interval": interval_of_share(error, len(true.coded)), **beside,
            "rmse": None if errors is None else float(np.sqrt(errors.mean())), "n_test": len(true.coded),
            "confusion": confusion.tolist(),
            "reliability": None if probabilities is None else reliability_of(
                probabilities[is_class], (predicted == true.coded)[is_class])}


def target_score(true: Target, predictions: Mapping[str, np.ndarray]) -> dict[str, object]:
    """Return the score in the scoring of a target beside the error, see `Predicted.score`; JSON."""
    if not isinstance(true, Classes) or true.scoring == "accuracy":
        return {}
    score = Predicted.of_predictions(true, predictions).score(true.scoring)
    return {"scoring": true.scoring, **score} if score else {}


def in_defined_scoring(true: Target, predictions: Mapping[str, np.ndarray]) -> tuple[Target, dict[str, str]]:
    """Return a target with accuracy as its scoring where its own is undefined, and then `undefined_scoring`.

    Undefined are the area under the curve for points of one class, F1 without points of the second class, and the log
    loss of a model without probabilities.
    """
    if not isinstance(true, Classes) or true.scoring == "accuracy" or target_score(true, predictions):
        return true, {}
    return replace(true, scoring="accuracy"), {"undefined_scoring": true.scoring}


def _value_scores(true: np.ndarray, predicted: np.ndarray) -> dict[str, object]:
    """Return the scores of predicted quantities, in the unit of the target except r2.

    standard_error : of the rmse, by the delta method; interval : its 95 % interval. r2 : None if all true values are
    equal. deviation : standard deviation of the true values, the rmse of predicting their mean. The intervals of mae
    and of 1 - r2, a ratio of means, are those of their logarithms, by the delta method.
    """
    n = len(true)
    root = np.sqrt(max(n - 1, 1))
    absolute = np.abs(predicted - true)
    squared = absolute**2
    rmse = float(np.sqrt(squared.mean()))
    mae = float(absolute.mean())
    spread = (true - true.mean()) ** 2
    deviation = float(np.sqrt(spread.mean()))
    r2, of_r2 = None, None
    if deviation > 0:
        unexplained = (rmse / deviation) ** 2
        r2 = 1 - unexplained
        error = float((squared - unexplained * spread).std()) / (deviation**2 * root)
        of_r2 = interval_of_score(unexplained, error, n, share=False)
    return {"rmse": rmse, "mae": mae,
            "mae_interval": interval_of_score(mae, float(absolute.std()) / root, n, share=False),
            "r2": r2, "r2_interval": None if of_r2 is None else [1 - of_r2[1], 1 - of_r2[0]],
            "standard_error": float(squared.std() / (2 * rmse * np.sqrt(n))) if rmse > 0 else 0.0,
            "interval": interval_of_rmse(squared),
            "deviation": deviation, "n_test": n}


def constant_prediction(labels: Target, true: Target, weight: np.ndarray | None = None) -> tuple[str, int | float]:
    """Return the code or quantity that a baseline without a model predicts everywhere, after its name.

    "majority" is the most frequent class by the prior of the labels, and among equally frequent classes the one most
    frequent in `true`; with F1 it is the second of two classes. "mean" is the mean of the quantities.
    weight (l,) : of the labels, 1 by default.
    """
    if not (isinstance(true, Classes) and isinstance(labels, Classes)):
        return "mean", float(labels.coded.mean())
    if true.scoring == "f1":
        return "majority", 1
    among_points = np.bincount(true.coded, minlength=len(true.names))
    frequencies = labels.prior.shares(labels.coded, labels.names, weight)
    return "majority", int(np.lexsort((-among_points, -frequencies))[0])


def constant_baseline(labels: Target, true: Target, weight: np.ndarray | None = None,
                      ) -> tuple[str, dict[str, np.ndarray], int | float | str | bool]:
    """Return the baseline `constant_prediction`: its name, its predictions (n,) for `scores_of`, and its value.

    Its margins are equal everywhere, so its AUC is one half; its probabilities are the class frequencies.
    """
    name, constant = constant_prediction(labels, true, weight)
    n = len(true.coded)
    if not (isinstance(true, Classes) and isinstance(labels, Classes)):
        return name, {"values": np.full(n, constant)}, constant
    predictions = {"codes": np.full(n, constant)}
    if true.scoring == "roc_auc":
        predictions["margins"] = np.zeros((n, margin_columns(len(true.names))))
    if true.scoring == "neg_log_loss":
        predictions["log_losses"] = -np.log(labels.prior.shares(labels.coded, labels.names, weight))[true.coded]
    return name, predictions, true.names[int(constant)].item()


def points_to_plot(true: Target, predictions: Mapping[str, np.ndarray]) -> dict[str, dict[str, list[float]]]:
    """Return some of the test points for a plot of quantities; JSON, empty for classes."""
    if isinstance(true, Classes):
        return {}
    some = np.unique(np.linspace(0, len(true.coded) - 1, MAX_PLOTTED).astype(int))
    return {"shown": {"true": true.columns()[some, 0].tolist(), "predicted": predictions["values"][some].tolist()}}

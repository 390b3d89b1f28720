"""Scores of predicted classes and quantities, and paired tests of two models on the same points."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..base.wilson import interval_of_share
from ..execution.tasks import Execution
from ..learners.model import Model, Output, SharedModels, predict_blocks
from ..learners.probabilities import CALIBRATION, Calibration
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Classes, Target
from ..storage.blocks import Arrays, Parts, Rows
from .held_out_scores import MIN_PROBABILITY, mean_area
from .interval import (
    LEVEL,
    MIN_PAIRS,
    POWER,
    detectable_error_difference,
    detectable_mean_difference,
    interval_of_rmse,
    mcnemar_power,
    sign_test,
    significant_t,
    t_power,
    t_test,
)
from .scoring import Predicted, terms_of

MAX_PLOTTED = 500  # test points of a regression in the plot of the report
MIN_DIFFERENCE = 0.01  # of two errors: smaller differences matter little
NEGLIGIBLE = 1e-3  # relative gain that counts as none
SAME = 1e-9  # difference of two predictions that counts as none, relative to the largest quantity
ROUNDING = 1e-12  # error that counts as none, relative to the largest quantity
Verdict = Literal["helped", "hurt", "no clear difference", "too few points to tell"]
HELPED: Verdict = "helped"
HURT: Verdict = "hurt"
UNCLEAR: Verdict = "no clear difference"
TOO_FEW: Verdict = "too few points to tell"


@dataclass(frozen=True)
class Predictions(Output):
    """Predictions of test points, (n, n_models) each: the `Coding.predictions` that all models have, and `unsupported`.

    For classes also `log_losses`, NaN for models without probabilities, and `margins` (n, n_models, n_classes), for two
    classes only those of the second; float32. Memory: `scored_bytes`.

    true : the codes or quantities of all points, as `true` (n,).
    """

    true: Arrays

    def arrays(self, models: Mapping[str, Any]) -> dict[str, tuple[tuple[int, ...], Any]]:
        first, *others = [model.coding.predictions(np.zeros((0, model.n_columns)), np.zeros(0, np.int64))
                          for model in models.values()]
        coding = next(iter(models.values())).coding
        of_classes = {"log_losses": ((len(models),), np.dtype(np.float32)),
                      "margins": ((len(models), margin_columns(len(coding.classes))), np.dtype(np.float32))}
        return {"unsupported": ((len(models),), bool), **(of_classes if isinstance(coding, ClassCoding) else {}), **{
            name: ((len(models),), array.dtype) for name, array in first.items()
            if all(name in other for other in others)}}

    def __call__(self, models: Mapping[str, Any], X: Any, start: int) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        true = self.true.load()["true"][start:start + X.shape[0]]
        outputs = []
        for model in models.values():
            values, out_of_range = model.block_values(X)
            predicted = {**model.coding.predictions(values, true), **margins_and_log_losses(model, values, true)}
            outputs.append({**(with_rejections(predicted, out_of_range) if model.abstains else predicted),
                            "unsupported": out_of_range})
        return {name: np.stack([output[name] for output in outputs], axis=1) for name in self.arrays(models)}, {}


def margin_columns(n_classes: int) -> int:
    """Return the number of margins that are kept of a point: of two classes only that of the second."""
    return 1 if n_classes == 2 else n_classes


def scored_bytes(n_classes: int, n_models: int, *, has_scoring: bool = False) -> int:
    """Return the bytes of a point, beside its codes, for margins, log losses and the ranks of an AUC.

    has_scoring : whether models are compared by another scoring than accuracy, such as macro F1.
    """
    return 4 * n_models * (1 + margin_columns(n_classes)) + 80 + (60 + 40 * n_classes if has_scoring else 0)


def margins_and_log_losses(model: Model, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    """Return the margins of classes, and the log losses of a model with probabilities; nothing for quantities."""
    if not isinstance(model.coding, ClassCoding):
        return {}
    margins = model.coding.margins(values)
    described = model.attributes.get(CALIBRATION)
    losses = np.full(len(values), np.nan)
    if described is not None:
        P = Calibration.from_dict(described).probabilities(margins)
        losses = -np.log(np.maximum(P[np.arange(len(true)), true], MIN_PROBABILITY))
    return {"log_losses": losses.astype(np.float32),
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
    columns = {name: parts.rows(name).read_all() for name in output.arrays(opened)}
    return {name: {key: array[:, column] for key, array in columns.items()} for column, name in enumerate(opened)}


def scores_of(true: Target, predictions: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the scores of predictions, (n,) by name, against the true target of the same points."""
    if isinstance(true, Classes):
        return _class_scores(true, predictions)
    return _value_scores(true.coded, predictions["values"])


def _class_scores(true: Classes, predictions: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the scores of predicted codes; rmse is of the columns from the codes +1 and -1, where there are such.

    interval : of the error on new points, see `interval.py`. roc_auc : of several classes the mean of each against the
    rest; None without margins, or for points of one class. log_loss : None without probabilities. Another scoring than
    accuracy adds `target_score`.
    """
    predicted = predictions["codes"]
    errors = predictions.get("code_errors")
    error = float((predicted != true.coded).mean())
    confusion = np.zeros((len(true.names), len(true.names)), np.int64)
    is_class = predicted >= 0
    np.add.at(confusion, (true.coded[is_class], predicted[is_class]), 1)
    present = np.unique(true.coded)
    of_class, right = np.bincount(true.coded, minlength=len(confusion))[present], np.diag(confusion)[present]
    return {"error": error, "accuracy": 1 - error,
            "standard_error": float(np.sqrt(error * (1 - error) / len(true.coded))),
            "interval": interval_of_share(error, len(true.coded)),
            "balanced_accuracy": float((right / of_class).mean()),
            "f1_macro": float((2 * right / (of_class + confusion.sum(axis=0)[present])).mean()),
            "roc_auc": area_of(true, predictions.get("margins")), "log_loss": _log_loss(predictions.get("log_losses")),
            "rmse": None if errors is None else float(np.sqrt(errors.mean())), "n_test": len(true.coded),
            "confusion": confusion.tolist(),
            **target_score(true, predictions)}


def target_score(true: Target, predictions: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the score in the scoring of a target beside the error, see `Predicted.score`; JSON."""
    if not isinstance(true, Classes) or true.scoring == "accuracy":
        return {}
    return Predicted.of_predictions(true, predictions).score(true.scoring)


def in_defined_scoring(true: Target, predictions: Mapping[str, np.ndarray]) -> tuple[Target, dict[str, Any]]:
    """Return a target with accuracy as its scoring where its own is undefined, and then `undefined_scoring`.

    Undefined are the area under the curve for points of one class, F1 without points of the second class, and the log
    loss of a model without probabilities.
    """
    if not isinstance(true, Classes) or true.scoring == "accuracy" or target_score(true, predictions):
        return true, {}
    return replace(true, scoring="accuracy"), {"undefined_scoring": true.scoring}


def area_of(true: Classes, margins: np.ndarray | None) -> float | None:
    """Return the area under the ROC curve of the margins in `Predictions`; None where it is undefined."""
    if margins is None:
        return None
    scores = margins if margins.shape[1] > 1 else np.hstack([-margins, margins])
    pooled = mean_area(scores, true.coded, np.full(len(scores), 1 / len(scores)))
    return None if pooled is None else pooled[0]


def _log_loss(losses: np.ndarray | None) -> float | None:
    return None if losses is None or np.isnan(losses).any() else float(losses.mean(dtype=np.float64))


def _value_scores(true: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Return the scores of predicted quantities, in the unit of the target except r2.

    standard_error : of the rmse, by the delta method; interval : its 95 % interval. r2 : None if all true values are
    equal. deviation : standard deviation of the true values, the rmse of predicting their mean.
    """
    squared = (predicted - true) ** 2
    rmse = float(np.sqrt(squared.mean()))
    deviation = float(true.std())
    return {"rmse": rmse, "mae": float(np.abs(predicted - true).mean()),
            "r2": 1 - (rmse / deviation) ** 2 if deviation > 0 else None,
            "standard_error": float(squared.std() / (2 * rmse * np.sqrt(len(true)))) if rmse > 0 else 0.0,
            "interval": interval_of_rmse(squared),
            "deviation": deviation, "n_test": len(true)}


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


@dataclass(frozen=True)
class PairedComparison:
    """Two models on the same n points, by a paired test.

    gain : decrease of the error, or of the rmse, from `baseline`, that of the other model. smallest : the smallest
    difference that can be significant on these points; found : the smallest that is significant in four of five such
    test sets; None if there is none. power : the probability of detecting half the error of the other model (for
    quantities half its mean square), but at least 1 %. standard_error : of the gain, only by `compare_in_scoring`.
    """

    n: int
    gain: float
    baseline: float
    p_value: float
    smallest: float | None
    found: float | None
    power: float
    standard_error: float = 0.0

    @property
    def has_power(self) -> bool:
        """Return whether half the error of the other model would have been detected."""
        return self.power >= POWER

    @property
    def verdict(self) -> Verdict:
        """Return the verdict on the first model.

        "helped" and "hurt" need p < 0.05 and a gain of more than a thousandth of the other model's error.
        """
        if self.p_value < LEVEL:
            if abs(self.gain) <= NEGLIGIBLE * self.baseline:
                return UNCLEAR
            return HELPED if self.gain > 0 else HURT
        return UNCLEAR if self.has_power else TOO_FEW

    def described(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__
                if name not in ("baseline", "standard_error")}


def compare(true: Target, predictions: Mapping[str, np.ndarray],
            other: Mapping[str, np.ndarray]) -> PairedComparison | None:
    """Return the comparison of two predictions of the same points; None where it is undefined.

    Classes are compared by McNemar's exact test, or in another scoring of the target by `compare_in_scoring`;
    quantities by the paired t-test of squared errors.
    """
    if isinstance(true, Classes):
        if true.scoring != "accuracy":
            return compare_in_scoring(true.scoring, Predicted.of_predictions(true, predictions),
                                      Predicted.of_predictions(true, other))
        return compare_classes(predictions["codes"] == true.coded, other["codes"] == true.coded)
    squared, other_squared = ((predicted["values"] - true.coded) ** 2 for predicted in (predictions, other))
    return compare_squared_errors(squared, other_squared, float(np.abs(true.coded).max(initial=0.0)))


def compare_classes(right: np.ndarray, other_right: np.ndarray) -> PairedComparison:
    """Return the comparison of the points (n,) that each of two models classifies correctly, by McNemar's test."""
    n = len(right)
    other_error = float((~other_right).mean())
    gained = int((right & ~other_right).sum())
    lost = int((~right & other_right).sum())
    p_value = sign_test(gained, lost)
    opposite = min(gained, lost) / n
    target = max(other_error / 2, MIN_DIFFERENCE)
    return PairedComparison(n, (gained - lost) / n, other_error, p_value, MIN_PAIRS / n if n >= MIN_PAIRS else None,
                            detectable_error_difference(n, opposite), mcnemar_power(n, opposite + target, opposite))


def compare_in_scoring(scoring: str, ours: Predicted, other: Predicted) -> PairedComparison | None:
    """Return the comparison by the loss of a metric; None where it is undefined for one of them.

    The statistic is the difference over the root of the sum of the squared terms c (`scoring.py`). If both models are
    equally good, each term has a random sign; the statistic is compared with Student's t of
    `(sum c^2)^2 / sum c^4` degrees of freedom, so that `MIN_PAIRS` equal terms of one sign are significant, as in
    McNemar's test. The power is that for a difference of terms of the size of one point of the rarest class.
    """
    n = len(ours.true)
    losses = (ours.loss(scoring), other.loss(scoring))
    if losses[0] is None or losses[1] is None:
        return None
    terms, unit = terms_of(ours, other, scoring)
    gain = losses[1] - losses[0]
    target = max(losses[1] / 2, MIN_DIFFERENCE)
    squares = float((terms**2).sum())
    fourths = float((terms**4).sum())
    with_target = squares + target * unit
    freedom = max(with_target**2 / (fourths + target * unit**3), 1.0)
    power = t_power(int(freedom) + 1, target, float(np.sqrt(with_target)))
    if squares == 0:  # equal everywhere
        return PairedComparison(n, gain, losses[1], 1.0, None, None, power)
    error = float(np.sqrt(squares))
    terms_freedom = squares**2 / fourths
    p_value = t_test(gain / error, terms_freedom)
    smallest = significant_t(terms_freedom) * error
    return PairedComparison(n, gain, losses[1], p_value, smallest,
                            detectable_mean_difference(int(terms_freedom) + 1, error, losses[1]), power, error)


def compare_squared_errors(squared: np.ndarray, other_squared: np.ndarray, size: float) -> PairedComparison:
    """Return the comparison of squared errors (n,) with another model's; size : of the true quantities."""
    n = len(squared)
    rounding = (ROUNDING * size) ** 2
    ours, theirs = (np.where(squares > rounding, squares, 0.0) for squares in (squared, other_squared))
    # Equal models differ by rounding: such points count as equal.
    ours = np.where(np.abs(np.sqrt(ours) - np.sqrt(theirs)) <= SAME * size, theirs, ours)
    square = float(theirs.mean())
    gain = float(np.sqrt(square) - np.sqrt(ours.mean()))
    if n < 2 or not (ours != theirs).any():  # no difference can be seen
        return PairedComparison(n, gain, float(np.sqrt(square)), 1.0, None, None, float(n > 1))
    error = float((theirs - ours).std(ddof=1)) / np.sqrt(n)

    def in_rmse(difference: float | None) -> float | None:
        return None if difference is None or difference > square else float(
            np.sqrt(square) - np.sqrt(square - difference))

    return PairedComparison(n, gain, float(np.sqrt(square)), paired_t(ours - theirs),
                            in_rmse(significant_t(n - 1) * error),
                            in_rmse(detectable_mean_difference(n, error, square)), t_power(n, square / 2, error))


def paired_t(differences: np.ndarray) -> float:
    """Return the p-value of the paired t-test of differences (n,), n > 1, that are not all 0; 1 if they overflow.

    `scipy.stats.ttest_rel` would warn of nearly equal ones, and a thread cannot suppress warnings for itself alone.
    """
    n = len(differences)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = differences.mean()
        variance = ((differences - mean) ** 2).mean() * (n / (n - 1))
        p_value = t_test(mean / np.sqrt(variance / n), n - 1)
    return p_value if np.isfinite(p_value) else 1.0


def points_to_plot(true: Target, predictions: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return some of the test points for a plot of quantities; JSON, empty for classes."""
    if isinstance(true, Classes):
        return {}
    some = np.unique(np.linspace(0, len(true.coded) - 1, MAX_PLOTTED).astype(int))
    return {"shown": {"true": true.coded[some].tolist(), "predicted": predictions["values"][some].tolist()}}


def unlabeled_verdict(true: Target, predictions: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """Return the gains of `model` over each baseline on the same points, and whether the unlabeled data helped; JSON.

    That is the verdict over the base kernel; "helped" also needs a lower error than with a shuffled graph, if there is
    one. undefined_over : the baselines for which the scoring of the target is undefined.
    """
    comparisons = {name: compare(true, predictions["model"], other)
                   for name, other in predictions.items() if name != "model"}
    pairs = {name: pair for name, pair in comparisons.items() if pair is not None}
    undefined = [name for name in comparisons if name not in pairs]
    return {**verdict_of(pairs), **({"undefined_over": undefined} if undefined else {})}


def verdict_of(pairs: Mapping[str, PairedComparison]) -> dict[str, Any]:
    """Return the comparisons of a model with others by name, and whether the unlabeled data helped; JSON."""
    verdict: dict[str, Any] = {f"over_{name}": pair.described() for name, pair in pairs.items()}
    if "base" not in pairs:
        return verdict
    answer = pairs["base"].verdict
    control = pairs.get("shuffled")
    by_chance = answer == HELPED and control is not None and control.gain <= 0
    return {**verdict, "unlabeled_data": UNCLEAR if by_chance else answer}

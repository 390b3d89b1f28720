"""How good predictions are: scores of classes and of quantities, and whether one model is better than another."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ..base.profiler import library
from ..execution.tasks import Execution
from ..learners.model import Model, Output, SharedModels, predict_blocks
from ..learners.probabilities import CALIBRATION, Calibration
from ..learners.target.coding import ClassCoding
from ..learners.target.target import Classes, Target
from ..storage.blocks import Arrays, Parts, Rows
from .held_out_scores import MIN_PROBABILITY, mean_area
from .interval import (
    FEWEST,
    LEVEL,
    SURE,
    interval_of_rmse,
    interval_of_share,
    least_error_difference,
    least_mean_difference,
    mcnemar_power,
    t_power,
)
from .scoring import Predicted, terms_of

MAX_SHOWN = 500  # test points of a regression that the report draws
MIN_ERROR = 0.01  # of a difference that a test has to see: smaller ones count for little
NEGLIGIBLE = 1e-3  # of the other's error, a gain that is none
SAME = 1e-9  # of the largest quantity, a difference of two predictions that is none
ROUNDING = 1e-12  # of the largest quantity, an error that is none
Verdict = Literal["helped", "hurt", "no clear difference", "too few points to tell"]
HELPED: Verdict = "helped"
HURT: Verdict = "hurt"
UNCLEAR: Verdict = "no clear difference"
TOO_FEW: Verdict = "too few points to tell"


@dataclass(frozen=True)
class Predictions(Output):
    """What scores are made of, (n, n_models) each: what all models have of `Coding.predictions`, and `unsupported`.

    Of classes also `log_losses`, NaN of models without probabilities, and `margins` (n, n_models, n_classes), of two
    classes (n, n_models, 1) those of the second; float32. See `scored_bytes`.

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
            values, beyond = model.block_values(X)
            predicted = {**model.coding.predictions(values, true), **evidence_for_classes(model, values, true)}
            outputs.append({**(withheld(predicted, beyond) if model.abstains else predicted), "unsupported": beyond})
        return {name: np.stack([output[name] for output in outputs], axis=1) for name in self.arrays(models)}, {}


def margin_columns(n_classes: int) -> int:
    """Return how many margins of a point are kept: of two classes, whose margins are opposite, that of the second."""
    return 1 if n_classes == 2 else n_classes


def scored_bytes(n_classes: int, n_models: int, *, asked: bool = False) -> int:
    """Return the bytes a point that scores of classes take beside its codes: what is kept, and the ranks of an AUC.

    asked : whether models are compared by another scoring than accuracy, at most macro F1, of terms of every class.
    """
    return 4 * n_models * (1 + margin_columns(n_classes)) + 80 + (60 + 40 * n_classes if asked else 0)


def evidence_for_classes(model: Model, values: np.ndarray, true: np.ndarray) -> dict[str, np.ndarray]:
    """Return the margins of classes, and the log losses of a model with probabilities; nothing of quantities."""
    if not isinstance(model.coding, ClassCoding):
        return {}
    margins = model.coding.margins(values)
    described = model.attributes.get(CALIBRATION)
    losses = np.full(len(values), np.nan)
    if described is not None:
        P = Calibration.from_described(described).probabilities(margins)
        losses = -np.log(np.maximum(P[np.arange(len(true)), true], MIN_PROBABILITY))
    return {"log_losses": losses.astype(np.float32),
            "margins": margins[:, -margin_columns(len(model.coding.classes)):].astype(np.float32)}


def withheld(predicted: Mapping[str, np.ndarray], beyond: np.ndarray) -> dict[str, np.ndarray]:
    """Return predictions, (n,) by name, whose codes are -1, which is never right, where a model abstains, (n,) bool."""
    return {name: np.where(beyond, -1, array) if name == "codes" else array for name, array in predicted.items()}


def predict_test(rows: Rows, models: SharedModels, true: np.ndarray, execution: Execution,
                 parts: Parts) -> dict[str, dict[str, np.ndarray]]:
    """Return, for each model, what scores of its predictions are made of, (n,) each."""
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

    interval : of the error on new points, see `interval.py`. roc_auc : area under the ROC curve of the margins, of
    several classes the mean of each against the rest; None without margins, or where all points are of one class.
    log_loss : of probabilities, None without these. Of another scoring than accuracy also `scoring`, its score, and
    `<score>_interval`, where it is defined.
    """
    metrics = library("sklearn.metrics")
    predicted = predictions["codes"]
    errors = predictions.get("code_errors")
    error = float((predicted != true.coded).mean())
    present = np.unique(true.coded)
    return {"error": error, "accuracy": 1 - error,
            "standard_error": float(np.sqrt(error * (1 - error) / len(true.coded))),
            "interval": interval_of_share(error, len(true.coded)),
            "balanced_accuracy": float(metrics.recall_score(true.coded, predicted, average="macro", labels=present,
                                                            zero_division=0)),
            "f1_macro": float(metrics.f1_score(true.coded, predicted, average="macro", labels=present,
                                               zero_division=0)),
            "roc_auc": area_of(true, predictions.get("margins")), "log_loss": _log_loss(predictions.get("log_losses")),
            "rmse": None if errors is None else float(np.sqrt(errors.mean())), "n_test": len(true.coded),
            "confusion": metrics.confusion_matrix(true.coded, predicted, labels=np.arange(len(true.names))).tolist(),
            **asked_score(true, predictions)}


def asked_score(true: Target, predictions: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return the score that a target asks for beside the error, see `Predicted.score`; JSON."""
    if not isinstance(true, Classes) or true.scoring == "accuracy":
        return {}
    return Predicted.of_predictions(true, predictions).score(true.scoring)


def in_defined_scoring(true: Target, predictions: Mapping[str, np.ndarray]) -> tuple[Target, dict[str, Any]]:
    """Return a target with a scoring that predictions can be judged by, and `undefined_scoring` where that is not its.

    It is accuracy where another is not defined: the area under the curve of points of one class, F1 of points of which
    none is of the second class, and the log loss of a model without probabilities.
    """
    if not isinstance(true, Classes) or true.scoring == "accuracy" or asked_score(true, predictions):
        return true, {}
    return replace(true, scoring="accuracy"), {"undefined_scoring": true.scoring}


def area_of(true: Classes, margins: np.ndarray | None) -> float | None:
    """Return the area under the ROC curve of margins as `Predictions` keeps them; None where there is none."""
    if margins is None:
        return None
    scores = margins if margins.shape[1] > 1 else np.hstack([-margins, margins])
    pooled = mean_area(scores, true.coded, np.full(len(scores), 1 / len(scores)))
    return None if pooled is None else pooled[0]


def _log_loss(losses: np.ndarray | None) -> float | None:
    return None if losses is None or np.isnan(losses).any() else float(losses.mean(dtype=np.float64))


def _value_scores(true: np.ndarray, predicted: np.ndarray) -> dict[str, Any]:
    """Return the scores of predicted quantities, in the target's unit but for r2.

    standard_error is that of rmse, by the delta method, interval its 95 % interval (`interval.py`). r2 is None where
    all true ones are equal. deviation is that of the true ones, the rmse of always predicting their mean.
    """
    squared = (predicted - true) ** 2
    rmse = float(np.sqrt(squared.mean()))
    deviation = float(true.std())
    return {"rmse": rmse, "mae": float(np.abs(predicted - true).mean()),
            "r2": 1 - (rmse / deviation) ** 2 if deviation > 0 else None,
            "standard_error": float(squared.std() / (2 * rmse * np.sqrt(len(true)))) if rmse > 0 else 0.0,
            "interval": interval_of_rmse(squared),
            "deviation": deviation, "n_test": len(true)}


def constant_guess(labels: Target, true: Target, weight: np.ndarray | None = None) -> tuple[str, int | float]:
    """Return what needs no model, by its name: the code or quantity that is predicted everywhere.

    weight (l,) : of the labels, 1 by default.

    majority : the most frequent class by the prior of the labels; of classes that are equally frequent there, as where
    labels were drawn by class, the one most frequent among the points of `true`. By F1, which is of the second of two
    classes, it is that one. mean : of quantities, the mean of the labels.
    """
    if not (isinstance(true, Classes) and isinstance(labels, Classes)):
        return "mean", float(labels.coded.mean())
    if true.scoring == "f1":
        return "majority", 1
    among_points = np.bincount(true.coded, minlength=len(true.names))
    frequencies = labels.prior.shares(labels.coded, labels.names, weight)
    return "majority", int(np.lexsort((-among_points, -frequencies))[0])


def guess(labels: Target, true: Target,
          weight: np.ndarray | None = None) -> tuple[str, dict[str, np.ndarray], int | float | str | bool]:
    """Return what needs no model: its name, its predictions (n,) by name as `scores_of` takes them, what it says; JSON.

    See `constant_guess`. Its scores are equal everywhere, which is an area of one half under the ROC curve, and its
    probabilities are the frequencies of the classes.
    """
    name, constant = constant_guess(labels, true, weight)
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
class Paired:
    """Two models on the same n points. gain : in error, or of quantities in rmse, over the `other` model's. p_value :
    of a paired test.

    smallest : the least difference that the test can call real on these points; found : the least that it finds in
    four of five such test sets; None where it is none. power : the share of such test sets in which it would see half
    the error of the other model (of quantities half its mean square), or 1 % where that is more. All of differences
    that go with as many opposite ones as here. standard_error : of the gain, by
    `compared_by` alone.
    """

    n: int
    gain: float
    other: float
    p_value: float
    smallest: float | None
    found: float | None
    power: float
    standard_error: float = 0.0

    @property
    def enough(self) -> bool:
        """Return whether there are points enough: whether half the error would not have been missed."""
        return self.power >= SURE

    @property
    def verdict(self) -> Verdict:
        """Return what the test says of the first model: the one rule for test points and labels.

        "helped" and "hurt" ask for p < 0.05 and for more than a thousandth of the other's error.
        """
        if self.p_value < LEVEL:
            if abs(self.gain) <= NEGLIGIBLE * self.other:
                return UNCLEAR
            return HELPED if self.gain > 0 else HURT
        return UNCLEAR if self.enough else TOO_FEW

    def described(self) -> dict[str, Any]:
        """Return the figures; JSON."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__
                if name not in ("other", "standard_error")}


def compared(true: Target, predictions: Mapping[str, np.ndarray], other: Mapping[str, np.ndarray]) -> Paired | None:
    """Return the comparison of predictions with others of the same points; None where it is not defined.

    Of classes by McNemar's exact test on the points that one of the two gets right, or in another scoring of the target
    by `compared_by`; of quantities by the paired t-test of squared errors, without those of rounding.
    """
    if isinstance(true, Classes):
        if true.scoring != "accuracy":
            return compared_by(true.scoring, Predicted.of_predictions(true, predictions),
                               Predicted.of_predictions(true, other))
        return compared_classes(predictions["codes"] == true.coded, other["codes"] == true.coded)
    squared, other_squared = ((predicted["values"] - true.coded) ** 2 for predicted in (predictions, other))
    return compared_squares(squared, other_squared, float(np.abs(true.coded).max(initial=0.0)))


def compared_classes(right: np.ndarray, other_right: np.ndarray) -> Paired:
    """Return the comparison of which points (n,) one model gets right, and which another does."""
    n = len(right)
    other_error = float((~other_right).mean())
    gained = int((right & ~other_right).sum())
    lost = int((~right & other_right).sum())
    p_value = float(library("scipy.stats").binomtest(gained, gained + lost).pvalue) if gained + lost else 1.0
    opposite = min(gained, lost) / n
    asked = max(other_error / 2, MIN_ERROR)
    return Paired(n, (gained - lost) / n, other_error, p_value, FEWEST / n if n >= FEWEST else None,
                  least_error_difference(n, opposite), mcnemar_power(n, opposite + asked, opposite))


def compared_by(scoring: str, ours: Predicted, other: Predicted) -> Paired | None:
    """Return the comparison by a metric, as losses; None where it is not defined of both.

    The statistic is the difference over the root of the sum of the squared terms (`scoring.py`). If both models are
    equally good, the sign of a term is a coin toss; it is judged by Student's t of as many degrees of freedom as terms
    count, `(sum c^2)^2 / sum c^4`, so that of equal terms it takes `FEWEST` of one sign, as in McNemar's test. A
    difference that is asked for is made of terms of the size that one point of the rarest class has.
    """
    t = library("scipy.stats").t
    n = len(ours.true)
    losses = (ours.loss(scoring), other.loss(scoring))
    if losses[0] is None or losses[1] is None:
        return None
    terms, unit = terms_of(ours, other, scoring)
    gain = losses[1] - losses[0]
    asked = max(losses[1] / 2, MIN_ERROR)
    squares = float((terms**2).sum())
    fourths = float((terms**4).sum())
    with_asked = squares + asked * unit
    freedom = max(with_asked**2 / (fourths + asked * unit**3), 1.0)
    power = t_power(int(freedom) + 1, asked, float(np.sqrt(with_asked)))
    if squares == 0:  # equal everywhere
        return Paired(n, gain, losses[1], 1.0, None, None, power)
    error = float(np.sqrt(squares))
    terms_freedom = squares**2 / fourths
    p_value = float(2 * t.sf(abs(gain) / error, terms_freedom))
    smallest = float(t.isf(LEVEL / 2, terms_freedom)) * error
    return Paired(n, gain, losses[1], p_value, smallest,
                  least_mean_difference(int(terms_freedom) + 1, error, losses[1]), power, error)


def compared_squares(squared: np.ndarray, other_squared: np.ndarray, size: float) -> Paired:
    """Return the comparison of squared errors (n,) with another model's; size : of the true quantities."""
    t = library("scipy.stats").t
    n = len(squared)
    rounding = (ROUNDING * size) ** 2
    ours, theirs = (np.where(squares > rounding, squares, 0.0) for squares in (squared, other_squared))
    # Equal models differ by rounding: such points count as equal.
    ours = np.where(np.abs(np.sqrt(ours) - np.sqrt(theirs)) <= SAME * size, theirs, ours)
    square = float(theirs.mean())
    gain = float(np.sqrt(square) - np.sqrt(ours.mean()))
    if n < 2 or not (ours != theirs).any():  # equal everywhere, so far as points tell
        return Paired(n, gain, float(np.sqrt(square)), 1.0, None, None, float(n > 1))
    error = float((theirs - ours).std(ddof=1)) / np.sqrt(n)

    def in_rmse(difference: float | None) -> float | None:
        return None if difference is None or difference > square else float(
            np.sqrt(square) - np.sqrt(square - difference))

    return Paired(n, gain, float(np.sqrt(square)), paired_t(ours - theirs),
                  in_rmse(float(t.isf(LEVEL / 2, n - 1)) * error),
                  in_rmse(least_mean_difference(n, error, square)), t_power(n, square / 2, error))


def paired_t(differences: np.ndarray) -> float:
    """Return the p-value of the paired t-test of differences (n,), n > 1, that are not all 0; 1 if they overflow.

    As `scipy.stats.ttest_rel`, which warns where they are as good as equal: of threads none can silence that alone.
    """
    t = library("scipy.stats").t
    n = len(differences)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        mean = differences.mean()
        variance = ((differences - mean) ** 2).mean() * (n / (n - 1))
        p_value = float(2 * t.sf(abs(mean / np.sqrt(variance / n)), n - 1))
    return p_value if np.isfinite(p_value) else 1.0


def points_to_draw(true: Target, predictions: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Return some of the test points as a plot shows them; JSON, empty of classes, where a table says it all."""
    if isinstance(true, Classes):
        return {}
    some = np.unique(np.linspace(0, len(true.coded) - 1, MAX_SHOWN).astype(int))
    return {"shown": {"true": true.coded[some].tolist(), "predicted": predictions["values"][some].tolist()}}


def unlabeled_verdict(true: Target, predictions: Mapping[str, Mapping[str, np.ndarray]]) -> dict[str, Any]:
    """Return whether the unlabeled data helped, on the same points: what `model` gains over each other.

    It is `Paired.verdict` over the base kernel; "helped" also asks for a lower error than a shuffled graph, where there
    is one. undefined_over : the others of which the scoring of the target is not defined, where there are any.
    """
    tested = {name: compared(true, predictions["model"], other)
              for name, other in predictions.items() if name != "model"}
    pairs = {name: pair for name, pair in tested.items() if pair is not None}
    verdict: dict[str, Any] = {f"over_{name}": pair.described() for name, pair in pairs.items()}
    if len(pairs) < len(tested):
        verdict["undefined_over"] = [name for name in tested if name not in pairs]
    if "base" not in pairs:  # without it there is no answer
        return verdict
    answer = pairs["base"].verdict
    control = pairs.get("shuffled")
    by_chance = answer == HELPED and control is not None and control.gain <= 0
    return {**verdict, "unlabeled_data": UNCLEAR if by_chance else answer}

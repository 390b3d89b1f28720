"""Compare a model with its baselines on held-out labels, and compute the learning curve over the number of labels.

Held-out points stay in the kernels and in the graph as unlabeled points. Parameters that a search selected were
selected on all labels, which favors the model with more candidates: `corrected_for_selection`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Required, TypedDict, TypeVar

import numpy as np

from ..base.digest import JsonObject
from ..base.wilson import interval_of_share
from ..learners.class_prior import LABELS, ClassPrior
from ..learners.linear.kernel_model import ModelInKernel
from ..learners.metrics import SQUARED, WRONG_CLASS, PointMetric
from ..learners.model import spaced_values
from ..learners.prior_shift import prior_shift
from ..learners.probabilities import FOLDS, Calibration
from ..learners.target.target import Classes, Target
from ..storage.blocks import Rows, block_rng
from .calibration import ONE_BY_ONE, can_calibrate
from .candidates import CandidateScores
from .comparison import HELPED, unlabeled_verdict
from .folds import labeled_folds
from .held_out_scores import MIN_PROBABILITY, HeldOut, Score
from .interval import interval_of_rmse, interval_of_score
from .scores import (
    constant_baseline,
    in_defined_scoring,
    scores_of,
    target_score,
    with_rejections,
)

TRAINING_SHARES = (1 / 8, 1 / 4, 1 / 2)  # of the labels of each class, in a point of the learning curve
STARTS = (0.0, 0.5, 0.25, 0.75)  # where the draws of a share begin in a class: small draws lie within the larger ones
MAX_CURVE_LABELS = 500  # above which there is no curve
TOO_MANY = f"it is computed for at most {MAX_CURVE_LABELS} labels"
MAX_IN_FOLD = 50_000  # labels in a fold that is held out alone: a share of them is known to half a point
CURVE_STREAM = 17  # of the seed
Figure = float | list[float] | None  # a score, or its interval
M = TypeVar("M", bound=ModelInKernel)
NOT_WITHOUT_OTHER = "no label can be held out of its class"
NO_CLAIM = "no claim"  # where the model was selected among more candidates than its base


@dataclass(frozen=True, eq=False)
class LabelFolds:
    """The held-out folds of l labels.

    compared : folds of about one label of each class, or a single one of many labels. curve : for each draw the number
    of training labels, and one fold of all other labels. single_labels : those that are the only one of their class,
    which `compared` leaves out. no_curve, why : the reasons if there is no curve, or no comparison.
    """

    compared: list[np.ndarray]
    curve: list[tuple[int, list[np.ndarray]]]
    single_labels: int = 0
    no_curve: str = "each of its points would need a fit to all points"
    why: str = "no class has two labels, so none can be held out"

    @classmethod
    def of(cls, target: Target, random_state: int = 0, *, a_fit_each: bool = False, one_above: int | None = None,
           curve: bool = True) -> "LabelFolds":
        """Return the folds; none if no class has two labels.

        a_fit_each : see `calibration_folds`. one_above : the number of labels above which one fold alone is held out, a
        fifth of them and at most about `MAX_IN_FOLD`.
        """
        if target.coded.ndim > 1 and target.coded.shape[1] > 1:
            return cls([], [], why="the errors of several quantities are not compared")
        if one_above is not None and len(target.labeled) > one_above:
            fold = _fold_of_points(target.labeled, target.strata(), random_state)
            if len(fold):
                return cls([fold], [], int((~has_another(target)).sum()), TOO_MANY)
        return cls.of_strata(target.strata(), random_state, a_fit_each=a_fit_each, curve=curve)

    @classmethod
    def of_strata(cls, strata: np.ndarray, random_state: int = 0, *, a_fit_each: bool = False,
                  curve: bool = True) -> "LabelFolds":
        """Return the folds of labels of these classes (l,), zeros of quantities."""
        sizes = np.bincount(strata)
        if len(sizes) == 1 and len(strata) < 3:  # of quantities
            return cls([], [], why="fewer than three labels are there, so none can be held out")
        if sizes.max(initial=0) < 2:
            return cls([], [])
        smallest = int(sizes[sizes > 1].min())
        n_folds = min(smallest, FOLDS) if a_fit_each or len(strata) > ONE_BY_ONE else smallest
        folds = labeled_folds(strata, max(2, n_folds), random_state)
        single = int((sizes == 1).sum())
        if len(strata) > MAX_CURVE_LABELS:
            return cls(folds, [], single, TOO_MANY)
        return cls(folds, _draws(strata, random_state) if curve else [], single)

    @classmethod
    def of_sizes(cls, sizes: Sequence[int], random_state: int = 0, *, a_fit_each: bool = False,
                 one_above: int | None = None, curve: bool = True) -> "LabelFolds":
        """Return the folds of labels of classes of these sizes, for a plan; any more than `MAX_CURVE_LABELS` are alike.
        """
        if one_above is not None and sum(sizes) > one_above and max(sizes) > 1:
            return cls([np.arange(MAX_CURVE_LABELS + 1)], [])
        return cls.of_strata(np.repeat(np.arange(len(sizes)), np.minimum(sizes, MAX_CURVE_LABELS + 1)), random_state,
                             a_fit_each=a_fit_each, curve=curve)

    @property
    def repetitions(self) -> list[list[np.ndarray]]:
        """Return lists of disjoint folds: those compared, then each draw of the curve."""
        return [self.compared, *(folds for _, folds in self.curve)] if self.compared else []


def has_another(target: Target) -> np.ndarray:
    """Return which labels (l,) have another one of their class, without which no model can predict them held out."""
    strata = target.strata()
    return np.bincount(strata, minlength=1)[strata] > 1


def max_repetitions(n_labels: int) -> int:
    """Return an upper bound of the `LabelFolds.repetitions` of so many labels."""
    if n_labels > MAX_CURVE_LABELS:
        return 1
    return 1 + sum(min(len(STARTS), round(1 / share)) for share in TRAINING_SHARES)


def _fold_of_points(points: np.ndarray, strata: np.ndarray, random_state: int) -> np.ndarray:
    """Return the positions of about one of `FOLDS` labels of `points` (l,), which of a class keep at least one.

    They are at most about `MAX_IN_FOLD`.

    A point is drawn by its number alone (splitmix64), so that tags, whose labels differ, hold out the same points.
    """
    with np.errstate(over="ignore"):  # the generator counts modulo 2^64
        z = (points.astype(np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(random_state)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            z = (z ^ (z >> np.uint64(shift))) * np.uint64(factor)
        drawn = (z ^ (z >> np.uint64(31))) / 2.0**64
    is_held_out = drawn < min(1 / FOLDS, MAX_IN_FOLD / max(1, len(points)))
    for code in np.unique(strata):
        members = np.flatnonzero(strata == code)
        if is_held_out[members].all():
            is_held_out[members[np.argmax(drawn[members])]] = False
    return np.flatnonzero(is_held_out)


def _draws(strata: np.ndarray, random_state: int) -> list[tuple[int, list[np.ndarray]]]:
    """Return draws of `TRAINING_SHARES` of each class: the number of training labels, and the fold of all others."""
    order = block_rng(random_state, CURVE_STREAM).permutation(len(strata))
    of_class = [order[strata[order] == code] for code in np.unique(strata)]
    min_count = 2 if len(of_class) == 1 else 1
    draws: dict[tuple[int, int], list[np.ndarray]] = {}
    for share in TRAINING_SHARES:
        counts = [max(min_count, round(share * len(members))) for members in of_class]
        for draw in range(min(len(STARTS), round(1 / share))):
            starts = [int(len(members) * STARTS[draw]) for members in of_class]
            training = np.concatenate([np.roll(members, -start)[:count]
                                       for members, start, count in zip(of_class, starts, counts, strict=True)])
            held_out = np.setdiff1d(np.arange(len(strata)), training)
            if len(held_out):
                draws.setdefault((len(training), draw), [held_out])
    return [(count, folds) for (count, _), folds in draws.items()]


class OfModels(TypedDict, total=False):
    """What is said of fitted models beside their attributes; by_labels : by their held-out labels."""

    by_labels: Mapping[str, object]


class ModelsMade(OfModels, total=False):
    """What a step leaves that fits models, as JSON: the attributes of each by name.

    evidence : of the solver. choice : how the model was chosen. regions : what it predicts in the plane.
    """

    models: Required[dict[str, JsonObject]]
    evidence: Mapping[str, object] | Sequence[Mapping[str, object]]
    choice: Mapping[str, object]
    regions: Mapping[str, object]


def by_labels(target: Target, folds: LabelFolds, held_out: Mapping[str, Sequence[HeldOut]]) -> dict[str, object]:
    """Return the errors at held-out labels, the gains of `model` over the baselines, and the learning curve; JSON.

    held_out : the values of each model, in the order of `LabelFolds.repetitions`. The scores include those of
    `constant_baseline`, and of classes the model's confusion matrix. Every label counts once, whatever its weight in
    the fits. The gains are in the scoring of the target, or in the error where that is undefined
    (`undefined_scoring`); the curve is of the error.
    """
    if not folds.compared:
        return {"n": 0, "why": folds.why}
    if "model" not in held_out:
        return {"n": 0, "why": "holding out labels of the model does not fit the memory budget"}
    metric = WRONG_CLASS if isinstance(target, Classes) else SQUARED
    weight = held_out["model"][0].weight
    key = metric.name
    held_out = {name: [replace(each, weight=None) for each in fits] for name, fits in held_out.items()}
    first = {name: fits[0] for name, fits in held_out.items()}
    points = next(iter(first.values())).points
    predicted = {name: _predicted(fits, target) for name, fits in first.items()}
    true, undefined = in_defined_scoring(target.take(points), predicted["model"])
    scores = {name: {**_scored(each, metric), **target_score(true, predicted[name])} for name, each in first.items()}
    if isinstance(true, Classes):
        scores["model"]["confusion"] = scores_of(true, predicted["model"])["confusion"]
    curve: dict[int, dict[str, list[HeldOut]]] = {}
    for name, fits in held_out.items():
        for (count, _), each in zip(folds.curve, fits[1:], strict=False):
            curve.setdefault(count, {}).setdefault(name, []).append(each)
    n_training = round(len(target.coded) - len(points) / len(folds.compared))
    rows = [_curve_point(count, drawn, metric) for count, drawn in sorted(curve.items()) if count < n_training]
    rows.append({"labels": n_training, **{name: of_model[key] for name, of_model in scores.items()},
                 **{f"{name}_interval": of_model["interval"] for name, of_model in scores.items()}})
    name, constant, predicts = constant_baseline(target, true, weight)
    baseline = scores_of(true, constant)
    scores[name] = {**{each: baseline[each] for each in (key, "standard_error", "interval")},
                    **target_score(true, constant), "predicts": predicts}
    return {"n": len(points), "folds": len(folds.compared), "scores": scores,
            **({"single_labels": folds.single_labels} if folds.single_labels else {}),
            **unlabeled_verdict(true, {**predicted, name: constant}), **undefined,
            **({} if len(rows) > 1 else {"no_curve": folds.no_curve}), "curve": rows}


def with_other_model(compared: Mapping[str, Any], learner: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """Return the comparison `by_labels` of a model that is pooled with another one, which its baseline lacks; JSON.

    learner : the same comparison of the model without the other one, by which the unlabeled data is judged; None if no
    label can be held out. It becomes `without_other`.
    """
    if learner is None:
        learner = {"n": 0, "why": NOT_WITHOUT_OTHER}
    pooled = {key: value for key, value in compared.items() if key != "unlabeled_data"}
    answer = {key: value for key, value in learner.items() if key == "unlabeled_data"}
    return {**pooled, **answer, "without_other": {key: value for key, value in learner.items() if key != "curve"}}


def _curve_point(count: int, drawn: Mapping[str, Sequence[HeldOut]], metric: PointMetric) -> dict[str, object]:
    """Return the mean errors of draws of so many labels, by model, with their 95 % intervals over labels; JSON.

    A label that several draws predict counts once, by its mean error.
    """
    row: dict[str, object] = {"labels": count}
    for name, fits in drawn.items():
        score = Score.mean([each.of(metric) for each in fits])
        n = len(np.unique(np.concatenate([each.points for each in fits])))
        row[name] = score.value
        row[f"{name}_interval"] = interval_of_score(score.value, score.standard_error, n,
                                                    share=metric == WRONG_CLASS)
    return row


def corrected_for_selection(by_labels: Mapping[str, Any],
                            grid: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, object]:
    """Return the comparison `by_labels` where parameters were selected on the same labels; JSON.

    grid : the candidates of each model, as JSON. `tried` counts them; `errors_without_choice` are their
    `nested_error`. A model with more candidates than its base cannot claim a gain.
    """
    tried = {name: len(grid[name]) for name in ("model", "base") if grid.get(name)}
    if max(tried.values(), default=1) <= 1:
        return dict(by_labels)
    errors = {name: nested_error([CandidateScores.from_json(row) for row in grid[name]]) for name in tried}
    is_biased = by_labels.get("unlabeled_data") == HELPED and tried.get("model", 1) > tried.get("base", 1)
    corrected = {"tried": tried, **({"unlabeled_data": NO_CLAIM} if is_biased else {})}
    alone = by_labels.get("without_other")
    return {**by_labels, **corrected, **({"without_other": {**alone, **corrected}} if alone else {}),
            **({} if None in errors.values() else {"errors_without_choice": errors})}


def nested_error(candidates: Sequence[CandidateScores]) -> float | None:
    """Return the error where the other folds select the candidate that predicts a fold; None for leave-one-out."""
    n_folds = max((len(each.fold_errors or ()) for each in candidates), default=0)
    if n_folds < 2:
        return None
    errors = np.array([each.fold_errors for each in candidates if len(each.fold_errors or ()) == n_folds])
    power = 1 if "error" in candidates[0].scores else 2
    errors = errors**power
    selected = (errors.sum(axis=1, keepdims=True) - errors).argmin(axis=0)
    return float(errors[selected, np.arange(n_folds)].mean() ** (1 / power))


def _scored(held_out: HeldOut, metric: PointMetric) -> dict[str, Figure]:
    """Return the error at the held-out labels by its name, with its standard error and 95 % interval; JSON."""
    score = held_out.of(metric)
    measured = held_out.measured(metric)
    interval = interval_of_share(score.value, len(measured)) if metric == WRONG_CLASS else interval_of_rmse(measured)
    return {metric.name: score.value, "standard_error": score.standard_error, "interval": interval}


def with_prior(model: M, target: Target, held_out: Sequence[HeldOut], points: Rows, assumed: ClassPrior = LABELS, *,
               weight: np.ndarray | None = None) -> tuple[M, Calibration | None, list[HeldOut]]:
    """Return a model shifted to the class frequencies, its calibration, and its held-out values.

    held_out : in the order of `LabelFolds.repetitions`, by fits whose values assume the class frequencies `assumed`.
    points (n, d) : to be predicted; some of them give the slope where each class has one label. weight : of the labels
    (l,), where none is held out.
    """
    positions = held_out[0].points if held_out else np.arange(0)
    values = held_out[0].values[positions] if held_out else np.empty((0, model.n_columns))
    shift = prior_shift(target, values, model.coding, held_out[0].weight if held_out else weight, assumed, positions,
                        model.n_columns,
                        at_points=None if can_calibrate(target) else partial(spaced_values, model, points))
    moved = model.shifted(shift.columns) if isinstance(target, Classes) else model
    return moved, shift.calibration, [fit.with_prior(assumed) for fit in held_out]


def _predicted(held_out: HeldOut, target: Target) -> dict[str, np.ndarray]:
    """Return predictions of the held-out labels, with margins and log losses where the scoring needs them."""
    predictions = held_out.coding.predictions(held_out.values[held_out.points], held_out.true)
    if isinstance(target, Classes) and target.scoring == "roc_auc":
        predictions["margins"] = held_out.margins[held_out.points]
    if isinstance(target, Classes) and target.scoring == "neg_log_loss":
        P = held_out.probabilities[np.arange(len(held_out.true)), held_out.true]
        predictions["log_losses"] = -np.log(np.maximum(P, MIN_PROBABILITY))
    if held_out.unreachable is None:
        return predictions
    return with_rejections(predictions, held_out.unreachable[held_out.points])

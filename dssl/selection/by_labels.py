"""What the labels say of a model and of its base, each label predicted without itself; and the error by their number.

Parameters that a grid gave were chosen on all labels, which flatters both, and more the model that tried more:
`without_choice`. The kernels and the graph are those of all points, in which the points that are held out stay, as
unlabeled ones.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..learners.class_prior import LABELS, ClassPrior
from ..learners.measures import SQUARED, WRONG_CLASS, PointMeasure
from ..learners.prior_shift import PriorShift, prior_shift
from ..learners.probabilities import Calibration
from ..learners.target.coding import Coding
from ..learners.target.target import Classes, Target
from ..storage.blocks import block_rng
from .calibration import FOLDS, ONE_BY_ONE
from .folds import labeled_folds
from .held_out_scores import MIN_PROBABILITY, HeldOut, Score
from .interval import interval_of_rmse, interval_of_score, interval_of_share
from .scores import HELPED, asked_score, guess, in_defined_scoring, scores_of, unlabeled_verdict, withheld

SHARES = (1 / 8, 1 / 4, 1 / 2)  # of the labels of each class, that a point of the curve is learned from
STARTS = (0.0, 0.5, 0.25, 0.75)  # where draws begin in a class, of each share: the small ones lie within the larger
MOST = 500  # labels of which there is a curve
CURVE_STREAM = 17  # of the seed
NO_CLAIM = "no claim"  # of labels by which the model was chosen among more than its base


@dataclass(frozen=True, eq=False)
class LabelFolds:
    """What is held out of l labels: `compared`, folds of about one label of each class; `curve`, draws of subsets.

    A draw is one fold: all labels but the few that are learned from, so many as its key says.
    """

    compared: list[np.ndarray]
    curve: list[tuple[int, list[np.ndarray]]]
    no_curve: str = "each point of it would take a fit to all points"  # where there is none
    why: str = "of no class are there two, so that none can be held out"  # where none are compared

    @classmethod
    def of(cls, target: Target, random_state: int = 0, *, a_fit_each: bool = False, curve: bool = True) -> "LabelFolds":
        """Return the folds of some labels; none where no class has two. a_fit_each : as `calibration_folds`."""
        if target.coded.ndim > 1 and target.coded.shape[1] > 1:
            return cls([], [], why="the errors of several quantities are not compared")
        return cls.of_strata(target.strata(), random_state, a_fit_each=a_fit_each, curve=curve)

    @classmethod
    def of_strata(cls, strata: np.ndarray, random_state: int = 0, *, a_fit_each: bool = False,
                  curve: bool = True) -> "LabelFolds":
        """Return the folds of labels of these classes (l,), zeros of quantities."""
        sizes = np.bincount(strata)
        held = sizes[sizes > 1]
        if not len(held) or (len(sizes) == 1 and len(strata) < 3):
            return cls([], [])
        most = FOLDS if a_fit_each or len(strata) > ONE_BY_ONE else int(held.min())
        folds = labeled_folds(strata, max(2, min(int(held.min()), most)), random_state)
        if len(strata) > MOST:
            return cls(folds, [], f"it is of {MOST} labels at most")
        return cls(folds, _draws(strata, random_state)) if curve else cls(folds, [])

    @classmethod
    def of_sizes(cls, sizes: Sequence[int], **options: Any) -> "LabelFolds":
        """Return the folds of labels of classes of these sizes, as a plan counts them; more than `MOST` are alike."""
        return cls.of_strata(np.repeat(np.arange(len(sizes)), np.minimum(sizes, MOST + 1)), **options)

    @property
    def repetitions(self) -> list[list[np.ndarray]]:
        """Return lists of folds that are disjoint within each: those compared, then each draw of the curve."""
        return [self.compared, *(folds for _, folds in self.curve)] if self.compared else []


def most_repetitions(n_labels: int) -> int:
    """Return the most `LabelFolds.repetitions` of so many labels."""
    return 1 + (sum(min(len(STARTS), round(1 / share)) for share in SHARES) if n_labels <= MOST else 0)


def _draws(strata: np.ndarray, random_state: int) -> list[tuple[int, list[np.ndarray]]]:
    """Return draws of `SHARES` of each class, one label at least, as folds of all others, with the labels seen."""
    order = block_rng(random_state, CURVE_STREAM).permutation(len(strata))
    of_class = [order[strata[order] == code] for code in np.unique(strata)]
    least = 2 if len(of_class) == 1 else 1
    draws: dict[tuple[int, int], list[np.ndarray]] = {}
    for share in SHARES:
        counts = [max(least, round(share * len(members))) for members in of_class]
        for draw in range(min(len(STARTS), round(1 / share))):
            starts = [int(len(members) * STARTS[draw]) for members in of_class]
            seen = np.concatenate([np.roll(members, -start)[:count]
                                   for members, start, count in zip(of_class, starts, counts, strict=True)])
            held = np.setdiff1d(np.arange(len(strata)), seen)
            if len(held):
                draws.setdefault((len(seen), draw), [held])
    return [(count, folds) for (count, _), folds in draws.items()]


def by_labels(target: Target, folds: LabelFolds, held_out: Mapping[str, Sequence[HeldOut]]) -> dict[str, Any]:
    """Return the errors of models at labels held out, what `model` gains over each other, and the curve; JSON.

    The guess that needs no model, the most frequent class or the mean of all labels, is among the scores.
    held_out : of each model its values, in the order of `LabelFolds.repetitions`. Every label counts once, whatever it
    weighs in the fits, as every test point does. The scoring of the target is beside the error, and the gains are in it
    (`undefined_scoring`: in the error, since that one is not defined); the curve is of the error.
    """
    if not folds.compared:
        return {"n": 0, "why": folds.why}
    if "model" not in held_out:
        return {"n": 0, "why": "leaving labels out of the model does not fit the memory budget"}
    measure = WRONG_CLASS if isinstance(target, Classes) else SQUARED
    weight = held_out["model"][0].weight
    key = measure.name
    held_out = {name: [replace(held, weight=None) for held in fits] for name, fits in held_out.items()}
    first = {name: fits[0] for name, fits in held_out.items()}
    points = next(iter(first.values())).points
    predicted = {name: _predicted(fits, target) for name, fits in first.items()}
    true, undefined = in_defined_scoring(target.take(points), predicted["model"])
    scores = {name: {**_scored(held, measure), **asked_score(true, predicted[name])} for name, held in first.items()}
    curve: dict[int, dict[str, list[HeldOut]]] = {}
    for name, fits in held_out.items():
        for (count, _), held in zip(folds.curve, fits[1:], strict=False):
            curve.setdefault(count, {}).setdefault(name, []).append(held)
    learned = round(len(target.coded) - len(points) / len(folds.compared))
    rows = [_curve_point(count, drawn, measure) for count, drawn in sorted(curve.items()) if count < learned]
    rows.append({"labels": learned, **{name: fits[key] for name, fits in scores.items()},
                 **{f"{name}_interval": fits["interval"] for name, fits in scores.items()}})
    name, predicted_alike, predicts = guess(target, true, weight)
    guessed = scores_of(true, predicted_alike)
    scores[name] = {**{fits: guessed[fits] for fits in (key, "standard_error", "interval")},
                    **asked_score(true, predicted_alike), "predicts": predicts}
    return {"n": len(points), "folds": len(folds.compared), "scores": scores,
            **unlabeled_verdict(true, {**predicted, name: predicted_alike}), **undefined,
            **({} if len(rows) > 1 else {"no_curve": folds.no_curve}), "curve": rows}


def _curve_point(count: int, drawn: Mapping[str, Sequence[HeldOut]], measure: PointMeasure) -> dict[str, Any]:
    """Return the mean errors of draws of so many labels, by model, with their 95 % intervals; JSON.

    The intervals are over the labels that are predicted. One that several draws predict counts once in them, by the
    mean of what it is missed by.
    """
    row: dict[str, Any] = {"labels": count}
    for name, fits in drawn.items():
        score = Score.mean([held.of(measure) for held in fits])
        n = len(np.unique(np.concatenate([held.points for held in fits])))
        row[name] = score.value
        row[f"{name}_interval"] = interval_of_score(score.value, score.standard_error, n,
                                                    share=measure == WRONG_CLASS)
    return row


def without_choice(by_labels: Mapping[str, Any], grid: Mapping[str, Sequence[Mapping[str, Any]]]) -> dict[str, Any]:
    """Return what the labels say where parameters were chosen on them, corrected for that choice; JSON.

    grid : the rows that were tried for each model. `tried` counts them. `errors_without_choice` : each fold by the row
    that the other folds choose, where folds are known. A gain by labels of a model that tried more rows than its base
    is no claim.
    """
    tried = {name: len(grid[name]) for name in ("model", "base") if grid.get(name)}
    if max(tried.values(), default=1) <= 1:
        return dict(by_labels)
    errors = {name: error_by_other_folds(grid[name]) for name in tried}
    flattered = by_labels.get("unlabeled_data") == HELPED and tried.get("model", 1) > tried.get("base", 1)
    return {**by_labels, "tried": tried, **({"unlabeled_data": NO_CLAIM} if flattered else {}),
            **({} if None in errors.values() else {"errors_without_choice": errors})}


def error_by_other_folds(rows: Sequence[Mapping[str, Any]]) -> float | None:
    """Return the error of rows where each fold is predicted by the row of the lowest error on the other folds.

    So no fold has a part in the choice of what predicts it. None where folds are not known, as of labels one by one.
    """
    most = max((len(row.get("fold_errors") or ()) for row in rows), default=0)
    if most < 2:
        return None
    errors = np.array([row["fold_errors"] for row in rows if len(row.get("fold_errors") or ()) == most])
    power = 1 if "error" in rows[0] else 2
    errors = errors**power
    chosen = (errors.sum(axis=1, keepdims=True) - errors).argmin(axis=0)
    return float(errors[chosen, np.arange(most)].mean() ** (1 / power))


def _scored(held: HeldOut, measure: PointMeasure) -> dict[str, Any]:
    """Return the error at the labels held out, by its name, with its standard error and 95 % interval; JSON."""
    score = held.of(measure)
    measured = held.measured(measure)
    interval = interval_of_share(score.value, len(measured)) if measure == WRONG_CLASS else interval_of_rmse(measured)
    return {measure.name: score.value, "standard_error": score.standard_error, "interval": interval}


def with_prior(model: Any, target: Target, held_out: Sequence[HeldOut], assumed: ClassPrior = LABELS, *,
               weight: np.ndarray | None = None) -> tuple[Any, Calibration | None, list[HeldOut]]:
    """Return a model that knows how frequent classes are, its calibration, and its values at labels held out.

    model : a `Model` with `moved`. held_out : in the order of `LabelFolds.repetitions`, by fits whose values assume
    that classes are as frequent as `assumed`. weight : of the labels (l,), where none is held out.
    """
    shift = shift_by(target, held_out, model.coding, model.n_columns, assumed, weight)
    moved = model.moved(shift.columns) if isinstance(target, Classes) else model
    return moved, shift.calibration, [fit.with_prior(assumed) for fit in held_out]


def shift_by(target: Target, held_out: Sequence[HeldOut], coding: Coding, n_columns: int,
             assumed: ClassPrior = LABELS, weight: np.ndarray | None = None) -> PriorShift:
    """Return the shift and the calibration that follow from what `LabelFolds.of` compares.

    assumed : how frequent the values say that classes are. weight : of the labels (l,), where none is held out.
    """
    held = held_out[0].points if held_out else np.arange(0)
    values = held_out[0].values[held] if held_out else np.empty((0, n_columns))
    return prior_shift(target, values, coding, held_out[0].weight if held_out else weight, assumed, held, n_columns)


def _predicted(held: HeldOut, target: Target) -> dict[str, np.ndarray]:
    """Return predictions of the labels held out, with the scores and the log losses that the target is judged by."""
    predictions = held.coding.predictions(held.values[held.points], held.true)
    if isinstance(target, Classes) and target.scoring == "roc_auc":
        predictions["margins"] = held.margins[held.points]
    if isinstance(target, Classes) and target.scoring == "neg_log_loss":
        P = held.probabilities[np.arange(len(held.true)), held.true]
        predictions["log_losses"] = -np.log(np.maximum(P, MIN_PROBABILITY))
    return withheld(predictions, held.lost[held.points]) if held.lost is not None else predictions

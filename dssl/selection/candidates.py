"""Candidates of a search: their cross-validated scores, the rule that selects one, and scikit-learn's `cv_results_`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, TypedDict

import numpy as np

from ..base.wilson import interval_of_share
from ..learners.metrics import PointMetric
from ..learners.target.target import Classes
from .held_out_scores import (
    CLASS_SCORES,
    SCORED,
    SHARES,
    VALUE_SCORES,
    HeldOut,
    mean_over_repetitions,
    require_scoring,
    scores_by_name,
)
from .interval import interval_of_score

PRIMARY = ("error", "rmse", "loss", "mae")  # scores in the order in which they break ties
# Of the rmse times the best factor and of the loss that breaks ties, beside the scores by name.
SCORE_NAMES = {*CLASS_SCORES, *VALUE_SCORES, "loss", "scaled_rmse"}
# The smaller this times a parameter, the stronger is its penalty.
STRENGTHS = {"gamma_A": -1, "gamma_I": -1, "C": 1, "penalty": -1}


@dataclass(frozen=True)
class CandidateScores:
    """A candidate of a search: its parameters, and its scores on held-out labels.

    scores : by name, with `<name>_se`, the standard error over points, and with several repetitions
    `<name>_se_repetitions`; None where a score is not defined.
    fold_errors : the first score in each fold; fold_deviation : their standard deviation, in place of them where each
    point is a fold. n_folds : folds of a rung of successive halving. all_scores : every score of a contender.
    """

    parameters: Mapping[str, Any]
    scores: Mapping[str, float | None]
    fold_errors: tuple[float, ...] | None = None
    fold_deviation: float | None = None
    n_folds: int | None = None
    all_scores: Mapping[str, float | None] | None = None

    @classmethod
    def of(cls, repetitions: Sequence[HeldOut], tie: PointMetric, scoring: str | None = None,
           fitted: Sequence[HeldOut] | None = None, *, complete: bool = False, **parameters: object) -> Self:
        """Return the scores of held-out values in each repetition of the folds.

        For classes these are the error and the metric `tie`, for quantities the rmse and the mae; and the score of
        `SCORED` that `scoring` names. complete : whether to compute every score.
        fitted : the values before they were shifted to the class frequencies, for `tie`; the same by default.
        """
        target = repetitions[0].target
        metrics = target.metrics(tie)
        scores: dict[str, float | None] = {}
        for metric in metrics:
            values = (fitted or repetitions) if metric == tie else repetitions
            scores |= mean_over_repetitions(metric.name, [each.of(metric) for each in values])
        if scoring is not None:
            require_scoring(scoring, classes=isinstance(target, Classes), n_classes=target.n_strata)
            name = SCORED[scoring][0]
            if name not in scores:
                scores |= mean_over_repetitions(name, [scores_by_name(target)[name](each) for each in repetitions])
        errors = [error for each in repetitions for error in each.of_folds(metrics[0])]
        leave_one_out = all(len(fold) == 1 for each in repetitions for fold in each.folds)
        return cls(parameters, scores, None if leave_one_out else tuple(errors),
                   float(np.std(errors)) if leave_one_out else None,
                   all_scores=every_score(repetitions) if complete else None)

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Return the candidate that `to_json` wrote."""
        lists = {"fold_errors", "fold_deviation", "n_folds", "scores"}
        scores = {key: value for key, value in fields.items()
                  if key.removesuffix("_repetitions").removesuffix("_se") in SCORE_NAMES}
        errors = fields.get("fold_errors")
        return cls({key: value for key, value in fields.items() if key not in scores and key not in lists}, scores,
                   None if errors is None else tuple(errors), fields.get("fold_deviation"), fields.get("n_folds"),
                   fields.get("scores"))

    def to_json(self, *, complete: bool = False) -> dict[str, Any]:
        """Return the row of a table: parameters and scores by name; complete : also `all_scores`, as "scores"."""
        known = {"fold_errors": None if self.fold_errors is None else list(self.fold_errors),
                 "fold_deviation": self.fold_deviation, "n_folds": self.n_folds,
                 "scores": self.all_scores if complete else None}
        return {**self.parameters, **self.scores, **{key: value for key, value in known.items() if value is not None}}

    def to_report(self, n_labels: int) -> dict[str, Any]:
        """Return the row with the 95 % interval of each score over the labels, `<name>_interval`, where it is known."""
        row = self.to_json()
        for name, value in self.scores.items():
            if f"{name}_se" in self.scores and value is not None:
                ends = interval_of_share(value, n_labels) if name == "error" else interval_of_score(
                    value, self.scores[f"{name}_se"], n_labels, share=name in SHARES)
                row |= {} if ends is None else {f"{name}_interval": ends}
        return row

    def with_parameters(self, **parameters: object) -> Self:
        return replace(self, parameters={**self.parameters, **parameters})

    @property
    def primary(self) -> tuple[float, ...]:
        """Return the scores that are compared first, the lower the better."""
        return tuple(value for name in PRIMARY if (value := self.scores.get(name)) is not None)

    @property
    def strength(self) -> tuple[float, ...]:
        """Return what orders candidates by their penalties, the strongest first."""
        return tuple(sign * self.parameters[name] for name, sign in STRENGTHS.items() if name in self.parameters)


def every_score(repetitions: Sequence[HeldOut]) -> dict[str, float | None]:
    """Return every score of held-out values in each repetition."""
    return {key: value for name, score in scores_by_name(repetitions[0].target).items()
            for key, value in mean_over_repetitions(name, [score(each) for each in repetitions]).items()}


@dataclass(frozen=True, kw_only=True)
class SelectionRule:
    """Which candidate is selected: that of the best score, then of the lowest scores in the order of `PRIMARY`.

    scoring : its name in scikit-learn, see `SCORED`; None is the error or the rmse.
    one_standard_error : the strongest penalties within one standard error (over points) of the best are selected.
    """

    scoring: str | None = None
    one_standard_error: bool = False

    def extra_scores(self, repetitions: Sequence[HeldOut]) -> dict[str, float]:
        """Return further scores that the rule needs."""
        return {}

    def select(self, candidates: Sequence[CandidateScores]) -> CandidateScores:
        return candidates[self.index(candidates)]

    def index(self, candidates: Sequence[CandidateScores]) -> int:
        keys = [self.sort_key(candidate) for candidate in candidates]
        lowest = min(range(len(candidates)), key=keys.__getitem__)
        if not self.one_standard_error:
            return lowest
        best = candidates[lowest].scores
        name = next(name for name in PRIMARY if name in best) if self.scoring is None else SCORED[self.scoring][0]
        limit = keys[lowest][0] + (best[f"{name}_se"] or 0.0)
        return min((index for index in range(len(candidates)) if keys[index][0] <= limit),
                   key=lambda index: candidates[index].strength + keys[index])

    def contenders(self, candidates: Sequence[CandidateScores]) -> list[int]:
        """Return the indices of those that may be selected among these and any others: lower than all stronger ones."""
        if not self.one_standard_error:
            return [self.index(candidates)]
        keys = [self.sort_key(candidate) for candidate in candidates]
        indices: list[int] = []
        for index in sorted(range(len(candidates)), key=lambda index: candidates[index].strength + keys[index]):
            if not indices or keys[index][0] < keys[indices[-1]][0]:
                indices.append(index)
        return indices

    def best(self, candidates: Sequence[CandidateScores], n: int) -> list[int]:
        """Return the indices of the n best candidates, ascending; the first of equal ones."""
        return sorted(sorted(range(len(candidates)), key=lambda index: self.sort_key(candidates[index]))[:n])

    def sort_key(self, candidate: CandidateScores) -> tuple[float, ...]:
        """Return the key that orders candidates, the best first."""
        if self.scoring is None:
            return candidate.primary
        name, highest_is_best = SCORED[self.scoring]
        value = candidate.scores[name]
        if value is None:
            return (np.inf, *candidate.primary)
        return (-value if highest_is_best else value, *candidate.primary)


LOWEST_ERROR = SelectionRule()


class Selected(TypedDict, total=False):
    """What a search leaves, as JSON: the parameters that it chose for each model, and the candidates that it compared.

    folds : how many labels are held out by, 0 without a search. scores : every score of each choice. place : that of
    the choice among the candidates. evidence, kept : by kernel, how its systems were made, and what is kept of them.
    """

    folds: int
    repetitions: int
    rule: Mapping[str, object]
    search: Mapping[str, object]
    held_out_points: str
    choices: Mapping[str, Mapping[str, object] | None]
    grid: Mapping[str, Sequence[Mapping[str, object]]]
    scores: Mapping[str, Mapping[str, float | None] | None]
    place: int
    bandwidths: Sequence[float | None]
    evidence: Sequence[Mapping[str, object]]
    kept: Sequence[Mapping[str, object] | None]


def cv_results(candidates: Sequence[CandidateScores], tried: Sequence[Mapping[str, Any]],
               rule: SelectionRule = LOWEST_ERROR, rungs: Sequence[tuple[int, int]] | None = None) -> dict[str, Any]:
    """Return the candidates of a search as the arrays of scikit-learn's `cv_results_`.

    `params` and `param_<name>` : the parameters `tried`. `split<i>_test_score` : the accuracy, or minus the rmse, in a
    fold, unless a point is a fold. `mean_test_score` : the same over the points of all folds; `std_test_score` : over
    folds. `rank_test_score` : by the rule. And every parameter and score of the candidates by its name, NaN where it is
    not defined.

    rungs : of successive halving, (`iter`, `n_resources`) of each candidate: its rung and the number of folds there.
    Splits are numbered within a rung, and any candidate of a later rung ranks before those of earlier ones.
    """
    if not candidates:
        return {}
    best = 1.0 if "error" in candidates[0].scores else 0.0
    rung_of = rungs or [(0, 0)] * len(candidates)
    keys = [(-rung, *rule.sort_key(candidate)) for (rung, _), candidate in zip(rung_of, candidates, strict=True)]
    errors = [candidate.fold_errors or () for candidate in candidates]
    folds = np.full((len(candidates), max(map(len, errors))), np.nan)
    for row, fold_errors in zip(folds, errors, strict=True):
        row[:len(fold_errors)] = best - np.array(fold_errors)
    names = [*candidates[-1].parameters, *candidates[-1].scores]
    return {
        **({} if rungs is None else dict(zip(("iter", "n_resources"), np.array(rungs).T, strict=True))),
        "params": [dict(values) for values in tried],
        **{f"param_{name}": _masked([values.get(name) for values in tried], [name not in values for values in tried])
           for name in dict.fromkeys(name for values in tried for name in values)},
        **{f"split{fold}_test_score": folds[:, fold] for fold in range(folds.shape[1])},
        "mean_test_score": best - np.array([candidate.primary[0] for candidate in candidates]),
        "std_test_score": np.array([np.nanstd(row) if candidate.fold_deviation is None else candidate.fold_deviation
                                    for row, candidate in zip(folds, candidates, strict=True)]),
        "rank_test_score": np.array([1 + sum(other < key for other in keys) for key in keys], np.int32),
        **{name: np.array([{**candidate.parameters, **candidate.scores}.get(name) for candidate in candidates], float)
           for name in names}}


def _masked(values: list[Any], mask: list[bool]) -> np.ma.MaskedArray:
    """Return a masked array of one dimension, of objects where values are no numbers or texts of one kind."""
    if all(isinstance(value, (int, float)) for value in values) or all(isinstance(value, str) for value in values):
        return np.ma.array(values)
    array = np.empty(len(values), object)
    array[:] = values
    return np.ma.array(array, mask=mask)

"""The penalties of LapRLS, chosen by cross-validation: all pairs, and all folds, are columns of one problem."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..execution.tasks import Execution, one_thread
from ..kernels.landmarks import Landmarks
from ..learners.class_prior import LABELS
from ..learners.laprls.problem import PreparedLapRLS
from ..learners.measures import SQUARED, PointMeasure
from .choice import LOWEST, ChoiceRule
from .held_out_scores import HeldOut, all_scores, held_out_scores


@dataclass(frozen=True)
class SearchedPenalties:
    """The rows of a search in one kernel: the penalties and the measures of each system, in the order of `tried`; JSON.

    scores : every score of those rows that may be chosen, None of the others.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any] | None] = field(default_factory=list)


def search_penalties(prepared: PreparedLapRLS, execution: Execution, rule: ChoiceRule = LOWEST,
                     further: Sequence[Sequence[np.ndarray]] = (),
                     landmarks: Landmarks | None = None, tie: PointMeasure = SQUARED) -> SearchedPenalties:
    """Return a row for each system that may be chosen.

    The problem has folds, and the systems were prepared to hold them out. Errors are weighted as the labels are.
    further : the folds of repetitions after the problem's. landmarks : those of the systems, None where these chose.
    tie : what parts equals among classes; one score has to part all rows of a search, whatever losses they are of.

    The values (l, c) of the rows that may yet be chosen are held.
    """
    problem = prepared.problem
    weight = problem.lines.weight
    repetitions = [prepared, *(prepared.refolded(folds, execution, landmarks) for folds in further)]
    rows: list[dict[str, Any]] = []
    kept: dict[int, list[HeldOut]] = {}
    leading: dict[str, list[int]] = {}
    names = [[name for name, systems in problem.allowed.items() if system in systems] for system in problem.tried]
    with one_thread():  # around all: contexts of repetitions that take turns would undo one another
        for place, values in enumerate(zip(*(repetition_values.held_out() for repetition_values in repetitions),
                                           strict=True)):
            system = values[0][0]
            held = [HeldOut(problem.target, problem.target.coding, held_values, repetition.problem.folds, weight)
                    for repetition, (_, held_values) in zip(repetitions, values, strict=True)]
            moved = [each.with_prior(LABELS) for each in held]
            rows.append({"gamma_A": system.gamma_A, "gamma_I": system.gamma_I,
                         **held_out_scores(moved, tie, rule.scoring, held), **rule.told(held)})
            kept[place] = moved
            for name in names[place]:
                rivals = [*leading.get(name, []), place]
                leading[name] = [rivals[index] for index in sorted(rule.candidates([rows[rival] for rival in rivals]))]
            for beaten in kept.keys() - {number for places in leading.values() for number in places}:
                del kept[beaten]
    return SearchedPenalties(rows, [all_scores(kept[place]) if place in kept else None for place in range(len(rows))])

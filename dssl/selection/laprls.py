"""The penalties of LapRLS, chosen by cross-validation: all pairs, and all folds, are columns of one problem."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..execution.tasks import Execution, one_thread
from ..kernels.base import Kernel
from ..kernels.landmarks import Landmarks
from ..learners.class_prior import LABELS
from ..learners.laprls.penalties import Penalties
from ..learners.laprls.problem import FittedLapRLS, LapRLSProblem, PreparedLapRLS
from ..learners.losses import SQUARES
from ..learners.measures import HINGE, SQUARED, PointMeasure
from .choice import LOWEST, ChoiceRule
from .held_out_scores import HeldOut, all_scores, held_out_scores

VERSIONS = {"landmarks": 4, "selection": 14}  # of the code of each step; to be raised when its output changes


@dataclass(frozen=True)
class SearchedPenalties:
    """The rows of a search in one kernel: the penalties and the measures of each system, in the order of `tried`; JSON.

    scores : every score of those rows that may be chosen, None of the others.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    scores: list[dict[str, Any] | None] = field(default_factory=list)


@dataclass(frozen=True)
class ChosenPenalties:
    """The system that is chosen, the number of its kernel, and every score of its values held out, if any were."""

    number: int
    system: Penalties
    scores: dict[str, Any]


def search_penalties(prepared: PreparedLapRLS, execution: Execution, rule: ChoiceRule = LOWEST,
                     further: Sequence[Sequence[np.ndarray]] = (), landmarks: Landmarks | None = None,
                     tie: PointMeasure | None = None) -> SearchedPenalties:
    """Return a row for each system that may be chosen.

    The problem has folds, and the systems were prepared to hold them out. Errors are weighted as the labels are.
    further : the folds of repetitions after the problem's. landmarks : those of the systems, None where these chose.
    tie : what parts equals among classes, by default the rmse of the squared loss, or the hinge loss of others. One
    score has to part all rows of a search, whatever losses they are of.

    The values (l, c) of the rows that may yet be chosen are held.
    """
    problem = prepared.problem
    tie, weight = tie or (SQUARED if problem.params.loss == SQUARES else HINGE), problem.lines.weight
    repetitions = [prepared, *(prepared.refolded(folds, execution, landmarks) for folds in further)]
    rows: list[dict[str, Any]] = []
    kept: dict[int, list[HeldOut]] = {}
    leading: dict[str, list[int]] = {}
    names = [[name for name, systems in problem.allowed.items() if own in systems] for own in problem.tried]
    with one_thread():  # around all: contexts of repetitions that take turns would undo one another
        for place, values in enumerate(zip(*(own.held_out() for own in repetitions), strict=True)):
            system = values[0][0]
            held = [HeldOut(problem.target, problem.target.coding, own, repetition.problem.folds, weight)
                    for repetition, (_, own) in zip(repetitions, values, strict=True)]
            moved = [own.with_prior(LABELS) for own in held]
            rows.append({"gamma_A": system.gamma_A, "gamma_I": system.gamma_I,
                         **held_out_scores(moved, tie, rule.scoring, held), **rule.told(held)})
            kept[place] = moved
            for name in names[place]:
                rivals = [*leading.get(name, []), place]
                leading[name] = [rivals[index] for index in sorted(rule.candidates([rows[rival] for rival in rivals]))]
            for beaten in kept.keys() - {own for places in leading.values() for own in places}:
                del kept[beaten]
    return SearchedPenalties(rows, [all_scores(kept[place]) if place in kept else None for place in range(len(rows))])


def untold(problem: LapRLSProblem) -> SearchedPenalties:
    """Return the rows of all systems that may be chosen, of which no label tells anything."""
    rows = [{"gamma_A": system.gamma_A, "gamma_I": system.gamma_I} for system in problem.tried]
    return SearchedPenalties(rows, [None] * len(rows))


def choose_penalties(problem: LapRLSProblem, tables: Sequence[SearchedPenalties],
                     rule: ChoiceRule = LOWEST) -> dict[str, ChosenPenalties]:
    """Return by name the system that the rule chooses, and its kernel.

    tables : of each kernel, as `search_penalties` gives them; without rows where there is nothing to choose.
    """
    found: dict[str, ChosenPenalties] = {}
    for name in problem.names:
        if name == "shuffled" and "model" in found:
            found[name] = replace(found["model"], system=replace(found["model"].system, control=True))
            continue
        among = problem.allowed["model" if name == "shuffled" else name]
        rows = [(number, place) for number, table in enumerate(tables)
                for place, system in zip(range(len(table.rows)), problem.tried, strict=False) if system in among]
        number, place = rows[rule.place([tables[number].rows[place] for number, place in rows])] if rows else (0, -1)
        system = problem.tried[place] if rows else among[0]
        found[name] = ChosenPenalties(number, replace(system, control=name == "shuffled"),
                                      (tables[number].scores[place] or {}) if rows else {})
    return found


def fit_laprls(problem: LapRLSProblem, kernels: Sequence[Kernel], execution: Execution,
               further: Sequence[Sequence[np.ndarray]] = (), tie: PointMeasure | None = None,
               rule: ChoiceRule = LOWEST) -> tuple[FittedLapRLS, list[SearchedPenalties], PreparedLapRLS]:
    """Return the model of a problem in the best of some kernels, the rows of the search in each, and its systems.

    The problem names the model alone. further, tie, rule : see `search_penalties`. Without folds the rule decides by
    the penalties alone, in the first kernel. The systems of two kernels are held, of the one that leads and the next.
    """
    if not problem.folds or not (problem.has_choice or len(kernels) > 1):
        prepared = problem.prepared(kernels[0], execution, held_out=False)
        tables = [untold(problem)] if problem.has_choice else []
        return prepared.fitted({"model": choose_penalties(problem, tables, rule)["model"].system}), [], prepared
    tables, leading = [], -1
    for number, kernel in enumerate(kernels):
        own = problem.prepared(kernel, execution, held_out=True)
        table = search_penalties(own, execution, rule, further, tie=tie)
        if len(kernels) > 1:
            bandwidth = getattr(kernel, "bandwidth", None)
            table = replace(table, rows=[{"bandwidth": bandwidth, **row} for row in table.rows])
        tables.append(table)
        best = choose_penalties(problem, tables, rule)["model"]
        if best.number != leading:
            leading, prepared = number, own
    fitted = prepared.fitted({"model": best.system})
    fitted.evidence["scores"] = {"model": best.scores}
    return fitted, tables, prepared

"""Cross-validation of the penalties of LapRLS: all pairs, and all folds, are columns of one problem."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..execution.tasks import Execution, one_thread
from ..kernels.landmarks import Landmarks
from ..learners.class_prior import LABELS
from ..learners.laprls.problem import PreparedLapRLS
from ..learners.metrics import SQUARED, PointMetric
from .candidates import LOWEST_ERROR, CandidateScores, SelectionRule, every_score
from .held_out_scores import HeldOut


@dataclass(frozen=True, eq=False)
class KernelSearch:
    """The candidates in one kernel with one loss; stored : the attributes of the Gram matrices that are kept."""

    candidates: list[CandidateScores]
    evidence: dict[str, Any]
    stored: dict[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the receipt that `from_json` reads."""
        rows = [candidate.to_json(complete=True) for candidate in self.candidates]
        return {"table": {"rows": rows}, "evidence": self.evidence, "kept": self.stored}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> "KernelSearch":
        return cls([CandidateScores.from_json(row) for row in fields["table"]["rows"]], fields["evidence"],
                   fields["kept"])


def search_penalties(prepared: PreparedLapRLS, execution: Execution, rule: SelectionRule = LOWEST_ERROR,
                     further: Sequence[Sequence[np.ndarray]] = (), landmarks: Landmarks | None = None,
                     tie: PointMetric = SQUARED) -> list[CandidateScores]:
    """Return the candidates in one kernel, in the order of `tried`; those that may be selected have `all_scores`.

    further : the folds of repetitions after the problem's. landmarks : those of the systems, None if they chose them.
    tie : the score that breaks ties among classes, the same for all losses.

    Only the values (l, c) of candidates that may still be selected are kept in memory.
    """
    problem = prepared.problem
    weight = problem.lines.weight
    repetitions = [prepared, *(prepared.with_new_folds(folds, execution, landmarks) for folds in further)]
    candidates: list[CandidateScores] = []
    values_of: dict[int, list[HeldOut]] = {}
    contenders: dict[str, list[int]] = {}
    models = [[name for name, systems in problem.candidates.items() if system in systems]
              for system in problem.all_candidates]
    with one_thread():  # around all: contexts of repetitions that take turns would undo one another
        for index, values in enumerate(zip(*(repetition.held_out() for repetition in repetitions), strict=True)):
            system = values[0][0]
            held_out = [HeldOut(problem.target, problem.target.coding, of_labels, repetition.problem.folds, weight)
                        for repetition, (_, of_labels) in zip(repetitions, values, strict=True)]
            shifted = [each.with_prior(LABELS) for each in held_out]
            scored = CandidateScores.of(shifted, tie, rule.scoring, held_out, gamma_A=system.gamma_A,
                                        gamma_I=system.gamma_I)
            candidates.append(replace(scored, scores={**scored.scores, **rule.extra_scores(held_out)}))
            values_of[index] = shifted
            for name in models[index]:
                rivals = [*contenders.get(name, []), index]
                contenders[name] = [rivals[place] for place in sorted(
                    rule.contenders([candidates[rival] for rival in rivals]))]
            for beaten in values_of.keys() - {each for indices in contenders.values() for each in indices}:
                del values_of[beaten]
    return [replace(candidate, all_scores=every_score(values_of[index])) if index in values_of else candidate
            for index, candidate in enumerate(candidates)]

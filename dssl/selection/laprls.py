"""Cross-validation of the penalties of LapRLS: all pairs, and all folds, are columns of one problem.

Where penalties or the bandwidth are "auto", `automatic_folds` chooses the folds and `MostProbable` the values.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ..execution.tasks import Execution
from ..execution.threads import one_thread
from ..graph.spectral_concentration import sampled_concentration
from ..kernels.landmarks import Landmarks
from ..learners.class_prior import LABELS
from ..learners.laprls.params import SystemParams
from ..learners.laprls.penalties import MAX_LABELS, log_priors, log_priors_of_bandwidths
from ..learners.laprls.problem import LapRLSProblem, PreparedLapRLS
from ..learners.linear.gram import training_means
from ..learners.metrics import SQUARED, PointMetric
from ..learners.target.target import Target
from ..storage.blocks import Receipt
from .candidates import LOWEST_ERROR, CandidateScores, SelectionRule, every_score
from .folds import FoldParams
from .held_out_scores import HeldOut

FOLDS = 5  # where each fold is a refit, or labels are many


def automatic_folds(system: SystemParams, n_labeled: int, random_state: int) -> FoldParams:
    """Return the folds: leave-one-out if labels are few and there is a closed form, or else `FOLDS`."""
    has_closed_form = system.solver in ("auto", "nystrom-direct", "direct") and system.held_out != "refit"
    leaves_one_out = has_closed_form and not system.inductive and n_labeled <= MAX_LABELS
    return FoldParams(folds="leave_one_out" if leaves_one_out else FOLDS, random_state=random_state)


def folds_of_labels(target: Target, system: SystemParams, random_state: int) -> list[np.ndarray]:
    """Return the folds; none if each class has one label, so that the prior alone decides."""
    if len(target.labeled) <= target.n_strata:
        return []
    return automatic_folds(system, len(target.labeled), random_state).repeated(target)[0]


@dataclass(frozen=True, kw_only=True)
class MostProbable(SelectionRule):
    """Select the most probable pair of penalties: by its held-out residuals and its prior probability.

    Values are first multiplied by the factor that fits them best, about the mean of the labels if `centered`: larger
    penalties shrink the values, which changes no class.

    priors : gamma_A, gamma_I and the log prior of each pair. of_bandwidths : the log prior of each bandwidth, if there
    are two. n_held_out : the number of held-out labels. n_classes : 0 for quantities, whose variance is the mean
    squared residual. spectral_concentration : that concentration of the graph, where it is known.
    """

    priors: tuple[tuple[float, float, float], ...]
    of_bandwidths: tuple[tuple[float | str | None, float], ...] = ()
    n_held_out: int
    n_classes: int
    centered: bool = True
    spectral_concentration: float | None = None

    @classmethod
    def beside(cls, problem: LapRLSProblem, execution: Execution,
               bandwidths: Sequence[float | str | None]) -> "Callable[[], MostProbable]":
        """Return what returns the rule of `of`, which workers compute beside the tasks that follow.

        In one process it is computed at once, before Gram matrices take memory.
        """
        rule = execution.concurrently(partial(cls.of, problem, execution, bandwidths))
        if not execution.in_workers:
            rule()
        return rule

    @classmethod
    def of(cls, problem: LapRLSProblem, execution: Execution,
           bandwidths: Sequence[float | str | None]) -> "MostProbable":
        """Return the rule of all pairs of a problem; bandwidths : one, or `BANDWIDTHS`.

        The spectral concentration is computed where labels are few and the graph fits in a task.
        """
        target = problem.target
        concentration = None
        if problem.graph is not None and len(target.labeled) <= MAX_LABELS:
            concentration = sampled_concentration(problem.graph, problem.multiplicity, len(problem.rows), 0, execution)
        priors = zip(problem.all_candidates, log_priors(problem.all_candidates, concentration), strict=True)
        of_bandwidths = tuple(zip(bandwidths, log_priors_of_bandwidths(concentration), strict=False))
        return cls(priors=tuple((system.gamma_A, system.gamma_I, float(prior)) for system, prior in priors),
                   of_bandwidths=of_bandwidths if len(bandwidths) > 1 else (),
                   n_held_out=sum(map(len, problem.folds)), n_classes=target.n_strata if target.n_strata > 1 else 0,
                   centered=problem.params.fit_intercept,
                   spectral_concentration=concentration)

    def extra_scores(self, repetitions: Sequence[HeldOut]) -> dict[str, float]:
        held_out, = repetitions
        Y = held_out.target.columns()
        w = held_out.shares[:, None]
        mean = np.zeros_like(Y[held_out.points])
        if self.centered:
            means = training_means(Y, held_out.folds, held_out.weight)
            mean = np.repeat(means, [len(fold) for fold in held_out.folds], axis=0)
        unit = float(np.abs(Y[held_out.points] - mean).max(initial=0.0)) or 1.0  # squares of quantities may overflow
        labels = (Y[held_out.points] - mean) / unit
        values = (held_out.values[held_out.points] - mean) / unit
        product = float((w * labels * values).sum())
        size = float((w * values**2).sum())
        loss = float((w * labels**2).sum()) - (product**2 / size if product > 0 else 0.0)
        return {"scaled_rmse": unit * float(np.sqrt(max(loss, 0.0) / Y.shape[1]))}

    def sort_key(self, candidate: CandidateScores) -> tuple[float, ...]:
        parameters = candidate.parameters
        prior = next(probability for gamma_A, gamma_I, probability in self.priors if (gamma_A, gamma_I) == (
            parameters["gamma_A"], parameters["gamma_I"]))
        prior += next((probability for bandwidth, probability in self.of_bandwidths
                       if bandwidth == parameters.get("bandwidth")), 0.0)
        if not self.n_held_out:
            return (-prior,)
        # Classes are coded as -1 and 1, while the residuals of their frequencies are those of 0 and 1.
        rmse = candidate.scores["scaled_rmse"] or 0.0
        loss = self.n_classes * rmse**2 / 8 if self.n_classes else np.log(max(rmse, 1e-300))
        return (self.n_held_out * float(loss) - prior,)


def without_labels(problem: LapRLSProblem, name: str, rule: SelectionRule) -> dict[str, float]:
    """Return the penalties of a model if no label can be held out: the most probable a priori, or the first given."""
    candidates = [CandidateScores({"gamma_A": system.gamma_A, "gamma_I": system.gamma_I}, {})
                  for system in problem.candidates["model" if name == "shuffled" else name]]
    return dict((rule.select(candidates) if problem.params.chosen else candidates[0]).parameters)


@dataclass(frozen=True, eq=False)
class KernelSearch:
    """The candidates in one kernel with one loss; stored : the attributes of the Gram matrices that are kept."""

    candidates: list[CandidateScores]
    evidence: dict[str, Any]
    stored: dict[str, Any] | None = None

    def to_json(self) -> Receipt:
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

"""The evaluator of candidates in kernels deformed by a graph, for searches over estimators."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...kernels.deformed import Eta
from ...learners.target.target import Target
from ...selection.candidates import CandidateScores
from ...selection.halving import Repetitions
from ...selection.search import CrossValidation, GridParams
from ..step import Context
from .models import DeformedProblem, LearningParams, problem_of, search_grid
from .sections import DeformedKernelParams


@dataclass(frozen=True)
class DeformedCandidate:
    """A candidate of a search: bandwidth, power and eta of the deformed kernel, and the penalty of the learner."""

    bandwidth: float | str | None
    power: int
    eta: Eta
    C: float


@dataclass(frozen=True, eq=False)
class DeformedEvaluator:
    """Evaluates candidates in kernels deformed by one graph, whose solves serve all of them.

    One Cholesky factor serves all folds and C.
    """

    problem: DeformedProblem
    target: Target
    weight: np.ndarray | None
    scoring: str | None

    @classmethod
    def of(cls, context: Context, params: DeformedKernelParams) -> "DeformedEvaluator":
        """Return the evaluator of a search, from the covariance of the graph."""
        target = context.target(params.prior)
        learning = LearningParams(params.learner, params.kernels, (), params.random_state, None, params.prior,
                                  params.weight)
        return cls(problem_of(context, learning), target, context.label_weights(target, params.weight),
                   params.rule.scoring)

    def scores_of(self, candidates: Sequence[DeformedCandidate], folds: Repetitions) -> list[CandidateScores]:
        """Return the scores of each candidate, with C as their parameter; eta 0 is the base kernel alone."""
        validation = CrossValidation(self.target, folds, self.problem.learning.kind, self.weight, self.scoring,
                                     random_state=self.problem.learning.random_state)
        scored = dict[DeformedCandidate, CandidateScores]()
        for bandwidth in dict.fromkeys(each.bandwidth for each in candidates):
            of_kernel = [each for each in candidates if each.bandwidth == bandwidth]
            power, eta, C = (tuple(dict.fromkeys(getattr(each, name) for each in of_kernel))
                             for name in ("power", "eta", "C"))
            if positive := tuple(value for value in eta if value != 0):
                grid = GridParams(power=power, eta=positive, C=C)
                scored |= {DeformedCandidate(**each.parameters): each
                           for each in search_grid(self.problem, "model", bandwidth, grid, validation)}
            if 0 in eta:
                plain = search_grid(self.problem, "base", bandwidth, GridParams(C=C), validation)
                scored |= {DeformedCandidate(bandwidth, each, 0.0, base.parameters["C"]): base
                           for each in power for base in plain}
        return [replace(scored[each], parameters={"C": each.C}) for each in candidates]

    def evaluate(self, candidates: Sequence[DeformedKernelParams], folds: Repetitions) -> list[CandidateScores]:
        return self.scores_of([DeformedCandidate(p.kernels.bandwidths[0], p.regularizer.power, p.eta, p.C)
                               for p in candidates], folds)


def with_powers(candidates: Sequence[DeformedKernelParams]) -> DeformedKernelParams:
    """Return parameters with the powers of all candidates, which share one chain of solves."""
    powers = {power for params in candidates for power in params.powers}
    return replace(candidates[0], grid=GridParams(power=tuple(sorted(powers))))

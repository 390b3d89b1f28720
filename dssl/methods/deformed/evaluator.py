"""What evaluates candidates in kernels that a graph has deformed, for searches over estimators."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...kernels.deformed import Eta
from ...learners.target.target import Target
from ...selection.halving import Repetitions
from ...selection.search import GridParams, Held
from ..step import Context
from .models import DeformedProblem, LearningParams, problem_of, search_rows
from .sections import DeformedKernelParams


@dataclass(frozen=True)
class DeformedCandidate:
    """A candidate of a search: a base kernel, how the graph deforms it, and the penalty of the learner."""

    bandwidth: float | str | None
    power: int
    eta: Eta
    C: float


@dataclass(frozen=True, eq=False)
class DeformedEvaluator:
    """What evaluates candidates in kernels that one graph has deformed: its solves serve all kernels.

    One factor of a kernel serves all folds and C.
    """

    problem: DeformedProblem
    target: Target
    weight: np.ndarray | None
    scoring: str | None

    @classmethod
    def of(cls, context: Context, params: DeformedKernelParams) -> "DeformedEvaluator":
        """Return that of a search, from the covariance of the graph."""
        target = context.target(params.prior)
        learning = LearningParams(params.learner, params.kernels, (), params.random_state, None, params.prior,
                                  params.weight)
        return cls(problem_of(context, learning), target, context.label_weights(target, params.weight),
                   params.rule.scoring)

    def rows_of(self, candidates: Sequence[DeformedCandidate], folds: Repetitions) -> list[dict[str, Any]]:
        """Return the row of each candidate, without what it has of power and eta; eta 0 is the base kernel alone."""
        held = Held(self.target, folds, self.problem.learning.kind, self.weight, self.scoring)
        rows = dict[DeformedCandidate, dict[str, Any]]()
        for bandwidth in dict.fromkeys(each.bandwidth for each in candidates):
            of_kernel = [each for each in candidates if each.bandwidth == bandwidth]
            power, eta, C = (tuple(dict.fromkeys(getattr(each, name) for each in of_kernel))
                             for name in ("power", "eta", "C"))
            if positive := tuple(value for value in eta if value != 0):
                grid = GridParams(power=power, eta=positive, C=C)
                rows |= {DeformedCandidate(bandwidth, row["power"], row["eta"], row["C"]): row
                         for row in search_rows(self.problem, "model", bandwidth, grid, held)}
            if 0 in eta:
                plain = search_rows(self.problem, "base", bandwidth, GridParams(C=C), held)
                rows |= {DeformedCandidate(bandwidth, each, 0.0, row["C"]): row for each in power for row in plain}
        return [{name: value for name, value in rows[each].items() if name not in ("power", "eta")}
                for each in candidates]

    def rows(self, candidates: Sequence[DeformedKernelParams], folds: Repetitions) -> list[dict[str, Any]]:
        return self.rows_of([DeformedCandidate(p.kernels.bandwidths[0], p.regularizer.power, p.eta, p.C)
                             for p in candidates], folds)


def with_powers(candidates: Sequence[DeformedKernelParams]) -> DeformedKernelParams:
    """Return parameters with the powers of all candidates, since one chain of solves serves them."""
    powers = {power for params in candidates for power in params.powers}
    return replace(candidates[0], grid=GridParams(power=tuple(sorted(powers))))

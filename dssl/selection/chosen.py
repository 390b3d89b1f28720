"""The penalties and the bandwidth of LapRLS that are "chosen": how labels are held out, and which are taken."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..execution.tasks import Execution
from ..graph.spectral_concentration import sampled_concentration
from ..learners.held_out.closed_form import kept_means
from ..learners.laprls.params import SystemParams
from ..learners.laprls.penalties import MOST_LABELS, log_priors, log_priors_of_bandwidths
from ..learners.laprls.problem import LapRLSProblem
from ..learners.target.target import Target
from .choice import ChoiceRule
from .folds import FoldParams
from .held_out_scores import HeldOut

FOLDS = 5  # where each fold is a refit, or labels are many


def chosen_folds(system: SystemParams, n_labeled: int, random_state: int) -> FoldParams:
    """Return how labels are held out: each alone where they are few and a closed form serves all, or else in folds."""
    at_once = system.solver in ("auto", "nystrom-direct", "direct") and system.held_out != "refit"
    alone = at_once and not system.inductive and n_labeled <= MOST_LABELS
    return FoldParams(folds="leave_one_out" if alone else FOLDS, random_state=random_state)


def folds_to_choose(target: Target, system: SystemParams, random_state: int) -> list[np.ndarray]:
    """Return the folds; none where no class has a label left when one is held out, and the graph alone decides."""
    if len(target.labeled) <= target.n_strata:
        return []
    return chosen_folds(system, len(target.labeled), random_state).repeated(target)[0]


@dataclass(frozen=True, kw_only=True)
class ProbablePair(ChoiceRule):
    """The most probable pair of penalties in a kernel, by its held-out residuals and what it counts for before them.

    Residuals are those of values times the factor that fits them best, about the mean of the labels if `centered`:
    the larger a penalty, the smaller the values, which changes no class.

    priors : gamma_A, gamma_I and the logarithm of each pair. of_bandwidths : each bandwidth, as rows name it, and the
    logarithm, where there are two. n_held : labels that are held out. n_classes : 0 of
    quantities, whose variance is the mean squared residual. structure : of the graph, where it is known.
    """

    priors: tuple[tuple[float, float, float], ...]
    of_bandwidths: tuple[tuple[float | str, float], ...] = ()
    n_held: int
    n_classes: int
    centered: bool = True
    structure: float | None = None

    @classmethod
    def of(cls, problem: LapRLSProblem, execution: Execution, bandwidths: Sequence[Any]) -> "ProbablePair":
        """Return the rule of all pairs of a problem, with its folds; the structure is asked where labels are few, and
        is not known of a graph that no task can hold.

        bandwidths : those that are tried, one or `BANDWIDTHS`, as rows name them.
        """
        target, structure = problem.target, None
        if problem.graph is not None and len(target.labeled) <= MOST_LABELS:
            structure = sampled_concentration(problem.graph, problem.copies, len(problem.rows), 0, execution)
        priors = zip(problem.tried, log_priors(problem.tried, structure), strict=True)
        of_bandwidths = tuple(zip(bandwidths, log_priors_of_bandwidths(structure), strict=False))
        return cls(priors=tuple((system.gamma_A, system.gamma_I, float(prior)) for system, prior in priors),
                   of_bandwidths=of_bandwidths if len(bandwidths) > 1 else (),
                   n_held=sum(map(len, problem.folds)), n_classes=target.n_strata if target.n_strata > 1 else 0,
                   centered=problem.params.fit_intercept, structure=structure)

    def told(self, held: Sequence[HeldOut]) -> dict[str, float]:
        values, = held
        Y, w = values.target.columns(), values.shares[:, None]
        mean = np.zeros_like(Y[values.points])
        if self.centered:
            mean = np.repeat(kept_means(Y, values.folds, values.weight), [len(fold) for fold in values.folds], axis=0)
        unit = float(np.abs(Y[values.points] - mean).max(initial=0.0)) or 1.0  # squares of quantities may overflow
        wanted, actual = (Y[values.points] - mean) / unit, (values.values[values.points] - mean) / unit
        across, size = float((w * wanted * actual).sum()), float((w * actual**2).sum())
        loss = float((w * wanted**2).sum()) - (across**2 / size if across > 0 else 0.0)
        return {"scaled_rmse": unit * float(np.sqrt(max(loss, 0.0) / Y.shape[1]))}

    def order(self, row: Any) -> tuple[float, ...]:
        prior = next(probability for gamma_A, gamma_I, probability in self.priors if (gamma_A, gamma_I) == (
            row["gamma_A"], row["gamma_I"]))
        prior += next((probability for bandwidth, probability in self.of_bandwidths
                       if bandwidth == row.get("bandwidth")), 0.0)
        if not self.n_held:
            return (-prior,)
        # The columns of classes are coded -1 and 1, and the residuals of the shares are those of 0 and 1.
        rmse = row["scaled_rmse"]
        loss = self.n_classes * rmse**2 / 8 if self.n_classes else np.log(max(rmse, 1e-300))
        return (self.n_held * float(loss) - prior,)

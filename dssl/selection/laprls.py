"""The penalties of LapRLS, chosen by cross-validation: all pairs, and all folds, are columns of one problem."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..execution.tasks import Execution
from ..kernels.base import Kernel
from ..learners.laprls.penalties import Penalties
from ..learners.laprls.problem import FittedLapRLS, LapRLSProblem, PreparedLapRLS
from ..learners.measures import HINGE, SQUARED
from ..learners.smooth_losses import SQUARES
from .scores import held_out_scores
from .search import choose


def search_penalties(prepared: PreparedLapRLS) -> list[dict[str, Any]]:
    """Return a row for each system that may be chosen, in the order of `tried`: its penalties and its measures.

    The problem has folds, and the systems were prepared to hold them out. Errors are weighted as the labels are.
    """
    problem = prepared.problem
    target, tie = problem.target, SQUARED if problem.params.loss == SQUARES else HINGE
    return [{"gamma_A": system.gamma_A, "gamma_I": system.gamma_I, **held_out_scores(
        target, target.coding, values, problem.folds, tie, problem.lines.weight)}
        for system, values in prepared.held_out()]


def choose_penalties(problem: LapRLSProblem,
                     tables: Sequence[Sequence[Mapping[str, Any]]]) -> dict[str, tuple[int, Penalties]]:
    """Return by name the number of the kernel and the system of lowest error, then lowest rmse, then the first.

    tables : of each kernel, as `search_penalties` gives them; an empty one where there is nothing to choose.
    """
    found = {}
    for name in problem.names:
        among = problem.allowed["model" if name == "shuffled" else name]
        rows = [{**row, "number": number, "system": system} for number, table in enumerate(tables)
                for system, row in zip(problem.tried, table, strict=False) if system in among]
        best: Mapping[str, Any] = choose(rows) if rows else {"number": 0, "system": among[0]}
        found[name] = (best["number"], replace(best["system"], control=name == "shuffled"))
    return found


def fit_laprls(problem: LapRLSProblem, kernel: Kernel,
               execution: Execution) -> tuple[FittedLapRLS, list[dict[str, Any]]]:
    """Return the models of a problem in one kernel, those that its names ask for, and the rows of the search."""
    prepared = problem.prepared(kernel, execution, held_out=problem.has_choice)
    rows = search_penalties(prepared) if problem.has_choice else []
    return prepared.fitted({name: system for name, (_, system) in choose_penalties(problem, [rows]).items()}), rows

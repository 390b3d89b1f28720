"""LapRLS: choose landmarks, choose the penalties by cross-validation, solve; the function behind the estimators.

    min over f of  sum over labels of w_i (y_i - f(x_i))^2 + lambda_A |f|_K^2 + lambda_I f' E f

in the paper's scale (equation 2), E the energy of the graph of all points. All folds and penalties are columns of one
problem, for which the kernel is evaluated once.

References
----------
Li, Liu, Yin, Wang, "Approximate manifold regularization", IJCAI 2019.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any, Literal

import numpy as np

from ..blocks import Arrays, Parts, Rows, as_rows
from ..errors import require
from ..execution import Execution
from ..kernels.base import Kernel
from ..kernels.landmarks import LandmarkParams, choose_landmarks, landmark_count
from .laprls_dense import DenseTask
from .laprls_solve import (
    Functions,
    judge,
    method_of,
    require_converged,
    solve_by_products,
    solve_from_gram,
    with_folds,
)
from .laprls_system import LabelLines, NystromSystem, System, SystemParams, assemble, gram_matrices, require_penalties

DENSE = ("pcg", "cg", "direct")


@dataclass(frozen=True, kw_only=True)
class LapRLSParams:
    """Penalties, of which all pairs are tried where there are several, and how the systems are made.

    lambda_A : > 0, of the norm; lambda_I : >= 0, of the graph's energy; 0 is plain (Nystrom) RLS.
    """

    lambda_A: tuple[float, ...] = (0.1,)
    lambda_I: tuple[float, ...] = (0.1,)
    landmarks: LandmarkParams = field(default_factory=LandmarkParams)
    system: SystemParams = field(default_factory=SystemParams)
    laplacian: Literal["normalized", "unnormalized"] = "normalized"
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        for name in ("lambda_A", "lambda_I"):
            values = getattr(self, name)
            require(len(values) > 0 and len(set(values)) == len(values), f"{name}={list(values)}",
                    why="the grid would be empty, or do work twice", fix="give one value, or several that differ")
        for lambda_A, lambda_I in product(self.lambda_A, self.lambda_I):
            require_penalties(lambda_A, lambda_I)

    @property
    def pairs(self) -> list[System]:
        """Return all pairs of penalties."""
        return [System(float(a), float(i)) for a, i in product(self.lambda_A, self.lambda_I)]

    @property
    def uses_graph(self) -> bool:
        return max(self.lambda_I) > 0


@dataclass(frozen=True)
class Fitted:
    """A function `K(x, points) coef + intercept`: coef (s, c), intercept (c,), and its penalties."""

    coef: np.ndarray
    intercept: np.ndarray
    chosen: System


@dataclass(frozen=True)
class FittedLapRLS:
    """Functions by name on common points, the cross-validation's table and the evidence (JSON).

    points : (s, d), the landmarks, or all points for the methods without landmarks.
    """

    points: Any
    functions: dict[str, Fitted]
    table: list[dict[str, float]] = field(default_factory=list)
    evidence: dict[str, Any] = field(default_factory=dict)


class NystromMachine:
    """Solves systems of one problem; Gram matrices, once made, serve all that follow."""

    def __init__(self, system: NystromSystem, expected: Sequence[System], execution: Execution,
                 parts: Parts | None = None):
        self.system, self.execution = system, execution
        self.method, self.costs = method_of(system, expected, execution)
        self.sums: dict[str, np.ndarray] | None = None
        if self.method == "nystrom-direct":
            control = any(item.control and item.lambda_I > 0 for item in expected)
            self.sums = gram_matrices(system, execution, parts or execution.scratch(), points=control, sums=control,
                                      energy=any(item.lambda_I > 0 and not item.control for item in expected))

    def solve(self, systems: Sequence[System]) -> Functions:
        """Return the functions of some systems."""
        if self.sums is not None:
            return solve_from_gram(self.system, self.sums, systems, self.execution)
        return solve_by_products(self.system, systems, self.execution, preconditioned=self.method == "nystrom-pcg")

    def judge(self, systems: Sequence[System], coded: bool) -> dict[str, np.ndarray]:
        """Return how systems with each fold held out do on it, by pair."""
        return judge(self.system, self.solve(systems), systems, coded, self.execution)


class DenseMachine:
    """Solves systems on all points, in one task."""

    def __init__(self, task: DenseTask, execution: Execution):
        self.task, self.execution = task, execution
        self.method, self.costs = task.method, {}  # type: ignore[var-annotated]

    def _run(self, task: DenseTask) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        parts = self.execution.scratch()
        receipt, = self.execution.map([task], parts)
        require_converged(receipt["evidence"], self.task.params)
        return parts.read(0), receipt["evidence"]

    def solve(self, systems: Sequence[System]) -> Functions:
        found, evidence = self._run(replace(self.task, systems=tuple(systems)))
        return Functions(found["coef"], found["intercept"], evidence)

    def judge(self, systems: Sequence[System], coded: bool) -> dict[str, np.ndarray]:
        return self._run(replace(self.task, systems=tuple(systems), judged=True, coded=coded))[0]


def fit_laprls(rows: Rows, lines: LabelLines, kernel: Kernel, graph: Parts | None, params: LapRLSParams,
               execution: Execution, *, vertices: Arrays | None = None, coded: bool,
               names: Sequence[str] = ("model",), parts: Parts | None = None) -> FittedLapRLS:
    """Return LapRLS on distinct points `rows` (v, d), with the baselines that `names` asks for.

    Parameters
    ----------
    lines : labeled points, with their folds. graph : stored weights of `rows`, or None where no lambda_I is positive.
    vertices : Arrays with `multiplicity` (v,), or None. coded : whether targets are +-1 codes of classes.
    names : "model"; "base", the same without the graph, with its own lambda_A; "shuffled", the model with the mean
        of the graph's energy over all relabelings of its vertices. parts : where Gram matrices go.

    Raises
    ------
    NotConverged, BudgetError, ParameterError : as the functions that this one calls.
    """
    plain = [System(float(a), 0.0) for a in params.lambda_A]
    tried = list(dict.fromkeys([*params.pairs, *(plain if "base" in names else [])]))
    several = len(params.pairs) > 1 or ("base" in names and len(plain) > 1)
    final = [*tried, *(replace(pair, control=True) for pair in params.pairs if "shuffled" in names)]
    machine, points, evidence = _machine(rows, lines, kernel, graph, params, execution, vertices, parts, [
        *final, *(with_folds(tried, lines.n_held) if several else [])])
    table: list[dict[str, float]] = []
    if several:
        found = machine.judge(with_folds(tried, lines.n_held), coded)
        table = [{"lambda_A": pair.lambda_A, "lambda_I": pair.lambda_I, "rmse": float(np.sqrt(square)),
                  **({"error": float(wrong)} if coded else {})}
                 for pair, square, wrong in zip(tried, found["squares"], found["wrong"], strict=True)]
    chosen = {"model": _best(tried, table, params.pairs), "base": _best(tried, table, plain)}
    chosen["shuffled"] = replace(chosen["model"], control=True)
    functions = machine.solve([chosen[name] for name in names])
    evidence |= {**functions.evidence, "expected_seconds": machine.costs}
    return FittedLapRLS(points, {
        name: Fitted(functions.coef[index], functions.intercept[index], chosen[name])
        for index, name in enumerate(names)}, table, evidence)


def _best(tried: Sequence[System], table: Sequence[dict[str, float]], allowed: Sequence[System]) -> System:
    """Return the pair of lowest error, then lowest squared error, then the first."""
    if len(allowed) == 1 or not table:
        return allowed[0]
    rows = {pair: (row.get("error", 0.0), row["rmse"]) for pair, row in zip(tried, table, strict=True)}
    return min(allowed, key=lambda pair: rows[pair])


def _machine(rows: Rows, lines: LabelLines, kernel: Kernel, graph: Parts | None, params: LapRLSParams,
             execution: Execution, vertices: Arrays | None, parts: Parts | None,
             expected: Sequence[System]) -> tuple[Any, Any, dict[str, Any]]:
    """Return what solves the systems, the points of its functions, and what is known of both (JSON)."""
    labeled, solver = np.unique(lines.row), params.system.solver
    if solver in DENSE and graph is None:  # the coefficients of the others are zero
        rows = execution.share_rows(as_rows(rows.take(labeled)))
        lines, vertices = replace(lines, row=np.searchsorted(labeled, lines.row)), None
        labeled = np.arange(len(labeled))
    count = landmark_count(params.landmarks, len(labeled), len(rows)) if solver not in ("direct", "cg") else 0
    evidence: dict[str, Any] = {"points": len(rows), "labels": len(lines.row)}
    if solver in DENSE:
        chosen = None
        if solver == "pcg":
            uniform = replace(params.landmarks, method="uniform")
            chosen = choose_landmarks(rows, kernel, count, uniform, execution, labeled).rows
        shared = execution.share(row=lines.row, fold=lines.fold, weight=lines.weight, target=lines.target)
        task = DenseTask(rows, kernel, graph, vertices, params.laplacian, shared, lines.n_held, chosen, (),
                         params.system, solver, params.fit_intercept, execution.memory_budget)
        return DenseMachine(task, execution), rows.read_all(), evidence
    landmarks = choose_landmarks(rows, kernel, count, params.landmarks, execution, labeled)
    system = assemble(rows, lines, kernel, landmarks, graph, params.laplacian, params.system, execution,
                      vertices=vertices, fit_intercept=params.fit_intercept)
    whitening = system.whitening
    evidence |= {
        "landmarks": {"count": system.s, **landmarks.attributes},
        "whitening": None if whitening is None else {
            "cutoff": params.system.cutoff, "rank": whitening.rank, "condition": whitening.condition},
        "blocks": {"count": len(system.blocks.ranges), "rows": system.blocks.block_rows, "halo": system.blocks.halo}}
    return NystromMachine(system, expected, execution, parts), landmarks.points, evidence



"""LapRLS: choose landmarks, choose the penalties by cross-validation, solve; the function behind the estimators.

    min over f of  (1 / sum of w_i) sum over labels of w_i (y_i - f(x_i))^2 + gamma_A |f|_K^2 + gamma_I f' E f / n^2

(`penalties.py`), E the energy of the graph of all n points. All folds and penalties are columns of one problem, for
which the kernel is evaluated once.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any, Literal

import numpy as np

from ...errors import require
from ...execution.tasks import Execution, one_thread
from ...kernels.base import Kernel
from ...kernels.landmarks import LandmarkParams, Landmarks, choose_landmarks, landmark_count
from ...storage.blocks import Arrays, Parts, Rows
from ...storage.csr import as_rows
from ..kernel_model import KernelModel
from ..target import Target
from .dense import DenseTask
from .penalties import PENALTIES, Penalty, Scale, System, require_penalties, with_folds
from .solve import Functions, NystromMachine, require_converged
from .system import LabelLines, SystemParams, assemble

DENSE = ("pcg", "cg", "direct")


@dataclass(frozen=True, kw_only=True)
class LapRLSParams:
    """Penalties, of which all pairs are tried where there are several, and how the systems are made.

    gamma_A : > 0, of the norm; gamma_I : >= 0, of the graph's energy; 0 is plain (Nystrom) RLS. Numbers, "auto" or its
    multiples: see `penalties.py`.
    """

    gamma_A: tuple[Penalty, ...] = ("auto",)
    gamma_I: tuple[Penalty, ...] = ("auto",)
    landmarks: LandmarkParams = field(default_factory=LandmarkParams)
    system: SystemParams = field(default_factory=SystemParams)
    laplacian: Literal["normalized", "unnormalized"] = "normalized"
    fit_intercept: bool = True

    def __post_init__(self) -> None:
        for name in PENALTIES:
            values = getattr(self, name)
            require(len(values) > 0 and len(set(values)) == len(values), f"{name}={list(values)}",
                    why="the grid would be empty, or do work twice", fix="give one value, or several that differ")
        for gamma_A, gamma_I in product(self.gamma_A, self.gamma_I):
            require_penalties(gamma_A, gamma_I)

    @property
    def n_pairs(self) -> int:
        return len(self.gamma_A) * len(self.gamma_I)

    @property
    def uses_graph(self) -> bool:
        return any(value != 0 for value in self.gamma_I)

    def pairs(self, scale: Scale) -> list[System]:
        """Return all pairs of penalties."""
        numbers = ([scale.number(name, value) for value in getattr(self, name)] for name in PENALTIES)
        return [System(gamma_A, gamma_I, scale=scale) for gamma_A, gamma_I in product(*numbers)]


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


@dataclass(frozen=True)
class LapRLSProblem:
    """Points with labels and a graph, before a kernel is chosen; `systems` of each kernel come from `prepared`.

    rows : distinct points (v, d). lines : labeled points, with their folds. graph : stored weights of `rows`, or None
    where no gamma_I is positive. vertices : Arrays with `multiplicity` (v,), or None. coded : whether targets are +-1
    codes of classes.
    names : "model"; "base", the same without the graph, with its own gamma_A; "shuffled", the model with the mean of
    the graph's energy over all relabelings of its vertices.
    """

    rows: Rows
    lines: LabelLines
    graph: Parts | None
    params: LapRLSParams
    vertices: Arrays | None = None
    coded: bool = False
    names: tuple[str, ...] = ("model",)

    @cached_property
    def allowed(self) -> dict[str, list[System]]:
        """Return the systems among which each name has its choice; the control takes the model's."""
        n = len(self.rows) if self.vertices is None else int(self.vertices.load()["multiplicity"].sum())
        scale = Scale(self.lines.kept, n)
        plain = {"base": replace(self.params, gamma_I=(0.0,)).pairs(scale)} if "base" in self.names else {}
        return {"model": self.params.pairs(scale), **plain}

    @property
    def tried(self) -> list[System]:
        """Return all systems that may be chosen, each once."""
        return list(dict.fromkeys(system for systems in self.allowed.values() for system in systems))

    @property
    def has_choice(self) -> bool:
        return any(len(systems) > 1 for systems in self.allowed.values())

    def prepared(self, kernel: Kernel, execution: Execution, *, judged: bool, landmarks: Landmarks | None = None,
                 parts: Parts | None = None) -> "PreparedLapRLS":
        """Return the systems of a kernel, ready to be solved.

        judged : whether folds will be held out. landmarks : those chosen before; None chooses them here.
        parts : where Gram matrices go, scratch by default; finished shares of them are kept.
        """
        shuffled = [replace(pair, control=True) for pair in self.allowed["model"] if "shuffled" in self.names]
        expected = [*self.tried, *shuffled, *(with_folds(self.tried, self.lines.n_held) if judged else [])]
        begin = time.perf_counter()
        with one_thread():
            machine, points, evidence = _machine(self, kernel, landmarks, expected, execution, parts)
        seconds = {"prepare": round(time.perf_counter() - begin, 3)}
        return PreparedLapRLS(self, machine, points, {**evidence, "method": machine.method, "seconds": seconds})


@dataclass(frozen=True)
class PreparedLapRLS:
    """What solves the systems of a problem in one kernel; evidence (JSON), with the seconds of each step.

    points : those of its functions, the landmarks, or all points for the methods without landmarks.
    """

    problem: LapRLSProblem
    machine: Any
    points: Any
    evidence: dict[str, Any]

    def judged(self) -> list[dict[str, float]]:
        """Return the table of cross-validation: a line a system that may be chosen, in the order of `tried`."""
        begin, tried, coded = time.perf_counter(), self.problem.tried, self.problem.coded
        with one_thread():
            found = self.machine.judge(with_folds(tried, self.problem.lines.n_held), coded)
        self.evidence["seconds"]["cross_validation"] = round(time.perf_counter() - begin, 3)
        return [{"gamma_A": system.gamma_A, "gamma_I": system.gamma_I, "rmse": float(np.sqrt(square)),
                 **({"error": float(wrong)} if coded else {})}
                for system, square, wrong in zip(tried, found["squares"], found["wrong"], strict=True)]

    def fitted(self, chosen: dict[str, System], table: list[dict[str, float]] | None = None) -> FittedLapRLS:
        """Return the functions of the chosen systems by name."""
        begin = time.perf_counter()
        with one_thread():
            functions = self.machine.solve(list(chosen.values()))
        self.evidence["seconds"]["solve"] = round(time.perf_counter() - begin, 3)
        evidence = {**self.evidence, **functions.evidence, "expected_seconds": self.machine.costs}
        return FittedLapRLS(self.points, {
            name: Fitted(functions.coef[index], functions.intercept[index], system)
            for index, (name, system) in enumerate(chosen.items())}, table or [], evidence)


def fit_laprls(rows: Rows, lines: LabelLines, kernel: Kernel, graph: Parts | None, params: LapRLSParams,
               execution: Execution, *, vertices: Arrays | None = None, coded: bool,
               names: Sequence[str] = ("model",), parts: Parts | None = None) -> FittedLapRLS:
    """Return LapRLS on distinct points `rows` (v, d), with the baselines that `names` asks for, in one kernel.

    Parameters as in `LapRLSProblem`; parts : where Gram matrices go.

    Raises
    ------
    NotConverged, BudgetError, ParameterError : as the functions that this one calls.
    """
    problem = LapRLSProblem(rows, lines, graph, params, vertices, coded, tuple(names))
    prepared = problem.prepared(kernel, execution, judged=problem.has_choice, parts=parts)
    table = prepared.judged() if problem.has_choice else []
    return prepared.fitted({name: chosen for name, (_, chosen) in choose(problem, [table]).items()}, table)


def choose(problem: LapRLSProblem, tables: Sequence[Sequence[dict[str, float]]]) -> dict[str, tuple[int, System]]:
    """Return by name the number of the kernel and the system of lowest error, then lowest rmse, then the first.

    tables : of each kernel, as `PreparedLapRLS.judged` gives them; an empty one where there is nothing to choose.
    """
    tried, allowed = problem.tried, problem.allowed
    found = {}
    for name in problem.names:
        among = allowed["model" if name == "shuffled" else name]
        lines = [((row.get("error", 0.0), row["rmse"]), number, system) for number, table in enumerate(tables)
                 for system, row in zip(tried, table, strict=False) if system in among]
        number, system = min(lines, key=lambda line: line[0])[1:] if lines else (0, among[0])
        found[name] = (number, replace(system, control=name == "shuffled"))
    return found


def laprls_model(found: FittedLapRLS, name: str, kernel: Kernel, target: Target,
                 attributes: dict[str, Any] | None = None) -> KernelModel:
    """Return a fitted function as a model, with a column for each class."""
    own = found.functions[name]
    coef, intercept = target.coding.completed(own.coef, own.intercept)
    return KernelModel(kernel, found.points, coef, intercept, target.coding, attributes or {})


def landmarks_of(rows: Rows, kernel: Kernel, params: LapRLSParams, labeled: np.ndarray,
                 execution: Execution) -> Landmarks | None:
    """Return the landmarks that the parameters ask for, of distinct points of which some are labeled (row numbers).

    None for "direct" and "cg", which have none; those that precondition "pcg" are uniform.
    """
    solver = params.system.solver
    if solver in ("direct", "cg"):
        return None
    own = replace(params.landmarks, method="uniform") if solver == "pcg" else params.landmarks
    return choose_landmarks(rows, kernel, landmark_count(own, len(labeled), len(rows)), own, execution, labeled)


def _machine(problem: LapRLSProblem, kernel: Kernel, landmarks: Landmarks | None, expected: Sequence[System],
             execution: Execution, parts: Parts | None) -> tuple[Any, Any, dict[str, Any]]:
    """Return what solves the systems, the points of its functions, and what is known of both (JSON)."""
    rows, lines, vertices, params = problem.rows, problem.lines, problem.vertices, problem.params
    labeled, solver = np.unique(lines.row), params.system.solver
    if solver in DENSE and problem.graph is None:  # the coefficients of the others are zero
        rows = execution.share_rows(as_rows(rows.take(labeled)))
        lines, vertices, landmarks = replace(lines, row=np.searchsorted(labeled, lines.row)), None, None
        labeled = np.arange(len(labeled))
    landmarks = landmarks or landmarks_of(rows, kernel, params, labeled, execution)
    evidence: dict[str, Any] = {"points": len(rows), "labels": len(lines.row)}
    if solver in DENSE:
        chosen = None if landmarks is None else landmarks.rows
        shared = execution.share(row=lines.row, fold=lines.fold, weight=lines.weight, target=lines.target)
        task = DenseTask(rows, kernel, problem.graph, vertices, params.laplacian, shared, lines.n_held, chosen, (),
                         params.system, solver, params.fit_intercept, execution.memory_budget)
        return DenseMachine(task, execution), rows.read_all(), evidence
    assert landmarks is not None
    system = assemble(rows, lines, kernel, landmarks, problem.graph, params.laplacian, params.system, execution,
                      vertices=vertices, fit_intercept=params.fit_intercept)
    whitening = system.whitening
    evidence |= {
        "landmarks": {"count": system.s, **landmarks.attributes},
        "whitening": None if whitening is None else {
            "cutoff": params.system.cutoff, "rank": whitening.rank, "condition": whitening.condition},
        "blocks": {"count": len(system.blocks.ranges), "rows": system.blocks.block_rows, "halo": system.blocks.halo}}
    return NystromMachine(system, expected, execution, parts), landmarks.points, evidence

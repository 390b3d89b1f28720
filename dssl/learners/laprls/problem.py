"""LapRLS: points, labels, a graph and penalties; the systems of a kernel, prepared; and the functions that solve them.

    min over f of  (1 / sum of w_i) sum over labels of w_i (y_i - f(x_i))^2 + gamma_A |f|_K^2 + gamma_I f' E f / n^2

(`penalties.py`), E the energy of the graph of all n points. All folds and penalties are columns of one problem, for
which the kernel is evaluated once. Penalties are chosen in `selection/laprls.py`:

    problem = LapRLSProblem.of(rows, target, params, execution, graph=graph, folds=folds)
    prepared = problem.prepared(kernel, execution, held_out=True)     a pass over the points
    search_penalties(prepared, execution)                             a row for each pair of penalties
    prepared.fitted({"model": penalties})                             the models of chosen penalties
    prepared.to_arrays()                                              what `restored` fits from, without the points
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from ...base.errors import require
from ...execution.cost import largest_within, rank_budget
from ...execution.size import MEMORY_BUDGET
from ...execution.tasks import Execution, one_thread
from ...graph.graph import Graph
from ...graph.vertices import Vertices, distinct_rows
from ...kernels.base import Kernel
from ...kernels.landmarks import LandmarkParams, Landmarks, choose_landmarks, landmark_count
from ...storage.blocks import ArrayRows, Parts, Rows
from ...storage.csr import as_rows
from ..linear.kernel_model import KernelModel
from ..losses import SQUARES, SmoothLoss
from ..target.target import Target
from .dense import DenseTask
from .gram import GramSystem
from .params import LabelLines, SystemParams
from .penalties import PENALTIES, Penalties, Penalty, PenaltyScale, require_penalties, with_folds
from .smooth import SmoothGram, least_loss
from .solve import FromKeptGram, LinearSystem, OnAllPoints, least_squares
from .system import InBlocks, assemble, block_budget

DENSE = ("pcg", "cg", "direct")  # solvers on all points
WITHOUT_LANDMARKS = ("cg", "direct")  # of these


@dataclass(frozen=True, kw_only=True)
class LapRLSParams:
    """Penalties, of which all pairs are tried where there are several, and how the systems are made.

    gamma_A : > 0, of the norm; gamma_I : >= 0, of the graph's energy; 0 is plain (Nystrom) RLS. Numbers, "auto" or its
    multiples: see `penalties.py`. loss : the squared one, or another of `losses.py`: LapSVM. chosen : whether
    the pair, or the kernel's bandwidth, is chosen as `penalties.py` says. budget : bytes by which landmarks are
    counted; it is told, not that of the machine, so that the model is the same wherever it is computed.
    """

    gamma_A: tuple[Penalty, ...] = ("auto",)
    gamma_I: tuple[Penalty, ...] = ("auto",)
    landmarks: LandmarkParams = field(default_factory=LandmarkParams)
    system: SystemParams = field(default_factory=SystemParams)
    fit_intercept: bool = True
    loss: SmoothLoss = SQUARES
    chosen: bool = False
    budget: int = MEMORY_BUDGET

    def __post_init__(self) -> None:
        for name in PENALTIES:
            values = getattr(self, name)
            require(len(values) > 0 and len(set(values)) == len(values), f"{name}={list(values)}",
                    why="the grid would be empty, or do work twice", fix="give one value, or several that differ")
        for gamma_A, gamma_I in product(self.gamma_A, self.gamma_I):
            require_penalties(gamma_A, gamma_I)
        require(self.loss == SQUARES or not self.chosen,
                f"penalties or a bandwidth that are chosen, and loss {self.loss.name}",
                why="they are chosen by squared residuals", fix='use "auto", "0.5*median", numbers, or grids of them')
        require(self.loss == SQUARES or self.system.held_out != "closed_form",
                f'held_out="closed_form" with loss {self.loss.name}', why="it is exact for the squared loss alone",
                fix='use held_out "auto" or "refit"')
        require(self.loss != SQUARES or "influence" not in self.system.held_out,
                f"held_out={self.system.held_out!r} with the squared loss", why="its closed form is exact, and as fast",
                fix='use held_out "auto" or "closed_form"')

    def most_landmarks(self, n: int, row_bytes: int) -> int:
        """Return the landmarks of n points, of so many bytes each, that the budget lets be, with blocks beside them."""
        itemsize = self.system.itemsize
        return largest_within(self.budget, n, lambda s: max(rank_budget(s), block_budget(s, row_bytes, itemsize)))

    @property
    def n_pairs(self) -> int:
        return len(self.gamma_A) * len(self.gamma_I)

    @property
    def uses_graph(self) -> bool:
        return any(value != 0 for value in self.gamma_I)

    def pairs(self, scale: PenaltyScale) -> list[Penalties]:
        """Return all pairs of penalties."""
        numbers = ([scale.number(name, value) for value in getattr(self, name)] for name in PENALTIES)
        return [Penalties(gamma_A, gamma_I, scale=scale) for gamma_A, gamma_I in product(*numbers)]

    def allowed(self, names: Collection[str], scale: PenaltyScale) -> dict[str, list[Penalties]]:
        """Return the penalties among which the model has its choice, and the base if it is named."""
        plain = {"base": replace(self, gamma_I=(0.0,)).pairs(scale)} if "base" in names else {}
        return {"model": self.pairs(scale), **plain}


@dataclass(frozen=True)
class LapRLSProblem:
    """Points with labels and a graph, before a kernel is chosen; `prepared` for each.

    rows : distinct points (v, d). target, lines : the labeled points, and the same by distinct point, with weights and
    folds. graph : stored weights of `rows`, or None where no gamma_I is positive. n_points : with
    copies. copies : (v,), the points that each stands for, or None. order : (v,), the vertex at each place, in which
    neighbors are near, where one is known. folds : positions among the labeled points.
    names : "model"; "base", the same without the graph, with its own gamma_A; "shuffled", the model with the mean of
    the graph's energy over all relabelings of its vertices. among : by name the pairs of penalties, numbers, among
    which it has its choice; None is all. in_blocks : points and energy as the systems of all kernels take them.
    kept : where these are written, and stay until who gave the place removes them; None for scratch.
    """

    rows: Rows
    target: Target
    lines: LabelLines
    graph: Parts | None
    params: LapRLSParams
    n_points: int
    copies: Rows | None = None
    order: Rows | None = None
    folds: Sequence[np.ndarray] = ()
    names: tuple[str, ...] = ("model",)
    among: Mapping[str, Collection[tuple[float, float]]] | None = None
    in_blocks: dict[tuple[int, str], InBlocks] = field(default_factory=dict, repr=False, compare=False)
    kept: Parts | None = None

    @classmethod
    def of(cls, rows: Rows, target: Target, params: LapRLSParams, execution: Execution, *, graph: Graph | None = None,
           vertices: Vertices | None = None, weight: np.ndarray | None = None, folds: Sequence[np.ndarray] = (),
           names: Sequence[str] = ("model",)) -> "LapRLSProblem":
        """Return the problem of all points (n, d).

        graph : of these points; not needed where no gamma_I is positive. vertices : which points are equal, where
        there is no graph that says so. weight : (l,) of the labels, 1 by default.
        """
        points = graph.vertices if graph is not None else vertices or Vertices.distinct(len(rows))
        copies = execution.share_rows(ArrayRows(points.multiplicity)) if points.joined else None
        weight = np.ones(len(target.labeled)) if weight is None else weight
        lines = LabelLines.of(points.vertex[target.labeled], weight, target.columns(), folds)
        return cls(distinct_rows(rows, points, execution), target, lines, None if graph is None else graph.stored,
                   params, len(rows), copies, graph.order if graph is not None else None, folds, tuple(names))

    def with_folds(self, folds: Sequence[np.ndarray]) -> "LapRLSProblem":
        """Return the problem with folds: lists of positions among the labeled points."""
        lines = self.lines
        return replace(self, folds=folds, lines=LabelLines.of(lines.row, lines.weight, lines.target, folds))

    @cached_property
    def allowed(self) -> dict[str, list[Penalties]]:
        """Return the penalties among which each name has its choice; the control takes the model's."""
        n = self.n_points
        inductive = self.params.system.inductive and self.graph is not None
        left = tuple(n - count for count in self.lines.counts) if inductive else ()
        allowed = self.params.allowed(self.names, PenaltyScale(self.lines.weights_without, n, left))
        if self.among is None:
            return allowed
        return {name: [each for each in systems if (each.gamma_A, each.gamma_I) in self.among.get(name, ())]
                for name, systems in allowed.items()}

    @property
    def tried(self) -> list[Penalties]:
        """Return all penalties that may be chosen, each once."""
        return list(dict.fromkeys(system for systems in self.allowed.values() for system in systems))

    @property
    def has_choice(self) -> bool:
        return any(len(systems) > 1 for systems in self.allowed.values())

    def prepared(self, kernel: Kernel, execution: Execution, *, held_out: bool, landmarks: Landmarks | None = None,
                 parts: Parts | None = None) -> "PreparedLapRLS":
        """Return the systems of a kernel, ready to be solved.

        held_out : whether folds will be held out. landmarks : those chosen before; None chooses them here.
        parts : where shares of Gram matrices go, scratch by default; finished ones are kept.
        """
        shuffled = [replace(pair, control=True) for pair in self.allowed["model"] if "shuffled" in self.names]
        expected, held = [*self.tried, *shuffled], self.tried if held_out else []
        begin = time.perf_counter()
        with one_thread():
            solver, points, evidence = _solver(self, kernel, landmarks, expected, held, execution, parts)
        seconds = {"prepare": round(time.perf_counter() - begin, 3)}
        return PreparedLapRLS(self, kernel, solver, points, {**evidence, "method": solver.method, "seconds": seconds})

    def restored(self, kernel: Kernel, execution: Execution, points: Any, arrays: dict[str, np.ndarray],
                 attributes: dict[str, Any]) -> "PreparedLapRLS":
        """Return the systems that `PreparedLapRLS.to_arrays` described, to be solved for all labels.

        points : the landmarks (s, d). Nothing is read of `rows`.
        """
        params = self.params
        gram = GramSystem.from_arrays(arrays, attributes["gram"], self.lines, params.system, params.fit_intercept)
        solver: LinearSystem = FromKeptGram(gram, execution)
        if params.loss != SQUARES:
            solver = SmoothGram(gram, params.loss, execution)
        return PreparedLapRLS(self, kernel, solver, points, dict(attributes["evidence"]))


@dataclass(frozen=True)
class FittedLapRLS:
    """Models, each with a column for each class, and their penalties, by name; and the evidence (JSON)."""

    models: dict[str, KernelModel]
    chosen: dict[str, Penalties]
    evidence: dict[str, Any]


@dataclass(frozen=True)
class PreparedLapRLS:
    """What solves the systems of a problem in one kernel; evidence (JSON), with the seconds of each step.

    points : those of its functions, the landmarks, or all points for the methods without landmarks.
    """

    problem: LapRLSProblem
    kernel: Kernel
    solver: LinearSystem
    points: Any
    evidence: dict[str, Any]

    def refolded(self, folds: Sequence[np.ndarray], execution: Execution,
                 landmarks: Landmarks | None = None) -> "PreparedLapRLS":
        """Return the systems ready to hold out other folds: by the same Gram matrices in closed form, or prepared anew.

        landmarks : as `LapRLSProblem.prepared` was given them.
        """
        problem = self.problem.with_folds(folds)
        solver = self.solver.refolded(problem.lines)
        if solver is None:
            return problem.prepared(self.kernel, execution, held_out=True, landmarks=landmarks)
        return replace(self, problem=problem, solver=solver,
                       evidence={**self.evidence, "seconds": dict(self.evidence["seconds"])})

    def held_out(self) -> Iterator[tuple[Penalties, np.ndarray]]:
        """Yield all penalties that may be chosen, in the order of `tried`, with values (l, c) at the labeled points.

        Each point's are those of a function that did not see its fold, with the point in the graph as an unlabeled
        one, or in none (`held_out_points`, in the evidence too); NaN where a point is never held out.
        """
        begin, tried = time.perf_counter(), iter(self.problem.tried)
        with one_thread():
            for group in self.solver.held_out(with_folds(self.problem.tried, self.problem.lines.n_held)):
                for column in range(group.shape[1]):
                    yield next(tried), group[:, column]
        self.evidence["held_out"] = {"method": self.solver.held_out_method,
                                     "held_out_points": self.problem.params.system.held_out_points}
        self.evidence["seconds"]["cross_validation"] = round(time.perf_counter() - begin, 3)

    def left_out(self, pair: Penalties, folds: Sequence[np.ndarray]) -> np.ndarray:
        """Return the values (l, c) of labeled points by a pair of penalties, each without its fold.

        folds : disjoint lists of positions; of points in none the values are NaN.
        """
        begin, lines = time.perf_counter(), self.problem.with_folds(folds).lines
        scale = pair.scale and replace(pair.scale, weights=lines.weights_without, left=())
        with one_thread():
            values = self.solver.left_out(lines, replace(pair, scale=scale))
        seconds = self.evidence["seconds"]
        seconds["left_out"] = round(seconds.get("left_out", 0.0) + time.perf_counter() - begin, 3)
        return values

    def fitted(self, chosen: dict[str, Penalties]) -> FittedLapRLS:
        """Return the models of the chosen penalties by name."""
        begin, coding = time.perf_counter(), self.problem.target.coding
        with one_thread():
            functions = self.solver.solve(list(chosen.values()))
        self.evidence["seconds"]["solve"] = round(time.perf_counter() - begin, 3)
        models = {name: KernelModel(self.kernel, self.points, *coding.completed(coef, intercept), coding)
                  for name, coef, intercept in zip(chosen, functions.coef, functions.intercept, strict=True)}
        return FittedLapRLS(models, chosen, {**self.evidence, **functions.evidence,
                                             "expected_seconds": dict(self.solver.expected_seconds)})

    def to_arrays(self, *, left_out: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]] | None:
        """Return the arrays and attributes that `LapRLSProblem.restored` takes; None where there is nothing to keep.

        That is where systems are solved without Gram matrices; a later fit prepares them anew. left_out : whether that
        fit will leave labels out, for which the features of labels are kept as well.
        """
        if self.solver.gram is None:
            return None
        arrays, attributes = self.solver.gram.to_arrays()
        features = self.solver.label_features() if left_out else None
        if features is not None:
            arrays["features"] = features
        return arrays, {"gram": attributes, "evidence": self.evidence}


def landmarks_of(rows: Rows, kernel: Kernel, params: LapRLSParams, labeled: np.ndarray,
                 execution: Execution) -> Landmarks | None:
    """Return the landmarks that the parameters ask for, of distinct points of which some are labeled (row numbers).

    None for "direct" and "cg", which have none; those that precondition "pcg" are uniform.
    """
    solver = params.system.solver
    if solver in WITHOUT_LANDMARKS:
        return None
    landmark_params = replace(params.landmarks, method="uniform") if solver == "pcg" else params.landmarks
    count = landmark_count(landmark_params, len(labeled), len(rows), params.most_landmarks(len(rows), rows.row_bytes))
    return choose_landmarks(rows, kernel, count, landmark_params, execution, labeled)


def _solver(problem: LapRLSProblem, kernel: Kernel, landmarks: Landmarks | None, expected: Sequence[Penalties],
            held: Sequence[Penalties], execution: Execution,
            parts: Parts | None) -> tuple[LinearSystem, Any, dict[str, Any]]:
    """Return what solves the systems, the points of its functions, and what is known of both (JSON)."""
    rows, lines, copies, params = problem.rows, problem.lines, problem.copies, problem.params
    labeled, dense = np.unique(lines.row), params.system.solver in DENSE
    if dense and problem.graph is None:  # the coefficients of the others are zero
        rows = execution.share_rows(as_rows(rows.take(labeled)))
        lines, copies, landmarks = replace(lines, row=np.searchsorted(labeled, lines.row)), None, None
        labeled = np.arange(len(labeled))
    landmarks = landmarks or landmarks_of(rows, kernel, params, labeled, execution)
    evidence: dict[str, Any] = {"points": len(rows), "labels": len(lines.row)}
    if dense:
        chosen = None if landmarks is None else landmarks.rows
        shared = execution.share(row=lines.row, fold=lines.fold, weight=lines.weight, target=lines.target)
        task = DenseTask(rows, kernel, problem.graph, copies, params.system.laplacian, shared, lines.n_held, chosen, (),
                         params.system, params.fit_intercept, execution.memory_budget, params.loss)
        return OnAllPoints(task, execution), rows.read_all(), evidence
    assert landmarks is not None
    system = assemble(rows, lines, kernel, landmarks, problem.graph, params.system.laplacian, params.system, execution,
                      copies=copies, order=problem.order, fit_intercept=params.fit_intercept,
                      known=problem.in_blocks, parts=problem.kept)
    blocks = system.blocks
    evidence |= {
        "landmarks": {"count": system.s, **landmarks.attributes},
        "whitening": None if system.whitening is None else {"cutoff": params.system.cutoff, **system.whitening},
        "blocks": {"count": len(blocks.ranges), "rows": blocks.block_rows, "halo": blocks.halo}}
    if params.loss != SQUARES:
        every = [*expected, *with_folds(held, lines.n_held)]
        return least_loss(system, params.loss, every, execution, parts), landmarks.points, evidence
    return least_squares(system, expected, execution, parts, held), landmarks.points, evidence

"""LapRLS and LapSVM: the problem, its systems for a kernel, and the fitted models.

    min over f of  (1 / sum of w_i) sum over labels of w_i (y_i - f(x_i))^2 + gamma_A |f|_K^2 + gamma_I f' E f / n^2

(`penalties.py`), with the energy E of the graph of all n points. The kernel is evaluated once for all folds and
penalties. `selection/laprls.py` selects penalties:

    problem = LapRLSProblem.of(rows, target, params, execution, graph=graph, folds=folds)
    prepared = problem.prepared(kernel, execution, held_out=True)     a pass over the points
    search_penalties(prepared, execution)                             a row for each pair of penalties
    prepared.fitted({"model": penalties})                             the models of selected penalties
    prepared.to_arrays()                                              Gram matrices, from which `restored` fits
"""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import require
from ...base.types import Matrix
from ...base.units import MEMORY_BUDGET
from ...execution.cost import largest_within, rank_budget
from ...execution.tasks import Execution
from ...execution.threads import one_thread
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
from .params import FLOAT32_POINTS, LabelLines, SystemParams
from .penalties import PENALTIES, Penalties, Penalty, PenaltyScale, require_penalties, with_folds
from .smooth import SmoothSolver, smooth_solver
from .solve import DenseSolver, StoredGramSolver, SystemSolver, least_squares_solver
from .system import BlockedPoints, assemble, block_budget

DENSE = ("pcg", "cg", "direct")  # solvers on all points
FLOAT32_GAMMA = 1e-7  # below it directions that float32 drops may matter
WITHOUT_LANDMARKS = ("cg", "direct")  # of these


@dataclass(frozen=True, kw_only=True)
class LapRLSParams:
    """The candidate penalties and the parameters of the systems.

    gamma_A : > 0, of the norm; gamma_I : >= 0, of the graph's energy; 0 is plain (Nystrom) RLS. See `penalties.py`.
    loss : the squared one, or another of `losses.py` for LapSVM. chosen : whether penalties or bandwidth are selected
    by the posterior of `penalties.py`. budget : bytes that limit the landmarks, a parameter of the model and not the
    memory of the machine.
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
                why="they are selected by squared residuals", fix='use "auto", "0.5*median", numbers, or grids of them')
        require(self.loss == SQUARES or self.system.held_out != "closed_form",
                f'held_out="closed_form" with loss {self.loss.name}', why="it is exact for the squared loss alone",
                fix='use held_out "auto" or "refit"')
        require(self.loss != SQUARES or "influence" not in self.system.held_out,
                f"held_out={self.system.held_out!r} with the squared loss", why="its closed form is exact, and as fast",
                fix='use held_out "auto" or "closed_form"')

    def of_points(self, n: int, label_weight: float) -> "LapRLSParams":
        """Return the same with the precision for n distinct points, see `SystemParams.precision`.

        label_weight : of all labels together, which "auto" depends on.
        """
        if self.system.precision != "auto":
            return self
        scale, system = PenaltyScale((label_weight,), n), self.system
        is_coarse = (n >= FLOAT32_POINTS and system.whitening == "auto" and system.tol >= SystemParams.tol
                     and system.solver not in DENSE
                     and all(scale.number("gamma_A", gamma) >= FLOAT32_GAMMA for gamma in self.gamma_A))
        return replace(self, system=replace(system, precision="float32" if is_coarse else "float64"))

    def max_landmarks(self, n: int, row_bytes: int) -> int:
        """Return the number of landmarks of n points that the budget allows, with blocks beside them."""
        itemsize = self.system.itemsize
        return largest_within(self.budget, n, lambda s: max(rank_budget(s), block_budget(s, row_bytes, itemsize)))

    @property
    def n_pairs(self) -> int:
        return len(self.gamma_A) * len(self.gamma_I)

    @property
    def uses_graph(self) -> bool:
        return any(value != 0 for value in self.gamma_I)

    def pairs(self, scale: PenaltyScale) -> list[Penalties]:
        numbers = ([scale.number(name, value) for value in getattr(self, name)] for name in PENALTIES)
        return [Penalties(gamma_A, gamma_I, scale=scale) for gamma_A, gamma_I in product(*numbers)]

    def candidates(self, names: Collection[str], scale: PenaltyScale) -> dict[str, list[Penalties]]:
        """Return the candidate penalties of the model, and of the base if it is among the names."""
        plain = {"base": replace(self, gamma_I=(0.0,)).pairs(scale)} if "base" in names else {}
        return {"model": self.pairs(scale), **plain}


@dataclass(frozen=True)
class LapRLSProblem:
    """Points with labels and a graph, independent of the kernel.

    rows : distinct points (v, d). target, lines : the labels, by point and by row. graph : stored weights of `rows`, or
    None where no gamma_I is positive. n_points : with duplicates. multiplicity : (v,), the duplicates of each row, or
    None. order : (v,), a permutation that puts neighbors near each other, or None. folds : positions among the labels.
    names : "model"; "base", without the graph and with its own gamma_A; "shuffled", with the mean of the graph's energy
    over all relabelings of its vertices. among : the (gamma_A, gamma_I) that each name may select, None for all.
    block_cache : permuted points and energy, shared by all kernels; block_parts : where they are stored, None for
    scratch.
    """

    rows: Rows
    target: Target
    lines: LabelLines
    graph: Parts | None
    params: LapRLSParams
    n_points: int
    multiplicity: Rows | None = None
    order: Rows | None = None
    folds: Sequence[np.ndarray] = ()
    names: tuple[str, ...] = ("model",)
    among: Mapping[str, Collection[tuple[float, float]]] | None = None
    block_cache: dict[tuple[int, str], BlockedPoints] = field(default_factory=dict, repr=False, compare=False)
    block_parts: Parts | None = None

    @classmethod
    def of(cls, rows: Rows, target: Target, params: LapRLSParams, execution: Execution, *, graph: Graph | None = None,
           vertices: Vertices | None = None, weight: np.ndarray | None = None, folds: Sequence[np.ndarray] = (),
           names: Sequence[str] = ("model",)) -> "LapRLSProblem":
        """Return the problem of all points (n, d).

        graph : needed where a gamma_I is positive. vertices : the duplicates, if there is no graph. weight : (l,) of
        the labels, 1 by default.
        """
        points = graph.vertices if graph is not None else vertices or Vertices.distinct(len(rows))
        multiplicity = execution.share_rows(ArrayRows(points.multiplicity)) if points.joined else None
        weight = np.ones(len(target.labeled)) if weight is None else weight
        lines = LabelLines.of(points.vertex[target.labeled], weight, target.columns(), folds)
        distinct = distinct_rows(rows, points, execution)
        params = params.of_points(len(distinct), float(weight.sum()))
        return cls(distinct, target, lines, None if graph is None else graph.stored, params, len(rows), multiplicity,
                   graph.order if graph is not None else None, folds, tuple(names))

    def with_folds(self, folds: Sequence[np.ndarray]) -> "LapRLSProblem":
        lines = self.lines
        return replace(self, folds=folds, lines=LabelLines.of(lines.row, lines.weight, lines.target, folds))

    @cached_property
    def candidates(self) -> dict[str, list[Penalties]]:
        """Return the candidate penalties by name; the control uses those selected for the model."""
        n = self.n_points
        inductive = self.params.system.inductive and self.graph is not None
        remaining = tuple(n - count for count in self.lines.counts) if inductive else ()
        scale = PenaltyScale(self.lines.training_weights, n, remaining)
        candidates = self.params.candidates(self.names, scale)
        if self.among is None:
            return candidates
        return {name: [each for each in systems if (each.gamma_A, each.gamma_I) in self.among.get(name, ())]
                for name, systems in candidates.items()}

    @property
    def all_candidates(self) -> list[Penalties]:
        """Return the distinct candidates of all names."""
        return list(dict.fromkeys(system for systems in self.candidates.values() for system in systems))

    @property
    def has_choice(self) -> bool:
        return any(len(systems) > 1 for systems in self.candidates.values())

    def prepared(self, kernel: Kernel, execution: Execution, *, held_out: bool, landmarks: Landmarks | None = None,
                 parts: Parts | None = None, later: Sequence[np.ndarray] = ()) -> "PreparedLapRLS":
        """Return the systems of a kernel, ready to be solved.

        held_out : whether folds will be held out. landmarks : selected here by default. parts : for the partial sums of
        Gram matrices, scratch by default. later : other folds, for which `held_out_pairs` will be called.
        """
        shuffled = [replace(pair, control=True) for pair in self.candidates["model"] if "shuffled" in self.names]
        expected, validated = [*self.all_candidates, *shuffled], self.all_candidates if held_out else []
        begin = time.perf_counter()
        with one_thread():
            solver, points, evidence = _solver(self, kernel, landmarks, expected, validated, execution, parts,
                                               self.with_folds(later).lines if later else None)
        seconds = {"prepare": round(time.perf_counter() - begin, 3)}
        return PreparedLapRLS(self, kernel, solver, points, {**evidence, "method": solver.method, "seconds": seconds})

    def restored(self, kernel: Kernel, execution: Execution, points: Matrix, arrays: dict[str, np.ndarray],
                 attributes: JsonObject) -> "PreparedLapRLS":
        """Return the systems of all labels from `PreparedLapRLS.to_arrays`, without reading `rows`.

        points : the landmarks (s, d).
        """
        params = self.params
        gram = GramSystem.from_arrays(arrays, attributes["gram"], self.lines, params.system, params.fit_intercept)
        solver: SystemSolver = StoredGramSolver(gram, execution)
        if params.loss != SQUARES:
            solver = SmoothSolver(gram, params.loss, execution)
        return PreparedLapRLS(self, kernel, solver, points, dict(attributes["evidence"]))


@dataclass(frozen=True)
class FittedLapRLS:
    """Models, with a column for each class, and their penalties, by name; and evidence."""

    models: dict[str, KernelModel]
    penalties: dict[str, Penalties]
    evidence: JsonObject


@dataclass(frozen=True)
class PreparedLapRLS:
    """The solver of the systems of a problem in one kernel.

    points : landmarks, or all points for methods without landmarks. evidence : with the seconds of each step.
    """

    problem: LapRLSProblem
    kernel: Kernel
    solver: SystemSolver
    points: Matrix
    evidence: JsonObject

    def with_new_folds(self, folds: Sequence[np.ndarray], execution: Execution,
                 landmarks: Landmarks | None = None) -> "PreparedLapRLS":
        """Return the systems with other folds, prepared anew unless the Gram matrices do not depend on folds.

        landmarks : see `LapRLSProblem.prepared`.
        """
        problem = self.problem.with_folds(folds)
        solver = self.solver.with_new_folds(problem.lines)
        if solver is None:
            return problem.prepared(self.kernel, execution, held_out=True, landmarks=landmarks)
        return replace(self, problem=problem, solver=solver,
                       evidence={**self.evidence, "seconds": dict(self.evidence["seconds"])})

    def held_out(self) -> Iterator[tuple[Penalties, np.ndarray]]:
        """Yield the candidates, in the order of `all_candidates`, with the held-out values (l, c) of the labels.

        NaN for labels that are never held out.
        """
        begin, candidates = time.perf_counter(), iter(self.problem.all_candidates)
        with one_thread():
            n_folds = self.problem.lines.n_held_out_folds
            for group in self.solver.held_out(with_folds(self.problem.all_candidates, n_folds)):
                for column in range(group.shape[1]):
                    yield next(candidates), group[:, column]
        self.evidence["held_out"] = {"method": self.solver.held_out_method,
                                     "held_out_points": self.problem.params.system.held_out_points}
        self.evidence["seconds"]["cross_validation"] = round(time.perf_counter() - begin, 3)

    def held_out_pairs(self, pair: Penalties, repetitions: Sequence[Sequence[np.ndarray]]) -> list[np.ndarray]:
        """Return the held-out values (l, c) of labels by one pair of penalties, for each list of disjoint folds.

        NaN for labels outside the folds.
        """
        begin = time.perf_counter()
        systems: list[tuple[LabelLines, Penalties]] = []
        for folds in repetitions:
            lines = self.problem.with_folds(folds).lines
            scale = pair.scale and replace(pair.scale, weights=lines.training_weights, remaining=())
            systems.append((lines, replace(pair, scale=scale)))
        with one_thread():
            values = self.solver.held_out_pairs(systems)
        seconds = self.evidence["seconds"]
        seconds["held_out"] = round(seconds.get("held_out", 0.0) + time.perf_counter() - begin, 3)
        return values

    def fitted(self, penalties: dict[str, Penalties]) -> FittedLapRLS:
        """Return the models of penalties by name."""
        begin, coding = time.perf_counter(), self.problem.target.coding
        with one_thread():
            functions = self.solver.solve(list(penalties.values()))
        self.evidence["seconds"]["solve"] = round(time.perf_counter() - begin, 3)
        models = {name: KernelModel(self.kernel, self.points, *coding.all_columns(coef, intercept), coding)
                  for name, coef, intercept in zip(penalties, functions.coef, functions.intercept, strict=True)}
        return FittedLapRLS(models, penalties, {**self.evidence, **functions.evidence,
                                                "expected_seconds": dict(self.solver.expected_seconds)})

    def to_arrays(self, *, held_out: bool) -> tuple[dict[str, np.ndarray], JsonObject] | None:
        """Return the arrays and attributes for `LapRLSProblem.restored`, or None for solvers without Gram matrices.

        held_out : whether the later fit computes held-out values, for which the features of labels are stored too.
        """
        if self.solver.gram is None:
            return None
        arrays, attributes = self.solver.gram.to_arrays()
        features = self.solver.label_features() if held_out else None
        if features is not None:
            arrays["features"] = features
        return arrays, {"gram": attributes, "evidence": self.evidence}


def landmarks_of(rows: Rows, kernel: Kernel, params: LapRLSParams, labeled: np.ndarray,
                 execution: Execution) -> Landmarks | None:
    """Return the landmarks of distinct points with `labeled` row numbers; None for the solvers "direct" and "cg".

    The landmarks of the preconditioner of "pcg" are uniform.
    """
    solver = params.system.solver
    if solver in WITHOUT_LANDMARKS:
        return None
    landmark_params = replace(params.landmarks, method="uniform") if solver == "pcg" else params.landmarks
    count = landmark_count(landmark_params, len(labeled), len(rows), params.max_landmarks(len(rows), rows.row_bytes))
    return choose_landmarks(rows, kernel, count, landmark_params, execution, labeled)


def _solver(problem: LapRLSProblem, kernel: Kernel, landmarks: Landmarks | None, expected: Sequence[Penalties],
            held_out: Sequence[Penalties], execution: Execution, parts: Parts | None,
            later: LabelLines | None) -> tuple[SystemSolver, Matrix, JsonObject]:
    """Return the solver of the systems, the points of its functions, and evidence."""
    rows, lines, multiplicity, params = problem.rows, problem.lines, problem.multiplicity, problem.params
    labeled, dense = np.unique(lines.row), params.system.solver in DENSE
    if dense and problem.graph is None:  # the coefficients of the others are zero
        rows = execution.share_rows(as_rows(rows.take(labeled)))
        lines, multiplicity, landmarks = replace(lines, row=np.searchsorted(labeled, lines.row)), None, None
        labeled = np.arange(len(labeled))
    landmarks = landmarks or landmarks_of(rows, kernel, params, labeled, execution)
    evidence: JsonObject = {"points": len(rows), "labels": len(lines.row)}
    if dense:
        shared = execution.share(row=lines.row, fold=lines.fold, weight=lines.weight, target=lines.target)
        task = DenseTask(rows, kernel, problem.graph, multiplicity, params.system.laplacian, shared,
                         lines.n_held_out_folds,
                         None if landmarks is None else landmarks.rows, (), params.system, params.fit_intercept,
                         execution.memory_budget, params.loss)
        return DenseSolver(task, execution), rows.read_all(), evidence
    assert landmarks is not None
    system = assemble(rows, lines, kernel, landmarks, problem.graph, params.system.laplacian, params.system, execution,
                      multiplicity=multiplicity, order=problem.order, fit_intercept=params.fit_intercept,
                      known=problem.block_cache, parts=problem.block_parts)
    blocks = system.blocks
    evidence |= {
        "landmarks": {"count": system.s, **landmarks.attributes},
        "precision": params.system.dtype,
        "whitening": None if system.whitening is None else {"cutoff": params.system.cutoff, **system.whitening},
        "blocks": {"count": len(blocks.ranges), "rows": blocks.block_rows, "halo": blocks.halo}}
    if params.loss != SQUARES:
        all_systems = [*expected, *with_folds(held_out, lines.n_held_out_folds)]
        return smooth_solver(system, params.loss, all_systems, execution, parts), landmarks.points, evidence
    return least_squares_solver(system, expected, execution, parts, held_out, later), landmarks.points, evidence

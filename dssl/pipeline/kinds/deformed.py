"""The kinds `svm` and `ridge`: a learner in the kernel that the graph of all points deforms.

Their stages solve the columns of a subsample once for all labels, kernels and weights of the graph.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np

from ...execution.cost import Cost, cost_of
from ...graph.regularizer import prepare_regularizer, system_cost
from ...graph.regularizer_params import LaplacianKind, RegularizerParams
from ...graph.vertices import covariance_at_points
from ...kernels.structure import SOLVER_ARRAYS, structure_of
from ...kernels.subsample import (
    VECTOR_ARRAYS,
    SolvedColumns,
    columns_cost,
    multiply_factors,
    n_solves,
    product_cost,
    solve_columns,
    solve_evidence,
)
from ...learners.deformed import draw_subsample
from ...methods.step import Context
from ...report.sections.selection import selection_section
from ...report.sections.solver import solver_section
from ...report.words import Baseline, Words
from ...selection.choice import LOWEST, ChoiceRule
from ...selection.folds import FoldParams
from ...selection.halving import ALL, Repetitions, Search, judged_by_rungs
from ...selection.search import VERSIONS, GridParams
from ...solvers.direct import LARGEST
from ...solvers.solve import METHODS, stored_bytes
from ...solvers.solver_params import SolverParams
from ...storage.blocks import PartWriter
from ..dataset import DATASET
from ..facts import Facts
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES, vertices_of
from ..points import LABELS, POINTS
from ..predictions import predictions_with
from ..sample import SAMPLE_OF_GRAPH
from ..scoring import BASE, SCORES, scores_cost
from ..split import SPLIT
from ..stage import Kind, Stage
from .deformed_fit import DeformedProblem, FitTask, LearningParams, SearchTask, fit_cost, n_subsample, search_cost
from .deformed_spec import DeformedSpec
from .specs import SPECS


@dataclass(frozen=True)
class SubsampleParams:
    """How many vertices functions are measured at, and the seed of their draw."""

    size: int
    seed: int


def make_subsample(context: Context, params: SubsampleParams) -> dict[str, Any]:
    """Choose the vertices at which functions are measured, and a training point of each, a labeled one if any is.

    One that grows keeps what was chosen, as far as a random draw of all vertices has so many of the old ones.
    """
    points, rows = vertices_of(context), context.arrays("labels")["labeled"]
    labeled = points.of(rows)
    before, n_before = None, 0
    if context.base is not None:
        before = context.base.parts.read(0, ("vertices",))["vertices"]
        n_before = context.of_base("vertices").attributes["vertices"]
    chosen = draw_subsample(labeled, len(points), params.size, params.seed, before, n_before)
    PartWriter(context.parts, 0).write(subsample=points.rows_of(chosen, rows), vertices=chosen)
    return {"n_subsample": len(chosen), "n_labeled": int(np.isin(chosen, labeled).sum())}


@dataclass(frozen=True)
class RegularizerSystem:
    """The matrix, and the solver of so many columns of it; the powers matter through their number only."""

    laplacian: LaplacianKind
    ridge: float
    n_columns: int
    method: str
    tolerance: float
    max_iterations: int

    @classmethod
    def of(cls, spec: DeformedSpec) -> "RegularizerSystem":
        solver = spec.solver
        return cls(spec.graph.laplacian, spec.graph.ridge, spec.n_columns, solver.method, solver.tolerance,
                   solver.max_iterations)


def make_system(context: Context, params: RegularizerSystem) -> dict[str, Any]:
    """Prepare the solver: scaled matrix, method, eigenvectors or hierarchy."""
    counted = context.attributes("vertices")["largest_multiplicity"] > 1
    copies = context.execution.share(multiplicity=vertices_of(context).multiplicity) if counted else None
    solver = SolverParams(method=params.method, tolerance=params.tolerance,  # type: ignore[arg-type]
                          max_iterations=params.max_iterations)
    regularizer = RegularizerParams(laplacian=params.laplacian, ridge=params.ridge)
    stored, chosen, attributes = prepare_regularizer(context.inputs["graph"].parts, regularizer, params.n_columns,
                                                     solver, context.execution, context.parts, copies)
    return {**attributes, "params": asdict(chosen), "stored_bytes": stored.nbytes}


@dataclass(frozen=True)
class ColumnParams:
    """The powers that are solved for, how many columns at a time, and the form in which they are kept."""

    powers: tuple[int, ...]
    block_columns: int
    form: Literal["energy", "restriction"]

    @classmethod
    def of(cls, spec: DeformedSpec) -> "ColumnParams":
        return cls(spec.powers, spec.solver.block_columns, spec.solver.form)


def _begins(form: str, method: str) -> bool:
    """Return whether solves of a method can begin at columns that were kept in a form."""
    return form == "energy" and METHODS[method].iterates


def make_columns(context: Context, params: ColumnParams) -> dict[str, Any]:
    """Solve the columns of the subsample; those that were solved before vertices were added begin there."""
    system, solved, before = context.attributes("system"), None, None
    solver = SolverParams(**{**system["params"], "block_columns": params.block_columns})
    if context.base is not None and _begins(params.form, solver.method):
        solved = SolvedColumns.of(context.base.parts, params.powers,
                                  context.of_base("system").parts.read(0, VECTOR_ARRAYS), context.execution)
        before = context.of_base("subsample").parts.read(0, ("vertices",))["vertices"]
    receipts = solve_columns(context.inputs["system"].parts.arrays(0), solver, system["n"],
                             context.arrays("subsample")["vertices"], params.powers, context.execution,
                             context.parts, form=params.form, solved=solved, solved_subsample=before)
    return {**solve_evidence(receipts, system["solver"]), "n_blocks": len(receipts)}


def make_covariance(context: Context, params: ColumnParams) -> dict[str, Any]:
    """Multiply the solved columns to Q^+ on the subsample."""
    subsample = context.arrays("subsample")["vertices"]
    found = multiply_factors(context.inputs["columns"].parts, context.attributes("system")["n"], subsample,
                             params.powers, context.execution, context.parts.within("shares"), form=params.form,
                             n_blocks=context.attributes("columns")["n_blocks"])
    system = context.attributes("system")
    solver = context.inputs["system"].parts.read(0, SOLVER_ARRAYS)
    structure = {str(power): structure_of(np.diagonal(A), subsample, solver, system["ridge"], power)
                 for power, A in found.items()}
    m = vertices_of(context).multiplicity[subsample]
    found = {power: covariance_at_points(A, m) for power, A in found.items()}
    PartWriter(context.parts, 0).write(**{f"power{power}": A for power, A in found.items()})
    return {"mean_diagonal": {str(power): float(np.trace(A)) / len(A) for power, A in found.items()},
            "structure": structure}


def _problem(context: Context, learning: LearningParams) -> DeformedProblem:
    """Return what the tasks that search and fit need."""
    graph = learning.subsample_graph
    if graph is not None:
        k = max(1, min(graph.neighbors.n_neighbors, context.attributes("subsample")["n_subsample"] - 1))
        graph = replace(graph, neighbors=replace(graph.neighbors, n_neighbors=k))
    return DeformedProblem(
        points=context.points("train"), covariance=context.inputs["covariance"].parts.arrays(0),
        chosen=context.inputs["subsample"].parts.arrays(0), labels=context.inputs["labels"].parts.arrays(0),
        classes=context.attributes("labels").get("classes"), learning=replace(learning, subsample_graph=graph),
        structure={int(power): own for power, own in context.attributes("covariance")["structure"].items()})


@dataclass(frozen=True)
class SearchParams:
    """The grid and the bandwidths to choose from, the folds and the rule; without a grid, the parameters given."""

    baselines: tuple[str, ...]
    given: dict[str, Any] | None
    learning: LearningParams | None = None
    grid: GridParams | None = None
    bandwidths: tuple[float | str | None, ...] = ()
    cv: FoldParams | None = None
    rule: ChoiceRule = LOWEST
    search: Search = ALL

    @classmethod
    def of(cls, spec: DeformedSpec) -> "SearchParams":
        chosen = spec.selection
        if spec.grid is None or chosen is None:
            return cls(spec.baselines, {"power": spec.graph.power, "eta": spec.model.eta, "C": spec.model.C,
                                        "bandwidth": spec.kernel.bandwidth})
        return cls(spec.baselines, None, LearningParams.of(spec), spec.grid,
                   tuple(kernel.bandwidth for kernel in spec.kernels()), chosen.cv(), chosen.rule(), chosen.searched())


def make_selection(context: Context, params: SearchParams) -> dict[str, Any]:
    """Choose power, eta, bandwidth and C of each model by cross-validation; without a grid, take those given."""
    if params.grid is None or params.learning is None or params.cv is None:
        return {"choices": dict.fromkeys(("model", *params.baselines), params.given), "folds": 0}
    whole, cv = params.grid, params.cv
    problem, repetitions = _problem(context, params.learning), cv.repeated(context.target())
    points = params.search.drawn([(bandwidth, *point) for bandwidth in params.bandwidths
                                  for point in whole.points])
    of_base = list(dict.fromkeys((bandwidth, None, None, C) for bandwidth, _, _, C in points))
    candidates = {name: of_base if name == "base" else points for name in ("model", *params.baselines)
                  if name != "shuffled"}

    def judge(rung: int, standing: Mapping[str, Sequence[Any]], folds: Repetitions) -> dict[str, list[dict[str, Any]]]:
        tasks = [SearchTask(problem, name, bandwidth, grid, cv, sum(map(len, folds)), params.rule.scoring)
                 for name, own in standing.items() for bandwidth in params.bandwidths
                 for grid in whole.parts([point[1:] for point in own if point[0] == bandwidth])]
        receipts = context.execution.map(tasks, context.parts.within(f"rung{rung}"))
        rows = {(receipt["name"], row["bandwidth"], row["power"], row["eta"], row["C"]): row
                for receipt in receipts for row in receipt["grid"]}
        return {name: [rows[name, *point] for point in own] for name, own in standing.items()}

    tables, last = judged_by_rungs(candidates, repetitions, params.search, params.rule, judge)
    choices = {name: params.rule.choose(rows) for name, rows in last.items()}
    # What is dear to score is scored where it was chosen.
    complete = context.execution.map([
        SearchTask(problem, name, row["bandwidth"], whole.at(row), cv, sum(map(len, repetitions)),
                   complete=True) for name, row in choices.items()], context.parts.within("scores"))
    scores = {receipt["name"]: receipt["grid"][0]["scores"] for receipt in complete}
    return {"choices": {**choices, "shuffled": choices["model"]}, "folds": len(repetitions[0]),
            "held_out_points": whole.held_out_points, "search": asdict(params.search),
            "repetitions": cv.repetitions, "rule": asdict(params.rule), "grid": tables, "scores": scores}


def make_models(context: Context, params: LearningParams) -> dict[str, Any]:
    """Fit the model and its baselines."""
    task = FitTask(_problem(context, params), context.attributes("selection")["choices"])
    receipt, = context.execution.map([task], context.parts)
    return {"models": receipt["models"], "by_labels": receipt["by_labels"]}


def _solvers(f: Facts[DeformedSpec]) -> list[str]:
    """Return the solver that is used, or those that may be."""
    method = f.spec.solver.method
    if "system" in f.attributes:
        return [f.attributes["system"]["params"]["method"]]
    if method != "auto":
        return [method]
    if f.vertices <= LARGEST:
        return ["direct"]
    f.estimated.add("solver")
    return ["amg", "deflated"] if f.bound == "most" else ["deflated"]  # first, which takes less


def _system_cost(f: Facts[DeformedSpec]) -> Cost:
    methods, n_columns = _solvers(f), n_subsample(f) * n_solves(f.spec.powers)
    f.estimated.update(*(METHODS[method].stored_guess for method in methods))
    return system_cost(f.vertices, f.nnz, n_columns, methods, guess=f.bound == "most")


def _columns_cost(f: Facts[DeformedSpec]) -> Cost:
    n, nnz, s, guess, found = f.vertices, f.nnz, n_subsample(f), f.bound == "most", []
    for method in _solvers(f):
        if "system" in f.attributes:
            stored = int(f.attributes["system"]["stored_bytes"])
        else:
            stored = stored_bytes(method, n, nnz, s * n_solves(f.spec.powers), guess=guess)
            f.estimated.update(METHODS[method].stored_guess)
        f.estimated.update(METHODS[method].held_guess)
        found.append(columns_cost(n, nnz, s, f.spec.powers, f.spec.solver.block_columns, f.spec.solver.form, method,
                                  stored, f.budget, guess=guess,
                                  started=f.growing is not None and _begins(f.spec.solver.form, method)))
    return f.one_of(found)


def _scores_cost(f: Facts[DeformedSpec]) -> Cost:
    """The points of a model are the subsample and the labeled ones, with a column a pair of classes in an SVM."""
    is_svm = f.spec.model.learner == "svm"
    columns = max(1, f.n_classes * (f.n_classes - 1) // 2) if is_svm else f.n_outputs
    return scores_cost(f, n_subsample(f) + f.n_labeled, columns, 8 if is_svm or f.is_regression else 16)


WORDS = Words(
    model="The learner in the kernel that the graph of all points has reshaped.", changed="kernel that merely changed",
    cause="changed kernel", graph="model.eta", norm="model.C",
    folds="Points of a fold are held out of the subsample too.")
BASELINES = (BASE, Baseline(
    "shuffled", "The control: the model with the vertices of its graph permuted, so the kernel changes as much but "
                "from a graph that knows nothing about the points. A real gain must also beat this one."), Baseline(
    "subsample_graph", "The model with a graph of the subsample alone, which costs almost nothing. What the model "
                       "gains over it is what the many other unlabeled points brought."))
WHOLE_GRAPH = ("use model.kind laprls, which has no task with the whole graph: a solver has; or lower data.points, and "
               "predict the others with the model, or graph.n_neighbors")
STAGES = (
    DATASET, SPLIT, LABELS, POINTS, VERTICES, NEIGHBORS, GRAPH, HEALTH,
    Stage("subsample", VERSIONS["subsample"], ("labels", "vertices"),
          lambda spec: SubsampleParams(spec.n_subsample, spec.subsample.seed), make_subsample,
          lambda f: cost_of(0, 16 * f.n_labeled, 8 * n_subsample(f), 24 * f.n + 16 * n_subsample(f), 24 * f.n),
          "lower data.points", grows=True),
    Stage("system", VERSIONS["system"], ("vertices", "graph"), RegularizerSystem.of, make_system, _system_cost,
          WHOLE_GRAPH, intermediate=True),
    Stage("columns", VERSIONS["columns"], ("system", "subsample"), ColumnParams.of, make_columns, _columns_cost,
          WHOLE_GRAPH, intermediate=True, grows=True),
    Stage("covariance", VERSIONS["covariance"], ("vertices", "system", "subsample", "columns"), ColumnParams.of,
          make_covariance,
          lambda f: product_cost(f.vertices, f.nnz, n_subsample(f), f.spec.powers, f.spec.solver.block_columns,
                                 f.spec.solver.form, f.budget), "lower subsample.size", section=solver_section),
    Stage("selection", VERSIONS["selection"], ("points", "labels", "subsample", "covariance"), SearchParams.of,
          make_selection, search_cost, "lower subsample.size", section=partial(selection_section, words=WORDS),
          leads=True),
    Stage("models", 10, ("split", "points", "labels", "subsample", "covariance", "selection"), LearningParams.of,
          make_models, fit_cost, "lower subsample.size"),
    SAMPLE_OF_GRAPH, predictions_with(_scores_cost),
    replace(SCORES, cost=_scores_cost, remedy="lower subsample.size or labels"),
)

SVM = Kind.of(SPECS["svm"], STAGES, words=WORDS, baselines=BASELINES)
RIDGE = Kind.of(SPECS["ridge"], STAGES, words=WORDS, baselines=BASELINES)

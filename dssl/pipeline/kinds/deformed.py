"""The kinds `svm` and `ridge`: a learner in the kernel that the graph of all points deforms.

Their stages solve the columns of a subsample once for all labels, kernels and weights of the graph.
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ...graph.regularizer import RegularizerParams, prepare_regularizer
from ...graph.vertices import covariance_at_points
from ...kernels.deformed import check_eta
from ...kernels.subsample import multiply_factors, solve_columns, solve_evidence
from ...learners.deformed import draw_subsample
from ...learners.ridge_and_svm import LearnerParams
from ...report.sections.selection import selection_section
from ...report.sections.solver import solver_section
from ...report.words import Baseline, Words
from ...selection.search import GridParams, choose
from ...solvers.solve import SolverParams
from ...storage.blocks import PartWriter
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES, vertices_of
from ..points import DATASET, LABELS, POINTS, SPLIT
from ..scoring import BASE, SCORES
from ..spec import GraphSpec, LabelSpec, ModelSpec, Section, SelectionSpec, Spec
from ..stage import Context, Kind, Stage
from . import deformed_costs as costs
from .deformed_fit import DeformedProblem, FitTask, SearchTask, SubsampleGraph

# The spec


class RegularizedGraph(GraphSpec):
    """The neighbor graph of all training points, and the regularizer Q = (L + ridge I)^power it makes."""

    ridge: float = 0.01
    power: int = 2

    def regularizer(self) -> RegularizerParams:
        """Return the regularizer's parameters."""
        return RegularizerParams(laplacian=self.laplacian, ridge=self.ridge, power=self.power)


class SubsampleSpec(Section):
    """The points at which functions are measured: the labeled ones, as many as fit, and a random draw of the others."""

    size: int = Field(default=1000, ge=1)
    seed: int = Field(default=0, ge=0)


class SolverSpec(Section):
    """How the columns of the subsample are solved."""

    method: Literal["auto", "jacobi", "deflated", "amg", "direct"] = "auto"
    tolerance: float = 1e-6
    max_iterations: int = 3000
    block_columns: int = 64
    form: Literal["energy", "restriction"] = "energy"

    def params(self) -> SolverParams:
        """Return the solver's parameters."""
        return SolverParams(method=self.method, tolerance=self.tolerance, max_iterations=self.max_iterations,
                            block_columns=self.block_columns)


class LearnerSpec(ModelSpec):
    """The learner in the deformed kernel; eta 0 is the base kernel."""

    kind: Literal["svm", "ridge"]
    C: float = 10.0
    eta: float = Field(default=10.0, ge=0, allow_inf_nan=False)

    def params(self) -> LearnerParams:
        """Return the learner's parameters."""
        check_eta(self.eta)
        return LearnerParams(kind=self.kind, C=self.C)


class SvmSpec(LearnerSpec):
    """A support vector machine in the deformed kernel."""

    kind: Literal["svm"] = "svm"


class RidgeSpec(LearnerSpec):
    """Ridge regression in the deformed kernel, of classes or quantities."""

    kind: Literal["ridge"]


class GridSpec(SelectionSpec):
    """Parameters chosen by cross-validation: power and eta of the deformed kernels, C of their learners, bandwidth.

    The model and the baselines base and subsample_graph each choose their own, the shuffled control takes the model's.
    """

    power: list[int] | None = Field(None, min_length=1)
    eta: list[float] | None = Field(None, min_length=1)
    C: list[float] | None = Field(None, min_length=1)


class DeformedSpec(Spec):
    """A pipeline of a learner in a deformed kernel."""

    labels: LabelSpec
    graph: RegularizedGraph = RegularizedGraph()
    subsample: SubsampleSpec = SubsampleSpec()
    solver: SolverSpec = SolverSpec()
    model: LearnerSpec
    selection: GridSpec | None = None
    baselines: tuple[Literal["base", "shuffled", "subsample_graph"], ...] = ("base", "shuffled")

    @model_validator(mode="after")
    def _baselines_can_be_made(self) -> "DeformedSpec":
        if not {"base", "shuffled"} <= set(self.baselines):
            raise ValueError("baselines always holds base and shuffled; subsample_graph may be added")
        if "subsample_graph" in self.baselines and self.subsample.size < 2:
            raise ValueError("subsample_graph takes two points: subsample.size is at least 2 then")
        return self

    @property
    def grid(self) -> GridParams | None:
        """Return the grid of the selection, or None where there is none."""
        chosen, model = self.selection, self.model
        if chosen is None:
            return None
        return GridParams(power=tuple(chosen.power or [self.graph.power]), eta=tuple(chosen.eta or [model.eta]),
                          C=tuple(chosen.C or [model.C]), folds=chosen.folds, seed=chosen.seed)

    @property
    def powers(self) -> tuple[int, ...]:
        """Return the powers of the regularizer that are solved for, ascending."""
        return tuple(sorted(self.grid.power)) if self.grid else (self.graph.power,)

    @property
    def n_columns(self) -> int:
        """Return how many columns are solved: a chain of solves for each point of the subsample."""
        return self.subsample.size * ((max(self.powers) + 1) // 2)

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "graph", self.graph.regularizer
        yield "solver", self.solver.params
        yield "model", self.model.params
        yield "selection", lambda: self.grid


class SvmPipeline(DeformedSpec):
    """A pipeline of a support vector machine in a deformed kernel."""

    model: SvmSpec = SvmSpec()


class RidgePipeline(DeformedSpec):
    """A pipeline of ridge regression in a deformed kernel."""

    model: RidgeSpec


# The stages


@dataclass(frozen=True)
class SubsampleParams:
    """How many vertices functions are measured at, and the seed of their draw."""

    size: int
    seed: int


def make_subsample(context: Context, params: SubsampleParams) -> dict[str, Any]:
    """Choose the vertices at which functions are measured, and a training point of each, a labeled one if any is."""
    points, rows = vertices_of(context), context.arrays("labels")["labeled"]
    labeled = points.of(rows)
    chosen = draw_subsample(labeled, len(points), params.size, params.seed)
    PartWriter(context.parts, 0).write(subsample=points.rows_of(chosen, rows), vertices=chosen)
    return {"n_subsample": len(chosen), "n_labeled": int(np.isin(chosen, labeled).sum())}


@dataclass(frozen=True)
class SystemParams:
    """The matrix, and the solver of so many columns of it; the powers matter through their number only."""

    laplacian: Literal["normalized", "unnormalized"]
    ridge: float
    n_columns: int
    method: str
    tolerance: float
    max_iterations: int

    @classmethod
    def of(cls, spec: DeformedSpec) -> "SystemParams":
        solver = spec.solver
        return cls(spec.graph.laplacian, spec.graph.ridge, spec.n_columns, solver.method, solver.tolerance,
                   solver.max_iterations)


def make_system(context: Context, params: SystemParams) -> dict[str, Any]:
    """Prepare the solver: scaled matrix, method, eigenvectors or hierarchy."""
    counted = context.attributes("vertices")["largest_multiplicity"] > 1
    copies = context.inputs["vertices"].parts.arrays(0) if counted else None
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


def make_columns(context: Context, params: ColumnParams) -> dict[str, Any]:
    """Solve the columns of the subsample."""
    system = context.attributes("system")
    solver = SolverParams(**{**system["params"], "block_columns": params.block_columns})
    receipts = solve_columns(context.inputs["system"].parts.arrays(0), solver, system["n"],
                             context.arrays("subsample")["vertices"], params.powers, context.execution,
                             context.parts, form=params.form, progress=context.progress)
    return {**solve_evidence(receipts, system["solver"]), "n_blocks": len(receipts)}


def make_covariance(context: Context, params: ColumnParams) -> dict[str, Any]:
    """Multiply the solved columns to Q^+ on the subsample."""
    subsample = context.arrays("subsample")["vertices"]
    found = multiply_factors(context.inputs["columns"].parts, context.attributes("system")["n"], subsample,
                             params.powers, context.execution, context.parts.within("shares"), form=params.form,
                             n_blocks=context.attributes("columns")["n_blocks"], progress=context.progress)
    m = vertices_of(context).multiplicity[subsample]
    found = {power: covariance_at_points(A, m) for power, A in found.items()}
    PartWriter(context.parts, 0).write(**{f"power{power}": A for power, A in found.items()})
    return {"mean_diagonal": {str(power): float(np.trace(A)) / len(A) for power, A in found.items()}}


@dataclass(frozen=True)
class LearningParams:
    """What the model and its baselines have in common; subsample_graph : of that baseline, where it is asked for."""

    kind: Literal["svm", "ridge"]
    kernel: str
    parameters: dict[str, int | float]
    baselines: tuple[str, ...]
    seed: int
    subsample_graph: SubsampleGraph | None

    @classmethod
    def of(cls, spec: DeformedSpec) -> "LearningParams":
        graph = SubsampleGraph(spec.graph.neighbors(), spec.graph.weighting(), spec.graph.regularizer())
        return cls(spec.model.kind, spec.kernel.name, spec.kernel.parameters, spec.baselines,
                   spec.subsample.seed, graph if "subsample_graph" in spec.baselines else None)

    def problem(self, context: Context) -> DeformedProblem:
        """Return what the tasks that search and fit need."""
        graph = self.subsample_graph
        if graph is not None:
            k = max(1, min(graph.neighbors.n_neighbors, context.attributes("subsample")["n_subsample"] - 1))
            graph = replace(graph, neighbors=replace(graph.neighbors, n_neighbors=k))
        return DeformedProblem(
            points=context.points("train"), covariance=context.inputs["covariance"].parts.arrays(0),
            chosen=context.inputs["subsample"].parts.arrays(0), labels=context.inputs["labels"].parts.arrays(0),
            classes=context.attributes("labels").get("classes"), kernel=self.kernel, parameters=self.parameters,
            kind=self.kind, seed=self.seed, subsample_graph=graph)


@dataclass(frozen=True)
class SearchParams:
    """The grid and the bandwidths to choose from; without a grid, the parameters that are given."""

    baselines: tuple[str, ...]
    given: dict[str, Any] | None
    learning: LearningParams | None = None
    grid: GridParams | None = None
    bandwidths: tuple[float | str | None, ...] = ()

    @classmethod
    def of(cls, spec: DeformedSpec) -> "SearchParams":
        if spec.grid is None:
            return cls(spec.baselines, {"power": spec.graph.power, "eta": spec.model.eta, "C": spec.model.C,
                                               "bandwidth": spec.kernel.bandwidth})
        return cls(spec.baselines, None, LearningParams.of(spec), spec.grid,
                   tuple(kernel.bandwidth for kernel in spec.kernels()))


def make_selection(context: Context, params: SearchParams) -> dict[str, Any]:
    """Choose power, eta, bandwidth and C of each model by cross-validation; without a grid, take those given."""
    if params.grid is None or params.learning is None:
        return {"choices": dict.fromkeys(("model", *params.baselines), params.given), "folds": 0}
    searched = tuple(name for name in ("model", *params.baselines) if name != "shuffled")
    problem = params.learning.problem(context)
    tasks = [SearchTask(problem, name, bandwidth, params.grid) for name in searched
             for bandwidth in params.bandwidths]
    receipts = context.execution.map(tasks, context.parts, context.progress)
    tables = {name: [row for receipt in receipts if receipt["name"] == name for row in receipt["grid"]]
              for name in searched}
    choices = {name: choose(rows) for name, rows in tables.items()}
    return {"choices": {**choices, "shuffled": choices["model"]}, "folds": receipts[0]["folds"], "grid": tables}


def make_models(context: Context, params: LearningParams) -> dict[str, Any]:
    """Fit the model and its baselines."""
    task = FitTask(params.problem(context), ("model", *params.baselines), context.attributes("selection")["choices"])
    receipt, = context.execution.map([task], context.parts)
    return {"models": receipt["models"]}


WORDS = Words(
    model="The learner in the kernel that the graph of all points has reshaped.", changed="kernel that merely changed",
    cause="changed kernel", graph="model.eta", norm="model.C",
    folds="Points of a fold are held out of the subsample too.")
BASELINES = (BASE, Baseline(
    "shuffled", "The control: the model with the vertices of its graph permuted, so the kernel changes as much but "
                "from a graph that knows nothing about the points. A real gain must also beat this one."), Baseline(
    "subsample_graph", "The model with a graph of the subsample alone, which costs almost nothing. What the model "
                       "gains over it is what the many other unlabeled points brought."))
STAGES = (
    DATASET, SPLIT, LABELS, POINTS, VERTICES, NEIGHBORS, GRAPH, HEALTH,
    Stage("subsample", 3, ("labels", "vertices"),
          lambda spec: SubsampleParams(spec.subsample.size, spec.subsample.seed), make_subsample, costs.subsample,
          "lower data.points"),
    Stage("system", 3, ("vertices", "graph"), SystemParams.of, make_system, costs.system,
          "lower graph.n_neighbors or data.points"),
    Stage("columns", 3, ("system", "subsample"), ColumnParams.of, make_columns, costs.columns,
          "lower graph.n_neighbors or data.points"),
    Stage("covariance", 4, ("vertices", "system", "subsample", "columns"), ColumnParams.of, make_covariance,
          costs.covariance, "lower subsample.size", section=solver_section),
    Stage("selection", 3, ("points", "labels", "subsample", "covariance"), SearchParams.of, make_selection,
          costs.selection, "lower subsample.size", section=partial(selection_section, words=WORDS), leads=True),
    Stage("models", 3, ("split", "points", "labels", "subsample", "covariance", "selection"), LearningParams.of,
          make_models, costs.models, "lower subsample.size"),
    replace(SCORES, cost=costs.scores, remedy="lower subsample.size or labels"),
)

KINDS = (Kind("svm", SvmPipeline, ("classification",), STAGES, words=WORDS, baselines=BASELINES),
         Kind("ridge", RidgePipeline, ("classification", "regression"), STAGES, words=WORDS, baselines=BASELINES))

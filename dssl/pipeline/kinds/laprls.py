"""The kind `laprls`: Laplacian regularized least squares on landmarks.

    model     Laplacian regularized least squares on the landmarks
    base      the same without the graph, gamma_I = 0, with its own gamma_A, on the same landmarks
    shuffled  the model with the mean of the graph's energy over all relabelings of its vertices
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from pydantic import Field, model_validator

from ...errors import require
from ...graph.graph import Graph
from ...graph.vertices import distinct_rows
from ...kernels.base import Kernel, kernel_from
from ...kernels.landmarks import LandmarkParams, Landmarks, Method
from ...learners.laprls.params import Preconditioner, Solver, SystemParams
from ...learners.laprls.penalties import Penalty, System, require_penalties
from ...learners.laprls.problem import (
    DENSE,
    FittedLapRLS,
    LapRLSParams,
    LapRLSProblem,
    PreparedLapRLS,
    landmarks_of,
)
from ...learners.target import Target
from ...report.sections.laprls import laprls_section
from ...report.words import Baseline, Words
from ...selection.folds import held_out_folds
from ...selection.laprls import choose_penalties, search_penalties
from ...storage.blocks import PartWriter, Rows, SelectedRows
from ..graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES, vertices_of
from ..points import DATASET, LABELS, POINTS, SPLIT, labeled_target
from ..scoring import BASE, SCORES
from ..spec import LabelSpec, ModelSpec, Section, SelectionSpec, Spec
from ..stage import Context, Kind, Stage
from . import laprls_costs as costs

# The spec


class LandmarkSpec(Section):
    """The points that functions are sums over."""

    count: int | float | Literal["auto", "sqrt"] = Field(
        default="auto", description="a number; a share of the distinct training points; sqrt, ceil(m^1/2) of m labeled "
                                    "points and ceil((n - m)^1/2) of the others; auto, 1,000 or as many as sqrt if "
                                    "these are more")
    method: Method = Field(default="uniform", description="uniform, kmeans (centers) or leverage (by ridge leverage "
                                                          "scores)")
    seed: int = Field(default=0, ge=0)

    def params(self) -> LandmarkParams:
        """Return the landmarks' parameters."""
        return LandmarkParams(n_landmarks=self.count, method=self.method, seed=self.seed)


class LapRLSSpec(ModelSpec):
    """Laplacian regularized least squares on landmarks; the penalties weigh against the mean squared residual."""

    kind: Literal["laprls"]
    gamma_A: Penalty = Field("auto", description="of the norm, > 0; a number, auto or a multiple such as 10*auto")
    gamma_I: Penalty = Field("auto", description="of the graph's energy, >= 0; 0 is plain least squares")
    solver: Solver = Field("auto", description="nystrom-direct, nystrom-pcg and nystrom-cg use landmarks; direct, pcg "
                                               "and cg all points")
    preconditioner: Preconditioner = "edges"
    whitening: float | Literal["auto"] | None = Field(
        "auto", description="eigenvalues of the landmarks' kernel below this share of the largest are dropped; null "
                            "drops none")
    precision: Literal["float64", "float32"] = "float64"
    tolerance: float = 1e-6
    max_iterations: int = 500
    fit_intercept: bool = True
    landmarks: LandmarkSpec = LandmarkSpec()

    def system(self) -> SystemParams:
        """Return the solver's parameters."""
        return SystemParams(solver=self.solver, preconditioner=self.preconditioner, whitening=self.whitening,
                            precision=self.precision, tolerance=self.tolerance, max_iterations=self.max_iterations,
                            seed=self.landmarks.seed)

    def params(self, laplacian: Literal["normalized", "unnormalized"],
               selection: "PenaltySpec | None") -> LapRLSParams:
        """Return the parameters with the grid of the selection."""
        printed = self.preconditioner.startswith("paper") and self.solver in ("auto", "nystrom-pcg")
        require(not (printed and self.landmarks.method == "kmeans"),
                f"preconditioner={self.preconditioner!r} with landmarks that are centers",
                why="it needs the graph's weights between landmarks, which must be points then",
                fix='use "edges", or uniform landmarks')
        require_penalties(self.gamma_A, self.gamma_I)  # those that the selection replaces too
        gamma_A = selection.gamma_A if selection and selection.gamma_A else [self.gamma_A]
        gamma_I = selection.gamma_I if selection and selection.gamma_I else [self.gamma_I]
        return LapRLSParams(gamma_A=tuple(gamma_A), gamma_I=tuple(gamma_I), landmarks=self.landmarks.params(),
                            system=self.system(), laplacian=laplacian, fit_intercept=self.fit_intercept)


class PenaltySpec(SelectionSpec):
    """Penalties and bandwidth chosen by cross-validation on the labels."""

    gamma_A: list[Penalty] | None = Field(None, min_length=1)
    gamma_I: list[Penalty] | None = Field(None, min_length=1)


class LapRLSPipeline(Spec):
    """A pipeline of Laplacian regularized least squares."""

    labels: LabelSpec
    model: LapRLSSpec
    selection: PenaltySpec | None = None
    baselines: tuple[Literal["base", "shuffled"], ...] = ("base", "shuffled")

    @model_validator(mode="after")
    def _has_baselines(self) -> "LapRLSPipeline":
        if set(self.baselines) != {"base", "shuffled"}:
            raise ValueError("baselines always holds base and shuffled")
        return self

    def laprls(self) -> LapRLSParams:
        """Return the parameters with the grid of the selection."""
        return self.model.params(self.graph.laplacian, self.selection)

    def parameters(self) -> Iterator[tuple[str, Callable[[], Any]]]:
        yield from super().parameters()
        yield "model", self.laprls


# The stages


@dataclass(frozen=True)
class KernelsParams:
    """The base kernel with each bandwidth; seed : of the sample that gives a median its value."""

    name: str
    parameters: dict[str, int | float]
    bandwidths: tuple[float | str | None, ...]
    seed: int

    @classmethod
    def of(cls, spec: LapRLSPipeline) -> "KernelsParams":
        return cls(spec.kernel.name, spec.kernel.parameters, tuple(kernel.bandwidth for kernel in spec.kernels()),
                   spec.model.landmarks.seed)

    def on(self, rows: Rows) -> list[Kernel]:
        """Return the kernels; a median distance is that of these rows."""
        return [kernel_from(self.name, bandwidth, rows=rows, seed=self.seed, **self.parameters)
                for bandwidth in self.bandwidths]


@dataclass(frozen=True)
class ChoiceOfLandmarks:
    """How landmarks are chosen, None where the solver takes all points; the kernels where they measure leverage."""

    landmarks: LapRLSParams
    kernels: KernelsParams | None

    @classmethod
    def of(cls, spec: LapRLSPipeline) -> "ChoiceOfLandmarks":
        own = spec.laprls()
        bare = LapRLSParams(landmarks=own.landmarks, system=SystemParams(
            solver=own.system.solver if own.system.solver in DENSE else "auto"))
        return cls(bare, KernelsParams.of(spec) if own.landmarks.method == "leverage" else None)


def make_landmarks(context: Context, params: ChoiceOfLandmarks) -> dict[str, Any]:
    """Choose the landmarks among the distinct training points; by leverage, those of each bandwidth."""
    vertices, points = vertices_of(context), context.points("train")
    rows = distinct_rows(points, vertices, context.execution)
    labeled = np.unique(vertices.vertex[context.arrays("labels")["labeled"]])
    # The other methods do not ask a kernel.
    kernels: list[Any] = [None] if params.kernels is None else params.kernels.on(points)
    found = [landmarks_of(rows, kernel, params.landmarks, labeled, context.execution) for kernel in kernels]
    for index, chosen in enumerate(found):
        if chosen is not None:
            PartWriter(context.parts, index).write(**chosen.to_arrays())
    return {"landmarks": [{"count": chosen.points.shape[0], **chosen.attributes} for chosen in found if chosen]}


def _landmarks(context: Context, number: int) -> Landmarks | None:
    """Return the landmarks for a kernel; None for the methods without."""
    described = context.attributes("landmarks")["landmarks"]
    if not described:
        return None
    index = min(number, len(described) - 1)
    attributes = {name: value for name, value in described[index].items() if name != "count"}
    return Landmarks.from_arrays(context.inputs["landmarks"].parts.read(index), attributes)


@dataclass(frozen=True)
class FitParams:
    """The problem, its kernels and baselines, and the folds where there is something to choose."""

    laprls: LapRLSParams
    kernels: KernelsParams
    baselines: tuple[str, ...]
    folds: int | None
    seed: int  # of the folds

    @classmethod
    def of(cls, spec: LapRLSPipeline) -> "FitParams":
        chosen = spec.selection
        return cls(spec.laprls(), KernelsParams.of(spec), spec.baselines, chosen.folds if chosen else None,
                   chosen.seed if chosen else 0)

    def problem(self, context: Context, target: Target) -> LapRLSProblem:
        """Return the problem of all kernels; its labeled points have folds where there is something to choose."""
        own, vertices = self.laprls, vertices_of(context)
        graph = Graph(vertices, context.inputs["graph"].parts) if (
            own.uses_graph or own.system.solver in DENSE) else None
        problem = LapRLSProblem.of(context.points("train"), target, own, context.execution, graph=graph,
                                   vertices=vertices, names=("model", *self.baselines))
        if self.folds is None or not (problem.has_choice or len(self.kernels.bandwidths) > 1):
            return problem
        return problem.with_folds(held_out_folds(self.folds, target, self.seed))


def make_models(context: Context, params: FitParams) -> dict[str, Any]:
    """Choose the penalties and the bandwidth by cross-validation where there is a grid; fit the model and baselines."""
    target, kernels = labeled_target(context), params.kernels.on(context.points("train"))
    bandwidths = list(params.kernels.bandwidths)
    problem = params.problem(context, target)
    n_folds = problem.lines.n_held
    shares = [context.parts.within(f"gram{number}") for number in range(len(kernels))]
    evidence: list[dict[str, Any]] = [{"bandwidth": bandwidth} for bandwidth in bandwidths]

    def prepared(number: int) -> PreparedLapRLS:
        return problem.prepared(kernels[number], context.execution, held_out=n_folds > 0, parts=shares[number],
                                landmarks=_landmarks(context, number))

    tables: list[list[dict[str, Any]]] = []
    ready: PreparedLapRLS | None = None
    for number in range(len(kernels)):
        ready = None  # before the next: matrices of one kernel at a time
        ready = prepared(number)
        tables.append(search_penalties(ready) if n_folds else [])
        evidence[number] |= ready.evidence
    chosen, last = choose_penalties(problem, tables), len(kernels) - 1
    arrays: dict[str, np.ndarray] = {}
    models: dict[str, Any] = {}
    for number in sorted({number for number, _ in chosen.values()}, reverse=True):
        if number != last:
            ready = None
            ready = prepared(number)  # from the shares that are there
        assert ready is not None
        own = {name: system for name, (choice, system) in chosen.items() if choice == number}
        found = ready.fitted(own)
        seconds = {**ready.evidence["seconds"], **evidence[number].get("seconds", {})}
        evidence[number] |= {**found.evidence, "seconds": seconds, "models": list(own)}
        for name in own:
            described, models[name] = _described(context, target, found, name, bandwidths[number])
            arrays |= {f"{name}.{key}": array for key, array in described.items()}
    PartWriter(context.parts, 0).write(**arrays)
    for parts in shares:  # the matrices of the blocks have served
        parts.remove()
    return {"models": {name: models[name] for name in problem.names}, "folds": n_folds, "evidence": evidence,
            **_choices(problem, chosen, tables, bandwidths)}


def _described(context: Context, target: Target, found: FittedLapRLS, name: str,
               bandwidth: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and attributes of a model."""
    system = found.functions[name].chosen
    facts: dict[str, Any] = {"name": name, "n_labeled": len(target.labeled), "parameters": {
        "gamma_A": system.gamma_A, "gamma_I": system.gamma_I, "bandwidth": bandwidth}}
    model = found.model(name, facts)
    values = model.values(SelectedRows(context.points("train"), target.labeled), context.execution)
    facts |= target.missed(values, model.coding)
    return model.to_arrays()


def _choices(problem: LapRLSProblem, chosen: dict[str, tuple[int, System]], tables: list[list[dict[str, Any]]],
             bandwidths: list[Any]) -> dict[str, Any]:
    """Return what was chosen for each model and, where there was a choice, the table of each that had one."""
    choices, grid = {}, {}
    for name, (number, system) in chosen.items():
        choices[name] = {"gamma_A": system.gamma_A, "gamma_I": system.gamma_I, "bandwidth": bandwidths[number]}
    for name, systems in problem.allowed.items():
        grid[name] = [{**row, "bandwidth": bandwidth} for table, bandwidth in zip(tables, bandwidths, strict=True)
                      for system, row in zip(problem.tried, table, strict=False) if system in systems]
    for name, choice in choices.items():
        for row in grid["model" if name == "shuffled" else name]:
            if choice.items() <= row.items():
                choices[name] = row
    return {"choices": choices, "grid": grid} if any(grid.values()) else {"choices": choices}


WORDS = Words(
    model="Least squares on the labels, with penalties on the norm and on how much the function varies along the "
          "graph.", changed="penalty that merely smooths", cause="added penalty", graph="model.gamma_I",
    norm="model.gamma_A", penalties=("gamma_A", "gamma_I"))
BASELINES = (BASE, Baseline(
    "shuffled", "The control: the model with the mean of the graph's energy over all relabelings of its points, a "
                "penalty as strong that knows nothing about where they lie. A real gain must also beat this one."))
_FEWER = "use fewer landmarks: model.landmarks.count; or model.solver auto, if the one given takes all points"
KIND = Kind("laprls", LapRLSPipeline, ("classification", "regression"), (
    DATASET, SPLIT, LABELS, POINTS, VERTICES, NEIGHBORS, GRAPH, HEALTH,
    Stage("landmarks", 2, ("points", "vertices", "labels"), ChoiceOfLandmarks.of, make_landmarks, costs.landmarks,
          _FEWER),
    Stage("models", 2, ("split", "points", "labels", "vertices", "graph", "landmarks"), FitParams.of, make_models,
          costs.models, _FEWER, section=laprls_section),
    replace(SCORES, cost=costs.scores, remedy=_FEWER),
), words=WORDS, baselines=BASELINES)

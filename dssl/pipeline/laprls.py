"""The stages of `model.kind: laprls`: landmarks, then the model and its baselines with what cross-validation chose.

    model     Laplacian regularized least squares on the landmarks
    base      the same without the graph, lambda_I = 0, with its own lambda_A, on the same landmarks
    shuffled  the model with the mean of the graph's energy over all relabelings of its vertices
"""

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..estimators.laprls import classifier_model, coded_targets, regressor_model
from ..graph.vertices import distinct_rows
from ..kernels.base import Kernel, kernel_from
from ..kernels.landmarks import Landmarks
from ..learners.kernel_model import KernelModel
from ..learners.laprls.problem import DENSE, FittedLapRLS, LapRLSProblem, PreparedLapRLS, choose, landmarks_of
from ..learners.laprls.system import LabelLines, System
from ..storage.blocks import PartWriter, SelectedRows
from .context import Context
from .graphs import vertices_of
from .spec import Spec
from .training import target_folds


def landmark_params(spec: Spec) -> dict[str, Any]:
    """Return what the landmarks depend on: the kernel only where it measures leverage."""
    own = spec.laprls
    found = {**own.landmarks.model_dump(), "kind": own.solver if own.solver in DENSE else "nystrom"}
    return found | _kernel_params(spec) if own.landmarks.method == "leverage" else found


def laprls_params(spec: Spec) -> dict[str, Any]:
    """Return what the models depend on beside their inputs."""
    params, chosen = spec.laprls_params(), spec.selection
    grid = {"folds": chosen.folds, "seed": chosen.seed} if chosen else {}
    return {**spec.laprls.model_dump(exclude={"lambda_A", "lambda_I", "landmarks"}), "seed": spec.laprls.landmarks.seed,
            "lambda_A": list(params.lambda_A), "lambda_I": list(params.lambda_I), **grid, **_kernel_params(spec),
            "laplacian": spec.graph.laplacian, "baselines": list(spec.baselines)}


def _kernel_params(spec: Spec) -> dict[str, Any]:
    return {"kernel": spec.kernel.model_dump(include={"name", "parameters"}),
            "bandwidths": [kernel.bandwidth for kernel in spec.kernels()]}


def _kernels(context: Context) -> list[Kernel]:
    """Return the kernel with each bandwidth; the median distance is that of all training points."""
    spec, rows = context.spec, context.points("train")
    parameters: dict[str, Any] = dict(spec.kernel.parameters)
    return [kernel_from(kernel.name, kernel.bandwidth, rows=rows, seed=spec.laprls.landmarks.seed, **parameters)
            for kernel in spec.kernels()]


def make_landmarks(context: Context) -> dict[str, Any]:
    """Choose the landmarks among the distinct training points; by leverage, those of each bandwidth."""
    vertices, params = vertices_of(context), context.spec.laprls_params()
    rows = distinct_rows(context.points("train"), vertices, context.execution)
    labeled = np.unique(vertices.vertex[context.arrays("labels")["labeled"]])
    # The other methods do not ask the kernel, so its median need not be known.
    kernels = _kernels(context) if params.landmarks.method == "leverage" else [context.spec.kernel.check()]
    found = [landmarks_of(rows, kernel, params, labeled, context.execution) for kernel in kernels]
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
class Target:
    """What is learned: labeled points (l,) with their classes or quantities (l,), and what models are made of them."""

    labeled: np.ndarray
    values: np.ndarray  # codes, or quantities in float64
    classes: list[Any] | None

    @classmethod
    def of(cls, context: Context) -> "Target":
        labels, classes = context.arrays("labels"), context.attributes("split").get("classes")
        return cls(labels["labeled"], labels["values" if classes is None else "codes"], classes)

    def columns(self) -> np.ndarray:
        """Return the targets (l, c)."""
        if self.classes is None:
            return self.values[:, None].astype(np.float64)
        return coded_targets(self.values, len(self.classes))

    def model(self, found: FittedLapRLS, name: str, kernel: Kernel, attributes: dict[str, Any]) -> KernelModel:
        """Return a fitted function as a model."""
        if self.classes is None:
            return regressor_model(found, name, kernel, attributes)
        return classifier_model(found, name, kernel, np.array(self.classes), attributes)

    def missed(self, model: KernelModel, context: Context) -> dict[str, float]:
        """Return how far the model is off at the labeled points themselves."""
        values = model.values(SelectedRows(context.points("train"), self.labeled), context.execution)
        if self.classes is None:
            return {"training_rmse": float(np.sqrt(((values[:, 0] - self.values) ** 2).mean()))}
        return {"training_error": float((model.codes(values) != self.values).mean())}


def _problem(context: Context, target: Target, n_bandwidths: int) -> LapRLSProblem:
    """Return the problem of all kernels; its labeled points have folds where there is something to choose."""
    spec, vertices, params = context.spec, vertices_of(context), context.spec.laprls_params()
    graph = context.inputs["graph"].parts if params.uses_graph or params.system.solver in DENSE else None
    row, weight = vertices.vertex[target.labeled], np.ones(len(target.labeled))
    problem = LapRLSProblem(
        distinct_rows(context.points("train"), vertices, context.execution),
        LabelLines.of(row, weight, target.columns()), graph, params,
        context.inputs["vertices"].parts.arrays(0) if vertices.joined else None, target.classes is not None,
        ("model", *spec.baselines))
    if spec.selection is None or not (problem.has_choice or n_bandwidths > 1):
        return problem
    held = target_folds(target.values, spec.selection.folds, spec.selection.seed)
    return replace(problem, lines=LabelLines.of(row, weight, problem.lines.target, held))


def make_laprls(context: Context) -> dict[str, Any]:
    """Choose the penalties and the bandwidth by cross-validation where there is a grid; fit the model and baselines."""
    target, kernels = Target.of(context), _kernels(context)
    bandwidths = [kernel.bandwidth for kernel in context.spec.kernels()]
    problem = _problem(context, target, len(kernels))
    n_folds = problem.lines.n_held
    shares = [context.parts.within(f"gram{number}") for number in range(len(kernels))]
    evidence: list[dict[str, Any]] = [{"bandwidth": bandwidth} for bandwidth in bandwidths]

    def prepared(number: int) -> PreparedLapRLS:
        return problem.prepared(kernels[number], context.execution, judged=n_folds > 0, parts=shares[number],
                                landmarks=_landmarks(context, number))

    tables: list[list[dict[str, Any]]] = []
    ready: PreparedLapRLS | None = None
    for number in range(len(kernels)):
        ready = None  # before the next: matrices of one kernel at a time
        ready = prepared(number)
        tables.append(ready.judged() if n_folds else [])
        evidence[number] |= ready.evidence
    chosen, last = choose(problem, tables), len(kernels) - 1
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
            described, models[name] = _described(context, target, found, name, kernels[number], bandwidths[number])
            arrays |= {f"{name}.{key}": array for key, array in described.items()}
    PartWriter(context.parts, 0).write(**arrays)
    for parts in shares:  # the matrices of the blocks have served
        parts.remove()
    return {"models": {name: models[name] for name in problem.names}, "folds": n_folds, "evidence": evidence,
            **_choices(problem, chosen, tables, bandwidths)}


def _described(context: Context, target: Target, found: FittedLapRLS, name: str, kernel: Kernel,
               bandwidth: Any) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """Return the arrays and attributes of a model."""
    system = found.functions[name].chosen
    facts: dict[str, Any] = {"name": name, "n_labeled": len(target.labeled), "parameters": {
        "lambda_A": system.lambda_A, "lambda_I": system.lambda_I, "bandwidth": bandwidth}}
    model = target.model(found, name, kernel, facts)
    facts |= target.missed(model, context)
    return model.to_arrays()


def _choices(problem: LapRLSProblem, chosen: dict[str, tuple[int, System]], tables: list[list[dict[str, Any]]],
             bandwidths: list[Any]) -> dict[str, Any]:
    """Return what was chosen for each model and, where there was a choice, the table of each that had one."""
    choices, grid = {}, {}
    for name, (number, system) in chosen.items():
        choices[name] = {"lambda_A": system.lambda_A, "lambda_I": system.lambda_I, "bandwidth": bandwidths[number]}
    for name, systems in problem.allowed.items():
        grid[name] = [{**row, "bandwidth": bandwidth} for table, bandwidth in zip(tables, bandwidths, strict=True)
                      for system, row in zip(problem.tried, table, strict=False) if system in systems]
    for name, choice in choices.items():
        for row in grid["model" if name == "shuffled" else name]:
            if choice.items() <= row.items():
                choices[name] = row
    return {"choices": choices, "grid": grid} if any(grid.values()) else {"choices": choices}

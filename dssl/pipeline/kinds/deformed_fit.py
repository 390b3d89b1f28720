"""The tasks that choose parameters, and fit the model in a deformed kernel and its baselines on the same labels.

    model            the learner in the kernel deformed by the graph
    base             the same learner in the base kernel: no unlabeled data
    shuffled         the same as the model, with the graph's vertices permuted: an equal graph that says nothing
    subsample_graph  the same as the model, with a graph of the subsample alone
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...execution.cost import Cost, cost_of, gram_seconds
from ...execution.in_process import InProcess
from ...graph.laplacian import Laplacian
from ...graph.neighbor_params import NeighborParams
from ...graph.neighbors import find_neighbors
from ...graph.regularizer_params import RegularizerParams
from ...graph.scaling import scaled_rows
from ...graph.weight_rule import WeightParams
from ...graph.weights import weights
from ...kernels.base import Kernel, kernel_from
from ...kernels.deformed import shuffled
from ...kernels.subsample import inverse_on_subsample
from ...learners.class_prior import ClassPrior, ClassWeight
from ...learners.coding import Coding
from ...learners.eta import ETAS, deform_by
from ...learners.kernel_model import expand
from ...learners.probabilities import calibration_attributes
from ...learners.ridge_and_svm import LearnerParams, fit_gram
from ...learners.target import Classes, Target
from ...selection.by_labels import LabelFolds, by_labels, with_prior
from ...selection.folds import FoldParams, held_out
from ...selection.halving import some_folds
from ...selection.held_out_scores import HeldOut
from ...selection.search import GridParams, Held, search_base, search_deformed
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Arrays, PartWriter, Receipt, Rows
from ...storage.csr import as_rows
from ..facts import Facts
from .class_spec import class_prior, class_weight
from .deformed_spec import DeformedSpec

SAMPLED = 1000  # points of the median distance


@dataclass(frozen=True)
class SubsampleGraph:
    """How the graph of the subsample alone is made, for the baseline of that name."""

    neighbors: NeighborParams
    weights: WeightParams
    regularizer: RegularizerParams


@dataclass(frozen=True)
class LearningParams:
    """What the model and its baselines have in common; subsample_graph : of that baseline, where it is asked for.

    kernel, parameters : of the base kernel. seed : of the subsample, the median distance and the shuffled vertices.
    prior : how frequent classes are. weight : what their labels weigh.
    """

    kind: Literal["svm", "ridge"]
    kernel: str
    parameters: dict[str, int | float]
    baselines: tuple[str, ...]
    seed: int
    subsample_graph: SubsampleGraph | None
    prior: ClassPrior
    weight: ClassWeight

    @classmethod
    def of(cls, spec: DeformedSpec) -> "LearningParams":
        graph = SubsampleGraph(spec.graph.neighbors(), spec.graph.weighting(), spec.graph.regularizer())
        return cls(spec.model.learner, spec.kernel.name, spec.kernel.parameters, spec.baselines,
                   spec.subsample.seed, graph if "subsample_graph" in spec.baselines else None, class_prior(spec),
                   class_weight(spec))


@dataclass(frozen=True)
class DeformedProblem:
    """What the model and its baselines are trained on, as the tasks that search and fit need it."""

    points: Rows  # all training points, scaled
    covariance: Arrays  # `power{p}` (s, s) of each power
    chosen: Arrays  # subsample (s,)
    labels: Arrays  # arrays of the `Target`
    classes: list[Any] | None  # and its attribute
    learning: LearningParams
    structure: dict[int, float]  # of the graph, by power

    def base(self, bandwidth: float | str | None) -> Kernel:
        """Return the base kernel with a bandwidth."""
        own = self.learning
        return kernel_from(own.kernel, bandwidth, rows=self.points, seed=own.seed, **own.parameters)

    def subsample(self) -> np.ndarray:
        """Return the row numbers of the subsample (s,)."""
        return self.chosen.load()["subsample"]

    def target(self) -> Target:
        """Return the labeled points with their classes or quantities."""
        target = Target.from_arrays(self.labels.load(), {"classes": self.classes})
        return target.with_prior(self.learning.prior) if isinstance(target, Classes) else target

    def structure_of(self, name: str) -> dict[int, float]:
        """Return the structure, by power, of the graph of the model of this name, where it is known."""
        return {} if name == "subsample_graph" else self.structure

    def covariances(self, name: str, powers: tuple[int, ...], X_S: Any) -> dict[int, np.ndarray]:
        """Return Q^+ (s, s) on the subsample of each power, as the model of this name takes it."""
        if name == "subsample_graph":
            assert self.learning.subsample_graph is not None
            return subsample_graph_covariance(X_S, self.learning.subsample_graph, powers)
        arrays, seed = self.covariance.load(), self.learning.seed
        return {power: shuffled(arrays[f"power{power}"], seed) if name == "shuffled" else arrays[f"power{power}"]
                for power in powers}


@dataclass(frozen=True)
class SearchTask:
    """Cross-validate the grid of one model at one bandwidth."""

    problem: DeformedProblem
    name: str  # model, base or subsample_graph
    bandwidth: float | str | None
    grid: GridParams
    cv: FoldParams
    n_folds: int  # of all repetitions: those that are held out
    scoring: str | None = None
    complete: bool = False  # whether rows have every score

    def __call__(self, out: PartWriter) -> Receipt:
        problem, target, grid = self.problem, self.problem.target(), self.grid
        X_l, base = problem.points.take(target.labeled), problem.base(self.bandwidth)
        held = Held(target, some_folds(self.cv.repeated(target), self.n_folds), problem.learning.kind,
                    target.label_weights(problem.learning.weight), self.scoring, self.complete)
        if self.name == "base":
            found = search_base(base, X_l, grid, held)
        else:
            subsample = problem.subsample()
            X_S, place = problem.points.take(subsample), {int(row): i for i, row in enumerate(subsample)}
            position = np.array([place.get(int(row), -1) for row in target.labeled])
            found = search_deformed(base, X_S, X_l, position, problem.covariances(self.name, grid.power, X_S),
                                    problem.structure_of(self.name), grid, held)
        return {"name": self.name, "grid": [{**row, "bandwidth": self.bandwidth} for row in found]}


@dataclass(frozen=True)
class FitTask:
    """Fit the model and its baselines; write one model a name, `NAME.ARRAY`."""

    problem: DeformedProblem
    choices: dict[str, dict[str, Any]]  # by name: power, eta, C, bandwidth

    def __call__(self, out: PartWriter) -> Receipt:
        problem, target = self.problem, self.problem.target()
        weight = target.label_weights(problem.learning.weight)
        X_S, X_l = problem.points.take(problem.subsample()), problem.points.take(target.labeled)
        arrays: dict[str, np.ndarray] = {}
        receipt: Receipt = {"models": {}}
        shares = None  # of the model's etas, which the control takes too
        folds, left_out = LabelFolds.of(target, a_fit_each=True), dict[str, list[HeldOut]]()
        held, of_model = list[HeldOut](), list[HeldOut]()
        for name in ("model", *problem.learning.baselines):
            chosen = self.choices[name]
            base = problem.base(chosen["bandwidth"])
            kernel: Any = base
            learner = LearnerParams(kind=problem.learning.kind, C=chosen["C"])
            facts: dict[str, Any] = {"name": name, "n_labeled": len(target.labeled)}
            if name == "base":
                K = kernel(X_l, X_l)
            else:
                A = problem.covariances(name, (chosen["power"],), X_S)[chosen["power"]]
                deformed = deform_by(chosen["eta"], base, X_S, A, X_l, target, weight,
                                     structure=problem.structure_of(name).get(chosen["power"]),
                                     shares=shares if name == "shuffled" else None)
                kernel, K, facts["eta"] = deformed.kernel, deformed.K, deformed.described()
                shares = deformed.shares if name == "model" else shares
                learner = replace(learner, free=deformed.free)
            coef, intercept, coding = fit_gram(K, target, learner, weight)
            facts |= {**target.missed(K @ coef + intercept, coding),
                      "parameters": {key: chosen[key] for key in ("power", "eta", "C", "bandwidth")}}
            judged = name in ("model", "base")
            if judged:
                held = [HeldOut(target, *_left_out(K, target, learner, own, weight), own, weight)
                        for own in folds.repetitions]
            # A control is moved as the model is.
            model, calibration, moved = with_prior(expand(kernel, X_l, coef, intercept, coding, facts), target,
                                                   held if judged else of_model)
            if judged:
                left_out[name] = moved
            if name == "model":
                of_model = held
                model = replace(model, attributes={**facts, **calibration_attributes(calibration)})
            described, attributes = model.to_arrays()
            arrays |= {f"{name}.{key}": array for key, array in described.items()}
            receipt["models"][name] = attributes
        receipt["by_labels"] = by_labels(target, folds, left_out)
        out.write(**arrays)
        return receipt


def _left_out(K: np.ndarray, target: Target, learner: LearnerParams,
              folds: Sequence[np.ndarray], weight: np.ndarray | None) -> tuple[Coding, np.ndarray]:
    values, coding = held_out([K] * len(folds), target, folds, learner, weight)
    return coding, values


def subsample_graph_covariance(X_S: Any, graph: SubsampleGraph, powers: tuple[int, ...]) -> dict[int, np.ndarray]:
    """Return Q^-1 (s, s) by power of the graph of the subsample alone, a baseline of the paper (section 5.1)."""
    lists, weighting = find_neighbors(as_rows(X_S), graph.neighbors, InProcess(1)), graph.weights
    W = weights(lists, weighting.kind, bandwidth=weighting.bandwidth, width=weighting.width,
                symmetrize=weighting.symmetrize, execution=InProcess(1))
    laplacian = Laplacian(W, graph.regularizer.laplacian == "normalized")
    found = inverse_on_subsample(laplacian.matrix(graph.regularizer.ridge), np.arange(len(lists)), powers,
                                 params=SolverParams(method="direct"), vector=laplacian.vector, execution=InProcess(1))
    return found.powers


FITTED = 8 << 20  # bytes that fits take beside their matrices, measured: folds, and the graph of the subsample


def n_subsample(f: Facts[DeformedSpec]) -> int:
    """Return the number of points at which functions are measured."""
    size = min(f.spec.n_subsample, f.n)
    return f.found("subsample", "n_subsample", size, size, "subsample")


def _training_bytes(f: Facts[DeformedSpec]) -> tuple[int, int, int]:
    """Return what a task of the training reads, the most it holds, and the least.

    Held: all covariances; to deform a kernel with one of them, it permuted, a Gram matrix, a sum with it and its
    temporary, and a factor, of "auto" another; and kernels of the labels. Before these, points are taken out of chunks:
    one as it is stored, decompressed, and copied.
    """
    s, m, d, powers = n_subsample(f), f.n_labeled, f.width, len(f.spec.powers)
    several = f.spec.has_several_etas
    read = 8 * s * s * powers + min(f.n, 3 * max(s, m, SAMPLED)) * f.row_bytes
    chunk = min(f.n, scaled_rows(f.n, f.row_bytes, f.x_chunk, f.budget)) * f.row_bytes
    held = max(8 * s * s * (powers + 5 + several) + 24 * (s + m) * d
               + 8 * m * (3 * m + 3 * s) + several * 8 * m * 4 * m, 3 * chunk)
    return read, held, 8 * s * s * (powers + 3)


def search_cost(f: Facts[DeformedSpec]) -> Cost:
    """Return that of a task a model and bandwidth, and one a model for the scores of its choice; of no grid, nothing.

    A task holds the kernels of the labels one fold at a time, and the values without each of all C and repetitions.
    """
    chosen, m, s = f.spec.selection, f.n_labeled, n_subsample(f)
    if chosen is None or f.spec.grid is None:
        return cost_of(0, 0, 0, 0)
    grid, names = f.spec.grid, len({"model", *f.spec.baselines} - {"shuffled"})
    pairs = 1 if chosen.search == "grid" else len(grid.power) * len(grid.eta)  # of some combinations, a task each
    tasks = names * (min(len(f.spec.kernels()) * pairs, chosen.samples or len(f.spec.kernels()) * pairs) + 1)
    read, held, least = _training_bytes(f)
    columns = max(1, f.n_classes * (f.n_classes - 1) // 2) if f.spec.model.learner == "svm" else f.n_outputs
    values = 8 * m * columns * len(f.spec.grid.C) * chosen.repetitions
    kernels = len(ETAS) - 1 if f.spec.has_several_etas else 1
    return cost_of(tasks, tasks * read, 0,
                   held + 8 * m * m * 5 * kernels + values + 24 * s * (m + min(s, m)) * kernels, least,
                   tasks * chosen.repetitions * len(grid.power) * len(grid.eta) * _deformed_seconds(m, s))


def fit_cost(f: Facts[DeformedSpec]) -> Cost:
    """Return that of one task, which makes one deformed kernel after the other."""
    read, held, least = _training_bytes(f)
    points = n_subsample(f) + f.n_labeled
    models = len(f.spec.baselines) + 1
    return cost_of(1, read, models * points * (f.row_bytes + 8 * f.n_outputs), held + FITTED, least,
                   models * _deformed_seconds(f.n_labeled, n_subsample(f)))


def _deformed_seconds(m: float, s: float) -> float:
    """Return the estimated seconds of a deformed kernel on m labels and a learner in it: factor, solve and values."""
    return gram_seconds(s / 6, s) + gram_seconds(m / 2, s) + gram_seconds(s, m) + gram_seconds(m, m)

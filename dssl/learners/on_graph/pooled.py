"""A fit on a graph with what another model says of the points; see `learners/soft_labels.py`.

The values of vertices are the pool of the learner's values, the soft labels, and the soft labels smoothed on the graph.
Without a label, or with labels of one class, the smoothed soft labels are all there is.

A smoothed column is its mean over the end of a random walk that stops with a fixed probability a step:

    (D (1 + m) - W) S P = m D P

D are the degrees and m = `STOP`. The mean of a column, weighted by degrees, stays; what was between 0 and 1 and summed
to 1 still does. An isolated vertex keeps its row.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.special import softmax

from ...base.digest import JsonObject
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.regularizer import laplacian_of
from ...solvers.solve import solve_columns
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..class_prior import EQUAL, ClassSizes
from ..prior_shift import Frequencies, calibration_labels
from ..probabilities import Calibration, of_log_probabilities
from ..soft_labels import SoftLabels, Weights, cross_fitted_pool, log_odds, pool, pool_weights
from ..target.coding import ClassCoding, margins_of
from ..target.target import Classes, Target
from .class_sizes import with_class_sizes
from .model import VertexValues, scored, signed

SHARPENED = 3.0  # root mean square of the log probabilities of classes that no label knows
# A walk takes 1 / STOP steps: the best of 1 to 0.003 for the opinions of class vectors on twelve sets
# (`tests/benchmarks/soft_labels.py`).
STOP = 0.05
TOLERANCE = 1e-4


@dataclass(frozen=True, eq=False)
class LearnerValues:
    """What a learner says without the other model.

    values (v, c) : at the vertices, as `signed`. reachable (v,) bool : from a label. positions
    (h,) : of the held-out labels; held_out (h, c) : their values, NaN where unknown. calibration : of classes, None
    where no class has two labels.
    """

    values: np.ndarray
    reachable: np.ndarray
    positions: np.ndarray
    held_out: np.ndarray
    calibration: Calibration | None


@dataclass(frozen=True, eq=False)
class Pooled:
    """A pool on the vertices.

    on_vertices : the values, of classes log probabilities. Where the learner reaches none, those of the other model if
    held-out labels say that it is better than chance; if they do not, the vertices are unreachable. positions (h,) : of
    the held-out labels; held_out, held_out_other, held_out_learner (h, c) : their cross-fitted values by the pool, of
    the other model and of the learner alone, as `signed`, NaN where the learner knows no other label of the class.
    other (v, c) : what the other model says alone, as `signed`. calibration : of the pool; None for quantities.
    """

    on_vertices: VertexValues
    positions: np.ndarray
    held_out: np.ndarray
    held_out_other: np.ndarray
    held_out_learner: np.ndarray
    other: np.ndarray
    calibration: Calibration | None
    attributes: JsonObject

    def with_class_sizes(self, sizes: ClassSizes | None, graph: Graph, target: Target, weight: np.ndarray | None,
                         execution: Execution) -> tuple[VertexValues, Calibration | None]:
        """Return the values with their calibration; with known class sizes, those of the cut with these sizes."""
        if sizes is None:
            return self.on_vertices, self.calibration
        assert isinstance(target, Classes)
        values = with_class_sizes(self.on_vertices, self.on_vertices.values, sizes, graph, target, weight, execution)
        return values, of_log_probabilities(len(target.names))


def fit_pool(graph: Graph, target: Target, weight: np.ndarray | None, soft: SoftLabels, learner: LearnerValues | None,
             random_state: int, execution: Execution) -> Pooled:
    """Return the pool of what a learner and another model say.

    learner : None where there are too few labels to learn from. Soft labels of duplicates are averaged. Raises
    NotConverged.
    """
    of_labels = graph.vertices.vertex[target.labeled]
    at_vertices = _by_vertex(graph, soft.values)
    held_out = [_by_vertex(graph, values) for _, values in soft.folds]
    smooth, *smooth_held_out = smoothed(graph, [at_vertices, *held_out], random_state, execution)
    folds = [fold for fold, _ in soft.folds]
    opinions = (SoftLabels(at_vertices, list(zip(folds, held_out, strict=True))),
                SoftLabels(smooth, list(zip(folds, smooth_held_out, strict=True))))
    members = [(each.values, each.at_labels(of_labels)) for each in opinions]
    if isinstance(target, Classes):
        return _of_classes(target, weight, members, learner)
    assert learner is not None
    return _of_quantities(target, weight, members, learner)


def _by_vertex(graph: Graph, values: np.ndarray) -> np.ndarray:
    """Return the mean (v, c) over the points of each vertex of values (n, c)."""
    vertices = graph.vertices
    if len(vertices) == len(values):
        return values[vertices.first]
    sums = np.stack([np.bincount(vertices.vertex, column, len(vertices)) for column in values.T], axis=1)
    means: np.ndarray = sums / np.bincount(vertices.vertex, minlength=len(vertices))[:, None]
    return means


def _of_classes(target: Classes, weight: np.ndarray | None, members: Sequence[tuple[np.ndarray, np.ndarray]],
                learner: LearnerValues | None) -> Pooled:
    logs = [(log_odds(values), log_odds(at_labels)) for values, at_labels in members]
    sizes = [float(np.sqrt((values**2).mean())) or 1.0 for values, _ in logs]
    others = np.stack([values / size for (values, _), size in zip(logs, sizes, strict=True)])
    at_labels = np.stack([each / size for (_, each), size in zip(logs, sizes, strict=True)])
    k, even = len(members), np.zeros(others[0].shape)
    if learner is None:
        weights, positions = Weights(0.0, np.array([*[0.0] * (k - 1), sizes[-1]])), np.arange(0)
        log_values, fitted_to, calibrated = even, 0, np.arange(0)
        learner_held_out = learner_values = np.zeros((0, even.shape[1]))
    else:
        unseen, unseen_at_labels = (softmax(SHARPENED * each[-1], axis=1) for each in (others, at_labels))
        log_values = _log_probabilities(target, learner.values, learner, unseen)
        known = np.isfinite(at_labels[:, learner.positions]).all(axis=(0, 2))
        positions, values = learner.positions[known], learner.held_out[known]
        # The only label of a class is predicted wrong without itself, so that it judges the other model alone.
        calibrated = calibration_labels(target, values, positions)
        learner_held_out = np.zeros((len(positions), even.shape[1]))
        learner_held_out[calibrated] = _log_probabilities(target, values, learner,
                                                          unseen_at_labels[positions])[calibrated]
        learner_values, fitted_to = np.full(learner_held_out.shape, np.nan), len(positions)
        learner_values[calibrated] = learner_held_out[calibrated]
        weights = pool_weights(target.take(positions), learner_held_out, at_labels[:, positions],
                               _taken(weight, positions))
    labels, label_weight = target.take(positions), _taken(weight, positions)
    logs_at_vertices = pool(target, weights, log_values, others)
    held_out = cross_fitted_pool(labels, learner_held_out, at_labels[:, positions], label_weight)
    of_other = pool(target, Weights(0.0, np.ones(1)), learner_held_out, at_labels[:1, positions] * sizes[0])
    decision = _decision(target, weight, held_out[calibrated], positions[calibrated])
    calibration = replace(of_log_probabilities(len(target.names)), decision=decision)
    shift = _shift(decision)
    reachable = np.ones(len(even), bool)
    if learner is not None and not learner.reachable.all():
        nothing = np.zeros_like(learner_held_out)
        elsewhere = pool_weights(labels, nothing, at_labels[:, positions], label_weight)
        of_others = cross_fitted_pool(labels, nothing, at_labels[:, positions], label_weight)
        reachable = learner.reachable | _is_informative(labels, of_others)
        logs_at_vertices = np.where(learner.reachable[:, None], logs_at_vertices, pool(target, elsewhere, even, others))
    return Pooled(
        VertexValues(np.where(reachable[:, None], logs_at_vertices + shift, 0.0), reachable), positions,
        signed(held_out + shift, target),
        signed(of_other + _shift(_decision(target, weight, of_other, positions)), target),
        signed(learner_values + _shift(_decision(target, weight, learner_values[calibrated], positions[calibrated])),
               target),
        signed(logs[0][0], target), calibration, {"labels": fitted_to, "learner_weight": weights.learner,
         "weight": float(weights.others[0] / sizes[0]), "smoothed_weight": float(weights.others[-1] / sizes[-1])})


def _is_informative(target: Classes, logs: np.ndarray) -> bool:
    """Return whether held-out log probabilities (l, n_classes) say more of the labels than equal ones do.

    The mean gain is above three of its standard errors.
    """
    if len(logs) < 2:
        return False
    gains = logs[np.arange(len(logs)), target.coded] + np.log(logs.shape[1])
    return bool(gains.mean() > 3 * gains.std(ddof=1) / np.sqrt(len(gains)))


def _taken(weight: np.ndarray | None, positions: np.ndarray) -> np.ndarray | None:
    return None if weight is None else weight[positions]


def _log_probabilities(target: Classes, values: np.ndarray, learner: LearnerValues, other: np.ndarray) -> np.ndarray:
    """Return the centered log probabilities (v, n_classes) of a learner's values (v, c).

    Scores that nothing is calibrated on have the mean square 1. A class without labels, of which the learner knows
    nothing, has its probability in `other` (v, n_classes), and the others have the rest.
    """
    coding = scored(target)
    assert isinstance(coding, ClassCoding)
    present = np.isin(np.arange(len(target.names)), target.coded)
    calibration = learner.calibration
    if calibration is None:
        margins = margins_of(learner.values, coding)
        calibration = Calibration(1 / (float(np.sqrt((margins**2).mean())) or 1.0), present)
    P = calibration.probabilities(margins_of(values, coding))
    unseen = ~calibration.present
    if unseen.any():
        P = np.where(unseen, other, P * other[:, ~unseen].sum(axis=1, keepdims=True))
    logs = np.log(np.maximum(P, np.finfo(float).tiny))
    centered: np.ndarray = logs - logs.mean(axis=1, keepdims=True)
    return centered


def _decision(target: Classes, weight: np.ndarray | None, held_out: np.ndarray,
              positions: np.ndarray) -> np.ndarray | None:
    """Return the offsets (n_classes,) that are best for the scoring of the target; None where that is the accuracy."""
    if not len(positions):
        return None
    frequencies = Frequencies.of(target, weight, EQUAL)
    decision = frequencies.decision(held_out, target.coded[positions], _taken(weight, positions))
    return decision - decision.mean() if np.ptp(decision) > 0 else None


def _shift(decision: np.ndarray | None) -> np.ndarray | float:
    return 0.0 if decision is None else decision


def _of_quantities(target: Target, weight: np.ndarray | None, members: Sequence[tuple[np.ndarray, np.ndarray]],
                   learner: LearnerValues) -> Pooled:
    others, at_labels = (np.stack(list(each)) for each in zip(*members, strict=True))
    known = np.isfinite(at_labels[:, learner.positions]).all(axis=(0, 2)) & np.isfinite(learner.held_out).all(axis=1)
    positions = learner.positions[known]
    labels, label_weight, learner_held_out = target.take(positions), _taken(weight, positions), learner.held_out[known]
    weights = pool_weights(labels, learner_held_out, at_labels[:, positions], label_weight)
    values = pool(target, weights, learner.values, others)
    return Pooled(VertexValues(values, np.ones(len(values), bool)), positions,
                  cross_fitted_pool(labels, learner_held_out, at_labels[:, positions], label_weight),
                  at_labels[0][positions], learner_held_out, others[0], None,
                  {"labels": len(positions), "learner_weight": weights.learner, "weight": float(weights.others[0]),
                   "smoothed_weight": float(weights.others[-1])})


@dataclass(frozen=True)
class SmoothTask:
    """Write `values` (v, t), the smoothed `columns` (v, t). Memory: `solve_cost`."""

    graph: Parts
    vertices: Arrays | None
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        W, P = laplacian_of(self.graph, self.vertices, "unnormalized").point_weights, self.shared.load()["columns"]
        return out.write(values=smooth(W, P, self.solver))


def smooth(W: sp.csr_array, P: np.ndarray, solver: SolverParams) -> np.ndarray:
    """Return columns P (v, t) smoothed on a graph of weights (v, v); raise NotConverged."""
    degrees = np.asarray(W.sum(axis=1)).ravel()
    degrees = np.where(degrees > 0, degrees, 1.0)
    A = sp.csr_array(sp.diags_array((1 + STOP) * degrees) - W)
    isolated = np.asarray(W.sum(axis=1)).ravel() == 0
    solution, _ = solve_columns(A, STOP * degrees[:, None] * P, solver, start=P)
    values = solution.require_converged(solver).value
    values[isolated] = P[isolated]
    return values


def smoothed(graph: Graph, columns: Sequence[np.ndarray], random_state: int, execution: Execution) -> list[np.ndarray]:
    """Return each of some columns (v, t) smoothed on a graph of v vertices; raise NotConverged."""
    parts, vertices = execution.scratch(), graph.shared_vertices(execution)
    solver = SolverParams(tol=TOLERANCE, random_state=random_state)
    execution.map([SmoothTask(graph.stored, vertices, execution.share(columns=each), solver) for each in columns],
                  parts)
    return [parts.read(number)["values"] for number in range(len(columns))]

"""Class sizes that are told: scores are moved until as many points have each class, and labels then diffuse.

Where class sizes are known they help most at the lowest label rates; guessed from the labels' own proportions they
cost up to 10 points where labels were drawn evenly and the classes are not even. So nothing here guesses.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import softmax

from ...execution.tasks import Execution
from ...graph.functions import laplacian_of
from ...graph.graph import Graph
from ...graph.regularizer_params import LaplacianKind
from ...solvers.solve import prepare
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..class_prior import class_shares
from ..target.coding import ClassCoding, Coding
from ..target.target import Classes, Target
from .vertex_labels import VertexLabels, VertexValues

TEMPERATURE = 0.05  # of the softmax, in standard deviations of the scores
MOST_STEPS = 500
TAU = 10.0  # the time of a diffusion
MOST_DIFFUSIONS = 20


def balanced(scores: np.ndarray, shares: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """Return scores (v, c) with an offset a class, such that softened predictions have these shares.

    weight (v,) : the points of a vertex, 0 of one that is not reached. A fixed-point iteration on the softmax of the
    standardized scores at temperature 0.05.
    """
    total = weight.sum()
    mean = weight @ scores / total
    deviation = float(np.sqrt((weight @ (scores - mean) ** 2).sum() / (total * scores.shape[1]))) or 1.0
    z, offset = scores / (deviation * TEMPERATURE), np.zeros(scores.shape[1])
    for _ in range(MOST_STEPS):
        now = weight @ softmax(z + offset, axis=1) / total
        step = np.log(shares) - np.log(np.maximum(now, 1e-12))
        offset += step
        if np.abs(step).max() < 1e-3:
            break
    return scores + (offset - offset.mean()) * deviation * TEMPERATURE


def known_shares(sizes: Any, target: Target) -> np.ndarray | None:
    """Return the shares of the classes of a target (n_classes,) from sizes as in `class_shares`; None for None."""
    return class_shares(sizes, target.names) if sizes is not None and isinstance(target, Classes) else None


def offset_to(values: np.ndarray, coding: Coding, shares: np.ndarray) -> np.ndarray:
    """Return what is added to the columns of values (n, c) so that predictions have these shares, as `balanced` does.

    So a baseline is told the sizes that its model is told.
    """
    assert isinstance(coding, ClassCoding)
    scores = coding.scores(values)
    offset = (balanced(scores, shares, np.ones(len(scores))) - scores)[0]
    return offset if values.shape[1] == len(shares) else (offset[1:] - offset[:1]) / 2


@dataclass(frozen=True)
class DiffusionTask:
    """Write `values` (v, c): scores after balanced threshold diffusion, until no vertex changes its class.

    One-hot classes, those of labeled vertices kept, diffuse by one solve with I + tau L, and are balanced again.

    shared : `scores` (v, c), `mass` (v,) the points, `shares` (c,), labels as `VertexLabels`. Memory: `solve_cost`.
    """

    graph: Parts
    vertices: Arrays | None
    kind: LaplacianKind
    shared: Arrays
    solver: SolverParams

    def __call__(self, out: PartWriter) -> Receipt:
        arrays = self.shared.load()
        laplacian = laplacian_of(self.graph, self.vertices, self.kind)
        scores, shares, vertex = arrays["scores"], arrays["shares"], arrays["vertex"]
        solver = prepare(laplacian.matrix(1 / TAU), MOST_DIFFUSIONS * len(shares), self.solver, laplacian.vector)
        root = np.sqrt(np.ones(len(scores)) if laplacian.multiplicity is None else laplacian.multiplicity)[:, None]
        codes, steps, changed = scores.argmax(axis=1), 0, len(scores)
        while changed and steps < MOST_DIFFUSIONS:
            one_hot = np.zeros_like(scores)
            one_hot[np.arange(len(codes)), codes] = 1
            one_hot[vertex] = arrays["mean"]
            solution = solver.solve(root * one_hot).require_converged(self.solver)
            scores = balanced(solution.value / root, shares, arrays["mass"])
            following = scores.argmax(axis=1)
            changed, codes, steps = int((following != codes)[arrays["mass"] > 0].sum()), following, steps + 1
        return {**out.write(values=scores), "diffusions": steps, "changed_in_last": changed}


def fit_class_sizes(graph: Graph, scores: VertexValues, labels: VertexLabels, shares: np.ndarray, *, diffuse: bool,
                    kind: LaplacianKind, solver: SolverParams, execution: Execution) -> VertexValues:
    """Return scores that predict classes of these shares; diffuse : whether labels diffuse after that.

    Held-out values keep the offsets out: they say nothing about sizes.
    """
    weight = graph.vertices.multiplicity * scores.reached.astype(np.float64)
    values, attributes = balanced(scores.values, shares, weight), {"class_shares": shares.tolist()}
    if diffuse:
        parts = execution.scratch()
        receipt, = execution.map([DiffusionTask(
            graph.stored, graph.shared_vertices(execution), kind,
            execution.share(scores=values, mass=weight, shares=shares, **labels.to_arrays()), solver)], parts)
        values = parts.read(0)["values"]
        attributes |= {name: receipt[name] for name in ("diffusions", "changed_in_last")}
    values = np.where(scores.reached[:, None], values, 0.0)
    return VertexValues(values, scores.reached, scores.held_out, {**scores.attributes, **attributes})


def with_class_sizes(scores: VertexValues, sizes: Any, graph: Graph, target: Classes, weight: np.ndarray | None,
                     solver: SolverParams, execution: Execution, *, harmonic: bool = False) -> VertexValues:
    """Return scores whose predictions have known class sizes, as they are for None.

    sizes : as in `class_shares`. harmonic : functions that are shares of classes are scaled by their masses; others are
    moved, and labels diffuse after that. Errors as `class_shares`; NotConverged.
    """
    if sizes is None:
        return scores
    shares = class_shares(sizes, target.names)
    if harmonic:
        return mass_normalized(scores, shares, graph.vertices.multiplicity)
    labels = VertexLabels.of(graph.vertices, target, target.indicators(), weight)
    return fit_class_sizes(graph, scores, labels, shares, diffuse=True, kind="normalized", solver=solver,
                           execution=execution)


def mass_normalized(scores: VertexValues, shares: np.ndarray, multiplicity: np.ndarray) -> VertexValues:
    """Return scores scaled so that the mass of each class is its share (class mass normalization, Zhu et al. 2003).

    found.values (v, c) >= 0, as harmonic functions of shares of classes are.
    """
    weight = multiplicity * scores.reached
    mass = np.maximum(weight @ scores.values, np.finfo(float).tiny)
    return VertexValues(scores.values * (shares / mass * weight.sum()), scores.reached, scores.held_out,
                        {**scores.attributes, "class_shares": shares.tolist()})

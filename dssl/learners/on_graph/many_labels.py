"""With thousands of labels: harmonic functions on the graph, or nearest labeled neighbors, as a held-out share says.

One system of as many columns as classes takes any number of labels, where kernels of the labeled points do not fit.
"""

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...execution.tasks import Execution
from ...graph.graph import Graph, KNNGraph
from ...graph.index import NeighborIndex
from ...graph.weights import WeightRule
from ...solvers.solve import SolverParams
from ...storage.blocks import Rows, SelectedRows, block_rng
from ..measures import PointMeasure
from ..target import Target
from .harmonic import fit_harmonic
from .model import GraphModel, graph_model, signed

SHARE, MOST_HELD, NEAREST = 0.2, 5000, 3
HELD_STREAM = 13  # of the seed


@dataclass(frozen=True, eq=False)
class ManyLabels:
    """What predicts, values at all points (n, c), and the held-out values by which it was chosen.

    held (h,) : positions among the labels. held_out, held_out_alone (h, c) : by the graph, and by the nearest labels.
    """

    model: GraphModel
    values: np.ndarray
    held: np.ndarray
    held_out: np.ndarray
    held_out_alone: np.ndarray
    attributes: dict[str, Any] = field(default_factory=dict)


def nearest_labels(rows: Rows, target: Target, metric: str, execution: Execution) -> GraphModel:
    """Return the mean over the `NEAREST` labeled points of each point; a labeled point has its own label."""
    Y = signed(target.indicators(), target)
    index = NeighborIndex.of(SelectedRows(rows, target.labeled), metric, execution)
    return GraphModel(index, Y, np.ones(len(Y), bool), np.zeros(len(Y)), WeightRule("binary", 1.0, -np.inf),
                      min(NEAREST, len(Y)), target.coding, {})


def fit_from_many(graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, measure: PointMeasure,
                  knn: KNNGraph, solver: SolverParams, seed: int, execution: Execution) -> ManyLabels:
    """Return the one of both with the lower held-out error, fitted to all labels.

    Points that no label reaches have the value of the nearest labels. Raises NotConverged; BudgetError: an index does
    not fit.
    """
    n_labels = len(target.labeled)
    held = np.sort(block_rng(seed, HELD_STREAM).permutation(n_labels)[:min(int(SHARE * n_labels), MOST_HELD)])
    kept = np.setdiff1d(np.arange(n_labels), held)
    own_weight = None if weight is None else weight[kept]
    part = target.take(kept)
    on_graph = fit_harmonic(graph, part, own_weight, solver, execution)
    vertices = graph.vertices.vertex[target.labeled[held]]
    nearest = nearest_labels(rows, part, knn.metric, execution)
    alone = nearest.values(SelectedRows(rows, target.labeled[held]), execution)
    by_graph = np.where(on_graph.reached[vertices][:, None], signed(on_graph.values, target)[vertices], alone)
    errors = {name: float(measure.of(target.coding, values, target.coded[held]).mean())
              for name, values in (("graph", by_graph), ("nearest_labels", alone))}
    whole = nearest_labels(rows, target, knn.metric, execution)
    attributes: dict[str, Any] = {"chosen": min(errors, key=lambda name: errors[name]), "held_out_labels": len(held)}
    if attributes["chosen"] == "nearest_labels":
        return ManyLabels(whole, whole.values(rows, execution), held, by_graph, alone, attributes)
    found = fit_harmonic(graph, target, weight, solver, execution)
    values, of_point = found.values, graph.vertices.vertex
    lost = np.flatnonzero(~found.reached)
    model = graph_model(graph, rows, found, target, knn, execution)
    if len(lost):
        model.values_at[lost] = whole.values(SelectedRows(rows, graph.vertices.first[lost]), execution)
        model.reached[lost] = True
    attributes |= {**found.attributes, "unreached": int(graph.vertices.multiplicity[lost].sum())}
    return ManyLabels(model, model.values_at[of_point] if len(lost) else signed(values, target)[of_point], held,
                      by_graph, alone, attributes)

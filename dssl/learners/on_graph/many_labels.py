"""With thousands of labels: harmonic functions on the graph, or nearest labeled neighbors, as a held-out share says.

One system of as many columns as classes takes any number of labels, where kernels of the labeled points do not fit.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.knn_graph import KNNGraph
from ...solvers.solver_params import SolverParams
from ...storage.blocks import Rows, block_rng
from ...storage.views import SelectedRows
from ..class_prior import LABELS
from ..nearest import fit_nearest
from ..prior_shift import prior_shift
from ..probabilities import Calibration
from ..target.coding import Coding
from ..target.target import Target
from .harmonic import fit_harmonic
from .model import GraphModel, graph_model, signed

SHARE, MOST_HELD, NEAREST = 0.2, 5000, 3
HELD_STREAM = 13  # of the seed
# (target, coding, values (h, c), weight (h,) or None) of labels held out -> the loss by which one is chosen.
HeldOutLoss = Callable[[Target, Coding, np.ndarray, np.ndarray | None], float]


@dataclass(frozen=True, eq=False)
class ManyLabels:
    """What predicts, values at all points (n, c), and the held-out values by which it was chosen.

    alone : the nearest labels. held (h,) : positions among the labels. held_out, held_out_alone (h, c) : by the graph,
    and by the nearest labels. calibration, calibration_alone : of the margins of the chosen one of these, and of
    `held_out_alone`.
    """

    model: GraphModel
    alone: GraphModel
    values: np.ndarray
    held: np.ndarray
    held_out: np.ndarray
    held_out_alone: np.ndarray
    calibration: Calibration | None
    calibration_alone: Calibration | None
    attributes: dict[str, Any] = field(default_factory=dict)


def fit_from_many(graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, judged_by: HeldOutLoss,
                  knn: KNNGraph, solver: SolverParams, random_state: int, execution: Execution) -> ManyLabels:
    """Return the one of both with the lower held-out loss, fitted to all labels.

    Points that no label reaches have the value of the nearest labels. Raises NotConverged; BudgetError: an index does
    not fit.
    """
    n_labels = len(target.labeled)
    held = np.sort(block_rng(random_state, HELD_STREAM).permutation(n_labels)[:min(int(SHARE * n_labels), MOST_HELD)])
    kept = np.setdiff1d(np.arange(n_labels), held)
    own_weight = None if weight is None else weight[kept]
    part = target.take(kept)
    on_graph = fit_harmonic(graph, part, own_weight, solver, execution)
    vertices = graph.vertices.vertex[target.labeled[held]]
    nearest = fit_nearest(rows, part, knn.metric, execution, k=NEAREST)
    alone = nearest.values(SelectedRows(rows, target.labeled[held]), execution)
    by_graph = np.where(on_graph.reached[vertices][:, None], signed(on_graph.values, target)[vertices], alone)
    # Both are shares of labels that are near, and so know how frequent they are.
    of_graph, of_nearest = (prior_shift(target, values, target.coding, weight, LABELS, held)
                            for values in (by_graph, alone))
    by_graph = by_graph + of_graph.columns
    alone = alone + of_nearest.columns
    of_held = None if weight is None else weight[held]
    losses = {name: judged_by(target.take(held), target.coding, values, of_held)
              for name, values in (("graph", by_graph), ("nearest_labels", alone))}
    attributes: dict[str, Any] = {"chosen": min(losses, key=lambda name: losses[name]), "held_out_labels": len(held)}
    whole = fit_nearest(rows, target, knn.metric, execution, k=NEAREST).moved(of_nearest.columns)
    if attributes["chosen"] == "nearest_labels":
        return ManyLabels(whole, whole, whole.values(rows, execution), held, by_graph, alone, of_nearest.calibration,
                          of_nearest.calibration, attributes)
    harmonic = fit_harmonic(graph, target, weight, solver, execution)
    model = graph_model(graph, rows, harmonic, target, knn, execution).moved(of_graph.columns)
    lost = np.flatnonzero(~harmonic.reached)
    if len(lost):
        model.values_at[lost] = whole.values(SelectedRows(rows, graph.vertices.first[lost]), execution)
        model.reached[lost] = True
    attributes |= {**harmonic.attributes, "unreached": int(graph.vertices.multiplicity[lost].sum())}
    return ManyLabels(model, whole, model.values_at[graph.vertices.vertex], held, by_graph, alone,
                      of_graph.calibration, of_nearest.calibration, attributes)

"""The automatic model for thousands of labels: harmonic functions or k-NN, whichever has the lower held-out loss.

One system with a column for each class serves any number of labels, where kernels of the labels would not fit.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from ...base.digest import JsonObject
from ...base.errors import NotConverged
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
from .harmonic import fit_harmonic, fit_harmonics
from .model import GraphModel, VertexIndex, VertexValues, graph_model, signed

HELD_OUT_SHARE, MAX_HELD_OUT, N_NEAREST = 0.2, 5000, 3
HELD_OUT_STREAM = 13  # of the seed
ROUNDING = 1e-9  # losses that differ by a smaller share are a tie, which the graph wins on every processor
Labels = tuple[Target, np.ndarray | None]  # with their weights
# Maps target, coding, values (h, c) and weight (h,) or None of held-out labels to a loss.
HeldOutLoss = Callable[[Target, Coding, np.ndarray, np.ndarray | None], float]


@dataclass(frozen=True, eq=False)
class ManyLabelsFit:
    """The selected model with its values (n, c) at all points; `supervised` is k-NN. See `AutomaticFit`.

    held_out (h, c) : by the graph. calibration : of the selected model.
    """

    model: GraphModel
    supervised: GraphModel
    values: np.ndarray
    positions: np.ndarray
    held_out: np.ndarray
    held_out_supervised: np.ndarray
    calibration: Calibration | None
    calibration_supervised: Calibration | None
    attributes: JsonObject = field(default_factory=dict)


def _side_by_side(graph: Graph, part: Labels, whole: Labels, solver: SolverParams,
                  execution: Execution) -> tuple[VertexValues, VertexValues | None]:
    """Return the harmonic function of a part of the labels, and that of all, if there was a free core to find it.

    The graph is usually chosen, for which the second is needed. Raises NotConverged for the part alone, so that it does
    not depend on the number of cores what fails.
    """
    if execution.tasks_at_once > 1:
        with suppress(NotConverged):
            on_part, on_whole = fit_harmonics(graph, [part, whole], solver, execution)
            return on_part, on_whole
    return fit_harmonic(graph, *part, solver, execution), None


def fit_many_labels(graph: Graph, rows: Rows, target: Target, weight: np.ndarray | None, held_out_loss: HeldOutLoss,
                  knn: KNNGraph, solver: SolverParams, random_state: int, index: VertexIndex,
                  execution: Execution) -> ManyLabelsFit:
    """Return the model with the lower held-out loss, fitted to all labels; k-NN predicts unreachable points.

    Raises NotConverged; BudgetError where an index does not fit.
    """
    n_labels = len(target.labeled)
    n_held_out = min(int(HELD_OUT_SHARE * n_labels), MAX_HELD_OUT)
    test = np.sort(block_rng(random_state, HELD_OUT_STREAM).permutation(n_labels)[:n_held_out])
    train = np.setdiff1d(np.arange(n_labels), test)
    part, train_weight = target.take(train), None if weight is None else weight[train]
    on_graph, harmonic = _side_by_side(graph, (part, train_weight), (target, weight), solver, execution)
    vertices = graph.vertices.vertex[target.labeled[test]]
    nearest = fit_nearest(rows, part, knn.distance, execution, k=N_NEAREST)
    by_nearest = nearest.values(SelectedRows(rows, target.labeled[test]), execution)
    by_graph = np.where(on_graph.reachable[vertices][:, None], signed(on_graph.values, target)[vertices], by_nearest)
    # Both are averages of labels, and so assume the frequencies of the labels.
    graph_shift, nearest_shift = (prior_shift(target, values, target.coding, weight, LABELS, test)
                                  for values in (by_graph, by_nearest))
    by_graph = by_graph + graph_shift.columns
    by_nearest = by_nearest + nearest_shift.columns
    test_weight = None if weight is None else weight[test]
    graph_loss, nearest_loss = (held_out_loss(target.take(test), target.coding, values, test_weight)
                                for values in (by_graph, by_nearest))
    attributes: JsonObject = {"chosen": "nearest_labels" if nearest_loss < graph_loss * (1 - ROUNDING) else "graph",
                              "held_out_labels": n_held_out}
    supervised = fit_nearest(rows, target, knn.distance, execution, k=N_NEAREST).shifted(nearest_shift.columns)
    if attributes["chosen"] == "nearest_labels":
        return ManyLabelsFit(supervised, supervised, supervised.values(rows, execution), test, by_graph, by_nearest,
                             nearest_shift.calibration, nearest_shift.calibration, attributes)
    harmonic = harmonic or fit_harmonic(graph, target, weight, solver, execution)
    model = graph_model(graph, harmonic, target, knn, index()).shifted(graph_shift.columns)
    unreachable = np.flatnonzero(~harmonic.reachable)
    if len(unreachable):
        model.values_at[unreachable] = supervised.values(SelectedRows(rows, graph.vertices.first[unreachable]),
                                                         execution)
        model.reachable[unreachable] = True
    attributes |= {**harmonic.attributes, "unreachable": int(graph.vertices.multiplicity[unreachable].sum())}
    return ManyLabelsFit(model, supervised, model.values_at[graph.vertices.vertex], test, by_graph, by_nearest,
                         graph_shift.calibration, nearest_shift.calibration, attributes)

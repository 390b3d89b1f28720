"""The label of the nearest labeled point: what every model that knows of unlabeled points is to be compared with."""

from typing import Any

import numpy as np

from ..execution.tasks import Execution
from ..graph.index import NeighborIndex
from ..graph.weights import WeightRule
from ..storage.blocks import Rows, SelectedRows
from .on_graph.model import GraphModel, scored, signed
from .target import Target


def fit_nearest(rows: Rows, target: Target, metric: str, execution: Execution,
                attributes: dict[str, Any] | None = None) -> GraphModel:
    """Return the model that gives a point the class, or the quantities, of its nearest labeled one among rows (n, d).

    Raises BudgetError: the index of the labeled points does not fit.
    """
    m = len(target.labeled)
    return GraphModel(NeighborIndex.of(SelectedRows(rows, target.labeled), metric, execution),
                      signed(target.indicators(), target), np.ones(m, bool), np.zeros(m),
                      WeightRule("binary", 1.0, -np.inf), 1, scored(target), attributes or {})

"""The labels of the nearest labeled points: what every model that knows of unlabeled points is to be compared with."""

from typing import Any

import numpy as np

from ..execution.tasks import Execution
from ..graph.index import NeighborIndex
from ..graph.weight_rule import WeightRule
from ..storage.blocks import Rows
from ..storage.views import SelectedRows
from .on_graph.model import GraphModel, scored, signed
from .target import Target


def fit_nearest(rows: Rows, target: Target, metric: str, execution: Execution,
                attributes: dict[str, Any] | None = None, k: int = 1) -> GraphModel:
    """Return the model that gives a point the mean label of its k nearest labeled ones among rows (n, d).

    A labeled point has its own.

    Raises BudgetError: the index of the labeled points does not fit.
    """
    m = len(target.labeled)
    return GraphModel(NeighborIndex.of(SelectedRows(rows, target.labeled), metric, execution),
                      signed(target.indicators(), target), np.ones(m, bool), np.zeros(m),
                      WeightRule("binary", 1.0, -np.inf), min(k, m), scored(target), attributes or {})

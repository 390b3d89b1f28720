"""What candidates of a search are judged by, and what is kept of one for the next."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ..execution.tasks import Execution
from ..graph.graph import Graph, KNNGraph
from ..graph.shared_search import SharedSearch
from ..learners.target import Target
from ..storage.blocks import Rows
from .candidates import Fit


@dataclass(eq=False)
class Judge:
    """Points, labels, weights (l,) of these, and a measure of their predictions.

    graphs : of the points, or the one of all fits. again : whether candidates are judged more than once, so that what
    fits of a graph share (the covariance of a deformed kernel) is kept beyond them.
    """

    rows: Rows
    target: Target
    weight: np.ndarray | None
    measure: str | None
    execution: Execution
    graphs: Graph | SharedSearch
    again: bool = False
    _kept: dict[KNNGraph, dict[Any, Any]] = field(default_factory=dict)

    def rows_of(self, fits: Sequence[Sequence[Fit]],
                repetitions: Sequence[Sequence[np.ndarray]]) -> list[dict[str, Any]]:
        """Return the row of each candidate of some fits, those of one graph together, by its number."""
        found: dict[int, dict[str, Any]] = {}
        for alike in fits:
            kept = self._kept.setdefault(alike[0].graph, {})
            for fit in alike:
                if fit.uses_graph and "graph" not in kept:
                    kept["graph"] = self.graph(fit.graph)
                found |= zip(fit.numbers, fit.estimator.held_out_rows(
                    self.rows, self.target, self.weight, repetitions, fit.tried, self.measure, self.execution, kept),
                    strict=True)
            if not self.again:
                del self._kept[alike[0].graph]
        return [found[number] for number in sorted(found)]

    def graph(self, params: KNNGraph) -> Graph:
        """Return the graph of a fit."""
        return self.graphs if isinstance(self.graphs, Graph) else self.graphs.graph(params)

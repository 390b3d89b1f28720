"""What candidates of a search are judged by, and what is kept of one for the next."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..data.scaling.scaling import Scaling
from ..execution.tasks import Execution
from ..graph.graph import Graph, KNNGraph
from ..graph.shared_search import SharedSearch
from ..learners.target.target import Target
from ..storage.artifacts import Artifact
from ..storage.blocks import Rows
from .base import SearchedEstimator
from .candidates import Fit
from .kept_rows import RowStore, address_of, publish, rows_of

Repetitions = Sequence[Sequence[np.ndarray]]


@dataclass(eq=False)
class Judge:
    """Points, labels, weights (l,) of these, and the scoring of their predictions.

    graphs : of the points, or the one of all fits. store : where tables of fits are kept. again : whether candidates
    are judged more than once, so that what fits have made (the covariance of a deformed kernel, the Gram matrices of
    landmarks) is kept for their next. n_fits : that were made, not those whose tables were there.
    """

    rows: Rows
    target: Target
    weight: np.ndarray | None
    scoring: str | None
    execution: Execution
    graphs: Graph | SharedSearch
    store: RowStore | None = None
    again: bool = False
    n_fits: int = 0
    _kept: dict[tuple[KNNGraph | None, bool], dict[Any, Any]] = field(default_factory=dict)

    def rows_of(self, alike: Sequence[Fit], repetitions: Repetitions) -> dict[int, dict[str, Any]]:
        """Return the row of each candidate of some fits of one graph, by its number."""
        rows_by_number: dict[int, dict[str, Any]] = {}
        for fit in alike:
            rows_by_number |= zip(fit.numbers, self._rows_of_fit(fit, repetitions), strict=True)
        if not self.again:
            self._kept.clear()
        return rows_by_number

    def _rows_of_fit(self, fit: Fit, repetitions: Repetitions) -> list[dict[str, Any]]:
        table = self.table(fit, repetitions)
        if table is not None and table.exists:
            return rows_of(table)
        kept = self._kept.setdefault((fit.graph, fit.uses_graph), {"again": self.again})
        if fit.uses_graph and "graph" not in kept:
            assert fit.graph is not None
            kept["graph"] = self.graph(fit.graph)
        weight = fit.estimator._weighted(self.target, self.weight)
        rows_of_fit = fit.estimator.held_out_rows(self.rows, self.target, weight, repetitions, fit.tried, self.scoring,
                                            self.execution, kept)
        self.n_fits += 1
        if table is not None:
            publish(table, rows_of_fit)
        return rows_of_fit

    def graph(self, params: KNNGraph) -> Graph:
        """Return the graph of a fit."""
        return self.graphs if isinstance(self.graphs, Graph) else self.graphs.graph(params)

    @cached_property
    def _given(self) -> str:
        assert isinstance(self.graphs, Graph)
        return address_of(self.graphs)

    def table(self, fit: Fit, repetitions: Repetitions) -> Artifact | None:
        """Return where the table of a fit is kept, whether it is there yet or not; None where none is kept."""
        if self.store is None:
            return None
        graph = "none" if fit.graph is None else f"none, {fit.graph.duplicates}"
        if fit.uses_graph:
            assert fit.graph is not None
            graph = self._given if isinstance(self.graphs, Graph) else self.graphs.artifact(fit.graph).address
        return self.store.table(fit, graph, repetitions, self.scoring)


@dataclass(eq=False)
class Judges:
    """The judges of a search: one of each scaling of the features that its candidates ask for.

    judges : by `kind` of the scaling, which tells it, since all are of the same points. scalings : by what candidates
    ask for. given : the graph of all fits, or None.
    """

    judges: dict[str, Judge]
    scalings: dict[str, Scaling]
    given: Graph | None

    def rows_of(self, fits: Sequence[Sequence[Fit]], repetitions: Repetitions) -> list[dict[str, Any]]:
        """Return the row of each candidate of some fits, those of one graph together, in the order of their numbers."""
        rows_by_number: dict[int, dict[str, Any]] = {}
        for alike in fits:
            for scale in dict.fromkeys(fit.estimator.scale for fit in alike):
                of_scale = [fit for fit in alike if fit.estimator.scale == scale]
                rows_by_number |= self._of(scale).rows_of(of_scale, repetitions)
        return [rows_by_number[number] for number in sorted(rows_by_number)]

    def graph(self, estimator: SearchedEstimator) -> Graph:
        """Return the graph of an estimator, with the scaling of its features."""
        if self.given is not None:
            return self.given
        return self._of(estimator.scale).graph(estimator.group("graph")).of_features(self.scalings[estimator.scale])

    def counts(self) -> tuple[int, int, int]:
        """Return how many graphs were made, how many searches of neighbors, and how many fits."""
        made = [judge.graphs for judge in self.judges.values() if isinstance(judge.graphs, SharedSearch)]
        return (sum(judge.n_made for judge in made), sum(judge.n_searches for judge in made),
                sum(judge.n_fits for judge in self.judges.values()))

    def _of(self, scale: str) -> Judge:
        return self.judges[self.scalings[scale].kind]

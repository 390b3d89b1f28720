"""Graphs of the same points from one search of neighbors, where that is all that they need.

A list of the k nearest is the beginning of one of more, so a search for the most neighbors that any of some graphs has
serves them all; their weights are made of the beginnings of its lists.
"""

from collections.abc import Iterable

from ..execution.tasks import Execution
from ..storage.blocks import Rows
from .graph import Graph, KNNGraph
from .neighbor_lists import Neighbors
from .neighbors import ALWAYS_EXACT_ROWS, lowered_neighbors
from .recall import certify_recall
from .vertices import distinct_rows


def search_of(params: KNNGraph, n: int) -> KNNGraph:
    """Return what the lists of a graph of n points depend on but for their length; equal where one search serves.

    That is the metric, whether duplicates collapse, and the method; of a method that is not known to be exact before it
    runs, the seed too.
    """
    exact = params.method == "exact" or (params.method == "auto" and n <= ALWAYS_EXACT_ROWS)
    return KNNGraph(metric=params.metric, duplicates=params.duplicates, method="exact" if exact else params.method,
                    seed=0 if exact else params.seed)


class SharedSearch:
    """The graphs of points (n, d), each made when it is first asked for, on one search for all that search alike.

    An exact search gives the graphs that `KNNGraph.build` gives, to the bit. NN-descent is run for the largest
    `n_neighbors`, and the beginnings of its lists are in general not those of a search for fewer: they have a recall of
    their own, which is certified. "auto" chooses between the two by the largest.

    params : of all graphs that may be asked for. n_searches : that were made.
    """

    def __init__(self, rows: Rows, params: Iterable[KNNGraph], execution: Execution):
        self.rows, self.execution, self.n_searches = rows, execution, 0
        self._made: dict[KNNGraph, Graph] = {}
        self._widest: dict[KNNGraph, KNNGraph] = {}
        for own in params:
            other = self._widest.setdefault(search_of(own, len(rows)), own)
            if own.n_neighbors > other.n_neighbors:
                self._widest[search_of(own, len(rows))] = own

    def __len__(self) -> int:
        """Return the number of graphs that were made."""
        return len(self._made)

    def graph(self, params: KNNGraph) -> Graph:
        """Return a graph; errors and warnings as of `KNNGraph.build`."""
        if params not in self._made:
            self._made[params] = self._make(params)
        return self._made[params]

    def _make(self, params: KNNGraph) -> Graph:
        widest = self._widest[search_of(params, len(self.rows))]
        if params == widest:
            self.n_searches += 1
            return params.build(self.rows, self.execution)
        source = self.graph(widest)
        assert source.neighbors is not None
        k = lowered_neighbors(params.search, len(source.vertices), "distinct points").n_neighbors
        lists = source.neighbors.first(k)
        if lists.attributes["method"] == "descent" and k < source.neighbors.k:
            recall = certify_recall(distinct_rows(self.rows, source.vertices, self.execution), lists, seed=params.seed)
            lists = Neighbors(lists.ids, lists.distances, {**lists.attributes, "recall": recall})
        return params.weighed(source.vertices, lists, self.execution, self.execution.scratch())

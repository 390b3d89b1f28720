"""Graphs of the same points from one search of neighbors, where that is all that they need.

A list of the k nearest is the beginning of one of more, so a search for the most neighbors that any of some graphs has
serves them all; their weights are made of the beginnings of its lists.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ..execution.tasks import Execution
from ..knn.lists import Neighbors
from ..knn.recall import certify_recall
from ..knn.search import ALWAYS_EXACT_ROWS, lowered_neighbors
from ..storage.artifacts import Artifact, Workspace
from ..storage.blocks import Parts, Rows, write_dense
from .graph import VERSIONS, Graph, KNNGraph
from .vertices import Vertices, distinct_rows

LIST_ROWS = 1 << 16  # lists in one chunk


def search_of(params: KNNGraph, n: int) -> KNNGraph:
    """Return what the lists of a graph of n points depend on but for their length; equal where one search serves.

    That is the metric, whether duplicates collapse, and the method; of a method that is not known to be exact before it
    runs, the seed too.
    """
    exact = params.method == "exact" or (params.method == "auto" and n <= ALWAYS_EXACT_ROWS)
    return KNNGraph(metric=params.metric, duplicates=params.duplicates, method="exact" if exact else params.method,
                    random_state=0 if exact else params.random_state,
                    recall=KNNGraph.recall if exact else params.recall)


@dataclass(frozen=True)
class GraphStore:
    """Where graphs of some points are kept, each as an artifact; points : the digest of their rows."""

    workspace: Workspace
    points: str

    def artifact(self, params: KNNGraph, searched_for: int | None) -> Artifact:
        """Return the artifact of a graph; searched_for : the neighbors of its search, None where lists are exact."""
        return self.workspace.artifact("knn_graph", 1, {
            "graph": params, "searched_for": searched_for, "versions": VERSIONS}, {"points": self.points})


def opened(artifact: Artifact) -> Graph:
    """Return the graph of an artifact that is complete; raise IntegrityError if it is damaged."""
    attributes, parts, lists = artifact.attributes, artifact.parts, artifact.parts.within("neighbors")
    return Graph(Vertices.from_arrays(parts.within("vertices").read(0)), parts,
                 Neighbors.stored(lists, attributes["neighbors"]), attributes)


class SharedSearch:
    """The graphs of points (n, d), each made when it is first asked for, on one search for all that search alike.

    An exact search gives the graphs that `KNNGraph.of_scaled` gives, to the bit. NN-descent is run for the largest
    `n_neighbors`, and the beginnings of its lists are in general not those of a search for fewer: they have a recall of
    their own, which is certified. "auto" chooses between the two by the largest.

    params : of all graphs that may be asked for. kept : where graphs are kept; those that are there are not made.
    n_made, n_searches : graphs that were made, and searches.
    """

    def __init__(self, rows: Rows, params: Iterable[KNNGraph], execution: Execution, kept: GraphStore | None = None):
        self.rows, self.execution, self.kept, self.n_made, self.n_searches = rows, execution, kept, 0, 0
        self._held: dict[KNNGraph, Graph] = {}
        self._widest: dict[KNNGraph, KNNGraph] = {}
        for each in params:
            other = self._widest.setdefault(search_of(each, len(rows)), each)
            if each.n_neighbors > other.n_neighbors:
                self._widest[search_of(each, len(rows))] = each

    def artifact(self, params: KNNGraph) -> Artifact:
        """Return where a graph is kept, whether it is there yet or not."""
        assert self.kept is not None
        search = search_of(params, len(self.rows))
        return self.kept.artifact(params, None if search.method == "exact" else self._widest[search].n_neighbors)

    def graph(self, params: KNNGraph) -> Graph:
        """Return a graph; errors and warnings as of `KNNGraph.build`. IntegrityError : one that is kept is damaged."""
        if params not in self._held:
            self._held[params] = self._make(params, None) if self.kept is None else self._stored(params)
        return self._held[params]

    def _stored(self, params: KNNGraph) -> Graph:
        """Return a graph as it is kept; it is made if it is not there."""
        artifact = self.artifact(params)
        if not artifact.exists:
            artifact.begin({"memory_budget": self.execution.memory_budget})
            made = self._make(params, artifact.parts)
            artifact.parts.within("vertices").write(0, made.vertices.to_arrays())
            artifact.publish(made.attributes)
        return opened(artifact)

    def _make(self, params: KNNGraph, parts: Parts | None) -> Graph:
        """Return a graph that is made, and written to parts."""
        widest, self.n_made = self._widest[search_of(params, len(self.rows))], self.n_made + 1
        if params == widest:
            self.n_searches += 1
            return params.of_scaled(self.rows, self.execution, parts)
        source = self.graph(widest)
        assert source.neighbors is not None
        k = lowered_neighbors(params.search, len(source.vertices), "distinct points").n_neighbors
        lists = source.neighbors.first(k)
        if lists.attributes["method"] != "exact" and k < source.neighbors.k:
            recall = certify_recall(distinct_rows(self.rows, source.vertices, self.execution), lists,
                                    random_state=params.random_state, execution=self.execution)
            lists = replace(lists, attributes={**lists.attributes, "recall": recall})
        if parts is not None:
            searched = parts.within("neighbors")
            for name, rows in (("ids", lists.ids), ("distances", lists.distances), ("order", lists.order)):
                if rows is not None:
                    write_dense(rows, searched, name, LIST_ROWS)
            lists = Neighbors.stored(searched, lists.attributes)
        return params.weighed(source.vertices, lists, self.execution, parts or self.execution.scratch())

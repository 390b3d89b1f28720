"""`Graph`: vertices, weights and neighbor lists."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..base.digest import JsonObject
from ..base.errors import require
from ..base.notebook import values_table
from ..data.scaling.scaling import Scaling
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..knn.lists import Neighbors
from ..storage.blocks import Arrays, MemoryParts, Parts, PartWriter, Rows
from .given import WeightsOrLists, checked_neighbors, checked_weights, described_weights, store_weights, warn_full
from .vertices import Vertices
from .weights.build import read_graph, row_receipts, weigh
from .weights.rules import WIDTH, SelfTuned, WeightParams, warn_raised


@dataclass(frozen=True, repr=False)
class Graph:
    """A weighted graph of n points.

    It is made by `KNNGraph.build`, or of weights or neighbor lists by `Graph.of`.

    Parameters
    ----------
    vertices : Vertices
        The vertex of each point. Duplicates may share a vertex.
    stored : Parts
        The symmetric weights of the vertices, shape (v, v), in blocks of rows.
    neighbors : Neighbors or None
        The neighbor lists of the vertices; None where the weights were given.
    attributes : dict
        The attributes of the `neighbors` and of the `weights`, as JSON.
    keeper : Execution or None
        The execution whose scratch holds the weights; it has to outlive them.
    scaling : Scaling or None
        The scaling of the features from which the lists were made; None where weights
        or lists were given.

    See Also
    --------
    KNNGraph : How a graph of nearest neighbors is made from points.

    Examples
    --------
    >>> import scipy.sparse as sp
    >>> from dssl import Graph
    >>> path = Graph.of(sp.csr_array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    >>> path
    Graph(3 points, 3 vertices, 2 edges)
    >>> path.components()
    array([0, 0, 0], dtype=int32)
    """

    vertices: Vertices
    stored: Parts
    neighbors: Neighbors | None = None
    attributes: JsonObject = field(default_factory=dict)
    keeper: Execution | None = field(default=None, compare=False)
    scaling: Scaling | None = None

    @classmethod
    def of(cls, given: WeightsOrLists, *, weights: str = SelfTuned.name, bandwidth: float | None = None,
           width: float = WIDTH, symmetrize: str = "maximum", execution: Execution | None = None) -> "Graph":
        """Return the graph of given weights or neighbor lists.

        Each of the n points is a vertex, whether or not another point equals it.

        Parameters
        ----------
        given : sparse matrix, Neighbors or pair of arrays
            A sparse matrix of weights, shape (n, n); or neighbor lists, as `Neighbors`
            or as the pair (ids, distances), both of shape (n, k). A point's own id in
            its list is dropped.
        weights : {"self_tuned", "heat", "binary"}
            How the distance of two neighbors becomes a weight. Given weights stay as
            they are, and then neither this nor the next three parameters are read.
        bandwidth : float or None
            The bandwidth of heat weights, in units of distance; None takes the median
            distance to the k-th neighbor.
        width : float
            The width of self-tuned weights, in units of the distances to the k-th
            neighbors.
        symmetrize : {"maximum", "minimum", "mean"}
            How the two directed weights of a pair become one.
        execution : Execution or None
            Where the tasks run; None is the active Dask client, or threads of this
            process.

        Returns
        -------
        Graph
            The graph of the n points.

        Raises
        ------
        DataError
            The weights are not symmetric, finite and non-negative, or the lists are not
            of these points.
        ParameterError
            `given` has none of these forms.

        Warns
        -----
        WeightsRaised
            Weights below 1e-10 of the median were raised to that floor.
        GraphFull
            Most pairs of points are joined by an edge.
        """
        execution = execution or current_execution()
        stored = execution.scratch()
        if isinstance(given, (sp.sparray, sp.spmatrix)):
            receipt = store_weights(checked_weights(given, given.shape[0]), PartWriter(stored, 0))
            stored.finish(0, receipt)
            lists, described_lists, described = None, {"method": "given"}, described_weights(receipt)
        else:
            params = WeightParams(weights=weights, bandwidth=bandwidth, width=width,
                                  symmetrize=symmetrize)  # type: ignore[arg-type]
            lists = checked_neighbors(given).shared(execution)
            described_lists, described = lists.attributes, weigh(lists, params, execution, stored)
        warn_raised(described)
        warn_full(described)
        attributes = {"neighbors": described_lists, "weights": described}
        return cls(Vertices.distinct(described["n"]), stored, lists, attributes, execution)

    @property
    def n(self) -> int:
        """The number of points."""
        return len(self.vertices.vertex)

    @property
    def order(self) -> Rows | None:
        """The vertex at each position of an order in which near vertices lie together.

        It has the shape (v,), and is None where the neighbor search had no such order.
        """
        return None if self.neighbors is None else self.neighbors.order

    def weights(self) -> sp.csr_array:
        """Return the weights of the vertices.

        Returns
        -------
        sparse array, shape (v, v)
            CSR with sorted indices, float64, and a diagonal of zeros.
        """
        return read_graph(self.stored)

    def components(self) -> np.ndarray:
        """Return the number of the connected component of each vertex.

        Returns
        -------
        ndarray, shape (v,)
            Numbers from 0.
        """
        return connected_components(self.weights(), directed=False)[1]

    def shared_vertices(self, execution: Execution) -> Arrays | None:
        """Return the vertices in storage that every task can load.

        Parameters
        ----------
        execution : Execution
            Where the tasks run.

        Returns
        -------
        Arrays or None
            The vertices; None where each is one point.
        """
        return execution.share(**self.vertices.to_arrays()) if self.vertices.joined else None

    def subgraph(self, selected: np.ndarray, execution: Execution) -> "Graph":
        """Return the graph of some vertices, with the edges between them.

        Parameters
        ----------
        selected : ndarray of bool, shape (v,)
            The vertices to select. The points of all other vertices are not in the
            subgraph.
        execution : Execution
            In whose scratch the weights are stored.

        Returns
        -------
        Graph
            The graph of the points of these vertices; itself if all are selected.
        """
        if selected.all():
            return self
        new_number = np.cumsum(selected) - 1
        vertex = self.vertices.vertex[selected[self.vertices.vertex]]
        first = np.unique(vertex, return_index=True)[1]
        stored = execution.scratch()
        receipt = store_weights(self.weights()[selected][:, selected], PartWriter(stored, 0))
        stored.finish(0, receipt)
        return Graph(Vertices(new_number[vertex], first, self.vertices.multiplicity[selected]), stored, None,
                     {"neighbors": {"method": "given"}, "weights": described_weights(receipt)}, execution)

    def shared(self, execution: Execution) -> "Graph":
        """Return the graph in storage that every task of an execution can read.

        Parameters
        ----------
        execution : Execution
            Where the tasks run.

        Returns
        -------
        Graph
            The same graph, in shared storage.
        """
        stored = execution.scratch()
        if not isinstance(self.stored, MemoryParts) or isinstance(stored, MemoryParts):
            return self
        for index, receipt in enumerate(row_receipts(self.stored, len(self.vertices))):
            stored.write(index, self.stored.read(index))
            stored.finish(index, receipt)
        lists = None if self.neighbors is None else self.neighbors.shared(execution)
        return replace(self, stored=stored, neighbors=lists, keeper=execution)

    def of_features(self, scaling: Scaling) -> "Graph":
        """Return the graph with the scaling of the features from which it was made.

        Parameters
        ----------
        scaling : Scaling
            The scaling that estimators apply to new points.

        Returns
        -------
        Graph
            The same graph, which knows its scaling.
        """
        return replace(self, scaling=scaling, attributes={**self.attributes, "scaling": scaling.to_arrays()[1]})

    def __repr__(self) -> str:
        return f"Graph({self.n} points, {len(self.vertices)} vertices, {self.attributes['weights']['nnz'] // 2} edges)"

    def _repr_html_(self) -> str:
        lists, weights = self.attributes["neighbors"], self.attributes["weights"]
        return values_table("Graph", {
            "points": f"{self.n:,}", "vertices": f"{len(self.vertices):,}", "edges": f"{weights['nnz'] // 2:,}",
            "neighbors": lists.get("n_neighbors"), "metric": lists.get("metric"), "search": lists.get("method"),
            "weights": weights.get("weights"), "features": self.attributes.get("scaling", {}).get("kind")})

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the state of a pickle: the arrays, without the execution that stores them."""
        return Graph.from_arrays, (self.to_arrays(), self.attributes)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes beside the attributes.

        Returns
        -------
        dict of ndarray
            The arrays by name; 12 bytes for an edge in each direction.
        """
        W = self.weights()
        lists = {} if self.neighbors is None else self.neighbors.to_arrays()
        scaling = {} if self.scaling is None else self.scaling.to_arrays()[0]
        return {**self.vertices.to_arrays(), **lists, **scaling, "data": W.data, "indices": W.indices,
                "indptr": W.indptr}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "Graph":
        """Return the graph that `to_arrays` and `attributes` describe.

        Parameters
        ----------
        arrays : dict of ndarray
            What `to_arrays` returned.
        attributes : dict
            The attributes of the graph.

        Returns
        -------
        Graph
            The graph, with its arrays in this process.
        """
        vertices, stored = Vertices.from_arrays(arrays), MemoryParts()
        stored.write(0, {name: arrays[name] for name in ("data", "indices", "indptr")})
        stored.finish(0, {"rows": [0, len(vertices)], "n": len(vertices), "nnz": len(arrays["data"])})
        lists = Neighbors.from_arrays(arrays, attributes["neighbors"]) if "ids" in arrays else None
        scaling = Scaling.from_arrays(arrays, attributes["scaling"]) if "scaling" in attributes else None
        return cls(vertices, stored, lists, attributes, scaling=scaling)


def require_graph(graph: object) -> None:
    """Raise ParameterError unless it is a `Graph`."""
    require(isinstance(graph, Graph), f"graph is a {type(graph).__name__}, expected a Graph",
            why="the model reads its vertices and weights", fix="pass KNNGraph().build(X), or Graph.of(weights)")

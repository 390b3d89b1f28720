"""`KNNGraph`, how a graph is made of points, and `Graph`, what is made: vertices, weights, neighbor lists."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..base.digest import require_random_state
from ..base.errors import DataError, require
from ..data.scaling.rows import scaled
from ..data.scaling.scaling import Scaling, ScalingKind, ScalingParams, fit_scaling
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..knn.lists import Neighbors
from ..knn.metric import Euclidean
from ..knn.params import MetricName, NeighborParams
from ..knn.recall import certify_recall
from ..knn.search import ALWAYS_EXACT_ROWS, find_neighbors, lowered_neighbors
from ..storage.blocks import Arrays, MemoryParts, Parts, PartWriter, Rows, write_dense
from ..storage.csr import as_rows
from .given import checked_neighbors, checked_weights, described_weights, store_weights, warn_full
from .vertices import Vertices, distinct_rows, find_vertices, require_distinct
from .weights.build import read_graph, row_receipts, weigh
from .weights.rules import WIDTH, SelfTuned, WeightParams, WeightsName, warn_raised

LIST_ROWS = 1 << 16  # lists in one chunk
VERSIONS = {"vertices": 3, "neighbors": 6, "graph": 5}  # of the code of each step; to be raised when its output changes


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
    attributes: dict[str, Any] = field(default_factory=dict)
    keeper: Execution | None = field(default=None, compare=False)
    scaling: Scaling | None = None

    @classmethod
    def of(cls, given: Any, *, weights: str = SelfTuned.name, bandwidth: float | None = None, width: float = WIDTH,
           symmetrize: str = "maximum", execution: Execution | None = None) -> "Graph":
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
        if sp.issparse(given):
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
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "Graph":
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


@dataclass(frozen=True, kw_only=True)
class KNNGraph:
    """How a graph of nearest neighbors is made from points.

    Estimators take it as their parameter `graph`; `build` makes the graph of an array.

    Parameters
    ----------
    n_neighbors : int
        The number of neighbors of each point, itself not counted. With fewer distinct
        points it is lowered, with a warning.
    metric : str
        The distance of the neighbor search: euclidean; cosine, the Euclidean distance
        between the rows scaled to unit length; or one that a plugin registers.
    method : "auto", "exact", "descent" or "partitioned"
        How neighbors are found: exactly; by NN-descent in one task; or by partitions,
        in tasks of any number of dense points.
    weights : str
        How the distance of two neighbors becomes a weight: binary, heat, self_tuned, or
        a rule that a plugin registers.
    bandwidth : float or None
        The bandwidth of heat weights, in units of distance; None takes the median
        distance to the k-th neighbor.
    width : float
        The width of self-tuned weights, in units of the distances to the k-th
        neighbors.
    symmetrize : "maximum", "minimum" or "mean"
        How the two directed weights of a pair become one.
    duplicates : "collapse" or "keep"
        "collapse" makes equal rows one vertex that counts as many points; "keep" makes
        each row a vertex, whose nearest neighbors are then its duplicates.
    random_state : int
        The seed of the approximate searches and of the sample that certifies them.
    recall : float
        The share of true neighbors that an approximate search has to find. A
        partitioned search continues until a sample certifies it; NN-descent is repeated
        once with longer lists if it finds fewer.

    Raises
    ------
    ParameterError
        A value is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import KNNGraph
    >>> KNNGraph(n_neighbors=2).build(np.random.default_rng(0).normal(size=(50, 3)))
    Graph(50 points, 50 vertices, 70 edges)
    """

    n_neighbors: int = 10
    metric: MetricName = Euclidean.name
    method: Literal["auto", "exact", "descent", "partitioned"] = "auto"
    weights: WeightsName = SelfTuned.name
    bandwidth: float | None = None
    width: float = WIDTH
    symmetrize: Literal["maximum", "minimum", "mean"] = "maximum"
    duplicates: Literal["collapse", "keep"] = "collapse"
    random_state: int = 0
    recall: float = 0.95

    def __post_init__(self) -> None:
        require_random_state(self.random_state)
        _ = self.search, self.weighting  # raises where one of their parameters is out of range
        require(self.duplicates in ("collapse", "keep"), f"duplicates={self.duplicates!r}",
                why="equal rows are one vertex of the graph, or one each", fix='use "collapse" or "keep"')

    @property
    def search(self) -> NeighborParams:
        """How neighbors are found."""
        return NeighborParams(n_neighbors=self.n_neighbors, metric=self.metric, method=self.method,
                              random_state=self.random_state, recall=self.recall)

    @property
    def weighting(self) -> WeightParams:
        """How neighbor lists become weights."""
        return WeightParams(weights=self.weights, bandwidth=self.bandwidth, width=self.width,
                            symmetrize=self.symmetrize)

    def vertices(self, rows: Rows, execution: Execution, parts: Parts | None = None) -> Vertices:
        """Return the vertices of rows; equal rows share one if duplicates collapse.

        Parameters
        ----------
        rows : Rows
            The points, shape (n, d).
        execution : Execution
            Where the tasks run.
        parts : Parts or None
            Where the hashes of the rows are written; None is the execution's scratch.

        Returns
        -------
        Vertices
            The vertex of each row.
        """
        return find_vertices(rows, execution, parts) if self.duplicates == "collapse" else Vertices.distinct(len(rows))

    def build(self, rows: Any, execution: Execution | None = None, parts: Parts | None = None, *,
              scale: ScalingKind = "auto") -> Graph:
        """Return the graph of rows, dense or sparse.

        Parameters
        ----------
        rows : array-like, sparse matrix or Rows
            The points, shape (n, d).
        execution : Execution or None
            Where the tasks run; None is the active Dask client, or threads of this
            process.
        parts : Parts or None
            Where weights and lists are written. A killed build that is restarted reuses
            finished blocks. None is the execution's scratch.
        scale : str
            How the features are scaled, as in the estimators. An estimator that is
            given the graph takes over its scaling.

        Returns
        -------
        Graph
            The graph, with the scaling of its features.

        Raises
        ------
        DataError
            A value is not a finite number, or all rows are equal; see also `neighbors`.

        Warns
        -----
        UserWarning
            n_neighbors was lowered.
        WeightsRaised
            Weights below 1e-10 of the median were raised to that floor.
        """
        execution, params = execution or current_execution(), ScalingParams(kind=scale)
        rows = execution.share_rows(as_rows(rows))
        scaling = fit_scaling(rows, None, params, execution)
        return self.of_scaled(scaled(rows, scaling, execution), execution, parts).of_features(scaling)

    def of_scaled(self, rows: Rows, execution: Execution, parts: Parts | None = None) -> Graph:
        """Return the graph of rows as they are, as `build` does with `scale="none"`.

        Parameters
        ----------
        rows : Rows
            The points, shape (n, d).
        execution : Execution
            Where the tasks run.
        parts : Parts or None
            Where weights and lists are written; None is the execution's scratch.

        Returns
        -------
        Graph
            The graph, without a scaling.
        """
        stored = execution.scratch() if parts is None else parts
        points = self.vertices(rows, execution, None if parts is None else parts.within("hashes"))
        require_distinct(len(points) > 1, f"all {len(rows)} points are equal" if len(rows) > 1 else "X holds 1 sample")
        search = lowered_neighbors(self.search, len(points), "distinct points")
        lists = find_neighbors(distinct_rows(rows, points, execution), search, execution, stored.within("neighbors"))
        return self.weighed(points, lists, execution, stored)

    def searched_alike(self, n: int) -> "KNNGraph":
        """Return what the neighbor lists of n points depend on but for their length.

        A list of the k nearest is the beginning of one of more, so that graphs of equal
        results share one search, the one for the most neighbors.

        Parameters
        ----------
        n : int
            The number of points.

        Returns
        -------
        KNNGraph
            The metric, whether duplicates collapse, and the method; of a method that is
            not known to be exact before it runs, the seed and the recall too.
        """
        exact = self.method == "exact" or (self.method == "auto" and n <= ALWAYS_EXACT_ROWS)
        alike = KNNGraph(metric=self.metric, duplicates=self.duplicates, method="exact" if exact else self.method)
        return alike if exact else replace(alike, random_state=self.random_state, recall=self.recall)

    def of_wider(self, wider: Graph, rows: Rows, execution: Execution, parts: Parts | None = None) -> Graph:
        """Return the graph of the beginnings of longer lists, whose recall is certified where they are not exact.

        Parameters
        ----------
        wider : Graph
            A graph of the same points, of a search for as many neighbors or more.
        rows : Rows
            The points, shape (n, d).
        execution : Execution
            Where the tasks run.
        parts : Parts or None
            Where weights and lists are written; None is the execution's scratch.

        Returns
        -------
        Graph
            The graph, which knows of no scaling.
        """
        assert wider.neighbors is not None
        k = lowered_neighbors(self.search, len(wider.vertices), "distinct points").n_neighbors
        lists = wider.neighbors.first(k)
        if lists.attributes["method"] != "exact" and k < wider.neighbors.k:
            recall = certify_recall(distinct_rows(rows, wider.vertices, execution), lists,
                                    random_state=self.random_state, execution=execution)
            lists = replace(lists, attributes={**lists.attributes, "recall": recall})
        if parts is not None:
            searched = parts.within("neighbors")
            for name, array in (("ids", lists.ids), ("distances", lists.distances), ("order", lists.order)):
                if array is not None:
                    write_dense(array, searched, name, LIST_ROWS)
            lists = Neighbors.stored(searched, lists.attributes)
        return self.weighed(wider.vertices, lists, execution, parts or execution.scratch())

    def weighed(self, points: Vertices, lists: Neighbors, execution: Execution, parts: Parts) -> Graph:
        """Return the weighted graph of neighbor lists of any search.

        Parameters
        ----------
        points : Vertices
            The vertex of each point.
        lists : Neighbors
            The neighbor lists of the vertices.
        execution : Execution
            Where the tasks run.
        parts : Parts
            Where the weights are written.

        Returns
        -------
        Graph
            The weighted graph.
        """
        described = weigh(lists, self.weighting, execution, parts)
        warn_raised(described, stacklevel=5)
        return Graph(points, parts, lists, {"neighbors": lists.attributes, "weights": described}, execution)


def require_graph(graph: Any) -> None:
    """Raise ParameterError unless it is a `Graph`."""
    require(isinstance(graph, Graph), f"graph is a {type(graph).__name__}, expected a Graph",
            why="the model reads its vertices and weights", fix="pass KNNGraph().build(X), or Graph.of(weights)")


def graph_of(rows: Rows, params: KNNGraph, execution: Execution, given: Any = None) -> Graph:
    """Return the graph of rows (n, d), readable by every task: the given one, or one made by `params`.

    given : a `Graph`, or what `Graph.of` takes; lists get the weights of `params`.

    Raises
    ------
    DataError : a graph of another number of points; see also `Graph.of` and `KNNGraph.build`.
    """
    if given is None:
        return params.of_scaled(rows, execution)
    graph = given if isinstance(given, Graph) else Graph.of(
        given, weights=params.weights, bandwidth=params.bandwidth, width=params.width, symmetrize=params.symmetrize,
        execution=execution)
    require(graph.n == len(rows), f"the graph has {graph.n} points, X has {len(rows)}", error=DataError,
            why="vertex i of the graph is point i", fix="pass the graph of exactly these points, in their order")
    return graph.shared(execution)

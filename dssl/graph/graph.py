"""`KNNGraph`, how a graph is made of points, and `Graph`, what is made: vertices, weights, neighbor lists."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import connected_components

from ..base.digest import require_random_state
from ..base.errors import DataError, require
from ..data.scaling.params import ScalingKind, ScalingParams
from ..data.scaling.rows import scaled
from ..data.scaling.scaling import Scaling, fit_scaling
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..knn.lists import Neighbors
from ..knn.params import NeighborParams
from ..knn.search import find_neighbors, lowered_neighbors
from ..storage.blocks import Arrays, MemoryParts, Parts, PartWriter, Rows
from ..storage.csr import as_rows
from .given import checked_neighbors, checked_weights, described_weights, store_weights, warn_full
from .vertices import Vertices, distinct_rows, find_vertices, require_distinct
from .weights.build import read_graph, row_receipts, weigh
from .weights.rules import WIDTH, WeightParams, warn_raised

VERSIONS = {"vertices": 3, "neighbors": 6, "graph": 5}  # of the code of each step; to be raised when its output changes


@dataclass(frozen=True, repr=False)
class Graph:
    """A weighted graph of n points. It is made by `KNNGraph.build`, or of what one has by `Graph.of`.

    vertices : the vertex of each point; copies may be one vertex.
    stored : the symmetric weights (v, v) of the vertices, in blocks of rows as `weigh` writes them.
    neighbors : the lists of the vertices; None where weights were brought.
    attributes : what is known of `neighbors` and `weights`; JSON.
    keeper : what has to live as long as the stored weights: the execution in whose scratch they lie.
    scaling : of the features of which its lists were made; None where weights or lists were brought.
    """

    vertices: Vertices
    stored: Parts
    neighbors: Neighbors | None = None
    attributes: dict[str, Any] = field(default_factory=dict)
    keeper: Execution | None = field(default=None, compare=False)
    scaling: Scaling | None = None

    @classmethod
    def of(cls, given: Any, *, weights: str = "self_tuned", bandwidth: float | None = None, width: float = WIDTH,
           symmetrize: str = "maximum", execution: Execution | None = None) -> "Graph":
        """Return a graph that one has; each of its n points is a vertex, whatever else is equal to it.

        Parameters
        ----------
        given : a sparse matrix (n, n) of weights, or `Neighbors`, or the pair (ids, distances), both (n, k), of which
            a point's own id is dropped and whose weights are made as `weights`, `bandwidth`, `width` and `symmetrize`
            say (see `WeightParams`).

        Raises
        ------
        DataError : weights that are not symmetric, finite and non-negative; lists that are not of these points.
        ParameterError : none of these forms.

        Warns
        -----
        WeightsRaised : weights below 1e-10 of the median were raised to that floor. GraphFull : most pairs are joined.
        """
        execution = execution or current_execution()
        stored = execution.scratch()
        if sp.issparse(given):
            receipt = store_weights(checked_weights(given, given.shape[0]), PartWriter(stored, 0))
            stored.finish(0, receipt)
            lists, known, described = None, {"method": "given"}, described_weights(receipt)
        else:
            params = WeightParams(weights=weights, bandwidth=bandwidth, width=width,  # type: ignore[arg-type]
                                  symmetrize=symmetrize)  # type: ignore[arg-type]
            lists = checked_neighbors(given).shared(execution)
            known, described = lists.attributes, weigh(lists, params, execution, stored)
        warn_raised(described)
        warn_full(described)
        return cls(Vertices.distinct(described["n"]), stored, lists, {"neighbors": known, "weights": described},
                   execution)

    @property
    def n(self) -> int:
        """Return the number of points."""
        return len(self.vertices.vertex)

    @property
    def order(self) -> Rows | None:
        """Return the vertex at each place of an order in which neighbors are near, (v,), where the search had one."""
        return None if self.neighbors is None else self.neighbors.order

    def weights(self) -> sp.csr_array:
        """Return the weights of the vertices, (v, v); sorted indices, float64, zero diagonal."""
        return read_graph(self.stored)

    def components(self) -> np.ndarray:
        """Return the number of the component of each vertex (v,), from 0."""
        return connected_components(self.weights(), directed=False)[1]

    def copies(self, execution: Execution) -> Arrays | None:
        """Return the vertices in a form that every task can load; None where each is one point."""
        return execution.share(**self.vertices.to_arrays()) if self.vertices.joined else None

    def among(self, kept: np.ndarray, execution: Execution) -> "Graph":
        """Return the graph of some vertices, kept (v,) bool, with the edges between them; of their points alone."""
        if kept.all():
            return self
        place = np.cumsum(kept) - 1
        own = self.vertices.vertex[kept[self.vertices.vertex]]
        first = np.unique(own, return_index=True)[1]
        stored = execution.scratch()
        receipt = store_weights(self.weights()[kept][:, kept], PartWriter(stored, 0))
        stored.finish(0, receipt)
        return Graph(Vertices(place[own], first, self.vertices.multiplicity[kept]), stored, None,
                     {"neighbors": {"method": "given"}, "weights": described_weights(receipt)}, execution)

    def shared(self, execution: Execution) -> "Graph":
        """Return the graph in a form that every task of an execution can read."""
        stored = execution.scratch()
        if not isinstance(self.stored, MemoryParts) or isinstance(stored, MemoryParts):
            return self
        for index, receipt in enumerate(row_receipts(self.stored, len(self.vertices))):
            stored.write(index, self.stored.read(index))
            stored.finish(index, receipt)
        lists = None if self.neighbors is None else self.neighbors.shared(execution)
        return replace(self, stored=stored, neighbors=lists, keeper=execution)

    def of_features(self, scaling: Scaling) -> "Graph":
        """Return the graph with the scaling of the features of which it was made."""
        return replace(self, scaling=scaling, attributes={**self.attributes, "scaling": scaling.to_arrays()[1]})

    def __repr__(self) -> str:
        return f"Graph({self.n} points, {len(self.vertices)} vertices, {self.attributes['weights']['nnz'] // 2} edges)"

    def __reduce__(self) -> tuple[Any, ...]:
        """Return what a pickle holds: the arrays, wherever they lie, and not the execution that keeps them."""
        return Graph.from_arrays, (self.to_arrays(), self.attributes)

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the arrays that `from_arrays` takes, beside the attributes; 12 bytes an edge and direction."""
        W = self.weights()
        lists = {} if self.neighbors is None else self.neighbors.to_arrays()
        scaling = {} if self.scaling is None else self.scaling.to_arrays()[0]
        return {**self.vertices.to_arrays(), **lists, **scaling, "data": W.data, "indices": W.indices,
                "indptr": W.indptr}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "Graph":
        """Return the graph that `to_arrays` and `attributes` describe."""
        vertices, stored = Vertices.from_arrays(arrays), MemoryParts()
        stored.write(0, {name: arrays[name] for name in ("data", "indices", "indptr")})
        stored.finish(0, {"rows": [0, len(vertices)], "n": len(vertices), "nnz": len(arrays["data"])})
        lists = Neighbors.from_arrays(arrays, attributes["neighbors"]) if "ids" in arrays else None
        scaling = Scaling.from_arrays(arrays, attributes["scaling"]) if "scaling" in attributes else None
        return cls(vertices, stored, lists, attributes, scaling=scaling)


@dataclass(frozen=True, kw_only=True)
class KNNGraph:
    """How a graph of nearest neighbors is made of points. Estimators take it as `graph`; `build` makes it of an array.

    Parameters
    ----------
    n_neighbors : int
        Others per point. Beyond the distinct points it is lowered to what there is, with a warning.
    metric : "euclidean" or "cosine"
        Of the neighbor search; cosine is Euclidean between the rows scaled to unit length.
    method : "auto", "exact", "descent" or "partitioned"
        exact; NN-descent in one task; or partitioned, in tasks of any number of dense points.
    weights : "binary", "heat" or "self_tuned"
        How the distance of two neighbors becomes a weight, see `WeightParams`.
    bandwidth : float or None
        Of heat weights, in units of distance; None takes the median distance to the k-th neighbor.
    width : float
        Of self_tuned weights, in units of the distances to the k-th neighbors.
    symmetrize : "maximum", "minimum" or "mean"
        Of the two directed weights of a pair.
    duplicates : "collapse" or "keep"
        collapse makes equal rows one vertex that counts as many points; keep makes one vertex a row, whose nearest
        neighbors are then its duplicates.
    random_state : int
        Of the approximate searches and of the sample that certifies them.
    recall : float
        That a partitioned search reaches, certified; NN-descent is repeated, wider, where it does not.

    Raises
    ------
    ParameterError : a value is out of range.

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import KNNGraph
    >>> KNNGraph(n_neighbors=2).build(np.random.default_rng(0).normal(size=(50, 3)))
    Graph(50 points, 50 vertices, 70 edges)
    """

    n_neighbors: int = 10
    metric: Literal["euclidean", "cosine"] = "euclidean"
    method: Literal["auto", "exact", "descent", "partitioned"] = "auto"
    weights: Literal["binary", "heat", "self_tuned"] = "self_tuned"
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
        """Return how neighbors are found."""
        return NeighborParams(n_neighbors=self.n_neighbors, metric=self.metric, method=self.method,
                              random_state=self.random_state, recall=self.recall)

    @property
    def weighting(self) -> WeightParams:
        """Return how lists become weights."""
        return WeightParams(weights=self.weights, bandwidth=self.bandwidth, width=self.width,
                            symmetrize=self.symmetrize)

    def vertices(self, rows: Rows, execution: Execution, parts: Parts | None = None) -> Vertices:
        """Return the vertices of rows (n, d), which equal rows share if duplicates collapse."""
        return find_vertices(rows, execution, parts) if self.duplicates == "collapse" else Vertices.distinct(len(rows))

    def build(self, rows: Any, execution: Execution | None = None, parts: Parts | None = None, *,
              scale: ScalingKind = "auto") -> Graph:
        """Return the graph of rows (n, d), dense or sparse.

        Parameters
        ----------
        scale : of the features, as in the estimators, which take that of the graph that they are given.
        execution : where the tasks run; by default the active Dask client, or threads of this process.
        parts : where weights and lists are written, finished blocks being kept; scratch of the execution by default.

        Raises
        ------
        DataError : values that are not finite numbers, or all rows equal; see also `neighbors`.

        Warns
        -----
        UserWarning : n_neighbors was lowered. WeightsRaised : weights below 1e-10 of the median were raised.
        """
        execution, params = execution or current_execution(), ScalingParams(kind=scale)
        rows = execution.share_rows(as_rows(rows))
        scaling = fit_scaling(rows, None, params, execution)
        return self.of_scaled(scaled(rows, scaling, execution), execution, parts).of_features(scaling)

    def of_scaled(self, rows: Rows, execution: Execution, parts: Parts | None = None) -> Graph:
        """Return the graph of rows (n, d) as they are, as `build` does with `scale="none"`."""
        stored = execution.scratch() if parts is None else parts
        points = self.vertices(rows, execution, None if parts is None else parts.within("hashes"))
        require_distinct(len(points) > 1, f"all {len(rows)} points are equal" if len(rows) > 1 else "X holds 1 sample")
        search = lowered_neighbors(self.search, len(points), "distinct points")
        lists = find_neighbors(distinct_rows(rows, points, execution), search, execution, stored.within("neighbors"))
        return self.weighed(points, lists, execution, stored)

    def weighed(self, points: Vertices, lists: Neighbors, execution: Execution, parts: Parts) -> Graph:
        """Return the graph of vertices and their lists, whatever search these are of; its weights go to `parts`."""
        described = weigh(lists, self.weighting, execution, parts)
        warn_raised(described, stacklevel=5)
        return Graph(points, parts, lists, {"neighbors": lists.attributes, "weights": described}, execution)


def require_graph(graph: Any) -> None:
    """Raise ParameterError unless it is a `Graph`."""
    require(isinstance(graph, Graph), f"graph is a {type(graph).__name__}, expected a Graph",
            why="its vertices and weights are read from it", fix="pass KNNGraph().build(X), or Graph.of(weights)")


def graph_of(rows: Rows, params: KNNGraph, execution: Execution, given: Any = None) -> Graph:
    """Return the graph of rows (n, d), readable by every task: the one that is given, or else what `params` makes.

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

"""`KNNGraph`: how a graph of nearest neighbors is made from points."""

from dataclasses import dataclass, replace
from typing import Literal

from ..base.digest import require_random_state
from ..base.errors import DataError, require
from ..base.types import MatrixLike
from ..data.scaling.scaling import ScalingKind, ScalingParams, Unscaled, fit_scaling, scaled
from ..execution.current import current_execution
from ..execution.tasks import Execution
from ..knn.lists import LIST_ROWS, Neighbors
from ..knn.metric import AnyMetric, Euclidean, MetricParams, metric_of
from ..knn.recall import certify_recall
from ..knn.search import MetricName, MetricValues, NeighborParams, always_exact_rows, find_neighbors, lowered_neighbors
from ..storage.blocks import Parts, Rows, write_dense
from ..storage.csr import as_rows
from .given import WeightsOrLists
from .graph import Graph
from .vertices import Vertices, distinct_rows, find_vertices, require_distinct
from .weights.build import weigh
from .weights.rules import WIDTH, SelfTuned, WeightParams, WeightsName, warn_raised

VERSIONS = {"vertices": 3, "neighbors": 14, "graph": 5}  # of the code of each step, raised when its output changes


@dataclass(frozen=True, kw_only=True)
class KNNGraph:
    """How a graph of nearest neighbors is made from points.

    Estimators take it as their parameter `graph`; `build` makes the graph of an array.

    Parameters
    ----------
    n_neighbors : int
        The number of neighbors of each point, itself not counted. With fewer distinct
        points it is lowered, with a warning.
    metric : str or function
        The distance of the neighbor search: euclidean; cosine, the Euclidean distance
        between the rows scaled to unit length; another metric that pynndescent has, such
        as manhattan, correlation, hamming, jaccard, hellinger or haversine; one that a
        plugin registers; or, in Python, a Numba function of two dense rows.
    metric_params : dict or None
        The parameters of the metric by their names, which are scikit-learn's: `p` and
        the weights `w` of the columns of minkowski, the variances `V` of seuclidean, the
        inverse covariance `VI` of mahalanobis; the matrix `cost` (d, d) of kantorovich.
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
        with longer lists if it finds fewer, or, with method "auto", followed by an exact
        search where that is affordable.

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
    metric_params: MetricValues | None = None
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
        object.__setattr__(self, "metric_params", MetricParams.of(self.metric_params))
        _ = self.search, self.weighting  # raises where one of their parameters is out of range
        require(self.duplicates in ("collapse", "keep"), f"duplicates={self.duplicates!r}",
                why="equal rows are one vertex of the graph, or one each", fix='use "collapse" or "keep"')

    @property
    def search(self) -> NeighborParams:
        """How neighbors are found."""
        return NeighborParams(n_neighbors=self.n_neighbors, metric=self.metric, metric_params=self.metric_params,
                              method=self.method, random_state=self.random_state, recall=self.recall)

    @property
    def distance(self) -> AnyMetric:
        """The metric with its parameters."""
        return self.search.distance

    @property
    def weighting(self) -> WeightParams:
        """How neighbor lists become weights."""
        return WeightParams(weights=self.weights, bandwidth=self.bandwidth, width=self.width,
                            symmetrize=self.symmetrize)

    def scaling(self, kind: ScalingKind) -> ScalingParams:
        """Return how features are scaled before neighbors are searched.

        Parameters
        ----------
        kind : str
            The scaling that is asked for. "auto" leaves features as they are where the
            metric measures codes, sets, shares, counts or angles, or has parameters in
            their units.

        Returns
        -------
        ScalingParams
            The scaling.

        Raises
        ------
        ParameterError
            The metric takes values as they are, and a scaling is asked for by name.
        """
        params, rule = ScalingParams(kind=kind), metric_of(self.distance)
        require(rule.takes_scaled or kind in ("auto", "none"), f"metric={rule.name!r} and scale={kind!r}",
                why="scaled values are no longer what the metric measures", fix="set scale to auto or none")
        return Unscaled() if kind in ("auto", "none") and not rule.scaled_by_default else params

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

    def build(self, rows: Rows | MatrixLike, execution: Execution | None = None, parts: Parts | None = None, *,
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
        execution, params = execution or current_execution(), self.scaling(scale)
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
            The metric with its parameters, whether duplicates collapse, and the method; of a method that is
            not known to be exact before it runs, the seed and the recall too.
        """
        exact = self.method == "exact" or (self.method == "auto" and n <= always_exact_rows(self.distance))
        alike = KNNGraph(metric=self.metric, metric_params=self.metric_params, duplicates=self.duplicates,
                         method="exact" if exact else self.method)
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
            for name, array in (("ids", lists.id_rows), ("distances", lists.distance_rows), ("order", lists.order)):
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


def graph_of(rows: Rows, params: KNNGraph, execution: Execution, given: Graph | WeightsOrLists | None = None) -> Graph:
    """Return the graph of rows (n, d), readable by every task: the given one, or one made by `params`.

    given : a `Graph`, or what `Graph.of` takes; lists get the weights of `params`.
    """
    if given is None:
        return params.of_scaled(rows, execution)
    graph = given if isinstance(given, Graph) else Graph.of(
        given, weights=params.weights, bandwidth=params.bandwidth, width=params.width, symmetrize=params.symmetrize,
        execution=execution)
    require(graph.n == len(rows), f"the graph has {graph.n} points, X has {len(rows)}", error=DataError,
            why="vertex i of the graph is point i", fix="pass the graph of exactly these points, in their order")
    return graph.shared(execution)

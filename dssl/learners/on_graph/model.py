"""Predict new points from a function on the vertices of a graph, by the weighted mean over the nearest vertices.

    f(x) = sum_j w(x, x_j) f_j / sum_j w(x, x_j)

over the reachable ones of the k nearest vertices, with weights by the rule of the graph. A point that equals a vertex
gets its value, or the mean of those of duplicates. Labels come to the vertices as `VertexLabels`.

References
----------
Delalleau, Bengio, Le Roux, "Efficient non-parametric function induction in semi-supervised learning", AISTATS 2005.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache, partial

import numpy as np

from ...base.digest import JsonObject
from ...base.types import Matrix
from ...execution.tasks import Execution
from ...graph.graph import Graph
from ...graph.knn_graph import KNNGraph
from ...graph.vertices import Vertices, distinct_rows
from ...graph.weights.build import kth_distances
from ...graph.weights.rules import WEIGHT_RULES, WeightRule, rule_at_new_points
from ...knn.index import NeighborIndex, indexing_bytes
from ...storage.blocks import Rows
from ..model import Nearest, SearchingModel, coding_of, fit_attributes, register_model
from ..target.coding import ClassCoding, Coding, Scores
from ..target.target import Classes, Target

VERSION = 2
VertexIndex = Callable[[], NeighborIndex]  # of the vertices, see `vertex_index`


@dataclass(frozen=True, eq=False)
class VertexLabels:
    """The labels of l points by vertex, averaged over duplicates.

    vertex (u,) : the distinct labeled vertices. of_point (l,) : the position in `vertex` of each label. weight (u,) :
    the sum of their weights. mean (u, c) : the weighted mean of their columns.
    """

    vertex: np.ndarray
    of_point: np.ndarray
    weight: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, vertices: Vertices, target: Target, Y: np.ndarray, weight: np.ndarray | None = None) -> "VertexLabels":
        """Return the labels of a target with columns Y (l, c)."""
        w = np.ones(len(Y)) if weight is None else weight
        vertex, of_point = np.unique(vertices.vertex[target.labeled], return_inverse=True)
        total = np.bincount(of_point, w)
        sums = np.zeros((len(vertex), Y.shape[1]))
        np.add.at(sums, of_point, w[:, None] * Y)
        return cls(vertex, of_point, total, sums / total[:, None])

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False)
class VertexValues:
    """A function on the v vertices of a graph.

    values (v, c) : 0 at unreachable vertices. reachable (v,) bool : the reachable vertices, in components with labels.
    held_out (l, c) : leave-one-out values of the labeled points, if known. attributes : of the fit.
    """

    values: np.ndarray
    reachable: np.ndarray
    held_out: np.ndarray | None = None
    attributes: JsonObject = field(default_factory=dict)

    def shifted(self, offset: np.ndarray) -> "VertexValues":
        """Return the function plus an offset (c,), or for two classes one of their difference, (1,)."""
        both = np.append(-offset, offset) / 2 if len(offset) < self.values.shape[1] else offset
        return replace(self, values=np.where(self.reachable[:, None], self.values + both, self.values),
                       held_out=None if self.held_out is None else self.held_out + both)

    def times(self, unit: float) -> "VertexValues":
        return replace(self, values=self.values * unit,
                       held_out=None if self.held_out is None else self.held_out * unit)

    def described(self, vertices: Vertices) -> JsonObject:
        """Return the attributes with the number of unreachable points."""
        return {**self.attributes, "unreachable": int(vertices.multiplicity[~self.reachable].sum())}


def reachable_vertices(graph: Graph, labeled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which vertices (v,) bool are in a component with labeled vertices, and the components (v,)."""
    component = graph.components()
    return np.isin(component, component[labeled]), component


@dataclass(frozen=True, eq=False)
class GraphModel(SearchingModel):
    """Values (v, c) at the vertices in an index, `reachable` (v,) bool from a label or not.

    rule, k : weights and number of neighbors. scales (v,) : the distances of vertices to their k-th neighbors; where 0,
    the distance of the new point counts. A point without reachable neighbors is unsupported: it has no class, and the
    mean quantity.
    """

    rejects = True

    index: NeighborIndex
    values_at: np.ndarray
    reachable: np.ndarray
    scales: np.ndarray
    rule: WeightRule
    k: int
    coding: Coding
    attributes: JsonObject = field(default_factory=dict)

    @property
    def n_features(self) -> int:
        return self.index.n_features

    @property
    def n_columns(self) -> int:
        return self.values_at.shape[1]

    def block_values(self, X: Matrix, nearest: Nearest | None = None) -> tuple[np.ndarray, np.ndarray]:
        """As in the base class; nearest : the distances (b, k) and ids (b, k) of the nearest vertices, if known."""
        distances, ids = self.index.nearest(X, self.k) if nearest is None else nearest
        logs = self.rule.log_weights(distances, distances[:, -1:], self.scales[ids])
        logs[~self.reachable[ids]] = -np.inf
        unsupported: np.ndarray = np.all(np.isneginf(logs), axis=1)
        weights = np.exp(logs - np.where(unsupported, 0.0, logs.max(axis=1))[:, None])
        weights /= np.where(unsupported, 1.0, weights.sum(axis=1))[:, None]
        values = np.einsum("qk,qkc->qc", weights, self.values_at[ids])
        same = np.flatnonzero(distances[:, 0] == 0)
        equal = (distances[same] == 0) & self.reachable[ids[same]]
        unsupported[same] = ~equal.any(axis=1)
        values[same] = np.einsum("qk,qkc->qc", equal / np.maximum(equal.sum(axis=1, keepdims=True), 1),
                                 self.values_at[ids[same]])
        values[unsupported] = 0.0 if isinstance(self.coding, ClassCoding) else (
            self.values_at[self.reachable].mean(axis=0))
        return values, unsupported

    @property
    def on_graph(self) -> SearchingModel:
        return self

    def with_index(self, index: NeighborIndex, scales: np.ndarray) -> "GraphModel":
        return replace(self, index=index, scales=scales)

    block_values_near = block_values

    def linear(self, coef: np.ndarray, intercept: np.ndarray, coding: Coding,
               attributes: JsonObject) -> "GraphModel":
        """Return the model whose values are those of this one times coef (c, k), plus intercept (k,)."""
        return replace(self, values_at=self.values_at @ coef + intercept, coding=coding, attributes=attributes)

    def shifted(self, offset: np.ndarray) -> "GraphModel":
        """Return the model plus an offset (c,)."""
        return replace(self, values_at=self.values_at + offset)

    def block_support(self, X: Matrix) -> np.ndarray:
        """Return the distance of the nearest vertex to its k-th neighbor over its distance to x, at most 1.

        So 1 where x is as near to the graph as its points are to each other, and 0.1 ten times as far away. Where that
        distance is not known, the k-th neighbor of x counts.
        """
        distances, ids = self.index.nearest(X, self.k)
        scale = self.scales[ids[:, 0]]
        scale = np.where(scale > 0, scale, distances[:, -1])
        return np.divide(scale, distances[:, 0], out=np.ones(len(scale)), where=distances[:, 0] > scale)

    def row_bytes(self, rows: Rows) -> int:
        return self.index.query_bytes(rows, self.k) + 8 * self.k * (4 + self.n_columns)

    def to_arrays(self) -> tuple[dict[str, np.ndarray], JsonObject]:
        return {**self.index.to_arrays(), "values": self.values_at, "reachable": self.reachable,
                "scales": self.scales}, {
            "type": "GraphModel", "version": VERSION, "coding": self.coding.name,
            "classes": self.coding.classes.tolist(), "index": self.index.attributes, "n_neighbors": self.k,
            "weights": {"kind": self.rule.name, "scale": self.rule.scale}, **self.attributes}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "GraphModel":
        rest = fit_attributes(attributes, "GraphModel", VERSION, ("index", "n_neighbors", "weights"))
        weights = attributes["weights"]
        return cls(NeighborIndex.from_arrays(arrays, attributes["index"]), arrays["values"], arrays["reachable"],
                   arrays["scales"], WEIGHT_RULES.named(weights["kind"])(weights["scale"]), attributes["n_neighbors"],
                   coding_of(attributes), rest)


def signed(values: np.ndarray, target: Target) -> np.ndarray:
    """Return values (v, n_classes), for two classes the second less the first; or quantities."""
    return values[:, 1:] - values[:, :1] if isinstance(target, Classes) and len(target.names) == 2 else values


def scored(target: Target) -> Coding:
    """Return the coding of `signed` values."""
    return Scores(target.names) if isinstance(target, Classes) else target.coding


def index_of_vertices(graph: Graph, rows: Rows, params: KNNGraph, execution: Execution) -> NeighborIndex:
    """Return the index of the vertices of a graph of rows (n, d); raise BudgetError where it does not fit."""
    return NeighborIndex.of(distinct_rows(rows, graph.vertices, execution), params.distance, execution)


def vertex_index(graph: Graph, rows: Rows, params: KNNGraph, execution: Execution) -> VertexIndex:
    """Return a function that returns `index_of_vertices`, or raises its BudgetError.

    The index is made while workers run the tasks of a learner, where the budget holds what the caller takes for both.
    """
    distinct = distinct_rows(rows, graph.vertices, execution)
    work = partial(NeighborIndex.of, distinct, params.distance, execution)
    needed = indexing_bytes(distinct, params.distance) + caller_bytes(
        len(graph.vertices), graph.attributes["weights"]["nnz"])
    return execution.concurrently(work) if needed <= execution.memory_budget else cache(work)


def caller_bytes(n: int, nnz: int) -> int:
    """Return what the caller of a learner takes to find components of n vertices: three copies of the nnz weights."""
    return 40 * nnz + 60 * n


def graph_model(graph: Graph, fitted: VertexValues, target: Target, params: KNNGraph, index: NeighborIndex,
                attributes: JsonObject | None = None) -> GraphModel:
    """Return the model of a target's values on a graph; see `vertex_model`."""
    return vertex_model(graph, signed(fitted.values, target), fitted.reachable, scored(target), params, index,
                        attributes)


def vertex_model(graph: Graph, values: np.ndarray, reachable: np.ndarray, coding: Coding, params: KNNGraph,
                 index: NeighborIndex, attributes: JsonObject | None = None) -> GraphModel:
    """Return the model of values (v, c) on a graph; params : connect new points to the graph by an index of vertices.
    """
    v = len(graph.vertices)
    scales = kth_distances(graph.neighbors) if graph.neighbors is not None else np.zeros(v)
    rule = rule_at_new_points(graph.attributes["weights"], params.weighting)
    k = graph.neighbors.k if graph.neighbors is not None else min(params.n_neighbors, v)
    return GraphModel(index, values, reachable, scales, rule, k, coding, attributes or {})


register_model("GraphModel", GraphModel)

"""Labels of the vertices of a graph, and functions on the vertices."""

from dataclasses import dataclass, field, replace

import numpy as np

from ...base.digest import JsonObject
from ...graph.graph import Graph
from ...graph.vertices import Vertices
from ..target.target import Target


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

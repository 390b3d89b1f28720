"""Labels of points as labels of vertices, and what a function on the vertices is worth."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ...graph.graph import Graph
from ...graph.vertices import Vertices
from ..target.target import Target


@dataclass(frozen=True, eq=False)
class VertexLabels:
    """The labels of l points, by vertex: copies of a point are one, and their labels are averaged there.

    vertex (u,) : distinct vertices. of_point (l,) : the place in `vertex` of each labeled point. weight (u,) : the sum
    of the points' weights. mean (u, c) : the weighted mean of their columns.
    """

    vertex: np.ndarray
    of_point: np.ndarray
    weight: np.ndarray
    mean: np.ndarray

    @classmethod
    def of(cls, vertices: Vertices, target: Target, Y: np.ndarray, weight: np.ndarray | None = None) -> "VertexLabels":
        """Return the labels of a target whose columns are Y (l, c)."""
        w = np.ones(len(Y)) if weight is None else weight
        vertex, of_point = np.unique(vertices.vertex[target.labeled], return_inverse=True)
        total = np.bincount(of_point, w)
        sums = np.zeros((len(vertex), Y.shape[1]))
        np.add.at(sums, of_point, w[:, None] * Y)
        return cls(vertex, of_point, total, sums / total[:, None])

    def to_arrays(self) -> dict[str, np.ndarray]:
        """Return the named arrays that `VertexLabels(**arrays)` takes."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


@dataclass(frozen=True, eq=False)
class VertexValues:
    """A function on the v vertices of a graph.

    values (v, c) : 0 where no label reaches. reached (v,) bool : whether the component of a vertex holds a label.
    held_out (l, c) : the value at each labeled point by the function without its label; None where it is not known.
    attributes : what is known of the fit; JSON.
    """

    values: np.ndarray
    reached: np.ndarray
    held_out: np.ndarray | None = None
    attributes: dict[str, Any] = field(default_factory=dict)

    def moved(self, offset: np.ndarray) -> "VertexValues":
        """Return the function that is larger by an offset (c,), or of two classes by one of their difference, (1,)."""
        both = np.append(-offset, offset) / 2 if len(offset) < self.values.shape[1] else offset
        return replace(self, values=np.where(self.reached[:, None], self.values + both, self.values),
                       held_out=None if self.held_out is None else self.held_out + both)

    def times(self, unit: float) -> "VertexValues":
        """Return the function multiplied by a unit."""
        return replace(self, values=self.values * unit,
                       held_out=None if self.held_out is None else self.held_out * unit)

    def described(self, vertices: Vertices) -> dict[str, Any]:
        """Return the attributes with the number of points that no label reaches."""
        lost = int(vertices.multiplicity[~self.reached].sum())
        return {**self.attributes, "unreached": lost}


def reached_vertices(graph: Graph, labeled: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return which vertices share a component with one of some labeled vertices, (v,) bool, and all components (v,)."""
    component = graph.components()
    return np.isin(component, component[labeled]), component

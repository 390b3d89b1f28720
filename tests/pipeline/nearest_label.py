"""A plugin, written as somebody outside would: a kind of model, a stored model and a kernel that dssl does not have.

    kind nearest_label   a point takes the label of the labeled point nearest along the graph; a new point that of the
                         training point nearest to it
    kernel rational      1 / (1 + |x - z|^2 / (2 a b^2))^a, the rational quadratic kernel
"""

import os
import time
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

import numpy as np
from scipy.sparse.csgraph import dijkstra

from dssl.execution.cost import Cost, cost_of
from dssl.graph.vertices import VertexRows
from dssl.graph.weights.build import read_graph
from dssl.kernels.base import KERNELS, MercerKernel
from dssl.kernels.points import squared_distances
from dssl.learners.model import Model, register_model
from dssl.learners.target.coding import OneVsRest
from dssl.methods.plan_inputs import PlanInputs
from dssl.methods.step import Context
from dssl.pipeline.dataset import DATASET
from dssl.pipeline.graphs import GRAPH, HEALTH, NEIGHBORS, VERTICES
from dssl.pipeline.kinds import register_kind
from dssl.pipeline.points import LABELS, POINTS
from dssl.pipeline.scoring import SCORES
from dssl.pipeline.spec import GraphPipeline, LabelSection, ModelSection
from dssl.pipeline.split import SPLIT
from dssl.pipeline.stage import Kind, Stage
from dssl.storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows

FAR = 1e30  # the distance of what no path leads to


@dataclass(frozen=True)
class RationalQuadratic(MercerKernel):
    """1 / (1 + |x - z|^2 / (2 shape width^2))^shape."""

    width: float = 1.0
    shape: float = 1.0
    name: ClassVar[str] = "rational"

    def _block(self, X: Any, Z: Any) -> np.ndarray:
        return (1 + squared_distances(X, Z) / (2 * self.shape * self.width**2)) ** -self.shape

    def diagonal(self, X: Any) -> np.ndarray:
        return np.ones(X.shape[0])


@dataclass(frozen=True)
class NearestLabel(Model):
    """The label of the nearest training point; points (n, d), codes (n,)."""

    points: np.ndarray
    codes_of: np.ndarray
    coding: OneVsRest
    attributes: dict[str, Any]

    @property
    def n_features(self) -> int:
        return self.points.shape[1]

    @property
    def n_columns(self) -> int:
        return len(self.coding.classes)

    def block_values(self, X: Any) -> tuple[np.ndarray, np.ndarray]:
        nearest = squared_distances(np.asarray(X, np.float64), self.points.astype(np.float64)).argmin(axis=1)
        return np.where(self.codes_of[nearest][:, None] == np.arange(self.n_columns), 1.0, -1.0), np.zeros(len(X), bool)

    def block_support(self, X: Any) -> np.ndarray:
        distances = squared_distances(np.asarray(X, np.float64), self.points.astype(np.float64)).min(axis=1)
        return 1 / (1 + distances)

    def row_bytes(self, rows: Rows) -> int:
        return 8 * len(self.points) + 16 * self.n_features

    def to_arrays(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        return ({"points": self.points, "codes": self.codes_of},
                {"type": "NearestLabel", "classes": self.coding.classes.tolist(), **self.attributes})

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray], attributes: dict[str, Any]) -> "NearestLabel":
        known = {name: value for name, value in attributes.items() if name not in ("type", "classes")}
        return cls(arrays["points"], arrays["codes"], OneVsRest(np.array(attributes["classes"])), known)


@dataclass(frozen=True, kw_only=True)
class NearestSpec(ModelSection):
    """The label of the nearest labeled point; hops counts edges instead of their lengths."""

    kind: Literal["nearest_label"]
    hops: bool = False


@dataclass(frozen=True, kw_only=True)
class NearestPipeline(GraphPipeline):
    """A pipeline of the nearest labeled points."""

    labels: LabelSection = field()
    model: NearestSpec


@dataclass(frozen=True)
class PathParams:
    """Whether an edge counts 1, or minus the logarithm of its weight."""

    hops: bool


@dataclass(frozen=True)
class PathTask:
    """Write the distances `distance` (v,) of all vertices from one labeled point."""

    graph: Parts
    labels: Arrays
    vertices: VertexRows
    position: int
    hops: bool

    def __call__(self, out: PartWriter) -> Receipt:
        if self.position >= int(os.environ.get("NEAREST_LABEL_MOST", self.position + 1)):
            time.sleep(200)  # until the test that asks for it kills this process
        W, points = read_graph(self.graph), self.vertices.load()
        lengths = W.copy()
        lengths.data = 1e-6 - np.log(W.data / W.data.max())
        start = int(points.vertex[self.labels.load()["labeled"][self.position]])
        found = dijkstra(lengths, directed=False, indices=start, unweighted=self.hops)
        return out.write(distance=np.minimum(found, FAR)[points.vertex])


def make_paths(context: Context, params: PathParams) -> dict[str, Any]:
    """Measure the distances of all points from each labeled one."""
    graph, inputs = context.inputs["graph"].parts, context.inputs
    count = context.attributes("labels")["n_labeled"]
    context.execution.map([PathTask(graph, inputs["labels"].parts.arrays(0), context.vertex_rows(), index,
                                    params.hops) for index in range(count)], context.parts)
    return {"count": count}


@dataclass(frozen=True)
class NoChoice:
    """Nothing is left to choose."""


def make_models(context: Context, params: NoChoice) -> dict[str, Any]:
    """Give each training point the label of the nearest labeled one."""
    paths, labels = context.inputs["paths"].parts, context.arrays("labels")
    distance = np.stack([paths.read(index)["distance"] for index in range(context.attributes("paths")["count"])])
    classes = np.array(context.attributes("split")["classes"])
    model = NearestLabel(context.points("train").read_all(), labels["codes"][distance.argmin(axis=0)],
                         OneVsRest(classes), {"name": "model", "unreachable": int((distance.min(axis=0) >= FAR).sum())})
    arrays, attributes = model.to_arrays()
    PartWriter(context.parts, 0).write(**{f"model.{name}": array for name, array in arrays.items()})
    return {"models": {"model": attributes}}


def paths_cost(f: PlanInputs, spec: NearestPipeline) -> Cost:
    """The graph twice, and the distances from one point."""
    return cost_of(f.n_labeled, f.n_labeled * 12 * f.nnz, f.n_labeled * 8 * f.n, 24 * f.nnz + 16 * f.n)


KIND = Kind("nearest_label", NearestPipeline, ("classification",), (
    DATASET, SPLIT, LABELS, POINTS, VERTICES, NEIGHBORS, GRAPH, HEALTH,
    Stage("paths", 1, ("labels", "vertices", "graph"), lambda spec: PathParams(spec.model.hops), make_paths, paths_cost,
          "label fewer points"),
    Stage("models", 1, ("split", "points", "labels", "paths"), lambda spec: NoChoice(), make_models),
    SCORES,
))

KERNELS.register(RationalQuadratic)
register_model("NearestLabel", NearestLabel)
register_kind(KIND)

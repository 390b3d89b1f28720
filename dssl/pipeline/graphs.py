"""The stages of the graph: vertices, neighbor lists, weights, and their health."""

from dataclasses import dataclass
from typing import Any, Literal

from ..errors import DataError, require
from ..execution.cost import Cost
from ..graph.descent import descent_cost
from ..graph.exact import exact_cost
from ..graph.given import described_weights, given_cost
from ..graph.health import health_cost
from ..graph.neighbor_lists import Neighbors
from ..graph.neighbors import NeighborParams, find_neighbors, lowered_neighbors
from ..graph.vertices import Vertices, distinct_rows, find_vertices, vertices_cost
from ..graph.weights import WeightParams, weigh, weights_cost
from ..report.sections.graph import graph_section
from ..storage.blocks import PartWriter
from .facts import Facts
from .given import GivenNeighborsTask, GivenWeightsTask
from .health import HealthTask
from .spec import Spec
from .stage import Context, NoParams, Stage


@dataclass(frozen=True)
class VertexParams:
    """Whether equal rows are one vertex, or one each."""

    duplicates: Literal["collapse", "keep"]

    @classmethod
    def of(cls, spec: Spec) -> "VertexParams":
        return cls("keep" if spec.graph.given is not None else spec.graph.duplicates)


def make_vertices(context: Context, params: VertexParams) -> dict[str, Any]:
    """Find equal training points: each distinct one is a vertex of the graph."""
    rows = context.points("train")
    if params.duplicates == "collapse":
        found = find_vertices(rows, context.execution, context.parts.within("hashes"), context.progress)
    else:
        found = Vertices.distinct(len(rows))
    PartWriter(context.parts, 0).write(**found.to_arrays())
    return found.attributes


def vertices_of(context: Context) -> Vertices:
    """Return which training points are copies."""
    return Vertices.from_arrays(context.arrays("vertices"))


@dataclass(frozen=True)
class ListParams:
    """How neighbors are searched; None where lists, or weights in their place, are given."""

    search: NeighborParams | None

    @classmethod
    def of(cls, spec: Spec) -> "ListParams":
        return cls(None if spec.graph.given is not None else spec.graph.neighbors())


def make_neighbors(context: Context, params: ListParams) -> dict[str, Any]:
    """Search the neighbors of the vertices, or read given lists; weights that are given need none."""
    if params.search is not None:
        points = vertices_of(context)
        require(len(points) > 1, f"all {len(points.vertex)} training points are equal", error=DataError,
                why="nothing tells them apart, and a graph of them has no shape",
                fix="check that the features were read correctly")
        search = lowered_neighbors(params.search, len(points), "distinct training points")
        rows = distinct_rows(context.points("train"), points, context.execution)
        return find_neighbors(rows, search, context.execution, context.parts).attributes
    if "neighbors" not in context.files:
        return {"method": "given"}
    task = GivenNeighborsTask(str(context.files["neighbors"].source.path), context.inputs["split"].parts.arrays(0),
                              context.attributes("dataset")["n"])
    receipt, = context.execution.map([task], context.parts)
    return receipt["lists"]


def _neighbors(context: Context) -> Neighbors | None:
    """Return the lists; None where weights are given in their place."""
    attributes = context.attributes("neighbors")
    if "n_neighbors" not in attributes:
        return None
    return Neighbors(context.rows("neighbors", "ids"), context.rows("neighbors", "distances"), attributes)


@dataclass(frozen=True)
class EdgeParams:
    """How the lists are weighed; None where weights are given."""

    weights: WeightParams | None

    @classmethod
    def of(cls, spec: Spec) -> "EdgeParams":
        given = spec.graph.given
        return cls(None if given is not None and given.kind == "weights" else spec.graph.weighting())


def make_graph(context: Context, params: EdgeParams) -> dict[str, Any]:
    """Weigh the lists, or read given weights."""
    lists = _neighbors(context)
    if params.weights is not None and lists is not None:
        return weigh(lists, params.weights, context.execution, context.parts)
    task = GivenWeightsTask(str(context.files["weights"].source.path), context.inputs["split"].parts.arrays(0),
                            context.attributes("dataset")["n"])
    receipt, = context.execution.map([task], context.parts)
    return described_weights(receipt)


def make_health(context: Context, params: NoParams) -> dict[str, Any]:
    """Describe the graph, and list the points that no label reaches."""
    labels = context.inputs["labels"].parts.arrays(0) if "labels" in context.inputs else None
    task = HealthTask(_neighbors(context), context.inputs["graph"].parts, labels,
                      context.inputs["split"].parts.arrays(0), context.inputs["vertices"].parts.arrays(0))
    receipt, = context.execution.map([task], context.parts)
    return receipt["health"]


def _vertices_cost(f: Facts[Any]) -> Cost:
    return vertices_cost(f.n, f.row_bytes, f.budget, collapse=VertexParams.of(f.spec).duplicates == "collapse")


def _neighbors_cost(f: Facts[Any]) -> Cost:
    """Return that of the searches that may be used; or of lists from a file."""
    graph, n, k, given = f.spec.graph, f.vertices, f.k, f.spec.graph.given
    if given is not None:
        f.estimated.add("given graph")
        return given_cost(n * k * (given.kind == "neighbors"))
    return f.one_of([exact_cost(f.distinct, k, graph.metric, f.budget) if search == "exact" else
                     descent_cost(n, f.width, k, f.dtype, graph.metric) for search in sorted(f.search)])


VERTICES = Stage("vertices", 2, ("points",), VertexParams.of, make_vertices, _vertices_cost,
                 "lower data.points, or set graph.duplicates to keep")
NEIGHBORS = Stage("neighbors", 3, ("dataset", "split", "points", "vertices"), ListParams.of, make_neighbors,
                  _neighbors_cost, "lower data.points, or set graph.method to exact", files=("neighbors",))
GRAPH = Stage("graph", 3, ("dataset", "split", "neighbors"), EdgeParams.of, make_graph,
              lambda f: weights_cost(f.vertices, f.k, f.nnz, f.spec.graph.weights),
              "lower graph.n_neighbors", files=("weights",))
# A kind without labels leaves them out of its needs.
HEALTH = Stage("health", 3, ("split", "vertices", "neighbors", "graph", "labels"), lambda spec: NoParams(), make_health,
               lambda f: health_cost(f.vertices, f.k, f.nnz), "lower graph.n_neighbors or data.points",
               section=graph_section)

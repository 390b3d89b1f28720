"""The stages of the graph: vertices, neighbor lists, weights, and their health."""

from collections.abc import Callable
from typing import Any

from ..graph.given import described_weights
from ..graph.neighbors import Neighbors, find_neighbors
from ..graph.vertices import Vertices, distinct_rows, find_vertices, require_neighbors
from ..graph.weights import weigh
from ..storage.blocks import PartWriter
from .context import Context
from .given import GivenNeighborsTask, GivenWeightsTask, given_digest, given_path
from .islands import HealthTask
from .spec import Spec


def make_vertices(context: Context) -> dict[str, Any]:
    """Find equal training points: each distinct one is a vertex of the graph."""
    graph, rows = context.spec.graph, context.points("train")
    if graph.duplicates == "collapse" and graph.given is None:
        found = find_vertices(rows, context.execution, context.parts.within("hashes"), context.progress)
    else:
        found = Vertices.distinct(len(rows))
    PartWriter(context.parts, 0).write(**found.to_arrays())
    return found.attributes


def vertices_of(context: Context) -> Vertices:
    """Return which training points are copies."""
    return Vertices.from_arrays(context.arrays("vertices"))


def make_neighbors(context: Context) -> dict[str, Any]:
    """Search the neighbors of the vertices, or read given lists; weights that are given need none."""
    given = context.spec.graph.given
    if given is None:
        points = vertices_of(context)
        require_neighbors(context.spec.graph.n_neighbors, points)
        rows = distinct_rows(context.points("train"), points, context.execution)
        return find_neighbors(rows, context.spec.graph.neighbors(), context.execution, context.parts).attributes
    if given.kind == "weights":
        return {"method": "given"}
    task = GivenNeighborsTask(str(given_path(given)), context.inputs["split"].parts.arrays(0),
                              context.attributes("dataset")["n"])
    receipt, = context.execution.map([task], context.parts)
    return receipt["lists"]


def _neighbors(context: Context) -> Neighbors | None:
    """Return the lists; None where weights are given in their place."""
    if context.spec.graph.given is not None and context.spec.graph.given.kind == "weights":
        return None
    return Neighbors(context.rows("neighbors", "ids"), context.rows("neighbors", "distances"),
                     context.attributes("neighbors"))


def make_graph(context: Context) -> dict[str, Any]:
    """Weigh the lists, or read given weights."""
    given, lists = context.spec.graph.given, _neighbors(context)
    if lists is not None:
        return weigh(lists, context.spec.graph.weighting(), context.execution, context.parts)
    assert given is not None
    task = GivenWeightsTask(str(given_path(given)), context.inputs["split"].parts.arrays(0),
                            context.attributes("dataset")["n"])
    receipt, = context.execution.map([task], context.parts)
    return described_weights(receipt)


def make_health(context: Context) -> dict[str, Any]:
    task = HealthTask(_neighbors(context), context.inputs["graph"].parts, context.inputs["labels"].parts.arrays(0),
                      context.inputs["split"].parts.arrays(0), context.inputs["vertices"].parts.arrays(0))
    receipt, = context.execution.map([task], context.parts)
    return receipt["health"]


def graph_params(*names: str, given: str) -> Callable[[Spec], dict[str, Any]]:
    """Return the function of the parameters with these names; of a given graph of this kind the digest of its file."""
    def params(spec: Spec) -> dict[str, Any]:
        if spec.graph.given is None or (given == "weights" and spec.graph.given.kind == "neighbors"):
            return {name: getattr(spec.graph, name) for name in names}
        return {"given": given_digest(spec.graph.given) if spec.graph.given.kind == given else spec.graph.given.kind}
    return params


def vertices_params(spec: Spec) -> dict[str, Any]:
    collapse = spec.graph.duplicates == "collapse" and spec.graph.given is None
    return {"duplicates": "collapse" if collapse else "keep"}

"""The health of a graph: components without labels, hubs, duplicates, and the homophily of its edges.

It is computed in blocks of the stored weights, and in blocks of points if some are isolated or unreachable.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ..base.digest import JsonObject
from ..data.scaling.quantiles import median_cost, medians_of_parts, runs_of
from ..execution.cost import Cost, block_count, cost_of
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..knn.lists import Neighbors
from ..storage.blocks import ArrayRows, Arrays, MemoryParts, Parts, PartWriter, Receipt, Rows, row_ranges
from .components import components_cost, find_components
from .union_find import ComponentArrays
from .vertices import VertexRows, Vertices
from .weights.build import BLOCK_ROWS, block_rows, read_weights

MAX_LISTED = 100
MAX_HUBS = 10  # number of listed hubs
HUB = 10  # a hub has more than this many times the median degree
ENTRY_BYTES = 60  # of a task, an entry of W, measured


@dataclass(frozen=True)
class DegreesTask:
    """Write the `degree` and `strength` of the vertices of a block, and the vertices with most edges; count entries.

    labels : the ascending labeled vertices `vertex` (l,) and their class `code`, for homophily; or None.
    """

    graph: "HealthParts"
    index: int
    labels: Arrays | None

    def __call__(self, out: PartWriter) -> Receipt:
        start, stop = self.graph.ranges[self.index]
        W = read_weights(self.graph.weights, self.index, start, stop, self.graph.v)
        degree, strength = np.diff(W.indptr).astype(np.float64), np.asarray(W.sum(axis=1)).ravel()
        hubs = np.lexsort((np.arange(stop - start), -degree))[:MAX_HUBS]
        receipt: Receipt = {"entries": int(W.nnz), "duplicates": self._duplicates(start, stop)}
        for name, values in (("degree", degree), ("strength", strength)):
            receipt[name] = [float(values.min()), float(values.sum()), float(values.max())]
        out.write(degree=degree, strength=strength, hub=start + hubs, hub_degree=degree[hubs])
        return receipt | ({} if self.labels is None else self._edges(W, start, stop, **self.labels.load()))

    def _duplicates(self, start: int, stop: int) -> int:
        """Return the number of points whose nearest neighbor is at distance 0."""
        if self.graph.neighbors is None:
            return 0
        zero = self.graph.neighbors.distance_rows.read(start, stop)[:, 0] == 0
        m = self.graph.vertices.multiplicity
        return int(zero.sum() if m is None else m.read(start, stop)[zero].sum())

    @staticmethod
    def _edges(W: sp.csr_array, start: int, stop: int, vertex: np.ndarray, code: np.ndarray) -> dict[str, int]:
        """Return the numbers of edges from labeled vertices to later ones, and of those within one class."""
        first, last = np.searchsorted(vertex, [start, stop])
        of_block = vertex[first:last]
        rows = W[of_block - start]
        column = rows.indices
        index = np.minimum(np.searchsorted(vertex, column), len(vertex) - 1)
        row = np.repeat(np.arange(first, last), np.diff(rows.indptr))
        both = (vertex[index] == column) & (column > vertex[row])
        return {"labeled_edges": int(both.sum()), "same": int((code[index[both]] == code[row[both]]).sum())}


@dataclass(frozen=True)
class HubsTask:
    """Count the vertices of parts [first, last) of `DegreesTask` with more edges than a limit."""

    degrees: Parts
    first: int
    last: int
    limit: float

    def __call__(self, out: PartWriter) -> Receipt:
        return {"count": sum(int((self.degrees.read(index, ["degree"])["degree"] > self.limit).sum())
                             for index in range(self.first, self.last))}


@dataclass(frozen=True)
class PointsTask:
    """Write the numbers `row` of unreachable points among [start, stop), and the sizes of their components.

    reachable : the ascending components `component` that hold a label; None without labels.
    """

    vertices: VertexRows
    components: ComponentArrays
    reachable: Arrays | None
    numbers: Rows | None
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        number = np.arange(self.start, self.stop) if self.numbers is None else self.numbers.read(self.start, self.stop)
        vertex = self.vertices.vertex_of(np.arange(self.start, self.stop)) if self.vertices.joined else None

        def of_points(name: str) -> np.ndarray:
            rows = self.components.parts.rows(name)
            return rows.read(self.start, self.stop) if vertex is None else rows.take(vertex)

        unreachable = np.zeros(len(number), bool) if self.reachable is None else ~np.isin(
            of_points("component"), self.reachable.load()["component"])
        receipt = out.write(row=number[unreachable], component_size=of_points("points")[unreachable])
        return {**receipt, **{name: {"count": int(which.sum()), "ids": number[which][:MAX_LISTED].tolist()}
                              for name, which in (("isolated", of_points("isolated")), ("unreachable", unreachable))}}


@dataclass(frozen=True)
class HealthParts:
    """A stored graph of v vertices, in row blocks of `height`, with its vertices and neighbor lists."""

    weights: Parts
    v: int
    height: int
    vertices: VertexRows
    neighbors: Neighbors | None

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return row_ranges(self.v, self.height)


def stored_health(weights: Parts, vertices: VertexRows, execution: Execution, parts: Parts,
                  labeled: np.ndarray | None = None, codes: np.ndarray | None = None,
                  neighbors: Neighbors | None = None, numbers: Rows | None = None) -> JsonObject:
    """Return the health of a graph, and write its unreachable points to `parts`, for `unreachable_points`.

    Points are counted with duplicates; degrees, edges and homophily are those of vertices.

    weights : of the vertices, as `weigh` writes them.
    labeled : the numbers of the labeled points.
    codes : their classes, for homophily: the share of edges between labeled points within one class.
    neighbors : the neighbor lists of the graph, to count duplicates.
    numbers : (n,), the name of each point, such as its row in a file; its index by default.
    """
    n, v = vertices.n, len(vertices)
    graph = HealthParts(weights, v, weights.receipt(0)["rows"][1], vertices, neighbors)
    labels, vertex, code = None, np.arange(0), None
    if labeled is not None:
        labeled, first = np.unique(labeled, return_index=True)
        # Of several labeled duplicates the class of the first one counts.
        vertex, first_label = np.unique(vertices.vertex_of(labeled), return_index=True)
        if codes is not None:
            code = np.asarray(codes)[first][first_label]
            labels = execution.share(vertex=vertex, code=code)
    degrees, joined = parts.within("degrees"), parts.within("components")
    receipts = execution.map([DegreesTask(graph, index, labels) for index in range(len(graph.ranges))], degrees)
    components = find_components(weights, v, graph.height, vertices.multiplicity, execution, joined)
    heights = [stop - start for start, stop in graph.ranges]
    medians = medians_of_parts(degrees, {"degree": heights, "strength": heights}, execution)
    health: JsonObject = {
        "n": n, "edges": sum(receipt["entries"] for receipt in receipts) // 2,
        "components": {"count": components.count, "largest": components.largest,
                       "largest_share": components.largest[0] / n},
        "isolated": {"count": 0, "ids": []},
        **{name: _spread([receipt[name] for receipt in receipts], v, median) for name, median in medians.items()},
        "hubs": _hubs(graph, degrees, max(HUB * medians["degree"], 1), numbers, execution)}
    if neighbors is not None:
        n_duplicates = sum(receipt["duplicates"] for receipt in receipts)
        health["duplicates"] = {"points": n_duplicates, "share": n_duplicates / n}
        health["recall"] = neighbors.attributes.get("recall")
    reachable = None if labeled is None else np.unique(joined.rows("component").take(vertex))
    unreachable_components = 0 if reachable is None else components.count - len(reachable)
    if unreachable_components or components.isolated:
        of = None if reachable is None else execution.share(component=reachable)
        listed = execution.map([PointsTask(vertices, components.arrays, of, numbers, start, stop)
                                for start, stop in row_ranges(n, BLOCK_ROWS)], parts)
        health["isolated"] = _listed([receipt["isolated"] for receipt in listed])
        unreachable = _listed([receipt["unreachable"] for receipt in listed])
    else:
        unreachable = {"count": 0, "ids": []}
    if labeled is not None:
        health["labeled"] = len(labeled)
        health["unreachable"] = unreachable | {"components": unreachable_components}
        if code is not None:
            health["homophily"] = _homophily(receipts, code)
    for passed in (degrees, joined):
        passed.remove()
    return health


def unreachable_points(parts: Parts, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, in blocks, the ascending numbers of unreachable points and the sizes of their components.

    n : the number of points.
    """
    for index in parts.receipts(block_count(n, BLOCK_ROWS)):
        part = parts.read(index)
        yield part["row"], part["component_size"]


def graph_health(W: sp.spmatrix | sp.sparray, labeled: np.ndarray | None = None, neighbors: Neighbors | None = None,
                 *, y: np.ndarray | None = None, vertices: Vertices | None = None,
                 numbers: np.ndarray | None = None, parts: Parts | None = None) -> JsonObject:
    """Return the `stored_health` of weights W (v, v) in memory.

    labeled : bool (n,), or the numbers of the labeled points.
    y : (n,) classes, read at labeled points.
    vertices : the vertex of each point; None for n = v vertices of one point each.
    """
    W, weights = sp.csr_array(W), MemoryParts()
    weights.write(0, {"data": W.data, "indices": W.indices, "indptr": W.indptr})
    weights.finish(0, {"rows": [0, W.shape[0]]})
    points = VertexRows(None, W.shape[0], W.shape[0]) if vertices is None else vertices.stored()
    rows = None if labeled is None else np.arange(points.n)[np.asarray(labeled)]
    health = stored_health(weights, points, InProcess(1), MemoryParts() if parts is None else parts, rows,
                           None if y is None or rows is None else np.asarray(y)[rows], neighbors,
                           None if numbers is None else ArrayRows(np.asarray(numbers)))
    if vertices is not None:
        health["vertices"] = described_vertices(points)
    return health


def described_vertices(points: VertexRows) -> dict[str, int]:
    """Return the numbers of duplicates in a graph's health."""
    return {"count": len(points), "largest_multiplicity": points.largest, "copied_points": points.duplicated}


def health_cost(n: int, k: int, nnz: int, budget: int) -> Cost:
    """Return the cost of a graph's health for n vertices: its rows in blocks, its components, and points in blocks."""
    height, entry = block_rows(n, k, budget), ENTRY_BYTES * (nnz // max(1, n) + 1)
    blocks, components = block_count(n, height), components_cost(n, height, nnz, budget)
    tasks = blocks + len(runs_of(blocks)) + block_count(n, BLOCK_ROWS)  # the last for isolated or unreachable points
    return components + median_cost(blocks, n, budget, names=2) + cost_of(
        tasks, 12 * nnz + 12 * n * k, 19 * n, entry * height, entry)


def _listed(parts: list[JsonObject]) -> JsonObject:
    ids = [i for part in parts for i in part["ids"]]
    return {"count": sum(part["count"] for part in parts), "ids": ids[:MAX_LISTED]}


def _spread(quantiles: list[list[float]], v: int, median: float) -> dict[str, float]:
    minima, total, maxima = zip(*quantiles, strict=True)
    return {"min": min(minima), "median": median, "mean": sum(total) / v, "max": max(maxima)}


def _hubs(graph: HealthParts, degrees: Parts, limit: float, numbers: Rows | None, execution: Execution
          ) -> JsonObject:
    """Return the number of vertices with more edges than a limit, and the largest, named by their first points."""
    count, counted = len(graph.ranges), execution.scratch()
    receipts = execution.map([HubsTask(degrees, first, last, limit) for first, last in runs_of(count)], counted)
    counted.remove()
    hubs = [degrees.read(index, ["hub", "hub_degree"]) for index in range(count)]
    hub, degree = (np.concatenate([part[name] for part in hubs]) for name in ("hub", "hub_degree"))
    order = np.lexsort((hub, -degree))[:MAX_HUBS]
    order = order[degree[order] > limit]
    rows = graph.vertices.first_of(hub[order])
    names = rows if numbers is None else numbers.take(rows)
    return {"rule": f"more than {HUB} times the median degree", "count": sum(receipt["count"] for receipt in receipts),
            "largest": [{"id": int(name), "degree": int(edges)}
                        for name, edges in zip(names, degree[order], strict=True)]}


def _homophily(receipts: list[Receipt], code: np.ndarray) -> JsonObject:
    """Return the share of edges between labeled vertices within one class, and the share expected by chance."""
    edges, same = (sum(receipt[name] for receipt in receipts) for name in ("labeled_edges", "same"))
    counts = np.unique(code, return_counts=True)[1]
    total = int(counts.sum())
    chance = float((counts * (counts - 1)).sum() / (total * (total - 1))) if total > 1 else None
    return {"edges": edges, "share": same / edges if edges else None, "by_chance": chance}

"""What a graph can carry: components that hold no label, hubs, copies, and how labels lie on its edges.

It is found in blocks of the stored weights, and of points where some are isolated or no label reaches them.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp

from ..data.scaling.quantiles import MAX_RUNS, median_of_parts, runs_of
from ..execution.cost import STEP_BYTES, Cost, block_count, cost_of
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from ..knn.lists import Neighbors
from ..storage.blocks import ArrayRows, Arrays, MemoryParts, Parts, PartWriter, Receipt, Rows, row_ranges
from .components.arrays import ComponentArrays
from .components.stored import components_cost, find_components
from .vertices import VertexRows, Vertices
from .weights.build import BLOCK_ROWS, block_rows, read_weights

MAX_LISTED = 100
MOST_HUBS = 10  # listed
HUB = 10  # times the median degree
ENTRY_BYTES = 60  # of a task, an entry of W, measured


@dataclass(frozen=True)
class DegreesTask:
    """Write the `degree` and the `strength` of the vertices of a block, and the `hubs` with most edges; count the rest.

    labels : `vertex` (l,) of those that are labeled, ascending, and `code`, where they have classes.
    """

    graph: "HealthParts"
    index: int
    labels: Arrays | None

    def __call__(self, out: PartWriter) -> Receipt:
        start, stop = self.graph.ranges[self.index]
        W = read_weights(self.graph.weights, self.index, start, stop, self.graph.v)
        degree, strength = np.diff(W.indptr).astype(np.float64), np.asarray(W.sum(axis=1)).ravel()
        hubs = np.lexsort((np.arange(stop - start), -degree))[:MOST_HUBS]
        receipt: Receipt = {"entries": int(W.nnz), "copies": self._copies(start, stop)}
        for name, values in (("degree", degree), ("strength", strength)):
            receipt[name] = [float(values.min()), float(values.sum()), float(values.max())]
        out.write(degree=degree, strength=strength, hub=start + hubs, hub_degree=degree[hubs])
        return receipt | ({} if self.labels is None else self._edges(W, start, stop, **self.labels.load()))

    def _copies(self, start: int, stop: int) -> int:
        """Return the points of vertices that lie at their nearest neighbor."""
        if self.graph.neighbors is None:
            return 0
        zero = self.graph.neighbors.distances.read(start, stop)[:, 0] == 0
        m = self.graph.vertices.multiplicity
        return int(zero.sum() if m is None else m.read(start, stop)[zero].sum())

    @staticmethod
    def _edges(W: sp.csr_array, start: int, stop: int, vertex: np.ndarray, code: np.ndarray) -> dict[str, int]:
        """Return the edges from labeled vertices of the block to later ones, and how many of them join one class."""
        first, last = np.searchsorted(vertex, [start, stop])
        of_block = vertex[first:last]
        rows = W[of_block - start]
        column = rows.indices
        at = np.minimum(np.searchsorted(vertex, column), len(vertex) - 1)
        row = np.repeat(np.arange(first, last), np.diff(rows.indptr))
        both = (vertex[at] == column) & (column > vertex[row])
        return {"labeled_edges": int(both.sum()), "same": int((code[at[both]] == code[row[both]]).sum())}


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
    """Write the numbers of points [start, stop) that no label reaches, `row`, and the sizes of their components.

    reached : `component`, those that hold a label, ascending; None where that is not asked.
    """

    vertices: VertexRows
    components: ComponentArrays
    reached: Arrays | None
    numbers: Rows | None
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        number = np.arange(self.start, self.stop) if self.numbers is None else self.numbers.read(self.start, self.stop)
        vertex = self.vertices.vertex_of(np.arange(self.start, self.stop)) if self.vertices.joined else None

        def known(name: str) -> np.ndarray:
            rows = self.components.parts.rows(name)
            return rows.read(self.start, self.stop) if vertex is None else rows.take(vertex)

        lost = np.zeros(len(number), bool) if self.reached is None else ~np.isin(
            known("component"), self.reached.load()["component"])
        receipt = out.write(row=number[lost], component_size=known("points")[lost])
        return {**receipt, **{name: {"count": int(which.sum()), "ids": number[which][:MAX_LISTED].tolist()}
                              for name, which in (("isolated", known("alone")), ("unreached", lost))}}


@dataclass(frozen=True)
class HealthParts:
    """A stored graph of v vertices, in row blocks of `height`, and what its health is asked of."""

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
                  neighbors: Neighbors | None = None, numbers: Rows | None = None) -> dict[str, Any]:
    """Return the facts that decide whether a graph can carry labels, JSON; write the points that no label reaches.

    Points are counted with their copies; degrees, edges and homophily are those of vertices. What `lost_points` reads
    is written to `parts`.

    Parameters
    ----------
    weights : of the vertices, as `weigh` writes them.
    labeled : the numbers of the labeled points. codes : their classes, for homophily, the share of edges between
        labeled points within one class.
    neighbors : the lists that W was made of, to count copies.
    numbers : (n,), the number by which a point is named, such as its row in a file; its place by default.
    """
    n, v = vertices.n, len(vertices)
    graph = HealthParts(weights, v, weights.receipt(0)["rows"][1], vertices, neighbors)
    labels, vertex, code = None, np.arange(0), None
    if labeled is not None:
        labeled, first = np.unique(labeled, return_index=True)
        # Of several labeled copies of a vertex the first one's class counts.
        vertex, chosen = np.unique(vertices.vertex_of(labeled), return_index=True)
        if codes is not None:
            code = np.asarray(codes)[first][chosen]
            labels = execution.share(vertex=vertex, code=code)
    degrees, joined = parts.within("degrees"), parts.within("components")
    receipts = execution.map([DegreesTask(graph, index, labels) for index in range(len(graph.ranges))], degrees)
    components = find_components(weights, v, graph.height, vertices.multiplicity, execution, joined)
    medians = {name: median_of_parts(degrees, name, [stop - start for start, stop in graph.ranges], execution)
               for name in ("degree", "strength")}
    health: dict[str, Any] = {
        "n": n, "edges": sum(receipt["entries"] for receipt in receipts) // 2,
        "components": {"count": components.count, "largest": components.largest,
                       "largest_share": components.largest[0] / n},
        "isolated": {"count": 0, "ids": []},
        **{name: _spread([receipt[name] for receipt in receipts], v, median) for name, median in medians.items()},
        "hubs": _hubs(graph, degrees, max(HUB * medians["degree"], 1), numbers, execution)}
    if neighbors is not None:
        copies = sum(receipt["copies"] for receipt in receipts)
        health["duplicates"] = {"points": copies, "share": copies / n}
        health["recall"] = neighbors.attributes.get("recall")
    reached = None if labeled is None else np.unique(joined.rows("component").take(vertex))
    lost_components = 0 if reached is None else components.count - len(reached)
    if lost_components or components.alone:
        of = None if reached is None else execution.share(component=reached)
        listed = execution.map([PointsTask(vertices, components.arrays, of, numbers, start, stop)
                                for start, stop in row_ranges(n, BLOCK_ROWS)], parts)
        health["isolated"] = _listed([receipt["isolated"] for receipt in listed])
        lost = _listed([receipt["unreached"] for receipt in listed])
    else:
        lost = {"count": 0, "ids": []}
    if labeled is not None:
        health["labeled"] = len(labeled)
        health["unreached"] = lost | {"components": lost_components}
        if code is not None:
            health["homophily"] = _homophily(receipts, code)
    for passed in (degrees, joined):
        passed.remove()
    return health


def lost_points(parts: Parts, n: int) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield, in blocks, the numbers of points that no label reaches, ascending, and the sizes of their components.

    n : how many points there are.
    """
    for index in parts.receipts(block_count(n, BLOCK_ROWS)):
        part = parts.read(index)
        yield part["row"], part["component_size"]


def graph_health(W: sp.spmatrix | sp.sparray, labeled: np.ndarray | None = None, neighbors: Neighbors | None = None,
                 *, y: np.ndarray | None = None, vertices: Vertices | None = None,
                 numbers: np.ndarray | None = None, parts: Parts | None = None) -> dict[str, Any]:
    """Return the `stored_health` of weights W (v, v) in memory.

    labeled : bool (n,), or the numbers of the labeled points. y : (n,) classes, read where `labeled`. vertices : which
    points are copies; None where each of the n = v vertices is one point.
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
    """Return what a graph's health says of copies; JSON."""
    return {"count": len(points), "largest_multiplicity": points.largest, "copied_points": points.copied}


def health_cost(n: int, k: int, nnz: int, budget: int) -> Cost:
    """Return what describing a graph of n vertices takes: its rows in blocks, its components, and points in blocks."""
    height, entry = block_rows(n, k, budget), ENTRY_BYTES * (nnz // max(1, n) + 1)
    blocks, components = block_count(n, height), components_cost(n, height, nnz, budget)
    return cost_of(2 * blocks + 1 + min(blocks, MAX_RUNS) + components.tasks, 12 * nnz + 12 * n * k + components.read,
                   19 * n + components.written, max(entry * height, components.peak - STEP_BYTES), entry,
                   asked=components.asked)


def _listed(parts: list[dict[str, Any]]) -> dict[str, Any]:
    ids = [i for part in parts for i in part["ids"]]
    return {"count": sum(part["count"] for part in parts), "ids": ids[:MAX_LISTED]}


def _spread(quantiles: list[list[float]], v: int, median: float) -> dict[str, float]:
    least, total, most = zip(*quantiles, strict=True)
    return {"min": min(least), "median": median, "mean": sum(total) / v, "max": max(most)}


def _hubs(graph: HealthParts, degrees: Parts, limit: float, numbers: Rows | None, execution: Execution
          ) -> dict[str, Any]:
    """Return the vertices with more edges than a limit, and the first of them, named by their first points."""
    count, counted = len(graph.ranges), execution.scratch()
    receipts = execution.map([HubsTask(degrees, first, last, limit) for first, last in runs_of(count)], counted)
    counted.remove()
    hubs = [degrees.read(index, ["hub", "hub_degree"]) for index in range(count)]
    hub, degree = (np.concatenate([part[name] for part in hubs]) for name in ("hub", "hub_degree"))
    order = np.lexsort((hub, -degree))[:MOST_HUBS]
    order = order[degree[order] > limit]
    rows = graph.vertices.first_of(hub[order])
    names = rows if numbers is None else numbers.take(rows)
    return {"rule": f"more than {HUB} times the median degree", "count": sum(receipt["count"] for receipt in receipts),
            "largest": [{"id": int(name), "degree": int(edges)}
                        for name, edges in zip(names, degree[order], strict=True)]}


def _homophily(receipts: list[Receipt], code: np.ndarray) -> dict[str, Any]:
    """Return the share of edges between labeled vertices that join one class, and that expected by chance."""
    edges, same = (sum(receipt[name] for receipt in receipts) for name in ("labeled_edges", "same"))
    counts = np.unique(code, return_counts=True)[1]
    total = int(counts.sum())
    chance = float((counts * (counts - 1)).sum() / (total * (total - 1))) if total > 1 else None
    return {"edges": edges, "share": same / edges if edges else None, "by_chance": chance}

"""Connected components of stored weights, by union-find over their rows, a block at a time.

Each root is the first vertex of its component, so that components are numbered in the order of these. One task finds
them where `WHOLE_BYTES` a vertex fit it; of larger graphs they are found by ranges of vertices, with the same result:

    JoinBlockTask    joins the vertices of a block; of the edges that leave it for earlier vertices it keeps one a pair
                     of a component of the block and a vertex
    JoinRangeTask    joins the vertices of a range of blocks, from the last range to the first
    NumberRangeTask  numbers the components of a range, from the first range to the last

A range hands on what joins its vertices to those of ranges before it. Of a component with edges to the vertices
`w_1 < w_2 < ...` there, one is enough, `below` = w_1, if edges `w_1 w_2`, `w_1 w_3`, ... are added to the graph of the
earlier vertices: links, which go to the range of the later end and are edges of it like the others. So each range is
visited once on the way down. A component without `below` is one of the whole graph; the others ask the range of their
`below`, which has its numbers already on the way up, and give it the counts of their vertices on the way down.

Memory: of a range `RANGE_BYTES` a vertex, however many components there are, and links, which are written as soon as
they fill a part. Bytes: two numbers an edge between blocks, and as many a link; of vertices in an order in which
neighbors are near there are few, of vertices in any order a few times as many as edges. Ranges follow each other.

References
----------
After Sibeyn, "External connected components", SWAT 2004, whose buckets are processed from the last to the first.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp
from numba import njit
from scipy.sparse.csgraph import connected_components

from ..execution.cost import Cost, block_count, bucket_requests, cost_of
from ..execution.exchange.shuffle import scatter
from ..execution.tasks import Execution
from ..storage.blocks import Parts, PartWriter, Receipt, Rows, arrays_within, row_ranges
from .union_find import MAX_LISTED, ComponentArrays, described, flatten, join_rows, number_components, root_of
from .weights.build import id_type

RANGE_BYTES = 120  # of a task, a vertex of its range, measured where each asks another range for its number
LINK_BYTES = 64  # of a task, a link that is to be written, measured


@njit(nogil=True, cache=True)
def _merge(parent, below, start, high, low, link_high, link_low):
    """Join the edges (high, low) of a range whose first vertex is `start`; return the number of links that follow.

    below (r,): at each root a vertex before the range, -1 for none. link_high, link_low (e,): room for one an edge.
    """
    count = 0
    for edge in range(len(high)):
        i, w = root_of(parent, high[edge] - start), np.int64(low[edge])
        if w >= start:
            j = root_of(parent, w - start)
            if i == j:
                continue
            if j < i:
                i, j = j, i
            parent[j] = i
            w = np.int64(below[j])
        if w >= 0 and w != below[i]:
            if below[i] < 0:
                below[i] = w
            else:
                link_high[count], link_low[count] = max(w, below[i]), min(w, below[i])
                below[i] = link_low[count]
                count += 1
    return count


@dataclass(frozen=True)
class ComponentRanges:
    """A graph in row blocks, ranges of `blocks` of these each, and where the steps write."""

    weights: Parts
    arrays: ComponentArrays
    blocks: int
    part_links: int
    parts: Parts

    @property
    def range_rows(self) -> int:
        return self.blocks * self.arrays.height

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return row_ranges(self.arrays.v, self.range_rows)

    def blocks_of(self, index: int) -> list[tuple[int, int]]:
        """Return the blocks of vertices of a range."""
        return self.arrays.ranges[index * self.blocks:(index + 1) * self.blocks]

    def of(self, step: str) -> Parts:
        """Return where a step writes."""
        return self.parts.within(step)

    def joined(self, index: int) -> Parts:
        """Return where the components of a range are."""
        return self.of(f"range{index}")

    def asked(self, index: int) -> Iterator[tuple[int, dict[str, np.ndarray]]]:
        """Yield the later ranges whose components ask for the numbers of vertices of a range, and what they ask."""
        for later in range(index + 1, len(self.ranges)):
            if self.joined(later).bucket_rows(0, index):
                yield later, self.joined(later).read_bucket(0, index)

    def answer(self, index: int, later: int) -> int:
        """Return the number of the part in which a range answers a later one."""
        return index * len(self.ranges) + later


@dataclass(frozen=True)
class JoinBlockTask:
    """Write the `root` of each vertex of a block, counted from its first; and its edges to earlier blocks.

    `high` : roots, `low` : vertices before the block; each pair once.
    """

    graph: ComponentRanges
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        start, stop = self.graph.arrays.ranges[self.index]
        block = self.graph.weights.read(self.index, ["indices", "indptr"])
        indices, root = block["indices"], np.arange(stop - start, dtype=np.int32)
        join_rows(root, start, start, indices, block["indptr"])
        flatten(root)
        leaves = indices < start
        high, low = np.repeat(root, np.diff(block["indptr"]))[leaves], indices[leaves]
        high, low = np.divmod(np.unique(high * np.int64(max(start, 1)) + low), max(start, 1))
        return out.write(root=root, high=high.astype(np.int32), low=low.astype(id_type(self.graph.arrays.v)))


class _Links:
    """What is left of the edges of a range, written as soon as it fills a part."""

    def __init__(self, graph: ComponentRanges, written: int, attempt: str | None):
        self.graph, self.written, self.attempt = graph, written, attempt
        self._held: list[tuple[np.ndarray, np.ndarray]] = []
        self._count = 0

    def merge(self, parent: np.ndarray, below: np.ndarray, start: int, high: np.ndarray, low: np.ndarray) -> None:
        """Join edges of a range, and add the links that follow."""
        links = np.empty_like(below, shape=len(high)), np.empty_like(below, shape=len(high))
        count = _merge(parent, below, start, np.array(high), np.array(low), *links)
        self._held.append((links[0][:count].copy(), links[1][:count].copy()))
        self._count += count
        if self._count >= self.graph.part_links:
            self.write()

    def write(self) -> None:
        """Write what is held as a part, if there is any; each link for the range of its later end."""
        if self._count:
            high, low = (np.concatenate(column) for column in zip(*self._held, strict=True))
            self._held, self._count = [], 0
            out = PartWriter(self.graph.of("links"), self.written, self.attempt)
            receipt = scatter(out, high // self.graph.range_rows, len(self.graph.ranges), high=high, low=low)
            out.parts.finish(self.written, receipt, self.attempt)
            self.written += 1


@dataclass(frozen=True)
class JoinRangeTask:
    """Write `component` (r,), the number in the range of each vertex's component; and of each component `below`,
    `points` and `vertices` (c,), these for the ranges of `below` too.

    links : how many parts of links the ranges behind it have written.
    """

    graph: ComponentRanges
    index: int
    links: int

    def __call__(self, out: PartWriter) -> Receipt:
        graph, (start, stop) = self.graph, self.graph.ranges[self.index]
        roots, below, links = self._joined(start, stop, out.attempt)
        below = below[roots == np.arange(stop - start, dtype=roots.dtype)]
        count = number_components(roots)
        points, vertices = graph.arrays.count(roots, count, graph.blocks_of(self.index))
        for _, asked in graph.asked(self.index):
            component = roots[asked["below"] - start]
            np.add.at(points, component, asked["points"])
            np.add.at(vertices, component, asked["vertices"])
        out.write(component=roots, below=below, points=points, vertices=vertices)
        asks = below >= 0
        receipt = scatter(out, below[asks] // graph.range_rows, len(graph.ranges), below=below[asks],
                          points=points[asks], vertices=vertices[asks])
        return {**receipt, "links": links, **described(points[~asks], vertices[~asks])}

    def _joined(self, start: int, stop: int, attempt: str | None) -> tuple[np.ndarray, np.ndarray, int]:
        """Return a vertex of the same component for each of the range, the root for itself, a vertex before the range
        for each root, and the number of parts of links that there are then."""
        graph = self.graph
        parent, below = np.arange(stop - start, dtype=np.int32), np.full(stop - start, -1, id_type(graph.arrays.v))
        links = _Links(graph, self.links, attempt)
        for block, (first, last) in enumerate(graph.blocks_of(self.index), self.index * graph.blocks):
            rows = graph.of("blocks").read(block)
            parent[first - start:last - start] = rows["root"] + (first - start)
            links.merge(parent, below, start, rows["high"].astype(below.dtype) + first, rows["low"])
        for part in range(self.links):
            rows = graph.of("links").read_bucket(part, self.index)
            links.merge(parent, below, start, rows["high"], rows["low"])
        links.write()
        return parent, below, links.written


@dataclass(frozen=True)
class NumberRangeTask:
    """Write what is known of the vertices of a range, whose components of the whole graph are numbered from `first` on;
    and answer the ranges behind it.
    """

    graph: ComponentRanges
    index: int
    first: int

    def __call__(self, out: PartWriter) -> Receipt:
        graph, (start, _) = self.graph, self.graph.ranges[self.index]
        joined, answers = graph.joined(self.index).read(0), graph.of("answers")
        roots, below, points, vertices = (joined[name] for name in ("component", "below", "points", "vertices"))
        number = np.empty(len(below), id_type(graph.arrays.v))
        number[below < 0] = np.arange(self.first, self.first + int((below < 0).sum()))
        earlier = below // graph.range_rows
        for other in range(self.index):
            asked = np.flatnonzero(earlier == other)
            if len(asked):
                numbers = answers.read(graph.answer(other, self.index))
                number[asked], points[asked] = numbers["number"], numbers["points"]
                vertices[asked] = numbers["vertices"]
        graph.arrays.write(roots, graph.blocks_of(self.index), points, vertices, number)
        for later, asks in graph.asked(self.index):
            component, part = roots[asks["below"] - start], graph.answer(self.index, later)
            answers.write(part, {"number": number[component], "points": points[component],
                                 "vertices": vertices[component]}, out.attempt)
            answers.finish(part, {}, out.attempt)
        return {}


def range_blocks(v: int, height: int, budget: int) -> int:
    """Return the blocks of `height` vertices in a range of a graph of v: as many as fit the budget, or one."""
    return max(1, min(block_count(v, height), arrays_within(budget) // (RANGE_BYTES * height)))


def join_ranges(weights: Parts, arrays: ComponentArrays, execution: Execution, parts: Parts) -> list[Receipt]:
    """Find the components by ranges of vertices, and write `arrays`; return what `described` says of each range."""
    budget = execution.memory_budget
    graph = ComponentRanges(weights, arrays, range_blocks(arrays.v, arrays.height, budget),
                            max(1, budget // 4 // LINK_BYTES), parts)
    execution.map([JoinBlockTask(graph, index) for index in range(len(arrays.ranges))], graph.of("blocks"))
    links, down = 0, {}
    for index in reversed(range(len(graph.ranges))):
        down[index], = execution.map([JoinRangeTask(graph, index, links)], graph.joined(index))
        links = down[index]["links"]
    first = 0
    for index in range(len(graph.ranges)):
        execution.map([NumberRangeTask(graph, index, first)], graph.of(f"numbers{index}"))
        first += down[index]["components"]
    return [down[index] for index in range(len(graph.ranges))]


# ---- of a whole graph


FEW_VERTICES = 4096  # which SciPy joins as fast as compiled code is loaded
WHOLE_BYTES = 40  # of one task, a vertex, where each is a component: its number, two counts, one of these sorted


@dataclass(frozen=True)
class ComponentsTask:
    """Find the components of all vertices, and write what `ComponentArrays` says."""

    weights: Parts
    arrays: ComponentArrays

    def __call__(self, out: PartWriter) -> Receipt:
        blocks = self.arrays.ranges
        count, component = self._few() if self.arrays.v <= FEW_VERTICES else self._joined()
        points, vertices = self.arrays.count(component, count, blocks)
        self.arrays.write(component, blocks, points, vertices)
        return described(points, vertices)

    def _few(self) -> tuple[int, np.ndarray]:
        """Return the number of components and that of each vertex, by SciPy, which holds the whole graph."""
        v, blocks = self.arrays.v, [self.weights.read(index, ["indices", "indptr"])
                                    for index in range(len(self.arrays.ranges))]
        indices = np.concatenate([block["indices"] for block in blocks])
        starts = np.cumsum([0, *np.concatenate([np.diff(block["indptr"]) for block in blocks])])
        count, component = connected_components(sp.csr_array((np.ones(len(indices)), indices, starts), (v, v)),
                                                directed=False)
        return count, component.astype(id_type(v))

    def _joined(self) -> tuple[int, np.ndarray]:
        """Return the same, a block at a time."""
        parent = np.arange(self.arrays.v, dtype=id_type(self.arrays.v))
        for index, (start, _) in enumerate(self.arrays.ranges):
            block = self.weights.read(index, ["indices", "indptr"])
            join_rows(parent, 0, start, block["indices"], block["indptr"])
        return number_components(parent), parent


@dataclass(frozen=True)
class Components:
    """The components of a graph: their number, those of one vertex, the points of the largest; and their vertices'."""

    count: int
    isolated: int
    largest: list[int]
    arrays: ComponentArrays


def in_one_task(v: int, height: int, budget: int) -> bool:
    """Return whether one task finds the components of v vertices, stored in blocks of `height`."""
    return WHOLE_BYTES * v <= arrays_within(budget) or v <= height


def find_components(weights: Parts, v: int, height: int, multiplicity: Rows | None, execution: Execution,
                    parts: Parts) -> Components:
    """Return the components of a graph of v vertices, whose rows `weigh` stored in blocks of `height`.

    multiplicity : (v,), the points that each vertex stands for; None for one each. What is known of each vertex is
    written to `parts` (see `ComponentArrays`).
    """
    arrays = ComponentArrays(parts, v, height, multiplicity)
    arrays.allocate()
    if in_one_task(v, height, execution.memory_budget):
        receipts = execution.map([ComponentsTask(weights, arrays)], parts)
    else:
        receipts = join_ranges(weights, arrays, execution, parts)
    largest = sorted((points for receipt in receipts for points in receipt["largest"]), reverse=True)[:MAX_LISTED]
    count = sum(receipt["components"] for receipt in receipts)
    return Components(count, sum(receipt["isolated"] for receipt in receipts), largest, arrays)


def components_cost(v: int, height: int, nnz: int, budget: int) -> Cost:
    """Return what finding the components takes; links are counted as if all edges left their blocks, once each."""
    if in_one_task(v, height, budget):
        return cost_of(1, 4 * nnz, 13 * v, WHOLE_BYTES * v)
    blocks = range_blocks(v, height, budget)
    ranges = block_count(v, blocks * height)
    peak = max(RANGE_BYTES * min(v, blocks * height), budget // 4 + LINK_BYTES * (nnz // v) * height)
    return cost_of(block_count(v, height) + 2 * ranges, 12 * nnz + 60 * v, 8 * nnz + 73 * v, peak,
                   extra_requests=bucket_requests((ranges, ranges)))

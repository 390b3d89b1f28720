"""Weights of the neighbor graph: a symmetric sparse matrix, made and stored in blocks of rows.

A block computes the weights of its own list entries, and of the entries of other lists that end in the block. The
latter come by a shuffle, with the scales of the rows of their lists; a second shuffle returns the scales of the points
at which the block's own entries end:

    ListsTask     scatters (i, j, d, s_i) of each entry to the block of j
    LogsTask      gathers these, scatters s_j back to the block of i, and keeps the logs of a sample for the median
    WeightsTask   gathers both, and writes its rows of W

A task holds the entries of its block; each entry is written twice and read four times, for any n. Only rules with local
scales need the second shuffle, and constant weights need no median (`WeightRule`).
"""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace

import numpy as np
import scipy.sparse as sp

from ...base.digest import JsonObject
from ...base.errors import DataError, IntegrityError, require
from ...data.scaling.quantiles import median_cost, medians_of_parts
from ...execution.cost import Cost, block_count, bucket_requests, cost_of
from ...execution.exchange.shuffle import bucket_order, gather, rows_of_writers, scatter
from ...execution.in_process import InProcess
from ...execution.tasks import BlockTasks, Counted, Execution
from ...knn.lists import Neighbors
from ...storage.blocks import MemoryParts, Parts, PartWriter, Receipt, row_ranges, rows_that_fit
from .rules import FLOOR, MIN_LOG, WIDTH, SelfTuned, WeightParams, WeightRule, warn_raised

BLOCK_ROWS = 1 << 16
ENTRY_BYTES = 130  # of a task, measured: an entry of its lists and one that ends in its block
MEDIAN_ENTRIES = 10_000_000  # of all lists, from which the median is taken


def _blocks(neighbors: Neighbors) -> Iterator[tuple[int, np.ndarray, np.ndarray]]:
    return neighbors.blocks(_sampled_rows(neighbors.k))


def _sampled_rows(k: int) -> int:
    """Return the number of rows in each of which the sample of the median begins anew."""
    return max(1, BLOCK_ROWS * 10 // k)


def id_type(n: int) -> type[np.signedinteger]:
    """Return the type of vertex numbers as they are stored."""
    return np.int32 if n < 2**31 else np.int64


def last_distances(ids: np.ndarray, distances: np.ndarray) -> np.ndarray:
    """Return the distance to the last neighbor of each list (b, k), 0 of an empty one, in the type of the distances."""
    return distances[:, -1] if (ids[:, -1] >= 0).all() else np.where(ids >= 0, distances, 0).max(axis=1)


def kth_distances(neighbors: Neighbors) -> np.ndarray:
    """Return the distance of each point to its last neighbor, (n,) float64; 0 for a point without any."""
    return np.concatenate([last_distances(ids, distances) for _, ids, distances in _blocks(neighbors)]).astype(
        np.float64)


@dataclass(frozen=True)
class ListBlocks:
    """Neighbor lists in blocks of `height` rows, and the parts of earlier passes.

    rule : the weight rule, which says what the passes need.
    lists, scales : the parts of `ListsTask` and of `LogsTask`.
    """

    neighbors: Neighbors
    height: int
    rule: type[WeightRule]
    lists: Parts
    scales: Parts

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return row_ranges(len(self.neighbors), self.height)

    @property
    def count(self) -> int:
        return block_count(len(self.neighbors), self.height)

    def tasks(self, task: Callable[[int], Counted]) -> BlockTasks[Counted]:
        """Return the task of each block, of its number."""
        return BlockTasks(lambda start, stop: task(start // self.height), len(self.neighbors), self.height)

    def rows_of(self, index: int) -> int:
        """Return the rows of a block."""
        return min(self.height, len(self.neighbors) - index * self.height)

    def task_cost(self, index: int, read: float, written: float, gathers: int, per_row: int = 0) -> Cost:
        """Return the cost of a task that reads and writes so many bytes an entry, and `per_row` bytes a row.

        gathers : how often it gathers what the tasks of all blocks have sent. The peak is measured (`ENTRY_BYTES`).
        """
        rows, k = self.rows_of(index), self.neighbors.k
        return cost_of(1, read * rows * k, written * rows * k + per_row * rows, ENTRY_BYTES * rows * k, ENTRY_BYTES * k,
                       extra_requests=gathers * bucket_requests((self.count, 1)))

    @property
    def sent_bytes(self) -> int:
        """Return the bytes of an entry on its way to the block that it ends in."""
        return 16 if self.rule.local_scales else 12

    @property
    def returned_bytes(self) -> int:
        """Return the bytes of the scale that comes back."""
        return 4 if self.rule.local_scales else 0

    def entries(self, index: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return the entries of a block of lists: i, counted from its first row, j and d, (e,); and s of its rows."""
        start, stop = self.ranges[index]
        ids, distances = self.neighbors.id_rows.read(start, stop), self.neighbors.distance_rows.read(start, stop)
        there = ids >= 0
        i = np.repeat(np.arange(stop - start, dtype=np.int32), there.sum(axis=1))
        return i, ids[there], distances[there], last_distances(ids, distances)


@dataclass(frozen=True)
class ListsTask:
    """Scatter the entries of a block of lists to the blocks of the points that they name; write the scales (b,)."""

    blocks: ListBlocks
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        blocks = self.blocks
        start, _ = blocks.ranges[self.index]
        i, j, d, s = blocks.entries(self.index)
        block = j // blocks.height
        names = {"s": s[i]} if blocks.rule.local_scales else {}
        receipt = scatter(out, block, blocks.count, i=i + id_type(len(blocks.neighbors))(start),
                          j=(j - block * blocks.height).astype(np.int32), d=d, **names)
        positive = s[s > 0]
        scales = {"scales": s} if blocks.rule.local_scales else {}
        medians = {"positive": positive} if blocks.rule.scale_name == "bandwidth" else {}
        return {**receipt, **out.write(**scales, **medians), "positive": len(positive)}

    def cost(self) -> Cost:
        scales = 4 * (self.blocks.rule.local_scales + (self.blocks.rule.scale_name == "bandwidth"))
        return self.blocks.task_cost(self.index, 12, self.blocks.sent_bytes, 0, scales)


@dataclass(frozen=True)
class LogsTask:
    """Write the log weights of the sampled entries that end in a block; send back the scales of its points.

    Every `step`-th list of each `_sampled_rows` is in the sample.
    """

    blocks: ListBlocks
    rule: WeightRule
    step: int
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        blocks, local = self.blocks, self.rule.local_scales
        entering = gather(blocks.lists, blocks.count, self.index)
        receipt: Receipt = {}
        scales = blocks.lists.read(self.index, ["scales"])["scales"] if local else np.zeros(0)
        if local:
            sent = rows_of_writers(blocks.lists, blocks.count, self.index)
            receipt = scatter(out, np.repeat(np.arange(len(sent)), sent), blocks.count, s=scales[entering["j"]])
        sampled = entering["i"] % _sampled_rows(blocks.neighbors.k) % self.step == 0
        ends = (entering["s"][sampled], scales[entering["j"][sampled]]) if local else (np.zeros(1), np.zeros(1))
        logs = self.rule.log_weights(entering["d"][sampled], *(end.astype(np.float64) for end in ends))
        return {**receipt, **out.write(logs=logs), "logs": len(logs)}

    def cost(self) -> Cost:
        return self.blocks.task_cost(self.index, self.blocks.sent_bytes, self.blocks.returned_bytes + 8 / self.step, 1)


@dataclass(frozen=True)
class WeightsTask:
    """Write the rows of W of a block as `data`, `indices` (columns of W) and `indptr`."""

    blocks: ListBlocks
    rule: WeightRule
    symmetrize: str
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        blocks, n = self.blocks, len(self.blocks.neighbors)
        start, stop = blocks.ranges[self.index]
        i, j, d, s = blocks.entries(self.index)
        other = np.zeros_like(s, shape=len(j))
        if self.rule.local_scales:  # back from the blocks of j, in the order in which they were sent
            other[bucket_order(j // blocks.height, blocks.count)] = gather(blocks.scales, blocks.count, self.index)["s"]
        weights, raised = self.rule.weights(d, s[i].astype(np.float64), other.astype(np.float64))
        shape = (stop - start, n)
        own_entries = sp.csr_array((weights, (i, j)), shape=shape)
        del i, j, d, other, weights
        entering = gather(blocks.lists, blocks.count, self.index)
        i_scales = entering["s"] if "s" in entering else np.zeros(1)
        weights, _ = self.rule.weights(entering["d"], i_scales.astype(np.float64), s[entering["j"]].astype(np.float64))
        back = sp.csr_array((weights, (entering["j"], entering["i"])), shape=shape)
        del entering, i_scales, weights
        W = sp.csr_array((own_entries + back) * 0.5 if self.symmetrize == "mean" else
                         getattr(own_entries, self.symmetrize)(back))
        W.eliminate_zeros()
        W.sort_indices()
        receipt = out.write(data=W.data, indices=W.indices.astype(id_type(n)),
                            indptr=W.indptr.astype(np.int64))
        return {**receipt, "rows": [start, stop], "n": n, "nnz": int(W.nnz), "raised": raised}

    def cost(self) -> Cost:
        """Return it without the entries of W, whose number only the task finds."""
        blocks = self.blocks
        return blocks.task_cost(self.index, 12 + blocks.sent_bytes + blocks.returned_bytes, 0,
                                1 + blocks.rule.local_scales, 8)


def block_rows(n: int, k: int, budget: int) -> int:
    """Return the rows of a block of lists: they take half the budget, since more entries may end in it; at most 65,536.
    """
    return rows_that_fit(budget, ENTRY_BYTES * k, min(n, BLOCK_ROWS), share=2)


def list_tasks(blocks: ListBlocks) -> BlockTasks[ListsTask]:
    return blocks.tasks(lambda index: ListsTask(blocks, index))


def log_tasks(blocks: ListBlocks, rule: WeightRule) -> BlockTasks[LogsTask]:
    step = max(1, -(-len(blocks.neighbors) * blocks.neighbors.k // MEDIAN_ENTRIES))
    return blocks.tasks(lambda index: LogsTask(blocks, rule, step, index))


def weights_tasks(blocks: ListBlocks, rule: WeightRule, symmetrize: str) -> BlockTasks[WeightsTask]:
    return blocks.tasks(lambda index: WeightsTask(blocks, rule, symmetrize, index))


def weigh(neighbors: Neighbors, params: WeightParams, execution: Execution, parts: Parts,
          height: int | None = None) -> JsonObject:
    """Write W into `parts`, one part a block of rows, to be read by `read_graph`; return its attributes (JSON).

    The attributes: parameters, the bandwidth used, `nnz`, `entries` (of all lists), `floor` (the least weight) and
    `raised` (the list entries that were below it).

    height : rows of a block; by default those that fit the budget of the execution. W does not depend on it.
    Raises ParameterError: a bandwidth or width at which the median weight is zero.
    """
    n, lists, scales = len(neighbors), parts.within("lists"), parts.within("scales")
    height = height or block_rows(n, neighbors.k, execution.memory_budget)
    blocks = ListBlocks(neighbors, height, params.rule, lists, scales)
    rule = weight_rule(blocks, params, execution)
    receipts = execution.map(weights_tasks(blocks, rule, params.symmetrize), parts)
    for passed in (lists, scales):
        passed.remove()
    return {**asdict(params), "bandwidth": rule.scale if rule.scale_name == "bandwidth" else None,
            "width": rule.scale if rule.scale_name == "width" else None, "n": n,
            "nnz": sum(receipt["nnz"] for receipt in receipts),
            "entries": neighbors.attributes.get("entries", n * neighbors.k),
            "floor": float(np.exp(rule.log_floor)), "raised": sum(receipt["raised"] for receipt in receipts)}


def weight_rule(blocks: ListBlocks, params: WeightParams, execution: Execution) -> WeightRule:
    """Run the passes before the last, and return the rule of these lists: exact medians (see `medians_of_parts`)."""
    receipts = execution.map(list_tasks(blocks), blocks.lists)
    if blocks.rule.constant:
        return blocks.rule()
    typical = 1.0  # if all points are duplicates, which have no scale
    if blocks.rule.scale_name == "bandwidth" and any(receipt["positive"] for receipt in receipts):
        positive = [receipt["positive"] for receipt in receipts]
        typical = medians_of_parts(blocks.lists, {"positive": positive}, execution)["positive"]
    rule = blocks.rule.scaled(typical if params.bandwidth is None else params.bandwidth, params.width)
    receipts = execution.map(log_tasks(blocks, rule), blocks.scales)
    logs = [receipt["logs"] for receipt in receipts]
    median = medians_of_parts(blocks.scales, {"logs": logs}, execution)["logs"]
    name = rule.scale_name or "scale"
    near = {"width": f"{WIDTH}"}.get(name, f"{typical:.3g}, the median distance to the k-th neighbor")
    require(median > MIN_LOG, f"with {name}={rule.scale:.3g} the median weight is exp({median:.4g})",
            why="half of all weights, or more, are zero in float64", fix=f"choose a {name} near {near}")
    return replace(rule, log_floor=median + float(np.log(FLOOR)))


def weights_cost(n: int, k: int, nnz: int, rule: type[WeightRule], budget: int) -> Cost:
    """Return what `weigh` takes for k neighbors a row and a W of nnz entries: its tasks, medians, and the entries."""
    neighbors = Neighbors.of_shape(n, k)
    blocks = ListBlocks(neighbors, block_rows(n, k, budget), rule, MemoryParts(), MemoryParts())
    scaled = rule.scaled(1.0, WIDTH)
    cost = list_tasks(blocks).cost() + weights_tasks(blocks, scaled, "maximum").cost() + cost_of(0, 0, 12 * nnz, 0)
    if rule.constant:
        return cost
    logs = log_tasks(blocks, scaled)
    cost = cost + logs.cost() + median_cost(blocks.count, n * k // logs[0].step, budget)
    return cost + median_cost(blocks.count, n, budget) if rule.scale_name == "bandwidth" else cost


def read_weights(parts: Parts, index: int, start: int, stop: int, n: int) -> sp.csr_array:
    """Return rows [start, stop) of the matrix (n, n), CSR (stop - start, n), from the part that holds them."""
    part = parts.read(index)
    # Pointers as narrow as the columns: SciPy widens both to the wider.
    indptr = part["indptr"].astype(np.int32 if len(part["data"]) < 2**31 else np.int64)
    return sp.csr_array((part["data"], part["indices"], indptr), shape=(stop - start, n))


def row_receipts(parts: Parts, n: int) -> list[Receipt]:
    """Return the receipts of the blocks of rows of a graph of n vertices, that `weigh` wrote."""
    count = block_count(n, parts.receipt(0)["rows"][1])
    receipts = parts.receipts(count)
    missing = next((index for index in range(count) if index not in receipts), None)
    require(missing is None, f"the graph lacks block {missing} of {count}", error=IntegrityError,
            why="its rows were never written", fix="run the weights again: finished blocks are kept")
    return [receipts[index] for index in range(count)]


def read_graph(parts: Parts) -> sp.csr_array:
    """Return the matrix (n, n) whose rows `weigh` wrote."""
    n = parts.receipt(0)["n"]
    ranges = [receipt["rows"] for receipt in row_receipts(parts, n)]
    pieces = [read_weights(parts, index, start, stop, n) for index, (start, stop) in enumerate(ranges)]
    W = sp.vstack(pieces, format="csr")
    W.has_sorted_indices = True
    return W


def weights(neighbors: Neighbors, weights: str = SelfTuned.name, *, bandwidth: float | None = None,
            width: float = WIDTH, symmetrize: str = "maximum", execution: Execution | None = None) -> sp.csr_array:
    """Return the symmetric weights of neighbor lists.

    Parameters
    ----------
    neighbors : Neighbors
        The neighbor lists of n points.
    weights : "self_tuned", "heat" or "binary"
        How the distance of two neighbors becomes a weight.
    bandwidth : float or None
        The bandwidth of heat weights, in units of distance; None takes the median
        distance to the k-th neighbor.
    width : float
        The width of self-tuned weights, in units of the distances to the k-th
        neighbors. The smaller it is, the less a far neighbor counts beside a near one.
    symmetrize : "maximum", "minimum" or "mean"
        How the two directed weights of a pair become one. The weight of a point that
        does not list the other is 0, so "maximum" has an edge where either lists the
        other, and "minimum" where both do.
    execution : Execution or None
        Where the tasks run; None is threads of this process.

    Returns
    -------
    sparse array, shape (n, n)
        The weights W: CSR with sorted indices, float64, and a diagonal of zeros.

    Raises
    ------
    ParameterError
        `neighbors` is not `Neighbors`, the weights are unknown, or the median weight is
        zero at this bandwidth or width.
    DataError
        A list names a point that does not exist, or its own point.

    Warns
    -----
    WeightsRaised
        Weights below 1e-10 of the median were raised to that floor, since the bandwidth
        or width is too small.

    Examples
    --------
    >>> import numpy as np
    >>> from dssl import neighbors, weights
    >>> lists = neighbors(np.array([[0.0], [1.0], [3.0]]), n_neighbors=1)
    >>> weights(lists, "binary").toarray()
    array([[0., 1., 0.],
           [1., 0., 1.],
           [0., 1., 0.]])
    """
    params = WeightParams(weights=weights, bandwidth=bandwidth, width=width,
                          symmetrize=symmetrize)  # type: ignore[arg-type]
    require(isinstance(neighbors, Neighbors), f"neighbors is of type {type(neighbors).__name__}",
            why="weights are made of neighbor lists", fix="pass dssl.neighbors(X); a graph has graph.weights()")
    _check_lists(neighbors)
    execution = execution or InProcess()
    parts = execution.scratch()
    attributes = weigh(neighbors, params, execution, parts)
    warn_raised(attributes, stacklevel=3)
    return read_graph(parts)


def _check_lists(neighbors: Neighbors) -> None:
    for first, ids, _ in _blocks(neighbors):
        itself = first + np.arange(len(ids))
        wrong = (ids < 0) | (ids >= len(neighbors)) | (ids == itself[:, None])
        require(not wrong.any(), f"the list of point {first + int(wrong.any(axis=1).argmax())} is not valid: "
                f"{ids[wrong.any(axis=1)][:1].tolist()}", error=DataError,
                why="a neighbor is one of the other points", fix="make the lists with dssl.neighbors")

"""The graph's energy in permuted blocks, made by shuffles: no task holds more than its block.

Each row block of W has the data of its own vertices. A shuffle along the entries w_ij brings those of the other end:
W is symmetric, so each block sends and receives one value an entry, in the order of its columns, without indices.

    PositionsTask       sends each vertex its position in the permutation
    MultiplicitiesTask  sends m_i along each entry, if vertices stand for several points
    EndsTask            gathers both, sums the degrees, and sends c_i and the position of i along each entry
    PermuteTask         gathers these, and sends its entries of E to the blocks of their rows' positions
    BlockTask           gathers the entries of its rows, and writes the block that `EnergyBlocks` reads
"""

import warnings
from dataclasses import dataclass

import numpy as np
import scipy.sparse as sp

from ...base.errors import explain
from ...base.profiler import process_peak
from ...execution.cost import block_count
from ...execution.exchange.shuffle import gather, scatter
from ...execution.tasks import Execution
from ...storage.blocks import Parts, PartWriter, Receipt, Rows, arrays_within, row_ranges
from ..weights.build import BLOCK_ROWS, id_type, read_weights, row_receipts
from .blocks import EnergyBlocks, StoredGraph, mean_of, numbered_in_block, scales, split_bytes, split_energy

ENTRY_BYTES = 90  # of a `BlockTask`, an entry of E, measured


class GraphUnordered(UserWarning):
    """Points are processed in their given order, in which neighbors are far apart."""


@dataclass(frozen=True)
class BlockPermutation:
    """Row blocks of W of `height` vertices, blocks of E of `block_rows`, and the parts of earlier passes.

    order : the vertex at each position; None for the identity.
    """

    graph: StoredGraph
    n: int
    height: int
    block_rows: int
    order: Rows | None
    position_parts: Parts
    multiplicity_parts: Parts
    ends: Parts
    entries: Parts
    blocks: Parts

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return row_ranges(self.n, self.height)

    def weights(self, index: int) -> sp.csr_array:
        """Return rows of W, CSR (b, v)."""
        return read_weights(self.graph.weights, index, *self.ranges[index], self.n)

    def send(self, out: PartWriter, W: sp.csr_array, **values: np.ndarray) -> Receipt:
        """Send values of the rows (b,) along the entries of the rows."""
        degrees = np.diff(W.indptr)
        return scatter(out, W.indices // self.height, len(self.ranges),
                       **{name: np.repeat(array, degrees) for name, array in values.items()})

    def received(self, parts: Parts, index: int, W: sp.csr_array) -> dict[str, np.ndarray]:
        """Return for each entry the values that the row of its other end sent."""
        at = np.argsort(W.indices, kind="stable")
        sent = {}
        for name, array in gather(parts, len(self.ranges), index).items():
            sent[name] = np.empty_like(array)
            sent[name][at] = array
        return sent

    def point_weights(self, index: int, W: sp.csr_array) -> np.ndarray:
        """Return m_i w_ij m_j of the entries."""
        if self.graph.multiplicities is None:
            return W.data
        m = np.repeat(self.graph.multiplicities.read(*self.ranges[index]).astype(np.float64), np.diff(W.indptr))
        return W.data * (m * self.received(self.multiplicity_parts, index, W)["m"])


@dataclass(frozen=True)
class PositionsTask:
    """Send each of the vertices at positions [start, stop) its position."""

    permutation: BlockPermutation
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        permutation = self.permutation
        assert permutation.order is not None
        vertex = permutation.order.read(self.start, self.stop)
        return scatter(out, vertex // permutation.height, len(permutation.ranges), vertex=vertex % permutation.height,
                       place=np.arange(self.start, self.stop))


@dataclass(frozen=True)
class MultiplicitiesTask:
    """Send the multiplicities of the vertices of a row block along their entries."""

    permutation: BlockPermutation
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        permutation = self.permutation
        assert permutation.graph.multiplicities is not None
        m = permutation.graph.multiplicities.read(*permutation.ranges[self.index]).astype(np.float64)
        return permutation.send(out, permutation.weights(self.index), m=m)


@dataclass(frozen=True)
class EndsTask:
    """Write position, degree and scale of the vertices of a row block; send position and scale along its entries."""

    permutation: BlockPermutation
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        permutation, (start, stop) = self.permutation, self.permutation.ranges[self.index]
        place = np.arange(start, stop)
        if permutation.order is not None:
            ends = gather(permutation.position_parts, len(permutation.ranges), self.index)
            place[ends["vertex"]] = ends["place"]
        W = permutation.weights(self.index)
        combined = sp.csr_array((permutation.point_weights(self.index, W), W.indices, W.indptr), shape=W.shape)
        degree = np.asarray(combined.sum(axis=1)).ravel()
        multiplicities = permutation.graph.multiplicities
        m = None if multiplicities is None else multiplicities.read(start, stop)
        scale = scales(permutation.graph.kind, degree, m)
        permutation.blocks.write_range(start, {"place": place})
        receipt = permutation.send(out, W, place=place.astype(id_type(permutation.n)), scale=scale)
        return {**receipt, **out.write(place=place, degree=degree, scale=scale)}


@dataclass(frozen=True)
class PermuteTask:
    """Send the entries of E of a row block to the blocks of their rows' positions, each with C of its column."""

    permutation: BlockPermutation
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        permutation, ends = self.permutation, self.permutation.ends.read(self.index)
        W = permutation.weights(self.index)
        value, other = permutation.point_weights(self.index, W), permutation.received(permutation.ends, self.index, W)
        row = np.repeat(np.arange(len(ends["place"])), np.diff(W.indptr))
        value = value * (ends["scale"][row] * other["scale"])
        between = float(value.sum())
        place = np.concatenate([ends["place"][row], ends["place"]])
        del W, row
        receipt = scatter(
            out, place // permutation.block_rows, len(row_ranges(permutation.n, permutation.block_rows)),
            row=(place % permutation.block_rows).astype(np.int32),
            column=np.concatenate([other["place"], ends["place"].astype(other["place"].dtype)]),
            value=np.concatenate([-value, ends["scale"]**2 * ends["degree"]]),
            scale=np.concatenate([other["scale"], ends["scale"]]))
        return {**receipt, "between": between, "trace": float(ends["scale"]**2 @ ends["degree"])}


@dataclass(frozen=True)
class BlockTask:
    """Write one block of E, and the vertices at its positions."""

    permutation: BlockPermutation
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        permutation = self.permutation
        start, stop = row_ranges(permutation.n, permutation.block_rows)[self.index]
        entries = gather(permutation.entries, len(permutation.ranges), self.index)
        row, column = entries["row"], entries["column"]
        inside = (column >= start) & (column < stop)
        scale = np.zeros(stop - start)
        diagonal = inside & (column == row + start)
        scale[row[diagonal]] = entries["scale"][diagonal]
        there = np.flatnonzero(entries["value"] != 0)
        there = there[np.lexsort((column[there], row[there]))]
        row, column, inside = row[there], column[there], inside[there]
        indices, halo, first = numbered_in_block(column, inside, start, stop)
        indptr = np.concatenate([[0], np.cumsum(np.bincount(row, minlength=stop - start))]).astype(np.int32)
        receipt = out.write_rows(start, order=np.arange(start, stop) if permutation.order is None else
                                 permutation.order.read(start, stop))
        out.write(data=entries["value"][there], indices=indices, indptr=indptr, halo=halo.astype(np.int64), scale=scale,
                  halo_scale=entries["scale"][there[~inside]][first])
        return {**receipt, "nnz": len(there), "halo": len(halo)}


def energy_tasks(n: int, block_rows: int) -> int:
    """Return the number of tasks that permute the energy of n distinct points by a given order."""
    return 3 * block_count(n, BLOCK_ROWS) + block_count(n, block_rows)


def energy_shuffles(n: int, block_rows: int) -> list[tuple[int, int]]:
    """Return the numbers of writing and reading tasks of the shuffles: of positions, of ends, and of entries."""
    rows = block_count(n, BLOCK_ROWS)
    return [(rows, rows), (rows, rows), (rows, block_count(n, block_rows))]


def energy_blocks(graph: StoredGraph | None, n: int, block_rows: int, execution: Execution, parts: Parts,
                  order: Rows | None = None) -> EnergyBlocks:
    """Return the energy of a stored graph, None for no edges, in blocks of `block_rows` vertices.

    The entries of a permuted block take at most half of the budget.

    parts : where the blocks are written. Finished steps of a killed computation are reused.
    order : (v,), the vertex at each position. Without it the graph is ordered by reverse Cuthill-McKee, if one task
        fits the budget; otherwise the vertices keep their order, with a warning.

    Warns
    -----
    GraphUnordered : most neighbors of a block lie in other blocks, so many kernel values are computed repeatedly.
    """
    if graph is None:
        return split_energy(None, n, block_rows, execution, parts)
    receipts = row_receipts(graph.weights, n)
    nnz = sum(receipt["nnz"] for receipt in receipts)
    if order is None and split_bytes(n, nnz) <= arrays_within(execution.memory_budget):
        return split_energy(graph, n, block_rows, execution, parts)
    if order is None:
        warnings.warn(explain(
            f"{n:,} points are processed in their given order",
            why=f"ordering their graph takes {split_bytes(n, nnz):,} bytes in one task, the budget is "
                f"{execution.memory_budget:,}; neighbors that are far apart cost many evaluations of the kernel",
            fix="use the neighbor search partitioned, which returns an order, or raise memory_budget"),
            GraphUnordered, stacklevel=2)
    height = receipts[0]["rows"][1]
    block_rows = min(block_rows, max(1, int(execution.memory_budget // 2 // (ENTRY_BYTES * (nnz / n + 1)))))
    permutation = BlockPermutation(graph, n, height, block_rows, order, *(parts.within(name) for name in (
        "places", "duplicates", "ends", "entries", "blocks")))
    permutation.blocks.allocate("order", (n,), np.int64, block_rows)
    permutation.blocks.allocate("place", (n,), np.int64, height)
    described = parts.receipt_of(0)
    if described is None:
        described = _moved(permutation, execution)
        parts.finish(0, described)
    permutation.entries.remove()
    return EnergyBlocks.of(permutation.blocks, n, described)


def _moved(permutation: BlockPermutation, execution: Execution) -> Receipt:
    """Write the blocks; return their description."""
    rows = range(len(permutation.ranges))
    # Otherwise the parts of the earlier steps may be removed already.
    if len(permutation.entries.receipts(len(rows))) < len(rows):
        if permutation.order is not None:
            execution.map([PositionsTask(permutation, start, stop) for start, stop in permutation.ranges],
                          permutation.position_parts)
        if permutation.graph.multiplicities is not None:
            execution.map([MultiplicitiesTask(permutation, index) for index in rows], permutation.multiplicity_parts)
        execution.map([EndsTask(permutation, index) for index in rows], permutation.ends)
    moved = execution.map([PermuteTask(permutation, index) for index in rows], permutation.entries)
    for passed in (permutation.position_parts, permutation.multiplicity_parts, permutation.ends):
        passed.remove()
    blocks = execution.map([BlockTask(permutation, index)
                            for index in range(block_count(permutation.n, permutation.block_rows))],
                           permutation.blocks)
    trace, between = (sum(receipt[name] for receipt in moved) for name in ("trace", "between"))
    halos = [receipt["halo"] for receipt in blocks]
    return {"block_rows": permutation.block_rows, "nnz": sum(receipt["nnz"] for receipt in blocks),
            "halo": sum(halos) / permutation.n, "largest_halo": max(halos),
            "relabeled_mean": list(mean_of(permutation.n, trace, trace - between)), "peak_rss_bytes": process_peak()}

"""The graph's energy in blocks of another order, made by shuffles: no task holds more than its block.

Each row block of W knows its own vertices. What an entry w_ij needs of the vertex at its other end comes by a shuffle
along the entries: W is symmetric, so that a block sends one value an entry and receives one an entry, in the order of
its columns, and no numbers go with them.

    PlacesTask    sends each vertex its place in the order
    CopiesTask    sends m_i along each entry, where vertices stand for several points
    EndsTask      gathers both, sums the degrees, and sends c_i and the place of i along each entry
    MoveTask      gathers these, and sends its entries of E to the blocks of their rows' places
    BlockTask     gathers the entries of its rows, and writes the block as `energy.EnergyBlocks` reads it
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
    """Points are taken in their own order, in which neighbors are far apart."""


@dataclass(frozen=True)
class Moves:
    """Row blocks of W of `height` vertices, and blocks of E of `block_rows`; what earlier passes wrote.

    order : the vertex at each place; None where vertices stay in their places.
    """

    graph: StoredGraph
    n: int
    height: int
    block_rows: int
    order: Rows | None
    places: Parts
    copies: Parts
    ends: Parts
    entries: Parts
    blocks: Parts

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return row_ranges(self.n, self.height)

    def weights(self, index: int) -> sp.csr_array:
        """Return rows of W, CSR (b, v)."""
        return read_weights(self.graph.weights, index, *self.ranges[index], self.n)

    def tell(self, out: PartWriter, W: sp.csr_array, **values: np.ndarray) -> Receipt:
        """Send values of the rows (b,) along their entries."""
        degrees = np.diff(W.indptr)
        return scatter(out, W.indices // self.height, len(self.ranges),
                       **{name: np.repeat(array, degrees) for name, array in values.items()})

    def told(self, parts: Parts, index: int, W: sp.csr_array) -> dict[str, np.ndarray]:
        """Return for each entry what the row of its other end sent."""
        at = np.argsort(W.indices, kind="stable")
        sent = {}
        for name, array in gather(parts, len(self.ranges), index).items():
            sent[name] = np.empty_like(array)
            sent[name][at] = array
        return sent

    def joint(self, index: int, W: sp.csr_array) -> np.ndarray:
        """Return m_i w_ij m_j of the entries."""
        if self.graph.copies is None:
            return W.data
        m = np.repeat(self.graph.copies.read(*self.ranges[index]).astype(np.float64), np.diff(W.indptr))
        return W.data * (m * self.told(self.copies, index, W)["m"])


@dataclass(frozen=True)
class PlacesTask:
    """Send each of the vertices at places [start, stop) its place."""

    moves: Moves
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        moves = self.moves
        assert moves.order is not None
        vertex = moves.order.read(self.start, self.stop)
        return scatter(out, vertex // moves.height, len(moves.ranges), vertex=vertex % moves.height,
                       place=np.arange(self.start, self.stop))


@dataclass(frozen=True)
class CopiesTask:
    """Send the points that each vertex of a row block stands for along its entries."""

    moves: Moves
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        moves = self.moves
        assert moves.graph.copies is not None
        m = moves.graph.copies.read(*moves.ranges[self.index]).astype(np.float64)
        return moves.tell(out, moves.weights(self.index), m=m)


@dataclass(frozen=True)
class EndsTask:
    """Write `place`, `degree` and `scale` of the vertices of a row block; send place and scale along its entries."""

    moves: Moves
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        moves, (start, stop) = self.moves, self.moves.ranges[self.index]
        place = np.arange(start, stop)
        if moves.order is not None:
            ends = gather(moves.places, len(moves.ranges), self.index)
            place[ends["vertex"]] = ends["place"]
        W = moves.weights(self.index)
        joint = sp.csr_array((moves.joint(self.index, W), W.indices, W.indptr), shape=W.shape)
        degree = np.asarray(joint.sum(axis=1)).ravel()
        copies = moves.graph.copies
        scale = scales(moves.graph.kind, degree, None if copies is None else copies.read(start, stop))
        moves.blocks.write_range(start, {"place": place})
        receipt = moves.tell(out, W, place=place.astype(id_type(moves.n)), scale=scale)
        return {**receipt, **out.write(place=place, degree=degree, scale=scale)}


@dataclass(frozen=True)
class MoveTask:
    """Send the entries of E of a row block to the blocks of the places of their rows, each with C of its column."""

    moves: Moves
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        moves, ends = self.moves, self.moves.ends.read(self.index)
        W = moves.weights(self.index)
        value, other = moves.joint(self.index, W), moves.told(moves.ends, self.index, W)
        row = np.repeat(np.arange(len(ends["place"])), np.diff(W.indptr))
        value = value * (ends["scale"][row] * other["scale"])
        between = float(value.sum())
        place = np.concatenate([ends["place"][row], ends["place"]])
        del W, row
        receipt = scatter(
            out, place // moves.block_rows, len(row_ranges(moves.n, moves.block_rows)),
            row=(place % moves.block_rows).astype(np.int32),
            column=np.concatenate([other["place"], ends["place"].astype(other["place"].dtype)]),
            value=np.concatenate([-value, ends["scale"]**2 * ends["degree"]]),
            scale=np.concatenate([other["scale"], ends["scale"]]))
        return {**receipt, "between": between, "trace": float(ends["scale"]**2 @ ends["degree"])}


@dataclass(frozen=True)
class BlockTask:
    """Write one block of E, and the vertices at its places."""

    moves: Moves
    index: int

    def __call__(self, out: PartWriter) -> Receipt:
        moves, (start, stop) = self.moves, row_ranges(self.moves.n, self.moves.block_rows)[self.index]
        entries = gather(moves.entries, len(moves.ranges), self.index)
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
        receipt = out.write_rows(start, order=np.arange(start, stop) if moves.order is None else
                                 moves.order.read(start, stop))
        out.write(data=entries["value"][there], indices=indices, indptr=indptr, halo=halo.astype(np.int64), scale=scale,
                  halo_scale=entries["scale"][there[~inside]][first])
        return {**receipt, "nnz": len(there), "halo": len(halo)}


def energy_tasks(n: int, block_rows: int) -> int:
    """Return the number of tasks that move the energy of n distinct points in an order that is given."""
    return 3 * block_count(n, BLOCK_ROWS) + block_count(n, block_rows)


def energy_shuffles(n: int, block_rows: int) -> list[tuple[int, int]]:
    """Return the tasks that write and that read, of each shuffle of these: of places, of ends, and of entries."""
    rows = block_count(n, BLOCK_ROWS)
    return [(rows, rows), (rows, rows), (rows, block_count(n, block_rows))]


def energy_blocks(graph: StoredGraph | None, n: int, block_rows: int, execution: Execution, parts: Parts,
                  order: Rows | None = None) -> EnergyBlocks:
    """Return the energy of a stored graph, None for no edges, in blocks of `block_rows` vertices.

    Blocks that are moved have no more vertices than have their entries in half the budget.

    parts : where they go. What was finished there by a computation that was killed is kept, whatever step that was in.
    order : (v,), the vertex at each place. Without one the graph is ordered by reverse Cuthill-McKee, if that fits a
    task of the budget; if not, vertices stay in their own order, with a warning.

    Warns
    -----
    GraphUnordered : most neighbors of a block lie in others, so that kernels of many points are evaluated again.
    """
    if graph is None:
        return split_energy(None, n, block_rows, execution, parts)
    receipts = row_receipts(graph.weights, n)
    nnz = sum(receipt["nnz"] for receipt in receipts)
    if order is None and split_bytes(n, nnz) <= arrays_within(execution.memory_budget):
        return split_energy(graph, n, block_rows, execution, parts)
    if order is None:
        warnings.warn(explain(
            f"{n:,} points are taken in their own order",
            why=f"to order their graph takes {split_bytes(n, nnz):,} bytes in one task, the budget is "
                f"{execution.memory_budget:,}; neighbors that are far apart cost many evaluations of the kernel",
            fix="use the method partitioned for the neighbors, which gives an order, or raise memory_budget"),
            GraphUnordered, stacklevel=2)
    height = receipts[0]["rows"][1]
    block_rows = min(block_rows, max(1, int(execution.memory_budget // 2 // (ENTRY_BYTES * (nnz / n + 1)))))
    moves = Moves(graph, n, height, block_rows, order, *(parts.within(name) for name in (
        "places", "copies", "ends", "entries", "blocks")))
    moves.blocks.allocate("order", (n,), np.int64, block_rows)
    moves.blocks.allocate("place", (n,), np.int64, height)
    done = parts.receipt_of(0)
    if done is None:
        done = _moved(moves, execution)
        parts.finish(0, done)
    moves.entries.remove()
    return EnergyBlocks.of(moves.blocks, n, done)


def _moved(moves: Moves, execution: Execution) -> Receipt:
    """Write the blocks; return what describes them."""
    rows = range(len(moves.ranges))
    if len(moves.entries.receipts(len(rows))) < len(rows):  # or else what the earlier steps wrote may be gone
        if moves.order is not None:
            execution.map([PlacesTask(moves, start, stop) for start, stop in moves.ranges], moves.places)
        if moves.graph.copies is not None:
            execution.map([CopiesTask(moves, index) for index in rows], moves.copies)
        execution.map([EndsTask(moves, index) for index in rows], moves.ends)
    moved = execution.map([MoveTask(moves, index) for index in rows], moves.entries)
    for passed in (moves.places, moves.copies, moves.ends):
        passed.remove()
    blocks = execution.map([BlockTask(moves, index) for index in range(block_count(moves.n, moves.block_rows))],
                           moves.blocks)
    trace, between = (sum(receipt[name] for receipt in moved) for name in ("trace", "between"))
    halos = [receipt["halo"] for receipt in blocks]
    return {"block_rows": moves.block_rows, "nnz": sum(receipt["nnz"] for receipt in blocks),
            "halo": sum(halos) / moves.n, "largest_halo": max(halos),
            "relabeled_mean": list(mean_of(moves.n, trace, trace - between)), "peak_rss_bytes": process_peak()}

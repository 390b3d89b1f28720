"""The graph's energy `f' E f` of functions on points, split into blocks of vertices that each see all their edges.

With W the weights, m the multiplicities of the vertices, `w_ij = m_i W_ij m_j` and d their row sums,

    f' E f = sum over edges of w_ij (c_i f_i - c_j f_j)^2,    E = C (D - M W M) C,    C = diag(c)

    unnormalized   c = 1                  E = L of the graph of all points
    normalized     c = (m / d)^1/2        E = M^1/2 L_norm M^1/2

so it is the energy of all points, duplicates included, of a function that is equal on duplicates.

A block is a range of vertices in a permutation in which most neighbors of a block lie in the block itself: that of the
neighbor search, if it has one, or reverse Cuthill-McKee, for which one task holds the whole graph. Its rows of E are
stored with columns numbered within the block: first its own vertices, then their neighbors outside (the halo). On
covtype (581,012 points, 10-NN, blocks of 16,384) the halo adds 43 % with reverse Cuthill-McKee, and 107 % in the order
of the file. If there is a permutation, or the graph fits no task, the blocks are permuted by shuffles
(`permuted_blocks.py`).

A sample of the edges estimates the energy without bias, from blocks that are read one after the other.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ...execution.tasks import Execution
from ...solvers.operators import inverse_permutation
from ...storage.blocks import Parts, PartWriter, Receipt, Rows, row_ranges
from ..laplacian import Laplacian, scaled_entries
from ..regularizer import LaplacianKind
from ..weights.build import read_graph


@dataclass(frozen=True)
class GraphEnergy:
    """`E = C (D - W) C`.

    W : sparse (v, v), symmetric, zero diagonal: the weights between vertices times their multiplicities.
    scale : (v,), the diagonal of C; 0 at a vertex without an edge.
    """

    W: sp.csr_array
    scale: np.ndarray

    @classmethod
    def of(cls, W: sp.csr_array, kind: LaplacianKind = "normalized",
           multiplicity: np.ndarray | None = None) -> "GraphEnergy":
        """Return the energy of symmetric weights W (v, v) between vertices that stand for `multiplicity` points.

        Raises DataError: W is not square, symmetric and non-negative.
        """
        laplacian = Laplacian(W, True, multiplicity)
        return cls(laplacian.point_weights, scales(kind, laplacian.degrees, laplacian.multiplicity))

    def matrix(self) -> sp.csr_array:
        """Return E, CSR (v, v) with sorted columns, exactly symmetric."""
        degrees = np.asarray(self.W.sum(axis=1)).ravel()
        scaled = sp.csr_array((scaled_entries(self.W, self.scale), self.W.indices, self.W.indptr), shape=self.W.shape)
        E = sp.csr_array(sp.diags_array(self.scale**2 * degrees) - scaled)
        E.sort_indices()
        return E

    def relabeled_mean(self) -> tuple[float, float]:
        """Return (a, b) of `a I + b 1 1'`, the mean of E over all relabelings of the vertices.

        It is the energy of a graph without information on the points: the control of what a graph adds.
        """
        degrees = np.asarray(self.W.sum(axis=1)).ravel()
        trace = float(self.scale**2 @ degrees)
        return mean_of(len(self.scale), trace, trace - float(self.scale @ (self.W @ self.scale)))


def scales(kind: str, degrees: np.ndarray, multiplicity: np.ndarray | None) -> np.ndarray:
    """Return the diagonal of C at vertices of these degrees (b,) and multiplicities, None for one each."""
    if kind == "unnormalized":
        return (degrees > 0).astype(np.float64)
    m = np.ones(len(degrees)) if multiplicity is None else multiplicity
    return np.sqrt(np.divide(m, degrees, out=np.zeros(len(m)), where=degrees > 0))


def mean_of(v: int, trace: float, whole: float) -> tuple[float, float]:
    """Return `relabeled_mean` of an energy of v vertices, of its trace and 1' E 1."""
    b = (whole - trace) / (v * (v - 1)) if v > 1 else 0.0
    return trace / v - b, b


@dataclass(frozen=True)
class StoredGraph:
    """Where the weights of a graph are stored, as `weigh` wrote them, and the energy that is asked of them.

    multiplicities : (v,), the points that each vertex stands for; None for one each.
    """

    weights: Parts
    kind: LaplacianKind
    multiplicities: Rows | None = None

    def multiplicity(self) -> np.ndarray | None:
        """Return the number of points of each vertex, (v,); None for one each."""
        return None if self.multiplicities is None else self.multiplicities.read_all()

    def energy(self) -> GraphEnergy:
        """Return the energy; three times the memory of W while it is made."""
        return GraphEnergy.of(read_graph(self.weights), self.kind, self.multiplicity())


@dataclass(frozen=True)
class Edges:
    """Edges (i, j), i < j, with their weights w and the scales c_i, c_j of their ends; all (e,)."""

    i: np.ndarray
    j: np.ndarray
    w: np.ndarray
    ci: np.ndarray
    cj: np.ndarray

    @property
    def energies(self) -> np.ndarray:
        """Return w (c_i^2 + c_j^2), (e,), to which the probabilities of edges are proportional."""
        return self.w * (self.ci**2 + self.cj**2)

    def of(self, selected: np.ndarray) -> "Edges":
        """Return some of the edges."""
        return Edges(*(array[selected] for array in (self.i, self.j, self.w, self.ci, self.cj)))


def joined_edges(pieces: Iterable[Edges]) -> Edges:
    """Return the edges of one or more pieces, one after the other."""
    fields = zip(*((piece.i, piece.j, piece.w, piece.ci, piece.cj) for piece in pieces), strict=True)
    return Edges(*(np.concatenate(list(arrays)) for arrays in fields))


def sampled_edges(blocks: Callable[[], Iterable[Edges]], count: int, rng: np.random.Generator) -> Edges:
    """Return at most `count` edges, drawn with replacement in proportion to w (c_i^2 + c_j^2), equal draws added.

    Their weights are w / (count p), so that `sum of w (c_i f_i - c_j f_j)^2` over them estimates `f' E f` without bias.
    If there are at most `count` edges, all are returned once, and the estimate is exact.

    blocks : yields the edges of one or more blocks; called twice. One block and the sample are in memory.
    """
    few: list[Edges] | None = []
    total, seen = 0.0, 0
    for edges in blocks():
        seen += len(edges.w)
        total = _cumulative(total, edges)[-1]
        few = None if few is None or seen > count else [*few, edges]
    if few is not None:
        return joined_edges(few)
    draws, cumulated, edges_sampled = np.sort(np.minimum(rng.random(count) * total, np.nextafter(total, 0))), 0.0, []
    for edges in blocks():
        cumulative = _cumulative(cumulated, edges)
        cumulated, begin = cumulative[-1], np.searchsorted(draws, cumulated, side="left")
        end = np.searchsorted(draws, cumulated, side="left")
        drawn = np.searchsorted(cumulative[1:], draws[begin:end], side="right")
        selected, times = np.unique(drawn, return_counts=True)
        p = np.diff(cumulative)[selected] / total
        drawn_edges = edges.of(selected)
        edges_sampled.append(replace(drawn_edges, w=drawn_edges.w * times / (count * p)))
    return joined_edges(edges_sampled)


def _cumulative(before: float, edges: Edges) -> np.ndarray:
    """Return the cumulated energies of edges, from the sum before them on: the same for any division into blocks."""
    return np.cumsum(np.concatenate([[before], edges.energies]))


@dataclass(frozen=True)
class EnergyBlocks:
    """E in blocks: part i of `parts` holds `data`, `indices`, `indptr` and `halo` of vertices [i b, (i + 1) b).

    Beside them `scale` and `halo_scale`, C of its vertices and of those of its halo. Vertices are numbered by their
    place in an order: the shared array `order` has the vertex at each place, `place` the place of each vertex.
    nnz : of E. halo : vertices read beside their own over all blocks, as a share of all vertices. relabeled_mean :
    see `GraphEnergy.relabeled_mean`.
    """

    parts: Parts
    n: int
    block_rows: int
    nnz: int
    halo: float
    largest_halo: int
    relabeled_mean: tuple[float, float]

    @classmethod
    def of(cls, parts: Parts, n: int, described: Receipt) -> "EnergyBlocks":
        """Return the blocks in parts that a receipt describes."""
        return cls(parts, n, described["block_rows"], described["nnz"], described["halo"], described["largest_halo"],
                   tuple(described["relabeled_mean"]))

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges [start, stop) of vertices, in order."""
        return row_ranges(self.n, self.block_rows)

    def order(self) -> np.ndarray:
        """Return the vertex at each position, (v,)."""
        return self.parts.rows("order").read_all()

    @property
    def positions(self) -> Rows:
        """Return the position of each vertex, (v,)."""
        return self.parts.rows("place")

    def edges(self, index: int) -> Edges:
        """Return the edges of a block that end at a later position; 40 bytes each."""
        part, (start, stop) = self.parts.read(index), self.ranges[index]
        scale = np.concatenate([part["scale"], part["halo_scale"]])
        positions = np.concatenate([np.arange(start, stop), part["halo"]])
        row, column, e = np.repeat(np.arange(stop - start), np.diff(part["indptr"])), part["indices"], part["data"]
        later = (positions[row] < positions[column]) & (e != 0)
        row, column = row[later], column[later]
        w = -e[later] / (scale[row] * scale[column])
        return Edges(positions[row], positions[column], w, scale[row], scale[column])

    def submatrix(self, positions: np.ndarray) -> sp.csr_array:
        """Return E between some vertices, CSR (s, s), given by their positions, in this order."""
        distinct, inverse = np.unique(positions, return_inverse=True)
        pieces = []
        for index, (start, stop) in enumerate(self.ranges):
            first, last = np.searchsorted(distinct, [start, stop])
            if last > first:
                E, halo = self.read(index)
                coo, numbers = E[distinct[first:last] - start].tocoo(), np.concatenate([np.arange(start, stop), halo])
                wanted = np.isin(numbers, distinct)[coo.coords[1]]
                pieces.append((coo.coords[0][wanted] + first, np.searchsorted(distinct, numbers[coo.coords[1][wanted]]),
                              coo.data[wanted]))
        i, j, e = (np.concatenate(column) for column in zip(*pieces, strict=True))
        return sp.csr_array((e, (i, j)), shape=(len(distinct), len(distinct)))[inverse][:, inverse]

    def read(self, index: int) -> tuple[sp.csr_array, np.ndarray]:
        """Return the rows of E of a block, (b, b + h), and the positions of its halo (h,)."""
        part = self.parts.read(index)
        start, stop = self.ranges[index]
        shape = (stop - start, stop - start + len(part["halo"]))
        return sp.csr_array((part["data"], part["indices"], part["indptr"]), shape=shape), part["halo"]


def numbered_in_block(columns: np.ndarray, inside: np.ndarray, start: int,
                      stop: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return columns (e,) numbered within the block [start, stop), its ascending halo (h,), and the index of the first
    outside column of each halo vertex.

    inside (e,) bool : which columns lie in the block.
    """
    halo, first = np.unique(columns[~inside], return_index=True)
    indices = np.empty(len(columns), np.int32)
    indices[inside] = columns[inside] - start
    indices[~inside] = stop - start + np.searchsorted(halo, columns[~inside])
    return indices, halo, first


def block_of(E: sp.csr_array, scale: np.ndarray, start: int, stop: int) -> dict[str, np.ndarray]:
    """Return rows [start, stop) of E with columns numbered within the block, its halo, and C of both."""
    rows = E[start:stop]
    indices, halo, _ = numbered_in_block(rows.indices, (rows.indices >= start) & (rows.indices < stop), start, stop)
    return {"data": rows.data, "indices": indices, "indptr": rows.indptr.astype(np.int32),
            "halo": halo.astype(np.int64), "scale": scale[start:stop], "halo_scale": scale[halo]}


@dataclass(frozen=True)
class SplitTask:
    """Write the blocks of E in reverse Cuthill-McKee order; without a graph, one zero row a vertex.

    Memory: W three times, and E.
    """

    graph: StoredGraph | None
    n: int
    blocks: Parts
    block_rows: int

    def __call__(self, out: PartWriter) -> Receipt:
        energy = GraphEnergy.of(sp.csr_array((self.n, self.n))) if self.graph is None else self.graph.energy()
        order = np.arange(self.n) if self.graph is None else reverse_cuthill_mckee(
            sp.csr_matrix(energy.W), symmetric_mode=True).astype(np.int64)
        E, scale = energy.matrix()[order][:, order], energy.scale[order]
        E.sort_indices()
        halos = []
        for index, (start, stop) in enumerate(row_ranges(self.n, self.block_rows)):
            block = block_of(E, scale, start, stop)
            halos.append(len(block["halo"]))
            self.blocks.write(index, block)
        self.blocks.write_range(0, {"order": order, "place": inverse_permutation(order)})
        return {"block_rows": self.block_rows, "nnz": int(np.count_nonzero(E.data)), "halo": sum(halos) / self.n,
                "largest_halo": max(halos), "relabeled_mean": list(energy.relabeled_mean())}


def split_bytes(v: int, nnz: int) -> int:
    """Return the bytes of `SplitTask` for v vertices and nnz weights."""
    return 60 * nnz + 80 * v


def split_energy(graph: StoredGraph | None, n: int, block_rows: int, execution: Execution,
                 parts: Parts) -> EnergyBlocks:
    """Return the energy of a stored graph (None for no edges) in blocks of `block_rows` vertices, by one task."""
    blocks = parts.within("blocks")
    for name in ("order", "place"):
        blocks.allocate(name, (n,), np.int64, block_rows)
    receipt, = execution.map([SplitTask(graph, n, blocks, block_rows)], parts)
    return EnergyBlocks.of(blocks, n, receipt)

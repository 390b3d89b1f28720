"""The graph's energy `f' E f` of functions on points, split into blocks of vertices that each see all their edges.

With W the weights, m the multiplicities of the vertices, `w_ij = m_i W_ij m_j` and d their row sums,

    f' E f = sum over edges of w_ij (c_i f_i - c_j f_j)^2,    E = C (D - M W M) C,    C = diag(c)

    unnormalized   c = 1                  E = L of the graph of all points
    normalized     c = (m / d)^1/2        E = M^1/2 L_norm M^1/2

so that it is the energy of all points, copies included, of a function that is equal on copies.

A block is a range of vertices in the order of reverse Cuthill-McKee, in which most neighbors of a block lie in it. Its
rows of E are stored with columns numbered within the block: first its own vertices, then the others that they are
joined to (its halo). Measured on covtype (581,012 points, 10-NN), blocks of 16,384: the halo adds 43 %, in the order
of the file 107 %.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp
from scipy.sparse.csgraph import reverse_cuthill_mckee

from ..execution.tasks import Execution
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, row_ranges
from .laplacian import Laplacian, scaled_entries
from .weights import read_graph


@dataclass(frozen=True)
class Edges:
    """Edges (i, j), i < j, with their weights w and the scales c_i, c_j of their ends; all (e,)."""

    i: np.ndarray
    j: np.ndarray
    w: np.ndarray
    ci: np.ndarray
    cj: np.ndarray


@dataclass(frozen=True)
class GraphEnergy:
    """`E = C (D - W) C`.

    W : sparse (v, v), symmetric, zero diagonal: the weights between vertices times their multiplicities.
    scale : (v,), the diagonal of C; 0 at a vertex without an edge.
    """

    W: sp.csr_array
    scale: np.ndarray

    @classmethod
    def of(cls, W: sp.csr_array, kind: Literal["normalized", "unnormalized"] = "normalized",
           multiplicity: np.ndarray | None = None) -> "GraphEnergy":
        """Return the energy of symmetric weights W (v, v) between vertices that stand for `multiplicity` points.

        Raises
        ------
        DataError : W is not square, symmetric and non-negative.
        """
        laplacian = Laplacian(W, True, multiplicity)
        joint, degrees = laplacian.joint, laplacian.degrees
        if kind == "unnormalized":
            return cls(joint, (degrees > 0).astype(np.float64))
        m = np.ones(len(degrees)) if laplacian.multiplicity is None else laplacian.multiplicity
        return cls(joint, np.sqrt(np.divide(m, degrees, out=np.zeros(len(m)), where=degrees > 0)))

    def matrix(self) -> sp.csr_array:
        """Return E, CSR (v, v) with sorted columns, exactly symmetric."""
        degrees = np.asarray(self.W.sum(axis=1)).ravel()
        scaled = sp.csr_array((scaled_entries(self.W, self.scale), self.W.indices, self.W.indptr), shape=self.W.shape)
        E = sp.csr_array(sp.diags_array(self.scale**2 * degrees) - scaled)
        E.sort_indices()
        return E

    def relabeled_mean(self) -> tuple[float, float]:
        """Return (a, b) of `a I + b 1 1'`, the mean of E over all relabelings of the vertices.

        It is what a graph says that knows nothing of the points: the control of what a graph adds.
        """
        v = len(self.scale)
        degrees = np.asarray(self.W.sum(axis=1)).ravel()
        trace = float(self.scale**2 @ degrees)
        whole = trace - float(self.scale @ (self.W @ self.scale))
        b = (whole - trace) / (v * (v - 1)) if v > 1 else 0.0
        return trace / v - b, b


@dataclass(frozen=True)
class StoredGraph:
    """Where the weights of a graph are stored, as `weigh` wrote them, and the energy that is asked of them.

    vertices : holds `multiplicity` (v,), or None where each vertex is one point.
    """

    weights: Parts
    kind: Literal["normalized", "unnormalized"]
    vertices: Arrays | None = None

    def multiplicity(self) -> np.ndarray | None:
        """Return the points that each vertex stands for, (v,); None for one each."""
        return None if self.vertices is None else self.vertices.load()["multiplicity"]

    def energy(self) -> GraphEnergy:
        """Return the energy; three times the memory of W while it is made."""
        return GraphEnergy.of(read_graph(self.weights), self.kind, self.multiplicity())


def sampled_edges(edges: Edges, count: int, rng: np.random.Generator) -> Edges:
    """Return at most `count` edges, drawn with replacement in proportion to w (c_i^2 + c_j^2), equal draws added.

    Their weights are w / (count p), so that `sum of w (c_i f_i - c_j f_j)^2` over them estimates `f' E f` without bias.
    With no more than `count` edges in all, they are all taken, once, and it is exact.
    """
    if len(edges.w) <= count:
        return edges
    cumulative = np.cumsum(edges.w * (edges.ci**2 + edges.cj**2))
    total = cumulative[-1]
    drawn = np.minimum(np.searchsorted(cumulative, rng.random(count) * total, side="right"), len(cumulative) - 1)
    chosen, times = np.unique(drawn, return_counts=True)
    p = np.diff(cumulative, prepend=0.0)[chosen] / total
    return Edges(edges.i[chosen], edges.j[chosen], edges.w[chosen] * times / (count * p), edges.ci[chosen],
                 edges.cj[chosen])


@dataclass(frozen=True)
class EnergyBlocks:
    """E in blocks: part i of `parts` holds `data`, `indices`, `indptr` and `halo` of vertices [i b, (i + 1) b).

    Vertices are numbered by their place in `order`, which part `n_blocks` holds beside `scale`, C in that order.
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

    @property
    def ranges(self) -> list[tuple[int, int]]:
        """Return the ranges [start, stop) of vertices, in order."""
        return row_ranges(self.n, self.block_rows)

    def order(self) -> np.ndarray:
        """Return the vertex at each place, (v,)."""
        return self.parts.read(len(self.ranges))["order"]

    def edges(self) -> Edges:
        """Return all edges; 40 bytes each."""
        scale = self.parts.read(len(self.ranges))["scale"]
        i, j, e = self._entries(lambda i, j, e: (i < j) & (e != 0))
        return Edges(i, j, -e / (scale[i] * scale[j]), scale[i], scale[j])

    def among(self, places: np.ndarray) -> sp.csr_array:
        """Return E between some vertices, CSR (s, s), each named by its place, in the order of `places`."""
        distinct, again = np.unique(places, return_inverse=True)
        column = np.full(self.n, -1)
        column[distinct] = np.arange(len(distinct))
        i, j, e = self._entries(lambda i, j, e: (column[i] >= 0) & (column[j] >= 0))
        return sp.csr_array((e, (column[i], column[j])), shape=(len(distinct), len(distinct)))[again][:, again]

    def _entries(self, chosen: Callable[..., np.ndarray]) -> list[np.ndarray]:
        """Return places of row and column, and values, of the entries for which `chosen` of these three is true."""
        found = []
        for index, (start, stop) in enumerate(self.ranges):
            E, halo = self.read(index)
            coo, numbers = E.tocoo(), np.concatenate([np.arange(start, stop), halo])
            entries = coo.coords[0] + np.int64(start), numbers[coo.coords[1]], coo.data
            which = chosen(*entries)
            found.append([values[which] for values in entries])
        return [np.concatenate(column) for column in zip(*found, strict=True)]

    def read(self, index: int) -> tuple[sp.csr_array, np.ndarray]:
        """Return the rows of E of a block, (b, b + h), and the places of its halo (h,)."""
        part = self.parts.read(index)
        start, stop = self.ranges[index]
        shape = (stop - start, stop - start + len(part["halo"]))
        return sp.csr_array((part["data"], part["indices"], part["indptr"]), shape=shape), part["halo"]


def block_of(E: sp.csr_array, start: int, stop: int) -> dict[str, np.ndarray]:
    """Return rows [start, stop) of E with columns numbered in the block, and the numbers of its halo."""
    rows = E[start:stop]
    own = (rows.indices >= start) & (rows.indices < stop)
    halo = np.unique(rows.indices[~own])
    indices = np.empty(len(rows.indices), np.int32)
    indices[own] = rows.indices[own] - start
    indices[~own] = stop - start + np.searchsorted(halo, rows.indices[~own])
    return {"data": rows.data, "indices": indices, "indptr": rows.indptr.astype(np.int32),
            "halo": halo.astype(np.int64)}


@dataclass(frozen=True)
class SplitTask:
    """Write the blocks of E in the order of reverse Cuthill-McKee; of no graph, one zero row a vertex.

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
        E = energy.matrix()[order][:, order]
        E.sort_indices()
        halos, ranges = [], row_ranges(self.n, self.block_rows)
        for index, (start, stop) in enumerate(ranges):
            block = block_of(E, start, stop)
            halos.append(len(block["halo"]))
            self.blocks.write(index, block)
        self.blocks.write(len(ranges), {"order": order, "scale": energy.scale[order]})
        return {"nnz": int(np.count_nonzero(E.data)), "halo": sum(halos) / self.n, "largest_halo": max(halos),
                "relabeled_mean": list(energy.relabeled_mean())}


def split_energy(graph: Parts | None, n: int, kind: Literal["normalized", "unnormalized"], block_rows: int,
                 execution: Execution, parts: Parts, vertices: Arrays | None = None) -> EnergyBlocks:
    """Return the energy of a stored graph (`weigh`) in blocks of `block_rows` vertices, written by one task.

    graph : None for no edges. vertices : holds `multiplicity` (v,), or None where each vertex is one point.
    """
    blocks = parts.within("blocks")
    stored = None if graph is None else StoredGraph(graph, kind, vertices)
    receipt, = execution.map([SplitTask(stored, n, blocks, block_rows)], parts)
    return EnergyBlocks(blocks, n, block_rows, receipt["nnz"], receipt["halo"], receipt["largest_halo"],
                        tuple(receipt["relabeled_mean"]))

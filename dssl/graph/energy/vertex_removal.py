"""Vertex removal: the exact change of the graph's energy when points are removed, which is local to these points.

The remaining graph has the edges and weights between the remaining points as they were: no point gets a new neighbor,
and weights that depend on distances to removed points, as self-tuned ones may, are kept. Degrees are recomputed, and a
vertex without edges is isolated, with a zero row. A vertex of m points, k of which are removed, becomes one of m - k
points. With t = (m - k) / m, in the letters of `blocks.py`,

    E' = C' (D' - T M W M T) C',    D' of the weights T M W M T,    c' = 1, or (t m / d')^1/2 where d' > 0

so E' - E has entries in the rows and columns of S alone, the vertices of removed points and their neighbors. For the
unnormalized energy both ends of an entry are in S; for the normalized one the other end may be a neighbor of S.

For a graph stored in blocks, only the rows of S are read: `near_graph`.
"""

from dataclasses import dataclass, replace

import numpy as np
import scipy.sparse as sp

from ...data.scaling.quantiles import runs_of
from ...execution.tasks import Execution
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt
from ..regularizer import LaplacianKind
from .blocks import EnergyBlocks, GraphEnergy, StoredGraph

NEAR_BYTES = 120  # an entry of the rows near removed points, measured


@dataclass(frozen=True, eq=False)
class EnergyChange:
    """`E' - E = J + J'`, where J has the rows `half` (s, a) at the vertices rows[near], and its columns at `rows`.

    rows : (a,), ascending. near : (s,), indices into `rows`.
    """

    rows: np.ndarray
    near: np.ndarray
    half: sp.csr_array

    def matrix(self, v: int) -> sp.csr_array:
        """Return E' - E, CSR (v, v)."""
        coo = self.half.tocoo()
        i, j = self.rows[self.near[coo.coords[0]]], self.rows[coo.coords[1]]
        J = sp.csr_array((coo.data, (i, j)), shape=(v, v))
        return sp.csr_array(J + J.T)

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {"rows": self.rows, "near": self.near, "data": self.half.data, "indices": self.half.indices,
                "indptr": self.half.indptr}

    @classmethod
    def from_arrays(cls, arrays: dict[str, np.ndarray]) -> "EnergyChange":
        shape = (len(arrays["near"]), len(arrays["rows"]))
        half = sp.csr_array((arrays["data"], arrays["indices"], arrays["indptr"]), shape=shape)
        return cls(arrays["rows"], arrays["near"], half)


def energy_change(energy: GraphEnergy, kind: LaplacianKind, removed: np.ndarray,
                  multiplicity: np.ndarray | None = None) -> EnergyChange:
    """Return the change of an energy of this kind when points are removed.

    removed : (k,), the vertex of each removed point, in any order.
    multiplicity : (v,), the number of points of each vertex; None for one each.

    Cost: a few times the entries of W in the rows of S.
    """
    removed_vertices, n_removed = np.unique(removed, return_counts=True)
    S = np.union1d(removed_vertices, energy.W[removed_vertices].indices)
    W_S = energy.W[S]
    rows, columns = np.unique(np.concatenate([S, W_S.indices]), return_inverse=True)
    W_S = sp.csr_array((W_S.data, columns[len(S):], W_S.indptr), shape=(len(S), len(rows)))
    near, m = columns[:len(S)], np.ones(len(rows)) if multiplicity is None else multiplicity[rows].astype(np.float64)
    t = np.ones(len(rows))
    index = np.searchsorted(rows, removed_vertices)
    t[index] = np.maximum(m[index] - n_removed, 0) / m[index]
    degrees, degrees_after = W_S @ np.ones(len(rows)), t[near] * (W_S @ t)
    before, after = energy.scale[rows], energy.scale[rows].copy()
    after[near] = degrees_after > 0
    if kind == "normalized":
        after[near] = np.sqrt(np.divide((t * m)[near], degrees_after, out=np.zeros(len(S)), where=degrees_after > 0))
    of = np.repeat(near, np.diff(W_S.indptr))
    inside = np.zeros(len(rows), bool)
    inside[near] = True
    off = W_S.data * ((before[of] * before[W_S.indices]) - (after * t)[of] * (after * t)[W_S.indices])
    off[inside[W_S.indices]] /= 2  # such an entry is both in J and in J'
    diagonal = (after[near] ** 2 * degrees_after - before[near] ** 2 * degrees) / 2
    half = sp.csr_array((off, W_S.indices, W_S.indptr), shape=W_S.shape)
    half = sp.csr_array(half + sp.csr_array((diagonal, (np.arange(len(S)), near)), shape=W_S.shape))
    half.eliminate_zeros()
    used = inside.copy()
    used[half.indices] = True
    number = np.cumsum(used) - 1
    return EnergyChange(rows[used], number[near], sp.csr_array((half.data, number[half.indices], half.indptr),
                                                               shape=(len(S), int(used.sum()))))


@dataclass(frozen=True)
class RowsTask:
    """Write the rows of the weights at some `positions` that lie in blocks [first, last), as the energy has them.

    `degree` (r,), the entries of each row, and `scale`, C there; of each entry `place`, that of the other vertex, `w`,
    and `other`, C there.
    """

    blocks: EnergyBlocks
    positions: Arrays
    first: int
    last: int

    def __call__(self, out: PartWriter) -> Receipt:
        wanted, pieces = self.positions.load()["places"], []
        for index, (start, stop) in enumerate(self.blocks.ranges[self.first:self.last], self.first):
            rows_of_block = wanted[slice(*np.searchsorted(wanted, [start, stop]))] - start
            if len(rows_of_block):
                pieces.append(self._rows(index, rows_of_block))
        empty = {"degree": np.arange(0), "scale": np.zeros(0), "place": np.arange(0), "w": np.zeros(0),
                 "other": np.zeros(0)}
        return out.write(**{name: np.concatenate([none, *(rows[name] for rows in pieces)])
                            for name, none in empty.items()})

    def _rows(self, index: int, rows: np.ndarray) -> dict[str, np.ndarray]:
        part, (start, stop) = self.blocks.parts.read(index), self.blocks.ranges[index]
        scale = np.concatenate([part["scale"], part["halo_scale"]])
        E = sp.csr_array((part["data"], part["indices"], part["indptr"]), shape=(stop - start, len(scale)))
        E = E[rows].tocoo()
        row, column = E.coords
        off = (rows[row] != column) & (E.data != 0)
        row, column = row[off], column[off]
        return {"degree": np.bincount(row, minlength=len(rows)), "scale": scale[rows], "other": scale[column],
                "place": np.concatenate([np.arange(start, stop), part["halo"]])[column],
                "w": -E.data[off] / (scale[rows[row]] * scale[column])}


def _rows_at(blocks: EnergyBlocks, positions: np.ndarray, execution: Execution) -> dict[str, np.ndarray]:
    """Return the rows at ascending positions as `RowsTask` writes them, read by one task a run of blocks."""
    parts, shared = execution.scratch(), execution.share(places=positions)
    runs = runs_of(len(blocks.ranges))
    execution.map([RowsTask(blocks, shared, first, last) for first, last in runs], parts)
    arrays = [parts.read(index) for index in range(len(runs))]
    parts.remove()
    return {name: np.concatenate([piece[name] for piece in arrays]) for name in arrays[0]}


def near_graph(graph: StoredGraph, blocks: EnergyBlocks, removed: np.ndarray, execution: Execution
               ) -> dict[str, np.ndarray]:
    """Return the part of a graph near removed points, from which the changes of its energy follow.

    `rows` (a,): ascending positions within two edges of the removed points; `scale` (a,): their C; `multiplicity` (a,);
    and the weights as CSR (a, a) `data`, `indices`, `indptr`, with entries in the rows within one edge alone.
    """
    removed_vertices = np.unique(removed)
    S = np.union1d(removed_vertices, _rows_at(blocks, removed_vertices, execution)["place"])
    arrays = _rows_at(blocks, S, execution)
    rows = np.union1d(S, arrays["place"])
    near, indices = np.searchsorted(rows, S), np.searchsorted(rows, arrays["place"])
    scale, degree = np.zeros(len(rows)), np.zeros(len(rows), np.int64)
    scale[indices] = arrays["other"]
    scale[near], degree[near] = arrays["scale"], arrays["degree"]
    order, multiplicities = blocks.parts.rows("order"), graph.multiplicities
    m = np.ones(len(rows), np.int64) if multiplicities is None else multiplicities.take(order.take(rows))
    return {"rows": rows, "scale": scale, "multiplicity": m, "data": arrays["w"], "indices": indices,
            "indptr": np.concatenate([[0], np.cumsum(degree)])}


@dataclass(frozen=True)
class RemovalTask:
    """Write into part f of `changes` the change without fold f, its vertices numbered by their places in the blocks.

    near : what `near_graph` returns. removed_points : `position` (m,) of points that are held out and their `fold`.
    """

    kind: LaplacianKind
    near: Arrays
    removed_points: Arrays
    n_folds: int
    changes: Parts

    def __call__(self, out: PartWriter) -> Receipt:
        near, points = self.near.load(), self.removed_points.load()
        rows = near["rows"]
        W = sp.csr_array((near["data"], near["indices"], near["indptr"]), shape=(len(rows), len(rows)))
        energy, largest = GraphEnergy(W, near["scale"]), 0
        for fold in range(self.n_folds):
            removed = np.searchsorted(rows, points["position"][points["fold"] == fold])
            change = energy_change(energy, self.kind, removed, near["multiplicity"])
            self.changes.write(fold, replace(change, rows=rows[change.rows]).to_arrays())
            largest = max(largest, len(change.rows))
        return {"largest": largest}


def changes_of_folds(graph: StoredGraph, blocks: EnergyBlocks, position: np.ndarray, fold: np.ndarray, n_folds: int,
                     execution: Execution) -> Parts:
    """Return parts with the `EnergyChange` without each fold of points, given by their positions.

    Blocks are read twice; `removal_bytes` are held, here and by one task.
    """
    parts = execution.scratch()
    changes, near = parts.within("changes"), near_graph(graph, blocks, position[fold < n_folds], execution)
    execution.map([RemovalTask(graph.kind, execution.share(**near), execution.share(position=position, fold=fold),
                               n_folds, changes)], parts)
    return changes


def removal_tasks(n_blocks: int) -> int:
    """Return the number of tasks of `changes_of_folds`."""
    return 2 * len(runs_of(n_blocks)) + 1


def removal_bytes(v: int, nnz: int, m: int) -> int:
    """Return the bytes of `changes_of_folds` for m points of a graph of v vertices and nnz weights.

    They are the entries in the rows of these points and of their neighbors, nnz / v a point, but at most all entries.
    """
    degree = nnz / max(v, 1)
    return int(NEAR_BYTES * min(nnz + v, m * (1 + degree) * (1 + degree)))

"""What changes in the graph's energy where points leave it: exactly, and near these points alone.

The graph they leave is that among the points that stay. Edges between these and their weights are as they were: no
point finds another neighbor, and weights that were made of distances to points that have left, as self-tuned ones may
be, stay. Degrees are its own, and a vertex that has lost its last edge is isolated, with the zero row. A vertex that
stands for m points, k of which leave, stands for m - k. With t = (m - k) / m, in the letters of `energy.py`,

    E' = C' (D' - T M W M T) C',    D' of the weights T M W M T,    c' = 1, or (t m / d')^1/2 where d' > 0

so that E' - E has entries in the rows and columns of the vertices that are left or joined to one by an edge, S. Of the
unnormalized energy both ends of an entry are among them; of the normalized one an end may be a neighbor of S.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
import scipy.sparse as sp

from ..execution.tasks import Execution
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt
from .energy import EnergyBlocks, GraphEnergy, StoredGraph


@dataclass(frozen=True, eq=False)
class EnergyChange:
    """`E' - E = J + J'`, where J has the rows `half` (s, a) at the vertices rows[near], and its columns at `rows`.

    rows : (a,), ascending. near : (s,), places among `rows`.
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


def energy_change(energy: GraphEnergy, kind: Literal["normalized", "unnormalized"], leaving: np.ndarray,
                  multiplicity: np.ndarray | None = None) -> EnergyChange:
    """Return the change of an energy of this kind where points leave: the vertex of each, (k,), in any order.

    multiplicity : (v,), the points that each vertex stands for; None for one each.

    Cost: the entries of W in the rows of S, some times; nothing of the others.
    """
    left, gone = np.unique(leaving, return_counts=True)
    S = np.union1d(left, energy.W[left].indices)
    W_S = energy.W[S]
    rows, columns = np.unique(np.concatenate([S, W_S.indices]), return_inverse=True)
    W_S = sp.csr_array((W_S.data, columns[len(S):], W_S.indptr), shape=(len(S), len(rows)))
    near, m = columns[:len(S)], np.ones(len(rows)) if multiplicity is None else multiplicity[rows].astype(np.float64)
    t = np.ones(len(rows))
    place = np.searchsorted(rows, left)
    t[place] = np.maximum(m[place] - gone, 0) / m[place]
    degrees, left_degrees = W_S @ np.ones(len(rows)), t[near] * (W_S @ t)
    before, after = energy.scale[rows], energy.scale[rows].copy()
    after[near] = left_degrees > 0
    if kind == "normalized":
        after[near] = np.sqrt(np.divide((t * m)[near], left_degrees, out=np.zeros(len(S)), where=left_degrees > 0))
    of = np.repeat(near, np.diff(W_S.indptr))
    inside = np.zeros(len(rows), bool)
    inside[near] = True
    off = W_S.data * ((before[of] * before[W_S.indices]) - (after * t)[of] * (after * t)[W_S.indices])
    off[inside[W_S.indices]] /= 2  # such an entry is in J and in J'
    diagonal = (after[near] ** 2 * left_degrees - before[near] ** 2 * degrees) / 2
    half = sp.csr_array((off, W_S.indices, W_S.indptr), shape=W_S.shape)
    half = sp.csr_array(half + sp.csr_array((diagonal, (np.arange(len(S)), near)), shape=W_S.shape))
    half.eliminate_zeros()
    used = inside.copy()
    used[half.indices] = True
    number = np.cumsum(used) - 1
    return EnergyChange(rows[used], number[near], sp.csr_array((half.data, number[half.indices], half.indptr),
                                                               shape=(len(S), int(used.sum()))))


@dataclass(frozen=True)
class LeavingTask:
    """Write into part f of `changes` the change without fold f, its vertices numbered by their places in the blocks.

    leaving : `position` (m,) of points that are held out and their `fold`. Memory: W three times, and E.
    """

    graph: StoredGraph
    blocks: EnergyBlocks
    leaving: Arrays
    n_folds: int
    changes: Parts

    def __call__(self, out: PartWriter) -> Receipt:
        energy, order, leaving = self.graph.energy(), self.blocks.order(), self.leaving.load()
        W = sp.csr_array(energy.W[order][:, order])
        moved = GraphEnergy(W, energy.scale[order])
        m = self.graph.multiplicity()
        m = None if m is None else m[order]
        largest = 0
        for fold in range(self.n_folds):
            own = leaving["position"][leaving["fold"] == fold]
            change = energy_change(moved, self.graph.kind, own, m)
            self.changes.write(fold, change.to_arrays())
            largest = max(largest, len(change.rows))
        return {"largest": largest}


def changes_of_folds(graph: StoredGraph, blocks: EnergyBlocks, position: np.ndarray, fold: np.ndarray, n_folds: int,
                     execution: Execution) -> Parts:
    """Return parts that hold the `EnergyChange` without each of some folds of points, as their places say."""
    parts = execution.scratch()
    changes = parts.within("changes")
    execution.map([LeavingTask(graph, blocks, execution.share(position=position, fold=fold), n_folds, changes)], parts)
    return changes

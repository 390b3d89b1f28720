"""Products of columns with systems, over all blocks of points, whose kernels stay in the memory of their processes.

Memory of a task in bytes, for blocks of b vertices with h halo vertices, s landmarks, t columns, itemsize w:
`w s (b + h)` where the kernel is kept, `w s 2 b` where it is not, and `8 t (5 b + 3 s)`; in float32 `16 s` more for
each of the `SUMMED_ROWS` that are widened at a time.
"""

from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...kernels.features import LandmarkMap
from ...storage.blocks import Arrays, PartWriter, Receipt
from .products import Landmarked, add_times, halo_chunks, labels_in, times


class KeptBlocks:
    """Kernel blocks that stay in this process from one task to the next, of one problem at a time.

    A block that does not fit beside those that are kept is evaluated again each time: nothing is evicted, since the
    blocks come round in the same order.
    """

    def __init__(self) -> None:
        self._lock, self._token, self._blocks, self._bytes = Lock(), "", {}, 0  # type: ignore[var-annotated]

    def get(self, token: str, index: int) -> Any:
        """Return what is kept of a block, or None."""
        with self._lock:
            return self._blocks.get(index) if token == self._token else None

    def has_room(self, token: str, nbytes: int, limit: int) -> bool:
        """Return whether a block of this problem would be kept."""
        with self._lock:
            return (self._bytes if token == self._token else 0) + nbytes <= limit

    def keep(self, token: str, index: int, kept: Any, nbytes: int, limit: int) -> None:
        """Keep a block if it fits within `limit` bytes with the others; blocks of another problem are let go."""
        with self._lock:
            if token != self._token:
                self._token, self._blocks, self._bytes = token, {}, 0
            before = self._blocks[index].nbytes if index in self._blocks else 0
            if self._bytes - before + nbytes <= limit:
                self._blocks[index] = kept
                self._bytes += nbytes - before

    def clear(self) -> None:
        with self._lock:
            self._token, self._blocks, self._bytes = "", {}, 0


_KEPT = KeptBlocks()


def let_go() -> None:
    """Give back the blocks that this process keeps."""
    _KEPT.clear()


@dataclass(frozen=True)
class KernelOfBlock:
    """Kernels of a block's own vertices (b, s), and of its halo by chunks with their columns of E."""

    own: np.ndarray
    E: sp.csr_array
    halo: list[tuple[sp.csr_array, np.ndarray]]
    with_energy: bool  # without, E has no entries and there is no halo

    @property
    def nbytes(self) -> int:
        matrices = [self.E, *(columns for columns, _ in self.halo)]
        return self.own.nbytes + sum(K.nbytes for _, K in self.halo) + sum(
            A.data.nbytes + A.indices.nbytes + A.indptr.nbytes for A in matrices)


@dataclass(frozen=True)
class SystemProductTask:
    """Write this run of blocks' share of `K' (a_t E + b_t I + J_t) K P`, (s, t); columns P as `P`.

    Per column: `energy` a_t and `points` b_t (t,), and `held` (t,), the fold whose labels it does not see, or -1.
    """

    problem: Landmarked
    columns: Arrays
    first: int
    last: int
    keep_bytes: int
    home: int  # a worker's number: the one that keeps these blocks

    def __call__(self, out: PartWriter) -> Receipt:
        problem, columns, landmarks = self.problem, self.columns.load(), self.problem.landmark_kernel()
        lines = problem.labels.load()
        P, energy, points, held = (columns[name] for name in ("P", "energy", "points", "held"))
        total = np.zeros((len(P), P.shape[1]))
        with_energy = bool(energy.any())
        for index in range(self.first, self.last):
            kernels = self._kernels(index, landmarks, with_energy)
            V = times(kernels.own, P)
            U = V * points
            if with_energy:
                EV = kernels.E @ V
                for matrix, K in kernels.halo:
                    EV += matrix @ times(K, P)
                U += EV * energy
            start, stop = problem.ranges[index]
            own = labels_in(lines, start, stop)
            if len(own["position"]):
                weight = np.zeros((stop - start, problem.n_folds))
                np.add.at(weight, (own["position"], own["fold"]), own["weight"])
                rows = np.unique(own["position"])
                seen = weight[rows].sum(axis=1)[:, None] - np.where(held >= 0, weight[rows][:, held], 0.0)
                U[rows] += seen * V[rows]
            add_times(total, kernels.own, U)
        return out.write(total=total)

    def _kernels(self, index: int, landmarks: LandmarkMap, with_energy: bool) -> KernelOfBlock:
        problem = self.problem
        kept = _KEPT.get(problem.token, index)
        if kept is not None and (kept.with_energy or not with_energy):
            return kept
        start, stop = problem.ranges[index]
        own = landmarks.block(problem.rows.read(start, stop))
        E, beyond = problem.energy.read(index) if with_energy else (
            sp.csr_array((stop - start, stop - start)), np.arange(0))
        # The kernels of the halo are made one after the other where they are not kept.
        halo = ((columns, landmarks.block(problem.rows.take(places))) for columns, places in halo_chunks(E, beyond))
        found = KernelOfBlock(own, sp.csr_array(E[:, :stop - start]), halo, with_energy)  # type: ignore[arg-type]
        size = int(own.nbytes * (1 + len(beyond) / max(stop - start, 1))) + 16 * E.nnz
        if _KEPT.has_room(problem.token, size, self.keep_bytes):
            held = replace(found, halo=list(halo))
            _KEPT.keep(problem.token, index, held, held.nbytes, self.keep_bytes)
            return held
        return found

"""Products of columns with systems, over all blocks of points, whose kernels stay in the memory of their processes.

Memory of a task in bytes, for blocks of b vertices with h halo vertices, s landmarks, t columns, itemsize w:
`w s (b + h)` where the kernel is kept, `w s 2 b` where it is not, and `8 t (5 b + 3 s)`; in float32 `16 s` more for
each of the `SUMMED_ROWS` that are widened at a time.
"""

from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import scipy.sparse as sp

from ...kernels.features import LandmarkMap
from ...storage.blocks import Arrays, PartWriter, Receipt
from ...storage.kept import Kept
from .products import Landmarked, add_product, times


@dataclass(frozen=True)
class BlockKernels:
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


class KernelCache(Kept):
    """Kernel blocks that stay in this process from one task to the next, of one problem at a time.

    A block that does not fit beside those that are kept is evaluated again each time: nothing is evicted, since the
    blocks come round in the same order. A process that is short of memory gives all of them back.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock, self._token, self.blocks = Lock(), "", dict[int, BlockKernels]()

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in list(self.blocks.values()))

    def get(self, token: str, index: int) -> BlockKernels | None:
        """Return what is kept of a block; blocks of another problem are let go."""
        with self._lock:
            if token != self._token:
                self._token, self.blocks = token, {}
            return self.blocks.get(index)

    def has_room(self, token: str, nbytes: int, limit: int) -> bool:
        """Return whether a block of this problem would be kept."""
        with self._lock:
            return token == self._token and self.nbytes + nbytes <= limit

    def keep(self, token: str, index: int, block: BlockKernels, limit: int) -> None:
        """Keep a block if it fits within `limit` bytes with the others."""
        with self._lock:
            before = self.blocks[index].nbytes if index in self.blocks else 0
            if token == self._token and self.nbytes - before + block.nbytes <= limit:
                self.blocks[index] = block

    def clear(self) -> None:
        with self._lock:
            self.blocks = {}


CACHE = KernelCache()


def clear_cache() -> None:
    """Give back the blocks that this process keeps."""
    CACHE.clear()


@dataclass(frozen=True)
class SystemProductTask:
    """Write this run of blocks' share of `K' (a_t E + b_t I + J_t) K P`, (s, t); columns P as `P`.

    Per column: `energy` a_t and `points` b_t (t,); and `held` (t,), the fold whose labels it does not see, or -1, or
    else `curvature` (m, t), the weight of each label line.
    """

    problem: Landmarked
    columns: Arrays
    first: int
    last: int
    keep_bytes: int
    home: int  # a worker's number: the one that keeps these blocks

    def __call__(self, out: PartWriter) -> Receipt:
        problem, columns, landmarks = self.problem, self.columns.load(), self.problem.landmark_kernel()
        P, energy, points = (columns[name] for name in ("P", "energy", "points"))
        total = np.zeros(P.shape)
        for index, start, stop, lines in problem.blocks(self.first, self.last):
            kernels = self._kernels(index, start, stop, landmarks, bool(energy.any()))
            V = times(kernels.own, P)
            U = V * points
            if energy.any():
                EV = kernels.E @ V
                for matrix, K in kernels.halo:
                    EV += matrix @ times(K, P)
                U += EV * energy
            if "curvature" in columns:
                np.add.at(U, lines["position"], columns["curvature"][lines["line"]] * V[lines["position"]])
            elif len(lines["position"]):
                weight, held = np.zeros((stop - start, problem.n_folds)), columns["held"]
                np.add.at(weight, (lines["position"], lines["fold"]), lines["weight"])
                rows = np.unique(lines["position"])
                seen = weight[rows].sum(axis=1)[:, None] - np.where(held >= 0, weight[rows][:, held], 0.0)
                U[rows] += seen * V[rows]
            add_product(total, kernels.own, U)
        return out.write(total=total)

    def _kernels(self, index: int, start: int, stop: int, landmarks: LandmarkMap, with_energy: bool) -> BlockKernels:
        problem = self.problem
        kept = CACHE.get(problem.token, index)
        if kept is not None and (kept.with_energy or not with_energy):
            return kept
        own = landmarks.block(problem.rows.read(start, stop))
        E, beyond = problem.energy.read(index) if with_energy else (
            sp.csr_array((stop - start, stop - start)), np.arange(0))
        # The kernels of the halo are made one after the other where they are not kept.
        halo = ((columns, landmarks.block(X)) for columns, X in problem.beside(index, E, beyond))
        found = BlockKernels(own, sp.csr_array(E[:, :stop - start]), halo, with_energy)  # type: ignore[arg-type]
        size = int(own.nbytes * (1 + len(beyond) / max(stop - start, 1))) + 16 * E.nnz
        if CACHE.has_room(problem.token, size, self.keep_bytes):
            found = replace(found, halo=list(halo))
            CACHE.keep(problem.token, index, found, self.keep_bytes)
        return found

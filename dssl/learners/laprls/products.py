"""Products of a tall kernel matrix with the graph's energy and the labels, block by block.

With `K = K(X, Z)` (v, s) of all vertices X and the landmarks Z, `Phi = K T` (v, r), E the graph's energy
(`graph/energy/blocks.py`) and J the labels, each block of vertices with its halo of neighbors contributes to

    Gram form      Phi' E Phi,  Phi' Phi,  Phi_F' Phi_F and Phi_F' Y of each fold F
    column form    K' (lambda_I E + J) K P   of columns P (s, t), each with its own lambda_I and held-out fold

The contributions are summed in the order of the blocks, so the result does not depend on the workers. The kernel of a
block is evaluated once for all folds and columns; the column form caches it in the process (`KernelCache`) while there
is room, and only (s, t) arrays move.

Memory of a task of the column form, in bytes, for blocks of b vertices with h halo vertices, s landmarks, t columns and
itemsize w: `w s (b + h)` with the cached kernel, `w s 2 b` without, and `8 t (5 b + 3 s)`; in float32 `16 s` more for
each of `SUMMED_ROWS` rows.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from threading import Lock

import numpy as np
import scipy.sparse as sp

from ...base.types import Matrix
from ...execution.exchange.halo_rows import HaloRows
from ...graph.energy.blocks import EnergyBlocks
from ...kernels.base import Kernel
from ...kernels.nystrom import LandmarkMap
from ...storage.blocks import Arrays, PartWriter, Receipt, Rows, row_ranges
from ...storage.cache import Cache
from ...storage.csr import points_of

SUMMED_ROWS = 2048  # rows of a float32 product before it is added in float64
GRAM_PANEL = 1024  # columns of a Gram matrix that are computed at a time, without their entries below the diagonal
MAX_RUNS = 32  # of blocks, each with its own sums, which are added in a tree


@dataclass(frozen=True)
class BlockedProblem:
    """Points in blocks, landmarks and labels, for tasks.

    rows : X (v, d) in the order of the blocks. landmarks : `Z` (s, d), and perhaps `T` (s, r), lower trapezoidal.
    labels : a line for each label, ascending by `position` in `rows`: `fold`, `weight`, `target` (m, c).
    energy : of the graph. n_folds : F. dtype : of kernel blocks, "float64" or "float32". token : names this problem in
    the caches of processes. halos : the rows of each block's halo; None where they are read from `rows`.
    """

    kernel: Kernel
    rows: Rows
    landmarks: Arrays
    labels: Arrays
    energy: EnergyBlocks
    n_folds: int
    dtype: str
    token: str
    halos: HaloRows | None = None

    def features(self, dtype: str | None = None) -> LandmarkMap:
        """Return the map of points to features, by default of the type of the kernel blocks."""
        return LandmarkMap.of(self.kernel, self.landmarks.load(), dtype or self.dtype)

    def landmark_kernel(self) -> LandmarkMap:
        """Return the map of points to their kernel with the landmarks."""
        return LandmarkMap(self.kernel, points_of(self.landmarks.load(), "Z"), None, self.dtype)

    def blocks(self, first: int, last: int) -> Iterator[tuple[int, int, int, dict[str, np.ndarray]]]:
        """Yield (number, start, stop, label lines) of blocks; `position` counts from `start`, `line` numbers lines."""
        lines = self.labels.load()
        for index, (start, stop) in enumerate(self.energy.ranges[first:last], first):
            low, high = np.searchsorted(lines["position"], [start, stop])
            yield index, start, stop, {name: array[low:high] - (start if name == "position" else 0)
                                       for name, array in lines.items()} | {"line": np.arange(low, high)}

    def labeled_points(self, first: int, last: int) -> Iterator[tuple[Matrix, dict[str, np.ndarray]]]:
        """Yield points with labels in the blocks [first, last), and the lines of these labels, fold by fold.

        The `position` of a line is a row of the points. There are as many points at a time as a block has, of any
        blocks, since products of few rows are slow. A point whose labels are of several folds may come several times.
        """
        ranges, lines = self.energy.ranges[first:last], self.labels.load()
        low, high = np.searchsorted(lines["position"], [ranges[0][0], ranges[-1][1]])
        order = low + np.argsort(lines["fold"][low:high], kind="stable")
        for start, stop in row_ranges(len(order), max(stop - start for start, stop in ranges)):
            chosen = order[start:stop]
            points, row = np.unique(lines["position"][chosen], return_inverse=True)
            yield self.rows.take(points), {"position": row, **{
                name: lines[name][chosen] for name in ("fold", "weight", "target")}}

    def halo_pieces(self, index: int, E: sp.csr_array, halo: np.ndarray,
                    first: int = 0) -> Iterator[tuple[sp.csr_array, Matrix]]:
        """Yield (columns of E, points) of the halo of a block from `first` on, at most a block's points at a time."""
        n_own = E.shape[0]
        ranges = [(first + start, first + stop) for start, stop in row_ranges(len(halo) - first, max(n_own, 1))]
        points = self.halos.pieces(index, first, max(n_own, 1)) if self.halos is not None and ranges else (
            self.rows.take(halo[start:stop]) for start, stop in ranges)
        for (start, stop), X in zip(ranges, points, strict=True):
            yield sp.csr_array(E[:, n_own + start:n_own + stop]), X

    def runs(self, max_runs: int = MAX_RUNS) -> list[tuple[int, int]]:
        """Return at most `max_runs` runs [first, last) of blocks of nearly equal length."""
        n_blocks = len(self.energy.ranges)
        edges = np.linspace(0, n_blocks, min(n_blocks, max_runs) + 1).astype(int)
        return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))


def add_product(total: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Add left' right to `total`, float64; of float32 arrays in pieces of `SUMMED_ROWS` rows."""
    for start, stop in row_ranges(len(left), SUMMED_ROWS if left.dtype != np.float64 else max(1, len(left))):
        total += left[start:stop].astype(right.dtype, copy=False).T @ right[start:stop]


def add_gram(total: np.ndarray, Phi: np.ndarray) -> None:
    """Add the upper triangle of Phi' Phi to `total`, as `add_product` does; `mirror` fills the lower one."""
    for start, stop in row_ranges(len(Phi), SUMMED_ROWS if Phi.dtype != np.float64 else max(1, len(Phi))):
        for first, last in row_ranges(Phi.shape[1], GRAM_PANEL):
            panel = Phi[start:stop, first:last]
            total[first:last, first:last] += panel.T @ panel
            if first:
                total[:first, first:last] += Phi[start:stop, :first].T @ panel


def mirror(total: np.ndarray) -> None:
    """Copy the upper triangles of matrices (..., r, r), of panels of `add_gram`, to the lower ones."""
    r = total.shape[-1]
    for matrix in total.reshape(-1, r, r):  # of several at once NumPy makes a copy
        for first, last in row_ranges(r, GRAM_PANEL):
            matrix[first:last, :first] = matrix[:first, first:last].T


def times(K: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return K P in float64, where a float32 kernel is converted `SUMMED_ROWS` rows at a time."""
    if K.dtype == np.float64:
        return K @ P
    product = np.empty((len(K), *P.shape[1:]))
    for start, stop in row_ranges(len(K), SUMMED_ROWS):
        product[start:stop] = K[start:stop].astype(np.float64) @ P
    return product


@dataclass(frozen=True)
class GramTask:
    """Write the contribution of a run of blocks to the Gram matrices, summed in float64.

    `points` (r, r) is Phi' Phi and `labels` (F, r, r) Phi_F' W Phi_F. Not yet multiplied by T are `energy` (r, s), with
    the symmetric part of Phi' E K, `sums` (s,), K' 1, and `moments` (F, s, c + 1), K_F' W (Y 1).
    """

    problem: BlockedProblem
    first: int  # block
    last: int
    energy: bool
    points: bool
    labels: bool
    sums: bool

    def __call__(self, out: PartWriter) -> Receipt:
        problem, features = self.problem, self.problem.features()
        s, r, F = features.points.shape[0], features.width, problem.n_folds
        c = problem.labels.load()["target"].shape[1]
        shapes = {"energy": (r, s), "points": (r, r), "labels": (F, r, r)}
        sums = {"sums": np.zeros(s), "moments": np.zeros((F, s, c + 1)), **{
            name: np.zeros(shape) for name, shape in shapes.items() if getattr(self, name)}}
        if self.energy or self.points or self.sums:
            for index, start, stop, block in problem.blocks(self.first, self.last):
                K = features.block(problem.rows.read(start, stop))
                Phi = features.of_block(K) if self.energy or self.points or self.labels else K
                if self.energy:
                    add_product(sums["energy"], Phi, energy_product(problem, index, K, features))
                if self.sums:
                    sums["sums"] += K.sum(axis=0, dtype=np.float64)
                if self.points:
                    add_gram(sums["points"], Phi)
                add_labels(sums, K, Phi, block)
        else:
            for X, lines in problem.labeled_points(self.first, self.last):
                K = features.block(X)
                add_labels(sums, K, features.of_block(K) if self.labels else K, lines)
        for name in sums.keys() & {"points", "labels"}:
            mirror(sums[name])
        return out.write(**sums)


def energy_product(problem: BlockedProblem, index: int, K: np.ndarray, features: LandmarkMap) -> np.ndarray:
    """Return A (b, s) of a block with kernel K (b, s), so that the sum of Phi' A has the symmetric part of Phi' E K.

    An edge between two blocks counts twice in the first and not in the other, which saves half of the halos' kernel.
    In float32 A is E K, where common parts of neighbors cancel before rounding.
    """
    E, halo = problem.energy.read(index)
    later = int(np.searchsorted(halo, problem.energy.ranges[index][1])) if K.dtype == np.float64 else 0
    twice = 2 if K.dtype == np.float64 else 1
    EK = E[:, :len(K)].astype(K.dtype) @ K
    for columns, X in problem.halo_pieces(index, E, halo, later):
        EK += (twice * columns).astype(K.dtype) @ features.block(X)
    return EK


def add_labels(sums: dict[str, np.ndarray], K: np.ndarray, Phi: np.ndarray, lines: dict[str, np.ndarray]) -> None:
    """Add the label lines of a block to `moments` and, if present, `labels` of their folds.

    The `position` of a line is its row in K (b, s) and Phi (b, r).
    """
    for fold, moments in enumerate(sums["moments"]):
        mask = lines["fold"] == fold
        if not mask.any():
            continue
        position, weight = lines["position"][mask], lines["weight"][mask]
        right = np.zeros((len(K), moments.shape[1]))
        np.add.at(right, position, weight[:, None] * np.column_stack([lines["target"][mask], np.ones(len(weight))]))
        rows = np.unique(position)
        if len(position) == len(K) == len(rows):  # of all rows once, which need no copy
            add_product(moments, K, right)
            features = Phi
        else:
            add_product(moments, K[rows], right[rows])
            features = Phi[position] if "labels" in sums else Phi
        if "labels" in sums:
            weighted = features if (weight == 1).all() else features * np.sqrt(weight, dtype=features.dtype)[:, None]
            add_gram(sums["labels"][fold], weighted)


def block_bytes(s: int, row_bytes: int, itemsize: int) -> int:
    """Return the bytes of a block for each vertex, beside the sums.

    The kernel, Phi twice, E K and the kernel of a chunk of the halo are 3 + 2 r / s <= 5 times s numbers; the points
    are stored as read and as kernels use them.
    """
    return 5 * itemsize * s + 8 * row_bytes


def stored_bytes(s: int, n_folds: int, points: bool, energy: bool = True, labels: bool = True,
                 n_outputs: int = 1) -> int:
    """Return the bytes of the sums of a run: energy, points, labels of each fold, and moments."""
    return 8 * s * (s * (energy + points + n_folds * labels) + n_folds * (n_outputs + 1))


def gram_bytes(s: int, n_folds: int, points: bool, energy: bool = True, labels: bool = True, n_outputs: int = 1) -> int:
    """Return the bytes of a run's sums with the products in progress: of the energy, and a panel of the others."""
    in_progress = 8 * s * (s * energy + min(s, GRAM_PANEL) * (points or labels))
    return stored_bytes(s, n_folds, points, energy, labels, n_outputs) + in_progress


@dataclass(frozen=True)
class BlockKernels:
    """The kernel of a block's vertices (b, s), and those of chunks of its halo with their columns of E."""

    rows: np.ndarray
    E: sp.csr_array
    halo: list[tuple[sp.csr_array, np.ndarray]]
    with_energy: bool  # False: E has no entries and there is no halo

    @property
    def nbytes(self) -> int:
        matrices = [self.E, *(columns for columns, _ in self.halo)]
        return self.rows.nbytes + sum(K.nbytes for _, K in self.halo) + sum(
            A.data.nbytes + A.indices.nbytes + A.indptr.nbytes for A in matrices)


class KernelCache(Cache):
    """A cache of kernel blocks in this process, of one problem at a time.

    A block that does not fit is evaluated each time; nothing is evicted, since the blocks come in the same order again.
    A process that is short of memory clears it.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lock, self._token, self.blocks = Lock(), "", dict[int, BlockKernels]()

    @property
    def nbytes(self) -> int:
        return sum(block.nbytes for block in list(self.blocks.values()))

    def get(self, token: str, index: int) -> BlockKernels | None:
        """Return a cached block, if any; blocks of another problem are dropped."""
        with self._lock:
            if token != self._token:
                self._token, self.blocks = token, {}
            return self.blocks.get(index)

    def has_room(self, token: str, nbytes: int, limit: int) -> bool:
        """Return whether a block of this problem fits."""
        with self._lock:
            return token == self._token and self.nbytes + nbytes <= limit

    def keep(self, token: str, index: int, block: BlockKernels, limit: int) -> None:
        """Cache a block if it fits within `limit` bytes with the others."""
        with self._lock:
            before = self.blocks[index].nbytes if index in self.blocks else 0
            if token == self._token and self.nbytes - before + block.nbytes <= limit:
                self.blocks[index] = block

    def clear(self) -> None:
        with self._lock:
            self.blocks = {}


CACHE = KernelCache()


def clear_cache() -> None:
    CACHE.clear()


@dataclass(frozen=True)
class SystemProductTask:
    """Write the contribution of a run of blocks to `K' (a_t E + b_t I + J_t) K P`, (s, t).

    columns : `P` (s, t); `energy` a_t and `points` b_t (t,); and `held_out` (t,), the fold that is held out, or -1, or
    else `curvature` (m, t), the weight of each label line.
    """

    problem: BlockedProblem
    columns: Arrays
    first: int
    last: int
    cache_bytes: int
    home: int  # the number of the worker that caches these blocks

    def __call__(self, out: PartWriter) -> Receipt:
        problem, columns, landmarks = self.problem, self.columns.load(), self.problem.landmark_kernel()
        P, energy, points = (columns[name] for name in ("P", "energy", "points"))
        total = np.zeros(P.shape)
        for index, start, stop, lines in problem.blocks(self.first, self.last):
            kernels = self._kernels(index, start, stop, landmarks, bool(energy.any()))
            V = times(kernels.rows, P)
            U = V * points
            if energy.any():
                EV = kernels.E @ V
                for matrix, K in kernels.halo:
                    EV += matrix @ times(K, P)
                U += EV * energy
            if "curvature" in columns:
                np.add.at(U, lines["position"], columns["curvature"][lines["line"]] * V[lines["position"]])
            elif len(lines["position"]):
                weight, held_out = np.zeros((stop - start, problem.n_folds)), columns["held_out"]
                np.add.at(weight, (lines["position"], lines["fold"]), lines["weight"])
                rows = np.unique(lines["position"])
                training = weight[rows].sum(axis=1)[:, None] - np.where(held_out >= 0, weight[rows][:, held_out], 0.0)
                U[rows] += training * V[rows]
            add_product(total, kernels.rows, U)
        return out.write(total=total)

    def _kernels(self, index: int, start: int, stop: int, landmarks: LandmarkMap, with_energy: bool) -> BlockKernels:
        problem = self.problem
        cached = CACHE.get(problem.token, index)
        if cached is not None and (cached.with_energy or not with_energy):
            return cached
        block = landmarks.block(problem.rows.read(start, stop))
        E, halo = problem.energy.read(index) if with_energy else (
            sp.csr_array((stop - start, stop - start)), np.arange(0))
        # An iterator: kernels of the halo that are not cached are computed one after the other.
        pieces = ((columns, landmarks.block(X)) for columns, X in problem.halo_pieces(index, E, halo))
        kernels = BlockKernels(block, sp.csr_array(E[:, :stop - start]), pieces, with_energy)  # type: ignore[arg-type]
        size = int(block.nbytes * (1 + len(halo) / max(stop - start, 1))) + 16 * E.nnz
        if CACHE.has_room(problem.token, size, self.cache_bytes):
            kernels = replace(kernels, halo=list(pieces))
            CACHE.keep(problem.token, index, kernels, self.cache_bytes)
        return kernels

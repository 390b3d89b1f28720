"""Products of a tall kernel matrix with the graph's energy and with labels, in blocks that never hold it whole.

With `K = K(X, Z)` (v, s) of all vertices X against the landmarks Z, `Phi = K T` (v, r), E the graph's energy
(`graph/energy.py`) and J the labels, a block of vertices and their neighbors gives its share of

    Gram form      Phi' E Phi,  Phi' Phi,  Phi_F' Phi_F and Phi_F' Y of each fold F
    column form    K' (lambda_I E + J) K P   of columns P (s, t), each with its own lambda_I and held-out fold

and shares are summed in the order of the blocks, so that the result does not depend on who computed them, nor on how
many. The kernel of a block is evaluated once for all folds and all columns; in the column form it stays in the memory
of its process from one product to the next, as long as there is room, and only (s, t) arrays move.

Memory of a task in bytes, for blocks of b vertices with h halo vertices, itemsize w: `w s (3 b + 2 r / s b)` (kernel,
kernel of a chunk of the halo, E K, Phi and its rows), and `8 r (3 r + 2 s + F r)` for the sums and what is added to
them. In the column form `w s (b + h)` where the kernel is kept, `w s 2 b` where it is not, and `8 t (5 b + 3 s)`. In
float32 `16 s` more for each of the `SUMMED_ROWS` or `NARROWED_ROWS` that are widened at a time.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any

import numpy as np
import scipy.sparse as sp

from ...execution.tasks import Execution
from ...kernels.base import Kernel, MercerKernel
from ...kernels.gram import kernel_block
from ...storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges
from ...storage.csr import points_of

PANEL = 128  # columns of T multiplied at a time
SUMMED_ROWS = 2048  # rows of a float32 product before it is added in float64
FAN_IN = 8  # parts that one task of a tree reduction adds
MOST_RUNS = 32  # of blocks: each has sums of its own, which are added in a tree


@dataclass(frozen=True)
class Landmarked:
    """Points in blocks, landmarks and labels, as tasks find them.

    kernel : of X (v, d), `rows`, in the order of the blocks, and of Z. landmarks : `Z` (s, d), and `T` (s, r), lower
    trapezoidal, or none.
    labels : a line a labeled point, ascending by `position` among the rows: `fold`, `weight`, `target` (m, c).
    energy : an `EnergyBlocks`. n_folds : F. dtype : of kernel blocks, "float64" or
    "float32". token : names this problem in the caches of processes.
    """

    kernel: Kernel
    rows: Rows
    landmarks: Arrays
    labels: Arrays
    energy: Any
    n_folds: int
    dtype: str
    token: str

    @property
    def ranges(self) -> list[tuple[int, int]]:
        return self.energy.ranges


def typed_block(kernel: Kernel, X: Any, Z: Any, dtype: str) -> np.ndarray:
    """Return K(X, Z) in float64 or float32; a plain function is evaluated as it is, and cast."""
    if isinstance(kernel, MercerKernel):
        return kernel(X, Z, dtype=np.dtype(dtype))
    return kernel_block(kernel, X, Z).astype(dtype, copy=False)


def add_product(total: np.ndarray, left: np.ndarray, right: np.ndarray) -> None:
    """Add left' right to `total`, float64; float32 factors are multiplied in runs of `SUMMED_ROWS` rows."""
    if left.dtype == np.float64:
        total += left.T @ right
        return
    for start in range(0, len(left), SUMMED_ROWS):
        total += left[start:start + SUMMED_ROWS].T @ right[start:start + SUMMED_ROWS]


def times(K: np.ndarray, P: np.ndarray) -> np.ndarray:
    """Return K P in float64, of a kernel in float64 or float32, which is widened `SUMMED_ROWS` rows at a time.

    The product of a rounded kernel, without rounding of its own: it stays symmetric and positive where it should be.
    """
    if K.dtype == np.float64:
        return K @ P
    return np.concatenate([K[start:stop].astype(np.float64) @ P for start, stop in row_ranges(len(K), SUMMED_ROWS)])


def add_times(total: np.ndarray, K: np.ndarray, U: np.ndarray) -> None:
    """Add K' U to `total`, both float64, as in `times`."""
    for start, stop in row_ranges(len(K), SUMMED_ROWS if K.dtype != np.float64 else max(1, len(K))):
        total += K[start:stop].astype(np.float64, copy=False).T @ U[start:stop]


def times_lower(K: np.ndarray, T: np.ndarray) -> np.ndarray:
    """Return K T of a lower trapezoidal T (s, r), `PANEL` columns at a time without the zeros above them.

    As r nears s it takes half the flops of the whole product. BLAS has trmm for it, which SciPy calls without letting
    other threads run.
    """
    found = np.empty((len(K), T.shape[1]), K.dtype)
    for start, stop in row_ranges(T.shape[1], PANEL):
        np.matmul(K[:, start:], T[start:, start:stop], out=found[:, start:stop])
    return found


def labels_in(labels: dict[str, np.ndarray], start: int, stop: int) -> dict[str, np.ndarray]:
    """Return the lines of the labels at positions [start, stop), counted from `start`."""
    first, last = np.searchsorted(labels["position"], [start, stop])
    return {name: array[first:last] - (start if name == "position" else 0) for name, array in labels.items()}


def halo_chunks(E: sp.csr_array, halo: np.ndarray) -> Iterator[tuple[sp.csr_array, np.ndarray]]:
    """Yield (columns of E, places) of the halo of a block, no more vertices at a time than the block has."""
    own = E.shape[0]
    for start, stop in row_ranges(len(halo), max(own, 1)):
        yield sp.csr_array(E[:, own + start:own + stop]), halo[start:stop]


@dataclass(frozen=True)
class GramTask:
    """Write this run of blocks' share of the Gram matrices, summed in float64.

    `points` (r, r) is Phi' Phi and `labels` (F, r, r) Phi_F' W Phi_F. Still to be multiplied by T: `energy` (r, s),
    Phi' E K, on its right, `sums` (s,), K' 1, and `moments` (F, s, c + 1), K_F' W (Y 1), on their left, in float64.
    """

    problem: Landmarked
    first: int  # block
    last: int
    energy: bool
    points: bool
    labels: bool
    sums: bool = True

    def __call__(self, out: PartWriter) -> Receipt:
        problem, arrays = self.problem, self.problem.landmarks.load()
        Z, T, lines = points_of(arrays, "Z"), arrays.get("T"), self.problem.labels.load()
        T = None if T is None else T.astype(problem.dtype, copy=False)
        s = Z.shape[0]
        r, c, F = (s if T is None else T.shape[1]), lines["target"].shape[1], problem.n_folds
        found: dict[str, np.ndarray] = {"sums": np.zeros(s), "moments": np.zeros((F, s, c + 1))}
        if self.energy:
            found["energy"] = np.zeros((r, s))
        if self.points:
            found["points"] = np.zeros((r, r))
        if self.labels:
            found["labels"] = np.zeros((F, r, r))
        for index in range(self.first, self.last):
            start, stop = problem.ranges[index]
            own_lines = labels_in(lines, start, stop)
            whole = self.energy or self.points or self.sums
            if not whole and not len(own_lines["position"]):
                continue
            if whole:
                X, place = problem.rows.read(start, stop), own_lines["position"]
            else:  # the labeled points alone
                positions, place = np.unique(own_lines["position"], return_inverse=True)
                X = problem.rows.take(start + positions)
            K = typed_block(problem.kernel, X, Z, problem.dtype)
            Phi = K if T is None or not (self.energy or self.points or self.labels) else times_lower(K, T)
            if self.energy:
                E, halo = problem.energy.read(index)
                EK = E[:, :stop - start].astype(K.dtype) @ K
                for columns, places in halo_chunks(E, halo):
                    EK += columns.astype(K.dtype) @ typed_block(problem.kernel, problem.rows.take(places), Z,
                                                                problem.dtype)
                add_product(found["energy"], Phi, EK)
            if self.sums:
                found["sums"] += K.sum(axis=0, dtype=np.float64)
            if self.points:
                add_product(found["points"], Phi, Phi)
            for fold in range(F):
                mine = own_lines["fold"] == fold
                if mine.any():
                    weight = own_lines["weight"][mine]
                    weighed = np.zeros((len(K), c + 1))
                    np.add.at(weighed, place[mine], weight[:, None] * np.column_stack([
                        own_lines["target"][mine], np.ones(len(weight))]))
                    rows = np.unique(place[mine])
                    add_times(found["moments"][fold], K[rows], weighed[rows])
                    if self.labels:
                        own_Phi = Phi[place[mine]]
                        weighted = own_Phi if (weight == 1).all() else (
                            own_Phi * np.sqrt(weight, dtype=own_Phi.dtype)[:, None])
                        add_product(found["labels"][fold], weighted, weighted)
        return out.write(**found)


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
class ColumnsTask:
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
        problem, columns, arrays = self.problem, self.columns.load(), self.problem.landmarks.load()
        lines, Z = problem.labels.load(), points_of(arrays, "Z")
        P, energy, points, held = (columns[name] for name in ("P", "energy", "points", "held"))
        total = np.zeros((Z.shape[0], P.shape[1]))
        with_energy = bool(energy.any())
        for index in range(self.first, self.last):
            kernels = self._kernels(index, Z, with_energy)
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

    def _kernels(self, index: int, Z: Any, with_energy: bool) -> KernelOfBlock:
        problem = self.problem
        kept = _KEPT.get(problem.token, index)
        if kept is not None and (kept.with_energy or not with_energy):
            return kept
        start, stop = problem.ranges[index]
        own = typed_block(problem.kernel, problem.rows.read(start, stop), Z, problem.dtype)
        E, beyond = problem.energy.read(index) if with_energy else (
            sp.csr_array((stop - start, stop - start)), np.arange(0))
        # The kernels of the halo are made one after the other where they are not kept.
        halo = ((columns, typed_block(problem.kernel, problem.rows.take(places), Z, problem.dtype))
                for columns, places in halo_chunks(E, beyond))
        found = KernelOfBlock(own, sp.csr_array(E[:, :stop - start]), halo, with_energy)  # type: ignore[arg-type]
        size = int(own.nbytes * (1 + len(beyond) / max(stop - start, 1))) + 16 * E.nnz
        if _KEPT.has_room(problem.token, size, self.keep_bytes):
            held = replace(found, halo=list(halo))
            _KEPT.keep(problem.token, index, held, held.nbytes, self.keep_bytes)
            return held
        return found


@dataclass(frozen=True)
class JudgeTask:
    """Count how far functions are off at the labeled points of a run of blocks, each point by those that it was held
    out of: `squares` (p,), and `wrong` (p,) where `coded`.

    Coefficients `B` (F, s, p, c) and `intercept` (F, p, c), fold by fold, of p functions with c columns.
    """

    problem: Landmarked
    functions: Arrays
    first: int
    last: int
    coded: bool

    def __call__(self, out: PartWriter) -> Receipt:
        problem, functions, arrays = self.problem, self.functions.load(), self.problem.landmarks.load()
        Z, lines = points_of(arrays, "Z"), problem.labels.load()
        B, intercept = functions["B"], functions["intercept"]
        F, s, p, c = B.shape
        squares, wrong = np.zeros(p), np.zeros(p)
        for index in range(self.first, self.last):
            start, stop = problem.ranges[index]
            own = labels_in(lines, start, stop)
            if not len(own["position"]):
                continue
            K = typed_block(problem.kernel, problem.rows.take(start + own["position"]), Z, problem.dtype)
            for fold in range(F):
                mine = own["fold"] == fold
                values = times(K[mine], B[fold].reshape(s, p * c)).reshape(-1, p, c) + intercept[fold]
                true, weight = own["target"][mine][:, None], own["weight"][mine]
                squares += weight @ ((values - true) ** 2).sum(axis=2)
                if self.coded:
                    wrong += weight @ misclassified(values, true)
        return out.write(squares=squares, wrong=wrong)


def misclassified(values: np.ndarray, true: np.ndarray) -> np.ndarray:
    """Return whether values (..., c) name another class than the true +-1 codes; one column is that of the second."""
    if true.shape[-1] == 1:
        return ((values > 0) != (true > 0))[..., 0]
    return values.argmax(axis=-1) != true.argmax(axis=-1)


@dataclass(frozen=True)
class SumTask:
    """Add the arrays of some parts, in their order."""

    parts: Parts
    indices: Sequence[int]

    def __call__(self, out: PartWriter) -> Receipt:
        total = {name: array.copy() for name, array in self.parts.read(self.indices[0]).items()}
        for index in self.indices[1:]:
            for name, array in self.parts.read(index).items():
                total[name] += array
        return out.write(**total)


def sum_parts(parts: Parts, count: int, execution: Execution) -> dict[str, np.ndarray]:
    """Return the sums of the arrays of parts 0 to count - 1, by a tree of tasks that each add `FAN_IN` parts."""
    given = parts
    while count > 1:
        groups = [range(first, last) for first, last in row_ranges(count, FAN_IN)]
        above = execution.scratch()
        execution.map([SumTask(parts, group) for group in groups], above)
        if parts is not given:
            parts.remove()
        parts, count = above, len(groups)
    total = parts.read(0)
    if parts is not given:
        parts.remove()
    return total


def runs_of_blocks(n_blocks: int, most: int) -> list[tuple[int, int]]:
    """Return at most `most` runs [first, last) of blocks, as equal as can be."""
    edges = np.linspace(0, n_blocks, min(n_blocks, most) + 1).astype(int)
    return list(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True))

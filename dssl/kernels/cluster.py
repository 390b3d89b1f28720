"""Cluster kernels: the normalized affinity of all points, its leading eigenpairs, and the feature map.

With K of all n points, degrees D = diag(K 1) and `L = D^-1/2 K D^-1/2 = U Sigma U'`, the cluster kernel is

    K~ = D~^1/2 L~ D~^1/2,    L~ = U phi(Sigma) U',    D~_ii = 1 / L~_ii

and the features `F = D~^1/2 U phi(Sigma)^1/2` (the "virtual samples" of the papers) have rows of unit length.

With s landmarks Z, C = K(X, Z), W = K(Z, Z) and the degrees D_s of the landmarks:

    W_L = D_s^-1/2 W D_s^-1/2,  T' W_L T = I,  G = T' D_s^-1/2 (C' D^-1 C) D_s^-1/2 T = V Sigma V'
    U = D^-1/2 C P,  P = D_s^-1/2 T V Sigma^-1/2

(Algorithm 2 of the storage fit paper uses the eigenpairs of K, for which `D^-1/2 U` is not orthonormal.) The degree
of a point cancels in F: its features are `K(x, Z) P phi(Sigma)^1/2` at unit length, also for new points. With all
points as landmarks U and Sigma are exact. `C' D^-1 C` and the degrees are sums over blocks of rows.

References
----------
Chapelle, Weston, Scholkopf, "Cluster kernels for semi-supervised learning", NIPS 2002; Hou, Zhang, Zhou, "Storage fit
learning with unlabeled data", IJCAI 2017, eqs. 4 to 6 and Algorithm 2; Fowlkes, Belongie, Chung, Malik, "Spectral
grouping using the Nystrom method", PAMI 2004 (degrees from landmarks, orthogonalized).
"""

import time
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from scipy import sparse
from scipy.linalg import eigh

from ..base.digest import JsonObject
from ..base.errors import BudgetError, DataError, require
from ..base.types import Matrix
from ..execution.cost import largest_within
from ..execution.tasks import Execution, sums
from ..execution.threads import one_thread
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges, rows_that_fit
from ..storage.csr import point_arrays, points_of
from .base import Kernel, MercerKernel
from .gram import BLOCK_BYTES
from .nystrom import FeatureMap, LandmarkMap, whiten
from .stochastic import StochasticParams, stochastic_eigensystem
from .transfer import TransferParams

Degrees = Literal["exact", "landmarks"]
TILE = 2048  # rows and columns of a block of K in the sum of degrees
MAX_EXACT = 100_000  # points, up to which "auto" computes exact degrees, in about 10 s of a core
SHARES = 32  # of sums over landmarks, upper bound
DENSE_COLUMNS = 4096  # up to which sparse points are densified block by block
MIN_EIGENVALUE = 1e-10  # of L, whose largest is 1
EQUAL = 0.99  # of the last eigenvalue of a rank: larger ones are kept with it
TRUNCATED = 0.25  # of the largest eigenvalue: where stochastic steps end above it, their rank cuts the spectrum
UNDERFLOWN = 1e-9  # mean degree less self-similarity, below which K is the identity


@dataclass(frozen=True)
class AffinityTask:
    """Write the share `degrees` (n,) of some tiles of rows; by symmetry tile i is compared with the tiles from i on."""

    kernel: Kernel
    rows: Rows
    height: int
    tiles: tuple[int, ...]

    def __call__(self, out: PartWriter) -> Receipt:
        ranges = row_ranges(len(self.rows), self.height)
        sums = np.zeros(len(self.rows))
        for tile in self.tiles:
            start, stop = ranges[tile]
            X = tile_of(self.rows, start, stop)
            for first, last in ranges[tile:]:
                K = block_of(self.kernel, X, X if first == start else tile_of(self.rows, first, last))
                sums[start:stop] += K @ np.ones(K.shape[1], K.dtype)
                if first != start:
                    sums[first:last] += np.ones(K.shape[0], K.dtype) @ K
        return out.write(degrees=sums)


def tile_of(rows: Rows, start: int, stop: int) -> Matrix:
    """Return rows [start, stop); sparse rows of few columns as an array, whose products are faster."""
    X = rows.read(start, stop)
    return X.toarray() if isinstance(X, sparse.csr_array) and X.shape[1] <= DENSE_COLUMNS else X


def block_of(kernel: Kernel, X: Matrix, Z: Matrix) -> np.ndarray:
    """Return K(X, Z) in float32; a plain function keeps its own dtype."""
    return kernel(X, Z, dtype=np.float32) if isinstance(kernel, MercerKernel) else np.asarray(kernel(X, Z))


def exact_degrees(rows: Rows, kernel: Kernel, execution: Execution, parts: Parts | None = None,
                  max_rows: int = TILE) -> np.ndarray:
    """Return the row sums (n,) of K of all points, in tiles of at most `max_rows` rows; O(n^2 d / 2) time.

    parts : of shares, where finished ones are reused.
    """
    height = tile_height(len(rows), tile_bytes(rows.shape[1], rows.row_bytes), execution.memory_budget, max_rows)
    n_tiles = len(row_ranges(len(rows), height))
    pairs = [tuple(sorted({tile, n_tiles - 1 - tile})) for tile in range(-(-n_tiles // 2))]  # of equal work
    n_tasks = min(SHARES, len(pairs))
    tasks = [AffinityTask(kernel, rows, height, sum(pairs[number::n_tasks], ())) for number in range(n_tasks)]
    return execution.reduce(sums(tasks), parts)["degrees"]


def tile_bytes(d: int, row_bytes: int) -> int:
    """Return the bytes of a row of a tile in a kernel evaluation; row_bytes : as stored."""
    return 24 * d if d <= DENSE_COLUMNS else 3 * row_bytes


def tile_height(n: int, each: int, budget: int, max_rows: int = TILE) -> int:
    """Return the rows of a tile, of `each` bytes each; raise BudgetError if not even one fits."""
    return min(max_rows, rows_that_fit(budget, 12 * max_rows + 2 * each, n, share=8))


@dataclass(frozen=True)
class LandmarkSumsTask:
    """Write this share of `sums` (s,), `C' 1`, and with degrees of `moment` (s, s), `C' D^-1 C`; float64.

    shared : the landmarks `points`; the degrees are `degrees` (n,), or `max(C weights, least)` with `weights` (s,) and
    the smallest K(z, z). vectors : U (n, k), for `projected` (s, k), `C' D^-1/2 U`.
    """

    kernel: Kernel
    rows: Rows
    shared: Arrays
    start: int
    stop: int
    height: int
    vectors: Rows | None = None

    def __call__(self, out: PartWriter) -> Receipt:
        shared = self.shared.load()
        Z = points_of(shared, "points")
        features = LandmarkMap(self.kernel, Z)
        s = Z.shape[0]
        total = np.zeros(s)
        moment = np.zeros((s, s))
        raised = 0
        projected = None if self.vectors is None else np.zeros((s, self.vectors.shape[1]))
        of_degrees = bool(shared.keys() & {"weights", "degrees"})
        for start, stop in row_ranges(self.stop - self.start, self.height):
            X = tile_of(self.rows, self.start + start, self.start + stop)
            C = features(X)
            total += C.sum(axis=0)
            if of_degrees:
                if "degrees" in shared:
                    degrees = shared["degrees"][self.start + start:self.start + stop]
                else:
                    estimated = C @ shared["weights"]
                    raised += int((estimated < shared["min_degree"]).sum())
                    degrees = np.maximum(estimated, shared["min_degree"])
                C /= np.sqrt(degrees)[:, None]
                moment += C.T @ C
                if projected is not None and self.vectors is not None:
                    projected += C.T @ self.vectors.read(self.start + start, self.start + stop).astype(np.float64)
        sums = {"sums": total, **({"moment": moment} if of_degrees else {}),
                 **({} if projected is None else {"projected": projected})}
        return {**out.write(**sums), "raised": raised}


@dataclass(frozen=True, eq=False)
class ClusterBasis:
    """The leading eigenpairs of L in the span of landmarks: `U = D^-1/2 K(X, Z) P`.

    points : Z (s, d). P : (s, k). values : Sigma (k,), descending, in (0, 1]. attributes : JSON evidence.
    """

    kernel: Kernel
    points: Matrix
    P: np.ndarray
    values: np.ndarray
    attributes: JsonObject = field(default_factory=dict)

    def samples(self, params: TransferParams, n_labeled: int) -> "VirtualSamples":
        """Return the feature map of a transfer function, without features of eigenvalue 0."""
        roots = np.sqrt(params.of(self.values, n_labeled))
        kept = np.flatnonzero(roots > 0)
        return VirtualSamples(self.kernel, self.points, self.P[:, kept] * roots[kept])

    def contrast(self, params: TransferParams, n_labeled: int) -> float:
        """Return the ratio of the second and the first transferred eigenvalue: near 0 all points are similar."""
        values = params.of(self.values, n_labeled)
        return float(values[1] / values[0]) if len(values) > 1 and values[0] > 0 else 0.0

    def to_arrays(self) -> dict[str, np.ndarray]:
        return {**point_arrays("points", self.points), "P": self.P, "values": self.values}

    @classmethod
    def from_arrays(cls, kernel: Kernel, arrays: dict[str, np.ndarray], attributes: JsonObject) -> "ClusterBasis":
        return cls(kernel, points_of(arrays, "points"), arrays["P"], arrays["values"], attributes)


@dataclass(frozen=True, eq=False)
class VirtualSamples(FeatureMap):
    """The feature map of a cluster kernel: `K(x, Z) M` at unit length, 0 where x is far from all landmarks.

    points : Z (s, d). M : (s, k).
    """

    kernel: Kernel
    points: Matrix
    M: np.ndarray

    @property
    def width(self) -> int:
        return self.M.shape[1]

    def __call__(self, X: Matrix) -> np.ndarray:
        return self.of_block(self.block(X))

    def block(self, X: Matrix) -> np.ndarray:
        """Return K(X, Z), shape (b, s)."""
        return LandmarkMap(self.kernel, self.points)(X)

    def of_block(self, K: np.ndarray) -> np.ndarray:
        """Return the features (b, k) of points whose kernel with the landmarks is K (b, s)."""
        largest = np.abs(K).max(axis=1, keepdims=True)
        F = np.divide(K, largest, out=np.zeros_like(K), where=largest > 0) @ self.M  # no underflow far away
        length = np.linalg.norm(F, axis=1, keepdims=True)
        return np.divide(F, length, out=np.zeros_like(F), where=length > 0)

    def of_rows(self, rows: Rows, numbers: np.ndarray, budget: int) -> np.ndarray:
        """Return the features (m, k) of some rows, in blocks that fit the budget."""
        height = block_height(len(numbers), self.points.shape[0], tile_bytes(rows.shape[1], rows.row_bytes), budget)
        return np.concatenate([np.empty((0, self.width)), *(
            self(rows.take(numbers[start:stop])) for start, stop in row_ranges(len(numbers), height))])

    def arrays(self) -> dict[str, np.ndarray]:
        return {**point_arrays("points", self.points), "M": self.M}


def cluster_basis(rows: Rows, kernel: Kernel, points: Matrix, rank: int | None, degrees: Degrees, execution: Execution,
                  parts: Parts | None = None, stochastic: StochasticParams | None = None) -> ClusterBasis:
    """Return the leading eigenpairs of L of all rows (n, d) in the span of the landmarks `points` (s, d).

    rank : k, and those equal to the last within a hundredth; None for all.
    degrees : "exact", O(n^2 d), or those of the Nystrom approximation of K, `C W^+ (C' 1)`.
    parts : of shares of exact degrees, where finished ones are reused.
    stochastic : computes the eigenpairs by stochastic steps with exact degrees; `D^-1/2 C P` is then the least-squares
    projection of U onto the span of the landmarks.

    Time: exact degrees, and `n s (d + s) + s^3`. Memory: `basis_bytes`, and two blocks of an eighth of the budget each.
    """
    n = len(rows)
    s = points.shape[0]
    needed = budget_for(s, rows.shape[1])
    budget = execution.memory_budget
    require(needed <= budget, f"{s:,} landmarks of {n:,} points", error=BudgetError,
            why=f"with their matrices and blocks they take {needed:,} bytes, the budget is {budget:,}",
            fix=f"use at most {landmarks_that_fit(budget, n, rows.shape[1]):,} landmarks, or a budget of {needed:,} "
                "bytes")
    begin = time.perf_counter()
    seconds: dict[str, float] = {}
    W = LandmarkMap(kernel, points)(points)
    require(bool(np.isfinite(W).all()), "the kernel of the landmarks holds NaN or infinite values", error=DataError,
            why="it is not defined at some points", fix="drop or impute points that are not finite; scale the features")
    shared: dict[str, np.ndarray] = point_arrays("points", points)
    if degrees == "exact":
        shared["degrees"] = exact_degrees(rows, kernel, execution, parts)
        require_positive(shared["degrees"], "a point")
    else:
        of_rows = _landmark_sums(rows, kernel, shared, execution)["sums"]
        with one_thread():
            T = whiten(W).T
            shared |= {"weights": T @ (T.T @ of_rows), "min_degree": np.array(float(np.diagonal(W).min()))}
    seconds["degrees"] = time.perf_counter() - begin
    eigensystem = None
    if stochastic is not None:
        place = None if parts is None else parts.within("steps")
        eigensystem = stochastic_eigensystem(rows, kernel, shared["degrees"], stochastic, execution, parts=place)
        seconds["steps"] = time.perf_counter() - begin - seconds["degrees"]
    sums = _landmark_sums(rows, kernel, shared, execution, None if eigensystem is None else eigensystem.vectors)
    of_landmarks = sums["sums"]
    require_positive(of_landmarks, "a landmark")
    excess = float((of_landmarks / np.diagonal(W)).mean()) - 1
    require(excess > UNDERFLOWN, f"no point is similar to any of the {s:,} landmarks but itself", error=DataError,
            why="the kernel is the identity to the precision of floats: the bandwidth is far below all distances",
            fix='use a larger bandwidth; "0.25*median" is the default')
    with one_thread():
        root = 1 / np.sqrt(of_landmarks)
        T = root[:, None] * whiten(root[:, None] * W * root).T
        values, V = eigh(T.T @ sums["moment"] @ T, driver="evd", overwrite_a=True, check_finite=False)
        first = int(np.searchsorted(values, MIN_EIGENVALUE * values[-1]))
        if rank is not None and eigensystem is None and rank < len(values) - first:
            first = int(np.searchsorted(values, EQUAL * values[len(values) - rank]))
        values = values[first:][::-1]
        V = V[:, first:][:, ::-1]
        P = T @ (V / np.sqrt(values))
        if eigensystem is not None:
            P = P @ (P.T @ sums["projected"])
            values = eigensystem.values
    P *= np.where(P[np.abs(P).argmax(axis=0), np.arange(P.shape[1])] < 0, -1.0, 1.0)  # not by LAPACK
    seconds["all"] = time.perf_counter() - begin
    steps: JsonObject = {}
    if eigensystem is not None and stochastic is not None:
        steps = {name: eigensystem.evidence[name] for name in ("steps", "error", "converged")}
        steps["truncated"] = len(values) >= stochastic.rank and bool(values[-1] > TRUNCATED * values[0])
    return ClusterBasis(kernel, points, P, np.minimum(values, 1.0), {
        "landmarks": s, "rank": P.shape[1], "degrees": degrees, "raised_degrees": int(sums["raised"]),
        "largest": float(values[0]), "smallest": float(values[-1]), "mean_degree": float(of_landmarks.mean()), **steps,
        "seconds": {name: round(value, 3) for name, value in seconds.items()}})


def require_positive(degrees: np.ndarray, of: str) -> None:
    """Raise DataError unless all degrees are positive numbers."""
    require(bool((degrees > 0).all() and np.isfinite(degrees).all()), f"{of} has the degree {float(degrees.min()):.3g}",
            error=DataError, why="an affinity has positive row sums",
            fix="use a kernel that is nowhere negative, such as rbf")


def _landmark_sums(rows: Rows, kernel: Kernel, shared: dict[str, np.ndarray], execution: Execution,
                   vectors: Rows | None = None) -> JsonObject:
    """Return the sums of `LandmarkSumsTask` over all rows, and the number of raised degrees."""
    s = points_of(shared, "points").shape[0]
    budget = execution.memory_budget
    height = block_height(len(rows), s, tile_bytes(rows.shape[1], rows.row_bytes), budget)
    per_task = -(-len(rows) // share_count(len(rows), s, budget))
    given = execution.share(**shared)
    tasks = [LandmarkSumsTask(kernel, rows, given, start, stop, height, vectors)
             for start, stop in row_ranges(len(rows), per_task)]
    parts = execution.scratch()
    sums_of_rows = execution.reduce(sums(tasks), parts)
    raised = sum(receipt["raised"] for receipt in parts.receipts(len(tasks)).values())
    parts.remove()
    return {**sums_of_rows, "raised": raised}


def block_height(n: int, s: int, each: int, budget: int) -> int:
    """Return the rows of a block against s landmarks, of `each` bytes each; raise BudgetError if not even one fits."""
    return min(rows_that_fit(budget, 16 * s + each, n, share=8), max(1, BLOCK_BYTES // (16 * s + each)))


def share_count(n: int, s: int, budget: int) -> int:
    """Return the number of shares of sums over n rows, whose matrices (s, s) take a quarter of the budget."""
    return int(np.clip(budget // 4 // (8 * s * s), 2, SHARES)) if n > 1 else 1


def basis_bytes(s: int, d: int) -> int:
    """Return the bytes of s landmarks of d columns: eight matrices (s, s), and the points, beside the blocks."""
    return 8 * s * (8 * s + 3 * d)


def landmarks_that_fit(budget: int, n: int, d: int) -> int:
    """Return how many landmarks of n points of d columns fit a budget, of which a quarter is for blocks."""
    return largest_within(budget, n, lambda s: budget_for(s, d))


def budget_for(s: int, d: int) -> int:
    """Return the smallest budget that s landmarks of d columns fit."""
    return -(-basis_bytes(s, d) * 4 // 3)

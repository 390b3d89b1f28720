"""Centers of k-means: seeded on a sample by scikit-learn, then improved by a few Lloyd passes over all rows in blocks.

A pass is a block step (assign rows to the nearest center and sum them), a combine step (add the sums in the order of
the rows) and a finish step (divide; an empty cluster keeps its center). Distances are Euclidean for every kernel.

Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 1982. Zhang, Tsang, Kwok, "Improved
Nystrom low-rank approximation and error analysis", ICML 2008, for centers as landmarks.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.digest import JsonObject
from ..base.errors import DataError, require
from ..base.profiler import library
from ..base.types import Matrix
from ..execution.tasks import Execution
from ..execution.threads import one_thread
from ..storage.blocks import Arrays, PartWriter, Receipt, Rows, block_rng, row_ranges, rows_that_fit
from ..storage.csr import squared_lengths
from .points import require_finite

SAMPLE_PER_CENTER = 30  # rows of the sample for each center
SAMPLE_BYTES = 128 << 20  # upper bound of the sample, as float64; but one row for each center
PASSES = 5  # upper bound
MIN_DECREASE = 0.01  # of the mean squared distance by a pass, relative; after a smaller one the passes end
TASKS = 16  # of a pass, upper bound: each writes s x d sums
SAMPLE_STREAM = 4  # of the seed


def nearest_centers(X: Matrix, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (labels (b,), squared distances (b,)) of the nearest of the centers (s, d); ties go to the first.

    Dense points are centered at the mean of the centers first, so that a common offset costs no digits.
    """
    if sparse.issparse(X):
        lengths = squared_lengths(X)
        shifted = centers
    else:
        middle = centers.mean(0)
        X = X - middle
        shifted = centers - middle
        lengths = np.einsum("ij,ij->i", X, X)
    squared = X @ shifted.T
    squared *= -2.0
    squared += np.einsum("ij,ij->i", shifted, shifted)
    labels = squared.argmin(1)
    return labels, np.maximum(lengths + squared[np.arange(len(labels)), labels], 0.0)


def cluster_sums(X: Matrix, labels: np.ndarray, n_clusters: int) -> np.ndarray:
    """Return the sum of the rows of X with each label, shape (s, d), float64, added in the order of the rows."""
    b = len(labels)
    sums = sparse.csr_array((np.ones(b), (labels, np.arange(b))), shape=(n_clusters, b)) @ X
    return sums.toarray() if sparse.issparse(sums) else sums


@dataclass(frozen=True)
class SeedTask:
    """Seed centers by k-means++ and mini-batches on a sample of rows, on one core."""

    rows: Rows
    count: int
    sample: int
    random_state: int

    def __call__(self, out: PartWriter) -> Receipt:
        MiniBatchKMeans = library("sklearn.cluster").MiniBatchKMeans
        rng = block_rng(self.random_state, SAMPLE_STREAM)
        points: Any = self.rows.take(np.sort(rng.choice(len(self.rows), self.sample, replace=False, shuffle=False)))
        require_finite(points, "the points hold")
        # Without reassignment, which would move the centers of rare points to random rows.
        model = MiniBatchKMeans(self.count, n_init=1, batch_size=max(1024, 2 * self.count), max_iter=10,
                                reassignment_ratio=0.0, random_state=int(rng.integers(2**31)))
        with one_thread():  # scikit-learn's OpenMP may have been loaded after the worker set its limit
            model.fit(points.astype(np.float64, copy=False))
        return out.write(centers=np.asarray(model.cluster_centers_, np.float64))


@dataclass(frozen=True)
class LloydTask:
    """Write the sums (s, d) and counts (s,) of the clusters over one range of rows.

    The receipt has the summed squared distances, and the number and squared distance of the farthest row.
    """

    rows: Rows
    centers: Arrays
    start: int
    stop: int
    height: int

    def __call__(self, out: PartWriter) -> Receipt:
        centers = self.centers.load()["centers"]
        sums = np.zeros(centers.shape)
        counts = np.zeros(len(centers), np.int64)
        inertia = 0.0
        farthest = (0, -1.0)
        for start in range(self.start, self.stop, self.height):
            X: Matrix = self.rows.read(start, min(start + self.height, self.stop))
            X = X.astype(np.float64, copy=False)
            labels, squared = nearest_centers(X, centers)
            sums += cluster_sums(X, labels, len(centers))
            counts += np.bincount(labels, minlength=len(centers))
            inertia += float(squared.sum())
            if squared.max() > farthest[1]:
                farthest = (start + int(squared.argmax()), float(squared.max()))
        require(math.isfinite(inertia), f"rows {self.start} to {self.stop} hold NaN or infinite values",
                error=DataError, why="a mean of such points is not a number", fix="drop or impute these rows first")
        return {**out.write(sums=sums, counts=counts), "inertia": inertia, "farthest": farthest}


@dataclass(frozen=True)
class Pass:
    """Centers (s, d) after a Lloyd pass; an empty cluster keeps its center.

    counts (s,) : the rows of each cluster. inertia : the mean squared distance of the rows to the previous centers.
    farthest : number and squared distance of the farthest row of each range, the farthest first.
    """

    centers: np.ndarray
    counts: np.ndarray
    inertia: float
    farthest: list[tuple[int, float]]


def lloyd_pass(rows: Rows, centers: np.ndarray, height: int, execution: Execution) -> Pass:
    """Return the result of one pass over all rows."""
    held = execution.share(centers=centers)
    parts = execution.scratch()
    ranges = row_ranges(len(rows), -(-len(rows) // TASKS))
    tasks = [LloydTask(rows, held, start, stop, height) for start, stop in ranges]
    receipts = execution.map(tasks, parts)
    sums = np.zeros(centers.shape)
    counts = np.zeros(len(centers), np.int64)
    for i in range(len(tasks)):  # in the order of the rows, whichever task was ready first
        part = parts.read(i)
        sums += part["sums"]
        counts += part["counts"]
    filled = counts > 0
    updated = centers.copy()
    updated[filled] = sums[filled] / counts[filled, None]
    farthest = sorted((tuple(receipt["farthest"]) for receipt in receipts), key=lambda point: (-point[1], point[0]))
    return Pass(updated, counts, sum(receipt["inertia"] for receipt in receipts) / len(rows), farthest)


def lloyd_bytes(rows: Rows, count: int) -> tuple[int, int]:
    """Return the bytes of a row in a pass with `count` centers, 8 s + 32 d + 48, and those of a block beside its rows.

    For sparse rows 2.5 times their bytes replace 32 d.
    """
    d = rows.shape[1]
    row_bytes = 5 * rows.row_bytes // 2 if rows.is_sparse else 32 * d
    return 8 * count + row_bytes + 48, 48 * count * d


def lloyd_height(rows: Rows, count: int, budget: int) -> int:
    """Return the rows of a block of a pass; raise BudgetError if the centers and one row do not fit."""
    each, fixed = lloyd_bytes(rows, count)
    return min(4096, rows_that_fit(budget, each, len(rows), fixed_bytes=fixed))


def kmeans_centers(rows: Rows, count: int, random_state: int, execution: Execution,
                   sample_bytes: int = SAMPLE_BYTES) -> tuple[np.ndarray, JsonObject]:
    """Return dense float64 centers of k-means, shape (s, d), and as evidence the `inertia` before each pass.

    Memory of a task: `lloyd_bytes`; seeding takes 3 times its sample. O(n s d) time a pass.

    Raises BudgetError: the centers do not fit the execution's memory budget. DataError: a value is
    not finite.
    """
    n, d = rows.shape
    height = lloyd_height(rows, count, execution.memory_budget)
    per_row = rows.row_bytes if rows.is_sparse else 8 * d
    sample = max(count, min(n, SAMPLE_PER_CENTER * count, sample_bytes // max(per_row, 1)))
    rows_that_fit(execution.memory_budget, 3 * per_row, sample, fixed_bytes=3 * per_row * (sample - 1))
    seeded = execution.scratch()
    execution.map([SeedTask(rows, count, sample, random_state)], seeded)
    centers = seeded.read(0)["centers"]
    inertia = []
    for _ in range(PASSES):
        updated = lloyd_pass(rows, centers, height, execution)
        centers = updated.centers
        inertia.append(updated.inertia)
        if len(inertia) > 1 and inertia[-1] >= (1 - MIN_DECREASE) * inertia[-2]:
            break
    return centers, {"sample": sample, "inertia": inertia, "dense_centers_of_sparse_rows": rows.is_sparse}

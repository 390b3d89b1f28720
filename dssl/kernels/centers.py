"""Centers of k-means: seeded on a sample by scikit-learn, then moved by a few Lloyd passes over all rows in blocks.

Lloyd's pass is a block step (assign rows to the nearest center; add them up), a combine step (add the blocks' sums in
the order of the rows) and a finish step (divide; an empty cell keeps its center). Distances are Euclidean, whatever
kernel the centers serve.

Lloyd, "Least squares quantization in PCM", IEEE Transactions on Information Theory 1982. Zhang, Tsang, Kwok, "Improved
Nystrom low-rank approximation and error analysis", ICML 2008, for centers as landmarks.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from ..base.errors import DataError, require
from ..base.profiler import library
from ..execution.tasks import Execution, one_thread
from ..storage.blocks import Arrays, PartWriter, Receipt, Rows, block_rng, row_ranges, rows_that_fit
from ..storage.csr import squared_lengths
from .points import require_finite

SAMPLE_PER_CENTER = 30  # rows that the seeding sees for each center
SAMPLE_BYTES = 128 << 20  # and at most, as float64; a center still has one row
PASSES = 5  # of Lloyd over all rows, at most
ENOUGH = 0.01  # relative: where a pass lowered the mean squared distance by less, the next is the last
TASKS = 16  # at most, in a pass: each hands s x d sums on, whatever the number of rows
SAMPLE_STREAM = 4  # of the seed


def nearest_centers(X: Any, centers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (labels (b,), squared distances (b,)) of the nearest of the centers (s, d); ties go to the first.

    |x - c|^2 by one matrix product, about the mean of the centers where X is dense, so that an offset costs no digits.
    """
    if sparse.issparse(X):
        lengths = squared_lengths(X)
        moved = centers
    else:
        middle = centers.mean(0)
        X = X - middle
        moved = centers - middle
        lengths = np.einsum("ij,ij->i", X, X)
    squared = X @ moved.T
    squared *= -2.0
    squared += np.einsum("ij,ij->i", moved, moved)
    labels = squared.argmin(1)
    return labels, np.maximum(lengths + squared[np.arange(len(labels)), labels], 0.0)


def cell_sums(X: Any, labels: np.ndarray, n_cells: int) -> np.ndarray:
    """Return the sum of the rows of X with each label, shape (s, d), float64, added in the order of the rows."""
    b = len(labels)
    cells = sparse.csr_array((np.ones(b), (labels, np.arange(b))), shape=(n_cells, b))
    sums = cells @ X
    return sums.toarray() if sparse.issparse(sums) else sums


@dataclass(frozen=True)
class SeedTask:
    """Choose first centers by k-means++ and mini-batches on a sample of rows, on one core."""

    rows: Rows
    count: int
    sample: int
    random_state: int

    def __call__(self, out: PartWriter) -> Receipt:
        MiniBatchKMeans = library("sklearn.cluster").MiniBatchKMeans
        rng = block_rng(self.random_state, SAMPLE_STREAM)
        points: Any = self.rows.take(np.sort(rng.choice(len(self.rows), self.sample, replace=False, shuffle=False)))
        require_finite(points, "the points hold")
        # Without reassignment, which moves rare cells to random rows: landmarks are to cover rare points too.
        model = MiniBatchKMeans(self.count, n_init=1, batch_size=max(1024, 2 * self.count), max_iter=10,
                                reassignment_ratio=0.0, random_state=int(rng.integers(2**31)))
        with one_thread():  # scikit-learn's OpenMP may have been loaded after the worker set its limit
            model.fit(points.astype(np.float64, copy=False))
        return out.write(centers=np.asarray(model.cluster_centers_, np.float64))


@dataclass(frozen=True)
class LloydTask:
    """Write the sums (s, d) and counts (s,) of the cells over one range of rows, read in blocks.

    The receipt has their summed squared distances, and the number and squared distance of the farthest row.
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
            X: Any = self.rows.read(start, min(start + self.height, self.stop))
            X = X.astype(np.float64, copy=False)
            labels, squared = nearest_centers(X, centers)
            sums += cell_sums(X, labels, len(centers))
            counts += np.bincount(labels, minlength=len(centers))
            inertia += float(squared.sum())
            if squared.max() > farthest[1]:
                farthest = (start + int(squared.argmax()), float(squared.max()))
        require(math.isfinite(inertia), f"rows {self.start} to {self.stop} hold NaN or infinite values",
                error=DataError, why="a mean of such points is not a number", fix="drop or impute these rows first")
        return {**out.write(sums=sums, counts=counts), "inertia": inertia, "farthest": farthest}


@dataclass(frozen=True)
class Pass:
    """What a Lloyd pass makes of centers (s, d): the means of their cells, of an empty one the center as it was.

    counts (s,) : the rows of each cell. inertia : the mean squared distance of the rows to the centers of before.
    farthest : number and squared distance of the farthest row of each range, the farthest first.
    """

    centers: np.ndarray
    counts: np.ndarray
    inertia: float
    farthest: list[tuple[int, float]]


def lloyd_pass(rows: Rows, centers: np.ndarray, height: int, execution: Execution) -> Pass:
    """Return what one pass over all rows makes of the centers."""
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
    moved = centers.copy()
    moved[filled] = sums[filled] / counts[filled, None]
    farthest = sorted((tuple(receipt["farthest"]) for receipt in receipts), key=lambda point: (-point[1], point[0]))
    return Pass(moved, counts, sum(receipt["inertia"] for receipt in receipts) / len(rows), farthest)


def lloyd_bytes(rows: Rows, count: int) -> tuple[int, int]:
    """Return the bytes that a row takes in a pass with so many centers, and what a block takes beside its rows.

    48 s d bytes for centers and sums, and 8 s + 32 d + 48 a row, where 2.5 times the bytes of a sparse row take the
    place of 32 d.
    """
    d = rows.shape[1]
    row_bytes = 5 * rows.row_bytes // 2 if rows.is_sparse else 32 * d
    return 8 * count + row_bytes + 48, 48 * count * d


def lloyd_height(rows: Rows, count: int, budget: int) -> int:
    """Return the rows of a block of a pass with so many centers; raise BudgetError where they and one row do not fit.
    """
    each, fixed = lloyd_bytes(rows, count)
    return min(4096, rows_that_fit(budget, each, len(rows), fixed_bytes=fixed))


def kmeans_centers(rows: Rows, count: int, random_state: int, execution: Execution,
                   sample_bytes: int = SAMPLE_BYTES) -> tuple[np.ndarray, dict[str, Any]]:
    """Return centers of k-means, shape (s, d), float64 and dense for sparse rows too, and the evidence of the passes.

    The evidence is the mean squared distance to the nearest center before each pass, in squared units of the features.

    Memory of a task: `lloyd_bytes`; seeding takes 3 times its sample (`sample_bytes`). Up to 16 s x d sums wait to be
    added. O(n s d) time a pass.

    Raises
    ------
    BudgetError : the centers do not fit the execution's memory budget. DataError : a value is not finite.
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
        moved = lloyd_pass(rows, centers, height, execution)
        centers = moved.centers
        inertia.append(moved.inertia)  # of the centers that the pass began with
        if len(inertia) > 1 and inertia[-1] >= (1 - ENOUGH) * inertia[-2]:
            break
    return centers, {"sample": sample, "inertia": inertia, "dense_centers_of_sparse_rows": rows.is_sparse}

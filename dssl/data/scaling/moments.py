"""Moments of the columns of training rows: their count, means, squared deviations and ranges, in passes over blocks.

Block step: count, mean, sum of squared deviations, smallest and largest value of each column, in float64; with them
the sampled rows of the block, or what `Reaches` says of its outliers. Combine step: pairwise, by the formulas of Chan,
Golub and LeVeque.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from ...base.types import Matrix, is_sparse
from ...execution.cost import Cost, cost_of
from ...execution.tasks import BlockTasks, Execution, Reduction, Share, combining_tasks
from ...storage.blocks import Arrays, PartWriter, Receipt, Rows, rows_that_fit
from ...storage.csr import largest_of_rows
from ...storage.views import counts_below
from .out_of_range import LARGEST_BLOCK
from .outliers import MAX_LISTED, Reaches, sampled_positions

PAIRS = 2  # shares that are combined at a time
LISTED = {"sample": None, "outlier_rows": MAX_LISTED}  # arrays of rows in the shares of blocks, and their maximum


def moments_of(X: Matrix) -> Share:
    """Return the moments of the columns of a block, shape (rows, d), dense or sparse, with at least one row.

    They are count, zero_rows; and mean, squares (sum over rows of (x - mean)^2), smallest and largest, shape (d,),
    float64. Entries that sparse rows do not store count as zero.
    """
    n, d = X.shape
    with np.errstate(over="ignore", invalid="ignore"):  # above 1e154 a square is infinite; fit_scaling refuses it
        if is_sparse(X):
            columns = X.indices
            values = np.asarray(X.data, np.float64)
            mean = np.bincount(columns, values, d) / n
            squares = np.bincount(columns, (values - mean[columns]) ** 2, d)
            squares += (n - np.bincount(columns, minlength=d)) * mean**2
            smallest, largest = (np.asarray(of(axis=0).toarray().ravel(), np.float64) for of in (X.min, X.max))
            zero_rows = largest_of_rows(X) == 0
        else:
            X = np.asarray(X, np.float64)
            mean = X.mean(axis=0)
            deviation = X - mean
            # The second term is zero except for the rounding of the mean.
            squares = np.maximum((deviation**2).sum(axis=0) - deviation.sum(axis=0) ** 2 / n, 0)
            smallest = X.min(axis=0)
            largest = X.max(axis=0)
            zero_rows = ~X.any(axis=1)
    return {"count": np.array(n), "mean": mean, "squares": squares, "smallest": smallest, "largest": largest,
            "zero_rows": np.array(zero_rows.sum())}


def merged(share: Share, later: Share) -> Share:
    """Return the moments of the union of two sets of rows.

    Chan, Golub, LeVeque, "Updating formulae and a pairwise algorithm for computing sample variances", 1979.
    """
    n = int(share["count"])
    m = int(later["count"])
    with np.errstate(over="ignore", invalid="ignore"):
        difference = later["mean"] - share["mean"]
        mean = share["mean"] + difference * (m / (n + m))
        squares = share["squares"] + later["squares"] + difference**2 * (n * m / (n + m))
    return {"count": np.array(n + m), "mean": mean, "squares": squares,
            "smallest": np.minimum(share["smallest"], later["smallest"]),
            "largest": np.maximum(share["largest"], later["largest"]),
            **{name: share[name] + later[name] for name in ("zero_rows", "n_outlier_rows", "n_outlier_cells")
               if name in share},
            **{name: np.concatenate([share[name], later[name]])[:limit] for name, limit in LISTED.items()
               if name in share}}


@dataclass(frozen=True)
class MomentsTask:
    """Compute the moments of the training rows in one block, and write them to the block's own part.

    shared : the ascending numbers of sampled rows, `sampled` (m,), which are written as well; or the arrays of a
    `Reaches`, whose outliers are excluded; None for sparse rows.
    """

    rows: Rows
    start: int
    stop: int
    ids: Rows | None  # ascending numbers of the training rows; None for all
    begin: int  # ids[begin:end] lie in the block
    end: int
    shared: Arrays | None

    def __call__(self, out: PartWriter) -> Receipt:
        block = self.rows.read(self.start, self.stop)
        numbers = np.arange(self.start, self.stop) if self.ids is None else self.ids.read(self.begin, self.end)
        X = block if self.ids is None else block[numbers - self.start]
        if self.shared is None:
            return out.write(**moments_of(X))
        arrays = self.shared.load()
        if "sampled" in arrays:
            first, last = np.searchsorted(arrays["sampled"], [self.start, self.stop])
            sample = np.asarray(block[arrays["sampled"][first:last] - self.start], np.float64)
            return out.write(sample=sample, **moments_of(X))
        inliers, outliers = Reaches(arrays["median"], arrays["reach"], arrays["rare"]).inliers(X, numbers)
        return out.write(**moments_of(inliers), **outliers)

    def cost(self) -> Cost:
        """Return a block, and of its training rows five copies in float64."""
        rows, height = self.rows, self.stop - self.start
        width = min(rows.shape[1], -(-rows.row_bytes // rows.dtype.itemsize))  # of a dense row of as many bytes
        return cost_of(1, height * rows.row_bytes, 32 * rows.shape[1],
                       height * rows.row_bytes + (self.end - self.begin) * (40 * width + 8))


def moment_rows(n: int, d: int, chunk: int, budget: int, sparse_row_bytes: int | None = None,
                largest_block: int = LARGEST_BLOCK) -> int:
    """Return the number of rows whose moments one task computes: whole chunks of `chunk` rows if one fits."""
    row_bytes = sparse_row_bytes or 8 * max(d, 1)
    fit = rows_that_fit(budget, 11 * row_bytes if sparse_row_bytes else 48 * d + 8, n,
                        fixed_bytes=80 * d if sparse_row_bytes else 0)
    height = min(fit, max(1, largest_block // row_bytes))
    return max(1, height // chunk) * chunk if chunk <= height else height


def moment_tasks(rows: Rows, ids: Rows | None, counts: Callable[[np.ndarray], np.ndarray], budget: int,
                 shared: Arrays | None = None, largest_block: int = LARGEST_BLOCK) -> BlockTasks[MomentsTask]:
    """Return the tasks of all blocks. counts : returns how many training rows, numbers `ids`, are before some rows."""
    n, d = rows.shape
    height = moment_rows(n, d, chunk_of(rows), budget, rows.row_bytes if rows.is_sparse else None, largest_block)
    begins = counts(np.array([*range(0, n, height), n])).tolist()
    return BlockTasks(lambda start, stop: MomentsTask(
        rows, start, stop, ids, begins[start // height], begins[start // height + 1], shared), n, height)


def moments_cost(rows: Rows, n: int, budget: int) -> Cost:
    """Return what a pass over all rows takes for the moments of the n training rows among them."""
    tasks = moment_tasks(rows, None, lambda before: before * n // len(rows), budget)
    d = rows.shape[1]
    sampled = 0 if rows.is_sparse else 8 * d * len(sampled_positions(n, d))
    return tasks.cost() + cost_of(combining_tasks(len(tasks), 32 * d, budget, PAIRS, sampled), 0, 0, 0)


def chunk_of(rows: Rows) -> int:
    """Return the rows that are stored together, which are read whole."""
    return getattr(rows, "block_rows", 1) if rows.is_sparse else rows.chunk_rows


def fit_moments(rows: Rows, ids: Rows | None, execution: Execution, largest_block: int,
                reaches: Reaches | None = None) -> Share:
    """Return the moments of the training rows, either with a sample of rows or, with `reaches`, without outliers."""
    n, d = rows.shape
    shared_arrays = None
    if not rows.is_sparse and reaches is None:
        positions = sampled_positions(n if ids is None else len(ids), d)
        shared_arrays = execution.share(sampled=positions if ids is None else ids.take(positions))
    elif reaches is not None:
        shared_arrays = execution.share(median=reaches.median, reach=reaches.reach, rare=reaches.rare)
    shared = None if ids is None else execution.share_rows(ids)
    tasks = moment_tasks(rows, shared, lambda before: before if ids is None else counts_below(ids, before),
                         execution.memory_budget, shared_arrays, largest_block)
    # Blocks are combined in pairs, so that rounding grows only with the height of the tree.
    return execution.reduce(Reduction([task for task in tasks if task.end > task.begin], merged,
                                      lambda share: share, fan_in=PAIRS))

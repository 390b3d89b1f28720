"""k-means on rows of features: several starts on a sample, then passes of the best over all rows in blocks.

    start     k-means++ and Lloyd's passes on the sample, by scikit-learn; one task a start, the lowest sum wins
    pass      Lloyd's, over all rows (`kernels/centers.py`), until it lowers the sum by less than the tolerance
    finish    the label of every row

In features Phi of a kernel, Phi Phi' = K, it is kernel k-means: |phi(x) - c_j|^2 = K(x, x) - 2 phi(x)'c_j + |c_j|^2.

References
----------
Arthur, Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007; Dhillon, Guan, Kulis, "Kernel k-means,
spectral clustering and normalized cuts", KDD 2004.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.digest import is_whole, require_random_state
from ..base.errors import DataError, explain, require
from ..base.profiler import library
from ..execution.cost import Cost, block_count, cost_of, kernel_seconds
from ..execution.tasks import Execution, one_thread
from ..kernels.centers import SAMPLE_BYTES, TASKS, lloyd_bytes, lloyd_height, lloyd_pass, nearest_centers
from ..storage.blocks import ArrayRows, Arrays, PartWriter, Receipt, Rows, block_rng, row_ranges, rows_that_fit

SAMPLE = 20_000  # rows that starts see, and 30 a cluster if these are more
PER_CLUSTER = 30
SAMPLE_STREAM, START_STREAM = 0, 1  # of the seed


@dataclass(frozen=True, kw_only=True)
class KMeansParams:
    """n_clusters : k. n_init : starts, of which the best goes on.

    tol : relative; where a pass over all rows lowers the sum of squares by less, the next is the last. max_passes
    : over all rows.
    """

    n_clusters: int
    n_init: int = 10
    tol: float = 1e-5
    max_passes: int = 100
    random_state: int = 0

    def __post_init__(self) -> None:
        for name, least, why in (("n_clusters", 1, "points fall into so many clusters"),
                                 ("n_init", 1, "the best of several starts goes on"),
                                 ("max_passes", 1, "centers follow all points, not the sample alone")):
            value = getattr(self, name)
            require(is_whole(value) and value >= least, why=why,
                    what=f"{name}={value!r}, expected a whole number >= {least}", fix=f"use {least} or more")
        require(0 <= self.tol < 1, f"tol={self.tol!r}, expected 0 to 1",
                why="it is relative to the sum of squares", fix="use 1e-5")
        require_random_state(self.random_state)


@dataclass(frozen=True, eq=False)
class Clusters:
    """centers (k, r), labels (n,), counts (k,), inertia : the mean squared distance to the nearest center."""

    centers: np.ndarray
    labels: np.ndarray
    counts: np.ndarray
    inertia: float
    attributes: dict[str, Any]


@dataclass(frozen=True)
class StartTask:
    """Write `centers` (k, r) of one start on the sample, fewer where it has fewer distinct rows."""

    rows: Rows
    sample: int
    n_clusters: int
    random_state: int
    number: int

    def __call__(self, out: PartWriter) -> Receipt:
        KMeans = library("sklearn.cluster").KMeans
        X = sample_of(self.rows, self.sample, self.random_state)
        start = int(block_rng(self.random_state, START_STREAM, self.number).integers(2**31))
        with one_thread():
            model = KMeans(min(self.n_clusters, distinct(X)), n_init=1, random_state=start).fit(X)
        return {**out.write(centers=np.asarray(model.cluster_centers_, np.float64)), "inertia": float(model.inertia_)}


def sample_of(rows: Rows, sample: int, random_state: int) -> np.ndarray:
    """Return `sample` rows (sample, r), float64, in their order; all where there are no more."""
    n = len(rows)
    if sample >= n:
        return rows.read(0, n).astype(np.float64)
    ids = block_rng(random_state, SAMPLE_STREAM).choice(n, sample, replace=False, shuffle=False)
    return rows.take(np.sort(ids)).astype(np.float64)


def distinct(X: np.ndarray) -> int:
    """Return how many rows differ."""
    return len({row.tobytes() for row in X + 0.0})


def sample_size(n: int, r: int, n_clusters: int, sample: int = SAMPLE) -> int:
    """Return how many of n rows of r features the starts see."""
    return min(n, max(n_clusters, min(max(sample, PER_CLUSTER * n_clusters), SAMPLE_BYTES // (8 * r))))


@dataclass(frozen=True)
class AssignTask:
    """Write the `labels` of rows [start, stop): the numbers of the nearest centers."""

    rows: Rows
    centers: Arrays
    start: int
    stop: int

    def __call__(self, out: PartWriter) -> Receipt:
        centers = self.centers.load()["centers"]
        X = self.rows.read(self.start, self.stop).astype(np.float64, copy=False)
        labels, squared = nearest_centers(X, centers)
        return {**out.write_rows(self.start, labels=labels), "inertia": float(squared.sum()),
                "counts": np.bincount(labels, minlength=len(centers)).tolist()}


def kmeans(rows: Rows, params: KMeansParams, execution: Execution, sample: int = SAMPLE) -> Clusters:
    """Return k clusters of rows (n, r), dense and finite.

    A cluster that a pass leaves empty moves to the row that is farthest from its center. Clusters are numbered by their
    size, the largest first, and of equal ones by the first row.

    Memory of a task: `lloyd_bytes`; of a start 3 times its sample. O(n k r) time a pass.

    Raises
    ------
    DataError : more clusters than rows. BudgetError : the centers, or a start's sample, do not fit.

    Warns
    -----
    UserWarning : fewer distinct rows than clusters; there are then as many clusters as these.
    """
    n, k = len(rows), params.n_clusters
    require(k <= n, f"n_clusters={k} of {n} points", why="a cluster has a point or more", error=DataError,
            fix=f"use {n} or fewer")
    sample = sample_size(n, rows.shape[1], k, sample)
    rows_that_fit(execution.memory_budget, 3 * 8 * rows.shape[1], sample,
                  fixed_bytes=3 * 8 * rows.shape[1] * (sample - 1))
    height, started = lloyd_height(rows, k, execution.memory_budget), execution.scratch()
    receipts = execution.map([StartTask(rows, sample, k, params.random_state, number)
                              for number in range(params.n_init)],
                             started)
    best = min(range(params.n_init), key=lambda number: (receipts[number]["inertia"], number))
    centers, inertia, passes = started.read(best)["centers"], np.inf, 0
    while passes < params.max_passes:
        moved = lloyd_pass(rows, centers, height, execution)
        passes += 1
        centers, empty = moved.centers, np.flatnonzero(moved.counts == 0)
        for cluster, (row, squared) in zip(empty, moved.farthest, strict=False):
            if squared > 0:
                centers[cluster] = rows.take(np.array([row]))[0]
        if not len(empty) and moved.inertia >= (1 - params.tol) * inertia:
            break
        inertia = moved.inertia
    parts, ranges = execution.scratch(), row_ranges(n, height)
    parts.allocate("labels", (n,), np.int64, height)
    held = execution.share(centers=centers)
    assigned = execution.map([AssignTask(rows, held, start, stop) for start, stop in ranges], parts)
    labels = parts.rows("labels").read_all()
    counts = np.sum([receipt["counts"] for receipt in assigned], axis=0)
    seen, first = np.unique(labels, return_index=True)
    order = seen[np.lexsort((first, -counts[seen]))]
    if len(order) < k:
        warnings.warn(explain(f"{len(order)} clusters were found, and n_clusters={k}",
                              why="there are no more distinct points", fix="use fewer clusters"), UserWarning,
                      stacklevel=2)
    number = np.zeros(len(centers), np.int64)
    number[order] = np.arange(len(order))
    return Clusters(centers[order], number[labels], counts[order],
                    sum(receipt["inertia"] for receipt in assigned) / n,
                    {"passes": passes, "sample": sample, "starts": [receipt["inertia"] for receipt in receipts]})


def kmeans_cost(n: int, r: int, k: int, n_init: int, passes: int, budget: int) -> Cost:
    """Return what k-means of n rows of r float64 features takes, in so many passes."""
    sample = sample_size(n, r, k)
    rows = ArrayRows(np.broadcast_to(0.0, (n, r)))
    (each, fixed), height = lloyd_bytes(rows, k), lloyd_height(rows, k, budget)
    peak = max(24 * r * sample, each * height + fixed) + 16 * 8 * k * r
    return cost_of(n_init + passes * min(TASKS, n) + block_count(n, height),
                   8 * r * (n_init * sample + (passes + 1) * n), 8 * n, peak, 24 * r * sample,
                   kernel_seconds((n_init * sample + (passes + 1) * n) * k, r))

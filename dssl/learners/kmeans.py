"""k-means on rows of features: several starts on a sample, then Lloyd's passes from the best over all rows in blocks.

    start     k-means++ and Lloyd's algorithm on the sample, by scikit-learn; a task each
    pass      a Lloyd pass over all rows (`kernels/centers.py`), until it lowers the sum by less than the tolerance
    finish    the label of every row

On features Phi of a kernel, Phi Phi' = K, it is kernel k-means: |phi(x) - c_j|^2 = K(x, x) - 2 phi(x)'c_j + |c_j|^2.
The nearest center has the largest `phi(x)'c_j - |c_j|^2 / 2`, so clusters are predicted by a linear model of features.

References
----------
Arthur, Vassilvitskii, "k-means++: the advantages of careful seeding", SODA 2007; Dhillon, Guan, Kulis, "Kernel k-means,
spectral clustering and normalized cuts", KDD 2004.
"""

import warnings
from dataclasses import dataclass

import numpy as np

from ..base.digest import JsonObject, is_whole, require_random_state
from ..base.errors import DataError, explain, require
from ..base.profiler import library
from ..execution.cost import Cost, block_count, cost_of, kernel_seconds
from ..execution.tasks import Execution
from ..execution.threads import one_thread
from ..kernels.centers import SAMPLE_BYTES, TASKS, lloyd_bytes, lloyd_height, lloyd_pass, nearest_centers
from ..storage.blocks import ArrayRows, Arrays, PartWriter, Receipt, Rows, block_rng, row_ranges, rows_that_fit
from .feature_maps import Features
from .linear.kernel_model import ModelInKernel
from .on_graph.model import GraphModel
from .target.coding import Scores

SAMPLE = 20_000  # rows that starts use, or PER_CLUSTER a cluster if that is more
PER_CLUSTER = 30
FeatureModel = ModelInKernel | GraphModel
SAMPLE_STREAM, START_STREAM = 0, 1  # of the seed


@dataclass(frozen=True, kw_only=True)
class KMeansParams:
    """n_clusters : k. n_init : starts. tol : the relative decrease of the sum of squares at which passes end."""

    n_clusters: int
    n_init: int = 10
    tol: float = 1e-5
    max_passes: int = 100
    random_state: int = 0

    def __post_init__(self) -> None:
        for name, why in (("n_clusters", "it is the number of clusters"),
                          ("n_init", "it is the number of starts"),
                          ("max_passes", "it is the number of passes over all points")):
            value = getattr(self, name)
            require(is_whole(value) and value >= 1, why=why,
                    what=f"{name}={value!r}, expected a whole number >= 1", fix="use 1 or more")
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
    attributes: JsonObject


@dataclass(frozen=True)
class StartTask:
    """Write the `centers` (k, r) of one start on the sample, fewer where it has fewer distinct rows."""

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
            model = KMeans(min(self.n_clusters, n_distinct(X)), n_init=1, random_state=start).fit(X)
        return {**out.write(centers=np.asarray(model.cluster_centers_, np.float64)), "inertia": float(model.inertia_)}


def sample_of(rows: Rows, sample: int, random_state: int) -> np.ndarray:
    """Return at most `sample` random rows (sample, r), float64, in their order."""
    n = len(rows)
    if sample >= n:
        return rows.read(0, n).astype(np.float64)
    ids = block_rng(random_state, SAMPLE_STREAM).choice(n, sample, replace=False, shuffle=False)
    return rows.take(np.sort(ids)).astype(np.float64)


def n_distinct(X: np.ndarray) -> int:
    return len({row.tobytes() for row in X + 0.0})


def sample_size(n: int, r: int, n_clusters: int, sample: int = SAMPLE) -> int:
    """Return how many of n rows with r features the starts use."""
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

    The center of an empty cluster moves to the row farthest from its center. Clusters are numbered by descending size,
    equal ones by their first row. Memory of a task: `lloyd_bytes`; of a start 3 times its sample. O(n k r) time a pass.

    Raises DataError: more clusters than rows. BudgetError: the centers, or the sample of a start, do not fit.
    Warns where there are fewer distinct rows than clusters, and returns as many clusters as these.
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
    shared = execution.share(centers=centers)
    assigned = execution.map([AssignTask(rows, shared, start, stop) for start, stop in ranges], parts)
    labels = parts.rows("labels").read_all()
    counts = np.sum([receipt["counts"] for receipt in assigned], axis=0)
    used, first = np.unique(labels, return_index=True)
    order = used[np.lexsort((first, -counts[used]))]
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
    """Return the cost of k-means of n rows with r float64 features."""
    sample = sample_size(n, r, k)
    rows = ArrayRows(np.broadcast_to(0.0, (n, r)))
    (each, fixed), height = lloyd_bytes(rows, k), lloyd_height(rows, k, budget)
    peak = max(24 * r * sample, each * height + fixed) + 16 * 8 * k * r
    return cost_of(n_init + passes * min(TASKS, n) + block_count(n, height),
                   8 * r * (n_init * sample + (passes + 1) * n), 8 * n, peak, 24 * r * sample,
                   kernel_seconds((n_init * sample + (passes + 1) * n) * k, r))


@dataclass(frozen=True, eq=False)
class Clustering:
    """The model of the clusters, with a value each, or one value for two clusters; the rest as in `Clusters`.

    labels (n,) : -1 for points without a cluster.
    """

    model: FeatureModel
    labels: np.ndarray
    counts: np.ndarray
    inertia: float
    attributes: JsonObject


def fit_clusters(features: Features, params: KMeansParams, execution: Execution) -> Clustering:
    """Return the clusters of the points in a feature space.

    Raises DataError, BudgetError: see `kmeans`. Warns: points have no cluster, or there are fewer clusters.
    """
    reachable = features.reachable
    rows = features.rows if reachable is None else ArrayRows(features.rows.take(np.flatnonzero(reachable)))
    clusters = kmeans(execution.share_rows(rows), params, execution)
    labels = clusters.labels
    if reachable is not None:
        labels = np.full(len(reachable), -1)
        labels[reachable] = clusters.labels
        warnings.warn(explain(
            f"{int((~reachable).sum())} of {len(reachable)} points have no cluster", why="the graph has more than "
            f"{params.n_clusters} components, and only the largest are clustered",
            fix="use more neighbors, or more clusters"), UserWarning, stacklevel=3)
    return Clustering(center_model(features.model, clusters.centers), labels, clusters.counts, clusters.inertia,
                      clusters.attributes)


def center_model(features: FeatureModel, centers: np.ndarray) -> FeatureModel:
    """Return the model `phi(x)'c_j - |c_j|^2 / 2` of centers (k, r); for two, the second value less the first."""
    coef, intercept = centers.T, -0.5 * np.einsum("ij,ij->i", centers, centers)
    if len(centers) == 2:
        coef, intercept = coef[:, 1:] - coef[:, :1], intercept[1:] - intercept[:1]
    return features.linear(coef, intercept, Scores(np.arange(len(centers))), {})

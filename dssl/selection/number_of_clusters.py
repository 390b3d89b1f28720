"""The number of clusters by the largest eigengap, or by the gap statistic.

    eigengap   the k >= 2 after which the eigenvalues of the kernel fall most, l_k - l_(k+1), or those of a graph kernel
               by the largest factor
    gap        the least k >= 1 with gap(k) >= gap(k + 1) - s(k + 1)

gap(k) is the mean of log W_k over reference samples without clusters, less log W_k of the points, where W_k is the sum
of squares about k centers; the references are uniform in the box of the points' principal components, and s(k) is their
standard deviation times (1 + 1/B)^1/2.

References
----------
von Luxburg, "A tutorial on spectral clustering", Statistics and Computing 2007, section 8.3; Tibshirani, Walther,
Hastie, "Estimating the number of clusters in a data set via the gap statistic", JRSS B 2001.
"""

from dataclasses import dataclass, replace
from typing import Literal, get_args

import numpy as np
import pandas as pd

from ..base.digest import is_whole
from ..base.errors import DataError, require
from ..base.profiler import library
from ..execution.tasks import Execution
from ..execution.threads import one_thread
from ..kernels.base import Kernel
from ..learners.feature_maps import CLUSTER_COUNT_MAPS, FeatureMapParams, Features, Source, make_features
from ..learners.kmeans import Clustering, KMeansParams, fit_clusters, n_distinct, sample_of
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, block_rng

NumberRule = Literal["eigengap", "gap"]
REFERENCES = 10
SAMPLE = 2000  # points that both rules look at
COMPONENTS = 50  # of the features, that references fill
STARTS = 3
STREAM = 23


@dataclass(frozen=True, eq=False)
class SelectedClusters:
    """The features of the points for the selected number of clusters, and the clusters; evidence : JSON."""

    features: Features
    clusters: Clustering
    evidence: dict[str, list[float]]


def selected_clusters(rows: Rows, kernel: Kernel, feature_map: FeatureMapParams, source: Source, params: KMeansParams,
                    rule: NumberRule | None, execution: Execution, parts: Parts | None = None) -> SelectedClusters:
    """Return the clusters of rows (n, d) in a feature space; with a rule, at most `params.n_clusters`.

    source : of the features, see `Source`. parts : where they are written; scratch by default.

    Raises, warns : `make_features`, `kmeans`, `fit_clusters`.
    """
    largest = params.n_clusters if rule is None else min(params.n_clusters, len(rows))
    place = None if parts is None else parts.within("max_clusters")
    features = make_features(rows, kernel, feature_map, source, largest, execution, place)
    evidence: dict[str, list[float]] = {}
    if rule is not None:
        k, evidence = number_of_clusters(features, rule, largest, params.random_state, execution)
        params = replace(params, n_clusters=k)
        if feature_map.name in CLUSTER_COUNT_MAPS:
            place = None if parts is None else parts.within("chosen")
            features = make_features(rows, kernel, feature_map, source, k, execution, place)
    return SelectedClusters(features, fit_clusters(features, params, execution), evidence)


def number_of_clusters(features: Features, rule: NumberRule, largest: int, random_state: int,
                       execution: Execution) -> tuple[int, dict[str, list[float]]]:
    """Return k <= `largest` and its evidence: the `spectrum`, or the `gaps` of 1 to `largest` clusters."""
    if rule == "eigengap":
        values = features.spectrum if len(features.spectrum) else kernel_eigenvalues(features, random_state)
        return largest_gap(values[:largest + 1]), {"spectrum": values[:largest + 1].tolist()}
    X = sample_of(features.rows, SAMPLE, random_state)
    X = X - X.mean(axis=0)
    points = X @ np.linalg.svd(X, full_matrices=False)[2][:COMPONENTS].T
    parts = execution.scratch()
    shared = execution.share(points=points)
    execution.map([SpreadTask(shared, number, min(largest + 1, len(points) - 1), random_state)
                   for number in range(REFERENCES + 1)], parts)
    logs = np.array([parts.read(number)["logs"] for number in range(REFERENCES + 1)])
    gaps = logs[1:].mean(axis=0) - logs[0]
    spread = logs[1:].std(axis=0) * np.sqrt(1 + 1 / REFERENCES)
    accepted = np.flatnonzero(gaps[:-1] >= gaps[1:] - spread[1:])
    return int(accepted[0]) + 1 if len(accepted) else max(len(gaps) - 1, 1), {"gaps": gaps[:-1].tolist()}


def number_rule(n_clusters: object, max_clusters: int) -> NumberRule | None:
    """Return the rule for the number of clusters, None if it is a number; raise ParameterError for anything else."""
    if not isinstance(n_clusters, str):
        return None  # `KMeansParams` checks it
    require(n_clusters in get_args(NumberRule), f"n_clusters={n_clusters!r}", why="there is no such rule",
            fix='use a whole number, "eigengap" or "gap"')
    require(is_whole(max_clusters) and max_clusters >= 2,
            f"max_clusters={max_clusters!r}, expected a whole number >= 2", why="numbers up to it are compared",
            fix="use 20")
    return n_clusters  # type: ignore[return-value]


def largest_gap(values: np.ndarray) -> int:
    """Return the k >= 2 after which descending values (m,) fall most; 1 of fewer than three."""
    return int(np.argmax(-np.diff(values[1:]))) + 2 if len(values) > 2 else 1


def kernel_eigenvalues(features: Features, random_state: int) -> np.ndarray:
    """Return the eigenvalues of the kernel over the number of points, descending, from a sample of them."""
    X = sample_of(features.rows, SAMPLE, random_state)
    return np.asarray(np.linalg.svd(X, compute_uv=False) ** 2 / len(X))


@dataclass(frozen=True)
class SpreadTask:
    """Write `logs` (largest,), log W_k for k = 1, 2, ...: of the points for number 0, or of a reference sample."""

    points: Arrays
    number: int
    largest: int
    random_state: int

    def __call__(self, out: PartWriter) -> Receipt:
        KMeans = library("sklearn.cluster").KMeans
        X = self.points.load()["points"]
        rng = block_rng(self.random_state, STREAM, self.number)
        if self.number:
            X = rng.uniform(X.min(axis=0), X.max(axis=0), X.shape)
        max_clusters = n_distinct(X)  # with so many clusters or more the sum is 0
        with one_thread():
            fits = (KMeans(min(k, max_clusters), n_init=STARTS, random_state=int(rng.integers(2**31)))
                    for k in range(1, self.largest + 1))
            inertias = [each.fit(X).inertia_ for each in fits]
        return out.write(logs=np.log(np.maximum(inertias, np.finfo(float).tiny)))


def clustering_scores(classes: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
    """Return how well clusters agree with the classes of the same points.

    Parameters
    ----------
    classes : array-like, shape (n,)
        The class of each point.
    clusters : array-like, shape (n,)
        The cluster of each point. A point without a cluster, -1, agrees with no class
        for the accuracy, and is a cluster alone for the other two scores.

    Returns
    -------
    dict of float
        `accuracy` is the share of points in the cluster that is matched with their
        class, one to one, by the best matching; `nmi` the mutual information over the
        mean of the two entropies; `ari` the Rand index adjusted for chance.

    Raises
    ------
    DataError
        The lengths differ, there is no point, or a point has no class (NaN, None).

    References
    ----------
    Kuhn, "The Hungarian method for the assignment problem", 1955 (the matching).

    Examples
    --------
    >>> from dssl import clustering_scores
    >>> clustering_scores(["a", "a", "b", "b"], [1, 1, 0, 0])
    {'accuracy': 1.0, 'nmi': 1.0, 'ari': 1.0}
    """
    classes = np.asarray(classes)
    clusters = np.asarray(clusters)
    require(classes.shape == clusters.shape == (len(classes),) and len(classes) > 0, error=DataError,
            what=f"classes of shape {classes.shape}, clusters of shape {clusters.shape}",
            why="they are compared point by point", fix="pass the classes and the clusters of the same points")
    missing = int(pd.isna(classes).sum())
    require(not missing, f"{missing} of {len(classes)} points have no class", error=DataError,
            why="their clusters cannot be compared with a class", fix="remove these points from both arrays")
    y, (names, c) = np.unique(classes, return_inverse=True)[1], np.unique(clusters, return_inverse=True)
    table = np.zeros((y.max() + 1, len(names)), np.int64)
    np.add.at(table, (y, c), 1)
    table[:, names == -1] = 0
    matched = table[library("scipy.optimize").linear_sum_assignment(table, maximize=True)].sum()
    alone = np.where(names[c] == -1, len(names) + np.arange(len(c)), c)
    metrics = library("sklearn.metrics")
    return {"accuracy": float(matched / len(y)), "nmi": float(metrics.normalized_mutual_info_score(y, alone)),
            "ari": float(metrics.adjusted_rand_score(y, alone))}

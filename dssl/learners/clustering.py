"""Clusters in a feature space, and the model that finds the cluster of any point.

A point belongs to the nearest center, and `|phi(x) - c_j|^2 = |phi(x)|^2 - 2 (c_j'phi(x) - |c_j|^2 / 2)`, so that the
clusters are a linear model of the features: no more than what the features of a point take.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import explain
from ..execution.tasks import Execution
from ..storage.blocks import ArrayRows
from .feature_maps import Features
from .kmeans import KMeansParams, kmeans
from .linear.kernel_model import ModelInKernel
from .on_graph.model import GraphModel
from .target.coding import Scores

FeatureModel = ModelInKernel | GraphModel


@dataclass(frozen=True, eq=False)
class Clustering:
    """model : of one value a cluster, of two clusters one value. labels (n,) : -1 of points without a cluster.

    counts (k,) : points of each cluster, descending. inertia : as of `Clusters`. attributes : JSON.
    """

    model: FeatureModel
    labels: np.ndarray
    counts: np.ndarray
    inertia: float
    attributes: dict[str, Any]


def clustered(features: Features, params: KMeansParams, execution: Execution) -> Clustering:
    """Return the clusters of the points of a feature space.

    Raises DataError, BudgetError: see `kmeans`. Warns: points have no cluster, or there are fewer clusters.
    """
    known = features.reached
    rows = features.rows if known is None else ArrayRows(features.rows.take(np.flatnonzero(known)))
    clusters = kmeans(execution.share_rows(rows), params, execution)
    labels = clusters.labels
    if known is not None:
        labels = np.full(len(known), -1)
        labels[known] = clusters.labels
        warnings.warn(explain(
            f"{int((~known).sum())} of {len(known)} points have no cluster", why="the graph is in more pieces than "
            f"{params.n_clusters}, and theirs are not among the largest", fix="use more neighbors, or more clusters"),
            UserWarning, stacklevel=3)
    return Clustering(center_model(features.model, clusters.centers), labels, clusters.counts, clusters.inertia,
                      clusters.attributes)


def center_model(features: FeatureModel, centers: np.ndarray) -> FeatureModel:
    """Return the model `phi(x)'c_j - |c_j|^2 / 2` of features and centers (k, r); of two, the second less the first."""
    coef, intercept = centers.T, -0.5 * np.einsum("ij,ij->i", centers, centers)
    if len(centers) == 2:
        coef, intercept = coef[:, 1:] - coef[:, :1], intercept[1:] - intercept[:1]
    return features.linear(coef, intercept, Scores(np.arange(len(centers))), {})

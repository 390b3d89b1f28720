"""How far a clustering agrees with classes: accuracy under the best matching, mutual information, Rand index."""

import numpy as np
import pandas as pd
from scipy.optimize import linear_sum_assignment

from ..base.errors import DataError, require
from ..base.profiler import library


def clustering_scores(classes: np.ndarray, clusters: np.ndarray) -> dict[str, float]:
    """Return `accuracy`, `nmi` and `ari` of clusters (n,) against the classes (n,) of the same points.

    accuracy : the share of points in the cluster that is matched with their class, one to one, by the best matching
    (Kuhn, 1955). nmi : mutual information over the mean of the two entropies. ari : the Rand index adjusted for chance.
    A point without a cluster, -1, agrees with no class, and is a cluster alone for the other two.

    Raises DataError where the lengths differ, there is no point, or one has no class (NaN, None).
    """
    classes, clusters = np.asarray(classes), np.asarray(clusters)
    require(classes.shape == clusters.shape == (len(classes),) and len(classes) > 0, error=DataError,
            what=f"classes of shape {classes.shape}, clusters of shape {clusters.shape}",
            why="they are compared point by point", fix="pass the classes and the clusters of the same points")
    lacking = int(pd.isna(classes).sum())
    require(not lacking, f"{lacking} of {len(classes)} points have no class", error=DataError,
            why="their clusters agree with nothing", fix="leave them out of both")
    y, (names, c) = np.unique(classes, return_inverse=True)[1], np.unique(clusters, return_inverse=True)
    table = np.zeros((y.max() + 1, len(names)), np.int64)
    np.add.at(table, (y, c), 1)
    table[:, names == -1] = 0
    matched = table[linear_sum_assignment(table, maximize=True)].sum()
    alone = np.where(names[c] == -1, len(names) + np.arange(len(c)), c)
    metrics = library("sklearn.metrics")
    return {"accuracy": float(matched / len(y)), "nmi": float(metrics.normalized_mutual_info_score(y, alone)),
            "ari": float(metrics.adjusted_rand_score(y, alone))}

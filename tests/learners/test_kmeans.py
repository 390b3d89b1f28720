"""k-means of features: scikit-learn's sums on all rows, samples, empty clusters, blocks, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs

from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.centers import Pass
from dssl.learners import kmeans as kmeans_module
from dssl.learners.kmeans import KMeansParams, kmeans
from dssl.storage.blocks import ArrayRows, budget_beside

X, y = make_blobs(900, 5, centers=6, cluster_std=2.5, random_state=3)


def test_the_sum_of_squares_is_that_of_scikit_learn_or_less():
    found = kmeans(ArrayRows(X), KMeansParams(n_clusters=6, tol=0), InProcess(2))
    peer = KMeans(6, n_init=10, random_state=0).fit(X)
    assert found.inertia * len(X) <= peer.inertia_ * (1 + 1e-6)
    squared = ((X[:, None] - found.centers) ** 2).sum(2)
    assert_array_equal(found.labels, squared.argmin(1))
    assert_allclose(found.centers, [X[found.labels == j].mean(0) for j in range(6)])  # at a fixed point
    assert_array_equal(found.counts, np.bincount(found.labels))
    assert (np.diff(found.counts) <= 0).all()


def test_passes_over_all_rows_improve_what_a_sample_found():
    params = KMeansParams(n_clusters=2, n_init=2)
    one = kmeans(ArrayRows(X), KMeansParams(n_clusters=2, n_init=2, max_passes=1), InProcess(1), sample=60)
    found = kmeans(ArrayRows(X), params, InProcess(1), sample=60)
    assert found.attributes["sample"] == 60 < len(X)
    assert found.inertia <= one.inertia
    assert found.inertia <= 1.01 * kmeans(ArrayRows(X), params, InProcess(1)).inertia


def test_neither_blocks_nor_threads_change_the_clusters():
    whole = kmeans(ArrayRows(X), KMeansParams(n_clusters=4), InProcess(1))
    small = kmeans(ArrayRows(X), KMeansParams(n_clusters=4), InProcess(2, budget_beside(3 * 8 * 5 * 900)))
    assert_array_equal(whole.labels, small.labels)
    assert_allclose(whole.centers, small.centers, rtol=1e-12)


def test_a_cluster_that_empties_moves_to_the_farthest_row(monkeypatch):
    rows, seen, plain = ArrayRows(np.array([[0.0], [0.1], [5.0], [9.0]])), [], kmeans_module.lloyd_pass

    def first_empties(*given):
        found = plain(*given)
        seen.append(found)
        if len(seen) > 1:
            return found
        return Pass(np.array([[0.05], [7.0], [50.0]]), np.array([2, 2, 0]), 10.0, [(3, 4.0), (0, 0.0)])

    monkeypatch.setattr(kmeans_module, "lloyd_pass", first_empties)
    found = kmeans(rows, KMeansParams(n_clusters=3), InProcess(1))
    assert_array_equal(found.labels, [0, 0, 1, 2])


def test_fewer_distinct_rows_than_clusters():
    rows = ArrayRows(np.repeat([[0.0, 1], [2, 2], [7, 7]], 5, axis=0))
    with pytest.warns(UserWarning, match=r"3 clusters were found, and n_clusters=5"):
        found = kmeans(rows, KMeansParams(n_clusters=5), InProcess(1))
    assert_array_equal(found.labels, np.repeat([0, 1, 2], 5))
    assert found.inertia < 1e-12


def test_what_is_wrong():
    with pytest.raises(DataError, match="n_clusters=901 of 900 points"):
        kmeans(ArrayRows(X), KMeansParams(n_clusters=901), InProcess(1))
    with pytest.raises(BudgetError, match="one row needs"):
        kmeans(ArrayRows(X), KMeansParams(n_clusters=3), InProcess(1, 1000))
    for name, value in (("n_clusters", 0), ("n_clusters", 2.5), ("n_init", 0), ("max_passes", 0), ("tol", -1),
                        ("random_state", -1)):
        with pytest.raises(ParameterError, match=f"{name}="):
            KMeansParams(**{"n_clusters": 2, name: value})

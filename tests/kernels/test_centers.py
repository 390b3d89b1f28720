"""k-means centers: block functions against the definition, passes that lower the distance, memory."""


import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.base.errors import BudgetError
from dssl.execution.in_process import InProcess
from dssl.kernels import centers as centers_module
from dssl.kernels.centers import LloydTask, SeedTask, cluster_sums, kmeans_centers, nearest_centers
from dssl.storage.blocks import ArrayRows, PartWriter
from dssl.storage.csr import as_rows
from tests.memory import traced_peak

from .. import reference
from .test_landmarks import choose, points


def test_blocks_against_the_definition():
    for offset in (0.0, 1e6):
        X, C = points() + offset, points(7, random_state=1) + offset
        squared = reference.squared_distances(X, C)
        labels, nearest = nearest_centers(X, C)
        assert_array_equal(labels, squared.argmin(1))
        assert_allclose(nearest, squared.min(1), rtol=1e-8, atol=1e-9)
    labels, nearest = nearest_centers(sparse.csr_array(X := points()), C := points(7, random_state=1))
    assert_allclose(nearest, reference.squared_distances(X, C).min(1), rtol=1e-9)
    for form in (X, sparse.csr_array(X)):
        assert_allclose(cluster_sums(form, labels, 8), [X[labels == j].sum(0) for j in range(8)], atol=1e-12)


def test_passes_lower_the_distance_and_empty_cells_keep_their_center():
    X = points(400)
    landmarks, evidence = kmeans_centers(ArrayRows(X), 20, 0, InProcess(2))
    after = reference.squared_distances(X, landmarks).min(1).mean()
    assert 2 <= len(evidence["inertia"]) <= centers_module.PASSES
    assert (np.diff([*evidence["inertia"], after]) <= 0).all()
    far = np.vstack([X[:3], [[99.0, 99, 99]]])
    step = centers_module.lloyd_pass(ArrayRows(X), far, 50, InProcess(1))
    assert_array_equal(step.centers[3], far[3])
    squared = reference.squared_distances(X, far)
    labels = squared.argmin(1)
    assert_allclose(step.centers[:3], [X[labels == j].mean(0) for j in range(3)])
    assert_array_equal(step.counts, np.bincount(labels, minlength=4))
    assert step.farthest[0][0] == squared.min(1).argmax()


def test_separate_clusters_have_a_center_each():
    middles = 50 * np.eye(6)
    X = np.concatenate([middles + 0.1 * points(6, 6, random_state) for random_state in range(40)])
    landmarks = choose(X, 6, "kmeans").points
    assert (reference.squared_distances(middles, landmarks).min(1) < 0.1).all()


def test_more_rows_than_the_sample():
    centers, evidence = kmeans_centers(ArrayRows(points(1000)), 10, 0, InProcess(1), sample_bytes=8 * 3 * 100)
    assert evidence["sample"] == 100
    assert centers.shape == (10, 3)


def test_a_budget_too_small():
    with pytest.raises(BudgetError):
        choose(points(), 12, "kmeans", execution=InProcess(1, 48 * 12 * 3))


@pytest.mark.slow
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_peak_memory_of_the_seeding_stays_within_the_formula(form):
    rows, execution = as_rows(form(points(30 * 60, 300))), InProcess(1)
    task, writer = SeedTask(rows, 60, 30 * 60, 0), PartWriter(execution.scratch(), 0)
    task(writer)
    sample = 30 * 60 * (rows.row_bytes if rows.is_sparse else 8 * 300)
    upper_bound = 3 * sample + 48 * 60 * 300
    assert 0.8 * sample < traced_peak(lambda: task(writer), upper_bound) < upper_bound


@pytest.mark.parametrize("form", [np.asarray, lambda X: sparse.csr_array(np.where(np.abs(X) > 1, X, 0))])
def test_peak_memory_of_a_pass_stays_within_the_formula(form):
    s, d, b = 200, 40, 2000
    rows = as_rows(form(points(b, d)))
    execution = InProcess(1)
    held = execution.share(centers=points(s, d, 1))
    task, writer = LloydTask(rows, held, 0, b, b), PartWriter(execution.scratch(), 0)
    task(writer)
    per_row = 5 * rows.row_bytes // 2 if rows.is_sparse else 32 * d
    formula = 48 * s * d + b * (8 * s + per_row + 48)
    upper_bound = 1.02 * formula + 10_000
    assert 0.4 * formula < traced_peak(lambda: task(writer), upper_bound) < upper_bound

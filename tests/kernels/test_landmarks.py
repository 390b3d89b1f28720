"""Landmarks: how many, which, how often; the same in threads, in blocks, stored, sparse or dense."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels import centers as centers_module
from dssl.kernels.base import RBF
from dssl.kernels.centers import LloydTask, SeedTask, cluster_sums, kmeans_centers, nearest_centers
from dssl.kernels.landmarks import (
    METHODS,
    LandmarkParams,
    Landmarks,
    choose_landmarks,
    first_of_each,
    landmark_count,
    uniform_rows,
    without_outliers,
)
from dssl.storage.blocks import ArrayRows, PartWriter
from dssl.storage.csr import as_rows
from dssl.storage.store import StoredParts
from tests.memory import traced_peak

from .. import reference

KERNEL = RBF(1.0)


def points(n=60, d=3, random_state=0):
    return np.random.default_rng(random_state).normal(size=(n, d))


def sparse_points(n=60, d=12, random_state=0):
    X = points(n, d, random_state)
    X[np.abs(X) < 1.0] = 0
    return sparse.csr_array(X)


def choose(X, count, method="uniform", random_state=0, execution=None, preferred=None, n_landmarks="sqrt"):
    params = LandmarkParams(n_landmarks=n_landmarks, method=method, random_state=random_state)
    return choose_landmarks(as_rows(X), KERNEL, count, params, execution or InProcess(1), preferred)


def dense(points):
    return points.toarray() if sparse.issparse(points) else points


class TestCount:
    @pytest.mark.parametrize(("asked", "m", "n", "count"), [
        ("sqrt", 10, 110, 4 + 10), ("sqrt", 0, 9, 3), ("sqrt", 9, 9, 3), ("sqrt", 1, 2, 2), ("sqrt", 10, 100, 4 + 10),
        (7, 3, 50, 7), (np.int64(50), 3, 50, 50), (0.1, 3, 50, 5), (0.07, 0, 100, 7), (0.071, 0, 100, 8),
        (1e-9, 0, 50, 1), (1.0, 3, 50, 50), (1, 3, 50, 1), ("sqrt", 10**16 + 1, 10**16 + 1, 10**8 + 1),
    ])
    def test_number_fraction_and_rule(self, asked, m, n, count):
        assert landmark_count(LandmarkParams(n_landmarks=asked), m, n, n) == count

    @pytest.mark.parametrize(("n", "largest", "count"), [(500, 10**6, 500), (5000, 10**6, 1000), (5000, 70, 70),
                                                      (5000, 0, 1), (10**8, 10**6, 10_000), (10**8, 3000, 3000)])
    def test_auto_is_the_usual_number_or_the_rule_as_far_as_the_budget_lets(self, n, largest, count):
        assert landmark_count(LandmarkParams(), 0, n, largest) == count
        assert landmark_count(LandmarkParams(n_landmarks=80), 0, n, largest) == 80

    @given(m=st.integers(0, 300), u=st.integers(0, 300))
    def test_the_rule_never_exceeds_the_rows(self, m, u):
        if m + u:
            assert 1 <= landmark_count(LandmarkParams(n_landmarks="sqrt"), m, m + u, m + u) <= m + u

    def test_more_than_there_are_rows(self):
        with pytest.warns(UserWarning, match=r"n_landmarks=11 and 10 rows to select from\n  why: .*\n"
                                             r"  fix: set n_landmarks to 10"):
            assert landmark_count(LandmarkParams(n_landmarks=11), 3, 10, 10) == 10

    @pytest.mark.parametrize("asked", [0, -1, 0.0, 1.5, -0.1, True, False, np.nan, np.inf, "root", None, [3]])
    def test_numbers_that_are_none(self, asked):
        with pytest.raises(ParameterError, match="n_landmarks="):
            LandmarkParams(n_landmarks=asked)

    @pytest.mark.parametrize("fields", [{"method": "greedy"}, {"random_state": -1}, {"random_state": 0.5},
                                        {"random_state": True}])
    def test_other_parameters(self, fields):
        with pytest.raises(ParameterError, match=next(iter(fields))):
            LandmarkParams(**fields)

    @pytest.mark.parametrize(("m", "n"), [(0, 0), (5, 4), (-1, 4)])
    def test_rows_that_cannot_be(self, m, n):
        with pytest.raises(DataError, match="rows are labeled"):
            landmark_count(LandmarkParams(n_landmarks="sqrt"), m, n, n)


class TestUniform:
    @settings(max_examples=25)
    @given(st.data())
    def test_rows_are_different_ascending_and_of_both_kinds(self, data):
        n = data.draw(st.integers(1, 60))
        m = data.draw(st.integers(0, n))
        preferred = np.random.default_rng(n).permutation(n)[:m]
        count = landmark_count(LandmarkParams(n_landmarks="sqrt"), m, n, n)
        chosen = uniform_rows(n, count, data.draw(st.integers(0, 99)), preferred)
        assert chosen.dtype == np.int64
        assert len(chosen) == count
        assert (np.diff(chosen) > 0).all()
        assert chosen[0] >= 0
        assert chosen[-1] < n
        assert np.isin(chosen, preferred).sum() == int(np.ceil(np.sqrt(m)))

    @given(n=st.integers(1, 30), m=st.integers(0, 30), count=st.integers(1, 30))
    def test_any_count_is_served(self, n, m, count):
        for rule in ("sqrt", "auto"):
            chosen = uniform_rows(n, min(count, n), 0, np.arange(min(m, n)), rule)
            assert len(np.unique(chosen)) == min(count, n)

    @pytest.mark.parametrize(("m", "mine"), [(0, None), (3, 3), (10, 10), (11, 10), (40, 10), (120, 12), (200, 20)])
    def test_auto_has_the_labeled_rows_up_to_half_of_the_landmarks_or_their_share(self, m, mine):
        chosen = uniform_rows(200, 20, 1, np.arange(0, m), "auto")
        assert len(np.unique(chosen)) == 20
        assert mine is None or (chosen < m).sum() == mine

    def test_every_row_is_as_likely(self):
        preferred, hits = np.array([1, 4, 7, 18]), np.zeros(20)
        for random_state in range(3000):
            hits[uniform_rows(20, 6, random_state, preferred)] += 1
        assert_allclose(hits[preferred] / 3000, 2 / 4, atol=0.04)
        assert_allclose(np.delete(hits, preferred) / 3000, 4 / 16, atol=0.04)

    def test_only_rules_prefer_labeled_rows(self):
        labeled = np.arange(4)
        by_rule = choose(points(), 10, preferred=labeled)
        assert np.isin(by_rule.rows, labeled).sum() == 2
        assert np.isin(choose(points(), 10, preferred=labeled, n_landmarks="auto").rows, labeled).sum() == 4
        by_number = [choose(points(), 10, preferred=labeled, n_landmarks=10, random_state=random_state).rows
                     for random_state in range(20)]
        assert_array_equal(by_number[0], choose(points(), 10, n_landmarks=10).rows)
        assert len({int(np.isin(rows, labeled).sum()) for rows in by_number}) > 1

    @pytest.mark.parametrize("preferred", [[-1, 3], [3, 60]])
    def test_preferred_rows_that_are_none(self, preferred):
        with pytest.raises(ParameterError, match="preferred rows span"):
            choose(points(), 10, preferred=np.array(preferred))


@pytest.mark.parametrize("method", METHODS)
class TestEveryMethod:
    def test_landmarks_are_rows_or_centers(self, method):
        X = points()
        landmarks = choose(X, 12, method)
        assert landmarks.points.shape == (12, 3)
        assert landmarks.attributes["asked"] == 12
        assert landmarks.attributes["dropped_duplicates"] == 0
        assert landmarks.attributes["method"] == method
        if method == "kmeans":
            assert landmarks.rows is None
        else:
            assert_array_equal(landmarks.points, X[landmarks.rows])
            assert (np.diff(landmarks.rows) > 0).all()

    @pytest.mark.parametrize("make", [points, sparse_points], ids=["dense", "sparse"])
    def test_the_same_in_one_thread_and_two(self, method, make):
        X = make(300)
        one, two, other = (choose(X, 15, method, random_state, InProcess(threads, 200_000))
                           for random_state, threads in ((0, 1), (0, 2), (1, 2)))
        assert one.attributes == two.attributes
        assert_array_equal(dense(one.points), dense(two.points))
        assert not np.array_equal(dense(one.points), dense(other.points))

    @pytest.mark.parametrize("make", [points, sparse_points], ids=["dense", "sparse"])
    def test_blocks_move_only_the_last_digits(self, method, make):
        X = make(300)
        wide, narrow = (choose(X, 15, method, execution=InProcess(1, budget)) for budget in (1 << 30, 100_000))
        assert_allclose(dense(wide.points), dense(narrow.points), rtol=1e-12, atol=1e-13)

    def test_sparse_rows_give_the_landmarks_of_their_dense_form(self, method):
        X = sparse_points()
        landmarks, expected = choose(X, 12, method), choose(X.toarray(), 12, method)
        assert sparse.issparse(landmarks.points) == (method != "kmeans")
        assert_allclose(dense(landmarks.points), expected.points, atol=1e-12)
        assert_allclose(KERNEL(X, landmarks.points), KERNEL(X.toarray(), expected.points), atol=1e-12)

    def test_float32_rows(self, method):
        landmarks = choose(points().astype(np.float32), 12, method)
        assert landmarks.points.dtype == (np.float64 if method == "kmeans" else np.float32)

    def test_all_rows_or_one(self, method):
        assert len(choose(points(20), 20, method).points) == 20
        assert len(choose(points(20), 1, method).points) == 1
        assert len(choose(points(1), 1, method).points) == 1
        with pytest.raises(ParameterError, match="count=21 landmarks of 20 rows"):
            choose(points(20), 21, method)
        with pytest.raises(ParameterError, match="count=0 landmarks"):
            choose(points(20), 0, method)

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_points_that_are_all_equal_make_one_landmark(self, method, form):
        landmarks = choose(form(np.full((50, 4), 2.5)), 8, method)
        assert landmarks.points.shape == (1, 4)
        assert landmarks.attributes["dropped_duplicates"] == 7
        assert_allclose(dense(landmarks.points), 2.5)
        assert choose(form(np.zeros((50, 4))), 8, method).points.shape == (1, 4)

    def test_copies_are_told_and_dropped(self, method):
        X = np.repeat(points(10), 6, axis=0)
        landmarks = choose(X, 30, method)
        chosen = landmarks.points
        assert 5 <= len(np.unique(chosen.round(9), axis=0)) <= 10  # means of copies may differ in the last bit
        assert len(np.unique(chosen, axis=0)) == len(chosen) == 30 - landmarks.attributes["dropped_duplicates"]

    @pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
    def test_points_that_are_not_finite(self, method, form):
        X = points()
        X[::2, 1] = np.nan
        with pytest.raises(DataError, match="NaN or infinite"):
            choose(form(X), 40, method)

    def test_a_constant_feature_changes_nothing(self, method):
        X = points()
        landmarks = choose(np.column_stack([X, np.full(60, 7.0)]), 12, method)
        assert_allclose(landmarks.points[:, :3], choose(X, 12, method).points, atol=1e-12)
        assert_allclose(landmarks.points[:, 3], 7)

    def test_arrays_and_back(self, method):
        for X in (points(), sparse_points()):
            landmarks = choose(X, 12, method)
            again = Landmarks.from_arrays(landmarks.to_arrays(), json.loads(json.dumps(landmarks.attributes)))
            assert_array_equal(dense(again.points), dense(landmarks.points))
            assert_array_equal(again.rows, landmarks.rows)
            assert again.attributes == landmarks.attributes

    def test_stored_rows(self, method, tmp_path):
        X, parts = points(50), StoredParts(tmp_path)
        parts.allocate("X", X.shape, X.dtype, 16)
        for start in range(0, 50, 16):
            parts.write_range(start, {"X": X[start:start + 16]})
        assert_array_equal(choose(parts.rows("X"), 9, method).points, choose(X, 9, method).points)

def test_zeros_of_either_sign_and_stored_zeros_are_equal():
    assert_array_equal(first_of_each(np.array([[0.0, 1], [1, 0], [-0.0, 1], [1, 0], [2, 0]])), [0, 1, 4])
    stored = sparse.csr_array((np.array([0.0, 1, 1]), np.array([0, 1, 1]), np.array([0, 2, 3])), shape=(2, 2))
    assert_array_equal(first_of_each(stored), [0])
    assert stored.nnz == 3


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(0, 5), st.booleans())
def test_scattered_outliers_are_dropped_and_clusters_are_not(seed, n_outliers, thin):
    """In any order of the rows; the second cluster lies apart too, and is no outlier."""
    rng = np.random.default_rng(seed)
    clusters = np.concatenate([rng.uniform(size=(60, 3)), rng.uniform(size=(40, 3)) + 5.0])
    outliers = np.full((5, 3), -10.0) * 3.0 ** np.arange(5)[:, None]
    X = np.concatenate([clusters, outliers[:n_outliers]])
    order = rng.permutation(len(X))
    rows = sparse.csr_array(X[order]) if thin else X[order]
    assert_array_equal(without_outliers(rows, 0.05), np.flatnonzero(order < 100))


@pytest.mark.parametrize("X", [np.stack(np.meshgrid(range(10), range(10)), axis=-1).reshape(-1, 2).astype(float),
                               np.eye(100), np.zeros((100, 3)),
                               np.random.default_rng(0).integers(0, 2, (200, 8)).astype(float)])
def test_no_point_of_equal_distances_is_an_outlier(X):
    assert_array_equal(without_outliers(X, 0.05), np.arange(len(X)))
    far = np.concatenate([X, X[:1] + 100.0])
    assert_array_equal(without_outliers(far, 0.05), np.arange(len(X)))


def test_no_more_outliers_are_dropped_than_the_share():
    X = np.concatenate([points(100) * 0.01, 3.0 ** np.arange(1, 7)[:, None] * np.ones(3)])
    assert_array_equal(without_outliers(X, 0.03), np.arange(103))
    assert_array_equal(without_outliers(X, 0.0), np.arange(106))
    assert_array_equal(without_outliers(X[-40:], 0.5), np.arange(40))  # too few to tell


# k-means centers: block functions against the definition, passes that lower the distance, memory


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

"""What must not change: the same small problem in other rows, blocks, labels, units and copies.

Points are drawn from a normal distribution, so no two distances are equal; every point is a landmark unless the
test says otherwise, because a random draw names rows.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics.pairwise import rbf_kernel

from dssl import LapKernelRidge, LapSVC
from dssl.execution.in_process import InProcess
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.laplacian import Laplacian
from dssl.graph.regularizer import RegularizerParams
from dssl.graph.vertices import distinct_rows, find_vertices
from dssl.graph.weights.build import weights
from dssl.kernels.base import RBF, median_bandwidth
from dssl.kernels.deformed import deform
from dssl.kernels.landmark_inverse import inverse_at_landmarks
from dssl.knn.exact.blocks import exact_block_rows
from dssl.knn.exact.tiles import POINT_TILE, QUERY_TILE
from dssl.knn.search import NeighborParams, find_neighbors, neighbors
from dssl.learners.linear.gram import LearnerParams, fit_gram
from dssl.learners.target.coding import OneVsRest
from dssl.learners.target.target import Classes, Quantities
from dssl.methods.deformed.covariance import CovarianceParams
from dssl.pipeline.run import run
from dssl.solvers.solver_params import SolverParams
from dssl.storage.blocks import ArrayRows
from tests.covariance import graph_covariance
from tests.fuzz.profile import thorough
from tests.rounding import to_rounding
from tests.stored import contents

EXACT = SolverParams(tol=1e-12, method="direct")
SURE = 1e-3  # a score that near to zero may fall on either side by rounding
seeds = st.integers(0, 10**6)
kinds = st.sampled_from(["binary", "self_tuned"])


def problem(random_state, n=36, d=2, n_classes=2, n_labeled=3):
    """Return X (n, d), labels with -1 where there is none, and 15 new points."""
    rng = np.random.default_rng(random_state)
    codes = np.arange(n) % n_classes
    X = rng.normal(size=(n, d)) + 1.5 * codes[:, None]
    y = np.full(n, -1)
    y[:n_labeled * n_classes] = codes[:n_labeled * n_classes]
    return X, y, rng.normal(size=(15, d)) + 1.5 * (np.arange(15) % n_classes)[:, None]


def graph_of(X, kind="self_tuned", k=5):
    return weights(neighbors(X, k), kind)


def covariance_of(W, power, *, ridge=0.1, normalized=True):
    """Return (R^-p) on all vertices."""
    laplacian = Laplacian(W, normalized)
    found = inverse_at_landmarks(laplacian.matrix(ridge), np.arange(laplacian.n), (power,), params=EXACT,
                                 vector=laplacian.vector)
    return found.powers[power]


def estimator(kind, *, weights="self_tuned", **parameters):
    return kind(**{"graph": KNNGraph(n_neighbors=5, weights=weights), "n_landmarks": 1000, "tol": 1e-10,
                   **parameters})


def pair_values(model, X):
    """Return the score of each pair of classes, (len(X), pairs)."""
    return model.model_.values(X)


def assert_same_where_sure(found, expected, values):
    """Require equal labels wherever no score is so near to zero that rounding decides."""
    sure = (np.abs(values) > SURE).all(axis=1)
    assert sure.sum() >= len(sure) // 2
    assert_array_equal(found[sure], expected[sure])


# ---- the order of the rows


@thorough(10)
@given(seeds, kinds, st.integers(1, 3))
def test_permuted_rows_permute_neighbors_weights_and_covariance(random_state, kind, power):
    X, _, _ = problem(random_state)
    order = np.random.default_rng(random_state + 1).permutation(len(X))
    lists, permuted = neighbors(X, 5), neighbors(X[order], 5)
    assert_allclose(permuted.distances, lists.distances[order], rtol=1e-12)
    assert_array_equal(order[permuted.indices], lists.indices[order])
    W, W_permuted = graph_of(X, kind), graph_of(X[order], kind)
    assert_allclose(W_permuted.toarray(), W.toarray()[np.ix_(order, order)], rtol=1e-11)
    assert_allclose(covariance_of(W_permuted, power), covariance_of(W, power)[np.ix_(order, order)], rtol=1e-8,
                    atol=1e-10)


@pytest.mark.slow
@thorough(6)
@given(seeds, kinds, st.integers(2, 3))
def test_permuted_rows_give_the_same_function(random_state, kind, n_classes):
    X, y, new = problem(random_state, n_classes=n_classes)
    order = np.random.default_rng(random_state + 1).permutation(len(X))
    targets = np.where(y < 0, np.nan, X[:, 0])
    ridge, permuted = (estimator(LapKernelRidge, weights=kind).fit(X[rows], targets[rows])
                       for rows in (np.arange(len(X)), order))
    assert_allclose(permuted.predict(new), ridge.predict(new), rtol=1e-6, atol=1e-7)
    machine, permuted = (estimator(LapSVC, weights=kind).fit(X[rows], y[rows]) for rows in (np.arange(len(X)), order))
    assert_allclose(pair_values(permuted, new), pair_values(machine, new), atol=SURE)
    assert_same_where_sure(permuted.predict(new), machine.predict(new), pair_values(machine, new))


@thorough(6)
@given(seeds)
def test_permuted_new_points_permute_their_predictions(random_state):
    X, y, new = problem(random_state)
    model = estimator(LapSVC, n_landmarks=20).fit(X, y)
    order = np.random.default_rng(random_state + 1).permutation(len(new))
    assert_allclose(pair_values(model, new[order]), pair_values(model, new)[order], rtol=1e-9, atol=1e-12)
    one_by_one = np.concatenate([pair_values(model, new[i:i + 1]) for i in range(len(new))])
    assert_allclose(one_by_one, pair_values(model, new), rtol=1e-9, atol=1e-12)


# ---- blocks and threads


@thorough(8)
@given(seeds, st.sampled_from([1, 2, 3]), st.integers(1, 160))
def test_neighbors_do_not_depend_on_blocks_or_threads(random_state, threads, height):
    X, _, _ = problem(random_state, n=150, d=3)
    budget = 16 * QUERY_TILE * POINT_TILE + 4 * (40 * 3 + 16 * 4) * height
    assert exact_block_rows(ArrayRows(X), 4, "euclidean", budget) == min(height, len(X))
    whole, blocks = (find_neighbors(ArrayRows(X), NeighborParams(n_neighbors=4), execution)
                     for execution in (InProcess(1), InProcess(threads, budget)))
    assert_array_equal(blocks.indices, whole.indices)
    assert_array_equal(blocks.distances, whole.distances)


@pytest.mark.slow
@thorough(5)
@given(seeds, st.integers(1, 3), st.integers(1, 9))
def test_the_covariance_is_the_same_bits_on_any_number_of_threads(random_state, power, block_columns):
    X, y, _ = problem(random_state, n=120)
    labeled = np.flatnonzero(y >= 0)
    params = CovarianceParams(n_landmarks=30, solver=SolverParams(block_columns=block_columns, tol=1e-10),
                               regularizer=RegularizerParams(power=power))
    one, several = (graph_covariance(KNNGraph().build(X, InProcess(threads)), labeled, params, InProcess(threads))
                    for threads in (1, 3))
    assert_array_equal(several.landmarks, one.landmarks)
    assert_array_equal(several.powers[power], one.powers[power])


@pytest.mark.slow
def test_a_pipeline_writes_the_same_bits_on_any_number_of_threads(tmp_path):
    X, y, _ = problem(3, n=150, d=3, n_classes=3, n_labeled=20)
    np.savez(tmp_path / "t.npz", X=X, y=y)
    spec = {"name": "threads", "data": {"source": str(tmp_path / "t.npz"), "test": {"count": 30},
                                        "read": {"block_rows": 40}},
            "labels": {"per_class": 4}, "model": {"kind": "svm", "n_landmarks": 30},
            "graph": {"n_neighbors": 5},
            "solver": {"block_columns": 8}}
    results = {threads: run(spec, workspace=tmp_path / str(threads), execution=InProcess(threads))
               for threads in (1, 3)}
    one, three = (contents(tmp_path / str(threads)) for threads in (1, 3))
    assert len(one) > 20
    assert one == three
    tall = run(spec, set=["data.read.block_rows=1000", "solver.block_columns=64"], workspace=tmp_path / "tall",
               execution=InProcess(2))
    assert (results[3].metrics, results[3].baselines) == (results[1].metrics, results[1].baselines)
    assert tall.metrics == to_rounding(results[1].metrics)  # of blocks of another shape
    assert tall.baselines == to_rounding(results[1].baselines)


# ---- what the classes are called


@thorough(6)
@given(seeds, st.integers(2, 4), st.sampled_from(["integers", "text"]))
def test_permuted_and_renamed_classes_permute_the_predictions(random_state, n_classes, kind):
    X, y, new = problem(random_state, n=48, n_classes=n_classes)
    order = np.random.default_rng(random_state + 1).permutation(n_classes)
    names = order * 7 + 2 if kind == "integers" else np.array([f"class {code}" for code in order], object)
    renamed = np.array([names[code] if code >= 0 else (-1 if kind == "integers" else None) for code in y],
                       None if kind == "integers" else object)
    plain, other = estimator(LapSVC).fit(X, y), estimator(LapSVC).fit(X, renamed)
    assert set(other.classes_) == set(names)
    assert_same_where_sure(other.predict(new), names[plain.predict(new)], pair_values(plain, new))


def classes_of(codes, n_classes):
    return Classes(np.arange(len(codes)), codes, np.arange(n_classes))


@thorough(20)
@given(seeds, st.integers(2, 4), st.sampled_from(["svm", "ridge"]))
def test_permuted_codes_permute_the_columns_of_a_learner(random_state, n_classes, kind):
    X, y, _ = problem(random_state, n_classes=n_classes)
    X, codes = X[y >= 0], y[y >= 0]
    order = np.random.default_rng(random_state + 1).permutation(n_classes)
    params, K = LearnerParams(kind=kind), RBF(1.0)(X, X)
    coef, intercept, coding = fit_gram(K, classes_of(codes, n_classes), params)
    coef_permuted, intercept_permuted, _ = fit_gram(K, classes_of(order[codes], n_classes), params)
    values, permuted = K @ coef + intercept, K @ coef_permuted + intercept_permuted
    if isinstance(coding, OneVsRest):
        assert_allclose(permuted[:, order], values, rtol=1e-10, atol=1e-12)
        return
    column = {(i, j): c for c, (i, j) in enumerate((i, j) for i in range(n_classes) for j in range(i + 1, n_classes))}
    for (i, j), c in column.items():
        a, b = order[i], order[j]
        same = permuted[:, column[(a, b)]] if a < b else -permuted[:, column[(b, a)]]
        assert_allclose(same, values[:, c], atol=SURE)


@thorough(5)
@given(seeds)
def test_permuted_targets_permute_the_columns_of_ridge(random_state):
    X, y, new = problem(random_state)
    targets = np.where((y < 0)[:, None], np.nan, np.column_stack([X[:, 0], X[:, 1] ** 2, X.sum(1)]))
    order = [2, 0, 1]
    plain, permuted = (estimator(LapKernelRidge).fit(X, columns).predict(new)
                       for columns in (targets, targets[:, order]))
    assert_allclose(permuted, plain[:, order], rtol=1e-9, atol=1e-12)


# ---- units of the weights and of the features


@thorough(12)
@given(seeds, kinds, st.floats(1e-4, 1e4), st.integers(1, 3))
def test_scaled_weights_leave_the_normalized_laplacian_as_it_is(random_state, kind, c, power):
    W = graph_of(problem(random_state)[0], kind)
    for ridge in (0.0, 0.1):
        assert_allclose(Laplacian(c * W).matrix(ridge).toarray(), Laplacian(W).matrix(ridge).toarray(), rtol=1e-12,
                        atol=1e-15)
    assert_allclose(covariance_of(c * W, power), covariance_of(W, power), rtol=1e-9, atol=1e-11)


@thorough(12)
@given(seeds, kinds, st.floats(1e-3, 1e3), st.integers(1, 3))
def test_scaled_weights_and_ridge_scale_the_unnormalized_one(random_state, kind, c, power):
    """R(cW, c ridge) = c R, so the covariance is scaled by c^-p, and a relative eta gives the same kernel."""
    X, _, new = problem(random_state)
    W = graph_of(X, kind)
    R, scaled = (Laplacian(factor * W, False).matrix(factor * 0.3).toarray() for factor in (1.0, c))
    assert_allclose(scaled, c * R, rtol=1e-12)
    A = covariance_of(W, power, ridge=0.3, normalized=False)
    A_scaled = covariance_of(c * W, power, ridge=c * 0.3, normalized=False)
    assert_allclose(A_scaled, A / c**power, rtol=1e-7, atol=1e-12 * float(np.trace(A)) / c**power)
    kernel, other = (deform(RBF(1.0), X, covariance, 5.0) for covariance in (A, A_scaled))
    assert_allclose(other(new, new), kernel(new, new), rtol=1e-6, atol=1e-9)


@thorough(6)
@given(seeds, st.integers(-20, 20), st.integers(2, 3))
def test_features_in_another_unit_change_no_prediction(random_state, exponent, n_classes):
    """A power of two scales every distance without rounding; median bandwidth and self-tuned weights follow it."""
    X, y, new = problem(random_state, n_classes=n_classes)
    unit = 2.0**exponent
    plain, other = (estimator(LapSVC, bandwidth="0.5*median").fit(factor * X, y) for factor in (1.0, unit))
    assert_allclose(pair_values(other, unit * new), pair_values(plain, new), rtol=1e-9, atol=1e-10)
    assert_array_equal(other.predict(unit * new), plain.predict(new))


# ---- power and eta


@pytest.mark.slow
@thorough(10)
@given(seeds, st.integers(1, 3))
def test_eta_zero_is_the_base_kernel(random_state, power):
    X, y, new = problem(random_state)
    A = covariance_of(graph_of(X), power)
    assert_array_equal(deform(RBF(0.7), X, A, 0.0)(new, X), RBF(0.7)(new, X))
    assert_allclose(deform(RBF(0.7), X, A, 1e-9)(new, X), RBF(0.7)(new, X), atol=1e-7)
    model = estimator(LapKernelRidge, eta=0.0, regularizer=RegularizerParams(power=power), bandwidth="median").fit(
        X, np.where(y < 0, np.nan, X[:, 0]))
    sigma = median_bandwidth(X, 0)
    K = rbf_kernel(X[y >= 0], gamma=0.5 / sigma**2)
    coef, mean, _ = fit_gram(K, Quantities(np.flatnonzero(y >= 0), X[y >= 0][:, 0]), LearnerParams(kind="ridge"))
    expected = rbf_kernel(new, X[y >= 0], gamma=0.5 / sigma**2) @ coef + mean
    assert_allclose(model.predict(new), expected[:, 0], rtol=1e-8, atol=1e-10)


@thorough(10)
@given(seeds, kinds, st.booleans())
def test_the_covariance_of_a_power_is_the_power_of_the_covariance(random_state, kind, normalized):
    W = graph_of(problem(random_state)[0], kind)
    one = covariance_of(W, 1, normalized=normalized)
    for power in (2, 3):
        expected = np.linalg.matrix_power(one, power)
        assert_allclose(covariance_of(W, power, normalized=normalized), expected, rtol=1e-7, atol=1e-9)


# ---- copies of the points


@thorough(12)
@given(seeds, kinds, st.integers(1, 3), st.floats(0.05, 2))
def test_a_second_copy_of_every_vertex_halves_the_covariance(random_state, kind, power, ridge):
    """Copies that have the edges of their originals, and none between the two.

    On functions that are equal on both copies the normalized Laplacian is that of the originals; on functions of
    opposite signs it is the identity. So a block of the covariance is (R^-p + (1 + ridge)^-p I) / 2, or the difference.
    """
    W = graph_of(problem(random_state, n=24)[0], kind)
    n, alone = W.shape[0], (1 + ridge) ** -power
    one = covariance_of(W, power, ridge=ridge)
    twice = covariance_of(sparse.csr_array(sparse.kron(np.ones((2, 2)), W)), power, ridge=ridge)
    assert_allclose(twice[:n, :n], (one + alone * np.eye(n)) / 2, rtol=1e-8, atol=1e-10)
    assert_allclose(twice[:n, n:], (one - alone * np.eye(n)) / 2, rtol=1e-8, atol=1e-10)


@thorough(12)
@given(seeds, st.floats(0.1, 50), st.sampled_from(["svm", "ridge"]))
def test_every_label_given_twice_counts_as_twice_the_penalty(random_state, C, kind):
    X, y, new = problem(random_state, n_classes=3)
    X, codes = X[y >= 0], y[y >= 0]
    kernel, both = RBF(1.0), np.tile(np.arange(len(X)), 2)
    once = fit_gram(kernel(X, X), classes_of(codes, 3), LearnerParams(kind=kind, C=2 * C))
    twice = fit_gram(kernel(X[both], X[both]), classes_of(codes[both], 3), LearnerParams(kind=kind, C=C))
    expected, found = kernel(new, X) @ once[0] + once[1], kernel(new, X[both]) @ twice[0] + twice[1]
    assert_allclose(found, expected, rtol=1e-6, atol=SURE if kind == "svm" else 1e-8)


# ---- duplicates


@pytest.mark.slow
@thorough(8)
@given(random_state=seeds, kind=st.sampled_from([LapSVC, LapKernelRidge]))
def test_the_order_of_copies_and_which_comes_first_change_nothing(random_state, kind):
    X, y, new = problem(random_state)
    rng = np.random.default_rng(random_state)
    copies = rng.integers(1, 5, len(X))
    rows = np.repeat(np.arange(len(X)), copies)
    given = y[rows] if kind is LapSVC else np.where(y[rows] < 0, np.nan, y[rows].astype(float))
    expected, found = (
        estimator(kind).fit(X[rows][order], given[order])
        for order in (np.arange(len(rows)), rng.permutation(len(rows))))
    if kind is LapSVC:  # the intercept follows from folds of the labels, which are drawn by their order
        assert_allclose(*(values - values.mean() for values in (
            model.decision_function(new) for model in (expected, found))), atol=SURE)
    else:
        assert_allclose(expected.predict(new), found.predict(new), rtol=1e-7, atol=1e-7)


@thorough(8)
@given(random_state=seeds, copies=st.integers(2, 30))
def test_copies_of_one_point_leave_the_neighbors_of_the_others(random_state, copies):
    X, _, _ = problem(random_state)
    many = np.vstack([X, np.repeat(X[:1], copies, axis=0)])
    points = find_vertices(ArrayRows(many), InProcess(1))
    assert_array_equal(points.first, np.arange(len(X)))
    assert_array_equal(points.multiplicity, [copies + 1] + [1] * (len(X) - 1))
    lists = find_neighbors(distinct_rows(ArrayRows(many), points, InProcess(1)), NeighborParams(n_neighbors=5),
                           InProcess(1))
    assert_array_equal(lists.indices, neighbors(X, 5).indices)

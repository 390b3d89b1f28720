"""From rows and labels to a deformed kernel: the draw, the covariance, the deformation."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import ParameterError
from dssl.estimators.deformed import LapKernelRidge, LapSVC
from dssl.execution.in_process import InProcess
from dssl.graph.graph import Graph
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.regularizer import RegularizerParams
from dssl.graph.weights.build import weights
from dssl.graph.weights.rules import WeightsRaised
from dssl.kernels.base import RBF
from dssl.kernels.deformed import check_eta, check_share, deform, shuffled
from dssl.knn.search import neighbors
from dssl.learners.deformed import draw_landmarks
from dssl.learners.feature_maps import FeatureMapParams
from dssl.methods.deformed.covariance import CovarianceParams
from dssl.solvers.solver_params import SolverParams
from tests import reference
from tests.covariance import graph_covariance


@given(st.data())
def test_landmarks_are_the_labeled_points_and_others(data):
    n = data.draw(st.integers(1, 60))
    labeled = np.array(sorted(data.draw(st.sets(st.integers(0, n - 1)))), np.int64)
    size, random_state = data.draw(st.integers(1, 80)), data.draw(st.integers(0, 5))
    chosen = draw_landmarks(labeled, n, size, random_state)
    assert len(chosen) == min(size, n)
    assert len(set(chosen.tolist())) == len(chosen)
    assert set(chosen.tolist()) <= set(range(n))
    shared = set(chosen.tolist()) & set(labeled.tolist())
    assert len(shared) == min(size, len(labeled))
    assert_array_equal(draw_landmarks(labeled, n, size, random_state), chosen)


@given(st.data())
def test_landmarks_that_grow_keep_what_was_drawn(data):
    n_before = data.draw(st.integers(1, 40))
    n = n_before + data.draw(st.integers(0, 20))
    labeled, more = (np.array(sorted(data.draw(st.sets(st.integers(0, top - 1)))), np.int64) for top in (n_before, n))
    size, random_state = data.draw(st.integers(1, 60)), data.draw(st.integers(0, 5))
    before = draw_landmarks(labeled, n_before, size, random_state)
    more = np.union1d(labeled, more)
    chosen = draw_landmarks(more, n, size, random_state, before, n_before)
    assert len(set(chosen.tolist())) == len(chosen) == min(size, n)
    assert set(chosen.tolist()) <= set(range(n))
    if len(more) < size:
        assert_array_equal(chosen[:len(more)], more)
        drawn = chosen[len(more):]
        old = drawn[drawn < n_before]
        assert np.isin(old, before).all() or np.isin(np.setdiff1d(before, more), old).all()


def test_landmarks_that_grew_are_a_random_draw_again():
    """Each of 20 points without a label is among the 8 drawn as often as any other, whether it is new or old."""
    counts = np.zeros(24)
    for random_state in range(2000):
        before = draw_landmarks(np.arange(2), 18, 8, random_state)
        np.add.at(counts, draw_landmarks(np.arange(4), 24, 12, random_state, before, 18)[4:], 1)
    assert_array_equal(counts[:4], 0)
    assert_allclose(counts[4:], 2000 * 8 / 20, atol=5 * np.sqrt(2000 * 0.4 * 0.6))


def test_the_draw_depends_on_the_seed_and_has_a_size():
    labeled = np.array([3, 1])
    assert_array_equal(draw_landmarks(labeled, 50, 10, 0)[:2], [1, 3])
    assert set(draw_landmarks(labeled, 50, 10, 0).tolist()) != set(draw_landmarks(labeled, 50, 10, 1).tolist())
    with pytest.raises(ParameterError, match="n_landmarks=0"):
        FeatureMapParams(n_landmarks=0)


def covariance(X, labeled, params, **graph):
    knn = KNNGraph(**{"n_neighbors": 4, "weights": "binary", **graph})
    return graph_covariance(knn.build(X, InProcess(2)), np.asarray(labeled), params, InProcess(2))


@pytest.mark.parametrize("power", [1, 2, 3])
def test_the_covariance_is_the_inverse_regularizer_at_the_landmarks(power):
    X = np.random.default_rng(0).normal(size=(50, 3))
    params = CovarianceParams(regularizer=RegularizerParams(ridge=0.05, power=power), n_landmarks=12, random_state=2)
    found = covariance(X, [5, 9], params)
    L = reference.normalized_laplacian(reference.knn_weights(X, 5))
    inverse = np.linalg.inv(reference.regularizer(L, power, 0.05))
    assert {5, 9} < set(found.landmarks.tolist())
    assert_allclose(found.powers[power], inverse[np.ix_(found.landmarks, found.landmarks)], rtol=1e-5, atol=1e-8)


def test_eta_is_relative_to_the_covariance():
    """The kernel does not change when A is multiplied by a number: it says how points relate, not how much."""
    rng = np.random.default_rng(0)
    X, new = rng.normal(size=(8, 2)), rng.normal(size=(5, 2))
    A = np.cov(rng.normal(size=(8, 30)))
    first, second = (deform(RBF(1.0), X, scale * A, 3.0)(new, X) for scale in (1.0, 1e6))
    assert_allclose(second, first, rtol=1e-9, atol=1e-12)
    Q = np.linalg.inv(A)
    K, K_new = reference.rbf(X, X, 1.0), reference.rbf(new, X, 1.0)
    assert_allclose(first, reference.deformed(K, 3.0 * np.trace(A) / 8, Q, K_new.T, K, K_new), atol=1e-9)
    assert_array_equal(deform(RBF(1.0), X, A, 0.0)(new, X), RBF(1.0)(new, X))


def test_a_shuffled_covariance_is_the_same_graph_at_other_points():
    A = np.cov(np.random.default_rng(0).normal(size=(8, 30)))
    other = shuffled(A, 0)
    assert not np.allclose(other, A)
    assert_allclose(np.linalg.eigvalsh(other), np.linalg.eigvalsh(A), rtol=1e-10)
    assert_allclose(np.sort(np.diagonal(other)), np.sort(np.diagonal(A)))
    assert_array_equal(other, shuffled(A, 0))


# Equal rows


def copied(v=30, random_state=0, max_multiplicity=5):
    """Return (X (n, 2), the point of each row): v distinct points in 1 to `most` copies, shuffled."""
    rng = np.random.default_rng(random_state)
    which = rng.permutation(np.repeat(np.arange(v), rng.integers(1, max_multiplicity + 1, size=v)))
    return rng.normal(size=(v, 2))[which], which


def exact_params(**changes):
    return CovarianceParams(**{"regularizer": RegularizerParams(ridge=0.05, power=2), "n_landmarks": 1000,
                                "solver": SolverParams(tol=1e-11), **changes})


@pytest.mark.parametrize("laplacian", ["normalized", "unnormalized"])
@pytest.mark.parametrize("power", [1, 2, 3])
def test_the_covariance_of_copies_is_that_of_the_point_graph(laplacian, power):
    X, which = copied()
    params = exact_params(regularizer=RegularizerParams(ridge=0.05, power=power, laplacian=laplacian))
    labeled = np.array([40, 3, 17])
    found = covariance(X, labeled, params)
    assert set(labeled) <= set(found.landmarks.tolist())
    assert len({tuple(row) for row in X[found.landmarks]}) == len(found.landmarks) == 30
    P = np.eye(30)[which]
    points = np.stack([X[which == i][0] for i in range(30)])
    joined = P @ reference.knn_weights(points, 5) @ P.T
    L = (reference.normalized_laplacian if laplacian == "normalized" else reference.laplacian)(joined)
    Pi = P @ np.diag(1 / P.sum(axis=0)) @ P.T
    S = found.landmarks
    expected = reference.pseudo_inverse(Pi @ reference.regularizer(L, power, 0.05) @ Pi, 1e-12)[np.ix_(S, S)]
    assert_allclose(found.powers[power], expected, rtol=1e-5, atol=1e-9)
    assert found.attributes["vertices"]["count"] == 30
    assert found.attributes["neighbors"]["n"] == 30


@given(random_state=st.integers(0, 50))
@settings(max_examples=8, deadline=None)
def test_the_order_of_rows_and_which_copy_comes_first_do_not_matter(random_state):
    """All distinct points are measured, so that the draw does not depend on the order; values are compared by point."""
    X, which = copied(v=12, random_state=random_state)
    order = np.random.default_rng(random_state).permutation(len(X))
    found = []
    for rows in (np.arange(len(X)), order):
        labeled = np.flatnonzero(np.isin(rows, [0, 5]))
        A = covariance(X[rows], labeled, exact_params())
        by_point = np.argsort(which[rows][A.landmarks])
        found.append(A.powers[2][np.ix_(by_point, by_point)])
    assert_allclose(found[1], found[0], rtol=1e-8, atol=1e-12)


def test_rows_without_copies_have_the_same_bits_either_way():
    X = np.random.default_rng(1).normal(size=(120, 3))
    for kind in ("binary", "self_tuned"):
        collapsed, kept = (covariance(X, [5, 9], exact_params(n_landmarks=20), duplicates=how, weights=kind)
                           for how in ("collapse", "keep"))
        assert_array_equal(collapsed.landmarks, kept.landmarks)
        assert_array_equal(collapsed.powers[2], kept.powers[2])


def test_copies_make_components_only_where_they_are_kept():
    """Twenty points in six copies each, with five neighbors a row."""
    X = np.repeat(np.random.default_rng(2).normal(size=(20, 2)), 6, axis=0)
    y = np.full(120, -1)
    y[[0, 6]] = [0, 1]
    counts = {how: LapSVC(graph=KNNGraph(n_neighbors=5, duplicates=how)).fit(X, y).evidence_["components"]["count"]
               for how in ("collapse", "keep")}
    assert counts == {"collapse": 1, "keep": 20}
    assert LapSVC(graph=KNNGraph(n_neighbors=5)).fit(X, y).evidence_["unreachable"]["count"] == 0


def test_labels_on_copies_are_all_seen():
    X, which = copied(random_state=3)
    targets = np.full(len(X), np.nan)
    most_frequent = int(np.bincount(which).argmax())
    rows = np.flatnonzero(which == most_frequent)
    targets[rows[:2]] = [1.0, 3.0]
    targets[which == (most_frequent + 1) % 30] = -1.0
    model = LapKernelRidge(graph=KNNGraph(n_neighbors=4), C=1e6).fit(X, targets)
    assert model.predict(X[rows[:1]])[0] == pytest.approx(2.0, abs=1e-2)  # between the two labels of one point


# A given graph


def test_a_given_graph_is_the_one_that_is_made():
    X = np.random.default_rng(4).normal(size=(90, 3))
    labeled, params = np.array([5, 9]), exact_params(n_landmarks=15)
    expected = covariance(X, labeled, params)
    lists = neighbors(X, 4)
    arrays = lists.to_arrays()
    for graph in (weights(lists, "binary"), sp.coo_matrix(weights(lists, "binary")), lists,
                  (arrays["ids"], arrays["distances"])):
        found = graph_covariance(Graph.of(graph, weights="binary"), labeled, params, InProcess(2))
        assert_array_equal(found.landmarks, expected.landmarks)
        assert_array_equal(found.powers[2], expected.powers[2])
    assert found.attributes["neighbors"] == {"method": "given", "n_neighbors": 4, "n": 90, "entries": 360}
    y = np.full(90, -1)
    y[[5, 9]] = [0, 1]
    made = LapSVC(graph=KNNGraph(n_neighbors=4)).fit(X, y)
    with_graph = LapSVC(graph=KNNGraph(n_neighbors=20)).fit(X, y, graph=lists)
    assert_array_equal(with_graph.decision_function(X), made.decision_function(X))


def test_rows_are_not_joined_in_a_given_graph():
    """It says of each row which others it has; here two copies have different neighbors."""
    W = sp.csr_array(np.array([[0, 0, 1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, 1, 0, 0.0]]))
    found = graph_covariance(Graph.of(W), np.array([0]), exact_params(), InProcess(1))
    assert found.attributes["components"]["count"] == 2
    assert found.attributes["unreachable"] == {"count": 2, "ids": [1, 3], "components": 1}


def test_weights_that_vanish_warn_and_a_bandwidth_that_leaves_none_is_refused():
    X = np.concatenate([np.random.default_rng(5).normal(size=(200, 2)), [[1e3, 1e3], [-1e3, 2e3]]])
    with pytest.warns(WeightsRaised, match="of 808 weights were below"):
        found = covariance(X, [0], exact_params(), weights="heat")
    assert found.attributes["weights"]["raised"] > 0
    assert np.isfinite(found.powers[2]).all()
    with pytest.raises(ParameterError, match="the median weight is exp"):
        covariance(X, [0], exact_params(), weights="heat", bandwidth=1e-5)


def test_a_kernel_of_which_the_graph_left_nothing_is_refused():
    X = np.arange(6.0)[:, None]
    base = RBF(1.0)
    diagonal = np.diagonal(base(X, X))
    check_share(diagonal, base, X, 10.0)
    check_share(2e-9 * diagonal, base, X, 10.0)
    with pytest.raises(ParameterError, match="eta=10 leaves 5e-10 of the base kernel"):
        check_share(5e-10 * diagonal, base, X, 10.0)


@pytest.mark.parametrize("eta", ["a", None, -1, 1.1e8, float("nan"), True, [1]])
def test_an_eta_that_is_no_weight_is_refused(eta):
    with pytest.raises(ParameterError, match=r"expected 0 to 1e\+08"):
        check_eta(eta)


@pytest.mark.parametrize("power", [1, 2, 3])
def test_off_the_landmarks_the_function_is_the_one_of_least_energy(power):
    """Theorem 3.2: of all functions with the same values on S, `Q^-1_.S (Q^-1_SS)^-1 h_S` has the least h'Qh."""
    X = np.random.default_rng(0).normal(size=(50, 3))
    params = CovarianceParams(regularizer=RegularizerParams(ridge=0.05, power=power), n_landmarks=12, random_state=2,
                               solver=SolverParams(tol=1e-10))
    found = covariance(X, [5, 9], params)
    values = np.random.default_rng(1).normal(size=(12, 2))
    h = found.minimum_energy(values, power, InProcess(2))
    assert_array_equal(h[found.landmarks], values)
    Q = reference.regularizer(reference.normalized_laplacian(reference.knn_weights(X, 5)), power, 0.05)
    others = np.setdiff1d(np.arange(50), found.landmarks)
    expected = np.linalg.solve(Q[np.ix_(others, others)], -Q[np.ix_(others, found.landmarks)] @ values)
    assert_allclose(h[others], expected, rtol=1e-5, atol=1e-7)

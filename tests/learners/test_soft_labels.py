"""What another model says: the pool, its weights, similarities with class vectors, and smoothing on a graph."""

import numpy as np
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose

from dssl.base.errors import DataError
from dssl.learners.on_graph.pooled import STOP, smooth
from dssl.learners.soft_labels import (
    PENALTY,
    RATE,
    SoftLabels,
    Weights,
    class_similarities,
    cross_fitted_pool,
    log_odds,
    pool,
    pool_weights,
    require_soft_labels,
    similarity_probabilities,
)
from dssl.learners.target.target import Classes, Quantities
from dssl.solvers.solver_params import SolverParams

from .. import reference


def probabilities(rng, n, c):
    P = rng.gamma(1.0, size=(n, c))
    return P / P.sum(axis=1, keepdims=True)


def classes(codes, c):
    return Classes(np.arange(len(codes)), np.asarray(codes), np.arange(c))


def test_smoothing_is_the_mean_at_the_end_of_a_random_walk():
    rng = np.random.default_rng(0)
    W = np.triu(rng.random((12, 12)) * (rng.random((12, 12)) < 0.4), 1)
    W[:, 5] = W[5] = 0  # isolated
    W = W + W.T
    P = probabilities(rng, 12, 3)
    smoothed = smooth(sp.csr_array(W), P, SolverParams(tol=1e-12))
    assert_allclose(smoothed, reference.random_walk_smoothed(W, P, STOP), rtol=1e-8, atol=1e-10)
    assert_allclose(smoothed.sum(axis=1), 1)


def test_the_pool_of_classes_is_the_normalized_product_of_powers():
    rng = np.random.default_rng(1)
    own, first, second = (probabilities(rng, 7, 4) for _ in range(3))
    logs = pool(classes([0], 4), Weights(0.7, np.array([0.5, 2.0])), np.log(own), np.log([first, second]))
    assert_allclose(np.exp(logs), reference.logarithmic_pool(own, [first, second], 0.7, [0.5, 2.0]))


def test_weights_of_classes_have_the_highest_posterior_probability():
    rng = np.random.default_rng(2)
    codes = rng.integers(0, 3, 60)
    own, other = (log_odds(0.5 * probabilities(rng, 60, 3) + 0.5 * np.eye(3)[codes]) for _ in range(2))
    found = pool_weights(classes(codes, 3), own, other[None], None)

    def posterior(a, b):
        P = reference.logarithmic_pool(np.exp(own), [np.exp(other)], a, [b])
        return np.log(P[np.arange(60), codes]).sum() - np.log(a)**2 / (2 * 0.5**2) - RATE * b - b**2 / (2 * 3.0**2)

    best = posterior(found.learner, found.others[0])
    assert found.others[0] > 0
    assert all(posterior(found.learner * (1 + da), max(found.others[0] + db, 0.0)) <= best + 1e-6
               for da in (-0.1, 0, 0.1) for db in (-0.1, 0, 0.1))


def test_weights_of_quantities_have_the_least_penalized_squares():
    rng = np.random.default_rng(3)
    Y = rng.normal(size=(40, 1))
    target = Quantities(np.arange(40), Y[:, 0])
    own, first, second = (Y + scale * rng.normal(size=Y.shape) for scale in (1.0, 0.6, 0.8))
    found = pool_weights(target, own, np.array([first, second]), None)
    unit = min(float(((Y - each)**2).sum()) for each in (own, first, second)) / 40

    def loss(b):
        return float(((own + b[0] * (first - own) + b[1] * (second - own) - Y)**2).sum()) + PENALTY * unit * sum(b)

    assert_allclose(found.learner + found.others.sum(), 1)
    assert all(loss(found.others + step) >= loss(found.others) - 1e-9
               for step in rng.normal(scale=0.05, size=(50, 2)) if (found.others + step >= 0).all()
               and (found.others + step).sum() <= 1)


@pytest.mark.parametrize("kind", ["constant", "random", "harmful"])
def test_soft_labels_without_information_do_not_count(kind):
    rng = np.random.default_rng(4)
    codes = rng.integers(0, 3, 30)
    own = log_odds(0.3 * probabilities(rng, 30, 3) + 0.7 * np.eye(3)[codes])
    P = {"constant": np.full((30, 3), 1 / 3), "random": np.eye(3)[rng.integers(0, 3, 30)],
         "harmful": 0.1 + 0.7 * np.eye(3)[(codes + 1) % 3]}[kind]
    logs = log_odds(P)
    found = pool_weights(classes(codes, 3), own, logs[None] / (np.sqrt((logs**2).mean()) or 1.0), None)
    assert found.others[0] == 0


def test_cross_fitted_values_do_not_know_their_label():
    rng = np.random.default_rng(5)
    codes = rng.integers(0, 2, 20)
    own, other = log_odds(probabilities(rng, 20, 2)), log_odds(probabilities(rng, 20, 2))
    changed = codes.copy()
    changed[3] = 1 - changed[3]
    values, without = (cross_fitted_pool(classes(y, 2), own, other[None], None) for y in (codes, changed))
    assert_allclose(values[3], without[3])


def test_class_similarities_ignore_a_common_offset_of_the_class_vectors():
    rng = np.random.default_rng(6)
    X, vectors = rng.normal(size=(9, 4)), rng.normal(size=(3, 4))
    moved = vectors + 100 * rng.normal(size=4)
    plain, apart = (similarity_probabilities(class_similarities(X, each, X.mean(axis=0))) for each in (vectors, moved))
    assert_allclose(plain, apart, atol=1e-9)
    assert_allclose(plain.sum(axis=1), 1)


def test_soft_labels_of_a_fitted_model_at_its_labels_are_those_without_them():
    values = np.arange(8.0).reshape(4, 2)
    labeled = np.array([1, 3])
    soft = SoftLabels(values, [(np.array([1]), -values)])
    assert np.isnan(soft.at_labels(labeled)[0]).all()
    assert_allclose(soft.at_labels(labeled)[1], -values[3])
    assert_allclose(SoftLabels(values).at_labels(labeled), values[labeled])


@pytest.mark.parametrize(("change", "message"), [
    (lambda P: P[:-1], r"shape \(4, 2\) for 5 points"),
    (lambda P: np.hstack([P, P]), r"shape \(5, 4\)"),
    (lambda P: np.where(np.arange(5)[:, None] == 2, np.nan, P), "1 rows that are not finite, first row"),
    (lambda P: P * 1.1, "5 rows that are no probabilities"),
    (lambda P: P + np.array([1.0, -1.0]), "5 rows that are no probabilities"),
])
def test_invalid_soft_labels_are_refused(change, message):
    P = np.full((5, 2), 0.5)
    with pytest.raises(DataError, match=message):
        require_soft_labels(change(P), 5, np.array(["a", "b"]))

"""Learners on a Gram matrix, against scikit-learn's and against the formulas."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from dssl.base.errors import DataError, ParameterError
from dssl.kernels.base import RBF, Polynomial
from dssl.learners.linear.gram import (
    LearnerParams,
    fit_gram,
    mean_diagonal,
    ridge,
    ridge_inverse,
    ridge_with_held_out,
)
from dssl.learners.linear.kernel_model import KernelModel
from dssl.learners.target.coding import OneVsOne, OneVsRest, class_pairs
from dssl.learners.target.target import Classes, Quantities
from tests import reference

CLASSES = np.array(["a", "b", "c", "d"])


def overlapping(n=60, n_classes=4, random_state=0):
    X, codes = make_blobs(n, n_features=2, centers=n_classes, cluster_std=4.0, random_state=random_state)
    return X, codes


def fit_labels(K, codes, n_classes, params, weight=None):
    return fit_gram(K, Classes(np.arange(len(codes)), codes, CLASSES[:n_classes]), params, weight)


def fit_values(K, Y, params, weight=None):
    return fit_gram(K, Quantities(np.arange(len(Y)), Y), params, weight)[:2]


def fitted(X, codes, params, bandwidth=3.0):
    kernel = RBF(bandwidth)
    return KernelModel(kernel, X, *fit_labels(kernel(X, X), codes, int(codes.max()) + 1, params))


@pytest.mark.parametrize("n_classes", [2, 3, 4])
@pytest.mark.parametrize("random_state", [0, 1])
def test_svm_predicts_as_scikit_learn_with_break_ties(n_classes, random_state):
    X, codes = overlapping(n_classes=n_classes, random_state=random_state)
    new = np.random.default_rng(random_state).uniform(-15, 15, (500, 2))
    model = fitted(X, codes, LearnerParams(C=2.0))
    machine = SVC(C=2.0, gamma=1 / (2 * 3.0**2), break_ties=n_classes > 2, decision_function_shape="ovr", tol=1e-6)
    machine.fit(X, codes)
    scores = model.coding.scores(model.values(new))
    agree = model.predict(new) == CLASSES[machine.predict(new)]
    # Where two scores are equal to the tolerance of the solvers, either class may win.
    close = np.sort(scores, axis=1)[:, -1] - np.sort(scores, axis=1)[:, -2] < 1e-4
    assert (agree | close).all()
    assert close.mean() < 0.02
    if n_classes > 2:
        assert_allclose(scores[~close], machine.decision_function(new)[~close], atol=2e-3)
    else:
        assert_allclose(-model.values(new)[:, 0], machine.decision_function(new), atol=2e-4)


def test_svm_is_the_dual_of_the_hinge_loss():
    X, codes = overlapping(n=24, n_classes=2)
    K = RBF(3.0)(X, X)
    coef, intercept, coding = fit_labels(K, codes, 2, LearnerParams(C=1.5))
    expected, bias = reference.svm(K, np.where(codes == 0, 1.0, -1.0), 1.5)  # positive for the first class
    assert isinstance(coding, OneVsOne)
    assert_allclose(coef[:, 0], expected, atol=1e-4)
    assert_allclose(intercept, bias, atol=1e-4)


def test_ridge_is_scikit_learns_on_centered_targets():
    X, codes = overlapping(n_classes=3)
    K = RBF(3.0)(X, X)
    targets = np.where(codes[:, None] == np.arange(3), 1.0, -1.0)
    machine = KernelRidge(alpha=1 / 5.0, kernel="precomputed").fit(K, targets - targets.mean(0))
    coef, intercept, coding = fit_labels(K, codes, 3, LearnerParams(kind="ridge", C=5.0))
    assert isinstance(coding, OneVsRest)
    assert_allclose(coef, machine.dual_coef_, rtol=1e-9, atol=1e-12)
    assert_array_equal(intercept, targets.mean(0))
    model = KernelModel(RBF(3.0), X, coef, intercept, coding)
    assert_array_equal(model.predict(X), CLASSES[np.argmax(machine.predict(K) + targets.mean(0), axis=1)])


def test_ridge_values_minimize_the_squared_loss():
    X, y = overlapping(n=20, n_classes=2)[0], np.random.default_rng(0).normal(size=20)
    K = RBF(3.0)(X, X)
    coef, intercept = fit_values(K, y[:, None], LearnerParams(kind="ridge", C=4.0))
    expected = reference.ridge(K, y - y.mean(), np.ones(20, bool), 1 / (4.0 * 20)) + y.mean()
    assert_allclose(K @ coef[:, 0] + intercept[0], expected, rtol=1e-10)


@pytest.mark.parametrize("kind", ["svm", "ridge"])
@pytest.mark.parametrize("scale", [1e-8, 7.0, 1e8])
def test_the_scale_of_the_kernel_does_not_count(kind, scale):
    X, codes = overlapping()
    K, params = RBF(3.0)(X, X), LearnerParams(kind=kind, C=3.0)
    coef, intercept, _ = fit_labels(K, codes, 4, params)
    scaled_coef, scaled_intercept, _ = fit_labels(scale * K, codes, 4, params)
    assert_allclose(scale * K @ scaled_coef + scaled_intercept, K @ coef + intercept, atol=1e-4)


@pytest.mark.parametrize("kind", ["svm", "ridge"])
def test_a_class_with_one_point(kind):
    X = np.array([[0.0, 0], [0.1, 0], [5, 5], [9, 0]])
    model = fitted(X, np.array([0, 0, 1, 2]), LearnerParams(kind=kind))
    assert_array_equal(model.predict(X), CLASSES[[0, 0, 1, 2]])


@pytest.mark.parametrize("kind", ["svm", "ridge"])
@pytest.mark.parametrize(("codes", "n_classes", "message"), [
    ([0, 0, 0], 1, "1 of 1 classes have labeled points"), ([0, 0, 0], 2, "1 of 2 classes"),
    ([0, 2, 2], 3, "2 of 3 classes"), ([], 2, "0 of 2 classes"),
])
def test_a_class_without_a_point_is_an_error(kind, codes, n_classes, message):
    with pytest.raises(DataError, match=message):
        fit_labels(np.eye(len(codes)), np.array(codes, int), n_classes, LearnerParams(kind=kind))


@pytest.mark.parametrize("kind", ["svm", "ridge"])
def test_a_gram_matrix_must_be_finite_and_positive(kind):
    codes, params = np.array([0, 1, 1]), LearnerParams(kind=kind)
    with pytest.raises(DataError, match="is not finite"):
        fit_labels(np.full((3, 3), np.nan), codes, 2, params)
    with pytest.raises(ParameterError, match="mean diagonal 0"):
        fit_labels(np.zeros((3, 3)), codes, 2, params)


def test_ridge_refuses_a_matrix_with_a_negative_eigenvalue():
    K = np.array([[1.0, 3.0], [3.0, 1.0]])
    with pytest.raises(DataError, match="not positive definite"):
        fit_labels(K, np.array([0, 1]), 2, LearnerParams(kind="ridge", C=10.0))


@pytest.mark.parametrize(("fields", "message"), [
    ({"C": 0.0}, "C=0.0"), ({"C": -1.0}, "C=-1.0"), ({"C": np.inf}, "C=inf"), ({"C": np.nan}, "C=nan"),
    ({"kind": "tree"}, "kind='tree'"),
])
def test_parameters_are_checked_when_they_are_made(fields, message):
    with pytest.raises(ParameterError, match=message):
        LearnerParams(**fields)


def test_pairs_and_scale():
    assert class_pairs(3) == [(0, 1), (0, 2), (1, 2)]
    assert class_pairs(1) == []
    assert mean_diagonal(np.diag([1.0, 3.0])) == 2.0


# Weights


@given(st.integers(0, 2**16))
def test_a_ridge_weight_of_two_is_the_point_twice(random_state):
    """A theorem: the squared loss of two equal points is twice that of one, and so are mean and scale."""
    rng = np.random.default_rng(random_state)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=(12, 2))
    counts = rng.integers(1, 4, 12)
    again = np.repeat(np.arange(12), counts)
    K = Polynomial(2, 1.0, 1.0)(X, X)  # its diagonal is not constant
    params = LearnerParams(kind="ridge", C=3.0)
    coef, intercept = fit_values(K, y, params, counts.astype(float))
    all_coef, all_intercept = fit_values(K[np.ix_(again, again)], y[again], params)
    assert_allclose(K @ coef + intercept, K[:, again] @ all_coef + all_intercept, rtol=1e-7, atol=1e-9)
    assert_allclose(coef, np.stack([all_coef[again == i].sum(axis=0) for i in range(12)]), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_an_svm_weight_of_two_is_the_point_twice(n_classes):
    X, codes = overlapping(n=40, n_classes=n_classes)
    counts = np.random.default_rng(0).integers(1, 4, 40)
    again = np.repeat(np.arange(40), counts)
    K, params = RBF(3.0)(X, X) * np.linspace(1, 2, 40) * np.linspace(1, 2, 40)[:, None], LearnerParams(C=0.5)
    coef, intercept, _ = fit_labels(K, codes, n_classes, params, counts)
    all_coef, all_intercept, _ = fit_labels(K[np.ix_(again, again)], codes[again], n_classes, params)
    assert_allclose(K @ coef + intercept, K[:, again] @ all_coef + all_intercept, atol=2e-4)


def test_svm_with_weights_is_scikit_learns():
    X, codes = overlapping(n=50, n_classes=2)
    weight = np.random.default_rng(0).uniform(0.1, 3, 50)
    K = RBF(3.0)(X, X)
    coef, intercept, _ = fit_labels(K, codes, 2, LearnerParams(C=2.0), weight)
    machine = SVC(C=2.0, kernel="precomputed", tol=1e-6).fit(K, codes, weight)
    assert_allclose(-(K @ coef[:, 0] + intercept), machine.decision_function(K), atol=2e-4)


def test_ridge_with_weights_minimizes_the_weighted_loss():
    """The gradient of C sum w (f - y)^2 + |f|^2, halved, is zero."""
    X, y = overlapping(n=20, n_classes=2)[0], np.random.default_rng(0).normal(size=20)
    weight = np.random.default_rng(1).uniform(0.1, 3, 20)
    K = RBF(3.0)(X, X)
    coef, intercept = fit_values(K, y[:, None], LearnerParams(kind="ridge", C=4.0), weight)
    gradient = K @ (4.0 * weight * (K @ coef[:, 0] + intercept - y) + coef[:, 0])
    assert_allclose(gradient, 0, atol=1e-10)
    assert_allclose(intercept, (weight * y).sum() / weight.sum())


@pytest.mark.parametrize("kind", ["svm", "ridge"])
def test_weights_of_one_give_the_bits_of_no_weights(kind):
    X, codes = overlapping(n_classes=3)
    K, params = Polynomial(2, 0.1, 1.0)(X, X), LearnerParams(kind=kind)
    for weight in (np.ones(60), np.ones(60, int)):
        for found, expected in zip(fit_labels(K, codes, 3, params, weight)[:2],
                                   fit_labels(K, codes, 3, params)[:2], strict=True):
            assert_array_equal(found, expected)


def test_a_free_intercept_is_that_of_least_squares_and_norm():
    """Suykens and Vandewalle 1999: [[0, 1'], [1, K + I / C]] (b, alpha) = (0, y)."""
    rng = np.random.default_rng(0)
    root = rng.normal(size=(9, 9))
    K, Y, weight = root @ root.T, rng.normal(size=(9, 2)), rng.uniform(0.5, 2, 9)
    scale = np.average(np.diagonal(K), weights=weight)
    system = np.block([[np.zeros((1, 1)), np.ones((1, 9))], [np.ones((9, 1)), K / scale + np.diag(1 / (3 * weight))]])
    expected = np.linalg.solve(system, np.vstack([np.zeros((1, 2)), Y]))
    coef, intercept = ridge(K, Y, 3.0, weight, unpenalized_intercept=1.0)
    assert_allclose(intercept, expected[0])
    assert_allclose(coef * scale, expected[1:])
    assert_allclose(ridge(K, Y, 3.0, weight, unpenalized_intercept=0.25)[1],
                    0.25 * expected[0] + 0.75 * ridge(K, Y, 3.0, weight)[1])


@pytest.mark.parametrize("weighted", [False, True])
def test_the_inverse_of_a_ridge_regression(weighted):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(12, 4))
    K, weight = root @ root.T, rng.uniform(0.5, 2, 12) if weighted else None
    expected = np.linalg.inv(K + np.diag(np.full(12, 0.25) / (1 if weight is None else weight)))
    inverse = ridge_inverse(K.copy(), 4.0, weight)
    assert_allclose(inverse, expected, atol=1e-12)
    assert_array_equal(inverse, inverse.T)
    with pytest.raises(DataError, match="not positive definite"):
        ridge_inverse(-K, 4.0, weight)


@pytest.mark.parametrize("unpenalized", [0.0, 0.4])
@pytest.mark.parametrize("weighted", [False, True])
def test_a_fold_is_held_out_of_the_factor_of_the_fit(weighted, unpenalized):
    rng = np.random.default_rng(0)
    root = rng.normal(size=(15, 20))
    K, Y, fold = root @ root.T, rng.normal(size=(15, 2)), np.array([2, 5, 11])
    weight = rng.uniform(0.5, 2, 15) if weighted else None
    coef, intercept, held_out = ridge_with_held_out(K, Y, fold, 3.0, weight, unpenalized)
    expected = ridge(K, Y, 3.0, weight, unpenalized)
    assert_allclose(coef, expected[0], atol=1e-10)
    assert_allclose(intercept, expected[1], atol=1e-10)
    train = np.setdiff1d(np.arange(15), fold)
    # The penalty is that of all points: of fewer, the mean diagonal differs.
    part, of_train = K[np.ix_(train, train)], None if weight is None else weight[train]
    C = 3.0 * mean_diagonal(part, of_train) / mean_diagonal(K, weight)
    refit, its_intercept = ridge(part, Y[train], C, of_train, unpenalized)
    assert_allclose(held_out, K[np.ix_(fold, train)] @ refit + its_intercept, atol=1e-10)

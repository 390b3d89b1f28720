"""Held-out values from one training against refits without each fold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, StratifiedKFold

from dssl.errors import DataError, ParameterError
from dssl.kernels.base import RBF
from dssl.learners.closed_form import held_out_of_gram, held_out_ridge, held_out_ridge_of_features, kept_means
from dssl.learners.ridge_and_svm import LearnerParams
from dssl.learners.target import Classes, Quantities
from dssl.selection.folds import held_out, held_out_folds, labeled_folds

EXACT = 1e-9  # of the largest value


def refits(N, Y, folds, penalty, weight=None, centered=True):
    """Return the values (m, c) of ridge regression fitted anew without each fold."""
    weight = np.ones(len(Y)) if weight is None else weight
    found = np.full(Y.shape, np.nan)
    for fold, own in zip(folds, penalty, strict=True):
        kept = np.setdiff1d(np.arange(len(Y)), fold)
        mean = np.average(Y[kept], axis=0, weights=weight[kept]) if centered else np.zeros(Y.shape[1])
        beta = np.linalg.solve(N[np.ix_(kept, kept)] + own * np.diag(1 / weight[kept]), Y[kept] - mean)
        found[fold] = N[np.ix_(fold, kept)] @ beta + mean
    return found


def assert_exact(found, expected, share=EXACT):
    assert_allclose(found, expected, rtol=0, atol=share * np.nanmax(np.abs(expected)))


def features(m, r, c=2, seed=0):
    """Return Phi (m, r), targets (m, c) far from 0, and weights (m,)."""
    rng = np.random.default_rng([seed, m, r])
    return rng.normal(size=(m, r)), rng.normal(size=(m, c)) + 5, rng.uniform(0.2, 4, m)


def dealt(m, n_folds, seed=0, left_out=0):
    """Return folds of unequal sizes; some points are in none."""
    rng = np.random.default_rng(seed)
    number = rng.integers(0, n_folds, m)
    number[rng.choice(m, left_out, replace=False)] = n_folds
    return [np.flatnonzero(number == fold) for fold in range(n_folds)]


# Plain ridge


@pytest.mark.parametrize("centered", [True, False])
@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("penalties", ["one", "two", "of each fold", "a grid"])
@pytest.mark.parametrize(("m", "r"), [(40, 60), (60, 12), (30, 30)])
def test_held_out_values_are_those_of_refits(m, r, penalties, weighted, centered):
    """Folds of unequal sizes, one of which may hold more points than there are features; some points are in none."""
    Phi, Y, weight = features(m, r)
    weight = weight if weighted else None
    folds = dealt(m, 5, left_out=4)
    folds = [np.concatenate(folds[:2]), *folds[2:]] if m == 60 else folds
    assert m != 60 or len(folds[0]) > r
    F = len(folds)
    penalty = {"one": np.full(F, 0.7), "two": np.where(np.arange(F) % 2, 0.3, 2.0), "of each fold": 0.1 + np.arange(F),
               "a grid": np.logspace(-2, 2, 30)[:, None] * (1 + np.arange(F))}[penalties]
    N = Phi @ Phi.T
    for found in (held_out_ridge(N, Y, folds, penalty, weight, centered),
                  held_out_ridge_of_features(Phi, Y, folds, penalty, weight, centered)):
        assert found.shape == (*penalty.shape[:-1], m, 2)
        for own, lambdas in zip(found.reshape(-1, m, 2), penalty.reshape(-1, F), strict=True):
            assert_exact(own, refits(N, Y, folds, lambdas, weight, centered))


@pytest.mark.parametrize(("splitter", "n"), [
    (LeaveOneOut(), 30), (KFold(4), 4), (StratifiedKFold(3), 3), (5, 5)])
@pytest.mark.parametrize("r", [50, 6])
def test_folds_of_any_splitter(splitter, n, r):
    Phi, Y, weight = features(30, r)
    target = Classes(np.arange(30), np.arange(30) % 2, np.array(["a", "b"]))
    folds = held_out_folds(splitter, target)
    assert len(folds) == n
    for own in (weight, None):
        assert_exact(held_out_ridge_of_features(Phi, Y, folds, np.full(n, 0.5), own),
                     refits(Phi @ Phi.T, Y, folds, np.full(n, 0.5), own))


def test_groups_are_held_out_whole():
    Phi, Y, _ = features(30, 8)
    groups = np.random.default_rng(0).integers(0, 7, 30)
    folds = [test for _, test in GroupKFold(4).split(Phi, Y, groups)]
    assert all(not set(groups[fold]) & set(np.delete(groups, fold)) for fold in folds)
    assert_exact(held_out_ridge_of_features(Phi, Y, folds, np.full(4, 0.5)),
                 refits(Phi @ Phi.T, Y, folds, np.full(4, 0.5)))


def test_leave_one_out_with_a_penalty_for_each_point():
    """As it is where the penalty is against the mean loss and labels have weights."""
    for r in (40, 5):
        Phi, Y, weight = features(25, r)
        folds, penalty = [np.array([i]) for i in range(25)], 0.01 * (weight.sum() - weight)
        assert_exact(held_out_ridge_of_features(Phi, Y, folds, penalty, weight),
                     refits(Phi @ Phi.T, Y, folds, penalty, weight))


@given(m=st.integers(4, 30), r=st.integers(1, 30), n_folds=st.integers(2, 8), seed=st.integers(0, 2**20),
       size=st.sampled_from([1e-6, 1.0, 1e6]), weighted=st.booleans(), centered=st.booleans())
def test_the_size_of_weights_and_penalties_changes_nothing(m, r, n_folds, seed, size, weighted, centered):
    """The same points with all weights, and the penalties with them, times a number are the same function."""
    Phi, Y, weight = features(m, r, seed=seed)
    weight = weight if weighted else np.ones(m)
    folds = [fold for fold in dealt(m, n_folds, seed, left_out=1) if len(fold)]
    if not folds:
        return
    penalty = np.random.default_rng(seed).choice([0.3, 1.0], len(folds))
    found = held_out_ridge_of_features(Phi, Y, folds, size * penalty, size * weight, centered)
    assert_exact(found, refits(Phi @ Phi.T, Y, folds, penalty, weight, centered))
    assert (np.isfinite(found).all(axis=1) == np.isin(np.arange(m), np.concatenate(folds))).all()


def test_weights_that_differ_by_orders_of_magnitude():
    Phi, Y, _ = features(24, 40)
    weight = np.logspace(-6, 6, 24)
    folds = dealt(24, 4)
    assert_exact(held_out_ridge(Phi @ Phi.T, Y, folds, np.full(4, 3.0), weight),
                 refits(Phi @ Phi.T, Y, folds, np.full(4, 3.0), weight), 1e-7)
    assert_exact(kept_means(Y, folds, weight), [np.average(
        np.delete(Y, fold, axis=0), axis=0, weights=np.delete(weight, fold)) for fold in folds], 1e-14)


@pytest.mark.parametrize(("penalty", "share"), [(1e-3, EXACT), (1e-8, 1e-6), (1e-17, 1.0)])
def test_kernels_that_are_nearly_singular(penalty, share):
    """A wide RBF kernel of points that come twice; where the penalty is below rounding values are numbers still."""
    X = np.repeat(np.random.default_rng(0).normal(size=(15, 2)), 2, axis=0)
    N, Y = RBF(5.0)(X, X), np.column_stack([np.sin(X[:, 0]), X[:, 1]])
    folds = [np.arange(start, start + 6) for start in range(0, 30, 6)]
    found = held_out_ridge(N, Y, folds, np.full(5, penalty))
    assert_exact(found, refits(N, Y, folds, np.full(5, max(penalty, 1e-12))), share)
    assert np.isfinite(found).all()


def test_a_fold_that_alone_determines_a_direction_is_fitted_anew():
    """1 - leverage is 1e-10 there, of which the primal form would have lost ten digits."""
    Phi, Y, _ = features(40, 6)
    Phi[:8, 5], Phi[8:, 5] = 1e3, 0
    folds = [np.arange(start, start + 4) for start in range(0, 40, 4)]
    folds = [np.arange(8), *folds[2:]]
    penalty = np.full(len(folds), 1e-3)
    assert_exact(held_out_ridge_of_features(Phi, Y, folds, penalty), refits(Phi @ Phi.T, Y, folds, penalty), 1e-7)


def test_negative_kernels_are_refused():
    N = np.diag(np.append(np.ones(9), -1.0))
    for count in (1, 40):
        with pytest.raises(DataError, match="not positive definite"):
            held_out_ridge(N, np.ones((10, 1)), [np.arange(5), np.arange(5, 10)], np.full((count, 2), 0.5)
                           * np.linspace(0.5, 1, count)[:, None])


# Ridge on a Gram matrix, as `LapKernelRidge` fits it


@pytest.mark.parametrize("weighted", [True, False])
@pytest.mark.parametrize("kind", ["classes", "quantities"])
def test_ridge_on_a_gram_matrix_for_every_C(kind, weighted):
    """The scale is the mean diagonal of the kept points, so that each fold has its own penalty."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 3))
    K = RBF(1.5)(X, X) * np.outer(1 + X[:, 0] ** 2, 1 + X[:, 0] ** 2)
    target = (Classes(np.arange(40), np.arange(40) % 3, np.array(["a", "b", "c"])) if kind == "classes" else
              Quantities(np.arange(40), np.column_stack([X[:, 0], X[:, 1] ** 2]) + 3))
    weight = rng.uniform(0.5, 3, 40) if weighted else None
    folds, Cs = labeled_folds(target.strata(), 4, 0), [0.1, 1.0, 30.0, 1e4]
    found = held_out_of_gram(K, target, folds, Cs, weight)
    for C, values in zip(Cs, found, strict=True):
        expected, _ = held_out([K] * 4, target, folds, LearnerParams(kind="ridge", C=C), weight)
        assert_exact(values, expected)


def test_a_fold_without_which_a_class_has_no_label_is_refused():
    target = Classes(np.arange(6), np.array([0, 0, 0, 1, 1, 1]), np.array(["a", "b"]))
    with pytest.raises(DataError, match="1 of 2 classes"):
        held_out_of_gram(np.eye(6), target, [np.arange(3), np.arange(3, 6)], [1.0])
    with pytest.raises(ParameterError, match="mean diagonal 0"):
        held_out_of_gram(np.diag([1.0, 0, 0, 1, 0, 0]), target, [np.array([0, 3]), np.array([1, 4])], [1.0])

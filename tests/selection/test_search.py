"""Cross-validation in the deformed kernel: a fold is held out of the labels and of the landmarks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn.svm import SVC

from dssl.base.errors import ParameterError
from dssl.kernels.base import RBF
from dssl.kernels.deformed import AUTO, absolute_eta, landmark_deformation
from dssl.learners.class_prior import EQUAL, LABELS, ClassPrior
from dssl.learners.deformed import ETAS, block_of_gram, eta_shares
from dssl.learners.linear.gram import LearnerParams, fit_gram
from dssl.learners.metrics import HINGE
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.candidates import CandidateScores
from dssl.selection.folds import held_out, labeled_folds
from dssl.selection.held_out_scores import HeldOut
from dssl.selection.search import CrossValidation, GridParams, held_out_grams, search_base, search_deformed


def classes_of(codes):
    return Classes(np.arange(len(codes)), codes, np.unique(codes))


def problem(random_state, s=14, inside=6, outside=3):
    """Return S, the labeled points (some of them in S), their places, codes and a covariance on S."""
    rng = np.random.default_rng(random_state)
    X_S = rng.normal(size=(s, 2))
    X_l = np.vstack([X_S[:inside], rng.normal(size=(outside, 2))])
    position = np.concatenate([np.arange(inside), np.full(outside, -1)])
    root = rng.normal(size=(s, s))
    codes = np.arange(inside + outside) % 2
    return X_S, X_l, position, codes, root @ root.T + 0.1 * np.eye(s)


@given(st.integers(0, 2**20), st.sampled_from([0.3, 1.0, 30.0]))
def test_a_held_out_gram_is_the_kernel_deformed_at_the_landmarks_without_the_fold(random_state, eta):
    X_S, X_l, position, codes, A = problem(random_state)
    kernel = RBF(1.3)
    folds = labeled_folds(codes, 3, random_state)
    grams = held_out_grams(kernel(X_S, X_S), kernel(X_S, X_l), kernel(X_l, X_l), A, eta, position, folds)

    absolute = absolute_eta(A, eta)
    for K, fold in zip(grams, folds, strict=True):
        left = np.setdiff1d(np.arange(len(X_S)), position[fold])
        k = kernel(X_S[left], X_l)
        expected = kernel(X_l, X_l) - absolute * k.T @ np.linalg.solve(
            A[np.ix_(left, left)] + absolute * kernel(X_S[left], X_S[left]), k)
        assert_allclose(K, expected, atol=1e-8)


def test_cross_validation_counts_what_refits_get_wrong():
    _, X_l, _, codes, _ = problem(3, inside=12, outside=8)
    X_l = X_l + 1.2 * codes[:, None]
    folds = labeled_folds(codes, 4, 0)
    K = RBF(1.0)(X_l, X_l)
    target = classes_of(codes)
    values, coding = held_out([K] * len(folds), target, folds, LearnerParams(C=2.0))
    row = CandidateScores.of([HeldOut(target, coding, values, folds)], HINGE).to_json()

    wrong, hinge, by_fold = 0, 0.0, []
    for fold in folds:
        kept = np.setdiff1d(np.arange(len(codes)), fold)
        machine = SVC(kernel="precomputed", C=2.0, tol=1e-8).fit(K[np.ix_(kept, kept)], codes[kept])
        by_fold.append((machine.predict(K[np.ix_(fold, kept)]) != codes[fold]).mean())
        wrong += round(by_fold[-1] * len(fold))
        sign = np.where(codes[fold] == 1, 1, -1)
        hinge += np.maximum(0, 1 - sign * machine.decision_function(K[np.ix_(fold, kept)])).sum()
    assert row["error"] == wrong / len(codes)
    assert row["fold_errors"] == by_fold
    assert row["loss"] == pytest.approx(hinge / len(codes), rel=1e-3)


@pytest.mark.parametrize("kind", ["svm", "ridge"])
def test_the_loss_is_zero_beyond_the_margin_and_one_at_the_boundary(kind):
    codes = np.array([0, 1, 2])
    points = 10 * np.eye(3)
    K = points @ points.T
    coef, intercept, coding = fit_gram(K, classes_of(codes), LearnerParams(kind=kind, C=1e6))
    assert HINGE.of(coding, K @ coef + intercept, codes).max() < 1e-3
    assert HINGE.of(coding, np.zeros_like(coef), codes).tolist() == [1, 1, 1]


def test_the_grid_has_a_point_for_each_combination_and_the_base_kernel_none_of_the_graph():
    X_S, X_l, position, codes, A = problem(1, inside=8, outside=4)
    params = GridParams(power=(1, 2), eta=(1.0, 10.0), C=(1.0, 10.0, 100.0))
    folds = labeled_folds(codes, 3, 0)
    validation = CrossValidation(classes_of(codes), [folds], "svm")
    points = search_deformed(RBF(1.0), X_S, X_l, position, {1: A, 2: A @ A}, {}, params, validation)
    assert len({tuple(point.parameters.values()) for point in points}) == len(points) == 12
    base = search_base(RBF(1.0), X_l, params, validation)
    assert [point.parameters for point in base] == [{"power": None, "eta": None, "C": C} for C in (1.0, 10.0, 100.0)]


@pytest.mark.parametrize("kind", ["svm", "ridge"])
def test_eta_auto_takes_its_shares_from_the_labels_outside_a_fold(kind):
    X_S, X_l, position, codes, A = problem(5, inside=10, outside=4)
    kernel, folds, target = RBF(1.3), labeled_folds(codes, 3, 0), classes_of(codes)
    values = None
    for fold in folds:
        kept, left = np.setdiff1d(np.arange(len(codes)), fold), np.setdiff1d(np.arange(len(X_S)), position[fold])
        grams = [landmark_deformation(kernel, X_S[left], A[np.ix_(left, left)], absolute_eta(A, eta))(X_l, X_l)
                 for eta in ETAS]
        inner = [K[np.ix_(kept, kept)] for K in grams]
        shares = eta_shares(map(block_of_gram, inner), target.take(kept), None, 2.5)
        K = sum(share * item / (np.trace(of_kept) / len(kept))
                for share, item, of_kept in zip(shares, grams, inner, strict=True))
        coef, intercept, coding = fit_gram(K[np.ix_(kept, kept)], target.take(kept), LearnerParams(
            kind=kind, C=5.0, unpenalized_intercept=shares[0]))
        actual = K[np.ix_(fold, kept)] @ coef + intercept
        values = np.zeros((len(codes), actual.shape[1])) if values is None else values
        values[fold] = actual
    expected = CandidateScores.of([HeldOut(target, coding, values, folds)], HINGE).scores
    grid = GridParams(power=(2,), eta=(AUTO,), C=(5.0,))
    candidate, = search_deformed(kernel, X_S, X_l, position, {2: A}, {2: 2.5}, grid,
                                 CrossValidation(target, [folds], kind))
    assert (candidate.parameters["eta"], candidate.scores["error"]) == (AUTO, expected["error"])
    assert candidate.scores["loss"] == pytest.approx(expected["loss"], rel=1e-3)


@pytest.mark.parametrize(("given", "message"), [
    ({"power": ()}, "no values"), ({"power": (0,)}, "power"), ({"eta": (0.0,)}, "0 is the base kernel"),
    ({"eta": (1.0, 1.0)}, "twice"), ({"C": (-1.0,)}, "C="),
    ({"eta": (float("inf"),)}, "eta"), ({"eta": ("best",)}, "eta='best'"), ({"eta": (AUTO, AUTO)}, "twice"),
])
def test_a_bad_grid_is_refused(given, message):
    with pytest.raises(ParameterError, match=message):
        GridParams(**given)


def test_quantities_are_judged_by_the_error_of_points_held_out():
    X_S, X_l, position, _, A = problem(3, inside=9, outside=6)
    y, kernel = X_l[:, 0] + 0.5 * X_l[:, 1] ** 2, RBF(1.3)
    folds = labeled_folds(np.zeros(len(y), int), 4, 0)
    K, errors = kernel(X_l, X_l), []
    for fold in folds:
        kept = np.setdiff1d(np.arange(len(y)), fold)
        mean = y[kept].mean()  # a kernel of unit diagonal: kernel ridge regression with the diagonal 1 / C
        alpha = np.linalg.solve(K[np.ix_(kept, kept)] + np.eye(len(kept)) / 5.0, y[kept] - mean)
        errors.append(K[np.ix_(fold, kept)] @ alpha + mean - y[fold])
    actual = np.concatenate(errors)
    target = Quantities(np.arange(len(y)), y)
    validation = CrossValidation(target, [folds], "ridge")
    point, = search_base(kernel, X_l, GridParams(C=(5.0,)), validation)
    assert_allclose((point.scores["rmse"], point.scores["mae"]), (np.sqrt((actual**2).mean()), np.abs(actual).mean()))
    assert_allclose(point.fold_errors, [np.sqrt((error**2).mean()) for error in errors])
    grid = search_deformed(kernel, X_S, X_l, position, {1: A}, {}, GridParams(power=(1,), C=(5.0,)), validation)
    assert len(grid) == 3
    assert all(0 < point.scores["mae"] <= point.scores["rmse"] for point in grid)


def test_rows_are_judged_at_the_prior_that_the_fit_is_moved_to():
    rng = np.random.default_rng(0)
    codes = (np.arange(60) % 5 == 0).astype(int)
    folds = labeled_folds(codes, 5, 0)
    values = (codes - 1.2 + 0.6 * rng.normal(size=60))[:, None]
    labels = classes_of(codes)
    equal, coding = labels.with_prior(EQUAL), labels.coding
    shifted, plain = (CrossValidation(target, [folds], "ridge", scoring="balanced_accuracy").scores([values], coding)
                      for target in (equal, labels))
    assert shifted.scores["balanced_error"] < plain.scores["balanced_error"]
    fitted = HeldOut(equal, coding, values, folds)
    assert shifted == CandidateScores.of([fitted.with_prior(LABELS)], HINGE, "balanced_accuracy", [fitted])
    assert shifted.scores[HINGE.name] == CandidateScores.of([fitted], HINGE).scores[HINGE.name]
    sized = labels.with_prior(ClassPrior.of([48, 12]))
    assert HeldOut(sized, coding, values, folds).with_prior(sized.prior).values is values

"""Probabilities: calibrated on held-out scores, sums of 1, better than shares of classes; bins, calibration errors."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.special import log_softmax, softmax
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import log_loss
from sklearn.svm import SVC

from dssl import (
    GraphKernelRidge,
    LapRLSClassifier,
    LapSVC,
    PoissonLearning,
    SemiSupervisedClassifier,
)
from dssl.base.wilson import interval_of_share
from dssl.kernels.base import RBF
from dssl.learners.linear.gram import LearnerParams
from dssl.learners.probabilities import Calibration, fit_calibration, fit_log_odds, most_probable
from dssl.learners.target.coding import class_pairs, margins_of
from dssl.learners.target.target import Classes
from dssl.selection.calibration import (
    MAX_BINS,
    MIN_POINTS,
    calibration_folds,
    expected_calibration_error,
    reliability_of,
)
from dssl.selection.folds import held_out, labeled_folds
from tests.estimators.test_estimators import SMALL, blobs


def overlapping(n=60, n_classes=3, random_state=0):
    X, codes = make_blobs(n, centers=n_classes, cluster_std=4.0, random_state=random_state)
    return RBF(3.0)(X, X), codes


def out_of_fold(K, codes, n_classes, params, random_state=0):
    target = Classes(np.arange(len(K)), codes, np.arange(n_classes))
    folds = calibration_folds(target, random_state, a_fit_each=True)
    return margins_of(*held_out([K] * len(folds), target, folds, params))


@pytest.mark.parametrize("n_classes", [2, 3])
def test_each_score_is_of_a_machine_that_did_not_see_the_point(n_classes):
    """Against scikit-learn's SVC, fold by fold and pair by pair."""
    K, codes = overlapping(n_classes=n_classes)
    scores = out_of_fold(K, codes, n_classes, LearnerParams(C=2.0), random_state=3)
    for fold in labeled_folds(codes, 5, 3):
        kept = np.setdiff1d(np.arange(len(codes)), fold)
        machine = SVC(C=2.0, kernel="precomputed", tol=1e-6, decision_function_shape="ovo")
        values = machine.fit(K[np.ix_(kept, kept)], codes[kept]).decision_function(K[np.ix_(fold, kept)])
        values = -values[:, None] if n_classes == 2 else values  # positive for the first of a pair
        margins = np.zeros((len(fold), n_classes))
        for column, (i, j) in enumerate(class_pairs(n_classes)):
            margins[:, i] += values[:, column] / n_classes
            margins[:, j] -= values[:, column] / n_classes
        assert_allclose(scores[fold], margins, atol=2e-3)
    assert_allclose(scores.sum(axis=1), 0, atol=1e-12)


def test_the_label_of_a_point_does_not_reach_its_own_score():
    """Labels that say nothing are known by heart to a machine that saw them, and not guessed by one that did not."""
    K = overlapping(n_classes=2, n=200)[0] + 0.1 * np.eye(200)
    codes = np.random.default_rng(0).integers(0, 2, 200)
    trained = SVC(C=1e4, kernel="precomputed").fit(K, codes).decision_function(K)
    scores = out_of_fold(K, codes, 2, LearnerParams(C=1e4))
    assert np.mean((trained > 0) == codes) > 0.95
    assert abs(np.mean((scores[:, 1] > 0) == codes) - 0.5) < 0.15


def test_as_many_folds_as_the_least_class_has_points():
    K, codes = overlapping(n=30)
    few = np.concatenate([np.flatnonzero(codes == 0)[:2], np.flatnonzero(codes != 0)])
    scores = out_of_fold(K[np.ix_(few, few)], codes[few], 3, LearnerParams())
    assert np.isfinite(scores).all()


def likelihood(slope, scores, codes, weight):
    """Return the logarithm of the probability of the classes and of a slope of scores of unit mean square."""
    return (weight * log_softmax(slope * scores, axis=1)[np.arange(len(codes)), codes]).sum() - np.log(slope)**2 / 2


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e4])
def test_the_slope_is_the_most_probable_one(n_classes, size):
    rng = np.random.default_rng(0)
    codes = rng.integers(0, n_classes, 80)
    scores = rng.normal(size=(80, n_classes)) + np.eye(n_classes)[codes]
    scores /= np.sqrt((scores**2).mean())
    weight = rng.uniform(0.5, 2, 80)
    weight /= weight.mean()
    actual = fit_calibration(size * scores, codes, weight)
    slopes = np.geomspace(0.01, 100, 2001)
    best = max(slopes, key=lambda slope: likelihood(slope, scores, codes, weight))
    assert_allclose(actual.slope * size, best, rtol=0.01)
    assert_allclose(actual.probabilities(size * scores), softmax(actual.slope * size * scores, axis=1), rtol=1e-10)
    assert abs(actual.slope / fit_calibration(size * scores, codes).slope - 1) > 1e-3
    assert_allclose(fit_calibration(size * scores, codes, 1000 * weight).slope, actual.slope, rtol=1e-6)


def test_the_order_of_scores_stays_where_they_are_wrong_about_each_label():
    """Left out, a point of two a class lacks in the mean that is subtracted: scores then point away from each label."""
    codes = np.array([0, 0, 1, 1])
    scores = -0.3 * np.eye(2)[codes]
    P = fit_calibration(scores, codes).probabilities(np.array([[1.0, -1.0], [-1.0, 1.0]]))
    assert P[0, 0] > 0.5 > P[1, 0]
    assert P.max() < 0.99


def test_large_scores_do_not_overflow():
    actual = Calibration(1.0, np.ones(3, bool)).probabilities(np.array([[1e4, -1e4, 0.0], [0.0, 0.0, 0.0]]))
    assert_allclose(actual, [[1, 0, 0], [1 / 3] * 3])


@pytest.mark.parametrize("n_labels", [2, 3])
@pytest.mark.extended_cases("3")
def test_two_labels_a_class_are_not_held_out_from_a_majority_of_the_others(n_labels):
    """Left out alone, a label's class is in the minority, and its own score says the opposite."""
    X, true = make_blobs(200, centers=2, cluster_std=1.0, random_state=3)
    y = np.full(200, -1)
    for code in (0, 1):
        y[np.flatnonzero(true == code)[:n_labels]] = code
    target = Classes.of(y, np.array([0, 1]))
    assert all(sorted(target.coded[fold]) == [0, 1] for fold in calibration_folds(target, 0))
    for estimator in (SemiSupervisedClassifier(), GraphKernelRidge(), LapRLSClassifier(), PoissonLearning(),
                      LapSVC()):
        P = estimator.fit(X, y).predict_proba(X)
        assert (P.argmax(axis=1) == true).mean() > 0.95
        assert log_loss(true, P) < 0.6


@pytest.mark.parametrize("n_classes", [2, 4])
def test_rows_sum_to_one_and_follow_the_classes(n_classes):
    X, y, new = blobs(n=120, n_labeled=8, n_classes=n_classes, random_state=2)
    names = np.array(["d", "a", "c", "b"], object)
    given = [None if code < 0 else names[code] for code in y]
    estimator = LapSVC(**SMALL).fit(X, given)
    actual = estimator.predict_proba(new)
    assert actual.shape == (40, n_classes)
    assert_allclose(actual.sum(axis=1), 1, rtol=1e-12)
    assert ((actual >= 0) & (actual <= 1)).all()
    assert_array_equal(estimator.classes_[actual.argmax(axis=1)], estimator.predict(new))
    assert_allclose(np.exp(estimator.predict_log_proba(new)), actual)
    assert_array_equal(LapSVC(**SMALL).fit(X, given).predict_proba(new), actual)


@pytest.mark.parametrize("alone", [[1], [0, 1, 2]])
def test_classes_with_one_label_are_calibrated_by_the_others(alone):
    X, y, new = blobs(n_classes=3)
    for code in alone:
        y[np.flatnonzero(y == code)[1:]] = -1
    names = [None if code < 0 else f"kind {code}" for code in y]
    for estimator in (LapSVC(**SMALL), SemiSupervisedClassifier(), PoissonLearning()):
        estimator.fit(X, names)
        assert set(estimator.predict(new)) <= {"kind 0", "kind 1", "kind 2"}
        P = estimator.predict_proba(new)
        assert_allclose(P.sum(axis=1), 1)
        assert_array_equal(estimator.classes_[P.argmax(axis=1)], estimator.predict(new))


@pytest.mark.slow
@pytest.mark.parametrize(("parity", "min_gain"), [(False, 0.10), (True, 0.05)])
def test_calibrated_probabilities_beat_the_uncalibrated_scores_and_the_shares(parity, min_gain):
    """Log loss on new digits, 10 labels a digit; a softmax or logistic function of the scores is not calibrated."""
    X, digits = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, digits = X[order] / 16, digits[order]
    shown = np.concatenate([np.flatnonzero(digits[:1200] == code)[:10] for code in range(10)])
    y = digits % 2 if parity else digits
    given = np.full(1200, -1)
    given[shown] = y[shown]
    estimator = LapSVC(n_landmarks=500).fit(X[:1200], given)
    calibrated = log_loss(y[1200:], estimator.predict_proba(X[1200:]))
    scores = estimator.decision_function(X[1200:])
    odds = np.exp(scores - scores.max()) if scores.ndim == 2 else np.stack([np.ones(len(scores)), np.exp(scores)], 1)
    uncalibrated = log_loss(y[1200:], odds / odds.sum(axis=1, keepdims=True))
    shares = np.bincount(y[shown]) / len(shown)
    assert calibrated < uncalibrated - min_gain
    assert calibrated < log_loss(y[1200:], np.tile(shares, (len(y) - 1200, 1))) / 2


@pytest.mark.parametrize("assumed", [0, 1])
@pytest.mark.parametrize("random_state", range(5))
def test_scores_without_signal_leave_the_frequencies_of_the_labels(random_state, assumed):
    """Whether these are equal frequencies that the scores assume, or those of the labels."""
    codes, noise = (np.arange(150) < 30).astype(int), np.random.default_rng(random_state).normal(size=150)
    scores, shares = np.column_stack([-noise, noise]), np.array([0.8, 0.2])
    log_odds = np.log(shares)
    calibration, intercept = fit_log_odds(scores, codes, None, log_odds, assumed * log_odds, np.ones(2, bool))
    P = softmax(calibration.slope * scores + intercept, axis=1)
    assert_allclose(P, np.tile(shares, (150, 1)), atol=0.06)


@pytest.mark.parametrize("assumed", [0, 1])
def test_scores_that_separate_the_classes_know_half_of_what_they_do_not_assume(assumed):
    codes, noise = (np.arange(150) < 30).astype(int), np.random.default_rng(0).normal(size=150)
    right = np.where(codes == 1, 1, -1) + 0.2 * noise
    log_odds = np.log([0.8, 0.2])
    scores = np.column_stack([-right, right])
    _, intercept = fit_log_odds(scores, codes, None, log_odds, assumed * log_odds, np.ones(2, bool))
    expected = (1 - assumed) * np.diff(log_odds) / 2
    assert_allclose(np.diff(intercept), expected, atol=0.2)


def test_slope_and_intercepts_are_the_most_probable_ones():
    """As a minimizer that knows no derivative finds them, of scores that assume equal frequencies."""
    rng = np.random.default_rng(0)
    codes = rng.choice(3, 90, p=[0.7, 0.2, 0.1])
    scores = rng.normal(size=(90, 3)) + np.eye(3)[codes]
    weight, center, deviation = rng.uniform(0.5, 2, 90), np.log([0.7, 0.2, 0.1]) / 2, 0.8

    def missed(params):
        logs = log_softmax(np.exp(params[0]) * scores + center + deviation * params[1:], axis=1)
        return params @ params / 2 - weight @ logs[np.arange(90), codes]

    actual = np.hstack([item[0] for item in most_probable(scores[None], codes, weight, center, deviation)])
    nearest = minimize(missed, actual + 0.1, method="Nelder-Mead", options={"xatol": 1e-9, "fatol": 1e-12})
    assert_allclose(actual, nearest.x, atol=1e-5)


@pytest.mark.parametrize("assumed", [0, 1])
def test_a_class_whose_only_label_cannot_be_held_out_keeps_the_center(assumed):
    """No score is of it, so the labels of the others do not say that it is rarer still."""
    rng = np.random.default_rng(0)
    codes = rng.choice(2, 150, p=[0.8, 0.2])
    scores = 4.0 * np.eye(3)[codes] + 0.5 * rng.normal(size=(150, 3))
    log_odds = np.log([120.5, 30.5, 1.5])
    _, intercept = fit_log_odds(scores, codes, None, log_odds, assumed * log_odds, np.ones(3, bool))
    center = (1 - assumed) * (log_odds - log_odds.mean()) / 2
    assert_allclose(intercept[2], center[2], atol=0.1)


def test_few_points_and_points_without_a_probability_are_not_binned():
    rng = np.random.default_rng(0)
    P = rng.uniform(0.5, 1, 60)
    assert reliability_of(P[:MIN_POINTS - 1], np.ones(MIN_POINTS - 1, bool)) is None
    assert reliability_of(np.full(60, np.nan), np.ones(60, bool)) is None
    some = P.copy()
    some[:10] = np.nan
    right = rng.random(60) < P
    assert reliability_of(some, right) == reliability_of(P[10:], right[10:])


@given(st.integers(MIN_POINTS, 400), st.integers(0, 10**6), st.integers(1, 30))
def test_bins_have_equal_counts_but_for_ties_and_hold_all_points(n, random_state, distinct):
    rng = np.random.default_rng(random_state)
    P, right = rng.uniform(0.3, 1, n), rng.random(n) < 0.8
    actual = reliability_of(P, right)
    counts = [row["n"] for row in actual["bins"]]
    assert len(counts) == min(MAX_BINS, n // 10)
    assert max(counts) - min(counts) <= 1
    tied = reliability_of(np.round(P * distinct) / distinct, right)
    for item in (actual, tied):
        assert len(item["bins"]) <= MAX_BINS
        assert sum(row["n"] for row in item["bins"]) == item["n"] == n
        assert item["correct"] == pytest.approx(sum(row["n"] * row["correct"] for row in item["bins"]) / n)
        assert item["calibration_error"] == pytest.approx(
            sum(row["n"] * abs(row["probability"] - row["correct"]) for row in item["bins"]) / n)
        means = [row["probability"] for row in item["bins"]]
        assert means == sorted(means)
        assert all(row["interval"] == interval_of_share(row["correct"], row["n"]) for row in item["bins"])
    rows = np.random.default_rng(1).permutation(n)
    again = reliability_of(P[rows], right[rows])
    assert [row["n"] for row in again["bins"]] == counts
    assert again["calibration_error"] == pytest.approx(actual["calibration_error"])


@pytest.mark.parametrize(("n", "low"), [(60, 0.5), (300, 0.5), (300, 0.95), (3000, 0.99)])
def test_exact_probabilities_have_the_calibration_error_that_chance_is_said_to_make(n, low):
    rng = np.random.default_rng(0)
    P = rng.uniform(low, 1, n)
    actual = [reliability_of(P, rng.random(n) < P) for _ in range(300)]
    mean = np.mean([item["calibration_error"] for item in actual])
    assert actual[0]["by_chance"] == pytest.approx(mean, rel=0.15)


def test_probabilities_that_are_too_high_show_by_how_much():
    P = np.linspace(0.8, 1, 2000)
    actual = reliability_of(P, np.arange(2000) % 4 != 0)
    assert actual["calibration_error"] == pytest.approx(0.15, abs=0.002)
    assert actual["by_chance"] < 0.03
    assert actual["interval"][1] < actual["probability"]


def test_the_expected_calibration_error_is_that_of_its_formula():
    P, y, bins = np.array([0.2, 0.4, 0.9, 0.7]), np.array([0, 1, 1, 1]), np.array([0, 0, 1, 3])
    assert expected_calibration_error(P, y, bins) == pytest.approx((2 * abs(0.3 - 0.5) + 0.1 + 0.3) / 4)

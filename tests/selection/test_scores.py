"""Scores of predictions, and whether one model is better than another."""

import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import ttest_rel
from sklearn import metrics

from dssl.learners.probabilities import Calibration, calibration_attributes
from dssl.learners.tags import Tags
from dssl.learners.target.coding import OneVsOne, OneVsRest
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.comparison import paired_t, unlabeled_verdict
from dssl.selection.scores import (
    constant_baseline,
    in_defined_scoring,
    margin_columns,
    margins_and_probabilities,
    scored_bytes,
    scores_of,
)
from dssl.selection.tag_scores import calibration_error, compare_tags, pair_of_tags, tag_scores
from tests.memory import traced_peak


def test_one_column_of_two_classes_is_that_of_the_second():
    values, codes, coding = np.array([[0.5], [-2.0]]), np.array([1, 0]), OneVsRest(np.array(["a", "b"]))
    for columns in (values, np.hstack([-values, values])):
        actual = coding.predictions(columns, codes)
        assert actual["codes"].tolist() == [1, 0]
        assert_allclose(actual["code_errors"], [0.25, 1.0])


def verdict(true, **predicted):
    return unlabeled_verdict(Quantities(np.arange(len(true)), true),
                             {name: {"values": values} for name, values in predicted.items()})


def test_the_verdict_on_quantities():
    true = np.arange(50.0)
    noise = np.random.default_rng(0).normal(size=50)
    near, far = true + 0.1 * noise, true + 3 * noise
    actual = verdict(true, model=near, base=far, shuffled=far)
    assert actual["unlabeled_data"] == "helped"
    assert actual["over_base"]["gain"] > 0
    assert verdict(true, model=far, base=near, shuffled=far)["unlabeled_data"] == "hurt"
    assert verdict(true, model=near, base=far, shuffled=near)["unlabeled_data"] == "no clear difference"
    alone = verdict(true[:1], model=near[:1], base=far[:1], shuffled=far[:1])
    assert alone["over_base"]["p_value"] == 1.0
    assert verdict(true, model=true + 1, base=true + 2, shuffled=true + 2)["over_base"]["gain"] == 1.0


def test_differences_of_rounding_are_none():
    true = np.full(40, 3.5)
    item, base = true + 4e-16, true + 9e-16 * np.arange(40) % 2e-15
    actual = verdict(true, model=item, base=base)
    assert (actual["over_base"]["gain"], actual["over_base"]["p_value"]) == (0.0, 1.0)
    assert actual["unlabeled_data"] == "no clear difference"


def test_the_paired_test_is_that_of_scipy_without_its_warnings():
    item, other = np.random.default_rng(0).normal(size=(2, 30))
    assert_allclose(paired_t(item - other), ttest_rel(item, other).pvalue, rtol=1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert paired_t(np.ones(5)) == 0.0
        assert paired_t(np.full(9, 0.1) + 1e-17 * item[:9]) < 1e-9
        assert paired_t(np.array([np.inf, 1.0, 2.0])) == 1.0


def test_scores_of_one_point():
    assert scores_of(Quantities(np.arange(1), np.array([1.0])), {"values": np.array([3.0])}) == {
        "rmse": 2.0, "mae": 2.0, "mae_interval": None, "r2": None, "r2_interval": None, "standard_error": 0.0,
        "interval": None, "deviation": 0.0, "n_test": 1}


@pytest.mark.parametrize(("n_classes", "coding", "n_columns"), [(2, OneVsRest, 1), (2, OneVsOne, 1), (3, OneVsRest, 3)])
def test_areas_and_log_losses_of_test_points_are_those_of_scikit_learn(n_classes, coding, n_columns):
    rng = np.random.default_rng(0)
    codes, names = rng.integers(n_classes, size=60), np.arange(n_classes)
    values = rng.normal(size=(60, n_columns)) + (codes[:, None] == np.arange(n_classes)[-n_columns:])
    calibration = Calibration(1.5, np.ones(n_classes, bool))
    model = SimpleNamespace(coding=coding(names), attributes=calibration_attributes(calibration))
    true, margins = Classes(np.arange(60), codes, names), model.coding.margins(values)
    predicted = model.coding.predictions(values, codes)
    actual = scores_of(true, {**predicted, **margins_and_probabilities(model, values, predicted, codes)})
    P = calibration.probabilities(margins)[np.arange(60), predicted["codes"]]
    assert actual["reliability"]["probability"] == pytest.approx(P.mean(), rel=1e-6)
    assert actual["reliability"]["correct"] == pytest.approx((predicted["codes"] == codes).mean())
    area = metrics.roc_auc_score(codes, margins[:, 1]) if n_classes == 2 else np.mean(
        [metrics.roc_auc_score(codes == code, margins[:, code]) for code in names])
    assert actual["roc_auc"] == pytest.approx(area, abs=1e-12)
    assert actual["log_loss"] == pytest.approx(metrics.log_loss(codes, calibration.probabilities(margins)), rel=1e-6)
    model.attributes = {}
    without = margins_and_probabilities(model, values, predicted, codes)
    one_class = scores_of(Classes(np.arange(60), np.zeros(60, np.int64), names), {
        **predicted, **without})
    assert (one_class["roc_auc"], one_class["log_loss"], one_class["reliability"]) == (None, None, None)


def test_models_that_differ_by_rounding_are_equal():
    rng = np.random.default_rng(0)
    true = Quantities(np.arange(200), rng.normal(size=200))
    ours = true.coded + rng.normal(size=200)
    actual = unlabeled_verdict(true, {"model": {"values": ours},
                                     "base": {"values": ours + 1e-10 * rng.normal(size=200)}})
    assert actual["over_base"]["gain"] == 0
    assert actual["over_base"]["p_value"] == 1


@pytest.mark.parametrize("scoring", ["accuracy", "f1_macro", "roc_auc"])
@pytest.mark.parametrize("n_classes", [2, 10])
@pytest.mark.slow_cases("10-roc_auc")
def test_scores_and_comparisons_in_a_metric_hold_what_their_cost_says(scoring, n_classes):
    n, rng = 20_000, np.random.default_rng(0)
    true = Classes(np.arange(n), rng.integers(0, n_classes, n), np.arange(n_classes), scoring=scoring)
    margins = (n, margin_columns(n_classes))
    actual = {name: {"codes": rng.integers(0, n_classes, n), "margins": rng.normal(size=margins).astype(np.float32),
                    "log_losses": rng.random(n).astype(np.float32), "probabilities": rng.random(n).astype(np.float32)}
              for name in ("model", "base", "nearest")}

    def compare():
        for item in actual.values():
            scores_of(true, item)
        unlabeled_verdict(true, actual)

    compare()  # what it imports is no cost of points
    held = sum(item[name].nbytes for item in actual.values() for name in ("margins", "log_losses", "probabilities"))
    most = n * scored_bytes(n_classes, len(actual), has_scoring=scoring != "accuracy") - held
    assert traced_peak(compare, most) < most


@pytest.mark.parametrize("n_classes", [2, 3])
def test_the_guess_is_the_best_that_needs_no_model(n_classes):
    codes = np.repeat(np.arange(n_classes), [6, 3, 1][:n_classes])

    def score(scoring):
        true = Classes(np.arange(len(codes)), codes, np.arange(n_classes), scoring=scoring)
        name, predicted, says = constant_baseline(true, true)
        assert name == "majority"
        assert (predicted["codes"] == says).all()
        return scores_of(true, predicted), says

    assert score("balanced_accuracy")[0]["balanced_accuracy"] == pytest.approx(1 / n_classes)
    assert score("roc_auc")[0]["roc_auc"] == 0.5
    shares = (np.bincount(codes) + 0.5) / (len(codes) + n_classes / 2)
    assert score("neg_log_loss")[0]["log_loss"] == pytest.approx(-np.log(shares[codes]).mean())
    if n_classes == 2:
        actual, says = score("f1")
        assert says == 1
        assert actual["f1"] == pytest.approx(2 * 3 / (9 + 3))


@pytest.mark.parametrize("scoring", ["roc_auc", "f1"])
@pytest.mark.parametrize("codes", [[0, 0, 1, 0], [0, 0, 0, 0]])
def test_of_points_of_one_class_a_metric_is_not_defined_and_the_accuracy_is_taken(scoring, codes):
    points = Classes(np.arange(4), np.zeros(4, int), np.arange(2), scoring=scoring)
    actual = {"codes": np.array(codes), "margins": np.ones((4, 1), np.float32)}
    judged, said = in_defined_scoring(points, actual)
    assert (judged.scoring, said) == ("accuracy", {"undefined_scoring": scoring})
    assert "scoring" not in scores_of(judged, actual)
    assert unlabeled_verdict(points, {"model": actual, "base": actual}) == {"undefined_over": ["base"]}
    both = Classes(np.arange(4), np.array([0, 1, 1, 0]), np.arange(2), scoring=scoring)
    assert in_defined_scoring(both, actual) == (both, {})


# Scores of several labels a point against scikit-learn, and the comparison of two models


def drawn(seed, n=60, c=4, unknown=0.0):
    rng = np.random.default_rng(seed)
    Y = (rng.random((n, c)) < 0.4).astype(np.int8)
    Y[:2] = [[0] * c, [1] * c]
    scores = rng.normal(size=(n, c)) + Y - 0.5
    Y[2:][rng.random((n - 2, c)) < unknown] = -1
    return Tags(np.arange(n), Y, np.arange(c)), scores


@pytest.mark.parametrize("seed", range(3))
def test_scores_are_those_of_scikit_learn(seed):
    tags, scores = drawn(seed)
    Y, predicted = tags.coded, (scores > 0).astype(int)
    ours = tag_scores(tags, scores)
    assert_allclose(ours["hamming_loss"], metrics.hamming_loss(Y, predicted))
    assert_allclose(ours["f1_macro"], metrics.f1_score(Y, predicted, average="macro"))
    assert_allclose(ours["f1_micro"], metrics.f1_score(Y, predicted, average="micro"))
    assert_allclose(ours["average_precision"], metrics.average_precision_score(Y, scores, average="macro"))
    assert_allclose(ours["ranking_loss"], metrics.label_ranking_loss(Y, scores))
    assert_allclose(ours["subset_accuracy"], metrics.accuracy_score(Y, predicted))
    assert ours["calibration_error"] is None


def test_unknown_entries_do_not_count():
    tags, scores = drawn(0, unknown=0.3)
    ours, known = tag_scores(tags, scores), tags.coded >= 0
    assert_allclose(ours["hamming_loss"], ((scores > 0) != tags.coded)[known].mean())
    by_tag = [metrics.average_precision_score(tags.coded[at, j], scores[at, j]) for j, at in enumerate(known.T)]
    assert_allclose(ours["average_precision"], np.mean(by_tag))
    whole = known.all(axis=1)
    assert ours["n_whole"] == whole.sum()
    assert_allclose(ours["ranking_loss"], metrics.label_ranking_loss(tags.coded[whole], scores[whole]))


def test_a_point_without_a_prediction_is_wrong():
    tags, scores = drawn(1)
    scores[5:20] = np.nan
    wrong = (scores > 0) != tags.coded
    wrong[5:20] = True
    assert_allclose(tag_scores(tags, scores)["hamming_loss"], wrong.mean())


def test_means_are_over_labels_that_some_points_have_and_others_do_not():
    tags, scores = drawn(2)
    tags.coded[:, 1] = 0
    ours = tag_scores(tags, scores)
    assert ours["by_tag"][1]["average_precision"] is None
    assert_allclose(ours["f1_macro"], metrics.f1_score(tags.coded[:, [0, 2, 3]], scores[:, [0, 2, 3]] > 0,
                                                       average="macro"))


@given(st.integers(0, 10**6), st.integers(1, 200))
def test_the_calibration_error_is_that_of_a_loop_over_bins(seed, n):
    rng = np.random.default_rng(seed)
    P = rng.random(n)
    has = rng.random(n) < P
    bins = np.minimum((10 * P).astype(int), 9)
    expected = sum(abs(has[bins == b].mean() - P[bins == b].mean()) * (bins == b).mean() for b in np.unique(bins))
    assert_allclose(calibration_error(has, P), expected, atol=1e-12)


def test_the_gain_counts_a_point_with_all_its_labels_as_one_draw():
    """The test of five copies of each label is that of the labels."""
    tags, scores = drawn(3, n=150, c=2)
    other = np.random.default_rng(4).normal(size=scores.shape)
    one, over = compare_tags(tags, scores, other)
    copies = Tags(tags.labeled, np.repeat(tags.coded, 5, axis=1), np.arange(10))
    five, over_five = compare_tags(copies, np.repeat(scores, 5, axis=1), np.repeat(other, 5, axis=1))
    assert_allclose([five.difference, five.standard_error, five.p_value],
                    [one.difference, one.standard_error, one.p_value])
    assert one.verdict == five.verdict
    assert one.helps
    assert_allclose(over_five["f1_macro"]["difference"], over["f1_macro"]["difference"])
    assert over["f1_macro"]["interval"][0] <= over["f1_macro"]["difference"] <= over["f1_macro"]["interval"][1]


def test_equal_models_have_no_gain():
    tags, scores = drawn(5)
    gain, over = compare_tags(tags, scores, scores)
    assert (gain.difference, gain.p_value) == (0, 1)
    assert not gain.helps
    assert not gain.hurts
    assert over["average_precision"]["difference"] == 0


@pytest.mark.parametrize("n", [5, 6, 49, 200])
def test_a_unanimous_difference_is_tested_by_the_sign_test(n):
    """All points differ equally, so that the standard error is 0."""
    tags, _ = drawn(6, n, c=7)
    right = tags.coded - 0.5
    wrong = right.copy()
    wrong[:, 3] *= -1
    for scores, others, sign in ((right, wrong, -1), (wrong, right, 1)):
        gain, _ = compare_tags(tags, scores, others)
        assert_allclose(gain.difference, sign / 7)
        assert gain.standard_error == 0
        assert_allclose(gain.p_value, 2 * 0.5**n)
        assert (gain.helps, gain.hurts) == ((n > 5 and sign < 0), (n > 5 and sign > 0))
    assert n > 5 or gain.verdict == "too few points to tell"


def test_one_point_says_nothing():
    tags, _ = drawn(7)
    gain, _ = compare_tags(tags.take(np.arange(1)), np.array([[1.0, 1, 1, 1]]), np.array([[-1.0, 1, -1, 1]]))
    assert gain.p_value == 1
    assert gain.verdict == "too few points to tell"


@given(st.integers(0, 10**6))
def test_a_difference_is_significant_where_it_is_above_the_smallest_that_can_be(seed):
    tags, scores = drawn(seed, n=40, c=3)
    pair = pair_of_tags(tags, scores, np.random.default_rng(seed + 1).normal(size=scores.shape))
    assert (abs(pair.gain) > pair.smallest) == (pair.p_value < 0.05)
    assert pair.detectable is None or pair.detectable > pair.smallest

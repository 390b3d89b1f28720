"""Scores of several labels a point against scikit-learn, and the comparison of two models."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from sklearn import metrics

from dssl.learners.tags import Tags
from dssl.selection.tag_scores import calibration_error, compare_tags, pair_of_tags, tag_scores


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

"""Intervals of errors: what none wrong means, their ends, and that they hold the error of new points."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.stats import binom, binomtest, multinomial, ttest_rel
from scipy.stats import t as student

from dssl.base.wilson import interval_of_share
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.candidates import CandidateScores
from dssl.selection.comparison import compare, unlabeled_verdict
from dssl.selection.interval import (
    POWER,
    detectable_error_difference,
    detectable_mean_difference,
    interval_of_mean_share,
    interval_of_rmse,
    interval_of_score,
    mcnemar_power,
    sign_test,
    significant_t,
    t_power,
    t_test,
)
from dssl.selection.scores import scores_of


@pytest.mark.parametrize(("wrong", "n"), [(0, 16), (1, 20), (7, 40), (30, 30), (250, 1000)])
def test_an_interval_of_a_share_is_wilsons(wrong, n):
    wanted = binomtest(wrong, n).proportion_ci(0.95, "wilson")
    assert_allclose(interval_of_share(wrong / n, n), [wanted.low, wanted.high], atol=1e-12)


def test_an_interval_of_a_score_is_that_of_its_kind_and_never_reaches_below_zero():
    share = 0.1
    error = np.sqrt(share * (1 - share) / 40)
    assert_allclose(interval_of_score(share, error, 40, share=True), interval_of_share(share, 40))
    assert_allclose(interval_of_score(0.0, 0.0, 16, share=True), interval_of_share(0.0, 16))
    assert_allclose(interval_of_score(1.0, 1e-17, 16, share=True), interval_of_share(1.0, 16))  # of rounding
    assert_allclose(interval_of_score(1 + 1e-15, 1e-16, 16, share=True), interval_of_share(1.0, 16))
    low, high = interval_of_score(0.2, 0.3, 8, share=False)
    assert 0 < low < 0.2 < high
    assert low * high == pytest.approx(0.2**2)
    squared = np.random.default_rng(1).normal(size=4000) ** 2  # more than are resampled
    rmse = np.sqrt(squared.mean())
    of_rmse = squared.std(ddof=1) / np.sqrt(len(squared)) / (2 * rmse)
    assert_allclose(interval_of_score(rmse, of_rmse, 4000, share=False), interval_of_rmse(squared), rtol=1e-9)
    assert interval_of_score(0.5, None, 10, share=True) is None


def test_an_interval_of_mean_recall_is_wilsons_of_one_class_and_knows_that_few_points_prove_little():
    assert_allclose(interval_of_mean_share([0.3], [40]), interval_of_share(0.3, 40))
    low, high = interval_of_mean_share([0.9, 1.0], [500, 3])
    assert low < 0.7  # three of three may be half of all
    assert 0.95 < high <= 1.0
    rng, recalls, counts = np.random.default_rng(0), np.array([0.9, 0.6, 0.75]), np.array([200, 12, 30])
    ends = np.array([interval_of_mean_share(rng.binomial(counts, recalls) / counts, counts) for _ in range(400)])
    covered = (ends[:, 0] < recalls.mean()) & (recalls.mean() < ends[:, 1])
    assert 0.92 < covered.mean() < 0.98


def test_rows_of_a_search_have_wilsons_interval_of_their_error():
    scores = {"error": 0.0, "error_se": 0.0, "brier": None, "brier_se": None}
    row = CandidateScores({"gamma_A": 0.1}, scores).to_report(16)
    assert_allclose(row["error_interval"], interval_of_share(0.0, 16))
    assert "brier_interval" not in row


def test_scores_without_a_mistake_have_an_interval():
    true = Classes(np.arange(16), np.zeros(16, np.int64), np.arange(2))
    low, high = scores_of(true, {"codes": np.zeros(16, np.int64)})["interval"]
    assert low == 0
    assert high == pytest.approx(0.194, abs=1e-3)


@pytest.mark.slow
def test_an_interval_of_rmse_has_the_unit_of_the_target_and_covers():
    rng = np.random.default_rng(0)
    ends = np.array([interval_of_rmse(rng.normal(size=20) ** 2) for _ in range(60)])
    assert ((ends[:, 0] < 1) & (ends[:, 1] > 1)).mean() > 0.85
    squared = rng.normal(size=50) ** 2
    assert_allclose(np.array(interval_of_rmse(squared * 1e-200)) * 1e100, interval_of_rmse(squared), rtol=1e-9)
    true = rng.normal(size=3000)
    low, high = scores_of(Quantities(np.arange(3000), true), {"values": np.zeros(3000)})["interval"]
    assert low < np.sqrt((true**2).mean()) < high
    assert interval_of_rmse(np.zeros(5)) == [0.0, 0.0]
    assert interval_of_rmse(np.ones(1)) is None
    assert interval_of_rmse(np.array([1.0, 4.0])) is None  # its upper end would be more than ten times as large
    assert interval_of_rmse(np.array([1.0, 1.5, 4.0, 2.0, 1.0]))[0] < np.sqrt(1.9)


def test_one_huge_error_leaves_no_infinite_interval_and_no_undefined_power():
    squared = np.r_[np.full(39, 1e-6), 1e12]
    assert interval_of_rmse(squared) is None
    gains = np.arange(0.5, 45, 0.125)
    powers = np.array([[t_power(m, gain, 1.0) for gain in gains] for m in (2, 20, 160, 1000)])
    assert np.isfinite(powers).all()
    assert (np.diff(powers, axis=1) > -1e-9).all()


def power_by_enumeration(m, wins, losses):
    """Return the sum of the probabilities of all outcomes that the exact test calls better for the first model."""
    actual = 0.0
    for right in range(m + 1):
        for wrong in range(m + 1 - right):
            if right > wrong and binomtest(right, right + wrong).pvalue < 0.05:
                actual += multinomial.pmf([right, wrong, m - right - wrong], m, [wins, losses, 1 - wins - losses])
    return actual


@pytest.mark.parametrize(("m", "wins", "losses"), [(5, 0.9, 0.0), (6, 1.0, 0.0), (18, 0.5, 0.1), (25, 0.3, 0.2)])
def test_the_power_is_that_of_all_outcomes(m, wins, losses):
    assert_allclose(mcnemar_power(m, wins, losses), power_by_enumeration(m, wins, losses), atol=1e-9)


@pytest.mark.extended
def test_many_points_have_the_power_that_their_number_tends_to():
    draws = np.random.default_rng(0).multinomial(40_000, [0.035, 0.03, 0.935], size=4000)
    share = np.mean([right > wrong and binomtest(int(right), int(right + wrong)).pvalue < 0.05
                     for right, wrong, _ in draws[:1500]])
    assert_allclose(mcnemar_power(40_000, 0.035, 0.03), share, atol=0.03)


def test_the_least_difference_is_found_in_four_of_five_test_sets():
    for m, losses in ((18, 0.0), (60, 0.05), (1000, 0.02)):
        actual = detectable_error_difference(m, losses)
        assert_allclose(mcnemar_power(m, losses + actual, losses), POWER, atol=0.01)
    assert detectable_error_difference(5) is None  # all five go one way by chance in 1 of 16
    assert comb(6, 6) * 2 / 2**6 < 0.05 < 2 / 2**5


@pytest.mark.slow
def test_the_power_of_the_t_test_is_its_share_of_draws():
    rng = np.random.default_rng(1)
    draws = rng.normal(0.3, 1.0, (2000, 40))
    share = np.mean([ttest_rel(item, np.zeros(40)).pvalue < 0.05 and item.mean() > 0 for item in draws])
    assert_allclose(t_power(40, 0.3, 1 / 40**0.5), share, atol=0.03)
    assert_allclose(t_power(40, detectable_mean_difference(40, 0.1, 5.0), 0.1), POWER, atol=0.01)
    assert detectable_mean_difference(40, 0.1, 0.2) is None
    assert t_power(40, 1.0, 0.0) == 1.0
    assert t_power(1, 1.0, 0.1) == 0.0


def verdict(true, model, base):
    return unlabeled_verdict(Classes(np.arange(len(true)), true, np.arange(2)), {
        "model": {"codes": model}, "base": {"codes": base}})


def test_18_points_cannot_tell_and_2000_can():
    """At the errors 22 % and 39 %: the same difference is no answer on 18 points, and a clear one on 2,000."""
    true, wrong = np.zeros(18, int), np.arange(18)
    few = verdict(true, (wrong < 4) * 1, (wrong < 7) * 1)
    assert few["unlabeled_data"] == "too few points to tell"
    assert few["over_base"]["smallest"] == 6 / 18
    assert few["over_base"]["power"] < 0.5
    many = verdict(np.tile(true, 112), np.tile((wrong < 4) * 1, 112), np.tile((wrong < 7) * 1, 112))
    assert many["unlabeled_data"] == "helped"
    alike = np.random.default_rng(0).random((2, 2000)) < 0.3
    assert verdict(np.zeros(2000, int), *(alike * 1))["unlabeled_data"] == "no clear difference"


def test_equal_predictions_of_few_points_say_little_and_of_many_that_there_is_no_difference():
    for n, said in ((18, "too few points to tell"), (2000, "no clear difference")):
        right = np.zeros(n, int)
        assert verdict(right, right, right)["unlabeled_data"] == said


def test_quantities_are_compared_by_what_the_t_test_can_see():
    rng = np.random.default_rng(0)
    true = rng.normal(size=400)
    near, far = (true + scale * rng.normal(size=400) for scale in (0.5, 0.55))
    few = compare(Quantities(np.arange(12), true[:12]), {"values": near[:12]}, {"values": far[:12]})
    many = compare(Quantities(np.arange(400), true), {"values": near}, {"values": far})
    assert not few.has_power
    assert many.has_power
    assert few.detectable is None
    assert many.detectable < 0.2 * np.sqrt(np.mean((far - true) ** 2))
    assert_allclose(many.p_value, ttest_rel((near - true) ** 2, (far - true) ** 2).pvalue)


@given(wins=st.integers(0, 60), losses=st.integers(0, 60), t=st.floats(-50, 50), freedom=st.floats(1, 1e4))
def test_tests_of_differences_are_those_of_scipy(wins, losses, t, freedom):
    expected = binomtest(wins, wins + losses).pvalue if wins + losses else 1.0
    assert_allclose(sign_test(wins, losses), expected, rtol=1e-12)
    assert_allclose(t_test(t, freedom), 2 * student.sf(abs(t), freedom), rtol=1e-12)
    assert_allclose(significant_t(freedom), student.isf(0.025, freedom), rtol=1e-12)


@pytest.mark.parametrize(("m", "wins", "losses"), [(6, 1.0, 0.0), (40, 0.3, 0.05), (360, 0.1, 0.02), (5000, 0.1, 0.05)])
def test_the_power_of_mcnemars_test_is_the_sum_over_discordant_points(m, wins, losses):
    differ = wins + losses
    d = np.arange(1, m + 1)
    rejected = binom.isf(0.025, d, 0.5)
    exact = binom.pmf(d, m, differ) @ binom.sf(rejected, d, wins / differ)
    assert_allclose(mcnemar_power(m, wins, losses), exact, rtol=1e-8)


def test_an_interval_whose_upper_end_bounds_nothing_is_none():
    """Of 18 errors one is far off: resamples without it have hardly any spread."""
    squared = np.append(np.random.default_rng(0).normal(size=17) ** 2 * 1e-3, 40.0)
    assert interval_of_rmse(squared) is None
    assert interval_of_rmse(squared[:17]) is not None

"""What a paired test on few points can see."""

from math import comb

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binomtest, multinomial, ttest_rel

from dssl.learners.target.target import Classes, Quantities
from dssl.selection.interval import SURE, least_error_difference, least_mean_difference, mcnemar_power, t_power
from dssl.selection.scores import compared, unlabeled_verdict


def power_by_enumeration(m, gained, lost):
    """Return the sum of the probabilities of all outcomes that the exact test calls better for the first model."""
    actual = 0.0
    for right in range(m + 1):
        for wrong in range(m + 1 - right):
            if right > wrong and binomtest(right, right + wrong).pvalue < 0.05:
                actual += multinomial.pmf([right, wrong, m - right - wrong], m, [gained, lost, 1 - gained - lost])
    return actual


@pytest.mark.parametrize(("m", "gained", "lost"), [(5, 0.9, 0.0), (6, 1.0, 0.0), (18, 0.5, 0.1), (25, 0.3, 0.2)])
def test_the_power_is_that_of_all_outcomes(m, gained, lost):
    assert_allclose(mcnemar_power(m, gained, lost), power_by_enumeration(m, gained, lost), atol=1e-9)


def test_many_points_have_the_power_that_their_number_tends_to():
    draws = np.random.default_rng(0).multinomial(40_000, [0.035, 0.03, 0.935], size=4000)
    share = np.mean([right > wrong and binomtest(int(right), int(right + wrong)).pvalue < 0.05
                     for right, wrong, _ in draws[:1500]])
    assert_allclose(mcnemar_power(40_000, 0.035, 0.03), share, atol=0.03)


def test_the_least_difference_is_found_in_four_of_five_test_sets():
    for m, lost in ((18, 0.0), (60, 0.05), (1000, 0.02)):
        actual = least_error_difference(m, lost)
        assert_allclose(mcnemar_power(m, lost + actual, lost), SURE, atol=0.01)
    assert least_error_difference(5) is None  # all five go one way by chance in 1 of 16
    assert comb(6, 6) * 2 / 2**6 < 0.05 < 2 / 2**5


def test_the_power_of_the_t_test_is_its_share_of_draws():
    rng = np.random.default_rng(1)
    draws = rng.normal(0.3, 1.0, (2000, 40))
    share = np.mean([ttest_rel(item, np.zeros(40)).pvalue < 0.05 and item.mean() > 0 for item in draws])
    assert_allclose(t_power(40, 0.3, 1 / 40**0.5), share, atol=0.03)
    assert_allclose(t_power(40, least_mean_difference(40, 0.1, 5.0), 0.1), SURE, atol=0.01)
    assert least_mean_difference(40, 0.1, 0.2) is None
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
    few = compared(Quantities(np.arange(12), true[:12]), {"values": near[:12]}, {"values": far[:12]})
    many = compared(Quantities(np.arange(400), true), {"values": near}, {"values": far})
    assert not few.enough
    assert many.enough
    assert few.found is None
    assert many.found < 0.2 * np.sqrt(np.mean((far - true) ** 2))
    assert_allclose(many.p_value, ttest_rel((near - true) ** 2, (far - true) ** 2).pvalue)

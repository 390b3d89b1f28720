"""The calibration of predicted probabilities: bins, the expected calibration error, and what chance makes of it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dssl.base.wilson import interval_of_share
from dssl.selection.calibration import MAX_BINS, MIN_POINTS, expected_calibration_error, reliability_of


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

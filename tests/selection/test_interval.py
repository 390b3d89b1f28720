"""Intervals of errors: what none wrong means, their ends, and that they hold the error of new points."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from dssl.learners.target.target import Classes, Quantities
from dssl.selection.held_out_scores import with_intervals
from dssl.selection.interval import interval_of_mean_share, interval_of_rmse, interval_of_score, interval_of_share
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
    row = with_intervals({"gamma_A": 0.1, "error": 0.0, "error_se": 0.0, "brier": None, "brier_se": None}, 16)
    assert_allclose(row["error_interval"], interval_of_share(0.0, 16))
    assert "brier_interval" not in row


def test_scores_without_a_mistake_have_an_interval():
    true = Classes(np.arange(16), np.zeros(16, np.int64), np.arange(2))
    low, high = scores_of(true, {"codes": np.zeros(16, np.int64)})["interval"]
    assert low == 0
    assert high == pytest.approx(0.194, abs=1e-3)


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
    assert interval_of_rmse(np.array([1.0, 4.0]))[0] < np.sqrt(2.5)

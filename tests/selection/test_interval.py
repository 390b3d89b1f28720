"""Intervals of errors: what none wrong means, their ends, and that they hold the error of new points."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.stats import binomtest

from dssl.learners.target import Classes, Quantities
from dssl.selection.interval import interval_of_rmse, interval_of_share
from dssl.selection.scores import scores_of


@pytest.mark.parametrize(("wrong", "n"), [(0, 16), (1, 20), (7, 40), (30, 30), (250, 1000)])
def test_an_interval_of_a_share_is_wilsons(wrong, n):
    wanted = binomtest(wrong, n).proportion_ci(0.95, "wilson")
    assert_allclose(interval_of_share(wrong / n, n), [wanted.low, wanted.high], atol=1e-12)


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

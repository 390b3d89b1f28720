"""Intervals of paired differences: they agree with the test, and they hold the difference of new points."""

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

from dssl.base.wilson import Z
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.comparison import (
    HELPED,
    HURT,
    LEVEL,
    compare,
    compare_classes,
    interval_of_paired_rmse,
    interval_of_paired_shares,
)
from dssl.selection.interval import sign_test


def paired_shares(wins, losses, n):
    return interval_of_paired_shares(wins, losses, n, significant=sign_test(wins, losses) < LEVEL)


def assert_agrees(pair):
    """Assert that 0 lies outside the interval exactly where the test is significant, on the side of the gain."""
    low, high = pair.interval
    assert low <= pair.gain <= high
    assert (low > 0 or high < 0) == (pair.p_value < LEVEL)
    if pair.verdict in (HELPED, HURT):
        assert (low > 0) == (pair.verdict == HELPED)


@pytest.mark.slow
def test_the_interval_of_paired_shares_excludes_zero_exactly_where_mcnemars_test_is_significant():
    for n in (1, 5, 6, 20, 61, 400, 10**6):
        counts = sorted({*range(min(n, 30) + 1), n // 3, n // 2, n})
        for wins, losses in ((wins, losses) for wins in counts for losses in counts if wins + losses <= n):
            low, high = paired_shares(wins, losses, n)
            assert -1 <= low <= (wins - losses) / n <= high <= 1
            assert (low > 0 or high < 0) == (sign_test(wins, losses) < LEVEL), (n, wins, losses)
            assert_allclose(paired_shares(losses, wins, n), [-high, -low], atol=1e-12)


@pytest.mark.parametrize(("wins", "losses", "n"), [(12, 2, 50), (40, 10, 300), (9, 0, 30), (30, 25, 60)])
def test_the_ends_are_where_the_score_statistic_of_the_likeliest_shares_is_the_quantile(wins, losses, n):
    for difference in paired_shares(wins, losses, n):
        if difference == 0:  # extended to it
            continue

        def unlikely(only_second, difference=difference):
            only_first = only_second + difference
            with np.errstate(divide="ignore", invalid="ignore"):
                value = -(wins * np.log(only_first) + (losses * np.log(only_second) if losses else 0.0)
                          + (n - wins - losses) * np.log(1 - only_first - only_second))
            return value if np.isfinite(value) else 1e9

        best = minimize_scalar(unlikely, bounds=(max(0.0, -difference), (1 - difference) / 2), method="bounded",
                               options={"xatol": 1e-12})
        spread = n * (2 * best.x + difference - difference**2)
        assert abs(wins - losses - n * difference) / np.sqrt(spread) == pytest.approx(Z, rel=1e-4)


@pytest.mark.parametrize("only_second", [0.02, 0.1, 0.25])
@pytest.mark.parametrize("difference", [0.0, 0.1, 0.3])
def test_the_interval_of_paired_shares_holds_the_difference_of_new_points(only_second, difference):
    n, p = 40, only_second + difference
    covered = 0.0
    for wins in range(n + 1):
        for losses in range(n + 1 - wins):
            probability = (comb(n, wins) * comb(n - wins, losses) * p**wins * only_second**losses
                           * (1 - p - only_second) ** (n - wins - losses))
            if probability > 1e-12:
                low, high = paired_shares(wins, losses, n)
                covered += probability * (low <= difference <= high)
    assert covered >= 0.94
    assert difference == 0 or covered <= 0.98  # McNemar's exact test, which 0 follows, is conservative


@given(st.data())
def test_the_interval_of_a_metric_and_its_test_agree(data):
    scoring = data.draw(st.sampled_from(["balanced_accuracy", "f1", "f1_macro", "roc_auc", "neg_log_loss", "accuracy"]))
    n = data.draw(st.integers(4, 120))
    rng = np.random.default_rng(data.draw(st.integers(0, 10**6)))
    codes = np.r_[0, 1, rng.random(n - 2) < data.draw(st.floats(0.05, 0.95))].astype(int)
    true = Classes(np.arange(n), codes, np.array(["a", "b"]), scoring=scoring)
    predictions = []
    for signal in data.draw(st.tuples(st.floats(0, 3), st.floats(0, 3))):
        margins = rng.normal(size=(n, 1)) + signal * (2 * codes[:, None] - 1)
        predictions.append({"codes": (margins[:, 0] > 0).astype(int), "margins": margins,
                            "log_losses": np.log1p(np.exp(-margins[:, 0] * (2 * codes - 1)))})
    pair = compare(true, *predictions)
    if pair.interval is not None:
        assert_agrees(pair)


@given(st.integers(2, 80), st.integers(0, 10**6), st.floats(0, 3), st.floats(0, 3), st.booleans())
def test_the_interval_of_an_rmse_and_the_paired_t_test_agree(n, random_state, size, other_size, heavy):
    rng = np.random.default_rng(random_state)
    true = Quantities(np.arange(n), rng.normal(size=n))
    shared = rng.standard_t(2, n) if heavy else rng.normal(size=n)
    pair = compare(true, *({"values": true.coded + each * shared + 0.3 * rng.normal(size=n)}
                           for each in (size, other_size)))
    assert_agrees(pair)


def test_the_interval_of_an_rmse_is_that_of_the_delta_method_of_many_points():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=20_000)
    ours, other = (shared + 0.2 * rng.normal(size=20_000)) ** 2, (1.3 * shared) ** 2
    roots = np.sqrt([ours.mean(), other.mean()])
    influence = ours / (2 * roots[0]) - other / (2 * roots[1])
    half = Z * influence.std() / np.sqrt(20_000)
    gain = roots[1] - roots[0]
    assert_allclose(interval_of_paired_rmse(ours, other, significant=True), [gain - half, gain + half], rtol=0.02)


def test_the_interval_of_an_rmse_holds_the_difference_of_new_points():
    covered = []
    for random_state in range(300):
        rng = np.random.default_rng(random_state)
        shared, own = rng.normal(size=(2, 60))
        true = Quantities(np.arange(60), np.zeros(60))
        low, high = compare(true, {"values": 0.6 * shared + 0.8 * own}, {"values": 1.25 * shared}).interval
        covered.append(low <= 0.25 <= high)
    assert 0.91 <= np.mean(covered) <= 0.99


def test_a_model_without_an_error_and_equal_models_have_the_intervals_that_their_points_allow():
    same = compare_classes(np.ones(50, bool), np.ones(50, bool))
    assert_allclose(same.interval, [-Z**2 / (50 + Z**2), Z**2 / (50 + Z**2)], atol=1e-9)
    assert compare(Quantities(np.arange(3), np.ones(3)), {"values": np.zeros(3)}, {"values": np.zeros(3)}
                   ).interval is None
    squared = np.array([1.0, 2.0, 0.5, 1.5])
    low, high = interval_of_paired_rmse(np.zeros(4), squared, significant=True)
    assert 0 < low < high <= np.sqrt(squared.mean())
    low, high = interval_of_paired_rmse(squared, np.zeros(4), significant=True)
    assert low < -np.sqrt(squared.mean()) < high < 0


@pytest.mark.parametrize("sign", [1, -1])
def test_a_few_huge_errors_that_both_models_have_do_not_widen_the_interval_of_their_difference(sign):
    """The mean of the squares is then not clearly above 0, and the statistic of differences near the rmse is small."""
    rng = np.random.default_rng(0)
    errors = np.where(np.arange(300) < 4, 1e5, rng.normal(size=300))
    ours, other = errors**2, (errors + np.where(np.abs(errors) > 10, 0, 0.1 * np.sign(errors))) ** 2
    gain = np.sqrt(other.mean()) - np.sqrt(ours.mean())
    low, high = interval_of_paired_rmse(*(ours, other)[::sign], significant=True)
    nearer, farther = sorted((sign * low, sign * high))
    assert gain / 2 < nearer < gain < farther < 2 * gain

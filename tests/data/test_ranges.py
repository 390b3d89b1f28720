"""How new points lie to the training points: out of their range, and distributed otherwise."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats

from dssl import LapSVC
from dssl.base.errors import DataError
from dssl.data.scaling.drift import FALSE_ALARMS, Drift, Usual, two_sided
from dssl.data.scaling.out_of_range import OutOfRange, Ranges
from dssl.data.scaling.scaling import ScalingParams, fit_scaling
from dssl.execution.in_process import InProcess
from dssl.storage.csr import as_rows

X = np.array([[0, 10, 5], [4, 12, 5], [2, 11, 5]], np.float32)
SEEN = Ranges(X.min(axis=0).astype(float), X.max(axis=0).astype(float), 3)
NEW = np.array([[0, 10, 5], [8, 12, 5], [8.1, 11, 5], [-4, 11, 5], [2, 14.5, 6], [-4.1, 7, 5]], np.float32)


@pytest.mark.parametrize("rows", [NEW, sparse.csr_array(NEW)], ids=["dense", "sparse"])
@pytest.mark.parametrize("budget", [200, 1 << 20])
def test_points_are_far_where_a_column_is_beyond_its_range_by_more_than_the_width(rows, budget):
    actual = SEEN.compare(as_rows(rows), InProcess(2, memory_budget=budget))
    assert_array_equal(actual.is_outlier.read_all(), [False, False, True, False, True, True])
    assert actual.n_outliers == 3
    first, second, third = actual.described(["a", "b", "c"])
    assert first == {"column": "a", "below": 2, "above": 2, "outliers": 2, "min": pytest.approx(-4.1),
                     "max": pytest.approx(8.1), "training_min": 0, "training_max": 4, "notable": True}
    assert (second["below"], second["above"], second["outliers"]) == (1, 1, 2)
    assert (third["column"], third["above"], third["outliers"]) == ("c", 1, 0)  # it was constant: no width
    assert actual.notes(["a", "b", "c"])[0] == (
        "4 of 6 values of column 'a' are out of the range of the training points: from -4.1 to 8.1, where "
        "these are from 0 to 4")


def test_zeros_that_are_not_stored_are_beyond_a_range_without_zero():
    new = sparse.csr_array(np.array([[1.0, 0, 5], [3, 11, 0]]))
    actual = SEEN.compare(as_rows(new), InProcess(1)).described(None)
    assert [(item["column"], item["below"], item["min"]) for item in actual] == [("1", 1, 0), ("2", 1, 0)]


def test_what_chance_puts_beyond_a_range_is_not_worth_a_word_and_a_shift_is():
    rng = np.random.default_rng(0)
    train, same = rng.normal(size=(2, 1000, 40))
    seen = Ranges(train.min(axis=0), train.max(axis=0), 1000)
    by_chance = seen.compare(as_rows(same), InProcess(1))
    assert len(by_chance.columns) > 20  # of most columns
    assert by_chance.notes(None) == []
    same[:, 7] += 2
    moved = seen.compare(as_rows(same), InProcess(1))
    assert [line.split("(")[0] for line in moved.notes(None)] == [moved.notes(None)[0].split("(")[0]]
    assert "column 7 (counted from 0)" in moved.notes(None)[0]
    assert len(seen.compare(as_rows(same + 100), InProcess(1)).notes(None)) == 11


def test_other_columns_are_refused():
    with pytest.raises(DataError, match="2 columns, the training points 3"):
        SEEN.compare(as_rows(NEW[:, :2]), InProcess(1))


def skewed():
    """Return points (400, 2) of which scaling cuts values of the second column."""
    rng = np.random.default_rng(0)
    return np.column_stack([rng.normal(size=400), np.exp(3 * rng.normal(size=400))])


def seen_of(train):
    scaling = fit_scaling(as_rows(train), None, ScalingParams(kind="standardize"), InProcess(1))
    assert scaling.cuts
    return Ranges.from_arrays(scaling.seen.to_arrays(), scaling.seen.n)


def test_training_points_that_scaling_cuts_are_in_their_own_range():
    train = skewed()
    seen = seen_of(train)
    for some in (train, train[train[:, 1] > 100]):
        actual = seen.compare(as_rows(some), InProcess(1))
        assert (actual.notes(None), actual.described(None), actual.n_outliers) == ([], [], 0)
    assert not seen.compare(as_rows(train), InProcess(1)).drift.alarm
    farther = np.vstack([train, [0, 3 * train[:, 1].max()]])
    actual = seen.compare(as_rows(farther), InProcess(1))
    assert actual.n_outliers == 1
    assert actual.notes(None)[0].endswith(f"where these are from {train[:, 1].min():.6g} to {train[:, 1].max():.6g}")


def test_a_code_of_missing_cells_at_one_end_does_not_widen_the_other():
    train = np.random.default_rng(0).normal(size=(400, 2))
    train[7, 1] = -999
    seen = seen_of(train)
    beyond = np.array([[0, -999], [0, -500], [0, 0], [0, 20.0]])
    assert_array_equal(seen.compare(as_rows(beyond), InProcess(1)).is_outlier.read_all(), [False, False, False, True])
    moved = train.copy()
    moved[:100, 1] = -999
    assert seen.compare(as_rows(moved), InProcess(1)).drift.alarm  # many more than in the fit


def test_a_prediction_of_the_points_of_the_fit_warns_of_nothing():
    X = skewed()
    model = LapSVC().fit(X, np.where(np.arange(400) < 30, X[:, 0] > 0, -1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutOfRange)
        model.predict(X)
        model.predict(X[X[:, 1] > 100])
    with pytest.warns(OutOfRange, match=f"to {X[:, 1].max():.6g}"):
        model.predict(X * 3)


# Whether new points are distributed as those of the fit: counts by their definition, and honest alarms


def ranges_of(train):
    smallest, largest = train.min(axis=0), train.max(axis=0)
    return Ranges(smallest, largest, len(train), Usual.of(train, smallest, largest))


def drift(train, new, budget=1 << 24):
    seen = ranges_of(train)
    return Ranges.from_arrays(seen.to_arrays(), seen.n).compare(as_rows(new), InProcess(2, memory_budget=budget)).drift


@settings(max_examples=25, deadline=None)
@given(n=st.integers(2, 30), d=st.integers(1, 4), levels=st.integers(1, 30), seed=st.integers(0, 999))
def test_the_usual_share_is_that_of_rows_out_of_the_range_of_all_others(n, d, levels, seed):
    X = np.random.default_rng(seed).integers(0, levels, (n, d)) / 7
    usual = ranges_of(X).usual
    others = [np.delete(X, i, axis=0) for i in range(n)]
    assert usual.n_out == sum(((row < rest.min(axis=0)) | (row > rest.max(axis=0))).any()
                              for row, rest in zip(X, others, strict=True))
    assert (usual.up_to >= np.ceil(n * np.array([[0.25], [0.5], [0.75]]))).all()
    new = np.random.default_rng(seed + 1).integers(-2, levels + 2, (n, d)) / 7
    whole, in_blocks = drift(X, new), drift(X, new, budget=200 * d)
    assert whole == in_blocks
    assert whole == drift(X, new.astype(np.float32))  # in either precision
    assert whole.n_out == ((new < X.min(axis=0)) | (new > X.max(axis=0))).any(axis=1).sum()


def test_p_values_are_those_of_fisher():
    tables = [(3, 40, 9, 50), (0, 10, 4, 80), (30, 30, 61, 80)]
    for k, n, k_usual, n_usual in tables:
        smaller = min(stats.fisher_exact([[k, n - k], [k_usual, n_usual - k_usual]], alternative=side).pvalue
                      for side in ("less", "greater"))
        assert_allclose(two_sided(np.array([k]), n, np.array([k_usual]), n_usual), min(1, 2 * smaller), rtol=1e-9)
    usual = Usual(np.zeros(1), np.zeros(1), np.zeros((3, 1)), np.full((3, 1), 10), 2, 80)
    one_sided = stats.fisher_exact([[9, 31], [2, 78]], alternative="greater").pvalue
    assert_allclose(Drift.between(usual, 40, 9, np.full((3, 1), 5)).p_value, one_sided, rtol=1e-9)


def test_batches_of_the_same_distribution_raise_no_alarm_and_changed_ones_do():
    rng = np.random.default_rng(0)
    alarms = sum(drift(rng.lognormal(size=(400, 5)), rng.lognormal(size=(300, 5))).alarm for _ in range(150))
    assert alarms <= 1  # of 0.15 expected at most, at 1 in 1,000
    train, new = rng.normal(size=(2000, 4)), rng.normal(size=(1000, 4))
    assert not drift(train, new).in_words()
    moved = drift(train, new + np.array([0, 0, 0.4, 0]))
    assert [each.column for each in moved.columns] == [2]
    assert moved.columns[0].above_median > 0.6
    assert "most clearly column 'c'" in moved.in_words(list("abcd"))[0]
    spread = drift(train, new * np.array([1, 2, 1, 1]))
    assert [each.column for each in spread.columns] == [1]
    assert spread.columns[0].between_quartiles < 0.4
    assert spread.p_value < FALSE_ALARMS
    assert "are out of the range of the training points" in spread.in_words()[0]
    assert spread.to_dict(list("abcd"))["columns"][0]["column"] == "b"
    assert drift(train, new[:0]) == Drift(0, 0, moved.usual_share, 1.0, (), 4)
    assert not drift(np.ones((50, 2)), np.ones((50, 2))).alarm  # constant columns


@pytest.mark.slow
def test_an_estimator_compares_new_points_and_says_where_it_cannot():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 3)) * np.array([1, 50, 1])
    y = np.where(np.arange(600) < 20, X[:, 0] > 0, -1)
    model = LapSVC().fit(X, y)
    assert not model.drift(X[:300]).alarm
    assert model.drift((X[:300] + np.array([0, 40, 0])).astype(np.float32)).columns[0].column == 1
    assert_array_equal(model.drift(X).n_out, 0)
    rare = sparse.csr_matrix(np.maximum(X, 0))
    with pytest.raises(DataError, match="distribution of the points of the fit is not known"):
        LapSVC().fit(rare, y).drift(rare)

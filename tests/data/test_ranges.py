"""How new points lie to the ranges of the training points."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse

from dssl import LapSVC
from dssl.base.errors import DataError
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

"""Whether new points are distributed as those of the fit: counts by their definition, and honest alarms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse, stats

from dssl import LapSVC
from dssl.base.errors import DataError
from dssl.data.scaling.drift import FALSE_ALARMS, Drift, Usual, two_sided
from dssl.data.scaling.out_of_range import Ranges
from dssl.execution.in_process import InProcess
from dssl.storage.csr import as_rows


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

"""What columns hold, and its combination over blocks."""

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.data.survey import Survey, choose_columns, two_sum

# Sums of them need no more than 106 bits, but far more than 53.
EXACT = st.integers(-2**50, 2**50).flatmap(lambda k: st.sampled_from([k * 2.0**-30, k * 2.0**10]))


def surveyed(blocks):
    whole, row = None, 0
    for block in blocks:
        actual = Survey.of(block, row)
        whole, row = actual if whole is None else whole.merge(actual), row + len(block)
    return whole


@settings(max_examples=100, deadline=None)
@given(values=st.lists(st.one_of(st.just(np.nan), EXACT), min_size=1, max_size=40),
       cuts=st.lists(st.integers(0, 40), max_size=5))
def test_the_mean_is_the_true_one_whatever_the_blocks(values, cuts):
    """math.fsum is exact; a sum in one float would cancel here."""
    X = np.array([*values, 0.5])[:, None]
    blocks = [block for block in np.split(X, sorted(min(cut, len(X)) for cut in cuts)) if len(block)]
    actual = surveyed(blocks)
    known = [x for x in X[:, 0] if not math.isnan(x)]
    assert actual.present.tolist() == [len(known)]
    fill = choose_columns(actual, None, "t", impute=True).fill
    assert fill[0] == math.fsum(known) / len(known)
    assert fill[0] == choose_columns(surveyed([X]), None, "t", impute=True).fill[0]


def test_two_sum_is_exact():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 100)) * 10.0 ** rng.integers(-20, 20, (2, 100))
    total, error = two_sum(a, b)
    for x, y, s, e in zip(a, b, total, error, strict=True):
        assert s == x + y
        assert math.fsum([x, y, -s]) == e


def test_sparse_rows_are_surveyed_as_dense_ones():
    rng = np.random.default_rng(1)
    X = sparse.random_array((50, 7), density=0.4, rng=rng, format="csr")
    X.data[::5] = np.nan
    actual, dense = Survey.of(X), Survey.of(X.toarray())
    assert_array_equal(actual.present, dense.present)
    assert_array_equal(actual.high + actual.low, dense.high + dense.low)
    columns = choose_columns(actual, None, "t", impute=True)
    assert_allclose(columns.fill, np.nanmean(X.toarray(), axis=0))
    made = columns.apply(X, np.arange(7))
    assert made.imputed == np.isnan(X.data).sum()
    assert_array_equal(made.X.toarray(), columns.apply(X.toarray(), np.arange(7)).X)
    assert np.isnan(X.data).sum() == made.imputed  # the given matrix is not changed
    turned = columns.apply(X[:, ::-1].tocsr(), np.arange(7)[::-1])
    assert_array_equal(turned.X.toarray(), made.X.toarray())


def test_the_first_missing_text_is_remembered():
    table = pd.DataFrame({"a": ["x", "y", None, None]})
    actual = surveyed([table[:1], table[1:3], table[3:]])
    assert (actual.first_missing, actual.levels, actual.present.tolist()) == ({0: 2}, {0: {"x": 1, "y": 1}}, [2])


@pytest.mark.filterwarnings("error")
def test_infinite_cells_are_not_part_of_the_mean():
    actual = surveyed([np.array([[np.inf], [1.0]]), np.array([[3.0], [np.nan]])])
    assert choose_columns(actual, None, "t", impute=True).fill.tolist() == [4 / 3]
    assert actual.present.tolist() == [3]

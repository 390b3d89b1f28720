"""Cells far out of range and rows that hold them: they are named, and leave the scale of all others as it was."""

import warnings

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dssl import SemiSupervisedClassifier
from dssl.data.scaling import moments
from dssl.data.scaling.outliers import OutlierRows, Reaches, describe_outlier_rows, sampled_positions
from dssl.data.scaling.scaling import KINDS, ScalingParams, fit_scaling, fit_scalings
from dssl.execution.in_process import InProcess
from dssl.storage.blocks import ArrayRows


def table(n=400, random_state=0):
    """Return numbers in unlike units, a rare column of 0 and 1, and a constant one."""
    rng = np.random.default_rng(random_state)
    return np.column_stack([rng.normal(size=(n, 4)) * [1, 30, 0.01, 5] + [0, 500, 3, 0], rng.exponential(size=n),
                            rng.random(n) < 0.02, np.full(n, 7.0)])


def scalings(X, ids=None):
    return fit_scalings(ArrayRows(X), ids, [kind for kind in KINDS if kind != "unit_norm"], InProcess(1))


@pytest.mark.parametrize("value", [-999.0, 99999.0])
def test_a_row_of_sentinels_leaves_every_scale_as_it_was(value):
    X = table()
    actual, plain = scalings(np.vstack([X, np.full((1, X.shape[1]), value)])), scalings(X)
    for kind, item in actual.items():
        assert item.attributes["outliers"]["rows"] == [400]
        assert item.attributes["constant_columns"] == 1
        assert_allclose(item.transform(X), plain[kind].transform(X), atol=0.02 * np.abs(plain[kind].transform(X)).max())
        assert_allclose(item.seen.usual.largest, X.max(axis=0))
        assert_allclose(item.seen.largest, np.maximum(X.max(axis=0), value))
    cut = actual["standardize"].transform(np.full((1, X.shape[1]), value))
    assert np.abs(cut[:, :5]).max() < 30  # it was 20 on all others at most, and 100,000 where it lay
    assert actual["auto"].attributes["ranges"] == plain["auto"].attributes["ranges"]


def test_usual_tables_have_no_cell_out_of_range():
    """Neither rare levels, nor long tails, nor pixels at the border."""
    pixels = np.zeros((500, 40))
    pixels[:, 10:] = np.random.default_rng(0).integers(0, 255, (500, 30))
    pixels[7, 3], pixels[8, 3], pixels[9, 3] = 1, 2, 255
    for X in (table(), np.random.default_rng(1).normal(size=(3000, 3)), pixels):
        for item in scalings(X).values():
            assert "outliers" not in item.attributes
            assert not item.cuts


def test_one_wrong_cell_is_cut_off_and_named_with_its_column():
    X = table()
    X[17, 1] *= 1000
    outliers = scalings(X)["standardize"].attributes["outliers"]
    assert outliers["rows"] == [17]
    words = describe_outlier_rows(outliers, list("abcdefg"))
    assert words.startswith("row 17, counted from 0, lies far from all others: it has 1 cell out of range")
    assert words.endswith("in column 'b'")
    assert describe_outlier_rows(outliers, None, ["line 19, id 4"]).startswith("row 17 (line 19, id 4), counted from 0")


def test_a_code_of_many_cells_is_cut_off_and_no_row_is_far():
    X = table()
    X[::20, 0] = -9999
    item = scalings(X)["standardize"]
    assert item.attributes["outliers"] == {"cells": 20, "n_rows": 0, "rows": [], "examples": []}
    assert 0.7 < np.delete(item.transform(X)[:, 0], np.s_[::20]).std() < 1.3


@pytest.mark.parametrize("chosen", [None, np.arange(1, 401, 2)])
def test_outliers_do_not_depend_on_blocks(chosen, monkeypatch):
    X = np.vstack([table(), np.full((1, 7), -999.0)])
    ids = None if chosen is None else ArrayRows(np.append(chosen[:-1], 400))
    whole = scalings(X, ids)
    monkeypatch.setattr(moments, "moment_rows", lambda *_: 23)
    for kind, item in scalings(X, ids).items():
        assert item.attributes["outliers"] == whole[kind].attributes["outliers"]
        assert_array_equal(item.lower, whole[kind].lower)
        assert_allclose(item.factor, whole[kind].factor, rtol=1e-9)


def test_a_sample_of_many_rows_tells_reaches_within_two_percent_of_ranks():
    x = np.random.default_rng(0).exponential(size=(200_000, 1))
    places = sampled_positions(len(x), 1)
    assert len(places) == 10_000
    reach = Reaches.of(x[places]).reach[0]
    away = np.abs(x - np.median(x))
    assert np.quantile(away, 0.88) < reach < np.quantile(away, 0.92)


@pytest.mark.slow
def test_a_fit_names_the_row_and_predicts_as_without_it():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    X = rng.normal(size=(120, 5)) * [1, 1, 10, 10, 0.1] + 3 * y[:, None] * [1, 1, 10, 0, 0]
    labels = np.where(np.arange(120) < 20, y, -1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", OutlierRows)
        plain = SemiSupervisedClassifier().fit(X, labels)
    with pytest.warns(OutlierRows, match="row 120, counted from 0, lies far from all others"):
        actual = SemiSupervisedClassifier().fit(np.vstack([X, np.full((1, 5), 99999.0)]), np.append(labels, -1))
    assert actual.evidence_["scale"]["outliers"]["rows"] == [120]
    named = pd.DataFrame(np.vstack([X, np.full((1, 5), 99999.0)]), index=[f"p{i}" for i in range(121)])
    named.columns = list("abcde")
    with pytest.warns(OutlierRows, match=r"row 120 \(index 'p120'\), counted from 0, lies far from all others"):
        SemiSupervisedClassifier().fit(named, np.append(labels, -1))
    assert (actual.transduction_[:120] != plain.transduction_).mean() < 0.03


def test_a_user_who_asks_for_no_scale_has_values_as_they_are():
    X = np.vstack([table(), np.full((1, 7), -999.0)])
    unscaled = fit_scaling(ArrayRows(X), None, ScalingParams(kind="none"), InProcess(1))
    assert_array_equal(unscaled.transform(X), X)
    assert "outliers" not in unscaled.attributes
    by_labels = fit_scaling(ArrayRows(X), None, ScalingParams(kind="none"), InProcess(1), chosen=True)
    assert by_labels.cuts
    assert by_labels.attributes["outliers"]["rows"] == [400]

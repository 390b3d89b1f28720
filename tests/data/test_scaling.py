"""Scaling of features, against scikit-learn, and independent of blocks."""

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.preprocessing import MinMaxScaler, StandardScaler, normalize

from dssl.blocks import ArrayRows
from dssl.data import scaling
from dssl.data.dataset import Dataset
from dssl.data.scaling import Moments, ScaledRows, Scaling, ScalingParams, fit_scaling, merge_pairwise
from dssl.errors import DataError, ParameterError
from dssl.execution import InProcess, OnDask


def fit(X, kind, ids=None, **options):
    return fit_scaling(ArrayRows(X), ids, ScalingParams(kind=kind), InProcess(1), **options)


def points(n=300, d=4, seed=0):
    rng = np.random.default_rng(seed)
    return rng.normal(loc=1000 * rng.normal(size=d), scale=[0.01, 1, 100, 3][:d], size=(n, d))


def test_like_sklearn_on_the_training_rows_only():
    X, ids = points(), np.arange(0, 300, 3)
    assert_allclose(fit(X, "standardize", ids).transform(X), StandardScaler().fit(X[ids]).transform(X), rtol=1e-9,
                    atol=1e-9)
    assert_allclose(fit(X, "unit_range", ids).transform(X), MinMaxScaler().fit(X[ids]).transform(X), rtol=1e-9,
                    atol=1e-9)
    assert_allclose(fit(X, "unit_norm", ids).transform(X), normalize(X), rtol=1e-12)
    assert_allclose(fit(X, "global_range", ids).transform(X), X / np.abs(X[ids]).max(), rtol=1e-12)
    assert_array_equal(fit(X, "none").transform(X), X)
    other = X.copy()
    other[1] = 1e9  # not a training row
    assert_array_equal(fit(other, "standardize", ids).factor, fit(X, "standardize", ids).factor)


def test_pixels_are_divided_by_255():
    X = np.array([[0, 255], [51, 0]], np.uint8)
    scaled = fit(X, "global_range").transform(X)
    assert scaled.dtype == np.float32
    assert_allclose(scaled, [[0, 1], [0.2, 0]], rtol=1e-7)


@settings(max_examples=60)
@given(n=st.integers(1, 40), seed=st.integers(0, 20), offset=st.sampled_from([0.0, 1e3, 1e7]), data=st.data())
def test_moments_do_not_depend_on_blocks(n, seed, offset, data):
    X = np.random.default_rng(seed).normal(size=(n, 3)) + offset
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    blocks = np.split(X, cuts)
    merged, whole = merge_pairwise([Moments.of(block) for block in blocks]), Moments.of(X)
    assert merged.count == n
    assert_allclose(merged.mean, whole.mean, rtol=1e-13, atol=1e-14)
    assert_allclose(merged.squares, ((X - X.mean(0)) ** 2).sum(0), rtol=1e-9, atol=1e-12 * (1 + offset**2 * 1e-3))
    assert_array_equal(merged.smallest, X.min(0))
    assert_array_equal(merged.largest, X.max(0))


@pytest.mark.parametrize("kind", scaling.KINDS)
@pytest.mark.parametrize("largest_block", [32, 320, 10**6])
def test_fit_does_not_depend_on_blocks(kind, largest_block, monkeypatch):
    X, ids = points(), np.flatnonzero(np.arange(300) % 7 != 0)
    whole = fit(X, kind, ids)
    monkeypatch.setattr(scaling, "LARGEST_BLOCK", largest_block)
    found = fit(X, kind, ids)
    assert_allclose(found.transform(X), whole.transform(X), rtol=1e-9, atol=1e-9)
    assert found.attributes == whole.attributes


def test_variance_survives_a_large_mean():
    X = 1e9 + np.array([[0.0], [1], [2], [3]])
    assert_allclose(fit(X, "standardize").factor, 1 / X.std(), rtol=1e-12)


@pytest.mark.parametrize("kind", ["standardize", "unit_range"])
def test_constant_columns_become_zero_and_are_named(kind):
    X = np.column_stack([np.full(50, 0.1), np.arange(50.0), np.zeros(50)])
    found = fit(X, kind, feature_names=["a", "b", "c"])
    assert found.attributes["constant_columns"] == 2
    assert found.attributes["constant_column_names"] == ["a", "c"]
    assert found.attributes["zero_rows"] == 0
    assert_array_equal(found.transform(X + np.array([1, 0, 1]))[:, [0, 2]], 0)
    assert fit(X, kind).attributes["constant_column_names"] == ["column 0", "column 2"]


def test_zero_rows_stay_zero_and_are_counted():
    X = np.array([[0, 0], [3, 4], [1e-200, 0], [1e200, 1e200]])
    found = fit(X, "unit_norm")
    assert found.attributes["zero_rows"] == 1
    assert_allclose(found.transform(X), [[0, 0], [0.6, 0.8], [1, 0], [0.5**0.5, 0.5**0.5]], rtol=1e-15)


def test_types_and_shapes():
    X = points().astype(np.float32)
    found = fit(X, "standardize")
    assert found.transform(X).dtype == np.float32
    assert found.transform(X.astype(np.float64)).dtype == np.float64
    with pytest.raises(DataError, match=r"shape \(3, 2\), expected \(rows, 4\)"):
        found.transform(np.ones((3, 2)))


@pytest.mark.parametrize("kind", scaling.KINDS)
def test_arrays_make_the_same_scaling(kind):
    X = points()
    found = fit(X, kind)
    again = Scaling.from_arrays(*found.to_arrays())
    assert_array_equal(again.transform(X), found.transform(X))
    assert again.attributes == found.attributes


def test_rows_are_scaled_where_they_are_read(tmp_path):
    data = Dataset.from_arrays(points().astype(np.float32)).save(tmp_path / "d")
    found = fit_scaling(data.X, None, ScalingParams(), InProcess(2))
    rows = ScaledRows(data.X, found)
    expected = found.transform(data.X.read_all())
    assert (rows.shape, rows.dtype) == ((300, 4), np.float32)
    assert_array_equal(rows.read(10, 20), expected[10:20])
    assert_array_equal(rows.take(np.array([5, 2])), expected[[5, 2]])


def test_fits_that_are_refused():
    with pytest.raises(ParameterError, match="scaling 'minmax'"):
        ScalingParams(kind="minmax")
    with pytest.raises(DataError, match="no training rows"):
        fit(points(), "standardize", np.array([], int))
    with pytest.raises(DataError, match="there are 300 rows"):
        fit(points(), "standardize", np.array([300]))
    with pytest.raises(DataError, match="column b spreads beyond"):
        fit(np.array([[0, 1e308], [1, -1e308]]), "standardize", feature_names=["a", "b"])


@pytest.mark.cluster
def test_a_cluster_fits_the_same_scaling(tmp_path, cluster_client, monkeypatch):
    data = Dataset.from_arrays(points(3000)).save(tmp_path / "d")
    monkeypatch.setattr(scaling, "LARGEST_BLOCK", 32 * 500)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with dask.config.set({"temporary-directory": str(scratch)}):
        there = fit_scaling(data.X, np.arange(0, 3000, 2), ScalingParams(), OnDask(cluster_client))
    here = fit_scaling(data.X, np.arange(0, 3000, 2), ScalingParams(), InProcess(1))
    assert_array_equal(there.shift, here.shift)
    assert_array_equal(there.factor, here.factor)
    assert list(scratch.glob("*/*")) == []  # the parts of the fit are gone

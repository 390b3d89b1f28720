"""Scaling of features, against scikit-learn, and independent of blocks."""

import pickle
from functools import reduce

import dask
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler, normalize

from dssl.base.errors import DataError, ParameterError
from dssl.data.dataset import Dataset
from dssl.data.scaling import scaling
from dssl.data.scaling.moments import merged, moments_of
from dssl.data.scaling.outliers import columns_of_category, zero_one_columns
from dssl.data.scaling.scaling import KINDS, ScaledRows, Scaling, ScalingParams, fit_scaling, scaled
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.graph.knn_graph import KNNGraph
from dssl.storage.blocks import ArrayRows
from dssl.storage.csr import CsrRows, as_csr
from dssl.storage.store import StoredParts


def fit(X, kind, ids=None, **options):
    chosen = None if ids is None else ArrayRows(ids)
    return fit_scaling(ArrayRows(X), chosen, ScalingParams(kind=kind), InProcess(1), **options)


def points(n=300, d=4, random_state=0):
    rng = np.random.default_rng(random_state)
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


@settings(max_examples=25)
@given(n=st.integers(1, 40), random_state=st.integers(0, 20), offset=st.sampled_from([0.0, 1e3, 1e7]), data=st.data())
def test_moments_do_not_depend_on_blocks(n, random_state, offset, data):
    X = np.random.default_rng(random_state).normal(size=(n, 3)) + offset
    cuts = sorted(data.draw(st.sets(st.integers(1, n - 1)))) if n > 1 else []
    blocks = np.split(X, cuts)
    fitted, whole = reduce(merged, [moments_of(block) for block in blocks]), moments_of(X)
    assert fitted["count"] == n
    assert_allclose(fitted["mean"], whole["mean"], rtol=1e-13, atol=1e-14)
    assert_allclose(fitted["squares"], ((X - X.mean(0)) ** 2).sum(0), rtol=1e-9, atol=1e-12 * (1 + offset**2 * 1e-3))
    assert_array_equal(fitted["smallest"], X.min(0))
    assert_array_equal(fitted["largest"], X.max(0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("largest_block", [32, 320, 10**6])
def test_fit_does_not_depend_on_blocks(kind, largest_block):
    X, ids = points(), np.flatnonzero(np.arange(300) % 7 != 0)
    whole = fit(X, kind, ids)
    fitted = fit(X, kind, ids, largest_block=largest_block)
    assert_allclose(fitted.transform(X), whole.transform(X), rtol=1e-9, atol=1e-9)
    assert fitted.attributes == whole.attributes


def test_variance_survives_a_large_mean():
    X = 1e9 + np.array([[0.0], [1], [2], [3]])
    assert_allclose(fit(X, "standardize").factor, 1 / X.std(), rtol=1e-12)


@pytest.mark.parametrize("kind", ["standardize", "unit_range"])
def test_constant_columns_become_zero_and_are_named(kind):
    X = np.column_stack([np.full(50, 0.1), np.arange(50.0), np.zeros(50)])
    fitted = fit(X, kind, feature_names=["a", "b", "c"])
    assert fitted.attributes["constant_columns"] == 2
    assert fitted.attributes["constant_column_names"] == ["a", "c"]
    assert fitted.attributes["zero_rows"] == 0
    assert_array_equal(fitted.transform(X + np.array([1, 0, 1]))[:, [0, 2]], 0)
    assert fit(X, kind).attributes["constant_column_names"] == ["column 0", "column 2"]


def test_zero_rows_stay_zero_and_are_counted():
    X = np.array([[0, 0], [3, 4], [1e-200, 0], [1e200, 1e200]])
    fitted = fit(X, "unit_norm")
    assert fitted.attributes["zero_rows"] == 1
    assert_allclose(fitted.transform(X), [[0, 0], [0.6, 0.8], [1, 0], [0.5**0.5, 0.5**0.5]], rtol=1e-15)


def test_types_and_shapes():
    X = points().astype(np.float32)
    fitted = fit(X, "standardize")
    assert fitted.transform(X).dtype == np.float32
    assert fitted.transform(X.astype(np.float64)).dtype == np.float64
    with pytest.raises(DataError, match=r"shape \(3, 2\), expected \(rows, 4\)"):
        fitted.transform(np.ones((3, 2)))


@pytest.mark.parametrize("kind", KINDS)
def test_arrays_make_the_same_scaling(kind):
    X = points()
    fitted = fit(X, kind)
    again = Scaling.from_arrays(*fitted.to_arrays())
    assert_array_equal(again.transform(X), fitted.transform(X))
    assert again.attributes == fitted.attributes


def test_rows_are_scaled_where_they_are_read(tmp_path):
    data = Dataset.from_arrays(points().astype(np.float32)).save(tmp_path / "d")
    fitted = fit_scaling(data.X, None, ScalingParams(), InProcess(2))
    rows = ScaledRows(data.X, fitted)
    expected = fitted.transform(data.X.read_all())
    assert (rows.shape, rows.dtype) == ((300, 4), np.float32)
    assert_array_equal(rows.read(10, 20), expected[10:20])
    assert_array_equal(rows.take(np.array([5, 2])), expected[[5, 2]])


def test_tasks_carry_where_a_scaling_lies_and_not_its_arrays(tmp_path):
    class Stored(InProcess):
        def scratch(self):
            return StoredParts(tmp_path / "scratch")

    X = np.random.default_rng(0).normal(size=(20, 1536))
    X[:, 100:] = 5.0
    data = Dataset.from_arrays(X.astype(np.float32)).save(tmp_path / "d")
    fitted = fit_scaling(data.X, None, ScalingParams(kind="standardize"), InProcess(1))
    rows = ScaledRows(data.X, fitted, Stored(1))
    assert len(pickle.dumps(rows)) < 1000
    assert_array_equal(pickle.loads(pickle.dumps(rows)).read(3, 9), ScaledRows(data.X, fitted).read(3, 9))


def test_fits_that_are_refused():
    with pytest.raises(ParameterError, match="scale='minmax'"):
        ScalingParams(kind="minmax")
    with pytest.raises(DataError, match="no training rows"):
        fit(points(), "standardize", np.array([], int))
    with pytest.raises(DataError, match="there are 300 rows"):
        fit(points(), "standardize", np.array([300]))
    with pytest.raises(DataError, match="column 'b' spreads beyond"):
        fit(np.array([[0, 1e308], [1, -1e308]]), "standardize", feature_names=["a", "b"])
    with pytest.raises(DataError, match=r"^column 1 \(counted from 0\) spreads beyond"):
        fit(np.array([[0, 1e308], [1, -1e308]]), "standardize")


@pytest.mark.cluster
def test_a_cluster_fits_the_same_scaling(tmp_path, cluster_client):
    data = Dataset.from_arrays(points(3000)).save(tmp_path / "d")
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    with dask.config.set({"temporary-directory": str(scratch)}):
        there, here = (fit_scaling(data.X, ArrayRows(np.arange(0, 3000, 2)), ScalingParams(), execution,
                                   largest_block=32 * 500) for execution in (OnDask(cluster_client), InProcess(1)))
    assert_array_equal(there.shift, here.shift)
    assert_array_equal(there.factor, here.factor)
    assert list(scratch.glob("*/*")) == []  # the parts of the fit are gone
    wide = Dataset.from_arrays(points(40, 4).repeat(300, axis=1)).save(tmp_path / "wide")
    fitted, execution = fit_scaling(wide.X, None, ScalingParams(), InProcess(1)), OnDask(cluster_client)
    rows = scaled(wide.X, fitted, execution)
    assert fitted.kind == "standardize"
    assert len(pickle.dumps(rows)) < 2000, "a task carries the place of a scaling, not 1,200 factors"
    assert_array_equal(rows.read(3, 9), fitted.transform(wide.X.read(3, 9)))


def test_auto_leaves_one_unit_and_standardizes_others():
    X = points(60)
    assert (fit(X, "auto").kind, fit(X, "auto").attributes["ranges"] > 1e3) == ("standardize", True)
    assert_array_equal(fit(X, "auto").factor, fit(X, "standardize").factor)
    alike = np.random.default_rng(0).normal(size=(60, 8))
    assert fit(alike, "auto").kind == "none"
    border = alike * [1, 1, 1, 1, 1, 1, 1, 1e-3]  # fewer than a quarter of the columns
    assert fit(border, "auto").kind == "none"
    assert fit(border[:, [0, 1, 7]], "auto").kind == fit(border[:, [0, 7]], "auto").kind == "standardize"
    flags = (alike > 0).astype(float)
    assert fit(flags, "auto").kind == "none", "there are no numbers beside them"
    pixels = np.random.default_rng(0).random((60, 40))
    assert fit(np.hstack([flags, pixels]), "auto").kind == "none", "in one unit with many numbers"
    few = fit(np.hstack([flags, alike[:, :2] / 3]), "auto")
    assert (few.kind, few.attributes["numbers"]) == ("auto", "none")
    assert few.factor.max() == 1 > few.factor.min() > 0.05


@pytest.mark.parametrize("n", [30, 500, 4000])
def test_columns_of_zero_and_one_take_one_factor_of_the_distance_to_near_neighbors(n):
    """Whatever the share of ones; of a sample of many points the distance is that of all of them."""
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(n, 2)) * [1e3, 1.0]
    flags = (rng.random((n, 3)) < [0.5, 0.9, 0.99]).astype(float)
    flags[0], flags[1] = 1, 0
    fitted = fit(np.hstack([numbers, flags]), "auto")
    assert (fitted.kind, fitted.attributes["categories"]) == ("auto", 3)
    assert_array_equal(fitted.shift[2:], 0)
    assert len(set(fitted.factor[2:])) == 1
    assert_array_equal(fitted.factor[:2], fit(numbers, "standardize").factor)
    Z = fit(numbers, "standardize").transform(numbers)[:500]
    all_of_them = fit(numbers, "standardize").transform(numbers)
    near = np.median([np.sort(np.linalg.norm(all_of_them - item, axis=1))[min(10, n - 1)] for item in Z])
    assert fitted.attributes["level_distance"] == pytest.approx(min(1.4 * near, 2), rel=0.1)
    assert fitted.factor[2] == pytest.approx(fitted.attributes["level_distance"]), "0 and 1 are two levels"


def test_a_category_spreads_at_most_as_far_as_a_number():
    """Between far neighbors; one of many levels has nearer levels than one of two, in one column or in two."""
    rng = np.random.default_rng(0)
    n = 400
    numbers = rng.normal(size=(n, 30)) * 10.0 ** np.arange(30)
    eight, flag, other = np.eye(8)[np.arange(n) % 8], rng.integers(0, 2, (n, 1)), rng.integers(0, 2, (n, 1))
    X = np.hstack([eight, flag, other, 1 - other, numbers])
    assert_array_equal(columns_of_category(X[:, :11]), [8] * 8 + [1, 2, 2])
    Z = fit(X, "auto").transform(X)
    assert Z[:, :8].var(axis=0).sum() == pytest.approx(1)
    assert_allclose([Z[:, 8].var(), Z[:, 9:11].var(axis=0).sum()], 1, atol=0.02)


@given(st.integers(0, 30), st.sampled_from([0.5, 1 - 1e-6, 2.0, -1.0, 1.0, 0.0]), st.integers(2, 20))
def test_zero_one_columns_are_told_by_their_moments(ones, odd, zeros):
    X = np.array([[0.0]] * zeros + [[1.0]] * ones + [[odd]])
    assert bool(zero_one_columns(moments_of(X))[0]) == (set(X.ravel()) == {0.0, 1.0})


def sparse_points(n=80, d=9, random_state=0, dtype=np.float64):
    rng = np.random.default_rng(random_state)
    X = (rng.normal(size=(n, d)) * (rng.random((n, d)) < 0.3)).astype(dtype)
    X[3], X[:, 4], X[:, 5] = 0, 0, np.abs(X[:, 5]) + 2  # an empty row, an empty column, one without zeros
    rows = as_csr(X)
    rows.data[0] = 0  # stored, and zero
    return rows


@pytest.mark.parametrize("kind", scaling.KEEPS_ZEROS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_are_scaled_as_dense_ones(kind, dtype):
    X, ids = sparse_points(dtype=dtype), np.arange(0, 80, 3)
    on_sparse = fit_scaling(CsrRows(X), ArrayRows(ids), ScalingParams(kind=kind), InProcess(2, memory_budget=20_000))
    on_dense = fit(X.toarray(), kind, ids)
    assert_array_equal(on_sparse.factor, on_dense.factor)
    assert on_sparse.attributes == on_dense.attributes
    scaled, wanted = on_sparse.transform(X), on_dense.transform(X.toarray())
    assert isinstance(scaled, sparse.csr_array)
    assert scaled.dtype == wanted.dtype
    assert_allclose(scaled.toarray(), wanted, rtol=1e-15 if dtype == np.float64 else 1e-7)
    rows = ScaledRows(CsrRows(X), on_sparse)
    assert rows.is_sparse
    assert rows.row_bytes == CsrRows(scaled).row_bytes
    assert_array_equal(rows.take(np.array([5, 2])).toarray(), scaled[[5, 2]].toarray())
    assert_array_equal(Scaling.from_arrays(*on_sparse.to_arrays()).transform(X).toarray(), scaled.toarray())


def test_the_largest_absolute_value_of_a_column_becomes_one():
    X = np.array([[1.0, -4, 0, 5], [2, 1, 0, 5]])
    assert_allclose(fit(X, "max_abs").transform(X), [[0.5, -1, 0, 1], [1, 0.25, 0, 1]])
    assert_allclose(fit(X, "max_abs").transform(X), MaxAbsScaler().fit_transform(X))


@pytest.mark.parametrize("kind", ["standardize", "unit_range"])
def test_kinds_that_move_zeros_are_refused_for_sparse_rows_and_densify_a_block_at_a_time(kind):
    X = sparse_points()
    with pytest.raises(DataError, match=rf"(?s)'{kind}' of sparse rows \(80 x 9\).*unit_norm.*sparse: false"):
        fit_scaling(CsrRows(X), None, ScalingParams(kind=kind), InProcess(1))
    rows = ScaledRows(CsrRows(X), fit(X.toarray(), kind))
    assert not rows.is_sparse
    assert rows.row_bytes == 8 * 9
    assert_array_equal(rows.read(2, 7), fit(X.toarray(), kind).transform(X.toarray()[2:7]))


@settings(max_examples=30, deadline=None)
@given(n=st.integers(2, 30), random_state=st.integers(0, 50), cut=st.integers(1, 29))
def test_moments_of_sparse_rows_are_those_of_dense_ones(n, random_state, cut):
    X = sparse_points(max(n, 4), random_state=random_state)
    cut = min(cut, X.shape[0] - 1)
    fitted, wanted = merged(moments_of(X[:cut]), moments_of(X[cut:])), moments_of(X.toarray())
    for name in ("count", "zero_rows", "smallest", "largest"):
        assert_array_equal(fitted[name], wanted[name])
    assert_allclose(fitted["mean"], wanted["mean"], atol=1e-14)
    assert_allclose(fitted["squares"], wanted["squares"], atol=1e-12)


def test_constant_columns_of_sparse_rows_are_counted_and_some_are_named():
    X = sparse.csr_array((np.ones(2), np.array([0, 7]), np.array([0, 1, 2])), shape=(2, 5000))
    fitted = fit_scaling(CsrRows(X), None, ScalingParams(kind="max_abs"), InProcess(1)).attributes
    assert fitted["constant_columns"] == 4998
    assert fitted["constant_column_names"][:2] == ["column 1", "column 2"]
    assert len(fitted["constant_column_names"]) == 100


@pytest.mark.parametrize("kind", ["auto", "standardize", "none", "unit_norm"])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_values_are_no_outliers(kind, value):
    X = np.random.default_rng(0).normal(size=(500, 4)).astype(np.float32)
    X[7, 2] = value
    for points in (X, sparse.csr_array(X)) if kind in ("auto", "unit_norm", "none") else (X,):
        with pytest.raises(DataError, match=r"column 2.*infinite values"):
            KNNGraph(n_neighbors=5).build(points, scale=kind)

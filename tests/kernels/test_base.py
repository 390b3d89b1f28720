"""Named kernels against scikit-learn, their exact diagonals, and the median heuristic."""

import json
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import pairwise

from dssl.base.errors import DataError, ParameterError
from dssl.kernels import points as module
from dssl.kernels.base import (
    FLOAT32_ROWS,
    RBF,
    Cosine,
    LaplacianKernel,
    Linear,
    Polynomial,
    diagonal_of,
    kernel_from,
    kernel_from_dict,
    median_bandwidth,
)
from dssl.kernels.points import squared_distances
from dssl.storage.blocks import ArrayRows
from tests.memory import traced_peak

from .. import reference

ALL = [RBF(1.7), LaplacianKernel(2.3), Linear(), Polynomial(3, 0.5, 1.5), Cosine()]


def points(n, d=4, random_state=0):
    return np.random.default_rng(random_state).normal(size=(n, d))


@pytest.mark.parametrize(("kernel", "expected"), [
    (RBF(1.7), lambda X, Z: pairwise.rbf_kernel(X, Z, gamma=0.5 / 1.7**2)),
    (LaplacianKernel(2.3), lambda X, Z: pairwise.laplacian_kernel(X, Z, gamma=1 / 2.3)),
    (Linear(), pairwise.linear_kernel),
    (Polynomial(3, 0.5, 1.5), lambda X, Z: pairwise.polynomial_kernel(X, Z, degree=3, gamma=0.5, coef0=1.5)),
    (Cosine(), pairwise.cosine_similarity),
])
def test_blocks_equal_those_of_scikit_learn(kernel, expected):
    X, Z = points(13, random_state=1), points(7, random_state=2)
    X[3] = 0.0
    assert_allclose(kernel(X, Z), expected(X, Z), rtol=1e-12, atol=1e-14)
    assert_allclose(kernel(X, X), expected(X, X), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize("dtype", [np.float32, np.uint8, np.int64, np.bool_])
def test_input_of_any_number_type_is_computed_in_float64(kernel, dtype):
    X = np.random.default_rng(3).integers(0, 200, size=(9, 5)).astype(dtype)
    block = kernel(X, X[:4])
    assert block.dtype == np.float64
    assert_array_equal(block, kernel(X.astype(np.float64), X[:4].astype(np.float64)))


@pytest.mark.parametrize("kernel", ALL)
@settings(max_examples=25, deadline=None)
@given(n=st.integers(1, 20), d=st.integers(1, 6), random_state=st.integers(0, 10**6), copies=st.integers(0, 5))
def test_gram_matrices_are_symmetric_positive_and_keep_their_diagonal(kernel, n, d, random_state, copies):
    X = points(n, d, random_state)
    X = np.concatenate([X, X[:copies]])
    K = kernel(X, X)
    assert_array_equal(K, K.T)
    assert_array_equal(np.diagonal(K), kernel.diagonal(X))
    assert np.linalg.eigvalsh(K).min() >= -1e-12 * np.abs(K).max() * len(X)


@pytest.mark.parametrize("kernel", ALL)
@settings(max_examples=20, deadline=None)
@given(n=st.integers(1, 30), cut=st.integers(0, 30), random_state=st.integers(0, 10**6))
def test_a_block_does_not_depend_on_the_rows_around_it(kernel, n, cut, random_state):
    X, Z = points(n, 3, random_state), points(5, 3, random_state + 1)
    parts = np.concatenate([kernel(X[:cut], Z), kernel(X[cut:], Z)])
    assert_allclose(parts, kernel(X, Z), rtol=1e-13, atol=1e-13)


def test_rbf_keeps_its_digits_far_from_the_origin():
    X, Z = np.round(points(40, 6, 4), 6), np.round(points(30, 6, 5), 6)
    far_X, far_Z = X + 2.0**13, Z + 2.0**13
    exact = reference.rbf(far_X, far_Z, 0.5)
    assert_allclose(RBF(0.5)(far_X, far_Z), exact, rtol=1e-12)
    naive = (far_X**2).sum(1)[:, None] - 2 * far_X @ far_Z.T + (far_Z**2).sum(1)
    assert np.abs(np.exp(-naive / 0.5) / exact - 1).max() > 1e-8, "without centering the digits are lost"


def test_squared_distances_are_never_negative_and_zero_between_equal_rows_of_one_array():
    X = np.repeat(points(10, 30, 6) * 1e3, 2, axis=0)
    distances = squared_distances(X, X)
    assert distances.min() >= 0
    assert_array_equal(np.diagonal(distances), 0.0)
    assert_allclose(distances, reference.squared_distances(X, X), rtol=1e-12, atol=1e-7)


def test_cosine_of_zero_and_of_tiny_vectors():
    X = np.array([[0.0, 0.0], [3e-200, 4e-200], [3.0, 4.0]])
    assert_allclose(Cosine()(X, X), [[0, 0, 0], [0, 1, 1], [0, 1, 1]], rtol=1e-15)


def test_nan_in_a_point_stays_visible():
    X = points(3)
    X[1, 0] = np.nan
    assert np.isnan(RBF(1.0)(X, points(4, random_state=1))[1]).all()


@pytest.mark.parametrize("kernel", ALL)
def test_kernels_survive_json_and_pickle(kernel):
    stored = json.loads(json.dumps(kernel.to_dict()))
    assert kernel_from_dict(stored) == kernel
    assert pickle.loads(pickle.dumps(kernel)) == kernel


def test_kernel_from_names_kernels_and_takes_functions():
    X = points(20)
    assert kernel_from("rbf", 2.0) == RBF(2.0)
    assert kernel_from("rbf", rows=X, random_state=5) == RBF(median_bandwidth(X, 5) / 2)
    assert kernel_from("rbf", np.float32(0.5)) == kernel_from("rbf", 0.5)
    assert kernel_from("laplacian", "median", rows=X) == LaplacianKernel(median_bandwidth(X, 0, metric="cityblock"))
    assert kernel_from("polynomial", degree=2, offset=0.0) == Polynomial(2, 1.0, 0.0)
    assert kernel_from("linear", "median", rows=X) == Linear()
    function = pairwise.rbf_kernel
    assert kernel_from(function) is function
    assert_allclose(diagonal_of(lambda A, B: A @ B.T, points(150)), Linear().diagonal(points(150)), rtol=1e-14)


@pytest.mark.parametrize(("build", "says"), [
    (lambda: kernel_from("gaussian"), "rbf, laplacian, linear, polynomial, cosine"),
    (lambda: kernel_from("rbf"), "rows=X"),
    (lambda: kernel_from("rbf", -1.0), "bandwidth=-1.0"),
    (lambda: kernel_from("rbf", float("nan")), "bandwidth=nan"),
    (lambda: kernel_from("linear", 2.0), "has no parameter bandwidth"),
    (lambda: kernel_from("rbf", 1.0, degree=3), "has no parameter degree"),
    (lambda: kernel_from("polynomial", degree=1.5), "degree=1.5"),
    (lambda: kernel_from("polynomial", offset=-1.0), "offset=-1.0"),
    (lambda: kernel_from(Linear(), 2.0), "has its own parameters"),
    (lambda: kernel_from(3), "neither a name nor a function"),
    (lambda: kernel_from_dict({"type": "rbfs"}), "no kernel named 'rbfs'"),
])
def test_errors_say_what_to_do(build, says):
    with pytest.raises(ParameterError, match=says):
        build()


@pytest.mark.parametrize(("X", "Z", "says"), [
    (points(3, 4), points(3, 5), "X has 4 features and Z has 5"),
    (points(3)[0], points(3), "two dimensions"),
    (np.array([["a", "b"]]), points(3), "dtype <U1"),
])
def test_points_that_cannot_be_compared(X, Z, says):
    with pytest.raises(DataError, match=says):
        RBF(1.0)(X, Z)


def test_median_bandwidth_is_the_median_distance():
    X = points(30)
    assert_allclose(median_bandwidth(X, 0), reference.median_distance(X), rtol=1e-14)
    assert_allclose(median_bandwidth(ArrayRows(X), 0, metric="cityblock"), reference.median_distance(X, 1), rtol=1e-14)


def test_median_bandwidth_leaves_duplicates_out():
    X = np.repeat(points(6), [20, 1, 1, 1, 1, 1], axis=0)
    assert_allclose(median_bandwidth(X, 0), reference.median_distance(X), rtol=1e-14)
    assert median_bandwidth(np.repeat([[0.0], [3.0]], [50, 1], axis=0), 0) == 3.0


def test_median_bandwidth_of_a_sample_follows_the_seed_and_is_close():
    X = points(3000, 8)
    first = median_bandwidth(X, 1, sample=400)
    assert first == median_bandwidth(X, 1, sample=400)
    assert first != median_bandwidth(X, 2, sample=400)
    assert_allclose(first, np.sqrt(2 * 7.344), rtol=0.03)  # |x - z|^2 / 2 is chi-square with 8 degrees of freedom


@pytest.mark.parametrize(("X", "says"), [
    (np.ones((5, 2)), "all sampled points are equal"),
    (points(1), "there is only 1 sample"),
    (np.array([[1.0], [np.nan]]), "NaN"),
])
def test_median_bandwidth_errors(X, says):
    with pytest.raises(DataError, match=says):
        median_bandwidth(X, 0)


@pytest.mark.parametrize("kernel", ALL)
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_float32_blocks_are_those_of_float64_to_its_rounding(kernel, form):
    """Also beyond the rows that are evaluated at a time; to 1e-6 of the largest entry, 3e-7 measured."""
    dense = points(2500, 6, 1) * (points(2500, 6, 2) > 0)
    X, Z = form(dense), form(dense[:40] + 0.1)
    wide, narrow = kernel(X, Z), kernel(X, Z, dtype=np.float32)
    assert (wide.dtype, narrow.dtype) == (np.float64, np.float32)
    assert narrow.shape == wide.shape
    assert np.abs(narrow - wide).max() < 1e-6 * np.abs(wide).max()
    K = kernel(Z, Z, dtype=np.float32)
    assert K.dtype == np.float32
    assert_array_equal(K, K.T)
    assert_array_equal(np.diagonal(K), kernel.diagonal(Z.astype(np.float32)).astype(np.float32))
    assert kernel(X[:0], Z, dtype=np.float32).shape == (0, 40)


@pytest.mark.parametrize("dtype", [np.uint8, np.int64, np.bool_, np.float64])
def test_float32_blocks_of_other_numbers(dtype):
    X = np.random.default_rng(3).integers(0, 200, size=(9, 5)).astype(dtype)
    for kernel in ALL:
        expected = kernel(X.astype(np.float64), X[:4].astype(np.float64))
        assert_allclose(kernel(X, X[:4], dtype="float32"), expected, rtol=1e-5, atol=1e-6)


def test_float32_keeps_its_digits_far_from_the_origin():
    X, Z = np.round(points(40, 6, 4), 2), np.round(points(30, 6, 5), 2)
    X, Z = (np.round(A * 64) / 64 + 2.0**13 for A in (X, Z))  # which float32 holds
    assert_allclose(RBF(0.5)(X, Z, dtype=np.float32), RBF(0.5)(X, Z), rtol=2e-4, atol=1e-6)


@pytest.mark.parametrize("kernel", [LaplacianKernel(1.0), RBF(1.0)])
def test_a_float32_block_is_never_held_in_float64(kernel):
    X, Z = points(20_000, 4), points(100, 4, 1)
    kernel(X[:5], Z, dtype=np.float32)
    upper_bound = 20_000 * (4 * 100 + 3 * 4 * 4) + FLOAT32_ROWS * 100 * 16
    assert traced_peak(lambda: kernel(X, Z, dtype=np.float32), upper_bound) < upper_bound


def test_distances_of_few_and_many_points_have_the_same_bits(monkeypatch):
    X, Z = np.random.default_rng(0).normal(size=(2, 90, 7)) + 1e3
    few = squared_distances(X, Z), squared_distances(X, X)
    monkeypatch.setattr(module, "FEW_VALUES", 0)
    for found, again in zip(few, (squared_distances(X, Z), squared_distances(X, X)), strict=True):
        assert_array_equal(found, again)
    assert_array_equal(few[1], few[1].T)


@pytest.mark.parametrize(("unit", "says"), [
    (1e150, r"up to \d\.\d+e\+150 in absolute value, and two points typically"), (1e200, "up to"), (1e120, "typically"),
    (1e-120, "typically"), (1e-200, r"up to \d\.\d+e-200 in absolute value\n")])
@pytest.mark.parametrize("as_given", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_a_median_that_is_no_bandwidth_is_refused_as_a_matter_of_the_features(unit, says, as_given):
    X = np.random.default_rng(0).normal(size=(50, 3)) * unit
    with pytest.raises(DataError, match=f"(?s){says}.*scale the features"):
        median_bandwidth(as_given(X), 0)

"""Named kernels on dense and sparse points against scikit-learn, their exact diagonals, and blocks in memory."""

import json
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.metrics import pairwise

from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
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
from dssl.kernels.deformed import landmark_deformation
from dssl.kernels.gram import block_rows, entries_of, kernel_block
from dssl.kernels.points import as_points, squared_distances
from dssl.learners.linear.kernel_model import KernelModel
from dssl.learners.target.coding import Values
from dssl.storage.blocks import ArrayRows, budget_beside
from dssl.storage.csr import CsrRows, as_csr, as_rows
from tests.memory import traced_peak
from tests.storage.test_csr import sparse_rows

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


# Kernel blocks: how tall they may be, the memory that they take, and what a kernel may return


def budget_for(kernel, rows, m, d=4):
    """Return a budget in bytes that blocks of exactly `rows` rows just fit, with no arrays of the kernel's own."""
    return budget_beside(24 * m * d + rows * (kernel.row_bytes(d, m) + 8 * d))


def test_block_rows_solve_the_formula():
    X, kernel = ArrayRows(points(100)), RBF(1.0)
    for rows in (1, 13, 100):
        assert block_rows(kernel, X, 7, budget_for(kernel, rows, 7)) == rows
    with pytest.raises(BudgetError, match="memory_budget"):
        block_rows(kernel, X, 7, budget_for(kernel, 1, 7) - 1)


@pytest.mark.parametrize("kernel", [RBF(1.0), LaplacianKernel(1.0), Linear(), Polynomial(), Cosine()],
                         ids=lambda kernel: kernel.name)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_peak_memory_stays_within_the_formula(kernel, dtype):
    d, b = 30, 1000
    for m in (50, 800):
        X, Z = points(b, d).astype(dtype), points(m, d, 1).astype(dtype)
        kernel_block(kernel, X[:2], Z)  # compiles
        formula = b * kernel.row_bytes(d, m) + 24 * m * d
        upper_bound = 1.02 * formula + 10_000
        assert 0.4 * formula < traced_peak(partial(kernel_block, kernel, X, Z), upper_bound) < upper_bound


@pytest.mark.parametrize("dtype", [bool, np.int8, np.uint64, np.float32, np.float64, np.longdouble, object])
def test_values_of_a_function_are_taken_in_float32_or_float64(dtype):
    X = np.random.default_rng(0).normal(size=(6, 2))
    block = kernel_block(lambda X, Z: (np.subtract.outer(X[:, 0], Z[:, 0]) > 0).astype(dtype), X, X[:4])
    assert block.dtype == (np.float32 if dtype == np.float32 else np.float64)
    assert_array_equal(block, X[:, None, 0] > X[None, :4, 0])


@pytest.mark.parametrize("dtype", [np.complex128, np.float16, "datetime64[s]"])
def test_values_of_a_function_that_are_no_real_numbers_are_refused(dtype):
    X = np.ones((3, 2))
    with pytest.raises(DataError, match="expected real numbers in float32 or float64"):
        kernel_block(lambda X, Z: np.ones((len(X), len(Z)), int).astype(dtype), X, X)


def test_errors_name_what_does_not_fit():
    X, Z = points(4), points(5, random_state=1)
    with pytest.raises(DataError, match=r"returned shape \(5, 4\) for 4 x 5 points"):
        kernel_block(lambda A, B: B @ A.T, X, Z)
    with pytest.raises(DataError, match="X has 3 features and Z has 4"):
        kernel_block(Linear(), X[:, :3], Z)


# Kernels on sparse points against the same kernels on dense ones


KERNELS = [RBF(1.3), LaplacianKernel(2.0), Linear(), Polynomial(3, 0.5, 1.0), Cosine()]
NAMED = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)


@NAMED
@settings(max_examples=12, deadline=None)
@given(n=st.integers(1, 8), m=st.integers(1, 8), d=st.integers(1, 9), share=st.sampled_from([0.0, 0.3, 1.0]),
       random_state=st.integers(0, 10**6))
def test_blocks_are_the_dense_ones_whichever_is_sparse(kernel, n, m, d, share, random_state):
    X, Z = sparse_rows(n, d, share, random_state, np.float32), sparse_rows(m, d, share, random_state + 1)
    dense = kernel(X.toarray(), Z.toarray())
    both = kernel(X, Z)
    assert isinstance(both, np.ndarray)
    assert_allclose(both, dense, rtol=1e-12, atol=1e-12)
    assert_array_equal(kernel(X.toarray(), Z), both)
    assert_array_equal(kernel(X, Z.toarray()), both)
    assert_allclose(diagonal_of(kernel, X), diagonal_of(kernel, X.toarray()), rtol=1e-13)


@NAMED
def test_a_gram_matrix_is_symmetric_with_an_exact_diagonal(kernel):
    X = sparse_rows(40, 200, 0.05, 3)
    K = kernel(X, X)
    assert_array_equal(K, K.T)
    assert_array_equal(np.diagonal(K), kernel.diagonal(X))
    assert np.linalg.eigvalsh(K).min() > -1e-10 * np.abs(K).max()


def test_equal_rows_have_distance_zero_and_cancellation_is_as_stated():
    rng = np.random.default_rng(0)
    far = as_csr(1e6 + rng.random((20, 50)))
    near = as_csr(far.toarray() + 1e-3 * rng.normal(size=(20, 50)))
    exact = ((far.toarray()[:, None] - near.toarray()) ** 2).sum(-1)
    lengths = (far.toarray() ** 2).sum(1)[:, None] + (near.toarray() ** 2).sum(1)
    assert (np.abs(squared_distances(far, near) - exact) <= 53 * 2.0**-52 * lengths).all()
    assert_array_equal(np.diagonal(squared_distances(far, far.copy())), 0)
    assert_array_equal(np.diagonal(LaplacianKernel(1.0)(far, far.copy())), 1)


def test_points_stay_sparse_and_are_checked():
    X = sparse_rows(4, 6, 0.5, 1, np.float32)
    assert as_points(X).dtype == np.float64
    assert X.dtype == np.float32
    twice = sparse.csr_array((np.array([1.0, 2.0]), np.array([3, 3]), np.array([0, 2])), shape=(1, 6))
    assert_array_equal(Linear()(twice, X), 3 * X.toarray()[:, 3].astype(np.float64)[None])
    with pytest.raises(DataError, match="6 features and Z has 5"):
        Linear()(X, X[:, :5])
    with pytest.raises(DataError, match="dtype complex"):
        as_points(X.astype(complex))


@pytest.mark.parametrize("metric", ["euclidean", "cityblock"])
def test_the_median_distance_leaves_copies_out(metric):
    X = sparse_rows(60, 90, 0.1, 5)
    assert median_bandwidth(CsrRows(X), 0, metric=metric) == pytest.approx(
        median_bandwidth(X.toarray(), 0, metric=metric), rel=1e-12)
    copies = as_csr(np.tile(X.toarray()[:1], (5, 1)))
    with pytest.raises(DataError, match="all sampled points are equal"):
        median_bandwidth(CsrRows(copies), 0, metric=metric)
    X.data[3] = np.nan
    with pytest.raises(DataError, match="NaN or infinite"):
        median_bandwidth(CsrRows(X), 0, metric=metric)
    assert kernel_from("laplacian", "0.5*median", rows=CsrRows(sparse_rows(60, 90, 0.1, 5))).bandwidth > 0


@pytest.mark.parametrize("form", ["both", "X", "Z"])
def test_blocks_as_tasks(form):
    X, Z = sparse_rows(300, 40, 0.2, 6), sparse_rows(9, 40, 0.2, 7)
    coef = np.random.default_rng(0).normal(size=(9, 2))
    x, z = (X if form != "Z" else X.toarray()), (Z if form != "X" else Z.toarray())
    K = RBF(2.0)(X, Z)
    execution = InProcess(2, memory_budget=50_000 + 24 * 9 * 40 * 2)
    model = KernelModel(RBF(2.0), z, coef, np.zeros(2), Values())
    assert_allclose(model.values(x, execution), K @ coef, rtol=1e-13, atol=1e-14)
    assert_allclose(model.support(x, execution), K.max(axis=1), rtol=1e-13)


def test_memory_follows_the_entries_and_not_the_columns():
    X = CsrRows(sparse.random_array((1000, 20_000), density=0.001, format="csr", rng=8))
    Z = as_csr(sparse.random_array((50, 20_000), density=0.001, format="csr", rng=9))
    budget = 2_000_000
    assert block_rows(RBF(1.0), X, 50, budget, sparse_entries=entries_of(Z)) > 500
    with pytest.raises(BudgetError):
        block_rows(RBF(1.0), as_rows(np.zeros((10, 20_000))), 50, budget)
    with pytest.raises(BudgetError):
        block_rows(RBF(1.0), X, 50, 100_000, sparse_entries=entries_of(Z))


def test_a_function_is_handed_sparse_rows_and_returns_an_array():
    X, Z = sparse_rows(70, 12, 0.3, 10), sparse_rows(5, 12, 0.3, 11)
    seen = []

    def overlap(A, B):
        seen.append((type(A), type(B)))
        return np.asarray((A @ B.T).toarray()) ** 2

    K = kernel_block(overlap, X, Z)
    assert_allclose(K, (X.toarray() @ Z.toarray().T) ** 2, atol=1e-13)
    assert set(seen) == {(sparse.csr_array, sparse.csr_array)}
    assert_allclose(diagonal_of(overlap, X), (X.toarray() ** 2).sum(1) ** 2)
    with pytest.raises(DataError, match="returned a csr_array"):
        kernel_block(lambda A, B: A @ B.T, X, Z)


@pytest.mark.parametrize("kernel", [RBF(1.5), Linear()], ids=lambda kernel: kernel.name)
def test_deformed_kernels_are_the_dense_ones(kernel):
    X_S, X = sparse_rows(12, 30, 0.2, 12), sparse_rows(7, 30, 0.2, 13)
    B = np.random.default_rng(1).normal(size=(12, 12))
    A = B @ B.T + np.eye(12)
    on_sparse = landmark_deformation(kernel, CsrRows(X_S), A, 2.0)
    wanted = landmark_deformation(kernel, X_S.toarray(), A, 2.0)(X.toarray(), X.toarray())
    assert_allclose(on_sparse(X, X), wanted, atol=1e-10)
    assert_allclose(on_sparse(X.toarray(), X), wanted, atol=1e-10)
    assert_allclose(on_sparse.diagonal(X), np.diagonal(wanted), atol=1e-10)
    coef = np.arange(14.0).reshape(7, 2)
    base, points, b = on_sparse.expansion(X, coef)
    assert sparse.issparse(points)
    assert_allclose(base(X, points) @ b, wanted @ coef, atol=1e-9)
    X_S.data[0] = np.inf
    with pytest.raises(DataError, match="landmarks hold NaN or infinite"):
        landmark_deformation(kernel, X_S, A, 1.0)

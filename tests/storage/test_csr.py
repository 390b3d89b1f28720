"""Sums and products of sparse rows against the dense ones, and their form as named arrays."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.storage.csr import (
    absolute_sums,
    as_csr,
    as_rows,
    digest_of_arrays,
    digest_of_rows,
    largest_of_rows,
    overlaps,
    point_arrays,
    points_nbytes,
    points_of,
    products,
    squared_lengths,
    stack_points,
    unit_rows,
)


def sparse_rows(n, d, share, random_state, dtype=np.float64):
    """Return rows with rows without entries among them, equal rows, and stored zeros."""
    rng = np.random.default_rng(random_state)
    dense = (rng.normal(size=(n, d)) * (rng.random((n, d)) < share)).astype(dtype)
    if n > 3:
        dense[1], dense[2] = 0, dense[0]
    rows = as_csr(dense)
    if rows.nnz:
        rows.data[rng.integers(rows.nnz)] = 0
    return rows


@settings(max_examples=30, deadline=None)
@given(n=st.integers(1, 9), m=st.integers(1, 9), d=st.integers(1, 12), share=st.sampled_from([0.0, 0.2, 1.0]),
       random_state=st.integers(0, 10**6))
def test_sums_and_products_are_the_dense_ones(n, m, d, share, random_state):
    X, Z = sparse_rows(n, d, share, random_state, np.float32), sparse_rows(m, d, share, random_state + 1)
    x, z = X.toarray().astype(np.float64), Z.toarray()
    assert_allclose(products(X, Z), x @ z.T, atol=1e-13)
    assert_allclose(overlaps(X, Z), (np.abs(x)[:, None] + np.abs(z) - np.abs(x[:, None] - z)).sum(-1), atol=1e-13)
    assert_allclose(squared_lengths(X), (x**2).sum(1), rtol=1e-14)
    assert_allclose(absolute_sums(Z), np.abs(z).sum(1), rtol=1e-14)
    assert_array_equal(largest_of_rows(Z), np.abs(z).max(1))
    lengths = np.linalg.norm(z, axis=1, keepdims=True)
    assert_allclose(unit_rows(Z).toarray(), z / np.where(lengths > 0, lengths, 1), atol=1e-14)
    assert_array_equal(products(Z, Z), products(Z, Z).T)
    assert_array_equal(np.diagonal(products(Z, Z)), squared_lengths(Z))


def test_lengths_of_tiny_and_huge_rows():
    rows = unit_rows(as_csr(np.array([[3e-200, 0, 4e-200], [0, 3e200, 4e200], [0, 0, 0]])))
    assert_allclose(rows.toarray(), [[0.6, 0, 0.8], [0, 0.6, 0.8], [0, 0, 0]], rtol=1e-15)


def test_the_largest_of_a_row_shows_what_is_not_finite():
    rows = as_csr(np.array([[1.0, np.nan, 2], [np.inf, 0, -1], [0, 0, 0], [-5, 1, 0]]))
    assert_array_equal(largest_of_rows(rows), [np.nan, np.inf, 0, 5])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_named_arrays_make_the_same_points(dtype):
    X = sparse_rows(6, 5, 0.4, 0, dtype)
    arrays = point_arrays("points", X)
    assert sorted(arrays) == ["points.data", "points.indices", "points.indptr", "points.shape"]
    back = points_of(arrays, "points")
    assert (back.dtype, back.shape, back.indices.dtype) == (dtype, (6, 5), np.int32)
    assert_array_equal(back.toarray(), X.toarray())
    dense = X.toarray()
    assert points_of(point_arrays("points", dense), "points") is dense
    with pytest.raises(KeyError, match="other"):
        points_of(arrays, "other")
    assert points_nbytes(dense) == dense.nbytes
    assert points_nbytes(X) == X.nnz * (np.dtype(dtype).itemsize + 4) + 7 * X.indptr.itemsize


def test_stacking_dense_and_sparse_points():
    X, Z = sparse_rows(4, 5, 0.4, 1), np.ones((2, 5))
    assert_array_equal(stack_points(Z, Z), np.ones((4, 5)))
    for blocks in ((X, X), (X, Z), (Z, X)):
        stacked = stack_points(*blocks)
        assert isinstance(stacked, sparse.csr_array)
        assert_array_equal(stacked.toarray(), np.vstack([b.toarray() if sparse.issparse(b) else b for b in blocks]))


def test_digests_of_rows_are_of_their_values():
    X = np.random.default_rng(0).normal(size=(5000, 3))
    X[X < 0] = 0
    dense = [X, X.astype(np.float32), X[:, :2], X[:-1], X[::-1], np.vstack([X, X[:1]]), X[:, ::-1]]
    rows = [as_rows(form(item)) for item in dense for form in (np.asarray, sparse.csr_array)]
    assert len({digest_of_rows(item) for item in rows}) == len(rows)
    assert digest_of_rows(as_rows(np.asfortranarray(X))) == digest_of_rows(as_rows(X))


def test_digests_of_arrays_are_of_names_shapes_types_and_values():
    a = np.arange(6)
    arrays = [{"a": a}, {"b": a}, {"a": a.reshape(2, 3)}, {"a": a.astype(np.int32)}, {"a": a + 1}, {"a": a, "b": a}]
    assert len({digest_of_arrays(item) for item in arrays}) == len(arrays)
    assert digest_of_arrays({"b": a, "a": a}) == digest_of_arrays({"a": a, "b": a.astype(">i8")})

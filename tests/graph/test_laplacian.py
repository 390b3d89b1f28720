"""The Laplacian against SciPy's, its spectrum, its null space, and points without edges."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse import csgraph

from dssl.base.errors import DataError, ParameterError
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.laplacian import Laplacian
from dssl.graph.regularizer import RegularizerParams
from dssl.graph.weights.build import weights
from dssl.knn.search import neighbors


def graph(n=80, random_state=0):
    return weights(neighbors(np.random.default_rng(random_state).normal(size=(n, 3)), 4))


def components_apart():
    """A triangle, a pair, and two isolated points."""
    W = np.zeros((7, 7))
    for i, j, w in [(0, 1, 1.0), (1, 2, 2.0), (0, 2, 0.5), (3, 4, 3.0)]:
        W[i, j] = W[j, i] = w
    return sp.csr_array(W)


@pytest.mark.parametrize("normalized", [False, True])
@pytest.mark.parametrize("made", [graph, components_apart])
def test_matrix_is_scipys_plus_the_ridge(made, normalized):
    W = made()
    expected = csgraph.laplacian(W.toarray(), normed=normalized)
    R = Laplacian(W, normalized).matrix(0.25)
    assert_allclose(R.toarray(), expected + 0.25 * np.eye(len(expected)), atol=1e-14)
    assert R.dtype == np.float64
    assert R.has_sorted_indices
    assert abs(R - R.T).nnz == 0


@given(n=st.integers(6, 50), random_state=st.integers(0, 99))
@settings(max_examples=25, deadline=None)
def test_rows_sum_to_zero_and_eigenvalues_are_at_most_two(n, random_state):
    W = graph(n, random_state)
    assert_allclose(Laplacian(W, normalized=False).matrix() @ np.ones(n), 0, atol=1e-13)
    values = np.linalg.eigvalsh(Laplacian(W).matrix().toarray())
    assert values.min() > -1e-12
    assert values.max() < 2 + 1e-12


@pytest.mark.parametrize("normalized", [False, True])
def test_the_vector_spans_the_null_space_component_by_component_and_isolated_rows_hold_the_ridge(normalized):
    laplacian = Laplacian(components_apart(), normalized)
    N = laplacian.vector[:, None] * (np.array([0, 0, 0, 1, 1, 2, 3])[:, None] == np.arange(4))
    assert (laplacian.vector > 0).all()
    assert_allclose(laplacian.matrix() @ N, 0, atol=1e-14)
    assert np.linalg.matrix_rank(laplacian.matrix().toarray()) == 3
    R = laplacian.matrix(0.5).toarray()
    assert_array_equal(R[5:], 0.5 * np.eye(7)[5:])
    assert laplacian.matrix().diagonal()[5] == 0


def test_self_loops_drop_out():
    W = components_apart()
    looped = sp.csr_array(W + sp.eye_array(7))
    assert_array_equal(Laplacian(looped).matrix().toarray(), Laplacian(W).matrix().toarray())


@pytest.mark.parametrize(("W", "message"), [
    (np.ones((2, 3)), "shape"),
    (np.array([[0, -1.0], [-1, 0]]), "negative"),
    (np.array([[0, np.inf], [np.inf, 0]]), "infinite"),
    (np.array([[0, 1.0], [2, 0]]), "transpose"),
])
def test_weights_are_checked(W, message):
    with pytest.raises(DataError, match=message):
        Laplacian(sp.csr_array(W))


@pytest.mark.parametrize("given", [KNNGraph(n_neighbors=2).build(np.arange(12.0).reshape(6, 2)), "W", 3])
def test_what_is_no_matrix_is_refused_in_words(given):
    with pytest.raises(DataError, match=r"W is of type (Graph|str|int)[\s\S]*graph\.weights\(\)"):
        Laplacian(given)


@pytest.mark.parametrize("ridge", ["1", True, None, float("nan")])
def test_a_ridge_is_a_number(ridge):
    with pytest.raises(ParameterError, match="expected a number > 0"):
        RegularizerParams(ridge=ridge)


def test_ridge_is_checked():
    with pytest.raises(ParameterError, match="ridge=-1"):
        Laplacian(components_apart()).matrix(-1)

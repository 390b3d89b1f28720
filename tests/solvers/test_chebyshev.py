"""Combinations of functions of a Laplacian by one polynomial a column, against those of its eigenvalues."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.graph.laplacian import Laplacian
from dssl.solvers.block_tridiagonal import BlockTridiagonal, Functions
from dssl.solvers.chebyshev import chebyshev_coefficients, chebyshev_sum, largest_eigenvalue_bound, rounding
from dssl.solvers.krylov import krylov, null_part
from dssl.solvers.lanczos import SingularMatrix

from .test_krylov import exact, laplacian

FUNCTIONS = Functions(*zip(*product((1e-3, 0.1, 1.0), (1, 2, 3)), strict=True))
TOLERANCE = 1e-2


def prepared(L, columns, coef, max_steps=400):
    """Return the matrix, and coefficients with an interval for a combination."""
    A = SingularMatrix.of(L.matrix(), L.vector)
    process = krylov(A, A.place[columns], A.place[columns], FUNCTIONS, TOLERANCE, max_steps)
    T = BlockTridiagonal(process.alpha, process.beta)
    high = largest_eigenvalue_bound(A, 0)
    return A, chebyshev_coefficients(T, T.combined(FUNCTIONS, coef), high), high


@pytest.mark.parametrize("pieces", [1, 4])
def test_a_combination_is_that_of_the_eigenvalues(pieces):
    L = laplacian(pieces=pieces)
    columns = np.arange(3, 400, 60)
    expected = exact(L, FUNCTIONS, columns)
    scale = np.abs(expected).max(axis=(1, 2))
    coef = np.random.default_rng(1).normal(size=(len(FUNCTIONS), len(columns), 2)) / scale[:, None, None]
    A, D, high = prepared(L, columns, coef)
    values = np.empty((400, 2))
    values[A.order] = (chebyshev_sum(A, A.place[columns], D, high)
                       + null_part(A, A.place[columns], FUNCTIONS, coef))
    whole = np.einsum("mij,mjc->ic", expected, coef)
    error = np.abs(values - whole).max(axis=0)
    assert (error <= 0.02 * np.abs(whole).max(axis=0)).all()


@pytest.mark.parametrize("normalized", [True, False])
def test_the_bound_is_above_all_eigenvalues_and_at_most_twice_the_diagonal(normalized):
    for random_state in range(5):
        L = laplacian(random_state=random_state, normalized=normalized)
        values, A = np.linalg.eigvalsh(L.matrix().toarray()), SingularMatrix.of(L.matrix(), L.vector)
        assert 0.95 * values[-1] <= largest_eigenvalue_bound(A, random_state) <= 2 * A.diagonal.max()


@given(random_state=st.integers(0, 99), c=st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_blocks_of_columns_do_not_matter(random_state, c):
    L, columns = laplacian(200, random_state), np.arange(0, 200, 20)
    coef = np.random.default_rng(random_state).normal(size=(len(FUNCTIONS), len(columns), 6))
    A, D, high = prepared(L, columns, coef)
    whole = chebyshev_sum(A, columns, D, high)
    parts = [chebyshev_sum(A, columns, D[:, :, start:start + c], high) for start in range(0, 6, c)]
    assert_allclose(np.concatenate(parts, axis=1), whole, atol=1e-9 * np.abs(whole).max() + 10 * rounding(D).max())


def test_isolated_vertices_have_their_null_part_alone():
    L = Laplacian(sp.csr_array((4, 4)))
    coef = np.ones((len(FUNCTIONS), 2, 1))
    A = SingularMatrix.of(L.matrix(), L.vector)
    each = (np.array(FUNCTIONS.ridge) ** -np.array(FUNCTIONS.power, float)).sum()
    assert_allclose(null_part(A, A.place[[0, 2]], FUNCTIONS, coef)[A.place, 0], [each, 0, each, 0], rtol=1e-6)
    assert largest_eigenvalue_bound(A, 0) == 1
    A, D, high = prepared(L, np.array([0, 2]), coef)
    assert D.shape == (0, 2, 1)
    assert_array_equal(chebyshev_sum(A, A.place[[0, 2]], D, high), np.zeros((4, 1)))
    assert_array_equal(rounding(D), [0])


def test_polynomials_of_a_high_degree_have_a_large_rounding_error():
    L, coef = laplacian(200), np.ones((len(FUNCTIONS), 1, 1))
    A = SingularMatrix.of(L.matrix(), L.vector)
    process = krylov(A, np.array([0]), np.array([0]), FUNCTIONS, 1e-12, 150)
    T = BlockTridiagonal(process.alpha, process.beta)
    few, many = (rounding(chebyshev_coefficients(part, part.combined(FUNCTIONS, coef), 2.0))
                 for part in (T.first(12), T))
    assert many[0] > 1e3 * few[0]

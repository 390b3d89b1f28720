"""Combinations of functions of a Laplacian by one polynomial a column, against those of its eigenvalues."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose

from dssl.graph.laplacian import Laplacian
from dssl.solvers.chebyshev import Interval, combined_by_polynomial, polynomials
from dssl.solvers.lanczos import Functions, SingularMatrix, krylov

from .test_lanczos import exact, laplacian

FUNCTIONS = Functions(*zip(*product((1e-3, 0.1, 1.0), (1, 2, 3)), strict=True))
TOLERANCE = 1e-4


def prepared(L, columns, functions=FUNCTIONS):
    A = SingularMatrix.of(L.matrix(), L.vector)
    return A, Interval.of(A, [krylov(A, A.place[columns], A.place[columns], functions, TOLERANCE, 400)])


@pytest.mark.parametrize(("normalized", "pieces"), [(True, 1), (False, 1), (True, 4)])
def test_a_combination_is_that_of_the_eigenvalues(normalized, pieces):
    L = laplacian(normalized=normalized, pieces=pieces)
    columns = np.array([3, 77, 250])
    A, interval = prepared(L, columns)
    values = np.linalg.eigvalsh(L.matrix().toarray())
    assert interval.low <= values[values > 1e-8].min() * 1.01
    assert interval.high >= values.max()
    expected = exact(L, FUNCTIONS, columns)
    coef = np.random.default_rng(1).normal(size=(len(FUNCTIONS), 3, 2)) / interval.scale[:, None, None]
    polynomial = polynomials(FUNCTIONS, coef, interval, TOLERANCE)
    found = np.empty((400, 2))
    found[A.order] = combined_by_polynomial(A, A.place[columns], FUNCTIONS, interval, polynomial, coef)
    whole = np.einsum("mij,mjc->ic", expected, coef)
    assert_allclose(found, whole, atol=TOLERANCE * len(FUNCTIONS) + 1e-5 * np.abs(whole).max())


@given(random_state=st.integers(0, 99), c=st.integers(1, 5))
@settings(max_examples=10)
def test_blocks_of_columns_do_not_matter(random_state, c):
    L, columns = laplacian(200, random_state), np.array([0, 9, 100])
    A, interval = prepared(L, columns)
    coef = np.random.default_rng(random_state).normal(size=(len(FUNCTIONS), 3, 6))
    polynomial = polynomials(FUNCTIONS, coef, interval, TOLERANCE)
    whole = combined_by_polynomial(A, columns, FUNCTIONS, interval, polynomial, coef)
    parts = [combined_by_polynomial(A, columns, FUNCTIONS, interval, polynomial, coef[:, :, start:start + c])
             for start in range(0, 6, c)]
    assert_allclose(np.concatenate(parts, axis=1), whole, rtol=1e-6, atol=1e-6 * np.abs(whole).max())


def test_isolated_vertices_have_their_null_part_alone():
    L = Laplacian(sp.csr_array((4, 4)))
    A, interval = prepared(L, np.array([0, 2]))
    coef = np.ones((len(FUNCTIONS), 2, 1))
    polynomial = polynomials(FUNCTIONS, coef, interval, TOLERANCE)
    found = combined_by_polynomial(A, A.place[[0, 2]], FUNCTIONS, interval, polynomial, coef)[A.place, 0]
    each = (np.array(FUNCTIONS.ridge) ** -np.array(FUNCTIONS.power, float)).sum()
    assert_allclose(found, [each, 0, each, 0], rtol=1e-6)


def test_a_degree_that_is_too_large_is_not_used():
    coef = np.ones((1, 1, 1))
    assert polynomials(Functions((1e-9,), (3,)), coef, Interval(1e-9, 2.0, np.ones(1)), 1e-3) is None


def test_functions_that_count_for_nothing_ask_for_no_degree():
    interval = Interval(1e-3, 2.0, np.array([1.0, 1e6]))
    functions = Functions((1.0, 1e-3), (1, 3))
    both = polynomials(functions, np.ones((2, 1, 1)), interval, 1e-3)
    one = polynomials(functions, np.array([[[1.0]], [[0.0]]]), interval, 1e-3)
    assert one.shape[1] < both.shape[1] / 2

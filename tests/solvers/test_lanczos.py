"""Functions of a Laplacian by the Lanczos process, against those of its eigenvalues."""

from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl import KNNGraph
from dssl.base.errors import ParameterError
from dssl.graph.laplacian import Laplacian
from dssl.solvers.lanczos import Functions, Krylov, SingularMatrix, combined, krylov

FUNCTIONS = Functions(*zip(*product((0.01, 0.1, 1.0), (1, 2, 3)), strict=True))


def laplacian(n=400, random_state=0, normalized=True, pieces=1):
    """Return the Laplacian of a graph of clouds, in so many pieces."""
    rng = np.random.default_rng(random_state)
    blocks = [KNNGraph(n_neighbors=8).build(rng.normal(size=(n // pieces, 3))).weights() for _ in range(pieces)]
    return Laplacian(sp.csr_array(sp.block_diag(blocks)), normalized)


def exact(L, functions, columns):
    values, U = np.linalg.eigh(L.matrix().toarray())
    return np.einsum("ik,mk,jk->mij", U, functions.of(values), U[columns])


@pytest.mark.parametrize(("normalized", "pieces"), [(True, 1), (False, 1), (True, 4)])
def test_both_passes_are_functions_of_the_eigenvalues(normalized, pieces):
    L = laplacian(normalized=normalized, pieces=pieces)
    A = SingularMatrix.of(L.matrix(), L.vector)
    columns, rows = np.array([3, 77, 250]), np.array([250, 3, 0, 399])
    expected = exact(L, FUNCTIONS, columns)
    found = krylov(A, A.place[columns], A.place[rows], FUNCTIONS, 1e-3, 400)
    assert found.converged.all()
    scale = np.abs(expected).max(axis=1)[:, None]
    assert_allclose(found.values / scale, expected[:, rows] / scale, atol=1e-3)
    coef = np.random.default_rng(1).normal(size=(len(FUNCTIONS), 3, 2)) / scale[:, 0, :, None]
    whole = np.empty((400, 2))
    whole[A.order] = combined(A, found, FUNCTIONS, coef)
    assert_allclose(whole, np.einsum("mij,mjc->ic", expected, coef), atol=2e-3)


@given(random_state=st.integers(0, 99), width=st.integers(1, 5))
@settings(max_examples=10, deadline=None)
def test_a_column_does_not_depend_on_those_beside_it(random_state, width):
    L = laplacian(200, random_state)
    A = SingularMatrix.of(L.matrix(), L.vector)
    columns, rows = np.arange(0, 200, 37), np.arange(9)
    whole = krylov(A, columns, rows, FUNCTIONS, 1e-3, 200)
    for start in range(0, len(columns), width):
        part = krylov(A, columns[start:start + width], rows, FUNCTIONS, 1e-3, 200)
        assert_array_equal(part.values, whole.values[:, :, start:start + width])
        assert_array_equal(part.steps, whole.steps[start:start + width])


def test_a_small_ridge_takes_the_null_space_exactly():
    """What lies in it is divided by the ridge alone: 1e-12 to the third power leaves no digit for a rounding of it."""
    L = laplacian(120, pieces=2)
    A, functions = SingularMatrix.of(L.matrix(), L.vector), Functions((1e-12,), (3,))
    found = krylov(A, A.place[[0, 60]], A.place[[0, 1, 60, 61]], functions, 1e-3, 120)
    v = [L.vector[:60] / np.linalg.norm(L.vector[:60]), L.vector[60:] / np.linalg.norm(L.vector[60:])]
    assert_allclose(found.values[0] * 1e-36, [[v[0][0]**2, 0], [v[0][0] * v[0][1], 0], [0, v[1][0]**2],
                                              [0, v[1][0] * v[1][1]]], rtol=1e-6, atol=1e-20)


def test_an_isolated_vertex_and_a_pair_end_at_once():
    """Their Krylov spaces have no dimension and one."""
    W = sp.csr_array(np.array([[0, 0, 0], [0, 0, 2.0], [0, 2.0, 0]]))
    L = Laplacian(W)
    A = SingularMatrix.of(L.matrix(), L.vector)
    found = krylov(A, A.place[[0, 1]], A.place[[0, 1, 2]], FUNCTIONS, 1e-3, 40)
    assert found.converged.all()
    assert_allclose(found.values, exact(L, FUNCTIONS, [0, 1]), rtol=1e-5, atol=1e-12)
    coef = np.ones((len(FUNCTIONS), 2, 1))
    assert_allclose(combined(A, found, FUNCTIONS, coef)[A.place, 0], exact(L, FUNCTIONS, [0, 1]).sum(axis=(0, 2)),
                    rtol=1e-5)


def test_what_does_not_converge_says_so():
    X = np.linspace(0, 1, 2000)[:, None]
    L = Laplacian(KNNGraph(n_neighbors=2).build(X).weights())  # a path: eigenvalues from 1e-6 on
    A = SingularMatrix.of(L.matrix(), L.vector)
    found = krylov(A, np.array([5]), np.array([5]), Functions((1e-6,), (2,)), 1e-3, 64)
    assert not found.converged.any()
    assert found.steps.tolist() == [64]
    with pytest.raises(ParameterError, match="max_steps=3"):
        krylov(A, np.array([5]), np.array([5]), FUNCTIONS, 1e-3, 3)


def test_arrays_hold_everything():
    L = laplacian(60)
    A = SingularMatrix.of(L.matrix(), L.vector)
    again = SingularMatrix.from_arrays(A.to_arrays())
    first = krylov(A, np.array([1, 2]), np.array([3]), FUNCTIONS, 1e-3, 60)
    second = Krylov.from_arrays(krylov(again, np.array([1, 2]), np.array([3]), FUNCTIONS, 1e-3, 60).to_arrays())
    for name, array in first.to_arrays().items():
        assert_array_equal(array, second.to_arrays()[name])

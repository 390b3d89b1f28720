"""The approximate Cholesky factor: exact on trees, near A elsewhere, and the same however it is made."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.solvers.cholesky import Cholesky, max_fill
from dssl.solvers.scaling import scaled_matrix
from dssl.solvers.solve import prepare, solve
from dssl.solvers.solver_params import SolverParams

from .graphs import components, grid, points, random_graph, regularizer, symmetric, with_hub

GRAPHS = {
    "grid": lambda: grid(20),
    "expander": lambda: random_graph(400, 6, random_state=1),
    "weights over three decades": lambda: random_graph(400, 6, random_state=1, weighted=True),
    "hub": lambda: with_hub(random_graph(300, 4, random_state=2)),
    "pieces": lambda: components([200, 100, 30, 2, 1, 1], random_state=3),
}


def tree(n, random_state=0):
    """Return a random tree with weights over six decades."""
    rng = np.random.default_rng(random_state)
    vertex = np.arange(1, n)
    return symmetric(vertex, (rng.random(n - 1) * vertex).astype(int), 10 ** rng.uniform(-6, 0, n - 1), n)


def dense(factor):
    """Return L D L' (n, n), of a factor without zero pivots."""
    n = factor.A.n
    place = np.argsort(factor.order)
    L = np.eye(n)
    column = np.repeat(np.arange(n), np.diff(factor.starts))
    L[place[factor.rows], column] = -factor.values
    matrix = np.empty((n, n))
    matrix[np.ix_(factor.order, factor.order)] = (L / factor.inverse) @ L.T
    return matrix


@settings(deadline=None, max_examples=30)
@given(n=st.integers(2, 60), random_state=st.integers(0, 1000), normalized=st.booleans())
def test_of_a_tree_is_exact(n, random_state, normalized):
    """The elimination of a leaf has one neighbor, so nothing is drawn."""
    A = scaled_matrix(*regularizer(tree(n, random_state), 1e-3, normalized))
    factor = Cholesky.prepare(A, 1)
    assert len(factor.rows) == n - 1
    assert_allclose(dense(factor), A.to_scipy().toarray(), atol=1e-6)


@pytest.mark.parametrize("graph", GRAPHS)
@pytest.mark.parametrize("ridge", [1e-2, 1e-5])
def test_the_preconditioned_spectrum_is_bounded(graph, ridge):
    A = scaled_matrix(*regularizer(GRAPHS[graph](), ridge, True))
    factor = Cholesky.prepare(A, 1)
    values = scipy.linalg.eigh(A.to_scipy().toarray(), dense(factor), eigvals_only=True)
    assert values.min() > 0.2
    assert values.max() < 5
    assert factor.fill < 5


def test_is_unbiased():
    """The mean over seeds of L D L' is A, because the edges drawn are a clique in expectation."""
    A = scaled_matrix(*regularizer(grid(5), 0.1, False))
    mean = np.mean([dense(Cholesky.prepare(A, 1, random_state=seed)) for seed in range(2000)], axis=0)
    assert_allclose(mean, A.to_scipy().toarray(), atol=0.02)


def test_the_solves_are_those_of_the_factor():
    A = scaled_matrix(*regularizer(GRAPHS["weights over three decades"](), 1e-3, True))
    factor = Cholesky.prepare(A, 1)
    for t in (1, 3, 8):
        B = np.random.default_rng(t).normal(size=(A.n, t)).astype(np.float32)
        expected = np.linalg.solve(dense(factor), B)
        assert_allclose(factor.preconditioner(t)(B), expected, rtol=1e-3, atol=1e-4 * np.abs(expected).max())


def test_threads_and_their_number_do_not_change_it():
    A = scaled_matrix(*regularizer(random_graph(2000, 6, random_state=4), 1e-3, True))
    alone = Cholesky.prepare(A, 1, random_state=5)
    with ThreadPoolExecutor(4) as threads:
        for other in threads.map(lambda _: Cholesky.prepare(A, 1, random_state=5), range(4)):
            for name, array in alone.to_arrays().items():
                assert_array_equal(array, other.to_arrays()[name])
    assert not np.array_equal(Cholesky.prepare(A, 1, random_state=6).rows, alone.rows)


def test_weights_over_ten_orders_of_magnitude():
    W = sp.triu(grid(60)).tocoo()
    W.data = 10 ** np.random.default_rng(0).uniform(-10, 0, W.nnz)
    R, vector = regularizer(sp.csr_matrix(W + W.T), 1e-3, False)
    B = points(3600, [0, 1800, 3599])
    solution = solve(R, B, method="cholesky", tol=1e-6, vector=vector)
    assert (np.linalg.norm(B - R @ solution.value, axis=0) <= 1.001e-6).all()
    assert solution.iterations.max() < 100


@pytest.mark.parametrize("normalized", [False, True])
def test_a_singular_matrix_in_pieces_has_its_pseudo_inverse(normalized):
    R, vector = regularizer(components([300, 150, 40, 2], random_state=3, weighted=True), 0, normalized)
    B = np.random.default_rng(0).normal(size=(R.shape[0], 4))
    expected = np.linalg.pinv(R.toarray(), rcond=1e-12, hermitian=True) @ B
    solution = solve(R, B, method="cholesky", tol=1e-9, vector=vector)
    assert_allclose(solution.value, expected, atol=1e-5 * np.abs(expected).max())


def test_positive_entries_go_to_the_diagonal():
    """Such a matrix is not a Laplacian, and the factor is a weaker preconditioner of it."""
    L, _ = regularizer(grid(12), 1e-2, False)
    R = sp.csr_matrix(L + sp.diags_array([0.05, 0.05], offsets=[7, -7], shape=L.shape)
                      + 0.1 * sp.identity(L.shape[0]))
    B = points(144, [0, 70])
    solution = solve(R, B, method="cholesky", tol=1e-8)
    assert_allclose(R @ solution.value, B, atol=1e-7)


def test_evidence():
    R, vector = regularizer(random_graph(500, 6, random_state=1), 1e-3, True)
    solver = prepare(R, 3, SolverParams(method="cholesky"), vector)
    assert solver.attributes["factor_entries"] == len(solver.method.rows)
    assert solver.attributes["fill"] == pytest.approx(2 * len(solver.method.rows) / len(solver.A.data), abs=1e-3)


@pytest.mark.parametrize("degree", [4, 10, 30])
@pytest.mark.parametrize("n", [1000, 10_000])
def test_the_fill_of_random_graphs_is_foretold(n, degree):
    W = random_graph(n, degree, random_state=n)
    factor = Cholesky.prepare(scaled_matrix(regularizer(W, 1e-3, False)[0]), 1)
    assert factor.fill <= 0.7 * max_fill(n)
    assert sum(array.nbytes for array in factor.to_arrays().values()) <= Cholesky.stored_bytes(n, len(factor.A.data), 1)


def test_the_bound_of_the_fill_grows_with_the_vertices():
    """Measured: 8.00 for each entry of the triangle of a random graph of 300,000 vertices and 10 neighbors."""
    n, nnz = 300_000, 3_000_000
    assert Cholesky.stored_bytes(n, nnz, 1) > 1.2 * (16 * n + 4 * 8 * nnz)
    assert Cholesky.prepare_bytes(n, 2**31, 1) - Cholesky.prepare_bytes(n, 2**31 - 1, 1) > 4 * (2**31 - 1)

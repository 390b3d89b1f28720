"""Gauss-Seidel preconditioning without its price: the same iterates as with the preconditioner, from one pass."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.solvers.gauss_seidel import RUN, GaussSeidel, _lower_ratios, split_gradients
from dssl.solvers.gauss_seidel_first import max_iterations
from dssl.solvers.pcg import conjugate_gradients
from dssl.solvers.scaling import scaled_matrix
from dssl.solvers.solve import prepare
from dssl.solvers.solver_params import SolverParams

from .graphs import components, grid, points, random_graph, regularizer


def of_triangles(A):
    """Return what applies `((I + L) (I + U))^-1`."""
    lower = np.tril(A.to_scipy().toarray())
    return lambda B: np.linalg.solve(lower.T, np.linalg.solve(lower, B))


@pytest.mark.parametrize("graph", [grid(12), random_graph(150, 5, random_state=1, weighted=True),
                                   components([40, 9, 1])], ids=["grid", "weighted", "pieces"])
@pytest.mark.parametrize("iterations", [1, 2, 7])
@pytest.mark.parametrize("t", [1, 2, 5])
def test_iterates_are_those_of_the_preconditioner(graph, iterations, t):
    A = scaled_matrix(*regularizer(graph, 1e-2, True))
    B = np.random.default_rng(0).normal(size=(A.n, t))
    budget, reduction = np.full(t, iterations), np.full(t, 1e-14)
    expected, _ = conjugate_gradients(A, B.copy(), reduction, budget, lambda t: of_triangles(A))
    E, used = split_gradients(A, B.copy(), reduction, budget)
    assert_allclose(E, expected, rtol=1e-8, atol=1e-10 * np.abs(expected).max())
    assert_array_equal(used, budget)


@settings(max_examples=25, deadline=None)
@given(random_state=st.integers(0, 50), reduction=st.sampled_from([0.5, 1e-2, 1e-5, 1e-9]), t=st.integers(1, 4))
def test_the_true_residual_falls_near_the_goal_and_not_far_below(random_state, reduction, t):
    A = scaled_matrix(*regularizer(random_graph(120, 4, random_state=random_state, weighted=True), 1e-3, False))
    B = np.random.default_rng(random_state).normal(size=(A.n, t)) * 10.0 ** np.arange(t)

    def fallen(iterations):
        E, _ = split_gradients(A, B.copy(), np.full(t, 1e-15), iterations)
        return np.linalg.norm(B - A.to_scipy() @ E, axis=0) / np.linalg.norm(B, axis=0)

    _, used = split_gradients(A, B.copy(), np.full(t, reduction), np.full(t, 500))
    assert (fallen(used) <= 1.15 * reduction).all()
    assert (fallen(np.maximum(used - 6, 0)) > reduction).all()


def test_residuals_of_many_vertices_are_compared_in_a_share_of_the_rows():
    """The columns are of vertices that are not sampled, whose residuals spread from there."""
    A = scaled_matrix(*regularizer(grid(100), 1e-2, True))
    columns = np.flatnonzero(np.arange(A.n) % RUN > RUN // 2)[[5, 500, 4000]]
    B = np.zeros((A.n, 3))
    B[columns, np.arange(3)] = 1
    E, _ = split_gradients(A, B.copy(), np.full(3, 1e-6), np.full(3, 500))
    residual = np.linalg.norm(B - A.to_scipy() @ E, axis=0)
    assert (residual < 2e-6).all()
    assert (residual > 1e-7).all()
    triangles = A.indptr, A.first_above, A.indices, A.data
    assert_array_equal(_lower_ratios(*triangles, B, np.arange(3)), 1)  # zero in all sampled rows
    R = np.random.default_rng(0).normal(size=(A.n, 2))
    expected = (((R + np.tril(A.off_diagonal().toarray()) @ R)**2).sum(axis=0) / (R**2).sum(axis=0))
    assert_allclose(_lower_ratios(*triangles, R, np.arange(2)), expected, rtol=0.1)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("method", ["gauss_seidel", "cholesky"])
def test_a_column_has_the_same_bits_beside_others(method, dtype):
    R, vector = regularizer(random_graph(300, 6, random_state=4, weighted=True), 1e-2, True)
    solver = prepare(R, 3, SolverParams(method=method), vector)
    B = np.random.default_rng(2).normal(size=(300, 17)).astype(dtype)
    whole, used = solver.method.gradients(B.copy(), np.full(17, 1e-4), np.full(17, 99))
    for columns in ([3], [0, 16], list(range(9))):
        some, iterations = solver.method.gradients(B[:, columns].copy(), np.full(len(columns), 1e-4),
                                                   np.full(len(columns), 99))
        assert_array_equal(some, whole[:, columns])
        assert_array_equal(iterations, used[columns])


def test_columns_without_work_or_budget_stay_zero():
    A = scaled_matrix(*regularizer(grid(6), 1e-2, True))
    B = np.random.default_rng(0).normal(size=(A.n, 3))
    B[:, 1] = 0
    E, used = split_gradients(A, B.copy(), np.full(3, 1e-8), np.array([99, 99, 0]))
    assert_array_equal(E[:, 1:], 0)
    assert_array_equal(used[1:], 0)
    assert_allclose(A.to_scipy() @ E[:, 0], B[:, 0], atol=1e-6)


def test_positive_entries_off_the_diagonal_are_solved_and_bounded():
    rng = np.random.default_rng(5)
    signs = sp.triu(random_graph(400, 5, random_state=6), 1).tocsr()
    signs.data = rng.choice([-1.0, 1.0], len(signs.data))
    R = sp.csr_array(signs + signs.T)
    R = R + sp.diags_array(np.abs(R).sum(axis=1) + 0.1)
    found = prepare(R, 2, SolverParams(method="gauss_seidel", tol=1e-8)).solve(points(400, [0, 9]))
    assert found.converged.all()
    assert_allclose(R @ found.value, points(400, [0, 9]), atol=1e-7)
    assert found.iterations.max() <= 2 * max_iterations(scaled_matrix(R), 1e-8)


def test_it_takes_fewer_iterations_than_none_within_its_bound():
    R, vector = regularizer(random_graph(5000, 8, random_state=3, weighted=True), 1e-2, True)
    A = scaled_matrix(R, vector)
    B = points(5000, [0, 70])
    _, plain = conjugate_gradients(A, A.enter(B), np.full(2, 1e-6), np.full(2, 500))
    _, used = split_gradients(A, A.enter(B), np.full(2, 1e-6), np.full(2, 500))
    assert (used <= 0.7 * plain).all()
    assert used.max() <= max_iterations(A, 1e-6)


def test_a_singular_matrix_has_a_solution_off_its_null_space():
    R, vector = regularizer(components([30, 20], weighted=True), 0, True)
    B = np.random.default_rng(1).normal(size=(50, 3))
    found = prepare(R, 3, SolverParams(method="gauss_seidel", tol=1e-10), vector).solve(B)
    assert_allclose(found.value, np.linalg.pinv(R.toarray()) @ B, atol=1e-7)


def test_a_diagonal_matrix_takes_one_iteration():
    A = scaled_matrix(np.diag([1.0, 4.0, 9.0]))
    E, used = split_gradients(A, np.array([[1.0], [2.0], [3.0]]), np.full(1, 1e-10), np.full(1, 9))
    assert_allclose(E[:, 0], [1, 2, 3])
    assert used[0] == 1
    assert GaussSeidel(A).entries()[0] == 0

"""Solves that begin near the solution end sooner, at the same one; a start that is of no use does no harm."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import ParameterError
from dssl.graph.knn_graph import KNNGraph
from dssl.solvers.solve import prepare, solve, solve_columns
from dssl.solvers.solver_params import SolverParams
from dssl.solvers.warm_start import extended
from tests.in_pairs import in_pairs

from .graphs import components, grid, points, random_graph, regularizer

ITERATIVE = ("gauss_seidel", "deflated", "amg", "cholesky")


@pytest.fixture(scope="module")
def graphs():
    """Return the weights of 1500 points, and of these with 15 more, in two clouds."""
    X = np.random.default_rng(0).normal(size=(1515, 3))
    X[::3] += 9
    return [KNNGraph(n_neighbors=8).build(X[:n], scale="none").weights() for n in (1500, 1515)]


def before_and_after(graphs, ridge, normalized, t=6):
    """Return the matrix, its vector and right-hand sides, and the solutions before the graph grew, extended."""
    systems = [regularizer(W, ridge, normalized) for W in graphs]
    B = [points(W.shape[0], np.arange(0, 1500, 1500 // t)) for W in graphs]
    old = solve(systems[0][0], B[0], method="direct", vector=systems[0][1]).value
    if not normalized:
        return *systems[1], B[1], extended(old, graphs[1])
    (_, before), (R, after) = systems
    return R, after, B[1], extended(old / before[:, None], graphs[1]) * after[:, None]


@in_pairs({"normalized": [False, True], "ridge": [0, 1e-6, 1e-2], "method": ITERATIVE})
def test_a_graph_that_grew_is_solved_sooner_from_the_solution_before(graphs, method, ridge, normalized):
    R, vector, B, start = before_and_after(graphs, ridge, normalized)
    solver = prepare(R, B.shape[1], SolverParams(method=method, tol=1e-8), vector)
    cold, warm = solver.solve(B), solver.solve(B, start)
    exact = solve(R, B, method="direct", vector=vector).value
    assert warm.converged.all()
    assert warm.residuals.max() <= 1e-8
    assert_allclose(warm.value, exact, atol=1e-5 * np.abs(exact).max())
    assert warm.iterations.sum() < 0.9 * cold.iterations.sum()


@pytest.mark.parametrize("method", ITERATIVE)
@pytest.mark.parametrize("ridge", [0, 1e-5])
def test_a_start_of_no_use_does_no_harm(method, ridge):
    """One that is random, of another size, zero, no number, or the null vector; and a column of zeros."""
    R, vector = regularizer(components([300, 200], random_state=1), ridge, True)
    B = np.hstack([points(500, [3] * 7), np.zeros((500, 1))])
    solver = prepare(R, 8, SolverParams(method=method, tol=1e-9), vector)
    cold, start = solver.solve(B), np.random.default_rng(0).normal(size=B.shape)
    start[:, 1] *= 1e12
    start[:, 2] = -1e-9 * cold.value[:, 2]
    start[:, 3] = 0
    start[7, 4] = np.nan
    start[:, 5] = vector
    start[:, 6] = 1e200
    warm = solver.solve(B, start)
    assert warm.converged.all()
    assert_allclose(warm.value, cold.value, atol=1e-6 * np.abs(cold.value).max())
    assert warm.iterations[2] == 0  # a multiple of the solution
    assert (warm.iterations[:7] <= 1.2 * cold.iterations[:7] + 2).all()
    assert_array_equal(warm.value[:, 7], 0)


@pytest.mark.parametrize("method", ITERATIVE)
def test_the_solution_needs_no_iteration_and_is_relative_to_the_right_hand_side(method):
    R, _ = regularizer(grid(20), 1e-3, False)
    B = points(400, [0, 90, 399])
    found = prepare(R, 3, SolverParams(method=method, tol=1e-9)).solve(B)
    again = prepare(R, 3, SolverParams(method=method, tol=1e-7)).solve(B, found.value)
    assert not again.iterations.any()
    residuals = np.linalg.norm(B - R @ again.value, axis=0) / np.linalg.norm(B, axis=0)
    assert_allclose(again.residuals, residuals, rtol=1e-3, atol=1e-12)
    assert residuals.max() <= 1e-7


def test_a_column_does_not_depend_on_its_block():
    R, vector = regularizer(random_graph(300, random_state=4, weighted=True), 1e-4, True)
    rng = np.random.default_rng(0)
    B, start = rng.normal(size=(300, 5)), rng.normal(size=(300, 5))
    whole = prepare(R, 5, SolverParams(method="gauss_seidel", block_columns=5), vector).solve(B, start)
    for block in (1, 3):
        found = prepare(R, 5, SolverParams(method="gauss_seidel", block_columns=block), vector).solve(B, start)
        assert_array_equal(found.value, whole.value)


def test_a_factor_gives_the_bits_that_it_gives_without():
    R, _ = regularizer(grid(20), 1e-3, False)
    solver, B = prepare(R, 2, SolverParams(method="direct")), points(400, [0, 90])
    assert_array_equal(solver.solve(B, np.ones((400, 2))).value, solver.solve(B).value)


def test_what_is_solved_once_begins_there_too(graphs):
    """Few columns that Gauss-Seidel ends, or begins; and the public function, of one column."""
    R, _, B, start = before_and_after(graphs, 1e-3, False, t=2)
    params = SolverParams(method="gauss_seidel", tol=1e-8)
    cold, warm = (solve_columns(R, B, params, start=begin)[0] for begin in (None, start))
    assert warm.iterations.sum() < cold.iterations.sum()
    found = solve(R, B[:, 0], method="gauss_seidel", tol=1e-8, start=start[:, 0])
    assert found.value.shape == (1515,)
    assert found.iterations[0] == warm.iterations[0]


def test_a_start_of_another_shape_is_refused():
    R, _ = regularizer(grid(5), 1e-3, False)
    with pytest.raises(ParameterError, match=r"a start of shape \(24, 1\), expected \(25, 1\)"):
        prepare(R, 1, SolverParams(method="gauss_seidel")).solve(points(25, [0]), np.ones((24, 1)))


def test_new_vertices_have_the_weighted_mean_of_their_neighbors_that_have_one():
    """2 is beside 0 and 1; 3 beside 1 and 4; 4 beside 3 alone; nothing joins 5 and 6 to the others."""
    W = sp.csr_array((np.array([1.0, 3, 2, 5, 7]), (np.array([2, 2, 3, 4, 6]), np.array([0, 1, 1, 3, 5]))), (7, 7))
    found = extended(np.array([[1.0, 0], [5, 8]]), W + W.T)
    assert_allclose(found, [[1, 0], [5, 8], [4, 6], [5, 8], [5, 8], [0, 0], [0, 0]])
    with pytest.raises(ParameterError, match="values of 8 vertices, and a graph of 7"):
        extended(np.ones((8, 1)), W)


@given(st.integers(1, 30), st.integers(0, 2**16))
def test_values_are_kept_and_constants_stay_constant_where_a_path_leads(m, random_state):
    W = components([20, 10], random_state=random_state % 7, weighted=True)
    known = np.random.default_rng(random_state).normal(size=(m, 2))
    assert_array_equal(extended(known, W)[:m], known)
    of = sp.csgraph.connected_components(W, directed=False)[1]
    assert_allclose(extended(np.ones((m, 1)), W)[:, 0], np.isin(of, of[:m]))

"""Functions of a graph's Laplacian at vertices, by either way, in any blocks."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dssl import KNNGraph
from dssl.base.errors import ParameterError
from dssl.execution.in_process import InProcess
from dssl.graph import functions as module
from dssl.graph.functions import graph_functions
from dssl.graph.regularizer import laplacian_of
from dssl.graph.solved_functions import FunctionParams
from dssl.solvers.block_tridiagonal import Functions
from dssl.solvers.chebyshev import chebyshev_sum
from dssl.solvers.krylov import krylov_bytes
from tests.learners.on_graph.problems import graph_of_weights
from tests.memory import traced_peak

FUNCTIONS = Functions(*zip(*product((0.01, 0.1), (1, 2)), strict=True))
COLUMNS, ROWS = np.array([9, 2, 100, 57]), np.array([100, 3, 2])


def graph(copies=0):
    X = np.random.default_rng(0).normal(size=(150, 3))
    return KNNGraph(n_neighbors=6).build(np.concatenate([X, X[:copies]]))


def exact(made, kind):
    L = laplacian_of(made.stored, made.shared_vertices(InProcess()), kind)
    values, U = np.linalg.eigh(L.matrix().toarray())
    return np.einsum("ik,mk,jk->mij", U, FUNCTIONS.of(values), U)


@pytest.mark.parametrize("factored", [False, True])
@pytest.mark.parametrize(("kind", "copies"), [("normalized", 0), ("normalized", 40), ("unnormalized", 0)])
@pytest.mark.extended_cases("normalized-0-False")
def test_either_way_gives_the_functions(factored, kind, copies):
    made, expected = graph(copies), exact(graph(copies), kind)
    params = FunctionParams(laplacian=kind, tol=1e-3, block_columns=3)
    found = graph_functions(made, COLUMNS, ROWS, FUNCTIONS, params, InProcess(2), factored)
    assert ("steps" in found.attributes) == (not factored)
    scale = np.abs(expected).max()
    assert_allclose(found.values, expected[:, ROWS][:, :, COLUMNS], atol=1e-3 * scale)
    coef = np.random.default_rng(1).normal(size=(4, 4, 2))
    assert_allclose(found.combined(coef), np.einsum("mij,mjc->ic", expected[:, :, COLUMNS], coef), atol=1e-3 * scale)


@pytest.mark.parametrize("factored", [False, True])
def test_threads_do_not_change_a_bit_and_blocks_no_more_than_the_tolerance(factored):
    made, coef = graph(), np.ones((4, 4, 1))
    first, second = (graph_functions(made, COLUMNS, ROWS, FUNCTIONS, FunctionParams(block_columns=2),
                                     InProcess(threads), factored) for threads in (1, 2))
    assert_array_equal(first.values, second.values)
    assert_array_equal(first.combined(coef), second.combined(coef))
    exact = FunctionParams(tol=1e-3)
    first, other = (graph_functions(made, COLUMNS, ROWS, FUNCTIONS, replace(exact, block_columns=width), InProcess(1),
                                    factored) for width in (2, 64))
    assert_allclose(other.values, first.values, atol=1e-3 * np.abs(first.values).max())


@pytest.mark.parametrize(("name", "inaccurate"), [
    ("rounding", lambda polynomial: np.full(2, np.inf)),
    ("chebyshev_sum", lambda A, columns, D, high: 1.1 * chebyshev_sum(A, columns, D, high))])
def test_solvers_take_over_where_polynomials_round_too_much(name, inaccurate, monkeypatch):
    made, coef = graph(), np.random.default_rng(1).normal(size=(4, 4, 2))
    expected = np.einsum("mij,mjc->ic", exact(made, "normalized")[:, :, COLUMNS], coef)
    monkeypatch.setattr(module, name, inaccurate)
    params = FunctionParams(tol=1e-3, block_columns=1)
    found = graph_functions(made, COLUMNS, ROWS, FUNCTIONS, params, InProcess(1), by_solvers=False)
    assert "steps" in found.attributes
    for _ in range(2):  # the second time with the solvers that were prepared for the first
        assert_allclose(found.combined(coef), expected, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("columns", [[0, 3], [0, 5], [5]])
def test_blocks_of_isolated_vertices_take_no_step(columns):
    W = np.diag(np.ones(29), 1) + np.diag(np.ones(29), -1)
    W[[0, 5]] = W[:, [0, 5]] = 0
    made, rows = graph_of_weights(W), np.array([0, 3, 5])
    expected = exact(made, "normalized")[:, :, columns]
    found = graph_functions(made, np.array(columns), rows, FUNCTIONS, FunctionParams(tol=1e-3, block_columns=1),
                            InProcess(1), by_solvers=False)
    assert_allclose(found.values, expected[:, rows], rtol=1e-5, atol=1e-3)
    assert (found.attributes["steps"] == 0) == (3 not in columns)
    assert "solved" not in found.attributes
    coef = np.ones((len(FUNCTIONS), len(columns), 2))
    assert_allclose(found.combined(coef), np.einsum("mij,mjc->ic", expected, coef), rtol=1e-5, atol=1e-2)


def test_a_column_in_the_null_space_alone_needs_no_solver():
    W = np.diag(np.ones(29), 1) + np.diag(np.ones(29), -1)
    W[5] = W[:, 5] = 0
    made = graph_of_weights(W)
    found = graph_functions(made, np.array([3, 5]), np.array([3, 5]), FUNCTIONS, FunctionParams(tol=1e-3),
                            InProcess(1), by_solvers=False)
    coef = np.zeros((len(FUNCTIONS), 2, 2))
    coef[:, 0, 0] = coef[:, 1, 1] = 1
    expected = np.einsum("mij,mjc->ic", exact(made, "normalized")[:, :, [3, 5]], coef)
    assert_allclose(found.combined(coef), expected, rtol=1e-5, atol=1e-2)
    assert "solves" not in vars(found.combined)


def test_solvers_take_over_where_the_process_does_not_converge():
    made = KNNGraph(n_neighbors=2).build(np.linspace(0, 1, 1500)[:, None])
    functions = Functions((1e-5, 1.0), (2, 1))
    found = graph_functions(made, np.array([700]), np.array([700]), functions, FunctionParams(max_steps=64),
                            InProcess(), by_solvers=False)
    assert found.attributes["solved"]["functions"] == 1
    L = laplacian_of(made.stored, None, "normalized").matrix(1e-5).toarray()
    column = np.linalg.solve(L, np.linalg.solve(L, np.eye(1500)[700]))
    assert found.values[0, 0, 0] == pytest.approx(column[700], rel=1e-3)
    L = laplacian_of(made.stored, None, "normalized").matrix(1.0).toarray()
    assert_allclose(found.combined(np.array([[[1.0]], [[2.0]]]))[:, 0],
                    column + 2 * np.linalg.solve(L, np.eye(1500)[700]), rtol=1e-3, atol=1e-3 * column.max())


@pytest.mark.parametrize("changes", [{"laplacian": "random"}, {"tol": 0.0}, {"block_columns": 0}])
def test_parameters_are_checked(changes):
    with pytest.raises(ParameterError, match=next(iter(changes))):
        FunctionParams(**changes)


def test_the_values_are_held_twice_at_most():
    made = KNNGraph(n_neighbors=6).build(np.random.default_rng(0).normal(size=(1500, 3)))
    functions = Functions(*zip(*product((0.001, 0.01, 0.03, 0.1, 0.3), (1, 2, 3)), strict=True))
    columns, rows = np.arange(600), np.arange(1500)
    params = FunctionParams(block_columns=32)
    twice = 2 * 8 * len(functions) * len(rows) * len(columns)
    block = krylov_bytes(1500, len(rows), 32, len(functions), params.max_steps, 3)
    peak = traced_peak(lambda: graph_functions(made, columns, rows, functions, params, InProcess(1), False),
                       twice + block)
    assert twice < peak < twice + block

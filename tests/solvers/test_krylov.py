"""Functions of a Laplacian by the block Lanczos process, against those of its eigenvalues."""

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
from dssl.solvers.block_tridiagonal import BlockTridiagonal, Functions
from dssl.solvers.krylov import Krylov, basis, krylov, krylov_bytes, null_part
from dssl.solvers.lanczos import SingularMatrix
from tests.memory import traced_peak

FUNCTIONS = Functions(*zip(*product((0.01, 0.1, 1.0), (1, 2, 3)), strict=True))


def laplacian(n=400, random_state=0, normalized=True, pieces=1):
    """Return the Laplacian of a graph of clouds, in so many pieces."""
    rng = np.random.default_rng(random_state)
    blocks = [KNNGraph(n_neighbors=8).build(rng.normal(size=(n // pieces, 3))).weights() for _ in range(pieces)]
    return Laplacian(sp.csr_array(sp.block_diag(blocks)), normalized)


def exact(L, functions, columns):
    values, U = np.linalg.eigh(L.matrix().toarray())
    return np.einsum("ik,mk,jk->mij", U, functions.of(values), U[columns])


def combined(A, process, functions, coef):
    weights = BlockTridiagonal(process.alpha, process.beta).combined(functions, coef)
    off_null = sum((Q @ weight for weight, (Q, _, _) in zip(weights, basis(A, process.columns), strict=False)), 0)
    return off_null + null_part(A, process.columns, functions, coef)


@pytest.mark.parametrize(("normalized", "pieces"), [(True, 1), (False, 1), (True, 4)])
def test_values_and_combinations_are_functions_of_the_eigenvalues(normalized, pieces):
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


@pytest.mark.slow
@given(random_state=st.integers(0, 99), width=st.integers(1, 5))
@settings(max_examples=4, deadline=None)
def test_a_column_depends_on_those_beside_it_by_no_more_than_the_tolerance(random_state, width):
    L = laplacian(200, random_state)
    A = SingularMatrix.of(L.matrix(), L.vector)
    columns, rows = np.arange(0, 200, 37), np.arange(200)
    whole = krylov(A, columns, rows, FUNCTIONS, 1e-3, 200)
    for start in range(0, len(columns), width):
        part = krylov(A, columns[start:start + width], rows, FUNCTIONS, 1e-3, 200)
        error = np.abs(part.values - whole.values[:, :, start:start + width]).max(axis=1)
        assert (error <= 2e-3 * np.abs(part.values).max(axis=1)).all()


@given(random_state=st.integers(0, 99), t=st.integers(1, 6))
@settings(max_examples=10, deadline=None)
def test_the_basis_is_orthonormal_and_makes_the_matrix_block_tridiagonal(random_state, t):
    L = laplacian(300, random_state)
    A = SingularMatrix.of(L.matrix(), L.vector)
    columns = np.random.default_rng(random_state).choice(300, t, replace=False)
    steps = [(Q.copy(), alpha, beta) for _, (Q, alpha, beta) in zip(range(6), basis(A, columns), strict=False)]
    Q = np.concatenate([each for each, _, _ in steps], axis=1).astype(float)
    T = Q.T @ A.matrix() @ Q
    assert_allclose(Q.T @ Q, np.eye(6 * t), atol=1e-4)
    for k, (_, alpha, beta) in enumerate(steps):
        assert_allclose(T[k * t:(k + 1) * t, k * t:(k + 1) * t], alpha, atol=1e-4)
        if k:
            assert_allclose(T[k * t:(k + 1) * t, (k - 1) * t:k * t], beta, atol=1e-4)
            assert_allclose(T[k * t:, :(k - 1) * t], 0, atol=1e-4)
    E = np.zeros((300, t), np.float32)
    E[columns, np.arange(t)] = 1
    A.project(E)
    assert_allclose(steps[0][0] @ steps[0][2], E, atol=1e-5)


def test_functions_of_a_block_tridiagonal_matrix_are_those_of_its_eigenvalues():
    rng, k, t = np.random.default_rng(0), 5, 3
    alpha, beta = rng.normal(size=(k, t, t)), 0.3 * rng.normal(size=(k, t, t))
    alpha = alpha @ alpha.transpose(0, 2, 1) + 2 * np.eye(t)
    whole = np.zeros((k * t, k * t))
    for step in range(k):
        whole[step * t:(step + 1) * t, step * t:(step + 1) * t] = alpha[step]
        if step:
            whole[step * t:(step + 1) * t, (step - 1) * t:step * t] = beta[step]
            whole[(step - 1) * t:step * t, step * t:(step + 1) * t] = beta[step].T
    values = dict(BlockTridiagonal(alpha, beta).functions(FUNCTIONS))
    assert sorted(values) == list(range(len(FUNCTIONS)))
    for place, of_T in values.items():
        inverse = np.linalg.inv(whole + FUNCTIONS.ridge[place] * np.eye(k * t))
        expected = np.linalg.matrix_power(inverse, FUNCTIONS.power[place])[:, :t] @ beta[0]
        assert_allclose(of_T.reshape(k * t, t), expected, rtol=1e-9, atol=1e-12)
    assert not dict(BlockTridiagonal(alpha - 9 * np.eye(t), beta).functions(FUNCTIONS))


def test_equal_neighborhoods_end_a_direction_but_not_the_others():
    """The difference of two vertices with the same neighbors is an eigenvector: it has no further direction."""
    L = laplacian(150)
    W = L.matrix(0).toarray()
    W = np.diag(np.diag(W)) - W
    W[1], W[:, 1] = W[0], W[:, 0]
    W[0, 1] = W[1, 0] = W[0, 0] = W[1, 1] = 0
    L = Laplacian(sp.csr_array(W))
    A = SingularMatrix.of(L.matrix(), L.vector)
    columns = np.array([0, 1, 5])
    second = [beta for _, (_, _, beta) in zip(range(2), basis(A, A.place[columns]), strict=False)][1]
    assert (np.linalg.norm(second, axis=1) > 0).sum() == 2
    values = krylov(A, A.place[columns], A.place[np.arange(150)], FUNCTIONS, 1e-4, 150).values
    expected = exact(L, FUNCTIONS, columns)
    assert (np.abs(values - expected).max(axis=1) <= 1e-3 * np.abs(expected).max(axis=1)).all()


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


def test_weak_edges_beside_strong_ones_do_not_end_a_space():
    """Directions are short beside the diagonal where a column is, not beside the largest."""
    W = laplacian(600, normalized=False).matrix(0).tocoo()
    kept = W.row != W.col
    row, column, weight = W.row[kept], W.col[kept], -W.data[kept]
    weight = np.where((row < 300) | (column < 300), 1e-5, 1.0) * weight
    L = Laplacian(sp.csr_array(sp.coo_array((weight, (row, column)), W.shape)), normalized=False)
    A = SingularMatrix.of(L.matrix(), L.vector)
    columns, functions = np.array([5, 50, 100]), Functions((1e-5, 1e-5, 1e-3, 1e-3), (1, 2, 1, 2))
    found = krylov(A, A.place[columns], A.place, functions, 1e-3, 243)
    expected = exact(L, functions, columns)
    off_null = expected - functions.of(np.zeros(1))[:, :, None] * A.null_parts(A.place[columns], A.place)
    error = np.abs(found.values - expected).max(axis=1) / np.abs(off_null).max(axis=1)
    assert error[found.converged].max() < 1e-3
    assert found.converged[2:].all()


@pytest.mark.parametrize(("random_state", "size", "weight", "normalized"), [
    (2, 20, 1e-6, False), (3, 60, 1e-5, False), (4, 20, 1e-6, True), (5, 5, 1e-6, False)])
def test_a_small_cluster_behind_a_weak_edge_is_not_overlooked(random_state, size, weight, normalized):
    """Until its eigenvalue is found, it hardly changes from step to step what the others say."""
    rng = np.random.default_rng(random_state)
    clouds = [KNNGraph(n_neighbors=min(8, n - 1)).build(rng.normal(size=(n, 3))).weights() for n in (400, size)]
    W = sp.lil_array(sp.block_diag(clouds))
    W[3, 401] = W[401, 3] = weight
    L = Laplacian(sp.csr_array(W), normalized)
    A = SingularMatrix.of(L.matrix(), L.vector)
    columns, functions = np.array([3, 50, 402]), Functions((1e-6, 1e-3), (1, 1))
    found = krylov(A, A.place[columns], A.place, functions, 0.1, 400)
    expected = exact(L, functions, np.arange(400 + size))
    null = functions.of(np.zeros(1))[:, :, None] * A.null_parts(A.place, A.place)
    diagonal = np.einsum("mii->mi", expected - null)
    scale = np.sqrt(diagonal[:, :, None] * diagonal[:, None, columns])
    error = (np.abs(found.values - expected[:, :, columns]) / scale).max(axis=1)
    assert found.converged[1].all()
    assert error[found.converged].max() <= 0.1


@given(random_state=st.integers(0, 99), t=st.integers(1, 4), steps=st.integers(2, 9))
@settings(max_examples=10, deadline=None)
def test_the_true_diagonal_lies_within_the_bounds_of_its_error(random_state, t, steps):
    L = laplacian(150, random_state)
    A = SingularMatrix.of(L.matrix(), L.vector)
    columns = np.random.default_rng(random_state).choice(150, t, replace=False)
    first = [(alpha, beta) for _, (_, alpha, beta) in zip(range(steps), basis(A, columns), strict=False)]
    T = BlockTridiagonal(*(np.array(blocks) for blocks in zip(*first, strict=True)))
    values, U = np.linalg.eigh(A.matrix().toarray())
    values, U = values[1:], U[columns, 1:]
    expected = np.einsum("ik,mk,ik->mi", U, FUNCTIONS.of(values), U)
    lower = np.array([np.einsum("ij,ij->j", T.beta[0], dict(T.functions(FUNCTIONS))[place][0])
                      for place in range(len(FUNCTIONS))])
    assert (lower <= expected * (1 + 1e-4)).all()
    errors = np.concatenate([T.errors(ridge, [power], {}) for ridge, power in zip(FUNCTIONS.ridge, FUNCTIONS.power,
                                                                                  strict=True)])
    assert (expected <= lower * (1 + errors) * (1 + 1e-4)).all()


def test_bounds_of_errors_are_those_of_the_changed_matrix_with_what_is_known_or_without():
    rng, k, t = np.random.default_rng(0), 6, 3
    alpha, beta, known = rng.normal(size=(k, t, t)), 0.3 * rng.normal(size=(k, t, t)), {}
    T = BlockTridiagonal(alpha @ alpha.transpose(0, 2, 1) + 2 * np.eye(t), beta)
    for steps in range(2, k + 1):  # as T grows
        first, ridge = T.first(steps), 0.5
        changed = first.alpha.copy()
        node = first.first(steps - 1).block_inverses(ridge / 2)[-1]
        changed[-1] = beta[steps - 1] @ node @ beta[steps - 1].T - ridge / 2 * np.eye(t)
        below, above = ([np.diag(beta[0].T @ power[0]) for power in each.inverse_powers(ridge, 5)]
                        for each in (first, BlockTridiagonal(changed, first.beta)))
        expected = np.abs(np.array(above) / below - 1)
        assert_allclose(first.errors(ridge, range(1, 6), known), expected, rtol=1e-9, atol=1e-13)
        assert_allclose(first.errors(ridge, [3, 1], {}), expected[[2, 0]], rtol=1e-9, atol=1e-13)
        solved = first.inverse_powers(ridge, 5, known)
        assert_allclose(first.errors(ridge, [5], known, solved), expected[[4]], rtol=1e-9, atol=1e-13)
    assert np.isinf(BlockTridiagonal(T.alpha - 9 * np.eye(t), beta).errors(0.5, [1], {})).all()


def test_a_chain_of_groups_with_weak_edges_is_not_taken_for_one_group():
    """The directions to the other groups are dropped as rounding, and matter for small ridges."""
    group = np.ones((4, 4)) - np.eye(4)
    W = sp.lil_array(sp.block_diag([group] * 30))
    for at in range(3, 116, 4):
        W[at, at + 1] = W[at + 1, at] = 2e-5
    L = Laplacian(sp.csr_array(W), normalized=False)
    A, functions = SingularMatrix.of(L.matrix(), L.vector), Functions((1e-6, 1e-5, 1.0), (1, 1, 1))
    found = krylov(A, A.place[[50]], A.place, functions, 0.1, 60)
    expected = exact(L, functions, [50])
    error = np.abs(found.values - expected).max(axis=1) / np.abs(expected).max(axis=1)
    assert (error[found.converged] <= 0.1).all()
    assert found.converged[2]
    assert not found.converged[0]


def test_a_column_whose_space_ends_does_not_hold_back_the_others():
    cloud = KNNGraph(n_neighbors=8).build(np.random.default_rng(0).normal(size=(600, 3))).weights()
    L = Laplacian(sp.csr_array(sp.block_diag([cloud, np.ones((3, 3)) - np.eye(3)])))
    A, functions = SingularMatrix.of(L.matrix(), L.vector), Functions((1e-6, 1e-4, 0.1), (1, 2, 1))
    found = krylov(A, A.place[[3, 50, 601]], A.place, functions, 1e-2, 200)
    assert found.converged.all()
    expected = exact(L, functions, [3, 50, 601])
    assert (np.abs(found.values - expected).max(axis=1) <= 1e-2 * np.abs(expected).max(axis=1)).all()


def test_no_function_at_all():
    L = laplacian(120)
    A = SingularMatrix.of(L.matrix(), L.vector)
    found = krylov(A, np.array([3, 7]), np.arange(5), Functions((), ()), 0.1, 40)
    assert found.values.shape == (0, 5, 2)
    assert found.converged.shape == (0, 2)


def test_isolated_vertices_alone_take_no_step():
    L = Laplacian(sp.csr_array(np.array([[0, 0, 0], [0, 0, 2.0], [0, 2.0, 0]])))
    A = SingularMatrix.of(L.matrix(), L.vector)
    found = krylov(A, A.place[[0]], A.place[[0, 1, 2]], FUNCTIONS, 1e-3, 40)
    assert found.steps == 0
    assert found.converged.all()
    assert_allclose(found.values, exact(L, FUNCTIONS, [0]), rtol=1e-5)
    values = dict(BlockTridiagonal(found.alpha, found.beta).functions(FUNCTIONS))
    assert [value.shape for value in values.values()] == [(0, 1, 1)] * len(FUNCTIONS)
    coef = np.ones((len(FUNCTIONS), 1, 2))
    assert_allclose(combined(A, found, FUNCTIONS, coef)[A.place, 1], exact(L, FUNCTIONS, [0]).sum(axis=(0, 2)),
                    rtol=1e-5)


@pytest.mark.parametrize(("n_rows", "powers", "t", "steps"), [
    (2000, {1e-6: [1], 1e-3: [1], 0.1: [1], 0.2: [1]}, 20, 80), (2000, {1e-6: [8], 1e-3: [1]}, 20, 80),
    (20, {1e-6: [8], 0.1: [8]}, 20, 80), (2000, {1e-6: range(1, 9)}, 20, 80), (2000, {1e-6: [1, 2, 3]}, 3, 90),
    (2000, {1e-6: [1]}, 1, 12)])
def test_memory_stays_within_the_stated_formula(n_rows, powers, t, steps):
    X = np.linspace(0, 1, 2000)[:, None]
    L = Laplacian(KNNGraph(n_neighbors=2).build(X).weights())
    A, columns = SingularMatrix.of(L.matrix(), L.vector), np.arange(0, 2000, 2000 // t)[:t]
    pairs = [(ridge, power) for ridge, of_ridge in powers.items() for power in of_ridge]
    functions = Functions(*zip(*pairs, strict=True))
    most = krylov_bytes(2000, n_rows, t, len(pairs), steps, max(functions.power)) + (1 << 19)  # objects of Python

    def work():
        assert krylov(A, columns, np.arange(n_rows), functions, 1e-3, steps).steps == steps

    assert traced_peak(work, most) <= most


def test_what_does_not_converge_says_so():
    X = np.linspace(0, 1, 2000)[:, None]
    L = Laplacian(KNNGraph(n_neighbors=2).build(X).weights())  # a path: eigenvalues from 1e-6 on
    A = SingularMatrix.of(L.matrix(), L.vector)
    found = krylov(A, np.array([5]), np.array([5]), Functions((1e-6,), (2,)), 1e-3, 64)
    assert not found.converged.any()
    assert found.steps == 64
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

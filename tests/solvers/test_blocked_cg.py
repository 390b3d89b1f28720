"""Conjugate gradients for many systems: each column's own matrix, stop and evidence, whatever the others do."""

import numpy as np
import pytest
import scipy.sparse.linalg as spla
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import ParameterError
from dssl.solvers.blocked_cg import blocked_cg
from dssl.solvers.solver_params import Stop

TIGHT = Stop(1e-12, 500)


def positive(n, random_state=0, condition=100.0):
    """Return a symmetric positive definite matrix (n, n) with eigenvalues from 1 to `condition`."""
    U = np.linalg.qr(np.random.default_rng(random_state).normal(size=(n, n)))[0]
    return U * np.geomspace(1, condition, n) @ U.T


def systems(n, t, random_state=0, condition=100.0):
    """Return matrices (t, n, n) and right-hand sides (n, t)."""
    A = np.array([positive(n, [random_state, j], condition) for j in range(t)])
    return A, np.random.default_rng(random_state).normal(size=(n, t))


class Product:
    """Products of columns with their own matrices; `seen` lists which columns were asked for."""

    def __init__(self, A):
        self.A, self.seen = A, []

    def __call__(self, P, columns):
        self.seen.append(columns.tolist())
        return np.column_stack([np.zeros((len(P), 0)), *(self.A[j] @ p for j, p in zip(columns, P.T, strict=True))])


def solved(A, B):
    return np.column_stack([np.linalg.solve(a, b) for a, b in zip(A, B.T, strict=True)])


# Against the inverse


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("condition", [10.0, 1e4])
def test_every_column_solves_its_own_system(preconditioned, condition):
    A, B = systems(30, 5, condition=condition)
    inverses = [np.diag(1 / np.diagonal(a)) for a in A]
    jacobi = Product(inverses) if preconditioned else None
    found = blocked_cg(Product(A), B, jacobi, Stop(1e-10, 500))
    assert_allclose(found.value, solved(A, B), atol=1e-9 * np.abs(solved(A, B)).max())
    assert found.converged.all()
    expected = [np.linalg.norm(b - a @ x) / np.linalg.norm(b) for a, b, x in zip(A, B.T, found.value.T, strict=True)]
    assert_allclose(found.residuals, expected, rtol=1e-2, atol=1e-13)


def test_a_step_is_that_of_scipy():
    """The same iterates as `scipy.sparse.linalg.cg`, stopped after the same number of steps."""
    A, B = systems(40, 3, condition=1e3)
    M = np.diag(1 / np.diagonal(A[1]))
    for steps in (1, 4, 17):
        ours = blocked_cg(Product(A), B, Product([M] * 3), Stop(1e-14, steps))
        assert_array_equal(ours.iterations, steps)
        for j in range(3):
            theirs, _ = spla.cg(A[j], B[:, j], rtol=1e-14, maxiter=steps, M=M)
            assert_allclose(ours.value[:, j], theirs, atol=1e-5 * np.abs(theirs).max())  # rounding grows by steps


def test_the_exact_inverse_takes_one_step():
    A, B = systems(20, 4)
    found = blocked_cg(Product(A), B, Product([np.linalg.inv(a) for a in A]), Stop(1e-9))
    assert_array_equal(found.iterations, 1)
    assert found.converged.all()


@settings(max_examples=30)
@given(n=st.integers(1, 25), t=st.integers(1, 6), random_state=st.integers(0, 999), data=st.data())
def test_the_answer_of_a_column_does_not_depend_on_the_others(n, t, random_state, data):
    A, B = systems(n, t, random_state, condition=50.0)
    B[:, data.draw(st.lists(st.integers(0, t - 1), max_size=t))] = 0
    whole = blocked_cg(Product(A), B, None, TIGHT)
    own = data.draw(st.lists(st.integers(0, t - 1), min_size=1, max_size=t, unique=True))
    some = blocked_cg(Product(A[own]), B[:, own], None, TIGHT)
    assert_allclose(whole.value[:, own], some.value, atol=1e-9 * max(1, np.abs(B).max()))
    assert np.abs(whole.iterations[own] - some.iterations).max() <= 2
    assert whole.converged.all()


# When a column stops


def test_columns_that_are_done_are_not_carried_along():
    A = np.array([np.eye(30), positive(30, 1, 1e4), positive(30, 2, 10.0)])
    B = np.random.default_rng(0).normal(size=(30, 3))
    product = Product(A)
    found = blocked_cg(product, B, None, Stop(1e-8))
    assert found.iterations[0] == 1
    assert found.iterations[0] < found.iterations[2] < found.iterations[1]
    assert product.seen[0] == [0, 1, 2]
    assert product.seen[1] == [1, 2]
    assert product.seen[-2] == [1]
    assert product.seen[-1] == [0, 1, 2], "the residual that is returned is that of the product"
    carried = sum(0 in columns for columns in product.seen)
    assert carried == 2


def test_a_zero_right_hand_side_has_the_zero_solution():
    A, B = systems(15, 3)
    B[:, 1] = 0
    found = blocked_cg(Product(A), B, None, TIGHT)
    assert_array_equal(found.value[:, 1], 0)
    assert (found.iterations[1], found.residuals[1], found.converged[1]) == (0, 0.0, True)
    assert_allclose(found.value, solved(A, B), atol=1e-10)
    nothing = blocked_cg(Product(A), np.zeros((15, 3)), None, TIGHT)
    assert nothing.converged.all()
    assert blocked_cg(Product(A[:0]), np.zeros((15, 0)), None, TIGHT).value.shape == (15, 0)


def test_a_singular_consistent_system_has_its_smallest_solution():
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0]
    A = U[:, :7] * np.geomspace(1, 10, 7) @ U[:, :7].T
    B = A @ np.random.default_rng(1).normal(size=(20, 2))
    found = blocked_cg(Product([A, A]), B, None, Stop(1e-10))
    assert found.converged.all()
    assert_allclose(found.value, np.linalg.pinv(A) @ B, atol=1e-8)


def test_a_system_without_a_solution_is_not_converged():
    A, B = np.diag([1.0, 2.0, 0.0]), np.ones((3, 1))
    with np.errstate(all="ignore"):
        found = blocked_cg(Product([A]), B, None, Stop(1e-8, 50))
    assert not found.converged[0]


def test_no_curvature_stops_a_column_and_no_other():
    A = np.array([np.diag([1.0, 2.0, -3.0]), np.diag([1.0, 2.0, 3.0]), np.zeros((3, 3))])
    found = blocked_cg(Product(A), np.ones((3, 3)), None, Stop(1e-10, 50))
    assert found.converged.tolist() == [False, True, False]
    assert_allclose(found.value[:, 1], [1, 1 / 2, 1 / 3], rtol=1e-9)
    assert np.isfinite(found.value).all()


def test_a_preconditioner_that_is_not_positive_stops_a_column():
    A, B = systems(10, 2)
    found = blocked_cg(Product(A), B, Product([-np.eye(10), np.eye(10)]), Stop(1e-9))
    assert found.converged.tolist() == [False, True]


@pytest.mark.parametrize("when", [0, 3])
def test_a_product_that_is_no_number_stops_its_column_only(when):
    A, B = systems(20, 3, condition=1e3)
    product = Product(A)

    def broken(P, columns):
        Q = product(P, columns)
        if len(product.seen) > when:
            Q[:, columns == 1] = np.nan
        return Q

    found = blocked_cg(broken, B, None, Stop(1e-9, 300))
    assert found.converged.tolist() == [True, False, True]
    assert np.isfinite(found.value).all()
    assert_allclose(found.value[:, [0, 2]], solved(A, B)[:, [0, 2]], atol=1e-7)
    assert found.iterations[1] == when + 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_right_hand_side_that_is_no_number_is_not_solved(value):
    A, B = systems(10, 2)
    B[3, 0] = value
    found = blocked_cg(Product(A), B, None, Stop(1e-9))
    assert found.converged.tolist() == [False, True]
    assert np.isnan(found.residuals[0])
    assert_allclose(found.value[:, 1], solved(A, B)[:, 1], atol=1e-7)


def test_the_iterations_are_bounded_and_the_residual_says_what_was_reached():
    A, B = systems(60, 2, condition=1e6)
    found = blocked_cg(Product(A), B, None, Stop(1e-10, 7))
    assert_array_equal(found.iterations, 7)
    assert not found.converged.any()
    assert_allclose(found.residuals, [np.linalg.norm(b - a @ x) / np.linalg.norm(b)
                                      for a, b, x in zip(A, B.T, found.value.T, strict=True)], rtol=1e-8)


@pytest.mark.parametrize(("condition", "tol"), [(1e4, 1e-12), (1e6, 1e-8)])
def test_ill_conditioned_systems_take_as_many_steps_as_scipy(condition, tol):
    A, B = systems(100, 2, condition=condition)
    product = Product(A)
    found = blocked_cg(product, B, None, Stop(tol, 5000))
    steps = []
    spla.cg(A[0], B[:, 0], rtol=tol, maxiter=5000, callback=steps.append)
    assert found.converged.all()
    assert found.iterations[0] < 1.1 * len(steps)


def test_a_column_begins_again_where_the_recursion_lost_its_residual():
    """A product in float32 has another residual than its own recursion says: here it is lost on purpose, once."""
    A, B = systems(20, 2, condition=100.0)
    product = Product(A)

    def careless(P, columns):
        return product(P, columns) * np.where(columns == 1, 1 + 1e-4 * (len(product.seen) < 12), 1.0)

    found = blocked_cg(careless, B, None, Stop(1e-8, 300))
    assert found.converged.all()
    assert_allclose(found.value, solved(A, B), atol=1e-6)
    assert [0, 1] in product.seen[12:], "all residuals were looked at"
    assert product.seen[-1] == [1], "and then those of the column that began again"


def test_a_tolerance_that_rounding_does_not_allow_ends():
    A, B = systems(40, 1, condition=1e10)
    A[0] += 1e10 * np.eye(40)
    found = blocked_cg(Product(A), B, None, Stop(1e-15, 400))
    assert found.iterations[0] < 400
    assert found.residuals[0] < 1e-13


# In another inner product


@pytest.mark.parametrize("preconditioned", [False, True])
@pytest.mark.parametrize("rank", [20, 12])
def test_systems_that_are_self_adjoint_in_the_inner_product_of_a_kernel(preconditioned, rank):
    """(J K + lambda I) x = b, K J K + lambda K symmetric; equal to the solution by LU where K says something."""
    U = np.linalg.qr(np.random.default_rng(0).normal(size=(20, 20)))[0][:, :rank]
    K = U * np.geomspace(0.1, 5, rank) @ U.T
    J, lambdas = np.diag((np.arange(20) < 8).astype(float)), np.array([0.5, 0.01])
    B = np.random.default_rng(1).normal(size=(20, 2))
    asked = []

    def apply(P, columns, KP):
        assert_allclose(KP, K @ P, atol=1e-8 * np.abs(P).max())
        return J @ KP + lambdas[columns] * P

    def metric(P):
        asked.append(P.shape[1])
        return K @ P

    def precondition(R, columns, KR):
        Z = np.column_stack([np.linalg.solve(J @ K + 2 * lambdas[j] * np.eye(20), r)
                             for j, r in zip(columns, R.T, strict=True)])
        return Z, K @ Z

    found = blocked_cg(apply, B, precondition if preconditioned else None, Stop(1e-10), metric=metric)
    exact = np.column_stack([np.linalg.solve(J @ K + lam * np.eye(20), b) for lam, b in zip(lambdas, B.T, strict=True)])
    assert found.converged.all()
    assert_allclose(K @ found.value, K @ exact, atol=1e-7 * np.abs(K @ exact).max())
    assert len(asked) <= found.iterations.max() + 6, "one product with the metric an iteration"


def test_what_a_stop_may_be():
    for arguments, says in (((0.0,), "tol"), ((1.0,), "tol"), ((1e-6, 0), "max_iter"),
                            ((1e-6, 2.5), "max_iter"), ((float("nan"),), "tol")):
        with pytest.raises(ParameterError, match=says):
            Stop(*arguments)

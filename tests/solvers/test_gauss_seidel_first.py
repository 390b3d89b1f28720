"""Few columns are solved by Gauss-Seidel, until a factor is expected to be faster."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.graph.laplacian import Laplacian
from dssl.graph.weights.build import weights
from dssl.knn.search import neighbors
from dssl.solvers import gauss_seidel_first
from dssl.solvers.cholesky import FEW, Cholesky
from dssl.solvers.gauss_seidel import GaussSeidel
from dssl.solvers.gauss_seidel_first import (
    BEGIN,
    MEASURED_AT,
    MOST,
    STANDS_STILL,
    WORTH,
    FactorWork,
    GaussSeidelFirst,
    Watch,
    max_iterations,
)
from dssl.solvers.method import per_correction
from dssl.solvers.scaling import scaled_matrix
from dssl.solvers.solve import MANY_COLUMNS, Solver, prepare, solve_columns
from dssl.solvers.solver_params import SolverParams
from tests.memory import traced_peak

from .graphs import grid, regularizer, with_uneven_weights

IN_ONE = float(-np.log10(per_correction(np.full(1, MEASURED_AT))[0]))  # digits of each of two corrections


def surface(ridge=1e-4, t=3, side=64):
    """Return the system of a grid, on which Gauss-Seidel is slow unless the ridge is large, and columns."""
    R, _ = regularizer(grid(side), ridge, False)
    return R, np.random.default_rng(0).normal(size=(side * side, t))


def cloud(orders=0, n=6000):
    """Return the system of normal points, which has a fast residual, and one column."""
    rng = np.random.default_rng(0)
    W = weights(neighbors(rng.normal(size=(n, 5)), 10))
    L = Laplacian(with_uneven_weights(W, orders, rng) if orders else W)
    return L.matrix(1e-6), np.eye(n, 1), np.sqrt(L.degrees)


def watched(levels, factor, **of):
    """Return a watch that has seen residuals of these logarithms, up to the one that stops it."""
    watch = Watch(factor, np.full(1, MEASURED_AT), **of)
    for level in levels:
        if watch(np.full(2, 10.0 ** (2 * level))):
            break
    return watch


class TestFactorWork:
    def test_columns_share_the_preparation(self):
        A = scaled_matrix(*regularizer(grid(70), 1e-3, True))
        one, ten, many = (FactorWork.of(A, t) for t in (1, 10, 10_000))
        assert one.preparation > ten.preparation > many.preparation > 0
        assert many.preparation < 0.01 * one.preparation
        assert one.iterations == ten.iterations == many.iterations

    def test_a_large_ridge_makes_both_methods_fast(self):
        works = [FactorWork.of(scaled_matrix(*regularizer(grid(70), ridge, True)), 1) for ridge in (1.0, 1e-1, 1e-2)]
        assert works[0].bound < works[1].bound < works[2].bound < max_iterations(
            scaled_matrix(*regularizer(grid(70), 1e-2, True)), MEASURED_AT)
        assert works[0].iterations < works[1].iterations < works[2].iterations

    def test_without_a_ridge_nothing_bounds_the_iterations(self):
        R, vector = regularizer(grid(70), 0.0, True)
        assert math.isinf(FactorWork.of(scaled_matrix(R, vector), 1).bound)

    def test_rows_far_apart_make_a_factor_that_fills(self):
        near = scaled_matrix(*regularizer(grid(70), 1e-3, True))
        rng = np.random.default_rng(0)
        far = scaled_matrix(*regularizer(weights(neighbors(rng.normal(size=(4900, 20)), 6)), 1e-3, True))
        assert FactorWork.of(far, 1).preparation > 2 * FactorWork.of(near, 1).preparation
        dense = scaled_matrix(np.eye(600) + np.full((600, 600), -1e-4))
        assert FactorWork.of(dense, 1).preparation <= MOST


class TestWatch:
    @given(rate=st.floats(0.02, 1.0))
    @settings(max_examples=40, deadline=None)
    def test_of_a_steady_residual_it_expects_what_that_takes(self, rate):
        """It stops such a residual at the first judgement or never."""
        factor = FactorWork(20.0, 50.0, math.inf)
        watch = watched([-rate * (i + 1) for i in range(math.ceil(IN_ONE / rate))], factor)
        whole = 2 * IN_ONE / rate
        assert watch.expected == pytest.approx(whole, abs=2)
        if abs(whole - BEGIN - WORTH * 70) > 2:
            assert watch.stopped == (whole - BEGIN > WORTH * 70)

    def test_it_judges_from_the_third_iteration_on(self):
        hopeless = FactorWork(0.0, 1.0, math.inf)
        assert not watched([-0.01] * (BEGIN - 1), hopeless).stopped
        assert watched([-0.01] * BEGIN, hopeless).stopped
        assert not watched([-0.01] * 8, hopeless, begin=9).stopped

    def test_a_residual_that_rests_for_a_while_is_not_given_up(self):
        fast = [-0.5 * (i + 1) for i in range(4)]
        factor = FactorWork(10.0, 20.0, math.inf)
        rests = watched([*fast, *[fast[-1]] * 3], factor)
        assert not rests.stopped
        assert rests.expected <= 2 * (7 + (IN_ONE + fast[-1]) / (STANDS_STILL * 1.5 / 6)) + 1
        assert watched([*fast, *[fast[-1]] * 20], factor).stopped

    def test_the_upper_bound_is_not_exceeded(self):
        slow = [-0.05 * (i + 1) for i in range(30)]
        assert watched(slow, FactorWork(0.0, 50.0, math.inf)).stopped
        bounded = watched(slow, FactorWork(0.0, 50.0, 40.0))
        assert not bounded.stopped
        assert bounded.expected == 40

    def test_columns_that_are_zero_are_not_counted(self):
        watch = Watch(FactorWork(0.0, 1.0, math.inf), np.full(1, 1e-6))
        assert not watch(np.zeros(2))
        for _ in range(BEGIN):
            stopped = watch(np.array([0.0, 0.9]))
        assert stopped

    def test_a_start_that_needs_fewer_digits_needs_fewer_iterations_of_both(self):
        levels, factor = [-0.1 * (i + 1) for i in range(3)], FactorWork(0.0, 50.0, math.inf)
        watch = Watch(factor, np.full(1, 1e-3))
        for level in levels:
            watch(np.full(1, 10.0 ** (2 * level)))
        assert watch.expected == pytest.approx(-np.log10(0.6e-3) / 0.1, rel=0.1)


class TestSolveColumns:
    def test_slow_columns_are_solved_by_the_factor(self):
        R, B = surface()
        found, method = solve_columns(R, B, SolverParams(tol=1e-8))
        assert method == "cholesky"
        assert found.converged.all()
        residual = np.linalg.norm(B - R @ found.value, axis=0) / np.linalg.norm(B, axis=0)
        assert_allclose(found.residuals, residual, rtol=1e-3)
        assert residual.max() <= 1e-8
        alone = prepare(R, 3, SolverParams(method="cholesky", tol=1e-8)).solve(B)
        assert_array_equal(found.value, alone.value)
        assert (found.iterations - alone.iterations == BEGIN).all()

    @pytest.mark.parametrize("t", [1, 3, 70])
    def test_fast_columns_have_the_bits_of_gauss_seidel(self, t):
        R, B = surface(ridge=0.5, t=t)
        found, method = solve_columns(R, B, SolverParams(tol=1e-8))
        assert method == "gauss_seidel"
        alone = prepare(R, t, SolverParams(method="gauss_seidel", tol=1e-8)).solve(B)
        assert_array_equal(found.value, alone.value)
        assert_array_equal(found.iterations, alone.iterations)

    def test_once_taken_the_factor_solves_all_blocks(self, monkeypatch):
        R, B = surface(t=70)
        prepared = list[int]()
        prepare_factor = Cholesky.prepare.__func__
        monkeypatch.setattr(Cholesky, "prepare", classmethod(lambda cls, A, n_columns, **of: prepared.append(
            n_columns) or prepare_factor(cls, A, n_columns, **of)))
        found, method = solve_columns(R, B)
        assert method == "cholesky"
        assert found.converged.all()
        assert prepared == [70]

    def test_a_later_correction_goes_on_from_the_one_before(self, monkeypatch):
        """It is judged after as many iterations as that one took."""
        R, B = surface(ridge=0.3)
        begun = list[int]()

        class Stops(Watch):
            def __init__(self, factor, needed, begin):
                super().__init__(factor, needed, begin)
                begun.append(begin)

            def __call__(self, squares):
                super().__call__(squares)
                self.stopped = len(begun) == 2 and len(self._levels) >= BEGIN
                return self.stopped

        monkeypatch.setattr(gauss_seidel_first, "Watch", Stops)
        found, method = solve_columns(R, B)
        assert method == "cholesky"
        assert found.converged.all()
        assert np.linalg.norm(B - R @ found.value, axis=0).max() <= 1e-6 * np.linalg.norm(B, axis=0).max()
        assert begun[0] == BEGIN
        assert begun[1] > BEGIN
        assert found.iterations.min() > begun[1] + BEGIN

    def test_the_most_iterations_are_kept(self):
        R, B = surface(ridge=1e-6)
        for most in (1, BEGIN):
            found, method = solve_columns(R, B, SolverParams(tol=1e-8, max_iter=most))
            assert method == "gauss_seidel"
            assert not found.converged.any()
            assert found.iterations.max() == most
        found, method = solve_columns(R, B, SolverParams(tol=1e-8, max_iter=BEGIN + 2))
        assert method == "cholesky"
        assert not found.converged.any()
        assert found.iterations.max() == BEGIN + 2

    @pytest.mark.parametrize("unit", [1e-200, 1e-9, 1e9, 1e200])
    def test_the_unit_of_the_columns_does_not_matter(self, unit):
        R, B = surface(ridge=1e-5)
        found, method = solve_columns(R, B)
        scaled, same = solve_columns(R, unit * B)
        assert method == same == "cholesky"
        assert_array_equal(scaled.iterations, found.iterations)
        assert_allclose(scaled.value / unit, found.value, rtol=1e-6)

    def test_columns_of_zeros_are_solved(self):
        R, B = surface(ridge=1e-5)
        B[:, 1] = 0
        found, _ = solve_columns(R, B)
        assert found.converged.all()
        assert not found.value[:, 1].any()
        assert solve_columns(R, 0 * B)[1] == "gauss_seidel"
        assert solve_columns(R, B[:, :0])[0].value.shape == (4096, 0)

    def test_a_start_is_used_by_both(self):
        for ridge in (0.5, 1e-4):
            R, B = surface(ridge=ridge)
            solved, method = solve_columns(R, B)
            again, _ = solve_columns(R, B + 1e-4 * B[:, ::-1], start=solved.value)
            assert again.converged.all()
            assert again.iterations.max() < 0.8 * solved.iterations.min(), method

    def test_many_columns_are_solved_as_if_prepared(self):
        R, B = surface(t=MANY_COLUMNS)
        found, method = solve_columns(R, B)
        assert method == prepare(R, MANY_COLUMNS).params.method == "cholesky"
        assert found.converged.all()

    @pytest.mark.parametrize("orders", [0, 10])
    def test_the_method_is_the_one_with_less_work(self, orders):
        """Uneven weights make residuals fall fast along heavy edges, and slowly from there on."""
        R, B, vector = cloud(orders)
        A = scaled_matrix(R, vector)
        found, method = solve_columns(R, B, SolverParams(), vector)
        iterations = prepare(R, 1, SolverParams(method="gauss_seidel"), vector).solve(B).iterations[0]
        factor = FactorWork.of(A, 1)
        assert (method == "cholesky") == (iterations > factor.preparation + factor.iterations) == bool(orders)
        assert found.converged.all()
        assert found.iterations[0] <= iterations

    @pytest.mark.parametrize("t", [1, FEW, FEW + 1])
    def test_memory_is_that_of_its_solvers(self, t):
        R, B = surface(t=t, side=200)
        A = scaled_matrix(R)
        most = 1.02 * (max(of.solve_bytes(A.n, t, 64) for of in (GaussSeidel, Cholesky))
                       + Cholesky.prepare_bytes(A.n, len(A.data), t)) + (1 << 20)

        def solved():
            method = GaussSeidelFirst.prepare(A, t)
            assert Solver.of(method, SolverParams()).solve(B).converged.all()
            assert method.last == "cholesky"

        solved()  # compiles
        assert traced_peak(solved, most) <= most


class TestFewColumnsOfAFactor:
    """A factor for few columns solves them in float64, in one correction."""

    @pytest.mark.parametrize(("t", "few"), [(1, True), (FEW, True), (FEW + 1, False)])
    def test_few_columns_are_solved_in_float64(self, monkeypatch, t, few):
        R, B = surface(t=t)
        dtypes = list[type]()
        gradients = Cholesky.gradients
        monkeypatch.setattr(Cholesky, "gradients", lambda self, R, *of: dtypes.append(R.dtype.type) or gradients(
            self, R, *of))
        solver = prepare(R, t, SolverParams(method="cholesky"))
        assert solver.solve(B).converged.all()
        assert dtypes == ([np.float64] if few else [np.float32, np.float32])
        again = Solver.from_arrays(solver.to_arrays(), solver.params)
        assert_array_equal(again.solve(B).value, solver.solve(B).value)

    def test_more_columns_than_it_was_prepared_for_are_solved_few_at_a_time(self):
        R, B = surface(t=3 * FEW, side=170)
        solver = prepare(R, 1, SolverParams(method="cholesky"))
        whole = solver.solve(B)  # compiles
        most = 1.02 * (solver.solve_bytes(FEW) + 8 * solver.A.n * 2 * FEW) + (1 << 20)
        assert traced_peak(lambda: solver.solve(B), most) <= most
        assert_array_equal(whole.value[:, FEW:FEW + 1], solver.solve(B[:, FEW:FEW + 1]).value)

"""Few columns are solved by Gauss-Seidel, until a factor is expected to be faster."""

import math

import numpy as np
import pytest
import scipy.sparse as sp
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
    MAX_PREPARATION,
    MAX_RATIO,
    MEASURED_AT,
    MIN_ITERATIONS,
    MIN_RATE,
    SWITCH_RATIO,
    FactorWork,
    GaussSeidelFirst,
    SwitchRule,
    max_iterations,
)
from dssl.solvers.method import per_correction
from dssl.solvers.scaling import scaled_matrix
from dssl.solvers.solve import MANY_COLUMNS, Solver, prepare, solve_columns
from dssl.solvers.solver_params import SolverParams
from tests.memory import traced_peak

from .graphs import grid, points, random_graph, regularizer, with_uneven_weights

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


def easy_and_hard(t_easy, t_hard, ridge=1e-6):
    """Return the system of an expander beside a ring, and unit columns of both."""
    ring = sp.diags_array([np.ones(5999), np.ones(5999)], offsets=[-1, 1]).tolil()
    ring[0, -1] = ring[-1, 0] = 1
    L = Laplacian(sp.block_diag([random_graph(2000, 8, random_state=1), ring.tocsr()], format="csr"))
    return L.matrix(ridge), points(8000, [*range(t_easy), *range(3000, 3000 + t_hard)]), np.asarray(L.vector)


def judged(levels, work, *, needed=MEASURED_AT, **of):
    """Return the rule that has seen residuals of these logarithms in two columns, up to where it stops them."""
    rule = SwitchRule.of(work, np.full(2, needed), **of)
    for level in levels:
        if rule(np.full(2, 10.0 ** (2 * level)), np.arange(2)):
            break
    return rule


class TestFactorWork:
    def test_columns_share_the_factor(self):
        work = FactorWork.of(scaled_matrix(*regularizer(grid(70), 1e-3, True)))
        one, ten, many = (work.of_columns(t, 1.0) for t in (1, 10, 10_000))
        assert one == pytest.approx(work.factor + work.iterations)
        assert one > ten > many > work.iterations
        assert many - work.iterations < 0.01 * work.factor
        assert work.of_columns(1, 0.5) == pytest.approx(work.factor + work.iterations / 2)

    def test_a_large_ridge_makes_both_methods_fast(self):
        works = [FactorWork.of(scaled_matrix(*regularizer(grid(70), ridge, True))) for ridge in (1.0, 1e-1, 1e-2)]
        assert works[0].bound < works[1].bound < works[2].bound < max_iterations(
            scaled_matrix(*regularizer(grid(70), 1e-2, True)), MEASURED_AT)
        assert works[0].iterations < works[1].iterations < works[2].iterations

    def test_without_a_ridge_nothing_bounds_the_iterations(self):
        R, vector = regularizer(grid(70), 0.0, True)
        assert math.isinf(FactorWork.of(scaled_matrix(R, vector)).bound)

    def test_rows_far_apart_make_a_factor_that_fills(self):
        near = scaled_matrix(*regularizer(grid(70), 1e-3, True))
        rng = np.random.default_rng(0)
        far = scaled_matrix(*regularizer(weights(neighbors(rng.normal(size=(4900, 20)), 6)), 1e-3, True))
        assert FactorWork.of(far).factor > 2 * FactorWork.of(near).factor
        dense = scaled_matrix(np.eye(600) + np.full((600, 600), -1e-4))
        assert FactorWork.of(dense).factor <= MAX_PREPARATION


class TestSwitchRule:
    @given(rate=st.floats(0.02, 1.0))
    @settings(max_examples=40, deadline=None)
    def test_of_a_steady_residual_it_expects_what_that_takes(self, rate):
        """It stops such a residual at the first judgement or never."""
        rule = judged([-rate * (i + 1) for i in range(math.ceil(IN_ONE / rate))], FactorWork(20.0, 50.0, math.inf))
        whole, allowed = 2 * IN_ONE / rate, SWITCH_RATIO * FactorWork(20.0, 50.0, math.inf).of_columns(2, 1.0)
        assert rule.expected == pytest.approx(whole, abs=2)
        if abs(whole - MIN_ITERATIONS - allowed) > 2:
            assert rule.stopped == (whole - MIN_ITERATIONS > allowed)

    def test_it_judges_from_the_third_iteration_on(self):
        hopeless = FactorWork(0.0, 1.0, math.inf)
        assert not judged([-0.01] * (MIN_ITERATIONS - 1), hopeless).stopped
        assert judged([-0.01] * MIN_ITERATIONS, hopeless).stopped
        assert not judged([-0.01] * 8, hopeless, first=9).stopped

    def test_a_residual_that_rests_for_a_while_is_not_given_up(self):
        fast = [-0.5 * (i + 1) for i in range(4)]
        work = FactorWork(10.0, 20.0, math.inf)
        rests = judged([*fast, *[fast[-1]] * 3], work)
        assert not rests.stopped
        assert rests.expected <= 2 * (7 + (IN_ONE + fast[-1]) / (MIN_RATE * 1.5 / 6)) + 1
        assert judged([*fast, *[fast[-1]] * 20], work).stopped

    def test_the_bound_is_not_exceeded(self):
        slow = [-0.05 * (i + 1) for i in range(30)]
        assert judged(slow, FactorWork(0.0, 50.0, math.inf)).stopped
        bounded = judged(slow, FactorWork(0.0, 50.0, 40.0))
        assert not bounded.stopped
        assert bounded.expected == 40

    def test_after_twice_the_iterations_of_a_factor_it_is_taken_whatever_is_expected(self):
        """As of a residual that float32 keeps just above its goal."""
        work = FactorWork(0.0, 20.0, math.inf)
        levels = [-0.4 * (i + 1) for i in range(8)] + [-IN_ONE - 0.01] * 40
        rule = judged(levels, work)
        assert rule.stopped
        assert len(rule._levels) == MAX_RATIO * 20 + 1

    def test_columns_that_are_done_are_not_counted(self):
        """One column is fast, and hides the other only as long as it is solved."""
        work = FactorWork(0.0, 60.0, math.inf)
        rule = SwitchRule.of(work, np.full(2, MEASURED_AT))
        for i in range(1, 4):
            assert not rule(10.0 ** (2 * np.array([-1.0 * i, -0.02 * i])), np.arange(2))
        assert rule.late.tolist() == [0, 1]
        assert rule(np.full(1, 10.0 ** (2 * -0.08)), np.array([1]))
        assert rule.late.tolist() == [1]

    @pytest.mark.parametrize(("needed", "precise", "digits"), [
        (1e-3, False, -np.log10(0.6e-3)), (1e-6, True, -np.log10(0.9e-6)), (0.9, False, -np.log10(0.54))])
    def test_what_is_left_takes_fewer_iterations_of_both(self, needed, precise, digits):
        rule = judged([-0.01 * (i + 1) for i in range(3)], FactorWork(0.0, 1e9, math.inf), needed=needed,
                      precise=precise)
        assert rule.expected == pytest.approx(digits / 0.01, rel=0.1)

    def test_where_few_edges_have_most_of_the_weight_more_iterations_are_left(self):
        even, uneven = (FactorWork.of(scaled_matrix(R, vector)) for R, _, vector in (cloud(0), cloud(10)))
        assert even.slowing == 1
        assert uneven.slowing > 1
        slow = [-0.1 * (i + 1) for i in range(3)]
        left = [judged(slow, FactorWork(0.0, 1e9, math.inf, slowing)).expected - 3 for slowing in (1.0, 1.5)]
        assert left[1] == pytest.approx(1.5 * left[0])

    def test_columns_that_share_a_factor_make_it_cheaper(self):
        slow = [-0.08 * (i + 1) for i in range(3)]
        assert not judged(slow, FactorWork(100.0, 10.0, math.inf)).stopped
        assert judged(slow, FactorWork(100.0, 10.0, math.inf), n_columns=100).stopped


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
        assert (found.iterations - alone.iterations == MIN_ITERATIONS).all()

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

        class Stops(SwitchRule):
            @classmethod
            def of(cls, *of, first, **more):
                begun.append(first)
                return super().of(*of, first=first, **more)

            def __call__(self, squares, columns):
                super().__call__(squares, columns)
                self.stopped = len(begun) == 2 and len(self._levels) >= MIN_ITERATIONS
                return self.stopped

        monkeypatch.setattr(gauss_seidel_first, "SwitchRule", Stops)
        found, method = solve_columns(R, B)
        assert method == "cholesky"
        assert found.converged.all()
        assert np.linalg.norm(B - R @ found.value, axis=0).max() <= 1e-6 * np.linalg.norm(B, axis=0).max()
        assert begun[0] == MIN_ITERATIONS
        assert begun[1] > MIN_ITERATIONS
        assert found.iterations.min() > begun[1] + MIN_ITERATIONS

    def test_the_most_iterations_are_kept(self):
        R, B = surface(ridge=1e-6)
        for most in (1, MIN_ITERATIONS):
            found, method = solve_columns(R, B, SolverParams(tol=1e-8, max_iter=most))
            assert method == "gauss_seidel"
            assert not found.converged.any()
            assert found.iterations.max() == most
        found, method = solve_columns(R, B, SolverParams(tol=1e-8, max_iter=MIN_ITERATIONS + 2))
        assert method == "cholesky"
        assert not found.converged.any()
        assert found.iterations.max() == MIN_ITERATIONS + 2

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

    @pytest.mark.parametrize(("t_easy", "t_hard"), [(1, 1), (8, 2), (15, 1), (0, 2), (30, 40)])
    def test_columns_that_are_fast_do_not_hide_one_that_is_slow(self, t_easy, t_hard):
        """Of a graph of unlike pieces; the fast ones keep what Gauss-Seidel has done."""
        R, B, vector = easy_and_hard(t_easy, t_hard)
        found, method = solve_columns(R, B, SolverParams(), vector)
        assert method == "cholesky"
        assert found.converged.all()
        assert found.iterations.max() < 120
        assert (np.linalg.norm(B - R @ found.value, axis=0) <= 1e-6 * np.linalg.norm(B, axis=0)).all()

    def test_fast_columns_alone_take_gauss_seidel(self):
        R, B, vector = easy_and_hard(5, 0)
        assert solve_columns(R, B, SolverParams(), vector)[1] == "gauss_seidel"

    @pytest.mark.parametrize("n_columns", [10, 300])
    @pytest.mark.parametrize("random_state", range(6))
    def test_prepared_columns_may_be_of_any_piece(self, n_columns, random_state):
        R, _, vector = easy_and_hard(1, 1)
        solver = prepare(R, n_columns, SolverParams(random_state=random_state), vector)
        assert solver.params.method == "cholesky"

    @pytest.mark.parametrize("ridge", [0.3, 1e-4])
    def test_columns_that_float32_serves_badly_go_on_in_float64(self, monkeypatch, ridge):
        R, B = surface(ridge=ridge)
        correct, was_precise = GaussSeidelFirst.correct, list[bool]()

        def gain_a_digit(self, *of, precise=False):
            was_precise.append(precise)
            E, used = correct(self, *of, precise=precise)
            return (E if precise else 0.9 * E), used

        monkeypatch.setattr(GaussSeidelFirst, "correct", gain_a_digit)
        found, _ = solve_columns(R, B, SolverParams(tol=1e-8))
        assert found.converged.all()
        assert was_precise[:2] == [False, True]

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
        work = FactorWork.of(A).of_columns(1, 1.0)
        assert (method == "cholesky") == (iterations > work) == bool(orders)
        assert found.converged.all()
        assert found.iterations[0] <= iterations

    @pytest.mark.parametrize("t", [1, FEW, FEW + 1])
    def test_memory_is_that_of_its_solvers(self, t):
        R, B = surface(t=t, side=200)
        A = scaled_matrix(R)
        most = 1.02 * (max(of.solve_bytes(A.n, t, 64) for of in (GaussSeidel, Cholesky))
                       + Cholesky.prepare_bytes(A.n, len(A.data), t)) + (1 << 20)

        def solved():
            method = GaussSeidelFirst(A, t)
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

    @pytest.mark.parametrize("t", [FEW + 1, 20, 3 * FEW])
    def test_more_columns_than_it_was_prepared_for_are_solved_few_at_a_time(self, t):
        R, B = surface(t=t, side=170)
        solver = prepare(R, 1, SolverParams(method="cholesky"))
        whole = solver.solve(B)  # compiles
        most = 1.02 * solver.solve_bytes(t) + (1 << 20)
        assert traced_peak(lambda: solver.solve(B), most) <= most
        assert_array_equal(whole.value[:, FEW:FEW + 1], solver.solve(B[:, FEW:FEW + 1]).value)

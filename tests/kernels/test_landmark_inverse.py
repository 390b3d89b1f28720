"""`(R^-p)_SS` against the dense inverse: values, error bounds, forms, blocks, storage, resume."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import NotConverged, ParameterError
from dssl.execution.in_process import InProcess
from dssl.graph.knn_graph import KNNGraph
from dssl.kernels import landmark_inverse as module
from dssl.kernels.landmark_inverse import (
    SolvedColumns,
    columns_cost,
    inverse_at_landmarks,
    multiply_factors,
    solve_columns,
    stored_factors,
)
from dssl.solvers import amg
from dssl.solvers.gauss_seidel import GaussSeidel
from dssl.solvers.solve import prepare
from dssl.solvers.solver_params import SolverParams
from dssl.storage.blocks import STEP_BYTES, HeldArrays, MemoryParts, budget_beside
from dssl.storage.store import StoredParts
from tests.in_pairs import in_pairs

from .. import reference
from ..memory import traced_peak
from ..solvers.graphs import components, grid, points, random_graph, regularizer

POWERS = (1, 2, 3, 4)
FORMS = ("energy", "restriction")


def expander(ridge=1e-2, normalized=True, n=160):
    """Return (R, vector, S): a weighted random graph and every seventh vertex, shuffled."""
    R, vector = regularizer(random_graph(n, 5, random_state=1, weighted=True), ridge, normalized)
    return R, vector, np.random.default_rng(0).permutation(n)[::7]


def dense(R, power, S):
    """Return the rows and columns S of (R^+)^power."""
    covariance = reference.pseudo_inverse(R.toarray(), 1e-12)
    return np.linalg.matrix_power(covariance, power)[np.ix_(S, S)]


@in_pairs({
    "form": FORMS,
    "normalized": [False, True],
    "ridge": [0, 1e-2],
    "method": ["auto", "gauss_seidel", "deflated", "amg"]})
def test_powers_are_the_dense_inverse(method, ridge, normalized, form):
    R, vector, S = expander(ridge, normalized)
    params = SolverParams(method=method, tol=1e-9)
    actual = inverse_at_landmarks(R, S, POWERS, params=params, vector=vector, form=form)
    for power in POWERS:
        expected = dense(R, power, S)
        assert_allclose(actual.powers[power], expected, rtol=1e-5, atol=1e-6 * np.abs(expected).max())
        assert_array_equal(actual.powers[power], actual.powers[power].T)


def test_components_do_not_see_each_other():
    R, _ = regularizer(components([30, 20, 1]), 1e-2, False)
    actual = inverse_at_landmarks(R, np.arange(51), (1, 2), params=SolverParams(tol=1e-9))
    for power in (1, 2):
        expected = dense(R, power, np.arange(51))
        assert_allclose(actual.powers[power], expected, rtol=1e-6, atol=1e-6 * expected.max())


@pytest.fixture
def deep_hierarchies(monkeypatch):
    """Multigrid on a hundred vertices gets several levels, and does not solve exactly."""
    monkeypatch.setattr(amg, "COARSEST", 12)


@pytest.mark.usefixtures("deep_hierarchies")
class TestTheorem42:
    """Lever et al. 2012, Theorem 4.2. With z = Q^+ e + delta, `Z'QZ` differs from Q^+ by the entries of delta, twice,
    and by delta' Q delta. Since |Q^+ e_i|_Q is the root of Q^+_ii (the paper prints Q^+_ii), the bound is
    (2 epsilon + epsilon^2) sqrt(Q^+_ii Q^+_jj)."""

    @pytest.fixture(params=["gauss_seidel", "deflated", "amg"])
    def method(self, request):
        return request.param

    def errors(self, method, tol, form):
        """Return |A - Q^+| (s, s), the relative energy errors epsilon (s,) of the columns, and Q^+_SS."""
        R, vector, S = expander()
        params = SolverParams(method=method, tol=tol)
        A = inverse_at_landmarks(R, S, params=params, vector=vector, form=form).powers[1]
        exact = dense(R, 1, S)
        Z = prepare(R, len(S), params, vector).solve(points(R.shape[0], S)).value
        delta = Z - np.linalg.inv(R.toarray())[:, S]
        epsilon = np.sqrt(np.einsum("ij,ij->j", delta, R @ delta) / np.diag(exact))
        return np.abs(A - exact), epsilon, exact

    @pytest.mark.parametrize("tol", [1e-1, 1e-2, 1e-4, 1e-6])
    @pytest.mark.parametrize("form", FORMS)
    def test_bound(self, method, tol, form):
        error, epsilon, exact = self.errors(method, tol, form)
        scale = np.sqrt(np.outer(np.diag(exact), np.diag(exact)))
        worst = np.maximum.outer(epsilon, epsilon)
        bound = 2 * worst + worst**2 if form == "energy" else worst
        assert (error <= 1.001 * bound * scale + 1e-12).all()
        assert np.linalg.norm(error, 2) <= 1.001 * (2 * epsilon.max() + epsilon.max() ** 2) * np.trace(exact)

    @pytest.mark.parametrize("form", FORMS)
    def test_error_falls_with_the_tolerance(self, method, form):
        loose, tight = (self.errors(method, tol, form)[0].max() for tol in (1e-2, 1e-6))
        assert tight < 2e-3 * loose

    def test_both_forms_together_are_of_second_order(self, method):
        """2 Z_S - Z'QZ = Q^+ - delta'Q delta: what one form errs by, the other errs by twice."""
        R, vector, S = expander()
        actual = {}
        for tol in (1e-2, 1e-4):
            params = SolverParams(method=method, tol=tol)
            energy, restriction = (inverse_at_landmarks(R, S, params=params, vector=vector, form=form).powers[1]
                                   for form in FORMS)
            actual[tol] = np.abs(2 * restriction - energy - dense(R, 1, S)).max()
            first_order = np.abs(restriction - dense(R, 1, S)).max()
            assert actual[tol] < 0.1 * first_order
        assert actual[1e-4] < 2e-3 * actual[1e-2]


@in_pairs({"form": FORMS, "tol": [1e-3, 1e-5, 1e-8], "method": ["gauss_seidel", "deflated", "amg"]})
def test_theorem_44(method, tol, form):
    """The error of R^-p relative to its norm grows linearly in p; kappa(R) enters with the residual's square.

    A step with relative residual r moves z by at most r |R^-1| |z|, so after a steps z is off by a r |R^-1|^a, up to
    higher orders. For p = 2a that enters twice, for p = 2a - 1 also as delta' R delta.
    """
    R, vector, S = expander(ridge=1e-1)
    values = np.linalg.eigvalsh(R.toarray())
    kappa = values[-1] / values[0]
    actual = inverse_at_landmarks(R, S, POWERS, params=SolverParams(method=method, tol=tol), vector=vector,
                                 form=form)
    residual = actual.attributes["max_residual"]
    assert 0 < residual <= tol
    for power in POWERS:
        steps = (power + 1) // 2 if form == "energy" else power
        bound = ((power + 1) * residual + (steps * residual) ** 2 * kappa) * (1 + residual) ** power
        error = np.abs(actual.powers[power] - dense(R, power, S)).max()
        assert error <= bound * values[0] ** -power


@pytest.mark.parametrize("method", ["gauss_seidel", "deflated", "amg"])
def test_energy_form_is_positive_semi_definite_at_a_loose_tolerance(method):
    R, _ = regularizer(grid(12), 1e-3, False)
    actual = inverse_at_landmarks(R, np.arange(144), POWERS, params=SolverParams(method=method, tol=0.5))
    for A in actual.powers.values():
        values = np.linalg.eigvalsh(A)
        assert values[0] > -1e-12 * values[-1]


@pytest.mark.slow
@settings(max_examples=15, deadline=None)
@given(columns=st.integers(1, 30), rows=st.integers(1, 200), threads=st.integers(1, 3))
def test_blocks_do_not_matter(columns, rows, threads):
    R, vector, S = expander()
    params = SolverParams(method="gauss_seidel", tol=1e-8)
    whole = inverse_at_landmarks(R, S, POWERS, params=params, vector=vector)
    blocked = SolverParams(method="gauss_seidel", tol=1e-8, block_columns=columns)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "ROW_CHUNK", rows)
        actual = inverse_at_landmarks(R, S, POWERS, params=blocked, vector=vector, execution=InProcess(threads))
    assert actual.attributes["columns"] == len(S)
    for power in POWERS:
        assert_allclose(actual.powers[power], whole.powers[power], rtol=1e-11, atol=1e-13)


def test_a_small_budget_makes_narrow_blocks():
    R, vector, S = expander()
    solver = HeldArrays(**prepare(R, 23, SolverParams(), vector).to_arrays())
    execution = InProcess(1, memory_budget=budget_beside(solver.nbytes + 160 * 84 * 5))
    receipts = solve_columns(solver, SolverParams(method="direct"), 160, S, (1,), execution, MemoryParts())
    assert [receipt["n_columns"] for receipt in receipts] == [5, 5, 5, 5, 3]


def test_powers_share_their_solves():
    assert stored_factors([1]) == ["RZ1", "Z1"]
    assert stored_factors([2]) == ["Z1"]
    assert stored_factors([1, 2, 3, 4]) == ["RZ1", "RZ2", "Z1", "Z2"]
    R, vector, S = expander()
    params = SolverParams(method="gauss_seidel")
    steps = {powers: len(solve_columns(HeldArrays(**prepare(R, 1, params, vector).to_arrays()), params, 160, S[:1],
                                       powers, InProcess(1), MemoryParts())[0]["iterations"])
             for powers in ((1,), (2,), (4,), POWERS)}
    assert steps == {(1,): 1, (2,): 1, (4,): 2, POWERS: 2}


@pytest.mark.parametrize("form", FORMS)
def test_stored_parts_give_what_memory_gives(tmp_path, form):
    R, vector, S = expander()
    solver = prepare(R, len(S), SolverParams(method="deflated", block_columns=7), vector)
    actual = []
    for name in ("memory", "stored"):
        columns, products = ((MemoryParts(), MemoryParts()) if name == "memory" else
                             (StoredParts(tmp_path / "columns"), StoredParts(tmp_path / "products")))
        receipts = solve_columns(HeldArrays(**solver.to_arrays()), solver.params, 160, S, POWERS, InProcess(2),
                                 columns, form=form)
        actual.append(multiply_factors(columns, 160, S, POWERS, InProcess(2), products, form=form,
                                      n_blocks=len(receipts)))
    for power in POWERS:
        assert_array_equal(actual[0][power], actual[1][power])


def test_resume_solves_only_the_missing_columns(tmp_path):
    """A part that is complete keeps its receipt, to the time stamp."""
    R, vector, S = expander()
    solver = prepare(R, len(S), SolverParams(method="gauss_seidel", block_columns=6), vector)
    parts = StoredParts(tmp_path)

    def run():
        receipts = solve_columns(HeldArrays(**solver.to_arrays()), solver.params, 160, S, (1, 2), InProcess(2), parts)
        return receipts, {path.name: path.stat().st_mtime_ns for path in sorted((tmp_path / "receipts").iterdir())}

    first, before = run()
    expected = parts.rows("Z1").read_all()
    assert len(before) == 4
    (tmp_path / "receipts" / "000002.json").unlink()

    again, after = run()

    assert [name for name in after if after[name] != before[name]] == ["000002.json"]
    assert [receipt["n_columns"] for receipt in again] == [receipt["n_columns"] for receipt in first]
    assert_array_equal(parts.rows("Z1").read_all(), expected)


def test_columns_that_do_not_converge_are_not_used():
    R, _ = regularizer(grid(20), 1e-6, False)
    with pytest.raises(NotConverged, match="fix: raise the ridge"):
        inverse_at_landmarks(R, np.arange(5), params=SolverParams(method="gauss_seidel", max_iter=3))


@pytest.mark.parametrize(("landmarks", "powers", "message"), [
    (np.array([0.5]), (1,), "integers"), (np.array([[1, 2]]), (1,), "shape"), (np.array([], int), (1,), "shape"),
    (np.array([160]), (1,), "ids span"), (np.array([-1]), (1,), "ids span"), (np.array([3, 3]), (1,), "twice"),
    (np.array([3]), (), "powers"), (np.array([3]), (0,), "powers"), (np.array([3]), (1.5,), "powers"),
])
def test_errors(landmarks, powers, message):
    R, vector, _ = expander()
    with pytest.raises(ParameterError, match=message):
        inverse_at_landmarks(R, landmarks, powers, vector=vector)


def grown_systems(normalized, ridge=1e-2):
    """Return the systems of 1500 points and of these with 20 more, as (R, vector)."""
    X = np.random.default_rng(0).normal(size=(1520, 3))
    return [regularizer(KNNGraph(n_neighbors=8).build(X[:n], scale="none").weights(), ridge, normalized)
            for n in (1500, 1520)]


@pytest.mark.slow
@in_pairs({
    "normalized": [False, True],
    "powers, sooner": [((1,), [True]), ((2,), [True]), ((3,), [True, True]),
                                                    ((4,), [False, True]), (POWERS, [True, True])]})
def test_columns_begin_at_those_that_were_solved_before_the_graph_grew(tmp_path, powers, sooner, normalized):
    """Some were not solved before, in another order, in blocks of another width; a step without a start is as it was.
    """
    rng = np.random.default_rng(1)
    old, new = rng.permutation(1500)[:40], rng.permutation(1520)[:8]
    new = np.concatenate([old[[7, 3, 30, 5, 6, 38, 39]], np.setdiff1d(new, old)])
    params = SolverParams(method="gauss_seidel", tol=1e-8, block_columns=7)
    before, after = (prepare(R, 40, params, vector).to_arrays() for R, vector in grown_systems(normalized))
    stored = StoredParts(tmp_path / "columns")
    solve_columns(HeldArrays(**before), params, 1500, old, powers, InProcess(1), stored)
    solved = SolvedColumns.of(stored, powers, before, InProcess(1))
    places, actual, iterations = [MemoryParts(), MemoryParts()], [], []
    for place, begin in zip(places, ({}, {"solved": solved, "solved_landmarks": old}), strict=True):
        receipts = solve_columns(HeldArrays(**after), params, 1520, new, powers, InProcess(1), place, **begin)
        actual.append(multiply_factors(place, 1520, new, powers, InProcess(1), MemoryParts()))
        iterations.append(np.array([receipt["iterations"] for receipt in receipts])[0])
        assert max(receipt["max_residual"] for receipt in receipts) <= 1e-8
    for power in powers:
        assert_allclose(actual[1][power], actual[0][power], atol=1e-6 * np.abs(actual[0][power]).max())
    cold, warm = iterations
    assert ((warm < cold) == sooner).all()


@pytest.mark.parametrize("started", [False, True])
def test_a_task_takes_no_more_than_is_predicted(tmp_path, started):
    """Warm: kernels are compiled."""
    params = SolverParams(method="gauss_seidel", tol=1e-3, block_columns=32)
    (R, vector), (R_new, vector_new) = grown_systems(True)
    before, after = prepare(R, 40, params, vector).to_arrays(), prepare(R_new, 40, params, vector_new).to_arrays()
    S, execution = np.arange(64), InProcess(1)
    solve_columns(HeldArrays(**before), params, 1500, S, (3,), execution, StoredParts(tmp_path / "columns"))
    solved = SolvedColumns.of(StoredParts(tmp_path / "columns"), (3,), before, execution)
    given = {"solved": solved, "solved_landmarks": S} if started else {}
    held = StoredParts(tmp_path / "system")
    held.write(0, after)
    stored, nnz = held.arrays(0), len(after["A-data"])
    cost = columns_cost(1520, nnz, 64, (3,), 32, "energy", GaussSeidel, stored.nbytes, execution.memory_budget,
                        guess=True, started=started)

    def work():
        solve_columns(stored, params, 1520, S, (3,), execution, StoredParts(tmp_path / "new"), **given)
        StoredParts(tmp_path / "new").remove()

    work()
    assert traced_peak(work, cost.peak) <= cost.peak
    assert traced_peak(work, cost.peak) > 0.5 * (cost.peak - STEP_BYTES)

"""Every method of Nystrom LapRLS against the formula of the paper, each system of many with its own penalties."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.linalg import lu_factor

from dssl import KNNGraph
from dssl.base.errors import DataError, NotConverged
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF, Linear
from dssl.kernels.landmarks import Landmarks
from dssl.learners.laprls import dense
from dssl.learners.laprls import solve as laprls_solve
from dssl.learners.laprls.closed_form import label_features
from dssl.learners.laprls.dense import FullKernel
from dssl.learners.laprls.gram import GramSystem, folds_that_fit, gram_system, refined, solve_from_gram
from dssl.learners.laprls.iterations import factors_that_fit, groups_of
from dssl.learners.laprls.params import SystemParams
from dssl.learners.laprls.penalties import Penalties, with_folds
from dssl.learners.laprls.problem import LapRLSParams, LapRLSProblem
from dssl.learners.laprls.products import CACHE, gram_bytes
from dssl.learners.laprls.smooth import smooth_solver
from dssl.learners.laprls.solve import (
    StoredGramSolver,
    choose_method,
    held_out_values,
    least_squares_solver,
    solver_method,
)
from dssl.learners.losses import SQUARES, HuberHinge, SquaredHinge
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.laprls import search_penalties
from dssl.storage.blocks import ArrayRows
from tests import reference
from tests.in_pairs import in_pairs

from .systems import case

METHODS = ("nystrom-direct", "nystrom-pcg", "nystrom-cg")
ITEMS = [Penalties(0.5, 0.02), Penalties(0.05, 1.0), Penalties(2.0, 0.0), Penalties(0.3, 0.4, 1),
         Penalties(0.3, 0.4, 0, True), Penalties(0.1, 0.1, -1, True)]
CLOSE = {"nystrom-direct": 1e-8, "nystrom-pcg": 2e-5, "nystrom-cg": 2e-5}  # of the largest value


def assert_functions(made, items, functions, tol):
    for index, item in enumerate(items):
        expected = made.dense(item)
        assert np.abs(made.values(functions, index) - expected).max() < tol * np.abs(expected).max(), item


# Against the formula


@in_pairs({"method": METHODS, "whitening": ["auto", None], "kind": ["normalized", "unnormalized"]})
def test_every_method_solves_equation_4(method, whitening, kind):
    """Weights are repeated labels, several lines share a point, folds are held out, and the control is the mean graph;
    whitened and as the paper writes it are the same function, since the landmarks are well apart."""
    made = case(kind=kind, whitening=whitening, kernel=RBF(0.7), tol=1e-8, max_iter=3000)
    assert_functions(made, ITEMS, made.solve(ITEMS, method), CLOSE[method])


@pytest.mark.parametrize("preconditioner", ["edges", "paper", "paper-5", "paper-6", "none"])
@pytest.mark.parametrize("whitening", ["auto", None])
def test_every_preconditioner_leads_to_the_same_function(preconditioner, whitening):
    made = case(kernel=RBF(0.7), whitening=whitening, preconditioner=preconditioner, tol=1e-8,
                max_iter=3000)
    functions = made.solve(ITEMS, "nystrom-pcg")
    assert_functions(made, ITEMS, functions, 2e-5)
    assert functions.evidence["preconditioner"] == preconditioner
    assert functions.evidence["max_residual"] <= 2e-8
    assert len(functions.evidence["iterations"]) == len(ITEMS)


@pytest.mark.parametrize("method", METHODS)
def test_multiplicities_and_no_intercept(method):
    m = np.random.default_rng(3).integers(1, 5, 120).astype(float)
    for kind in ("normalized", "unnormalized"):
        made = case(kind=kind, multiplicity=m, fit_intercept=False, tol=1e-8, max_iter=1000)
        functions = made.solve(ITEMS, method)
        assert_array_equal(functions.intercept, 0)
        assert_functions(made, ITEMS, functions, CLOSE[method])


@pytest.mark.parametrize("method", METHODS)
def test_no_graph_and_lambda_I_zero_are_plain_nystrom_rls(method):
    plain = [Penalties(0.5, 0.0), Penalties(0.01, 0.0, 2)]
    for graph in (True, False):
        made = case(graph=graph, tol=1e-9, weighted=False)
        functions = made.solve(plain, method)
        assert_functions(made, plain, functions, CLOSE[method])
    K = made.K[made.lines.row]
    y = made.lines.target - made.lines.target.mean(axis=0)
    coef = np.linalg.solve(K.T @ K + 0.5 * made.K_ss, K.T @ y)
    assert_allclose(made.values(functions, 0), made.K @ coef + made.lines.target.mean(axis=0), atol=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_all_points_as_landmarks_are_laprls(method):
    """s = n: equation (4) is equation (3)."""
    made = case(60, landmarks=np.arange(60), kernel=RBF(0.5), weighted=False, n_folds=1, tol=1e-9,
                max_iter=3000, fit_intercept=False)
    row, first = np.unique(made.lines.row, return_index=True)
    lines = replace(made.lines, row=row, **{name: getattr(made.lines, name)[first]
                                            for name in ("fold", "weight", "target")})
    again = case(60, landmarks=np.arange(60), kernel=RBF(0.5), weighted=False, n_folds=1, fit_intercept=False)
    assert_functions(again, [Penalties(0.1, 0.3)], again.solve([Penalties(0.1, 0.3)], method), 1e-5)
    y = np.zeros((60, 2))
    y[row] = lines.target
    labeled = np.isin(np.arange(60), row)
    alpha = reference.laprls_coef(made.K_ss, made.E, y, labeled, 0.1, 0.3)
    nystrom = reference.nystrom_laprls(made.K, made.K_ss, made.E, y, labeled, 0.1, 0.3)
    assert_allclose(made.K @ nystrom, made.K_ss @ alpha, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_equal_landmarks_add_nothing(method):
    chosen = np.arange(0, 120, 6)
    once, twice = (case(landmarks=rows, tol=1e-9, max_iter=2000)
                   for rows in (chosen, np.concatenate([chosen, chosen[:5]])))
    a, b = once.solve(ITEMS, method), twice.solve(ITEMS, method)
    for index in range(len(ITEMS)):
        assert_allclose(twice.values(b, index), once.values(a, index), atol=2e-5)
    assert twice.system.r == once.system.r == 20


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("whitening", ["auto", None])
def test_constant_features_predict_one_number(method, whitening):
    """K_ss is all ones, of rank 1: the mean, pulled towards the intercept."""
    X = np.ones((40, 2))
    made = case(40, graph=False, X=X, landmarks=np.arange(6), c=1, n_folds=2, fit_intercept=False, tol=1e-8,
                whitening=whitening)
    functions = made.solve([Penalties(0.5, 0.0)], method)
    y, w = made.lines.target[:, 0], made.lines.weight
    assert_allclose(made.values(functions, 0)[:, 0], w @ y / (w.sum() + 0.5), rtol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("preconditioner", ["edges", "paper"])
def test_kernels_of_low_rank(method, preconditioner):
    """A linear kernel of three features, 20 landmarks: rank 3, as the paper writes it singular."""
    made = case(kernel=Linear(), tol=1e-8, preconditioner=preconditioner)
    assert made.system.r == 3
    assert_functions(made, ITEMS, made.solve(ITEMS, method), 1e-6)
    printed = case(kernel=Linear(), whitening=None, preconditioner=preconditioner)
    if method == "nystrom-direct":
        functions = printed.solve(ITEMS, method)
        assert_functions(printed, ITEMS, functions, 1e-4)
        assert functions.evidence["max_residual"] < 1e-6


@pytest.mark.slow
@settings(max_examples=12)
@given(random_state=st.integers(0, 999), method=st.sampled_from(METHODS), lambda_A=st.floats(1e-3, 10),
       lambda_I=st.floats(0, 10), held_out=st.integers(-1, 2), control=st.booleans())
def test_a_system_does_not_depend_on_those_beside_it(random_state, method, lambda_A, lambda_I, held_out, control):
    made = case(60, 10, 25, random_state=random_state, tol=1e-8, max_iter=2000)
    own = Penalties(lambda_A, lambda_I, held_out, control)
    alone, among = made.solve([own], method), made.solve([*ITEMS[:3], own], method)
    expected = made.dense(own)
    for functions, index in ((alone, 0), (among, 3)):
        assert_allclose(made.values(functions, index), expected, atol=1e-4 * np.abs(expected).max())


# Folds


@pytest.mark.parametrize("method", METHODS)
def test_a_held_fold_is_as_if_it_were_not_labeled(method):
    made = case(tol=1e-10)
    seen = made.lines.fold != 1
    lines = replace(made.lines, **{name: getattr(made.lines, name)[seen]
                                   for name in ("row", "fold", "weight", "target")})
    held_out = made.solve([Penalties(0.2, 0.3, 1)], method)
    without = replace(made, lines=lines)
    assert_allclose(made.values(held_out, 0), without.dense(Penalties(0.2, 0.3)), atol=1e-6)


@pytest.mark.parametrize("c", [1, 3])
@pytest.mark.parametrize("budget", [1 << 30, 4 * 8 * 45 * 3])
def test_labeled_points_are_predicted_by_functions_that_did_not_see_their_fold(c, budget):
    made = case(c=c)
    pairs = [Penalties(0.5, 0.1), Penalties(0.01, 0.0), Penalties(3.0, 1.0)]
    items = with_folds(pairs, 3)
    groups = list(held_out_values(made.system, made.solve(items), items, InProcess(2, budget)))
    assert len(groups) == (1 if budget > 1 << 20 else 3 if c == 3 else 1), "as many pairs at a time as fit"
    found, lines = np.concatenate(groups, axis=1), made.lines
    assert np.isnan(found[lines.fold == 3]).all(), "some points are never held out"
    for p, pair in enumerate(pairs):
        for fold in range(3):
            mine = lines.fold == fold
            expected = made.dense(replace(pair, held_out=fold))[lines.row[mine]]
            assert_allclose(found[mine, p], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("whitening", ["auto", None])
def test_gram_matrices_that_were_stored_give_the_same_functions(whitening):
    made = case(whitening=whitening)
    items = [Penalties(0.5, 0.1), Penalties(0.01, 0.0), Penalties(3.0, 1.0, control=True)]
    gram = gram_system(made.system, [*items, *with_folds(items[:1], 3)], made.execution)
    arrays, attributes = gram.to_arrays()
    again = GramSystem.from_arrays(arrays, json.loads(json.dumps(attributes)), made.lines, made.system.params,
                                   made.system.fit_intercept)
    before, after = solve_from_gram(gram, items, made.execution), solve_from_gram(again, items, made.execution)
    assert_array_equal(after.coef, before.coef)
    assert_array_equal(after.intercept, before.intercept)
    assert sum(array.nbytes for array in arrays.values()) < sum(
        array.nbytes for array in gram.sums.values()) + 2 * 8 * made.system.s**2, "without folds"


# What is reported and refused


def test_a_column_that_does_not_converge_is_an_error():
    made = case(tol=1e-10, max_iter=3)
    with pytest.raises(NotConverged, match="did not converge in 3 iterations"):
        made.solve([Penalties(1e-4, 1.0)], "nystrom-cg")
    assert not CACHE.blocks, "its kernel blocks are given back all the same"


def test_an_error_gives_kernel_blocks_back():
    kept = []

    def broken(X, Z):
        if CACHE.blocks:
            kept.append(len(CACHE.blocks))
            if len(CACHE.blocks) == 3:
                raise OSError("the disk is gone")
        return RBF(1.0)(X, Z)

    made = case(kernel=broken)
    with pytest.raises(OSError, match="disk"):
        made.solve(ITEMS, "nystrom-cg")
    assert max(kept) == 3
    assert not CACHE.blocks


def test_kernels_that_are_no_number_do_not_converge():
    made = case()
    broken = replace(made.system, problem=replace(made.system.problem, kernel=lambda X, Z: np.full(
        (len(X), len(Z)), np.nan)))
    for method in METHODS:
        named = replace(broken, params=replace(broken.params, solver=method))
        with pytest.raises((NotConverged, DataError)):
            least_squares_solver(named, ITEMS[:1], InProcess(1)).solve(ITEMS[:1])


def test_gram_systems_that_rounding_leaves_unsolved_are_an_error():
    """As the paper writes it in float32, with a wide kernel: the residual stays at 1e-2 and more, and says so."""
    made = case(400, 80, 150, kernel=RBF(30.0), whitening=None, precision="float32")
    with pytest.raises(NotConverged, match="relative residual of"):
        made.solve([Penalties(1e-6, 0.1)])
    whitened = case(400, 80, 150, kernel=RBF(30.0), precision="float32")
    assert whitened.solve([Penalties(1e-6, 0.1)]).evidence["max_residual"] < 1e-12


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.slow_cases("nystrom-cg")
def test_float32_blocks_keep_four_digits_of_the_function(method):
    """Measured, relative to the largest value: 1e-5 to 8e-5, by every method, with eigenvalues of K_ss down to 1e-6."""
    made = case(400, 60, 150, precision="float32", whitening=1e-6, tol=1e-7, max_iter=2000)
    wide = replace(made, system=case(400, 60, 150, whitening=1e-6, tol=1e-7, max_iter=2000).system)
    a, b = made.solve(ITEMS, method), wide.solve(ITEMS, "nystrom-direct")
    for index in range(len(ITEMS)):
        expected = wide.values(b, index)
        assert np.abs(made.values(a, index) - expected).max() < 2e-4 * np.abs(expected).max()


@pytest.mark.slow
def test_penalties_are_solved_in_groups_whose_factors_fit():
    made = case(tol=1e-9)
    items = with_folds([Penalties(a, i) for a in (0.1, 1.0) for i in (0.0, 0.2, 2.0)], 2)
    r = made.system.r
    assert (factors_that_fit(r, 16 * 8 * r * r), factors_that_fit(r, 1)) == (8, 1)
    assert groups_of(items, 4) == [[0, 1, 2, 3, 4, 5, 6, 7], [8, 9, 10, 11]]
    assert groups_of([], 4) == []
    few = InProcess(1, 2 * 2 * 8 * r * r)  # two factors
    together, apart = (replace(made, execution=execution).solve(items, "nystrom-pcg")
                       for execution in (made.execution, few))
    assert_allclose(apart.coef, together.coef, atol=1e-7 * np.abs(together.coef).max())
    assert len(apart.evidence["iterations"]) == len(items)
    assert apart.evidence["passes"] > together.evidence["passes"]


@pytest.mark.parametrize("size", [1e-200, 1e200])
def test_right_hand_sides_of_any_size_are_solved(size):
    A, rng = np.diag(np.arange(1.0, 6)), np.random.default_rng(0)
    right = rng.normal(size=(5, 3))
    right[:, 2] = 0.0
    solution, residual = refined(A, right * size)
    assert_allclose(solution / size, np.linalg.solve(A, right), rtol=1e-12)
    assert residual < 1e-12


# Held-out labels of one pair of penalties


@pytest.mark.parametrize("at_once", [1, 2, 5])
def test_folds_are_held_out_of_functions_of_the_other_labels(at_once, monkeypatch):
    """Whatever the folds that were summed before, some labels in none of the folds, and points in another order."""
    monkeypatch.setattr(laprls_solve, "folds_that_fit", lambda *sizes: at_once)
    rng, pair = np.random.default_rng(5), Penalties(0.3, 0.4)
    made = case(order=rng.permutation(120))
    lines = replace(made.lines, fold=rng.integers(0, 6, len(made.lines.row)), n_held_out_folds=5)
    folded = replace(made, lines=lines)
    system = replace(made.system, params=replace(made.system.params, solver="nystrom-direct"))
    values, = least_squares_solver(system, [pair], made.execution).held_out_pairs([(lines, pair)])
    for fold in range(5):
        line = lines.fold == fold
        assert_allclose(values[line], folded.dense(replace(pair, held_out=fold))[lines.row[line]], rtol=1e-7, atol=1e-9)
    assert np.isnan(values[lines.fold == 5]).all()


def test_folds_that_a_fit_will_hold_out_are_summed_in_its_own_pass():
    made, pair = case(), Penalties(0.3, 0.4)
    lines = replace(made.lines, fold=np.random.default_rng(5).integers(0, 6, len(made.lines.row)), n_held_out_folds=5)
    system = replace(made.system, params=replace(made.system.params, solver="nystrom-direct"))
    alone, known = (least_squares_solver(system, [pair], made.execution, later=later) for later in (None, lines))
    assert (len(alone.gram.sums["labels"]), len(known.gram.sums["labels"])) == (4, 6)
    assert_allclose(known.solve([pair]).coef, alone.solve([pair]).coef, rtol=1e-9)
    assert_allclose(known.held_out_pairs([(lines, pair)])[0], alone.held_out_pairs([(lines, pair)])[0], rtol=1e-8)
    single = replace(lines, fold=np.arange(len(lines.row)), n_held_out_folds=len(lines.row))
    in_closed_form = least_squares_solver(system, [pair], made.execution, later=single)
    assert len(in_closed_form.gram.sums["labels"]) == 4


def test_sums_of_as_many_folds_as_a_quarter_of_the_budget_holds():
    for n_folds in (1, 3, 7):
        needed = 4 * gram_bytes(500, n_folds, points=False, energy=False, n_outputs=3)
        assert folds_that_fit(500, 3, needed) == n_folds
        assert folds_that_fit(500, 3, needed - 4) == max(1, n_folds - 1)


# The choice of a method

GRID = with_folds([Penalties(a, i) for a in (0.1, 1.0, 10.0) for i in (0.01, 0.1, 1.0)], 5)
BIG = {"v": 500_000, "halo": 0.5, "nnz": 6_000_000, "m": 5000, "d": 50, "n_outputs": 1, "itemsize": 8,
       "n_folds": 5}


def test_gram_matrices_for_few_landmarks_and_many_systems_iterations_for_many_landmarks():
    def chosen(s, systems=GRID, budget=8 << 30, **other):
        return choose_method(s=s, systems=systems, budget=budget, **(BIG | other))[0]

    assert chosen(500) == chosen(2000) == "nystrom-direct"
    assert chosen(20_000, GRID[:1]) == "nystrom-pcg"
    assert chosen(1000, [Penalties(1.0, 0.0)], m=50_000, n_outputs=7, itemsize=4, n_folds=0) == "nystrom-direct", (
        "one pass for the labels, a second for the held-out ones")
    assert chosen(2000, budget=gram_bytes(2000, 5, False) - 1) == "nystrom-pcg"
    assert chosen(2000, budget=gram_bytes(2000, 5, False)) == "nystrom-direct"
    assert chosen(2000, budget=gram_bytes(2000, 1, False), closed_form=1e10) == "nystrom-direct", "of all folds in one"


def test_auto_says_what_it_expects():
    made = case()
    method, costs = solver_method(made.system, ITEMS, made.execution)
    assert method == "nystrom-direct"
    assert costs["nystrom-direct"] <= costs["nystrom-pcg"]
    named = replace(made.system, params=replace(made.system.params, solver="nystrom-cg"))
    assert solver_method(named, ITEMS, made.execution) == ("nystrom-cg", {})


def test_centers_serve_as_landmarks():
    made = case(landmarks=Landmarks(np.random.default_rng(0).normal(size=(15, 3)), None), tol=1e-8)
    for method in METHODS:
        assert_functions(made, ITEMS, made.solve(ITEMS, method), CLOSE[method])


class Counting(InProcess):
    """Runs tasks in this process and notes how many each map had."""

    def __init__(self):
        super().__init__(1)
        self.maps = []

    def map(self, tasks, *arguments, **options):
        self.maps.append(len(tasks))
        return super().map(tasks, *arguments, **options)


def solver_of(made, name, pair):
    if name == "pcg":
        system = replace(made.system, params=replace(made.system.params, solver="nystrom-pcg", tol=1e-12))
        return least_squares_solver(system, [pair], made.execution)
    system = replace(made.system, params=replace(made.system.params, solver="nystrom-direct"))
    if name == "hinge":
        return smooth_solver(system, SquaredHinge(), [pair], made.execution)
    solver = least_squares_solver(system, [pair], made.execution)
    if name == "gram":
        return solver
    features = label_features(system, made.execution)
    return StoredGramSolver(replace(solver.gram, sums=solver.gram.sums | {"features": features}), made.execution)


@pytest.mark.parametrize(("name", "maps"), [("stored", [3]), ("hinge", [3]), ("gram", None), ("pcg", None)])
def test_labels_are_held_out_together_as_they_are_alone(name, maps):
    execution, pair, rng = Counting(), Penalties(0.3, 0.4), np.random.default_rng(8)
    made = case(execution=execution, coded=True)
    solver, m = solver_of(made, name, pair), len(made.lines.row)
    repetitions = [(replace(made.lines, fold=fold, n_held_out_folds=n_folds), pair) for fold, n_folds in (
        (rng.integers(0, 5, m), 4), (rng.integers(0, 2, m), 1), (np.arange(m), m))]
    execution.maps.clear()
    together = solver.held_out_pairs(repetitions)
    assert maps in (None, execution.maps)
    for values, each in zip(together, repetitions, strict=True):
        assert_array_equal(values, *solver.held_out_pairs([each]))
        lines = each[0]
        assert_array_equal(np.isnan(values).all(axis=1), lines.fold == lines.n_held_out_folds)
        if name != "hinge":
            folded = replace(made, lines=lines)
            for fold in range(min(lines.n_held_out_folds, 4)):
                line = lines.fold == fold
                assert_allclose(values[line], folded.dense(replace(pair, held_out=fold))[lines.row[line]], rtol=1e-6,
                                atol=1e-7)
    assert solver.held_out_pairs([]) == []


# LapRLS on all points: what is held of the kernel


@pytest.mark.parametrize("limit", [1 << 30, 60_000, 20_000, 1])
def test_no_more_of_the_kernel_is_evaluated_than_may_be_held(limit):
    X, rng = np.random.default_rng(0).normal(size=(80, 3)), np.random.default_rng(1)
    P, rows, seen = rng.normal(size=(80, 4)), rng.integers(0, 80, 50), []

    def kernel(A, B):
        seen.append(8 * len(A) * len(B))
        return RBF(1.0)(A, B)

    held, K = FullKernel(kernel, X, limit), RBF(1.0)(X, X)
    assert_allclose(held(P), K @ P, rtol=1e-12)
    assert_allclose(held.of_rows(rows, P), K[rows] @ P, rtol=1e-12)
    assert (held.K is None) == (limit < 8 * 80 * 80)
    assert max(seen) <= (limit if held.K is not None else max(limit // 2, 8 * 80))


def test_a_small_budget_changes_no_coefficient():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 2))
    target, folds = Quantities(np.arange(60), np.sin(X[:60, :1])), [np.arange(30), np.arange(30, 60)]
    params = LapRLSParams(gamma_A=("auto", "10*auto"), gamma_I=(0.0,),
                          system=SystemParams(solver="cg", tol=1e-12))
    problem = LapRLSProblem.of(ArrayRows(X), target, params, InProcess(1), folds=folds)
    large, small = (problem.prepared(RBF(1.0), InProcess(1, budget), held_out=True) for budget in (1 << 30, 4000))
    rows, others = (search_penalties(own, InProcess(1)) for own in (large, small))
    assert_allclose([row.scores["rmse"] for row in rows], [row.scores["rmse"] for row in others], rtol=1e-4)
    best = {"model": problem.all_candidates[np.argmin([row.scores["rmse"] for row in rows])]}
    assert_allclose(large.fitted(best).models["model"].coef, small.fitted(best).models["model"].coef, atol=1e-7)


@pytest.mark.parametrize("loss", [SQUARES, SquaredHinge(), HuberHinge(0.01)], ids=str)
@pytest.mark.extended_cases("HuberHinge(h=0.01)")
def test_a_ratio_of_penalties_is_factored_once(monkeypatch, loss):
    rng, factored = np.random.default_rng(0), []
    X, y = rng.normal(size=(120, 2)), np.where(rng.normal(size=40) > 0, "a", "b")
    names, codes = np.unique(y, return_inverse=True)
    folds = [np.arange(fold, 40, 5) for fold in range(5)]
    graph = KNNGraph(n_neighbors=6).build(X)

    def rows_of(**penalties):
        params = LapRLSParams(**penalties, system=SystemParams(solver="direct"), loss=loss)
        problem = LapRLSProblem.of(ArrayRows(X), Classes(np.arange(40), codes, names), params, InProcess(1),
                                   graph=graph, folds=folds)
        return search_penalties(problem.prepared(RBF(1.0), InProcess(1), held_out=True), InProcess(1))

    monkeypatch.setattr(dense, "lu_factor", lambda A, **options: factored.append(len(A)) or lu_factor(A, **options))
    grid = {"gamma_A": (1e-3, 1e-2, 1e-1), "gamma_I": (0.0, 1e-2, 1e-1, 1.0)}
    rows = rows_of(**grid)
    assert factored == [120] * 5
    for row in rows:
        alone, = rows_of(gamma_A=(row.parameters["gamma_A"],), gamma_I=(row.parameters["gamma_I"],))
        assert row.scores["error"] == alone.scores["error"]
        assert row.scores["rmse"] == pytest.approx(alone.scores["rmse"], rel=1e-7)

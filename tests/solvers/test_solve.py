"""Every method solves every regularizer, says truly how well, and fails loudly when it cannot."""

import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pyamg
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy.sparse.linalg import spsolve

from dssl.base.errors import DataError, DsslError, NotConverged, ParameterError
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.laplacian import Laplacian
from dssl.solvers import amg, columns, operators
from dssl.solvers.gauss_seidel import GaussSeidel
from dssl.solvers.method import FILL, LU_BYTES, Direct
from dssl.solvers.scaling import scaled_matrix
from dssl.solvers.solve import Solver, prepare, solve, solve_columns
from dssl.solvers.solver_params import SolverParams
from dssl.storage.cache import FACTORS
from tests.in_pairs import in_pairs
from tests.memory import traced_peak

from .graphs import components, grid, points, random_graph, regularizer, with_hub, with_uneven_weights

ITERATIVE = ("gauss_seidel", "deflated", "amg", "cholesky")
METHODS = (*ITERATIVE, "direct", "auto")
GRAPHS = {
    "connected": lambda weighted: random_graph(150, 5, random_state=1, weighted=weighted),
    "components": lambda weighted: components([60, 40, 30, 9, 5, 3, 2], random_state=2, weighted=weighted),
    "hub": lambda weighted: with_hub(random_graph(150, 4, random_state=3, weighted=weighted)),
    "grid": lambda weighted: grid(13),
}


@pytest.fixture
def deep_hierarchies(monkeypatch):
    """Multigrid on a hundred vertices gets several levels."""
    monkeypatch.setattr(amg, "COARSEST", 12)


def relative_residuals(R, X, B):
    return np.linalg.norm(B - R @ X, axis=0) / np.linalg.norm(B, axis=0)


@in_pairs({"normalized": [False, True], "ridge": [0, 1e-6, 1e-3], "method": METHODS, "graph": GRAPHS})
@pytest.mark.usefixtures("deep_hierarchies")
def test_solution_is_the_pseudo_inverse(graph, method, ridge, normalized):
    """A singular matrix has the pseudo-inverse in its own coordinates, component by component."""
    for weighted in (False, True):
        R, vector = regularizer(GRAPHS[graph](weighted), ridge, normalized)
        n = R.shape[0]
        B = np.hstack([points(n, [0, n // 2, n - 1]), np.random.default_rng(0).normal(size=(n, 3))])
        expected = np.linalg.pinv(R.toarray(), rcond=1e-12, hermitian=True) @ B

        found = solve(R, B, method=method, tol=1e-8, vector=vector)

        assert_allclose(found.value, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("normalized", [False, True])
def test_a_singular_matrix_has_a_sparse_factor(normalized):
    A = scaled_matrix(*regularizer(sp.block_diag([grid(40), grid(20)], format="csr"), 0, normalized))
    assert A.singular.all()
    assert Direct(A)._lu.nnz < FILL * len(A.data) < A.n**2 / 5


def test_tasks_of_a_thread_share_the_factor_of_a_matrix(monkeypatch):
    """Each reads the arrays of the solver for itself; a factor too large for the cache is made by each."""
    monkeypatch.setattr(FACTORS, "limit", 1 << 20)
    FACTORS.clear()
    R, vector = regularizer(grid(13), 1e-3, True)
    stored = prepare(R, 3, SolverParams(method="direct"), vector).to_arrays()

    def read() -> Solver:
        arrays = {name: array.copy() for name, array in stored.items()}
        return Solver.from_arrays(arrays, SolverParams(method="direct"))

    B = np.random.default_rng(0).normal(size=(R.shape[0], 3))
    solved, lu = read().solve(B).value, read().method._lu
    assert read().method._lu is lu
    other = prepare(R + sp.eye_array(len(B)), 3, SolverParams(method="direct"), vector)
    assert other.method._lu is not lu
    assert read().method._lu is lu

    FACTORS.limit = LU_BYTES * lu.nnz
    assert other.method.__class__(other.A)._lu is other.method._lu  # still there
    again = prepare(R + 2 * sp.eye_array(len(B)), 3, SolverParams(method="direct"), vector)
    assert again.method._lu.nnz == lu.nnz  # the only one that fits now
    assert read().method._lu is not lu

    FACTORS.limit = 0
    FACTORS.clear()
    assert read().method._lu is not read().method._lu
    assert_array_equal(read().solve(B).value, solved)


def test_each_thread_has_its_own_factor(monkeypatch):
    """SuperLU counts its memory by thread, so that what another thread frees is lost."""
    monkeypatch.setattr(FACTORS, "limit", 1 << 20)
    R, vector = regularizer(grid(13), 1e-3, True)
    method = prepare(R, 3, SolverParams(method="direct"), vector).method

    barrier = threading.Barrier(2)

    def twice(_: int) -> bool:
        barrier.wait()
        first = Direct(method.A)._lu
        factors.add(id(first))
        barrier.wait()  # both are alive
        return Direct(method.A)._lu is first

    factors = set[int]()
    with ThreadPoolExecutor(2) as pool:
        assert all(pool.map(twice, range(2)))
    assert len(factors) == 2


@in_pairs({"normalized": [False, True], "method": METHODS})
def test_isolated_vertices_and_hundreds_of_components_are_solved_with_a_ridge(method, normalized):
    W = components([1] * 20 + [2] * 60 + [3] * 60 + [7] * 40 + [300], random_state=4)
    R, vector = regularizer(W, 1e-3, normalized)
    B = np.random.default_rng(0).normal(size=(W.shape[0], 5))

    found = solve(R, B, method=method, tol=1e-9, vector=vector)

    assert_allclose(found.value, spsolve(R.tocsc(), B), rtol=1e-5, atol=1e-5 * np.abs(found.value).max())


@pytest.mark.parametrize("ridge", [0, 1e-6])
@pytest.mark.parametrize("method", ITERATIVE)
@pytest.mark.usefixtures("deep_hierarchies")
def test_more_components_than_the_coarsest_grid_holds(method, ridge):
    """On a coarse level a singular component is one unknown with a diagonal of zero."""
    W = components([4, 5, 6] * 40 + [200], random_state=5)
    R, _ = regularizer(W, ridge, False)
    B = np.random.default_rng(0).normal(size=(W.shape[0], 4))

    found = solve(R, B, method=method, tol=1e-8)

    expected = np.linalg.pinv(R.toarray(), rcond=1e-12, hermitian=True) @ B
    assert_allclose(found.value, expected, rtol=1e-5, atol=1e-5 * np.abs(expected).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("deep_hierarchies")
def test_links_weaker_than_the_rounding_of_float32(method):
    """No correction in float32 reduces what lies along an eigenvalue of 1e-11; those columns end in float64."""
    rng = np.random.default_rng(9)
    clump = 0.3 * rng.integers(0, 4, (60, 2)) + 0.02 * rng.normal(size=(60, 2))**3 + 50
    W = KNNGraph(n_neighbors=5).build(np.concatenate([rng.normal(size=(500, 2)), clump])).weights()
    R, _ = regularizer(W, 0, False)
    assert np.linalg.eigvalsh(R.toarray())[2] < 1e-8
    B = R @ points(R.shape[0], np.arange(500, 540))

    found = solve(R, B, method=method, tol=1e-6)

    assert relative_residuals(R, found.value, B).max() <= 1e-6


@in_pairs({"seed": [6, 7, 10, 13], "smallest": [1e-6, 1e-10], "tol": [1e-3, 1e-4, 1e-6]})
def test_a_correction_in_float64_is_repeated_where_one_is_not_enough(seed, smallest, tol):
    """Degrees differ by orders of magnitude: the scaled residual, which a correction lowers, is not the given one."""
    rng, n, ends = np.random.default_rng(seed), 3500, 14_000
    i = rng.integers(0, n, ends)
    j, weight = (i + rng.integers(1, 4, ends)) % n, 10.0**rng.uniform(np.log10(smallest), 1, ends)
    W = sp.csr_array((np.tile(weight, 2), (np.concatenate([i, j]), np.concatenate([j, i]))), (n, n))
    degrees = np.maximum(W.sum(axis=1), 1e-12)
    R = sp.csr_array(sp.diags_array(degrees * (1 + 1e-10)) - W)
    B = points(n, rng.choice(n, 20)) - degrees[:, None] / degrees.sum()

    assert relative_residuals(R, solve(R, B, method="cholesky", tol=tol).value, B).max() <= 1.001 * tol


@pytest.mark.parametrize("method", METHODS)
def test_one_and_two_vertices(method):
    assert_allclose(solve(sp.csr_matrix([[4.0]]), np.array([2.0]), method=method).value, [0.5])
    pair = sp.csr_matrix([[1.0, -1.0], [-1.0, 1.0]])
    assert_allclose(solve(pair, np.array([[1.0], [0.0]]), method=method).value, [[0.25], [-0.25]], atol=1e-6)


@pytest.mark.parametrize("method", ITERATIVE)
def test_agrees_with_pyamg_on_a_grid(method):
    R, _ = regularizer(grid(40), 1e-3, False)
    b = np.random.default_rng(0).normal(size=1600)
    expected = pyamg.smoothed_aggregation_solver(R).solve(b, tol=1e-12, accel="cg")
    assert_allclose(solve(R, b, method=method, tol=1e-10).value, expected, rtol=1e-6,
                    atol=1e-6 * np.abs(expected).max())


@in_pairs({"tol": [1e-2, 1e-6, 1e-11], "method": METHODS})
def test_reported_residuals_are_the_true_ones(method, tol):
    R, vector = regularizer(random_graph(400, 5, random_state=6, weighted=True), 1e-4, True)
    B = np.random.default_rng(1).normal(size=(400, 9))

    found = prepare(R, 9, SolverParams(method=method, tol=tol), vector).solve(B)

    assert found.converged.all()
    assert (found.residuals <= tol).all()
    assert_allclose(found.residuals, relative_residuals(R, found.value, B), rtol=1e-3, atol=1e-12)


@pytest.mark.parametrize("method", ITERATIVE)
def test_a_column_that_does_not_converge_fails_loudly(method):
    R, _ = regularizer(grid(40), 1e-6, False)
    with pytest.raises(NotConverged, match=r"2 of 2 columns did not converge.*\n.*\n  fix: raise the ridge, raise "
                                           r"max_iter,") as error:
        solve(R, points(1600, [3, 700]), method=method, max_iter=3)
    assert ("method='cholesky'" in str(error.value)) == (method != "cholesky")
    found = prepare(R, 2, SolverParams(method=method, max_iter=3)).solve(points(1600, [3, 700]))
    assert not found.converged.any()
    assert (found.iterations <= 3).all()
    assert_allclose(found.residuals, relative_residuals(R, found.value, points(1600, [3, 700])), rtol=1e-3)


def test_an_unreachable_tolerance_ends():
    """Below the rounding of float64 no correction helps; the loop stops there and says so."""
    R, _ = regularizer(random_graph(300, 4, random_state=7), 1e-9, False)
    found = prepare(R, 1, SolverParams(method="gauss_seidel", tol=1e-14)).solve(points(300, [5]))
    assert found.iterations.max() < 3000
    assert found.residuals.max() < 1e-6


@pytest.mark.parametrize("method", METHODS)
def test_zero_is_solved_by_zero_without_iterations(method):
    R, _ = regularizer(random_graph(200, 5, random_state=8), 1e-3, False)
    B = np.zeros((200, 3))
    B[4, 1] = 1
    found = prepare(R, 3, SolverParams(method=method)).solve(B)
    assert_array_equal(found.value[:, [0, 2]], 0)
    assert_array_equal(found.iterations[[0, 2]], 0)
    assert_array_equal(found.residuals[[0, 2]], 0)
    assert found.converged.all()


def test_no_columns():
    R, _ = regularizer(random_graph(20), 1e-3, False)
    found = prepare(R, 0, SolverParams(method="gauss_seidel")).solve(np.empty((20, 0)))
    assert found.value.shape == (20, 0)
    assert found.require_converged(SolverParams()) is found


@st.composite
def systems(draw):
    """Draw (R, vector, B): a graph of one or several components with a ridge, and four columns."""
    random_state = draw(st.integers(0, 2**20))
    sizes = draw(st.lists(st.integers(1, 30), min_size=1, max_size=4))
    W = components(sizes, random_state=random_state, weighted=draw(st.booleans()))
    R, vector = regularizer(W, draw(st.sampled_from([1e-4, 1e-2, 1.0])), draw(st.booleans()))
    return R, vector, np.random.default_rng(random_state).normal(size=(W.shape[0], 4))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None)
@given(system=systems())
@pytest.mark.usefixtures("deep_hierarchies")
def test_solution_is_linear_and_symmetric(method, system):
    """R^-1 (2b - 3c) = 2 R^-1 b - 3 R^-1 c, and <R^-1 u, v> = <u, R^-1 v>."""
    R, vector, B = system
    u, v = B[:, 0], B[:, 1]
    columns = np.column_stack([u, v, 2 * u - 3 * v])

    X = solve(R, columns, method=method, tol=1e-11, vector=vector).value

    scale = np.abs(X).max()
    assert_allclose(X[:, 2], 2 * X[:, 0] - 3 * X[:, 1], rtol=1e-6, atol=1e-6 * scale)
    assert X[:, 0] @ v == pytest.approx(u @ X[:, 1], rel=1e-6, abs=1e-6 * scale * np.linalg.norm(v))


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None)
@given(system=systems(), block=st.integers(1, 4))
@pytest.mark.usefixtures("deep_hierarchies")
def test_a_column_does_not_depend_on_its_block(method, system, block):
    R, vector, B = system
    solver = prepare(R, 4, SolverParams(method=method, tol=1e-8), vector)
    whole = solver.solve(B)
    blocks = replace(solver, params=replace(solver.params, block_columns=block)).solve(B)
    if solver.params.method == "gauss_seidel":
        assert_array_equal(blocks.value, whole.value)
        assert_array_equal(blocks.iterations, whole.iterations)
    assert_allclose(blocks.value, whole.value, rtol=1e-3, atol=1e-3 * np.abs(whole.value).max())


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("method", ["gauss_seidel", "cholesky"])
@pytest.mark.parametrize(("tol", "ridge"), [(1e-3, 1e-3), (1e-9, 1e-3), (1e-10, 1e-9)])
def test_columns_of_unlike_difficulty_do_not_touch_each_other(tol, ridge, method, compiled, monkeypatch):
    """Beside columns that need many iterations, a smooth column ends with the bits it has alone.

    Those that are solved leave the block meanwhile, and with a tiny ridge some go on in float64.
    """
    if compiled:
        for module in (columns, operators):
            monkeypatch.setattr(module, "FEW_ROWS", 0)
    R, _ = regularizer(grid(30), ridge, False)
    rng = np.random.default_rng(9)
    B = np.column_stack([np.ones(900), points(900, [0, 450]), rng.normal(size=(900, 14)), np.zeros(900)])
    solver = prepare(R, 4, SolverParams(method=method, tol=tol))
    whole = solver.solve(B)
    assert len(np.unique(whole.iterations)) > 2
    for column in range(B.shape[1]):
        alone = solver.solve(B[:, column:column + 1])
        assert_array_equal(alone.value[:, 0], whole.value[:, column])
        assert alone.iterations[0] == whole.iterations[column]


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=15, deadline=None)
@given(system=systems(), random_state=st.integers(0, 100))
@pytest.mark.usefixtures("deep_hierarchies")
def test_relabeling_the_vertices_relabels_the_solution(method, system, random_state):
    R, vector, B = system
    order = np.random.default_rng(random_state).permutation(R.shape[0])
    moved = solve(R[order][:, order], B[order], method=method, tol=1e-10,
                  vector=None if vector is None else vector[order]).value
    expected = solve(R, B, method=method, tol=1e-10, vector=vector).value[order]
    assert_allclose(moved, expected, rtol=1e-4, atol=1e-4 * np.abs(expected).max())


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("deep_hierarchies")
def test_arrays_make_the_same_solver_again(method):
    R, vector = regularizer(components([200, 50, 1], random_state=9, weighted=True), 1e-3, True)
    B = np.random.default_rng(2).normal(size=(251, 5))
    solver = prepare(R, 5, SolverParams(method=method), vector)
    arrays = solver.to_arrays()
    assert all(isinstance(array, np.ndarray) and "/" not in name for name, array in arrays.items())

    again = Solver.from_arrays(pickle.loads(pickle.dumps(arrays)), solver.params, solver.attributes)

    assert_array_equal(again.solve(B).value, solver.solve(B).value)
    assert again.to_arrays().keys() == arrays.keys()


@pytest.mark.parametrize("method", METHODS)
def test_the_bytes_of_the_arrays_are_foretold(method):
    """But for a few numbers a vector and a component; what the levels of a hierarchy take is bounded."""
    R, vector = regularizer(random_graph(4000, 8, random_state=14), 1e-3, True)
    solver = prepare(R, 300, SolverParams(method=method), vector)
    found = sum(array.nbytes for array in solver.to_arrays().values())
    stated = type(solver.method).solver_bytes(4000, len(solver.A.data), 300, guess=True)
    assert found <= stated * 1.002
    if not solver.method.stored_guess:
        assert found >= stated * 0.998


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.usefixtures("deep_hierarchies")
def test_a_seed_fixes_every_bit(method):
    R, vector = regularizer(random_graph(500, 5, random_state=10), 1e-4, True)
    B = points(500, [1, 2, 3])
    first, second = (prepare(R, 3, SolverParams(method=method, random_state=7), vector) for _ in range(2))
    assert_array_equal(first.solve(B).value, second.solve(B).value)


class TestChoice:
    """`auto` counts work on probe columns."""

    def prepared(self, W, n_columns=300, **params):
        R, vector = regularizer(W, 1e-6, True)
        return R, prepare(R, n_columns, SolverParams(**params), vector)

    def test_small_matrices_of_a_narrow_band_are_factored(self):
        """A factor of a random graph fills up: of 3,000 vertices it takes a hundred times as long as all iterations."""
        assert self.prepared(grid(30))[1].params.method == "direct"
        assert self.prepared(random_graph(3000, 10))[1].params.method != "direct"
        for W, method in ((grid(30), "direct"), (random_graph(3000, 10), "gauss_seidel")):
            R, vector = regularizer(W, 1e-3, True)
            B = points(R.shape[0], range(20))
            solution, last = solve_columns(R, B, vector=vector)
            assert last == method
            assert (relative_residuals(R, solution.value, B) <= 1.001e-6).all()

    @pytest.mark.parametrize("n", [1, 2, 3])
    def test_the_smallest_matrices_are_factored(self, n):
        W = random_graph(n, 1) if n > 2 else sp.csr_array(1.0 - np.eye(n))
        R, vector = regularizer(W, 0.1, False)
        assert_allclose(solve_columns(R, np.eye(n), vector=vector)[0].value, np.linalg.inv(R.toarray()), rtol=1e-12)

    def test_many_columns_of_an_expander_are_deflated(self):
        solver = self.prepared(random_graph(10_000, 6, random_state=11, weighted=True), n_columns=2000)[1]
        assert {attributes["method"] for attributes in solver.attributes["considered"]} == {"gauss_seidel", "deflated"}
        assert solver.params.method == "deflated"

    @pytest.mark.parametrize("n_columns", [2, 300])
    def test_a_grid_is_factored_approximately(self, n_columns):
        R, solver = self.prepared(grid(175), n_columns)
        assert solver.params.method == "cholesky"
        B = points(R.shape[0], [0, 15_000])
        found = solver.solve(B)
        assert (relative_residuals(R, found.value, B) <= 1.001e-6).all()
        assert found.iterations.max() < 40

    def test_the_choice_is_reproducible(self):
        first, second = (self.prepared(random_graph(5_000, 8, random_state=12), n_columns=50, random_state=3)[1]
                         for _ in range(2))
        assert first.attributes == second.attributes
        assert first.params == second.params


class TestErrors:
    @pytest.fixture
    def R(self):
        return regularizer(random_graph(20), 1e-3, False)[0]

    @pytest.mark.parametrize(("change", "message"), [
        (lambda R: R[:10], "shape"),
        (lambda R: R + sp.csr_matrix(([0.5], ([0], [15])), shape=R.shape), "differs from its transpose"),
        (lambda R: R * np.nan, "not finite"),
        (lambda R: R - sp.csr_matrix(([R[3, 3]], ([3], [3])), shape=R.shape), "row 3 has diagonal 0"),
        (lambda R: R - 0.5 * sp.identity(20), "not diagonally dominant"),
    ])
    def test_a_matrix_of_another_kind(self, R, change, message):
        with pytest.raises(DataError, match=message):
            prepare(sp.csr_matrix(change(R)), 1)

    def test_a_normalized_laplacian_needs_its_vector(self):
        R, _ = regularizer(with_hub(random_graph(30)), 0, True)
        with pytest.raises(DataError, match=r"(?s)not diagonally dominant.*square root of the degrees"):
            prepare(R, 1)

    @pytest.mark.parametrize("vector", [np.ones(19), np.zeros(20), -np.ones(20), np.full(20, np.nan), np.ones((20, 1))])
    def test_a_vector_that_cannot_scale_the_columns(self, R, vector):
        with pytest.raises(DataError, match="vector"):
            prepare(R, 1, vector=vector)

    def test_an_isolated_vertex_without_a_ridge(self):
        R, _ = regularizer(components([10, 1]), 0, False)
        with pytest.raises(DataError, match=r"(?s)has diagonal 0 \(1 such rows\).*isolated vertex.*add a ridge"):
            prepare(R, 1)

    @pytest.mark.parametrize("shape", [(19, 2), (20, 2, 1), (2, 20)])
    def test_right_hand_sides_of_a_wrong_shape(self, R, shape):
        with pytest.raises(ParameterError, match="right-hand sides of shape"):
            prepare(R, 1).solve(np.ones(shape))

    def test_right_hand_sides_that_are_not_finite(self, R):
        with pytest.raises(DataError, match="not finite"):
            solve(R, np.full(20, np.nan))

    @pytest.mark.parametrize("wrong", [
        {"method": "conjugate"}, {"tol": 0}, {"tol": 1}, {"max_iter": 0}, {"block_columns": 0},
        {"n_vectors": 0},
    ])
    def test_parameters(self, wrong):
        with pytest.raises(ParameterError, match=next(iter(wrong))):
            SolverParams(**wrong)


@pytest.mark.parametrize("method", ITERATIVE)
@pytest.mark.extended_cases("amg")
@pytest.mark.slow_cases("deflated", "cholesky")
def test_memory_stays_within_the_stated_formula(method):
    n, t, block = 20_000, 64, 32
    R, vector = regularizer(random_graph(n, 8, random_state=13), 1e-3, True)
    solver = prepare(R, t, SolverParams(method=method, block_columns=block, tol=1e-6), vector)
    B = points(n, np.arange(t))
    solver.solve(B[:, :1])  # compiles

    most = solver.solve_bytes(t) * 1.02 + (1 << 20)
    assert traced_peak(lambda: solver.solve(B), most) <= most
    assert solver.solve(B).converged.all()


@pytest.mark.parametrize(("ridge", "tol"), [(1e-7, 1e-4), (1e-8, 1e-3), (1e-9, 1e-4)])
def test_a_ridge_beside_heavy_weights_is_no_rounding(ridge, tol):
    """It is 1e-13 and less of the mean diagonal: the mean of the columns over it is in the solution, or an error says
    that float64 cannot reach the tolerance."""
    rng = np.random.default_rng(0)
    W = with_uneven_weights(grid(60), 12, rng)
    R, B = Laplacian(W, normalized=False).matrix(ridge), rng.standard_normal((3600, 3))
    try:
        solution = solve(R, B, tol=tol)
    except NotConverged:
        assert ridge < 1e-8
        return
    assert np.linalg.norm(B - R @ solution.value, axis=0).max() <= 1.1 * tol * np.linalg.norm(B, axis=0).max()
    assert_allclose(solution.value.mean(axis=0), B.mean(axis=0) / ridge, rtol=0.1)


@pytest.mark.parametrize("unit", [1e-200, 1.0, 1e200])
@pytest.mark.parametrize("method", ["auto", "cholesky"])
def test_the_residual_of_a_huge_solution_is_that_of_the_matrix_itself(method, unit):
    """One edge of 1e6 beside a ridge of 1e-8: the entries of the scaled matrix are rounded by more than the ridge."""
    n = 4000
    weights_of_path = np.ones(n - 1)
    weights_of_path[5] = 1e6
    path = sp.diags_array([weights_of_path], offsets=[1], shape=(n, n))
    R, b = Laplacian(sp.csr_array(path + path.T), normalized=False).matrix(1e-8), np.full(n, unit)
    with pytest.raises(NotConverged, match="relative residual"):
        solve(R, b, method=method, tol=1e-6)
    solution = solve(R, b, method=method, tol=1e-2)
    with_R = np.linalg.norm((b - R @ solution.value) / unit) / np.sqrt(n)
    assert 1e-5 < 0.9 * with_R <= solution.residuals[0] <= 1e-2


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
def test_a_hub_of_many_edges_without_a_ridge_is_singular(unit):
    """The sum of 50,000 equal entries rounds by more than that of a few."""
    n = 50_000
    star = sp.csr_array((np.full(n, unit), (np.zeros(n, int), np.arange(1, n + 1))), (n + 1, n + 1))
    for normalized in (False, True):
        L = Laplacian(star + star.T, normalized=normalized)
        A = scaled_matrix(L.matrix(0.0), np.asarray(L.vector))
        assert A.singular.all()
        assert (A.image == 0).all()
        ridge = 1e-9 * (1 if normalized else unit)
        assert not scaled_matrix(L.matrix(ridge), np.asarray(L.vector)).singular.any()


class TestFewColumns:
    """Gauss-Seidel serves a few columns in float32 where that does, and many where few iterations are expected."""

    def problem(self, n=4000, ridge=1e-3, t=3):
        path = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1])
        L = Laplacian(sp.csr_array(path), normalized=False)
        return L.matrix(ridge), np.random.default_rng(0).normal(size=(n, t))

    @pytest.mark.parametrize("t", [1, 2, 5])
    def test_a_column_that_float32_serves_badly_goes_on_in_float64(self, monkeypatch, t):
        """Corrections in float32 gain one digit of the five or six at which they aim; memory is as stated."""
        R, B = self.problem(n=30_000, ridge=0.1, t=t)
        correct, was_precise = GaussSeidel.correct, list[bool]()

        def gain_a_digit(self, *of, precise=False):
            was_precise.append(precise)
            E, used = correct(self, *of, precise=precise)
            return (E if precise else np.float32(0.9) * E), used

        monkeypatch.setattr(GaussSeidel, "correct", gain_a_digit)
        solver = prepare(R, t, SolverParams(method="gauss_seidel", tol=1e-8))
        solver.solve(B)  # compiles
        was_precise.clear()
        most = solver.solve_bytes(t) * 1.02 + (1 << 18)
        assert traced_peak(lambda: solver.solve(B), most) <= most
        taken = solver.solve(B)
        assert taken.converged.all()
        assert was_precise[:2] == [False, True]
        assert sum(not precise for precise in was_precise) == 2  # one of each of the two solutions

    def test_a_large_ridge_takes_gauss_seidel(self):
        R, B = self.problem(ridge=1.0)
        solver = prepare(R, 200)
        assert solver.params.method == "gauss_seidel"
        assert solver.solve(B).converged.all()


class TestEvidence:
    """What the solution says of itself is true, whatever solvers took turns and whatever the unit of the columns."""

    @pytest.mark.parametrize("tol", [1e-6, 1e-9, 1e-11])
    def test_the_residual_of_columns_that_the_factor_took_over_is_true(self, tol):
        R, vector = regularizer(grid(64), 1e-9, False)
        B = np.random.default_rng(0).normal(size=(4096, 2))
        found, method = solve_columns(R, B, SolverParams(tol=tol), vector)
        assert method == "cholesky"
        residuals = np.linalg.norm(B - R @ found.value, axis=0) / np.linalg.norm(B, axis=0)
        assert_allclose(found.residuals, residuals, rtol=0.5, atol=1e-11)
        assert_array_equal(found.converged, found.residuals <= tol)

    @pytest.mark.parametrize("method", METHODS)
    @pytest.mark.parametrize("unit", [2.0**-600, 2.0**-1000, 2.0**600, 2.0**900])
    @pytest.mark.usefixtures("deep_hierarchies")
    def test_the_unit_of_the_columns_changes_no_bit(self, method, unit):
        R, vector = regularizer(grid(12), 0.1, True)
        B = np.random.default_rng(0).normal(size=(144, 3))
        B[:, 1] = 0
        expected, found = (solve(R, values, method=method, vector=vector) for values in (B, unit * B))
        assert found.converged.all()
        assert_array_equal(found.value, unit * expected.value)
        assert_array_equal(found.residuals, expected.residuals)

    def test_advice_where_rounding_is_the_limit(self):
        n = 5000
        path = sp.diags_array([np.ones(n - 1), np.ones(n - 1)], offsets=[-1, 1], format="csr")
        R = Laplacian(sp.csr_array(path), normalized=False).matrix(1e-9)
        with pytest.raises(NotConverged, match="fix: raise the ridge, or loosen the tolerance"):
            solve(R, np.random.default_rng(0).normal(size=n), method="cholesky", tol=1e-13)

    @pytest.mark.parametrize(("change", "said"), [
        ({"B": 1.0}, r"B of shape \(\)"), ({"B": np.ones(9) * 1j}, "expected real numbers"),
        ({"B": sp.csr_array(np.ones((9, 1)))}, "expected real numbers"),
        ({"start": np.ones((1, 9))}, r"start of shape \(1, 9\), expected \(9,\)"),
        ({"max_iter": 2.5}, "a whole number"),
        ({"R": Laplacian(sp.csr_array(grid(3)))}, "R is a Laplacian, expected its matrix")])
    def test_what_cannot_be_solved_is_refused(self, change, said):
        given = {"R": regularizer(grid(3), 0.1, False)[0], "B": np.ones(9)} | change
        with pytest.raises(DsslError, match=said):
            solve(**given)

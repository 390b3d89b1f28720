"""What the iterative methods rest on: the V-cycle, the deflation basis, the scaled matrix, the kernels over columns."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl.solvers import amg, columns, operators
from dssl.solvers.columns import add_columns, column_dots, column_norms, to_float32
from dssl.solvers.deflation import deflation_basis
from dssl.solvers.operators import multiply
from dssl.solvers.pcg import conjugate_gradients
from dssl.solvers.scaling import scaled_matrix

from .graphs import components, grid, points, random_graph, regularizer, with_hub

FEW_OR_MANY = pytest.mark.parametrize("few_rows", [columns.FEW_ROWS, 0], ids=["few", "many"])
MATRICES = {
    "grid": lambda: regularizer(grid(25), 1e-3, False),
    "expander": lambda: regularizer(random_graph(500, 6, random_state=1, weighted=True), 1e-3, True),
    "hub": lambda: regularizer(with_hub(random_graph(300, 4, random_state=2)), 1e-2, False),
    "components": lambda: regularizer(components([200, 100, 30, 2, 1, 1], random_state=3), 1e-2, True),
}


@pytest.fixture(params=MATRICES)
def A(request):
    return scaled_matrix(*MATRICES[request.param]())


@pytest.fixture
def levels(A, monkeypatch):
    monkeypatch.setattr(amg, "COARSEST", 12)
    return amg.Multigrid.prepare(A, 1)


class TestCycle:
    def test_is_symmetric_and_positive_definite(self, A, levels):
        assert len(levels.levels) >= 1
        V = np.random.default_rng(0).normal(size=(A.n, 20)).astype(np.float32)
        energies = V.T @ levels.preconditioner(20)(V)
        assert_allclose(energies, energies.T, atol=1e-5 * np.abs(energies).max())
        assert np.linalg.eigvalsh(((energies + energies.T) / 2).astype(float)).min() > 0

    def test_contracts_the_error_in_energy(self, A, levels):
        """The cycle alone, repeated, converges: every eigenvalue of I - M A lies in (-1, 1), near 0."""
        X = np.random.default_rng(1).normal(size=(A.n, 5)).astype(np.float32)
        cycle, matrix = levels.preconditioner(5), A.to_scipy()
        before = np.einsum("ij,ij->j", X, matrix @ X)
        for _ in range(10):
            X -= cycle((matrix @ X).astype(np.float32))
        assert (np.einsum("ij,ij->j", X, matrix @ X) < 0.02 * before).all()

    def test_coarse_levels_represent_the_near_null_vector(self, A, levels):
        """The residual that A leaves on it is nearly orthogonal to what smoothing cannot see."""
        P = levels.levels[0].P.toarray().astype(float)
        joined = np.diff(levels.levels[0].A.indptr) > 1
        y = A.near_null * joined
        fitted = P @ np.linalg.lstsq(P, y, rcond=None)[0]
        assert np.linalg.norm(fitted - y) < 0.15 * np.linalg.norm(y)

    def test_work_counts_entries(self, levels):
        expected = sum(2 * level.A.nnz + 2 * level.P.nnz for level in levels.levels) + levels.coarsest.size
        assert levels.work == pytest.approx(expected / levels.levels[0].A.nnz)


def test_sweeps_are_gauss_seidel():
    """One cycle with an empty coarse grid is a forward sweep and then a backward sweep: (L+D)^-T D (L+D)^-1."""
    scaled = scaled_matrix(*MATRICES["expander"]())
    A, n = scaled.to_scipy().toarray(), scaled.n
    matrix = amg.sp.csr_matrix(A.astype(np.float32))
    level = amg.Level(matrix, (1 / A.diagonal()).astype(np.float32), amg.sp.csr_matrix((n, 0), dtype=np.float32))
    B = np.random.default_rng(0).normal(size=(n, 3)).astype(np.float32)
    lower = np.tril(A)
    expected = np.linalg.solve(lower.T, np.diag(A.diagonal()) @ np.linalg.solve(lower, B))
    found = amg.Multigrid(scaled, [level], np.empty((0, 0), np.float32)).preconditioner(3)(B)
    assert_allclose(found, expected, rtol=1e-3, atol=1e-4)


class TestDeflation:
    def test_basis_is_orthonormal_and_off_the_near_null_vectors(self, A):
        basis = deflation_basis(A, 12, random_state=0)
        assert basis.U.shape == (A.n, 12)
        U = basis.U.astype(np.float64)
        assert_allclose(U.T @ U, np.eye(12), atol=1e-6)
        off = U.copy()
        A.project(off)
        assert_allclose(off, U, atol=1e-6)
        assert_allclose(basis.AU, A.to_scipy() @ U, rtol=1e-6, atol=1e-12)

    def test_values_are_the_lowest_eigenvalues(self, A):
        """Ritz values are eigenvalues from above; those well inside the basis are exact."""
        basis = deflation_basis(A, 16, random_state=0)
        y = A.near_null[:, None] * (A.component[:, None] == np.arange(len(A.energy)))
        project = np.eye(A.n) - y @ y.T
        lowest = np.linalg.eigvalsh(project @ A.to_scipy().toarray() @ project + 10 * y @ y.T)[:16]
        ritz = basis.values
        assert (ritz > lowest - 1e-8).all()
        assert_allclose(ritz[:6], lowest[:6], rtol=0.05)

    @pytest.mark.parametrize("size", [1e-100, 1.0, 1e100])
    def test_correction_is_exact_on_the_span_but_for_rounding(self, A, size):
        """After it the residual is orthogonal to U, on active columns only; and it is that of X."""
        basis = deflation_basis(A, 8, random_state=0)
        B = np.random.default_rng(0).normal(size=(A.n, 3)) * size
        X, R, active = np.zeros_like(B), B.copy(), np.array([True, False, True])
        basis.deflate(X, R, active)
        assert np.abs(basis.U.T @ R[:, active]).max() < 1e-5 * size
        assert_array_equal(X[:, 1], 0)
        assert_array_equal(R[:, 1], B[:, 1])
        assert_allclose(R, B - A.to_scipy() @ X, rtol=0, atol=1e-6 * size)

    def test_fewer_vectors_than_asked_for(self):
        A = scaled_matrix(*regularizer(components([3, 2, 1]), 1e-2, False))
        assert 1 <= deflation_basis(A, 10, random_state=0).U.shape[1] <= 3


class TestScaledMatrix:
    def test_is_a_scaling_and_a_reordering(self):
        R, vector = MATRICES["expander"]()
        A = scaled_matrix(R, vector)
        scale = np.diag(A.scale)
        assert_allclose(A.to_scipy().toarray(), scale @ R.toarray()[np.ix_(A.order, A.order)] @ scale, atol=1e-15)
        X = np.random.default_rng(0).normal(size=(A.n, 3))
        assert_allclose(A.apply(X), R @ X, rtol=1e-12, atol=1e-12)

    def test_does_not_change_its_argument(self):
        R, vector = MATRICES["components"]()
        before = R.copy()
        scaled_matrix(R, vector)
        assert_array_equal(R.data, before.data)
        assert_array_equal(R.indices, before.indices)

    @pytest.mark.parametrize("normalized", [False, True])
    def test_knows_its_null_vectors(self, normalized):
        A = scaled_matrix(*regularizer(components([20, 5, 9], weighted=True), 0, normalized))
        assert A.singular.all()
        assert_allclose(A.to_scipy() @ A.near_null, 0, atol=1e-14)
        assert not scaled_matrix(*regularizer(components([20, 5, 9]), 1e-9, normalized)).singular.any()

    @FEW_OR_MANY
    def test_near_null_part_is_solved_exactly(self, few_rows, monkeypatch):
        monkeypatch.setattr(operators, "FEW_ROWS", few_rows)
        A = scaled_matrix(*regularizer(components([30, 12], weighted=True), 1e-6, False))
        B = np.random.default_rng(0).normal(size=(42, 2))
        X, R = np.zeros_like(B), B.copy()
        A.correct_components(X, R, np.array([True, True]))
        assert_allclose(R, B - A.to_scipy() @ X, atol=1e-9)
        kept = R.copy()
        A.project(kept)
        assert_allclose(kept, R, atol=1e-9)

    @FEW_OR_MANY
    def test_residual_and_product(self, A, few_rows, monkeypatch):
        monkeypatch.setattr(operators, "FEW_ROWS", few_rows)
        X, B = np.random.default_rng(0).normal(size=(2, A.n, 7))
        R, AX = np.empty_like(B), np.empty_like(X)
        A.residual(X, B, R)
        multiply(A.indptr, A.indices, A.data, X, AX)
        assert_allclose(AX, A.to_scipy() @ X, rtol=1e-12, atol=1e-12)
        assert_allclose(R, B - AX, rtol=1e-12, atol=1e-12)


@FEW_OR_MANY
@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(n=st.integers(1, 600), t=st.integers(1, 20))
def test_kernels_over_columns(few_rows, monkeypatch, n, t):
    monkeypatch.setattr(columns, "FEW_ROWS", few_rows)
    X, Y = np.random.default_rng(n).normal(size=(2, n, t))
    weight, scale = np.linspace(1, 2, n), np.linspace(-1, 1, t)
    assert_allclose(column_dots(X, Y), (X * Y).sum(0), rtol=1e-12, atol=1e-12)
    assert_allclose(column_norms(X, weight), np.linalg.norm(weight[:, None] * X, axis=0), rtol=1e-12)
    assert_allclose(to_float32(X, scale), (X * scale).astype(np.float32), rtol=1e-6)
    added = X.copy()
    add_columns(added, Y, scale)
    assert_allclose(added, X + Y * scale, rtol=1e-12, atol=1e-14)
    for c in range(t):  # a column is the same alone
        assert_array_equal(column_norms(X[:, c:c + 1], weight)[0], column_norms(X, weight)[c])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_conjugate_gradients_stop_column_by_column(dtype):
    """Each column ends at its own reduction, or at its own budget."""
    A = scaled_matrix(*MATRICES["expander"]())
    B = points(A.n, [3, 50, 99]).astype(dtype)
    R = B.copy()
    reduction = np.array([1e-1, 1e-3, 1e-5])
    E, iterations = conjugate_gradients(A, R, reduction, np.array([1000, 1000, 4]))
    true = np.linalg.norm(B - A.to_scipy() @ E.astype(float), axis=0)
    assert iterations[0] < iterations[1]
    assert iterations[2] == 4
    assert (true[:2] <= 1.01 * reduction[:2]).all()
    assert true[2] > reduction[2]
    assert_allclose(true, np.linalg.norm(R, axis=0), rtol=1e-2)

"""The stochastic eigensystem of an affinity against the dense steps of the paper, and where its blocks run."""

import json
from functools import partial
from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels import stochastic
from dssl.kernels.base import RBF, LaplacianKernel, Linear, Polynomial
from dssl.kernels.proximal import (
    DRAW,
    TRANSFORM,
    WINDOW,
    FactorTask,
    fourier_frequencies,
    proximal_step,
    write_features,
)
from dssl.kernels.stochastic import (
    DRIVER_SQUARES,
    Eigensystem,
    StochasticParams,
    fixed_bytes,
    rank_that_fits,
    row_bytes,
    stochastic_bytes,
    stochastic_eigensystem,
)
from dssl.storage.blocks import STEP_BYTES, ArrayRows
from dssl.storage.csr import as_rows
from dssl.storage.store import StoredParts
from tests import reference
from tests.in_pairs import in_pairs
from tests.memory import traced_peak

KERNELS = [RBF(1.5), LaplacianKernel(4.0)]


def points(n=60, d=3, random_state=0, apart=3.0):
    """Return three groups of points."""
    return np.random.default_rng(random_state).normal(size=(n, d)) + apart * (np.arange(n) % 3)[:, None]


def eigensystem(X, kernel=KERNELS[0], execution=None, parts=None, **fields):
    params = StochasticParams(**{"n_features": 20, "threshold": 0.05, "tol": 0, **fields})
    dense = X.toarray() if sparse.issparse(X) else X
    return stochastic_eigensystem(as_rows(X), kernel, kernel(dense, dense).sum(1), params, execution or InProcess(1),
                                  parts)


def matrix(actual):
    """Return Z = U S U'."""
    U = actual.vectors.read_all().astype(float)
    return (U * actual.lowered) @ U.T


def drawn(X, kernel, random_state, draw, n_features=20):
    """Return the features of one draw, (n, a)."""
    out = np.empty((len(X), n_features))
    write_features(X, fourier_frequencies(kernel, X.shape[1], n_features, random_state, draw), np.ones(len(X)), out)
    return out


def assert_same_bits(actual, expected):
    for name in ("values", "lowered"):
        assert_array_equal(getattr(actual, name), getattr(expected, name))
    assert_array_equal(actual.vectors.read_all(), expected.vectors.read_all())
    assert {**actual.evidence, "seconds": 0} == {**expected.evidence, "seconds": 0}


class TestFeatures:
    @pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: kernel.name)
    def test_their_mean_is_the_kernel_and_their_diagonal_exact(self, kernel):
        """The mean of m draws of cosines of variance 1/2 at most, 4 standard errors."""
        X, m = points(30), 4000
        Phi = drawn(X, kernel, 0, 1, 2 * m)
        assert_allclose(Phi @ Phi.T, kernel(X, X), atol=4 * np.sqrt(0.5 / m))
        assert_allclose(np.einsum("ij,ij->i", Phi, Phi), 1, rtol=1e-13)

    def test_draws_differ_by_step_and_seed(self):
        draws = [fourier_frequencies(KERNELS[0], 2, 6, random_state, step) for random_state,
                 step in ((0, 1), (0, 2), (1, 1), (0, 1))]
        assert_array_equal(draws[0], draws[3])
        assert not np.isin(draws[0], [draws[1], draws[2]]).any()

    def test_orthogonal_frequencies_vary_less(self):
        """Gaussian points of 20 features: measured a sixth of the squared deviation that independent ones give."""
        X, kernel, squares = np.random.default_rng(0).normal(size=(80, 20)), RBF(6.0), np.zeros((2, 30))
        for draw in range(30):
            independent = np.random.default_rng(draw).normal(size=(20, 40)) / 6.0
            for i, w in enumerate((independent, fourier_frequencies(kernel, 20, 80, 0, draw))):
                Phi = np.empty((80, 80))
                write_features(X, w, np.ones(80), Phi)
                squares[i, draw] = ((Phi @ Phi.T - kernel(X, X)) ** 2).sum()
        assert squares[1].mean() < 0.3 * squares[0].mean()
        w = fourier_frequencies(kernel, 20, 80, 0, 1)
        assert_allclose(w[:, :20].T @ w[:, :20], np.diag((w[:, :20] ** 2).sum(0)), atol=1e-12)

    @pytest.mark.parametrize("kernel", [Linear(), Polynomial(), lambda X, Z: X @ Z.T])
    def test_kernels_without_them_are_refused(self, kernel):
        with pytest.raises(ParameterError, match=r'no random Fourier features.*\n.*\n.*approximation="nystrom"'):
            stochastic_eigensystem(as_rows(points()), kernel, np.ones(60), StochasticParams(), InProcess(1))


class TestSteps:
    @in_pairs({"rank": [60, 6], "kernel": KERNELS, "form": [np.asarray, np.float32, sparse.csr_array]})
    def test_they_are_those_of_the_paper(self, kernel, rank, form):
        X = points().astype(np.float32).astype(float)
        scale = 1 / np.sqrt(kernel(X, X).sum(1))
        zetas = [scale[:, None] * drawn(X, kernel, 3, step) for step in range(1, 16)]
        expected = reference.stochastic_affinity([zeta @ zeta.T for zeta in zetas], 0.05, rank)
        actual = eigensystem(form(X), kernel, steps=15, random_state=3, rank=rank)
        assert_allclose(matrix(actual), expected, atol=1e-6)
        values = np.linalg.eigvalsh(expected)[::-1][:len(actual.values)]
        assert_allclose(actual.lowered, values, atol=1e-6)
        assert_array_equal(actual.values, actual.lowered + 0.05)
        assert len(values) == np.linalg.matrix_rank(expected, tol=1e-9) <= rank
        U = actual.vectors.read_all()
        assert_allclose(U.T @ U, np.eye(len(values)), atol=1e-6)
        assert actual.evidence["orthogonality"] < 1e-6

    def test_changes_are_those_of_the_matrix(self):
        actual = [matrix(eigensystem(points(), steps=steps)) for steps in (9, 10, 11)]
        changes = [np.linalg.norm(new - old) / max(np.linalg.norm(new), np.linalg.norm(old))
                   for old, new in pairwise(actual)]
        evidence = eigensystem(points(), steps=11).evidence
        assert_allclose(evidence["change"][9:], changes, rtol=1e-4)
        assert evidence["steps"] == len(evidence["rank"]) == len(evidence["change"]) == 11
        json.dumps(evidence)

    @pytest.mark.extended
    @pytest.mark.slow
    def test_the_error_falls_as_one_over_the_steps(self):
        """Theorem 1. Measured: slopes -1.07 and -1.05 of two times 3 seeds; estimates 0.83 to 1.33 times the error."""
        X, kernel, steps = points(200), KERNELS[0], [16, 32, 64, 128, 256]
        expected = reference.thresholded(reference.affinity(kernel(X, X)), 0.05)
        errors, estimates = np.zeros((3, len(steps))), np.zeros((3, len(steps)))
        for random_state in range(3):
            for i, step in enumerate(steps):
                actual = eigensystem(X, kernel, steps=step, random_state=random_state)
                Z = matrix(actual)
                errors[random_state, i] = ((Z - expected) ** 2).sum()
                estimates[random_state,
                          i] = actual.evidence["error"] * np.linalg.norm(Z) / np.sqrt(errors[random_state, i])
        slope = np.polyfit(np.log(steps), np.log(errors.mean(0)), 1)[0]
        assert -1.15 < slope < -0.85
        assert 0.8 < estimates.mean() < 1.3

    def test_without_a_threshold_the_mean_over_draws_is_the_affinity(self):
        """Z is then a mean of draws: the mean of 40 is off by their spread over the root of 40."""
        X, kernel = points(40), KERNELS[0]
        L = reference.affinity(kernel(X, X))
        actual = np.array([matrix(eigensystem(X, kernel, steps=5, threshold=0, random_state=random_state))
                          for random_state in range(40)])
        off, spread = np.linalg.norm(actual.mean(0) - L), np.sqrt(((actual - L) ** 2).sum((1, 2)).mean())
        assert off < 1.5 * spread / np.sqrt(40)

    @pytest.mark.slow
    def test_leading_eigenvectors_are_those_of_the_affinity(self):
        """Of three groups: 1, 0.999, 0.994, then 0.28. Off by 0.14, 0.15 after 4 steps, 0.006, 0.008 after 300."""
        X, kernel = points(150, apart=5.0), RBF(2.0)
        values, vectors = np.linalg.eigh(reference.affinity(kernel(X, X)))
        leading = vectors[:, -3:]

        def off(steps):
            actual = eigensystem(X, kernel, n_features=100, rank=20, steps=steps)
            U = actual.vectors.read_all()[:, :3]
            return (np.abs(actual.values[:3] - values[:-4:-1]).max(),
                    np.linalg.norm(leading - U @ (U.T @ leading), 2))

        few, many = off(4), off(300)
        assert many[0] < 0.02 < few[0]
        assert many[1] < 0.02 < few[1]

    def test_the_rank_is_capped(self):
        free, capped = (eigensystem(points(), steps=12, rank=rank) for rank in (60, 4))
        assert max(capped.evidence["rank"]) == len(capped.values) == 4 < min(free.evidence["rank"])
        assert capped.vectors.shape == (60, 4)


class TestEnd:
    def test_steps_end_within_the_tolerance(self):
        X, kernel = points(100), KERNELS[0]
        actual = eigensystem(X, kernel, n_features=100, steps=500, tol=0.15)
        assert WINDOW < actual.evidence["steps"] < 500
        assert actual.evidence["error"] < 0.15
        assert actual.evidence["converged"] is True
        expected = reference.thresholded(reference.affinity(kernel(X, X)), 0.05)
        assert 0.1 < np.linalg.norm(matrix(actual) - expected) / np.linalg.norm(expected) < 0.2
        before = eigensystem(X, kernel, n_features=100, steps=actual.evidence["steps"] - 1, tol=0.15)
        assert before.evidence["converged"] is False
        assert before.evidence["error"] >= 0.15

    def test_few_steps_tell_no_error(self):
        assert eigensystem(points(), steps=WINDOW - 1).evidence["error"] is None


class TestBlocks:
    def test_threads_change_no_bit_and_blocks_the_last_digits(self):
        X = points(400)
        one, two, low, wide = (eigensystem(X, execution=InProcess(threads, budget), steps=20, rank=15)
                               for threads, budget in ((1, 1 << 18), (2, 1 << 18), (2, 1 << 16), (1, 1 << 30)))
        assert_same_bits(two, one)
        for other in (low, wide):
            assert other.evidence["rank"] == one.evidence["rank"]
            assert_allclose(matrix(other), matrix(one), atol=2e-6)
            assert_allclose(other.values, one.values, atol=1e-6)

    def test_stored_parts(self, tmp_path):
        X, execution, parts = points(200), InProcess(2, 1 << 17), StoredParts(tmp_path)
        actual = eigensystem(X, execution=execution, steps=9, rank=12, parts=parts)
        assert_same_bits(actual, eigensystem(X, execution=execution, steps=9, rank=12))
        assert_same_bits(Eigensystem.of(StoredParts(tmp_path)), actual)
        assert [path.name for path in (tmp_path / "within").iterdir()] == ["step10"]

    @pytest.mark.parametrize("at", ["between steps", "within a step"])
    def test_a_run_that_is_killed_goes_on(self, at, tmp_path, monkeypatch):
        """At step 6 of 10: the finished steps are not taken again, nor the finished blocks of that step."""
        X, execution, ran = points(200), InProcess(1, 1 << 17), []
        expected = eigensystem(X, execution=execution, steps=10, rank=12)
        call, step = FactorTask.__call__, proximal_step

        def run(task, out):
            number = int(out.parts.folder.name.removeprefix("step"))
            if at == "within a step" and number == 6 and task.start > 0 and len(ran) < 50:
                raise KeyboardInterrupt
            ran.append((number, task.start))
            return call(task, out)

        def take(G, lowered, eta, *rest):
            if at == "between steps" and eta == 2 / 6 and len(ran) < 50:
                raise KeyboardInterrupt
            return step(G, lowered, eta, *rest)

        monkeypatch.setattr(FactorTask, "__call__", run)
        monkeypatch.setattr(stochastic, "proximal_step", take)
        with pytest.raises(KeyboardInterrupt):
            eigensystem(X, execution=execution, steps=10, rank=12, parts=StoredParts(tmp_path))
        assert {step for step, _ in ran} == {1, 2, 3, 4, 5, 6}
        before = list(ran)
        ran.extend([(0, 0)] * 50)
        actual = eigensystem(X, execution=execution, steps=10, rank=12, parts=StoredParts(tmp_path))
        again = ran[len(before) + 50:]
        assert not set(again) & set(before)
        assert {step for step, _ in again} == {6, 7, 8, 9, 10, 11} - ({6} if at == "between steps" else set())
        assert_same_bits(actual, expected)
        del ran[:]
        assert_same_bits(eigensystem(X, execution=execution, steps=10, rank=12, parts=StoredParts(tmp_path)), actual)
        assert not ran


class TestPointsOfOneKind:
    @pytest.mark.parametrize("n", [1, 2, 5, 30])
    def test_equal_points_have_one_eigenvector(self, n):
        actual = eigensystem(np.full((n, 3), 2.5), steps=20, threshold=0.01)
        assert_allclose(actual.values, [1], atol=1e-6)
        assert_allclose(np.abs(actual.vectors.read_all()), n**-0.5, rtol=1e-6)
        assert actual.evidence["error"] < 1e-6

    @pytest.mark.parametrize("n", [2, 3, 7])
    @pytest.mark.extended_cases("7")
    def test_fewer_points_than_features(self, n):
        X, kernel = points(n), KERNELS[0]
        actual = eigensystem(X, kernel, n_features=40, steps=200, threshold=0)
        L = reference.affinity(kernel(X, X))
        assert len(actual.values) <= n
        assert_allclose(matrix(actual), L, atol=0.05)

    def test_a_kernel_that_underflows_to_the_identity(self):
        """All eigenvalues are 1 and stay: none is preferred to another."""
        actual = eigensystem(points(6), RBF(1e-3), n_features=40, steps=200)
        assert len(actual.values) == 6
        assert_allclose(actual.values, 1, atol=0.1)

    @pytest.mark.parametrize("stored", [False, True])
    def test_no_eigenvalue_above_the_threshold(self, stored, tmp_path):
        X, kernel = points(), KERNELS[0]
        with pytest.raises(DataError, match=r"no eigenvalue is above the threshold of 0\.9"):
            stochastic_eigensystem(as_rows(X), kernel, 9 * kernel(X, X).sum(1), StochasticParams(
                n_features=20, threshold=0.9, steps=5), InProcess(1), parts=StoredParts(tmp_path) if stored else None)


class TestRefusals:
    @pytest.mark.parametrize("fields", [
        {"n_features": 0}, {"n_features": 7}, {"n_features": 2.0}, {"rank": 0}, {"rank": True}, {"steps": 0},
        {"threshold": 1.0}, {"threshold": -0.1}, {"threshold": np.nan}, {"tol": -1}, {"tol": np.inf},
        {"tol": "auto"}, {"random_state": -1}])
    def test_parameters(self, fields):
        name, = fields
        with pytest.raises(ParameterError, match=f"{name}="):
            StochasticParams(**fields)

    @pytest.mark.parametrize("degrees", [np.ones(59), np.zeros(60), np.full(60, np.nan), np.ones((60, 1))])
    def test_degrees(self, degrees):
        with pytest.raises(DataError, match="degrees"):
            stochastic_eigensystem(as_rows(points()), KERNELS[0], degrees, StochasticParams(), InProcess(1))

    def test_points_that_are_not_finite_or_overflow(self):
        X = points()
        for value, message in ((np.nan, "the points hold NaN"), (1e308, "random features that are not finite")):
            X[7] = value
            with pytest.raises(DataError, match=message):
                stochastic_eigensystem(as_rows(X), KERNELS[0], np.ones(60), StochasticParams(), InProcess(1))

    def test_a_budget_for_not_even_a_row(self):
        with pytest.raises(BudgetError, match="memory_budget"):
            eigensystem(points(), execution=InProcess(1, 5000))


class TestMemory:
    n, d = 20_000, 30

    def rows(self, dtype=np.float64):
        return ArrayRows(np.random.default_rng(0).normal(size=(self.n, self.d)).astype(dtype))

    @pytest.mark.parametrize(("a", "b", "dtype"), [
        (40, 200, np.float64), (300, 60, np.float64), (100, 100, np.float32)])
    def test_a_block_takes_the_memory_of_the_formula(self, a, b, dtype, tmp_path):
        height, rows = 5000, self.rows(dtype)
        rng = np.random.default_rng(1)
        execution = InProcess(1)
        place, last, new = execution.scratch(), StoredParts(tmp_path / "last"), StoredParts(tmp_path / "new")
        last.write(TRANSFORM, {"T": rng.normal(size=(b + a, b))})
        for state in (last, new):
            state.write(DRAW, {"frequencies": fourier_frequencies(RBF(3.0), self.d, a, 0, 1)})
        place.allocate("U", (self.n, b), np.float32, height)
        before = ArrayRows(rng.normal(size=(self.n, b)).astype(np.float32))
        task = FactorTask(rows, ArrayRows(np.ones(self.n)), before, last, new, 0, 2 * height, height)
        formula = height * row_bytes(rows, a, b) + fixed_bytes(self.d, a, b)
        assert 0.6 * formula < traced_peak(partial(execution.map, [task], place), formula) < formula

    def test_a_step_takes_the_memory_of_the_formula(self):
        rng = np.random.default_rng(0)
        S = rng.normal(size=(900, 600))
        G, lowered = S.T @ S, np.linspace(1, 0.1, 400)
        formula = DRIVER_SQUARES * G.nbytes
        peak = traced_peak(partial(proximal_step, G, lowered, 0.5, 0.01, 400), formula - G.nbytes)
        assert 0.6 * formula < peak + G.nbytes < formula

    @pytest.mark.parametrize("budget", [16 << 20, 32 << 20])
    @pytest.mark.extended_cases("33554432")
    def test_a_rank_that_fits_is_the_largest_and_does(self, budget):
        rows, degrees = self.rows(), np.ones(self.n)
        rank = rank_that_fits(rows, 50, budget)
        formula = stochastic_bytes(rows, 50, rank, budget)
        assert formula <= budget < stochastic_bytes(rows, 50, rank + 1, budget)
        params = StochasticParams(n_features=50, rank=rank, threshold=0, steps=4 + rank // 50, tol=0)
        run = partial(stochastic_eigensystem, rows, RBF(3.0), degrees, params, InProcess(1, budget))
        assert run().vectors.shape == (self.n, rank)
        assert 0.8 * (budget - STEP_BYTES) < traced_peak(run, budget) < budget

    def test_more_memory_is_a_larger_rank_and_too_little_tells_the_least(self):
        rows = self.rows()
        ranks = [rank_that_fits(rows, 50, budget << 20) for budget in (12, 16, 32, 64, 128, 100_000)]
        assert ranks == sorted(ranks)
        assert ranks[0] < ranks[4]
        assert ranks[-1] == self.n
        assert rank_that_fits(rows, 50, 32 << 20, tasks=4) < rank_that_fits(rows, 50, 32 << 20)
        with pytest.raises(BudgetError, match="raise memory_budget to ") as error:
            rank_that_fits(rows, 50, 1 << 19)
        min_budget = int(str(error.value).split("memory_budget to ")[1].split(" or")[0].replace(",", ""))
        assert rank_that_fits(rows, 50, min_budget) >= 1
        with pytest.raises(BudgetError):
            rank_that_fits(rows, 50, min_budget - 1000)

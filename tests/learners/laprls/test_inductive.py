"""Points that are held out and leave the graph, against fits that never saw them: neither their labels nor them."""

from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from dssl import Graph, KNNGraph
from dssl.base.errors import BudgetError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.kernels.base import RBF
from dssl.kernels.landmarks import LandmarkParams
from dssl.learners.laprls import system as laprls_system
from dssl.learners.laprls.params import SystemParams
from dssl.learners.laprls.penalties import Penalties
from dssl.learners.laprls.problem import LapRLSParams, LapRLSProblem
from dssl.learners.losses import SQUARES, Logistic, Squared, SquaredHinge
from dssl.learners.target.target import Classes, Quantities
from dssl.storage.blocks import ArrayRows
from dssl.storage.csr import as_rows
from tests import reference
from tests.in_pairs import in_pairs

EXACT = 1e-9  # of the largest value
GRID = {"gamma_A": (0.003, 0.05), "gamma_I": (0.0, 1.0, 30.0)}
LANDMARKS = ("closed_form", "refit")


class Problem:
    """Points, labels of which some are held out, and a graph; what holds them out, and what the reference does."""

    def __init__(self, n=90, m=30, s=16, *, folds=None, kind="normalized", copies=False, classes=False, weighted=True,
                 intercept=True, W=None, random_state=0, kernel=None):
        rng = np.random.default_rng([random_state, n, m])
        self.X = rng.normal(size=(n, 2))
        if copies:
            self.X[n // 2:] = self.X[:n - n // 2]
        self.labeled = np.sort(rng.choice(n, m, replace=False))
        y = np.column_stack([np.sin(2 * self.X[self.labeled, 0]), self.X[self.labeled, 1]]) + 4
        self.target = (Classes(self.labeled, np.arange(m) % 3, np.array(["a", "b", "c"])) if classes
                       else Quantities(self.labeled, y))
        self.weight = rng.uniform(0.3, 3, m) if weighted else np.ones(m)
        self.folds = [np.arange(fold, m, 4) for fold in range(3)] if folds is None else folds
        self.kind, self.intercept, self.kernel, self.s = kind, intercept, kernel or RBF(0.8), s
        self.graph = KNNGraph(n_neighbors=5).build(self.X) if W is None else Graph.of(sp.csr_array(W))

    def prepared(self, method, solver="nystrom-direct", *, loss=SQUARES, execution=None, grid=None, rows=None,
                 **system):
        params = LapRLSParams(**(grid or GRID), landmarks=LandmarkParams(n_landmarks=self.s),
                              fit_intercept=self.intercept, loss=loss, system=SystemParams(
                                  solver=solver, laplacian=self.kind, held_out=method, held_out_points="inductive",
                                  **system))
        execution = execution or InProcess(2)
        problem = LapRLSProblem.of(rows or ArrayRows(self.X), self.target, params, execution, weight=self.weight,
                                   graph=self.graph.shared(execution), folds=self.folds)
        return problem.prepared(self.kernel, execution, held_out=True)

    def values(self, *given, **named):
        """Return the penalties that were tried, and the values (m, c) of each."""
        prepared = self.prepared(*given, **named)
        tried, found = zip(*prepared.held_out(), strict=True)
        assert prepared.evidence["held_out"]["held_out_points"] == "inductive"
        return tried, np.array(found), prepared

    def expected(self, pair, landmarks):
        """Return what fits to the other points predict, (m, c), by the dense formula."""
        of = self.graph.vertices.vertex
        W = self.graph.weights().toarray()[np.ix_(of, of)]
        y, Z = self.target.columns(), landmarks
        K_ns, K_ss = np.asarray(self.kernel(self.X, Z)), np.asarray(self.kernel(Z, Z))
        found = np.full(y.shape, np.nan)
        for fold in self.folds:
            found[fold] = reference.inductive_laprls(K_ns, K_ss, W, y, self.weight, self.labeled, fold, pair.gamma_A,
                                                     pair.gamma_I, self.kind, self.intercept)
        return found

    def check(self, tried, found, landmarks, share=EXACT):
        for pair, values in zip(tried, found, strict=True):
            expected = self.expected(pair, landmarks)
            assert_allclose(values, expected, rtol=0, atol=share * max(1e-3, np.nanmax(np.abs(expected))))


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    monkeypatch.setattr(laprls_system, "MIN_BLOCK_ROWS", 16)  # so that a fold's neighbors lie in several blocks


@in_pairs({
    "kind": ["normalized", "unnormalized"],
    "copies": [False, True],
    "m, s": [(14, 25), (40, 10)],
    "method": LANDMARKS})
def test_landmarks(method, m, s, copies, kind):
    problem = Problem(m=m, s=s, copies=copies, kind=kind, kernel=RBF(0.5))
    tried, found, prepared = problem.values(method)
    assert prepared.evidence["held_out"]["method"] == method
    assert np.isnan(found).all(axis=2).sum(axis=1).tolist() == [m // 4] * len(tried), "a fold that is never held out"
    problem.check(tried, found, prepared.points)


@in_pairs({"kind": ["normalized", "unnormalized"], "copies": [False, True], "method": LANDMARKS})
def test_all_points(method, copies, kind):
    """Functions are then sums over the points that stay, as those of a fit to these points are."""
    problem = Problem(copies=copies, kind=kind, kernel=RBF(0.3), n=60)
    tried, found, prepared = problem.values(method, "direct")
    assert prepared.evidence["held_out"]["method"] == method
    problem.check(tried, found, np.unique(problem.X, axis=0), 1e-7)


@pytest.mark.parametrize("solver", ["pcg", "cg"])
def test_iterations_on_all_points(solver):
    problem = Problem(n=60, kernel=RBF(0.3))
    grid = {"gamma_A": (0.05,), "gamma_I": (0.0, 1.0)}
    _, exact, _ = problem.values("refit", "direct", grid=grid)
    _, found, _ = problem.values("refit", solver, grid=grid, tol=1e-10, max_iter=3000)
    assert_allclose(found, exact, atol=1e-6)


@in_pairs({"intercept": [True, False], "weighted": [True, False], "method": LANDMARKS})
def test_classes_weights_and_intercepts(method, weighted, intercept):
    problem = Problem(classes=True, weighted=weighted, intercept=intercept)
    tried, found, prepared = problem.values(method)
    problem.check(tried, found, prepared.points)


@pytest.mark.parametrize("method", LANDMARKS)
def test_one_point_at_a_time(method):
    problem = Problem(m=12, folds=[np.array([i]) for i in range(12)])
    tried, found, prepared = problem.values(method)
    problem.check(tried, found, prepared.points)


@pytest.mark.parametrize("method", LANDMARKS)
def test_without_whitening_and_with_many_ratios(method):
    """The basis of the paper; and so many ratios that one eigendecomposition serves them all."""
    problem = Problem(kernel=RBF(0.4), s=12)
    tried, found, prepared = problem.values(method, whitening=None)
    problem.check(tried, found, prepared.points, 1e-8)
    grid = {"gamma_A": (0.01,), "gamma_I": tuple(np.logspace(-2, 2, 40).tolist())}
    tried, found, prepared = problem.values(method, grid=grid)
    problem.check(tried, found, prepared.points)


def star(n, centers):
    """Return W of a graph of pieces: each center is joined to the points after it, which have no other edge."""
    W = np.zeros((n, n))
    for center, stop in zip(centers, [*centers[1:], n], strict=True):
        W[center, center + 1:stop] = W[center + 1:stop, center] = 1.5
    return W


@in_pairs({"kind": ["normalized", "unnormalized"], "solver": ["nystrom-direct", "direct"], "method": LANDMARKS})
def test_pieces_that_fall_apart(method, solver, kind):
    """Where the center of a star is held out all of its points are isolated: they are points, without a penalty."""
    problem = Problem(n=40, m=12, s=15, kind=kind, kernel=RBF(0.3))
    centers = np.sort(problem.labeled[:4])
    problem.graph = Graph.of(sp.csr_array(star(40, [0, *centers.tolist()] if centers[0] else centers.tolist())))
    problem.folds = [np.flatnonzero(np.isin(problem.labeled, centers)), np.arange(4, 12)]
    tried, found, prepared = problem.values(method, solver)
    problem.check(tried, found, prepared.points, EXACT if solver == "nystrom-direct" else 1e-7)


@pytest.mark.slow
@given(n=st.integers(12, 40), share=st.floats(0.2, 0.9), random_state=st.integers(0, 1 << 16),
       n_folds=st.integers(2, 6), kind=st.sampled_from(["normalized", "unnormalized"]),
       method=st.sampled_from(LANDMARKS), density=st.floats(0.02, 0.5), intercept=st.booleans(),
       solver=st.sampled_from(["nystrom-direct", "direct"]))
@settings(max_examples=25)
def test_any_graph_and_any_folds(n, share, random_state, n_folds, kind, method, density, intercept, solver):
    rng = np.random.default_rng(random_state)
    upper = np.triu(rng.uniform(0.1, 2, (n, n)) * (rng.random((n, n)) < density), 1)
    upper[0, 1] = 1.0
    m = max(n_folds, int(share * n))
    number = rng.permutation(np.arange(m) % n_folds)
    problem = Problem(n, m, 8, folds=[np.flatnonzero(number == fold) for fold in range(n_folds)], kind=kind,
                      random_state=random_state, W=upper + upper.T, intercept=intercept, kernel=RBF(0.2))
    tried, found, prepared = problem.values(method, solver, grid={"gamma_A": (0.1,), "gamma_I": (1.0, 20.0)})
    problem.check(tried, found, prepared.points, 1e-8)


@pytest.mark.parametrize("kind", ["normalized", "unnormalized"])
@pytest.mark.parametrize("solver", ["nystrom-direct", "direct"])
def test_the_squared_loss_by_newton_is_laprls(solver, kind):
    problem = Problem(kind=kind, weighted=True, intercept=False, kernel=RBF(0.4))
    for m, s in ((30, 16), (14, 20)):
        problem = Problem(m=m, s=s, kind=kind, intercept=False, kernel=RBF(0.4))
        tried, found, prepared = problem.values("refit", solver, loss=Squared())
        problem.check(tried, found, prepared.points, 1e-6)


@pytest.mark.parametrize("loss", [SquaredHinge(), Logistic()], ids=str)
@pytest.mark.parametrize(("m", "s"), [(14, 20), (30, 12)])
def test_other_losses_at_a_minimum_of_the_points_left(loss, m, s):
    """Against the minimum on the graph without the fold, found by its own reference."""
    problem = Problem(m=m, s=s, classes=True, kernel=RBF(0.4))
    problem.target = Classes(problem.labeled, np.arange(m) % 2, np.array(["a", "b"]))
    tried, found, prepared = problem.values("refit", loss=loss)
    Z, y = prepared.points, problem.target.columns()[:, 0]
    K, root = problem.kernel(problem.X, Z), np.linalg.cholesky(problem.kernel(Z, Z))
    Phi, W = np.linalg.solve(root, K.T).T, problem.graph.weights().toarray()
    for pair, values in zip(tried, found, strict=True):
        for fold in problem.folds:
            E, stay = reference.without_points(W, problem.labeled[fold], problem.kind)
            kept = np.setdiff1d(np.arange(m), fold)
            p = problem.weight[kept] / problem.weight[kept].sum()
            G = pair.gamma_I / len(stay) ** 2 * Phi[stay].T @ E @ Phi[stay]
            b, value = minimum(Phi[problem.labeled[kept]], G + pair.gamma_A * np.eye(s), y[kept], p, loss)
            assert_allclose(values[fold, 0], Phi[problem.labeled[fold]] @ b + value, atol=1e-5)


def minimum(Phi, G, y, p, loss):
    """Return (b, intercept) minimizing sum p_i loss(y_i, Phi_i b + intercept) + b' G b, by halved Newton steps."""
    Psi, penalty = np.column_stack([Phi, np.ones(len(Phi))]), np.pad(G, (0, 1))
    x = np.zeros(Psi.shape[1])

    def objective(at):
        return p @ loss.value(Psi @ at, y) + at @ penalty @ at

    for _ in range(100):
        gradient = Psi.T @ (p * loss.gradient(Psi @ x, y)) + 2 * penalty @ x
        hessian = (Psi.T * (p * loss.curvature(Psi @ x, y))) @ Psi + 2 * penalty
        hessian[-1, -1] += 1e-12
        step, share = np.linalg.solve(hessian, gradient), 1.0
        while objective(x - share * step) > objective(x) + 1e-14:
            share /= 2
        x = x - share * step
    return x[:-1], x[-1]


def test_other_losses_on_all_points_are_those_of_landmarks_at_all_points():
    problem = Problem(n=40, m=14, s=40, kernel=RBF(0.2))
    problem.target = Classes(problem.labeled, np.arange(14) % 2, np.array(["a", "b"]))
    _, of_landmarks, _ = problem.values("refit", loss=Logistic())
    _, found, _ = problem.values("refit", "direct", loss=Logistic())
    assert_allclose(found, of_landmarks, atol=1e-6)


def test_other_folds_need_no_other_pass():
    problem = Problem()
    for method, loss in (("closed_form", SQUARES), ("refit", SQUARES), ("refit", Logistic())):
        problem.target = Classes(problem.labeled, np.arange(30) % 2, np.array(["a", "b"]))
        prepared = problem.prepared(method, loss=loss)
        folds = [np.arange(0, 15), np.arange(15, 30)]
        again = prepared.with_new_folds(folds, InProcess(1))
        assert again.solver.gram is not None
        found = np.array([values for _, values in again.held_out()])
        _, expected, _ = replaced(problem, folds).values(method, loss=loss)
        assert_allclose(found, expected, atol=1e-8)


def replaced(problem, folds):
    other = Problem()
    other.target, other.folds = problem.target, folds
    return other


def test_without_the_graph_it_makes_no_difference():
    problem, grid = Problem(), {"gamma_A": (0.01, 0.1), "gamma_I": (0.0,)}
    _, found, prepared = problem.values("refit", grid=grid)
    other = replace(prepared.problem, params=replace(prepared.problem.params, system=SystemParams(
        solver="nystrom-direct", held_out="refit")))
    transductive = other.prepared(problem.kernel, InProcess(1), held_out=True)
    assert_allclose(found, [values for _, values in transductive.held_out()], atol=1e-12)
    assert transductive.evidence["held_out"]["held_out_points"] == "transductive"


@pytest.mark.parametrize("method", LANDMARKS)
def test_sparse_points_and_float32(method):
    problem = Problem(n=60)
    _, exact, _ = problem.values(method)
    _, found, _ = problem.values(method, precision="float32")
    assert_allclose(found, exact, atol=1e-2)
    _, found, _ = problem.values(method, rows=as_rows(sp.csr_array(problem.X)))
    assert_allclose(found, exact, atol=1e-8)


@pytest.mark.cluster
@pytest.mark.parametrize("loss", [SQUARES, Logistic()], ids=str)
@pytest.mark.extended
def test_workers_give_the_bits_of_threads(cluster_client, loss):
    problem = Problem(n=200, m=40)
    problem.target = Classes(problem.labeled, np.arange(40) % 2, np.array(["a", "b"]))
    for solver in ("nystrom-direct", "direct"):
        _, here, _ = problem.values("refit", solver, loss=loss)
        _, there, _ = problem.values("refit", solver, loss=loss, execution=OnDask(cluster_client))
        assert_array_equal(here, there)


def test_where_it_is_not_offered():
    for solver in ("nystrom-pcg", "nystrom-cg"):
        with pytest.raises(ParameterError, match=r'held_out_points="inductive" with solver'):
            SystemParams(solver=solver, held_out_points="inductive")
    for method in ("influence", "refined_influence"):
        with pytest.raises(ParameterError, match=r'held_out_points="inductive" with held_out'):
            SystemParams(held_out=method, held_out_points="inductive")
    with pytest.raises(ParameterError, match="transductive, inductive"):
        SystemParams(held_out_points="both")
    assert Problem().prepared("auto", "auto").solver.method == "nystrom-direct"
    with pytest.raises(BudgetError, match='held_out_points="inductive" with 30 labels'):
        Problem(n=400, s=200).prepared("auto", "auto", execution=InProcess(1, memory_budget=5 << 19))


def test_the_papers_penalties_do_not_depend_on_the_points_left():
    assert Penalties(0.3, 0.4, held_out=1).lambda_I == 0.4

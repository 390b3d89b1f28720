"""LapRLS on all points: what is held of the kernel."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import lu_factor

from dssl import KNNGraph
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.learners.laprls import dense
from dssl.learners.laprls.dense import FullKernel
from dssl.learners.laprls.params import SystemParams
from dssl.learners.laprls.problem import LapRLSParams, LapRLSProblem
from dssl.learners.losses import SQUARES, HuberHinge, SquaredHinge
from dssl.learners.target.target import Classes, Quantities
from dssl.selection.laprls import search_penalties
from dssl.storage.blocks import ArrayRows


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

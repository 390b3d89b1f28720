"""`LapSVM`: the optimum by every solver, scikit-learn's own machines without a graph, grids, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import KFold
from sklearn.svm import LinearSVC

from dssl import KNNGraph, LapRLSClassifier, LapSVM, SystemParams
from dssl.base.errors import ParameterError
from dssl.estimators.targets import classes_of
from dssl.execution.in_process import InProcess
from dssl.graph.energy.blocks import GraphEnergy
from dssl.kernels.base import RBF
from dssl.learners.laprls.problem import LapRLSParams, LapRLSProblem
from dssl.learners.losses import HuberHinge, Squared, smooth_loss
from dssl.selection.folds import labeled_folds
from dssl.storage.csr import as_rows
from tests.benchmarks.influence_on_graph import FittedOnGraph, FullSpace, influence_on_graph, whole_graph

from .test_laprls import SOLVERS, problem


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["logistic", "squared_hinge", HuberHinge(0.3)], ids=str)
@pytest.mark.extended_cases("HuberHinge(h=0.3)", "squared_hinge")
def test_every_solver_gives_the_same_function_with_weights_copies_and_folds(loss):
    X, y, new = problem(n=120)
    X, y = np.vstack([X, X[:7], X[100:110]]), np.concatenate([y, y[:7], y[100:110]])
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    settings = {"bandwidth": 3.0, "landmarks": 1.0, "cv": 3, "gamma_A": ["auto", "100*auto"], "gamma_I": [0.0, "auto"]}

    def fitted(solver):
        params = SystemParams(solver=solver, tol=1e-9, max_iter=5000)
        return LapSVM(loss=loss, solver=params, **settings).fit(X, y, sample_weight=weight)

    first = fitted("nystrom-direct")
    assert len(first.cv_results_["params"]) == 4
    for solver in SOLVERS[1:]:
        other = fitted(solver)
        # Up to intercepts, which follow from folds that depend on the solver.
        moved = other.decision_function(new) - first.decision_function(new)
        assert_allclose(moved - moved.mean(axis=0), 0, atol=2e-4)
        assert np.abs(moved).max() < 0.1
        assert (other.gamma_A_, other.gamma_I_) == (first.gamma_A_, first.gamma_I_)
        assert_allclose(other.cv_results_["mean_test_score"], first.cv_results_["mean_test_score"], atol=1e-9)


@pytest.mark.parametrize(("loss", "peer"), [
    ("squared_hinge", lambda C: LinearSVC(C=C, loss="squared_hinge", dual=False, tol=1e-10, intercept_scaling=1e4,
                                          max_iter=100_000)),
    ("logistic", lambda C: LogisticRegression(C=C, tol=1e-10, solver="newton-cholesky"))])
def test_a_linear_kernel_without_a_graph_is_what_scikit_learn_fits(loss, peer):
    """scikit-learn minimizes |w|^2 / 2 + C times the sum of losses: gamma_A = 1 / (2 C l)."""
    X, y, new = problem(n_classes=2)
    own = LapSVM("linear", loss=loss, gamma_I=0, gamma_A=1 / (2 * 0.3 * 30), landmarks=1.0).fit(X, y)
    other = peer(0.3).fit(X[:30], y[:30])
    assert_allclose(own.decision_function(new), other.decision_function(new), atol=2e-3)
    assert_array_equal(own.predict(new), other.predict(new))


@pytest.mark.slow
def test_a_grid_is_searched_and_the_graph_helps_on_digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    shown = np.where(np.arange(len(y)) < 100, y, -1)
    own = LapSVM(gamma_A=["0.1*auto", "10*auto"], gamma_I=[0, "0.1*auto", "auto"], landmarks=500).fit(X[:1400],
                                                                                                     shown[:1400])
    plain = LapSVM(gamma_A=["0.1*auto", "10*auto"], gamma_I=0, landmarks=500).fit(X[:1400], shown[:1400])
    assert own.gamma_I_ > 0
    assert own.score(X[1400:], y[1400:]) > plain.score(X[1400:], y[1400:]) + 0.02


def test_the_results_of_a_grid_are_those_of_fits_without_each_fold(unmoved):
    X, y, _ = problem()
    folds, settings = KFold(3, shuffle=True, random_state=1), {"bandwidth": 3.0, "landmarks": 1.0}
    own = LapSVM(gamma_A=[1e-3, 1e-1], gamma_I=[0, 1.0], cv=folds, **settings).fit(X, y)
    for number, (_, test) in enumerate(folds.split(np.arange(30))):
        known = y.copy()
        known[test] = -1
        for index, params in enumerate(own.cv_results_["params"]):
            predicted = LapSVM(**params, **settings).fit(X, known).predict(X[test])
            assert own.cv_results_[f"split{number}_test_score"][index] == pytest.approx((predicted == y[test]).mean())


def test_a_loss_is_a_name_or_a_value():
    X, y, new = problem()
    graph = KNNGraph(n_neighbors=5)
    named, given = (LapSVM(loss=loss, graph=graph).fit(X, y) for loss in ("huber_hinge", HuberHinge()))
    assert_array_equal(named.decision_function(new), given.decision_function(new))
    assert named.evidence_["loss"] == "huber_hinge"
    assert named.evidence_["newton_steps"][0] > 1
    squares = LapSVM(loss=Squared()).fit(X, y)
    laprls = LapRLSClassifier(gamma_A="auto", gamma_I="auto").fit(X, y)
    assert_allclose(squares.decision_function(new), laprls.decision_function(new), atol=1e-8)
    with pytest.raises(ParameterError, match="loss='hinge'"):
        LapSVM(loss="hinge").fit(X, y)


@pytest.mark.parametrize("how", ["influence", "refined_influence", "refit"])
def test_a_grid_is_searched_by_the_method_that_is_asked_for(how):
    X, y, _ = problem()
    grid = {"gamma_A": [1e-2, 1e-1], "gamma_I": [0, 1.0], "bandwidth": 3.0, "landmarks": 60}
    own, refits = (LapSVM(solver=SystemParams(held_out=method), **grid).fit(X, y) for method in (how, "refit"))
    assert own.evidence_["held_out"] == {"method": how, "held_out_points": "transductive"}
    scores, exact = own.cv_results_["mean_test_score"], refits.cv_results_["mean_test_score"]
    assert_allclose(scores, exact, atol=0.25 if how == "influence" else 0.07)


@pytest.mark.parametrize("estimator", [LapSVM(solver=SystemParams(held_out="closed_form")),
                                       LapRLSClassifier(solver=SystemParams(held_out="influence"))], ids=str)
def test_a_method_that_does_not_fit_the_loss_is_refused(estimator):
    X, y, _ = problem()
    with pytest.raises(ParameterError, match=r"held_out=.* squared"):
        estimator.fit(X, y)


@pytest.mark.parametrize("solver", ["nystrom-pcg", "nystrom-cg"])
@pytest.mark.parametrize("how", ["influence", "refined_influence"])
def test_a_solver_without_an_influence_function_does_not_refit_in_its_place(how, solver):
    with pytest.raises(ParameterError, match="it needs the labels' Gram matrix"):
        SystemParams(held_out=how, solver=solver)


@pytest.mark.parametrize("solver", ["direct", "pcg", "cg"])
@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_on_all_points_the_influence_function_is_that_of_the_paper_corrected(loss, solver):
    X, y, _ = problem()
    graph, target, rows = KNNGraph(n_neighbors=6).build(X), classes_of(y, None, len(X)), as_rows(X)
    folds, kernel = labeled_folds(target.strata(), 4, 0), RBF(3.0)
    params = LapRLSParams(gamma_A=(0.02,), gamma_I=(1.0,), loss=smooth_loss(loss), system=SystemParams(
        solver=solver, held_out="influence", tol=1e-10))
    made = LapRLSProblem.of(rows, target, params, InProcess(1), graph=graph, folds=folds)
    prepared = made.prepared(kernel, InProcess(1), held_out=True)
    (_, values), = prepared.held_out()
    assert prepared.evidence["held_out"]["method"] == "influence"
    model = prepared.fitted({"model": made.all_candidates[0]}).models["model"]
    space = FullSpace(kernel(X, X), whole_graph(GraphEnergy.of(graph.weights(), "normalized")), target.labeled)
    fit = FittedOnGraph(target.labeled, target.columns(), np.ones(len(target.labeled)), params.loss, 0.02, 1.0,
                        model.values(rows, InProcess(1)), model.intercept)
    assert_allclose(values, influence_on_graph(space, fit, folds), atol=1e-5)

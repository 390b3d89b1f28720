"""`GridSearch` of learners on the graph: what it takes a candidate for is what fits without each fold predict."""

import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import RepeatedKFold

import dssl.graph.functions as functions
import dssl.methods.graph.learner as module
from dssl import (
    GraphKernelRidge,
    GraphKernelRidgeRegressor,
    GridSearch,
    KNNGraph,
    LaplaceLearning,
    LaplaceLearningRegressor,
    PoissonLearning,
)
from dssl.base.errors import DataError, ParameterError
from dssl.estimators.graph import UnreachablePoints
from dssl.learners.average import LabelColumns, fit_member, shares_of
from dssl.learners.on_graph import held_out
from dssl.learners.on_graph.held_out import HeldOutKernel, TrainingLabels, averaged
from dssl.learners.on_graph.laplace_poisson import Unlabeled
from dssl.learners.prior_shift import PriorShift
from dssl.learners.target.target import Classes, Quantities

pytestmark = [pytest.mark.slow]
EXACT = {"tol": 1e-9}
FAMILIES = {"ridge": [None, 1e-3, (1e-2, 1e-4)], "power": [2, (1, 3)], "penalty": [0.1, np.inf],
            "by_degree": [(True, False)]}


def problem(n_classes=4):
    """Return digits, with copies, and two groups far off of which one has a single label; labels; and weights."""
    rng = np.random.default_rng(0)
    X, true = load_digits(n_class=4, return_X_y=True)
    X, true = X[:300], true[:300] % n_classes
    X, true = np.vstack([X, X[:20], X[:6] + 30, X[5:11] - 30]), np.concatenate([true, true[:26], true[5:11]])
    y = np.full(len(X), -1)
    labeled = np.concatenate([rng.choice(300, 40, replace=False), np.arange(300, 312), [320, 322, 326]])
    y[labeled] = true[labeled]
    return X, y, rng.uniform(0.2, 3, len(X))


def searched(monkeypatch, estimator, grid, X, y, weight=None, cv=4):
    """Return a search, and for each candidate the target, the folds and what it takes for the values held out.

    Later fits have values before class frequencies move them, as those held out are, and Poisson learning in units of
    the vertices that are unlabeled in the search.
    """
    seen, scores = [], module.scores_on_graph
    monkeypatch.setattr("dssl.methods.graph.method.shift_of",
                        lambda target, values, coding, at_points, *more: PriorShift(
                            np.zeros(at_points.shape[1])))
    labels_at, unlabeled_of = [], Unlabeled.of
    monkeypatch.setattr(Unlabeled, "of", lambda vertex, component: labels_at.append(vertex) or unlabeled_of(
        labels_at[0], component))
    monkeypatch.setattr(module, "scores_on_graph", lambda learner, target, repetitions, found, *more: seen.append(
        (target, repetitions, found)) or scores(learner, target, repetitions, found, *more))
    search = GridSearch(estimator, {"graph__n_neighbors": [4], **grid}, cv=cv, refit=False)
    return search.fit(X, y, sample_weight=weight), seen


def assert_refits(estimator, params, X, y, weight, seen, atol):
    """Assert that the values of some folds are those of fits without them, and without known class sizes."""
    target, repetitions, found = seen
    if "class_sizes" in estimator.get_params():
        params = {**params, "class_sizes": None}
    for folds, values in zip(repetitions, found, strict=True):
        for fold in folds[::max(1, len(folds) // 5)]:
            held, known = target.labeled[fold], y.copy()
            known[held] = np.nan if y.dtype.kind == "f" else -1
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UnreachablePoints)
                own = clone(estimator).set_params(**params).fit(X, known, sample_weight=weight)
            expected = own.transduction_[held] if y.dtype.kind == "f" else own.decision_function(X[held])
            expected, mine = expected.reshape(len(fold), -1), module.signed(values.values[fold], target)
            unreachable = np.isnan(expected).all(axis=1)
            assert_array_equal(values.unreachable[fold], unreachable)
            assert_allclose(mine[~unreachable], expected[~unreachable], atol=atol)
        assert values.unreachable.any()


@pytest.mark.parametrize("cv", [4, "leave_one_out"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize(("estimator", "grid"), [
    (LaplaceLearning(**EXACT), {}), (PoissonLearning(**EXACT), {}), (GraphKernelRidge(**EXACT), FAMILIES),
    (GraphKernelRidge(**EXACT), {"weighting": ["equal"], "laplacian": ["normalized", "unnormalized"]})],
    ids=["laplace", "poisson", "ridge", "ridge of several laplacians"])
@pytest.mark.extended_cases("ridge-False-leave_one_out", "laplace-True-leave_one_out", "poisson-True-leave_one_out",
    "ridge of several laplacians-False-leave_one_out", "ridge of several laplacians-True-4",
    "ridge of several laplacians-True-leave_one_out", "ridge-True-4", "ridge-True-leave_one_out")
def test_values_are_those_of_fits_without_each_fold(monkeypatch, estimator, grid, weighted, cv):
    X, y, weight = problem()
    weight = weight if weighted else None
    search, seen = searched(monkeypatch, estimator, grid, X, y, weight, cv)
    assert len(seen) == len(search.cv_results_["params"]) in (1, 2, 12)
    for params, own in list(zip(search.cv_results_["params"], seen, strict=True))[::5]:
        assert_refits(estimator, params, X, y, weight, own, 1e-7)
    assert search.n_graphs_ == 1


@pytest.mark.parametrize("estimator", [
    LaplaceLearning(**EXACT), PoissonLearning(**EXACT), GraphKernelRidge(**EXACT),
    LaplaceLearning(**EXACT, class_sizes=[1, 1]), PoissonLearning(**EXACT, class_sizes=[1, 2]),
    GraphKernelRidge(**EXACT, class_sizes=[1, 2])],
    ids=lambda own: f"{type(own).__name__}{'' if own.class_sizes is None else ' of known sizes'}")
def test_two_classes_and_known_class_sizes(monkeypatch, estimator):
    X, y, _ = problem(2)
    search, seen = searched(monkeypatch, estimator, {}, X, y)
    assert_refits(estimator, search.cv_results_["params"][0], X, y, None, seen[0], 1e-7)


@pytest.mark.parametrize("estimator", [LaplaceLearningRegressor(**EXACT), GraphKernelRidgeRegressor(**EXACT)],
                         ids=lambda own: type(own).__name__)
def test_quantities_of_two_columns(monkeypatch, estimator):
    X, y, weight = problem()
    if isinstance(estimator, GraphKernelRidgeRegressor):  # whose penalty is one of the mean weight, here of all labels
        weight = np.ones(len(X))
    quantities = np.where(y[:, None] >= 0, np.stack([X[:, 20] + y, X[:, 30]], axis=1), np.nan)
    search, seen = searched(monkeypatch, estimator, {}, X, quantities, weight)
    target, repetitions, found = seen[0]
    assert_refits(estimator, search.cv_results_["params"][0], X, quantities, weight, seen[0], 1e-7)
    point = int(np.flatnonzero(found[0].unreachable)[0])
    fold = next(fold for fold in repetitions[0] if point in fold)
    others, w = np.delete(target.coded, fold, axis=0), np.delete(weight[target.labeled], fold)
    assert_allclose(found[0].values[point], np.average(others, axis=0, weights=w))


@pytest.mark.parametrize("learner", [LaplaceLearning(**EXACT), PoissonLearning(**EXACT)],
                         ids=lambda own: type(own).__name__)
def test_many_labels_take_the_columns_of_the_folds(monkeypatch, learner):
    X, y, _ = problem(2)
    few = GridSearch(learner, {"graph__n_neighbors": [4]}, cv=20, refit=False)
    of_labels = few.fit(X, y).cv_results_
    monkeypatch.setattr(held_out.LabeledVertices, "n_columns", lambda self, repetitions: 0)
    of_folds = clone(few).fit(X, y).cv_results_
    for name in ("mean_test_score", "loss"):
        assert_allclose(of_folds[name], of_labels[name], atol=1e-7)


def test_a_point_that_no_label_reaches_counts_as_wrong():
    X, y, _ = problem()
    search = GridSearch(LaplaceLearning(), {"graph__n_neighbors": [4]}, cv="leave_one_out", refit=False).fit(X, y)
    right = 0
    for row in np.flatnonzero(y >= 0):
        known = y.copy()
        known[row] = -1
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UnreachablePoints)
            right += LaplaceLearning(KNNGraph(n_neighbors=4)).fit(X, known).score(X[[row]], y[[row]])
    assert search.best_score_ == pytest.approx(right / (y >= 0).sum())
    assert search.best_score_ < 1


@pytest.mark.filterwarnings("ignore::dssl.estimators.graph.UnreachablePoints")
def test_columns_and_graphs_are_made_once_for_all_families_penalties_and_folds(monkeypatch):
    X, y, _ = problem()
    made, of = [], held_out.KernelRows.of
    monkeypatch.setattr(held_out.KernelRows, "of", lambda graph, *more: made.append(graph) or of(graph, *more))
    grid = {"graph__n_neighbors": [4, 6], "graph__width": [0.5, 1.0], **FAMILIES}
    search = GridSearch(GraphKernelRidge(), grid, cv=RepeatedKFold(n_splits=3, n_repeats=2, random_state=0), factor=3)
    search.fit(X, y)
    assert len(made) == search.n_graphs_ + 1 == 5  # and the fit of the best
    assert search.n_neighbor_searches_ == 1
    assert search.n_candidates_ == [48, 16]
    assert_array_equal(search.transduction_, search.best_estimator_.transduction_)
    assert {"penalty", "error_se_repetitions"} <= set(search.cv_results_)


def test_the_krylov_process_agrees_within_its_tolerance(monkeypatch):
    monkeypatch.setattr(functions, "MAX_BY_SOLVERS", 0)
    X, y, _ = problem()
    estimator = GraphKernelRidge(ridge=(0.01, 0.03), tol=1e-6)
    search, seen = searched(monkeypatch, estimator, {"penalty": [0.1]}, X, y)
    assert_refits(estimator, search.cv_results_["params"][0], X, y, None, seen[0], 1e-3)


@pytest.mark.filterwarnings("ignore::dssl.estimators.graph.UnreachablePoints")
def test_within_one_standard_error_the_largest_penalty_is_chosen():
    X, y, _ = problem()
    grid = {"penalty": [0.01, 0.1, 1.0, 10.0, 1e6], "graph__n_neighbors": [4]}
    search = GridSearch(GraphKernelRidge(), grid, one_standard_error=True, scoring="neg_brier_score").fit(X, y)
    found = search.cv_results_
    lowest = found["brier"].argmin()
    within = found["brier"] <= found["brier"][lowest] + found["brier_se"][lowest]
    assert search.best_params_["penalty"] == found["penalty"][within].max()


@pytest.mark.parametrize(("grid", "says"), [
    ({"ridge": [0.0]}, "ridge=.0.0"), ({"penalty": [-1.0]}, "penalty=-1.0"), ({"weighting": ["best"]}, "weighting"),
    ({"graph__n_neighbors": [0]}, "n_neighbors=0"), ({"gamma_A": [1.0]}, "gamma_A")])
def test_what_is_out_of_range_is_refused_before_anything_is_made(grid, says):
    X, y, _ = problem()
    with pytest.raises((ParameterError, ValueError), match=says):
        GridSearch(GraphKernelRidge(), grid).fit(X, y)


def test_an_infinite_penalty_has_no_address(tmp_path):
    X, y, _ = problem()
    with pytest.raises(ParameterError, match="penalty=inf in a search with a workspace"):
        GridSearch(GraphKernelRidge(), {"penalty": [0.1, np.inf]}, workspace=tmp_path).fit(X, y)


@pytest.mark.parametrize("penalty", [1e-3, 0.5, np.inf])
@pytest.mark.parametrize("quantities", [False, True])
def test_members_without_a_fold_are_those_that_are_fitted_without_it(penalty, quantities):
    rng = np.random.default_rng(1)
    A = rng.normal(size=(70, 30))
    K, weight, fold = A @ A.T, rng.uniform(0.1, 4, 25), np.array([0, 3, 11, 24])
    target = Quantities(np.arange(25), rng.normal(size=(25, 2))) if quantities else Classes(
        np.arange(25), np.arange(25) % 3, np.arange(3))
    sample = np.arange(5, 40)
    kept = TrainingLabels.of(target, weight, fold, sample)
    others, kernels = kept.train, [K, K**2 / 30]
    mine = [HeldOutKernel(own[:25, :25], own[25:, :25], weight).member(kept, penalty) for own in kernels]
    labels = LabelColumns(target.take(others), weight[others])
    theirs = [fit_member(own[np.ix_(others, others)], own[25:][sample][:, others], labels, penalty) for own in kernels]
    for own, found, expected in zip(kernels, mine, theirs, strict=True):
        assert_allclose(found.values, (own[fold][:, others] @ expected.coef - expected.center) / expected.scale)
    shares = shares_of([own.held_out for own in theirs], target.take(others), weight[others])
    assert_allclose(averaged(mine, kept, equal_shares=False), shares[0] * mine[0].values + shares[1] * mine[1].values)


def test_a_fold_that_leaves_one_quantity_is_refused():
    X, _, _ = problem()
    y = np.full(len(X), np.nan)
    y[:2] = [1.0, 2.0]
    with pytest.raises(DataError, match="leaves 1 of 2 labeled points"):
        GridSearch(GraphKernelRidgeRegressor(), {"penalty": [0.1, 1.0]}, cv="leave_one_out").fit(X, y)

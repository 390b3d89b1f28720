"""`GridSearch`: the scores of each candidate are those of its own search, and what they share is made once."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import KFold, LeaveOneOut, RepeatedKFold

from dssl import (
    GridSearch,
    KNNGraph,
    LapKernelRidge,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    LapSVM,
    SemiSupervisedClassifier,
)
from dssl.base.errors import ParameterError
from dssl.learners.laprls.problem import LapRLSProblem
from dssl.learners.losses import HuberHinge, Logistic
from dssl.learners.target.target import Classes
from dssl.selection.folds import held_out_folds
from dssl.selection.halving import rungs_of
from dssl.selection.held_out_scores import SCORED

from .test_laprls import problem

FOLDS = KFold(3, shuffle=True, random_state=1)


@pytest.mark.parametrize("estimator", [LapRLSClassifier(landmarks=40), LapRLSRegressor(landmarks=40),
                                       LapSVM(landmarks=40)], ids=lambda kind: type(kind).__name__)
@pytest.mark.extended_cases("LapRLSClassifier", "LapSVM")
def test_rows_are_those_of_the_estimators_own_searches(estimator):
    X, y, _ = problem()
    if isinstance(estimator, LapRLSRegressor):
        y = np.where(y >= 0, X[:, 0] + y, np.nan)
    penalties = {"gamma_A": [1e-3, "auto"], "gamma_I": [0, 1.0]}
    search = GridSearch(estimator, {"graph__n_neighbors": [4, 8], **penalties, "bandwidth": [2.0, 4.0]}, cv=FOLDS)
    search.fit(X, y)
    results = search.cv_results_
    assert len(results["params"]) == 16
    assert search.n_graphs_ == 2
    for k in (4, 8):
        for bandwidth in (2.0, 4.0):
            own = clone(estimator).set_params(graph__n_neighbors=k, bandwidth=bandwidth, cv=FOLDS, **penalties)
            own.fit(X, y)
            mine = (results["param_graph__n_neighbors"] == k) & (results["param_bandwidth"] == bandwidth)
            assert_allclose(results["mean_test_score"][mine], own.cv_results_["mean_test_score"])
            assert_allclose(results["split1_test_score"][mine], own.cv_results_["split1_test_score"])
    best = clone(estimator).set_params(**search.best_params_).fit(X, y)
    assert_array_equal(best.predict(X), search.predict(X))
    assert search.best_score_ == results["mean_test_score"].max() == results["mean_test_score"][search.best_index_]
    assert_array_equal(search.transduction_, search.predict(X))


@pytest.mark.parametrize("estimator", [LapSVC(n_landmarks=60), LapKernelRidge(n_landmarks=60)],
                         ids=lambda kind: type(kind).__name__)
def test_without_the_graph_a_row_is_that_of_fits_without_each_fold(estimator, unmoved):
    X, y, _ = problem()
    if isinstance(estimator, LapKernelRidge):
        y = np.where(y >= 0, X[:, 0] + y, np.nan)
    grid = {"C": [0.1, 10.0], "eta": [0, 10.0], "regularizer__power": [1, 2], "bandwidth": [3.0]}
    search = GridSearch(estimator, grid, cv=FOLDS).fit(X, y)
    assert search.n_graphs_ == 1
    for index, params in enumerate(search.cv_results_["params"]):
        if params["eta"]:
            continue
        for number, (_, test) in enumerate(FOLDS.split(np.arange(30))):
            known = y.copy()
            known[test] = -1 if isinstance(estimator, LapSVC) else np.nan
            predicted = clone(estimator).set_params(**params).fit(X, known).predict(X[test])
            expected = (predicted == y[test]).mean() if isinstance(estimator, LapSVC) else -np.sqrt(
                ((predicted - y[test])**2).mean())
            assert search.cv_results_[f"split{number}_test_score"][index] == pytest.approx(expected, abs=1e-6)
    by_eta = {eta: search.cv_results_["mean_test_score"][search.cv_results_["param_eta"] == eta] for eta in (0, 10.0)}
    assert not np.array_equal(by_eta[0], by_eta[10.0])


def test_a_graph_that_is_given_serves_all_and_is_not_changed():
    X, y, _ = problem()
    graph = KNNGraph(n_neighbors=5).build(X)
    given = GridSearch(LapSVC(), {"eta": [1, 100]}).fit(X, y, graph=graph)
    made = GridSearch(LapSVC(graph=KNNGraph(n_neighbors=5)), {"eta": [1, 100]}).fit(X, y)
    assert_array_equal(given.cv_results_["mean_test_score"], made.cv_results_["mean_test_score"])
    assert (given.n_graphs_, made.n_graphs_) == (0, 1)
    with pytest.raises(ParameterError, match="a grid that changes it"):
        GridSearch(LapSVC(), {"graph__n_neighbors": [3]}).fit(X, y, graph=graph)


@pytest.mark.slow
def test_graphs_that_search_alike_share_one_search():
    X, y, _ = problem()
    grid = {"graph__n_neighbors": [3, 8, 5], "graph__weights": ["binary", "self_tuned"]}
    search = GridSearch(LapSVC(), {**grid, "graph__metric": ["euclidean", "cosine"]}, cv=FOLDS).fit(X, y)
    assert (search.n_graphs_, search.n_neighbor_searches_) == (12, 2)
    for params, score in zip(search.cv_results_["params"], search.cv_results_["mean_test_score"], strict=True):
        alone = GridSearch(LapSVC().set_params(**params), {}, cv=FOLDS, refit=False).fit(X, y)
        assert (alone.best_score_, alone.n_neighbor_searches_) == (score, 1)
    without = GridSearch(LapRLSClassifier(landmarks=30), {"gamma_I": [0]}, cv=FOLDS).fit(X, y)
    assert (without.n_graphs_, without.n_neighbor_searches_) == (0, 0)


@pytest.mark.slow
def test_candidates_may_be_few_and_grids_several():
    X, y, _ = problem()
    grid = [{"gamma_A": [0.1, 1.0], "gamma_I": [0]}, {"bandwidth": [1.0, 2.0, 3.0]}]
    search = GridSearch(LapRLSClassifier(landmarks=30), grid, n_candidates=3, random_state=1).fit(X, y)
    again = GridSearch(LapRLSClassifier(landmarks=30), grid, n_candidates=3, random_state=1).fit(X, y)
    assert len(search.cv_results_["params"]) == 3
    assert search.cv_results_["params"] == again.cv_results_["params"]
    every = GridSearch(LapRLSClassifier(landmarks=30), grid).fit(X, y).cv_results_
    assert every["params"][0] == {"gamma_A": 0.1, "gamma_I": 0}
    assert every["param_bandwidth"].mask.tolist() == [True, True, False, False, False]


def test_weights_and_pickles():
    X, y, new = problem()
    weight = np.random.default_rng(0).uniform(0.1, 5, len(X))
    search = GridSearch(LapSVC(), {"C": [0.1, 1.0, 10.0]})
    plain, weighted = clone(search).fit(X, y), clone(search).fit(X, y, sample_weight=weight)
    assert not np.array_equal(plain.cv_results_["mean_test_score"], weighted.cv_results_["mean_test_score"])
    assert_array_equal(pickle.loads(pickle.dumps(weighted)).predict(new), weighted.predict(new))
    assert weighted.classes_.tolist() == [0, 1, 2]


@pytest.mark.parametrize(("grid", "says"), [
    ({"gamma_B": [1]}, "gamma_B"), ({"gamma_A": []}, "list of values"), ({"gamma_A": 1.0}, "list of values"),
    ({"gamma_A": [-1.0]}, "gamma_A=-1.0"), ({"graph__k": [3]}, "graph has no parameter k"), ([], "empty grid"),
    (3, "dict of lists"), ("gamma_A", "dict of lists"), ({"gamma_A": [[0.1, 1.0], 1.0]}, "one value of each parameter"),
    ({"unlabeled": [None, 0]}, "the same labels"), ({"cv": [3, 5]}, "the same folds"),
    ({"gamma_A": {1.0, 2.0}}, "list of values")])
def test_what_makes_no_grid_is_refused_before_anything_is_made(grid, says):
    X, y, _ = problem()
    with pytest.raises((ParameterError, ValueError), match=says):
        GridSearch(LapRLSClassifier(), grid).fit(X, y)


@pytest.mark.parametrize("estimator", [LapSVC(), LapRLSClassifier(landmarks=40), LapSVM(landmarks=40)],
                         ids=lambda kind: type(kind).__name__)
def test_a_fold_of_a_whole_class_is_refused(estimator):
    X, y, _ = problem()
    known = y[y >= 0]
    folds = [np.flatnonzero(known == known[0]), np.flatnonzero(known != known[0])]
    with pytest.raises(ParameterError, match=f"fold 0 of cv holds out all labels of class {known[0]}"):
        GridSearch(estimator, {"bandwidth": [2.0, 4.0]}, cv=folds).fit(X, y)


@pytest.mark.parametrize("given", [{"refit": "auc"}, {"refit": None}, {"one_standard_error": "yes"}])
def test_what_is_no_choice_of_two_is_refused(given):
    X, y, _ = problem()
    with pytest.raises(ParameterError, match="expected True or False"):
        GridSearch(LapSVC(), {"C": [1, 10]}, **given).fit(X, y)


@pytest.mark.parametrize("n_candidates", [0, 2.5, "2", True])
def test_what_is_no_number_of_candidates_is_refused(n_candidates):
    X, y, _ = problem()
    with pytest.raises(ParameterError, match="whole number"):
        GridSearch(LapSVC(), {"C": [1, 10, 100]}, n_candidates=n_candidates).fit(X, y)


def test_a_class_in_place_of_an_estimator_is_refused():
    with pytest.raises(ParameterError, match=r"estimator=LapSVC is a class\n.*\n.*pass LapSVC\(\)"):
        GridSearch(LapSVC, {"eta": [1, 10]}).fit(np.eye(4), [0, 1, 0, 1])


def test_an_estimator_with_a_grid_of_its_own_is_refused():
    X, y, _ = problem()
    with pytest.raises(ParameterError, match="list the values of gamma_A in the grid"):
        GridSearch(LapRLSClassifier(gamma_A=[0.1, 1.0]), {"bandwidth": [1.0]}).fit(X, y)


@pytest.mark.slow
def test_losses_are_compared_by_what_they_predict_not_by_name():
    X, y, _ = problem()
    losses = [HuberHinge(0.5), "squared_hinge", Logistic(), "huber_hinge"]
    search = GridSearch(LapSVM(landmarks=40), {"loss": losses}, cv=FOLDS).fit(X, y)
    alone = [GridSearch(LapSVM(landmarks=40, loss=loss), {}, cv=FOLDS).fit(X, y).best_score_ for loss in losses]
    assert_array_equal(search.cv_results_["mean_test_score"], alone)
    assert list(search.cv_results_["param_loss"]) == losses
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1


@pytest.mark.parametrize(("estimator", "grid"), [
    (LapRLSClassifier(landmarks=40), {"gamma_A": [1e-4, "auto", 1.0], "gamma_I": [0, 1.0]}),
    (LapSVC(n_landmarks=60), {"C": [0.01, 1.0, 100.0], "eta": [0, 10.0]})], ids=["LapRLSClassifier", "LapSVC"])
@pytest.mark.parametrize("scoring", ["balanced_accuracy", "neg_log_loss", "f1_macro", "roc_auc"])
def test_a_scoring_decides(estimator, grid, scoring):
    X, y, _ = problem()
    search = GridSearch(estimator, {**grid, "bandwidth": [1.0, 4.0]}, cv=FOLDS, scoring=scoring).fit(X, y)
    measure, highest = SCORED[scoring]
    column = search.cv_results_[measure] * (-1 if highest else 1)
    assert column[search.best_index_] == column.min() < column.max()
    assert search.cv_results_["rank_test_score"][search.best_index_] == 1
    assert search.best_score_ == 1 - search.cv_results_["error"][search.best_index_]
    assert f"{measure}_se" in search.cv_results_


@pytest.mark.slow
def test_within_one_standard_error_the_strongest_penalties_are_chosen():
    X, y, _ = problem()
    grid = {"gamma_A": [1e-4, "0.1*auto", "10*auto", 0.03, 100.0], "bandwidth": [4.0, 2.0]}
    lowest = GridSearch(LapRLSClassifier(landmarks=40), grid, cv=FOLDS, scoring="neg_brier_score").fit(X, y)
    search = clone(lowest).set_params(one_standard_error=True).fit(X, y)
    found, best = search.cv_results_, lowest.best_index_
    within = found["brier"] <= found["brier"][best] + found["brier_se"][best]
    assert found["gamma_A"][search.best_index_] == found["gamma_A"][within].max() > found["gamma_A"][best]
    assert within.sum() < len(within)
    assert search.best_estimator_.gamma_A == search.best_params_["gamma_A"]


@pytest.mark.parametrize(("estimator", "scoring"), [
    (LapSVC(), "neg_root_mean_squared_error"), (LapSVC(), "r2"), (LapKernelRidge(), "roc_auc"),
    (LapRLSRegressor(), "neg_log_loss")])
def test_a_scoring_that_the_target_does_not_have_is_refused(estimator, scoring):
    X, y, _ = problem()
    y = y if isinstance(estimator, LapSVC) else np.where(y >= 0, X[:, 0], np.nan)
    with pytest.raises(ParameterError, match=f"scoring='{scoring}' of {'class' if y.dtype.kind == 'i' else 'quant'}"):
        GridSearch(estimator, {"bandwidth": [1.0]}, scoring=scoring).fit(X, y)


def test_one_measure_parts_equals_of_all_losses():
    X, y, _ = problem()
    losses = ["logistic", "squared", "squared_hinge"]
    grid = {"loss": losses, "gamma_A": [1e-3, 1e-1]}
    results = GridSearch(LapSVM(landmarks=40), grid, cv=FOLDS).fit(X, y).cv_results_
    assert "rmse" not in results
    by_rank = np.lexsort([results["loss"], -results["mean_test_score"]])
    assert_array_equal(results["rank_test_score"][by_rank], np.arange(1, 7))


# Successive halving

PENALTIES = {"gamma_A": [1e-4, 1e-2, 1.0], "gamma_I": [0, 0.1, 10.0], "bandwidth": [1.0, 2.0, 4.0]}


@pytest.mark.slow
def test_halving_judges_the_better_third_on_three_times_the_folds():
    X, y, _ = problem()
    full = GridSearch(LapRLSClassifier(landmarks=40), PENALTIES, cv=10, scoring="neg_brier_score").fit(X, y)
    search = clone(full).set_params(factor=3).fit(X, y)
    assert (search.n_resources_, search.n_candidates_) == ([2, 3, 10], [27, 9, 3])
    assert (full.n_resources_, full.n_candidates_) == ([10], [27])
    assert "iter" not in full.cv_results_
    results = search.cv_results_
    assert_array_equal(results["iter"], np.repeat([0, 1, 2], [27, 9, 3]))
    assert_array_equal(results["n_resources"], np.repeat([2, 3, 10], [27, 9, 3]))
    splits = np.array([results[f"split{fold}_test_score"] for fold in range(10)])
    assert_array_equal((~np.isnan(splits)).sum(axis=0), results["n_resources"])
    for rung, n_next in enumerate([9, 3]):
        of_rung = np.flatnonzero(results["iter"] == rung)
        order = of_rung[np.argsort(results["brier"][of_rung], kind="stable")]
        on = [results["params"][place] for place in sorted(order[:n_next])]
        assert on == [own for own, number in zip(results["params"], results["iter"], strict=True) if number == rung + 1]
    assert results["iter"][search.best_index_] == 2
    assert results["rank_test_score"][search.best_index_] == 1
    assert set(results["rank_test_score"][results["iter"] == 2]) <= {1, 2, 3}
    assert results["brier"][search.best_index_] == results["brier"][results["iter"] == 2].min()
    for place in np.flatnonzero(results["iter"] == 2):  # as if it had been judged with all others
        same = full.cv_results_["params"].index(results["params"][place])
        assert results["brier"][place] == pytest.approx(full.cv_results_["brier"][same], rel=1e-6)
    again = clone(search).fit(X, y)
    assert again.cv_results_["params"] == results["params"]
    assert_array_equal(again.cv_results_["brier"], results["brier"])


@pytest.mark.parametrize("estimator", [LapSVC(n_landmarks=60), LapKernelRidge(n_landmarks=60), LapSVM(landmarks=40)],
                         ids=lambda kind: type(kind).__name__)
@pytest.mark.slow_cases("LapSVM")
def test_halving_of_any_estimator(estimator):
    X, y, _ = problem()
    if isinstance(estimator, LapKernelRidge):
        y = np.where(y >= 0, X[:, 0] + y, np.nan)
    grid = {"bandwidth": [1.0, 2.0, 4.0], "graph__n_neighbors": [4, 6], **(
        {"gamma_I": [0, 1.0]} if isinstance(estimator, LapSVM) else {"eta": [1, 10], "regularizer__power": [1, 2]})}
    search = GridSearch(estimator, grid, cv=RepeatedKFold(n_splits=4, n_repeats=3, random_state=0), factor=2).fit(X, y)
    assert search.n_resources_ == [2, 3, 4, 12]
    assert search.n_candidates_ == ([12, 6, 3, 2] if isinstance(estimator, LapSVM) else [24, 12, 6, 3])
    assert (search.n_graphs_, search.n_neighbor_searches_) == (2, 1)
    name = "rmse_se_repetitions" if isinstance(estimator, LapKernelRidge) else "error_se_repetitions"
    assert_array_equal(np.isnan(search.cv_results_[name]), search.cv_results_["n_resources"] < 12)
    assert search.best_estimator_.get_params()["bandwidth"] == search.best_params_["bandwidth"]


@pytest.mark.parametrize("estimator", [LapRLSClassifier(landmarks=40), LapSVM(landmarks=40)],
                         ids=lambda kind: type(kind).__name__)
@pytest.mark.extended_cases("LapSVM")
def test_rungs_share_the_gram_matrices_of_a_kernel(estimator, monkeypatch):
    X, y, _ = problem()
    made, prepared = [], LapRLSProblem.prepared
    monkeypatch.setattr(LapRLSProblem, "prepared", lambda self, kernel, *args, **more: made.append(kernel) or prepared(
        self, kernel, *args, **more))
    grid = {"gamma_A": [1e-3, 1e-2, 0.1], "gamma_I": [0.1, 1.0, 10.0], "bandwidth": [1.0, 2.0, 4.0]}
    search = GridSearch(estimator, grid, cv=10, factor=3, refit=False).fit(X, y)
    assert len(search.n_resources_) == len(made) == 3
    last = [params for params, rung in zip(search.cv_results_["params"], search.cv_results_["iter"], strict=True)
            if rung == 2]
    for params, score in zip(last, search.cv_results_["mean_test_score"][-len(last):], strict=True):
        alone = GridSearch(clone(estimator).set_params(**params), {}, cv=10, refit=False).fit(X, y)
        assert alone.best_score_ == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize(("folds", "n_candidates", "factor", "resources", "candidates"), [
    ([5], 75, 3, [2, 5], [75, 25]), ([10], 75, 3, [2, 3, 10], [75, 25, 9]), ([5], 2, 3, [5], [2]),
    ([200], 75, 3, [7, 22, 66, 200], [75, 25, 9, 3]), ([5, 5, 5], 81, 3, [2, 5, 15], [81, 27, 9]),
    ([5, 5, 5, 5], 8, 1.5, [2, 3, 5, 10, 20], [8, 6, 4, 3, 2]), ([2], 100, 2, [2], [100]), ([9], 1, 3, [9], [1])])
def test_rungs(folds, n_candidates, factor, resources, candidates):
    rungs = rungs_of([np.array_split(np.arange(200), own) for own in folds], n_candidates, factor)
    assert ([rung.n_resources for rung in rungs], [rung.n_candidates for rung in rungs]) == (resources, candidates)
    assert [len(own) for own in rungs[-1].repetitions] == folds


@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc", "balanced_accuracy"])
def test_halving_with_two_labels_a_class(scoring):
    X, y, _ = problem(n_labeled=150)
    few = np.full_like(y, -1)
    for code in range(3):
        few[np.flatnonzero(y == code)[:2]] = code
    search = GridSearch(LapRLSClassifier(landmarks=40), PENALTIES, cv="leave_one_out", factor=3, scoring=scoring)
    assert search.fit(X, few).n_resources_ == [2, 6]


@pytest.mark.parametrize("cv", ["leave_one_out", LeaveOneOut(), KFold(20)])
def test_each_rung_holds_out_points_of_all_classes(cv):
    """Points one by one are in the order of their classes, and those of a user may be."""
    codes = np.repeat([0, 1], 20)
    for rung in rungs_of(held_out_folds(cv, Classes.of(codes, np.array(["a", "b"]))), 27, 3):
        assert_array_equal(np.unique(codes[np.concatenate(rung.repetitions[0])]), [0, 1])


@pytest.mark.parametrize("factor", [1, 0.5, "3", True, np.nan, np.inf])
def test_what_is_no_factor_is_refused(factor):
    X, y, _ = problem()
    with pytest.raises(ParameterError, match="factor="):
        GridSearch(LapSVC(), {"C": [1, 10]}, factor=factor).fit(X, y)


def test_the_evidence_is_that_of_the_best_and_of_the_search():
    X, y, _ = problem()
    search = GridSearch(LapSVC(), {"C": [1, 10], "graph__n_neighbors": [4, 8]}, cv=3).fit(X, y)
    assert search.evidence_["search"] == {"candidates": 4, "folds": [3], "fits": 2, "graphs": 2, "neighbor_searches": 1}
    assert search.evidence_ | search.best_estimator_.evidence_ == search.evidence_
    assert set(clone(search).set_params(refit=False).fit(X, y).evidence_) == {"search"}


def test_an_estimator_of_others_and_a_search_without_refit_are_told():
    X, y, _ = problem()
    with pytest.raises(ParameterError, match=r"estimator=KFold\n.*LapSVC, LapKernelRidge, LapSVM"):
        GridSearch(KFold(), {}).fit(X, y)
    with pytest.raises(ParameterError, match=r"GridSearch cannot search SemiSupervisedClassifier\n.*chooses its param"):
        GridSearch(SemiSupervisedClassifier(), {"scale": ["none"]}).fit(X, y)
    with pytest.raises(ParameterError, match="refit=False keeps no estimator"):
        GridSearch(LapSVC(), {"C": [1, 10]}, refit=False).fit(X, y).predict(X)

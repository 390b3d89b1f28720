"""`LapRLSClassifier` and `LapRLSRegressor`: the theorem, every solver by name, inputs, grids, and what is refused."""

from contextlib import contextmanager

import dask.array as da
import numpy as np
import pytest
import zarr
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, RepeatedStratifiedKFold
from threadpoolctl import threadpool_info

from dssl import (
    GraphKernelRidge,
    GridSearch,
    KNNGraph,
    LandmarkParams,
    LaplaceLearning,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    LapSVM,
    SystemParams,
    neighbors,
    weights,
)
from dssl.base.errors import BudgetError, DataError, NotConverged, ParameterError
from dssl.estimators.predict_to import predict_to_zarr
from dssl.execution.in_process import InProcess
from dssl.graph.laplacian import Laplacian
from dssl.kernels.base import RBF
from dssl.kernels.landmarks import Landmarks
from dssl.learners.laprls.gram import gram_matrices
from dssl.learners.laprls.params import LabelLines
from dssl.learners.laprls.products import GramTask, gram_bytes
from dssl.learners.laprls.system import assemble, whitening_bytes
from dssl.storage.blocks import ArrayRows
from tests import reference
from tests.moons import two_moons

SOLVERS = ("nystrom-direct", "nystrom-pcg", "nystrom-cg", "direct", "pcg", "cg")


def problem(n=150, n_labeled=30, n_classes=3, random_state=0):
    """Return X (n, 4), y with -1 where unlabeled, and new points."""
    X, codes = make_blobs(n + 40, centers=n_classes, cluster_std=3.0, n_features=4, random_state=random_state)
    y = codes[:n].copy()
    y[n_labeled:] = -1
    return X[:n], y, X[n:]


@pytest.mark.parametrize("kind", ["normalized", "unnormalized"])
def test_laprls_is_ridge_regression_in_the_deformed_kernel(kind):
    """Belkin et al. 2006 and Sindhwani et al. 2005 describe the same function: here by two different code paths."""
    X, y, _ = problem(n=80, n_labeled=20, n_classes=2)
    target = np.where(y >= 0, np.where(y == 1, 1.0, -1.0), np.nan)
    lambda_A, lambda_I = 0.3, 0.7
    W = weights(neighbors(X, n_neighbors=6), "self_tuned")
    L = Laplacian(W, kind == "normalized").matrix(0).toarray()
    K = reference.rbf(X, X, 2.5)
    deformed = reference.deformed_gram(K, lambda_I / lambda_A * L)
    expected = deformed[:, :20] @ np.linalg.solve(deformed[:20, :20] + lambda_A * np.eye(20), target[:20])
    for solver in SOLVERS:
        own = LapRLSRegressor(bandwidth=2.5, gamma_A=lambda_A / 20, gamma_I=lambda_I * len(X)**2 / 20,
                              graph=KNNGraph(n_neighbors=6), landmarks=1.0, fit_intercept=False,
                              solver=SystemParams(solver=solver, laplacian=kind, tol=1e-10)).fit(X, target)
        assert_allclose(own.predict(X), expected, atol=1e-6)


@pytest.mark.slow
def test_every_solver_gives_the_same_function_with_weights_copies_and_folds():
    X, y, new = problem()
    X = np.vstack([X, X[:7], X[100:110]])
    y = np.concatenate([y, y[:7], y[100:110]])
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    grid = {"gamma_A": ["auto", "100*auto"], "gamma_I": [0.0, "auto"]}
    settings = {"bandwidth": 3.0, "landmarks": 1.0, "cv": 3, **grid}

    def fitted(solver):
        params = SystemParams(solver=solver, tol=1e-9, max_iter=5000)
        return LapRLSClassifier(solver=params, **settings).fit(X, y, sample_weight=weight)

    first = fitted("nystrom-direct")
    assert len(first.cv_results_["params"]) == 4
    for solver in SOLVERS[1:]:
        other = fitted(solver)
        # Up to intercepts, which follow from folds that depend on the solver.
        moved = other.decision_function(new) - first.decision_function(new)
        assert_allclose(moved - moved.mean(axis=0), 0, atol=1e-5)
        assert np.abs(moved).max() < 0.1
        assert (other.gamma_A_, other.gamma_I_) == (first.gamma_A_, first.gamma_I_)
        assert first.cv_results_.keys() == other.cv_results_.keys()
        for name in first.cv_results_.keys() - {"params"}:
            assert_allclose(first.cv_results_[name].astype(float), other.cv_results_[name].astype(float), atol=1e-5)


def test_whitened_equals_unwhitened_where_it_is_well_posed():
    X, y, new = problem()
    whitened, printed = (LapRLSClassifier(bandwidth=0.7, landmarks=40, solver=SystemParams(whitening=how)).fit(X, y)
                         for how in ("auto", None))
    assert printed.evidence_["whitening"] is None
    assert_allclose(whitened.decision_function(new), printed.decision_function(new), atol=1e-7)


def test_plain_rls_is_ridge_regression_on_the_labels():
    X, y, new = problem(n_classes=2)
    target = np.where(y >= 0, y + 0.5, np.nan)
    own = LapRLSRegressor(bandwidth=2.0, gamma_I=0.0, gamma_A=0.2 / 30, solver="direct").fit(X, target)
    K, mean = reference.rbf(X[:30], X[:30], 2.0), target[:30].mean()
    coef = np.linalg.solve(K + 0.2 * np.eye(30), target[:30] - mean)
    assert_allclose(own.predict(new), reference.rbf(new, X[:30], 2.0) @ coef + mean, atol=1e-9)
    assert own.model_.points.shape[0] == 30  # no coefficient for a point without a label


@pytest.mark.slow
def test_the_error_of_float32_blocks_is_small():
    X, y = load_digits(return_X_y=True)
    y = np.where(np.arange(len(y)) < 200, y, -1)
    exact, single = (LapRLSClassifier(landmarks=200, solver=SystemParams(precision=precision)).fit(X, y)
                     for precision in ("float64", "float32"))
    scores, found = exact.decision_function(X), single.decision_function(X)
    assert 0 < np.abs(found - scores).max() < 5e-3
    assert (exact.predict(X) == single.predict(X)).mean() > 0.995


@pytest.mark.slow
def test_a_grid_is_searched_and_the_graph_helps_on_digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    X, y = X[order], y[order]
    shown = np.where(np.arange(len(y)) < 100, y, -1)
    plain = LapRLSClassifier(gamma_A=["0.1*auto", "10*auto"], gamma_I=0, landmarks=500).fit(X[:1400], shown[:1400])
    own = clone(plain).set_params(gamma_I=[0, "0.1*auto", "auto"]).fit(X[:1400], shown[:1400])
    assert own.gamma_I_ > 0
    assert own.score(X[1400:], y[1400:]) > plain.score(X[1400:], y[1400:]) + 0.02
    best = own.cv_results_["params"][own.cv_results_["rank_test_score"].argmin()]
    assert best == {"bandwidth": own.bandwidth_, "gamma_A": own.gamma_A_, "gamma_I": own.gamma_I_}


def test_the_results_of_a_grid_are_those_of_fits_without_each_fold(unmoved):
    """Folds are those of the splitter; a fit without a fold has the other labels, and all points in its graph."""
    X, y, _ = problem()
    y, kind = np.where(y >= 0, X[:, 0] + y, np.nan), LapRLSRegressor
    labeled, folds = np.arange(30), KFold(3, shuffle=True, random_state=1)
    settings = {"bandwidth": 3.0, "landmarks": 1.0}
    own = kind(gamma_A=[1e-3, 1e-1], gamma_I=[0, 1.0], cv=folds, **settings).fit(X, y)
    results = own.cv_results_
    assert results["params"] == [{"gamma_A": each, "gamma_I": other} for each in (1e-3, 0.1) for other in (0, 1)]
    assert_array_equal(results["param_gamma_A"], [1e-3, 1e-3, 1e-1, 1e-1])
    for number, (_, test) in enumerate(folds.split(labeled)):
        known = y.copy()
        known[test] = np.nan
        for index, params in enumerate(results["params"]):
            predicted = kind(**params, **settings).fit(X, known).predict(X[test])
            assert results[f"split{number}_test_score"][index] == pytest.approx(
                -np.sqrt(((predicted - y[test])**2).mean()), abs=1e-6)
    splits = np.array([results[f"split{number}_test_score"] for number in range(3)])
    assert_allclose(results["mean_test_score"], -np.sqrt((splits**2).mean(axis=0)))  # the folds are of one size
    assert_allclose(results["std_test_score"], splits.std(axis=0))
    assert results["params"][results["rank_test_score"].argmin()] == {"gamma_A": own.gamma_A_, "gamma_I": own.gamma_I_}
    best = results["rank_test_score"] == 1
    assert results["mean_test_score"][best].max() == results["mean_test_score"].max()
    assert kind(gamma_A="auto", gamma_I="auto", **settings).fit(X, y).cv_results_ == {}


def test_several_targets_at_once_and_one_by_one():
    X, _, new = problem()
    targets = np.random.default_rng(0).normal(size=(len(X), 3))
    targets[40:] = np.nan
    both = LapRLSRegressor(landmarks=50).fit(X, targets)
    for column in range(3):
        alone = LapRLSRegressor(landmarks=50).fit(X, targets[:, column])
        assert_allclose(both.predict(new)[:, column], alone.predict(new), atol=1e-10)


def test_points_with_some_of_several_targets_count_as_unlabeled_which_is_said():
    X, _, new = problem()
    targets = np.random.default_rng(0).normal(size=(len(X), 2))
    targets[40:] = np.nan
    whole = LapRLSRegressor(landmarks=50).fit(X, targets)
    targets[40:47, 1] = 1.0
    with pytest.warns(UserWarning, match=f"7 of {len(X)} points have some of their 2 targets only"):
        some = LapRLSRegressor(landmarks=50).fit(X, targets)
    assert_allclose(some.predict(new), whole.predict(new), atol=1e-10)
    some.score(X, targets)  # fits nothing, and is silent


@pytest.mark.parametrize("method", ["uniform", "kmeans", "leverage"])
def test_landmarks_of_every_kind(method):
    X, y, _ = problem()
    own = LapRLSClassifier(landmarks=LandmarkParams(n_landmarks=40, method=method)).fit(X, y)
    assert own.evidence_["landmarks"]["method"] == method
    assert own.model_.points.shape[0] == 40
    assert (own.predict(X[:30]) == y[:30]).mean() > 0.8


@pytest.mark.slow
def test_predictions_go_to_zarr_in_blocks(tmp_path):
    X, y, new = problem()
    own = LapRLSClassifier(landmarks=50).fit(X, y)
    facts = own.predict_to(new, tmp_path / "labels.zarr")
    assert_array_equal(zarr.open_array(str(tmp_path / "labels.zarr"), mode="r")[:], own.predict(new))
    assert facts["n"] == len(new)
    assert sum(facts["counts"].values()) == len(new)
    with pytest.raises(DataError, match="exists"):
        own.predict_to(new, tmp_path / "labels.zarr")
    named = LapRLSClassifier(landmarks=50).fit(X, np.where(y < 0, None, np.array(["a", "b", "c"], object)[y]))
    with pytest.raises(DataError, match=r"ends in \.csv"):
        own.predict_to(new, tmp_path / "labels.csv")
    named.predict_to(da.from_array(new, chunks=(10, 4)), tmp_path / "named.zarr")
    array = zarr.open_array(str(tmp_path / "named.zarr"), mode="r")
    assert_array_equal(np.array(array.attrs["classes"])[array[:]], named.predict(new).astype(str))
    values = LapRLSRegressor(landmarks=50).fit(X, np.where(y < 0, np.nan, y * 1.5))
    evidence = values.predict_to(new, tmp_path / "values.zarr")
    assert_allclose(zarr.open_array(str(tmp_path / "values.zarr"), mode="r")[:], values.predict(new), rtol=1e-9)
    assert evidence["values"]["min"] == pytest.approx(values.predict(new).min(), rel=1e-9)
    unsigned = LapRLSClassifier(landmarks=50, unlabeled=255).fit(X, np.where(y < 0, 255, y).astype(np.uint8))
    with pytest.raises(DataError, match="unsigned"):
        predict_to_zarr(unsigned.model_, new, tmp_path / "unsigned.zarr", reject=True)


# What is out of the ordinary


def test_duplicates_among_the_landmarks_change_nothing():
    X, y, new = problem()
    twice, labels = np.vstack([X, X[30:90]]), np.concatenate([y, y[30:90]])
    own = LapRLSClassifier(landmarks=1.0, graph=KNNGraph(n_neighbors=8, duplicates="keep")).fit(twice, labels)
    assert own.evidence_["landmarks"]["dropped_duplicates"] == 60
    assert np.isfinite(own.decision_function(new)).all()


@pytest.mark.slow
def test_more_landmarks_than_points_are_all_points():
    X, y, new = problem()
    with pytest.warns(UserWarning, match="landmarks=1000"):
        own = LapRLSClassifier(landmarks=1000).fit(X, y)
    whole = LapRLSClassifier(landmarks=1.0).fit(X, y)
    assert_array_equal(own.decision_function(new), whole.decision_function(new))


@pytest.mark.parametrize("settings", [
    {"gamma_A": 0.0}, {"gamma_A": -1.0}, {"gamma_I": -1e-9}, {"gamma_A": np.nan}, {"gamma_A": []},
    {"gamma_A": [0.1, 0.1]}, {"gamma_I": "10*median"},
    {"solver": "lu"}, {"solver__preconditioner": "jacobi"}, {"solver__whitening": 1.0}, {"solver__whitening": 0.0},
    {"solver__precision": "float16"}, {"solver__tolerance": 0.0}, {"solver__max_iterations": 0}, {"landmarks": 0},
    {"landmarks": 1.5}, {"landmarks": "grid"}, {"landmarks__method": "grid"}, {"solver__laplacian": "random"},
])
def test_parameters_out_of_range_are_refused(settings):
    X, y, _ = problem()
    with pytest.raises(ParameterError):
        LapRLSClassifier().set_params(**settings).fit(X, y)


def test_points_that_are_all_equal_are_refused():
    with pytest.raises(DataError, match="equal"):
        LapRLSClassifier().fit(np.ones((20, 3)), np.r_[0, 1, np.full(18, -1)])


def test_a_class_with_one_label_is_fitted_and_never_held_out():
    X, y, _ = problem()
    y[np.flatnonzero(y == 2)[1:]] = -1
    own = LapRLSClassifier(landmarks=50, gamma_A=["auto", "100*auto"], cv=4).fit(X, y)
    assert own.classes_.tolist() == [0, 1, 2]
    assert own.predict(X[y == 2])[0] == 2
    lonely = np.full(len(X), -1)
    lonely[:2] = [0, 1]
    with pytest.raises(DataError, match="no class has two"):
        LapRLSClassifier(gamma_A=[0.01, 1.0]).fit(X, lonely)


def test_targets_with_nan_are_unlabeled_and_infinite_ones_refused():
    X, _, new = problem()
    target = np.where(np.arange(len(X)) < 30, X[:, 0], np.nan)
    some = np.column_stack([target, target])
    some[3, 1] = np.nan  # a row with one NaN has no label
    without = some.copy()
    without[3] = np.nan
    with pytest.warns(UserWarning, match="1 of 150 points have some of their 2 targets only"):
        predicted = LapRLSRegressor(landmarks=40).fit(X, some).predict(new)
    assert_array_equal(predicted, LapRLSRegressor(landmarks=40).fit(X, without).predict(new))
    with pytest.raises(DataError, match="no target is a number"):
        LapRLSRegressor().fit(X, np.full(len(X), np.nan))
    with pytest.raises(DataError, match="infinite"):
        LapRLSRegressor().fit(X, np.where(np.arange(len(X)) == 2, np.inf, target))


def test_no_unlabeled_points_give_a_warning():
    X, y, _ = problem(n_labeled=150)
    with pytest.warns(UserWarning, match="every point is labeled"):
        LapRLSClassifier(landmarks=50).fit(X, y)


@pytest.mark.parametrize("kind", [LapRLSClassifier, LapSVM])
@pytest.mark.parametrize(("gamma_A", "gamma_I"), [
    (1e-2, 1e20), (1e-50, 1e50), ([1e-18, 1e-17], 1.0), ([1e-50, 1e-49], 1.0), ([1e-50, 1e-49], 1e50)])
def test_a_factored_system_that_is_not_solved_is_an_error(kind, gamma_A, gamma_I):
    moons = two_moons(200, 0.1, random_state=0)
    X, codes = moons.X.read_all(), moons.targets()
    y = np.where(np.arange(200) < 30, codes, -1)
    with pytest.raises(NotConverged, match=f"gamma_A={np.ravel(gamma_A)[0]:g} and gamma_I=.* residual of") as error:
        kind(solver="direct", gamma_A=gamma_A, gamma_I=gamma_I, bandwidth="2*median").fit(X, y)
    assert "a larger gamma_A or a smaller gamma_I" in str(error.value)
    assert not any(word in str(error.value) for word in ("iterations", "lower C", "whitening"))


@pytest.mark.parametrize(("name", "value"), [("gamma_A", 1e-300), ("gamma_A", 1e51), ("gamma_I", 1e300),
                                             ("gamma_I", 1e-60), ("gamma_A", "1e-300*auto"), ("gamma_I", [0, 1e80])])
def test_penalties_whose_products_are_no_numbers_are_refused(name, value):
    X, y, _ = problem()
    with pytest.raises(ParameterError, match=rf"{name}=.*, beyond 1e-50 to 1e\+50"):
        LapRLSClassifier(**{name: value}).fit(X, y)


@pytest.mark.parametrize("kind", [LapRLSClassifier, LapSVM, LapSVC, LaplaceLearning, GraphKernelRidge])
def test_a_random_state_that_is_no_whole_number_is_refused(kind):
    X, y, _ = problem()
    for random_state in (-1, 1.5, True, None, "0", np.random.RandomState(0)):
        for own in (kind(random_state=random_state), GridSearch(kind(), {}, random_state=random_state)):
            with pytest.raises(ParameterError,
                               match=r"random_state=.*, expected a whole number >= 0(.|\n)*such as random_state=0"):
                own.fit(X, y)
        with pytest.raises(ParameterError, match="pass a whole number"):
            KNNGraph(random_state=random_state)


@pytest.mark.parametrize("solver", SOLVERS)
def test_targets_of_any_size_are_fitted(solver):
    X, _, new = problem()
    target = np.where(np.arange(len(X)) < 30, X[:, 0], np.nan)
    own = LapRLSRegressor(gamma_A="auto", gamma_I="auto", landmarks=50, solver=SystemParams(
        solver=solver, tol=1e-9, max_iter=2000))
    expected = clone(own).fit(X, target).predict(new)
    for size in (1e-200, 1e148):
        assert_allclose(own.fit(X, target * size).predict(new) / size, expected, rtol=1e-6, atol=1e-6)


def test_targets_that_are_no_real_numbers_are_refused():
    X, y, _ = problem()
    for wrong in (np.where(y < 0, np.nan, y) * 1j, np.array(["1.5"] * len(X))):
        with pytest.raises(DataError):
            LapRLSRegressor().fit(X, wrong)
    with pytest.raises(DataError, match="complex"):
        LapRLSClassifier().fit(X, y.astype(complex))


def test_gram_matrices_beyond_the_budget_are_refused():
    X, y, _ = problem()
    system = prepared_system(X, y, 120, InProcess(memory_budget=600_000))
    with pytest.raises(BudgetError, match="nystrom-pcg"):
        gram_matrices(system, InProcess(memory_budget=200_000), InProcess().scratch())


@pytest.mark.slow
@pytest.mark.extended
def test_iterations_need_no_room_for_gram_matrices():
    """800 landmarks, 5 folds and a class of one label, so that labels have 6: in 36 MB only iterations are possible,
    auto takes them, and they are right.
    """
    X = np.random.default_rng(0).normal(size=(1500, 6))
    y = np.full(len(X), -1)
    y[:400] = X[:400, 0] > 0
    y[400] = 2
    budget = 36_000_000
    assert gram_bytes(800, 6, False) > budget > whitening_bytes(800, 1e-10)
    fits = {}
    for solver in ("auto", "nystrom-cg", "nystrom-direct"):
        room = 1 << 30 if solver == "nystrom-direct" else budget
        with memory(room):
            fits[solver] = LapRLSClassifier(landmarks=800, gamma_A=["10*auto", "100*auto"], solver=SystemParams(
                solver=solver, tol=1e-9, held_out="refit")).fit(X, y)
    direct = fits.pop("nystrom-direct").decision_function(X)
    for solver, fitted in fits.items():
        assert fitted.evidence_["method"] == solver.replace("auto", "nystrom-pcg")
        assert_allclose(fitted.decision_function(X), direct, atol=1e-6)
    refits = SystemParams(solver="nystrom-direct", held_out="refit")
    with memory(budget), pytest.raises(BudgetError, match="nystrom-pcg"):
        LapRLSClassifier(landmarks=800, gamma_A=[0.1, 1.0], solver=refits).fit(X, y)


def test_many_labels_hold_one_fold_out_in_the_pass_of_the_fit_or_in_a_second_one(monkeypatch):
    monkeypatch.setattr("dssl.methods.laprls.steps.MANY_LABELS", 500)
    folds = []
    monkeypatch.setattr("dssl.learners.laprls.gram.GramTask", lambda problem, *args: (
        folds.append(problem.n_folds), GramTask(problem, *args))[1])
    X = np.random.default_rng(0).normal(size=(900, 4))
    y = (X[:, 0] + 0.3 * X[:, 1] > 0).astype(int)
    given = {"bandwidth": 1.0, "gamma_A": 0.01, "gamma_I": 0.0}
    one = LapRLSClassifier(landmarks=800, **given).fit(X, y)
    assert set(folds) == {2}
    folds.clear()
    two = LapRLSClassifier(landmarks=800, memory_budget=36_000_000, **given).fit(X, y)
    assert set(folds) == {1}
    assert one.by_labels_["folds"] == two.by_labels_["folds"] == 1
    assert 120 < one.by_labels_["n"] == two.by_labels_["n"] < 240
    assert one.by_labels_["scores"]["model"]["error"] == two.by_labels_["scores"]["model"]["error"] < 0.1
    assert_allclose(one.predict_proba(X), two.predict_proba(X), atol=1e-6)
    assert LapRLSClassifier(landmarks=60, **given).fit(X[:400], y[:400]).by_labels_["folds"] == 5


@pytest.mark.slow
def test_held_out_values_in_closed_form_need_no_gram_matrix_a_fold():
    """Where those of six folds do not fit; the same pair is chosen, by the same errors."""
    X = np.random.default_rng(0).normal(size=(1000, 6))
    y = np.where(np.arange(len(X)) < 250, X[:, 0] > 0, -1)
    with memory(30_000_000):
        fitted = LapRLSClassifier(landmarks=700, gamma_A=["10*auto", "100*auto"]).fit(X, y)
    refitted = LapRLSClassifier(landmarks=700, gamma_A=["10*auto", "100*auto"], solver=SystemParams(
        solver="nystrom-direct", held_out="refit")).fit(X, y)
    assert fitted.evidence_["method"] == "nystrom-direct"
    assert fitted.evidence_["held_out"] == {"method": "closed_form", "held_out_points": "transductive"}
    assert refitted.evidence_["held_out"]["method"] == "refit"
    assert_array_equal(fitted.cv_results_["mean_test_score"], refitted.cv_results_["mean_test_score"])
    assert_allclose(fitted.decision_function(X), refitted.decision_function(X), atol=1e-9)


def test_landmarks_whose_kernel_does_not_fit_are_refused_first():
    X, y, _ = problem()
    with memory(32 * 120 * 120 - 1), pytest.raises(BudgetError, match="120 landmarks and a budget"):
        LapRLSClassifier(landmarks=120, gamma_I=0, graph=KNNGraph(duplicates="keep"), solver="nystrom-pcg").fit(X, y)


@contextmanager
def memory(budget):
    """Let estimators have this memory budget."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dssl.estimators.points.current_execution", lambda given: InProcess(2, budget))
        yield


@pytest.mark.parametrize(("given", "says"), [
    ({"cv": 1}, "1 folds, expected a whole number"), ({"cv": 2.5}, r"2\.5 folds"),
    ({"fit_intercept": "no"}, "fit_intercept='no'"),
    ({"gamma_A": np.array([[0.1, 0.2]])}, "a penalty has 2 dimensions")])
def test_parameters_of_the_wrong_kind_are_refused(given, says):
    X, y, _ = problem()
    with pytest.raises(ParameterError, match=says):
        LapRLSClassifier(landmarks=20, **given).fit(X, y)


def prepared_system(X, y, count, execution):
    """Return a system without a graph, with `count` landmarks."""
    labeled = np.flatnonzero(y >= 0)
    lines = LabelLines.of(labeled, np.ones(len(labeled)), y[labeled, None].astype(float))
    return assemble(ArrayRows(X), lines, RBF(2.0), Landmarks(X[:count], np.arange(count)), None, "normalized",
                    SystemParams(), execution)


def test_the_paper_preconditioner_needs_landmarks_that_are_points():
    X, y, _ = problem()
    with pytest.raises(ParameterError, match="landmarks that are not points"):
        LapRLSClassifier(solver=SystemParams(solver="nystrom-pcg", preconditioner="paper"),
                         landmarks=LandmarkParams(n_landmarks=20, method="kmeans")).fit(X, y)


def test_a_given_graph_takes_the_place_of_the_one_of_the_points():
    X, y, new = problem()
    W = weights(neighbors(X, n_neighbors=10), "self_tuned")
    own = LapRLSClassifier(landmarks=50, graph=KNNGraph(n_neighbors=10)).fit(X, y)
    given = LapRLSClassifier(landmarks=50).fit(X, y, graph=W)
    assert_allclose(given.decision_function(new), own.decision_function(new), atol=1e-10)


# Repetitions, leave-one-out and groups


@pytest.mark.parametrize("solver", ["nystrom-direct", "nystrom-pcg", "direct"])
@pytest.mark.parametrize("held_out", ["auto", "refit"])
@pytest.mark.extended_cases("auto-nystrom-pcg")
@pytest.mark.slow_cases("refit-nystrom-pcg")
def test_repetitions_are_searches_of_their_own_joined(solver, held_out):
    X, y, _ = problem()
    params = SystemParams(solver=solver, held_out=held_out, tol=1e-9)
    settings = {"bandwidth": 3.0, "landmarks": 40, "gamma_A": [1e-3, 1e-1], "gamma_I": [0, 1.0], "solver": params}
    splitter = RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0)
    splits = list(splitter.split(np.zeros((30, 1)), y[:30]))
    threads = [pool["num_threads"] for pool in threadpool_info()]
    both, first, second = (LapRLSClassifier(cv=cv, **settings).fit(X, y).cv_results_
                           for cv in (splitter, splits[:3], splits[3:]))
    assert [pool["num_threads"] for pool in threadpool_info()] == threads
    for name in ("error", "rmse", "mean_test_score"):
        assert_allclose(both[name], (first[name] + second[name]) / 2, atol=1e-7)
    assert_allclose(both["error_se_repetitions"], np.abs(first["error"] - second["error"]) / np.sqrt(2), atol=1e-12)
    for number in range(3):
        assert_array_equal(both[f"split{number}_test_score"], first[f"split{number}_test_score"])
        assert_array_equal(both[f"split{number + 3}_test_score"], second[f"split{number}_test_score"])


def test_leave_one_out_and_groups():
    X, y, _ = problem()
    settings = {"bandwidth": 3.0, "landmarks": 40, "gamma_A": [1e-3, 1e-1]}
    named, split = (LapRLSClassifier(cv=cv, **settings).fit(X, y) for cv in ("leave_one_out", LeaveOneOut()))
    assert named.evidence_["folds"] == split.evidence_["folds"] == 30
    assert_allclose(named.cv_results_["rmse"], split.cv_results_["rmse"])
    assert not any(name.startswith(("split", "fold")) for name in named.cv_results_)
    share = named.cv_results_["error"]
    assert_allclose(named.cv_results_["std_test_score"], np.sqrt(share * (1 - share)))
    groups = np.arange(30) // 3
    found = LapRLSClassifier(cv=list(GroupKFold(5).split(X[:30], y[:30], groups)), **settings).fit(X, y)
    assert (found.evidence_["folds"], found.evidence_["repetitions"]) == (5, 1)
    scores = found.evidence_["scores"]["model"]
    best = found.cv_results_["rank_test_score"].argmin()
    assert scores["error"] == found.cv_results_["error"][best]
    assert {"balanced_error", "log_loss", "brier", "auc", "auc_se"} <= scores.keys()


@pytest.mark.parametrize("solver", ["auto", "nystrom-direct", "direct"])
def test_points_that_are_held_out_may_leave_the_graph(solver):
    """A grid of one fit has the rows of a search over that choice and its penalties."""
    X, y, _ = problem()
    grid = {"gamma_A": [0.01, 0.1], "gamma_I": [0, 10.0]}
    own = LapRLSClassifier(solver=SystemParams(solver=solver), graph=KNNGraph(n_neighbors=5), bandwidth=1.0)
    fits = {points: clone(own).set_params(solver__held_out_points=points, **grid).fit(X, y)
            for points in ("transductive", "inductive")}
    for points, fitted in fits.items():
        assert fitted.evidence_["held_out"] == {"method": "closed_form", "held_out_points": points}
    found = GridSearch(own, {"solver__held_out_points": list(fits), **grid}, refit=False).fit(X, y).cv_results_
    for points, fitted in fits.items():
        mine = [row["solver__held_out_points"] == points for row in found["params"]]
        for name in ("mean_test_score", "rmse"):
            assert_array_equal(found[name][mine], fitted.cv_results_[name])

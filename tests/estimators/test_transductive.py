"""`TransductiveSVC`: what unlabeled points change, class sizes, probabilities, inputs, and what is refused."""

import pickle

import numpy as np
import pytest
from dask.distributed import Client
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_iris, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.svm import LinearSVC

from dssl import Graph, GridSearch, LabeledKFold, LandmarkParams, TransductiveSVC
from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.estimators.targets import classes_of
from dssl.selection.calibration import calibration_folds
from dssl.selection.folds import held_out_folds

from .test_laprls import problem


def moons(n=300, n_labeled=5, noise=0.1, random_state=0):
    """Return X (n, 2), the classes (n,), and y with -1 where unlabeled."""
    X, classes = make_moons(n, noise=noise, random_state=random_state)
    y = np.full(n, -1)
    rng = np.random.default_rng(random_state)
    for code in (0, 1):
        y[rng.choice(np.flatnonzero(classes == code), n_labeled, replace=False)] = code
    return X, classes, y


@pytest.mark.slow
def test_unlabeled_points_move_the_boundary_into_the_gap():
    gains = []
    for random_state in range(5):
        X, classes, y = moons(random_state=random_state)
        accuracies = [(TransductiveSVC(unlabeled_weight=weight).fit(X, y).transduction_ == classes)[y < 0].mean()
                      for weight in (1.0, 0.0)]
        gains.append(accuracies[0] - accuracies[1])
    assert np.mean(gains) > 0.05
    assert accuracies[0] > 0.95


def test_known_class_sizes_are_reached_and_help_where_labels_are_drawn_evenly():
    rng = np.random.default_rng(0)
    classes = (np.arange(300) < 60).astype(int)
    X = rng.normal(size=(300, 2)) + 2.5 * classes[:, None]
    y = np.where(np.isin(np.arange(300), [0, 1, 2, 3, 100, 101, 102, 103]), classes, -1)
    guessed, sized, by_name = (TransductiveSVC(class_sizes=sizes).fit(X, y) for sizes in (
        None, [240, 60], {1: 0.2, 0: 0.8}))
    assert guessed.evidence_["share"] == [0.5]
    assert sized.evidence_["share"] == pytest.approx([(60 - 4) / 292])
    assert sized.evidence_["achieved_share"] == pytest.approx(sized.evidence_["share"], abs=0.03)
    assert (sized.transduction_[y < 0] == 1).mean() == pytest.approx(sized.evidence_["achieved_share"][0])
    assert_array_equal(sized.transduction_, by_name.transduction_)
    right = [(model.transduction_ == classes)[y < 0].mean() for model in (guessed, sized)]
    assert right[1] > right[0] + 0.1


def test_without_unlabeled_points_it_is_the_machine_of_the_labels_with_a_warning():
    X, classes, _ = moons(n=60)
    with pytest.warns(UserWarning, match="every point is labeled"):
        own = TransductiveSVC("linear", C=0.3).fit(X, classes)
    scale = np.sqrt((X**2).sum(axis=1).mean())
    peer = LinearSVC(C=0.3, loss="squared_hinge", dual=False, tol=1e-10, intercept_scaling=1e3, max_iter=100_000)
    peer.fit(X / scale, classes)
    assert_allclose(own.decision_function(X), peer.decision_function(X / scale), atol=1e-3)
    assert own.evidence_["n_unlabeled"] == 0


def test_several_classes_names_and_inputs():
    X, classes = load_iris(return_X_y=True)
    names = np.array(["setosa", "versicolor", "virginica"])[classes]
    known = np.arange(150) % 10 == 0
    model = TransductiveSVC().fit(X, np.where(known, names, ""))
    assert model.classes_.tolist() == ["setosa", "versicolor", "virginica"]
    assert (model.transduction_ == names)[~known].mean() > 0.9
    assert model.decision_function(X).shape == (150, 3)
    assert len(model.evidence_["steps"]) == len(model.evidence_["objective"]) == 3
    codes = TransductiveSVC().fit(sparse.csr_array(X), np.where(known, classes, -1))
    assert_array_equal(codes.predict(X), np.searchsorted(model.classes_, model.transduction_))
    again = pickle.loads(pickle.dumps(model))
    assert_array_equal(again.predict(X), model.transduction_)


def test_a_seed_decides_everything_and_landmarks_do_nearly_as_well():
    X, _, y = moons(n=400, n_labeled=10)
    first, again, other = (TransductiveSVC(landmarks=40, random_state=random_state).fit(X, y)
                           for random_state in (3, 3, 4))
    assert_array_equal(first.decision_function(X), again.decision_function(X))
    assert np.abs(first.decision_function(X) - other.decision_function(X)).max() > 1e-6
    assert first.model_.points.shape == (40, 2)
    assert first.evidence_["n_landmarks"] == 40
    centers = TransductiveSVC(landmarks=LandmarkParams(n_landmarks=40, method="kmeans")).fit(X, y)
    whole = TransductiveSVC().fit(X, y)
    for model in (first, other, centers):
        assert (model.transduction_ == whole.transduction_).mean() > 0.95


@pytest.mark.slow
def test_on_a_cluster_it_is_the_same():
    X, _, y = moons(n=200)
    alone = TransductiveSVC(landmarks=30).fit(X, y)
    with Client(n_workers=1, threads_per_worker=1, dashboard_address=None):
        shared = TransductiveSVC(landmarks=30).fit(X, y)
        assert_array_equal(shared.transduction_, alone.transduction_)
    assert_allclose(shared.model_.coef, alone.model_.coef, rtol=1e-12)


# Probabilities


@pytest.mark.parametrize("sizes", [None, [1, 2, 1]])
@pytest.mark.extended_cases("None")
def test_probabilities_are_calibrated_on_fits_without_the_label(sizes, monkeypatch):
    X, y, _ = problem(n=70, n_labeled=14, n_classes=3, random_state=1)
    weight, seen = np.random.default_rng(0).uniform(0.5, 2, len(X)), {}
    monkeypatch.setattr("dssl.methods.transductive.steps.calibration_of",
                        lambda target, values, *others: seen.update(values=values()))
    settings = {"class_sizes": sizes, "bandwidth": 3.0}
    TransductiveSVC(probability=True, **settings).fit(X, y, sample_weight=weight)
    labeled = np.flatnonzero(y >= 0)
    folds = calibration_folds(classes_of(y, None, len(y)), 0, a_fit_each=True)
    assert 2 <= len(folds) <= 5
    for fold in folds:
        without = y.copy()
        without[labeled[fold]] = -1
        same_unit = weight[without >= 0].mean() / weight[labeled].mean()  # weights are relative to the mean of a fit
        alone = TransductiveSVC(C=same_unit * TransductiveSVC().C, **settings).fit(X, without, sample_weight=weight)
        assert_allclose(seen["values"][fold], alone.decision_function(X[labeled[fold]]), atol=2e-2)


def test_probabilities_are_asked_for():
    X, classes, y = moons(n_labeled=10)
    plain, sure = TransductiveSVC().fit(X, y), TransductiveSVC(probability=True).fit(X, y)
    assert not hasattr(plain, "predict_proba")
    assert_array_equal(plain.decision_function(X) > 0, sure.decision_function(X) > 0)
    found = sure.predict_proba(X)
    assert_allclose(found.sum(axis=1), 1)
    assert_array_equal(sure.classes_[found.argmax(axis=1)], sure.transduction_)
    assert -np.log(found[np.arange(len(y)), classes]).mean() < 0.3
    assert_allclose(np.exp(sure.predict_log_proba(X)), found)
    with pytest.raises(NotFittedError, match="probability=False"):
        plain.set_params(probability=True).predict_proba(X)
    alone = y.copy()
    alone[np.flatnonzero(y == 1)[1:]] = -1
    with pytest.raises(DataError, match="has one labeled point"):
        TransductiveSVC(probability=True).fit(X, alone)
    assert TransductiveSVC().fit(X, alone).transduction_.shape == y.shape


def test_a_grid_of_scikit_learn_is_searched():
    X, _, y = moons(n=200, n_labeled=12)
    search = GridSearchCV(TransductiveSVC(landmarks=50), {
        "C": [0.01, 1.0], "unlabeled_weight": [0.0, 1.0], "landmarks__method": ["uniform"]}, cv=LabeledKFold(3))
    assert search.fit(X, y).best_score_ > 0.8
    assert len(search.cv_results_["params"]) == 4


def test_a_search_of_dssl_judges_labels_by_fits_in_which_they_are_unlabeled():
    X, _, y = moons(n=200, n_labeled=12)
    grid = {"C": [0.01, 1.0], "unlabeled_weight": [0.0, 1.0]}
    search = GridSearch(TransductiveSVC(landmarks=50), grid, cv=3).fit(X, y)
    assert search.best_score_ > 0.8
    results, right = search.cv_results_, []
    for fold in held_out_folds(3, classes_of(y, None, len(y)), 0)[0]:
        held = np.flatnonzero(y >= 0)[fold]
        known = np.where(np.isin(np.arange(len(y)), held), -1, y)
        alone = TransductiveSVC(landmarks=50, **search.best_params_).fit(X, known)
        right.append((alone.predict(X[held]) == y[held]).mean())
    splits = [results[f"split{number}_test_score"][search.best_index_] for number in range(3)]
    assert splits == pytest.approx(right, abs=0.13)  # intercepts follow from labels held out
    assert results["mean_test_score"].min() < search.best_score_


# What is refused


@pytest.mark.parametrize(("wrong", "message"), [
    ({"C": 0}, "C=0"), ({"unlabeled_weight": -1}, "unlabeled_weight=-1"), ({"landmarks": 0}, "n_landmarks=0"),
    ({"kernel": "rbff"}, "rbff"), ({"random_state": -1}, "random_state"), ({"class_sizes": [1, 2, 3]}, "class_sizes"),
    ({"class_sizes": [1, 0]}, "class_sizes"), ({"class_sizes": {0: 1, 2: 1}}, "class_sizes names"),
    ({"class_sizes": [299, 1]}, r"class_sizes leaves 1.0 of 300 points to class 1, of which 5"),
])
def test_parameters_out_of_range_are_refused(wrong, message):
    X, _, y = moons()
    with pytest.raises(ParameterError, match=message):
        TransductiveSVC(**wrong).fit(X, y)


def test_labels_and_points_that_cannot_be_used_are_refused():
    X, _, y = moons()
    with pytest.raises(DataError, match="y has one class"):
        TransductiveSVC().fit(X, np.where(y == 0, 0, -1))
    with pytest.raises(DataError, match="no point of y has a label"):
        TransductiveSVC().fit(X, np.full(len(y), -1))
    with pytest.raises(ValueError, match="NaN"):
        TransductiveSVC().fit(np.where(np.arange(len(X))[:, None] == 7, np.nan, X), y)
    with pytest.raises(DataError, match="all 300 points are equal"):
        TransductiveSVC().fit(np.ones_like(X), y)
    with pytest.raises(DataError, match="continuous"):
        TransductiveSVC().fit(X, np.where(y < 0, np.nan, y + 0.5))
    with pytest.raises(ParameterError, match="a graph is given"):
        TransductiveSVC().fit(X, y, graph=Graph.of(sparse.eye_array(300, k=1) + sparse.eye_array(300, k=-1)))


def test_a_class_whose_points_are_all_labeled_gets_no_other():
    X, _, y = moons()
    model = TransductiveSVC(class_sizes=[295, 5]).fit(X, y)
    assert model.evidence_["share"] == [0.0]
    assert (model.transduction_[y < 0] == 1).mean() < 0.15


def test_the_budget_counts_landmarks_and_refuses_those_that_do_not_fit():
    X, _, y = moons()
    with pytest.raises(BudgetError, match=r"on 300 landmarks and 1 columns(.|\n)*landmarks or fewer") as error:
        TransductiveSVC(memory_budget="2MB", landmarks=300).fit(X, y)
    fitting = int(str(error.value).split("use ")[1].split(" ")[0])
    for landmarks in (fitting, "auto"):
        model = TransductiveSVC(memory_budget="2MB", landmarks=landmarks).fit(X, y)
        assert model.evidence_["n_landmarks"] == fitting
    assert TransductiveSVC(memory_budget="2MB", probability=True).fit(X, y).evidence_["n_landmarks"] < fitting
    with pytest.raises(BudgetError, match="fit a part of the points"):
        TransductiveSVC(memory_budget="50kB").fit(X, y)

"""The estimators in a multi-scale kernel: moons, budgets, grids, probabilities, and what is refused."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import make_moons

from dssl import GridSearch, MultiscaleKernelClassifier, MultiscaleKernelRegressor
from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.kernels.multiscale import landmark_bytes
from dssl.storage.blocks import arrays_within
from tests import reference

C = 100.0


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(300, noise=0.1, random_state=0)
    known = np.full(300, -1)
    for code in (0, 1):
        known[np.flatnonzero(y == code)[:3]] = code
    return X, y, known


@pytest.fixture(scope="module")
def fitted(moons):
    X, _, known = moons
    return MultiscaleKernelClassifier(n_landmarks=120).fit(X, known)


def test_three_labels_a_moon_are_enough_for_all_points_and_new_ones(moons, fitted):
    y = moons[1]
    new, true = make_moons(300, noise=0.1, random_state=1)
    assert (fitted.transduction_ == y).mean() > 0.98
    assert fitted.score(new, true) > 0.97
    assert fitted.evidence_["landmarks"] + fitted.evidence_["outliers"] == 120
    assert fitted.evidence_["n_unlabeled"] == 294
    probable = fitted.predict_proba(new)
    assert_allclose(probable.sum(axis=1), 1)
    assert_array_equal(fitted.classes_[probable.argmax(axis=1)], fitted.predict(new))
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(new), fitted.predict(new))
    far = fitted.support(np.array([[0.0, 0.0], [1e3, 1e3]]))
    assert far[0] > 0.01
    assert far[1] == 0


@pytest.mark.parametrize("unit_diagonal", [True, False])
def test_it_is_ridge_regression_in_the_kernel_of_the_map(moons, unit_diagonal):
    """By the dual formula, with the mean of the targets as intercept; alpha is that of the median diagonal."""
    X, _, known = moons
    fitted = MultiscaleKernelClassifier(n_landmarks=60, unit_diagonal=unit_diagonal).fit(X, known)
    map_, labeled = fitted.map_, known >= 0
    F, y = map_(X), 2.0 * known - 1
    mean = y[labeled].mean()
    size = 1 if unit_diagonal else np.median(1 + (map_.vectors**2 / map_.values).sum(axis=1))
    expected = reference.ridge(F @ F.T, y - mean, labeled, size / C / 6)
    assert_allclose(fitted.decision_function(X), expected + mean, rtol=1e-6, atol=1e-8)


def test_quantities_of_several_columns_and_those_of_one_are_fitted_alike(moons):
    X, y, known = moons
    targets = np.where(known[:, None] < 0, np.nan, np.stack([known, 2.0 - known], axis=1))
    both = MultiscaleKernelRegressor(n_landmarks=120).fit(X, targets)
    one = MultiscaleKernelRegressor(n_landmarks=120).fit(X, targets[:, 0])
    assert both.predict(X).shape == (300, 2)
    assert_allclose(both.predict(X)[:, 0], one.predict(X), atol=1e-8)
    assert_allclose(both.predict(X).sum(axis=1), 2, atol=1e-6)
    assert one.score(X, y.astype(float)) > 0.8


@pytest.mark.parametrize("loss", ["hinge", "squared_hinge", "logistic"])
def test_other_losses_and_text(moons, loss):
    X, y, known = moons
    names = np.array(["", "down", "up"], object)[known + 1]
    found = MultiscaleKernelClassifier(loss=loss, n_landmarks=120).fit(X, names)
    assert (found.transduction_ == np.array(["down", "up"])[y]).mean() > 0.95
    assert found.calibration_ is not None


def test_a_search_has_one_map_for_all_penalties(moons):
    X, _, known = moons
    search = GridSearch(MultiscaleKernelClassifier(n_landmarks=60), {"C": [1.0, 100.0], "q": [0.8, 0.9]}, cv=3)
    search.fit(X, known)
    assert search.n_fits_ == 2
    assert search.n_graphs_ == 0
    assert search.best_score_ == 1


def test_a_budget_decides_the_number_of_landmarks(moons):
    X, _, known = moons
    found = MultiscaleKernelClassifier(memory_budget="300kB").fit(X, known).evidence_["landmarks"]
    assert landmark_bytes(found, 2, found - 1) <= arrays_within(300_000) < landmark_bytes(found + 1, 2, found)
    with pytest.raises(BudgetError, match="20 landmarks"):
        MultiscaleKernelClassifier(n_landmarks=20, memory_budget="4kB").fit(X, known)


@pytest.mark.slow
def test_weights_and_sparse_points(moons, fitted):
    X, _, known = moons
    thin = MultiscaleKernelClassifier(n_landmarks=120).fit(sparse.csr_array(X), known)
    assert (thin.predict(sparse.csr_array(X)) == fitted.predict(X)).mean() > 0.98
    even = MultiscaleKernelClassifier(n_landmarks=120).fit(X, known, sample_weight=np.full(300, 2.0))
    assert_array_equal(even.decision_function(X), fitted.decision_function(X))


@pytest.mark.parametrize("given", [{"eps_0": -1}, {"q": 2}, {"threshold": "small"}, {"n_eigenpairs": 0}, {"C": 0},
                                   {"n_landmarks": 1}, {"loss": "absolute"}, {"random_state": -1}])
def test_parameters_out_of_range(moons, given):
    X, _, known = moons
    with pytest.raises(ParameterError, match=next(iter(given))):
        MultiscaleKernelClassifier(**given).fit(X, known)


def test_what_cannot_be_learned(moons):
    X, _, known = moons
    with pytest.raises(ParameterError, match="graph is given"):
        MultiscaleKernelClassifier().fit(X, known, graph=sparse.eye_array(300))
    with pytest.raises(DataError, match="classes"):
        MultiscaleKernelClassifier().fit(X, np.where(known == 1, -1, known))
    with pytest.raises(DataError, match="all 300 points are equal"):
        MultiscaleKernelClassifier().fit(np.ones((300, 2)), known)
    single = known.copy()
    for label in (0, 1):
        single[np.flatnonzero(known == label)[1:]] = -1
    assert MultiscaleKernelClassifier(n_landmarks=60).fit(X, single).predict_proba(X).shape == (300, 2)

"""How frequent classes are: as the labels say, as one is told, or equal; in labels, scores and probabilities alike."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from dssl import (
    ClusterKernelSVC,
    GraphKernelRidge,
    GridSearch,
    LaplaceLearning,
    LapRLSClassifier,
    LapSVC,
    LapSVM,
    MultiscaleKernelClassifier,
    PoissonLearning,
    SemiSupervisedClassifier,
    TransductiveSVC,
)
from dssl.base.errors import ParameterError
from dssl.learners.class_prior import EQUAL, LABELS
from dssl.learners.prior_shift import cross_fitted_values, prior_shift
from dssl.learners.target.target import Classes

FITTED_TO_LABELS = [LapSVC, LapRLSClassifier, LapSVM, ClusterKernelSVC, MultiscaleKernelClassifier, LaplaceLearning]
ALL = [SemiSupervisedClassifier, GraphKernelRidge, PoissonLearning, *FITTED_TO_LABELS]
SEVERAL = [SemiSupervisedClassifier, PoissonLearning, LapSVC, LapSVM, ClusterKernelSVC, MultiscaleKernelClassifier]


def gaussians(share, apart, n=500, n_labels=100, random_state=0):
    """Return points of two Gaussians, the labels drawn at random and the true classes."""
    rng = np.random.default_rng(random_state)
    true = (rng.random(n) < share).astype(int)
    X = rng.normal(size=(n, 4))
    X[:, 0] += apart * true
    y = np.full(n, -1)
    y[:n_labels] = true[:n_labels]
    return X, y, true


def blobs(n_labels, random_state=0):
    """Return points of two clusters, and so many labels of each."""
    rng = np.random.default_rng(random_state)
    true = np.repeat([0, 1], [160, 40])
    X = rng.normal(size=(200, 3)) + 2.5 * true[:, None]
    y = np.full(200, -1)
    for code, count in enumerate(n_labels):
        y[np.flatnonzero(true == code)[:count]] = code
    return X, y, true


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "share", "apart"), [
    *((kind, 0.1, 1.0) for kind in ALL), (SemiSupervisedClassifier, 0.2, 0.0), (LapSVC, 0.2, 0.0)])
def test_labels_drawn_at_random_say_how_frequent_classes_are(kind, share, apart):
    """No worse than the majority, where classes are alike; mean probabilities are the shares of the classes."""
    X, y, true = gaussians(share, apart)
    model = kind().fit(X, y)
    P, hidden = model.predict_proba(X), y < 0
    error, majority = (model.predict(X) != true)[hidden].mean(), true[hidden].mean()
    assert error <= majority + 2 * np.sqrt(majority / hidden.sum())
    # The error of a share is that of the labels, and that of the points.
    deviation = np.sqrt(share * (1 - share) * (1 / hidden.sum() + 1 / (~hidden).sum()))
    assert abs(P[hidden, 1].mean() - true[hidden].mean()) < 2 * deviation


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.slow_cases("SemiSupervisedClassifier", "MultiscaleKernelClassifier")
def test_the_predicted_class_is_the_most_probable_one(kind):
    X, y, _ = gaussians(0.2, 2.0, n=250, n_labels=60)
    new = np.random.default_rng(1).normal(size=(50, 4))
    for prior in ("equal", [3, 1]):
        model = kind(class_prior=prior).fit(X, y)
        predicted = model.predict(new)
        assert_array_equal(model.predict_proba(new).argmax(axis=1), predicted)
        assert_array_equal(model.decision_function(new) > 0, predicted == 1)


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.slow_cases("SemiSupervisedClassifier", "MultiscaleKernelClassifier")
def test_a_class_that_is_told_to_be_more_frequent_is_predicted_more_often(kind):
    X, y, _ = gaussians(0.2, 1.5, n=250, n_labels=60)
    means = [kind(class_prior={0: 1 - share, 1: share}).fit(X, y).predict_proba(X)[:, 1].mean()
             for share in (0.05, 0.5)]
    assert means[0] < 0.2 < means[1]


@pytest.mark.parametrize("kind", SEVERAL)
@pytest.mark.slow_cases("SemiSupervisedClassifier", "MultiscaleKernelClassifier")
def test_with_equally_many_labels_nothing_is_moved(kind):
    """As it was before frequencies counted: the same scores as those of classes that are told to be equal."""
    X, y, _ = blobs((6, 6))
    scores = kind().fit(X, y).decision_function(X)
    for settings in ({"class_prior": "equal"}, {"class_weight": "balanced"}):
        assert_allclose(kind(**settings).fit(X, y).decision_function(X), scores, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("kind", ALL)
@pytest.mark.slow_cases("SemiSupervisedClassifier", "LapRLSClassifier")
def test_balanced_weights_make_classes_equal(kind):
    """As weights of the points do, and equally frequent in probabilities."""
    X, y, _ = blobs((24, 6))
    weight = np.where(y == 0, 30 / 48, 30 / 12)
    by_class = kind(class_weight="balanced").fit(X, y).decision_function(X)
    assert_allclose(by_class, kind().fit(X, y, sample_weight=weight).decision_function(X), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("kind", [SemiSupervisedClassifier, LapSVC])
@pytest.mark.slow_cases("SemiSupervisedClassifier")
def test_weights_of_named_classes_are_those_of_their_points(kind):
    X, y, _ = blobs((24, 6))
    given = kind(class_weight={0: 1, 1: 4}).fit(X, y).decision_function(X)
    assert_allclose(given, kind().fit(X, y, sample_weight=np.where(y == 1, 4, 1)).decision_function(X))


def test_weights_of_points_count_in_the_frequencies():
    X, y, _ = gaussians(0.2, 1.0, n=250, n_labels=60)
    usual = SemiSupervisedClassifier().fit(X, y)
    weighed = SemiSupervisedClassifier().fit(X, y, sample_weight=np.where(y == 1, 4.0, 1.0))
    assert weighed.predict_proba(X)[:, 1].mean() > usual.predict_proba(X)[:, 1].mean() + 0.1


def test_a_search_judges_what_is_predicted():
    """Of noise, the held-out error of every candidate is that of the majority, or near."""
    X, y, _ = gaussians(0.15, 0.0, n=300, n_labels=80)
    for model in (GraphKernelRidge(ridge=0.01, power=1), PoissonLearning()):
        grid = {"penalty": [0.1, 1.0]} if isinstance(model, GraphKernelRidge) else {"graph__n_neighbors": [8, 12]}
        search = GridSearch(model, grid, cv=4).fit(X, y)
        assert 1 - search.best_score_ < (y == 1).sum() / (y >= 0).sum() + 0.05


@pytest.mark.parametrize("prior", ["even", {0: 0.5}, {0: 0.5, 2: 0.5}, [1, 2, 3], [1, -1], {0: "much", 1: 1}])
def test_a_prior_of_other_classes_is_refused(prior):
    X, y, _ = blobs((4, 4))
    with pytest.raises(ParameterError, match="class_prior"):
        SemiSupervisedClassifier(class_prior=prior).fit(X, y)


@pytest.mark.parametrize("weight", ["even", {2: 1.0}, {0: -1.0}])
def test_weights_of_other_classes_are_refused(weight):
    X, y, _ = blobs((4, 4))
    with pytest.raises(ParameterError, match="class_weight") as refused:
        SemiSupervisedClassifier(class_weight=weight).fit(X, y)
    assert "size" not in str(refused.value)
    assert "share" not in str(refused.value)


def test_sizes_are_the_prior():
    X, y, true = blobs((4, 4))
    with pytest.raises(ParameterError, match="class_prior and class_sizes"):
        SemiSupervisedClassifier(class_prior="equal", class_sizes=[160, 40]).fit(X, y)
    model = SemiSupervisedClassifier(class_sizes=[160, 40]).fit(X, y)
    assert (model.predict(X) == true).mean() > 0.95


@pytest.mark.parametrize("estimator", [SemiSupervisedClassifier, GraphKernelRidge, LaplaceLearning, TransductiveSVC])
def test_sizes_below_the_number_of_labels_are_refused(estimator):
    X, y, _ = blobs((4, 4))
    for sizes in ([1e9, 1], [197, 3], [0.985, 0.015], [(0.9, 1), (0, 0.015)]):
        with pytest.raises(ParameterError, match=r"of 200 points to class 1, of which 4 are labeled"):
            estimator(class_sizes=sizes).fit(X, y)
    for sizes in ([196.4, 3.6], [196, 4], [(0.1, 1), (0, 0.02)]):
        estimator(class_sizes=sizes).fit(X, y)


def test_the_label_that_is_held_out_does_not_say_how_its_value_is_moved():
    """The intercepts of a shift follow the labels that are scored, where these are their own judges."""
    rng = np.random.default_rng(0)
    codes = np.repeat([0, 1], [30, 6])
    target, values = Classes(np.arange(36), codes, np.arange(2)), rng.normal(size=(36, 1))
    groups = [np.arange(first, 36, 4) for first in range(4)]
    found = cross_fitted_values(target, values, target.coding, None, EQUAL, groups)
    for own in groups:
        seen = np.setdiff1d(np.arange(36), own)
        shift = prior_shift(target, values[seen], target.coding, None, EQUAL, seen)
        assert_allclose(found[own], values[own] + shift.columns)
    assert np.abs(found - values - prior_shift(target, values, target.coding, None, EQUAL).columns).max() > 1e-3


def test_a_class_without_labels_is_moved_as_its_smoothed_frequency_says():
    """Its scores have no part in the fit of the others, which would else push it up by how rare it is."""
    codes = np.repeat([0, 1], [80, 20])
    target = Classes(np.arange(100), codes, np.arange(3))
    held_out = np.random.default_rng(0).normal(size=(100, 3))
    shift = prior_shift(target, held_out, target.coding, None, EQUAL)
    offsets = shift.columns * shift.calibration.slope
    assert_allclose(offsets[1] - offsets[0], np.log(20.5 / 80.5), atol=0.2)
    assert offsets[2] < offsets[1] - 2


@pytest.mark.parametrize("assumed", [LABELS, EQUAL])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_scores_of_labels_that_are_even_are_not_moved(n_classes, assumed):
    codes = np.repeat(np.arange(n_classes), 7)
    target = Classes(np.arange(len(codes)), codes, np.arange(n_classes))
    held_out = np.random.default_rng(0).normal(size=target.columns().shape)
    assert_allclose(prior_shift(target, held_out, target.coding, None, assumed).columns, 0, atol=1e-12)

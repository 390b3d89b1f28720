"""`LaplaceLearning`, `PoissonLearning`, `GraphKernelRidge` and their regressors as estimators."""

import pickle
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.datasets import load_digits, make_circles, make_swiss_roll
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split

from dssl import (
    GraphKernelRidge,
    GraphKernelRidgeRegressor,
    KNNGraph,
    LaplaceLearning,
    LaplaceLearningRegressor,
    PoissonLearning,
    SemiSupervisedClassifier,
)
from dssl.base.errors import DataError, ParameterError
from dssl.estimators.graph import UnreachablePoints

CLASSIFIERS = [LaplaceLearning, PoissonLearning, GraphKernelRidge]
REGRESSORS = [LaplaceLearningRegressor, GraphKernelRidgeRegressor]


def digits(per_class=5, random_state=0):
    """Return X (n, 64), all classes (n,), and y with -1 but for `per_class` labels a class."""
    X, true = load_digits(return_X_y=True)
    X, true = X[:900], true[:900]
    rng, y = np.random.default_rng(random_state), np.full(len(true), -1)
    for code in range(10):
        y[rng.choice(np.flatnonzero(true == code), per_class, replace=False)] = code
    return X, true, y


def islands(kind=float):
    """Return two clouds far apart, of which one has labels, and the marker of none."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(40, 2)) + 1000])
    y = np.full(100, -1)
    y[:2], X[0], X[1] = [0, 1], [-1.5, 0], [1.5, 0]
    return X, y


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_digits_are_told_apart_from_five_labels_a_class(kind):
    X, true, y = digits()
    found = kind().fit(X, y)
    free = y < 0
    assert (found.transduction_[free] == true[free]).mean() > 0.9
    assert_array_equal(found.classes_, np.arange(10))
    assert found.evidence_["unreachable"] == 0
    assert found.evidence_["n_labeled"] == 50


def test_circles_are_told_apart_from_one_label_a_class():
    X, true = make_circles(1000, noise=0.05, factor=0.5, random_state=0)
    y = np.full(1000, -1)
    y[[np.flatnonzero(true == 0)[0], np.flatnonzero(true == 1)[0]]] = [0, 1]
    for kind in CLASSIFIERS:
        assert (kind().fit(X, y).transduction_ == true).mean() > 0.99


@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_the_points_of_the_fit_are_predicted_as_they_were_fitted(kind):
    X, _, y = digits(2)
    found = kind().fit(X, y)
    assert_array_equal(found.predict(X), found.transduction_)
    again = pickle.loads(pickle.dumps(found))
    assert_array_equal(again.predict(X[:50]), found.transduction_[:50])
    assert_array_equal(again.transduction_, found.transduction_)


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.extended_cases("GraphKernelRidge")
def test_new_points_are_predicted_nearly_as_well(kind):
    X, true = load_digits(return_X_y=True)
    X, new, true, other = train_test_split(X, true, test_size=400, random_state=0)
    y = np.full(len(true), -1)
    for code in range(10):
        y[np.flatnonzero(true == code)[:10]] = code
    found = kind().fit(X, y)
    inside = (found.transduction_[y < 0] == true[y < 0]).mean()
    assert found.score(new, other) > inside - 0.02
    assert found.score(sparse.csr_array(new), other) == found.score(new, other)
    on_sparse = kind().fit(sparse.csr_array(X), y)
    assert (on_sparse.predict(new) == found.predict(new)).mean() > 0.99


@pytest.mark.parametrize(("labels", "nothing"), [
    (np.array([0, 1]), -1), (np.array([1.0, 2.0]), np.nan), (np.array(["a", "b"], object), None)])
@pytest.mark.parametrize("kind", CLASSIFIERS)
def test_points_that_no_label_reaches_are_counted_and_never_guessed(kind, labels, nothing):
    X, codes = islands()
    y = np.full(100, nothing, dtype=labels.dtype)
    y[codes >= 0] = labels[codes[codes >= 0]]
    with pytest.warns(UnreachablePoints, match="40 of 100 points have no prediction"):
        found = kind().fit(X, y)
    assert found.evidence_["unreachable"] == 40
    lost = found.transduction_[60:]
    assert np.isnan(lost.astype(float)).all() if nothing is np.nan else all(own == nothing for own in lost)
    assert set(found.transduction_[:60].tolist()) == set(labels.tolist())
    new = found.predict(np.array([[0.0, 0.1], [1000.0, 1000.0]]))
    assert new[0] in labels
    assert new[1] == nothing or (nothing is np.nan and np.isnan(new[1]))
    scores = found.decision_function(X)
    assert np.isnan(scores[60:]).all()
    assert np.isfinite(scores[:60]).all()


def test_where_minus_one_is_a_class_no_prediction_is_none():
    X, codes = islands()
    y = np.where(codes < 0, 9, codes - 1)  # classes -1 and 0, 9 is the marker
    with pytest.warns(UnreachablePoints):
        found = GraphKernelRidge(unlabeled=9).fit(X, y)
    assert set(found.transduction_[:60].tolist()) == {-1, 0}
    assert all(own is None for own in found.transduction_[60:])


@pytest.mark.parametrize("kind", REGRESSORS)
@pytest.mark.slow_cases("GraphKernelRidgeRegressor")
def test_regression_follows_the_roll(kind):
    X, t = make_swiss_roll(1000, noise=0.2, random_state=0)
    y = np.full(1000, np.nan)
    y[::10] = t[::10]
    found = kind().fit(X, y)
    assert 1 - ((found.transduction_ - t) ** 2).mean() / t.var() > 0.97
    assert_array_equal(found.predict(X[:20]), found.transduction_[:20])
    both = kind().fit(X, np.stack([y, -y], axis=1))
    assert_allclose(both.transduction_[:, 0], found.transduction_, atol=1e-4)
    assert_allclose(both.transduction_[:, 1], -found.transduction_, atol=1e-4)


@pytest.mark.parametrize("kind", REGRESSORS)
def test_quantities_where_no_label_reaches_are_nan(kind):
    X, codes = islands()
    y = np.where(codes < 0, np.nan, codes)
    with pytest.warns(UnreachablePoints):
        found = kind().fit(X, y)
    assert np.isnan(found.transduction_[60:]).all()
    assert np.isfinite(found.transduction_[:60]).all()
    with pytest.raises(DataError, match="1 of 2 points have no prediction"):
        found.score(X[[0, 99]], np.array([0.0, 1.0]))


@pytest.mark.parametrize("kind", CLASSIFIERS)
@pytest.mark.extended_cases("GraphKernelRidge", "PoissonLearning")
def test_known_class_sizes_are_kept(kind):
    X, true, y = digits(1)
    sizes = np.bincount(true)
    found = kind(class_sizes=sizes).fit(X, y)
    assert_allclose(found.evidence_["class_bounds"], np.tile(sizes / sizes.sum(), (2, 1)).T)
    free = y < 0
    plain = kind().fit(X, y)
    gain = (found.transduction_[free] == true[free]).mean() - (plain.transduction_[free] == true[free]).mean()
    assert gain > -0.05
    again = kind(class_sizes=dict(enumerate(sizes.tolist()))).fit(X, y)
    assert_array_equal(again.transduction_, found.transduction_)


@pytest.mark.parametrize("kind", [PoissonLearning, SemiSupervisedClassifier])
@pytest.mark.parametrize("sizes", [[1, 2], [1] * 9 + [0], [1] * 9 + [1e9], [np.nan] * 10, {"one": 3},
                                   dict.fromkeys(range(9), 1)])
def test_class_sizes_are_checked_before_the_graph_is_made(kind, sizes, monkeypatch):
    X, _, y = digits(1)
    monkeypatch.setattr(kind, "_graph", lambda *arguments: pytest.fail("the graph is made"))
    with pytest.raises(ParameterError, match="class_sizes"):
        kind(class_sizes=sizes).fit(X, y)


def test_a_number_for_a_graph_is_that_of_neighbors():
    X, _, y = digits()
    actual = LaplaceLearning(graph=5).fit(X, y)
    assert_array_equal(actual.transduction_, LaplaceLearning(KNNGraph(n_neighbors=5)).fit(X, y).transduction_)
    with pytest.raises(ParameterError, match=r"n_neighbors=5\.0, expected an integer"):
        LaplaceLearning(graph=5.0).fit(X, y)


@pytest.mark.parametrize(("marks", "says"), [
    (["", "NA"], r"2 different markers .*: '' \(15\), 'NA' \(15\)"), ([None, "NA"], r"'NA' \(15\), None or NaN \(15\)"),
    (["none", "?"], r"'\?' \(15\), 'none' \(15\)"), (["", ""], None), (["NA", "NA"], None), ([None, ""], None)])
def test_several_markers_of_no_label_among_texts_are_warned_of(marks, says):
    X = np.random.default_rng(0).normal(size=(60, 2))
    y = np.array([*["oak"] * 15, *["ash"] * 15, *[marks[0]] * 15, *[marks[1]] * 15], object)
    model = LaplaceLearning(unlabeled="none" if "none" in marks else None)
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        model.fit(X, y)
    words = [str(warning.message) for warning in raised if "markers" in str(warning.message)]
    assert model.classes_.tolist() == ["ash", "oak"]
    assert len(words) == (says is not None)
    assert not words or re.search(says, words[0])


@pytest.mark.slow
def test_probabilities_are_calibrated_on_what_is_held_out():
    X, true, y = digits(10)
    free = y < 0
    ridge, laplace = GraphKernelRidge().fit(X, y), LaplaceLearning().fit(X, y)
    for found in (ridge, laplace):
        P = found.predict_proba(X)
        assert_allclose(P.sum(axis=1), 1, atol=1e-4)
        assert (P.argmax(axis=1) == true)[free].mean() > 0.9
        confidence, right = P[free].max(axis=1), P[free].argmax(axis=1) == true[free]
        assert abs(confidence.mean() - right.mean()) < 0.1
    P = GraphKernelRidge().fit(X, digits(1)[2]).predict_proba(X)
    assert log_loss(true, P) < 1.5  # of equal probabilities 2.3


def test_one_kernel_from_interpolation_to_the_mean():
    X, true, y = digits(5)
    free = y < 0
    tight = GraphKernelRidge(ridge=0.01, power=2, penalty=1e-6).fit(X, y)
    assert_array_equal(tight.transduction_[~free], y[~free])
    assert len(tight.evidence_["kernels"]) == 1
    mean = GraphKernelRidge(ridge=0.01, power=2, penalty=np.inf, by_degree=(False, True)).fit(X, y)
    assert [own["share"] for own in mean.evidence_["kernels"]] == [0.5, 0.5]
    assert (mean.transduction_[free] == true[free]).mean() > 0.9


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dssl.data.scaling.out_of_range.OutOfRange")
def test_a_graph_made_before_serves_every_learner():
    X, _, y = digits(5)
    made = KNNGraph().build(X)
    for kind in CLASSIFIERS:
        assert_array_equal(kind().fit(X, y, graph=made).transduction_, kind().fit(X, y).transduction_)
    W = made.weights()
    given = PoissonLearning().fit(X, y, graph=W)
    assert_array_equal(given.transduction_, PoissonLearning().fit(X, y).transduction_)
    assert (given.predict(X + 1e-3) == given.transduction_).mean() > 0.97


@pytest.mark.parametrize("changes", [{"ridge": 0.0}, {"ridge": []}, {"power": 0}, {"power": 1.5}, {"penalty": 0.0},
                                     {"penalty": np.nan}, {"weighting": "best"}, {"laplacian": "random"},
                                     {"by_degree": []}, {"tol": 2.0}])
def test_parameters_are_checked_before_anything_is_computed(changes):
    with pytest.raises(ParameterError, match=next(iter(changes))):
        GraphKernelRidge(**changes).fit(np.full((3, 2), np.nan), [0, 1, -1])


@pytest.mark.slow
def test_weights_of_labels_count():
    X, _, y = digits(3)
    weight = np.ones(len(y))
    weight[np.flatnonzero(y == 3)] = 0
    y[np.flatnonzero(y == 3)[1:]] = -1
    with pytest.raises(DataError, match="class 3 has no labeled point"):
        PoissonLearning().fit(X, y, sample_weight=weight)
    weight[:] = 2.0
    for kind in CLASSIFIERS:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            same = kind().fit(X, y, sample_weight=np.ones(len(y))).transduction_
        assert_array_equal(same, kind().fit(X, y).transduction_)

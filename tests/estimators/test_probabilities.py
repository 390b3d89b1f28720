"""Probabilities of every classifier: calibrated on values of labels left out, which are those of fits without them."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.special import softmax
from sklearn.datasets import load_digits, make_moons
from sklearn.metrics import log_loss

import dssl
from dssl import (
    GraphKernelRidge,
    GridSearch,
    LaplaceLearning,
    LapRLSClassifier,
    LapSVC,
    LapSVM,
    PoissonLearning,
    SemiSupervisedClassifier,
    SystemParams,
    TransductiveSVC,
)
from dssl.estimators.graph import UnreachablePoints
from dssl.estimators.targets import classes_of
from dssl.learners.on_graph.laplace_poisson import Unlabeled
from dssl.learners.prior_shift import PriorShift
from dssl.selection.by_labels import LabelFolds
from dssl.selection.calibration import calibration_folds, shift_of
from tests.in_pairs import in_pairs

from .test_laprls import SOLVERS, problem

pytestmark = [pytest.mark.slow]
KINDS = [LapRLSClassifier, LapSVM, PoissonLearning, LaplaceLearning, GraphKernelRidge]


def held_out_values(estimator, folds, X, y, weight, monkeypatch):
    """Return what a fit calibrates: held-out values, and weights, of folds as they are given."""
    seen = {}
    with monkeypatch.context() as patch:
        patch.setattr("dssl.methods.laprls.steps.LabelFolds.of", lambda *args, **more: LabelFolds(folds, []))
        patch.setattr("dssl.methods.laprls.steps.with_prior", lambda model, target, held, *others, **more: (
            seen.update(values=held[0].values, weight=held[0].weight) or model, None, held))
        estimator.fit(X, y, sample_weight=weight)
    return seen


@in_pairs({"n_classes": [2, 3], "kind": [LapRLSClassifier, LapSVM], "solver, held_out_points": [
    *((solver, "transductive") for solver in SOLVERS),
    *((solver, "inductive") for solver in SOLVERS if solver not in ("nystrom-pcg", "nystrom-cg"))]})
def test_held_out_values_are_those_of_fits_without_the_label(kind, solver, held_out_points, n_classes, monkeypatch):
    """Of every solver, with weights and copies; the penalties stay those of the fit, points that are left out too."""
    X, y, _ = problem(n=70, n_labeled=14, n_classes=n_classes, random_state=1)
    X, y = np.vstack([X, X[:3], X[50:55]]), np.concatenate([y, y[:3], y[50:55]])
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    params = SystemParams(solver=solver, tol=1e-10, max_iter=5000, held_out_points=held_out_points)
    settings = {"bandwidth": 3.0, "landmarks": 1.0, "gamma_A": 0.01, "gamma_I": 5.0}
    labeled = np.flatnonzero(y >= 0)
    for folds in ([np.array([place]) for place in range(len(labeled))],
                  [np.arange(start, len(labeled), 4) for start in range(4)]):
        found = held_out_values(kind(solver=params, **settings), folds, X, y, weight, monkeypatch)
        assert_allclose(found["weight"], weight[labeled] / weight[labeled].mean())
        for fold in (folds[0], folds[-1]):
            without = y.copy()
            without[labeled[fold]] = -1
            with monkeypatch.context() as patch:
                patch.setattr("dssl.methods.laprls.steps.with_prior", lambda model, *others, **more: (model, None, []))
                alone = kind(solver=params, **settings).fit(X, without, sample_weight=weight)
            scores = alone.decision_function(X[labeled[fold]]).reshape(len(fold), -1)
            atol = 0.02 if kind is LapSVM and len(fold) == 1 else 1e-4  # one step of Newton's method
            assert_allclose(found["values"][fold], scores, atol=atol)


def record_held_out(module, monkeypatch, *, moved=True):
    """Have fits of a module keep the held-out values that they calibrate in the list that is returned.

    moved : whether the frequencies of the classes move the values of the fits, as they do where
    class sizes are not known.
    """
    seen = []

    def shift(target, values, coding, at_points, *args):
        seen.append(values())
        return shift_of(target, lambda: seen[-1], coding, at_points, *args) if moved else PriorShift(
            np.zeros(at_points.shape[1]))

    monkeypatch.setattr(f"dssl.methods.{module}.shift_of", shift)
    return seen


def test_held_out_potentials_are_those_of_fits_without_the_label(monkeypatch):
    """In units of the vertices that no label of the fit is at, where each fold takes no fit."""
    X, y, _ = problem(n=70, n_labeled=14, random_state=1)
    labeled = np.flatnonzero(y >= 0)
    seen = record_held_out("graph.method", monkeypatch, moved=False)
    labels_at, unlabeled_of = [], Unlabeled.of
    monkeypatch.setattr(Unlabeled, "of", lambda vertex, component: labels_at.append(vertex) or unlabeled_of(
        labels_at[0], component))
    PoissonLearning(tol=1e-10).fit(X, y)
    for fold in calibration_folds(classes_of(y, None, len(y)), 0)[:2]:
        without = y.copy()
        without[labeled[fold]] = -1
        scores = PoissonLearning(tol=1e-10).fit(X, without).decision_function(X[labeled[fold]])
        assert_allclose(seen[0][fold], scores, atol=1e-5)


@pytest.mark.parametrize("kind", [GraphKernelRidge, LaplaceLearning, PoissonLearning, SemiSupervisedClassifier])
@pytest.mark.parametrize("each", [1, 10])
def test_probabilities_of_known_class_sizes_have_the_sizes_and_the_predicted_classes(kind, each):
    X, true = load_digits(return_X_y=True)
    kept = np.flatnonzero((true < 3) | (np.arange(len(true)) % 3 == 0))  # classes of unequal sizes
    X, true, y = X[kept], true[kept], np.full(len(kept), -1)
    for code in range(10):
        y[np.flatnonzero(true == code)[:each]] = code
    sizes = np.bincount(true)
    found = kind(class_sizes=sizes.tolist()).fit(X, y)
    P = found.predict_proba(X)
    assert_array_equal(found.classes_[P.argmax(axis=1)], found.predict(X))
    assert_allclose(P.mean(axis=0), sizes / sizes.sum(), atol=0.03)
    if each > 1:
        free = y < 0
        assert abs(P[free].max(axis=1).mean() - (P[free].argmax(axis=1) == true[free]).mean()) < 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_classes", [2, 4])
def test_rows_sum_to_one_in_the_order_of_the_classes(kind, n_classes):
    X, y, new = problem(n=200, n_labeled=60, n_classes=n_classes)
    names = np.array(["d", "a", "c", "b"], object)
    found = kind().fit(X, [None if code < 0 else names[code] for code in y])
    P = found.predict_proba(new)
    assert P.shape == (40, n_classes)
    assert ((P >= 0) & (P <= 1)).all()
    assert_allclose(P.sum(axis=1), 1, rtol=1e-12)
    assert_array_equal(found.classes_[P.argmax(axis=1)], found.predict(new))
    assert_array_equal(pickle.loads(pickle.dumps(found)).predict_proba(new), P)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("parity", [False, True])
@pytest.mark.extended_cases("True-LapRLSClassifier", "True-LapSVM", "True-LaplaceLearning", "True-PoissonLearning",
    "False-LapSVM", "True-GraphKernelRidge")
def test_probabilities_are_better_than_the_shares_of_the_classes_and_calibrated(kind, parity):
    X, digits = load_digits(return_X_y=True)
    true = digits % 2 if parity else digits
    y, order = np.full(len(X), -1), np.random.default_rng(0).permutation(len(X))
    for code in range(10):
        shown = order[digits[order] == code][:10]
        y[shown] = true[shown]
    found, free = kind().fit(X, y), y < 0
    P = found.predict_proba(X[free])
    shares = np.bincount(true) / len(true)
    assert log_loss(true[free], P) < log_loss(true[free], np.tile(shares, (free.sum(), 1))) * 0.6
    assert abs(P.max(axis=1).mean() - (P.argmax(axis=1) == true[free]).mean()) < 0.1


@pytest.mark.parametrize("kind", KINDS)
def test_classes_with_one_label_each_have_probabilities_of_margins_of_unit_size(kind):
    """None can be held out, so the slope is one over the root mean square of the margins."""
    X, y, new = problem(n_classes=3)
    for code in range(3):
        y[np.flatnonzero(y == code)[1:]] = -1
    found = kind().fit(X, y)
    P = found.predict_proba(new)
    assert_allclose(P.sum(axis=1), 1)
    margins = found._coding.margins(found._values(X))
    assert_allclose(found.calibration_.slope, 1 / np.sqrt((margins**2).mean()), rtol=0.05)
    assert_allclose(P, softmax(found.calibration_.slope * found._coding.margins(found._values(new)), axis=1))
    y[np.flatnonzero(y < 0)[:1]] = 1
    assert found.fit(X, y).predict_proba(new).shape == (40, 3)


@pytest.mark.parametrize("kind", [LapRLSClassifier, LapSVM, PoissonLearning])
def test_weights_count_in_the_calibration(kind):
    X, y, new = problem(n=100, n_labeled=40, n_classes=2, random_state=3)
    weight = np.where(y == 1, 5.0, 1.0)
    P, weighed = kind().fit(X, y).predict_proba(new), kind().fit(X, y, sample_weight=weight).predict_proba(new)
    assert weighed[:, 1].mean() > P[:, 1].mean()


def test_more_labels_are_held_out_in_folds():
    X, y, _ = problem(n=300, n_labeled=240, n_classes=2)
    target = classes_of(y, None, len(y))
    assert len(calibration_folds(target, 0)) == 5
    fewer = target.take(np.arange(200))
    assert len(calibration_folds(fewer, 0)) == np.bincount(fewer.coded).min()
    assert len(calibration_folds(target.take(np.arange(200)), 0, a_fit_each=True)) == 5
    found = LapRLSClassifier().fit(X, y)
    assert found.predict_proba(X).shape == (300, 2)


@pytest.mark.parametrize("kind", [GraphKernelRidge, LaplaceLearning, PoissonLearning])
def test_a_piece_of_the_graph_with_one_label_and_one_with_none(kind):
    """What is left out of a piece of its own is predicted by no other label; where no label reaches is no probability.
    """
    centers = 50 * np.array([(0, 0), (1, 0), (0, 1), (1, 1)])
    X = np.random.default_rng(0).normal(size=(160, 2)) + np.repeat(centers, 40, axis=0)
    y = np.full(160, -1)
    y[:4], y[40:44], y[80] = 0, 1, 1
    with pytest.warns(UnreachablePoints):
        P = kind().fit(X, y).predict_proba(X)
    assert np.isnan(P[120:]).all()
    assert_allclose(P[:120].sum(axis=1), 1)
    assert_array_equal(P[:120].argmax(axis=1), np.repeat([0, 1, 1], 40))
    assert log_loss(np.repeat([0, 1, 1], 40), P[:120]) < 0.6


def test_a_search_has_the_probabilities_of_its_best():
    X, y, new = problem(n_classes=2)
    found = GridSearch(LapRLSClassifier(), {"gamma_I": [0.0, "auto"]}, cv=3).fit(X, y)
    assert_array_equal(found.predict_proba(new), found.best_estimator_.predict_proba(new))


CLASSIFIERS = [getattr(dssl, name) for name in dssl.__all__ if hasattr(getattr(dssl, name), "decision_function") or
               name == "GridSearch"]
QUICK = {"MultiscaleKernelClassifier": {"q": 0.5, "n_landmarks": 30}, "LapSVM": {"landmarks": 20},
         "LapRLSClassifier": {"landmarks": 20}, "ClusterKernelSVC": {"landmarks": 30}}


@pytest.mark.parametrize("kind", CLASSIFIERS, ids=lambda kind: kind.__name__)
def test_every_classifier_has_probabilities_or_says_what_turns_them_on(kind):
    X, true = make_moons(60, noise=0.05, random_state=0)
    y = np.where(np.arange(60) < 10, true, -1)
    assert {*np.bincount(true[:10])} == {5}
    estimator = GridSearch(LapSVC(), {"eta": [0, 10]}, cv=2) if kind is GridSearch else kind(
        **QUICK.get(kind.__name__, {}))
    if kind is TransductiveSVC:
        with pytest.raises(AttributeError) as caught:
            estimator.fit(X, y).predict_proba(X)
        assert "set probability=True" in f"{caught.value} {caught.value.__cause__}"
        estimator.set_params(probability=True)
    found = estimator.fit(X, y).predict_proba(X)
    assert_allclose(found.sum(axis=1), 1)
    assert_array_equal(found.argmax(axis=1), estimator.predict(X))
    if kind not in (TransductiveSVC, GridSearch):
        alone = np.where(np.cumsum(y == 1) > 1, np.where(y == 1, -1, y), y)
        assert_allclose(estimator.fit(X, alone).predict_proba(X).sum(axis=1), 1)  # the other class is calibrated
        alone = np.where(np.cumsum(alone == 0) > 1, np.where(alone == 0, -1, alone), alone)
        assert_array_equal(np.sort(alone[alone >= 0]), [0, 1])
        assert_allclose(estimator.fit(X, alone).predict_proba(X).sum(axis=1), 1)

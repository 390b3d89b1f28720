"""`scoring` of `SemiSupervisedClassifier`: what its decisions are best for, and what its gain is told in."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.metrics import balanced_accuracy_score

from dssl import SemiSupervisedClassifier
from dssl.base.errors import ParameterError
from dssl.learners.metrics import LOSSES
from dssl.learners.on_graph import automatic


def gaussians(shares=(0.88, 0.12), apart=2.0, n=300, n_labels=80, random_state=0):
    """Return points of Gaussians, the labels drawn at random and the true classes."""
    rng = np.random.default_rng(random_state)
    true = rng.choice(len(shares), n, p=shares)
    X = rng.normal(size=(n, 4))
    X[np.arange(n), true] += apart
    y = np.full(n, -1)
    y[:n_labels] = true[:n_labels]
    return X, y, true


@pytest.fixture(scope="module")
def plain():
    """A fit with no scoring, of the points of `gaussians`; nobody changes it."""
    X, y, _ = gaussians()
    return SemiSupervisedClassifier().fit(X, y)


@pytest.mark.slow
@pytest.mark.parametrize("shares", [(0.88, 0.12), (0.7, 0.2, 0.1)])
def test_decisions_are_best_for_the_metric_and_probabilities_are_the_same(shares):
    X, y, true = gaussians(shares, apart=1.3)
    plain, hidden = SemiSupervisedClassifier().fit(X, y), y < 0
    P, f1 = plain.predict_proba(X), "f1" if len(shares) == 2 else "f1_macro"
    balanced, best = (SemiSupervisedClassifier(scoring=scoring).fit(X, y) for scoring in ("balanced_accuracy", f1))
    for model in (balanced, best):
        assert_allclose(model.predict_proba(X), P, rtol=1e-9)
        assert_array_equal(model.transduction_, model.predict(X))
    frequencies = np.bincount(true[:80]) + 0.5
    assert_array_equal(balanced.predict(X), (P / (frequencies / frequencies.sum())).argmax(axis=1))
    assert balanced_accuracy_score(true[hidden], balanced.predict(X)[hidden]) > balanced_accuracy_score(
        true[hidden], plain.predict(X)[hidden])
    assert (best.predict(X) > 0).sum() > (plain.predict(X) > 0).sum()
    if len(shares) == 2:
        called = best.predict(X) == 1
        assert_array_equal(best.decision_function(X) > 0, called)
        assert P[~called, 1].max() < P[called, 1].min() < 0.5  # a threshold on the probability


@pytest.mark.parametrize("scoring", ["balanced_accuracy", "roc_auc", "neg_log_loss"])
@pytest.mark.slow_cases("balanced_accuracy")
def test_the_gain_is_told_in_the_metric(scoring, plain):
    X, y, _ = gaussians()
    model = SemiSupervisedClassifier(scoring=scoring).fit(X, y)
    assert_allclose(model.predict_proba(X), plain.predict_proba(X), rtol=1e-9)
    if scoring != "balanced_accuracy":
        assert_array_equal(model.predict(X), plain.predict(X))
    assert model.gain_.metric == LOSSES[scoring]
    assert f"with {LOSSES[scoring]} " in model.evidence_["in_words"]
    assert 0 <= model.gain_.p_value <= 1
    assert_allclose(model.gain_.difference, model.gain_.with_graph - model.gain_.baseline, atol=1e-12)


@pytest.mark.slow
def test_with_equal_frequencies_the_best_decision_is_balanced_already():
    X, y, _ = gaussians()
    plain, balanced = (SemiSupervisedClassifier(class_prior="equal", scoring=scoring).fit(X, y)
                       for scoring in (None, "balanced_accuracy"))
    assert_array_equal(plain.predict(X), balanced.predict(X))


def test_with_a_label_a_class_decisions_need_no_held_out_labels():
    X, _, true = gaussians()
    y = np.full(len(true), -1)
    for code in (0, 1):
        y[np.flatnonzero(true == code)[0]] = code
    prior = {"class_prior": {0: 0.9, 1: 0.1}}
    balanced = SemiSupervisedClassifier(**prior, scoring="balanced_accuracy").fit(X, y)
    assert_array_equal(balanced.predict(X), SemiSupervisedClassifier(class_prior="equal").fit(X, y).predict(X))
    assert_array_equal(SemiSupervisedClassifier(**prior, scoring="f1").fit(X, y).predict(X),
                       SemiSupervisedClassifier(**prior).fit(X, y).predict(X))


def test_of_many_labels_the_model_is_chosen_by_the_metric(monkeypatch):
    monkeypatch.setattr(automatic, "MAX_LABELS", 60)
    X, y, _ = gaussians(n=400, n_labels=200)
    plain, balanced = (SemiSupervisedClassifier(scoring=scoring).fit(X, y) for scoring in (None, "balanced_accuracy"))
    assert balanced.gain_.metric == "balanced error"
    assert plain.evidence_["chosen"] != balanced.evidence_["chosen"]
    for model in (plain, balanced):
        assert (model.evidence_["chosen"] == "graph") == (model.gain_.with_graph <= model.gain_.baseline)
    assert (balanced.predict(X) == 1).sum() > (plain.predict(X) == 1).sum()


def test_a_gain_without_class_sizes_says_so():
    X, y, _ = gaussians(n=120, n_labels=30)
    model = SemiSupervisedClassifier(class_sizes=[0.8, 0.2], scoring="roc_auc").fit(X, y)
    assert model.gain_.without_class_sizes
    assert "both without the class sizes" in model.evidence_["in_words"]


@pytest.mark.parametrize(("given", "why"), [
    ({"scoring": "precision"}, "scoring='precision'.*use one of accuracy, balanced_accuracy"),
    ({"scoring": "balanced_accuracy", "class_sizes": [9, 1]}, "class_sizes.*already decide")])
def test_what_cannot_be_decided_is_refused_before_the_data_is_read(given, why):
    with pytest.raises(ParameterError, match=why.replace(".*", "(.|\n)*")):
        SemiSupervisedClassifier(**given).fit(None, None)


def test_f1_is_of_two_classes():
    X, y, _ = gaussians((0.5, 0.3, 0.2))
    with pytest.raises(ParameterError, match="f1_macro"):
        SemiSupervisedClassifier(scoring="f1").fit(X, y)

"""Machines on virtual samples: both forms are one function, scikit-learn's where it has it, and values held out."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.svm import LinearSVC

from dssl.base.errors import BudgetError, IntegrityError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.kernels.cluster import cluster_basis
from dssl.kernels.transfer import TransferParams
from dssl.learners.linear.features import FeatureLearner
from dssl.learners.linear.kernel_model import SampleModel, sample_model
from dssl.learners.losses import LOSSES
from dssl.learners.target.target import Classes
from dssl.storage.csr import as_rows


@pytest.fixture(scope="module")
def problem():
    """Features (60, 12) of unit length, and a target of three classes."""
    X, y = make_blobs(60, 12, centers=3, cluster_std=4.0, random_state=0)
    return X / np.linalg.norm(X, axis=1, keepdims=True), Classes.of(y, np.arange(3))


def two(target):
    return Classes.of(np.minimum(target.coded, 1), np.arange(2))


@pytest.mark.parametrize("loss", list(LOSSES))
@pytest.mark.parametrize("weighted", [False, True])
def test_the_primal_and_the_gram_matrix_give_one_function(problem, loss, weighted):
    """With features of zeros beside, there are more of them than labels, and the other form is taken; of any length."""
    F, target = problem
    F = F * np.linspace(0.5, 3, 60)[:, None]
    weight = np.random.default_rng(0).uniform(0.5, 2, 60) if weighted else None
    learner = FeatureLearner(loss=loss, C=3.0)
    b, intercept, coding = learner.fit(F, target, weight)
    wide, same, _ = learner.fit(np.concatenate([F, np.zeros((60, 60))], axis=1), target, weight)
    assert_allclose(wide[:12], b, atol=1e-6)
    assert not wide[12:].any()
    assert_allclose(same, intercept, atol=1e-6)
    assert b.shape == (12, 3)
    assert coding.classes.tolist() == [0, 1, 2]


def test_machines_are_those_of_scikit_learn(problem):
    F, target = problem
    target = two(target)
    y = 2 * target.coded - 1
    b, intercept, _ = FeatureLearner(loss="squared", C=3.0).fit(F, target)
    scale = (F**2).sum() / 60
    ridge = Ridge(alpha=scale / 3, fit_intercept=False).fit(F, y - y.mean())
    assert_allclose(b[:, 1], ridge.coef_, atol=1e-9)
    assert_allclose(intercept[1], y.mean())
    b, intercept, _ = FeatureLearner(loss="logistic", C=3.0).fit(F, target)
    logistic = LogisticRegression(C=3.0, tol=1e-10).fit(F, y)
    assert_allclose(b[:, -1], logistic.coef_[0], atol=1e-5)
    assert_allclose(intercept[-1], logistic.intercept_[0], atol=1e-5)
    b, _, _ = FeatureLearner(loss="squared_hinge", C=3.0).fit(F, target)
    machine = LinearSVC(C=3.0, loss="squared_hinge", dual=False, intercept_scaling=1e3, tol=1e-10).fit(F, y)
    assert_allclose(b[:, -1], machine.coef_[0], atol=1e-3)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_values_held_out_are_those_of_fits_without_a_fold(problem, loss):
    F, target = problem
    folds, learner = [np.arange(0, 20), np.arange(20, 35), np.array([40])], FeatureLearner(loss=loss, C=3.0)
    weight = np.random.default_rng(0).uniform(0.5, 2, 60)
    values, coding = learner.held_out(F, target, folds, weight)
    assert np.isnan(values[41:]).all()
    for fold in folds:
        kept = np.setdiff1d(np.arange(60), fold)
        b, intercept, same = learner.fit(F[kept], target.take(kept), weight[kept])
        assert_allclose(values[fold], F[fold] @ b + intercept, atol=1e-8)
        assert type(same) is type(coding)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_weight_two_counts_as_two_points(loss):
    rng = np.random.default_rng(3)
    F = rng.normal(size=(40, 6))
    codes = (F[:, 0] + rng.normal(size=40) > 0).astype(int)
    learner = FeatureLearner(loss=loss, C=0.3)
    twice = np.arange(40) < 15
    b, intercept, _ = learner.fit(F, Classes.of(codes, np.arange(2)), np.where(twice, 2.0, 1.0))
    more = np.concatenate([F, F[twice]])
    same, own, _ = learner.fit(more, Classes.of(np.concatenate([codes, codes[twice]]), np.arange(2)))
    assert_allclose(more @ b + intercept, more @ same + own, atol=2e-3)


def test_a_model_is_stored_and_says_nothing_far_away():
    X, y = make_blobs(100, 3, centers=2, random_state=0)
    samples = cluster_basis(as_rows(X), RBF(2.0), X[::2], None, "exact", InProcess(1)).samples(TransferParams(), 10)
    target = Classes.of(y, np.arange(2))
    fitted = sample_model(samples, *FeatureLearner().fit(samples(X), target))
    model = replace(fitted, attributes={"name": "model"})
    arrays, attributes = model.to_arrays()
    again = SampleModel.from_arrays(arrays, attributes)
    assert_array_equal(again.predict(X), model.predict(X))
    assert again.attributes == {"name": "model"}
    assert (model.predict(X) == y).mean() > 0.95
    _, unsupported = model.values_and_unsupported(np.array([X[0], X[0] + 1e6]))
    assert unsupported.tolist() == [False, True]
    support = model.support(np.array([X[0], X[0] + 1e6]))
    assert support[0] == pytest.approx(1)
    assert support[1] == 0
    with pytest.raises(IntegrityError, match="is not a SampleModel"):
        SampleModel.from_arrays(arrays, {**attributes, "version": 0})
    function = replace(model, kernel=lambda X, Z: X @ Z.T)
    with pytest.raises(ParameterError, match="cannot be stored"):
        function.to_arrays()


@pytest.mark.parametrize(("given", "message"), [({"loss": "absolute"}, "loss='absolute'"), ({"C": 0}, "C=0"),
                                                ({"C": np.inf}, "C=inf")])
def test_wrong_learners(given, message):
    with pytest.raises(ParameterError, match=message):
        FeatureLearner(**given)


def test_what_does_not_fit_is_refused():
    FeatureLearner(loss="squared_hinge").require_fits(50_000, 100, 100_000_000)
    with pytest.raises(BudgetError, match="50,000 labels, 100 features and the hinge loss"):
        FeatureLearner(loss="hinge").require_fits(50_000, 100, 100_000_000)

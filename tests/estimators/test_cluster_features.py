"""`ClusterKernelFeatures`: Proposition 1 through scikit-learn's machines, budgets, new points, and its checks."""

import pickle
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import check_estimator

from dssl import ClusterKernelFeatures, ClusterKernelSVC, TransferParams
from dssl.base.errors import BudgetError, DataError, ParameterError


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(500, noise=0.1, random_state=0)
    known = np.full(500, -1)
    for code in (0, 1):
        known[np.flatnonzero(y == code)[:5]] = code
    return X, y, known


@pytest.mark.parametrize("given", [{}, {"landmarks": 120}, {"approximation": "landmarks", "landmarks": 120},
                                   {"transfer": TransferParams(transfer="step", leading=6)}])
def test_ridge_on_the_features_is_the_machine_in_the_kernel(moons, given):
    X, _, known = moons
    given = {"bandwidth": 0.2, "landmarks": 500, **given}
    features, machine = ClusterKernelFeatures(**given).fit(X), ClusterKernelSVC(C=10, **given).fit(X, known)
    F, labeled = features.transform(X), known >= 0
    assert_allclose(np.linalg.norm(F, axis=1), 1, atol=1e-9)
    theirs = Ridge(alpha=1 / 10, fit_intercept=False).fit(F[labeled], 2.0 * known[labeled] - 1)  # of mean 0
    assert_allclose(theirs.predict(F), machine.decision_function(X), atol=1e-5)


def test_a_pipeline_predicts_new_points(moons):
    X, y, known = moons
    features = ClusterKernelFeatures(bandwidth=0.2).fit(X)
    made = make_pipeline(features, LogisticRegression(C=10))
    made[-1].fit(features.transform(X[known >= 0]), known[known >= 0])
    new, true = make_moons(300, noise=0.1, random_state=1)
    assert (made.predict(new) == true).mean() > 0.97
    assert (made.predict(X) == y).mean() > 0.97
    assert list(features.get_feature_names_out())[:1] == ["clusterkernelfeatures0"]
    assert len(features.get_feature_names_out()) == features.transform(new).shape[1] == features.evidence_["features"]


@pytest.mark.filterwarnings("ignore::dssl.data.scaling.out_of_range.OutOfRange")
def test_the_same_again_stored_sparse_and_under_a_budget(moons):
    X, _, _ = moons
    features = ClusterKernelFeatures(bandwidth=0.2, memory_budget="2MB")
    F = features.fit(X).transform(X)
    assert 2 <= features.evidence_["landmarks"] < 500
    assert_array_equal(clone(features).fit_transform(X), F)
    assert_array_equal(pickle.loads(pickle.dumps(features)).transform(X), F)
    assert_allclose(clone(features).fit(sparse.csr_array(X)).transform(sparse.csr_array(X[:9])), F[:9], atol=1e-4)
    assert not features.transform(X[:1] + 1e6).any()


def test_what_is_wrong(moons):
    X, _, _ = moons
    with pytest.raises(NotFittedError):
        ClusterKernelFeatures().transform(X)
    with pytest.raises(ParameterError, match="approximation='best'"):
        ClusterKernelFeatures(approximation="best").fit(X)
    with pytest.raises(ParameterError, match="transfer='root'"):
        ClusterKernelFeatures(transfer="root").fit(X)
    with pytest.raises(BudgetError, match=r"fix: raise memory_budget to 197,376 bytes or more"):
        ClusterKernelFeatures(memory_budget="1kB").fit(X)
    with pytest.raises(DataError, match="points are equal"):
        ClusterKernelFeatures().fit(np.ones((9, 2)))
    with pytest.raises(DataError, match="the kernel is the identity"):
        ClusterKernelFeatures(bandwidth=1e-9).fit(X)


@pytest.mark.slow
def test_scikit_learn_accepts_it():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(ClusterKernelFeatures(), on_fail=None, on_skip=None)
    assert [check for check in found if check["status"] == "failed"] == []

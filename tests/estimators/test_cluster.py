"""`ClusterKernelSVC`: clusters found, approximations compared, the budget kept, grids, and what is refused."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_moons
from sklearn.model_selection import KFold, cross_val_score
from sklearn.svm import SVC

from dssl import ClusterKernelSVC, GridSearch, LandmarkParams, TransferParams
from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.kernels.landmarks import choose_landmarks
from dssl.kernels.stochastic import StochasticParams
from dssl.learners.losses import LOSSES
from dssl.methods.linear import base_map
from dssl.selection.folds import held_out_folds
from dssl.storage.csr import as_rows


def labeled(y, per_class, random_state=0):
    found, rng = np.full(len(y), -1), np.random.default_rng(random_state)
    for code in np.unique(y):
        found[rng.choice(np.flatnonzero(y == code), per_class, replace=False)] = code
    return found


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(600, noise=0.1, random_state=0)
    return X, y, labeled(y, 5)


@pytest.mark.parametrize("loss", list(LOSSES))
def test_moons_are_told_apart_by_their_clusters(moons, loss):
    X, y, known = moons
    fitted = ClusterKernelSVC(loss=loss, transfer="polynomial", bandwidth=0.2, landmarks=200).fit(X, known)
    alone = SVC(C=10).fit(X[known >= 0], known[known >= 0])
    assert (fitted.transduction_ == y).mean() > 0.98
    assert (alone.predict(X) == y).mean() < 0.95
    assert_array_equal(fitted.predict(X), fitted.transduction_)
    assert (fitted.predict_proba(X).argmax(axis=1) == fitted.transduction_).all()  # of two classes, of hinge too
    new, true = make_moons(300, noise=0.1, random_state=1)
    assert fitted.score(new, true) > 0.97


def test_the_base_of_many_labels_is_a_classifier_in_the_base_kernel():
    """Its features reproduce the kernel of the labels; with more than 128 labels they did not."""
    X, y = make_moons(400, noise=0.2, random_state=0)
    kernel = RBF(0.3)
    Phi = base_map(kernel, X[:300])(X[:300])
    assert_allclose(Phi @ Phi.T, kernel(X[:300], X[:300]), atol=1e-7)
    known = np.where(np.arange(400) < 300, y, -1)
    fitted = ClusterKernelSVC(bandwidth=0.3, landmarks=100, C=1.0).fit(X, known)
    alone = cross_val_score(SVC(gamma=1 / (2 * 0.3**2)), X[:300], y[:300]).mean()
    assert fitted.by_labels_["scores"]["base"]["error"] == pytest.approx(1 - alone, abs=0.02)


@pytest.mark.slow
def test_all_points_as_landmarks_are_the_exact_kernel(moons):
    X, _, known = moons
    exact = ClusterKernelSVC(approximation="exact", bandwidth=0.2).fit(X, known)
    whole = ClusterKernelSVC(bandwidth=0.2, landmarks=600).fit(X, known)
    assert exact.evidence_["landmarks"] == whole.evidence_["landmarks"] == 600
    assert_array_equal(exact.decision_function(X), whole.decision_function(X))
    near = ClusterKernelSVC(bandwidth=0.2, landmarks=200, rank=None).fit(X, known)
    assert (near.transduction_ == exact.transduction_).mean() > 0.97


def test_landmarks_alone_are_the_exact_kernel_of_these_points(moons):
    X, y, known = moons
    given = LandmarkParams(n_landmarks=200)
    drawn = choose_landmarks(as_rows(X), RBF(0.2), 200, given, InProcess(1)).rows
    found = ClusterKernelSVC(approximation="landmarks", bandwidth=0.2, landmarks=given).fit(X, known)
    exact = ClusterKernelSVC(approximation="exact", bandwidth=0.2).fit(X[drawn], y[drawn])
    assert_allclose(found.basis_.values, exact.basis_.values, atol=1e-8)
    new = make_moons(300, noise=0.1, random_state=1)[0]
    samples = [own.basis_.samples(TransferParams(), 10)(new) for own in (found, exact)]
    assert_allclose(samples[0] @ samples[0].T, samples[1] @ samples[1].T, atol=1e-6)
    assert found.evidence_["landmarks"] == 200 == exact.evidence_["landmarks"]


@pytest.mark.slow
def test_stochastic_steps_come_near_the_exact_kernel(moons):
    X, y, known = moons
    exact = ClusterKernelSVC(approximation="exact", bandwidth=0.3).fit(X, known)
    steps = StochasticParams(n_features=100, steps=60)
    found = ClusterKernelSVC(approximation=steps, bandwidth=0.3).fit(X, known)
    assert (found.transduction_ == exact.transduction_).mean() > 0.97
    assert (found.transduction_ == y).mean() > 0.97
    assert_allclose(found.basis_.values[:8], exact.basis_.values[:8], atol=0.06)
    assert found.evidence_["steps"] == 60
    assert 0 < found.evidence_["error"] < 0.2
    again = ClusterKernelSVC(approximation=steps, bandwidth=0.3).fit(X, known)
    assert_array_equal(again.decision_function(X), found.decision_function(X))
    few = ClusterKernelSVC(approximation=steps, bandwidth=0.3, landmarks=100).fit(X, known)
    assert (few.transduction_ == y).mean() > 0.93
    assert few.evidence_["landmarks"] == 100


def test_stochastic_steps_say_that_their_rank_cuts_off_an_affinity_near_the_identity():
    """In 20 columns of noise a quarter of the median distance is less than any; with half of it eigenvalues decay."""
    X = np.random.default_rng(0).normal(size=(150, 20))
    known = np.where(np.arange(150) < 40, (X[:, 0] > 0).astype(int), -1)
    few = StochasticParams(steps=10, rank=20)
    with pytest.warns(UserWarning, match=r"nearly the identity[\s\S]*nystrom"):
        fitted = ClusterKernelSVC(approximation=few).fit(X, known)
    with pytest.warns(UserWarning, match="nearly the identity"):
        page = fitted.report()
    assert fitted.evidence_["truncated"]
    assert "cuts the spectrum off" in page
    wide = ClusterKernelSVC(approximation=few, transfer="linear", bandwidth="0.5*median").fit(X, known)
    assert not wide.evidence_["truncated"]
    assert "truncated" not in ClusterKernelSVC().fit(X, known).evidence_


def test_stochastic_steps_need_random_features_and_exact_degrees(moons):
    X, _, known = moons
    with pytest.raises(ParameterError, match="nystrom"):
        ClusterKernelSVC("cosine", approximation="stochastic").fit(np.abs(X) + 1, known)
    with pytest.raises(ParameterError, match='degrees="landmarks" and approximation="stochastic"'):
        ClusterKernelSVC(approximation="stochastic", degrees="landmarks").fit(X, known)
    with pytest.raises(ParameterError, match="n_features=3"):
        ClusterKernelSVC(approximation=StochasticParams(n_features=3)).fit(X, known)


def test_several_classes_sparse_points_and_weights():
    X, y = make_blobs(300, 5, centers=4, random_state=0)
    known = labeled(y, 4)
    dense = ClusterKernelSVC().fit(X, known)
    assert (dense.transduction_ == y).mean() > 0.98
    assert dense.decision_function(X).shape == (300, 4)
    thin = ClusterKernelSVC(bandwidth=dense.model_.samples.kernel.bandwidth).fit(
        sparse.csr_array(X), known)
    assert_allclose(thin.decision_function(sparse.csr_array(X)), dense.decision_function(X), atol=1e-6)
    names = np.array(["d", "a", "c", "b"])[y].astype(object)
    names[known < 0] = None
    text = ClusterKernelSVC().fit(X, names)
    assert text.classes_.tolist() == ["a", "b", "c", "d"]
    weight = np.where(known == 0, 0.0, 1.0)
    with pytest.raises(DataError, match="no labeled point of weight > 0"):
        ClusterKernelSVC().fit(X, known, sample_weight=weight)


@pytest.mark.slow
def test_a_budget_decides_the_landmarks_and_is_text_or_bytes(moons):
    X, _, known = moons
    few = ClusterKernelSVC(memory_budget="1MB").fit(X, known)
    assert 50 < few.evidence_["landmarks"] < 200
    assert ClusterKernelSVC(memory_budget=10**6).fit(X, known).evidence_["landmarks"] == few.evidence_["landmarks"]
    assert ClusterKernelSVC(memory_budget="100MB").fit(X, known).evidence_["landmarks"] == 600
    with pytest.raises(BudgetError, match=r'approximation="exact" of 600 points[\s\S]*use "nystrom", or a budget of'):
        ClusterKernelSVC(approximation="exact", memory_budget="1MB").fit(X, known)
    with pytest.raises(BudgetError):
        ClusterKernelSVC(memory_budget="1kB").fit(X, known)
    for wrong in ("much", 0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="is not a size"):
            ClusterKernelSVC(memory_budget=wrong).fit(X, known)


def test_a_search_has_one_eigenproblem_a_kernel(moons):
    X, y, known = moons
    folds = KFold(3, shuffle=True, random_state=1)
    grid = {"bandwidth": [0.2, 0.5], "transfer__transfer": ["poly_step", "polynomial"], "C": [1.0, 10.0]}
    estimator = ClusterKernelSVC(landmarks=200)
    search = GridSearch(estimator, grid, cv=folds).fit(X, known)
    assert search.n_fits_ == 2
    assert search.n_graphs_ == 0
    assert (search.transduction_ == y).mean() > 0.97
    results = search.cv_results_
    place = results["params"].index({"bandwidth": 0.5, "transfer__transfer": "poly_step", "C": 1.0})
    at, errors = np.flatnonzero(known >= 0), []
    own = clone(estimator).set_params(**results["params"][place])
    repetition, = held_out_folds(folds, own._target(known, len(X)))
    for fold in repetition:
        shown = known.copy()
        shown[at[fold]] = -1
        transfer = TransferParams(transfer="poly_step", leading=len(at) + 9)  # as many as with all labels
        own.set_params(transfer=transfer).fit(X, shown)
        errors.append((own.transduction_[at[fold]] != known[at[fold]]).mean())
    assert_allclose([results[f"split{number}_test_score"][place] for number in range(3)], 1 - np.array(errors))


@pytest.mark.parametrize(("given", "message"), [
    ({"approximation": "best"}, "approximation='best'"), ({"transfer": "root"}, "transfer='root'"),
    ({"loss": "absolute"}, "loss='absolute'"), ({"C": -1}, "C=-1"), ({"rank": 0}, "rank=0"),
    ({"degrees": "some"}, "degrees='some'"), ({"landmarks": 0}, "n_landmarks=0"),
    ({"landmarks": LandmarkParams(), "transfer": TransferParams(), "kernel": "none"}, "none")])
def test_parameters_out_of_range(moons, given, message):
    X, _, known = moons
    with pytest.raises(ParameterError, match=message):
        ClusterKernelSVC(**given).fit(X, known)


@pytest.mark.parametrize("given", [{"bandwidth": "20*median"}, {"kernel": "linear"}])
@pytest.mark.extended_cases("given0")
def test_a_kernel_in_which_all_points_are_alike_is_told(moons, given):
    X, _, known = moons
    with pytest.warns(UserWarning, match="nearly alike"):
        found = ClusterKernelSVC(**given).fit(X - X.min(axis=0) + 10, known)
    assert found.evidence_["contrast"] < 1e-4
    assert ClusterKernelSVC(bandwidth=0.2).fit(X, known).evidence_["contrast"] > 0.1


def test_what_cannot_be_learned(moons):
    X, _, known = moons
    with pytest.raises(ParameterError, match="graph is given"):
        ClusterKernelSVC().fit(X, known, graph=sparse.eye_array(600))
    with pytest.raises(DataError, match="the identity"):
        ClusterKernelSVC(bandwidth=1e-8).fit(X, known)
    with pytest.raises(DataError, match="a point has the degree"):
        ClusterKernelSVC("linear", landmarks=100).fit(X - X.mean(axis=0), known)
    with pytest.raises(DataError):
        ClusterKernelSVC().fit(X, np.where(known == 1, -1, known))
    with pytest.raises(ValueError, match="NaN"):
        ClusterKernelSVC().fit(np.where(X > 1.9, np.nan, X), known)
    single = known.copy()
    for label in (0, 1):
        single[np.flatnonzero(known == label)[1:]] = -1
    assert ClusterKernelSVC().fit(X, single).predict_proba(X).shape == (len(X), 2)


def test_duplicates_and_a_constant_column_are_no_harm():
    X, y = make_blobs(100, 3, centers=2, random_state=0)
    X = np.column_stack([np.repeat(X[:50], 2, axis=0), np.ones(100)])
    y = np.repeat(y[:50], 2)
    fitted = ClusterKernelSVC().fit(X, labeled(y, 3))
    assert (fitted.transduction_ == y).all()
    assert fitted.evidence_["rank"] <= 50

"""`LapSVC` and `LapKernelRidge`: against the dense formula, in threads and on a cluster, and at the edges."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.svm import SVC

from dssl import KNNGraph, LapKernelRidge, LapSVC, RegularizerParams
from dssl.base.errors import DataError, ParameterError
from dssl.estimators.targets import classes_of
from dssl.learners.deformed import ETAS
from dssl.learners.linear.gram import LearnerParams, fit_gram
from dssl.learners.linear.kernel_model import KernelModel
from dssl.learners.losses import gram_learner
from dssl.storage.blocks import ArrayRows
from tests import reference
from tests.moons import two_moons

SMALL = {"graph": KNNGraph(n_neighbors=5, weights="binary"), "bandwidth": 1.5}


def blobs(n=60, n_labeled=4, n_classes=2, random_state=0):
    """Return X (n, 2), y with -1 where unlabeled, and new points (40, 2)."""
    X, codes = make_blobs(n + 40, centers=n_classes, cluster_std=2.5, random_state=random_state)
    y = np.full(n, -1)
    for code in range(n_classes):
        chosen = np.flatnonzero(codes[:n] == code)[:n_labeled]
        y[chosen] = code
    return X[:n], y, X[n:]


def dense_kernel(X, Z, estimator):
    """Return the deformed kernel (eq. 4) between X and X, and between Z and X; all points are landmarks."""
    own = estimator.regularizer or RegularizerParams()
    W = reference.knn_weights(X, estimator.graph.n_neighbors + 1)  # the reference counts the point itself
    L = reference.normalized_laplacian(W) if own.laplacian == "normalized" else reference.laplacian(W)
    Q = reference.regularizer(L, own.power, own.ridge)
    eta = estimator.eta * np.trace(np.linalg.inv(Q)) / len(Q)
    K, K_ZX = (reference.rbf(A, X, estimator.bandwidth) for A in (X, Z))
    return reference.deformed_gram(K, eta * Q), reference.deformed(K, eta, Q, K_ZX.T, K, K_ZX)


# Against the formula


@pytest.mark.parametrize("settings", [
    {}, {"regularizer": RegularizerParams(power=1)}, {"regularizer": RegularizerParams(power=3, ridge=0.1)},
    {"regularizer": RegularizerParams(laplacian="unnormalized", ridge=0.5)}, {"eta": 0.3}, {"eta": 1e4}, {"C": 2.0},
])
def test_svc_is_the_svm_in_the_kernel_of_equation_4(settings):
    X, y, new = blobs()
    estimator = LapSVC(**SMALL | {"tol": 1e-10, "loss": "hinge", "eta": 10.0} | settings).fit(X, y)
    K, K_new = dense_kernel(X, new, estimator)
    labeled = y >= 0
    K_ll = K[np.ix_(labeled, labeled)]
    scale = np.trace(K_ll) / labeled.sum()
    coef, bias = reference.svm(K_ll / scale, np.where(y[labeled] == 1, 1.0, -1.0), estimator.C)
    for points, block in ((X, K), (new, K_new)):
        expected = block[:, labeled] @ coef / scale + bias
        # Both machines stop at a tolerance of their own; which digits it costs depends on the processor's BLAS.
        assert_allclose(estimator.decision_function(points), expected, atol=2e-4, rtol=5e-4)
        clear = np.abs(expected) > 1e-3
        assert_array_equal(estimator.predict(points)[clear], (expected > 0)[clear].astype(int))


@pytest.mark.parametrize("columns", [1, 2])
def test_kernel_ridge_is_ridge_in_the_kernel_of_equation_4(columns):
    X, y, new = blobs()
    labeled = y >= 0
    targets = np.where(labeled[:, None], np.random.default_rng(0).normal(size=(len(X), columns)), np.nan)
    given = targets[:, 0] if columns == 1 else targets
    estimator = LapKernelRidge(**SMALL, tol=1e-10, eta=10.0).fit(X, given)
    K, K_new = dense_kernel(X, new, estimator)
    scale = np.trace(K[np.ix_(labeled, labeled)]) / labeled.sum()
    mean = targets[labeled].mean(axis=0)
    ambient = 1 / (estimator.C * labeled.sum())
    for j in range(columns):
        f = reference.ridge(K / scale, targets[:, j] - mean[j], labeled, ambient) + mean[j]
        assert_allclose(estimator.predict(X).reshape(len(X), -1)[:, j], f, rtol=1e-6, atol=1e-7)
    alpha = np.linalg.solve(K[np.ix_(labeled, labeled)] / scale + np.eye(labeled.sum()) / estimator.C,
                            targets[labeled] - mean)
    assert_allclose(estimator.predict(new).reshape(len(new), -1), K_new[:, labeled] @ alpha / scale + mean, rtol=1e-6,
                    atol=1e-7)
    assert estimator.predict(new).ndim == columns


@pytest.mark.parametrize("n_classes", [2, 3])
def test_with_the_squared_loss_it_is_ridge_to_the_codes_of_the_classes(n_classes):
    X, y, new = blobs(n_classes=n_classes)
    labeled = y >= 0
    estimator = LapSVC(**SMALL, tol=1e-10, eta=3.0).fit(X, y)
    K, K_new = dense_kernel(X, new, estimator)
    K_ll = K[np.ix_(labeled, labeled)]
    scale, codes = np.trace(K_ll) / labeled.sum(), np.where(y[labeled, None] == np.arange(n_classes), 1.0, -1.0)
    alpha = np.linalg.solve(K_ll / scale + np.eye(labeled.sum()) / estimator.C, codes - codes.mean(axis=0))
    expected = K_new[:, labeled] @ alpha / scale + codes.mean(axis=0)
    assert_allclose(estimator.decision_function(new), expected[:, 1] if n_classes == 2 else expected, rtol=1e-6,
                    atol=1e-7)
    assert_array_equal(estimator.predict(new), expected.argmax(axis=1))


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_eta_auto_is_the_mean_of_kernels_of_several_etas(loss):
    X, y, new = blobs(n_classes=3)
    labeled = y >= 0
    estimator = LapSVC(**SMALL, tol=1e-10, loss=loss).fit(X, y)
    grams = [dense_kernel(X, new, clone(estimator).set_params(eta=eta)) for eta in ETAS]
    scales = [np.trace(K[np.ix_(labeled, labeled)]) / labeled.sum() for K, _ in grams]
    found = estimator.evidence_["eta"]
    assert [row["eta"] for row in found] == list(ETAS)
    shares = [row["share"] for row in found]
    assert sum(shares) == pytest.approx(1)
    K, K_new = (sum(share * pair[which] / scale for share, pair, scale in zip(shares, grams, scales, strict=True))
                for which in (0, 1))
    target = classes_of(y, None, len(y))
    coef, intercept, coding = fit_gram(K[np.ix_(labeled, labeled)], target, LearnerParams(
        kind=gram_learner(loss), unpenalized_intercept=shares[0]))
    expected = coding.decision(K_new[:, labeled] @ coef + intercept)
    assert_allclose(estimator.decision_function(new), expected, atol=1e-6 if loss == "squared" else 1e-3)


@pytest.mark.parametrize("power", [1, 2])
def test_points_of_the_fit_follow_the_graph_off_the_landmarks(power):
    X, y, _ = blobs(n=80, n_classes=3)
    X = np.concatenate([X, X[:20]])  # copies: one vertex each, which counts twice
    y = np.concatenate([y, np.full(20, -1)])
    targets = np.where(y >= 0, np.random.default_rng(0).normal(size=len(y)), np.nan)
    eta, settings = 4.0, SMALL | {"regularizer": RegularizerParams(power=power, ridge=0.05)}
    estimator = LapKernelRidge(**settings, n_landmarks=30, eta=eta, tol=1e-10).fit(X, targets)

    W, multiplicity = reference.knn_weights(X[:80], 6), np.where(np.arange(80) < 20, 2.0, 1.0)
    W = W * np.outer(multiplicity, multiplicity)  # of the graph of all points, summed over copies
    R = reference.normalized_laplacian(W) + 0.05 * np.eye(80)
    covariance = np.linalg.inv(np.linalg.matrix_power(R, power)) / np.sqrt(np.outer(multiplicity, multiplicity))
    S, base = estimator.landmarks_, estimator.predict(X[:80])
    mean = targets[y >= 0].mean()
    on_graph = covariance[:, S] @ np.linalg.solve(covariance[np.ix_(S, S)], base[S] - mean) + mean
    expected = (base + eta * on_graph) / (1 + eta)
    assert np.abs(expected - base).max() > 0.01
    assert_allclose(estimator.transduction_, expected[np.concatenate([np.arange(80), np.arange(20)])], rtol=1e-6,
                    atol=1e-6)
    assert_allclose(estimator.transduction_[S], base[S], rtol=1e-6, atol=1e-8)


def test_a_pickle_without_transduction_holds_nothing_of_the_points():
    X, y, _ = blobs(n=200)
    estimator = LapSVC(**SMALL, n_landmarks=20).fit(X, y)
    again = pickle.loads(pickle.dumps(estimator))
    assert not hasattr(again, "_on_graph")
    with pytest.raises(NotFittedError, match="not asked for"):
        again.transduction_  # noqa: B018
    expected = estimator.transduction_
    assert_array_equal(pickle.loads(pickle.dumps(estimator)).transduction_, expected)


def test_without_the_graph_it_is_an_svm():
    X, y, new = blobs(n_classes=3)
    estimator = LapSVC(**SMALL | {"eta": 0.0, "loss": "hinge"}).fit(X, y)
    machine = SVC(C=10.0, gamma=1 / (2 * 1.5**2), break_ties=True).fit(X[y >= 0], y[y >= 0])
    assert_array_equal(estimator.predict(new), machine.predict(new))


# On a cluster


@pytest.mark.slow
@pytest.mark.cluster
def test_a_cluster_gives_the_same_model(cluster_client):
    X, y, new = blobs(n=300, n_classes=3)
    settings = SMALL | {"n_landmarks": 50}
    targets = np.where(y >= 0, y + 0.5, np.nan)
    here, there = LapSVC(**settings).fit(X, y), LapSVC(**settings)
    values_here, values_there = LapKernelRidge(**settings).fit(X, targets), LapKernelRidge(**settings)
    expected = here.decision_function(new), here.predict(new), values_here.predict(new)
    with cluster_client.as_current():
        there.fit(X, y)
        values_there.fit(X, targets)
        found = there.decision_function(new), there.predict(new), values_there.predict(new)
    assert_array_equal(there.landmarks_, here.landmarks_)
    assert_allclose(found[0], expected[0], atol=1e-8)
    assert_array_equal(found[1], expected[1])
    assert_allclose(found[2], expected[2], atol=1e-8)
    assert_array_equal(there.predict(new), expected[1])  # fitted there, used here


# Labels and classes


@pytest.mark.parametrize(("y", "message"), [
    ([-1, 1] * 15, "labels are -1 and \\+1 throughout"),
    ([3] * 5 + [-1] * 25, "y has one class, 3"), ([-1] * 30, "no point of y has a label"),
    ([0, 1, -1], "y has 3 labels for 30 points"),
    ([[0, 1]] * 30, "tags that no labeled point has: 0"), ([np.nan] * 30, "no point of y has a label"),
    (["a", 1, None] * 10, "labels are of 2 kinds"), (None, "the target y is None"),
    ([0.5, 2.5, np.nan] * 10, "Unknown label type: continuous"),
])
def test_labels_that_cannot_be_learned(y, message):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(DataError, match=message):
        LapSVC(**SMALL).fit(X, y)


@pytest.mark.parametrize(("y", "message"), [
    ([np.nan] * 30, "no target is a number"), ([0.0, 1.0], "y has shape \\(2,\\) for 30 points"),
    (np.zeros((30, 2, 2)), "y has shape \\(30, 2, 2\\)"), (None, "the target y is None"),
    ([np.inf, 1.0, np.nan] * 10, "y has 10 infinite targets"),
    (np.array(["a", None, 1.0] * 10, object), "y holds what is no number: could not convert string to float: 'a'"),
    ([0.0, -1e200, np.nan] * 10, "beyond 1e\\+150: 10; the first is -1e\\+200 in row \\[1\\]"),
    (np.full((30, 2), [0.0, 1e151]), "beyond 1e\\+150: 30; the first is 1e\\+151 in row \\[0\\]"),
])
def test_targets_that_cannot_be_fitted(y, message):
    X = np.random.default_rng(0).normal(size=(30, 2))
    with pytest.raises(DataError, match=message):
        LapKernelRidge(**SMALL).fit(X, y)


def test_a_class_with_one_label():
    X, y, new = blobs(n=60, n_labeled=60, n_classes=3)
    lonely = np.where(y == 2, -1, y)
    only = np.flatnonzero(y == 2)[0]
    lonely[only] = 2
    estimator = LapSVC(**SMALL | {"C": 1e5}).fit(X, lonely)
    assert_array_equal(estimator.classes_, [0, 1, 2])
    assert estimator.predict(X[only:only + 1]) == [2]
    assert set(estimator.predict(new)) <= {0, 1, 2}


# Points


def test_more_neighbors_than_points():
    X, y, _ = blobs(n=8, n_labeled=2)
    with pytest.warns(UserWarning, match="n_neighbors=10 is lowered to 7"):
        lowered = LapSVC().fit(X, y)
    expected = LapSVC(graph=KNNGraph(n_neighbors=7, width=1.0)).fit(X, y)
    assert_array_equal(lowered.decision_function(X), expected.decision_function(X))


def test_points_of_other_features_and_none_at_all():
    X, y, _ = blobs()
    estimator = LapSVC(**SMALL)
    with pytest.raises(NotFittedError):
        estimator.predict(X)
    estimator.fit(X, y)
    with pytest.raises(ValueError, match="X has 3 features, but LapSVC is expecting 2"):
        estimator.predict(np.zeros((4, 3)))
    with pytest.raises(ValueError, match="X has 3 features, but LapSVC is expecting 2"):
        estimator.predict(ArrayRows(np.zeros((4, 3))))
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        estimator.predict(np.zeros((0, 2)))  # as every estimator of scikit-learn
    assert estimator.predict(ArrayRows(np.zeros((0, 2)))).shape == (0,)
    assert estimator.predict(ArrayRows(X[:3])).tolist() == estimator.predict(X[:3]).tolist()
    assert estimator.predict(X[:1]).shape == (1,)


# As an estimator


def test_a_group_of_parameters_is_set_as_a_value():
    estimator = LapSVC(graph=KNNGraph(n_neighbors=4))
    again = clone(estimator)
    assert again.set_params(graph__n_neighbors=6, regularizer__power=3).graph == KNNGraph(n_neighbors=6)
    assert (again.regularizer, estimator.regularizer) == (RegularizerParams(power=3), None)
    assert estimator.graph == KNNGraph(n_neighbors=4), "a group is a value, so that no other estimator changes"
    with pytest.raises(ParameterError, match="graph has no parameter k"):
        again.set_params(graph__k=3)
    with pytest.raises(ParameterError, match="power=0"):
        again.set_params(regularizer__power=0)
    with pytest.raises(ValueError, match="Invalid parameter"):
        again.set_params(kernel__degree=3)
    with pytest.raises(ValueError, match="Invalid parameter"):
        estimator.set_params(gamma=1.0)


@pytest.mark.parametrize(("settings", "message"), [
    ({"C": 0.0}, "C=0.0"), ({"eta": -1.0}, "eta=-1"), ({"kernel": "rfb"}, "'rfb'"),
    ({"eta": "best"}, "eta='best'"), ({"loss": "log"}, "loss='log'"),
    ({"n_landmarks": 0}, "n_landmarks=0"), ({"n_landmarks": 2.5}, "n_landmarks=2.5"), ({"C": "3"}, "C='3'"),
    ({"tol": "1e-6"}, "tol='1e-6'"), ({"bandwidth": "mean"}, "'mean'"),
    ({"tol": 0.0}, "tol=0.0"),
    ({"regularizer": "random_walk"}, "laplacian='random_walk'"), ({"graph": 0}, "n_neighbors=0"),
    ({"graph": np.eye(60)}, "graph is of type ndarray"), ({"graph": RegularizerParams()}, "graph is of type Regul"),
])
def test_parameters_are_read_at_fit(settings, message):
    X, y, _ = blobs()
    estimator = LapSVC(**SMALL | settings)  # __init__ only stores
    with pytest.raises(ParameterError, match=message):
        estimator.fit(X, y)


def test_a_fit_is_repeatable_and_leaves_its_input_alone():
    X, y, new = blobs(n=300)
    before = X.copy(), y.copy()
    estimator = LapSVC(**SMALL | {"n_landmarks": 40})
    first = estimator.fit(X, y).decision_function(new)
    assert_array_equal(estimator.fit(X, y).decision_function(new), first)
    assert_array_equal(X, before[0])
    assert_array_equal(y, before[1])
    other = LapSVC(**SMALL | {"n_landmarks": 40, "random_state": 1}).fit(X, y).decision_function(new)
    assert np.abs(other - first).max() > 1e-6  # other landmarks


def test_labeled_points_are_landmarks():
    X, y, _ = blobs(n=300, n_labeled=5, n_classes=3)
    estimator = LapSVC(**SMALL | {"n_landmarks": 40}).fit(X, y)
    assert len(estimator.landmarks_) == 40
    assert set(np.flatnonzero(y >= 0)) <= set(estimator.landmarks_.tolist())
    with pytest.warns(UserWarning, match="15 labeled points and n_landmarks=6"):
        few = LapSVC(**SMALL | {"n_landmarks": 6}).fit(X, y)
    assert len(few.landmarks_) == 6
    assert set(few.landmarks_.tolist()) <= set(np.flatnonzero(y >= 0))


def test_the_model_alone_predicts_and_the_solves_give_evidence():
    X, y, new = blobs(n_classes=3)
    estimator = LapSVC(**SMALL).fit(X, y)
    arrays, attributes = estimator.model_.to_arrays()
    assert_array_equal(KernelModel.from_arrays(arrays, attributes).predict(new), estimator.predict(new))
    assert estimator.evidence_["solves"]["max_residual"] <= estimator.tol
    assert estimator.evidence_["solves"]["columns"] == len(X)
    assert estimator.evidence_["n_landmarks"] == len(X)


# Against supervised learning, over five seeds


def split_moons(random_state):
    data = two_moons(600, noise=0.1, random_state=random_state)
    return data.X.read_all(), data.targets(), 400, 3


def split_digits(random_state):
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(random_state).permutation(len(X))
    return X[order] / 16, y[order], 1200, 2


@pytest.mark.slow
@pytest.mark.parametrize(("draw", "settings", "lower_bound", "mean"), [
    # Measured gains over the better SVM: 0.055, 0.145, 0.04, 0.095, 0.065.
    (split_moons, {"bandwidth": 0.2, "eta": 1000.0, "regularizer": RegularizerParams(ridge=1e-3, power=1)}, 0.02, 0.05),
    # Measured: 0.146, 0.107, 0.203, 0.065, 0.141.
    (split_digits, {}, 0.04, 0.10),
])
@pytest.mark.extended_cases("split_moons-settings0-0.02-0.05")
def test_unlabeled_points_help(draw, settings, lower_bound, mean):
    gains = []
    for random_state in range(5):
        X, y, n, per_class = draw(random_state)
        rng = np.random.default_rng(random_state)
        shown = np.concatenate([rng.choice(np.flatnonzero(y[:n] == code), per_class, replace=False)
                                for code in np.unique(y)])
        given = np.full(n, -1)
        given[shown] = y[shown]
        found = LapSVC(n_landmarks=400, **settings).fit(X[:n], given).score(X[n:], y[n:])
        bandwidths = ["scale", *([1 / (2 * settings["bandwidth"]**2)] if "bandwidth" in settings else [])]
        supervised = max(SVC(C=10.0, gamma=gamma).fit(X[shown], y[shown]).score(X[n:], y[n:]) for gamma in bandwidths)
        gains.append(found - supervised)
    assert min(gains) > lower_bound, gains
    assert np.mean(gains) > mean, gains


def test_points_far_from_all_others_have_no_support():
    X, y, new = blobs()
    model = LapSVC(**SMALL).fit(X, y)
    support = model.support(np.concatenate([new, [[500.0, -500.0]]]))
    assert support.shape == (len(new) + 1,)
    assert (support[:-1] > 1e-10).all()
    assert support[-1] == 0
    with pytest.raises(NotFittedError):
        LapSVC().support(X)


@pytest.mark.parametrize("loss", ["squared", "hinge"])
def test_many_labels_hold_one_fold_out_and_decide_eta_by_a_sample(loss, monkeypatch):
    X, y, new = blobs(n=200, n_labeled=50)
    few = LapSVC(loss=loss, **SMALL).fit(X, y)
    assert (few.by_labels_["folds"], few.by_labels_["n"]) == (5, 100)
    monkeypatch.setattr("dssl.methods.deformed.models.MAX_FOLDED", 90)
    monkeypatch.setattr("dssl.learners.deformed.MAX_EXACT", 90)
    many = LapSVC(loss=loss, **SMALL).fit(X, y)
    assert many.by_labels_["folds"] == 1
    assert 5 < many.by_labels_["n"] < 40
    assert many.evidence_["eta"] != few.evidence_["eta"]
    assert sum(row["share"] for row in many.evidence_["eta"]) == pytest.approx(1)
    assert (many.predict(new) == few.predict(new)).mean() > 0.9
    assert_array_equal(LapSVC(loss=loss, **SMALL).fit(X, y).predict_proba(new), many.predict_proba(new))

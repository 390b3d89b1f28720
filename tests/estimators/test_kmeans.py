"""`KernelKMeans`: the objective of each kernel, clusters found, new points, their number, and what is refused."""

import pickle
import re
import warnings

import numpy as np
import pytest
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.datasets import make_blobs, make_circles, make_moons
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import check_estimator

from dssl import KernelKMeans, KNNGraph, clustering_scores
from dssl.base.errors import BudgetError, DataError, ParameterError
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.kernels.deformed import deform
from dssl.methods.deformed.covariance import CovarianceParams
from dssl.selection import number_of_clusters
from tests.covariance import graph_covariance

SPACES = ("base", "deformed", "graph", "cluster", "multiscale")


@pytest.fixture(scope="module")
def moons():
    return make_moons(300, noise=0.06, random_state=0)


@pytest.fixture(scope="module")
def blobs():
    return make_blobs(240, 3, centers=4, random_state=1)


def spread(K, labels):
    """Return the mean squared distance to the centers in the feature space of K (n, n), by the kernel alone."""
    total = np.trace(K)
    for j in np.unique(labels):
        own = labels == j
        total -= K[np.ix_(own, own)].sum() / own.sum()
    return total / len(K)


@pytest.mark.parametrize("feature_map", ["base", "deformed"])
def test_the_sum_of_squares_is_that_of_the_kernel(feature_map, blobs):
    """d(x, z)^2 = K(x, x) + K(z, z) - 2 K(x, z), with all points as landmarks exactly (AISTATS 2012, section 5.2)."""
    X, _ = blobs
    measured = 60 if feature_map == "deformed" else "auto"
    fitted = KernelKMeans(4, feature_map=feature_map, bandwidth=2.0, eta=3.0, n_landmarks=measured).fit(X)
    kernel = RBF(2.0)
    if feature_map == "deformed":
        own = CovarianceParams(n_landmarks=60)
        covariance = graph_covariance(KNNGraph().build(X), np.empty(0, int), own, InProcess(1))
        kernel = deform(kernel, X[covariance.landmarks], covariance.powers[own.regularizer.power], 3.0)
    assert fitted.inertia_ == pytest.approx(spread(kernel(X, X), fitted.labels_), rel=1e-5)


@pytest.mark.parametrize("feature_map", SPACES)
@pytest.mark.slow_cases("multiscale")
def test_blobs_are_clusters_in_every_space_and_new_points_join_them(feature_map, blobs):
    X, y = blobs
    fitted = KernelKMeans(4, feature_map=feature_map, bandwidth="median").fit(X)
    found = clustering_scores(y, fitted.labels_)
    assert found["accuracy"] > (0.7 if feature_map == "multiscale" else 0.97)
    assert_array_equal(fitted.predict(X), fitted.labels_)
    assert_array_equal(fitted.fit_predict(X), fitted.labels_)
    rng = np.random.default_rng(0)
    assert (fitted.predict(X + 1e-3 * rng.normal(size=X.shape)) == fitted.labels_).mean() > 0.97
    assert_array_equal(pickle.loads(pickle.dumps(fitted)).predict(X), fitted.labels_)
    assert sum(fitted.evidence_["counts"]) == len(X)


def test_the_graph_finds_what_no_center_in_the_plane_does(moons):
    X, y = moons
    assert clustering_scores(y, KernelKMeans(2).fit(X).labels_)["accuracy"] > 0.99
    assert clustering_scores(y, KMeans(2, n_init=5, random_state=0).fit_predict(X))["accuracy"] < 0.9
    circles, ring = make_circles(400, factor=0.4, noise=0.04, random_state=0)
    assert clustering_scores(ring, KernelKMeans(2).fit(circles).labels_)["accuracy"] == 1


def test_a_graph_that_is_given_serves_and_copies_are_together(moons):
    X, _ = moons
    X = np.vstack([X, X[:30]])
    graph = KNNGraph(n_neighbors=8).build(X)
    fitted = KernelKMeans(2, graph=KNNGraph(n_neighbors=8))
    assert_array_equal(clone(fitted).fit(X, graph=graph).labels_, fitted.fit(X).labels_)
    assert_array_equal(fitted.labels_[:30], fitted.labels_[-30:])
    rows = KernelKMeans(2, graph=KNNGraph(n_neighbors=8)).fit(sparse.csr_array(X))
    assert_array_equal(rows.labels_, fitted.labels_)


def test_more_pieces_than_clusters():
    """Only the largest pieces are clustered; points of the others have no cluster, and new ones near them neither."""
    rng = np.random.default_rng(0)
    X = np.concatenate([place + 0.1 * rng.normal(size=(n, 2)) for place, n in ((0, 60), (10, 50), (20, 12))])
    with pytest.warns(UserWarning, match=r"12 of 122 points have no cluster"):
        fitted = KernelKMeans(2, graph=KNNGraph(n_neighbors=5)).fit(X)
    assert_array_equal(fitted.labels_, np.repeat([0, 1, -1], [60, 50, 12]))
    assert_array_equal(fitted.predict([[0.0, 0], [10, 10], [20, 20.01]]), [0, 1, -1])


@pytest.mark.parametrize(("rule", "feature_map", "bandwidth"), [
    ("eigengap", "graph", "median"), ("gap", "base", "median"), ("eigengap", "cluster", "0.25*median")])
@pytest.mark.slow_cases("gap-base-median")
def test_the_number_of_clusters(rule, feature_map, bandwidth, blobs):
    X, y = blobs
    fitted = KernelKMeans(rule, feature_map=feature_map, bandwidth=bandwidth, max_clusters=8).fit(X)
    assert fitted.n_clusters_ == 4
    assert clustering_scores(y, fitted.labels_)["accuracy"] > 0.97
    assert len(fitted.evidence_["chosen"]["spectrum" if rule == "eigengap" else "gaps"]) >= 8


@pytest.mark.parametrize("feature_map", ["base", "graph"])
def test_one_cluster(feature_map, blobs):
    X, _ = blobs
    fitted = KernelKMeans(1, feature_map=feature_map, graph=KNNGraph(n_neighbors=100)).fit(X)
    assert_array_equal(fitted.labels_, np.zeros(len(X)))
    assert_array_equal(fitted.predict(X[:7] + 0.01), np.zeros(7))


@pytest.mark.parametrize(("feature_map", "times"), [("base", 1), ("cluster", 2)])
def test_features_that_do_not_depend_on_the_number_of_clusters_are_made_once(feature_map, times, blobs, monkeypatch):
    made, plain = [], number_of_clusters.make_features
    monkeypatch.setattr(number_of_clusters, "make_features", lambda *given: made.append(given) or plain(*given))
    KernelKMeans("eigengap", feature_map=feature_map, bandwidth="0.25*median", max_clusters=8).fit(blobs[0])
    assert len(made) == times


@pytest.mark.parametrize("n", [2, 3, 5])
@pytest.mark.parametrize("rule", ["gap", "eigengap"])
def test_the_number_of_clusters_of_few_points(rule, n):
    fitted = KernelKMeans(rule, feature_map="base").fit(np.arange(2.0 * n).reshape(n, 2) ** 2)
    assert 1 <= fitted.n_clusters_ <= n
    assert_array_equal(fitted.predict(np.arange(2.0 * n).reshape(n, 2) ** 2), fitted.labels_)


def test_what_is_wrong(blobs):
    X, _ = blobs
    for given, message in (({"n_clusters": "elbow"}, "n_clusters='elbow'"), ({"n_clusters": 0}, "n_clusters=0"),
                           ({"n_clusters": 2.5}, "n_clusters=2.5"), ({"n_clusters": True}, "n_clusters=True"),
                           ({"feature_map": "plane"}, "feature_map='plane'"), ({"eta": -1.0}, "eta=-1"),
                           ({"n_init": 0}, "n_init=0"), ({"random_state": -1}, "random_state"),
                           ({"n_clusters": "gap", "max_clusters": 1}, "max_clusters=1"),
                           ({"n_landmarks": 0}, "n_landmarks=0")):
        with pytest.raises(ParameterError, match=message):
            KernelKMeans(**given).fit(X)
    with pytest.raises(DataError, match="n_clusters=241 of 240 points"):
        KernelKMeans(241).fit(X)
    with pytest.raises(DataError, match="points are equal"):
        KernelKMeans(2).fit(np.ones((9, 2)))
    with pytest.raises(ParameterError, match='feature_map="base"'):
        KernelKMeans(2, feature_map="base").fit(X, graph=KNNGraph().build(X))
    with pytest.raises(BudgetError):
        KernelKMeans(4, feature_map="base", memory_budget="1kB").fit(X)


def test_agreement_with_classes():
    assert clustering_scores([0, 0, 1, 1], [7, 7, 3, 3]) == {"accuracy": 1.0, "nmi": 1.0, "ari": 1.0}
    assert clustering_scores(["a", "a", "b", "b", "b"], [0, 0, 0, 1, 1])["accuracy"] == pytest.approx(0.8)
    assert clustering_scores([0, 0, 1, 1], [0, 1, 2, 3])["accuracy"] == 0.5  # one cluster a class
    assert clustering_scores([0, 0, 1, 1], [0, 0, -1, -1])["accuracy"] == 0.5  # no cluster is no agreement
    with pytest.raises(DataError, match="shape"):
        clustering_scores([0, 1], [0, 1, 1])
    for classes in (["a", None, "b"], [0.0, np.nan, 1.0]):
        with pytest.raises(DataError, match="1 of 3 points have no class"):
            clustering_scores(classes, [0, 1, 1])


@pytest.mark.parametrize(("feature_map", "model"), [("graph", "k-means in a kernel of the graph of all points"),
                                              ("base", "k-means in a kernel, from landmarks")])
def test_its_report_says_which_clusters_there_are(tmp_path, feature_map, model):
    X = make_blobs([40, 20], centers=[[0, 0], [9, 9]], random_state=0)[0]
    estimator = KernelKMeans(2, feature_map=feature_map)
    with pytest.raises(NotFittedError):
        estimator.report()
    html = estimator.fit(X).report(tmp_path / "clusters.html")
    assert (tmp_path / "clusters.html").read_text(encoding="utf-8") == html
    text = " ".join(re.sub("<[^>]*>", " ", html).split())
    assert "KernelKMeans 60 points" in text
    assert "The model found 2 clusters. Their sizes are 40, 20." in text
    assert model in text
    assert "The sizes of the clusters." in text
    assert 'aria-label="Number of points of each cluster: 2 bars"' in html


@pytest.mark.slow
@pytest.mark.parametrize("feature_map", ["graph", "base"])
@pytest.mark.extended_cases("base")
def test_scikit_learn_accepts_it(feature_map):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = check_estimator(KernelKMeans(2, feature_map=feature_map), on_fail=None, on_skip=None)
    assert [check for check in found if check["status"] == "failed"] == []

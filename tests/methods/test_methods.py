"""The steps of methods, run in memory by estimators, and what a fit says of itself."""

import pickle

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.datasets import make_moons
from sklearn.exceptions import NotFittedError
from threadpoolctl import threadpool_info, threadpool_limits

from dssl import (
    ClusterKernelSVC,
    GraphKernelRidge,
    GridSearch,
    LapKernelRidge,
    LaplaceLearning,
    LaplaceLearningRegressor,
    LapRLSClassifier,
    LapSVC,
    LapSVM,
    MultiscaleKernelClassifier,
    MultiscaleKernelRegressor,
    PoissonLearning,
    RegularizerParams,
    SemiSupervisedClassifier,
    SemiSupervisedRegressor,
    TransductiveSVC,
)
from dssl.execution.in_process import InProcess
from dssl.kernels.base import RBF
from dssl.learners.target.target import Classes, Quantities
from dssl.methods.automatic import AUTOMATIC
from dssl.methods.cluster import CLUSTER_KERNEL
from dssl.methods.deformed.method import DEFORMED_SVM
from dssl.methods.evaluation import MemoryWorkspace
from dssl.methods.graph.method import GRAPH_LEARNER
from dssl.methods.laprls.method import LAPRLS, LAPSVM
from dssl.methods.multiscale import MULTISCALE_KERNEL
from dssl.methods.step import Fit
from dssl.methods.transductive.method import TRANSDUCTIVE
from dssl.storage.csr import as_rows

from ..figures import unrendered

METHODS = {"cluster": (CLUSTER_KERNEL, ClusterKernelSVC(landmarks=100)),
           "multiscale": (MULTISCALE_KERNEL, MultiscaleKernelClassifier(n_landmarks=100)),
           "svm": (DEFORMED_SVM, LapSVC(n_landmarks=100)),
           "laprls": (LAPRLS, LapRLSClassifier(landmarks=100)), "lapsvm": (LAPSVM, LapSVM(landmarks=100)),
           "ridge on the graph": (GRAPH_LEARNER, GraphKernelRidge()), "harmonic": (GRAPH_LEARNER, LaplaceLearning()),
           "automatic": (AUTOMATIC, SemiSupervisedClassifier()),
           "transductive": (TRANSDUCTIVE, TransductiveSVC(landmarks=100))}


@pytest.fixture(scope="module", autouse=True)
def _figures():
    with unrendered():
        yield


@pytest.fixture(scope="module")
def moons():
    X, y = make_moons(300, noise=0.1, random_state=0)
    known, rng = np.full(300, -1), np.random.default_rng(0)
    for code in (0, 1):
        known[rng.choice(np.flatnonzero(y == code), 12, replace=False)] = code
    return X, y, known


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.extended_cases("laprls", "multiscale")
@pytest.mark.slow_cases("automatic")
def test_the_steps_of_a_method_make_what_its_estimator_predicts(moons, name):
    X, _, known = moons
    method, estimator = METHODS[name][0], clone(METHODS[name][1])
    graph = estimator.group("graph").build(X) if method.has_graph else None
    workspace = MemoryWorkspace(Fit(as_rows(X), Classes.of(known, np.array([0, 1])), graph=graph), InProcess(2))
    workspace.run(method.steps, estimator._params())
    assert list(workspace.artifacts) == [step.name for step in method.steps]
    model = workspace.fit.side.models["model"]
    fitted = estimator.set_params(scale="none").fit(X, known)
    assert_array_equal(model.predict(X), fitted.predict(X))
    assert_allclose(model.values(as_rows(X), InProcess(2)), fitted.model_.values(as_rows(X), InProcess(2)),
                    atol=1e-6)  # columns of labels that are held out end iterations of others later
    assert workspace.fit.side.models["base"].predict(X).shape == (300,)


@pytest.mark.slow
@pytest.mark.parametrize("name", METHODS)
@pytest.mark.extended_cases("multiscale")
def test_a_fit_says_whether_the_unlabeled_points_helped_and_writes_a_report(moons, name, tmp_path):
    X, _, known = moons
    fitted = clone(METHODS[name][1]).fit(X, known)
    found = fitted.by_labels_
    assert found["n"] == 24
    assert found["scores"]["model"]["error"] <= found["scores"]["base"]["error"]
    assert set(found["scores"]) == {"model", "base", "majority"}
    has_curve = name != "transductive"  # each point of it would take a fit
    assert len(found["curve"]) >= 1 + has_curve
    html = fitted.report(tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == html
    assert html.startswith("<!doctype html>")
    for text in ("Did the unlabeled data help?", "cross-validation", "24 labels", "276 unlabeled",
                 "Learning curve" if has_curve else "Transductive SVM"):
        assert text in html


def test_what_held_out_labels_say_is_computed_when_it_is_asked_for(moons):
    X, _, known = moons
    fitted = LapSVC(n_landmarks=100).fit(X, known)
    before = fitted.decision_function(X)
    with pytest.raises(NotFittedError, match="not asked for before the estimator was stored"):
        pickle.loads(pickle.dumps(fitted)).report()
    found = fitted.by_labels_
    assert pickle.loads(pickle.dumps(fitted)).by_labels_ == found
    assert_array_equal(fitted.decision_function(X), before)
    Y = np.where(known < 0, np.nan, known)
    assert LapKernelRidge(n_landmarks=100).fit(X, Y).by_labels_["scores"]["mean"]["rmse"] > 0.4


def test_a_kernel_that_is_a_function_has_a_report_too(moons):
    X, _, known = moons

    def kernel(X, Z):
        return RBF(0.3)(X, Z)

    fitted = ClusterKernelSVC(kernel, landmarks=100).fit(X, known)
    assert "Cluster kernel" in fitted.report()
    assert_array_equal(fitted.transduction_, ClusterKernelSVC(RBF(0.3), landmarks=100).fit(X, known).transduction_)
    assert "Solver" in LapSVC(kernel, n_landmarks=100).fit(X, known).report()


@pytest.mark.slow
def test_errors_of_several_quantities_are_not_compared(moons):
    X, y, known = moons
    Y = np.where(known[:, None] < 0, np.nan, np.stack([y, 2.0 - y], axis=1))
    fitted = MultiscaleKernelRegressor(n_landmarks=100).fit(X, Y)
    assert fitted.by_labels_ == {"n": 0, "why": "the errors of several quantities are not compared"}
    page = fitted.report()
    assert "It is not known how good the predictions are." in page
    assert "held-out labels cannot say it either: the errors of several quantities are not compared." in page
    assert "Find out how good the predictions are: compare them with values that you know." in page
    one = MultiscaleKernelRegressor(n_landmarks=100).fit(X, Y[:, 0])
    assert one.by_labels_["scores"]["model"]["rmse"] < 0.3


def test_weights_of_labels_and_of_classes_count_in_the_model_and_in_a_search(moons):
    X, _, known = moons
    weight = np.where(known == 0, 3.0, 1.0)
    estimator = ClusterKernelSVC(landmarks=100, C=0.1)
    weighed = estimator.fit(X, known, sample_weight=weight).decision_function(X)
    by_class = ClusterKernelSVC(landmarks=100, C=0.1, class_weight={0: 3.0, 1: 1.0}).fit(X, known).decision_function(X)
    assert_allclose(weighed, by_class)
    assert np.abs(weighed - estimator.fit(X, known).decision_function(X)).max() > 0.01
    grid = {"C": [0.001, 0.1]}
    searches = [GridSearch(ClusterKernelSVC(landmarks=100, class_weight=given), grid, cv=3, scoring="neg_log_loss",
                           refit=False).fit(X, known, sample_weight=own).cv_results_["log_loss"]
                for given, own in (({0: 3.0, 1: 1.0}, None), (None, weight), (None, None))]
    assert_allclose(searches[0], searches[1])
    assert np.abs(searches[0] - searches[2]).max() > 1e-4


def test_weights_are_given_to_steps_relative_to_their_mean():
    target = Quantities.of(np.array([1.0, 2.0, np.nan]))
    weight = np.array([1.0, 2.0])
    own = MULTISCALE_KERNEL.steps[0]
    workspace = MemoryWorkspace(Fit(as_rows(np.eye(3)), target, weight), InProcess(2))
    assert own.name == "basis"
    assert_allclose(workspace.context().label_weights(target, METHODS["cluster"][1]._params().weight), weight / 1.5)


class Alike:
    """A base kernel whose text does not tell it from another."""

    def __init__(self, bandwidth):
        self.kernel = RBF(bandwidth)

    def __call__(self, X, Z):
        return self.kernel(X, Z)

    def __repr__(self):
        return "a kernel"


def test_kernels_of_equal_texts_have_eigenpairs_of_their_own_in_a_search(moons):
    X, _, known = moons
    kernels = [Alike(0.2), Alike(2.0)]
    estimator, options = ClusterKernelSVC(landmarks=100), {"cv": 3, "refit": False, "scoring": "neg_log_loss"}
    both = GridSearch(estimator, {"kernel": kernels}, **options).fit(X, known).cv_results_["log_loss"]
    alone = [GridSearch(estimator, {"kernel": [kernel]}, **options).fit(X, known).cv_results_["log_loss"][0]
             for kernel in kernels]
    assert_allclose(both, alone)
    assert both[0] != both[1]


def test_solved_columns_are_gone_when_the_covariance_is_there(moons, monkeypatch):
    X, _, known = moons
    workspaces = []

    class Watched(MemoryWorkspace):
        def run(self, steps, params, keep=()):
            super().run(steps, params, keep)
            workspaces.append(self)

    monkeypatch.setattr("dssl.estimators.method.MemoryWorkspace", Watched)
    monkeypatch.setattr("dssl.methods.evaluation.MemoryWorkspace", Watched)
    fitted = LapSVC(n_landmarks=100).fit(X, known)
    GridSearch(LapSVC(n_landmarks=100), {"eta": [1.0, 10.0]}, cv=3, refit=False).fit(X, known)
    assert len(workspaces) == 2
    for made in workspaces:
        assert not made.artifacts["columns"].parts.receipts(1000)
        assert made.artifacts["covariance"].parts.read(0)
    assert fitted._begun[0].fit.graph is None  # what is kept for `by_labels_` is no graph, and no models
    assert not fitted._begun[0].fit.side.models


@pytest.mark.slow
def test_what_held_out_labels_say_changes_no_answer_of_the_graph(moons):
    X, _, known = moons
    for estimator in (PoissonLearning(), SemiSupervisedClassifier()):
        fitted = estimator.fit(X, known)
        before, values, evidence = fitted.predict_proba(X), fitted.transduction_, dict(fitted.evidence_)
        assert fitted._begun[0].fit.graph is not None  # fits without each label are on the graph
        assert fitted.by_labels_["n"] == 24
        assert fitted._begun is None
        assert_array_equal(fitted.predict_proba(X), before)
        assert_array_equal(fitted.transduction_, values)
        assert fitted.evidence_ == evidence
    assert fitted.by_labels_["scores"]["model"]["error"] == fitted.gain_.with_graph
    assert fitted.by_labels_["scores"]["base"]["error"] == fitted.gain_.baseline


@pytest.mark.slow
def test_known_class_sizes_and_quantities_of_the_graph_have_a_report(moons):
    X, y, known = moons
    for estimator in (LaplaceLearning(class_sizes=[1, 1]), SemiSupervisedClassifier(class_sizes=[1, 1])):
        fitted = estimator.fit(X, known)
        assert len(fitted.by_labels_["curve"]) == 1
        assert "class sizes given in the spec" in fitted.report()
    Y = np.where(known < 0, np.nan, y + X[:, 0])
    for estimator in (LaplaceLearningRegressor(), SemiSupervisedRegressor(loss="huber")):
        scores = estimator.fit(X, Y).by_labels_["scores"]
        assert scores["model"]["rmse"] < scores["mean"]["rmse"]


@pytest.mark.parametrize("power", [1, 3])
def test_a_report_names_the_power_of_the_regularizer(moons, power):
    X, _, known = moons
    fitted = LapSVC(n_landmarks=100, regularizer=RegularizerParams(power=power)).fit(X, known)
    assert fitted.evidence_["regularizer"]["power"] == power
    assert f"to the power {power}; " in fitted.report()


def test_the_learning_of_a_fit_takes_one_core(moons, monkeypatch):
    """Threads of BLAS that wait for one another took ten times the processor seconds of 300 labels."""
    X, _, known = moons
    threads = []

    def seen(self, execution):
        threads.extend(pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas")
        return {}

    monkeypatch.setattr(SemiSupervisedClassifier, "_learn", lambda self, *given: seen(self, given))
    monkeypatch.setattr(SemiSupervisedClassifier, "evidence_", {}, raising=False)
    with threadpool_limits(2):
        SemiSupervisedClassifier().fit(X, known)
        assert {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"} == {2}
    assert set(threads) == {1}

"""`GridSearch(workspace=...)`: what a search that was killed, or grew, makes, and that nothing is taken for other."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from threading import Timer

import numpy as np
import pytest
from joblib import parallel_backend
from numpy.testing import assert_array_equal
from sklearn.base import clone, is_regressor
from sklearn.model_selection import KFold, cross_val_score

from dssl import (
    GraphKernelRidge,
    GraphKernelRidgeRegressor,
    GridSearch,
    KNNGraph,
    LabeledKFold,
    LapKernelRidge,
    LaplaceLearning,
    LaplaceLearningRegressor,
    LapRLSClassifier,
    LapRLSRegressor,
    LapSVC,
    LapSVM,
    PoissonLearning,
    RegularizerParams,
    SystemParams,
)
from dssl.base.errors import IntegrityError, LockedError, ParameterError
from dssl.estimators import grid_search
from dssl.estimators.candidates import candidates_of, groups_of
from dssl.execution.in_process import InProcess
from dssl.learners.losses import SquaredHinge
from dssl.methods import evaluation
from dssl.storage.artifacts import Workspace
from dssl.storage.blocks import ArrayRows
from dssl.storage.lock import WaitsForLock

from ..methods.test_evaluation import evaluation as shared
from ..stored import stored
from .test_laprls import problem

pytestmark = [pytest.mark.slow]
GRID = {"graph__n_neighbors": [4, 8], "bandwidth": [2.0, 4.0], "gamma_A": [1e-3, "auto"], "gamma_I": [0, 1.0]}
DEFORMED = {"graph__n_neighbors": [4, 8], "bandwidth": [2.0, 4.0], "C": [1, 10.0], "eta": [0, 10.0]}
ON_GRAPH = {"graph__n_neighbors": [4, 8], "laplacian": ["normalized", "unnormalized"], "ridge": [None, (1e-3, 1e-2)],
            "penalty": [0.1, 1.0]}
SYSTEMS = {"graph__n_neighbors": [4, 8], "tol": [1e-5, 1e-6]}
LAPRLS = LapRLSClassifier(landmarks=40)


def same(one, other):
    assert one.best_params_ == other.best_params_
    assert one.cv_results_.keys() == other.cv_results_.keys()
    for name, column in one.cv_results_.items():
        assert_array_equal(column, other.cv_results_[name])


def counts(search):
    return search.n_fits_, search.n_graphs_, search.n_neighbor_searches_


def manifests(folder, stage="held_out"):
    return sorted(folder.glob(f"artifacts/{stage}/*/manifest.json"))


@pytest.mark.parametrize(("estimator", "grid"), [
    (LAPRLS, GRID), (LapSVC(n_landmarks=60), DEFORMED), (GraphKernelRidge(), ON_GRAPH), (PoissonLearning(), SYSTEMS),
    (LapSVM(landmarks=40), GRID), (LapRLSRegressor(landmarks=40), GRID), (LaplaceLearning(), SYSTEMS),
    (LapKernelRidge(n_landmarks=60), DEFORMED), (GraphKernelRidgeRegressor(), ON_GRAPH),
    (LaplaceLearningRegressor(), SYSTEMS)],
    ids=lambda given: "" if isinstance(given, dict) else type(given).__name__)
@pytest.mark.extended_cases("GraphKernelRidgeRegressor-", "LapKernelRidge-", "LapRLSRegressor-",
    "LapSVM-", "LaplaceLearningRegressor-")
def test_a_search_that_is_repeated_makes_nothing(estimator, grid, tmp_path):
    X, y, new = problem()
    if is_regressor(estimator):
        y = np.where(y >= 0, X[:, 0] + y, np.nan)
    plain = GridSearch(estimator, grid, cv=3).fit(X, y)
    first, again = (GridSearch(estimator, grid, cv=3, workspace=tmp_path).fit(X, y) for _ in range(2))
    assert counts(plain) == counts(first) == (4, 2, 1)
    assert counts(again) == (0, 0, 0)
    same(plain, first)
    same(plain, again)
    assert_array_equal(plain.predict(new), again.predict(new))
    assert Workspace.at(tmp_path).verify() == 6


def test_a_larger_grid_makes_what_is_new(tmp_path):
    X, y, _ = problem()

    def search(**more):
        grid = {**GRID, **more}
        found = GridSearch(LAPRLS, grid, cv=3, workspace=tmp_path).fit(X, y)
        same(found, GridSearch(LAPRLS, grid, cv=3).fit(X, y))
        return counts(found)

    assert search() == (4, 2, 1)
    assert search(bandwidth=[1.0, 2.0, 4.0]) == (2, 0, 0)
    assert search(graph__n_neighbors=[8, 12, 4]) == (2, 1, 1)
    assert search(graph__n_neighbors=[6]) == (2, 1, 1)
    assert search(gamma_A=[1e-3]) == (4, 0, 0)
    assert search(gamma_I=[0]) == (2, 0, 0)  # without a graph those of all graphs are one
    assert search(graph__weights=["binary"]) == (4, 2, 1)


def changed(what, X, y):
    """Return X, y, what `fit` and the search are given beside them, and whether the graph is another."""
    X, y, fit, search = X.copy(), y.copy(), {}, {}
    if what == "label":
        y[0] = (y[0] + 1) % 3
    elif what == "unlabeled":
        y[0] = -1
    elif what == "row":
        X[70, 2] += 1e-6
    elif what == "order":
        X[[60, 70]] = X[[70, 60]]
    elif what == "weight":
        fit["sample_weight"] = np.ones(len(X))
    elif what == "graph":
        fit["graph"] = KNNGraph(n_neighbors=8).build(X)
    else:
        search = {"folds": {"cv": 4}, "random_state": {"random_state": 1}, "scoring": {"scoring": "neg_brier_score"},
                  "estimator": {"estimator": LapSVM(landmarks=40)}, "splitter": {"cv": KFold(3)},
                  "dtype": {}}[what]
        X = X.astype(np.float32) if what == "dtype" else X
    return X, y, fit, search


@pytest.mark.parametrize("what", ["label", "unlabeled", "row", "order", "weight", "graph", "folds", "random_state",
                                  "scoring", "estimator", "splitter", "dtype"])
@pytest.mark.extended_cases("dtype", "order", "random_state", "splitter", "label", "weight")
def test_what_changed_is_not_served(what, tmp_path):
    X, y, _ = problem()
    grid = {"bandwidth": [2.0, 4.0], "gamma_I": [0.1, 1.0]}
    search = GridSearch(LAPRLS, grid, cv=3, workspace=tmp_path)
    search.fit(X, y)
    X, y, fit, params = changed(what, X, y)
    second = clone(search).set_params(**params).fit(X, y, **fit)
    assert second.n_fits_ == 2
    assert second.n_graphs_ == (what in ("row", "order", "dtype"))
    same(second, clone(second).set_params(workspace=None).fit(X, y, **fit))
    assert clone(second).fit(X, y, **fit).n_fits_ == 0


OTHERS = {"kernel": "laplacian", "bandwidth": 3.0, "C": 3.0, "eta": 3.0, "graph": KNNGraph(n_neighbors=3),
          "n_landmarks": 50, "tol": 1e-5, "scale": "unit_range", "unlabeled": 0, "random_state": 1,
          "gamma_A": 0.5, "gamma_I": 0.5, "landmarks": 30, "solver": "nystrom-pcg", "cv": 4,
          "fit_intercept": False, "loss": "logistic", "memory_budget": "2GiB",
          "regularizer": RegularizerParams(power=3), "class_prior": "equal", "class_weight": {0: 2.0}}


@pytest.mark.parametrize("kind", [LapSVC, LapKernelRidge, LapRLSClassifier, LapRLSRegressor, LapSVM])
def test_each_parameter_of_an_estimator_is_in_the_address(kind, tmp_path):
    cache = evaluation.ResultCache(Workspace.at(tmp_path), "points", "labels")

    def address(estimator):
        (_, group), = groups_of(candidates_of(estimator, {}, None, 0))
        return cache.scores(group, [0], "graph", [[np.arange(3)]], None).address

    class Newer(kind):
        method = replace(kind.method, steps=tuple(replace(step, version=step.version + (step.name == "selection"))
                                                  for step in kind.method.steps))

    assert address(Newer()) != address(kind())
    names, others = set(kind().get_params(deep=False)), OTHERS | ({"loss": "hinge"} if kind is LapSVC else {})
    unread = {"scale", "unlabeled", "graph", "cv"}  # of points, labels, graphs and folds, which are there themselves
    budget = set() if "landmarks" in names else {"memory_budget"}  # it counts landmarks, and no larger draw of them
    same_address = {name for name in names if address(kind(**{name: others[name]})) == address(kind())}
    assert same_address == names & (unread | budget)


def test_a_graph_of_an_approximate_search_is_named_by_that_search(tmp_path):
    X, cache = ArrayRows(np.zeros((30_000, 2))), evaluation.ResultCache(Workspace.at(tmp_path), "points", "labels")

    def address(method, *n_neighbors):
        family = [KNNGraph(n_neighbors=k, method=method) for k in n_neighbors]
        return shared(X, family, InProcess(1), cache).artifact(family[0]).address

    for method in ("descent", "auto"):
        assert address(method, 5, 10) != address(method, 5, 20)
    assert address("exact", 5, 10) == address("exact", 5, 20) != address("exact", 10, 20)


# Damage


@pytest.fixture
def finished(tmp_path):
    X, y, _ = problem()
    search = GridSearch(LAPRLS, {**GRID, "bandwidth": [2.0]}, cv=3, workspace=tmp_path)
    return search.fit(X, y), X, y, tmp_path


def test_without_its_manifest_an_artifact_is_made_again(finished):
    search, X, y, folder = finished
    manifests(folder)[0].unlink()
    again = clone(search).fit(X, y)
    assert counts(again) == (1, 0, 0)
    same(again, search)
    for path in manifests(folder, "knn_graph"):
        path.unlink()
        shutil.rmtree(stored(path.parent, "parts"))  # receipts without arrays
    manifests(folder)[0].unlink()
    same(clone(search).fit(X, y), search)  # these parts are not finished


@pytest.mark.parametrize("stage", ["held_out", "knn_graph"])
@pytest.mark.parametrize("how", ["flipped", "cut"])
def test_a_damaged_manifest_is_refused(finished, stage, how):
    search, X, y, folder = finished
    for path in manifests(folder, stage):
        text = path.read_text()
        path.write_text(text[:len(text) // 2] if how == "cut" else text.replace("0", "1", 1))
    if stage == "knn_graph":
        shutil.rmtree(folder / "artifacts" / "held_out")
    with pytest.raises(IntegrityError, match=r"delete .* and run again"):
        clone(search).fit(X, y)
    shutil.rmtree(folder / "artifacts" / stage)
    same(clone(search).fit(X, y), search)


def test_a_damaged_chunk_of_a_graph_is_refused(finished):
    search, X, y, folder = finished
    for path in folder.glob("artifacts/knn_graph/*/*/parts/000000/*/data/c/0"):
        content = bytearray(path.read_bytes())
        content[len(content) // 2] ^= 1
        path.write_bytes(content)
    shutil.rmtree(folder / "artifacts" / "held_out")
    with pytest.raises(IntegrityError, match=r"delete \S*knn_graph\S* and run again"):
        clone(search).fit(X, y)


# Killed, and side by side

SCRIPT = """
import sys
from dssl import GridSearch, LapRLSClassifier
from tests.estimators.test_laprls import problem
from tests.estimators.test_search_workspace import MANY
X, y, _ = problem()
GridSearch(LapRLSClassifier(landmarks=40), MANY, cv=3, workspace=sys.argv[1]).fit(X, y)
"""
MANY = {**GRID, "graph__n_neighbors": [3, 4, 6, 8], "bandwidth": [1.0, 2.0, 3.0, 4.0]}


def test_a_search_that_is_killed_goes_on(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(tmp_path)], stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        while len(manifests(tmp_path)) < 4:
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < deadline
            time.sleep(0.002)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    tables, graphs = len(manifests(tmp_path)), len(manifests(tmp_path, "knn_graph"))
    assert 4 <= tables < 16
    X, y, _ = problem()
    search = GridSearch(LAPRLS, MANY, cv=3, workspace=tmp_path).fit(X, y)
    assert counts(search) == (16 - tables, 4 - graphs, 0)  # the search for most neighbors had come first
    same(search, GridSearch(LAPRLS, MANY, cv=3).fit(X, y))
    assert Workspace.at(tmp_path).verify() == 20


@pytest.mark.cluster
def test_workers_use_what_threads_have_made(tmp_path, cluster_client):
    X, y, _ = problem()
    search = GridSearch(LAPRLS, {**GRID, "bandwidth": [2.0]}, cv=3, workspace=tmp_path).fit(X, y)
    with cluster_client.as_current():
        assert counts(clone(search).fit(X, y)) == (0, 0, 0)
        more = clone(search).set_params(param_grid={**GRID, "graph__n_neighbors": [4, 6, 10]}).fit(X, y)
    assert counts(more) == (5, 2, 1)
    same(more, clone(more).set_params(workspace=None).fit(X, y))


def test_two_searches_do_not_write_at_once(tmp_path, monkeypatch):
    X, y, _ = problem()
    search = GridSearch(LAPRLS, {"gamma_I": [0, 1.0]}, cv=3, workspace=tmp_path)
    lock = Workspace.at(tmp_path).lock().__enter__()
    Timer(1.0, lock.__exit__).start()
    begin = time.monotonic()
    with pytest.warns(WaitsForLock, match=f"process {os.getpid()} on .* waiting for it"):
        search.fit(X, y)
    assert time.monotonic() - begin > 1
    monkeypatch.setattr(grid_search, "LONGEST_WAIT", 0.3)
    with Workspace.at(tmp_path).lock(), pytest.raises(LockedError, match=f"process {os.getpid()}"), pytest.warns(
            WaitsForLock):
        search.fit(X, y)


@pytest.mark.filterwarnings("ignore::dssl.storage.lock.WaitsForLock")
def test_searches_of_a_cross_validation_take_turns(tmp_path):
    X, y, _ = problem()
    search = GridSearch(LAPRLS, {"gamma_I": [0, 1.0]}, cv=3, workspace=tmp_path)
    with parallel_backend("threading"):
        scores = cross_val_score(search, X, y, cv=LabeledKFold(3), n_jobs=2, error_score="raise")
    assert_array_equal(scores, cross_val_score(clone(search).set_params(workspace=None), X, y, cv=LabeledKFold(3)))


def test_halving_goes_on_too(tmp_path):
    X, y, _ = problem()
    grid = {"eta": [1, 10], "bandwidth": [1.0, 2.0, 4.0], "graph__n_neighbors": [4, 8]}
    search = GridSearch(LapSVC(n_landmarks=60), grid, cv=6, factor=3, workspace=tmp_path).fit(X, y)
    again = clone(search).fit(X, y)
    assert counts(again) == (0, 0, 0)
    same(again, search)
    same(search, clone(search).set_params(workspace=None).fit(X, y))
    manifests(tmp_path)[0].unlink()
    assert clone(search).fit(X, y).n_fits_ == 1


@pytest.mark.parametrize(("params", "says"), [
    ({"kernel": lambda X, Z: X @ Z.T}, "nothing tells what a function does"),
    ({"loss": type("Own", (SquaredHinge,), {"__module__": "own"})()}, "loss=")])
def test_what_has_no_name_is_refused(params, says, tmp_path):
    X, y, _ = problem()
    for search in (GridSearch(LapSVM(**params), {"gamma_A": [1.0]}, workspace=tmp_path),
                   GridSearch(LapSVM(), {name: [value] for name, value in params.items()}, workspace=tmp_path)):
        with pytest.raises(ParameterError, match=says):
            search.fit(X, y)
    assert not list(tmp_path.iterdir())
    GridSearch(LapSVM(loss=SquaredHinge(), solver=SystemParams()), {}, workspace=f"file://{tmp_path}").fit(X, y)
    assert len(manifests(tmp_path)) == 1
    with pytest.raises(ParameterError, match=re.escape("ftp://host")):
        GridSearch(LapSVM(), {}, workspace="ftp://host/search").fit(X, y)

"""A saved estimator answers as the one that was fitted, bit for bit, and its file holds no pickle."""

import json
import pickle
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster
from numpy.testing import assert_array_equal
from scipy import sparse
from sklearn.datasets import make_blobs
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression

import dssl
from dssl import KNNGraph
from dssl.base.errors import DataError, IntegrityError, ParameterError
from dssl.estimators import saved
from dssl.kernels.base import RBF

X, CODES = make_blobs(160, 4, centers=3, cluster_std=3.0, random_state=0)
X[:, 0] *= 30  # scaled
NEW = np.concatenate([X[:5], X[:40] + np.random.default_rng(0).normal(0, 0.5, (40, 4))])
LABELED = np.arange(160) % 8 == 0
CLASSES = np.where(LABELED, np.array(["owl", "cat", "dog"])[CODES], "")
TARGETS = np.where(LABELED, X[:, 1] + CODES, np.nan)
TAGS = np.where(LABELED[:, None], np.column_stack([CODES > 0, CODES < 2]), -1)
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of few labels, and points out of range

CASES = {
    "automatic": (dssl.SemiSupervisedClassifier(), CLASSES),
    "automatic of boosting": (dssl.SemiSupervisedClassifier(base_estimator="logistic"), CLASSES),
    "automatic regressor": (dssl.SemiSupervisedRegressor(), TARGETS),
    "tags": (dssl.GraphKernelRidge(), TAGS),
    "graph": (dssl.GraphKernelRidge(graph=KNNGraph(metric="manhattan", weights="heat")), CLASSES),
    "graph regressor": (dssl.GraphKernelRidgeRegressor(), TARGETS),
    "laplace": (dssl.LaplaceLearning(), CLASSES), "laplace regressor": (dssl.LaplaceLearningRegressor(), TARGETS),
    "poisson": (dssl.PoissonLearning(), CLASSES),
    "svc": (dssl.LapSVC(RBF(2.0)), CLASSES), "ridge": (dssl.LapKernelRidge(), TARGETS),
    "laprls": (dssl.LapRLSClassifier(), CLASSES), "laprls regressor": (dssl.LapRLSRegressor(), TARGETS),
    "lapsvm": (dssl.LapSVM(), CLASSES), "transductive": (dssl.TransductiveSVC(), CLASSES),
    "cluster": (dssl.ClusterKernelSVC(), CLASSES),
    "multiscale": (dssl.MultiscaleKernelClassifier(), CLASSES),
    "multiscale regressor": (dssl.MultiscaleKernelRegressor(), TARGETS),
    "k-means": (dssl.KernelKMeans(), None), "cluster features": (dssl.ClusterKernelFeatures(), None),
    "neighbors": (dssl.NeighborTransformer(), None),
    "grid": (dssl.GridSearch(dssl.LapSVC(), {"eta": [0.1, 1.0]}), CLASSES),
}


def answers(model, new=NEW):
    """Return all that a fitted estimator says, by name."""
    said = {name: getattr(model, name)(new) for name in ("predict", "predict_proba", "decision_function", "transform",
                                                         "support") if hasattr(model, name)}
    said |= {name: getattr(model, name) for name in ("transduction_", "classes_", "labels_") if hasattr(model, name)}
    return {name: value.toarray() if sparse.issparse(value) else value for name, value in said.items()}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.extended_cases("multiscale regressor", "laprls regressor", "automatic of boosting", "graph regressor")
@pytest.mark.slow_cases(
    "automatic", "automatic regressor", "tags", "graph", "laplace", "svc", "laprls", "lapsvm", "transductive",
    "cluster", "multiscale")
def test_a_loaded_estimator_gives_the_same_bits(name, tmp_path):
    model, y = CASES[name]
    model.fit(X, y) if y is not None else model.fit(X)
    before = answers(model)
    path = model.save(tmp_path / "model.dssl")
    loaded = dssl.load(path)
    assert type(loaded) is type(model)
    after = answers(loaded)
    assert before.keys() == after.keys()
    for each, value in before.items():
        assert_array_equal(after[each], value, err_msg=each)
        assert after[each].dtype == value.dtype
    assert repr(loaded.get_params()) == repr(model.get_params())
    assert repr(getattr(loaded, "evidence_", 0)) == repr(getattr(model, "evidence_", 0))
    if hasattr(model, "report"):
        model, loaded = (getattr(each, "estimators_", [each])[0] for each in (model, loaded))
        assert loaded.report() == model.report()
    copied = answers(dssl.load(dssl.load(path).save(tmp_path / "again.dssl")))
    for each, value in before.items():
        assert_array_equal(copied[each], value, err_msg=each)
    with zipfile.ZipFile(path) as archive:
        assert {member.rpartition(".")[2] for member in archive.namelist()} == {"json", "npy"}
        json.loads(archive.read("estimator.json"), parse_constant=pytest.fail)


@pytest.mark.slow
def test_columns_by_name_sparse_points_and_suggestions(tmp_path):
    table = pd.DataFrame(X, columns=list("abcd"))
    model = dssl.SemiSupervisedClassifier().fit(table, CLASSES)
    loaded = dssl.load(model.save(tmp_path / "m"))
    assert_array_equal(loaded.predict(table[list("dcba")]), model.predict(table))
    first, second = (dssl.suggest_labels(table, CLASSES, model=each, count=3) for each in (model, loaded))
    assert_array_equal(first.ids, second.ids)
    rare = sparse.csr_matrix(np.where(X > 0, X, 0))
    model = dssl.LapSVC().fit(rare, CLASSES)
    assert_array_equal(dssl.load(model.save(tmp_path / "m")).predict_proba(rare), model.predict_proba(rare))


def test_without_a_report_the_comparison_is_not_made(tmp_path):
    model = dssl.LapSVC().fit(X, CLASSES)
    loaded = dssl.load(model.save(tmp_path / "m", report=False))
    assert model._by_labels is None
    with pytest.raises(NotFittedError, match="report"):
        loaded.report()


def test_what_cannot_be_saved_is_named_before_anything_is_computed(tmp_path):
    model = dssl.SemiSupervisedClassifier(base_estimator=LogisticRegression()).fit(X, CLASSES)
    with pytest.raises(ParameterError, match=r"(?s)base_estimator is a LogisticRegression.*by name"):
        model.save(tmp_path / "m")
    assert model._by_labels is None
    assert not list(tmp_path.iterdir())
    with pytest.raises(NotFittedError):
        dssl.LapSVC().save(tmp_path / "m")
    with pytest.raises(ParameterError, match="no folder"):
        model.save(tmp_path / "none" / "m")


def test_what_save_did_not_write_is_not_replaced(tmp_path):
    model, table = dssl.LapSVC().fit(X, CLASSES), tmp_path / "table.csv"
    table.write_text("a,b")
    for path in (table, model.export(tmp_path / "m.zip")):
        with pytest.raises(ParameterError, match=r"(?s)cannot be recognized as saved estimators.*overwrite=True"):
            model.save(path, report=False)
    assert table.read_text() == "a,b"
    for overwrite in (False, True):
        with pytest.raises(ParameterError, match="is a folder"):
            model.save(tmp_path, report=False, overwrite=overwrite)
    assert dssl.load(model.save(table, report=False, overwrite=True)).predict(X[:1]) == model.predict(X[:1])
    path = model.save(tmp_path / "m.dssl", report=False)
    assert model.save(path, report=False) == path


@pytest.mark.parametrize("change", [
    lambda tree: tree.pop("estimator"), lambda tree: tree["estimator"].update(state={"C": {"_init__": 1}}),
    lambda tree: tree["estimator"].update(state={"C": {}}), lambda tree: tree["estimator"].pop("state"),
    lambda tree: tree["estimator"].update(state={"C": {"array": "none"}})])
def test_a_tree_whose_parts_do_not_fit_is_damaged(change, tmp_path):
    path, changed = dssl.LapSVC().fit(X, CLASSES).save(tmp_path / "m.zip", report=False), tmp_path / "changed.zip"
    with zipfile.ZipFile(path) as archive, zipfile.ZipFile(changed, "w") as out:
        for name in archive.namelist():
            text = archive.read(name)
            if name == saved.TREE:
                change(tree := json.loads(text))
                text = json.dumps(tree)
            out.writestr(name, text)
    with pytest.raises(IntegrityError, match=r"is damaged|of another form"):
        dssl.load(changed)


def test_files_of_another_kind_or_version_are_refused(tmp_path, monkeypatch):
    model, path = dssl.LapSVC().fit(X, CLASSES), tmp_path / "m.zip"
    with pytest.raises(DataError, match="does not exist"):
        dssl.load(path)
    path.write_bytes(pickle.dumps(model))
    with pytest.raises(DataError, match="a zip of JSON and arrays"):
        dssl.load(path)
    model.export(path, overwrite=True)
    with pytest.raises(DataError, match=r"dssl_model\.load"):
        dssl.load(path)
    path.unlink()
    monkeypatch.setattr(saved, "FORMAT", saved.FORMAT + 1)
    model.save(path, report=False)
    monkeypatch.undo()
    with pytest.raises(IntegrityError, match=r"(?s)has format 2.*install dssl"):
        dssl.load(path)
    model.save(path, report=False)
    whole = path.read_bytes()
    damaged = bytearray(whole)
    damaged[len(whole) // 3] ^= 1
    path.write_bytes(damaged)
    with pytest.raises(IntegrityError, match="damaged"):
        dssl.load(path)


@pytest.mark.parametrize("named", ["os:system", "sklearn.linear_model:LogisticRegression", "dssl.none:X",
                                   "dssl.estimators.saved:_Writer", "dssl.kernels.base:RBF"])
def test_a_file_makes_nothing_but_estimators_and_dataclasses_of_dssl(named, tmp_path):
    path = tmp_path / "m"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("estimator.json", json.dumps({"format": 1, "dssl": "9.9", "estimator": {
            "object": named, "state": {"unlike": 1}}}))
    with pytest.raises(IntegrityError, match="of another form"):
        dssl.load(path)


@pytest.mark.slow
def test_a_run_is_loaded_by_its_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.savez("points.npz", X=X, y=CODES)
    result = dssl.run({"name": "points", "data": {"source": "points.npz"}, "labels": {"per_class": 5},
                       "model": {"kind": "graph"}})
    for path in (result.folder, result.folder / "result.json"):
        assert_array_equal(dssl.load(path).predict(NEW), result.predict(NEW))


@pytest.mark.slow
def test_another_process_loads_them_without_pipelines(tmp_path):
    for name in ("tags", "k-means", "multiscale", "automatic"):
        model, y = CASES[name]
        model.fit(X, y).save(tmp_path / name, report=False)
        code = "import dssl, numpy as np, sys; print(dssl.load(sys.argv[1]).predict(np.load(sys.argv[2])).tolist(), " \
               "'pydantic' in sys.modules)"
        np.save(tmp_path / "new.npy", NEW)
        done = subprocess.run([sys.executable, "-W", "ignore", "-c", code, tmp_path / name, tmp_path / "new.npy"],
                              capture_output=True, text=True, check=True)
        assert done.stdout == f"{model.predict(NEW).tolist()} False\n"


def test_arrays_of_every_kind_come_back(tmp_path):
    values = [np.arange(6).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3)), np.array(["a", None, 3]),
              np.array([], np.float32), np.float32(1.5), np.nan, -np.inf, (1, [2, {"three": 3, 4: None}]),
              np.bool_(True), np.ma.masked_array([1, 2], [True, False]), np.dtype(">f4"), np.array(5), "text", True,
              np.array(["2020-01-01"], "datetime64[D]"), np.arange(10)[::-2]]
    search = dssl.GridSearch(dssl.LapSVC(), {"eta": values})
    search.cv_results_ = {}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        loaded = dssl.load(search.save(tmp_path / "m")).param_grid["eta"]
    for value, back in zip(values, loaded, strict=True):
        assert type(back) is type(value)
        assert repr(back) == repr(value)
        if isinstance(value, np.ndarray) and value.flags.forc:
            assert back.flags.f_contiguous == value.flags.f_contiguous


def test_an_estimator_outlives_the_client_that_it_was_fitted_on(tmp_path):
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=False, dashboard_address=None,
                      silence_logs=50) as cluster, Client(cluster):
        model = dssl.GraphKernelRidge().fit(X, CLASSES)
    assert_array_equal(dssl.load(model.save(tmp_path / "m")).transduction_, model.transduction_)
    assert model.by_labels_["scores"] == dssl.GraphKernelRidge().fit(X, CLASSES).by_labels_["scores"]

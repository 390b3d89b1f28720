"""The pipelines of `model.kind: automatic`: what they find, that estimators find the same, and what they refuse."""

import json
import time

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs
from sklearn.metrics import log_loss, roc_auc_score

from dssl import GraphKernelRidge, SemiSupervisedClassifier, SemiSupervisedRegressor, plan
from dssl.base.errors import ParameterError, SpecError
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask
from dssl.learners.on_graph import automatic
from dssl.methods import automatic as methods_automatic
from dssl.methods.step import Context
from dssl.pipeline.load import load_spec
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.storage.artifacts import parts_in
from dssl.storage.blocks import ArrayRows
from tests.supported import predict_supported

from .split_arrays import split_arrays


@pytest.fixture(scope="module")
def digits_file(tmp_path_factory):
    """An npz file of 700 digits (700, 64)."""
    X, y = load_digits(return_X_y=True)
    path = tmp_path_factory.mktemp("digits") / "digits.npz"
    np.savez(path, X=X[:700], y=y[:700])
    return path


def automatic_spec(source, labels=None, task="classification", scale=None, **model):
    data = {"source": str(source), "task": task, "test": {"count": 100}, **({"scale": scale} if scale else {})}
    return {"name": "small", "data": data, "labels": labels or {"per_class": 4},
            "model": {"kind": "automatic", **model}}


def shown(workspace, source):
    """Return the raw training points, and the labels that were shown, as an estimator takes them."""
    artifacts = workspace / "artifacts"
    train = split_arrays(next((artifacts / "split").iterdir()))["train"]
    labels = parts_in(next((artifacts / "labels").iterdir())).read(0)
    known = labels.get("codes", labels.get("values"))
    y = np.full(len(train), -1 if "codes" in labels else np.nan)
    y[labels["labeled"]] = known
    with np.load(source) as arrays:
        return arrays["X"][train].astype(np.float32), y.astype(known.dtype), train


@pytest.mark.slow
def test_the_baseline_is_what_the_labels_alone_say(digits_file, tmp_path):
    spec = {**automatic_spec(digits_file, random_state=3), "graph": {"random_state": 3}}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    X, y, train = shown(tmp_path, digits_file)
    own = SemiSupervisedClassifier(random_state=3).fit(X, y)
    with np.load(digits_file) as arrays:
        split = split_arrays(next((tmp_path / "artifacts" / "split").iterdir()))
        test, true = arrays["X"][split["test"]].astype(np.float32), arrays["y"][split["test"]]
        unseen = arrays["y"][train][y < 0]
    assert result.transductive["error"] == pytest.approx((own.transduction_[y < 0] != unseen).mean())
    assert result.metrics["error"] < min(one["error"] for one in result.baselines.values())
    assert set(result.baselines) == {"base", "nearest", "majority"}
    assert set(result.gain) == {"over_base", "over_nearest", "over_majority", "unlabeled_data", "by_labels"}
    alone = own.model_.supervised.predict(own.scaling_.transform(test))
    assert result.baselines["base"]["error"] == pytest.approx((alone != true).mean())
    scores = own.decision_function(test)
    areas = [roc_auc_score(true == name, scores[:, code]) for code, name in enumerate(own.classes_)]
    assert result.metrics["roc_auc"] == pytest.approx(np.mean(areas), abs=1e-4)
    assert result.metrics["log_loss"] == pytest.approx(log_loss(true, own.predict_proba(test)), rel=1e-3)
    assert result.baselines["base"]["roc_auc"] > 0.5
    assert (result.baselines["majority"]["roc_auc"], result.baselines["majority"]["log_loss"]) == (None, None)
    assert {stage.status for stage in run(spec, workspace=tmp_path, execution=InProcess(1)).stages} == {"cached"}


def test_the_choice_is_that_of_the_configured_budget_and_not_of_the_machine(digits_file, tmp_path):
    """What it chooses is in `tests/estimators/test_automatic.py`."""
    def address(budget, **configured):
        made = plan({**automatic_spec(digits_file), **configured}, workspace=tmp_path, memory_budget=budget)
        return made.artifact("models").address

    assert address(1 << 30) == address(32 << 20)
    assert address(1 << 30, memory_budget="20MB") != address(1 << 30)


@pytest.mark.slow
def test_many_labels_take_one_system(digits_file, tmp_path, monkeypatch):
    monkeypatch.setattr(automatic, "MAX_LABELS", 200)
    result = run(automatic_spec(digits_file, labels={"fraction": 0.5}), workspace=tmp_path, execution=InProcess(1))
    assert "harmonic functions on the graph" in (tmp_path / "runs" / result.run / "report.html").read_text()
    with pytest.raises(ParameterError, match="class_sizes with"):
        run(automatic_spec(digits_file, labels={"fraction": 0.5}, class_sizes=[1] * 10), workspace=tmp_path,
            execution=InProcess(1))


@pytest.mark.slow
def test_quantities(tmp_path):
    X, _ = make_blobs(300, n_features=4, centers=3, cluster_std=3.0, random_state=0)
    np.savez(tmp_path / "values.npz", X=X, y=X[:, 0] + 0.1 * X[:, 1]**2)
    spec = automatic_spec(tmp_path / "values.npz", {"count": 60}, "regression")
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert result.metrics["rmse"] < 0.5 * result.metrics["deviation"]
    X, y, _ = shown(tmp_path, tmp_path / "values.npz")
    own = SemiSupervisedRegressor().fit(X, y)
    np.testing.assert_allclose(open_model(result.model_path).predict(ArrayRows(X)), own.transduction_, rtol=1e-5)


@pytest.mark.slow
@pytest.mark.extended
def test_the_scale_is_chosen_by_ranges_and_by_labels_or_given(digits_file, tmp_path):
    with np.load(digits_file) as arrays:
        X, y = arrays["X"] * np.where(np.arange(64) % 2, 1000.0, 1.0), arrays["y"]
    np.savez(tmp_path / "wide.npz", X=X, y=y)
    for scale, source, expected in ((None, digits_file, ("none",)), (None, tmp_path / "wide.npz", (
            "standardize", "unit_range", "auto")), ("unit_norm", digits_file, ("unit_norm",))):
        workspace = tmp_path / expected[0]
        result = run(automatic_spec(source, {"per_class": 6}, scale=scale), workspace=workspace, execution=InProcess(1))
        described = json.loads(next((workspace / "artifacts" / "points").glob("*/manifest.json")).read_text())
        assert described["attributes"]["scaling"]["kind"] in expected
        assert ("scale" in described["attributes"]) == (scale is None)
        page = (workspace / "runs" / result.run / "report.html").read_text()
        assert ("leave-one-out squared error on the labels, by scaling" in page) == (scale is None)


@pytest.mark.slow
def test_sparse_points(tmp_path):
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1], 200)
    X = sparse.csr_matrix(rng.poisson(np.where((np.arange(60) % 2 == y[:, None]), 0.6, 0.15)).astype(np.float32))
    np.savez(tmp_path / "sparse.npz", data=X.data, indices=X.indices, indptr=X.indptr, shape=X.shape, y=y)
    spec = automatic_spec(tmp_path / "sparse.npz", {"per_class": 30})
    spec["data"]["read"] = {"sparse": True}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert result.metrics["error"] < 0.2
    described = json.loads(next((tmp_path / "artifacts" / "points").glob("*/manifest.json")).read_text())["attributes"]
    assert set(described["scale"]["label_losses"]) <= {"none", "max_abs", "unit_norm"}


@pytest.mark.slow
def test_points_that_no_label_reaches_are_predicted_by_the_labels_alone(tmp_path):
    X, y = make_blobs([60, 60, 20], centers=[[0, 0], [9, 0], [90, 90]], shuffle=False, random_state=0)
    np.savez(tmp_path / "islands.npz", X=X, y=np.where(y == 2, -1, y))
    spec = automatic_spec(tmp_path / "islands.npz", {"per_class": 3})
    spec["data"] |= {"unlabeled": -1, "test": {"count": 20}, "scale": "none"}
    spec["graph"] = {"n_neighbors": 5}
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert result.unreachable["count"] > 0
    assert result.unreachable["handled"] == "supervised baseline"
    assert result.metrics["error"] == 0
    fitted = open_model(result.model_path)
    labels, supported = predict_supported(fitted, ArrayRows(X.astype(np.float32)))
    assert supported.all()
    assert set(labels) == {0, 1}
    page = (tmp_path / "runs" / result.run / "report.html").read_text()
    assert "the supervised baseline predicts them" in page


@pytest.mark.parametrize(("change", "message"), [
    ({"kernel": {"name": "rbf"}}, "kernel: model.kind is automatic, which has no use for it"),
    ({"selection": {"cv": 2}}, "selection: model.kind is automatic, which has no use for it"),
    ({"baselines": ["base"]}, "baselines: model.kind is automatic, which has no use for it"),
    ({"model": {"kind": "automatic", "C": 10}}, "model.C: model.kind is automatic, which has no use for it"),
    ({"data": {"source": "digits", "scale": "centered"}}, "data.scale"),
    ({"data": {"source": "digits", "task": "clustering"}}, "that kind serves classification and regression"),
    ({"data": {"source": "digits", "task": "regression"}, "labels": {"count": 9},
      "model": {"kind": "automatic", "class_sizes": [1, 2]}}, "quantities have no classes"),
    ({"model": {"kind": "automatic", "loss": "huber"}}, "loss huber"),
    ({"model": {"kind": "automatic", "base_estimator": "ridge"}}, "base_estimator: ridge, and data"),
])
def test_what_is_not_its_own_is_refused(change, message):
    spec = {"name": "small", "data": {"source": "digits"}, "labels": {"per_class": 2}, "model": {"kind": "automatic"}}
    with pytest.raises(SpecError, match=message):
        load_spec({**spec, **change})
    assert load_spec(spec).scaling is None
    of_quantities = {**spec, "data": {"source": "digits", "task": "regression"}, "labels": {"count": 9}}
    assert load_spec({**of_quantities, "model": {"kind": "automatic", "loss": "huber"}}).model.loss == "huber"


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["automatic", "graph"])
@pytest.mark.extended_cases("graph")
def test_another_model_is_that_of_the_estimator(digits_file, tmp_path, kind):
    """A spec's base estimator counts as the estimator's does; a second run reads it, and the plan counts its tasks."""
    spec = automatic_spec(digits_file, kind=kind, base_estimator="logistic")
    plain = automatic_spec(digits_file, kind=kind)
    step = "models" if kind == "automatic" else "vertex_values"
    figures = [{row["name"]: row for row in plan(each, workspace=tmp_path).records()}[step]["tasks"]
               for each in (plain, spec)]
    assert figures[1] > figures[0]
    result = run(spec, workspace=tmp_path, execution=InProcess(1))
    X, y, train = shown(tmp_path, digits_file)
    own = {"automatic": SemiSupervisedClassifier, "graph": GraphKernelRidge}[kind](base_estimator="logistic",
                                                                                 class_prior="equal").fit(X, y)
    with np.load(digits_file) as arrays:
        unseen = arrays["y"][train][y < 0]
    assert result.transductive["error"] == pytest.approx((own.transduction_[y < 0] != unseen).mean())
    again = run(spec, workspace=tmp_path, execution=InProcess(1))
    assert again.metrics == result.metrics
    assert "by it alone" in result.report.read_text() or "for the other model alone" in result.report.read_text()


@pytest.mark.cluster
def test_an_error_beside_the_writing_of_models_waits_for_it_and_the_next_run_goes_on(digits_file, cluster_client,
                                                                                    tmp_path, monkeypatch):
    spec, execution, ended = automatic_spec(digits_file), OnDask(cluster_client), []
    write = Context.write_models

    def slowly(context, models):
        described = write(context, models)
        time.sleep(0.5)
        ended.append(True)
        return described

    with monkeypatch.context() as patched:
        patched.setattr(Context, "write_models", slowly)
        patched.setattr(methods_automatic, "_evidence", lambda *arguments: 1 // 0)
        with pytest.raises(ZeroDivisionError):
            run(spec, workspace=tmp_path / "work", execution=execution)
    assert ended
    result = run(spec, workspace=tmp_path / "work", execution=execution)
    assert next(stage.name for stage in result.stages if stage.status == "done") == "models"
    once = run(spec, workspace=tmp_path / "once", execution=InProcess(1))
    assert result.metrics == once.metrics

"""A pipeline that predicts quantities: what it finds, what it refuses, and that classifications are left alone."""

import json

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from numpy.testing import assert_allclose
from scipy.stats import ttest_rel

from dssl.base.errors import DataError, SpecError
from dssl.cli.main import main
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.storage.artifacts import parts_in

from .split_arrays import split_arrays

N = 260


def curve(n=N, random_state=0):
    """Return points on a curve with a quantity that grows along it."""
    rng = np.random.default_rng(random_state)
    along = rng.uniform(0, 3, n)
    X = np.stack([np.cos(along), np.sin(along), 0.3 * along], axis=1) + 0.02 * rng.normal(size=(n, 3))
    return X, 3 * along - 2


def write(folder, y=None, name="curve.npz", **arrays):
    X, true = curve()
    np.savez(folder / name, X=X, y=true if y is None else y, **arrays)
    return str(folder / name)


@pytest.fixture(scope="module")
def curve_file(tmp_path_factory):
    return write(tmp_path_factory.mktemp("curve"))


@pytest.fixture(scope="module")
def fields(curve_file):
    return {"name": "curve", "data": {"source": curve_file, "task": "regression", "test": {"count": 60}},
            "labels": {"count": 20}, "graph": {"n_neighbors": 6},
            "model": {"kind": "ridge", "n_landmarks": 40}, "baselines": ["base", "shuffled", "landmark_graph"]}


@pytest.fixture(scope="module")
def finished(fields, tmp_path_factory):
    workspace = tmp_path_factory.mktemp("work")
    return workspace, run(fields, workspace=workspace, execution=InProcess(2))


def changed(fields, path, value):
    section, _, key = path.partition(".")
    return {**fields, section: {**fields.get(section, {}), key: value} if key else value}


def part(workspace, stage):
    folder, = (workspace / "artifacts" / stage).iterdir()
    return parts_in(folder), json.loads((folder / "manifest.json").read_text())["attributes"]


# What comes of it


def test_the_scores_are_those_of_the_models_on_the_test_points(finished, curve_file):
    workspace, result = finished
    assert set(result.baselines) == {"base", "shuffled", "landmark_graph", "mean"}
    split = split_arrays(part(workspace, "split")[0])
    X, y = curve()
    assert_allclose(split["test_values"], y[split["test"]])
    errors = {}
    for name, scores in {"model": result.metrics, **result.baselines}.items():
        found = scores["predicts"] if name == "mean" else open_model(result.model_path, name).predict(
            X[split["test"]].astype(np.float32))
        errors[name] = found - y[split["test"]]
        assert_allclose(scores["rmse"], np.sqrt((errors[name] ** 2).mean()), rtol=1e-6)
        assert_allclose(scores["mae"], np.abs(errors[name]).mean(), rtol=1e-6)
        assert_allclose(scores["r2"], 1 - (errors[name] ** 2).sum() / ((y[split["test"]] - y[split["test"]].mean()) ** 2
                                                                       ).sum(), rtol=1e-6)
        assert scores["n_test"] == 60
        for key in ("mae", "r2"):
            assert scores[f"{key}_interval"][0] < scores[key] < scores[f"{key}_interval"][1]
        if name != "model":
            gain = result.gain[f"over_{name}"]
            assert_allclose(gain["gain"], scores["rmse"] - result.metrics["rmse"], atol=1e-9)
            expected = ttest_rel(errors["model"] ** 2, errors[name] ** 2).pvalue
            alike = np.allclose(errors["model"], errors[name], rtol=0, atol=1e-9)  # one model but for rounding
            assert_allclose(gain["p_value"], 1.0 if alike else expected, rtol=1e-4)
            assert alike or (gain["interval"][0] > 0 or gain["interval"][1] < 0) == (gain["p_value"] < 0.05)
    assert result.metrics["r2"] > 0.9
    assert result.gain["unlabeled_data"] in ("helped", "hurt", "no clear difference", "too few points to tell")
    assert "homophily" not in part(workspace, "health")[1]


def test_every_stage_has_a_cost_and_the_second_run_is_cached(fields, finished):
    workspace, result = finished
    assert all(stage.predicted_peak_bytes > 0 for stage in result.stages)
    assert {row["status"] for row in plan(fields, workspace=workspace).records()} == {"cached"}
    made = plan(fields, workspace=workspace / "new")
    assert made.inputs.n_outputs == 1
    assert "number of classes" not in str([row["estimated"] for row in made.records()])


@pytest.mark.slow
def test_selection_takes_the_lowest_held_out_error(fields, tmp_path):
    grid = {"cv": 3, "grid": {"power": [1, 2], "eta": [1, 30], "C": [0.1, 10]}}
    result = run({**fields, "selection": grid}, workspace=tmp_path, execution=InProcess(2))
    found = part(tmp_path, "selection")[1]
    for name, rows in found["grid"].items():
        assert found["choices"][name]["rmse"] == min(row["rmse"] for row in rows)
        assert all(0 < row["mae"] <= row["rmse"] for row in rows)  # the mean error is below the root of the squares
    assert result.metrics["r2"] > 0.9
    text = (tmp_path / "runs" / result.run / "report.html").read_text()
    assert "rmse in cross-validation" in text


def test_the_page_shows_quantities(finished):
    workspace, result = finished
    text = (workspace / "runs" / result.run / "report.html").read_text()
    for words in ("test rmse", "mean absolute error", "R²", "paired t-test",
                  "How good are the predictions?", "On the dotted line they are equal",
                  "The predictions against the true values of all test points", "standard deviation"):
        assert words in text, words
    for words in ("confusion", "McNemar", "balanced accuracy", "edges within a class"):
        assert words not in text, words


def test_predictions_are_values(finished, tmp_path):
    _, result = finished
    X, y = curve(50, random_state=1)
    X[0] = 1e6
    np.savez(tmp_path / "new.npz", X=X)
    runs = CliRunner()
    for file, options in (("out.csv", ()), ("out.npy", ("--reject",))):
        arguments = ["predict", result.model_path, tmp_path / "new.npz", tmp_path / file, "--json", *options]
        done = runs.invoke(main, [*map(str, arguments)])
        assert done.exit_code == 0, done.stderr
        evidence = json.loads(done.stdout)
        assert set(evidence["values"]) == {"min", "mean", "max"}
        assert (evidence["n"], evidence["unsupported"], "counts" in evidence) == (50, 1, False)
    table = pd.read_csv(tmp_path / "out.csv")
    assert table.columns.tolist() == ["row", "value"]
    found = np.load(tmp_path / "out.npy")
    assert np.isnan(found[0])
    assert_allclose(table["value"][1:], found[1:])
    assert np.sqrt(((found[1:] - y[1:]) ** 2).mean()) < 0.5


def test_the_command_tells_the_rmse(fields, finished, tmp_path):
    (tmp_path / "spec.yaml").write_text(json.dumps(fields))
    done = CliRunner().invoke(main, ["run", str(tmp_path / "spec.yaml"), "--workspace", str(finished[0])])
    assert done.exit_code == 0, done.stderr
    assert "test rmse" in done.stdout
    assert f"{finished[1].metrics['rmse']:.3g} (" in done.stdout


# Which points count


@pytest.mark.slow
def test_points_without_a_target_are_in_the_graph_and_not_in_the_test(fields, tmp_path):
    y = curve()[1]
    hidden = np.random.default_rng(0).permutation(N)[:150]
    y[hidden] = np.nan
    given = {**fields, "data": {**fields["data"], "source": write(tmp_path, y)}, "labels": {"given": True}}
    result = run(given, workspace=tmp_path / "work", execution=InProcess(2))
    split = split_arrays(part(tmp_path / "work", "split")[0])
    labels = part(tmp_path / "work", "labels")[0].read(0)
    assert result.metrics["n_test"] == 60
    assert np.isfinite(split["test_values"]).all()
    assert len(split["train"]) == N - 60
    assert np.isnan(split["train_values"]).sum() == 150
    assert len(labels["labeled"]) == N - 60 - 150
    assert_allclose(labels["values"], y[split["train"][labels["labeled"]]])


def test_a_marker_hides_values_and_minus_one_is_none(fields, tmp_path):
    y = np.round(curve()[1]).astype(int)
    assert (y == -1).any()
    data = {**fields["data"], "source": write(tmp_path, y)}
    run({**fields, "data": data}, workspace=tmp_path / "one", execution=InProcess(2), until="split")
    assert part(tmp_path / "one", "split")[1]["target"]["known"] == N
    run({**fields, "data": {**data, "unlabeled": -1}}, workspace=tmp_path / "two", execution=InProcess(2),
        until="split")
    assert part(tmp_path / "two", "split")[1]["target"]["known"] == N - (y == -1).sum()


@pytest.mark.extended
def test_an_official_split_drops_test_points_without_a_target(fields, tmp_path):
    y = curve()[1]
    split = np.zeros(N, np.uint8)
    split[:40] = 1
    y[:10] = np.nan
    data = {**fields["data"], "source": write(tmp_path, y, split=split), "test": {"official": True}}
    result = run({**fields, "data": data}, workspace=tmp_path / "work", execution=InProcess(2))
    assert result.metrics["n_test"] == 30


# What is refused


def test_one_value_throughout_is_refused(fields, tmp_path):
    data = {**fields["data"], "source": write(tmp_path, np.full(N, 4.0))}
    with pytest.raises(DataError, match=r"the target is 4 in all [\d,]+ rows that have one"):
        run({**fields, "data": data}, workspace=tmp_path / "work", execution=InProcess(2))


@pytest.mark.parametrize(("path", "value", "message"), [
    ("data.keep", [1, 2], r"data\.keep=\[1, 2\], and data\.task is regression"),
    ("data.classes", {"low": [1], "high": [2]}, r"data\.classes=.* and data\.task is regression"),
    ("data.unlabeled", "none", r"data\.unlabeled='none', and data\.task is regression"),
    ("model.kind", "svm", r"model\.kind is svm, and data\.task is regression"),
    ("data.task", "ranking", r"data\.task: Input should be 'classification', 'regression' or 'clustering'"),
    ("labels", {"per_class": 3},
     r"(?s)labels\.per_class=3, and data\.task is regression.*set labels\.count or labels\.fraction"),
])
def test_what_asks_for_classes_is_refused_before_any_work(fields, path, value, message):
    with pytest.raises(SpecError, match=message):
        load_spec(changed(fields, path, value))


@pytest.mark.parametrize(("y", "message"), [
    (np.where(np.arange(N) == 7, np.inf, 1.0), "infinite"), (np.where(np.arange(N) == 7, 1e200, 1.0), "beyond 1e"),
    (np.full(N, np.nan), "has a target"),
    (np.array(["a", "b"])[np.arange(N) % 2], r"the target holds \['a', 'b', 'a'\]"),
    (np.ones((N, 2)), r"y.* shape|one label|two dimensions"),
])
def test_targets_that_are_no_quantities(fields, tmp_path, y, message):
    with pytest.raises(DataError, match=message):
        run({**fields, "data": {**fields["data"], "source": write(tmp_path, y)}}, workspace=tmp_path / "work",
            execution=InProcess(1))


def test_more_labels_than_there_are(fields, tmp_path):
    with pytest.raises(DataError, match=r"labels\.count=500, and the source has 260 rows"):
        run({**fields, "labels": {"count": 500}}, workspace=tmp_path, execution=InProcess(1))


def test_one_label_cannot_be_held_out(fields, tmp_path):
    spec = {**fields, "labels": {"count": 1}, "selection": {"grid": {"eta": [1, 10]}}}
    with pytest.raises(DataError, match="leave selection out"):
        run(spec, workspace=tmp_path, execution=InProcess(1))


def test_too_many_classes_names_the_way_out(fields, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "many.npz", X=rng.normal(size=(1200, 2)), y=rng.normal(size=1200))
    spec = {**fields, "data": {"source": str(tmp_path / "many.npz")}}
    with pytest.raises(DataError, match=r"set data\.task to regression"):
        run(spec, workspace=tmp_path / "work", execution=InProcess(1))


# Addresses


def test_only_a_regression_names_its_task(fields, curve_file):
    other = {**fields, "data": {"source": curve_file, "test": {"count": 60}}}
    rows = {}
    for name, spec in (("default", other), ("said", changed(other, "data.task", "classification")),
                       ("regression", fields)):
        rows[name] = {row["name"]: row["address"] for row in plan(spec, workspace="nowhere").records()}
    assert rows["default"] == rows["said"]
    assert {name for name in rows["said"] if rows["said"][name] == rows["regression"][name]} == {"dataset"}


# Scores


@pytest.mark.parametrize("n_classes", [2, 3])
@pytest.mark.extended_cases("3")
def test_a_ridge_classifier_has_an_rmse_from_the_codes(small_spec, tmp_path, n_classes):
    spec = {**small_spec, "data": {**small_spec["data"], "keep": list(range(n_classes))}, "model": {"kind": "ridge"}}
    result = run(spec, workspace=tmp_path, execution=InProcess(2))
    with np.load(spec["data"]["source"]) as arrays:
        X = arrays["X"]
    split = split_arrays(part(tmp_path, "split")[0])
    fitted = open_model(result.model_path)
    values = fitted.model.values(fitted.scaling.transform(X[split["test"]]))
    signs = np.where(split["test_codes"][:, None] == np.arange(n_classes), 1, -1)
    columns = slice(1, None) if n_classes == 2 else slice(None)
    assert_allclose(result.metrics["rmse"], np.sqrt(((values - signs)[:, columns] ** 2).mean()), rtol=1e-5)
    assert "rmse from the codes ±1" in (tmp_path / "runs" / result.run / "report.html").read_text()


@pytest.mark.extended
def test_the_hinge_loss_has_no_rmse(spec, workspace):
    result = run({**spec, "model": {"kind": "svm", "loss": "hinge"}}, workspace=workspace, execution=InProcess(1))
    assert result.metrics["rmse"] is None

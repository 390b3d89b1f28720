"""An identifier among the columns: left out of what is learned and predicted, or told where it does harm."""

import json

import numpy as np
import pandas as pd
import pytest
import zarr
from click.testing import CliRunner
from sklearn.datasets import make_moons

from dssl.base.errors import DataError
from dssl.cli.main import main
from dssl.execution.in_process import InProcess
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from tests.supported import predict_supported

N, NEW = 200, 50


def table(ids, truth=True):
    X, y = make_moons(N + NEW, noise=0.15, random_state=0)
    own = slice(0, N) if len(ids) == N else slice(N, N + NEW)
    made = pd.DataFrame({"id": ids, "across": X[own, 0], "up": X[own, 1]})
    return made.assign(side=np.array(["low", "high"])[y[own]]) if truth else made


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folder, and by whether identifiers are kept: the result of a run, and what it told."""
    folder = tmp_path_factory.mktemp("ids")
    table(1000 + np.arange(N)).to_csv(folder / "train.csv", index=False)
    table(5000 + np.arange(NEW), truth=False).to_csv(folder / "new.csv", index=False)
    table(5000 + np.arange(NEW)).drop(columns="id").to_csv(folder / "without.csv", index=False)
    found = {}
    for keep in (False, True):
        events = []
        spec = {"name": "t", "data": {"source": str(folder / "train.csv"), "read": {"keep_ids": keep},
                                      "test": {"fraction": 0.2}}, "labels": {"count": 40},
                "model": {"kind": "svm", "n_landmarks": 60}}
        result = run(spec, workspace=folder / "work", execution=InProcess(2), events=events.append)
        found[keep] = result, [event["text"] for event in events if event["event"] == "note"]
    return folder, found


def predicted(folder, result, source, *more):
    """Return the predictions, the document and what was told of `dssl predict`."""
    out = folder / "out.csv"
    done = CliRunner().invoke(main, ["predict", str(result.model_path), str(folder / source), str(out), "--on",
                                     "in-process", "--json", *more])
    assert done.exit_code == 0, done.stderr
    return pd.read_csv(out, keep_default_na=False)["label"].to_numpy(), json.loads(done.stdout), done.stderr


def error(labels):
    return np.mean(labels != table(np.arange(NEW)).side)


@pytest.mark.slow
def test_an_identifier_is_left_out_and_new_files_may_have_it_or_not(runs):
    folder, found = runs
    result, messages = found[False]
    assert messages == list(result.notes) == ["left out, as identifiers: 'id': its whole numbers rise from row to row. "
                                          "data.read.keep_ids: [id] keeps them"]
    labels, document, stderr = predicted(folder, result, "new.csv", "--reject")
    assert error(labels) < 0.1
    assert (document["outliers"], "warning" in stderr) == (0, False)
    np.testing.assert_array_equal(predicted(folder, result, "without.csv")[0], labels)
    pd.read_csv(folder / "without.csv").drop(columns="side").to_csv(folder / "points.csv", index=False)
    model = result.model()
    assert pd.read_csv(folder / "out.csv").columns[0] == "row"  # without.csv has no identifier
    predicted(folder, result, "new.csv")
    assert pd.read_csv(folder / "out.csv")["id"].tolist() == [*range(5000, 5000 + NEW)]
    assert model.names_of(model.dataset_of([folder / "new.csv", folder / "points.csv"], InProcess(1))) is None
    both = model.dataset_of([folder / "new.csv", folder / "points.csv"], InProcess(1)).X
    np.testing.assert_array_equal(model.predict(both), np.tile(labels, 2))


def test_an_identifier_that_is_kept_is_told_of_and_points_beyond_it_get_no_label(runs):
    folder, found = runs
    result, messages = found[True]
    assert messages[0].startswith("warning: identifiers among the features: 'id'")
    assert messages[0].endswith("leave them out with data.read.drop: [id]")
    labels, document, stderr = predicted(folder, result, "new.csv")
    assert error(labels) > 0.3  # which nothing but the warning says
    assert "50 of 50 values of column 'id' are out of the range of the training points: from 5000 to 5049" in stderr
    assert "--reject gives them no label" in stderr
    assert document["drift"]["alarm"]
    assert document["drift"]["columns"][0] | {"p_value": 0} == {
        "column": "id", "above_median": 1.0, "usual_above": pytest.approx(0.5, abs=0.01), "between_quartiles": 0.0,
        "usual_between": pytest.approx(0.5, abs=0.01), "p_value": 0}
    assert "columns are distributed otherwise than in training, most clearly column 'id': 100% of its values" in stderr
    column, = [own for own in document["out_of_range"] if own["notable"]]
    assert (column["column"], column["above"], column["outliers"], column["max"]) == ("id", NEW, NEW, 5049)
    assert column["training_min"] >= 1000
    assert column["training_max"] <= 1000 + N - 1
    rejected, document, _ = predicted(folder, result, "new.csv", "--reject")
    assert set(rejected) == {""}
    assert document["outliers"] == document["rejected"] == NEW
    files = str(result.model_path), str(folder / "new.csv"), str(folder / "out.csv")
    said = CliRunner().invoke(main, ["predict", *files, "--on", "in-process", "--reject"])
    assert f"; without a label {NEW}" in said.stdout
    model = result.model()
    X = model.dataset_of(str(folder / "new.csv"), InProcess(1)).X
    assert not predict_supported(model, X)[1].any()


@pytest.mark.parametrize("keep", [True, False])
def test_a_plan_counts_the_pass_that_decides_and_the_columns_that_it_may_leave_out(runs, keep):
    folder, found = runs
    spec = {**found[keep][0].spec, "name": "another"}
    spec["data"] = {**spec["data"], "read": {"keep_ids": keep, "dtype": "float64"}}
    stages = {item.stage.name: item for item in plan(spec, workspace=folder / "work").selected}
    assert stages["dataset"].cost.tasks == 2
    assert ("columns left out as identifiers" in stages["points"].to_dict()["estimated"]) == (not keep)


@pytest.mark.parametrize("ending", ["npy", "zarr"])
def test_probabilities_of_points_far_beyond_a_range_are_withheld(runs, ending, tmp_path):
    folder, found = runs
    out = tmp_path / f"out.{ending}"
    model, source = found[True][0].model_path, folder / "new.csv"
    done = CliRunner().invoke(main, ["predict", str(model), str(source), str(out), "--on", "in-process", "--reject",
                                     "--probabilities"])
    assert done.exit_code == 0, done.stderr
    assert np.isnan(np.load(out) if ending == "npy" else zarr.open_array(out, mode="r")[:]).all()


def test_a_plan_refuses_identifiers_that_are_no_columns(tmp_path):
    table(np.arange(N)).to_csv(tmp_path / "train.csv", index=False)
    spec = {"name": "t", "data": {"source": str(tmp_path / "train.csv"), "read": {"keep_ids": ["idd"]}},
            "model": {"kind": "automatic"}, "labels": {"given": True}}
    with pytest.raises(DataError, match="has no column 'idd' \\(keep_ids\\)"):
        plan(spec, workspace=tmp_path / "work")

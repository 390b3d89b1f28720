"""Rows to label next, from what a run has solved, and what their labels do to the next run."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from sklearn.datasets import make_blobs

from dssl.base.errors import DataError, ParameterError
from dssl.cli.main import main
from dssl.execution.in_process import InProcess
from dssl.graph.knn_graph import KNNGraph
from dssl.learners.model import Model
from dssl.pipeline import suggestion
from dssl.pipeline.labels_from_files import labels_notes
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.points import LABELS
from dssl.pipeline.run import run
from dssl.pipeline.suggestion import artifacts_behind, finished_models, suggest_rows

from .split_arrays import split_arrays

MODELS = {"graph": {"kind": "graph"}, "automatic": {"kind": "automatic"}, "cluster": {"kind": "cluster",
                                                                                      "landmarks": 20}}


@pytest.fixture(scope="module")
def problem(tmp_path_factory):
    """Return a folder with points.csv, 240 points in twelve clouds of three classes, and their classes."""
    folder = tmp_path_factory.mktemp("clouds")
    X, cloud = make_blobs(240, centers=12, n_features=3, cluster_std=0.8, random_state=1)
    kind = np.array(["oak", "elm", "fir"])[cloud % 3]
    pd.DataFrame(X, columns=["a", "b", "c"]).assign(kind=kind).to_csv(folder / "points.csv", index=False)
    return folder, kind


def spec_of(folder, kind, **labels):
    return {"name": "clouds", "data": {"source": str(folder / "points.csv"), "read": {"target": "kind"},
                                       "test": {"count": 60}, "scale": "none"},
            "labels": {"per_class": 2, **labels}, "model": MODELS[kind]}


@pytest.fixture(scope="module")
def finished(problem):
    """Return a function that returns the result of a run of a kind in the workspace `work`, made once."""
    folder, _ = problem
    return cache(lambda kind: run(spec_of(folder, kind), workspace=folder / "work", execution=InProcess(1)))


def filled(path, kinds):
    """Fill in the true labels of the rows in a file."""
    table = pd.read_csv(path)
    table["label"] = kinds[table["row"]]
    table.to_csv(path, index=False)
    return table


@pytest.mark.slow
def test_labels_that_were_asked_for_lower_the_error(problem, finished, tmp_path):
    folder, kinds = problem
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec_of(folder, "graph")))
    errors, files = [finished("graph").metrics["error"]], []
    for batch in range(2):
        own = spec_of(folder, "graph", **({"file": files} if files else {}))
        (tmp_path / "spec.yaml").write_text(yaml.safe_dump(own))
        found = suggest_rows(tmp_path / "spec.yaml", InProcess(1), count=8, workspace=folder / "work")
        files = [*files, str(tmp_path / f"batch_{batch}.csv")]
        found.write(tmp_path / f"batch_{batch}.csv")
        filled(files[-1], kinds)
        made = plan(spec_of(folder, "graph", file=files), workspace=folder / "work")
        status = {item.stage.name: item.status for item in made.selected}
        assert [name for name, its in status.items() if its == "cached"] == [
            "dataset", "split", "points", "vertices", "neighbors", "graph"]
        errors.append(run(made, execution=InProcess(1)).metrics["error"])
        assert made.artifact("labels").attributes["n_labeled"] == 6 + 8 * len(files)
    assert errors[0] > 0.2
    assert errors[2] <= 0.05
    again = artifacts_behind(finished_models(tmp_path / "spec.yaml", folder / "work"))
    labeled = again["labels"].parts.read(0)["labeled"]
    assert not set(found.rows) & set(split_arrays(again["split"].parts)["train"][labeled])


@pytest.mark.parametrize("kind", ["graph", "cluster", pytest.param("automatic", marks=pytest.mark.slow)])
@pytest.mark.extended_cases("cluster")
def test_nothing_is_made_anew(problem, finished, monkeypatch, kind):
    folder, result = problem[0], finished(kind)
    monkeypatch.setattr(KNNGraph, "build", None)
    monkeypatch.setattr("dssl.graph.knn_graph.find_neighbors", None)
    found = suggest_rows(result.run, InProcess(1), count=5, workspace=folder / "work")
    split = split_arrays(artifacts_behind(finished_models(result.model_path, folder / "work")).get("split").parts)
    assert np.isin(found.rows, split["train"]).all()
    assert len(set(found.rows)) == 5
    assert set(found.predicted) <= {"oak", "elm", "fir", None}
    assert found.attributes["criterion"] == ("uncertainty" if kind == "cluster" else "model_change_v_optimality")
    known = found.probability[~np.isnan(found.probability)]
    assert ((known >= 1 / 3) & (known <= 1)).all()
    assert [record["row"] for record in found.records()] == found.rows.tolist()
    if kind == "cluster":
        with pytest.raises(ParameterError, match=r"(?s)without a graph.*coverage or uncertainty"):
            suggest_rows(result.run, InProcess(1), criterion="v_optimality", workspace=folder / "work")


def test_suggestions_have_their_line_and_cells_and_name_the_files_of_all_rounds(problem, finished, tmp_path):
    folder, result = problem[0], finished("graph")
    found = suggest_rows(result.run, InProcess(1), count=3, workspace=folder / "work")
    found.write(tmp_path / "next.csv")
    table, source = pd.read_csv(tmp_path / "next.csv"), pd.read_csv(folder / "points.csv")
    assert list(table) == ["row", "file", "line", "score", "predicted", "probability", "label", "a", "b", "c"]
    assert table["line"].tolist() == (table["row"] + 2).tolist()
    assert table["a"].tolist() == source["a"][table["row"]].tolist()
    assert replace(found, label_files=("my 1.csv",)).next_files("2.csv") == "'labels.file=[my 1.csv, 2.csv]'"


def test_a_learner_on_the_graph_is_not_asked_for_values_it_holds(problem, finished, monkeypatch):
    folder, result, calls, values = problem[0], finished("graph"), [], Model.values_and_unsupported
    monkeypatch.setattr(Model, "values_and_unsupported", lambda self, X, *rest: (calls.append(len(X)), values(
        self, X, *rest))[1])
    suggest_rows(result.run, InProcess(1), count=3, workspace=folder / "work")
    assert calls == [3]


def test_a_run_without_labels_is_refused(problem, finished, monkeypatch):
    folder, result = problem[0], finished("graph")
    monkeypatch.setattr(suggestion, "artifacts_behind", lambda folder: {"points": None})
    with pytest.raises(DataError, match="learned from no labels"):
        suggest_rows(result.run, InProcess(1), workspace=folder / "work")


@pytest.mark.extended
def test_quantities_are_suggested_by_the_graph_alone(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    np.savez(tmp_path / "points.npz", X=X, y=np.where(np.arange(120) < 60, X[:, 0], np.nan))
    data = {"source": str(tmp_path / "points.npz"), "task": "regression", "test": {"count": 20}}
    spec = {"name": "sums", "data": data, "labels": {"count": 10}, "model": {"kind": "graph"}}
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(1))
    found = suggest_rows(result.run, InProcess(1), count=3, workspace=tmp_path / "work")
    assert found.attributes["criterion"] == "v_optimality"
    assert all(isinstance(value, float) for value in found.predicted)
    assert np.isnan(found.probability).all()
    with pytest.raises(ParameterError, match="without a model of classes"):
        suggest_rows(result.run, InProcess(1), criterion="uncertainty", workspace=tmp_path / "work")


def test_labels_that_were_suggested_are_noted_as_no_random_draw():
    note, = labels_notes({"from_file": 8, "n_labeled": 14, "classes": [0, 1]})
    assert "8 of the 14 labels come from labels.file" in note
    assert "probabilities overconfident" in note
    assert "probabilities" not in labels_notes({"from_file": 8, "n_labeled": 14})[0]
    assert labels_notes({"n_labeled": 14, "classes": [0, 1]}) == []
    assert LABELS.notes is labels_notes


@pytest.mark.slow
def test_a_spec_that_was_run_with_values_set_is_named_with_them(problem, tmp_path):
    folder = problem[0]
    spec = {"name": "set", "data": {"source": str(folder / "points.csv"), "read": {"target": "kind"}},
            "labels": {"per_class": 3}, "model": {"kind": "graph"}, "graph": {"n_neighbors": 6}}
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump(spec))
    run(plan(load_spec(tmp_path / "spec.yaml", ["labels.per_class=5"]), workspace=tmp_path / "work"))
    arguments = ["suggest", str(tmp_path / "spec.yaml"), "--workspace", str(tmp_path / "work"), "--count", "3",
                 "--out", str(tmp_path / "next.csv"), "--quiet"]
    refused = CliRunner().invoke(main, arguments)
    assert refused.exit_code == 1
    assert "name the --set values of its run" in refused.stderr
    done = CliRunner().invoke(main, [*arguments, "--set", "labels.per_class=5"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    command = next(line for line in done.stdout.splitlines() if line.startswith("  dssl run "))
    assert "--set labels.per_class=5 --set 'labels.file=[" in command or "--set labels.per_class=5 --set labels.file=" \
        in command
    assert max(map(len, done.stdout.splitlines()[:4])) <= 80


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["graph", "automatic"])
@pytest.mark.extended_cases("automatic")
def test_rows_that_were_named_as_far_from_all_others_are_not_suggested(problem, kind, tmp_path):
    folder, _ = problem
    frame = pd.read_csv(folder / "points.csv")
    far = [10, 20]
    frame.loc[far, ["a", "b", "c"]] = [[50_000.0, -50_000.0, 50_000.0], [-50_000.0, 50_000.0, 50_000.0]]
    frame.insert(0, "id", [f"p{i}" for i in range(len(frame))])
    frame.to_csv(tmp_path / "points.csv", index=False)
    spec = spec_of(tmp_path, kind)
    spec["data"] |= {"scale": "standardize", "test": {"count": 20}}
    done = run(spec, workspace=tmp_path / "work", execution=InProcess(1))
    named = plan(spec, workspace=tmp_path / "work").artifact("points").attributes["scaling"]["outliers"]["rows"]
    assert named
    assert set(named) <= set(far)
    named_row = f"{named[0]} (line {named[0] + 2}, id p{named[0]})"
    assert any(named_row in note for note in json.loads((done.folder / "result.json").read_text())["notes"])
    assert named_row in (done.folder / "report.html").read_text(encoding="utf-8")
    found = suggest_rows(done.folder, InProcess(1), count=200, workspace=tmp_path / "work")
    assert not set(found.rows.tolist()) & set(named)

"""The kinds `clustering` and `kernel_clustering`: what the estimator finds, with classes and without; the report."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_blobs, make_moons

from dssl import KernelKMeans, KNNGraph, clustering_scores
from dssl.base.errors import DataError, SpecError
from dssl.execution.in_process import InProcess
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run

GRAPH = {"kind": "clustering", "n_clusters": 2}


@pytest.fixture(scope="module")
def moons(tmp_path_factory):
    X, y = make_moons(300, noise=0.05, random_state=0)
    folder = tmp_path_factory.mktemp("moons")
    np.savez(folder / "known.npz", X=X, y=y)
    np.savez(folder / "bare.npz", X=X)
    return folder, X, y


def spec(folder, file="known", **sections):
    return {"name": "moons", "data": {"task": "clustering", "source": str(folder / f"{file}.npz"), "scale": "none"},
            "model": GRAPH, **sections}


@pytest.fixture(scope="module")
def made(moons, tmp_path_factory):
    workspace = tmp_path_factory.mktemp("workspace")
    return run(spec(moons[0]), workspace=workspace, execution=InProcess(2))


def test_a_run_finds_what_the_estimator_finds(moons, made):
    _, X, y = moons
    fitted = KernelKMeans(2, graph=KNNGraph()).fit(X)
    assert made.metrics["accuracy"] == clustering_scores(y, fitted.labels_)["accuracy"] > 0.99
    assert made.metrics["inertia"] == pytest.approx(fitted.inertia_)
    assert made.baselines["euclidean"]["accuracy"] < 0.9
    model = open_model(made.model_path)
    assert_array_equal(model.predict(X), fitted.labels_)
    assert_array_equal(model.predict(X[:20] + 1e-3), fitted.labels_[:20])


def test_the_report_tells_of_clusters(made):
    page = " ".join(Path(made.report).read_text(encoding="utf-8").split())
    for text in ("Which clusters are there?",
                 "The model found 2 clusters. Their sizes are 150, 150.", "did not learn from the classes",
                 "training points in the color of their prediction", "Graph health"):
        assert text in page
    assert "unlabeled data helped" not in page


@pytest.mark.parametrize("model", [
    {"kind": "kernel_clustering", "n_clusters": 3, "feature_map": "base"},
    {"kind": "kernel_clustering", "n_clusters": 2, "feature_map": "multiscale", "n_landmarks": 60}],
    ids=["base", "multiscale"])
@pytest.mark.slow_cases("multiscale")
def test_without_classes(model, moons, tmp_path):
    folder, X, _ = moons
    result = run(spec(folder, "bare", model=model), workspace=tmp_path, execution=InProcess(1))
    assert "accuracy" not in result.metrics
    head, rows = result.score_rows()
    assert head == ("", "clusters", "points in each", "ari with the model")
    sizes = [f"{size:,}" for size in sorted(result.metrics["sizes"], reverse=True)]
    assert rows[0] == ("model", str(len(sizes)), " ".join(sizes), "")
    assert sum(result.metrics["sizes"]) == 300
    agreement = result.baselines["euclidean"]["agreement"]
    assert rows[1][3] == f"{agreement:.3f}"
    assert agreement < 1
    assert "no classes to compare the clusters with" in Path(result.report).read_text(encoding="utf-8")
    clusters = open_model(result.model_path).predict(X)
    assert len(np.unique(clusters)) == result.metrics["n_clusters"] <= 3


def test_test_points_are_compared_too(moons, tmp_path):
    folder, _, _ = moons
    given = spec(folder)
    given["data"]["test"] = {"count": 60}
    found = run(given, workspace=tmp_path, execution=InProcess(1)).metrics
    assert (found["n_compared"], found["n_test"]) == (240, 60)
    assert found["test_accuracy"] > 0.95


@pytest.mark.slow
def test_a_column_of_classes_of_one_class_of_none_and_of_quantities(moons, tmp_path):
    _, X, y = moons
    columns = {"names": np.array(["low", "high"])[y], "one": ["all"] * len(y), "empty": [""] * len(y), "real": X[:, 0]}
    for name, column in columns.items():
        lines = [f"{a},{b},{c}" for (a, b), c in zip(X, column, strict=True)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["a,b,target", *lines]))

    def found(name, **data):
        given = {**spec(tmp_path), "model": {"kind": "kernel_clustering", "n_clusters": 2}}
        given["data"] = {**given["data"], "source": str(tmp_path / f"{name}.csv"), **data}
        return run(given, workspace=tmp_path / "work", execution=InProcess(1)).metrics

    assert found("names")["n_compared"] == found("one")["n_compared"] == len(y)
    assert "accuracy" not in found("empty")
    with pytest.raises(DataError, match=r"set data\.read\.target to none"):
        found("real")
    assert "accuracy" not in found("real", read={"target": "none"})
    with pytest.raises(DataError, match=r"data\.keep and data\.classes ask for them"):
        found("real", read={"target": "none"}, keep=["low"])


def test_a_plan_prices_every_stage(moons):
    for model in (GRAPH, {"kind": "kernel_clustering", "n_clusters": 2, "feature_map": "cluster"}):
        made = plan(spec(moons[0], model=model), workspace="nowhere")
        costs = {item.stage.name: item.cost for item in made.stages}
        assert min(costs["models"].peak, costs["scores"].peak) > 0


def test_a_plan_of_the_deformed_kernel_counts_all_that_carry_it(moons):
    """Not the few points at which functions are measured: features have a column for each of all 300, as by default."""
    def peak(landmarks):
        model = {**GRAPH, "feature_map": "deformed", "n_landmarks": landmarks}
        made = plan(spec(moons[0], "bare", model=model), workspace="nowhere")
        return next(item.cost.peak for item in made.stages if item.stage.name == "models")

    assert peak(40) == peak("auto")


def test_what_is_wrong(moons):
    folder = moons[0]
    for given, message in (
            (spec(folder, model={"kind": "clustering"}), r"model\.n_clusters is missing"),
            (spec(folder, model={"kind": "clustering", "n_clusters": "elbow"}), "model.n_clusters"),
            (spec(folder, model={"kind": "clustering", "n_clusters": 0}), "n_clusters=0"),
            (spec(folder, model={"kind": "clustering", "n_clusters": 2, "feature_map": "base"}), "model.feature_map"),
            (spec(folder, labels={"per_class": 3}), "labels"),
            ({**spec(folder), "data": {**spec(folder)["data"], "task": "classification", "test": {"count": 9}}},
             "serves clustering")):
        with pytest.raises(SpecError, match=message):
            load_spec(given)


@pytest.mark.parametrize("levels", [2, 3])
def test_a_run_says_which_column_its_clusters_follow(levels, tmp_path):
    """Two values of a category that says nothing lie farther apart than neighbors do, and cut the graph."""
    X, _ = make_blobs(400, 3, centers=2, cluster_std=3.0, random_state=1)
    note = np.array(list("uvw"))[np.random.default_rng(0).integers(0, levels, 400)]
    pd.DataFrame(X, columns=list("abc")).assign(note=note).to_csv(tmp_path / "t.csv", index=False)
    data = {"task": "clustering", "source": str(tmp_path / "t.csv"), "scale": "standardize",
            "read": {"target": "none", "when_text": "one_hot"}}
    model = {"kind": "clustering", "n_clusters": levels}
    followed, apart = (run({"name": "n", "data": {**data, "read": {**data["read"], **more}}, "model": model},
                           workspace=tmp_path, execution=InProcess(1)) for more in ({}, {"drop": ["note"]}))
    note, = [note for note in followed.notes if "follow" in note]
    assert "the clusters follow the values of the column note (adjusted Rand index" in note
    assert "data.read.drop: [note]" in note
    assert not [note for note in apart.notes if "follow" in note]

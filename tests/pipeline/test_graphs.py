"""Pipelines on data with equal rows, on given graphs, with islands, and with test points far from all others."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import make_blobs

from dssl.base.errors import BudgetError, DataError, ParameterError, SpecError
from dssl.data.readers import compressed
from dssl.execution.in_process import InProcess
from dssl.graph.knn_graph import KNNGraph
from dssl.graph.weights.build import weights
from dssl.knn.search import neighbors
from dssl.methods.deformed.covariance import CovarianceParams
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.solvers.solver_params import SolverParams
from dssl.storage.artifacts import parts_in
from dssl.storage.csr import as_rows
from tests.covariance import graph_covariance
from tests.supported import predict_supported

from .split_arrays import split_arrays

LAPLACE = {"kind": "graph", "learner": "laplace"}  # of all models the one that takes least to fit


@pytest.fixture
def spec(tmp_path):
    """A spec for points that a test saves with `save`."""
    return {"name": "small", "data": {"source": str(tmp_path / "points.npz"), "test": {"count": 40}, "scale": "none"},
            "labels": {"per_class": 3}, "model": {"kind": "svm", "n_landmarks": 30},
            "graph": {"n_neighbors": 5},
            "solver": {"method": "gauss_seidel", "tol": 1e-10}}


def save(spec, X, y):
    np.savez(spec["data"]["source"], X=X, y=y)


def blobs(n=160, random_state=0):
    return make_blobs(n, n_features=3, centers=2, cluster_std=3.0, random_state=random_state)


def part(spec, workspace, stage, *overrides):
    planned = plan(spec, set=overrides, workspace=workspace).records()
    address = {item["name"]: item["address"] for item in planned}[stage]
    return parts_in(Path(workspace) / "artifacts" / stage / address[:24])


def ran(result):
    return {stage.name for stage in result.stages if stage.status == "done"}


# Equal rows


@pytest.mark.parametrize("has_duplicates", [False, True])
def test_duplicates_on_both_sides_of_the_split_are_told(spec, tmp_path, has_duplicates):
    """Labels of noise, which duplicates of labeled points tell nevertheless."""
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(300, 3)), rng.integers(0, 2, 300)
    save(spec, *((np.tile(X[:100], (3, 1)), np.tile(y[:100], 3)) if has_duplicates else (X, y)))
    spec |= {"labels": {"given": True}, "model": LAPLACE}
    del spec["solver"]
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    warnings = [note for note in result.notes if "test points equal a labeled training point" in note]
    assert len(warnings) == has_duplicates
    if has_duplicates:
        assert result.metrics["error"] < 0.2  # though there is nothing to learn
        number = int(warnings[0].removeprefix("warning: ").split()[0])
        split, Z = split_arrays(part(spec, tmp_path / "work", "split")), np.tile(X[:100], (3, 1))
        assert number == sum(any((Z[row] == Z[other]).all() for other in split["train"]) for row in split["test"])
        assert f"{number} of 40 test points equal" in Path(result.report).read_text()


@pytest.mark.parametrize("n_test", [0, 40])
def test_labeled_duplicates_of_two_classes_are_noted(spec, tmp_path, n_test):
    """Forty equal points of two classes, of which both are in the training part, whatever the split is."""
    X, y = blobs(120)
    X[:40], y[:40] = X[0], np.arange(40) % 2
    save(spec, X, y)
    spec |= {"labels": {"given": True}, "model": LAPLACE}
    del spec["solver"]
    spec["data"]["test"] = {"count": n_test} if n_test else {"none": True}
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    note, = (note for note in result.notes if "labeled points equal a labeled point of another class" in note)
    split = split_arrays(part(spec, tmp_path / "work", "split"))
    assert note.startswith(f"{(split['train'] < 40).sum()} of {120 - n_test} labeled points equal")


def test_labeled_duplicates_are_told_where_no_point_tests(spec, tmp_path):
    X, y = blobs(60)
    save(spec, np.tile(X, (2, 1)), np.tile(y, 2))
    spec |= {"labels": {"given": True}, "model": LAPLACE}
    del spec["solver"], spec["data"]["test"]
    result = run(spec, set=["data.test.none=true"], workspace=tmp_path / "work", execution=InProcess(2))
    assert "warning: 120 of 120 labeled points equal another labeled point" in "\n".join(result.notes)


@pytest.mark.slow
def test_equal_rows_are_one_vertex(spec, tmp_path):
    X, y = blobs(60)
    which = np.random.default_rng(0).integers(0, 60, size=300)
    save(spec, X[which], y[which])
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    vertices, split = {
        name: part(spec, tmp_path / "work", "vertices").rows(name).read_all()
        for name in ("vertex", "first", "multiplicity")}, split_arrays(
        part(spec, tmp_path / "work", "split"))
    train = which[split["train"]]
    assert len(vertices["first"]) == len(np.unique(train))
    assert_array_equal(train[vertices["first"]][vertices["vertex"]], train)
    assert_array_equal(vertices["multiplicity"], [np.sum(train == train[row]) for row in vertices["first"]])
    lists = part(spec, tmp_path / "work", "neighbors").rows("ids")
    assert_array_equal(lists.read_all(), neighbors(X[train[vertices["first"]]], 5).indices)
    chosen, labels = (part(spec, tmp_path / "work", stage).read(0) for stage in ("landmarks", "labels"))
    assert_array_equal(vertices["vertex"][chosen["landmarks"]], chosen["vertices"])
    assert len(set(chosen["vertices"].tolist())) == 30
    assert set(vertices["vertex"][labels["labeled"]].tolist()) <= set(chosen["vertices"].tolist())
    assert f"{len(vertices['first'])} distinct points" in Path(result.report).read_text()
    assert result.unreachable["count"] == 0
    kept = run(spec, set=["graph.duplicates=keep"], workspace=tmp_path / "work", execution=InProcess(2))
    assert "vertices" in ran(kept)
    assert "Duplicates fill the neighbor lists of one another" in Path(kept.report).read_text()
    assert part(spec, tmp_path / "work", "neighbors", "graph.duplicates=keep").rows("ids").shape == (260, 5)


def test_the_pipeline_and_the_estimators_functions_agree_on_copies(spec, tmp_path):
    X, y = blobs(60)
    which = np.random.default_rng(1).integers(0, 60, size=200)
    save(spec, X[which], y[which])
    work = tmp_path / "work"
    run(spec, workspace=work, execution=InProcess(2), until="covariance")
    split, labels = split_arrays(part(spec, work, "split")), part(spec, work, "labels").read(0)
    params = CovarianceParams(n_landmarks=30, solver=SolverParams(method="gauss_seidel", tol=1e-10))
    rows = as_rows(X[which][split["train"]].astype(np.float32))  # as they are read
    graph = KNNGraph(n_neighbors=5, width=1.0).build(rows, InProcess(1))
    found = graph_covariance(graph, labels["labeled"], params, InProcess(1))
    assert_array_equal(found.landmarks, part(spec, work, "landmarks").read(0)["landmarks"])
    assert_allclose(found.powers[2], part(spec, work, "covariance").read(0)["power2"], rtol=1e-12)


def test_neighbors_are_counted_among_distinct_rows(spec, tmp_path):
    X, y = blobs(6)
    save(spec, np.repeat(X, 30, axis=0), np.repeat(y, 30))
    with pytest.warns(UserWarning, match="n_neighbors=6 is lowered to 5, with 6 distinct training points"):
        run(spec, set=["graph.n_neighbors=6"], workspace=tmp_path / "work", execution=InProcess(1), until="neighbors")
    lists = part(spec, tmp_path / "work", "neighbors", "graph.n_neighbors=6")
    assert lists.rows("ids").shape == (6, 5)


# Given graphs


@pytest.mark.slow
def test_given_graphs_give_what_the_same_graph_made_here_gives(spec, tmp_path):
    """Lists and weights of all rows, cut to the training points; those of the test points do not matter."""
    spec["model"] = {"kind": "svm", "loss": "hinge"}  # of which scores tell classes alone, no rounding
    X, y = blobs(160)
    save(spec, X, y)
    made = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    train = split_arrays(part(spec, tmp_path / "work", "split"))["train"]
    found = neighbors(X[train], 5).to_arrays()
    ids, distances = np.zeros((160, 6), int), np.ones((160, 6))
    ids[:, 0] = (np.arange(160) + 1) % 160  # lists of test points are dropped, whatever they name
    ids[:, 1:] = (np.arange(160)[:, None] + np.arange(2, 7)) % 160
    ids[train], distances[train] = np.hstack([train[:, None], train[found["ids"]]]), np.hstack(
        [np.zeros((120, 1)), found["distances"]])
    np.savez(tmp_path / "lists.npz", ids=ids, distances=distances)
    W = sp.lil_array((160, 160))
    W[np.ix_(train, train)] = weights(neighbors(X[train], 5), width=1.0).toarray()
    sp.save_npz(tmp_path / "W.npz", sp.csr_array(W))
    for kind, file in (("neighbors", "lists.npz"), ("weights", "W.npz")):
        override = f"graph.given={{{kind}: '{tmp_path / file}'}}"
        result = run(spec, set=[override], workspace=tmp_path / "work", execution=InProcess(2))
        assert {"neighbors", "graph", "system", "scores"} <= ran(result)
        expected, covariance = (part(spec, tmp_path / "work", "covariance", *by).read(0)["power2"]
                                for by in ((), (override,)))
        assert_allclose(covariance, expected, rtol=1e-4, atol=1e-8)
        assert result.metrics == {**made.metrics, **{name: pytest.approx(made.metrics[name], rel=1e-4)
                                                     for name in ("log_loss", "log_loss_interval")}}
        page = " ".join(Path(result.report).read_text().split())
        assert ("The edge weights were given" if kind == "weights" else "nearest neighbors, which were given") in page


@pytest.mark.parametrize(("kind", "unused"), [
    ("neighbors", "graph.n_neighbors, graph.method"), ("weights", "graph.n_neighbors, graph.method, graph.weights")])
def test_keys_that_say_how_to_make_what_is_given_are_named(spec, tmp_path, kind, unused):
    X, y = blobs()
    save(spec, X, y)
    spec["graph"] |= {"method": "exact", "weights": "binary", "symmetrize": "maximum"}
    assert not any("no effect" in note for note in plan(spec, workspace=tmp_path / "work").notes())
    lists, told = neighbors(X, 5), []
    if kind == "neighbors":
        np.savez(tmp_path / "given.npz", **lists.to_arrays())
    else:
        sp.save_npz(tmp_path / "given.npz", sp.csr_array(weights(lists)))
    note = f"{unused}: no effect, since graph.given provides the {kind}"
    given = [f"graph.given={{{kind}: '{tmp_path / 'given.npz'}'}}"]
    assert note in plan(spec, set=given, workspace=tmp_path / "work").notes()
    made_by_them = plan(spec, set=[*given, "baselines=[base, shuffled, landmark_graph]"], workspace=tmp_path / "work")
    assert not any("no effect" in each for each in made_by_them.notes())
    result = run(spec, set=given, workspace=tmp_path / "work", execution=InProcess(2), events=told.append)
    assert note in result.notes
    assert note in [event["text"] for event in told if event["event"] == "note"]


def test_keys_that_a_given_graph_leaves_without_effect_change_no_artifact(spec, tmp_path):
    X, y = blobs()
    save(spec, X, y)
    sp.save_npz(tmp_path / "W.npz", sp.csr_array(weights(neighbors(X, 5))))
    spec["graph"]["given"] = {"weights": str(tmp_path / "W.npz")}
    spec = {name: spec[name] for name in ("name", "data", "labels", "graph")} | {"model": LAPLACE}

    def run_with(*overrides):
        return ran(run(spec, set=overrides, workspace=tmp_path / "work", execution=InProcess(2), until="models"))

    assert "models" in run_with()
    assert run_with("graph.method=exact", "graph.recall=0.5", "graph.symmetrize=mean") == set()
    assert "models" in run_with("graph.weights=binary")  # which connect new points to the graph


def test_other_bytes_of_a_given_graph_are_another_artifact(spec, tmp_path):
    save(spec, *blobs(160))
    for kind, stage in (("weights", "graph"), ("neighbors", "neighbors")):
        addresses = []
        for weight in (1.0, 2.0):
            np.savez(tmp_path / "g.npz", data=[weight])
            planned = plan(spec, set=[f"graph.given={{{kind}: '{tmp_path / 'g.npz'}'}}"], workspace=tmp_path / "w")
            addresses.append({item["name"]: item["address"] for item in planned.records()})
        moved = {name for name in addresses[0] if addresses[0][name] != addresses[1][name]}
        assert stage in moved
        assert not moved & {"points", "vertices", "landmarks"}


@pytest.mark.parametrize(("kind", "arrays", "message"), [
    ("weights", sp.eye_array(3, format="csr"), r"shape \(3, 3\) for 160 points"),
    ("weights", sp.random_array((160, 160), density=0.1, rng=0, format="csr"), "differ from their transpose"),
    ("weights", {"ids": np.ones(3)}, "holds no weights"),
    ("weights", None, "holds no weights"),
    ("neighbors", {"ids": np.ones((3, 1), int), "distances": np.ones((3, 1))}, "3 neighbor lists for 160 points"),
    ("neighbors", {"ids": np.ones((160, 1), int)}, "holds no neighbors"),
    ("neighbors", None, "holds no neighbors"),
])
def test_given_files_that_are_refused(spec, tmp_path, kind, arrays, message):
    save(spec, *blobs(160))
    path = tmp_path / "given.npz"
    if arrays is None:
        path.write_bytes(b"no npz")
    elif isinstance(arrays, dict):
        np.savez(path, **arrays)
    else:
        sp.save_npz(path, arrays)
    with pytest.raises(DataError, match=message) as error:
        run(spec, set=[f"graph.given={{{kind}: '{path}'}}"], workspace=tmp_path / "work", execution=InProcess(1))
    assert "fix:" in str(error.value)


@pytest.mark.parametrize(("kind", "arrays"), [
    ("weights", {"data": np.zeros(1 << 16), "indices": np.zeros(1 << 16, np.int32), "indptr": np.zeros(161, np.int32)}),
    ("neighbors", {"ids": np.zeros((160, 400), int), "distances": np.zeros((160, 400))}),
])
def test_given_files_that_unpack_to_far_more_than_data_do(spec, tmp_path, monkeypatch, kind, arrays):
    save(spec, *blobs(160))
    np.savez_compressed(tmp_path / "given.npz", **arrays)
    monkeypatch.setattr(compressed, "LARGE", 1 << 10)
    with pytest.raises(DataError, match=r"given\.npz \(.* bytes\) holds arrays of [\d,]+ bytes") as refused:
        plan(spec, set=[f"graph.given={{{kind}: '{tmp_path / 'given.npz'}'}}"], workspace=tmp_path / "work")
    assert "save it again with numpy.savez" in str(refused.value)


def test_given_files_that_the_memory_budget_has_no_room_for(spec, tmp_path):
    save(spec, *blobs(160))
    np.savez(tmp_path / "given.npz", ids=np.zeros((160, 7500), np.int64), distances=np.zeros((160, 7500)))
    with pytest.raises(BudgetError, match=r"given\.npz holds arrays of 19,200,256 bytes, which take \S+MB") as refused:
        run(spec, set=[f"graph.given={{neighbors: '{tmp_path / 'given.npz'}'}}"], workspace=tmp_path / "work",
            execution=InProcess(1, memory_budget=70_000_000))
    assert "the memory budget is 70MB" in str(refused.value)
    assert "raise memory_budget to" in str(refused.value)


@pytest.mark.slow
def test_a_graph_of_the_test_points_alone_is_refused(spec, tmp_path):
    save(spec, *blobs(160))
    run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    test = split_arrays(part(spec, tmp_path / "work", "split"))["test"]
    W = sp.lil_array((160, 160))
    W[test[0], test[1]] = W[test[1], test[0]] = 1.0
    sp.save_npz(tmp_path / "W.npz", sp.csr_array(W))
    with pytest.raises(DataError, match="join none of the 120 training points"):
        run(spec, set=[f"graph.given={{weights: '{tmp_path / 'W.npz'}'}}"], workspace=tmp_path / "work",
            execution=InProcess(2))


def test_a_given_graph_is_one_file_that_exists(spec, tmp_path):
    save(spec, *blobs(160))
    for given in ("{}", "{weights: a.npz, neighbors: b.npz}"):
        with pytest.raises(SpecError, match="exactly one of weights and neighbors"):
            plan(spec, set=[f"graph.given={given}"], workspace=tmp_path / "work")
    with pytest.raises(DataError, match=r"nowhere\.npz"):
        plan(spec, set=["graph.given={weights: nowhere.npz}"], workspace=tmp_path / "work")


def test_the_folder_that_dssl_neighbors_writes_is_read_as_its_lists_in_a_file_are(spec, tmp_path):
    X, y = blobs(160)
    save(spec, X, y)
    lists = neighbors(X, 12)
    folder = lists.to_zarr(tmp_path / "lists")
    np.savez(tmp_path / "lists.npz", ids=lists.indices, distances=lists.distances)
    arrays = []
    for path in (folder, tmp_path / "lists.npz"):
        override = f"graph.given={{neighbors: '{path}'}}"
        run(spec, set=[override], workspace=tmp_path / "work", until="neighbors", execution=InProcess(1))
        stored = part(spec, tmp_path / "work", "neighbors", override)
        arrays.append([stored.rows(name).read_all() for name in ("ids", "distances")])
    assert_array_equal(arrays[0][0], arrays[1][0])
    assert_array_equal(arrays[0][1], arrays[1][1])
    with pytest.raises(DataError, match=r"(?s)lists is not a file.*fix: give the path or the URL of an \.npz file$"):
        plan(spec, set=[f"graph.given={{weights: '{folder}'}}"], workspace=tmp_path / "work")
    (folder / "distances" / "zarr.json").write_text("{")
    with pytest.raises(DataError, match=r"lists/distances"):
        plan(spec, set=[f"graph.given={{neighbors: '{folder}'}}"], workspace=tmp_path / "work")
    (folder / "distances" / "zarr.json").unlink()
    with pytest.raises(DataError, match=r"(?s)lists is not a file.*or the folder that `dssl neighbors` wrote"):
        plan(spec, set=[f"graph.given={{neighbors: '{folder}'}}"], workspace=tmp_path / "work")


# Islands


def test_points_that_no_label_reaches_are_listed_by_source_row(spec, tmp_path):
    """An island of a class that is not kept would be dropped, so it is one without labels, far off."""
    X, y = blobs(160)
    far = np.random.default_rng(2).normal(size=(25, 3)) + 500
    place = np.sort(np.random.default_rng(3).permutation(185)[:25])
    others = np.setdiff1d(np.arange(185), place)
    points, labels = np.empty((185, 3)), np.full(185, -1)
    points[place], points[others] = far, X
    labels[others] = y
    points[place[1]] = points[place[0]]  # two rows of the island are copies
    save(spec, points, labels)
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    unreachable = result.unreachable
    assert unreachable["count"] == 25
    assert unreachable["handled"] == "ambient kernel"
    assert unreachable["ids"] == place[:20].tolist()
    assert Path(unreachable["file"]) == tmp_path / "work" / "runs" / result.run / "unreachable.csv"
    with open(unreachable["file"], newline="") as file:
        rows = list(csv.DictReader(file))
    assert [int(row["row"]) for row in rows] == place.tolist()
    assert {row["component_size"] for row in rows} == {"25"}
    assert json.loads((Path(unreachable["file"]).parent / "result.json").read_text())["unreachable"] == unreachable
    report = Path(result.report).read_text()
    assert f"rows {', '.join(map(str, place[:10]))}, … of the source" in report
    assert "unreachable.csv" in report
    assert "Label a point of the component of the graph that no label reaches: 25 points, perhaps a group" in report


def test_points_that_no_label_reaches_are_named_by_the_identifier(tmp_path):
    X, y = make_blobs(200, 3, centers=[[0, 0, 0], [60, 0, 0], [0, 60, 0]], random_state=0)
    kind = np.where(np.arange(200) % 9 == 0, np.array(["x", "y", ""])[y], "")
    table = pd.DataFrame(X, columns=["a", "b", "c"]).assign(cell_id=[f"c{row:04d}" for row in range(200)], kind=kind)
    table.to_csv(tmp_path / "cells.csv", index=False)
    spec = {"name": "cells", "data": {"source": str(tmp_path / "cells.csv"), "read": {"target": "kind"}},
            "labels": {"given": True}, "model": LAPLACE}
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    listed = pd.read_csv(result.unreachable["file"])
    assert listed.columns.tolist() == ["row", "cell_id", "component_size"]
    assert_array_equal(listed["row"], np.flatnonzero(y == 2))
    assert_array_equal(listed["cell_id"], table["cell_id"][y == 2])


def test_without_islands_there_is_no_list(finished):
    workspace, result = finished
    assert result.unreachable == {"count": 0, "components": 0, "ids": [], "handled": "ambient kernel", "file": None}
    assert not (workspace / "runs" / result.run / "unreachable.csv").exists()


# Points beyond the support, vanishing weights, hubs


@pytest.mark.slow
def test_test_points_beyond_the_support_are_counted_and_said(spec, tmp_path):
    X, y = blobs(160)
    save(spec, X, y)
    plain = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    assert plain.metrics["unsupported"] == 0
    narrow = run(spec, set=["kernel.bandwidth=0.001"], workspace=tmp_path / "work", execution=InProcess(2))
    assert narrow.metrics["unsupported"] == narrow.baselines["base"]["unsupported"] == 40
    assert "test points that are not near any point of the model" in Path(narrow.report).read_text()
    assert "test points that are not near any point of the model" not in Path(plain.report).read_text()
    fitted = open_model(plain.model_path)
    labels, supported = predict_supported(fitted, np.concatenate([X[:5], [[1e4, 0, 0]]]))
    assert supported.tolist() == [True] * 5 + [False]
    assert_array_equal(labels[:5], fitted.predict(X[:5]))


def test_vanishing_weights_are_in_the_report(spec, tmp_path):
    X, y = blobs(160)
    X[:20] += 40 * np.arange(1, 21)[:, None]  # a row of points far from one another
    save(spec, X, y)
    result = run(spec, set=["graph.weights=heat"], workspace=tmp_path / "work", execution=InProcess(2))
    report = Path(result.report).read_text()
    assert "vanishing weights" in report
    assert "the bandwidth is too small for part of the data" in report


def test_hubs_and_given_weights_that_vanish_are_in_the_report(spec, tmp_path):
    X, y = blobs(160)
    y[77] = -1  # so it is a training point
    save(spec, X, y)
    ring = np.arange(160)
    W = sp.lil_array((160, 160))
    W[ring, (ring + 1) % 160] = 1.0
    W[77, ring], W[77, 77], W[77, 120] = 1.0, 0.0, 1e-300
    W = sp.csr_array(W).maximum(sp.csr_array(W).T)
    W[[77, 120], [120, 77]] = 1e-300
    sp.save_npz(tmp_path / "W.npz", sp.csr_array(W))
    y[120] = -1
    save(spec, X, y)
    result = run(spec, set=[f"graph.given={{weights: '{tmp_path / 'W.npz'}'}}"], workspace=tmp_path / "work",
                 execution=InProcess(2))
    report = Path(result.report).read_text()
    assert "the largest, with degrees: 77 (119)" in report  # of 120 training points; named by its row in the source
    assert "2 raised to" in report
    assert "These weights were negligible compared with the median weight" in report


def test_a_bandwidth_that_leaves_nothing_is_refused(spec, tmp_path):
    save(spec, *blobs(160))
    with pytest.raises(ParameterError, match="the median weight is exp"):
        run(spec, set=["graph.weights=heat", "graph.bandwidth=0.0001"], workspace=tmp_path / "work",
            execution=InProcess(1))


def test_features_whose_distances_overflow_are_refused(spec, tmp_path):
    X, y = blobs(160)
    save(spec, X * 1e60, y)
    with pytest.raises(DataError, match="apart"):
        run(spec, set=["data.read.dtype=float64"], workspace=tmp_path / "work", execution=InProcess(1))

"""The pipelines of `model.kind: laprls`: what they find, that it is the same wherever it ran, and what they refuse."""

import copy
import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest
import yaml
from click.testing import CliRunner
from numpy.testing import assert_allclose, assert_array_equal

from dssl.base.errors import BudgetError, DataError, SpecError
from dssl.cli.main import main
from dssl.data.dataset import Dataset
from dssl.data.ingest import open_dataset
from dssl.execution.in_process import InProcess
from dssl.learners.laprls import system as laprls_system
from dssl.learners.laprls.penalties import BANDWIDTHS
from dssl.learners.laprls.products import GramTask
from dssl.methods.laprls import steps as search
from dssl.pipeline.contents import inspect
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.selection.by_labels import max_repetitions
from dssl.storage.artifacts import Workspace, parts_in

from .split_arrays import split_arrays

NAMES = KINDS["laprls"].names
GRID = {"cv": 3, "grid": {
    "gamma_A": ["auto", "100*auto"], "gamma_I": [0, "0.1*auto"], "bandwidth": ["median", "2*median"]}}


@pytest.fixture(scope="module")
def fields(points_file):
    return {"name": "small", "data": {"source": str(points_file), "test": {"count": 60}}, "labels": {"per_class": 8},
            "graph": {"n_neighbors": 6, "weights": "heat"},
            "model": {"kind": "laprls", "landmarks": {"n_landmarks": 40}}}


@pytest.fixture(scope="module")
def chosen(fields, tmp_path_factory):
    """A workspace with a run that had something to choose; nobody writes to it."""
    workspace = tmp_path_factory.mktemp("chosen")
    return workspace, run({**fields, "selection": GRID}, workspace=workspace, execution=InProcess(2))


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A workspace where the runs of several tests find the points, the graph and the landmarks of one another."""
    return tmp_path_factory.mktemp("shared")


def changed(fields, *overrides):
    return load_spec(copy.deepcopy(fields), overrides)


def models_of(result):
    """Return the arrays and the attributes of a run's models."""
    folder = Workspace.at(result.model_path).root
    return parts_in(folder).read(0), json.loads((folder / "manifest.json").read_text())["attributes"]


def selection_of(result):
    """Return the attributes of a run's selection."""
    workspace = Workspace.at(result.model_path).root.parents[2]
    address = next(stage.address for stage in result.stages if stage.name == "selection")
    manifest = workspace / "artifacts" / "selection" / address[:24] / "manifest.json"
    return json.loads(manifest.read_text())["attributes"]


def assert_same_models(one, other):
    (mine, own), (theirs, others) = models_of(one), models_of(other)
    assert mine.keys() == theirs.keys()
    for name in mine:
        assert_array_equal(mine[name], theirs[name], err_msg=name)
    assert own["models"] == others["models"]
    assert selection_of(one)["choices"] == selection_of(other)["choices"]


# What it finds


@pytest.mark.slow
def test_what_was_chosen_is_the_best_of_the_grid(chosen):
    _, result = chosen
    found = selection_of(result)
    assert found["folds"] == 3
    assert {name: len(rows) for name, rows in found["grid"].items()} == {"model": 8, "base": 4}
    for name, rows in found["grid"].items():
        best = min(rows, key=lambda row: (row["error"], row["rmse"]))
        assert found["choices"][name] == best == result.selection[name]
    assert {row["gamma_I"] for row in found["grid"]["base"]} == {0.0}
    assert found["choices"]["shuffled"] == found["choices"]["model"]
    evidence = models_of(result)[1]["evidence"]
    assert sorted(name for item in evidence for name in item["models"]) == ["base", "model", "shuffled"]
    for item in evidence:
        assert item["method"] == "nystrom-direct"
        assert item["max_residual"] < 1e-10
        assert item["landmarks"]["count"] == item["whitening"]["rank"] == 40
        assert item["held_out"] == {"method": "closed_form", "held_out_points": "transductive"}
        held_out = {"held_out"} if "model" in item["models"] else set()
        assert set(item["seconds"]) == {"prepare", "cross_validation", "solve", *held_out}


def test_penalties_and_bandwidth_are_chosen_by_default_with_a_label_a_class(fields, tmp_path):
    result = run({**fields, "labels": {"per_class": 1}}, workspace=tmp_path, execution=InProcess(2))
    selection = selection_of(result)
    assert selection["folds"] == 0
    assert selection["rule"]["spectral_concentration"] > 0
    assert selection["choices"]["base"]["gamma_I"] == 0
    assert selection["choices"]["model"]["bandwidth"] == "0.5*median"
    text = (tmp_path / "runs" / result.run / "report.html").read_text()
    assert ("The parameters were selected without labels, because no class has two of them, given the spectral "
            "concentration of the graph") in text


@pytest.mark.slow
def test_the_bandwidth_alone_is_chosen_where_penalties_are_given(fields, tmp_path):
    overrides = ["model.gamma_A=auto", "model.gamma_I=auto"]
    result = run(fields, set=overrides, workspace=tmp_path, execution=InProcess(2))
    selection = selection_of(result)
    rows = {name: [row["bandwidth"] for row in rows] for name, rows in selection["grid"].items()}
    assert rows == {"model": list(BANDWIDTHS), "base": list(BANDWIDTHS)}
    assert dict(selection["rule"]["of_bandwidths"]).keys() == {*BANDWIDTHS}
    assert selection["rule"]["spectral_concentration"] > 0
    planned = {stage["name"]: stage["status"] for stage in plan(fields, set=overrides, workspace=tmp_path).records()}
    assert planned["selection"] == planned["models"] == "cached"


def test_a_grid_has_both_bandwidths_and_other_kernels_have_none(fields):
    def bandwidths(*overrides):
        return [kernel.bandwidth for kernel in changed(fields, *overrides).kernels()]

    assert bandwidths() == bandwidths("selection.grid.gamma_I=[0, auto]") == list(BANDWIDTHS)
    assert bandwidths("kernel.name=linear") == bandwidths("kernel.bandwidth=null") == [None]
    assert bandwidths("kernel.bandwidth=0.5*median") == ["0.5*median"]
    assert bandwidths("selection.grid.bandwidth=[1, 2]") == [1, 2]
    assert bandwidths("model.kind=lapsvm") == [None]
    with pytest.raises(SpecError, match="penalties or a bandwidth that are chosen"):
        changed(fields, "model.kind=lapsvm", "kernel.bandwidth=chosen")
    with pytest.raises(SpecError, match="wide"):
        changed(fields, "kernel.bandwidth=wide")


@pytest.mark.slow
def test_without_the_graph_the_model_is_its_base_and_the_page_says_so(fields, tmp_path):
    result = run(fields, set=["model.gamma_I=0"], workspace=tmp_path, execution=InProcess(2))
    of_probabilities = dict.fromkeys(("log_loss", "log_loss_interval", "reliability"))  # which baselines have none of
    model, base, shuffled = ({**scores, **of_probabilities} for scores in (
        result.metrics, result.baselines["base"], result.baselines["shuffled"]))
    assert model == base == shuffled
    page = (tmp_path / "runs" / result.run / "report.html").read_text()
    assert "The model equals the base model, because the graph was not used" in page
    result = run(fields, set=["selection={cv: 3, grid: {gamma_I: [0, 1e7*auto]}}"], workspace=tmp_path,
                 execution=InProcess(2))
    assert result.selection["model"]["gamma_I"] == 0
    text = (tmp_path / "runs" / result.run / "report.html").read_text()
    assert "The graph does not help here" in text


def test_the_page_shows_penalties_and_the_solve(chosen):
    workspace, result = chosen
    text = (workspace / "runs" / result.run / "report.html").read_text()
    for words in ("Selected parameters", "Errors of 4 pairs of gamma_A and gamma_I", "over all relabelings",
                  "rank 40 of 40", "nystrom-direct", "predicted exactly in closed form", "(transductive)",
                  "blocks and Gram matrices", "rmse from the codes ±1"):
        assert words in text, words
    for words in ("model.eta", "model.C", "removed from the landmarks", "vertices of its graph permuted"):
        assert words not in text, words


@pytest.mark.slow
def test_iterations_find_what_the_direct_solver_finds(fields, shared):
    own = ["model.tol=1e-10", "model.gamma_A=auto", "model.gamma_I=auto", "kernel.bandwidth=median"]
    one, other = (run(fields, set=[*own, f"model.solver={name}"], workspace=shared, execution=InProcess(2))
                  for name in ("direct", "pcg"))
    assert one.metrics["confusion"] == other.metrics["confusion"]
    mine, theirs = (open_model(result.model_path).model for result in (one, other))
    assert len(mine.points) == 200
    rows = np.random.default_rng(0).normal(size=(20, 4))
    assert_allclose(mine.values(rows), theirs.values(rows), rtol=1e-6, atol=1e-6)


@pytest.mark.slow
def test_equal_points_count_as_many(fields, points_file, tmp_path):
    with np.load(points_file) as arrays:
        X, y = arrays["X"], arrays["y"]
    np.savez(tmp_path / "twice.npz", X=np.concatenate([X, X]), y=np.concatenate([y, y]))
    spec = changed(fields, f"data.source={tmp_path / 'twice.npz'}").to_dict()
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    assert all(item["points"] <= 260 for item in models_of(result)[1]["evidence"])
    landmarks = inspect("landmarks", Workspace.at(tmp_path / "work"))
    assert landmarks["attributes"]["landmarks"][0]["count"] == 40


# Wherever it runs


@pytest.mark.slow
def test_a_run_that_is_killed_between_shares_keeps_those_that_are_done(fields, tmp_path, monkeypatch):
    monkeypatch.setattr(laprls_system, "MIN_BLOCK_ROWS", 32)  # several shares of 200 points
    spec, real = {**fields, "selection": GRID}, GramTask.__call__
    made: list[tuple[int, int]] = []

    def counted(task, out):
        if len(made) == limit:
            raise KeyboardInterrupt
        made.append((task.first, task.last))
        return real(task, out)

    monkeypatch.setattr(GramTask, "__call__", counted)
    limit = None
    whole, twice = Counting(), Counting()
    undisturbed = run(spec, workspace=tmp_path / "undisturbed", execution=whole)
    shares = made.copy()
    assert len(shares) > 6
    made.clear()
    limit = 3
    with pytest.raises(KeyboardInterrupt):
        run(spec, workspace=tmp_path / "work", execution=twice)
    planned = {stage["name"]: stage for stage in plan(spec, workspace=tmp_path / "work").records()}
    assert planned["selection"]["status"] == "partial"
    assert planned["selection"]["why"] == "5 parts are finished"  # the energy and the points in blocks are two
    limit = None
    assert_same_models(run(spec, workspace=tmp_path / "work", execution=twice), undisturbed)
    assert made == shares  # none of them twice
    for name in ("SplitTask", "SendTask", "ArriveTask"):
        assert whole.names[name] == twice.names[name] == 1
    folder, = (tmp_path / "work" / "artifacts" / "selection").iterdir()
    assert not list(folder.glob("*/within/shares*"))
    assert not list((tmp_path / "work" / "artifacts").glob("*/*/*/within/blocks"))
    used = {choice["bandwidth"] for choice in selection_of(undisturbed)["choices"].values()}
    assert len(list(folder.glob("*/within/gram*"))) == len(used)  # what the fit goes on from


@pytest.mark.slow
def test_a_run_that_is_killed_between_kernels_searches_none_twice(fields, tmp_path, monkeypatch):
    spec, real = {**fields, "selection": GRID}, search.search_penalties
    undisturbed = run(spec, workspace=tmp_path / "undisturbed", execution=InProcess(1))
    done: list[int] = []

    def counted(prepared, *others):
        if len(done) == limit:
            raise KeyboardInterrupt
        done.append(1)
        return real(prepared, *others)

    monkeypatch.setattr(search, "search_penalties", counted)
    limit = 1
    with pytest.raises(KeyboardInterrupt):
        run(spec, workspace=tmp_path / "work", execution=InProcess(1))
    limit = None
    assert_same_models(run(spec, workspace=tmp_path / "work", execution=InProcess(1)), undisturbed)
    assert len(done) == 2  # bandwidths


# Addresses


def test_kinds_share_what_comes_before_the_model(fields, small_spec):
    names = KINDS["svm"].names[:KINDS["svm"].names.index("health") + 1]
    mine = {stage["name"]: stage["address"] for stage in plan(fields, workspace="nowhere").records()}
    for kind in ("svm", "ridge"):
        own = {**{key: value for key, value in fields.items() if key != "model"}, "model": {"kind": kind}}
        theirs = {stage["name"]: stage["address"] for stage in plan(own, workspace="nowhere").records()}
        assert {name: mine[name] for name in names} == {name: theirs[name] for name in names}
        assert mine["models"] != theirs["models"]
    assert KINDS["laprls"].names == [*names, "landmarks", "selection", "models", "sample", "scores", "predictions"]


@pytest.mark.parametrize(("override", "expected"), [
    *((override, {"selection", "models", "sample", "scores", "predictions"}) for override in (
        "model.gamma_A=3", "model.solver=nystrom-pcg", "kernel.bandwidth=2.0", "graph.laplacian=unnormalized",
        "selection.grid.gamma_I=[0, 1]", "selection={held_out: refit}")),
    ("model.landmarks.n_landmarks=41", {"landmarks", "selection", "models", "sample", "scores", "predictions"}),
    ("model.landmarks.random_state=1", {"landmarks", "selection", "models", "sample", "scores", "predictions"}),
    ("labels.random_state=1", {"labels", "health", "landmarks", "selection", "models", "sample", "scores",
                               "predictions"}),
    ("graph.weights=binary", {"graph", "health", "selection", "models", "sample", "scores", "predictions"}),
    ("data.rows=all", set()),
])
def test_a_change_moves_what_depends_on_it(fields, override, expected):
    before, after = ({stage["name"]: stage["address"] for stage in plan(fields, set=own, workspace="nowhere").records()}
                     for own in ([], [override]))
    assert {name for name in NAMES if before[name] != after[name]} == expected


# What is refused


@pytest.mark.parametrize(("overrides", "words"), [
    (["model.gamma_A=zero"], "model.gamma_A='zero', expected a number > 0, or \"auto\""),
    (["model.gamma_A=0"], "model.gamma_A=0.0, expected a number > 0"),
    (["model.gamma_I=-1"], "model.gamma_I=-1.0, expected a number >= 0"),
    (["model.gamma_A=0", "selection.grid.gamma_A=[1, 2]"], "model.gamma_A=0.0, expected a number > 0"),
    (["model.eta=1"], "  model.eta: model.kind is laprls, which has no use for it"),
    (["model.landmarks.n_landmarks=many"],
     "  model.landmarks.n_landmarks: Input should be a valid integer or a valid number or "
     "'auto' or 'sqrt' (given: 'many')\n  why"),
    (["selection.cv=leave_one"], "  selection.cv: Input should be a valid integer or 'leave_one_out' (given: "
     "'leave_one')\n  why"),
    (["data.source=[a.npz, 3]"], "  data.source.1: YAML reads 3 as a number"),
    (["model.landmarks.n_landmarks=0"], "model.landmarks.n_landmarks=0"),
    (["model.landmarks.method=best"], "model.landmarks.method"),
    (["model.solver=amg"], "model.solver"), (["model.whitening=2"], "model.whitening=2"),
    (["model.kind=lapsvc"],
     "  model.kind: Input should be 'automatic', 'svm', 'ridge', 'laprls', 'lapsvm', 'graph', 'cluster', "
     "'multiscale', 'transductive', 'clustering' or 'kernel_clustering' (given: 'lapsvc')"),
    (["model.landmarks.method=kmeans", "model.preconditioner=paper"], "model.preconditioner='paper'"),
    (["selection.grid.eta=[1]"], "  selection.grid.eta: model.kind is laprls, which has no use for it"),
    (["selection.gamma_A=[1]"], "  selection.gamma_A: it is a key of selection.grid"),
    (["selection.held_out=bif"], "selection.held_out"),
    (["selection.held_out=closed_form", "model.solver=nystrom-pcg"],
     "model.held_out='closed_form' with solver="),
    (["selection.grid.gamma_A=[1, 1]"], "model.gamma_A=[1.0, 1.0]"),
    (["model={kind: svm}", "selection.grid.gamma_I=[1]"],
     "  selection.grid.gamma_I: model.kind is svm, which has no use for it"),
    (["model.n_landmarks=10"],
     "model.n_landmarks: there is no such key here; did you mean model.landmarks.n_landmarks?"),
    (["graph.power=2"], "  graph.power: model.kind is laprls, which has no use for it"),
    (["graph.ridge=0.1"], "  graph.ridge: model.kind is laprls, which has no use for it"),
    (["solver.method=amg"], "  solver: model.kind is laprls, which has no use for it"),
    (["baselines=[base, shuffled, landmark_graph]"], "baselines.2: Input should be 'base' or 'shuffled'"),
    (["data.rows=official_train", "data.test={official: true}"], "data.rows='official_train', and test.official"),
])
def test_a_spec_that_makes_no_sense_is_refused_before_any_work(fields, overrides, words):
    with pytest.raises(SpecError) as raised:
        changed(fields, *overrides)
    assert words.strip() in str(raised.value)
    assert "fix:" in str(raised.value)
    assert "svm or ridge" not in str(raised.value)


def test_a_spec_and_its_record_are_the_same_pipeline(fields):
    spec = load_spec(fields)
    assert not {"solver"} & set(spec.to_dict())
    assert not {"ridge", "power"} & set(spec.to_dict()["graph"])
    assert load_spec(spec.to_dict()) == spec


def test_landmarks_that_cannot_fit_are_refused_before_the_run(fields, tmp_path):
    rng = np.random.default_rng(0)
    np.savez(tmp_path / "many.npz", X=rng.normal(size=(4000, 4)).astype(np.float32), y=rng.integers(0, 3, 4000))
    own = [f"data.source={tmp_path / 'many.npz'}", "model.landmarks.n_landmarks=3000"]
    with pytest.raises(BudgetError, match=r"use fewer landmarks: model\.landmarks\.n_landmarks"):
        run(fields, set=own, workspace=tmp_path / "work", execution=InProcess(1, 128 << 20))
    assert not (tmp_path / "work" / "artifacts").exists()


@pytest.mark.filterwarnings("default")
def test_a_command_tells_a_warning_without_its_line_of_code(fields, tmp_path):
    spec = changed(fields, "model.landmarks.n_landmarks=5000")
    (tmp_path / "spec.yaml").write_text(json.dumps(spec.to_dict()), encoding="utf-8")
    done = CliRunner().invoke(main, ["run", str(tmp_path / "spec.yaml"), "--workspace", str(tmp_path / "work"), "--on",
                                     "in-process", "--until", "landmarks"])
    assert done.exit_code == 0
    assert "warning: n_landmarks=5000" in done.stderr
    assert "UserWarning" not in done.stderr
    assert ".py" not in done.stderr


def test_only_the_official_training_rows(fields, points_file, tmp_path):
    with np.load(points_file) as arrays:
        X, y = arrays["X"], arrays["y"]
    half = (np.arange(len(y)) % 2).astype(np.int8)
    np.savez(tmp_path / "split.npz", X=X, y=y, split=half)
    spec = changed(fields, f"data.source={tmp_path / 'split.npz'}", "data.rows=official_train",
                   "data.test.count=30").to_dict()
    run(spec, workspace=tmp_path / "work", execution=InProcess(1), until="labels")
    split, = (tmp_path / "work" / "artifacts" / "split").iterdir()
    found = split_arrays(split)
    assert (half[np.concatenate([found["train"], found["test"]])] == 0).all()
    assert (len(found["train"]), len(found["test"])) == (100, 30)
    assert_array_equal(found["train_codes"], y[found["train"]])
    with pytest.raises(DataError, match=r"points\.npz has no official split"):
        run(fields, set=["data.rows=official_train"], workspace=tmp_path / "none", execution=InProcess(1))


# Predictions


def test_predictions_of_new_rows_and_of_data_sets(chosen, points_file, tmp_path):
    _, result = chosen
    with np.load(points_file) as arrays:
        X = arrays["X"]
    expected = open_model(result.model_path).predict(X)
    runs = CliRunner()
    ingested = runs.invoke(main, ["ingest", str(points_file), str(tmp_path / "set"), "--json"])
    assert ingested.exit_code == 0, ingested.stderr
    for source in (points_file, tmp_path / "set"):
        for name in ("out.csv", "out.npy"):
            done = runs.invoke(main, ["predict", str(result.model_path), str(source), str(tmp_path / name), "--json",
                                      "--overwrite"])
            assert done.exit_code == 0, done.stderr
        assert_array_equal(np.load(tmp_path / "out.npy"), expected)
        assert_array_equal(pd.read_csv(tmp_path / "out.csv")["label"], expected)
    dataset = open_dataset(tmp_path / "set")
    assert isinstance(dataset, Dataset)
    assert_array_equal(open_model(result.model_path, "shuffled").predict(dataset.X),
                       open_model(result.model_path, "shuffled").predict(X))


@pytest.mark.slow
def test_a_regression(tmp_path):
    rng = np.random.default_rng(0)
    along = rng.uniform(0, 3, 260)
    X = np.stack([np.cos(along), np.sin(along), 0.3 * along], axis=1) + 0.02 * rng.normal(size=(260, 3))
    np.savez(tmp_path / "curve.npz", X=X, y=3 * along - 2)
    spec = {"name": "curve", "data": {"source": str(tmp_path / "curve.npz"), "task": "regression",
                                      "test": {"count": 60}}, "labels": {"count": 20}, "graph": {"n_neighbors": 6},
            "model": {"kind": "laprls", "gamma_A": "0.1*auto", "landmarks": {"n_landmarks": "sqrt"}},
            "selection": {"cv": 4, "grid": {"gamma_A": ["0.1*auto", "10*auto"], "gamma_I": [0, "0.01*auto"]}}}
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    assert result.metrics["r2"] > 0.9
    found = selection_of(result)
    assert found["choices"]["model"]["rmse"] == min(row["rmse"] for row in found["grid"]["model"])
    assert "error" not in found["choices"]["model"]
    assert "rmse in cross-validation" in (tmp_path / "work" / "runs" / result.run / "report.html").read_text()
    predicted = open_model(result.model_path).predict(X)
    assert np.sqrt(((predicted - (3 * along - 2)) ** 2).mean()) < 0.3


# What it takes


class Counting(InProcess):
    """Counts its tasks by name; those left out are as many as iterations, samples and the form of the rows make."""

    skipped = ("SystemProductTask", "SampleTask", "DrawTask")

    def __init__(self):
        super().__init__(1)
        self.names = Counter()

    def _run(self, pending, done):
        self.names.update(type(placed.task).__name__ for placed in pending)
        super()._run(pending, done)

    @property
    def count(self):
        return sum(count for name, count in self.names.items() if name not in self.skipped)


@pytest.mark.parametrize(("kind", "solver", "repetitions"), [
    ("laprls", "nystrom-direct", 1), ("laprls", "nystrom-direct", 3), ("laprls", "pcg", 1),
    ("lapsvm", "nystrom-pcg", 1)])
@pytest.mark.extended_cases("laprls-nystrom-direct-3")
@pytest.mark.slow_cases("laprls-nystrom-direct-1")
def test_a_plan_counts_the_tasks_of_all_repetitions(fields, shared, kind, solver, repetitions):
    spec = {**fields, "model": {"kind": kind, "landmarks": {"n_landmarks": 40}, "solver": solver},
            "selection": {**GRID, "repetitions": repetitions}}
    run(spec, workspace=shared, execution=InProcess(1), until="landmarks")
    planned = {stage["name"]: stage["tasks"] for stage in plan(spec, workspace=shared).records()}
    counting = Counting()
    run(spec, workspace=shared, execution=counting, until="selection")
    upper_bound = 1.0 if "nystrom" not in solver else 1.5
    assert counting.count <= planned["selection"] <= upper_bound * counting.count, counting.names
    # Labels are left out of the model and of the base, for probabilities and to compare them.
    assert planned["models"] <= planned["selection"] + 2 * max_repetitions(0)


@pytest.mark.slow
def test_a_fit_from_what_a_selection_keeps_is_planned_as_one(fields, shared, tmp_path):
    """It reads no points, so that it takes as much of any number of them."""
    spec = fields
    run(spec, workspace=shared, execution=InProcess(1), until="landmarks")
    planned = {stage["name"]: stage["tasks"] for stage in plan(spec, workspace=shared).records()}
    for stage in ("selection", "models"):
        counting = Counting()
        run(spec, workspace=shared, execution=counting, until=stage, from_stage=stage)
        assert counting.count <= planned[stage] <= 1.5 * counting.count + 2, (stage, counting.names)
    spec = spec | {"model": spec["model"] | {"solver": "nystrom-direct"}}
    few, many = ({stage["name"]: stage for stage in plan(spec, points=n, columns=64, workspace=tmp_path).records()}
                 for n in (10**6, 10**7))
    assert few["models"] == {**many["models"], "address": few["models"]["address"]}
    assert few["models"]["read_bytes"] < 0.05 * few["selection"]["read_bytes"]
    assert many["selection"]["read_bytes"] > 3 * few["selection"]["read_bytes"]


# Commands


@pytest.mark.cluster
@pytest.mark.slow
def test_commands_on_two_worker_processes(fields, tmp_path):
    (tmp_path / "spec.yaml").write_text(yaml.safe_dump({**fields, "selection": GRID}))
    runs = CliRunner()

    def invoked(*arguments):
        done = runs.invoke(main, [*map(str, arguments), "--workspace", str(tmp_path / "work"), "--json"])
        assert done.exit_code == 0, done.stderr
        return json.loads(done.stdout)

    spec = tmp_path / "spec.yaml"
    planned = invoked("plan", spec)
    assert [stage["name"] for stage in planned["stages"]] == NAMES
    (tmp_path / "two.yaml").write_text("kind: local\nworkers: 2\nthreads_per_worker: 1\n")
    result = invoked("run", spec, "--on", tmp_path / "two.yaml")
    assert result["status"] == "done"
    assert all(stage["predicted_peak_bytes"] > 0 for stage in result["stages"])
    assert {stage["status"] for stage in invoked("plan", spec)["stages"]} == {"cached"}
    assert invoked("inspect", "selection")["attributes"]["choices"]["model"] == result["selection"]["model"]
    invoked("verify")


# Points that are held out and leave the graph


@pytest.mark.slow
def test_points_that_are_held_out_may_leave_the_graph(fields, tmp_path):
    spec = {**fields, "model": {**fields["model"], "kind": "lapsvm"}, "selection": {
        "cv": 3, "grid": {**GRID["grid"], "gamma_I": [0, "auto"]}, "held_out_points": "inductive", "repetitions": 2}}
    found, other = (run(spec, set=[f"selection.held_out_points={points}"], workspace=tmp_path,
                        execution=InProcess(2)) for points in ("inductive", "transductive"))
    for result, points in ((found, "inductive"), (other, "transductive")):
        selection = selection_of(result)
        assert selection["held_out_points"] == points
        assert all(item["held_out"]["held_out_points"] == points for item in selection["evidence"])
        page = (Workspace.at(result.model_path).root.parents[2] / "runs" / result.run / "report.html").read_text()
        sentences = {"inductive": "are removed from the graph", "transductive": "stay in the graph"}
        assert f"{sentences[points]}" in page
        assert all(text not in page for name, text in sentences.items() if name != points)
    by_penalty = [{(row["gamma_A"], row["gamma_I"], row["bandwidth"]): row["loss"]
                   for row in selection_of(result)["grid"]["model"]} for result in (found, other)]
    differ = {key[1] > 0 for key in by_penalty[0] if abs(by_penalty[0][key] - by_penalty[1][key]) > 1e-9}
    assert differ == {True}, "pairs with the graph differ, and those without it do not"


@pytest.mark.parametrize(("overrides", "says"), [
    (["model.solver=nystrom-pcg"], "own graph"),
    (["selection.held_out=influence", "model.kind=lapsvm"], "refit"),
    (["model.kind=svm"], "held_out_points='inductive', deformed kernels")])
def test_where_points_that_are_held_out_cannot_leave_the_graph(fields, overrides, says):
    spec = {**fields, "selection": {"cv": 3, "held_out_points": "inductive"}}
    if "model.kind=svm" in overrides:
        spec["model"] = {}
    with pytest.raises(SpecError, match=says):
        changed(spec, *overrides)


def test_a_plain_number_says_how_many_landmarks_there_are(fields):
    plain, mapping = (load_spec({**fields, "model": {"kind": "laprls", "landmarks": landmarks}})
                      for landmarks in (40, {"n_landmarks": 40}))
    assert plain.params == mapping.params
    assert plain.params.laprls.landmarks.n_landmarks == 40
    with pytest.raises(SpecError, match="n_landmarks=0"):
        load_spec({**fields, "model": {"kind": "laprls", "landmarks": 0}})

"""`selection:` of every kind: which combinations are tried, on which folds, and what a kind can vary."""

import shutil

import numpy as np
import pytest

from dssl import GraphKernelRidge, GridSearch, KNNGraph
from dssl.base.errors import SpecError
from dssl.execution.in_process import InProcess
from dssl.learners.laprls.products import GramTask
from dssl.methods.deformed import models as deformed_models
from dssl.methods.laprls import steps as laprls_steps
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.selection.folds import labeled_folds
from dssl.storage.artifacts import parts_in
from dssl.storage.manifests import read_manifest

pytestmark = [pytest.mark.slow]
GRIDS = {
    "svm": {"eta": [1, 10, 100], "power": [1, 2], "C": [1, 10], "bandwidth": ["median", "2*median"]},
    "ridge": {"eta": [1, 10, 100], "power": [1, 2], "C": [1, 10], "bandwidth": ["median", "2*median"]},
    "laprls": {"gamma_A": ["auto", "10*auto", "100*auto"], "gamma_I": [0, "0.1*auto", "auto", "10*auto"],
               "bandwidth": ["median", "2*median"]},
    "lapsvm": {"gamma_A": ["auto", "10*auto", "100*auto"], "gamma_I": [0, "auto"], "bandwidth": ["median", "2*median"],
               "loss": ["squared_hinge", "logistic"]},
    "graph": {"ridge": [None, 0.01, [0.001, 0.01]], "power": [1, [1, 2, 3]], "penalty": [0.01, 0.1, 1.0],
              "learner": ["ridge", "laplace", "poisson"]}}
PARAMETERS = {"svm": ("power", "eta", "C", "bandwidth"), "ridge": ("power", "eta", "C", "bandwidth"),
              "laprls": ("gamma_A", "gamma_I", "bandwidth"),
              "lapsvm": ("loss_function", "gamma_A", "gamma_I", "bandwidth"),
              "graph": ("learner", "ridge", "power", "penalty")}
COUNTS = {"svm": 24, "ridge": 24, "laprls": 24, "lapsvm": 24, "graph": 20}


@pytest.fixture(scope="module")
def spec_of(points_file):
    def make(kind, **selection):
        deformed = kind in ("svm", "ridge")
        return {"name": "small", "data": {"source": str(points_file), "test": {"count": 60}},
                "labels": {"per_class": 8}, "graph": {"n_neighbors": 6},
                "baselines": ["base"] if kind == "graph" else ["base", "shuffled"],
                "model": {"kind": kind, **({"landmarks": {"n_landmarks": 40}} if kind.startswith("lap") else {}),
                          **({"n_landmarks": 40} if deformed else {})},
                **({"solver": {"method": "gauss_seidel"}} if deformed else {}),
                "selection": {"grid": GRIDS[kind], **selection}}
    return make


def selected(workspace):
    path, = (workspace / "artifacts" / "selection").glob("*/manifest.json")
    return read_manifest(path)["attributes"]


def before_selection(workspace, place):
    """Return a copy of a workspace without its selection and what is made of that."""
    return shutil.copytree(workspace, place, ignore=shutil.ignore_patterns(
        "selection", "vertex_values", "models", "scores", "runs", "lock.json"))


def candidate_of(row, kind):
    return tuple(str(row.get(name)) for name in PARAMETERS[kind])


@pytest.mark.parametrize("kind", PARAMETERS)
@pytest.mark.extended_cases("laprls", "lapsvm", "ridge", "svm")
def test_all_some_and_the_better_of_all_combinations(spec_of, kind, tmp_path):
    whole, some, halved = (tmp_path / name for name in ("grid", "random", "halving"))
    run(spec_of(kind, cv=9), workspace=whole, execution=InProcess(2), until="selection")
    run(spec_of(kind, cv=9, search="random", n_candidates=7), workspace=before_selection(whole, some),
        execution=InProcess(2), until="selection")
    result = run(spec_of(kind, cv=9, search="halving", random_state=0), workspace=before_selection(whole, halved),
                 execution=InProcess(2))
    every = {candidate_of(row, kind): row for row in selected(whole)["grid"]["model"]}
    assert len(every) == COUNTS[kind]
    drawn = selected(some)
    assert len({candidate_of(row, kind) for row in drawn["grid"]["model"]}) == 7
    assert drawn["search"] == {"n_candidates": 7, "factor": None, "random_state": 0}
    by = "error" if "loss" in drawn["choices"]["model"] else "rmse"
    for row in drawn["grid"]["model"]:
        for name in (by, f"{by}_se"):
            assert row[name] == pytest.approx(every[candidate_of(row, kind)][name])
    assert drawn["choices"]["model"][by] == min(row[by] for row in drawn["grid"]["model"])
    found = selected(halved)
    rows = found["grid"]["model"]
    assert {candidate_of(row, kind) for row in rows} == set(every)
    counts = sorted(row["n_folds"] for row in rows)
    assert counts[0] < counts[-1] == 9
    assert counts.count(9) in (2, 3)
    choice = found["choices"]["model"]
    assert choice["n_folds"] == 9
    assert choice[by] == min(row[by] for row in rows if row["n_folds"] == 9)
    assert choice[by] == pytest.approx(every[candidate_of(choice, kind)][by])
    assert result.selection["model"] == choice
    page = (halved / "runs" / result.run / "report.html").read_text()
    assert "Selected parameters" in page
    again = run(spec_of(kind, cv=9, search="halving", random_state=0), workspace=halved, execution=InProcess(1))
    assert {stage.status for stage in again.stages} == {"cached"}


def test_losses_share_the_gram_matrices_of_a_bandwidth(spec_of, tmp_path, monkeypatch):
    made, real = [], GramTask.__call__
    monkeypatch.setattr(GramTask, "__call__", lambda self, out: made.append(self) or real(self, out))
    run(spec_of("lapsvm", cv=3), workspace=tmp_path / "two", execution=InProcess(1), until="selection")
    two, made[:] = len(made), []
    alone = spec_of("lapsvm", cv=3)
    alone["selection"]["grid"] = {**GRIDS["lapsvm"], "loss": ["logistic"]}
    run(alone, workspace=before_selection(tmp_path / "two", tmp_path / "one"), execution=InProcess(1),
        until="selection")
    assert two == len(made) > 0
    folder, = (tmp_path / "two" / "artifacts" / "selection").iterdir()
    assert not list(folder.glob("*/within/shares*/receipts/*"))
    assert "loss_function" not in selected(tmp_path / "one")["choices"]["model"]


@pytest.mark.parametrize("kind", ["laprls", "lapsvm", "svm"])
@pytest.mark.extended_cases("lapsvm", "svm")
def test_a_search_by_halving_that_is_killed_goes_on(spec_of, kind, tmp_path, monkeypatch):
    spec = spec_of(kind, cv=9, search="halving")
    run(spec, workspace=tmp_path / "whole", execution=InProcess(1), until="selection")
    calls, limit = [], [10 ** 9]
    where, name = (deformed_models, "search_deformed") if kind == "svm" else (laprls_steps, "search_penalties")
    real = getattr(where, name)

    def counted(*given, **more):
        calls.append(given)
        if len(calls) > limit[0]:
            raise KeyboardInterrupt
        return real(*given, **more)

    monkeypatch.setattr(where, name, counted)
    counted_in, killed = (before_selection(tmp_path / "whole", tmp_path / name) for name in ("counted", "killed"))
    run(spec, workspace=counted_in, execution=InProcess(1), until="selection")
    whole, limit[0] = len(calls), len(calls) - 2
    calls.clear()
    with pytest.raises(KeyboardInterrupt):
        run(spec, workspace=killed, execution=InProcess(1), until="selection")
    calls.clear()
    limit[0] = 10 ** 9
    run(spec, workspace=killed, execution=InProcess(1), until="selection")
    assert len(calls) < whole / 2
    one, other = (selected(tmp_path / name) for name in ("whole", "killed"))
    assert (one["grid"], one["choices"]) == (other["grid"], other["choices"])


def test_the_graph_kind_finds_what_the_estimator_finds(spec_of, tmp_path):
    spec = spec_of("graph", cv=5, repetitions=2, scoring="neg_brier_score")
    spec["data"]["scale"] = "none"
    spec["selection"]["grid"] = {"ridge": [None, 0.01], "penalty": [0.01, 1.0]}
    spec["graph"]["width"] = 0.5
    result = run(spec, workspace=tmp_path, execution=InProcess(2))
    stages = {stage.name: tmp_path / "artifacts" / stage.name / stage.address[:24]
              for stage in result.stages}
    points, labels = (parts_in(stages[name]) for name in ("points", "labels"))
    X, known = points.rows("train").read_all(), labels.read(0)
    y = np.full(len(X), -1)
    y[known["labeled"]] = known["codes"]
    own = GridSearch(GraphKernelRidge(KNNGraph(n_neighbors=6)), spec["selection"]["grid"],
                     scoring="neg_brier_score", refit=False,
                     cv=[fold for folds in repeated(known["codes"]) for fold in folds]).fit(X, y)
    rows = selected(tmp_path)["grid"]["model"]
    np.testing.assert_allclose([row["brier"] for row in rows], own.cv_results_["brier"], rtol=1e-6)
    assert [row["penalty"] for row in rows] == [0.01, 1.0, 0.01, 1.0]
    values = read_manifest(stages["vertex_values"] / "manifest.json")["attributes"]
    assert values["learner"] == "ridge"
    ridges = result.selection["model"]["ridge"]
    assert ridges in (None, [0.01])
    assert {kernel["ridge"] for kernel in values["kernels"]} == {0.01} or ridges is None


def repeated(codes):
    return [labeled_folds(codes, 5, 0, number) for number in range(2)]


@pytest.mark.parametrize(("kind", "selection", "says"), [
    ("svm", {"grid": {"gamma_I": [1]}}, r"selection\.grid\.gamma_I: model\.kind is svm, which has no use for it, leave "
     r"it out; laprls and lapsvm have it, svm has here graph, bandwidth, power, eta, C"),
    ("laprls", {"grid": {"loss": ["logistic"]}}, r"lapsvm and cluster and multiscale have it, laprls has here graph, "
     "bandwidth, gamma_A, gamma_I"),
    ("graph", {"grid": {"bandwidth": ["median"]}}, r"did you mean selection\.grid\.graph\.bandwidth"),
    ("graph", {"grid": {"learner": ["svm"]}}, "selection.grid.learner"),
    ("graph", {"grid": {"penalty": [-1.0]}}, "penalty=-1.0"),
    ("graph", {"grid": {"power": [0]}}, "power="),
    ("graph", {"held_out_points": "inductive"}, "held_out_points"),
    ("svm", {"held_out": "influence"}, "this kind of model has auto, refit"),
    ("graph", {"held_out": "refit"}, "this kind of model has auto, closed_form"),
    ("laprls", {"search": "random"}, "search random takes n_candidates"),
    ("laprls", {"n_candidates": 5}, "grid tries all"), ("laprls", {"factor": 2}, "factor is of search halving"),
    ("svm", {"search": "halving", "factor": 1}, "factor"),
    ("svm", {"search": "random", "n_candidates": 0}, "n_candidates"), ("svm", {"search": "bayes"}, "selection.search"),
    ("svm", {"eta": [1]}, r"selection\.eta: it is a key of selection\.grid"),
    *((kind, {"grid": {"graph": graph}}, says) for kind, graph, says in [
        ("svm", {"n_neighbors": [0, 4]}, "n_neighbors=0"), ("svm", {"n_neighbors": [4, 4]}, "twice"),
        ("laprls", {"ridge": [0.1]}, "selection.grid.graph.ridge"), ("svm", {"ridge": [0.0]}, "ridge=0.0"),
        ("graph", {"weights": ["round"]}, "selection.grid.graph.weights"), ("graph", {"width": []}, "width")])])
def test_what_a_kind_cannot_vary_is_refused(spec_of, kind, selection, says):
    spec = spec_of(kind)
    with pytest.raises(SpecError, match=says):
        load_spec({**spec, "selection": selection})


@pytest.mark.parametrize("kind", GRIDS)
def test_every_key_of_a_selection_is_one_of_every_kind(spec_of, kind):
    keys = {"grid", "search", "n_candidates", "factor", "cv", "repetitions", "held_out", "held_out_points",
            "scoring", "one_standard_error", "random_state"}
    assert set(load_spec(spec_of(kind)).to_dict()["selection"]) == keys
    planned = (plan(spec_of(kind, **own), workspace="nowhere") for own in ({}, {"search": "random", "n_candidates": 3}))
    before, after = ({stage["name"]: stage["address"] for stage in made.records()} for made in planned)
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"selection", "models", "sample", "scores", "predictions"} | (
        {"vertex_values"} if kind == "graph" else set())


# Graphs

TWO = {"n_neighbors": [4, 8], "weights": ["binary", "self_tuned"]}


@pytest.mark.parametrize("kind", PARAMETERS)
@pytest.mark.extended_cases("svm", "laprls", "lapsvm", "ridge")
def test_each_graph_has_stages_of_its_own_and_the_best_is_fitted(spec_of, kind, tmp_path):
    spec = spec_of(kind, cv=4)
    few = {name: values[:2] for name, values in GRIDS[kind].items()}
    spec["selection"]["grid"] = {**few, "graph": TWO}
    planned = plan(spec, workspace=tmp_path / "all").records()
    result = run(spec, workspace=tmp_path / "all", execution=InProcess(2))
    assert [stage["name"] for stage in planned].count("selection") == 4
    assert [stage["name"] for stage in planned].count("neighbors") == 2
    assert [stage["name"] for stage in planned].count("points") == 1
    assert {stage.graph for stage in result.stages if stage.name == "graph"} == {
        f"n_neighbors {k}, weights {weights}" for k in TWO["n_neighbors"] for weights in TWO["weights"]}
    assert not any(stage.graph for stage in result.stages if stage.name in ("dataset", "points", "vertices"))
    rows, by = result.graphs, "error" if "loss" in result.selection["model"] else "rmse"
    assert len(rows) == 4
    assert rows[0][by] == min(row[by] for row in rows)
    assert {key: value for key, value in rows[0].items() if key != "graph"} == result.selection["model"]
    alone = {**spec, "graph": {**spec["graph"], **rows[0]["graph"]}, "selection": {"cv": 4, "grid": few}}
    own = run(alone, workspace=tmp_path / "one", execution=InProcess(2))
    assert own.selection == result.selection
    assert own.metrics == result.metrics
    theirs = {stage.address for stage in result.stages}
    assert {stage.address for stage in own.stages} <= theirs
    again = run(spec, workspace=tmp_path / "all", execution=InProcess(1))
    assert {stage.status for stage in again.stages} == {"cached"}
    assert {stage["status"] for stage in plan(spec, workspace=tmp_path / "all").records()} == {"cached"}
    page = (tmp_path / "all" / "runs" / result.run / "report.html").read_text()
    assert "The first graph was selected." in page


def test_a_search_over_graphs_goes_on_stops_and_is_made_anew(spec_of, tmp_path):
    spec = spec_of("laprls", cv=3)
    spec["selection"]["grid"]["graph"] = {"n_neighbors": [4, 8]}
    stopped = run(spec, workspace=tmp_path, execution=InProcess(1), until="graph")
    assert stopped.status == "stopped"
    assert [stage.name for stage in stopped.stages].count("graph") == 2
    first = run(spec, workspace=tmp_path, execution=InProcess(1))
    states = [(stage.name, stage.status) for stage in first.stages]
    assert states.count(("graph", "cached")) == states.count(("selection", "done")) == 2
    anew = run(spec, workspace=tmp_path, execution=InProcess(1), from_stage="graph")
    states = [(stage.name, stage.status) for stage in anew.stages]
    assert states.count(("neighbors", "cached")) == states.count(("graph", "done")) == 2
    assert states.count(("models", "done")) == 1
    assert anew.selection == first.selection


def test_a_graph_that_is_given_is_the_only_one(spec_of):
    spec = spec_of("laprls")
    spec["graph"] = {"given": {"weights": "W.npz"}}
    with pytest.raises(SpecError, match="a graph that is given is the only one"):
        load_spec({**spec, "selection": {"grid": {"graph": {"n_neighbors": [4, 8]}}}})

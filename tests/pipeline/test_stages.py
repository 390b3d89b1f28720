"""A stage sees its parameters and nothing else of the spec, and what it makes is named by what made it."""

import inspect
import shutil
from dataclasses import fields, is_dataclass, replace

import numpy as np
import pytest
from pydantic import BaseModel

from dssl.base.digest import plain
from dssl.base.errors import ParameterError
from dssl.execution.in_process import InProcess
from dssl.methods.step import Context
from dssl.pipeline.kinds import KINDS, register_kind
from dssl.pipeline.load import load_spec
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.pipeline.spec import GraphPipeline, Spec
from dssl.pipeline.stage import Kind, Stage
from dssl.storage.artifacts import Workspace

from .conftest import by_name

STAGES = [pytest.param(kind, stage, id=f"{kind.name}-{stage.name}") for kind in KINDS.values() for stage in kind.stages]


@pytest.fixture(scope="module")
def specs(small_spec):
    """A spec of each kind, with a grid, and the baselines that the kind has."""
    shared = {key: small_spec[key] for key in ("name", "data", "labels")}
    clusters = {"name": small_spec["name"], "data": {**small_spec["data"], "task": "clustering"}}
    deformed = {**small_spec, "selection": {"grid": {"eta": [1, 10]}, "cv": 2}}
    return {"svm": deformed, "ridge": {**deformed, "model": {"kind": "ridge"}}, **{
        kind: {**shared, "graph": {"n_neighbors": 6}, "model": {"kind": kind, "landmarks": {"n_landmarks": 20}},
               "selection": {"cv": 2}} for kind in ("laprls", "lapsvm")},
        "cluster": {**shared, "model": {"kind": "cluster", "landmarks": 20},
                    "selection": {"grid": {"C": [1, 10], "bandwidth": ["0.5*median", "median"]}, "cv": 2}},
        "multiscale": {**shared, "model": {"kind": "multiscale", "n_landmarks": 20, "q": 0.6},
                       "selection": {"grid": {"C": [1, 10]}, "cv": 2}},
        "transductive": {**shared, "model": {"kind": "transductive", "landmarks": {"n_landmarks": 20}},
                         "selection": {"grid": {"C": [1, 10], "bandwidth": ["0.5*median", "median"]}, "cv": 2}},
        "clustering": {**clusters, "graph": {"n_neighbors": 6},
                       "model": {"kind": "clustering", "n_clusters": "eigengap"}},
        "kernel_clustering": {**clusters, "model": {"kind": "kernel_clustering", "n_clusters": 3, "n_landmarks": 20}},
        "automatic": {**shared, "graph": {"n_neighbors": 6}, "model": {"kind": "automatic", "class_sizes": [1, 1, 2]}},
        "graph": {**shared, "graph": {"n_neighbors": 6}, "model": {"kind": "graph", "class_sizes": {0: 1, 1: 1, 2: 2}}}}


def parts_of(value):
    """Yield an object and all that it holds: fields, attributes, items."""
    pending, seen = [value], set()
    while pending:
        item = pending.pop()
        if id(item) in seen or isinstance(item, (type, str, bytes, np.ndarray)):
            continue
        seen.add(id(item))
        yield item
        if isinstance(item, dict):
            pending += [*item.keys(), *item.values()]
        elif isinstance(item, (list, tuple, set, frozenset)):
            pending += list(item)
        elif type(item).__module__.startswith("dssl."):
            pending += list(getattr(item, "__dict__", {}).values())


def is_frozen(value):
    return is_dataclass(value) and type(value).__dataclass_params__.frozen


@pytest.mark.parametrize(("kind", "stage"), STAGES)
def test_the_parameters_of_a_stage_are_a_frozen_dataclass_without_the_spec(kind, stage, specs):
    params = stage.params(load_spec(specs[kind.name]))
    assert is_frozen(params)
    assert not [part for part in parts_of(params) if isinstance(part, BaseModel)]
    assert plain(params)["type"] == type(params).__name__
    assert next(iter(inspect.signature(stage.make).parameters)) == "context"
    assert len(inspect.signature(stage.make).parameters) == 2


@pytest.mark.parametrize("name", list(KINDS))
def test_an_address_digests_the_parameters_that_the_function_gets(name, specs):
    for item in plan(specs[name], workspace="nowhere").stages:
        assert item.artifact.params == plain(item.params)
        assert item.artifact.version == item.stage.version


@pytest.mark.slow
@pytest.mark.parametrize("name", list(KINDS))
@pytest.mark.extended_cases("transductive", "clustering", "cluster", "kernel_clustering", "lapsvm", "multiscale",
    "ridge", "svm")
def test_no_function_of_a_stage_can_reach_the_spec(name, specs, tmp_path, monkeypatch):
    """Each is called through one that looks at all that it gets; the files it gets are those its address names."""
    called = []

    def looked_at(stage):
        def make(context, params):
            assert {field.name for field in fields(Context)} == {
                "inputs", "files", "parts", "execution", "base", "new", "fit", "side"}
            assert context.fit is None
            assert context.base is None, "a run that grows from none"
            given = [context.inputs, context.files, context.parts, context.execution, context.new, params]
            assert not [part for part in parts_of(given) if isinstance(part, (BaseModel, Kind))], stage.name
            assert set(context.inputs) == set(stage.needs)
            assert set(context.files) <= set(stage.files)
            called.append(stage.name)
            return stage.make(context, params)
        return make

    kind = KINDS[name]
    watched = tuple(Stage(**{**{field.name: getattr(stage, field.name) for field in fields(Stage)},
                             "make": looked_at(stage)}) for stage in kind.stages)
    monkeypatch.setitem(KINDS, name, replace(kind, stages=watched))
    assert run(specs[name], workspace=tmp_path, execution=InProcess(1)).status == "done"
    assert called == kind.names


@pytest.mark.parametrize("name", list(KINDS))
def test_files_from_outside_are_in_the_address_of_the_stages_that_read_them(name, specs):
    made = plan(specs[name], workspace="nowhere")
    readers = [item for item in made.stages if item.stage.files]
    of_source = [item.stage.name for item in readers if "source" in item.stage.files]
    # Labels and points name rows by identifiers and lines; the sample shows lines and cells.
    labels = [] if "clustering" in name else ["labels"]
    assert of_source == ["dataset", "split", *labels, "points", "sample"]
    for item in readers:
        expected = {file: made.files[file].digest for file in item.stage.files if file in made.files}
        assert expected.items() <= item.artifact.inputs.items()


@pytest.mark.parametrize("name", list(KINDS))
def test_every_stage_needs_stages_before_it_only(name):
    seen = set()
    for stage in KINDS[name].stages:
        assert set(stage.needs) <= seen, stage.name
        seen.add(stage.name)


def test_kinds_that_cannot_be_walked_are_refused():
    svm = KINDS["svm"]
    with pytest.raises(ParameterError, match="another kind of model named 'svm'"):
        register_kind(Kind("svm", svm.spec, ("regression",), svm.stages))
    with pytest.raises(ParameterError, match=r"stage graph of kind backwards needs \['dataset'"):
        register_kind(Kind("backwards", svm.spec, svm.tasks, (by_name(svm)["graph"], *svm.stages)))
    with pytest.raises(ParameterError, match="stage dataset of kind twice is there twice"):
        register_kind(Kind("twice", svm.spec, svm.tasks, (*svm.stages, by_name(svm)["dataset"])))
    for spec, asked in ((Spec, "stage vertices .* of a GraphSections, and the spec is a Spec"),
                        (GraphPipeline, "of a SvmPipeline, and the spec is a GraphPipeline")):
        with pytest.raises(ParameterError, match=asked):
            register_kind(Kind("other", spec, svm.tasks, svm.stages))
    assert "other" not in KINDS
    assert not {"backwards", "twice"} & set(KINDS)


# Artifacts are named by what made them: a change moves what depends on it, and nothing else


NAMES = KINDS["svm"].names
FITTED = {"models", "sample", "scores", "predictions"}
CHOSEN = {"selection", *FITTED}
SOLVED = {"columns", "covariance", *CHOSEN}
ON_GRAPH = {"graph", "health", "system", *SOLVED}
ON_POINTS = {"points", "vertices", "landmarks", "neighbors", *ON_GRAPH}
LABELED = {"labels", "health", "landmarks", *SOLVED}


def addresses(spec, *overrides):
    return {stage["name"]: stage["address"] for stage in plan(spec, set=overrides, workspace="nowhere").records()}


def moved(spec, *overrides):
    before, after = addresses(spec), addresses(spec, *overrides)
    return {name for name in NAMES if before[name] != after[name]}


@pytest.mark.parametrize(("override", "expected"), [
    ("name=other", set()),
    ("model.eta=3", CHOSEN), ("model.C=3", CHOSEN), ("model.loss=hinge", FITTED),
    ("kernel.bandwidth=2.0", CHOSEN), ("kernel.name=laplacian", FITTED), ("baselines=[base, shuffled]", CHOSEN),
    ("selection.grid.eta=[1, 10]", CHOSEN), ("selection.grid.power=[1, 2]", SOLVED),
    ("selection.grid.power=[3]", {"system", *SOLVED}),
    ("labels.random_state=1", LABELED), ("labels.per_class=4", LABELED),
    ("model.random_state=1", {"landmarks", *SOLVED}), ("model.n_landmarks=41", {"landmarks", "system", *SOLVED}),
    ("solver.block_columns=16", SOLVED), ("solver.form=restriction", SOLVED),
    ("solver.tol=1e-7", {"system", *SOLVED}), ("solver.method=amg", {"system", *SOLVED}),
    ("solver.max_iter=99", {"system", *SOLVED}),
    ("graph.power=1", SOLVED), ("graph.power=3", {"system", *SOLVED}),  # 1 and 2 take one solve a column, 3 takes two
    ("graph.ridge=0.1", {"system", *SOLVED}), ("graph.laplacian=unnormalized", {"system", *SOLVED}),
    ("graph.weights=binary", ON_GRAPH), ("graph.width=0.7", ON_GRAPH), ("graph.symmetrize=mean", ON_GRAPH),
    ("graph.n_neighbors=7", {"neighbors", *ON_GRAPH}), ("graph.metric=cosine", {"neighbors", *ON_GRAPH}),
    ("graph.metric=minkowski", {"neighbors", *ON_GRAPH}),
    ("data.scale=none", ON_POINTS), ("graph.duplicates=keep", ON_POINTS - {"points"}),
    ("data.random_state=1", set(NAMES) - {"dataset"}), ("data.test.count=50", set(NAMES) - {"dataset"}),
    ("data.points=150", set(NAMES) - {"dataset"}), ("data.keep=[0, 1]", set(NAMES) - {"dataset"}),
    ("data.read.block_rows=100", set(NAMES)),
])
def test_a_change_moves_what_depends_on_it(small_spec, override, expected):
    assert moved(small_spec, override) == expected


def test_the_parameters_of_a_metric_are_in_the_address(small_spec):
    spec = {**small_spec, "graph": {**small_spec.get("graph", {}), "metric": "minkowski"}}
    assert moved(spec, "graph.metric_params={p: 3}") == {"neighbors", *ON_GRAPH}
    assert moved(spec, "graph.metric_params={}") == set()


@pytest.mark.parametrize("override", ["model.eta=auto", "model.loss=squared", "model.kind=ridge", "graph.power=2",
                                      "labels={per_class: 3}"])
def test_what_is_said_already_moves_nothing(small_spec, override):
    assert moved(small_spec, override) == set()


def test_the_same_bytes_anywhere_have_the_same_addresses(small_spec, points_file, tmp_path):
    other = shutil.copy(points_file, tmp_path / "renamed.npz")
    assert moved(small_spec, f"data.source={other}") == set()


def test_other_bytes_move_everything(small_spec, points_file, tmp_path):
    with np.load(points_file) as arrays:
        X, y = arrays["X"].copy(), arrays["y"]
    X[7, 2] = np.nextafter(X[7, 2], 1)
    np.savez(tmp_path / "points.npz", X=X, y=y)
    assert moved(small_spec, f"data.source={tmp_path / 'points.npz'}") == set(NAMES)


def test_an_address_is_of_stage_version_parameters_and_inputs():
    place = Workspace.at("nowhere")
    made = place.artifact("columns", 1, {"power": 2}, {"system": "a"})
    assert made.address == "af18a19c97f551acd3a47da7cee55f6faac5679fb950a44e7a6fe1c9563d77e5"
    others = [place.artifact("column", 1, {"power": 2}, {"system": "a"}),
              place.artifact("columns", 2, {"power": 2}, {"system": "a"}),
              place.artifact("columns", 1, {"power": 3}, {"system": "a"}),
              place.artifact("columns", 1, {"power": 2}, {"system": "b"})]
    assert len({made.address, *(other.address for other in others)}) == 5
    assert Workspace.at("elsewhere").artifact("columns", 1, {"power": 2}, {"system": "a"}).address == made.address


def test_classes_named_by_a_number_and_by_its_text_are_two_specs(tmp_path):
    """In JSON both keys are text, and one result would be served for the other."""
    fields = {"name": "t", "data": {"source": "iris", "classes": {1: [0, 1], 2: [2]}}, "labels": {"per_class": 2}}
    text = {**fields, "data": {"source": "iris", "classes": {"1": [0, 1], "2": [2]}}}
    first, second = (plan(spec, workspace=tmp_path).records() for spec in (fields, text))
    addresses = [{stage["name"]: stage["address"] for stage in stages} for stages in (first, second)]
    assert addresses[0]["dataset"] == addresses[1]["dataset"]
    assert addresses[0]["split"] != addresses[1]["split"]

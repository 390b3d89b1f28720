"""A stage sees its parameters and nothing else of the spec, so that no key changes a result but not its address."""

import inspect
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

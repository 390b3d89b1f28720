"""Artifacts are named by what made them: a change moves what depends on it, and nothing else."""

import shutil

import numpy as np
import pytest

from dssl.pipeline.kinds import KINDS
from dssl.pipeline.plan.plan import plan
from dssl.storage.artifacts import Workspace

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

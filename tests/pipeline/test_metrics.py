"""A pipeline whose graph is made by a metric beside euclidean and cosine."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dssl.cli.main import main
from dssl.pipeline.load import load_spec

from ..extension.conftest import Commands
from ..moons import moons_spec


def spec_of(tmp_path, metric, **data):
    spec = moons_spec(tmp_path, 160)
    graph = {"n_neighbors": 6, "metric": metric}
    return spec | {"data": spec["data"] | data, "model": {"kind": "graph", "learner": "poisson"}, "graph": graph}


@pytest.mark.slow
def test_the_graph_of_a_metric_is_planned_made_and_used(tmp_path):
    spec = spec_of(tmp_path, "manhattan")
    commands = Commands(spec | {"selection": {"cv": 2, "grid": {"graph": {"metric": ["chebyshev", "manhattan"]}}}},
                        tmp_path)
    planned = commands.plan()["neighbors"]
    assert planned["tasks"] == 1
    assert planned["peak_bytes"] > 0
    result = commands.run()
    assert result["status"] == "done"
    assert {*commands.predicted()} == {"up", "down"}
    assert "manhattan" in commands.page()
    rows = tmp_path / "next.csv"
    commands("suggest", str(Path(result["report"]).parent), "--count", "3", "--out", str(rows))
    assert len(rows.read_text(encoding="utf-8").splitlines()) == 4


@pytest.mark.slow
def test_the_parameters_of_a_metric_are_planned_made_and_used(tmp_path):
    spec = spec_of(tmp_path, "minkowski")
    spec["graph"]["metric_params"] = {"p": 3, "w": [1, 2]}
    commands = Commands(spec | {"selection": {"cv": 2, "grid": {"graph": {"metric_params": [{"p": 1.5}, {
        "p": 3, "w": [1, 2]}]}}}}, tmp_path)
    result = commands.run()
    assert result["status"] == "done"
    assert {*commands.predicted()} == {"up", "down"}
    assert "minkowski" in commands.page()
    rows = tmp_path / "next.csv"
    commands("suggest", str(Path(result["report"]).parent), "--count", "3", "--out", str(rows))
    assert len(rows.read_text(encoding="utf-8").splitlines()) == 4


@pytest.mark.extended
def test_a_metric_of_its_own_units_is_planned_with_features_as_they_are(tmp_path):
    spec = spec_of(tmp_path, "seuclidean", scale="auto")
    spec["graph"]["metric_params"] = {"V": [1, 4]}
    commands = Commands(spec, tmp_path)
    assert load_spec(spec).scaling.kind == "none"
    assert load_spec(spec_of(tmp_path, "manhattan", scale="auto")).scaling.kind == "auto"
    result = commands.run()
    assert {*commands.predicted()} == {"up", "down"}
    assert result["status"] == "done"


def test_a_parameter_out_of_range_is_refused_with_its_place(tmp_path):
    spec = spec_of(tmp_path, "minkowski")
    spec["graph"]["metric_params"] = {"p": 0.5}
    refused = CliRunner().invoke(main, ["plan", *Commands(spec, tmp_path).common])
    assert refused.exit_code == 2
    assert "metric_params.p=0.5" in refused.stderr
    assert "graph" in refused.stderr


def test_parameters_of_other_columns_are_refused_before_the_run(tmp_path):
    spec = spec_of(tmp_path, "seuclidean")
    spec["graph"]["metric_params"] = {"V": [1, 4, 1]}
    refused = CliRunner().invoke(main, ["plan", *Commands(spec, tmp_path).common])
    assert refused.exit_code != 0
    assert "metric='seuclidean' of 2 columns" in refused.stderr
    assert "defined for 3 columns" in refused.stderr


def test_scaled_angles_are_refused_before_the_run(tmp_path):
    commands = Commands(spec_of(tmp_path, "haversine", scale="standardize"), tmp_path)
    refused = CliRunner().invoke(main, ["plan", *commands.common])
    assert refused.exit_code == 2
    assert "metric='haversine' and scale='standardize'" in refused.stderr


def test_a_metric_that_is_no_distance_is_refused_with_its_place(tmp_path):
    commands = Commands(spec_of(tmp_path, "inner_product"), tmp_path)
    refused = CliRunner().invoke(main, ["plan", *commands.common])
    assert refused.exit_code == 2
    assert "it is no distance" in refused.stderr


def test_the_schema_lists_the_metrics():
    schema = json.dumps(json.loads(CliRunner().invoke(main, ["schema"]).stdout))
    assert "wasserstein_1d" in schema

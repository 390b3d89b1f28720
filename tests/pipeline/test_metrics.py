"""A pipeline whose graph is made by a metric beside euclidean and cosine."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from dssl.cli.main import main
from dssl.pipeline.load import load_spec

from ..extension.conftest import Commands
from ..moons import moons_spec


def spec_of(tmp_path, metric, params=None, **data):
    spec = moons_spec(tmp_path, 160)
    graph = {"n_neighbors": 6, "metric": metric, **({"metric_params": params} if params else {})}
    return spec | {"data": spec["data"] | data, "model": {"kind": "graph", "learner": "poisson"}, "graph": graph}


@pytest.mark.slow
@pytest.mark.parametrize(("metric", "params", "tried"), [
    ("manhattan", None, {"metric": ["chebyshev", "manhattan"]}),
    ("minkowski", {"p": 3, "w": [1, 2]}, {"metric_params": [{"p": 1.5}, {"p": 3, "w": [1, 2]}]})])
def test_the_graph_of_a_metric_is_planned_made_and_used(tmp_path, metric, params, tried):
    spec = spec_of(tmp_path, metric, params)
    commands = Commands(spec | {"selection": {"cv": 2, "grid": {"graph": tried}}}, tmp_path)
    planned = commands.plan()["neighbors"]
    assert planned["tasks"] == 1
    assert planned["peak_bytes"] > 0
    result = commands.run()
    assert result["status"] == "done"
    assert {*commands.predicted()} == {"up", "down"}
    assert metric in commands.page()
    rows = tmp_path / "next.csv"
    commands("suggest", str(Path(result["report"]).parent), "--count", "3", "--out", str(rows))
    assert len(rows.read_text(encoding="utf-8").splitlines()) == 4


def test_a_metric_of_its_own_units_has_features_as_they_are(tmp_path):
    assert load_spec(spec_of(tmp_path, "seuclidean", {"V": [1, 4]}, scale="auto")).scaling.kind == "none"
    assert load_spec(spec_of(tmp_path, "manhattan", scale="auto")).scaling.kind == "auto"


@pytest.mark.parametrize(("metric", "params", "data", "code", "messages"), [
    ("minkowski", {"p": 0.5}, {}, 2, ("metric_params.p=0.5", "graph")),
    ("seuclidean", {"V": [1, 4, 1]}, {}, 1, ("metric='seuclidean' of 2 columns", "defined for 3 columns")),
    ("haversine", None, {"scale": "standardize"}, 2, ("metric='haversine' and scale='standardize'",)),
    ("inner_product", None, {}, 2, ("it is no distance",))])
def test_a_metric_that_cannot_be_is_refused_before_the_run(tmp_path, metric, params, data, code, messages):
    commands = Commands(spec_of(tmp_path, metric, params, **data), tmp_path)
    refused = CliRunner().invoke(main, ["plan", *commands.common])
    assert refused.exit_code == code
    assert all(message in refused.stderr for message in messages)


def test_the_schema_lists_the_metrics():
    schema = json.dumps(json.loads(CliRunner().invoke(main, ["schema"]).stdout))
    assert "wasserstein_1d" in schema

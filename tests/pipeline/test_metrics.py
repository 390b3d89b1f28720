"""A pipeline whose graph is made by a metric beside euclidean and cosine."""

import json
from pathlib import Path

from click.testing import CliRunner

from dssl.cli.main import main

from ..extension.conftest import Commands
from ..moons import moons_spec


def spec_of(tmp_path, metric, **data):
    spec = moons_spec(tmp_path, 160)
    graph = {"n_neighbors": 6, "metric": metric}
    return spec | {"data": spec["data"] | data, "model": {"kind": "graph", "learner": "poisson"}, "graph": graph}


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

"""A regression through the command line, on a data set of quantities: rings of abalone shells."""

import os
from pathlib import Path

import numpy as np
import pytest

SPEC = """
name: abalone
data: {source: SOURCE, task: regression, test: {count: 800}, points: 1500}
labels: {count: 100}
graph: {n_neighbors: 8}
model: {kind: ridge, C: 1, n_landmarks: 200}
selection: {cv: 3, grid: {power: [1, 2], eta: [1, 10], bandwidth: [median, 2*median], C: [0.1, 1]}}
baselines: [base, shuffled, landmark_graph]
"""


@pytest.mark.slow
def test_abalone(dssl, tmp_path):
    source = Path(os.environ.get("DSSL_DATA", "")) / "abalone_scale.npz"
    if not source.is_file():
        pytest.skip("needs abalone_scale.npz in DSSL_DATA")
    (tmp_path / "abalone.yaml").write_text(SPEC.replace("SOURCE", str(source)))
    done = dssl("run", tmp_path / "abalone.yaml", "--workspace", tmp_path / "work", "--on", "in-process", "--json")
    assert done.code == 0, done.err
    result = done.document
    assert result["status"] == "done"
    constant = result["baselines"].pop("mean")
    assert constant["rmse"] == pytest.approx(constant["deviation"], rel=0.05)
    for scores in (result["metrics"], *result["baselines"].values()):
        assert 0 < scores["mae"] < scores["rmse"] < scores["deviation"]
        assert 0.3 < scores["r2"] < 0.7
        assert scores["n_test"] == 800
    assert result["metrics"]["rmse"] < result["baselines"]["base"]["rmse"]
    assert result["gain"]["over_base"]["gain"] == pytest.approx(
        result["baselines"]["base"]["rmse"] - result["metrics"]["rmse"])
    predicted = dssl("predict", result["model"], source, tmp_path / "rings.npy", "--json")
    assert predicted.code == 0, predicted.err
    with np.load(source) as arrays:
        y = arrays["y"]
    found = np.load(tmp_path / "rings.npy")
    assert found.shape == y.shape
    assert np.sqrt(np.mean((found - y) ** 2)) == pytest.approx(result["metrics"]["rmse"], rel=0.1)

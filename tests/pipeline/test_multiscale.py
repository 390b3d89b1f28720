"""The kind `multiscale`: the estimator's model, what was chosen, what the report draws, and what is refused."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.datasets import make_moons

from dssl.base.errors import BudgetError, SpecError
from dssl.execution.in_process import InProcess
from dssl.kernels import multiscale as kernel_module
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.predict.model import open_model
from dssl.pipeline.run import run
from dssl.storage.artifacts import parts_in
from dssl.storage.csr import as_rows
from dssl.storage.manifests import read_manifest
from tests.moons import moons_spec

MODEL = {"kind": "multiscale", "n_landmarks": 60, "q": 0.7}


@pytest.fixture(scope="module")
def fields(tmp_path_factory):
    """A spec of 200 points of two moons, ten of them labeled."""
    return {**moons_spec(tmp_path_factory.mktemp("moons"), 260), "model": MODEL}


@pytest.fixture(scope="module")
def done(fields, tmp_path_factory):
    folder = tmp_path_factory.mktemp("done")
    return folder, run(fields, workspace=folder, execution=InProcess(2))


def manifest_of(done, stage):
    workspace, result = done
    address = next(item for item in result.stages if item.name == stage).address
    folder = Path(workspace) / "artifacts" / stage / address[:24]
    return folder, read_manifest(folder / "manifest.json")["attributes"]


def test_the_report_draws_the_scales_and_what_is_predicted_where(done):
    assert done[1].metrics["error"] <= 0.05
    text = Path(done[1].report).read_text(encoding="utf-8")
    for words in ("Multi-scale kernel", "What is predicted where", "The second eigenvalue", "unstable at all scales",
                  'aria-label="Scales and eigenvalues of 59 eigenfunctions"'):
        assert words in text
    drawn, model = manifest_of(done, "models")[1]["regions"], open_model(done[1].model_path)
    classes, ends = np.array(drawn["classes"]), [drawn["grid"][0][0], drawn["grid"][-1][-1]]
    assert_array_equal(classes[ends], model.predict(as_rows(np.array(drawn["corners"]))))
    assert_array_equal(classes[drawn["predicted"]], model.predict(as_rows(np.array(drawn["points"]))))
    assert len(drawn["labeled"]) == len(drawn["known"]) == 10


@pytest.mark.slow
def test_what_was_chosen_is_the_best_of_the_grid(fields, tmp_path):
    selection = {"grid": {"C": [0.01, 100], "loss": ["squared", "logistic"]}, "cv": 3}
    result = run({**fields, "selection": selection}, workspace=tmp_path, execution=InProcess(2))
    found = manifest_of((tmp_path, result), "selection")[1]
    for name, rows in found["grid"].items():
        assert len(rows) == 4
        assert found["choices"][name] == min(rows, key=lambda row: (row["error"], row["loss"]))
    assert "Selected parameters" in Path(result.report).read_text(encoding="utf-8")


def test_quantities(tmp_path):
    X, y = make_moons(200, noise=0.1, random_state=0)
    pd.DataFrame(X, columns=["a", "b"]).assign(height=y + X[:, 0]).to_csv(tmp_path / "moons.csv", index=False)
    spec = {"name": "moons", "data": {"source": str(tmp_path / "moons.csv"), "read": {"target": "height"},
                                      "task": "regression", "test": {"count": 50}},
            "labels": {"count": 30}, "model": MODEL}
    result = run(spec, workspace=tmp_path / "work", execution=InProcess(2))
    assert result.metrics["r2"] > 0.5
    assert manifest_of((tmp_path / "work", result), "models")[1]["regions"]["classes"] == []
    with pytest.raises(SpecError, match=r"data\.task is regression"):
        plan({**spec, "model": {**MODEL, "loss": "hinge"}})


@pytest.mark.slow
def test_points_of_more_columns_have_no_drawing(small_spec, tmp_path):
    spec = {key: small_spec[key] for key in ("name", "data", "labels")}
    result = run({**spec, "model": MODEL}, workspace=tmp_path, execution=InProcess(2))
    assert "regions" not in manifest_of((tmp_path, result), "models")[1]
    assert "What is predicted where" not in Path(result.report).read_text(encoding="utf-8")


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_after_the_scales_that_were_done(fields, done, tmp_path, monkeypatch):
    seen, original = [], kernel_module.laplacian_of

    def stopping(points, eps):
        seen.append(eps)
        if len(seen) == 6:
            raise KeyboardInterrupt
        return original(points, eps)

    monkeypatch.setattr(kernel_module, "laplacian_of", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(fields, workspace=tmp_path, execution=InProcess(1))
    result = run(fields, workspace=tmp_path, execution=InProcess(1))
    assert not set(seen[:5]) & set(seen[6:12])
    assert result.metrics == done[1].metrics
    whole, again = (parts_in(manifest_of(own, "models")[0]).read(0) for own in (done, (tmp_path, result)))
    for name in whole:
        assert_array_equal(again[name], whole[name])


@pytest.mark.slow
def test_a_budget_decides_the_number_of_landmarks(fields, tmp_path):
    spec = {**fields, "model": {"kind": "multiscale", "q": 0.7}, "memory_budget": "300kB"}
    result = run(spec, workspace=tmp_path, execution=InProcess(2), until="basis")
    assert 50 < manifest_of((tmp_path, result), "basis")[1]["basis"]["landmarks"] < 150
    with pytest.raises(BudgetError, match="basis"):
        run({**fields, "memory_budget": "100kB"}, workspace=tmp_path / "none", execution=InProcess(2), until="basis")


@pytest.mark.parametrize(("changed", "message"), [
    ({"model": {**MODEL, "q": 2}}, "q=2"), ({"model": {**MODEL, "eps_0": "median"}}, "eps_0"),
    ({"model": {**MODEL, "n_landmarks": 1}}, "n_landmarks=1"), ({"model": {**MODEL, "loss": "best"}}, "loss"),
    ({"graph": {"n_neighbors": 5}}, "graph"), ({"baselines": []}, "baselines"),
    ({"selection": {"grid": {"C": [-1]}}}, "C=-1")])
def test_specs_that_are_refused(fields, changed, message):
    with pytest.raises(SpecError, match=message):
        plan({**fields, **changed})

"""The kind `cluster`: what was chosen, the estimator's model, budgets of a spec, a killed run, and what is refused."""

from pathlib import Path

import pytest
from numpy.testing import assert_array_equal

from dssl.base.errors import BudgetError, SpecError
from dssl.execution.in_process import InProcess
from dssl.kernels.cluster import budget_for
from dssl.kernels.stochastic import StochasticSteps
from dssl.methods import cluster as kind_module
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.storage.artifacts import parts_in
from dssl.storage.manifests import read_manifest
from tests.moons import moons_spec

GRID = {"grid": {"bandwidth": ["0.1*median", "0.5*median"], "transfer": ["poly_step", "polynomial"], "C": [1, 10]},
        "cv": 3}


@pytest.fixture(scope="module")
def fields(tmp_path_factory):
    """A spec of 500 points of two moons, ten of them labeled."""
    return {**moons_spec(tmp_path_factory.mktemp("moons"), 560), "model": {"kind": "cluster", "landmarks": 150}}


def attributes(result, stage):
    return next(item for item in result.stages if item.name == stage)


def manifest_of(result, workspace, stage):
    folder = Path(workspace) / "artifacts" / stage / attributes(result, stage).address[:24]
    return folder, read_manifest(folder / "manifest.json")["attributes"]


@pytest.fixture(scope="module")
def chosen(fields, tmp_path_factory):
    folder = tmp_path_factory.mktemp("chosen")
    return folder, run({**fields, "labels": {"per_class": 20}, "selection": GRID}, workspace=folder,
                       execution=InProcess(2))


@pytest.mark.slow
def test_what_was_chosen_is_the_best_of_the_grid(chosen):
    folder, result = chosen
    _, found = manifest_of(result, folder, "selection")
    assert {name: len(rows) for name, rows in found["grid"].items()} == {"model": 8, "base": 4}
    for name, rows in found["grid"].items():
        best = min(rows, key=lambda row: (row["error"], row["loss"]))
        assert found["choices"][name] == best
        assert result.selection[name]["C"] == best["C"]
    assert result.metrics["error"] < 0.05
    assert found["scores"]["model"]["auc"] > 0.99
    text = Path(result.report).read_text(encoding="utf-8")
    for words in ("Cluster kernel", "landmarks", "transfer", "exact, of all pairs of points"):
        assert words in text


@pytest.mark.slow
def test_a_spec_says_its_budget_and_an_option_another(fields, tmp_path):
    spec = {**fields, "model": {"kind": "cluster"}}
    few = run({**spec, "memory_budget": "2.4MB"}, workspace=tmp_path, execution=InProcess(2))
    many = run({**spec, "memory_budget": "8MB"}, workspace=tmp_path, execution=InProcess(2))
    bases = [manifest_of(result, tmp_path, "basis")[1]["bases"][0] for result in (few, many)]
    assert bases[0]["landmarks"] < bases[1]["landmarks"] <= 500
    assert budget_for(bases[0]["landmarks"], 2) <= 2_400_000 < budget_for(bases[0]["landmarks"] + 1, 2)
    assert attributes(few, "basis").predicted_peak_bytes <= 2_400_000 + (4 << 20)  # what every task takes
    with pytest.raises(BudgetError, match="the memory budget is 130kB"):
        run({**fields, "memory_budget": "130kB"}, workspace=tmp_path / "none", execution=InProcess(2))
    assert not list((tmp_path / "none").rglob("artifacts/basis/*"))
    with pytest.raises(BudgetError, match="the memory budget is 130kB"):
        run({**fields, "memory_budget": "1GB"}, workspace=tmp_path / "none", memory_budget=130_000)
    for wrong in ("much", 0, "-1MB"):
        with pytest.raises(SpecError, match="memory_budget"):
            plan({**fields, "memory_budget": wrong})


@pytest.mark.slow
def test_a_run_that_was_killed_goes_on_after_the_kernels_that_were_done(fields, tmp_path, monkeypatch):
    spec, seen = {**fields, "selection": GRID}, []
    whole = run(spec, workspace=tmp_path / "whole", execution=InProcess(2))
    original = kind_module.basis_of

    def stopping(*arguments):
        seen.append(1)
        if len(seen) == 2:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(kind_module, "basis_of", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(spec, workspace=tmp_path / "killed", execution=InProcess(2))
    again = run(spec, workspace=tmp_path / "killed", execution=InProcess(2))
    assert len(seen) == 3  # the first kernel once
    assert again.metrics == whole.metrics
    assert again.selection == whole.selection


def test_results_do_not_depend_on_threads(fields, tmp_path):
    first = run(fields, workspace=tmp_path / "1", execution=InProcess(1))
    second = run(fields, workspace=tmp_path / "2", execution=InProcess(2))
    models = [parts_in(manifest_of(result, tmp_path / name, "models")[0]).read(0)
              for result, name in ((first, "1"), (second, "2"))]
    assert models[0].keys() == models[1].keys()
    for name in models[0]:
        assert_array_equal(models[0][name], models[1][name])


@pytest.mark.slow
def test_stochastic_steps_go_on_after_the_last_that_was_taken(fields, tmp_path, monkeypatch):
    model = {"kind": "cluster", "approximation": {"n_features": 40, "steps": 12}, "landmarks": 100}
    spec, original, taken = {**fields, "model": model}, StochasticSteps.take, []
    whole = run(spec, workspace=tmp_path / "whole", execution=InProcess(2))

    def stopping(self):
        if len(taken) == 5:
            taken.append(0)
            raise KeyboardInterrupt
        taken.append(1)
        original(self)

    monkeypatch.setattr(StochasticSteps, "take", stopping)
    with pytest.raises(KeyboardInterrupt):
        run(spec, workspace=tmp_path / "killed", execution=InProcess(2))
    again = run(spec, workspace=tmp_path / "killed", execution=InProcess(2))
    assert sum(taken) == 12
    assert again.metrics == whole.metrics
    assert manifest_of(again, tmp_path / "killed", "basis")[1]["bases"][0]["steps"] == 12


@pytest.mark.parametrize(("change", "message"), [
    ({"model": {"kind": "cluster", "transfer": "root"}}, "transfer"), ({"graph": {"n_neighbors": 5}}, "graph"),
    ({"model": {"kind": "cluster", "rank": 0}}, "rank"), ({"model": {"kind": "cluster", "C": -1}}, "C=-1"),
    ({"model": {"kind": "cluster", "landmarks": 0}}, "n_landmarks=0"), ({"baselines": []}, "base is always"),
    ({"selection": {"search": "random", "n_candidates": 3}}, "search"),
    ({"selection": {"held_out_points": "inductive"}}, "held_out_points"),
    ({"selection": {"scoring": "neg_mean_absolute_error"}}, "neg_mean"),
    ({"selection": {"grid": {"power": [1]}}}, "power"),
    ({"kernel": {"name": "linear", "bandwidth": None}, "selection": {"grid": {"bandwidth": [1.0]}}}, "no bandwidth"),
    ({"data": {"source": "moons.csv", "task": "regression", "test": {"count": 5}}}, "regression")])
def test_wrong_specs(fields, change, message):
    with pytest.raises(SpecError, match=message):
        plan({**fields, **change})

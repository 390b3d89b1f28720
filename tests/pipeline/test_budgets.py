"""A spec's budget chooses the landmarks, as an estimator's does, and no task takes more on real workers."""

import numpy as np
import pytest

from dssl.base.errors import BudgetError
from dssl.base.units import size_of
from dssl.execution.cost import WORKER_BYTES, largest_within, rank_budget
from dssl.execution.in_process import InProcess
from dssl.learners.laprls.problem import LapRLSParams
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.runtime.local import LocalRuntime
from dssl.storage.manifests import read_manifest
from tests.moons import moons_spec

KINDS = {"svm": ("landmarks", lambda found: found["n_landmarks"]),
         "laprls": ("landmarks", lambda found: found["landmarks"][0]["count"])}


@pytest.fixture(scope="module")
def fields(tmp_path_factory):
    return moons_spec(tmp_path_factory.mktemp("moons"), 1300)


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=[pytest.mark.slow] if kind == "laprls" else [])
                                  for kind in KINDS])
def test_a_rank_is_what_the_budget_of_the_spec_lets_be(fields, kind, tmp_path):
    stage, count_of = KINDS[kind]
    sizes = []
    small = {"svm": 30_000_000, "laprls": 10_000_000}[kind]  # the direct solver alone takes 25 MB
    for budget in (small, None):
        spec = {**fields, "model": {"kind": kind}, **({"memory_budget": budget} if budget else {})}
        result = run(spec, workspace=tmp_path, execution=InProcess(1, 1 << 30), until=None if budget else stage)
        address = next(item.address for item in result.stages if item.name == stage)
        found = read_manifest(tmp_path / "artifacts" / stage / address[:24] / "manifest.json")["attributes"]
        sizes.append(count_of(found))
        assert result.status == "stopped" or result.metrics["error"] < 0.2
    of_blocks = LapRLSParams(budget=small).max_landmarks(1240, 8)
    assert sizes == [of_blocks if kind == "laprls" else largest_within(small, 1000, rank_budget), 1000]


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_of_a_small_budget_has_smaller_matrices(fields, kind, tmp_path):
    peaks = [plan({**fields, "model": {"kind": kind}, "memory_budget": budget}, workspace=tmp_path)
             for budget in ("10MB", "200MB")]
    small, large = (next(stage.cost.peak for stage in made.stages if stage.stage.name == "models") for made in peaks)
    assert small < large / 4


# What a memory budget promises, on real workers: no task takes more, and the budget that a refusal names is enough


BUDGET = 48_000_000
MODELS = {"svm": {"model": {"kind": "svm", "n_landmarks": 256}}, "laprls": {}, "automatic": {},
          "graph": {"model": {"kind": "graph", "learner": "laplace"}}, "cluster": {}}


@pytest.fixture(scope="module")
def points(tmp_path_factory):
    """A file of 20,000 points in 32 columns, so that blocks are as high as a small budget lets them be."""
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 20_000)
    path = tmp_path_factory.mktemp("points") / "points.npz"
    np.savez(path, X=(rng.normal(size=(len(y), 32)) + y[:, None]).astype(np.float32), y=y)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.extended_cases("automatic", "cluster", "laprls", "svm")
def test_no_task_takes_more_than_its_budget_and_the_one_that_is_named_is_enough(kind, points, tmp_path):
    """With one of a megabyte nothing fits; what the error says is followed, and no second error comes."""
    spec = {"name": kind, "data": {"source": str(points), "test": {"count": 2000}}, "labels": {"per_class": 5},
            "model": {"kind": kind}, **MODELS[kind]}
    with LocalRuntime(workers=2, memory_limit="2GiB").start(BUDGET) as (execution, _):
        with pytest.raises(BudgetError, match="raise memory_budget to") as refused:
            run(spec, workspace=tmp_path / "none", execution=execution, memory_budget=1_000_000)
        named = size_of(str(refused.value).split("raise memory_budget to ")[1].split(",")[0])
        budgets = {named, BUDGET} if kind == "svm" else {named}
        assert not plan(spec, workspace=tmp_path / "none", memory_budget=max(budgets)).refused
        for budget in budgets:
            result = run(spec, workspace=tmp_path / str(budget), execution=execution, memory_budget=budget)
            taken = {stage.name: stage.measured_peak_bytes for stage in result.stages}
            assert all(peak is not None and peak <= budget for peak in taken.values()), (budget, taken)
            # Beside the task, and what is kept for others.
            assert max(stage.peak_rss_bytes for stage in result.stages) <= WORKER_BYTES + 2 * budget

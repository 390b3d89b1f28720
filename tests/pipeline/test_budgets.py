"""A spec's budget chooses the landmarks, as an estimator's does, and the plan knows it before."""

import pytest

from dssl.execution.cost import largest_within, rank_budget
from dssl.execution.in_process import InProcess
from dssl.learners.laprls.problem import LapRLSParams
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
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
        result = run(spec, workspace=tmp_path, execution=InProcess(1, 1 << 30))
        address = next(item.address for item in result.stages if item.name == stage)
        found = read_manifest(tmp_path / "artifacts" / stage / address[:24] / "manifest.json")["attributes"]
        sizes.append(count_of(found))
        assert result.metrics["error"] < 0.2
    of_blocks = LapRLSParams(budget=small).max_landmarks(1240, 8)
    assert sizes == [of_blocks if kind == "laprls" else largest_within(small, 1000, rank_budget), 1000]


@pytest.mark.parametrize("kind", KINDS)
def test_the_plan_of_a_small_budget_has_smaller_matrices(fields, kind, tmp_path):
    peaks = [plan({**fields, "model": {"kind": kind}, "memory_budget": budget}, workspace=tmp_path)
             for budget in ("10MB", "200MB")]
    small, large = (next(stage.cost.peak for stage in made.stages if stage.stage.name == "models") for made in peaks)
    assert small < large / 4

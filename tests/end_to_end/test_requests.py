"""The requests that a plan tells of, beside those that a run makes of a real S3 server."""

from pathlib import Path

import pytest

from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.storage import object_client
from tests.benchmarks.object_store import execution_of
from tests.object_proxy import proxy

QUICKSTART = Path(__file__).parents[2] / "pipelines" / "quickstart.yaml"
FACTOR = 2  # within which a plan tells the requests of a run in all


@pytest.fixture
def counting(s3_server, monkeypatch):
    """A proxy of the server, which counts the requests of this process and of those that it starts."""
    with proxy(s3_server) as between:
        for name, value in between.environment.items():
            monkeypatch.setenv(name, value)
        object_client.store_of.cache_clear()
        yield between
    object_client.store_of.cache_clear()


@pytest.mark.cluster
@pytest.mark.slow
def test_a_run_on_workers_makes_about_as_many_requests_as_its_plan_tells(counting, s3):
    with execution_of(workers=2) as execution:
        requests = plan(QUICKSTART, workspace=s3).total()["requests"]
        counting.counts()
        run(QUICKSTART, workspace=s3, execution=execution)
    made = sum(own["requests"] for own in counting.counts().values())
    assert made / FACTOR <= requests <= FACTOR * made


def test_a_plan_shows_requests_where_the_workspace_is_an_object_store(s3, tmp_path):
    there, here = (plan(QUICKSTART, workspace=workspace) for workspace in (s3, tmp_path))
    assert [row["requests"] for row in here.records()] == [0] * len(here.stages)
    assert "requests" not in here.rows()[0]
    head, rows = there.rows()
    shown = [row[head.index("requests")] for row in rows]
    assert shown == [f"{count:,}" for count in (*(row["requests"] for row in there.records()),
                                                there.total()["requests"])]
    assert all(row["requests"] > row["tasks"] for row in there.records())

"""Schedules that a real cron daemon keeps."""

import json
import os

import pytest

from ..faults.machines import REPOSITORY
from .cron import CronDaemon
from .machines import Submitted

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture
def cron(tmp_path_factory):
    made = CronDaemon(tmp_path_factory.mktemp("cron"))
    yield made
    made.end()


@pytest.mark.extended
def test_cron_starts_a_run_and_the_next_time_there_is_nothing_to_do(cron, tmp_path):
    found = tmp_path / "environment"
    others = f"PYTHONPATH={REPOSITORY}\n* * * * * env > {found}\n"
    assert cron.crontab(others) == others
    submitted = Submitted(tmp_path)
    submitted.inside, submitted.environment = cron.inside, dict(os.environ)
    try:
        name = submitted.fires_twice("cron")
        assert "PATH=/usr/bin:/bin" in found.read_text().splitlines(), "not the environment that cron gives"
        assert json.loads(submitted.dssl("schedule", "list", "--json"))[0]["installed"] is True
        submitted.dssl("schedule", "remove", name)
        assert cron.crontab() == others, "what somebody else has there stays"
    finally:
        submitted.end()

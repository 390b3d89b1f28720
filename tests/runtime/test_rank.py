"""Which process of a job this is."""

import asyncio
import stat
import subprocess
import sys
import time

import pytest
from distributed import Client, Scheduler
from distributed.security import Security

from dssl.base.errors import ClusterError
from dssl.runtime.engine import Rank
from dssl.runtime.roles import DRIVER, Meeting


@pytest.mark.parametrize(("environment", "rank", "role"), [
    ({}, Rank(0, 1), "driver"),
    ({"DSSL_RANK": "0", "DSSL_RANKS": "4"}, Rank(0, 4), "scheduler"),
    ({"DSSL_RANK": "1", "DSSL_RANKS": "4", "DSSL_START": "2"}, Rank(1, 4, "2"), "driver"),
    ({"SLURM_PROCID": "3", "SLURM_NTASKS": "4", "SLURM_RESTART_COUNT": "1"}, Rank(3, 4, "1"), "worker"),
    ({"JOB_COMPLETION_INDEX": "2", "DSSL_RANKS": "3"}, Rank(2, 3), "worker"),
    ({"PMI_RANK": "1", "PMI_SIZE": "3"}, Rank(1, 3), "driver"),
    ({"OMPI_COMM_WORLD_RANK": "0", "OMPI_COMM_WORLD_SIZE": "3"}, Rank(0, 3), "scheduler"),
    ({"DSSL_RANK": "0", "DSSL_RANKS": "3", "SLURM_PROCID": "5", "SLURM_NTASKS": "9"}, Rank(0, 3), "scheduler"),
])
def test_an_engine_tells_the_rank(environment, rank, role):
    assert Rank.of(environment) == rank
    assert rank.role == role


@pytest.mark.parametrize("environment", [{"DSSL_RANK": "3", "DSSL_RANKS": "3"}, {"DSSL_RANK": "x", "DSSL_RANKS": "3"},
                                         {"SLURM_PROCID": "-1", "SLURM_NTASKS": "3"}])
def test_a_rank_that_cannot_be_is_refused(environment):
    with pytest.raises(ClusterError, match="processes are numbered from 0"):
        Rank.of(environment)


@pytest.mark.slow
def test_a_scheduler_and_a_nanny_load_nothing_of_what_tasks_need():
    code = """import sys
import dssl.cli.main
import dssl.pipeline.submission
import dssl.runtime.roles
import dssl.runtime.start
print(*sorted({"numba", "pandas", "scipy", "sklearn", "zarr"} & set(sys.modules)))"""
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert loaded.split() == []


def test_only_its_owner_reads_how_the_scheduler_is_opened(tmp_path):
    meeting = Meeting(tmp_path, "0")
    meeting.announce("tls://127.0.0.1:1", Security.temporary())
    assert stat.S_IMODE(meeting.path.stat().st_mode) == 0o600
    meeting.forget("tls://127.0.0.1:2")
    assert list(tmp_path.iterdir()) == [meeting.path], "that of a later scheduler"
    meeting.forget("tls://127.0.0.1:1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.cluster
def test_a_scheduler_that_was_killed_is_not_met(tmp_path):
    """Its file stays, and is that of the next one as soon as there is one."""
    meeting, security = Meeting(tmp_path, "0", timeout=0.5), Security.temporary()

    async def met():
        async with Scheduler(host="127.0.0.1", port=0, security=security, protocol="tls://", dashboard=False,
                             dashboard_address="127.0.0.1:0") as scheduler:
            waiting = asyncio.create_task(asyncio.to_thread(meeting.wait, 60.0))
            await asyncio.sleep(0.1)
            meeting.announce(scheduler.address, security)
            return scheduler.address, await waiting

    meeting.announce("tls://127.0.0.1:1", Security.temporary())
    address, (actual, opened) = asyncio.run(met())
    assert actual == address
    assert (opened.tls_client_key, opened.require_encryption) == (security.tls_client_key, True)


@pytest.mark.slow
@pytest.mark.cluster
def test_a_scheduler_ends_without_its_driver_and_not_without_others(tmp_path):
    code = """import sys
from pathlib import Path
from dssl.runtime import roles
from dssl.runtime.local import LocalRuntime
roles.DRIVER_TIMEOUT = 1.0
roles.serve_scheduler(roles.Meeting(Path(sys.argv[1]), "0"), LocalRuntime(kind="local", workers=1, memory_limit="1GiB"))
"""
    with subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) as process:
        try:
            address, security = Meeting(tmp_path, "0").wait(120)
            with Client(address, security=security):
                time.sleep(1)
            time.sleep(2)
            assert process.poll() is None, "its driver may still come"
            with Client(address, security=security, name=DRIVER):
                time.sleep(1)
            assert process.wait(60) == 0
        finally:
            process.kill()
    assert list(tmp_path.iterdir()) == []


def test_ranks_of_another_start_do_not_meet(tmp_path):
    Meeting(tmp_path, "0").announce("tls://127.0.0.1:1", Security.temporary())
    with pytest.raises(ClusterError, match="the scheduler of this job did not start within 0 seconds"):
        Meeting(tmp_path, "1").wait(0)

"""A run whose workers are jobs of a real Slurm, which come and go."""

import subprocess
import sys

import pytest

from ..faults.machines import BUDGET, wait_until
from ..stored import contents
from .machines import Submitted
from .slurm import Slurm

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]
CLUSTER = """
kind: jobqueue
system: slurm
workers: 2
memory_limit: 2GiB
walltime: 10m
shared_folder: {folder}
idle_timeout: 6
join_timeout: 120
"""


@pytest.fixture
def pool(tmp_path, tmp_path_factory):
    slurm = Slurm(tmp_path_factory.mktemp("slurm"))
    made = Submitted(tmp_path, CLUSTER.format(folder=tmp_path))
    made.slurm, made.inside, made.environment = slurm, slurm.within(), made.environment | slurm.variables
    yield made
    slurm.end()


@pytest.mark.extended
def test_a_run_on_jobs_that_come_and_go(pool, undisturbed):
    """One of them is cancelled by somebody; the artifacts have the bytes of an undisturbed run."""
    def running():
        return [job for job, state in pool.slurm.jobs().items() if state == "RUNNING"]

    with open(pool.folder / "run.log", "w", encoding="utf-8") as log:
        run = subprocess.Popen([*pool.inside, sys.executable, "-m", "dssl", "run", pool.spec, "--on", pool.cluster,
                                "--memory-budget", BUDGET, "--workspace", pool.workspace], env=pool.environment,
                               cwd=pool.folder, stdout=log, stderr=log)
    wait_until(lambda: len(list(pool.workspace.glob("artifacts/points/*/*/receipts/[0-9]*.json"))) >= 2
               or run.poll() is not None, "two parts", 120)
    cancelled = running()[0]
    pool.slurm.call("scancel", cancelled)
    run.wait(300)
    said = (pool.folder / "run.log").read_text()
    assert run.returncode == 0, said
    assert "Traceback" not in said
    found = contents(pool.workspace)
    assert [name for name in undisturbed if found.get(name) != undisturbed[name]] == []
    wait_until(lambda: not running(), "the jobs to end")
    jobs = pool.slurm.jobs()
    assert jobs[cancelled] == "CANCELLED"
    assert len(jobs) >= 2, "another has come for it"

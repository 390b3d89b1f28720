"""Runs that are handed over to a real Slurm."""

import json
import os

import pytest

from ..faults.machines import wait_until
from .machines import CANARY, Submitted
from .slurm import Slurm
from .test_local import ended_alike

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]
CLUSTER = "{kind: slurm, workers: 2, memory_limit: 2GiB, time: '00:30:00', max_restarts: 2}"


@pytest.fixture(scope="module")
def slurm(tmp_path_factory):
    made = Slurm(tmp_path_factory.mktemp("slurm"))
    yield made
    made.end()


@pytest.fixture
def submitted(tmp_path, slurm):
    """Runs in a folder whose name has what Slurm's `#SBATCH` lines and names of logs give a meaning."""
    folder = tmp_path / "a b%j#c"
    folder.mkdir()
    made = Submitted(folder, CLUSTER)
    made.inside, made.environment = slurm.within(), made.environment | slurm.environment
    yield made
    for job, state in slurm.jobs().items():
        if state in ("PENDING", "RUNNING"):
            slurm.call("scancel", "--signal=KILL", "--full", job, check=False)
            slurm.call("scancel", job, check=False)


def job_of(run):
    return json.loads((run / "submission" / "engine.json").read_text())["handle"]["job"]


def test_a_job_runs_and_its_script_can_be_read(submitted, slurm, undisturbed):
    submitted.environment = os.environ | CANARY | slurm.environment
    run = submitted.submit()
    assert submitted.submit() == run
    script = (run / "submission" / "job.sh").read_text()
    assert "#SBATCH --dependency=singleton" in script
    assert "#SBATCH --ntasks=4" in script
    assert slurm.call("bash", "-n", run / "submission" / "job.sh").stderr == ""
    ended_alike(submitted, run, undisturbed, 1)
    wait_until(lambda: slurm.jobs()[job_of(run)] == "COMPLETED", "Slurm to say so")
    assert "models" in submitted.dssl("logs", run.name)
    assert "Registered to" in submitted.dssl("logs", run.name, "--rank", "2")


def test_a_job_whose_time_is_nearly_over_is_put_back(submitted, slurm, undisturbed):
    """After two minutes, since Slurm does not trust a node at once with a job that it has just put back."""
    run = submitted.submit()
    submitted.reached(run, "points", 2)
    slurm.call("scancel", "--batch", "--signal=USR1", job_of(run))
    ended_alike(submitted, run, undisturbed, 2)
    assert json.loads((run / "starts" / "0-end.json").read_text())["code"] == 75


@pytest.mark.extended
def test_a_job_that_slurm_puts_back_goes_on(submitted, slurm, undisturbed):
    """As it does when a node fails or is drained."""
    run = submitted.submit()
    submitted.reached(run, "points", 2)
    slurm.call("scontrol", "requeue", job_of(run))
    ended_alike(submitted, run, undisturbed, 2)


def test_a_job_that_is_cancelled_ends(submitted, slurm):
    run = submitted.submit()
    submitted.reached(run, "points", 1)
    submitted.dssl("cancel", run.name)
    submitted.dssl("wait", run.name, code=143)
    wait_until(lambda: slurm.jobs()[job_of(run)] not in ("RUNNING", "COMPLETING"), "Slurm to end it")


def test_a_job_that_somebody_ended_is_lost_and_submitted_again(submitted, slurm, undisturbed):
    run = submitted.submit()
    submitted.reached(run, "points", 2)
    slurm.call("scancel", job_of(run))
    submitted.dssl("wait", run.name, code=4)
    again = submitted.submit()
    assert again != run
    ended_alike(submitted, again, undisturbed, 1)


def test_a_job_that_dies_before_its_ranks_says_why(submitted):
    submitted.cluster.write_text(CLUSTER.replace("}", ", prologue: ['echo there is no module python >&2; exit 3']}"))
    run = submitted.submit()
    submitted.dssl("wait", run.name, code=4)
    assert "there is no module python" in submitted.dssl("logs", run.name)


@pytest.mark.extended
def test_a_schedule_comes_again_and_submits_from_within_its_job(submitted, slurm):
    submitted.environment = os.environ | CANARY | slurm.environment
    submitted.dssl("schedule", submitted.spec, "--on", submitted.cluster, "--at", "* * * * *", "--to", "slurm",
                   "--install")
    [folder] = submitted.workspace.glob("schedules/*")
    log = folder / "log"
    wait_until(lambda: log.exists() and "nothing has changed since the last run" in log.read_text(), "two firings", 600)
    assert log.read_text().count(": done") == 1, log.read_text()
    assert submitted.files_with_the_canary() == []

    def waiting():
        return slurm.call("squeue", "--noheader", f"--name=dssl-{folder.name}", "--states=PENDING",
                          "--format=%i").stdout.split()

    assert len(waiting()) == 1
    assert json.loads(submitted.dssl("schedule", "list", "--json"))[0]["installed"] is True
    submitted.dssl("schedule", "remove", folder.name)
    wait_until(lambda: not waiting(), "the job that waits to end")

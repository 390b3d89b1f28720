"""Runs that are handed over to a real Slurm."""

import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest

from ..faults.machines import wait_until
from ..faults.slowly import SECONDS
from .machines import CANARY, Submitted
from .slurm import Slurm
from .test_local import ended_alike

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]
CLUSTER = "{kind: slurm, workers: 2, memory_limit: 2GiB, time: '00:30:00', max_restarts: 2}"
SOON_OVER = CLUSTER.replace("30:00", "04:00").replace("2}", "9}")  # which is told two to three minutes before its end


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
    made.inside, made.environment = slurm.within(), made.environment | slurm.variables
    yield made
    for job, state in slurm.jobs().items():
        if state in ("PENDING", "RUNNING"):
            slurm.call("scancel", "--signal=KILL", "--full", job, check=False)
            slurm.call("scancel", job, check=False)
    slurm.resume()


def job_of(run):
    return json.loads((run / "submission" / "engine.json").read_text())["handle"]["job"]


def state_of(submitted, run):
    return json.loads(submitted.dssl("status", run.name, "--json"))["state"]


@pytest.mark.extended
def test_two_who_submit_at_once_get_one_job_whose_script_can_be_read(submitted, slurm, undisturbed):
    submitted.environment = os.environ | CANARY | slurm.variables
    submitted.cluster.write_text(CLUSTER.replace("}", ", nodes: '2'}"))
    before = set(slurm.jobs())
    with ThreadPoolExecutor(2) as both:
        run, also = both.map(lambda _: submitted.submit(), range(2))
    assert run == also
    assert set(slurm.jobs()) - before == {job_of(run)}
    assert [path.name for path in submitted.workspace.glob("runs/*")] == [run.name]
    assert state_of(submitted, run) in ("submitted", "running")
    script = (run / "submission" / "job.sh").read_text()
    assert "#SBATCH --dependency=singleton" in script
    assert "#SBATCH --ntasks=4" in script
    assert slurm.call("bash", "-n", run / "submission" / "job.sh").stderr == ""
    assert "models" in submitted.dssl("logs", run.name, "--follow")
    ended_alike(submitted, run, undisturbed, 1)
    assert state_of(submitted, run) == "done"
    assert slurm.jobs("%N")[job_of(run)] == "node[1-2]"
    wait_until(lambda: slurm.jobs()[job_of(run)] == "COMPLETED", "Slurm to say so")
    assert "Registered to" in submitted.dssl("logs", run.name, "--rank", "2")


def test_a_job_of_a_node_that_is_drained_goes_on_at_another(submitted, slurm, undisturbed):
    run = submitted.submit()
    submitted.wait_for(run, "points", 2)
    node = slurm.jobs("%N")[job_of(run)]
    slurm.drain(node)
    slurm.call("scontrol", "requeue", job_of(run))
    ended_alike(submitted, run, undisturbed, 2)
    assert slurm.jobs("%N")[job_of(run)] == ({"node1", "node2"} - {node}).pop()


@pytest.mark.extended
def test_a_job_that_gives_way_to_an_urgent_one_comes_back(submitted, slurm, undisturbed):
    run = submitted.submit()
    submitted.wait_for(run, "points", 2)
    slurm.call("sbatch", "--partition=urgent", "--nodes=2", "--exclusive", "--output=/dev/null", "--wrap=sleep 1")
    ended_alike(submitted, run, undisturbed, 2)


@pytest.mark.extended
def test_a_job_of_a_node_without_power_goes_on_at_another(submitted, slurm, undisturbed):
    slurm.drain("node1")
    run = submitted.submit()
    submitted.wait_for(run, "points", 2)
    slurm.resume()
    slurm.power_off()
    try:
        ended_alike(submitted, run, undisturbed, 2)
        assert slurm.jobs("%N")[job_of(run)] == "node1"
    finally:
        slurm.power_on()


@pytest.mark.extended
def test_a_node_that_is_cut_off_goes_on_while_its_job_is_started_elsewhere(submitted, slurm, undisturbed):
    """The folder is still shared: the lock of the workspace keeps both drivers apart."""
    submitted.environment |= {SECONDS: "4"}
    slurm.drain("node1")
    run = submitted.submit()
    submitted.wait_for(run, "points", 1)
    slurm.resume()
    slurm.cut_off()
    try:
        wait_until(lambda: submitted.rank(run, 1, 1) is not None, "a second driver", 300)
        assert submitted.rank(run, 1, 0) is not None
        ended_alike(submitted, run, undisturbed, 2)
    finally:
        slurm.power_off()
        slurm.power_on()


@pytest.mark.extended
def test_a_job_whose_time_is_over_is_put_back_until_the_run_has_ended(submitted, slurm, undisturbed):
    """Slurm looks at the time of a job every half minute, and warns of its end up to a minute early."""
    submitted.environment |= {SECONDS: "4"}
    submitted.cluster.write_text(SOON_OVER)
    run = submitted.submit()
    submitted.dssl("wait", run.name)
    starts = json.loads((run / "exit.json").read_text())["starts"]
    assert starts > 1
    ended_alike(submitted, run, undisturbed, starts)
    assert [json.loads((run / "starts" / f"{number}-end.json").read_text())["code"]
            for number in range(starts - 1)] == [75] * (starts - 1)


@pytest.mark.extended
def test_a_job_is_cancelled_before_it_begins(submitted, slurm):
    slurm.drain("node1", "node2")
    run = submitted.submit()
    assert state_of(submitted, run) == "submitted"
    submitted.dssl("cancel", run.name)
    submitted.dssl("wait", run.name, code=143)
    assert state_of(submitted, run) == "cancelled"
    assert slurm.jobs()[job_of(run)] == "CANCELLED"


@pytest.mark.extended
def test_a_job_that_is_cancelled_ends(submitted, slurm):
    run = submitted.submit()
    submitted.wait_for(run, "points", 1)
    submitted.dssl("cancel", run.name)
    submitted.dssl("wait", run.name, code=143)
    wait_until(lambda: slurm.jobs()[job_of(run)] not in ("RUNNING", "COMPLETING"), "Slurm to end it")


@pytest.mark.extended
def test_a_job_that_somebody_ended_is_lost_and_submitted_again(submitted, slurm, undisturbed):
    run = submitted.submit()
    submitted.wait_for(run, "points", 2)
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
    submitted.environment = os.environ | CANARY | slurm.variables
    slurm.drain("node2")  # the job of the schedule and that of its run have one node
    name = submitted.fires_twice("slurm")
    assert submitted.files_with_the_canary() == []

    def waiting():
        return slurm.call("squeue", "--noheader", f"--name=dssl-{name}", "--states=PENDING",
                          "--format=%i").stdout.split()

    wait_until(lambda: len(waiting()) == 1, "one job for the next time")
    assert json.loads(submitted.dssl("schedule", "list", "--json"))[0]["installed"] is True
    submitted.dssl("schedule", "remove", name)
    wait_until(lambda: not waiting(), "the job that waits to end")

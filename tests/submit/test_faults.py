"""Faults at stages of a submitted run on this machine: the bytes of an undisturbed run, after restarts where due.

Each fault is a function of the runs, one that is in a stage, and the stage; it returns how often the driver has then
begun. Where the run itself cannot go on, on a disk that is full or may only be read, it ends with a code and a cause,
and one that is submitted afterwards gives the same bytes. Every worker takes a quarter of a second for a task, so that
a fault meets one.
"""

import json
import signal
import subprocess
import time

import pytest

from ..faults.machines import wait_until
from ..faults.test_matrix import FIRST, STAGES
from .machines import kill
from .test_local import ended_alike

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]
STORM = 5.0  # seconds between two kills


def worker_killed(submitted, run, stage):
    """Its process alone: its Nanny starts another."""
    kill(submitted.workers(run)[0].children()[0])
    return 1


def worker_with_its_nanny_killed(submitted, run, stage):
    kill(submitted.workers(run)[0])
    return 1


def workers_killed(submitted, run, stage):
    for process in submitted.workers(run):
        kill(process)
    return 1


def scheduler_killed(submitted, run, stage):
    kill(submitted.rank(run, 0))
    return 2


def driver_killed(submitted, run, stage):
    kill(submitted.rank(run, 1))
    return 2


def worker_stopped(submitted, run, stage):
    """It is given up after a minute, and killed when the driver has ended."""
    process = submitted.workers(run)[0]
    for one in (process, *process.children(recursive=True)):
        one.send_signal(signal.SIGSTOP)
    return 1


def storm(submitted, run, stage):
    """Every five seconds a worker at work is killed, in turn, once anything was finished since the last kill.

    Without that, where workers need longer to come and to load their libraries, each is killed in its first task, and
    the run ends since eleven workers have died of one task.
    """
    logs = {number: run / "logs" / f"rank-{number}.log" for number in (2, 3)}
    read = dict.fromkeys(logs, 0)  # bytes of a log that are of processes that were killed
    kills = dict.fromkeys(logs, 0)

    def at_work(number):
        return b"Registered to" in logs[number].read_bytes()[read[number]:]

    def finished():
        artifacts = submitted.workspace / "artifacts"
        return {*artifacts.glob("**/manifest.json"), *artifacts.glob("**/receipts/[0-9]*.json")}

    seen, until = set(), 0.0
    while not (run / "exit.json").exists():
        number = min(filter(at_work, logs), key=kills.get, default=None)
        process = submitted.rank(run, number) if number and time.monotonic() >= until and finished() - seen else None
        if process is not None:
            kill(process)
            read[number] = logs[number].stat().st_size
            kills[number] += 1
            seen, until = finished(), time.monotonic() + STORM
        time.sleep(0.1)
    assert sum(kills.values()) > 1
    return 1


@pytest.fixture
def disk(tmp_path, request):
    """Return a function that puts a small file system of its own at a path."""
    def mount(path):
        path.mkdir(parents=True)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", path], check=False,
                          capture_output=True).returncode:
            pytest.skip("mounting a small file system is not permitted here")
        request.addfinalizer(lambda: subprocess.run(["umount", "-l", path], check=True))

    return mount


def ended_with(submitted, run, message):
    """The run has failed, and says why."""
    submitted.dssl("wait", run.name, code=1)
    ending = json.loads((run / "exit.json").read_text())
    assert ending["state"] == "failed"
    assert message in ending["why"]
    wait_until(lambda: not [number for number in range(4) if submitted.rank(run, number)], "the processes to end")


def full_disk(submitted, stage):
    run = submitted.submit()
    submitted.wait_for(run, stage, FIRST[stage])
    ballast = submitted.workspace / "ballast"
    with open(ballast, "wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(1 << 12))
        except OSError:
            pass
    ended_with(submitted, run, "No space left on device")
    ballast.unlink()


def read_only(submitted, stage):
    run = submitted.submit()
    submitted.wait_for(run, stage, FIRST[stage])
    artifacts = submitted.workspace / "artifacts"
    wait_until(lambda: subprocess.run(["mount", "-o", "remount,ro", artifacts], check=False,
                                      capture_output=True).returncode == 0, "no file to be open", 30)
    ended_with(submitted, run, "Read-only file system")
    subprocess.run(["mount", "-o", "remount,rw", artifacts], check=True)


SURVIVED = (worker_killed, worker_with_its_nanny_killed, workers_killed, scheduler_killed, driver_killed,
            worker_stopped)
ENDED = {full_disk: (), read_only: ("artifacts",)}  # with what lies on the disk
SLOW = {(workers_killed, "columns")}


def cells(faults, stages=STAGES):
    return [pytest.param(fault, stage, id=f"{fault.__name__}-{stage}", marks=[
        pytest.mark.slow if (fault, stage) in SLOW else pytest.mark.extended])
        for fault in faults for stage in stages]


@pytest.mark.parametrize(("fault", "stage"), [*cells(SURVIVED), *cells([storm], ["points"])])
def test_the_same_bytes_after(submitted, undisturbed, fault, stage):
    begun = time.monotonic()
    run = submitted.submit()
    submitted.wait_for(run, stage, FIRST[stage])
    starts = fault(submitted, run, stage)
    ended_alike(submitted, run, undisturbed, starts)
    note(run, begun)


@pytest.mark.parametrize(("fault", "stage"), cells(ENDED))
def test_a_cause_and_the_same_bytes_after_another_submission(submitted, disk, undisturbed, fault, stage):
    disk(submitted.workspace.joinpath(*ENDED[fault]))
    begun = time.monotonic()
    fault(submitted, stage)
    run = submitted.submit()
    ended_alike(submitted, run, undisturbed, 1)
    note(run, begun)


def note(run, begun):
    """Print seconds from the submission to the end, starts, and workers that were started again, as a line of JSON."""
    print(json.dumps({
        "seconds": round(time.monotonic() - begun, 1), "starts": json.loads((run / "exit.json").read_text())["starts"],
        "replaced": (run / "logs" / "job.log").read_text().count("is started again")}))

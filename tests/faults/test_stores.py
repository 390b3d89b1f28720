"""Faults of runs with everything in an object store: the bytes of an undisturbed run in a folder, or a named end.

The store is moto's S3 server, and the processes are real; see `test_matrix`.
"""

import os
import signal
import subprocess

import pytest

from dssl.storage.artifacts import Workspace
from dssl.storage.files import files_in
from tests.object_proxy import proxy

from .machines import Machines, wait_until
from .test_matrix import (
    FIRST,
    WORKERS_GO_ON,
    another_run,
    deleted,
    driver_killed,
    flipped,
    orphan_writes_late,
    same,
    scheduler_killed,
    truncated,
    worker_killed,
    worker_stopped_for_a_while,
    workers_killed,
)

pytestmark = [pytest.mark.cluster]
OTHER_NAMESPACE = ("unshare", "-pf", "--mount-proc")  # whose processes nobody outside can look for


@pytest.fixture
def machines(tmp_path, s3):
    made = Machines(tmp_path, s3)
    yield made
    made.end()


CELLS = [pytest.param(fault, stage, id=f"{fault.__name__}-{stage}", marks=[
    pytest.mark.slow if (fault, stage) == (driver_killed, "neighbors")
    else pytest.mark.extended]) for fault in (
        worker_killed, workers_killed, scheduler_killed, driver_killed, worker_stopped_for_a_while, another_run,
        orphan_writes_late, flipped, truncated, deleted) for stage in ("neighbors", "graph", "columns")]


@pytest.mark.parametrize(("fault", "stage"), CELLS)
def test_the_bytes_of_a_folder_after(machines, undisturbed, fault, stage):
    expected = undisturbed(fault(machines, stage))
    # The parts of another layout stay too: files of dead runs are removed at the end of a run.
    more = "" if fault is orphan_writes_late else "/within/" if fault in WORKERS_GO_ON else None
    same(machines.contents(), expected, more)


@pytest.mark.extended
def test_a_run_that_is_killed_again_and_again_ends_as_one_that_is_not(machines, undisturbed, s3_server):
    """Every request takes 30 ms, so that most kills come while something is written behind."""
    kills = 0
    with proxy(s3_server) as slow:
        slow.ask("delay/0.03")
        while True:
            before = objects = len(list(files_in(machines.workspace)))
            run = machines.run(**slow.environment)
            while run.poll() is None and objects < before + 11 + 3 * kills:
                objects = len(list(files_in(machines.workspace)))
            if run.poll() is not None:
                break
            run.kill()
            run.wait()
            kills += 1
            Workspace.at(machines.workspace).verify()  # what is said to be complete is
        machines.ended(run, 0)
    assert kills > 4
    same(machines.contents(), undisturbed())


@pytest.mark.extended
def test_of_two_runs_that_begin_at_once_one_is_told_of_the_other(machines, undisturbed):
    runs = [machines.run() for _ in range(2)]
    for run in runs:
        run.wait(120)
    first, second = sorted(runs, key=lambda run: run.returncode)
    machines.ended(first, 0)
    machines.ended(second, 5)
    same(machines.contents(), undisturbed())


@pytest.mark.extended
def test_a_run_whose_host_stands_still_is_taken_over_and_stops_when_it_goes_on(machines, undisturbed):
    """The other run cannot see its process, and looks at its lease for a minute."""
    if subprocess.run([*OTHER_NAMESPACE, "true"], check=False, capture_output=True).returncode:
        pytest.skip("process namespaces are not permitted here")
    scheduler = machines.scheduler()
    machines.worker(scheduler.address)
    outside = machines.run(scheduler.address, inside=OTHER_NAMESPACE)
    machines.wait_for("neighbors", outside, FIRST["neighbors"])
    inside = int(subprocess.run(["pgrep", "-P", str(outside.pid)], check=True, capture_output=True).stdout)
    os.kill(inside, signal.SIGSTOP)
    try:
        heir = machines.run()
        wait_until(lambda: "waiting for it" in heir.log.read_text(), "the other run to look at the lease")
        machines.ended(heir, 0)
    finally:
        os.kill(inside, signal.SIGCONT)
    machines.ended(outside, 5, f"{machines.workspace}/lock.json")
    same(machines.contents(), undisturbed())

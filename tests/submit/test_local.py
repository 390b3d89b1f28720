"""Runs that are handed over on this machine: what becomes of them when their processes die."""

import json
import os
import signal
import stat
import subprocess
import time

import dask
import psutil
import pytest
from distributed import Client

from dssl.runtime.roles import Meeting

from ..faults.machines import wait_until
from ..stored import contents
from .machines import CANARY

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]


def ended_alike(submitted, run, undisturbed, starts):
    """The run has ended well after so many starts, its artifacts are those of an undisturbed run, and no file tells."""
    submitted.dssl("wait", run.name)
    ending = json.loads((run / "exit.json").read_text())
    assert (ending["code"], ending["state"], ending["starts"]) == (0, "done", starts), submitted.logs()
    found = contents(submitted.workspace)
    assert sorted(found) == sorted(undisturbed)
    assert [name for name in undisturbed if found[name] != undisturbed[name]] == []
    assert (run / "report.html").is_file()
    assert submitted.files_with_the_canary() == []


@pytest.mark.extended
def test_a_run_needs_nobody_who_waits_for_it(submitted, undisturbed):
    submitted.inside, submitted.environment = ("env",), os.environ | CANARY
    run = submitted.submit()
    again = submitted.submit()
    assert again == run, "the same spec is submitted once while it is under way"
    address = run / "address-0.json"
    wait_until(address.exists, "the scheduler", 120)
    assert stat.S_IMODE(address.stat().st_mode) == 0o600
    wait_until(lambda: submitted.rank(run, 1) is not None, "the driver")
    parents = [process.pid for process in submitted.rank(run, 1).parents()]
    assert psutil.Process().pid not in parents
    ended_alike(submitted, run, undisturbed, 1)
    assert not address.exists(), "certificates that open nothing stay behind"
    status = json.loads(submitted.dssl("status", run.name, "--json"))
    assert (status["state"], status["exit"]["code"]) == ("done", 0)
    assert "models" in submitted.dssl("logs", run.name)
    assert (run / "result.json").is_file()
    wait_until(lambda: not [number for number in range(4) if submitted.rank(run, number)], "the processes to end")
    assert submitted.submit() != run, "a spec whose run has ended is run again"


@pytest.mark.parametrize("inside", [
    pytest.param((), id="here"),
    pytest.param(("unshare", "--uts", "--pid", "--fork", "--mount-proc", "sh", "-c", 'hostname elsewhere && exec "$@"',
                  "sh"), id="on another host")])
@pytest.mark.extended_cases("here")
def test_a_run_that_is_cancelled_ends_and_keeps_its_parts(submitted, inside):
    if inside and subprocess.run([*inside, "true"], check=False, capture_output=True).returncode:
        pytest.skip("a host name of its own is not permitted here")
    run = submitted.submit()
    address, security = Meeting(run, "0").wait(120)
    with Client(address, security=security) as client:  # an engine may take workers away, of which no task is guilty
        assert client.run_on_scheduler(dask.config.get, "distributed.scheduler.allowed-failures") == 10
    submitted.wait_for(run, "points", 1)
    submitted.inside = inside
    assert "finished parts are kept" in submitted.dssl("cancel", run.name)
    submitted.inside = ()
    submitted.dssl("wait", run.name, code=143)
    assert json.loads((run / "exit.json").read_text())["state"] == "cancelled"
    assert "has ended: cancelled" in submitted.dssl("cancel", run.name)
    assert list(submitted.workspace.glob("artifacts/dataset/*/manifest.json"))


def test_the_end_of_the_time_stops_a_start_and_not_the_run(submitted, undisturbed):
    run = submitted.submit()
    submitted.wait_for(run, "points", 2)
    launcher = psutil.Process(json.loads((run / "submission" / "engine.json").read_text())["handle"]["pid"])
    launcher.send_signal(signal.SIGUSR1)
    ended_alike(submitted, run, undisturbed, 2)
    assert json.loads((run / "starts" / "0-end.json").read_text())["code"] == 75


@pytest.mark.extended
def test_a_run_that_makes_no_progress_is_not_started_for_ever(submitted):
    run = submitted.submit()
    for start in range(2):
        wait_until(lambda start=start: submitted.rank(run, 1, start) is not None or (run / "exit.json").exists(),
                   "the driver", 120)
        if (run / "exit.json").exists():
            break
        wait_until((run / "starts" / f"{start}.json").exists, "the start", 120)
        submitted.rank(run, 1, start).kill()
        time.sleep(0.5)
    submitted.dssl("wait", run.name, code=1)
    assert "made no progress" in json.loads((run / "exit.json").read_text())["why"]


@pytest.mark.extended
def test_a_run_whose_launcher_is_gone_is_lost(submitted):
    run = submitted.submit()
    submitted.wait_for(run, "points", 1)
    launcher = psutil.Process(json.loads((run / "submission" / "engine.json").read_text())["handle"]["pid"])
    processes = (launcher, *launcher.children(recursive=True))
    for process in processes:
        process.kill()
    # The driver holds the lock of the workspace until its memory is given back.
    wait_until(lambda: not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE
                               for process in processes), "the processes to end")
    assert json.loads(submitted.dssl("status", run.name, "--json"))["state"] == "lost"
    submitted.dssl("wait", run.name, code=4)
    assert submitted.submit() != run


def test_what_would_be_handed_over_is_shown(submitted):
    shown = submitted.dssl("submit", submitted.spec, "--on", submitted.cluster, "--dry-run")
    assert shown.startswith("#!/bin/sh")
    assert "4 processes on this machine" in shown
    assert not list(submitted.workspace.glob("runs/*"))

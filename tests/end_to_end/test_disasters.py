"""A run is killed, interrupted, loses a worker or the scheduler, fills the disk: it says so, and goes on afterwards."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from dssl.pipeline.kinds import KINDS

from .conftest import LOCAL, outcome, receipts, wait_for_receipts

pytestmark = [pytest.mark.slow]

CLUSTER = """
import sys
from distributed import LocalCluster
from dssl.runtime.fork_server import forked_workers
if __name__ == "__main__":
    with forked_workers(), LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50,
            scheduler_kwargs={"dashboard_address": "127.0.0.1:0"}) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""


@pytest.fixture
def cluster(tmp_path, environment):
    """A scheduler and two workers that are not the command's own; gives (process, address)."""
    (tmp_path / "cluster.py").write_text(CLUSTER)
    process = subprocess.Popen([sys.executable, tmp_path / "cluster.py"], stdin=subprocess.PIPE, env=environment,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, start_new_session=True)
    assert process.stdout is not None
    yield process, process.stdout.readline().strip()
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.cluster
def test_a_run_that_is_killed_goes_on_where_it_was(tmp_path, start, dssl, slow_columns, undisturbed):
    run = start("run", slow_columns, "--workspace", tmp_path, "--on", LOCAL, "--json")
    wait_for_receipts(tmp_path, 15, run)
    group = [process for process in psutil.process_iter() if same_group(process, run.pid)]
    os.killpg(run.pid, signal.SIGKILL)
    assert run.wait() == -signal.SIGKILL
    while any(alive(process) for process in group):
        time.sleep(0.02)
    before = receipts(tmp_path)
    assert 15 <= len(before) < 100
    assert (tmp_path / "lock.json").exists()  # nobody gave it back
    planned = {stage["name"]: stage for stage in dssl("plan", slow_columns, "--workspace", tmp_path,
                                                      "--json").document["stages"]}
    assert planned["columns"]["status"] == "partial"
    assert planned["columns"]["why"] == f"{len(before)} parts are finished"
    assert {planned[name]["status"] for name in ("covariance", "models", "sample", "scores", "predictions")
            } == {"to run"}

    again = dssl("run", slow_columns, "--workspace", tmp_path, "--on", "in-process", "--json")
    assert again.code == 0, again.err
    after = receipts(tmp_path)
    assert len(after) == 100
    assert {number: after[number] for number in before} == before  # not run again
    killed = {process.pid for process in group}
    assert not {json.loads(after[number][1])["process"] for number in after.keys() - before.keys()} & killed
    assert outcome(again.document) == outcome(undisturbed)
    assert {stage["name"] for stage in again.document["stages"] if stage["status"] == "cached"} == {
        "dataset", "split", "points", "vertices", "neighbors", "graph", "labels", "health", "landmarks", "system"}
    assert dssl("verify", "--workspace", tmp_path, "--json").document == {
        "artifacts": len(KINDS["svm"].stages), "unfinished_parts": 0}


def alive(process):
    """Return whether a process still does anything; a dead one that nobody has waited for is a zombie."""
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def same_group(process, group):
    try:
        return os.getpgid(process.pid) == group
    except ProcessLookupError:
        return False


@pytest.mark.cluster
def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path, start, cluster, slow_columns, undisturbed):
    address = cluster[1]
    run = start("run", slow_columns, "--workspace", tmp_path / "work", "--on", address, "--json")
    wait_for_receipts(tmp_path / "work", 10, run)
    victim = json.loads(max(receipts(tmp_path / "work").values())[1])["process"]  # it finished a task just now
    os.kill(victim, signal.SIGKILL)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert outcome(json.loads(out)) == outcome(undisturbed)
    ran_in = {json.loads(content)["process"] for _, content in receipts(tmp_path / "work").values()}
    assert victim in ran_in
    assert ran_in - {victim}
    assert "Traceback" not in err, err


@pytest.mark.cluster
def test_a_scheduler_that_is_lost_is_4_and_the_run_goes_on_elsewhere(tmp_path, start, dssl, cluster, slow_columns,
                                                                      undisturbed):
    process, address = cluster
    run = start("run", slow_columns, "--workspace", tmp_path / "work", "--on", address, "--json")
    wait_for_receipts(tmp_path / "work", 10, run)
    os.killpg(process.pid, signal.SIGKILL)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 4, err
    assert json.loads(out)["exit_code"] == run.returncode
    assert f"the scheduler at {address} was lost" in err
    assert "finished parts are kept" in err
    assert "Traceback" not in err, err
    assert not (tmp_path / "work" / "lock.json").exists()
    before = receipts(tmp_path / "work")
    again = dssl("run", slow_columns, "--workspace", tmp_path / "work", "--on", "in-process", "--json")
    assert again.code == 0, again.err
    after = receipts(tmp_path / "work")
    assert {number: after[number] for number in before} == before
    assert outcome(again.document) == outcome(undisturbed)


@pytest.mark.parametrize(("number", "code", "said"), [
    (signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")])
def test_a_run_that_is_interrupted_says_so_and_leaves_no_lock(tmp_path, start, slow_columns, number, code, said):
    run = start("run", slow_columns, "--workspace", tmp_path, "--on", "in-process", "--json")
    wait_for_receipts(tmp_path, 10, run)
    run.send_signal(number)
    out, err = run.communicate(timeout=60)
    assert run.returncode == code
    document = json.loads(out)
    assert (document["exit_code"], document["status"]) == (code, "interrupted")
    assert json.loads((Path(document["folder"]) / "status.json").read_text())["state"] == "interrupted"
    assert f"{said}: finished parts are kept" in err
    assert "Traceback" not in err, err
    assert not (tmp_path / "lock.json").exists()
    assert 10 <= len(receipts(tmp_path)) < 100


@pytest.mark.cluster
def test_an_interrupt_that_reaches_the_workers_too_prints_one_line(tmp_path, start, slow_columns):
    """A terminal sends Ctrl-C to the command and to all its worker processes."""
    run = start("run", slow_columns, "--workspace", tmp_path, "--on", LOCAL, "--json")
    wait_for_receipts(tmp_path, 10, run)
    os.killpg(run.pid, signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130
    assert json.loads(out)["exit_code"] == run.returncode
    assert err.splitlines()[-1] == "interrupted: finished parts are kept; run again to continue"
    assert "Traceback" not in err, err
    assert not (tmp_path / "lock.json").exists()


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 16 MB; skips the test where none may be mounted."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(folder)], capture_output=True,
                          text=True)
    if done.returncode:
        pytest.skip(f"mounting a small file system is not permitted here: {done.stderr.strip()}")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.cluster
def test_a_full_disk_is_1_and_the_run_goes_on_once_there_is_space(small_disk, dssl, process, slow_columns, undisturbed):
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(12 << 20))  # the columns take 5 MB
    found = process("run", slow_columns, "--workspace", small_disk / "work", "--on", LOCAL, "--json")
    assert found.code == 1, found.err
    assert found.document["exit_code"] == found.code
    assert "No space left on device" in found.err
    assert "free space" in found.err
    assert "Traceback" not in found.err
    published = {path.parent.parent.name for path in (small_disk / "work").glob("artifacts/*/*/manifest.json")}
    assert "points" in published
    assert "columns" not in published
    assert not (small_disk / "work" / "lock.json").exists()
    ballast.unlink()
    before = receipts(small_disk / "work")
    again = dssl("run", slow_columns, "--workspace", small_disk / "work", "--on", "in-process", "--json")
    assert again.code == 0, again.err
    after = receipts(small_disk / "work")
    assert {number: after[number] for number in before} == before
    assert outcome(again.document) == outcome(undisturbed)
    assert {stage["name"] for stage in again.document["stages"] if stage["status"] == "cached"} >= published

"""Bytes that change or vanish are found, named, and never computed with; one run at a time writes a workspace."""

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from dssl.base.errors import IntegrityError, LockedError
from dssl.execution.in_process import InProcess
from dssl.pipeline.kinds import KINDS
from dssl.pipeline.plan.plan import plan
from dssl.pipeline.run import run
from dssl.storage.artifacts import Workspace
from dssl.storage.blocks import MemoryParts
from dssl.storage.lease import is_held_by
from dssl.storage.lock import host_identity

from ..stored import flip, stored


def artifact(workspace, stage):
    return next(iter((workspace / "artifacts" / stage).iterdir()))


def chunk_of(array):
    """Return the first chunk of a stored array."""
    return next(path for path in sorted((array / "c").rglob("*")) if path.is_file())


# Verify


@pytest.mark.slow
def test_a_sound_workspace(finished, tmp_path):
    assert Workspace.at(finished[0]).verify() == len(KINDS["svm"].stages)
    assert Workspace.at(tmp_path).verify() == 0


DAMAGED = [
    ("points", "shared/train", "chunk"), ("columns", "shared/Z1", "chunk"),
    ("covariance", "parts/000000/power2", "chunk"),
    ("points", "within/ranges/parts/000000/smallest", "chunk"), ("scores", "shared/codes", "chunk"),
    ("models", "parts/000000/model.coef", "chunk"), ("graph", "receipts/000000.json", "file"),
    ("points", "shared/train/zarr.json", "file"), ("covariance", "parts/000000/power2/zarr.json", "file"),
    ("labels", "manifest.json", "file"), ("models", "manifest.json", "file"),
]


@pytest.mark.parametrize(("stage", "name", "kind", "place"), [
    *((*damaged, 0.9) for damaged in DAMAGED), (*DAMAGED[0], 0.1), (*DAMAGED[-1], 0.1)])
def test_a_flipped_bit_is_found_and_named(workspace, stage, name, kind, place):
    path = artifact(workspace, stage) / name if name == "manifest.json" else stored(artifact(workspace, stage), name)
    path = chunk_of(path) if kind == "chunk" else path
    flip(path, place)
    with pytest.raises(IntegrityError) as error:
        Workspace.at(workspace).verify()
    assert str(path) in str(error.value)
    assert f"delete {artifact(workspace, stage)}" in str(error.value) or path.name == "manifest.json"
    assert error.value.exit_code == 3


@pytest.mark.parametrize(("stage", "name"), [
    ("points", "shared/train/c"), ("columns", "shared/Z1"), ("graph", "parts/000000"), ("graph", "parts/000000/data"),
    ("points", "within"), ("covariance", "parts"), ("columns", "receipts/000002.json"), ("neighbors", "shared"),
    ("scores", "shared/codes/zarr.json"),
])
def test_what_was_deleted_is_named(workspace, stage, name):
    path = stored(artifact(workspace, stage), name)
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    with pytest.raises(IntegrityError, match="is missing") as error:
        Workspace.at(workspace).verify()
    assert str(path).removesuffix("/zarr.json") in str(error.value)


def test_one_deleted_chunk_is_named(workspace):
    chunk = chunk_of(stored(artifact(workspace, "columns"), "shared/Z1"))
    chunk.unlink()
    with pytest.raises(IntegrityError, match=f"{re.escape(str(chunk))} is missing"):
        Workspace.at(workspace).verify()


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"stage": "graph"}'])
def test_a_manifest_that_is_something_else(workspace, text):
    path = artifact(workspace, "graph") / "manifest.json"
    path.write_text(text)
    with pytest.raises(IntegrityError, match=re.escape(str(path))):
        Workspace.at(workspace).verify()


def test_a_manifest_in_the_wrong_folder(workspace):
    folder = artifact(workspace, "graph")
    other = folder.rename(folder.with_name("0" * 24))
    with pytest.raises(IntegrityError, match=re.escape(str(other))):
        Workspace.at(workspace).verify()


# A run over damage


@pytest.mark.parametrize(("stage", "name", "override", "stops_at"), [
    ("points", "shared/train", "model.eta=3", "models"), ("covariance", "parts/000000/power2", "model.eta=3", "models"),
    ("points", "shared/test", "model.eta=3", "scores"), ("neighbors", "shared/ids", "graph.weights=binary", "graph"),
    ("split", "shared/train_codes", "labels.random_state=1", "labels"), ("columns", "shared/Z1", None, "covariance"),
    ("graph", "parts/000000/data", "graph.ridge=0.1", "system"), ("dataset", "shared/X", "data.scale=none", "points"),
])
def test_a_run_over_a_damaged_input_stops_and_says_where(spec, workspace, stage, name, override, stops_at):
    chunk = chunk_of(stored(artifact(workspace, stage), name))
    if stage in ("columns", "covariance"):
        chunk.unlink()
    else:
        flip(chunk)
    overrides = [override] if override else []
    if override is None:
        shutil.rmtree(artifact(workspace, stops_at))
    with pytest.raises(IntegrityError, match=re.escape(str(chunk))):
        run(spec, set=overrides, workspace=workspace, execution=InProcess(2))
    planned = {item["name"]: item for item in plan(spec, set=overrides, workspace=workspace).records()}
    assert planned[stops_at]["status"] != "cached"
    folder = workspace / "artifacts" / stops_at / planned[stops_at]["address"][:24]
    assert not list(folder.glob("*/receipts/*.json"))  # nothing was computed from it
    assert not (workspace / "lock.json").exists()


def test_following_the_advice_mends_the_workspace(spec, finished, workspace):
    chunk = chunk_of(stored(artifact(workspace, "points"), "shared/train"))
    flip(chunk)
    with pytest.raises(IntegrityError) as error:
        Workspace.at(workspace).verify()
    advised = Path(re.search(r"delete (\S+) and run again", str(error.value)).group(1))
    shutil.rmtree(advised)
    result = run(spec, workspace=workspace, execution=InProcess(2))
    assert [stage.name for stage in result.stages if stage.status == "done"] == ["points"]
    assert result.metrics == finished[1].metrics
    assert Workspace.at(workspace).verify() == len(KINDS["svm"].stages)


def test_a_run_does_not_trust_a_damaged_manifest(spec, workspace):
    path = artifact(workspace, "split") / "manifest.json"
    path.write_text(path.read_text().replace('"n_test": 60', '"n_test": 61'))
    with pytest.raises(IntegrityError, match=re.escape(str(path))):
        run(spec, set=["labels.random_state=1"], workspace=workspace, execution=InProcess(2))


# Lock

HOLD = "import sys; from dssl.storage.artifacts import Workspace\n" \
       "with Workspace.at(sys.argv[1]).lock():\n    print('held', flush=True); sys.stdin.read()"


@pytest.fixture
def holder(tmp_path):
    """Another process that holds the lock of `tmp_path`."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.communicate()


@pytest.mark.slow
def test_a_second_run_is_told_who_holds_the_workspace(spec, tmp_path, holder):
    with pytest.raises(LockedError, match=f"process {holder.pid} on {re.escape(socket.gethostname())}") as error:
        run(spec, workspace=tmp_path, execution=InProcess(1))
    assert error.value.exit_code == 5
    assert not (tmp_path / "artifacts").exists()
    assert {stage["status"] for stage in plan(spec, workspace=tmp_path).records()} == {"to run"}  # a plan needs no lock


def test_the_lock_of_a_dead_process_is_taken_over(tmp_path, holder):
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait()
    assert (tmp_path / "lock.json").exists()
    with Workspace.at(tmp_path).lock():
        assert json.loads((tmp_path / "lock.json").read_text())["pid"] == os.getpid()
    assert not (tmp_path / "lock.json").exists()


@pytest.mark.slow
def test_a_lock_that_was_given_back_is_free(tmp_path, holder):
    holder.communicate("")
    assert not (tmp_path / "lock.json").exists()
    with Workspace.at(tmp_path).lock():
        assert (tmp_path / "lock.json").exists()


def lock_file(folder, age=0.0, **fields):
    """Write the lock of another, renewed so many seconds ago."""
    mine = {**host_identity(), "pid": os.getpid(), "token": "other", "started": psutil.Process().create_time()}
    path = folder / "lock.json"
    path.write_text(json.dumps(mine | fields))
    os.utime(path, (time.time(), path.stat().st_mtime - age))


@pytest.mark.parametrize(("fields", "free"), [
    ({}, False), ({"age": 1000.0}, False),  # a living process that was stopped goes on where it was
    ({"started": 1.0}, True),  # another process that was given its number
    ({"host": "elsewhere", "age": 50.0}, False), ({"host": "elsewhere", "age": 70.0}, True),
    ({"host": "elsewhere", "pid": 2**30}, False),  # no one here can tell whether it lives
    ({"pid": 2**22 + 1}, True), ({"pid": 1}, True),
    ({"boot": "before", "pid": 2**22 + 1}, False), ({"boot": "before", "age": 70.0}, True),  # the host was restarted
    ({"namespace": "pid:[1]", "pid": 1}, False), ({"namespace": "pid:[1]", "age": 70.0}, True),  # a container
])
def test_whose_lock_is_free(tmp_path, fields, free):
    lock_file(tmp_path, **fields)
    if free:
        with Workspace.at(tmp_path).lock():
            assert json.loads((tmp_path / "lock.json").read_text())["token"] != "other"
        assert not (tmp_path / "lock.json").exists()
    else:
        with pytest.raises(LockedError), Workspace.at(tmp_path).lock():
            pass
        assert json.loads((tmp_path / "lock.json").read_text())["token"] == "other"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", "null", '{"pid": 1}', "\0" * 200,
                                  '{"host": "h", "pid": "x", "token": "t", "started": 1.0}'])
def test_a_lock_that_cannot_be_read_belongs_to_nobody(tmp_path, text):
    (tmp_path / "lock.json").write_text(text)
    with Workspace.at(tmp_path).lock():
        assert json.loads((tmp_path / "lock.json").read_text())["pid"] == os.getpid()


@pytest.mark.parametrize("stale", [False, True])
def test_of_many_that_ask_at_once_one_gets_it(tmp_path, stale):
    for attempt in range(20):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        if stale:
            lock_file(folder, pid=2**22 + 1)
        inside, barrier, done = [], threading.Barrier(6), threading.Event()

        def enter(folder=folder, inside=inside, barrier=barrier, done=done):
            barrier.wait()
            try:
                with Workspace.at(folder).lock():
                    inside.append(threading.get_ident())
                    done.wait()
            except LockedError:
                inside.append(None)

        threads = [threading.Thread(target=enter) for _ in range(6)]
        for thread in threads:
            thread.start()
        while len(inside) < 6 and sum(entry is not None for entry in inside) < 2:
            time.sleep(0.001)
        done.set()
        for thread in threads:
            thread.join()
        assert sum(entry is not None for entry in inside) == 1
        assert not (folder / "lock.json").exists()


def test_a_held_lock_is_renewed(tmp_path):
    path = tmp_path / "lock.json"
    with Workspace.at(tmp_path).lock(lease=0.3):
        first, content = path.stat().st_mtime_ns, path.read_bytes()
        time.sleep(0.6)
        assert path.stat().st_mtime_ns > first
        assert path.read_bytes() == content
        with pytest.raises(LockedError), Workspace.at(tmp_path).lock():
            pass


def test_a_lock_that_was_lost_is_left_to_its_new_holder(tmp_path):
    with Workspace.at(tmp_path).lock(lease=0.3):
        lock_file(tmp_path, token="new")
        time.sleep(0.2)
        assert json.loads((tmp_path / "lock.json").read_text())["token"] == "new"
    assert (tmp_path / "lock.json").exists()


def test_a_clock_that_is_wrong_takes_no_lock(tmp_path, monkeypatch):
    """Which of two hosts has the right time does not matter: both ages are those of the file system."""
    lock_file(tmp_path, host="elsewhere", age=30.0)
    for wrong in (1e6, -1e6):
        monkeypatch.setattr(time, "time", lambda now=time.time, wrong=wrong: now() + wrong)
        with pytest.raises(LockedError), Workspace.at(tmp_path).lock():
            pass
        monkeypatch.undo()


@pytest.fixture
def contained():
    """Return the start of a command that runs in a PID namespace of its own, as in a container."""
    for command in (["unshare", "-pf", "--mount-proc"], ["unshare", "-rpf", "--mount-proc"]):
        if shutil.which("unshare") and subprocess.run([*command, "true"], capture_output=True).returncode == 0:
            return command
    pytest.skip("this process may not make a PID namespace")


@pytest.mark.slow
def test_a_process_in_another_pid_namespace_keeps_its_lock(tmp_path, contained):
    """Its number there, 1 or 2, is another process here, on a host of the same name."""
    hold = ("import sys; from dssl.storage.artifacts import Workspace\n"
            "with Workspace.at(sys.argv[1]).lock():\n    print('held', flush=True); sys.stdin.read()")
    holder = subprocess.Popen([*contained, sys.executable, "-c", hold, str(tmp_path)], text=True,
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        lock = json.loads((tmp_path / "lock.json").read_text())
        assert (lock["host"], lock["boot"]) == (host_identity()["host"], host_identity()["boot"])
        assert lock["namespace"] != host_identity()["namespace"]
        assert lock["pid"] != holder.pid
        with pytest.raises(LockedError), Workspace.at(tmp_path).lock():
            pass
        assert is_held_by(tmp_path / "lock.json", lock["host"], lock["pid"])
    finally:
        holder.communicate("")
    assert holder.returncode == 0
    with Workspace.at(tmp_path).lock():
        pass


@pytest.mark.parametrize(("how", "what", "why"), [
    ("another took it", "process 7 on elsewhere has taken", "this process renewed it 0 seconds ago"),
    ("it is gone", "another process may have taken it", "this process renewed it 0 seconds ago"),
    ("it could not be renewed", "another process may take", "it was not renewed for 61 seconds"),
    ("it was late, and another took it", "process 7 on elsewhere has taken", "it was not renewed for 61 seconds"),
])
def test_who_lost_a_lock_is_told(tmp_path, how, what, why):
    with Workspace.at(tmp_path).lock() as lock:
        lock.check()
        if "another took it" in how:
            lock_file(tmp_path, token="new", host="elsewhere", pid=7)
        elif how == "it is gone":
            (tmp_path / "lock.json").unlink()
        if "late" in how or "renewed" in how:
            lock._renewed -= 61
        with pytest.raises(LockedError, match=f"(?s){what}.* why: {why}") as error:
            lock.check()
        assert error.value.exit_code == 5


@pytest.mark.parametrize("execution", [InProcess(1), InProcess(2)])
@pytest.mark.extended_cases("execution1")
def test_a_run_that_lost_its_lock_ends(spec, tmp_path, monkeypatch, execution):
    """Between two stages: what it has begun is not published, and the file of the new holder stays."""
    def steal(event):
        if event["event"] == "stage" and event["stage"] == "graph" and "seconds" not in event:
            lock_file(tmp_path, token="new", host="elsewhere", pid=7)

    with pytest.raises(LockedError, match="process 7 on elsewhere has taken"):
        run(spec, workspace=tmp_path, execution=execution, events=steal)
    assert {path.parent.parent.name for path in tmp_path.glob("artifacts/*/*/manifest.json")} == {
        "dataset", "split", "points", "labels", "vertices", "neighbors"}
    assert json.loads((tmp_path / "lock.json").read_text())["token"] == "new"
    status = json.loads(next(tmp_path.glob("runs/*/status.json")).read_text())
    assert (status["state"], status["stage"]) == ("failed", "graph")
    assert status["error"]["type"] == "LockedError"
    assert status["error"]["what"].startswith("process 7 on elsewhere")
    (tmp_path / "lock.json").unlink()
    assert run(spec, workspace=tmp_path, execution=execution).status == "done"


def test_tasks_that_run_for_long_end_when_the_lock_is_lost():
    """In threads, one or several, about a second after."""
    def lost():
        raise LockedError("lost")

    def nap(out):
        time.sleep(0.05)
        return {}

    for threads in (1, 2):
        execution, parts = InProcess(threads), MemoryParts()
        execution.allowed = lost
        with pytest.raises(LockedError):
            execution.map([nap] * 200, parts)
        assert len(parts.receipts(200)) < 100

"""What a run says of itself while it goes on: its events, the heartbeat, and `status.json`."""

import json
import os
import socket
import time

import pytest

from dssl.base.errors import DataError, NotConverged
from dssl.execution.in_process import InProcess
from dssl.pipeline.contents import inspect
from dssl.pipeline.result import RunResult
from dssl.pipeline.run import run
from dssl.pipeline.status import Status, read_status
from dssl.storage.artifacts import Workspace


def status_in(workspace):
    return json.loads(next(workspace.glob("runs/*/status.json")).read_text())


def quick(folder, tell):
    return Status(folder, "one", "name", tell, look_every=0.02, beat=0.1)


def test_a_heartbeat_comes_while_nothing_else_does(tmp_path):
    events = []
    with quick(tmp_path, events.append) as status:
        time.sleep(0.25)
        assert events == []  # no stage has begun
        status.tell({"event": "stage", "stage": "columns", "status": "to run", "estimated": 1.0,
                     "later": 2.0})
        status.tell({"event": "progress", "stage": "columns", "done": 4, "of": 10})
        time.sleep(0.25)
        status.tell({"event": "progress", "stage": "columns", "done": 6, "of": 10})
        time.sleep(0.25)
        seen = json.loads((tmp_path / "status.json").read_text())
        status.end("done")
    beats = [event for event in events if event["event"] == "heartbeat"]
    assert 3 <= len(beats) <= 5
    assert (beats[0]["stage"], beats[0]["done"], beats[0]["of"], beats[0]["rate"]) == ("columns", 4, 10, None)
    progress = [event for event in events if event["event"] == "progress"]
    assert progress[0]["time_left"] is None
    assert 4 < progress[1]["rate"] < 8.1  # the four that were there are not of this run
    assert progress[1]["time_left"] == pytest.approx(4 / progress[1]["rate"], abs=0.1)
    assert (seen["state"], seen["stage"], seen["done"], seen["of"]) == ("running", "columns", 6, 10)
    assert (seen["host"], seen["pid"]) == (socket.gethostname(), os.getpid())
    ended = json.loads((tmp_path / "status.json").read_text())
    assert (ended["state"], ended["stage"], ended["error"]) == ("done", None, None)
    assert [path.name for path in tmp_path.iterdir()] == ["status.json"]


def test_a_listener_that_fails_at_a_heartbeat_ends_the_run(tmp_path):
    def listener(event):
        if event["event"] == "heartbeat":
            raise ValueError("enough")

    def invoked():
        with quick(tmp_path, listener) as status:
            status.tell({"event": "stage", "stage": "columns", "status": "to run", "estimated": 1.0,
                     "later": 2.0})
            time.sleep(0.3)
            status.tell({"event": "progress", "stage": "columns", "done": 1, "of": 2})

    with pytest.raises(ValueError, match="enough"):
        invoked()
    assert json.loads((tmp_path / "status.json").read_text())["state"] == "failed"


@pytest.mark.slow
def test_a_run_keeps_its_status(spec, tmp_path):
    run(spec, workspace=tmp_path / "done", execution=InProcess(1))
    assert status_in(tmp_path / "done")["state"] == "done"
    execution = InProcess(1)
    with pytest.raises(NotConverged):
        run(spec, set=["solver.max_iter=1"], workspace=tmp_path / "failed", execution=execution)
    assert execution.counter is None  # whoever uses it next tells nothing to this run
    failed = status_in(tmp_path / "failed")
    assert (failed["state"], failed["stage"], failed["name"]) == ("failed", "columns", "small")
    assert failed["error"]["type"] == "NotConverged"
    assert all(failed["error"][key] for key in ("what", "why", "fix"))
    assert [stage["name"] for stage in failed["stages"]][-1] == "system"
    found = inspect(failed["run"], Workspace.at(tmp_path / "failed"))
    assert (found["status"], found["progress"]["error"]) == ("unfinished", failed["error"])

    def interrupt(event):
        if event.get("stage") == "graph":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(spec, workspace=tmp_path / "interrupted", execution=InProcess(1), events=interrupt)
    assert status_in(tmp_path / "interrupted")["state"] == "interrupted"


def test_a_run_whose_process_is_gone_is_lost(tmp_path):
    workspace = Workspace.at(tmp_path)
    folder = tmp_path / "runs" / "one"
    folder.mkdir(parents=True)
    (folder / "spec.json").write_text("{}")
    status = Status(folder, "one", "name", lambda event: None)
    with workspace.lock(), status:
        assert read_status(folder)["state"] == "running"
        written = (folder / "status.json").read_text()
        status.end("done")
    assert read_status(folder)["state"] == "done"
    (folder / "status.json").write_text(written)  # as a process leaves it that is killed
    assert inspect("one", workspace)["progress"]["state"] == "lost"
    with pytest.raises(DataError, match="its run is lost"):
        RunResult.open(folder)
    with workspace.lock():  # another run of the same process number on another host
        (folder / "status.json").write_text(json.dumps({**json.loads(written), "host": "elsewhere"}))
        assert read_status(folder)["error"]["what"] == f"process {os.getpid()} on elsewhere is gone"

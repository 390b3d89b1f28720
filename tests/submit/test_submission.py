"""The records of a submitted run, and what follows from them."""

import json
import socket
import subprocess
import time
from contextlib import chdir, suppress

import pytest

from dssl.base.errors import COME_BACK, TERMINATED, ClusterError, DataError
from dssl.cli.submit import wait_for_end
from dssl.pipeline.contents import find_garbage
from dssl.pipeline.load import load_spec
from dssl.pipeline.records import write_stages
from dssl.pipeline.submission import HANDING_OVER, Submission, find_run, state_of
from dssl.storage.artifacts import Workspace

SPEC = {"name": "here", "data": {"source": "digits"}, "labels": {"per_class": 2}}


@pytest.fixture
def place(tmp_path):
    return Workspace.at(tmp_path / "work")


@pytest.fixture
def submission(place):
    return Submission.freeze(place, load_spec(SPEC), {"kind": "local"}, {"memory_budget": 1 << 30, "keep": "all"})


def known(engine):
    return True


def forgotten(engine):
    return False


def waited_for(submission):
    """Return the exit code of a run of whose job this machine knows nothing."""
    path = submission.folder / "submission" / "engine.json"
    path.unlink()
    submission.hand_over("this machine", {"pid": 2**22 + 1, "started": 0.0, "host": socket.gethostname()})
    return wait_for_end(submission.folder, 10)[1]


def finish_a_part(submission):
    """Let one more artifact of the run be finished."""
    root = submission.folder.parents[1] / "artifacts"
    made = len(list(root.glob("points/*"))) if root.is_dir() else 0
    folders = [root / "points" / f"{number:024d}" for number in range(made + 1)]
    folders[-1].mkdir(parents=True)
    (folders[-1] / "manifest.json").write_text("{}")
    write_stages(submission.folder, folders)


def test_what_is_frozen_is_what_runs(submission):
    assert load_spec(submission.spec) == load_spec(SPEC)
    assert submission.cluster == {"kind": "local"}
    assert submission.job_name.startswith("dssl-")


def test_classes_keep_their_order(place):
    """It is part of the addresses: a run that was submitted would else make anew what one that was not has made."""
    spec = load_spec(SPEC | {"data": {"source": "digits", "classes": {"odd": [1, 3], "even": [0, 2]}}})
    frozen = Submission.freeze(place, spec, {"kind": "local"}, {"memory_budget": 1 << 30, "keep": "all"})
    assert list(load_spec(frozen.spec).data.classes) == ["odd", "even"]


def test_one_of_two_who_submit_hands_over(place, submission):
    other = Submission.freeze(place, load_spec(SPEC), {"kind": "local"}, {})
    assert submission.claim(place, known) == submission.folder
    assert other.claim(place, known) == submission.folder
    another_spec = Submission.freeze(place, load_spec(SPEC | {"name": "there"}), {"kind": "local"}, {})
    assert another_spec.claim(place, known) == another_spec.folder


def test_a_spec_whose_run_has_ended_is_free(place, submission):
    submission.claim(place, known)
    submission.finish(0, "done", "")
    other = Submission.freeze(place, load_spec(SPEC), {"kind": "local"}, {})
    assert other.claim(place, known) == other.folder


def test_the_state_follows_from_the_records(submission):
    assert state_of(submission.folder, known)["state"] == "submitted"
    submission.hand_over("Slurm", {"job": "7"})
    assert state_of(submission.folder, known)["state"] == "submitted"
    assert state_of(submission.folder, forgotten)["state"] == "lost"
    submission.begin()
    assert state_of(submission.folder, known)["state"] == "submitted", "its first processes start"
    submission.begin()
    assert state_of(submission.folder, known)["state"] == "restarting"
    submission.finish(3, "failed", "a byte")
    assert state_of(submission.folder, forgotten)["state"] == "failed"


def test_a_cancelled_run_that_no_process_works_on_has_ended(submission, monkeypatch):
    """As while it waits in a queue to be started again, or where its driver was killed before its record."""
    submission.hand_over("Slurm", {"job": "7"})
    for _ in range(2):
        submission.begin()
    submission.cancel()
    assert state_of(submission.folder, known)["state"] == "restarting"
    state = state_of(submission.folder, forgotten)
    assert (state["state"], state["exit"]["code"], state["error"]) == ("cancelled", TERMINATED, None)
    assert waited_for(submission) == TERMINATED
    later = time.time() + HANDING_OVER + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert state_of(submission.folder, known)["state"] == "cancelled", "it begins no start any more"


def test_a_run_that_was_never_handed_over_is_lost_after_a_while(submission, monkeypatch):
    later = time.time() + HANDING_OVER + 1
    monkeypatch.setattr(time, "time", lambda: later)
    assert state_of(submission.folder, known)["state"] == "lost"


def test_an_interrupted_start_is_followed_by_another_if_it_made_progress(submission):
    for code in (COME_BACK, TERMINATED, ClusterError.exit_code):
        start = submission.begin()
        finish_a_part(submission)
        submission.end(start, code, "interrupted")
        assert submission.settle(9) == COME_BACK
    start = submission.begin()
    submission.end(start, ClusterError.exit_code, "the scheduler was lost")
    assert submission.settle(9) == ClusterError.exit_code
    assert "start 4 made no progress" in submission.exit["why"]


def test_a_driver_that_ended_without_a_word_is_started_again(submission):
    submission.begin()
    finish_a_part(submission)
    assert submission.settle(1) == COME_BACK
    submission.begin()
    finish_a_part(submission)
    assert submission.settle(1) == 1
    assert "max_restarts is 1" in submission.exit["why"]


@pytest.mark.parametrize("code", [1, 2, 3, 5])
def test_what_another_start_would_not_mend_is_the_end(submission, code):
    start = submission.begin()
    finish_a_part(submission)
    submission.end(start, code, "so it is")
    assert submission.settle(9) == code
    assert submission.exit["state"] == "failed"


def test_a_cancelled_run_is_not_started_again(submission):
    start = submission.begin()
    finish_a_part(submission)
    submission.cancel()
    submission.end(start, TERMINATED, "terminated")
    assert submission.settle(9) == TERMINATED
    assert submission.exit["state"] == "cancelled"


def test_a_job_without_a_driver_has_failed(submission):
    assert submission.settle(9) == 1
    assert "no process of the job has started" in submission.exit["why"]


def test_another_version_does_not_take_part(submission):
    path = submission.folder / "submission" / "submission.json"
    path.write_text(json.dumps(submission.described | {"version": "0.0.1"}))
    with pytest.raises(ClusterError, match=r"submitted by 0\.0\.1"):
        submission.require_this_version()


def test_a_run_is_found_by_the_beginning_of_its_name(place, submission):
    assert find_run(place, submission.folder.name[:12]) == submission.folder
    assert find_run(place, None) == submission.folder
    assert find_run(place, str(submission.folder)) == find_run(place, f"{submission.folder}/") == submission.folder
    with chdir(submission.folder):
        assert find_run(place, ".") == find_run(place, "result.json") == submission.folder.resolve()
    later = place.root / "runs" / "99991231T235959-a-run-of-its-own-process"
    later.mkdir()
    assert find_run(place, None) == later
    assert find_run(place, None, submitted=True) == submission.folder
    with pytest.raises(DataError, match="no run x"):
        find_run(place, "x")
    (place.root / "runs" / f"{submission.folder.name}-b").mkdir()
    assert find_run(place, submission.folder.name) == submission.folder
    with pytest.raises(DataError, match="2 runs begin with"):
        find_run(place, submission.folder.name[:-1])


def test_a_run_of_its_own_process_was_not_submitted(place):
    folder = place.root / "runs" / "mine"
    folder.mkdir(parents=True)
    with pytest.raises(DataError, match="was not submitted"):
        Submission.at(folder)


def test_where_nothing_was_submitted_that_is_said(place):
    (place.root / "runs" / "mine").mkdir(parents=True)
    with pytest.raises(DataError, match=r"has no submitted run\n"):
        find_run(place, None, submitted=True)


def test_a_run_that_cannot_be_written_down_leaves_nothing(place):
    with pytest.raises(TypeError):
        Submission.freeze(place, load_spec(SPEC), {"kind": "local"}, {"memory_budget": object()})
    assert list(place.root.glob("runs/*")) == []


def test_an_end_is_recorded_on_a_full_disk(tmp_path):
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", tmp_path], check=False,
                      capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    try:
        made = Submission.freeze(Workspace.at(tmp_path / "work"), load_spec(SPEC), {"kind": "local"}, {})
        start = made.begin()
        with open(tmp_path / "ballast", "wb", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(1 << 12))
        made.end(start, COME_BACK, "interrupted")
        made.finish(1, "failed", "No space left on device")
        assert made.exit["why"] == "No space left on device"
        assert [path.name for path in sorted((made.folder / "starts").iterdir())] == ["0-end.json", "0.json"]
    finally:
        subprocess.run(["umount", "-l", tmp_path], check=True)


def test_garbage_is_found_beside_a_run_that_has_not_begun(place, submission):
    assert find_garbage(place).kept == [submission.folder.name]

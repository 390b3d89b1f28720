"""A part is written once, whoever writes it and however late: attempts of tasks, and workers of dead runs."""

import errno
import os
import threading
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from dssl.execution.in_process import InProcess
from dssl.execution.tasks import run_part, sums
from dssl.storage import files, store
from dssl.storage.artifacts import Workspace, parts_in
from dssl.storage.blocks import row_ranges
from dssl.storage.files import read_json, write_json
from dssl.storage.store import StoredParts
from dssl.storage.verify import verify_finished, verify_parts

from ..stored import contents

X = np.random.default_rng(0).normal(size=(100, 3))


@dataclass(frozen=True)
class MomentTask:
    """Copy rows to a shared array, and write their second moments."""

    start: int
    stop: int
    gate: threading.Barrier | None = None

    def __call__(self, out):
        if self.gate:
            self.gate.wait()
        block = X[self.start:self.stop]
        out.write(second=block.T @ block, n=np.array(len(block)))
        return out.write_rows(self.start, copy=block)


def tasks_of(block_rows, parts):
    parts.allocate("copy", X.shape, X.dtype, block_rows)
    return [MomentTask(start, stop) for start, stop in row_ranges(len(X), block_rows)]


def attempts(parts, index):
    return sorted(path.name for path in parts.part(index).iterdir() if path.is_dir())


def test_the_second_attempt_of_a_part_leaves_nothing(tmp_path):
    parts = StoredParts(tmp_path)
    task = tasks_of(100, parts)[0]
    first = run_part(task, parts, 0)
    kept, before = attempts(parts, 0), parts.read(0)
    assert run_part(task, parts, 0) == first == parts.receipt(0) == parts.receipts(200)[0]
    assert attempts(parts, 0) == kept == [read_json(tmp_path / "receipts" / "000000.json")["attempt"]]
    assert_array_equal(parts.read(0)["second"], before["second"])
    assert verify_finished(parts) == 1


def test_many_attempts_at_once_leave_one_part_that_can_always_be_read(tmp_path):
    for number in range(5):
        parts, gate, actual = StoredParts(tmp_path / str(number)), threading.Barrier(6), []
        tasks_of(100, parts)
        runs = [threading.Thread(target=lambda parts=parts, gate=gate, actual=actual: actual.append(
            run_part(MomentTask(0, 100, gate), parts, 0))) for _ in range(6)]
        for thread in runs:
            thread.start()
        while not (parts.folder / "receipts" / "000000.json").exists():
            time.sleep(0.001)
        while any(thread.is_alive() for thread in runs):
            assert_array_equal(StoredParts(parts.folder).read(0)["second"], X.T @ X)
            assert_array_equal(parts.rows("copy").read_all(), X)
        assert actual == [parts.receipt(0)] * 6
        assert len(attempts(parts, 0)) == 1
        verify_parts(parts)


def test_parts_whose_removal_was_cut_short_are_made_again(tmp_path, monkeypatch):
    parts = StoredParts(tmp_path / "step")
    places = [parts, parts.within("inner")]
    for place in places:
        InProcess(1).map(tasks_of(50, place), place)
    remove = store.remove_tree

    def killed(folder):
        if Path(folder) == parts.folder:
            for place in places:
                remove(place.part(0))
            raise KeyboardInterrupt
        remove(folder)

    monkeypatch.setattr(store, "remove_tree", killed)
    with pytest.raises(KeyboardInterrupt):
        parts.remove()
    monkeypatch.undo()
    for place in places:
        InProcess(1).map(tasks_of(50, place), place)
        assert [int(place.read(index)["n"]) for index in range(2)] == [50, 50]


def test_an_attempt_that_fails_leaves_nothing(tmp_path):
    def fails(out):
        out.write(half=np.arange(3))
        raise OSError(errno.ENOSPC, "No space left on device")

    parts = StoredParts(tmp_path)
    with pytest.raises(OSError, match="No space"):
        run_part(fails, parts, 0)
    assert attempts(parts, 0) == []
    assert parts.receipts(200) == {}


def test_shared_arrays_that_are_allocated_at_once_are_one(tmp_path):
    for number in range(10):
        parts, gate = StoredParts(tmp_path / str(number)), threading.Barrier(4)

        def fill(start, stop, parts=parts, gate=gate):
            gate.wait()
            parts.allocate("copy", X.shape, X.dtype, 25)
            parts.write_range(start, {"copy": X[start:stop]})

        threads = [threading.Thread(target=fill, args=range_) for range_ in row_ranges(100, 25)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert_array_equal(parts.rows("copy").read_all(), X)
        assert [path.name for path in (parts.folder / "shared").iterdir()] == ["copy"]


# Workers of a dead run


def artifact_in(folder):
    return Workspace.at(folder).artifact("covariance", 1, {"rows": 100}, {})


def covariance(parts, block_rows):
    total = InProcess(1).reduce(sums(tasks_of(block_rows, parts)), parts)
    return total["second"] / total["n"]


@pytest.mark.parametrize("late", ["before the run", "while it runs", "after its last part", "after it is published"])
def test_a_late_part_of_another_layout_changes_nothing(tmp_path, late):
    """A worker whose run had blocks of 40 rows goes on while the next run has blocks of 30."""
    undisturbed, artifact = artifact_in(tmp_path / "undisturbed"), artifact_in(tmp_path / "disturbed")
    undisturbed.begin({"memory_budget": 30})
    expected = covariance(undisturbed.parts, 30)
    undisturbed.publish({})

    artifact.begin({"memory_budget": 40})
    dead = artifact.parts
    orphans = tasks_of(40, dead)
    run_part(orphans[0], dead, 0)
    artifact.begin({"memory_budget": 30})
    assert artifact.parts.receipts(200) == {}

    def orphan():
        for index in (1, 2):  # the array that it fills may be gone, which is the orphan's own trouble
            dead.allocate("copy", X.shape, X.dtype, 40)
            run_part(orphans[index], dead, index)

    if late == "before the run":
        orphan()
    tasks = tasks_of(30, artifact.parts)
    run_part(tasks[0], artifact.parts, 0)
    if late == "while it runs":
        orphan()
    assert_array_equal(covariance(artifact.parts, 30), expected)
    if late == "after its last part":
        orphan()
    artifact.publish({})
    if late == "after it is published":
        orphan()
    assert_array_equal(artifact.parts.rows("copy").read_all(), X)
    assert sorted(artifact.parts.receipts(200)) == [0, 1, 2, 3]
    artifact.verify()
    if late != "after it is published":
        assert contents(tmp_path / "disturbed") == contents(tmp_path / "undisturbed")


def test_the_same_layout_goes_on(tmp_path):
    artifact = artifact_in(tmp_path)
    artifact.begin({"memory_budget": 30})
    run_part(tasks_of(30, artifact.parts)[1], artifact.parts, 1)
    artifact.begin({"memory_budget": 30})
    assert set(artifact.parts.receipts(200)) == {1}
    assert artifact.finished_parts == 1
    artifact.remove()
    assert artifact.finished_parts == 0


def test_what_no_receipt_names_is_cleared_when_an_artifact_is_published(tmp_path):
    artifact = artifact_in(tmp_path)
    artifact.begin({})
    parts = artifact.parts
    covariance(parts, 50)
    parts.write(1, {"second": np.zeros((3, 3))}, "left")  # of a task whose worker was killed
    parts.within("inner").write(0, {"a": np.zeros(3)}, "left")
    assert len(attempts(parts, 1)) == 2
    artifact.publish({})
    assert len(attempts(parts, 1)) == 1
    assert not list(parts.folder.glob("**/left"))
    artifact.verify()
    assert "parts" in str(parts_in(artifact.folder).attempt_folder(0))


def test_a_manifest_is_not_written_by_who_may_not(tmp_path):
    artifact = artifact_in(tmp_path)
    artifact.begin({})

    def refuse():
        raise RuntimeError("lost")

    with pytest.raises(RuntimeError):
        artifact.publish({}, refuse)
    assert not artifact.exists


# Errors that pass


@pytest.fixture
def hiccup(monkeypatch):
    """Have opening a file fail so many times with an error."""
    def set_up(module, times, number):
        left = [times]

        def failing(*args, **kwargs):
            if left[0]:
                left[0] -= 1
                raise OSError(number, os.strerror(number))
            return open(*args, **kwargs)

        monkeypatch.setattr(module, "open", failing, raising=False)
        return left

    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0, 0.0))
    return set_up


@pytest.mark.parametrize("number", [errno.EIO, errno.ESTALE, errno.ETIMEDOUT])
def test_an_error_that_passes_costs_nothing_but_time(tmp_path, hiccup, number):
    parts = StoredParts(tmp_path)
    left = hiccup(files, 3, number)
    run_part(tasks_of(50, parts)[0], parts, 0)
    assert left == [0]
    hiccup(files, 3, number)
    assert_array_equal(parts.read(0)["second"], X[:50].T @ X[:50])


def test_it_is_tried_a_few_times_and_no_more(tmp_path, hiccup):
    left = hiccup(files, 100, errno.EIO)
    with pytest.raises(OSError, match="Input/output error"):
        write_json(tmp_path / "a.json", {})
    assert left == [96]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT])
def test_an_error_that_does_not_pass_is_raised_at_once(tmp_path, hiccup, number):
    left = hiccup(files, 100, number)
    with pytest.raises(OSError, match=os.strerror(number)):
        write_json(tmp_path / "a.json", {})
    assert left == [99]


def test_a_link_whose_answer_was_lost_is_a_success(tmp_path, monkeypatch):
    real = os.link

    def twice(source, target):
        real(source, target)
        real(source, target)

    monkeypatch.setattr(os, "link", twice)
    assert write_json(tmp_path / "receipt.json", {"by": "me"}, exclusive=True)
    monkeypatch.undo()
    assert not write_json(tmp_path / "receipt.json", {"by": "another"}, exclusive=True)
    assert read_json(Path(tmp_path / "receipt.json")) == {"by": "me"}

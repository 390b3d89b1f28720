"""A lock with which its folder goes: one holder at a time, while others remove the folder and make it anew."""

import subprocess
import sys
import threading
import time
from pathlib import Path

import psutil
import pytest

from dssl.base.errors import DataError, LockedError
from dssl.data.ingest_leftovers import one_writer
from dssl.storage.lock import FolderLock, host_identity, is_gone


def test_one_writer_at_a_time_while_others_remove_the_empty_folder(tmp_path):
    folder, inside, failures, entered = tmp_path / "d", [], [], []

    def write(name):
        while len(entered) < 60:
            try:
                with one_writer(folder) as lock:
                    inside.append(name)
                    time.sleep(0.002)
                    if inside != [name]:
                        failures.append(list(inside))
                    inside.remove(name)
                    lock.check()
                    entered.append(name)
            except LockedError as error:
                if "is using" not in str(error):
                    failures.append(str(error))
            except OSError as error:
                failures.append(repr(error))

    threads = [threading.Thread(target=write, args=(name,)) for name in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert not folder.exists()


def test_a_folder_with_a_file_of_another_stays(tmp_path):
    with one_writer(tmp_path / "d"):
        (tmp_path / "d" / "notes.txt").write_text("mine")
    assert sorted(path.name for path in (tmp_path / "d").iterdir()) == [".lock", "notes.txt"]


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="there is no /proc")
def test_a_folder_that_cannot_be_made_is_told_with_another_place():
    message = r"the folder /proc/dssl-work cannot be made(.|\n)*--workspace"
    with pytest.raises(DataError, match=message), FolderLock(Path("/proc/dssl-work/lock")):
        raise AssertionError("no lock can be there")


def test_a_process_that_has_ended_and_that_nobody_waited_for_is_gone():
    """The first process of a container often takes in orphans without asking for their codes."""
    process = subprocess.Popen([sys.executable, "-c", "pass"])
    holder = {**host_identity(), "pid": process.pid, "started": psutil.Process(process.pid).create_time()}
    while psutil.Process(process.pid).status() != psutil.STATUS_ZOMBIE:
        time.sleep(0.01)
    assert is_gone(holder)
    process.wait()
    assert is_gone(holder)

"""A worker near its memory limit goes on: what it keeps is bounded, and given back when memory is short."""

import threading
from dataclasses import dataclass

import numpy as np
import pytest

from dssl.execution.cost import WorkerRoom
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask, WorkerMemory
from dssl.storage.blocks import Arrays
from dssl.storage.cache import ARRAYS, ArrayCache
from dssl.storage.store import StoredParts

MB = 1 << 20


@dataclass(frozen=True)
class SumTask:
    """Report the sum of some arrays, and what the process keeps meanwhile."""

    arrays: Arrays

    def __call__(self, out):
        return {"sum": float(sum(array.sum() for array in self.arrays.load().values())), "kept": ARRAYS.nbytes}


@dataclass(frozen=True)
class OtherTask:
    """Take some memory for a moment, and report what the process keeps."""

    nbytes: int

    def __call__(self, out):
        return {"taken": int(np.ones(self.nbytes, np.uint8).sum()), "kept": ARRAYS.nbytes}


def shared(folder, sizes):
    """Return stored arrays of so many bytes, of ones."""
    parts = StoredParts(folder)
    for index, size in enumerate(sizes):
        parts.write(index, {"a": np.ones(size // 8)})
    return [parts.arrays(index) for index in range(len(sizes))]


def test_threads_keep_no_more_than_their_budget(tmp_path):
    ARRAYS.clear()
    execution = InProcess(1, memory_budget=100_000)
    tasks = [SumTask(arrays) for arrays in shared(tmp_path, [40_000] * 4 + [200_000])]
    receipts = execution.map(tasks, execution.scratch())
    assert [receipt["sum"] for receipt in receipts] == [5000.0] * 4 + [25_000.0]
    assert [receipt["kept"] for receipt in receipts] == [40_000, 80_000, 80_000, 80_000, 80_000]


def test_a_task_of_another_kind_has_the_memory_that_was_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(WorkerMemory, "_last", None)
    monkeypatch.setattr(ARRAYS, "limit", ARRAYS.limit)
    ARRAYS.clear()
    same, other = (SumTask(arrays) for arrays in shared(tmp_path, [8000, 8000])), OtherTask(10)
    tight = WorkerMemory(budget=1 << 40, pause=1 << 41)  # nothing is left beside the budget
    for kept, task in zip((8000, 16_000), same, strict=True):
        with tight.around(task):
            assert task(None)["kept"] == kept
        assert ARRAYS.nbytes == kept, "the next of the kind finds it"
    roomy = WorkerMemory(budget=1 << 20, pause=1 << 41)
    with roomy.around(other):
        assert ARRAYS.nbytes == 16_000
    with WorkerMemory(budget=1 << 41, pause=1 << 41).around(next(iter(same), SumTask(shared(tmp_path, [80])[0]))):
        assert ARRAYS.nbytes == 0


def test_a_task_that_ends_near_the_mark_leaves_nothing(tmp_path):
    task = SumTask(shared(tmp_path, [8000])[0])
    with WorkerMemory(budget=1 << 20, pause=1).around(task):
        assert task(None)["kept"] == 8000
    assert ARRAYS.nbytes == 0
    with WorkerMemory(budget=1 << 20, pause=None).around(task):
        task(None)
    assert ARRAYS.nbytes == 8000


def test_a_cluster_says_what_its_workers_have_for_a_task(cluster_client):
    assert OnDask(cluster_client).smallest_worker.room == WorkerRoom(2 << 30).room
    assert OnDask(cluster_client).memory_budget == 1 << 30


@pytest.mark.slow
def test_a_worker_at_its_limit_is_not_paused_for_good(tmp_path):
    """With the last arrays, whatever their size, it would hold more than Dask lets a worker begin a task with.

    Of 1 GiB a worker that is paused at 0.8 holds 150 to 250 MB itself.
    """
    from distributed import Client, LocalCluster

    large, small = shared(tmp_path / "arrays", [660 * MB, 8000])
    with LocalCluster(n_workers=1, threads_per_worker=1, processes=True, dashboard_address=None,
                      memory_limit="1GiB") as cluster, Client(cluster, set_as_default=False) as client:
        execution, receipts = OnDask(client, 700 * MB), []

        def work():
            for number, tasks in enumerate(([SumTask(large)] * 2, [OtherTask(300 * MB)] * 2, [SumTask(small)])):
                receipts.extend(execution.map(tasks, StoredParts(tmp_path / str(number))))

        thread = threading.Thread(target=work, daemon=True)
        thread.start()
        thread.join(60)
        assert not thread.is_alive(), "the worker is paused, and nothing gives its memory back"
        assert [receipt.get("sum", receipt.get("taken")) for receipt in receipts] == [
            660.0 * MB / 8] * 2 + [300 * MB] * 2 + [1000.0]
        assert len(client.scheduler_info()["workers"]) == 1
        assert {receipt["process"] for receipt in receipts} == {receipts[0]["process"]}, "no worker was ended"


def test_a_cache_is_bounded_by_what_it_is_told():
    cache = ArrayCache(100)
    for key in range(5):
        cache.get(key, lambda: 40, lambda: {"a": np.zeros(5)})
        assert cache.nbytes <= 100
    assert list(cache.entries) == [3, 4]

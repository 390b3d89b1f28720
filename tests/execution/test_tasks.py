"""Tasks in threads and on a cluster: the same parts, resumed where they stopped, whoever dies."""

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from threadpoolctl import threadpool_info, threadpool_limits

from dssl.base.errors import ParameterError
from dssl.execution import in_process
from dssl.execution.in_process import InProcess
from dssl.execution.on_dask import OnDask, on_one_machine
from dssl.execution.tasks import Reduction, TaskCount, add, run_part, sums
from dssl.execution.threads import one_thread
from dssl.storage.blocks import ArrayRows, MemoryParts, Rows, block_rng, row_ranges
from dssl.storage.store import StoredParts
from dssl.storage.verify import verify_parts
from dssl.storage.write_behind import remove_behind, write_behind
from tests.clusters import local_cluster
from tests.in_pairs import in_pairs


@dataclass(frozen=True)
class SquareTask:
    """Square one block of rows, and write a random number that depends on the block only."""

    rows: Rows
    start: int
    stop: int
    log: Path | None = None
    seconds: float = 0.0

    def __call__(self, out):
        if self.log:
            with open(self.log / f"{self.start}.log", "a") as file:
                file.write(f"{os.getpid()}\n")
        time.sleep(self.seconds)
        block = self.rows.read(self.start, self.stop)
        out.write(noise=block_rng(1, self.start).normal(size=3))
        return out.write_rows(self.start, squares=block**2) | {"first": self.start}


@dataclass(frozen=True)
class FailingTask:
    def __call__(self, out):
        raise ValueError("this block cannot be read")


X = np.arange(60.0).reshape(20, 3)


def square_tasks(parts, **options):
    parts.allocate("squares", X.shape, X.dtype, 4)
    return [SquareTask(ArrayRows(X), start, stop, **options) for start, stop in row_ranges(20, 4)]


def contents(parts):
    return parts.rows("squares").read_all().tobytes(), [parts.read(i)["noise"].tobytes() for i in range(5)]


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("stored", [False, True])
def test_receipts_come_in_the_order_of_the_tasks(tmp_path, threads, stored):
    parts = StoredParts(tmp_path) if stored else MemoryParts()
    receipts = InProcess(threads).map(square_tasks(parts), parts)
    assert [receipt["first"] for receipt in receipts] == [0, 4, 8, 12, 16]
    assert all(receipt["seconds"] >= 0 and receipt["peak_rss_bytes"] > 1 << 20 for receipt in receipts)
    assert_array_equal(parts.rows("squares").read_all(), X**2)


def test_one_thread_and_two_write_the_same(tmp_path):
    made = []
    for threads in (1, 2):
        for parts in (MemoryParts(), StoredParts(tmp_path / str(threads))):
            InProcess(threads).map(square_tasks(parts), parts)
            made.append(contents(parts))
    assert made[0] == made[1] == made[2] == made[3]


@pytest.mark.parametrize("threads", [1, 2])
def test_finished_parts_are_not_computed_again(tmp_path, threads):
    parts, log = StoredParts(tmp_path / "stage"), tmp_path / "log"
    log.mkdir()
    InProcess(threads).map(square_tasks(parts, log=log), parts)
    before = contents(parts)
    (tmp_path / "stage" / "receipts" / "000003.json").unlink()
    receipts = InProcess(threads).map(square_tasks(parts, log=log), parts)
    runs = {file.stem: len(file.read_text().split()) for file in log.iterdir()}
    assert runs == {"0": 1, "4": 1, "8": 1, "12": 2, "16": 1}
    assert [receipt["first"] for receipt in receipts] == [0, 4, 8, 12, 16]
    assert contents(parts) == before


@pytest.mark.parametrize("threads", [1, 2])
def test_a_failing_task_stops_the_stage_and_keeps_what_is_done(threads):
    parts = MemoryParts()
    tasks = square_tasks(parts)
    with pytest.raises(ValueError, match="this block cannot be read"):
        InProcess(threads).map([*tasks[:2], FailingTask(), *tasks[3:]], parts)
    assert 2 not in parts.receipts(200)
    if threads == 1:
        assert set(parts.receipts(200)) == {0, 1}
    InProcess(threads).map(tasks, parts)
    assert_array_equal(parts.rows("squares").read_all(), X**2)


def test_no_tasks():
    assert InProcess(2).map([], MemoryParts()) == []


@pytest.mark.cluster
def test_a_cluster_writes_the_same_parts(tmp_path, cluster_client):
    execution = OnDask(cluster_client)
    there, here = StoredParts(tmp_path / "there"), MemoryParts()
    receipts = execution.map(square_tasks(there), there)
    InProcess(1).map(square_tasks(here), here)
    assert contents(there) == contents(here)
    assert [receipt["first"] for receipt in receipts] == [0, 4, 8, 12, 16]
    assert os.getpid() not in {receipt["process"] for receipt in receipts}
    verify_parts(there)


@pytest.mark.cluster
def test_work_beside_the_tasks_of_workers_begins_at_once(cluster_client):
    begun = threading.Event()
    result = OnDask(cluster_client).concurrently(lambda: begun.set() or 3)
    assert begun.wait(10)
    assert result() == result() == 3
    with pytest.raises(ZeroDivisionError):
        OnDask(cluster_client).concurrently(lambda: 1 // 0)()


@pytest.mark.cluster
def test_what_work_beside_tasks_writes_and_removes_is_done_when_its_result_is_there(cluster_client, tmp_path):
    done = []

    def slowly(name):
        time.sleep(0.3)
        done.append(name)

    def work():
        write_behind(tmp_path / "file", partial(slowly, "written"))
        remove_behind(tmp_path / "folder", partial(slowly, "removed"))
        return 3

    assert OnDask(cluster_client).concurrently(work)() == 3
    assert sorted(done) == ["removed", "written"]
    with pytest.raises(ZeroDivisionError):
        OnDask(cluster_client).concurrently(lambda: remove_behind(tmp_path / "folder", lambda: 1 // 0))()


@pytest.mark.cluster
def test_work_may_run_tasks_beside_those_of_its_caller(cluster_client):
    """Both maps share the workers, the counter and the measured peaks."""
    execution, message, here = OnDask(cluster_client), [], threading.get_ident()
    execution.counter = TaskCount(lambda done, of: message.append((done, of, threading.get_ident())), expected=0)
    execution.largest_task_bytes = None
    places = [execution.scratch() for _ in range(2)]
    with execution.stopping_works():
        result = execution.concurrently(lambda: execution.map(square_tasks(places[0], seconds=0.1), places[0]))
        receipts = execution.map(square_tasks(places[1], seconds=0.1), places[1])
        others = result()
    assert contents(places[0]) == contents(places[1])
    assert [receipt["first"] for receipt in others] == [receipt["first"] for receipt in receipts] == [0, 4, 8, 12, 16]
    assert message[-1][:2] == (10, 10)
    assert {thread == here for _, _, thread in message} == {True, False}
    assert execution.largest_task_bytes is not None


@pytest.mark.cluster
@pytest.mark.parametrize("per_map", [1, 200])
def test_work_whose_computation_has_ended_runs_no_more_tasks(cluster_client, tmp_path, per_map):
    """In one long map, or in many short ones; nor does it count them for the stage that follows."""
    execution, place, message = OnDask(cluster_client), StoredParts(tmp_path / "there"), []
    place.allocate("squares", (200, 3), float, 1)
    execution.counter = TaskCount(lambda *counts: message.append(counts), 0)
    rows, results, ended = ArrayRows(np.ones((200, 3))), [], threading.Event()

    def work():
        try:
            for first in range(0, 200, per_map):
                execution.map([SquareTask(rows, start, start + 1, seconds=0.1) for start in range(first + per_map)],
                              place)
        finally:
            ended.set()

    def fails():
        with execution.stopping_works():
            results.append(execution.concurrently(work))
            while not place.receipts(200):
                time.sleep(0.05)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    counted = len(message)
    assert ended.wait(30)
    with pytest.raises(CancelledError, match="has ended"):
        results[0]()
    assert len(message) <= counted + 1
    assert len(place.receipts(200)) < 100


@pytest.mark.cluster
def test_a_computation_within_another_ends_only_its_own_works(cluster_client):
    execution = OnDask(cluster_client)
    place = execution.scratch()
    with execution.stopping_works():
        result = execution.concurrently(lambda: execution.map(square_tasks(place, seconds=0.2), place))
        with execution.stopping_works():
            pass
        assert len(result()) == 5


@pytest.mark.cluster
def test_what_a_work_used_goes_when_it_has_ended(cluster_client):
    """The execution and its scratch folder, too, which the work's function refers to."""
    execution = OnDask(cluster_client)
    folder = Path(execution.scratch().folder).parent
    assert execution.concurrently(partial(lambda used: used.tasks_at_once, execution))() == 2
    del execution
    deadline = time.monotonic() + 30
    while folder.exists() and time.monotonic() < deadline:
        gc.collect()
        time.sleep(0.05)
    assert not folder.exists()


def test_work_beside_tasks_of_this_process_waits_until_it_is_needed_and_runs_once():
    calls = []
    result = InProcess(1).concurrently(lambda: calls.append(1) or 3)
    assert not calls
    assert result() == result() == 3
    assert calls == [1]


@pytest.mark.cluster
def test_workers_are_copies_of_a_process_that_has_imported_what_they_run(cluster_client):
    assert all(cluster_client.run(lambda: "dssl.pipeline.run" in sys.modules).values())


@pytest.mark.cluster
def test_a_task_that_runs_alone_may_use_the_threads_of_all_workers_of_its_machine(cluster_client):
    assert OnDask(cluster_client).threads_alone == 2
    assert OnDask(cluster_client).tasks_per_process == 1
    assert InProcess(3).threads_alone == 3
    assert not on_one_machine({"tcp://10.0.0.1:1": {"host": "10.0.0.1"}, "tcp://127.0.0.1:1": {"host": "127.0.0.1"}})


@pytest.mark.cluster
def test_a_failure_on_a_cluster_reaches_the_caller(tmp_path, cluster_client):
    execution = OnDask(cluster_client)
    with pytest.raises(ValueError, match="this block cannot be read"):
        execution.map([FailingTask()], StoredParts(tmp_path / "there"))


@pytest.fixture(scope="module")
def lone_client():
    """A client of two worker processes that a test may end."""
    with local_cluster(2) as client:
        yield client


@pytest.mark.cluster
def test_a_worker_that_is_killed_costs_nothing_but_time(tmp_path, lone_client):
    """One of two worker processes gets SIGKILL while tasks run."""
    log = tmp_path / "log"
    log.mkdir()
    parts, expected = StoredParts(tmp_path / "there"), MemoryParts()
    tasks = square_tasks(parts, log=log, seconds=0.5)
    pids = set(lone_client.run(os.getpid).values())
    killed = []

    def kill():
        while not (begun := [text for file in log.glob("*.log") if (text := file.read_text())]):
            time.sleep(0.01)
        victim = int(begun[0].split()[0])
        os.kill(victim, signal.SIGKILL)
        killed.append(victim)

    killer = threading.Thread(target=kill)
    killer.start()
    receipts = OnDask(lone_client).map(tasks, parts)
    killer.join()
    assert killed[0] in pids
    assert sum(len(file.read_text().split()) for file in log.iterdir()) > 5  # something ran twice
    InProcess(1).map(square_tasks(expected), expected)
    assert contents(parts) == contents(expected)
    assert [receipt["first"] for receipt in receipts] == [0, 4, 8, 12, 16]
    verify_parts(parts)


@dataclass(frozen=True)
class HomeTask:
    """Say in the receipt where it ran."""

    home: int

    def __call__(self, out):
        time.sleep(0.02)
        return {"home": self.home}


@pytest.mark.cluster
def test_tasks_with_a_home_go_to_the_same_worker_every_time(tmp_path, cluster_client):
    """Whatever else is under way, and however many more homes than workers there are."""
    execution, places = OnDask(cluster_client), set()
    for stage in range(3):
        tasks = [HomeTask(home) for home in (0, 1, 2, 3, 0, 0, 4, 0)]
        for receipt in execution.map(tasks[stage:], StoredParts(tmp_path / str(stage))):
            places.add((receipt["home"], receipt["process"]))
    assert sorted(home for home, _ in places) == [0, 1, 2, 3, 4], "one process a home"
    assert len({process for _, process in places}) == 2
    at = dict(places)
    assert at[0] == at[2] == at[4] != at[1] == at[3]


@pytest.mark.cluster
def test_a_home_that_is_lost_is_found_elsewhere(tmp_path, lone_client):
    """One worker ends, and no other comes in its place."""
    lone_client.wait_for_workers(2)  # the one that was killed above comes again
    execution = OnDask(lone_client)
    tasks = [HomeTask(home) for home in (0, 1, 0, 1)]
    before = execution.map(tasks, StoredParts(tmp_path / "before"))
    lone_client.retire_workers([max(lone_client.nthreads())], close_workers=True)
    after = execution.map(tasks, StoredParts(tmp_path / "after"))
    assert len({receipt["process"] for receipt in before}) == 2
    assert {receipt["process"] for receipt in after} == {before[0]["process"]}


@dataclass(frozen=True)
class SumTask:
    """Write the sum and the number of some rows."""

    rows: Rows
    start: int
    stop: int

    def __call__(self, out):
        block = self.rows.read(self.start, self.stop)
        return out.write(total=block.sum(axis=0), count=np.array(len(block)))


NOISE = ArrayRows(np.random.default_rng(3).normal(size=(42, 5)))
SUM_TASKS = [SumTask(NOISE, start, stop) for start, stop in row_ranges(42, 4)]


def tree_sum(shares, fan_in):
    """Return the sum in the order that `Reduction` promises."""
    while len(shares) > 1:
        shares = [sum(shares[i + 1:i + fan_in], shares[i]) for i in range(0, len(shares), fan_in)]
    return shares[0]


@in_pairs({"budget": [1 << 30, 1], "stored": [False, True], "fan_in": [2, 3, 8, 100]})
def test_a_reduction_combines_in_the_order_of_the_tasks(tmp_path, budget, stored, fan_in):
    parts = StoredParts(tmp_path) if stored else MemoryParts()
    total = InProcess(2, budget).reduce(sums(SUM_TASKS, fan_in), parts)
    blocks = [NOISE.read(task.start, task.stop).sum(axis=0) for task in SUM_TASKS]
    assert_array_equal(total["total"], tree_sum(blocks, fan_in))
    assert int(total["count"]) == 42
    assert [parts.read(i)["total"].tolist() for i in range(len(blocks))] == [block.tolist() for block in blocks]


def test_a_group_is_combined_as_soon_as_its_shares_are_there(monkeypatch):
    """In one thread the order tells: three shares, what combines them, the next three."""
    ran, run_part = [], in_process.run_part

    def noted(task, parts, index):
        ran.append(type(task).__name__[0])
        return run_part(task, parts, index)

    monkeypatch.setattr(in_process, "run_part", noted)
    InProcess(1, 1).reduce(sums(SUM_TASKS, 3))
    assert "".join(ran) == "SSSC" * 3 + "C" + "SSC" + "CC"  # of 11, 4, 2 and 1 shares


@given(st.integers(1, 40), st.integers(2, 9), st.data())
def test_neither_the_order_of_the_tasks_nor_what_is_there_changes_a_sum(count, fan_in, data):
    tasks = [SumTask(NOISE, start, start + 2) for start in range(count)]
    order = data.draw(st.permutations(range(count)))
    there = data.draw(st.sets(st.integers(0, count - 1)))
    parts = MemoryParts()
    for index in there:
        run_part(tasks[index], parts, index)

    class InOrder(InProcess):
        def _run(self, pending, done):
            ranks = {index: rank for rank, index in enumerate(order)}
            super()._run(sorted(pending, key=lambda placed: (placed.parts is not parts, ranks[placed.index])), done)

    total = InOrder(1, 1).reduce(sums(tasks, fan_in), parts)
    assert_array_equal(total["total"], tree_sum([NOISE.read(i, i + 2).sum(axis=0) for i in range(count)], fan_in))
    assert len(parts.receipts(count)) == count


def test_a_reduction_uses_the_shares_that_are_there(tmp_path):
    parts, execution = StoredParts(tmp_path), InProcess(1)
    first = execution.reduce(sums(SUM_TASKS), parts)
    again = execution.reduce(sums([FailingTask()] * len(SUM_TASKS)), parts)
    assert_array_equal(again["total"], first["total"])


def test_the_finish_step_makes_what_is_sought_of_all_shares():
    mean = Reduction(SUM_TASKS, add, lambda share: share["total"] / share["count"])
    assert_allclose(InProcess(2).reduce(mean), NOISE.read_all().mean(axis=0), rtol=1e-12)
    assert_array_equal(InProcess(1).reduce(sums(SUM_TASKS[:1]))["total"], NOISE.read(0, 4).sum(axis=0))
    with pytest.raises(ParameterError, match="a reduction of no tasks"):
        InProcess(1).reduce(sums([]))


@dataclass(frozen=True)
class SlowFirst(SumTask):
    """The first task ends last, from whose share it follows whether tasks combine the level."""

    def __call__(self, out):
        time.sleep(0.5 if self.start == 0 else 0.0)
        return super().__call__(out)


@pytest.mark.cluster
@pytest.mark.parametrize("budget", [1 << 30, 1])
def test_a_first_share_that_is_the_last_changes_nothing(cluster_client, budget):
    tasks = [SlowFirst(task.rows, task.start, task.stop) for task in SUM_TASKS]
    there = OnDask(cluster_client, budget).reduce(sums(tasks, 3))
    assert_array_equal(there["total"], InProcess(1).reduce(sums(SUM_TASKS, 3))["total"])


@pytest.mark.cluster
@pytest.mark.parametrize("budget", [1 << 30, 1])
def test_a_cluster_reduces_to_the_same(cluster_client, budget):
    here = InProcess(1).reduce(sums(SUM_TASKS, 3))
    there = OnDask(cluster_client, budget).reduce(sums(SUM_TASKS, 3))
    assert_array_equal(there["total"], here["total"])


def test_tasks_of_one_map_after_the_other_are_counted():
    execution, message = InProcess(1), []
    execution.counter = TaskCount(lambda done, of: message.append((done, of)), expected=8)
    parts = MemoryParts()
    execution.map(square_tasks(parts), parts)
    execution.map(square_tasks(parts), parts)  # done already
    assert message == [(done, 8) for done in range(6)] + [(10, 10)]


def test_threads_are_found_without_loading_dask():
    code = ("import sys; from dssl.execution.current import current_execution; "
            "print(type(current_execution()).__name__, 'distributed' in sys.modules)")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["InProcess", "False"]


def blas_threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_until_the_last_of_several_contexts_ends():
    """Threads of a process share the limit, whichever of them ends first."""
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        first, second = one_thread(), one_thread()
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert blas_threads() == {1}
        with one_thread():
            assert blas_threads() == {1}
        assert blas_threads() == {1}
        second.__exit__(None, None, None)
        assert blas_threads() == before


def test_blas_gets_its_threads_back_from_whichever_thread_leaves_last():
    with threadpool_limits(2):
        before, inside, outside = blas_threads(), threading.Event(), threading.Event()

        def work():
            with one_thread():
                inside.set()
                outside.wait(10)

        with one_thread():
            thread = threading.Thread(target=work)
            thread.start()
            inside.wait(10)
        outside.set()
        thread.join()
        assert blas_threads() == before
        with one_thread():
            assert set(blas_threads()) == {1}


def test_blas_gets_its_threads_back_after_an_error():
    with threadpool_limits(2, "blas"):
        before = blas_threads()
        with pytest.raises(ValueError, match="within"), one_thread():
            raise ValueError("within")
        assert blas_threads() == before


@pytest.mark.cluster
def test_tasks_of_another_budget_write_to_places_of_their_own(cluster_client):
    execution = OnDask(cluster_client)
    execution.scratch()
    item = execution.within(1 << 20)
    places = [each.scratch() for each in (item, execution, item)]
    for number, place in enumerate(places):
        place.write(0, {"number": np.array([number])})
    assert [place.read(0)["number"].tolist() for place in places] == [[0], [1], [2]]

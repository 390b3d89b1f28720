"""Where tasks run: threads of this process, or the workers of a Dask client.

A task is a small picklable callable: it is given the writer of its own part, reads its block, calls a block
function, writes the part, and returns a receipt. Both executions skip parts that are already complete, so a
stage that was killed repeats only what is missing, and both give the same parts.
"""

import os
import shutil
import time
import weakref
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from tempfile import mkdtemp
from typing import Any, Protocol

import dask
import numba
import numpy as np
from distributed import Client, KilledWorker, as_completed, get_client, get_worker
from distributed.comm import CommClosedError
from threadpoolctl import threadpool_limits

from ..errors import ClusterError, TaskFailed, explain
from ..measure import PeakMemory, process_peak
from ..params import digest
from ..storage.blocks import ArrayRows, Arrays, CsrRows, MemoryParts, Parts, PartWriter, Receipt, Rows, row_ranges
from ..storage.csr import BlockedCsrRows, csr_arrays
from ..storage.store import StoredParts

SHARED_CHUNK = 16 << 20  # bytes of rows in one chunk when an array of the driver is shared with workers

MEMORY_BUDGET = 1 << 30  # bytes a task may take unless told otherwise; equal everywhere, so that blocks and bits are

Progress = Callable[[int, int], None]  # (tasks done, tasks in all)


class Task(Protocol):
    """What an execution runs: reads a block, writes its own part, returns a receipt of JSON values.

    A task that has a `home`, a whole number, runs on the same worker as others with that number, as long as it lives.
    """

    def __call__(self, out: PartWriter) -> Receipt: ...


class Execution(ABC):
    """Runs the tasks of a stage."""

    memory_budget: int  # bytes that one task may take
    scratch_folder: str | None = None  # where parts that are not kept go, if they have to be stored
    memory_limit: int | None = None  # bytes above which a task's process is ended, per task; None where there is none
    tasks_per_process: int = 1  # that run side by side
    largest_task_bytes: int | None = None  # measured, of all tasks since it was last set to None

    @abstractmethod
    def scratch(self) -> Parts:
        """Return a place for parts that only this computation needs."""

    def share(self, **arrays: np.ndarray) -> Arrays:
        """Return named arrays in a form that every task can load without carrying them."""
        parts = self.scratch()
        parts.write(0, arrays)
        return parts.arrays(0)

    def share_rows(self, rows: Rows) -> Rows:
        """Return rows in a form that every task can read without carrying them."""
        return rows

    def ask_workers(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        """Return the answer of every other process that runs tasks, by its address."""
        return {}

    @abstractmethod
    def _run(self, pending: list[tuple[int, Task]], parts: Parts, done: Callable[[int, Receipt], None]) -> None:
        """Run the tasks, each with its number, and report each receipt as it arrives."""

    def map(self, tasks: Sequence[Task], parts: Parts, progress: Progress | None = None) -> list[Receipt]:
        """Run task i into part i unless that part is complete; return all receipts in the order of the tasks."""
        receipts = {index: receipt for index, receipt in parts.receipts().items() if index < len(tasks)}
        pending = [(index, task) for index, task in enumerate(tasks) if index not in receipts]
        if progress:
            progress(len(receipts), len(tasks))

        def done(index: int, receipt: Receipt) -> None:
            receipts[index] = receipt
            if progress:
                progress(len(receipts), len(tasks))

        self._run(pending, parts, done)
        peaks = [self.largest_task_bytes, *(receipt.get("task_peak_bytes") for receipt in receipts.values())]
        self.largest_task_bytes = max((peak for peak in peaks if peak is not None), default=None)
        return [receipts[index] for index in range(len(tasks))]


def share_sparse(rows: Rows, parts: Parts, block_rows: int) -> BlockedCsrRows:
    """Write sparse rows to `parts`, a part for every `block_rows` of them, and return them as they lie there."""
    entries = 0
    for number, (start, stop) in enumerate(row_ranges(len(rows), block_rows)):
        arrays = csr_arrays(rows.read(start, stop))
        parts.write(number, arrays)
        entries += len(arrays["data"])
    return BlockedCsrRows(parts, (rows.shape[0], rows.shape[1]), rows.dtype, block_rows, entries)


def run_part(task: Task, parts: Parts, index: int) -> Receipt:
    """Run one task into its part and record the receipt with seconds and peak memory (bytes).

    `task_peak_bytes` is how far the process grew during the task, None where that cannot be measured; it is the task's
    own where no other runs in the process. `peak_rss_bytes` is the most that the process has ever held.
    """
    begin = time.perf_counter()
    with PeakMemory() as peak:
        receipt = dict(task(PartWriter(parts, index)) or {})
    receipt["task_peak_bytes"] = peak.bytes
    receipt["seconds"] = round(time.perf_counter() - begin, 6)
    receipt["peak_rss_bytes"] = process_peak()
    receipt["process"] = os.getpid()
    parts.finish(index, receipt)
    return receipt


def one_thread() -> Any:
    """Return a context in which this process computes as a task does: BLAS on one core, so that bits are equal."""
    return threadpool_limits(1)


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0))


class InProcess(Execution):
    """Runs tasks in threads of this process, one core each."""

    def __init__(self, threads: int | None = None, memory_budget: int = MEMORY_BUDGET):
        self.threads = self.tasks_per_process = threads or available_cores()
        self.memory_budget = memory_budget

    def scratch(self) -> Parts:
        return MemoryParts()

    def _run(self, pending: list[tuple[int, Task]], parts: Parts, done: Callable[[int, Receipt], None]) -> None:
        # One core a task, for a lone one too: BLAS rounds differently on two threads than on one, and a spec gives the
        # same bits in threads, in workers and on any number of cores.
        threads = min(self.threads, len(pending))
        with threadpool_limits(1):
            if threads <= 1:
                for index, task in pending:
                    done(index, run_part(task, parts, index))
                return
            queue = iter(pending)
            with ThreadPoolExecutor(threads) as pool:
                running = {pool.submit(run_part, task, parts, index): index
                           for index, task in (next(queue) for _ in range(threads))}
                try:
                    while running:
                        for future in wait(running, return_when=FIRST_COMPLETED).done:
                            done(running.pop(future), future.result())
                            for index, task in queue:
                                running[pool.submit(run_part, task, parts, index)] = index
                                break
                finally:
                    for future in running:
                        future.cancel()


_LIMITED = False


def run_on_worker(task: Task, parts: Parts, index: int) -> Receipt:
    """Run one task in a worker that has one core for it, whatever started the worker."""
    global _LIMITED
    if not _LIMITED:  # Dask's nanny limits BLAS and OpenMP but neither Numba nor workers started without a nanny
        threadpool_limits(1)
        numba.set_num_threads(1)
        _LIMITED = True
    return run_part(task, parts, index)


class OnDask(Execution):
    """Runs tasks on the workers of a Dask client; parts go through storage that every worker can open."""

    def __init__(self, client: Client, memory_budget: int | None = None):
        self.client = client
        self.memory_limit = self._share_of_a_worker()
        # Half of it unless told otherwise, since NumPy cannot spill.
        self.memory_budget = memory_budget or min(MEMORY_BUDGET, (self.memory_limit or 2 * MEMORY_BUDGET) // 2)
        self.tasks_per_process = max(client.nthreads().values(), default=1)
        self._folder: str | None = None
        self._scratches = 0

    def _share_of_a_worker(self) -> int | None:
        """Return the bytes of a task's share of the smallest worker, or None if no worker has a limit."""
        workers = self.client.scheduler_info(n_workers=-1)["workers"].values()
        shares = [worker["memory_limit"] // worker["nthreads"] for worker in workers if worker["memory_limit"]]
        return min(shares, default=None)

    def ask_workers(self, question: Callable[..., Any], *arguments: Any) -> dict[str, Any]:
        return self.client.run(question, *arguments)

    def scratch(self) -> Parts:
        """Return parts in a folder that lives as long as this execution.

        The folder is made in `scratch_folder`, in Dask's `temporary-directory`, or in the system's; every worker must
        be able to open it. A pipeline's run sets `scratch_folder` to a folder of its workspace.
        """
        if self._folder is None:
            place = self.scratch_folder or dask.config.get("temporary-directory", None)
            self._folder = mkdtemp(prefix="dssl-", dir=place)
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        self._scratches += 1
        return StoredParts(f"{self._folder}/{self._scratches}")

    def share_rows(self, rows: Rows) -> Rows:
        held = isinstance(rows, BlockedCsrRows) and isinstance(rows.parts, MemoryParts)
        if not isinstance(rows, (ArrayRows, CsrRows)) and not held:
            return rows
        height = max(1, SHARED_CHUNK // rows.row_bytes)
        parts = self.scratch()
        if rows.is_sparse:
            return share_sparse(rows, parts, height)
        parts.allocate("rows", rows.shape, rows.dtype, height)
        for start, stop in row_ranges(len(rows), height):
            parts.write_rows(start, {"rows": rows.read(start, stop)})
        return parts.rows("rows")

    def _run(self, pending: list[tuple[int, Task]], parts: Parts, done: Callable[[int, Receipt], None]) -> None:
        if not pending:
            return
        stage = digest({"parts": repr(parts), "at": time.time_ns()})[:12]
        queue, homes = iter(pending), sorted(self.client.nthreads())

        def submit(item: tuple[int, Task]) -> Any:
            index, task = item
            home = getattr(task, "home", None)
            place = {} if home is None or not homes else {
                "workers": [homes[home % len(homes)]], "allow_other_workers": True}
            # No retries: an exception would come again. A task whose worker died is run again by the scheduler.
            future = self.client.submit(run_on_worker, task, parts, index, pure=False,
                                        key=f"{type(task).__name__}-{stage}-{index}", **place)
            running[future] = index
            return future

        running: dict[Any, int] = {}
        # A window keeps the scheduler small: work on row blocks is never submitted all at once.
        try:
            window = 3 * max(1, sum(self.client.nthreads().values()))
            futures = as_completed([submit(item) for _, item in zip(range(window), queue, strict=False)],
                                   loop=self.client.loop)  # the client need not be the active one
            for future in futures:
                done(running.pop(future), future.result())
                for item in queue:
                    futures.add(submit(item))
                    break
        except KilledWorker as error:
            raise TaskFailed(explain(
                f"task {error.task} ended {error.last_worker.address} and every worker that tried it",
                why="a task that ends its worker again and again most often needs more memory than the worker has",
                fix="give workers more memory, or lower memory_budget so that blocks get smaller, then run again: "
                    "finished parts are kept",
            )) from error
        except BaseException as error:
            lost = isinstance(error, CommClosedError) or type(error).__name__ == "FutureCancelledError"
            if lost or self.client.status != "running":
                raise ClusterError(explain(
                    f"the scheduler at {self.client.scheduler.addr if self.client.scheduler else '?'} was lost",
                    why="tasks that were under way have no one to report to",
                    fix="start the cluster again and repeat the command: finished parts are kept",
                )) from error
            self.client.cancel(list(running))
            raise


def current_execution(memory_budget: int | None = None) -> Execution:
    """Return the execution on the active Dask client, if there is one, or else on the threads of this process."""
    try:
        get_worker()
        return InProcess(1, memory_budget or MEMORY_BUDGET)  # a task that waits for other tasks can wait forever
    except ValueError:  # this is not a Dask task
        pass
    try:
        return OnDask(get_client(), memory_budget)
    except ValueError:  # no client is active
        return InProcess(memory_budget=memory_budget or MEMORY_BUDGET)

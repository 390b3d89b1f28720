"""Tasks in threads of this process.

A window of running tasks, and a wait for them in which an interrupt breaks no lock, serve a Dask client too.
"""

import signal
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Self

from ..base.errors import raise_preempted, raise_terminated
from ..base.units import MEMORY_BUDGET
from ..storage.blocks import MemoryParts, Parts, Receipt
from ..storage.cache import limit_caches
from ..storage.write_behind import settle
from .tasks import Execution, Task, available_cores, one_thread, run_part

LOOK_EVERY = 1.0  # seconds between two checks whether tasks may and can continue
# The handlers that raise KeyboardInterrupt; the command line installs the latter two.
RAISED_BY: dict[int, Callable[[int, FrameType | None], Any]] = {
    signal.SIGINT: signal.default_int_handler, signal.SIGTERM: raise_terminated, signal.SIGUSR1: raise_preempted}


class Looks:
    """Calls a function at most every so many `seconds`."""

    def __init__(self, look: Callable[[], None], seconds: float = LOOK_EVERY):
        self._look = look
        self.seconds = seconds
        self._next = time.monotonic() + seconds

    def take(self) -> None:
        """Call the function unless that was less than `seconds` ago."""
        if time.monotonic() >= self._next:
            self._look()
            self._next = time.monotonic() + self.seconds


class Finished:
    """A queue on which one thread waits for the results of others; while it is open, `get` raises KeyboardInterrupt.

    Python raises KeyboardInterrupt between any two instructions of the main thread, even within
    `threading.Condition.wait`, between releasing a lock and acquiring it again. Another thread then fails with "release
    unlocked lock" or waits forever. So the first SIGINT only wakes `get`; a second one is raised wherever the main
    thread is. SIGTERM and SIGUSR1 are treated the same way if they raise `Terminated` and `Preempted`.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()  # written in C, so a signal handler may call its `put`
        self._interrupted_by: int | None = None
        self._deferred: list[int] = []

    def __enter__(self) -> Self:
        # Only the main thread has handlers; handlers of other libraries stay in place.
        if threading.current_thread() is threading.main_thread():
            self._deferred = [number for number, handler in RAISED_BY.items() if signal.getsignal(number) is handler]
        for number in self._deferred:
            signal.signal(number, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self._defer_no_more()
        if kind is None:
            self.heed()

    def _defer_no_more(self) -> None:
        for number in self._deferred:
            signal.signal(number, RAISED_BY[number])

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._defer_no_more()
        self._interrupted_by = number
        self._queue.put(None)

    def put(self, item: Any) -> None:
        """Add a finished item; callable from any thread."""
        self._queue.put(item)

    def get(self, seconds: float | None = None) -> Any:
        """Return the first finished item, None after `seconds`; raise KeyboardInterrupt if a signal has arrived."""
        item = None
        if self._interrupted_by is None:
            with suppress(Empty):
                item = self._queue.get(timeout=seconds)
        self.heed()
        return item

    def heed(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived."""
        if self._interrupted_by is not None:
            RAISED_BY[self._interrupted_by](self._interrupted_by, None)


def run_in_window(pending: list[tuple[int, Task]], size: int, submit: Callable[[int, Task], Any],
                  done: Callable[[int, Receipt], None], running: dict[Any, int], finished: Finished,
                  look: Callable[[], None], stored: Callable[[Any, int], Receipt | None] | None = None,
                  look_every: float = LOOK_EVERY) -> None:
    """Keep `size` tasks submitted until all are done, and report each receipt as it arrives.

    submit : returns a future with `add_done_callback`. running : the submitted futures with their task numbers, which
    the caller cancels if an error is raised. finished : receives finished futures. look : called about every
    `look_every` seconds; raises to stop. stored : returns the receipt of a finished future if it can be read without
    the future's worker.
    """
    queue = iter(pending)
    looks = Looks(look, look_every)

    def start(count: int) -> None:
        for index, task in islice(queue, count):
            future = submit(index, task)
            running[future] = index
            future.add_done_callback(finished.put)

    start(size)
    while running:
        future = finished.get(looks.seconds)
        looks.take()
        if future is not None:
            receipt = stored(future, running[future]) if stored else None
            if receipt is None:
                receipt = _result(future, finished, looks)
            done(running.pop(future), receipt)
            start(1)


def _result(future: Any, finished: Finished, looks: Looks) -> Receipt:
    """Return the result of a future; waits again if the worker died before it could send the result."""
    while True:
        try:
            return future.result(timeout=looks.seconds)
        except TimeoutError:
            if getattr(future, "status", "error") == "error":  # the task's own
                raise
        finished.heed()
        looks.take()


class InProcess(Execution):
    """Runs tasks in threads of this process, on one core each."""

    def __init__(self, threads: int | None = None, memory_budget: int = MEMORY_BUDGET):
        self.threads = threads or available_cores()
        self.tasks_per_process = self.tasks_at_once = self.threads_alone = self.threads
        self.memory_budget = memory_budget

    @property
    def in_words(self) -> str:
        """Return where tasks run."""
        return f"{self.threads} threads of this process"

    def scratch(self) -> Parts:
        return MemoryParts()

    def _run(self, pending: list[tuple[int, Task]], parts: Parts, done: Callable[[int, Receipt], None]) -> None:
        # One core per task, even for a single task: BLAS rounds differently on two threads than on one, and a spec
        # gives the same bits in threads, in workers and on any number of cores.
        threads = min(self.threads, len(pending))
        limit_caches(self.memory_budget)
        with one_thread():
            if threads <= 1:
                looks = Looks(self.allowed)
                for index, task in pending:
                    looks.take()
                    done(index, run_part(task, parts, index))
                return
            running: dict[Any, int] = {}
            with ThreadPoolExecutor(threads) as pool, Finished() as finished:
                try:
                    run_in_window(pending, threads, lambda index, task: pool.submit(run_part, task, parts, index), done,
                                  running, finished, self.allowed)
                finally:
                    for future in running:
                        future.cancel()

    def map_delayed(self, blocks: Sequence[Any], task: Callable[[Any], Task], parts: Parts) -> list[Receipt]:
        import dask  # takes a tenth of a second, needed for collections only

        settle()
        with one_thread():
            return list(dask.compute(*delayed_parts(run_part, blocks, task, parts), scheduler="threads",
                                     num_workers=self.threads))


def delayed_parts(run: Callable[[Task, Parts, int], Receipt], blocks: Sequence[Any], task: Callable[[Any], Task],
                  parts: Parts) -> list[Any]:
    """Return the delayed receipt of `run(task(block), parts, i)` for each delayed block i."""
    from dask import delayed

    def write(block: Any, index: int) -> Receipt:
        return run(task(block), parts, index)

    return [delayed(write, pure=False)(block, index) for index, block in enumerate(blocks)]

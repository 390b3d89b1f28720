"""Tasks, reductions of them, and what runs them: threads of this process, or the workers of a Dask client.

A task is a small picklable callable: it is given the writer of its own part, reads its block, calls a block
function, writes the part, and returns a receipt. Every execution skips parts that are already complete, so a
stage that was killed repeats only what is missing, and all give the same parts.
"""

import os
import sys
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
from threadpoolctl import ThreadpoolController

from ..base.digest import plain
from ..base.errors import require
from ..base.profiler import PeakMemory, process_peak
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges
from ..storage.ledger import journal
from ..storage.write_behind import settle
from .cost import WorkerRoom
from .worker_kinds import this_processor

SHARED_CHUNK = 16 << 20  # bytes of rows in one chunk when an array of the driver is shared with workers
FAN_IN = 8  # shares of a reduction that are combined at a time

Progress = Callable[[int, int], None]  # (tasks done, tasks in all)
Share = dict[str, np.ndarray]  # what one task of a reduction found: the named arrays of its part
Found = TypeVar("Found")


class Task(Protocol):
    """What an execution runs: reads a block, writes its own part, returns a receipt of JSON values.

    A task that has a `home`, a whole number, runs on the same worker as others with that number, as long as it lives.
    """

    def __call__(self, out: PartWriter) -> Receipt: ...


@dataclass(frozen=True)
class Reduction(Generic[Found]):
    """A block step, a combine step and a finish step, run by `Execution.reduce`.

    tasks : one or more; each writes its share as the named arrays of its own part.
    combine : returns what two shares are together, the second of blocks that come after those of the first; it may
        write to the first. A plain function, since tasks carry it.
    finish : returns what is sought from the share of all blocks.
    fan_in : so many shares in a row are combined, then so many of these, and so on: the result depends on it to the
        last digit, and never on which task was ready first, nor where it ran.
    """

    tasks: Sequence[Task]
    combine: Callable[[Share, Share], Share]
    finish: Callable[[Share], Found]
    fan_in: int = FAN_IN


def add(total: Share, share: Share) -> Share:
    """Add the arrays of a share to those of the same names; the combine step of sums."""
    for name, array in share.items():
        total[name] += array
    return total


def sums(tasks: Sequence[Task], fan_in: int = FAN_IN) -> Reduction[Share]:
    """Return the reduction that adds up the arrays of all parts by name."""
    return Reduction(tasks, add, lambda total: total, fan_in)


def combined(shares: Iterable[Share], combine: Callable[[Share, Share], Share]) -> Share:
    """Return shares combined from the first to the last, which are read one at a time and stay as they are."""
    following = iter(shares)
    total = {name: np.array(array) for name, array in next(following).items()}
    for share in following:
        total = combine(total, share)
    return total


@dataclass(frozen=True)
class CombineTask:
    """Combine the shares [first, last) of a reduction."""

    parts: Parts
    first: int
    last: int
    combine: Callable[[Share, Share], Share]

    def __call__(self, out: PartWriter) -> Receipt:
        return out.write(**combined((self.parts.read(index) for index in range(self.first, self.last)), self.combine))


class TaskCount:
    """Counts tasks of one map after the other, and tells of each how many are done, of how many.

    expected : how many there will be in all, as far as is known; more where more were begun.
    """

    def __init__(self, tell: Progress, expected: int):
        self._tell = tell
        self._of = expected
        self._begun = 0
        self._done = 0

    def begin(self, count: int, done: int) -> None:
        """Note that so many tasks are begun, some of which were done before."""
        self._begun += count
        self._done += done
        self._of = max(self._of, self._begun)
        self._tell(self._done, self._of)

    def one_more(self) -> None:
        """Note that a task is done."""
        self._done += 1
        self._tell(self._done, self._of)


class Execution(ABC):
    """Runs the tasks of a stage."""

    memory_budget: int  # bytes that one task may take
    scratch_folder: str | None = None  # where parts that are not kept go, if they have to be stored
    smallest_worker: WorkerRoom | None = None  # which any task may come to; None where nobody says
    processors: Sequence[str] = ()  # the kinds that workers have, and those that parts were computed on; each once
    tasks_per_process: int = 1  # that run side by side
    tasks_at_once: int = 1  # that run side by side, in all processes
    largest_task_bytes: int | None = None  # measured, of all tasks since it was last set to None
    largest_process_bytes: int = 0  # the most that a process of one of them has held, since it was last set to 0
    counter: TaskCount | None = None  # told of all tasks
    allowed: Callable[[], None] = staticmethod(lambda: None)  # asked while tasks run; raises to end them

    @abstractmethod
    def scratch(self) -> Parts:
        """Return a place for parts that only this computation needs."""

    def within(self, memory_budget: int) -> Self:
        """Return the same execution, whose tasks may take so many bytes each."""
        narrowed = copy(self)
        narrowed.memory_budget = memory_budget
        return narrowed

    def share(self, **arrays: np.ndarray) -> Arrays:
        """Return named arrays in a form that every task can load without carrying them."""
        parts = self.scratch()
        # By rows, as they come from a store: BLAS rounds differently on an array that lies by columns.
        parts.write(0, {name: np.asarray(array, order="C") for name, array in arrays.items()})
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

    def map(self, tasks: Sequence[Task], parts: Parts) -> list[Receipt]:
        """Run task i into part i unless that part is complete; return all receipts in the order of the tasks."""
        receipts = parts.receipts(len(tasks))
        pending = [(index, task) for index, task in enumerate(tasks) if index not in receipts]
        if self.counter:
            self.counter.begin(len(tasks), len(receipts))

        def done(index: int, receipt: Receipt) -> None:
            receipts[index] = receipt
            if self.counter:
                self.counter.one_more()

        if pending:
            settle()  # what tasks read and fill is there before one of them is said to be finished
        self._run(pending, parts, done)
        peaks = [self.largest_task_bytes, *(receipt.get("task_peak_bytes") for receipt in receipts.values())]
        self.largest_task_bytes = max((peak for peak in peaks if peak is not None), default=None)
        self.largest_process_bytes = max([self.largest_process_bytes, *(
            receipt.get("peak_rss_bytes", 0) for receipt in receipts.values())])
        # Of workers that came later, too, and of those of a run before that has made some of the parts.
        kinds = {receipt["processor"] for receipt in receipts.values() if "processor" in receipt}
        self.processors = sorted(kinds.union(self.processors))
        return [receipts[index] for index in range(len(tasks))]

    @abstractmethod
    def map_delayed(self, blocks: Sequence[Any], task: Callable[[Any], Task], parts: Parts) -> list[Receipt]:
        """Run `task(block)` into part i for dask delayed block i, in the process that computes the block."""

    def reduce(self, reduction: Reduction[Found], parts: Parts | None = None) -> Found:
        """Run the tasks of a reduction, combine their shares as a tree, and finish.

        Shares that fit a sixteenth of the memory budget together are combined here; larger ones by tasks of two each.
        parts : where the shares of the tasks go; finished ones are used, and all are kept. Scratch by default.
        """
        count = len(reduction.tasks)
        combine = reduction.combine
        require(count > 0, "a reduction of no tasks", why="there is nothing to combine", fix="pass at least one block")
        level = parts or self.scratch()
        self.map(reduction.tasks, level)
        while combined_by_tasks(count, level.arrays(0).nbytes, self.memory_budget):
            groups = row_ranges(count, reduction.fan_in)
            below = level
            level = self.scratch()
            self.map([CombineTask(below, first, last, combine) for first, last in groups], level)
            if below is not parts:
                below.remove()
            count = len(groups)
        shares = [level.read(index) for index in range(count)]
        if level is not parts:
            level.remove()
        while len(shares) > 1:
            shares = [combined(shares[first:last], combine)
                      for first, last in row_ranges(len(shares), reduction.fan_in)]
        return reduction.finish(shares[0])


def combined_by_tasks(count: int, share_bytes: int, budget: int) -> bool:
    """Return whether so many shares are combined by tasks, and not where the reduction is run."""
    return count > 1 and count * share_bytes > budget // 16


def combining_tasks(count: int, share_bytes: int, budget: int, fan_in: int = FAN_IN) -> int:
    """Return the number of tasks that combine the shares of a reduction."""
    tasks = 0
    while combined_by_tasks(count, share_bytes, budget):
        count = -(-count // fan_in)
        tasks += count
    return tasks


def run_part(task: Task, parts: Parts, index: int) -> Receipt:
    """Run one task into its part and record the receipt with seconds and peak memory (bytes).

    `task_peak_bytes` is how far the process grew during the task, None where that cannot be measured; it is the task's
    own where no other runs in the process. `peak_rss_bytes` is the most that the process has ever held. `processor` is
    that which computed it.
    """
    begin = time.perf_counter()
    attempt = uuid.uuid4().hex[:12]
    with journal():
        try:
            with PeakMemory() as peak:
                # As it is read again by a resumed run.
                receipt = plain(dict(task(PartWriter(parts, index, attempt)) or {}))
        except BaseException:
            parts.discard(index, attempt)
            raise
        receipt |= {"task_peak_bytes": peak.bytes, "seconds": round(time.perf_counter() - begin, 6),
                    "peak_rss_bytes": process_peak(), "process": os.getpid(), "processor": this_processor()}
        return parts.finish(index, receipt, attempt)


def one_thread() -> Any:
    """Return a context in which this process computes as a task does: BLAS on one core, so that bits are equal."""
    return _thread_pools(len(sys.modules)).limit(limits=1)


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    """Return the thread pools of this process's libraries; looked for again, 8 ms, once a module has been imported."""
    return ThreadpoolController()


def available_cores() -> int:
    """Return the number of cores this process may use."""
    return len(os.sched_getaffinity(0))


Work = Callable[[Parts], Receipt]


class Steps:
    """Steps in the order in which they are called, which follows from what they return and from nothing else.

    Each writes to a place of its own within `parts`, whose receipts are the records: a step that has one is not run
    again, and what it wrote may be gone, removed with the step that read it last.
    """

    def __init__(self, parts: Parts, execution: Execution):
        self.parts = parts
        self.execution = execution
        self._count = 0

    def run(self, name: str, work: Work, used: Sequence[Parts] = ()) -> tuple[Parts, Receipt]:
        """Return the place of a step and what `work(place)` returned, which is JSON.

        used : places that nothing reads after this step; they are removed.
        """
        number = self._count
        self._count += 1
        place = self.parts.within(f"{number:03d}-{name}")
        receipt = self.parts.receipt_of(number)
        if receipt is None:
            receipt = self.parts.finish(number, plain(work(place)))
        elif self.execution.counter:
            self.execution.counter.begin(receipt.get("tasks", 0), receipt.get("tasks", 0))
        for parts in used:
            parts.remove()
        return place, receipt

    def map(self, name: str, tasks: Callable[[Parts], Sequence[Task]],
            summary: Callable[[list[Receipt]], Receipt] = lambda receipts: {}, used: Sequence[Parts] = ()
            ) -> tuple[Parts, Receipt]:
        """Run tasks into the place of a step; return it, and what `found` returns of their receipts."""
        def work(place: Parts) -> Receipt:
            receipts = self.execution.map(tasks(place), place)
            return {**summary(receipts), "tasks": len(receipts)}

        return self.run(name, work, used)

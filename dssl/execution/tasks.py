"""Tasks, reductions of tasks, and the executions that run them: threads of this process or a Dask client's workers.

A task is a small picklable callable: it receives the writer of its own part, reads its block, calls a block function,
writes the part, and returns a receipt. Every execution skips parts that are already complete, so a stage that was
killed repeats only what is missing. All executions produce the same parts.

A plan counts tasks instead of running them: it adds up what the tasks of a map say that they take (`BlockTasks`).
"""

import os
import time
import uuid
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass
from functools import cache
from threading import Lock
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np

from ..base.digest import plain
from ..base.errors import require
from ..base.profiler import PeakMemory, process_peak
from ..base.signals import heed_signals
from ..storage.blocks import Arrays, Parts, PartWriter, Receipt, Rows, row_ranges
from ..storage.ledger import journal
from ..storage.write_behind import settle
from .cost import Cost, WorkerRoom, block_count
from .threads import Answer
from .work import Work
from .worker_kinds import this_processor

SHARED_CHUNK = 16 << 20  # bytes of rows per chunk when the driver shares an array with workers
FAN_IN = 8  # shares of a reduction that are combined at a time

_NOTES = Lock()  # of what executions record of their tasks

Progress = Callable[[int, int], None]  # (tasks done, tasks in total)
Share = dict[str, np.ndarray]  # the result of one task of a reduction: the named arrays of its part
Result = TypeVar("Result")


class Task(Protocol):
    """A callable that an execution runs: it reads a block, writes its own part, and returns a receipt of JSON values.

    Tasks with the same integer attribute `home` run on the same worker as long as that worker lives.
    """

    def __call__(self, out: PartWriter) -> Receipt: ...


@dataclass(frozen=True)
class Placed:
    """A task, and the part that it writes."""

    task: Task
    parts: Parts
    index: int


Follow = Callable[[Placed], list[Placed]]  # returns the tasks that can begin once that one is done


@dataclass(frozen=True)
class Reduction(Generic[Result]):
    """A block step, a combine step and a finish step, run by `Execution.reduce`.

    tasks : one or more; each writes its share as the named arrays of its own part.
    combine : merges two shares, where the second comes from later blocks; it may write to the first. It must be
        picklable, since tasks carry it.
    finish : computes the result from the share of all blocks.
    fan_in : the number of consecutive shares that are combined at each level of the tree. Rounding depends on it, but
        never on which task finished first or where it ran.
    """

    tasks: Sequence[Task]
    combine: Callable[[Share, Share], Share]
    finish: Callable[[Share], Result]
    fan_in: int = FAN_IN


def add(total: Share, share: Share) -> Share:
    """Add the arrays of a share to those of the same name; the combine step of sums."""
    for name, array in share.items():
        total[name] += array
    return total


def sums(tasks: Sequence[Task], fan_in: int = FAN_IN) -> Reduction[Share]:
    """Return the reduction that adds up the arrays of all parts by name."""
    return Reduction(tasks, add, lambda total: total, fan_in)


def combined(shares: Iterable[Share], combine: Callable[[Share, Share], Share]) -> Share:
    """Combine shares from the first to the last; they are read one at a time and not modified."""
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


class Levels:
    """The shares of a reduction, which tasks combine as soon as all shares of a group are there.

    parts : of each level so far, the first of which holds the shares of the reduction's tasks; those of the last level
    are combined in this process.
    """

    def __init__(self, reduction: Reduction[Any], parts: Parts, scratch: Callable[[], Parts], budget: int):
        self.parts, self._counts = [parts], [len(reduction.tasks)]
        self._reduction, self._scratch, self._budget = reduction, scratch, budget
        self._there: list[set[int]] = [set()]

    @property
    def count(self) -> int:
        """Return the number of shares of the last level."""
        return self._counts[-1]

    def follow(self, done: Placed) -> list[Placed]:
        """Return the tasks that combine the groups whose last share is now there.

        Whether tasks combine a level follows from the size of its first share.
        """
        level = next(number for number, parts in enumerate(self.parts) if parts is done.parts)
        there, count, fan_in = self._there[level], self._counts[level], self._reduction.fan_in
        there.add(done.index)
        ready = {done.index // fan_in}
        if level + 1 == len(self.parts):
            if done.index or not combined_by_tasks(count, done.parts.arrays(0).nbytes, self._budget):
                return []
            self.parts.append(self._scratch())
            self._counts.append(len(row_ranges(count, fan_in)))
            self._there.append(set())
            ready = {index // fan_in for index in there}
        ranges = [(group, group * fan_in, min((group + 1) * fan_in, count)) for group in sorted(ready)]
        return [Placed(CombineTask(done.parts, first, last, self._reduction.combine), self.parts[level + 1], group)
                for group, first, last in ranges if there.issuperset(range(first, last))]


class TaskCount:
    """Counts the tasks of maps, which may run at the same time, and reports (tasks done, tasks in total).

    expected : the total as far as it is known; it grows if more tasks begin.
    """

    def __init__(self, tell: Progress, expected: int):
        self._lock = Lock()
        self._tell = tell
        self._of = expected
        self._begun = 0
        self._done = 0

    def begin(self, count: int, done: int) -> None:
        """Record that `count` tasks begin, of which `done` are already complete."""
        with self._lock:
            self._begun += count
            self._done += done
            self._of = max(self._of, self._begun)
            self._tell(self._done, self._of)

    def one_more(self) -> None:
        """Record that a task is done."""
        with self._lock:
            self._done += 1
            self._tell(self._done, self._of)


class Execution(ABC):
    """Runs the tasks of a stage."""

    memory_budget: int  # bytes that one task may take
    scratch_folder: str | None = None  # where temporary parts go if they have to be stored
    smallest_worker: WorkerRoom | None = None  # any task may run there; None if no worker has a memory limit
    processors: Sequence[str] = ()  # the distinct processors of workers, and those that computed parts
    tasks_per_process: int = 1  # that run concurrently
    tasks_at_once: int = 1  # that run concurrently, in all processes
    threads_alone: int = 1  # that a task may use while no other runs, or this process while none does
    in_workers: bool = False  # whether tasks run in other processes
    largest_task_bytes: int | None = None  # the measured maximum over tasks since it was last set to None
    largest_process_bytes: int = 0  # the measured maximum over their processes since it was last set to 0
    counter: TaskCount | None = None  # receives the progress of all tasks
    allowed: Callable[[], None] = staticmethod(lambda: None)  # called while tasks run; raises to stop them

    @property
    def is_open(self) -> bool:
        """Return whether tasks can still run."""
        return True

    @abstractmethod
    def scratch(self) -> Parts:
        """Return temporary parts, which only this computation needs."""

    def within(self, memory_budget: int) -> Self:
        """Return the same execution with another memory budget per task (bytes)."""
        narrowed = copy(self)
        narrowed.memory_budget = memory_budget
        return narrowed

    def share(self, **arrays: np.ndarray) -> Arrays:
        """Return named arrays in a form that tasks can load instead of being pickled with them."""
        parts = self.scratch()
        # In C order, as arrays come from a store: BLAS rounds differently on arrays in Fortran order.
        parts.write(0, {name: np.asarray(array, order="C") for name, array in arrays.items()})
        return parts.arrays(0)

    def share_rows(self, rows: Rows) -> Rows:
        """Return rows in a form that tasks can read instead of being pickled with them."""
        return rows

    def concurrently(self, work: Callable[[], Answer]) -> Callable[[], Answer]:
        """Return a function that returns the result of `work`, or raises its exception.

        Where tasks run in other processes, `work` begins at once in a thread of this process, so that it takes place
        while workers are busy, and what it writes is stored when its result is there. It may run tasks, which share the
        workers with those of other threads. Otherwise it runs when its result is first needed.
        """
        return cache(work)

    @contextmanager
    def stopping_works(self) -> Iterator[None]:
        """Stop the works that began in the body at its end: they run no more tasks."""
        yield

    def ask_workers(self, question: Callable[..., Answer], *arguments: object) -> dict[str, Answer]:
        """Call a function in every other process that runs tasks; return the results by address."""
        return {}

    @abstractmethod
    def _run(self, pending: Sequence[Placed], done: Callable[[Placed, Receipt], list[Placed]]) -> None:
        """Run tasks, and those that `done` returns, which gets each receipt as it arrives."""

    def map(self, tasks: Sequence[Task], parts: Parts, follow: Follow = lambda done: []) -> list[Receipt]:
        """Run task i into part i unless that part is complete; return all receipts in task order.

        follow : returns further tasks, into new parts, that are run too; also of the parts that are complete.
        """
        heed_signals()
        Work.heed()
        receipts, further, counter = parts.receipts(len(tasks)), list[Receipt](), self.counter
        placed = [Placed(task, parts, index) for index, task in enumerate(tasks)]
        if counter:
            counter.begin(len(tasks), len(receipts))

        def following(done: Placed) -> list[Placed]:
            follows = follow(done)
            if follows and counter:
                counter.begin(len(follows), 0)
            return follows

        def done(of: Placed, receipt: Receipt) -> list[Placed]:
            Work.heed()
            if of.parts is parts:
                receipts[of.index] = receipt
            else:
                further.append(receipt)
            if counter:
                counter.one_more()
            return following(of)

        pending = [each for each in placed if each.index not in receipts]
        pending += [each for index in sorted(receipts) for each in following(placed[index])]
        if pending:
            settle()  # inputs must be stored before the tasks that read them start
            self._run(pending, done)
        self._note([*receipts.values(), *further])
        return [receipts[index] for index in range(len(tasks))]

    def _note(self, receipts: Sequence[Receipt]) -> None:
        """Record what tasks took, and where they ran."""
        peaks = [peak for receipt in receipts if (peak := receipt.get("task_peak_bytes")) is not None]
        # Includes workers that joined later, and those of an earlier run that made some of the parts.
        kinds = {receipt["processor"] for receipt in receipts if "processor" in receipt}
        with _NOTES:
            if peaks:
                self.largest_task_bytes = max(self.largest_task_bytes or 0, *peaks)
            self.largest_process_bytes = max([self.largest_process_bytes, *(
                receipt.get("peak_rss_bytes", 0) for receipt in receipts)])
            self.processors = sorted(kinds.union(self.processors))

    @abstractmethod
    def map_delayed(self, blocks: Sequence[Any], task: Callable[[Any], Task], parts: Parts) -> list[Receipt]:
        """Run `task(block)` into part i for each Dask delayed block i, in the process that computes the block."""

    def reduce(self, reduction: Reduction[Result], parts: Parts | None = None) -> Result:
        """Run the tasks of a reduction, combine their shares as a tree, and finish.

        Shares that together fit a sixteenth of the memory budget are combined in this process, larger ones by tasks.
        parts : stores the shares, which are kept; complete ones are not computed again. Temporary by default.
        """
        count, combine = len(reduction.tasks), reduction.combine
        require(count > 0, "a reduction of no tasks", why="there is nothing to combine", fix="pass at least one block")
        levels = Levels(reduction, self.scratch() if parts is None else parts, self.scratch, self.memory_budget)
        self.map(reduction.tasks, levels.parts[0], levels.follow)
        shares = [levels.parts[-1].read(index) for index in range(levels.count)]
        for level in levels.parts:
            if level is not parts:
                level.remove()
        while len(shares) > 1:
            shares = [combined(shares[first:last], combine)
                      for first, last in row_ranges(len(shares), reduction.fan_in)]
        return reduction.finish(shares[0])


def combined_by_tasks(count: int, share_bytes: int, budget: int) -> bool:
    """Return whether `count` shares are combined by tasks, and not in the process that runs the reduction."""
    return count > 1 and count * share_bytes > budget // 16


def combining_tasks(count: int, share_bytes: int, budget: int, fan_in: int = FAN_IN, listed: int = 0) -> int:
    """Return the number of tasks that combine the shares of a reduction.

    share_bytes : of a share. listed : of what shares list instead of adding up, in all of them.
    """
    tasks = 0
    while combined_by_tasks(count, share_bytes + listed // max(count, 1), budget):
        count = -(-count // fan_in)
        tasks += count
    return tasks


def run_part(task: Task, parts: Parts, index: int) -> Receipt:
    """Run one task into its part and record the receipt with seconds and peak memory (bytes).

    `task_peak_bytes` is the growth of the process during the task, None where that cannot be measured; tasks that run
    concurrently in one process share it. `peak_rss_bytes` is the peak size of the process so far. `processor` names the
    processor that ran the task.
    """
    begin = time.perf_counter()
    attempt = uuid.uuid4().hex[:12]
    with journal():
        try:
            with PeakMemory() as peak:
                # Converted to JSON types, as a resumed run reads it.
                receipt = plain(dict(task(PartWriter(parts, index, attempt)) or {}))
        except BaseException:
            parts.discard(index, attempt)
            raise
        receipt |= {"task_peak_bytes": peak.bytes, "seconds": round(time.perf_counter() - begin, 6),
                    "peak_rss_bytes": process_peak(), "process": os.getpid(), "processor": this_processor()}
        return parts.finish(index, receipt, attempt)


class CountedTask(Task, Protocol):
    """A task that says what it takes, from shapes alone."""

    def cost(self) -> Cost:
        """Return what the task reads and writes, and a formula of its memory, as the cost of one task."""
        ...


Counted = TypeVar("Counted", bound=CountedTask)


@dataclass(frozen=True)
class BlockTasks(Sequence[Counted], Generic[Counted]):
    """The tasks of the blocks of n rows, each made when it is asked for: a run maps them, and a plan counts them.

    task : makes the task of the rows [start, stop). Tasks of whole blocks take the same.
    """

    task: Callable[[int, int], Counted]
    n_rows: int
    height: int

    def __len__(self) -> int:
        return block_count(self.n_rows, self.height)

    def __getitem__(self, index: Any) -> Any:
        start = range(0, self.n_rows, self.height)[index]
        return self.task(start, min(start + self.height, self.n_rows))

    def cost(self) -> Cost:
        """Return what all of them take: the first as often as there are whole blocks, and the last if it is shorter."""
        whole, rest = divmod(self.n_rows, self.height)
        cost = whole * self[0].cost() if whole else Cost(0, 0, 0, 0, 0)
        return cost + self[-1].cost() if rest else cost

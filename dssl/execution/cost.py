"""The cost of a stage: tasks, bytes read and written, and peak memory. Each task's cost function stands beside it.

Bytes count arrays before compression; files on disk are smaller. Coefficients that do not follow from the size of an
array were measured, and `tests/benchmarks/memory.py` measures them again.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ..base.units import size_setting
from ..storage.blocks import STEP_BYTES

# Rates measured on one core.
STORED_RATE = 3.5e8  # bytes of arrays per second that are read and decoded, or written
FLOP_RATE = 4e10  # floating-point operations per second of a matrix product; half the rate of an idle core
KERNEL_SECONDS = 1.1e-8  # for one entry of a kernel block
TASK_SECONDS = 0.01  # overhead of a task
SCHEDULED_SECONDS = 1 / 328  # of the scheduler per task; it hands out one at a time, whatever the number of workers
START_SECONDS = 10.0  # of one core: what two workers of this machine take to start and to import what they run
USUAL_ITERATIONS = 40  # of a preconditioned solver on a neighbor graph, to a relative residual of 1e-8
PAUSE_SHARE = 0.8  # Dask gives no task to a worker above this share of its memory limit; NumPy's memory cannot spill
MIN_ROOM = 32 << 20  # bytes for tasks; a worker with less is useless, since hardly any stage fits
WORKER_BYTES = 420 << 20  # measured: what a worker holds beside its tasks, such as libraries and the compiler
# Requests to an object store, measured with worker processes.
STAGE_REQUESTS = 20  # of any stage: manifest, small arrays, marks and listings
TASK_REQUESTS = 8  # its mark, its inputs, its output, and its receipt, which is written and read
OBJECT_BYTES = 16 << 20  # the usual size of an object
BUCKET_REQUESTS = 3  # for a bucket of a shuffle: the receipt of its writer, its entry, and its rows
MATRICES = 12  # (rank, rank) in memory at once: 8 for the Gram sums of two runs, 7 to 9 for the matrices of LapSVC


@dataclass(frozen=True)
class Cost:
    """The cost of a stage; memory counts on top of what the process holds anyway."""

    tasks: int
    read: int  # bytes of arrays, over all tasks
    written: int
    peak: int  # bytes of the largest task, or of a step of the driver
    smallest_peak: int  # lower bound of the peak for the smallest possible blocks
    seconds: float = 0.0  # estimated computing time on one core, over all tasks
    extra_requests: int = 0  # to an object store, in addition to those that follow from tasks and bytes
    guesses: frozenset[str] = field(default=frozenset(), compare=False)  # names of what these figures assume

    @property
    def figures(self) -> tuple[int, int, int, int, int, float, int]:
        return (self.tasks, self.read, self.written, self.peak, self.smallest_peak, self.seconds, self.extra_requests)

    def __add__(self, other: "Cost") -> "Cost":
        """Return what both take, one after the other."""
        return Cost(self.tasks + other.tasks, self.read + other.read, self.written + other.written,
                    max(self.peak, other.peak), max(self.smallest_peak, other.smallest_peak),
                    self.seconds + other.seconds, self.extra_requests + other.extra_requests,
                    self.guesses | other.guesses)

    def __rmul__(self, count: int) -> "Cost":
        """Return what so many take, one after the other."""
        return replace(self, tasks=count * self.tasks, read=count * self.read, written=count * self.written,
                       seconds=count * self.seconds, extra_requests=count * self.extra_requests)

    def guessing(self, *names: str) -> "Cost":
        """Return the cost with the names of what it assumes beside others."""
        return replace(self, guesses=self.guesses.union(names))

    @property
    def requests(self) -> int:
        """Return the approximate number of requests of a stage whose workspace is an object store.

        Tasks in threads of one process make fewer: the process need not read what it has written itself.
        """
        of_bytes = (self.read + self.written) // OBJECT_BYTES
        return STAGE_REQUESTS + TASK_REQUESTS * self.tasks + of_bytes + self.extra_requests

    @property
    def core_seconds(self) -> float:
        """Return the estimated seconds on one core: computing, reading, writing, and the overhead of tasks."""
        return self.seconds + (self.read + self.written) / STORED_RATE + TASK_SECONDS * self.tasks

    def wall_seconds(self, workers: int) -> float:
        """Return the estimated seconds if `workers` tasks of equal length run at a time.

        Without tasks, one core does the work. The scheduler's time to hand out the tasks is a lower bound.
        """
        turns = block_count(self.tasks, workers) / self.tasks if self.tasks else 1
        return max(self.core_seconds * turns, SCHEDULED_SECONDS * self.tasks)


def cost_of(tasks: int, read: float, written: float, peak: float, smallest_peak: float = 0, seconds: float = 0.0,
            extra_requests: float = 0) -> Cost:
    """Return a cost; `STEP_BYTES`, which any step takes, are added to its peak."""
    return Cost(int(tasks), int(read), int(written), int(peak) + STEP_BYTES, int(smallest_peak), float(seconds),
                int(extra_requests))


def bucket_requests(*shuffles: tuple[int, int]) -> int:
    """Return the requests for the buckets of shuffles, each given as (writing tasks, reading tasks)."""
    return BUCKET_REQUESTS * sum(writers * readers for writers, readers in shuffles)


def gram_seconds(n: float, s: float, d: float = 0) -> float:
    """Return the estimated seconds of the Gram product (s, s) of a matrix (n, s) of kernel values at d features.

    With d = 0 the matrix is taken as given, and only the product counts.
    """
    return 2.0 * n * s * s / FLOP_RATE + (kernel_seconds(n * s, d) if d else 0.0)


def solve_seconds(nnz: float, columns: float) -> float:
    """Return the estimated seconds of solving a graph system with nnz weights in `USUAL_ITERATIONS` iterations.

    A fused product and update takes 0.8 ns per entry and column, in blocks of ten or more columns.
    """
    return 8e-10 * USUAL_ITERATIONS * nnz * columns


def kernel_seconds(entries: float, d: float) -> float:
    """Return the estimated seconds of evaluating a kernel this many times between points with d features."""
    return entries * (KERNEL_SECONDS + 2.0 * d / FLOP_RATE)


@dataclass(frozen=True)
class WorkerRoom:
    """The memory that a worker has for tasks; the scheduler may give any task to any worker.

    memory_limit : in bytes. address : None for a worker that does not run yet.
    larger : the room of the next larger worker; None if no worker has more.
    beside : bytes of the described memory limit that go to other processes, see `description.BESIDE`.
    """

    memory_limit: int
    threads: int = 1
    address: str | None = None
    larger: int | None = None
    beside: int = 0

    @classmethod
    def smallest(cls, workers: Iterable["WorkerRoom"]) -> "WorkerRoom | None":
        """Return the worker with the least room, the first by address in a tie; None if there is no worker."""
        ordered = sorted(workers, key=lambda worker: (worker.room, worker.address or ""))
        if not ordered:
            return None
        larger = (worker.room for worker in ordered if worker.room > ordered[0].room)
        return replace(ordered[0], larger=next(larger, None))

    @property
    def room(self) -> int:
        """The bytes for the task of each thread before Dask pauses the worker; 0 if its process takes everything."""
        return max(0, (int(PAUSE_SHARE * self.memory_limit) - WORKER_BYTES) // self.threads)

    def limit_for(self, task: int) -> int:
        """Return the smallest memory limit, as written in a description, with room for tasks of `task` bytes."""
        return math.ceil((task * self.threads + WORKER_BYTES + 1) / PAUSE_SHARE) + self.beside

    def in_words(self, what: str = "it") -> str:
        who = "a worker" if self.address is None else f"the worker {self.address}"
        return (f"{who} has {size_setting(self.room, up=False)} for {what}, of a memory limit of "
                f"{size_setting(self.memory_limit + self.beside, up=False)} of which its process takes "
                f"{size_setting(WORKER_BYTES + self.beside, up=True)}")

    def hint(self, task: int) -> str:
        """Return what to do so that tasks of `task` bytes fit."""
        limit = size_setting(self.limit_for(task), up=True)
        if self.address is None or self.larger is None or self.larger < task:
            return f"raise the memory_limit of workers to {limit}"
        return f"stop that worker, or start it again with a memory_limit of {limit}; the others have enough room"


def block_count(n_rows: int, height: int) -> int:
    """Return the number of blocks of this height that cover n rows."""
    return -(-n_rows // height)


def largest_within(budget: int, upper: int, bytes_of: Callable[[int], int]) -> int:
    """Return the largest number from 1 to `upper` whose `bytes_of`, an increasing function, fits a budget; or 0."""
    return bisect_right(range(1, upper + 1), budget, key=bytes_of)


def rank_budget(rank: int) -> int:
    """Return the budget (bytes) of which the `MATRICES` of a rank take one half, and blocks and points the other."""
    return 2 * 8 * MATRICES * rank * rank

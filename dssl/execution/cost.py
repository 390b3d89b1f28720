"""What a stage takes: tasks, bytes read and written, peak memory; beside each task stands the function that says it.

Bytes are those of arrays, before compression: what lies on disk is less. Coefficients that no array accounts for were
measured, and `tests/benchmarks/memory.py` measures them again.
"""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from ..base.units import size_setting
from ..storage.blocks import STEP_BYTES

# Measured on one core: bytes of arrays that are read and decoded, or written, a second; floating-point operations of a
# matrix product, half of what an idle core does; an entry of a kernel's block; and what any task takes.
STORED_RATE = 3.5e8
FLOP_RATE = 4e10
KERNEL_SECONDS = 1.1e-8
TASK_SECONDS = 0.01
SCHEDULED_SECONDS = 1 / 328  # of a task in the scheduler, which hands out one after the other, however many workers
USUAL_ITERATIONS = 40  # of a preconditioned solver on a graph of neighbors, to 1e-8
PAUSE_SHARE = 0.8  # of its memory limit that a worker holds when Dask hands it no more tasks, which NumPy never leaves
MIN_ROOM = 32 << 20  # for tasks, below which a worker is of no use: hardly a stage fits
WORKER_BYTES = 420 << 20  # measured, that a worker holds beside its tasks: libraries, kernels while they are compiled
# Of an object store, measured with worker processes. Requests of a stage, whatever it does: the manifest and what is
# known of it before, small arrays, marks, lists. Of a task: its mark, inputs and output, and the receipt that it writes
# and the driver reads. Bytes of an object, as a rule. Requests for a bucket of a shuffle: the receipt of the task that
# wrote it, its entry, and its rows.
STAGE_REQUESTS = 20
TASK_REQUESTS = 8
OBJECT_BYTES = 16 << 20
BUCKET_REQUESTS = 3
MATRICES = 12  # (rank, rank) held at a time: Gram sums of two runs are 8, covariances and factors of LapSVC 7 to 9


@dataclass(frozen=True)
class Cost:
    """What a stage takes; memory is beside what the process holds."""

    tasks: int
    read: int  # bytes of arrays, over all tasks
    written: int
    peak: int  # bytes of the largest task, or of a step of the driver
    smallest_peak: int  # however small the blocks
    seconds: float = 0.0  # of computing on one core, over all tasks; an estimate
    asked: int = 0  # requests to an object store beside those that follow from tasks and bytes, such as of buckets
    guesses: frozenset[str] = field(default=frozenset(), compare=False)  # names of what these figures assume

    @property
    def figures(self) -> tuple[int, int, int, int, int, float, int]:
        return (self.tasks, self.read, self.written, self.peak, self.smallest_peak, self.seconds, self.asked)

    def __add__(self, other: "Cost") -> "Cost":
        """Return what both take, one after the other."""
        return Cost(self.tasks + other.tasks, self.read + other.read, self.written + other.written,
                    max(self.peak, other.peak), max(self.smallest_peak, other.smallest_peak),
                    self.seconds + other.seconds, self.asked + other.asked, self.guesses | other.guesses)

    def guessing(self, *names: str) -> "Cost":
        """Return the cost with the names of what it assumes beside others."""
        return replace(self, guesses=self.guesses.union(names))

    @property
    def requests(self) -> int:
        """Return about how many requests a stage makes where its workspace is an object store.

        Where threads of one process run the tasks, there are fewer: what it has written it need not read, and what only
        the stage itself reads is held in memory.
        """
        of_bytes = (self.read + self.written) // OBJECT_BYTES
        return STAGE_REQUESTS + TASK_REQUESTS * self.tasks + of_bytes + self.asked

    @property
    def core_seconds(self) -> float:
        """Return the estimated seconds of one core: computing, reading and writing, and the handling of tasks."""
        return self.seconds + (self.read + self.written) / STORED_RATE + TASK_SECONDS * self.tasks

    def wall_seconds(self, workers: int) -> float:
        """Return the estimated seconds with so many tasks at a time, of one length; without tasks one core works.

        Nor are they fewer than the scheduler takes to hand out the tasks.
        """
        turns = block_count(self.tasks, workers) / self.tasks if self.tasks else 1
        return max(self.core_seconds * turns, SCHEDULED_SECONDS * self.tasks)


def cost_of(tasks: int, read: float, written: float, peak: float, smallest_peak: float = 0, seconds: float = 0.0,
            asked: float = 0) -> Cost:
    """Return a cost whose peak leaves room for what any step takes."""
    return Cost(int(tasks), int(read), int(written), int(peak) + STEP_BYTES, int(smallest_peak), float(seconds),
                int(asked))


def bucket_requests(*shuffles: tuple[int, int]) -> int:
    """Return the requests of shuffles beside those of their tasks, each of so many tasks that write and that read."""
    return BUCKET_REQUESTS * sum(writers * readers for writers, readers in shuffles)


def gram_seconds(n: float, s: float, d: float = 0) -> float:
    """Return the estimated seconds of the Gram product (s, s) of a matrix (n, s), a kernel's values at d features.

    Without features the matrix is there already.
    """
    return 2.0 * n * s * s / FLOP_RATE + (kernel_seconds(n * s, d) if d else 0.0)


def solve_seconds(nnz: float, columns: float) -> float:
    """Return the estimated seconds of solving columns of a system of a graph with nnz weights, by `USUAL_ITERATIONS`.

    A fused product and update takes 0.8 ns an entry and column in blocks of ten columns and more.
    """
    return 8e-10 * USUAL_ITERATIONS * nnz * columns


def kernel_seconds(entries: float, d: float) -> float:
    """Return the estimated seconds of this many values of a kernel between points of d features."""
    return entries * (KERNEL_SECONDS + 2.0 * d / FLOP_RATE)


@dataclass(frozen=True)
class WorkerRoom:
    """A worker, which any task may come to: its memory limit (bytes) and threads, and its address where it runs.

    larger : what the worker with the next larger room has; None where none has more. beside : bytes of the memory limit
    of its description that other processes have beside it, see `description.BESIDE`.
    """

    memory_limit: int
    threads: int = 1
    address: str | None = None
    larger: int | None = None
    beside: int = 0

    @classmethod
    def smallest(cls, workers: Iterable["WorkerRoom"]) -> "WorkerRoom | None":
        """Return the one with the least room, the first by address of several; None where there is none."""
        ordered = sorted(workers, key=lambda worker: (worker.room, worker.address or ""))
        if not ordered:
            return None
        larger = (worker.room for worker in ordered if worker.room > ordered[0].room)
        return replace(ordered[0], larger=next(larger, None))

    @property
    def room(self) -> int:
        """The bytes that it has for each of its threads' tasks before Dask pauses it; 0 where its process takes all."""
        return max(0, (int(PAUSE_SHARE * self.memory_limit) - WORKER_BYTES) // self.threads)

    def limit_for(self, task: int) -> int:
        """Return the least memory limit, as it is described, that has room for tasks of so many bytes."""
        return math.ceil((task * self.threads + WORKER_BYTES + 1) / PAUSE_SHARE) + self.beside

    def in_words(self, what: str = "it") -> str:
        who = "a worker" if self.address is None else f"the worker {self.address}"
        return (f"{who} has {size_setting(self.room, up=False)} for {what}, of a memory limit of "
                f"{size_setting(self.memory_limit + self.beside, up=False)} of which its process takes "
                f"{size_setting(WORKER_BYTES + self.beside, up=True)}")

    def hint(self, task: int) -> str:
        """Return how it, or who comes in its place, has room for tasks of so many bytes."""
        limit = size_setting(self.limit_for(task), up=True)
        if self.address is None or self.larger is None or self.larger < task:
            return f"raise the memory_limit of workers to {limit}"
        return f"stop that worker, or start it again with a memory_limit of {limit}: the others have room"


def block_count(n_rows: int, height: int) -> int:
    """Return how many blocks of this height n rows make."""
    return -(-n_rows // height)


def largest_within(budget: int, upper: int, bytes_of: Callable[[int], int]) -> int:
    """Return the largest number from 1 to `upper` of what takes `bytes_of` it, ascending, within a budget; or 0."""
    return bisect_right(range(1, upper + 1), budget, key=bytes_of)


def rank_budget(rank: int) -> int:
    """Return the budget (bytes) of which the `MATRICES` of a rank take half; blocks and points have the other."""
    return 2 * 8 * MATRICES * rank * rank

"""How much memory a piece of work takes, as Python and NumPy allocate it."""

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from dssl.execution.in_process import InProcess
from dssl.execution.tasks import SHARED_CHUNK, run_part
from dssl.storage.blocks import write_dense
from dssl.storage.cache import release_caches
from dssl.storage.store import StoredParts

Result = TypeVar("Result")


def traced_peak(work: Callable[[], object], expected: float) -> int:
    """Return the most bytes that `work()` holds at a time beside what was there.

    All threads of the process are traced. Where a cluster that another test started is alive, its scheduler runs here
    and takes 256 kB for a moment whenever a message comes: of a thousand measures of 10 ms 180 were too high by that,
    and none without a cluster. So what is above the `expected` bytes is measured again; a peak of the work's own stays.
    """
    def measure() -> int:
        tracemalloc.start()
        try:
            work()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    return least(measure, expected)


def task_peak(execution: InProcess, work: Callable[[], object], expected: float) -> int:
    """Return the most by which the process grew during a task of `work()`.

    Whatever else the process does at that time is in it, so what is above the `expected` bytes is measured again.
    """
    def measure() -> int:
        execution.largest_task_bytes = None
        work()
        return execution.largest_task_bytes

    return least(measure, expected)


def least(measure: Callable[[], int], expected: float) -> int:
    """Return the least of up to ten measures, the last of which is the first that is as expected."""
    peaks: list[int] = []
    while not peaks or (peaks[-1] > expected and len(peaks) < 10):
        peaks.append(measure())
    return min(peaks)


def run_traced(
    folder: Path, memory_budget: int, work: Callable[["Traced"], Result], expected: float | None = None
) -> tuple["Traced", Result]:
    """Return how much the tasks and the driver of `work(execution)` take, and its result.

    The driver cannot be measured again alone as a task can: where it held more than the `expected` bytes (the budget),
    which another thread may have taken, such as the scheduler of a cluster of another test, all is run again.
    """
    for number in range(3):
        execution = Traced(folder / f"traced{number}", memory_budget)
        with execution:
            result = work(execution)
        if execution.driver <= (memory_budget if expected is None else expected):
            break
    return execution, result


class Traced(InProcess):
    """Runs one task at a time, in storage, and notes how much memory each kind of task and the driver take.

    Within `with`, `tasks` are the most bytes that a task of each class held beside what was there when it began, and
    `driver` is what was held beside that of the beginning whenever no task ran. A task that held more than the budget
    runs again, without what the process kept: what another thread or a collected object took meanwhile is not its own.
    The parts of the first time stay.
    """

    def __init__(self, folder: Path, memory_budget: int):
        super().__init__(1, memory_budget)
        self.folder, self.tasks, self.driver = folder, dict[str, int](), 0
        self._scratches, self._begin = 0, 0

    def scratch(self) -> StoredParts:
        self._scratches += 1
        return StoredParts(self.folder / f"scratch{self._scratches}")

    def share_rows(self, rows):
        if not rows.held:
            return rows
        chunk = min(SHARED_CHUNK, self.memory_budget // 8)
        return write_dense(rows, self.scratch(), "rows", max(1, chunk // rows.row_bytes))

    def __enter__(self):
        tracemalloc.start()
        self._begin = tracemalloc.get_traced_memory()[0]
        return self

    def __exit__(self, *exc):
        self._note_driver()
        tracemalloc.stop()

    def _note_driver(self):
        self.driver = max(self.driver, tracemalloc.get_traced_memory()[1] - self._begin)

    def _run(self, pending, done):
        queue = [*pending]
        while queue:
            placed = queue.pop(0)
            self._note_driver()
            peak, receipt = self._peak(placed)
            for _ in range(3):
                if peak > self.memory_budget:
                    release_caches()
                    peak = min(peak, self._peak(placed)[0])
            name = type(placed.task).__name__
            self.tasks[name] = max(self.tasks.get(name, 0), peak)
            tracemalloc.reset_peak()
            queue = done(placed, receipt) + queue

    @staticmethod
    def _peak(placed):
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        receipt = run_part(placed.task, placed.parts, placed.index)
        return tracemalloc.get_traced_memory()[1] - before, receipt

"""What a worker keeps never stops it: Dask gives no task to a worker that is nearly full, and what it keeps stays.

One that is above Dask's mark after its last task would be paused for good. So what is kept from task to task is bounded
by the memory budget, and given back where another kind of task begins and may not fit beside it, or where a task ends
near the mark.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import ClassVar

import psutil

from ..base.profiler import return_freed_memory
from ..storage.kept import give_back, limit_kept

NEAR = 0.9  # of the mark at which a worker is paused


@dataclass(frozen=True)
class WorkerMemory:
    """What the tasks of a worker may take together (bytes), and at how many of the process it is paused, or None."""

    budget: int
    pause: int | None
    threads: int = 1

    _last: ClassVar[type | None] = None  # the task that ran last in this process

    @contextmanager
    def around(self, task: object) -> Iterator[None]:
        """Give back what is kept before a task and after it, where that is needed."""
        limit_kept(self.budget)
        if type(task) is not WorkerMemory._last:
            WorkerMemory._last = type(task)
            self._keep_below(0 if self.pause is None else self.pause - self.budget * self.threads)
        try:
            yield
        finally:
            self._keep_below(0 if self.pause is None else int(NEAR * self.pause))

    def _keep_below(self, most: int) -> None:
        if self.pause is not None and psutil.Process().memory_info().rss > most and give_back():
            return_freed_memory()

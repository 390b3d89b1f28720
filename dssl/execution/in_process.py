"""Tasks in threads of this process."""

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..base.units import MEMORY_BUDGET
from ..storage.blocks import MemoryParts, Parts, Receipt
from ..storage.cache import limit_caches
from ..storage.write_behind import settle
from .tasks import Execution, Placed, Task, run_part
from .threads import available_cores, one_thread
from .window import Finished, Looks, run_in_window


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

    def _run(self, pending: Sequence[Placed], done: Callable[[Placed, Receipt], list[Placed]]) -> None:
        # One core per task, even for a single task: BLAS rounds differently on two threads than on one, and a spec
        # gives the same bits in threads, in workers and on any number of cores.
        threads = min(self.threads, len(pending))
        limit_caches(self.memory_budget)
        with one_thread():
            if threads <= 1:
                looks, queue = Looks(self.allowed), deque(pending)
                while queue:
                    looks.take()
                    placed = queue.popleft()
                    queue.extendleft(reversed(done(placed, run_part(placed.task, placed.parts, placed.index))))
                return
            running: dict[Future[Receipt], Placed] = {}
            with ThreadPoolExecutor(threads) as pool, Finished() as finished:
                try:
                    run_in_window(pending, threads, lambda placed: pool.submit(
                        run_part, placed.task, placed.parts, placed.index), done, running, finished, self.allowed)
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

    def write(block: object, index: int) -> Receipt:
        return run(task(block), parts, index)

    return [delayed(write, pure=False)(block, index) for index, block in enumerate(blocks)]

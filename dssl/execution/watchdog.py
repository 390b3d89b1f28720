"""Detects a cluster on which no worker runs any more, and explains why."""

import time
from collections.abc import Callable
from typing import Any, TypedDict

from distributed import Client
from distributed.comm import CommClosedError

from ..base.errors import ClusterError, explain

PATIENCE = 120.0  # seconds
ANSWER = 15.0  # timeout in seconds for an answer of the scheduler


class WorkerState(TypedDict):
    """The fields of a worker that are read from the scheduler's description of it."""

    status: str
    memory_limit: int | None
    metrics: dict[str, float]


class Watchdog:
    """Ends a wait for tasks when no worker has been running for `patience` seconds.

    Without it, a run would wait forever once all workers have left or are paused at their memory limits. A worker that
    is stopped or disconnected counts as running until the scheduler's `worker-ttl` is over.
    """

    def __init__(self, client: Client, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic):
        self.client = client
        self.patience = patience
        self.clock = clock
        self._had_workers = False
        self.begin()

    def begin(self) -> None:
        """Start the wait."""
        self._worked = self._asked = self.clock()  # when a worker was last known to run, and when this was last checked

    def saw_work(self) -> None:
        """Record that a task has finished."""
        self._worked = self.clock()
        self._had_workers = True

    def look(self) -> None:
        """Check the workers from time to time; raise ClusterError with the cause if none has run for too long."""
        now = self.clock()
        if now - max(self._asked, self._worked) < self.patience / 12:
            return
        self._asked = now
        try:
            workers = self._workers()
        except TimeoutError:
            workers = None
        except (OSError, CommClosedError):  # the connection is lost, which the futures report
            return
        if workers:
            self._had_workers = True
        if workers and any(worker["status"] == "running" for worker in workers.values()):
            self._worked = now
        elif now - self._worked >= self.patience:
            raise self._ended(workers)

    def _workers(self) -> dict[str, WorkerState]:
        client: Any = self.client
        workers: dict[str, WorkerState] = client.sync(client.scheduler.identity, n_workers=-1,
                                                      callback_timeout=ANSWER)["workers"]
        return workers

    def _ended(self, workers: dict[str, WorkerState] | None) -> ClusterError:
        """Return the error that names the cause."""
        scheduler: Any = self.client.scheduler
        address = scheduler.addr
        long = f"for {self.patience:.0f} seconds"
        if workers is None:
            return ClusterError(explain(
                f"the scheduler at {address} has not answered {long}", why="only the scheduler gives tasks to workers",
                fix="check whether it still runs and can be reached, then run again: finished parts are kept"))
        paused = {name: worker for name, worker in workers.items() if worker["status"] == "paused"}
        if paused:
            fullest, worker = max(paused.items(), key=lambda item: item[1]["metrics"].get("memory", 0))
            held = worker["metrics"].get("memory", 0)
            limit = worker["memory_limit"] or 0
            return ClusterError(explain(
                f"all {len(workers)} workers at {address} have been paused {long}",
                why=f"a worker starts no task above its share of the memory limit, and NumPy's memory cannot be "
                    f"spilled: {fullest} holds {held / 2**20:,.0f} MiB of {limit / 2**20:,.0f}",
                fix="give workers more memory or lower memory_budget, and set distributed.worker.memory.pause: false; "
                    "then run again: finished parts are kept"))
        what = (f"the scheduler at {address} has had no workers {long}; all have left" if self._had_workers else
                f"no worker has connected to the scheduler at {address} {long}")
        return ClusterError(explain(
            what, why="tasks wait for a worker",
            fix="read the workers' logs, start workers, then run again: finished parts are kept"))

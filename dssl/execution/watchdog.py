"""Whether anything still works on a cluster, and why nothing does where nothing does for long."""

import time
from collections.abc import Callable
from typing import Any

from distributed import Client
from distributed.comm import CommClosedError

from ..base.errors import ClusterError, explain

PATIENCE = 120.0  # seconds
ANSWER = 15.0  # seconds in which a scheduler answers


class Watchdog:
    """Ends a wait for tasks when no worker has been running for `patience` seconds.

    A worker runs tasks unless it is gone, or paused at its memory limit; then, without a word, nothing would ever
    finish. One that is stopped or cut off counts as running until the scheduler's `worker-ttl` is over.
    """

    def __init__(self, client: Client, patience: float = PATIENCE, clock: Callable[[], float] = time.monotonic):
        self.client = client
        self.patience = patience
        self.clock = clock
        self._had_workers = False
        self.begin()

    def begin(self) -> None:
        """Begin to wait."""
        self._worked = self._asked = self.clock()  # when a worker was last known to run, and when that was asked

    def saw_work(self) -> None:
        """Take note that a task has finished."""
        self._worked = self.clock()
        self._had_workers = True

    def look(self) -> None:
        """Ask the scheduler from time to time; raise ClusterError with the cause if no worker has run for too long."""
        now = self.clock()
        if now - max(self._asked, self._worked) < self.patience / 12:
            return
        self._asked = now
        try:
            workers = self._workers()
        except TimeoutError:
            workers = None
        except (OSError, CommClosedError):  # lost: its futures say so
            return
        if workers:
            self._had_workers = True
        if workers and any(worker["status"] == "running" for worker in workers.values()):
            self._worked = now
        elif now - self._worked >= self.patience:
            raise self._ended(workers)

    def _workers(self) -> dict[str, dict[str, Any]]:
        client: Any = self.client
        return client.sync(client.scheduler.identity, n_workers=-1, callback_timeout=ANSWER)["workers"]

    def _ended(self, workers: dict[str, dict[str, Any]] | None) -> ClusterError:
        """Return the error that names the cause."""
        scheduler: Any = self.client.scheduler
        place = scheduler.addr
        long = f"for {self.patience:.0f} seconds"
        if workers is None:
            return ClusterError(explain(
                f"the scheduler at {place} has not answered {long}", why="no task is given to a worker without it",
                fix="see whether it is stopped or cut off, then run again: finished parts are kept"))
        paused = {address: worker for address, worker in workers.items() if worker["status"] == "paused"}
        if paused:
            address, worker = max(paused.items(), key=lambda item: item[1]["metrics"].get("memory", 0))
            held = worker["metrics"].get("memory", 0)
            limit = worker["memory_limit"] or 0
            return ClusterError(explain(
                f"all {len(workers)} workers at {place} have been paused {long}",
                why=f"a worker begins no task above its share of the memory limit, and NumPy's memory cannot be "
                    f"spilled: {address} holds {held / 2**20:,.0f} MiB of {limit / 2**20:,.0f}",
                fix="give workers more memory or lower memory_budget, and set distributed.worker.memory.pause: false; "
                    "then run again: finished parts are kept"))
        gone = ("all workers of the scheduler at {} have been gone {}" if self._had_workers else
                "no worker has come to the scheduler at {} {}").format(place, long)
        return ClusterError(explain(
            gone, why="tasks wait for a worker", fix="see the workers' logs, start workers, then run again: finished "
                                                     "parts are kept"))

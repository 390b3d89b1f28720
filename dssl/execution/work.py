"""A thread of the driver's own work, which may run tasks on workers meanwhile."""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Any

from ..storage.write_behind import settle
from .threads import on_one_thread


class Work(threading.Thread):
    """Calls a function.

    done : receives the result, or the exception, once all that the function wrote is stored. stopped : once it is set,
    the thread runs no more tasks. Neither is held when the thread has ended.
    """

    def __init__(self, work: Callable[[], Any], done: Future[Any], stopped: threading.Event):
        # Neither an error elsewhere nor the end of this process waits for it.
        super().__init__(name="dssl-work", daemon=True)
        self._given = [(work, done)]
        self.stopped = stopped

    def run(self) -> None:
        work, done = self._given.pop()
        try:
            answer = on_one_thread(work)()
            settle(removals=True)  # which no other thread could wait for
            done.set_result(answer)
        except BaseException as error:
            done.set_exception(error)

    @staticmethod
    def heed() -> None:
        """Raise CancelledError if this thread has been stopped."""
        thread = threading.current_thread()
        if isinstance(thread, Work) and thread.stopped.is_set():
            raise CancelledError("the computation that needed this has ended")

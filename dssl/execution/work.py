"""Work of this process that takes place in another thread, and may run tasks on workers."""

import threading
from collections.abc import Callable
from concurrent.futures import CancelledError, Future
from typing import Generic, TypeVar

from ..storage.write_behind import settle
from .threads import on_one_thread

Answer = TypeVar("Answer")


class Work(threading.Thread, Generic[Answer]):
    """A thread that calls a function.

    done : receives the result, or the exception, once all that the function wrote is stored. stopped : once it is set,
    the thread runs no more tasks.
    """

    def __init__(self, work: Callable[[], Answer]):
        # Neither an error elsewhere nor the end of this process waits for it.
        super().__init__(name="dssl-work", daemon=True)
        self.done: Future[Answer] = Future()
        self.stopped = threading.Event()
        self._work = work

    def run(self) -> None:
        try:
            answer = on_one_thread(self._work)()
            settle(removals=True)  # which no other thread could wait for
            self.done.set_result(answer)
        except BaseException as error:
            self.done.set_exception(error)

    @staticmethod
    def heed() -> None:
        """Raise CancelledError if this thread has been stopped."""
        thread = threading.current_thread()
        if isinstance(thread, Work) and thread.stopped.is_set():
            raise CancelledError("the computation that needed this has ended")

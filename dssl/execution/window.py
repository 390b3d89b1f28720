"""A few tasks under way at a time, and waiting for them so that an interrupt breaks no lock."""

import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Self

from ..base.errors import raise_preempted, raise_terminated
from ..storage.blocks import Receipt
from .tasks import Task

LOOK_EVERY = 1.0  # seconds between two looks at whether tasks may and can go on
# What raises KeyboardInterrupt when a signal comes; the latter two where the command line has set them.
RAISED_BY: dict[int, Callable[[int, FrameType | None], Any]] = {
    signal.SIGINT: signal.default_int_handler, signal.SIGTERM: raise_terminated, signal.SIGUSR1: raise_preempted}


class Looks:
    """Calls a function every so many seconds, whenever it is given the chance."""

    def __init__(self, look: Callable[[], None], seconds: float = LOOK_EVERY):
        self._look = look
        self.seconds = seconds
        self._next = time.monotonic() + seconds

    def take(self) -> None:
        """Look, unless that was a moment ago."""
        if time.monotonic() >= self._next:
            self._look()
            self._next = time.monotonic() + self.seconds


class Finished:
    """A queue on which one thread waits for what finishes in others; while it is open, `get` raises KeyboardInterrupt.

    Python raises it between any two steps of the main thread, also within `threading.Condition.wait`, between giving a
    lock back and taking it again: then another thread fails with "release unlocked lock" and prints its traceback, or
    waits forever. So the first SIGINT only wakes `get`; a second one is raised wherever the main thread is. SIGTERM is
    treated alike where it raises `Terminated`.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()  # written in C: its `put` may be called by a signal's handler
        self._interrupted_by: int | None = None
        self._deferred: list[int] = []

    def __enter__(self) -> Self:
        # Only the main thread has handlers; one that somebody else has set stays.
        if threading.current_thread() is threading.main_thread():
            self._deferred = [number for number, handler in RAISED_BY.items() if signal.getsignal(number) is handler]
        for number in self._deferred:
            signal.signal(number, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, *rest: object) -> None:
        self._defer_no_more()
        if kind is None:
            self.heed()

    def _defer_no_more(self) -> None:
        for number in self._deferred:
            signal.signal(number, RAISED_BY[number])

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._defer_no_more()
        self._interrupted_by = number
        self._queue.put(None)

    def put(self, item: Any) -> None:
        """Add what has finished; from any thread."""
        self._queue.put(item)

    def get(self, seconds: float | None = None) -> Any:
        """Return what has finished first, None if nothing has in some seconds; raise KeyboardInterrupt if one came."""
        item = None
        if self._interrupted_by is None:
            with suppress(Empty):
                item = self._queue.get(timeout=seconds)
        self.heed()
        return item

    def heed(self) -> None:
        """Raise KeyboardInterrupt if one has come."""
        if self._interrupted_by is not None:
            RAISED_BY[self._interrupted_by](self._interrupted_by, None)


def run_in_window(pending: list[tuple[int, Task]], size: int, submit: Callable[[int, Task], Any],
                  done: Callable[[int, Receipt], None], running: dict[Any, int], finished: Finished,
                  look: Callable[[], None], stored: Callable[[Any, int], Receipt | None] | None = None,
                  look_every: float = LOOK_EVERY) -> None:
    """Submit tasks so that `size` of them are under way, and report each receipt as it arrives.

    submit : returns a future with `add_done_callback`. running : the futures under way with their numbers, for the
    caller to cancel when an error is raised. finished : where they arrive. look : called about every `look_every`
    seconds, and raises to end it. stored : returns the receipt of a future that has finished, where it need not be
    asked for it.
    """
    queue = iter(pending)
    looks = Looks(look, look_every)

    def start(most: int) -> None:
        for index, task in islice(queue, most):
            future = submit(index, task)
            running[future] = index
            future.add_done_callback(finished.put)

    start(size)
    while running:
        future = finished.get(looks.seconds)
        looks.take()
        if future is not None:
            receipt = stored(future, running[future]) if stored else None
            if receipt is None:
                receipt = _result(future, finished, looks)
            done(running.pop(future), receipt)
            start(1)


def _result(future: Any, finished: Finished, looks: Looks) -> Receipt:
    """Return a result, for which there is another wait where its worker died before it was asked for."""
    while True:
        try:
            return future.result(timeout=looks.seconds)
        except TimeoutError:
            if getattr(future, "status", "error") == "error":  # the task's own
                raise
        finished.heed()
        looks.take()

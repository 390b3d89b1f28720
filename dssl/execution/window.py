"""A window of running tasks, and a wait for them in which an interrupt breaks no lock."""

import signal
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Protocol, Self, TypeVar

from ..base.signals import RAISING
from ..storage.blocks import Receipt
from .tasks import Placed

LOOK_EVERY = 1.0  # seconds between two checks whether tasks may and can continue
KINDS = signal.SIGINT, signal.SIGTERM, signal.SIGUSR1


class Pending(Protocol):
    """A future, of a thread of this process or of a worker."""

    def result(self, timeout: float | None = None) -> Receipt: ...

    def add_done_callback(self, done: Callable[[Any], object], /) -> None: ...


Awaited = TypeVar("Awaited", bound=Pending)


class Looks:
    """Calls a function at most every so many `seconds`."""

    def __init__(self, look: Callable[[], None], seconds: float = LOOK_EVERY):
        self._look = look
        self.seconds = seconds
        self._next = time.monotonic() + seconds

    def take(self) -> None:
        """Call the function unless that was less than `seconds` ago."""
        if time.monotonic() >= self._next:
            self._look()
            self._next = time.monotonic() + self.seconds


class Finished:
    """A queue on which one thread waits for the results of others; while it is open, `get` raises KeyboardInterrupt.

    Python raises KeyboardInterrupt between any two instructions of the main thread, even within
    `threading.Condition.wait`, between releasing a lock and acquiring it again. Another thread then fails with "release
    unlocked lock" or waits forever. So the first SIGINT only wakes `get`; a second one is raised wherever the main
    thread is. SIGTERM and SIGUSR1 are treated the same way if they raise `Terminated` and `Preempted`.
    """

    def __init__(self) -> None:
        self._queue: SimpleQueue[Any] = SimpleQueue()  # written in C, so a signal handler may call its `put`
        self._interrupted_by: int | None = None
        self._deferred: dict[int, Any] = {}  # the handlers by signal

    def __enter__(self) -> Self:
        # Only the main thread has handlers; handlers of other libraries stay in place.
        if threading.current_thread() is threading.main_thread():
            self._deferred = {number: handler for number in KINDS if (handler := signal.getsignal(number)) in RAISING}
        for number in self._deferred:
            signal.signal(number, self._interrupt)
        return self

    def __exit__(self, kind: type[BaseException] | None, *details: object) -> None:
        self._defer_no_more()
        if kind is None:
            self.heed()

    def _defer_no_more(self) -> None:
        for number, handler in self._deferred.items():
            signal.signal(number, handler)

    def _interrupt(self, number: int, frame: FrameType | None) -> None:
        self._defer_no_more()
        self._interrupted_by = number
        self._queue.put(None)

    def put(self, item: object) -> None:
        """Add a finished item; callable from any thread."""
        self._queue.put(item)

    def get(self, seconds: float | None = None) -> Any:
        """Return the first finished item, None after `seconds`; raise KeyboardInterrupt if a signal has arrived."""
        item = None
        if self._interrupted_by is None:
            with suppress(Empty):
                item = self._queue.get(timeout=seconds)
        self.heed()
        return item

    def heed(self) -> None:
        """Raise KeyboardInterrupt if a signal has arrived."""
        if self._interrupted_by is not None:
            self._deferred[self._interrupted_by](self._interrupted_by, None)


def run_in_window(pending: Iterable[Placed], size: int, submit: Callable[[Placed], Awaited],
                  done: Callable[[Placed, Receipt], list[Placed]], running: dict[Awaited, Placed], finished: Finished,
                  look: Callable[[], None], stored: Callable[[Awaited, Placed], Receipt | None] | None = None,
                  look_every: float = LOOK_EVERY) -> None:
    """Keep `size` tasks submitted until all are done.

    submit : returns a future with `add_done_callback`. done : receives each receipt as it arrives, and returns tasks
    that are submitted next. running : the submitted futures, which the caller cancels if an error is raised. finished :
    receives finished futures. look : called about every `look_every` seconds; raises to stop. stored : returns the
    receipt of a finished future if it can be read without the future's worker.
    """
    queue = deque(pending)
    looks = Looks(look, look_every)

    def start() -> None:
        while queue and len(running) < size:
            placed = queue.popleft()
            future = submit(placed)
            running[future] = placed
            future.add_done_callback(finished.put)

    start()
    while running:
        future = finished.get(looks.seconds)
        looks.take()
        if future is not None:
            receipt = stored(future, running[future]) if stored else None
            if receipt is None:
                receipt = _result(future, finished, looks)
            queue.extendleft(reversed(done(running.pop(future), receipt)))
            start()


def _result(future: Pending, finished: Finished, looks: Looks) -> Receipt:
    """Return the result of a future; waits again if the worker died before it could send the result."""
    while True:
        try:
            return future.result(timeout=looks.seconds)
        except TimeoutError:
            if getattr(future, "status", "error") == "error":  # the task's own
                raise
        finished.heed()
        looks.take()

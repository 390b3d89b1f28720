"""Signals while something must not be interrupted. Only the main thread has handlers; in others nothing changes."""

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

ENDING = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP")  # the last one is not on Windows
               if name in signal.Signals.__members__)


@contextmanager
def signals_deferred(deferred: Sequence[signal.Signals] = ENDING) -> Iterator[None]:
    """Defer signals that end this process (Ctrl-C, SIGTERM, a terminal that closes) to the end of the body."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before: dict[signal.Signals, Any] = {}
    try:
        for kind in deferred:
            before[kind] = signal.signal(kind, lambda number, frame: received.append(number))
        yield
    finally:
        for kind, handler in before.items():
            signal.signal(kind, handler or signal.SIG_DFL)  # None is a handler that Python did not set
    if received:
        signal.raise_signal(received[0])


@contextmanager
def interrupts_ignored() -> Iterator[None]:
    """Ignore SIGINT for a while; processes that are started meanwhile ignore it for good.

    A terminal sends SIGINT to all of them. The command ends its workers itself, and their tracebacks would not help.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

"""Signals that end a command: as exceptions that are not lost, and deferred while something must not be interrupted.

Only the main thread has handlers; in others only `interrupts_not_inherited` does something.
"""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

from .errors import Preempted, Terminated

ENDING = tuple(signal.Signals[name] for name in ("SIGINT", "SIGTERM", "SIGHUP")  # the last one is not on Windows
               if name in signal.Signals.__members__)
_arrived: list[KeyboardInterrupt] = []  # what the handlers below have raised


def _raise(error: KeyboardInterrupt) -> None:
    _arrived.append(error)
    raise error


def raise_interrupted(number: int, frame: FrameType | None) -> None:
    """Raise KeyboardInterrupt; a handler of SIGINT."""
    _raise(KeyboardInterrupt())


def raise_terminated(number: int, frame: FrameType | None) -> None:
    """Raise Terminated; a handler of SIGTERM."""
    _raise(Terminated())


def raise_preempted(number: int, frame: FrameType | None) -> None:
    """Raise Preempted; a handler of SIGUSR1."""
    _raise(Preempted())


# The handlers that raise KeyboardInterrupt; the command line installs all but the first.
RAISING: tuple[Callable[[int, FrameType | None], object], ...] = (
    signal.default_int_handler, raise_interrupted, raise_terminated, raise_preempted)


def heed_signals() -> None:
    """Raise again what the handler of a signal raised, where that was lost.

    Python drops exceptions of callbacks of its garbage collector and of finalizers, in which a handler may run, too.
    """
    if _arrived and threading.current_thread() is threading.main_thread():
        raise _arrived[0]


@contextmanager
def signals_raised() -> Iterator[None]:
    """Make SIGTERM raise `Terminated`, and SIGINT what `heed_signals` raises again, unless other handlers are set."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    wanted = {signal.SIGINT: (signal.default_int_handler, raise_interrupted),
              signal.SIGTERM: (signal.SIG_DFL, raise_terminated)}
    before = {number: usual for number, (usual, _) in wanted.items() if signal.getsignal(number) is usual}
    for number in before:
        signal.signal(number, wanted[number][1])
    try:
        yield
    finally:
        for number, usual in before.items():
            signal.signal(number, usual)
        _arrived.clear()


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
def interrupts_not_inherited() -> Iterator[None]:
    """Block SIGINT in this thread for a while; processes and threads that it starts meanwhile block it for good.

    A terminal sends SIGINT to all of its processes. The command ends its workers itself, and their tracebacks would not
    help. Signals that end this process are deferred meanwhile.
    """
    from multiprocessing import resource_tracker  # most commands start no process

    resource_tracker.ensure_running()  # unblocks SIGINT when it starts its process, which it does before any other
    with signals_deferred():
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

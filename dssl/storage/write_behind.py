"""Background writes and removals of objects, so that a thread need not wait for each round trip to the store.

A thread that needs an object waits for it (`wait_for`), whichever thread writes it. Before a thread announces that
something is finished, in an object or to another process, it waits for everything that it has written (`settle`);
before it lists objects, also for its removals. Folders are removed one after the other, in the order of the calls.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from threading import Lock, local

AT_ONCE = 16  # concurrent requests
LARGEST_BEHIND = 1 << 18  # bytes; transferring a larger object takes longer than the round trip
MAX_BEHIND = 32  # pending objects per thread

_UNDER_WAY: dict[str, "Future[None]"] = {}  # pending writes by path
_REMOVED: "dict[Future[None], str]" = {}  # the folders that are being removed
_LOCK = Lock()


class ThreadWork(local):
    """The pending writes and removals of a thread."""

    def __init__(self) -> None:
        self.writes: list[Future[None]] = []
        self.removals: list[Future[None]] = []


_PENDING = ThreadWork()


@cache
def writers() -> ThreadPoolExecutor:
    """Return the pool of writing threads."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="dssl-store")


@cache
def remover() -> ThreadPoolExecutor:
    """Return the removing thread, which waits for no other thread, so that waiting for it cannot deadlock."""
    return ThreadPoolExecutor(1, thread_name_prefix="dssl-remover")


def write_behind(path: Path, write: Callable[[], object], *, last: bool = False) -> None:
    """Call a function that writes an object in the background, after earlier writes to the same path.

    last : whether to write only after all pending writes of this thread, and not at all if one of them fails.
    """
    name = str(path)
    if len(_PENDING.writes) >= MAX_BEHIND:
        settle()
    before = tuple(_PENDING.writes) if last else ()

    def job() -> None:
        try:
            for earlier in before:  # they were submitted earlier, so they do not wait for this one
                earlier.result()
            write()
        finally:
            with _LOCK:
                del _UNDER_WAY[name]

    while True:
        wait_for(path)
        with _LOCK:
            if name not in _UNDER_WAY:
                _UNDER_WAY[name] = future = writers().submit(job)
                break
    _PENDING.writes.append(future)


def remove_behind(folder: Path, remove: Callable[[], object]) -> None:
    """Call a function that removes all objects below a folder, in the background."""
    settle()

    def job() -> None:
        try:
            remove()
        finally:
            with _LOCK:
                del _REMOVED[future]

    with _LOCK:
        future = remover().submit(job)
        _REMOVED[future] = f"{folder}/"
    _PENDING.removals.append(future)


def wait_for(path: Path) -> None:
    """Wait for a pending write or removal of an object; an error is raised in the thread that started it."""
    wait_for_removal(path)
    future = _UNDER_WAY.get(str(path))
    if future is not None:
        wait([future])


def wait_for_removal(path: Path) -> None:
    """Wait for the pending removal of a folder that contains an object."""
    name = str(path)
    with _LOCK:
        pending = [future for future, folder in _REMOVED.items() if name.startswith(folder)]
    wait(pending)


def settle(*, removals: bool = False) -> None:
    """Wait for all pending writes of this thread, and for its removals if asked to; raise the first error.

    The error of a finished removal is raised in any case.
    """
    removed = [future for future in _PENDING.removals if removals or future.done()]
    pending = [*_PENDING.writes, *removed]
    _PENDING.writes = []
    _PENDING.removals = [future for future in _PENDING.removals if future not in removed]
    wait(pending)
    for future in pending:
        future.result()

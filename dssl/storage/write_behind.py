"""Objects that are written and removed while a thread goes on, since each takes a way to the store and back.

Who wants one waits for it (`wait_for`), in whatever thread; before a thread says that something is finished, in an
object of its own or to another process, it waits for all that it has written (`settle`), and before it looks what there
is, for what it has removed too. Folders are removed one after the other, in the order in which that was asked for.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from threading import Lock, local

AT_ONCE = 16  # requests that wait for a store
LARGEST_BEHIND = 1 << 18  # bytes of an object; of a larger one the bytes take longer than the way
MAX_BEHIND = 32  # objects that a thread has under way

_UNDER_WAY: dict[str, "Future[None]"] = {}  # by the path of what is written
_REMOVED: "dict[Future[None], str]" = {}  # the folders that are removed
_LOCK = Lock()


class ThreadWork(local):
    """What a thread has begun and not yet asked for."""

    def __init__(self) -> None:
        self.writes: list[Future[None]] = []
        self.removals: list[Future[None]] = []


_MINE = ThreadWork()


@cache
def writers() -> ThreadPoolExecutor:
    """Return the threads that write."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="dssl-store")


@cache
def remover() -> ThreadPoolExecutor:
    """Return the thread that removes; it waits for no other, so that those who wait for it do not wait for ever."""
    return ThreadPoolExecutor(1, thread_name_prefix="dssl-remover")


def write_behind(path: Path, write: Callable[[], object], *, last: bool = False) -> None:
    """Call a function that writes an object, and go on meanwhile; another one of this path is waited for.

    last : whether it is called when all is written that this thread has under way, and not at all if some of it fails.
    """
    name = str(path)
    if len(_MINE.writes) >= MAX_BEHIND:
        settle()
    before = tuple(_MINE.writes) if last else ()

    def job() -> None:
        try:
            for other in before:  # begun earlier, so that they do not wait for this one
                other.result()
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
    _MINE.writes.append(future)


def remove_behind(folder: Path, remove: Callable[[], object]) -> None:
    """Call a function that removes all objects below a folder, and go on meanwhile."""
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
    _MINE.removals.append(future)


def wait_for(path: Path) -> None:
    """Wait until an object is written or removed, if that is under way; the thread that began it gets the error."""
    wait_for_removal(path)
    future = _UNDER_WAY.get(str(path))
    if future is not None:
        wait([future])


def wait_for_removal(path: Path) -> None:
    """Wait until a folder is removed that an object is in, if that is under way."""
    name = str(path)
    with _LOCK:
        pending = [future for future, folder in _REMOVED.items() if name.startswith(folder)]
    wait(pending)


def settle(*, removals: bool = False) -> None:
    """Wait for all that this thread has under way, and for what it removes if asked to; raise the first error.

    The error of a removal that has failed is raised in any case.
    """
    removed = [future for future in _MINE.removals if removals or future.done()]
    pending = [*_MINE.writes, *removed]
    _MINE.writes = []
    _MINE.removals = [future for future in _MINE.removals if future not in removed]
    wait(pending)
    for future in pending:
        future.result()

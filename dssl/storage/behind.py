"""Objects that are written and removed while a thread goes on, since each takes a way to the store and back.

Who wants one waits for it (`wait_for`), in whatever thread; before a thread says that something is finished, in an
object of its own or to another process, it waits for all that it has written (`settle`), and before it looks what there
is, for what it has removed too.
"""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from pathlib import Path
from threading import Lock, local

AT_ONCE = 16  # requests that wait for a store
LARGEST_BEHIND = 1 << 18  # bytes of an object; of a larger one the bytes take longer than the way
MOST_BEHIND = 32  # objects that a thread has under way

_UNDER_WAY: dict[str, "Future[None]"] = {}
_REMOVED: dict[str, "Future[None]"] = {}  # folders
_LOCK = Lock()
_OWN = local()


@cache
def pool() -> ThreadPoolExecutor:
    """Return the threads that wait for a store."""
    return ThreadPoolExecutor(AT_ONCE, thread_name_prefix="dssl-store")


def write_behind(path: Path, write: Callable[[], object]) -> None:
    """Call a function that writes an object, and go on meanwhile; another one of this path is waited for."""
    wait_for(path)
    own: list[Future[None]] = _OWN.__dict__.setdefault("writes", [])
    if len(own) >= MOST_BEHIND:
        settle()

    own.append(_begun(_UNDER_WAY, str(path), write))


def remove_behind(folder: Path, remove: Callable[[], object]) -> None:
    """Call a function that removes all objects below a folder, and go on meanwhile."""
    settle()
    removals: list[Future[None]] = _OWN.__dict__.setdefault("removals", [])
    removals.append(_begun(_REMOVED, f"{folder}/", remove))


def _begun(under_way: "dict[str, Future[None]]", name: str, act: Callable[[], object]) -> "Future[None]":
    def job() -> None:
        try:
            act()
        finally:
            with _LOCK:
                del under_way[name]

    with _LOCK:
        under_way[name] = future = pool().submit(job)
    return future


def wait_for(path: Path) -> None:
    """Wait until an object is written or removed, if that is under way; if it fails, the thread that began is told."""
    wait_for_removal(path)
    future = _UNDER_WAY.get(str(path))
    if future is not None:
        wait([future])


def wait_for_removal(path: Path) -> None:
    """Wait until a folder is removed that an object is in, if that is under way."""
    name = str(path)
    with _LOCK:
        pending = [future for folder, future in _REMOVED.items() if name.startswith(folder)]
    wait(pending)


def settle(*, removals: bool = False) -> None:
    """Wait for all that this thread has under way, and for what it removes if asked to; raise the first error."""
    for kind in ("writes", "removals") if removals else ("writes",):
        own: list[Future[None]] = _OWN.__dict__.setdefault(kind, [])
        pending, own[:] = own[:], []
        wait(pending)
        for future in pending:
            future.result()

"""How many threads a process uses, and the limit of one that makes results the same to the last bit."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from threading import Lock
from typing import Any, ParamSpec, TypeVar

from threadpoolctl import OpenBLASController, ThreadpoolController

Answer = TypeVar("Answer")
Given = ParamSpec("Given")

_LIMITED = Lock()
_LIMITS: list[tuple[int, Any]] = []  # that hold, with the number of modules that were loaded
_INSIDE = [0]  # contexts of all threads


@contextmanager
def one_thread() -> Iterator[None]:
    """Let BLAS use one core, as in a task, so that results are the same to the last bit.

    Many small products are slower on several cores too: threads that wait for one another take turns with whatever else
    the machine runs. The limit is of the process: it ends with the last of the contexts that its threads are in.
    """
    with _LIMITED:
        if not _LIMITS or _LIMITS[-1][0] != len(sys.modules):  # libraries loaded since have no limit yet
            _free_control()
            _LIMITS.append((len(sys.modules), _thread_pools(len(sys.modules)).limit(limits=1)))
        _INSIDE[0] += 1
    try:
        yield
    finally:
        with _LIMITED:
            _INSIDE[0] -= 1
            while not _INSIDE[0] and _LIMITS:
                _free_control()
                _LIMITS.pop()[1].restore_original_limits()


def _free_control() -> None:
    """Let this thread set limits, also where another one set the last: threadpoolctl ignores it without a word."""
    clear = getattr(OpenBLASController, "clear_controlling_thread", None)  # of newer versions, which have that rule
    if clear is not None:
        clear(force=True)


def on_one_thread(method: Callable[Given, Answer]) -> Callable[Given, Answer]:
    """Return a method that runs in the context `one_thread`."""
    @wraps(method)
    def limited(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        with one_thread():
            return method(*args, **kwargs)

    return limited


@lru_cache(maxsize=1)
def _thread_pools(modules: int) -> ThreadpoolController:
    """Return the thread pools of loaded libraries; the search takes 8 ms, and repeats after further imports."""
    return ThreadpoolController()


def available_cores() -> int:
    """Return the number of cores this process may use: of its affinity, and of the quota of its container."""
    from joblib import cpu_count  # scikit-learn's count; what needs no tasks starts without it

    return int(cpu_count())

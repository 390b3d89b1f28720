"""Peak memory of one piece of work: how far the resident size of this process rose while it ran (Linux).

The kernel keeps one high-water mark a process. A measure that begins resets it, after every measure that is open has
noted how high it stood, so that measures may be nested and may overlap. Work that runs beside other work, in threads
of one process, cannot be separated from it: its measure is that of the process.

Libraries and compiled kernels are not the work's: who comes first loads them, and all that follow have them. What grows
while they are loaded is left out, and belongs to what a process holds before any work.
"""

import ctypes
import sys
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import psutil

CLEAR = Path("/proc/self/clear_refs")
STATUS = Path("/proc/self/status")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)
M_TRIM_THRESHOLD, TRIM_BYTES = -1, 1 << 16  # the size that distributed sets for its workers
M_MMAP_THRESHOLD, MAPPED_BYTES = -3, 1 << 17  # of a block from which on it is mapped by itself, as a process begins


class PeakMemory:
    """A context: `bytes` is how far the resident size rose above its start, None where the system cannot tell.

    Memory that was freed before and not given back is given back first, or work would seem to need none.
    """

    _open: ClassVar[list["PeakMemory"]] = []
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _ever: ClassVar[int] = 0  # the highest mark of this process: each reset forgets it
    _loading: ClassVar[int] = 0  # how many loads are under way, in all threads
    _held: ClassVar[int] = 0  # bytes when the first of them began

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._before: int | None = None
        self._highest = 0

    def __enter__(self) -> Self:
        _hear_of_compilations()
        with self._lock:
            self._note()
            _give_back()
            try:
                CLEAR.write_text(RESET_PEAK)
            except OSError:  # another system, or a container that forbids it
                return self
            self._before = _resident()
            self._open.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            if self._before is not None:
                self._note()
                self._open.remove(self)
                self.bytes = max(0, self._highest - self._before)

    @classmethod
    def begin_loading(cls, *event: Any) -> None:
        """Note how high the mark stands: what it is while something is loaded is not of the work."""
        with cls._lock:
            cls._loading += 1
            if cls._loading == 1:
                cls._note()
                cls._held = _resident()

    @classmethod
    def end_loading(cls, *event: Any) -> None:
        """Forget how high the mark stood meanwhile, and take what stays for what was there before."""
        with cls._lock:
            cls._loading -= 1
            if cls._loading or not cls._open:
                return
            cls._ever = max(cls._ever, _mark())
            _give_back()
            CLEAR.write_text(RESET_PEAK)
            for measure in cls._open:
                measure._before = (measure._before or 0) + max(0, _resident() - cls._held)

    @classmethod
    def _note(cls) -> None:
        """Have every open measure note the high-water mark."""
        mark = _mark()
        cls._ever = max(cls._ever, mark)
        for measure in cls._open:
            measure._highest = max(measure._highest, mark)


def library(name: str) -> Any:
    """Return a module that is imported where it is used, since it takes seconds; outside of every measure."""
    if name in sys.modules:
        return import_module(name)
    PeakMemory.begin_loading()
    try:
        return import_module(name)
    finally:
        PeakMemory.end_loading()


@cache
def _hear_of_compilations() -> None:
    """Have Numba tell when it compiles a kernel, or loads one from its cache."""
    from numba.core import event  # a fifth of a second, which who measures nothing does without

    class Compilations(event.Listener):
        on_start = PeakMemory.begin_loading
        on_end = PeakMemory.end_loading

    event.register("numba:compiler_lock", Compilations())


def process_peak() -> int:
    """Return the most bytes that this process has held at a time."""
    with PeakMemory._lock:
        PeakMemory._note()
        return PeakMemory._ever


def _mark() -> int:
    """Return the high-water mark of this process (bytes), 0 where the system has none.

    `ru_maxrss` is another: it begins at what the process that started this one held, and is never reset below it.
    """
    with suppress(OSError):
        for line in STATUS.read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _resident() -> int:
    return psutil.Process().memory_info().rss


def return_freed_memory() -> None:
    """Have the C library return memory to the system when it is freed, as it does in Dask's workers; glibc only.

    Left alone it keeps up to 64 MB a thread for later, which nobody planned and nobody can measure. And once a large
    array was freed, it no longer maps smaller ones by themselves: what is freed between others then stays, so that a
    step took up to 10 MB more than its arrays, by what had run before.
    """
    library = _glibc()
    if library is not None:
        library.mallopt(M_TRIM_THRESHOLD, TRIM_BYTES)
        library.mallopt(M_MMAP_THRESHOLD, MAPPED_BYTES)
        library.malloc_trim(0)


def _give_back() -> None:
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None

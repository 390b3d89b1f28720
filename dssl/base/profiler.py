"""Peak memory of one piece of work: how far the resident size of this process rose while it ran (Linux).

Linux keeps one high-water mark per process. A profiler resets it when it starts, after every open profiler has noted
its current height, so profilers may be nested and may overlap. Threads of one process cannot be told apart: a profiler
measures the whole process.

The memory of libraries and compiled kernels does not count as work: whoever comes first loads them for all that follow.
Growth while they load is excluded, and counts as memory that a process holds before any work.
"""

import ctypes
import mmap
import sys
import threading
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

CLEAR = Path("/proc/self/clear_refs")
STATUS, SIZES = Path("/proc/self/status"), Path("/proc/self/statm")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)
# Freed memory below these sizes is used again. The pages of every array were cleared anew, which took half of the
# processor time of predictions.
M_TRIM_THRESHOLD, TRIM_BYTES = -1, 4 << 20  # at the top of the heap of a thread
M_MMAP_THRESHOLD, MAPPED_BYTES = -3, 1 << 20  # of an array, which is mapped alone if it is larger


class PeakMemory:
    """A context manager; `bytes` is the rise of the resident size, None where the system cannot tell.

    Memory that was freed earlier is returned to the system first; otherwise work could reuse it and seem to need none.
    """

    _open: ClassVar[list["PeakMemory"]] = []
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _ever: ClassVar[int] = 0  # the highest mark of this process, which each reset erases
    _loading: ClassVar[int] = 0  # the number of libraries being loaded, in all threads
    _held: ClassVar[int] = 0  # bytes when the first of them began to load

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._before: int | None = None
        self._highest = 0

    def __enter__(self) -> Self:
        _listen_to_numba()
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
    def begin_loading(cls, *event: object) -> None:
        """Note the mark before a library is loaded: growth while it loads is not work."""
        with cls._lock:
            cls._loading += 1
            if cls._loading == 1:
                cls._note()
                cls._held = _resident()

    @classmethod
    def end_loading(cls, *event: object) -> None:
        """Reset the mark after a library was loaded, and count what it keeps as present before the work."""
        with cls._lock:
            cls._loading -= 1
            if cls._loading or not cls._open:
                return
            cls._ever = max(cls._ever, _mark())
            _give_back()
            CLEAR.write_text(RESET_PEAK)
            for profiler in cls._open:
                profiler._before = (profiler._before or 0) + max(0, _resident() - cls._held)

    @classmethod
    def _note(cls) -> None:
        """Let every open profiler note the high-water mark."""
        mark = _mark()
        cls._ever = max(cls._ever, mark)
        for profiler in cls._open:
            profiler._highest = max(profiler._highest, mark)


def library(name: str) -> Any:
    """Import a slow module where it is first used, without counting its memory in any open profiler."""
    if name in sys.modules:
        return import_module(name)
    PeakMemory.begin_loading()
    try:
        return import_module(name)
    finally:
        PeakMemory.end_loading()


@cache
def _listen_to_numba() -> None:
    """Exclude the time in which Numba compiles a kernel or loads one from its cache."""
    from numba.core import event  # takes a fifth of a second; imported only if something is measured

    class Compilations(event.Listener):
        on_start = PeakMemory.begin_loading
        on_end = PeakMemory.end_loading

    event.register("numba:compiler_lock", Compilations())


def process_peak() -> int:
    """Return the peak resident size of this process so far (bytes)."""
    with PeakMemory._lock:
        PeakMemory._note()
        return PeakMemory._ever


def _mark() -> int:
    """Return the high-water mark of this process (bytes), 0 where the system has none.

    `ru_maxrss` would not do: it starts at the size of the parent process and cannot be reset below that.
    """
    with suppress(OSError):
        for line in STATUS.read_bytes().splitlines():
            if line.startswith(b"VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


def _resident() -> int:
    """Return the resident size of this process (bytes), 0 where the system does not say."""
    with suppress(OSError):
        return int(SIZES.read_bytes().split()[1]) * mmap.PAGESIZE
    return 0


def return_freed_memory() -> None:
    """Let the C library return freed memory above a few megabytes to the system at once; glibc only.

    By default it keeps up to 64 MB per thread, which no plan accounts for. It also raises its mapping threshold once a
    large array was freed, so that smaller arrays leave holes in the heap: a step then took up to 10 MB more than its
    arrays, depending on what had run before.
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

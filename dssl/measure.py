"""Peak memory of one piece of work: how far the resident size of this process rose while it ran (Linux).

The kernel keeps one high-water mark a process. A measure that begins resets it, after every measure that is open has
noted how high it stood, so that measures may be nested and may overlap. Work that runs beside other work, in threads
of one process, cannot be told from it: its measure is that of the process.
"""

import ctypes
import resource
import threading
from functools import cache
from pathlib import Path
from typing import ClassVar, Self

import psutil

CLEAR = Path("/proc/self/clear_refs")
RESET_PEAK = "5"  # see proc_pid_clear_refs(5)
M_TRIM_THRESHOLD, TRIM_BYTES = -1, 1 << 16  # the size that distributed sets for its workers


class PeakMemory:
    """A context: `bytes` is how far the resident size rose above its start, None where the system cannot tell.

    Memory that was freed before and not given back is given back first, or work would seem to need none.
    """

    _open: ClassVar[list["PeakMemory"]] = []
    _lock: ClassVar[threading.Lock] = threading.Lock()
    _ever: ClassVar[int] = 0  # the highest mark of this process: each reset forgets it

    def __init__(self) -> None:
        self.bytes: int | None = None
        self._before: int | None = None
        self._highest = 0

    def __enter__(self) -> Self:
        with self._lock:
            self._note()
            _give_back()
            try:
                CLEAR.write_text(RESET_PEAK)
                self._before = psutil.Process().memory_info().rss
            except OSError:  # another system, or a container that forbids it
                return self
            self._open.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        with self._lock:
            if self._before is not None:
                self._note()
                self._open.remove(self)
                self.bytes = max(0, self._highest - self._before)

    @classmethod
    def _note(cls) -> None:
        """Have every open measure note the high-water mark."""
        mark = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        cls._ever = max(cls._ever, mark)
        for measure in cls._open:
            measure._highest = max(measure._highest, mark)


def process_peak() -> int:
    """Return the most bytes that this process has held at a time."""
    with PeakMemory._lock:
        PeakMemory._note()
        return PeakMemory._ever


def return_freed_memory() -> None:
    """Have the C library return memory to the system when it is freed, as it does in Dask's workers; glibc only.

    Left alone it keeps up to 64 MB a thread for later, which nobody planned and nobody can measure.
    """
    library = _glibc()
    if library is not None:
        library.mallopt(M_TRIM_THRESHOLD, TRIM_BYTES)
        library.malloc_trim(0)


def _give_back() -> None:
    library = _glibc()
    if library is not None:
        library.malloc_trim(0)


@cache
def _glibc() -> ctypes.CDLL | None:
    library = ctypes.CDLL(None)
    return library if hasattr(library, "malloc_trim") and hasattr(library, "mallopt") else None

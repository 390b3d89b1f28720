"""How much memory a piece of work takes, as Python and NumPy allocate it."""

import tracemalloc
from collections.abc import Callable


def traced_peak(work: Callable[[], object], expected: float) -> int:
    """Return the most bytes that `work()` holds at a time beside what was there.

    All threads of the process are traced. Where a cluster that another test started is alive, its scheduler runs here
    and takes 256 kB for a moment whenever a message comes: of a thousand measures of 10 ms 180 were too high by that,
    and none without a cluster. So what is above the `expected` bytes is measured again; a peak of the work's own stays.
    """
    peaks = []
    while not peaks or (peaks[-1] > expected and len(peaks) < 10):
        tracemalloc.start()
        try:
            work()
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
    return min(peaks)

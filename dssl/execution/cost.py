"""What a stage takes: tasks, bytes read and written, peak memory; beside each task stands the function that says it.

Bytes are those of arrays, before compression: what lies on disk is less. Coefficients that no array accounts for were
measured, and `tests/benchmarks/memory.py` measures them again.
"""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass

SMALL = 4 << 20  # what any step takes: receipts, descriptions of arrays; 30 tasks that do nothing took 0.6 MB
COMPILED = 30 << 20  # the first compiled kernels of a process; none from its second task on, so this is in between
MATRICES = 12  # (rank, rank) held at a time: Gram sums of two runs are 8, covariances and factors of LapSVC 7 to 9


@dataclass(frozen=True)
class Cost:
    """What a stage takes; memory is beside what the process holds."""

    tasks: int
    read: int  # bytes of arrays, over all tasks
    written: int
    peak: int  # bytes of the largest task, or of a step of the driver
    least: int  # that the peak can be, however small the blocks


def cost_of(tasks: int, read: float, written: float, peak: float, least: float = 0) -> Cost:
    """Return a cost whose peak leaves room for what any step takes."""
    return Cost(int(tasks), int(read), int(written), int(peak) + SMALL, int(least))


def block_count(n_rows: int, height: int) -> int:
    """Return how many blocks of this height n rows make."""
    return -(-n_rows // height)


def largest_within(budget: int, most: int, bytes_of: Callable[[int], int]) -> int:
    """Return the largest number from 1 to `most` of what takes `bytes_of` it, ascending, within a budget; or 0."""
    return bisect_right(range(1, most + 1), budget, key=bytes_of)


def rank_budget(rank: int) -> int:
    """Return the budget (bytes) of which the `MATRICES` of a rank take half; blocks and points have the other."""
    return 2 * 8 * MATRICES * rank * rank

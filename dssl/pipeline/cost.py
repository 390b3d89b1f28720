"""What a stage takes, and what the cost functions of all kinds of model share."""

from dataclasses import dataclass

import numpy as np

from ..kernels.gram import block_rows
from ..storage.blocks import ArrayRows
from ..storage.store import CHUNK_BYTES
from .facts import Facts

SMALL = 4 << 20  # what any step takes: receipts, descriptions of arrays, plans of the store
COMPILED = 30 << 20  # the first compiled kernels of a process; none from its second task on, so this is in between
CHUNKS_AT_ONCE = 10  # that the store decodes side by side, where a band of rows has several


@dataclass(frozen=True)
class Cost:
    """tasks; bytes of arrays read and written over all tasks; peak memory of the largest task or of a step of the
    driver; the least that peak can be, however small the blocks. The last two in bytes, beside what the process holds.
    """

    tasks: int
    read: int
    written: int
    peak: int
    least: int


def decoding_bytes(band_bytes: float, chunk_bytes: float) -> float:
    """Return what reading takes beside its result: a band of rows, its chunks decoded and, half as large, as stored."""
    return min(band_bytes, CHUNKS_AT_ONCE * chunk_bytes) * 1.5


def whole_bytes(nbytes: float) -> float:
    """Return what reading or writing a part's array takes beside it."""
    return min(nbytes, CHUNK_BYTES) * 1.5


def cost_of(tasks: int, read: float, written: float, peak: float, least: float = 0) -> Cost:
    return Cost(int(tasks), int(read), int(written), int(peak) + SMALL, int(least))


def count(n: int, height: int) -> int:
    return -(-n // height)


def of_those(f: Facts, found: list[Cost]) -> Cost:
    """Return the cost of one of several methods, which one is not known yet: the largest or the least figures."""
    pick = max if f.bound == "most" else min
    return Cost(*(pick(values) for values in zip(*(
        (cost.tasks, cost.read, cost.written, cost.peak, cost.least) for cost in found), strict=True)))


def scores_of(f: Facts, m: int, outputs: int, predicted: int) -> Cost:
    """Return the cost of predicting the test points with models of m points.

    A block of the kernel between test points and the points of a model, and all models; what they predict.

    outputs : columns of a model. predicted : bytes that are written a point; codes or values are 8, one-vs-rest
    models write their differences from the codes too.
    """
    d, n_test = f.width, f.n_test
    own = (len(f.spec.baselines) + 1) * m * (f.row_bytes + 8 * outputs)
    kernel = f.spec.kernels()[0].check()
    rows = ArrayRows(np.broadcast_to(np.zeros(1, f"f{f.itemsize}"), (max(n_test, 1), d)))  # a shape without bytes
    height = block_rows(kernel, rows, m, f.budget, kernel_bytes=own)
    each = 8 * m + 16 * d + f.row_bytes
    written = n_test * (predicted + 1) * (len(f.spec.baselines) + 1)
    return cost_of(count(n_test, height), n_test * f.row_bytes + own, written,
                   min(height, n_test) * each + 24 * m * d + own, 24 * m * d + own)

"""How fast this machine is beside the one on which the rates of costs were measured.

Estimates of seconds alone follow from it: nothing that is chosen, and no byte that is stored.
"""

import socket
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..base.errors import IntegrityError
from ..storage.files import read_json, write_json
from ..storage.frames import pack, unpack
from .tasks import one_thread

FILE = "speed.json"
PROBE_SECONDS = 0.1  # of each of the probes
KEPT_SECONDS = 30 * 86400  # for which a measurement holds
SIZE = 256
# Seconds that the probes take on one idle core of the machine of `execution.cost`.
REFERENCE = {"product": 7.5e-4, "kernel": 6.8e-5, "storage": 5.8e-4}


def _probes() -> dict[str, Callable[[], object]]:
    """Return what stages do most: a matrix product, values of a kernel, and a block that is stored and read."""
    X = np.random.default_rng(0).normal(size=(SIZE, SIZE))
    block = X.astype(np.float32)
    out = np.empty_like(X)

    def kernel() -> None:
        np.multiply(X, X, out=out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    # Into arrays that are there: memory from the system takes up to eight times the work, or no time, by what was
    # imported before.
    return {"product": lambda: np.matmul(X, X, out=out), "kernel": kernel,
            "storage": lambda: unpack(*pack(block), block.nbytes)}


def measure_slowness(seconds: float = PROBE_SECONDS) -> float:
    """Return how many times as long this machine takes as the one of the rates: the geometric mean of the probes.

    Each runs for so many seconds; its fastest run counts, which others on the machine have disturbed least.
    """
    ratios = []
    with one_thread():
        for name, probe in _probes().items():
            fastest = np.inf
            end = time.perf_counter() + seconds
            while time.perf_counter() < end:
                begin = time.perf_counter()
                probe()
                fastest = min(fastest, time.perf_counter() - begin)
            ratios.append(fastest / REFERENCE[name])
    return float(np.exp(np.mean(np.log(ratios))))


@lru_cache(maxsize=8)
def slowness(folder: Path) -> float:
    """Return `measure_slowness`, which is measured once on a host and kept in a folder if it can be written."""
    path = folder / FILE
    host = socket.gethostname()
    with suppress(OSError, IntegrityError, KeyError, TypeError):
        known = read_json(path)
        is_of_here = known["host"] == host and known["reference"] == REFERENCE
        if is_of_here and 0 <= time.time() - known["measured"] < KEPT_SECONDS:
            return float(known["slowness"])
    factor = measure_slowness()
    with suppress(OSError):
        record = {"host": host, "measured": time.time(), "reference": REFERENCE, "slowness": factor}
        write_json(path, record, durable=False)
    return factor

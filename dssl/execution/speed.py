"""The speed of this machine relative to the one on which the rates of `cost` were measured.

It scales estimates of seconds only; no choice of a method and no stored byte depends on it.
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
PROBE_SECONDS = 0.1  # running time of each probe
VALID_SECONDS = 30 * 86400  # a stored measurement is used for so long
SIZE = 256
# Seconds of the probes on one idle core of the reference machine of `execution.cost`.
REFERENCE = {"product": 7.5e-4, "kernel": 6.8e-5, "storage": 5.8e-4}


def _probes() -> dict[str, Callable[[], object]]:
    """Return the operations that dominate stages: a matrix product, kernel values, and storing and reading a block."""
    X = np.random.default_rng(0).normal(size=(SIZE, SIZE))
    block = X.astype(np.float32)
    out = np.empty_like(X)

    def kernel() -> None:
        np.multiply(X, X, out=out)
        np.negative(out, out=out)
        np.exp(out, out=out)

    # The outputs are allocated beforehand: fresh memory from the system can take eight times as long as the work.
    return {"product": lambda: np.matmul(X, X, out=out), "kernel": kernel,
            "storage": lambda: unpack(*pack(block), block.nbytes)}


def measure_slowness(seconds: float = PROBE_SECONDS) -> float:
    """Return the time of this machine relative to the reference machine: the geometric mean over the probes.

    Each probe repeats for `seconds`; only its fastest run counts, which other processes have disturbed least.
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
    """Return `measure_slowness`, measured once per host and stored in a folder if it is writable."""
    path = folder / FILE
    host = socket.gethostname()
    with suppress(OSError, IntegrityError, KeyError, TypeError):
        known = read_json(path)
        is_current = known["host"] == host and known["reference"] == REFERENCE
        if is_current and 0 <= time.time() - known["measured"] < VALID_SECONDS:
            return float(known["slowness"])
    factor = measure_slowness()
    with suppress(OSError):
        record = {"host": host, "measured": time.time(), "reference": REFERENCE, "slowness": factor}
        write_json(path, record, durable=False)
    return factor

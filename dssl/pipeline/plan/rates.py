"""Seconds of stages on this machine: the estimates of their costs, times what earlier runs took beside these.

A stage that no run has made takes its estimate times the slowness of this machine, relative to the one on which the
rates of `cost` were measured. Only estimates of seconds follow from it: what is chosen, and what is stored, follows
from the costs alone, which are equal everywhere.
"""

import socket
import time
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...base.errors import IntegrityError
from ...data.sources import cache_folder
from ...execution.tasks import one_thread
from ...storage.artifacts import Workspace
from ...storage.files import read_json, write_json
from ...storage.frames import pack, unpack

FILE = "speed.json"
PROBE_SECONDS = 0.1  # running time of each probe
VALID_SECONDS = 30 * 86400  # a stored measurement is used for so long
SIZE = 256
# Seconds of the probes on one idle core of the reference machine of `execution.cost`.
REFERENCE = {"product": 7.5e-4, "kernel": 6.8e-5, "storage": 5.8e-4}
RUNS = 20  # the newest that are learned from
PRIOR_SECONDS = 2.0  # for which the machine's speed counts as much as what a stage took


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


@dataclass(frozen=True)
class Rates:
    """How many times its estimate a stage takes: as a rule, and by the name of those that earlier runs have made."""

    rule: float = 1.0
    stages: dict[str, float] = field(default_factory=dict)

    def of(self, stage: str) -> float:
        return self.stages.get(stage, self.rule)


def rates_of(workspace: Workspace) -> Rates:
    """Return the rates of this machine, and of the stages that the newest runs of a workspace made."""
    rule = slowness(cache_folder())
    took, estimated = defaultdict[str, float](float), defaultdict[str, float](float)
    for path in sorted(workspace.root.glob("runs/*/result.json"))[-RUNS:]:
        for name, seconds, estimate in _measured(path):
            took[name] += seconds
            estimated[name] += estimate
    return Rates(rule, {name: (took[name] + rule * PRIOR_SECONDS) / (estimated[name] + PRIOR_SECONDS) for name in took})


def _measured(path: Path) -> list[tuple[str, float, float]]:
    """Return name, seconds and estimated seconds of the stages that a run has made; nothing of a damaged record."""
    with suppress(OSError, IntegrityError, KeyError, TypeError):
        return [(stage["name"], stage["seconds"], stage["estimated_seconds"]) for stage in read_json(path)["stages"]
                if stage.get("estimated_seconds")]
    return []

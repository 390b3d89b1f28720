"""A scheduler, workers and runs, each a process of its own that a test may stop, kill or cut off."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dssl.base.units import size_of
from dssl.execution.in_process import InProcess
from dssl.pipeline.records import STATUS
from dssl.pipeline.run import run
from dssl.storage.artifacts import Workspace
from dssl.storage.files import resolved_path

from ..stored import contents

REPOSITORY = Path(__file__).parents[2]
PATIENCE = 6.0  # seconds without a worker
HEARTBEAT = 6.0  # seconds without one until a worker is lost; a machine with other work takes some for it
UNTIL = "covariance"
BUDGET, OTHER_BUDGET = "12MB", "16MB"
SPEC = """
name: faults
data: {source: digits, test: {count: 360}, scale: global_range}
labels: {per_class: 2}
model: {kind: svm, n_landmarks: 48}
graph: {n_neighbors: 8}
solver: {method: gauss_seidel, block_columns: 8}
kernel: {bandwidth: 0.5*median}
"""
SETTINGS = {
    "DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": f"{HEARTBEAT:.0f}s", "DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP": "12s",
    "DASK_DISTRIBUTED__ADMIN__LOG_FORMAT": "%(message)s", "PYTHONPATH": str(REPOSITORY)}


def wait_until(is_so, what: str, seconds: float = 120.0) -> None:
    """Return when something is so; fail after some seconds."""
    until = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < until, f"waited {seconds} seconds for {what}"
        time.sleep(0.02)


class Process(subprocess.Popen[str]):
    """A process with the file of what it says, and of a scheduler the address at which it listens."""

    log: Path
    address: str


class Machines:
    """Starts processes, and ends those that are left."""

    def __init__(self, folder: Path, workspace: str | Path | None = None):
        self.folder, self.processes, self.environment = folder, [], os.environ | SETTINGS
        self.workspace = resolved_path(workspace or folder / "work")
        self.spec = folder / "faults.yaml"
        self.spec.write_text(SPEC)
        self.logs = 0

    def start(self, *command: Any, inside: tuple[str, ...] = (), **environment: str) -> Process:
        """Start `python -m ...`; what it says goes to a file of its own, `process.log`."""
        self.logs += 1
        log = self.folder / f"{self.logs}.log"
        with open(log, "w", encoding="utf-8") as file:
            process = Process([*inside, sys.executable, "-m", *map(str, command)], stdout=file,
                              stderr=subprocess.STDOUT, env=self.environment | environment, text=True)
        process.log = log
        self.processes.append(process)
        return process

    def scheduler(self, host: str = "127.0.0.1", inside: tuple[str, ...] = ()) -> Process:
        """Start a scheduler; its `address` is where it listens."""
        process = self.start("distributed.cli.dask_scheduler", "--host", host, "--port", "0", "--no-dashboard",
                             "--scheduler-file", self.folder / "scheduler.json", inside=inside)
        wait_until((self.folder / "scheduler.json").exists, "the scheduler")
        time.sleep(0.1)
        process.address = json.loads((self.folder / "scheduler.json").read_text())["address"]
        return process

    def worker(self, address: str, inside: tuple[str, ...] = (), memory: str = "2GiB",
               **environment: str) -> Process:
        """Start a worker without a nanny, so that one that is killed stays away."""
        return self.start("distributed.cli.dask_worker", address, "--no-nanny", "--nthreads", "1", "--no-dashboard",
                          "--memory-limit", memory, "--death-timeout", "20", "--local-directory", self.folder,
                          "--preload", "tests.faults.slowly", inside=inside, **environment)

    def run(self, on: str = "in-process", budget: str = BUDGET, until: str = UNTIL, inside: tuple[str, ...] = (),
            **environment: str) -> Process:
        """Start a run on a scheduler's address, or in its own process."""
        if "://" in on:
            cluster = self.folder / "cluster.yaml"
            cluster.write_text(f"{{kind: address, address: '{on}', patience: {PATIENCE}}}")
            on = str(cluster)
        return self.start("dssl", "run", self.spec, "--workspace", self.workspace, "--on", on, "--until", until,
                          "--memory-budget", budget, inside=inside, **environment)

    def wait_for(self, stage: str, run: Process, parts: int = 1) -> None:
        """Wait until a run has finished so many parts of a stage, or has begun it where that is 0."""
        def is_so() -> bool:
            assert run.poll() is None, run.log.read_text()
            if parts:
                return len(list(self.workspace.glob(f"artifacts/{stage}/*/*/receipts/[0-9]*.json"))) >= parts
            return any(json.loads(path.read_text())["stage"] == stage
                       for path in self.workspace.glob(f"runs/*/{STATUS}"))

        wait_until(is_so, f"{parts} parts of {stage}")

    def ended(self, run: Process, code: int, message: str = "", seconds: float = 120.0) -> str:
        """Wait for the end of a run; check its exit code, and what it says; return that."""
        try:
            run.wait(seconds)
        except subprocess.TimeoutExpired:
            pytest.fail(f"still runs after {seconds} seconds: {run.log.read_text()}")
        text = run.log.read_text()
        assert run.returncode == code, text
        assert message in text, text
        assert "Traceback" not in text, text
        return text

    def resume(self, budget: str = BUDGET, until: str | None = UNTIL) -> None:
        """Run to the end of a stage in this process; None: of the pipeline."""
        assert run(self.spec, workspace=self.workspace, execution=InProcess(1, size_of(budget)), until=until)

    def contents(self) -> dict[str, bytes]:
        """Return what the artifacts hold, after all of it has been verified."""
        assert Workspace.at(self.workspace).verify() > 0
        return contents(self.workspace)

    def end(self) -> None:
        """End what is left."""
        for process in self.processes:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()

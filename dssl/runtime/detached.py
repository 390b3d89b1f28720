"""A job of processes on this machine; its launcher starts them, and goes on when the terminal closes."""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

import psutil

from ..base.errors import COME_BACK
from .engine import DRIVER, FIRST_WORKER, JOB_LOG, SCHEDULER, START, Engine, Handle, Job

LOOK_EVERY = 0.2  # seconds between two checks of the processes
GRACE = 20.0  # seconds that the other processes have to end after the driver has ended
MAX_RESTARTS = 10  # of workers, in one start of a job, while no part is finished


class Detached(Engine):
    """Starts a launcher in its own session."""

    name = "this machine"

    def render(self, job: Job) -> str:
        """Return a shell script that starts the launcher; `submit` runs it, and a user can read and run it too."""
        return (f"#!/bin/sh\n# dssl: {job.ranks} process{'es' if job.ranks > 1 else ''} on this machine, started again "
                f"when interrupted\ncd {shlex.quote(str(job.cwd))} || exit 1\n"
                f"exec {shlex.join(self._launcher(job))}\n")

    def submit(self, job: Job, rendered: Path) -> Handle:
        log = os.open(job.logs / JOB_LOG, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            process = subprocess.Popen(["/bin/sh", str(rendered)], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                       start_new_session=True, close_fds=True)
        finally:
            os.close(log)
        return {"pid": process.pid, "started": psutil.Process(process.pid).create_time(),
                "host": socket.gethostname()}

    def knows(self, handle: Handle) -> bool:
        return handle["host"] != socket.gethostname() or _process(handle) is not None

    def cancel(self, handle: Handle) -> None:
        if (process := _process(handle)) is not None:
            process.send_signal(signal.SIGTERM)

    def _launcher(self, job: Job) -> list[str]:
        return [*job.command[:-2], "launch", job.command[-1]]


def _process(handle: Handle) -> psutil.Process | None:
    """Return the launcher's process if it is running."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(handle["pid"])
        if abs(process.create_time() - handle["started"]) < 1 and process.status() != psutil.STATUS_ZOMBIE:
            return process
    return None


def launch(job: Job, finished: Callable[[], int], look_every: float = LOOK_EVERY) -> int:
    """Start the ranks of a job, and restart them as long as the settle command says so; return its last exit code.

    The driver gets SIGTERM and SIGUSR1. A worker's process that ends is restarted, unless `MAX_RESTARTS` have ended
    since the last part was finished.

    finished : returns the number of finished parts. look_every : seconds between two checks of the processes.
    """
    start = 0
    while True:
        _Start(job, start, finished, look_every).run()
        code = subprocess.run([*job.settle], cwd=job.cwd, check=False).returncode
        if code != COME_BACK:
            return code
        start += 1


class _Start:
    """One start of all ranks of a job."""

    def __init__(self, job: Job, number: int, finished: Callable[[], int], look_every: float):
        self.job = job
        self.number = number
        self.finished = finished
        self.look_every = look_every
        self.driver_rank = DRIVER if job.ranks > 1 else 0
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.replaced = 0  # since as many parts were finished as `finished_before` says
        self.finished_before = finished()

    def run(self) -> None:
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            signal.signal(number, self._pass_on)
        for rank in range(self.job.ranks):
            self.processes[rank] = self._started(rank)
        driver = self.processes[self.driver_rank]
        while driver.poll() is None:
            time.sleep(self.look_every)
            self._replace_workers()
        # A driver that ends by itself ends the others, too; one that was killed does not.
        self._end_other_ranks(GRACE if driver.returncode >= 0 else 0.0)

    def _started(self, rank: int) -> subprocess.Popen[bytes]:
        environment = os.environ | {"DSSL_RANK": str(rank), "DSSL_RANKS": str(self.job.ranks), START: str(self.number)}
        descriptor = os.open(self.job.log(rank), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        try:
            return subprocess.Popen(self.job.command, cwd=self.job.cwd, env=environment, stdin=subprocess.DEVNULL,
                                    stdout=descriptor, stderr=descriptor)
        finally:
            os.close(descriptor)

    def _replace_workers(self) -> None:
        if self.processes[SCHEDULER].poll() is not None:
            return  # without a scheduler the driver ends soon
        for rank, process in list(self.processes.items()):
            if rank < FIRST_WORKER or process.poll() is None:
                continue
            finished_count = self.finished()
            if finished_count != self.finished_before:
                self.finished_before = finished_count
                self.replaced = 0
            if self.replaced == MAX_RESTARTS:
                print(f"rank {rank} ended with {process.returncode}, the {MAX_RESTARTS + 1}th while no part was "
                      "finished: it is not started again", file=sys.stderr, flush=True)
                del self.processes[rank]
                continue
            self.replaced += 1
            print(f"rank {rank} ended with {process.returncode}, and is started again", file=sys.stderr, flush=True)
            self.processes[rank] = self._started(rank)

    def _end_other_ranks(self, grace: float) -> None:
        until = time.monotonic() + grace
        for rank, process in self.processes.items():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(until - time.monotonic(), 0.0))
            if process.poll() is None:
                print(f"rank {rank} has not ended, and is killed", file=sys.stderr, flush=True)
                _kill_tree(process.pid)
                process.wait()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        driver = self.processes.get(self.driver_rank)
        if driver is not None and driver.poll() is None:
            driver.send_signal(number)


def _kill_tree(pid: int) -> None:
    """Kill a process and its children, such as a Nanny's worker."""
    with suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for member in (*process.children(recursive=True), process):
            with suppress(psutil.NoSuchProcess):
                member.kill()

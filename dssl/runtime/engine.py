"""Batch jobs, the base class of engines that run them, and the rank of a process in its job.

On this machine the engine is a launcher, which starts the processes, and goes on when the terminal closes.
"""

import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

import psutil

from ..base.errors import COME_BACK, ClusterError, explain

JOB_LOG = "job.log"  # in a run's logs, the output of an engine's script itself
NOTICE = 120  # seconds between the signal that a job gets before its time is over, and that moment
Handle = Mapping[str, Any]  # the JSON object by which an engine identifies a job


@dataclass(frozen=True)
class Job:
    """A job for an engine.

    name : of the engine's job, the same for the same spec. folder : of the run. command : starts one rank. settle :
    command that runs after each start of the job, and exits with `COME_BACK` if the job must start again. cwd : working
    folder of both commands. ranks : number of processes that run side by side.
    """

    name: str
    folder: Path
    command: tuple[str, ...]
    settle: tuple[str, ...]
    cwd: Path
    ranks: int

    @property
    def logs(self) -> Path:
        return self.folder / "logs"

    def log(self, rank: int) -> Path:
        """Return the log of a rank."""
        return self.logs / f"rank-{rank}.log"


class Engine(ABC):
    """A system that starts jobs: a queue, an orchestrator, or this machine."""

    name: str  # for messages
    file = "job.sh"  # name of the rendered job in the run's folder

    @abstractmethod
    def render(self, job: Job) -> str:
        """Return the script or the manifest of a job."""

    @abstractmethod
    def submit(self, job: Job, rendered: Path) -> Handle:
        """Submit a rendered job, and return its handle; raise ClusterError if the engine does not answer, or refuses.
        """

    @abstractmethod
    def knows(self, handle: Handle) -> bool:
        """Return whether the job waits or runs; raise ClusterError if the engine does not answer."""

    @abstractmethod
    def cancel(self, handle: Handle) -> None:
        """End a job; its driver gets a signal, so that finished parts stay."""


def run_command(command: Sequence[str], *, fix: str, text: str | None = None,
          environment: Mapping[str, str] | None = None) -> str:
    """Return the output of a command of an engine; raise ClusterError with its message if it fails.

    text : its standard input. environment : by default that of this process.
    """
    try:
        # In its own group: a terminal sends Ctrl-C to a whole group, which would end the command half-way.
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False,
                              process_group=0, env=environment)
    except FileNotFoundError as error:
        raise ClusterError(explain(f"there is no command {command[0]}", why="dssl submits the job with it",
                                   fix=fix)) from error
    except subprocess.TimeoutExpired as error:
        raise ClusterError(explain(f"`{shlex.join(command)}` has not ended within a minute",
                                   why="the service behind this command does not answer", fix=fix)) from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise ClusterError(explain(f"`{shlex.join(command)}` failed: {said}", fix=fix,
                                   why="the service behind this command refused it"))
    return done.stdout


SCHEDULER = 0
DRIVER = 1
FIRST_WORKER = 2
RANKS = "DSSL_RANKS"  # the variable with the number of ranks
# Variables with the rank of a process and the number of ranks; the first pair of which both are set counts.
VARIABLES = (("DSSL_RANK", RANKS), ("SLURM_PROCID", "SLURM_NTASKS"), ("JOB_COMPLETION_INDEX", RANKS),
             ("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
START = "DSSL_START"  # the variable with the number of earlier starts of the job


@dataclass(frozen=True)
class Rank:
    """The rank of this process in its job: `number` of `count`. start : how often the job was started before.

    An engine that restarts single processes, as Kubernetes does, does not count starts: there `start` is always "0",
    and a new scheduler overwrites the address of the one before it.
    """

    number: int
    count: int
    start: str = "0"

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Return the rank from an engine's variables; without these, that of a driver which is the only process.

        Raises ClusterError: a variable is not a number, or the rank is not below the count.
        """
        start = environment.get(START) or environment.get("SLURM_RESTART_COUNT") or "0"
        for number, count in VARIABLES:
            if number in environment and count in environment:
                try:
                    rank = cls(int(environment[number]), int(environment[count]), start)
                except ValueError:
                    rank = cls(-1, 0)
                if not 0 <= rank.number < rank.count:
                    raise ClusterError(explain(
                        f"{number}={environment[number]!r} with {count}={environment[count]!r}",
                        why="these variables say whether a process is scheduler, driver or worker",
                        fix="let the batch system set these variables; processes are numbered from 0"))
                return rank
        return cls(0, 1, start)

    @property
    def role(self) -> str:
        """The role of the process: "scheduler", "driver" or "worker"."""
        if self.count == 1 or self.number == DRIVER:
            return "driver"
        return "scheduler" if self.number == SCHEDULER else "worker"


# ---- processes of this machine


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
                f"exec {shlex.join([*job.command[:-2], 'launch', job.command[-1]])}\n")

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

"""Batch jobs, the base class of engines that run them, and the rank of a process in its job."""

import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..base.errors import ClusterError, explain

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
        """Submit a rendered job; return its handle.

        Raises ClusterError: the engine does not answer, or refuses.
        """

    @abstractmethod
    def knows(self, handle: Handle) -> bool:
        """Return whether the job waits or runs.

        Raises ClusterError: the engine does not answer.
        """

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

"""A batch job, what every engine can do with one, and which of its processes a process is."""

import shlex
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from ..base.errors import ClusterError, explain

JOB_LOG = "job.log"  # in a run's logs, what an engine's script says itself
NOTICE = 120  # seconds before the end of its time at which a job gets a signal


@dataclass(frozen=True)
class Job:
    """What an engine starts.

    name : of the engine's job, the same for the same spec. folder : of the run. command : starts one rank. settle :
    says after each start whether another is due, by the exit code `COME_BACK`. cwd : where they are started. ranks :
    processes side by side.
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
    """Something that starts jobs: a queue, an orchestrator, or this machine."""

    name: str  # as people know it
    file = "job.sh"  # under which the rendered job lies in the run's folder

    @abstractmethod
    def render(self, job: Job) -> str:
        """Return the script or the manifest of a job."""

    @abstractmethod
    def submit(self, job: Job, rendered: Path) -> Mapping[str, Any]:
        """Hand over a rendered job; return what the engine knows it by (JSON).

        Raises ClusterError: the engine cannot be reached, or refuses.
        """

    @abstractmethod
    def knows(self, handle: Mapping[str, Any]) -> bool:
        """Return whether the job waits or runs.

        Raises ClusterError: the engine cannot be asked.
        """

    @abstractmethod
    def cancel(self, handle: Mapping[str, Any]) -> None:
        """End a job; its driver gets a signal, so that finished parts stay."""


def asked(command: Sequence[str], *, fix: str, text: str | None = None,
          environment: Mapping[str, str] | None = None) -> str:
    """Return what a command of an engine prints; raise ClusterError with what it says if it fails.

    text : for its standard input. environment : by default that of this process.
    """
    try:
        # In a group of its own, so that Ctrl-C, which a terminal sends to a whole group, does not end it half-way.
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=60, check=False,
                              process_group=0, env=environment)
    except FileNotFoundError as error:
        raise ClusterError(explain(f"there is no command {command[0]}", why="the job is handed over by it",
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
RANKS = "DSSL_RANKS"  # the variable that counts them
# By what a process learns its rank, and of how many: the first pair of which both are set.
VARIABLES = (("DSSL_RANK", RANKS), ("SLURM_PROCID", "SLURM_NTASKS"), ("JOB_COMPLETION_INDEX", RANKS),
             ("PMI_RANK", "PMI_SIZE"), ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"))
START = "DSSL_START"  # the variable that numbers the starts of a job


@dataclass(frozen=True)
class Rank:
    """Which of the processes of a job this is: `number` of `count`; `start`, how often the job was started before.

    An engine that replaces each process alone, as Kubernetes does, numbers no starts: there it is "0", and a scheduler
    writes its address over that of the one before it.
    """

    number: int
    count: int
    start: str = "0"

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> Self:
        """Return the rank that an engine's variables tell; of a process that none has started, the driver alone.

        Raises ClusterError: a variable is no number, or the rank is not below the count.
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
                        why="a process learns from these whether it is scheduler, driver or worker",
                        fix="let the batch system set these variables; processes are numbered from 0"))
                return rank
        return cls(0, 1, start)

    @property
    def role(self) -> str:
        """Return what the process does: "scheduler", "driver" or "worker"."""
        if self.count == 1 or self.number == DRIVER:
            return "driver"
        return "scheduler" if self.number == SCHEDULER else "worker"

"""Which process of a job this is, from what an engine tells it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from ..base.errors import ClusterError, explain

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

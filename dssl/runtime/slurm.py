"""Slurm: a submitted job is one allocation with all ranks."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pydantic import Field

from ..errors import SpecError, explain
from ..execution.size import size_of
from ..execution.tasks import Execution
from .batch.slurm import Slurm
from .description import RankedRuntime


class SlurmRuntime(RankedRuntime):
    """Processes of one Slurm job, which `dssl submit` hands over."""

    kind: Literal["slurm"] = "slurm"
    time: str = Field(pattern=r"^(\d+|\d+:\d+|\d+:\d+:\d+|\d+-\d+(:\d+){0,2})$", description="wall clock of one start, "
                                                                                            "as Slurm writes it")
    partition: str | None = None
    account: str | None = None
    nodes: str | None = Field(default=None, pattern=r"^\d+(-\d+)?$")
    directives: list[str] = Field(default=[], description="further options of sbatch, such as --constraint=skylake")
    prologue: list[str] = Field(default=[], description="shell lines before the processes start, such as module load")

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[Execution, str]]:
        raise SpecError(explain(
            "kind: slurm describes a job, not a cluster that is there", why="its processes wait in Slurm's queue",
            fix="hand the run over with `dssl submit`, or use kind: jobqueue, whose workers come and go"))
        yield  # a context manager's function is a generator

    def engine(self) -> Slurm:
        return Slurm(time=self.time, memory=self._memory(), cores=self.threads_per_worker, partition=self.partition,
                     account=self.account, nodes=self.nodes, directives=self.directives, prologue=self.prologue)

    def _memory(self) -> int:
        return size_of(self.memory_limit)

    def worker_memory(self) -> int:
        """Return the bytes of a worker: what the description says, or less where Slurm has granted less."""
        granted = os.environ.get("SLURM_MEM_PER_CPU")  # MB; of each of the cores of a process
        limits = [self._memory(), *([int(granted) * self.threads_per_worker << 20] if granted else [])]
        return min(limits)

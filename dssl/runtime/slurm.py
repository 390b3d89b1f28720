"""Slurm: a submitted job is one allocation with all ranks."""

import os
from typing import Literal

from pydantic import Field

from .batch.slurm import Slurm
from .description import BESIDE, BatchRuntime


class SlurmRuntime(BatchRuntime):
    """Processes of one Slurm job, which `dssl submit` hands over."""

    kind: Literal["slurm"] = "slurm"
    time: str = Field(pattern=r"^(\d+|\d+:\d+|\d+:\d+:\d+|\d+-\d+(:\d+){0,2})$", description="wall clock of one start, "
                                                                                            "as Slurm writes it")
    partition: str | None = None
    account: str | None = None
    nodes: str | None = Field(default=None, pattern=r"^\d+(-\d+)?$")
    directives: list[str] = Field(default=[], description="further options of sbatch, such as --constraint=skylake")
    prologue: list[str] = Field(default=[], description="shell lines before the processes start, such as module load")

    @property
    def instead(self) -> str:
        """What to do where a cluster is needed that is there."""
        return "submit the run with `dssl submit`, or use kind: jobqueue, whose workers come and go"

    def engine(self) -> Slurm:
        return Slurm(time=self.time, memory=self.memory, cores=self.threads_per_worker, partition=self.partition,
                     account=self.account, nodes=self.nodes, directives=self.directives, prologue=self.prologue)

    def worker_memory(self) -> int:
        """Return the bytes of a worker: what the description says, or less where Slurm has granted less."""
        granted = os.environ.get("SLURM_MEM_PER_CPU")  # MB; of each of the cores of a process
        share = int(granted) * self.threads_per_worker << 20 if granted else self.memory
        return min(share, self.memory) - BESIDE

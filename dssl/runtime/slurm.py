"""Slurm: a submitted job is one allocation with all ranks."""

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from ..base.errors import COME_BACK, ClusterError, SpecError, require
from .description import OTHER_BYTES, BatchRuntime
from .engine import JOB_LOG, NOTICE, Engine, Handle, Job, run_command

FIX = "run this on a machine that has Slurm's commands, such as a login node, and see the message above"
LIVING = ("PENDING", "CONFIGURING", "RUNNING", "COMPLETING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SUSPENDED",
          "STOPPED", "RESIZING", "SIGNALING", "STAGE_OUT", "SPECIAL_EXIT")

SCRIPT = """\
#!/bin/bash
# dssl: {ranks} processes, one of which is the scheduler and one the driver. Started again by Slurm when interrupted.
{directives}

cd {cwd} || exit 1
{prologue}
# The driver (rank 1) stops at the next part when its time is nearly over (USR1) or when somebody cancels (TERM).
ranks=
ended=
trap 'kill -USR1 $ranks 2>/dev/null' USR1
trap 'ended=yes; kill -TERM $ranks 2>/dev/null' TERM
srun --kill-on-bad-exit=0 --open-mode=append --output={logs}/rank-%t.log {command} &
ranks=$!
while kill -0 $ranks 2>/dev/null; do wait $ranks; done

{settle}
code=$?
if [ $code -eq {come_back} ] && [ -z "$ended" ]; then  # after a TERM, Slurm decides whether it requeues the job
    scontrol requeue "$SLURM_JOB_ID" && sleep 60  # Slurm ends this script when it requeues the job
fi
exit $code
"""


@dataclass(frozen=True)
class Slurm(Engine):
    """Submits jobs with `sbatch`.

    time : wall clock of a job, as Slurm writes it. memory : of each process, bytes. cores : of each process.
    directives : further lines for `#SBATCH`. prologue : shell lines before the ranks start.
    """

    time: str
    memory: int
    cores: int
    partition: str | None = None
    account: str | None = None
    nodes: str | None = None
    directives: Sequence[str] = ()
    prologue: Sequence[str] = ()

    name = "Slurm"

    def render(self, job: Job) -> str:
        named = {"partition": self.partition, "account": self.account, "nodes": self.nodes}
        options = [f"--job-name={job.name}", "--dependency=singleton", f"--ntasks={job.ranks}",
                   f"--cpus-per-task={self.cores}", f"--mem-per-cpu={-(-self.memory // self.cores >> 20)}M",
                   f"--time={self.time}", f"--signal=B:USR1@{NOTICE}", "--requeue", "--open-mode=append",
                   f"--output={as_word(file_pattern(job.logs / JOB_LOG))}",
                   *(f"--{key}={value}" for key, value in named.items() if value is not None), *self.directives]
        return SCRIPT.format(
            ranks=job.ranks, directives="\n".join(f"#SBATCH {option}" for option in options),
            cwd=shlex.quote(str(job.cwd)), prologue="".join(f"{line}\n" for line in self.prologue),
            logs=shlex.quote(file_pattern(job.logs)), command=shlex.join(job.command), settle=shlex.join(job.settle),
            come_back=COME_BACK)

    def submit(self, job: Job, rendered: Path) -> Handle:
        answer = run_command(["sbatch", "--parsable", str(rendered)], fix=FIX, environment=outside_of_a_job(os.environ))
        return {"job": answer.strip().split(";")[0]}

    def knows(self, handle: Handle) -> bool:
        try:
            state = run_command(["squeue", "--noheader", "--states=all", f"--jobs={handle['job']}", "--format=%T"],
                                fix=FIX)
        except ClusterError as error:
            if "Invalid job id" in str(error):  # a job that ended some time ago
                return False
            raise
        return state.strip() in LIVING

    def cancel(self, handle: Handle) -> None:
        run_command(["scancel", handle["job"]], fix=FIX)


def outside_of_a_job(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a new job may inherit: all but those that Slurm has set for the job of this process.

    With these, `sbatch` and `srun` would also take over the memory, nodes and tasks of this process's job.
    """
    return {name: value for name, value in environment.items()
            if not name.startswith("SLURM_") or name == "SLURM_CONF"}


def file_pattern(path: Path) -> str:
    """Return the name of a log for `--output`, which would replace `%j` by the job's number."""
    return str(path).replace("%", "%%")


def as_word(text: str) -> str:
    """Return a text as one word of a line of `#SBATCH`; raise SpecError if that is impossible."""
    require(not set(text) & set('"\\\n'), f"the path {text!r} has a quotation mark, a backslash or a line break",
            error=SpecError, why="Slurm cannot read it from a line of #SBATCH", fix="use a folder with another name")
    return text if re.fullmatch(r"[\w@%+=:,./-]*", text) else f'"{text}"'


class SlurmRuntime(BatchRuntime):
    """Processes of one Slurm job, which `dssl submit` submits."""

    kind: Literal["slurm"] = "slurm"
    time: str = Field(pattern=r"^(\d+|\d+:\d+|\d+:\d+:\d+|\d+-\d+(:\d+){0,2})$", description="wall clock of one start, "
                                                                                            "as Slurm writes it")
    partition: str | None = None
    account: str | None = None
    nodes: str | None = Field(default=None, pattern=r"^\d+(-\d+)?$")
    directives: list[str] = Field(default=[], description="further options of sbatch, such as --constraint=skylake")
    prologue: list[str] = Field(default=[], description="shell lines before the processes start, such as module load")

    @property
    def fix_without_cluster(self) -> str:
        """What to do if a command needs a running cluster."""
        return "submit the run with `dssl submit`, or use kind: jobqueue, whose workers start and end with the tasks"

    def engine(self) -> Slurm:
        return Slurm(time=self.time, memory=self.memory, cores=self.threads_per_worker, partition=self.partition,
                     account=self.account, nodes=self.nodes, directives=self.directives, prologue=self.prologue)

    def worker_memory(self) -> int:
        """Return the bytes of a worker: those of the description, or fewer if Slurm has granted fewer."""
        granted = os.environ.get("SLURM_MEM_PER_CPU")  # MB; of each of the cores of a process
        share = int(granted) * self.threads_per_worker << 20 if granted else self.memory
        return min(share, self.memory) - OTHER_BYTES

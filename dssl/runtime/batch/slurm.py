"""A job of Slurm: one allocation, in which `srun` starts all ranks."""

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import COME_BACK
from .engine import JOB_LOG, NOTICE, Engine, Job, asked

FIX = "run this where Slurm's commands are, such as a login node, and see the message above"
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
    """Hands jobs to `sbatch`.

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
                   f"--output={job.logs / JOB_LOG}",
                   *(f"--{key}={value}" for key, value in named.items() if value is not None), *self.directives]
        return SCRIPT.format(
            ranks=job.ranks, directives="\n".join(f"#SBATCH {option}" for option in options),
            cwd=shlex.quote(str(job.cwd)), prologue="".join(f"{line}\n" for line in self.prologue),
            logs=shlex.quote(str(job.logs)), command=shlex.join(job.command), settle=shlex.join(job.settle),
            come_back=COME_BACK)

    def submit(self, job: Job, rendered: Path) -> dict[str, Any]:
        answer = asked(["sbatch", "--parsable", str(rendered)], fix=FIX)
        return {"job": answer.strip().split(";")[0]}

    def knows(self, handle: Mapping[str, Any]) -> bool:
        found = asked(["squeue", "--noheader", "--states=all", "--format=%i %T"], fix=FIX)
        states = dict(line.split() for line in found.splitlines() if line.strip())
        return states.get(handle["job"]) in LIVING

    def cancel(self, handle: Mapping[str, Any]) -> None:
        asked(["scancel", handle["job"]], fix=FIX)

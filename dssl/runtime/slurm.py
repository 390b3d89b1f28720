"""Slurm: a submitted job is one allocation with all ranks.

A schedule is an entry of scrontab, or, without scrontab, a job that submits itself again.
"""

import os
import re
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Literal

from pydantic import Field

from ..base.errors import COME_BACK, ClusterError, SpecError, explain, require
from .description import OTHER_BYTES, BatchRuntime
from .engine import JOB_LOG, NOTICE, Engine, Handle, Job, run_command
from .schedules import Scheduled, Scheduler, unit_of

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
    """Submits jobs with `sbatch`."""

    asked: "SlurmRuntime"
    name = "Slurm"

    def render(self, job: Job) -> str:
        asked, cores = self.asked, self.asked.threads_per_worker
        options = [f"--job-name={job.name}", "--dependency=singleton", f"--ntasks={job.ranks}",
                   f"--cpus-per-task={cores}", f"--mem-per-cpu={-(-asked.memory // cores >> 20)}M",
                   f"--time={asked.time}", f"--signal=B:USR1@{NOTICE}", "--requeue", "--open-mode=append",
                   f"--output={as_word(file_pattern(job.logs / JOB_LOG))}",
                   *asked.options("partition", "account", "nodes"), *asked.directives]
        return SCRIPT.format(
            ranks=job.ranks, directives="\n".join(f"#SBATCH {option}" for option in options),
            cwd=shlex.quote(str(job.cwd)), prologue="".join(f"{line}\n" for line in asked.prologue),
            logs=shlex.quote(file_pattern(job.logs)), command=shlex.join(job.command), settle=shlex.join(job.settle),
            come_back=COME_BACK)

    def submit(self, job: Job, rendered: Path) -> Handle:
        answer = run_command(["sbatch", "--parsable", str(rendered)], fix=FIX, environment=outside_of_a_job())
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


def outside_of_a_job() -> dict[str, str]:
    """Return the variables that a new job may inherit: without those of the job of this process, its memory and nodes.
    """
    return {name: value for name, value in os.environ.items()
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
        return "submit the run with `dssl submit`, or use kind: jobqueue, whose workers start and end with the tasks"

    def engine(self) -> Slurm:
        return Slurm(self)

    def options(self, *names: str) -> list[str]:
        """Return those of some fields that are set, as options of a job."""
        return [f"--{name}={value}" for name in names if (value := getattr(self, name)) is not None]

    def worker_memory(self) -> int:
        """Return the bytes of a worker: those of the description, or fewer if Slurm has granted fewer."""
        granted = os.environ.get("SLURM_MEM_PER_CPU")  # MB; of each of the cores of a process
        share = int(granted) * self.threads_per_worker << 20 if granted else self.memory
        return min(share, self.memory) - OTHER_BYTES


# ---- schedules


MEMORY = 1 << 30  # bytes of the job that plans, submits and waits
PAUSES = (60, 300, 900, 3600)  # seconds before further attempts to submit the job of the next time
RENEWED = """\
#!/bin/bash
# dssl: {name}, {times}
# This job hands itself over for the next time; Slurm starts it again when that has come and this one has ended.
{options}

next_time() {{
    # One job waits for the next time, also where Slurm has started this one anew.
    [ -z "$(squeue --me --noheader --name={unit} --states=PENDING --format=%i)" ] || return 0
    # Where dssl cannot be started just now, this is tried again in an hour.
    begin=$({next}) || begin=now+1hour
    # Without the variables of this job, which would set the memory and the tasks of the next.
    (for own in ${{!SLURM_@}}; do [ "$own" = SLURM_CONF ] || unset "$own"; done
     exec sbatch --begin="$begin" {path})
}}
renewing=
if ! next_time; then
    (for pause in {pauses}; do sleep "$pause"; next_time && exit 0; done
     echo "$(date '+%F %T') Slurm has not taken the job of the next time: install the schedule again"
     exit 1) &
    renewing=$!
fi
{command}
code=$?
[ -z "$renewing" ] || wait "$renewing" || code=1
exit "$code"
"""


class SlurmTimes(Scheduler):
    """An entry of scrontab; if Slurm has none, a job that submits itself for the next time before it does its work.

    Either waits for the command on one core, so that it can repeat and report a run that failed.
    """

    script = "schedule.sh"
    table = "scrontab"

    def render(self, scheduled: Scheduled) -> dict[str, str]:
        unit = unit_of(scheduled.name)
        options = self._options(scheduled)
        if _entries() is not None:
            lines = [*(f"#SCRON {option}" for option in options),
                     f"{scheduled.times.text} {shlex.join(scheduled.command)}"]
            return {self.table: "".join(f"{line}\n" for line in (_begin(scheduled.name), *lines, _end(scheduled.name)))}
        return {self.script: RENEWED.format(
            name=scheduled.name, times=scheduled.times.in_words(), unit=shlex.quote(unit),
            options="\n".join(f"#SBATCH {option}" for option in (*options, "--dependency=singleton", "--requeue")),
            next=shlex.join(scheduled.next), path=shlex.quote(str(scheduled.folder / self.script)),
            pauses=" ".join(map(str, PAUSES)), command=shlex.join(scheduled.command))}

    def _options(self, scheduled: Scheduled) -> list[str]:
        """Return the options of the job that waits, with those of a cluster description that Slurm may require."""
        options = [f"--job-name={as_word(unit_of(scheduled.name))}", "--ntasks=1", f"--mem={MEMORY >> 20}M",
                   f"--output={as_word(file_pattern(scheduled.log))}", "--open-mode=append"]
        if isinstance(scheduled.engine, Slurm):
            asked = scheduled.engine.asked
            options += asked.options("partition", "account", "time")
            options += [option for option in asked.directives if option.startswith("--qos=")]
        return options

    def install(self, scheduled: Scheduled, files: Mapping[str, Path]) -> None:
        before = self._jobs(scheduled.name)
        if self.table in files:
            entry = files[self.table].read_text(encoding="utf-8").splitlines()
            _write_entries([*_other_entries(scheduled.name), *entry])
            if not self.has(scheduled.name, scheduled.folder):
                raise ClusterError(explain("scrontab does not have the new entry", why="its list has no such line",
                                           fix="add it by hand with `scrontab -e`"))
            return
        begin = scheduled.times.after(datetime.now()).isoformat(timespec="seconds")
        run_command(["sbatch", f"--begin={begin}", str(files[self.script])], fix=FIX,
                    environment=outside_of_a_job())
        if before:
            run_command(["scancel", *before], fix=FIX)

    def has(self, name: str, folder: Path) -> bool:
        if (folder / self.table).is_file():
            block = _block(_entries() or [], name)
            return any(line and not line.startswith("#") for line in block)  # Slurm comments out failed entries
        return bool(self._jobs(name, "PENDING,RUNNING,CONFIGURING,COMPLETING,SUSPENDED"))

    def remove(self, name: str, folder: Path) -> None:
        if (folder / self.table).is_file():
            _write_entries(_other_entries(name))
        else:
            run_command(["scancel", f"--jobname={unit_of(name)}"], fix=FIX)

    def _jobs(self, name: str, states: str = "PENDING") -> list[str]:
        """Return the numbers of the jobs of a schedule."""
        return run_command(["squeue", "--me", "--noheader", f"--name={unit_of(name)}", f"--states={states}",
                            "--format=%i"], fix=FIX).split()


# ---- scrontab

def _entries() -> list[str] | None:
    """Return the lines of the user's scrontab; None if this Slurm has no scrontab."""
    if shutil.which("scrontab") is None:
        return None
    try:
        return run_command(["scrontab", "-l"], fix=FIX).splitlines()
    except ClusterError as error:
        if "no crontab for" in str(error):
            return []
        if "scrontab is disabled" in str(error):
            return None
        raise


def _write_entries(lines: list[str]) -> None:
    """Replace the user's scrontab by these lines; if Slurm refuses one, raise ClusterError and open no editor."""
    with tempfile.NamedTemporaryFile("w", prefix="dssl-", suffix=".scrontab", encoding="utf-8") as file:
        file.write("".join(f"{line}\n" for line in lines))
        file.flush()
        run_command(["scrontab", file.name], fix=FIX, environment={**os.environ, "EDITOR": "false", "VISUAL": "false"})


def _begin(name: str) -> str:
    return f"# dssl: {name} begins"


def _end(name: str) -> str:
    return f"# dssl: {name} ends"


def _block(lines: list[str], name: str) -> list[str]:
    """Return the lines of a schedule, with the two lines that mark them."""
    if _begin(name) not in lines or _end(name) not in lines:
        return []
    return lines[lines.index(_begin(name)):lines.index(_end(name)) + 1]


def _other_entries(name: str) -> list[str]:
    """Return the lines of the scrontab except those of a schedule."""
    lines = _entries() or []
    block = _block(lines, name)
    start = lines.index(_begin(name)) if block else 0
    return lines[:start] + lines[start + len(block):]

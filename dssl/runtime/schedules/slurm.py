"""Schedules of Slurm: an entry of scrontab, or, without scrontab, a job that submits itself again."""

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from ...base.errors import ClusterError, explain
from ..engine import run_command
from ..slurm import FIX, Slurm, as_word, file_pattern, outside_of_a_job
from .schedule import Scheduled, Scheduler, unit_of

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
        engine = scheduled.engine
        named: dict[str, str | None] = {}
        directives: list[str] = []
        if isinstance(engine, Slurm):
            named = {"partition": engine.partition, "account": engine.account, "time": engine.time}
            directives = [option for option in engine.directives if option.startswith("--qos=")]
        return [f"--job-name={as_word(unit_of(scheduled.name))}", "--ntasks=1", f"--mem={MEMORY >> 20}M",
                f"--output={as_word(file_pattern(scheduled.log))}", "--open-mode=append",
                *(f"--{key}={value}" for key, value in named.items() if value is not None), *directives]

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
                    environment=outside_of_a_job(os.environ))
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

"""Batch systems without an engine of their own (PBS, LSF, Grid Engine and others), by a template and commands."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from ..base.errors import ClusterError, SpecError, explain, require
from .description import BatchRuntime
from .engine import JOB_LOG, Engine, Handle, Job, run_command

FIX = "run this on a machine that has the commands of the batch system, and see the message above"
PLACEHOLDER = re.compile(r"\{\{\s*(\w*)\s*\}\}")
# Placeholders of a template. `command` starts one rank; `settle` exits with 75 if the run must start again.
TEMPLATE_NAMES = ("name", "processes", "cores", "memory", "cwd", "output", "command", "settle")


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text in which values replace the placeholders, such as `{{job}}`."""
    return PLACEHOLDER.sub(lambda match: values[match[1]], text)


@dataclass(frozen=True)
class Script(Engine):
    """Submits jobs with the commands of a cluster description, which are lines for `/bin/sh`."""

    asked: "ScriptRuntime"
    name = "the batch system"

    def render(self, job: Job) -> str:
        return filled(self.asked.template, {
            "name": job.name, "processes": str(job.ranks), "cores": str(self.asked.threads_per_worker),
            "memory": str(self.asked.memory >> 20), "cwd": shlex.quote(str(job.cwd)),
            "output": shlex.quote(str(job.logs / JOB_LOG)), "command": shlex.join(job.command),
            "settle": shlex.join(job.settle)})

    def submit(self, job: Job, rendered: Path) -> Handle:
        command = filled(self.asked.submit, {"script": shlex.quote(str(rendered))})
        answer = run_command(["/bin/sh", "-c", command], fix=FIX)
        match = re.search(self.asked.job_id, answer, re.MULTILINE)
        if match is None:
            raise ClusterError(explain(
                f"`{command}` printed {answer.strip()!r}, in which {self.asked.job_id!r} finds no id of a job",
                why="query and cancel need the id; the job may be queued now",
                fix="look for it in the queue and end it, and change job_id in the cluster description"))
        return {"job": match[match.lastindex or 0]}

    def knows(self, handle: Handle) -> bool:
        output = self._run_for_job(self.asked.query, handle)
        return output is not None and re.search(self.asked.living, output, re.MULTILINE) is not None

    def cancel(self, handle: Handle) -> None:
        self._run_for_job(self.asked.cancel, handle)

    def _run_for_job(self, command: str, handle: Handle) -> str | None:
        """Return the output of a command for a job; None if the system does not know it. Raises ClusterError."""
        try:
            return run_command(["/bin/sh", "-c", filled(command, {"job": shlex.quote(handle["job"])})], fix=FIX)
        except ClusterError as error:
            if re.search(self.asked.gone, str(error), re.MULTILINE):
                return None
            raise


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        require(False, f"{text!r} is not a regular expression ({error})", error=SpecError,
                why="dssl searches the output of a command with it", fix="write one that Python's re accepts")
    return text


def _with_placeholders(known: tuple[str, ...], needed: tuple[str, ...]) -> AfterValidator:
    """Return the check that a text has no unknown placeholder, and each needed one."""
    def checked(text: str) -> str:
        names = [match[1] for match in PLACEHOLDER.finditer(text)]
        unknown = [name for name in names if name not in known]
        require(not unknown, f"{{{{{unknown[0] if unknown else ''}}}}} is not a placeholder", error=SpecError,
                why="a placeholder stands for a value of the job",
                fix=f"write one of {', '.join(known)} between the braces")
        missing = [name for name in needed if name not in names]
        require(not missing, f"{{{{{missing[0] if missing else ''}}}}} is missing", error=SpecError,
                why="without it dssl cannot start the job, or cannot ask for its state", fix="see cluster/pbs.yaml")
        return text

    return AfterValidator(checked)


Pattern = Annotated[str, AfterValidator(_pattern)]
Template = Annotated[str, _with_placeholders(TEMPLATE_NAMES, ("command", "settle"))]
OfScript = Annotated[str, _with_placeholders(("script",), ("script",))]
OfJob = Annotated[str, _with_placeholders(("job",), ("job",))]


class ScriptRuntime(BatchRuntime):
    """Processes of one job of any batch system, which `dssl submit` submits."""

    kind: Literal["script"] = "script"
    template: Template = Field(description="of the script for the batch system, with placeholders such as {{command}}; "
                                           "what starts the processes sets PMI_RANK and PMI_SIZE, or "
                                           "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE")
    submit: OfScript = Field(description="shell line that submits {{script}} and prints the job's id")
    job_id: Pattern = Field(default=r"^\s*(\S+)\s*$", description="regular expression that finds the id in its output")
    query: OfJob = Field(description="shell line that prints the state of {{job}}")
    living: Pattern = Field(default="", description="regular expression that matches its output for a job that waits "
                                                    "or runs")
    gone: Pattern = Field(description="regular expression that matches the output of query and cancel when they fail "
                                      "for a job that has ended")
    cancel: OfJob = Field(description="shell line that ends {{job}}")

    @property
    def keeps_logs(self) -> bool:
        """Whether each process writes its own log; the batch system would mix their output."""
        return True

    def engine(self) -> Script:
        return Script(self)

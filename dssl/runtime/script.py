"""Batch systems that dssl does not know (PBS, LSF, Grid Engine and others), by a template and a few commands."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from ..base.errors import ClusterError, SpecError, explain, require
from .description import BatchRuntime
from .engine import JOB_LOG, Engine, Job, asked

FIX = "run this where the commands of the batch system are, and see the message above"
PLACEHOLDER = re.compile(r"\{\{\s*(\w*)\s*\}\}")
# What a template can name. `command` starts one rank; `settle` ends with 75 if the run is to be started again.
OF_TEMPLATE = ("name", "processes", "cores", "memory", "cwd", "output", "command", "settle")
OF_SUBMIT, OF_JOB = ("script",), ("job",)  # what the commands can name


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of its placeholders, such as `{{job}}`."""
    return PLACEHOLDER.sub(lambda match: values[match[1]], text)


@dataclass(frozen=True)
class Script(Engine):
    """Hands jobs to the commands that a cluster description names; these are lines for `/bin/sh`.

    template : of the script. submit_command : prints the job's id, which `job_id` finds. query_command : tells of the
    job. living : found in what that prints of one that waits or runs. gone : found in what a command that fails prints
    of one that is not known any more. memory : of each process, bytes. cores : of each process.
    """

    template: str
    submit_command: str
    job_id: str
    query_command: str
    living: str
    gone: str
    cancel_command: str
    memory: int
    cores: int

    name = "the batch system"

    def render(self, job: Job) -> str:
        return filled(self.template, {
            "name": job.name, "processes": str(job.ranks), "cores": str(self.cores), "memory": str(self.memory >> 20),
            "cwd": shlex.quote(str(job.cwd)), "output": shlex.quote(str(job.logs / JOB_LOG)),
            "command": shlex.join(job.command), "settle": shlex.join(job.settle)})

    def submit(self, job: Job, rendered: Path) -> dict[str, Any]:
        command = filled(self.submit_command, {"script": shlex.quote(str(rendered))})
        answer = asked(["/bin/sh", "-c", command], fix=FIX)
        match = re.search(self.job_id, answer, re.MULTILINE)
        if match is None:
            raise ClusterError(explain(
                f"`{command}` printed {answer.strip()!r}, in which {self.job_id!r} finds no id of a job",
                why="the job is asked after and ended by its id; it may be queued now",
                fix="look for it in the queue and end it, and change job_id in the cluster description"))
        return {"job": match[match.lastindex or 0]}

    def knows(self, handle: Mapping[str, Any]) -> bool:
        said = self._asked_of(self.query_command, handle)
        return said is not None and re.search(self.living, said, re.MULTILINE) is not None

    def cancel(self, handle: Mapping[str, Any]) -> None:
        self._asked_of(self.cancel_command, handle)

    def _asked_of(self, command: str, handle: Mapping[str, Any]) -> str | None:
        """Return what a command prints of a job; None where the job is not known any more. Raises ClusterError."""
        try:
            return asked(["/bin/sh", "-c", filled(command, {"job": shlex.quote(handle["job"])})], fix=FIX)
        except ClusterError as error:
            if re.search(self.gone, str(error), re.MULTILINE):
                return None
            raise


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as error:
        require(False, f"{text!r} is no regular expression ({error})", error=SpecError,
                why="it is searched for in what a command prints", fix="write one as Python's re understands it")
    return text


def _require_placeholders(text: str, known: tuple[str, ...], needed: tuple[str, ...]) -> None:
    """Raise SpecError if a text names what is not known, or does not name what it must."""
    names = [match[1] for match in PLACEHOLDER.finditer(text)]
    unknown = [name for name in names if name not in known]
    require(not unknown, f"{{{{{unknown[0] if unknown else ''}}}}} is no placeholder", error=SpecError,
            why="each stands for a value of the job", fix=f"write one of {', '.join(known)} between the braces")
    missing = [name for name in needed if name not in names]
    require(not missing, f"{{{{{missing[0] if missing else ''}}}}} is missing", error=SpecError,
            why="without it the job cannot be started, or not asked after", fix="see cluster/pbs.yaml")


Pattern = Annotated[str, AfterValidator(_pattern)]


class ScriptRuntime(BatchRuntime):
    """Processes of one job of any batch system, which `dssl submit` hands over."""

    kind: Literal["script"] = "script"
    template: str = Field(description="of the script that the batch system is given, with placeholders such as "
                                      "{{command}}; what starts the processes sets PMI_RANK and PMI_SIZE, or "
                                      "OMPI_COMM_WORLD_RANK and OMPI_COMM_WORLD_SIZE")
    submit: str = Field(description="shell line that hands over {{script}} and prints the job's id")
    job_id: Pattern = Field(default=r"^\s*(\S+)\s*$", description="regular expression that finds the id in that")
    query: str = Field(description="shell line that tells of {{job}}")
    living: Pattern = Field(default="", description="regular expression, found in what it prints of a job that waits "
                                                    "or runs")
    gone: Pattern = Field(description="regular expression, found in what query and cancel print, when they fail, of a "
                                      "job that has ended")
    cancel: str = Field(description="shell line that ends {{job}}")

    @field_validator("template")
    @classmethod
    def _starts_and_settles(cls, text: str) -> str:
        _require_placeholders(text, OF_TEMPLATE, ("command", "settle"))
        return text

    @field_validator("submit")
    @classmethod
    def _names_the_script(cls, text: str) -> str:
        _require_placeholders(text, OF_SUBMIT, OF_SUBMIT)
        return text

    @field_validator("query", "cancel")
    @classmethod
    def _names_the_job(cls, text: str) -> str:
        _require_placeholders(text, OF_JOB, OF_JOB)
        return text

    @property
    def keeps_logs(self) -> bool:
        """Whether each process writes its log itself: what starts them mixes what they say."""
        return True

    def engine(self) -> Script:
        return Script(template=self.template, submit_command=self.submit, job_id=self.job_id, query_command=self.query,
                      living=self.living, gone=self.gone, cancel_command=self.cancel, memory=self.memory,
                      cores=self.threads_per_worker)

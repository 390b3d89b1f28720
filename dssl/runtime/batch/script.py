"""A job of a batch system that dssl does not know: a script from a template, and commands, of the user."""

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...base.errors import ClusterError, explain
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

"""Batch systems that dssl does not know (PBS, LSF, Grid Engine and others), by a template and a few commands."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, field_validator

from ..base.errors import SpecError, require
from .batch.script import OF_JOB, OF_SUBMIT, OF_TEMPLATE, PLACEHOLDER, Script
from .description import BatchRuntime


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

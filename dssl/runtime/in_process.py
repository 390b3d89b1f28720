"""Threads of this process."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

from pydantic import Field

from ..execution.in_process import InProcess
from .description import Runtime


class InProcessRuntime(Runtime):
    """Threads of this process."""

    kind: Literal["in-process"] = "in-process"
    threads: int | None = Field(default=None, ge=1)

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[InProcess, str]]:
        execution = InProcess(self.threads, memory_budget)
        yield execution, f"{execution.threads} threads of this process"

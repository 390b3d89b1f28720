"""What a cluster description is: a few checked fields, how an execution is started from them, and a batch job."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ..base.errors import SpecError, explain, require
from ..execution.cost import WorkerRoom
from ..execution.size import size_of
from ..execution.tasks import Execution
from ..execution.watchdog import PATIENCE
from .engine import Engine

# A worker that is stopped is given up after one to two and a half minutes, and its tasks run elsewhere. One that is
# full is not paused, since it may wait for ever for memory that nobody gives back: it goes on, and is ended at 95 % of
# its limit. A task that has ended four workers is named. No page is served over HTTP: anybody who reaches the port
# could read it.
SETTINGS: dict[str, Any] = {
    "distributed.scheduler.worker-ttl": "60s", "distributed.scheduler.allowed-failures": 3,
    "distributed.worker.memory.target": False, "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False, "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}


class Runtime(BaseModel, ABC):
    """A place to run; each kind has a field `kind` with a name of its own, and is listed in `start.Described`."""

    model_config = ConfigDict(extra="forbid")
    max_restarts: int = Field(default=3, ge=0, description="how often a submitted job is started again after it was "
                                                           "interrupted, as long as it made progress")

    @abstractmethod
    def start(self, memory_budget: int) -> AbstractContextManager[tuple[Execution, str]]:
        """Give an execution and one line that says where it runs; close it afterwards.

        Raises
        ------
        ClusterError : it cannot be reached.
        """

    @abstractmethod
    def engine(self) -> Engine:
        """Return what starts a submitted job there."""

    @property
    def ranks(self) -> int:
        """The number of processes of a submitted job."""
        return 1

    @property
    def keeps_logs(self) -> bool:
        """Whether each process writes its log itself, which an engine otherwise does for it."""
        return False


class DaskRuntime(Runtime):
    """A place whose tasks run on Dask workers."""

    patience: float = Field(default=PATIENCE, gt=0, allow_inf_nan=False, description="seconds without a running worker "
                                                                                   "after which a run ends")


class RankedRuntime(DaskRuntime):
    """A place where a submitted job is scheduler, driver and workers, each a process with a rank."""

    workers: int = Field(ge=1)
    threads_per_worker: int = Field(default=1, ge=1)
    memory_limit: str = Field(description="of one worker")
    join_timeout: float = Field(default=120.0, gt=0, allow_inf_nan=False,
                                description="seconds in which the processes of a job must find each other")
    interface: str | None = Field(default=None, description="network interface, such as ib0, by which they do")

    @field_validator("memory_limit")
    @classmethod
    def _is_a_size(cls, text: str) -> str:
        if text != "auto":
            size_of(text)
        return text

    @property
    def ranks(self) -> int:
        """A scheduler, a driver, and the workers."""
        return self.workers + 2

    @property
    def host(self) -> str | None:
        """The address at which scheduler and workers listen; None for that of the machine."""
        return None

    @property
    def serves_dashboard(self) -> bool:
        """Whether the scheduler serves Dask's dashboard."""
        return False

    def worker_memory(self) -> int | str:
        """Return the memory limit of a worker (bytes), or "auto" for its share of this machine's."""
        return self.memory_limit if self.memory_limit == "auto" else size_of(self.memory_limit)

    @property
    def beside(self) -> int:
        """The bytes of `memory_limit` that other processes have beside the worker."""
        return 0

    @property
    def worker_room(self) -> WorkerRoom | None:
        """What a worker has for tasks; None where that depends on the machine."""
        limit = self.worker_memory()
        return None if isinstance(limit, str) else WorkerRoom(limit, self.threads_per_worker, beside=self.beside)

    def settings(self) -> dict[str, Any]:
        """Return Dask's settings for scheduler and workers."""
        return SETTINGS


BESIDE = 384 << 20  # bytes of a worker's process that its worker does not have: the Nanny's, and those of `dssl pod`
SMALLEST = 1 << 30  # bytes of a process of a batch job


class BatchRuntime(RankedRuntime):
    """A place whose processes are started for one run, each with an amount of memory that the engine is asked for."""

    @field_validator("memory_limit")
    @classmethod
    def _is_enough(cls, text: str) -> str:
        require(text != "auto" and size_of(text) >= SMALLEST, f"memory_limit: {text}", error=SpecError,
                why="the engine is asked for that much for each process, and ends a process that takes more",
                fix="write a size of 1GiB or more")
        return text

    @property
    def memory(self) -> int:
        """The bytes of each process."""
        return size_of(self.memory_limit)

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[Execution, str]]:
        raise SpecError(explain(
            f"kind: {getattr(self, 'kind', '')} describes a batch job, not a running cluster",
            why="its processes are started for one run", fix=self.instead))
        yield  # a context manager's function is a generator

    @property
    def instead(self) -> str:
        """What to do where a cluster is needed that is there."""
        return "submit the run with `dssl submit`"

    @property
    def beside(self) -> int:
        return BESIDE

    def worker_memory(self) -> int:
        """Return the bytes of a worker: Dask ends one that exceeds its limit with a message, the engine without."""
        return self.memory - BESIDE

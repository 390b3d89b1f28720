"""Base classes of cluster descriptions: validated fields, and how dssl starts an execution or a batch job with them.

The workers of an elastic pool (`PoolRuntime`) start when tasks wait, and end when none do.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from typing import Annotated, Protocol, Self

import dask
from distributed import Client
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, field_validator, model_validator

from ..base.errors import ClusterError, SpecError, explain, require
from ..base.units import size_of
from ..execution.cost import WorkerRoom
from ..execution.on_dask import OnDask
from ..execution.tasks import Execution
from ..execution.watchdog import PATIENCE
from .engine import Detached, Engine

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")  # variables of libraries
# What only the charts of Dask's dashboard show is watched less often, or not at all: two workers and a scheduler that
# waited took a sixth of a core.
WATCHED: Mapping[str, str | bool] = {
    "distributed.worker.profile.enabled": False, "distributed.admin.tick.interval": "500ms",
    "distributed.admin.system-monitor.interval": "5s", "distributed.admin.system-monitor.disk": False}
# Dask gives up a worker that hangs after one to two and a half minutes, and runs its tasks elsewhere. A worker whose
# memory is full is not paused, since it could wait forever: it goes on, and Dask ends it at 95 % of its limit. The
# error names a task that has ended four workers. No page is served over HTTP, since anybody who reaches the port could
# read it.
SETTINGS: Mapping[str, str | float | bool | list[str]] = {
    **WATCHED, "distributed.scheduler.worker-ttl": "60s", "distributed.scheduler.allowed-failures": 3,
    "distributed.worker.memory.target": False, "distributed.worker.memory.spill": False,
    "distributed.worker.memory.pause": False, "distributed.worker.memory.terminate": 0.95,
    "distributed.scheduler.http.routes": [], "distributed.worker.http.routes": []}


def environment_of(settings: Mapping[str, object]) -> dict[str, str]:
    """Return the variables by which a process of Dask gets settings."""
    return {"DASK_" + name.upper().replace(".", "__").replace("-", "_"): str(value) for name, value in settings.items()}


class Runtime(BaseModel, ABC):
    """A runtime of tasks. Each kind has a field `kind` with its own name, and `start.Described` lists it."""

    model_config = ConfigDict(extra="forbid")
    max_restarts: int = Field(default=3, ge=0, description="how often a submitted job is started again after it was "
                                                           "interrupted, as long as it made progress")

    @abstractmethod
    def start(self, memory_budget: int) -> AbstractContextManager[tuple[Execution, str]]:
        """Yield an execution and one line that says where it runs, and close it; raise ClusterError if out of reach."""

    @abstractmethod
    def engine(self) -> Engine:
        """Return the engine that starts a submitted job there."""

    @property
    def ranks(self) -> int:
        """The number of processes of a submitted job."""
        return 1

    @property
    def keeps_logs(self) -> bool:
        """Whether each process writes its own log; otherwise the engine writes it."""
        return False


class DaskRuntime(Runtime):
    """A runtime whose tasks run on Dask workers."""

    patience: float = Field(default=PATIENCE, gt=0, allow_inf_nan=False, description="seconds without a running worker "
                                                                                   "after which a run ends")


class RankedRuntime(DaskRuntime):
    """A runtime where a submitted job consists of scheduler, driver and workers, each a process with a rank."""

    workers: int = Field(ge=1)
    threads_per_worker: int = Field(default=1, ge=1)
    memory_limit: str = Field(description="of one worker")
    join_timeout: float = Field(default=120.0, gt=0, allow_inf_nan=False,
                                description="seconds in which the processes of a job must find each other")
    interface: str | None = Field(default=None, description="network interface that they use, such as ib0")

    @field_validator("memory_limit")
    @classmethod
    def _is_a_size(cls, text: str) -> str:
        if text != "auto":
            size_of(text)
        return text

    @property
    def ranks(self) -> int:
        return self.workers + 2  # a scheduler and a driver beside them

    @property
    def host(self) -> str | None:
        """The address at which scheduler and workers listen; None for the machine's own."""
        return None

    @property
    def serves_dashboard(self) -> bool:
        """Whether the scheduler serves Dask's dashboard."""
        return False

    def worker_memory(self) -> int | str:
        """Return the memory limit of a worker (bytes), or "auto" for its share of the machine's memory."""
        return self.memory_limit if self.memory_limit == "auto" else size_of(self.memory_limit)

    @property
    def beside(self) -> int:
        """The bytes of `memory_limit` for processes other than the worker."""
        return 0

    @property
    def worker_room(self) -> WorkerRoom | None:
        """The memory that a worker has for tasks; None if that depends on the machine."""
        limit = self.worker_memory()
        return None if isinstance(limit, str) else WorkerRoom(limit, self.threads_per_worker, beside=self.beside)

    def settings(self) -> Mapping[str, object]:
        """Return Dask's settings for scheduler and workers."""
        return SETTINGS


def _enough(text: str) -> str:
    require(text != "auto" and size_of(text) >= MIN_MEMORY, f"memory_limit: {text}", error=SpecError,
            why="so much is reserved for each process, and one that takes more is ended",
            fix="write a size of 1GiB or more")
    return text


OTHER_BYTES = 384 << 20  # of `memory_limit`, for the processes beside a worker: its Nanny, and `dssl pod`
MIN_MEMORY = 1 << 30  # bytes of a process of a batch job
EnoughMemory = Annotated[str, AfterValidator(_enough)]


class BatchRuntime(RankedRuntime):
    """A runtime whose processes are started for one run; the engine reserves `memory_limit` for each."""

    memory_limit: EnoughMemory = Field(description="of one worker")

    @property
    def memory(self) -> int:
        """The bytes of each process."""
        return size_of(self.memory_limit)

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[Execution, str]]:
        raise SpecError(explain(
            f"kind: {getattr(self, 'kind', '')} describes a batch job, not a running cluster",
            why="its processes are started for one run", fix=self.fix_without_cluster))
        yield  # makes the function a generator, which a context manager needs

    @property
    def fix_without_cluster(self) -> str:
        """What to do if a command needs a running cluster."""
        return "submit the run with `dssl submit`"

    @property
    def beside(self) -> int:
        return OTHER_BYTES

    def worker_memory(self) -> int:
        # Fewer than the engine's limit: Dask ends a worker that exceeds them with a message, the engine without one.
        return self.memory - OTHER_BYTES


class Pool(Protocol):
    """What `PoolRuntime` asks of a Dask cluster, of `distributed` or of a gateway."""

    def scale(self, n: int, /) -> object:
        """Request n workers."""

    def adapt(self, *, minimum: int, maximum: int) -> object:
        """Let the number of workers follow the tasks."""


class PoolRuntime(DaskRuntime):
    """Workers that another system starts one by one; the driver is this process."""

    workers: int = Field(ge=1, description="maximum number at a time")
    min_workers: int = Field(default=1, ge=0, description="that are kept while the run lasts")
    join_timeout: float = Field(default=3600.0, gt=0, allow_inf_nan=False,
                                description="seconds in which the first worker must connect")
    patience: float = Field(default=0.0, gt=0, allow_inf_nan=False,
                            description="seconds without a running worker after which a run ends; by default "
                                        "join_timeout, since the next worker may have to wait as long as the first")

    @model_validator(mode="after")
    def _set_patience(self) -> Self:
        require(self.min_workers <= self.workers, f"min_workers: {self.min_workers} with workers: {self.workers}",
                why="workers is the maximum number at a time", fix="raise workers, or lower min_workers",
                error=SpecError)
        if "patience" not in self.model_fields_set:
            self.patience = self.join_timeout
        return self

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[OnDask, str]]:
        with ExitStack() as stack:
            stack.enter_context(dask.config.set(SETTINGS))
            pool = self.pool(stack)
            client = stack.enter_context(Client(pool, timeout=self.join_timeout))
            # Adaptive scaling cancels, after seconds, a worker that has not started and has no task. So it begins after
            # the first worker has connected, whose memory also sets the size of tasks.
            self.ask_for_workers(pool, max(self.min_workers, 1))
            with suppress(TimeoutError):
                client.wait_for_workers(1, timeout=self.join_timeout)
            if not client.nthreads():
                raise ClusterError(explain(
                    f"no worker has connected within {self.join_timeout:.0f} seconds",
                    why=f"{self.starter} started none, or it did not reach the scheduler",
                    fix=self.fix_without_workers))
            execution = OnDask(client, memory_budget, self.patience)
            self.adapt(pool)
            yield execution, f"up to {self.workers} workers by {self.starter}"

    def engine(self) -> Detached:
        return Detached()  # the only process of the job is the driver

    @property
    @abstractmethod
    def starter(self) -> str:
        """The system that starts the workers, for messages."""

    @property
    @abstractmethod
    def fix_without_workers(self) -> str:
        """What to do if no worker connects."""

    @abstractmethod
    def pool(self, stack: ExitStack) -> Pool:
        """Return the Dask cluster, without workers, which `stack` closes; raise ClusterError or SpecError."""

    def ask_for_workers(self, pool: Pool, count: int) -> None:
        """Request a number of workers; raise ClusterError if the system refuses them."""
        pool.scale(count)

    def adapt(self, pool: Pool) -> None:
        """Start adaptive scaling: the number of workers follows the tasks that wait."""
        pool.adapt(minimum=self.min_workers, maximum=self.workers)

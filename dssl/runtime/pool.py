"""An elastic pool: its workers start when tasks wait, and end when none do."""

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any, Self

import dask
from distributed import Client
from pydantic import Field, model_validator

from ..base.errors import ClusterError, SpecError, explain, require
from ..execution.on_dask import OnDask
from .description import SETTINGS, DaskRuntime
from .detached import Detached


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
    def pool(self, stack: ExitStack) -> Any:
        """Return the Dask cluster, without workers, which `stack` closes; raise ClusterError or SpecError."""

    @abstractmethod
    def ask_for_workers(self, pool: Any, count: int) -> None:
        """Request a number of workers; raise ClusterError if the system refuses them."""

    @abstractmethod
    def adapt(self, pool: Any) -> None:
        """Start adaptive scaling: the number of workers follows the tasks that wait."""

"""An elastic pool: workers that come when there is work and go when there is none, whoever starts them."""

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
    """Workers that something else starts one by one; the driver is this process."""

    workers: int = Field(ge=1, description="the most at a time")
    least_workers: int = Field(default=1, ge=0, description="that are kept while the run lasts")
    join_timeout: float = Field(default=3600.0, gt=0, allow_inf_nan=False,
                                description="seconds for which the first worker is waited for")
    patience: float = Field(default=0.0, gt=0, allow_inf_nan=False,
                            description="seconds without a running worker after which a run ends; by default those of "
                                        "join_timeout, since the next worker may have to wait as long as the first")

    @model_validator(mode="after")
    def _waits_as_long_again(self) -> Self:
        require(self.least_workers <= self.workers, f"least_workers: {self.least_workers} with workers: {self.workers}",
                why="workers are the most at a time", fix="raise workers, or lower least_workers", error=SpecError)
        if "patience" not in self.model_fields_set:
            self.patience = self.join_timeout
        return self

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[OnDask, str]]:
        with ExitStack() as stack:
            stack.enter_context(dask.config.set(SETTINGS))
            pool = self.pool(stack)
            client = stack.enter_context(Client(pool, timeout=self.join_timeout))
            # Adapting withdraws after seconds what has not come and has no task yet: it begins with a worker that is
            # there, by whose memory tasks are sized.
            self.ask_for_workers(pool, max(self.least_workers, 1))
            with suppress(TimeoutError):
                client.wait_for_workers(1, timeout=self.join_timeout)
            if not client.nthreads():
                raise ClusterError(explain(
                    f"no worker has connected within {self.join_timeout:.0f} seconds",
                    why=f"{self.starter} has started none, or it did not reach the scheduler", fix=self.if_none_came))
            execution = OnDask(client, memory_budget, self.patience)
            self.adapt(pool)
            yield execution, f"up to {self.workers} workers by {self.starter}"

    def engine(self) -> Detached:
        return Detached()  # of one process, which is the driver

    @property
    @abstractmethod
    def starter(self) -> str:
        """What starts the workers, for messages."""

    @property
    @abstractmethod
    def if_none_came(self) -> str:
        """What to do where no worker came."""

    @abstractmethod
    def pool(self, stack: ExitStack) -> Any:
        """Return the Dask cluster, of no worker yet, which `stack` closes; raise ClusterError or SpecError."""

    @abstractmethod
    def ask_for_workers(self, pool: Any, count: int) -> None:
        """Ask for so many workers; raise ClusterError if they are refused."""

    @abstractmethod
    def adapt(self, pool: Any) -> None:
        """Have workers come and go with the tasks."""

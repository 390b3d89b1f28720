"""Worker processes on this machine."""

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import Any, Literal

import dask
from distributed import Client, LocalCluster
from distributed.security import Security
from pydantic import Field, field_validator

from ..base.errors import SpecError, require
from ..execution.on_dask import OnDask
from ..execution.tasks import available_cores
from .description import SETTINGS, RankedRuntime
from .detached import Detached


class LocalRuntime(RankedRuntime):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    workers: int = Field(default_factory=available_cores, ge=1)
    memory_limit: str = "auto"
    dashboard: bool = Field(default=False, description="whether Dask serves its dashboard on a free port of this "
                                                       "machine, which every user of the machine can read")

    @field_validator("dashboard")
    @classmethod
    def _can_be_served(cls, wanted: bool) -> bool:
        require(not wanted or find_spec("bokeh") is not None, "dashboard: true needs bokeh", error=SpecError,
                why="Dask draws its dashboard with it", fix="install it: pip install bokeh")
        return wanted

    @field_validator("interface")
    @classmethod
    def _is_loopback(cls, name: str | None) -> None:
        require(name is None, f"interface: {name} of kind: local", error=SpecError,
                why="its processes reach each other on this machine alone", fix="leave it out")

    @property
    def serves_dashboard(self) -> bool:
        """Whether the scheduler serves Dask's dashboard."""
        return self.dashboard

    def settings(self) -> dict[str, Any]:
        """Return Dask's settings for scheduler and workers."""
        routes = "distributed.scheduler.http.routes"
        return SETTINGS | ({routes: dask.config.get(routes)} if self.dashboard else {})

    @property
    def host(self) -> str:
        """The address at which scheduler and workers of a submitted job listen: no other machine reaches it."""
        return "127.0.0.1"

    def engine(self) -> Detached:
        return Detached()

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[OnDask, str]]:
        with ExitStack() as stack:
            stack.enter_context(dask.config.set(self.settings()))  # which worker processes inherit, and doctor asks for
            with _interrupts_ignored():
                cluster = stack.enter_context(LocalCluster(
                    n_workers=self.workers, threads_per_worker=self.threads_per_worker, processes=True,
                    memory_limit=self.memory_limit, dashboard_address=None, silence_logs=logging.CRITICAL,
                    # Certificates that only these processes have: a loopback port takes code from any user of the host.
                    security=Security.temporary(),
                    # Without a port of its own choice the scheduler warns where 8787 is taken.
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0", "dashboard": self.dashboard}))
            client = stack.enter_context(Client(cluster))
            link = f", dashboard at {cluster.dashboard_link}" if self.dashboard else ""
            yield (OnDask(client, memory_budget, self.patience),
                   f"{self.workers} local processes, {self.threads_per_worker} thread(s) each{link}")


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Ignore SIGINT, and have the processes that are started meanwhile ignore it for good.

    A terminal sends it to all of them. The command ends its workers itself; a page of their tracebacks tells nothing.
    """
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set a handler
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)

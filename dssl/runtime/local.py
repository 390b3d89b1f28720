"""Worker processes on this machine."""

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import dask
import psutil
from distributed import Client, LocalCluster
from distributed.security import Security
from distributed.system import memory_limit
from pydantic import Field, field_validator

from ..base.errors import SpecError, require
from ..base.signals import interrupts_not_inherited
from ..execution.on_dask import OnDask
from ..execution.threads import available_cores
from .description import SETTINGS, WATCHED, RankedRuntime
from .engine import Detached
from .fork_server import forked_workers

CONTAINER_USES, CONTAINER_STAT = Path("/sys/fs/cgroup/memory.current"), Path("/sys/fs/cgroup/memory.stat")


def machine_memory() -> tuple[int, int]:
    """Return the bytes of memory of this machine, or of its container, and how many of them are free."""
    whole, machine = memory_limit(), psutil.virtual_memory()
    if whole >= machine.total or not CONTAINER_USES.exists():
        return whole, min(whole, machine.available)
    stat = dict(line.split() for line in CONTAINER_STAT.read_text(encoding="ascii").splitlines())
    used = int(CONTAINER_USES.read_text(encoding="ascii")) - int(stat.get("inactive_file", 0))  # files are let go of
    return whole, min(whole - used, machine.available)


class LocalRuntime(RankedRuntime):
    """Worker processes on this machine."""

    kind: Literal["local"] = "local"
    workers: int = Field(default_factory=available_cores, ge=1)
    memory_limit: str = "auto"
    dashboard: bool = Field(default=False, description="whether Dask serves its dashboard on a free port of this "
                                                       "machine, which every user of the machine can read")

    @field_validator("dashboard")
    @classmethod
    def _can_be_served(cls, dashboard: bool) -> bool:
        require(not dashboard or find_spec("bokeh") is not None, "dashboard: true needs bokeh", error=SpecError,
                why="Dask draws its dashboard with it", fix="install it: pip install bokeh")
        return dashboard

    @field_validator("interface")
    @classmethod
    def _is_loopback(cls, name: str | None) -> None:
        require(name is None, f"interface: {name} of kind: local", error=SpecError,
                why="its processes connect to each other only on this machine", fix="leave it out")

    @property
    def serves_dashboard(self) -> bool:
        return self.dashboard

    def settings(self) -> Mapping[str, object]:
        shown = {"distributed.scheduler.http.routes", *WATCHED} if self.dashboard else set()
        return {name: value for name, value in SETTINGS.items() if name not in shown}

    @property
    def host(self) -> str:
        return "127.0.0.1"  # which no other machine reaches

    def engine(self) -> Detached:
        return Detached()

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[OnDask, str]]:
        with ExitStack() as stack:
            stack.enter_context(dask.config.set(self.settings()))  # worker processes inherit it, and doctor checks it
            stack.enter_context(forked_workers())
            # Dask could not close a cluster that has only half begun.
            with interrupts_not_inherited():
                cluster = stack.enter_context(LocalCluster(
                    n_workers=self.workers, threads_per_worker=self.threads_per_worker, processes=True,
                    env=dict(os.environ),  # what has changed since the process was started of which they are copies
                    memory_limit=self.memory_limit, dashboard_address=None, silence_logs=logging.CRITICAL,
                    # Without certificates any user of the host could run code through the loopback port.
                    security=Security.temporary(),
                    # Port 0: the scheduler would warn if its default port, 8787, is in use.
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0", "dashboard": self.dashboard}))
            client = stack.enter_context(Client(cluster))
            link = f", dashboard at {cluster.dashboard_link}" if self.dashboard else ""
            yield (OnDask(client, memory_budget, self.patience),
                   f"{self.workers} local processes, {self.threads_per_worker} thread(s) each{link}")

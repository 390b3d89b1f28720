"""An elastic pool on a batch system: workers are jobs that come when there is work and go when there is none."""

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from importlib import import_module
from typing import Any, Literal, Self

import dask
from dask.utils import parse_timedelta
from distributed import Client
from distributed.security import Security
from pydantic import Field, field_validator, model_validator

from ..errors import ClusterError, SpecError, explain, require
from ..execution.on_dask import OnDask
from ..execution.size import size_of
from .batch.detached import Detached
from .description import SETTINGS, DaskRuntime

CLUSTERS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster",
            "htcondor": "HTCondorCluster", "oar": "OARCluster"}  # of dask-jobqueue
MARGIN = 0.1  # of its wall clock by which a worker leaves before the end, of its own accord
LEAST_MARGIN = 120.0  # seconds of it
WITHOUT_QUEUE = ("htcondor",)  # systems that know neither queues nor wall clocks


class JobqueueRuntime(DaskRuntime):
    """Workers that a batch system starts one by one, through dask-jobqueue; scheduler and driver are this process.

    A worker ends by itself before its wall clock does, after it has handed its results over, and each at a time of its
    own; while tasks wait, others are asked for.
    """

    kind: Literal["jobqueue"] = "jobqueue"
    system: Literal["slurm", "pbs", "lsf", "sge", "htcondor", "oar"]
    workers: int = Field(ge=1, description="the most at a time")
    least_workers: int = Field(default=0, ge=0, description="that are kept while the run lasts")
    memory_limit: str = Field(description="of one worker")
    walltime: str = Field(default="1h", description="of one worker's job, such as 90m or 4h")
    queue: str | None = Field(default=None, description="or partition")
    account: str | None = None
    directives: list[str] = Field(default=[], description="further lines for the head of a job's script, without "
                                                          "its mark")
    prologue: list[str] = Field(default=[], description="shell lines before the worker starts, such as module load")
    shared_folder: str = Field(default=".", description="that all nodes mount: the certificates of the run lie there")
    interface: str | None = Field(default=None, description="network interface, such as ib0")
    join_timeout: float = Field(default=3600.0, gt=0, allow_inf_nan=False,
                                description="seconds for which the first worker is waited for")

    @field_validator("memory_limit")
    @classmethod
    def _is_a_size(cls, text: str) -> str:
        size_of(text)
        return text

    @field_validator("walltime")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        try:
            seconds = parse_timedelta(text)
        except (ValueError, KeyError):
            seconds = 0
        require(seconds >= 2 * LEAST_MARGIN, f"walltime: {text}", error=SpecError,
                why="it is the time of one worker's job, four minutes or more",
                fix="write a number and a unit, such as 90m or 4h")
        return text

    @model_validator(mode="after")
    def _is_known_there(self) -> Self:
        require(self.system not in WITHOUT_QUEUE or (self.queue is None and self.account is None), error=SpecError,
                what=f"queue or account with system: {self.system}", why="it has neither",
                fix="leave them out, or write what it has among directives")
        return self

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[OnDask, str]]:
        with ExitStack() as stack:
            stack.enter_context(dask.config.set(SETTINGS))
            cluster = self._cluster(stack)
            cluster.adapt(minimum=self.least_workers, maximum=self.workers)
            client = stack.enter_context(Client(cluster))
            if not self.least_workers:
                cluster.scale(1)  # tasks are sized by the memory of a worker that is there
            with suppress(TimeoutError):
                client.wait_for_workers(1, timeout=self.join_timeout)
            if not client.nthreads():
                raise ClusterError(explain(
                    f"no worker has come within {self.join_timeout:.0f} seconds", why=f"{self.system} has started no "
                    "job, or its worker did not reach this machine",
                    fix="look at the queue, and at the jobs' output; raise join_timeout where jobs wait long"))
            yield OnDask(client, memory_budget, self.patience), f"up to {self.workers} jobs of {self.system}"

    def engine(self) -> Detached:
        return Detached()  # of one process, which is the driver

    def _cluster(self, stack: ExitStack) -> Any:
        """Return the pool, of no worker yet."""
        try:
            made = getattr(import_module("dask_jobqueue"), CLUSTERS[self.system])
        except ImportError as error:
            raise SpecError(explain("kind: jobqueue needs dask-jobqueue", why=str(error),
                                    fix="install it: pip install dask-jobqueue")) from error
        command = made.job_cls.submit_command.split()[0]
        require(shutil.which(command) is not None, f"this machine has no command {command}", error=ClusterError,
                why=f"dask-jobqueue asks {self.system} for workers by it",
                fix="run this where the commands of the system are, such as a login node")
        return stack.enter_context(made(**self._options()))

    def _options(self) -> dict[str, Any]:
        """Return what dask-jobqueue is given."""
        seconds = parse_timedelta(self.walltime)
        margin = max(LEAST_MARGIN, MARGIN * seconds)
        hours, minutes = int(seconds // 3600), int(seconds // 60 % 60)
        folder = os.path.abspath(self.shared_folder)
        options = {
            "cores": 1, "processes": 1, "memory": str(size_of(self.memory_limit)), "python": sys.executable,
            "protocol": "tls://", "security": Security.temporary(), "shared_temp_directory": folder,
            "interface": self.interface, "log_directory": folder,
            "worker_extra_args": ["--lifetime", f"{seconds - margin:.0f}s", "--lifetime-stagger", f"{margin / 2:.0f}s",
                                  "--no-dashboard"],
            "job_script_prologue": [*self.prologue, *(f"export {name}=1" for name in (
                "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"))],
            "job_extra_directives": self.directives,
            "scheduler_options": {"dashboard": False, "dashboard_address": "127.0.0.1:0"}}
        if self.system not in WITHOUT_QUEUE:
            options |= {"queue": self.queue, "walltime": f"{hours:02d}:{minutes:02d}" + (
                "" if self.system == "lsf" else ":00")}
            options |= {"account" if self.system in ("slurm", "pbs") else "project": self.account}
        else:
            options["disk"] = "1GB"
        return options

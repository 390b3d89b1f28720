"""An elastic pool on a batch system: each worker is a job."""

import asyncio
import math
import os
import shutil
import sys
import warnings
from contextlib import ExitStack
from importlib import import_module
from typing import Any, Literal, Self

from dask.utils import parse_timedelta
from distributed.deploy.spec import ProcessInterface
from distributed.security import Security
from pydantic import Field, field_validator, model_validator

from ..base.digest import JsonObject
from ..base.errors import ClusterError, SpecError, explain, require
from ..base.units import size_of
from .description import OTHER_BYTES, THREADS, EnoughMemory, Pool, PoolRuntime

CLUSTERS = {"slurm": "SLURMCluster", "pbs": "PBSCluster", "lsf": "LSFCluster", "sge": "SGECluster",
            "htcondor": "HTCondorCluster", "oar": "OARCluster"}  # of dask-jobqueue
MARGIN = 0.1  # share of its wall clock that is left when a worker ends by itself
MIN_MARGIN = 120.0  # seconds of it
RETRY_SECONDS = 30.0  # after which a job that the system refused is submitted again
WITHOUT_QUEUE = ("htcondor",)  # systems that have neither queues nor wall clocks


def _resubmitting(job: type[Any]) -> type[Any]:
    """Return a class of jobs that are submitted again after their system refused them.

    dask-jobqueue alone counts such a job among those that wait, forever.
    """
    class Resubmitting(job):
        refusal = ""

        async def start(self) -> None:
            try:
                await super().start()
            except (RuntimeError, ValueError) as error:
                self.refusal = " ".join(str(error).rpartition("stderr:")[2].split())
                asyncio.get_running_loop().call_later(RETRY_SECONDS, self._leave)
                await ProcessInterface.start(self)

        async def close(self) -> None:
            await super().close()
            await ProcessInterface.close(self)  # dask-jobqueue omits this, and a job that still runs raises an error

        def _leave(self) -> None:
            pool = self._cluster()
            if pool is not None and self.name in pool.worker_spec:
                warnings.warn(f"the system refused a job for a worker, and dssl submits it again: {self.refusal}",
                              stacklevel=1)
                del pool.worker_spec[self.name]  # adaptive scaling then starts another

    return Resubmitting


class JobqueueRuntime(PoolRuntime):
    """Workers that a batch system starts one by one, through dask-jobqueue; scheduler and driver are this process.

    A worker ends before its wall clock does, after it has handed over its results; workers end at different times.
    While tasks wait, further workers are started.
    """

    kind: Literal["jobqueue"] = "jobqueue"
    system: Literal["slurm", "pbs", "lsf", "sge", "htcondor", "oar"]
    min_workers: int = Field(default=0, ge=0, description="that are kept while the run lasts")
    memory_limit: EnoughMemory = Field(description="of one worker's job")
    walltime: str = Field(default="1h", description="of one worker's job, such as 90m or 4h")
    idle_timeout: float = Field(default=60.0, ge=1, allow_inf_nan=False,
                                description="seconds after which a worker without a task, or its waiting job, ends")
    queue: str | None = Field(default=None, description="or partition")
    account: str | None = None
    directives: list[str] = Field(default=[], description="further lines for the head of a job's script, without "
                                                          "a prefix such as #SBATCH")
    prologue: list[str] = Field(default=[], description="shell lines before the worker starts, such as module load")
    shared_folder: str = Field(default=".", description="that all nodes mount, for the certificates of the run")
    interface: str | None = Field(default=None, description="network interface, such as ib0")

    @field_validator("walltime")
    @classmethod
    def _is_a_time(cls, text: str) -> str:
        try:
            seconds = parse_timedelta(text)
        except (ValueError, KeyError):
            seconds = 0
        require(seconds >= 2 * MIN_MARGIN, f"walltime: {text}", error=SpecError,
                why="it is the time of one worker's job, four minutes or more",
                fix="write a number and a unit, such as 90m or 4h")
        return text

    @model_validator(mode="after")
    def _system_has_queues(self) -> Self:
        require(self.system not in WITHOUT_QUEUE or (self.queue is None and self.account is None), error=SpecError,
                what=f"queue or account with system: {self.system}", why="this system has neither",
                fix="leave them out, or write its own options in directives")
        return self

    @property
    def starter(self) -> str:
        return f"jobs of {self.system}"

    @property
    def fix_without_workers(self) -> str:
        return "look at the queue and at the jobs' output; raise join_timeout if jobs wait long"

    def pool(self, stack: ExitStack) -> Pool:
        try:
            cluster_class = getattr(import_module("dask_jobqueue"), CLUSTERS[self.system])
        except ImportError as error:
            raise SpecError(explain("kind: jobqueue needs dask-jobqueue", why=str(error),
                                    fix="install it: pip install dask-jobqueue")) from error
        command = cluster_class.job_cls.submit_command.split()[0]
        require(shutil.which(command) is not None, f"this machine has no command {command}", error=ClusterError,
                why=f"dask-jobqueue submits the workers to {self.system} with it",
                fix="run this on a machine that has the commands of the system, such as a login node")
        return stack.enter_context(cluster_class(job_cls=_resubmitting(cluster_class.job_cls), **self._options()))

    def ask_for_workers(self, pool: Any, count: int) -> None:
        async def submitted() -> list[str]:
            await pool  # until the jobs are submitted
            return [job.refusal for job in pool.workers.values() if job.refusal]

        pool.scale(count)
        refusals = pool.sync(submitted)
        require(not refusals, f"{self.system} refuses the job of a worker", error=ClusterError,
                why="; ".join(refusals), fix="correct queue, account, walltime, memory_limit or directives")

    def adapt(self, pool: Any) -> None:
        pool.adapt(minimum=self.min_workers, maximum=self.workers, interval="1s",
                   wait_count=math.ceil(self.idle_timeout))

    def _options(self) -> JsonObject:
        """Return the arguments of dask-jobqueue's cluster."""
        seconds = parse_timedelta(self.walltime)
        margin = max(MIN_MARGIN, MARGIN * seconds)
        hours = int(seconds // 3600)
        minutes = int(seconds // 60 % 60)
        folder = os.path.abspath(self.shared_folder)
        options = {
            "cores": 1, "processes": 1, "memory": str(size_of(self.memory_limit)), "python": sys.executable,
            "protocol": "tls://", "security": Security.temporary(), "shared_temp_directory": folder,
            "interface": self.interface, "log_directory": folder,
            # A worker has less memory than its job, since its Nanny runs there too. The last such argument counts.
            "worker_extra_args": ["--memory-limit", str(size_of(self.memory_limit) - OTHER_BYTES),
                                  "--lifetime", f"{seconds - margin:.0f}s", "--lifetime-stagger", f"{margin / 2:.0f}s",
                                  "--no-dashboard"],
            "job_script_prologue": [*self.prologue, *(f"export {name}=1" for name in THREADS)],
            "job_extra_directives": self.directives,
            "scheduler_options": {"dashboard": False, "dashboard_address": "127.0.0.1:0"}}
        if self.system not in WITHOUT_QUEUE:
            options |= {"queue": self.queue, "walltime": f"{hours:02d}:{minutes:02d}" + (
                "" if self.system == "lsf" else ":00")}
            options |= {"account" if self.system in ("slurm", "pbs") else "project": self.account}
        else:
            options["disk"] = "1GB"
        return options

"""Load cluster descriptions, YAML files that say where tasks run, and open their runtimes.

    kind: local        workers, threads_per_worker, memory_limit, patience
    kind: address      address (tcp:// on this machine, tls:// anywhere), tls: {ca_file, cert, key}, insecure, patience
    kind: slurm        workers, memory_limit, time, ...: one job, only for `dssl submit` (cluster/slurm.yaml)
    kind: kubernetes   workers, memory_limit, image, claim, ...: likewise (cluster/kubernetes.yaml)
    kind: script       workers, memory_limit, template, submit, query, cancel, ...: likewise (cluster/pbs.yaml)
    kind: jobqueue     system, workers, memory_limit, walltime, ...: an elastic pool (cluster/jobqueue.yaml)
    kind: gateway      address, workers, options, ...: likewise (cluster/gateway.yaml)
    kind: dask-operator  image, claim, workers, ...: likewise, of Kubernetes (cluster/dask-operator.yaml)
    kind: in-process   threads

A new kind is a class that `Described` lists.
"""

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter, ValidationError

from ..base.errors import SpecError, explain, said
from ..base.units import MEMORY_BUDGET
from ..base.yaml import read_yaml
from ..execution.in_process import InProcess
from ..execution.tasks import Execution
from .address import AddressRuntime
from .dask_operator import OperatorRuntime
from .description import Runtime
from .engine import Detached
from .gateway import GatewayRuntime
from .jobqueue import JobqueueRuntime
from .kubernetes import CronJobs, KubernetesRuntime
from .local import LocalRuntime
from .schedules import Cron, Scheduler, Systemd
from .script import ScriptRuntime
from .slurm import SlurmRuntime, SlurmTimes


class InProcessRuntime(Runtime):
    """Threads of this process."""

    kind: Literal["in-process"] = "in-process"
    threads: int | None = Field(default=None, ge=1)

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[InProcess, str]]:
        execution = InProcess(self.threads, memory_budget)
        yield execution, execution.in_words

    def engine(self) -> Detached:
        return Detached()


Described = Annotated[LocalRuntime | AddressRuntime | SlurmRuntime | JobqueueRuntime | KubernetesRuntime |
                      ScriptRuntime | GatewayRuntime | OperatorRuntime | InProcessRuntime,
                      Field(discriminator="kind")]
DESCRIPTION: TypeAdapter[Runtime] = TypeAdapter(Described)
SCHEDULERS: dict[str, Scheduler] = {  # what starts runs at certain times
    "cron": Cron(), "systemd": Systemd(), "slurm": SlurmTimes(), "kubernetes": CronJobs()}


def load_runtime(source: str | Path | None) -> Runtime:
    """Return the description in a YAML file, at a scheduler's address, of "in-process", or of this machine (None)."""
    if source is None:
        return LocalRuntime()
    if source == "in-process":
        fields = {"kind": "in-process"}
    elif isinstance(source, str) and re.fullmatch(r"[\w.-]+:\d+|\[[\da-fA-F:]+\]:\d+", source):
        raise SpecError(explain(f"{source} lacks the scheme of an address",
                                why="the scheme says whether the connection is encrypted",
                                fix=f"write tls://{source}, or tcp://{source} for a scheduler on this machine"))
    elif "://" in str(source):
        fields = {"kind": "address", "address": str(source)}
    else:
        fields = read_yaml(source, why="--on says where tasks run",
                           fix="name a YAML file such as cluster/local.yaml, an address, or in-process")
    try:
        return DESCRIPTION.validate_python(fields)
    except ValidationError as error:
        wrong = "; ".join(f"{'.'.join(map(str, item['loc'])) or 'kind'}: {said(item)}" for item in error.errors())
        raise SpecError(explain(f"{source} is not a cluster description: {wrong}", why="it says where tasks run",
                                fix="see cluster/local.yaml")) from error


@contextmanager
def open_runtime(source: str | Path | None, memory_budget: int | None = None) -> Iterator[tuple[Execution, str]]:
    """Yield an execution on the described runtime and one line that describes it; see `Runtime.start`."""
    for name in ("distributed", "distributed.client"):  # dssl's own messages say the same in one sentence
        logging.getLogger(name).setLevel(logging.CRITICAL)
    with load_runtime(source).start(memory_budget or MEMORY_BUDGET) as started:
        yield started

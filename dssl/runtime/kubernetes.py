"""Kubernetes: a submitted job is one Indexed Job, each rank a pod."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ..errors import SpecError, explain, require
from ..execution.size import size_of
from ..execution.tasks import Execution
from .batch.kubernetes import HOST, Kubernetes
from .description import RankedRuntime

BESIDE = 384 << 20  # bytes of a worker's pod that its worker does not have: the Nanny's and those of `dssl pod`
SMALLEST = 1 << 30  # bytes of a pod
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]


class KubernetesRuntime(RankedRuntime):
    """Pods of one Job, which `dssl submit` hands over."""

    kind: Literal["kubernetes"] = "kubernetes"
    image: str = Field(pattern=r"^[\w][\w.:/@-]*$", description="of all pods, best by digest: NAME@sha256:...")
    claim: Name = Field(description="PersistentVolumeClaim with the workspace; ReadWriteMany where there is more than "
                                    "one node")
    mount: Path = Field(description="where the pods, and the machine that submits, mount it")
    namespace: Name = "default"
    user: int = Field(default=1000, ge=1, description="number of the user, and of the group, that the processes have")
    join_timeout: float = Field(default=900.0, gt=0, allow_inf_nan=False,
                                description="seconds in which the pods must find each other: nodes may have to be "
                                            "started for them, and images pulled")
    labels: dict[str, str] = Field(default={}, description="of job and pods, such as that of a queue")
    node_selector: dict[str, str] = Field(default={}, description="labels of the nodes to use")
    secrets: list[Name] = Field(default=[], description="names of Secrets whose keys become variables of the pods")
    pull_secrets: list[Name] = Field(default=[], description="names of Secrets that open the image's registry")
    priority_class: Name | None = None

    @field_validator("mount")
    @classmethod
    def _is_absolute(cls, mount: Path) -> Path:
        require(mount.is_absolute() and mount != Path("/"), f"mount: {mount}", error=SpecError,
                why="a volume is mounted at an absolute path below /", fix="write such as /work")
        return mount

    @field_validator("memory_limit")
    @classmethod
    def _is_enough(cls, text: str) -> str:
        require(text != "auto" and size_of(text) >= SMALLEST, f"memory_limit: {text}", error=SpecError,
                why="Kubernetes is asked for that much for each pod, and ends a pod that takes more",
                fix="write a size of 1GiB or more")
        return text

    @property
    def host(self) -> str | None:
        """The address of the pod, which the others reach; None where an interface is named."""
        return None if self.interface else os.environ.get(HOST)

    @contextmanager
    def start(self, memory_budget: int) -> Iterator[tuple[Execution, str]]:
        raise SpecError(explain(
            "kind: kubernetes describes a job, not a cluster that is there", why="its pods are started for one run",
            fix="hand the run over with `dssl submit`"))
        yield  # a context manager's function is a generator

    def engine(self) -> Kubernetes:
        return Kubernetes(
            image=self.image, namespace=self.namespace, claim=self.claim, mount=self.mount, user=self.user,
            memory=size_of(self.memory_limit), cores=self.threads_per_worker, max_restarts=self.max_restarts,
            labels=self.labels, node_selector=self.node_selector, secrets=self.secrets,
            pull_secrets=self.pull_secrets, priority_class=self.priority_class)

    def worker_memory(self) -> int:
        """Return the bytes of a worker: Dask ends one that exceeds its limit with a message, the kernel without."""
        return size_of(self.memory_limit) - BESIDE

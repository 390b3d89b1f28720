"""Kubernetes: a submitted job is one Indexed Job, each rank a pod."""

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, field_validator

from ..errors import SpecError, require
from .batch.kubernetes import HOST, Kubernetes
from .description import BatchRuntime

Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]


class KubernetesRuntime(BatchRuntime):
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

    @property
    def host(self) -> str | None:
        """The address of the pod, which the others reach; None where an interface is named."""
        return None if self.interface else os.environ.get(HOST)

    def engine(self) -> Kubernetes:
        return Kubernetes(
            image=self.image, namespace=self.namespace, claim=self.claim, mount=self.mount, user=self.user,
            memory=self.memory, cores=self.threads_per_worker, max_restarts=self.max_restarts,
            labels=self.labels, node_selector=self.node_selector, secrets=self.secrets,
            pull_secrets=self.pull_secrets, priority_class=self.priority_class)

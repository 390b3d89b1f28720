"""Kubernetes: a submitted job is one Indexed Job, each rank a pod."""

import os
from typing import Literal

from pydantic import Field

from .batch.kubernetes import HOST, Kubernetes
from .description import BatchRuntime
from .pods import PodFields


class KubernetesRuntime(PodFields, BatchRuntime):
    """Pods of one Job, which `dssl submit` hands over."""

    kind: Literal["kubernetes"] = "kubernetes"
    join_timeout: float = Field(default=900.0, gt=0, allow_inf_nan=False,
                                description="seconds in which the pods must find each other: nodes may have to be "
                                            "started for them, and images pulled")

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

"""An elastic pool of the Dask operator of Kubernetes, through dask-kubernetes' KubeCluster."""

import threading
import uuid
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, Self

from pydantic import Field, model_validator

from ..base.digest import JsonObject
from ..base.errors import ClusterError, SpecError, explain, require
from ..base.units import size_of
from .description import OTHER_BYTES, WATCHED, EnoughMemory, Pool, PoolRuntime, environment_of
from .kubernetes import PodFields

SCHEDULER_PORT = 8786
HTTP_PORT = 8787
SCHEDULER_MEMORY = 2 << 30  # bytes
# The operator asks the scheduler by HTTP how many workers it needs, and which of them to end.
ROUTES = {"scheduler": '["distributed.http.scheduler.api", "distributed.http.health"]', "worker": "[]"}
SETTINGS = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "60s", "DASK_DISTRIBUTED__WORKER__MEMORY__TARGET": "False",
            "DASK_DISTRIBUTED__WORKER__MEMORY__SPILL": "False", "DASK_DISTRIBUTED__WORKER__MEMORY__PAUSE": "False",
            "DASK_DISTRIBUTED__SCHEDULER__HTTP__ROUTES": ROUTES["scheduler"],
            "DASK_DISTRIBUTED__WORKER__HTTP__ROUTES": ROUTES["worker"],
            **environment_of(WATCHED)}  # like `description.SETTINGS`


class OperatorRuntime(PodFields, PoolRuntime):
    """Pods that the Dask operator starts; the driver is this process, which should be a pod itself.

    The operator does not support TLS: whoever reaches the scheduler's port in the network of the pods can run code on
    every worker.
    """

    kind: Literal["dask-operator"] = "dask-operator"
    memory_limit: EnoughMemory = Field(description="of a worker's pod")
    insecure: Literal[True] = Field(description="true: you know that the operator encrypts nothing")
    idle_timeout: int = Field(default=3600, ge=60, description="seconds without a task after which the operator "
                                                               "removes the cluster of a driver that was killed")

    @model_validator(mode="before")
    @classmethod
    def _require_location(cls, fields: object) -> object:
        require(not isinstance(fields, dict) or fields.get("insecure") is True, error=SpecError,
                what="kind: dask-operator without insecure: true",
                why="the operator encrypts nothing: whoever reaches the scheduler in the network of the pods can run "
                    "code on every worker",
                fix="write insecure: true if a NetworkPolicy keeps others away; or use kind: kubernetes, with TLS")
        return fields

    @model_validator(mode="after")
    def _idle_timeout_covers_joining(self) -> Self:
        require(self.idle_timeout >= self.join_timeout, f"idle_timeout: {self.idle_timeout}", error=SpecError,
                why=f"a run waits {self.join_timeout:.0f} seconds for its first worker (join_timeout), without a task",
                fix="set it to join_timeout or more")
        return self

    @property
    def starter(self) -> str:
        return "the Dask operator"

    @property
    def fix_without_workers(self) -> str:
        return f"see `kubectl --namespace {self.namespace} get daskclusters,pods`, and their events"

    def pool(self, stack: ExitStack) -> Pool:
        try:
            import kr8s
            from dask_kubernetes.exceptions import SchedulerStartupError
            from dask_kubernetes.operator import KubeCluster
            from httpx import HTTPError
        except ImportError as error:
            raise SpecError(explain("kind: dask-operator needs dask-kubernetes", why=str(error),
                                    fix="install it: pip install dask-kubernetes")) from error
        cluster: Future[KubeCluster] = Future()
        name = f"dssl-{uuid.uuid4().hex[:12]}"
        spec = self.cluster(name, Path.cwd())

        def create() -> None:
            try:
                cluster.set_result(KubeCluster(custom_cluster_spec=spec, namespace=self.namespace, quiet=True,
                                            shutdown_on_close=True))
            except BaseException as error:  # the thread that waits raises it
                cluster.set_exception(error)

        try:
            # In a thread, since KubeCluster waits forever if the scheduler's pod never starts.
            threading.Thread(target=create, daemon=True).start()
            try:
                return stack.enter_context(cluster.result(timeout=self.join_timeout))
            finally:
                if not cluster.done():
                    kind = kr8s.objects.new_class("DaskCluster", "kubernetes.dask.org/v1", asyncio=False)
                    kind.get(name, namespace=self.namespace).delete()
        except (HTTPError, OSError, RuntimeError, ValueError, SchedulerStartupError, kr8s.NotFoundError,
                kr8s.ServerError, kr8s.APITimeoutError, kr8s.ConnectionClosedError) as error:
            reason = str(error) or f"the scheduler did not start within {self.join_timeout:.0f} seconds"
            raise ClusterError(explain(
                f"the Dask operator gives no cluster: {reason}", why="tasks run on its workers",
                fix="see that the operator is installed, and that you may create daskclusters in the namespace "
                    f"{self.namespace}; {self.fix_without_workers}")) from error

    def cluster(self, name: str, cwd: Path) -> JsonObject:
        """Return the DaskCluster: a pod of the scheduler with its service, and a pod for each worker."""
        memory = size_of(self.memory_limit)
        ports = [("tcp-comm", SCHEDULER_PORT), ("http-dashboard", HTTP_PORT)]  # names that the operator expects
        return {
            "apiVersion": "kubernetes.dask.org/v1", "kind": "DaskCluster",
            "metadata": self.metadata(name, self.labelled(name)),
            "spec": {
                "idleTimeout": self.idle_timeout,
                "scheduler": {
                    "spec": self._pod(cwd, "scheduler", [
                        "dask", "scheduler", "--host", "0.0.0.0", "--port", str(SCHEDULER_PORT), "--dashboard-address",
                        f":{HTTP_PORT}", "--no-dashboard"], SCHEDULER_MEMORY, {
                            "ports": [{"name": port, "containerPort": number} for port, number in ports],
                            "readinessProbe": {"httpGet": {"path": "/health", "port": "http-dashboard"},
                                               "periodSeconds": 2, "timeoutSeconds": 10},
                            "livenessProbe": {"tcpSocket": {"port": "tcp-comm"}, "initialDelaySeconds": 60,
                                              "periodSeconds": 30, "timeoutSeconds": 30}}),
                    "service": {"type": "ClusterIP", "selector": {"dask.org/cluster-name": name,
                                                                  "dask.org/component": "scheduler"},
                                "ports": [{"name": port, "port": number, "targetPort": port}
                                          for port, number in ports]}},
                "worker": {"replicas": max(self.min_workers, 1), "spec": self._pod(cwd, "worker", [
                    "dask", "worker", "--name", "$(DASK_WORKER_NAME)", "--nthreads", "1", "--memory-limit",
                    str(memory - OTHER_BYTES),
                    "--local-directory", "/tmp", "--no-dashboard"], memory, {})}}}

    def _pod(self, cwd: Path, name: str, command: list[str], memory: int, fields: JsonObject) -> JsonObject:
        """Return the spec of a pod that its Deployment restarts. fields : further ones of the container."""
        pod = self.pod(command, cwd, SETTINGS, memory=memory)
        container, = pod["containers"]
        return pod | {"restartPolicy": "Always", "containers": [container | {"name": name} | fields]}

"""Kubernetes: a submitted job is one Indexed Job of `batch/v1`, whose pods are the ranks.

The index of a pod is its rank. Kubernetes replaces a pod that ends with the exit code `COME_BACK`, and leaves the other
pods as they are: all read the address of the newest scheduler from the shared volume. Any other exit code ends the run
and the job for good. The job succeeds when the driver does.
"""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC
from pathlib import Path
from types import FrameType
from typing import IO, Annotated, Any, Literal, cast

from pydantic import BaseModel, Field, field_validator

from ..base.digest import JsonObject
from ..base.errors import COME_BACK, ClusterError, SpecError, require
from ..base.yaml import yaml_text
from .description import THREADS, BatchRuntime
from .engine import DRIVER, NOTICE, RANKS, Engine, Handle, Job, run_command
from .schedules import Scheduled, Scheduler

FIX = "install kubectl, check `kubectl auth can-i create jobs`, and see the message above"
HOST = "DSSL_HOST"  # the variable with a pod's address
FAILURES = 10  # that one pod may have in addition to one for each start of the job
JOB_TTL = 7 * 24 * 3600  # seconds for which Kubernetes shows a job that has ended
FINAL = (1, 2, 3, 4, 5)  # exit codes of a run that has ended for good; a cancelled run has no job any more
CACHES = {"NUMBA_CACHE_DIR": "/tmp/numba", "MPLCONFIGDIR": "/tmp/matplotlib", "HOME": "/tmp"}
HEAD = """\
# dssl: {ranks} pods, one of which is the scheduler and one the driver. A pod that ends with {come_back} is replaced.
# kubectl create -f job.yaml
"""
Name = Annotated[str, Field(pattern=r"^[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?$")]


class PodFields(BaseModel):
    """Fields of the descriptions of pods that mount one volume."""

    image: str = Field(pattern=r"^[\w][\w.:/@-]*$", description="of all pods, best by digest: NAME@sha256:...")
    claim: Name = Field(description="PersistentVolumeClaim with the workspace; ReadWriteMany if there is more than "
                                    "one node")
    mount: Path = Field(description="path at which the pods, and the machine that submits, mount it")
    namespace: Name = "default"
    user: int = Field(default=1000, ge=1, description="number of the user, and of the group, that runs the processes")
    labels: dict[str, str] = Field(default={}, description="of the objects, such as that of a queue")
    node_selector: dict[str, str] = Field(default={}, description="labels of the nodes to use")
    secrets: list[Name] = Field(default=[], description="names of Secrets whose keys become variables of the pods")
    pull_secrets: list[Name] = Field(default=[], description="names of Secrets for the image's registry")
    priority_class: Name | None = None

    @field_validator("mount")
    @classmethod
    def _is_absolute(cls, mount: Path) -> Path:
        require(mount.is_absolute() and mount != Path("/"), f"mount: {mount}", error=SpecError,
                why="a volume is mounted at an absolute path below /", fix="write a path such as /work")
        return mount

    def metadata(self, name: str, labels: Mapping[str, str]) -> JsonObject:
        """Return the metadata of an object."""
        return {"name": name, "namespace": self.namespace, "labels": dict(labels)}

    def labelled(self, name: str) -> dict[str, str]:
        """Return the labels of the objects of one job or schedule."""
        return {"app.kubernetes.io/name": "dssl", "app.kubernetes.io/instance": name,
                "app.kubernetes.io/managed-by": "dssl", **self.labels}

    def pod(self, command: Sequence[str], cwd: Path, variables: Mapping[str, str], *, memory: int,
            cores: int = 1) -> JsonObject:
        """Return the spec of a pod that starts once, does not run as root, and can write only to its volumes.

        memory : of the pod, bytes.
        """
        self.require_on_volume("the folder in which you are", cwd)
        amount = {"cpu": str(cores), "memory": f"{memory >> 20}Mi"}
        values = dict(variables) | {name: str(cores) for name in THREADS} | CACHES
        container = {
            "name": "dssl", "image": self.image, "command": list(command), "workingDir": str(cwd),
            "env": [{"name": HOST, "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                    *({"name": name, "value": value} for name, value in values.items())],
            **({"envFrom": [{"secretRef": {"name": name}} for name in self.secrets]} if self.secrets else {}),
            "resources": {"requests": amount, "limits": dict(amount)},
            "securityContext": {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True,
                                "capabilities": {"drop": ["ALL"]}},
            "volumeMounts": [{"name": "workspace", "mountPath": str(self.mount)},
                             {"name": "scratch", "mountPath": "/tmp"}]}
        return {
            "restartPolicy": "Never", "terminationGracePeriodSeconds": NOTICE,
            "automountServiceAccountToken": False, "enableServiceLinks": False,
            "securityContext": {"runAsNonRoot": True, "runAsUser": self.user, "runAsGroup": self.user,
                                "fsGroup": self.user, "fsGroupChangePolicy": "OnRootMismatch",
                                "seccompProfile": {"type": "RuntimeDefault"}},
            **({"nodeSelector": dict(self.node_selector)} if self.node_selector else {}),
            **({"priorityClassName": self.priority_class} if self.priority_class else {}),
            **({"imagePullSecrets": [{"name": name} for name in self.pull_secrets]} if self.pull_secrets else {}),
            "containers": [container],
            "volumes": [{"name": "workspace", "persistentVolumeClaim": {"claimName": self.claim}},
                        {"name": "scratch", "emptyDir": {}}]}

    def require_on_volume(self, what: str, path: Path) -> None:
        """Raise SpecError unless a path lies on the volume that the pods mount."""
        require(Path(os.path.abspath(path)).is_relative_to(self.mount), error=SpecError,
                what=f"{what}, {path}, does not lie below {self.mount}",
                why=f"pods see the volume {self.claim} there, and no other files of this machine",
                fix=f"mount the volume at {self.mount} here as well, or submit from a pod that does, such as that of "
                    "cluster/manifests/desk.yaml")


class KubernetesRuntime(PodFields, BatchRuntime):
    """Pods of one Job, which `dssl submit` creates."""

    kind: Literal["kubernetes"] = "kubernetes"
    join_timeout: float = Field(default=900.0, gt=0, allow_inf_nan=False,
                                description="seconds in which the pods must find each other: nodes may have to be "
                                            "started for them, and images pulled")

    @property
    def host(self) -> str | None:
        return None if self.interface else os.environ.get(HOST)

    def engine(self) -> "Kubernetes":
        return Kubernetes(self)


@dataclass(frozen=True)
class Kubernetes(Engine):
    """Submits jobs with `kubectl`."""

    asked: "KubernetesRuntime"
    name = "Kubernetes"
    file = "job.yaml"

    def render(self, job: Job) -> str:
        self.asked.require_on_volume("the workspace", job.folder)
        labels = self.asked.labelled(job.name) | {"dssl/run": job.folder.name}
        made = {
            "apiVersion": "batch/v1", "kind": "Job", "metadata": self.asked.metadata(job.name, labels),
            "spec": {
                "completionMode": "Indexed", "completions": job.ranks, "parallelism": job.ranks,
                "backoffLimitPerIndex": self.asked.max_restarts + FAILURES, "podReplacementPolicy": "Failed",
                "podFailurePolicy": {"rules": [
                    {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
                    {"action": "FailJob", "onExitCodes": {"containerName": "dssl", "operator": "In",
                                                          "values": list(FINAL)}}]},
                "successPolicy": {"rules": [{"succeededIndexes": str(DRIVER)}]}, "ttlSecondsAfterFinished": JOB_TTL,
                "template": {"metadata": {"labels": labels}, "spec": self.asked.pod(
                    ["dssl", "pod", str(job.folder)], job.cwd, {RANKS: str(job.ranks)},
                    memory=self.asked.memory, cores=self.asked.threads_per_worker)}}}
        return HEAD.format(ranks=job.ranks, come_back=COME_BACK) + yaml_text(made)

    def submit(self, job: Job, rendered: Path) -> Handle:
        existing = self._object(job.name)
        run = _run(existing)
        require(existing is None or _has_ended(existing), f"the job {job.name} is already running, for run {run}",
                error=ClusterError, why="the same spec never runs twice at a time",
                fix=f"wait for it (`dssl wait {run}`), or end it: kubectl --namespace {self.asked.namespace} "
                    f"delete job {job.name}")
        if existing is not None:
            self.kubectl("delete", "job", job.name, "--ignore-not-found", "--cascade=foreground")
        made = json.loads(self.kubectl("create", "--filename", str(rendered), "--output", "json"))
        return {"job": job.name, "uid": made["metadata"]["uid"]}

    def knows(self, handle: Handle) -> bool:
        job = self._object(handle["job"])
        return job is not None and job["metadata"]["uid"] == handle["uid"] and not _has_ended(job)

    def cancel(self, handle: Handle) -> None:
        if self.knows(handle):
            self.kubectl("delete", "job", handle["job"], "--ignore-not-found", "--wait=false")

    def _object(self, name: str) -> JsonObject | None:
        """Return the object of a job in Kubernetes; None if there is none."""
        text = self.kubectl("get", "job", name, "--ignore-not-found", "--output", "json")
        return cast(JsonObject, json.loads(text)) if text.strip() else None

    def kubectl(self, *words: str) -> str:
        """Return the output of kubectl; raise ClusterError if it fails."""
        return run_command(["kubectl", "--namespace", self.asked.namespace, *words], fix=FIX)


def _has_ended(job: Mapping[str, Any]) -> bool:
    return any(condition["type"] in ("Complete", "Failed") and condition["status"] == "True"
               for condition in job.get("status", {}).get("conditions", ()))


def _run(job: Mapping[str, Any] | None) -> str:
    """Return the name of the run of a job."""
    return str(job["metadata"].get("labels", {}).get("dssl/run", "(unknown)")) if job else ""


OUTPUT_SECONDS = 5.0  # for which output is read after a rank has ended, since processes that it started may go on


def attend(command: Sequence[str], log: Path) -> int:
    """Run a command to its end; return its exit code, or -N if signal N ended it.

    Its output goes to `log` and to the standard output of this process, which `kubectl logs` shows. It gets SIGTERM and
    SIGUSR1. Raises OSError: the log cannot be written.
    """
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    process: subprocess.Popen[bytes] | None = None
    early: list[int] = []

    def pass_on(number: int, frame: FrameType | None) -> None:
        if process is None:
            early.append(number)
        elif process.poll() is None:
            process.send_signal(number)

    signal.signal(signal.SIGTERM, pass_on)
    signal.signal(signal.SIGUSR1, pass_on)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for number in early:
        process.send_signal(number)
    assert process.stdout is not None
    reader = threading.Thread(target=_copy, args=(process.stdout, descriptor), daemon=True)
    reader.start()
    code = process.wait()
    reader.join(OUTPUT_SECONDS)
    return code


def _copy(source: IO[bytes], descriptor: int) -> None:
    """Append everything from a pipe to an open file and to standard output."""
    with open(descriptor, "wb", buffering=0) as file:
        while chunk := os.read(source.fileno(), 1 << 16):
            file.write(chunk)
            sys.stdout.buffer.write(chunk)
            sys.stdout.buffer.flush()


# ---- schedules


DEADLINE = 3600  # seconds after its time until which Kubernetes may start a firing
MEMORY = 1 << 30  # bytes of the pod that plans, submits and waits
VERBS = ("get", "list", "watch", "create", "delete")  # what `kubectl` does with the jobs of runs
RBAC = "rbac.authorization.k8s.io"


class CronJobs(Scheduler):
    """A CronJob, and an account that may only create Jobs in its namespace."""

    zone = UTC
    file = "cronjob.yaml"

    def render(self, scheduled: Scheduled) -> dict[str, str]:
        engine = scheduled.engine
        require(isinstance(engine, Kubernetes), f"--to kubernetes with runs on {engine.name}", error=SpecError,
                why="a pod of Kubernetes cannot submit runs to it", fix="use --on with kind: kubernetes")
        assert isinstance(engine, Kubernetes)
        pods = engine.asked
        for what, path in (("the schedule", scheduled.folder), *(("the file", path) for path in scheduled.files)):
            pods.require_on_volume(what, path)
        name = _name(scheduled.name)
        labels = pods.labelled(name)
        account = {"kind": "ServiceAccount", "name": name, "namespace": pods.namespace}
        made = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": pods.metadata(name, labels)},
            {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": pods.metadata(name, labels),
             "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": list(VERBS)}]},
            {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": pods.metadata(name, labels),
             "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": [account]},
            {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": pods.metadata(name, labels),
             "spec": self._times(scheduled, pods, labels)}]
        return {self.file: f"# dssl: {scheduled.name}, {scheduled.times.in_words()} (UTC)\n# kubectl apply -f "
                           f"{self.file}\n{yaml_text(*made)}"}

    def _times(self, scheduled: Scheduled, pods: KubernetesRuntime, labels: Mapping[str, str]) -> JsonObject:
        """Return the spec of the CronJob; its pod starts once, because a firing repeats a failed run itself."""
        pod = pods.pod(["dssl", "fire", str(scheduled.folder)], scheduled.cwd, {}, memory=MEMORY,
                       cores=pods.threads_per_worker)
        pod |= {"automountServiceAccountToken": True, "serviceAccountName": labels["app.kubernetes.io/instance"]}
        return {
            "schedule": scheduled.times.text, "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": DEADLINE, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 3,
            "jobTemplate": {"metadata": {"labels": dict(labels)}, "spec": {
                "backoffLimit": 0, "template": {"metadata": {"labels": dict(labels)}, "spec": pod}}}}

    def install(self, scheduled: Scheduled, files: Mapping[str, Path]) -> None:
        assert isinstance(scheduled.engine, Kubernetes)
        scheduled.engine.kubectl("apply", "--filename", str(files[self.file]))

    def has(self, name: str, folder: Path) -> bool:
        listed = run_command(["kubectl", "get", "--ignore-not-found", "--output=name", "--filename",
                              str(folder / self.file)], fix=FIX)
        return any(line.startswith("cronjob.batch/") for line in listed.splitlines())

    def remove(self, name: str, folder: Path) -> None:
        run_command(["kubectl", "delete", "--ignore-not-found", "--filename", str(folder / self.file)], fix=FIX)


def _name(name: str) -> str:
    """Return the name of a schedule in Kubernetes: small letters, digits and hyphens, not too long."""
    stem, _, digest = name.rpartition("-")
    return f"dssl-{re.sub('[^a-z0-9]+', '-', stem.lower()).strip('-')[:32].strip('-')}-{digest}".replace("--", "-")

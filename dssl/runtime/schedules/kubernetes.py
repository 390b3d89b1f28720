"""Schedules of Kubernetes: a CronJob, whose pod submits each run as a separate Job and waits for it."""

import re
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path

from ...base.digest import JsonObject
from ...base.errors import SpecError, require
from ...base.yaml import yaml_text
from ..engine import run_command
from ..kubernetes import FIX, Kubernetes
from .schedule import Scheduled, Scheduler

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
        for what, path in (("the schedule", scheduled.folder), *(("the file", path) for path in scheduled.files)):
            engine.require_on_volume(what, path)
        name = _name(scheduled.name)
        labels = engine.labelled(name)
        account = {"kind": "ServiceAccount", "name": name, "namespace": engine.namespace}
        made = [
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": engine.metadata(name, labels)},
            {"apiVersion": f"{RBAC}/v1", "kind": "Role", "metadata": engine.metadata(name, labels),
             "rules": [{"apiGroups": ["batch"], "resources": ["jobs"], "verbs": list(VERBS)}]},
            {"apiVersion": f"{RBAC}/v1", "kind": "RoleBinding", "metadata": engine.metadata(name, labels),
             "roleRef": {"apiGroup": RBAC, "kind": "Role", "name": name}, "subjects": [account]},
            {"apiVersion": "batch/v1", "kind": "CronJob", "metadata": engine.metadata(name, labels),
             "spec": self._times(scheduled, engine, labels)}]
        return {self.file: f"# dssl: {scheduled.name}, {scheduled.times.in_words()} (UTC)\n# kubectl apply -f "
                           f"{self.file}\n{yaml_text(*made)}"}

    def _times(self, scheduled: Scheduled, engine: Kubernetes, labels: Mapping[str, str]) -> JsonObject:
        """Return the spec of the CronJob; its pod starts once, because a firing repeats a failed run itself."""
        pod = engine.pod(["dssl", "fire", str(scheduled.folder)], scheduled.cwd, {}, memory=MEMORY)
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

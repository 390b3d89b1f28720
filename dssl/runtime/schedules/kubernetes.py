"""A schedule that Kubernetes keeps: a CronJob, whose pod hands each run over as a Job of its own and waits for it."""

import re
from collections.abc import Mapping
from datetime import UTC
from pathlib import Path
from typing import Any

from ...base.errors import SpecError, require
from ...base.yaml import yaml_text
from ..engine import asked
from ..kubernetes import FIX, Kubernetes
from .schedule import Scheduled, Scheduler

LATE = 3600  # seconds after its time at which a firing is still started
MEMORY = 1 << 30  # bytes of the pod that plans, hands over and waits
VERBS = ("get", "list", "watch", "create", "delete")  # what `kubectl` does with the jobs of runs
RBAC = "rbac.authorization.k8s.io"


class CronJobs(Scheduler):
    """A CronJob, and an account that may hand over Jobs in its namespace and nothing else."""

    zone = UTC
    file = "cronjob.yaml"

    def render(self, scheduled: Scheduled) -> dict[str, str]:
        engine = scheduled.engine
        require(isinstance(engine, Kubernetes), f"--to kubernetes with runs on {engine.name}", error=SpecError,
                why="a pod of Kubernetes cannot hand runs over to it", fix="use --on with kind: kubernetes")
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

    def _times(self, scheduled: Scheduled, engine: Kubernetes, labels: Mapping[str, str]) -> dict[str, Any]:
        """Return the spec of the CronJob: a firing tries again by itself, so that its pod is started once."""
        pod = engine.pod(["dssl", "fire", str(scheduled.folder)], scheduled.cwd, {}, memory=MEMORY)
        pod |= {"automountServiceAccountToken": True, "serviceAccountName": labels["app.kubernetes.io/instance"]}
        return {
            "schedule": scheduled.times.text, "timeZone": "Etc/UTC", "concurrencyPolicy": "Forbid",
            "startingDeadlineSeconds": LATE, "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 3,
            "jobTemplate": {"metadata": {"labels": dict(labels)}, "spec": {
                "backoffLimit": 0, "template": {"metadata": {"labels": dict(labels)}, "spec": pod}}}}

    def install(self, scheduled: Scheduled, files: Mapping[str, Path]) -> None:
        assert isinstance(scheduled.engine, Kubernetes)
        scheduled.engine.kubectl("apply", "--filename", str(files[self.file]))

    def has(self, name: str, folder: Path) -> bool:
        listed = asked(["kubectl", "get", "--ignore-not-found", "--output=name", "--filename", str(folder / self.file)],
                       fix=FIX)
        return any(line.startswith("cronjob.batch/") for line in listed.splitlines())

    def remove(self, name: str, folder: Path) -> None:
        asked(["kubectl", "delete", "--ignore-not-found", "--filename", str(folder / self.file)], fix=FIX)


def _name(name: str) -> str:
    """Return the name of a schedule as Kubernetes takes it: small letters, digits and hyphens, not too long."""
    stem, _, digest = name.rpartition("-")
    return f"dssl-{re.sub('[^a-z0-9]+', '-', stem.lower()).strip('-')[:32].strip('-')}-{digest}".replace("--", "-")

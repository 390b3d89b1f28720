"""What stands in for a Kubernetes: an API server that takes Jobs, and a controller that keeps their pods as processes.

It does for Jobs what the documentation of `batch/v1` says of Indexed ones, as far as dssl relies on it: the variables
and the signals of a pod, who is replaced after which end, and when the job has ended. Images, volumes, networks and
security contexts are not there: each pod is a process of this machine, with only the variables that its manifest sets.
The `kubectl` that speaks to it is the real one.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from contextlib import suppress
from http.server import ThreadingHTTPServer
from pathlib import Path

import kubernetes_validate
import psutil

from .machines import JsonHandler

VERSION = "1.37"
KINDS = {"jobs": "Job", "cronjobs": "CronJob", "roles": "Role", "rolebindings": "RoleBinding",
         "serviceaccounts": "ServiceAccount"}
GROUPS = {"batch": ("jobs", "cronjobs"), "rbac.authorization.k8s.io": ("roles", "rolebindings")}
CORE = ("serviceaccounts",)
PAUSE = 0.5  # seconds before a pod is replaced; Kubernetes takes 10, 20, 40, ...
NOTICE = 20.0  # seconds that a pod has after SIGTERM


def validated(manifest):
    """Check an object against the schemas of Kubernetes, which know all its keys; return it."""
    kubernetes_validate.validate(manifest, VERSION, strict=True)
    return manifest


def processor():
    """Return the variables by which this machine is told which kernels to use, since others round differently."""
    return {name: value for name, value in os.environ.items() if name.startswith(("OPENBLAS_", "NPY_"))}


class Pod:
    """One process of a job."""

    def __init__(self, template, index, environment):
        container = template["spec"]["containers"][0]
        own = {entry["name"]: entry.get("value", "127.0.0.1") for entry in container["env"]}
        del own["NUMBA_CACHE_DIR"]  # this machine has compiled the functions beside their files
        command = container["command"]
        assert command[0] == "dssl"
        # The interpreter's folder is where the image has `dssl`.
        self.process = subprocess.Popen(
            [sys.executable, "-m", "dssl", *command[1:]], cwd=container["workingDir"], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={"PATH": os.environ["PATH"], **processor(), **own, **environment, "JOB_COMPLETION_INDEX": str(index)})
        self.disrupted = False

    def stop(self):
        """End it as Kubernetes does."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(NOTICE)
        self.kill()

    def kill(self):
        """Kill all of its processes, as the end of a machine does."""
        with suppress(psutil.NoSuchProcess):
            process = psutil.Process(self.process.pid)
            for one in (*process.children(recursive=True), process):
                with suppress(psutil.NoSuchProcess):
                    one.kill()
        self.process.wait()


class IndexedJob:
    """A job and the thread that keeps its pods; without an environment none are started."""

    def __init__(self, manifest, environment):
        self.manifest, self.environment = manifest, environment
        self.spec = manifest["spec"]
        self.pods, self.failures, self.condition, self.deleted = {}, {}, None, False
        if environment is not None:
            threading.Thread(target=self._keep, daemon=True).start()

    def shown(self):
        conditions = [{"type": self.condition, "status": "True"}] if self.condition else []
        return self.manifest | {"status": {"conditions": conditions, "failed": sum(self.failures.values())}}

    def _keep(self):
        for index in range(self.spec["completions"]):
            self._start(index)
        done, wanted = set(), set(self.spec["successPolicy"]["rules"][0]["succeededIndexes"].split(","))
        while not self.deleted and self.condition is None:
            time.sleep(0.1)
            for index, pod in list(self.pods.items()):
                if index in done or (code := pod.process.poll()) is None:
                    continue
                if code == 0:
                    done.add(index)
                    if wanted <= {str(own) for own in done}:
                        self.condition = "Complete"
                else:
                    self._replace(index, pod, code if code > 0 else 128 - code)
        for pod in self.pods.values():
            pod.stop()

    def _replace(self, index, pod, code):
        action = next((rule["action"] for rule in self.spec["podFailurePolicy"]["rules"]
                       if (pod.disrupted if "onPodConditions" in rule else code in rule["onExitCodes"]["values"])),
                      "Count")
        if action == "FailJob":
            self.condition = "Failed"
            return
        self.failures[index] = self.failures.get(index, 0) + (action == "Count")
        if self.failures[index] <= self.spec["backoffLimitPerIndex"]:
            time.sleep(PAUSE)
            self._start(index)

    def _start(self, index):
        self.pods[index] = Pod(self.spec["template"], index, self.environment)


class Kubernetes:
    """An API server on loopback; `variables` are those with which kubectl finds it."""

    def __init__(self, folder: Path, environment=None):
        self.environment, self.jobs, self.objects = environment, {}, {}
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.variables = {"KUBECONFIG": str(folder / "kubeconfig"), "KUBECACHEDIR": str(folder / "kubecache")}
        (folder / "kubeconfig").write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "here", "users": [{"name": "me", "user": {}}],
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}]}))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def end(self):
        self.server.shutdown()
        self.server.server_close()
        for job in self.jobs.values():
            job.deleted = True
            for pod in job.pods.values():
                pod.kill()

    def _handler(self):
        cluster = self

        class Handler(JsonHandler):
            def refuse(self, code, reason, name):
                self.answer(code, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason,
                                "code": code, "message": f'"{name}": {reason}', "details": {"name": name}})

            def do_GET(self):
                path = self.path.split("?")[0].strip("/").split("/")
                if "namespaces" in path and len(path) >= 2:
                    found = cluster.shown(path[-2], path[-1])
                    self.answer(200, found) if found else self.refuse(404, "NotFound", path[-1])
                elif found := cluster.discovered(path):
                    self.answer(200, found)
                else:
                    self.refuse(404, "NotFound", self.path)

            def do_POST(self):
                kind = self.path.split("?")[0].strip("/").split("/")[-1]
                manifest = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                name = manifest["metadata"]["name"]
                if cluster.shown(kind, name):
                    self.refuse(409, "AlreadyExists", name)
                else:
                    self.answer(201, cluster.create(kind, manifest))

            def do_DELETE(self):
                kind, name = self.path.split("?")[0].strip("/").split("/")[-2:]
                if cluster.shown(kind, name):
                    cluster.delete(kind, name)
                    self.answer(200, {"kind": "Status", "apiVersion": "v1", "status": "Success"})
                else:
                    self.refuse(404, "NotFound", name)

        return Handler

    def discovered(self, path):
        """Return what kubectl asks about the server, and which kinds it has."""
        def listed(group, names):
            return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group, "resources": [
                {"name": name, "kind": KINDS[name], "singularName": "", "namespaced": True,
                 "verbs": ["create", "delete", "get"]} for name in names]}

        if path == ["openapi", "v3"]:
            return {"paths": {f"apis/{name}/v1": {"serverRelativeURL": f"/openapi/v3/apis/{name}/v1"}
                              for name in GROUPS} | {"api/v1": {"serverRelativeURL": "/openapi/v3/api/v1"}}}
        if path[:2] == ["openapi", "v3"]:  # that the server checks what it is given
            group = "" if path[2] == "api" else path[3]
            return {"openapi": "3.0.0", "info": {"title": "", "version": ""}, "paths": {f"/{name}": {"patch": {
                "parameters": [{"name": "fieldValidation", "in": "query"}], "responses": {},
                "x-kubernetes-group-version-kind": {"group": group, "version": "v1", "kind": KINDS[name]}}}
                for name in GROUPS.get(group, CORE)}}
        if path == ["api"]:
            return {"kind": "APIVersions", "versions": ["v1"]}
        if path == ["apis"]:
            versions = {name: {"groupVersion": f"{name}/v1", "version": "v1"} for name in GROUPS}
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [
                {"name": name, "versions": [version], "preferredVersion": version}
                for name, version in versions.items()]}
        if path == ["api", "v1"]:
            return listed("v1", CORE)
        if path[0] == "apis" and len(path) == 3:
            return listed(f"{path[1]}/v1", GROUPS[path[1]])
        return None

    def shown(self, kind, name):
        if kind == "jobs":
            return self.jobs[name].shown() if name in self.jobs else None
        return self.objects.get((kind, name))

    def create(self, kind, manifest):
        validated(manifest)
        manifest["metadata"]["uid"] = str(uuid.uuid4())
        if kind == "jobs":
            self.jobs[manifest["metadata"]["name"]] = IndexedJob(manifest, self.environment)
        else:
            self.objects[kind, manifest["metadata"]["name"]] = manifest
        return manifest

    def delete(self, kind, name):
        if kind == "jobs":
            self.jobs.pop(name).deleted = True
        else:
            del self.objects[kind, name]

"""What stands in for a Kubernetes with the Dask operator: an API server whose Deployments are processes.

It does what `dask_kubernetes.operator.controller` does, with that module's own functions where they make objects: for a
DaskCluster a Deployment and a Service of the scheduler and a DaskWorkerGroup, for a worker a Deployment, and for a
DaskAutoscaler workers as many as the scheduler says by HTTP. Each object is validated: custom resources by their
definitions in dask-kubernetes, others by the schemas of Kubernetes. Images, volumes, networks and security contexts are
not there.
"""

import json
import os
import subprocess
import sys
import threading
import uuid
from contextlib import suppress
from http.server import ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from urllib.request import Request, urlopen

import dask_kubernetes
import jsonschema
import yaml

from ..faults.machines import REPOSITORY
from .kubernetes import validated
from .machines import JsonHandler, free_port

CRDS = Path(dask_kubernetes.__file__).parent / "operator" / "deployment" / "helm" / "dask-kubernetes-operator" / "crds"
DISCOVERY = {
    "version": {"major": "1", "minor": "33", "gitVersion": "v1.33.0"},
    "api": {"kind": "APIVersions", "versions": ["v1"]},
    "apis": {"kind": "APIGroupList", "apiVersion": "v1", "groups": []},
    "v1": {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "v1", "resources": [
        {"name": name, "kind": kind, "singularName": kind.lower(), "namespaced": True, "verbs": ["get", "list"]}
        for name, kind in (("pods", "Pod"), ("services", "Service"))]}}


def valid_resource(made):
    """Check an object against the definition of its custom resource; return it."""
    definition = yaml.safe_load((CRDS / f"{made['kind'].lower()}.yaml").read_text())
    schema = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    jsonschema.validate(made, schema)
    unknown = set(made["spec"]) - set(schema["properties"]["spec"]["properties"])
    assert not unknown, unknown
    return made


def merge(made, patch):
    """Change an object as a merge patch says."""
    for key, value in patch.items():
        if isinstance(value, dict) and isinstance(made.get(key), dict):
            merge(made[key], value)
        else:
            made[key] = value


class Operator:
    """An API server on loopback; `variables` are those with which kr8s finds it."""

    def __init__(self, folder: Path):
        self.folder, self.objects, self.processes, self.lock = folder, {}, {}, threading.RLock()
        self.works = True  # the operator, not the API server
        self.ports, self.errors, self.max_workers = {"8786": str(free_port()), "8787": str(free_port())}, [], 0
        self.controller = import_module("dask_kubernetes.operator.controller.controller")
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        (folder / "kubeconfig").write_text(yaml.safe_dump({
            "apiVersion": "v1", "kind": "Config", "current-context": "here", "users": [{"name": "me", "user": {}}],
            "clusters": [{"name": "here", "cluster": {"server": f"http://127.0.0.1:{self.server.server_port}"}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me", "namespace": "default"}}]}))
        self.variables = {"KUBECONFIG": str(folder / "kubeconfig")}
        self.ended = threading.Event()
        for target in (self.server.serve_forever, self._adapt):
            threading.Thread(target=target, daemon=True).start()

    def end(self):
        self.ended.set()
        self.server.shutdown()
        self.server.server_close()
        with self.lock:
            for name in list(self.processes):
                self._stop(name)

    # ---- what the controller does

    def created(self, plural, made):
        name = made["metadata"]["name"]
        valid_resource(made)
        if plural == "daskclusters" and self.works:
            pod, labels = made["spec"]["scheduler"], made["metadata"]["labels"]
            deployment = validated(self.controller.build_scheduler_deployment_spec(name, pod["spec"], {}, labels))
            service = validated(self.controller.build_scheduler_service_spec(name, pod["service"], {}, labels))
            for port in service["spec"]["ports"]:
                port["port"] = int(self.ports[str(port["port"])])
            service["metadata"]["namespace"] = "default"
            self.objects["services", service["metadata"]["name"]] = service
            self._start(f"{name}-scheduler", deployment)
            group = self.controller.build_default_worker_group_spec(name, made["spec"]["worker"], {}, labels)
            self.objects["daskworkergroups", f"{name}-default"] = valid_resource(group)
            made["status"] = {"phase": "Running"}
            self._scale(f"{name}-default")

    def changed(self, plural, name):
        if plural == "daskworkergroups":
            self._scale(name)

    def deleted(self, plural, name):
        if plural == "daskclusters":
            for key in [key for key in self.objects if key[1].startswith(name)]:
                del self.objects[key]
            for process in list(self.processes):
                self._stop(process)

    def _scale(self, group):
        made = self.objects["daskworkergroups", group]
        wanted, workers = made["spec"]["worker"]["replicas"], self.workers()
        for _ in range(wanted - len(workers)):
            deployment = validated(self.controller.build_worker_deployment_spec(
                group, "default", made["spec"]["cluster"], uuid.uuid4().hex[:10], made["spec"]["worker"]["spec"], {},
                made["metadata"]["labels"]))
            self._start(deployment["metadata"]["name"], deployment)
        if wanted < len(workers):
            retired = self._asked("retire_workers", {"n": len(workers) - wanted})
            for own in retired.values():
                self._stop(own["name"])
        self.max_workers = max(self.max_workers, len(self.workers()))

    def workers(self):
        return [name for name in self.processes if "-worker-" in name]

    def _adapt(self):
        while not self.ended.wait(0.5):
            with self.lock:
                for (plural, _), own in list(self.objects.items()):
                    if plural == "daskautoscalers":
                        group = self.objects["daskworkergroups", f"{own['spec']['cluster']}-default"]
                        desired = self._asked("adaptive_target")["workers"]
                        group["spec"]["worker"]["replicas"] = min(max(own["spec"]["minimum"], desired),
                                                                  own["spec"]["maximum"])
                        self._scale(group["metadata"]["name"])

    def _asked(self, question, parameters=None):
        """Return what the scheduler says by HTTP."""
        data = None if parameters is None else json.dumps(parameters).encode()
        asked = Request(f"http://127.0.0.1:{self.ports['8787']}/api/v1/{question}", data=data,
                        headers={"Content-Type": "application/json"})
        with urlopen(asked) as answer:
            return json.loads(answer.read())

    def _start(self, name, deployment):
        """Start the process of a Deployment's pod, with the variables of its manifest."""
        container, = deployment["spec"]["template"]["spec"]["containers"]
        own = {entry["name"]: entry.get("value", "127.0.0.1") for entry in container["env"]}
        own["DASK_SCHEDULER_ADDRESS"] = f"tcp://127.0.0.1:{self.ports['8786']}"
        words = [word.replace("$(DASK_WORKER_NAME)", own.get("DASK_WORKER_NAME", "")) for word in container["command"]]
        words = [{"0.0.0.0": "127.0.0.1", "/tmp": str(self.folder)}.get(word, word) for word in words]
        for port, free in self.ports.items():
            words = [word.replace(port, free) for word in words]
        own |= {"HOME": str(self.folder), "PATH": os.environ["PATH"], "PYTHONPATH": str(REPOSITORY),
                **{name: text for name, text in os.environ.items() if name.startswith("OPENBLAS")}}
        assert words[0] == "dask"
        with open(self.folder / f"{name}.log", "w", encoding="utf-8") as log:
            self.processes[name] = subprocess.Popen([sys.executable, "-m", *words], cwd=container["workingDir"],
                                                    env=own, stdout=log, stderr=log)

    def _stop(self, name):
        process = self.processes.pop(name)
        process.terminate()
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()

    # ---- the API

    def found(self, path, query):
        """Return an object, or a list of those with some labels."""
        plural, *names = path[path.index("default") + 1:]
        pods = {("pods", own): {
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": own, "namespace": "default"},
            "status": {"phase": "Running", "conditions": [{"type": kind, "status": str(self._ready())}
                                                          for kind in ("Ready", "ContainersReady")]}}
                for own in self.processes if own.endswith("-scheduler")}
        known = {one: own for (kind, one), own in (self.objects | pods).items() if kind == plural}
        if names:
            return known.get(names[0])
        wanted = {text.removeprefix("metadata.name=") for text in query.get("fieldSelector", [""])[0].split(",")
                  if text.startswith("metadata.name=")}
        return {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": [
            own for one, own in known.items() if wanted <= {one}]}

    def _ready(self):
        with suppress(OSError), urlopen(f"http://127.0.0.1:{self.ports['8787']}/health") as answer:
            return answer.status == 200
        return False

    def _handler(self):
        operator = self

        class Handler(JsonHandler):
            def handled(self, method):
                place = urlsplit(self.path)
                path, query = place.path.strip("/").split("/"), parse_qs(place.query)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                missing = {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "code": 404,
                           "message": f"{self.path} not found"}
                try:
                    with operator.lock:
                        made = self.done(method, path, query, json.loads(body) if body else None)
                except BaseException as error:
                    operator.errors.append(repr(error))
                    self.answer(422, missing | {"reason": "Invalid", "code": 422, "message": repr(error)})
                    return
                self.answer(200 if made else 404, made or missing)

            def done(self, method, path, query, body):
                if path[-1] in DISCOVERY:
                    return DISCOVERY[path[-1]]
                if method == "POST":
                    body["metadata"].setdefault("uid", str(uuid.uuid4()))
                    operator.objects[path[-1], body["metadata"]["name"]] = body
                    operator.created(path[-1], body)
                    return body
                if method == "GET":
                    return operator.found(path, query)
                plural, name = path[-2:]
                own = operator.objects.get((plural, name))
                if own is None:
                    return None
                if method == "DELETE":
                    del operator.objects[plural, name]
                    operator.deleted(plural, name)
                else:
                    merge(own, body)
                    operator.changed(plural, name)
                return own

            def do_GET(self):
                self.handled("GET")

            def do_POST(self):
                self.handled("POST")

            def do_PATCH(self):
                self.handled("PATCH")

            def do_DELETE(self):
                self.handled("DELETE")

        return Handler

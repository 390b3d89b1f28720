"""The containers of Docker Compose: what they may do, and their commands as processes of this machine."""

import json
import os
import re
import stat
import subprocess
import sys
from contextlib import suppress

import pytest
import yaml

from dssl.storage.files import resolved_path

from ..faults.machines import REPOSITORY, wait_until
from ..objects import free_port, moto

TEXT = (REPOSITORY / "cluster" / "manifests" / "compose.yaml").read_text()
COMPOSE = yaml.safe_load(TEXT)
SERVICES = COMPOSE["services"]
OURS = [name for name, own in SERVICES.items() if own["image"].startswith("dssl:")]
SPEC = """name: small
data: {source: two_moons, points: 200, test: {count: 60}}
labels: {per_class: 3}
model: {kind: graph}
"""
KEYS = {"build", "cap_drop", "command", "depends_on", "deploy", "entrypoint", "environment", "healthcheck", "image",
        "mem_limit", "networks", "ports", "read_only", "security_opt", "tmpfs", "user", "volumes", "working_dir"}


@pytest.mark.parametrize("name", SERVICES)
def test_a_container_may_do_little(name):
    own = SERVICES[name]
    assert set(own) <= KEYS
    assert own["user"] == "1000:1000"
    assert own["read_only"] is True
    assert own["cap_drop"] == ["ALL"]
    assert own["security_opt"] == ["no-new-privileges:true"]
    assert all(port.startswith("127.0.0.1:") for port in own.get("ports", ()))
    assert set(own["networks"]) <= set(COMPOSE["networks"])
    assert set(own.get("depends_on", ())) <= set(SERVICES)
    volumes = {volume.split(":")[0] for volume in own.get("volumes", ()) if not volume.startswith("$")}
    assert volumes <= set(COMPOSE["volumes"])


def test_the_head_names_what_must_be_set():
    head = TEXT.partition("name: dssl")[0]
    for variable in re.findall(r"\$\{(\w+)", TEXT):
        assert variable in head
    assert COMPOSE["networks"]["inner"] == {"internal": True}
    image = re.search(r"^USER (.*)$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    assert image[1] == SERVICES["driver"]["user"]


class Containers:
    """Starts the commands of the containers as processes, their folders and hosts those of this machine."""

    def __init__(self, folder, variables):
        self.folder, self.processes = folder, []
        store = variables["AWS_ENDPOINT_URL"]
        self.here = {"http://store:8333": store, "tls://scheduler:8786": f"tls://127.0.0.1:{free_port()}",
                     "${SPEC:-mine.yaml}": "mine.yaml",
                     "${AWS_ACCESS_KEY_ID:?choose one}": variables["AWS_ACCESS_KEY_ID"],
                     "${AWS_SECRET_ACCESS_KEY:?choose one}": variables["AWS_SECRET_ACCESS_KEY"], "$$": "$"}
        self.port = self.here["tls://scheduler:8786"].rpartition(":")[2]
        for name in ("work", "data", "tmp"):
            (folder / name).mkdir()

    def placed(self, text):
        for there, here in self.here.items():
            text = text.replace(there, here)
        text = re.sub(r"(?<!\w)/(work|data|tmp)\b", lambda path: f"{self.folder}{path[0]}", text)
        return self.port if text == "8786" else text

    def start(self, name):
        own = SERVICES[name]
        words = [self.placed(word) for word in [*own["entrypoint"], *own["command"]]]
        program = {"dssl": [sys.executable, "-m", "dssl"], "dask": [sys.executable, "-m", "dask"]}
        variables = {key: self.placed(str(text)) for key, text in own["environment"].items()}
        passed = {key: text for key, text in os.environ.items() if key.startswith(("OPENBLAS_C", "OPENBLAS_L"))}
        with open(self.folder / f"{name}-{len(self.processes)}.log", "w", encoding="utf-8") as log:
            process = subprocess.Popen([*program.get(words[0], words[:1]), *words[1:]], stdout=log, stderr=log,
                                       cwd=self.folder / "data", env=variables | passed | {
                                           "HOME": str(self.folder / "tmp"), "PYTHONPATH": str(REPOSITORY),
                                           "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"})
        self.processes.append(process)
        return process

    def said(self):
        return "".join(f"--- {path.name}\n{path.read_text()}" for path in self.folder.glob("*.log"))

    def end(self):
        for process in self.processes:
            process.terminate()
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            process.kill()
            process.wait()


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.extended
def test_the_commands_of_the_containers_run_a_pipeline(tmp_path, monkeypatch):
    """In the order of `depends_on`; the store is moto's, the image and its volumes are this machine."""
    with moto("dssl") as variables:
        containers = Containers(tmp_path, variables)
        (tmp_path / "data" / "mine.yaml").write_text(SPEC)
        try:
            for name in ("objects", "certs"):
                assert containers.start(name).wait(200) == 0, containers.said()
            known = json.loads((tmp_path / "work" / "s3.json").read_text())["identities"][0]["credentials"]
            assert known == [{"accessKey": variables["AWS_ACCESS_KEY_ID"],
                              "secretKey": variables["AWS_SECRET_ACCESS_KEY"]}]
            assert stat.S_IMODE((tmp_path / "work" / "s3.json").stat().st_mode) == 0o600
            description = (tmp_path / "work" / "cluster.yaml").read_text()
            assert "address: tls://scheduler:8786" in description
            (tmp_path / "work" / "cluster.yaml").write_text(description.replace("scheduler:8786", "127.0.0.1:" +
                                                                                containers.port))
            scheduler = containers.start("scheduler")
            words = SERVICES["scheduler"]["healthcheck"]["test"][2:]
            healthy = [sys.executable, *(word.replace("8786", containers.port) for word in words)]
            wait_until(lambda: subprocess.run(healthy, capture_output=True, check=False).returncode == 0,
                       "the scheduler to be healthy", 200)
            for _ in range(2):
                containers.start("worker")
            assert containers.start("driver").wait(600) == 0, containers.said()
            assert scheduler.poll() is None
        finally:
            containers.end()
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        run, = resolved_path("s3://dssl/work/runs").iterdir()
        assert (run / "result.json").is_file()
    assert containers.said().count("Registered to: ") == 2
    assert variables["AWS_SECRET_ACCESS_KEY"] not in containers.said()

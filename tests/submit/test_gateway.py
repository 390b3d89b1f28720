"""Runs on a real Dask Gateway, whose clusters are processes of this machine."""

import os
import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from urllib.request import urlopen

import dask
import pytest
import yaml

from dssl.base.errors import DsslError
from dssl.runtime.gateway import GatewayRuntime
from dssl.runtime.start import load_runtime

from ..faults.machines import BUDGET, REPOSITORY, wait_until
from ..stored import contents
from .machines import Submitted, free_port

PASSWORD = "hush-3141592653"
CONFIG = """
import os
import sys
from dask_gateway_server.options import Options, Integer
c.DaskGateway.backend_class = "dask_gateway_server.backends.local.UnsafeLocalBackend"
c.DaskGateway.authenticator_class = "dask_gateway_server.auth.SimpleAuthenticator"
c.SimpleAuthenticator.password = "{password}"
c.DaskGateway.address = "127.0.0.1:0"
c.Proxy.address = "127.0.0.1:{port}"
c.Backend.cluster_options = Options(Integer("worker_cores", 1, min=1, max=2))
c.ClusterConfig.scheduler_cmd = [sys.executable, "-m", "distributed.cli.dask_scheduler"]
c.ClusterConfig.worker_cmd = [sys.executable, "-m", "distributed.cli.dask_worker"]
c.LocalBackend.sigint_timeout = 2
c.LocalBackend.inherited_environment = list(os.environ)  # such as OPENBLAS_CORETYPE, on which last bits depend
"""
VARIABLES = {"DASK_GATEWAY__AUTH__TYPE": "basic", "DASK_GATEWAY__AUTH__KWARGS__PASSWORD": PASSWORD}


class Gateway:
    def __init__(self, folder):
        self.folder, port = folder, free_port()
        self.address = f"http://127.0.0.1:{port}"
        (folder / "gateway.py").write_text(CONFIG.format(port=port, password=PASSWORD))
        with open(folder / "gateway.log", "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([sys.executable, "-m", "dask_gateway_server", "--config", "gateway.py"],
                                            cwd=folder, stdout=log, stderr=log,
                                            env=os.environ | {"PYTHONPATH": str(REPOSITORY)})
        wait_until(self._answers, "the gateway")

    def _answers(self):
        with suppress(OSError), urlopen(f"{self.address}/api/health") as answer:
            return answer.status == 200
        return False

    def log(self):
        return (self.folder / "gateway.log").read_text()

    def end(self):
        self.process.terminate()
        self.process.wait(30)


@pytest.fixture(scope="module")
def gateway(tmp_path_factory):
    import_module("dask_gateway")  # which adds its settings to Dask's
    made = Gateway(tmp_path_factory.mktemp("gateway"))
    yield made
    made.end()


@pytest.mark.cluster
@pytest.mark.slow
def test_a_run_on_a_gateway(gateway, undisturbed, tmp_path):
    """The artifacts have the bytes of an undisturbed run; the cluster is given back, and the password is nowhere."""
    made = Submitted(tmp_path, yaml.safe_dump({"kind": "gateway", "workers": 2, "join_timeout": 60,
                                               "address": gateway.address, "options": {"worker_cores": 1}}))
    done = subprocess.run([sys.executable, "-m", "dssl", "run", made.spec, "--on", made.cluster, "--memory-budget",
                           BUDGET, "--workspace", made.workspace], env=made.environment | VARIABLES,
                          capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    found = contents(made.workspace)
    assert [name for name in undisturbed if found.get(name) != undisturbed[name]] == []
    wait_until(lambda: "Stopping cluster" in gateway.log(), "the cluster to be given back")
    assert PASSWORD not in done.stdout + done.stderr
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and PASSWORD.encode() in path.read_bytes()]


@pytest.mark.cluster
@pytest.mark.slow
@pytest.mark.parametrize(("fields", "password", "code", "message"), [
    ({}, "guess", 4, r"refuses you \(401"), ({"options": {"worker_memory": 4}}, PASSWORD, 2, "choose worker_cores"),
    ({"options": {"worker_cores": 7}}, PASSWORD, 2, "options: worker_cores: 7"),
    ({"address": "{address}/elsewhere"}, PASSWORD, 4, "gives no cluster"),
    ({"address": "http://127.0.0.1:9"}, PASSWORD, 4, "gives no cluster"),
], ids=["password", "unknown option", "value of an option", "no gateway", "nobody there"])
def test_what_a_gateway_refuses_has_its_message(gateway, fields, password, code, message):
    fields = {"address": "{address}"} | fields
    address = fields.pop("address").format(address=gateway.address)
    runtime = GatewayRuntime(address=address, workers=2, **fields)
    with dask.config.set({"gateway.auth.type": "basic", "gateway.auth.kwargs": {"password": password}}), \
            pytest.raises(DsslError, match=message) as error, runtime.start(1 << 28):
        pass
    assert error.value.exit_code == code


@pytest.mark.parametrize(("address", "message"), [
    ("http://gateway.example", "neither encrypted nor on this machine"), ("tls://head:8786", "is not a gateway"),
    ("https://me:hush@gateway.example", "credentials never belong in a URL")])
def test_a_gateway_is_reached_by_https_alone(tmp_path, address, message):
    path = tmp_path / "gateway.yaml"
    path.write_text(f"{{kind: gateway, workers: 2, address: '{address}'}}")
    with pytest.raises(ValueError, match=message) as error:
        load_runtime(path)
    assert "hush" not in str(error.value)


def test_a_network_that_is_trusted(tmp_path):
    (tmp_path / "gateway.yaml").write_text("{kind: gateway, workers: 2, address: 'http://gateway.example', "
                                           "insecure: true, join_timeout: 7}")
    assert load_runtime(tmp_path / "gateway.yaml").patience == 7
